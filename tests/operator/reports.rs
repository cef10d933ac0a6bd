//! Faults that users of other operators reported: legal charts with surprising effects.
//!
//! Codes in names are rows of docs/design/lessons.md.

use serde_json::{Value, json};

use crate::harness::{Space, eventually, kubectl};
use crate::kubelet::Kubelet;

/// An operator for the chart that renders the objects of its values.
fn with_objects(test: &str) -> (Space, crate::harness::Operator) {
    let space = Space::new(test);
    let operator = space.operator(&space.watches(&[("Web", "tenant")]), &[]);
    (space, operator)
}

fn apply(space: &Space, objects: &[Value]) {
    space.apply("Web", "app", &json!({"objects": objects}));
}

/// Waits until a revision is deployed.
fn deployed(space: &Space, revision: u64) {
    space.wait_field("web/app", "/status/release/revision", &json!(revision));
    space.wait("web/app", "Deployed", "True");
}

/// A Deployment with one container, and more of its spec.
fn deployment(env: &Value, more: &Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i:1", "env": env}]}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

/// A Deployment with twins, and the Service of one of them.
fn twins(image: &str) -> [Value; 2] {
    let env = json!([{"name": "OPTS", "value": "-a"}, {"name": "MORE", "value": "x"}, {"name": "OPTS", "value": "$(OPTS) -b"}]);
    let mut deployment = deployment(&env, &json!({}));
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["image"] = image.into();
    container["ports"] = json!([{"name": "http", "containerPort": 3001}, {"name": "health", "containerPort": 3001}]);
    container["readinessProbe"] = json!({"httpGet": {"port": "http"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}, "spec": {"selector": {"app": "d"},
        "ports": [{"port": 80, "targetPort": "http"}]}});
    [deployment, service]
}

/// R1. helm#31529, helm#12643, helm#12771.
#[test]
fn all_items_of_one_key_are_kept_as_helm_keeps_them() {
    let (space, operator) = with_objects("twins");
    apply(&space, &twins("i:1"));
    deployed(&space, 1);
    let container = || space.get("deployment/d").unwrap()["spec"]["template"]["spec"]["containers"][0].clone();
    let wanted = &twins("i:1")[0]["spec"]["template"]["spec"]["containers"][0];
    let names = |list: &Value| list.as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>();
    let is_whole = || {
        let live = container();
        (live["env"] == wanted["env"] && names(&live["ports"]) == ["http", "health"]).then_some(()).ok_or(live)
    };
    is_whole().unwrap();
    assert_eq!(space.get("deployment/d").unwrap()["metadata"]["generation"], 1, "written once");
    let said = space.wait_event("ManifestMended");
    assert!(
        said.contains("exists more than once, which server-side apply does not accept; all of them are kept"),
        "{said}"
    );
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
    // An edit of one of them is repaired, and so is a second one.
    let edit = r#"[{"op": "remove", "path": "/spec/template/spec/containers/0/ports/0"}]"#;
    space.kubectl(&["patch", "deployment/d", "--type=json", "-p", edit]).unwrap();
    eventually("both ports are there again", &is_whole);
    space.kubectl(&["set", "image", "deployment/d", "c=other"]).unwrap();
    space.wait_field("deployment/d", "/spec/template/spec/containers/0/image", &json!("i:1"));
    is_whole().unwrap();
    // What others add stays, and what the chart drops goes.
    space.kubectl(&["annotate", "deployment/d", "theirs=1"]).unwrap();
    apply(&space, &twins("i:2"));
    deployed(&space, 2);
    is_whole().unwrap();
    let live = space.get("deployment/d").unwrap();
    assert_eq!(live["metadata"]["annotations"]["theirs"], "1");
    apply(&space, &[deployment(&json!([{"name": "MORE", "value": "x"}]), &json!({})), twins("i:2")[1].clone()]);
    deployed(&space, 3);
    let live = container();
    assert_eq!((&live["env"], live.get("ports")), (&json!([{"name": "MORE", "value": "x"}]), None), "{live}");
    assert_eq!(live.get("readinessProbe"), None);
    operator.settle();
}

/// cozystack#2602: Helm creates such objects, since the API server leaves the null out then.
#[test]
fn a_null_in_a_custom_resource_is_left_out_and_said() {
    let (space, operator) = with_objects("nulls");
    let group = format!("{}.tillerman.dev", space.name);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("machines.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Machine", "plural": "machines"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "properties": {"s": {"type": "string"}, "tpm": {"type": "object"},
                    "free": {"type": "string", "nullable": true}, "disks": {"type": "array", "items": {"type": "object", "properties": {
                        "size": {"type": "integer"}}}}}}}}}}]}});
    crate::harness::kubectl(&["apply", "-f", "-"], Some(&definition.to_string())).unwrap();
    crate::harness::established(&format!("crd/machines.{group}"));
    let spec = json!({"s": "x", "tpm": null, "free": null, "disks": [{"size": null}]});
    let machine =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Machine", "metadata": {"name": "m"}, "spec": spec});
    apply(&space, &[machine]);
    deployed(&space, 1);
    let of = format!("machines.{group}/m");
    let live = space.get(&of).unwrap();
    assert_eq!(
        (&live["spec"]["s"], &live["spec"]["disks"], live["spec"].get("tpm")),
        (&json!("x"), &json!([{}]), None)
    );
    let events = space.list("events").unwrap();
    let said: String =
        events.iter().filter(|e| e["reason"] == "ManifestMended").map(|e| e["message"].to_string()).collect();
    assert!(said.contains("does not accept null for spec.tpm") && said.contains("spec.disks[0].size"), "{said}");
    assert!(!said.contains("spec.free"), "{said}");
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
    // It is drift as any other.
    space.kubectl(&["patch", &of, "--type=merge", "-p", r#"{"spec": {"s": "theirs"}}"#]).unwrap();
    space.wait_field(&of, "/spec/s", &json!("x"));
    crate::harness::kubectl(&["delete", "crd", &format!("machines.{group}"), "--wait=false"], None).unwrap();
}

/// R1. A release that Helm made on the client's side, which has the twins.
#[test]
fn taking_over_a_release_with_twins_changes_nothing() {
    let space = Space::new("twinstaken");
    let values = format!("objects={}", json!(twins("i:1")));
    let chart = crate::harness::repository("tests/charts/tenant").display().to_string();
    space.helm(&["install", "app", &chart, "--server-side=false", "--set-json", &values]).unwrap();
    let spec = |object: &Value| (object["spec"].clone(), object["metadata"]["generation"].clone());
    let before = space.get("deployment/d").unwrap();
    let operator = space.operator(&space.watches_with(&[("Web", "tenant")], "  takeOwnership: true\n"), &[]);
    apply(&space, &twins("i:1"));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let after = space.get("deployment/d").unwrap();
    assert_eq!(spec(&after), spec(&before));
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    let managers = managers.iter().filter(|m| m.get("subresource").is_none()).filter_map(|m| m["manager"].as_str());
    assert_eq!(managers.collect::<Vec<_>>(), ["tillerman"]);
}

/// Of two custom resources that want one object, the second continues as soon as the first has given it up.
#[test]
fn an_object_that_another_release_gives_up_is_taken_within_seconds() {
    let (space, _operator) = with_objects("givenup");
    let put = |name: &str, object: &str| {
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object}, "data": {"of": name}});
        space.apply("Web", name, &json!({"objects": [config]}));
    };
    let of = |object: &str, name: &str| space.wait_field(&format!("configmap/{object}"), "/data/of", &json!(name));
    put("one", "x");
    of("x", "one");
    put("two", "x");
    space.wait("web/two", "ReleaseFailed", "True");
    // The next attempt by itself comes after eight seconds.
    space.wait_field("web/two", "/status/lastAttempted/attempts", &json!(5));
    let began = std::time::Instant::now();
    put("one", "y");
    of("x", "two");
    let given_up = began.elapsed();
    // Each takes the name of the other.
    let began = std::time::Instant::now();
    put("one", "x");
    put("two", "y");
    of("x", "one");
    of("y", "two");
    eprintln!("given up after {given_up:?}, swapped after {:?}", began.elapsed());
}

