//! The rows of "bad input" in the operator's contract.

use crate::harness::{Space, definition, established, eventually, kubectl};
use serde_json::json;

#[test]
fn a_chart_that_fails_says_so_in_helms_words_and_what_was_good_stays() {
    let space = Space::new("fails");
    let operator = space.operator(&space.watches(&[("Failing", "failing"), ("Web", "web")]), &[]);
    space.apply("Failing", "app", &json!({}));
    space.wait("failing/app", "Deployed", "True");
    space.apply("Failing", "app", &json!({"mode": "fail"}));
    let stalled = space.wait("failing/app", "Stalled", "True");
    assert!(stalled["message"].as_str().unwrap().contains("mode fail is not for you"), "{stalled}");
    assert_eq!(space.condition("failing/app", "Irreconcilable").unwrap()["status"], "True");
    assert_eq!(space.condition("failing/app", "Deployed").unwrap()["status"], "True");
    assert_eq!(space.get("configmap/app").unwrap()["data"]["mode"], "ok");
    // Nothing is tried again, but what is deployed is still kept.
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
    space.kubectl(&["delete", "configmap/app"]).unwrap();
    eventually("it comes back", || space.get("configmap/app"));
    space.apply("Failing", "app", &json!({"mode": "better"}));
    space.wait("failing/app", "Stalled", "False");
    assert!(space.condition("failing/app", "Irreconcilable").is_err());
    space.wait_field("configmap/app", "/data/mode", &json!("better"));
}

#[test]
fn an_error_in_a_template_names_file_and_line() {
    let space = Space::new("error");
    let _operator = space.operator(&space.watches(&[("Failing", "failing")]), &[]);
    space.apply("Failing", "app", &json!({"mode": "error"}));
    let stalled = space.wait("failing/app", "Stalled", "True");
    assert!(stalled["message"].as_str().unwrap().contains("failing/templates/all.yaml:2"), "{stalled}");
    assert!(space.get("secret/sh.helm.release.v1.app.v1").is_err());
}

#[test]
fn a_template_without_end_is_stopped() {
    let space = Space::new("endless");
    let _operator = space.operator(&space.watches(&[("Failing", "failing"), ("Web", "web")]), &[]);
    space.apply("Failing", "app", &json!({"mode": "endless"}));
    space.apply("Web", "good", &json!({}));
    space.wait("web/good", "Deployed", "True");
    space.wait("failing/app", "Stalled", "True");
}

#[test]
fn charts_that_render_for_long_do_not_keep_another_from_being_rendered() {
    let space = Space::new("long");
    // What they look up takes a while to read.
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large", "namespace": space.name},
        "data": {"large": "x".repeat(1_000_000)}});
    kubectl(&["create", "-f", "-"], Some(&large.to_string())).unwrap();
    let operator = space.operator(&space.watches(&[("Failing", "failing")]), &[]);
    // As many as there are places for renderings.
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let hostile = 16.max(cores);
    for n in 0..hostile {
        space.apply("Failing", &format!("bad-{n}"), &json!({"mode": "long"}));
    }
    let active = format!("controller_runtime_active_workers{{controller=\"failing-controller\"}} {cores}");
    eventually("they are at work", || {
        let metrics = operator.metrics();
        if metrics.contains(&active) { Ok(()) } else { Err(metrics) }
    });
    let since = std::time::Instant::now();
    space.apply("Failing", "good", &json!({}));
    space.wait("failing/good", "Deployed", "True");
    println!("deployed after {:?} beside {hostile} that render for long", since.elapsed());
    let has_ended = |n: usize| space.condition(&format!("failing/bad-{n}"), "Initialized").is_ok();
    assert!(!(0..hostile).any(has_ended), "it waited for their end");
}

