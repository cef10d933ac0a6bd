//! Says how far a roll-out is: in the Secret of the chart, and in the status of the definition, if the kind has one.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Memory, REPORT_EVERY, RETRY, store};
use crate::cluster::discovery::Resource;
use crate::definition;
use crate::names;
use crate::object::ObjectId;
use crate::reconcile::charts::{Loaded, Served};
use crate::reconcile::context::Context;

/// Writes a report that differs from the last one, at most once in a while; when to write it otherwise.
pub async fn write(
    ctx: &Context,
    namespace: &str,
    served: &Served,
    target: &Loaded,
    report: Value,
    memory: &mut Memory,
) -> Option<Instant> {
    let phase = |report: &Value| report["phase"].clone();
    if let Some((last, at)) = &memory.written {
        if *last == report {
            return None;
        }
        let due = *at + REPORT_EVERY;
        if phase(last) == phase(&report) && due > Instant::now() {
            return Some(due);
        }
    }
    if memory.written.as_ref().is_none_or(|(last, _)| phase(last) != phase(&report)) {
        tracing::info!(kind = %served.gvk(), phase = report["phase"].as_str(), chart = report["chart"].as_str(), failed = %report["failed"], "roll-out");
    }
    let mut written = store::annotate(ctx, namespace, served, target, names::ROLLOUT, &report.to_string()).await;
    if written.is_ok()
        && let Some(name) = &served.definition
    {
        let gvk = definition::gvk();
        let id = ObjectId { gvk: gvk.clone(), namespace: None, name: name.as_str().into() };
        let resource = Resource { gvk, plural: definition::PLURAL.into(), namespaced: false };
        // A merge keeps fields that the last report had and this one has not.
        let mut whole = report.clone();
        for field in ["failures", "leftOut", "withdrawn"] {
            if whole.get(field).is_none() {
                whole[field] = Value::Null;
            }
        }
        let patch = json!({"status": {"rollout": whole}});
        written = ctx.cluster.merge::<Value>(&resource, &id, &patch, Some("status")).await.map(drop);
    }
    if let Err(error) = written {
        tracing::warn!(kind = %served.gvk(), %error, "the progress of a roll-out cannot be written");
        return Some(Instant::now() + RETRY);
    }
    memory.written = Some((report, Instant::now()));
    None
}
