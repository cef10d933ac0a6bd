//! What a driver says is to be done. It does what concerns its application; the operator does what concerns the StatefulSet.

use std::future::Future;
use std::time::Duration;

use super::workload::{Latch, Target, Workload};

/// The one thing that a pass does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<A> {
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
    /// The StatefulSet has the pod of this ordinal from now on, and no other. [`Step::Scale`] ends that.
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

impl<A> Step<A> {
    /// The same step of a driver whose actions are others.
    pub fn map<B>(self, other: impl FnOnce(A) -> B) -> Step<B> {
        match self {
            Self::Quiet => Step::Quiet,
            Self::Wait { why, after } => Step::Wait { why, after },
            Self::Stop { reason, why } => Step::Stop { reason, why },
            Self::Latch(latch) => Step::Latch(latch),
            Self::Scale(replicas) => Step::Scale(replicas),
            Self::Only(ordinal) => Step::Only(ordinal),
            Self::DeleteClaim { name, uid } => Step::DeleteClaim { name, uid },
            Self::DeletePod { ordinal, uid } => Step::DeletePod { ordinal, uid },
            Self::EvictPod { ordinal, uid } => Step::EvictPod { ordinal, uid },
            Self::Act(action) => Step::Act(other(action)),
            Self::ActThen { action, latch } => Step::ActThen { action: other(action), latch },
        }
    }
}

/// How an action came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
    /// Nobody knows: it may have happened, or may still happen. The next look tells.
    Indeterminate(String),
    /// It cannot work until somebody changes something.
    Fatal(String),
}

/// An application whose members must be told before they come and go.
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
    ) -> Step<Self::Action>;

    /// Does it. Every call has a deadline, and one that passed is [`Outcome::Indeterminate`].
    fn act(&self, action: Self::Action) -> impl Future<Output = Outcome> + Send;

    /// An action in words, for the plan in the status.
    fn describe(&self, action: &Self::Action) -> String;
}
