//! Items of lists that are there twice where Kubernetes identifies them by a key: Helm deploys them as they are, server-side apply
//! takes only one, and the operator keeps the last (docs/design/applying.md B3). Lists in which the API server refuses it anyway are left
//! to the API server; which fields a kind has only it knows.

use super::LintReport;
use crate::template::yaml;
use serde_json::Value;
use std::fmt::Write as _;

/// Lists of a pod by the fields that tell their items apart.
const OF_PODS: [(&str, &[&str]); 2] = [("imagePullSecrets", &["name"]), ("hostAliases", &["ip"])];
/// And those of its containers.
const OF_CONTAINERS: [(&str, &[&str]); 2] = [("env", &["name"]), ("ports", &["containerPort", "protocol"])];

/// Reports them as warnings about a file.
pub fn check(file: &str, text: &str, report: &mut LintReport) {
    // Invalid YAML is reported elsewhere.
    let documents = yaml::split_documents(text.as_bytes()).unwrap_or_default();
    for object in documents.iter().filter_map(|document| yaml::parse(document).ok()) {
        for found in of_object(&object) {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            report.warning(
                file,
                format!(
                    "{kind} {name}: {found} exists more than once: Helm deploys all of them, the operator only the \
                     last one"
                ),
            );
        }
    }
}

/// The paths of the items that come again, each once.
fn of_object(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    add("metadata.finalizers", finalizers.map(|item| format!("={item}")), &mut found);
    let Some(path) = object.get("kind").and_then(Value::as_str).and_then(pod_path) else { return found };
    let Some(pod) = object.pointer(&format!("/{}", path.replace('.', "/"))) else { return found };
    add_lists(pod, path, &OF_PODS, &mut found);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.get(list).and_then(Value::as_array).into_iter().flatten() {
            let name = container.get("name").cloned().unwrap_or_default();
            add_lists(container, &format!("{path}.{list}[name={name}]"), &OF_CONTAINERS, &mut found);
        }
    }
    found
}

/// Where objects of a kind have the spec of a pod.
pub fn pod_path(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some("spec"),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            Some("spec.template.spec")
        }
        "CronJob" => Some("spec.jobTemplate.spec.template.spec"),
        "PodTemplate" => Some("template.spec"),
        _ => None,
    }
}

fn add_lists(parent: &Value, path: &str, lists: &[(&str, &[&str])], found: &mut Vec<String>) {
    for (list, keys) in lists {
        let items = parent.get(list).and_then(Value::as_array).into_iter().flatten();
        add(&format!("{path}.{list}"), items.filter_map(|item| key(item, keys)), found);
    }
}

/// How the API server names an item; `None` when it lacks its key.
fn key(item: &Value, keys: &[&str]) -> Option<String> {
    let mut text = String::new();
    for name in keys {
        let value = match item.get(name) {
            // YAML's numbers are floating, as Helm reads them.
            Some(Value::Number(number)) => number.as_f64().unwrap_or_default().to_string(),
            Some(value) => value.to_string(),
            None if *name == "protocol" => "\"TCP\"".to_owned(),
            None => return None,
        };
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}={value}");
    }
    Some(text)
}

fn add(path: &str, keys: impl Iterator<Item = String>, found: &mut Vec<String>) {
    let keys: Vec<String> = keys.collect();
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].iter().filter(|before| *before == key).count() == 1 {
            found.push(format!("{path}[{key}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_object;
    use serde_json::json;

    /// B3.
    #[test]
    fn what_comes_again_is_named_as_the_api_server_does() {
        let pod = json!({
        "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {"name": "a"}],
        "volumes": [{"name": "v"}, {"name": "v"}],
        "containers": [
            {"name": "a", "env": [{"name": "X"}, {"name": "Y"}, {"name": "X"}], "ports": [{"name": "p"}, {"name": "p"}]},
            {"name": "b", "env": [{"name": "X"}], "ports": [{"containerPort": 1}, {"containerPort": 1.0, "protocol": "TCP"},
                {"containerPort": 1, "protocol": "UDP"}]},
        ]});
        let job = json!({"kind": "CronJob", "metadata": {"finalizers": ["f", "g", "f"]},
            "spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}});
        let path = "spec.jobTemplate.spec.template.spec";
        let expected = [
            "metadata.finalizers[=\"f\"]".to_owned(),
            format!("{path}.imagePullSecrets[name=\"a\"]"),
            format!("{path}.containers[name=\"a\"].env[name=\"X\"]"),
            format!("{path}.containers[name=\"b\"].ports[containerPort=1,protocol=\"TCP\"]"),
        ];
        assert_eq!(of_object(&job), expected);
        assert!(of_object(&json!({"kind": "Service", "spec": pod})).is_empty());
    }
}
