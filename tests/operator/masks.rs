//! Secrets of a release are shown nowhere, and everything else stays readable.

use crate::harness::{Space, eventually};
use serde_json::{Value, json};

/// Waits until the message of a condition is as expected.
fn told(space: &Space, object: &str, condition: &str, expected: impl Fn(&str) -> bool) -> String {
    eventually(&format!("{object}: {condition}"), || {
        let found = space.condition(object, condition)?;
        let message = found["message"].as_str().unwrap_or_default();
        if expected(message) { Ok(message.to_owned()) } else { Err(found.to_string()) }
    })
}

fn login(space: &Space, name: &str, password: &str) -> Value {
    space.kubectl(&["create", "secret", "generic", name, &format!("--from-literal=pw={password}")]).unwrap();
    let sources = json!([{"kind": "Secret", "name": name, "key": "pw", "targetPath": "password"}]);
    json!({"tillerman.dev/values-from": sources.to_string()})
}

#[test]
fn secrets_of_one_release_change_no_word_about_another_and_no_name_and_no_word_of_ours() {
    let (mut one, two) = (Space::new("masks-one"), Space::new("masks-two"));
    one.env.push(("WATCH_NAMESPACE", format!("{},{}", one.name, two.name).into()));
    let watches = one.watches_with(&[("Web", "web"), ("Other", "valued")], "  allow: [valuesFrom]\n");
    let operator = one.operator(&watches, &[]);
    // The same value is a secret in two releases, and a guess in a third one.
    let token = "shared-token-7";
    for space in [&one, &two] {
        let annotations = login(space, "login", token);
        space.apply_with("Other", "app", &annotations, &json!({"mode": "fail"}));
        told(space, "other/app", "Stalled", |message| message.contains("**** is no good password"));
    }
    two.apply("Other", "guess", &json!({"mode": "fail", "password": token}));
    told(&two, "other/guess", "Stalled", |message| message.contains(&format!("{token} is no good password")));
    // Words that our messages and the log hold, and a part of a name.
    for word in ["gateway", "replicas", "message", "namespace", "available", "Deployment"] {
        let name = format!("w-{}", word.to_lowercase());
        one.apply("Web", &name, &json!({"secret": word}));
        one.wait_web(&name);
    }
    one.apply("Web", "my-gateway", &json!({"secret": "gateway"}));
    two.apply("Web", "gateway", &json!({}));
    one.wait_web("my-gateway");
    two.wait_web("gateway");
    let log = operator.log();
    assert!(!log.lines().any(|line| line.contains("****") && !line.contains("no good password")), "{log}");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].is_string(), "{line}");
    }
}

#[test]
fn what_is_too_short_to_be_replaced_is_left_out_of_the_message() {
    let space = Space::new("masks-short");
    let operator = space.operator(&space.watches_with(&[("Web", "valued")], "  allow: [valuesFrom]\n"), &[]);
    let annotations = login(&space, "login", "x7q");
    let mode = |mode: &str| space.apply_with("Web", "app", &annotations, &json!({"mode": mode, "size": mode}));
    mode("fail");
    let message = told(&space, "web/app", "Stalled", |message| message.starts_with("the chart cannot be rendered"));
    assert!(message.contains("valued/templates/all.yaml:1:"), "it says where: {message}");
    mode("invalid");
    told(&space, "web/app", "ReleaseFailed", |message| message.ends_with(": invalid: spec.ports[0].protocol"));
    mode("ok");
    space.wait("web/app", "Deployed", "True");
    for (what, text) in [
        ("log", operator.log()),
        ("status", space.get("web/app").unwrap()["status"].to_string()),
        ("events", json!(space.list("events").unwrap()).to_string()),
    ] {
        assert!(!text.contains("x7q"), "{what}: {text}");
    }
}

#[test]
fn of_five_thousand_secret_values_none_is_shown() {
    let space = Space::new("masks-many");
    let operator = space.operator(&space.watches_with(&[("Web", "valued")], "  allow: [valuesFrom]\n"), &[]);
    let values: serde_json::Map<String, Value> =
        (0..5000).map(|i| (format!("v{i}"), json!(format!("canary-{i:05}")))).collect();
    let values = json!({"password": "canary-00000", "many": values}).to_string();
    let file = space.file("values.yaml", &values);
    space
        .kubectl(&["create", "secret", "generic", "many", &format!("--from-file=values.yaml={}", file.display())])
        .unwrap();
    let sources = json!({"tillerman.dev/values-from": json!([{"kind": "Secret", "name": "many"}]).to_string()});
    space.apply_with("Web", "app", &sources, &json!({"mode": "fail"}));
    told(&space, "web/app", "Stalled", |message| message.starts_with("the chart cannot be rendered"));
    space.apply_with("Web", "app", &sources, &json!({"mode": "ok"}));
    space.wait("web/app", "Deployed", "True");
    for (what, text) in [
        ("log", operator.log()),
        ("status", space.get("web/app").unwrap()["status"].to_string()),
        ("events", json!(space.list("events").unwrap()).to_string()),
    ] {
        assert!(!text.contains("canary-0"), "{what}: {text}");
    }
}
