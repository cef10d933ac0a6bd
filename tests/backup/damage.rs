//! Damaged, unfinished and foreign files are never taken for a good backup, and never deleted in its place.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::etcd::{V36, cluster};
use crate::program::{Test, fails, json, ok, snapshot};
use crate::s3::Gateway;

/// A folder with backups of one member.
struct Store {
    test: Test,
    folder: PathBuf,
    /// From old to new.
    names: Vec<String>,
}

impl Store {
    async fn with(backups: usize) -> Self {
        let test = Test::new();
        let members = cluster(&test, V36, 1).await;
        let folder = test.path("store/deep");
        let mut store = Self { test, folder, names: Vec::new() };
        let mut client = etcd_client::Client::connect([&members[0].url], None).await.expect("it is a URL");
        for number in 0..backups {
            client.put("a", number.to_string(), None).await.expect("it takes writes");
            let saved = json(&mut store.snapshot(&["save", "--endpoints", &members[0].url]));
            store.names.push(saved["name"].as_str().expect("it has a name").into());
        }
        store
    }

    fn snapshot(&self, arguments: &[&str]) -> Command {
        let mut command = snapshot(arguments);
        command.args(["--store", &format!("file://{}", self.folder.display())]);
        command
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(&self.names[number])
    }

    fn flip(&self, number: usize) {
        let mut bytes = fs::read(self.path(number)).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(self.path(number), bytes).expect("it can be written");
    }

    fn cut(&self, number: usize) {
        let bytes = fs::read(self.path(number)).expect("it is there");
        fs::write(self.path(number), &bytes[..bytes.len() - 512]).expect("it can be written");
    }

    fn record(&self, number: usize, change: impl FnOnce(&mut Value)) {
        let path = self.folder.join(format!("{}.json", self.names[number]));
        let mut record = serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is JSON");
        change(&mut record);
        fs::write(&path, record.to_string()).expect("it can be written");
    }

    /// Names and states, from new to old.
    fn states(&self) -> Vec<(String, String)> {
        let all = json(&mut self.snapshot(&["list"]));
        let text = |one: &Value, field: &str| one[field].as_str().expect("it is text").to_owned();
        all.as_array().expect("it is a list").iter().map(|one| (text(one, "name"), text(one, "state"))).collect()
    }

