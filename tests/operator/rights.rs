//! The rights that are enough: those that operator-sdk 1.42 generates for a chart, where it can ask a cluster for the chart's kinds
//! (`internal/plugins/helm/v1/scaffolds/internal/templates/config/rbac/manager_role.go`).

use crate::harness::{Space, eventually, kubectl};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What operator-sdk writes for the chart `web`, of which each rule is in one line.
const RULES: &str = r#"
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
- {apiGroups: [""], resources: [secrets], verbs: ["*"]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- apiGroups: [test.tillerman.dev]
  resources: [webs, webs/status, webs/finalizers]
  verbs: [create, delete, get, list, patch, update, watch]
- {apiGroups: [apps], resources: [deployments], verbs: ["*"]}
- {apiGroups: [""], resources: [configmaps, services], verbs: ["*"]}
"#;

/// Its `leader_election_role.yaml`.
const LEADER: &str = r#"
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
"#;

/// What the API server refused an operator for want of a right.
fn forbidden(space: &Space) -> BTreeSet<String> {
    let refused = |entry: &Value| -> Option<String> {
        let forbidden = entry["annotations"]["authorization.k8s.io/decision"] == "forbid";
        let resource = entry.pointer("/objectRef/resource").and_then(Value::as_str).unwrap_or_default();
        forbidden.then(|| format!("{} {resource}", entry["verb"].as_str().unwrap_or_default()))
    };
    space.audited().iter().filter_map(refused).collect()
}

#[test]
fn the_rights_that_operator_sdk_generates_are_enough() {
    let space = Space::new("rights");
    kubectl(&["delete", "clusterrolebinding", &space.name], None).unwrap();
    let roles = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}{RULES}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: leader, namespace: {name}}}{LEADER}",
        name = space.name
    );
    kubectl(&["apply", "-f", "-"], Some(&roles)).unwrap();
    let (user, role) = (format!("--user={}", space.name), format!("--clusterrole={}", space.name));
    kubectl(&["create", "clusterrolebinding", &space.name, &role, &user], None).unwrap();
    space.kubectl(&["create", "rolebinding", "leader", "--role=leader", &user]).unwrap();

    let operator = space.operator(&space.watches(&[("Web", "web")]), &["--leader-elect"]);
    space.apply("Web", "app", &json!({"greeting": "one"}));
    // The pods cannot be seen, so the workload's own words must do.
    space.wait_web("app");
    space.apply("Web", "app", &json!({"greeting": "two", "extra": true}));
    space.wait_field("configmap/app-config", "/data/greeting", &json!("two"));
    space.kubectl(&["delete", "configmap/app-extra"]).unwrap();
    eventually("it comes back", || space.get("configmap/app-extra"));
    space.apply("Web", "app", &json!({"greeting": "two"}));
    space.wait_gone("configmap/app-extra");
    assert!(space.wait_event("Upgraded").contains("is upgraded to revision"));
    operator.settle();
    space.kubectl(&["delete", "web/app", "--timeout=60s"]).unwrap();
    space.wait_gone("deployment/app-web");
    assert!(operator.stop());
    let pods = BTreeSet::from(["list pods".to_owned(), "watch pods".to_owned()]);
    let forbidden: Vec<String> = forbidden(&space).difference(&pods).cloned().collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
