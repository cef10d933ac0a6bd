//! The changes of a custom resource between two checks.

use std::collections::BTreeSet;

use super::events::NoticeEvent;
use super::facts::{Problem, ResourceFacts, Stage};
use super::pods::{Exit, PodFacts};

/// A change. It has no time and no number of attempts in it, so that the same again is known as the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub event: NoticeEvent,
    /// The part of the release: `release`, `drift`, `operation NAME`, `Deployment/NAME` …
    pub subject: String,
    /// The reason, where there is one: that of a condition, or how a container ended.
    pub reason: String,
    /// The objects that it is about, such as the names of pods.
    pub about: Vec<String>,
    /// Whether it lasts.
    pub course: Course,
}

/// Whether what happened lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It is over as soon as it happened.
    Once,
    /// It lasts until [`Course::Ends`].
    Begins,
    /// It may happen again any time. It is over after a quiet time.
    Flares,
    /// It is reported if it lasts for a while, and then until [`Course::Ends`].
    Lingers,
    /// The problem of this subject is over.
    Ends,
}

fn once(event: NoticeEvent, subject: &str, reason: String) -> Change {
    Change { event, subject: subject.to_owned(), reason, about: Vec::new(), course: Course::Once }
}

/// The subjects of what lasts.
const RELEASE: &str = "release";
const DRIFT: &str = "drift";

/// The changes; `None` for a custom resource that is not there.
pub fn changes(before: Option<&ResourceFacts>, after: Option<&ResourceFacts>) -> Vec<Change> {
    let nothing = ResourceFacts::default();
    match (before, after) {
        (None, None) => Vec::new(),
        (Some(before), Some(after)) if before.uid != after.uid && !before.uid.is_empty() => {
            let mut all = changes(Some(before), None);
            all.extend(changes(
                Some(&ResourceFacts { uid: after.uid.clone(), ..ResourceFacts::default() }),
                Some(after),
            ));
            all
        }
        (Some(before), None) => {
            let mut all = of_pods(before, &nothing);
            if before.revision > 0 {
                all.push(once(NoticeEvent::Uninstalled, RELEASE, String::new()));
            }
            all
        }
        (before, Some(after)) => {
            let before = before.unwrap_or(&nothing);
            let mut all = of_release(before, after);
            all.extend(of_members(before, after));
            all.extend(of_certificates(before, after));
            all.extend(of_runs(before, after));
            all.extend(of_pods(before, after));
            all
        }
    }
}

fn of_release(before: &ResourceFacts, after: &ResourceFacts) -> Vec<Change> {
    let mut all = Vec::new();
    let stalled = after.problem.as_ref().is_some_and(|problem| problem.stage != Stage::NotReady);
    match (before.revision, after.revision) {
        (0, 1..) => all.push(once(NoticeEvent::Installed, RELEASE, String::new())),
        // The record of an upgrade that failed is followed by that of the revision before.
        (old, new) if new > old && stalled => all.push(once(NoticeEvent::RolledBack, RELEASE, String::new())),
        (old, new) if new > old => all.push(once(NoticeEvent::Upgraded, RELEASE, String::new())),
        (1.., 0) => all.push(once(NoticeEvent::Uninstalled, RELEASE, String::new())),
        _ => {}
    }
    match (&before.problem, &after.problem) {
        (old, Some(new)) if old.as_ref().is_none_or(|old| (old.stage, &old.reason) != (new.stage, &new.reason)) => {
            all.push(begins(new));
        }
        (Some(_), None) => all.push(ends(RELEASE)),
        _ => {}
    }
    if after.ready && !before.ready {
        all.push(once(NoticeEvent::Ready, RELEASE, String::new()));
    }
    if after.repairs > before.repairs {
        all.push(once(NoticeEvent::DriftRepaired, DRIFT, String::new()));
    }
    match (before.contested, after.contested) {
        (false, true) => {
            all.push(Change { course: Course::Begins, ..once(NoticeEvent::Contested, DRIFT, "Contested".into()) });
        }
        (true, false) => all.push(ends(DRIFT)),
        _ => {}
    }
    all
}

fn begins(problem: &Problem) -> Change {
    let event = match problem.stage {
        Stage::Stalled => NoticeEvent::Stalled,
        _ if problem.reason == "Forbidden" => NoticeEvent::RightMissing,
        Stage::Failed => NoticeEvent::Failed,
        Stage::NotReady => NoticeEvent::NotReady,
    };
    let about = Some(problem.about.clone()).filter(|about| !about.is_empty()).into_iter().collect();
    Change { about, course: Course::Begins, ..once(event, RELEASE, problem.reason.clone()) }
}

