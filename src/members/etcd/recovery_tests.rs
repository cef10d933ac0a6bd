//! A quorum that is lost for good.
//!
//! Invariants are those of docs/design/members.md.

use proptest::prelude::{Just, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::decide::{FORCE_NEW_CLUSTER, decide};
use super::decide_tests::stopped;
use super::state::{ClusterState, EtcdAction, EtcdStep, ObservedEtcd};
use super::world_tests::{CLUSTER, Fate, World};
use crate::members::driver::MemberStep;

/// Three members, all but one of which lose their data.
fn lost(survivor: u32) -> World {
    let mut world = World::grown(3);
    (0..3).filter(|k| *k != survivor).for_each(|k| world.wipe(k));
    world.tick();
    world
}

fn why(step: &EtcdStep) -> String {
    match step {
        MemberStep::Stop { reason: "QuorumLost", why } => why.clone(),
        other => panic!("the quorum is there: {other:?}"),
    }
}

/// The confirmation that the condition asks for.
fn offered(world: &World) -> Option<Box<str>> {
    let why = why(&world.decide());
    let (_, rest) = why.split_once(&format!("{FORCE_NEW_CLUSTER}="))?;
    Some(rest.split_once(' ').unwrap().0.into())
}

fn decided(world: &World, observed: &ObservedEtcd) -> EtcdStep {
    decide(&world.settings, &world.workload(), observed, &world.target, &world.latch, world.now)
}

#[test]
fn a_lost_quorum_is_never_guessed_at() {
    let mut world = lost(2);
    let said = offered(&world).unwrap();
    assert_eq!(*said, *format!("{CLUSTER:x}@{}", world.revision));
    for wrong in ["true", "", &format!("{CLUSTER:x}"), &format!("{CLUSTER:x}@1"), &format!("c2@{}", world.revision)] {
        world.target.recover = Some((*wrong).into());
        assert_eq!(stopped(&world.decide()), "QuorumLost", "{wrong:?}");
    }
    world.target.recover = Some(said);
    let MemberStep::Latch(latch) = world.decide() else { panic!("it is not begun") };
    assert_eq!(latch.own.recovery.unwrap().survivor, 2);
}

#[test]
fn the_member_that_knows_most_goes_on_and_no_other_can() {
    let mut world = World::grown(5);
    world.down.extend([0, 1, 2]);
    let mut observed = world.observed();
    assert!(observed.members.is_none());
    let most = observed.answers.get_mut(&3).unwrap();
    (most.index, most.revision) = (most.index + 10, most.revision + 7);
    let said = format!("{CLUSTER:x}@{}", world.revision + 7);
    let step = decided(&world, &observed);
    assert!(why(&step).contains(&format!("={said} lets e-3 continue as a cluster of one")), "{step:?}");
    world.target.recover = Some(said.as_str().into());
    let begins = |observed: &ObservedEtcd| matches!(decided(&world, observed), MemberStep::Latch(_));
    assert!(begins(&observed));
    // A learner does not count, and a member that knows a leader may have a quorum.
    let mut other = observed.clone();
    other.answers.get_mut(&3).unwrap().learner = true;
    assert!(!begins(&other));
    let mut other = observed.clone();
    other.answers.get_mut(&4).unwrap().leader = 5;
    assert!(!begins(&other));
}

#[test]
fn when_nobody_answers_nobody_can_be_compared() {
    let mut world = lost(1);
    world.down.insert(1);
    assert!(offered(&world).is_none());
    assert!(why(&world.decide()).contains("it is unknown which of them has the newest data"));
}

#[test]
fn a_quorum_that_comes_back_by_itself_ends_a_recovery() {
    let mut world = World::grown(3);
    world.down.extend([0, 1]);
    world.harmed = true;
    world.target.recover = offered(&world);
    assert!(world.pass(Fate::Done));
    assert_eq!(world.decide(), MemberStep::Only(2));
    world.down.clear();
    assert!(world.pass(Fate::Done));
    assert!(world.latch.own.recovery.is_none());
    world.settle();
    assert!(world.calls.is_empty());
    // An old confirmation is not acted on again.
    world.down.extend([0, 1]);
    assert_ne!(offered(&world), world.target.recover);
}

#[test]
fn the_data_of_the_others_goes_only_when_the_survivor_has_continued() {
    for survivor in 0..3 {
        let mut world = lost(survivor);
        let kept = world.claims[&survivor].uid.clone();
        let (revision, said) = (world.revision, offered(&world));
        world.target.recover = said.clone();
        let mut steps = Vec::new();
        while world.latch.own.recovered.is_none() {
            steps.push(match world.decide() {
                MemberStep::Only(k) => format!("only {k}"),
                MemberStep::DeletePod { ordinal, .. } => format!("pod {ordinal}"),
                MemberStep::DeleteClaim { name, .. } => name.to_string(),
                MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) => format!("{:?}", initial.state),
                _ => String::new(),
            });
            world.pass(Fate::Done);
            world.tick();
        }
        steps.retain(|step| !step.is_empty());
        let others: Vec<_> = (0..3).filter(|k| *k != survivor).map(|k| format!("data-e-{k}")).collect();
        let (only, pod) = (format!("only {survivor}"), format!("pod {survivor}"));
        let forced = format!("{:?}", ClusterState::Forced);
        let closed = format!("{:?}", ClusterState::Existing);
        assert_eq!(steps.join(" "), [only, forced, pod, closed, others.join(" ")].join(" "));
        world.settle();
        assert_eq!((world.start, &world.claims[&survivor].uid), (0, &kept), "its data is that of the survivor");
        assert!(world.revision >= revision);
        assert_eq!(world.latch.own.recovered.as_deref(), said.as_deref());
    }
}

#[test]
fn less_data_than_before_is_no_lost_data_after_a_recovery() {
    let mut world = lost(0);
    world.latch.position = Some(world.revision + 1000);
    world.target.recover = offered(&world);
    world.settle();
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    /// I14: whatever is interrupted, there is one cluster with the survivor's data in the end.
    #[test]
    fn no_crash_harms_a_recovery(
        survivor in 0..3_u32,
        fates in proptest::collection::vec(
            (prop_oneof![3 => Just(Fate::Done), 1 => Just(Fate::Lost), 1 => Just(Fate::Crash)], 0..3_u8),
            0..60,
        ),
    ) {
        let mut world = lost(survivor);
        let kept = world.claims[&survivor].uid.clone();
        world.target.recover = offered(&world);
        for (fate, ticks) in fates {
            world.pass(fate);
            (0..ticks).for_each(|_| world.tick());
        }
        world.settle();
        assert_eq!(world.claims[&survivor].uid, kept);
    }
}