/// R2. helm#5144, bitnami/charts#7532.
#[test]
fn a_field_that_only_one_of_several_shapes_has_goes_with_its_shape() {
    let (space, operator) = with_objects("shapes");
    let probe = |handler: Value| {
        let mut one = deployment(&json!([]), &json!({}));
        one["metadata"]["name"] = "p".into();
        one["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = handler;
        one
    };
    let http = || probe(json!({"httpGet": {"port": 80}}));
    apply(&space, &[deployment(&json!([]), &json!({})), http()]);
    deployed(&space, 1);
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let tcp = probe(json!({"httpGet": null, "tcpSocket": {"port": 80}}));
    apply(&space, &[deployment(&json!([]), &recreate), tcp]);
    deployed(&space, 2);
    let strategy = space.get("deployment/d").unwrap()["spec"]["strategy"].clone();
    assert_eq!(strategy, json!({"type": "Recreate"}));
    let live = space.get("deployment/p").unwrap();
    let probe = &live["spec"]["template"]["spec"]["containers"][0]["livenessProbe"];
    assert_eq!((probe.get("httpGet"), &probe["tcpSocket"]["port"]), (None, &json!(80)));
    // And back, where the chart has a null for the field that it does not want.
    let rolling = json!({"strategy": {"type": "RollingUpdate"}});
    apply(&space, &[deployment(&json!([]), &rolling), http()]);
    deployed(&space, 3);
    let nothing = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
    apply(&space, &[deployment(&json!([]), &nothing), http()]);
    deployed(&space, 4);
    operator.settle();
}

/// R14. helm#8994.
#[test]
fn the_charts_shape_of_a_field_wins_over_one_that_was_set_by_hand() {
    let (space, operator) = with_objects("byhand");
    apply(&space, &[deployment(&json!([{"name": "A", "value": "1"}]), &json!({}))]);
    deployed(&space, 1);
    space.kubectl(&["set", "env", "deployment/d", "HAND=1"]).unwrap();
    operator.settle();
    let from = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}});
    let env = json!([{"name": "A", "value": "1"}, {"name": "HAND", "valueFrom": from}]);
    apply(&space, &[deployment(&env, &json!({}))]);
    deployed(&space, 2);
    assert_eq!(space.get("deployment/d").unwrap()["spec"]["template"]["spec"]["containers"][0]["env"], env);
    let said = space.wait_event("FieldRemoved");
    assert!(
        said.starts_with("Deployment d: spec.template.spec.containers[c].env[HAND].value conflicts with"),
        "{said}"
    );
    assert!(said.ends_with("kubectl-set had set it"), "{said}");
}

