//! `tillerman chaos` on a real node: pods killed, parted in their network namespaces, stopped, left without space and destroyed, and the
//! operator with them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use serde_json::json;
use tillerman::chaos::plan::{FaultKind, Level, Plan};

use crate::etcd::Etcd;
use crate::harness::{cluster_dir, kubectl};
use crate::volumes::{CLASS, Volumes};

const OPERATOR: &str = "etcd-operator";
/// MiB of a member's volume: etcd takes two pieces of 64 for its log.
const VOLUME: u32 = 256;

fn chaos(etcd: &Etcd, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tillerman"));
    let operator = format!("--operator={OPERATOR}/app=etcd-operator");
    command.args(["chaos", "EtcdCluster/my", "-n", &etcd.namespace, &operator, "--patience=4m", "--kubeconfig"]);
    command.arg(cluster_dir().join("admin.kubeconfig")).args(args);
    command
}

fn from_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A seed whose first faults are of all kinds.
fn seed_of_all(count: usize) -> u64 {
    let has_all = |seed: &u64| {
        let plan = Plan::new(*seed, Level::Two, &FaultKind::ALL, 3, true).unwrap();
        let kinds: Vec<FaultKind> = plan.take(count).map(|fault| fault.kind).collect();
        FaultKind::ALL.iter().all(|kind| kinds.contains(kind))
    };
    (0..10_000).find(has_all).unwrap()
}

/// Two members of three all the time: every acknowledged write is there, there was one copy of the data, and nothing is left behind.
#[tokio::test(flavor = "multi_thread")]
async fn faults_of_every_kind_lose_no_write_and_are_undone() {
    let etcd = Etcd::new(
        "chaos",
        &json!({
            "size": 3, "version": "3.6.16", "repository": "localhost/etcd",
            "storage": {"size": format!("{VOLUME}Mi"), "className": CLASS}, "members": {"deadAfter": "20s"},
        }),
    );
    let volumes = Volumes::new(&etcd.namespace, VOLUME);
    etcd.ready();
    for namespace in [&*etcd.namespace, OPERATOR] {
        kubectl(&["label", "--overwrite", "namespace", namespace, "tillerman.dev/chaos=allowed"], None).unwrap();
    }
    let history = std::env::temp_dir().join(format!("{}.jsonl", etcd.namespace));
    let count = from_env("CHAOS_FAULTS").unwrap_or(FaultKind::ALL.len());
    let seed = format!("--seed={}", from_env("CHAOS_SEED").unwrap_or_else(|| seed_of_all(count)));
    let (count, file) = (format!("--count={count}"), format!("--history={}", history.display()));
    let output = chaos(&etcd, &["--level=2", "--duration=1h", &count, &seed, &file]).output().unwrap();
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{told}{wrong}");
    assert!(output.status.success());
    for kind in FaultKind::ALL {
        assert!(told.lines().any(|line| line.contains(&format!(" s {kind}"))), "{kind}");
    }
    assert!(told.contains("acknowledged writes that are lost: 0"));
    let checked = Command::new("linearizable").arg(&history).output().unwrap();
    eprintln!("{}", String::from_utf8_lossy(&checked.stdout));
    assert!(checked.status.success());
    etcd.ready();
    let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
    let keys = client.get("tillerman-chaos", Some(GetOptions::new().with_prefix().with_count_only())).await.unwrap();
    assert_eq!(keys.count(), 0, "its keys are gone");

    // A member whose log or data finds no space ends, and comes back with its data when there is some again. One that fails to start
    // for so long as it may be dead is replaced: here it may be for longer.
    let patient = r#"{"spec":{"members":{"deadAfter":"10m"}}}"#;
    etcd.kubectl(&["patch", "etcd", "my", "--type=merge", "-p", patient]).unwrap();
    etcd.ready();
    let members = etcd.voters().await;
    let long = |seed: &u64| {
        let plan = Plan::new(*seed, Level::One, &[FaultKind::Fill], 3, false).unwrap();
        plan.take(2).all(|fault| fault.lasts.as_secs() >= 14)
    };
    let seed = format!("--seed={}", (0..10_000).find(long).unwrap());
    let writes = tokio::spawn(ballast(etcd.url("http")));
    let output = chaos(&etcd, &["--faults=fill", "--count=2", "--duration=1h", &seed, &file]).output().unwrap();
    writes.abort();
    let told = String::from_utf8_lossy(&output.stdout);
    eprintln!("{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("acknowledged writes that are lost: 0"));
    let before = (0..3).filter_map(|k| etcd.kubectl(&["logs", &format!("my-{k}"), "--previous", "--tail=400"]).ok());
    assert!(before.into_iter().any(|log| log.contains("no space left on device")), "no member noticed");
    assert_eq!(etcd.voters().await, members, "they are the same members");
    let checked = Command::new("linearizable").arg(&history).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    etcd.ready();

    // Interrupted, it undoes what it has begun.
    interrupted(&etcd, &["--level=3", "--faults=pause,partition", "--seed=1", "--duration=10m", &file]);
    let checked = Command::new("linearizable").arg(&history).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    interrupted(&etcd, &["--level=3", "--faults=fill", "--seed=1", "--duration=10m", &file]);
    for ordinal in 0..3 {
        let used = volumes.used(&format!("data-my-{ordinal}"));
        assert!(used < u64::from(VOLUME) * 1024 * 9 / 10, "{used} KiB are used of the volume of {ordinal}");
    }
    fs::remove_file(history).unwrap();
}

/// Writes for which the database has to grow, however few they are on a busy machine; and not so many that the log fills the volume.
async fn ballast(url: String) {
    let mut client = Client::connect([url], None).await.unwrap();
    for number in 0_u64.. {
        // A member that is full does not answer.
        let _ = client.put(format!("ballast/{}", number % 8), vec![0; 16 << 10], None).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Begins a fault, interrupts it, and waits until all is undone.
fn interrupted(etcd: &Etcd, args: &[&str]) {
    let mut run = chaos(etcd, args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    while ![" s p", " s f"].iter().any(|kind| line.contains(kind)) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it began");
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    eprintln!("{line}{rest}");
    assert!(run.wait().unwrap().success());
    assert!(rest.contains("interrupted: undoing everything"), "{rest}");
}
