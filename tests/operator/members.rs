//! Stateful sets with members: what the operator writes when they grow, shrink and are rolled, in which order, and what it leaves
//! alone. The controllers are real; there is no node, so the tests write the status of pods as a kubelet would.
//!
//! The contract: docs/design/members.md#the-contract. Codes in names are rules of docs/design/applying.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::harness::{Space, eventually, kubectl};
use crate::kubelet::Kubelet;
use crate::volumes::ExpandableVolumes;

/// The writes of this test's operator about members, in order: names of objects, of a Job without the part after its last dash.
pub fn writes(space: &Space) -> Vec<String> {
    let of_ours = |entry: &Value| -> Option<String> {
        let at = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (verb, resource, name) = (at("/verb"), at("/objectRef/resource"), at("/objectRef/name"));
        let code = entry.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0);
        let member = ["jobs", "statefulsets", "persistentvolumeclaims", "pods"].contains(&resource.as_str());
        let write = ["create", "patch", "update", "delete"].contains(&verb.as_str());
        if !(entry["stage"] == "ResponseComplete" && member && write && code < 300) {
            return None;
        }
        let name = match resource.as_str() {
            "jobs" => name.rsplit_once('-').map_or(name.as_str(), |(head, _)| head).to_owned(),
            _ => name,
        };
        let sub = at("/objectRef/subresource");
        Some(format!("{verb} {name}{}", if sub.is_empty() { String::new() } else { format!("/{sub}") }))
    };
    space.audited().iter().filter_map(of_ours).collect()
}

fn wait_size(space: &Space, name: &str, size: u32) {
    let web = format!("web/{name}");
    eventually(&format!("{name} has {size} members"), || {
        let set = space.get(&format!("statefulset/{name}-db"))?;
        let ready = space.condition(&web, "Ready")?;
        let status = space.get(&web)?["status"].clone();
        let there = set["spec"]["replicas"] == size && status["members"]["db"]["replicas"] == size;
        if there && ready["status"] == "True" && status["members"]["db"]["latch"].get("moving").is_none() {
            Ok(())
        } else {
            Err(format!(
                "replicas {}, Ready {ready}, members {}, plan {}",
                set["spec"]["replicas"], status["members"], status["plan"]
            ))
        }
    });
}

fn well(_: &Pod) -> (i32, String) {
    (0, String::new())
}

/// A hook after the installation can need the members: they come up while it runs.
#[test]
fn members_come_up_while_a_hook_after_the_installation_runs() {
    let space = Space::new("filled");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 2, "fill": true}));
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(2));
    let ready = space.condition("web/a", "Ready").unwrap();
    assert_eq!(ready["message"], "waiting for post-install hook Job a-fill");
    let go = r#"{"spec": {"suspend": false}}"#;
    space.kubectl(&["patch", "job/a-fill", "--type=merge", "-p", go]).unwrap();
    wait_size(&space, "a", 2);
}

