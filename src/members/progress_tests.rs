use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Doing, Told, enter};
use crate::members::document::{Driver, OnOrphan, OnRemove, Set};
use crate::members::workload::{Latch, Mode, Move, MoveKind, Workload};

fn set() -> Set {
    Set {
        name: "m".into(),
        target: "db".into(),
        size: 3,
        driver: Driver::Jobs,
        on_remove: OnRemove::Delete,
        on_orphan: OnOrphan::Refuse,
        progress_deadline: 60,
        service: "peer".into(),
        etcd: Map::new(),
    }
}

fn workload(replicas: u32) -> Workload {
    Workload {
        namespace: "ns".into(),
        name: "db".into(),
        resource_version: "1".into(),
        replicas,
        update_revision: "r".into(),
        pods: BTreeMap::new(),
        claims: BTreeMap::new(),
    }
}

fn joining() -> Latch {
    let moving = Some(Move { kind: MoveKind::Join, ordinal: 1, since: 0 });
    Latch { replicas: Some(1), moving, ..Latch::default() }
}

fn status(told: &Told) -> Map<String, Value> {
    let mut status = Map::new();
    status.insert("members".into(), told.members.clone().into());
    if let Some(plan) = &told.plan {
        status.insert("plan".into(), plan.clone());
    }
    status
}

#[test]
fn a_plan_tells_its_phases_and_the_present_step() {
    let mut told = Told::default();
    let waiting = Doing::Waiting("Job x".into());
    let left = enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &waiting, 100);
    assert_eq!(left.map(|l| l.as_secs()), Some(60));
    assert_eq!(
        told.plan,
        Some(json!({
            "members": "m", "size": 3, "state": "InProgress", "since": 100, "progressAt": 100,
            "phases": [
                {"name": "add db-1", "state": "InProgress", "steps": [{"name": "Job x", "state": "Waiting"}]},
                {"name": "add db-2", "state": "Pending"},
            ],
        }))
    );
    assert_eq!(told.unready, Some(("Progressing", "add db-1: waiting for Job x".into())));
    let mut after = Told::read(&status(&told));
    assert_eq!(enter(&mut after, &set(), &workload(3), &Latch::default(), Mode::Run, &Doing::Nothing, 130), None);
    let plan = after.plan.unwrap();
    assert_eq!((&plan["state"], &plan["since"], &plan["phases"]), (&json!("Complete"), &json!(100), &json!([])));
    assert_eq!(after.unready, None);
}

#[test]
fn what_makes_no_progress_in_time_says_so_and_why() {
    let waiting = Doing::Waiting("pod db-1: Unschedulable".into());
    let mut told = Told::default();
    enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &Doing::Done("scale".into()), 100);
    let mut told = Told::read(&status(&told));
    assert_eq!(enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &waiting, 159).unwrap().as_secs(), 1);
    assert!(!told.stopped);
    let mut told = Told::read(&status(&told));
    assert_eq!(enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &waiting, 160), None);
    let (reason, message) = told.unready.clone().unwrap();
    assert_eq!(reason, "ProgressDeadlineExceeded");
    assert_eq!(message, "add db-1: no progress for 60 seconds: waiting for pod db-1: Unschedulable");
    assert!(told.stopped);
    // Progress ends that.
    let mut told = Told::read(&status(&told));
    enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &Doing::Done("scale".into()), 200);
    assert_eq!(told.unready.unwrap().0, "Progressing");
}

#[test]
fn a_pause_leaves_the_plan_as_it_is() {
    let mut told = Told::default();
    enter(&mut told, &set(), &workload(1), &joining(), Mode::Run, &Doing::Done("x".into()), 100);
    let plan = told.plan.clone();
    enter(&mut told, &set(), &workload(1), &joining(), Mode::Paused, &Doing::Nothing, 200);
    assert_eq!(told.plan, plan);
}
