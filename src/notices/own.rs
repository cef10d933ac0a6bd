//! The CustomResourceDefinition of `Notice` itself.

use serde_json::{Value, json};

use super::document::{MAX_BODY, MAX_LIST, MAX_NAME, MAX_SUBJECT, MAX_URL, Spec};
use super::events::EVENTS;
use super::{KIND, PLURAL};
use crate::crd::{of_type, unseen};
use crate::names;

/// It, as JSON. `deploy/notice.yaml` is this.
pub fn definition() -> Value {
    let (group, version) = names::NOTICE_API_VERSION.split_once('/').unwrap_or_default();
    let mut spec = of_type(&schemars::schema_for!(Spec).to_value());
    let mut set = |path: &str, limits: Value| {
        if let (Some(Value::Object(at)), Value::Object(limits)) = (spec.pointer_mut(path), limits) {
            at.extend(limits);
        }
    };
    let short = |most: usize| json!({"maxLength": most});
    let list = |most: usize| json!({"maxItems": MAX_LIST, "items": {"type": "string", "maxLength": most}});
    set("/properties/selector/properties/kinds", list(2 * MAX_NAME));
    set("/properties/selector/properties/names", list(MAX_NAME));
    set(
        "/properties/selector/properties/labels",
        json!({"maxProperties": MAX_LIST, "additionalProperties": {"type": "string", "maxLength": 63}}),
    );
    let events: Vec<&str> = EVENTS[..EVENTS.len() - 1].iter().map(|known| known.name).collect();
    set("/properties/events", json!({"maxItems": MAX_LIST, "items": {"type": "string", "enum": events}}));
    set("/properties/template/properties/subject", short(MAX_SUBJECT));
    set("/properties/template/properties/body", short(MAX_BODY));
    for duration in ["window", "repeat"] {
        set(&format!("/properties/{duration}"), short(20));
    }
    set("/properties/maxPerHour", json!({"type": "integer", "minimum": 1, "maximum": 100}));
    let smtp = "/properties/target/properties/smtp/properties";
    for (field, most) in
        [("host", MAX_NAME), ("from", 320), ("caSecret", MAX_NAME), ("auth/properties/secretName", MAX_NAME)]
    {
        set(&format!("{smtp}/{field}"), short(most));
    }
    set(&format!("{smtp}/to"), list(320));
    set(&format!("{smtp}/to"), json!({"minItems": 1}));
    set(&format!("{smtp}/port"), json!({"type": "integer", "minimum": 1, "maximum": 65535}));
    set(&format!("{smtp}/tls"), json!({"type": "string", "enum": ["starttls", "tls", "none"]}));
    let webhook = "/properties/target/properties/webhook/properties";
    for (field, most) in [("url", MAX_URL), ("urlSecret", MAX_NAME), ("hmacSecret", MAX_NAME), ("caSecret", MAX_NAME)] {
        set(&format!("{webhook}/{field}"), short(most));
    }
    let formats = ["json", "slack", "teams", "discord", "alertmanager"];
    set(&format!("{webhook}/format"), json!({"type": "string", "enum": formats}));
    set(&format!("{webhook}/tls"), json!({"type": "string", "enum": ["required", "none"]}));
    spec["required"] = json!(["target"]);
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL, "singular": KIND.to_lowercase()},
            "scope": "Namespaced",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                    column("Status", "string", ".status.conditions[?(@.type==\"Ready\")].reason"),
                    column("Sent", "integer", ".status.sent"),
                    column("Waiting", "integer", ".status.waiting"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "Messages about events of the releases of a namespace.",
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/notice.yaml");
        let text = yaml::of_json(&definition()).unwrap();
        if std::env::var_os("REWRITE_REFERENCE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "REWRITE_REFERENCE=1 writes it");
    }
}
