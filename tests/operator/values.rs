//! Values from other sources than the spec of a custom resource, and which of them are shown.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Operator, Space, eventually, kubectl};
use serde_json::{Value, json};

/// Applies a custom resource with annotations.
fn apply(space: &Space, name: &str, annotations: &Value, spec: &Value) {
    let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
        "metadata": {"name": name, "namespace": space.name, "annotations": annotations}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn watches(space: &Space, more: &str) -> std::path::PathBuf {
    let chart = crate::harness::repository("tests/charts/valued");
    let text = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n{more}  allow: [patches, valuesFrom]\n",
        chart.display()
    );
    space.file("watches.yaml", &text)
}

fn from(sources: &Value) -> Value {
    json!({"tillerman.dev/values-from": sources.to_string()})
}

#[test]
fn override_values_win_and_an_event_says_so_unless_it_is_not_wanted() {
    let mut space = Space::new("override");
    space.env.push(("SIZE", "large,huge".into()));
    let more = "  overrideValues:\n    from: \"{{ \\\"operator\\\" | upper }}\"\n    size: ${SIZE}\\,most\n";
    // A comma begins another pair, as in operator-sdk. Other kinds continue.
    let text = std::fs::read_to_string(watches(&space, more)).unwrap();
    let other = crate::harness::repository("tests/charts/objects");
    let other = format!("- group: test.tillerman.dev\n  version: v1\n  kind: Other\n  chart: {}\n", other.display());
    let operator = space.operator(&space.file("both.yaml", &(text + &other)), &[]);
    space.apply("Other", "good", &json!({}));
    space.apply("Web", "app", &json!({}));
    space.wait("other/good", "Deployed", "True");
    let stalled = space.wait("web/app", "Stalled", "True");
    let message = stalled["message"].as_str().unwrap();
    assert_eq!(stalled["reason"], "ChartUnusable");
    assert!(
        message.contains("line 5: overrideValues: size: ") && message.contains("write \\, for a comma"),
        "{stalled}"
    );
    // It may be a secret.
    assert!(!message.contains("huge") && !operator.log().contains("huge"), "{stalled}");
    space.kubectl(&["delete", "web/app", "other/good"]).unwrap();
    assert!(operator.stop());
    space.env[0].1 = "large".into();
    let operator = space.operator(&watches(&space, more), &[]);
    space.apply("Web", "app", &json!({"from": "spec", "size": "tiny"}));
    space.wait("web/app", "Deployed", "True");
    let data = space.get("configmap/app").unwrap()["data"].clone();
    assert_eq!((&data["from"], &data["size"]), (&json!("OPERATOR"), &json!("large,most")));
    eventually("events", || {
        let events = json!(space.list("events")?).to_string();
        let expected = r#"Chart value \"from\" overridden to \"OPERATOR\" by operator's watches.yaml"#;
        if events.contains(expected) { Ok(()) } else { Err(events) }
    });
    assert!(operator.stop());
    let _operator = space.operator(&watches(&space, more), &["--suppress-override-values"]);
    space.apply("Web", "other", &json!({}));
    eventually("events", || {
        let of_other = |event: &Value| event["involvedObject"]["name"] == "other";
        let events = json!(space.list("events")?.into_iter().filter(of_other).collect::<Vec<_>>()).to_string();
        let expected = r#"Chart value \"from\" overridden to \"****\" by operator's watches.yaml"#;
        if events.contains(expected) && !events.contains("OPERATOR") { Ok(()) } else { Err(events) }
    });
}

