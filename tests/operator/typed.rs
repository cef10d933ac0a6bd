//! A chart's types as users meet them: mistakes are refused or warned of.

use crate::harness::{Space, eventually, kubectl, program, repository};
use serde_json::json;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What `kubectl create --dry-run=server` says of a custom resource: whether it is accepted, and standard error.
fn try_out(kubeconfig: &std::path::Path, object: &str) -> (bool, String) {
    let mut child = Command::new("kubectl")
        .args(["create", "--dry-run=server", "-f", "-", "--kubeconfig"])
        .arg(kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(object.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_type_is_refused_and_a_misspelt_key_is_warned_of() {
    let space = Space::new("typed");
    let group = format!("{}.tillerman.dev", space.name);
    let args = ["crd", "examples/helm-chart/chart", "--group", &group, "--kind", "Shop", "--warn-unknown"];
    let output = Command::new(program()).args(args).current_dir(repository("")).output().unwrap();
    kubectl(&["apply", "-f", "-"], Some(&String::from_utf8_lossy(&output.stdout))).unwrap();
    crate::harness::established(&format!("crd/shops.{group}"));
    let object = |spec: serde_json::Value| {
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Shop",
            "metadata": {"name": "s", "namespace": space.name}, "spec": spec})
        .to_string()
    };
    let kubeconfig = space.kubeconfig(None);
    let (accepted, said) = eventually("the kind is known to kubectl", || {
        match try_out(&kubeconfig, &object(json!({"replicaCount": "three"}))) {
            (_, said) if said.contains("no matches for kind") || said.contains("could not find") => Err(said),
            answer => Ok(answer),
        }
    });
    assert!(!accepted && said.contains("spec.replicaCount: Invalid value"), "{said}");
    let (accepted, said) = try_out(&kubeconfig, &object(json!({"replicaCount": 3, "image": null})));
    assert!(accepted && said.is_empty(), "{said}");
    eventually("the policy counts", || {
        let (accepted, said) = try_out(&kubeconfig, &object(json!({"replicacount": 3})));
        let warned = said.contains("Warning: ") && said.contains("the chart does not know spec.replicacount");
        if accepted && warned { Ok(()) } else { Err(said) }
    });
    let (accepted, said) = try_out(&kubeconfig, &object(json!({"replicaCount": 3, "x-own": 1})));
    assert!(accepted && said.is_empty(), "{said}");
    let policy = format!("unknown-values.shops.{group}");
    kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", &policy], None).unwrap();
    kubectl(&["delete", "crd", &format!("shops.{group}")], None).unwrap();
}

#[test]
fn a_misspelt_key_is_an_event_that_names_what_may_be_meant() {
    let space = Space::new("misspelt-key");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"greetng": "good day"}));
    assert_eq!(space.wait_event("UnknownValue"), "the chart does not know spec.greetng; did you mean spec.greeting?");
    // It is not an error.
    space.wait_web("app");
}

#[test]
fn a_chart_with_one_number_of_replicas_is_scaled_as_a_deployment_is() {
    let space = Space::new("scaled");
    let group = format!("{}.tillerman.dev", space.name);
    let args = ["crd", "examples/helm-chart/chart", "--group", &group, "--kind", "Shop"];
    let output = Command::new(program()).args(args).current_dir(repository("")).output().unwrap();
    kubectl(&["apply", "-f", "-"], Some(&String::from_utf8_lossy(&output.stdout))).unwrap();
    crate::harness::established(&format!("crd/shops.{group}"));
    let chart = repository("examples/helm-chart/chart");
    let entry = format!("- group: {group}\n  version: v1alpha1\n  kind: Shop\n  chart: {}\n", chart.display());
    let operator = space.operator(&space.file("watches.yaml", &entry), &[]);
    let object = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Shop",
        "metadata": {"name": "s", "namespace": space.name}, "spec": {"replicaCount": 1}});
    kubectl(&["apply", "-f", "-"], Some(&object.to_string())).unwrap();
    space.wait_field("deployment/s-web", "/spec/replicas", &json!(1));
    let resource = format!("shops.{group}/s");
    space.kubectl(&["scale", &resource, "--replicas=3"]).unwrap();
    space.wait_field("deployment/s-web", "/spec/replicas", &json!(3));
    eventually("what the Deployment has is reported", || {
        let deployment = space.get("deployment/s-web")?;
        let text = space.kubectl(&["get", &resource, "--subresource=scale", "-o", "json"])?;
        let scale: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let labels = deployment["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let selector = scale["status"]["selector"].as_str().unwrap_or_default();
        let all = labels
            .iter()
            .all(|(key, value)| selector.contains(&format!("{key}={}", value.as_str().unwrap_or_default())));
        let replicas = deployment.pointer("/status/replicas").cloned().unwrap_or(json!(0));
        if !selector.is_empty() && all && scale["status"]["replicas"] == replicas { Ok(()) } else { Err(text) }
    });
    space.kubectl(&["delete", &resource]).unwrap();
    assert!(operator.stop());
    kubectl(&["delete", "crd", &format!("shops.{group}")], None).unwrap();
}

/// A condition of the chart's schema is about the merged values: the default of a value counts where the custom resource has none.
#[test]
fn a_condition_of_the_schema_is_a_rule_that_knows_the_defaults() {
    let space = Space::new("condition");
    let group = format!("{}.tillerman.dev", space.name);
    let chart = space.file("kept", "").with_file_name("condition");
    let schema = r#"{"allOf": [{"if": {"properties": {"all": {"const": true}, "scaling": {"properties": {"enabled": {"const": true}}}}},
        "then": {"not": {"type": "object"}, "description": "all and scaling.enabled cannot both be true"}}]}"#;
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    for (name, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: condition\nversion: 1.0.0\n"),
        ("values.yaml", "all: false\nscaling: {enabled: true}\n"),
        ("values.schema.json", schema),
        ("templates/a.yaml", "{{ .Values.all }}{{ .Values.scaling.enabled }}"),
    ] {
        std::fs::write(chart.join(name), text).unwrap();
    }
    let args = ["crd", &chart.display().to_string(), "--group", &group, "--kind", "Limited"];
    let output = Command::new(program()).args(args).output().unwrap();
    kubectl(&["apply", "-f", "-"], Some(&String::from_utf8_lossy(&output.stdout))).unwrap();
    crate::harness::established(&format!("crd/limiteds.{group}"));
    let kubeconfig = space.kubeconfig(None);
    for (spec, accepted) in [
        (json!({}), true),
        (json!({"all": true}), false),
        (json!({"all": true, "scaling": {"enabled": false}}), true),
        (json!({"all": true, "scaling": {"enabled": true}}), false),
        (json!({"scaling": {"enabled": true}}), true),
    ] {
        let object = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Limited",
            "metadata": {"name": "s", "namespace": space.name}, "spec": spec});
        let (is_accepted, said) =
            eventually("the kind is known to kubectl", || match try_out(&kubeconfig, &object.to_string()) {
                (_, said) if said.contains("no matches for kind") || said.contains("could not find") => Err(said),
                answer => Ok(answer),
            });
        assert_eq!(is_accepted, accepted, "{spec}: {said}");
        assert!(accepted || said.contains("all and scaling.enabled cannot both be true"), "{said}");
    }
    kubectl(&["delete", "crd", &format!("limiteds.{group}")], None).unwrap();
}
