//! Objects of Helm, of helm-operator or of nobody are taken over: nothing restarts, and fields that the chart drops later are removed.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Space, eventually, kubectl, repository};
use serde_json::{Value, json};

/// What the annotations of these tests need.
const ALLOW: &str = "  allow: [takeOwnership, releaseName]\n";

/// uid and generation of the objects of a release: what changes when an object is recreated or its spec changes.
fn identities(space: &Space) -> Vec<(Value, Value)> {
    let objects = ["deployment/app-web", "service/app-web", "configmap/app-config"];
    let of = |object: &&str| {
        let metadata = space.get(object).unwrap()["metadata"].clone();
        (metadata["uid"].clone(), metadata["generation"].clone())
    };
    objects.iter().map(of).collect()
}

fn pods(space: &Space) -> Vec<Value> {
    let text = space.kubectl(&["get", "pods,replicasets", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
}

/// Waits until the controllers have made what they make.
fn wait_pods(space: &Space, number: usize) {
    eventually("the pods are there", || match pods(space).len() {
        found if found == number => Ok(()),
        found => Err(format!("{found} pods and replica sets")),
    });
}

fn managers(space: &Space, object: &str) -> Vec<String> {
    let object = space.get(object).unwrap();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let main = entries.iter().filter(|e| e.get("subresource").is_none());
    main.map(|e| format!("{}/{}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap())).collect()
}

fn chart() -> String {
    repository("tests/charts/web").display().to_string()
}

/// A Web with annotations.
fn apply_web(space: &Space, annotations: &Value, spec: &Value) {
    let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
        "metadata": {"name": "app", "namespace": space.name, "annotations": annotations}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn wait_data(space: &Space, object: &str, data: &Value) {
    space.wait_field(object, "/data", data);
}

/// docs/design/lessons.md pain 9.
#[test]
fn a_release_of_helm_is_taken_over_only_when_asked_and_nothing_restarts() {
    let space = Space::new("adopt");
    space.helm(&["install", "app", &chart(), "--set", "replicas=2,extra=true"]).unwrap();
    wait_pods(&space, 3);
    let (before, pods_before) = (identities(&space), pods(&space));
    let operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
    let spec = json!({"replicas": 2, "extra": true});
    apply_web(&space, &json!({}), &spec);
    let refused = space.wait("web/app", "Irreconcilable", "True");
    assert!(refused["message"].as_str().unwrap().contains("tillerman.dev/take-ownership"), "{refused}");
    apply_web(&space, &json!({"tillerman.dev/take-ownership": "true"}), &spec);
    space.wait("web/app", "Deployed", "True");
    assert!(space.wait_event("ReleaseAdopted").contains("revision 1"));
    operator.settle();
    assert_eq!((identities(&space), pods(&space)), (before, pods_before));
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["revision"], 1);
    for object in ["service/app-web", "configmap/app-config", "configmap/app-extra"] {
        assert_eq!(managers(&space, object), ["tillerman/Apply"], "{object}");
        let metadata = space.get(object).unwrap()["metadata"].clone();
        assert_eq!(metadata["ownerReferences"][0]["kind"], "Web");
        assert_eq!(metadata["labels"]["helm.sdk.operatorframework.io/chart"], "web");
    }
    // It is one of ours: what leaves the chart goes, and so does all when the custom resource goes.
    apply_web(&space, &json!({"tillerman.dev/take-ownership": "true"}), &json!({"replicas": 2}));
    space.wait_gone("configmap/app-extra");
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
    space.wait_gone("secret/sh.helm.release.v1.app.v1");
}

/// Made by `helm install` and given what helm-operator gives: owner references on objects and record, its label, and its field manager.
fn made_by_helm_operator(space: &Space, more: &str) {
    space.helm(&["install", "app", &chart(), "--set", more, "--server-side=false"]).unwrap();
    let cr = space.get("web/app").unwrap();
    let reference = json!([{"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "name": "app",
        "uid": cr["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
    let labels = json!({"helm.sdk.operatorframework.io/chart": "web"});
    let patch = json!({"metadata": {"ownerReferences": reference}}).to_string();
    space.kubectl(&["patch", "secret/sh.helm.release.v1.app.v1", "--type=merge", "-p", &patch]).unwrap();
    for object in ["deployment/app-web", "service/app-web", "configmap/app-config", "configmap/app-extra"] {
        let mut entries = space.get(object).unwrap()["metadata"]["managedFields"].clone();
        for entry in entries.as_array_mut().unwrap().iter_mut().filter(|e| e["manager"] == "helm") {
            entry["manager"] = json!("helm-operator");
        }
        let patch = json!({"metadata": {"managedFields": entries}}).to_string();
        space.kubectl(&["patch", object, "--type=merge", "-p", &patch]).unwrap();
        let patch = json!({"metadata": {"ownerReferences": reference, "labels": labels}}).to_string();
        space.kubectl(&["patch", object, "--type=merge", "--field-manager=helm-operator", "-p", &patch]).unwrap();
    }
}

#[test]
fn a_release_of_helm_operator_is_continued_and_nothing_restarts() {
    let space = Space::new("ho");
    space.apply("Web", "app", &json!({"replicas": 2, "extra": true}));
    made_by_helm_operator(&space, "replicas=2,extra=true");
    assert_eq!(managers(&space, "configmap/app-config"), ["helm-operator/Update"]);
    wait_pods(&space, 3);
    let (before, pods_before) = (identities(&space), pods(&space));
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    assert_eq!((identities(&space), pods(&space)), (before, pods_before));
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["revision"], 1);
    assert_eq!(managers(&space, "configmap/app-config"), ["tillerman/Apply"]);
    assert_eq!(space.get("configmap/app-config").unwrap()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait_gone("configmap/app-extra");
}

/// B1.
#[test]
fn a_field_of_helm_operator_that_the_chart_drops_goes() {
    let space = Space::new("b1-ho");
    space.apply("Web", "app", &json!({"extra": true, "more": {"a": "1", "b": "2"}}));
    made_by_helm_operator(&space, "extra=true,more.a=1,more.b=2");
    let operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    space.apply("Web", "app", &json!({"extra": true, "more": {"a": "1"}}));
    wait_data(&space, "configmap/app-config", &json!({"greeting": "hello", "a": "1"}));
}

/// B1.
#[test]
fn a_field_of_helm_that_the_chart_drops_in_the_same_pass_goes() {
    for flag in ["--server-side=true", "--server-side=false"] {
        let space = Space::new("b1-helm");
        space.helm(&["install", "app", &chart(), "--set", "more.a=1,more.b=2", flag]).unwrap();
        let _operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
        apply_web(&space, &json!({"tillerman.dev/take-ownership": "true"}), &json!({"more": {"a": "1"}}));
        space.wait_field("web/app", "/status/release/revision", &json!(2));
        wait_data(&space, "configmap/app-config", &json!({"greeting": "hello", "a": "1"}));
        assert_eq!(managers(&space, "configmap/app-config"), ["tillerman/Apply"]);
    }
}

/// B1.
#[test]
fn what_a_human_adds_with_helm_goes_again() {
    let (space, chart) = (Space::new("b1-human"), chart());
    let operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    for (revision, flag) in [(2, "--server-side=true"), (4, "--server-side=false")] {
        operator.settle();
        let mut upgrade = vec!["upgrade", "app", &chart, "--set", "more.human=1", flag];
        if revision == 2 {
            upgrade.push("--force-conflicts");
        }
        space.helm(&upgrade).unwrap();
        space.wait_field("web/app", "/status/release/revision", &json!(revision + 1));
        wait_data(&space, "configmap/app-config", &json!({"greeting": "hello"}));
        assert_eq!(managers(&space, "configmap/app-config"), ["tillerman/Apply"], "{flag}");
    }
}

#[test]
fn an_object_that_is_nobodys_is_taken_over_only_when_asked() {
    let space = Space::new("nobody");
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app-config, namespace: {}}}\ndata: {{mine: x, greeting: old}}\n",
        space.name
    );
    kubectl(&["create", "-f", "-"], Some(&map)).unwrap();
    let operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
    let before = space.get("configmap/app-config").unwrap();
    apply_web(&space, &json!({}), &json!({}));
    let failed = space.wait("web/app", "ReleaseFailed", "True");
    assert!(failed["message"].as_str().unwrap().contains("tillerman.dev/take-ownership"), "{failed}");
    // Nothing of it was touched, not even for a moment.
    assert_eq!(space.get("configmap/app-config").unwrap(), before);
    apply_web(&space, &json!({"tillerman.dev/take-ownership": "true"}), &json!({}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let after = space.get("configmap/app-config").unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    // Its other fields are its maker's.
    assert_eq!(after["data"], json!({"mine": "x", "greeting": "hello"}));
    assert!(space.wait_event("ObjectAdopted").contains("ConfigMap app-config"));
}

#[test]
fn an_object_of_another_owner_is_never_taken_over() {
    let space = Space::new("others");
    space.apply("Other", "boss", &json!({}));
    let uid = space.get("other/boss").unwrap()["metadata"]["uid"].clone();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app-config", "namespace": space.name,
        "ownerReferences": [{"apiVersion": "test.tillerman.dev/v1", "kind": "Other", "name": "boss", "uid": uid, "controller": true}]}});
    kubectl(&["create", "-f", "-"], Some(&map.to_string())).unwrap();
    let before = space.get("configmap/app-config").unwrap();
    let _operator = space.operator(&space.watches_with(&[("Web", "web")], ALLOW), &[]);
    apply_web(&space, &json!({"tillerman.dev/take-ownership": "true"}), &json!({}));
    let failed = space.wait("web/app", "ReleaseFailed", "True");
    assert!(failed["message"].as_str().unwrap().contains("it belongs to Other boss"), "{failed}");
    assert_eq!(space.get("configmap/app-config").unwrap(), before);
}

/// B2.
#[test]
fn fields_of_an_object_whose_managers_were_wiped_still_go_with_the_chart() {
    let space = Space::new("b2");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"more": {"a": "1", "b": "2"}}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let wipe = r#"{"metadata":{"managedFields":[{}]},"data":{"theirs":"x"}}"#;
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", wipe]).unwrap();
    eventually("it is ours again", || match managers(&space, "configmap/app-config") {
        managers if managers.iter().any(|m| m == "tillerman/Apply") => Ok(()),
        managers => Err(format!("{managers:?}")),
    });
    operator.settle();
    space.apply("Web", "app", &json!({"more": {"a": "1"}}));
    wait_data(&space, "configmap/app-config", &json!({"greeting": "hello", "a": "1", "theirs": "x"}));
}

/// B2.
#[test]
fn fields_go_also_when_the_managers_were_wiped_while_the_operator_was_down() {
    let space = Space::new("b2-down");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"more": {"a": "1", "b": "2"}}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    operator.kill();
    let wipe = r#"{"metadata":{"managedFields":[{}]},"data":{"theirs":"x"}}"#;
    space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", wipe]).unwrap();
    space.apply("Web", "app", &json!({"more": {"a": "1"}}));
    let _operator = space.operator(&watches, &[]);
    wait_data(&space, "configmap/app-config", &json!({"greeting": "hello", "a": "1", "theirs": "x"}));
}

/// B2.
#[test]
fn a_field_that_another_applier_keeps_is_reported_with_its_owner() {
    let space = Space::new("b2-stays");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"more": {"a": "1", "b": "2"}}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app-config", "namespace": space.name},
        "data": {"b": "2"}});
    kubectl(&["apply", "--server-side", "--field-manager=somebody", "-f", "-"], Some(&theirs.to_string())).unwrap();
    space.apply("Web", "app", &json!({"more": {"a": "1"}}));
    let note = space.wait_event("FieldStays");
    assert_eq!(note, "ConfigMap app-config: the chart no longer has data.b, and it stays because somebody owns it");
}