    /// Fetching fails, leaves no file, and says this.
    fn is_refused(&self, name: &str, because: &str) {
        let to = self.test.path("fetched.db");
        let fetch = ["fetch", name, "--data-dir", "/nowhere", "--to", to.to_str().expect("it is text")];
        for arguments in [&fetch[..], &["verify", name]] {
            let error = fails(&mut self.snapshot(arguments));
            assert!(error.contains(because), "{error:?} instead of {because:?}");
        }
        let left: Vec<_> = fs::read_dir(&self.test.folder).expect("it is there").flatten().collect();
        assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("fetched")), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_found_and_nothing_older_is_deleted_for_it() {
    let store = Store::with(3).await;
    store.flip(2);
    store.is_refused("latest", "is damaged");
    let error = fails(&mut store.snapshot(&["prune", "--keep", "1"]));
    assert!(error.contains("is damaged"), "{error}");
    assert_eq!(store.states().len(), 3, "nothing was deleted");
    ok(&mut store.snapshot(&["verify", &store.names[1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_cut_short_is_passed_over() {
    let store = Store::with(3).await;
    store.cut(2);
    assert_eq!(store.states()[0], (store.names[2].clone(), "damaged".into()));
    store.is_refused(&store.names[2], "is damaged");
    let latest = json(&mut store.snapshot(&["verify", "latest"]));
    assert_eq!(latest["name"], store.names[1].as_str());
    let pruned = ok(&mut store.snapshot(&["prune", "--keep", "1"]));
    assert_eq!(pruned.lines().collect::<Vec<_>>(), [&store.names[0]], "only good ones count, and only good ones go");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_snapshot_is_found() {
    let store = Store::with(2).await;
    // A whole snapshot, but not the one.
    fs::copy(store.path(0), store.path(1)).expect("it can be copied");
    store.is_refused(&store.names[1], "is not what was stored");
    store.record(0, |record| record["sha256"] = "0".repeat(64).into());
    store.is_refused(&store.names[0], "is not what was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_revision_is_found_before_it_is_restored() {
    let store = Store::with(1).await;
    store.record(0, |record| record["revision"] = 999.into());
    let to = store.test.path("x.db").display().to_string();
    let error = fails(&mut store.snapshot(&["fetch", "--data-dir", "/nowhere", "--to", &to]));
    assert!(error.contains("instead of 999"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_finished_is_no_backup() {
    let store = Store::with(2).await;
    store.record(1, |record| record["state"] = "unverified".into());
    assert_eq!(store.states()[0].1, "unfinished");
    store.is_refused(&store.names[1], "was never finished");
    assert_eq!(json(&mut store.snapshot(&["verify"]))["name"], store.names[0].as_str());
    assert_eq!(ok(&mut store.snapshot(&["prune", "--keep", "1"])), "", "somebody may be storing it");
    store.record(1, |record| record["time"] = "2020-01-01T00:00:00Z".into());
    assert_eq!(ok(&mut store.snapshot(&["prune", "--keep", "1"])).trim(), store.names[1]);
    assert_eq!(store.states(), [(store.names[0].clone(), "good".into())]);
}

/// What an upload to a folder leaves that was killed, as `object_store` names it.
#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_uploads_to_a_folder_go_after_a_day() {
    let store = Store::with(1).await;
    let staged = |number: u32| store.folder.join(format!("{}#{number}", store.names[0]));
    for number in [1, 2] {
        fs::write(staged(number), "half of it").expect("it can be written");
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3600);
    fs::File::options().write(true).open(staged(2)).and_then(|file| file.set_modified(old)).expect("it can be changed");
    assert_eq!(store.states().len(), 1, "they are no backups");
    ok(&mut store.snapshot(&["prune", "--keep", "1"]));
    assert!(staged(1).exists() && !staged(2).exists());
}

/// A snapshot of `etcdctl snapshot save` or of coreos's operator has no record; its own sum is all there is.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_another_program_is_fetched_when_it_is_allowed() {
    let store = Store::with(1).await;
    let foreign = store.folder.join("etcd.backup");
    fs::copy(store.path(0), &foreign).expect("it can be copied");
    assert!(store.states().contains(&("etcd.backup".into(), "unknown".into())));
    store.is_refused("etcd.backup", "has no record");
    let to = store.test.path("theirs.db").display().to_string();
    let fetch = ["fetch", "etcd.backup", "--data-dir", "/nowhere", "--to", &to, "--without-record"];
    ok(&mut store.snapshot(&fetch));
    assert_eq!(fs::read(&to).expect("it is there"), fs::read(&foreign).expect("it is there"));
    fs::write(&foreign, "nothing of the kind").expect("it can be written");
    let error = fails(&mut store.snapshot(&fetch));
    assert!(error.contains("no checksum at its end"), "{error}");
}

/// The same on a server instead of a folder.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changed_on_the_server_is_refused() {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    let members = cluster(&test, V36, 1).await;
    let saved = json(&mut gateway.snapshot(&["save", "--endpoints", &members[0].url]));
    let object = gateway.objects().join(saved["name"].as_str().expect("it has a name"));
    let good = fs::read(&object).expect("it is there");
    let mut bytes = good.clone();
    bytes[5000] ^= 0x40;
    fs::write(&object, &bytes).expect("it can be written");
    let error = fails(&mut gateway.snapshot(&["verify"]));
    assert!(error.contains("is damaged"), "{error}");
    fs::write(&object, &good[..good.len() - 32]).expect("it can be written");
    let error = fails(&mut gateway.snapshot(&["verify"]));
    assert!(error.contains("no good backup"), "{error}");
    fs::write(&object, &good).expect("it can be written");
    ok(&mut gateway.snapshot(&["verify"]));
    fs::remove_file(&object).expect("it can be removed");
    assert_eq!(json(&mut gateway.snapshot(&["list"]))[0]["reason"], "its snapshot is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_not_replaced_unless_it_is_asked_for() {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    let members = cluster(&test, V36, 1).await;
    let save = ["save", "--endpoints", &members[0].url, "--name", "etcd.backup"];
    let report = test.path("report.json").display().to_string();
    let saved = json(gateway.snapshot(&save).args(["--report", &report]));
    assert_eq!(saved["name"], "etcd.backup");
    let reported: Value = serde_json::from_slice(&fs::read(report).expect("it was written")).expect("it is JSON");
    assert_eq!((&reported["name"], &reported["record"]), (&saved["name"], &saved["record"]));
    // And what the status of an EtcdBackup says of it.
    let status = &reported["status"];
    let of_record = |field: &str| &saved["record"][field];
    assert_eq!((&status["etcdRevision"], &status["etcdVersion"]), (of_record("revision"), of_record("etcdVersion")));
    assert!(status["lastSuccessDate"].is_string(), "{status}");
    let error = fails(&mut gateway.snapshot(&save));
    assert!(error.contains("there is a backup etcd.backup already"), "{error}");
    ok(gateway.snapshot(&save).arg("--overwrite"));
    // A pod that is run again after it was killed takes the name over.
    let record = gateway.objects().join("etcd.backup.json");
    let unfinished = fs::read_to_string(&record).expect("it is there").replace("\"verified\"", "\"unverified\"");
    fs::write(&record, unfinished).expect("it can be written");
    ok(&mut gateway.snapshot(&save));
    ok(&mut gateway.snapshot(&["verify", "etcd.backup"]));
    assert!(fails(gateway.snapshot(&save[..3]).args(["--name", "../up"])).contains("is not a valid name of a backup"));
}
