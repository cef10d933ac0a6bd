//! Chart + values → the objects that Helm would send to the API server.

mod capabilities;
mod coalesce;
mod dependencies;
mod diagnostic;
mod explain;
mod fixed;
mod lint;
mod objects;
pub mod order;
mod plain_json;
pub mod provenance;
#[cfg(feature = "schema")]
mod schema;
#[cfg(not(feature = "schema"))]
#[path = "schema_absent.rs"]
mod schema;
mod schema_error;

use crate::chart::{Chart, File, Metadata, Values};
pub use crate::template::budget::Stop;
use crate::template::budget::{self, Budget, Spent};
use crate::template::function::{Context, Function, Host};
use crate::template::functions;
use crate::template::go::{self, Functions, Renderer, TemplateSet};
use crate::template::value::{Map, MapType, Value, without_cycles};
use crate::template::version;
use crate::template::yaml;
pub use capabilities::KubeVersion;
use dependencies::ChartNode;
pub use diagnostic::Diagnostic;
use explain::FileOrigins;
pub use explain::{Explanation, RenderedExcerpt};
pub use fixed::Fixed;
pub use go::Limits;
pub use lint::{lint_files, lint_values};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// The subject of a rendering.
#[derive(Clone, Debug)]
pub struct Release {
    /// Name of the release.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Revision, from 1.
    pub revision: u64,
    /// Whether this is an upgrade (`.Release.IsUpgrade`), else an install.
    pub is_upgrade: bool,
}

impl Release {
    /// The first revision of a release, as an install makes it.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: namespace.into(), revision: 1, is_upgrade: false }
    }
}

/// The `.Capabilities` that templates see. The default is what Helm assumes without a cluster.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The API server's version, such as `v1.37.0`.
    pub kube_version: String,
    /// Group-versions and group-version-kinds that the API server serves (`apps/v1`, `apps/v1/Deployment`).
    pub api_versions: Vec<String>,
}

/// A rendered object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The template it comes from, such as `web/templates/service.yaml`.
    pub source: String,
    /// The document's text.
    pub text: String,
    /// `apiVersion` of the document.
    pub api_version: String,
    /// `kind` of the document.
    pub kind: String,
    /// `metadata.name` of the document.
    pub name: String,
}

/// A rendered hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hook {
    /// The object.
    pub manifest: Manifest,
    /// Helm's events, such as `pre-install`.
    pub events: Vec<String>,
    /// `helm.sh/hook-weight`.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`.
    pub delete_policies: Vec<String>,
    /// `helm.sh/hook-output-log-policy`.
    pub output_log_policies: Vec<String>,
}

/// The result of rendering a chart.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Objects in Helm's order of installation.
    pub manifests: Vec<Manifest>,
    /// Hooks in Helm's order.
    pub hooks: Vec<Hook>,
    /// Hooks of events that Helm does not know and skips, in the order of their files.
    pub unknown: Vec<Hook>,
    /// NOTES.txt.
    pub notes: String,
    /// Files of `crds/` of the chart and its enabled dependencies, in Helm's order, with full paths.
    pub crds: Vec<File>,
}

impl Rendered {
    /// The manifest text that Helm keeps in a release: every document with its `# Source:` line.
    pub fn manifest(&self) -> String {
        let around = "---\n# Source: \n\n".len();
        let length = self.manifests.iter().map(|m| m.source.len() + m.text.len() + around).sum();
        let mut text = String::with_capacity(length);
        for manifest in &self.manifests {
            text.extend(["---\n# Source: ", &manifest.source, "\n", &manifest.text, "\n"]);
        }
        text
    }
}

