//! The report about a cluster in the status: the primary, the members, and whether it is safe to fail over before that
//! is needed.

use serde_json::{Map, Value, json};

use super::decide::is_safe_to_fail_over;
use super::state::{ChangeKind, Latched, ObservedPrimary, PrimaryChange, PrimaryLatch, PrimarySettings};
use crate::agent::contract::{MemberState, Role};
use crate::members::driver::{MemberSight, Sight};
use crate::members::workload::Workload;

/// The report in the entry of `status.members` ([`DriverProfile::reports`](crate::members::driver::DriverProfile)). A value that is not known is null,
/// or absent.
pub fn report(
    settings: &PrimarySettings,
    workload: &Workload,
    observed: &ObservedPrimary,
    latch: &PrimaryLatch,
) -> Map<String, Value> {
    let nothing = Latched::default();
    let held = latch.own.primary.as_ref().unwrap_or(&nothing);
    let name = |ordinal: u32| format!("{}-{ordinal}", workload.name);
    let safe = is_safe_to_fail_over(settings, workload, observed, latch);
    let mut details = Map::new();
    details.insert("primary".into(), held.ordinal.map(name).into());
    details.insert("safeToFailOver".into(), safe.is_ok().into());
    if let Err(why) = safe {
        details.insert("unsafeBecause".into(), why.into());
    }
    let members = (0..workload.replicas)
        .map(|k| member(&name(k), held.ordinal == Some(k), observed.answers.get(&k), observed.silent.get(&k)));
    details.insert("members".into(), members.collect::<Vec<_>>().into());
    let import = held.ordinal.and_then(|primary| observed.answers.get(&primary)?.import.clone());
    if let Some(import) = import {
        details.insert("import".into(), import.into());
    }
    if let Some(change) = &held.last {
        details.insert("lastChange".into(), changed(change, name));
    }
    if let Some(request) = &held.requested {
        let mut shown = json!({"request": request.text, "result": request.result.name()});
        if let Some(why) = &request.why {
            shown["message"] = why.as_str().into();
        }
        details.insert("switchOver".into(), shown);
    }
    details
}

/// Describes a change of the member that takes writes and of those that acknowledge them, in words.
pub fn describe_change(stateful_set: &str, old: &Latched, new: &Latched) -> String {
    let name = |ordinal: u32| format!("{stateful_set}-{ordinal}");
    match (&old.change, &new.change) {
        (_, Some(begun)) if old.change.as_ref() != Some(begun) => {
            let kind = if begun.kind == ChangeKind::FailOver { "fail over" } else { "switch over" };
            return format!("begin to {kind}: {}", begun.why);
        }
        (Some(_), None) if new.last != old.last => match new.last.as_ref().and_then(|last| last.to) {
            Some(to) => return format!("{} is the primary (epoch {})", name(to), new.epoch),
            None => return new.last.as_ref().map(|last| last.why.clone()).unwrap_or_default(),
        },
        _ => {}
    }
    if new.ordinal != old.ordinal {
        return new.ordinal.map_or_else(|| "there is no primary".to_owned(), |p| format!("{} is the primary", name(p)));
    }
    if let Some(request) = new.requested.as_ref().filter(|request| old.requested.as_ref() != Some(request)) {
        return format!("switch-over {}: {}", request.text, request.why.as_deref().unwrap_or(request.result.name()));
    }
    if let Some(k) = new.ackers.difference(&old.ackers).next() {
        return format!("{} may acknowledge writes", name(*k));
    }
    if let Some(k) = old.ackers.difference(&new.ackers).next() {
        return format!("{} no longer acknowledges writes", name(*k));
    }
    if new.acks != old.acks {
        return format!("each write is on {} replicas before it is acknowledged", new.acks);
    }
    match &new.leaving {
        Some(leaving) if old.leaving.is_none() => {
            format!("begin to remove {} from the members that acknowledge", name(leaving.ordinal))
        }
        Some(leaving) => format!("record the writes that {} may have acknowledged", name(leaving.ordinal)),
        None => "record which members have started".to_owned(),
    }
}

