//! The fields that the API server does not change, by kind (Kubernetes 1.36, `pkg/apis/*/validation`). A pass learns them from the API
//! server's answer, see [`crate::plan::immutable`].

use serde_json::{Value, json};

use super::fields::FieldDifference;
use crate::object::Gvk;

/// The fields of a kind that cannot be changed.
enum Frozen {
    /// These, and everything below them.
    These(&'static [&'static str]),
    /// Everything below the first, except for the others.
    AllBut(&'static str, &'static [&'static str]),
}

use Frozen::{AllBut, These};

/// A row: group, kind and fields.
type Row = (&'static str, &'static str, Frozen);

const ROWS: [Row; 18] = [
    (
        "apps",
        "StatefulSet",
        AllBut(
            "spec",
            &[
                "spec.replicas",
                "spec.ordinals",
                "spec.template",
                "spec.updateStrategy",
                "spec.revisionHistoryLimit",
                "spec.persistentVolumeClaimRetentionPolicy",
                "spec.minReadySeconds",
            ],
        ),
    ),
    ("apps", "Deployment", These(&["spec.selector"])),
    ("apps", "DaemonSet", These(&["spec.selector"])),
    ("apps", "ReplicaSet", These(&["spec.selector"])),
    (
        "batch",
        "Job",
        These(&[
            "spec.template",
            "spec.selector",
            "spec.completions",
            "spec.completionMode",
            "spec.podFailurePolicy",
            "spec.successPolicy",
            "spec.backoffLimitPerIndex",
            "spec.managedBy",
        ]),
    ),
    ("", "PersistentVolumeClaim", AllBut("spec", &["spec.resources", "spec.volumeAttributesClassName"])),
    ("", "Service", These(&["spec.clusterIP", "spec.clusterIPs"])),
    ("", "Secret", These(&["type"])),
    ("rbac.authorization.k8s.io", "RoleBinding", These(&["roleRef"])),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", These(&["roleRef"])),
    ("storage.k8s.io", "StorageClass", These(&["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"])),
    ("scheduling.k8s.io", "PriorityClass", These(&["value", "preemptionPolicy"])),
    ("networking.k8s.io", "IngressClass", These(&["spec.controller"])),
    ("node.k8s.io", "RuntimeClass", These(&["handler"])),
    ("storage.k8s.io", "VolumeAttributesClass", These(&["driverName", "parameters"])),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        These(&["spec.group", "spec.scope", "spec.names.kind", "spec.names.plural"]),
    ),
    ("certificates.k8s.io", "CertificateSigningRequest", AllBut("spec", &[])),
    (
        "",
        "Pod",
        AllBut("spec", &["spec.containers", "spec.initContainers", "spec.tolerations", "spec.activeDeadlineSeconds"]),
    ),
];

/// Values that the API server fills in: a chart that now writes them changes nothing.
const FILLED: [(&str, &str, &str); 7] = [
    ("StatefulSet", "spec.podManagementPolicy", "OrderedReady"),
    ("StatefulSet", "spec.serviceName", ""),
    ("Job", "spec.completionMode", "NonIndexed"),
    ("Job", "spec.completions", "1"),
    ("PersistentVolumeClaim", "spec.volumeMode", "Filesystem"),
    ("Secret", "type", "Opaque"),
    ("StorageClass", "reclaimPolicy", "Delete"),
];

/// Whether a path is a field, or below it.
fn is_below(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', ' ']))
}

/// Whether the API server refuses to change this field of an object, which is `now` before the change.
pub fn is_immutable(gvk: &Gvk, now: &Value, field: &FieldDifference) -> bool {
    let path = field.path.as_str();
    if matches!((&*gvk.group, &*gvk.kind), ("", "ConfigMap" | "Secret")) && now.get("immutable") == Some(&json!(true)) {
        return ["data", "binaryData", "immutable"].iter().any(|name| is_below(path, name));
    }
    // A Service keeps its addresses when the chart no longer names them.
    if &*gvk.kind == "Service" && field.after.is_none() {
        return false;
    }
    let is_filled = |(kind, name, value): &(&str, &str, &str)| {
        let is_value = |side: &Value| match side {
            Value::Number(number) => number.to_string() == *value,
            side => side.as_str() == Some(*value),
        };
        let written = [&field.before, &field.after].into_iter().flatten().all(is_value);
        *kind == &*gvk.kind && *name == path && written && (field.before.is_none() || field.after.is_none())
    };
    if FILLED.iter().any(is_filled) {
        return false;
    }
    let row = ROWS.iter().find(|(group, kind, _)| (*group, *kind) == (&*gvk.group, &*gvk.kind));
    row.is_some_and(|(_, _, frozen)| match frozen {
        These(fields) => fields.iter().any(|field| is_below(path, field)),
        AllBut(all, fields) => is_below(path, all) && !fields.iter().any(|field| is_below(path, field)),
    })
}

#[cfg(test)]
mod tests {
    use super::is_immutable;
    use crate::fleet::fields::FieldDifference;
    use crate::object::Gvk;
    use serde_json::{Value, json};

    /// Version, kind and path of a field, its value before and after, and whether it is immutable.
    type Row = (&'static str, &'static str, &'static str, Option<Value>, Option<Value>, bool);

    #[test]
    fn fields_that_the_api_server_does_not_change_are_known() {
        let some = || Some(json!(1));
        let table: [Row; 14] = [
            ("apps/v1", "StatefulSet", "spec.serviceName", some(), Some(json!(2)), true),
            ("apps/v1", "StatefulSet", "spec.volumeClaimTemplates[data].spec", some(), None, true),
            ("apps/v1", "StatefulSet", "spec.template.spec.containers[a].image", some(), None, false),
            ("apps/v1", "StatefulSet", "spec.templates", some(), None, true),
            ("apps/v1", "StatefulSet", "metadata.labels.a", some(), None, false),
            ("apps/v1", "StatefulSet", "spec.podManagementPolicy", None, Some(json!("OrderedReady")), false),
            ("apps/v1", "StatefulSet", "spec.podManagementPolicy", None, Some(json!("Parallel")), true),
            ("apps/v1", "Deployment", "spec.selector.matchLabels.app", some(), None, true),
            ("v1", "Service", "spec.clusterIP", None, Some(json!("None")), true),
            ("v1", "Service", "spec.clusterIP", Some(json!("None")), None, false),
            ("v1", "Secret", "type", None, Some(json!("Opaque")), false),
            ("v1", "Secret", "data.a", some(), None, false),
            ("v1", "PersistentVolumeClaim", "spec.resources.requests.storage", some(), None, false),
            ("example.com/v1", "StatefulSet", "spec.serviceName", some(), None, false),
        ];
        for (api_version, kind, path, before, after, expected) in table {
            let field = FieldDifference { path: path.to_owned(), before, after };
            let gvk = Gvk::from_api_version(api_version, kind);
            assert_eq!(is_immutable(&gvk, &json!({}), &field), expected, "{kind} {field:?}");
        }
    }

    #[test]
    fn data_that_is_marked_as_immutable_is_immutable() {
        let field = FieldDifference { path: "data.a".to_owned(), before: None, after: Some(json!("x")) };
        let gvk = Gvk::new("", "v1", "ConfigMap");
        assert!(is_immutable(&gvk, &json!({"immutable": true}), &field));
        assert!(!is_immutable(&gvk, &json!({"immutable": false}), &field));
    }
}
