//! What parts did: a table of seconds beside the recorded ones, and a file that CI servers read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::again::{self, Unstable};
use crate::parts::CiPart;

/// The seconds of each part, on two cores, without what had to be built for it.
const RECORDED: &str = "tests/xtask/seconds.tsv";
/// A part that takes less than this longer than recorded is never too slow: it may have met a pause of the machine.
const GRACE: f64 = 60.0;

/// A part that ran.
pub struct Report {
    pub part: &'static str,
    /// How long what it needs was built.
    pub prepared: Duration,
    pub took: Duration,
    /// Most of its time goes into compiling, and so depends on what was compiled before: it is not compared.
    pub compiles: bool,
    pub steps: Vec<StepReport>,
}

/// A step of a part.
pub struct StepReport {
    pub name: String,
    pub passed: usize,
    pub failed: usize,
    pub cases: Vec<Case>,
    /// Why it failed, where no test says so.
    pub why: Option<String>,
    /// Everything that it printed, where it failed.
    pub output: Vec<String>,
    /// Only tests that had failed before were run.
    pub is_narrowed: bool,
}

/// One test.
pub struct Case {
    pub name: String,
    pub passed: bool,
}

impl StepReport {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            passed: 0,
            failed: 0,
            cases: Vec::new(),
            why: None,
            output: Vec::new(),
            is_narrowed: false,
        }
    }
    /// A step that did not run.
    pub fn failed(name: &str, why: String) -> Self {
        println!("error: {name}: {why}");
        Self { failed: 1, why: Some(why), ..Self::new(name) }
    }
    /// The names of the tests that failed.
    pub fn failed_cases(&self) -> Vec<String> {
        self.cases.iter().filter(|case| !case.passed).map(|case| case.name.clone()).collect()
    }
}

impl Report {
    pub fn new(part: &CiPart) -> Self {
        Self {
            part: part.name,
            prepared: Duration::ZERO,
            took: Duration::ZERO,
            compiles: part.compiles,
            steps: Vec::new(),
        }
    }
    pub fn seconds(&self) -> String {
        format!("built in {} s, ran {} s", self.prepared.as_secs(), self.took.as_secs())
    }
    pub fn passed(&self) -> usize {
        self.steps.iter().map(|step| step.passed).sum()
    }
    pub fn failed(&self) -> usize {
        self.steps.iter().map(|step| step.failed).sum()
    }
}

/// The recorded seconds by part.
pub fn recorded() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(RECORDED).unwrap_or_default();
    let read = |line: &str| {
        let (part, seconds) = line.split_once('\t')?;
        Some((part.to_owned(), seconds.trim().parse().ok()?))
    };
    text.lines().filter_map(read).collect()
}

/// Writes the seconds; those of parts that did not run stay.
pub fn record(reports: &[Report], recorded: &BTreeMap<String, f64>) -> std::io::Result<()> {
    let mut all = recorded.clone();
    all.extend(reports.iter().map(|report| (report.part.to_owned(), report.took.as_secs_f64().round())));
    let lines: Vec<String> = all.iter().map(|(part, seconds)| format!("{part}\t{seconds}")).collect();
    std::fs::write(RECORDED, lines.join("\n") + "\n")
}

/// A line for each part.
pub fn table(reports: &[Report], recorded: &BTreeMap<String, f64>) -> String {
    let mut table =
        format!("{:<14}{:>8}{:>8}{:>10}{:>9}{:>8}\n", "part", "built s", "ran s", "recorded", "passed", "failed");
    for report in reports {
        let known = recorded.get(report.part).map_or_else(String::new, |seconds| format!("{seconds:.0}"));
        let (built, took) = (report.prepared.as_secs_f64(), report.took.as_secs_f64());
        let _ = writeln!(
            table,
            "{:<14}{built:>8.0}{took:>8.0}{known:>10}{:>9}{:>8}",
            report.part,
            report.passed(),
            report.failed()
        );
    }
    table
}

/// What passed only when it ran by itself, as lines for the end; empty without any.
pub fn unstable(found: &[Unstable]) -> String {
    let mut text = String::new();
    for Unstable { part, name } in found {
        let _ = writeln!(text, "unstable: {part}: {name} failed, then passed when it ran alone");
    }
    if found.len() > again::MOST {
        let _ = writeln!(text, "error: {} tests are unstable; a run passes with {} at most", found.len(), again::MOST);
    }
    text
}

/// The parts that take more than twice as long as recorded, on a machine that is as fast as this one is by most of the parts.
pub fn slow(reports: &[Report], recorded: &BTreeMap<String, f64>) -> Vec<String> {
    let ratio = |report: &Report| Some(report.took.as_secs_f64() / recorded.get(report.part).filter(|s| **s > 0.0)?);
    let mut ratios: Vec<f64> = reports.iter().filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let machine = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0).max(1.0);
    let mut slow = Vec::new();
    for report in reports.iter().filter(|report| !report.compiles) {
        let Some(seconds) = recorded.get(report.part) else { continue };
        let (took, expected) = (report.took.as_secs_f64(), seconds * machine);
        if took > 2.0 * expected && took - expected > GRACE {
            slow.push(format!(
                "{} took {took:.0} s, more than twice the {expected:.0} s that are expected here. Make it quicker, or record its \
                 seconds with --record",
                report.part
            ));
        }
    }
    slow
}

/// Writes `junit.xml` beside what is built.
pub fn write_junit(reports: &[Report]) -> std::io::Result<()> {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (report, step) in reports.iter().flat_map(|report| report.steps.iter().map(move |step| (report, step))) {
        let (name, tests) = (escaped(&step.name), step.passed + step.failed);
        let _ = writeln!(xml, "<testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{}\">", step.failed);
        for case in &step.cases {
            let open = format!("<testcase classname=\"{}\" name=\"{}\"", escaped(report.part), escaped(&case.name));
            let end = if case.passed { "/>" } else { "><failure/></testcase>" };
            let _ = writeln!(xml, "{open}{end}");
        }
        if let Some(why) = &step.why {
            let why = escaped(why);
            let _ = writeln!(xml, "<testcase name=\"{name}\"><failure message=\"{why}\"/></testcase>");
        }
        xml.push_str("</testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    let folder = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("junit.xml"), xml)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Report, slow};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn a_part_that_doubles_is_too_slow_and_a_slow_machine_is_not() {
        let recorded: BTreeMap<String, f64> = [("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 2.0), ("e", 50.0)]
            .map(|(part, s)| (part.to_owned(), s))
            .into();
        let took = |seconds: [u64; 5]| {
            let reports = ["a", "b", "c", "d", "e"].into_iter().zip(seconds).map(|(part, seconds)| Report {
                part,
                prepared: Duration::ZERO,
                took: Duration::from_secs(seconds),
                compiles: part == "e",
                steps: Vec::new(),
            });
            slow(&reports.collect::<Vec<_>>(), &recorded).len()
        };
        assert_eq!(took([100, 110, 90, 2, 50]), 0);
        assert_eq!(took([250, 110, 90, 2, 50]), 1);
        assert_eq!(took([250, 240, 260, 5, 50]), 0, "all are slow");
        assert_eq!(took([600, 240, 260, 5, 50]), 1);
        assert_eq!(took([100, 110, 90, 30, 50]), 0, "less than a minute");
        assert_eq!(took([100, 110, 90, 2, 600]), 0, "nothing was compiled before");
    }
}
