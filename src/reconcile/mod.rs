//! One pass over one release, in five steps, and what surrounds it: the queue, the workers, the watches.
//!
//! A pass never waits: it does what can be done now, says in the status what it waits for, and ends. A watch event or a
//! deadline starts the next one.

mod annotations;
mod apply;
mod begun;
pub mod chart;
mod contests;
pub mod controller;
mod crds;
mod etcd;
mod hooks;
mod kept;
mod look;
mod lookups;
mod members;
mod object;
mod observe;
mod operations;
pub mod panics;
mod patches;
mod pods;
pub mod queue;
mod records;
mod render;
mod report;
mod results;
mod sinks;
mod sources;
pub mod tasks;
mod trust;
mod values;
mod waits;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::cache::{Cache, ReleaseKey};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::cluster::error::ApiError;
use crate::cluster::events::Events;
use crate::cluster::sources::Sources;
use crate::kind::allow::Allow;
use crate::mask::{Masks, Text};
use crate::members::own::Drivers;
use crate::plan;
use crate::plan::attempts::Retry;
use crate::plan::hooks::Event;
use crate::release::record::RecordError;
use crate::render::Diagnostic;
use crate::telemetry::metrics::Metrics;
use annotations::Annotations;
use apply::Outcome;
use begun::Begun;
use chart::Served;
use kept::Kept;
use look::Looks;
use lookups::LookedUp;
use pods::Pods;
use queue::Queue;
use render::Renderer;
use results::Results;
use sources::SourceWatches;
use trust::Trusted;
use waits::Waits;
use watches::Watches;

/// helm-operator's finalizer, set before the first write of a release.
pub const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
/// The name that older versions of helm-operator gave it.
pub const LEGACY_FINALIZER: &str = "uninstall-helm-release";

/// What every pass uses.
pub struct Context {
    /// The API server.
    pub cluster: Cluster,
    /// The kinds that it serves.
    pub discovery: Arc<Discovery>,
    /// What the watches saw.
    pub cache: Arc<Cache>,
    /// The kinds of custom resources, with their charts.
    pub kinds: Vec<Served>,
    /// Who waits for an object of another release.
    pub waits: Arc<Waits>,
    /// What others change as often as we repair it.
    pub contests: contests::Contests,
    /// Watches of the objects of releases.
    pub watches: Watches,
    /// Watches of the pods of unhealthy workloads.
    pub pods: Pods,
    /// Watches of what belongs to stateful sets with members.
    pub looks: Looks,
    /// Drivers that the program brings.
    pub drivers: Drivers,
    /// What pods with results said.
    pub results: Results,
    /// What first installations that were cut off have left.
    pub begun: Begun,
    /// The annotations of custom resources that hold lists, read.
    pub annotations: Annotations,
    /// The records that were seen last.
    pub kept: Kept,
    /// The records that count as they are.
    pub trusted: Trusted,
    /// What is known of the objects that releases are made from.
    pub sources: Arc<Sources>,
    /// Watches of them.
    pub source_watches: SourceWatches,
    /// What releases looked up when they were rendered.
    pub looked_up: LookedUp,
    /// What must appear in no text.
    pub masks: Arc<Masks<ReleaseKey>>,
    /// Renders charts off the workers.
    pub renderer: Renderer,
    /// Kubernetes events.
    pub events: Events,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// What waits for a pass.
    pub queue: Arc<Queue>,
    /// How often a release is compared with the caches when nothing happens.
    pub period: Duration,
    /// Which custom resources are this operator's.
    pub scope: controller::Scope,
    /// Events show no overridden values.
    pub hide_overrides: bool,
    /// The status shows what is deployed.
    pub show_manifest: bool,
}

impl Context {
    /// Which annotations of a custom resource count.
    pub fn allow(&self, key: &ReleaseKey) -> &Allow {
        &self.kinds[key.kind].kind.allow
    }

    /// A custom resource is gone, and what is kept for it goes too.
    pub fn forget(&self, key: &ReleaseKey) {
        self.contests.forget(key);
        self.waits.end(key);
        self.pods.forget(key);
        self.looks.forget(key);
        self.results.forget(key, &self.cache);
        self.sources.set_used(key, Vec::new());
        self.looked_up.forget(key);
        self.masks.forget(key);
        self.annotations.forget(key);
        self.renderer.forget(key);
        self.begun.forget(key);
        let release = (Arc::clone(&key.namespace), self.cache.release_name(key));
        self.kept.forget(&release);
        self.trusted.forget(&release);
    }

    /// A text about a release, without what is secret in it. Until its sources of values were read no text of others is shown.
    fn show(&self, observed: &observe::Observed, text: &Text) -> String {
        let known = observed.extras.sources.is_empty() || self.masks.knows_sources(&observed.key);
        if known { self.masks.show(&observed.key, text) } else { text.to_string() }
    }
}

/// When the release deserves the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something happens.
    Event,
    /// After a time.
    After(Duration),
    /// When something happens; at this period it is only compared with what is known.
    Rest {
        /// The period.
        period: Duration,
        /// When a schedule is due, in seconds since 1970.
        due: Option<i64>,
    },
}

