//! A row for each state of a hook, and what follows.

use super::{Hook, HookEvent, Progress, next, running};
use crate::mask::Text;
use crate::object::Gvk;
use crate::plan::PlanStep;
use crate::plan::situation::{Situation, SituationFacts, situation};
use crate::release::hook_run::{HookOutcome, HookRun};
use crate::release::live::Live;
use crate::release::owner::Owner;
use crate::release::record::{HookRecord, LastRun, Phase, Status};
use crate::release::secret::Revision;
use serde_json::json;

fn owner() -> Owner {
    Owner {
        gvk: Gvk::new("demo.example.com", "v1", "Web"),
        namespace: Some("ns".into()),
        name: "app".into(),
        uid: "cr".into(),
        release_name: "app".into(),
        release_namespace: "ns".into(),
        chart: "web".into(),
    }
}

fn hook(name: &str, kind: &str, weight: i64, policies: &[&str], last: (Phase, Option<HookEvent>)) -> Hook {
    let api = if kind == "Job" { "batch/v1" } else { "v1" };
    let record = HookRecord {
        name: name.into(),
        path: "t.yaml".into(),
        manifest: format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}}}"),
        events: vec!["pre-upgrade".into(), "post-upgrade".into()],
        weight,
        delete_policies: policies.iter().map(|p| (*p).to_owned()).collect(),
        last_run: LastRun { phase: last.0, event: last.1.map(|e| e.to_string()), ..LastRun::default() },
    };
    Hook::read(record, &owner(), |_| true).unwrap()
}

const NEVER: (Phase, Option<HookEvent>) = (Phase::None, None);
const RUNS: (Phase, Option<HookEvent>) = (Phase::Running, Some(HookEvent::PreUpgrade));
const SUCCEEDED: (Phase, Option<HookEvent>) = (Phase::Succeeded, Some(HookEvent::PreUpgrade));
const FAILED: (Phase, Option<HookEvent>) = (Phase::Failed, Some(HookEvent::PreUpgrade));

/// The live objects of hooks of revision 2, created at 1000; a hook may run for 300 seconds.
fn facts(live: &[(&Hook, HookOutcome)], now: i64) -> SituationFacts {
    let live = live.iter().map(|(hook, outcome)| {
        let run = HookRun {
            revision: 2,
            event: "pre-upgrade".into(),
            digest: hook.digest.as_str().into(),
            created: 1000,
            outcome: outcome.clone(),
        };
        let live = Live { hook: Some(Box::new(run)), ..Live::example() };
        (hook.id.clone(), live)
    });
    SituationFacts { now, live: live.collect(), ..SituationFacts::default() }
}

fn pre_upgrade(facts: &SituationFacts, hooks: &[Hook]) -> Progress {
    next(facts, hooks, 2, HookEvent::PreUpgrade)
}

fn start(hook: usize, again: bool) -> PlanStep {
    PlanStep::StartHook { hook, event: HookEvent::PreUpgrade, again }
}

#[test]
fn hooks_start_by_weight_and_name_and_only_what_has_to_end_is_waited_for() {
    let hooks = [
        hook("z", "Job", -1, &[], NEVER),
        hook("b", "ConfigMap", -5, &[], NEVER),
        hook("a", "ConfigMap", -5, &[], NEVER),
        hook("c", "Job", 0, &[], NEVER),
    ];
    let progress = pre_upgrade(&facts(&[], 1000), &hooks);
    assert_eq!(progress, Progress { steps: vec![start(2, false), start(1, false), start(0, false)], done: false });
    assert_eq!(next(&facts(&[], 0), &hooks, 2, HookEvent::PreDelete), Progress { steps: vec![], done: true });
}

