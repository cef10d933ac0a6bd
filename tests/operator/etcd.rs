//! Clusters of etcd under the operator: the API server, its controllers and the members are real; a process for each pod simulates
//! its container (`tests/support/node.rs`).
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::{Client, MemberAddOptions};
use serde_json::{Map, Value, json};

use crate::harness::{Operator, Space, eventually, eventually_within};
use crate::node::{Node, client_url, net};
use crate::writer::Writer;

/// A cluster grows by one member in about ten seconds: its leader must have known all others for five.
const PATIENCE: u64 = 240;

/// A release `a` with a cluster.
struct Cluster {
    space: Space,
    node: Node,
    net: String,
    values: Map<String, Value>,
}

/// A member as the list has it.
#[derive(Debug)]
struct Member {
    id: u64,
    name: String,
    learner: bool,
}

impl Cluster {
    fn new(test: &str) -> Self {
        let space = Space::new(test);
        let (node, net) = (Node::new(&space), net(&space, "a"));
        let values = Map::from_iter([("net".to_owned(), json!(net))]);
        Self { space, node, net, values }
    }

    fn operator(&self) -> Operator {
        self.space.operator(&self.space.watches(&[("Web", "etcd")]), &[])
    }

    /// One with an operator and so many members.
    fn grown(test: &str, size: u32, more: &Value) -> (Self, Operator) {
        let mut cluster = Self::new(test);
        let operator = cluster.operator();
        cluster.set(more);
        cluster.resize(size);
        cluster.wait(size);
        (cluster, operator)
    }

    /// Changes values.
    fn set(&mut self, values: &Value) {
        self.values.extend(values.as_object().cloned().unwrap_or_default());
    }

    fn resize(&mut self, size: u32) {
        self.set(&json!({"size": size}));
        self.space.apply("Web", "a", &Value::Object(self.values.clone()));
    }

    /// Waits until there are so many members and nothing is left to do.
    fn wait(&self, size: u32) {
        let want = (0..size).map(|k| format!("a-etcd-{k}")).collect::<BTreeSet<_>>();
        eventually_within(PATIENCE, &format!("there are {size} members"), || {
            let ready = self.space.condition("web/a", "Ready")?;
            let replicas = self.space.get("statefulset/a-etcd")?["spec"]["replicas"].clone();
            let claims = self.space.list("pvc")?.len();
            let status = self.space.get("web/a")?["status"].clone();
            let members = self.members()?;
            let names: BTreeSet<_> = members.iter().map(|member| member.name.clone()).collect();
            let voters = members.iter().all(|member| !member.learner) && members.len() == want.len();
            let told = &status["members"]["etcd"];
            let whole = ready["status"] == "True" && replicas == size && told["size"] == size;
            if whole && voters && names == want && claims == want.len() {
                Ok(())
            } else {
                Err(format!("replicas {replicas}, {claims} claims, {members:?}, {ready}, {}", status["plan"]))
            }
        });
    }

    /// Waits until the release is not ready for this reason; the message.
    fn wait_reason(&self, reason: &str) -> String {
        eventually_within(PATIENCE, reason, || {
            let ready = self.space.condition("web/a", "Ready")?;
            let is_it = ready["reason"] == reason;
            if is_it { Ok(ready["message"].as_str().unwrap_or_default().to_owned()) } else { Err(ready.to_string()) }
        })
    }

    fn url(&self, ordinal: u32) -> String {
        client_url(&self.net, ordinal)
    }

    fn client(&self, ordinal: u32) -> Result<Client, String> {
        let options = etcd_client::ConnectOptions::new().with_timeout(Duration::from_secs(2));
        let url = self.url(ordinal);
        self.node.runtime().block_on(Client::connect([url], Some(options))).map_err(|e| e.to_string())
    }

