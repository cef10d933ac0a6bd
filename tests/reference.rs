//! `docs/reference` and tables of other pages: the text between `<!-- generated: NAME -->` and `<!-- end -->` is made from the tables of the code, from the metrics as
//! they are registered, and from the program's own help. `REWRITE_REFERENCE=1 cargo test --test reference` writes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use regex::Regex;
use tillerman::agent::contract::VolumeSpace;
use tillerman::inputs::{Limit, inputs};
use tillerman::kind::switches::{HELM_OPERATOR, PREFIX, SWITCHES, THEIRS};
use tillerman::kind::watches::FIELDS;
use tillerman::members::rows::Row;
use tillerman::members::{etcd, primary};
use tillerman::object::Gvk;
use tillerman::plan::reasons::{CONDITIONS, EVENTS, REASONS};
use tillerman::telemetry::collect::{
    DatabaseLabels, DatabaseMember, DatabaseSight, MemberLabels, ReleaseState, ResourceLabels,
};
use tillerman::telemetry::metrics::{Metrics, PassResult, QueueAge};

const START: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let first = line(&head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    let rows = rows.into_iter().map(|row| {
        assert_eq!(row.len(), head.len(), "{row:?}");
        // A bar ends a cell.
        line(&row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>())
    });
    [first, format!("|{}\n", "---|".repeat(head.len()))].into_iter().chain(rows).collect()
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// All parts that pages may show.
fn parts() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("watches fields", watches_fields()),
        ("watches switches", watches_switches()),
        ("annotations", annotations()),
        ("annotations of helm-operator", annotations_of_helm_operator()),
        (
            "conditions",
            table(
                &["type", "as in", "`True` means"],
                CONDITIONS.iter().map(|row| vec![code(row.name), row.of.to_owned(), row.meaning.to_owned()]),
            ),
        ),
        (
            "reasons",
            table(&["reason", "meaning"], REASONS.iter().map(|row| vec![code(row.name), row.meaning.to_owned()])),
        ),
        (
            "events",
            table(
                &["reason", "type", "when"],
                EVENTS.iter().map(|row| vec![code(row.name), row.kind.to_owned(), row.meaning.to_owned()]),
            ),
        ),
        ("inputs", of_inputs()),
        ("metrics", metrics()),
        ("commands", commands()),
        ("decisions of primary", decisions(primary::decide::rows())),
        ("decisions of etcd", decisions(etcd::decide::rows())),
    ])
}

