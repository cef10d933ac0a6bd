//! What the operator asks of a driver of members.

use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::ApiResource;

use super::executor::{STOPPED, SetPass};
use crate::members::document::Set;
use crate::members::progress::Doing;
use crate::members::workload::Latch;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;

/// What a driver did in a pass, when the next look is due, and what is remembered from now on.
pub type Passed = (Doing, Option<Duration>, Latch);

/// What a driver makes beside the StatefulSet: the kind, and the label whose value is the name of the release.
pub type Made = (ApiResource, &'static str);

/// A driver as the operator uses it.
pub trait Registered: Send + Sync {
    /// What it makes: a change of such an object brings a pass.
    fn makes(&self) -> Option<Made> {
        None
    }

    /// One step of one stateful set.
    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>>;

    /// The custom resource goes, and the objects of its release stay: so does what the driver made.
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
    /// Nothing is done until the document says something else.
    pub fn wrong(&self, why: String) -> Passed {
        (Doing::Stopped { reason: "InvalidMembers", why }, Some(STOPPED), self.latch.clone())
    }
}
