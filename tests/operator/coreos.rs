//! What coreos' etcd-operator understood beside its kinds: whose a custom resource is, flags, and its status.

use crate::harness::{Space, established, eventually, kubectl, repository};
use serde_json::{Value, json};
use std::process::Command;

/// A namespace in a cluster that serves `EtcdCluster`, and the file of its operator.
fn space(test: &str) -> (Space, std::path::PathBuf) {
    let space = Space::new(test);
    for (chart, plural) in [("charts/etcd", "etcdclusters"), ("charts/etcd-restore", "etcdrestores")] {
        let crd = Command::new(env!("CARGO_BIN_EXE_tillerman"))
            .args(["crd", "--require", chart])
            .current_dir(repository(""))
            .output();
        let crd = String::from_utf8(crd.unwrap().stdout).unwrap();
        kubectl(&["apply", "--server-side", "-f", "-"], Some(&crd)).unwrap();
        let name = format!("crd/{plural}.etcd.database.coreos.com");
        established(&name);
        eventually("the kind is served", || space.kubectl(&["get", plural]));
    }
    let chart = repository("charts/etcd");
    let entry = "- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: EtcdCluster\n  chart:";
    let file = space.file("watches.yaml", &format!("{entry} {}\n", chart.display()));
    (space, file)
}

fn cluster(space: &Space, name: &str, annotations: &Value) {
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": space.name, "annotations": annotations}, "spec": {"size": 3}});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
}

const WIDE: &str = "etcd.database.coreos.com/scope";

#[test]
fn an_operator_of_a_namespace_leaves_clusterwide_clusters_to_one_with_the_flag() {
    let (space, watches) = space("scope");
    cluster(&space, "wide", &json!({WIDE: "clusterwide"}));
    cluster(&space, "narrow", &json!({}));
    let narrow = space.operator(&watches, &[]);
    space.wait("etcd/narrow", "Deployed", "True");
    narrow.settle();
    assert_eq!(space.get("etcd/wide").unwrap()["status"], json!({"observedGeneration": -1}), "nobody has looked at it");
    assert!(narrow.stop());

    // With coreos' flags as coreos' manifests write them: with one dash.
    let version = space.get("etcd/narrow").unwrap()["metadata"]["resourceVersion"].clone();
    let flags = ["-cluster-wide", "-create-crd=false", "-gc-interval=10m", "--chaos-level=-1"];
    let wide = space.operator(&watches, &flags);
    space.wait("etcd/wide", "Deployed", "True");
    wide.settle();
    assert_eq!(space.get("etcd/narrow").unwrap()["metadata"]["resourceVersion"], version, "it is nobody's now");
    // When it is asked to change over, it does.
    space.kubectl(&["annotate", "etcd", "narrow", &format!("{WIDE}=clusterwide")]).unwrap();
    space
        .kubectl(&["patch", "etcd", "narrow", "--type=merge", "-p", r#"{"spec":{"quotaBackendBytes":4294967296}}"#])
        .unwrap();
    space.wait_field("etcd/narrow", "/status/observedGeneration", &json!(2));
    let log = wide.log();
    assert!(!log.contains("--create-crd") && !log.contains("--chaos-level"), "{log}");
}

#[test]
fn conditions_are_those_of_coreos_beside_our_own() {
    let (space, watches) = space("conditions");
    cluster(&space, "my", &json!({}));
    let _operator = space.operator(&watches, &[]);
    let available = space.wait("etcd/my", "Available", "False");
    for field in ["lastUpdateTime", "lastTransitionTime", "reason", "message"] {
        assert!(available[field].is_string(), "{available}");
    }
    // No pod ever runs here.
    let status = &space.get("etcd/my").unwrap()["status"];
    assert_eq!(
        (&status["phase"], &status["serviceName"], &status["clientPort"]),
        (&json!("Creating"), &json!("my-client"), &json!(2379))
    );
    space.condition("etcd/my", "Scaling").unwrap_err();
    space.condition("etcd/my", "Ready").unwrap();
}

/// The fields of coreos' `RestoreSpec`, and ours. The API server accepts what the chart renders.
#[test]
fn every_field_of_an_etcd_restore_is_taken_and_what_is_rendered_too() {
    let (space, _) = space("restore-fields");
    let dry = |spec: &Value| {
        let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
            "metadata": {"name": "example-etcd-cluster", "namespace": space.name}, "spec": spec});
        kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], Some(&body.to_string()))
    };
    let s3 =
        json!({"path": "mybucket/etcd.backup", "awsSecret": "aws", "endpoint": "http://s3", "forcePathStyle": true});
    let of = |kind: &str, block: &str, source: &Value| json!({"etcdCluster": {"name": "example-etcd-cluster"}, "backupStorageType": kind, block: source});
    let specs = [
        of("S3", "s3", &s3),
        of("ABS", "abs", &json!({"path": "etcd-backups/etcd.backup", "absSecret": "abs-credentials"})),
        of("GCS", "gcs", &json!({"path": "mybucket/etcd.backup", "gcpSecret": "gcp"})),
        of("Volume", "volume", &json!({"path": "a/b", "claimName": "backups"})),
    ];
    for spec in &specs {
        dry(spec).unwrap();
        let file = space.file("spec.json", &spec.to_string()).display().to_string();
        let args = ["template", "a-restore", "charts/etcd-restore", "--namespace", &space.name, "--values", &file];
        let rendered =
            Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args).current_dir(repository("")).output().unwrap();
        assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
        let strict = ["-n", &space.name, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        let said = kubectl(&strict, Some(&String::from_utf8(rendered.stdout).unwrap())).unwrap();
        for what in ["serviceaccount/", "role.rbac", "rolebinding.rbac", "job.batch/"] {
            assert!(said.contains(what), "{said}");
        }
    }
    let path = repository("examples/etcd/restore.yaml").display().to_string();
    space.kubectl(&["apply", "--dry-run=server", "--validate=strict", "-f", &path]).unwrap();
    assert!(dry(&json!({"backupStorageType": "S3"})).unwrap_err().contains("etcdCluster"));
}

