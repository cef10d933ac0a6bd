//! The status of a `ChartDefinition`.

use serde_json::{Map, Value, json};

use crate::chart::Metadata;
use crate::crd::Names;

/// Why a definition is ready or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The API is served.
    Served,
    /// The API server does not serve the API yet.
    Establishing,
    /// The spec is wrong; nothing changes until it does.
    InvalidSpec,
    /// The chart cannot be loaded. An API that was served before is served on, with the chart before.
    ChartUnusable,
    /// The API belongs to somebody else.
    Conflict,
    /// The definition is deleted, and custom resources exist.
    CustomResourcesExist,
    /// A request to the API server failed.
    Failed,
}

impl Reason {
    /// The word of the condition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Served => "Served",
            Self::Establishing => "Establishing",
            Self::InvalidSpec => "InvalidSpec",
            Self::ChartUnusable => "ChartUnusable",
            Self::Conflict => "Conflict",
            Self::CustomResourcesExist => "CustomResourcesExist",
            Self::Failed => "Failed",
        }
    }
}

/// What came of a definition.
#[derive(Clone, Debug)]
pub struct Report<'r> {
    /// Its generation.
    pub generation: i64,
    /// Now, RFC 3339.
    pub now: &'r str,
    /// Why it is ready or not.
    pub reason: Reason,
    /// In sentences.
    pub message: &'r str,
    /// What is served: the chart and the names. `None` leaves what was said before.
    pub served: Option<(&'r Metadata, &'r Names)>,
}

/// The status after a report; the time of a condition that stays is kept.
pub fn status(old: &Map<String, Value>, report: &Report<'_>) -> Map<String, Value> {
    let mut status = old.clone();
    status.insert("observedGeneration".into(), report.generation.into());
    let ready = if report.reason == Reason::Served { "True" } else { "False" };
    let before = old.get("conditions").and_then(|list| list.get(0));
    let is_same = before.is_some_and(|before| before["status"] == ready);
    let since = before.filter(|_| is_same).and_then(|before| before.get("lastTransitionTime")).cloned();
    status.insert(
        "conditions".into(),
        json!([{
            "type": "Ready",
            "status": ready,
            "reason": report.reason.word(),
            "message": report.message,
            "lastTransitionTime": since.unwrap_or_else(|| report.now.into()),
            "observedGeneration": report.generation,
        }]),
    );
    if let Some((chart, names)) = report.served {
        let Names { group, version, kind, plural, scope } = names;
        status.insert(
            "chart".into(),
            json!({"name": chart.name, "version": chart.version, "appVersion": chart.app_version}),
        );
        let names = json!({"group": group, "version": version, "kind": kind, "plural": plural, "scope": scope.word()});
        status.insert("names".into(), names);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::{Reason, Report, status};
    use serde_json::{Map, json};

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let report = |now, reason, message| Report { generation: 2, now, reason, message, served: None };
        let first = status(&Map::new(), &report("a", Reason::Establishing, "x"));
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "a");
        let second = status(&first, &report("b", Reason::Failed, "y"));
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "a");
        let third = status(&second, &report("c", Reason::Served, ""));
        assert_eq!(
            (&third["conditions"][0]["lastTransitionTime"], &third["observedGeneration"]),
            (&json!("c"), &json!(2))
        );
    }
}
