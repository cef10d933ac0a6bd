//! `tillerman migrate`: the changes that a project of operator-sdk needs so that Tillerman runs it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ArgAction;
use serde_json::{Value, json};

use crate::chart::{self, Chart, LoadError, SchemaDocument, SchemaDocuments};
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::output::OutputArgs;
use crate::cli::common::rights::needed;
use crate::cli::common::streams::print;
use crate::cli::common::unified::unified;
use crate::kind::{ChartRef, Kind};
use crate::scaffold::migrate::{self, Argument, Finding, MigrationReport, Project, Verdict};
use crate::source::archive::write_below;

/// Arguments of `tillerman migrate`.
#[derive(Debug, clap::Args)]
pub(super) struct MigrateArgs {
    /// The directory of the project.
    #[arg(default_value = ".", value_name = "DIR")]
    project: PathBuf,
    /// Make the changes that need no person.
    #[arg(long)]
    write: bool,
    /// The base image for the Dockerfile. An image with helm-operator in its name has the same folder, user and
    /// arguments as that of helm-operator, like the target helm-operator of deploy/Dockerfile; other images have the
    /// program alone.
    #[arg(long, value_name = "IMAGE", default_value = concat!("tillerman:", env!("CARGO_PKG_VERSION")))]
    base: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Bytes of a file that is read.
const FILE_LIMIT: u64 = 1 << 20;
/// Files that are read.
const MOST_FILES: usize = 2_000;
/// Folders below each other.
const DEEPEST: usize = 8;
/// The folders of a project whose files are read, besides the files next to them. Charts are loaded as charts.
const FOLDERS: [&str; 4] = ["build", "bundle", "config", "deploy"];

/// Prints the necessary changes. Ends with 0 if there are none, with 1 if something is left to change, and with 2 after
/// an error, as `diff` does. `operator` is the command `run`, without its name as the first word.
pub(super) fn run(args: &MigrateArgs, operator: &clap::Command) -> Result<(), CliError> {
    match migrated(args, operator) {
        Ok(true) => Ok(()),
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::exit(2);
        }
    }
}

/// Whether nothing is left to change.
fn migrated(args: &MigrateArgs, operator: &clap::Command) -> Result<bool, CliError> {
    let shown = args.project.display();
    if args.base.is_empty() || args.base.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(CliError(format!("--base: {:?} is not a name of an image", args.base)));
    }
    let root = args.project.canonicalize().map_err(|e| CliError(format!("{shown}: {}", chart::go_io(&e))))?;
    // Charts and links are named from here on as they are in the project.
    std::env::set_current_dir(&root).map_err(|e| CliError(format!("{shown}: {}", chart::go_io(&e))))?;
    let files = read(&root)?;
    if !files.contains_key("watches.yaml") {
        return Err(CliError(format!(
            "{shown} has no watches.yaml: give the directory of a project that operator-sdk made with its plugin helm"
        )));
    }
    let kinds = kinds(&root, &files);
    let loaded: Vec<Kind> = kinds.iter().filter(|(_, chart)| chart.is_ok()).map(|(kind, _)| kind.clone()).collect();
    let needed = needed(&loaded)?;
    let argument = |text: &str| argument(operator, text);
    let project = Project { files: &files, base: &args.base, argument: &argument, kinds: &kinds, needed: &needed };
    let report = migrate::look(&project);
    let edited = report.edited(&files);
    if args.write {
        for (path, text) in &edited {
            write_below(&root, Path::new(path), text.as_bytes())?;
        }
    }
    if !args.output.print(&document(&report, args.write))? {
        print(&text(&report, &files, &edited, args));
    }
    let is_left = |finding: &Finding| finding.verdict == Verdict::Change && !(args.write && finding.is_edited);
    Ok(!report.findings.iter().any(is_left))
}

/// The kinds of the project, each with its chart.
fn kinds(root: &Path, files: &BTreeMap<String, String>) -> Vec<(Kind, Result<Chart, LoadError>)> {
    // The check of the project finds and reports the faults of the file again.
    let watches = files.get("watches.yaml").and_then(|text| migrate::read_watches(text).ok());
    let load = |kind: Kind| {
        let chart = match &kind.chart {
            ChartRef::Link(link) => {
                Err(format!("{link} is not fetched here: pull it (tillerman pull), and check it separately").into())
            }
            ChartRef::Path(path) => match path.canonicalize() {
                Ok(real) if !real.starts_with(root) => {
                    Err(format!("{} lies outside of the project", path.display()).into())
                }
                Ok(_) => chart::load(path).map(|chart| with_documents(chart, &kind)),
                Err(e) => Err(format!("{}: {}", path.display(), chart::go_io(&e)).into()),
            },
        };
        (kind, chart)
    };
    watches.into_iter().flat_map(|watches| watches.kinds).map(load).collect()
}

