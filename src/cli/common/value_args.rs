//! The flags that give values: `-f`, `--set` and their relatives, in Helm's order of precedence.

use super::error::CliError;
use crate::chart::strvals::{Mode, apply, floats};
use crate::chart::{Values, go_io, values};
use crate::source::http::{Client, Tls};
use crate::source::link;
use std::io::Read;

/// The most bytes that values from a link may have.
const LIMIT: u64 = 64 << 20;

/// Where values come from.
#[derive(Debug, Default, clap::Args)]
pub struct ValueArgs {
    /// Values in a YAML file or at a link, `-` for standard input; later files override earlier ones.
    #[arg(short = 'f', long = "values", value_name = "FILE", value_delimiter = ',')]
    files: Vec<String>,
    /// Values as `key1=val1,key2=val2`.
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    set: Vec<String>,
    /// As --set, but every value is a string.
    #[arg(long, value_name = "KEY=TEXT", allow_hyphen_values = true)]
    set_string: Vec<String>,
    /// As --set, with JSON values; or one JSON object.
    #[arg(long, value_name = "KEY=JSON", allow_hyphen_values = true)]
    set_json: Vec<String>,
    /// As --set, with the contents of files as values.
    #[arg(long, value_name = "KEY=PATH", allow_hyphen_values = true)]
    set_file: Vec<String>,
    /// One key, and its value as it is written.
    #[arg(long, value_name = "KEY=TEXT", allow_hyphen_values = true)]
    set_literal: Vec<String>,
}

impl ValueArgs {
    /// All of them, later over earlier: files, JSON, plain, strings, files' contents, literals.
    pub fn merge(&self) -> Result<Values, CliError> {
        let mut all = Values::new();
        for path in &self.files {
            let data = read(path)?;
            let file = values::load(&data).map_err(|e| CliError(format!("failed to parse {path}: {e}")))?;
            values::merge(&mut all, file);
        }
        for text in &self.set_json {
            if text.trim_start().starts_with('{') {
                match serde_json::from_str(text.trim()).map(floats) {
                    Ok(serde_json::Value::Object(object)) => values::merge(&mut all, object),
                    _ => return Err(CliError(format!("failed parsing --set-json data JSON: {text}"))),
                }
            } else {
                apply(text, &mut all, &Mode::Json)
                    .map_err(|_| CliError(format!("failed parsing --set-json data {text}")))?;
            }
        }
        let contents = |path: &str| {
            read(path)
                .map(|data| String::from_utf8_lossy(&data).into_owned())
                .map_err(|e| values::ValuesError::Argument(e.0))
        };
        for (flag, texts, mode) in [
            ("--set", &self.set, Mode::Typed),
            ("--set-string", &self.set_string, Mode::Text),
            ("--set-file", &self.set_file, Mode::File(&contents)),
            ("--set-literal", &self.set_literal, Mode::Literal),
        ] {
            for text in texts {
                apply(text, &mut all, &mode).map_err(|e| CliError(format!("failed parsing {flag} data: {e}")))?;
            }
        }
        Ok(all)
    }
}

impl ValueArgs {
    /// The flag that gives the value at a path, or something above or below it; the last one wins. Never the value.
    pub fn origin(&self, path: &[String]) -> Option<String> {
        let gives = |values: &Values| touches(values, path);
        let contents = |_: &str| Ok(String::new());
        let flags = [
            ("--set-literal", &self.set_literal, Mode::Literal),
            ("--set-file", &self.set_file, Mode::File(&contents)),
            ("--set-string", &self.set_string, Mode::Text),
            ("--set", &self.set, Mode::Typed),
            ("--set-json", &self.set_json, Mode::Json),
        ];
        for (flag, texts, mode) in flags {
            for text in texts.iter().rev() {
                let mut values = Values::new();
                let object = text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten();
                match object {
                    Some(object) if flag == "--set-json" => values = object,
                    _ => drop(apply(text, &mut values, &mode)),
                }
                if gives(&values) {
                    return Some(flag.into());
                }
            }
        }
        // Standard input and links are not read a second time.
        let is_file = |file: &&String| file.trim() != "-" && !is_link(file);
        let holds = |file: &&String| {
            is_file(file) && read(file).ok().and_then(|data| values::load(&data).ok()).is_some_and(|v| gives(&v))
        };
        let other = || self.files.iter().find(|file| !is_file(file)).map(|_| "-f".to_owned());
        self.files.iter().rev().find(holds).map(|file| format!("-f {file}")).or_else(other)
    }
}

/// Whether there is a value at a path, or in the place of something above it.
fn touches(values: &Values, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match values.get(first) {
        None => false,
        Some(serde_json::Value::Object(below)) => touches(below, rest),
        Some(_) => true,
    }
}

fn is_link(path: &str) -> bool {
    matches!(link::scheme(path).as_str(), "http" | "https")
}

fn read(path: &str) -> Result<Vec<u8>, CliError> {
    if path.trim() == "-" {
        let mut data = Vec::new();
        return std::io::stdin().read_to_end(&mut data).map(|_| data).map_err(CliError::new);
    }
    // Helm takes no other scheme for a link, but for a file.
    if is_link(path) {
        return Ok(Client::new(&Tls::default())?.get(path, None, None, LIMIT)?);
    }
    std::fs::read(path).map_err(|e| CliError(format!("open {path}: {}", go_io(&e))))
}
