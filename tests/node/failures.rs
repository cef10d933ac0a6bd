//! Conditions about pods that fail on a real kubelet, with the rights of the project's own roles.

use crate::{MANAGER, Place, SYSTEM, says};
use serde_json::{Value, json};

const PASSWORD: &str = "canary-7f3e91c4";

/// A Page whose hook fails after it has written its password, which comes from a Secret.
fn failing_hook(place: &Place) {
    place.kubectl(&["create", "secret", "generic", "login", &format!("--from-literal=password={PASSWORD}")]).unwrap();
    let from = json!([{"kind": "Secret", "name": "login", "key": "password", "targetPath": "password"}]);
    place.apply(&json!({"tillerman.dev/values-from": from.to_string()}), &json!({"hook": "fail"}));
}

/// Everything that can be read of the Page and about it.
fn all_that_is_said(place: &Place) -> String {
    let page = place.kubectl(&["get", "pages.apps.example.com", "app", "-o", "yaml"]).unwrap();
    let events = place.kubectl(&["get", "events", "--field-selector=involvedObject.kind=Page", "-o", "yaml"]).unwrap();
    let log = crate::harness::kubectl(&["-n", SYSTEM, "logs", &format!("deployment/{MANAGER}")], None).unwrap();
    format!("{page}{events}{log}")
}

#[test]
fn a_failed_hook_says_what_its_pod_wrote_last_but_no_secret() {
    let place = Place::new("hooklog");
    // What a helm-operator's role need not have.
    place.kubectl(&["create", "role", "logs", "--verb=get", "--resource=pods/log"]).unwrap();
    let account = format!("--serviceaccount={SYSTEM}:{MANAGER}");
    place.kubectl(&["create", "rolebinding", "logs", "--role=logs", &account]).unwrap();
    failing_hook(&place);
    let condition = place.wait("Ready", says("the last lines of pod app-check-"));
    let message = condition["message"].as_str().unwrap();
    let lines = ":\nthe database was asked\nit does not take the password ****";
    assert!(message.contains("pre-install hook Job app-check failed: BackoffLimitExceeded"), "{message}");
    assert!(message.contains(lines), "{message}");
    let said = all_that_is_said(&place);
    assert!(said.contains("the database was asked"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}

#[test]
fn where_the_role_does_not_show_a_pods_log_the_condition_names_the_right_that_is_missing() {
    let place = Place::new("nolog");
    failing_hook(&place);
    let condition = place.wait("Ready", says("its log cannot be read"));
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("cannot get resource \"pods/log\""), "{message}");
    assert!(!all_that_is_said(&place).contains(PASSWORD));
}

#[test]
fn ready_names_the_pod_whose_image_does_not_exist_and_why() {
    let place = Place::new("noimage");
    place.apply(&json!({}), &json!({"image": "localhost/nowhere:1"}));
    let pulls = |condition: &Value| says("ErrImagePull: ")(condition) || says("ImagePullBackOff: ")(condition);
    let condition = place.wait("Ready", pulls);
    let pods = place.get(&["pods", "-l", "app=app"]).unwrap();
    let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let message = condition["message"].as_str().unwrap();
    assert_eq!(condition["status"], "False");
    assert!(message.starts_with(&format!("Deployment app-page: pod {pod} ")), "{message}");
    assert!(message.contains("localhost/nowhere:1"), "{message}");
    // Repaired, and nothing is left of it.
    place.apply(&json!({}), &json!({"greeting": "mended"}));
    place.wait("Ready", |c| c["status"] == "True");
}
