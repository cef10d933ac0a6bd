//! The events of notices, each brought about on the API server and read as mail. docs/design/notices.md has the table.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tillerman::agent::contract::VolumeSpace;

use crate::harness::{Space, definition, established, eventually, kubectl, program, repository};
use crate::kubelet::Kubelet;
use crate::mail::Mail;
use crate::notices::{notice, read, space};
use crate::primary::PrimaryCluster;
use crate::volumes::ExpandableVolumes;

/// Waits for a line of a message that begins so, behind the time.
fn said(mail: &Mail, beginning: &str) -> String {
    mail.wait_line(|line| line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(beginning)), beginning)
}

/// Whether a line of a message begins so.
fn says(mail: &Mail, beginning: &str) -> bool {
    let all = mail.arrived();
    let mut lines = all.iter().flat_map(|one| one.text.lines());
    lines.any(|line| line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(beginning)))
}

fn annotate(space: &Space, name: &str, annotation: &str) {
    space.kubectl(&["annotate", "--overwrite", "webs.test.tillerman.dev", name, annotation]).unwrap();
}

/// A chart with an object of kind `Certificate`, and its definition: a controller of certificates is played by the test.
fn with_certificate(space: &Space) -> String {
    let group = "notices.test.tillerman.dev";
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&definition(group, "Certificate"))).unwrap();
    established(&format!("crd/certificates.{group}"));
    let chart = space.dir().join("certified");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: certified\nversion: 0.1.0\n").unwrap();
    let object =
        format!("apiVersion: {group}/v1\nkind: Certificate\nmetadata: {{name: '{{{{ .Release.Name }}}}-tls'}}\n");
    std::fs::write(chart.join("templates/all.yaml"), object).unwrap();
    chart.display().to_string()
}

/// Says of a certificate what its controller would.
fn certify(space: &Space, name: &str, kind: &str, status: &str) {
    let conditions =
        json!({"status": {"conditions": [{"type": kind, "status": status, "reason": "Issuing", "message": "x"}]}});
    let object = format!("certificates.notices.test.tillerman.dev/{name}");
    space.kubectl(&["patch", &object, "--subresource=status", "--type=merge", "-p", &conditions.to_string()]).unwrap();
}

const OF_RELEASES: [&str; 14] = [
    "Installed",
    "Upgraded",
    "RolledBack",
    "Uninstalled",
    "Failed",
    "RightMissing",
    "CertificateMissing",
    "Stalled",
    "NotReady",
    "Ready",
    "DriftRepaired",
    "Contested",
    "OperationSucceeded",
    "OperationFailed",
];

