//! Custom resources move to a new version of their chart step by step.

use crate::harness::{Operator, Space, eventually};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A chart whose objects say which version of it made them. Version 2 takes no text as `size`, and does not work with `fails`.
pub fn chart(space: &Space, version: &str, more: &str) -> PathBuf {
    let folder = space.dir().join("charts/app");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("Chart.yaml", &format!("apiVersion: v2\nname: app\nversion: {version}\n"));
    let size = if version.starts_with('1') { "\"\"" } else { "1" };
    write("values.yaml", &format!("text: hello\nfails: \"\"\nsize: {size}\n"));
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  \
                    version: {{ .Chart.Version | quote }}\n  text: {{ .Values.text | quote }}\n";
    write("templates/a.yaml", &format!("{template}{more}"));
    folder
}

/// What makes a new version fail where a custom resource says so: an object that the API server refuses.
pub const BROKEN: &str = "{{- if eq .Values.fails .Chart.Version }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
                      name: {{ .Release.Name }}-NOT-ALLOWED\n{{- end }}\n";

pub fn operator(space: &Space, chart: &Path, rollout: &Value, more: &str) -> Operator {
    let text = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n  rollout: {rollout}\n{more}",
        chart.display()
    );
    space.operator(&space.file("watches.yaml", &text), &[])
}

/// The progress that the Secret of the newest chart shows.
fn progress(space: &Space) -> Result<Value, String> {
    let secrets = space.list("secrets")?;
    let of_charts = secrets.iter().filter(|secret| secret["type"] == "tillerman.dev/chart.v1");
    let reports = of_charts.filter_map(|secret| {
        let text = secret["metadata"]["annotations"]["tillerman.dev/rollout"].as_str()?;
        Some((secret["metadata"]["creationTimestamp"].to_string(), serde_json::from_str::<Value>(text).ok()?))
    });
    reports
        .max_by(|a, b| (&a.0, a.1["chart"].to_string()).cmp(&(&b.0, b.1["chart"].to_string())))
        .map(|found| found.1)
        .ok_or_else(|| "no report".to_owned())
}

pub fn wait_progress(space: &Space, chart: &str, phase: &str, counts: &Value) -> Value {
    eventually(&format!("the roll-out of {chart} is {phase}, {counts}"), || {
        let said = progress(space)?;
        let fits = counts.as_object().unwrap().iter().all(|(field, count)| said[field] == *count);
        if said["chart"] == chart && said["phase"] == phase && fits { Ok(said) } else { Err(said.to_string()) }
    })
}

fn version(space: &Space, name: &str) -> String {
    space.get(&format!("configmap/{name}")).unwrap()["data"]["version"].as_str().unwrap_or_default().to_owned()
}

fn versions(space: &Space, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| version(space, name)).collect()
}

