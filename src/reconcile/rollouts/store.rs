//! Keeps charts in Secrets, and reads them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::chart::{ChartLimits, SchemaDocuments, load_archive};
use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::names;
use crate::object::ObjectId;
use crate::reconcile::blocking::off;
use crate::reconcile::charts::{Loaded, Served};
use crate::reconcile::context::Context;
use crate::release::kept_chart::{self, Kept};

/// Charts that no custom resource has, and that are kept all the same, because one can be pinned to them.
const SPARE: usize = 3;

/// Writes the newest chart of a kind to Secrets, loads the others that are kept, and deletes those that no custom
/// resource needs.
///
/// # Errors
/// Why not, in a sentence.
pub async fn keep(
    ctx: &Context,
    namespace: &str,
    kind: usize,
    served: &Served,
    target: &Arc<Loaded>,
) -> Result<(), String> {
    let said = |error: ApiError| error.to_string();
    let gvk = served.gvk();
    let secrets = Resource::secrets();
    let mut found =
        kept_chart::read(&ctx.cluster.list(&secrets, namespace, &kept_chart::selector(gvk)).await.map_err(said)?);
    if !found.iter().any(|kept| kept.digest == target.digest && kept.archive.is_some()) {
        let archive = target.archive().ok_or("the chart cannot be packed")?;
        let label = format!("{}-{}", target.chart.metadata.name, target.chart.metadata.version);
        for body in kept_chart::secrets(gvk, namespace, &target.digest, &label, &archive)? {
            let id = id(namespace, body["metadata"]["name"].as_str().unwrap_or_default());
            match ctx.cluster.create(&secrets, &id, &body, Returned::Metadata).await {
                Err(error) if !error.is_conflict() => return Err(error.to_string()),
                _ => {}
            }
        }
    }
    let is_target_withdrawn = found.iter().any(|kept| kept.digest == target.digest && kept.withdrawn);
    found.retain(|kept| kept.digest != target.digest);
    collect(ctx, namespace, kind, served, &mut found).await?;
    let mut others = Vec::new();
    let mut withdrawn: BTreeSet<String> = BTreeSet::new();
    if is_target_withdrawn {
        withdrawn.insert(target.digest.clone());
    }
    for kept in found {
        if kept.withdrawn {
            withdrawn.insert(kept.digest.clone());
        }
        match load(kept, Arc::clone(&target.chart.schema_documents)).await {
            Ok(loaded) => others.push(Arc::new(loaded)),
            Err(why) => tracing::warn!(kind = %gvk, why, "a kept chart cannot be used"),
        }
    }
    served.set_kept(target, others, withdrawn);
    Ok(())
}

/// Deletes the charts that no release has, but for the newest of them.
async fn collect(
    ctx: &Context,
    namespace: &str,
    kind: usize,
    served: &Served,
    found: &mut Vec<Kept>,
) -> Result<(), String> {
    // Before all releases are known, each chart may be in use.
    if !ctx.cache.is_history_synced() || !ctx.cache.is_kind_synced(kind) {
        return Ok(());
    }
    let of_release =
        |key| ctx.cache.revisions(&key, &ctx.cache.release_of(&key)).0.last().and_then(|newest| newest.chart.clone());
    let used: BTreeSet<Box<str>> = ctx.cache.keys_of(kind).into_iter().filter_map(of_release).collect();
    let unused: Vec<String> =
        found.iter().map(|kept| kept.digest.clone()).filter(|digest| !used.contains(&**digest)).collect();
    for digest in unused.iter().take(unused.len().saturating_sub(SPARE)) {
        let parts = found.iter().find(|kept| kept.digest == *digest).map_or(0, |kept| kept.parts);
        for part in 0..parts {
            let id = id(namespace, &kept_chart::name(served.gvk(), digest, part));
            ctx.cluster.delete(&Resource::secrets(), &id, None, false).await.map_err(|e| e.to_string())?;
        }
        found.retain(|kept| kept.digest != *digest);
    }
    Ok(())
}

/// Loads a kept chart. Others may have written the Secret: it must be the chart that its name says.
async fn load(kept: Kept, documents: Arc<SchemaDocuments>) -> Result<Loaded, String> {
    let Kept { digest, archive, .. } = kept;
    let archive = archive.ok_or_else(|| format!("parts of chart {digest} are missing"))?;
    let load = move || {
        let mut chart = load_archive(&archive, &ChartLimits::default()).map_err(|e| e.to_string())?;
        chart.refer_to(&documents);
        let loaded = Loaded::new(chart);
        if loaded.digest == digest { Ok(loaded) } else { Err(format!("its digest is {}, not {digest}", loaded.digest)) }
    };
    off(load).await.unwrap_or_else(|_| Err("internal error".to_owned()))
}

/// Marks a chart as failed.
///
/// # Errors
/// Those of the request.
pub async fn withdraw(
    ctx: &Context,
    namespace: &str,
    served: &Served,
    target: &Loaded,
    why: &Value,
) -> Result<(), ApiError> {
    annotate(ctx, namespace, served, target, names::WITHDRAWN, &why.to_string()).await
}

/// Sets an annotation of the Secret of a chart.
///
/// # Errors
/// Those of the request.
pub async fn annotate(
    ctx: &Context,
    namespace: &str,
    served: &Served,
    target: &Loaded,
    name: &str,
    text: &str,
) -> Result<(), ApiError> {
    let id = id(namespace, &kept_chart::name(served.gvk(), &target.digest, 0));
    let patch = json!({"metadata": {"annotations": {name: text}}});
    ctx.cluster.merge::<Value>(&Resource::secrets(), &id, &patch, None).await.map(drop)
}

fn id(namespace: &str, name: &str) -> ObjectId {
    ObjectId { gvk: Resource::secrets().gvk.clone(), namespace: Some(namespace.into()), name: name.into() }
}
