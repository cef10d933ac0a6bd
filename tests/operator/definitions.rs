//! `ChartDefinition`: charts become APIs while the operator runs.

use crate::harness::{Operator, Space, established, eventually, kubectl, repository};
use serde_json::{Value, json};
use std::process::Command;

/// An operator that carries out the definitions of this test.
fn operator(space: &Space) -> Operator {
    let file = repository("deploy/chart-definition.yaml").display().to_string();
    kubectl(&["apply", "--server-side", "-f", &file], None).unwrap();
    established("crd/chartdefinitions.tillerman.dev");
    space.operator(&space.file("watches.yaml", "[]"), &[&format!("--chart-definitions=space={}", space.name)])
}

/// Applies the definition of this test, whose kind is `Shop`.
fn define(space: &Space, chart: &Value, more: &Value) {
    let mut spec = json!({"chart": chart, "names": {"group": group(space), "version": "v1", "kind": "Shop"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition",
        "metadata": {"name": space.name, "labels": {"space": space.name}}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn group(space: &Space) -> String {
    format!("{}.tillerman.dev", space.name)
}

/// Waits for the condition of the definition to have a reason; its message.
fn wait(space: &Space, reason: &str) -> String {
    eventually(&format!("the definition is {reason}"), || {
        let text = kubectl(&["get", "chartdefinition", &space.name, "-o", "json"], None)?;
        let object: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let ready = object["status"]["conditions"][0].clone();
        let is_new = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let message = ready["message"].as_str().unwrap_or_default().to_owned();
        if ready["reason"] == reason && is_new { Ok(message) } else { Err(object["status"].to_string()) }
    })
}

fn shop(space: &Space, spec: &Value) -> Result<String, String> {
    let body = json!({"apiVersion": format!("{}/v1", group(space)), "kind": "Shop",
        "metadata": {"name": "a", "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string()))
}

#[test]
fn a_chart_becomes_an_api_while_the_operator_runs_and_goes_when_nobody_uses_it() {
    let space = Space::new("defined");
    let operator = operator(&space);
    define(&space, &json!({"path": repository("tests/charts/web")}), &json!({"policy": {"maxHistory": 2}}));
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    // One that is started again serves on, and what was there before it is repaired.
    assert!(operator.stop());
    let operator = self::operator(&space);
    operator.settle();
    space.kubectl(&["delete", "configmap", "a-config"]).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    let refused = shop(&space, &json!({"extra": "maybe"})).unwrap_err();
    assert!(refused.contains("spec.extra"), "{refused}");
    // The API stays as long as somebody uses it.
    kubectl(&["delete", "chartdefinition", &space.name, "--wait=false"], None).unwrap();
    let why = wait(&space, "CustomResourcesExist");
    assert!(why.starts_with("1 custom resource exists of kind Shop: delete it"), "{why}");
    shop(&space, &json!({"greeting": "still"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("still"));
    space.kubectl(&["delete", &format!("shops.{}", group(&space)), "a"]).unwrap();
    space.wait_gone("configmap/a-config");
    eventually("the definition is gone", || {
        match kubectl(&["get", "chartdefinition", &space.name, "-o", "name", "--ignore-not-found"], None)?.as_str() {
            "" => Ok(()),
            there => Err(there.to_owned()),
        }
    });
    let crd = format!("crd/shops.{}", group(&space));
    eventually("the API is gone", || match kubectl(&["get", &crd], None) {
        Err(why) if why.contains("NotFound") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    assert!(operator.stop());
}

#[test]
fn a_chart_that_cannot_be_used_takes_no_api_away() {
    let space = Space::new("broken-definition");
    let operator = operator(&space);
    let archive = space.file("web.tgz", "");
    let charts = repository("tests/charts");
    let packed = Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(charts).arg("web").status().unwrap();
    assert!(packed.success());
    space.kubectl(&["create", "configmap", "charts", &format!("--from-file=web.tgz={}", archive.display())]).unwrap();
    let chart = |key: &str| json!({"configMap": {"namespace": space.name, "name": "charts", "key": key}});
    define(&space, &chart("web.tgz"), &json!({}));
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    define(&space, &chart("web-2.tgz"), &json!({}));
    let why = wait(&space, "ChartUnusable");
    assert_eq!(why, format!("ConfigMap charts in namespace {} has no binaryData web-2.tgz", space.name));
    // Nor does one that somebody put in its place: the digest says which archive is meant.
    let mut other = chart("web.tgz");
    other["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    define(&space, &other, &json!({}));
    let why = wait(&space, "ChartUnusable");
    assert!(why.contains("its digest is sha256:") && why.contains(&"0".repeat(64)), "{why}");
    shop(&space, &json!({"greeting": "still"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("still"));
    // Without a definition that refuses, the API stays with its custom resources.
    define(&space, &chart("web.tgz"), &json!({"onDelete": "Orphan"}));
    wait(&space, "Served");
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(space.kubectl(&["get", &format!("shops.{}", group(&space)), "a"]).is_ok());
    // It is nobody's, so a new definition does not take it.
    define(&space, &chart("web.tgz"), &json!({}));
    let why = wait(&space, "Conflict");
    assert!(why.contains("exists and is not of this definition"), "{why}");
    let label = format!("tillerman.dev/definition={}", space.name);
    kubectl(&["label", "crd", &format!("shops.{}", group(&space)), &label], None).unwrap();
    wait(&space, "Served");
    shop(&space, &json!({"greeting": "again"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("again"));
    assert!(operator.stop());
}

#[test]
fn what_is_wrong_with_a_definition_is_in_its_condition() {
    let space = Space::new("wrong-definition");
    let operator = operator(&space);
    let chart = json!({"path": repository("tests/charts/web")});
    define(&space, &chart, &json!({"policy": {"nemespaces": "own"}}));
    let why = wait(&space, "InvalidSpec");
    assert!(why.starts_with("spec.policy: unknown field \"nemespaces\""), "{why}");
    define(&space, &json!({"path": "/nowhere"}), &json!({"policy": {}}));
    let why = wait(&space, "ChartUnusable");
    assert!(why.contains("/nowhere"), "{why}");
    define(&space, &chart, &json!({"policy": {}}));
    wait(&space, "Served");
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(operator.stop());
}

#[test]
fn a_definition_makes_a_cluster_scoped_api_whose_releases_act_as_an_account() {
    let space = Space::new("wide-definition");
    let operator = operator(&space);
    space.kubectl(&["create", "serviceaccount", "tenant"]).unwrap();
    let chart = json!({"path": repository("tests/charts/web")});
    let names = json!({"group": group(&space), "version": "v1", "kind": "Shop", "scope": "Cluster"});
    let policy = json!({"targetNamespace": space.name, "serviceAccount": format!("{}/tenant", space.name)});
    define(&space, &chart, &json!({"names": names, "policy": policy}));
    wait(&space, "Served");
    let body =
        json!({"apiVersion": format!("{}/v1", group(&space)), "kind": "Shop", "metadata": {"name": "a"}, "spec": {}});
    eventually("the API takes a custom resource", || kubectl(&["apply", "-f", "-"], Some(&body.to_string())));
    let shops = format!("shops.{}", group(&space));
    let why = eventually("what the account lacks is told", || {
        let text =
            kubectl(&["get", &shops, "a", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}"], None)?;
        if text.contains("needs a rule") { Ok(text) } else { Err(text) }
    });
    let expected =
        format!("Service account tenant of namespace {} needs a rule; add to a Role in namespace", space.name);
    assert!(why.contains(&expected), "{why}");
    space
        .kubectl(&[
            "create",
            "rolebinding",
            "tenant",
            "--clusterrole=admin",
            &format!("--serviceaccount={}:tenant", space.name),
        ])
        .unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hello"));
    kubectl(&["delete", &shops, "a", "--timeout=60s"], None).unwrap();
    space.wait_gone("configmap/a-config");
    kubectl(&["delete", "chartdefinition", &space.name, "--timeout=60s"], None).unwrap();
    assert!(operator.stop());
}
