//! Render: chart and values, or the last record, become the objects that the release should consist of.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::annotations::off;
use super::observe::{Observed, read_record};
use super::{Context, Error, crds, lookups, patches, values};
use crate::chart::floats;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::error::ApiError;
use crate::cluster::progress;
use crate::host::System;
use crate::kind::placement::Place;
use crate::lint::deprecations::successor;
use crate::lookup::ClusterHost;
use crate::mask::Secrets;
use crate::members::document::{self, Members};
use crate::members::substitute;
use crate::plan::Desired;
use crate::plan::hooks::Hook;
use crate::plan::operations::document::Operations;
use crate::plan::situation::{Operation, Situation, operation};
use crate::plan::stamp::{Stamped, stamp_all};
use crate::release::lookups::Lookups;
use crate::release::object::{Gvk, Object, ObjectId, push_flat};
use crate::release::record::{HookRecord, Record, hooks_of};
use crate::render::{self, Limits, Manifest, Options, Release, Rendered, Stop};
use crate::telemetry::spans;
use crate::template::budget::Budget;

/// How long a chart may render before it is stopped. kube-prometheus-stack takes a twentieth of a second.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a rendering may keep one of the places that all share.
const QUICK: Duration = Duration::from_secs(5);
/// How long a rendering that was stopped may take to notice: it looks each millisecond, unless it searches in a long text.
const NOTICE: Duration = Duration::from_secs(5);
/// What rendering a chart may cost: the largest public charts take a million steps and 1 MiB.
const LIMITS: Limits = Limits { steps: Some(50_000_000), output: 32 << 20, memory: Some(256 << 20) };
/// What reading the manifests that it made may cost.
const READING: Limits = Limits { steps: Some(50_000_000), output: usize::MAX, memory: Some(256 << 20) };
/// Objects of one release; the inventory of so many still fits into an annotation.
pub(super) const MAX_OBJECTS: usize = 1500;

/// What a release should consist of, and what it was rendered to when it was.
#[derive(Default)]
pub struct Prepared {
    /// For the plan.
    pub desired: Desired,
    /// For the record.
    pub rendered: Option<Rendered>,
    /// All values that it was rendered with, for the record.
    pub values: Map<String, Value>,
    /// What its templates looked up.
    pub lookups: Lookups,
}

/// What a rendering sees of the world.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// What it looks up is noted there.
    pub lookups: &'a Arc<Mutex<Lookups>>,
    /// How far its clock is ahead.
    pub ahead: Duration,
}

/// What a chart and values make, before it belongs to anybody.
pub(super) struct Drawn {
    /// What was rendered and patched; stateful sets with members have no `replicas`.
    pub rendered: Rendered,
    /// Its objects.
    pub objects: Vec<Object>,
    /// What it says of members.
    pub members: Option<Arc<Members>>,
    /// What it says of operations.
    pub operations: Option<Arc<Operations>>,
}

/// Renders off the workers, so many at a time as there are cores.
///
/// A chart can take long in many ways: steps, values and output are limited, but not what it asks of the API server, and not what
/// a busy machine makes of it. Custom resources whose charts take long must not keep others from being rendered, so there are two
/// kinds of places. A rendering begins in one that all share. When it has not ended after [`QUICK`], it moves to a place for slow ones,
/// and begins there the next time. When none of those is free it ends, and is tried again later. At the [`DEADLINE`] it is stopped: the
/// budget that counts its steps looks whether it may go on.
///
/// A process for each rendering could be ended at any moment, but costs more than a rendering, and what a template looks up would have to
/// go through a pipe. A thread cannot be ended from outside, so that all that may loop has to ask the budget; functions of templates
/// do that anyway. Places by kind would let one custom resource stop all others of its kind.
pub struct Renderer {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    /// Custom resources whose last rendering was slow.
    known: Mutex<HashSet<ReleaseKey>>,
    /// How long a rendering may stay in a place that all share.
    share: Duration,
    /// How long it may take.
    deadline: Duration,
}

impl Default for Renderer {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self::new(cores, QUICK, DEADLINE)
    }
}

