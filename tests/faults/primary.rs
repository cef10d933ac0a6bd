//! The operator is killed after each single write while a database with a primary fails over, grows and shrinks under writes. Each order to
//! an agent is followed by a write of the status or of an event: so it also dies after each order with nothing of it written down.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::json;

use crate::killed::{Scene, Sweep};
use crate::node::net;
use crate::proxy::ProxyFault;
use crate::release::Sight;

/// All runs of a lane have the same cluster, which is whole again by then.
fn put(scene: &Scene, size: u32, version: u32) {
    scene.apply("Web", "a", &json!({"size": size, "net": net(scene, "a"), "version": version.to_string()}));
}

/// So many members, of which each other one acknowledges, nothing in flight, and the epoch.
fn is_whole(sight: &Sight, size: u32) -> Result<u64, String> {
    let members = sight.field("Web", "a", "/status/members/db")?;
    let plan = sight.field("Web", "a", "/status/plan")?;
    let latched = &members["latch"]["primary"];
    let ackers = latched["ackers"].as_array().map_or(0, Vec::len);
    let (pods, claims) = (sight.names("Pod", "a-db-"), sight.names("PersistentVolumeClaim", "data-a-db-"));
    let count = size as usize;
    let right = members["size"] == size && members["replicas"] == size && pods.len() == count && claims.len() == count;
    let safe = ackers == count - 1 && latched["acks"] == u32::from(size > 1) && latched.get("change").is_none();
    let epoch = latched["epoch"].as_u64().filter(|_| right && safe && plan["state"] == "Complete");
    epoch.ok_or_else(|| format!("pods {pods:?}, claims {claims:?}, {members}, {plan}"))
}

/// Every acknowledged key is on the primary, and nobody took writes without one of them.
fn assert_nothing_lost(scene: &Scene, p: u32) {
    let database = scene.agents().database();
    assert_eq!((database.lacks(p), &database.violations), (None, &Vec::new()));
    assert!(!database.acknowledged.is_empty(), "clients write");
}

/// The first run of a lane makes the cluster, and clients begin to write.
fn begin(scene: &Scene) {
    if scene.get("web/a").is_err() {
        put(scene, 3, 0);
        drop(scene.agents().writer(0));
    }
}

fn primary(scene: &Scene) -> (u32, u64) {
    let latched = scene.get("web/a").unwrap()["status"]["members"]["db"]["latch"]["primary"].clone();
    let p = latched["ordinal"].as_u64().unwrap_or_else(|| panic!("{latched}"));
    (u32::try_from(p).unwrap(), latched["epoch"].as_u64().unwrap())
}

/// The primary is killed, again and again.
fn fails_over(fault: ProxyFault, test: &str) -> u64 {
    // The epochs before, by the run.
    let epochs = Mutex::new(BTreeMap::new());
    let sweep = Sweep {
        test,
        chart: "primary",
        lanes: 3,
        prepare: (&|scene, _| begin(scene), &|sight, _| is_whole(sight, 3).map(drop)),
        act: &|scene, run| {
            let (p, epoch) = primary(scene);
            assert_nothing_lost(scene, p);
            epochs.lock().unwrap().insert(run.to_owned(), epoch);
            scene.agents().database().crash(p);
        },
        end: &|sight, run| {
            let (epoch, before) = (is_whole(sight, 3)?, epochs.lock().unwrap()[run]);
            if epoch == before + 1 { Ok(()) } else { Err(format!("epoch {epoch} after {before}")) }
        },
    };
    sweep.run_with(fault)
}

#[test]
fn after_each_write_of_a_fail_over() {
    assert!(fails_over(ProxyFault::Freeze, "kill-failover") > 8);
}

#[test]
fn before_each_write_of_a_fail_over() {
    assert!(fails_over(ProxyFault::FreezeBefore, "kill-unfailover") > 8);
}

