//! What a driver says is to be done. It does what concerns its application; the operator does what concerns the StatefulSet.

use std::future::Future;
use std::time::Duration;

use super::workload::{Latch, Target, Workload};

/// The one thing that a pass does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStep<A> {
    /// Nothing: it is as it should be.
    Quiet,
    /// Nothing yet.
    Wait {
        /// For what, in words.
        why: String,
        /// When to look again, when no event comes before.
        after: Duration,
    },
    /// Nothing but a condition. Passes go on looking, and the first that sees it gone goes on: a quorum may come back by itself.
    Stop {
        /// Reason of the condition, such as `QuorumLost`.
        reason: &'static str,
        /// What is wrong and what to do.
        why: String,
    },
    /// The status remembers this from now on, and nothing else.
    Latch(Latch),
    /// The StatefulSet has so many replicas from now on. [`Latch::replicas`] says so first, so that whoever finds fewer knows that it
    /// was not the operator who lowered them.
    Scale(u32),
    /// The StatefulSet has the pod of this ordinal from now on, and no other. [`MemberStep::Scale`] ends that.
    Only(u32),
    /// A claim goes, and no other than the one of this uid.
    DeleteClaim {
        /// Its name.
        name: std::sync::Arc<str>,
        /// Its uid.
        uid: Box<str>,
    },
    /// A pod goes, and no other than the one of this uid. Budgets do not count: it is broken.
    DeletePod {
        /// Its ordinal.
        ordinal: u32,
        /// Its uid.
        uid: Box<str>,
    },
    /// A pod is evicted, so that it comes back from the present template; budgets count.
    EvictPod {
        /// Its ordinal.
        ordinal: u32,
        /// Its uid.
        uid: Box<str>,
    },
    /// What the driver itself does.
    Act(A),
    /// The same, and the status remembers this once it is done. Whoever dies in between does it again.
    ActThen {
        /// What is done.
        action: A,
        /// What is remembered.
        latch: Latch,
    },
}

impl<A> MemberStep<A> {
    /// The same step of a driver whose actions are others.
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
            Self::Act(action) => MemberStep::Act(other(action)),
            Self::ActThen { action, latch } => MemberStep::ActThen { action: other(action), latch },
        }
    }
}

/// How an action came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// Done, or it was done already.
    Done,
    /// Not now: ask again.
    Wait {
        /// For what, in words.
        why: String,
        /// When to ask again.
        after: Duration,
    },
    /// The application does not allow it, such as for a quorum.
    Refused(String),
    /// Nobody knows: it may have happened, or may still happen. The next observation shows which.
    Indeterminate(String),
    /// It cannot work until somebody changes something.
    Fatal(String),
}

/// An application that must be informed before its members come and go.
///
/// A pass calls [`observe`](Self::observe), [`decide`](Self::decide) and, when that says so, [`act`](Self::act); then it ends.
pub trait MemberDriver: Send + Sync {
    /// What the application says of itself.
    type Observed: Send;
    /// What can be done to it.
    type Action: Send;

    /// Asks the application. Members that do not answer are part of the answer; it never fails, and ends within seconds.
    fn observe(&self, workload: &Workload, latch: &Latch) -> impl Future<Output = Self::Observed> + Send;

    /// What is to be done now, from nothing but the arguments. `now` is in seconds since 1970.
    fn decide(
        &self,
        workload: &Workload,
        observed: &Self::Observed,
        target: &Target,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<Self::Action>;

    /// Does it. Every call has a deadline, and one that passed is [`ActionOutcome::Indeterminate`].
    fn act(&self, action: Self::Action) -> impl Future<Output = ActionOutcome> + Send;

    /// An action in words, for the plan in the status.
    fn describe(&self, action: &Self::Action) -> String;
}
