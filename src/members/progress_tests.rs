use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Doing, FACTS, MembersStatus, SetProgress, detail};
use crate::members::document::{DriverName, Set};
use crate::members::driver::DriverProfile;
use crate::members::drivers::Drivers;
use crate::members::workload::{ClaimSize, Latch, Mode, Move, MoveKind, Pod, VolumeClaim, Workload};

fn enter(
    report: &mut MembersStatus,
    set: &Set,
    workload: &Workload,
    latch: &Latch,
    mode: Mode,
    doing: &Doing,
    now: i64,
) -> Option<Duration> {
    super::enter(report, SetProgress { set, workload, latch, mode, asleep: false, doing, recovery: None, now })
}

fn set() -> Set {
    Set { progress_deadline: 60, ..Set::example() }
}

fn joining() -> Latch {
    let moving = Some(Move { kind: MoveKind::Join, ordinal: 1, since: 0 });
    Latch { replicas: Some(1), moving, ..Latch::default() }
}

fn status(report: &MembersStatus) -> Map<String, Value> {
    let mut status = Map::new();
    status.insert("members".into(), report.members.clone().into());
    if let Some(plan) = &report.plan {
        status.insert("plan".into(), plan.clone());
    }
    status
}

#[test]
fn a_plan_tells_its_phases_and_the_present_step() {
    let mut report = MembersStatus::default();
    let waiting = Doing::Waiting("Job x".into());
    let left = enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &waiting, 100);
    assert_eq!(left.map(|l| l.as_secs()), Some(60));
    assert_eq!(
        report.plan,
        Some(json!({
            "members": "m", "size": 3, "state": "InProgress", "since": 100, "progressAt": 100,
            "phases": [
                {"name": "add db-1", "state": "InProgress", "steps": [{"name": "Job x", "state": "Waiting"}]},
                {"name": "add db-2", "state": "Pending"},
            ],
        }))
    );
    assert_eq!(report.unready, Some(("Progressing", "add db-1: waiting for Job x".into())));
    let mut after = MembersStatus::read(&status(&report));
    assert_eq!(
        enter(&mut after, &set(), &Workload::example(3), &Latch::default(), Mode::Run, &Doing::Nothing, 130),
        None
    );
    let plan = after.plan.unwrap();
    assert_eq!((&plan["state"], &plan["since"], &plan["phases"]), (&json!("Complete"), &json!(100), &json!([])));
    assert_eq!(after.unready, None);
}

#[test]
fn what_makes_no_progress_in_time_says_so_and_why() {
    let waiting = Doing::Waiting("pod db-1: Unschedulable".into());
    let mut report = MembersStatus::default();
    enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &Doing::Done("scale".into()), 100);
    let mut report = MembersStatus::read(&status(&report));
    assert_eq!(
        enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &waiting, 159).unwrap().as_secs(),
        1
    );
    assert!(!report.stopped);
    let mut report = MembersStatus::read(&status(&report));
    assert_eq!(enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &waiting, 160), None);
    let (reason, message) = report.unready.clone().unwrap();
    assert_eq!(reason, "ProgressDeadlineExceeded");
    assert_eq!(message, "add db-1: no progress for 60 seconds: waiting for pod db-1: Unschedulable");
    assert!(report.stopped);
    // Progress ends this.
    let mut report = MembersStatus::read(&status(&report));
    enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &Doing::Done("scale".into()), 200);
    assert_eq!(report.unready.unwrap().0, "Progressing");
}

#[test]
fn a_pause_leaves_the_plan_as_it_is() {
    let mut report = MembersStatus::default();
    enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &Doing::Done("x".into()), 100);
    let plan = report.plan.clone();
    enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Paused, &Doing::Nothing, 200);
    assert_eq!(report.plan, plan);
}