/// A4. docs/design/lessons.md pain 15.
#[test]
fn values_come_from_secrets_and_config_maps_and_follow_them() {
    let space = Space::new("from");
    let operator = space.operator(
        &watches(&space, "  valuesFrom: [{kind: ConfigMap, name: base, optional: true}]\n"),
        &["--reconcile-period=1s"],
    );
    let sources = json!([{"kind": "ConfigMap", "name": "sizes"}, {"kind": "Secret", "name": "login", "key": "pw", "targetPath": "password"}]);
    apply(&space, "app", &from(&sources), &json!({"from": "spec"}));
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "ValuesFromMissing");
    let told = format!("values-from: ConfigMap sizes does not exist in namespace {}", space.name);
    assert_eq!(stalled["message"], told.as_str());
    space
        .kubectl(&["create", "configmap", "sizes", "--from-literal=values.yaml={from: config, size: medium}"])
        .unwrap();
    space.kubectl(&["create", "secret", "generic", "login", "--from-literal=pw=first-password"]).unwrap();
    space.wait("web/app", "Deployed", "True");
    let data = space.get("configmap/app").unwrap()["data"].clone();
    assert_eq!((&data["from"], &data["size"]), (&json!("spec"), &json!("medium")));
    space.wait("web/app", "Stalled", "False");
    // A change of a source is a change of the release.
    let hash = data["hash"].clone();
    space
        .kubectl(&["patch", "secret/login", "--type=merge", "-p", r#"{"stringData":{"pw":"second-password"}}"#])
        .unwrap();
    eventually("the new password is there", || {
        let now = space.get("configmap/app")?["data"]["hash"].clone();
        if now == hash { Err("it is the old one".to_owned()) } else { Ok(()) }
    });
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    // The optional one below all appears, and what is above it stays.
    space.kubectl(&["create", "configmap", "base", "--from-literal=values.yaml={from: base, size: base}"]).unwrap();
    let values = || space.helm(&["get", "values", "app", "-o", "json"]);
    assert!(values().unwrap().contains("second-password"), "it is in the record, which is a Secret");
    // At rest it costs nothing, also after a restart.
    let before = operator.settle();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(operator.sent(), before);
    assert!(operator.stop());
    let audited = space.requests().len();
    let operator =
        space.operator(&watches(&space, "  valuesFrom: [{kind: ConfigMap, name: base, optional: true}]\n"), &[]);
    operator.settle();
    let requests = space.requests()[audited..].to_vec();
    let more: Vec<_> = requests.iter().filter(|r| !r.starts_with("get /") && !r.starts_with("list")).collect();
    assert_eq!(more, Vec::<&String>::new());
    // A source that goes leaves what is deployed as it is.
    space.kubectl(&["delete", "secret/login"]).unwrap();
    let stalled = space.wait("web/app", "Stalled", "True");
    assert!(stalled["message"].as_str().unwrap().contains("Secret login does not exist"), "{stalled}");
    space.kubectl(&["delete", "configmap/app"]).unwrap();
    eventually("it comes back", || space.get("configmap/app"));
}

#[test]
fn patches_change_what_the_chart_renders_and_are_part_of_the_release() {
    let space = Space::new("patches");
    let more = "  patches:\n  - target: {kind: ConfigMap}\n    patch: |\n      - {op: add, path: /data/patched, value: kind}\n";
    let operator = space.operator(&watches(&space, more), &[]);
    let port = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "app"}, "spec": {"ports": [{"port": 80, "name": "web"}]}});
    let annotation = |patches: &Value| json!({"tillerman.dev/patches": patches.to_string()});
    apply(&space, "app", &annotation(&json!([{"patch": port}])), &json!({}));
    space.wait("web/app", "Deployed", "True");
    assert_eq!(space.get("configmap/app").unwrap()["data"]["patched"], "kind");
    assert_eq!(space.get("service/app").unwrap()["spec"]["ports"][0]["name"], "web");
    let manifest = space.helm(&["get", "manifest", "app"]).unwrap();
    assert!(manifest.contains("patched: kind") && manifest.contains("name: web"), "{manifest}");
    // Drift is repaired to the patched state, also by an operator that did not render it.
    assert!(operator.stop());
    space.kubectl(&["patch", "configmap/app", "--type=merge", "-p", r#"{"data":{"patched":"x"}}"#]).unwrap();
    let _operator = space.operator(&watches(&space, more), &[]);
    space.wait_field("configmap/app", "/data/patched", &json!("kind"));
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["revision"], 1);
    let delete = json!([{"target": {"kind": "Service"}, "patch": {"$patch": "delete"}}]);
    apply(&space, "app", &annotation(&delete), &json!({}));
    space.wait_gone("service/app");
    apply(
        &space,
        "app",
        &annotation(&json!([{"patch": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}}])),
        &json!({}),
    );
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["message"], "patches: no object matches the patch of Service x");
    apply(&space, "app", &json!({"tillerman.dev/patches": "{"}), &json!({}));
    eventually("it is refused", || {
        let stalled = space.condition("web/app", "Stalled")?;
        let told = stalled["message"]
            .as_str()
            .unwrap_or_default()
            .starts_with("annotation tillerman.dev/patches: it is not JSON");
        if told { Ok(()) } else { Err(stalled.to_string()) }
    });
}

#[test]
fn a_source_that_does_not_hold_what_it_should_is_named() {
    let space = Space::new("sources");
    let _operator = space.operator(&watches(&space, ""), &[]);
    space.kubectl(&["create", "secret", "generic", "s", "--from-literal=a=[unclosed-canary"]).unwrap();
    let table = [
        (json!("nonsense"), "annotation tillerman.dev/values-from: it is not a list"),
        (json!([{"kind": "Secret", "name": "s", "key": "b"}]), "values-from: Secret s has no key b"),
        (
            json!([{"kind": "Secret", "name": "s", "key": "a"}]),
            "values-from: Secret s: key a: it is not values in YAML",
        ),
        (
            json!([{"kind": "Secret", "name": "s", "key": "a", "targetPath": "x[-1]"}]),
            "annotation tillerman.dev/values-from: targetPath \"x[-1]\": negative -1 index not allowed",
        ),
    ];
    for (sources, expected) in table {
        apply(&space, "app", &from(&sources), &json!({}));
        eventually(expected, || {
            let stalled = space.condition("web/app", "Stalled")?;
            if stalled["message"] == expected { Ok(()) } else { Err(stalled.to_string()) }
        });
    }
    apply(&space, "app", &from(&json!([{"kind": "Secret", "name": "s", "key": "b", "optional": true}])), &json!({}));
    space.wait("web/app", "Deployed", "True");
}

