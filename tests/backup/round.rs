//! The whole way: saved under writes, verified, listed, pruned; the cluster destroyed, and restored.

use std::process::Command;

use serde_json::Value;

use crate::etcd::{EtcdVersion, Seat, V35, V36, Writer, answers, cluster, destroy, missing};
use crate::program::{Test, json, ok, snapshot, tool};
use crate::s3::Gateway;

/// After a restore a new cluster answers a linearizable read and has every key that was acknowledged before the snapshot.
async fn round(version: EtcdVersion) {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    let members = cluster(&test, version, 3).await;
    let endpoints = members.iter().map(|member| member.url.as_str()).collect::<Vec<_>>().join(",");
    let save = ["save", "--endpoints", &endpoints];
    let writer = Writer::start(&members[0].url).await;
    writer.more(50).await;
    let first = json(&mut gateway.snapshot(&save));
    writer.more(50).await;
    let acknowledged = writer.acknowledged();
    let second = json(&mut gateway.snapshot(&save));
    writer.stop().await;
    assert_eq!(second["record"]["state"], "verified");
    assert_eq!(second["record"]["etcdVersion"], version.number);
    assert!(revision(&second) > revision(&first));

    let name = |backup: &Value| backup["name"].as_str().expect("it has a name").to_owned();
    let names = |gateway: &Gateway| -> Vec<String> {
        let all = json(&mut gateway.snapshot(&["list"]));
        all.as_array().expect("it is a list").iter().inspect(|one| assert_eq!(one["state"], "good")).map(name).collect()
    };
    assert_eq!(names(&gateway), [name(&second), name(&first)]);
    for which in [name(&first), name(&second), "latest".into()] {
        ok(&mut gateway.snapshot(&["verify", &which]));
    }
    let pruned = ok(&mut gateway.snapshot(&["prune", "--keep", "1", "--dry-run"]));
    assert_eq!(pruned.trim(), name(&first));
    assert_eq!(names(&gateway).len(), 2, "a dry run deletes nothing");
    ok(&mut gateway.snapshot(&["prune", "--keep", "1"]));
    assert_eq!(names(&gateway), [name(&second)]);
    destroy(members);

    let seat = Seat::new(&test, 0);
    let (data, file) = (seat.data.display().to_string(), test.path("snapshot.db").display().to_string());
    let etcdutl = tool(version.etcdutl);
    let fetch = || gateway.snapshot(&["fetch", "--to", &file, "--data-dir", &data]);
    let restore = || {
        let mut command = snapshot(["restore", "--snapshot", &file, "--data-dir", &data, "--"]);
        command.arg(&etcdutl).args(["snapshot", "restore", "--name", &seat.name, "--initial-cluster", &seat.initial()]);
        command.args(["--initial-advertise-peer-urls", &seat.peer("http"), "--initial-cluster-token", "restored"]);
        command
    };
    assert!(ok(&mut fetch()).contains("fetched"));
    assert!(ok(&mut fetch()).contains("fetched"), "again before it is restored");
    same_as_etcdutl(version, &file, &second["record"]);
    assert!(ok(&mut restore()).contains("restored"));
    for again in [fetch(), restore()] {
        let mut again = again;
        assert!(ok(&mut again).contains("has a member: nothing to do"));
    }

    let restored = seat.start(&test, version, &seat.initial(), "http", &[]);
    let keys = answers(&restored.url).await;
    assert_eq!(missing(&restored.url, &acknowledged).await, [""; 0], "acknowledged before the snapshot");
    assert_eq!(second["record"]["keys"], keys);
    for again in [fetch(), restore()] {
        let mut again = again;
        assert!(ok(&mut again).contains("has a member: nothing to do"), "while the member runs");
    }
    // It is another cluster, so that no member of the old one can join it; and it can be backed up, too.
    let third = json(&mut gateway.snapshot(&["save", "--endpoints", &restored.url, "--keep", "1"]));
    assert_ne!(third["record"]["clusterID"], second["record"]["clusterID"]);
    assert_eq!(names(&gateway), [name(&third), name(&second)], "the newest of each cluster is kept");
}

fn revision(backup: &Value) -> i64 {
    backup["record"]["revision"].as_i64().expect("it has a revision")
}

/// `etcdutl snapshot status` says the same of a snapshot.
fn same_as_etcdutl(version: EtcdVersion, file: &str, record: &Value) {
    let mut status = Command::new(tool(version.etcdutl));
    let theirs: Value =
        serde_json::from_str(&ok(status.args(["snapshot", "status", file, "-w", "json"]))).expect("it is JSON");
    let ours = json(&mut snapshot(["status", file]));
    let hash = u64::from_str_radix(ours["hash"].as_str().expect("it has a hash"), 16).expect("it is a number");
    assert_eq!(theirs["hash"], hash);
    assert_eq!(theirs["revision"], ours["revision"]);
    assert_eq!(theirs["totalSize"].as_u64().map(|size| size + 32), ours["size"].as_u64());
    if version.number != V35.number {
        assert_eq!(theirs["totalKey"], ours["keys"]);
        // A backup of etcd's first seconds has no storage version yet; etcdutl prints that as an empty text.
        assert_eq!(theirs["version"].as_str().filter(|text| !text.is_empty()), ours["storageVersion"].as_str());
    }
    for field in ["hash", "revision", "keys", "size", "sha256"] {
        assert_eq!(ours[field], record[field], "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_etcd_3_6_is_restored_with_every_acknowledged_key() {
    round(V36).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_etcd_3_5_is_restored_with_every_acknowledged_key() {
    round(V35).await;
}

/// A cluster without a key has no last key; its revision is 1, and a compaction may leave a higher one.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_cluster_has_a_revision_too() {
    let test = Test::new();
    let members = cluster(&test, V36, 1).await;
    let store = format!("file://{}", test.path("store").display());
    let save = || json(&mut snapshot(["save", "--store", &store, "--endpoints", &members[0].url]));
    assert_eq!(revision(&save()), 1);
    let mut client = etcd_client::Client::connect([&members[0].url], None).await.expect("it is a URL");
    client.put("a", "x", None).await.expect("it takes writes");
    client.delete("a", None).await.expect("it takes writes");
    client.put("b", "x", None).await.expect("it takes writes");
    client.delete("b", None).await.expect("it takes writes");
    let physical = etcd_client::CompactionOptions::new().with_physical();
    client.compact(5, Some(physical)).await.expect("it takes compactions");
    let saved = save();
    assert_eq!((revision(&saved), &saved["record"]["keys"]), (5, &Value::from(0)));
}
