//! Install, change, prune, delete: the life of a release.
//!
//! Codes in names are rules of docs/design/applying.md.

use crate::harness::{Space, eventually, kubectl};
use serde_json::{Value, json};

#[test]
fn a_custom_resource_becomes_objects_and_its_deletion_removes_all() {
    let space = Space::new("install");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    let deployed = space.wait("web/app", "Deployed", "True");
    assert_eq!(deployed["reason"], "InstallSuccessful");
    assert_eq!(deployed["message"], "Thank you for app: hello.");

    let cr = space.get("web/app").unwrap();
    assert_eq!(cr["metadata"]["finalizers"], json!(["helm.sdk.operatorframework.io/uninstall-release"]));
    assert_eq!(cr["status"]["deployedRelease"]["name"], "app");
    assert_eq!(cr["status"]["observedGeneration"], 1);
    let release = &cr["status"]["release"];
    assert_eq!(
        (&release["revision"], &release["chart"], &release["appVersion"]),
        (&json!(1), &json!("web-1.2.3"), &json!("9.8"))
    );
    let ready = space.condition("web/app", "Ready").unwrap();
    assert_eq!(ready["status"], "False");
    assert!(ready["message"].as_str().unwrap().starts_with("Deployment app-web: "), "{ready}");

    let deployment = space.get("deployment/app-web").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    let metadata = &deployment["metadata"];
    assert_eq!(metadata["ownerReferences"][0]["uid"], cr["metadata"]["uid"]);
    assert_eq!(metadata["labels"]["helm.sdk.operatorframework.io/chart"], "web");
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(metadata["annotations"]["meta.helm.sh/release-name"], "app");
    assert_eq!(metadata["managedFields"][0]["manager"], "tillerman");
    space.wait_event("Installed");

    space.delete("web/app");
    space.wait_gone("web/app");
    for object in ["deployment/app-web", "service/app-web", "configmap/app-config", "secret/sh.helm.release.v1.app.v1"]
    {
        space.wait_gone(object);
    }
    space.wait_event("Uninstalled");
    assert!(operator.stop(), "it ends well");
}

/// B5. An entry of the manager of a chart's fields that is not an apply would own fields beside it.
#[test]
fn what_is_no_field_of_a_chart_is_written_under_another_name() {
    let space = Space::new("managers");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    for object in ["web/app", "secret/sh.helm.release.v1.app.v1", "deployment/app-web"] {
        let object_is = space.get(object).unwrap();
        let entries = object_is["metadata"]["managedFields"].as_array().unwrap();
        let by = |manager: &str| entries.iter().filter(|e| e["manager"] == manager).map(|e| &e["operation"]).collect();
        let (charts, ours): (Vec<_>, Vec<_>) = (by("tillerman"), by("tillerman-controller"));
        if object.starts_with("deployment") {
            assert_eq!((charts, ours), (vec![&json!("Apply")], vec![]), "{object}");
        } else {
            assert!(charts.is_empty() && !ours.is_empty(), "{object}: {entries:?}");
        }
    }
}

/// docs/design/lessons.md pain 18: nothing is left behind by a deletion during the installation.
#[test]
fn the_finalizer_is_written_before_anything_else() {
    let space = Space::new("finalizer");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let writes: Vec<String> = eventually("the audit log", || {
        let writes: Vec<String> =
            space.requests().into_iter().filter(|r| !r.starts_with("get") && !r.starts_with("list")).collect();
        if writes.len() >= 7 { Ok(writes) } else { Err(format!("{writes:?}")) }
    });
    // One patch for the finalizer, one apply per object, one record, one status, one event; nothing is read.
    let expected =
        ["patch webs", "patch configmaps", "patch services", "patch deployments", "create secrets", "patch webs"];
    assert_eq!(writes[..expected.len()], expected);
    let reads: Vec<String> =
        space.requests().into_iter().filter(|r| r.starts_with("get") && !r.contains('/')).collect();
    assert_eq!(reads, [""; 0]);
}

#[test]
fn a_change_of_the_spec_is_a_new_revision_and_what_left_the_chart_is_pruned() {
    let space = Space::new("upgrade");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"extra": true}));
    space.wait("web/app", "Deployed", "True");
    space.get("configmap/app-extra").unwrap();
    space.apply("Web", "app", &json!({"extra": false, "replicas": 3}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(3));
    space.wait_gone("configmap/app-extra");
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    assert_eq!(space.condition("web/app", "Deployed").unwrap()["reason"], "UpgradeSuccessful");
    space.wait_field("web/app", "/status/observedGeneration", &json!(2));
    // A value that the chart does not use changes nothing that is applied.
    space.apply("Web", "app", &json!({"extra": false, "replicas": 3, "unused": 1}));
    space.wait_field("web/app", "/status/observedGeneration", &json!(3));
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["revision"], 2);
}

