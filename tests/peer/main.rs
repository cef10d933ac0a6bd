//! Beside the real helm-operator of operator-sdk, built from its Go module: `make peer`.
//!
//! Tillerman takes over what helm-operator installed without touching anything, and helm-operator takes it back. Both run with the very
//! same files, arguments and environment.

mod project;

#[path = "../support/mod.rs"]
mod support;

use project::{PeerProject, Running};
use serde_json::json;
use support::harness::{self, eventually};

#[test]
fn releases_of_helm_operator_go_to_tillerman_and_back_with_nothing_touched() {
    let project = PeerProject::new();
    let theirs = Running::helm_operator(&project);
    install(&project);
    let before = project.settled();
    let app = project.revision("app");
    theirs.stop();

    let ours = Running::tillerman(&project);
    taken_over(&project, &before, app);
    changed_and_repaired(&project, app + 1);
    let before = project.settled();
    ours.stop();

    let _theirs = Running::helm_operator(&project);
    given_back(&project, &before, app + 1);
    removed(&project);
}

/// A project as operator-sdk makes it, with nothing changed but what `tillerman migrate --write` changes.
#[test]
fn a_project_that_is_migrated_runs_with_the_old_custom_resource_and_nothing_touched() {
    let project = PeerProject::of_operator_sdk();
    let theirs = Running::helm_operator(&project);
    project.space.apply("Web", "app", &json!({"replicaCount": 2}));
    project.wait_deployed("app", &json!({"replicaCount": 2}));
    project.space.wait("web/app", "Deployed", "True");
    let (before, revision) = (project.settled(), project.revision("app"));
    theirs.stop();

    let (code, text) = project.migrate(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("\n+FROM tillerman:") && text.contains("\n+\ttillerman run\n"), "{text}");
    assert!(!text.contains("by hand"), "{text}");
    assert_eq!(project.migrate(&["--write"]).0, Some(0));
    let (code, text) = project.migrate(&[]);
    assert!(code == Some(0) && text.ends_with("Nothing has to change.\n"), "{text}");

    let _ours = Running::tillerman(&project);
    project.space.wait_field("web/app", "/status/release/revision", &json!(revision));
    project.assert_good("web/app", "InstallSuccessful");
    eventually("its fields are ours", || match project.managers("service/app-web") {
        managers if managers == ["tillerman/Apply"] => Ok(()),
        managers => Err(format!("{managers:?}")),
    });
    assert_eq!(project.settled(), before);
    project.assert_deployed(&[("app", revision)]);
}

/// Three custom resources: one as it was made, one changed twice, and one with a cluster-scoped and a kept object.
fn install(project: &PeerProject) {
    let space = &project.space;
    let (plain, wide) = (json!({}), json!({"data": {"a": "1", "b": "2"}}));
    space.apply("Web", "plain", &plain);
    space.apply("Other", "wide", &wide);
    let annotated = json!({"replicaCount": 2, "podAnnotations": {"a": "1", "b": "2"}});
    for app in [json!({"replicaCount": 1}), json!({"replicaCount": 2}), annotated] {
        space.apply("Web", "app", &app);
        project.wait_deployed("app", &app);
    }
    project.wait_deployed("plain", &plain);
    project.wait_deployed("wide", &wide);
    for object in ["web/app", "web/plain", "other/wide"] {
        space.wait(object, "Deployed", "True");
    }
    assert_eq!(project.managers("deployment/app-web"), ["helm-operator/Update", "kube-controller-manager/Update"]);
}

/// Ours knows the releases as its own, and neither an object nor a record has changed.
fn taken_over(project: &PeerProject, before: &project::Snapshot, app: u64) {
    for (object, revision, reason) in [
        ("web/app", app, if app == 1 { "InstallSuccessful" } else { "UpgradeSuccessful" }),
        ("web/plain", 1, "InstallSuccessful"),
        ("other/wide", 1, "InstallSuccessful"),
    ] {
        project.space.wait_field(object, "/status/release/revision", &json!(revision));
        project.assert_good(object, reason);
    }
    for object in ["service/app-web", "configmap/wide-wide", "configmap/wide-kept", &project.cluster_role()] {
        eventually("its fields are ours", || match project.managers(object) {
            managers if managers == ["tillerman/Apply"] => Ok(()),
            managers => Err(format!("{object}: {managers:?}")),
        });
    }
    assert_eq!(&project.settled(), before);
    project.assert_deployed(&[("app", app), ("plain", 1), ("wide", 1)]);
}