#[test]
fn a_hostile_annotation_is_refused_with_its_limit_and_others_go_on() {
    let space = Space::new("hostile");
    let watches = space.watches_with(&[("Web", "web")], "  allow: [patches, valuesFrom, ignoreDrift]\n");
    let operator = space.operator(&watches, &[]);
    let mut operations = vec![json!({"op": "add", "path": "/spec/list", "value": [1]})];
    operations.resize(41, json!({"op": "copy", "from": "/spec/list", "path": "/spec/list/-"}));
    let patches = json!([{"target": {"kind": "Deployment"}, "patch": operations}]).to_string();
    let path = format!("a{}", "[0]".repeat(30));
    let sources = json!([{"kind": "Secret", "name": "a", "targetPath": format!("{path}[65536]")}]).to_string();
    let table = [
        ("patches", patches, "InvalidManifest", "patches make it larger than 16777216 bytes"),
        ("values-from", sources, "InvalidAnnotation", "more indices in a row than the maximum of 30"),
        ("ignore-drift", format!("[{}0]", "0,".repeat(30_000)), "InvalidAnnotation", "more than 20000 values"),
        ("reconcile-at", "x".repeat(2000), "InvalidAnnotation", "the limit is 1024"),
    ];
    for (name, text, _, _) in &table {
        let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
            "metadata": {"name": name, "namespace": space.name, "annotations": {format!("tillerman.dev/{name}"): text}}, "spec": {}});
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    }
    space.apply("Web", "good", &json!({}));
    space.wait("web/good", "Deployed", "True");
    for (name, _, reason, limit) in &table {
        let stalled = space.wait(&format!("web/{name}"), "Stalled", "True");
        assert_eq!(stalled["reason"], *reason, "{stalled}");
        assert!(stalled["message"].as_str().unwrap().contains(limit), "{stalled}");
    }
    // What did not change is not read again, and asks nothing.
    let before = operator.settle();
    assert_eq!(operator.settle(), before);
}

#[test]
fn what_the_api_server_refuses_is_said_in_its_words() {
    let space = Space::new("invalid");
    let _operator = space.operator(&space.watches(&[("Failing", "failing")]), &[]);
    space.apply("Failing", "app", &json!({"mode": "invalid"}));
    let failed = space.wait("failing/app", "ReleaseFailed", "True");
    assert_eq!(failed["reason"], "InstallError");
    assert!(failed["message"].as_str().unwrap().contains("apply ConfigMap app"), "{failed}");
    assert!(space.helm(&["history", "app"]).unwrap().contains("failed"));
    space.apply("Failing", "app", &json!({"mode": "ok"}));
    space.wait("failing/app", "Deployed", "True");
    assert!(space.condition("failing/app", "ReleaseFailed").is_err());
}

