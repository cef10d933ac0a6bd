//! `tillerman create api`: adds a kind to a project, or updates it, with the flags of `operator-sdk create api`.

use crate::cli::common::error::CliError;
use crate::cli::common::project::api::{ApiArgs, api};
use crate::cli::common::project::generate::{project, read};
use crate::cli::common::project::written::Written;

/// What is added.
#[derive(Debug, clap::Subcommand)]
pub enum CreateCommand {
    /// Add a kind with its chart, or update it: what is generated is written again, and what you edited is kept.
    Api(CreateArgs),
}

/// A kind, or all that the project has.
#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Update the files of all kinds of the project from helm-charts/ and watches.yaml.
    #[arg(long, conflicts_with_all = ["group", "version", "kind", "plural", "helm_chart", "native"])]
    all: bool,
}

/// Adds or updates.
pub fn run(CreateCommand::Api(args): &CreateCommand) -> Result<(), CliError> {
    let Some(found) = read()? else {
        return Err(CliError::new(
            "there is no file PROJECT here: start a project with tillerman init, or change to its folder",
        ));
    };
    if args.all {
        let mut written = Written::default();
        project(&found, &found, &mut written)?;
        return written.report();
    }
    api(&args.api, found, Written::default())
}
