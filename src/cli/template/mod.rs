//! `tillerman template`: renders a chart and prints exactly what `helm template` of Helm 4.3.1 prints.

mod before_install;
mod flags;
mod post_render;
mod print;

use crate::chart::{Chart, Values};
use crate::cli::common::chart_path::ChartPathArgs;
use crate::cli::common::cluster_args::ClusterArgs;
use crate::cli::common::dependency_manager::manager;
use crate::cli::common::error::CliError;
use crate::cli::common::explanation::{self, ExplanationArgs};
use crate::cli::common::helm_log::log;
use crate::cli::common::installable::{installable, missing};
use crate::cli::common::server::Server;
use crate::cli::common::streams::ON_ERROR;
use crate::cli::common::value_args::ValueArgs;
use crate::host::{self, System};
use crate::render::{self, Capabilities, Diagnostic, Hook, KubeVersion, Release, Rendered};
use crate::source::SourceSettings;
use crate::template::function::Host;
use before_install::{BeforeInstall, Owners};
use flags::DryRun;
use post_render::PostRenderArgs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `helm template`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
pub struct TemplateArgs {
    /// The release's name and the chart: a directory, a .tgz archive, a link, oci://… or repository/chart.
    #[arg(value_name = "[NAME] CHART", num_args = 1..)]
    positional: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    chart_path: ChartPathArgs,
    #[command(flatten)]
    post_render: PostRenderArgs,
    /// `client`: without a cluster. `server`: the API server answers `lookup`, reports its version and kinds, and every object's
    /// kind and owner are checked; nothing is written.
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_value = "client", default_missing_value = "unset",
        value_name = "client|server"
    )]
    dry_run: String,
    /// The old name of --dry-run=server.
    #[arg(long, hide = true)]
    validate: bool,
    /// With --dry-run=server: objects that others own are taken as the release's.
    #[arg(long)]
    take_ownership: bool,
    /// With --dry-run=server: do not check that objects have an apiVersion and a kind.
    #[arg(long)]
    disable_openapi_validation: bool,
    /// Let `getHostByName` ask for names; else it answers with nothing.
    #[arg(long)]
    enable_dns: bool,
    /// Fetch dependencies that are not in charts/ first.
    #[arg(long)]
    dependency_update: bool,
    /// Print the files of crds/ too.
    #[arg(long)]
    include_crds: bool,
    /// With --dry-run=server: no warning about the files of crds/.
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
    /// Accepted as Helm does, which names the release `release-name` all the same.
    #[arg(short, long)]
    generate_name: bool,
    /// Do not check values against values.schema.json.
    #[arg(long)]
    skip_schema_validation: bool,
    #[command(flatten)]
    explain: ExplanationArgs,
    /// Print the rendered text even when it is not valid YAML.
    #[arg(long)]
    debug: bool,
    /// Write files into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// With --output-dir: a folder named as the release.
    #[arg(long)]
    release_name: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    ignored: Ignored,
}

/// Helm's flags about repositories and registries.
#[derive(Debug, clap::Args)]
struct SettingsArgs {
    /// Credentials for registries [default: `HELM_REGISTRY_CONFIG`].
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// The repositories that were added [default: `HELM_REPOSITORY_CONFIG`].
    #[arg(long, value_name = "FILE")]
    repository_config: Option<PathBuf>,
    /// The folder of their indexes [default: `HELM_REPOSITORY_CACHE`].
    #[arg(long, value_name = "FOLDER")]
    repository_cache: Option<PathBuf>,
    /// The folder of downloaded charts [default: `HELM_CONTENT_CACHE`].
    #[arg(long, value_name = "FOLDER")]
    content_cache: Option<PathBuf>,
}

impl SettingsArgs {
    fn settings(&self) -> SourceSettings {
        let env = SourceSettings::from_env();
        let or = |flag: &Option<PathBuf>, env: PathBuf| flag.clone().unwrap_or(env);
        SourceSettings {
            registry_config: or(&self.registry_config, env.registry_config),
            repository_config: or(&self.repository_config, env.repository_config),
            repository_cache: or(&self.repository_cache, env.repository_cache),
            content_cache: or(&self.content_cache, env.content_cache),
        }
    }
}

