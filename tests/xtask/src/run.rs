//! Runs the commands of parts, each in a process group that ends with it, and reads what they print.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::parts::{CiPart, CiStep, Counts};
use crate::report::{Case, Report, StepReport};
use crate::share::Share;

/// Where the shell functions and settings come from that the commands use. Standard input is a pipe that closes when this program ends,
/// also when it is killed; then the whole group goes.
const PRELUDE: &str = "set -uo pipefail; exec 3<&0 </dev/null; { cat <&3 >/dev/null; kill -KILL 0; } & exec 3<&-; \
                       . tests/cluster/env.sh; . tests/cluster/lib.sh; ";
/// How long it may take to build what a step needs: on a new machine that is most of Kubernetes.
const PREPARE: Duration = Duration::from_mins(75);
/// What a test says of its failure is enough; control planes and members collect garbage less often, which is a quarter less work for
/// some hundred MiB.
const VARIABLES: [(&str, &str); 2] = [("RUST_BACKTRACE", "0"), ("GOGC", "400")];

/// Keeps a core busy until it is ended, at the priority that the parts have.
pub const BUSY: &str = "nice bash -c 'while :; do :; done'";

/// Runs a part: what it needs first, then its steps.
pub fn part(part: &'static CiPart, share: Share) -> Report {
    let mut report = Report::new(part);
    for step in steps(part) {
        let run = once_into(part, &step, share, &mut report);
        println!("{}: {} passed, {} failed\n", step.name, run.passed, run.failed);
        report.steps.push(run);
    }
    report
}

/// The steps of a part, with the tools that the first needs.
pub fn steps(part: &CiPart) -> Vec<CiStep> {
    let mut steps = (part.steps)();
    if let (Some(first), false) = (steps.first_mut(), part.tools.is_empty()) {
        // What only a node needs is not built where none can run; the part says why.
        let unless = if part.name == "node" { "! tests/cluster/node-can.sh >/dev/null || " } else { "" };
        first.prepare.insert(0, format!("{unless}tests/cluster/build-tools.sh {}", part.tools.join(" ")));
    }
    steps
}

/// Makes what a step needs, and runs it.
pub fn once(part: &'static CiPart, step: &CiStep, share: Share) -> StepReport {
    let mut unused = Report::new(part);
    once_into(part, step, share, &mut unused)
}

/// The same; the seconds are added to those of the part.
fn once_into(part: &'static CiPart, step: &CiStep, share: Share, report: &mut Report) -> StepReport {
    let began = Instant::now();
    let unprepared = step.prepare.iter().find(|command| !shell(part, command, PREPARE, share).is_success());
    report.prepared += began.elapsed();
    let began = Instant::now();
    let run = match unprepared {
        Some(command) => StepReport::failed(&step.name, format!("what it needs could not be built: {command}")),
        None => self::step(part, step, share),
    };
    report.took += began.elapsed();
    run
}

fn step(part: &'static CiPart, step: &CiStep, share: Share) -> StepReport {
    let mut command = step.command.clone();
    if step.takes_share && !share.is_whole() {
        let listed = shell(part, &format!("{command} --list --format terse"), step.limit, share);
        let tests = listed.lines.iter().filter_map(|line| line.strip_suffix(": test"));
        let chosen = share.of(tests);
        if chosen.is_empty() {
            return StepReport::failed(&step.name, "it lists no tests".to_owned());
        }
        command = format!("{command} --exact {}", chosen.join(" "));
    }
    read(step, &shell(part, &command, step.limit, share))
}

/// What the output of a step says of its tests. One that fails without saying so counts as one failure.
fn read(step: &CiStep, done: &Done) -> StepReport {
    let mut report = StepReport { is_narrowed: step.is_narrowed, ..StepReport::new(&step.name) };
    for line in &done.lines {
        match step.counts {
            Counts::Whole => {}
            Counts::Cargo => {
                if let Some(rest) = line.strip_prefix("test result: ") {
                    report.passed += number_before(rest, " passed");
                    report.failed += number_before(rest, " failed");
                } else if let Some(case) = case(line) {
                    report.cases.push(case);
                }
            }
            Counts::Lines => {
                if line.contains(": ") && line.contains(" passed, ") {
                    report.passed += number_before(line, " passed");
                    report.failed += number_before(line, " failed");
                }
            }
        }
    }
    match (step.counts, done.is_success()) {
        (Counts::Whole, true) => report.passed = 1,
        (_, false) if report.failed == 0 => {
            report.failed = 1;
            report.why = Some(done.why.clone());
        }
        _ => {}
    }
    if report.failed > 0 {
        report.output.clone_from(&done.output);
    }
    report
}

