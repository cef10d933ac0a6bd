//! The chart of etcd on a real API server: what coreos' operator took is taken, and so is what the chart renders.

use crate::harness::{Space, established, eventually, eventually_within, kubectl, repository};
use crate::kubelet::Kubelet;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::process::Command;

fn tillerman(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args).current_dir(repository("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace in a cluster that serves `EtcdCluster`.
pub fn space(test: &str) -> Space {
    let space = Space::new(test);
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&tillerman(&["crd", "charts/etcd"]))).unwrap();
    established("crd/etcdclusters.etcd.database.coreos.com");
    eventually("the kind is served", || space.kubectl(&["get", "etcdclusters"]));
    space
}

#[test]
fn the_examples_of_coreos_and_ours_apply_unchanged() {
    let space = space("etcd-examples");
    let folder = repository("examples/etcd");
    for file in [
        "coreos/example-etcd-cluster.yaml",
        "coreos/example-tls-cluster.yaml",
        "coreos/example-etcd-cluster-nodeport-service.json",
        "cluster.yaml",
        "tls.yaml",
        "large.yaml",
    ] {
        let path = folder.join(file).display().to_string();
        let strict = ["apply", "--dry-run=server", "--validate=strict", "-f", &path];
        let said = space.kubectl(&strict).unwrap_or_else(|why| panic!("{file}: {why}"));
        assert!(said.contains("created (server dry run)"), "{file}: {said}");
    }
    // The short name that coreos' had.
    assert!(space.kubectl(&["get", "etcd"]).is_ok());
}

/// Those of their types, and of the examples in their documentation.
#[test]
fn every_field_of_coreos_is_taken() {
    let space = space("etcd-fields");
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchExpressions": [{"key": "etcd_cluster", "operator": "In", "values": ["a"]}]},
        "topologyKey": "kubernetes.io/hostname"}]}});
    let spec = json!({
        "size": 3, "repository": "quay.io/coreos/etcd", "version": "3.2.13", "paused": false,
        "pod": {
            "labels": {"a": "b"}, "annotations": {"prometheus.io/scrape": "true"}, "nodeSelector": {"diskType": "ssd"},
            "affinity": affinity, "antiAffinity": true,
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
            "resources": {"limits": {"cpu": "1500m", "memory": "200Mi"}, "requests": {"cpu": 1, "memory": "100Mi"}},
            "etcdEnv": [{"name": "ETCD_AUTO_COMPACTION_RETENTION", "value": "1"}],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 9000, "fsGroup": 9000},
            "persistentVolumeClaimSpec": {"storageClassName": "standard", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
            "busyboxImage": "busybox:1.28.0-glibc", "DNSTimeoutInSecond": 10,
        },
        "TLS": {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}},
    });
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "a", "namespace": space.name}, "spec": spec});
    kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], Some(&body.to_string())).unwrap();
    let file = space.file("spec.json", &spec.to_string()).display().to_string();
    let rendered = tillerman(&["template", "a", "charts/etcd", "--namespace", &space.name, "--values", &file]);
    space_apply(&space, &rendered);
}