#[test]
fn a_roll_out_begins_with_canaries_stops_at_a_failure_and_resumes_after_the_fix() {
    let space = Space::new("rollout");
    let rollout = json!({"maxConcurrent": 2, "canary": {"matchLabels": {"tier": "canary"}}});
    let names = ["a", "b", "c", "d", "e"];
    let operator = self::operator(&space, &chart(&space, "1.0.0", ""), &rollout, "");
    for name in names {
        let spec = if name == "e" { json!({"fails": "2.0.0"}) } else { json!({}) };
        space.apply("Web", name, &spec);
    }
    // A text where version 2 has a number.
    space.apply("Web", "f", &json!({"size": "large"}));
    space.kubectl(&["label", "web", "e", "tier=canary"]).unwrap();
    wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 6}));
    operator.rests(&space, 2);
    assert!(operator.stop());
    // So it is for an operator that finds no chart in a record.
    space.kubectl(&["annotate", "secret/sh.helm.release.v1.b.v1", "tillerman.dev/chart-"]).unwrap();
    let operator = self::operator(&space, &chart(&space, "1.0.0", ""), &rollout, "");
    operator.settle();
    wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 6, "moving": 0}));
    let chart_of_b =
        space.get("secret/sh.helm.release.v1.b.v1").unwrap()["metadata"]["annotations"]["tillerman.dev/chart"].clone();
    assert_eq!(chart_of_b, Value::Null);
    assert!(operator.stop());

    // A new image has the new chart alone. Its canary fails, and goes back to the version before.
    let operator = self::operator(&space, &chart(&space, "2.0.0", BROKEN), &rollout, "");
    let said = wait_progress(&space, "app-2.0.0", "Stopped", &json!({"failed": 1, "waiting": 4, "left": 1}));
    assert_eq!(said["failures"], json!([format!("{}/e: Invalid", space.name)]), "{said}");
    assert_eq!(
        said["leftOut"],
        json!([format!("{}/f: the new chart does not accept spec.size", space.name)]),
        "{said}"
    );
    space.wait("web/e", "Stalled", "True");
    // It is stalled from its failure on, and goes back in the pass after that.
    space.wait_field("configmap/e", "/data/version", &json!("1.0.0"));
    assert_eq!(versions(&space, &names), ["1.0.0"; 5]);
    // Who has not moved is served with the chart before: changes, and repairs.
    space.apply("Web", "a", &json!({"text": "changed"}));
    space.wait_field("configmap/a", "/data/text", &json!("changed"));
    assert_eq!(version(&space, "a"), "1.0.0");
    space.delete("configmap/b");
    space.wait_field("configmap/b", "/data/version", &json!("1.0.0"));
    // What a person does with Helm is taken back, to the version that it has.
    space.helm(&["upgrade", "c", &space.dir().join("charts/app").display().to_string(), "--set", "text=mine"]).unwrap();
    space.wait_field("configmap/c", "/data/text", &json!("hello"));
    space.wait_field("configmap/c", "/data/version", &json!("1.0.0"));
    // Nor does anybody hold up others with a new custom resource that fails.
    space.apply("Web", "h", &json!({"fails": "2.0.0"}));
    space.wait("web/h", "Stalled", "True");
    wait_progress(&space, "app-2.0.0", "Stopped", &json!({"failed": 1}));
    space.delete("web/h");
    space.wait_gone("web/h");
    operator.rests(&space, 2);
    // Nor does another start touch anybody.
    assert!(operator.stop());
    let operator = self::operator(&space, &chart(&space, "2.0.0", BROKEN), &rollout, "");
    operator.settle();
    wait_progress(&space, "app-2.0.0", "Stopped", &json!({"failed": 1, "waiting": 4}));
    assert_eq!(versions(&space, &names), ["1.0.0"; 5]);
    assert!(operator.stop());

    // The fix is a new chart. Now all move, but for the one whose values it does not take.
    let operator = self::operator(&space, &chart(&space, "2.0.1", BROKEN), &rollout, "");
    wait_progress(&space, "app-2.0.1", "Complete", &json!({"ready": 5, "left": 1, "failed": 0}));
    assert_eq!(versions(&space, &names), ["2.0.1"; 5]);
    assert_eq!(version(&space, "f"), "1.0.0");
    space.wait("web/e", "Ready", "True");
    // It moves when its values fit.
    space.apply("Web", "f", &json!({"size": 3}));
    space.wait_field("configmap/f", "/data/version", &json!("2.0.1"));
    wait_progress(&space, "app-2.0.1", "Complete", &json!({"ready": 6, "left": 0}));
    // A new custom resource gets the newest chart at once.
    space.apply("Web", "g", &json!({}));
    space.wait_field("configmap/g", "/data/version", &json!("2.0.1"));
    operator.rests(&space, 2);
    assert!(operator.stop());
}

#[test]
fn a_chart_that_fails_is_withdrawn_and_who_had_moved_goes_back() {
    let space = Space::new("withdrawn");
    let rollout = json!({"maxConcurrent": 1, "onFailure": "RollBack"});
    let names = ["a", "b", "c"];
    let operator = self::operator(&space, &chart(&space, "1.0.0", ""), &rollout, "");
    for name in names {
        space.apply("Web", name, &if name == "b" { json!({"fails": "2.0.0"}) } else { json!({}) });
    }
    wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 3}));
    assert!(operator.stop());
    let operator = self::operator(&space, &chart(&space, "2.0.0", BROKEN), &rollout, "");
    eventually("the chart is withdrawn", || {
        let secrets = space.list("secrets")?;
        let has = |secret: &&Value| secret["metadata"]["annotations"].get("tillerman.dev/withdrawn").is_some();
        secrets.iter().find(has).map(drop).ok_or("not yet".to_owned())
    });
    let said = wait_progress(&space, "app-1.0.0", "RolledBack", &json!({"ready": 3}));
    assert_eq!(said["withdrawn"], "app-2.0.0");
    assert_eq!(versions(&space, &names), ["1.0.0"; 3]);
    for name in names {
        space.wait(&format!("web/{name}"), "Ready", "True");
    }
    assert!(operator.stop());
    // It stays withdrawn for an operator that starts again.
    let operator = self::operator(&space, &chart(&space, "2.0.0", BROKEN), &rollout, "");
    operator.settle();
    assert_eq!(versions(&space, &names), ["1.0.0"; 3]);
    assert!(operator.stop());
}

