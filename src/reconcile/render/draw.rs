//! Renders the current chart.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};

use super::parse::parse;
use super::patches;
use super::patches::Alterations;
use crate::chart::{Chart, floats};
use crate::harm;
use crate::host::System;
use crate::lookup::ClusterHost;
use crate::mask::Secrets;
use crate::members::document::{self, Members};
use crate::members::drivers::Drivers;
use crate::members::progress;
use crate::members::substitute;
use crate::object::Object;
use crate::plan::operations::document::Operations;
use crate::reconcile::blocking::off;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::lookups;
use crate::reconcile::observed::Observed;
use crate::release::lookups::Lookups;
use crate::release::owner::Owner;
use crate::release::status_fields::{Known, StatusFields};
use crate::render::{self, Capabilities, Limits, Options, Release, Rendered};
use crate::telemetry::spans;

/// Limits for the rendering of a chart. The largest public charts take a million steps and 1 MiB.
pub const LIMITS: Limits = Limits { steps: Some(50_000_000), output: 32 << 20, memory: Some(256 << 20) };

/// The limits in tests.
const UNLIMITED: Limits = Limits { steps: None, output: usize::MAX, memory: None };

/// The maximum number of objects in a release. Their inventory still fits into an annotation.
pub const MAX_OBJECTS: usize = 1500;

/// The surroundings of a rendering.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Collects the lookups of the templates.
    pub lookups: &'a Arc<Mutex<Lookups>>,
    /// How far the clock of the rendering is ahead.
    pub ahead: Duration,
}

/// The result of rendering a chart with values, before its objects are stamped with their owner.
pub struct Drawn {
    /// The rendered and patched manifests. Stateful sets with members have no `replicas` in them.
    pub rendered: Rendered,
    pub objects: Vec<Object>,
    /// The declarations of the chart about members.
    pub members: Option<Arc<Members>>,
    /// The declarations of the chart about operations.
    pub operations: Option<Arc<Operations>>,
    /// The fields of the status that the chart names.
    pub status_fields: Option<Arc<StatusFields>>,
}

/// Renders the current chart.
pub async fn draw(
    observed: &Observed,
    values: Map<String, Value>,
    release: Release,
    surroundings: Surroundings<'_>,
    ctx: &Context,
) -> Result<Drawn, Error> {
    let (mut rendered, mut objects) = in_place(observed, values, release, surroundings, ctx).await?;
    let members = members(&mut rendered, &objects, &observed.owner, &ctx.drivers)?;
    if members.is_some() {
        let manifests = std::mem::take(&mut rendered.manifests);
        let parsed = off(move || (parse(&manifests), manifests)).await?;
        rendered.manifests = parsed.1;
        objects = parsed.0?;
    }
    declared(rendered, objects, members, &observed.owner, &ctx.drivers)
}

/// Reads the other declarations of a chart, of operations and of fields of the status.
pub fn declared(
    rendered: Rendered,
    objects: Vec<Object>,
    members: Option<Arc<Members>>,
    owner: &Owner,
    drivers: &Drivers,
) -> Result<Drawn, Error> {
    let operations = Operations::read(&rendered.unknown, &objects).map_err(Error::Manifest)?.map(Arc::new);
    let names: Vec<&str> =
        members.iter().flat_map(|members| members.sets.iter().map(|set| set.name.as_str())).collect();
    let namespace = &owner.release_namespace;
    let facts = progress::facts(drivers);
    let known = Known { objects: &objects, namespace, members: &names, facts: &facts };
    let status_fields = StatusFields::read(&rendered.unknown, known).map_err(Error::Manifest)?.map(Arc::new);
    if let Some(fields) = &status_fields {
        // Values that cannot be stored are refused before anything is written.
        fields.encode().map_err(Error::Manifest)?;
    }
    Ok(Drawn { rendered, objects, members, operations, status_fields })
}

