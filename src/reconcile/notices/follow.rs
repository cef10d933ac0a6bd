//! Watches notices, and finds their kind when its definition comes after the operator.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::sink::{News, NoticeSink, Seen};
use crate::cluster::discovery::Resource;
use crate::cluster::watch::{End, watch};
use crate::harm;
use crate::notices;
use crate::object::Gvk;
use crate::reconcile::context::Context;

/// Between two looks at whether the API server serves notices: doubling from the first to the last. A look is one request.
const FIRST_LOOK: Duration = Duration::from_secs(10);
const LAST_LOOK: Duration = Duration::from_secs(300);
/// Between two attempts to watch notices without the right to it: doubling from the first to the last.
const FIRST_BLIND: Duration = Duration::from_secs(10);
const LAST_BLIND: Duration = Duration::from_secs(600);

/// Watches notices whenever the API server serves their kind.
pub async fn follow(ctx: Arc<Context>, seen: Seen, news: UnboundedSender<News>) {
    let stop = ctx.tasks.stop().clone();
    let first = harm::setting("TILLERMAN_NOTICE_LOOK", FIRST_LOOK);
    let (mut pause, mut said) = (first, false);
    loop {
        if let Some(resource) = served(&ctx).await {
            let watches = ctx.cache.scopes().into_iter().map(|scope| follow_one(&ctx, &resource, scope, &seen, &news));
            futures::future::join_all(watches).await;
            ctx.discovery.forget(&notices::gvk());
            (pause, said) = (first, false);
        } else {
            if !said {
                tracing::warn!(
                    "the API server does not serve notices; waiting for their definition, deploy/notice.yaml"
                );
                said = true;
            }
            // There are none.
            for scope in ctx.cache.scopes() {
                // The receiver ends with the operator.
                let _ = news.send(News::Complete(scope));
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_LOOK.max(first)),
        }
    }
}

/// The kind, if the API server serves it. One request is sent while it does not.
async fn served(ctx: &Context) -> Option<Arc<Resource>> {
    let gvk = notices::gvk();
    if let Some(known) = ctx.discovery.cached(&gvk) {
        return Some(known);
    }
    let Gvk { group, version, .. } = &gvk;
    let found = ctx.cluster.get_path::<Value>(&format!("/apis/{group}/{version}")).await.ok()?;
    let listed = found["resources"].as_array().into_iter().flatten();
    if !listed.into_iter().any(|resource| resource["name"] == notices::PLURAL) {
        return None;
    }
    ctx.discovery.resolve(&gvk).await.ok().flatten()
}

/// Watches the notices of one namespace or of all, until the API server no longer serves their kind. An operator that
/// lacks the right asks again and again, at last seldom: notices are not what most operators are for.
async fn follow_one(
    ctx: &Context,
    resource: &Resource,
    scope: Option<Arc<str>>,
    seen: &Seen,
    news: &UnboundedSender<News>,
) {
    let stop = ctx.tasks.stop();
    let resource = resource.api_resource();
    let api: Api<DynamicObject> = match &scope {
        Some(namespace) => Api::namespaced_with(ctx.cluster.client(), namespace, &resource),
        None => Api::all_with(ctx.cluster.client(), &resource),
    };
    let mut pause = FIRST_BLIND;
    loop {
        let blind = stop.child_token();
        let mut sink = NoticeSink::new(scope.clone(), seen.clone(), news.clone(), blind.clone());
        if watch(api.clone(), None, ctx.manner(), &mut sink, &blind).await == End::Gone {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_BLIND),
        }
    }
}
