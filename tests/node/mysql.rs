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
pub const OPERATOR: (&str, &str) = ("mysql-operator-system", "mysql-operator-controller-manager");
/// The images of the database.
pub const IMAGE: &str = "localhost/mariadb:10.11.19";

const NEWER: &str = "localhost/mariadb:11.8";

/// A cluster in a namespace of its own.
pub struct MySql {
    pub namespace: String,
    name: String,
    password: String,
}

impl MySql {
    pub fn new(test: &str) -> Self {
        Self::named(test, "my")
    }

    /// With a custom resource of this name.
    pub fn named(test: &str, name: &str) -> Self {
        let namespace = format!("{test}-{}", std::process::id());
        kubectl(&["create", "namespace", &namespace], None).unwrap();
        Self { namespace, name: name.to_owned(), password: String::new() }
    }

    /// Creates the custom resource, and waits until it is ready.
    pub fn create(&mut self, spec: &Value) {
        let mut body = json!({"apiVersion": "databases.tillerman.dev/v1alpha1", "kind": "MySQLCluster",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"image": IMAGE, "agentImage": "localhost/tillerman-agent:test", "storage": {"size": "1Gi", "onDelete": "Delete"}}});
        let fields = body["spec"].as_object_mut().unwrap();
        fields.extend(spec.as_object().unwrap().clone());
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
        self.settled();
        self.knows_password();
    }

    /// Another cluster of the namespace, instead of this one.
    pub fn turns_to(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.knows_password();
    }

    /// Reads the password of root.
    pub fn knows_password(&mut self) {
        let secret = self.get(&["secret", &format!("{}-root", self.name)]).unwrap();
        let password = BASE64.decode(secret["data"]["password"].as_str().unwrap()).unwrap();
        self.password = String::from_utf8(password).unwrap();
    }

    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        kubectl_in(&self.namespace, args)
    }

    pub fn get(&self, what: &[&str]) -> Result<Value, String> {
        get_in(&self.namespace, what)
    }

    pub fn patch(&self, spec: &Value) {
        self.kubectl(&["patch", "mysql", &self.name, "--type=merge", "-p", &json!({"spec": spec}).to_string()])
            .unwrap();
    }

    /// Waits until the custom resource, as it is now, is ready, with all members, and one of them could take over.
    pub fn settled(&self) {
        eventually("the cluster is ready", || {
            let cluster = self.get(&["mysql", &self.name])?;
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

    /// Waits until it sleeps.
    pub fn asleep(&self) {
        eventually("the cluster sleeps", || {
            let cluster = self.get(&["mysql", &self.name])?;
            let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let sleeps = conditions.iter().any(|c| c["type"] == "Ready" && c["reason"] == "Asleep");
            let pods =
                self.get(&["pods", "-l", &format!("app.kubernetes.io/instance={},tillerman.dev/role", self.name)])?;
            let has_pods = pods["items"].as_array().is_some_and(|pods| !pods.is_empty());
            if sleeps && !has_pods { Ok(()) } else { Err(cluster["status"].to_string()) }
        });
    }

    fn primary(&self) -> String {
        self.get(&["mysql", &self.name]).unwrap()["status"]["primary"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until another pod than this one is the primary.
    fn moved(&self, from: &str) {
        eventually("another member is the primary", || {
            let primary = self.primary();
            let asked = self.get(&["mysql", &self.name])?["status"]["members"]["db"]["switchOver"].clone();
            assert!(asked["result"] != "GivenUp" && asked["result"] != "Refused", "{asked}");
            if primary.is_empty() || primary == from { Err(primary) } else { Ok(()) }
        });
    }

    /// Where clients write: the address of the Service, which can be reached from here.
    pub fn writes(&self) -> Opts {
        let service = self.get(&["service", &format!("{}-primary", self.name)]).unwrap();
        reached(service["spec"]["clusterIP"].as_str().unwrap(), "root", &self.password)
    }

    /// The members by the names of their pods.
    fn members(&self) -> BTreeMap<String, Opts> {
        let pods = self
            .get(&[
                "pods",
                "-l",
                &format!("app.kubernetes.io/instance={},app.kubernetes.io/name=mysql,tillerman.dev/role", self.name),
            ])
            .unwrap();
        let text = |pod: &Value, at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let at = |pod: &Value| reached(&text(pod, "/status/podIP"), "root", &self.password);
        pods.iter().map(|pod| (text(pod, "/metadata/name"), at(pod))).collect()
    }

    /// Every member has every acknowledged key.
    pub async fn has_all(&self, keys: &[u64]) {
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

    /// Runs a command of the shell on this machine, in which `$p` is the database's process of a pod.
    fn at_process(&self, pod: &str, command: &str) {
        let uid = self.get(&["pod", pod]).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let script = format!(
            "for p in $(pgrep -x mariadbd); do if grep -q -e '{uid}' -e '{}' /proc/$p/cgroup /proc/$p/mountinfo; then {command} && found=1; fi; done; [ -n \"$found\" ]",
            uid.replace('-', "_")
        );
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{pod}: {command}");
    }

    /// Sends a signal to the database's process of a pod.
    fn signal(&self, pod: &str, signal: &str) {
        self.at_process(pod, &format!("kill -{signal} $p"));
    }

    /// Drops what a pod sends to these addresses, or what they send to it.
    fn part(&self, pod: &str, addresses: &[String], sends: bool) {
        let (hook, end) = if sends { ("output", "daddr") } else { ("input", "saddr") };
        let rules = format!(
            "table inet parted {{ chain way {{ type filter hook {hook} priority 0; ip {end} {{ {} }} drop; }}; }}",
            addresses.join(", ")
        );
        self.at_process(pod, &format!("echo '{rules}' | nsenter -t $p -n nft -f -"));
    }

    /// Undoes it.
    fn heal(&self, pod: &str) {
        self.at_process(pod, "nsenter -t $p -n nft delete table inet parted");
    }

    /// The address of a pod of this cluster.
    fn address(&self, pod: &str) -> String {
        self.get(&["pod", pod]).unwrap()["status"]["podIP"].as_str().unwrap().to_owned()
    }

    /// Deletes a pod without letting it end.
    pub fn kill(&self, pod: &str) {
        self.kubectl(&["delete", "pod", pod, "--grace-period=0", "--force"]).unwrap();
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["mysql,statefulsets,pods,pvc,configmaps", "events"] {
                eprintln!("{}", self.kubectl(&["get", what, "-o", "wide"]).unwrap_or_else(|why| why));
            }
            eprintln!("{}", self.kubectl(&["get", "mysql", &self.name, "-o", "yaml"]).unwrap_or_else(|why| why));
            for member in [0, 1, 2].map(|k| format!("{}-{k}", self.name)) {
                eprintln!(
                    "{member}: {}",
                    self.kubectl(&["logs", &member, "-c", "mysql", "--tail=60"]).unwrap_or_else(|why| why)
                );
            }
            if let Ok(log) =
                self.kubectl(&["logs", &format!("deployment/{}-import", self.name), "-c", "import", "--tail=30"])
            {
                eprintln!("import: {log}");
            }
            let log = ["-n", OPERATOR.0, "logs", &format!("deployment/{}", OPERATOR.1), "--tail=80"];
            eprintln!("{}", kubectl(&log, None).unwrap_or_else(|why| why));
        } else {
            let _ = self.kubectl(&["delete", "mysql", "--all", "--timeout=60s"]);
            let _ = kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], None);
        }
    }
}

/// The scripts of a new cluster are executed in the order of their names, and not again when a member comes.
#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_of_a_new_cluster_are_executed_once() {
    let mut my = MySql::new("mysqlinitdb");
    let scripts = json!({"2-rows.sql": "INSERT INTO app.t VALUES (7);",
        "1-tables.sql": "CREATE DATABASE app;\nCREATE TABLE app.t (id BIGINT AUTO_INCREMENT PRIMARY KEY);"});
    my.create(&json!({"replicas": 1, "initdbScripts": scripts}));
    let rows = |my: &MySql| my.writes();
    assert_eq!(numbers(&rows(&my), "SELECT id FROM app.t").await, [7]);
    my.patch(&json!({"replicas": 2}));
    my.settled();
    assert_eq!(numbers(&rows(&my), "SELECT id FROM app.t").await, [7]);
    // What cannot be executed is said, with the words of the database.
    my.kubectl(&["delete", "mysql", "my", "--timeout=90s"]).unwrap();
    let wrong = json!({"apiVersion": "databases.tillerman.dev/v1alpha1", "kind": "MySQLCluster",
        "metadata": {"name": "wrong", "namespace": my.namespace}, "spec": {"image": IMAGE, "replicas": 1,
        "agentImage": "localhost/tillerman-agent:test", "storage": {"size": "1Gi", "onDelete": "Delete"},
        "initdbScripts": {"a.sql": "SELEC 1"}}});
    kubectl(&["create", "-f", "-"], Some(&wrong.to_string())).unwrap();
    eventually("the condition has the error", || {
        let cluster = my.get(&["mysql", "wrong"])?;
        let conditions = cluster["status"]["conditions"].to_string();
        if conditions.contains("a.sql") && conditions.contains("ERROR 1064") { Ok(()) } else { Err(conditions) }
    });
}

/// The claims of a cluster, by their uids.
fn volumes(cluster: &MySql) -> BTreeSet<String> {
    let claims = cluster.get(&["pvc"]).unwrap();
    claims["items"].as_array().unwrap().iter().map(|claim| claim["metadata"]["uid"].to_string()).collect()
}

/// 1 → 3 → 5 → 2 under writers, with everything that happens to a cluster in between: no acknowledged write is lost.
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

    cluster.patch(&json!({"configuration": {"back_log": 77}}));
    cluster.settled();
    for (name, member) in cluster.members() {
        assert_eq!(numbers(&member, "SELECT @@back_log").await, [77], "{name}");
    }
    writers.more(20).await;
    done("a setting");

    let uids = || {
        let pods = cluster.get(&["pods", "-l", "app.kubernetes.io/instance=my,tillerman.dev/role"]).unwrap();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect::<BTreeSet<_>>()
    };
    let (before, since) = (uids(), std::time::Instant::now());
    cluster.patch(&json!({"configuration": {"max_connections": 177}}));
    for (name, member) in cluster.members() {
        // The kubelet brings the file into the pod within two minutes.
        while numbers(&member, "SELECT @@max_connections").await != [177] {
            assert!(since.elapsed() < Duration::from_secs(150), "{name} does not have the setting");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    cluster.settled();
    assert_eq!(uids(), before, "no pod was replaced");
    writers.more(20).await;
    done("a setting that needs no restart");

    let (primary, volumes) = (cluster.primary(), volumes(&cluster));
    cluster.patch(&json!({"sleep": true}));
    cluster.asleep();
    let since = std::time::Instant::now();
    cluster.patch(&json!({"sleep": false}));
    writers.more(1).await;
    eprintln!("awake: a write is acknowledged {:?} after it was asked for", since.elapsed());
    cluster.settled();
    assert_eq!(cluster.primary(), primary);
    assert_eq!(self::volumes(&cluster), volumes);
    writers.more(20).await;

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

/// A database that hangs is started again by its agent where nobody can take over: the only member; and a primary, while the pod of a replica is
/// killed, which may have been the only one with an acknowledged write. Everything that was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_is_started_again_where_nobody_can_take_over() {
    let mut cluster = MySql::new("mysql-hung");
    cluster.create(&json!({"replicas": 1, "hungAfter": "15s"}));
    let restarted = |pod: &str| -> Result<Value, String> {
        let members = cluster.get(&["mysql", "my"])?["status"]["members"]["db"]["members"].clone();
        let member = members.as_array().and_then(|all| all.iter().find(|member| member["name"] == pod)).cloned();
        let restarted = member.map(|member| member["restarted"].clone()).unwrap_or_default();
        if restarted.is_object() { Ok(restarted) } else { Err(members.to_string()) }
    };
    let writers = Writers::start(&[cluster.writes()], 2).await;
    writers.more(20).await;
    cluster.signal("my-0", "STOP");
    let since = std::time::Instant::now();
    eventually("its pod is not ready", || {
        let pod = cluster.get(&["pod", "my-0"])?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let unready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "False");
        if unready { Ok(()) } else { Err(pod["status"].to_string()) }
    });
    eprintln!("not ready after {:.1?}", since.elapsed());
    eventually("it is started again", || restarted("my-0"));
    writers.more(20).await;
    eprintln!("the only member hangs: longest gap {:?}", writers.longest_gap());

    cluster.patch(&json!({"replicas": 3}));
    cluster.settled();
    writers.more(20).await;
    writers.longest_gap();
    let primary = cluster.primary();
    let before = restarted(&primary).unwrap_or_default();
    let replica = cluster.members().into_keys().find(|name| *name != primary).unwrap();
    cluster.signal(&primary, "STOP");
    cluster.kill(&replica);
    eventually("it is started again", || match restarted(&primary) {
        Ok(now) if now != before => Ok(()),
        now => Err(format!("{now:?}")),
    });
    cluster.settled();
    writers.more(20).await;
    eprintln!("the primary hangs, and a replica is killed: longest gap {:?}", writers.longest_gap());
    let events = cluster.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).unwrap();
    assert!(events.contains("DatabaseRestarted"), "{events}");
    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
}

