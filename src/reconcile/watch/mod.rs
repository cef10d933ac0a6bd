//! The watches: of objects of releases, of what releases are made from, of pods that explain, of members, of results. Each takes
//! [`Shared`]; what a watch sees goes into the cache and the queue, and never into a pass.

pub mod members;
pub mod objects;
pub mod pods;
pub mod results;
pub mod sinks;
pub mod sources;
pub mod unneeded;

use std::sync::Arc;

use super::shared::Shared;
use crate::cluster::cache::ReleaseKey;
use members::MemberWatches;
use objects::ObjectWatches;
use pods::Pods;
use results::Results;
use sources::SourceWatches;

/// All watches but those of custom resources and records, which the controller keeps.
pub struct Watching {
    /// Of the objects of releases.
    pub objects: Arc<ObjectWatches>,
    /// Of what releases are made from.
    pub sources: SourceWatches,
    /// Of the pods of workloads that are not ready.
    pub pods: Pods,
    /// Of what belongs to stateful sets with members.
    pub members: MemberWatches,
    /// Of pods with results.
    pub results: Results,
}

impl Watching {
    /// None yet.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            objects: Arc::new(ObjectWatches::new(Arc::clone(shared))),
            sources: SourceWatches::new(Arc::clone(shared)),
            pods: Pods::new(Arc::clone(shared)),
            members: MemberWatches::new(Arc::clone(shared)),
            results: Results::new(Arc::clone(shared)),
        }
    }

    /// How many watches of objects and sources run.
    pub fn count(&self) -> usize {
        self.objects.count() + self.sources.count()
    }

    /// A custom resource is gone; its release has this namespace and name.
    pub fn forget(&self, key: &ReleaseKey, release: &(Arc<str>, Arc<str>)) {
        self.pods.forget(key);
        self.members.forget(key);
        self.results.forget(release);
    }
}
