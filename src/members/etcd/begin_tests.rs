//! The rows that begin something, and the state after each call that was interrupted or timed out
//! (docs/design/members.md#lost-answers).

use super::decide_tests::{adds, call, ended, remembered, removes, stopped, waits, with_learner, written};
use super::state::{Call, EtcdAction, Version};
use super::world_tests::{Fate, World, pod};
use crate::members::driver::MemberStep;
use crate::members::workload::{ClaimSize, PodPhase, VolumeClaim};

#[test]
fn the_remains_of_a_member_go_before_another_joins() {
    let mut world = World::grown(3);
    let (claim, old) = (world.claims[&1].uid.clone(), world.pods[&1].uid.clone());
    world.remove_member(1);
    assert!(matches!(remembered(&mut world), MemberStep::DeleteClaim { uid, .. } if uid == claim));
    world.pass(Fate::Done);
    assert!(matches!(world.decide(), MemberStep::DeletePod { ordinal: 1, uid } if uid == old));
    world.pass(Fate::Done);
    assert!(waits(&world.decide()), "the claim goes with the pod");
    world.tick();
    assert!(adds(world.decide(), 1), "the next one is fresh");
    world.settle();
    assert_ne!(world.claims[&1].uid, claim);
}

#[test]
fn claims_go_after_their_pods_unless_they_are_kept() {
    let mut world = World::grown(3);
    world.target.size = 2;
    while world.replicas > 2 {
        world.pass(Fate::Done);
    }
    remembered(&mut world);
    assert!(!matches!(world.decide(), MemberStep::DeleteClaim { .. }), "the pod is still there");
    world.tick();
    world.tick();
    assert!(matches!(world.decide(), MemberStep::DeleteClaim { .. }));
    world.target.delete_claims = false;
    assert_eq!(world.decide(), MemberStep::Quiet);
}

#[test]
fn a_dead_voter_is_replaced_after_its_deadline() {
    for (code, text) in
        [(1, "could not retrieve cluster information"), (0, "permanently removed from the cluster"), (2, "SIGSEGV")]
    {
        let mut world = World::grown(3);
        ended(&mut world, 0, code, text);
        assert!(waits(&remembered(&mut world)));
        world.now += world.settings.dead_after;
        assert!(waits(&world.decide()));
        world.now += 1;
        assert!(removes(world.decide(), 0), "{text}");
    }
}

/// Claim and pod were deleted by force, and made again at once: no pass saw that they were gone, and the data does not
/// come back.
#[test]
fn a_member_whose_volume_is_another_one_is_replaced_at_once() {
    let mut world = World::grown(3);
    remembered(&mut world);
    world.lose_volume(1);
    let mut unknown = world.clone();
    let (began, deadline) = (world.now, world.settings.dead_after);
    assert!(removes(remembered(&mut world), 1));
    world.settle();
    assert!(world.now - began < deadline && world.latch.answered.len() == 3, "{:?}", world.latch);
    // It is not known to have had another claim, it does not report that it has no data, because otherwise the quorum would be lost.
    unknown.latch.answered.remove(&1);
    assert!(waits(&remembered(&mut unknown)));
    let mut silent = World::grown(3);
    remembered(&mut silent);
    silent.lose_volume(1);
    silent.pods.get_mut(&1).expect("it is there").exit = None;
    assert!(waits(&remembered(&mut silent)));
    let mut few = World::grown(3);
    remembered(&mut few);
    few.lose_volume(1);
    few.down.insert(2);
    assert!(!matches!(remembered(&mut few), MemberStep::Act(EtcdAction::Call { .. })));
}

#[test]
fn a_voter_that_waits_for_a_node_is_not_dead() {
    let mut world = World::grown(3);
    world.down.insert(2);
    world.pods.insert(2, pod("new".into(), "r1", world.now));
    world.now += 100 * world.settings.dead_after;
    assert!(waits(&remembered(&mut world)));
    world.claims.get_mut(&2).expect("it is there").lost = true;
    remembered(&mut world);
    world.now += world.settings.dead_after + 1;
    assert!(removes(world.decide(), 2), "but one whose volume is lost is");
}

