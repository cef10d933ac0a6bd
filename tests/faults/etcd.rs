//! F2: the operator is killed around each single write while members of etcd come, go, are replaced and are upgraded. Each call to the
//! members is followed by a write of the status, and each write of a StatefulSet or a `ConfigMap` by another: so it also dies after
//! each call with nothing of it written down.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

pub mod restore;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};
use serde_json::{Value, json};

use crate::harness::Space;
use crate::killed::{Scene, Sweep};
use crate::node::{client_url, net};
use crate::proxy::ProxyFault;
use crate::release::Sight;
use crate::support::api;

/// helm-operator's annotation: an object that cannot be changed is recreated.
const UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
/// A key that is written once to each cluster.
const KEPT: &str = "kept";
/// The values of those that were acknowledged, by the URL of the first member: a cluster with another value, or none, is not the one
/// that was there before.
static WRITTEN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn put(space: &Space, name: &str, size: u32, more: &Value) {
    let mut spec = json!({"size": size, "net": net(space, name)});
    spec.as_object_mut().expect("it is an object").extend(more.as_object().cloned().unwrap_or_default());
    space.apply("Web", name, &spec);
}

/// The same for the first time. The releases before have ended right, and make room.
fn begin(space: &Space, name: &str, size: u32, more: &Value) {
    for old in api::objects(&space.name, "webs").unwrap() {
        let old = old["metadata"]["name"].as_str().unwrap_or_default();
        if old != name {
            // It may have gone meanwhile.
            let gone = |why: String| if why.contains("NotFound") { Ok(()) } else { Err(why) };
            api::delete(&space.name, &format!("web/{old}"), None).or_else(gone).unwrap();
            api::delete(&space.name, "pvc", Some(&format!("app={old}"))).unwrap();
        }
    }
    put(space, name, size, more);
}

/// A cluster as a custom resource of a kind has it, and the name of its StatefulSet.
#[derive(Clone, Copy)]
struct Cluster<'a> {
    kind: &'a str,
    name: &'a str,
    set: &'a str,
}

impl Cluster<'_> {
    /// So many members that all vote, each with a pod and a claim and no other, the custom resource ready, and the data that was there.
    fn is_at(self, sight: &Sight, size: u32) -> Result<(), String> {
        let Self { kind, name, set } = self;
        let replicas = sight.field("StatefulSet", set, "/spec/replicas")?;
        let told = sight.field(kind, name, "/status/members/etcd")?;
        let plan = sight.field(kind, name, "/status/plan")?;
        let claims = sight.names("PersistentVolumeClaim", &format!("data-{set}-"));
        let pods = sight.names("Pod", &format!("{set}-"));
        let there = replicas == size && told["size"] == size && told["replicas"] == size && told["ready"] == size;
        let count = size as usize;
        if !(there && plan["state"] == "Complete" && claims.len() == count && pods.len() == count) {
            return Err(format!("replicas {replicas}, claims {claims:?}, pods {pods:?}, {told}, {plan}"));
        }
        let url = self.url(sight, 0)?;
        let members = ask(&url, async |mut client| {
            let list = client.member_list().await?;
            Ok(list.members().iter().map(|m| (m.name().to_owned(), m.is_learner())).collect::<Vec<_>>())
        })?;
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let wanted: Vec<String> = (0..size).map(|k| format!("{set}-{k}")).collect();
        if names != wanted || members.iter().any(|(_, learner)| *learner) {
            return Err(format!("{members:?}"));
        }
        is_kept(&url)
    }

    fn url(self, sight: &Sight, ordinal: u32) -> Result<String, String> {
        let net = sight.field(self.kind, self.name, "/spec/net")?;
        Ok(client_url(net.as_str().unwrap_or_default(), ordinal))
    }
}

/// Of a release of the chart.
fn is_at(sight: &Sight, name: &str, size: u32) -> Result<(), String> {
    Cluster { kind: "Web", name, set: &format!("{name}-etcd") }.is_at(sight, size)
}