/// The place of a rendering, which changes while it runs. It is held until the end, also when nobody waits any more.
type Held = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl Renderer {
    fn new(places: usize, share: Duration, deadline: Duration) -> Self {
        let places = || Arc::new(Semaphore::new(places));
        Self { quick: places(), slow: places(), known: Mutex::default(), share, deadline }
    }

    async fn render(
        &self,
        observed: &Observed,
        values: Map<String, Value>,
        release: Release,
        surroundings: Surroundings<'_>,
        ctx: &Context,
    ) -> Result<(Rendered, Vec<Object>), Error> {
        let Some(chart) = observed.chart.clone() else {
            return Err(Error::Renderer("the chart cannot be used".to_owned()));
        };
        let capabilities = observed.capabilities.clone();
        let (masks, key) = (Arc::clone(&ctx.masks), observed.key.clone());
        let learn = move |object: &Map<String, Value>| {
            let mut secrets = Secrets::default();
            secrets.add_secret_object(object);
            masks.learn(&key, secrets);
        };
        let host = ClusterHost::new(
            System { ahead: surroundings.ahead, ..System::default() },
            ctx.cluster.clone(),
            Arc::clone(&ctx.discovery),
        );
        let (placement, own) = (ctx.kinds[observed.key.kind].kind.placement.clone(), observed.key.namespace.clone());
        let host = host.bounded(move |gvk, place, what| placement.check(gvk, place, &own, what));
        let host =
            host.telling_of_secrets(learn).noting(Arc::clone(surroundings.lookups), lookups::is_own(&observed.owner));
        let meta = &chart.chart.metadata;
        let span = spans::render(&meta.name, &meta.version);
        let patches = observed.extras.patches.clone();
        self.run(&observed.key, move |stop| {
            let mut values = values;
            floats::restore(&mut values, &chart.chart);
            // What the chart looks up belongs to its rendering.
            let _entered = span.enter();
            let options = Options { limits: LIMITS, stop: Some(stop.clone()), ..Options::new(host) };
            let rendered = render::render(&chart.chart, &values, &release, &capabilities, &options);
            spans::rendered(&span, rendered.is_ok());
            let mut rendered = rendered?;
            rendered.manifests = patches::apply(rendered.manifests, &patches)?;
            let objects = parse(&rendered.manifests)?;
            Ok((rendered, objects))
        })
        .await
    }

    /// Runs something in a place, and stops it when it is past its time.
    async fn run<T: Send + 'static>(
        &self,
        key: &ReleaseKey,
        run: impl FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let busy = || Error::Busy("renderings that take long use all that they may; it is tried again".to_owned());
        let was_slow = self.known().contains(key);
        let permit = if was_slow {
            // A pass does not wait for others: they may take a minute each.
            Arc::clone(&self.slow).try_acquire_owned().map_err(|_| busy())?
        } else {
            let permit = Arc::clone(&self.quick).acquire_owned();
            progress::in_line(permit).await.map_err(|e| Error::Renderer(e.to_string()))?
        };
        let stop = Stop::default();
        let place: Held = Arc::new(Mutex::new(Some(permit)));
        let (stopped, held) = (stop.clone(), Arc::clone(&place));
        let mut rendering = tokio::task::spawn_blocking(move || {
            let made = run(&stopped);
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
            made
        });
        let ended = |made: Result<Result<T, Error>, JoinError>| {
            made.unwrap_or_else(|_| Err(Error::Renderer("rendering failed with an internal error".to_owned())))
        };
        if let Ok(made) = tokio::time::timeout(self.share, &mut rendering).await {
            self.known().remove(key);
            return ended(made);
        }
        self.known().insert(key.clone());
        if !was_slow {
            let Ok(slow) = Arc::clone(&self.slow).try_acquire_owned() else {
                stop.stop();
                return Err(busy());
            };
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            // Unless it has ended right now.
            if place.is_some() {
                *place = Some(slow);
            }
        }
        if let Ok(made) = tokio::time::timeout(self.deadline.saturating_sub(self.share), &mut rendering).await {
            return ended(made);
        }
        stop.stop();
        let _ = tokio::time::timeout(NOTICE, &mut rendering).await;
        Err(Error::Renderer(format!("rendering took more than {} seconds", self.deadline.as_secs())))
    }

    /// A custom resource is gone.
    pub fn forget(&self, key: &ReleaseKey) {
        self.known().remove(key);
    }

    fn known(&self) -> MutexGuard<'_, HashSet<ReleaseKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the situation asks for.
