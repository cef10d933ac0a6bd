//! Decides the next step by a list of rows: the first row that applies wins. Rows for work in progress come first, so
//! that the same row continues after a crash.

use std::time::Duration;

use super::job::{Ended, JobRun, JobState, SeenJob, Sizes};
use crate::members::document::{ScaleEvent, ScaleHook};
use crate::members::driver::MemberStep;
use crate::members::workload::{Latch, Mode, Move, MoveKind, NoFacts, Pod, Workload, WorkloadTarget};

/// Seconds until a hook that answered "not yet" is run again.
const LATER: i64 = 5;
/// Seconds until a failed hook is run again: doubling from the first pause to the last.
const FIRST_PAUSE: i64 = 5;
const LAST_PAUSE: i64 = 300;
/// When to look again if an event is lost. Normally every change causes an event.
const LOOK: Duration = Duration::from_secs(60);
/// The time for the controller of stateful sets to observe a change.
const CONTROLLER: Duration = Duration::from_secs(2);

/// The step of a pass.
pub type JobsStep = MemberStep<JobsAction, NoFacts>;

/// The latch: Jobs show themselves what has run.
pub type JobsLatch = Latch<NoFacts>;

/// The observed Jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedJobs {
    /// The Jobs that exist.
    pub jobs: Vec<SeenJob>,
    /// Why they cannot be observed, if they cannot.
    pub blind: Option<String>,
}

/// The actions of this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobsAction {
    /// Creates the Job of a run.
    Start(JobRun, Sizes),
    /// Deletes the Job of a run that a later run has replaced.
    Forget { name: String, uid: String },
}

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The StatefulSet, its pods and claims.
    pub workload: &'a Workload,
    /// The Jobs.
    pub observed: &'a ObservedJobs,
    /// The hooks of this stateful set, in order.
    pub hooks: &'a [ScaleHook],
    /// Name of the [`Set`](crate::members::document::Set).
    pub set: &'a str,
    /// The wanted state.
    pub target: &'a WorkloadTarget,
    /// The stored latch.
    pub latch: &'a JobsLatch,
    /// The current time, in seconds since 1970.
    pub now: i64,
}

/// The next step.
pub fn decide(view: &View<'_>) -> JobsStep {
    let View { workload, target, latch, .. } = view;
    if target.mode != Mode::Run {
        return MemberStep::Quiet;
    }
    if let Some(why) = &view.observed.blind {
        return MemberStep::Wait { why: why.clone(), after: LOOK };
    }
    let Some(last) = latch.replicas else { return first_look(view) };
    // The claims of members' pods belong to the members, and this has to be stored before a member leaves.
    let claims = latch.claims_with(workload, 0..last.min(workload.replicas));
    if claims != latch.claims {
        return MemberStep::Latch(JobsLatch { claims, ..(*latch).clone() });
    }
    if workload.replicas != last {
        // Somebody scaled it by hand, or a crash came between storing the latch and writing the replicas.
        return MemberStep::Scale(last);
    }
    match &latch.moving {
        Some(moving) => match moving.kind {
            MoveKind::Join => join(view, moving),
            MoveKind::Leave => leave(view, moving),
            MoveKind::Restart => restart(view, moving),
        },
        None => next(view),
    }
}

/// The step that has to precede a deletion; `Quiet` if none is left. A hook that fails or refuses blocks the
/// deletion, which cannot be undone. `since` distinguishes this custom resource from an earlier one of the same name.
pub fn before_deletion(view: &View<'_>, since: i64) -> JobsStep {
    if let Some(why) = &view.observed.blind {
        return MemberStep::Wait { why: why.clone(), after: LOOK };
    }
    let moving = Move { kind: MoveKind::Leave, ordinal: 0, since };
    let sizes = Sizes { from: view.workload.replicas, to: 0 };
    event(view, &moving, ScaleEvent::BeforeDelete, sizes).unwrap_or(MemberStep::Quiet)
}