/// Asks a member, for two seconds each time.
fn ask<T>(url: &str, what: impl AsyncFnOnce(Client) -> Result<T, Error>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let asked = runtime.block_on(async {
        let options = ConnectOptions::new().with_timeout(Duration::from_secs(2));
        what(Client::connect([url], Some(options)).await?).await
    });
    asked.map_err(|e| format!("{url}: {e}"))
}

/// Whether a cluster has what was written to it. One that was not written to before is.
fn is_kept(url: &str) -> Result<(), String> {
    static NUMBER: Mutex<u32> = Mutex::new(0);
    let written = || WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = written().get(url).cloned();
    let Some(before) = before else {
        let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let value = number.to_string();
        ask(url, async |mut client| client.put(KEPT, value.as_str(), None).await)?;
        written().insert(url.to_owned(), value);
        return Ok(());
    };
    let found = ask(url, async |mut client| client.get(KEPT, None).await)?;
    let found = found.kvs().first().map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
    if found.as_deref() == Some(&*before) {
        Ok(())
    } else {
        Err(format!("the data is another: {found:?}, not {before}"))
    }
}

fn grows(fault: ProxyFault, test: &str) {
    let sweep = Sweep {
        test,
        chart: "etcd",
        lanes: 6,
        prepare: (&|space, name| begin(space, name, 1, &json!({})), &|sight, name| is_at(sight, name, 1)),
        act: &|space, name| put(space, name, 3, &json!({})),
        end: &|sight, name| is_at(sight, name, 3),
    };
    assert!(sweep.run_with(fault) > 12);
}

fn shrinks(fault: ProxyFault, test: &str) {
    let sweep = Sweep {
        test,
        chart: "etcd",
        lanes: 6,
        prepare: (&|space, name| begin(space, name, 3, &json!({})), &|sight, name| is_at(sight, name, 3)),
        act: &|space, name| put(space, name, 1, &json!({})),
        end: &|sight, name| is_at(sight, name, 1),
    };
    assert!(sweep.run_with(fault) > 8);
}

/// A member has lost its data, in turn the first, the second and the third: it is removed, wiped, and joins again. The next one's turn
/// comes in the same cluster, which is whole again by then.
fn replaces(fault: ProxyFault, test: &str) {
    // The claims of those that lost their data, by the run.
    let lost = Mutex::new(BTreeMap::new());
    let victim = |run: &str| run[1..].parse::<u32>().expect("a run has a number") % 3;
    let claim = |run: &str| format!("data-a-etcd-{}", victim(run));
    let sweep = Sweep {
        test,
        chart: "etcd",
        lanes: 6,
        prepare: (&|space, _| put(space, "a", 3, &json!({"etcd": {"deadAfter": "2s"}})), &|sight, _| {
            is_at(sight, "a", 3)
        }),
        act: &|scene: &Scene, run| {
            let uid = scene.get(&format!("pvc/{}", claim(run))).unwrap()["metadata"]["uid"].clone();
            lost.lock().unwrap().insert(run.to_owned(), uid);
            scene.node().wipe(&format!("a-etcd-{}", victim(run)));
        },
        end: &|sight, run| {
            let uid = sight.field("PersistentVolumeClaim", &claim(run), "/metadata/uid")?;
            if lost.lock().unwrap()[run] == uid {
                return Err("its claim is the one that it had".into());
            }
            is_at(sight, "a", 3)
        },
    };
    assert!(sweep.run_with(fault) > 10);
}

/// F22: pod by pod from 3.5 to 3.6, the leader's last.
fn upgrades(fault: ProxyFault, test: &str) {
    let version = |sight: &Sight, name: &str, wanted: &str| {
        is_at(sight, name, 3)?;
        let set = format!("{name}-etcd");
        let cluster = Cluster { kind: "Web", name, set: &set };
        for ordinal in 0..3 {
            let image = sight.field("Pod", &format!("{set}-{ordinal}"), "/spec/containers/0/image")?;
            let status = ask(&cluster.url(sight, ordinal)?, async |mut client| client.status().await)?;
            if status.version() != wanted || image != format!("etcd:{wanted}") {
                return Err(format!("member {ordinal} is {}, its pod has {image}", status.version()));
            }
        }
        Ok(())
    };
    let sweep = Sweep {
        test,
        chart: "etcd",
        lanes: 6,
        prepare: (&|space, name| begin(space, name, 3, &json!({"version": "3.5.35"})), &|sight, name| {
            version(sight, name, "3.5.35")
        }),
        act: &|space, name| put(space, name, 3, &json!({"version": "3.6.16"})),
        end: &|sight, name| version(sight, name, "3.6.16"),
    };
    assert!(sweep.run_with(fault) > 10);
}

