//! The CustomResourceDefinition of `ChartDefinition` itself.

use serde_json::{Value, json};

use super::{KIND, PLURAL, Spec};
use crate::crd::{of_type, unseen};
use crate::names;

/// It, as JSON. `deploy/chart-definition.yaml` is this.
pub fn definition() -> Value {
    let (group, version) = names::DEFINITION_API_VERSION.split_once('/').unwrap_or_default();
    let mut spec = of_type(&schemars::schema_for!(Spec).to_value());
    // The fields of a policy are read by the parser of watches.yaml, which says what is wrong.
    spec["properties"]["policy"] = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "description": spec["properties"]["policy"]["description"],
    });
    spec["properties"]["onDelete"] = json!({
        "type": "string",
        "enum": ["Refuse", "Orphan"],
        "description": spec["properties"]["onDelete"]["description"],
    });
    spec["properties"]["names"]["properties"]["scope"] = json!({
        "type": "string",
        "enum": ["Namespaced", "Cluster"],
        "description": spec["properties"]["names"]["properties"]["scope"]["description"],
    });
    spec["required"] = json!(["chart"]);
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{group}")},
        "spec": {
            "group": group,
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": PLURAL,
                "singular": KIND.to_lowercase(),
                "shortNames": ["chartdef"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                    column("Status", "string", ".status.conditions[?(@.type==\"Ready\")].reason"),
                    column("Kind", "string", ".status.names.kind"),
                    column("Chart", "string", ".status.chart.version"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A chart that is an API of this cluster.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": unseen()},
                    },
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::definition;
    use crate::template::yaml;

    #[test]
    fn the_file_of_deploy_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart-definition.yaml");
        let text = yaml::of_json(&definition()).unwrap();
        if std::env::var_os("REWRITE_REFERENCE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "REWRITE_REFERENCE=1 writes it");
    }
}
