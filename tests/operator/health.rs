//! Ready means ready: each kind on the real API server, with the statuses that a kubelet would write.

use crate::harness::{Operator, Space, eventually, kubectl};
use serde_json::{Value, json};

/// A namespace with an operator, and one custom resource `app` that consists of the objects.
fn release(test: &str, objects: &Value) -> (Space, Operator) {
    let space = Space::new(test);
    let operator = space.operator(&space.watches(&[("Web", "objects")]), &["--reconcile-period=1s"]);
    space.apply("Web", "app", &json!({"objects": objects}));
    space.wait("web/app", "Deployed", "True");
    (space, operator)
}

/// Waits until `Ready` is false and its message is, or begins with, this.
fn wait_unready(space: &Space, message: &str) -> Value {
    eventually(&format!("not ready: {message}"), || {
        let ready = space.condition("web/app", "Ready")?;
        let told = ready["message"].as_str().unwrap_or_default();
        if ready["status"] == "False" && told.starts_with(message) { Ok(ready) } else { Err(ready.to_string()) }
    })
}

fn set_status(space: &Space, object: &str, status: &Value) {
    let patch = json!({"status": status}).to_string();
    space.kubectl(&["patch", object, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
}

/// The pods of a workload, as soon as there are so many.
fn pods(space: &Space, label: &str, count: usize) -> Vec<String> {
    eventually(&format!("{count} pods of {label}"), || {
        let text = space.kubectl(&["get", "pods", "-l", label, "-o", "name"])?;
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        if names.len() == count { Ok(names) } else { Err(text) }
    })
}

fn run_pods(space: &Space, label: &str, count: usize) {
    for pod in pods(space, label, count) {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        set_status(space, &pod, &status);
    }
}

fn template(label: &str) -> Value {
    json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn workload(kind: &str, name: &str, replicas: u64) -> Value {
    let selector = json!({"matchLabels": {"app": name}});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(name)}})
}

/// docs/design/lessons.md pain 11: deployed is not ready.
#[test]
fn a_deployment_is_ready_with_its_pods_and_unready_with_their_reason() {
    let (space, operator) = release("deployment", &json!([workload("Deployment", "web", 2)]));
    wait_unready(&space, "Deployment web: 0 of 2 replicas are available");
    let all = pods(&space, "app=web", 2);
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"i\""});
    let container = json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": waiting}}]);
    set_status(&space, &all[1], &json!({"phase": "Pending", "containerStatuses": container}));
    let name = all[1].trim_start_matches("pod/");
    wait_unready(&space, &format!("Deployment web: pod {name} ImagePullBackOff: Back-off pulling image \"i\""));
    // Unready and at rest: nothing is asked again and again.
    operator.rests(&space, 5);
    run_pods(&space, "app=web", 2);
    let ready = space.wait("web/app", "Ready", "True");
    assert_eq!(ready["message"], "1 object is ready");
    assert_eq!(space.condition("web/app", "Reconciling").unwrap()["status"], "False");
    // One that breaks later is reported, too.
    set_status(&space, &all[0], &json!({"conditions": [{"type": "Ready", "status": "False"}]}));
    wait_unready(&space, "Deployment web: 1 of 2 replicas are available");
}

#[test]
fn without_the_right_to_see_pods_the_workload_itself_says_what_is_missing() {
    let space = Space::new("nopods");
    space.restrict(&[
        "--verb=*",
        "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,secrets,events,deployments.apps",
    ]);
    let operator = space.operator(&space.watches(&[("Web", "objects")]), &["--reconcile-period=1s"]);
    space.apply("Web", "app", &json!({"objects": [workload("Deployment", "web", 1)]}));
    wait_unready(&space, "Deployment web: 0 of 1 replicas are available");
    eventually("it said so", || operator.log().contains("pods cannot be watched").then_some(()).ok_or("no"));
    let before = operator.settle();
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(operator.sent(), before);
}

#[test]
fn sets_of_pods_are_ready_with_their_pods() {
    let mut stateful = workload("StatefulSet", "db", 1);
    stateful["spec"]["serviceName"] = json!("db");
    for (object, label) in [(stateful, "app=db"), (workload("ReplicaSet", "rs", 1), "app=rs")] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let (space, _operator) = release(&kind.to_lowercase(), &json!([object]));
        wait_unready(&space, &kind);
        run_pods(&space, label, 1);
        space.wait("web/app", "Ready", "True");
    }
}

#[test]
fn a_daemon_set_is_ready_when_each_of_its_nodes_has_it() {
    let space = Space::new("daemons");
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": space.name, "labels": {"for": space.name}}});
    kubectl(&["create", "-f", "-"], Some(&node.to_string())).unwrap();
    let mut object = workload("DaemonSet", "agent", 1);
    object["spec"].as_object_mut().unwrap().remove("replicas");
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"for": space.name});
    object["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let _operator = space.operator(&space.watches(&[("Web", "objects")]), &[]);
    space.apply("Web", "app", &json!({"objects": [object]}));
    wait_unready(&space, "DaemonSet agent: 0 of 1 pods are available");
    run_pods(&space, "app=agent", 1);
    space.wait("web/app", "Ready", "True");
    kubectl(&["delete", "node", &space.name], None).unwrap();
}