/// 1 → 3 → 1, one at a time, each with its hooks in their order; claims go after the member has left.
#[test]
fn members_come_and_go_one_at_a_time_with_their_hooks_in_order() {
    let space = Space::new("members");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    assert_eq!(writes(&space), ["patch a-db", "patch a-db", "create a-bootstrap-0"]);
    let set = space.get("statefulset/a-db").unwrap();
    assert_eq!(set["spec"]["updateStrategy"], json!({"type": "OnDelete"}));

    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 3}));
    wait_size(&space, "a", 3);
    assert_eq!(
        writes(&space)[before..],
        [
            "create a-before-scale-up-1",
            "patch a-db",
            "create a-after-ready-1",
            "create a-before-scale-up-2",
            "patch a-db",
            "create a-after-ready-2",
        ]
    );
    let jobs: Value = serde_json::from_str(&space.kubectl(&["get", "jobs", "-o", "json"]).unwrap()).unwrap();
    let joined = jobs["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|j| j["metadata"]["name"].as_str().unwrap().starts_with("a-before-scale-up-2-"));
    let spec = &joined.unwrap()["spec"];
    assert_eq!((&spec["backoffLimit"], &spec["podReplacementPolicy"]), (&json!(0), &json!("Failed")));
    assert_eq!(
        (&spec["ttlSecondsAfterFinished"], &spec["template"]["spec"]["restartPolicy"]),
        (&json!(null), &json!("Never"))
    );
    let env = spec["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let env: Vec<String> =
        env.iter().map(|e| format!("{}={}", e["name"].as_str().unwrap(), e["value"].as_str().unwrap())).collect();
    assert_eq!(env, ["ORDINAL=2", "POD=a-db-2", "SIZE_FROM=2", "SIZE_TO=3", "PEERS=a-db-0.a-peer,a-db-1.a-peer"]);

    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    assert_eq!(
        writes(&space)[before..],
        [
            "create a-before-scale-down-2",
            "patch a-db",
            "create a-after-gone-2",
            "delete data-a-db-2",
            "create a-before-scale-down-1",
            "patch a-db",
            "create a-after-gone-1",
            "delete data-a-db-1",
        ]
    );
    space.get("persistentvolumeclaim/data-a-db-0").unwrap();
    space.wait_gone("persistentvolumeclaim/data-a-db-1");

    // The same hooks run again for the next member of an ordinal.
    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    let again = writes(&space)[before..].to_vec();
    assert_eq!(again.iter().filter(|w| *w == "create a-after-ready-1").count(), 1, "{again:?}");
    space.delete("web/a");
    space.wait_gone("web/a");
    space.wait_gone("statefulset/a-db");
    // Nobody leaves when everything goes. One hook runs, before anything is deleted.
    let last = writes(&space)[before + again.len()..].to_vec();
    assert_eq!(last, ["create a-before-delete-0", "delete a-db"]);
}

/// D5. The record holds what Helm would hold, and Helm installs the same chart.
#[test]
fn the_record_has_no_members_no_scale_hooks_and_no_replicas() {
    let space = Space::new("memrecord");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    let manifest = space.helm(&["get", "manifest", "a"]).unwrap();
    assert!(manifest.contains("kind: StatefulSet"), "{manifest}");
    for word in ["replicas", "Members", "kind: Job"] {
        assert!(!manifest.contains(word), "{word} in {manifest}");
    }
    let hooks = space.helm(&["get", "hooks", "a"]).unwrap();
    assert!(!hooks.contains("kind"), "{hooks}");
    // A size alone is not a new revision.
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    assert_eq!(space.helm(&["history", "a"]).unwrap().lines().count(), 2);

    let chart = crate::harness::repository("tests/charts/members").display().to_string();
    let rendered = space.helm(&["template", "b", &chart]).unwrap();
    assert!(rendered.contains("replicas: 1") && !rendered.contains("Members"), "{rendered}");
    space.helm(&["install", "b", &chart]).unwrap();
    space.wait_field("statefulset/b-db", "/spec/replicas", &json!(1));
}

/// Exit code 64 refuses, 75 asks again, another is tried again, and each says so.
#[test]
fn a_hook_refuses_asks_again_and_fails_by_its_exit_code() {
    let space = Space::new("memcodes");
    let runs = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&runs);
    let _kubelet = Kubelet::of_members(&space, move |pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match name {
            _ if name.contains("-before-scale-up-") => match seen.fetch_add(1, Ordering::SeqCst) {
                0 => (75, "still copying".to_owned()),
                1 => (1, "connection reset".to_owned()),
                _ => (0, String::new()),
            },
            _ if name.contains("-before-scale-down-") => (64, "first line\na backup runs\n".to_owned()),
            _ => (0, String::new()),
        }
    });
    let operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    space.apply("Web", "a", &json!({"size": 2}));
    let says = |text: &str| {
        eventually(text, || {
            let ready = space.condition("web/a", "Ready")?;
            if ready["message"].as_str().unwrap_or_default().contains(text) {
                Ok(ready)
            } else {
                Err(ready.to_string())
            }
        })
    };
    says("not yet: still copying");
    says("exit code 1: connection reset");
    wait_size(&space, "a", 2);
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    // One Job of the three is left.
    let jobs = space.kubectl(&["get", "jobs", "-o", "name"]).unwrap();
    assert_eq!(jobs.lines().filter(|j| j.contains("before-scale-up-1")).count(), 1, "{jobs}");

    space.apply("Web", "a", &json!({"size": 1}));
    let refused = says("refused: a backup runs");
    assert_eq!((&refused["status"], &refused["reason"]), (&json!("False"), &json!("HookRefused")));
    assert!(space.wait_event("HookRefused").contains("a backup runs"));
    space.wait_field("web/a", "/status/plan/state", &json!("Stopped"));
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(2));
    // Whoever changes their mind is not held up by the refusal.
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    drop(operator);
}

