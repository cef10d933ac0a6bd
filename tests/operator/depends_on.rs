//! Custom resources that need others.

use crate::harness::{Space, eventually, repository};
use crate::kubelet::Kubelet;
use serde_json::{Value, json};

/// A `watches.yaml` with a database (Other) and an application (Web), with these fields.
fn watches(space: &Space, database: &str, web: &str) -> std::path::PathBuf {
    let charts = repository("tests/charts");
    let entry = |kind: &str, chart: &str, fields: &str| {
        let chart = charts.join(chart).display().to_string();
        format!("- group: test.tillerman.dev\n  version: v1\n  kind: {kind}\n  chart: {chart}\n{fields}")
    };
    space.file("watches.yaml", &(entry("Other", database, "  allow: [dependsOn]\n") + &entry("Web", "web", web)))
}

const DEPENDS: &str = "  dependsOn:
  - group: test.tillerman.dev
    kind: Other
    nameFrom: database.name
    values: {greeting: status.endpoint, more.secret: status.secretName}
";

fn ready(space: &Space, object: &str, reason: &str, message: &str) {
    eventually(&format!("{object} is {reason}: {message}"), || {
        let ready = space.condition(object, "Ready")?;
        if ready["reason"] == reason && ready["message"] == message { Ok(()) } else { Err(ready.to_string()) }
    });
}

/// Waits until a custom resource says which other is not ready.
fn unready(space: &Space, object: &str, message: &str) {
    eventually(&format!("{object} says that {message}"), || {
        let condition = space.condition(object, "DependenciesReady")?;
        let is = condition["status"] == "False" && condition["message"] == message;
        if is { Ok(()) } else { Err(condition.to_string()) }
    });
}

