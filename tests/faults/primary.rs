//! The operator is killed after each single write while a database with a primary fails over, grows and shrinks under writes. Each order to
//! an agent is followed by a write of the status or of an event: so it also dies after each order with nothing of it written down.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::json;

use crate::killed::{Scene, Sweep};
use crate::node::net;
use crate::proxy::Fault;
use crate::release::Sight;

/// All runs of a lane have the same cluster, which is whole again by then.
fn resize(scene: &Scene, size: u32) {
    scene.apply("Web", "a", &json!({"size": size, "net": net(scene, "a")}));
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

/// The primary is killed, again and again.
#[test]
fn after_each_write_of_a_fail_over() {
    // The epochs before, by the run.
    let epochs = Mutex::new(BTreeMap::new());
    let sweep = Sweep {
        test: "kill-failover",
        chart: "primary",
        lanes: 3,
        prepare: (
            &|scene, run| {
                if run.len() == 2 && scene.get("web/a").is_err() {
                    resize(scene, 3);
                    drop(scene.agents().writer(0));
                }
            },
            &|sight, _| is_whole(sight, 3).map(drop),
        ),
        act: &|scene, run| {
            let latched = scene.get("web/a").unwrap()["status"]["members"]["db"]["latch"]["primary"].clone();
            epochs.lock().unwrap().insert(run.to_owned(), latched["epoch"].as_u64().unwrap());
            let p = u32::try_from(latched["ordinal"].as_u64().unwrap()).unwrap();
            assert_nothing_lost(scene, p);
            scene.agents().database().crash(p);
        },
        end: &|sight, run| {
            let (epoch, before) = (is_whole(sight, 3)?, epochs.lock().unwrap()[run]);
            if epoch == before + 1 { Ok(()) } else { Err(format!("epoch {epoch} after {before}")) }
        },
    };
    assert!(sweep.run_with(Fault::Freeze) > 8);
}
