//! A release as one pass sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::values::Extras;
use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::cr::Cr;
use crate::kind::ignore::Ignore;
use crate::mask::Text;
use crate::members::document::Members;
use crate::plan::operations::document::Operations;
use crate::plan::situation::{Facts, Situation};
use crate::reconcile::charts::Loaded;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::memory::trusted::LeftOut;
use crate::release::owner::Owner;
use crate::release::record::Record;
use crate::release::secret::Revision;
use crate::render::Capabilities;

/// A release as it is.
pub struct Observed {
    /// Which release.
    pub key: ReleaseKey,
    /// Its custom resource.
    pub cr: Arc<Cr>,
    /// The custom resource as the owner of objects.
    pub owner: Owner,
    /// The values of its custom resource, under the kind's `overrideValues`.
    pub values: Map<String, Value>,
    /// Further sources of values.
    pub extras: Extras,
    /// Its chart, when it can be used.
    pub chart: Option<Arc<Loaded>>,
    /// Fields that are left to others.
    pub ignored: Vec<Ignore>,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// What decisions depend on.
    pub facts: Facts,
    /// Digest of all that an attempt depends on: the inputs and the switches.
    pub attempt: String,
    /// Milliseconds until the next attempt, while it pauses.
    pub pause: u64,
    /// How it stands.
    pub situation: Situation,
    /// The newest record, when it was needed.
    pub record: Result<Option<Record>, Error>,
    /// The record of the revision that the release goes back to.
    pub target: Option<Record>,
    /// What of the record that is acted on does not count.
    pub left_out: Arc<LeftOut>,
    /// The newest record could not be read.
    pub corrupted: bool,
    /// Why the caches cannot see some of its objects.
    pub blind: Option<String>,
    /// The stateful sets with members of the newest revision.
    pub members: Option<Arc<Members>>,
    /// Whether the revisions are known completely.
    pub complete: bool,
    /// Watches that were not complete, of kinds that its revisions name.
    pub unwatched: BTreeSet<WatchKey>,
}

impl Observed {
    /// The operations of a revision, the newest one without a number.
    pub fn operations(&self, revision: Option<u64>) -> Option<Arc<Operations>> {
        let of = |r: &&Revision| revision.is_none_or(|revision| r.revision == revision);
        let revision = self.facts.history.iter().rev().find(of)?;
        revision.operations.as_deref().and_then(Operations::decode).map(Arc::new)
    }
}

impl Observed {
    /// Makes sure that what was not seen is watched, also of a release whose record was there before its custom resource; and that what
    /// others stopped to change is no longer contested.
    pub fn follow(&self, ctx: &Context) {
        self.unwatched.iter().cloned().for_each(|watch| ctx.watching.objects.ensure_key(watch));
        ctx.memory.contests.with(&self.key, |contest, now| contest.settle(now, |id| self.situation.repairs(id)));
    }
}

impl Context {
    /// A text about a release, without what is secret in it. Until its sources of values were read no text of others is shown.
    pub fn show(&self, observed: &Observed, text: &Text) -> String {
        let masks = &self.memory.masks;
        let known = observed.extras.sources.is_empty() || masks.knows_sources(&observed.key);
        if known { masks.show(&observed.key, text) } else { text.to_string() }
    }
}
