//! Databases with one primary and replicas under the operator: the API server, its controllers and the requests to agents are real; the
//! agents hold a database in memory (`tests/support/agents.rs`).
//!
//! What the operator decides: docs/design/primary.md.

use std::collections::BTreeSet;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tillerman::agent::contract::Verb;

use crate::agents::{Agents, certificates};
use crate::harness::{Operator, Space, eventually, eventually_within, repository};
use crate::node::net;
use crate::rights::{forbidden, with_exactly};

const PATIENCE: u64 = 180;

/// A release `a` with a cluster.
pub struct PrimaryCluster {
    pub space: Space,
    pub agents: Agents,
    net: String,
    values: Map<String, Value>,
}

impl PrimaryCluster {
    fn new(test: &str) -> Self {
        Self::within(Space::new(test))
    }

    pub fn within(space: Space) -> Self {
        let net = net(&space, "a");
        let folder = space.dir().join("certificates");
        std::fs::create_dir_all(&folder).unwrap();
        certificates(&folder, (0..5).map(|ordinal| format!("{net}.1{ordinal}")));
        let agents = Agents::new(&space, &net, &folder);
        let values = Map::from_iter([("net".to_owned(), json!(net))]);
        Self { space, agents, net, values }
    }

    pub fn operator(&self) -> Operator {
        self.space.operator(&self.space.watches(&[("Web", "primary")]), &[])
    }

    /// Makes the Secret with the certificates that the operator shows.
    pub fn secret(&self, name: &str, key: &str) {
        let folder = self.space.dir().join("certificates").display().to_string();
        let file = |key: &str, file: &str| format!("--from-file={key}={folder}/{file}");
        let (ca, certificate, key) = (file("ca.crt", "ca.crt"), file("tls.crt", "client.crt"), file("tls.key", key));
        self.space.kubectl(&["create", "secret", "generic", name, &ca, &certificate, &key]).unwrap();
    }

    /// One with an operator and so many members.
    pub fn grown(test: &str, size: u32) -> (Self, Operator) {
        let mut cluster = Self::new(test);
        cluster.secret("certificates", "client.key");
        let operator = cluster.operator();
        cluster.resize(size);
        cluster.wait(size);
        (cluster, operator)
    }

    pub fn set(&mut self, values: &Value) {
        self.values.extend(values.as_object().cloned().unwrap_or_default());
        self.space.apply("Web", "a", &Value::Object(self.values.clone()));
    }

    pub fn resize(&mut self, size: u32) {
        self.set(&json!({"size": size}));
    }

    fn latched(&self) -> Result<Value, String> {
        let web = self.space.get("web/a")?;
        web.pointer("/status/members/db/latch/primary").cloned().ok_or_else(|| format!("nothing in {}", web["status"]))
    }

    /// The ordinal of the primary, by the latch.
    pub fn primary(&self) -> u32 {
        let latched = self.latched().unwrap();
        u32::try_from(latched["ordinal"].as_u64().unwrap_or_else(|| panic!("{latched}"))).unwrap()
    }

    fn epoch(&self) -> u64 {
        self.latched().unwrap()["epoch"].as_u64().unwrap()
    }

    /// The roles of the pods by ordinal, as Services see them.
    fn roles(&self) -> Result<Vec<String>, String> {
        let mut pods = self.space.list("pods")?;
        pods.retain(|pod| pod["metadata"]["labels"]["app"] == "a");
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let role = |pod: &Value| pod["metadata"]["labels"]["tillerman.dev/role"].as_str().unwrap_or("none").to_owned();
        Ok(pods.iter().map(role).collect())
    }

    /// Waits until there are so many members, nothing is left to do, and a fail-over is safe where there are replicas.
    pub fn wait(&self, size: u32) {
        let replicas = size as usize - 1;
        eventually_within(PATIENCE, &format!("there are {size} members"), || {
            let web = self.space.get("web/a")?;
            let ready = self.space.condition("web/a", "Ready")?;
            let members = &web["status"]["members"]["db"];
            let seen = web["status"]["observedGeneration"] == web["metadata"]["generation"];
            let latched = &members["latch"]["primary"];
            let ackers = latched["ackers"].as_array().map_or(0, Vec::len);
            let roles = self.roles()?;
            let count = |role: &str| roles.iter().filter(|given| *given == role).count();
            let whole = members["replicas"] == size && ackers == replicas.min(2) && latched.get("change").is_none();
            let safe = members["safeToFailOver"] == (size > 1);
            let right = count("primary") == 1 && count("replica") == replicas && roles.len() == size as usize;
            let is_running = members["phase"] == "Running" && web["status"]["plan"]["state"] == "Complete";
            if seen && ready["status"] == "True" && whole && safe && right && is_running {
                Ok(())
            } else {
                Err(format!("{roles:?}, {ready}, {members}, {}", web["status"]["plan"]))
            }
        });
    }