pub async fn render(observed: &Observed, ctx: &Context) -> Result<Prepared, Error> {
    let record = observed.record.as_ref().map_err(Clone::clone)?.as_ref();
    match &observed.situation {
        Situation::New | Situation::Changed => {
            let noted = Arc::default();
            let mut prepared = from_chart(observed, record, &noted, ctx).await;
            let mut lookups = noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Ok(prepared) = &mut prepared {
                let Desired { objects, hooks, .. } = &prepared.desired;
                lookups.leave_out(objects.iter().map(|object| &object.id).chain(hooks.iter().map(|hook| &hook.id)));
                prepared.lookups = lookups.clone();
            }
            // Also of a rendering that failed: what it did not find may come. None begins without the values.
            let begun = !matches!(prepared, Err(Error::Values(_) | Error::Api(_)));
            if begun && observed.chart.as_ref().is_some_and(|chart| chart.looks_up()) {
                ctx.looked_up.tried(&observed.key, lookups);
            }
            prepared
        }
        Situation::RollBack(_) => {
            let Some(target) = &observed.target else { return Ok(Prepared::default()) };
            let objects = stamp(&observed.left_out.objects(target)?, observed, ctx, Missing::IsAnError).await?;
            let previous = match record.map(Record::objects) {
                Some(Ok(objects)) => Some(stamp(&objects, observed, ctx, Missing::IsLeftOut).await?),
                _ => None,
            };
            let hooks = hooks(observed.left_out.hooks(target.rollback(0, "").hooks()), observed, ctx).await?;
            let members = observed.members.clone();
            let operations = observed.operations(Some(target.revision()));
            let desired = Desired { objects, previous, hooks, members, operations, ..Desired::default() };
            Ok(Prepared { desired, ..Prepared::default() })
        }
        Situation::Unfinished | Situation::Drifted(_) => {
            let Some(record) = record else { return Ok(Prepared::default()) };
            values::learn(observed, ctx).await;
            let objects = stamp(&observed.left_out.objects(record)?, observed, ctx, Missing::IsAnError).await?;
            let hooks = hooks(observed.left_out.hooks(record.hooks()), observed, ctx).await?;
            let (members, operations) = (observed.members.clone(), observed.operations(None));
            let desired = Desired { objects, hooks, members, operations, ..Desired::default() };
            Ok(Prepared { desired, ..Prepared::default() })
        }
        Situation::Uninstall | Situation::Abandoned => {
            let objects = match record.map(Record::objects) {
                Some(Ok(objects)) => stamp(&objects, observed, ctx, Missing::IsLeftOut).await?,
                // No record, or none that can be read: by label and owner (apply.md D2).
                _ => Vec::new(),
            };
            // Hooks that cannot be read do not keep a custom resource from going.
            let recorded = observed.left_out.hooks(record.map(Record::hooks).unwrap_or_default());
            let hooks = match hooks(recorded, observed, ctx).await {
                Err(error @ (Error::Manifest(_) | Error::NotAllowed(_))) => {
                    let error = ctx.show(observed, &error.text());
                    tracing::warn!(error, release = %observed.key.name, "the delete hooks cannot be read and are not run");
                    Vec::new()
                }
                hooks => hooks?,
            };
            Ok(Prepared { desired: Desired { objects, hooks, ..Desired::default() }, ..Prepared::default() })
        }
        _ => Ok(Prepared::default()),
    }
}

