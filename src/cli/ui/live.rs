//! The data of the pages, read from a cluster when a page is requested.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Config;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::sync::{Mutex, OnceCell};

use super::feed::{Feed, Keep, Watched};
use super::feeds::{FeedKey, Feeds};
use super::revision::document as document_of;
use crate::cli::common::changes::document;
use crate::cli::common::checks::{Checks, check};
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::{WantedKinds, kinds};
use crate::cli::common::line::line;
use crate::cli::common::next_pass::{asked, recorded};
use crate::cli::common::release::{entries, release_of, revisions};
use crate::cli::common::rollouts;
use crate::cli::common::running::plan;
use crate::cli::common::server::Server;
use crate::cli::common::status_tree::tree_of;
use crate::cli::common::summary::summary;
use crate::cli::common::target::Target;
use crate::cli::common::values::live::{kind_of, layers_of, subject};
use crate::cli::common::values::rows::{Describer, rows_json};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::names::KEPT_CHART_OF;
use crate::object::Gvk;
use crate::object::conditions::{Condition, Conditions};
use crate::render::Options;
use crate::render::provenance::ValueTrace;
use crate::ui::address::{ReleaseName, ReleaseScreen, Subject};
use crate::ui::source::{Answer, ClusterData, Fleet, PageError, PageSource, ReleaseData};

impl From<CliError> for PageError {
    fn from(error: CliError) -> Self {
        Self(error.0)
    }
}

/// A cluster as the source of pages.
pub(super) struct LiveSource {
    cluster: Cluster,
    discovery: Arc<Discovery>,
    config: Config,
    wanted: WantedKinds,
    watches_file: Option<PathBuf>,
    only_namespace: Option<String>,
    own_namespace: String,
    feeds: Feeds,
    discovered: OnceCell<()>,
    /// One request at a time finds the kinds.
    finding: Mutex<()>,
}

impl LiveSource {
    pub(super) fn new(
        server: &Server,
        kinds: Vec<String>,
        watches_file: Option<PathBuf>,
        only_namespace: Option<String>,
        own_namespace: String,
    ) -> Self {
        let (cluster, discovery) = server.parts();
        Self {
            cluster,
            discovery,
            config: server.config().clone(),
            wanted: WantedKinds { words: kinds, watches_file: watches_file.clone() },
            watches_file,
            only_namespace,
            own_namespace,
            feeds: Feeds::default(),
            discovered: OnceCell::new(),
            finding: Mutex::new(()),
        }
    }

    /// The feed of all releases, and its namespace. A user who may not see all namespaces sees that of the kubeconfig.
    async fn fleet_feed(&self) -> Result<(Arc<Feed>, Option<String>), PageError> {
        let _one = self.finding.lock().await;
        let own = Some(self.own_namespace.clone());
        if self.only_namespace.is_none() {
            if let Some(feed) = self.feeds.get(&FeedKey::Fleet(own.clone())) {
                return Ok((feed, own));
            }
            let all = self.fleet_of(None).await;
            if let Ok(feed) = &all {
                feed.ready().await?;
                if !feed.is_blind() {
                    return Ok((Arc::clone(feed), None));
                }
                self.feeds.end(&FeedKey::Fleet(None));
            }
        }
        let place = self.only_namespace.clone().or(own);
        let feed = self.fleet_of(place.clone()).await?;
        feed.ready().await?;
        Ok((feed, place))
    }

    async fn fleet_of(&self, namespace: Option<String>) -> Result<Arc<Feed>, PageError> {
        let key = FeedKey::Fleet(namespace.clone());
        if let Some(feed) = self.feeds.get(&key) {
            return Ok(feed);
        }
        self.discovery.refresh().await.map_err(|e| line(&e.whole()))?;
        let kinds = self.wanted.find(namespace.as_deref(), &self.cluster, &self.discovery).await?;
        let watched = |resource| Watched { resource, namespace: namespace.clone(), name: None, label: None };
        let start = || Feed::start(Keep::Summary, kinds.into_iter().map(watched).collect(), &self.cluster);
        Ok(self.feeds.get_or_start(key, start))
    }

    async fn target(&self, name: &ReleaseName) -> Result<Target, PageError> {
        let refresh = async || self.discovery.refresh().await.map_err(|e| line(&e.whole()));
        self.discovered.get_or_try_init(refresh).await?;
        let find = || Target::find(&name.kind, &name.name, &name.namespace, &self.discovery);
        if let Ok(target) = find().await {
            return Ok(target);
        }
        // The definition may be newer than this program's start.
        refresh().await?;
        Ok(find().await?)
    }

