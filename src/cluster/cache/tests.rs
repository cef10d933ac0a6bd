//! Tests of the cache with the races between watches and our own writes.
//!
//! Codes in names are rules of docs/design/applying.md.

use super::{Cache, Cr, ReleaseKey, Releases};
use crate::kind::allow::Allow;
use crate::object::{Gvk, ObjectId};
use crate::release::inventory::{Inventory, Reference};
use crate::release::secret::{INVENTORY, RENDER_AFTER, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn cache() -> Cache {
    let cache = Cache::new(Vec::new());
    cache.add_kind(&Gvk::new("demo", "v1", "Web"), Releases::default());
    cache.add_kind(&Gvk::new("demo", "v1", "Db"), Releases::default());
    cache
}

fn key() -> ReleaseKey {
    ReleaseKey { kind: 0, namespace: "ns".into(), name: "app".into() }
}

fn id() -> ObjectId {
    ObjectId { gvk: gvk(), namespace: Some("ns".into()), name: "a".into() }
}

fn object(version: u64, data: &str) -> Value {
    json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string(),
        "ownerReferences": [{"apiVersion": "demo/v1", "kind": "Web", "name": "app", "uid": "x", "controller": true}],
        "managedFields": [{"manager": "tillerman", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}]},
        "data": {"a": data}})
}

fn digest(cache: &Cache) -> Option<Box<str>> {
    cache.objects(&key(), std::iter::empty()).get(&id()).and_then(|l| l.digest.clone())
}

/// A6.
#[test]
fn an_event_from_before_our_own_write_is_ignored() {
    let cache = cache();
    cache.wrote_object(&gvk(), &object(5, "ours"));
    let ours = digest(&cache);
    assert_eq!(cache.put_object(&gvk(), &object(4, "theirs")).0, []);
    assert_eq!(cache.put_object(&gvk(), &object(5, "ours")).0, []);
    assert_eq!(digest(&cache), ours);
    assert_eq!(cache.put_object(&gvk(), &object(6, "theirs")).0, [key()]);
    assert_ne!(digest(&cache), ours);
}

#[test]
fn what_a_watch_repeats_of_our_own_write_is_known() {
    let cache = cache();
    let is_known = |version: &str, uid: &str| {
        let text = |text: &str| Some(text.to_owned());
        let metadata = ObjectMeta { resource_version: text(version), uid: text(uid), ..ObjectMeta::default() };
        cache.is_known(&id(), &metadata)
    };
    assert!(!is_known("5", "u"));
    cache.wrote_object(&gvk(), &object(5, "ours"));
    assert!(is_known("5", "u") && is_known("4", "u"));
    assert!(!is_known("6", "u") && !is_known("5", "another") && !is_known("", "u"));
}

#[test]
fn an_old_deletion_does_not_remove_what_we_made_since() {
    let cache = cache();
    cache.wrote_object(&gvk(), &object(7, "ours"));
    assert_eq!(cache.remove_object(&id(), None, 6, &Value::Null), []);
    assert_eq!(cache.remove_object(&id(), Some("another"), 8, &Value::Null), []);
    assert_eq!(cache.remove_object(&id(), Some("u"), 8, &Value::Null), [key()]);
}

/// A6.
#[test]
fn an_answer_that_comes_after_the_watch_has_seen_it_go_brings_nothing_back() {
    let cache = cache();
    let there = |cache: &Cache| cache.objects(&key(), std::iter::empty()).len();
    cache.put_object(&gvk(), &object(5, "ours"));
    cache.remove_object(&id(), Some("u"), 7, &Value::Null);
    // The answer to our apply or deletion, from before the object was deleted.
    cache.wrote_object(&gvk(), &object(6, "ours"));
    assert_eq!(there(&cache), 0);
    // The object had only lost its label, and got it back.
    cache.wrote_object(&gvk(), &object(8, "ours"));
    assert_eq!(there(&cache), 1);

    let cr = |version: u64| {
        let object = json!({"metadata": {"uid": "x", "resourceVersion": version.to_string()}, "spec": {}});
        Cr::read(serde_json::from_str(&object.to_string()).unwrap(), &Allow::all()).unwrap()
    };
    assert!(cache.put_cr(key(), cr(1)).0);
    assert!(cache.remove_cr(&key(), Some("x"), 3));
    assert!(!cache.put_cr(key(), cr(2)).0 && cache.cr(&key()).is_none());
    assert!(cache.put_cr(key(), cr(4)).0);

    let (namespace, name): (Arc<str>, Arc<str>) = ("ns".into(), "app".into());
    let revision = |version: u64| {
        let metadata = json!({"name": "sh.helm.release.v1.app.v1", "namespace": "ns", "uid": "s",
            "resourceVersion": version.to_string(),
            "labels": {"owner": "helm", "name": "app", "status": "deployed", "version": "1"}});
        Revision::read(&metadata).unwrap().1
    };
    cache.put_revision(&namespace, &name, revision(1));
    cache.remove_revision(&namespace, &name, 1, Some(&revision(3)));
    cache.wrote_revision(&namespace, &name, revision(2));
    assert_eq!(cache.history(&namespace, &name).len(), 0);
}