/// No latch is stored: this is a new StatefulSet, one that was taken over, or one whose custom resource lost its
/// status.
fn first_look(view: &View<'_>) -> JobsStep {
    let View { workload, target, latch, .. } = view;
    if workload.replicas == 0
        && let Some(why) = workload.predecessor()
    {
        return MemberStep::Wait { why, after: LOOK };
    }
    let kept = workload.claims.iter().filter(|(_, claims)| !claims.is_empty()).map(|(k, _)| k + 1).max();
    match (workload.replicas, kept) {
        (0, None) => MemberStep::Latch(JobsLatch { replicas: Some(0), ..(*latch).clone() }),
        (0, Some(members)) if target.adopt_claims => {
            MemberStep::Latch(JobsLatch { replicas: Some(members), bootstrapped: true, ..(*latch).clone() })
        }
        (0, Some(_)) => MemberStep::Stop {
            reason: "OrphanedVolumes",
            why: "volume claims of earlier members exist; delete them, or set spec.volumes.onOrphan to Adopt".into(),
        },
        (replicas, _) => {
            MemberStep::Latch(JobsLatch { replicas: Some(replicas), bootstrapped: true, ..(*latch).clone() })
        }
    }
}

/// Decides if nothing is in progress.
fn next(view: &View<'_>) -> JobsStep {
    let View { workload, target, latch, now, .. } = view;
    let size = workload.replicas;
    let outdated = |pod: &Pod| workload.is_outdated(pod);
    // The next template may repair a template that cannot work, and pods of the broken one block everything else.
    let broken = workload.pods.iter().find(|(k, pod)| **k < size && !pod.ready && !pod.terminating && outdated(pod));
    if let Some((k, pod)) = broken {
        return MemberStep::DeletePod { ordinal: *k, uid: pod.uid.clone() };
    }
    let begin = |kind, ordinal| {
        let moving = Some(Move { kind, ordinal, since: *now });
        MemberStep::Latch(JobsLatch { moving, ..(*latch).clone() })
    };
    let last_outdated = workload.pods.iter().rev().find(|(k, pod)| **k < size && outdated(pod)).map(|(k, _)| *k);
    if target.size < size {
        return begin(MoveKind::Leave, size - 1);
    }
    let grows = target.size > size;
    if !grows && last_outdated.is_none() {
        return if workload.update_revision.is_empty() {
            MemberStep::Wait { why: format!("the controller of StatefulSet {}", workload.name), after: CONTROLLER }
        } else {
            MemberStep::Quiet
        };
    }
    if let Some(why) = (0..size).find_map(|k| unready(workload, k)) {
        return MemberStep::Wait { why, after: LOOK };
    }
    match last_outdated {
        _ if grows => begin(MoveKind::Join, size),
        Some(ordinal) => begin(MoveKind::Restart, ordinal),
        None => MemberStep::Quiet,
    }
}

/// Why a pod is not ready.
fn unready(workload: &Workload, ordinal: u32) -> Option<String> {
    let name = format!("pod {}-{ordinal}", workload.name);
    match workload.pods.get(&ordinal) {
        None => Some(format!("{name}: it does not exist yet")),
        Some(pod) if pod.terminating => Some(format!("{name}: it is being deleted")),
        Some(pod) if pod.ready => None,
        Some(pod) if pod.reason.is_empty() => Some(format!("{name}: it is not ready")),
        Some(pod) => Some(format!("{name}: {}", pod.reason)),
    }
}

fn join(view: &View<'_>, moving: &Move) -> JobsStep {
    let View { workload, target, latch, .. } = view;
    let k = moving.ordinal;
    if workload.replicas == k {
        if target.size <= k && !begun(view, moving, ScaleEvent::BeforeScaleUp) {
            return settled(latch);
        }
        if workload.pods.contains_key(&k) {
            return MemberStep::Wait {
                why: format!("pod {}-{k} of an earlier member to be deleted", workload.name),
                after: LOOK,
            };
        }
        if let Some(step) = clear(view, k) {
            return step;
        }
        if latch.bootstrapped
            && let Some(step) = event(view, moving, ScaleEvent::BeforeScaleUp, Sizes { from: k, to: k + 1 })
        {
            return step;
        }
        return MemberStep::Scale(k + 1);
    }
    if workload.replicas != k + 1 {
        return settled(latch);
    }
    if let Some(why) = unready(workload, k) {
        return MemberStep::Wait { why, after: LOOK };
    }
    let what = if latch.bootstrapped { ScaleEvent::AfterReady } else { ScaleEvent::Bootstrap };
    if let Some(step) = event(view, moving, what, Sizes { from: k, to: k + 1 }) {
        return step;
    }
    MemberStep::Latch(JobsLatch { bootstrapped: true, moving: None, ..(*latch).clone() })
}