    fn wait_reason(&self, reason: &str) -> String {
        eventually_within(PATIENCE, reason, || {
            let ready = self.space.condition("web/a", "Ready")?;
            let is_it = ready["reason"] == reason;
            if is_it { Ok(ready["message"].as_str().unwrap_or_default().to_owned()) } else { Err(ready.to_string()) }
        })
    }

    fn wait_message(&self, text: &str) {
        eventually_within(PATIENCE, text, || {
            let ready = self.space.condition("web/a", "Ready")?;
            let message = ready["message"].as_str().unwrap_or_default().to_owned();
            if message.contains(text) { Ok(()) } else { Err(message) }
        });
    }

    /// Waits until a client has had so many more answers.
    fn wait_writes(&self, more: usize) {
        let before = self.agents.database().acknowledged.len();
        eventually("writes are acknowledged", || {
            let now = self.agents.database().acknowledged.len();
            if now >= before + more { Ok(()) } else { Err(format!("{now} of {}", before + more)) }
        });
    }

    /// Every acknowledged key is on the primary and on each replica that the primary counts on.
    fn assert_nothing_lost(&self) {
        let members: Vec<u32> =
            self.agents.database().members.iter().filter(|(_, m)| m.runs).map(|(k, _)| *k).collect();
        for k in members {
            eventually(&format!("member {k} has all"), || {
                let database = self.agents.database();
                database.lacks(k).map_or(Ok(()), |key| Err(format!("{key} is missing")))
            });
        }
        let database = self.agents.database();
        assert_eq!(database.violations, Vec::<String>::new());
        assert!(database.acknowledged.len() > 20, "clients write");
    }
}