/// The phases of a driver, each with its rows. They are numbered in the order in which they are tried.
fn decisions(rows: impl Iterator<Item = &'static Row>) -> String {
    let all: Vec<(usize, &Row)> = (1..).zip(rows).collect();
    let phases = all.chunk_by(|(_, a), (_, b)| a.phase == b.phase);
    let shown = phases.map(|rows| {
        let cells = |(number, row): &(usize, &Row)| {
            vec![number.to_string(), code(row.name), row.when.to_owned(), row.then.to_owned()]
        };
        let phase = rows[0].1.phase;
        let table = table(&["row", "name", "condition", "action"], rows.iter().map(cells));
        format!("### {}\n{}\n\n{table}", phase.name, phase.about)
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The table of `docs/explanation/security.md`. The hostile texts of `tests/hostile.rs` show what no test is named for.
fn of_inputs() -> String {
    table(
        &["what", "limits", "beyond them", "test"],
        inputs().into_iter().map(|input| {
            let limits: Vec<String> = input.limits.iter().map(Limit::text).collect();
            let has_rows = input.limits.iter().any(|limit| !limit.row().is_empty());
            let tests = has_rows.then_some("tests/hostile.rs").into_iter().chain(input.tests.iter().copied());
            vec![
                input.what.to_owned(),
                limits.join(", "),
                input.beyond.to_owned(),
                tests.map(code).collect::<Vec<_>>().join(", "),
            ]
        }),
    )
}

fn watches_fields() -> String {
    let row = |name: &str, values: &str, meaning: &str| vec![code(name), values.to_owned(), meaning.to_owned()];
    table(&["field", "value", "meaning"], FIELDS.iter().map(|field| row(field.name, field.values, field.meaning)))
}

fn watches_switches() -> String {
    let is_list = |name: &str| FIELDS.iter().any(|field| field.name == name);
    let rows = SWITCHES.iter().filter_map(|row| {
        let field = row.field.filter(|field| !is_list(field))?;
        Some(vec![code(field), row.values.to_owned(), code(&format!("{PREFIX}{}", row.name)), row.effect.to_owned()])
    });
    table(&["field", "value", "annotation", "effect"], rows)
}

fn annotations() -> String {
    let rows = SWITCHES.iter().map(|row| {
        let allow = row.allow.map_or(String::new(), code);
        vec![code(row.name), row.field.map_or(String::new(), code), row.values.to_owned(), allow, row.effect.to_owned()]
    });
    table(&["`tillerman.dev/…`", "in `watches.yaml`", "value", "needs `allow`", "effect"], rows)
}

fn annotations_of_helm_operator() -> String {
    let rows = THEIRS.iter().map(|row| vec![code(row.name), row.values.to_owned(), row.effect.to_owned()]);
    table(&[&format!("`{HELM_OPERATOR}…`"), "value", "effect"], rows)
}

/// One of each, so that each has its labels.
fn all_metrics() -> String {
    let metrics = Metrics::new();
    let (controller, gvk) = ("web-controller", Gvk::new("g", "v", "K"));
    metrics.request(Some(200), "host", "GET", "list");
    for _ in 0..2 {
        metrics.pass_started(controller);
    }
    metrics.pass_ended(controller, PassResult::Error, Duration::ZERO);
    metrics.outcome(controller, "Install", "success");
    metrics.repaired(controller, 1);
    metrics.event_left_out();
    metrics.notice_sent("smtp", true);
    metrics.set_leader("lease", true);
    metrics.waited(Duration::ZERO);
    metrics.failed(controller, "RenderError");
    metrics.set_workers(controller, 1);
    metrics.queue(1, true, true);
    metrics.set_kind_available(&gvk, true);
    metrics.set_chart_usable(&gvk, true);
    let resource = || {
        let text = || "x".to_owned();
        vec![(ResourceLabels { group: text(), version: text(), kind: text(), namespace: text(), name: text() }, 1)]
    };
    metrics.register_created_at(resource);
    metrics.register_restores(resource);
    metrics.register_states(|| vec![(ReleaseState { controller: "x".to_owned(), state: "ready" }, 1)]);
    metrics.register_databases(|| {
        let text = || "x".to_owned();
        let labels = DatabaseLabels { controller: text(), namespace: text(), name: text(), members: text() };
        let member = MemberLabels { controller: text(), namespace: text(), name: text(), pod: text(), role: "Replica" };
        let members = vec![DatabaseMember {
            labels: member,
            answers: true,
            lag: Some(1.0),
            waiting: Some(1),
            volume: Some(VolumeSpace::default()),
        }];
        vec![DatabaseSight { labels, safe: Some(true), takes_writes: true, last_change: Some(1), members }]
    });
    metrics.register_watches(|| 1);
    metrics.register_queue(QueueAge::default);
    metrics.register_notices(|| 1);
    metrics.encode()
}

fn metrics() -> String {
    let text = all_metrics();
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let label = Regex::new("([a-z_]+)=\"").unwrap();
    let mut rows = BTreeMap::new();
    for (name, help) in text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')) {
        let kind = kinds[name];
        let (series, sample) = match kind {
            "counter" => (format!("{name}_total"), format!("{name}_total")),
            "info" => (format!("{name}_info"), format!("{name}_info")),
            "histogram" => (name.to_owned(), format!("{name}_count")),
            _ => (name.to_owned(), name.to_owned()),
        };
        let line = text.lines().find(|line| {
            line.strip_prefix(&*sample).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
        });
        let line = line.unwrap_or_else(|| panic!("{name} has no value: set one in all_metrics()"));
        let labels: Vec<String> = label.captures_iter(line).map(|found| code(&found[1])).collect();
        rows.insert(
            series.clone(),
            vec![code(&series), kind.to_owned(), labels.join(", "), help.trim_end_matches('.').to_owned()],
        );
    }
    // What is registered under a name that never came out, because nothing sets it here.
    let mut files = Vec::new();
    sources(&root().join("src/telemetry"), &mut files);
    let names = r#"(?:register(?:_with_unit)?\(\s*|Read::new\(\s*|encode_descriptor\()"([a-z_]+)""#;
    let names = Regex::new(names).unwrap();
    for (path, source) in files {
        for found in names.captures_iter(&source) {
            let is_shown = rows.keys().any(|series| series.starts_with(&found[1]));
            assert!(is_shown, "{} registers {}: set a value of it in all_metrics()", path.display(), &found[1]);
        }
    }
    table(&["metric", "type", "labels", "meaning"], rows.into_values())
}

fn help(path: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_tillerman");
    let output = Command::new(program).args(path).arg("--help").env_clear().output().unwrap();
    assert!(output.status.success(), "tillerman {} --help", path.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The names below `Commands:` of a help.
fn below(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| line.starts_with("  "));
    let names = list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn commands() -> String {
    fn walk(path: &[&str], text: &mut String) {
        let help = help(path);
        let depth = "#".repeat(path.len().max(1) + 1);
        let name = ["tillerman"].iter().chain(path).copied().collect::<Vec<_>>().join(" ");
        // Blank lines between flags are clap's; a page is read better without trailing space.
        let lines = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let _ = write!(text, "{depth} {name}\n\n```text\n{}\n```\n\n", lines.trim());
        for name in below(&help) {
            let path: Vec<&str> = path.iter().copied().chain([&*name]).collect();
            walk(&path, text);
        }
    }
    let mut text = String::new();
    walk(&[], &mut text);
    text
}

/// A page with its generated parts as they should be, and which those are.
fn page(text: &str, parts: &BTreeMap<&'static str, String>) -> (String, Vec<String>) {
    let (mut out, mut names, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once(START) {
        let (name, after) = after.split_once(" -->").expect("a generated part has a name");
        let (_, after) = after.split_once(END).expect("a generated part has an end");
        let part = parts.get(name).unwrap_or_else(|| panic!("no part is called {name:?}"));
        let _ = write!(out, "{before}{START}{name} -->\n{}\n{END}", part.trim_end());
        names.push(name.to_owned());
        rest = after;
    }
    (out + rest, names)
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs/reference")).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.extend(
        ["docs/explanation/security.md", "docs/design/members.md", "docs/design/primary.md"]
            .map(|page| root().join(page)),
    );
    found.sort();
    found
}

#[test]
fn the_reference_is_what_the_code_says() {
    let (parts, mut shown, mut stale) = (parts(), BTreeSet::new(), Vec::new());
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let (wanted, names) = page(&text, &parts);
        shown.extend(names);
        if text != wanted {
            if std::env::var_os("REWRITE_REFERENCE").is_some() {
                fs::write(&path, &wanted).unwrap();
            } else {
                let differs = text.lines().zip(wanted.lines()).find(|(old, new)| old != new);
                stale.push(format!("{}: {differs:?}", path.display()));
            }
        }
    }
    assert!(stale.is_empty(), "stale; run REWRITE_REFERENCE=1 cargo test --test reference\n{}", stale.join("\n"));
    let hidden: Vec<_> = parts.keys().filter(|name| !shown.contains(**name)).collect();
    assert!(hidden.is_empty(), "no page of docs/reference shows {hidden:?}");
}

/// The code below a folder of `src`, without tests and comments, by file.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && stem != "tests" && !stem.ends_with("_tests") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            found.push((path, lines.join("\n")));
        }
    }
}

