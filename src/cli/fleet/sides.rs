//! The kinds and charts now and then, and the custom resources as they are on both sides.

use super::FleetArgs;
use super::read::custom_resources;
use crate::chart::{Chart, go_io};
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::kinds;
use crate::cli::common::target::resource;
use crate::cluster::discovery::{Discovery, Resource};
use crate::crd::Names;
use crate::definition::{self, ChartPlace, Fetched, KIND, Spec};
use crate::fleet::demands::Demands;
use crate::kind::selector::matches;
use crate::kind::{ChartRef, Kind, Proof, watches};
use crate::object::field_error::FieldError;
use crate::object::{Gvk, Object, parse_manifest};
use crate::reconcile::charts::{Credentials, chart_of, fetch_chart, read};
use crate::reconcile::offline::PlainResource;
use crate::source::download::WantedChart;
use crate::template::yaml;
use indexmap::IndexMap;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A kind with its chart.
pub struct FleetKind {
    /// The settings of the kind.
    pub kind: Kind,
    pub chart: Chart,
    /// The values that the chart knows and takes.
    demands: OnceLock<Demands>,
}

impl FleetKind {
    fn new(kind: Kind, chart: Chart) -> Arc<Self> {
        Arc::new(Self { kind, chart, demands: OnceLock::new() })
    }

    /// Whether custom resources of this kind in any version are meant. A chart that names no group takes those of any group.
    pub fn is_of(&self, gvk: &Gvk) -> bool {
        let own = &self.kind.gvk;
        gvk.kind == own.kind && (own.group.is_empty() || gvk.group == own.group)
    }

    /// Its resource on an API server.
    pub async fn resource(&self, discovery: &Discovery) -> Result<Arc<Resource>, CliError> {
        let gvk = &self.kind.gvk;
        let word = if gvk.group.is_empty() { gvk.kind.to_string() } else { gvk.kind_group() };
        resource(&word, discovery).await
    }

    /// The values that the chart knows and takes.
    pub fn demands(&self) -> &Demands {
        self.demands.get_or_init(|| Demands::of(&self.chart))
    }
}

/// The kinds now and then.
pub struct Sides {
    /// Now.
    pub now: Vec<Arc<FleetKind>>,
    /// Then.
    pub then: Vec<Arc<FleetKind>>,
}

/// A custom resource on both sides, each with its kind. A side without one has no such custom resource, or does not serve it.
pub struct FleetCase {
    /// Namespace and name.
    pub id: (Arc<str>, Arc<str>),
    /// Its kind.
    pub gvk: Gvk,
    /// Now.
    pub now: Option<(Arc<PlainResource>, Arc<FleetKind>)>,
    /// Then.
    pub then: Option<(Arc<PlainResource>, Arc<FleetKind>)>,
    /// The kind is no longer served: the operator leaves the objects as they are.
    pub is_abandoned: bool,
}

impl Sides {
    /// Loads the charts that the arguments name.
    pub fn load(args: &FleetArgs) -> Result<Self, CliError> {
        let base = std::env::current_dir().map_err(CliError::new)?;
        let load = |text: &str| read(&ChartRef::parse(text, &base), &Proof::default()).map_err(CliError);
        let now = match (&args.chart, &args.watches_file) {
            (Some(text), _) => vec![of_chart(load(text)?, args.kind.as_deref())?],
            (None, Some(file)) => of_watches(file)?,
            (None, None) => return Err(CliError::new("give the chart with --chart or --watches-file")),
        };
        let then = match (&args.then_chart, &args.then_watches_file) {
            (Some(text), _) => with_chart(&now, &load(text)?)?,
            (None, Some(file)) => of_watches(file)?,
            (None, None) => now.clone(),
        };
        Ok(Self { now, then })
    }

    /// The names of the kinds, for messages.
    pub fn kinds(&self) -> String {
        let names: Vec<String> = self.now.iter().map(|served| served.kind.gvk.kind_group()).collect();
        names.join(", ")
    }

