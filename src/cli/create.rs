//! `tillerman create api`: adds a kind to a project, or updates it, with the flags of `operator-sdk create api`.

use crate::cli::common::error::CliError;
use crate::cli::common::project::api::{ApiArgs, api};
use crate::cli::common::project::generate::{project, read};
use crate::cli::common::project::written::Written;

/// The part to add.
#[derive(Debug, clap::Subcommand)]
pub enum CreateCommand {
    /// Add a kind with its chart, or update it: generated text is written again, and your edits are kept.
    Api(CreateArgs),
}

/// A kind, or all kinds of the project.
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
