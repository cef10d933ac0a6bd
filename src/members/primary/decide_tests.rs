//! The actions of the rows of docs/design/primary.md, in the small world.

use std::collections::BTreeSet;

use super::state::{ChangeKind, OnDiverged, OnReplicaLost, PrimaryLatch, RequestResult};
use super::world_tests::{World, Write};
use crate::agent::contract::Role;
use crate::members::driver::MemberStep;
use crate::members::workload::Mode;

#[test]
fn a_cluster_is_created_grows_and_shrinks() {
    let mut world = World::new(1);
    world.settle();
    assert_eq!((world.primary(), world.held().acks, world.replicas), (0, 0, 1));
    for size in [3, 5, 2, 1, 2] {
        world.target.size = size;
        world.settle();
        let held = world.held();
        let ackers = u32::try_from(held.ackers.len()).unwrap();
        assert_eq!((ackers, held.epoch), ((size - 1).min(2), 1), "{size}: {held:?}");
        let roles = world.pods.values().map(|pod| pod.role.as_deref().unwrap_or_default());
        assert_eq!(roles.filter(|role| *role == "replica").count(), size as usize - 1);
        assert!(world.members.keys().all(|k| *k < size), "claims of members that left are deleted");
    }
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    for seed in 0..200 {
        let mut world = World::grown(3).with_seed(seed);
        for round in 1..4 {
            let p = world.primary();
            world.crash(p);
            world.settle();
            let held = world.held();
            assert_eq!((held.epoch, held.ackers.len()), (1 + round, 2), "{seed}");
            assert_ne!(held.ordinal, Some(p));
            assert_eq!(held.last.map(|last| (last.kind, last.from)), Some((ChangeKind::FailOver, Some(p))));
        }
    }
}

#[test]
fn the_replica_that_received_most_is_chosen() {
    let mut world = World::grown(3);
    world.slow.insert(1);
    (0..5).for_each(|_| world.tick());
    world.down.insert(0);
    for _ in 0..40 {
        world.tick();
        world.pass(false);
    }
    assert_eq!(world.primary(), 2);
}

#[test]
fn a_primary_that_only_the_operator_cannot_reach_stays() {
    let mut world = World::grown(3);
    world.cut.insert(0);
    for _ in 0..120 {
        world.tick();
        let step = world.pass(false);
        assert!(matches!(step, MemberStep::Wait { .. } | MemberStep::Latch(_)), "{step:?}");
    }
    assert_eq!((world.primary(), world.held().epoch), (0, 1));
}

#[test]
fn without_enough_ackers_nobody_becomes_the_primary() {
    let mut world = World::grown(3);
    world.down.extend([0, 2]);
    let why = world.stops("FailoverUnsafe");
    assert!(why.contains("these members have to answer first: db-2"), "{why}");
    assert!(why.contains("tillerman.dev/force-new-cluster=1@1"), "{why}");
    // The other acker is enough.
    world.down.remove(&2);
    for _ in 0..20 {
        world.tick();
        world.pass(false);
    }
    assert_eq!(world.held().epoch, 2);
    world.down.clear();
    world.settle();
}

#[test]
fn a_person_can_accept_a_loss() {
    let mut world = World::grown(3);
    world.down.extend([0, 2]);
    world.stops("FailoverUnsafe");
    world.target.recover = Some("1@1".into());
    // The writes that only the others have are lost, as was accepted.
    let has: BTreeSet<Write> = world.members[&1].log.iter().copied().collect();
    world.acknowledged = world.acknowledged.intersection(&has).copied().collect();
    for _ in 0..20 {
        world.tick();
        world.pass(false);
    }
    assert_eq!((world.held().ordinal, world.held().epoch, world.held().acks), (Some(1), 2, 0));
    // A primary that still had an acker would take writes which are lost as well.
    world.crash(0);
    world.down.clear();
    world.settle();
    assert_eq!(world.primary(), 1);
}

#[test]
fn after_a_full_outage_the_primary_goes_on() {
    for seed in 0..50 {
        let mut world = World::grown(3).with_seed(seed);
        (0..3).for_each(|k| world.crash(k));
        world.settle();
        assert_eq!(world.primary(), 0, "its log has all acknowledged writes, and the others may have lost some");
    }
}