#[test]
fn what_is_to_be_kept_stays_when_the_release_goes() {
    let space = Space::new("keep");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"kept": true}));
    space.wait("web/app", "Deployed", "True");
    let kept = space.get("configmap/app-kept").unwrap();
    assert_eq!(kept["metadata"].get("ownerReferences"), None);
    space.kubectl(&["delete", "configmap/app-kept"]).unwrap();
    eventually("it comes back, as every object does", || space.get("configmap/app-kept"));
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
    space.get("configmap/app-kept").unwrap();
}

/// docs/design/lessons.md pain 14, of objects.
#[test]
fn objects_in_other_namespaces_and_of_the_cluster_are_kept_and_removed() {
    let space = Space::new("elsewhere");
    let other = format!("{}-other", space.name);
    kubectl(&["create", "namespace", &other], None).unwrap();
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"elsewhere": other}));
    space.wait("web/app", "Deployed", "True");
    let get = |object: &str| -> Result<Value, String> {
        let text = kubectl(&["-n", &other, "get", object, "-o", "json"], None)?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    };
    let role = format!("clusterrole/{other}-app");
    for object in ["configmap/app-elsewhere", &role] {
        let annotations = get(object).unwrap()["metadata"]["annotations"].clone();
        assert_eq!(annotations["operator-sdk/primary-resource"], format!("{}/app", space.name));
        assert_eq!(annotations["operator-sdk/primary-resource-type"], "Web.test.tillerman.dev");
    }
    kubectl(&["-n", &other, "delete", "configmap/app-elsewhere"], None).unwrap();
    eventually("it comes back", || get("configmap/app-elsewhere"));
    kubectl(&["delete", &role], None).unwrap();
    eventually("it comes back", || get(&role));
    space.kubectl(&["delete", "web/app"]).unwrap();
    for object in ["configmap/app-elsewhere", &role] {
        eventually("it goes", || get(object).map_or(Ok(()), |_| Err("it is there")));
    }
    kubectl(&["delete", "namespace", &other, "--wait=false"], None).unwrap();
}

#[test]
fn the_definitions_of_a_chart_come_before_their_objects() {
    let space = Space::new("crds");
    let _operator = space.operator(&space.watches(&[("Web", "withcrd")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    assert_eq!(space.get("gadget/app").unwrap()["spec"]["size"], 3);
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("gadget/app");
    // Definitions are never deleted by an uninstall.
    kubectl(&["get", "crd/gadgets.chart.tillerman.dev"], None).unwrap();
}

/// docs/design/lessons.md pain 16: nobody waits for another.
#[test]
fn a_hundred_custom_resources_do_not_wait_for_one_another() {
    let space = Space::new("many");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let all: Vec<String> = (0..100)
        .map(|n| {
            format!(
                "apiVersion: test.tillerman.dev/v1\nkind: Web\nmetadata: {{name: app-{n}, namespace: {}}}\nspec: {{}}\n",
                space.name
            )
        })
        .collect();
    kubectl(&["create", "-f", "-"], Some(&all.join("---\n"))).unwrap();
    eventually("all are deployed", || {
        let text = space.kubectl(&["get", "deployments", "-o", "name"])?;
        if text.lines().count() == 100 { Ok(()) } else { Err(format!("{} are", text.lines().count())) }
    });
}

/// docs/design/lessons.md pain 14: a kind is divided among operators by `selector`.
#[test]
fn operators_with_selectors_have_their_own_custom_resources_and_hand_them_over() {
    let space = Space::new("selected");
    let watches = |part: &str| {
        let all = std::fs::read_to_string(space.watches(&[("Web", "web")])).unwrap();
        space.file(&format!("{part}.yaml"), &format!("{all}  selector: {{matchLabels: {{part: {part}}}}}\n"))
    };
    let put = |name: &str, part: &str, replicas: u32| {
        let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
            "metadata": {"name": name, "namespace": space.name, "labels": {"part": part}}, "spec": {"replicas": replicas}});
        kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    };
    put("b", "two", 1);
    put("a", "one", 1);
    let one = space.operator(&watches("one"), &[]);
    space.wait("web/a", "Deployed", "True");
    one.settle();
    assert_eq!(space.get("web/b").unwrap().get("status"), None);
    let two = space.operator(&watches("two"), &[]);
    space.wait("web/b", "Deployed", "True");
    two.settle();
    // The operator that loses one leaves it as it is, and the operator that gets it continues.
    let uid = space.get("deployment/a-web").unwrap()["metadata"]["uid"].clone();
    put("a", "two", 3);
    space.wait_field("deployment/a-web", "/spec/replicas", &json!(3));
    space.wait_field("web/a", "/status/release/revision", &json!(2));
    one.settle();
    two.settle();
    assert_eq!(space.get("deployment/a-web").unwrap()["metadata"]["uid"], uid);
    assert_eq!(space.helm(&["history", "a"]).unwrap().lines().count(), 3);
    assert!(one.stop());
    space.kubectl(&["delete", "web/a", "web/b", "--wait=false"]).unwrap();
    for object in ["web/a", "web/b", "deployment/a-web", "secret/sh.helm.release.v1.a.v2"] {
        space.wait_gone(object);
    }
}
