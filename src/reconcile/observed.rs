//! A release as one pass sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::observe::dependencies::Linked;
use super::observe::values::Extras;
use crate::cluster::cache::{ReleaseKey, WatchKey};
use crate::cluster::client::Cluster;
use crate::cluster::cr::Cr;
use crate::kind::ignore::Ignore;
use crate::mask::Text;
use crate::members::document::Members;
use crate::plan::operations::document::Operations;
use crate::plan::situation::{Situation, SituationFacts};
use crate::reconcile::charts::Loaded;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::memory::trusted::LeftOut;
use crate::release::owner::Owner;
use crate::release::record::{Record, RecordError};
use crate::release::secret::Revision;
use crate::release::status_fields::StatusFields;
use crate::render::Capabilities;

/// A release as one pass observes it.
pub struct Observed {
    /// Which release.
    pub key: ReleaseKey,
    /// Its custom resource.
    pub cr: Arc<Cr>,
    /// The custom resource as the owner of objects.
    pub owner: Owner,
    /// The API server, with the rights that the release is handled with.
    pub cluster: Cluster,
    /// The values in its spec, with the kind's `overrideValues` merged over them.
    pub values: Map<String, Value>,
    /// Other sources of values.
    pub extras: Extras,
    /// Its needs from other custom resources.
    pub linked: Linked,
    /// Its chart, if the chart can be used.
    pub chart: Option<Arc<Loaded>>,
    /// Fields that the operator leaves to others.
    pub ignored: Vec<Ignore>,
    /// The capabilities of the API server.
    pub capabilities: Capabilities,
    /// The facts that decisions depend on.
    pub facts: SituationFacts,
    /// Digest of everything that an attempt depends on: the inputs and the switches.
    pub attempt: String,
    /// Milliseconds until the next attempt; 0 if the release does not pause.
    pub pause: u64,
    /// The situation of the release.
    pub situation: Situation,
    /// The newest record, if the pass needs it.
    pub record: Result<Option<Record>, Error>,
    /// The record of the revision to roll back to.
    pub target: Option<Record>,
    /// The parts of the record in use that do not count.
    pub left_out: Arc<LeftOut>,
    /// Why the newest record could not be used.
    pub corrupted: Option<RecordError>,
    /// Why the caches cannot see some of its objects.
    pub blind: Option<String>,
    /// The stateful sets with members of the newest revision.
    pub members: Option<Arc<Members>>,
    /// Whether the status would show something new, by the newest revision's document.
    pub shows_news: bool,
    /// Whether the revisions are known completely.
    pub complete: bool,
    /// Incomplete watches, of kinds that its revisions name.
    pub unwatched: BTreeSet<WatchKey>,
}

impl Observed {
    /// The operations of a revision; without a number, of the newest one.
    pub fn operations(&self, revision: Option<u64>) -> Option<Arc<Operations>> {
        let of = |r: &&Revision| revision.is_none_or(|revision| r.revision == revision);
        let revision = self.facts.history.iter().rev().find(of)?;
        revision.operations.as_deref().and_then(Operations::decode).map(Arc::new)
    }

    /// The fields of the status that the chart of a revision named; without a number, of the newest one.
    pub fn status_fields(&self, revision: Option<u64>) -> Option<Arc<StatusFields>> {
        let of = |r: &&Revision| revision.is_none_or(|revision| r.revision == revision);
        let revision = self.facts.history.iter().rev().find(of)?;
        revision.status_fields.as_deref().and_then(StatusFields::decode).map(Arc::new)
    }
}

impl Observed {
    /// Makes sure that all objects of the release are watched, even if the record existed before the custom resource.
    /// Also ends the contest over objects that others no longer change.
    pub fn follow(&self, ctx: &Context) {
        self.unwatched.iter().cloned().for_each(|watch| ctx.watching.objects.ensure_key(watch));
        ctx.memory.contests.with(&self.key, |contest, now| contest.settle(now, |id| self.situation.repairs(id)));
    }
}

impl Context {
    /// Shows a text about a release without its secrets. Until the sources of values were read, text of other authors
    /// is not shown.
    pub fn show(&self, observed: &Observed, text: &Text) -> String {
        let masks = &self.memory.masks;
        let known = observed.extras.sources.is_empty() || masks.knows_sources(&observed.key);
        if known { masks.show(&observed.key, text) } else { text.to_string() }
    }
}
