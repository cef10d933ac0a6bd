//! The schema of the status, and a check whether a definition from another source keeps the reports of the operator.

use super::author;
use schemars::JsonSchema;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the operator reports about a custom resource. The API server checks the operator's own writes against it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the type is read by its schema only: the status is written as JSON")]
struct Status {
    /// The generation of the custom resource that the status is about.
    observed_generation: Option<i64>,
    /// helm-operator's conditions Initialized, Deployed, ReleaseFailed, Irreconcilable, and Ready, Reconciling, Stalled.
    conditions: Vec<Condition>,
    /// The release, under helm-operator's name.
    deployed_release: Option<BTreeMap<String, String>>,
    /// The release.
    release: Option<BTreeMap<String, serde_json::Value>>,
    /// The objects of the release and their health; not all of them if there are many.
    resources: Vec<BTreeMap<String, String>>,
    /// Inputs that failed, so that they are not tried for ever.
    last_attempted: Option<BTreeMap<String, serde_json::Value>>,
}

/// A condition in the form that Kubernetes uses.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the type is read by its schema only")]
struct Condition {
    /// Name of the condition.
    r#type: String,
    /// `True`, `False` or `Unknown`.
    status: String,
    /// One word in camel case.
    reason: Option<String>,
    /// One or more sentences.
    message: Option<String>,
    /// When the status last changed.
    last_transition_time: Option<String>,
    /// When anything of it last changed; only of some.
    last_update_time: Option<String>,
    /// The generation that the condition is about.
    observed_generation: Option<i64>,
}

/// A field of the status that the chart names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusField {
    /// Its name.
    pub name: String,
    /// Its type, by its name in OpenAPI.
    pub kind: &'static str,
    /// Its meaning.
    pub description: Option<String>,
    /// Whether `kubectl get` shows it.
    pub column: bool,
}

impl StatusField {
    /// The name of its column, with a capital.
    pub fn column_name(&self) -> String {
        let mut letters = self.name.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    }

    fn schema(&self) -> Value {
        let mut schema = json!({"type": self.kind});
        match self.kind {
            "array" => schema["items"] = json!({"x-kubernetes-preserve-unknown-fields": true}),
            "object" => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
            _ => {}
        }
        if let Some(text) = &self.description {
            schema["description"] = text.as_str().into();
        }
        schema
    }
}

/// The schema of the status, with the fields that the chart names. Fields that it does not name are kept, so that
/// another version's status survives.
pub fn schema(fields: &[StatusField]) -> Value {
    let schema = schemars::schema_for!(Status).to_value();
    let mut schema = author::of_type(&schema);
    for field in fields {
        schema["properties"][&field.name] = field.schema();
    }
    schema["default"] = unseen();
    schema
}

/// The status of a custom resource that the operator has not looked at: its generation is not a real one. Without it kstatus, and what reads
/// with it (Flux, `kustomize`), takes a custom resource that has just been created for ready.
pub fn unseen() -> Value {
    json!({"observedGeneration": -1})
}

/// Why a CustomResourceDefinition does not keep the status of custom resources of a version.
pub fn status_fault(definition: &Value, version: &str) -> Option<&'static str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let version = versions.into_iter().find(|v| v.get("name").and_then(Value::as_str) == Some(version))?;
    if version.pointer("/subresources/status").is_none() {
        return Some("it has no subresource status");
    }
    let schema = version.pointer("/schema/openAPIV3Schema")?;
    let keeps = |schema: &Value| schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let status = schema.pointer("/properties/status");
    let is_kept = keeps(schema) && status.is_none()
        || status.is_some_and(|status| keeps(status) || status.pointer("/properties/lastAttempted").is_some());
    (!is_kept).then_some("its schema leaves out fields of the status")
}

/// The remedy for a [`status_fault`].
pub const STATUS_REMEDY: &str = "Give it the subresource status, and a status with x-kubernetes-preserve-unknown-fields: true; tillerman \
                                 crd writes both";

#[cfg(test)]
mod tests {
    use super::super::{CrdSettings, Names};
    use super::status_fault;
    use crate::chart::Chart;
    use serde_json::{Value, json};

    #[test]
    fn a_definition_that_does_not_keep_the_status_is_known() {
        let of = |subresources: Value, schema: Value| {
            let version = json!({"name": "v1", "subresources": subresources, "schema": {"openAPIV3Schema": schema}});
            status_fault(&json!({"spec": {"versions": [version]}}), "v1")
        };
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let with = |status: Value| json!({"type": "object", "properties": {"status": status}});
        let missing = Some("it has no subresource status");
        let loses = Some("its schema leaves out fields of the status");
        assert_eq!(of(json!({}), open.clone()), missing);
        assert_eq!(of(json!({"status": {}}), open.clone()), None);
        assert_eq!(of(json!({"status": {}}), with(open)), None);
        assert_eq!(of(json!({"status": {}}), with(json!({"type": "object"}))), loses);
        assert_eq!(of(json!({"status": {}}), json!({"type": "object"})), loses);
        let ours = super::super::of_chart(
            &Chart::default(),
            &Names::of_chart(&Chart::default()),
            CrdSettings::default(),
            &[],
            &[],
        )
        .unwrap()
        .definition;
        assert_eq!(status_fault(&ours, "v1alpha1"), None);
    }
}