async fn from_chart(
    observed: &Observed,
    record: Option<&Record>,
    lookups: &Arc<Mutex<Lookups>>,
    ctx: &Context,
) -> Result<Prepared, Error> {
    let newest = observed.facts.history.last().map_or(0, |r| r.revision);
    let release = Release {
        name: observed.owner.release_name.to_string(),
        namespace: observed.owner.release_namespace.to_string(),
        revision: newest + 1,
        is_upgrade: observed.situation == Situation::Changed
            && operation(&observed.facts.history) == Operation::Upgrade,
    };
    let values = values::complete(observed, ctx).await?;
    let surroundings = Surroundings { lookups, ahead: Duration::ZERO };
    let drawn = draw(observed, values.clone(), release, surroundings, ctx).await?;
    let crds = crds::definitions(&drawn.rendered, observed.facts.switches.crds, ctx).await?;
    let Drawn { rendered, objects, members, operations } = drawn;
    let crds = if crds.is_empty() { crds::of_templates(&objects, observed, ctx).await? } else { crds };
    if !crds.is_empty() {
        let desired = Desired { crds, ..Desired::default() };
        return Ok(Prepared { desired, rendered: Some(rendered), values, ..Prepared::default() });
    }
    if let Some(operations) = &operations {
        place_operations(operations, observed, ctx).await?;
    }
    if objects.len() > MAX_OBJECTS {
        return Err(Error::Manifest(format!("the chart makes {} objects; the limit is {MAX_OBJECTS}", objects.len())));
    }
    let objects = stamp(&objects, observed, ctx, Missing::IsAnError).await?;
    let previous = match record.map(Record::objects) {
        Some(Ok(objects)) => Some(stamp(&objects, observed, ctx, Missing::IsLeftOut).await?),
        _ => None,
    };
    let hooks_equal = record.is_some_and(|r| r.hooks_equal(&rendered.hooks));
    let hooks = hooks(hooks_of(&rendered), observed, ctx).await?;
    let desired = Desired { objects, previous, hooks, hooks_equal, crds, members, operations };
    Ok(Prepared { desired, rendered: Some(rendered), values, ..Prepared::default() })
}

/// Renders the present chart.
pub(super) async fn draw(
    observed: &Observed,
    values: Map<String, Value>,
    release: Release,
    surroundings: Surroundings<'_>,
    ctx: &Context,
) -> Result<Drawn, Error> {
    let (mut rendered, mut objects) = ctx.renderer.render(observed, values, release, surroundings, ctx).await?;
    let members = members(&mut rendered, &objects, observed)?;
    if members.is_some() {
        let manifests = std::mem::take(&mut rendered.manifests);
        let parsed = off(move || (parse(&manifests), manifests)).await?;
        rendered.manifests = parsed.1;
        objects = parsed.0?;
    }
    let operations = Operations::read(&rendered.unknown, &objects).map_err(Error::Manifest)?.map(Arc::new);
    Ok(Drawn { rendered, objects, members, operations })
}

fn parse(manifests: &[Manifest]) -> Result<Vec<Object>, Error> {
    let objects_of = |manifest: &Manifest, objects: &mut Vec<Object>| -> Result<(), Error> {
        let wrong = |e: String| Error::Manifest(format!("{}: {e}", manifest.source));
        if let Some(object) = Object::parse(&manifest.text).map_err(wrong)? {
            push_flat(object, objects).map_err(wrong)?;
        }
        Ok(())
    };
    reading(|| {
        let mut objects = Vec::new();
        manifests.iter().try_for_each(|manifest| objects_of(manifest, &mut objects))?;
        Ok(objects)
    })
}

/// Reads manifests within limits: aliases may make much of a short text.
pub(super) fn reading<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let mut budget = Budget::new(READING);
    let read = budget.run(read);
    if budget.is_spent() {
        let limit = READING.memory.unwrap_or_default();
        return Err(Error::Manifest(format!("the manifests have values of more than {limit} bytes together")));
    }
    read
}

/// What the chart says of members. Their stateful sets lose `replicas`, in the record as in the objects.
fn members(rendered: &mut Rendered, objects: &[Object], observed: &Observed) -> Result<Option<Arc<Members>>, Error> {
    if rendered.unknown.is_empty() && !objects.iter().any(|o| &*o.gvk.kind == document::KIND) {
        return Ok(None);
    }
    let namespace = &observed.owner.release_namespace;
    let Some(members) = Members::read(&rendered.unknown, objects, namespace).map_err(Error::Manifest)? else {
        return Ok(None);
    };
    // What cannot be remembered is refused before anything is written.
    members.encode().map_err(Error::Manifest)?;
    substitute::strip(&mut rendered.manifests, &members).map_err(Error::Manifest)?;
    Ok(Some(Arc::new(members)))
}

