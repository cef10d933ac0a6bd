//! The table of docs/design/members.md, row after row: those that need no quorum, and those that finish interrupted
//! work.

use super::decide::{NOBODY, decide};
use super::state::{Call, ClusterState, EtcdAction, EtcdLatch, EtcdStep, InitialCluster};
use super::world_tests::{CLUSTER, Fate, World};
use crate::members::driver::MemberStep;
use crate::members::workload::{ClaimSize, Exit, Mode, PodPhase, VolumeClaim, Workload};

pub(super) fn call(step: EtcdStep) -> Call {
    match step {
        MemberStep::Act(EtcdAction::Call { call, cluster: CLUSTER, .. }) => call,
        other => panic!("no call: {other:?}"),
    }
}

pub(super) fn written(step: EtcdStep) -> InitialCluster {
    match step {
        MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) => initial,
        other => panic!("nothing is written: {other:?}"),
    }
}

pub(super) fn stopped(step: &EtcdStep) -> &'static str {
    match step {
        MemberStep::Stop { reason, .. } => reason,
        other => panic!("not stopped: {other:?}"),
    }
}

pub(super) fn waits(step: &EtcdStep) -> bool {
    matches!(step, MemberStep::Wait { .. })
}

/// Runs passes while they only store something, or close the list.
pub(super) fn remembered(world: &mut World) -> EtcdStep {
    let closes = |step: &EtcdStep| match step {
        MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) => initial.members == NOBODY,
        _ => false,
    };
    while matches!(world.decide(), MemberStep::Latch(_)) || closes(&world.decide()) {
        world.pass(Fate::Done);
    }
    world.decide()
}

/// A container that ended with this message, and whose process does not run.
pub(super) fn ended(world: &mut World, k: u32, code: i32, message: &str) {
    let pod = world.pods.get_mut(&k).expect("it is there");
    (pod.ready, pod.restarts, pod.exit) = (false, 3, Some(Exit { code, message: message.into(), running_since: None }));
    world.down.insert(k);
}

pub(super) fn removes(step: EtcdStep, k: u32) -> bool {
    matches!(call(step), Call::Remove { ordinal, .. } if ordinal == k)
}

pub(super) fn adds(step: EtcdStep, k: u32) -> bool {
    matches!(call(step), Call::AddLearner { ordinal, .. } if ordinal == k)
}

/// A world with a number of members, whose next ordinal has just been added as a learner.
pub(super) fn with_learner(size: u32) -> World {
    let mut world = World::grown(size);
    world.target.size = size + 1;
    world.add_member(size, true);
    remembered(&mut world);
    world
}

/// The same, with a pod of the learner that does not run.
fn with_learner_that_waits(size: u32) -> World {
    let mut world = with_learner(size);
    world.unschedulable.insert(size);
    started(world)
}

/// The same, with a running learner and a list that is still open.
fn with_learner_that_runs(size: u32) -> World {
    started(with_learner(size))
}

/// The learner has its list and its pod, and had enough time to start.
fn started(mut world: World) -> World {
    world.pass(Fate::Done);
    world.pass(Fate::Done);
    world.tick();
    world
}

#[test]
fn nobody_leaves_a_cluster_that_is_deleted() {
    let mut world = World::grown(3);
    (world.target.mode, world.target.size) = (Mode::Deleting, 1);
    assert_eq!(world.decide(), MemberStep::Quiet);
}

#[test]
fn a_paused_cluster_is_left_alone() {
    let mut world = World::grown(3);
    (world.target.mode, world.target.size) = (Mode::Paused, 5);
    assert_eq!(world.decide(), MemberStep::Quiet);
}

#[test]
fn the_first_member_gets_a_list_of_itself_before_its_pod_is_there() {
    let mut world = World::new(3);
    let initial = written(world.decide());
    assert_eq!((initial.state, &*initial.members), (ClusterState::New, "e-0=http://e-0.peer.ns.svc:2380"));
    world.pass(Fate::Done);
    assert_eq!(world.decide(), MemberStep::Scale(1));
    world.target.size = 0;
    assert_eq!(world.decide(), MemberStep::Quiet, "a size of 0 starts nothing");
}

#[test]
fn claims_that_are_there_start_no_new_cluster() {
    let mut world = World::grown(3);
    (world.latch, world.replicas, world.harmed) = (EtcdLatch::default(), 0, true);
    for _ in 0..3 {
        world.tick();
    }
    assert_eq!(stopped(&world.decide()), "OrphanedVolumes");
    world.target.adopt_claims = true;
    assert_eq!(world.initial.as_ref().map(|initial| initial.state), Some(ClusterState::Existing));
    world.initial = None;
    assert_eq!(written(world.decide()).state, ClusterState::Existing);
    world.pass(Fate::Done);
    assert_eq!(world.decide(), MemberStep::Scale(3), "all at once: it takes a quorum");
    world.settle();
    assert_eq!(world.latch.cluster.as_deref(), Some("c1"));
}

