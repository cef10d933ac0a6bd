//! The flag `-o`, and documents as JSON and YAML.

use serde_json::Value;

use super::error::CliError;
use super::streams::print;
use crate::template::yaml;

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For people, with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The flag `-o`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value = "text", hide_default_value = true, value_name = "FORMAT")]
    pub output: OutputFormat,
}

impl OutputArgs {
    /// Prints a document, if one is requested. Returns whether it did.
    pub fn print(self, document: &Value) -> Result<bool, CliError> {
        match self.output {
            OutputFormat::Text | OutputFormat::Wide => return Ok(false),
            OutputFormat::Json => print(&(serde_json::to_string_pretty(document).map_err(CliError::new)? + "\n")),
            OutputFormat::Yaml => print(&as_yaml(document)?),
        }
        Ok(true)
    }
}

/// A document as YAML.
pub fn as_yaml(document: &Value) -> Result<String, CliError> {
    yaml::of_json(document).map_err(CliError::new)
}
