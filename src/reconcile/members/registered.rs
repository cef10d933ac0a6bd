//! The interface of the operator to a driver of members.

use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::ApiResource;
use serde_json::{Map, Value};

use super::executor::{STOPPED, SetPass};
use crate::members::document::Set;
use crate::members::progress::Doing;
use crate::members::workload::Latch;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;

/// The result of a pass over a stateful set.
pub struct Passed {
    /// The actions of the driver.
    pub doing: Doing,
    /// When the next look is due.
    pub after: Option<Duration>,
    /// The latch to remember.
    pub latch: Latch,
    /// The report about the application in the status ([`DETAILS`](crate::members::progress::DETAILS)); `None` if it
    /// was not asked.
    pub details: Option<Map<String, Value>>,
}

impl From<((Doing, Option<Duration>), Latch)> for Passed {
    fn from(((doing, after), latch): ((Doing, Option<Duration>), Latch)) -> Self {
        Self { doing, after, latch, details: None }
    }
}

/// The objects that a driver creates besides the StatefulSet: the kind, and the label whose value is the name of the
/// release.
pub type Made = (ApiResource, &'static str);

/// A driver as the operator uses it.
pub trait Registered: Send + Sync {
    /// The objects that the driver creates. A change of such an object triggers a pass.
    fn makes(&self) -> Option<Made> {
        None
    }

    /// Carries out one step of one stateful set.
    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>>;

    /// Called when the custom resource is deleted and the objects of its release stay. The objects that the driver
    /// created have to stay, too.
    fn leave_behind<'a>(
        &'a self,
        _observed: &'a Observed,
        _set: &'a Set,
        _ctx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

impl SetPass<'_> {
    /// Nothing is done until the document changes.
    pub fn wrong(&self, why: String) -> Passed {
        self.nothing(Doing::Stopped { reason: "InvalidMembers", why })
    }

    /// Nothing is done until something else has changed, or for as long as a condition is looked at again.
    pub fn nothing(&self, doing: Doing) -> Passed {
        let after = (doing != Doing::Nothing).then_some(STOPPED);
        Passed { doing, after, latch: self.latch.clone(), details: None }
    }
}
