//! `--explain`: explanations in addition to Helm's text.

use super::colours::colours;
use super::value_args::ValueArgs;
use crate::render::Diagnostic;
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Whether errors are explained. Without a flag they are when standard error is a terminal, so that a script reads only
/// Helm's text.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ExplanationArgs {
    /// Show the lines of the chart that caused an error, even when no terminal reads it.
    #[arg(long, overrides_with = "no_explain")]
    explain: bool,
    /// Show Helm's text of an error only.
    #[arg(long, overrides_with = "explain")]
    no_explain: bool,
}

impl ExplanationArgs {
    /// Whether to explain.
    pub fn wanted(self) -> bool {
        self.explain || !self.no_explain && std::io::stderr().is_terminal()
    }
}

/// The explanation as standard error shows it, with a blank line before it; empty when there is nothing to explain.
pub fn after(error: &Diagnostic, values: &ValueArgs) -> String {
    let text = text(error, values, std::io::stderr().is_terminal() && colours());
    if text.is_empty() { text } else { format!("\n\n{}", text.trim_end()) }
}

/// The explanation of an error, and where the values come from that a schema does not allow.
pub fn text(error: &Diagnostic, values: &ValueArgs, colours: bool) -> String {
    let mut text = error.explanation.text(colours);
    for path in &error.explanation.violations {
        let origin = values.origin(path);
        let origin = origin.map_or_else(|| "the chart's values.yaml, or nothing".into(), |flag| format!("`{flag}`"));
        let _ = writeln!(text, "  hint: `{}` is given by {origin}", path.join("."));
    }
    text
}