/// The metrics of a cluster.
pub fn sight(
    settings: &PrimarySettings,
    workload: &Workload,
    observed: &ObservedPrimary,
    latch: &PrimaryLatch,
) -> Sight {
    let nothing = Latched::default();
    let held = latch.own.primary.as_ref().unwrap_or(&nothing);
    let safe = is_safe_to_fail_over(settings, workload, observed, latch).is_ok();
    let primary = held.ordinal.and_then(|p| observed.answers.get(&p));
    let takes_writes =
        primary.is_some_and(|primary| primary.writable && primary.acknowledging.len() >= primary.acks as usize);
    let members = (0..workload.replicas).map(|k| {
        let answer = observed.answers.get(&k);
        let role = answer.map_or("Unknown", |answer| role(held.ordinal == Some(k), answer));
        let lag = answer.and_then(|answer| answer.lag).filter(|_| role == "Replica");
        let waiting = answer.filter(|_| role == "Primary").map(|answer| answer.waiting);
        let (pod, volume) = (format!("{}-{k}", workload.name), answer.and_then(|answer| answer.volume));
        MemberSight { pod, role, answers: answer.is_some(), lag, waiting, volume }
    });
    Sight {
        safe: (workload.replicas > 1).then_some(safe),
        takes_writes,
        last_change: held.last.as_ref().filter(|last| last.to.is_some()).map(|last| last.since),
        members: members.collect(),
    }
}

/// The role of a member that answers.
fn role(is_primary: bool, answer: &MemberState) -> &'static str {
    match (is_primary, answer.role) {
        (true, Role::Primary) => "Primary",
        (false, Role::Replica) => "Replica",
        (_, Role::Fenced) => "Fenced",
        _ if answer.data.is_none() => "Empty",
        _ => "Waiting",
    }
}

fn member(name: &str, is_primary: bool, answer: Option<&MemberState>, silent: Option<&String>) -> Value {
    let Some(answer) = answer else {
        let mut member = json!({"name": name, "role": "Unknown"});
        if let Some(why) = silent {
            member["problem"] = why.as_str().into();
        }
        return member;
    };
    let role = role(is_primary, answer);
    let mut member = json!({"name": name, "role": role});
    if role == "Primary" {
        member["writable"] = answer.writable.into();
    }
    if role == "Replica" {
        member["receiving"] = answer.receiving.into();
        // Parts of a second would change with each look.
        member["lag"] = answer.lag.map(f64::floor).filter(|lag| *lag < 1e9).into();
    }
    if let Some(version) = &answer.version {
        member["version"] = version.as_str().into();
    }
    if let Some(busy) = &answer.busy {
        member["busy"] = busy.work.as_str().into();
    }
    if answer.diverged {
        member["diverged"] = true.into();
    }
    if let Some(problem) = &answer.problem {
        member["problem"] = problem.as_str().into();
    }
    if let Some(restarted) = &answer.restarted {
        member["restarted"] = json!({"at": second(restarted.at), "why": restarted.why});
    }
    member
}

/// A time in seconds since 1970; null if there is no such time.
fn second(at: i64) -> Value {
    jiff::Timestamp::from_second(at).map_or(Value::Null, |at| format!("{at:.0}").into())
}

/// The members whose agent has restarted a database that hung: the name of each member, and why. `before` is the part
/// of the status about the set, with the earlier facts.
pub fn restarts(before: Option<&Value>, details: &Map<String, Value>) -> Vec<(String, String)> {
    let of = |members: Option<&Value>, name: &str| {
        let mut all = members.and_then(Value::as_array).into_iter().flatten();
        all.find(|member| member["name"] == name).map(|member| member["restarted"].clone()).unwrap_or_default()
    };
    let now = details.get("members");
    let names = now.and_then(Value::as_array).into_iter().flatten().filter_map(|member| member["name"].as_str());
    let is_new = |name: &&str| {
        let restarted = of(now, name);
        restarted.is_object() && restarted != of(before.and_then(|before| before.get("members")), name)
    };
    let why = |name: &str| of(now, name)["why"].as_str().unwrap_or_default().to_owned();
    names.filter(is_new).map(|name| (name.to_owned(), why(name))).collect()
}