/// The network loses what one member sends to others, or to the operator, in one direction after the other; then the primary is alone.
/// Nobody takes over while the primary may still be the one that acknowledges, and no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_reach_each_other_one_way_only_lose_no_write() {
    let mut cluster = MySql::new("mysql-parted");
    cluster.create(&json!({"replicas": 3}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    writers.more(20).await;
    let operator = get_in(OPERATOR.0, &["pods", "-l", "control-plane=controller-manager"]).unwrap();
    let operator = operator["items"].as_array().unwrap().iter().filter_map(|pod| pod["status"]["podIP"].as_str());
    let operator: Vec<String> = operator.map(str::to_owned).collect();
    assert!(!operator.is_empty());
    let primary = cluster.primary();
    let replicas = || cluster.members().into_keys().filter(|name| *name != primary).map(|name| cluster.address(&name));
    let replicas: Vec<String> = replicas().collect();
    let change = || cluster.get(&["mysql", "my"]).unwrap()["status"]["members"]["db"]["lastChange"].clone();

    for sends in [true, false] {
        let way = if sends { "to" } else { "from" };
        // Longer than a primary may be silent. Replicas receive from it, so it is there.
        cluster.part(&primary, &operator, sends);
        eventually("the operator misses it", || {
            let cluster = cluster.get(&["mysql", "my"])?;
            let text = cluster["status"]["conditions"].to_string();
            if text.contains("the agent of") { Ok(()) } else { Err(text) }
        });
        let parted = std::time::Instant::now();
        while parted.elapsed() < Duration::from_secs(10) {
            writers.more(20).await;
        }
        eprintln!("nothing {way} the operator: longest gap {:?}", writers.longest_gap());
        cluster.heal(&primary);
        cluster.settled();

        // Nobody can acknowledge, and nobody else may take over: the primary answers.
        let before = writers.count();
        cluster.part(&primary, &replicas, sends);
        eventually("writes wait", || {
            let members = cluster.get(&["mysql", "my"])?["status"]["members"]["db"]["members"].clone();
            let follows = members
                .as_array()
                .is_some_and(|all| all.iter().any(|m| m["role"] == "replica" && m["lag"].is_number()));
            if follows { Err(members.to_string()) } else { Ok(()) }
        });
        assert_eq!(cluster.primary(), primary);
        cluster.heal(&primary);
        cluster.settled();
        writers.more(20).await;
        eprintln!(
            "nothing {way} the replicas: longest gap {:?}, {} writes",
            writers.longest_gap(),
            writers.count() - before
        );
        assert_eq!((cluster.primary(), change()), (primary.clone(), Value::Null), "nobody took over");
    }

    // Alone: a replica takes over, and what it still acknowledged is there.
    cluster.part(&primary, &[operator, replicas].concat(), true);
    cluster.moved(&primary);
    writers.more(20).await;
    eprintln!("the primary reaches nobody: longest gap {:?}", writers.longest_gap());
    assert_eq!(change()["kind"], "FailOver");
    cluster.heal(&primary);
    cluster.settled();
    let keys = writers.stop().await;
    cluster.has_all(&keys).await;
}

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

/// How long nobody could write when the primary hands over, when its database is killed, and when its pod is: `ROUNDS` of each. Some
/// clients reach the primary by the Service, others go from member to member themselves.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, for minutes: make mysql-figures"]
async fn the_gaps_of_many_switch_overs_and_fail_overs() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let mut cluster = MySql::new("mysql-figures");
    cluster.create(&json!({"replicas": 3}));
    let by_service = Writers::start(&[cluster.writes()], 2).await;
    let mut gaps: BTreeMap<(&str, &str), Vec<Duration>> = BTreeMap::new();
    let mut keys = Vec::new();
    // The addresses of pods stay until these are killed.
    let members: Vec<Opts> = cluster.members().into_values().collect();
    let mut direct = Some(by_service.beside(&members, 2));
    for what in ["hands over", "database is killed", "pod is killed"] {
        if what == "pod is killed"
            && let Some(writers) = direct.take()
        {
            keys.extend(writers.stop().await);
        }
        let clients =
            || std::iter::once(("by the Service", &by_service)).chain(direct.as_ref().map(|all| ("directly", all)));
        for round in 0..rounds {
            for (_, writers) in clients() {
                writers.more(100).await;
                writers.longest_gap();
            }
            let primary = cluster.primary();
            match what {
                "hands over" => {
                    let request = format!("tillerman.dev/switch-over=any@{round}");
                    cluster.kubectl(&["annotate", "mysql", "my", "--overwrite", &request]).unwrap();
                }
                "database is killed" => cluster.signal(&primary, "KILL"),
                _ => cluster.kill(&primary),
            }
            cluster.moved(&primary);
            for (_, writers) in clients() {
                writers.more(100).await;
            }
            cluster.settled();
            for (way, writers) in clients() {
                gaps.entry((what, way)).or_default().push(writers.longest_gap());
            }
        }
    }
    keys.extend(by_service.stop().await);
    cluster.has_all(&keys).await;
    for ((what, way), mut gaps) in gaps {
        gaps.sort();
        let (half, longest) = (gaps[gaps.len() / 2].as_millis(), gaps[gaps.len() - 1].as_millis());
        eprintln!("the primary {what}, {rounds} times, clients {way}: p50 {half} ms, longest {longest} ms");
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

/// A backup while clients write and a drill of it, a second backup before everything is deleted, and all data again from the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_deleted_comes_back_from_its_last_backup_with_every_row() {
    comes_back("mysql-backup", &json!({})).await;
}

/// The same with MySQL itself.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MySQL: make mysql-node"]
async fn a_cluster_of_mysql_itself_comes_back_from_its_last_backup_with_every_row() {
    comes_back("mysql-own-backup", &json!({"flavor": "mysql", "image": "localhost/mysql:9.7"})).await;
}

async fn comes_back(test: &str, of: &Value) {
    let gateway = Gateway::start();
    let mut cluster = MySql::new(test);
    gateway.tell(&cluster.namespace);
    let place = json!({"storageType": "S3", "s3": {"path": "backups/my/db", "awsSecret": "aws"}, "archiveEverySecond": 1,
        "drill": {"checks": ["SELECT 1 FROM app.t LIMIT 1"]}});
    let with = |more: Value| {
        let mut spec = of.clone();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    cluster.create(&with(json!({"replicas": 2, "backup": place, "backupOnDelete": true})));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    writers.more(20).await;
    for name in ["backup", "drill"] {
        cluster
            .kubectl(&["annotate", "--overwrite", "mysql", "my", &format!("tillerman.dev/operation={name}@1")])
            .unwrap();
        let run = eventually(&format!("the operation {name} succeeds"), || {
            let status = cluster.get(&["mysql", "my"])?["status"].clone();
            let operation = status["operations"][name].clone();
            if operation["result"] == "Succeeded" {
                Ok(operation)
            } else {
                Err(format!("{operation} {}", status["conditions"]))
            }
        });
        eprintln!("{name}: {run}");
        let said: Value = serde_json::from_str(run["message"].as_str().unwrap_or_default()).unwrap_or_default();
        assert!(name == "backup" || said["until"].is_string() && said["rows"] == 1, "{run}");
        writers.more(20).await;
    }
    // A check that fails is reported.
    let failing = json!({"backup": {"drill": {"checks": ["SELECT 1 FROM app.t WHERE id < 0"]}}});
    cluster.patch(&failing);
    cluster.settled();
    cluster.kubectl(&["annotate", "--overwrite", "mysql", "my", "tillerman.dev/operation=drill@2"]).unwrap();
    eventually("the drill fails with its reason", || {
        let status = cluster.get(&["mysql", "my"])?["status"].clone();
        let operation = status["operations"]["drill"].to_string();
        if operation.contains("check 1 returns no row") { Ok(()) } else { Err(operation) }
    });
    eventually("the condition says that the restore is not proven", || {
        let conditions = cluster.get(&["mysql", "my"])?["status"]["conditions"].clone();
        let proven =
            conditions.as_array().unwrap().iter().find(|c| c["type"] == "RestoreProven").cloned().unwrap_or_default();
        if proven["status"] == "False" && proven["reason"] == "RestoreFailed" {
            Ok(())
        } else {
            Err(proven.to_string())
        }
    });
    let keys = writers.stop().await;
    cluster.kubectl(&["delete", "mysql", "my", "--timeout=180s"]).unwrap();
    eventually("the claims have gone", || {
        let claims = cluster.kubectl(&["get", "pvc", "-o", "name"])?;
        if claims.is_empty() { Ok(()) } else { Err(claims) }
    });
    let from =
        json!({"storageType": "S3", "s3": {"path": "backups/my/latest", "awsSecret": "aws"}, "namePrefix": "db"});
    cluster.create(&with(json!({"replicas": 2, "restore": from})));
    cluster.has_all(&keys).await;
}

/// A backup on schedule, then only the archive: a new cluster has what was written until a time between two writes, and nothing later.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_backup_and_the_archive_restore_the_rows_of_a_time() {
    let gateway = Gateway::start();
    let mut cluster = MySql::new("mysql-archive");
    gateway.tell(&cluster.namespace);
    let shelf = json!({"storageType": "S3", "s3": {"path": "backups/my/db", "awsSecret": "aws"},
        "schedule": "* * * * *", "maxBackups": 2, "archiveEverySecond": 1});
    cluster.create(&json!({"replicas": 2, "backup": shelf}));
    let writers = Writers::start(&[cluster.writes()], 2).await;
    eventually("a backup was made by schedule", || {
        let status = cluster.get(&["mysql", "my"])?["status"].clone();
        if status["lastScheduledBackup"].is_string() { Ok(()) } else { Err(status.to_string()) }
    });
    cluster.patch(&json!({"backup": {"schedule": ""}}));
    cluster.settled();
    writers.more(200).await;
    let keys = writers.stop().await;
    let primary = cluster.writes();
    let second = || jiff::Timestamp::now().as_second();
    let later = async |than: i64| {
        while second() <= than {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second()
    };
    let time = later(second()).await;
    let count = numbers(&primary, "SELECT COUNT(*) FROM app.t").await;
    let after = later(time).await;
    run(&primary, "DELETE FROM app.t").await.unwrap();
    eventually("the archive has it", || {
        let seen = gateway.archived("my")?;
        if seen.as_second() > after { Ok(()) } else { Err(seen.to_string()) }
    });
    cluster.kubectl(&["delete", "mysql", "my", "--timeout=180s"]).unwrap();
    eventually("the claims have gone", || {
        let claims = cluster.kubectl(&["get", "pvc", "-o", "name"])?;
        if claims.is_empty() { Ok(()) } else { Err(claims) }
    });
    let until = jiff::Timestamp::from_second(time).unwrap().to_string();
    let from = json!({"storageType": "S3", "s3": {"path": "backups/my/latest", "awsSecret": "aws"}, "namePrefix": "db",
        "until": until});
    cluster.create(&json!({"replicas": 2, "restore": from}));
    cluster.has_all(&keys).await;
    assert_eq!(numbers(&cluster.writes(), "SELECT COUNT(*) FROM app.t").await, count);
}
