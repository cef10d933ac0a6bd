//! `deploy/`: Tillerman is installed by kustomize and by Helm, upgraded and removed, with releases that live through all of it.

use crate::harness::{cluster_dir, established, kubectl, repository};
use crate::support::olm;
use crate::{eventually, forbidden, forbidden_to, get_in, kubectl_in, metrics};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use tillerman::template::yaml;

/// Where `deploy/install` puts the operator.
const SYSTEM: &str = "tillerman-system";
/// Where the custom resources of the test are.
const APPS: &str = "installed";
const CLUSTER_WIDE: &str = "deploy/install/cluster-wide";

fn folder(path: &str) -> String {
    repository(path).display().to_string()
}

fn helm(args: &[&str]) -> String {
    let run = Command::new("helm")
        .args(args)
        .env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"))
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn tillerman(args: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args).current_dir(repository("")).output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

/// The two pods of the operator, with this image, when both are ready and no other is left.
fn operators(version: &str) -> Vec<Value> {
    let rollout = ["rollout", "status", "deployment/tillerman", "--timeout=120s"];
    kubectl_in(SYSTEM, &rollout).unwrap();
    eventually("there are two pods of the operator", || {
        let pods = items(&get_in(SYSTEM, &["pods"])?);
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"] == format!("tillerman:{version}");
        if pods.len() == 2 && pods.iter().all(image) { Ok(pods) } else { Err(json!(pods).to_string()) }
    })
}

/// The pod that holds the lease, of these.
fn leader(pods: &[Value]) -> String {
    eventually("one of them leads", || {
        let lease = get_in(SYSTEM, &["lease", "tillerman"])?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let names = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap());
        let held = names.into_iter().find(|name| holder.starts_with(&format!("{name}_")));
        held.map(str::to_owned).ok_or(holder)
    })
}

/// The pods of releases: who they are, and how often their containers were started again.
fn pods() -> BTreeMap<String, String> {
    let pods = items(&get_in(APPS, &["pods"]).unwrap());
    let said = |pod: &Value| {
        let restarts: i64 = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|c| c["restartCount"].as_i64())
            .sum();
        (pod["metadata"]["name"].as_str().unwrap().to_owned(), format!("{} {restarts}", pod["metadata"]["uid"]))
    };
    pods.iter().map(said).collect()
}

fn apply(object: &Value) {
    kubectl(&["apply", "-f", "-"], Some(&object.to_string())).unwrap();
}

fn ready(what: &str) {
    kubectl_in(APPS, &["wait", what, "--for=condition=Ready", "--timeout=120s"]).unwrap_or_else(|why| {
        panic!("{what}: {why}: {}", kubectl_in(APPS, &["get", what, "-o", "yaml"]).unwrap_or_default())
    });
}

/// A chart that becomes an API, with the rights that it needs.
fn define() {
    let archive: PathBuf = std::env::temp_dir().join(format!("page-{}.tgz", std::process::id()));
    let charts = folder("tests/node/project/helm-charts");
    assert!(Command::new("tar").args(["-C", &charts, "-czf"]).arg(&archive).arg("page").status().unwrap().success());
    let file = format!("--from-file=page.tgz={}", archive.display());
    kubectl_in(APPS, &["create", "configmap", "charts", &file]).unwrap();
    std::fs::remove_file(archive).unwrap();
    let names = ["--group", "installed.example.com", "--kind", "Leaf"];
    let role = tillerman(
        &[&["rbac", "--all-namespaces", "--aggregate", "tests/node/project/helm-charts/page"], &names[..]].concat(),
    );
    kubectl(&["apply", "-f", "-"], Some(&role)).unwrap();
    apply(
        &json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition", "metadata": {"name": "leaf"}, "spec": {
        "chart": {"configMap": {"namespace": APPS, "name": "charts", "key": "page.tgz"}},
        "names": {"group": "installed.example.com", "version": "v1", "kind": "Leaf"}}}),
    );
    kubectl(&["wait", "chartdefinition/leaf", "--for=condition=Ready", "--timeout=60s"], None).unwrap();
}

fn php(replicas: u32) {
    apply(
        &json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp", "metadata": {"name": "hello", "namespace": APPS},
        "spec": {"replicas": replicas, "image": "localhost/php:8.2", "source": {"index.php": "<?php echo 'hello';"}}}),
    );
}

