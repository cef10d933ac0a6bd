//! The state of a pod.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::{short, word};
use crate::object::conditions::Conditions;

/// The state of a pod that a notice keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFacts {
    /// The beginning of its uid.
    #[serde(rename = "u")]
    pub uid: String,
    /// The workload that it is of: `Deployment/web`.
    #[serde(rename = "w")]
    pub workload: String,
    /// It was ready once.
    #[serde(rename = "s", default)]
    pub started: bool,
    /// It ended.
    #[serde(rename = "e", default)]
    pub ended: bool,
    /// How often its containers were started again.
    #[serde(rename = "r", default)]
    pub restarts: u64,
    /// How many of its containers have failed for good, beside the restarts.
    #[serde(rename = "f", default)]
    pub failures: u64,
    /// How a container ended last, if not well: its exit code and the reason. It is not remembered.
    #[serde(skip)]
    pub last: Option<Exit>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its name.
    pub container: String,
    /// Its exit code.
    pub code: i64,
    /// The kubelet's word, such as `OOMKilled`.
    pub reason: String,
}

impl PodFacts {
    /// The kind of a pod, and its name; `None` for one without a controller.
    pub fn of(pod: &Value) -> Option<(String, Self)> {
        let metadata = pod.get("metadata")?;
        let name = metadata.get("name")?.as_str()?;
        let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        let ready = Conditions::of_object(pod).is_true("Ready");
        let containers = || {
            let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
            lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten()
        };
        let restarts = containers().filter_map(|c| c["restartCount"].as_u64()).sum();
        let failed =
            |c: &&Value| c.pointer("/state/terminated/exitCode").and_then(Value::as_i64).is_some_and(|code| code != 0);
        let mut last = containers().filter_map(exit).next_back();
        let ended = matches!(phase, "Succeeded" | "Failed");
        if phase == "Failed" && last.is_none() {
            // Such as evicted, without a word of a container.
            let reason = pod.pointer("/status/reason").and_then(Value::as_str).unwrap_or("Failed");
            last = Some(Exit { container: String::new(), code: 0, reason: word(reason) });
        }
        let failures = containers().filter(failed).count() as u64;
        let facts = Self {
            uid: short(metadata.get("uid")?.as_str()?),
            workload: workload(metadata)?,
            started: ready,
            ended,
            restarts,
            failures: failures.max(u64::from(phase == "Failed")),
            last,
        };
        Some((word(name), facts))
    }
}

/// How a container ended last, if not well.
fn exit(container: &Value) -> Option<Exit> {
    let of = |state: &str| {
        let ended = container.pointer(state)?;
        let code = ended.get("exitCode")?.as_i64()?;
        let reason = ended.get("reason").and_then(Value::as_str).unwrap_or("Error");
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        (code != 0).then(|| Exit { container: word(name), code, reason: word(reason) })
    };
    of("/state/terminated").or_else(|| of("/lastState/terminated"))
}

/// The workload of a pod. The name of a `ReplicaSet` is that of its Deployment and the hash in the pod's label.
fn workload(metadata: &Value) -> Option<String> {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    let (kind, name) = (owner.get("kind")?.as_str()?, owner.get("name")?.as_str()?);
    let hash = metadata.get("labels").and_then(|labels| labels.get("pod-template-hash")?.as_str());
    let deployment = hash.filter(|_| kind == "ReplicaSet").and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    Some(match deployment {
        Some(name) => format!("Deployment/{}", word(name)),
        None => format!("{}/{}", word(kind), word(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::{Exit, PodFacts};
    use serde_json::json;

    #[test]
    fn a_pod_is_of_a_workload_and_says_how_its_containers_ended() {
        let pod = json!({
            "metadata": {"name": "web-5d-x", "uid": "0123456789", "labels": {"pod-template-hash": "5d"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d", "controller": true}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"name": "c", "restartCount": 2, "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
        });
        let (name, found) = PodFacts::of(&pod).unwrap();
        assert_eq!((&*name, &*found.workload, found.started, found.restarts), ("web-5d-x", "Deployment/web", true, 2));
        assert_eq!(found.last, Some(Exit { container: "c".into(), code: 137, reason: "OOMKilled".into() }));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text, r#"{"u":"01234567","w":"Deployment/web","s":true,"e":false,"r":2,"f":0}"#);
        let mut of_a_set = pod.clone();
        of_a_set["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": "db", "controller": true}]);
        assert_eq!(PodFacts::of(&of_a_set).unwrap().1.workload, "StatefulSet/db");
        of_a_set["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(PodFacts::of(&of_a_set), None);
        of_a_set["metadata"]["ownerReferences"] = json!([{"kind": "Job", "name": "j", "controller": true}]);
        of_a_set["status"] = json!({"phase": "Failed", "reason": "Evicted"});
        let found = PodFacts::of(&of_a_set).unwrap().1;
        assert_eq!((found.ended, found.failures, found.last.unwrap().reason), (true, 1, "Evicted".to_owned()));
    }
}
