//! `ChartDefinition`: charts become APIs while the operator runs.

use crate::harness::{
    Operator, Space, cluster_dir, established, eventually, eventually_within, kubectl, program, repository,
};
use crate::mail::silent;
use crate::sources::serve_files;
use serde_json::{Value, json};
use std::process::Command;

/// An operator that carries out the definitions of this test.
fn operator(space: &Space) -> Operator {
    let file = repository("deploy/chart-definition.yaml").display().to_string();
    kubectl(&["apply", "--server-side", "-f", &file], None).unwrap();
    established("crd/chartdefinitions.tillerman.dev");
    space.operator(&space.file("watches.yaml", "[]"), &[&format!("--chart-definitions=space={}", space.name)])
}

/// Applies the definition of this test, whose kind is `Shop`.
fn define(space: &Space, chart: &Value, more: &Value) {
    let mut spec = json!({"chart": chart, "names": {"group": group(space), "version": "v1", "kind": "Shop"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition",
        "metadata": {"name": space.name, "labels": {"space": space.name}}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

fn group(space: &Space) -> String {
    format!("{}.tillerman.dev", space.name)
}

/// Waits for the condition of the definition to have a reason; its message.
fn wait(space: &Space, reason: &str) -> String {
    eventually(&format!("the definition is {reason}"), || {
        let text = kubectl(&["get", "chartdefinition", &space.name, "-o", "json"], None)?;
        let object: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let ready = object["status"]["conditions"][0].clone();
        let is_new = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let message = ready["message"].as_str().unwrap_or_default().to_owned();
        if ready["reason"] == reason && is_new { Ok(message) } else { Err(object["status"].to_string()) }
    })
}

fn shop(space: &Space, spec: &Value) -> Result<String, String> {
    let body = json!({"apiVersion": format!("{}/v1", group(space)), "kind": "Shop",
        "metadata": {"name": "a", "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string()))
}

#[test]
fn a_chart_becomes_an_api_while_the_operator_runs_and_goes_when_nobody_uses_it() {
    let space = Space::new("defined");
    let operator = operator(&space);
    define(&space, &json!({"path": repository("tests/charts/web")}), &json!({"policy": {"maxHistory": 2}}));
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    // One that is started again serves on, and what was there before it is repaired.
    assert!(operator.stop());
    let operator = self::operator(&space);
    operator.settle();
    space.kubectl(&["delete", "configmap", "a-config"]).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    let refused = shop(&space, &json!({"extra": "maybe"})).unwrap_err();
    assert!(refused.contains("spec.extra"), "{refused}");
    // The API stays as long as somebody uses it.
    kubectl(&["delete", "chartdefinition", &space.name, "--wait=false"], None).unwrap();
    let why = wait(&space, "CustomResourcesExist");
    assert!(why.starts_with("1 custom resource exists of kind Shop: delete it"), "{why}");
    shop(&space, &json!({"greeting": "still"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("still"));
    space.kubectl(&["delete", &format!("shops.{}", group(&space)), "a"]).unwrap();
    space.wait_gone("configmap/a-config");
    eventually("the definition is gone", || {
        match kubectl(&["get", "chartdefinition", &space.name, "-o", "name", "--ignore-not-found"], None)?.as_str() {
            "" => Ok(()),
            there => Err(there.to_owned()),
        }
    });
    let crd = format!("crd/shops.{}", group(&space));
    eventually("the API is gone", || match kubectl(&["get", &crd], None) {
        Err(why) if why.contains("NotFound") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    assert!(operator.stop());
}

#[test]
fn a_chart_that_cannot_be_used_takes_no_api_away() {
    let space = Space::new("broken-definition");
    let operator = operator(&space);
    let archive = space.file("web.tgz", "");
    let charts = repository("tests/charts");
    let packed = Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(charts).arg("web").status().unwrap();
    assert!(packed.success());
    space.kubectl(&["create", "configmap", "charts", &format!("--from-file=web.tgz={}", archive.display())]).unwrap();
    let chart = |key: &str| json!({"configMap": {"namespace": space.name, "name": "charts", "key": key}});
    define(&space, &chart("web.tgz"), &json!({}));
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    define(&space, &chart("web-2.tgz"), &json!({}));
    let why = wait(&space, "ChartUnusable");
    assert_eq!(why, format!("ConfigMap charts in namespace {} has no binaryData web-2.tgz", space.name));
    // Nor does one that somebody put in its place: the digest says which archive is meant.
    let mut other = chart("web.tgz");
    other["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    define(&space, &other, &json!({}));
    let why = wait(&space, "ChartUnusable");
    assert!(why.contains("its digest is sha256:") && why.contains(&"0".repeat(64)), "{why}");
    shop(&space, &json!({"greeting": "still"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("still"));
    // Without a definition that refuses, the API stays with its custom resources.
    define(&space, &chart("web.tgz"), &json!({"onDelete": "Orphan"}));
    wait(&space, "Served");
    // A ConfigMap that changes is read again: data that is not an archive removes nothing, and the archive comes back.
    let patch = |data: &str| space.kubectl(&["patch", "configmap", "charts", "--type=merge", "-p", data]).unwrap();
    let binary = space.get("configmap/charts").unwrap()["binaryData"]["web.tgz"].clone();
    patch(&json!({"binaryData": {"web.tgz": "bm8="}}).to_string());
    wait(&space, "ChartUnusable");
    shop(&space, &json!({"greeting": "still here"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("still here"));
    patch(&json!({"binaryData": {"web.tgz": binary}}).to_string());
    wait(&space, "Served");
    operator.rests(&space, 2);
    let of = format!("shops.{}/a", group(&space));
    assert_eq!(space.get(&of).unwrap()["metadata"]["finalizers"].as_array().map(Vec::len), Some(1));
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    // It says that nobody serves it, and its deletion would wait for nobody.
    let left = space.get(&of).unwrap();
    assert_eq!(left["metadata"].get("finalizers"), None);
    let conditions = left["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("NotServed")));
    assert!(
        ready["message"].as_str().unwrap().contains(&format!("the ChartDefinition {} was deleted", space.name)),
        "{ready}"
    );
    operator.settle();
    assert_eq!(space.get(&of).unwrap()["metadata"].get("finalizers"), None);
    assert!(space.get("configmap/a-config").is_ok());
    // It is nobody's, so a new definition does not take it.
    define(&space, &chart("web.tgz"), &json!({}));
    let why = wait(&space, "Conflict");
    assert!(why.contains("exists and does not belong to this definition"), "{why}");
    let label = format!("tillerman.dev/definition={}", space.name);
    kubectl(&["label", "crd", &format!("shops.{}", group(&space)), &label], None).unwrap();
    wait(&space, "Served");
    // It is served again, also before anything of it changes.
    eventually("its deletion waits for the operator again", || {
        let shop = space.get(&of)?;
        let is_held = shop["metadata"]["finalizers"].as_array().is_some_and(|all| all.len() == 1);
        let says = shop["status"]["conditions"].to_string();
        if is_held && !says.contains("NotServed") { Ok(()) } else { Err(shop.to_string()) }
    });
    shop(&space, &json!({"greeting": "again"})).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("again"));
    // One that is left again goes at once.
    define(&space, &chart("web.tgz"), &json!({"onDelete": "Orphan"}));
    wait(&space, "Served");
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    space.kubectl(&["delete", &of, "--timeout=30s"]).unwrap();
    assert!(operator.stop());
}

/// kro#1413.
#[test]
fn a_definition_that_somebody_deletes_is_made_again() {
    let space = Space::new("crd-deleted");
    let operator = operator(&space);
    define(&space, &json!({"path": repository("tests/charts/web")}), &json!({}));
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    operator.settle();
    let crd = format!("customresourcedefinitions.apiextensions.k8s.io/shops.{}", group(&space));
    let uid = || -> Result<Value, String> {
        let object: Value =
            serde_json::from_str(&kubectl(&["get", &crd, "-o", "json"], None)?).map_err(|e| e.to_string())?;
        Ok(object["metadata"]["uid"].clone())
    };
    let before = uid().unwrap();
    // Its custom resources go with it, and the operator takes their objects away before.
    kubectl(&["delete", &crd], None).unwrap();
    eventually_within(30, "it is made again", || match uid()? {
        uid if uid == before => Err("it is the old one".to_owned()),
        uid => Ok(uid),
    });
    space.wait_gone("configmap/a-config");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "again"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("again"));
    wait(&space, "Served");
    assert!(operator.stop());
}

#[test]
fn a_chart_server_that_does_not_answer_delays_no_other_definition() {
    let space = Space::new("slow-chart");
    let (port, connections) = silent();
    let operator = operator(&space);
    let slow = format!("{}-slow", space.name);
    let digest = format!("sha256:{}", "0".repeat(64));
    let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition",
        "metadata": {"name": slow, "labels": {"space": space.name}},
        "spec": {"chart": {"url": format!("http://127.0.0.1:{port}/web.tgz"), "digest": digest},
            "names": {"group": group(&space), "version": "v1", "kind": "Slow"}}});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    eventually("the server is asked for the chart", || {
        if connections.lock().unwrap().is_empty() { Err("no connection") } else { Ok(()) }
    });
    define(&space, &json!({"path": repository("tests/charts/web")}), &json!({}));
    wait(&space, "Served");
    // The slow one still waits, and goes at once when it is deleted.
    assert_eq!(connections.lock().unwrap().len(), 1);
    kubectl(&["delete", "chartdefinition", &slow, "--timeout=20s"], None).unwrap();
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(operator.stop());
}

/// An archive of the test chart in this version, as the data of a `ConfigMap`.
fn archive(space: &Space, version: &str) {
    let folder = space.dir().join("web");
    let _ = std::fs::remove_dir_all(&folder);
    let copied = Command::new("cp").arg("-r").arg(repository("tests/charts/web")).arg(&folder).status().unwrap();
    let metadata = std::fs::read_to_string(folder.join("Chart.yaml")).unwrap();
    std::fs::write(folder.join("Chart.yaml"), metadata.replace("1.2.3", version)).unwrap();
    let values = std::fs::read_to_string(folder.join("values.yaml")).unwrap();
    let greeting = if version.starts_with('1') { "greeting: hello" } else { "greeting: {text: hello}" };
    std::fs::write(folder.join("values.yaml"), values.replace("greeting: hello", greeting)).unwrap();
    let file = space.dir().join(format!("web-{version}.tgz"));
    let packed = Command::new("tar").arg("czf").arg(&file).arg("-C").arg(space.dir()).arg("web").status().unwrap();
    assert!(copied.success() && packed.success());
    space
        .kubectl(&[
            "create",
            "configmap",
            &format!("web-{version}"),
            &format!("--from-file=web.tgz={}", file.display()),
        ])
        .unwrap();
}

#[test]
fn a_new_version_of_a_definition_moves_custom_resources_in_stages() {
    let space = Space::new("staged");
    let operator = operator(&space);
    for version in ["1.2.3", "2.0.0"] {
        archive(&space, version);
    }
    let chart = |version: &str| json!({"configMap": {"namespace": space.name, "name": format!("web-{version}"), "key": "web.tgz"}});
    let policy = json!({"policy": {"rollout": {"maxConcurrent": 1}}});
    define(&space, &chart("1.2.3"), &policy);
    wait(&space, "Served");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    // The new version has a table where this custom resource has a text: it stays, and continues as it is.
    define(&space, &chart("2.0.0"), &policy);
    eventually("the custom resource is left", || {
        let text = kubectl(&["get", "chartdefinition", &space.name, "-o", "jsonpath={.status.rollout}"], None)?;
        let said: Value = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
        let left = json!([format!("{}/a: the new chart does not accept spec.greeting", space.name)]);
        if said["chart"] == "web-2.0.0" && said["phase"] == "Complete" && said["leftOut"] == left {
            Ok(())
        } else {
            Err(text)
        }
    });
    space.kubectl(&["delete", "configmap", "a-config"]).unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    let of = format!("shops.{}/a", group(&space));
    assert_eq!(space.get(&of).unwrap()["status"]["release"]["chart"], "web-1.2.3");
    eventually("the API has the new types", || shop(&space, &json!({"greeting": {"text": "hi"}})));
    eventually("it has moved", || {
        let chart = space.get(&of)?["status"]["release"]["chart"].clone();
        if chart == "web-2.0.0" { Ok(()) } else { Err(chart.to_string()) }
    });
    kubectl(&["delete", "chartdefinition", &space.name, "--wait=false"], None).unwrap();
    assert!(operator.stop());
}

/// Waits for the condition `Permitted`; its message.
fn permitted(space: &Space, status: &str) -> String {
    eventually(&format!("the definition has Permitted={status}"), || {
        let text = kubectl(&["get", "chartdefinition", &space.name, "-o", "json"], None)?;
        let object: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found =
            list.into_iter().find(|condition| condition["type"] == "Permitted" && condition["status"] == status);
        found
            .map(|condition| condition["message"].as_str().unwrap_or_default().to_owned())
            .ok_or_else(|| object["status"].to_string())
    })
}

#[test]
fn rights_that_a_chart_needs_and_the_operator_lacks_are_a_condition_with_the_rules() {
    let space = Space::new("permitted");
    // The operator has the roles of deploy/, in which this test's charts are found by a label of its own.
    let roles = std::fs::read_to_string(repository("deploy/definitions-role.yaml")).unwrap();
    let label = format!("tillerman.dev/aggregate-to-operator: \"{}\"", space.name);
    let roles = roles
        .replace("tillerman.dev/aggregate-to-operator: \"true\"", &label)
        .replace("name: tillerman-definitions", &format!("name: {}-definitions", space.name))
        .replace("name: tillerman-charts", &format!("name: {}-charts", space.name));
    kubectl(&["apply", "-f", "-"], Some(&roles)).unwrap();
    kubectl(&["delete", "clusterrolebinding", &space.name], None).unwrap();
    for role in ["definitions", "charts"] {
        let role = format!("{}-{role}", space.name);
        kubectl(
            &[
                "create",
                "clusterrolebinding",
                &role,
                &format!("--clusterrole={role}"),
                &format!("--user={}", space.name),
            ],
            None,
        )
        .unwrap();
    }
    let operator = operator(&space);
    let chart = repository("tests/charts/web");
    define(&space, &json!({"path": chart}), &json!({}));
    wait(&space, "Served");
    let why = permitted(&space, "False");
    assert!(why.contains("in namespace") && why.contains("resources: [deployments]"), "{why}");
    // What rbac prints for the chart is what is missing, and nobody restarts anything.
    let group = group(&space);
    let mut args = vec!["rbac", "--all-namespaces", "--aggregate", "--group", &group, "--kind", "Shop"];
    let chart = chart.display().to_string();
    args.push(&chart);
    let printed = Command::new(program()).args(&args).output().unwrap();
    let role = String::from_utf8(printed.stdout).unwrap();
    assert!(role.contains("kind: ClusterRole") && !role.contains("leases"), "{role}");
    let role = role
        .replace("tillerman.dev/aggregate-to-operator: \"true\"", &label)
        .replace("name: web-operator", &format!("name: {}-web", space.name));
    kubectl(&["apply", "-f", "-"], Some(&role)).unwrap();
    permitted(&space, "True");
    eventually("the API takes a custom resource", || shop(&space, &json!({"greeting": "hi"})));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));
    assert!(!operator.log().contains("\"Forbidden\""), "{}", operator.log());
    space.kubectl(&["delete", &format!("shops.{group}"), "a"]).unwrap();
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(operator.stop());
}

/// GnuPG with keys of this test alone.
fn gpg(home: &std::path::Path, args: &[&str]) -> Vec<u8> {
    let all = ["--batch", "--quiet", "--no-auto-check-trustdb", "--passphrase", ""];
    let done = Command::new("gpg").env("GNUPGHOME", home).args(all).args(args).output().expect("gpg is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

#[test]
fn a_chart_comes_from_a_repository_with_credentials_and_a_signature() {
    let mut space = Space::new("defined-repository");
    space.env.push(("SSL_CERT_FILE", cluster_dir().join("pki/ca.crt")));
    let (home, folder) = (space.dir().join("gnupg"), space.dir().join("repository"));
    for made in [&home, &folder] {
        std::fs::create_dir_all(made).unwrap();
    }
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for user in ["maker@example.test", "else@example.test"] {
        gpg(&home, &["--quick-gen-key", user, "rsa2048", "sign", "never"]);
    }
    let secret = space.dir().join("secret.gpg");
    std::fs::write(&secret, gpg(&home, &["--export-secret-keys", "maker@example.test"])).unwrap();
    for user in ["maker", "else"] {
        let file = space.dir().join(format!("{user}.asc"));
        std::fs::write(&file, gpg(&home, &["--export", "--armor", &format!("{user}@example.test")])).unwrap();
        space.kubectl(&["create", "configmap", user, &format!("--from-file=keys.asc={}", file.display())]).unwrap();
    }
    let (chart, to, key) = (
        repository("tests/charts/web").display().to_string(),
        folder.display().to_string(),
        secret.display().to_string(),
    );
    space.helm(&["package", &chart, "-d", &to, "--sign", "--key", "maker@", "--keyring", &key]).unwrap();
    space.helm(&["repo", "index", &to]).unwrap();
    let port = serve_files(folder, "reader:pass-word");
    let create = |name: &str, password: &str| {
        let (user, password) =
            ("--from-literal=username=reader".to_owned(), format!("--from-literal=password={password}"));
        space
            .kubectl(&["create", "secret", "generic", name, "--type=kubernetes.io/basic-auth", &user, &password])
            .unwrap();
    };
    create("right", "pass-word");
    create("wrong", "not-this");
    let operator = operator(&space);
    let chart = |credentials: &str, keys: &str| {
        json!({"repository": format!("https://127.0.0.1:{port}"), "name": "web", "version": "1.2.3",
            "credentials": {"namespace": space.name, "name": credentials},
            "keyring": {"namespace": space.name, "name": keys, "key": "keys.asc"}})
    };
    for (credentials, keys, part) in
        [("missing", "maker", "there is no Secret missing"), ("wrong", "maker", "401"), ("right", "else", "keys.asc")]
    {
        define(&space, &chart(credentials, keys), &json!({}));
        let why = eventually(&format!("{credentials} and {keys} do not serve"), || {
            let why = wait(&space, "ChartUnusable");
            if why.contains(part) || (keys == "else" && why.contains("signature")) { Ok(why) } else { Err(why) }
        });
        assert!(!why.contains("pass-word") && !why.contains("not-this"), "{why}");
    }
    define(&space, &chart("right", "maker"), &json!({}));
    wait(&space, "Served");
    assert!(!operator.log().contains("pass-word"));
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(operator.stop());
}

#[test]
fn what_is_wrong_with_a_definition_is_in_its_condition() {
    let space = Space::new("wrong-definition");
    let operator = operator(&space);
    let chart = json!({"path": repository("tests/charts/web")});
    define(&space, &chart, &json!({"policy": {"nemespaces": "own"}}));
    let why = wait(&space, "InvalidSpec");
    assert!(why.starts_with("spec.policy: unknown field \"nemespaces\""), "{why}");
    define(&space, &json!({"path": "/nowhere"}), &json!({"policy": {}}));
    let why = wait(&space, "ChartUnusable");
    assert!(why.contains("/nowhere"), "{why}");
    define(&space, &chart, &json!({"policy": {}}));
    wait(&space, "Served");
    kubectl(&["delete", "chartdefinition", &space.name], None).unwrap();
    assert!(operator.stop());
}

/// What `/proc` says of the operator's memory, in KiB.
fn memory(operator: &Operator) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", operator.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement: two hundred definitions, printed"]
fn two_hundred_definitions() {
    let space = Space::new("many");
    let operator = operator(&space);
    let chart = repository("tests/charts/web");
    let mut before = (memory(&operator), operator.settle());
    println!("no definition: {} KiB", before.0);
    for hundred in 0..2 {
        let started = std::time::Instant::now();
        for index in 0..100 {
            let name = format!("{}-{hundred}{index:02}", space.name);
            let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition",
                "metadata": {"name": name, "labels": {"space": space.name}},
                "spec": {"chart": {"path": chart}, "names": {"group": group(&space), "version": "v1", "kind": format!("Shop{hundred}{index:02}")}}});
            kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
        }
        eventually_within(600, "all are served", || {
            let label = format!("-l=space={}", space.name);
            let path = "-o=jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].reason}";
            let text = kubectl(&["get", "chartdefinitions", &label, path], None)?;
            let served = text.split_whitespace().filter(|reason| *reason == "Served").count();
            if served == (hundred + 1) * 100 { Ok(()) } else { Err(format!("{served} are served")) }
        });
        let seconds = started.elapsed().as_secs_f64();
        let sent = operator.settle();
        std::thread::sleep(std::time::Duration::from_secs(20));
        let now = (memory(&operator), operator.sent());
        println!(
            "100 more: {} KiB, {} KiB each; served after {seconds:.1} s; {} requests each, {} in 20 s at rest",
            now.0,
            (now.0 - before.0) / 100,
            (sent - before.1) / 100,
            now.1 - sent
        );
        before = now;
    }
    let label = format!("-l=space={}", space.name);
    kubectl(&["delete", "chartdefinitions", &label, "--wait=false"], None).unwrap();
    assert!(operator.stop());
}

#[test]
fn a_definition_makes_a_cluster_scoped_api_whose_releases_act_as_an_account() {
    let space = Space::new("wide-definition");
    let operator = operator(&space);
    space.kubectl(&["create", "serviceaccount", "tenant"]).unwrap();
    let chart = json!({"path": repository("tests/charts/web")});
    let names = json!({"group": group(&space), "version": "v1", "kind": "Shop", "scope": "Cluster"});
    let policy = json!({"targetNamespace": space.name, "serviceAccount": format!("{}/tenant", space.name)});
    define(&space, &chart, &json!({"names": names, "policy": policy}));
    wait(&space, "Served");
    let body =
        json!({"apiVersion": format!("{}/v1", group(&space)), "kind": "Shop", "metadata": {"name": "a"}, "spec": {}});
    eventually("the API takes a custom resource", || kubectl(&["apply", "-f", "-"], Some(&body.to_string())));
    let shops = format!("shops.{}", group(&space));
    let why = eventually("the message names what the account lacks", || {
        let text =
            kubectl(&["get", &shops, "a", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}"], None)?;
        if text.contains("needs a rule") { Ok(text) } else { Err(text) }
    });
    let expected =
        format!("Service account tenant of namespace {} needs a rule; add to a Role in namespace", space.name);
    assert!(why.contains(&expected), "{why}");
    space
        .kubectl(&[
            "create",
            "rolebinding",
            "tenant",
            "--clusterrole=admin",
            &format!("--serviceaccount={}:tenant", space.name),
        ])
        .unwrap();
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hello"));
    kubectl(&["delete", &shops, "a", "--timeout=60s"], None).unwrap();
    space.wait_gone("configmap/a-config");
    kubectl(&["delete", "chartdefinition", &space.name, "--timeout=60s"], None).unwrap();
    assert!(operator.stop());
}