/// Handles claims that an earlier member of an ordinal left.
fn clear(view: &View<'_>, k: u32) -> Option<JobsStep> {
    let View { workload, target, latch, .. } = view;
    let claims = workload.claims.get(&k).filter(|claims| !claims.is_empty())?;
    if target.adopt_claims && !target.delete_claims {
        return None;
    }
    // Unknown claims come first: the known ones are not deleted for a member that cannot join.
    let first = |known: bool| claims.iter().find(|claim| !claim.terminating && latch.knows(k, claim) == known);
    if let Some(claim) = first(false).or_else(|| first(true)) {
        if !target.delete_claims || !latch.bootstrapped || !latch.knows(k, claim) {
            let adopt =
                if target.delete_claims { "" } else { ". With volumes.onOrphan: Adopt it starts with this claim" };
            let why = format!("{}{adopt}", latch.orphan(k, claim));
            return Some(MemberStep::Stop { reason: "OrphanedVolumes", why });
        }
        return Some(MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() });
    }
    Some(MemberStep::Wait { why: format!("claim {} to go", claims[0].name), after: LOOK })
}

fn leave(view: &View<'_>, moving: &Move) -> JobsStep {
    let View { workload, target, latch, .. } = view;
    let k = moving.ordinal;
    let sizes = Sizes { from: k + 1, to: k };
    if workload.replicas == k + 1 {
        if target.size > k && !begun(view, moving, ScaleEvent::BeforeScaleDown) {
            return settled(latch);
        }
        return event(view, moving, ScaleEvent::BeforeScaleDown, sizes).unwrap_or(MemberStep::Scale(k));
    }
    if workload.replicas != k {
        return settled(latch);
    }
    if workload.pods.contains_key(&k) {
        return MemberStep::Wait { why: format!("pod {}-{k} to go", workload.name), after: LOOK };
    }
    if let Some(step) = event(view, moving, ScaleEvent::AfterGone, sizes) {
        return step;
    }
    let claims = workload.claims.get(&k).filter(|_| target.delete_claims);
    let claims = claims.into_iter().flatten().filter(|claim| latch.knows(k, claim)).collect::<Vec<_>>();
    if let Some(claim) = claims.iter().find(|c| !c.terminating) {
        return MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() };
    }
    if let Some(claim) = claims.first() {
        return MemberStep::Wait { why: format!("claim {} to go", claim.name), after: LOOK };
    }
    settled(latch)
}

fn restart(view: &View<'_>, moving: &Move) -> JobsStep {
    let View { workload, latch, .. } = view;
    let k = moving.ordinal;
    let sizes = Sizes { from: workload.replicas, to: workload.replicas };
    let pod = match workload.pods.get(&k) {
        _ if k >= workload.replicas => return settled(latch),
        Some(pod) if !pod.terminating => pod,
        _ => return MemberStep::Wait { why: format!("pod {}-{k} to come back", workload.name), after: LOOK },
    };
    if workload.update_revision.is_empty() {
        return MemberStep::Wait { why: format!("the controller of StatefulSet {}", workload.name), after: CONTROLLER };
    }
    let is_new = pod.revision == workload.update_revision;
    match unready(workload, k) {
        Some(why) if is_new => return MemberStep::Wait { why, after: LOOK },
        Some(_) => return MemberStep::DeletePod { ordinal: k, uid: pod.uid.clone() },
        None => {}
    }
    if is_new {
        return event(view, moving, ScaleEvent::AfterRestart, sizes).unwrap_or_else(|| settled(latch));
    }
    if let Some(why) = (0..workload.replicas).find_map(|other| unready(workload, other)) {
        return MemberStep::Wait { why, after: LOOK };
    }
    let evict = MemberStep::EvictPod { ordinal: k, uid: pod.uid.clone() };
    event(view, moving, ScaleEvent::BeforeRestart, sizes).unwrap_or(evict)
}