/// R10. helm#12486, helm#7090.
#[test]
fn an_autoscaler_begins_with_the_replicas_that_there_are() {
    let (space, operator) = with_objects("takesover");
    apply(&space, &[deployment(&json!([]), &json!({"replicas": 20}))]);
    deployed(&space, 1);
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "d"}, "spec":
        {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "minReplicas": 2, "maxReplicas": 30}});
    let uid = space.get("deployment/d").unwrap()["metadata"]["uid"].clone();
    // The first attempt fails before it comes to the Deployment.
    space.kubectl(&["create", "configmap", "first"]).unwrap();
    let first = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}});
    apply(&space, &[first, deployment(&json!([]), &json!({})), autoscaler]);
    space.wait("web/app", "ReleaseFailed", "True");
    space.kubectl(&["delete", "configmap/first"]).unwrap();
    deployed(&space, 2);
    operator.settle();
    let live = space.get("deployment/d").unwrap();
    assert_eq!((&live["spec"]["replicas"], &live["metadata"]["uid"]), (&json!(20), &uid));
    space.kubectl(&["scale", "deployment/d", "--replicas=7"]).unwrap();
    operator.settle();
    assert_eq!(space.get("deployment/d").unwrap()["spec"]["replicas"], 7, "it is nobody's drift");
    apply(&space, &[deployment(&json!([]), &json!({"replicas": 3}))]);
    deployed(&space, 3);
    assert_eq!(space.get("deployment/d").unwrap()["spec"]["replicas"], 3);
}

/// R4. flux helm-controller#1559, alloy-operator#155.
#[test]
fn a_field_that_cannot_change_is_tried_so_often_and_rolled_back() {
    let (space, _operator) = with_objects("fixed");
    let objects = |mode: &str, data: &str| {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}}}});
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {"replicas": 0,
            "serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "volumeClaimTemplates": [claim], "template":
            {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        [json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": data}}), set]
    };
    apply(&space, &objects("ReadWriteOnce", "old"));
    deployed(&space, 1);
    apply(&space, &objects("ReadWriteMany", "new"));
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "ImmutableField");
    let message = stalled["message"].as_str().unwrap();
    assert!(message.contains("spec.volumeClaimTemplates cannot be changed once the object exists"), "{message}");
    space.wait_event("RolledBack");
    space.wait_field("configmap/m", "/data/a", &json!("old"));
    space.wait_field("web/app", "/status/lastAttempted/attempts", &json!(5));
}

