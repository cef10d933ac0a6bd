//! The operator is killed after each single write while members come, go and are rolled: the next one continues where it was.

use serde_json::json;

use crate::harness::Space;
use crate::killed::Sweep;
use crate::release::Sight;

fn put(space: &Space, name: &str, size: u32, image: &str) {
    space.apply("Web", name, &json!({"size": size, "image": image}));
}

/// So many members, nothing in flight, a claim of each and no other, and of each hook one run for an ordinal.
fn is_at(sight: &Sight, name: &str, size: u32) -> Result<(), String> {
    let set = format!("{name}-db");
    let replicas = sight.field("StatefulSet", &set, "/spec/replicas")?;
    let members = sight.field("Web", name, "/status/members/db")?;
    let plan = sight.field("Web", name, "/status/plan")?;
    let claims = sight.names("PersistentVolumeClaim", &format!("data-{name}-db-"));
    let pods = sight.names("Pod", &format!("{name}-db-"));
    let there = replicas == size && members["replicas"] == size && members["ready"] == size;
    let whole = plan["state"] == "Complete" && members["latch"].get("moving").is_none();
    let count = size as usize;
    if !(there && whole && claims.len() == count && pods.len() == count) {
        return Err(format!("replicas {replicas}, claims {claims:?}, pods {pods:?}, {members}, {plan}"));
    }
    let mut runs: Vec<&str> =
        sight.names("Job", &format!("{name}-")).into_iter().filter_map(|job| Some(job.rsplit_once('-')?.0)).collect();
    runs.sort_unstable();
    let before = runs.len();
    runs.dedup();
    if runs.len() == before { Ok(()) } else { Err(format!("a hook has two runs: {:?}", sight.names("Job", name))) }
}

fn ran(sight: &Sight, name: &str, hooks: &[&str]) -> Result<(), String> {
    let missing = hooks.iter().find(|hook| sight.names("Job", &format!("{name}-{hook}-")).len() != 1);
    missing.map_or(Ok(()), |hook| Err(format!("not one run of {hook}")))
}

#[test]
fn after_each_write_while_members_come() {
    let sweep = Sweep {
        test: "kill-grow",
        chart: "members",
        lanes: 6,
        prepare: (&|space, name| put(space, name, 1, "db:1"), &|sight, name| is_at(sight, name, 1)),
        act: &|space, name| put(space, name, 3, "db:1"),
        end: &|sight, name| {
            is_at(sight, name, 3)?;
            ran(
                sight,
                name,
                &["bootstrap-0", "before-scale-up-1", "after-ready-1", "before-scale-up-2", "after-ready-2"],
            )
        },
    };
    assert!(sweep.run() > 12);
}

#[test]
fn after_each_write_while_members_go() {
    let sweep = Sweep {
        test: "kill-shrink",
        chart: "members",
        lanes: 6,
        prepare: (&|space, name| put(space, name, 3, "db:1"), &|sight, name| is_at(sight, name, 3)),
        act: &|space, name| put(space, name, 1, "db:1"),
        end: &|sight, name| {
            is_at(sight, name, 1)?;
            ran(sight, name, &["before-scale-down-2", "after-gone-2", "before-scale-down-1", "after-gone-1"])
        },
    };
    assert!(sweep.run() > 12);
}

#[test]
fn after_each_write_of_a_first_installation_with_members() {
    let sweep = Sweep {
        test: "kill-found",
        chart: "members",
        lanes: 6,
        prepare: (&|_, _| {}, &|_, _| Ok(())),
        act: &|space, name| put(space, name, 2, "db:1"),
        end: &|sight, name| {
            is_at(sight, name, 2)?;
            sight.is_settled(name)?;
            ran(sight, name, &["bootstrap-0", "before-scale-up-1", "after-ready-1"])
        },
    };
    assert!(sweep.run() > 12);
}

#[test]
fn after_each_write_while_members_are_rolled() {
    let sweep = Sweep {
        test: "kill-roll",
        chart: "members",
        lanes: 6,
        prepare: (&|space, name| put(space, name, 2, "db:1"), &|sight, name| is_at(sight, name, 2)),
        act: &|space, name| put(space, name, 2, "db:2"),
        end: &|sight, name| {
            is_at(sight, name, 2)?;
            for pod in 0..2 {
                let image = sight.field("Pod", &format!("{name}-db-{pod}"), "/spec/containers/0/image")?;
                if image != "db:2" {
                    return Err(format!("pod {pod} has {image}"));
                }
            }
            ran(sight, name, &["before-restart-1", "after-restart-1", "before-restart-0", "after-restart-0"])
        },
    };
    assert!(sweep.run() > 12);
}