#[test]
fn writes_wait_or_go_on_without_acknowledgements_as_is_said() {
    let mut world = World::grown(2);
    world.down.insert(1);
    let why = world.stops("WritesBlocked");
    assert!(why.contains("onReplicaLost: Degrade"), "{why}");
    world.settings.on_replica_lost = OnReplicaLost::Degrade;
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    assert_eq!((world.held().acks, world.held().ackers.len()), (0, 0));
    world.crash(0);
    world.down.insert(0);
    let why = world.stops("FailoverUnsafe");
    assert!(why.contains("no other member has acknowledged"), "{why}");
    world.down.clear();
    world.settle();
    assert_eq!(world.held().acks, 1);
}

#[test]
fn a_silent_acker_is_taken_out_and_comes_back() {
    let mut world = World::grown(3);
    world.down.insert(2);
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    assert_eq!(world.held().ackers, BTreeSet::from([1]));
    // One acker is enough to fail over to.
    world.down.insert(0);
    for _ in 0..30 {
        world.tick();
        world.pass(false);
    }
    assert_eq!(world.primary(), 1);
    world.down.clear();
    world.settle();
}

/// A member leaves N only after the others have received the writes that it may have acknowledged.
#[test]
fn a_silent_acker_stays_in_n_until_another_has_what_it_acknowledged() {
    let mut world = World::grown(3);
    world.slow.insert(1);
    (0..5).for_each(|_| world.tick());
    assert!(world.acknowledged.iter().any(|write| !world.members[&1].log.contains(write)), "only db-2 has it");
    world.down.insert(2);
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    let held = world.held();
    assert_eq!((held.leaving.map(|leaving| leaving.ordinal), held.ackers.len()), (Some(2), 2));
    world.slow.clear();
    for _ in 0..20 {
        world.tick();
        world.pass(false);
    }
    assert_eq!((world.held().leaving, world.held().ackers), (None, BTreeSet::from([1])));
}

#[test]
fn lost_volumes_are_seeded_again() {
    for k in 0..3 {
        let mut world = World::grown(3);
        world.destroy(k);
        world.settle();
        assert_eq!(world.members[&k].data.as_deref(), Some("u"));
        assert_eq!(world.held().ackers.len(), 2);
        assert_eq!(world.primary() == 0, k != 0);
    }
}

/// The pod of a lost volume may still run and follow. After `deadAfter` its claim and then the pod are deleted, and a
/// new member begins.
#[test]
fn a_member_whose_volume_is_lost_begins_again_after_a_while() {
    let mut world = World::grown(3);
    world.lost.insert(2);
    let began = world.now;
    while world.lost.contains(&2) {
        world.tick();
        world.pass(false);
        assert!(world.now - began < 700, "{}", world.last_steps());
    }
    assert!(world.now - began >= 600, "it may come back");
    assert!(!world.held().ackers.contains(&2));
    world.settle();
    assert_eq!((world.held().ackers.len(), world.primary()), (2, 0));
}

#[test]
fn a_new_template_restarts_replicas_first_and_the_primary_last() {
    let mut world = World::grown(3);
    world.template = "r2";
    world.settle();
    assert!(world.pods.values().all(|pod| &*pod.revision == "r2"));
    let evicted: Vec<_> = world.steps.iter().filter(|step| step.contains("EvictPod")).collect();
    assert_eq!(evicted.len(), 3, "{evicted:?}");
    assert!(
        evicted[0].contains("ordinal: 2") && evicted[1].contains("ordinal: 1") && evicted[2].contains("ordinal: 0")
    );
    assert_eq!(world.held().last.map(|last| last.kind), Some(ChangeKind::SwitchOver));
}