/// 1 → 3, the primary is another after a fail-over, and hands over when it has to leave: 3 → 1. No acknowledged write
/// is lost. The operator has exactly the rights that `tillerman rbac` prints for the chart.
#[test]
fn a_cluster_grows_fails_over_and_shrinks_with_its_primary_among_those_that_go() {
    let mut cluster = PrimaryCluster::within(with_exactly("primary", &repository("tests/charts/primary"), &[]));
    let operator = cluster.operator();
    cluster.resize(1);
    cluster.wait_message("waiting for Secret certificates, which spec.primary.tls names");
    cluster.secret("certificates", "client.key");
    cluster.wait(1);
    let map = cluster.space.get("configmap/a-db-roles").unwrap();
    assert_eq!((&map["data"]["PRIMARY"], &map["data"]["EPOCH"]), (&json!("a-db-0"), &json!("1")));
    assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "a");
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    cluster.resize(3);
    cluster.wait(3);
    let status = cluster.space.get("web/a").unwrap()["status"]["members"]["db"].clone();
    let roles: Vec<&Value> = status["members"].as_array().unwrap().iter().map(|member| &member["role"]).collect();
    assert_eq!(roles, ["Primary", "Replica", "Replica"], "{status}");
    assert_eq!((&status["primary"], &status["members"][1]["version"]), (&json!("a-db-0"), &json!("1.0")));
    let of = |pod: u32, role: &str| {
        format!(
            "controller=\"web-controller\",namespace=\"{0}\",name=\"a\",pod=\"a-db-{pod}\",role=\"{role}\"",
            cluster.space.name
        )
    };
    let database =
        format!("{{controller=\"web-controller\",namespace=\"{}\",name=\"a\",members=\"db\"}}", cluster.space.name);
    let lines = [
        format!("tillerman_primary_safe_to_fail_over{database} 1"),
        format!("tillerman_primary_takes_writes{database} 1"),
        format!("tillerman_member_up{{{}}} 1", of(0, "Primary")),
        format!("tillerman_member_up{{{}}} 1", of(2, "Replica")),
        format!("tillerman_member_lag_seconds{{{}}} 0.0", of(1, "Replica")),
        format!("tillerman_member_waiting_commits{{{}}} 0", of(0, "Primary")),
    ];
    eventually("the metrics show it", || {
        let metrics = operator.metrics();
        lines
            .iter()
            .find(|line| !metrics.contains(*line))
            .map_or(Ok(()), |line| Err(format!("{line} is not in {metrics}")))
    });

    // The primary is killed.
    let began = Instant::now();
    cluster.agents.database().crash(0);
    eventually("another is the primary", || match cluster.latched()? {
        latched if latched["ordinal"].as_u64().is_some_and(|k| k != 0) => Ok(()),
        latched => Err(latched.to_string()),
    });
    let latched_after = began.elapsed();
    cluster.wait_writes(1);
    println!("a fail-over: latched after {latched_after:.1?}, written again after {:.1?}", began.elapsed());
    cluster.wait(3);
    assert!(cluster.space.wait_event("PrimaryLost").contains("a-db-0"));
    assert!(cluster.space.wait_event("PrimaryChanged").contains("in place of a-db-0"));
    let last = cluster.latched().unwrap()["last"].clone();
    assert_eq!((&last["kind"], &last["from"]), (&json!("FailOver"), &json!(0)), "{last}");

    // It has to leave.
    let (p, epoch) = (cluster.primary(), cluster.epoch());
    assert!(p > 0);
    let began = Instant::now();
    cluster.resize(1);
    cluster.wait(1);
    println!("3 to 1 in {:.1?}", began.elapsed());
    assert_eq!((cluster.primary(), cluster.epoch()), (0, epoch + 1));
    let last = cluster.space.get("web/a").unwrap()["status"]["members"]["db"]["lastChange"].clone();
    let expected = json!(["SwitchOver", format!("a-db-{p}"), "a-db-0", format!("a-db-{p} leaves")]);
    assert_eq!(json!([last["kind"], last["from"], last["to"], last["why"]]), expected);
    for gone in ["pod/a-db-1", "pod/a-db-2", "pvc/data-a-db-1", "pvc/data-a-db-2"] {
        cluster.space.wait_gone(gone);
    }
    cluster.wait_writes(5);
    writer.abort();
    cluster.assert_nothing_lost();
    operator.settle();
    assert_eq!(forbidden(&cluster.space), BTreeSet::new());
    let folder = cluster.space.dir().join("certificates/client.key");
    let key = std::fs::read_to_string(folder).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let texts = cluster.space.kubectl(&["get", "events,webs.test.tillerman.dev,configmaps", "-o", "yaml"]).unwrap();
    assert!(!texts.contains(secret) && !operator.log().contains(secret));
}

