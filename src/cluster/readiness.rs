//! Whether a live object is ready, by the rules of kstatus and of `kubectl rollout status`.

use serde_json::Value;

use crate::plan::live::Health;
use crate::release::object::Gvk;

/// The health of an object. Of a kind without a rule here: it is ready because it exists, unless it has a `Ready` or
/// `Stalled` condition that says otherwise.
pub fn health(gvk: &Gvk, object: &Value) -> Health {
    match (&*gvk.group, &*gvk.kind) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("" | "rbac.authorization.k8s.io" | "policy" | "autoscaling" | "networking.k8s.io", _) => Health::Ready,
        _ => custom(object),
    }
}

fn deployment(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    if let Some(condition) = condition(object, "Progressing")
        && text(condition, "reason") == "ProgressDeadlineExceeded"
    {
        return failed(format!("its roll-out exceeded its deadline: {}", text(condition, "message")));
    }
    if let Some(condition) = condition(object, "ReplicaFailure").filter(|c| text(c, "status") == "True") {
        return failed(format!("its pods cannot be created: {}", text(condition, "message")));
    }
    if status("updatedReplicas") < wanted {
        return progressing(format!("{} of {wanted} replicas are updated", status("updatedReplicas")));
    }
    if status("replicas") > status("updatedReplicas") {
        let old = status("replicas") - status("updatedReplicas");
        return progressing(format!("{old} old replicas are still there"));
    }
    if status("availableReplicas") < wanted {
        return progressing(format!("{} of {wanted} replicas are available", status("availableReplicas")));
    }
    Health::Ready
}

fn stateful_set(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    if status("readyReplicas") < wanted {
        return progressing(format!("{} of {wanted} replicas are ready", status("readyReplicas")));
    }
    let on_delete = object.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete");
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let updates = wanted - partition.min(wanted);
    if !on_delete && status("updatedReplicas") < updates {
        return progressing(format!("{} of {updates} replicas are updated", status("updatedReplicas")));
    }
    Health::Ready
}

fn daemon_set(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let status = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    // Until the controller has seen it there is no status at all, and zero of zero would be ready.
    if object.pointer("/status/observedGeneration").is_none() {
        return progressing("its controller has not seen it yet".to_owned());
    }
    let wanted = status("desiredNumberScheduled");
    let on_delete = object.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete");
    if !on_delete && status("updatedNumberScheduled") < wanted {
        return progressing(format!("{} of {wanted} pods are updated", status("updatedNumberScheduled")));
    }
    if status("numberAvailable") < wanted {
        return progressing(format!("{} of {wanted} pods are available", status("numberAvailable")));
    }
    Health::Ready
}

fn replica_set(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let available = number(object, "/status/availableReplicas").unwrap_or(0);
    if available < wanted {
        progressing(format!("{available} of {wanted} replicas are available"))
    } else {
        Health::Ready
    }
}

fn job(object: &Value) -> Health {
    if let Some(condition) = condition(object, "Failed").filter(|c| text(c, "status") == "True") {
        return failed(format!("it failed: {}", text(condition, "message")));
    }
    if condition(object, "Complete").is_some_and(|c| text(c, "status") == "True") {
        return Health::Ready;
    }
    if object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        return progressing("it is suspended".to_owned());
    }
    progressing("it has not completed".to_owned())
}

fn pod(object: &Value) -> Health {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending");
    match phase {
        "Succeeded" => return Health::Ready,
        "Failed" => return failed(format!("it failed: {}", text(&object["status"], "message"))),
        _ => {}
    }
    for container in object.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten() {
        let waiting = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
        if matches!(waiting, "CrashLoopBackOff" | "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName") {
            return failed(format!("container {}: {waiting}", text(container, "name")));
        }
    }
    match condition(object, "Ready") {
        Some(c) if text(c, "status") == "True" => Health::Ready,
        Some(c) if !text(c, "message").is_empty() => progressing(text(c, "message").to_owned()),
        _ => progressing(format!("it is {}", phase.to_lowercase())),
    }
}

fn claim(object: &Value) -> Health {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Bound") => Health::Ready,
        Some("Lost") => failed("its volume is lost".to_owned()),
        _ => progressing("it is not bound to a volume".to_owned()),
    }
}

fn service(object: &Value) -> Health {
    let balanced = object.pointer("/spec/type").and_then(Value::as_str) == Some("LoadBalancer");
    let external = object.pointer("/spec/externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    if balanced && !external && ingress.is_none_or(Vec::is_empty) {
        return progressing("it has no load balancer yet".to_owned());
    }
    Health::Ready
}

