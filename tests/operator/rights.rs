//! The rights that are enough: those that operator-sdk 1.42 generates for a chart, where it can ask a cluster for the chart's kinds
//! (`internal/plugins/helm/v1/scaffolds/internal/templates/config/rbac/manager_role.go`), and those that `tillerman rbac` prints.

use crate::harness::{Space, eventually, kubectl, program, repository};
use crate::support::api;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tillerman::rbac::kinds;

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
pub fn forbidden(space: &Space) -> BTreeSet<String> {
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

/// `tillerman rbac` for a chart of the kind Web, for a ServiceAccount `operator` in the namespace: what it printed, and whether it ended
/// well.
fn rbac(space: &Space, chart: &Path, more: &[&str]) -> (String, bool) {
    let account = format!("--service-account={}:operator", space.name);
    let output = Command::new(program())
        .arg("rbac")
        .arg(chart)
        .args(["--group=test.tillerman.dev", "--kind=Web", "--namespace", &space.name, &account, "--name", &space.name])
        .args(more)
        .env("KUBECONFIG", crate::harness::cluster_dir().join("admin.kubeconfig"))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || complaint.contains("lacks rights"), "{}: {complaint}", chart.display());
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

/// A namespace whose operators act as a ServiceAccount with exactly the rules that are printed for a chart, and `more` flags.
pub fn with_exactly(test: &str, chart: &Path, more: &[&str]) -> Space {
    let mut space = Space::new(test);
    kubectl(&["delete", "clusterrolebinding", &space.name], None).unwrap();
    space.kubectl(&["create", "serviceaccount", "operator"]).unwrap();
    let roles = rbac(&space, chart, more).0;
    space.file("roles.yaml", &roles);
    // Those that the chart names, which an administrator makes.
    let named: BTreeSet<&str> = roles.lines().filter_map(|line| line.strip_prefix("  namespace: ")).collect();
    for namespace in named {
        if api::get(&format!("/api/v1/namespaces/{namespace}")).is_err() {
            api::create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).unwrap();
        }
    }
    kubectl(&["apply", "-f", "-"], Some(&roles)).unwrap_or_else(|why| panic!("{}: {why}\n{roles}", chart.display()));
    space.user = format!("system:serviceaccount:{}:operator", space.name);
    // The API server knows of the rights a moment later.
    eventually("the ServiceAccount has the rights", || match rbac(&space, chart, &[more, &["--check"]].concat()) {
        (_, true) => Ok(()),
        (missing, false) => Err(missing),
    });
    space
}

/// Installs a chart, upgrades it under other names so that the first objects are pruned, and deletes it; what was refused.
fn lives(chart: &Path, name: &str, before: &Value, after: &Value) -> BTreeSet<String> {
    let space = with_exactly(name, chart, &[]);
    let operator = space.operator(&space.watches(&[("Web", &chart.display().to_string())]), &["--leader-elect"]);
    let object = format!("web/{name}");
    space.apply("Web", name, before);
    space.wait(&object, "Deployed", "True");
    operator.settle();
    space.apply("Web", name, after);
    eventually("the change is seen", || {
        let found = space.get(&object)?;
        let (wanted, seen) = (&found["metadata"]["generation"], &found["status"]["observedGeneration"]);
        if *wanted != 1 && wanted == seen { Ok(()) } else { Err(format!("generation {seen} of {wanted}")) }
    });
    space.wait(&object, "Deployed", "True");
    operator.settle();
    space.delete(&object);
    space.wait_gone(&object);
    assert!(operator.stop());
    assert!(space.audited().len() > 10, "{}: its requests are in the audit log", chart.display());
    let refused = forbidden(&space);
    if !refused.is_empty() {
        eprintln!("{}: {refused:?}", chart.display());
    }
    refused
}

#[test]
fn charts_live_under_exactly_the_rights_that_are_printed() {
    for (chart, name, after) in [
        ("tests/charts/web", "rights-web", json!({"greeting": "two", "extra": true})),
        ("tests/charts/withcrd", "rights-crd", json!({"of": "no matter"})),
        ("tests/charts/granting", "rights-granting", json!({"clusterWide": true})),
    ] {
        let refused = lives(&repository(chart), name, &json!({}), &after);
        assert!(refused.is_empty(), "{chart}: {refused:?}");
    }
}

