//! The state of a custom resource, as far as notices report it: a small document that the status of each notice keeps.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pods::PodFacts;
use crate::object::conditions::Conditions;
use crate::plan::status::REPAIRS;

/// Members, operations and pods that are remembered of one release: each.
const MAX: usize = 200;
/// Volume claims that are remembered of one member.
const MAX_CLAIMS: usize = 8;
/// Bytes of a word that comes from a status.
const WORD: usize = 100;
/// The kind of objects that ask for a certificate: cert-manager's, and those that are modelled on it.
const CERTIFICATE: &str = "Certificate";

/// Reasons of `Ready` while a release is on its way, or rests on purpose.
const ON_ITS_WAY: [&str; 16] = [
    "Progressing",
    "NotDeployed",
    "Uninstalling",
    "Uninstalled",
    "UninstallSuccessful",
    "InProgress",
    "Remaking",
    "Paused",
    "DryRun",
    "PlanInProgress",
    "RecoveringQuorum",
    "DependencyNotReady",
    "Conflict",
    "RenderingWaits",
    "NamespaceTerminating",
    "WatchFailed",
];

/// The facts of one custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceFacts {
    /// The beginning of its uid.
    pub uid: String,
    /// The deployed revision; 0 for none.
    #[serde(skip_serializing_if = "is_none")]
    pub revision: u64,
    /// The problem of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Whether `Ready` is `True`.
    #[serde(skip_serializing_if = "is_false")]
    pub ready: bool,
    /// Whether another client writes the same fields.
    #[serde(skip_serializing_if = "is_false")]
    pub contested: bool,
    /// How many repairs were made, see [`REPAIRS`].
    #[serde(skip_serializing_if = "is_none")]
    pub repairs: u64,
    /// The primaries, by StatefulSet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub primaries: BTreeMap<String, String>,
    /// The members, by StatefulSet; several names in one text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, Vec<String>>,
    /// The volume claims of the members, by StatefulSet and member: the beginnings of their uids.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The claims whose volumes grow by themselves, by StatefulSet and name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, BTreeMap<String, ClaimFacts>>,
    /// Why the primary is the primary, by StatefulSet: `FailOver` or `SwitchOver`. It is not remembered.
    #[serde(skip)]
    pub changed_by: BTreeMap<String, String>,
    /// The certificates that are not valid.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub certificates: BTreeSet<String>,
    /// When each operation was last over, and whether it went well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, (String, bool)>,
    /// The pod whose result the status has, and whether it went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<(String, bool)>,
    /// Its pods, where a notice is about pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, PodFacts>,
}

/// A claim whose volume grows by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimFacts {
    /// The size that it requests, as a quantity.
    pub size: String,
    /// When the operator last asked for more, in seconds since 1970; 0 for never.
    #[serde(default, skip_serializing_if = "is_none")]
    pub grown: u64,
}

/// A problem of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How grave it is.
    pub stage: Stage,
    /// The reason of the condition.
    pub reason: String,
    /// The object that it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
}

/// How grave a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The deployed objects do not work.
    NotReady,
    /// A write failed, and is tried again.
    Failed,
    /// The operator no longer tries.
    Stalled,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(on: &bool) -> bool {
    !*on
}

/// A word of a status: short, and without control characters.
pub fn word(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WORD).collect()
}

/// The beginning of a uid, which is enough to know two objects apart that had one name.
pub fn short(uid: &str) -> String {
    uid.chars().take(8).collect()
}

impl ResourceFacts {
    /// The facts that a status says, without pods.
    pub fn of(uid: &str, status: &Map<String, Value>) -> Self {
        let conditions = Conditions::of(status);
        let drifted = conditions.get("Drifted");
        let mut facts = Self {
            uid: short(uid),
            revision: status.get("release").and_then(|release| release.get("revision")?.as_u64()).unwrap_or(0),
            problem: problem(conditions),
            ready: conditions.is_true("Ready"),
            contested: drifted.is_some_and(|drifted| drifted.is_true() && drifted.reason() == "Contested"),
            repairs: status.get("release").and_then(|release| release.get(REPAIRS)?.as_u64()).unwrap_or(0),
            ..Self::default()
        };
        // Beside the entries of sets there may be lists, as coreos' etcd-operator had them.
        let sets = status.get("members").and_then(Value::as_object).into_iter().flatten();
        for (set, entry) in sets.filter(|(_, entry)| entry.is_object()).take(MAX) {
            facts.add_members(&word(set), entry);
        }
        let objects = status.get("resources").and_then(Value::as_array).into_iter().flatten();
        let missing = objects.filter(|object| object["kind"] == CERTIFICATE && object["health"] != "Ready");
        facts.certificates = missing.filter_map(|object| object["name"].as_str()).take(MAX).map(word).collect();
        for (name, last) in status.get("operations").and_then(Value::as_object).into_iter().flatten().take(MAX) {
            let text = |field: &str| last.get(field).and_then(Value::as_str);
            if let (Some(at), Some(result)) = (text("completionTime"), text("result")) {
                facts.operations.insert(word(name), (word(at), result == "Succeeded"));
            }
        }
        let ended = status.get("result").and_then(|result| result.get("uid")?.as_str());
        if let (Some(uid), Some(well)) = (ended, status.get("succeeded").and_then(Value::as_bool)) {
            facts.result = Some((short(uid), well));
        }
        facts
    }