#[test]
fn an_application_waits_for_its_database_and_follows_its_endpoint() {
    let space = Space::new("dependson");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let file = watches(&space, "database", DEPENDS);
    let operator = space.operator(&file, &["--reconcile-period=1s"]);
    let app = |more: &Value| {
        let mut spec = json!({"database": {"name": "db"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        space.apply("Web", "app", &spec);
    };
    app(&json!({}));
    ready(&space, "web/app", "DependencyNotReady", "waiting for Other db: it does not exist");
    assert_eq!(space.condition("web/app", "Reconciling").unwrap()["status"], "True");
    assert_eq!(space.condition("web/app", "Stalled").unwrap()["status"], "False");
    operator.rests(&space, 3);
    space.apply("Other", "db", &json!({"members": false}));
    ready(&space, "web/app", "DependencyNotReady", "waiting for Other db: it is not ready (Progressing)");
    space.get("configmap/app-config").unwrap_err();
    let address = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}).to_string();
    eventually("the Service has an address", || {
        space.kubectl(&["patch", "service/db-db", "--subresource=status", "--type=merge", "-p", &address])
    });
    let endpoint = |port: u16| json!(format!("db-db.{}.svc:{port}", space.name));
    space.wait_field("configmap/app-config", "/data/greeting", &endpoint(5432));
    space.wait_field("configmap/app-config", "/data/secret", &json!("db-credentials"));
    space.wait("web/app", "DependenciesReady", "True");
    space.wait("web/app", "Ready", "True");
    operator.rests(&space, 3);
    space.apply("Other", "db", &json!({"members": false, "port": 5433}));
    space.wait_field("configmap/app-config", "/data/greeting", &endpoint(5433));
    // While the database is not ready, the application is kept, repaired and changed, with the last values.
    space.apply("Other", "db", &json!({"members": false, "port": 5434, "wrong": "conditions"}));
    unready(&space, "web/app", "Other db: it is not ready (InvalidManifest)");
    space.wait("web/app", "Ready", "True");
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    space.wait_field("configmap/app-config", "/data/greeting", &endpoint(5433));
    operator.settle();
    assert!(operator.stop());
    let before = space.requests().len();
    let operator = space.operator(&file, &[]);
    operator.settle();
    let requests = space.requests()[before..].to_vec();
    // Of the failing database only the status is written.
    let is_expected = |r: &String| r.starts_with("get /") || r.starts_with("list") || r == "patch others";
    assert!(requests.iter().all(is_expected), "{requests:?}");
    app(&json!({"replicas": 2}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    space.wait_field("configmap/app-config", "/data/greeting", &endpoint(5433));
    space.delete("other/db");
    space.wait_gone("other/db");
    unready(&space, "web/app", "Other db: it does not exist");
    space.wait_field("configmap/app-config", "/data/greeting", &endpoint(5433));
    space.wait("web/app", "Ready", "True");
    // An application that needs no database does not wait.
    space.apply("Web", "alone", &json!({"greeting": "hi"}));
    space.wait_field("configmap/alone-config", "/data/greeting", &json!("hi"));
    assert!(space.condition("web/alone", "DependenciesReady").is_err());
    assert!(operator.stop());
}

#[test]
fn an_upgrade_waits_until_its_database_is_ready_again() {
    let space = Space::new("dependsupgrade");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let file = watches(&space, "database", &format!("{DEPENDS}    upgradeAfter: true\n"));
    let operator = space.operator(&file, &[]);
    let replicas = |count: u32| json!({"database": {"name": "db"}, "replicas": count});
    let database = |more: Value| {
        let mut spec = json!({"members": false});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        space.apply("Other", "db", &spec);
    };
    space.apply("Web", "app", &replicas(1));
    database(json!({}));
    let address = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}).to_string();
    eventually("the Service has an address", || {
        space.kubectl(&["patch", "service/db-db", "--subresource=status", "--type=merge", "-p", &address])
    });
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(1));
    space.wait("web/app", "Ready", "True");

    // Without a change of its own the application is ready, whatever the database does.
    database(json!({"wrong": "conditions"}));
    unready(&space, "web/app", "Other db: it is not ready (InvalidManifest)");
    space.wait("web/app", "Ready", "True");
    let waits = "the upgrade waits for Other db: it is not ready (InvalidManifest). To upgrade before that, set the annotation \
                 tillerman.dev/reconcile-at to another text";
    space.apply("Web", "app", &replicas(2));
    ready(&space, "web/app", "DependencyNotReady", waits);
    assert_eq!(space.condition("web/app", "Reconciling").unwrap()["status"], "True");
    // What is deployed is repaired meanwhile, and not changed.
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    space.wait_field("configmap/app-config", "/metadata/name", &json!("app-config"));
    assert_eq!(space.get("deployment/app-web").unwrap()["spec"]["replicas"], 1);
    operator.rests(&space, 3);
    database(json!({}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    space.wait("web/app", "Ready", "True");

    // Whoever must not wait says so.
    database(json!({"wrong": "conditions"}));
    unready(&space, "web/app", "Other db: it is not ready (InvalidManifest)");
    space.apply("Web", "app", &replicas(3));
    ready(&space, "web/app", "DependencyNotReady", waits);
    space.kubectl(&["annotate", "web/app", "tillerman.dev/reconcile-at=now"]).unwrap();
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(3));
    space.wait("web/app", "Ready", "True");
    assert!(operator.stop());
}

#[test]
fn custom_resources_that_need_each_other_are_named_until_one_does_not() {
    let space = Space::new("dependscycle");
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let operator = space.operator(&watches(&space, "web", "  allow: [dependsOn]\n"), &[]);
    let needs = |kind: &str, name: &str| {
        let list = json!([{"group": "test.tillerman.dev", "kind": kind, "name": name}]);
        json!({"tillerman.dev/depends-on": list.to_string()})
    };
    space.apply_with("Web", "a", &needs("Other", "b"), &json!({}));
    ready(&space, "web/a", "DependencyNotReady", "waiting for Other b: it does not exist");
    space.apply_with("Other", "b", &needs("Web", "a"), &json!({}));
    let end = ": each of them waits for the next one. Remove one of these dependencies";
    ready(&space, "other/b", "DependencyCycle", &format!("Other b → Web a → Other b{end}"));
    ready(&space, "web/a", "DependencyCycle", &format!("Web a → Other b → Web a{end}"));
    operator.rests(&space, 3);
    space.kubectl(&["annotate", "other/b", "tillerman.dev/depends-on-"]).unwrap();
    space.wait("other/b", "Ready", "True");
    space.wait("web/a", "Ready", "True");
    space.apply_with("Web", "own", &needs("Web", "own"), &json!({}));
    ready(&space, "web/own", "DependencyCycle", &format!("Web own → Web own{end}"));
    space.apply_with(
        "Web",
        "nobodys",
        &json!({"tillerman.dev/depends-on":
        r#"[{"group": "none.example.com", "kind": "None", "name": "a"}]"#}),
        &json!({}),
    );
    let message = "waiting for None a: the operator serves no custom resources of this kind";
    ready(&space, "web/nobodys", "DependencyNotReady", message);
    operator.settle();
}