#[test]
fn an_unknown_kind_is_named() {
    let space = Space::new("unknown");
    let _operator = space.operator(&space.watches(&[("Failing", "failing")]), &[]);
    space.apply("Failing", "app", &json!({"mode": "unknown"}));
    let ready = space.wait("failing/app", "Ready", "False");
    eventually("the kind is named", || {
        let ready = space.condition("failing/app", "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default();
        if message.contains("nowhere.example.com/v1, Kind=Thing") { Ok(()) } else { Err(message.to_owned()) }
    });
    drop(ready);
}

#[test]
fn a_chart_that_is_missing_or_broken_stops_only_its_kind() {
    let space = Space::new("charts");
    let kinds = [("Web", "web"), ("Failing", "broken"), ("Other", "nowhere")];
    let operator = space.operator(&space.watches(&kinds), &[]);
    space.apply("Failing", "a", &json!({}));
    space.apply("Other", "b", &json!({}));
    space.apply("Web", "c", &json!({}));
    space.wait("web/c", "Deployed", "True");
    for object in ["failing/a", "other/b"] {
        let stalled = space.wait(object, "Stalled", "True");
        assert_eq!(stalled["reason"], "ChartUnusable");
        assert!(stalled["message"].as_str().unwrap().contains("cannot be loaded"), "{stalled}");
    }
    eventually("ready", || operator.ready());
    assert!(
        operator
            .metrics()
            .contains("tillerman_chart_usable{group=\"test.tillerman.dev\",version=\"v1\",kind=\"Other\"} 0")
    );
    for object in ["failing/a", "other/b"] {
        space.kubectl(&["delete", object]).unwrap();
    }
}

/// A gzipped tar archive with one more entry than a chart has; its name is written as it is.
fn hostile_archive(name: &str, data: &[u8]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, data) in [("c/Chart.yaml", &b"apiVersion: v2\nname: c\nversion: 0.1.0\n"[..]), (name, data)] {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, data).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[test]
fn a_hostile_archive_is_refused_with_the_limit_that_it_broke_and_others_go_on() {
    let space = Space::new("hostile-archive");
    let zeros = vec![0; 101 * 1024 * 1024];
    let bomb = space.file("bomb.tgz", "");
    std::fs::write(&bomb, hostile_archive("c/big", &zeros)).unwrap();
    let outside = space.file("outside.tgz", "");
    std::fs::write(&outside, hostile_archive("c/../../outside", b"x")).unwrap();
    let (bomb, outside) = (bomb.display().to_string(), outside.display().to_string());
    let _operator = space.operator(&space.watches(&[("Web", "web"), ("Failing", &bomb), ("Other", &outside)]), &[]);
    space.apply("Failing", "a", &json!({}));
    space.apply("Other", "b", &json!({}));
    space.apply("Web", "c", &json!({}));
    space.wait("web/c", "Deployed", "True");
    for (object, words) in [("failing/a", "larger than the maximum size"), ("other/b", "references parent directory")] {
        let stalled = space.wait(object, "Stalled", "True");
        assert!(stalled["message"].as_str().unwrap().contains(words), "{stalled}");
        space.kubectl(&["delete", object]).unwrap();
    }
}

/// docs/design/lessons.md pain 6: the schema is that of the values.
#[test]
fn a_value_of_a_wrong_type_is_refused_by_the_api_server_with_its_path() {
    let space = Space::new("typed");
    let crd = std::process::Command::new(env!("CARGO_BIN_EXE_tillerman"))
        .args(["crd", "charts/php", "--group", "typed.tillerman.dev", "--kind", "Typed"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    kubectl(&["apply", "-f", "-"], Some(&String::from_utf8(crd.stdout).unwrap())).unwrap();
    established("crd/typeds.typed.tillerman.dev");
    let create = |name: &str, spec: &str| {
        let text = format!(
            "apiVersion: typed.tillerman.dev/v1alpha1\nkind: Typed\nmetadata: {{name: {name}, namespace: {}}}\nspec: {spec}\n",
            space.name
        );
        kubectl(&["create", "-f", "-"], Some(&text))
    };
    eventually("the kind is served", || create("good", "{replicas: 2, resources: {limits: {cpu: 1}}}"));
    // A null is kept: Helm deletes the chart's default by it.
    create("nulls", "{imagePullPolicy: null, resources: {limits: null}, env: [{name: A, value: null}]}").unwrap();
    let kept = space.get("typed/nulls").unwrap()["spec"].clone();
    let given = json!({"imagePullPolicy": null, "resources": {"limits": null}, "env": [{"name": "A", "value": null}]});
    assert_eq!(kept, given);
    for (name, spec, words) in [
        ("p", "{imagePullPolicy: Sometimes}", "spec.imagePullPolicy in body should match"),
        ("a", "{replicas: three}", "spec.replicas in body must be of type integer"),
        ("b", "{service: {port: 70000}}", "spec.service.port in body should be less than or equal to 65535"),
        ("c", "{nope: 1}", "unknown field \"spec.nope\""),
        (&"n".repeat(54), "{}", "metadata.name"),
    ] {
        let refused = create(name, spec).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
    kubectl(&["delete", "crd", "typeds.typed.tillerman.dev"], None).unwrap();
}

#[test]
fn a_release_whose_chart_went_missing_is_uninstalled_from_its_record() {
    let space = Space::new("chartless");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    assert!(operator.stop());
    let _operator = space.operator(&space.watches(&[("Web", "nowhere")]), &[]);
    space.wait("web/app", "Stalled", "True");
    // This process did not write the record, and without the chart nobody can tell whether it is what the chart renders.
    space.kubectl(&["delete", "deployment/app-web"]).unwrap();
    let said = space.wait_event("RecordNotVerified");
    assert!(
        said.starts_with(
            "the operator takes nothing from the record of revision 1, because another client may have written it: "
        ),
        "{said}"
    );
    assert!(space.get("deployment/app-web").is_err());
    space.kubectl(&["delete", "service/app-web"]).unwrap();
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app-config");
}

/// docs/design/lessons.md pain 7 and pain 18: a missing right is reported, and does not hold up others.
#[test]
fn a_missing_right_is_named_and_others_go_on() {
    let space = Space::new("rbac");
    space.restrict(&[
        "--verb=get,list,watch,create,update,patch,delete",
        "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,secrets,configmaps,services,events",
    ]);
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    let failed = space.wait("web/app", "ReleaseFailed", "True");
    let message = failed["message"].as_str().unwrap();
    for word in ["cannot patch resource", "\"deployments\"", "\"apps\"", &format!("namespace \"{}\"", space.name)] {
        assert!(message.contains(word), "{word} is missing in {message}");
    }
    assert_eq!(space.condition("web/app", "Ready").unwrap()["reason"], "Forbidden");
    let (role, user) = ("--clusterrole=cluster-admin", format!("--user={}", space.name));
    let binding = format!("{}-more", space.name);
    kubectl(&["create", "clusterrolebinding", &binding, role, &user], None).unwrap();
    space.wait("web/app", "Deployed", "True");
    kubectl(&["delete", "clusterrolebinding", &binding], None).unwrap();
}

#[test]
fn a_name_that_helm_could_not_use_is_refused() {
    let space = Space::new("name");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let name = "a".repeat(54);
    space.apply("Web", &name, &json!({}));
    let stalled = space.wait(&format!("web/{name}"), "Stalled", "True");
    assert_eq!(stalled["reason"], "NameTooLong");
    let cr = space.get(&format!("web/{name}")).unwrap();
    assert_eq!(cr["metadata"].get("finalizers"), None);
    assert!(space.helm(&["list", "-q"]).unwrap().is_empty());
}

#[test]
fn a_custom_resource_without_a_spec_has_no_values() {
    let space = Space::new("nospec");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "metadata": {"name": "app", "namespace": space.name}});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    space.wait("web/app", "Deployed", "True");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(1));
}

#[test]
fn a_hostile_custom_resource_is_refused_and_others_go_on() {
    let space = Space::new("hostile");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let cr = |name: &str, spec: &str| {
        let metadata = json!({"name": name, "namespace": space.name});
        format!(r#"{{"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "metadata": {metadata}, "spec": {spec}}}"#)
    };
    kubectl(&["create", "-f", "-"], Some(&cr("deep", &format!(r#"{{"a": {deep}}}"#)))).unwrap();
    let large = format!(r#"{{"a": "{}"}}"#, "x".repeat(1_200_000));
    kubectl(&["create", "-f", "-"], Some(&cr("large", &large))).unwrap();
    space.apply("Web", "good", &json!({}));
    space.wait("web/good", "Deployed", "True");
    for (name, word) in [("web/deep", "nested"), ("web/large", "bytes")] {
        let path = "-o=jsonpath={.status.conditions[?(@.type=='Stalled')].message}";
        eventually(name, || {
            // Our own reader would not read what is nested so deeply.
            let message = space.kubectl(&["get", name, path])?;
            if message.contains(word) { Ok(()) } else { Err(message) }
        });
    }
}

#[test]
fn of_two_kinds_with_the_same_release_name_the_second_names_the_first() {
    let space = Space::new("collide");
    let _operator = space.operator(&space.watches(&[("Web", "web"), ("Other", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    space.apply("Other", "app", &json!({"replicas": 9}));
    let stalled = space.wait("other/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "ReleaseConflict");
    assert!(stalled["message"].as_str().unwrap().contains("belongs to Web app"), "{stalled}");
    assert_eq!(space.get("deployment/app-web").unwrap()["spec"]["replicas"], 1);
    // It takes the name when that is free.
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait("other/app", "Deployed", "True");
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(9));
    space.kubectl(&["delete", "other/app"]).unwrap();
}

#[test]
fn of_two_kinds_that_come_together_one_has_the_name_and_the_other_makes_nothing() {
    let space = Space::new("rivals");
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    for kind in ["Web", "Other"] {
        space.apply(kind, "app", &json!({"objects": [config(&format!("of-{}", kind.to_lowercase()))]}));
    }
    let _operator = space.operator(&space.watches(&[("Web", "objects"), ("Other", "objects")]), &[]);
    let status = |kind: &str, condition: &str| {
        let found = space.get(&format!("{kind}/app"))?;
        let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        Ok::<_, String>(conditions.into_iter().any(|c| c["type"] == condition && c["status"] == "True"))
    };
    let loser = eventually("one is deployed and the other says why not", || {
        for (winner, loser) in [("web", "other"), ("other", "web")] {
            if status(winner, "Deployed")? && status(loser, "Stalled")? {
                return Ok(loser);
            }
        }
        Err("not yet".to_owned())
    });
    let made = space.kubectl(&["get", "configmap", "--output=name"]).unwrap();
    assert!(!made.contains(&format!("of-{loser}")), "{made}");
    for kind in ["web/app", "other/app"] {
        space.kubectl(&["delete", kind]).unwrap();
    }
}

#[test]
fn an_object_of_somebody_else_is_not_taken() {
    let space = Space::new("foreign");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.kubectl(&["create", "configmap", "app-config", "--from-literal=greeting=mine"]).unwrap();
    space.kubectl(&["create", "configmap", "other-config", "--from-literal=unrelated=mine"]).unwrap();
    for name in ["app", "other"] {
        space.apply("Web", name, &json!({}));
        let failed = space.wait(&format!("web/{name}"), "ReleaseFailed", "True");
        assert!(failed["message"].as_str().unwrap().contains("not part of this release"), "{failed}");
        space.kubectl(&["delete", &format!("web/{name}")]).unwrap();
        let left = space.get(&format!("configmap/{name}-config")).unwrap();
        assert_eq!(left["metadata"].get("ownerReferences"), None, "{left}");
        assert_eq!(left["data"].as_object().unwrap().len(), 1, "{left}");
    }
}

#[test]
fn a_definition_that_is_missing_goes_and_comes_again_is_waited_for() {
    let space = Space::new("definition");
    let group = format!("{}.example.com", space.name);
    let chart = crate::harness::repository("tests/charts/web");
    let watches = format!(
        "- {{group: {group}, version: v1, kind: Late, chart: {chart}}}\n- {{group: test.tillerman.dev, version: v1, kind: Web, chart: {chart}}}\n",
        chart = chart.display()
    );
    let mut operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    space.apply("Web", "good", &json!({}));
    space.wait("web/good", "Deployed", "True");
    assert!(operator.log().contains("waiting for its definition"), "{}", operator.log());
    for round in 0..2 {
        kubectl(&["create", "-f", "-"], Some(&definition(&group, "Late"))).unwrap();
        let name = format!("crd/lates.{group}");
        established(&name);
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Late",
            "metadata": {"name": format!("late-{round}"), "namespace": space.name}, "spec": {}});
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
        space.wait(&format!("lates.{group}/late-{round}"), "Deployed", "True");
        kubectl(&["delete", &name], None).unwrap();
        space.wait_gone(&format!("deployment/late-{round}-web"));
    }
    assert!(operator.runs());
}

#[test]
fn a_namespace_that_goes_takes_its_releases_along() {
    let space = Space::new("namespace");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    for name in ["a", "b"] {
        space.apply("Web", name, &json!({}));
        space.wait(&format!("web/{name}"), "Deployed", "True");
    }
    kubectl(&["delete", "namespace", &space.name, "--timeout=40s"], None).unwrap();
}

#[test]
fn the_same_kind_twice_is_an_error_that_names_both_lines() {
    let space = Space::new("twice");
    let watches = space.watches(&[("Web", "web"), ("Web", "web")]);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tillerman"))
        .args(["run", "--watches-file"])
        .arg(watches)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("line 5: test.tillerman.dev/v1, Kind=Web is already declared on line 1"), "{text}");
}

#[test]
fn values_of_secrets_are_in_no_status_event_or_log() {
    let space = Space::new("secrets");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"secret": "hunter2hunter2"}));
    space.wait("web/app", "Deployed", "True");
    space.kubectl(&["patch", "secret/app-secret", "--type=merge", "-p", r#"{"data":{"password":"eA=="}}"#]).unwrap();
    space.wait_event("DriftRepaired");
    let status = space.get("web/app").unwrap()["status"].to_string();
    let events = space.kubectl(&["get", "events", "-o", "json"]).unwrap();
    for text in [status, events, operator.log()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