#[test]
fn a_missing_right_is_named_with_the_rule_to_add() {
    let chart = repository("tests/charts/web");
    let space = with_exactly("rights-missing", &chart, &[]);
    let (all, is_whole) = rbac(&space, &chart, &["--check"]);
    assert!(is_whole && all.contains("has all"), "{all}");
    // The role without its rule for Deployments.
    let role = space.kubectl(&["get", "role", &space.name, "-o", "json"]).unwrap();
    let mut role: Value = serde_json::from_str(&role).unwrap();
    role["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["deployments"]));
    space.kubectl(&["replace", "-f", &space.file("role.json", &role.to_string()).display().to_string()]).unwrap();
    let missing = "{apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch, delete]}";
    eventually("the right is missed", || match rbac(&space, &chart, &["--check"]) {
        (text, false) if text.contains(missing) && text.lines().count() == 1 => Ok(()),
        (text, _) => Err(text),
    });
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    let failed = space.wait("web/app", "ReleaseFailed", "True");
    let message = failed["message"].as_str().unwrap();
    let lacking = "{apiGroups: [apps], resources: [deployments], verbs: [patch]}";
    assert!(message.contains("cannot patch resource \"deployments\""), "{message}");
    assert!(
        message.ends_with(&format!("add to its ClusterRole, or its Role in namespace {}: {lacking}", space.name)),
        "{message}"
    );
}

#[test]
fn the_table_of_kinds_has_what_the_api_server_serves() {
    let mut served = BTreeSet::new();
    let mut add = |group: &str, path: &str| {
        for resource in api::get(path).unwrap()["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap().to_owned();
            if !name.contains('/') && resource["verbs"].as_array().unwrap().contains(&json!("delete")) {
                let namespaced = resource["namespaced"].as_bool().unwrap();
                served.insert((group.to_owned(), resource["kind"].as_str().unwrap().to_owned(), name, namespaced));
            }
        }
    };
    add("", "/api/v1");
    let groups: BTreeSet<&str> = kinds::BUILT_IN.iter().map(|row| row.group).collect();
    for group in api::get("/apis").unwrap()["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap().iter().filter(|_| groups.contains(name)) {
            add(name, &format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let known: BTreeSet<_> = kinds::BUILT_IN
        .iter()
        .map(|row| (row.group.to_owned(), row.kind.to_owned(), row.plural.to_owned(), row.namespaced))
        .collect();
    assert!(served.len() > 40, "{served:?}");
    let lacks: Vec<_> = served.difference(&known).collect();
    assert!(lacks.is_empty(), "{lacks:?}");
}

/// Charts of the corpus that install without help on a cluster without nodes: with Roles and bindings of their own, definitions in `crds/`
/// and in templates, cluster-scoped objects, objects in kube-system, and subcharts.
const CORPUS: [&str; 20] = [
    "FairwindsOps+charts/stable/goldilocks",
    "FairwindsOps+charts/stable/rbac-manager",
    "argoproj+argo-helm/charts/argo-rollouts",
    "argoproj+argo-helm/charts/argocd-image-updater",
    "aws+eks-charts/stable/appmesh-spire-server",
    "bitnami+charts/bitnami/argo-cd",
    "bitnami+charts/bitnami/clickhouse-operator",
    "bitnami+charts/bitnami/grafana-loki",
    "bitnami+charts/bitnami/metrics-server",
    "bitnami+charts/bitnami/nginx-ingress-controller",
    "bitnami+charts/bitnami/sealed-secrets",
    "bitnami+charts/bitnami/victoriametrics",
    "cozystack+etcd-operator/charts/etcd-operator",
    "grafana-community+helm-charts/charts/grafana",
    "helm+charts/stable/nginx-ingress",
    "kubernetes+autoscaler/cluster-autoscaler/charts/cluster-autoscaler",
    "kubernetes+dashboard/charts/kubernetes-dashboard",
    "ory+k8s/helm/charts/hydra-maester",
    "rook+rook/deploy/charts/rook-ceph",
    "wiremind+wiremind-helm-charts/charts/orc",
];

#[test]
#[ignore = "needs the corpus of charts: tests/rights.sh lives"]
fn twenty_charts_of_others_live_under_exactly_the_rights_that_are_printed() {
    let root = std::env::var_os("RIGHTS_CORPUS").expect("run me with tests/rights.sh lives");
    // Of the charts, those whose number leaves a remainder: `REMAINDER/OF`.
    let share = std::env::var("SWEEP_CHARTS").unwrap_or_else(|_| "0/1".to_owned());
    let (remainder, of) = share.split_once('/').expect("SWEEP_CHARTS is REMAINDER/OF");
    let (remainder, of): (usize, usize) = (remainder.parse().unwrap(), of.parse().unwrap());
    let mut refused = Vec::new();
    for (number, chart) in CORPUS.iter().enumerate().filter(|(number, _)| number % of == remainder) {
        let path = Path::new(&root).join("charts").join(chart);
        // Under another name all objects are new, and the first ones are pruned.
        let after = json!({"fullnameOverride": format!("renamed-{number}"), "replicaCount": 2});
        let found = lives(&path, &format!("rights-{number}"), &json!({}), &after);
        println!("{chart}: {} requests refused", found.len());
        refused.extend(found.into_iter().map(|request| format!("{chart}: {request}")));
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