/// The API server's own record of an object that it refused, which quotes it.
fn is_refusal(line: &str) -> bool {
    let entry: Value = serde_json::from_str(line).unwrap_or_default();
    entry["responseStatus"]["code"] == 422
}

/// Everything that an operator and the API server's audit log say of a namespace, without the Secrets.
fn told(space: &Space, operator: &Operator) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for object in ["webs.test.tillerman.dev", "events", "configmaps", "services"] {
        texts.push((object.to_owned(), space.kubectl(&["get", object, "-o", "json"]).unwrap()));
    }
    texts.push(("log".to_owned(), operator.log()));
    texts.push(("metrics".to_owned(), operator.metrics()));
    let audit = std::fs::read_to_string(crate::harness::cluster_dir().join("audit.log")).unwrap();
    texts.push((
        "audit".to_owned(),
        audit.lines().filter(|l| l.contains(&space.name) && !is_refusal(l)).collect::<Vec<_>>().join("\n"),
    ));
    texts
}

#[test]
fn nothing_that_came_from_a_secret_is_shown_anywhere() {
    let space = Space::new("canary");
    let operator = space.operator(&watches(&space, ""), &[]);
    let canary = "Canary\"zq7v\\91";
    space.kubectl(&["create", "secret", "generic", "login", &format!("--from-literal=pw={canary}")]).unwrap();
    let sources = from(&json!([{"kind": "Secret", "name": "login", "key": "pw", "targetPath": "password"}]));
    let mode = |mode: &str| apply(&space, "app", &sources, &json!({"mode": mode, "size": mode}));
    let failed = |condition: &str, part: &str| {
        eventually(&format!("{condition}: {part}"), || {
            let condition = space.condition("web/app", condition)?;
            let message = condition["message"].as_str().unwrap_or_default();
            if message.contains(part) { Ok(()) } else { Err(condition.to_string()) }
        });
    };
    mode("ok");
    let deployed = space.wait("web/app", "Deployed", "True");
    assert_eq!(deployed["message"].as_str().unwrap().trim(), "The password is ****, from chart.");
    mode("fail");
    failed("Stalled", "**** is no good password");
    mode("range");
    failed("Stalled", "range can't iterate over ****");
    mode("invalid");
    failed("ReleaseFailed", "Unsupported value: \"****\"");
    mode("syntax");
    failed("Stalled", "all.yaml");
    mode("better");
    space.wait_field("configmap/app", "/data/size", &json!("better"));
    // Drift of the Secret, and of what it is rendered into.
    space.kubectl(&["patch", "secret/app", "--type=merge", "-p", r#"{"data":{"password":"eA=="}}"#]).unwrap();
    space.wait_event("DriftRepaired");
    // A restart knows nothing of the secret until it reads it again.
    let first = operator.log();
    assert!(operator.stop());
    space.kubectl(&["delete", "service/app"]).unwrap();
    let operator = space.operator(&watches(&space, ""), &[]);
    eventually("it comes back", || space.get("service/app"));
    mode("fail");
    failed("Stalled", "**** is no good password");
    mode("last");
    space.wait_field("configmap/app", "/data/size", &json!("last"));
    let mut texts = told(&space, &operator);
    texts.push(("the first log".to_owned(), first));
    for (what, text) in texts {
        for part in ["Canary", "zq7v", "Q2FuYXJ5"] {
            let line = text.lines().find(|line| line.contains(part));
            assert_eq!(line, None, "{what} holds {part}");
        }
    }
    assert!(space.helm(&["get", "values", "app"]).unwrap().contains("Canary"));
}

/// An API server keeps `1.0` as `1`.
#[test]
fn a_whole_float_is_a_float_where_the_chart_says_so() {
    let space = Space::new("floats");
    let folder = space.file("chart", "");
    std::fs::remove_file(&folder).unwrap();
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    space.file("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 0.1.0\n");
    space.file("chart/values.yaml", "ratio: 0.5\nreplicas: 1\n");
    space.file("chart/values.schema.json", r#"{"properties": {"share": {"type": "number"}}}"#);
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata:\n  high: {{ ge .Values.ratio 0.25 | quote }}\n  \
                    all: {{ ge .Values.share 0.25 | quote }}\n  kind: {{ kindOf .Values.ratio }}\n";
    space.file("chart/templates/all.yaml", template);
    let values = "ratio: 1.0\nshare: 2.0\nreplicas: 2\n";
    let rendered = space.helm(&[
        "template",
        "app",
        &folder.display().to_string(),
        "-f",
        &space.file("values.yaml", values).display().to_string(),
    ]);
    let expected: Value = tillerman::object::parse_manifest(&rendered.unwrap()).unwrap()[0].body["data"].clone();
    let watches = format!("- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n", folder.display());
    let _operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    space.apply("Web", "app", &json!({"ratio": 1, "share": 2, "replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    assert_eq!(space.get("configmap/app").unwrap()["data"], expected);
}
