//! What Argo CD shows of custom resources, by its own package (tests/cluster/tools/argocd) on the conditions of a real operator.

use crate::harness::{Space, eventually, kubectl, repository};
use crate::install;
use crate::kubelet::Kubelet;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tillerman::template::yaml;

#[test]
#[ignore = "needs Argo CD's package: part gitops"]
fn argo_cd_shows_what_the_conditions_say() {
    let space = Space::new("argocd");
    let _kubelet = Kubelet::of_pods(&space, "healthy-");
    install::define(&["phpapps.apps.tillerman.dev"]);
    let operator = space.operator(&install::watches(&space, &["php"]), &[]);
    let apply = |name: &str, annotations: &Value, spec: &Value| {
        let app = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp", "spec": spec,
            "metadata": {"name": name, "namespace": space.name, "annotations": annotations, "finalizers":
                if name == "deleting" { json!(["example.com/wait"]) } else { json!([]) }}});
        kubectl(&["apply", "-f", "-"], Some(&app.to_string())).unwrap();
    };
    let (none, page) = (json!({}), json!({"source": {"index.php": "<?php"}}));
    for name in ["progressing", "healthy", "deleting"] {
        apply(name, &none, &page);
    }
    apply("degraded", &none, &json!({"database": {"cluster": "a", "host": "b"}}));
    apply("suspended", &json!({"tillerman.dev/paused": "true"}), &page);
    space.wait("phpapp/healthy", "Ready", "True");
    space.kubectl(&["delete", "phpapp/deleting", "--wait=false"]).unwrap();

    let config = yaml::parse(&std::fs::read(repository("deploy/argocd/argocd-cm.yaml")).unwrap()).unwrap();
    let config = space.file("argocd-cm.json", &config.to_string());
    let expected = [
        ("degraded", "Degraded database.cluster and database.host both name a database"),
        ("deleting", "Progressing"),
        ("healthy", "Healthy"),
        ("progressing", "Progressing Deployment progressing: 0 of 1 replicas are available"),
        ("suspended", "Suspended"),
    ];
    eventually("Argo CD shows all of it", || {
        let shown = shown(&config, &space.kubectl(&["get", "phpapps", "-o", "json"])?);
        let is = |(name, text): &(&str, &str)| {
            let (status, message) = text.split_once(' ').unwrap_or((text, ""));
            let found = shown.get(*name)?;
            (found.0 == status && found.1.contains(message)).then_some(())
        };
        if expected.iter().all(|row| is(row).is_some()) { Ok(()) } else { Err(format!("{shown:?}")) }
    });
    let release = ["patch", "phpapp/deleting", "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#];
    let _ = space.kubectl(&release);
    assert!(operator.stop());
}

/// The health and the message of each object of a list, by name.
fn shown(config: &std::path::Path, list: &str) -> BTreeMap<String, (String, String)> {
    let mut child = Command::new("argocd-health")
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tests/cluster/build-tools.sh gitops");
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        (next(), (next(), next()))
    };
    text.lines().map(line).collect()
}