/// How a chart is rendered, besides its inputs. The default has [`Fixed`] surroundings.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Do not check values against the charts' schemas.
    pub skip_schema: bool,
    /// The surroundings that functions may ask; rendering itself has no clock, randomness, network or cluster.
    pub host: Arc<dyn Host + Send + Sync>,
    /// The limits of a rendering.
    pub limits: Limits,
    /// Ends the rendering when it is stopped.
    pub stop: Option<Stop>,
    /// Remember which template each rendered line comes from, for [`RenderedExcerpt::origin`]; costs some memory.
    pub explain: bool,
    /// Functions of the program's own, which Go templates may call, too.
    pub functions: Vec<&'static Function>,
    /// Render as `helm lint` does: neither an install nor an upgrade, and `required` and `fail` stop nothing.
    pub lint: bool,
}

impl Options {
    /// Options with these surroundings, and all else as in the default.
    pub fn new(host: impl Host + Send + Sync + 'static) -> Self {
        Self::shared(Arc::new(host))
    }

    /// The same, with surroundings that others have, too.
    pub fn shared(host: Arc<dyn Host + Send + Sync>) -> Self {
        Self {
            skip_schema: false,
            host,
            limits: Limits::default(),
            stop: None,
            explain: false,
            functions: Vec::new(),
            lint: false,
        }
    }

    /// The limits of a rendering.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Ends the rendering when it is stopped.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Whether values are not checked against the charts' schemas.
    #[must_use]
    pub fn skip_schema(self, skip_schema: bool) -> Self {
        Self { skip_schema, ..self }
    }

    /// Whether it is remembered which template each rendered line comes from.
    #[must_use]
    pub fn explain(self, explain: bool) -> Self {
        Self { explain, ..self }
    }

    /// Adds a function of the program's own, which Go templates may call. It hides Helm's of the same name.
    #[must_use]
    pub fn function(mut self, function: &'static Function) -> Self {
        self.functions.push(function);
        self
    }

    /// Whether to render as `helm lint` does.
    #[must_use]
    pub fn lint(self, lint: bool) -> Self {
        Self { lint, ..self }
    }

    /// Options for a rendering whose objects are shown and never applied: it does not wait for keys.
    pub fn for_a_look() -> Self {
        Self::new(Fixed::for_a_look())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Fixed::default())
    }
}

/// The rendered templates of a chart, before its documents are checked.
#[derive(Clone, Debug, Default)]
pub struct RenderedFiles {
    /// Each template's text by its path, in the order of the paths.
    pub texts: Vec<(String, String)>,
    /// NOTES.txt.
    pub notes: String,
    /// Files of `crds/` of the chart and its enabled dependencies, in Helm's order, with full paths.
    pub crds: Vec<File>,
    /// The lines of templates that the texts come from, if an explanation was requested.
    origins: FileOrigins,
}

impl RenderedFiles {
    /// The manifests and hooks of the texts, in Helm's order. The error says which file is not YAML.
    pub fn sort(self) -> Result<Rendered, Diagnostic> {
        let order::Sorted { manifests, hooks, unknown } = order::sort(&self.texts).map_err(|error| {
            let problem = error.to_string();
            let rendered = explain::rendered(&problem, &self.texts, &self.origins);
            let explanation = Box::new(Explanation { rendered, ..Explanation::default() });
            Diagnostic { explanation, ..Diagnostic::rendering(problem) }
        })?;
        Ok(Rendered { manifests, hooks, unknown, notes: self.notes, crds: self.crds })
    }
}

/// The files of `crds/` of a chart and the dependencies that these values enable.
pub fn crds(chart: &Chart, values: &Values) -> Result<Vec<File>, Diagnostic> {
    let root = resolve(chart, &dependencies::to_map(values))?;
    let mut crds = Vec::new();
    gather_crds(&root, root.name(), &mut crds);
    Ok(crds)
}

fn resolve<'a>(chart: &'a Chart, values: &Map) -> Result<ChartNode<'a>, Diagnostic> {
    ChartNode::resolve(chart, values)
        .map_err(|e| Diagnostic::values(format!("chart dependencies processing failed: {}", mismatch(&e))))
}