#[test]
fn claims_that_are_going_are_waited_for() {
    let mut world = World::new(1);
    world.claims.insert(
        0,
        VolumeClaim {
            name: "data-e-0".into(),
            uid: "1".into(),
            created: 0,
            terminating: true,
            lost: false,
            size: ClaimSize::default(),
        },
    );
    assert!(waits(&world.decide()));
}

#[test]
fn pods_of_an_earlier_cluster_of_the_name_are_waited_for() {
    let world = World::new(1);
    let workload = Workload { earlier: vec!["e-0".into()], ..world.workload() };
    let step =
        super::decide::decide(&world.settings, &workload, &world.observed(), &world.target, &world.latch, world.now);
    assert!(
        matches!(&step, MemberStep::Wait { why, .. } if why == "pod e-0 of an earlier StatefulSet to be deleted"),
        "{step:?}"
    );
}

#[test]
fn a_cluster_that_is_known_is_never_started_again() {
    let mut world = World::grown(3);
    world.initial =
        Some(InitialCluster { state: ClusterState::New, members: "e-0=http://e-0.peer.ns.svc:2380".into() });
    assert_eq!(written(world.decide()).state, ClusterState::Existing);
    world.down.extend(0..3);
    assert_eq!(written(world.decide()).state, ClusterState::Existing, "without a quorum too");
    world.initial = None;
    assert_eq!(written(world.decide()).state, ClusterState::Existing, "also when somebody deleted it");
}

#[test]
fn a_first_member_that_is_silent_is_waited_for() {
    let mut world = World::new(3);
    world.unschedulable.insert(0);
    world.pass(Fate::Done);
    world.pass(Fate::Done);
    world.tick();
    assert!(waits(&world.decide()));
}

#[test]
fn existing_is_written_before_the_cluster_is_known() {
    let mut world = World::new(3);
    world.pass(Fate::Done);
    world.pass(Fate::Done);
    world.tick();
    let initial = written(world.decide());
    assert_eq!((initial.state, &*initial.members), (ClusterState::Existing, NOBODY));
    world.pass(Fate::Done);
    let MemberStep::Latch(latch) = world.decide() else { panic!("not latched") };
    assert_eq!((latch.bootstrapped, latch.cluster.as_deref(), latch.replicas), (true, Some("c1"), Some(1)));
}

#[test]
fn two_clusters_stop_everything() {
    let mut world = World::grown(3);
    world.target.size = 5;
    let mut observed = world.observed();
    observed.answers.get_mut(&1).expect("it answers").cluster = 7;
    let step = super::decide::decide(
        &world.settings,
        &world.workload(),
        &observed,
        &world.target,
        &world.noted(&observed),
        world.now,
    );
    assert_eq!(stopped(&step), "SplitBrain");
    world.latch.cluster = Some("c2".into());
    assert_eq!(stopped(&world.decide()), "SplitBrain", "another than the one that is known");
}

#[test]
fn data_that_went_back_stops_everything() {
    let mut world = World::grown(3);
    world.latch.position = Some(world.revision + 1);
    assert_eq!(stopped(&world.decide()), "DataLost");
}

#[test]
fn replicas_that_somebody_lowered_are_raised_again() {
    for by_hand in [3, 2, 0] {
        let mut world = World::grown(5);
        world.replicas = by_hand;
        assert_eq!(world.decide(), MemberStep::Scale(5));
        world.tick();
        world.tick();
        assert_eq!(world.decide(), MemberStep::Scale(5), "with a quorum or without");
    }
}

#[test]
fn without_a_quorum_nothing_is_done() {
    let mut world = World::grown(3);
    world.target.size = 5;
    world.down.extend([1, 2]);
    assert_eq!(stopped(&world.decide()), "QuorumLost");
    world.down.remove(&1);
    world.target.size = 3;
    assert!(waits(&world.decide()), "it continues when the quorum is back");
}

#[test]
fn a_pod_that_an_old_template_broke_is_replaced_even_without_a_quorum() {
    let mut world = World::grown(1);
    ended(&mut world, 0, 1, "unknown flag: --data-dri");
    assert_eq!(stopped(&world.decide()), "QuorumLost", "its template is the present one");
    world.template = "r2";
    assert!(matches!(world.decide(), MemberStep::DeletePod { ordinal: 0, .. }));
    world.down.clear();
    world.settle();
}

#[test]
fn the_last_member_cannot_leave() {
    let mut world = World::grown(1);
    world.target.size = 0;
    assert_eq!(stopped(&world.decide()), "InvalidSize");
}

#[test]
fn a_learner_that_is_not_wanted_leaves() {
    let mut world = with_learner(3);
    world.target.size = 3;
    assert!(removes(remembered(&mut world), 3));
}