fn ends(subject: &str) -> Change {
    Change { course: Course::Ends, ..once(NoticeEvent::Recovered, subject, String::new()) }
}

fn of_members(before: &ResourceFacts, after: &ResourceFacts) -> Vec<Change> {
    let mut all = Vec::new();
    for (set, new) in &after.members {
        let Some(old) = before.members.get(set) else { continue };
        let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
        for (event, names) in
            [(NoticeEvent::MemberJoined, new.difference(&old)), (NoticeEvent::MemberLeft, old.difference(&new))]
        {
            let about: Vec<String> = names.map(|name| (*name).clone()).collect();
            if !about.is_empty() {
                all.push(Change { about, ..once(event, &format!("StatefulSet/{set}"), String::new()) });
            }
        }
    }
    for (set, new) in &after.primaries {
        if let Some(old) = before.primaries.get(set).filter(|old| *old != new) {
            let about = vec![format!("{new} instead of {old}")];
            let reason = after.changed_by.get(set).cloned().unwrap_or_default();
            all.push(Change { about, ..once(NoticeEvent::PrimaryChanged, &format!("StatefulSet/{set}"), reason) });
        }
    }
    for (set, new) in &after.claims {
        let Some(old) = before.claims.get(set) else { continue };
        let (mut larger, mut refused) = (Vec::new(), Vec::new());
        for (name, new) in new {
            let Some(old) = old.get(name).filter(|old| old.grown < new.grown) else { continue };
            if old.size == new.size {
                refused.push(name.clone());
            } else {
                larger.push(format!("{name} from {} to {}", old.size, new.size));
            }
        }
        for (event, about) in [(NoticeEvent::VolumeEnlarged, larger), (NoticeEvent::VolumeNotEnlarged, refused)] {
            if !about.is_empty() {
                all.push(Change { about, ..once(event, &format!("StatefulSet/{set}"), String::new()) });
            }
        }
    }
    for (set, new) in &after.volumes {
        let old = before.volumes.get(set);
        let is_other = |(member, new): &(&String, &Vec<String>)| {
            let old = old.and_then(|old| old.get(*member)).filter(|old| !old.is_empty());
            old.is_some_and(|old| !new.is_empty() && !new.iter().any(|uid| old.contains(uid)))
        };
        // One that left and joined again has a new volume, too.
        let stayed = |name: &&String| {
            [before, after].iter().all(|facts| facts.members.get(set).is_some_and(|all| all.contains(name)))
        };
        let about: Vec<String> =
            new.iter().filter(is_other).map(|(member, _)| member).filter(stayed).cloned().collect();
        if !about.is_empty() {
            all.push(Change {
                about,
                ..once(NoticeEvent::MemberReplaced, &format!("StatefulSet/{set}"), String::new())
            });
        }
    }
    all
}

fn of_certificates(before: &ResourceFacts, after: &ResourceFacts) -> Vec<Change> {
    let subject = |name: &String| format!("Certificate/{name}");
    let missing = after.certificates.difference(&before.certificates).map(|name| Change {
        course: Course::Lingers,
        ..once(NoticeEvent::CertificateMissing, &subject(name), String::new())
    });
    // The certificates are deleted with the release: that is not a recovery.
    let valid = before.certificates.difference(&after.certificates).filter(|_| after.revision > 0);
    missing.chain(valid.map(|name| ends(&subject(name)))).collect()
}

fn of_runs(before: &ResourceFacts, after: &ResourceFacts) -> Vec<Change> {
    let mut all = Vec::new();
    for (name, (at, well)) in &after.operations {
        let old = before.operations.get(name);
        if old.is_some_and(|(old, _)| old == at) {
            continue;
        }
        let subject = format!("operation {name}");
        if *well {
            all.push(once(NoticeEvent::OperationSucceeded, &subject, String::new()));
            if old.is_some_and(|(_, well)| !well) {
                all.push(ends(&subject));
            }
        } else {
            all.push(Change {
                course: Course::Begins,
                ..once(NoticeEvent::OperationFailed, &subject, "HookFailed".into())
            });
        }
    }
    if let Some((_, well)) = after.result.as_ref().filter(|result| before.result.as_ref() != Some(*result)) {
        let event = if *well { NoticeEvent::ResultSucceeded } else { NoticeEvent::ResultFailed };
        all.push(once(event, "result", String::new()));
    }
    all
}