#[test]
fn a_hook_is_as_its_record_and_its_object_say() {
    let event = HookEvent::PreUpgrade;
    let fail = |why: &'static str, timeout| PlanStep::FailHook { hook: 0, event, why: why.into(), timeout };
    let other = (Phase::Succeeded, Some(HookEvent::PostInstall));
    let failed = || HookOutcome::Failed("no".into());
    let table = [
        ("it never ran", NEVER, None, 1000, vec![start(0, false)], false),
        ("it ran for another event", other, None, 1000, vec![start(0, false)], false),
        (
            "it runs",
            RUNS,
            Some(HookOutcome::Running),
            1299,
            vec![PlanStep::AwaitHook { hook: 0, event, until: 1300 }],
            false,
        ),
        (
            "it runs too long",
            RUNS,
            Some(HookOutcome::Running),
            1300,
            vec![fail("it did not end within 300 seconds", true)],
            false,
        ),
        ("it succeeded", RUNS, Some(HookOutcome::Succeeded), 9999, vec![PlanStep::FinishHook { hook: 0, event }], true),
        ("it failed", RUNS, Some(failed()), 1000, vec![fail("no", false)], false),
        ("it vanished, or a crash came before it was made", RUNS, None, 1000, vec![start(0, false)], false),
        ("its success is noted", SUCCEEDED, None, 1000, vec![], true),
        (
            "its success is noted, and the object still there",
            SUCCEEDED,
            Some(HookOutcome::Succeeded),
            1000,
            vec![],
            true,
        ),
        ("its failure is noted: another attempt", FAILED, Some(failed()), 1000, vec![start(0, true)], false),
    ];
    for (name, last, live, now, steps, done) in table {
        let hooks = [hook("a", "Job", 0, &[], last)];
        let live: Vec<_> = live.into_iter().map(|outcome| (&hooks[0], outcome)).collect();
        assert_eq!(pre_upgrade(&facts(&live, now), &hooks), Progress { steps, done }, "{name}");
    }
}

#[test]
fn what_succeeded_is_deleted_by_policy_when_all_did_and_its_record_says_so() {
    let policy = ["hook-succeeded"];
    let hooks = [
        hook("a", "Job", 0, &policy, SUCCEEDED),
        hook("b", "Job", 1, &policy, RUNS),
        hook("c", "Job", 2, &[], SUCCEEDED),
    ];
    let running = facts(&[(&hooks[0], HookOutcome::Succeeded), (&hooks[1], HookOutcome::Running)], 1000);
    assert!(!pre_upgrade(&running, &hooks).steps.iter().any(|s| matches!(s, PlanStep::DeleteHook(_))));
    let all = [0, 1, 2].map(|i| (&hooks[i], HookOutcome::Succeeded));
    let progress = pre_upgrade(&facts(&all, 1000), &hooks);
    let finish = PlanStep::FinishHook { hook: 1, event: HookEvent::PreUpgrade };
    assert_eq!(progress.steps, [finish, PlanStep::DeleteHook(1), PlanStep::DeleteHook(0)]);
    // A crash came before the deletion.
    let noted = [hook("a", "Job", 0, &policy, SUCCEEDED)];
    assert_eq!(pre_upgrade(&facts(&all[..1], 1000), &noted).steps, [PlanStep::DeleteHook(0)]);
    assert_eq!(pre_upgrade(&facts(&[], 1000), &noted).steps, []);
}

#[test]
fn a_change_of_the_inputs_waits_for_the_hook_that_runs_but_not_longer_than_it_may() {
    let hooks = [hook("a", "Job", 0, &[], RUNS)];
    let history = || {
        vec![Revision {
            revision: 2,
            status: Status::PendingUpgrade,
            uid: "s".into(),
            resource_version: "1".into(),
            created: "".into(),
            at: 0,
            owner_uid: Some("cr".into()),
            owner: None,
            chart: None,
            inputs: Some("before".into()),
            inventory: None,
            rollback: None,
            chunks: None,
            render_after: None,
            lookups: None,
            members: None,
            operations: None,
            status_fields: None,
            kinds: Vec::new(),
        }]
    };
    let of = |outcome, now| SituationFacts {
        finalized: true,
        inputs: Some("now".into()),
        history: history(),
        ..facts(&[(&hooks[0], outcome)], now)
    };
    assert_eq!(situation(&of(HookOutcome::Running, 1299)), Situation::Waiting);
    assert_eq!(running(&of(HookOutcome::Running, 1299)), Some(1300));
    assert_eq!(situation(&of(HookOutcome::Running, 1300)), Situation::Changed);
    assert_eq!(situation(&of(HookOutcome::Succeeded, 1299)), Situation::Changed);
    let deleted = SituationFacts { deleting: true, ..of(HookOutcome::Running, 1299) };
    assert_eq!(situation(&deleted), Situation::Uninstall);
}