/// The guest book of `examples/stack` and its database come, serve a page, and go. The notice is left out.
fn guest_book(step: &dyn Fn(&str)) {
    // Without the program of the agent, its images are not on the node.
    if std::env::var_os("TILLERMAN_TEST_STACK").is_none() {
        return;
    }
    let text = std::fs::read_to_string(repository("examples/stack/guestbook.yaml")).unwrap();
    let page = std::fs::read_to_string(repository("examples/stack/guestbook.php")).unwrap();
    for document in text.split("\n---\n").filter(|document| !document.contains("kind: Notice")) {
        let mut object = yaml::parse(document.as_bytes()).unwrap();
        object["metadata"]["namespace"] = json!(APPS);
        if object["kind"] == "PhpApp" {
            object["spec"]["source"]["index.php"] = json!(page);
        } else {
            object["spec"]["replicas"] = json!(1);
            object["spec"].as_object_mut().unwrap().remove("agentImage");
        }
        apply(&object);
    }
    ready("mysqlcluster/db");
    ready("phpapp/guestbook");
    let ask = "echo (int) str_contains(file_get_contents('http://guestbook/'), '<form');";
    eventually("the guest book answers", || {
        match kubectl_in(APPS, &["exec", "deployment/guestbook", "-c", "php", "--", "php", "-r", ask])?.trim() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        }
    });
    kubectl_in(APPS, &["delete", "phpapp/guestbook", "mysqlcluster/db", "--timeout=90s"]).unwrap();
    eventually("the pods of the guest book are gone", || {
        let is_of_it = |name: &String| name.starts_with("guestbook-") || name.starts_with("db-");
        let left: Vec<String> = pods().into_keys().filter(is_of_it).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    });
    step("the guest book and its database came and went");
}

