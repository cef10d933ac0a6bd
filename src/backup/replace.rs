//! The next step to replace the data of a cluster with a backup: a table of which the first row that fits counts. Everything is seen on
//! the API server, so the next run continues a run that ended anywhere.

use crate::names;
use crate::object::conditions::Conditions;
use serde_json::Value;

pub use crate::members::workload::REPLACED;

/// The annotation of an `EtcdCluster` whose data is being replaced: for which custom resource, by uid.
pub const REPLACING: &str = names::REPLACING_FOR;
/// The operator's own: it does nothing while this is true.
pub const PAUSED: &str = names::PAUSED;
/// How many uids are kept.
const KEPT: usize = 20;

/// The existing objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are what is seen")]
pub struct SeenCluster {
    /// The custom resource goes.
    pub deleting: bool,
    /// The custom resource for which its data is being replaced.
    pub replacing: Option<String>,
    /// That one is still there.
    pub other_lives: bool,
    /// The custom resource for which it was replaced.
    pub replaced: Vec<String>,
    /// It is paused by the annotation.
    pub paused: bool,
    /// The operator says so.
    pub rests: bool,
    /// The operator calls it ready.
    pub ready: bool,
    /// uid of the StatefulSet, and whether it goes.
    pub set: Option<(String, bool)>,
    /// Names of pods of members.
    pub pods: Vec<String>,
    /// Claims of members: name, uid, and whether it goes.
    pub claims: Vec<(String, String, bool)>,
    /// uid of the list of members.
    pub list: Option<String>,
    /// The status remembers the members.
    pub remembers: bool,
}

/// The action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplaceStep {
    /// Nothing, and nothing will be.
    Refuse(String),
    /// The program waits for something.
    Wait(String),
    /// The cluster is paused and marked.
    Announce,
    /// The StatefulSet goes, and its pods with it.
    DeleteSet(String),
    /// A claim goes.
    DeleteClaim(String, String),
    /// The list of members goes.
    DeleteList(String),
    /// The status forgets the members.
    Forget,
    /// The cluster learns of the backup and continues.
    Commit,
    /// Everything that was done before.
    Done,
}

impl SeenCluster {
    /// Of the custom resource.
    pub fn read(cluster: &Value) -> Self {
        let annotation = |name: &str| cluster["metadata"]["annotations"][name].as_str();
        let says = |name: &str| Conditions::of_object(cluster).is_true(name);
        let members = cluster["status"]["members"].as_object();
        // The value of the annotation, even if somebody removed it: no data is replaced twice for one custom resource.
        let uids = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut replaced = uids(annotation(REPLACED).unwrap_or_default());
        for latch in members.into_iter().flat_map(|members| members.values()).map(|member| &member["latch"]) {
            let before = latch["replacedBefore"].as_array().into_iter().flatten();
            let known = [&latch["replaced"]].into_iter().chain(before).filter_map(Value::as_str);
            for uid in known {
                if !replaced.iter().any(|known| known == uid) {
                    replaced.push(uid.to_owned());
                }
            }
        }
        let latched = |member: &Value| member["latch"].as_object().is_some_and(|latch| !latch.is_empty());
        Self {
            deleting: cluster["metadata"]["deletionTimestamp"].is_string(),
            replacing: annotation(REPLACING).map(str::to_owned),
            replaced,
            paused: annotation(PAUSED).and_then(crate::kind::go_bool) == Some(true),
            rests: says("Paused"),
            ready: says("Ready"),
            remembers: members.is_some_and(|members| members.values().any(latched)),
            ..Self::default()
        }
    }

    /// The value of [`REPLACED`] with one more.
    pub fn replaced_with(&self, uid: &str) -> String {
        let others = self.replaced.iter().map(String::as_str).filter(|known| *known != uid);
        std::iter::once(uid).chain(others).take(KEPT).collect::<Vec<_>>().join(" ")
    }
}

/// The next step for the custom resource with this uid.
pub fn next(seen: &SeenCluster, uid: &str) -> ReplaceStep {
    let ours = seen.replacing.as_deref() == Some(uid);
    if seen.replaced.iter().any(|known| known == uid) {
        return ReplaceStep::Done;
    }
    if seen.deleting {
        return ReplaceStep::Refuse("the cluster is being deleted".into());
    }
    if !ours {
        return match &seen.replacing {
            Some(other) if seen.other_lives => {
                ReplaceStep::Refuse(format!("its data is being replaced for another custom resource, {other}"))
            }
            None if seen.paused => ReplaceStep::Refuse(format!("it is paused: the annotation {PAUSED} is true")),
            None if seen.rests => ReplaceStep::Wait("the operator to end the last pause".into()),
            // The run that began is gone and left the cluster paused, or none has begun.
            _ => ReplaceStep::Announce,
        };
    }
    match () {
        () if !seen.paused => ReplaceStep::Announce,
        () if !seen.rests => ReplaceStep::Wait("the operator to pause".into()),
        () if let Some((uid, false)) = &seen.set => ReplaceStep::DeleteSet(uid.clone()),
        () if seen.set.is_some() => ReplaceStep::Wait("the StatefulSet to go".into()),
        () if let Some(pod) = seen.pods.first() => ReplaceStep::Wait(format!("pod {pod} to go")),
        () if let Some((name, uid, _)) = seen.claims.iter().find(|(_, _, going)| !going) => {
            ReplaceStep::DeleteClaim(name.clone(), uid.clone())
        }
        () if let Some((name, _, _)) = seen.claims.first() => ReplaceStep::Wait(format!("claim {name} to go")),
        () if let Some(uid) = &seen.list => ReplaceStep::DeleteList(uid.clone()),
        () if seen.remembers => ReplaceStep::Forget,
        () if seen.ready => ReplaceStep::Wait("the operator to see that the members are gone".into()),
        () => ReplaceStep::Commit,
    }
}