/// C2.
#[test]
fn a_field_that_was_edited_away_and_back_goes_with_the_chart() {
    let space = Space::new("c2");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"more": {"a": "1"}}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    // Both edits happen while no operator runs.
    operator.kill();
    for value in ["2", "1"] {
        let patch = format!(r#"{{"data":{{"a":"{value}"}}}}"#);
        space.kubectl(&["patch", "configmap/app-config", "--type=merge", "-p", &patch]).unwrap();
    }
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    eventually("it is ours alone", || match managers(&space, "configmap/app-config") {
        managers if managers == ["tillerman/Apply"] => Ok(()),
        managers => Err(format!("{managers:?}")),
    });
    operator.settle();
    space.apply("Web", "app", &json!({}));
    wait_data(&space, "configmap/app-config", &json!({"greeting": "hello"}));
}

/// B3.
#[test]
fn what_helm_deploys_and_server_side_apply_refuses_is_deployed_and_reported() {
    let space = Space::new("b3");
    let chart = repository("tests/charts/careless-apply").display().to_string();
    space.helm(&["install", "beside", &chart, "--server-side=false"]).expect("Helm deploys it");
    let operator = space.operator(&space.watches(&[("Web", "careless-apply")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let container = |name: &str| {
        let deployment = space.get(&format!("deployment/{name}-web")).unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let ours = container("app");
    let helms = container("beside");
    assert_eq!((&ours["env"], &ours["ports"]), (&helms["env"], &helms["ports"]));
    assert_eq!(helms["env"].as_array().unwrap().len(), 4);
    // Neither has the fields that do not exist.
    assert_eq!((ours.get("pullPolicy"), helms.get("pullPolicy")), (None, None));
    let note = space.wait_event("ManifestMended");
    assert!(note.starts_with("Deployment app-web: ") || note.starts_with("Service app-web: "), "{note}");
    // It is at rest, and an edit is repaired as any other.
    operator.settle();
    space.kubectl(&["scale", "deployment/app-web", "--replicas=3"]).unwrap();
    space.kubectl(&["set", "image", "deployment/app-web", "web=web:2"]).unwrap();
    space.wait_field("deployment/app-web", "/spec/template/spec/containers/0/image", &json!("web:1"));
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
}

/// A release that Helm made under another name than the custom resource's, and one that is made so.
#[test]
fn a_release_may_have_another_name_than_its_custom_resource_for_good() {
    let space = Space::new("named");
    space.helm(&["install", "old", &chart(), "--set", "replicas=2"]).unwrap();
    let uid = space.get("deployment/old-web").unwrap()["metadata"]["uid"].clone();
    let operator = space.operator(&space.watches_with(&[("Web", "web"), ("Other", "web")], ALLOW), &[]);
    let put = |kind: &str, name: &str, release: &str, replicas: u32| {
        let annotations = json!({"tillerman.dev/release-name": release, "tillerman.dev/take-ownership": "true"});
        space.apply_with(kind, name, &annotations, &json!({"replicas": replicas}));
    };
    put("Web", "app", "old", 2);
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    assert_eq!(space.get("deployment/old-web").unwrap()["metadata"]["uid"], uid);
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["name"], "old");
    put("Web", "app", "old", 3);
    space.wait_field("deployment/old-web", "/spec/replicas", &json!(3));
    space.kubectl(&["scale", "deployment/old-web", "--replicas=5"]).unwrap();
    space.wait_field("deployment/old-web", "/spec/replicas", &json!(3));
    // Another may not have it, nor may it have another.
    put("Other", "thief", "old", 1);
    let refused = space.wait("other/thief", "Irreconcilable", "True");
    assert!(
        refused["message"].as_str().unwrap().contains("release old in this namespace belongs to Web app"),
        "{refused}"
    );
    for name in ["new", "A b"] {
        put("Web", "app", name, 4);
        let words =
            if name == "new" { "the release is called old and cannot be called new" } else { "invalid release name" };
        eventually("it is refused", || {
            let found = space.condition("web/app", "Irreconcilable")?;
            if found["message"].as_str().is_some_and(|text| text.contains(words)) {
                Ok(())
            } else {
                Err(found.to_string())
            }
        });
    }
    assert_eq!(space.get("deployment/old-web").unwrap()["spec"]["replicas"], 3);
    assert!(space.get("deployment/new-web").is_err());
    // A restart knows the name by the record, and a deletion takes all of it.
    operator.kill();
    let operator = space.operator(&space.watches_with(&[("Web", "web"), ("Other", "web")], ALLOW), &[]);
    put("Web", "app", "old", 4);
    space.wait_field("deployment/old-web", "/spec/replicas", &json!(4));
    put("Web", "made", "fresh", 1);
    space.wait("web/made", "Deployed", "True");
    operator.settle();
    let list = space.helm(&["list", "-q"]).unwrap();
    assert_eq!(list.lines().collect::<Vec<_>>(), ["fresh", "old"]);
    space.kubectl(&["delete", "web/app", "web/made", "other/thief", "--wait=false"]).unwrap();
    for object in ["web/app", "web/made", "other/thief", "deployment/old-web", "deployment/fresh-web"] {
        space.wait_gone(object);
    }
    eventually("the records go", || match space.helm(&["list", "-q"])?.as_str() {
        "" => Ok(()),
        left => Err(left.to_owned()),
    });
}