/// A changed spec, values that helm-operator had set and that are gone, drift, and a deleted object.
fn changed_and_repaired(project: &PeerProject, app: u64) {
    let space = &project.space;
    space.apply("Web", "app", &json!({"replicaCount": 3, "podAnnotations": {"a": "1"}}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(3));
    space.wait_field("deployment/app-web", "/spec/template/metadata/annotations", &json!({"a": "1"}));
    space.wait_field("web/app", "/status/release/revision", &json!(app));
    let wide = json!({"data": {"a": "1"}});
    space.apply("Other", "wide", &wide);
    space.wait_field("configmap/wide-wide", "/data", &json!({"always": "here", "a": "1"}));
    project.wait_deployed("wide", &wide);
    space.kubectl(&["scale", "deployment/plain-web", "--replicas=5"]).unwrap();
    space.wait_field("deployment/plain-web", "/spec/replicas", &json!(1));
    space.kubectl(&["delete", "service/plain-web"]).unwrap();
    eventually("the service comes back", || space.get("service/plain-web"));
    for object in ["web/app", "web/plain", "other/wide"] {
        space.wait(object, "Deployed", "True");
    }
    assert_eq!(project.history("app"), [(app - 1, "superseded".to_owned()), (app, "deployed".to_owned())]);
    assert_eq!(project.history("plain"), [(1, "deployed".to_owned())]);
}

/// helm-operator has looked at everything, found it as it should be, and works on.
fn given_back(project: &PeerProject, before: &project::Snapshot, app: u64) {
    let space = &project.space;
    let objects = ["app-web", "plain-web", "wide-wide", "wide-kept"];
    project.wait_looked_at(&objects, 2);
    let from = project.requests().len();
    project.wait_looked_at(&objects, 2);
    let writes: Vec<_> = project.requests()[from..].iter().filter(|r| r.writes()).cloned().collect();
    assert!(writes.is_empty(), "it does not come to rest: {writes:?}");
    assert_eq!(&project.snapshot(), before);
    project.assert_deployed(&[("app", app), ("plain", 1), ("wide", 2)]);
    // It keeps one revision.
    assert_eq!(project.history("app"), [(app, "deployed".to_owned())]);
    for object in ["web/app", "other/wide"] {
        project.assert_good(object, "UpgradeSuccessful");
    }
    // It ignores conditions that it does not know; without any it writes its own (docs/how-to/helm-operator.md).
    assert!(space.condition("web/plain", "Ready").is_ok());
    let none = r#"{"status": {"conditions": null}}"#;
    space.kubectl(&["patch", "web/plain", "--subresource=status", "--type=merge", "-p", none]).unwrap();
    space.wait("web/plain", "Deployed", "True");
    assert!(space.condition("web/plain", "Ready").is_err());
    let values = json!({"replicaCount": 4});
    space.apply("Web", "app", &values);
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(4));
    project.wait_deployed("app", &values);
    project.settled();
    let template = space.get("deployment/app-web").unwrap()["spec"]["template"]["metadata"].clone();
    assert_eq!(template.get("annotations"), None, "a value that left under helm-operator goes too: {template}");
}

/// What helm-operator uninstalls goes with all it has, but for what is kept.
fn removed(project: &PeerProject) {
    let space = &project.space;
    for object in ["web/app", "web/plain", "other/wide"] {
        space.kubectl(&["delete", object]).unwrap();
    }
    for object in ["deployment/app-web", "service/plain-web", "serviceaccount/app-web", "configmap/wide-wide"] {
        space.wait_gone(object);
    }
    space.wait_gone(&project.cluster_role());
    project.assert_deployed(&[]);
    assert_eq!(space.kubectl(&["get", "secrets", "-o", "name"]).unwrap(), "");
    assert!(space.get("configmap/wide-kept").is_ok());
}
