//! The table of kinds.

use super::{health, pod_reason, pod_selector};
use crate::object::Gvk;
use serde_json::{Value, json};

fn check(table: Vec<(&str, &str, Value, &str)>) {
    for (group, kind, object, expected) in table {
        let health = health(&Gvk::new(group, "v1", kind), &object);
        assert_eq!(health.text().whole(), expected, "{kind} {object}");
    }
}

#[test]
fn sets_of_pods_are_ready_by_their_rules() {
    let ready = "Ready";
    let condition = |name: &str, status: &str| json!([{"type": name, "status": status, "message": "why"}]);
    let table = vec![
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
        (
            "apps",
            "Deployment",
            json!({"spec": {"replicas": 0}, "status": {"conditions": condition("Available", "True")}}),
            ready,
        ),
        ("apps", "Deployment", json!({"spec": {"replicas": 0}}), "it is not available"),
        (
            "apps",
            "Deployment",
            json!({"spec": {"replicas": 0, "progressDeadlineSeconds": 600}, "status": {"conditions": condition("Available", "True")}}),
            "its roll-out is not complete",
        ),
        (
            "apps",
            "ReplicaSet",
            json!({"status": {"conditions": condition("ReplicaFailure", "True")}}),
            "its pods cannot be created: why",
        ),
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
            json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "currentNumberScheduled": 2, "numberAvailable": 1}}),
            "1 of 2 pods are available",
        ),
    ];
    check(table);
}

#[test]
fn what_is_no_set_of_pods_is_ready_by_its_rule() {
    let ready = "Ready";
    let condition = |name: &str, status: &str| json!([{"type": name, "status": status, "message": "why"}]);
    check(vec![
        ("batch", "Job", json!({}), "it has not completed"),
        ("batch", "Job", json!({"status": {"conditions": condition("Complete", "True")}}), ready),
        ("batch", "Job", json!({"status": {"conditions": condition("Failed", "True")}}), "it failed: why"),
        ("", "Pod", json!({"status": {"phase": "Pending"}}), "it is pending"),
        ("", "Pod", json!({"status": {"phase": "Running", "conditions": condition("Ready", "True")}}), ready),
        (
            "",
            "Pod",
            json!({"status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
            "ImagePullBackOff",
        ),
        ("", "PersistentVolumeClaim", json!({"status": {"phase": "Pending"}}), "it is not bound to a volume"),
        ("", "PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), ready),
        ("", "Service", json!({"spec": {"type": "LoadBalancer"}}), "it has no load balancer yet"),
        ("", "Service", json!({"spec": {"type": "ClusterIP"}}), ready),
        ("x.io", "Thing", json!({"status": {"conditions": condition("Ready", "False")}}), "it is not ready: why"),
        ("x.io", "Thing", json!({}), ready),
        (
            "x.io",
            "Thing",
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
            "its controller has not seen the last change yet",
        ),
        ("x.io", "Thing", json!({"status": {"conditions": condition("Stalled", "True")}}), "why"),
        ("x.io", "Thing", json!({"status": {"conditions": condition("Reconciling", "True")}}), "why"),
        ("", "Node", json!({"status": {"conditions": condition("Ready", "False")}}), ready),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"status": {"conditions": condition("AbleToScale", "False")}}),
            "why",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"status": {"conditions": condition("ScalingActive", "False")}}),
            ready,
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"metadata": {"generation": 1}}),
            "its controller has not seen the last change yet",
        ),
        ("networking.k8s.io", "Ingress", json!({}), ready),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({"status": {"conditions": condition("NamesAccepted", "False")}}),
            "the API server refuses its names: why",
        ),
    ]);
}

#[test]
fn a_pod_says_why_it_is_not_ready_and_nothing_that_a_program_wrote() {
    let pod = |status: Value| json!({"metadata": {"name": "a"}, "status": status});
    let waiting = |reason: &str| json!([{"name": "c", "state": {"waiting": {"reason": reason, "message": "why"}}}]);
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "password=x"}});
    let table = [
        (json!({"phase": "Pending"}), None),
        (json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")}), None),
        (json!({"phase": "Pending", "containerStatuses": waiting("ImagePullBackOff")}), Some("ImagePullBackOff: why")),
        (
            json!({"phase": "Pending", "initContainerStatuses": waiting("CreateContainerConfigError")}),
            Some("CreateContainerConfigError: why"),
        ),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
            Some("Unschedulable: 0/3 nodes"),
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "lastState": ended}]}),
            Some("CrashLoopBackOff: container c ended with exit code 3"),
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": ended}]}),
            Some("Error: container c ended with exit code 3"),
        ),
        (
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "lastState": ended}]}),
            None,
        ),
        (json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}), Some("Evicted: low on memory")),
    ];
    for (status, expected) in table {
        assert_eq!(pod_reason(&pod(status.clone())).map(|text| text.whole()).as_deref(), expected, "{status}");
    }
}

#[test]
fn pods_are_found_by_their_workloads_selector() {
    let object = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    let of = |group: &str, kind: &str, object: &Value| pod_selector(&Gvk::new(group, "v1", kind), object);
    assert_eq!(of("apps", "Deployment", &object).as_deref(), Some("a=b"));
    assert_eq!(of("", "Service", &json!({"spec": {"selector": {"a": "b"}}})), None);
    assert_eq!(of("", "ReplicationController", &json!({"spec": {"selector": {"a": "b"}}})).as_deref(), Some("a=b"));
}
