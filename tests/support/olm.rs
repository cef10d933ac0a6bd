//! What the Operator Lifecycle Manager (v1) makes of `deploy/bundle` when it is installed for all namespaces. The rules are those of the
//! renderer of `registry+v1` bundles in operator-framework's operator-controller; the manager itself is not served where the tests run.

use super::harness::repository;
use serde_json::{Value, json};
use tillerman::template::yaml;

/// The objects, in the order in which they are applied. The operator is in `namespace`.
pub fn objects(namespace: &str) -> Vec<Value> {
    let (mut made, mut operator) = (Vec::new(), Vec::new());
    let mut paths: Vec<_> =
        std::fs::read_dir(repository("deploy/bundle/manifests")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let mut object = yaml::parse(&std::fs::read(&path).unwrap()).unwrap();
        if object["kind"] == "ClusterServiceVersion" {
            operator = of_service_version(&object, namespace);
            continue;
        }
        if !["CustomResourceDefinition", "ClusterRole"].iter().any(|kind| object["kind"] == *kind) {
            object["metadata"]["namespace"] = json!(namespace);
        }
        made.push(object);
    }
    made.sort_by_key(|object| object["kind"] != "CustomResourceDefinition");
    made.extend(operator);
    made
}

/// The accounts, the roles and the Deployment. With all namespaces as targets, `permissions` become `ClusterRole`s like `clusterPermissions`.
fn of_service_version(csv: &Value, namespace: &str) -> Vec<Value> {
    let (name, spec) = (csv["metadata"]["name"].as_str().unwrap(), &csv["spec"]["install"]["spec"]);
    let mut made = Vec::new();
    for (list, more) in [
        (
            "permissions",
            vec![json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]})],
        ),
        ("clusterPermissions", Vec::new()),
    ] {
        for (index, permission) in spec[list].as_array().into_iter().flatten().enumerate() {
            let account = permission["serviceAccountName"].as_str().unwrap();
            let of_account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}});
            if !made.contains(&of_account) {
                made.push(of_account);
            }
            let role = format!("{name}-{}-{index}", list.to_lowercase());
            let mut rules = permission["rules"].as_array().cloned().unwrap();
            rules.extend(more.clone());
            let api = "rbac.authorization.k8s.io/v1";
            made.push(json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}));
            made.push(json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}));
        }
    }
    for deployment in spec["deployments"].as_array().into_iter().flatten() {
        let mut spec = deployment["spec"].clone();
        let annotations = spec["template"]["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.extend(csv["metadata"]["annotations"].as_object().cloned().unwrap_or_default());
        annotations.insert("olm.targetNamespaces".to_owned(), json!(""));
        spec["revisionHistoryLimit"] = json!(1);
        made.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec, "metadata": {
            "name": deployment["name"], "namespace": namespace, "labels": deployment["label"]}}));
    }
    made
}