fn changed(change: &PrimaryChange, name: impl Fn(u32) -> String) -> Value {
    let kind = match change.kind {
        ChangeKind::FailOver => "FailOver",
        ChangeKind::SwitchOver => "SwitchOver",
    };
    let mut shown = json!({"kind": kind, "why": change.why});
    for (key, ordinal) in [("from", change.from), ("to", change.to)] {
        if let Some(ordinal) = ordinal {
            shown[key] = name(ordinal).into();
        }
    }
    let at = second(change.since);
    if at.is_string() {
        shown["at"] = at;
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::super::world_tests::settings;
    use super::{report, restarts};
    use crate::agent::contract::{MemberState, Restarted, Role};
    use crate::members::primary::state::{
        ChangeKind, Latched, ObservedPrimary, PrimaryChange, PrimaryFacts, PrimaryLatch,
    };
    use crate::members::workload::{Pod, Workload};

    fn latch(held: Latched) -> PrimaryLatch {
        PrimaryLatch {
            bootstrapped: true,
            cluster: Some("u".into()),
            own: PrimaryFacts::of(held),
            ..PrimaryLatch::default()
        }
    }

    fn seen(answers: BTreeMap<u32, MemberState>) -> ObservedPrimary {
        let silent = BTreeMap::from([(2, "connection refused".into())]);
        ObservedPrimary { roles: Ok(None), answers, silent, refused: BTreeMap::new() }
    }

    #[test]
    fn a_database_that_was_started_again_is_reported_once() {
        let restarted = |at| Some(Restarted { at, why: "it did not answer for 61 seconds".into() });
        let reported = |at: Option<i64>| {
            let state =
                MemberState { data: Some("u".into()), restarted: at.and_then(restarted), ..MemberState::default() };
            let observed = seen(BTreeMap::from([(0, state.clone()), (1, MemberState { restarted: None, ..state })]));
            report(&settings(), &Workload::example(3), &observed, &latch(Latched::default()))
        };
        let (never, first, second) = (reported(None), reported(Some(0)), reported(Some(1)));
        assert_eq!(
            first["members"][0]["restarted"],
            json!({"at": "1970-01-01T00:00:00Z", "why": "it did not answer for 61 seconds"})
        );
        let said = vec![("db-0".to_owned(), "it did not answer for 61 seconds".to_owned())];
        for (before, now, expected) in [
            (None, &never, vec![]),
            (None, &first, said.clone()),
            (Some(&never), &first, said.clone()),
            (Some(&first), &first, vec![]),
            (Some(&first), &second, said),
            // Its agent has started again, and has forgotten it.
            (Some(&first), &never, vec![]),
        ] {
            let before = before.map(|before| json!(before));
            assert_eq!(restarts(before.as_ref(), now), expected, "{before:?}");
        }
    }

    #[test]
    fn the_members_have_roles_and_it_is_said_whether_it_is_safe_to_fail_over() {
        let change = PrimaryChange {
            kind: ChangeKind::FailOver,
            from: Some(0),
            to: Some(1),
            since: 0,
            why: "db-0 has not answered for 7 seconds".into(),
        };
        let held = Latched {
            ordinal: Some(1),
            epoch: 2,
            ackers: BTreeSet::from([0, 2]),
            acks: 1,
            last: Some(change),
            ..Latched::default()
        };
        let state = MemberState { data: Some("u".into()), epoch: 2, start: "1".into(), ..MemberState::default() };
        let primary =
            MemberState { role: Role::Primary, writable: true, version: Some("11.8.9".into()), ..state.clone() };
        let replica = MemberState { role: Role::Replica, receiving: true, lag: Some(1.7), ..state };
        let workload = Workload { pods: (0..3).map(|k| (k, Pod::example())).collect(), ..Workload::example(3) };
        let observed = seen(BTreeMap::from([(0, replica), (1, primary)]));
        let details = report(&settings(), &workload, &observed, &latch(held.clone()));
        let expected = json!({
            "primary": "db-1",
            "safeToFailOver": false,
            "unsafeBecause": "these members have to answer first: db-2 (connection refused)",
            "members": [
                {"name": "db-0", "role": "Replica", "receiving": true, "lag": 1.0},
                {"name": "db-1", "role": "Primary", "writable": true, "version": "11.8.9"},
                {"name": "db-2", "role": "Unknown", "problem": "connection refused"},
            ],
            "lastChange": {"kind": "FailOver", "why": "db-0 has not answered for 7 seconds", "from": "db-0", "to": "db-1",
                "at": "1970-01-01T00:00:00Z"},
        });
        assert_eq!(json!(details), expected);
        let one = Latched { ackers: BTreeSet::from([0]), ..held.clone() };
        assert_eq!(report(&settings(), &workload, &observed, &latch(one))["safeToFailOver"], true);
        let none = Latched { ackers: BTreeSet::new(), acks: 0, ..held };
        let details = report(&settings(), &workload, &observed, &latch(none));
        assert_eq!(details["unsafeBecause"], "no other member acknowledges writes");
    }
}