/// Members fall asleep and wake under a writer: the primary continues without a fail-over, no volume goes, and nothing is lost.
#[test]
fn a_cluster_sleeps_and_wakes_with_the_same_primary() {
    let (mut cluster, operator) = PrimaryCluster::grown("primarysleep", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    let epoch = cluster.epoch();
    let claims = |cluster: &PrimaryCluster| -> BTreeSet<String> {
        let all = cluster.space.list("persistentvolumeclaims").unwrap();
        all.iter().map(|claim| claim["metadata"]["uid"].to_string()).collect()
    };
    let before = claims(&cluster);
    for way in ["tillerman.dev/sleep=true", ""] {
        if way.is_empty() {
            cluster.set(&json!({"sleep": true}));
        } else {
            cluster.space.kubectl(&["annotate", "web/a", way]).unwrap();
        }
        cluster.wait_reason("Asleep");
        let members = cluster.space.get("web/a").unwrap()["status"]["members"]["db"].clone();
        assert_eq!((&members["replicas"], &members["phase"]), (&json!(0), &json!("Asleep")), "{members}");
        assert_eq!(cluster.space.get("statefulset/a-db").unwrap()["spec"]["replicas"], 0);
        assert_eq!(cluster.roles().unwrap(), Vec::<String>::new());
        operator.settle();
        assert_eq!(claims(&cluster), before);
        if way.is_empty() {
            cluster.set(&json!({"sleep": false}));
        } else {
            cluster.space.kubectl(&["annotate", "web/a", "tillerman.dev/sleep-"]).unwrap();
        }
        let began = Instant::now();
        cluster.wait(3);
        println!("awake after {:.1?}", began.elapsed());
        cluster.wait_writes(5);
        assert_eq!((cluster.primary(), cluster.epoch()), (0, epoch));
    }
    assert_eq!(claims(&cluster), before);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// The operator is killed before and after each order of a growth, a fail-over and a switch-over: a second operator finishes what was begun,
/// and no acknowledged write is lost.
#[test]
fn an_operator_that_is_killed_before_and_after_each_order_loses_nothing() {
    let mut cluster = PrimaryCluster::new("primarykill");
    cluster.secret("certificates", "client.key");
    let mut operator = cluster.operator();
    cluster.resize(1);
    cluster.wait(1);
    let writer = cluster.agents.writer(0);
    let orders = cluster.agents.announced();
    let mut killed = BTreeSet::new();
    let mut carry_on = |cluster: &PrimaryCluster, is_done: &dyn Fn(&PrimaryCluster) -> bool| {
        let end = Instant::now() + Duration::from_secs(240);
        while !is_done(cluster) {
            assert!(Instant::now() < end, "{}", cluster.space.get("web/a").unwrap()["status"]);
            match orders.recv_timeout(Duration::from_millis(200)) {
                // Each kind of order, to each member, is interrupted once before and once after it is obeyed.
                Ok(order) if killed.insert((order.ordinal, brief(&order.verb), order.obeyed)) => {
                    std::mem::replace(&mut operator, cluster.operator()).kill();
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the agents ended"),
            }
        }
    };
    let is_whole = |size: u32| {
        move |cluster: &PrimaryCluster| {
            let web = cluster.space.get("web/a").unwrap();
            let members = &web["status"]["members"]["db"];
            let latched = &members["latch"]["primary"];
            let ackers = latched["ackers"].as_array().map_or(0, Vec::len);
            let whole = ackers == (size as usize - 1).min(2) && latched["acks"] == u32::from(size > 1);
            members["replicas"] == size && whole && latched["ordinal"].is_u64() && latched.get("change").is_none()
        }
    };
    cluster.resize(3);
    carry_on(&cluster, &is_whole(3));
    cluster.agents.database().crash(0);
    let replaced = |cluster: &PrimaryCluster| cluster.epoch() > 1 && is_whole(3)(cluster);
    carry_on(&cluster, &replaced);
    let p = cluster.primary();
    assert!(p > 0);
    cluster.resize(1);
    carry_on(&cluster, &is_whole(1));
    drop(orders);
    cluster.wait(1);
    assert_eq!(cluster.primary(), 0);
    cluster.wait_writes(5);
    writer.abort();
    cluster.assert_nothing_lost();
    println!("killed at {killed:?}");
    let kinds: BTreeSet<&str> = killed.iter().map(|(_, name, _)| *name).collect();
    for kind in ["promote", "follow", "seed", "fence", "demote"] {
        assert!(kinds.contains(kind), "{kind} was not interrupted: {killed:?}");
    }
}

fn brief(verb: &Verb) -> &'static str {
    verb.name()
}

/// Two operators act at once, and one of them is suspended in the middle of what it does while the other one fails over. What it does with
/// its old view afterwards harms nothing.
#[test]
fn two_operators_of_which_one_is_suspended_lose_nothing() {
    let (cluster, first) = PrimaryCluster::grown("primarytwo", 3);
    let operators = [first, cluster.operator()];
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    for round in 0..6 {
        let (p, epoch) = (cluster.primary(), cluster.epoch());
        let suspended = &operators[round % 2];
        cluster.agents.database().crash(p);
        // At another moment of the fail-over each time.
        std::thread::sleep(Duration::from_millis(150 * round as u64));
        suspended.signal("STOP");
        eventually("the other one fails over", || match cluster.latched()? {
            latched if latched["epoch"].as_u64() > Some(epoch) && latched["ordinal"].is_u64() => Ok(()),
            latched => Err(latched.to_string()),
        });
        cluster.wait_writes(3);
        suspended.signal("CONT");
        cluster.wait(3);
        assert_eq!(cluster.epoch(), epoch + 1, "one fail-over for one loss");
    }
    writer.abort();
    cluster.assert_nothing_lost();
}

/// Only the operator does not reach the primary: it stays. The primary and a replica are lost: nobody takes over by itself,
/// and a person can accept the loss.
#[test]
fn a_primary_that_only_the_operator_does_not_reach_stays_and_a_double_failure_needs_a_person() {
    let (cluster, _operator) = PrimaryCluster::grown("primarycut", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    cluster.agents.cut(&[0]);
    cluster.wait_message("the agent of a-db-0, from which a-db-1 receives");
    // Longer than a primary may be silent.
    let began = Instant::now();
    eventually("time passes", || if began.elapsed() > Duration::from_secs(9) { Ok(()) } else { Err("it is early") });
    assert_eq!((cluster.primary(), cluster.epoch()), (0, 1));
    cluster.wait_writes(5);
    cluster.agents.cut(&[]);
    cluster.wait(3);

    cluster.agents.database().stopped.extend([0, 2]);
    let message = cluster.wait_reason("FailoverUnsafe");
    assert!(message.contains("these members have to answer first: a-db-2"), "{message}");
    let said = message.split_once("tillerman.dev/force-new-cluster=").unwrap().1.trim_end_matches('.').to_owned();
    assert_eq!(said, "1@1");
    assert_eq!(cluster.space.get("web/a").unwrap()["status"]["members"]["db"]["safeToFailOver"], false);
    let annotation = format!("tillerman.dev/force-new-cluster={said}");
    cluster.space.kubectl(&["annotate", "webs.test.tillerman.dev", "a", &annotation]).unwrap();
    eventually_within(PATIENCE, "the other goes on", || match cluster.latched()? {
        latched if latched["ordinal"] == 1 && latched["epoch"] == 2 => Ok(()),
        latched => Err(latched.to_string()),
    });
    // Writes that only the others had are lost, as was accepted. They come back as replicas.
    {
        let mut database = cluster.agents.database();
        let has: BTreeSet<u64> = database.members[&1].log.iter().map(|(_, _, key)| *key).collect();
        database.acknowledged.retain(|key| has.contains(key));
        database.violations.clear();
        // With its acker it would take writes, which are lost as well.
        database.crash(0);
        database.stopped.clear();
    }
    cluster.wait(3);
    cluster.wait_writes(5);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// A new template restarts replicas first, and the primary hands over before its pod goes.
#[test]
fn a_new_template_restarts_replicas_first_and_the_primary_last() {
    let (mut cluster, _operator) = PrimaryCluster::grown("primaryroll", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    cluster.set(&json!({"version": "2"}));
    for ordinal in 0..3 {
        let pod = format!("pod/a-db-{ordinal}");
        cluster.space.wait_field(&pod, "/spec/containers/0/image", &json!("db:2"));
    }
    cluster.wait(3);
    let evicted = crate::members::writes(&cluster.space).into_iter().filter_map(|write| {
        Some(write.strip_prefix("create a-db-")?.strip_suffix("/eviction")?.parse::<u32>().unwrap())
    });
    assert_eq!(evicted.collect::<Vec<_>>(), [2, 1, 0]);
    let last = cluster.latched().unwrap()["last"].clone();
    assert_eq!(last["kind"], "SwitchOver", "{last}");
    writer.abort();
    cluster.assert_nothing_lost();
}

/// While a backup runs, no member comes, and a primary that is lost is replaced all the same.
#[test]
fn a_lost_primary_does_not_wait_for_the_end_of_an_operation() {
    let (mut cluster, _operator) = PrimaryCluster::grown("primarybackup", 2);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    let ask = ["annotate", "webs.test.tillerman.dev", "a", "tillerman.dev/operation=backup@1"];
    cluster.space.kubectl(&ask).unwrap();
    cluster.space.wait_field("web/a", "/status/operation/name", &json!("backup"));
    cluster.resize(3);
    cluster.agents.database().crash(0);
    eventually_within(PATIENCE, "another is the primary", || match cluster.latched()? {
        latched if latched["ordinal"] == 1 => Ok(()),
        latched => Err(latched.to_string()),
    });
    cluster.wait_writes(5);
    eventually("the status names it", || match cluster.space.get("web/a")?["status"]["members"]["db"].clone() {
        members if members["primary"] == "a-db-1" => Ok(()),
        members => Err(members.to_string()),
    });
    let status = cluster.space.get("web/a").unwrap()["status"].clone();
    assert_eq!(
        (&status["operation"]["name"], &status["plan"]["operation"]),
        (&json!("backup"), &json!("backup")),
        "{status}"
    );
    assert_eq!(cluster.space.get("statefulset/a-db").unwrap()["spec"]["replicas"], 2);
    // When it has ended, the third joins.
    let job = cluster.space.list("jobs").unwrap()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    eventually("its pod ends", || cluster.space.end_pod_of(&job, "Succeeded", |_| true));
    cluster.wait(3);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// An agent whose certificate is of another authority is not trusted, and what is wrong is said. The `ConfigMap` is the driver's.
#[test]
fn an_agent_with_a_certificate_of_somebody_else_is_not_asked() {
    let mut cluster = PrimaryCluster::new("primarytls");
    let other = cluster.space.dir().join("other");
    std::fs::create_dir_all(&other).unwrap();
    certificates(&other, std::iter::once(format!("{}.10", cluster.net)));
    let file = |key: &str, name: &str| format!("--from-file={key}={}/{name}", other.display());
    let of = [file("ca.crt", "ca.crt"), file("tls.crt", "client.crt"), file("tls.key", "client.key")];
    let mut create = vec!["create", "secret", "generic", "others"];
    create.extend(of.iter().map(String::as_str));
    cluster.space.kubectl(&create).unwrap();
    let _operator = cluster.operator();
    cluster.set(&json!({"size": 1, "secret": "others"}));
    cluster.wait_message("its certificate is not valid for this host and authority");
    cluster.secret("mixed", "member.key");
    cluster.set(&json!({"secret": "mixed"}));
    cluster.wait_message("Secret mixed: tls.key does not belong to tls.crt");
    cluster.secret("certificates", "client.key");
    cluster.set(&json!({"secret": "certificates"}));
    cluster.wait(1);
    // Somebody else's text is replaced, and a deleted map comes back.
    let by_hand = r#"{"data":{"PRIMARY":"a-db-7"}}"#;
    cluster.space.kubectl(&["patch", "configmap/a-db-roles", "--type=merge", "-p", by_hand]).unwrap();
    cluster.space.wait_field("configmap/a-db-roles", "/data/PRIMARY", &json!("a-db-0"));
    cluster.space.kubectl(&["delete", "configmap/a-db-roles"]).unwrap();
    eventually("it comes back", || cluster.space.get("configmap/a-db-roles"));
}

/// What another client adds to the map goes again, also when the map is immutable or held by a finalizer, and a lost primary is replaced
/// meanwhile.
#[test]
fn a_config_map_that_others_write_into_holds_up_no_fail_over() {
    let (cluster, operator) = PrimaryCluster::grown("primarymap", 3);
    let map = "configmap/a-db-roles";
    let patch = |text: &str| cluster.space.kubectl(&["patch", map, "--type=merge", "-p", text]).unwrap();
    let is_clean = || {
        let data = cluster.space.get(map)?["data"].clone();
        let keys: BTreeSet<&str> = data.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        if keys == BTreeSet::from(["ACKS", "DATA", "EPOCH", "PRIMARY"]) { Ok(()) } else { Err(data.to_string()) }
    };
    patch(r#"{"data":{"LD_PRELOAD":"/data/evil.so"}}"#);
    eventually("the key is gone", is_clean);
    patch(r#"{"data":{"EPOCH":"18446744073709551615"},"immutable":true}"#);
    eventually("the map is made again", || {
        let found = cluster.space.get(map)?;
        if found["immutable"] == true { Err(found.to_string()) } else { is_clean() }
    });
    operator.settle();
    patch(r#"{"metadata":{"finalizers":["example.com/held"]}}"#);
    cluster.space.kubectl(&["delete", map, "--wait=false"]).unwrap();
    let (before, epoch) = (cluster.primary(), cluster.epoch());
    cluster.agents.database().crash(before);
    eventually_within(PATIENCE, "another member is the primary", || {
        let latched = cluster.latched()?;
        let is_other =
            latched["ordinal"].as_u64() != Some(u64::from(before)) && latched["epoch"].as_u64() > Some(epoch);
        if is_other { Ok(()) } else { Err(latched.to_string()) }
    });
    eventually("the map is the driver's", is_clean);
    assert!(operator.stop());
}

/// The only replica is lost. Writes wait, and with `Degrade` they continue without acknowledgements. Then nobody takes over by itself.
#[test]
fn writes_wait_for_a_lost_replica_or_go_on_as_the_chart_says() {
    let (mut cluster, operator) = PrimaryCluster::grown("primarydegrade", 2);
    cluster.set(&json!({"primary": {"silentAfter": "5s"}}));
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    cluster.agents.database().stopped.insert(1);
    let message = cluster.wait_reason("WritesBlocked");
    assert!(message.contains("onReplicaLost: Degrade"), "{message}");
    let blocked =
        format!("tillerman_primary_takes_writes{{controller=\"web-controller\",namespace=\"{}\"", cluster.space.name);
    let metrics = operator.metrics();
    let line = metrics.lines().find(|line| line.starts_with(&blocked));
    assert!(line.is_some_and(|line| line.ends_with(" 0")), "{metrics}");
    let before = cluster.agents.database().acknowledged.len();
    cluster.set(&json!({"onReplicaLost": "Degrade"}));
    cluster.wait_writes(5);
    assert!(cluster.agents.database().acknowledged.len() > before);
    eventually("nobody is asked to acknowledge", || match cluster.latched()? {
        latched if latched["acks"] == 0 && latched.get("ackers").is_none() => Ok(()),
        latched => Err(latched.to_string()),
    });
    cluster.agents.database().stopped.insert(0);
    let message = cluster.wait_reason("FailoverUnsafe");
    assert!(message.contains("no other member has acknowledged its writes"), "{message}");
    assert_eq!((cluster.primary(), cluster.epoch()), (0, 1));
    cluster.agents.database().stopped.clear();
    cluster.wait(2);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// An earlier primary cannot take a write back. With `Keep` it stays as it is, and the others continue.
#[test]
fn a_diverged_member_is_kept_or_seeded_as_the_chart_says() {
    let (mut cluster, _operator) = PrimaryCluster::grown("primarykeep", 3);
    cluster.set(&json!({"primary": {"onDiverged": "Keep"}}));
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    {
        let mut database = cluster.agents.database();
        database.stuck.insert(0);
        database.crash(0);
    }
    let message = cluster.wait_reason("Diverged");
    assert!(message.contains("a-db-0 has writes that the primary lacks, and is kept as it is"), "{message}");
    cluster.wait_writes(5);
    let kept = cluster.agents.database().members[&0].log.clone();
    assert!(!kept.is_empty());
    cluster.set(&json!({"primary": {}}));
    cluster.wait(3);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// All are killed at once. The primary continues, as only it surely has all acknowledged writes.
#[test]
fn after_a_full_outage_the_primary_goes_on() {
    let (cluster, _operator) = PrimaryCluster::grown("primaryoutage", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    {
        let mut database = cluster.agents.database();
        (0..3).for_each(|k| database.crash(k));
    }
    let before = cluster.agents.database().acknowledged.len();
    eventually_within(PATIENCE, "writes are taken again", || {
        let now = cluster.agents.database().acknowledged.len();
        if now > before + 5 { Ok(()) } else { Err(format!("{now} of {before}: {:?}", cluster.latched())) }
    });
    cluster.wait(3);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// At rest a question to the primary waits for the end of its database.
#[test]
fn at_rest_the_operator_waits_for_the_end_of_the_primary() {
    let (cluster, _operator) = PrimaryCluster::grown("primaryends", 1);
    eventually("a question waits", || match cluster.agents.questions() {
        0 => Err("there is none".to_owned()),
        _ => Ok(()),
    });
}

/// The volume of a replica is lost for good. Its member begins with an empty one, and is seeded.
#[test]
fn a_member_whose_volume_is_lost_gets_another_one() {
    let (mut cluster, _operator) = PrimaryCluster::grown("primaryvolume", 3);
    cluster.set(&json!({"primary": {"deadAfter": "3s", "silentAfter": "5s"}}));
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    let uid =
        |cluster: &PrimaryCluster| cluster.space.get("pvc/data-a-db-2").map(|claim| claim["metadata"]["uid"].clone());
    let before = uid(&cluster).unwrap();
    // To the controller of volumes, a claim that was bound and names no volume is lost.
    let lost = ["annotate", "pvc/data-a-db-2", "pv.kubernetes.io/bind-completed=yes"];
    cluster.space.kubectl(&lost).unwrap();
    cluster.space.wait_field("pvc/data-a-db-2", "/status/phase", &json!("Lost"));
    eventually_within(PATIENCE, "there is another claim", || match uid(&cluster)? {
        uid if uid != before => Ok(()),
        uid => Err(uid.to_string()),
    });
    cluster.wait(3);
    cluster.wait_writes(5);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// The custom resource is deleted, and a new one of its name adopts the volumes. The member with the most writes is the primary.
#[test]
fn the_volumes_of_an_earlier_cluster_are_adopted() {
    let (mut cluster, _operator) = PrimaryCluster::grown("primaryadopt", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    let epoch = cluster.epoch();
    cluster.space.delete("web/a");
    cluster.space.wait_gone("statefulset/a-db");
    for ordinal in 0..3 {
        cluster.space.wait_gone(&format!("pod/a-db-{ordinal}"));
    }
    cluster.space.wait_gone("configmap/a-db-roles");
    cluster.resize(3);
    cluster.wait_message("claims of a-db already exist");
    cluster.set(&json!({"onOrphan": "Adopt"}));
    cluster.wait(3);
    assert!(cluster.epoch() > epoch, "orders of the earlier cluster are refused");
    cluster.wait_writes(5);
    writer.abort();
    cluster.assert_nothing_lost();
}

/// No replica receives from the primary, which the operator reaches. It stays, and writes wait until the ways are back.
#[test]
fn a_primary_that_no_replica_reaches_stays_and_writes_wait() {
    let (cluster, _operator) = PrimaryCluster::grown("primarysevered", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    cluster.agents.database().severed.extend([1, 2]);
    let stops = Instant::now();
    let mut last = (cluster.agents.database().acknowledged.len(), Instant::now());
    eventually("writes wait for longer than a primary may be silent", || {
        let now = cluster.agents.database().acknowledged.len();
        if now != last.0 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() > Duration::from_secs(8) { Ok(()) } else { Err(format!("{:?}", stops.elapsed())) }
    });
    assert_eq!((cluster.primary(), cluster.epoch()), (0, 1));
    cluster.agents.database().severed.clear();
    cluster.wait_writes(5);
    cluster.wait(3);
    assert_eq!((cluster.primary(), cluster.epoch()), (0, 1));
    writer.abort();
    cluster.assert_nothing_lost();
}

/// A person asks for another primary. What is not safe is refused, and each text is done once.
#[test]
fn a_requested_switch_over_is_done_once_or_refused_with_the_reason() {
    let (cluster, operator) = PrimaryCluster::grown("primaryasked", 3);
    let writer = cluster.agents.writer(0);
    cluster.wait_writes(20);
    let ask = |text: &str| {
        let annotation = format!("tillerman.dev/switch-over={text}");
        cluster.space.kubectl(&["annotate", "webs.test.tillerman.dev", "a", "--overwrite", &annotation]).unwrap();
        eventually_within(PATIENCE, text, || {
            let asked = cluster.space.get("web/a")?["status"]["members"]["db"]["switchOver"].clone();
            let is_over = asked["request"] == text && asked["result"] != "Started";
            if is_over { Ok(asked) } else { Err(asked.to_string()) }
        })
    };
    let asked = ask("2@noon");
    assert_eq!(asked, json!({"request": "2@noon", "result": "Succeeded"}));
    cluster.wait(3);
    assert_eq!((cluster.primary(), cluster.epoch()), (2, 2));
    let last = cluster.latched().unwrap()["last"].clone();
    assert_eq!((&last["kind"], &last["why"]), (&json!("SwitchOver"), &json!("it was requested (2@noon)")));
    let asked = ask("7");
    assert_eq!(asked["result"], "Refused");
    assert!(asked["message"].as_str().unwrap().contains("the member a-db-7 does not exist"), "{asked}");
    assert!(cluster.space.wait_event("SwitchOverRefused").contains("a-db-7"));
    // An operator that starts later does not do it again.
    operator.kill();
    let _operator = cluster.operator();
    assert_eq!(ask("any@1")["result"], "Succeeded");
    cluster.wait(3);
    assert_eq!(cluster.epoch(), 3);
    writer.abort();
    cluster.assert_nothing_lost();
}