    /// The custom resources on both sides, in the order of their names.
    pub fn cases(
        &self,
        now: Vec<PlainResource>,
        args: &FleetArgs,
        namespace: &str,
    ) -> Result<Vec<FleetCase>, CliError> {
        let mut changed = by_key(custom_resources(&args.then_resources, &self.then, namespace)?);
        let patch = args.then_patch.as_deref().map(patch_of).transpose()?;
        let mut cases = Vec::new();
        for (key, cr) in by_key(now) {
            let then = match changed.swap_remove(&key) {
                None if args.prune => None,
                None => Some(Arc::clone(&cr)),
                then => then,
            };
            let then = match (then, &patch) {
                (Some(then), Some(patch)) => Some(Arc::new(patched(&then, patch)?)),
                (then, _) => then,
            };
            cases.push(self.case(Some(cr), then));
        }
        cases.extend(changed.into_values().map(|cr| self.case(None, Some(cr))));
        cases.retain(|case| case.now.is_some() || case.then.is_some());
        let order = |case: &FleetCase| (case.gvk.kind.clone(), case.id.clone());
        cases.sort_by_key(order);
        Ok(cases)
    }

    fn case(&self, now: Option<Arc<PlainResource>>, then: Option<Arc<PlainResource>>) -> FleetCase {
        let first = now.as_ref().or(then.as_ref());
        let (id, gvk) = first.map_or_else(
            || (("".into(), "".into()), Gvk::new("", "", "")),
            |cr| ((Arc::clone(&cr.namespace), Arc::clone(&cr.name)), cr.gvk.clone()),
        );
        let side = |cr: Option<Arc<PlainResource>>, kinds: &[Arc<FleetKind>]| {
            let cr = cr?;
            let served = kinds.iter().find(|served| served.is_of(&cr.gvk))?;
            let is_selected = served.kind.selector.as_ref().is_none_or(|text| matches(text, &cr.labels));
            is_selected.then(|| (cr, Arc::clone(served)))
        };
        let exists = then.is_some();
        let (now, then) = (side(now, &self.now), side(then, &self.then));
        FleetCase { id, gvk, is_abandoned: exists && now.is_some() && then.is_none(), now, then }
    }
}

/// A merge patch (RFC 7386) for every custom resource.
fn patch_of(file: &Path) -> Result<Value, CliError> {
    let wrong = |why: String| CliError(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|e| wrong(go_io(&e)))?;
    let patch = yaml::parse(&text).map_err(|e| wrong(e.to_string()))?;
    let fields = patch.as_object().ok_or_else(|| wrong("a patch is a map, such as spec: {replicas: 3}".to_owned()))?;
    match fields.keys().find(|key| !["spec", "metadata"].contains(&key.as_str())) {
        Some(other) => Err(wrong(format!("{other} cannot be patched; spec and metadata can"))),
        None => Ok(patch),
    }
}

fn patched(cr: &PlainResource, patch: &Value) -> Result<PlainResource, CliError> {
    let mut object = cr.object();
    json_patch::merge(&mut object, patch);
    let patched =
        PlainResource::read(&object, "").map_err(|why| CliError(format!("--then-patch: {}: {why}", cr.name)))?;
    if (&patched.name, &patched.namespace) != (&cr.name, &cr.namespace) {
        return Err(CliError::new("--then-patch: it changes the name or the namespace of custom resources"));
    }
    Ok(patched)
}

/// Group, kind, namespace and name.
type Key = (Arc<str>, Arc<str>, Arc<str>, Arc<str>);

/// Custom resources by their identity; of two the last one counts, as with `kubectl apply`.
fn by_key(all: Vec<PlainResource>) -> IndexMap<Key, Arc<PlainResource>> {
    let key = |cr: &PlainResource| {
        (Arc::clone(&cr.gvk.group), Arc::clone(&cr.gvk.kind), Arc::clone(&cr.namespace), Arc::clone(&cr.name))
    };
    all.into_iter().map(|cr| (key(&cr), Arc::new(cr))).collect()
}

/// The kind of a chart, with the settings that allow what a custom resource asks for.
fn of_chart(chart: Chart, kind: Option<&str>) -> Result<Arc<FleetKind>, CliError> {
    let names = Names::of_chart(&chart);
    let (kind, group) = match kind.map(|word| word.split_once('.').unwrap_or((word, ""))) {
        Some((kind, "")) => (kind.to_owned(), names.group),
        Some((kind, group)) => (kind.to_owned(), group.to_owned()),
        None => (names.kind, names.group),
    };
    let gvk = Gvk::new(&group, &names.version, &kind);
    let settings = kinds(None, &gvk)?.into_iter().next();
    let settings = settings.ok_or_else(|| CliError(format!("{kind} is not a kind of custom resources")))?;
    Ok(FleetKind::new(settings, chart))
}

