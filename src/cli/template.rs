//! `tillerman template`: renders a chart and prints exactly what `helm template` of Helm 4.3.1 prints.

use super::CliError;
use super::chart_path::{ChartPathArgs, ON_ERROR};
use super::dependency;
use super::explain::{self, ExplainArgs};
use super::values::ValueArgs;
use crate::chart::{Chart, pattern};
use crate::host;
use crate::render::{self, Capabilities, Diagnostic, KubeVersion, Release, Rendered, order};
use crate::source::Settings;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The arguments of `helm template` that a rendering without a cluster has.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
pub struct Args {
    /// The release's name and the chart: a directory, a .tgz archive, a link, oci://… or repository/chart.
    #[arg(value_name = "[NAME] CHART", required = true, num_args = 1..)]
    positional: Vec<String>,
    /// Namespace of the release.
    #[arg(short, long, default_value = "default", env = "HELM_NAMESPACE")]
    namespace: String,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    chart_path: ChartPathArgs,
    /// Fetch dependencies that are not in charts/ first.
    #[arg(long)]
    dependency_update: bool,
    /// Print the files of crds/ too.
    #[arg(long)]
    include_crds: bool,
    /// Accepted as Helm does: without --include-crds none are printed.
    #[arg(long)]
    skip_crds: bool,
    /// Do not print hooks.
    #[arg(long)]
    no_hooks: bool,
    /// Do not print hooks that are tests.
    #[arg(long)]
    skip_tests: bool,
    /// Print only what comes from these templates (patterns, relative to the chart).
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// Set `.Release.IsUpgrade`.
    #[arg(long)]
    is_upgrade: bool,
    /// The Kubernetes version to render for.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// More API versions that the cluster serves.
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// The release's name as a template.
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// Make up the release's name.
    #[arg(short, long)]
    generate_name: bool,
    /// Do not check values against values.schema.json.
    #[arg(long)]
    skip_schema_validation: bool,
    #[command(flatten)]
    explain: ExplainArgs,
    /// Print what was rendered even when it is not valid YAML.
    #[arg(long)]
    debug: bool,
    /// Write files into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// With --output-dir: a folder named as the release.
    #[arg(long)]
    release_name: bool,
    /// Flags of `helm template` that change nothing without a cluster.
    #[command(flatten)]
    ignored: Ignored,
}

/// Accepted so that a script written for Helm runs: they concern installing, which this command does not.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
struct Ignored {
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true)]
    take_ownership: bool,
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(long, hide = true)]
    render_subchart_notes: bool,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, visible_alias = "atomic", hide = true)]
    rollback_on_failure: bool,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(short, long, hide = true)]
    labels: Vec<String>,
    #[arg(long, hide = true)]
    timeout: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_parser = ["client", "true", "unset", ""])]
    dry_run: Option<String>,
    /// Helm asks the API server when it is set.
    #[arg(
        long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = ["false", "0", "f", "F", "FALSE", "False"], conflicts_with = "dry_run"
    )]
    validate: Option<String>,
}

/// Renders and prints.
pub fn run(args: &Args) -> Result<(), CliError> {
    let mut capabilities = Capabilities::default();
    if let Some(version) = args.kube_version.as_deref().filter(|v| !v.is_empty()) {
        let parsed =
            KubeVersion::parse(version).map_err(|e| CliError(format!("invalid kube version '{version}': {e}")))?;
        capabilities.kube_version = parsed.version;
    }
    capabilities.api_versions.extend(args.api_versions.iter().cloned());
    let (name, chart) = name_and_chart(args)?;
    let path = args.chart_path.locate(&chart)?;
    let values = args.values.merge()?;
    let chart = load(args, &path)?;
    render::check_name(&name).map_err(|e| CliError(format!("release name check failed: {e}")))?;
    let release = Release { name, namespace: args.namespace.clone(), revision: 1, is_upgrade: args.is_upgrade };
    let explain = args.explain.wanted();
    let options = render::Options { skip_schema: args.skip_schema_validation, explain, ..host::options() };
    let rendered = render::render(&chart, &values, &release, &capabilities, &options);
    // The process is about to end: the operating system takes memory back faster than piece by piece.
    std::mem::forget((chart, values));
    match rendered {
        Ok(rendered) => print(args, &rendered, &release.name),
        Err(e) => {
            if args.debug && e.rendering {
                println!();
            }
            let mut text = message(&e, args.debug);
            if explain {
                text = format!("{}{}", text.trim_end(), explain::after(&e, &args.values));
            }
            Err(CliError(text))
        }
    }
}

/// Loads the chart; with --dependency-update, dependencies that are missing are fetched first.
fn load(args: &Args, path: &Path) -> Result<Chart, CliError> {
    let chart = crate::chart::load(path).map_err(CliError::new)?;
    let incomplete = match installable(&chart) {
        Err(e) if args.dependency_update && !missing(&chart).is_empty() => e,
        result => return result.map(|()| chart),
    };
    if !path.is_dir() {
        return Err(incomplete);
    }
    let settings = Settings::from_env();
    let server = &args.chart_path.server;
    let registry = server.registry(&settings, &server.login()?, ON_ERROR)?;
    dependency::manager(path, &settings, &registry, server.keyring(), ON_ERROR)?.update()?;
    crate::chart::load(path).map_err(|e| CliError(format!("failed reloading chart after repo update: {e}")))
}