#[test]
fn a_job_is_ready_when_it_has_completed_and_says_why_it_cannot() {
    let job = |name: &str| {
        let mut template = template(name);
        template["spec"]["restartPolicy"] = json!("Never");
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": template}})
    };
    let (space, _operator) = release("job", &json!([job("good")]));
    wait_unready(&space, "Job good: it has not completed");
    set_status(&space, &pods(&space, "app=good", 1)[0], &json!({"phase": "Succeeded"}));
    space.wait("web/app", "Ready", "True");
    space.apply("Web", "app", &json!({"objects": [job("good"), job("bad")]}));
    wait_unready(&space, "Job bad: it has not completed");
    set_status(
        &space,
        &pods(&space, "app=bad", 1)[0],
        &json!({"phase": "Failed", "reason": "Evicted", "message": "no room"}),
    );
    let ready = wait_unready(&space, "Job bad: pod bad-");
    assert!(ready["message"].as_str().unwrap().ends_with("Evicted: no room"), "{ready}");
    eventually("it has failed", || {
        let reason = space.condition("web/app", "Ready")?["reason"].clone();
        if reason == "Failed" { Ok(()) } else { Err(reason.to_string()) }
    });
}

#[test]
fn a_pod_a_claim_and_a_load_balancer_are_ready_when_they_work() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": template("x")["spec"]});
    let (space, _operator) = release("pod", &json!([pod]));
    wait_unready(&space, "Pod one: it is pending");
    let unschedulable =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"});
    set_status(&space, "pod/one", &json!({"conditions": [unschedulable]}));
    wait_unready(&space, "Pod one: Unschedulable: 0/1 nodes");
    set_status(&space, "pod/one", &json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
    space.wait("web/app", "Ready", "True");

    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": space.name, "resources": {"requests": {"storage": "1Mi"}}}});
    space.apply("Web", "app", &json!({"objects": [claim]}));
    wait_unready(&space, "PersistentVolumeClaim data: it is not bound to a volume");
    // Of a class of its own: claims of other tests, which have none, would take it.
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": space.name},
        "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": space.name,
            "hostPath": {"path": "/tmp"}}});
    kubectl(&["create", "-f", "-"], Some(&volume.to_string())).unwrap();
    space.wait("web/app", "Ready", "True");

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lb"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    space.apply("Web", "app", &json!({"objects": [service]}));
    wait_unready(&space, "Service lb: it has no load balancer yet");
    set_status(&space, "service/lb", &json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}));
    space.wait("web/app", "Ready", "True");
}

#[test]
fn an_autoscaler_needs_what_it_scales_and_a_budget_and_an_ingress_nothing() {
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "auto"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "later"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    let (space, _operator) = release("scaler", &json!([scaler]));
    wait_unready(&space, "HorizontalPodAutoscaler auto: FailedGetScale: ");
    kubectl(&["-n", &space.name, "create", "-f", "-"], Some(&workload("Deployment", "later", 0).to_string())).unwrap();
    space.wait("web/app", "Ready", "True");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "in"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}});
    space.apply("Web", "app", &json!({"objects": [budget, ingress]}));
    eventually("both are ready", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["message"] == "2 objects are ready" { Ok(()) } else { Err(ready.to_string()) }
    });
}

#[test]
fn a_definition_and_a_custom_resource_are_ready_by_their_conditions() {
    let space = Space::new("conditions");
    let group = format!("{}.example.com", space.name);
    let definition: Value = serde_saphyr::from_str(&crate::harness::definition(&group, "Thing")).unwrap();
    let _operator = space.operator(&space.watches(&[("Web", "objects")]), &[]);
    space.apply("Web", "app", &json!({"objects": [definition]}));
    space.wait("web/app", "Ready", "True");
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"}, "spec": {}});
    space.apply("Web", "app", &json!({"objects": [definition, thing]}));
    let object = format!("things.{group}/one");
    eventually("it exists", || space.get(&object));
    let condition = |name: &str, status: &str| json!({"conditions": [{"type": name, "status": status, "reason": "Why", "message": "because"}]});
    set_status(&space, &object, &condition("Ready", "False"));
    wait_unready(&space, "Thing one: it is not ready: because");
    set_status(&space, &object, &condition("Stalled", "True"));
    let ready = wait_unready(&space, "Thing one: Why: because");
    assert_eq!(ready["reason"], "Failed");
    set_status(&space, &object, &condition("Ready", "True"));
    space.wait("web/app", "Ready", "True");
}
