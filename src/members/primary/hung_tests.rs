//! Databases that hang, in the small world (docs/design/primary.md): their agents end them, as crates/agent-mysql/src/hung.rs does.

use super::state::{PrimaryStep, Refused};
use super::world_tests::World;
use crate::agent::contract::{Role, Verb};
use crate::members::driver::MemberStep;

impl World {
    /// Whether a start could lose an acknowledged write that the primary may have lost, too.
    fn may_be_the_only_one(&self, k: u32) -> bool {
        let member = &self.members[&k];
        let is_well = |source: u32| {
            let primary =
                self.members.get(&source).filter(|_| !self.down.contains(&source) && !self.hung.contains(&source));
            primary.is_some_and(|primary| primary.role == Role::Primary && primary.epoch >= member.epoch)
        };
        match member.role {
            Role::Replica => member.acknowledges && !member.source.is_some_and(is_well),
            Role::Fenced => !member.held,
            Role::Primary | Role::Waiting => false,
        }
    }

    /// The seconds until a database that hangs is ended by its agent.
    pub(super) fn restarts_in(&self, k: u32) -> Option<u64> {
        let left = self.hung_since.get(&k)? + self.hung_after? - self.now;
        (left > 0 || !self.may_be_the_only_one(k)).then(|| u64::try_from(left).unwrap_or_default())
    }

    /// Agents end databases that have hung for too long.
    pub(super) fn end_hung(&mut self) {
        self.hung_since.retain(|k, _| self.hung.contains(k));
        // An order that was refused is given again after some seconds.
        let (stubborn, again) = (self.stubborn.clone(), self.now % 4 == 0);
        self.refused.retain(|(k, _), _| stubborn.contains(k) || !again);
        for k in self.hung.clone() {
            let since = *self.hung_since.entry(k).or_insert(self.now);
            let is_due = self.hung_after.is_some_and(|after| self.now - since >= after);
            if is_due && !self.down.contains(&k) && !self.may_be_the_only_one(k) {
                self.crash(k);
            }
        }
    }

    /// Whether an order can be obeyed: a database that hangs obeys none, unless the order ends it.
    pub(super) fn frees(&mut self, k: u32, verb: &Verb) -> bool {
        if !self.hung.contains(&k) {
            return true;
        }
        let since = self.hung_since.get(&k).copied().unwrap_or(self.now);
        let is_due = self.hung_after.is_some_and(|after| self.now - since >= after);
        let is_primary = self.members[&k].role == Role::Primary;
        let ends = match verb {
            Verb::Fence(_) => is_primary,
            Verb::Follow(_) => is_primary || is_due,
            Verb::Seed(_) => true,
            Verb::Promote(_) | Verb::Demote(_) | Verb::Reload(_) => false,
        };
        if ends {
            self.crash(k);
        } else if matches!(verb, Verb::Follow(_)) {
            self.refused
                .insert((k, verb.name()), Refused { why: "the database does not answer".into(), passing: true });
        }
        ends
    }

    /// Passes for this many seconds.
    fn passes(&mut self, seconds: u32) -> Vec<PrimaryStep> {
        let second = |_| {
            self.tick();
            self.pass(false)
        };
        (0..seconds).map(second).collect()
    }
}

/// A world whose agents end databases that hang.
fn grown(size: u32) -> World {
    let mut world = World::grown(size);
    world.hung_after = Some(60);
    world
}

fn is_unsafe(step: &PrimaryStep) -> bool {
    matches!(step, MemberStep::Stop { reason: "FailoverUnsafe", .. })
}

#[test]
fn the_only_member_is_started_again_by_its_agent() {
    let mut world = grown(1);
    world.hung.insert(0);
    let steps = world.passes(59);
    assert!(!steps.iter().any(is_unsafe), "nobody has to do anything: {steps:?}");
    let waits = |step: &PrimaryStep| matches!(step, MemberStep::Wait { why, .. } if why.contains("the database of db-0, which hangs"));
    assert!(steps.iter().any(waits), "{steps:?}");
    world.settle();
    assert!(world.hung.is_empty() && world.members[&0].starts == 2);
    // An agent that does not: a person has to.
    let mut world = World::grown(1);
    world.hung.insert(0);
    assert!(world.passes(30).iter().any(is_unsafe));
}