/// Accepted so that a script written for Helm runs: they concern installing, which this command does not.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are Helm's flags")]
struct Ignored {
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(long, hide = true)]
    render_subchart_notes: bool,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    rollback_on_failure: bool,
    #[arg(long, hide = true)]
    atomic: bool,
    #[arg(long, hide = true)]
    force: bool,
    #[arg(long, hide = true)]
    force_replace: bool,
    #[arg(long, hide = true)]
    force_conflicts: bool,
    #[arg(long, hide = true)]
    server_side: bool,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
    #[arg(
        long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "watcher", value_parser = flags::wait
    )]
    wait: Option<String>,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(short, long, hide = true, value_parser = flags::labels)]
    labels: Vec<Labels>,
    #[arg(long, hide = true, value_parser = flags::duration)]
    timeout: Option<String>,
    #[arg(long, visible_alias = "colour", hide = true, value_parser = ["never", "auto", "always"])]
    color: Option<String>,
}

/// The keys of one `--labels`.
type Labels = Vec<String>;

impl TemplateArgs {
    fn output_dir(&self) -> Option<&Path> {
        self.output_dir.as_deref().filter(|folder| !folder.as_os_str().is_empty())
    }

    /// Whether a hook is to be printed.
    fn wants(&self, hook: &Hook) -> bool {
        !(self.no_hooks || self.skip_tests && hook.events.iter().any(|event| event == "test"))
    }

    fn debug(&self) -> bool {
        self.debug || std::env::var("HELM_DEBUG").is_ok_and(|text| crate::kind::go_bool(&text) == Some(true))
    }
}

/// Renders and prints.
pub fn run(args: &TemplateArgs) -> Result<(), CliError> {
    flags::check_given(std::env::args().skip(1))?;
    if args.positional.is_empty() {
        let usage = "Usage:  tillerman template [NAME] [CHART] [flags]";
        return Err(CliError(format!("\"tillerman template\" requires at least 1 argument\n\n{usage}")));
    }
    let post = args.post_render.find()?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = args.kube_version.as_deref().filter(|v| !v.is_empty()) {
        let parsed =
            KubeVersion::parse(version).map_err(|e| CliError(format!("invalid kube version '{version}': {e}")))?;
        capabilities.kube_version = parsed.version;
    }
    capabilities.api_versions.extend(args.api_versions.iter().cloned());
    let dry_run = if args.validate { DryRun::Server } else { DryRun::parse(&args.dry_run)? };
    let (name, chart) = name_and_chart(args)?;
    let settings = args.settings.settings();
    let path = args.chart_path.locate(&settings, &chart)?;
    let values = args.values.merge()?;
    let chart = load(args, &path, &settings)?;
    let release = Release { name, namespace: args.cluster.namespace(), revision: 1, is_upgrade: args.is_upgrade };
    let job = Job { args, chart: &chart, values: &values, release: &release, post: post.as_ref() };
    let result = match dry_run {
        DryRun::Client => job.without_server(&capabilities),
        DryRun::Server => job.with_server(),
    };
    // The process is about to end: the operating system frees memory faster than destructors do.
    std::mem::forget((chart, values));
    result
}

/// One rendering.
struct Job<'a> {
    args: &'a TemplateArgs,
    chart: &'a Chart,
    values: &'a Values,
    release: &'a Release,
    post: Option<&'a post_render::PostRenderer>,
}