/// Whether the objects of operations may be where they are. A kind that is not served yet may be by the time that one begins.
async fn place_operations(operations: &Operations, observed: &Observed, ctx: &Context) -> Result<(), Error> {
    // What cannot be remembered is refused before anything is written.
    operations.encode().map_err(Error::Manifest)?;
    for hook in &operations.hooks {
        let namespaced = ctx.discovery.resolve(&hook.gvk()).await?.is_none_or(|resource| resource.namespaced);
        let of_release = || Arc::clone(&observed.owner.release_namespace);
        let namespace = namespaced.then(|| hook.namespace().map_or_else(of_release, Into::into));
        let id = ObjectId { gvk: hook.gvk(), namespace, name: hook.name.as_str().into() };
        place(&id, observed, ctx)?;
    }
    Ok(())
}

/// The hooks of a record. A kind that is not served yet may be by the time that the hook runs.
async fn hooks(records: Vec<HookRecord>, observed: &Observed, ctx: &Context) -> Result<Vec<Hook>, Error> {
    let mut hooks = Vec::with_capacity(records.len());
    for record in records {
        if let Ok(Some(object)) = Object::parse(&record.manifest) {
            ctx.discovery.resolve(&object.gvk).await?;
        }
        let is_namespaced = |gvk: &Gvk| ctx.discovery.cached(gvk).is_none_or(|r| r.namespaced);
        let hook = Hook::read(record, &observed.owner, is_namespaced).map_err(Error::Manifest)?;
        place(&hook.id, observed, ctx)?;
        hooks.push(hook);
    }
    Ok(hooks)
}

/// What becomes of an object whose kind the API server does not serve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    IsAnError,
    /// It went with its definition.
    IsLeftOut,
}

pub(super) async fn stamp(
    objects: &[Object],
    observed: &Observed,
    ctx: &Context,
    missing: Missing,
) -> Result<Vec<Stamped>, Error> {
    let mut known = Vec::with_capacity(objects.len());
    for object in objects {
        match ctx.discovery.resolve(&object.gvk).await? {
            Some(_) => known.push(object.clone()),
            None if missing == Missing::IsLeftOut => {}
            None => {
                let what = format!("apply {} {}", object.gvk.kind, object.name);
                let served = ctx.discovery.versions_of(&object.gvk).join(", ");
                let gvk = &object.gvk;
                let kind = match successor(&gvk.api_version(), &gvk.kind) {
                    _ if !served.is_empty() => format!("{gvk}; it serves the kind as {served}"),
                    Some(successor) => format!("{gvk}; Kubernetes has removed it, use {successor}"),
                    None => gvk.to_string(),
                };
                return Err(ApiError::UnknownKind { what, kind }.into());
            }
        }
    }
    learn_secrets(&known, observed, ctx);
    let is_namespaced = |gvk: &Gvk| ctx.discovery.cached(gvk).is_none_or(|r| r.namespaced);
    let stamped = stamp_all(&known, &observed.owner, is_namespaced);
    if missing == Missing::IsAnError {
        stamped.iter().try_for_each(|object| place(&object.id, observed, ctx))?;
    }
    Ok(stamped)
}

/// Whether an object may be where it is; what is applied, run or made is asked for.
pub(super) fn place(id: &ObjectId, observed: &Observed, ctx: &Context) -> Result<(), Error> {
    let placement = &ctx.kinds[observed.key.kind].kind.placement;
    let place = id.namespace.as_deref().map_or(Place::Cluster, Place::In);
    placement.check(&id.gvk, place, &observed.key.namespace, &id.to_string()).map_err(Error::NotAllowed)
}