fn of_pods(before: &ResourceFacts, after: &ResourceFacts) -> Vec<Change> {
    let mut all = Vec::new();
    let of = |event: NoticeEvent, name: &str, pod: &PodFacts| Change {
        about: vec![name.to_owned()],
        ..once(event, &pod.workload, String::new())
    };
    for (name, old) in &before.pods {
        let lives = after.pods.get(name).is_some_and(|new| new.uid == old.uid && !new.ended);
        if old.started && !old.ended && !lives {
            all.push(of(NoticeEvent::PodStopped, name, old));
        }
    }
    for (name, new) in &after.pods {
        let nothing = PodFacts::default();
        let old = before.pods.get(name).filter(|old| old.uid == new.uid).unwrap_or(&nothing);
        if new.started && !old.started {
            all.push(of(NoticeEvent::PodStarted, name, new));
        }
        let crashes = (new.restarts + new.failures).saturating_sub(old.restarts + old.failures);
        if let Some(last) = new.last.as_ref().filter(|_| crashes > 0) {
            let event = if last.reason == "OOMKilled" { NoticeEvent::PodOutOfMemory } else { NoticeEvent::PodCrashed };
            all.push(Change { reason: how(last), course: Course::Flares, ..of(event, name, new) });
        }
    }
    all
}

/// How a container ended.
fn how(exit: &Exit) -> String {
    let Exit { container, code, reason } = exit;
    if container.is_empty() {
        reason.clone()
    } else {
        format!("{reason}: container {container} ended with exit code {code}")
    }
}

