//! `before-delete` hooks: nothing is deleted before a backup is there; with `deletion-policy: snapshot` there has to be such a hook.

use crate::harness::{Space, eventually};
use crate::kubelet::Kubelet;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn says(space: &Space, object: &str, words: &[&str]) {
    eventually(&format!("{object} says {words:?}"), || {
        let ready = space.condition(object, "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default();
        if words.iter().all(|word| message.contains(word)) { Ok(()) } else { Err(ready.to_string()) }
    });
}

/// The snapshot before a deletion.
#[test]
fn a_backup_that_fails_holds_the_deletion_which_says_so_and_how_to_go_without() {
    let space = Space::new("farewell");
    let (well, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (now_well, counted) = (Arc::clone(&well), Arc::clone(&tried));
    let _kubelet = Kubelet::of_members(&space, move |pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if !name.contains("-before-delete-") {
            return (0, String::new());
        }
        counted.fetch_add(1, Ordering::SeqCst);
        if now_well.load(Ordering::SeqCst) { (0, String::new()) } else { (1, "no such bucket".to_owned()) }
    });
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    space.wait("web/a", "Ready", "True");
    space.delete("web/a");
    says(&space, "web/a", &["before-delete hook", "no such bucket", "tillerman.dev/hooks"]);
    eventually("it is tried again", || match tried.load(Ordering::SeqCst) {
        n if n >= 2 => Ok(()),
        n => Err(format!("{n} times")),
    });
    assert!(space.get("statefulset/a-db").unwrap()["metadata"]["deletionTimestamp"].is_null());
    assert!(space.get("web/a").is_ok());
    well.store(true, Ordering::SeqCst);
    space.wait_gone("web/a");
    space.wait_gone("statefulset/a-db");
}

#[test]
fn without_a_hook_that_makes_one_the_deletion_is_held_too_and_hooks_off_lets_it_go() {
    let space = Space::new("nofarewell");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply_with("Web", "a", &json!({"tillerman.dev/deletion-policy": "snapshot"}), &json!({}));
    space.wait_web("a");
    space.delete("web/a");
    says(&space, "web/a", &["a before-delete hook, which the chart does not have", "tillerman.dev/hooks"]);
    assert!(space.get("deployment/a-web").unwrap()["metadata"]["deletionTimestamp"].is_null());
    space.kubectl(&["annotate", "web/a", "tillerman.dev/hooks=off"]).unwrap();
    space.wait_gone("web/a");
    space.wait_gone("deployment/a-web");
}
