//! Operations of charts, and which of them are refused.

use super::{Hook, Operations, Schedule};
use crate::object::Object;
use crate::render;
use serde_json::json;

/// A Job of these events and with these annotations.
pub fn job(name: &str, events: &str, annotations: &[(&str, &str)]) -> render::Hook {
    let annotations: Vec<String> = annotations.iter().map(|(k, v)| format!("{k}: {v:?}")).collect();
    let text = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {{{}}}}}\n\
         spec: {{ttlSecondsAfterFinished: 0, template: {{spec: {{containers: [{{name: run}}]}}}}}}\n",
        annotations.join(", ")
    );
    render::Hook {
        manifest: render::Manifest { text, kind: "Job".into(), name: name.into(), ..Default::default() },
        events: events.split(',').map(str::to_owned).collect(),
        ..render::Hook::default()
    }
}

fn read(hooks: &[render::Hook]) -> Result<Option<Operations>, String> {
    Operations::read(hooks, &[])
}

#[test]
fn a_chart_without_operations_has_none_whatever_else_helm_passes_over() {
    assert_eq!(read(&[job("a", "after-ready", &[]), job("b", "members", &[])]), Ok(None));
}

#[test]
fn operations_are_read_in_their_order_and_survive_their_annotation() {
    let hooks = [
        render::Hook { weight: 2, ..job("b", "operation/backup", &[("tillerman.dev/schedule", "@daily")]) },
        job("c", "operation/backup,operation/check", &[("tillerman.dev/timeout", "1h")]),
        job("a", "operation/check", &[]),
    ];
    let operations = read(&hooks).unwrap().unwrap();
    let names = |of: &str| operations.of(of).map(|hook| hook.name.clone()).collect::<Vec<_>>();
    assert_eq!((names("backup"), names("check")), (vec!["c".into(), "b".into()], vec!["a".into(), "c".into()]));
    let daily = Schedule { text: "@daily".into(), time_zone: String::new() };
    assert_eq!(operations.schedules().into_iter().collect::<Vec<_>>(), [("backup", &daily)]);
    assert_eq!(operations.hooks.iter().find(|hook| hook.name == "c").and_then(|hook| hook.timeout), Some(3600));
    assert_eq!(Operations::decode(&operations.encode().unwrap()), Some(operations.clone()));
    assert!(operations.hooks.iter().all(Hook::is_a_run));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let schedule = |text| [("tillerman.dev/schedule", text)];
    let table = [
        (
            vec![job("a", "operation/x,post-install", &[])],
            "operation hook Job a: it is also for \"post-install\", and then Helm ignores the whole object: make two \
             objects of it",
        ),
        (
            vec![job("a", "operation/", &[])],
            "operation hook Job a: \"\" is not a name of an operation, which has lower-case letters, digits and \
             dashes, 63 at most",
        ),
        (
            vec![job("a", "operation/x", &schedule("soon"))],
            r#"operation hook Job a: annotation tillerman.dev/schedule: "soon" has 1 fields; a schedule has five"#,
        ),
        (
            vec![job("a", "operation/x", &[("tillerman.dev/time-zone", "Europe/Berlin")])],
            "operation hook Job a: its annotation tillerman.dev/time-zone needs the annotation tillerman.dev/schedule",
        ),
        (
            vec![job("a", "operation/x", &schedule("@daily")), job("b", "operation/x", &schedule("@hourly"))],
            "operation x has more than one schedule",
        ),
        (vec![job("a", "operation/x", &[]), job("a", "operation/x", &[])], "operation x has Job a twice"),
        (
            vec![job("a", "operation/x", &[("tillerman.dev/exit-code-container", "other")])],
            "operation hook Job a: it has no container \"other\"",
        ),
        (
            vec![job("a", "operation/x", &[("tillerman.dev/timeout", "0s")])],
            "operation hook Job a: annotation tillerman.dev/timeout: it is less than a second",
        ),
    ];
    for (hooks, expected) in table {
        assert_eq!(read(&hooks).unwrap_err(), expected);
    }
    let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}});
    let object = Object::from_body(object.as_object().unwrap().clone()).unwrap();
    let refused = Operations::read(&[job("a", "operation/x", &[])], &[object]).unwrap_err();
    assert_eq!(refused, "operation hook Job a: the release has an object of this kind and name");
}