/// A restore has rights over objects with the name of its cluster, so that must be a cluster of etcd. The custom resource cannot choose
/// what runs with these rights.
#[test]
fn a_restore_gets_no_rights_over_what_is_no_etcd_cluster_and_runs_no_image_of_a_user() {
    let (space, _) = space("restore-rights");
    let entry = |kind: &str, chart: &str, more: &str| {
        let chart = repository(chart).display().to_string();
        format!("- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: {kind}\n  chart: {chart}\n{more}")
    };
    let more = "  releaseSuffix: -restore\n  overrideValues: {image: registry.example.com/tools:1}\n";
    let watches = entry("EtcdCluster", "charts/etcd", "") + &entry("EtcdRestore", "charts/etcd-restore", more);
    let _operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    let restore = |cluster: &str, path: &str, more: &Value| {
        let mut spec = json!({"etcdCluster": {"name": cluster}, "backupStorageType": "S3", "s3": {"path": path}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
            "metadata": {"name": "shop", "namespace": space.name}, "spec": spec});
        kubectl(&["apply", "--validate=strict", "-f", "-"], Some(&body.to_string()))
    };
    let refused = restore("shop", "b/c", &json!({"image": "evil"})).unwrap_err();
    assert!(refused.contains("unknown field \"spec.image\""), "{refused}");
    // A StatefulSet of somebody else.
    restore("shop", "b/c", &json!({})).unwrap();
    eventually("it is refused", || {
        let stalled = space.condition("etcdrestore/shop", "Stalled")?;
        let message = stalled["message"].as_str().unwrap_or_default();
        if message.contains("there is no EtcdCluster of that name") { Ok(()) } else { Err(stalled.to_string()) }
    });
    assert!(
        space
            .kubectl(&["get", "roles,serviceaccounts,jobs", "-o", "name"])
            .unwrap()
            .lines()
            .all(|name| name.ends_with("/default"))
    );
    cluster(&space, "shop", &json!({}));
    restore("shop", "b/--endpoint=evil", &json!({})).unwrap();
    eventually("its Job is there", || {
        let jobs = space.list("jobs")?;
        let container = jobs.first().ok_or("there is none")?["spec"]["template"]["spec"]["containers"][0].clone();
        let args = container["args"].as_array().ok_or("it has no arguments")?.clone();
        assert_eq!(container["image"], "registry.example.com/tools:1");
        // The Job of the path before may have come first.
        let is_new = args.ends_with(&[json!("--"), json!("--endpoint=evil")]);
        if is_new { Ok(()) } else { Err(format!("{args:?}")) }
    });
    // Only objects that have the names.
    let role = space.get("role/shop-restore").unwrap();
    for rule in role["rules"].as_array().unwrap() {
        assert!(rule["verbs"] == json!(["list"]) || rule["resourceNames"].is_array(), "{rule}");
    }
}
