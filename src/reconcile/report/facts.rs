//! The facts that all reports depend on.

use super::done::Done;
use crate::plan::Verb;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;
use crate::release::secret::Revision;

/// After this many failed passes in a row, with pauses of half a minute between them, the status reports an outage of
/// the API server, or of an aggregated server: a server of an aggregated API may be down for good.
const LASTING: u32 = 6;

/// Whether an error is not reported: the next pass has newer observations, or the API server has failed, but not for
/// long yet.
pub fn is_passing(observed: &Observed, error: &Error, ctx: &Context) -> bool {
    error.is_stale() || error.is_outage() && ctx.queue.failures(&observed.key) < LASTING
}

/// The newest revision at the end of the pass.
pub fn newest(observed: &Observed, ctx: &Context) -> Option<Revision> {
    ctx.cache.history(&observed.owner.release_namespace, &observed.owner.release_name).pop()
}

/// Whether a repair had nothing to do: `helm test` rewrites a record and changes nothing.
pub fn is_idle(done: &Done) -> bool {
    done.applied.verb == Verb::Repair && done.applied.changed.is_empty() && done.applied.pruned == 0
}

/// The changes of a repair; empty if there are none.
pub fn repaired(done: &Done) -> String {
    let changed: Vec<String> = done.applied.changed.iter().take(5).map(ToString::to_string).collect();
    let mut texts = Vec::new();
    if !changed.is_empty() {
        texts.push(format!("repaired: {}", changed.join(", ")));
    }
    if done.applied.pruned > 0 {
        texts.push(format!("removed: {} objects that the release does not have", done.applied.pruned));
    }
    texts.join("; ")
}