/// A chart that writes its version into the labels of claim templates.
#[test]
fn claim_templates_with_other_labels_are_recreated_without_a_word_and_pods_stay() {
    let (space, _operator) = with_objects("labels");
    let objects = |version: &str| {
        let claim = json!({"metadata": {"name": "data", "labels": {"chart": version}}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        [json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {"replicas": 1,
            "serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "volumeClaimTemplates": [claim], "template":
            {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})]
    };
    apply(&space, &objects("db-1.0.0"));
    deployed(&space, 1);
    let uid = |what: &str| space.get(what).map(|object| object["metadata"]["uid"].clone());
    let pod = eventually("its pod is there", || uid("pod/s-0"));
    apply(&space, &objects("db-1.1.0"));
    deployed(&space, 2);
    space.wait_field("statefulset/s", "/spec/volumeClaimTemplates/0/metadata/labels/chart", &json!("db-1.1.0"));
    assert_eq!(uid("pod/s-0").unwrap(), pod);
    assert!(uid("pvc/data-s-0").is_ok());
}

/// R5. helm-drift#38, sveltos addon-controller#1136.
#[test]
fn the_list_of_a_kind_is_applied_as_its_items() {
    let (space, operator) = with_objects("lists");
    let role = |name: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let list =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleList", "items": [role("one"), role("two")]});
    apply(&space, &[list]);
    deployed(&space, 1);
    for name in ["one", "two"] {
        assert!(space.get(&format!("role/{name}")).is_ok());
    }
    operator.settle();
}

/// R6. flux2#2472, kyverno#4866.
#[test]
fn what_a_controller_fills_is_no_drift() {
    let (space, operator) = with_objects("filled");
    let label = format!("{}/aggregate", space.name);
    let (sum, part) = (format!("{}-sum", space.name), format!("{}-part", space.name));
    let selected = json!({"clusterRoleSelectors": [{"matchLabels": {label.as_str(): "true"}}]});
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}});
    let (mut aggregated, mut one) = (role(&sum), role(&part));
    aggregated["aggregationRule"] = selected;
    aggregated["rules"] = json!([]);
    one["metadata"]["labels"] = json!({label.as_str(): "true"});
    one["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    apply(&space, &[aggregated, one.clone()]);
    deployed(&space, 1);
    let rules = || -> Result<Value, String> {
        let text = kubectl(&["get", "clusterrole", &sum, "-o", "json"], None)?;
        Ok(serde_json::from_str::<Value>(&text).unwrap()["rules"].clone())
    };
    eventually("the rules are filled", || {
        let found = rules()?;
        if found == one["rules"] { Ok(()) } else { Err(found.to_string()) }
    });
    operator.settle();
    assert_eq!(rules().unwrap(), one["rules"]);
    assert!(space.condition("web/app", "Drifted").is_err(), "nobody fights about them");
    space.kubectl(&["delete", "web/app"]).unwrap();
}

#[test]
fn a_chart_that_drops_the_namespace_it_is_in_does_not_delete_it() {
    let space = Space::new("ownns");
    let watches = space.watches_with(&[("Web", "tenant")], "  takeOwnership: true\n");
    let operator = space.operator(&watches, &[]);
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.name, "labels": {"x": "y"}}});
    apply(&space, &[namespace]);
    deployed(&space, 1);
    apply(&space, &[]);
    deployed(&space, 2);
    operator.settle();
    let text = kubectl(&["get", "namespace", &space.name, "-o", "json"], None).unwrap();
    let live: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(live["status"]["phase"], "Active");
    space.kubectl(&["delete", "web/app"]).unwrap();
    let text = kubectl(&["get", "namespace", &space.name, "-o", "json"], None).unwrap();
    assert!(text.contains("\"Active\""), "{text}");
}

