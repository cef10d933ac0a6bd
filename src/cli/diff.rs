//! `tillerman diff`: the changes that the next pass would make on the live cluster.

use crate::cli::common::changes::{document, notes, text};
use crate::cli::common::colours::Color;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::next_pass::{AskArgs, ask};
use crate::cli::common::output::OutputArgs;
use crate::cli::common::streams::print;
use crate::plan::Verb;
use crate::reconcile::preview::Preview;

/// Arguments of `tillerman diff`.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Colours: on a terminal, unless `NO_COLOR` is set; always; or never.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the diff. Ends with 0 if nothing would change, with 1 if something would, and with 2 after an error, as `kubectl diff` does.
pub(super) fn run(args: &DiffArgs) -> Result<(), CliError> {
    let preview = match ask(&args.ask) {
        Ok(preview) => preview,
        Err(error) => fail(&error.0),
    };
    let printed = args.output.print(&document(&preview));
    if !printed? {
        notes(&preview);
        print(&text(&preview, args.color.is_on()));
    }
    if let Some(why) = &preview.error {
        fail(&line(why));
    }
    if is_change(&preview) {
        std::process::exit(1);
    }
    Ok(())
}

fn fail(why: &str) -> ! {
    eprintln!("Error: {why}");
    std::process::exit(2);
}

/// Whether the pass would change an object.
fn is_change(preview: &Preview) -> bool {
    !preview.changes.is_empty() || matches!(preview.verb, Verb::CreateCrds | Verb::Uninstall | Verb::Abandon)
}
