//! Carries out definitions of charts: makes the definition of each API, and serves it, without a restart.
//!
//! A definition is handled when it changes, and again after a pause when something failed. Charts are loaded beside each other, one at a
//! time for each definition, because their servers can be slow; all other steps of all definitions follow one another. At rest nothing is
//! sent. A chart that cannot be used removes no API: the operator continues to serve the previous one.

mod chart;
mod config_maps;
mod one;
mod rights;
mod seen;
mod sink;
mod verdict;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::journal::{self, Working};
use super::watch::objects::{FIRST_SEARCH, LAST_SEARCH};
use crate::chart::Chart;
use crate::cluster::watch::watch;
use crate::definition::{self, ChartPlace, DefinitionReason};
use crate::rbac::RoleDocument;
use config_maps::ConfigMapWatches;
use seen::Seen;
use sink::DefinitionSink;
use verdict::Verdict;

/// Pauses after failures, doubling from the first to the last.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// Pauses between two looks at rights that are missing, doubling from the first to the last.
const FIRST_LOOK: Duration = Duration::from_secs(5);
const LAST_LOOK: Duration = Duration::from_secs(600);

/// The message about a chart that is no longer loaded.
const SET_ASIDE: &str =
    "the operator's process ended twice while it worked on this chart; the operator tries again when the spec changes";
/// Charts that are loaded at the same time.
const LOADS: usize = 8;

/// The work on one definition.
#[derive(Default)]
struct Entry {
    /// The number of its kind, and what ends the watch of its custom resources.
    serving: Option<Serving>,
    /// When it is tried again, and the pause after that.
    retry: Option<(Instant, Duration)>,
    /// The rights that its chart needs, and when it is looked again whether the operator has them: `None` when it has.
    needed: Arc<Vec<RoleDocument>>,
    look_at: Option<(Instant, Duration)>,
    load: Load,
}

impl Entry {
    /// When it is tried again. While its chart is being loaded, nothing else is tried.
    fn retry_at(&self) -> Option<Instant> {
        self.retry.filter(|_| self.load == Load::None).map(|(at, _)| at)
    }
}

/// Whether the chart of a definition is being loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Load {
    #[default]
    None,
    /// It is. The result counts.
    Runs,
    /// It is, for a definition that has changed since. It is loaded again afterwards.
    Outdated,
}

/// A chart that was loaded for a definition, as this object describes it.
struct Loading {
    name: String,
    object: Value,
    chart: Result<Chart, String>,
    /// The note in the journal, which ends with the value made of the chart.
    working: Option<Working>,
}

struct Serving {
    kind: usize,
    stop: CancellationToken,
    /// The applied and served state: the chart, the names and the policy.
    digest: String,
}

/// Which definitions are carried out, and how.
#[derive(Clone, Debug)]
pub struct DefinitionSettings {
    /// The directory that relative paths of charts refer to.
    pub base: PathBuf,
    /// A label selector of definitions; empty for all.
    pub selector: String,
}

/// All definitions.
pub(super) struct Definitions {
    ctx: Arc<Context>,
    settings: DefinitionSettings,
    seen: Seen,
    /// Names the definitions to look at.
    changed: mpsc::UnboundedSender<String>,
    names: mpsc::UnboundedReceiver<String>,
    entries: BTreeMap<String, Entry>,
    config_maps: ConfigMapWatches,
    places: Arc<Semaphore>,
    loaded: (mpsc::UnboundedSender<Loading>, mpsc::UnboundedReceiver<Loading>),
}

impl Definitions {
    /// None is known yet.
    pub fn new(ctx: Arc<Context>, settings: DefinitionSettings) -> Self {
        let (changed, names) = mpsc::unbounded_channel();
        Self {
            ctx,
            settings,
            seen: Arc::default(),
            changed,
            names,
            entries: BTreeMap::new(),
            config_maps: ConfigMapWatches::default(),
            places: Arc::new(Semaphore::new(LOADS)),
            loaded: mpsc::unbounded_channel(),
        }
    }

