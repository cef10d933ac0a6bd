//! Which custom resources of a kind move to a new version of its chart, and when: a pure function of where each one is.
//!
//! No other state is kept. The record of a release has the chart of its custom resource, and the status has a failed
//! attempt, so an operator that restarts continues where the last one stopped.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kind::rollout::{OnFailure, Rollout};

/// Names that a report lists of each state.
const MAX_NAMES: usize = 10;

/// Where a custom resource is in a roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutPhase {
    /// It has the chart before, and may move.
    Waits,
    /// It has the chart before, and stays: why, as the end of a sentence that begins with its name.
    Left(String),
    /// It moves since this time, in seconds since 1970.
    Moves(i64),
    /// It moves since this time, an attempt has failed, and another follows.
    Tries(i64),
    /// It has the new chart, and is ready since this time, in seconds since 1970.
    Ready(i64),
    /// The new chart failed for it: why.
    Failed(String),
}

/// A custom resource of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutMember<K> {
    pub key: K,
    /// Where it is.
    pub state: RolloutPhase,
    /// It may move now: its values have been checked.
    pub may_move: bool,
    /// It belongs to those that move first.
    pub is_canary: bool,
    /// It is ready now. One that is not moves last.
    pub is_ready: bool,
}

/// Where a roll-out is as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All have the new chart that may have it.
    Complete,
    /// Some still move.
    Progressing,
    /// The policy says so.
    Paused,
    /// Too many have failed, and no further one moves.
    Stopped,
    /// Too many have failed, and all return to the chart before.
    RollBack,
}

impl Phase {
    /// Its word in a status.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::Stopped => "Stopped",
            Self::RollBack => "RolledBack",
        }
    }
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<K> {
    /// Where the roll-out is.
    pub phase: Phase,
    /// These move now.
    pub go: Vec<K>,
    /// When time alone changes something: seconds since 1970.
    pub look_at: Option<i64>,
}

/// Decides the next action. Times are in seconds since 1970.
pub fn decide<K: Clone + Ord>(policy: &Rollout, members: &[RolloutMember<K>], now: i64) -> Decision<K> {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let mut times = Vec::new();
    let (mut failed, mut tried, mut busy, mut canaries_busy) = (0, 0, 0, false);
    let mut waiting: Vec<&RolloutMember<K>> = Vec::new();
    for member in members {
        let until = match &member.state {
            RolloutPhase::Waits => {
                waiting.push(member);
                continue;
            }
            RolloutPhase::Left(_) => continue,
            RolloutPhase::Failed(_) => {
                failed += 1;
                continue;
            }
            RolloutPhase::Moves(since) | RolloutPhase::Tries(since) => since.saturating_add(seconds(policy.deadline)),
            RolloutPhase::Ready(since) => since.saturating_add(seconds(policy.pause)),
        };
        let moves = matches!(member.state, RolloutPhase::Moves(_) | RolloutPhase::Tries(_));
        if moves && until <= now {
            failed += 1;
        } else if until > now {
            tried += usize::from(matches!(member.state, RolloutPhase::Tries(_)));
            times.push(until);
            busy += 1;
            canaries_busy |= member.is_canary;
        }
    }
    let decided = |phase, go: Vec<K>| {
        // Custom resources that move now are checked again when they are late.
        let new = (!go.is_empty()).then(|| now.saturating_add(seconds(policy.deadline)));
        Decision { phase, go, look_at: times.iter().copied().chain(new).min() }
    };
    if failed > policy.max_failures {
        // Once no custom resource waits, the roll-out is over, and later failures do not count.
        let goes_back = policy.on_failure == OnFailure::RollBack && !waiting.is_empty();
        let phase = if goes_back { Phase::RollBack } else { Phase::Stopped };
        return decided(phase, Vec::new());
    }
    if waiting.is_empty() && !members.iter().any(|m| matches!(m.state, RolloutPhase::Moves(_) | RolloutPhase::Tries(_)))
    {
        return decided(Phase::Complete, Vec::new());
    }
    if policy.paused {
        return decided(Phase::Paused, Vec::new());
    }
    // One that may fail holds the others until it is known.
    if failed + tried > policy.max_failures {
        return decided(Phase::Progressing, Vec::new());
    }
    let canaries_wait = waiting.iter().any(|member| member.is_canary);
    if policy.canary.is_some() && (canaries_wait || canaries_busy) {
        waiting.retain(|member| member.is_canary);
    }
    waiting.sort_by(|a, b| (!a.is_ready, &a.key).cmp(&(!b.is_ready, &b.key)));
    let free = policy.max_concurrent.saturating_sub(busy);
    let may_move = waiting.into_iter().filter(|member| member.may_move);
    decided(Phase::Progressing, may_move.take(free).map(|member| member.key.clone()).collect())
}

