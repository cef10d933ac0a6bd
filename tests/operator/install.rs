//! `deploy/install` and `deploy/chart` on an API server: all that they have is accepted, and without a warning.

use crate::harness::{Space, cluster_dir, eventually, kubectl, program, repository};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tillerman::template::yaml;

const NAMESPACE: &str = "tillerman-system";

/// What kubectl prints; it must say nothing to standard error, where warnings of the API server are.
fn quiet(args: &[&str], input: &str) -> String {
    let mut child = Command::new("kubectl")
        .args(args)
        .env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"))
        .current_dir(repository(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{args:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn rendered(values: &[&str]) -> String {
    let sets = values.iter().flat_map(|value| ["--set", value]);
    let run = Command::new(program())
        .args(["template", "tillerman", "deploy/chart", "--namespace", NAMESPACE])
        .args(sets)
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(run.status.success(), "{values:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The objects of a text by kind, namespace and name, without what says by whom they are installed.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let parse = |document: &str| yaml::parse(document.as_bytes()).unwrap();
    let mut found: Vec<Value> = text.split("\n---\n").map(parse).filter(Value::is_object).collect();
    let stripped = found.iter_mut().map(|object| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        metadata.remove("annotations");
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = format!("{} {}", text("namespace"), text("name"));
        (format!("{} {id}", object["kind"]), object.take())
    });
    stripped.collect()
}

#[test]
fn what_is_installed_is_accepted_without_a_warning() {
    // Its labels refuse and warn of pods that do not fit the level `restricted`.
    quiet(&["apply", "-f", "deploy/install/base/namespace.yaml"], "");
    for overlay in ["cluster-wide", "namespaced", "base"] {
        let folder = format!("deploy/install/{overlay}");
        let told = quiet(&["apply", "--dry-run=server", "-k", &folder], "");
        assert!(told.contains("deployment.apps/tillerman"), "{told}");
    }
    let values: [&[&str]; 9] = [
        &[],
        &["crds.install=false", "replicas=1", "fullnameOverride=else"],
        &["watchNamespaces={default,kube-public}", "chartRights=false"],
        &["watchNamespaces={default,tillerman-system}", "builtIn.php=false", "backupServiceAccount=backup"],
        &["builtIn.php=false", "builtIn.etcd=false", "chartDefinitionSelector=team=web"],
        &["chartDefinitions=false", "builtIn.php=false", "userRoles=false", "crds.keep=false"],
        &[
            "metrics.enabled=false",
            "podDisruptionBudget.enabled=false",
            "networkPolicy.enabled=false",
            "serviceAccount.create=false",
            "serviceAccount.name=mine",
        ],
        &[
            "metrics.secure=false",
            "metrics.dashboard.enabled=true",
            "networkPolicy.metricsFrom=null",
            "networkPolicy.egress[0].ports[0].port=443",
        ],
        &[
            "metrics.certificateSecret=certificate",
            "priorityClassName=system-cluster-critical",
            "imagePullSecrets={a}",
            "tolerations[0].operator=Exists",
            "podLabels.team=web",
            "podAnnotations.note=x",
            "nodeSelector.disk=ssd",
            "extraArgs={--zap-log-level=debug}",
            "extraEnv[0].name=A",
            "extraEnv[0].value=b",
        ],
    ];
    for values in values {
        let told = quiet(&["apply", "--dry-run=server", "-f", "-"], &rendered(values));
        assert!(told.contains("deployment.apps/"), "{told}");
    }
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"], None).unwrap();
}

#[test]
fn the_overlay_of_one_namespace_is_what_the_chart_renders_for_it() {
    let mut overlay = objects(&quiet(&["kustomize", "deploy/install/namespaced"], ""));
    assert!(overlay.remove(&format!("\"Namespace\"  {NAMESPACE}")).is_some());
    assert_eq!(overlay, objects(&rendered(&["watchNamespaces={default}"])));
    let mut overlay = objects(&quiet(&["kustomize", "deploy/install/cluster-wide"], ""));
    overlay.remove(&format!("\"Namespace\"  {NAMESPACE}"));
    assert_eq!(overlay, objects(&rendered(&[])));
}

/// Kubernetes lets nobody make a Role that grants more than they have: the operator must have all that the Job of an `EtcdRestore` gets.
#[test]
fn the_rights_of_etcd_are_enough_for_the_role_of_a_restore() {
    let space = Space::new("installrestore");
    let set = [
        &format!("watchNamespaces={{{}}}", space.name),
        &format!("fullnameOverride={}", space.name),
        "builtIn.php=false",
        "chartDefinitions=false",
        "chartRights=false",
        "crds.install=false",
    ];
    let roles: Vec<String> = rendered(&set)
        .split("---\n")
        .filter(|object| object.contains("kind: ") && is_of_roles(object))
        .map(str::to_owned)
        .collect();
    quiet(&["apply", "-n", &space.name, "-f", "-"], &roles.join("---\n").replace(NAMESPACE, &space.name));
    let args = [
        "template",
        "mine",
        "charts/etcd-restore",
        "-s",
        "templates/rights.yaml",
        "--set",
        "etcdCluster.name=mine,s3.path=a/b",
    ];
    let run = Command::new(program()).args(args).current_dir(repository("")).output().unwrap();
    let role = String::from_utf8(run.stdout).unwrap();
    assert!(role.contains("mine-initial-cluster"), "{role}");
    let account = format!("system:serviceaccount:{0}:{0}", space.name);
    eventually("the operator may make it", || {
        kubectl(&["apply", "-n", &space.name, "--as", &account, "-f", "-"], Some(&role))
    });
}

fn is_of_roles(object: &str) -> bool {
    ["ServiceAccount", "ClusterRole", "Role", "RoleBinding"]
        .iter()
        .any(|kind| object.contains(&format!("\nkind: {kind}\n")))
}
