//! What the templates of a release looked up is one of its inputs (docs/design/applying.md A4): single objects are watched, lists and
//! what cannot be watched are read again when a period is over, and the chart is rendered again when something has changed. What a
//! release makes itself is no input of it: it would never come to rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::cluster::sources::Version;
use crate::kind::switches::Switches;
use crate::lookup;
use crate::plan::attempts;
use crate::reconcile::charts::Loaded;
use crate::reconcile::context::Context;
use crate::reconcile::memory::lookups::KnownLookups;
use crate::release::lookups;
use crate::release::lookups::Lookups;
use crate::release::object::ObjectId;
use crate::release::owner::{Owner, RELEASE_NAME, RELEASE_NAMESPACE};

/// Objects that change all the time cause a rendering at most this often.
const PAUSE: Duration = Duration::from_secs(5);

/// How what a release looked up stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// It is not what the newest revision was made with.
    pub changed: bool,
    /// It is not what was tried last: a failure need not repeat itself.
    pub untried: bool,
    /// It changed, and is rendered in a while: it was a moment ago.
    pub wait: Option<Duration>,
    /// No watch sees some of it: it is read again at the period.
    pub reads: bool,
}

/// How what a release looked up stands when a pass begins.
pub async fn state(
    key: &ReleaseKey,
    owner: &Owner,
    chart: Option<&Loaded>,
    used: &BTreeSet<ObjectId>,
    switches: &Switches,
    ctx: &Context,
) -> State {
    let mut state = compare(key, owner, chart, used, ctx);
    if state.reads && read(owner, key, ctx.period(switches, key), ctx).await {
        state = compare(key, owner, chart, used, ctx);
    }
    state
}

/// Whether a rendering failed before the operator started that looked up nobody knows what, which may be there by now.
pub fn may_have_come(key: &ReleaseKey, chart: Option<&Loaded>, cr: &Cr, ctx: &Context) -> bool {
    chart.is_some_and(Loaded::looks_up)
        && !ctx.memory.looked_up.has_tried(key)
        && attempts::reason(&cr.status()) == Some("RenderError")
}

/// Looks whether anything has changed that the release looked up, and makes sure that it will be seen. `used` is what else the release is
/// made from.
pub fn compare(
    key: &ReleaseKey,
    owner: &Owner,
    chart: Option<&Loaded>,
    used: &BTreeSet<ObjectId>,
    ctx: &Context,
) -> State {
    let mut all = ctx.memory.looked_up.lock();
    if chart.is_some_and(Loaded::looks_up) && !all.contains_key(key) {
        let newest = ctx.cache.history(&owner.release_namespace, &owner.release_name).pop();
        if let Some(text) = newest.and_then(|newest| newest.lookups) {
            all.insert(key.clone(), KnownLookups { deployed: Lookups::decode(&text), ..KnownLookups::default() });
        }
    }
    let Some(known) = all.get(key) else {
        ctx.sources.set_used(key, used.iter().cloned().collect());
        return State::default();
    };
    let ids = known.ids();
    let singles = ids.iter().copied().filter(|id| !lookups::is_list(id));
    let followed: BTreeSet<_> = singles.chain(used).cloned().collect();
    // Before versions are compared: the watch reports what changes from now on.
    ctx.sources.set_used(key, followed.into_iter().collect());
    let mut state = State::default();
    let tried = known.tried.as_ref().map_or(&known.deployed, |(lookups, _)| lookups);
    for id in ids {
        let now = match version(id, ctx) {
            Version::Is(now) => now,
            Version::Missing => Box::default(),
            // The watch requests a pass for all releases that use it once it is known.
            Version::Unknown => continue,
            Version::Blind(_) => {
                state.reads = true;
                let Some(now) = known.seen.get(id) else { continue };
                now.into()
            }
        };
        let differs = |lookups: &Lookups| lookups.get(id).is_some_and(|read| lookups::is_change(read, &now));
        state.changed |= differs(&known.deployed);
        state.untried |= differs(tried);
    }
    let left = known.tried.as_ref().and_then(|(_, at)| PAUSE.checked_sub(at.elapsed())).filter(|left| !left.is_zero());
    if (state.changed || state.untried) && left.is_some() {
        state = State { changed: false, untried: false, wait: left, ..state };
    }
    state
}

/// What a watch sees; blind to what none is kept for.
fn version(id: &ObjectId, ctx: &Context) -> Version {
    if lookups::is_list(id) {
        return Version::Blind(String::new());
    }
    let watch = ctx.cache.watch_key(&id.gvk, id.namespace.as_ref());
    ctx.watching.sources.ensure(&watch);
    ctx.sources.version(id, &watch)
}

/// Reads what no watch sees, when the period is over; whether it was.
pub async fn read(owner: &Owner, key: &ReleaseKey, period: Duration, ctx: &Context) -> bool {
    let ids: Vec<ObjectId> = match ctx.memory.looked_up.lock().get_mut(key) {
        Some(known) if known.read.is_none_or(|at| at.elapsed() >= period) => {
            known.read = Some(Instant::now());
            known.ids().into_iter().cloned().collect()
        }
        _ => return false,
    };
    let is_own = is_own(owner);
    for id in ids.into_iter().filter(|id| matches!(version(id, ctx), Version::Blind(_))) {
        match lookup::find(&ctx.cluster, &ctx.discovery, id.clone()).await {
            Ok((_, found)) => {
                if let Some(version) = lookups::version(&id, found.as_ref(), &is_own)
                    && let Some(known) = ctx.memory.looked_up.lock().get_mut(key)
                {
                    known.seen.enter(id, version);
                }
            }
            // A rendering would fail; what is deployed stays as it is.
            Err(error) => {
                tracing::debug!(%error, name = %key.name, namespace = %key.namespace, "what was looked up cannot be read again");
            }
        }
    }
    true
}

/// Whether an object is a release's own: one that it made, its record or its custom resource.
pub fn is_own(owner: &Owner) -> impl Fn(&Value) -> bool + Send + Sync + use<> {
    let owner = owner.clone();
    move |object| {
        let Some(metadata) = object.get("metadata") else { return false };
        let text = |of: &str, key: &str| metadata.get(of).and_then(|all| all.get(key)).and_then(Value::as_str);
        let made = text("annotations", RELEASE_NAME) == Some(&*owner.release_name)
            && text("annotations", RELEASE_NAMESPACE) == Some(&*owner.release_namespace);
        let record = matches!(text("labels", "owner"), Some("helm" | "tillerman"));
        made || record || metadata.get("uid").and_then(Value::as_str) == Some(&*owner.uid)
    }
}
