//! The kinds and charts now and then, and the custom resources as they are on both sides.

use super::FleetArgs;
use super::read::custom_resources;
use crate::chart::Chart;
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::kinds;
use crate::crd::Names;
use crate::fleet::demands::Demands;
use crate::kind::selector::matches;
use crate::kind::{ChartRef, Kind, Proof, watches};
use crate::object::Gvk;
use crate::reconcile::charts::{chart_of, read};
use crate::reconcile::offline::PlainResource;
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A kind with its chart.
pub struct FleetKind {
    /// The settings of the kind.
    pub kind: Kind,
    /// The chart.
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
        let mut cases = Vec::new();
        for (key, cr) in by_key(now) {
            let then = match changed.swap_remove(&key) {
                None if args.prune => None,
                None => Some(Arc::clone(&cr)),
                then => then,
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