#[test]
fn traffic_that_changes_nothing_for_us_causes_no_pass() {
    let cache = cache();
    assert_eq!(cache.put_object(&gvk(), &object(1, "a")).0, [key()]);
    let mut other = object(2, "a");
    other["metadata"]["annotations"] = json!({"someone": "else"});
    assert_eq!(cache.put_object(&gvk(), &other).0, []);
}

/// A6.
#[test]
fn a_list_replaces_what_was_known_but_not_what_was_written_since_it_began() {
    let cache = cache();
    cache.put_object(&gvk(), &object(1, "a"));
    let since = cache.clock();
    let mut written = object(2, "b");
    written["metadata"]["name"] = json!("b");
    cache.wrote_object(&gvk(), &written);
    cache.sync_objects(&(gvk(), None), &HashSet::new(), since);
    let left: Vec<_> = cache.objects(&key(), std::iter::empty()).into_keys().map(|id| id.name.to_string()).collect();
    assert_eq!(left, ["b"]);
}

#[test]
fn own_status_writes_cause_no_pass_and_a_changed_spec_does() {
    let cache = cache();
    let cr = |version: u64, generation: i64, status: &str| {
        let object = json!({"metadata": {"uid": "x", "resourceVersion": version.to_string(), "generation": generation},
            "spec": {"a": generation}, "status": {"s": status}});
        Cr::read(serde_json::from_str(&object.to_string()).unwrap(), &Allow::all()).unwrap()
    };
    assert!(cache.put_cr(key(), cr(1, 1, "")).0);
    assert!(!cache.put_cr(key(), cr(2, 1, "written")).0);
    assert!(cache.put_cr(key(), cr(3, 2, "written")).0);
    assert!(!cache.put_cr(key(), cr(2, 1, "late")).0);
    assert_eq!(cache.cr(&key()).unwrap().generation, 2);
}

#[test]
fn an_object_in_another_namespace_is_found_by_operator_sdks_annotations() {
    let cache = cache();
    let other = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": {
        "operator-sdk/primary-resource": "ns/app", "operator-sdk/primary-resource-type": "Web.demo"}}});
    assert_eq!(cache.put_object(&gvk(), &other).0, [key()]);
}

#[test]
fn an_object_that_another_object_owns_is_not_ours() {
    let cache = cache();
    let mut slice = object(1, "a");
    slice["metadata"]["ownerReferences"][0]["kind"] = json!("Service");
    assert_eq!(cache.put_object(&gvk(), &slice).0, []);
    assert!(cache.objects(&key(), std::iter::empty()).is_empty());
}

#[test]
fn a_custom_resource_may_nest_as_deep_as_it_likes() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let text = format!(r#"{{"metadata": {{"uid": "x", "resourceVersion": "1"}}, "spec": {{"a": {deep}}}}}"#);
    let cr = Cr::read(serde_json::from_str(&text).unwrap(), &Allow::all()).unwrap();
    assert!(cr.spec.unwrap().contains("[[[["));
}

/// A1.
#[test]
fn a_release_is_as_recorded_when_its_objects_and_no_others_are_there_as_they_were_applied() {
    let cache = cache();
    let cr = json!({"metadata": {"uid": "x", "resourceVersion": "1", "generation": 1}});
    cache.put_cr(key(), Cr::read(serde_json::from_str(&cr.to_string()).unwrap(), &Allow::all()).unwrap());
    let (_, live) = cache.wrote_object(&gvk(), &object(1, "a")).unwrap();
    let reference = Reference { uid: live.uid, digest: live.digest.unwrap(), finished: false };
    let revision = |status: &str| {
        let inventory = Inventory([(id(), reference.clone())].into()).encode();
        let metadata = json!({"uid": "s", "resourceVersion": if status == "deployed" { "1" } else { "2" },
            "labels": {"name": "app", "version": "1", "status": status}, "annotations": {INVENTORY: inventory, RENDER_AFTER: "200"}});
        Revision::read(&metadata).unwrap().1
    };
    let look = |now, seen| cache.is_as_recorded(&key(), now, seen);
    assert!(look(100, None).is_none(), "there is no record");
    cache.put_revision(&"ns".into(), &"app".into(), revision("deployed"));
    let seen = look(100, None);
    assert!(seen.is_some());
    assert_eq!(look(100, seen), seen, "nothing has changed");
    assert!(look(200, None).is_none(), "its time is over");
    cache.put_object(&gvk(), &object(2, "b"));
    assert!(look(100, seen).is_none(), "a field changed");
    cache.put_object(&gvk(), &object(3, "a"));
    assert!(look(100, seen).is_some());
    let mut stray = object(4, "a");
    stray["metadata"]["name"] = json!("b");
    cache.put_object(&gvk(), &stray);
    assert!(look(100, seen).is_none(), "there is one more");
    let other = ObjectId { name: "b".into(), ..id() };
    cache.remove_object(&other, None, 5, &Value::Null);
    assert!(look(100, seen).is_some());
    cache.remove_object(&id(), None, 5, &Value::Null);
    assert!(look(100, seen).is_none(), "it is missing");
    cache.put_object(&gvk(), &object(6, "a"));
    cache.put_revision(&"ns".into(), &"app".into(), revision("failed"));
    assert!(look(100, seen).is_none(), "it is not deployed");
}