/// The places where code names a reason, and the names there.
fn reasons_of(text: &str) -> BTreeSet<String> {
    const PLACES: [&str; 9] = [
        // A field, or an event.
        r#"\breason: "([A-Z][A-Za-z]+)""#,
        r#"\bevent\((?:[^;"]*?,)?\s*(?:true|false),\s*"([A-Z][A-Za-z]+)""#,
        // A condition: its type, and its reason.
        r#"conditions\.set\("([A-Z][A-Za-z]+)""#,
        r#"conditions\.set\(\s*"[A-Z][A-Za-z]+",\s*\w+,\s*"([A-Z][A-Za-z]+)""#,
        r#"\bcondition\("([A-Z][A-Za-z]+)", (?:true|false)"#,
        r#"\b(?:refuse|because)\("([A-Z][A-Za-z]+)""#,
        // A pair of a reason and a message.
        r#"\((?:false|true), "([A-Z][A-Za-z]+)","#,
        r#"Some\(\("([A-Z][A-Za-z]+)","#,
        r#"(?m)^\s+"((?:Version|Install|Upgrade|Uninstall|Reconcile)[A-Z][A-Za-z]+)",?$"#,
    ];
    let found = |pattern: &str| -> Vec<String> {
        Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    let mut all: BTreeSet<String> = PLACES.into_iter().flat_map(found).collect();
    // What a function of that name answers.
    let literal = Regex::new(r#"=> "([A-Z][A-Za-z]+)""#).unwrap();
    for body in text.split("fn reason(").skip(1) {
        let body = body.split("\n    }\n").next().unwrap_or_default();
        all.extend(literal.captures_iter(body).map(|found| found[1].to_owned()));
    }
    all
}

#[test]
fn each_reason_in_the_code_has_a_row_and_each_row_is_in_the_code() {
    let mut files = Vec::new();
    for folder in ["plan", "reconcile", "members", "cluster", "runs"] {
        sources(&root().join("src").join(folder), &mut files);
    }
    files.retain(|(path, _)| !path.ends_with("plan/reasons.rs"));
    let rows: BTreeSet<&str> =
        CONDITIONS.iter().map(|row| row.name).chain(REASONS.iter().map(|row| row.name)).collect();
    let rows: BTreeSet<&str> = rows.into_iter().chain(EVENTS.iter().map(|row| row.name)).collect();
    let mut missing = Vec::new();
    for (path, text) in &files {
        for reason in reasons_of(text) {
            if !rows.contains(&*reason) {
                missing.push(format!("{}: {reason}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "reasons without a row in src/plan/reasons.rs:\n{}", missing.join("\n"));
    let is_named = |name: &&&str| files.iter().any(|(_, text)| text.contains(&format!("\"{name}\"")));
    let gone: Vec<_> = rows.iter().filter(|name| !is_named(name)).collect();
    assert!(gone.is_empty(), "rows of src/plan/reasons.rs that no code names: {gone:?}");
}

#[test]
fn reasons_are_found_where_code_names_them() {
    let code = r#"
        event(observed, ctx, true, "Ax", note);
        event(
            self.observed,
            self.ctx,
            false,
            "Bx",
            note,
        );
        Step::Stop { reason: "Cx", why };
        conditions.set("Dx", false, "Ex", "");
        return (false, "Fx", String::new());
        seen.failed = Some(("Gx", why));
    fn reason(&self) -> &'static str {
        match self { Self::X => "Hx" }
    }
    "#;
    assert_eq!(reasons_of(code).into_iter().collect::<String>(), "AxBxCxDxExFxGxHx");
}
