//! Runs the command blocks of README.md and pages of docs/how-to, as a reader does: all `sh` blocks of a document one after the other in one shell,
//! on a real API server. A `text` block behind one is its output. `REWRITE_DOCUMENTS=1` writes what was printed into the document.
//!
//! `<!-- not run: WHY -->` before a block says why it is not run here, `<!-- fails -->` that it ends with an error.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;

/// For all blocks of a document.
const DEADLINE: Duration = Duration::from_secs(240);

const NOT_RUN: &str = "<!-- not run: ";
const FAILS: &str = "<!-- fails -->";

#[derive(Debug, PartialEq, Eq)]
enum Mark {
    Runs,
    Fails,
    NotRun(String),
}

/// A block of commands. Lines count from 0.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    code: String,
    mark: Mark,
    /// The lines of the output after it.
    output: Option<Range<usize>>,
}

/// The blocks of a document, or what is wrong with one.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let command = Regex::new(r"^    (make|kubectl|tillerman|helm|docker|export|cargo) ").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_blank = |at: usize| lines[at].trim().is_empty();
    let mut found: Vec<Block> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let Some(language) = line.strip_prefix("```") else {
            if command.is_match(line) {
                return Err(format!("line {}: commands stand in a fenced block, so that they are run", at + 1));
            }
            at += 1;
            continue;
        };
        let end = (at + 1..lines.len()).find(|&end| lines[end] == "```").ok_or("a block has no end")?;
        let before = (0..at).rev().find(|&before| !is_blank(before)).map_or("", |before| lines[before]);
        match language {
            "sh" => {
                let mark = match before.strip_prefix(NOT_RUN).and_then(|rest| rest.strip_suffix(" -->")) {
                    Some(why) if !why.trim().is_empty() => Mark::NotRun(why.to_owned()),
                    _ if before == FAILS => Mark::Fails,
                    _ => Mark::Runs,
                };
                found.push(Block { line: at, code: lines[at + 1..end].join("\n"), mark, output: None });
            }
            "bash" | "shell" | "console" => return Err(format!("line {}: write ```sh, so that it is run", at + 1)),
            "text" => {
                let above = (0..at).rev().find(|&above| !is_blank(above)).unwrap_or_default();
                if let Some(block) =
                    found.last_mut().filter(|block| above == block.line + block.code.lines().count() + 1)
                {
                    block.output = Some(at + 1..end);
                }
            }
            _ => {}
        }
        at = end + 1;
    }
    Ok(found)
}

