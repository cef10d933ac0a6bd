//! Watches are there for releases that need them, and for nobody else.

use crate::harness::{Operator, Space, definition, eventually, eventually_within, kubectl};
use serde_json::{Value, json};

fn watches(operator: &Operator) -> u64 {
    let metrics = operator.metrics();
    let line = metrics.lines().find(|line| line.starts_with("tillerman_watches{")).unwrap_or_default();
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The resources that the operator has begun to watch so far.
fn watched(space: &Space) -> std::collections::BTreeSet<String> {
    let watch = |entry: &Value| {
        (entry["verb"] == "watch").then(|| entry["objectRef"]["resource"].as_str().unwrap_or_default().to_owned())
    };
    space.audited().iter().filter_map(watch).collect()
}

#[test]
fn a_thousand_kinds_that_an_annotation_names_start_no_watch() {
    let space = Space::new("named");
    let operator = space.operator(&space.watches(&[("Web", "web"), ("Failing", "failing")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    // As after an installation that was cut off: no record, and the chart makes nothing.
    let finalizer = json!({"metadata": {"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]}});
    space.apply("Failing", "bad", &json!({"mode": "fail"}));
    space.wait("failing/bad", "Stalled", "True");
    space.kubectl(&["patch", "failing/bad", "--type=merge", "-p", &finalizer.to_string()]).unwrap();
    operator.settle();
    let (before, seen) = (watches(&operator), watched(&space));
    let served = kubectl(&["api-resources", "--verbs=list,watch", "--no-headers", "-o", "wide"], None).unwrap();
    let kinds: Vec<String> = served
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "true" || *word == "false")?;
            let (group, version) = words[at - 1].split_once('/').unwrap_or(("", words[at - 1]));
            Some(format!("{group}/{version}/{} {}", words[at + 1], space.name))
        })
        .collect();
    assert!(kinds.len() > 30, "{kinds:?}");
    for edit in 0..1000 {
        let named = kinds.iter().cycle().skip(edit * 7).take(25).cloned().collect::<Vec<_>>().join("\n");
        let annotations = json!({"tillerman.dev/kinds": named});
        // Not every edit brings a pass: those that come together are one.
        space.apply_with("Failing", "bad", &annotations, &json!({"mode": "fail", "edit": edit}));
    }
    space.wait_field(
        "failing/bad",
        "/status/observedGeneration",
        &space.get("failing/bad").unwrap()["metadata"]["generation"],
    );
    operator.settle();
    assert_eq!(watches(&operator), before);
    let more: Vec<_> = watched(&space).difference(&seen).cloned().collect();
    assert_eq!(more, Vec::<String>::new());
    space.delete("failing/bad");
    space.wait_gone("failing/bad");
}

/// docs/design/lessons.md R13: a release that is gone needs nothing, and nobody asks for a kind that is gone, too.
#[test]
fn nothing_is_asked_for_a_kind_that_nobody_needs() {
    let space = Space::new("unneeded");
    let group = format!("{}.example.com", space.name);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}");
    crate::support::api::apply(&path, &definition(&group, "Thing")).unwrap();
    crate::harness::established(&format!("crd/things.{group}"));
    let operator = space.operator(&space.watches(&[("Web", "objects")]), &[]);
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "thing"}, "spec": {}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}});
    space.apply("Web", "stays", &json!({"objects": [config]}));
    space.apply("Web", "goes", &json!({"objects": [thing]}));
    let things = format!("things.{group}");
    space.wait("web/goes", "Ready", "True");
    space.delete("web/goes");
    space.wait_gone("web/goes");
    kubectl(&["delete", &format!("crd/{things}")], None).unwrap();
    // A kind that is waited for would be looked for every twenty seconds.
    eventually("what was asked for it has ended", || {
        if operator.log().contains("no release needs the watch now") { Ok(()) } else { Err("not yet") }
    });
    operator.rests(&space, 25);
    assert_eq!(watches(&operator), 1);
}

#[test]
fn a_watch_ends_with_its_last_release_and_begins_again_with_the_next() {
    let mut space = Space::new("last");
    space.env.extend([("TILLERMAN_HARM_ROUND", "200".into()), ("TILLERMAN_HARM_GRACE", "1000".into())]);
    let operator = space.operator(&space.watches(&[("Web", "objects")]), &[]);
    let object = |kind: &str, version: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    let config = object("ConfigMap", "v1", "config");
    for round in 0..2 {
        let account = object("ServiceAccount", "v1", "account");
        space.apply("Web", "stays", &json!({"objects": [config]}));
        space.apply("Web", "changes", &json!({"objects": [account]}));
        space.apply("Web", "goes", &json!({"objects": [object("LimitRange", "v1", "limits")]}));
        for name in ["stays", "changes", "goes"] {
            space.wait(&format!("web/{name}"), "Ready", "True");
        }
        // Three kinds; what is applied next needs one of them.
        assert!(round > 0 || watches(&operator) == 3);
        space.apply("Web", "changes", &json!({"objects": []}));
        space.delete("web/goes");
        space.wait_gone("web/goes");
        eventually_within(60, "two watches end", || match watches(&operator) {
            1 => Ok(()),
            count => Err(format!("there are {count}")),
        });
        // What is still watched is still kept.
        space.kubectl(&["delete", "configmap/config"]).unwrap();
        eventually("it comes back", || space.get("configmap/config"));
    }
}
