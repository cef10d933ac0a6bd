//! Clusters of MariaDB on real pods, with the chart charts/mysql: the operator is a project that `tillerman init` makes of it
//! (mysql-operator.sh), as a pod with the rights of the project.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mysql_async::Opts;
use serde_json::{Value, json};

use crate::harness::{cluster_dir, kubectl};
use crate::restore::Gateway;
use crate::support::rows::{Writers, lost, numbers, reached, run};
use crate::{eventually, forbidden, get_in, kubectl_in};

/// The namespace of the operator, and its account.
const OPERATOR: (&str, &str) = ("mysql-operator-system", "mysql-operator-controller-manager");
/// The images of the database.
const IMAGE: &str = "localhost/mariadb:10.11.19";

const NEWER: &str = "localhost/mariadb:11.8";

/// A cluster in a namespace of its own.
struct MySql {
    namespace: String,
    password: String,
}

impl MySql {
    fn new(test: &str) -> Self {
        let namespace = format!("{test}-{}", std::process::id());
        kubectl(&["create", "namespace", &namespace], None).unwrap();
        Self { namespace, password: String::new() }
    }

    /// Creates the custom resource, and waits until it is ready.
    fn create(&mut self, spec: &Value) {
        let mut body = json!({"apiVersion": "databases.tillerman.dev/v1alpha1", "kind": "MySQLCluster",
            "metadata": {"name": "my", "namespace": self.namespace},
            "spec": {"image": IMAGE, "agentImage": "localhost/tillerman-agent:test", "storage": {"size": "1Gi", "onDelete": "Delete"}}});
        let fields = body["spec"].as_object_mut().unwrap();
        fields.extend(spec.as_object().unwrap().clone());
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
        self.settled();
        let secret = self.get(&["secret", "my-root"]).unwrap();
        let password = BASE64.decode(secret["data"]["password"].as_str().unwrap()).unwrap();
        self.password = String::from_utf8(password).unwrap();
    }

    fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        kubectl_in(&self.namespace, args)
    }

    fn get(&self, what: &[&str]) -> Result<Value, String> {
        get_in(&self.namespace, what)
    }

    fn patch(&self, spec: &Value) {
        self.kubectl(&["patch", "mysql", "my", "--type=merge", "-p", &json!({"spec": spec}).to_string()]).unwrap();
    }

    /// Waits until the custom resource, as it is now, is ready, with all members, and one of them could take over.
    fn settled(&self) {
        eventually("the cluster is ready", || {
            let cluster = self.get(&["mysql", "my"])?;
            let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
            let size = &cluster["spec"]["replicas"];
            let current = cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"];
            let all = cluster["status"]["readyMembers"] == *size;
            let safe = *size == 1 || cluster["status"]["safeToFailOver"] == true;
            if current && ready["status"] == "True" && all && safe {
                Ok(())
            } else {
                Err(format!("{ready} {}", cluster["status"]))
            }
        });
    }

    fn primary(&self) -> String {
        self.get(&["mysql", "my"]).unwrap()["status"]["primary"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until another pod than this one is the primary.
    fn moved(&self, from: &str) {
        eventually("another member is the primary", || {
            let primary = self.primary();
            let asked = self.get(&["mysql", "my"])?["status"]["members"]["db"]["switchOver"].clone();
            assert!(asked["result"] != "GivenUp" && asked["result"] != "Refused", "{asked}");
            if primary.is_empty() || primary == from { Err(primary) } else { Ok(()) }
        });
    }

    /// Where clients write: the address of the Service, which can be reached from here.
    fn writes(&self) -> Opts {
        let service = self.get(&["service", "my-primary"]).unwrap();
        reached(service["spec"]["clusterIP"].as_str().unwrap(), "root", &self.password)
    }

    /// The members by the names of their pods.
    fn members(&self) -> BTreeMap<String, Opts> {
        let pods = self.get(&["pods", "-l", "app.kubernetes.io/instance=my"]).unwrap();
        let text = |pod: &Value, at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let at = |pod: &Value| reached(&text(pod, "/status/podIP"), "root", &self.password);
        pods.iter().map(|pod| (text(pod, "/metadata/name"), at(pod))).collect()
    }

    /// Every member has every acknowledged key.
    async fn has_all(&self, keys: &[u64]) {
        let members = self.members();
        let primary = &members[&self.primary()];
        let last = numbers(primary, "SELECT COUNT(*) FROM app.t").await;
        for (name, member) in &members {
            let since = std::time::Instant::now();
            while numbers(member, "SELECT COUNT(*) FROM app.t").await != last {
                assert!(since.elapsed() < Duration::from_secs(60), "{name} does not catch up");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(lost(member, keys).await, Vec::<u64>::new(), "{name}");
        }
    }

    /// Sends a signal to the database's process of a pod.
    fn signal(&self, pod: &str, signal: &str) {
        let uid = self.get(&["pod", pod]).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let script = format!(
            "for p in $(pgrep -x mariadbd); do if grep -q -e '{uid}' -e '{}' /proc/$p/cgroup /proc/$p/mountinfo; then kill -{signal} $p && found=1; fi; done; [ -n \"$found\" ]",
            uid.replace('-', "_")
        );
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{pod} has no process mariadbd");
    }

    /// Deletes a pod without letting it end.
    fn kill(&self, pod: &str) {
        self.kubectl(&["delete", "pod", pod, "--grace-period=0", "--force"]).unwrap();
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["mysql,statefulsets,pods,pvc,configmaps", "events"] {
                eprintln!("{}", self.kubectl(&["get", what, "-o", "wide"]).unwrap_or_else(|why| why));
            }
            eprintln!("{}", self.kubectl(&["get", "mysql", "my", "-o", "yaml"]).unwrap_or_else(|why| why));
            for member in ["my-0", "my-1", "my-2"] {
                eprintln!(
                    "{member}: {}",
                    self.kubectl(&["logs", member, "-c", "mysql", "--tail=60"]).unwrap_or_else(|why| why)
                );
            }
            let log = ["-n", OPERATOR.0, "logs", &format!("deployment/{}", OPERATOR.1), "--tail=80"];
            eprintln!("{}", kubectl(&log, None).unwrap_or_else(|why| why));
        } else {
            let _ = self.kubectl(&["delete", "mysql", "--all", "--timeout=60s"]);
            let _ = kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], None);
        }
    }
}