/// Whether the cluster can still continue as it was.
pub fn is_whole(seen: &SeenCluster) -> bool {
    seen.set.as_ref().is_some_and(|(_, going)| !going)
}

#[cfg(test)]
mod tests {
    use super::{ReplaceStep, SeenCluster, next};
    use serde_json::json;

    fn whole() -> SeenCluster {
        let claim = |n: u32| (format!("data-a-{n}"), format!("c{n}"), false);
        SeenCluster {
            ready: true,
            set: Some(("s".into(), false)),
            pods: vec!["a-0".into()],
            claims: vec![claim(0), claim(1)],
            list: Some("l".into()),
            remembers: true,
            ..SeenCluster::default()
        }
    }

    /// From a whole cluster to one that knows of the backup. The order makes it safe.
    #[test]
    fn nothing_is_deleted_before_the_operator_rests_and_claims_only_after_their_pods() {
        let mut seen = whole();
        let mut steps = Vec::new();
        loop {
            let step = next(&seen, "u");
            steps.push(format!("{step:?}"));
            match step {
                ReplaceStep::Announce => (seen.replacing, seen.paused) = (Some("u".into()), true),
                ReplaceStep::Wait(what) if what.contains("to pause") => seen.rests = true,
                ReplaceStep::DeleteSet(_) => seen.set = Some(("s".into(), true)),
                ReplaceStep::Wait(what) if what.contains("StatefulSet") => seen.set = None,
                ReplaceStep::Wait(what) if what.contains("pod") => seen.pods.clear(),
                ReplaceStep::DeleteClaim(name, _) => {
                    seen.claims.iter_mut().filter(|c| c.0 == name).for_each(|c| c.2 = true);
                }
                ReplaceStep::Wait(what) if what.contains("claim") => seen.claims.clear(),
                ReplaceStep::DeleteList(_) => seen.list = None,
                ReplaceStep::Forget => seen.remembers = false,
                ReplaceStep::Wait(_) => seen.ready = false,
                ReplaceStep::Commit => seen.replaced = vec!["u".into()],
                ReplaceStep::Done => break,
                ReplaceStep::Refuse(why) => panic!("{why}"),
            }
        }
        let expected = [
            "Announce",
            "Wait(\"the operator to pause\")",
            "DeleteSet(\"s\")",
            "Wait(\"the StatefulSet to go\")",
            "Wait(\"pod a-0 to go\")",
            "DeleteClaim(\"data-a-0\", \"c0\")",
            "DeleteClaim(\"data-a-1\", \"c1\")",
            "Wait(\"claim data-a-0 to go\")",
            "DeleteList(\"l\")",
            "Forget",
            "Wait(\"the operator to see that the members are gone\")",
            "Commit",
            "Done",
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn what_somebody_else_is_at_is_left_alone() {
        let table = [
            (SeenCluster { deleting: true, ..whole() }, "the cluster is being deleted"),
            (SeenCluster { paused: true, ..whole() }, "it is paused: the annotation tillerman.dev/paused is true"),
            (
                SeenCluster { replacing: Some("x".into()), other_lives: true, paused: true, rests: true, ..whole() },
                "its data is being replaced for another custom resource, x",
            ),
        ];
        for (seen, why) in table {
            assert_eq!(next(&seen, "u"), ReplaceStep::Refuse(why.into()));
        }
        // Unless the process that began is gone.
        let left = SeenCluster { replacing: Some("x".into()), paused: true, rests: true, ..whole() };
        assert_eq!(next(&left, "u"), ReplaceStep::Announce);
        let unpaused = SeenCluster { replacing: Some("u".into()), ..whole() };
        assert_eq!(next(&unpaused, "u"), ReplaceStep::Announce);
    }

    /// A Job that is created again, by a repair or a new chart, destroys nothing a second time.
    #[test]
    fn what_was_done_once_is_never_done_again() {
        let mut seen = whole();
        seen.replaced = vec!["later".into(), "u".into()];
        assert_eq!(next(&seen, "u"), ReplaceStep::Done);
        assert_eq!(seen.replaced_with("new"), "new later u");
        seen.replaced = (0..30).map(|n| n.to_string()).collect();
        assert_eq!(seen.replaced_with("29").split(' ').count(), 20);
    }

    #[test]
    fn the_custom_resource_is_read() {
        let cluster = json!({
            "metadata": {"annotations": {super::REPLACING: "u", super::REPLACED: "a b", super::PAUSED: "true"}},
            "status": {"conditions": [{"type": "Paused", "status": "True"}, {"type": "Ready", "status": "False"}],
                "members": {"ready": ["a-0"], "etcd": {"latch": {"cluster": "1"}}}},
        });
        let read = SeenCluster::read(&cluster);
        let expected = SeenCluster {
            replacing: Some("u".into()),
            replaced: vec!["a".into(), "b".into()],
            paused: true,
            rests: true,
            remembers: true,
            ..SeenCluster::default()
        };
        assert_eq!(read, expected);
        // If the annotation was removed, the operator's record counts.
        let dropped = json!({"status": {"members": {"etcd": {"latch": {"replaced": "b", "replacedBefore": ["a"]}}}}});
        assert_eq!(SeenCluster::read(&dropped).replaced, ["b", "a"]);
        assert!(!SeenCluster::read(&json!({"status": {"members": {"ready": [], "etcd": {"latch": {}}}}})).remembers);
    }
}