/// Claims are to be larger, which cannot be changed in a StatefulSet: it is recreated around pods that keep running.
fn enlarges(fault: ProxyFault, test: &str) {
    const SIZE: u32 = 2;
    // The pods' uids, by the release.
    let before = Mutex::new(BTreeMap::new());
    let pods = |sight: &Sight, name: &str| -> Result<Vec<Value>, String> {
        (0..SIZE).map(|k| sight.field("Pod", &format!("{name}-etcd-{k}"), "/metadata/uid")).collect()
    };
    let sweep = Sweep {
        test,
        chart: "etcd",
        lanes: 6,
        prepare: (&|space, name| begin(space, name, SIZE, &json!({})), &|sight, name| {
            is_at(sight, name, SIZE)?;
            before.lock().unwrap().insert(name.to_owned(), pods(sight, name)?);
            Ok(())
        }),
        act: &|space, name| {
            let spec = json!({"size": SIZE, "net": net(space, name), "storage": "2Mi"});
            space.apply_with("Web", name, &json!({UPGRADE_FORCE: "true"}), &spec);
        },
        end: &|sight, name| {
            let set = format!("{name}-etcd");
            let storage = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
            let storage = sight.field("StatefulSet", &set, storage)?;
            if storage != "2Mi" {
                return Err(format!("claims have {storage}"));
            }
            let owner = sight.field("StatefulSet", &set, "/metadata/uid")?;
            for ordinal in 0..SIZE {
                let holds = sight.field("Pod", &format!("{set}-{ordinal}"), "/metadata/ownerReferences/0/uid")?;
                if holds != owner {
                    return Err(format!("pod {ordinal} belongs to {holds}, not {owner}"));
                }
            }
            let pods = pods(sight, name)?;
            if before.lock().unwrap()[name] != pods {
                return Err("its pods are not those that it had".into());
            }
            is_at(sight, name, SIZE)
        },
    };
    assert!(sweep.run_with(fault) > 3);
}

#[test]
fn after_each_write_while_a_cluster_grows() {
    grows(ProxyFault::Freeze, "etcd-grow");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_a_cluster_grows() {
    grows(ProxyFault::FreezeBefore, "etcd-ungrow");
}

#[test]
fn after_each_write_while_a_cluster_shrinks() {
    shrinks(ProxyFault::Freeze, "etcd-shrink");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_a_cluster_shrinks() {
    shrinks(ProxyFault::FreezeBefore, "etcd-unshrink");
}

#[test]
fn after_each_write_while_a_member_is_replaced() {
    replaces(ProxyFault::Freeze, "etcd-replace");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_a_member_is_replaced() {
    replaces(ProxyFault::FreezeBefore, "etcd-unreplace");
}

#[test]
fn after_each_write_while_a_cluster_is_upgraded() {
    upgrades(ProxyFault::Freeze, "etcd-upgrade");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_a_cluster_is_upgraded() {
    upgrades(ProxyFault::FreezeBefore, "etcd-unupgrade");
}

#[test]
fn after_each_write_while_claims_are_made_larger() {
    enlarges(ProxyFault::Freeze, "etcd-enlarge");
}

#[test]
#[ignore = "one of the long ones, which `make chaos` runs"]
fn before_each_write_while_claims_are_made_larger() {
    enlarges(ProxyFault::FreezeBefore, "etcd-unenlarge");
}

#[test]
fn after_each_write_while_a_cluster_is_founded() {
    let sweep = Sweep {
        test: "etcd-found",
        chart: "etcd",
        lanes: 6,
        prepare: (&|_, _| {}, &|_, _| Ok(())),
        act: &|space, name| begin(space, name, 1, &json!({})),
        end: &|sight, name| is_at(sight, name, 1),
    };
    assert!(sweep.run() > 8);
}
