//! The figures as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

/// The program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Tillerman,
    HelmOperator,
    Client,
}

/// The figure that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    CrsMade,
    Created,
    CreatedCpu,
    CreatedRequests,
    CreatedByVerb,
    RestRequests,
    RestCpu,
    Memory,
    Drift,
    /// The write that caused it, which is in its time.
    DriftWrite,
    Spec,
    SpecWrite,
    RestartRepaired,
    RestartSettled,
    RestartCpu,
    RestartRequests,
    RestartByVerb,
    Deleted,
}

impl Row {
    const TABLE: [(Self, &str); 16] = [
        (Self::CrsMade, "the custom resources alone, before a client's writes"),
        (Self::Created, "created until all are deployed"),
        (Self::CreatedCpu, "CPU for that"),
        (Self::CreatedRequests, "requests for each to deploy it, and after it"),
        (Self::RestRequests, "requests a minute at rest, beyond open watches"),
        (Self::RestCpu, "CPU at rest, of a core"),
        (Self::Memory, "memory (VmRSS) at rest"),
        (Self::Drift, "drift repaired, p50 / p99"),
        (Self::DriftWrite, "the write alone that caused the drift, p50 / p99"),
        (Self::Spec, "spec change applied, p50 / p99"),
        (Self::SpecWrite, "the write alone that changed the spec, p50 / p99"),
        (Self::RestartRepaired, "restart: drifts made meanwhile repaired"),
        (Self::RestartSettled, "restart: at rest again"),
        (Self::RestartCpu, "restart: CPU until repaired"),
        (Self::RestartRequests, "restart: requests"),
        (Self::Deleted, "deleted with all they own"),
    ];
}

/// One figure.
#[derive(Clone)]
pub struct Figure {
    pub row: Row,
    pub text: String,
    /// The number from which ratios are computed.
    pub value: Option<f64>,
}

impl Figure {
    pub fn text(row: Row, text: String) -> Self {
        Self { row, text, value: None }
    }

    pub fn seconds(row: Row, time: Duration) -> Self {
        Self { row, text: duration(time), value: Some(time.as_secs_f64()) }
    }

    pub fn plain(row: Row, value: f64, unit: &str) -> Self {
        Self { row, text: format!("{value:.2}{unit}"), value: Some(value) }
    }

    /// p50 and p99 of samples. Of those that were not seen in time it says how many they are, and counts them as the longest.
    pub fn latencies(row: Row, mut times: Vec<Duration>, made: usize, patience: Duration) -> Option<Self> {
        times.sort_unstable();
        let missed = made - times.len();
        let at = |part: usize| times.get((made * part).div_ceil(100).max(1) - 1).copied();
        let show = |time: Option<Duration>| time.map_or_else(|| format!("> {}", duration(patience)), duration);
        let mut text = format!("{} / {} ({made} samples", show(at(50)), show(at(99)));
        if missed > 0 {
            let _ = write!(text, ", {missed} not within {}", duration(patience));
        }
        text.push(')');
        (made > 0).then(|| Self { row, text, value: at(50).map(|t| t.as_secs_f64()) })
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 100.0 => format!("{s:.2} s"),
        s => format!("{s:.0} s"),
    }
}

/// All figures of who was measured with how many custom resources.
pub struct Results(pub Vec<(Who, usize, Figure)>);

impl Results {
    /// The table, and what each request was.
    pub fn markdown(&self) -> String {
        let mut sizes: Vec<usize> = self.0.iter().map(|(_, n, _)| *n).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut text = String::from(
            "| custom resources | | Tillerman | helm-operator | ratio | bare client |\n|---|---|---|---|---|---|\n",
        );
        for &n in &sizes {
            for (row, label) in Row::TABLE {
                let [ours, theirs, bare] =
                    [Who::Tillerman, Who::HelmOperator, Who::Client].map(|who| self.cell(who, n, row));
                if [&ours, &theirs, &bare].iter().all(|c| c.0.is_empty()) {
                    continue;
                }
                let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
                let times = ratio(theirs.1, ours.1).map_or_else(String::new, |r| format!("**{} ×**", digits(r)));
                let bare = match ratio(ours.1, bare.1) {
                    Some(r) => format!("{}: {r:.2} × as long", bare.0),
                    None => bare.0,
                };
                let _ = writeln!(text, "| {n} | {label} | {} | {} | {times} | {bare} |", ours.0, theirs.0);
            }
        }
        for (row, title) in [
            (Row::CreatedByVerb, "Requests for each custom resource that is created"),
            (Row::RestartByVerb, "Requests of a restart"),
        ] {
            let mut lines = String::new();
            for (who, name) in [(Who::Tillerman, "Tillerman"), (Who::HelmOperator, "helm-operator")] {
                for &n in &sizes {
                    let cell = self.cell(who, n, row).0;
                    if !cell.is_empty() {
                        let _ = writeln!(lines, "- {name}, {n}: {cell}");
                    }
                }
            }
            if !lines.is_empty() {
                let _ = write!(text, "\n{title}:\n{lines}");
            }
        }
        text
    }

    /// The text for the table, and the mean of what was measured more than once.
    fn cell(&self, who: Who, n: usize, row: Row) -> (String, Option<f64>) {
        let found: Vec<_> = self.0.iter().filter(|f| (f.0, f.1, f.2.row) == (who, n, row)).map(|f| &f.2).collect();
        let text = found.iter().map(|f| f.text.as_str()).collect::<Vec<_>>().join(" and ");
        let values: Vec<f64> = found.iter().filter_map(|f| f.value).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        (text, mean)
    }
}

fn digits(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}