/// The report of a roll-out: the phase, the number of custom resources in each state, and the first that failed or
/// remain.
pub fn report<K: std::fmt::Display>(
    chart: &str,
    members: &[RolloutMember<K>],
    phase: Phase,
    policy: &Rollout,
    now: i64,
) -> Value {
    let mut counts = [0_usize; 5];
    let (mut failed, mut left) = (Vec::new(), Vec::new());
    for member in members {
        let name = &member.key;
        let late = |since: i64| {
            let deadline = i64::try_from(policy.deadline.as_secs()).unwrap_or(i64::MAX);
            since.saturating_add(deadline) <= now
        };
        let place = match &member.state {
            RolloutPhase::Waits => 0,
            RolloutPhase::Moves(since) | RolloutPhase::Tries(since) if late(*since) => {
                failed.push(format!("{name}: not ready after {} s", policy.deadline.as_secs()));
                3
            }
            RolloutPhase::Moves(_) | RolloutPhase::Tries(_) => 1,
            RolloutPhase::Ready(_) => 2,
            RolloutPhase::Failed(why) => {
                failed.push(format!("{name}: {why}"));
                3
            }
            RolloutPhase::Left(why) => {
                left.push(format!("{name}: {why}"));
                4
            }
        };
        counts[place] += 1;
    }
    failed.sort();
    left.sort();
    let [waiting, moving, ready, has_failed, is_left] = counts;
    let mut value = json!({"chart": chart, "phase": phase.word(), "total": members.len(), "waiting": waiting, "moving": moving,
        "ready": ready, "failed": has_failed, "left": is_left});
    for (field, mut names) in [("failures", failed), ("leftOut", left)] {
        names.truncate(MAX_NAMES);
        if !names.is_empty() {
            value[field] = names.into();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::{Decision, Phase, RolloutMember, RolloutPhase, decide, report};
    use crate::kind::rollout::Rollout;
    use serde_json::json;

    fn policy(fields: &serde_json::Value) -> Rollout {
        Rollout::read(fields).unwrap().unwrap()
    }

    fn members(states: &[(&'static str, RolloutPhase)]) -> Vec<RolloutMember<&'static str>> {
        let member = |(key, state): &(&'static str, RolloutPhase)| RolloutMember {
            key: key.trim_start_matches('*').trim_end_matches(['!', '?']),
            may_move: !key.ends_with('?'),
            state: state.clone(),
            is_canary: key.starts_with('*'),
            is_ready: !key.ends_with('!'),
        };
        states.iter().map(member).collect()
    }

    fn failed() -> RolloutPhase {
        RolloutPhase::Failed("no".into())
    }

    #[test]
    fn who_moves_next() {
        use RolloutPhase::{Left, Moves, Ready, Tries, Waits};
        let one = json!({});
        let two = json!({"maxConcurrent": 2});
        let canary = json!({"maxConcurrent": 2, "canary": {"matchLabels": {"a": "b"}}, "pause": "60s"});
        for (policy_of, states, phase, go, look_at) in [
            (&one, vec![("a", Waits), ("b", Waits)], Phase::Progressing, vec!["a"], Some(1600)),
            (&one, vec![("a", Moves(1000)), ("b", Waits)], Phase::Progressing, vec![], Some(1600)),
            (&one, vec![("a", Ready(900)), ("b", Waits)], Phase::Progressing, vec!["b"], Some(1600)),
            (&one, vec![("a", Ready(900)), ("b", Ready(900))], Phase::Complete, vec![], None),
            // One that remains does not prevent completion.
            (&one, vec![("a", Ready(900)), ("b", Left("x".into()))], Phase::Complete, vec![], None),
            // One failure stops, unless it may fail.
            (&two, vec![("a", failed()), ("b", Waits), ("c", Moves(990))], Phase::Stopped, vec![], Some(1590)),
            // One that may fail holds the others, unless its failure is allowed.
            (&two, vec![("a", Tries(990)), ("b", Waits)], Phase::Progressing, vec![], Some(1590)),
            (
                &json!({"maxFailures": 1, "maxConcurrent": 2}),
                vec![("a", Tries(990)), ("b", Waits)],
                Phase::Progressing,
                vec!["b"],
                Some(1590),
            ),
            // A custom resource that is late has failed.
            (&two, vec![("a", Moves(400)), ("b", Waits)], Phase::Stopped, vec![], None),
            // One that is not ready before its move moves last.
            (&two, vec![("a!", Waits), ("b", Waits), ("c", Waits)], Phase::Progressing, vec!["b", "c"], Some(1600)),
            // One whose values are not checked yet waits, and the others wait for such a canary.
            (&two, vec![("a?", Waits), ("b", Waits)], Phase::Progressing, vec!["b"], Some(1600)),
            (&canary, vec![("a", Waits), ("*b?", Waits)], Phase::Progressing, vec![], None),
            // Canaries first; the others wait until they have been ready for a minute.
            (&canary, vec![("a", Waits), ("*b", Waits), ("*c", Waits)], Phase::Progressing, vec!["b", "c"], Some(1600)),
            (
                &canary,
                vec![("a", Waits), ("*b", Ready(900)), ("*c", Moves(990))],
                Phase::Progressing,
                vec![],
                Some(1590),
            ),
            (
                &canary,
                vec![("a", Waits), ("*b", Ready(900)), ("*c", Ready(980))],
                Phase::Progressing,
                vec![],
                Some(1040),
            ),
            (
                &canary,
                vec![("a", Waits), ("*b", Ready(900)), ("*c", Ready(940))],
                Phase::Progressing,
                vec!["a"],
                Some(1600),
            ),
            // A canary that is left does not hold the others.
            (&canary, vec![("a", Waits), ("*b", Left("x".into()))], Phase::Progressing, vec!["a"], Some(1600)),
            (&json!({"paused": true}), vec![("a", Waits)], Phase::Paused, vec![], None),
            (&json!({"onFailure": "RollBack"}), vec![("a", Waits), ("b", failed())], Phase::RollBack, vec![], None),
            (
                &json!({"maxFailures": 1}),
                vec![("a", Waits), ("b", failed())],
                Phase::Progressing,
                vec!["a"],
                Some(1600),
            ),
        ] {
            let decision = decide(&policy(policy_of), &members(&states), 1000);
            assert_eq!(decision, Decision { phase, go, look_at }, "{states:?}");
        }
    }

    #[test]
    fn a_report_counts_all_and_names_a_few() {
        let mut all = members(&[
            ("w", RolloutPhase::Waits),
            ("m", RolloutPhase::Moves(999)),
            ("r", RolloutPhase::Ready(1)),
            ("late", RolloutPhase::Moves(1)),
        ]);
        let more: Vec<String> = (10..30).map(|n| format!("x{n}")).collect();
        let mut all: Vec<RolloutMember<String>> = all
            .drain(..)
            .map(|m| RolloutMember {
                key: m.key.to_owned(),
                state: m.state,
                may_move: true,
                is_canary: false,
                is_ready: true,
            })
            .collect();
        all.extend(more.into_iter().map(|key| RolloutMember {
            key,
            state: failed(),
            may_move: true,
            is_canary: false,
            is_ready: false,
        }));
        let said = report("web-2", &all, Phase::Stopped, &policy(&json!({"deadline": "60s"})), 1000);
        assert_eq!(said["failed"], 21);
        assert_eq!(
            (&said["total"], &said["waiting"], &said["moving"], &said["ready"]),
            (&json!(24), &json!(1), &json!(1), &json!(1))
        );
        assert_eq!(said["failures"].as_array().unwrap().len(), 10);
        assert_eq!(said["failures"][0], "late: not ready after 60 s");
        assert_eq!(said.get("leftOut"), None);
    }
}