/// The state to keep: a pod that was ready stays one that started, and the last primary and the last volume stay known
/// while there is none.
pub fn remembered(before: Option<&ResourceFacts>, mut after: ResourceFacts) -> ResourceFacts {
    for (name, new) in &mut after.pods {
        let old = before.and_then(|before| before.pods.get(name)).filter(|old| old.uid == new.uid);
        new.started |= old.is_some_and(|old| old.started);
    }
    // While members fail over there is no primary. The next one is compared with the last one.
    let before = before.filter(|before| before.uid == after.uid);
    for (set, primary) in before.into_iter().flat_map(|before| &before.primaries) {
        after.primaries.entry(set.clone()).or_insert_with(|| primary.clone());
    }
    for (set, volumes) in before.into_iter().flat_map(|before| &before.volumes) {
        let members = after.members.get(set).map_or(&[][..], Vec::as_slice);
        for (member, uids) in volumes.iter().filter(|(member, _)| members.contains(member)) {
            after.volumes.entry(set.clone()).or_default().entry(member.clone()).or_insert_with(|| uids.clone());
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::{Course, changes, remembered};
    use crate::notices::events::NoticeEvent::{self, *};
    use crate::notices::facts::{ClaimFacts, Problem, ResourceFacts, Stage};
    use crate::notices::pods::{Exit, PodFacts};

    fn facts(change: impl FnOnce(&mut ResourceFacts)) -> ResourceFacts {
        let mut facts = ResourceFacts { uid: "u".into(), revision: 1, ..ResourceFacts::default() };
        change(&mut facts);
        facts
    }

    fn problem(stage: Stage, reason: &str) -> Problem {
        Problem { stage, reason: reason.into(), about: String::new() }
    }

    fn events(before: &ResourceFacts, after: &ResourceFacts) -> Vec<(NoticeEvent, String, Course)> {
        changes(Some(before), Some(after)).into_iter().map(|c| (c.event, c.reason, c.course)).collect()
    }

    #[test]
    fn each_change_is_an_event() {
        let of = |at: &str, well| [("backup".to_owned(), (at.to_owned(), well))].into();
        let table = [
            (facts(|f| f.revision = 0), facts(|_| {}), vec![(Installed, "", Course::Once)]),
            (facts(|_| {}), facts(|f| f.revision = 2), vec![(Upgraded, "", Course::Once)]),
            (
                facts(|f| f.problem = Some(problem(Stage::Failed, "Invalid"))),
                facts(|f| (f.revision, f.problem) = (3, Some(problem(Stage::Stalled, "Invalid")))),
                vec![(RolledBack, "", Course::Once), (Stalled, "Invalid", Course::Begins)],
            ),
            (
                facts(|_| {}),
                facts(|f| f.problem = Some(problem(Stage::Failed, "Forbidden"))),
                vec![(RightMissing, "Forbidden", Course::Begins)],
            ),
            (
                facts(|f| f.problem = Some(problem(Stage::NotReady, "Failed"))),
                facts(|f| f.ready = true),
                vec![(Recovered, "", Course::Ends), (Ready, "", Course::Once)],
            ),
            (facts(|f| f.repairs = 1), facts(|f| f.repairs = 2), vec![(DriftRepaired, "", Course::Once)]),
            (facts(|_| {}), facts(|f| f.contested = true), vec![(Contested, "Contested", Course::Begins)]),
            (facts(|f| f.contested = true), facts(|_| {}), vec![(Recovered, "", Course::Ends)]),
            (
                facts(|f| f.operations = of("1", true)),
                facts(|f| f.operations = of("2", false)),
                vec![(OperationFailed, "HookFailed", Course::Begins)],
            ),
            (
                facts(|f| f.operations = of("2", false)),
                facts(|f| f.operations = of("3", true)),
                vec![(OperationSucceeded, "", Course::Once), (Recovered, "", Course::Ends)],
            ),
            (facts(|_| {}), facts(|f| f.result = Some(("a".into(), false))), vec![(ResultFailed, "", Course::Once)]),
            (facts(|_| {}), facts(|_| {}), vec![]),
        ];
        for (before, after, expected) in table {
            let expected: Vec<_> = expected.into_iter().map(|(e, r, c)| (e, r.to_owned(), c)).collect();
            assert_eq!(events(&before, &after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn one_that_was_replaced_is_gone_and_new() {
        let found = events(&facts(|_| {}), &facts(|f| f.uid = "v".into()));
        let found: Vec<_> = found.into_iter().map(|(event, ..)| event).collect();
        assert_eq!(found, [Uninstalled, Installed]);
        assert_eq!(changes(Some(&facts(|_| {})), None)[0].event, Uninstalled);
        assert!(changes(Some(&facts(|f| f.revision = 0)), None).is_empty());
    }

    #[test]
    fn members_are_compared_by_name() {
        let of = |names: &[&str], primary: &str| {
            facts(|f| {
                f.members.insert("db".into(), names.iter().map(|n| (*n).to_owned()).collect());
                f.primaries.insert("db".into(), primary.to_owned());
            })
        };
        let found = changes(Some(&of(&["a", "b"], "a")), Some(&of(&["b", "c"], "b")));
        let found: Vec<_> = found.into_iter().map(|c| (c.event, c.about.join(" "))).collect();
        let expected = [(MemberJoined, "c"), (MemberLeft, "a"), (PrimaryChanged, "b instead of a")];
        assert_eq!(found, expected.map(|(e, a)| (e, a.to_owned())));
        assert!(changes(Some(&facts(|_| {})), Some(&of(&["a"], "a"))).is_empty(), "seen for the first time");
    }

    #[test]
    fn a_primary_is_compared_with_the_last_one_while_there_is_none() {
        let of = |primary: Option<&str>| {
            facts(|f| {
                f.members.insert("db".into(), vec!["a".to_owned(), "b".to_owned()].into_iter().collect());
                f.primaries.extend(primary.map(|primary| ("db".to_owned(), primary.to_owned())));
            })
        };
        let between = remembered(Some(&of(Some("a"))), of(None));
        assert!(changes(Some(&of(Some("a"))), Some(&between)).is_empty());
        let found = changes(Some(&between), Some(&of(Some("b"))));
        assert_eq!(
            (found.len(), found[0].event, found[0].about.join("")),
            (1, PrimaryChanged, "b instead of a".into())
        );
        let other = ResourceFacts { uid: "v".into(), ..of(None) };
        assert!(remembered(Some(&of(Some("a"))), other).primaries.is_empty(), "another custom resource of the name");
    }

    #[test]
    fn a_member_that_stays_and_has_another_volume_was_replaced() {
        let of = |members: &[&str], volumes: &[(&str, &str)]| {
            facts(|f| {
                f.members.insert("db".into(), members.iter().map(|name| (*name).to_owned()).collect());
                let volumes = volumes.iter().map(|(name, uid)| ((*name).to_owned(), vec![(*uid).to_owned()]));
                f.volumes.insert("db".into(), volumes.collect());
            })
        };
        let before = of(&["db-0", "db-1"], &[("db-0", "a"), ("db-1", "b")]);
        // Between the old volume and the new one there is none.
        let between = remembered(Some(&before), of(&["db-0", "db-1"], &[("db-0", "a")]));
        assert!(changes(Some(&before), Some(&between)).is_empty());
        let found = changes(Some(&between), Some(&of(&["db-0", "db-1"], &[("db-0", "a"), ("db-1", "c")])));
        assert_eq!((found.len(), found[0].event, found[0].about.join("")), (1, MemberReplaced, "db-1".into()));
        // One that leaves is forgotten with its volume.
        let left = remembered(Some(&before), of(&["db-0"], &[("db-0", "a")]));
        assert_eq!(left.volumes["db"].len(), 1);
        let found = changes(Some(&left), Some(&of(&["db-0", "db-1"], &[("db-0", "a"), ("db-1", "c")])));
        assert_eq!(found.iter().map(|c| c.event).collect::<Vec<_>>(), [MemberJoined]);
    }

    #[test]
    fn a_claim_that_grew_is_larger_or_was_refused() {
        let of = |claims: &[(&str, &str, u64)]| {
            facts(|f| {
                let claim = |(name, size, grown): &(&str, &str, u64)| {
                    ((*name).to_owned(), ClaimFacts { size: (*size).to_owned(), grown: *grown })
                };
                f.claims.insert("db".into(), claims.iter().map(claim).collect());
            })
        };
        let before = of(&[("a", "10Mi", 5), ("b", "10Mi", 0), ("c", "10Mi", 5)]);
        // The size of `c` was changed by a person; `d` is new.
        let after = of(&[("a", "10Mi", 9), ("b", "12Mi", 9), ("c", "12Mi", 5), ("d", "12Mi", 9)]);
        let found = changes(Some(&before), Some(&after)).into_iter().map(|c| (c.event, c.about.join(" ")));
        let expected = [(VolumeEnlarged, "b from 10Mi to 12Mi"), (VolumeNotEnlarged, "a")];
        assert_eq!(found.collect::<Vec<_>>(), expected.map(|(e, a)| (e, a.to_owned())));
        assert!(changes(Some(&facts(|_| {})), Some(&after)).is_empty(), "seen for the first time");
    }

    #[test]
    fn a_primary_that_changed_says_how() {
        let of = |primary: &str, kind: Option<&str>| {
            facts(|f| {
                f.primaries.insert("db".into(), primary.into());
                f.changed_by.extend(kind.map(|kind| ("db".to_owned(), kind.to_owned())));
            })
        };
        for (kind, reason) in [(Some("FailOver"), "FailOver"), (Some("SwitchOver"), "SwitchOver"), (None, "")] {
            let found = events(&of("db-0", None), &of("db-1", kind));
            assert_eq!(found, [(PrimaryChanged, reason.to_owned(), Course::Once)]);
        }
    }

    #[test]
    fn a_certificate_is_missing_until_it_is_valid_or_the_release_is_gone() {
        let of = |names: &[&str], revision| {
            facts(|f| (f.certificates, f.revision) = (names.iter().map(|name| (*name).to_owned()).collect(), revision))
        };
        let found = changes(Some(&of(&["a"], 1)), Some(&of(&["a", "b"], 1)));
        let found: Vec<_> = found.into_iter().map(|c| (c.event, c.subject, c.course)).collect();
        assert_eq!(found, [(CertificateMissing, "Certificate/b".into(), Course::Lingers)]);
        assert_eq!(events(&of(&["a"], 1), &of(&[], 1)), [(Recovered, String::new(), Course::Ends)]);
        assert_eq!(events(&of(&["a"], 1), &of(&[], 0)), [(Uninstalled, String::new(), Course::Once)]);
    }

    #[test]
    fn pods_start_crash_and_stop() {
        let pod = |uid: &str, started, restarts, last: Option<&str>| {
            let exit = |reason: &str| Exit { container: "c".into(), code: 1, reason: reason.into() };
            let workload = "Deployment/w".to_owned();
            let pod =
                PodFacts { uid: uid.into(), workload, started, restarts, last: last.map(exit), ..PodFacts::default() };
            facts(|f| drop(f.pods.insert("p".into(), pod)))
        };
        for (before, after, expected) in [
            (facts(|_| {}), pod("1", true, 0, None), vec![(PodStarted, "")]),
            (pod("1", true, 0, None), pod("2", true, 0, None), vec![(PodStopped, ""), (PodStarted, "")]),
            (pod("1", true, 0, None), facts(|_| {}), vec![(PodStopped, "")]),
            (
                pod("1", true, 0, None),
                pod("1", true, 2, Some("Error")),
                vec![(PodCrashed, "Error: container c ended with exit code 1")],
            ),
            (
                pod("1", true, 1, Some("Error")),
                pod("1", true, 2, Some("OOMKilled")),
                vec![(PodOutOfMemory, "OOMKilled: container c ended with exit code 1")],
            ),
            (pod("1", true, 2, Some("Error")), pod("1", true, 2, Some("Error")), vec![]),
        ] {
            let found = events(&before, &remembered(Some(&before), after));
            let found: Vec<_> = found.iter().map(|(event, reason, _)| (*event, &**reason)).collect();
            assert_eq!(found, expected);
        }
        let unready = remembered(Some(&pod("1", true, 0, None)), pod("1", false, 0, None));
        assert!(unready.pods["p"].started, "one that is not ready for a while has not stopped");
    }
}