    fn feed_of(&self, target: &Target) -> Arc<Feed> {
        let namespace = target.id.namespace.as_deref().map(str::to_owned);
        let key = FeedKey::One(
            target.resource.gvk.kind_group(),
            namespace.clone().unwrap_or_default(),
            target.id.name.to_string(),
        );
        let name = Some(target.id.name.to_string());
        let watched = Watched { resource: Arc::clone(&target.resource), namespace, name, label: None };
        self.feeds.get_or_start(key, || Feed::start(Keep::Whole, vec![watched], &self.cluster))
    }

    /// The feed of roll-outs, and its namespace.
    fn rollouts_feed(&self) -> (Arc<Feed>, String) {
        let namespace = self.only_namespace.as_ref().unwrap_or(&self.own_namespace).clone();
        let resource = Arc::new(Resource::secrets());
        let watched = Watched { resource, namespace: Some(namespace.clone()), name: None, label: Some(KEPT_CHART_OF) };
        let start = || Feed::start(Keep::Metadata, vec![watched], &self.cluster);
        (self.feeds.get_or_start(FeedKey::Rollouts(namespace.clone()), start), namespace)
    }

    async fn release_data(&self, name: &ReleaseName, screen: ReleaseScreen) -> Result<ReleaseData, PageError> {
        let target = self.target(name).await?;
        let feed = self.feed_of(&target);
        feed.ready().await?;
        let version = feed.version();
        let cr = feed.rows().into_iter().next();
        let mut notes = feed.notes();
        let gone = || notes.pop().unwrap_or_else(|| format!("there is no {}", line(&target.id.to_string())));
        let cr = cr.ok_or_else(gone)?;
        let mut notes = Vec::new();
        let found = match screen {
            ReleaseScreen::Status => Ok(self.status(&cr, &target).await),
            ReleaseScreen::Next => self.next(&cr, &target, &mut notes).await,
            ReleaseScreen::History => {
                revisions(&cr, &self.cluster).await.map(|kept| json!({"revisions": entries(&kept)}))
            }
            ReleaseScreen::Revision(revision) => self.revision(&cr, &target, revision).await,
            ReleaseScreen::Values => self.values(&cr, &target, &mut notes).await,
            ReleaseScreen::Members => Ok(self.members(&cr, &target).await),
            ReleaseScreen::Operations => Ok(operations(&cr)),
        };
        let document = found?;
        Ok(ReleaseData { further: further(&cr), summary: summary(&target.resource, &cr), document, notes, version })
    }

    async fn status(&self, cr: &Value, target: &Target) -> Value {
        let conditions: Vec<Value> = Conditions::of_object(cr).iter().map(condition_json).collect();
        let tree = tree_of(cr, &self.cluster).await;
        json!({"tree": tree, "conditions": conditions, "events": self.events(cr, target).await})
    }

    async fn events(&self, cr: &Value, target: &Target) -> Vec<Value> {
        let uid = cr.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        match self.cluster.events_about(target.id.namespace.as_deref(), uid).await {
            Ok(events) => shown_events(&events),
            Err(error) => vec![json!({"type": "Warning", "reason": "Unknown", "message": line(&error.whole())})],
        }
    }

    async fn members(&self, cr: &Value, target: &Target) -> Value {
        let mut events = self.events(cr, target).await;
        let is_of_primary = |reason: &str| reason == "PrimaryChanged" || reason.starts_with("SwitchOver");
        events.retain(|event| is_of_primary(event["reason"].as_str().unwrap_or_default()));
        json!({"sets": named(cr, "/status/members"), "events": events})
    }

    async fn revision(&self, cr: &Value, target: &Target, revision: u64) -> Result<Value, CliError> {
        let kept = revisions(cr, &self.cluster).await?;
        let kind = kind_of(self.watches_file.as_deref(), &target.resource.gvk)?;
        // Without the sources it is not known which texts are secret, so nothing is shown.
        let layers = layers_of(cr, kind.as_ref(), &self.cluster).await?;
        document_of(&kept, revision, &layers)
    }

    async fn values(&self, cr: &Value, target: &Target, notes: &mut Vec<String>) -> Result<Value, CliError> {
        let kind = kind_of(self.watches_file.as_deref(), &target.resource.gvk)?;
        let subject = subject(cr, kind.as_ref(), None, &self.cluster).await?;
        notes.extend(subject.layers.notes.iter().cloned());
        let failed = |e| subject.failed(&e);
        let trace = ValueTrace::new(&subject.chart, &subject.layers.given, &Options::for_a_look()).map_err(failed)?;
        let rows = trace.values().map_err(failed)?;
        Ok(rows_json(&rows, &mut Describer::new(&trace, &subject.layers)))
    }

    async fn next(&self, cr: &Value, target: &Target, notes: &mut Vec<String>) -> Result<Value, CliError> {
        let release = release_of(cr);
        let chart = if self.watches_file.is_some() {
            None
        } else {
            let (chart, note) = recorded(&release, &self.cluster).await?;
            notes.push(note);
            Some(Arc::new(chart))
        };
        let kinds = kinds(self.watches_file.as_deref(), &target.resource.gvk)?;
        let preview = asked(self.config.clone(), kinds, target, chart, release.0, None).await?;
        Ok(document(&preview))
    }
}