#[test]
fn a_voter_that_began_again_and_is_silent_later_is_not_dead() {
    // It ended often before it joined. Now it runs and cannot be reached.
    for text in ["couldn't find local name", "could not retrieve cluster information", "SIGSEGV"] {
        let mut world = World::grown(3);
        ended(&mut world, 1, 1, text);
        let since = world.now - 1000;
        let exit = world.pods.get_mut(&1).and_then(|pod| pod.exit.as_mut()).expect("it ended");
        exit.running_since = Some(since);
        assert!(waits(&remembered(&mut world)), "{text}");
        world.now += 100 * world.settings.dead_after;
        assert!(waits(&remembered(&mut world)), "{text}");
    }
}

#[test]
fn a_voter_that_ends_at_each_start_is_dead_also_while_it_runs() {
    let mut world = World::grown(3);
    ended(&mut world, 1, 1, "could not retrieve cluster information");
    for _ in 0..10 {
        remembered(&mut world);
        world.now += world.settings.dead_after / 10 + 1;
        let now = world.now;
        let exit = world.pods.get_mut(&1).and_then(|pod| pod.exit.as_mut()).expect("it ended");
        exit.running_since = Some(now);
    }
    assert!(removes(remembered(&mut world), 1));
}

#[test]
fn nobody_leaves_two_of_which_one_is_dead() {
    let mut world = World::grown(2);
    ended(&mut world, 1, 1, "could not retrieve cluster information");
    world.now += 10 * world.settings.dead_after;
    assert_eq!(stopped(&world.decide()), "QuorumLost");
}

#[test]
fn the_lowest_free_ordinal_joins_as_a_learner() {
    let mut world = World::grown(3);
    world.target.size = 5;
    let step = world.decide();
    let Call::AddLearner { ordinal: 3, peer_url } = call(step) else { panic!("not added") };
    assert_eq!(peer_url, "http://e-3.peer.ns.svc:2380");
    world.down.insert(0);
    assert!(waits(&world.decide()), "not while one of the others is unwell");
}

#[test]
fn kept_and_restored_claims_stay_and_nobody_joins_with_them() {
    let mut world = World::grown(3);
    (world.target.size, world.target.delete_claims) = (2, false);
    world.settle();
    assert!(world.claims.contains_key(&2), "it is kept");
    world.target.size = 3;
    let MemberStep::Stop { reason: "OrphanedVolumes", why } = remembered(&mut world) else { panic!("it is kept") };
    assert!(why.contains("claim data-e-2 of a member that left is kept"), "{why}");
    // The claim was restored under the name of a future member, and does not belong to one that left.
    let mut world = World::grown(1);
    let restored = VolumeClaim {
        name: "data-e-1".into(),
        uid: "restored".into(),
        created: 1,
        terminating: false,
        lost: false,
        size: ClaimSize::default(),
    };
    world.claims.insert(1, restored);
    for delete in [true, false] {
        (world.target.size, world.target.delete_claims) = (3, delete);
        let MemberStep::Stop { reason: "OrphanedVolumes", why } = remembered(&mut world) else {
            panic!("{:?}", world.decide())
        };
        assert!(why.contains("claim data-e-1 exists, and no member is known"), "{why}");
        world.target.size = 1;
        assert_eq!(remembered(&mut world), MemberStep::Quiet);
    }
    world.target.size = 3;
    // The user deletes it.
    world.settle();
}

#[test]
fn the_highest_voter_leaves_and_hands_over_before() {
    let mut world = World::grown(3);
    world.target.size = 1;
    let [low, high] = [0, 2].map(|k| world.member(k).expect("it is there").id);
    world.leader = low;
    assert!(removes(world.decide(), 2));
    world.leader = high;
    assert_eq!(call(world.decide()), Call::MoveLeader { to: 0, member: low });
    let MemberStep::Act(EtcdAction::Call { via: 2, .. }) = world.decide() else { panic!("the leader itself is asked") };
}

#[test]
fn an_unhealthy_voter_leaves_first_if_a_quorum_stays() {
    let mut world = World::grown(5);
    world.target.size = 3;
    world.down.insert(3);
    assert!(removes(world.decide(), 3));
    world.down = [0, 1].into();
    assert!(waits(&world.decide()), "2 of the remaining 4 would be none");
    world.down = [0].into();
    assert!(removes(world.decide(), 4));
}

#[test]
fn two_voters_of_which_one_is_unwell_stay() {
    let mut world = World::grown(3);
    world.remove_member(2);
    (world.target.size, world.replicas, world.latch.replicas) = (1, 2, Some(2));
    world.tick();
    world.tick();
    world.down.insert(0);
    assert_eq!(stopped(&world.decide()), "QuorumLost");
}

