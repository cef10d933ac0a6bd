//! The actions of a pass, as the input of its report.

use crate::plan::Verb;
use crate::reconcile::apply::Applied;
use crate::reconcile::error::Error;
use crate::reconcile::members::MembersReport;
use crate::reconcile::operations::OperationsReport;

/// The actions of a pass.
pub struct Done {
    /// With the objects of the release.
    pub applied: Applied,
    /// With members.
    pub members: Result<Option<MembersReport>, Error>,
    /// With operations.
    pub operations: Result<Option<OperationsReport>, Error>,
}

impl Done {
    /// A pass that did nothing except this with the objects.
    pub fn only(applied: Applied) -> Self {
        Self { applied, members: Ok(None), operations: Ok(None) }
    }

    /// A pass that did nothing because of an error.
    pub fn stopped(error: Error) -> Self {
        Self::only(Applied { error: Some(error), ..Applied::nothing(Verb::Rest) })
    }

    /// Why the pass stopped, if it did.
    pub fn error(&self) -> Option<&Error> {
        let errors = [self.applied.error.as_ref(), self.members.as_ref().err(), self.operations.as_ref().err()];
        errors.into_iter().flatten().next()
    }

    /// The findings and actions of the pass about members.
    pub fn members(&self) -> Option<&MembersReport> {
        self.members.as_ref().ok()?.as_ref()
    }

    /// The findings and actions of the pass about operations.
    pub fn operations(&self) -> Option<&OperationsReport> {
        self.operations.as_ref().ok()?.as_ref()
    }
}
