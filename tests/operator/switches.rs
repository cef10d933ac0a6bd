//! The switches: annotations `tillerman.dev/…` of custom resources, and the same in watches.yaml.

use crate::harness::{Space, eventually, repository};
use serde_json::json;

#[test]
fn what_is_paused_is_left_alone_until_it_is_not_or_is_deleted() {
    let space = Space::new("paused");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/paused": "true"}), &json!({}));
    space.wait("web/app", "Paused", "True");
    operator.settle();
    assert!(space.get("deployment/app-web").is_err());
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused-"]).unwrap();
    space.wait("web/app", "Deployed", "True");
    eventually("it says so no more", || match space.condition("web/app", "Paused") {
        Err(_) => Ok(()),
        Ok(condition) => Err(condition.to_string()),
    });
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused=true"]).unwrap();
    space.wait("web/app", "Paused", "True");
    space.kubectl(&["delete", "service/app-web"]).unwrap();
    let drifted = space.wait("web/app", "Drifted", "True");
    assert_eq!((&drifted["reason"], &drifted["message"]), (&json!("Paused"), &json!("Service app-web does not exist")));
    operator.settle();
    assert!(space.get("service/app-web").is_err());
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused-"]).unwrap();
    eventually("it comes back", || space.get("service/app-web"));
    let repaired = space.wait("web/app", "Drifted", "False");
    assert!(repaired["message"].as_str().unwrap().contains("Service app-web"), "{repaired}");
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused=true"]).unwrap();
    space.wait("web/app", "Paused", "True");
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let space = Space::new("dryrun");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/dry-run": "true"}), &json!({}));
    let told = space.wait("web/app", "DryRun", "True");
    assert_eq!(
        told["message"],
        "Install, revision 1; create ConfigMap app-config, Service app-web, Deployment app-web"
    );
    operator.settle();
    assert!(space.get("configmap/app-config").is_err());
    assert_eq!(space.helm(&["list", "-q"]).unwrap(), "");
    space.kubectl(&["annotate", "web/app", "tillerman.dev/dry-run-"]).unwrap();
    space.wait("web/app", "Deployed", "True");
    assert!(space.condition("web/app", "DryRun").is_err());
    space.apply_with("Web", "app", &json!({"tillerman.dev/dry-run": "true"}), &json!({"extra": true, "replicas": 3}));
    let told = space.wait("web/app", "DryRun", "True");
    assert_eq!(told["message"], "Upgrade, revision 2; create ConfigMap app-extra; change Deployment app-web");
    assert_eq!(space.get("deployment/app-web").unwrap()["spec"]["replicas"], 1);
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("deployment/app-web");
}

#[test]
fn history_is_as_long_as_the_kind_or_the_custom_resource_says() {
    let space = Space::new("maxhistory");
    let chart = repository("tests/charts/web").display().to_string();
    let entry = format!("- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {chart}\n  maxHistory: 3\n");
    let _operator = space.operator(&space.file("watches.yaml", &entry), &[]);
    for (name, annotations, kept) in [
        ("a", json!({}), 3),
        ("b", json!({"tillerman.dev/max-history": "2"}), 2),
        ("c", json!({"tillerman.dev/max-history": "0"}), 5),
    ] {
        for n in 1..=5 {
            space.apply_with("Web", name, &annotations, &json!({"greeting": format!("number {n}")}));
            space.wait_field(&format!("web/{name}"), "/status/release/revision", &json!(n));
        }
        eventually("the history is as long as it should be", || {
            let text = space.helm(&["history", name, "-o", "json"])?;
            let list: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if list.len() == kept { Ok(()) } else { Err(format!("{name}: {}", list.len())) }
        });
    }
}

#[test]
fn an_orphaned_release_stays_with_its_objects_and_is_taken_up_again() {
    let space = Space::new("orphan");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let switch = json!({"tillerman.dev/deletion-policy": "orphan"});
    space.apply_with("Web", "app", &switch, &json!({}));
    space.wait("web/app", "Deployed", "True");
    let uid = space.get("deployment/app-web").unwrap()["metadata"]["uid"].clone();
    space.kubectl(&["delete", "web/app"]).unwrap();
    for object in ["deployment/app-web", "service/app-web", "configmap/app-config"] {
        assert_eq!(space.get(object).unwrap()["metadata"].get("ownerReferences"), None, "{object}");
    }
    assert!(space.helm(&["status", "app"]).unwrap().contains("STATUS: deployed"));
    space.apply_with("Web", "app", &switch, &json!({"replicas": 2}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(2));
    let metadata = space.get("deployment/app-web").unwrap()["metadata"].clone();
    assert_eq!(metadata["uid"], uid);
    assert_eq!(metadata["ownerReferences"][0]["uid"], space.get("web/app").unwrap()["metadata"]["uid"]);
}

#[test]
fn a_switch_that_cannot_be_read_is_named_and_nothing_is_done() {
    let space = Space::new("badswitch");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/on-failure": "panic"}), &json!({}));
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "InvalidAnnotation");
    assert_eq!(
        stalled["message"],
        "annotation tillerman.dev/on-failure: \"panic\" must be one of rollback, keep and uninstall"
    );
    assert!(space.get("deployment/app-web").is_err());
    space.kubectl(&["annotate", "--overwrite", "web/app", "tillerman.dev/on-failure=keep"]).unwrap();
    space.wait("web/app", "Deployed", "True");
}