/// A state that was read at one moment must not be judged by the facts of a later one: objects would seem to be
/// missing.
#[test]
fn what_is_not_there_is_not_called_complete() {
    for _ in 0..500 {
        let cache = cache();
        let (namespace, name): (Arc<str>, Arc<str>) = ("ns".into(), "app".into());
        let watch = cache.watch_key(&gvk(), Some(&namespace));
        cache.sync_crs(0, None, &HashSet::from([key()]));
        let metadata = json!({"uid": "s", "resourceVersion": "1", "labels": {"name": "app", "version": "1", "status": "deployed"}});
        let revision = Revision::read(&metadata).unwrap().1;
        let seen = || {
            (
                cache.revisions(&key(), &cache.release_of(&key())),
                cache.objects_of(&key(), std::iter::empty(), [watch.clone()]),
            )
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cache.put_revision(&namespace, &name, revision);
                cache.sync_history(None, &HashSet::from([(Arc::clone(&namespace), Arc::clone(&name), 1)]), 0);
                cache.put_object(&gvk(), &object(1, "ours"));
                cache.sync_objects(&watch, &HashSet::from([id()]), 0);
            });
            loop {
                let ((history, complete), (objects, unsynced)) = seen();
                assert!(!complete || history.len() == 1);
                assert!(!unsynced.is_empty() || objects.len() == 1);
                if complete && unsynced.is_empty() {
                    break;
                }
            }
        });
    }
}

/// A custom resource with annotations and a status.
fn custom_resource(version: &str, annotations: &Value, status: &Value) -> Cr {
    let object = json!({"metadata": {"name": "app", "namespace": "ns", "uid": "x", "resourceVersion": version,
        "annotations": annotations}, "status": status});
    Cr::read(serde_json::from_value(object).unwrap(), &Allow::all()).unwrap()
}

/// Enters a first revision of a release that names the custom resource as its owner.
fn put_record(cache: &Cache, namespace: &str) -> Vec<ReleaseKey> {
    let labels =
        json!({"name": "app", "version": "1", "status": "deployed", "owner": "helm", "tillerman.dev/owner": "x"});
    let metadata = json!({"uid": format!("secret-{namespace}"), "resourceVersion": "1", "labels": labels});
    let (name, revision) = Revision::read(&metadata).unwrap();
    cache.put_revision(&namespace.into(), &name.into(), revision)
}

#[test]
fn a_record_elsewhere_counts_only_where_the_kind_or_the_status_says_so() {
    let to = |namespace: &str| json!({"tillerman.dev/target-namespace": namespace});
    let status = |namespace: &str| json!({"release": {"namespace": namespace}});
    let none = || json!({});
    let fixed = Releases { namespace: Some("fixed".into()), ..Releases::default() };
    let open = Releases { may_move: true, ..Releases::default() };
    for (what, releases, annotations, status, recorded, expected) in [
        ("no record: its own", Releases::default(), none(), none(), vec![], "ns"),
        ("a forged record", Releases::default(), none(), none(), vec!["evil"], "ns"),
        ("one beside its own", open.clone(), none(), none(), vec!["a", "ns"], "ns"),
        ("the status says", Releases::default(), none(), status("before"), vec!["before"], "before"),
        ("the status says, and there is no record", Releases::default(), none(), status("before"), vec![], "ns"),
        ("the kind names it", fixed.clone(), none(), none(), vec![], "fixed"),
        ("it was its own before the kind named it", fixed.clone(), none(), none(), vec!["ns"], "ns"),
        ("an annotation names it", open.clone(), to("a"), none(), vec![], "a"),
        ("an annotation over the kind", fixed, to("a"), none(), vec!["a", "fixed"], "a"),
        ("an annotation was taken back", open.clone(), none(), none(), vec!["a"], "a"),
        ("what is no name", open, to("A B"), none(), vec![], "ns"),
    ] {
        let cache = Cache::new(Vec::new());
        cache.add_kind(&Gvk::new("demo", "v1", "Web"), releases);
        cache.put_cr(key(), custom_resource("1", &annotations, &status));
        let woken: Vec<_> = recorded.iter().map(|namespace| put_record(&cache, namespace)).collect();
        let release = cache.release_of(&key());
        assert_eq!((&*release.0, &*release.1), (expected, "app"), "{what}");
        assert_eq!(cache.keys_of_release_named(&release.0, &release.1), [key()], "{what}");
        if let Some(at) = recorded.iter().position(|namespace| *namespace == expected) {
            assert_eq!(woken[at], [key()], "{what}");
        }
    }
}

#[test]
fn an_object_of_a_cluster_scoped_owner_is_found_in_any_namespace() {
    let cache = cache();
    cache.set_scope(0, false);
    let wide = ReleaseKey { namespace: "".into(), ..key() };
    assert_eq!(cache.put_object(&gvk(), &object(5, "a")).0, [wide]);
}
