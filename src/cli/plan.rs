//! `tillerman plan`: the state of a release, and the steps of the next pass.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::common::changes::{document, notes};
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::next_pass::{AskArgs, ask};
use crate::cli::common::output::OutputArgs;
use crate::cli::common::running::plan;
use crate::cli::common::streams::print;
use crate::plan::Verb;
use crate::reconcile::preview::{Fate, Preview};

/// Arguments of `tillerman plan`.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    ask: AskArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the plan.
pub(super) fn run(args: &PlanArgs) -> Result<(), CliError> {
    let preview = ask(&args.ask)?;
    if !args.output.print(&whole(&preview))? {
        notes(&preview);
        print(&text(&preview));
    }
    match &preview.error {
        Some(why) => Err(CliError(line(why))),
        None => Ok(()),
    }
}

/// The plan as a document: that of `diff`, with the steps and the hooks.
fn whole(preview: &Preview) -> Value {
    let mut document = document(preview);
    document["steps"] = preview.steps.iter().map(|step| Value::from(line(step))).collect();
    let hook = |(event, id): &(String, String)| json!({"event": event, "object": line(id)});
    document["running"] = preview.running.clone().into();
    document["hooks"] = preview.hooks.iter().map(hook).collect();
    document
}

/// The meaning of a verb, for people.
fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Rest => "nothing",
        Verb::Install => "install",
        Verb::Upgrade => "upgrade",
        Verb::Resume => "continue",
        Verb::Repair => "repair",
        Verb::Note => "record the inputs, and change no object",
        Verb::CreateCrds => "write the chart's definitions first",
        Verb::RollBack => "roll back",
        Verb::Abandon => "remove what was begun",
        Verb::Uninstall => "uninstall",
    }
}

fn text(preview: &Preview) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "state     {}: {}", preview.state.0, line(&preview.state.1));
    let revision = if preview.revision == 0 { String::new() } else { format!(", revision {}", preview.revision) };
    let _ = writeln!(text, "action    {}{revision}", action(preview.verb));
    if !preview.hooks.is_empty() {
        text.push_str("hooks\n");
        for (event, id) in &preview.hooks {
            let _ = writeln!(text, "  {event:14} {}", line(id));
        }
    }
    if !preview.changes.is_empty() {
        text.push_str("objects\n");
        for change in &preview.changes {
            let more = match &change.fate {
                Fate::Recreated(why) | Fate::Refused(why) => format!(": {}", line(why)),
                _ if change.is_mark => ": only the owner".to_owned(),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {:14} {}{more}", change.fate.word(), line(&change.id.to_string()));
        }
    }
    if let Some(running) = &preview.running {
        for shown in plan(running).to_string().lines() {
            let _ = writeln!(text, "{}", line(shown));
        }
    }
    if preview.unchanged > 0 {
        let _ = writeln!(text, "unchanged {}", preview.unchanged);
    }
    if !preview.steps.is_empty() {
        text.push_str("steps of the next pass\n");
        for (at, step) in preview.steps.iter().enumerate() {
            let _ = writeln!(text, "  {:>3}. {}", at + 1, line(step));
        }
    }
    text
}
