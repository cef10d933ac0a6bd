//! How far the roll-outs of charts are, from the Secrets in which an operator keeps the charts: what `tillerman status --rollouts` and the page
//! of roll-outs show.

use std::borrow::Borrow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::error::CliError;
use super::line::line;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::names;

const HEAD: [&str; 9] = ["KIND", "CHART", "PHASE", "TOTAL", "READY", "MOVING", "WAITING", "FAILED", "LEFT"];

/// The roll-outs of the operator of a namespace, as text.
pub async fn look(namespace: &str, cluster: &Cluster) -> Result<String, CliError> {
    Ok(table(&secrets(namespace, cluster).await?).unwrap_or_else(|| {
        format!("no roll-out in namespace {namespace}: no kind of an operator there has rollout in watches.yaml\n")
    }))
}

/// The roll-outs in Secrets, of which only the metadata is read, as a document.
pub fn document(secrets: &[Arc<Value>]) -> Value {
    let entry = |(kind, _, report): (&str, &str, Value)| json!({"kind": kind, "report": report});
    json!({"rollouts": reports(secrets).into_iter().map(entry).collect::<Vec<_>>()})
}

async fn secrets(namespace: &str, cluster: &Cluster) -> Result<Vec<Value>, CliError> {
    let found = cluster.list(&Resource::secrets(), namespace, names::KEPT_CHART_OF).await;
    found.map_err(|e| CliError(line(&e.whole())))
}

/// The newest report of each kind, with the kind and the time of its Secret.
fn reports<S: Borrow<Value>>(secrets: &[S]) -> Vec<(&str, &str, Value)> {
    let mut reports: Vec<(&str, &str, Value)> = secrets
        .iter()
        .filter_map(|secret| {
            let metadata = secret.borrow().get("metadata")?;
            let annotation = |name: &str| metadata.get("annotations")?.get(name)?.as_str();
            let report = serde_json::from_str(annotation(names::ROLLOUT)?).ok()?;
            Some((annotation(names::KEPT_CHART_KIND)?, metadata.get("creationTimestamp")?.as_str()?, report))
        })
        .collect();
    reports.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    reports.dedup_by(|a, b| a.0 == b.0);
    reports
}

/// The newest report of each kind; `None` when there is none.
fn table(secrets: &[Value]) -> Option<String> {
    let reports = reports(secrets);
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |(kind, _, report): &(&str, &str, Value)| {
        let fields = ["chart", "phase", "total", "ready", "moving", "waiting", "failed", "left"];
        std::iter::once((*kind).to_owned()).chain(fields.map(|field| cell(&report[field]))).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(HEAD.map(str::to_owned).to_vec()).chain(reports.iter().map(row)).collect();
    if reports.is_empty() {
        return None;
    }
    let widths: Vec<usize> = (0..HEAD.len()).map(|n| rows.iter().map(|row| row[n].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", line.join("   ").trim_end());
        let Some((_, _, report)) = index.checked_sub(1).and_then(|n| reports.get(n)) else { continue };
        if let Some(withdrawn) = report["withdrawn"].as_str() {
            let _ = writeln!(text, "  {withdrawn} failed, and is withdrawn");
        }
        for (field, word) in [("failures", "failed"), ("leftOut", "left")] {
            for name in report[field].as_array().into_iter().flatten() {
                let _ = writeln!(text, "  {word}: {}", cell(name));
            }
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::table;
    use serde_json::{Value, json};

    fn secret(kind: &str, created: &str, report: &Value) -> Value {
        json!({"metadata": {"creationTimestamp": created, "annotations": {
            "tillerman.dev/kind": kind, "tillerman.dev/rollout": report.to_string()}}})
    }

    #[test]
    fn the_newest_report_of_each_kind_is_a_row_with_what_failed_below() {
        let old = json!({"chart": "web-1", "phase": "Complete"});
        let new = json!({"chart": "web-2", "phase": "Stopped", "total": 12, "ready": 3, "moving": 0, "waiting": 7, "failed": 1,
            "left": 1, "failures": ["shop/a: Invalid"], "leftOut": ["shop/b: it is paused"]});
        let db = json!({"chart": "db-9", "phase": "Complete", "total": 1, "ready": 1, "moving": 0, "waiting": 0, "failed": 0,
            "left": 0});
        let secrets = [
            secret("Web.a.example.com", "2026-01-01T00:00:00Z", &old),
            secret("Web.a.example.com", "2026-02-01T00:00:00Z", &new),
            secret("Db.a.example.com", "2026-01-01T00:00:00Z", &db),
            json!({"metadata": {}}),
        ];
        let expected = "\
KIND                CHART   PHASE      TOTAL   READY   MOVING   WAITING   FAILED   LEFT
Db.a.example.com    db-9    Complete   1       1       0        0         0        0
Web.a.example.com   web-2   Stopped    12      3       0        7         1        1
  failed: shop/a: Invalid
  left: shop/b: it is paused
";
        assert_eq!(table(&secrets).as_deref(), Some(expected));
        assert_eq!(table(&[]), None);
    }
}