fn definition(object: &Value) -> Health {
    if let Some(c) = condition(object, "NamesAccepted").filter(|c| text(c, "status") == "False") {
        return failed(format!("its names are refused: {}", text(c, "message")));
    }
    if condition(object, "Established").is_some_and(|c| text(c, "status") == "True") {
        Health::Ready
    } else {
        progressing("it is not established".to_owned())
    }
}

/// A custom resource as kstatus reads it; one that says nothing is ready because it exists.
fn custom(object: &Value) -> Health {
    if let Some(c) = condition(object, "Stalled").filter(|c| text(c, "status") == "True") {
        return failed(text(c, "message").to_owned());
    }
    if let Some(stale) = stale_where_observed(object) {
        return stale;
    }
    match condition(object, "Ready") {
        Some(c) if text(c, "status") != "True" => progressing(format!("it is not ready: {}", text(c, "message"))),
        _ => Health::Ready,
    }
}

/// The controller of a workload has not seen its last change.
fn stale(object: &Value) -> Option<Health> {
    let generation = number(object, "/metadata/generation").unwrap_or(0);
    let observed = number(object, "/status/observedGeneration").unwrap_or(0);
    (observed < generation).then(|| progressing("its controller has not seen the last change yet".to_owned()))
}

fn stale_where_observed(object: &Value) -> Option<Health> {
    object.pointer("/status/observedGeneration")?;
    stale(object)
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|c| text(c, "type") == name)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

fn progressing(message: String) -> Health {
    Health::Progressing(message.into())
}

fn failed(message: String) -> Health {
    Health::Failed(message.into())
}

#[cfg(test)]
mod tests {
    use super::health;
    use crate::release::object::Gvk;
    use serde_json::{Value, json};

    #[test]
    fn each_kind_is_ready_by_its_rule() {
        let ready = "Ready";
        let condition = |name: &str, status: &str| json!([{"type": name, "status": status, "message": "why"}]);
        let table: Vec<(&str, &str, Value, &str)> = vec![
            ("", "ConfigMap", json!({}), ready),
            (
                "apps",
                "Deployment",
                json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}}),
                "its controller has not seen the last change yet",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 2}, "status": {"updatedReplicas": 1}}),
                "1 of 2 replicas are updated",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 1}, "status": {"updatedReplicas": 1, "replicas": 2}}),
                "1 old replicas are still there",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {}, "status": {"updatedReplicas": 1, "replicas": 1}}),
                "0 of 1 replicas are available",
            ),
            ("apps", "Deployment", json!({"spec": {"replicas": 0}}), ready),
            (
                "apps",
                "Deployment",
                json!({"status": {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "late"}]}}),
                "its roll-out exceeded its deadline: late",
            ),
            (
                "apps",
                "StatefulSet",
                json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2}}),
                "2 of 3 replicas are ready",
            ),
            (
                "apps",
                "StatefulSet",
                json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}, "status": {"readyReplicas": 3, "updatedReplicas": 1}}),
                ready,
            ),
            ("apps", "DaemonSet", json!({}), "its controller has not seen it yet"),
            (
                "apps",
                "DaemonSet",
                json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
                "1 of 2 pods are available",
            ),
            ("batch", "Job", json!({}), "it has not completed"),
            ("batch", "Job", json!({"status": {"conditions": condition("Complete", "True")}}), ready),
            ("batch", "Job", json!({"status": {"conditions": condition("Failed", "True")}}), "it failed: why"),
            ("", "Pod", json!({"status": {"phase": "Pending"}}), "it is pending"),
            ("", "Pod", json!({"status": {"phase": "Running", "conditions": condition("Ready", "True")}}), ready),
            (
                "",
                "Pod",
                json!({"status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
                "container c: ImagePullBackOff",
            ),
            ("", "PersistentVolumeClaim", json!({"status": {"phase": "Pending"}}), "it is not bound to a volume"),
            ("", "PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), ready),
            ("", "Service", json!({"spec": {"type": "LoadBalancer"}}), "it has no load balancer yet"),
            ("", "Service", json!({"spec": {"type": "ClusterIP"}}), ready),
            ("x.io", "Thing", json!({"status": {"conditions": condition("Ready", "False")}}), "it is not ready: why"),
            ("x.io", "Thing", json!({}), ready),
        ];
        for (group, kind, object, expected) in table {
            let health = health(&Gvk::new(group, "v1", kind), &object);
            assert_eq!(health.to_string(), expected, "{kind} {object}");
        }
    }
}