    /// The list of members, by the first.
    fn members(&self) -> Result<Vec<Member>, String> {
        let mut client = self.client(0)?;
        let list = self.node.runtime().block_on(client.member_list()).map_err(|e| e.to_string())?;
        let read = |m: &etcd_client::Member| Member { id: m.id(), name: m.name().into(), learner: m.is_learner() };
        Ok(list.members().iter().map(read).collect())
    }

    fn member(&self, ordinal: u32) -> u64 {
        let members = self.members().unwrap();
        members.iter().find(|m| m.name == format!("a-etcd-{ordinal}")).unwrap_or_else(|| panic!("{members:?}")).id
    }

    /// The ordinal of the leader.
    fn leader(&self) -> u32 {
        let mut client = self.client(0).unwrap();
        let leader = self.node.runtime().block_on(client.status()).unwrap().leader();
        let name = self.members().unwrap().into_iter().find(|m| m.id == leader).unwrap().name;
        name.rsplit_once('-').unwrap().1.parse().unwrap()
    }

    fn cluster_id(&self) -> Value {
        self.space.get("web/a").unwrap().pointer("/status/members/etcd/latch/cluster").unwrap().clone()
    }

    fn writer(&self) -> Writer {
        let _inside = self.node.runtime().enter();
        Writer::start((0..6).map(|ordinal| self.url(ordinal)).collect())
    }

    fn lost(&self, writer: Writer) -> usize {
        self.node.runtime().block_on(writer.lost(&self.url(0)))
    }