#[test]
fn the_outcome_is_read_from_a_job_and_a_pod_and_other_kinds_succeed_by_existing() {
    let of = |group: &str, kind: &str, status: serde_json::Value| {
        let metadata =
            json!({"creationTimestamp": "1970-01-01T00:00:07Z", "annotations": {super::HOOK: "2 pre-upgrade d"}});
        let run =
            HookRun::read(&Gvk::new(group, "v1", kind), &json!({"metadata": metadata, "status": status})).unwrap();
        assert_eq!((run.revision, &*run.event, &*run.digest, run.created), (2, "pre-upgrade", "d", 7));
        run.outcome
    };
    let condition =
        |name: &str| json!({"conditions": [{"type": name, "status": "True", "reason": "R", "message": "m"}]});
    assert_eq!(of("batch", "Job", json!({"active": 1})), HookOutcome::Running);
    assert_eq!(of("batch", "Job", condition("Complete")), HookOutcome::Succeeded);
    assert_eq!(of("batch", "Job", condition("Failed")), HookOutcome::Failed(Text::reason("R", "m")));
    // Running and ready is not done.
    assert_eq!(
        of("", "Pod", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
        HookOutcome::Running
    );
    assert_eq!(of("", "Pod", json!({"phase": "Succeeded"})), HookOutcome::Succeeded);
    assert_eq!(
        of("", "Pod", json!({"phase": "Failed", "message": "evicted"})),
        HookOutcome::Failed(Text::foreign("evicted"))
    );
    assert_eq!(of("apiextensions.k8s.io", "CustomResourceDefinition", json!({})), HookOutcome::Running);
    assert_eq!(of("", "ConfigMap", json!(null)), HookOutcome::Succeeded);
}

#[test]
fn the_object_of_a_delete_hook_survives_a_deletion_in_the_foreground() {
    let hook = hook("a", "Job", 0, &[], NEVER);
    for (event, foreground, owned) in
        [(HookEvent::PreUpgrade, true, true), (HookEvent::PreDelete, false, true), (HookEvent::PreDelete, true, false)]
    {
        let body = hook.body(2, event, &owner(), foreground);
        let metadata = &body["metadata"];
        assert_eq!(metadata.get("ownerReferences").is_some(), owned, "{event}");
        assert_eq!(metadata["annotations"].get("operator-sdk/primary-resource").is_some(), !owned, "{event}");
        assert_eq!(metadata["annotations"][super::HOOK], format!("2 {event} {}", hook.digest));
    }
}

#[test]
fn a_hook_that_runs_before_and_after_has_run_before_once_it_runs_after() {
    let after = (Phase::Succeeded, Some(HookEvent::PostUpgrade));
    let hooks = [
        hook("account", "ConfigMap", -10, &["before-hook-creation", "hook-succeeded"], after),
        hook("patch", "Job", 0, &[], (Phase::Running, Some(HookEvent::PostUpgrade))),
    ];
    let mut facts = facts(&[(&hooks[1], HookOutcome::Running)], 1100);
    for live in facts.live.values_mut() {
        live.hook.as_mut().unwrap().event = "post-upgrade".into();
    }
    assert_eq!(pre_upgrade(&facts, &hooks), Progress { steps: vec![], done: true });
    let waits = PlanStep::AwaitHook { hook: 1, event: HookEvent::PostUpgrade, until: 1300 };
    assert_eq!(next(&facts, &hooks, 2, HookEvent::PostUpgrade), Progress { steps: vec![waits], done: false });
    // A hook that ran after an upgrade says nothing about an installation.
    let [account, _] = hooks;
    assert_eq!(account.phase(HookEvent::PreInstall), Phase::None);
}
