//! Results: the outcome of a pod that has ended, in the status of the custom resource.
//!
//! A chart whose Chart.yaml has the annotation `tillerman.dev/results: pods` marks such pods, mostly of its Jobs, with the label
//! [`LABEL`]. A container that ends with 0 and leaves a JSON object as its termination message may name fields of the status there,
//! in `status`.

use crate::names;
use serde_json::{Map, Value};

use crate::object::conditions::bound;

/// The annotation of a chart whose pods have results.
pub const CHART: &str = names::RESULTS;
/// The label of pods with results; its value is the name of the release, which is in the pod's namespace.
pub const LABEL: &str = names::RESULT_OF;

/// Fields that the operator writes itself: a pod cannot set them.
const RESERVED: [&str; 11] = [
    "succeeded",
    "reason",
    "Reason",
    "result",
    "conditions",
    "observedGeneration",
    "release",
    "deployedRelease",
    "resources",
    "lastAttempted",
    "lastHandledReconcileAt",
];

/// A pod that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its name.
    pub pod: Box<str>,
    pub uid: Box<str>,
    /// When it was created, seconds since 1970.
    pub created: i64,
    /// When its first container ended, seconds since 1970.
    pub at: i64,
    /// The container's exit code.
    pub code: i64,
    /// Its termination message.
    pub message: Box<str>,
}

impl Ended {
    /// From the object; `None` for a pod that runs or is being deleted.
    pub fn read(pod: &Value) -> Option<Self> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let seconds = |value: Option<&str>| value?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
        let phase = text("/status/phase")?;
        if text("/metadata/deletionTimestamp").is_some() || !["Succeeded", "Failed"].contains(&phase) {
            return None;
        }
        let ended = pod.pointer("/status/containerStatuses/0/state/terminated");
        let of = |key: &str| ended.and_then(|ended| ended.get(key));
        let evicted = || [text("/status/reason"), text("/status/message")].into_iter().flatten().collect::<Vec<_>>();
        let message = of("message").and_then(Value::as_str).map_or_else(|| evicted().join(": "), str::to_owned);
        let created = seconds(text("/metadata/creationTimestamp"))?;
        Some(Self {
            pod: text("/metadata/name")?.into(),
            uid: text("/metadata/uid")?.into(),
            created,
            at: seconds(of("finishedAt").and_then(Value::as_str)).unwrap_or(created),
            code: of("exitCode").and_then(Value::as_i64).unwrap_or(1),
            message: message.into(),
        })
    }

    /// Whether it reports something later.
    pub fn is_after(&self, other: &Self) -> bool {
        (self.at, &self.uid) > (other.at, &other.uid)
    }
}

/// Writes the outcome of a pod into a status: `succeeded`; after a failure `reason`, and after a success the fields that it names.
/// `result` names the pod, so that a pod that ended earlier does not overwrite it.
pub fn enter(status: &mut Map<String, Value>, ended: &Ended) {
    let known = status.get("result");
    let at = known.and_then(|known| known.get("at")).and_then(Value::as_i64);
    let uid = known.and_then(|known| known.get("uid")).and_then(Value::as_str);
    if at.is_some_and(|at| (ended.at, Some(&*ended.uid)) <= (at, uid)) {
        return;
    }
    let said: Option<Map<String, Value>> = serde_json::from_str(&ended.message).ok();
    let succeeded = ended.code == 0;
    status.insert("result".into(), serde_json::json!({"pod": ended.pod, "uid": ended.uid, "at": ended.at}));
    status.insert("succeeded".into(), succeeded.into());
    // coreos' etcd-operator wrote the second for backups and the first for restores.
    for name in ["reason", "Reason"] {
        if succeeded {
            status.remove(name);
        } else {
            status.insert(name.into(), bound(&why(ended)).into());
        }
    }
    let fields = said.as_ref().filter(|_| succeeded).and_then(|said| said.get("status")).and_then(Value::as_object);
    for (name, value) in fields.into_iter().flatten().filter(|(name, _)| !RESERVED.contains(&name.as_str())) {
        status.insert(name.clone(), value.clone());
    }
}

