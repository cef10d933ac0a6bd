//! A row for each situation, and for each plan that follows.
//!
//! Codes in names are rules of docs/design/applying.md.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::crds::{CrdAction, Definition};
use super::hooks::Hook;
use super::operations::document::Operations;
use super::situation::{Drift, Refusal, Situation, SituationFacts, situation};
use super::stamp::Stamped;
use super::{Desired, PlanStep, Verb, plan};
use crate::kind::switches::{DeletionPolicy, HELM_TIMEOUT, OnFailure, Switches};
use crate::members::document::Members;
use crate::object::{Gvk, ObjectId};
use crate::release::inventory::{Inventory, Reference};
use crate::release::live::Live;
use crate::release::owner::Owner;
use crate::release::record::{HookRecord, LastRun, Status};
use crate::release::secret::Revision;
use serde_json::json;

fn id(name: &str) -> ObjectId {
    ObjectId { gvk: Gvk::new("", "v1", "ConfigMap"), namespace: Some("ns".into()), name: name.into() }
}

fn live(name: &str) -> (ObjectId, Live) {
    let digest = Some(format!("digest-{name}").into());
    let live = Live { uid: format!("uid-{name}").into(), digest, ..Live::example() };
    (id(name), live)
}

fn revision(revision: u64, status: Status, inputs: Option<&str>, names: Option<&[&str]>) -> Revision {
    let reference = |name: &str| Reference {
        uid: format!("uid-{name}").into(),
        digest: format!("digest-{name}").into(),
        finished: false,
    };
    Revision {
        revision,
        status,
        uid: "s".into(),
        resource_version: "1".into(),
        created: "".into(),
        at: 0,
        owner_uid: Some("cr".into()),
        owner: None,
        chart: None,
        inputs: inputs.map(Into::into),
        inventory: names.map(|names| Inventory(names.iter().map(|n| (id(n), reference(n))).collect())),
        rollback: None,
        chunks: None,
        render_after: None,
        lookups: None,
        members: None,
        operations: None,
        status_fields: None,
        kinds: Vec::new(),
    }
}

fn facts(history: Vec<Revision>, names: &[&str]) -> SituationFacts {
    SituationFacts {
        release_namespace: "ns".into(),
        uid: "cr".into(),
        finalized: true,
        inputs: Some("now".into()),
        history,
        live: names.iter().map(|n| live(n)).collect(),
        ..SituationFacts::default()
    }
}

fn deployed(inputs: &str) -> Vec<Revision> {
    vec![revision(1, Status::Deployed, Some(inputs), Some(&["a", "b"]))]
}

fn object(name: &str, data: &str) -> Stamped {
    let body = json!({"data": data}).as_object().unwrap().clone();
    Stamped { id: id(name), body, kept: false }
}

