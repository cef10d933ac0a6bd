//! The report about members in the status: their number, the latches, and the plan with its phases and steps. It is
//! computed from observations, and no decision depends on it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::conditions::{ClusterCondition, conditions};
use super::document::Set;
use super::driver::DriverProfile;
use super::drivers::Drivers;
use super::workload::{Latch, Mode, Move, MoveKind, VolumeClaim, Workload};
use crate::object::conditions::Conditions;
use crate::object::quantity;

/// The actions of a pass on a stateful set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing: everything is as it should be.
    Nothing,
    /// It carried out a step, in words.
    Done(String),
    /// It waits for something.
    Waiting(String),
    /// Something is wrong.
    Stopped {
        /// Reason of the condition.
        reason: &'static str,
        /// The fault.
        why: String,
    },
}

/// The part of the status about members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersStatus {
    /// `status.members`, by document; empty keeps the previous one.
    pub members: Map<String, Value>,
    /// `status.plan`; `None` keeps the previous one.
    pub plan: Option<Value>,
    /// The facts ([`facts`]), by document, of the sets that this pass looked at.
    pub facts: BTreeMap<String, Map<String, Value>>,
    /// Whether the status lists the pods and has the conditions of coreos' etcd-operator
    /// ([`DriverProfile::lists_pods`]).
    pub as_coreos: bool,
    /// coreos' conditions, if the status has them.
    pub conditions: Option<Vec<ClusterCondition>>,
    /// Why the release is not ready: reason and message.
    pub unready: Option<(&'static str, String)>,
    /// Whether `unready` is a problem that needs attention.
    pub stopped: bool,
    /// The sets whose latches are written alone, before anything depends on them, and not with the rest of the status.
    pub latched_alone: Vec<String>,
    /// Whether the chart no longer has members, so that the status must not mention them.
    pub gone: bool,
}

impl MembersStatus {
    /// The members have not been observed.
    pub fn pending() -> Self {
        let unready = Some(("Progressing", "the operator looks at its members next".to_owned()));
        Self { unready, ..Self::default() }
    }

    /// Reads the previous status.
    fn read(status: &Map<String, Value>) -> Self {
        let members = status.get("members").and_then(Value::as_object).cloned().unwrap_or_default();
        Self { members, plan: status.get("plan").cloned(), ..Self::default() }
    }

    /// Reads the previous status for these sets.
    pub fn of(status: &Map<String, Value>, sets: &[Set], drivers: &Drivers) -> Self {
        let mut report = Self::read(status);
        let is = |set: &Set, of: fn(&DriverProfile) -> bool| {
            drivers.get(set.driver.as_str()).is_some_and(|driver| of(driver.profile()))
        };
        let alone = sets.iter().filter(|set| is(set, |profile| profile.latches_alone));
        report.latched_alone = alone.map(|set| set.name.clone()).collect();
        report.as_coreos = matches!(sets, [only] if is(only, |profile| profile.lists_pods));
        if !report.as_coreos {
            report.members.retain(|_, members| members.is_object());
        }
        report
    }

    /// Sets that the release waits for something.
    pub fn wait(&mut self, what: &str) {
        self.unready = Some(("Progressing", format!("waiting for {what}")));
    }
}

/// The facts about a set that a `Status` document can show, with those of its driver ([`DriverProfile::facts`]).
const FACTS: [&str; 11] = [
    "statefulSet",
    "size",
    "replicas",
    "ready",
    "pods",
    "readyMembers",
    "unreadyMembers",
    "paused",
    "phase",
    "currentVersion",
    "targetVersion",
];

/// All facts that a `Status` document can show, where a program has these drivers.
pub fn facts(drivers: &Drivers) -> Vec<&'static str> {
    FACTS.into_iter().chain(drivers.facts()).collect()
}

/// Lists of pods in `status.members`, as coreos' etcd-operator had them (v0.9.4, `pkg/apis/etcd/v1beta2/status.go`).
pub const LISTS: [&str; 2] = ["ready", "unready"];

/// The names of the pods that are ready, or of those that are not.
fn pods(set: &Set, workload: &Workload, ready: bool) -> Value {
    let pods = workload.pods.iter().filter(|(_, pod)| pod.stays_ready() == ready);
    pods.map(|(ordinal, _)| format!("{}-{ordinal}", set.target)).collect::<Vec<_>>().into()
}

