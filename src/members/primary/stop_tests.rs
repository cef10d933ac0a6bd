//! The state that the operator does not touch, the causes for which it stops, and the member that follows first, in the
//! small world (docs/design/primary.md).

use super::state::PrimaryAction;
use super::world_tests::{SimulatedMember, World};
use crate::agent::contract::{Role, Verb};
use crate::members::driver::MemberStep;

#[test]
fn volumes_that_are_there_already_are_taken_only_if_the_chart_says_so() {
    let mut world = World::new(3);
    world.members.insert(
        2,
        SimulatedMember { data: Some("u".into()), log: vec![(2, 1)], applied: 1, ..SimulatedMember::default() },
    );
    let why = world.stops("OrphanedVolumes");
    assert!(why.contains("claims of db already exist"), "{why}");
    assert_eq!((world.replicas, &world.roles), (0, &None));
    world.target.adopt_claims = true;
    world.settle();
    assert_eq!(world.members[&world.primary()].log[0], (2, 1), "its rows are there");
}

#[test]
fn with_other_data_or_orders_of_somebody_else_nothing_is_changed() {
    let mut world = World::grown(3);
    world.template = "r2";
    world.members.get_mut(&2).unwrap().data = Some("other".into());
    let why = world.stops("SplitBrain");
    assert!(why.contains("db-2 has data of another cluster"), "{why}");
    for _ in 0..30 {
        world.tick();
        let step = world.pass(false);
        assert!(matches!(step, MemberStep::Stop { .. }), "{step:?}");
    }
    assert!(world.members[&0].writable, "clients write");
    world.members.get_mut(&2).unwrap().data = Some("u".into());
    world.settle();
    let epoch = world.held().epoch + 1;
    world.members.get_mut(&1).unwrap().epoch = epoch;
    let why = world.stops("SplitBrain");
    assert!(why.contains(&format!("db-1 obeys epoch {epoch}")), "{why}");
}

#[test]
fn a_member_that_takes_writes_and_is_not_the_primary_is_fenced() {
    let mut world = World::grown(3);
    world.crash(0);
    world.settle();
    let (p, now) = (world.primary(), world.held().epoch);
    let earlier = world.members.get_mut(&0).unwrap();
    (earlier.role, earlier.writable, earlier.source) = (Role::Primary, true, None);
    (earlier.epoch, earlier.number) = (1, 0);
    let step = world.pass(false);
    let fences = |verb: &Verb| matches!(verb, Verb::Fence(order) if order.epoch == now);
    assert!(matches!(&step, MemberStep::Act(PrimaryAction::Tell { ordinal: 0, verb }) if fences(verb)), "{step:?}");
    assert!(!world.members[&0].writable);
    world.settle();
    assert_eq!(world.primary(), p);
}

#[test]
fn of_two_members_with_writes_that_the_other_lacks_none_becomes_the_primary() {
    let mut world = World::grown(3);
    world.down.insert(0);
    for (k, server) in [(1, 7), (2, 8)] {
        let member = world.members.get_mut(&k).unwrap();
        member.log.push((server, 1));
        member.applied = member.log.len();
    }
    let why = world.stops("Diverged");
    assert!(why.contains("db-1") && why.contains("db-2"), "{why}");
    assert_eq!(world.held().ordinal, None);
    // A person deletes the claim and the pod of one, and requests that the other continues.
    world.destroy(2);
    let why = world.stops("FailoverUnsafe");
    assert!(why.contains("force-new-cluster=2@1"), "{why}");
    world.accept();
    for _ in 0..20 {
        world.tick();
        world.pass(false);
    }
    world.down.clear();
    world.settle();
    assert_eq!(world.primary(), 1);
}

/// Writes wait for the member that acknowledges, and not for the start of the earlier primary's database.
#[test]
fn a_member_that_acknowledges_follows_before_the_earlier_primary() {
    let mut world = World::grown(3);
    world.crash(0);
    let mut follow = Vec::new();
    while follow.len() < 2 {
        world.tick();
        if let MemberStep::Act(PrimaryAction::Tell { ordinal, verb: Verb::Follow(order) }) = world.pass(false) {
            follow.push((ordinal, order.acknowledge));
        }
    }
    assert_eq!(follow, [(3 - world.primary(), true), (0, false)]);
}

/// A Service without a pod for a moment costs its clients a second. Only a primary that nobody hears leaves it first.
#[test]
fn the_next_primary_is_selected_before_one_that_takes_no_writes_is_not() {
    for (is_heard, expected) in
        [(true, [(true, Some("primary")), (false, None)]), (false, [(false, None), (true, Some("primary"))])]
    {
        let mut world = World::grown(3);
        if is_heard {
            world.crash(0);
        } else {
            world.down.insert(0);
        }
        let mut labels = Vec::new();
        while labels.len() < 2 {
            world.tick();
            if let MemberStep::LabelPod { ordinal, role, .. } = world.pass(false) {
                labels.push((ordinal == world.primary(), role));
            }
        }
        assert_eq!(labels, expected, "{is_heard}");
    }
}
