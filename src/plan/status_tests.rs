//! The status after a pass: its new fields, and the fields that it keeps.
//!
//! Codes in names are rules of docs/design/applying.md.

use super::{Failure, Manifest, Release, Report, patch, status, uninstalled};
use crate::members::progress::MembersStatus;
use crate::object::{Gvk, ObjectId};
use crate::plan::Verb;
use crate::plan::attempts::{self, MAX_ATTEMPTS, Retry};
use crate::plan::reasons::CONDITIONS;
use crate::plan::situation::{Drift, Situation};
use crate::release::live::Health;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn object(name: &str) -> ObjectId {
    ObjectId { gvk: Gvk::new("apps", "v1", "Deployment"), namespace: Some("ns".into()), name: name.into() }
}

fn report<'a>(
    old: &'a Map<String, Value>,
    situation: &'a Situation,
    objects: &'a BTreeMap<ObjectId, Option<Health>>,
) -> Report<'a> {
    Report {
        asleep: false,
        old,
        generation: 1,
        now: "2026-11-21T09:00:00Z",
        situation,
        verb: Verb::Rest,
        failure: None,
        inputs: Some("d"),
        chart: None,
        attempt: "d",
        asked: None,
        dry_run: None,
        repaired: "",
        release: Some(Release { name: "r", namespace: "ns", revision: 1, chart: None, manifest: Manifest::Hidden }),
        notes: None,
        waiting: None,
        objects,
        blind: None,
        members: None,
        operations: None,
        refused: None,
        scale: None,
        fields: None,
        undelivered: None,
        dependencies: &[],
    }
}

fn condition<'a>(status: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == name)
}

#[test]
fn an_install_that_worked_says_so_in_the_words_of_helm_operator() {
    let (old, objects) = (Map::new(), BTreeMap::from([(object("web"), Some(Health::Ready))]));
    let new = status(&Report { verb: Verb::Install, notes: Some("hi"), ..report(&old, &Situation::New, &objects) });
    let deployed = condition(&new, "Deployed").unwrap();
    assert_eq!(
        (&deployed["status"], &deployed["reason"], &deployed["message"]),
        (&json!("True"), &json!("InstallSuccessful"), &json!("hi"))
    );
    assert_eq!(condition(&new, "Ready").unwrap()["message"], "1 object is ready");
    assert_eq!(condition(&new, "ReleaseFailed"), None);
    assert_eq!(new["deployedRelease"]["name"], "r");
}

#[test]
fn ready_names_the_first_object_that_is_not() {
    let objects = BTreeMap::from([
        (object("a"), Some(Health::Ready)),
        (object("b"), Some(Health::Progressing("0 of 1 replicas are available".into()))),
    ]);
    let old = Map::new();
    let new = status(&report(&old, &Situation::Settled, &objects));
    let ready = condition(&new, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["message"]),
        (&json!("False"), &json!("Deployment b: 0 of 1 replicas are available"))
    );
    assert_eq!(new["resources"][0]["name"], "b");
}

#[test]
fn a_condition_that_does_not_change_keeps_its_time() {
    let (old, objects) = (Map::new(), BTreeMap::new());
    let first = status(&report(&old, &Situation::Settled, &objects));
    let later = Report { now: "2027-01-01T00:00:00Z", ..report(&first, &Situation::Settled, &objects) };
    assert_eq!(status(&later), first);
    assert_eq!(patch(&first, &status(&later)), None);
}