    /// Adds what an entry of `status.members` says.
    fn add_members(&mut self, set: &str, entry: &Value) {
        if let Some(primary) = entry.get("primary").and_then(Value::as_str) {
            self.primaries.insert(set.to_owned(), word(primary));
            let last = entry.get("lastChange").filter(|last| last["to"] == primary);
            if let Some(kind) = last.and_then(|last| last["kind"].as_str()) {
                self.changed_by.insert(set.to_owned(), word(kind));
            }
        }
        self.members.insert(set.to_owned(), members(entry));
        let volumes = entry.get("volumes").and_then(Value::as_object).into_iter().flatten().take(MAX);
        let uids = |list: &Value| {
            list.as_array().into_iter().flatten().take(MAX_CLAIMS).filter_map(Value::as_str).map(short).collect()
        };
        let volumes: BTreeMap<_, _> = volumes.map(|(member, list)| (word(member), uids(list))).collect();
        if !volumes.is_empty() {
            self.volumes.insert(set.to_owned(), volumes);
        }
        let claims = entry.get("claims").and_then(Value::as_object).into_iter().flatten().take(MAX);
        let claims: BTreeMap<_, _> = claims
            .map(|(name, claim)| {
                let size = claim["size"].as_str().map(word).unwrap_or_default();
                (word(name), ClaimFacts { size, grown: claim["grown"].as_u64().unwrap_or_default() })
            })
            .collect();
        if !claims.is_empty() {
            self.claims.insert(set.to_owned(), claims);
        }
    }
}

/// The names of the members that an entry of `status.members` has. A driver that knows its application names them; else they are those
/// of the pods, without the one that is about to join.
fn members(entry: &Value) -> Vec<String> {
    if let Some(list) = entry.get("members").and_then(Value::as_array) {
        let name = |member: &Value| member.as_str().or_else(|| member.get("name")?.as_str()).map(word);
        return list.iter().take(MAX).filter_map(name).collect();
    }
    let Some(pods) = entry.get("statefulSet").and_then(Value::as_str) else { return Vec::new() };
    let count =
        entry.get("replicas").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let moving = entry.pointer("/latch/moving").filter(|moving| moving["kind"] == "Join");
    let joins = moving.and_then(|moving| moving["ordinal"].as_u64());
    let ordinals = (0_u64..).take(count.min(MAX)).filter(|ordinal| Some(*ordinal) != joins);
    ordinals.map(|ordinal| word(&format!("{pods}-{ordinal}"))).collect()
}

