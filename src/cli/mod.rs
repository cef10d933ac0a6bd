//! The command line: one file per command. A command reads its arguments, calls the library, prints.

mod chart_path;
mod crd;
mod dependency;
mod explain;
mod lint;
mod pull;
#[cfg(feature = "operator")]
mod run;
mod template;
mod values;

use crate::kind::go_bool;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Turns charts into operators, and renders charts as Helm does.
#[derive(Debug, Parser)]
#[command(name = "tillerman", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Render a chart and print what `helm template` prints.
    Template(Box<template::Args>),
    /// Download charts from a repository or registry.
    #[command(visible_alias = "fetch")]
    Pull(Box<pull::Args>),
    /// Manage a chart's dependencies.
    #[command(visible_aliases = ["dep", "dependencies"], subcommand)]
    Dependency(dependency::Command),
    /// Check a chart for mistakes.
    Lint(Box<lint::Args>),
    /// Make the CustomResourceDefinition of a chart from its values.schema.json.
    Crd(crd::Args),
    /// Run the operator.
    #[cfg(feature = "operator")]
    Run(Box<run::Args>),
}

/// An error to be printed behind `Error: `.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CliError(pub String);

impl CliError {
    fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let command = Cli::command();
    let args = match plain_switches(&command, std::env::args_os().collect()) {
        Ok(args) => args,
        Err(e) => return failure(&e),
    };
    let parsed = command.try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => return usage_error(&e),
    };
    let result = match cli.command {
        Command::Template(args) => template::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Dependency(command) => dependency::run(&command),
        Command::Lint(args) => lint::run(&args),
        Command::Crd(args) => crd::run(&args),
        #[cfg(feature = "operator")]
        Command::Run(args) => run::run(*args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => failure(&e),
    }
}

fn failure(error: &CliError) -> ExitCode {
    eprintln!("Error: {error}");
    ExitCode::FAILURE
}

/// Go's flags may say `--switch=true` and `--switch=false`, and the last counts; for switches that take no value here, that
/// is with and without them. Of a switch with another value, the error is Go's.
fn plain_switches(cli: &clap::Command, args: Vec<OsString>) -> Result<Vec<OsString>, CliError> {
    let mut command = cli;
    for name in args.iter().skip(1) {
        let Some(below) = command.find_subcommand(name) else { break };
        command = below;
    }
    let is_switch = |name: &str| {
        command.get_arguments().any(|a| a.get_long() == Some(name) && matches!(a.get_action(), ArgAction::SetTrue))
    };
    let mut plain: Vec<OsString> = Vec::new();
    let mut options = true;
    for arg in args {
        options &= arg != "--";
        let switch = arg.to_str().filter(|_| options).and_then(|text| text.strip_prefix("--"));
        let (name, value) = switch.map_or(("", ""), |text| text.split_once('=').unwrap_or((text, "true")));
        if name.is_empty() || !is_switch(name) {
            plain.push(arg);
            continue;
        }
        let value = go_bool(value).ok_or_else(|| {
            let value = format!("{value:?}");
            CliError(format!(
                "invalid argument {value} for \"--{name}\" flag: strconv.ParseBool: parsing {value}: invalid syntax"
            ))
        })?;
        let switch: OsString = format!("--{name}").into();
        plain.retain(|other| *other != switch);
        if value {
            plain.push(switch);
        }
    }
    Ok(plain)
}

/// An unknown flag, and one without its argument, is told in the words that users of Helm know; help and version are
/// no errors.
fn usage_error(error: &clap::Error) -> ExitCode {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
    {
        let flag = flag.split('=').next().unwrap_or(flag);
        return failure(&CliError(match flag.strip_prefix('-').and_then(|letters| letters.chars().next()) {
            Some(letter) if letter != '-' => format!("unknown shorthand flag: '{letter}' in {flag}"),
            _ => format!("unknown flag: {flag}"),
        }));
    }
    if error.kind() == ErrorKind::ValueValidation
        && let (Some(ContextValue::String(flag)), Some(ContextValue::String(value))) =
            (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
        && let Some(why) = std::error::Error::source(error)
    {
        let flag = with_letter(flag.split([' ', '[', '=']).next().unwrap_or(flag));
        return failure(&CliError(format!("invalid argument {value:?} for \"{flag}\" flag: {why}")));
    }
    if error.kind() == ErrorKind::InvalidValue
        && let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && value.is_empty()
        && let Some(flag) = std::env::args().next_back().filter(|last| last.starts_with('-') && !last.contains('='))
    {
        let short = flag.strip_prefix('-').filter(|short| !short.starts_with('-')).and_then(|s| s.chars().next_back());
        match short {
            Some(letter) => eprintln!("Error: flag needs an argument: '{letter}' in {flag}"),
            None => eprintln!("Error: flag needs an argument: {flag}"),
        }
        return ExitCode::FAILURE;
    }
    if error.use_stderr() {
        eprint!("{}", error.to_string().replacen("error:", "Error:", 1));
        return ExitCode::FAILURE;
    }
    print!("{error}");
    ExitCode::SUCCESS
}

/// A flag as Go names it in errors: with the letter that it has for short.
fn with_letter(flag: &str) -> String {
    let cli = Cli::command();
    let command = std::env::args().nth(1).and_then(|name| cli.find_subcommand(name).cloned());
    let argument = command.as_ref().into_iter().flat_map(clap::Command::get_arguments);
    let letter = argument.filter(|a| a.get_long() == flag.strip_prefix("--")).find_map(clap::Arg::get_short);
    letter.map_or_else(|| flag.to_owned(), |letter| format!("-{letter}, {flag}"))
}
