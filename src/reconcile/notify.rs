//! Events about a custom resource.

use super::context::Context;
use super::observed::Observed;
use crate::cluster::events::Event;
use crate::object::conditions::{Conditions, bound};

/// Whether the status does not report this yet. So a failure that repeats causes only one event.
pub fn is_news(observed: &Observed, reason: &str, message: &str) -> bool {
    let message = bound(message);
    !Conditions::of(&observed.cr.status()).iter().any(|c| c.reason() == reason && c.message() == message)
}

/// Sends an event about a custom resource. The note must not contain secrets: it is the operator's own text, or a text
/// from [`Context::show`].
pub fn event(observed: &Observed, ctx: &Context, warning: bool, reason: &'static str, note: String) {
    ctx.events.send(Event {
        gvk: observed.owner.gvk.clone(),
        namespace: observed.key.namespace.to_string(),
        name: observed.key.name.to_string(),
        uid: observed.cr.uid.to_string(),
        warning,
        reason,
        note,
    });
}