/// The kinds of a watches file, with their charts.
fn of_watches(file: &Path) -> Result<Vec<Arc<FleetKind>>, CliError> {
    let wrong = |why: String| CliError(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
    let folder = std::path::absolute(file).map_err(|e| wrong(e.to_string()))?;
    let folder: PathBuf = folder.parent().map(Path::to_owned).unwrap_or_default();
    if text.contains(&format!("kind: {KIND}")) {
        return of_definitions(parse_manifest(&text).map_err(&wrong)?, &folder).map_err(|e| wrong(e.0));
    }
    let parse = |base: &Path| watches::parse(&text, base).map_err(|e| wrong(e.to_string()));
    let mut watches = parse(&folder)?;
    // Two checkouts are compared by their own charts; an operator's working directory is elsewhere.
    let is_missing = |kind: &Kind| matches!(&kind.chart, ChartRef::Path(path) if !path.exists());
    if watches.kinds.iter().any(is_missing) {
        watches = parse(&std::env::current_dir().map_err(CliError::new)?)?;
    }
    let load = |kind: Kind| {
        let chart = chart_of(&kind).map_err(|why| wrong(format!("{}: {why}", kind.gvk)))?;
        Ok(FleetKind::new(kind, chart))
    };
    watches.kinds.into_iter().map(load).collect()
}

/// The kinds of the `ChartDefinition`s among these objects, with their charts.
fn of_definitions(objects: Vec<Object>, folder: &Path) -> Result<Vec<Arc<FleetKind>>, CliError> {
    let wanted = definition::gvk().kind_group();
    let definitions = objects.into_iter().filter(|object| object.gvk.kind_group() == wanted);
    definitions
        .map(|object| {
            let named = |why: FieldError| CliError(format!("{KIND} {}: {why}", object.name));
            let spec = Spec::read(&Value::Object(object.body.clone())).map_err(named)?;
            let chart = chart_of_definition(&spec, folder).map_err(|e| named(e.0.into()))?;
            let kind = spec.names(&chart).and_then(|names| spec.kind(&names, folder)).map_err(named)?;
            Ok(FleetKind::new(kind, chart))
        })
        .collect()
}

fn chart_of_definition(spec: &Spec, folder: &Path) -> Result<Chart, CliError> {
    let elsewhere =
        |what: &str| Err(format!("its chart {what} of the cluster; compare it with --chart and --then-chart").into());
    let place = match spec.place(folder)? {
        // As for a watches file.
        ChartPlace::Path(path) if !path.exists() => spec.place(&std::env::current_dir().map_err(CliError::new)?)?,
        place => place,
    };
    match place {
        ChartPlace::Path(path) => Ok(read(&ChartRef::Path(path), &Proof::default())?),
        ChartPlace::ConfigMap(..) => elsewhere("is in a ConfigMap"),
        ChartPlace::Fetched(fetched) if fetched.credentials.is_some() || fetched.keyring.is_some() => {
            elsewhere("needs a login or keys")
        }
        ChartPlace::Fetched(Fetched { chart, repository, version, proof, .. }) => {
            let wanted = WantedChart { chart, repo: repository, version };
            Ok(fetch_chart(&wanted, &proof, &Credentials::default())?)
        }
    }
}

/// The kinds with another version of a chart: the only one, or the ones with the same name.
fn with_chart(now: &[Arc<FleetKind>], chart: &Chart) -> Result<Vec<Arc<FleetKind>>, CliError> {
    let name = chart.metadata.name.clone();
    let replaces = |served: &FleetKind| now.len() == 1 || served.chart.metadata.name == name;
    if !now.iter().any(|served| replaces(served)) {
        let known: Vec<&str> = now.iter().map(|served| served.chart.metadata.name.as_str()).collect();
        return Err(CliError(format!(
            "--then-chart is the chart {name}, and the watches file has the charts {}",
            known.join(", ")
        )));
    }
    let with = |served: &Arc<FleetKind>| {
        if !replaces(served) {
            return Arc::clone(served);
        }
        let mut chart = chart.clone();
        chart.refer_to(&served.chart.schema_documents);
        FleetKind::new(served.kind.clone(), chart)
    };
    Ok(now.iter().map(with).collect())
}
