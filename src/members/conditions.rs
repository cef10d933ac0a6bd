//! The conditions that coreos' etcd-operator reported for a cluster (v0.9.4, `pkg/apis/etcd/v1beta2/status.go`), in its
//! words: `Available`, `Scaling`, `Upgrading`, `Recovering`. As there, a condition is absent while its process does not
//! happen.

use serde_json::{Map, Value};

use super::document::Set;
use super::progress::Doing;
use super::workload::{Latch, Workload};

/// The types of the conditions.
pub const TYPES: [&str; 4] = ["Available", "Scaling", "Upgrading", "Recovering"];

/// Reasons after which no client is served the data that a quorum agrees on.
const NOT_SERVED: [&str; 3] = ["QuorumLost", "SplitBrain", "DataLost"];
/// The prefix of the reasons that stop an upgrade.
const NOT_UPGRADED: &str = "Version";

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCondition {
    /// One of [`TYPES`].
    pub name: &'static str,
    /// Whether its status is `True`.
    pub on: bool,
    /// The reason, in coreos' words or as the reason of `Ready`.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// The conditions of a set whose versions are in `status`, an entry of `status.members`. `recovery` is that of
/// [`MemberDriver::recovery`](super::driver::MemberDriver::recovery).
pub fn conditions(
    set: &Set,
    workload: &Workload,
    latch: &Latch,
    doing: &Doing,
    recovery: Option<&str>,
    status: &Map<String, Value>,
) -> Vec<ClusterCondition> {
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let condition =
        |name, on, reason: &str, message: String| ClusterCondition { name, on, reason: reason.to_owned(), message };
    let stopped = match doing {
        Doing::Stopped { reason, why } => Some((*reason, why.clone())),
        _ => None,
    };
    let members = latch.replicas.unwrap_or(workload.replicas) as usize;
    let ready = workload.pods.values().filter(|pod| pod.stays_ready()).count();
    let mut all = Vec::new();
    all.push(match &stopped {
        Some((reason, why)) if NOT_SERVED.contains(reason) => condition("Available", false, reason, why.clone()),
        _ if latch.bootstrapped && ready > members / 2 => {
            condition("Available", true, "Cluster available", String::new())
        }
        _ => condition("Available", false, "Progressing", format!("{ready} of {members} members are ready")),
    });
    let size = set.size as usize;
    if latch.bootstrapped && members != size {
        let reason = if members < size { "Scaling up" } else { "Scaling down" };
        let message = format!("Current cluster size: {members}, desired cluster size: {size}");
        all.push(condition("Scaling", true, reason, message));
    }
    let (current, target) = (text("currentVersion"), text("targetVersion"));
    if !current.is_empty() && !target.is_empty() && current != target {
        all.push(match stopped {
            Some((reason, why)) if reason.starts_with(NOT_UPGRADED) => condition("Upgrading", false, reason, why),
            _ => condition("Upgrading", true, "Cluster upgrading", format!("upgrading to {target}")),
        });
    }
    if let Some(recovery) = recovery {
        all.push(condition("Recovering", true, "Disaster recovery", recovery.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{ClusterCondition, conditions};
    use crate::members::document::Set;
    use crate::members::progress::Doing;
    use crate::members::workload::{Latch, Pod, Workload};
    use serde_json::{Map, Value, json};

    fn told(replicas: u32, ready: u32, doing: &Doing, status: &Value) -> Vec<(String, bool, String)> {
        let latch = Latch { bootstrapped: replicas > 0, replicas: Some(replicas), ..Latch::default() };
        told_with(&latch, replicas, ready, doing, None, status)
    }

    fn told_with(
        latch: &Latch,
        replicas: u32,
        ready: u32,
        doing: &Doing,
        recovery: Option<&str>,
        status: &Value,
    ) -> Vec<(String, bool, String)> {
        let pods = (0..replicas).map(|k| (k, Pod { ready: k < ready, ..Pod::example() })).collect();
        let workload = Workload { pods, ..Workload::example(replicas) };
        let status: Map<String, Value> = status.as_object().unwrap().clone();
        let all = conditions(&Set { size: 3, ..Set::example() }, &workload, latch, doing, recovery, &status);
        all.into_iter()
            .map(|ClusterCondition { name, on, reason, message }| (name.to_owned(), on, format!("{reason}|{message}")))
            .collect()
    }

    #[test]
    fn a_cluster_that_goes_on_with_one_member_recovers() {
        let latch = Latch { bootstrapped: true, replicas: Some(3), ..Latch::default() };
        let told = told_with(&latch, 3, 1, &Doing::Waiting("x".into()), Some("db-1 continues alone"), &json!({}));
        let message = "Disaster recovery|db-1 continues alone".to_owned();
        assert_eq!(told.last(), Some(&("Recovering".to_owned(), true, message)));
    }

    #[test]
    fn each_says_what_happens_in_the_words_of_coreos() {
        let at = |name: &str, on: bool, text: &str| (name.to_owned(), on, text.to_owned());
        let available = || at("Available", true, "Cluster available|");
        let stopped = |reason, why: &str| Doing::Stopped { reason, why: why.into() };
        let upgrade = json!({"currentVersion": "3.5.35", "targetVersion": "3.6.16"});
        let settled = json!({"currentVersion": "3.6.16", "targetVersion": ""});
        let waiting = Doing::Waiting("x".into());
        let table = [
            (0, 0, waiting.clone(), json!({}), vec![at("Available", false, "Progressing|0 of 0 members are ready")]),
            (3, 3, Doing::Nothing, settled.clone(), vec![available()]),
            (3, 2, waiting.clone(), settled.clone(), vec![available()]),
            (
                3,
                1,
                waiting.clone(),
                settled.clone(),
                vec![at("Available", false, "Progressing|1 of 3 members are ready")],
            ),
            (
                3,
                3,
                stopped("QuorumLost", "no member answers"),
                settled.clone(),
                vec![at("Available", false, "QuorumLost|no member answers")],
            ),
            (
                2,
                2,
                waiting.clone(),
                settled.clone(),
                vec![available(), at("Scaling", true, "Scaling up|Current cluster size: 2, desired cluster size: 3")],
            ),
            (
                5,
                5,
                waiting.clone(),
                settled,
                vec![available(), at("Scaling", true, "Scaling down|Current cluster size: 5, desired cluster size: 3")],
            ),
            (
                3,
                3,
                waiting,
                upgrade.clone(),
                vec![available(), at("Upgrading", true, "Cluster upgrading|upgrading to 3.6.16")],
            ),
            (
                3,
                3,
                stopped("VersionSkipped", "3.5 comes first"),
                upgrade,
                vec![available(), at("Upgrading", false, "VersionSkipped|3.5 comes first")],
            ),
        ];
        for (replicas, ready, doing, status, expected) in table {
            assert_eq!(told(replicas, ready, &doing, &status), expected, "{replicas} {ready} {doing:?} {status}");
        }
    }
}