#[test]
fn an_error_that_only_the_user_can_mend_stalls_until_the_inputs_change() {
    let (old, objects) = (Map::new(), BTreeMap::new());
    let failure = Failure { reason: "RenderError", message: "boom".into(), retry: Retry::Never };
    let failed =
        status(&Report { failure: Some(&failure), release: None, ..report(&old, &Situation::Changed, &objects) });
    assert_eq!(condition(&failed, "Stalled").unwrap()["status"], "True");
    assert_eq!(condition(&failed, "Irreconcilable").unwrap()["reason"], "ReconcileError");
    let is_spent = |status, digest| attempts::read(status, digest).spent;
    assert!(is_spent(&failed, "d"));
    assert!(!is_spent(&failed, "e"));
    let blocked = status(&Report { release: None, ..report(&failed, &Situation::Blocked, &objects) });
    assert_eq!(patch(&failed, &blocked), None);
    let mended = status(&Report { verb: Verb::Upgrade, ..report(&failed, &Situation::Changed, &objects) });
    assert_eq!(condition(&mended, "Irreconcilable"), None);
    assert_eq!(condition(&mended, "Stalled").unwrap()["status"], "False");
    assert!(!is_spent(&mended, "d"));
}

/// Seen on a node: an application whose Secret came later made no progress after the hook that had succeeded.
#[test]
fn a_chart_that_renders_again_is_not_given_up_while_its_hook_runs() {
    let (old, objects) = (Map::new(), BTreeMap::new());
    let waits = |old: &Map<String, Value>, verb| {
        let waiting = Some("waiting for pre-install hook Job migrate");
        status(&Report { verb, waiting, release: None, ..report(old, &Situation::New, &objects) })
    };
    let no_secret = Failure { reason: "RenderError", message: "there is no Secret".into(), retry: Retry::Never };
    let failed =
        status(&Report { failure: Some(&no_secret), release: None, ..report(&old, &Situation::New, &objects) });
    for verb in [Verb::Install, Verb::Upgrade] {
        let now = waits(&failed, verb);
        assert!(!attempts::read(&now, "d").spent, "{verb:?}");
        assert_eq!(condition(&now, "Irreconcilable"), None, "{verb:?}");
    }
    // A pass that rendered nothing, and the hook's own failure, are as before.
    assert!(attempts::read(&waits(&failed, Verb::Rest), "d").spent);
    let hook = Failure { reason: "HookFailed", message: "no".into(), retry: Retry::Never };
    let failed = status(&Report { failure: Some(&hook), ..report(&old, &Situation::New, &objects) });
    assert!(attempts::read(&waits(&failed, Verb::Install), "d").spent);
}

#[test]
fn a_failed_upgrade_keeps_what_is_deployed() {
    let (old, objects) = (Map::new(), BTreeMap::new());
    let good = status(&Report { verb: Verb::Install, ..report(&old, &Situation::New, &objects) });
    let failure = Failure { reason: "Invalid", message: "field is immutable".into(), retry: Retry::Bounded };
    let bad = status(&Report {
        verb: Verb::Upgrade,
        failure: Some(&failure),
        ..report(&good, &Situation::Changed, &objects)
    });
    assert_eq!(condition(&bad, "ReleaseFailed").unwrap()["reason"], "UpgradeError");
    assert_eq!(condition(&bad, "Deployed").unwrap()["status"], "True");
    assert_eq!(bad["lastAttempted"]["attempts"], 1);
}

#[test]
fn after_the_last_attempt_it_says_that_it_gave_up_and_a_rollback_leaves_that_as_it_is() {
    let objects = BTreeMap::new();
    let failure = Failure { reason: "Invalid", message: "no".into(), retry: Retry::Bounded };
    let mut now = Map::new();
    for attempt in 1..=MAX_ATTEMPTS {
        let stalled = condition_status(&now, "Stalled");
        assert_ne!(stalled.as_deref(), Some("True"), "{attempt}");
        let situation = Situation::Unfinished;
        let failed = Report { verb: Verb::Resume, failure: Some(&failure), ..report(&now, &situation, &objects) };
        now = status(&failed);
    }
    assert_eq!(condition(&now, "Stalled").unwrap()["message"], "given up after 5 attempts: no");
    let back = status(&Report { verb: Verb::RollBack, ..report(&now, &Situation::RollBack(1), &objects) });
    for name in ["Stalled", "ReleaseFailed", "Ready"] {
        assert_eq!(condition(&back, name), condition(&now, name), "{name}");
    }
    assert_eq!(back["lastAttempted"], now["lastAttempted"]);
    let mended = status(&Report { verb: Verb::Upgrade, ..report(&back, &Situation::Changed, &objects) });
    assert_eq!(mended.get("lastAttempted"), None);
    assert_eq!(condition_status(&mended, "Stalled").as_deref(), Some("False"));
    assert_eq!(condition(&mended, "ReleaseFailed"), None);
}

