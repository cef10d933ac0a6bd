//! Fields that others own: which are left to them, and which are not.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Operator, Space, eventually, kubectl, repository};
use serde_json::{Value, json};

fn scale(space: &Space, replicas: u64, manager: &str) {
    // As an autoscaler does it: an update of the subresource.
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/app-web/scale", space.name);
    let mut scale: Value = serde_json::from_str(&kubectl(&["get", "--raw", &path], None).unwrap()).unwrap();
    scale["spec"]["replicas"] = json!(replicas);
    let file = space.file("scale.json", &scale.to_string());
    kubectl(&["replace", "--raw", &format!("{path}?fieldManager={manager}"), "-f", &file.display().to_string()], None)
        .unwrap();
}

fn replicas(space: &Space) -> Value {
    space.get("deployment/app-web").unwrap()["spec"]["replicas"].clone()
}

fn deployed(space: &Space, spec: &Value) -> Operator {
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", spec);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    operator
}

/// C4.
#[test]
fn replicas_that_an_autoscaler_set_are_left_to_it_until_the_chart_says_another_number() {
    let space = Space::new("c4");
    let operator = deployed(&space, &json!({"replicas": 2}));
    scale(&space, 5, "kube-controller-manager");
    operator.settle();
    assert_eq!(replicas(&space), 5);
    // An upgrade of something else leaves them too, and their next change is none of ours.
    space.apply("Web", "app", &json!({"replicas": 2, "image": "web:2"}));
    space.wait_field("deployment/app-web", "/spec/template/spec/containers/0/image", &json!("web:2"));
    operator.settle();
    assert_eq!(replicas(&space), 5);
    let of_deployments = || space.requests().into_iter().filter(|r| r.contains("deployments")).count();
    let before = of_deployments();
    scale(&space, 6, "kube-controller-manager");
    eventually("the status tells of it", || {
        let message = space.get("web/app")?["status"]["resources"][0]["message"].to_string();
        if message.contains("of 6 replicas") { Ok(()) } else { Err(message) }
    });
    operator.settle();
    assert_eq!(of_deployments(), before);
    assert_eq!(replicas(&space), 6);
    space.apply("Web", "app", &json!({"replicas": 3, "image": "web:2"}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(3));
}

/// C4. An autoscaler that scales to zero owns nothing, as kubectl at zero.
#[test]
fn what_an_autoscaler_scaled_to_zero_stays_there() {
    let space = Space::new("c4-zero");
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {
        "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-web"}}});
    let operator = deployed(&space, &json!({"replicas": 2}));
    // Without an autoscaler it is drift.
    scale(&space, 0, "keda-operator");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    operator.settle();
    // One of the namespace, which is not of the release.
    let body = scaler.to_string();
    kubectl(&["-n", &space.name, "apply", "-f", "-"], Some(&body)).unwrap();
    scale(&space, 0, "keda-operator");
    operator.settle();
    assert_eq!(replicas(&space), 0);
    let of_deployments = || space.requests().into_iter().filter(|r| r.contains("deployments")).count();
    let before = of_deployments();
    operator.settle();
    assert_eq!(of_deployments(), before);
    // At the next upgrade, too, and when something else of the object is repaired.
    space.apply("Web", "app", &json!({"replicas": 2, "image": "web:2"}));
    space.wait_field("deployment/app-web", "/spec/template/spec/containers/0/image", &json!("web:2"));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    operator.settle();
    assert_eq!(replicas(&space), 0);
    space.kubectl(&["set", "image", "deployment/app-web", "*=theirs"]).unwrap();
    space.wait_field("deployment/app-web", "/spec/template/spec/containers/0/image", &json!("web:2"));
    operator.settle();
    assert_eq!(replicas(&space), 0);
    // It wakes up, and what it says then counts.
    scale(&space, 3, "keda-operator");
    operator.settle();
    assert_eq!(replicas(&space), 3);
}

