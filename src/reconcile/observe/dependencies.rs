//! The needs of a custom resource from others, read from the caches. It costs no request: the others are custom
//! resources that the operator serves and watches anyway.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::spec;
use crate::bounds;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::kind::annotations::Annotations;
use crate::kind::depends_on::{self, Dependency, Name};
use crate::plan::dependencies::{DependencyState, Needed, before, cycle, hold, refuse_cycle, together};
use crate::plan::situation::Refusal;
use crate::reconcile::context::Context;
use crate::release::digest::Hasher;

/// The needs of a custom resource from others.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// Its dependencies.
    pub needed: Vec<Needed>,
    pub values: Map<String, Value>,
    /// Digest of the values; empty when there are none.
    pub digest: String,
    /// The dependency that the release waits for.
    pub awaits: Option<Refusal>,
    /// The dependency that changes of the release wait for, if there is one.
    pub holds: Option<Refusal>,
    /// Why the dependencies cannot be met at all.
    pub refusal: Option<Refusal>,
    /// Whether the custom resources of a kind are not known yet.
    pub waits: bool,
    /// Whether it needs a kind that the operator does not serve, so that no watch starts a pass.
    pub unserved: bool,
}

/// Collects the dependencies that the kind and the annotation name. `is_installed`: there is a release, which keeps its
/// last values.
pub fn gather(
    key: &ReleaseKey,
    cr: &Cr,
    own: &Annotations,
    values: &Map<String, Value>,
    is_installed: bool,
    ctx: &Context,
) -> Linked {
    let served = ctx.kinds.get(key.kind);
    let mut linked = Linked::default();
    let wrong = |message: String| Some(Refusal { reason: "InvalidAnnotation", message });
    let mut dependencies = served.kind.depends_on.clone();
    match &own.depends_on {
        Ok(more) => dependencies.extend(more.iter().cloned()),
        Err(why) => linked.refusal = wrong(why.to_string()),
    }
    if dependencies.len() > bounds::DEPENDENCIES {
        dependencies.truncate(bounds::DEPENDENCIES);
        linked.refusal = wrong(format!("there are more than {} dependencies", bounds::DEPENDENCIES));
    }
    if dependencies.is_empty() {
        ctx.cache.forget_needs(key);
        return linked;
    }
    let status = cr.status();
    let mut needs = Vec::new();
    for dependency in &dependencies {
        let Some(name) = name(dependency, key, values, ctx) else { continue };
        let other = other(dependency, &name, key, ctx);
        linked.unserved |= other.is_none();
        let target = other.as_ref().map_or_else(unserved, |other| target(other, ctx));
        needs.extend(other);
        let last = before(&status, &dependency.kind_group(), &name).filter(|_| is_installed);
        let needed = Needed::of(dependency, &name, &target, last);
        linked.waits |= needed.unknown && (needed.values.is_none() || needed.upgrade_after || !is_installed);
        linked.needed.push(needed);
    }
    ctx.cache.set_needs(key, needs);
    if let Some(way) = cycle(key, |at| needs_of(at, ctx)) {
        let way: Vec<String> = way.iter().map(|key| described(key, ctx)).collect();
        linked.refusal = linked.refusal.or_else(|| Some(refuse_cycle(&way)));
    }
    linked.holds = hold(&linked.needed).filter(|_| is_installed);
    match together(&linked.needed, is_installed) {
        Ok(all) => lay(&mut linked, &all),
        Err(awaits) => linked.awaits = Some(awaits),
    }
    linked
}

/// Puts the values where they belong.
fn lay(linked: &mut Linked, all: &[(String, Value)]) {
    let mut hasher = Hasher::default();
    for (target, value) in all {
        if let Err(why) = depends_on::set(target, value, &mut linked.values) {
            // Those of one list do not collide, so the annotation collides with the kind's list.
            let message = format!("annotation {}: {target}: {why}", depends_on::ANNOTATION);
            linked.refusal = linked.refusal.take().or(Some(Refusal { reason: "InvalidAnnotation", message }));
        }
        hasher.text(target).json(value);
    }
    if !all.is_empty() {
        linked.digest = hasher.finish();
    }
}

fn unserved() -> DependencyState {
    DependencyState::Missing("the operator serves no custom resources of this kind".to_owned())
}

/// The name of a dependency. `None`: the custom resource names none.
fn name(dependency: &Dependency, key: &ReleaseKey, values: &Map<String, Value>, ctx: &Context) -> Option<Arc<str>> {
    let path = match &dependency.name {
        Name::Fixed(name) => return Some(Arc::clone(name)),
        Name::From(path) => path,
    };
    let text =
        |values: &Map<String, Value>| path.find_in(values).map(|found| found.as_str().unwrap_or_default().to_owned());
    let chart = || ctx.kinds.get(key.kind).chart().ok().and_then(|chart| text(&chart.chart.values));
    let name = text(values).or_else(chart)?;
    (!name.is_empty() && bounds::word(&name).is_ok()).then(|| name.into())
}

/// The key of the custom resource that is meant; `None` if the operator does not serve its kind.
fn other(dependency: &Dependency, name: &Arc<str>, key: &ReleaseKey, ctx: &Context) -> Option<ReleaseKey> {
    let all = ctx.kinds.all();
    let kind = (0..all.len()).find(|kind| dependency.is_of(all[*kind].gvk()) && !ctx.cache.is_retired(*kind))?;
    Some(ReleaseKey { kind, namespace: Arc::clone(&key.namespace), name: Arc::clone(name) })
}

fn target(other: &ReleaseKey, ctx: &Context) -> DependencyState {
    match ctx.cache.cr(other) {
        Some(cr) if cr.deleting => DependencyState::Deleting,
        Some(cr) => DependencyState::Exists { generation: cr.generation, status: cr.status() },
        None if ctx.cache.is_kind_synced(other.kind) => DependencyState::Missing("it does not exist".to_owned()),
        None if ctx.discovery.cached(ctx.kinds.get(other.kind).gvk()).is_none() => {
            DependencyState::Missing("the API server does not serve this kind".to_owned())
        }
        None => DependencyState::Unknown,
    }
}

/// The needs of another custom resource. After a restart it may not have had a pass yet.
fn needs_of(key: &ReleaseKey, ctx: &Context) -> Vec<ReleaseKey> {
    if let Some(needs) = ctx.cache.needs(key) {
        return needs;
    }
    let Some(cr) = ctx.cache.cr(key) else { return Vec::new() };
    let served = ctx.kinds.get(key.kind);
    let own = cr.annotations.get(depends_on::ANNOTATION).and_then(|text| depends_on::parse_text(text).ok());
    let dependencies: Vec<Dependency> =
        served.kind.depends_on.iter().cloned().chain(own.into_iter().flatten()).collect();
    let mut needs = Vec::new();
    if !dependencies.is_empty() && cr.spec.as_ref().is_none_or(|text| text.len() <= spec::SHORT) {
        let values = spec::read(&cr).unwrap_or_default();
        let named = dependencies.iter().take(bounds::DEPENDENCIES);
        needs.extend(named.filter_map(|one| other(one, &name(one, key, &values, ctx)?, key, ctx)));
    }
    ctx.cache.set_needs(key, needs.clone());
    needs
}

fn described(key: &ReleaseKey, ctx: &Context) -> String {
    format!("{} {}", ctx.kinds.get(key.kind).gvk().kind, key.name)
}