fn mismatch(e: &coalesce::TypeMismatch) -> String {
    format!("type mismatch on {}: {}", e.chart, not_a_bool(&e.value))
}

/// Whether the schemas of a chart and its dependencies refuse values; so does one that cannot be evaluated within the limits.
pub fn violates(chart: &Chart, values: &Values, limits: Limits, stop: &Stop) -> bool {
    let check = || {
        let user = dependencies::to_map(values);
        let root = resolve(chart, &user)?;
        let values = coalesce::coalesce_values(&root, &user).map_err(|e| Diagnostic::values(mismatch(&e)))?;
        Ok(schema::violations(&root, &values).is_some())
    };
    let run = || Budget::new(limits).until(Some(stop)).run(|| without_cycles(check));
    catch_unwind(AssertUnwindSafe(run)).map_or(true, |found: Result<bool, Diagnostic>| found.unwrap_or(true))
}

/// Renders a chart.
///
/// `values` are the user's (a custom resource's `spec`); they are coalesced with the chart's own, checked
/// against its schemas, and given to the templates. All of it together stays within the limits.
pub fn render(
    chart: &Chart,
    values: &Values,
    release: &Release,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<Rendered, Diagnostic> {
    guarded(chart, options, || within_budget(chart, values, release, capabilities, options)?.sort())
}

/// [`render`] without its last step.
pub fn files(
    chart: &Chart,
    values: &Values,
    release: &Release,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<RenderedFiles, Diagnostic> {
    guarded(chart, options, || within_budget(chart, values, release, capabilities, options))
}

/// Runs something within the limits; a panic is an error of this rendering.
fn guarded<T>(chart: &Chart, options: &Options, run: impl FnOnce() -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
    let mut budget = Budget::new(options.limits).until(options.stop.as_ref());
    let run = || budget.run(|| without_cycles(run));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Diagnostic::fault(&chart.metadata.name)))
}

fn within_budget(
    chart: &Chart,
    values: &Values,
    release: &Release,
    capabilities: &Capabilities,
    options: &Options,
) -> Result<RenderedFiles, Diagnostic> {
    let spent = |spent: Spent| Diagnostic::rendering(spent.to_string());
    let user = dependencies::to_map(values);
    let kube = KubeVersion::parse(&capabilities.kube_version)
        .map_err(|e| Diagnostic::values(format!("invalid kube version '{}': {e}", capabilities.kube_version)))?;
    let root = resolve(chart, &user)?;
    budget::work(1).map_err(spent)?;
    let values = coalesce::coalesce_values(&root, &user).map_err(|e| Diagnostic::values(mismatch(&e)))?;
    budget::work(1).map_err(spent)?;
    if !options.skip_schema
        && let Some(text) = schema::violations(&root, &values)
    {
        budget::work(1).map_err(spent)?;
        return Err(Diagnostic::invalid(text, root.name()));
    }
    let wanted = &root.metadata.kube_version;
    if !wanted.is_empty() && !version::is_compatible_range(wanted, &kube.normalized) {
        return Err(Diagnostic::rendering(format!(
            "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {}",
            kube.version
        )));
    }

    let (files, origins) = render_files(&root, &values, release, (capabilities, kube), options)?;
    let notes_path = format!("{}/templates/NOTES.txt", root.name());
    let mut rendered = RenderedFiles { origins, ..RenderedFiles::default() };
    for (name, text) in files {
        if name.ends_with("NOTES.txt") {
            if name == notes_path {
                rendered.notes = text;
            }
        } else {
            rendered.texts.push((name, text));
        }
    }
    gather_crds(&root, root.name(), &mut rendered.crds);
    Ok(rendered)
}

