use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Map;

use super::{
    Ended, JobRun, JobState, JobsAction, JobsLatch, JobsStep, ObservedJobs, SeenJob, Sizes, View, before_deletion,
    decide,
};
use crate::members::document::{ScaleEvent, ScaleHook};
use crate::members::driver::MemberStep;
use crate::members::workload::{ClaimSize, Mode, Move, MoveKind, Pod, VolumeClaim, Workload, WorkloadTarget};

const NOW: i64 = 1_000;

/// The input of decisions.
struct World {
    workload: Workload,
    observed: ObservedJobs,
    hooks: Vec<ScaleHook>,
    target: WorkloadTarget,
    latch: JobsLatch,
    now: i64,
}

fn pod(ordinal: u32) -> Pod {
    Pod { uid: format!("pod-{ordinal}").into(), ..Pod::example() }
}

fn claim(ordinal: u32, terminating: bool) -> VolumeClaim {
    let name = format!("data-db-{ordinal}");
    VolumeClaim {
        uid: format!("u-{name}").into(),
        name: name.as_str().into(),
        created: 1,
        terminating,
        lost: false,
        size: ClaimSize::default(),
    }
}

impl World {
    /// A number of members, all ready, of which `size` are wanted.
    fn of(members: u32, size: u32) -> Self {
        let hook = |event: ScaleEvent| ScaleHook {
            set: "m".into(),
            name: event.as_str().into(),
            events: vec![event],
            weight: 0,
            container: None,
            digest: "d".into(),
            job: Map::new(),
        };
        Self {
            workload: Workload {
                pods: (0..members).map(|k| (k, pod(k))).collect(),
                claims: (0..members).map(|k| (k, vec![claim(k, false)])).collect(),
                ..Workload::example(members)
            },
            observed: ObservedJobs::default(),
            hooks: [
                ScaleEvent::Bootstrap,
                ScaleEvent::BeforeScaleUp,
                ScaleEvent::AfterReady,
                ScaleEvent::BeforeScaleDown,
                ScaleEvent::AfterGone,
                ScaleEvent::BeforeRestart,
                ScaleEvent::AfterRestart,
            ]
            .map(hook)
            .to_vec(),
            target: WorkloadTarget::of(size),
            latch: JobsLatch {
                bootstrapped: members > 0,
                replicas: Some(members),
                claims: (0..members).map(|k| (k, vec![claim(k, false).uid.to_string()])).collect(),
                ..JobsLatch::default()
            },
            now: NOW,
        }
    }

