//! What is done next to put a backup in the place of a cluster's data: rows, of which the first that fits counts. All of it is seen on
//! the API server, so a run that is ended anywhere is gone on with by the next.

use serde_json::Value;

pub use crate::members::workload::REPLACED;

/// The annotation of an `EtcdCluster` whose data is being replaced: for which custom resource, by uid.
pub const REPLACING: &str = "tillerman.dev/replacing-for";
/// The operator's own: nothing is done while it is true.
pub const PAUSED: &str = "tillerman.dev/paused";
/// How many uids are kept.
const KEPT: usize = 20;

/// What there is of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are what is seen")]
pub struct Seen {
    /// The custom resource goes.
    pub deleting: bool,
    /// For whom its data is being replaced.
    pub replacing: Option<String>,
    /// That one is still there.
    pub other_lives: bool,
    /// For whom it was.
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

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, and nothing will be.
    Refuse(String),
    /// It is waited for something.
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
    /// The cluster is told of the backup and goes on.
    Commit,
    /// All that was done before.
    Done,
}

impl Seen {
    /// Of the custom resource.
    pub fn read(cluster: &Value) -> Self {
        let annotation = |name: &str| cluster["metadata"]["annotations"][name].as_str();
        let conditions = cluster["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let says = |name: &str| conditions.iter().any(|c| c["type"] == name && c["status"] == "True");
        let members = cluster["status"]["members"].as_object();
        // What the annotation said, also when somebody dropped it: nothing is replaced twice for one custom resource.
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
pub fn next(seen: &Seen, uid: &str) -> Step {
    let ours = seen.replacing.as_deref() == Some(uid);
    if seen.replaced.iter().any(|known| known == uid) {
        return Step::Done;
    }
    if seen.deleting {
        return Step::Refuse("the cluster is being deleted".into());
    }
    if !ours {
        return match &seen.replacing {
            Some(other) if seen.other_lives => {
                Step::Refuse(format!("its data is being replaced for another custom resource, {other}"))
            }
            None if seen.paused => Step::Refuse(format!("it is paused: the annotation {PAUSED} is true")),
            None if seen.rests => Step::Wait("the operator to end the last pause".into()),
            // Whoever began is gone, and left it paused; or nobody has begun.
            _ => Step::Announce,
        };
    }
    match () {
        () if !seen.paused => Step::Announce,
        () if !seen.rests => Step::Wait("the operator to pause".into()),
        () if let Some((uid, false)) = &seen.set => Step::DeleteSet(uid.clone()),
        () if seen.set.is_some() => Step::Wait("the StatefulSet to go".into()),
        () if let Some(pod) = seen.pods.first() => Step::Wait(format!("pod {pod} to go")),
        () if let Some((name, uid, _)) = seen.claims.iter().find(|(_, _, going)| !going) => {
            Step::DeleteClaim(name.clone(), uid.clone())
        }
        () if let Some((name, _, _)) = seen.claims.first() => Step::Wait(format!("claim {name} to go")),
        () if let Some(uid) = &seen.list => Step::DeleteList(uid.clone()),
        () if seen.remembers => Step::Forget,
        () if seen.ready => Step::Wait("the operator to see that the members are gone".into()),
        () => Step::Commit,
    }
}

/// Whether the cluster can still go on as it was.
pub fn is_whole(seen: &Seen) -> bool {
    seen.set.as_ref().is_some_and(|(_, going)| !going)
}

#[cfg(test)]
mod tests {
    use super::{Seen, Step, next};
    use serde_json::json;

    fn whole() -> Seen {
        let claim = |n: u32| (format!("data-a-{n}"), format!("c{n}"), false);
        Seen {
            ready: true,
            set: Some(("s".into(), false)),
            pods: vec!["a-0".into()],
            claims: vec![claim(0), claim(1)],
            list: Some("l".into()),
            remembers: true,
            ..Seen::default()
        }
    }

    /// From a whole cluster to one that is told of the backup; the order is the safety.
    #[test]
    fn nothing_is_deleted_before_the_operator_rests_and_claims_only_after_their_pods() {
        let mut seen = whole();
        let mut steps = Vec::new();
        loop {
            let step = next(&seen, "u");
            steps.push(format!("{step:?}"));
            match step {
                Step::Announce => (seen.replacing, seen.paused) = (Some("u".into()), true),
                Step::Wait(what) if what.contains("to pause") => seen.rests = true,
                Step::DeleteSet(_) => seen.set = Some(("s".into(), true)),
                Step::Wait(what) if what.contains("StatefulSet") => seen.set = None,
                Step::Wait(what) if what.contains("pod") => seen.pods.clear(),
                Step::DeleteClaim(name, _) => {
                    seen.claims.iter_mut().filter(|c| c.0 == name).for_each(|c| c.2 = true);
                }
                Step::Wait(what) if what.contains("claim") => seen.claims.clear(),
                Step::DeleteList(_) => seen.list = None,
                Step::Forget => seen.remembers = false,
                Step::Wait(_) => seen.ready = false,
                Step::Commit => seen.replaced = vec!["u".into()],
                Step::Done => break,
                Step::Refuse(why) => panic!("{why}"),
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
            (Seen { deleting: true, ..whole() }, "the cluster is being deleted"),
            (Seen { paused: true, ..whole() }, "it is paused: the annotation tillerman.dev/paused is true"),
            (
                Seen { replacing: Some("x".into()), other_lives: true, paused: true, rests: true, ..whole() },
                "its data is being replaced for another custom resource, x",
            ),
        ];
        for (seen, why) in table {
            assert_eq!(next(&seen, "u"), Step::Refuse(why.into()));
        }
        // Unless whoever began is gone.
        let left = Seen { replacing: Some("x".into()), paused: true, rests: true, ..whole() };
        assert_eq!(next(&left, "u"), Step::Announce);
        let unpaused = Seen { replacing: Some("u".into()), ..whole() };
        assert_eq!(next(&unpaused, "u"), Step::Announce);
    }

    /// A Job that is made again, by a repair or by a new chart, destroys nothing a second time.
    #[test]
    fn what_was_done_once_is_never_done_again() {
        let mut seen = whole();
        seen.replaced = vec!["later".into(), "u".into()];
        assert_eq!(next(&seen, "u"), Step::Done);
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
        let read = Seen::read(&cluster);
        let expected = Seen {
            replacing: Some("u".into()),
            replaced: vec!["a".into(), "b".into()],
            paused: true,
            rests: true,
            remembers: true,
            ..Seen::default()
        };
        assert_eq!(read, expected);
        // What the operator remembers counts where the annotation was dropped.
        let dropped = json!({"status": {"members": {"etcd": {"latch": {"replaced": "b", "replacedBefore": ["a"]}}}}});
        assert_eq!(Seen::read(&dropped).replaced, ["b", "a"]);
        assert!(!Seen::read(&json!({"status": {"members": {"ready": [], "etcd": {"latch": {}}}}})).remembers);
    }
}