fn condition_json(c: Condition<'_>) -> Value {
    json!({"type": c.name(), "status": c.status(), "reason": c.reason(), "message": c.message(), "since": c.since()})
}

/// The screens for which the status has something to show.
fn further(cr: &Value) -> Vec<ReleaseScreen> {
    let has = |pointer: &str| !named(cr, pointer).is_empty();
    let has_operations = has("/status/operations") || cr.pointer("/status/operation").is_some();
    let all = [(ReleaseScreen::Members, has("/status/members")), (ReleaseScreen::Operations, has_operations)];
    all.into_iter().filter(|(_, has)| *has).map(|(screen, _)| screen).collect()
}

/// The objects of a map, each with its name.
fn named(cr: &Value, pointer: &str) -> Vec<Value> {
    let all = cr.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let with_name = |(name, entry): (&String, &Value)| {
        let mut entry = entry.clone();
        entry.as_object_mut()?.insert("name".into(), name.as_str().into());
        Some(entry)
    };
    all.filter_map(with_name).collect()
}

/// The runs of operations, the work in progress, and the conditions about what waits.
fn operations(cr: &Value) -> Value {
    let waits = |c: &Condition<'_>| {
        c.is_true() && matches!(c.name(), "OperationPending" | "OperationFailed" | "NoticesFailing")
    };
    let waiting: Vec<Value> = Conditions::of_object(cr).iter().filter(waits).map(condition_json).collect();
    let plan = cr.pointer("/status/plan").map(plan);
    json!({"operations": named(cr, "/status/operations"), "plan": plan, "waiting": waiting})
}

/// The events as the page shows them, the newest first.
fn shown_events(events: &[Value]) -> Vec<Value> {
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let last = |event: &Value| {
        let times = ["lastTimestamp", "eventTime", "firstTimestamp"].map(|key| text(event, key));
        let of_series = event.pointer("/series/lastObservedTime").and_then(Value::as_str).map(str::to_owned);
        of_series.into_iter().chain(times).find(|time| !time.is_empty()).unwrap_or_default()
    };
    let shown = |event: &Value| {
        let object = event.pointer("/related").or_else(|| event.pointer("/involvedObject")).unwrap_or(&Value::Null);
        let count = event.pointer("/series/count").or_else(|| event.get("count")).and_then(Value::as_u64);
        json!({"type": text(event, "type"), "reason": text(event, "reason"), "message": text(event, "message"),
            "object": format!("{} {}", text(object, "kind"), text(object, "name")), "last": last(event), "count": count})
    };
    let mut all: Vec<Value> = events.iter().map(shown).collect();
    all.sort_by_key(|event| std::cmp::Reverse(text(event, "last")));
    all
}

impl PageSource for LiveSource {
    fn fleet(&self) -> Answer<'_, Fleet> {
        Box::pin(async move {
            let (feed, namespace) = self.fleet_feed().await?;
            let version = feed.version();
            Ok(Fleet { rows: feed.rows(), notes: feed.notes(), namespace, version })
        })
    }

    fn release(&self, name: ReleaseName, screen: ReleaseScreen) -> Answer<'_, ReleaseData> {
        Box::pin(async move { self.release_data(&name, screen).await })
    }

    fn operator(&self) -> Answer<'_, ClusterData> {
        Box::pin(async move {
            let mut checks = Checks::default();
            let kinds = self.watches_file.as_deref().map(|file| kinds(Some(file), &Gvk::new("", "", "")));
            let kinds = kinds.transpose()?;
            let place = self.only_namespace.as_deref();
            check(kinds.as_deref(), place, &self.cluster, &self.discovery, &mut checks).await;
            Ok(ClusterData { document: checks.document(), namespace: self.only_namespace.clone(), version: 0 })
        })
    }

    fn rollouts(&self) -> Answer<'_, ClusterData> {
        Box::pin(async move {
            let (feed, namespace) = self.rollouts_feed();
            feed.ready().await?;
            let version = feed.version();
            match feed.notes().pop() {
                Some(note) => Err(note.into()),
                None => {
                    Ok(ClusterData { document: rollouts::document(&feed.rows()), namespace: Some(namespace), version })
                }
            }
        })
    }

    fn follow(&self, subject: Subject) -> Answer<'_, Receiver<u64>> {
        Box::pin(async move {
            Ok(match subject {
                Subject::Fleet => self.fleet_feed().await?.0.follow(),
                Subject::Rollouts => self.rollouts_feed().0.follow(),
                Subject::Release(name) => self.feed_of(&self.target(&name).await?).follow(),
            })
        })
    }
}