/// The text of every file that is rendered, by name, and where it comes from.
fn render_files(
    root: &ChartNode<'_>,
    values: &Map,
    release: &Release,
    (capabilities, kube): (&Capabilities, KubeVersion),
    options: &Options,
) -> Result<(BTreeMap<String, String>, FileOrigins), Diagnostic> {
    let release_map = release_map(release);
    if let Value::Map(map) = &release_map
        && options.lint
    {
        map.insert("IsInstall", false);
        map.insert("Revision", Value::int(0));
    }
    let capabilities = objects::capabilities(capabilities, &kube);
    let (host, limits, skip_schema) = (&options.host, &options.limits, options.skip_schema);
    let objects = Objects { release, release_map, capabilities, kube, host, limits, skip_schema };
    let mut templates = BTreeMap::new();
    let mut files = BTreeMap::new();
    let mut origins = FileOrigins::new();
    let values = Value::Map(values.with_type(MapType::Values));
    objects.gather(root, root.name(), Some(values), &mut templates, &mut files)?;
    execute(root.chart, &templates, options, &mut files, &mut origins)?;
    Ok((files, origins))
}

/// Whether Helm accepts a text as the name of a release: at most 53 characters of a DNS name. The error is Helm's.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("release name \"\": no name provided".into());
    }
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |part: &str| {
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part.chars().all(|c| alphanumeric(c) || c == '-')
    };
    if name.len() <= 53 && name.split('.').all(label) {
        return Ok(());
    }
    let name = go::quote::quoted(name.as_bytes());
    Err(format!(
        "release name {name}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
    ))
}

/// Renders a text without a chart, as `--name-template` does.
pub fn text(template: &str, options: &Options) -> Result<String, String> {
    text_with(template, options, functions::table())
}

/// [`text`] with other functions.
pub fn text_with(template: &str, options: &Options, functions: Arc<Functions>) -> Result<String, String> {
    let mut set = TemplateSet::new(functions);
    set.parse("name-template", template).map_err(|e| go::unmarked(&e.original))?;
    let context = Context { host: Rc::new(Arc::clone(&options.host)) };
    let rendered = Renderer::new(&set, context, options.limits).render("name-template", Value::Nil);
    rendered.map(|text| String::from_utf8_lossy(&text).into_owned()).map_err(|e| go::unmarked(&e.original))
}

/// Go's `%t` of a value that is not a boolean, which Helm prints here.
fn not_a_bool(value: &Value) -> String {
    match value {
        Value::Nil => "%!t(<nil>)".into(),
        Value::Bool(b) => b.to_string(),
        other => {
            let text = go::fmt::sprintf(b"%t", std::slice::from_ref(other)).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}

fn release_map(release: &Release) -> Value {
    let map = Map::new(MapType::Any);
    map.insert("Name", release.name.as_str());
    map.insert("Namespace", release.namespace.as_str());
    map.insert("IsUpgrade", release.is_upgrade);
    map.insert("IsInstall", !release.is_upgrade);
    map.insert("Revision", Value::int(i64::try_from(release.revision).unwrap_or(i64::MAX)));
    map.insert("Service", "Helm");
    Value::Map(map)
}

/// A template of a chart, and the root object it sees.
struct Template<'a> {
    text: &'a Arc<Vec<u8>>,
    root: Map,
    base_path: String,
}

/// The data that all charts of a rendering see.
struct Objects<'a> {
    release: &'a Release,
    release_map: Value,
    capabilities: Value,
    kube: KubeVersion,
    host: &'a Arc<dyn Host + Send + Sync>,
    limits: &'a Limits,
    skip_schema: bool,
}