#[test]
fn an_unwell_voter_beyond_the_size_does_not_keep_a_lower_one_from_joining() {
    let mut world = World::grown(4);
    world.target.size = 3;
    world.remove_member(1);
    world.tick();
    world.down.insert(3);
    world.target.size = 3;
    while !matches!(remembered(&mut world), MemberStep::Act(_)) {
        world.pass(Fate::Done);
        world.tick();
    }
    assert!(removes(world.decide(), 3));
}

#[test]
fn pods_are_replaced_one_by_one_and_the_leaders_last() {
    let mut world = World::grown(3);
    world.leader = world.member(2).expect("it is there").id;
    world.template = "r2";
    let mut order = Vec::new();
    for _ in 0..40 {
        match world.decide() {
            MemberStep::EvictPod { ordinal, .. } => order.push(ordinal.to_string()),
            MemberStep::Act(EtcdAction::Call { call: Call::MoveLeader { to, .. }, .. }) => {
                order.push(format!("lead {to}"));
            }
            _ => {}
        }
        world.pass(Fate::Done);
        world.tick();
    }
    assert_eq!(order, ["1", "0", "lead 0", "2"]);
    assert!(world.pods.values().all(|pod| &*pod.revision == "r2"));
}

#[test]
fn a_cluster_is_not_at_rest_while_a_pod_is_replaced() {
    let mut world = World::grown(3);
    let waits_for = |world: &World, k: u32| {
        let MemberStep::Wait { why, .. } = world.decide() else { return false };
        why.contains(&format!("e-{k}"))
    };
    // etcd answers before its pod is ready, and for a moment after its termination began.
    let change = |world: &mut World, k: u32, ready, terminating| {
        let pod = world.pods.get_mut(&k).expect("it is there");
        (pod.ready, pod.terminating) = (ready, terminating);
    };
    change(&mut world, 2, false, false);
    assert!(waits_for(&world, 2), "{:?}", world.decide());
    change(&mut world, 2, true, true);
    assert!(waits_for(&world, 2), "somebody deleted it: {:?}", world.decide());
    let mut world = World::grown(3);
    world.template = "r2";
    world.pods.get_mut(&2).expect("it is there").revision = "r2".into();
    change(&mut world, 2, false, false);
    assert!(waits_for(&world, 2), "the others are next: {:?}", world.decide());
    change(&mut world, 2, true, false);
    world.leader = 0;
    assert!(waits_for(&world, 0), "nobody leads just now: {:?}", world.decide());
}

#[test]
fn a_pod_that_its_template_broke_is_replaced_first() {
    let mut world = World::grown(3);
    ended(&mut world, 0, 1, "unknown flag: --data-dri");
    world.template = "r2";
    assert!(matches!(remembered(&mut world), MemberStep::DeletePod { ordinal: 0, .. }));
    world.down.insert(1);
    world.claims.clear();
    assert_eq!(stopped(&world.decide()), "QuorumLost", "without a claim its data may be in it");
}

#[test]
fn no_pod_is_old_before_the_controller_has_told_what_is_new() {
    let mut world = World::new(1);
    while world.pods.is_empty() {
        world.pass(Fate::Done);
        if world.replicas > 0 {
            world.tick();
        }
    }
    world.down.insert(0);
    world.pods.get_mut(&0).expect("it has begun").phase = PodPhase::Pending;
    world.unseen = true;
    assert!(waits(&world.decide()), "its first start would be interrupted");

    let mut world = World::grown(3);
    world.unseen = true;
    assert!(waits(&remembered(&mut world)), "nobody knows whether all is done");
    world.template = "r2";
    assert!(waits(&world.decide()), "nobody knows which pods are old");
    world.unseen = false;
    assert!(matches!(world.decide(), MemberStep::EvictPod { .. }));
}

