//! Random runs of the world of [`super::world_tests`].
//!
//! Invariants are those of docs/design/members.md.

use proptest::prelude::{Just, Strategy, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::world_tests::{Fate, World};

/// The events of a run.
#[derive(Clone, Debug)]
enum Event {
    Pass(Fate),
    Tick,
    Size(u32),
    Down(u32),
    Up,
    Wipe(u32),
    LoseClaim(u32),
    LoseVolume(u32),
    ScaleByHand(u32),
    RemoveByHand(u32),
    DropConfigMap,
    Template,
    Seconds(i64),
}

fn quiet_events() -> impl Strategy<Value = Event> {
    let fate =
        || prop_oneof![6 => Just(Fate::Done), 1 => Just(Fate::Lost), 1 => Just(Fate::Late), 1 => Just(Fate::Crash)];
    prop_oneof![6 => fate().prop_map(Event::Pass), 4 => Just(Event::Tick), 1 => (1..6_u32).prop_map(Event::Size)]
}

fn harmful_events() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => quiet_events(),
        1 => (0..5_u32).prop_map(Event::Down),
        1 => Just(Event::Up),
        1 => (0..5_u32).prop_map(Event::Wipe),
        1 => (0..5_u32).prop_map(Event::LoseClaim),
        1 => (0..5_u32).prop_map(Event::LoseVolume),
        1 => (0..7_u32).prop_map(Event::ScaleByHand),
        1 => (0..5_u32).prop_map(Event::RemoveByHand),
        1 => Just(Event::DropConfigMap),
        1 => Just(Event::Template),
        1 => (0..900_i64).prop_map(Event::Seconds),
    ]
}

fn run(mut world: World, events: Vec<Event>) {
    let templates = ["r1", "r2", "r3", "r4", "r5", "r6", "r7"];
    for event in events {
        match event {
            Event::Pass(fate) => drop(world.pass(fate)),
            Event::Tick => world.tick(),
            Event::Size(size) => world.target.size = size,
            Event::Down(k) => {
                world.harmed = true;
                world.down.insert(k);
            }
            Event::Up => world.down.clear(),
            Event::Wipe(k) if world.survives(k) => world.wipe(k),
            Event::LoseClaim(k) if world.survives(k) => {
                world.wipe(k);
                world.claims.get_mut(&k).into_iter().for_each(|claim| claim.lost = true);
            }
            Event::LoseVolume(k) if world.survives(k) => world.lose_volume(k),
            Event::ScaleByHand(replicas) if world.latch.bootstrapped => {
                (world.harmed, world.replicas) = (true, replicas);
            }
            Event::RemoveByHand(k) if world.survives(k) => {
                world.harmed = true;
                world.remove_member(k);
                world.elect();
            }
            Event::DropConfigMap if world.latch.bootstrapped => world.initial = None,
            Event::Template => {
                let now = templates.iter().position(|template| *template == world.template).unwrap_or_default();
                world.template = templates[(now + 1) % templates.len()];
            }
            Event::Seconds(seconds) => world.now += seconds,
            _ => {}
        }
        world.elect();
    }
    world.down.clear();
    world.settle();
}

/// The number of runs of each kind.
const CASES: u32 = 300;

fn cases() -> Config {
    Config { cases: CASES, max_shrink_iters: 3000, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(cases())]

    /// I1 to I10, I14, I15 and I17, whatever is wanted, lost, late or interrupted.
    #[test]
    fn whatever_is_wanted_comes_about_and_no_crash_or_lost_answer_harms(
        events in proptest::collection::vec(quiet_events(), 0..150),
    ) {
        run(World::new(3), events);
    }

    /// The same without learners. A vote may be added long after the call was lost; learners exist to prevent this.
    /// Without them it can cost the quorum for good.
    #[test]
    fn whatever_is_wanted_comes_about_without_learners(events in proptest::collection::vec(quiet_events(), 0..150)) {
        let is_late = |event: &Event| matches!(event, Event::Pass(Fate::Late));
        let events = events.into_iter().filter(|event| !is_late(event)).collect();
        let mut world = World::new(3);
        world.settings.learners = false;
        run(world, events);
    }

    /// The same with claims that are kept, and from which members return.
    #[test]
    fn kept_claims_harm_nobody(events in proptest::collection::vec(quiet_events(), 0..150)) {
        let mut world = World::new(2);
        world.target.delete_claims = false;
        run(world, events);
    }

    /// The same while members die, lose their data or are removed, and somebody scales the StatefulSet by hand.
    #[test]
    fn what_others_break_is_mended_as_long_as_a_quorum_has_its_data(
        size in 1..6_u32,
        events in proptest::collection::vec(harmful_events(), 0..150),
    ) {
        run(World::grown(size), events);
    }
}
