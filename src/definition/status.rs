//! The status of a `ChartDefinition`.

use serde_json::{Map, Value, json};

use crate::chart::Metadata;
use crate::crd::Names;
use crate::object::conditions::ConditionsWriter;

/// Why a definition is ready or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionReason {
    /// The API is served.
    Served,
    /// The API server does not serve the API yet.
    Establishing,
    /// The spec is wrong; nothing changes until it does.
    InvalidSpec,
    /// The chart cannot be loaded. An API that was served before is served on, with the chart before.
    ChartUnusable,
    /// The API has another owner.
    Conflict,
    /// The definition is deleted, and custom resources exist.
    CustomResourcesExist,
    /// A request to the API server failed.
    Failed,
}

impl DefinitionReason {
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

/// The result of a definition.
#[derive(Clone, Debug)]
pub struct DefinitionReport<'r> {
    pub generation: i64,
    /// Now, RFC 3339.
    pub now: &'r str,
    /// Why it is ready or not.
    pub reason: DefinitionReason,
    /// In sentences.
    pub message: &'r str,
    /// The served state: the chart and the names. `None` keeps the earlier text.
    pub served: Option<(&'r Metadata, &'r Names)>,
}

/// The status with the condition `Permitted`: whether the operator has the rights that the chart needs, and which rules are missing; `None`
/// if the API server cannot say.
pub fn permitted(
    old: &Map<String, Value>,
    generation: i64,
    now: &str,
    missing: Option<&[String]>,
) -> Map<String, Value> {
    let mut status = old.clone();
    let (word, reason) = match missing {
        Some([]) => ("True", "RightsHeld"),
        Some(_) => ("False", "RightsMissing"),
        None => ("Unknown", "RightsUnknown"),
    };
    let message = match missing {
        Some([]) => String::new(),
        None => {
            "the API server cannot list all rights of the operator; tillerman rbac --check asks for each".to_owned()
        }
        Some(rules) => format!(
            "the chart may need rights that the operator does not have; add those that are used to its roles: {}",
            rules.join("; ")
        ),
    };
    let mut conditions = ConditionsWriter::new(old, generation, now);
    conditions.set_status("Permitted", word, reason, &message);
    conditions.write(&mut status);
    status
}

/// The status after a report; the time of a condition that stays is kept.
pub fn status(old: &Map<String, Value>, report: &DefinitionReport<'_>) -> Map<String, Value> {
    let mut status = old.clone();
    status.insert("observedGeneration".into(), report.generation.into());
    let mut conditions = ConditionsWriter::new(old, report.generation, report.now);
    conditions.set("Ready", report.reason == DefinitionReason::Served, report.reason.word(), report.message);
    conditions.write(&mut status);
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
    use super::{DefinitionReason, DefinitionReport, permitted, status};
    use serde_json::{Map, json};

    #[test]
    fn missing_rights_are_a_condition_of_their_own() {
        let report =
            DefinitionReport { generation: 2, now: "a", reason: DefinitionReason::Served, message: "", served: None };
        let served = status(&Map::new(), &report);
        let lacks = permitted(&served, 2, "b", Some(&["ClusterRole: {x}".to_owned()]));
        assert_eq!(lacks["conditions"][0]["status"], "True");
        let second = &lacks["conditions"][1];
        assert_eq!(
            (&second["type"], &second["status"], &second["reason"]),
            (&json!("Permitted"), &json!("False"), &json!("RightsMissing"))
        );
        assert!(second["message"].as_str().unwrap().ends_with(": ClusterRole: {x}"));
        assert_eq!(permitted(&lacks, 2, "c", None)["conditions"][1]["status"], "Unknown");
        let has = permitted(&lacks, 2, "c", Some(&[]));
        assert_eq!(
            (&has["conditions"][1]["status"], &has["conditions"][1]["lastTransitionTime"]),
            (&json!("True"), &json!("c"))
        );
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let report = |now, reason, message| DefinitionReport { generation: 2, now, reason, message, served: None };
        let first = status(&Map::new(), &report("a", DefinitionReason::Establishing, "x"));
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "a");
        let second = status(&first, &report("b", DefinitionReason::Failed, "y"));
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "a");
        let third = status(&second, &report("c", DefinitionReason::Served, ""));
        assert_eq!(
            (&third["conditions"][0]["lastTransitionTime"], &third["observedGeneration"]),
            (&json!("c"), &json!(2))
        );
    }
}