/// A member that follows no source does not stop the others: the new primary gets its label, its acknowledgements and
/// its other replica.
#[test]
fn a_member_that_refuses_to_follow_stops_nobody_else() {
    let mut world = World::grown(3);
    world.stubborn.insert(0);
    world.crash(0);
    let why = world.stops("Refused");
    assert!(why.contains("db-0 refuses the order follow: no"), "{why}");
    let held = world.held();
    let p = world.primary();
    assert_eq!((held.epoch, held.acks), (2, 1), "{held:?}");
    assert!(p != 0 && world.members[&p].writable);
    let roles: Vec<_> = world.pods.values().map(|pod| pod.role.as_deref()).collect();
    assert_eq!(roles.iter().filter(|role| **role == Some("primary")).count(), 1);
    assert_eq!((roles[0], roles[3 - p as usize]), (None, Some("replica")));
    world.stubborn.clear();
    world.forget_refusals();
    world.settle();
    assert_eq!(world.held().ackers.len(), 2);
}

/// `onDiverged: Keep` keeps one member, and the others continue.
#[test]
fn a_diverged_member_that_is_kept_stops_nobody_else() {
    let mut world = World::grown(3);
    world.settings.on_diverged = OnDiverged::Keep;
    let p = world.primary();
    world.members.get_mut(&p).unwrap().diverges();
    world.crash(p);
    let why = world.stops("Diverged");
    assert!(why.contains("db-0 has writes that the primary lacks"), "{why}");
    let held = world.held();
    assert_eq!((held.epoch, held.acks), (2, 1), "{held:?}");
    assert!(!held.ackers.contains(&0) && world.members[&world.primary()].writable);
    world.settings.on_diverged = OnDiverged::Reseed;
    world.settle();
    assert_eq!(world.held().ackers.len(), 2);
}

/// `kubectl drain` deletes the pod of the primary: it hands over while it ends.
#[test]
fn a_primary_whose_pod_is_deleted_hands_over() {
    let mut world = World::grown(3);
    world.pods.get_mut(&0).unwrap().terminating = true;
    for _ in 0..30 {
        world.tick();
        world.pass(false);
    }
    let held = world.held();
    assert_eq!(held.last.map(|last| (last.kind, last.from)), Some((ChangeKind::SwitchOver, Some(0))));
    assert!(world.primary() != 0 && world.members[&world.primary()].writable);
}

/// While an operation runs, or the release fails, a lost primary is replaced, and no member comes or goes.
#[test]
fn while_an_operation_runs_a_lost_primary_is_replaced_and_nobody_comes_or_goes() {
    let mut world = World::grown(3);
    world.target.mode = Mode::Keep;
    (world.target.size, world.template) = (5, "r2");
    world.crash(0);
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    let held = world.held();
    assert_eq!((held.epoch, held.acks, held.ackers.len(), world.replicas), (2, 1, 2, 3), "{held:?}");
    assert!(world.pods.values().all(|pod| &*pod.revision == "r1"));
    assert_eq!(world.pass(false), MemberStep::Quiet);
    world.target.mode = Mode::Run;
    world.settle();
    assert_eq!(world.replicas, 5);
    let mut world = World::new(3);
    world.target.mode = Mode::Keep;
    assert_eq!(world.pass(false), MemberStep::Quiet, "no cluster begins");
}

/// The status of a custom resource is lost, such as when it is restored from a backup: the `ConfigMap` names the
/// primary.
#[test]
fn a_lost_status_is_found_again() {
    let mut world = World::grown(3);
    world.crash(0);
    world.settle();
    let (p, epoch) = (world.primary(), world.held().epoch);
    assert_eq!(epoch, 2);
    world.latch = PrimaryLatch::default();
    world.settle();
    let held = world.held();
    assert_eq!((world.primary(), held.epoch, held.acks, held.ackers.len()), (p, 2, 1, 2));
    // Without it in a fail-over, all members have to answer.
    world.down.insert(p);
    while world.roles.as_ref().is_some_and(|roles| !roles.primary.is_empty()) {
        world.tick();
        world.pass(false);
    }
    world.latch = PrimaryLatch::default();
    let step = world.pass(false);
    assert!(matches!(&step, MemberStep::Wait { why, .. } if why.starts_with("the first answer of")), "{step:?}");
    world.down.clear();
    world.settle();
    assert_eq!(world.held().ackers.len(), 2);
}