#[test]
fn a_learner_gets_the_list_of_the_moment_and_then_its_pod() {
    let mut world = with_learner(3);
    let initial = written(world.decide());
    assert_eq!(initial.members.split(',').count(), 4);
    assert!(initial.members.ends_with("e-3=http://e-3.peer.ns.svc:2380"), "{}", initial.members);
    world.pass(Fate::Done);
    assert_eq!(world.decide(), MemberStep::Scale(4));
}

#[test]
fn the_list_is_closed_when_the_learner_has_started_and_before_it_votes() {
    let mut world = with_learner_that_runs(3);
    assert_eq!(written(world.decide()).members, NOBODY);
    world.pass(Fate::Done);
    assert!(matches!(call(world.decide()), Call::Promote { .. }));
}

#[test]
fn a_learner_that_caught_up_is_promoted() {
    let mut world = with_learner_that_runs(3);
    world.pass(Fate::Done);
    let step = |index: u64, learner: bool| {
        let mut observed = world.observed();
        observed.answers.values_mut().for_each(|answer| answer.index = 1000);
        let answer = observed.answers.get_mut(&3).expect("it answers");
        (answer.index, answer.learner) = (index, learner);
        super::decide::decide(
            &world.settings,
            &world.workload(),
            &observed,
            &world.target,
            &world.noted(&observed),
            world.now,
        )
    };
    assert!(waits(&step(899, true)), "it is not near enough");
    assert!(matches!(call(step(900, true)), Call::Promote { ordinal: 3, .. }));
    assert!(waits(&step(1000, false)), "promoted meanwhile: the list will say so");
}

#[test]
fn a_learner_that_catches_up_slowly_is_not_taken_out() {
    let mut world = with_learner_that_runs(3);
    world.pass(Fate::Done);
    world.now += 10 * world.settings.join_deadline;
    let mut observed = world.observed();
    observed.answers.get_mut(&3).expect("it answers").index = 0;
    assert!(waits(&super::decide::decide(
        &world.settings,
        &world.workload(),
        &observed,
        &world.target,
        &world.noted(&observed),
        world.now
    )));
}

#[test]
fn a_list_that_is_not_the_clusters_is_written_again() {
    let mut world = with_learner_that_waits(3);
    assert!(waits(&world.decide()));
    world.initial =
        Some(InitialCluster { state: ClusterState::Existing, members: "e-0=http://e-0.peer.ns.svc:2380".into() });
    assert_eq!(written(world.decide()).members.split(',').count(), 4);
    world.pass(Fate::Done);
    ended(&mut world, 3, 1, "error validating peerURLs: member count is unequal");
    assert!(
        matches!(world.decide(), MemberStep::DeletePod { ordinal: 3, .. }),
        "and it does not wait minutes to read it"
    );
}

#[test]
fn a_learner_with_data_of_another_leaves_and_is_wiped() {
    for text in
        ["the member has been permanently removed from the cluster", "tocommit(9) is out of range [lastIndex(0)]"]
    {
        let mut world = with_learner_that_waits(3);
        ended(&mut world, 3, 0, text);
        assert!(removes(world.decide(), 3), "{text}");
        world.pass(Fate::Done);
        assert!(matches!(remembered(&mut world), MemberStep::DeleteClaim { .. }), "only then its data");
    }
}

#[test]
fn a_learner_that_has_just_joined_is_not_judged_by_what_it_said_before() {
    let mut world = with_learner(3);
    while !world.members.iter().any(|member| member.learner && member.started()) {
        world.pass(Fate::Done);
        world.tick();
    }
    ended(&mut world, 3, 1, "couldn't find local name \"e-3\" in the initial cluster configuration");
    let now = world.now;
    world.pods.get_mut(&3).and_then(|pod| pod.exit.as_mut()).expect("it ended").running_since = Some(now);
    assert!(waits(&remembered(&mut world)), "its client port is not open yet");
    world.pods.get_mut(&3).and_then(|pod| pod.exit.as_mut()).expect("it ended").running_since = None;
    assert!(removes(world.decide(), 3), "it lost its data");
}

#[test]
fn a_learner_that_does_not_start_leaves_at_its_deadline_and_is_tried_again_later() {
    let mut world = with_learner_that_waits(3);
    let deadline = world.settings.join_deadline;
    world.now += deadline - 10;
    assert!(waits(&world.decide()));
    world.now += 11;
    assert!(removes(world.decide(), 3));
    world.pass(Fate::Done);
    assert!(waits(&remembered(&mut world)), "it is not tried again at once");
    world.now += deadline;
    assert!(matches!(remembered(&mut world), MemberStep::DeleteClaim { .. }));
    world.unschedulable.clear();
    world.settle();
}

