//! A restore that is killed leaves nothing or the whole.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::etcd::{Seat, V36, answers, cluster, destroy};
use crate::program::{Test, fails, files, ok, snapshot, tool};

const KILLS: u32 = 40;

/// A snapshot that was fetched, and the member that is to be.
struct Fetched {
    test: Test,
    file: PathBuf,
    seat: Seat,
}

impl Fetched {
    async fn new() -> Self {
        let test = Test::new();
        let members = cluster(&test, V36, 1).await;
        let mut client = etcd_client::Client::connect([&members[0].url], None).await.expect("it is a URL");
        for number in 0..10 {
            client.put(format!("key/{number}"), "x".repeat(100_000), None).await.expect("it takes writes");
        }
        let store = format!("file://{}", test.path("store").display());
        ok(&mut snapshot(["save", "--store", &store, "--endpoints", &members[0].url]));
        destroy(members);
        let file = test.path("snapshot.db");
        let seat = Seat::new(&test, 0);
        let fetch = ["fetch", "--store", &store, "--to", file.to_str().expect("it is text")];
        ok(snapshot(fetch).arg("--data-dir").arg(&seat.data));
        Self { test, file, seat }
    }

    fn with(&self, program: &str) -> Command {
        let mut command = snapshot(["restore", "--snapshot"]);
        command.arg(&self.file).arg("--data-dir").arg(&self.seat.data).args(["--", program]);
        command
    }

    fn restore(&self) -> Command {
        let mut command = self.with(tool(V36.etcdutl).to_str().expect("it is text"));
        command.args(["snapshot", "restore", "--name", &self.seat.name, "--initial-cluster", &self.seat.initial()]);
        command.args(["--initial-advertise-peer-urls", &self.seat.peer("http"), "--initial-cluster-token", "restored"]);
        command
    }

    /// The names of files of the member.
    fn member(&self) -> Vec<String> {
        let member = self.seat.data.join("member");
        let name = |path: PathBuf| path.strip_prefix(&member).expect("it is below").display().to_string();
        files(&member).into_iter().map(name).collect()
    }

    async fn starts_with_all_keys(&self) {
        let member = self.seat.start(&self.test, V36, &self.seat.initial(), "http", &[]);
        assert_eq!(answers(&member.url).await, 10);
        destroy(vec![member]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_time_leaves_nothing_or_the_whole() {
    let fetched = Fetched::new().await;
    let began = Instant::now();
    ok(&mut fetched.restore());
    let whole = fetched.member();
    let took = began.elapsed();
    assert!(whole.iter().any(|file| file == "snap/db"), "{whole:?}");
    let (mut nothing, mut all) = (0, 0);
    for kill in 0..KILLS {
        // Beginning with what the last one left, now and then.
        if kill % 3 == 0 || !fetched.member().is_empty() {
            drop(fs::remove_dir_all(&fetched.seat.data));
        }
        let mut command = fetched.restore();
        let mut running =
            command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        tokio::time::sleep(took * kill / (KILLS - 4)).await;
        // As a container is killed: with everything that runs in it.
        drop(Command::new("kill").args(["-KILL", "--", &format!("-{}", running.id())]).stderr(Stdio::null()).status());
        running.wait().expect("it is a child");
        let left = fetched.member();
        assert!(left.is_empty() || left == whole, "killed after {:?}: {left:?}", took * kill / (KILLS - 4));
        nothing += u32::from(left.is_empty());
        all += u32::from(!left.is_empty());
    }
    eprintln!("{KILLS} kills over {took:?}: {nothing} left nothing, {all} the whole");
    assert!(nothing > 0, "none was killed in time");
    ok(&mut fetched.restore());
    assert_eq!(fetched.member(), whole);
    let around = files(&fetched.seat.data);
    assert_eq!(around.len(), whole.len(), "unfinished ones are gone: {around:?}");
    fetched.starts_with_all_keys().await;
}

/// Between the end of the program and the rename.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_when_the_program_is_done_leaves_nothing() {
    let fetched = Fetched::new().await;
    let script = fetched.test.path("restore.sh");
    fs::write(&script, format!("{} \"$@\" && kill -KILL $PPID\n", tool(V36.etcdutl).display()))
        .expect("it can be written");
    let mut killed = fetched.with("sh");
    killed.arg(&script).args(["snapshot", "restore", "--name", "e-0", "--initial-cluster", &fetched.seat.initial()]);
    killed.args(["--initial-advertise-peer-urls", &fetched.seat.peer("http")]);
    fails(&mut killed);
    assert_eq!(fetched.member(), [""; 0]);
    assert!(!files(&fetched.seat.data).is_empty(), "it was restored beside");
    ok(&mut fetched.restore());
    fetched.starts_with_all_keys().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_restored_leaves_nothing() {
    let fetched = Fetched::new().await;
    let missing = fails(&mut fetched.with("/nowhere/etcdutl"));
    assert!(missing.contains("could not be started"), "{missing}");
    let failed = fails(&mut fetched.with("false"));
    assert!(failed.contains("false failed"), "{failed}");
    // It succeeds, and restores nothing.
    let idle = fails(&mut fetched.with("true"));
    assert!(idle.contains("left no member/snap/db"), "{idle}");
    let told = fails(fetched.restore().args(["--data-dir=/elsewhere"]));
    assert!(told.contains("do not give --data-dir and --wal-dir"), "{told}");
    let mut bytes = fs::read(&fetched.file).expect("it is there");
    bytes[9000] ^= 1;
    fs::write(&fetched.file, bytes).expect("it can be written");
    let damaged = fails(&mut fetched.restore());
    assert!(damaged.contains("is damaged"), "{damaged}");
    assert_eq!(fetched.member(), [""; 0]);
}

/// A member that lost its data joins its cluster again; from a snapshot it would begin a second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_joins_a_cluster_is_not_restored() {
    let fetched = Fetched::new().await;
    let told = ok(fetched.restore().env("ETCD_INITIAL_CLUSTER_STATE", "existing"));
    assert!(told.contains("joins an existing cluster"), "{told}");
    let copy = fetched.test.path("tools-tillerman");
    let mut fetch = snapshot(["fetch", "--store", "file:///nowhere", "--to", "/nowhere/x"]);
    fetch.arg("--data-dir").arg(&fetched.seat.data).arg("--copy-self").arg(&copy);
    ok(fetch.env("ETCD_INITIAL_CLUSTER_STATE", "existing"));
    assert_eq!(fetched.member(), [""; 0]);
    // The next container finds the program whether or not there was anything to fetch.
    assert!(ok(Command::new(&copy).arg("--version")).starts_with("tillerman"));
    assert!(fails(fetched.restore().env("ETCD_INITIAL_CLUSTER_STATE", "old")).contains("new or existing"));
    assert!(ok(fetched.restore().env("ETCD_INITIAL_CLUSTER_STATE", "new")).contains("restored"));
}