/// Probes of replicas fail because the primary is lost. They can take over all the same.
#[test]
fn a_replica_whose_pod_is_not_ready_takes_over() {
    let mut world = World::grown(3);
    world.down.insert(0);
    world.pods.values_mut().for_each(|pod| pod.ready = false);
    for _ in 0..30 {
        world.tick();
        world.pass(false);
    }
    assert!(world.primary() != 0 && world.members[&world.primary()].writable);
}

/// The replica that received most cannot apply it. No member with fewer writes takes over in its place.
#[test]
fn a_replica_that_cannot_apply_what_it_received_is_not_passed_over() {
    let mut world = World::grown(3);
    world.slow.insert(1);
    world.halted.insert(2);
    for _ in 0..5 {
        world.tick();
    }
    world.down.insert(0);
    let why = world.stops("ReplicaBroken");
    assert!(why.contains("db-2 has the most writes and cannot apply them: error 1062"), "{why}");
    assert_eq!(world.held().ordinal, None);
    world.halted.clear();
    world.slow.clear();
    world.down.clear();
    world.settle();
    assert_eq!(world.primary(), 2);
}

/// A target that cannot apply is refused, and never locks the primary.
#[test]
fn nobody_hands_over_to_a_replica_that_does_not_apply() {
    let mut world = World::grown(3);
    world.halted.extend([1, 2]);
    world.template = "r2";
    for text in ["1", "2", "any"] {
        world.target.switch_over = Some(text.into());
        for _ in 0..20 {
            world.tick();
            world.pass(false);
            assert!(world.members[&0].role == Role::Primary && world.members[&0].writable);
        }
        let request = world.held().requested.unwrap();
        assert_eq!(request.result, RequestResult::Refused, "{request:?}");
    }
    world.halted.clear();
    world.settle();
}

/// A replica was away for so long that the primary can no longer send the writes that it lacks.
#[test]
fn a_replica_that_lacks_what_the_primary_no_longer_sends_is_seeded() {
    let mut world = World::grown(3);
    world.down.insert(2);
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    world.purged = World::position(&world.members[&0].log);
    let starts = world.members[&2].starts;
    world.down.clear();
    world.settle();
    assert!(world.members[&2].starts > starts, "it has a copy");
    assert_eq!((world.held().ackers.len(), world.primary()), (2, 0));
}

/// The result of a request, and the reason.
pub(super) fn request(world: &mut World, text: &str) -> (RequestResult, String) {
    world.target.switch_over = Some(text.into());
    world.settle();
    let request = world.held().requested.unwrap();
    assert_eq!(request.text, text);
    (request.result, request.why.unwrap_or_default())
}

#[test]
fn a_requested_switch_over_is_done_once() {
    let mut world = World::grown(3);
    assert_eq!(request(&mut world, "2@a"), (RequestResult::Succeeded, String::new()));
    let last = world.held().last.unwrap();
    assert_eq!((last.kind, last.from, last.to), (ChangeKind::SwitchOver, Some(0), Some(2)));
    assert_eq!((world.primary(), world.held().epoch), (2, 2));
    // The same text again is not done again, also after another primary.
    world.crash(2);
    world.settle();
    let p = world.primary();
    assert_ne!(p, 2);
    world.settle();
    assert_eq!((world.primary(), world.held().epoch), (p, 3));
    assert_eq!(request(&mut world, "any").0, RequestResult::Succeeded);
    assert_eq!(world.held().epoch, 4);
    assert_ne!(world.primary(), p);
    let own = world.primary().to_string();
    assert_eq!(request(&mut world, &own).0, RequestResult::Succeeded);
    assert_eq!(world.held().epoch, 4, "it is the primary already");
}

