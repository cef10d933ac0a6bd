//! `tillerman lint`: reports faults of charts, in the words and with the flags of `helm lint`; and with a
//! `watches.yaml`.

use crate::chart;
use crate::cli::common::colours::colours;
use crate::cli::common::error::CliError;
use crate::cli::common::explanation;
use crate::cli::common::value_args::ValueArgs;
use crate::cli::common::values_files;
use crate::crd;
use crate::host;
use crate::kind::placement::{ClusterScoped, Namespaces};
use crate::kind::{self, ChartRef, Kind};
use crate::lint::{self, Severity};
use crate::render::KubeVersion;
use crate::template::yaml;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Charts, and values to try them with.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
pub struct LintArgs {
    /// The charts: directories or .tgz archives. A file NAME.yaml is read as a watches.yaml, its charts from the working directory.
    #[arg(required = true, value_name = "PATH")]
    charts: Vec<PathBuf>,
    #[command(flatten)]
    values: ValueArgs,
    /// Fail on warnings too; look for values that no template uses or that have no default, and for items of lists that
    /// exist twice.
    #[arg(long)]
    strict: bool,
    /// Print warnings and errors only.
    #[arg(long)]
    quiet: bool,
    /// Check the charts in charts/ too.
    #[arg(long)]
    with_subcharts: bool,
    /// Do not check values against values.schema.json.
    #[arg(long)]
    skip_schema_validation: bool,
    /// The Kubernetes version to render for, and in which to look for deprecated APIs.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Namespace to render for.
    #[arg(short, long, default_value = "default", env = "HELM_NAMESPACE")]
    namespace: String,
    /// Do not show the lines of the chart that caused an error.
    #[arg(long)]
    no_explain: bool,
    /// Accepted as of `tillerman template`: errors are explained unless --no-explain is given.
    #[arg(long, hide = true)]
    explain: bool,
}

/// Prints findings chart by chart; fails when one is an error, with --strict also when one is a warning.
pub fn run(args: &LintArgs) -> Result<(), CliError> {
    let mut settings = lint::LintSettings {
        strict: args.strict,
        skip_schema: args.skip_schema_validation,
        namespace: args.namespace.clone(),
        kube_version: None,
        options: host::options().explain(!args.no_explain),
    };
    if let Some(version) = args.kube_version.as_deref().filter(|v| !v.is_empty()) {
        let parsed =
            KubeVersion::parse(version).map_err(|e| CliError(format!("invalid kube version '{version}': {e}")))?;
        settings.kube_version = Some(parsed.version);
    }
    let mut charts = args.charts.clone();
    if args.with_subcharts {
        for chart in &args.charts {
            add_subcharts(&chart.join("charts"), &mut charts);
        }
    }
    let values = args.values.merge()?;
    let tolerated = if args.strict { Severity::Warning } else { Severity::Error };
    let (mut out, mut failed, mut noticed) = (String::new(), 0, 0);
    for chart in &charts {
        let result = if is_watches(chart) {
            watches(chart)
        } else {
            lint::run(chart, &values, &settings).map_err(CliError::from)
        };
        let is_noticed = result.as_ref().map_or(true, |report| report.has(Severity::Warning));
        noticed += usize::from(is_noticed);
        if args.quiet && !is_noticed {
            continue;
        }
        failed += usize::from(result.as_ref().map_or(true, |report| report.has(tolerated)));
        let _ = writeln!(out, "==> Linting {}", chart.display());
        match result {
            Err(e) => drop(writeln!(out, "Error {e}")),
            Ok(report) => {
                let shown = |m: &&lint::Message| !args.quiet || m.severity > Severity::Info;
                for message in report.messages.iter().filter(shown) {
                    let _ = writeln!(out, "{message}");
                    if let Some(diagnostic) = message.diagnostic.as_ref().filter(|_| !args.no_explain) {
                        out.push_str(&explanation::text(diagnostic, &args.values, paints()));
                    }
                }
            }
        }
        out.push('\n');
    }
    print!("{out}");
    let summary = format!("{} chart(s) linted, {failed} chart(s) failed", charts.len());
    if failed > 0 {
        return Err(CliError(summary));
    }
    if !args.quiet || noticed > 0 {
        println!("{summary}");
    }
    Ok(())
}