/// Somebody scales by hand, and the operator restores what it wrote, without any hook. Pause and `hooks: off` keep the
/// substitution.
#[test]
fn replicas_that_somebody_changed_by_hand_come_back() {
    let space = Space::new("memhand");
    let _kubelet = Kubelet::of_members(&space, well);
    let operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    let before = writes(&space).len();
    for wrong in ["3", "0"] {
        space.kubectl(&["scale", "statefulset/a-db", &format!("--replicas={wrong}")]).unwrap();
        space.wait_field("statefulset/a-db", "/spec/replicas", &json!(2));
        wait_size(&space, "a", 2);
    }
    let after = writes(&space)[before..].to_vec();
    assert!(after.iter().all(|w| w == "patch a-db"), "{after:?}");
    // The StatefulSet itself is made again with as many.
    space.kubectl(&["delete", "statefulset/a-db", "--cascade=orphan"]).unwrap();
    wait_size(&space, "a", 2);
    // With hooks off none runs, and the members are still stepped.
    space.apply_with("Web", "a", &json!({"tillerman.dev/hooks": "off"}), &json!({"size": 3}));
    wait_size(&space, "a", 3);
    let after = writes(&space)[before..].to_vec();
    assert!(!after.iter().any(|w| w.contains("after-ready-2")), "{after:?}");
    // A changed template does not scale, and pause stops the rest.
    space.apply_with("Web", "a", &json!({"tillerman.dev/paused": "true"}), &json!({"size": 1, "image": "db:2"}));
    space.wait("web/a", "Paused", "True");
    operator.settle();
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(3));
}

/// The update strategy is `OnDelete`, and the operator rolls by eviction, one at a time from the highest ordinal, with its hooks.
#[test]
fn a_new_template_is_rolled_by_eviction_with_hooks() {
    let space = Space::new("memroll");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 2, "image": "db:2"}));
    for pod in ["pod/a-db-0", "pod/a-db-1"] {
        space.wait_field(pod, "/spec/containers/0/image", &json!("db:2"));
    }
    wait_size(&space, "a", 2);
    assert_eq!(
        writes(&space)[before..],
        [
            "patch a-db",
            "create a-before-restart-1",
            "create a-db-1/eviction",
            "create a-after-restart-1",
            "create a-before-restart-0",
            "create a-db-0/eviction",
            "create a-after-restart-0",
        ]
    );
}

/// An invalid document is refused with a message, before anything is written.
#[test]
fn a_document_that_cannot_be_is_refused_in_words() {
    let space = Space::new("membad");
    let operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"wrong": true}));
    let stalled = space.wait("web/a", "Stalled", "True");
    assert_eq!(stalled["message"], "Members db: the chart has no StatefulSet a-none");
    operator.settle();
    assert_eq!(writes(&space), Vec::<String>::new());
}