/// Which volume claims each pod has: the beginnings of their uids. A different claim of the same name is the claim of a member that was replaced.
fn volumes(set: &Set, workload: &Workload) -> Option<Value> {
    let uid = |claim: &VolumeClaim| -> String { claim.uid.chars().take(8).collect() };
    let of = |(ordinal, claims): (&u32, &Vec<VolumeClaim>)| {
        let there: Vec<String> = claims.iter().filter(|claim| !claim.terminating).map(uid).collect();
        let is_member = workload.pods.contains_key(ordinal) && !there.is_empty();
        is_member.then(|| (format!("{}-{ordinal}", set.target), Value::from(there)))
    };
    let all: Map<String, Value> = workload.claims.iter().filter_map(of).collect();
    (!all.is_empty()).then_some(all.into())
}

/// The claims whose volumes grow by themselves: the sizes that they request, and when the operator last asked for more.
fn claims(set: &Set, workload: &Workload) -> Option<Value> {
    let template = &set.grow.as_ref()?.claim;
    let all = workload.claims.values().flatten();
    let grows = all.filter(|claim| *claim.size.template == **template && !claim.terminating);
    let of = |claim: &VolumeClaim| {
        (claim.name.to_string(), json!({"size": quantity::mebibytes(claim.size.requested), "grown": claim.size.grown}))
    };
    Some(grows.map(of).collect::<Map<_, _>>().into())
}

/// Reason of `Ready` while a release sleeps, or its members do.
pub const ASLEEP: &str = "Asleep";

/// Whether these conditions say that a release sleeps, or its members do.
pub fn is_asleep(conditions: &Conditions<'_>) -> bool {
    conditions.get("Ready").is_some_and(|ready| ready.reason() == ASLEEP)
}

/// A quorum is lost for good, and one member is made to continue alone.
const RECOVERING: &str = "RecoveringQuorum";

/// Conditions after which members do not return without help.
const LOST: [&str; 2] = ["DataLost", "SplitBrain"];

/// How far a set is, in the words of coreos' etcd-operator (v0.9.4, `pkg/apis/etcd/v1beta2/status.go`): `phase`, and the versions if the
/// document has one. `before` is the entry of the last status. As there, the target version is empty once it is reached.
fn stage(set: &Set, before: &Value, mode: Mode, doing: &Doing) -> Map<String, Value> {
    let names = ["phase", "currentVersion", "targetVersion"];
    let mut stage: Map<String, Value> = names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), before.get(name).filter(|value| value.is_string())?.clone())))
        .collect();
    if mode != Mode::Run {
        return stage;
    }
    let has_run = stage.get("phase").is_some_and(|phase| phase != "Creating");
    let phase = match doing {
        Doing::Stopped { reason, .. } if LOST.contains(reason) => "Failed",
        Doing::Nothing => "Running",
        _ if has_run => "Running",
        _ => "Creating",
    };
    stage.insert("phase".into(), phase.into());
    let Some(wanted) = set.version.as_deref() else {
        stage.retain(|name, _| name == "phase");
        return stage;
    };
    if *doing == Doing::Nothing {
        stage.insert("currentVersion".into(), wanted.into());
    }
    let reached = stage.get("currentVersion").is_some_and(|version| version == wanted);
    stage.insert("targetVersion".into(), if reached { "" } else { wanted }.into());
    stage
}

/// A pass over a stateful set.
#[derive(Clone, Copy, Debug)]
pub struct SetProgress<'a> {
    /// The stateful set.
    pub set: &'a Set,
    /// Its state.
    pub workload: &'a Workload,
    /// The latch to remember.
    pub latch: &'a Latch,
    /// Whether the operator may act.
    pub mode: Mode,
    /// Whether the members sleep.
    pub asleep: bool,
    /// The actions of the pass.
    pub doing: &'a Doing,
    /// The recovery of a lost quorum that is under way, in words.
    pub recovery: Option<&'a str>,
    /// The current time, in seconds since 1970.
    pub now: i64,
}

