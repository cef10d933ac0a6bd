//! What tools for many clusters read of a custom resource: Karmada by the scripts of deploy/karmada, in the engine that it uses, and Open
//! Cluster Management by the paths of docs/how-to/many-clusters.md.

use crate::harness::{Space, kubectl, repository};
use crate::install;
use crate::kubelet::Kubelet;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};
use tillerman::template::yaml;

/// What a function of Karmada's scripts returns.
fn karmada(function: &str, arguments: &Value) -> Value {
    let mut child = Command::new("karmada-lua")
        .args([&repository("deploy/karmada/interpreter.lua").display().to_string(), function])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tests/cluster/build-tools.sh gitops");
    child.stdin.take().unwrap().write_all(arguments.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The names and paths of the feedback rules in the page.
fn feedback() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(repository("docs/how-to/many-clusters.md")).unwrap();
    let block = page.split("```yaml\n").find(|block| block.contains("kind: ManifestWork")).unwrap();
    let work = yaml::parse(block.split("```").next().unwrap().as_bytes()).unwrap();
    let paths = work["spec"]["manifestConfigs"][0]["feedbackRules"][0]["jsonPaths"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    paths.iter().map(|path| (text(&path["name"]), text(&path["path"]))).collect()
}

#[test]
#[ignore = "needs Karmada's engine of scripts: part gitops"]
fn tools_for_many_clusters_read_what_the_conditions_say() {
    let space = Space::new("clusters");
    let _kubelet = Kubelet::of_pods(&space, "healthy-");
    install::define(&["phpapps.apps.tillerman.dev"]);
    let operator = space.operator(&install::watches(&space, &["php"]), &[]);
    for name in ["progressing", "healthy"] {
        let app = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp", "spec": {"source": {"index.php": "<?php"}},
            "metadata": {"name": name, "namespace": space.name}});
        kubectl(&["apply", "-f", "-"], Some(&app.to_string())).unwrap();
        space.wait(&format!("phpapp/{name}"), "Deployed", "True");
    }
    space.wait("phpapp/healthy", "Ready", "True");

    let read = |name: &str| space.get(&format!("phpapp/{name}")).unwrap();
    let (healthy, progressing) = (read("healthy"), read("progressing"));
    assert_eq!(karmada("InterpretHealth", &json!([healthy])), true);
    assert_eq!(karmada("InterpretHealth", &json!([progressing])), false);
    let mut changed = healthy.clone();
    changed["metadata"]["generation"] = json!(9);
    assert_eq!(karmada("InterpretHealth", &json!([changed])), false);

    let reflected = karmada("ReflectStatus", &json!([healthy]));
    assert_eq!(reflected["conditions"], healthy["status"]["conditions"]);
    assert_eq!(reflected["release"]["revision"], healthy["status"]["release"]["revision"]);
    // Karmada notes its own generation, 7 here, at what it applies.
    let item = |cluster: &str, object: &Value| {
        let mut object = object.clone();
        object["metadata"]["annotations"]["resourcetemplate.karmada.io/generation"] = "7".into();
        json!({"clusterName": cluster, "status": karmada("ReflectStatus", &json!([object]))})
    };
    let all = |generation: i64, items: &Value| {
        let template = json!({"metadata": {"name": "healthy", "generation": generation}, "spec": healthy["spec"],
            "status": {"observedGeneration": -1}});
        karmada("AggregateStatus", &json!([template, items]))["status"].clone()
    };
    let of = |items: Value| all(7, &items)["conditions"][0].clone();
    let both = json!([item("a", &healthy), item("b", &progressing)]);
    assert_eq!(all(7, &both)["observedGeneration"], 7);
    assert_eq!(all(8, &both)["observedGeneration"], -1, "the change has not arrived in the clusters");
    assert_eq!(all(7, &json!([item("a", &healthy), {"clusterName": "b"}]))["observedGeneration"], -1);
    assert_eq!(of(json!([item("a", &healthy), item("b", &healthy)]))["status"], "True");
    let mixed = of(json!([item("a", &healthy), item("b", &progressing)]));
    assert_eq!(mixed["status"], "False");
    assert!(mixed["message"].as_str().unwrap().starts_with("b: Deployment progressing: 0 of 1"), "{mixed}");
    assert_eq!(of(json!([item("a", &healthy), {"clusterName": "b"}]))["status"], "Unknown");

    let conditions = healthy["status"]["conditions"].as_array().unwrap();
    let message =
        conditions.iter().find(|condition| condition["type"] == "Ready").unwrap()["message"].as_str().unwrap();
    let expected = [("ready", "True"), ("message", message), ("revision", "1")];
    let found: Vec<(String, String)> = feedback()
        .into_iter()
        .map(|(name, path)| {
            let of = space.kubectl(&["get", "phpapp/healthy", "-o", &format!("jsonpath={{{path}}}")]);
            (name, of.unwrap())
        })
        .collect();
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(operator.stop());
}