    /// The calls to members, from the events, in any order.
    fn calls(&self) -> Vec<String> {
        let events = self.space.list("events").unwrap();
        let of_calls = events.iter().filter(|event| event["reason"] == "MembersChanged");
        of_calls.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// F1, F16: the first learner is added as soon as the cluster is there; no acknowledged write is lost on the way.
#[test]
fn one_to_five_members_and_back_loses_no_write() {
    let (mut cluster, _operator) = Cluster::grown("etcdf1", 1, &json!({}));
    assert!(cluster.space.condition("web/a", "Stalled").is_ok_and(|stalled| stalled["status"] == "False"));
    let writer = cluster.writer();
    let mut before = 1;
    for size in [3, 5, 3, 1] {
        let began = std::time::Instant::now();
        cluster.resize(size);
        cluster.wait(size);
        println!("from {before} to {size} in {:.1?}, longest gap {:.3?}", began.elapsed(), writer.longest_gap());
        before = size;
    }
    let map = cluster.space.get("configmap/a-etcd-initial-cluster").unwrap();
    assert_eq!(map["data"]["ETCD_INITIAL_CLUSTER_STATE"], "existing");
    assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "a");
    assert_eq!(cluster.lost(writer), 0);
    // Only the driver writes it, and the text of somebody else is replaced.
    let by_hand = r#"{"data":{"ETCD_INITIAL_CLUSTER_STATE":"new"}}"#;
    cluster.space.kubectl(&["patch", "configmap/a-etcd-initial-cluster", "--type=merge", "-p", by_hand]).unwrap();
    let state = json!("existing");
    cluster.space.wait_field("configmap/a-etcd-initial-cluster", "/data/ETCD_INITIAL_CLUSTER_STATE", &state);
    cluster.space.kubectl(&["delete", "configmap/a-etcd-initial-cluster"]).unwrap();
    eventually("it comes back", || cluster.space.get("configmap/a-etcd-initial-cluster"));
}

/// The pod and the claim of a middle ordinal are destroyed, and another member takes its place.
#[test]
fn a_member_whose_pod_and_claim_are_destroyed_is_replaced() {
    let (cluster, _operator) = Cluster::grown("etcdgone", 3, &json!({"etcd": {"deadAfter": "2s"}}));
    let writer = cluster.writer();
    let before = cluster.member(1);
    cluster.space.delete("pvc/data-a-etcd-1");
    cluster.space.delete("pod/a-etcd-1");
    eventually_within(PATIENCE, "it leaves", || {
        let members = cluster.members()?;
        if members.iter().all(|member| member.id != before) { Ok(()) } else { Err(format!("{members:?}")) }
    });
    cluster.wait(3);
    assert_ne!(cluster.member(1), before);
    assert_eq!(cluster.lost(writer), 0);
}

/// F4: a pod that no node takes; its learner leaves again after the deadline, and writes continue all the time.
#[test]
fn a_learner_whose_pod_is_pending_for_ever_leaves_again() {
    let (mut cluster, _operator) = Cluster::grown("etcdf4", 1, &json!({"etcd": {"joinDeadline": "4s"}}));
    let writer = cluster.writer();
    cluster.node.hold("a-etcd-1");
    cluster.resize(2);
    let removed = || cluster.calls().iter().any(|call| call.ends_with("remove member 1"));
    eventually_within(PATIENCE, "the learner leaves", || if removed() { Ok(()) } else { Err("it is there") });
    println!("longest gap {:.3?}", writer.longest_gap());
    let ready = cluster.space.condition("web/a", "Ready").unwrap();
    assert_eq!(ready["status"], "False", "{ready}");
    cluster.node.take("a-etcd-1");
    cluster.wait(2);
    assert_eq!(cluster.lost(writer), 0);
}

/// F12: a voter that somebody added by hand and that no pod is: no member is called until it is gone.
#[test]
fn a_foreign_voter_stops_all_changes_until_it_is_gone() {
    let (mut cluster, _operator) = Cluster::grown("etcdf12", 3, &json!({}));
    let before = cluster.calls().len();
    let added = eventually("it is added", || {
        let mut client = cluster.client(0)?;
        let urls = vec!["http://127.0.0.99:2380".to_owned()];
        let add = client.member_add(urls, None::<MemberAddOptions>);
        cluster.node.runtime().block_on(add).map_err(|e| e.to_string())
    });
    let foreign = added.member().unwrap().id();
    cluster.resize(5);
    let message = cluster.wait_reason("ForeignMember");
    assert!(message.contains("http://127.0.0.99:2380"), "{message}");
    assert!(cluster.space.wait_event("ForeignMember").contains("127.0.0.99"));
    assert_eq!(cluster.calls().len(), before, "{:?}", cluster.calls());
    cluster.space.wait_field("statefulset/a-etcd", "/spec/replicas", &json!(3));
    let mut client = cluster.client(0).unwrap();
    cluster.node.runtime().block_on(client.member_remove(foreign)).unwrap();
    cluster.wait(5);
}

/// F13b: somebody takes the quorum by scaling the StatefulSet; it comes back, and no member is called.
#[test]
fn a_stateful_set_that_was_scaled_by_hand_gets_its_quorum_back() {
    let (cluster, _operator) = Cluster::grown("etcdf13", 3, &json!({}));
    let writer = cluster.writer();
    let before = cluster.calls().len();
    for wrong in ["1", "0", "5"] {
        cluster.space.kubectl(&["scale", "statefulset/a-etcd", &format!("--replicas={wrong}")]).unwrap();
        cluster.space.wait_field("statefulset/a-etcd", "/spec/replicas", &json!(3));
        cluster.wait(3);
    }
    assert_eq!(cluster.calls().len(), before, "{:?}", cluster.calls());
    assert_eq!(cluster.lost(writer), 0);
}

#[test]
fn a_cluster_sleeps_and_wakes_as_the_same_cluster() {
    let (cluster, operator) = Cluster::grown("etcdsleep", 3, &json!({}));
    let writer = cluster.writer();
    let (id, calls) = (cluster.cluster_id(), cluster.calls().len());
    for _ in 0..2 {
        cluster.space.kubectl(&["annotate", "web/a", "tillerman.dev/sleep=true"]).unwrap();
        cluster.wait_reason("Asleep");
        assert_eq!(cluster.space.get("statefulset/a-etcd").unwrap()["spec"]["replicas"], 0);
        operator.settle();
        assert_eq!(cluster.space.list("persistentvolumeclaims").unwrap().len(), 3);
        cluster.space.kubectl(&["annotate", "web/a", "tillerman.dev/sleep-"]).unwrap();
        cluster.wait(3);
        let latch = |web: &Value| web.pointer("/status/members/etcd/latch").cloned().unwrap_or_default();
        eventually("it no longer sleeps", || match latch(&cluster.space.get("web/a")?) {
            latch if latch.is_object() && latch.get("asleep").is_none() => Ok(()),
            latch => Err(latch.to_string()),
        });
    }
    assert_eq!((cluster.cluster_id(), cluster.calls().len()), (id, calls));
    assert_eq!(cluster.lost(writer), 0);
}

/// F15: two operators at once, without a lease: the list of members and the claims on the API server are enough.
#[test]
fn two_operators_at_once_grow_and_shrink_a_cluster_once() {
    let (mut cluster, _first) = Cluster::grown("etcdf15", 1, &json!({}));
    let _second = cluster.operator();
    let writer = cluster.writer();
    for size in [3, 1] {
        cluster.resize(size);
        cluster.wait(size);
    }
    assert_eq!(cluster.lost(writer), 0);
}

/// F19: a file has reached its quota: the history goes, the files are rewritten one by one, and writes are allowed again.
#[test]
fn space_that_ran_out_is_reclaimed_and_writes_go_on() {
    let (cluster, _operator) = Cluster::grown("etcdf19", 3, &json!({"flags": "--quota-backend-bytes=4194304"}));
    let mut client = cluster.client(0).unwrap();
    let value = vec![b'x'; 100 << 10];
    let full = || {
        let put = cluster.node.runtime().block_on(client.put("key", value.clone(), None));
        put.is_err_and(|error| error.to_string().contains("database space exceeded"))
    };
    assert!(std::iter::repeat_with(full).take(1000).any(|full| full), "the quota is not reached");
    let said = |what: &str| cluster.calls().iter().filter(|call| call.contains(what)).count();
    eventually_within(PATIENCE, "the alarm is disarmed", || {
        let (disarmed, ready) = (said("disarm the alarm NOSPACE"), cluster.space.condition("web/a", "Ready")?);
        if disarmed > 0 && ready["status"] == "True" { Ok(()) } else { Err(ready.to_string()) }
    });
    assert_eq!(said("compact the history before revision"), 1);
    assert_eq!(said("defragment member"), 3);
    let latch = cluster.space.get("web/a").unwrap().pointer("/status/members/etcd/latch/reclaimed").unwrap().clone();
    assert_eq!((&latch["over"], &latch["written"]), (&json!(true), &json!({"0": 1, "1": 1, "2": 1})));
    let mut client = cluster.client(0).unwrap();
    cluster.node.runtime().block_on(client.put("key", "again", None)).unwrap();
}

/// F22: a new minor version goes pod by pod, the leader's last.
#[test]
fn an_upgrade_goes_pod_by_pod_and_the_leader_is_the_last() {
    let (mut cluster, _operator) = Cluster::grown("etcdf22", 3, &json!({"version": "3.5.35"}));
    let leader = cluster.leader();
    let writer = cluster.writer();
    cluster.set(&json!({"version": "3.7.0"}));
    cluster.resize(3);
    let message = cluster.wait_reason("VersionSkipped");
    assert!(message.contains("go to 3.6 first"), "{message}");
    cluster.set(&json!({"version": "3.6.16"}));
    cluster.resize(3);
    for ordinal in 0..3 {
        cluster.space.wait_field(&format!("pod/a-etcd-{ordinal}"), "/spec/containers/0/image", &json!("etcd:3.6.16"));
    }
    cluster.wait(3);
    let evicted = crate::members::writes(&cluster.space).into_iter().filter_map(|write| {
        Some(write.strip_prefix("create a-etcd-")?.strip_suffix("/eviction")?.parse::<u32>().unwrap())
    });
    let evicted: Vec<u32> = evicted.collect();
    let followers = (0..3).rev().filter(|ordinal| *ordinal != leader);
    assert_eq!(evicted, followers.chain([leader]).collect::<Vec<_>>());
    for ordinal in 0..3 {
        let mut client = cluster.client(ordinal).unwrap();
        let status = cluster.node.runtime().block_on(client.status()).unwrap();
        assert_eq!(status.version(), "3.6.16");
    }
    println!("longest gap {:.3?}", writer.longest_gap());
    assert_eq!(cluster.lost(writer), 0);
}

/// The `ConfigMap` belongs to the driver.
#[test]
fn a_chart_with_a_config_map_of_that_name_is_refused() {
    let mut cluster = Cluster::new("etcdmap");
    let operator = cluster.operator();
    cluster.set(&json!({"map": "a-etcd-initial-cluster"}));
    cluster.resize(1);
    let stalled = cluster.space.wait("web/a", "Stalled", "True");
    let message = stalled["message"].as_str().unwrap();
    assert!(message.starts_with("Members etcd: the chart has ConfigMap a-etcd-initial-cluster"), "{message}");
    operator.settle();
    assert_eq!(crate::members::writes(&cluster.space), Vec::<String>::new());
    // One that somebody else made is not taken.
    cluster.space.kubectl(&["create", "configmap", "a-etcd-initial-cluster"]).unwrap();
    cluster.set(&json!({"map": ""}));
    cluster.resize(1);
    let waits = || {
        let ready = cluster.space.condition("web/a", "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default().to_owned();
        if message.contains("ConfigMap a-etcd-initial-cluster to be the driver's") { Ok(()) } else { Err(message) }
    };
    eventually("it waits", waits);
    cluster.space.kubectl(&["delete", "configmap/a-etcd-initial-cluster"]).unwrap();
    cluster.wait(1);
}

/// F9: two of three are away: a condition and an event, and nothing is done. No kubelet has to notice: the operator asks etcd itself.
#[test]
fn without_a_quorum_there_is_a_condition_and_an_event_and_nothing_is_done() {
    let (mut cluster, operator) = Cluster::grown("etcdf9", 3, &json!({}));
    operator.settle();
    let before = cluster.calls().len();
    for pod in ["a-etcd-1", "a-etcd-2"] {
        cluster.node.signal(pod, "STOP");
    }
    let message = cluster.wait_reason("QuorumLost");
    assert!(message.contains("members without an answer: a-etcd-1, a-etcd-2"), "{message}");
    assert!(cluster.space.wait_event("QuorumLost").contains("no member answers a linearizable read"));
    cluster.resize(5);
    eventually_within(PATIENCE, "it is looked at again", || {
        let web = cluster.space.get("web/a")?;
        let seen = web["status"]["observedGeneration"] == web["metadata"]["generation"];
        let ready = cluster.space.condition("web/a", "Ready")?;
        if seen && ready["reason"] == "QuorumLost" { Ok(()) } else { Err(web["status"].to_string()) }
    });
    cluster.space.wait_field("statefulset/a-etcd", "/spec/replicas", &json!(3));
    assert_eq!(cluster.calls().len(), before, "{:?}", cluster.calls());
    for pod in ["a-etcd-1", "a-etcd-2"] {
        cluster.node.signal(pod, "CONT");
    }
    cluster.wait(5);
}

/// Two of three are destroyed for good. The user sets the annotation that the condition names. The third continues alone with its data, and
/// the cluster grows again, even if the operator dies on the way.
#[test]
fn a_quorum_that_is_lost_for_good_is_recovered_from_the_survivor_when_the_user_says_so() {
    let (cluster, mut operator) = Cluster::grown("etcdforce", 3, &json!({}));
    let id = cluster.cluster_id();
    let mut client = cluster.client(2).unwrap();
    for number in 0..50 {
        cluster.node.runtime().block_on(client.put(format!("key/{number}"), "x", None)).unwrap();
    }
    for pod in ["a-etcd-0", "a-etcd-1"] {
        cluster.node.wipe(pod);
    }
    let lost = cluster.space.get("pvc/data-a-etcd-0").unwrap()["metadata"]["uid"].clone();
    let before = cluster.space.kubectl(&["get", "pvc/data-a-etcd-2", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let said = eventually_within(PATIENCE, "it is offered", || {
        let ready = cluster.space.condition("web/a", "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default();
        let said = message.split_once("tillerman.dev/force-new-cluster=").and_then(|(_, rest)| rest.split_once(' '));
        let said = said.filter(|(_, rest)| rest.starts_with("lets a-etcd-2 continue as a cluster of one"));
        said.map(|(said, _)| said.to_owned()).ok_or_else(|| ready.to_string())
    });
    assert_eq!(cluster.space.get("statefulset/a-etcd").unwrap()["spec"]["replicas"], 3);
    let annotation = format!("tillerman.dev/force-new-cluster={said}");
    cluster.space.kubectl(&["annotate", "webs.test.tillerman.dev", "a", &annotation]).unwrap();
    // It dies when it has begun, when no other pod is left, when the survivor can continue alone, and when data is deleted. A later stage
    // shows that the earlier ones were reached: each may last shorter than one look.
    let field = |object: &str, pointer: &str| cluster.space.get(object).ok()?.pointer(pointer).cloned();
    let begun = || field("web/a", "/status/members/etcd/latch/recovery").is_some();
    let alone = || field("statefulset/a-etcd", "/spec/ordinals/start") == Some(json!(2));
    let forced = || field("configmap/a-etcd-initial-cluster", "/data/ETCD_FORCE_NEW_CLUSTER").is_some();
    let data_goes = || match cluster.space.get("pvc/data-a-etcd-0") {
        Ok(claim) => claim["metadata"]["uid"] != lost || claim["metadata"].get("deletionTimestamp").is_some(),
        Err(why) => why.contains("NotFound"),
    };
    let stages: [(&str, &dyn Fn() -> bool); 4] = [
        ("begun", &|| begun() || data_goes()),
        ("alone", &|| alone() || forced() || data_goes()),
        ("forced", &|| forced() || data_goes()),
        ("data goes", &data_goes),
    ];
    for (stage, reached) in stages {
        eventually_within(PATIENCE, stage, || if reached() { Ok(()) } else { Err(stage) });
        operator.kill();
        operator = cluster.operator();
    }
    cluster.wait(3);
    assert_eq!(cluster.cluster_id(), id);
    let after = cluster.space.kubectl(&["get", "pvc/data-a-etcd-2", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    assert_eq!(after, before, "its data was kept");
    for ordinal in 0..3 {
        let mut client = cluster.client(ordinal).unwrap();
        let all = etcd_client::GetOptions::new().with_prefix().with_count_only();
        let found = cluster.node.runtime().block_on(client.get("key/", Some(all))).unwrap();
        assert_eq!(found.count(), 50, "of {ordinal}");
    }
    assert!(!forced(), "no member continues alone now");
    let told = cluster.space.wait_event("RecoveringQuorum");
    assert!(told.contains("are lost"), "{told}");
    drop(operator);
}

/// When the custom resource goes nobody leaves. F24: over the claims that are left the same cluster comes back, if that is
/// requested.
#[test]
fn a_deletion_calls_no_member_and_kept_claims_are_the_same_cluster_again() {
    let (mut cluster, _operator) = Cluster::grown("etcddel", 3, &json!({}));
    let (id, before) = (cluster.cluster_id(), cluster.calls().len());
    let mut client = cluster.client(0).unwrap();
    cluster.node.runtime().block_on(client.put("kept", "yes", None)).unwrap();
    cluster.space.delete("web/a");
    for gone in ["web/a", "statefulset/a-etcd", "pod/a-etcd-0", "pod/a-etcd-2", "configmap/a-etcd-initial-cluster"] {
        cluster.space.wait_gone(gone);
    }
    assert_eq!(cluster.calls().len(), before, "{:?}", cluster.calls());
    cluster.resize(3);
    let message = cluster.wait_reason("OrphanedVolumes");
    assert!(message.contains("onOrphan: Adopt"), "{message}");
    cluster.space.wait_field("statefulset/a-etcd", "/spec/replicas", &json!(0));
    cluster.set(&json!({"onOrphan": "Adopt"}));
    cluster.resize(3);
    cluster.wait(3);
    assert_eq!(cluster.cluster_id(), id);
    let mut client = cluster.client(2).unwrap();
    let found = cluster.node.runtime().block_on(client.get("kept", None)).unwrap();
    assert_eq!(found.count(), 1);
}

/// While the release is paused nothing is done, and afterwards it continues.
#[test]
fn a_pause_stops_members_from_coming_and_going() {
    let (mut cluster, operator) = Cluster::grown("etcdpause", 1, &json!({}));
    let before = cluster.calls().len();
    cluster.set(&json!({"size": 3}));
    let paused = json!({"tillerman.dev/paused": "true"});
    cluster.space.apply_with("Web", "a", &paused, &Value::Object(cluster.values.clone()));
    cluster.space.wait("web/a", "Paused", "True");
    operator.settle();
    assert_eq!(cluster.calls().len(), before);
    assert_eq!(cluster.members().unwrap().len(), 1);
    cluster.space.kubectl(&["annotate", "webs.test.tillerman.dev", "a", "tillerman.dev/paused-"]).unwrap();
    cluster.wait(3);
}

/// A password: its Secret is waited for, it may be there before the cluster has users, and no text shows it.
#[test]
fn a_password_is_read_from_its_secret_and_shown_nowhere() {
    let mut cluster = Cluster::new("etcdauth");
    let operator = cluster.operator();
    cluster.set(&json!({"etcd": {"auth": {"secretName": "root"}}}));
    cluster.resize(1);
    let waits = |text: &str| {
        eventually(text, || {
            let ready = cluster.space.condition("web/a", "Ready")?;
            let message = ready["message"].as_str().unwrap_or_default().to_owned();
            if message.contains(text) { Ok(()) } else { Err(message) }
        });
    };
    waits("waiting for Secret root, which spec.etcd.auth names");
    cluster.space.kubectl(&["create", "secret", "generic", "root", "--from-literal=username=root"]).unwrap();
    waits("Secret root has no key password");
    cluster.space.kubectl(&["delete", "secret/root"]).unwrap();
    let password = "correct-horse-battery";
    let literal = format!("--from-literal=password={password}");
    cluster.space.kubectl(&["create", "secret", "generic", "root", "--from-literal=username=root", &literal]).unwrap();
    cluster.wait(1);
    let mut client = cluster.client(0).unwrap();
    cluster.node.runtime().block_on(async {
        client.user_add("root", password, None).await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        client.auth_enable().await.unwrap();
    });
    cluster.set(&json!({"size": 2}));
    cluster.space.apply("Web", "a", &Value::Object(cluster.values.clone()));
    eventually_within(PATIENCE, "it has grown", || {
        let status = cluster.space.get("web/a")?["status"].clone();
        let ready = cluster.space.condition("web/a", "Ready")?;
        let done = status["members"]["etcd"]["replicas"] == 2 && ready["status"] == "True";
        if done { Ok(()) } else { Err(ready.to_string()) }
    });
    let texts = cluster.space.kubectl(&["get", "events,webs.test.tillerman.dev,configmaps", "-o", "yaml"]).unwrap();
    assert!(!texts.contains(password) && !operator.log().contains(password));
}
