//! Members that sleep: none of them has a pod, and their volumes stay. What all drivers have in common.

use std::time::Duration;

use super::driver::MemberStep;
use super::workload::{Latch, Mode, Workload, WorkloadTarget};

/// When to look at pods that end again, if no event arrives.
const SOON: Duration = Duration::from_secs(1);

/// The next step of members that sleep or wake. Returns `None` if they are awake, and as long as they are to fall asleep and still have
/// replicas: the driver ends their work first.
pub fn sleeping<A, O: Clone>(
    workload: &Workload,
    target: &WorkloadTarget,
    latch: &Latch<O>,
) -> Option<MemberStep<A, O>> {
    let before = latch.asleep?;
    Some(match (target.asleep, workload.replicas) {
        (true, 0) => match workload.pods.keys().next() {
            Some(ordinal) => MemberStep::Wait { why: format!("{}-{ordinal} to end", workload.name), after: SOON },
            None => MemberStep::Quiet,
        },
        (true, _) => return None,
        (false, replicas) if replicas < before && target.mode == Mode::Run => MemberStep::Scale(before),
        (false, replicas) if replicas < before => MemberStep::Quiet,
        (false, _) => MemberStep::Latch(Latch { asleep: None, ..latch.clone() }),
    })
}

/// The latch of members that fall asleep: the number to which they return.
pub fn falling_asleep<O: Clone>(workload: &Workload, latch: &Latch<O>) -> Latch<O> {
    Latch { asleep: Some(workload.replicas), ..latch.clone() }
}

/// Whether members are to fall asleep now: no other change of them is allowed to be under way.
pub fn falls_asleep(workload: &Workload, target: &WorkloadTarget) -> bool {
    target.asleep && target.mode == Mode::Run && workload.replicas > 0
}
