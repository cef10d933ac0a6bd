//! A custom resource in one row: the facts that `tillerman list` and the page of all releases show.

use serde_json::{Value, json};

use super::chart_label::name_and_version;
use crate::cluster::discovery::Resource;
use crate::members::progress::is_asleep;
use crate::names;
use crate::object::conditions::{Condition, Conditions};

/// Conditions that do not go away by themselves: a person has to change something.
const NEED_A_PERSON: [&str; 6] =
    ["Stalled", "ReleaseFailed", "Irreconcilable", "OperationFailed", "NoticesFailing", "AnnotationsIgnored"];

/// The facts about a custom resource, as `tillerman list -o json` prints them.
pub fn summary(kind: &Resource, cr: &Value) -> Value {
    let text = |pointer: &str| cr.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (chart, version) = name_and_version(text("/status/release/chart"));
    let ready = Conditions::of_object(cr).get("Ready");
    let (status, reason, message) = ready.map_or(("", "", ""), |c| (c.status(), c.reason(), c.message()));
    let (state, pause) =
        (state(cr), cr.pointer("/metadata/annotations").and_then(|a| a.get(names::PAUSE_REASON)?.as_str()));
    let paused = pause.filter(|_| state == "Paused");
    json!({
        "namespace": text("/metadata/namespace"),
        "name": text("/metadata/name"),
        "kind": &*kind.gvk.kind,
        "group": &*kind.gvk.group,
        "chart": chart,
        "version": version,
        "release": text("/status/release/name"),
        "revision": cr.pointer("/status/release/revision").cloned().unwrap_or_default(),
        "state": state,
        "ready": if status.is_empty() { "Unknown" } else { status },
        "reason": if paused.is_some() { "Paused" } else { reason },
        "message": paused.unwrap_or(message),
        "problems": problems(cr),
        "repaired": repaired(cr),
        "created": text("/metadata/creationTimestamp"),
    })
}

/// The state of a release, in one word.
fn state(cr: &Value) -> &'static str {
    let is = |name: &str| Conditions::of_object(cr).is_true(name);
    match () {
        () if cr.pointer("/metadata/deletionTimestamp").is_some() => "Uninstalling",
        () if is("Paused") => "Paused",
        () if is("Stalled") => "Stalled",
        () if is_asleep(&Conditions::of_object(cr)) => "Asleep",
        () if is("Ready") => "Ready",
        () if cr.pointer("/status/conditions").is_none() => "Unseen",
        () => "Progressing",
    }
}

/// The conditions that need a person.
fn problems(cr: &Value) -> Vec<&str> {
    let needs_a_person = |c: &Condition<'_>| c.is_true() && NEED_A_PERSON.contains(&c.name());
    Conditions::of_object(cr).iter().filter(needs_a_person).map(Condition::name).collect()
}

/// When objects were repaired last, if no other drift has been found since.
fn repaired(cr: &Value) -> Option<&str> {
    let drifted = Conditions::of_object(cr).get("Drifted")?;
    (drifted.is_false() && drifted.reason() == "Repaired").then(|| drifted.since())
}

#[cfg(test)]
mod tests {
    use super::{problems, repaired, state};
    use serde_json::json;

    #[test]
    fn the_state_is_what_matters_most() {
        let cr = |conditions: &[(&str, &str)]| {
            let conditions: Vec<_> =
                conditions.iter().map(|(name, status)| json!({"type": name, "status": status})).collect();
            json!({"metadata": {}, "status": {"conditions": conditions}})
        };
        assert_eq!(state(&cr(&[("Ready", "True"), ("Paused", "True")])), "Paused");
        assert_eq!(state(&cr(&[("Ready", "False"), ("Stalled", "True")])), "Stalled");
        assert_eq!(state(&cr(&[("Ready", "True"), ("Stalled", "False")])), "Ready");
        assert_eq!(state(&cr(&[])), "Progressing");
        assert_eq!(state(&json!({"metadata": {}})), "Unseen");
        assert_eq!(state(&json!({"metadata": {"deletionTimestamp": "x"}})), "Uninstalling");
    }

    #[test]
    fn a_condition_that_needs_a_person_and_the_last_repair_are_named() {
        let cr = json!({"metadata": {}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "OperationFailed", "status": "True"}, {"type": "Stalled", "status": "False"},
            {"type": "Drifted", "status": "False", "reason": "Repaired", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        assert_eq!(problems(&cr), ["OperationFailed"]);
        assert_eq!(repaired(&cr), Some("2026-01-01T00:00:00Z"));
        assert_eq!(repaired(&json!({"metadata": {}})), None);
    }
}