/// What differs each time: ages, times, addresses, and the widths of columns.
fn settled(output: &str) -> String {
    const CHANGING: [(&str, &str); 4] = [
        (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\b", "TIME"),
        (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b\d+(?:ms|s|m|h)(?:\d+s)?\b", "AGE"),
        (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
    ];
    let settle =
        |text: String, (pattern, to): (&str, &str)| Regex::new(pattern).unwrap().replace_all(&text, to).into_owned();
    let text = CHANGING.into_iter().fold(output.to_owned(), settle);
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The folder in which a document is run: the repository with `target/tillerman`, and what the commands leave.
struct Place {
    root: PathBuf,
    shell: Option<Child>,
}

impl Place {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("tillerman-documents-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        fs::create_dir_all(root.join("output")).unwrap();
        let repository = root.join("repository");
        fs::create_dir_all(repository.join("target")).unwrap();
        for entry in fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "target" && entry.file_name() != ".git" {
                symlink(entry.path(), repository.join(entry.file_name())).unwrap();
            }
        }
        // Tests that run beside this one have the ports.
        let program = std::env::var("TILLERMAN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tillerman").to_owned());
        let text = format!(
            "#!/bin/sh\n[ \"$1\" != run ] || set -- \"$@\" --metrics-bind-address=0 --health-probe-bind-address=0\nexec '{program}' \"$@\"\n"
        );
        let wrapper = repository.join("target/tillerman");
        fs::write(&wrapper, text).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        Self { root, shell: None }
    }

    /// Runs a script to its end; whether it succeeded.
    fn run(&mut self, script: &str) -> bool {
        let cache =
            std::env::var("XDG_CACHE_HOME").unwrap_or_else(|_| format!("{}/.cache", std::env::var("HOME").unwrap()));
        let mut shell = Command::new("bash")
            .current_dir(self.root.join("repository"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("HOME", self.root.join("home"))
            .env("XDG_CACHE_HOME", cache)
            .env("CHECKOUT", self.root.join("repository"))
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        // The shell has read all of it before the first command could.
        let text = format!("eval \"$(cat)\" </dev/null\n{script}");
        let (mut input, deadline) = (shell.stdin.take().unwrap(), Instant::now() + DEADLINE);
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        self.shell = Some(shell);
        loop {
            if let Some(status) = self.shell.as_mut().unwrap().try_wait().unwrap() {
                return status.success();
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.shell {
            let _ =
                Command::new("kill").args(["-KILL", "--", &format!("-{}", shell.id())]).stderr(Stdio::null()).status();
            let _ = shell.wait();
        }
        for entry in fs::read_dir(self.root.join("tmp")).into_iter().flatten().flatten() {
            let cluster = entry.path().join("cluster");
            if cluster.join("etcd.pid").exists() {
                let _ = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/down.sh"))
                    .arg(cluster)
                    .status();
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A document that is run.
struct Page {
    name: &'static str,
    path: PathBuf,
    text: String,
    blocks: Vec<Block>,
}

impl Page {
    fn read(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = fs::read_to_string(&path).unwrap();
        let blocks = blocks(&text).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        Self { name, path, text, blocks }
    }

    /// The blocks that are run, with the file for what each prints.
    fn run<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = (&'a Block, PathBuf)> {
        let folder = root.join("output");
        let file = move |block: &Block| folder.join(format!("{}-{}", self.name.replace('/', "-"), block.line));
        self.blocks.iter().filter(|block| !matches!(block.mark, Mark::NotRun(_))).map(move |block| (block, file(block)))
    }

    fn script(&self, root: &Path) -> String {
        let step = |(block, output): (&Block, PathBuf)| {
            let (code, output) = (&block.code, output.display());
            let run = match block.mark {
                Mark::Fails => format!("if {{\n{code}\n}} >{output} 2>&1; then exit 9; fi\n"),
                _ => format!("{{\n{code}\n}} >{output} 2>&1\n"),
            };
            format!("{run}touch {output}.done\n")
        };
        self.run(root).map(step).collect()
    }

    /// The document with what was printed, and where that differs.
    fn printed(&self, root: &Path) -> (String, Vec<String>) {
        let mut lines: Vec<&str> = self.text.lines().collect();
        let printed: Vec<_> =
            self.run(root).map(|(block, output)| (block, fs::read_to_string(output).unwrap_or_default())).collect();
        let mut stale = Vec::new();
        // From the end: the lines before stay where they are.
        for (block, printed) in printed.iter().rev() {
            let Some(output) = block.output.clone() else { continue };
            if settled(&lines[output.clone()].join("\n")) != settled(printed) {
                stale.push(format!("{}:{}: it prints\n{printed}", self.name, output.start + 1));
                lines.splice(output, printed.trim_end().lines().map(str::trim_end));
            }
        }
        (lines.join("\n") + "\n", stale)
    }
}

/// Runs documents, one after the other in one shell, and compares what they say was printed.
fn check(names: &[&'static str]) {
    let pages: Vec<Page> = names.iter().copied().map(Page::read).collect();
    let mut place = Place::new(&names[0].replace(['/', '.'], "-"));
    let scripts: String = pages.iter().map(|page| page.script(&place.root)).collect();
    let succeeded = place.run(&format!("set -e\n{scripts}"));
    for page in &pages {
        for (block, output) in page.run(&place.root) {
            let is_done = Path::new(&format!("{}.done", output.display())).exists();
            let printed = fs::read_to_string(output).unwrap_or_default();
            assert!(is_done, "{}:{}: the block went wrong:\n{}\n{printed}", page.name, block.line + 1, block.code);
        }
    }
    assert!(succeeded, "{names:?}: the shell did not end well");
    let mut all = Vec::new();
    for page in &pages {
        let run = page.run(&place.root).count();
        for block in &page.blocks {
            if let Mark::NotRun(why) = &block.mark {
                println!("{}:{}: not run: {why}", page.name, block.line + 1);
            }
        }
        println!("{}: {run} blocks run, {} not run", page.name, page.blocks.len() - run);
        assert!(run > 0, "{} has no block that is run", page.name);
        let (text, stale) = page.printed(&place.root);
        if std::env::var_os("REWRITE_DOCUMENTS").is_some() {
            fs::write(&page.path, text).unwrap();
        } else {
            all.extend(stale);
        }
    }
    assert!(all.is_empty(), "REWRITE_DOCUMENTS=1 writes the output again\n{}", all.join("\n"));
}

#[test]
fn the_readme_can_be_followed() {
    check(&["README.md"]);
}

#[test]
fn the_page_about_a_chart_of_ones_own_can_be_followed() {
    check(&["docs/how-to/write-a-chart.md"]);
}

#[test]
fn the_pages_about_values_and_objects_can_be_followed() {
    check(&[
        "docs/how-to/README.md",
        "docs/how-to/typed-api.md",
        "docs/how-to/values-from-secrets.md",
        "docs/how-to/patches.md",
        "docs/how-to/pause.md",
        "docs/how-to/scope.md",
        "docs/how-to/rights.md",
        "docs/how-to/day-two.md",
        "docs/how-to/sleep.md",
        "docs/how-to/look-at-releases.md",
    ]);
}

#[test]
fn the_page_about_pull_requests_can_be_followed() {
    check(&["docs/how-to/pull-requests.md"]);
}

#[test]
fn the_page_about_a_kind_of_ones_own_can_be_followed() {
    check(&["docs/how-to/README.md", "docs/how-to/own-kind.md"]);
}

#[test]
fn the_page_about_notices_can_be_followed() {
    check(&["docs/how-to/notices.md"]);
}

#[test]
fn blocks_are_found_with_their_marks_and_outputs() {
    let text = "a\n\n<!-- not run: no release -->\n```sh\none\n```\n```sh\ntwo\n2\n```\n\n```text\nout\n```\n\n<!-- fails -->\n```sh\nthree\n```\n";
    let found = blocks(text).unwrap();
    let marks: Vec<_> = found.iter().map(|block| (&*block.code, &block.mark, block.output.clone())).collect();
    let not_run = Mark::NotRun("no release".to_owned());
    assert_eq!(marks, [("one", &not_run, None), ("two\n2", &Mark::Runs, Some(12..13)), ("three", &Mark::Fails, None)]);
    assert!(blocks("    kubectl get pods\n").unwrap_err().contains("line 1"));
    assert!(blocks("```console\n$ ls\n```\n").unwrap_err().contains("line 1"));
}

#[test]
fn only_what_changes_each_time_is_passed_over() {
    assert_eq!(settled("web   5s  10.96.3.4 \n"), settled("web  12m3s 10.96.200.1"));
    assert_eq!(settled("1 Thu Nov 26 12:02:08 2026 x"), settled("1 Fri Dec  6 01:02:08 2027 x"));
    assert_ne!(settled("web 1/1"), settled("web 0/1"));
}
