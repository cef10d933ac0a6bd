//! `tillerman dependency build|update|list`: the dependencies of a chart, as `helm dependency` manages them.

use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::dependency_manager::manager;
use crate::cli::common::error::CliError;
use crate::cli::common::streams::{ON_OUTPUT, print};
use crate::source::dependency::{Manager, list};
use crate::source::download::Verify;
use crate::source::{SourceSettings, clean};
use std::path::PathBuf;

/// The action on the dependencies.
#[derive(Debug, clap::Subcommand)]
pub enum DependencyCommand {
    /// Fetch the dependencies in Chart.lock into charts/.
    Build(ChangeArgs),
    /// Choose versions for the dependencies in Chart.yaml, fetch them, write Chart.lock.
    #[command(visible_alias = "up")]
    Update(ChangeArgs),
    /// List the dependencies, and whether they are in charts/.
    #[command(visible_alias = "ls")]
    List(ListArgs),
}

/// A chart whose charts/ is filled.
#[derive(Debug, clap::Args)]
pub struct ChangeArgs {
    /// The chart's directory.
    #[arg(default_value = ".")]
    chart: PathBuf,
    #[command(flatten)]
    server: ServerArgs,
    /// Do not request indexes from repositories, use the stored ones.
    #[arg(long)]
    skip_refresh: bool,
}

/// A chart whose dependencies are listed.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The chart: a directory or a .tgz archive.
    #[arg(default_value = ".")]
    chart: PathBuf,
    /// The maximum width of a column, in characters.
    #[arg(long, value_name = "WIDTH", default_value_t = 80)]
    max_col_width: usize,
}

/// Runs a subcommand.
pub fn run(command: &DependencyCommand) -> Result<(), CliError> {
    match command {
        DependencyCommand::List(args) => {
            print(&list::list(&clean(&args.chart), args.max_col_width)?);
            Ok(())
        }
        DependencyCommand::Build(args) => change(args, false),
        DependencyCommand::Update(args) => change(args, true),
    }
}

/// Fills charts/, with new versions or with those of Chart.lock.
fn change(args: &ChangeArgs, update: bool) -> Result<(), CliError> {
    let settings = SourceSettings::from_env();
    let login = args.server.login()?;
    let registry = args.server.registry(&settings, &login, ON_OUTPUT)?;
    let verify = match (args.server.verify, update) {
        (false, _) => Verify::Never,
        (true, false) => Verify::IfPossible,
        (true, true) => Verify::Always,
    };
    let manager = Manager {
        skip_refresh: args.skip_refresh,
        verify,
        ..manager(&args.chart, &settings, &registry, args.server.keyring(), ON_OUTPUT)?
    };
    let result = if update { manager.update() } else { manager.build() };
    result.map_err(CliError::from)
}