fn message(error: &Diagnostic, debug: bool) -> String {
    let message = &error.message;
    if error.rendering && !debug {
        return format!("{message}\n\nUse --debug flag to render out invalid YAML");
    }
    message.clone()
}

/// Helm's checks before a chart may be installed.
pub fn installable(chart: &Chart) -> Result<(), CliError> {
    let kind = &chart.metadata.r#type;
    if !matches!(kind.as_str(), "" | "application") {
        return Err(CliError(format!("{kind} charts are not installable")));
    }
    if chart.metadata.deprecated {
        eprintln!("level=WARN msg=\"this chart is deprecated\"");
    }
    let missing = missing(chart);
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError(format!(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch \
         missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    )))
}

/// The names of dependencies that are not in charts/.
fn missing(chart: &Chart) -> Vec<&str> {
    let has = |name: &str| chart.dependencies.iter().any(|c| c.metadata.name == name);
    chart.metadata.dependencies.iter().map(|d| d.name.as_str()).filter(|name| !has(name)).collect()
}

fn name_and_chart(args: &Args) -> Result<(String, String), CliError> {
    let fail = |text: &str| Err(CliError(text.into()));
    match args.positional.as_slice() {
        [name, chart] => {
            if args.generate_name {
                return fail("cannot set --generate-name and also specify a name");
            }
            if args.name_template.is_some() {
                return fail("cannot set --name-template and also specify a name");
            }
            Ok((name.clone(), chart.clone()))
        }
        [chart] => match &args.name_template {
            Some(template) => Ok((render::text(template, &host::options()).map_err(CliError)?, chart.clone())),
            None => Ok(("release-name".into(), chart.clone())),
        },
        many => fail(&format!("expected at most two arguments, unexpected arguments: {}", many[2..].join(", "))),
    }
}

fn print(args: &Args, rendered: &Rendered, name: &str) -> Result<(), CliError> {
    if let Some(folder) = &args.output_dir {
        let folder = if args.release_name { folder.join(name) } else { folder.clone() };
        return write_files(args, rendered, &folder);
    }
    let mut manifest = String::new();
    if args.include_crds {
        for crd in &rendered.crds {
            let _ = writeln!(manifest, "---\n# Source: {}\n{}", crd.name, String::from_utf8_lossy(&crd.data));
        }
    }
    manifest.push_str(&rendered.manifest());
    let mut out = format!("{}\n", manifest.trim());
    for hook in hooks(args, rendered) {
        let _ = writeln!(out, "---\n# Source: {}\n{}", hook.manifest.source, hook.manifest.text);
    }
    let text = if args.show_only.is_empty() { out } else { only(&args.show_only, &out)? };
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(|e| CliError(format!("cannot print: {e}")))
}

fn hooks<'a>(args: &'a Args, rendered: &'a Rendered) -> impl Iterator<Item = &'a render::Hook> {
    let tests = |hook: &&render::Hook| !(args.skip_tests && hook.events.iter().any(|e| e == "test"));
    rendered.hooks.iter().filter(|_| !args.no_hooks).filter(tests)
}

/// The documents whose source, below the chart's name, fits a pattern; in the order of the patterns.
fn only(patterns: &[String], out: &str) -> Result<String, CliError> {
    let documents = order::split(out);
    let mut text = String::new();
    for wanted in patterns {
        let mut found = false;
        for document in &documents {
            let source = document.lines().find_map(|line| {
                let (_, path) = line.split_once("# Source: ")?;
                path.split_once('/').filter(|(chart, rest)| !chart.is_empty() && !rest.is_empty()).map(|(_, rest)| rest)
            });
            if source.is_some_and(|source| pattern::matches(wanted, source).unwrap_or(false)) {
                found = true;
                let _ = writeln!(text, "---\n{document}");
            }
        }
        if !found {
            return Err(CliError(format!("could not find template {wanted} in chart")));
        }
    }
    Ok(text)
}

fn write_files(args: &Args, rendered: &Rendered, folder: &Path) -> Result<(), CliError> {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, text: &str| {
        let text = format!("---\n# Source: {name}\n{text}\n");
        match files.iter_mut().find(|(n, _)| n == name) {
            Some((_, all)) => all.push_str(&text),
            None => files.push((name.to_owned(), text)),
        }
        println!("wrote {}", folder.join(name).display());
    };
    if args.include_crds {
        for crd in &rendered.crds {
            add(&crd.name, &String::from_utf8_lossy(&crd.data));
        }
    }
    for manifest in rendered.manifests.iter().chain(hooks(args, rendered).map(|h| &h.manifest)) {
        add(&manifest.source, &manifest.text);
    }
    for (name, text) in files {
        let path = folder.join(&name);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text))
            .map_err(|e| CliError(format!("cannot write {}: {e}", path.display())))?;
    }
    println!();
    Ok(())
}
