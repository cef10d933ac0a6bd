//! Of several instances one works: the lease decides, and an instance that has lost it writes nothing more.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Operator, Space, eventually};
use serde_json::{Value, json};

fn leads(operator: &Operator) {
    eventually(
        "it leads",
        || {
            if operator.log().contains("this instance leads") { Ok(()) } else { Err(operator.log()) }
        },
    );
}

fn waits(operator: &Operator) {
    eventually("it waits", || {
        if operator.log().contains("another instance leads") { Ok(()) } else { Err(operator.log()) }
    });
}

/// One that leads, and one that waits.
fn two(space: &Space) -> (Operator, Operator) {
    let watches = space.watches(&[("Web", "web")]);
    let first = space.operator(&watches, &["--leader-elect"]);
    leads(&first);
    let second = space.operator(&watches, &["--leader-elect"]);
    waits(&second);
    (first, second)
}

fn revisions(space: &Space) -> usize {
    space.helm(&["history", "app"]).unwrap().lines().count() - 1
}

#[test]
fn a_crashed_leader_is_followed_when_its_lease_has_expired() {
    let space = Space::new("crash");
    let (first, second) = two(&space);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    first.kill();
    space.apply("Web", "app", &json!({"replicas": 4}));
    leads(&second);
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(4));
    assert_eq!(revisions(&space), 2);
    assert_eq!(space.get("lease/tillerman").unwrap()["spec"]["leaseTransitions"], 1);
}

/// A8.
#[test]
fn a_leader_that_was_stopped_and_goes_on_after_its_lease_writes_nothing() {
    let space = Space::new("stopped");
    let (first, second) = two(&space);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    first.signal("STOP");
    space.apply("Web", "app", &json!({"replicas": 4}));
    leads(&second);
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(4));
    // Now it sees everything that has happened, and would act on it.
    space.apply("Web", "app", &json!({"replicas": 5}));
    first.signal("CONT");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(5));
    let log = {
        let path = first.log_file();
        assert!(!first.ended(), "it ends with an error, so that it is started again");
        std::fs::read_to_string(path).unwrap()
    };
    assert!(log.contains("this instance no longer leads"), "{log}");
    second.settle();
    assert_eq!(revisions(&space), 3);
    let holder = space.get("lease/tillerman").unwrap()["spec"]["holderIdentity"].clone();
    assert!(second.log().contains(holder.as_str().unwrap()), "{holder}");
}

/// When a line of a log that contains the words was written.
fn time_of(log: &str, words: &str) -> jiff::Timestamp {
    let line = log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words:?} in {log}"));
    let line: Value = serde_json::from_str(line).unwrap();
    line["timestamp"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_leader_that_is_stopped_releases_its_lease_and_the_next_one_takes_it_at_once() {
    let space = Space::new("handover");
    let (mut leader, mut next) = two(&space);
    let names = ["one", "two", "three", "four", "five"];
    for name in names {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    let mut times = Vec::new();
    for round in 1..=5_i64 {
        let log = leader.log_file();
        // It has something to do when the signal comes.
        for name in names {
            space.apply("Web", name, &json!({"greeting": format!("round {round}")}));
        }
        let told = jiff::Timestamp::now();
        assert!(leader.stop());
        let log = std::fs::read_to_string(log).unwrap();
        leads(&next);
        let taken = time_of(&next.log(), "this instance leads");
        assert!(taken > time_of(&log, "stopping"));
        times.push(taken.duration_since(told).as_millis());
        // It was given up, and not waited for.
        let lease = space.get("lease/tillerman").unwrap();
        assert_eq!(lease["spec"]["leaseTransitions"], round);
        assert!(!next.log().contains("the lease cannot be taken"));
        space.wait_field("configmap/five-config", "/data/greeting", &json!(format!("round {round}")));
        leader = next;
        next = space.operator(&space.watches(&[("Web", "web")]), &["--leader-elect"]);
        waits(&next);
    }
    println!("hand-over from SIGTERM until the next one leads, in milliseconds: {times:?}");
}

#[test]
fn instances_that_come_and_go_never_work_at_once() {
    let space = Space::new("relay");
    let watches = space.watches(&[("Web", "web")]);
    let mut leader = space.operator(&watches, &["--leader-elect"]);
    leads(&leader);
    for round in 1..=4_usize {
        let next = space.operator(&watches, &["--leader-elect"]);
        waits(&next);
        space.apply("Web", "app", &json!({"replicas": round}));
        // In the middle of its work.
        assert!(leader.stop());
        leads(&next);
        space.wait_field("deployment/app-web", "/spec/replicas", &json!(round));
        space.wait("web/app", "Deployed", "True");
        eventually("one revision for each change", || {
            let found = space.helm(&["history", "app"])?.lines().count() - 1;
            if found == round { Ok(()) } else { Err(format!("{found} revisions")) }
        });
        leader = next;
    }
}
