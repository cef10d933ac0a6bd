//! Runs what failed once more, with nothing beside it. What passes then is unstable, and what fails again is a fault.

use std::path::PathBuf;

use crate::parts::{CiPart, CiStep, Counts, PARTS};
use crate::report::{Report, StepReport};
use crate::run;
use crate::share::Share;

/// A run with more unstable tests than this fails: they show a fault, or a machine that is too slow for any result.
pub const MOST: usize = 2;
/// How much of the first output is shown at the end.
const SHOWN: usize = 60;
/// How many lines follow a panic in what is shown.
const AFTER_PANIC: usize = 8;

/// What failed, and passed when it ran by itself.
pub struct Unstable {
    pub part: &'static str,
    /// A test, or a step whose tests have no names.
    pub name: String,
}

/// Runs each failed step again, or its failed tests alone where they have names, and changes the reports to the second result.
pub fn failed(reports: &mut [Report], share: Share) -> Vec<Unstable> {
    let mut unstable = Vec::new();
    for report in reports {
        let Some(part) = PARTS.iter().find(|part| part.name == report.part) else { continue };
        for first in report.steps.iter_mut().filter(|step| step.failed > 0) {
            let Some(step) = run::steps(part).into_iter().find(|step| step.name == first.name) else { continue };
            let names = first.failed_cases();
            println!("== {}, again: {}", part.name, if names.is_empty() { "all".to_owned() } else { names.join(" ") });
            show(part, first);
            let second = run::once(part, &narrowed(step, &names), share);
            unstable.extend(settle(first, second).into_iter().map(|name| Unstable { part: part.name, name }));
        }
    }
    unstable
}

/// The step with the failed tests alone, where its command is one of cargo's test runner.
fn narrowed(mut step: CiStep, names: &[String]) -> CiStep {
    if step.counts == Counts::Cargo && step.command.contains("cargo test") && !names.is_empty() {
        let flags = if step.command.contains(" -- ") { "" } else { " --" };
        step.command = format!("{}{flags} --exact {}", step.command, names.join(" "));
        step.takes_share = false;
        step.is_narrowed = true;
    }
    step
}

/// Takes over the second result, and returns what was unstable.
fn settle(first: &mut StepReport, second: StepReport) -> Vec<String> {
    let names = first.failed_cases();
    let still: Vec<String> = second.failed_cases();
    let unstable = match (names.is_empty(), second.failed) {
        (true, 0) => vec![first.name.clone()],
        (true, _) => Vec::new(),
        (false, _) => {
            let passed = |name: &&String| second.cases.iter().any(|case| case.passed && case.name == **name);
            names.iter().filter(|name| !still.contains(name)).filter(passed).cloned().collect()
        }
    };
    if second.is_narrowed {
        first.passed += second.passed;
        for case in &mut first.cases {
            case.passed |= unstable.contains(&case.name);
        }
        first.failed = second.failed;
        first.why = second.why;
    } else {
        *first = second;
    }
    unstable
}

/// Keeps the first output in a file and shows the part of it that says what failed.
fn show(part: &CiPart, first: &StepReport) {
    let file = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
        .join("first-output")
        .join(format!("{}-{}.log", part.name, first.name.replace([' ', '/'], "-")));
    let kept = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    match kept.and_then(|()| std::fs::write(&file, first.output.join("\n") + "\n")) {
        Ok(()) => println!("the first output is in {}", file.display()),
        Err(error) => println!("the first output cannot be written to {}: {error}", file.display()),
    }
    for line in excerpt(&first.output) {
        println!("  {}", line.chars().take(400).collect::<String>());
    }
}

/// The lines that say what failed: panics with what follows them, failed tests, or else the end.
fn excerpt(output: &[String]) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut left = 0;
    for line in output {
        if line.contains("panicked at") {
            left = AFTER_PANIC;
        }
        if left > 0 || line.ends_with("FAILED") || line.starts_with("error") || line.starts_with("FAIL") {
            lines.push(line.as_str());
        }
        left = left.saturating_sub(1);
    }
    if lines.is_empty() {
        lines = output.iter().rev().take(SHOWN / 2).rev().map(String::as_str).collect();
    }
    lines.truncate(SHOWN);
    lines
}

#[cfg(test)]
mod tests {
    use super::{excerpt, narrowed, settle};
    use crate::parts::{CiStep, Counts};
    use crate::report::{Case, StepReport};

    fn report(passed: usize, failed: usize, cases: &[(&str, bool)], is_narrowed: bool) -> StepReport {
        let cases = cases.iter().map(|(name, passed)| Case { name: (*name).to_owned(), passed: *passed }).collect();
        StepReport { passed, failed, cases, is_narrowed, ..StepReport::new("step") }
    }

    #[test]
    fn failed_tests_alone_run_again_where_they_have_names() {
        let step = |command: &str| CiStep::new("x", command, Counts::Cargo);
        let names = ["a::b".to_owned()];
        let command = |step| narrowed(step, &names).command;
        assert_eq!(
            command(step("cargo test --test t -- --nocapture")),
            "cargo test --test t -- --nocapture --exact a::b"
        );
        assert_eq!(command(step("cargo test --lib")), "cargo test --lib -- --exact a::b");
        assert_eq!(command(step("tests/node/run.sh")), "tests/node/run.sh");
        assert_eq!(narrowed(step("cargo test --lib"), &[]).command, "cargo test --lib");
    }

    #[test]
    fn what_passes_the_second_time_is_unstable_and_what_fails_again_is_a_fault() {
        let mut first = report(10, 2, &[("a", false), ("b", false), ("c", true)], false);
        let unstable = settle(&mut first, report(1, 1, &[("a", true), ("b", false)], true));
        assert_eq!((unstable, first.passed, first.failed), (vec!["a".to_owned()], 11, 1));
        assert_eq!(first.failed_cases(), ["b"]);

        let mut script = report(0, 1, &[], false);
        assert_eq!(settle(&mut script, report(1, 0, &[], false)), ["step"]);
        assert_eq!((script.passed, script.failed), (1, 0));

        let mut script = report(0, 1, &[], false);
        assert!(settle(&mut script, report(0, 1, &[], false)).is_empty());
        assert_eq!(script.failed, 1);

        // A second run that ends before it ran the test shows nothing.
        let mut first = report(10, 1, &[("a", false)], false);
        assert!(settle(&mut first, report(0, 1, &[], true)).is_empty());
        assert_eq!((first.passed, first.failed), (10, 1));
    }

    #[test]
    fn panics_and_failed_tests_are_shown_and_else_the_end() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let output = lines("busy\nthread 'a' panicked at x:1\nleft: 1\ntest a ... FAILED\nerror: test failed");
        assert_eq!(excerpt(&output).len(), 4);
        assert_eq!(excerpt(&lines("one\ntwo")), ["one", "two"]);
    }
}
