//! Volumes that grow, on a storage driver that speaks the container storage interface (tests/cluster/csi-up.sh): the claims of MariaDB, of
//! etcd and of a plain chart; a driver that refuses, that is slow, and that grows a volume only while no pod uses it.

use serde_json::{Value, json};

use crate::etcd::Etcd;
use crate::eventually;
use crate::harness::Space;
use crate::mysql::{IMAGE, MySql};
use crate::support::rows::{Writers, run};

/// The size of a claim's volume as its driver has made it, and the size that is requested.
fn sizes(claim: &Value) -> [String; 2] {
    ["/status/capacity/storage", "/spec/resources/requests/storage"]
        .map(|pointer| claim.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Waits until the driver has made all these claims as large as requested; their size.
fn grown(get: impl Fn(&str) -> Result<Value, String>, claims: &[&str], from: &str) -> String {
    eventually("the volumes are larger", || {
        let mut size = String::new();
        for claim in claims {
            let [has, requested] = sizes(&get(claim)?);
            if has != requested || has == from {
                return Err(format!("{claim}: {has}, requested {requested}"));
            }
            size = has;
        }
        Ok::<_, String>(size)
    })
}

/// The size of the file system of a pod, in MiB.
fn file_system(kubectl: impl Fn(&[&str]) -> Result<String, String>, pod: &str, container: &str, path: &str) -> u64 {
    let text = kubectl(&["exec", pod, "-c", container, "--", "df", "-m", "--output=size", path]).unwrap();
    text.lines().last().unwrap().trim().parse().unwrap()
}

/// Clients write until the volumes of MariaDB are nearly full. They grow, together, while the clients continue, and not above the limit of the
/// driver, whose refusal harms nobody.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_a_database_grow_while_clients_write() {
    let mut cluster = MySql::new("mysql-grows");
    cluster.create(
        &json!({"replicas": 2, "storage": {"size": "600Mi", "className": "growing-to-1g", "onDelete": "Delete",
        "autoGrow": {"max": "2Gi", "atPercent": 60, "by": "50%"}}}),
    );
    let writers = Writers::start(&[cluster.writes()], 2).await;
    let claims = ["data-my-0", "data-my-1"];
    let get = |claim: &str| cluster.get(&["pvc", claim]);
    run(&cluster.writes(), "CREATE TABLE app.large (id INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)").await.unwrap();
    let fills = async || {
        run(&cluster.writes(), "INSERT INTO app.large (data) VALUES (REPEAT(RANDOM_BYTES(1024), 4096))").await.unwrap();
    };
    let began = std::time::Instant::now();
    let mut written = 0;
    while sizes(&get("data-my-0").unwrap())[1] == "600Mi" && sizes(&get("data-my-1").unwrap())[1] == "600Mi" {
        assert!(written < 100, "{}", cluster.get(&["mysql", "my"]).unwrap()["status"]);
        fills().await;
        written += 1;
    }
    let asked = std::time::Instant::now();
    let size = grown(get, &claims, "600Mi");
    eprintln!("{written} × 4 MiB in {:.0?}: the volumes have {size} after {:.1?}", began.elapsed(), asked.elapsed());
    assert_eq!(size, "900Mi");
    for pod in ["my-0", "my-1"] {
        assert!(file_system(|args| cluster.kubectl(args), pod, "mysql", "/var/lib/mysql") > 800, "{pod}");
    }
    // There is room for what did not fit before.
    for _ in 0..40 {
        fills().await;
    }
    let events = cluster.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).unwrap();
    assert!(events.contains("VolumeEnlarged"), "{events}");

    // The chart's own size is more than the driver allows: it says so, and the cluster continues.
    cluster.patch(&json!({"storage": {"size": "1500Mi"}}));
    eventually("the driver refuses", || {
        let events = cluster.kubectl(&["get", "events", "--field-selector=reason=VolumeResizeFailed"])?;
        if events.contains("at most 1073741824 bytes") { Ok(()) } else { Err(events) }
    });
    let status = cluster.get(&["mysql", "my"]).unwrap()["status"].clone();
    eprintln!("refused by the driver: {}", status["conditions"]);
    writers.more(100).await;
    let keys = writers.stop().await;
    eprintln!("{} acknowledged writes", keys.len());
    cluster.has_all(&keys).await;
}

