//! Looks at the custom resources that a notice is about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::held::Dirty;
use super::pods::PodWatches;
use super::sink::Id;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::notices::facts::ResourceFacts;
use crate::notices::pods::PodFacts;
use crate::notices::state::{Look, MAX_PODS, MAX_RELEASES, NoticeState, Turn};
use crate::reconcile::context::Context;

/// The pods of a release, by name.
type PodsOf = BTreeMap<String, PodFacts>;

/// Enters the state of the custom resources that have to be checked. Returns why the notice cannot follow all of them.
pub fn look(
    (namespace, _): &Id,
    state: &mut NoticeState,
    (dirty, is_first): (&mut Dirty, bool),
    turn: &Turn<'_>,
    ctx: &Context,
    watches: &PodWatches,
) -> Option<String> {
    let of_kind = kinds_by_name(ctx);
    let wanted = std::mem::replace(dirty, Dirty::Some(BTreeSet::new()));
    let keys: BTreeSet<ReleaseKey> = match wanted {
        Dirty::Some(keys) => keys,
        Dirty::All => {
            let there = ctx.cache.crs().into_iter().map(|(key, _)| key).filter(|key| key.namespace == *namespace);
            let known = state.releases.keys().filter_map(|release| key_of(release, namespace, &of_kind));
            there.chain(known).collect()
        }
    };
    let pods = if turn.notice.needs_pods() { watches.of(namespace) } else { Some(BTreeMap::new()) };
    // When pods come into sight, those that are there are not news.
    let pods_are_new = turn.notice.needs_pods() && !state.knows_pods && pods.is_some();
    if pods_are_new {
        state.knows_pods = true;
    } else if !turn.notice.needs_pods() {
        state.knows_pods = false;
    }
    let mut left_out = 0;
    for key in keys.into_iter().filter(|key| !ctx.cache.is_retired(key.kind)) {
        let gvk = ctx.kinds.get(key.kind).gvk().clone();
        let release = format!("{}/{}", kind_name(&gvk.kind, &gvk.group), key.name);
        let Some(cr) = ctx.cache.cr(&key) else {
            // A list that is not complete does not say that something is gone.
            if ctx.cache.is_kind_synced(key.kind) {
                state.look(Look { release, facts: None, created: 0, is_first }, turn);
            }
            continue;
        };
        let label = |name: &str| cr.labels.get(name).map(|value| &**value);
        if !turn.notice.selector.matches(&gvk.kind, &gvk.group, &key.name, label) {
            state.forget(&release);
            continue;
        }
        left_out += usize::from(state.releases.len() >= MAX_RELEASES && !state.releases.contains_key(&release));
        let mut facts = ResourceFacts::of(&cr.uid, &cr.status());
        let before = state.releases.get(&release).map(|before| before.pods.clone()).unwrap_or_default();
        facts.pods = match &pods {
            Some(pods) if turn.notice.needs_pods() => pods_of(&key, &cr, pods, namespace, ctx),
            Some(_) => BTreeMap::new(),
            None => before,
        };
        if pods_are_new && let Some(known) = state.releases.get_mut(&release) {
            known.pods.clone_from(&facts.pods);
        }
        state.look(Look { release, facts: Some(facts), created: cr.created, is_first }, turn);
    }
    let count: usize = state.releases.values().map(|facts| facts.pods.len()).sum();
    if left_out > 0 {
        return Some(format!("it covers more than {MAX_RELEASES} custom resources; select fewer in spec.selector"));
    }
    (count > MAX_PODS).then(|| {
        for facts in state.releases.values_mut() {
            facts.pods.clear();
        }
        state.knows_pods = false;
        format!(
            "it covers more than {MAX_PODS} pods, so it reports none; select fewer custom resources in spec.selector"
        )
    })
}

/// The numbers of the kinds, by `Kind.group`.
pub fn kinds_by_name(ctx: &Context) -> BTreeMap<String, usize> {
    let all = ctx.kinds.all();
    let named = all.iter().enumerate();
    named.map(|(kind, served)| (kind_name(&served.gvk().kind, &served.gvk().group), kind)).collect()
}

/// The custom resource of a namespace whose `Kind.group/name` this is, if the operator serves its kind.
pub fn key_of(release: &str, namespace: &Arc<str>, kinds: &BTreeMap<String, usize>) -> Option<ReleaseKey> {
    let (kind, name) = release.split_once('/')?;
    Some(ReleaseKey { kind: *kinds.get(kind)?, namespace: Arc::clone(namespace), name: name.into() })
}

fn kind_name(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// The pods of the workloads that the newest revision of a release has, in the namespace of the notice.
fn pods_of(key: &ReleaseKey, cr: &Cr, pods: &PodsOf, namespace: &Arc<str>, ctx: &Context) -> PodsOf {
    if cr.deleting && pods.is_empty() {
        return BTreeMap::new();
    }
    let (of, name) = ctx.cache.release_of(key);
    if of != *namespace {
        return BTreeMap::new();
    }
    let newest = ctx.cache.history(&of, &name).pop();
    let Some(inventory) = newest.and_then(|newest| newest.inventory) else { return BTreeMap::new() };
    let ids = inventory.0.keys().filter(|id| id.namespace.as_ref().is_none_or(|of| of == namespace));
    let workloads: BTreeSet<String> = ids.map(|id| format!("{}/{}", id.gvk.kind, id.name)).collect();
    pods.iter()
        .filter(|(_, pod)| workloads.contains(&pod.workload))
        .map(|(name, pod)| (name.clone(), pod.clone()))
        .collect()
}