fn is_watches(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The errors of a `watches.yaml`. This includes faults that the operator ignores, because existing files must still
/// start.
fn watches(path: &Path) -> Result<lint::LintReport, CliError> {
    let text = std::fs::read_to_string(path).map_err(CliError::new)?;
    let base = std::env::current_dir().map_err(CliError::new)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let message = |severity, text| lint::Message { severity, path: name.clone().into_owned(), text, diagnostic: None };
    let messages = match kind::watches::parse(&text, &base) {
        Err(e) => vec![message(Severity::Error, e.to_string())],
        Ok(watches) => {
            let unknown = watches.warnings.into_iter().map(|text| message(Severity::Error, text));
            let missing = watches.kinds.iter().filter_map(|kind| match &kind.chart {
                ChartRef::Path(chart) if !chart.exists() => {
                    let chart = chart.strip_prefix(&base).unwrap_or(chart).display();
                    Some(message(Severity::Warning, format!("{}: the chart {chart} does not exist", kind.gvk)))
                }
                _ => None,
            });
            let opened = watches
                .kinds
                .iter()
                .flat_map(|kind| opened(kind).into_iter().map(move |text| format!("{}: {text}", kind.gvk)));
            let opened = opened.map(|text| message(Severity::Info, text)).collect::<Vec<_>>();
            let chosen = watches.kinds.iter().flat_map(|kind| {
                let chosen = chosen_accounts(kind).into_iter();
                chosen.map(|text| message(Severity::Warning, format!("{}: {text}", kind.gvk)))
            });
            let chosen = chosen.collect::<Vec<_>>();
            let unusable =
                watches.kinds.iter().filter_map(|kind| Some(message(Severity::Error, kind.unusable.clone()?)));
            let definitions = definitions(path.parent().unwrap_or_else(|| Path::new("")));
            let lost = watches.kinds.iter().filter_map(|kind| {
                let (file, definition) = definitions.iter().find(|(_, definition)| is_of(definition, kind))?;
                let fault = crd::status_fault(definition, &kind.gvk.version)?;
                let text =
                    format!("{}: a status is lost, because of {file}: {fault}. {}", kind.gvk, crd::STATUS_REMEDY);
                Some(message(Severity::Warning, text))
            });
            unknown.chain(missing).chain(unusable).chain(lost.collect::<Vec<_>>()).chain(chosen).chain(opened).collect()
        }
    };
    Ok(lint::LintReport { messages })
}

/// The folder in which projects of operator-sdk have the definitions of their kinds.
const DEFINITIONS: &str = "config/crd/bases";

/// The definitions of a project's kinds, with the names of their files.
fn definitions(project: &Path) -> Vec<(String, Value)> {
    let Ok(entries) = std::fs::read_dir(project.join(DEFINITIONS)) else { return Vec::new() };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(project.join(DEFINITIONS).join(&name)).ok()?;
        Some((format!("{DEFINITIONS}/{name}"), yaml::parse(text.as_bytes()).ok()?))
    };
    names.into_iter().filter_map(read).collect()
}

fn is_of(definition: &Value, kind: &Kind) -> bool {
    let is = |pointer: &str, text: &str| definition.pointer(pointer).and_then(Value::as_str) == Some(text);
    is("/spec/group", &kind.gvk.group) && is("/spec/names/kind", &kind.gvk.kind)
}

/// Values with which editors of custom resources of a kind choose accounts, of a chart that is here.
fn chosen_accounts(kind: &Kind) -> Vec<String> {
    let ChartRef::Path(path) = &kind.chart else { return Vec::new() };
    let Ok(chart) = chart::load(path) else { return Vec::new() };
    lint::accounts::chosen(&chart, &values_files::beside(path, &chart), &kind.overrides.values)
}

/// The power of editors of custom resources of a kind beyond its chart.
fn opened(kind: &Kind) -> Vec<String> {
    let allowed = kind.allow.iter().map(|reach| format!("allow: {}: {}", reach.field(), reach.opens()));
    let mut texts: Vec<String> = allowed.collect();
    let placement = &kind.placement;
    if placement.namespaces == Namespaces::Any {
        texts.push(
            "namespaces: any, as with helm-operator: where the chart takes a namespace from values, an editor of a custom resource can \
             make objects and read objects with lookup in every namespace. namespaces: own bounds both"
                .to_owned(),
        );
    }
    if placement.cluster_scoped == ClusterScoped::Any {
        texts.push(
            "clusterScoped: true, as with helm-operator: the chart can make objects such as ClusterRoleBindings. clusterScoped: false, or a \
             list of kinds, bounds it"
                .to_owned(),
        );
    }
    texts
}

fn paints() -> bool {
    std::io::stdout().is_terminal() && colours()
}

/// The charts below a folder, in the order of a walk by name.
fn add_subcharts(folder: &Path, charts: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "Chart.yaml" {
            charts.push(folder.to_owned());
        } else if lint::is_archive(&name) {
            charts.push(path.clone());
        }
        if path.is_dir() && !path.is_symlink() {
            add_subcharts(&path, charts);
        }
    }
}
