//! Colours of the output.

use std::io::IsTerminal as _;

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Also in a pipe.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// Whether there are colours now.
    pub fn is_on(self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|text| !text.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb,
        }
    }
}

/// Whether the output to a terminal may have colours: <https://no-color.org>, and terminals without any.
pub fn colours() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}