/// docs/design/applying.md A3: a failure after the last attempt starts nothing again, even if it comes before the operator knows what to
/// do.
#[test]
fn a_rollback_that_is_held_up_gives_no_attempt_back_and_leaves_the_reason() {
    let objects = BTreeMap::new();
    let last = Failure { reason: "HookFailed", message: "no".into(), retry: Retry::Never };
    let old = Map::new();
    let spent = status(&Report { failure: Some(&last), ..report(&old, &Situation::Unfinished, &objects) });
    let held_up = Failure { reason: "ApiServerError", message: "500".into(), retry: Retry::Always };
    for (verb, situation) in [
        (Verb::Rest, Situation::RollBack(1)),
        (Verb::Rest, Situation::Unfinished),
        (Verb::RollBack, Situation::Unfinished),
    ] {
        let now = status(&Report { verb, failure: Some(&held_up), ..report(&spent, &situation, &objects) });
        assert_eq!(now["lastAttempted"], spent["lastAttempted"], "{verb:?} {situation:?}");
        for name in ["Stalled", "ReleaseFailed", "Irreconcilable"] {
            assert_eq!(condition(&now, name), condition(&spent, name), "{verb:?} {situation:?}: {name}");
        }
        assert_eq!(condition(&now, "Ready").unwrap()["message"], "500");
    }
}

fn condition_status(status: &Map<String, Value>, name: &str) -> Option<String> {
    status.get("conditions")?;
    condition(status, name)?["status"].as_str().map(str::to_owned)
}

#[test]
fn paused_and_drifted_are_there_while_they_are_true() {
    let (old, objects) = (Map::new(), BTreeMap::new());
    let drift = vec![Drift::Missing(object("web")), Drift::Changed(object("b"))];
    let situation = Situation::Paused(drift.clone());
    let paused = status(&report(&old, &situation, &objects));
    assert_eq!(condition(&paused, "Paused").unwrap()["status"], "True");
    let drifted = condition(&paused, "Drifted").unwrap();
    assert_eq!((&drifted["status"], &drifted["reason"]), (&json!("True"), &json!("Paused")));
    assert_eq!(drifted["message"], "Deployment web does not exist, and 1 more");
    let situation = Situation::Drifted(drift);
    let repaired = status(&Report {
        verb: Verb::Repair,
        repaired: "repaired: Deployment web",
        ..report(&paused, &situation, &objects)
    });
    assert_eq!(condition(&repaired, "Paused"), None);
    let drifted = condition(&repaired, "Drifted").unwrap();
    assert_eq!((&drifted["status"], &drifted["message"]), (&json!("False"), &json!("repaired: Deployment web")));
}

#[test]
fn a_patch_names_what_has_to_go_and_nothing_that_stays() {
    let old = json!({"a": {"b": 1, "c": 2}, "d": 1}).as_object().unwrap().clone();
    let new = json!({"a": {"b": 1}}).as_object().unwrap().clone();
    assert_eq!(patch(&old, &new), Some(json!({"a": {"c": null}, "d": null})));
    let old = json!({"a": {"b": {"c": {"d": 1, "e": [1]}}}}).as_object().unwrap().clone();
    let new = json!({"a": {"b": {"c": {"e": [2]}}}}).as_object().unwrap().clone();
    assert_eq!(patch(&old, &new), Some(json!({"a": {"b": {"c": {"d": null, "e": [2]}}}})));
}