/// Why a pass failed. `Display` shows nothing that others wrote; [`Error::text`] has all of it.
#[derive(Clone, Debug)]
pub enum Error {
    /// The record could not be read or written.
    Record(RecordError),
    /// The chart and these values make nothing that can be applied.
    Render(Diagnostic),
    /// Rendering took too long, or failed in a way that it should not.
    Renderer(String),
    /// What was rendered is not a list of objects, or too many.
    Manifest(String),
    /// A hook failed.
    Hook {
        /// What it ran for.
        event: Event,
        /// Its object.
        hook: String,
        /// What its object says, and the last lines of its pod.
        why: Text,
        /// It took as long as it may.
        timeout: bool,
    },
    /// The objects did not get ready in time.
    NotReady(Text),
    /// The record cannot be compared with what the chart renders, or is something else.
    Unverified {
        /// Of the record.
        revision: u64,
        /// A sentence.
        why: Text,
    },
    /// An object is where the kind does not allow it.
    NotAllowed(String),
    /// Renderings that take long have used up their share.
    Busy(String),
    /// A source of values does not hold what it should.
    Values(String),
    /// A request failed.
    Api(ApiError),
    /// The pass panicked, and where.
    Panic(String),
}

impl Error {
    /// What is said of it.
    pub fn text(&self) -> Text {
        match self {
            Self::Record(error) => Text::own(error.to_string()),
            Self::Render(diagnostic) => Text::foreign_or(
                diagnostic.message.as_str(),
                match &diagnostic.at {
                    Some(at) => format!(
                        "the chart cannot be rendered, see {at} (the message may quote a Secret and is not shown)"
                    ),
                    None => "the chart cannot be rendered (the message may quote a Secret and is not shown)".to_owned(),
                },
            ),
            Self::Manifest(text) => Text::foreign_or(
                text.as_str(),
                "what the chart renders cannot be applied (the message may quote a Secret and is not shown)",
            ),
            Self::Hook { event, hook, why, .. } => Text::own(format!("{event} hook {hook} failed: ")).and(why.clone()),
            Self::NotReady(why) => Text::own("not ready in time: ").and(why.clone()),
            Self::Unverified { revision, why } => Text::own(format!(
                "nothing is taken from the record of revision {revision}, which somebody else may have written: "
            ))
            .and(why.clone()),
            Self::Renderer(text) | Self::Values(text) | Self::NotAllowed(text) | Self::Busy(text) => {
                Text::own(text.as_str())
            }
            Self::Api(error) => error.text(),
            Self::Panic(place) => Text::own(format!(
                "the operator has a fault: the pass panicked at {place}; it is repeated after a pause. Please report this place"
            )),
        }
    }

    /// Reason of conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Record(RecordError::TooLarge(_)) => "ReleaseTooLarge",
            Self::Record(RecordError::Corrupted(_)) => "ReleaseCorrupted",
            Self::Render(_) | Self::Renderer(_) => "RenderError",
            Self::Manifest(_) => "InvalidManifest",
            Self::Hook { .. } => "HookFailed",
            Self::NotReady(_) => "NotReady",
            Self::Unverified { .. } => "RecordNotVerified",
            Self::NotAllowed(_) => "NamespaceNotAllowed",
            Self::Busy(_) => "RenderingWaits",
            Self::Values(_) => "InvalidValuesFrom",
            Self::Api(error) => error.reason(),
            Self::Panic(_) => "Panic",
        }
    }

    /// Whether it is tried again without anything having changed.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Record(RecordError::TooLarge(_))
            | Self::Render(_)
            | Self::Manifest(_)
            | Self::NotAllowed(_)
            | Self::Values(_)
            | Self::NotReady(_) => Retry::Never,
            // Who gave it a time meant that time.
            Self::Hook { timeout, .. } => {
                if *timeout {
                    Retry::Never
                } else {
                    Retry::Bounded
                }
            }
            Self::Record(RecordError::Corrupted(_)) | Self::Renderer(_) => Retry::Bounded,
            Self::Api(error) if error.is_namespace_terminating() => Retry::Never,
            // The object is wrong, and not the cluster.
            Self::Api(error) if matches!(error.reason(), "Invalid" | "ImmutableField") => Retry::Bounded,
            Self::Unverified { .. } | Self::Panic(_) | Self::Busy(_) | Self::Api(_) => Retry::Always,
        }
    }

    /// Whether the API server or the operator is the trouble and not the release: then nothing is written about it unless it lasts.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Busy(_)) || matches!(self, Self::Api(error) if error.is_outage())
    }

    /// Whether the pass acted on what is no longer so; the next one knows better.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if error.is_conflict() || matches!(error, ApiError::Remaking { .. }))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Render(diagnostic)
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Brings one release closer to what its custom resource says.
pub async fn reconcile(key: &ReleaseKey, ctx: &Context) -> Result<Next, Error> {
    let Some(mut observed) = observe::observe(key, ctx).await else {
        ctx.forget(key);
        return Ok(Next::Event);
    };
    if let Err(error) = trust::verify(&mut observed, ctx).await {
        let outcome = Outcome { error: Some(error), ..Outcome::nothing(plan::Verb::Rest) };
        return report::report(&observed, outcome, ctx).await;
    }
    if let Some(outcome) = members::farewell(&observed, ctx).await {
        return report::report(&observed, outcome, ctx).await;
    }
    let mut outcome = if let Some(held) = operations::hold(&observed) {
        held
    } else {
        let rendered = render::render(&observed, ctx).await;
        let plan = rendered.map(|r| (plan::plan(&observed.facts, &observed.situation, &r.desired), r));
        apply::apply(&observed, plan, ctx).await
    };
    members::step(&observed, &mut outcome, ctx).await;
    operations::step(&observed, &mut outcome, ctx).await;
    report::report(&observed, outcome, ctx).await
}
