//! Carries out definitions of charts: makes the definition of each API, and serves it, without a restart.
//!
//! Definitions are handled one after the other, each when it changes, and again after a pause when something failed. At rest nothing is
//! sent. A chart that cannot be used takes no API away: what was served is served on.

mod chart;
mod config_maps;
mod one;
mod rights;
mod seen;
mod sink;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::watch::objects::{FIRST_SEARCH, LAST_SEARCH};
use crate::cluster::watch::watch;
use crate::definition;
use crate::rbac::Document;
use config_maps::ConfigMapWatches;
use seen::Seen;
use sink::DefinitionSink;

/// Pauses after failures, doubling from the first to the last.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// Pauses between two looks at rights that are missing, doubling from the first to the last.
const FIRST_LOOK: Duration = Duration::from_secs(5);
const LAST_LOOK: Duration = Duration::from_secs(600);

/// What is done about one definition.
#[derive(Default)]
struct Entry {
    /// The number of its kind, and what ends the watch of its custom resources.
    serving: Option<Serving>,
    /// When it is tried again, and the pause after that.
    retry: Option<(Instant, Duration)>,
    /// The rights that its chart needs, and when it is looked again whether the operator has them: `None` when it has.
    needed: Arc<Vec<Document>>,
    look_at: Option<(Instant, Duration)>,
}

struct Serving {
    kind: usize,
    stop: CancellationToken,
    /// What was applied and is served: the chart, the names and the policy.
    digest: String,
}

/// Which definitions are carried out, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What relative paths of charts are relative to.
    pub base: PathBuf,
    /// A label selector of definitions; empty for all.
    pub selector: String,
}

/// All definitions.
pub(super) struct Definitions {
    ctx: Arc<Context>,
    settings: Settings,
    seen: Seen,
    /// Names the definitions to look at.
    changed: mpsc::UnboundedSender<String>,
    names: mpsc::UnboundedReceiver<String>,
    entries: BTreeMap<String, Entry>,
    config_maps: ConfigMapWatches,
}

impl Definitions {
    /// None is known yet.
    pub fn new(ctx: Arc<Context>, settings: Settings) -> Self {
        let (changed, names) = mpsc::unbounded_channel();
        let (seen, entries, config_maps) = (Arc::default(), BTreeMap::new(), ConfigMapWatches::default());
        Self { ctx, settings, seen, changed, names, entries, config_maps }
    }

    /// Watches the definitions, and carries them out until the operator stops.
    pub async fn run(mut self) {
        let (selector, changed) = (self.settings.selector.clone(), self.changed.clone());
        let watching = follow(Arc::clone(&self.ctx), selector, Arc::clone(&self.seen), changed);
        let stop = self.ctx.tasks.stop().clone();
        self.ctx.tasks.base("watch of definitions of charts", watching);
        loop {
            let times = |entry: &Entry| [entry.retry.map(|(at, _)| at), entry.look_at.map(|(at, _)| at)];
            let due = self.entries.values().flat_map(times).flatten().min();
            let pause = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                name = self.names.recv() => match name {
                    Some(name) => {
                        self.config_maps.ensure(&self.seen, &self.changed, &self.ctx);
                        self.one(&name).await;
                    }
                    None => return,
                },
                () = pause => {
                    let now = Instant::now();
                    let due = |(name, entry): (&String, &Entry)| entry.retry.is_some_and(|(at, _)| at <= now).then(|| name.clone());
                    let due: Vec<String> = self.entries.iter().filter_map(due).collect();
                    for name in due {
                        self.one(&name).await;
                    }
                    let due = |(name, entry): (&String, &Entry)| entry.look_at.is_some_and(|(at, _)| at <= now).then(|| name.clone());
                    let due: Vec<String> = self.entries.iter().filter_map(due).collect();
                    for name in due {
                        self.look_at_rights(&name).await;
                    }
                }
            }
        }
    }

    /// Looks at one definition, and notes when it is looked at again.
    async fn one(&mut self, name: &str) {
        let object = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(name).cloned();
        let Some(object) = object else {
            if let Some(Entry { serving: Some(serving), .. }) = self.entries.remove(name) {
                self.end(&serving);
            }
            return;
        };
        let before = self.entries.get(name).and_then(|entry| entry.retry).map_or(FIRST_RETRY, |(_, pause)| pause);
        let is_settled = self.carry_out(name, &object).await;
        if is_settled {
            self.entries.entry(name.to_owned()).or_default().look_at = None;
            self.look_at_rights(name).await;
        }
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.retry = (!is_settled).then(|| (Instant::now() + before, (before * 2).min(LAST_RETRY)));
    }

    /// Serves the custom resources of a definition no more.
    fn end(&self, serving: &Serving) {
        serving.stop.cancel();
        self.ctx.cache.retire(serving.kind);
        tracing::info!(kind = %self.ctx.kinds.get(serving.kind).gvk(), "the definition is gone; its kind is not served any more");
    }
}

/// Watches the definitions, whenever the API server serves their kind.
async fn follow(ctx: Arc<Context>, selector: String, seen: Seen, changed: mpsc::UnboundedSender<String>) {
    let stop = ctx.tasks.stop().clone();
    let mut pause = FIRST_SEARCH;
    loop {
        match ctx.discovery.resolve(&definition::gvk()).await {
            Ok(Some(resource)) => {
                pause = FIRST_SEARCH;
                let api: Api<DynamicObject> = Api::all_with(ctx.cluster.client(), &resource.api_resource());
                let mut sink = DefinitionSink::new(Arc::clone(&seen), changed.clone());
                let selector = Some(&*selector).filter(|selector| !selector.is_empty());
                watch(api, selector, ctx.manner(), &mut sink, &stop).await;
                ctx.discovery.forget(&definition::gvk());
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "definitions of charts cannot be looked up"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_SEARCH),
        }
    }
}
