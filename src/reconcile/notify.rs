//! Events about a custom resource.

use serde_json::Value;

use super::context::Context;
use super::observe::observed::Observed;
use crate::cluster::events::Event;

/// Whether the status does not report this yet. So a failure that repeats causes only one event.
pub fn is_news(observed: &Observed, reason: &str, message: &str) -> bool {
    let status = observed.cr.status();
    let conditions = status.get("conditions").and_then(Value::as_array);
    let message = crate::plan::status::bound(message);
    !conditions.into_iter().flatten().any(|c| {
        c.get("reason").and_then(Value::as_str) == Some(reason)
            && c.get("message").and_then(Value::as_str) == Some(message.as_str())
    })
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