/// 1 → 3 → 5 → 2 under writers, with all that happens to a cluster in between: no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_shrinks_fails_over_and_is_restarted_without_losing_a_write() {
    // While it is deployed, an operator may be faster than its rights.
    let audited = std::fs::metadata(cluster_dir().join("log/audit.log")).unwrap().len();
    let mut cluster = MySql::new("mysql");
    cluster.create(&json!({"replicas": 1}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    let done = |what: &str| eprintln!("{what}: longest gap {:?}", writers.longest_gap());
    for size in [3, 5] {
        cluster.patch(&json!({"replicas": size}));
        cluster.settled();
        writers.more(20).await;
        done(&format!("{size} members"));
    }

    let primary = cluster.primary();
    cluster.kubectl(&["delete", "pod", &primary]).unwrap();
    cluster.moved(&primary);
    cluster.settled();
    let change = &cluster.get(&["mysql", "my"]).unwrap()["status"]["members"]["db"]["lastChange"];
    assert_eq!(change["kind"], "SwitchOver", "a pod that is deleted hands over: {change}");
    writers.more(20).await;
    done("the primary's pod is deleted");

    let primary = cluster.primary();
    cluster.kill(&primary);
    cluster.moved(&primary);
    cluster.settled();
    writers.more(20).await;
    done("the primary's pod is killed");

    let primary = cluster.primary();
    cluster.signal(&primary, "STOP");
    cluster.moved(&primary);
    writers.more(20).await;
    done("the primary's process stands still");
    cluster.signal(&primary, "CONT");
    cluster.settled();

    let victim = cluster.members().into_keys().find(|name| *name != cluster.primary()).unwrap();
    let claim =
        |name: &str| cluster.get(&["pvc", &format!("data-{name}")]).map(|claim| claim["metadata"]["uid"].clone());
    let before = claim(&victim).unwrap();
    cluster.kubectl(&["delete", "pvc", &format!("data-{victim}"), "--wait=false"]).unwrap();
    cluster.kill(&victim);
    eventually("the claim is another", || {
        let now = claim(&victim)?;
        if now == before { Err(format!("{now} is there")) } else { Ok(()) }
    });
    cluster.settled();
    writers.more(20).await;
    done("a volume is destroyed");

    cluster.patch(&json!({"configuration": {"max_connections": 77}}));
    cluster.settled();
    for (name, member) in cluster.members() {
        assert_eq!(numbers(&member, "SELECT @@max_connections").await, [77], "{name}");
    }
    writers.more(20).await;
    done("a setting");

    cluster.patch(&json!({"image": NEWER, "version": "11.8"}));
    cluster.settled();
    for (name, member) in cluster.members() {
        assert_eq!(numbers(&member, "SELECT @@version LIKE '11.8.%'").await, [1], "{name}");
    }
    writers.more(20).await;
    done("MariaDB 11.8");

    cluster.patch(&json!({"replicas": 2}));
    cluster.settled();
    writers.more(20).await;
    done("2 members");
    assert_eq!(cluster.members().len(), 2);

    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
    assert_eq!(
        forbidden(OPERATOR.0, OPERATOR.1, usize::try_from(audited).unwrap()),
        BTreeSet::new(),
        "the rights of the project suffice"
    );
}

/// How long nobody could write when the primary hands over, and when its pod is killed: `ROUNDS` of both.
/// MySQL itself. An earlier primary that has writes which nobody acknowledged is seeded.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MySQL: make mysql-node"]
async fn a_cluster_of_mysql_itself_grows_hands_over_and_fails_over_without_losing_a_write() {
    let mut cluster = MySql::new("mysql-itself");
    cluster.create(&json!({"flavor": "mysql", "image": "localhost/mysql:9.7", "replicas": 1}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    let done = |what: &str| eprintln!("{what}: longest gap {:?}", writers.longest_gap());
    cluster.patch(&json!({"replicas": 3}));
    cluster.settled();
    writers.more(20).await;
    done("3 members");
    let primary = cluster.primary();
    cluster.kubectl(&["delete", "pod", &primary]).unwrap();
    cluster.moved(&primary);
    cluster.settled();
    writers.more(20).await;
    done("the primary's pod is deleted");
    let primary = cluster.primary();
    cluster.kill(&primary);
    cluster.moved(&primary);
    writers.more(20).await;
    cluster.settled();
    done("the primary is killed");
    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, for minutes: make mysql-figures"]
async fn the_gaps_of_many_switch_overs_and_fail_overs() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let mut cluster = MySql::new("mysql-figures");
    cluster.create(&json!({"replicas": 3}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    let (mut handed_over, mut killed) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for is_killed in [false, true] {
            writers.more(100).await;
            writers.longest_gap();
            let primary = cluster.primary();
            if is_killed {
                cluster.kill(&primary);
            } else {
                let request = format!("tillerman.dev/switch-over=any@{round}");
                cluster.kubectl(&["annotate", "mysql", "my", "--overwrite", &request]).unwrap();
            }
            cluster.moved(&primary);
            writers.more(100).await;
            cluster.settled();
            let gaps = if is_killed { &mut killed } else { &mut handed_over };
            gaps.push(writers.longest_gap());
        }
    }
    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
    for (what, mut gaps) in [("switch-over on request", handed_over), ("the primary's pod is killed", killed)] {
        gaps.sort();
        eprintln!("{what}, {rounds} times: p50 {:.0?}, longest {:.0?}", gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    }
}

/// How long a member takes to get a copy of 1 GiB of rows, and to follow, while clients write.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, for minutes: make mysql-figures"]
async fn the_time_until_a_member_has_a_gibibyte() {
    const KIB: u32 = 1 << 20;
    let mut cluster = MySql::new("mysql-gibibyte");
    cluster.create(&json!({"replicas": 1, "configuration": {"innodb_buffer_pool_size": "256M"}}));
    let primary = cluster.writes();
    for statement in [
        "CREATE DATABASE big".to_owned(),
        "CREATE TABLE big.t (id INT PRIMARY KEY, v VARBINARY(1000) NOT NULL)".to_owned(),
        format!("INSERT INTO big.t SELECT seq, RANDOM_BYTES(1000) FROM big.seq_1_to_{KIB}"),
    ] {
        run(&primary, &statement).await.unwrap();
    }
    let writers = Writers::start(&[primary], 2).await;
    writers.more(20).await;
    writers.longest_gap();
    let since = std::time::Instant::now();
    cluster.patch(&json!({"replicas": 2}));
    cluster.settled();
    eprintln!("a second member with 1 GiB: {:.1?}; longest gap {:.0?}", since.elapsed(), writers.longest_gap());
    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
    for (name, member) in cluster.members() {
        assert_eq!(numbers(&member, "SELECT COUNT(*) FROM big.t").await, [u64::from(KIB)], "{name}");
    }
}

/// A backup while clients write, another one before everything is deleted, and all of it again from that.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_deleted_comes_back_from_its_last_backup_with_every_row() {
    let gateway = Gateway::start();
    let mut cluster = MySql::new("mysql-backup");
    gateway.tell(&cluster.namespace);
    let image = "localhost/tillerman:test";
    let place = json!({"storageType": "S3", "s3": {"path": "backups/my/db", "awsSecret": "aws"}, "image": image, "archiveEverySecond": 1});
    cluster.create(&json!({"replicas": 2, "backup": place, "backupOnDelete": true}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    writers.more(20).await;
    cluster.kubectl(&["annotate", "mysql", "my", "tillerman.dev/operation=backup@1"]).unwrap();
    eventually("the backup is there", || {
        let status = cluster.get(&["mysql", "my"])?["status"].clone();
        let operation = &status["operations"]["backup"];
        if operation["result"] == "Succeeded" { Ok(()) } else { Err(format!("{operation} {}", status["conditions"])) }
    });
    writers.more(20).await;
    let keys = writers.stop().await;
    cluster.kubectl(&["delete", "mysql", "my", "--timeout=180s"]).unwrap();
    eventually("the claims have gone", || {
        let claims = cluster.kubectl(&["get", "pvc", "-o", "name"])?;
        if claims.is_empty() { Ok(()) } else { Err(claims) }
    });
    let from = json!({"storageType": "S3", "s3": {"path": "backups/my/latest", "awsSecret": "aws"}, "namePrefix": "db", "image": image});
    cluster.create(&json!({"replicas": 2, "restore": from}));
    cluster.has_all(&keys).await;
}