/// The last line that is not empty; what comes before it is the log.
fn why(ended: &Ended) -> String {
    let line = ended.message.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| format!("pod {} ended with exit code {}", ended.pod, ended.code), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Ended, enter};
    use serde_json::{Map, Value, json};

    fn pod(phase: &str, terminated: &Value) -> Value {
        json!({
            "metadata": {"name": "a-1", "uid": "u", "creationTimestamp": "1970-01-01T00:00:05Z"},
            "status": {"phase": phase, "containerStatuses": [{"state": {"terminated": terminated}}]},
        })
    }

    fn ended(uid: &str, at: i64, code: i64, message: &str) -> Ended {
        Ended { pod: "a-1".into(), uid: uid.into(), created: 0, at, code, message: message.into() }
    }

    fn told(mut status: Value, ended: &Ended) -> Value {
        let mut map: Map<String, Value> = status.as_object_mut().unwrap().clone();
        enter(&mut map, ended);
        map.remove("result");
        Value::Object(map)
    }

    #[test]
    fn only_a_pod_that_has_ended_and_stays_has_a_result() {
        let over = json!({"exitCode": 3, "finishedAt": "1970-01-01T00:00:09Z", "message": "no"});
        let read = Ended::read(&pod("Failed", &over)).unwrap();
        assert_eq!((read.created, read.at, read.code, &*read.message), (5, 9, 3, "no"));
        assert_eq!(Ended::read(&pod("Running", &over)), None);
        let mut going = pod("Failed", &over);
        going["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:10Z");
        assert_eq!(Ended::read(&going), None);
        let mut evicted = pod("Failed", &Value::Null);
        evicted["status"]["reason"] = json!("Evicted");
        evicted["status"]["message"] = json!("low on memory");
        let read = Ended::read(&evicted).unwrap();
        assert_eq!((read.at, read.code, &*read.message), (5, 1, "Evicted: low on memory"));
    }

    #[test]
    fn a_success_names_fields_and_takes_an_earlier_reason_away() {
        let message = r#"{"name": "b", "status": {"etcdRevision": 7, "conditions": [], "succeeded": false}}"#;
        let was = json!({"succeeded": false, "reason": "x", "Reason": "x", "etcdRevision": 3, "conditions": [1]});
        let expected = json!({"succeeded": true, "etcdRevision": 7, "conditions": [1]});
        assert_eq!(told(was, &ended("u", 2, 0, message)), expected);
    }

    #[test]
    fn a_failure_has_a_reason_and_leaves_what_the_last_success_said() {
        let was = json!({"succeeded": true, "etcdRevision": 3});
        let told_of = |message: &str, code| told(was.clone(), &ended("u", 2, code, message));
        let expected = |why: &str| json!({"succeeded": false, "reason": why, "Reason": why, "etcdRevision": 3});
        assert_eq!(told_of("log\nError: no\n\n", 1), expected("Error: no"));
        assert_eq!(told_of("", 137), expected("pod a-1 ended with exit code 137"));
        let liar = r#"{"status": {"etcdRevision": 9}}"#;
        assert_eq!(told_of(liar, 1), expected(liar), "a failure names no fields");
    }

    #[test]
    fn a_success_that_says_nothing_is_one_and_no_more() {
        assert_eq!(told(json!({}), &ended("u", 2, 0, "done")), json!({"succeeded": true}));
    }

    #[test]
    fn what_ended_before_says_nothing_any_more() {
        let mut status = Map::new();
        enter(&mut status, &ended("b", 10, 0, r#"{"status": {"n": 1}}"#));
        let after = status.clone();
        for late in [ended("b", 10, 1, "again"), ended("c", 9, 1, "late"), ended("a", 10, 1, "same second")] {
            enter(&mut status, &late);
            assert_eq!(status, after);
        }
        enter(&mut status, &ended("c", 11, 1, "new"));
        assert_eq!(status["succeeded"], false);
    }
}
