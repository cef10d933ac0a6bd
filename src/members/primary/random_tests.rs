//! The writes that must not be lost in the small world, with all failures and in any sequence of orders.

use std::collections::BTreeSet;

use super::decide_tests::request;
use super::state::RequestResult;
use super::world_tests::World;
use crate::agent::contract::{Role, Verb};
use crate::members::workload::Mode;

/// How many random worlds are run; 400 take a minute.
const SEEDS: u64 = 50;

#[test]
fn nothing_is_lost_when_anything_fails_at_any_time() {
    let mut accepted = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(3).with_seed(seed);
        for _ in 0..300 {
            world.tick();
            let fails = world.random(5) == 0;
            world.pass(fails);
            let k = u32::try_from(world.random(3)).unwrap();
            match world.random(40) {
                0 if world.members.contains_key(&k) => world.crash(k),
                1 => drop(world.down.insert(k)),
                2 => world.down.clear(),
                3 => drop(world.cut.insert(k)),
                4 | 5 => world.cut.clear(),
                6 => drop(world.slow.insert(k)),
                7 | 8 => world.slow.clear(),
                9 => world.target.size = k + 1,
                11 if world.members.get(&k).is_some_and(|member| member.role == Role::Replica) => world.ends(k),
                10 => world.template = if world.template == "r1" { "r2" } else { "r1" },
                12 => world.target.asleep = !world.target.asleep,
                _ => {}
            }
        }
        world.down.clear();
        world.cut.clear();
        world.slow.clear();
        world.target.size = 3;
        world.target.asleep = false;
        if !world.comes_to_rest() {
            // Members that had acknowledged restarted before they answered: it is not known which writes they lost.
            accepted += 1;
            world.accept();
            world.settle();
        }
        assert!(world.acknowledged.len() > 20, "{seed}: clients write");
    }
    assert!(accepted * 10 < SEEDS, "{accepted} of {SEEDS} need a person");
}

/// The primary continues after a sleep. A fail-over would be safe, and would cost time and an event for nothing.
#[test]
fn members_that_wake_have_the_same_primary() {
    let mut world = World::grown(3);
    let (primary, epoch) = (world.primary(), world.held().epoch);
    for _ in 0..3 {
        world.target.asleep = true;
        world.comes_to_rest();
        assert!(world.pods.is_empty(), "{}", world.last_steps());
        world.target.asleep = false;
        world.settle();
        assert_eq!((world.primary(), world.held().epoch), (primary, epoch), "{}", world.last_steps());
    }
}

/// An operator is suspended right before it sends an order. It arrives in the same epoch, after others have decided more. Without the
/// number of orders this loses writes.
#[test]
fn an_order_that_arrives_after_newer_ones_of_its_epoch_is_refused() {
    for obeys_older in [true, false] {
        // The first replica is admitted, and the primary still waits for no acknowledgement.
        let mut world = World::grown(1);
        world.obeys_older = obeys_older;
        world.target.size = 2;
        let is_late =
            |verb: &Verb| matches!(verb, Verb::Promote(order) if order.acks == 0 && order.admitted.len() == 1);
        while !world.delayed.iter().any(|(_, verb)| is_late(verb)) {
            world.tick();
            let mut ahead = world.clone();
            ahead.suspended();
            world = if ahead.delayed.iter().any(|(_, verb)| is_late(verb)) { ahead } else { world };
            world.pass(false);
        }
        world.settle();
        assert_eq!((world.held().epoch, world.held().acks, world.held().ackers.len()), (1, 1, 1));
        // Now it arrives, and the replica receives nothing for a while.
        world.arrive();
        world.slow.insert(1);
        (0..3).for_each(|_| world.tick());
        let lacks = world.acknowledged.iter().any(|write| !world.members[&1].log.contains(write));
        assert_eq!(lacks, obeys_older, "a primary that waits for nobody acknowledges what only it has");
    }
}