/// Enters a pass on a stateful set. Returns the time until its progress deadline, if it waits.
pub fn enter(report: &mut MembersStatus, pass: SetProgress<'_>) -> Option<Duration> {
    let SetProgress { set, workload, latch, mode, asleep, doing, recovery, now } = pass;
    let replicas = latch.replicas.unwrap_or(workload.replicas);
    let ready = workload.pods.values().filter(|pod| pod.stays_ready()).count();
    let asleep = asleep && latch.asleep.is_some() && *doing == Doing::Nothing;
    let mut reached = stage(set, report.members.get(&set.name).unwrap_or(&Value::Null), mode, doing);
    if asleep && mode == Mode::Run {
        reached.insert("phase".into(), ASLEEP.into());
        report.unready = Some((ASLEEP, format!("{} sleeps: no member has a pod", set.target)));
    }
    let mut entry =
        json!({"statefulSet": set.target, "size": set.size, "replicas": replicas, "ready": ready, "latch": latch});
    for (name, value) in &reached {
        entry[name] = value.clone();
    }
    if let Some(volumes) = volumes(set, workload) {
        entry["volumes"] = volumes;
    }
    if let Some(claims) = claims(set, workload) {
        entry["claims"] = claims;
    }
    report.members.insert(set.name.clone(), entry);
    let facts = [
        ("statefulSet", set.target.as_str().into()),
        ("size", set.size.into()),
        ("replicas", replicas.into()),
        ("ready", ready.into()),
        ("pods", workload.pods.len().into()),
        ("readyMembers", pods(set, workload, true)),
        ("unreadyMembers", pods(set, workload, false)),
        ("paused", (mode == Mode::Paused).into()),
    ];
    let mut facts: Map<String, Value> = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if mode == Mode::Run {
        // Facts that do not hold are left out of the status. While the set is paused, the status keeps what it has.
        facts.extend(["phase", "currentVersion", "targetVersion"].map(|name| (name.to_owned(), Value::Null)));
    }
    facts.extend(reached.clone());
    report.facts.insert(set.name.clone(), facts);
    if report.as_coreos {
        report.members.insert("ready".into(), pods(set, workload, true));
        report.members.insert("unready".into(), pods(set, workload, false));
        if mode == Mode::Run {
            report.conditions = Some(conditions(set, workload, latch, doing, recovery, &reached));
        }
    }
    if mode != Mode::Run {
        return None;
    }
    let old = report.plan.take().filter(|plan| plan["members"] == set.name.as_str());
    let runs = old.as_ref().is_some_and(|plan| plan["state"] != "Complete");
    if *doing == Doing::Nothing {
        report.plan = old.map(|mut plan| {
            if plan["state"] != "Complete" {
                plan["state"] = "Complete".into();
                plan["phases"] = json!([]);
            }
            plan
        });
        return None;
    }
    let earlier = |key: &str| old.as_ref().filter(|_| runs).and_then(|plan| plan[key].as_i64());
    let began = earlier("since").unwrap_or(now);
    let moved = if matches!(doing, Doing::Done(_)) { now } else { earlier("progressAt").unwrap_or(now) };
    let deadline = moved.saturating_add(i64::try_from(set.progress_deadline).unwrap_or(i64::MAX));
    let (state, text) = match doing {
        Doing::Done(what) => ("Done", what.as_str()),
        Doing::Waiting(why) => ("Waiting", why.as_str()),
        Doing::Stopped { why, .. } => ("Stopped", why.as_str()),
        Doing::Nothing => ("Done", ""),
    };
    let mut phases = phases(set, workload, latch);
    if let Some(first) = phases.first_mut() {
        first["state"] = "InProgress".into();
        first["steps"] = json!([{"name": text, "state": state}]);
    }
    let whole = if state == "Stopped" { "Stopped" } else { "InProgress" };
    report.plan = Some(json!({
        "members": set.name, "size": set.size, "state": whole, "since": began, "progressAt": moved, "phases": phases,
    }));
    let name = phases.first().and_then(|phase| phase["name"].as_str()).unwrap_or_default();
    let late = now >= deadline && !matches!(doing, Doing::Done(_));
    report.stopped = late;
    report.unready = Some(match doing {
        Doing::Stopped { reason, why } => {
            report.stopped = true;
            (*reason, format!("{name}: {why}"))
        }
        Doing::Waiting(why) if late => {
            let limit = set.progress_deadline;
            ("ProgressDeadlineExceeded", format!("{name}: no progress for {limit} seconds: waiting for {why}"))
        }
        Doing::Waiting(why) if recovery.is_some() => (RECOVERING, format!("waiting for {why}")),
        Doing::Done(what) if recovery.is_some() => (RECOVERING, what.clone()),
        Doing::Waiting(why) => ("Progressing", format!("{name}: waiting for {why}")),
        Doing::Done(what) => ("Progressing", format!("{name}: {what}")),
        Doing::Nothing => ("Progressing", String::new()),
    });
    (matches!(doing, Doing::Waiting(_)) && !late).then(|| Duration::from_secs((deadline - now).cast_unsigned()))
}

