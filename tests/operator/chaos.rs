//! `tillerman chaos`: when it refuses, and its faults by the API server alone. Its faults on pods are in tests/node.

use crate::harness::{Space, eventually, kubectl};
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::time::Duration;
use tillerman::chaos::hand::Hand;
use tillerman::chaos::plan::{Fault, FaultKind};

fn chaos(space: &Space, args: &[&str]) -> Output {
    let admin = crate::harness::cluster_dir().join("admin.kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tillerman"));
    command.args(["chaos", "EtcdCluster/my", "-n", &space.name, "--kubeconfig"]).arg(admin).args(args);
    command.output().expect("it starts")
}

fn refusal(space: &Space, args: &[&str]) -> String {
    let output = chaos(space, args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "nothing was begun");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A StatefulSet whose pods are made by its controller and never run: there is no kubelet here.
fn members(space: &Space) {
    let labels = json!({"etcd_cluster": "my"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "my"},
        "spec": {"replicas": 3, "podManagementPolicy": "Parallel", "serviceName": "my", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "etcd", "image": "none"}]}}},
    });
    kubectl(&["-n", &space.name, "create", "-f", "-"], Some(&set.to_string())).unwrap();
    eventually("its pods are there", || match uids(space).len() {
        3 => Ok(()),
        n => Err(format!("there are {n}")),
    });
}

fn uids(space: &Space) -> Vec<String> {
    let path = "jsonpath={range .items[*]}{.metadata.uid}{\"\\n\"}{end}";
    let text = space.kubectl(&["get", "pods", "-l", "etcd_cluster=my", "-o", path]).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn mark(space: &Space) {
    kubectl(&["label", "namespace", &space.name, "tillerman.dev/chaos=allowed"], None).unwrap();
}

#[test]
fn a_namespace_that_is_not_marked_is_left_alone() {
    let space = Space::new("chaos-mark");
    members(&space);
    let before = uids(&space);
    let why = refusal(&space, &["--duration=1s"]);
    let advice = format!("kubectl label namespace {} tillerman.dev/chaos=allowed", space.name);
    assert!(why.contains("is not marked for it") && why.contains(&advice), "{why}");
    mark(&space);
    let why = refusal(&space, &["--duration=1s", "--operator=default/app=operator"]);
    assert!(why.contains("namespace default is not marked for it"), "the operator's is asked, too: {why}");
    let why = refusal(&space, &["--duration=1s", "--faults=destroy"]);
    assert!(why.contains("--level 2"), "{why}");
    let why = refusal(&space, &["--duration=1s", "--faults=kill,pause"]);
    assert!(why.contains("on the node of all members"), "{why}");
    assert_eq!(uids(&space), before);
}

/// Members that never answer are not a cluster for faults.
#[test]
fn a_cluster_that_is_not_well_is_left_alone() {
    let space = Space::new("chaos-ill");
    members(&space);
    mark(&space);
    let before = uids(&space);
    let output = chaos(&space, &["--duration=1s", "--patience=1s", "--seed=5", "--history=/dev/null"]);
    let (told, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}{why}");
    assert!(told.starts_with("seed 5\n"), "{told}");
    assert!(why.contains("no fault is injected into a cluster that is not well"), "{why}");
    assert_eq!(uids(&space), before);
}

/// By the API server alone: pods are killed at once, and parted by policies that are gone when it is healed.
#[tokio::test(flavor = "multi_thread")]
async fn pods_are_killed_and_parted_and_nothing_is_left() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let space = Space::new("chaos-hand");
    members(&space);
    mark(&space);
    let admin = kube::config::Kubeconfig::read_from(crate::harness::cluster_dir().join("admin.kubeconfig")).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(admin, &kube::config::KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let hand = Hand::new(client, &space.name, "my", None).await.unwrap();
    assert_eq!(hand.size().await, Ok(3));
    let fault = |kind, members| Fault { kind, members, operator: false, lasts: Duration::ZERO };

    hand.begin(&fault(FaultKind::Partition, vec![0, 2])).await.unwrap();
    hand.begin(&fault(FaultKind::Partition, vec![2])).await.expect("it is parted already");
    let policies = || -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&space.kubectl(&["get", "networkpolicies", "-o", "json"]).unwrap()).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let selected: Vec<_> =
        policies().iter().map(|policy| policy["spec"]["podSelector"]["matchLabels"].clone()).collect();
    let pod = |name: &str| json!({"statefulset.kubernetes.io/pod-name": name});
    assert_eq!(selected, [pod("my-0"), pod("my-2")]);
    for policy in policies() {
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]), "nothing is allowed: {policy}");
        assert!(policy["spec"]["ingress"].is_null() && policy["spec"]["egress"].is_null(), "{policy}");
    }
    hand.heal().await.unwrap();
    assert_eq!(policies(), Vec::<Value>::new());

    let before = hand.members().await.unwrap();
    hand.begin(&fault(FaultKind::Kill, vec![1])).await.unwrap();
    eventually("another pod is in its place", || {
        let path = "jsonpath={.metadata.uid}";
        match space.kubectl(&["get", "pod", "my-1", "-o", path]) {
            Ok(uid) if uid != before[&1].uid => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let after = hand.members().await.unwrap();
    assert_eq!((&after[&0].uid, &after[&2].uid), (&before[&0].uid, &before[&2].uid), "nobody else was killed");
}
