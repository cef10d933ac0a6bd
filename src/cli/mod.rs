//! The command line: one file per command. A command reads its arguments, calls the library, prints. Code that several
//! commands need is in `common`; no command imports another.

mod adopt;
mod agent_check;
mod bundle;
mod chaos;
pub mod common;
mod completion;
mod crd;
mod create;
mod dependency;
mod diff;
mod doctor;
mod explain;
mod fleet;
mod history;
mod image;
mod init;
mod lint;
mod list;
mod man;
mod migrate;
mod notice;
mod pause;
mod plan;
mod pull;
mod push;
mod rbac;
mod rollback;
mod run;
mod sign;
mod snapshot;
mod status;
mod template;
mod ui;
mod values;

use crate::kind::go_bool;
use crate::template::go::quote::quoted;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches, Subcommand};
use common::error::CliError;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// How a command went, or why its arguments are wrong.
type Ran = Result<Result<(), CliError>, clap::Error>;

/// A command of the program.
struct Entry {
    name: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
    /// Adds its flags and arguments. Only those of the given command are built: all of them take longer than rendering a small chart.
    flags: fn(clap::Command) -> clap::Command,
    run: fn(&mut ArgMatches, Brought) -> Ran,
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "init",
        aliases: &[],
        about: "Start a project of an operator in this folder, from a chart or without",
        flags: init::InitArgs::augment_args,
        run: |matches, _| Ok(init::run(&init::InitArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "create",
        aliases: &[],
        about: "Add a kind to the project in this folder, or update it with a newer chart",
        flags: |command| {
            let command = command.subcommand_required(true).arg_required_else_help(true);
            create::CreateCommand::augment_subcommands(command)
        },
        run: |matches, _| Ok(create::run(&create::CreateCommand::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "bundle",
        aliases: &[],
        about: "Write the bundle of a project for the Operator Lifecycle Manager",
        flags: bundle::BundleArgs::augment_args,
        run: |matches, _| Ok(bundle::run(&bundle::BundleArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "migrate",
        aliases: &[],
        about: "Show the changes that a project of operator-sdk needs so that Tillerman runs it",
        flags: migrate::MigrateArgs::augment_args,
        run: |matches, _| {
            let args = migrate::MigrateArgs::from_arg_matches_mut(matches)?;
            let operator = run::RunArgs::augment_args(clap::Command::new("run").no_binary_name(true));
            Ok(migrate::run(&args, &operator))
        },
    },
    Entry {
        name: "template",
        aliases: &[],
        about: "Render a chart and print what `helm template` prints",
        flags: template::TemplateArgs::augment_args,
        run: |matches, _| Ok(template::run(&template::TemplateArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "pull",
        aliases: &["fetch"],
        about: "Download charts from a repository or registry",
        flags: pull::PullArgs::augment_args,
        run: |matches, _| Ok(pull::run(&pull::PullArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "push",
        aliases: &[],
        about: "Push a chart to a registry",
        flags: push::PushArgs::augment_args,
        run: |matches, _| Ok(push::run(&push::PushArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "dependency",
        aliases: &["dep", "dependencies"],
        about: "Manage a chart's dependencies",
        flags: |command| {
            let command = command.subcommand_required(true).arg_required_else_help(true);
            dependency::DependencyCommand::augment_subcommands(command)
        },
        run: |matches, _| Ok(dependency::run(&dependency::DependencyCommand::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "lint",
        aliases: &[],
        about: "Check a chart for mistakes",
        flags: lint::LintArgs::augment_args,
        run: |matches, _| Ok(lint::run(&lint::LintArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "explain",
        aliases: &[],
        about: "Show the values of a chart as a table",
        flags: explain::ExplainArgs::augment_args,
        run: |matches, _| Ok(explain::run(&explain::ExplainArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "values",
        aliases: &[],
        about: "Show the values of a custom resource, and the source of each",
        flags: values::ValuesArgs::augment_args,
        run: |matches, _| Ok(values::run(&values::ValuesArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "crd",
        aliases: &[],
        about: "Make the typed CustomResourceDefinition of a chart",
        flags: crd::CrdArgs::augment_args,
        run: |matches, _| Ok(crd::run(&crd::CrdArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "rbac",
        aliases: &[],
        about: "Make the roles that an operator of a chart needs, or check that it has them",
        flags: rbac::RbacArgs::augment_args,
        run: |matches, _| Ok(rbac::run(&rbac::RbacArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "image",
        aliases: &[],
        about: "Make the container image of an operator, without Docker",
        flags: image::ImageArgs::augment_args,
        run: |matches, _| Ok(image::run(&image::ImageArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "sign",
        aliases: &[],
        about: "Sign files, such as those of a release",
        flags: sign::SignArgs::augment_args,
        run: |matches, _| Ok(sign::run(&sign::SignArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "run",
        aliases: &[],
        about: "Run the operator",
        flags: run::RunArgs::augment_args,
        run: |matches, drivers| Ok(run::run(run::RunArgs::from_arg_matches_mut(matches)?, drivers)),
    },
    Entry {
        name: "status",
        aliases: &[],
        about: "Show a release: its objects and their health, its members, and the work in progress",
        flags: status::StatusArgs::augment_args,
        run: |matches, _| Ok(status::run(&status::StatusArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "snapshot",
        aliases: &[],
        about: "Back etcd and databases up, and restore them",
        flags: |command| {
            let command = command.subcommand_required(true).arg_required_else_help(true);
            snapshot::SnapshotCommand::augment_subcommands(command)
        },
        run: |matches, _| Ok(snapshot::run(&snapshot::SnapshotCommand::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "chaos",
        aliases: &[],
        about: "Inject faults into a cluster of etcd, and check whether a write is lost",
        flags: chaos::ChaosArgs::augment_args,
        run: |matches, _| Ok(chaos::run(&chaos::ChaosArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "agent-check",
        aliases: &[],
        about: "Check whether the agent of a database follows the contract",
        flags: agent_check::AgentCheckArgs::augment_args,
        run: |matches, _| Ok(agent_check::run(&agent_check::AgentCheckArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "completion",
        aliases: &[],
        about: "Print the script by which a shell completes commands and flags",
        flags: completion::CompletionArgs::augment_args,
        run: |matches, _| {
            completion::run(&completion::CompletionArgs::from_arg_matches_mut(matches)?, &mut whole());
            Ok(Ok(()))
        },
    },
    Entry {
        name: "man",
        aliases: &[],
        about: "Print or write manual pages",
        flags: man::ManArgs::augment_args,
        run: |matches, _| Ok(man::run(&man::ManArgs::from_arg_matches_mut(matches)?, whole())),
    },
    Entry {
        name: "list",
        aliases: &["ls"],
        about: "List the custom resources of charts, with their releases",
        flags: list::ListArgs::augment_args,
        run: |matches, _| Ok(list::run(&list::ListArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "ui",
        aliases: &[],
        about: "Show releases in a browser, with the rights of your kubeconfig",
        flags: ui::UiArgs::augment_args,
        run: |matches, _| Ok(ui::run(&ui::UiArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "diff",
        aliases: &[],
        about: "Show the changes that the next pass would make on the live cluster",
        flags: diff::DiffArgs::augment_args,
        run: |matches, _| Ok(diff::run(&diff::DiffArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "fleet",
        aliases: &[],
        about: "Show the effect of a new chart, or of other values, on many custom resources",
        flags: fleet::FleetArgs::augment_args,
        run: |matches, _| Ok(fleet::run(&fleet::FleetArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "plan",
        aliases: &[],
        about: "Show the state of a release, and the steps of the next pass",
        flags: plan::PlanArgs::augment_args,
        run: |matches, _| Ok(plan::run(&plan::PlanArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "history",
        aliases: &[],
        about: "Show the revisions of a release, and the values that each of them changed",
        flags: history::HistoryArgs::augment_args,
        run: |matches, _| Ok(history::run(&history::HistoryArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "rollback",
        aliases: &[],
        about: "Give a custom resource the values of an earlier revision",
        flags: rollback::RollbackArgs::augment_args,
        run: |matches, _| Ok(rollback::run(&rollback::RollbackArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "pause",
        aliases: &[],
        about: "Stop the operator from changing a custom resource and its release",
        flags: pause::PauseArgs::augment_args,
        run: |matches, _| Ok(pause::pause(&pause::PauseArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "resume",
        aliases: &[],
        about: "End a pause",
        flags: pause::ResumeArgs::augment_args,
        run: |matches, _| Ok(pause::resume(&pause::ResumeArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "reconcile",
        aliases: &[],
        about: "Request a pass over a custom resource, and wait for it",
        flags: pause::ReconcileArgs::augment_args,
        run: |matches, _| Ok(pause::reconcile(&pause::ReconcileArgs::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "notice",
        aliases: &[],
        about: "Send a test message of a notice",
        flags: |command| {
            let command = command.subcommand_required(true).arg_required_else_help(true);
            notice::NoticeCommand::augment_subcommands(command)
        },
        run: |matches, _| Ok(notice::run(&notice::NoticeCommand::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "adopt",
        aliases: &[],
        about: "Make custom resources of Helm releases, or of loose objects",
        flags: |command| {
            let command = command.subcommand_required(true).arg_required_else_help(true);
            adopt::AdoptCommand::augment_subcommands(command)
        },
        run: |matches, _| Ok(adopt::run(&adopt::AdoptCommand::from_arg_matches_mut(matches)?)),
    },
    Entry {
        name: "doctor",
        aliases: &[],
        about: "Check a cluster and the operator in it",
        flags: doctor::DoctorArgs::augment_args,
        run: |matches, _| Ok(doctor::run(&doctor::DoctorArgs::from_arg_matches_mut(matches)?)),
    },
];

impl Entry {
    fn is_called(&self, name: &OsStr) -> bool {
        name == self.name || self.aliases.iter().any(|alias| name == *alias)
    }
    fn command(&self, with_flags: bool) -> clap::Command {
        let command = clap::Command::new(self.name);
        let command = if with_flags { (self.flags)(command) } else { command };
        command.about(self.about).long_about(None).visible_aliases(self.aliases)
    }
}

/// The whole command line, with the flags of all commands.
fn whole() -> clap::Command {
    program(None).mut_subcommands(|command| {
        let entry = ENTRIES.iter().find(|entry| entry.name == command.get_name());
        entry.map_or_else(|| command, |entry| entry.command(true))
    })
}

/// The program's command line, with the flags of the command that is `given`.
fn program(given: Option<&OsString>) -> clap::Command {
    let commands = ENTRIES.iter().map(|entry| entry.command(given.is_some_and(|name| entry.is_called(name))));
    clap::Command::new("tillerman")
        .bin_name(called())
        .about("Turns charts into operators, and renders charts as Helm does")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

/// How the program was called: kubectl runs `kubectl-tillerman` for `kubectl tillerman`.
fn called() -> &'static str {
    let name = std::env::args_os().next();
    let name = name.as_deref().and_then(|path| std::path::Path::new(path).file_name());
    if name.is_some_and(|name| name == "kubectl-tillerman") { "kubectl tillerman" } else { "tillerman" }
}

/// The additions of a program that is not ours.
type Brought = crate::members::drivers::Drivers;

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    start(Brought::default())
}

/// The same for a program that brings drivers of its own for members of stateful sets.
pub fn main_with(drivers: crate::members::drivers::Drivers) -> ExitCode {
    start(drivers)
}

fn start(brought: Brought) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let mut program = program(args.get(1));
    let args = one_dash(&program, args);
    let args = match plain_switches(&program, args) {
        Ok(args) => args,
        Err(e) => return failure(&e),
    };
    let parsed = program.try_get_matches_from_mut(args);
    // The process ends before anybody needs its memory.
    std::mem::forget(program);
    let result = parsed.and_then(|mut matches| {
        let (name, mut matches) = matches.remove_subcommand().unwrap_or_default();
        let entry = ENTRIES.iter().find(|entry| entry.name == name);
        entry.map_or(Ok(Ok(())), |entry| (entry.run)(&mut matches, brought))
    });
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(e)) => failure(&e),
        Err(e) => usage_error(&e),
    }
}

fn failure(error: &CliError) -> ExitCode {
    eprintln!("Error: {error}");
    ExitCode::FAILURE
}

/// Go's own flags, which coreos' etcd-operator has, may begin with one dash. Only the operator accepts them so.
fn one_dash(cli: &clap::Command, args: Vec<OsString>) -> Vec<OsString> {
    let Some(run) = args.get(1).filter(|name| *name == "run").and_then(|name| cli.find_subcommand(name)) else {
        return args;
    };
    let is_long = |name: &str| {
        name.len() > 1
            && run.get_arguments().any(|a| {
                a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
            })
    };
    let with_two = |arg: OsString| match arg.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(rest) if is_long(rest.split('=').next().unwrap_or(rest)) => format!("--{rest}").into(),
        _ => arg,
    };
    args.into_iter().map(with_two).collect()
}

/// Go's flags may be `--switch=true` and `--switch=false`, and the last counts. For switches that take no value here, this adds or
/// removes the switch. A switch with another value gives Go's error.
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
            let value = quoted(value.as_bytes());
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

/// An unknown flag, and one without its argument, is reported in the words that users of Helm know; help and version
/// are not errors.
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
        let value = quoted(value.as_bytes());
        return failure(&CliError(format!("invalid argument {value} for \"{flag}\" flag: {why}")));
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
    let given = std::env::args_os().nth(1);
    let program = program(given.as_ref());
    let command = given.and_then(|name| program.find_subcommand(name));
    let argument = command.into_iter().flat_map(clap::Command::get_arguments);
    let letter = argument.filter(|a| a.get_long() == flag.strip_prefix("--")).find_map(clap::Arg::get_short);
    letter.map_or_else(|| flag.to_owned(), |letter| format!("-{letter}, {flag}"))
}