/// Claims that may grow are made larger, and the pods keep running. Of others it is said which cannot, and nothing is changed.
#[test]
fn claims_of_members_are_made_larger_without_a_restart() {
    let space = Space::new("memlarger");
    let _kubelet = Kubelet::of_members(&space, well);
    let operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    let volumes = ExpandableVolumes::of(&space, 2, "1Mi");
    space.apply("Web", "a", &json!({"size": 2, "class": space.name}));
    wait_size(&space, "a", 2);
    let field = |object: &str, pointer: &str| space.get(object).unwrap().pointer(pointer).cloned().unwrap_or_default();
    let pods = || [0, 1].map(|k| field(&format!("pod/a-db-{k}"), "/metadata/uid"));
    let sizes = || [0, 1].map(|k| field(&format!("pvc/data-a-db-{k}"), "/spec/resources/requests/storage"));
    for k in 0..2 {
        space.wait_field(&format!("pvc/data-a-db-{k}"), "/status/phase", &json!("Bound"));
    }
    let (before, set) = (pods(), field("statefulset/a-db", "/metadata/uid"));

    space.apply("Web", "a", &json!({"size": 2, "class": space.name, "storage": "2Mi"}));
    wait_size(&space, "a", 2);
    let template = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    space.wait_field("statefulset/a-db", template, &json!("2Mi"));
    assert_eq!((pods(), sizes()), (before.clone(), [json!("2Mi"), json!("2Mi")]));
    let larger = field("statefulset/a-db", "/metadata/uid");
    assert_ne!(larger, set);
    for k in 0..2 {
        space.wait_field(&format!("pod/a-db-{k}"), "/metadata/ownerReferences/0/uid", &larger);
    }

    // A claim cannot be made smaller, and not where its class forbids it.
    let refused = |storage: &str| {
        space.apply("Web", "a", &json!({"size": 2, "class": space.name, "storage": storage}));
        eventually("it is refused", || {
            let failed = space.condition("web/a", "ReleaseFailed")?["message"].to_string();
            let expected = format!("Claim data-a-db-0 cannot be given {storage}");
            if failed.contains(&expected) && failed.contains("allowVolumeExpansion") { Ok(()) } else { Err(failed) }
        });
        assert_eq!(space.condition("web/a", "Ready").unwrap()["reason"], "ImmutableField");
        assert_eq!(
            (sizes(), field("statefulset/a-db", "/metadata/uid")),
            ([json!("2Mi"), json!("2Mi")], larger.clone())
        );
    };
    refused("1Mi");
    kubectl(&["patch", "storageclass", &space.name, "-p", r#"{"allowVolumeExpansion": false}"#], None).unwrap();
    refused("3Mi");
    assert_eq!(pods(), before);
    drop((operator, volumes));
}

/// A7. A pod takes its claim by the name, whatever labels it has.
#[test]
fn a_claim_without_labels_counts_and_neither_it_nor_a_pod_gets_one_of_ours() {
    let space = Space::new("memnamed");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-a-db-0", "namespace": space.name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    kubectl(&["create", "-f", "-"], Some(&claim.to_string())).unwrap();
    space.apply("Web", "a", &json!({"size": 1}));
    eventually("it is refused", || {
        let ready = space.condition("web/a", "Ready")?;
        if ready["reason"] == "OrphanedVolumes" { Ok(()) } else { Err(ready.to_string()) }
    });
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(0));
    space.kubectl(&["delete", "pvc/data-a-db-0"]).unwrap();
    wait_size(&space, "a", 1);
    for object in ["pvc/data-a-db-0", "pod/a-db-0"] {
        let labels = space.get(object).unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels["app"], "a", "{object}: {labels}");
        assert!(labels.get("helm.sdk.operatorframework.io/chart").is_none(), "{object}: {labels}");
    }
}

/// Claims of earlier members are not taken unless the user asks for it.
#[test]
fn orphaned_volumes_are_refused_or_adopted() {
    let space = Space::new("memkept");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    space.delete("web/a");
    space.wait_gone("web/a");
    space.wait_gone("pod/a-db-1");
    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 2}));
    eventually("it is refused", || {
        let ready = space.condition("web/a", "Ready")?;
        if ready["reason"] == "OrphanedVolumes" { Ok(()) } else { Err(ready.to_string()) }
    });
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(0));
    space.apply("Web", "a", &json!({"size": 2, "onOrphan": "Adopt"}));
    wait_size(&space, "a", 2);
    let after = writes(&space)[before..].to_vec();
    assert!(!after.iter().any(|w| w.starts_with("create") || w.starts_with("delete")), "{after:?}");
}