    /// Watches the definitions, and carries them out until the operator stops.
    pub async fn run(mut self) {
        let (selector, changed) = (self.settings.selector.clone(), self.changed.clone());
        let watching = follow(Arc::clone(&self.ctx), selector, Arc::clone(&self.seen), changed);
        let stop = self.ctx.tasks.stop().clone();
        self.ctx.tasks.base("watch of definitions of charts", watching);
        loop {
            let times = |entry: &Entry| [entry.retry_at(), entry.look_at.map(|(at, _)| at)];
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
                Some(loading) = self.loaded.1.recv() => self.go_on(loading).await,
                () = pause => {
                    let now = Instant::now();
                    let due = |(name, entry): (&String, &Entry)| entry.retry_at().is_some_and(|at| at <= now).then(|| name.clone());
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

    /// Begins with one definition: loads its chart, or ends its API.
    async fn one(&mut self, name: &str) {
        let object = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(name).cloned();
        let Some(object) = object else {
            if let Some(Entry { serving: Some(serving), .. }) = self.entries.remove(name) {
                self.end(&serving);
            }
            return;
        };
        let entry = self.entries.entry(name.to_owned()).or_default();
        if entry.load != Load::None {
            entry.load = Load::Outdated;
            // The end of an API does not wait for a chart.
            if object.pointer("/metadata/deletionTimestamp").is_none() {
                return;
            }
        }
        match self.begin(name, &object).await {
            Ok(Some(place)) => self.load(name, object, place),
            Ok(None) => self.note(name, true).await,
            Err(verdict) => self.conclude(name, &object, verdict).await,
        }
    }

    /// Loads a chart beside those of other definitions.
    fn load(&mut self, name: &str, object: Value, place: ChartPlace) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.load = Load::Runs;
        let (cluster, places, loaded) = (self.ctx.cluster.clone(), Arc::clone(&self.places), self.loaded.0.clone());
        let (name, stop, journal) = (name.to_owned(), self.ctx.tasks.stop().clone(), self.ctx.journal.clone());
        self.ctx.tasks.spawn(format!("chart of definition {name}"), async move {
            let metadata = &object["metadata"];
            let input = journal::input([metadata["uid"].to_string(), metadata["generation"].to_string()]);
            let subject = journal::subject(&["ChartDefinition", &name]);
            let loading = async {
                let _place = places.acquire().await;
                match journal.begin_in_turn(&subject, &input).await {
                    Some(working) => (chart::load(&cluster, place).await, Some(working)),
                    None => (Err(SET_ASIDE.to_owned()), None),
                }
            };
            let (chart, working) = tokio::select! {
                () = stop.cancelled() => return,
                loading = loading => loading,
            };
            // Without a receiver the operator ends.
            let _ = loaded.send(Loading { name, object, chart, working });
        });
    }

    /// Continues a definition whose chart was loaded, or could not be.
    async fn go_on(&mut self, Loading { name, object, chart, working: _working }: Loading) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        let load = std::mem::take(&mut entry.load);
        if load == Load::Outdated {
            return Box::pin(self.one(&name)).await;
        }
        let verdict = self.serve(&name, &object, chart).await.unwrap_or_else(|verdict| verdict);
        self.conclude(&name, &object, verdict).await;
    }

    /// Reports what came of a definition.
    async fn conclude(&mut self, name: &str, object: &Value, verdict: Verdict) {
        let is_written = self.report(name, object, &verdict).await;
        self.note(
            name,
            is_written && matches!(verdict.reason, DefinitionReason::Served | DefinitionReason::InvalidSpec),
        )
        .await;
    }

    /// Notes when a definition is looked at again.
    async fn note(&mut self, name: &str, is_settled: bool) {
        let before = self.entries.get(name).and_then(|entry| entry.retry).map_or(FIRST_RETRY, |(_, pause)| pause);
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
        tracing::info!(kind = %self.ctx.kinds.get(serving.kind).gvk(), "the definition is gone; its kind is no longer \
             served");
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