    fn moving(mut self, kind: MoveKind, ordinal: u32) -> Self {
        self.latch.moving = Some(Move { kind, ordinal, since: 900 });
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn run(&self, event: ScaleEvent, attempt: u32) -> JobRun {
        let moving = self.latch.moving.as_ref().unwrap();
        JobRun {
            set: "m".into(),
            hook: event.as_str().into(),
            event,
            ordinal: moving.ordinal,
            since: moving.since,
            attempt,
            digest: "d".into(),
        }
    }

    fn job(mut self, event: ScaleEvent, attempt: u32, state: JobState) -> Self {
        let run = self.run(event, attempt);
        let name = run.name();
        self.observed.jobs.push(SeenJob { uid: format!("u-{name}"), name, run, state });
        self
    }

    fn done(self, event: ScaleEvent) -> Self {
        self.job(event, 0, JobState::Ended(Ended::Done, 950))
    }

    fn decide(&self) -> JobsStep {
        decide(&View {
            workload: &self.workload,
            observed: &self.observed,
            hooks: &self.hooks,
            set: "m",
            target: &self.target,
            latch: &self.latch,
            now: self.now,
        })
    }

    #[track_caller]
    fn latches(&self, moving: Option<(MoveKind, u32)>) -> JobsLatch {
        match self.decide() {
            MemberStep::Latch(latch) => {
                assert_eq!(latch.moving.as_ref().map(|m| (m.kind, m.ordinal)), moving);
                latch
            }
            step => panic!("{step:?}"),
        }
    }

    #[track_caller]
    fn starts(&self, event: ScaleEvent, attempt: u32, from: u32, to: u32) {
        assert_eq!(self.decide(), MemberStep::Act(JobsAction::Start(self.run(event, attempt), Sizes { from, to })));
    }

    #[track_caller]
    fn waits(&self, text: &str) -> Duration {
        match self.decide() {
            MemberStep::Wait { why, after } => {
                assert!(why.contains(text), "{why}");
                after
            }
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    assert_eq!(World::of(3, 3).decide(), MemberStep::Quiet);
    for mode in [Mode::Paused, Mode::Deleting] {
        let world = World::of(3, 1).with(|w| w.target.mode = mode).moving(MoveKind::Leave, 2);
        assert_eq!(world.decide(), MemberStep::Quiet);
    }
    World::of(3, 3).with(|w| w.observed.blind = Some("forbidden".into())).waits("forbidden");
}

#[test]
fn the_first_look_tells_a_new_set_from_one_that_was_there() {
    let first = |members: u32, claims: u32, adopt: bool| {
        World::of(members, 3).with(|w| {
            w.latch = JobsLatch::default();
            w.workload.claims = (0..claims).map(|k| (k, vec![claim(k, false)])).collect();
            w.target.adopt_claims = adopt;
        })
    };
    let latch = first(0, 0, false).latches(None);
    assert_eq!((latch.replicas, latch.bootstrapped), (Some(0), false));
    let latch = first(2, 2, false).latches(None);
    assert_eq!((latch.replicas, latch.bootstrapped), (Some(2), true), "one that is adopted keeps what it has");
    assert!(matches!(first(0, 2, false).decide(), MemberStep::Stop { reason: "OrphanedVolumes", .. }));
    let latch = first(0, 2, true).latches(None);
    assert_eq!((latch.replicas, latch.bootstrapped), (Some(2), true));
    let earlier = |w: &mut World| w.workload.earlier = vec!["db-1".into()];
    first(0, 0, false).with(earlier).waits("pod db-1 of an earlier StatefulSet to be deleted");
    first(0, 2, true).with(|w| w.workload.claims = [(0, vec![claim(0, true)])].into()).waits("claim data-db-0 to go");
}

#[test]
fn replicas_that_are_not_those_written_last_come_back() {
    for wrong in [0, 1, 2, 4, 9] {
        assert_eq!(World::of(3, 5).with(|w| w.workload.replicas = wrong).decide(), MemberStep::Scale(3));
    }
}

#[test]
fn the_first_member_starts_and_is_bootstrapped_once() {
    World::of(0, 3).latches(Some((MoveKind::Join, 0)));
    let first = || World::of(0, 3).moving(MoveKind::Join, 0);
    assert_eq!(first().decide(), MemberStep::Scale(1), "no member is left to inform");
    let started = || World::of(1, 3).moving(MoveKind::Join, 0).with(|w| w.latch.bootstrapped = false);
    started().with(|w| w.workload.pods.get_mut(&0).unwrap().ready = false).waits("pod db-0: it is not ready");
    started().starts(ScaleEvent::Bootstrap, 0, 0, 1);
    assert!(started().done(ScaleEvent::Bootstrap).latches(None).bootstrapped);
}

#[test]
fn a_member_joins_in_four_steps() {
    World::of(1, 3).latches(Some((MoveKind::Join, 1)));
    let before = || World::of(1, 3).moving(MoveKind::Join, 1);
    before().starts(ScaleEvent::BeforeScaleUp, 0, 1, 2);
    before().job(ScaleEvent::BeforeScaleUp, 0, JobState::Running).waits("before-scale-up hook");
    assert_eq!(before().done(ScaleEvent::BeforeScaleUp).decide(), MemberStep::Scale(2));
    let after = || World::of(2, 3).moving(MoveKind::Join, 1).done(ScaleEvent::BeforeScaleUp);
    after().with(|w| drop(w.workload.pods.remove(&1))).waits("pod db-1: it does not exist yet");
    after().starts(ScaleEvent::AfterReady, 0, 1, 2);
    after().done(ScaleEvent::AfterReady).latches(None);
    // All existing members have to be ready first.
    World::of(2, 3).with(|w| w.workload.pods.get_mut(&0).unwrap().ready = false).waits("pod db-0");
}

#[test]
fn a_member_leaves_in_order_and_its_claim_last() {
    World::of(3, 1).latches(Some((MoveKind::Leave, 2)));
    let before = || World::of(3, 1).moving(MoveKind::Leave, 2);
    before().starts(ScaleEvent::BeforeScaleDown, 0, 3, 2);
    assert_eq!(before().done(ScaleEvent::BeforeScaleDown).decide(), MemberStep::Scale(2));
    let lowered = || {
        World::of(2, 1).moving(MoveKind::Leave, 2).done(ScaleEvent::BeforeScaleDown).with(|w| {
            w.workload.claims.insert(2, vec![claim(2, false)]);
            w.latch.claims.insert(2, vec!["u-data-db-2".into()]);
        })
    };
    lowered().with(|w| drop(w.workload.pods.insert(2, pod(2)))).waits("pod db-2 to go");
    lowered().starts(ScaleEvent::AfterGone, 0, 3, 2);
    let gone = || lowered().done(ScaleEvent::AfterGone);
    let deletion = MemberStep::DeleteClaim { name: "data-db-2".into(), uid: "u-data-db-2".into() };
    assert_eq!(gone().decide(), deletion);
    gone().with(|w| drop(w.workload.claims.insert(2, vec![claim(2, true)]))).waits("claim data-db-2 to go");
    let forgotten = gone().with(|w| drop(w.workload.claims.remove(&2))).latches(Some((MoveKind::Leave, 2)));
    assert!(!forgotten.claims.contains_key(&2), "its claim is gone");
    gone().with(|w| drop((w.workload.claims.remove(&2), w.latch.claims.remove(&2)))).latches(None);
    gone().with(|w| w.target.delete_claims = false).latches(None);
}

#[test]
fn a_size_that_changes_while_a_member_moves_is_followed_once_that_is_safe() {
    let refused = JobState::Ended(Ended::Refused("no".into()), 990);
    World::of(3, 3).moving(MoveKind::Leave, 2).latches(None);
    World::of(3, 3).moving(MoveKind::Leave, 2).job(ScaleEvent::BeforeScaleDown, 0, refused.clone()).latches(None);
    let told = World::of(3, 3).moving(MoveKind::Leave, 2).done(ScaleEvent::BeforeScaleDown);
    assert_eq!(told.decide(), MemberStep::Scale(2), "it has left already");
    World::of(1, 1).moving(MoveKind::Join, 1).latches(None);
    World::of(1, 1).moving(MoveKind::Join, 1).job(ScaleEvent::BeforeScaleUp, 0, refused).latches(None);
    let told = World::of(1, 1).moving(MoveKind::Join, 1).done(ScaleEvent::BeforeScaleUp);
    assert_eq!(told.decide(), MemberStep::Scale(2), "it joins, and leaves then");
}

#[test]
fn volumes_of_an_earlier_member_are_deleted_adopted_or_refused() {
    let joining = |delete: bool, adopt: bool, terminating: bool| {
        World::of(1, 2).moving(MoveKind::Join, 1).with(|w| {
            w.workload.claims.insert(1, vec![claim(1, terminating)]);
            w.latch.claims.insert(1, vec!["u-data-db-1".into()]);
            (w.target.delete_claims, w.target.adopt_claims) = (delete, adopt);
        })
    };
    assert!(matches!(joining(true, false, false).decide(), MemberStep::DeleteClaim { .. }));
    joining(true, false, true).waits("claim data-db-1 to go");
    assert!(matches!(joining(false, false, false).decide(), MemberStep::Stop { reason: "OrphanedVolumes", .. }));
    joining(false, true, false).starts(ScaleEvent::BeforeScaleUp, 0, 1, 2);
}

#[test]
fn a_claim_that_no_member_had_is_never_deleted() {
    let restored = |kind, replicas: u32| {
        World::of(replicas, 2).moving(kind, 1).with(|w| {
            w.workload.claims.insert(1, vec![claim(1, false)]);
            w.latch.claims.remove(&1);
        })
    };
    let step = restored(MoveKind::Join, 1).decide();
    assert!(
        matches!(&step, MemberStep::Stop { reason: "OrphanedVolumes", why } if why.contains("claim data-db-1 exists")),
        "{step:?}"
    );
    // This includes the case that another member leaves, and that the claim came after the member's own was deleted.
    restored(MoveKind::Leave, 1)
        .with(|w| w.target.size = 1)
        .done(ScaleEvent::BeforeScaleDown)
        .done(ScaleEvent::AfterGone)
        .latches(None);
    // A claim that was created for a pod, after somebody scaled by hand, belongs to the StatefulSet. A claim that the
    // pod found does not.
    for (created, known) in [(990, true), (100, false)] {
        let by_hand = World::of(1, 1).with(|w| {
            w.workload.replicas = 2;
            w.workload.pods.insert(1, Pod { created: 1_000, ..pod(1) });
            w.workload.claims.insert(1, vec![VolumeClaim { created, ..claim(1, false) }]);
        });
        assert_eq!(matches!(by_hand.decide(), MemberStep::Latch(latch) if latch.claims.contains_key(&1)), known);
    }
    // When the pod of a member has it, it belongs to that member.
    let noted = World::of(2, 2).with(|w| drop(w.latch.claims.remove(&1))).latches(None);
    assert_eq!(noted.claims[&1], ["u-data-db-1"]);
}

#[test]
fn exit_codes_mean_what_the_contract_says() {
    let joining = |ended: Ended, attempt: u32| {
        World::of(1, 2).moving(MoveKind::Join, 1).job(
            ScaleEvent::BeforeScaleUp,
            attempt,
            JobState::Ended(ended, NOW - 1),
        )
    };
    let later = joining(Ended::Later("busy".into()), 0);
    assert_eq!(later.waits("not yet: busy"), Duration::from_secs(4));
    later.with(|w| w.now += 5).starts(ScaleEvent::BeforeScaleUp, 1, 1, 2);
    let failed = |attempt| joining(Ended::Failed(2, "x".into()), attempt);
    for (attempt, pause) in [(0, 4), (1, 9), (2, 19), (6, 299), (60, 299)] {
        assert_eq!(failed(attempt).waits("exit code 2: x"), Duration::from_secs(pause));
    }
    failed(2).with(|w| w.now += 20).starts(ScaleEvent::BeforeScaleUp, 3, 1, 2);
    let refused = joining(Ended::Refused("a backup runs".into()), 0);
    match refused.decide() {
        MemberStep::Stop { reason: "HookRefused", why } => assert!(why.ends_with("refused: a backup runs"), "{why}"),
        step => panic!("{step:?}"),
    }
    refused.with(|w| w.now += 300).starts(ScaleEvent::BeforeScaleUp, 1, 1, 2);
    joining(Ended::Unknown { pod_remains: true }, 0).with(|w| w.now += 999).waits("the pod of Job");
    joining(Ended::Unknown { pod_remains: false }, 0).with(|w| w.now += 5).starts(ScaleEvent::BeforeScaleUp, 1, 1, 2);
}

#[test]
fn a_run_of_another_time_or_of_another_job_does_not_count() {
    let joining = || World::of(1, 2).moving(MoveKind::Join, 1).done(ScaleEvent::BeforeScaleUp);
    let forgets = |world: World| match world.decide() {
        MemberStep::Act(JobsAction::Forget { .. }) => {}
        step => panic!("{step:?}"),
    };
    forgets(joining().with(|w| w.latch.moving.as_mut().unwrap().since = 901));
    forgets(joining().with(|w| w.hooks[1].digest = "e".into()));
    // The run before a later attempt is deleted.
    forgets(joining().job(ScaleEvent::BeforeScaleUp, 1, JobState::Running));
    let running = World::of(1, 2).moving(MoveKind::Join, 1).job(ScaleEvent::BeforeScaleUp, 0, JobState::Running);
    running.with(|w| w.hooks[1].digest = "e".into()).waits("Job before-scale-up-1-");
    // Without hooks nothing waits.
    assert_eq!(joining().with(|w| w.hooks.clear()).decide(), MemberStep::Scale(2));
}

#[test]
fn pods_of_an_old_template_are_rolled_from_the_highest_ordinal() {
    let old = || World::of(2, 2).with(|w| w.workload.update_revision = "r2".into());
    old().latches(Some((MoveKind::Restart, 1)));
    let rolling = || old().moving(MoveKind::Restart, 1);
    rolling().starts(ScaleEvent::BeforeRestart, 0, 2, 2);
    let evict = MemberStep::EvictPod { ordinal: 1, uid: "pod-1".into() };
    assert_eq!(rolling().done(ScaleEvent::BeforeRestart).decide(), evict);
    let unready = |w: &mut World| w.workload.pods.get_mut(&0).unwrap().ready = false;
    rolling().done(ScaleEvent::BeforeRestart).with(unready).waits("pod db-0");
    let new = |w: &mut World| w.workload.pods.get_mut(&1).unwrap().revision = "r2".into();
    let come_back = || rolling().done(ScaleEvent::BeforeRestart).with(new);
    come_back().starts(ScaleEvent::AfterRestart, 0, 2, 2);
    come_back().done(ScaleEvent::AfterRestart).latches(None);
    // A pod that the old template broke is deleted first, before anything else.
    let broken = old().with(unready).with(|w| w.target.size = 5);
    assert_eq!(broken.decide(), MemberStep::DeletePod { ordinal: 0, uid: "pod-0".into() });
    // While the controller has not observed the template, its status does not describe it.
    World::of(2, 2).with(|w| w.workload.update_revision = "".into()).waits("the controller of StatefulSet db");
}

#[test]
fn a_hook_before_a_deletion_holds_it_up_while_it_refuses_or_fails() {
    let world = |attempt: u32, state: Option<JobState>| {
        let mut world = World::of(2, 2).moving(MoveKind::Leave, 0);
        world.hooks[0].events = vec![ScaleEvent::BeforeDelete];
        world.hooks[0].name = ScaleEvent::BeforeDelete.as_str().into();
        match state {
            Some(state) => world.job(ScaleEvent::BeforeDelete, attempt, state),
            None => world,
        }
    };
    let step = |world: World| {
        let (hooks, observed, workload) = (&world.hooks, &world.observed, &world.workload);
        let view = View { workload, observed, hooks, set: "m", target: &world.target, latch: &world.latch, now: NOW };
        before_deletion(&view, 900)
    };
    match step(world(0, None)) {
        MemberStep::Act(JobsAction::Start(run, sizes)) => {
            assert_eq!((run.event, sizes), (ScaleEvent::BeforeDelete, Sizes { from: 2, to: 0 }));
        }
        step => panic!("{step:?}"),
    }
    assert!(matches!(step(world(0, Some(JobState::Running))), MemberStep::Wait { .. }));
    assert_eq!(step(world(0, Some(JobState::Ended(Ended::Done, 950)))), MemberStep::Quiet);
    let failed = |attempt| step(world(attempt, Some(JobState::Ended(Ended::Failed(1, String::new()), NOW))));
    for attempt in [0, 4, 40] {
        assert!(matches!(failed(attempt), MemberStep::Wait { .. }), "it is never given up");
    }
    let refused = JobState::Ended(Ended::Refused("in use".into()), NOW);
    assert!(matches!(step(world(9, Some(refused))), MemberStep::Stop { .. }));
}

/// A crash is a pass that ended at that point. The world applies the decisions, and each decision is made twice.
#[test]
fn every_size_is_reached_from_every_other_and_each_step_is_found_again() {
    for (from, to) in [(0, 3), (3, 1), (1, 5), (5, 1), (2, 3)] {
        let mut world = World::of(from, to);
        let mut steps = 0;
        loop {
            let step = world.decide();
            assert_eq!(step, world.decide());
            world.now += 1;
            steps += 1;
            assert!(steps < 200, "{from} → {to} comes to no end: {step:?}");
            match step {
                MemberStep::Quiet => break,
                MemberStep::Latch(latch) => world.latch = latch,
                MemberStep::Scale(replicas) => {
                    assert_eq!(replicas.abs_diff(world.workload.replicas), 1, "one at a time");
                    world.latch.replicas = Some(replicas);
                    world.workload.replicas = replicas;
                    world.workload.pods = (0..replicas).map(|k| (k, pod(k))).collect();
                    for k in 0..replicas {
                        world.workload.claims.entry(k).or_insert_with(|| vec![claim(k, false)]);
                    }
                }
                MemberStep::DeleteClaim { name, .. } => {
                    let ordinal: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
                    assert!(ordinal >= world.workload.replicas, "no claim of a member goes");
                    world.workload.claims.remove(&ordinal);
                }
                MemberStep::Act(JobsAction::Start(run, _)) => {
                    let name = run.name();
                    let state = JobState::Ended(Ended::Done, world.now);
                    world.observed.jobs.push(SeenJob { uid: name.clone(), name, run, state });
                }
                MemberStep::Act(JobsAction::Forget { name, .. }) => world.observed.jobs.retain(|job| job.name != name),
                step => panic!("{step:?}"),
            }
        }
        assert_eq!((world.workload.replicas, &world.latch.moving), (to, &None));
        let claims: BTreeMap<_, _> = world.workload.claims.iter().filter(|(_, c)| !c.is_empty()).collect();
        assert_eq!(claims.len(), to as usize);
    }
}