#[test]
fn what_happens_to_a_release_reaches_a_person() {
    let mut space = space("eventmail");
    space.env.push(("TILLERMAN_NOTICE_LINGER", "2000".into()));
    let mail = Mail::start(&space);
    let _kubelet = Kubelet::new(&space);
    let certified = with_certificate(&space);
    let watches = space.watches(&[("Web", "hooks"), ("Failing", "web"), ("Other", &certified)]);
    let operator = space.operator(&watches, &["--notices", "--notice-hosts=127.0.0.1"]);
    notice(&space, "ops", &mail.target(), &json!({"events": OF_RELEASES, "maxPerHour": 100}));

    // Operations: one goes well, the next does not, and then one does again.
    let operations = |job: &str, greeting: &str| json!({"greeting": greeting, "hooks": [{"name": job, "kind": "Job", "events": "operation/backup"}]});
    space.apply("Web", "a", &operations("backup", "one"));
    said(&mail, "Web a: Installed");
    said(&mail, "Web a: Ready");
    annotate(&space, "a", "tillerman.dev/operation=backup@1");
    said(&mail, "Web a: OperationSucceeded, operation backup");
    space.apply("Web", "a", &operations("bad-backup", "two"));
    said(&mail, "Web a: Upgraded");
    annotate(&space, "a", "tillerman.dev/operation=backup@2");
    said(&mail, "Web a: OperationFailed, operation backup (HookFailed)");
    // The hooks alone make no revision.
    space.apply("Web", "a", &operations("backup", "two"));
    space.wait_field("web/a", "/status/observedGeneration", &space.get("web/a").unwrap()["metadata"]["generation"]);
    annotate(&space, "a", "tillerman.dev/operation=backup@3");
    said(&mail, "Web a: Recovered, operation backup (HookFailed)");

    // Drift is repaired, until somebody else changes the same field again and again.
    space.kubectl(&["delete", "configmap/a"]).unwrap();
    said(&mail, "Web a: DriftRepaired, drift");
    let theirs =
        ["patch", "configmap/a", "--type=merge", "--field-manager=rival", "-p", r#"{"data":{"greeting":"theirs"}}"#];
    eventually("the contest is reported", || {
        if space.get("configmap/a")?["data"]["greeting"] == "two" {
            space.kubectl(&theirs)?;
        }
        if says(&mail, "Web a: Contested, drift (Contested)") { Ok(()) } else { Err("it is not".to_owned()) }
    });

    // A certificate that is not issued is news after a while; one that failed for good makes the release unready.
    space.apply("Other", "b", &json!({}));
    said(&mail, "Other b: Installed");
    certify(&space, "b-tls", "Ready", "False");
    said(&mail, "Other b: CertificateMissing, Certificate/b-tls");
    certify(&space, "b-tls", "Ready", "True");
    said(&mail, "Other b: Recovered, Certificate/b-tls");
    certify(&space, "b-tls", "Stalled", "True");
    let line = said(&mail, "Other b: NotReady (Failed)");
    assert!(mail.arrived().iter().any(|one| one.text.contains(&format!("{line}\n  Certificate b-tls\n"))), "{line}");

    // An upgrade that no attempt can apply.
    space.apply("Failing", "c", &json!({"greeting": "good"}));
    said(&mail, "Failing c: Installed");
    space.apply("Failing", "c", &json!({"greeting": "bad", "replicas": -1}));
    said(&mail, "Failing c: Failed (Invalid)");
    said(&mail, "Failing c: Stalled (Invalid)");
    said(&mail, "Failing c: RolledBack");
    space.apply("Failing", "c", &json!({"greeting": "good"}));
    said(&mail, "Failing c: Recovered");

    // The operator may not create what it needs to, and then it may.
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {0}}}\n\
         rules: [{{apiGroups: ['*'], resources: ['*'], verbs: [get, list, watch, patch, update, delete]}},\
         {{apiGroups: [''], resources: [secrets, events], verbs: ['*']}}]\n",
        space.name
    );
    kubectl(&["apply", "-f", "-"], Some(&role)).unwrap();
    let user = format!("--user={}", space.name);
    let bind = |role: &str| {
        kubectl(&["delete", "clusterrolebinding", &space.name], None).unwrap();
        kubectl(&["create", "clusterrolebinding", &space.name, &format!("--clusterrole={role}"), &user], None).unwrap();
    };
    bind(&space.name);
    space.apply("Failing", "d", &json!({}));
    said(&mail, "Failing d: RightMissing (Forbidden)");
    bind("cluster-admin");
    said(&mail, "Failing d: Recovered (Forbidden)");
    space.delete("web/a");
    said(&mail, "Web a: Uninstalled");

    let state = read(&space, "ops").unwrap();
    let all = mail.arrived();
    assert!(all.iter().all(|one| !one.text.contains("theirs") && !one.text.contains("replicas")), "no values: {all:?}");
    assert_eq!(state["status"]["conditions"][0]["status"], "True", "{state}");
    assert!(operator.stop());
}

/// Waits for a message about the members of `a` with these words.
fn says_of_members(mail: &Mail, event: &str, words: &str) {
    eventually(&format!("{event} {words}"), || {
        let all = mail.arrived();
        let is_it = |text: &str| text.contains(&format!("Web a: {event}, StatefulSet/db")) && text.contains(words);
        if all.iter().any(|one| is_it(&one.text)) { Ok(()) } else { Err(format!("{all:?}")) }
    });
}

#[test]
fn members_that_come_and_go_reach_a_person() {
    let space = space("membermail");
    let mail = Mail::start(&space);
    let mut cluster = PrimaryCluster::within(space);
    cluster.secret("certificates", "client.key");
    let watches = cluster.space.watches(&[("Web", "primary")]);
    let operator = cluster.space.operator(&watches, &["--notices", "--notice-hosts=127.0.0.1"]);
    cluster.set(&json!({"size": 2, "primary": {"deadAfter": "3s", "silentAfter": "5s"}}));
    cluster.wait(2);
    let events = ["MemberJoined", "MemberLeft", "MemberReplaced", "PrimaryChanged"];
    notice(&cluster.space, "ops", &mail.target(), &json!({"events": events}));
    let about = |event: &str, words: &str| says_of_members(&mail, event, words);
    cluster.resize(3);
    about("MemberJoined", "\n  a-db-2\n");
    cluster.wait(3);
    assert_eq!(mail.arrived().len(), 1, "{:?}", mail.arrived());
    cluster.agents.database().crash(0);
    about("PrimaryChanged", "instead of a-db-0\n");
    let all = mail.arrived();
    assert!(all.iter().any(|one| one.text.contains("PrimaryChanged, StatefulSet/db (FailOver)")), "{all:?}");
    cluster.wait(3);
    // To the controller of volumes, a claim that was bound and names no volume is lost.
    let replica = if cluster.primary() == 2 { 1 } else { 2 };
    cluster
        .space
        .kubectl(&["annotate", &format!("pvc/data-a-db-{replica}"), "pv.kubernetes.io/bind-completed=yes"])
        .unwrap();
    about("MemberReplaced", &format!("\n  a-db-{replica}\n"));
    cluster.wait(3);
    // The primary that leaves hands over before.
    cluster.resize(1);
    about("MemberLeft", "a-db-2");
    about("PrimaryChanged", "(SwitchOver)\n  a-db-0 instead of ");
    cluster.wait(1);
    eventually("the notice knows the last member", || {
        let status: Value = read(&cluster.space, "ops")?["status"].clone();
        let members = &status["state"]["releases"]["Web.test.tillerman.dev/a"]["members"]["db"];
        if *members == json!(["a-db-0"]) { Ok(()) } else { Err(status.to_string()) }
    });
    assert!(operator.stop());
}

