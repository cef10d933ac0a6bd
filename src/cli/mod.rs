//! The command line: one file per command. A command reads its arguments, calls the library, prints.

mod crd;
mod lint;
#[cfg(feature = "operator")]
mod run;
mod template;
mod values;

use clap::{Parser, Subcommand};
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
    /// Check a chart for mistakes.
    Lint(lint::Args),
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
    fn new(text: impl ToString) -> Self {
        Self(text.to_string())
    }
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage_error(&e),
    };
    let result = match cli.command {
        Command::Template(args) => template::run(&args),
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

/// An unknown flag is told in the words that users of Helm know; help and version are no errors.
fn usage_error(error: &clap::Error) -> ExitCode {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
    {
        let flag = flag.split('=').next().unwrap_or(flag);
        eprintln!("Error: unknown flag: {flag}");
        return ExitCode::FAILURE;
    }
    if error.use_stderr() {
        eprint!("{}", error.to_string().replacen("error:", "Error:", 1));
        return ExitCode::FAILURE;
    }
    print!("{error}");
    ExitCode::SUCCESS
}