fn etcd() {
    apply(
        &json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "metadata": {"name": "kv", "namespace": APPS},
        "spec": {"size": 1, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi"}}}),
    );
}

/// Nobody reads the metrics who may not.
fn metrics_are_protected(pod: &Value) {
    let fetch = |token: &str| metrics(pod, token).0;
    assert_eq!(fetch(""), "401");
    kubectl_in(APPS, &["create", "serviceaccount", "prometheus"]).unwrap();
    let token = kubectl_in(APPS, &["create", "token", "prometheus"]).unwrap();
    assert_eq!(fetch(token.trim()), "403");
    let account = format!("--serviceaccount={APPS}:prometheus");
    kubectl(&["create", "clusterrolebinding", APPS, "--clusterrole=tillerman-metrics-reader", &account], None).unwrap();
    eventually("the metrics are shown", || match fetch(token.trim()) {
        code if code == "200" => Ok(()),
        code => Err(code),
    });
    kubectl(&["delete", "clusterrolebinding", APPS], None).unwrap();
}

/// Removes what the test made, when the operators are gone.
fn clean() {
    let kinds = [
        "phpapps.apps.tillerman.dev",
        "etcdclusters.etcd.database.coreos.com",
        "mysqlclusters.databases.tillerman.dev",
        "leafs.installed.example.com",
    ];
    for kind in kinds {
        for object in kubectl_in(APPS, &["get", kind, "-o", "name"]).unwrap_or_default().lines() {
            let _ = kubectl_in(APPS, &["patch", object, "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
        }
    }
    let _ = kubectl(
        &["patch", "chartdefinition", "leaf", "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#],
        None,
    );
    let _ = kubectl(&["delete", "-k", &folder("deploy/install/crds"), "--ignore-not-found", "--timeout=60s"], None);
    let _ = kubectl(&["delete", "crd", "leafs.installed.example.com", "--ignore-not-found"], None);
    let _ = kubectl(&["delete", "clusterrole", "page-operator", "--ignore-not-found"], None);
    let _ = kubectl(&["delete", "namespace", APPS, SYSTEM, "--ignore-not-found", "--wait=false"], None);
}

/// Installs the manifests of the bundle as the Operator Lifecycle Manager does, and removes the operator again.
fn from_the_bundle(step: &dyn Fn(&str)) {
    let bundle: Vec<String> = olm::objects(SYSTEM).iter().map(Value::to_string).collect();
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], Some(&bundle.join("\n---\n"))).unwrap();
    operators("0.1.0");
    step("installed from the bundle");
    guest_book(step);
    for object in olm::objects(SYSTEM).iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        kubectl(&["delete", "-f", "-", "--ignore-not-found"], Some(&object.to_string())).unwrap();
    }
}

#[test]
fn releases_live_through_the_installation_the_upgrade_and_the_removal_of_tillerman() {
    let began = std::time::Instant::now();
    let step = |what: &str| println!("{:6.1} s {what}", began.elapsed().as_secs_f64());
    let audit = || std::fs::metadata(cluster_dir().join("log/audit.log")).unwrap().len().try_into().unwrap();
    let audited = audit();

    // The version before, by kustomize.
    let install = kubectl(&["kustomize", &folder(CLUSTER_WIDE)], None).unwrap();
    kubectl(&["apply", "-f", "-"], Some(&install.replace("tillerman:0.1.0", "tillerman:0.0.9"))).unwrap();
    for crd in ["chartdefinitions.tillerman.dev", "etcdclusters.etcd.database.coreos.com", "phpapps.apps.tillerman.dev"]
    {
        established(&format!("crd/{crd}"));
    }
    let before = operators("0.0.9");
    let first = leader(&before);
    step("installed by kubectl apply -k");
    kubectl(&["create", "namespace", APPS], None).unwrap();
    php(1);
    etcd();
    define();
    apply(
        &json!({"apiVersion": "installed.example.com/v1", "kind": "Leaf", "metadata": {"name": "leaf", "namespace": APPS},
        "spec": {"greeting": "one"}}),
    );
    for what in ["phpapp/hello", "etcdcluster/kv", "leaf.installed.example.com/leaf"] {
        ready(what);
    }
    let there = pods();
    assert_eq!(there.len(), 3, "{there:?}");
    guest_book(&step);
    metrics_are_protected(before.iter().find(|pod| pod["metadata"]["name"] == first.as_str()).unwrap());
    step("releases are ready, and the metrics are protected");

    // The next version.
    kubectl(&["apply", "-k", &folder(CLUSTER_WIDE)], None).unwrap();
    let after = operators("0.1.0");
    assert_ne!(leader(&after), first);
    php(2);
    kubectl_in(APPS, &["rollout", "status", "deployment/hello", "--timeout=60s"]).unwrap();
    ready("phpapp/hello");
    let mut now = pods();
    assert_eq!(now.len(), 4, "{now:?}");
    now.retain(|name, _| there.contains_key(name));
    assert_eq!(now, there);
    assert_eq!(forbidden(SYSTEM, "tillerman", audited), BTreeSet::new());
    step("upgraded: another pod leads, and no pod of a release was started again");

    // It goes, and comes back by Helm.
    let there = pods();
    kubectl(&["delete", "-k", &folder("deploy/install/base"), "--timeout=90s"], None).unwrap();
    step("removed by kubectl delete -k");
    assert_eq!(pods(), there);
    kubectl_in(APPS, &["delete", "phpapp", "hello", "--wait=false"]).unwrap();
    kubectl(&["create", "namespace", SYSTEM], None).unwrap();
    kubectl(&["label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted"], None).unwrap();
    let audited = audit();
    helm(&[
        "install",
        "tillerman",
        "deploy/chart",
        "-n",
        SYSTEM,
        "--take-ownership",
        "--wait",
        "--timeout=2m",
        "--set",
        "metrics.serviceMonitor.enabled=true",
    ]);
    operators("0.1.0");
    step("installed by helm install");
    kubectl_in(APPS, &["wait", "phpapp/hello", "--for=delete", "--timeout=60s"]).unwrap();
    guest_book(&step);
    // A pod of PHP takes its time to end.
    let others =
        || -> BTreeMap<String, String> { pods().into_iter().filter(|(name, _)| !name.starts_with("hello")).collect() };
    let there = others();
    assert_eq!(there.len(), 2, "{there:?}");

    helm(&[
        "upgrade",
        "tillerman",
        "deploy/chart",
        "-n",
        SYSTEM,
        "--wait",
        "--timeout=2m",
        "--reuse-values",
        "--set",
        "builtIn.php=false",
    ]);
    let now = operators("0.1.0");
    leader(&now);
    // Those before lose the right to PhpApps while they still watch them.
    let is_of_now = |pod: &str| now.iter().any(|other| other["metadata"]["name"] == pod);
    assert_eq!(forbidden_to(SYSTEM, "tillerman", audited, is_of_now), BTreeSet::new());
    step("upgraded by helm upgrade");
    helm(&["uninstall", "tillerman", "-n", SYSTEM, "--wait"]);
    step("removed by helm uninstall");
    let kept = kubectl(
        &["get", "crd", "etcdclusters.etcd.database.coreos.com", "chartdefinitions.tillerman.dev", "-o", "name"],
        None,
    );
    assert_eq!(kept.unwrap().lines().count(), 2);
    kubectl_in(APPS, &["get", "etcdcluster/kv", "leaf.installed.example.com/leaf"]).unwrap();
    assert_eq!(others(), there);

    from_the_bundle(&step);
    clean();
    step("cleaned");
}