#[test]
fn a_requested_switch_over_that_is_not_safe_is_refused_with_the_reason() {
    let long = format!("1@{}", "x".repeat(62));
    for (text, expected) in [
        ("7", "the member db-7 does not exist, or it leaves"),
        ("01", "the request must be the ordinal of a member"),
        ("-1", "the request must be the ordinal of a member"),
        ("db-1", "the request must be the ordinal of a member"),
        ("1 @a", "the request must have fewer than 64 characters of ASCII"),
        (&*long, "the request must have fewer than 64 characters of ASCII"),
    ] {
        let mut world = World::grown(3);
        let (result, why) = request(&mut world, text);
        assert_eq!(result, RequestResult::Refused, "{text}");
        assert!(why.starts_with(expected), "{text}: {why}");
        assert_eq!((world.primary(), world.held().epoch), (0, 1));
    }
    let mut alone = World::grown(1);
    assert_eq!(request(&mut alone, "any"), (RequestResult::Refused, "there is no replica".to_owned()));
    let mut world = World::grown(5);
    let outside = (1..5).find(|k| !world.held().ackers.contains(k)).unwrap();
    world.stubborn.insert(outside);
    let (result, why) = request(&mut world, &outside.to_string());
    assert_eq!((result, why), (RequestResult::Refused, format!("db-{outside} does not acknowledge writes")));
    let mut world = World::grown(3);
    world.down.insert(2);
    world.target.switch_over = Some("2@now".into());
    for _ in 0..3 {
        world.tick();
        world.pass(false);
    }
    let request = world.held().requested.unwrap();
    assert_eq!(request.result, RequestResult::Refused);
    assert!(request.why.unwrap().starts_with("db-2 does not follow the primary"));
}

/// Two of five acknowledge, and only they have all acknowledged writes. A different one acknowledges first, in the place of one of them.
#[test]
fn a_member_that_does_not_acknowledge_is_admitted_before_it_takes_over() {
    let mut world = World::grown(5);
    for _ in 0..4 {
        let held = world.held();
        let outside = (0..5).rfind(|k| held.ordinal != Some(*k) && !held.ackers.contains(k)).unwrap();
        world.target.switch_over = Some(outside.to_string().into());
        while world.held().change.is_none() {
            world.tick();
            world.pass(false);
            let held = world.held();
            assert!((1..=2).contains(&held.ackers.len()) && held.acks == 1, "{}", world.last_steps());
        }
        assert!(world.members[&outside].acknowledges);
        assert_eq!(request(&mut world, &outside.to_string()).0, RequestResult::Succeeded);
        assert_eq!((world.primary(), world.held().ackers.len()), (outside, 2));
    }
}

#[test]
fn a_requested_switch_over_whose_target_or_primary_is_lost_is_given_up() {
    for lost in [0, 1] {
        let mut world = World::grown(3);
        world.target.switch_over = Some("1".into());
        while world.held().change.is_none() {
            world.tick();
            world.pass(false);
        }
        world.crash(lost);
        world.settle();
        let request = world.held().requested.unwrap();
        assert_eq!(request.result, RequestResult::GivenUp, "{lost}: {request:?}");
        assert!(request.why.is_some());
        assert_eq!(world.primary() == 0, lost == 1);
    }
}

/// A promoted database that does not start does not hold the others for ever (MariaDB's agent reports it as a primary with a problem).
#[test]
fn a_primary_whose_database_hangs_is_replaced_and_killed() {
    let mut world = World::grown(3);
    world.hung.insert(0);
    let began = world.now;
    while world.held().ordinal == Some(0) {
        world.tick();
        world.pass(false);
        assert!(world.now - began < 90, "{}", world.last_steps());
    }
    // Its agent obeys: the process that hangs has gone, and the next one follows.
    world.settle();
    assert!(world.hung.is_empty());
    assert_ne!(world.primary(), 0);
}

/// The volume of an acker is lost before the start of the other one is noted: that counts again, and only then can the former leave.
#[test]
fn an_acker_without_data_leaves_n_when_the_other_one_has_just_started() {
    let mut world = World::grown(3);
    let latched = world.latch.own.primary.as_mut().unwrap();
    latched.starts.insert(2, "earlier".into());
    world.destroy(1);
    world.settle();
    assert_eq!(world.held().ackers.len(), 2, "both acknowledge again");
}