#[test]
fn a_custom_resource_keeps_a_version_where_the_kind_allows_it() {
    let space = Space::new("pinned");
    let allow = "  allow: [chartVersion]\n";
    let operator = self::operator(&space, &chart(&space, "1.0.0", ""), &json!({}), allow);
    space.apply("Web", "a", &json!({}));
    space.apply_with("Web", "b", &json!({"tillerman.dev/chart-version": "1.0.0"}), &json!({}));
    wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 2}));
    assert!(operator.stop());
    let operator = self::operator(&space, &chart(&space, "1.1.0", ""), &json!({}), allow);
    wait_progress(&space, "app-1.1.0", "Complete", &json!({"ready": 1, "left": 1}));
    assert_eq!(versions(&space, &["a", "b"]), ["1.1.0", "1.0.0"]);
    // It is an ordinary custom resource of that version.
    space.apply_with("Web", "b", &json!({"tillerman.dev/chart-version": "1.0.0"}), &json!({"text": "new"}));
    space.wait_field("configmap/b", "/data/text", &json!("new"));
    assert_eq!(version(&space, "b"), "1.0.0");
    // A version that is not kept is refused by name, and the release stays.
    space.kubectl(&["annotate", "web", "b", "--overwrite", "tillerman.dev/chart-version=9"]).unwrap();
    let why = eventually("the version is unknown", || {
        let condition = space.condition("web/b", "Irreconcilable")?;
        let message = condition["message"].as_str().unwrap_or_default().to_owned();
        if condition["status"] == "True" { Ok(message) } else { Err(message) }
    });
    assert!(why.contains("version \"9\"") && why.ends_with("versions that are kept: 1.0.0, 1.1.0"), "{why}");
    assert_eq!(version(&space, "b"), "1.0.0");
    space.kubectl(&["annotate", "web", "b", "tillerman.dev/chart-version-"]).unwrap();
    space.wait_field("configmap/b", "/data/version", &json!("1.1.0"));
    assert!(operator.stop());
    // A Secret whose chart is not the one that its name says is not a chart.
    let kept = space.list("secrets").unwrap();
    let of = |label: &str| kept.iter().find(|secret| secret["metadata"]["annotations"]["chart"] == label).unwrap();
    let other = json!({"data": of("app-1.1.0")["data"]}).to_string();
    let name = of("app-1.0.0")["metadata"]["name"].as_str().unwrap();
    space.kubectl(&["patch", "secret", name, "--type=merge", "-p", &other]).unwrap();
    let operator = self::operator(&space, &chart(&space, "1.1.0", ""), &json!({}), allow);
    space.kubectl(&["annotate", "web", "b", "--overwrite", "tillerman.dev/chart-version=1.0.0"]).unwrap();
    eventually("the version is not kept any more", || {
        let condition = space.condition("web/b", "Irreconcilable")?;
        let message = condition["message"].as_str().unwrap_or_default().to_owned();
        if message.ends_with("versions that are kept: 1.1.0") { Ok(()) } else { Err(message) }
    });
    assert!(operator.log().contains("a kept chart cannot be used"), "{}", operator.log());
    space.kubectl(&["annotate", "web", "b", "tillerman.dev/chart-version-"]).unwrap();
    assert!(operator.stop());
    // Where the kind does not allow it, the annotation changes nothing.
    let operator = self::operator(&space, &chart(&space, "1.1.0", ""), &json!({}), "");
    space.apply_with("Web", "c", &json!({"tillerman.dev/chart-version": "1.0.0"}), &json!({}));
    space.wait_field("configmap/c", "/data/version", &json!("1.1.0"));
    space.wait("web/c", "AnnotationsIgnored", "True");
    assert!(operator.stop());
}

#[test]
fn nobody_holds_up_others_with_a_time_to_come_or_with_a_spec_that_nobody_can_read() {
    let space = Space::new("hostile-rollout");
    let operator = self::operator(&space, &chart(&space, "1.0.0", ""), &json!({}), "");
    for name in ["a", "b", "c"] {
        space.apply("Web", name, &json!({}));
    }
    wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 3}));
    assert!(operator.stop());
    space.kubectl(&["annotate", "web", "b", "tillerman.dev/paused=true"]).unwrap();
    let deep = (0..105).fold(json!(1), |inner, _| json!({ "a": inner }));
    space.apply("Web", "c", &json!({ "text": deep }));
    let operator = self::operator(&space, &chart(&space, "1.1.0", ""), &json!({}), "");
    let said = wait_progress(&space, "app-1.1.0", "Complete", &json!({"ready": 1, "left": 2}));
    let left = json!([format!("{}/b: it is paused", space.name), format!("{}/c: its spec cannot be read", space.name)]);
    assert_eq!(said["leftOut"], left, "{said}");
    // Who may edit Secrets may write any time into a record.
    let record = "secret/sh.helm.release.v1.a.v2";
    space.kubectl(&["label", record, "--overwrite", "modifiedAt=253370764799"]).unwrap();
    operator.settle();
    space.kubectl(&["annotate", "web", "b", "tillerman.dev/paused-"]).unwrap();
    space.wait_field("configmap/b", "/data/version", &json!("1.1.0"));
    wait_progress(&space, "app-1.1.0", "Complete", &json!({"ready": 2, "left": 1}));
    assert!(operator.stop());
}