/// C4.
#[test]
fn an_autoscaler_of_the_release_may_scale_to_zero() {
    let space = Space::new("c4-own-zero");
    let operator = space.operator(&space.watches(&[("Web", "tenant")]), &[]);
    let deployment = |image: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app-web"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}}})
    };
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {
        "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-web"}}});
    space.apply("Web", "app", &json!({"text": "", "objects": [deployment("a:1"), scaler]}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    assert_eq!(replicas(&space), 2);
    scale(&space, 0, "keda-operator");
    operator.settle();
    assert_eq!(replicas(&space), 0);
    space.apply("Web", "app", &json!({"text": "", "objects": [deployment("a:2"), scaler]}));
    space.wait_field("deployment/app-web", "/spec/template/spec/containers/0/image", &json!("a:2"));
    operator.settle();
    assert_eq!(replicas(&space), 0);
}

/// C4.
#[test]
fn a_humans_scale_is_drift() {
    let space = Space::new("c4-human");
    let operator = deployed(&space, &json!({"replicas": 2}));
    space.kubectl(&["scale", "deployment/app-web", "--replicas=5"]).unwrap();
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    operator.settle();
}

#[test]
fn a_field_of_ignore_drift_is_made_and_then_left_to_others() {
    let space = Space::new("ignore");
    let operator = space.operator(&space.watches_with(&[("Web", "web")], "  allow: [ignoreDrift]\n"), &[]);
    let rules =
        json!([{"target": {"kind": "ConfigMap", "name": "app-config"}, "paths": ["/data/greeting"]}]).to_string();
    let web = |greeting: &str, a: &str| {
        let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
            "metadata": {"name": "app", "namespace": space.name, "annotations": {"tillerman.dev/ignore-drift": rules}},
            "spec": {"greeting": greeting, "more": {"a": a}}});
        kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    };
    web("made", "1");
    // With what comes of the Deployment: requests are counted.
    space.wait_web("app");
    space.wait_field("configmap/app-config", "/data/greeting", &json!("made"));
    // While nobody else wrote it, it follows the chart.
    web("changed", "1");
    space.wait_field("configmap/app-config", "/data/greeting", &json!("changed"));
    operator.settle();
    let patch = r#"{"data":{"greeting":"theirs"}}"#;
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", patch]).unwrap();
    operator.settle();
    web("again", "2");
    space.wait_field("configmap/app-config", "/data/a", &json!("2"));
    let before = operator.settle();
    assert_eq!(space.get("configmap/app-config").unwrap()["data"]["greeting"], "theirs");
    // It no longer concerns any of our releases.
    let patch = r#"{"data":{"greeting":"more"}}"#;
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", patch]).unwrap();
    assert_eq!(operator.settle(), before);
    // Everything else is repaired.
    let patch = r#"{"data":{"a":"x"}}"#;
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", patch]).unwrap();
    space.wait_field("configmap/app-config", "/data/a", &json!("2"));
    assert_eq!(space.get("configmap/app-config").unwrap()["data"]["greeting"], "more");
}

#[test]
fn ignore_drift_may_stand_in_watches_yaml_and_is_refused_when_it_cannot_be_read() {
    let space = Space::new("ignore-kind");
    let chart = repository("tests/charts/web").display().to_string();
    let watches = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {chart}\n  allow: [ignoreDrift]\n  ignoreDrift:\n  \
         - target: {{kind: Deployment}}\n    paths: [/spec/replicas]\n"
    );
    let operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    space.kubectl(&["scale", "deployment/app-web", "--replicas=4"]).unwrap();
    operator.settle();
    assert_eq!(replicas(&space), 4);
    space.kubectl(&["annotate", "web/app", "tillerman.dev/ignore-drift=[{}]"]).unwrap();
    let refused = space.wait("web/app", "Stalled", "True");
    assert_eq!(refused["message"], "annotation tillerman.dev/ignore-drift: a rule has no paths");
}