/// coreos' etcd-operator v0.9.4, `pkg/apis/etcd/v1beta2/status.go`.
#[test]
fn phase_and_versions_are_those_of_coreos_and_of_etcd_the_lists_and_conditions_too() {
    let mut set = Set { size: 1, driver: DriverName::parse("etcd").unwrap(), version: Some("3.5.0".into()), ..set() };
    let pod = |ready| Pod { ready, ..Pod::example() };
    let mut workload = Workload { pods: BTreeMap::from([(0, pod(false))]), ..Workload::example(1) };
    let latch = Latch { replicas: Some(1), ..Latch::default() };
    let step = |old: &MembersStatus, set: &Set, workload: &Workload, mode, doing| {
        let mut report = MembersStatus::of(&status(old), std::slice::from_ref(set), &Drivers::new());
        enter(&mut report, set, workload, &latch, mode, &doing, 100);
        report
    };
    let fact = |report: &MembersStatus, name: &str| report.facts["m"].get(name).cloned();
    let report = step(&MembersStatus::default(), &set, &workload, Mode::Run, Doing::Waiting("it".into()));
    assert_eq!((fact(&report, "phase"), fact(&report, "currentVersion")), (Some(json!("Creating")), Some(Value::Null)));
    assert_eq!((&report.members["ready"], &report.members["unready"]), (&json!([]), &json!(["db-0"])));
    assert!(report.conditions.is_some());
    workload.pods.insert(0, pod(true));
    let report = step(&report, &set, &workload, Mode::Run, Doing::Nothing);
    assert_eq!((fact(&report, "phase"), fact(&report, "pods")), (Some(json!("Running")), Some(json!(1))));
    assert_eq!(
        (fact(&report, "currentVersion"), fact(&report, "targetVersion")),
        (Some(json!("3.5.0")), Some(json!("")))
    );
    assert_eq!(report.members["ready"], json!(["db-0"]));
    // While it is upgraded, it still runs the old version.
    set.version = Some("3.6.0".into());
    let report = step(&report, &set, &workload, Mode::Run, Doing::Waiting("a pod".into()));
    assert_eq!(
        (fact(&report, "phase"), fact(&report, "currentVersion")),
        (Some(json!("Running")), Some(json!("3.5.0")))
    );
    assert_eq!(fact(&report, "targetVersion"), Some(json!("3.6.0")));
    let report =
        step(&report, &set, &workload, Mode::Run, Doing::Stopped { reason: "DataLost", why: "all of it".into() });
    assert_eq!((fact(&report, "phase"), fact(&report, "paused")), (Some(json!("Failed")), Some(json!(false))));
    let report = step(&report, &set, &workload, Mode::Paused, Doing::Nothing);
    assert_eq!((fact(&report, "phase"), fact(&report, "paused")), (Some(json!("Failed")), Some(json!(true))));
    // Other drivers have no lists in the status.
    let jobs = Set { driver: DriverName::parse("jobs").unwrap(), version: None, ..set };
    let report = step(&report, &jobs, &workload, Mode::Run, Doing::Nothing);
    assert!(!report.members.contains_key("ready") && report.conditions.is_none());
    assert_eq!((fact(&report, "phase"), fact(&report, "currentVersion")), (Some(json!("Running")), Some(Value::Null)));
    let names: Vec<&str> = report.facts["m"].keys().map(String::as_str).collect();
    assert_eq!(names, FACTS);
}

/// The driver's facts about the application stay in the status while the driver is not asked.
#[test]
fn details_are_entered_and_kept_while_the_application_is_not_asked() {
    let profile = DriverProfile {
        reports: &["primary", "safeToFailOver", "members"],
        facts: &["primary", "safeToFailOver"],
        ..DriverProfile::named("example.com/db")
    };
    let mut report = MembersStatus::default();
    let mut pass = |details: Option<Value>| {
        let before = report.members.get("m").cloned();
        enter(&mut report, &set(), &Workload::example(1), &joining(), Mode::Run, &Doing::Nothing, 100);
        detail(
            &mut report,
            &set(),
            &profile,
            before.as_ref(),
            details.map(|details| details.as_object().unwrap().clone()),
        );
        (report.members["m"].clone(), report.facts["m"].clone())
    };
    let (entry, facts) = pass(Some(json!({"primary": "db-1", "safeToFailOver": true, "members": [{"name": "db-1"}]})));
    assert_eq!((&entry["primary"], &entry["members"][0]["name"]), (&json!("db-1"), &json!("db-1")));
    assert_eq!((&facts["primary"], facts.get("members")), (&json!("db-1"), None));
    let (entry, facts) = pass(None);
    assert_eq!((&entry["safeToFailOver"], &facts["safeToFailOver"]), (&json!(true), &json!(true)));
    assert_eq!(pass(Some(json!({"primary": null}))).0.get("members"), None);
}

#[test]
fn each_pod_has_the_beginning_of_the_uid_of_its_volume_claim() {
    let claim = |uid: &str, terminating| VolumeClaim {
        name: "c".into(),
        uid: uid.into(),
        created: 0,
        terminating,
        lost: false,
        size: ClaimSize::default(),
    };
    let mut workload = Workload::example(2);
    workload.pods = (0..2).map(|ordinal| (ordinal, Pod::example())).collect();
    // That of pod 1 goes, and that of ordinal 2 is left of a member.
    workload.claims =
        [(0, vec![claim("0123456789", false)]), (1, vec![claim("a", true)]), (2, vec![claim("b", false)])].into();
    let mut report = MembersStatus::default();
    enter(&mut report, &set(), &workload, &Latch::default(), Mode::Run, &Doing::Nothing, 100);
    assert_eq!(report.members["m"]["volumes"], json!({"db-0": ["01234567"]}));
}