/// `test NAME ... ok`, as cargo's test runner prints it.
fn case(line: &str) -> Option<Case> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let passed = match result.split(' ').next()? {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    Some(Case { name: name.to_owned(), passed })
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().filter(|before| before.len() < text.len()).unwrap_or_default();
    before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A command that ended.
struct Done {
    /// Its standard output.
    lines: Vec<String>,
    /// Both of its outputs, as they came.
    output: Vec<String>,
    /// Why it failed; empty when it did not.
    why: String,
}

impl Done {
    fn is_success(&self) -> bool {
        self.why.is_empty()
    }
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Runs a command of a part in bash. What it prints is shown at once; beside others each line begins with the part's name.
fn shell(part: &'static CiPart, command: &str, limit: Duration, share: Share) -> Done {
    let mut bash = bash(command);
    bash.env("SWEEP_SHARE", share.variable())
        .env("SWEEP_CHARTS", share.variable_of_charts())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match bash.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Done { lines: Vec::new(), output: Vec::new(), why: format!("bash cannot be run: {error}") };
        }
    };
    let (lines, both) = (Lines::default(), Lines::default());
    let prefix = if part.alone { String::new() } else { format!("{:<12} ", part.name) };
    let output =
        child.stdout.take().map(|output| follow(output, prefix.clone(), vec![Arc::clone(&lines), Arc::clone(&both)]));
    let errors = child.stderr.take().map(|errors| follow(errors, prefix, vec![Arc::clone(&both)]));
    let began = Instant::now();
    let why = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break String::new(),
            Ok(Some(status)) => break format!("{status}"),
            Ok(None) if began.elapsed() > limit => {
                break format!("not finished after {} s: {command}", limit.as_secs());
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => break error.to_string(),
        }
    };
    if !why.is_empty() {
        println!("error: {}: {why}", part.name);
    }
    // What it left behind, such as the servers of a test that was killed, ends with it; and so does the reading of its output.
    end_group(&mut child);
    for reader in output.into_iter().chain(errors) {
        let _ = reader.join();
    }
    let taken = |lines: &Lines| std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    Done { lines: taken(&lines), output: taken(&both), why }
}

fn bash(command: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{PRELUDE}{command}")]).stdin(Stdio::piped()).process_group(0);
    // Cargo sets these for xtask. Build scripts such as that of ring run again when one changes, and everything that depends on them with it.
    let of_xtask = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_xtask)) {
        bash.env_remove(name);
    }
    for (name, value) in VARIABLES {
        if std::env::var_os(name).is_none() {
            bash.env(name, value);
        }
    }
    bash
}

fn follow(from: impl Read + Send + 'static, prefix: String, kept: Vec<Lines>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            println!("{prefix}{line}");
            for lines in &kept {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
            }
        }
    })
}

/// Starts a command whose output nobody reads.
pub fn start_quietly(command: &str) -> Option<Child> {
    bash(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

/// Ends a command and everything that it started.
pub fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    // Nothing is left of the group in the usual case, and kill says so.
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::{BUSY, Done, end_group, read, start_quietly};
    use crate::parts::{CiStep, Counts};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_busy_loop_runs_until_it_is_ended() {
        let mut busy = start_quietly(BUSY).unwrap();
        assert!(busy.try_wait().unwrap().is_none());
        end_group(&mut busy);
        assert!(busy.try_wait().unwrap().is_some());
        // A process that was killed is there until init has waited for it.
        let is_left = || {
            let group = format!("-{}", busy.id());
            let kill = Command::new("kill").args(["-0", "--", &group]).stderr(Stdio::null()).status();
            kill.is_ok_and(|status| status.success())
        };
        let began = Instant::now();
        while is_left() {
            assert!(began.elapsed() < Duration::from_secs(10), "the loop still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn lines(text: &str, why: &str) -> Done {
        Done { lines: text.lines().map(str::to_owned).collect(), output: Vec::new(), why: why.to_owned() }
    }

    #[test]
    fn the_output_of_cargo_is_summed_and_its_cases_are_kept() {
        let step = CiStep::new("unit", "cargo test", Counts::Cargo);
        let text = "test a ... ok\ntest b::c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n\
                    test result: ok. 12 passed; 0 failed; 3 ignored";
        let report = read(&step, &lines(text, "exit status: 101"));
        assert_eq!((report.passed, report.failed, report.cases.len()), (13, 1, 2));
        assert!(report.cases[0].passed && !report.cases[1].passed);
    }

    #[test]
    fn the_lines_of_scripts_are_summed() {
        let step = CiStep::new("sources", "x", Counts::Lines);
        let report = read(&step, &lines("http: 10 passed, 1 failed\nbusy\noci: 5 passed, 0 failed", ""));
        assert_eq!((report.passed, report.failed), (15, 1));
    }

    #[test]
    fn a_command_that_fails_without_a_word_is_one_failure() {
        for counts in [Counts::Whole, Counts::Cargo, Counts::Lines] {
            let report = read(&CiStep::new("x", "y", counts), &lines("", "exit status: 1"));
            assert_eq!((report.passed, report.failed), (0, 1));
        }
    }
}