/// Makes sure that it is known what the texts of a release may quote. After a restart it is not, until a pass renders or repairs
/// something. Whether it is.
pub(super) async fn learn(observed: &Observed, ctx: &Context) -> bool {
    let (masks, key) = (&ctx.masks, &observed.key);
    if !observed.extras.sources.is_empty() && !masks.knows_sources(key) {
        values::learn(observed, ctx).await;
    }
    if !masks.knows_objects(key)
        && let Some(newest) = observed.facts.history.last()
    {
        let record = match &observed.record {
            Ok(Some(record)) => Ok(Some(record.clone())),
            _ => read_record(&observed.owner, newest.revision, ctx).await,
        };
        match record.map(|record| record.map(|record| record.objects())) {
            Ok(Some(Ok(objects))) => learn_secrets(&objects, observed, ctx),
            // There is none of ours, or none that can be read: no object is known that could hold a secret.
            Ok(None | Some(Err(_))) | Err(Error::Record(_)) => {}
            Err(error) => {
                tracing::debug!(%error, name = %key.name, "what the texts of a release may quote is not known");
            }
        }
    }
    (observed.extras.sources.is_empty() || masks.knows_sources(key)) && masks.knows_objects(key)
}

/// What the release's own Secrets hold appears in no text, be it in its notes.
fn learn_secrets(objects: &[Object], observed: &Observed, ctx: &Context) {
    let owner = &observed.owner;
    let names = objects.iter().flat_map(|object| [object.name.as_str(), &*object.gvk.kind]);
    let mut secrets =
        Secrets::of_objects(names.chain([&*owner.release_name, &*owner.release_namespace, &*owner.chart]));
    for object in objects.iter().filter(|o| o.gvk.group.is_empty() && &*o.gvk.kind == "Secret") {
        secrets.add_secret_object(&object.body);
    }
    ctx.masks.learn(&observed.key, secrets);
}

#[cfg(test)]
mod tests {
    use super::Renderer;
    use crate::cluster::cache::ReleaseKey;
    use crate::reconcile::Error;
    use crate::template::budget::{self, Budget, Limits, Stop};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(600);

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { kind: 0, namespace: "ns".into(), name: name.into() }
    }

    /// A template that never ends by itself.
    #[expect(clippy::unnecessary_wraps, reason = "the type of a rendering")]
    fn endless(stop: &Stop, end: &AtomicBool) -> Result<(), Error> {
        let run = || while budget::work(1).is_ok() && !end.load(Ordering::Relaxed) {};
        Budget::new(Limits::default()).until(Some(stop)).run(run);
        Ok(())
    }

    #[tokio::test]
    async fn what_renders_for_ever_keeps_nobody_from_being_rendered() {
        let renderer = Arc::new(Renderer::new(2, Duration::from_millis(50), LONG));
        let end = Arc::new(AtomicBool::new(false));
        let run = |name: &str| {
            let (renderer, key, end) = (Arc::clone(&renderer), key(name), Arc::clone(&end));
            async move { renderer.run(&key, move |stop| endless(stop, &end)).await }
        };
        let bad = [tokio::spawn(run("bad-0")), tokio::spawn(run("bad-1"))];
        while renderer.slow.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(renderer.run(&key("good"), |_| Ok(1)).await.ok(), Some(1));
        assert_eq!((renderer.quick.available_permits(), renderer.slow.available_permits()), (2, 0));
        assert!(bad.iter().all(|bad| !bad.is_finished()));
        // A known one does not take a place of the others again, and a new one gives it back.
        assert!(matches!(run("bad-0").await, Err(Error::Busy(_))));
        assert!(matches!(run("bad-2").await, Err(Error::Busy(_))));
        while renderer.quick.available_permits() < 2 {
            tokio::task::yield_now().await;
        }
        end.store(true, Ordering::Relaxed);
        for bad in bad {
            assert!(bad.await.unwrap().is_ok());
        }
        // Whoever is quick again is no longer known.
        assert_eq!(renderer.run(&key("bad-0"), |_| Ok(2)).await.ok(), Some(2));
        assert!(!renderer.known().contains(&key("bad-0")));
    }

    #[tokio::test]
    async fn a_rendering_that_is_past_its_time_ends() {
        let renderer = Renderer::new(2, Duration::from_millis(10), Duration::from_millis(50));
        let made = renderer.run(&key("bad"), |stop| endless(stop, &AtomicBool::new(false))).await;
        assert!(made.unwrap_err().to_string().starts_with("rendering took more than"));
        // It has ended, and not only been given up.
        assert_eq!((renderer.quick.available_permits(), renderer.slow.available_permits()), (2, 2));
    }
}