/// A member that was taken out of N while it was silent may connect only after it refuses older orders that let it acknowledge.
#[test]
fn a_member_that_was_taken_out_connects_only_after_it_refuses_older_orders() {
    let mut world = World::grown(3);
    world.crash(2);
    // It is to acknowledge again, and the operator is suspended right before it says so.
    while world.delayed.is_empty() {
        world.tick();
        let mut ahead = world.clone();
        ahead.suspended();
        let is_it = matches!(ahead.delayed.first(), Some((2, Verb::Follow(order))) if order.acknowledge);
        world = if is_it { ahead } else { world };
        if !is_it {
            world.pass(false);
        }
    }
    world.down.insert(2);
    for _ in 0..60 {
        world.tick();
        world.pass(false);
    }
    assert_eq!((world.held().ackers, world.held().epoch), (BTreeSet::from([1]), 1));
    world.down.clear();
    world.target.mode = Mode::Keep;
    while !world.members[&0].admitted.contains(&"db-2".to_owned()) {
        assert!(!world.members[&2].acknowledges);
        world.tick();
        world.pass(false);
    }
    world.arrive();
    assert!(!world.members[&2].acknowledges, "{}", world.last_steps());
    world.target.mode = Mode::Run;
    world.settle();
    assert_eq!(world.held().ackers.len(), 2);
}

/// Orders of suspended operators arrive at any time, while anything fails.
#[test]
fn nothing_is_lost_when_orders_arrive_late() {
    let mut arrived = 0;
    for seed in 1000..1000 + SEEDS {
        let mut world = World::new(3).with_seed(seed);
        for _ in 0..300 {
            world.tick();
            match world.random(8) {
                0 | 1 => world.suspended(),
                2 => drop(world.pass(true)),
                _ => drop(world.pass(false)),
            }
            if world.random(12) == 0 {
                arrived += usize::from(!world.delayed.is_empty());
                world.arrive();
            }
            let k = u32::try_from(world.random(3)).unwrap();
            match world.random(40) {
                0 if world.members.contains_key(&k) => world.crash(k),
                1 => drop(world.down.insert(k)),
                2 | 3 => world.down.clear(),
                4 => drop(world.slow.insert(k)),
                5 | 6 => world.slow.clear(),
                7 => world.target.size = k + 1,
                _ => {}
            }
        }
        world.down.clear();
        world.slow.clear();
        world.target.size = 3;
        world.target.asleep = false;
        while !world.delayed.is_empty() {
            world.arrive();
        }
        if !world.comes_to_rest() {
            world.accept();
            world.settle();
        }
    }
    assert!(arrived > 500, "{arrived} orders were late");
}

/// Agents that are older than the numbers of orders: they report none, and refuse orders that have one.
#[test]
fn agents_that_are_older_than_numbers_obey_and_are_replaced_one_by_one() {
    let mut world = World::new(1);
    world.unnumbered.extend(0..3);
    world.settle();
    world.target.size = 3;
    world.settle();
    assert_eq!((world.held().acks, world.held().ackers.len()), (1, 2));
    let p = world.primary();
    world.crash(p);
    world.settle();
    assert_ne!(world.primary(), p);
    assert_eq!(request(&mut world, "any").0, RequestResult::Succeeded);
    // A new image brings agents that know numbers, one member after another.
    for k in [2, 0, 1] {
        world.unnumbered.remove(&k);
        world.settle();
    }
    assert_eq!(world.members[&world.primary()].number, world.held().number, "{}", world.last_steps());
}

/// The same, while anything fails, and agents of both kinds meet.
#[test]
fn nothing_is_lost_with_agents_of_other_versions() {
    for seed in 2000..2000 + SEEDS / 2 {
        let mut world = World::new(3).with_seed(seed);
        world.unnumbered.extend(0..3);
        for _ in 0..300 {
            world.tick();
            let fails = world.random(6) == 0;
            world.pass(fails);
            let k = u32::try_from(world.random(3)).unwrap();
            match world.random(40) {
                0 if world.members.contains_key(&k) => world.crash(k),
                1 => drop(world.down.insert(k)),
                2 | 3 => world.down.clear(),
                4 => drop(world.slow.insert(k)),
                5 | 6 => world.slow.clear(),
                7 => drop(world.unnumbered.remove(&k)),
                8 => world.target.size = k + 1,
                _ => {}
            }
        }
        world.down.clear();
        world.slow.clear();
        world.target.size = 3;
        world.target.asleep = false;
        if !world.comes_to_rest() {
            world.accept();
            world.settle();
        }
        assert!(world.acknowledged.len() > 20, "{seed}: clients write");
    }
}