/// Ends the current move.
fn settled(latch: &JobsLatch) -> JobsStep {
    MemberStep::Latch(JobsLatch { moving: None, ..latch.clone() })
}

/// Whether a hook of an event has done something that has to be completed.
fn begun(view: &View<'_>, moving: &Move, event: ScaleEvent) -> bool {
    let of_move = |job: &&SeenJob| {
        job.run.set == view.set
            && job.run.event == event
            && job.run.ordinal == moving.ordinal
            && job.run.since == moving.since
    };
    let undone = |state: &JobState| matches!(state, JobState::Ended(Ended::Later(_) | Ended::Refused(_), _));
    view.observed.jobs.iter().filter(of_move).any(|job| !undone(&job.state))
}

/// The next step for the hooks of an event; `None` if all of them are done.
fn event(view: &View<'_>, moving: &Move, event: ScaleEvent, sizes: Sizes) -> Option<JobsStep> {
    view.hooks.iter().filter(|hook| hook.events.contains(&event)).find_map(|hook| one(view, moving, event, sizes, hook))
}

fn one(view: &View<'_>, moving: &Move, event: ScaleEvent, sizes: Sizes, hook: &ScaleHook) -> Option<JobsStep> {
    let same = |job: &&SeenJob| {
        let run = &job.run;
        run.set == view.set && run.hook == hook.name && run.event == event && run.ordinal == moving.ordinal
    };
    let jobs: Vec<&SeenJob> = view.observed.jobs.iter().filter(same).collect();
    let current = |job: &&&SeenJob| job.run.since == moving.since && job.run.digest == hook.digest;
    let newest = jobs.iter().filter(current).max_by_key(|job| job.run.attempt);
    if let Some(old) = jobs.iter().find(|job| newest.is_none_or(|newest| newest.name != job.name)) {
        if old.state == JobState::Running {
            return Some(MemberStep::Wait { why: format!("Job {}", old.name), after: LOOK });
        }
        return Some(MemberStep::Act(JobsAction::Forget { name: old.name.clone(), uid: old.uid.clone() }));
    }
    let run = |attempt| JobRun {
        set: view.set.to_owned(),
        hook: hook.name.clone(),
        event,
        ordinal: moving.ordinal,
        since: moving.since,
        attempt,
        digest: hook.digest.clone(),
    };
    let Some(job) = newest else { return Some(MemberStep::Act(JobsAction::Start(run(0), sizes))) };
    let name = &job.name;
    let again = MemberStep::Act(JobsAction::Start(run(job.run.attempt + 1), sizes));
    let failed = (FIRST_PAUSE << job.run.attempt.min(10)).min(LAST_PAUSE);
    let told = |message: &str| if message.is_empty() { String::new() } else { format!(": {message}") };
    let (ended, pause, why) = match &job.state {
        JobState::Running => return Some(MemberStep::Wait { why: format!("{event} hook, Job {name}"), after: LOOK }),
        JobState::Ended(Ended::Done, _) => return None,
        JobState::Ended(Ended::Unknown { pod_remains: true }, _) => {
            return Some(MemberStep::Wait {
                why: format!("the pod of Job {name} to be deleted: it ended without an exit code"),
                after: LOOK,
            });
        }
        JobState::Ended(Ended::Unknown { .. }, at) => {
            (at, failed, format!("{event} hook, Job {name}: it ended without an exit code"))
        }
        JobState::Ended(Ended::Later(message), at) => {
            (at, LATER, format!("{event} hook, Job {name}: not yet{}", told(message)))
        }
        JobState::Ended(Ended::Refused(message), at) => {
            (at, LAST_PAUSE, format!("{event} hook, Job {name}: refused{}", told(message)))
        }
        JobState::Ended(Ended::Failed(code, message), at) => {
            (at, failed, format!("{event} hook, Job {name}: exit code {code}{}", told(message)))
        }
    };
    let left = ended.saturating_add(pause) - view.now;
    if left <= 0 {
        return Some(again);
    }
    if matches!(job.state, JobState::Ended(Ended::Refused(_), _)) {
        return Some(MemberStep::Stop { reason: "HookRefused", why });
    }
    Some(MemberStep::Wait { why, after: Duration::from_secs(left.cast_unsigned()) })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
