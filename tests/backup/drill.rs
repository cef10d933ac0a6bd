//! Drills: a backup is restored and asked for its keys, and each harm to it is found.

use std::fs;
use std::path::Path;
use std::process::Command;

use etcd_client::{Client, PutOptions};

use crate::etcd::{EtcdVersion, V35, V36, cluster, destroy};
use crate::program::{Test, fails, ok, snapshot, tool};

/// A store with a backup of ten keys, one of which has a lease that ends soon.
async fn stored(version: EtcdVersion) -> Test {
    let test = Test::new();
    let members = cluster(&test, version, 1).await;
    let mut client = Client::connect([&members[0].url], None).await.expect("it is a URL");
    for number in 0..9 {
        client.put(format!("key/{number}"), "x".repeat(1000), None).await.expect("it takes writes");
    }
    let lease = client.lease_grant(1, None).await.expect("it gives leases").id();
    client.put("leased", "x", Some(PutOptions::new().with_lease(lease))).await.expect("it takes writes");
    ok(&mut snapshot(["save", "--store", &store(&test), "--endpoints", &members[0].url]));
    destroy(members);
    test
}

fn store(test: &Test) -> String {
    format!("file://{}", test.path("store").display())
}

fn drill(test: &Test, version: EtcdVersion) -> Command {
    drill_by(test, &tool(version.etcd), &tool(version.etcdutl))
}

fn drill_by(test: &Test, etcd: &Path, etcdutl: &Path) -> Command {
    let temporary = test.path("drills");
    fs::create_dir_all(&temporary).expect("the folder can be written");
    let mut command = snapshot(["drill", "--store", &store(test), "--timeout", "60s", "--temporary"]);
    command.arg(temporary).arg("--etcd").arg(etcd).arg("--etcdutl").arg(etcdutl);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_backup_is_proved_and_nothing_is_left() {
    for version in [V35, V36] {
        let test = stored(version).await;
        let report = test.path("report");
        let printed = ok(drill(&test, version)
            .args(["--key", "key/3", "--key", "leased", "--report"])
            .arg(&report)
            // Those of a member of a cluster.
            .env("ETCD_INITIAL_CLUSTER_STATE", "existing")
            .env("ETCD_DATA_DIR", "/nowhere"));
        assert!(printed.starts_with("proved etcd_v") && printed.contains("10 keys, in "), "{printed}");
        assert_eq!(fs::read_to_string(report).expect("it is written"), printed);
        assert_eq!(fs::read_dir(test.path("drills")).expect("it is there").count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_harm_is_found() {
    let test = stored(V36).await;
    let backup = || {
        let all =
            fs::read_dir(test.path("store")).expect("it is there").map(|entry| entry.expect("it can be read").path());
        let backup = all.into_iter().find(|path| fs::metadata(path).expect("it is there").len() > 10_000);
        backup.expect("it has a backup")
    };
    let script = |name: &str, text: &str| {
        let path = test.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder can be written");
        ok(Command::new("chmod").arg("+x").arg(&path));
        path
    };
    let (etcd, etcdutl) = (tool(V36.etcd), tool(V36.etcdutl));
    let ends = script("ends", &format!("exec {} \"$@\" --unknown-flag", etcd.display()));
    let fails_itself = script("fails", "exit 3");
    // It restores the snapshot of another cluster, which has more revisions and one key.
    let members = cluster(&test, V36, 1).await;
    let mut client = Client::connect([&members[0].url], None).await.expect("it is a URL");
    for _ in 0..30 {
        client.put("key/0", "x", None).await.expect("it takes writes");
    }
    let other = test.path("other");
    let saved = ["save", "--name", "snapshot", "--endpoints", &members[0].url];
    ok(snapshot(saved).args(["--store", &format!("file://{}", other.display())]));
    destroy(members);
    let exchange = "for a do shift; case $a in */snapshot.db) a=OTHER;; esac; set -- \"$@\" \"$a\"; done; exec";
    let exchange = exchange.replace("OTHER", &other.join("snapshot").display().to_string());
    let exchanges = script("exchanges", &format!("{exchange} {} \"$@\"", etcdutl.display()));
    let lacks_a_key = ["--key", "key/3", "--key", "key/10"];
    for (expected, mut command, arguments) in [
        ("lacks the key \"key/10\"", drill(&test, V36), &lacks_a_key[..]),
        ("could not be started", drill_by(&test, Path::new("/nowhere/etcd"), &etcdutl), &[]),
        ("the restored member ended: exit status: 2", drill_by(&test, &ends, &etcdutl), &[]),
        ("failed: exit status: 3", drill_by(&test, &etcd, &fails_itself), &[]),
        ("has 1 keys, and the backup has 10", drill_by(&test, &etcd, &exchanges), &[]),
        ("NoGoodBackup", drill(&test, V36), &["--name-prefix", "other"]),
    ] {
        let said = fails(command.args(arguments));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let (whole, path) = (fs::read(backup()).expect("it can be read"), backup());
    for (expected, harmed) in [
        ("is damaged", {
            let mut flipped = whole.clone();
            flipped[5000] ^= 1;
            flipped
        }),
        ("NoGoodBackup", whole[..whole.len() / 2].to_vec()),
    ] {
        fs::write(&path, harmed).expect("it can be written");
        let said = fails(&mut drill(&test, V36));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    fs::remove_file(&path).expect("it is there");
    fails(&mut drill(&test, V36));
    assert_eq!(fs::read_dir(test.path("drills")).expect("it is there").count(), 0);
}