/// A claim that was restored under the name of a member to come is not the operator's to delete.
#[test]
fn a_restored_claim_is_never_deleted_for_a_member_that_joins() {
    let space = Space::new("memrestored");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    // As a backup tool does, with the labels that it had.
    let labels = space.get("pvc/data-a-db-0").unwrap()["metadata"]["labels"].clone();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-a-db-1", "namespace": space.name, "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    kubectl(&["create", "-f", "-"], Some(&claim.to_string())).unwrap();
    let uid = space.get("pvc/data-a-db-1").unwrap()["metadata"]["uid"].clone();
    space.apply("Web", "a", &json!({"size": 3}));
    eventually("it is refused", || {
        let ready = space.condition("web/a", "Ready")?;
        let named = ready["message"].as_str().is_some_and(|message| message.contains("claim data-a-db-1 exists"));
        if ready["reason"] == "OrphanedVolumes" && named { Ok(()) } else { Err(ready.to_string()) }
    });
    let claim = space.get("pvc/data-a-db-1").unwrap();
    assert_eq!((&claim["metadata"]["uid"], claim["metadata"].get("deletionTimestamp")), (&uid, None));
    space.delete("pvc/data-a-db-1");
    wait_size(&space, "a", 3);
    // Claims of members go as always, and an event reports it.
    space.apply("Web", "a", &json!({"size": 1}));
    wait_size(&space, "a", 1);
    space.wait_gone("pvc/data-a-db-1");
    assert!(space.wait_event("ClaimDeleted").contains("claim data-a-db-"));
}

/// A minijinja chart says the same in the same words.
#[test]
fn a_minijinja_chart_has_members_too() {
    let space = Space::new("memjinja");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members-jinja")]), &[]);
    space.apply("Web", "a", &json!({"size": 2}));
    space.wait_field("statefulset/a", "/spec/replicas", &json!(2));
    space.wait_field("web/a", "/status/plan/state", &json!("Complete"));
    let writes = writes(&space);
    assert_eq!(writes, ["patch a", "patch a", "patch a", "create join-1"]);
    assert!(!space.helm(&["get", "manifest", "a"]).unwrap().contains("replicas"));
}

/// An existing StatefulSet keeps its members, and none is restarted, when its chart begins to say that it has
/// members. The chart's own replicas apply again when the chart stops saying so.
#[test]
fn a_stateful_set_that_is_there_is_taken_over_with_the_members_it_has() {
    let space = Space::new("memadopt");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 3, "members": false}));
    space.wait("web/a", "Ready", "True");
    let uids = || -> Vec<Value> {
        (0..3).map(|k| space.get(&format!("pod/a-db-{k}")).unwrap()["metadata"]["uid"].clone()).collect()
    };
    let before = uids();
    space.apply("Web", "a", &json!({"size": 3}));
    wait_size(&space, "a", 3);
    assert_eq!(uids(), before);
    // Created, its update strategy taken over, then OnDelete; once more if its controller wrote in between.
    let writes = writes(&space);
    assert!(writes.len() >= 3 && writes.iter().all(|w| w == "patch a-db"), "{writes:?}");
    space.wait_field("statefulset/a-db", "/spec/updateStrategy", &json!({"type": "OnDelete"}));
    space.apply("Web", "a", &json!({"size": 2}));
    wait_size(&space, "a", 2);
    space.apply("Web", "a", &json!({"size": 1, "members": false}));
    space.wait_field("statefulset/a-db", "/spec/replicas", &json!(1));
    space.wait_field("statefulset/a-db", "/spec/updateStrategy/type", &json!("RollingUpdate"));
    space.wait("web/a", "Ready", "True");
    space.wait_field("web/a", "/status/members", &json!(null));
}