/// C1.
#[test]
fn a_reference_that_does_not_fit_any_more_is_no_drift_when_the_apply_changes_nothing() {
    let space = Space::new("c1");
    let operator = deployed(&space, &json!({}));
    let secret = "secret/sh.helm.release.v1.app.v1";
    let inventory =
        |space: &Space| space.get(secret).unwrap()["metadata"]["annotations"]["tillerman.dev/inventory"].clone();
    let before = inventory(&space);
    let version = space.get("configmap/app-config").unwrap()["metadata"]["resourceVersion"].clone();
    // As after an API server upgrade that writes the object in another way.
    let digest =
        before.as_str().unwrap().lines().find(|l| l.contains("app-config")).unwrap().rsplit(' ').next().unwrap();
    let other = before.as_str().unwrap().replace(digest, "0123456789abcdef");
    let patch = json!({"metadata": {"annotations": {"tillerman.dev/inventory": other}}}).to_string();
    space.kubectl(&["patch", secret, "--type=merge", "-p", &patch]).unwrap();
    eventually("the reference is taken anew", || match inventory(&space) {
        found if found == before => Ok(()),
        found => Err(found.to_string()),
    });
    operator.settle();
    assert_eq!(space.get("configmap/app-config").unwrap()["metadata"]["resourceVersion"], version);
    let events = space.kubectl(&["get", "events", "-o", "name", "--field-selector=reason=DriftRepaired"]).unwrap();
    assert_eq!(events, "");
}

/// C3.
#[test]
fn fields_that_the_api_server_fills_in_are_at_rest() {
    let space = Space::new("c3");
    let operator = space.operator(&space.watches(&[("Web", "allocated")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let before = operator.settle();
    let service = space.get("service/app-web").unwrap();
    assert_ne!(service["spec"]["clusterIP"], "");
    assert_ne!(service["spec"]["ports"][0]["nodePort"], 0);
    assert_eq!(operator.settle(), before);
    // Applied once more it is the same.
    let patch = r#"{"spec":{"sessionAffinity":"ClientIP"}}"#;
    space.kubectl(&["patch", "service/app-web", "--type=merge", "-p", patch]).unwrap();
    space.wait_field("service/app-web", "/spec/sessionAffinity", &json!("None"));
    let before = operator.settle();
    assert_eq!(space.get("service/app-web").unwrap()["spec"]["clusterIP"], service["spec"]["clusterIP"]);
    assert_eq!(space.get("service/app-web").unwrap()["spec"]["ports"], service["spec"]["ports"]);
    assert_eq!(operator.settle(), before);
}

/// docs/design/lessons.md pain 2: no hot loop with somebody else.
#[test]
fn a_field_that_somebody_changes_again_and_again_is_contested_until_they_stop() {
    let space = Space::new("contested");
    let _operator = deployed(&space, &json!({}));
    let patch = r#"{"data":{"greeting":"theirs"}}"#;
    let rival = || {
        space
            .kubectl(&["patch", "configmap/app-config", "--type=merge", "--field-manager=rival", "-p", patch])
            .unwrap();
    };
    // A rival that looks all the time.
    let contested = eventually("the contest is seen", || {
        if space.get("configmap/app-config")?["data"]["greeting"] == "hello" {
            rival();
        }
        let drifted = space.condition("web/app", "Drifted")?;
        if drifted["status"] == "True" { Ok(drifted) } else { Err(drifted.to_string()) }
    });
    assert_eq!(contested["reason"], "Contested");
    assert!(
        contested["message"].as_str().unwrap().contains("ConfigMap app-config: data.greeting with rival"),
        "{contested}"
    );
    space.wait_event("Contested");
    // The others keep it for a while. Then they are gone, and it is repaired.
    rival();
    space.wait_field("configmap/app-config", "/data/greeting", &json!("hello"));
    let settled = space.wait("web/app", "Drifted", "False");
    assert_eq!(settled["reason"], "Settled");
}