impl Job<'_> {
    fn without_server(&self, capabilities: &Capabilities) -> Result<(), CliError> {
        self.check_name()?;
        let rendered =
            self.render(capabilities, Arc::new(System { dns: self.args.enable_dns, ..System::default() }))?;
        self.print(&rendered)
    }

    fn with_server(&self) -> Result<(), CliError> {
        let server = Server::connect(&self.args.cluster)?;
        let server = BeforeInstall(&server);
        self.check_name()?;
        let crds = render::crds(self.chart, self.values).map_err(|e| self.failed(&e, &[]))?;
        if !crds.is_empty() && !self.args.skip_crds {
            let text = "This chart or one of its subcharts contains CRDs. Rendering may fail or contain inaccuracies.";
            log("WARN", text, &[]);
        }
        let host = server.host(System { dns: self.args.enable_dns, ..System::default() });
        let rendered = self.render(&server.capabilities()?, host)?;
        let owners = match (self.args.is_upgrade, self.args.take_ownership) {
            (true, _) => Owners::Any,
            (false, true) => Owners::Taken,
            (false, false) => Owners::Release,
        };
        let manifest = print::manifest(self.args, &rendered);
        server.check(&manifest, self.release, owners, !self.args.disable_openapi_validation)?;
        self.print(&rendered)
    }

    fn check_name(&self) -> Result<(), CliError> {
        render::check_name(&self.release.name).map_err(|e| {
            log("ERROR", "release name check failed", &[("error", &e)]);
            CliError(format!("release name check failed: {e}"))
        })
    }

    /// Renders, post-renders, and writes files if the flags say so.
    fn render(&self, capabilities: &Capabilities, host: Arc<dyn Host + Send + Sync>) -> Result<Rendered, CliError> {
        flags::check_labels(&self.args.ignored.labels)?;
        let explain = self.args.explain.wanted();
        let options = render::Options::shared(host).skip_schema(self.args.skip_schema_validation).explain(explain);
        let files = render::files(self.chart, self.values, self.release, capabilities, &options);
        let mut files = files.map_err(|e| self.failed(&e, &[]))?;
        if let Some(post) = self.post {
            files.texts = post.run(&files.texts).map_err(|e| self.failed(&Diagnostic::rendering(e.0), &[]))?;
        }
        let shown = if self.args.debug() { files.texts.clone() } else { Vec::new() };
        let rendered = files.sort().map_err(|e| self.failed(&e, &shown))?;
        let written = print::write_files(self.args, &rendered, &self.release.name);
        written.map_err(|e| self.failed(&Diagnostic::rendering(e.0), &[]))?;
        Ok(rendered)
    }

    fn print(&self, rendered: &Rendered) -> Result<(), CliError> {
        print::print(self.args, &print::manifest(self.args, rendered), &rendered.hooks, &self.release.name)
    }

    /// The error of a rendering. With --debug, the files that were rendered are printed first.
    fn failed(&self, error: &Diagnostic, files: &[(String, String)]) -> CliError {
        let message = &error.message;
        if let Some(why) = message.strip_prefix("chart dependencies processing failed: ") {
            log("ERROR", "chart dependencies processing failed", &[("error", why)]);
        }
        let explained = |message: String| {
            if !self.args.explain.wanted() {
                return CliError(message);
            }
            CliError(format!("{}{}", message.trim_end(), explanation::after(error, &self.args.values)))
        };
        if !error.rendering {
            return explained(message.clone());
        }
        if !self.args.debug() {
            return explained(format!("{message}\n\nUse --debug flag to render out invalid YAML"));
        }
        let filled = files.iter().filter(|(_, text)| !text.trim().is_empty());
        let mut all = String::new();
        for (name, text) in filled {
            all.extend(["---\n# Source: ", name, "\n", text, "\n"]);
        }
        // A missing file that was requested may be part of the problem, which is reported below.
        let _ = print::print(self.args, &all, &[], &self.release.name);
        explained(message.clone())
    }
}

/// Loads the chart; with --dependency-update, dependencies that are missing are fetched first.
fn load(args: &TemplateArgs, path: &Path, settings: &SourceSettings) -> Result<Chart, CliError> {
    let chart = crate::chart::load(path).map_err(CliError::new)?;
    let incomplete = match installable(&chart) {
        Err(e) if args.dependency_update && !missing(&chart).is_empty() => e,
        result => return result.map(|()| chart),
    };
    if !path.is_dir() {
        return Err(incomplete);
    }
    let server = &args.chart_path.server;
    let registry = server.registry(settings, &server.login()?, ON_ERROR)?;
    manager(path, settings, &registry, server.keyring(), ON_ERROR)?.update()?;
    crate::chart::load(path).map_err(|e| CliError(format!("failed reloading chart after repo update: {e}")))
}

fn name_and_chart(args: &TemplateArgs) -> Result<(String, String), CliError> {
    let fail = |text: &str| Err(CliError(text.into()));
    match args.positional.as_slice() {
        [name, chart] => {
            if args.generate_name {
                return fail("cannot set --generate-name and also specify a name");
            }
            if args.name_template.as_deref().is_some_and(|template| !template.is_empty()) {
                return fail("cannot set --name-template and also specify a name");
            }
            Ok((name.clone(), chart.clone()))
        }
        [chart] => match args.name_template.as_deref().filter(|template| !template.is_empty()) {
            Some(template) => Ok((render::text(template, &host::options()).map_err(CliError)?, chart.clone())),
            None => Ok(("release-name".into(), chart.clone())),
        },
        many => fail(&format!("expected at most two arguments, unexpected arguments: {}", many[2..].join(", "))),
    }
}