/// A dry run on the server, where an unknown field is an error.
fn space_apply(space: &Space, rendered: &str) {
    let args = ["-n", &space.name, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    let said = kubectl(&args, Some(rendered)).unwrap_or_else(|why| panic!("{why}\n{rendered}"));
    assert!(said.contains("statefulset.apps/"), "{said}");
}

#[test]
fn what_the_chart_renders_is_taken() {
    let space = space("etcd-rendered");
    let everything = "tests/cases/etcd-template-with-everything/values.yaml";
    for args in [
        &[][..],
        &["--set", "size=1"],
        &["--set", "version=3.5.35", "--set", "TLS.generated.enabled=true"],
        &["--set", "version=3.4.38,spread.hosts=Ignore,spread.zones=Ignore"],
        // Its kind is not served here.
        &["--values", everything, "--set", "serviceMonitor.enabled=false"],
    ] {
        let mut all = vec!["template", "a", "charts/etcd", "--namespace", &space.name];
        all.extend(args);
        space_apply(&space, &tillerman(&all));
    }
}

#[test]
fn a_wrong_value_is_refused_by_the_api_server_with_its_path() {
    let space = space("etcd-wrong");
    for (spec, words) in [
        (json!({"size": 0}), "spec.size in body should be greater than or equal to 1"),
        (json!({"size": 8}), "spec.size in body should be less than or equal to 7"),
        (json!({"version": "latest"}), "spec.version in body should match"),
        (json!({"pod": {"label": {}}}), "unknown field \"spec.pod.label\""),
        (json!({"spread": {"hosts": "Maybe"}}), "spec.spread.hosts in body should match '^(Prefer|Require|Ignore)$'"),
        (json!({"members": {"deadAfter": "soon"}}), "spec.members.deadAfter in body should match"),
    ] {
        let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": "a", "namespace": space.name}, "spec": spec});
        let refused = kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], Some(&body.to_string()));
        let refused = refused.unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

/// The certificates of the release `my`, and of its authority.
fn certificates(space: &Space) -> Vec<String> {
    let of = |kind: &&str| {
        space.get(&format!("secret/my-{kind}-tls")).unwrap()["data"]["tls.crt"].as_str().unwrap().to_owned()
    };
    ["ca", "peer", "server", "client"].iter().map(of).collect()
}

#[test]
fn the_operator_starts_the_first_member_and_keeps_the_certificates_it_made() {
    let space = space("etcd-first");
    let entry = "- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: EtcdCluster\n  chart:";
    let chart = repository("charts/etcd");
    let _operator = space.operator(&space.file("watches.yaml", &format!("{entry} {}\n", chart.display())), &[]);
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "my", "namespace": space.name}, "spec": {"TLS": {"generated": {"enabled": true}}}});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    space.wait("etcd/my", "Deployed", "True");
    space.wait_field("statefulset/my", "/spec/replicas", &json!(1));
    let data = json!({"ETCD_INITIAL_CLUSTER": format!("my-0=https://my-0.my.{}.svc:2380", space.name),
        "ETCD_INITIAL_CLUSTER_STATE": "new"});
    space.wait_field("configmap/my-initial-cluster", "/data", &data);

    let first = certificates(&space);
    let patch = |spec: &str| space.kubectl(&["patch", "etcd", "my", "--type=merge", "-p", spec]).unwrap();
    // Rendered again, they are what they were.
    patch(r#"{"spec":{"quotaBackendBytes":4294967296}}"#);
    space.wait_field("etcd/my", "/status/release/revision", &json!(2));
    space.wait("etcd/my", "Deployed", "True");
    assert_eq!(certificates(&space), first);
    patch(r#"{"spec":{"TLS":{"generated":{"rotation":"2"}}}}"#);
    space.wait_field("etcd/my", "/status/release/revision", &json!(3));
    eventually("they are made anew", || {
        let made = certificates(&space);
        let changed: Vec<bool> = made.iter().zip(&first).map(|(a, b)| a != b).collect();
        if changed == [false, true, true, true] { Ok(()) } else { Err(format!("{changed:?}")) }
    });
}

/// Whether a certificate is signed by one of a bundle; both as in Secrets.
fn trusts(space: &Space, bundle: &Value, certificate: &Value) -> bool {
    let file = |name: &str, text: &Value| {
        let text = BASE64.decode(text.as_str().unwrap()).unwrap();
        space.file(name, &String::from_utf8(text).unwrap()).display().to_string()
    };
    let (bundle, certificate) = (file("bundle.crt", bundle), file("certificate.crt", certificate));
    let said = Command::new("openssl").args(["verify", "-CAfile", &bundle, &certificate]).output().unwrap();
    said.status.success()
}

/// Nobody touches the custom resource: certificates are renewed in time and without a new pod, and authorities take turns, each only
/// after all pods have been started with it. Whatever is in use at one time is trusted by everything that runs.
#[test]
fn certificates_are_renewed_in_time_and_authorities_take_turns() {
    let space = space("etcd-renewed");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let entry = "- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: EtcdCluster\n  chart:";
    let chart = repository("charts/etcd");
    let watches = space.file("watches.yaml", &format!("{entry} {}\n", chart.display()));
    // No period helps.
    let _operator = space.operator(&watches, &["--reconcile-period=1h"]);
    // A certificate is valid for a day and renewed after 17 seconds; an authority signs for 52.
    let generated =
        json!({"enabled": true, "days": 1, "renewBeforeDays": 0.9998, "authorityDays": 3, "authorityTurnDays": 0.0006});
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "my", "namespace": space.name}, "spec": {"size": 1, "TLS": {"generated": generated}}});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    space.wait("etcd/my", "Deployed", "True");
    let secret = |kind: &str| space.get(&format!("secret/my-{kind}-tls"));
    let authority = || secret("ca").map(|secret| secret["metadata"]["annotations"]["tillerman.dev/authority"].clone());
    let revision = || {
        let told = space.get("statefulset/my")?["status"]["updateRevision"].as_str().map(str::to_owned);
        told.ok_or_else(|| "its controller has not seen it yet".to_owned())
    };
    let (first, before) = (secret("peer").unwrap()["data"].clone(), eventually("a revision", revision));
    assert!(trusts(&space, &first["ca.crt"], &first["tls.crt"]));

    let renewed = eventually_within(60, "the certificate is made anew", || {
        let now = secret("peer")?["data"].clone();
        if now["tls.crt"] == first["tls.crt"] { Err("it is the first".to_owned()) } else { Ok(now) }
    });
    assert_eq!((renewed["ca.crt"].clone(), authority().unwrap()), (first["ca.crt"].clone(), json!("1")));
    assert_ne!(renewed["tls.key"], first["tls.key"]);
    assert_eq!(revision().unwrap(), before, "no pod is replaced for it");

    // What an authority signs is written after the authority itself, with the same bundle.
    let signed_by = |number: &str| {
        let (authority, signed) = (secret("ca")?, secret("peer")?["data"].clone());
        let signs = &authority["metadata"]["annotations"]["tillerman.dev/authority"];
        if signs == number && signed["ca.crt"] == authority["data"]["ca.crt"] {
            Ok(signed)
        } else {
            Err(signs.to_string())
        }
    };
    let signer = secret("ca").unwrap()["data"]["tls.crt"].clone();
    let now = eventually_within(120, "the next authority signs", || signed_by("2"));
    assert!(!trusts(&space, &signer, &now["tls.crt"]), "the first did not sign it");
    assert!(trusts(&space, &first["ca.crt"], &now["tls.crt"]), "members that run know who signed it");
    assert!(trusts(&space, &now["ca.crt"], &renewed["tls.crt"]), "members that start know who signed what is in use");
    let replaced = eventually("pods are to be started with the third", || {
        let now = revision()?;
        if now == before { Err(now) } else { Ok(now) }
    });

    // Until they have been, the third does not sign.
    let time = || secret("ca").map(|secret| secret["metadata"]["annotations"]["tillerman.dev/renew-after"].clone());
    let turn = time().unwrap();
    eventually_within(120, "its time comes, and is put off", || match time()? {
        now if now == turn => Err(now.to_string()),
        _ => Ok(()),
    });
    assert_eq!((authority().unwrap(), revision().unwrap()), (json!("2"), replaced));
    space.kubectl(&["delete", "pod", "my-0", "--wait=false"]).unwrap();
    let last = eventually_within(150, "the third signs", || signed_by("3"));
    assert!(trusts(&space, &now["ca.crt"], &last["tls.crt"]) && !trusts(&space, &first["ca.crt"], &last["tls.crt"]));
}
