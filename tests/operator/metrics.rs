//! The view from outside: metrics, the dashboard and the alerts that use them, and events that do not flood.

use crate::harness::{Space, eventually, repository};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The names of metrics in an expression of `PromQL`: words before a selector, an operator or the end that are not functions,
/// labels or keywords.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let known = regex::Regex::new(r"\b(?:tillerman|controller_runtime|workqueue|rest_client|leader_election|process|resource|helm_operator|go)_[a-z0-9_]+").unwrap();
    known.find_iter(expression).map(|m| m.as_str().to_owned()).collect()
}

/// All strings under keys of this name.
fn all<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| all(item, name, found)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == name => found.push(text),
                    other => all(other, name, found),
                }
            }
        }
        _ => {}
    }
}

fn value_of(metrics: &str, start: &str) -> u64 {
    let line = metrics.lines().find(|l| l.starts_with(start));
    line.and_then(|l| l.rsplit(' ').next()).and_then(|v| v.parse().ok()).unwrap_or(0)
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_exists() {
    let space = Space::new("metrics");
    let watches = space.watches(&[("Web", "web"), ("Failing", "failing"), ("Other", "nowhere")]);
    let operator = space.operator(&watches, &["--leader-elect"]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    space.apply("Failing", "bad", &json!({"mode": "unknown"}));
    space.wait("failing/bad", "Ready", "False");
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    eventually("it comes back", || space.get("configmap/app-config"));
    let metrics = eventually("passes are counted", || {
        let text = operator.metrics();
        let parts = [
            "tillerman_failures_total{",
            "tillerman_drift_repairs_total{",
            "workqueue_retries_total{",
            // And none is made at this moment.
            "tillerman_queue_oldest_seconds{name=\"tillerman\"} 0.0",
            "workqueue_unfinished_work_seconds{name=\"tillerman\"} 0.0",
            "workqueue_longest_running_processor_seconds{name=\"tillerman\"} 0.0",
        ];
        if parts.iter().all(|p| text.contains(p)) { Ok(text) } else { Err(text) }
    });
    let alerts: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(repository("deploy/alerts.yaml")).unwrap()).unwrap();
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(repository("deploy/dashboard.json")).unwrap()).unwrap();
    let mut expressions = Vec::new();
    all(&alerts, "expr", &mut expressions);
    all(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 20);
    for expression in expressions {
        let names = metrics_in(expression);
        assert!(!names.is_empty(), "{expression} uses no metric");
        // Those of databases are there where a database is (tests/operator/primary.rs), and those of drills where one has ended.
        let of_databases = |name: &String| {
            ["tillerman_primary_", "tillerman_member_", "tillerman_restore_proven"]
                .iter()
                .any(|of| name.starts_with(of))
        };
        for name in names.into_iter().filter(|name| !of_databases(name)) {
            let has = |l: &str| l.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert!(metrics.lines().any(has), "{name} of {expression} is not in\n{metrics}");
        }
    }
    for line in [
        "tillerman_releases{controller=\"web-controller\",state=\"progressing\"} 1",
        "tillerman_releases{controller=\"web-controller\",state=\"stalled\"} 0",
        "tillerman_passes_total{controller=\"web-controller\",verb=\"install\",outcome=\"success\"} 1",
        "tillerman_chart_usable{group=\"test.tillerman.dev\",version=\"v1\",kind=\"Other\"} 0",
        "leader_election_master_status{name=\"tillerman\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}

#[test]
fn a_release_that_changes_again_and_again_does_not_flood_events() {
    let space = Space::new("flood");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    for round in 0..41_u64 {
        space.apply("Web", "app", &json!({"greeting": format!("round {round}")}));
        space.wait_field("web/app", "/status/release/revision", &json!(round + 1));
    }
    operator.settle();
    let metrics = operator.metrics();
    assert_eq!(
        value_of(
            &metrics,
            "tillerman_passes_total{controller=\"web-controller\",verb=\"upgrade\",outcome=\"success\"}"
        ),
        40
    );
    let events = space.kubectl(&["get", "events", "--field-selector=reason=Upgraded", "-o", "name"]).unwrap();
    // client-go's limit, and one for each minute that the test took.
    assert!((25..33).contains(&events.lines().count()), "{events}");
    assert!(value_of(&metrics, "tillerman_events_left_out_total ") >= 7);
}