/// A driver that grows a volume only while no pod uses it: the cluster sleeps meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_no_pod_may_use_grow_while_the_cluster_sleeps() {
    let mut cluster = MySql::new("mysql-grows-asleep");
    cluster.create(&json!({"replicas": 1,
        "storage": {"size": "600Mi", "className": "growing-offline", "onDelete": "Delete"}}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    writers.more(100).await;
    let keys = writers.stop().await;
    cluster.patch(&json!({"storage": {"size": "700Mi"}}));
    eventually("the driver waits", || {
        let events = cluster.kubectl(&["get", "events", "--field-selector=reason=VolumeResizeFailed"])?;
        if events.contains("only while no pod uses it") { Ok(()) } else { Err(events) }
    });
    cluster.patch(&json!({"sleep": true}));
    cluster.asleep();
    eventually("the volume is larger", || {
        let claim = cluster.get(&["pvc", "data-my-0"])?;
        let conditions = claim["status"]["conditions"].to_string();
        if conditions.contains("FileSystemResizePending") { Ok(()) } else { Err(claim["status"].to_string()) }
    });
    cluster.patch(&json!({"sleep": null}));
    cluster.settled();
    assert_eq!(grown(|claim| cluster.get(&["pvc", claim]), &["data-my-0"], "600Mi"), "700Mi");
    assert!(file_system(|args| cluster.kubectl(args), "my-0", "mysql", "/var/lib/mysql") > 600);
    cluster.has_all(&keys).await;
}

/// The commands of the page: a snapshot of the primary's volume while clients write, and a new cluster that adopts a volume made from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_has_what_a_snapshot_of_a_volume_has() {
    let mut cluster = MySql::named("mysql-snapshot", "example");
    let storage = json!({"size": "600Mi", "className": "growing", "onDelete": "Delete"});
    cluster.create(&json!({"replicas": 2, "storage": storage}));
    let writers = Writers::start(&[cluster.writes()], 4).await;
    writers.more(1000).await;
    let section = include_str!("../../docs/how-to/mysql.md").split("### From a snapshot of a volume\n").nth(1).unwrap();
    let blocks: Vec<&str> =
        section.split("```sh\n").skip(1).take(2).map(|part| part.split("```").next().unwrap()).collect();
    let namespace = cluster.namespace.clone();
    let runs = |block: &str| {
        let script = format!("kubectl() {{ command kubectl -n {namespace} \"$@\"; }}\n{block}");
        let done = std::process::Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output().unwrap();
        assert!(done.status.success(), "{block}: {done:?}");
    };
    let before = writers.keys();
    writers.longest_gap();
    let began = std::time::Instant::now();
    runs(blocks[0]);
    eprintln!("the snapshot took {:.1?}; longest time without a write {:?}", began.elapsed(), writers.longest_gap());
    writers.more(500).await;
    let keys = writers.stop().await;
    let images = format!("spec:\n  image: {IMAGE}\n  agentImage: localhost/tillerman-agent:test\n  replicas");
    let block = blocks[1].replace("spec:\n  replicas", &images);
    let block = block.replace("storage: 8Gi}}\n", "storage: 600Mi}}\n  storageClassName: growing\n");
    let began = std::time::Instant::now();
    runs(&block.replace("onOrphan: Adopt", "onOrphan: Adopt, size: 600Mi, className: growing, onDelete: Delete"));
    eprintln!("two members from the snapshot after {:.1?}", began.elapsed());
    cluster.has_all(&keys).await;
    cluster.turns_to("restored");
    cluster.has_all(&before).await;
    assert!(before.len() >= 1000, "{}", before.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_etcd_grow_when_their_size_is_changed() {
    let etcd = Etcd::new(
        "etcd-grows",
        &json!({"size": 3, "version": "3.6.16", "repository": "localhost/etcd",
            "storage": {"size": "400Mi", "className": "growing"}}),
    );
    etcd.ready();
    etcd.patch(&json!({"storage": {"size": "500Mi"}}));
    let claims = etcd.claims();
    let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
    assert_eq!(grown(|claim| etcd.get(&["pvc", claim]), &claims, "400Mi"), "500Mi");
    etcd.ready();
    assert_eq!(claims.len(), 3);
}

#[test]
fn volumes_of_a_plain_chart_grow_when_their_size_is_changed() {
    let space = Space::new("plain-grows");
    let _operator = space.operator(&space.watches(&[("Web", "fixed")]), &[]);
    let spec = |size: &str| json!({"size": size, "className": "growing", "image": "localhost/pause:1"});
    space.apply("Web", "a", &spec("400Mi"));
    space.wait_field("pvc/data-a-db-0", "/status/phase", &json!("Bound"));
    space.apply("Web", "a", &spec("500Mi"));
    assert_eq!(grown(|claim| space.get(&format!("pvc/{claim}")), &["data-a-db-0"], "400Mi"), "500Mi");
}