/// The primary hangs, and one of two replicas is killed at that time: no member can take over, and the primary
/// continues.
#[test]
fn a_primary_that_hangs_while_a_replica_is_killed_goes_on_after_a_start() {
    for seed in 0..100 {
        let mut world = grown(3).with_seed(seed);
        world.hung.insert(0);
        world.crash(2);
        let steps = world.passes(100);
        assert!(!steps.iter().any(is_unsafe), "{seed}: {}", world.last_steps());
        world.settle();
        assert_eq!((world.primary(), world.held().epoch), (0, 1), "{seed}");
    }
}

/// An acker that hangs may be the only one with an acknowledged write. It is not started while the primary is lost, and as soon as there is
/// a primary.
#[test]
fn an_acker_that_hangs_is_started_when_nothing_can_be_lost_by_it() {
    for seed in 0..100 {
        let mut world = grown(2).with_seed(seed);
        world.halted.insert(1);
        world.passes(3);
        world.hung.insert(1);
        world.down.insert(0);
        let starts = world.members[&1].starts;
        let steps = world.passes(150);
        assert!(steps.iter().any(is_unsafe), "{seed}: {}", world.last_steps());
        assert_eq!(world.members[&1].starts, starts, "{seed}");
        world.halted.clear();
        world.down.clear();
        world.settle();
        assert!(world.hung.is_empty(), "{seed}");
    }
}

/// Two or all of the members hang at the same time.
#[test]
fn members_that_hang_together_are_started_one_after_the_other() {
    for (seed, hung) in (0..60).zip([&[0, 1][..], &[1, 2], &[0, 1, 2]].into_iter().cycle()) {
        let mut world = grown(3).with_seed(seed);
        world.hung.extend(hung);
        let steps = world.passes(70);
        assert!(!steps.iter().any(is_unsafe), "{seed}: {}", world.last_steps());
        world.settle();
        assert!(world.hung.is_empty(), "{seed}");
    }
}

/// Databases hang, are killed and return at any time. `most` may hang or be away at once.
fn harmed(seed: u64, most: usize) -> World {
    let mut world = grown(3).with_seed(seed);
    for _ in 0..150 {
        let k = u32::try_from(world.random(3)).unwrap();
        let is_room = world.hung.union(&world.down).count() < most;
        match world.random(12) {
            0 if is_room => drop(world.hung.insert(k)),
            1 => drop(world.hung.remove(&k)),
            2 => world.crash(k),
            3 if is_room => drop(world.down.insert(k)),
            4 => world.down.clear(),
            5 => world.now += 7,
            _ => {}
        }
        world.tick();
        let fails = world.random(8) == 0;
        world.pass(fails);
    }
    world.down.clear();
    world
}

#[test]
fn nobody_is_needed_when_one_database_after_the_other_hangs() {
    for seed in 0..200 {
        let mut world = harmed(seed, 1);
        assert!(world.comes_to_rest(), "{seed}: {}", world.last_steps());
        assert!(world.hung.is_empty(), "{seed}");
    }
}

/// The world checks at each step that nothing acknowledged is lost.
#[test]
fn nothing_is_lost_when_any_databases_hang_at_any_time() {
    let (seeds, mut accepted) = (100, 0);
    for seed in 0..seeds {
        let mut world = harmed(seed, 3);
        world.hung.clear();
        if !world.comes_to_rest() {
            // Two were lost one after the other, and the third had restarted: it is not known which writes it lost.
            accepted += 1;
            world.accept();
            world.settle();
        }
    }
    assert!(accepted * 10 < seeds, "{accepted} of {seeds} need a person");
}