/// A new template restarts all pods, and the primary hands over before its own goes.
#[test]
fn after_each_write_of_a_restart_of_all_members_with_a_switch_over() {
    let number = |run: &str| run[1..].parse::<u32>().expect("a run has a number");
    let sweep = Sweep {
        test: "kill-switchover",
        chart: "primary",
        lanes: 3,
        prepare: (&|scene, _| begin(scene), &|sight, _| is_whole(sight, 3).map(drop)),
        act: &|scene, run| {
            assert_nothing_lost(scene, primary(scene).0);
            put(scene, 3, number(run));
        },
        end: &|sight, run| {
            for ordinal in 0..3 {
                let image = sight.field("Pod", &format!("a-db-{ordinal}"), "/spec/containers/0/image")?;
                if image != format!("db:{}", number(run)) {
                    return Err(format!("member {ordinal} has {image}"));
                }
            }
            is_whole(sight, 3).map(drop)
        },
    };
    assert!(sweep.run_with(ProxyFault::Freeze) > 15);
}

/// A different primary is requested.
#[test]
fn after_each_write_of_a_requested_switch_over() {
    let sweep = Sweep {
        test: "kill-requested",
        chart: "primary",
        lanes: 3,
        prepare: (&|scene, _| begin(scene), &|sight, _| is_whole(sight, 3).map(drop)),
        act: &|scene, run| {
            assert_nothing_lost(scene, primary(scene).0);
            let request = format!("tillerman.dev/switch-over=any@{run}");
            scene.kubectl(&["annotate", "webs.test.tillerman.dev", "a", "--overwrite", &request]).unwrap();
        },
        end: &|sight, run| {
            is_whole(sight, 3)?;
            let made = sight.field("Web", "a", "/status/members/db/switchOver")?;
            let is_made = made["request"] == format!("any@{run}") && made["result"] == "Succeeded";
            if is_made { Ok(()) } else { Err(made.to_string()) }
        },
    };
    assert!(sweep.run_with(ProxyFault::Freeze) > 5);
}

/// A replica's volume is lost, and the member gets a new one with a copy.
#[test]
fn after_each_write_while_a_lost_volume_is_replaced() {
    let uids = Mutex::new(BTreeMap::new());
    let claim = |k: u32| format!("data-a-db-{k}");
    let sweep = Sweep {
        test: "kill-replace",
        chart: "primary",
        lanes: 3,
        prepare: (
            &|scene, _| {
                begin(scene);
                let soon = json!({"deadAfter": "2s", "silentAfter": "3s"});
                scene.apply("Web", "a", &json!({"size": 3, "net": net(scene, "a"), "version": "0", "primary": soon}));
            },
            &|sight, _| is_whole(sight, 3).map(drop),
        ),
        act: &|scene, run| {
            let (p, _) = primary(scene);
            assert_nothing_lost(scene, p);
            let k = (0..3).rev().find(|k| *k != p).expect("there are replicas");
            let name = format!("pvc/{}", claim(k));
            uids.lock().unwrap().insert(run.to_owned(), (k, scene.get(&name).unwrap()["metadata"]["uid"].clone()));
            // To the controller of volumes, a claim that was bound and names no volume is lost.
            scene.kubectl(&["annotate", &name, "pv.kubernetes.io/bind-completed=yes"]).unwrap();
        },
        end: &|sight, run| {
            is_whole(sight, 3)?;
            let (k, before) = uids.lock().unwrap()[run].clone();
            let uid = sight.field("PersistentVolumeClaim", &claim(k), "/metadata/uid")?;
            if uid == before { Err(format!("the claim of {k} is the same")) } else { Ok(()) }
        },
    };
    assert!(sweep.run_with(ProxyFault::Freeze) > 4);
}

/// One member becomes three.
#[test]
fn after_each_write_while_replicas_join() {
    let sweep = Sweep {
        test: "kill-join",
        chart: "primary",
        lanes: 3,
        prepare: (
            &|scene, _| {
                begin(scene);
                put(scene, 1, 0);
            },
            &|sight, _| is_whole(sight, 1).map(drop),
        ),
        act: &|scene, _| {
            assert_nothing_lost(scene, 0);
            put(scene, 3, 0);
        },
        end: &|sight, _| is_whole(sight, 3).map(drop),
    };
    assert!(sweep.run_with(ProxyFault::Freeze) > 9);
}