impl Objects<'_> {
    /// Gathers the Go templates of a chart and its dependencies by their full path, gives each chart its root object,
    /// and renders the charts that are written in minijinja.
    fn gather<'a>(
        &self,
        node: &ChartNode<'a>,
        path: &str,
        values: Option<Value>,
        templates: &mut BTreeMap<String, Template<'a>>,
        files: &mut BTreeMap<String, String>,
    ) -> Result<Map, Diagnostic> {
        let root = Map::new(MapType::Values);
        let subcharts = Map::new(MapType::Any);
        let mut charts = serde_json::Map::new();
        let values = values.unwrap_or_else(|| Value::Map(Map::new(MapType::Values)));
        root.insert("Chart", objects::chart(&node.metadata, !path.contains('/')));
        root.insert("Files", Value::Object(Rc::new(objects::Files::new(&node.chart.files))));
        root.insert("Release", self.release_map.clone());
        root.insert("Capabilities", self.capabilities.clone());
        root.insert("Values", values.clone());
        root.insert("Subcharts", subcharts.clone());
        for child in &node.dependencies {
            let below = match &values {
                Value::Map(values) => match values.get(child.name()) {
                    Some(Value::Map(table)) => Some(Value::Map(table.with_type(MapType::Values))),
                    _ => None,
                },
                _ => None,
            };
            let path = format!("{path}/charts/{}", child.name());
            let sub = self.gather(child, &path, below, templates, files)?;
            subcharts.insert(child.name(), sub.with_type(MapType::Any));
        }
        for child in &node.computed {
            let (child, values) = self.compute(node, child, path, &values)?;
            let path = format!("{path}/charts/{}", child.name());
            let shown = serde_json::json!({"values": plain_json::of(&values), "chart": chart_fields(&child.metadata)});
            charts.insert(child.name().to_owned(), shown);
            self.gather(&child, &path, Some(values), templates, files)?;
        }
        if node.chart.is_minijinja() {
            let mut context = self.jinja_context(&node.metadata, &values);
            context["subcharts"] = charts.into();
            files.extend(node.chart.jinja(path)?.render(&context, self.host, self.limits)?);
            return Ok(root);
        }
        for file in &node.chart.templates {
            let base = file.name.rsplit('/').next().unwrap_or(&file.name);
            if node.chart.is_library() && !base.starts_with('_') {
                continue;
            }
            let template = Template { text: &file.data, root: root.clone(), base_path: format!("{path}/templates") };
            templates.insert(format!("{path}/{}", file.name), template);
        }
        Ok(root)
    }

    /// A dependency with the values that a template of its parent makes, over its own. Nothing else reaches it, so a custom resource can only
    /// set what the template passes on.
    fn compute<'a>(
        &self,
        parent: &ChartNode<'a>,
        child: &ChartNode<'a>,
        path: &str,
        values: &Value,
    ) -> Result<(ChartNode<'a>, Value), Diagnostic> {
        let name = format!("{path}/{}", parent.chart.values_template(child.name()).unwrap_or_default());
        let context = self.jinja_context(&parent.metadata, values);
        let text = parent.chart.jinja(path)?.render_one(&name, &context, self.host, self.limits)?;
        let wrong =
            |why: &str| Diagnostic::rendering(format!("{name}: the values of the dependency {}: {why}", child.name()));
        let made = match yaml::parse(text.as_bytes()) {
            Ok(serde_json::Value::Object(made)) => dependencies::to_map(&made),
            Ok(serde_json::Value::Null) => Map::new(MapType::Any),
            Ok(_) => return Err(wrong("they must be a table")),
            Err(e) => return Err(wrong(&e.to_string())),
        };
        // A loop that prints nothing leaves a key without a value, which keeps the default.
        coalesce::remove_nulls(&made);
        let problem = |e: &coalesce::TypeMismatch| wrong(&mismatch(e));
        let child = child.resolve_computed(&made).map_err(|e| problem(&e))?;
        let values = coalesce::coalesce_values(&child, &made).map_err(|e| problem(&e))?;
        if !self.skip_schema
            && let Some(text) = schema::violations(&child, &values)
        {
            return Err(Diagnostic::rendering(format!("{name}: {text}")));
        }
        Ok((child, Value::Map(values.with_type(MapType::Values))))
    }

    fn jinja_context(&self, metadata: &Metadata, values: &Value) -> serde_json::Value {
        serde_json::json!({
            "values": plain_json::of(values),
            "release": {
                "name": self.release.name,
                "namespace": self.release.namespace,
                "revision": self.release.revision,
                "isUpgrade": self.release.is_upgrade,
                "isInstall": !self.release.is_upgrade,
                "service": "Helm",
            },
            "chart": chart_fields(metadata),
            "capabilities": {
                "kubeVersion": {
                    "version": self.kube.version,
                    "major": self.kube.major.to_string(),
                    "minor": self.kube.minor.to_string(),
                },
                "apiVersions": plain_json::of(&objects::api_versions(&self.capabilities)),
            },
        })
    }
}

