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

use clap::{ArgAction, CommandFactory, Parser, Subcommand};
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
    let cli = match Cli::try_parse_from(plain_switches(std::env::args_os())) {
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
        Err(e) => {
            eprintln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Go's flags may say `--switch=true` and `--switch=false`; for switches that take no value here, that is with and
/// without them.
fn plain_switches(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.collect();
    let cli = Cli::command();
    let Some(mut command) = args.get(1).and_then(|name| cli.find_subcommand(name)) else { return args };
    if let Some(nested) = args.get(2).and_then(|name| command.find_subcommand(name)) {
        command = nested;
    }
    let is_switch = |name: &str| {
        command.get_arguments().any(|a| a.get_long() == Some(name) && matches!(a.get_action(), ArgAction::SetTrue))
    };
    let plain = |arg: OsString| {
        let switch = arg.to_str().and_then(|text| text.strip_prefix("--")?.split_once('='));
        match switch {
            Some((name, "true")) if is_switch(name) => Some(format!("--{name}").into()),
            Some((name, "false")) if is_switch(name) => None,
            _ => Some(arg),
        }
    };
    args.into_iter().filter_map(plain).collect()
}

/// An unknown flag, and one without its argument, is told in the words that users of Helm know; help and version are
/// no errors.
fn usage_error(error: &clap::Error) -> ExitCode {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
    {
        let flag = flag.split('=').next().unwrap_or(flag);
        eprintln!("Error: unknown flag: {flag}");
        return ExitCode::FAILURE;
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
