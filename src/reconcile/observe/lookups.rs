//! The objects that the templates of a release looked up are an input of the release (docs/design/applying.md A4). The
//! operator watches single objects. It reads lists, and objects that it cannot watch, once per period. When one of them
//! changes, it renders the chart again. Objects that the release itself creates do not count as inputs: the release
//! would never come to rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::cache::ReleaseKey;
use crate::cluster::client::Cluster;
use crate::cluster::cr::Cr;
use crate::cluster::sources::Version;
use crate::kind::switches::Switches;
use crate::lookup;
use crate::object::ObjectId;
use crate::plan::attempts;
use crate::reconcile::charts::Loaded;
use crate::reconcile::context::Context;
use crate::reconcile::memory::lookups::KnownLookups;
use crate::release::lookups;
use crate::release::lookups::Lookups;
use crate::release::owner::{Owner, RELEASE_NAME, RELEASE_NAMESPACE};

/// The shortest time between two renderings, for looked-up objects that change all the time.
const PAUSE: Duration = Duration::from_secs(5);

/// How the looked-up objects compare with what they were at the last renderings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupState {
    /// They differ from those that the newest revision was rendered with.
    pub changed: bool,
    /// They differ from those of the last attempt, so a failure of that attempt need not repeat.
    pub untried: bool,
    /// They have changed, but the last rendering is too recent. The next one is due after this time.
    pub wait: Option<Duration>,
    /// No watch sees some of them. They are read once per period.
    pub reads: bool,
}

/// Compares the looked-up objects at the start of a pass.
pub async fn state(
    key: &ReleaseKey,
    owner: &Owner,
    chart: Option<&Loaded>,
    used: &BTreeSet<ObjectId>,
    switches: &Switches,
    cluster: &Cluster,
    ctx: &Context,
) -> LookupState {
    let mut state = compare(key, owner, chart, used, cluster, ctx);
    if state.reads && read(owner, key, ctx.period(switches, key), cluster, ctx).await {
        state = compare(key, owner, chart, used, cluster, ctx);
    }
    state
}

/// Whether a rendering that looked up objects failed before the operator started. The objects that it looked up are
/// unknown, and may exist now.
pub fn may_have_come(key: &ReleaseKey, chart: Option<&Loaded>, cr: &Cr, ctx: &Context) -> bool {
    chart.is_some_and(Loaded::looks_up)
        && !ctx.memory.looked_up.has_tried(key)
        && attempts::reason(&cr.status()) == Some("RenderError")
}

/// Compares the looked-up objects with those of the last renderings, and makes sure that a later change starts a pass.
/// `used` are the other objects that the release is made from.
pub fn compare(
    key: &ReleaseKey,
    owner: &Owner,
    chart: Option<&Loaded>,
    used: &BTreeSet<ObjectId>,
    cluster: &Cluster,
    ctx: &Context,
) -> LookupState {
    let mut all = ctx.memory.looked_up.lock();
    if chart.is_some_and(Loaded::looks_up) && !all.contains_key(key) {
        let newest = ctx.cache.history(&owner.release_namespace, &owner.release_name).pop();
        if let Some(text) = newest.and_then(|newest| newest.lookups) {
            all.insert(key.clone(), KnownLookups { deployed: Lookups::decode(&text), ..KnownLookups::default() });
        }
    }
    let Some(known) = all.get(key) else {
        ctx.sources.set_used(key, used.iter().cloned().collect());
        return LookupState::default();
    };
    let ids = known.ids();
    let singles = ids.iter().copied().filter(|id| !lookups::is_list(id));
    let followed: BTreeSet<_> = singles.chain(used).cloned().collect();
    // This comes before the comparison of versions, so that no change in between is missed.
    ctx.sources.set_used(key, followed.into_iter().collect());
    let mut state = LookupState::default();
    let tried = known.last();
    for id in ids {
        let now = match version(id, known, cluster, ctx) {
            Version::Is(now) => now,
            Version::Missing => Box::default(),
            // When the version becomes known, every release that uses the object gets a pass.
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
        state = LookupState { changed: false, untried: false, wait: left, ..state };
    }
    state
}

/// The version that a watch sees. An object that has no watch is `Blind`. So is one that the account of the release may not read: the
/// watch sees it with the rights of the operator, and the account must not learn of its changes.
fn version(id: &ObjectId, known: &KnownLookups, cluster: &Cluster, ctx: &Context) -> Version {
    let refused = cluster.account().is_some() && known.last().get(id) == Some(lookups::UNREAD);
    if refused || lookups::is_list(id) {
        return Version::Blind(String::new());
    }
    let watch = ctx.cache.watch_key(&id.gvk, id.namespace.as_ref());
    ctx.watching.sources.ensure(&watch);
    ctx.sources.version(id, &watch)
}

/// Reads the objects that no watch sees if the period is over. Returns whether it was over.
pub async fn read(owner: &Owner, key: &ReleaseKey, period: Duration, cluster: &Cluster, ctx: &Context) -> bool {
    let ids: Vec<ObjectId> = match ctx.memory.looked_up.lock().get_mut(key) {
        Some(known) if known.read.is_none_or(|at| at.elapsed() >= period) => {
            known.read = Some(Instant::now());
            let is_blind = |id: &&ObjectId| matches!(version(id, known, cluster, ctx), Version::Blind(_));
            known.ids().into_iter().filter(is_blind).cloned().collect()
        }
        _ => return false,
    };
    let is_own = is_own(owner);
    for id in ids {
        match lookup::find(cluster, &ctx.discovery, id.clone()).await {
            Ok((_, found)) => {
                if let Some(version) = lookups::version(&id, found.as_ref(), &is_own)
                    && let Some(known) = ctx.memory.looked_up.lock().get_mut(key)
                {
                    known.seen.enter(id, version);
                }
            }
            // A rendering would fail now, so the deployed objects stay as they are.
            Err(error) => {
                tracing::debug!(%error, name = %key.name, namespace = %key.namespace, "cannot read the objects again \
                     that templates looked up");
            }
        }
    }
    true
}

/// Whether an object belongs to the release: an object that it created, its record or its custom resource.
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