/// Enters the actions of a driver that keep the members of a set working, while something else is under way: the plan
/// is that of the other.
pub fn keep(
    report: &mut MembersStatus,
    set: &Set,
    profile: &DriverProfile,
    latch: &Latch,
    doing: &Doing,
    said: Option<Map<String, Value>>,
) {
    let before = report.members.get(&set.name).cloned();
    if let Some(Value::Object(entry)) = report.members.get_mut(&set.name) {
        entry.insert("latch".into(), json!(latch));
    }
    detail(report, set, profile, before.as_ref(), said);
    if let Doing::Stopped { reason, why } = doing {
        report.unready = Some((*reason, why.clone()));
        report.stopped = true;
    }
}

/// Adds what a driver says about its application to the report of [`enter`]. `None` keeps what the entry `before` says.
pub fn detail(
    report: &mut MembersStatus,
    set: &Set,
    profile: &DriverProfile,
    before: Option<&Value>,
    said: Option<Map<String, Value>>,
) {
    let kept = || {
        let of = |name: &&str| Some(((*name).to_owned(), before?.get(name)?.clone()));
        profile.reports.iter().filter_map(of).collect::<Map<String, Value>>()
    };
    let said = said.unwrap_or_else(kept);
    if let Some(facts) = report.facts.get_mut(&set.name) {
        let is_fact = |name: &str| FACTS.iter().chain(profile.facts).any(|fact| *fact == name);
        facts.extend(said.iter().filter(|(name, _)| is_fact(name)).map(|(name, value)| (name.clone(), value.clone())));
    }
    if let Some(Value::Object(entry)) = report.members.get_mut(&set.name) {
        entry.extend(said);
    }
}

/// The remaining phases, with the current one first.
fn phases(set: &Set, workload: &Workload, latch: &Latch) -> Vec<Value> {
    let name = |what: &str, ordinal: u32| format!("{what} {}-{ordinal}", set.target);
    let mut names = Vec::new();
    let mut size = latch.replicas.unwrap_or(workload.replicas);
    if let Some(moving) = &latch.moving {
        names.push(name(verb(moving), moving.ordinal));
        match moving.kind {
            MoveKind::Join => size = moving.ordinal + 1,
            MoveKind::Leave => size = moving.ordinal,
            MoveKind::Restart => {}
        }
    }
    names.extend((size..set.size).map(|ordinal| name("add", ordinal)));
    names.extend((set.size..size).rev().map(|ordinal| name("remove", ordinal)));
    let outdated = workload.pods.iter().rev().filter(|(k, pod)| **k < set.size && workload.is_outdated(pod));
    let moving = latch.moving.as_ref().map(|m| m.ordinal);
    names.extend(outdated.filter(|(k, _)| Some(**k) != moving).map(|(k, _)| name("restart", *k)));
    if latch.asleep.is_some() {
        names.clear();
    }
    if names.is_empty() {
        let what = if latch.asleep.is_none() { "settle" } else { "sleep and wake" };
        names.push(format!("{what} {}", set.target));
    }
    names.into_iter().map(|name| json!({"name": name, "state": "Pending"})).collect()
}

fn verb(moving: &Move) -> &'static str {
    match moving.kind {
        MoveKind::Join => "add",
        MoveKind::Leave => "remove",
        MoveKind::Restart => "restart",
    }
}

/// Describes the change of a latch in words. `facts` describes a change of the driver's facts.
pub fn describe_latch(stateful_set: &str, old: &Latch, new: &Latch, facts: impl FnOnce() -> Option<String>) -> String {
    match (&old.moving, &new.moving) {
        (None, Some(begun)) => return format!("begin to {} {stateful_set}-{}", verb(begun), begun.ordinal),
        (Some(ended), None) => return format!("{} {stateful_set}-{}: done", verb(ended), ended.ordinal),
        _ => {}
    }
    if new.bootstrapped && !old.bootstrapped {
        return match &new.cluster {
            Some(cluster) => format!("cluster {cluster} exists"),
            None => format!("the first member of {stateful_set} exists"),
        };
    }
    if let Some(described) = facts() {
        return described;
    }
    if new.since != old.since || new.stale != old.stale {
        return "record which members it waits for".to_owned();
    }
    if new.asleep != old.asleep {
        return match new.asleep {
            Some(members) => format!("{members} members of {stateful_set} fall asleep"),
            None => format!("the members of {stateful_set} are awake"),
        };
    }
    if new.claims != old.claims || new.answered != old.answered {
        return "record which claims belong to members".to_owned();
    }
    format!("StatefulSet {stateful_set} has {} replicas", new.replicas.unwrap_or_default())
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
