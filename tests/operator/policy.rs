//! The admission policies of `deploy`: `members-policy.yaml`, by which nobody but the operator changes the replicas of a stateful set with
//! members, and `annotations-policy.yaml`, by which an annotation of a person causes only what that person may do directly.

use serde_json::json;

use crate::harness::{Space, eventually, kubectl, repository};
use crate::kubelet::Kubelet;

/// The policy goes when the test ends.
struct Policy<'a>(&'a str);
impl Drop for Policy<'_> {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            let _ = kubectl(&["delete", kind, self.0, "--wait=false"], None);
        }
    }
}

#[test]
fn only_the_operator_changes_the_replicas_of_a_stateful_set_with_members() {
    let space = Space::new("mempolicy");
    let text = std::fs::read_to_string(repository("deploy/members-policy.yaml")).unwrap();
    let shipped = "system:serviceaccount:tillerman-system:tillerman";
    assert!(text.contains(shipped));
    // Of this test alone.
    let text = text.replace(shipped, &space.name).replace("tillerman-members", &space.name);
    let only_here = format!(
        "  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}}}\n  paramRef:",
        space.name
    );
    kubectl(&["apply", "-f", "-"], Some(&text.replace("  paramRef:", &only_here))).unwrap();
    let _policy = Policy(&space.name);
    let _kubelet = Kubelet::of_members(&space, |_| (0, String::new()));
    let _operator = space.operator(&space.watches(&[("Web", "members")]), &[]);
    space.apply("Web", "a", &json!({"size": 1}));
    space.wait_field("web/a", "/status/members/db/replicas", &json!(1));
    let told = "has members that must join and leave in order: set the size in the custom resource (Web a)";
    let refused = |args: &[&str]| match space.kubectl(args) {
        Ok(done) => Err(done),
        Err(e) if e.contains(told) => Ok(()),
        Err(e) => Err(e),
    };
    // The API server enforces a policy a little after its creation.
    eventually("the policy is in use", || refused(&["scale", "statefulset/a-db", "--replicas=3"]));
    refused(&["scale", "statefulset/a-db", "--replicas=0"]).unwrap();
    refused(&["patch", "statefulset/a-db", "-p", r#"{"spec":{"replicas":2}}"#]).unwrap();
    let without = r#"{"metadata":{"annotations":{"tillerman.dev/members":null}},"spec":{"replicas":2}}"#;
    refused(&["patch", "statefulset/a-db", "-p", without]).unwrap();
    // Everything else of it may be changed, and so may the replicas of any other.
    space.kubectl(&["label", "statefulset/a-db", "example.com/team=x"]).unwrap();
    let other = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "other", "namespace": space.name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "serviceName": "other", "template": {
            "metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    kubectl(&["apply", "-f", "-"], Some(&other.to_string())).unwrap();
    space.kubectl(&["scale", "statefulset/other", "--replicas=1"]).unwrap();
    // And the operator continues stepping.
    space.apply("Web", "a", &json!({"size": 2}));
    space.wait_field("web/a", "/status/members/db/ready", &json!(2));
    space.apply("Web", "a", &json!({"size": 1}));
    space.wait_field("web/a", "/status/members/db/replicas", &json!(1));
}

/// A person who may edit custom resources, and what else their role says.
fn person(space: &Space, name: &str, rules: &[&[&str]]) -> String {
    let user = format!("{name}-{}", space.name);
    let edit = ["--verb=get,create,update,patch,delete", "--resource=webs.test.tillerman.dev"];
    for (at, rule) in std::iter::once(&edit[..]).chain(rules.iter().copied()).enumerate() {
        let role = format!("{name}-{at}");
        let mut create = vec!["create", "role", &role];
        create.extend(rule);
        space.kubectl(&create).unwrap();
        let (role_flag, user_flag) = (format!("--role={role}"), format!("--user={user}"));
        space.kubectl(&["create", "rolebinding", &role, &role_flag, &user_flag]).unwrap();
    }
    user
}

#[test]
fn a_person_sets_an_annotation_only_for_what_they_may_do_by_themselves() {
    let space = Space::new("annpolicy");
    let text = std::fs::read_to_string(repository("deploy/annotations-policy.yaml")).unwrap();
    assert!(text.contains("apiGroups: [apps.tillerman.dev]"));
    let text = text.replace("tillerman-annotations", &space.name).replace("apps.tillerman.dev", "test.tillerman.dev");
    // Of this test alone.
    let only_here = format!(
        "\n  validationActions: [Deny]\n  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}}}",
        space.name
    );
    kubectl(&["apply", "-f", "-"], Some(&text.replace("\n  validationActions: [Deny]", &only_here))).unwrap();
    let _policy = Policy(&space.name);
    for name in ["mine", "theirs"] {
        space.kubectl(&["create", "secret", "generic", name, "--from-literal=values.yaml=greeting: x"]).unwrap();
    }
    // One may read a Secret of the two, the other owns the namespace.
    let guest = person(&space, "guest", &[&["--verb=get", "--resource=secrets", "--resource-name=mine"]]);
    let host = person(&space, "host", &[]);
    let everything = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "all", "namespace": space.name},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    kubectl(&["apply", "-f", "-"], Some(&everything.to_string())).unwrap();
    space.kubectl(&["create", "rolebinding", "all", "--role=all", &format!("--user={host}")]).unwrap();
    space.apply("Web", "a", &json!({}));
    let set = |user: &str, name: &str, value: &str| {
        let annotation = format!("tillerman.dev/{name}={value}");
        let cleared = format!("tillerman.dev/{name}-");
        space.kubectl(&["annotate", "web/a", &cleared]).unwrap();
        space.kubectl(&["annotate", "--overwrite", "web/a", &annotation, "--as", user])
    };
    let from = |names: &[&str]| {
        json!(names.iter().map(|name| json!({"kind": "Secret", "name": name})).collect::<Vec<_>>()).to_string()
    };
    let refused = |name: &str, value: &str, expected: &str| match set(&guest, name, value) {
        Ok(done) => Err(done),
        Err(why) if why.contains(expected) => Ok(()),
        Err(why) => Err(why),
    };
    eventually("the policy is in use", || refused("patches", "[]", "are for those who may do everything in namespace"));
    for (name, value, expected) in [
        ("values-from", from(&["theirs"]), "names what you may not read"),
        ("values-from", from(&["mine", "mine", "theirs"]), "names what you may not read"),
        ("values-from", r#"[{"kind":"ConfigMap","name":"mine"}]"#.to_owned(), "names what you may not read"),
        (
            "values-from",
            r#"[{"kind":"Secret","n\u0061me":"theirs"}]"#.to_owned(),
            "only as a list of at most six sources",
        ),
        (
            "values-from",
            r#"[{"kind":"Secret","name":"mine","name":"theirs"}]"#.to_owned(),
            "only as a list of at most six sources",
        ),
        (
            "values-from",
            r#"[{"kind":"ConfigMap","kind":"Secret","name":"theirs"}]"#.to_owned(),
            "only as a list of at most six sources",
        ),
        ("values-from", from(&["mine"; 7]), "only as a list of at most six sources"),
        ("take-ownership", "true".to_owned(), "are for those who may do everything in namespace"),
        ("release-name", "other".to_owned(), "is for those who may update every Secret"),
        ("ignore-drift", "[]".to_owned(), "is for those who may patch every object"),
        ("depends-on", "[]".to_owned(), "is for those who may read every object"),
        ("service-account", "default".to_owned(), "is for those who may impersonate that ServiceAccount"),
        ("target-namespace", space.name.clone(), "is for those who may do everything in that namespace"),
        ("crds", "replace".to_owned(), "is for those who may update custom resource definitions"),
    ] {
        refused(name, &value, expected).unwrap();
    }
    set(&guest, "values-from", &from(&["mine"; 6])).unwrap();
    set(&guest, "paused", "true").unwrap();
    // What somebody else has set stays, and the guest may edit the rest.
    set(&host, "patches", "[]").unwrap();
    space.kubectl(&["label", "web/a", "x=y", "--as", &guest]).unwrap();
    for (name, value) in [
        ("values-from", from(&["mine", "theirs"])),
        ("take-ownership", "true".to_owned()),
        ("ignore-drift", "[]".to_owned()),
        ("release-name", "b".to_owned()),
        ("service-account", "default".to_owned()),
        ("target-namespace", space.name.clone()),
    ] {
        set(&host, name, &value).unwrap();
    }
    assert!(set(&host, "target-namespace", "kube-system").unwrap_err().contains("everything in that namespace"));
    assert!(
        set(&host, "crds", "replace").unwrap_err().contains("custom resource definitions"),
        "definitions are of no namespace"
    );
}