/// R3. airbyte#15202, rhdh-chart#418.
#[test]
fn a_job_that_ran_and_deleted_itself_is_not_run_again() {
    let (space, operator) = with_objects("ttl");
    let _kubelet = Kubelet::new(&space);
    let job = |image: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {"ttlSecondsAfterFinished": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}}})
    };
    let made = || {
        let created = |entry: &&Value| {
            entry["verb"] == "patch"
                && entry["objectRef"]["resource"] == "jobs"
                && entry["responseStatus"]["code"] == 201
        };
        space.audited().iter().filter(created).count()
    };
    let other = |n: u8| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"n": n.to_string()}});
    let run = |job: &str| {
        eventually("its pod ends", || space.end_pod_of(job, "Succeeded", |_| true));
        space.wait_gone(&format!("job/{job}"));
    };
    apply(&space, &[job("i:1"), other(1)]);
    deployed(&space, 1);
    run("migrate");
    operator.settle();
    assert_eq!(made(), 1);
    space.wait("web/app", "Ready", "True");
    // Another revision that has it as before does not run it either, nor does an operator that starts.
    apply(&space, &[job("i:1"), other(2)]);
    deployed(&space, 2);
    operator.settle();
    assert!(operator.stop());
    let operator = space.operator(&space.watches(&[("Web", "tenant")]), &[]);
    space.kubectl(&["delete", "configmap/m"]).unwrap();
    eventually("it comes back", || space.get("configmap/m"));
    operator.settle();
    assert_eq!(made(), 1);
    // One that is another Job runs.
    apply(&space, &[job("i:2"), other(2)]);
    deployed(&space, 3);
    eventually("it is made", || if made() == 2 { Ok(()) } else { Err(made()) });
    run("migrate");
    operator.settle();
    assert_eq!(made(), 2);
}

/// R7. A definition without the subresource `status`, and one whose status keeps nothing.
#[test]
fn attempts_are_counted_where_the_status_is_lost() {
    let space = Space::new("lost");
    let subresource = "    subresources: {status: {}}\n";
    let kept = "status: {type: object, x-kubernetes-preserve-unknown-fields: true}";
    for (kind, remove, put, why) in [
        ("Bare", subresource, "", "it has no subresource status"),
        ("Empty", kept, "status: {type: object}", "its schema leaves out fields of the status"),
    ] {
        let group = format!("{}.{}.example.com", kind.to_lowercase(), space.name);
        let text = crate::harness::definition(&group, kind);
        assert!(text.contains(remove));
        kubectl(&["apply", "-f", "-"], Some(&text.replace(remove, put))).unwrap();
        crate::harness::established(&format!("crd/{}s.{group}", kind.to_lowercase()));
        let chart = crate::harness::repository("tests/charts/tenant").display().to_string();
        let watches = format!("- group: {group}\n  version: v1\n  kind: {kind}\n  chart: {chart}\n");
        let operator = space.operator(&space.file("watches.yaml", &watches), &[]);
        let bad =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad"}, "spec": {"type": "Nonsense"}});
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "app", "namespace": space.name},
            "spec": {"objects": [bad]}});
        kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
        let said = eventually("it is said", || {
            let events = space.list("events")?;
            let mut said = events.iter().filter(|event| event["reason"] == "StatusNotKept");
            let of_kind = said.find(|event| event["involvedObject"]["kind"] == kind);
            of_kind.map(|event| event["message"].as_str().unwrap().to_owned()).ok_or_else(|| "it is not".to_owned())
        });
        assert!(said.contains(why), "{said}");
        let attempts = || {
            let tried = |entry: &&Value| entry["verb"] == "patch" && entry["objectRef"]["resource"] == "services";
            space.audited().iter().filter(tried).count()
        };
        let before = if kind == "Bare" { 0 } else { 5 };
        eventually("it is tried five times", || match attempts() - before {
            5 => Ok(()),
            some => Err(some),
        });
        operator.settle();
        assert_eq!(attempts() - before, 5, "and no more");
        kubectl(&["delete", "crd", &format!("{}s.{group}", kind.to_lowercase())], None).unwrap();
    }
}