fn desired(names: &[&str], previous: Option<&[&str]>) -> Desired {
    Desired {
        objects: names.iter().map(|n| object(n, "x")).collect(),
        previous: previous.map(|p| p.iter().map(|n| object(n, "x")).collect()),
        hooks: Vec::new(),
        hooks_equal: true,
        members: None,
        operations: None,
        status_fields: None,
        crds: Vec::new(),
        left_out: BTreeSet::new(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is a fact that may be absent")]
fn refusal() -> Option<Refusal> {
    Some(Refusal { reason: "ChartUnusable", message: "no chart".into() })
}

#[test]
fn every_situation_has_its_row() {
    let pending = || vec![revision(1, Status::PendingInstall, Some("now"), None)];
    let two = ["a", "b"].as_slice();
    let until = |at| deployed("now").into_iter().map(|r| Revision { render_after: Some(at), ..r }).collect::<Vec<_>>();
    let table: Vec<(&str, SituationFacts, Situation)> = vec![
        ("nothing exists", facts(vec![], &[]), Situation::New),
        ("all is well", facts(deployed("now"), two), Situation::Settled),
        ("the spec changed", facts(deployed("before"), two), Situation::Changed),
        ("its time is not over", SituationFacts { now: 99, ..facts(until(100), two) }, Situation::Settled),
        ("its time is over", SituationFacts { now: 100, ..facts(until(100), two) }, Situation::Changed),
        (
            "its time is over, and the values are known to fail",
            SituationFacts { now: 100, spent: true, ..facts(until(100), two) },
            Situation::Blocked,
        ),
        ("a crash stopped the install", facts(pending(), &["a"]), Situation::Unfinished),
        ("the upgrade failed", facts(vec![revision(2, Status::Failed, Some("now"), None)], two), Situation::Unfinished),
        (
            "the spec changed during it",
            facts(vec![revision(2, Status::Failed, Some("x"), None)], two),
            Situation::Changed,
        ),
        ("a human upgraded", facts(vec![revision(2, Status::Deployed, None, None)], two), Situation::Changed),
        (
            "a human's upgrade runs",
            SituationFacts { busy: true, ..facts(vec![revision(2, Status::PendingUpgrade, None, None)], two) },
            Situation::Waiting,
        ),
        (
            "a human's upgrade was left half done",
            facts(vec![revision(2, Status::PendingUpgrade, None, None)], two),
            Situation::Changed,
        ),
        (
            "helm uninstall --keep-history",
            facts(vec![revision(1, Status::Uninstalled, None, None)], &[]),
            Situation::New,
        ),
        ("deleted", SituationFacts { deleting: true, ..facts(deployed("now"), two) }, Situation::Uninstall),
        (
            "deleted, the chart is gone",
            SituationFacts { deleting: true, inputs: None, refusal: refusal(), ..facts(deployed("x"), two) },
            Situation::Uninstall,
        ),
        (
            "deleted, not ours",
            SituationFacts { deleting: true, finalized: false, ..facts(vec![], &[]) },
            Situation::Leave,
        ),
        (
            "another custom resource comes first",
            SituationFacts { awaits: refusal(), ..facts(vec![], &[]) },
            Situation::Awaiting(refusal().unwrap()),
        ),
        (
            "another custom resource is needed now",
            SituationFacts { awaits: refusal(), ..facts(deployed("before"), two) },
            Situation::Awaiting(refusal().unwrap()),
        ),
        (
            "another custom resource is needed now, and an object is missing",
            SituationFacts { awaits: refusal(), ..facts(deployed("before"), &["a"]) },
            Situation::Drifted(vec![Drift::Missing(id("b"))]),
        ),
        (
            "the chart is missing",
            SituationFacts { inputs: None, refusal: refusal(), ..facts(vec![], &[]) },
            Situation::Refused(refusal().unwrap()),
        ),
        (
            "the chart broke, what is deployed is intact",
            SituationFacts { inputs: None, refusal: refusal(), ..facts(deployed("x"), two) },
            Situation::Refused(refusal().unwrap()),
        ),
        (
            "the chart broke, and an object is gone",
            SituationFacts { inputs: None, refusal: refusal(), ..facts(deployed("x"), &["a"]) },
            Situation::Drifted(vec![Drift::Missing(id("b"))]),
        ),
        (
            "the values are known to fail",
            SituationFacts { spent: true, ..facts(deployed("x"), two) },
            Situation::Blocked,
        ),
        (
            "the values are known to fail, and an object is gone",
            SituationFacts { spent: true, ..facts(deployed("x"), &["b"]) },
            Situation::Drifted(vec![Drift::Missing(id("a"))]),
        ),
        ("a first install is known to fail", SituationFacts { spent: true, ..facts(vec![], &[]) }, Situation::Blocked),
        ("an object is gone", facts(deployed("now"), &["a"]), Situation::Drifted(vec![Drift::Missing(id("b"))])),
        (
            "an object too many",
            facts(deployed("now"), &["a", "b", "c"]),
            Situation::Drifted(vec![Drift::Stray(id("c"), "uid-c".into())]),
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(situation(&facts), expected, "{name}");
    }
}

#[test]
fn a_change_waits_for_another_custom_resource_and_what_is_deployed_is_kept() {
    let two = ["a", "b"].as_slice();
    let table: Vec<(&str, SituationFacts, Situation)> = vec![
        (
            "another custom resource is upgraded first",
            SituationFacts { holds: refusal(), ..facts(deployed("before"), two) },
            Situation::Awaiting(refusal().unwrap()),
        ),
        (
            "another custom resource is upgraded first, and an object is missing",
            SituationFacts { holds: refusal(), ..facts(deployed("before"), &["a"]) },
            Situation::Drifted(vec![Drift::Missing(id("b"))]),
        ),
        (
            "another custom resource is upgraded, and nothing is to be changed here",
            SituationFacts { holds: refusal(), ..facts(deployed("now"), two) },
            Situation::Settled,
        ),
        (
            "another custom resource is upgraded, and the own upgrade has begun",
            SituationFacts {
                holds: refusal(),
                ..facts(vec![revision(2, Status::PendingUpgrade, Some("now"), None)], two)
            },
            Situation::Unfinished,
        ),
        (
            "another custom resource is upgraded first, and the last upgrade failed",
            SituationFacts { holds: refusal(), ..facts(vec![revision(2, Status::Failed, Some("before"), None)], two) },
            Situation::Awaiting(refusal().unwrap()),
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(situation(&facts), expected, "{name}");
    }
}

/// Revisions 1, deployed, and 2 that failed for the inputs of now.
fn failed_upgrade() -> Vec<Revision> {
    let mut history = deployed("before");
    history.push(revision(2, Status::Failed, Some("now"), None));
    history
}

fn rolling_back(status: Status) -> Vec<Revision> {
    let mut history = failed_upgrade();
    history.push(Revision { rollback: Some(1), ..revision(3, status, Some("before"), None) });
    history
}

#[test]
fn what_failed_for_good_goes_where_the_switch_says_and_stays_there() {
    let spent = |history, on_failure| SituationFacts {
        spent: true,
        switches: Switches { on_failure, ..Switches::default() },
        ..facts(history, &["a", "b"])
    };
    let first = || vec![revision(1, Status::Failed, Some("now"), None)];
    let back = || {
        let mut history = rolling_back(Status::Deployed);
        let inventory = history[0].inventory.clone();
        history[2].inventory = inventory;
        history
    };
    let foreign = || vec![revision(1, Status::Failed, None, None)];
    let with_members = || {
        let mut history = failed_upgrade();
        history[1].members = Some("{}".into());
        history
    };
    let table = [
        ("an upgrade", failed_upgrade(), OnFailure::Rollback, Situation::RollBack(1)),
        ("an upgrade", failed_upgrade(), OnFailure::Uninstall, Situation::RollBack(1)),
        ("an upgrade", failed_upgrade(), OnFailure::Keep, Situation::Blocked),
        ("an upgrade of members", with_members(), OnFailure::Rollback, Situation::Blocked),
        ("an upgrade of members", with_members(), OnFailure::Uninstall, Situation::Blocked),
        ("an installation", first(), OnFailure::Rollback, Situation::Blocked),
        ("an installation", first(), OnFailure::Keep, Situation::Blocked),
        ("an installation", first(), OnFailure::Uninstall, Situation::Abandoned),
        ("it is uninstalled", vec![], OnFailure::Uninstall, Situation::Blocked),
        ("a crash in the rollback", rolling_back(Status::PendingRollback), OnFailure::Rollback, Situation::Unfinished),
        ("the rollback failed", rolling_back(Status::Failed), OnFailure::Rollback, Situation::Unfinished),
        ("rolled back", back(), OnFailure::Rollback, Situation::Blocked),
        ("a human's", foreign(), OnFailure::Uninstall, Situation::Blocked),
    ];
    for (name, history, on_failure, expected) in table {
        assert_eq!(situation(&spent(history, on_failure)), expected, "{name}, {on_failure:?}");
    }
    // New inputs do not wait for the rollback. The old inputs finish it.
    let moved = SituationFacts { inputs: Some("later".into()), ..facts(rolling_back(Status::PendingRollback), &[]) };
    assert_eq!(situation(&moved), Situation::Changed);
    let taken_back =
        SituationFacts { inputs: Some("before".into()), ..facts(rolling_back(Status::PendingRollback), &[]) };
    assert_eq!(situation(&taken_back), Situation::Unfinished);
}

#[test]
fn between_two_attempts_nothing_is_tried_but_what_is_deployed_is_kept() {
    let pausing = |history, names| SituationFacts { pausing: true, ..facts(history, names) };
    assert_eq!(situation(&pausing(failed_upgrade(), &["a", "b"])), Situation::Waiting);
    assert_eq!(situation(&pausing(deployed("before"), &["a", "b"])), Situation::Waiting);
    let drift = Situation::Drifted(vec![Drift::Missing(id("b"))]);
    assert_eq!(situation(&pausing(deployed("before"), &["a"])), drift);
    let deleted = SituationFacts { deleting: true, ..pausing(failed_upgrade(), &["a"]) };
    assert_eq!(situation(&deleted), Situation::Waiting, "a deletion whose hook failed; its attempts are its own");
}

#[test]
fn a_pause_stops_everything_but_a_deletion() {
    let switches = Switches { paused: true, ..Switches::default() };
    let paused = |facts| SituationFacts { switches: switches.clone(), ..facts };
    assert_eq!(situation(&paused(facts(vec![], &[]))), Situation::Paused(vec![]));
    assert_eq!(situation(&paused(facts(failed_upgrade(), &[]))), Situation::Paused(vec![]));
    let drifted = situation(&paused(facts(deployed("now"), &["a"])));
    assert_eq!(drifted, Situation::Paused(vec![Drift::Missing(id("b"))]));
    let deleted = SituationFacts { deleting: true, ..facts(deployed("now"), &["a"]) };
    assert_eq!(situation(&paused(deleted)), Situation::Uninstall);
}

#[test]
fn who_asks_for_a_pass_gets_one_that_renders() {
    let asked = SituationFacts { asked: true, ..facts(deployed("now"), &["a", "b"]) };
    assert_eq!(situation(&asked), Situation::Changed);
}

#[test]
fn a_rollback_is_a_revision_with_the_objects_of_the_last_good_one() {
    let facts = SituationFacts { spent: true, ..facts(failed_upgrade(), &["a", "new"]) };
    let plan = plan(&facts, &Situation::RollBack(1), &desired(&["a", "b"], Some(&["a", "new"])));
    assert_eq!((plan.verb, plan.revision), (Verb::RollBack, 3));
    assert_eq!(
        plan.steps,
        [
            PlanStep::CreateRollback { revision: 3, to: 1 },
            PlanStep::Apply { object: 0, force: true },
            PlanStep::Apply { object: 1, force: true },
            PlanStep::Prune { id: id("new"), uid: Some("uid-new".into()) },
            PlanStep::Supersede(1),
            PlanStep::MarkDeployed(3),
        ]
    );
    let crashed = SituationFacts { history: rolling_back(Status::PendingRollback), ..facts };
    let resumed = super::plan(&crashed, &Situation::Unfinished, &desired(&["a", "b"], None));
    assert_eq!((resumed.verb, resumed.revision), (Verb::RollBack, 3));
}

#[test]
fn a_first_installation_that_is_given_up_leaves_nothing_but_the_finalizer() {
    let facts = facts(vec![revision(1, Status::Failed, Some("now"), None)], &["a"]);
    let plan = plan(&facts, &Situation::Abandoned, &desired(&["a"], None));
    assert_eq!(plan.steps, [PlanStep::Prune { id: id("a"), uid: Some("uid-a".into()) }, PlanStep::Forget(1)]);
}

#[test]
fn a_release_of_which_nothing_was_ever_deployed_is_installed_and_not_upgraded() {
    let facts = facts(vec![revision(1, Status::Failed, Some("before"), None)], &["a"]);
    let plan = plan(&facts, &Situation::Changed, &desired(&["a"], Some(&["a"])));
    assert_eq!(plan.verb, Verb::Install);
    assert_eq!(plan.steps[0], PlanStep::CreateRecord { revision: 2, status: Status::PendingInstall });
}

#[test]
fn an_orphan_keeps_objects_and_records_and_loses_its_owner() {
    let switches = Switches { deletion_policy: DeletionPolicy::Orphan, ..Switches::default() };
    let facts = SituationFacts { deleting: true, switches, ..facts(deployed("now"), &["a", "b"]) };
    let plan = plan(&facts, &Situation::Uninstall, &desired(&["a", "b"], None));
    assert_eq!(plan.steps, [PlanStep::Orphan(id("a")), PlanStep::Orphan(id("b")), PlanStep::Unfinalize]);
}

#[test]
fn a_dry_run_says_what_would_be_created_changed_and_deleted() {
    let facts = facts(deployed("before"), &["a", "b", "c"]);
    let mut desired = desired(&["a", "b", "new"], Some(&["a", "b", "c"]));
    desired.objects[1] = object("b", "other");
    let text = plan(&facts, &Situation::Changed, &desired).describe(&desired);
    assert_eq!(text, "Upgrade, revision 2; create ConfigMap new; change ConfigMap b; delete ConfigMap c");
}

#[test]
fn an_object_of_a_kind_whose_list_is_not_complete_is_not_judged_missing() {
    let mut facts = facts(deployed("now"), &["a"]);
    facts.unsynced.insert((Gvk::new("", "v1", "ConfigMap"), Some("ns".into())));
    assert_eq!(situation(&facts), Situation::Settled);
}

#[test]
fn a_changed_field_and_another_uid_are_drift_and_a_kept_or_foreign_object_is_no_stray() {
    let drift_after = |change: fn(&mut Live)| {
        let mut facts = facts(deployed("now"), &["a", "b", "c"]);
        change(facts.live.get_mut(&id("c")).unwrap());
        situation(&facts)
    };
    assert_eq!(drift_after(|l| l.kept = true), Situation::Settled);
    assert_eq!(drift_after(|l| l.owner_uid = Some("another".into())), Situation::Settled);
    assert_eq!(drift_after(|l| l.digest = None), Situation::Settled);
    let mut facts = facts(deployed("now"), &["a", "b"]);
    facts.live.get_mut(&id("a")).unwrap().digest = Some("other".into());
    facts.live.get_mut(&id("b")).unwrap().uid = "other".into();
    assert_eq!(situation(&facts), Situation::Drifted(vec![Drift::Changed(id("a")), Drift::Changed(id("b"))]));
}

#[test]
fn the_finalizer_comes_before_the_first_write() {
    let facts = SituationFacts { finalized: false, ..facts(vec![], &[]) };
    let plan = plan(&facts, &Situation::New, &desired(&["a"], None));
    assert_eq!(
        plan.steps,
        [
            PlanStep::Finalize,
            PlanStep::CreateRecord { revision: 1, status: Status::PendingInstall },
            PlanStep::Apply { object: 0, force: false },
            PlanStep::MarkDeployed(1),
        ]
    );
}

fn owned(name: &str) -> Stamped {
    let body = json!({"metadata": {"ownerReferences": [{"uid": "cr"}]}}).as_object().unwrap().clone();
    Stamped { body, ..object(name, "x") }
}

fn hook(event: &str) -> Hook {
    let owner = Owner {
        gvk: Gvk::new("demo.example.com", "v1", "Web"),
        namespace: Some("ns".into()),
        name: "app".into(),
        uid: "cr".into(),
        release_name: "app".into(),
        release_namespace: "ns".into(),
        chart: "web".into(),
    };
    let record = HookRecord {
        name: "job".into(),
        path: "job.yaml".into(),
        manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}".into(),
        events: vec![event.into()],
        weight: 0,
        delete_policies: Vec::new(),
        last_run: LastRun::default(),
    };
    Hook::read(record, &owner, |_| true).unwrap()
}

#[test]
fn a_first_revision_is_recorded_once_where_its_objects_tell_whose_they_are() {
    let new = || SituationFacts { finalized: false, ..facts(vec![], &[]) };
    let all = || Desired { objects: vec![owned("a"), owned("b")], ..desired(&[], None) };
    let begin = |facts: &SituationFacts, desired: &Desired| plan(facts, &Situation::New, desired);
    assert_eq!(
        begin(&new(), &all()).steps,
        [
            PlanStep::Finalize,
            PlanStep::Apply { object: 0, force: false },
            PlanStep::Apply { object: 1, force: false },
            PlanStep::CreateRecord { revision: 1, status: Status::Deployed },
        ]
    );
    let hooked = |event| Desired { hooks: vec![hook(event)], ..all() };
    assert!(begin(&new(), &hooked("pre-upgrade")).is_recorded_last(), "such a hook does not run");
    let off = Switches { hooks: false, ..Switches::default() };
    assert!(
        begin(&SituationFacts { switches: off, ..new() }, &hooked("pre-install")).is_recorded_last(),
        "no hook runs"
    );
    let timeout = Switches { timeout: Some(HELM_TIMEOUT), ..Switches::default() };
    let uninstalled = vec![revision(1, Status::Uninstalled, None, None)];
    for (why, facts, desired) in [
        ("an attempt was cut off", SituationFacts { finalized: true, ..new() }, all()),
        ("the objects are elsewhere", SituationFacts { release_namespace: "other".into(), ..new() }, all()),
        ("another wants the name", SituationFacts { rivals: true, ..new() }, all()),
        ("the objects are waited for", SituationFacts { switches: timeout, ..new() }, all()),
        ("it was uninstalled", SituationFacts { history: uninstalled, ..new() }, all()),
        ("a hook comes before", new(), hooked("pre-install")),
        ("a hook comes after", new(), hooked("post-install")),
        ("one has no owner", new(), Desired { objects: vec![owned("a"), object("b", "x")], ..all() }),
        ("it has members", new(), Desired { members: Some(Arc::new(Members::default())), ..all() }),
        ("it has operations", new(), Desired { operations: Some(Arc::new(Operations::default())), ..all() }),
    ] {
        let plan = begin(&facts, &desired);
        let pending = |step: &PlanStep| matches!(step, PlanStep::CreateRecord { status: Status::PendingInstall, .. });
        assert!(!plan.is_recorded_last() && plan.steps.iter().any(pending), "{why}: {plan}");
    }
}

#[test]
fn an_upgrade_applies_only_what_changed_or_is_not_as_it_was_applied() {
    let steps = |change: fn(&mut SituationFacts, &mut Desired)| {
        let (mut facts, mut desired) =
            (facts(deployed("before"), &["a", "b"]), desired(&["a", "b"], Some(&["a", "b"])));
        desired.objects[1] = object("b", "new");
        change(&mut facts, &mut desired);
        let steps = plan(&facts, &Situation::Changed, &desired).steps;
        steps.into_iter().filter(|s| matches!(s, PlanStep::Keep(_) | PlanStep::Apply { .. })).collect::<Vec<_>>()
    };
    let [a, b] = [0, 1].map(|object| PlanStep::Apply { object, force: true });
    assert_eq!(steps(|_, _| {}), [PlanStep::Keep(0), b.clone()]);
    let both = [a, b];
    assert_eq!(steps(|f, _| f.live.get_mut(&id("a")).unwrap().digest = Some("other".into())), both);
    assert_eq!(steps(|f, _| f.live.get_mut(&id("a")).unwrap().uid = "other".into()), both);
    assert_eq!(steps(|f, _| f.live.get_mut(&id("a")).unwrap().shared = true), both);
    assert_eq!(steps(|f, _| f.live.get_mut(&id("a")).unwrap().deleting = true), both);
    assert_eq!(steps(|f, _| drop(f.live.remove(&id("a")))), both, "it is missing");
    assert_eq!(steps(|_, d| d.previous = None), both, "nothing is known of before");
    assert_eq!(steps(|f, _| f.history[0].status = Status::Failed), both, "it is not known how far that one came");
    assert_eq!(steps(|f, _| f.history[0].inventory = None), both);
}

#[test]
fn an_upgrade_prunes_what_the_revision_before_had() {
    let facts = facts(deployed("before"), &["a", "b"]);
    let plan = plan(&facts, &Situation::Changed, &desired(&["b", "c"], Some(&["a", "b"])));
    assert_eq!((plan.verb, plan.revision), (Verb::Upgrade, 2));
    assert_eq!(
        plan.steps,
        [
            PlanStep::CreateRecord { revision: 2, status: Status::PendingUpgrade },
            PlanStep::Keep(0),
            PlanStep::Apply { object: 1, force: false },
            PlanStep::Prune { id: id("a"), uid: Some("uid-a".into()) },
            PlanStep::Supersede(1),
            PlanStep::MarkDeployed(2),
        ]
    );
}

#[test]
fn inputs_that_render_to_the_same_objects_make_no_revision() {
    let facts = facts(deployed("before"), &["a", "b"]);
    let plan = plan(&facts, &Situation::Changed, &desired(&["b", "a"], Some(&["a", "b"])));
    assert_eq!((plan.verb, plan.steps), (Verb::Note, vec![PlanStep::Note(1)]));
}

#[test]
fn a_revision_whose_annotations_were_wiped_is_applied_once_more_and_not_counted() {
    let facts = facts(vec![revision(4, Status::Deployed, None, None)], &["a"]);
    let plan = plan(&facts, &Situation::Changed, &desired(&["a"], Some(&["a"])));
    assert_eq!(plan.steps, [PlanStep::Apply { object: 0, force: true }, PlanStep::Note(4)]);
}

#[test]
fn drift_repairs_only_the_object_that_drifted() {
    let facts = facts(deployed("now"), &["a"]);
    let drift = Situation::Drifted(vec![Drift::Missing(id("b")), Drift::Stray(id("c"), "u".into())]);
    let plan = plan(&facts, &drift, &desired(&["a", "b"], None));
    assert_eq!(
        plan.steps,
        [
            PlanStep::Apply { object: 1, force: true },
            PlanStep::Prune { id: id("c"), uid: Some("u".into()) },
            PlanStep::Note(1)
        ]
    );
}

#[test]
fn an_uninstall_goes_in_reverse_and_ends_with_records_and_finalizer() {
    let facts = SituationFacts { deleting: true, ..facts(deployed("now"), &["a", "b", "stray"]) };
    let plan = plan(&facts, &Situation::Uninstall, &desired(&["a", "gone", "b"], None));
    let prune = |name: &str, uid: Option<&str>| PlanStep::Prune { id: id(name), uid: uid.map(Into::into) };
    assert_eq!(
        plan.steps,
        [
            prune("stray", Some("uid-stray")),
            prune("b", Some("uid-b")),
            prune("gone", None),
            prune("a", Some("uid-a")),
            PlanStep::Forget(1),
            PlanStep::Unfinalize,
        ]
    );
}

#[test]
fn an_uninstall_looks_at_an_object_that_is_not_marked_ours_before_it_deletes_it() {
    let mut facts = SituationFacts { deleting: true, ..facts(deployed("now"), &["a"]) };
    facts.live.get_mut(&id("a")).unwrap().digest = None;
    let steps = plan(&facts, &Situation::Uninstall, &desired(&["a"], None)).steps;
    assert_eq!(steps[0], PlanStep::Prune { id: id("a"), uid: None });
}

#[test]
fn an_uninstall_that_waits_keeps_record_and_finalizer_until_all_is_gone() {
    let facts = SituationFacts { deleting: true, wait_for_deletion: true, ..facts(deployed("now"), &["a"]) };
    let steps = plan(&facts, &Situation::Uninstall, &desired(&["a"], None)).steps;
    assert_eq!(steps, [PlanStep::Prune { id: id("a"), uid: Some("uid-a".into()) }]);
}

#[test]
fn a_foreign_release_is_not_deleted_with_the_custom_resource() {
    let facts = SituationFacts { deleting: true, foreign: Some("x".into()), ..facts(deployed("now"), &[]) };
    assert_eq!(plan(&facts, &Situation::Uninstall, &desired(&[], None)).steps, [PlanStep::Unfinalize]);
}

#[test]
fn old_revisions_go_but_never_the_last_deployed_one() {
    let limit = u64::try_from(Switches::default().max_history).unwrap();
    let mut history: Vec<Revision> = (1..=limit).map(|r| revision(r, Status::Superseded, None, None)).collect();
    history[0].status = Status::Deployed;
    history.push(revision(limit + 1, Status::Failed, Some("now"), None));
    let steps = plan(&facts(history, &[]), &Situation::Unfinished, &desired(&[], None)).steps;
    assert_eq!(steps, [PlanStep::Supersede(1), PlanStep::MarkDeployed(limit + 1)]);
    let history = (1..=limit + 2).map(|r| revision(r, Status::Superseded, None, None)).collect();
    let steps = plan(&facts(history, &[]), &Situation::Changed, &desired(&["a"], None)).steps;
    let end = [PlanStep::Forget(1), PlanStep::Forget(2), PlanStep::Forget(3), PlanStep::MarkDeployed(13)];
    assert!(steps.ends_with(&end), "{steps:?}");
}

/// docs/design/applying.md B1: fields have other names in another version, and the object is the same.
#[test]
fn an_object_in_another_version_of_its_group_is_neither_pruned_nor_a_stray() {
    let mut other = id("a");
    other.gvk = Gvk::new("", "v2", "ConfigMap");
    let mut wanted = object("a", "x");
    wanted.id = other.clone();
    // The chart moves: the record has the version before, and its watch shows the object.
    let moved = Desired { objects: vec![wanted], ..desired(&[], Some(&["a"])) };
    let steps = plan(&facts(deployed("before"), &["a"]), &Situation::Changed, &moved).steps;
    assert!(!steps.iter().any(|step| matches!(step, PlanStep::Prune { .. })), "{steps:?}");
    // And it has moved: both watches show it.
    let mut facts = facts(deployed("now"), &["a", "b"]);
    facts.live.insert(other, live("a").1);
    assert_eq!(situation(&facts), Situation::Settled);
}

#[test]
fn custom_resource_definitions_of_the_chart_come_first() {
    let crd = Definition { body: serde_json::Map::new(), action: CrdAction::Create };
    let desired = Desired { crds: vec![crd], ..desired(&["a"], None) };
    let facts = SituationFacts { finalized: false, ..facts(vec![], &[]) };
    assert_eq!(plan(&facts, &Situation::New, &desired).steps, [PlanStep::Finalize, PlanStep::CreateCrds]);
}
