//! `tillerman man`: manual pages, one for each command.

use crate::cli::common::error::CliError;
use crate::cli::common::streams::print;
use std::path::PathBuf;

/// Where the pages go.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// A folder for all pages, such as ~/.local/share/man/man1. Without it, the page of the program is printed.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Prints a page, or writes all. `program` is the whole command line.
pub fn run(args: &ManArgs, program: clap::Command) -> Result<(), CliError> {
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page).map_err(CliError::new)?;
        print(&String::from_utf8_lossy(&page));
        return Ok(());
    };
    let wrong = |e: std::io::Error| CliError(format!("{}: {e}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(program, folder).map_err(wrong)
}