/// R9.
#[test]
fn a_custom_resource_that_others_hold_says_so() {
    let (space, _operator) = with_objects("held");
    apply(&space, &[deployment(&json!([]), &json!({"replicas": 0}))]);
    deployed(&space, 1);
    let add = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}]"#;
    space.kubectl(&["patch", "webs.test.tillerman.dev/app", "--type=json", "-p", add]).unwrap();
    space.delete("web/app");
    let gone = space.wait("web/app", "Deployed", "False");
    assert_eq!(gone["reason"], "UninstallSuccessful");
    assert!(
        gone["message"].as_str().unwrap().ends_with("finalizers example.com/hold to be removed by their owners"),
        "{gone}"
    );
    assert_eq!(space.condition("web/app", "Ready").unwrap()["reason"], "Uninstalled");
    let status = space.get("web/app").unwrap()["status"].clone();
    assert_eq!((status.get("resources"), status.get("release")), (None, None));
    space.wait_gone("deployment/d");
    let remove = r#"{"metadata": {"finalizers": null}}"#;
    space.kubectl(&["patch", "webs.test.tillerman.dev/app", "--type=merge", "-p", remove]).unwrap();
    space.wait_gone("web/app");
}

/// R12. helm#6361, vector-operator#107.
#[test]
fn an_api_service_is_ready_when_its_server_answers() {
    let (space, _operator) = with_objects("apiservice");
    let group = format!("{}.example.com", space.name);
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "nobody", "namespace": space.name}}});
    apply(&space, &[service]);
    deployed(&space, 1);
    eventually("it says why it is not ready", || {
        let ready = space.condition("web/app", "Ready")?;
        let why = ready["message"].as_str().unwrap_or_default();
        if ready["status"] == "False" && why.contains("ServiceNotFound") { Ok(()) } else { Err(ready.to_string()) }
    });
    space.kubectl(&["delete", "web/app"]).unwrap();
}

/// M1.
#[test]
fn a_definition_in_the_templates_comes_before_what_needs_it() {
    let (space, operator) = with_objects("owncrd");
    let group = format!("{}.example.com", space.name);
    let definition: Value = serde_saphyr::from_str(&crate::harness::definition(&group, "Thing")).unwrap();
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1}});
    apply(&space, &[thing, definition]);
    deployed(&space, 1);
    assert!(space.kubectl(&["get", &format!("things.{group}"), "t"]).is_ok());
    operator.settle();
    space.kubectl(&["delete", "web/app"]).unwrap();
    eventually("it goes with the release", || match kubectl(&["get", "crd", &format!("things.{group}")], None) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// M6.
#[test]
fn a_misspelt_hook_is_reported() {
    let (space, _operator) = with_objects("misspelt");
    let hook = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "h", "annotations": {"helm.sh/hook": "post-instal"}}});
    apply(&space, &[hook]);
    deployed(&space, 1);
    let said = space.wait_event("UnknownHook");
    assert!(said.starts_with("ConfigMap h: neither Helm nor Tillerman knows the hook \"post-instal\""), "{said}");
    assert!(said.ends_with("did you mean \"post-install\"?"), "{said}");
}

#[test]
fn a_schema_may_refer_to_files_of_the_operator_and_to_documents_that_nobody_has() {
    let space = Space::new("schemarefs");
    let schema = r#"{"properties": {"size": {"$ref": "https://schemas.example/size.json"}, "any": {"$ref": "https://elsewhere.example/x.json#/y"}}}"#;
    space.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n");
    space.file("charts/app/values.schema.json", schema);
    space.file(
        "charts/app/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n",
    );
    let document = space.file("size.json", r#"{"type": "integer", "maximum": 5}"#);
    let entry = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n",
        space.dir().join("charts/app").display()
    );
    let operator = space.operator(&space.file("watches.yaml", &entry), &[]);
    space.apply("Web", "app", &json!({"size": 3, "any": [1]}));
    let refused = space.wait("web/app", "Stalled", "True");
    assert!(refused["message"].as_str().unwrap().contains("schemaDocuments of watches.yaml"), "{refused}");
    assert!(operator.stop());

    let documents = format!(
        "  schemaDocuments: {{\"https://schemas.example/size.json\": {}, \"https://elsewhere.example/\": any}}\n",
        document.display()
    );
    let _operator = space.operator(&space.file("watches.yaml", &(entry + &documents)), &[]);
    space.wait_field("configmap/app", "/data/size", &json!("3"));
    // Until then the status is the one of the operator before.
    space.wait("web/app", "Stalled", "False");
    space.apply("Web", "app", &json!({"size": 6}));
    let refused = space.wait("web/app", "Stalled", "True");
    assert!(refused["message"].as_str().unwrap().contains("maximum: got 6, want 5"), "{refused}");
}
