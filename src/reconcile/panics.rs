//! Panics: of a pass they are a failure of its custom resource, of a task they are the end of the process. Where one was is told; what it
//! says is not, since it may hold values.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo};

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{Context, Error};
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::events::Event;
use crate::plan::status;
use crate::release::object::ObjectId;

thread_local! {
    /// Where the last panic of this thread was.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on the log has the place of each panic. The default writes what a panic says past the log and its masks.
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let place = place(panic);
        // Text that was written in the source. What is made of values is another type.
        let what = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("what it says is not shown");
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => backtrace.to_string(),
            _ => String::new(),
        };
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(place, what, thread, backtrace, "panic: a fault of the operator");
        PLACE.with_borrow_mut(|last| *last = place);
    }));
}

/// File, line and column; of a file of another crate only the part that is the same everywhere.
fn place(panic: &PanicHookInfo<'_>) -> String {
    let Some(location) = panic.location() else { return "an unknown place".to_owned() };
    let file = location.file();
    let file =
        file.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/')).map_or(file, |(_, rest)| rest);
    format!("{file}:{}:{}", location.line(), location.column())
}

/// Runs a future to its end; an error with the place when it panics.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    // Locks are taken whatever panicked while it held them, and what they guard is whole after each statement.
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| {
        let place = PLACE.with_borrow_mut(std::mem::take);
        if place.is_empty() { "an unknown place".to_owned() } else { place }
    })
}

/// Says of a custom resource that a pass over it panicked: an event, and the conditions `Ready` and `Irreconcilable`. That may panic
/// again, of the same cause.
pub async fn report(key: &ReleaseKey, error: &Error, ctx: &Context) {
    let (gvk, message) = (ctx.kinds[key.kind].gvk(), error.to_string());
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
                if let Some(cr) = Cr::read(answer, ctx.allow(key)) {
                    ctx.cache.put_cr(key.clone(), cr);
                }
            }
            Err(error) => tracing::debug!(%error, "the panic could not be written into the status"),
        }
    };
    let _ = caught(telling).await;
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_next_future_runs() {
        assert!(caught(async { panic!("here") }).await.is_err());
        assert_eq!(caught(async { 1 }).await, Ok(1));
    }
}