#[test]
fn a_version_is_neither_skipped_nor_taken_back() {
    let mut world = World::grown(3);
    world.template = "r2";
    let mut step = |from, to| {
        world.settings.version = Version::parse(to);
        let mut observed = world.observed();
        observed.answers.values_mut().for_each(|answer| answer.version = Version::parse(from));
        match super::decide::decide(
            &world.settings,
            &world.workload(),
            &observed,
            &world.target,
            &world.noted(&world.observed()),
            world.now,
        ) {
            MemberStep::Stop { reason, .. } => reason,
            MemberStep::EvictPod { .. } => "rolls",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(step("3.6.16", "3.5.35"), "VersionDowngrade");
    assert_eq!(step("3.4.23", "3.6.16"), "VersionSkipped");
    assert_eq!(step("3.5.21", "3.6.16"), "VersionTooOld");
    assert_eq!(step("3.5.35", "3.6.16"), "rolls");
    assert_eq!(step("3.6.16", "3.6.11"), "rolls");
    assert_eq!(step("3.4.23", "3.5.35"), "rolls");
}

#[test]
fn an_add_whose_answer_was_lost_is_found_by_its_peer_url() {
    let mut world = World::grown(1);
    world.target.size = 2;
    world.pass(Fate::Late);
    assert!(adds(world.decide(), 1), "not seen yet: asked again, and refused as a duplicate");
    world.tick();
    remembered(&mut world);
    assert_eq!(written(world.decide()).members.split(',').count(), 2, "seen: its list and its pod");
    world.settle();
    assert_eq!(world.members.len(), 2);
}

#[test]
fn a_promotion_whose_answer_was_lost_is_in_the_list() {
    let mut world = World::grown(1);
    world.target.size = 2;
    while !matches!(world.decide(), MemberStep::Act(EtcdAction::Call { call: Call::Promote { .. }, .. })) {
        world.pass(Fate::Done);
        world.tick();
    }
    world.pass(Fate::Late);
    world.tick();
    assert_eq!(remembered(&mut world), MemberStep::Quiet);
}

#[test]
fn a_removal_whose_answer_was_lost_is_followed_by_the_shrink() {
    let mut world = World::grown(2);
    world.target.size = 1;
    while !matches!(world.decide(), MemberStep::Act(EtcdAction::Call { call: Call::Remove { .. }, .. })) {
        world.pass(Fate::Done);
    }
    world.pass(Fate::Late);
    world.tick();
    assert_eq!(remembered(&mut world), MemberStep::Scale(1));
}

#[test]
fn replicas_that_were_remembered_and_not_written_are_written() {
    let mut world = with_learner(1);
    world.pass(Fate::Done);
    world.pass(Fate::Crash);
    assert_eq!((world.replicas, world.latch.replicas), (1, Some(2)));
    assert_eq!(world.decide(), MemberStep::Scale(2));
}

#[test]
fn a_reversal_after_the_removal_joins_the_ordinal_again() {
    let mut world = World::grown(3);
    world.target.size = 2;
    while world.members.len() > 2 {
        world.pass(Fate::Done);
    }
    world.target.size = 3;
    assert!(matches!(remembered(&mut world), MemberStep::DeleteClaim { .. }), "with a new identity");
    world.settle();
    assert_eq!(world.calls.iter().filter(|call| matches!(call, Call::AddLearner { .. })).count(), 1);
}

#[test]
fn a_reversal_before_the_removal_does_nothing() {
    let mut world = World::grown(3);
    world.target.size = 2;
    world.leader = world.member(2).expect("it is there").id;
    world.pass(Fate::Done);
    world.target.size = 3;
    assert_eq!(world.decide(), MemberStep::Quiet);
}

/// The others learn the new URL of each member before it restarts. For a member that was replaced earlier, they learn
/// it afterwards.
#[test]
fn the_others_learn_a_new_url_before_a_pod_restarts() {
    let mut world = World::grown(3);
    world.leader = world.member(1).unwrap().id;
    let url = "https://$(POD).peer.ns.svc:2380";
    world.settings.peer_url = crate::members::url::Pattern::new(url, "e").unwrap();
    world.template = "r2";
    let mut order = Vec::new();
    for _ in 0..40 {
        match world.decide() {
            MemberStep::EvictPod { ordinal, .. } => order.push(format!("pod {ordinal}")),
            MemberStep::Act(EtcdAction::Call { call: Call::Update { ordinal, peer_url, .. }, .. }) => {
                assert_eq!(peer_url, format!("https://e-{ordinal}.peer.ns.svc:2380"));
                order.push(format!("url {ordinal}"));
            }
            MemberStep::Act(EtcdAction::Call { call: Call::MoveLeader { to, .. }, .. }) => {
                order.push(format!("lead {to}"));
            }
            _ => {}
        }
        world.pass(Fate::Done);
        world.tick();
    }
    assert_eq!(order, ["url 2", "pod 2", "url 0", "pod 0", "lead 0", "url 1", "pod 1"]);
    world.members[0].peer_urls = vec!["http://e-0.peer.ns.svc:2380".to_owned()];
    assert!(matches!(world.decide(), MemberStep::Act(EtcdAction::Call { call: Call::Update { ordinal: 0, .. }, .. })));
    world.settle();
}