#[test]
fn a_manifest_is_shown_when_that_is_wanted_and_stays_until_another_is_known() {
    let (situation, objects) = (Situation::Settled, BTreeMap::new());
    let after = |old: &Map<String, Value>, manifest: Manifest| {
        let mut report = report(old, &situation, &objects);
        if let Some(release) = &mut report.release {
            release.manifest = manifest;
        }
        status(&report)
    };
    let shown = after(&Map::new(), Manifest::Text("kind: A".into()));
    assert_eq!(shown["deployedRelease"], json!({"name": "r", "manifest": "kind: A"}));
    assert_eq!(after(&shown, Manifest::AsBefore)["deployedRelease"], shown["deployedRelease"]);
    assert_eq!(after(&shown, Manifest::Hidden)["deployedRelease"], json!({"name": "r"}));
}

/// A pass may have an outdated latch when it writes the status: a latch that was written alone stays, and so does
/// everything that the pass did not change.
#[test]
fn a_latch_that_is_written_alone_is_never_written_with_the_rest() {
    let of = |epoch: u32, ready: u32| json!({"db": {"ready": ready, "latch": {"primary": {"epoch": epoch}}}});
    let map = |value: Value| value.as_object().unwrap().clone();
    let old = map(json!({"members": of(2, 3)}));
    let objects = BTreeMap::new();
    let new = |latched_alone: Vec<String>| {
        let members = MembersStatus { members: map(of(1, 2)), latched_alone, ..MembersStatus::default() };
        status(&Report { members: Some(&members), ..report(&old, &Situation::Settled, &objects) })
    };
    let written = |new: &Map<String, Value>| patch(&old, new).unwrap()["members"].clone();
    let alone = new(vec!["db".to_owned()]);
    assert_eq!(alone["members"], of(2, 2));
    assert_eq!(written(&alone), json!({"db": {"ready": 2}}));
    assert_eq!(written(&new(Vec::new())), json!({"db": {"ready": 2, "latch": {"primary": {"epoch": 1}}}}));
}

#[test]
fn messages_that_wait_are_a_condition_which_stays_until_more_is_known() {
    let (old, objects) = (Map::new(), BTreeMap::from([(object("web"), Some(Health::Ready))]));
    let with = |old: &Map<String, Value>, undelivered: Option<&[String]>| {
        status(&Report { undelivered, ..report(old, &Situation::Settled, &objects) })
    };
    let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
    let failing = with(&old, Some(&names[..1]));
    let found = condition(&failing, "NoticesFailing").unwrap();
    assert_eq!((&found["status"], &found["reason"]), (&json!("True"), &json!("SendFailed")));
    assert!(found["message"].as_str().unwrap().contains("do not accept them: a;"), "{found}");
    assert_eq!(patch(&failing, &with(&failing, Some(&names[..1]))), None, "the same status again causes no write");
    assert_eq!(with(&failing, None), failing, "after a restart");
    assert_eq!(condition(&with(&failing, Some(&[])), "NoticesFailing"), None);
    let many = with(&old, Some(&names));
    assert!(condition(&many, "NoticesFailing").unwrap()["message"].as_str().unwrap().contains("a, b, c and 1 more;"));
    assert_eq!(condition(&failing, "Ready").unwrap()["status"], "True", "the release itself is well");
}

/// A finalizer of another client holds the custom resource: only the conditions that do not describe the release stay.
#[test]
fn an_uninstalled_release_leaves_no_condition_about_it() {
    let names = CONDITIONS.iter().map(|condition| condition.name);
    let list: Vec<Value> = names
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .collect();
    let old = json!({"conditions": list}).as_object().cloned().unwrap();
    let status = uninstalled(&old, 2, "2026-01-02T00:00:00Z", &["example.com/held"]);
    let left: BTreeSet<&str> =
        status["conditions"].as_array().unwrap().iter().filter_map(|condition| condition["type"].as_str()).collect();
    assert_eq!(left, BTreeSet::from(["Deployed", "Initialized", "Ready", "Reconciling", "Stalled"]));
}
