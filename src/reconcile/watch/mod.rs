//! The watches: of the objects of releases, of the objects that releases are made from, of pods that explain failures,
//! of members, of results. Each of them takes [`Shared`]. A watch writes what it sees into the cache and the queue, and
//! never into a pass.

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

/// All watches except those of custom resources and records, which the controller runs.
pub struct Watching {
    /// Watches of the objects of releases.
    pub objects: Arc<ObjectWatches>,
    /// Watches of the objects that releases are made from.
    pub sources: SourceWatches,
    /// Watches of the pods of workloads that are not ready.
    pub pods: Pods,
    /// Watches of the objects that belong to stateful sets with members.
    pub members: MemberWatches,
    /// Watches of pods with results.
    pub results: Results,
}

impl Watching {
    /// Starts without watches.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            objects: Arc::new(ObjectWatches::new(Arc::clone(shared))),
            sources: SourceWatches::new(Arc::clone(shared)),
            pods: Pods::new(Arc::clone(shared)),
            members: MemberWatches::new(Arc::clone(shared)),
            results: Results::new(Arc::clone(shared)),
        }
    }

    /// The number of running watches of objects and sources.
    pub fn count(&self) -> usize {
        self.objects.count() + self.sources.count()
    }

    /// Ends the watches for a deleted custom resource, whose release has this namespace and name.
    pub fn forget(&self, key: &ReleaseKey, release: &(Arc<str>, Arc<str>)) {
        self.pods.forget(key);
        self.members.forget(key);
        self.results.forget(release);
    }
}
