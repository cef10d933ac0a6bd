//! The decisions of a driver. The driver acts on its application; the operator acts on the StatefulSet.

use std::future::Future;
use std::time::Duration;

use super::workload::{Latch, Workload, WorkloadTarget};

/// The single step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStep<A> {
    /// Nothing: everything is as it should be.
    Quiet,
    /// Nothing yet.
    Wait {
        /// The condition that the pass waits for, in words.
        why: String,
        /// When to look again if no event arrives earlier.
        after: Duration,
    },
    /// Nothing except a condition. Passes continue to observe, and the first pass that finds the problem solved
    /// continues: a quorum may return without help.
    Stop {
        /// The reason of the condition, such as `QuorumLost`.
        reason: &'static str,
        /// The fault, and the remedy.
        why: String,
    },
    /// Store this latch in the status, and do nothing else.
    Latch(Latch),
    /// Set the number of replicas of the StatefulSet. [`Latch::replicas`] is written first, so that a pass that finds
    /// fewer replicas knows that another client has lowered them.
    Scale(u32),
    /// Run only the pod of this ordinal. [`MemberStep::Scale`] ends this.
    Only(u32),
    /// Delete a claim, but only the one with this uid.
    DeleteClaim {
        /// Its name.
        name: std::sync::Arc<str>,
        /// Its uid.
        uid: Box<str>,
    },
    /// Delete a pod, but only the one with this uid. The pod is broken, so disruption budgets do not count.
    DeletePod {
        /// Its ordinal.
        ordinal: u32,
        /// Its uid.
        uid: Box<str>,
    },
    /// Evict a pod, so that it is recreated from the current template. Disruption budgets count.
    EvictPod {
        /// Its ordinal.
        ordinal: u32,
        /// Its uid.
        uid: Box<str>,
    },
    /// Give a pod its role by a label, by which Services select it; `None` removes the label.
    LabelPod {
        /// Its ordinal.
        ordinal: u32,
        /// Its uid.
        uid: Box<str>,
        /// The role.
        role: Option<&'static str>,
    },
    /// Carry out an action of the driver.
    Act(A),
    /// Carry out an action of the driver, and store this latch in the status when it is done. After a crash in between,
    /// the action is repeated.
    ActThen {
        /// The action.
        action: A,
        /// The latch.
        latch: Latch,
    },
}

impl<A> MemberStep<A> {
    /// The same step for another type of actions.
    pub fn map<B>(self, other: impl FnOnce(A) -> B) -> MemberStep<B> {
        match self {
            Self::Quiet => MemberStep::Quiet,
            Self::Wait { why, after } => MemberStep::Wait { why, after },
            Self::Stop { reason, why } => MemberStep::Stop { reason, why },
            Self::Latch(latch) => MemberStep::Latch(latch),
            Self::Scale(replicas) => MemberStep::Scale(replicas),
            Self::Only(ordinal) => MemberStep::Only(ordinal),
            Self::DeleteClaim { name, uid } => MemberStep::DeleteClaim { name, uid },
            Self::DeletePod { ordinal, uid } => MemberStep::DeletePod { ordinal, uid },
            Self::EvictPod { ordinal, uid } => MemberStep::EvictPod { ordinal, uid },
            Self::LabelPod { ordinal, uid, role } => MemberStep::LabelPod { ordinal, uid, role },
            Self::Act(action) => MemberStep::Act(other(action)),
            Self::ActThen { action, latch } => MemberStep::ActThen { action: other(action), latch },
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action is done, or was done before.
    Done,
    /// Not now: the pass has to ask again.
    Wait {
        /// The condition that the action waits for, in words.
        why: String,
        /// When to ask again.
        after: Duration,
    },
    /// The application does not allow it, for example to protect a quorum.
    Refused(String),
    /// The outcome is unknown: the action may have happened, or may still happen. The next observation will show it.
    Indeterminate(String),
    /// It cannot work until somebody changes something.
    Fatal(String),
}

/// An application whose members have to be announced before they are added and removed.
///
/// A pass calls [`observe`](Self::observe), then [`decide`](Self::decide) and, if the decision requires it,
/// [`act`](Self::act). Then it ends.
pub trait MemberDriver: Send + Sync {
    /// The application's report about itself.
    type Observed: Send;
    /// The actions on the application.
    type Action: Send;

    /// Asks the application. Members that do not answer are part of the result. This never fails, and ends within
    /// seconds.
    fn observe(&self, workload: &Workload, latch: &Latch) -> impl Future<Output = Self::Observed> + Send;

    /// Decides what to do now, by its arguments only. `now` is in seconds since 1970.
    fn decide(
        &self,
        workload: &Workload,
        observed: &Self::Observed,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Self::Action>;

    /// Carries out an action. Every call has a deadline; a call that passes it is [`ActionOutcome::Indeterminate`].
    fn act(&self, action: Self::Action) -> impl Future<Output = ActionOutcome> + Send;

    /// Describes an action in words, for the plan in the status.
    fn describe(&self, action: &Self::Action) -> String;
}