/// A backup is a custom resource whose pod has a result: it fails at first, and then it does its work.
#[test]
fn the_result_of_a_backup_reaches_a_person() {
    let space = space("resultmail");
    let crd = Command::new(program()).args(["crd", "charts/etcd-backup"]).current_dir(repository("")).output().unwrap();
    let crd = String::from_utf8(crd.stdout).unwrap();
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&crd)).unwrap();
    established("crd/etcdbackups.etcd.database.coreos.com");
    let runs = AtomicUsize::new(0);
    let _kubelet = Kubelet::of_members(&space, move |_| match runs.fetch_add(1, Ordering::Relaxed) {
        0 => (1, "Error: StoreFailed: s3://b: the bucket is not there\n".to_owned()),
        _ => (0, json!({"name": "c", "record": {"state": "verified"}, "status": {"etcdRevision": 57}}).to_string()),
    });
    let mail = Mail::start(&space);
    let entry = "- group: etcd.database.coreos.com\n  version: v1beta2\n  kind: EtcdBackup\n  chart:";
    let watches = space.file("watches.yaml", &format!("{entry} {}\n", repository("charts/etcd-backup").display()));
    let operator = space.operator(&watches, &["--notices", "--notice-hosts=127.0.0.1"]);
    notice(&space, "ops", &mail.target(), &json!({"events": ["ResultFailed", "ResultSucceeded"]}));
    let spec =
        json!({"etcdEndpoints": ["http://a:2379"], "storageType": "S3", "s3": {"path": "b/c", "awsSecret": "aws"}});
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
        "metadata": {"name": "once", "namespace": space.name}, "spec": spec});
    eventually("the kind is served", || kubectl(&["apply", "-f", "-"], Some(&body.to_string())));
    said(&mail, "EtcdBackup once: ResultFailed, result");
    said(&mail, "EtcdBackup once: ResultSucceeded, result");
    assert!(!mail.arrived().iter().any(|one| one.text.contains("bucket")), "{:?}", mail.arrived());
    assert!(operator.stop());
}

#[test]
fn a_volume_that_grows_reaches_a_person() {
    let space = space("volumemail");
    let mail = Mail::start(&space);
    let _volumes = ExpandableVolumes::of(&space, 1, "100Mi");
    let mut cluster = PrimaryCluster::within(space);
    cluster.secret("certificates", "client.key");
    let class = cluster.space.name.clone();
    let watches = cluster.space.watches(&[("Web", "primary")]);
    let operator = cluster.space.operator(&watches, &["--notices", "--notice-hosts=127.0.0.1"]);
    cluster.set(&json!({"size": 1, "class": class, "storage": "100Mi", "grow": {"claim": "data", "max": "130Mi"}}));
    cluster.wait(1);
    let claim = "pvc/data-a-db-0";
    cluster.space.wait_field(claim, "/status/capacity/storage", &json!("100Mi"));
    notice(&cluster.space, "ops", &mail.target(), &json!({}));
    let volume = VolumeSpace { capacity: 100 << 20, used: 80 << 20 };
    cluster.agents.database().volumes.insert(0, volume);
    says_of_members(&mail, "VolumeEnlarged", "\n  data-a-db-0 from 100Mi to 120Mi\n");
    // The part of a storage driver. An hour later it is full again, and the class forbids another step.
    let patch = json!({"status": {"capacity": {"storage": "120Mi"}}}).to_string();
    cluster.space.kubectl(&["patch", claim, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
    kubectl(&["patch", "storageclass", &class, "-p", r#"{"allowVolumeExpansion": false}"#], None).unwrap();
    let earlier = (jiff::Timestamp::now() - jiff::SignedDuration::from_mins(61)).to_string();
    cluster.space.kubectl(&["annotate", claim, "--overwrite", &format!("tillerman.dev/grown={earlier}")]).unwrap();
    says_of_members(&mail, "VolumeNotEnlarged", "\n  data-a-db-0\n");
    assert!(operator.stop());
}