/// A new acker starts again before a pass has seen that it acknowledges, and has lost writes that only it had
/// acknowledged.
#[test]
fn a_new_acker_that_starts_again_at_once_does_not_count() {
    let mut world = World::grown(3);
    world.down.insert(2);
    while world.held().ackers.contains(&2) {
        world.tick();
        world.pass(false);
    }
    world.down.clear();
    while !(world.held().ackers.contains(&2) && world.members[&2].acknowledges) {
        world.tick();
        world.pass(false);
    }
    world.slow.insert(1);
    world.halted.insert(2);
    (0..3).for_each(|_| world.tick());
    assert!(world.acknowledged.iter().any(|write| !world.members[&1].log.contains(write)), "only db-2 has it");
    world.crash(2);
    world.halted.clear();
    world.down.insert(0);
    let why = world.stops("FailoverUnsafe");
    assert!(why.contains("these members have to answer first: db-2"), "{why}");
    world.down.clear();
    world.slow.clear();
    world.settle();
}

/// An acker whose pod is deleted applies what it has received, and ends in order: it counts when the primary is lost before the operator
/// has seen it receive again. It may end so several times.
#[test]
fn an_acker_that_ended_in_order_is_heard() {
    for (ended_in_order, restarts) in [(true, 1), (true, 3), (false, 1)] {
        let mut world = World::grown(3);
        let epoch = world.held().epoch;
        world.slow.insert(1);
        (0..3).for_each(|_| world.tick());
        assert!(world.acknowledged.iter().any(|write| !world.members[&1].log.contains(write)), "only db-2 has it");
        for _ in 0..restarts {
            if ended_in_order { world.ends(2) } else { world.crash(2) }
        }
        world.destroy(0);
        world.slow.clear();
        if ended_in_order {
            world.settle();
            assert_eq!((world.held().epoch, world.primary()), (epoch + 1, 2));
        } else {
            let why = world.stops("FailoverUnsafe");
            assert!(why.contains("these members have to answer first: db-2"), "{why}");
        }
    }
}

/// A replica that hangs acknowledges nothing, and does not take over.
#[test]
fn an_acker_whose_database_hangs_leaves_n() {
    let mut world = World::grown(3);
    world.hung.insert(1);
    let began = world.now;
    while world.held().ackers.contains(&1) {
        world.tick();
        world.pass(false);
        assert!(world.now - began < 90, "{}", world.last_steps());
    }
    world.hung.clear();
    world.settle();
    assert!(world.held().ackers.contains(&1));
}

#[test]
fn a_promoted_database_that_does_not_start_is_lost_after_a_while() {
    let mut world = World::grown(3);
    world.crash(0);
    while world.held().epoch == 1 || world.held().ordinal.is_none() {
        world.tick();
        world.pass(false);
    }
    let p = world.primary();
    world.broken.insert(p);
    let began = world.now;
    while world.held().epoch == 2 {
        world.tick();
        world.pass(false);
        assert!(world.now - began < 60, "{}", world.last_steps());
    }
    assert!(world.now - began >= 30, "it has time to start");
    world.broken.clear();
    world.settle();
    assert_ne!(world.primary(), p);
    // If no member can take over, the status says so, and names the members that could.
    let mut world = World::grown(3);
    (0..3).for_each(|k| world.crash(k));
    while world.held().acks > 0 {
        world.tick();
        world.pass(false);
    }
    world.broken.insert(0);
    let why = world.stops("FailoverUnsafe");
    assert!(why.contains("the database of db-0 has not started for") && why.contains("force-new-cluster=1@"), "{why}");
    world.broken.clear();
    world.settle();
    assert_eq!(world.primary(), 0);
}

/// A volume may have data that its agent does not know. It is not overwritten.
#[test]
fn a_member_without_data_that_reports_a_problem_gets_no_copy() {
    let mut world = World::grown(3);
    world.destroy(2);
    world.foreign.insert(2);
    let why = world.stops("DataUnknown");
    assert!(why.contains("db-2 has no data of this cluster, and a problem: foreign files"), "{why}");
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    assert_eq!(world.members[&2].data, None);
    assert_eq!(world.held().ackers, BTreeSet::from([1]), "it leaves N all the same");
    world.foreign.clear();
    world.settle();
    assert_eq!(world.held().ackers.len(), 2);
}