/// A pod that nothing starts holds up the plan, and the condition says which and for how long. The next operator continues it.
#[test]
fn a_plan_without_progress_says_why_and_an_operator_that_starts_writes_nothing_at_rest() {
    let space = Space::new("memlate");
    let started = Arc::new(AtomicU32::new(0));
    let starts = Arc::clone(&started);
    let _kubelet = Kubelet::with(&space, move |pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let of_job = pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
        match () {
            () if of_job => Some(json!({"phase": "Succeeded"})),
            () if name.ends_with("-1") && starts.load(Ordering::SeqCst) == 0 => None,
            () => Some(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
        }
    });
    let watches = space.watches(&[("Web", "members")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "a", &json!({"size": 3, "progressDeadline": "10s"}));
    let event = space.wait_event("ProgressDeadlineExceeded");
    assert!(event.contains("add a-db-1: no progress for 10 seconds: waiting for pod a-db-1"), "{event}");
    let ready = space.condition("web/a", "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ProgressDeadlineExceeded")));
    space.wait_field("web/a", "/status/plan/phases/0/name", &json!("add a-db-1"));
    assert!(operator.stop());
    started.store(1, Ordering::SeqCst);
    // A change of the pod makes the kubelet look at it again.
    space.kubectl(&["label", "pod/a-db-1", "seen=again"]).unwrap();
    let operator = space.operator(&watches, &[]);
    wait_size(&space, "a", 3);
    operator.settle();
    assert!(operator.stop());
    let before = space.requests().len();
    let operator = space.operator(&watches, &[]);
    operator.settle();
    let requests = space.requests()[before..].to_vec();
    let is_read = |r: &String| r.starts_with("get") || r.starts_with("list");
    assert!(requests.iter().all(is_read), "{requests:?}");
}

/// Phase, size, members and versions as coreos' etcd-operator reported them; `paused` of the document.
#[test]
fn the_status_speaks_as_coreos_did_and_a_paused_set_is_left_alone() {
    let space = Space::new("memcoreos");
    let _kubelet = Kubelet::of_members(&space, well);
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    let of = |field: &str, kind: &str| json!({"members": "db", "field": field, "type": kind});
    let status = json!({"phase": of("phase", "string"), "size": of("pods", "integer"), "controlPaused": of("paused", "boolean"),
        "serviceName": {"value": "a-client"}, "currentVersion": of("currentVersion", "string"),
        "targetVersion": of("targetVersion", "string"), "up": of("readyMembers", "array")});
    space.apply("Web", "a", &json!({"size": 2, "status": status}));
    wait_size(&space, "a", 2);
    let told = space.get("web/a").unwrap()["status"].clone();
    let field = |name: &str| told[name].clone();
    assert_eq!((field("phase"), field("size"), field("serviceName")), (json!("Running"), json!(2), json!("a-client")));
    assert_eq!((field("currentVersion"), field("targetVersion")), (json!("1"), json!("")));
    assert_eq!(field("up"), json!(["a-db-0", "a-db-1"]));

    // While it is paused nobody comes.
    let before = writes(&space).len();
    space.apply("Web", "a", &json!({"size": 3, "paused": true, "status": status}));
    space.wait_field("web/a", "/status/controlPaused", &json!(true));
    space.wait_field("web/a", "/status/members/db/size", &json!(3));
    assert_eq!(writes(&space)[before..], Vec::<String>::new());
    space.apply("Web", "a", &json!({"size": 3, "status": status}));
    wait_size(&space, "a", 3);
    assert_eq!(space.get("web/a").unwrap()["status"]["controlPaused"], json!(false));
    // Without the chart's wish the status does not speak so.
    space.apply("Web", "a", &json!({"size": 3}));
    eventually("its fields are gone", || {
        let told = space.get("web/a")?["status"].clone();
        if told.get("phase").is_none() && told["members"].get("ready").is_none() {
            Ok(())
        } else {
            Err(told.to_string())
        }
    });
}