/// The chart with a document that accepts every value for each address that `watches.yaml` knows: the files are in the image.
fn with_documents(mut chart: Chart, kind: &Kind) -> Chart {
    let urls = kind.schema_documents.keys();
    chart.refer_to(&Arc::new(SchemaDocuments(urls.map(|url| (url.clone(), SchemaDocument::Any)).collect())));
    chart
}

/// The effect of an argument on `tillerman run`.
fn argument(command: &clap::Command, text: &str) -> Argument {
    let name = text.trim_start_matches('-').split('=').next().unwrap_or_default();
    let is_of_name = |flag: &&clap::Arg| {
        flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    };
    let Some(flag) = command.get_arguments().find(is_of_name).filter(|_| text.starts_with('-')) else {
        return Argument::Unknown;
    };
    // The operator's name is hidden, since it comes by the environment; all other hidden flags do nothing.
    if flag.is_hide_set() && name != "operator-name" {
        return Argument::Ignored;
    }
    let takes_value = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_value && !flag.is_require_equals_set() && !text.contains('=') {
        return Argument::Known { takes_next: true };
    }
    match command.clone().try_get_matches_from([text]) {
        Ok(_) => Argument::Known { takes_next: false },
        Err(error) => {
            let why = std::error::Error::source(&error).map_or_else(|| error.kind().to_string(), ToString::to_string);
            Argument::Wrong(why)
        }
    }
}

/// The texts of a project, by path.
fn read(root: &Path) -> Result<BTreeMap<String, String>, CliError> {
    let mut files = BTreeMap::new();
    below(root, "", 0, &mut files)?;
    for folder in FOLDERS {
        below(root, folder, 1, &mut files)?;
    }
    Ok(files)
}

/// Reads the files of a folder; below the first level, those of its folders too. Links are not followed.
fn below(root: &Path, folder: &str, level: usize, files: &mut BTreeMap<String, String>) -> Result<(), CliError> {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return Ok(()) };
    if level > DEEPEST {
        return Err(CliError(format!("{folder} lies below more than {DEEPEST} folders")));
    }
    for entry in entries {
        let entry = entry.map_err(|e| CliError(format!("{folder}: {e}")))?;
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if kind.is_dir() && level > 0 {
            below(root, &path, level + 1, files)?;
        }
        if !kind.is_file() {
            continue;
        }
        if files.len() >= MOST_FILES {
            return Err(CliError(format!("the project has more than {MOST_FILES} files in {}", FOLDERS.join(", "))));
        }
        let failed = |e: std::io::Error| CliError(format!("{path}: {}", chart::go_io(&e)));
        let mut data = Vec::new();
        let file = std::fs::File::open(entry.path()).map_err(failed)?;
        file.take(FILE_LIMIT + 1).read_to_end(&mut data).map_err(failed)?;
        // Programs and pictures may lie here too.
        if data.len() as u64 <= FILE_LIMIT
            && let Ok(text) = String::from_utf8(data)
        {
            files.insert(path, text);
        }
    }
    Ok(())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Change => "change",
        Verdict::Note => "note",
        Verdict::Stays => "stays",
    }
}

fn document(report: &MigrationReport, written: bool) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "verdict": word(finding.verdict), "file": finding.path, "line": finding.line, "what": finding.what,
            "remedy": finding.remedy, "byHand": finding.verdict == Verdict::Change && !finding.is_edited,
            "written": written && finding.is_edited,
        })
    };
    json!({"findings": report.findings.iter().map(finding).collect::<Vec<_>>()})
}

fn text(
    report: &MigrationReport,
    files: &BTreeMap<String, String>,
    edited: &BTreeMap<String, String>,
    args: &MigrateArgs,
) -> String {
    let mut text = String::new();
    let edits = if args.write { "Changed" } else { "To change (--write does it)" };
    for (title, verdict, is_edited) in [
        (edits, Verdict::Change, true),
        ("To change by hand", Verdict::Change, false),
        ("Worth knowing", Verdict::Note, false),
        ("Stays as it is", Verdict::Stays, false),
    ] {
        let of_group = |f: &&Finding| f.verdict == verdict && f.is_edited == is_edited;
        let findings: Vec<&Finding> = report.findings.iter().filter(of_group).collect();
        if findings.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:");
        for finding in findings {
            let place = finding.line.map_or_else(|| finding.path.clone(), |at| format!("{}:{at}", finding.path));
            let _ = writeln!(text, "  {}: {}", line(&place), line(&finding.what));
            if !finding.remedy.is_empty() {
                let _ = writeln!(text, "    -> {}", line(&finding.remedy));
            }
        }
    }
    for (path, new) in edited.iter().filter(|_| !args.write) {
        let _ = writeln!(text, "\n--- {path}\n+++ {path}", path = line(path));
        for (_, shown) in unified(&files[path], new) {
            let shown: Vec<String> = shown.split('\t').map(line).collect();
            let _ = writeln!(text, "{}", shown.join("\t"));
        }
    }
    if !report.findings.iter().any(|finding| finding.verdict == Verdict::Change) {
        text.push_str("Nothing has to change.\n");
    }
    text
}