/// Renders the current chart and patches the result, outside the workers.
async fn in_place(
    observed: &Observed,
    values: Map<String, Value>,
    release: Release,
    surroundings: Surroundings<'_>,
    ctx: &Context,
) -> Result<(Rendered, Vec<Object>), Error> {
    let Some(chart) = observed.chart.clone() else {
        let why = observed.facts.refusal.as_ref().map(|refusal| format!(": {}", refusal.message));
        return Err(Error::Renderer(format!("the chart cannot be used{}", why.unwrap_or_default())));
    };
    let capabilities = observed.capabilities.clone();
    let (masks, key) = (Arc::clone(&ctx.memory.masks), observed.key.clone());
    let learn = move |object: &Map<String, Value>| {
        let mut secrets = Secrets::default();
        secrets.add_secret_object(object);
        masks.learn(&key, secrets);
    };
    let host = ClusterHost::new(
        System { ahead: surroundings.ahead, ..System::default() },
        observed.cluster.clone(),
        Arc::clone(&ctx.discovery),
    );
    let (placement, own) = (ctx.kinds.get(observed.key.kind).kind.placement.clone(), observed.key.namespace.clone());
    let host = host.bounded(move |gvk, place, what| placement.check(gvk, place, &own, what));
    let host =
        host.telling_of_secrets(learn).noting(Arc::clone(surroundings.lookups), lookups::is_own(&observed.owner));
    let meta = &chart.chart.metadata;
    let span = spans::render(&meta.name, &meta.version);
    let alterations = Alterations { patches: observed.extras.patches.clone(), asleep: observed.facts.asleep };
    ctx.renderer
        .run(&observed.key, move |stop| {
            // The lookups of the chart belong to its rendering.
            let _entered = span.enter();
            let limits = if harm::is_unlimited() { UNLIMITED } else { LIMITS };
            let options = Options::new(host).limits(limits).until(stop.clone());
            let inputs = ChartInputs { chart: &chart.chart, release: &release, capabilities: &capabilities };
            with_chart(inputs, values, &alterations, &options, |is_rendered| spans::rendered(&span, is_rendered))
        })
        .await
}

/// The inputs of a rendering besides the values.
#[derive(Clone, Copy)]
pub struct ChartInputs<'a> {
    pub chart: &'a Chart,
    pub release: &'a Release,
    /// The capabilities of the API server.
    pub capabilities: &'a Capabilities,
}

/// Renders a chart and changes the result. `is_rendered` hears whether the chart could be rendered.
pub fn with_chart(
    inputs: ChartInputs<'_>,
    mut values: Map<String, Value>,
    alterations: &Alterations,
    options: &Options,
    is_rendered: impl FnOnce(bool),
) -> Result<(Rendered, Vec<Object>), Error> {
    let ChartInputs { chart, release, capabilities } = inputs;
    floats::restore(&mut values, chart);
    let rendered = render::render(chart, &values, release, capabilities, options);
    is_rendered(rendered.is_ok());
    let mut rendered = rendered?;
    rendered.manifests = patches::apply(rendered.manifests, alterations)?;
    let objects = parse(&rendered.manifests)?;
    Ok((rendered, objects))
}

/// Reads the declarations of the chart about members, and removes `replicas` from their stateful sets, so that neither
/// the record nor the objects have it.
pub fn members(
    rendered: &mut Rendered,
    objects: &[Object],
    owner: &Owner,
    drivers: &Drivers,
) -> Result<Option<Arc<Members>>, Error> {
    if rendered.unknown.is_empty() && !objects.iter().any(|o| &*o.gvk.kind == document::KIND) {
        return Ok(None);
    }
    let namespace = &owner.release_namespace;
    let Some(members) = Members::read(&rendered.unknown, objects, namespace, drivers).map_err(Error::Manifest)? else {
        return Ok(None);
    };
    if owner.namespace.as_ref().is_some_and(|own| own != namespace) {
        let why = "the chart has members, and their Jobs and ConfigMaps belong to the custom resource: the release has \
                   to be in its namespace";
        return Err(Error::Manifest(format!("{why}, and not in {namespace}")));
    }
    // Values that cannot be stored are refused before anything is written.
    members.encode().map_err(Error::Manifest)?;
    substitute::strip(&mut rendered.manifests, &members).map_err(Error::Manifest)?;
    Ok(Some(Arc::new(members)))
}
