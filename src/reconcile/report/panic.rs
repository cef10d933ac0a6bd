//! Reports what a pass cannot report itself: that it panicked, or does not begin.

use std::cell::RefCell;

use serde_json::{Value, json};

use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::events::Event;
use crate::object::ObjectId;
use crate::plan::status;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::panics::caught;

thread_local! {
    /// The place of this thread's last panic.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Reports that a pass over a custom resource panicked or does not begin: by an event, and in the conditions `Ready` and
/// `Irreconcilable`. The report itself may panic for the same reason, which is caught.
pub async fn report(key: &ReleaseKey, error: &Error, ctx: &Context) {
    let (served, message) = (ctx.kinds.get(key.kind), error.to_string());
    let gvk = served.gvk();
    tracing::error!(kind = %gvk.kind, namespace = %key.namespace, name = %key.name, reason = error.reason(), %message, "pass failed");
    let telling = async {
        let Some(cr) = ctx.cache.cr(key) else { return };
        ctx.events.send(Event {
            gvk: gvk.clone(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: cr.uid.to_string(),
            warning: true,
            reason: error.reason(),
            note: message.clone(),
        });
        let old = cr.status();
        let mut new = old.clone();
        let now = format!("{:.0}", jiff::Timestamp::now());
        status::panicked(&mut new, cr.generation, &now, error.reason(), &message);
        let Some(patch) = status::patch(&old, &new) else { return };
        let Some(resource) = ctx.discovery.cached(gvk) else { return };
        let namespace = (!key.namespace.is_empty()).then(|| key.namespace.clone());
        let id = ObjectId { gvk: gvk.clone(), namespace, name: key.name.clone() };
        let patch: Value = json!({"metadata": {"uid": &*cr.uid}, "status": patch});
        match ctx.cluster.merge::<CrObject>(&resource, &id, &patch, Some("status")).await {
            Ok(answer) => {
                if let Some(cr) = Cr::read(answer, &ctx.allow(key)) {
                    ctx.enter_cr(key.clone(), cr);
                }
            }
            Err(error) => tracing::debug!(%error, "could not write into the status why a pass ended"),
        }
    };
    let _ = caught(telling).await;
}