fn problem(conditions: Conditions<'_>) -> Option<Problem> {
    if let Some(stalled) = conditions.get("Stalled").filter(|stalled| stalled.is_true()) {
        return Some(Problem { stage: Stage::Stalled, reason: word(stalled.reason()), about: String::new() });
    }
    let unready = conditions.get("Ready").filter(|ready| ready.is_false())?;
    let of = unready.reason();
    if (conditions.is_true("ReleaseFailed") || conditions.is_true("Irreconcilable")) && !ON_ITS_WAY.contains(&of) {
        return Some(Problem { stage: Stage::Failed, reason: word(of), about: String::new() });
    }
    if ON_ITS_WAY.contains(&of) {
        return None;
    }
    // `KIND NAME: words of others`. Texts from other sources may quote a log or a value; the chart names the object.
    let about = unready.message().split_once(": ").map_or("", |(about, _)| about);
    let about = if matches!(of, "Failed" | "Missing") { word(about) } else { String::new() };
    Some(Problem { stage: Stage::NotReady, reason: word(of), about })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ResourceFacts, Stage};
    use serde_json::{Value, json};

    fn facts(status: &Value) -> ResourceFacts {
        ResourceFacts::of("0123456789", status.as_object().unwrap())
    }

    fn conditions(list: &[(&str, &str, &str, &str)]) -> Value {
        let one = |(name, status, reason, message): &(&str, &str, &str, &str)| json!({"type": name, "status": status, "reason": reason, "message": message});
        json!({"conditions": list.iter().map(one).collect::<Vec<_>>()})
    }

    #[test]
    fn a_problem_is_the_gravest() {
        for (list, expected) in [
            (&[("Ready", "True", "Ready", "")][..], None),
            (&[("Ready", "False", "Progressing", "Deployment a: 0 of 1")], None),
            (
                &[("Ready", "False", "Failed", "Deployment a: pod b Error: secret words")],
                Some((Stage::NotReady, "Failed", "Deployment a")),
            ),
            (&[("Ready", "False", "QuorumLost", "a: b")], Some((Stage::NotReady, "QuorumLost", ""))),
            (
                &[("ReleaseFailed", "True", "InstallError", "x"), ("Ready", "False", "RenderError", "x")],
                Some((Stage::Failed, "RenderError", "")),
            ),
            (
                &[("Irreconcilable", "True", "ReconcileError", "x"), ("Ready", "False", "Forbidden", "x")],
                Some((Stage::Failed, "Forbidden", "")),
            ),
            (
                &[("Stalled", "True", "InvalidSpec", "x"), ("Ready", "False", "InvalidSpec", "x")],
                Some((Stage::Stalled, "InvalidSpec", "")),
            ),
        ] {
            let found = facts(&conditions(list)).problem;
            let found = found.as_ref().map(|p| (p.stage, &*p.reason, &*p.about));
            assert_eq!(found, expected, "{list:?}");
        }
    }

    #[test]
    fn a_status_becomes_facts() {
        let found = facts(&json!({
            "release": {"revision": 3, "repairs": 2},
            "members": {
                "db": {"primary": "db-0", "members": [{"name": "db-0"}, "db-1"], "volumes": {"db-1": ["fedcba9876"]},
                    "claims": {"data-db-0": {"size": "12Mi", "grown": 7}, "data-db-1": {"size": "10Mi", "grown": null}},
                    "lastChange": {"kind": "FailOver", "to": "db-0"}},
                "e": {"statefulSet": "e-etcd", "replicas": 3, "latch": {"moving": {"kind": "Join", "ordinal": 2, "since": 1}}},
                "ready": ["x"],
            },
            "resources": [{"kind": "Certificate", "name": "a", "health": "Progressing"},
                {"kind": "Certificate", "name": "b", "health": "Ready"}, {"kind": "Secret", "name": "c", "health": "Missing"}],
            "operations": {"backup": {"completionTime": "t", "result": "Failed"}, "never": {}},
            "result": {"uid": "abcdefghij"}, "succeeded": true,
        }));
        assert_eq!((found.revision, found.repairs, &*found.uid), (3, 2, "01234567"));
        assert_eq!(found.primaries["db"], "db-0");
        assert_eq!((found.changed_by["db"].as_str(), found.changed_by.len()), ("FailOver", 1));
        assert_eq!(found.members["db"], ["db-0", "db-1"]);
        assert_eq!(found.members["e"], ["e-etcd-0", "e-etcd-1"], "the one that joins is none yet");
        assert_eq!(found.members.len(), 2);
        assert_eq!(found.volumes["db"]["db-1"], ["fedcba98"]);
        let of = |name: &str| (found.claims["db"][name].size.as_str(), found.claims["db"][name].grown);
        assert_eq!((of("data-db-0"), of("data-db-1")), (("12Mi", 7), ("10Mi", 0)));
        assert_eq!(found.certificates, ["a".to_owned()].into());
        assert_eq!(found.operations["backup"], ("t".to_owned(), false));
        assert_eq!(found.result, Some(("abcdefgh".to_owned(), true)));
        let text = serde_json::to_string(&found).unwrap();
        let kept = ResourceFacts { changed_by: BTreeMap::new(), ..found };
        assert_eq!(serde_json::from_str::<ResourceFacts>(&text).unwrap(), kept);
        assert_eq!(serde_json::to_string(&facts(&json!({}))).unwrap(), r#"{"uid":"01234567"}"#);
    }
}