#[test]
fn a_learner_that_runs_has_the_time_that_it_takes_to_be_sent_the_data() {
    let mut world = with_learner_that_runs(3);
    let mut observed = world.observed();
    observed.answers.remove(&3);
    observed.members.iter_mut().flatten().filter(|member| member.learner).for_each(|member| member.name.clear());
    // At 4 MiB a second.
    observed.answers.get_mut(&0).unwrap().size = 8 << 30;
    let began = world.latch.since[&3];
    let decided = |world: &World| {
        decide(&world.settings, &world.workload(), &observed, &world.target, &world.noted(&observed), world.now)
    };
    world.now = began + world.settings.join_deadline + 2048;
    assert!(waits(&decided(&world)));
    world.now += 1;
    assert!(removes(decided(&world), 3));
    // A learner that does not run receives nothing.
    world.now = began + world.settings.join_deadline + 1;
    world.pods.get_mut(&3).unwrap().phase = PodPhase::Pending;
    assert!(removes(decided(&world), 3));
}

#[test]
fn a_voter_that_never_started_is_started_or_leaves() {
    let mut world = World::grown(3);
    world.target.size = 4;
    world.add_member(3, false);
    assert_eq!(written(remembered(&mut world)).members.split(',').count(), 4);
    world.pass(Fate::Done);
    assert_eq!(world.decide(), MemberStep::Scale(4));
    world.pass(Fate::Done);
    world.unschedulable.insert(3);
    world.tick();
    assert!(waits(&world.decide()), "and nobody is added meanwhile");
    world.target.size = 3;
    assert!(removes(world.decide(), 3), "one that is not wanted leaves");
}

#[test]
fn a_voter_that_never_started_stays_while_the_others_would_lose_their_quorum() {
    let mut world = World::grown(3);
    world.add_member(3, false);
    world.down.insert(2);
    assert!(!matches!(remembered(&mut world), MemberStep::Act(EtcdAction::Call { .. })), "2 of 4 have no quorum");
    let mut world = World::grown(3);
    world.add_member(3, false);
    world.down.clear();
    assert!(removes(remembered(&mut world), 3));
}

#[test]
fn foreign_members_are_not_touched() {
    let mut world = World::grown(3);
    world.target.size = 5;
    let id = world.add_member(9, false);
    let foreign = world.members.iter_mut().find(|member| member.id == id).expect("it was added");
    (foreign.peer_urls, foreign.name) = (vec!["http://elsewhere:2380".into()], "x".into());
    assert_eq!(stopped(&world.decide()), "ForeignMember");
    let twice = world.members[0].peer_urls.clone();
    world.members.last_mut().expect("it was added").peer_urls = twice;
    assert_eq!(stopped(&world.decide()), "ForeignMember");
}

#[test]
fn voters_whose_pods_are_gone_get_them_back_or_leave() {
    let scaled_away = |size| {
        let mut world = World::grown(5);
        (world.replicas, world.latch.replicas, world.target.size) = (3, Some(3), size);
        world.tick();
        world.tick();
        world
    };
    assert_eq!(scaled_away(5).decide(), MemberStep::Scale(5), "their data is still on their claims");
    assert_eq!(scaled_away(4).decide(), MemberStep::Scale(4));
    assert!(removes(scaled_away(3).decide(), 4));
}

#[test]
fn a_pod_without_a_member_goes() {
    let mut world = World::grown(4);
    world.target.size = 3;
    world.remove_member(3);
    assert_eq!(remembered(&mut world), MemberStep::Scale(3));
    world.target.size = 3;
    world.replicas = 5;
    assert_eq!(remembered(&mut world), MemberStep::Scale(4), "one at a time");
}

/// Before 3.4: the list is written first. With two members both have to agree, and nothing can be read
/// until the second one has started.
#[test]
fn without_learners_members_join_with_a_vote() {
    let mut world = World::grown(1);
    (world.version, world.target.size) = ("3.3.27", 2);
    assert!(written(remembered(&mut world)).members.contains("e-1=http://e-1.peer.ns.svc:2380"));
    world.pass(Fate::Done);
    assert!(matches!(call(world.decide()), Call::AddVoter { ordinal: 1, .. }));
    world.pass(Fate::Crash);
    assert_eq!(world.observed().members, None, "one of two is not a quorum");
    assert_eq!(world.decide(), MemberStep::Scale(2));
    world.pass(Fate::Done);
    assert!(waits(&world.decide()));
    world.settle();
    assert_eq!(world.members.len(), 2);
}

/// In a cluster with learners, a list that was left behind starts nothing without a quorum.
#[test]
fn a_list_of_a_learner_raises_nothing_without_a_quorum() {
    let mut world = with_learner(3);
    world.pass(Fate::Done);
    world.down.extend([1, 2]);
    assert_eq!(stopped(&world.decide()), "QuorumLost");
}
