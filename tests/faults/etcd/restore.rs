//! F2 of a restore: the real `tillerman snapshot replace`, which the Job of an `EtcdRestore` runs, puts a backup in the place of a
//! cluster's data, and the operator is killed around each write of its part: the pause, the new first member, which its init containers
//! restore, and those that join it.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::{Cluster, ask};
use crate::harness::{Space, cluster_dir, definition, established, eventually, kubectl, program};
use crate::killed::{Scene, Sweep};
use crate::node::{client_url, net};
use crate::proxy::ProxyFault;
use crate::release::Sight;

/// Kinds of custom resources that take part.
pub const KINDS: &[&str] = &["etcdclusters", "etcdrestores"];
const GROUP: &str = "etcd.database.coreos.com";
const NAME: &str = "my";
const CLUSTER: Cluster<'_> = Cluster { kind: "EtcdCluster", name: NAME, set: NAME };
const SIZE: u32 = 2;
/// A key that is written after the backup.
const LATER: &str = "later";

/// Defines the kinds; a `watches.yaml` by which an `EtcdCluster` is a release of the test's chart.
pub fn watches(space: &Space) -> PathBuf {
    for kind in ["EtcdCluster", "EtcdRestore"] {
        let text = definition(GROUP, kind).replace("- name: v1\n", "- name: v1beta2\n");
        kubectl(&["apply", "--server-side", "-f", "-"], Some(&text)).unwrap();
        let name = format!("crd/{}s.{GROUP}", kind.to_lowercase());
        established(&name);
    }
    let chart = crate::harness::repository("tests/charts/etcd");
    let text = format!("- group: {GROUP}\n  version: v1beta2\n  kind: EtcdCluster\n  chart: {}\n", chart.display());
    space.file("watches.yaml", &text)
}

fn apply(space: &Space, kind: &str, name: &str, spec: &Value) {
    let body = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": kind,
        "metadata": {"name": name, "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn tillerman(scene: &Scene) -> Command {
    let mut command = Command::new(program());
    command.arg("snapshot").env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"));
    command.env("POD_NAMESPACE", &scene.name).stdin(Stdio::null());
    command
}

/// One that is there stays, and one that is not yet is founded, backed up, and written to.
fn prepare(scene: &Scene) {
    let net = net(scene, NAME);
    if scene.get(&format!("etcdclusters.{GROUP}/{NAME}")).is_err() {
        let labels = json!({"app": "etcd", "etcd_cluster": NAME});
        apply(scene, "EtcdCluster", NAME, &json!({"size": SIZE, "net": net, "set": NAME, "labels": labels}));
        eventually("it is founded", || CLUSTER.is_at(&Sight::with(scene, KINDS)?, SIZE));
        let args = ["save", "--name=first", "--endpoints", &client_url(&net, 0), &store(scene)];
        let saved = tillerman(scene).args(args).output().unwrap();
        assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    }
    eventually("it is written to", || ask(&client_url(&net, 0), async |mut client| client.put(LATER, "x", None).await));
}

fn store(scene: &Scene) -> String {
    let folder = scene.dir().join("backups");
    std::fs::create_dir_all(&folder).unwrap();
    format!("--store=file://{}", folder.display())
}

/// Starts what the Job of an `EtcdRestore` runs.
fn restore(scene: &Scene, run: &str) -> Child {
    apply(scene, "EtcdRestore", run, &json!({}));
    let uid = scene.get(&format!("etcdrestores.{GROUP}/{run}")).unwrap()["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "EtcdRestore", "name": run, "uid": uid});
    let container = json!({"name": "replace", "image": "tillerman"});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": run, "namespace": scene.name, "ownerReferences": [owner]},
        // The test is its pod.
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
    kubectl(&["create", "-f", "-"], Some(&job.to_string())).unwrap();
    let path = scene.dir().join("backups/any");
    let told = json!({"storageType": "Volume", "volume": {"path": path}, "image": program()});
    let log = File::create(scene.dir().join(format!("{run}.log"))).unwrap();
    tillerman(scene)
        .args(["replace", "first", "--cluster", NAME, "--job", run, "--timeout=200s", "--restore", &told.to_string()])
        .args(["--endpoint", &client_url(&net(scene, NAME), 0), &store(scene), "--temporary"])
        .arg(scene.dir())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// It said that the cluster holds the backup; what was written later is gone, and nothing else.
fn is_restored(sight: &Sight, job: &mut Child) -> Result<(), String> {
    match job.try_wait().map_err(|e| e.to_string())? {
        Some(status) if status.success() => {}
        other => return Err(format!("the Job: {other:?}; {}", sight.field("EtcdCluster", NAME, "/status")?)),
    }
    CLUSTER.is_at(sight, SIZE)?;
    let later = ask(&CLUSTER.url(sight, 0)?, async |mut client| client.get(LATER, None).await)?;
    if later.count() == 0 { Ok(()) } else { Err("what came later is there".into()) }
}

fn sweep(fault: ProxyFault, test: &str) {
    let jobs: Mutex<BTreeMap<String, Child>> = Mutex::default();
    let sweep = Sweep {
        test,
        chart: "restored",
        lanes: 6,
        prepare: (&|scene, _| prepare(scene), &|sight, _| CLUSTER.is_at(sight, SIZE)),
        act: &|scene, run| {
            let job = restore(scene, run);
            jobs.lock().unwrap().insert(run.to_owned(), job);
        },
        end: &|sight, run| is_restored(sight, jobs.lock().unwrap().get_mut(run).expect("it was started")),
    };
    assert!(sweep.run_with(fault) > 15);
}

#[test]
fn after_each_write_while_a_cluster_is_restored() {
    sweep(ProxyFault::Freeze, "etcd-restore");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_a_cluster_is_restored() {
    sweep(ProxyFault::FreezeBefore, "etcd-unrestore");
}