/// Chart.yaml, as minijinja templates see it.
fn chart_fields(metadata: &Metadata) -> serde_json::Value {
    let mut chart = serde_json::to_value(metadata).unwrap_or_default();
    // Absent fields of Chart.yaml are empty, so that a template may print them.
    for field in ["appVersion", "description", "home", "icon"] {
        if let Some(entries) = chart.as_object_mut() {
            entries.entry(field).or_insert_with(|| "".into());
        }
    }
    chart
}

/// The templates' parsed form: that of an earlier rendering of the chart, if the same templates took part in it.
fn compile(
    chart: &Chart,
    names: &[&String],
    templates: &BTreeMap<String, Template<'_>>,
    own: &[&'static Function],
) -> Result<Arc<TemplateSet>, go::Error> {
    chart.memory.templates.get_or_make(
        |set: &TemplateSet| {
            let files = names.iter().map(|name| (name.as_str(), templates[*name].text));
            set.is_made_of(files) && set.has_own_functions(own)
        },
        || {
            let table = || Arc::new(Functions::new(functions::all()).with_own(own));
            let mut set = TemplateSet::new(if own.is_empty() { functions::table() } else { table() });
            for name in names {
                set.parse_shared(name, templates[*name].text)?;
            }
            Ok(set)
        },
    )
}

/// Executes all templates that are not partials.
fn execute(
    chart: &Chart,
    templates: &BTreeMap<String, Template<'_>>,
    options: &Options,
    files: &mut BTreeMap<String, String>,
    origins: &mut FileOrigins,
) -> Result<(), Diagnostic> {
    // Deeper paths first, then the later names: a parent's `define` is parsed last and wins.
    let mut names: Vec<&String> = templates.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse((name.matches('/').count(), name.as_str())));
    let set = compile(chart, &names, templates, &options.functions)?;
    let context = Context { host: Rc::new(Arc::clone(&options.host)) };
    let mut renderer = Renderer::new(&set, context, options.limits);
    renderer.set_lenient(options.lint);
    for name in names {
        if name.rsplit('/').next().is_some_and(|base| base.starts_with('_')) {
            continue;
        }
        let template = &templates[name];
        let about = Map::new(MapType::Values);
        about.insert("Name", name.as_str());
        about.insert("BasePath", template.base_path.as_str());
        template.root.insert("Template", about);
        let root = Value::Map(template.root.clone());
        let text = if options.explain {
            let (text, from) = renderer.render_traced(name, root)?;
            origins.insert(name.clone(), from);
            text
        } else {
            renderer.render(name, root)?
        };
        // No manifest may have bytes that are not UTF-8, but `order` must see them to say so.
        let text = String::from_utf8(text).unwrap_or_else(|e| order::escaped(name, e.as_bytes()));
        files.insert(name.clone(), text);
    }
    Ok(())
}

fn gather_crds(node: &ChartNode<'_>, path: &str, crds: &mut Vec<File>) {
    crds.extend(node.chart.crds().map(|f| File { name: format!("{path}/{}", f.name), data: Arc::clone(&f.data) }));
    for child in node.dependencies.iter().chain(&node.computed) {
        gather_crds(child, &format!("{path}/charts/{}", child.name()), crds);
    }
}
