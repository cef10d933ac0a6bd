//! `deploy/install` and `deploy/chart` on an API server: everything in them is accepted, and without a warning.

use crate::harness::{Space, cluster_dir, established, eventually, kubectl, program, repository};
use crate::support::olm;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tillerman::template::yaml;

const NAMESPACE: &str = "tillerman-system";

/// What kubectl prints; it must say nothing to standard error, where warnings of the API server are.
fn quiet(args: &[&str], input: &str) -> String {
    let mut child = Command::new("kubectl")
        .args(args)
        .env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"))
        .current_dir(repository(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn rendered(values: &[&str]) -> String {
    let sets = values.iter().flat_map(|value| ["--set", value]);
    let run = Command::new(program())
        .args(["template", "tillerman", "deploy/chart", "--namespace", NAMESPACE])
        .args(sets)
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(run.status.success(), "{values:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The objects of a text by kind, namespace and name, without what says by whom they are installed. A patch moves a variable to the front.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let parse = |document: &str| yaml::parse(document.as_bytes()).unwrap();
    let mut found: Vec<Value> = text.split("\n---\n").map(parse).filter(Value::is_object).collect();
    let stripped = found.iter_mut().map(|object| {
        if let Some(env) = object.pointer_mut("/spec/template/spec/containers/0/env").and_then(Value::as_array_mut) {
            env.sort_by_key(|variable| variable["name"].to_string());
        }
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        metadata.remove("annotations");
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = format!("{} {}", text("namespace"), text("name"));
        (format!("{} {id}", object["kind"]), object.take())
    });
    stripped.collect()
}

#[test]
fn what_is_installed_is_accepted_without_a_warning() {
    // Its labels refuse and warn of pods that do not fit the level `restricted`.
    quiet(&["apply", "--server-side", "-f", "deploy/install/base/namespace.yaml"], "");
    // Other tests install the same definitions.
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server"];
    for overlay in ["cluster-wide", "namespaced", "base"] {
        let folder = format!("deploy/install/{overlay}");
        let said = quiet(&[&apply[..], &["-k", &folder]].concat(), "");
        assert!(said.contains("deployment.apps/tillerman"), "{said}");
    }
    let values: [&[&str]; 10] = [
        &[],
        &["crds.install=false", "replicas=1", "fullnameOverride=else"],
        &["watchNamespaces={default,kube-public}", "chartRights=false"],
        &["watchNamespaces={default,tillerman-system}", "builtIn.php=false", "backupServiceAccount=backup"],
        &[
            "builtIn.php=false",
            "builtIn.wordpress=false",
            "builtIn.etcd=false",
            "builtIn.mysql=false",
            "chartDefinitionSelector=team=web",
        ],
        &["chartDefinitions=false", "builtIn.php=false", "userRoles=false", "crds.keep=false"],
        &["builtIn.etcd=false", "builtIn.mysql=false", "agentImage.tag=v1"],
        &[
            "metrics.enabled=false",
            "podDisruptionBudget.enabled=false",
            "networkPolicy.enabled=false",
            "serviceAccount.create=false",
            "serviceAccount.name=mine",
        ],
        &[
            "metrics.secure=false",
            "metrics.dashboard.enabled=true",
            "networkPolicy.metricsFrom=null",
            "networkPolicy.egress[0].ports[0].port=443",
        ],
        &[
            "metrics.certificateSecret=certificate",
            "priorityClassName=system-cluster-critical",
            "imagePullSecrets={a}",
            "tolerations[0].operator=Exists",
            "podLabels.team=web",
            "podAnnotations.note=x",
            "nodeSelector.disk=ssd",
            "extraArgs={--zap-log-level=debug}",
            "extraEnv[0].name=A",
            "extraEnv[0].value=b",
        ],
    ];
    for values in values {
        let said = quiet(&[&apply[..], &["-f", "-"]].concat(), &rendered(values));
        assert!(said.contains("deployment.apps/"), "{said}");
    }
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"], None).unwrap();
}

#[test]
fn the_overlay_of_one_namespace_is_what_the_chart_renders_for_it() {
    let mut overlay = objects(&quiet(&["kustomize", "deploy/install/namespaced"], ""));
    assert!(overlay.remove(&format!("\"Namespace\"  {NAMESPACE}")).is_some());
    assert_eq!(overlay, objects(&rendered(&["watchNamespaces={default}"])));
    let mut overlay = objects(&quiet(&["kustomize", "deploy/install/cluster-wide"], ""));
    overlay.remove(&format!("\"Namespace\"  {NAMESPACE}"));
    assert_eq!(overlay, objects(&rendered(&[])));
}

/// Nobody was refused anything, but for requests that `is_expected` picks from the audit log.
fn nothing_was_forbidden(space: &Space, is_expected: impl Fn(&Value) -> bool) {
    let forbidden =
        |entry: &&Value| entry["annotations"]["authorization.k8s.io/decision"] == "forbid" && !is_expected(entry);
    let refused: Vec<String> = space.audited().iter().filter(forbidden).map(Value::to_string).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// The built-in definitions and the entries of `watches.yaml` of these kinds, with the charts of the repository.
pub fn watches(space: &Space, entries: &[&str]) -> std::path::PathBuf {
    let entry = |name: &&str| std::fs::read_to_string(repository(&format!("deploy/chart/files/watches-{name}.yaml")));
    let text: String = entries.iter().map(|name| entry(name).unwrap()).collect();
    space.file("watches.yaml", &text.replace("chart: charts/", &format!("chart: {}/", repository("charts").display())))
}

/// Installs built-in definitions, by their names.
pub fn define(kinds: &[&str]) {
    for kind in kinds {
        let file = repository(&format!("deploy/install/crds/{kind}.yaml")).display().to_string();
        // Other tests install the same definitions.
        kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file], None).unwrap();
        established(&format!("crd/{kind}"));
    }
}

/// Gives the user of a test the roles of the chart for its namespace in the place of all rights.
fn restrict(space: &Space, values: &[&str]) {
    let name = &space.name;
    let (namespaces, fullname) = (format!("watchNamespaces={{{name}}}"), format!("fullnameOverride={name}"));
    let values = [&[&namespaces, &fullname, "crds.install=false", "userRoles=false"], values].concat();
    let account = format!("- kind: ServiceAccount\n    name: {name}\n    namespace: {NAMESPACE}\n");
    let user = format!("- kind: User\n    name: {name}\n    apiGroup: rbac.authorization.k8s.io\n");
    let of_roles = |object: &&str| object.contains("\napiVersion: rbac.authorization.k8s.io/v1\n");
    let rendered = rendered(&values);
    let roles: Vec<&str> = rendered.split("---\n").filter(of_roles).collect();
    let roles = roles.join("---\n").replace(&account, &user).replace(NAMESPACE, name);
    kubectl(&["delete", "clusterrolebinding", name], None).unwrap();
    quiet(&["apply", "-f", "-"], &roles);
}

/// Kubernetes lets nobody make a Role that grants more than they have: the operator must have every right that the Job of an `EtcdRestore` gets.
#[test]
fn the_rights_of_etcd_are_enough_for_the_role_of_a_restore() {
    let space = Space::new("installrestore");
    let only = [
        "builtIn.mysql=false",
        "builtIn.php=false",
        "builtIn.wordpress=false",
        "chartDefinitions=false",
        "chartRights=false",
    ];
    restrict(&space, &only);
    let args = ["template", "mine", "charts/etcd-restore", "-s", "templates/rights.yaml"];
    let values = ["--set", "etcdCluster.name=mine,s3.path=a/b"];
    let run = Command::new(program()).args(args).args(values).current_dir(repository("")).output().unwrap();
    let role = String::from_utf8(run.stdout).unwrap();
    assert!(role.contains("mine-initial-cluster"), "{role}");
    eventually("the operator may make it", || {
        kubectl(&["apply", "-n", &space.name, "--as", &space.name, "-f", "-"], Some(&role))
    });
}

#[test]
fn an_operator_of_one_namespace_needs_no_more_than_the_roles_of_the_chart() {
    let space = Space::new("installed");
    let name = &space.name;
    restrict(&space, &["builtIn.etcd=false", "builtIn.mysql=false", "builtIn.wordpress=false"]);
    define(&["chartdefinitions.tillerman.dev", "phpapps.apps.tillerman.dev"]);
    let selector = format!("--chart-definitions=space={name}");
    let operator = space.operator(&watches(&space, &["php"]), &[&selector, "--leader-elect"]);

    let app = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp",
        "metadata": {"name": "hello", "namespace": name}, "spec": {"source": {"index.php": "<?php"}}});
    kubectl(&["apply", "-f", "-"], Some(&app.to_string())).unwrap();
    space.wait_field("deployment/hello", "/spec/replicas", &json!(1));

    let (group, web) = (format!("{name}.tillerman.dev"), repository("tests/charts/web").display().to_string());
    let of_the_chart =
        ["rbac", "--all-namespaces", "--aggregate", "--group", &group, "--kind", "Shop", "--name", name, &web];
    let role = Command::new(program()).args(of_the_chart).output().unwrap();
    let role = String::from_utf8(role.stdout).unwrap().replace(&format!("name: {name}"), &format!("name: {name}-web"));
    kubectl(&["apply", "-f", "-"], Some(&role)).unwrap();
    let definition = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "ChartDefinition",
        "metadata": {"name": name, "labels": {"space": name}},
        "spec": {"chart": {"path": web}, "names": {"group": group, "version": "v1", "kind": "Shop"}}});
    kubectl(&["apply", "-f", "-"], Some(&definition.to_string())).unwrap();
    let shop = json!({"apiVersion": format!("{group}/v1"), "kind": "Shop", "metadata": {"name": "a", "namespace": name},
        "spec": {"greeting": "hi"}});
    eventually("the API takes a custom resource", || kubectl(&["apply", "-f", "-"], Some(&shop.to_string())));
    space.wait_field("configmap/a-config", "/data/greeting", &json!("hi"));

    space.kubectl(&["delete", &format!("shops.{group}"), "a"]).unwrap();
    space.kubectl(&["delete", "phpapp", "hello"]).unwrap();
    // Whether the API is in use is a question about all namespaces.
    kubectl(&["delete", "chartdefinition", name, "--wait=false"], None).unwrap();
    let missing = format!("add to its ClusterRole: {{apiGroups: [{group}], resources: [shops], verbs: [list]}}");
    eventually("the rule is named", || {
        let text = kubectl(
            &["get", "chartdefinition", name, "-o", "jsonpath={.status.conditions[?(@.type==\"Ready\")].message}"],
            None,
        )?;
        if text.contains(&missing) { Ok(()) } else { Err(text) }
    });
    let (list, user) = (format!("{name}-list"), format!("--user={name}"));
    kubectl(&["create", "clusterrole", &list, "--verb=list", &format!("--resource=shops.{group}")], None).unwrap();
    kubectl(&["create", "clusterrolebinding", &list, &format!("--clusterrole={list}"), &user], None).unwrap();
    kubectl(&["wait", "--for=delete", "chartdefinition", name, "--timeout=60s"], None).unwrap();
    kubectl(&["delete", "clusterrole", &list, &format!("{name}-web")], None).unwrap();
    assert!(operator.stop());
    nothing_was_forbidden(&space, |entry| entry["objectRef"]["resource"] == "shops");
}

/// What a fresh installation has: an application waits for its database without anything that its author wrote.
#[test]
fn a_php_app_waits_for_a_database_with_the_rights_that_the_chart_gives() {
    let space = Space::new("installedstack");
    restrict(&space, &["builtIn.etcd=false", "builtIn.wordpress=false", "chartDefinitions=false", "chartRights=false"]);
    define(&["mysqlclusters.databases.tillerman.dev", "phpapps.apps.tillerman.dev"]);
    let operator = space.operator(&watches(&space, &["mysql", "php-with-mysql"]), &["--leader-elect"]);
    let app = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp",
        "metadata": {"name": "shop", "namespace": space.name},
        "spec": {"source": {"index.php": "<?php"}, "database": {"cluster": "db"}}});
    kubectl(&["apply", "-f", "-"], Some(&app.to_string())).unwrap();
    let waits = |why: &str| {
        eventually(why, || {
            let ready = space.condition("phpapp/shop", "Ready")?;
            if ready["message"] == why { Ok(()) } else { Err(ready.to_string()) }
        });
    };
    waits("waiting for MySQLCluster db: it does not exist");
    let database = json!({"apiVersion": "databases.tillerman.dev/v1alpha1", "kind": "MySQLCluster",
        "metadata": {"name": "db", "namespace": space.name}, "spec": {"applications": [{"name": "shop"}]}});
    kubectl(&["apply", "-f", "-"], Some(&database.to_string())).unwrap();
    // The agent has the version of the operator.
    let images = "/spec/template/spec/initContainers/0/image";
    space.wait_field("statefulset/db", images, &json!("tillerman-agent:0.1.0"));
    waits("waiting for MySQLCluster db: it is not ready (Progressing)");
    space.kubectl(&["delete", "phpapp/shop", "mysqlcluster/db"]).unwrap();
    assert!(operator.stop());
    nothing_was_forbidden(&space, |_| false);
}

/// A site makes a custom resource of a kind that the same operator serves.
#[test]
fn a_site_makes_its_database_with_the_rights_that_the_chart_gives() {
    let space = Space::new("installedsite");
    restrict(&space, &["builtIn.etcd=false", "builtIn.php=false", "chartDefinitions=false", "chartRights=false"]);
    define(&["mysqlclusters.databases.tillerman.dev", "wordpresses.apps.tillerman.dev"]);
    let operator = space.operator(&watches(&space, &["mysql", "wordpress-with-mysql"]), &["--leader-elect"]);
    let site = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "WordPress",
        "metadata": {"name": "blog", "namespace": space.name},
        "spec": {"host": "blog.example.com", "admin": {"email": "ada@example.com"}, "database": {"own": true}}});
    kubectl(&["apply", "-f", "-"], Some(&site.to_string())).unwrap();
    for object in
        ["deployment/blog", "cronjob/blog-cron", "secret/blog-admin", "job/blog-install", "statefulset/blog-db"]
    {
        eventually(object, || space.get(object).map(|_| ()));
    }
    space.kubectl(&["delete", "wordpress/blog", "--timeout=60s"]).unwrap();
    space.wait_gone("mysqlcluster/blog-db");
    assert!(operator.stop());
    nothing_was_forbidden(&space, |_| false);
}

/// The bundle has everything that an operator needs: with the rights of its `ClusterServiceVersion`, and its own watches file, it serves a `PhpApp`.
#[test]
fn what_the_lifecycle_manager_makes_of_the_bundle_serves_a_php_app() {
    let space = Space::new("installedbundle");
    let name = &space.name;
    let of_space = |object: &Value| {
        // Objects of the cluster have names that other tests use, too.
        let account = json!({"kind": "ServiceAccount", "name": "tillerman", "namespace": name}).to_string();
        let user = json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}).to_string();
        object.to_string().replace(&account, &user).replace("\"tillerman.v0.1.0-", &format!("\"{name}-"))
    };
    let made = olm::objects(name);
    let is = |kind: &'static str| made.iter().filter(move |object| object["kind"] == kind);
    let objects: Vec<String> =
        made.iter().filter(|object| object["kind"] != "CustomResourceDefinition").map(of_space).collect();
    quiet(&["apply", "--server-side", "--dry-run=server", "-f", "-"], &objects.join("\n---\n"));
    define(&is("CustomResourceDefinition").map(|crd| crd["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>());
    let roles: Vec<String> = ["ClusterRole", "ClusterRoleBinding"]
        .into_iter()
        .flat_map(is)
        .map(of_space)
        .filter(|object| object.contains(&format!("\"name\":\"{name}-")))
        .collect();
    kubectl(&["delete", "clusterrolebinding", name], None).unwrap();
    quiet(&["apply", "-f", "-"], &roles.join("\n---\n"));

    let watches = is("ConfigMap").next().unwrap()["data"]["watches.yaml"].as_str().unwrap();
    let charts = format!("chart: {}/", repository("charts").display());
    let watches = space.file("watches.yaml", &watches.replace("chart: charts/", &charts));
    let selector = format!("--chart-definitions=space={name}");
    let operator = space.operator(&watches, &[&selector, "--leader-elect"]);
    let app = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp",
        "metadata": {"name": "hello", "namespace": name}, "spec": {"source": {"index.php": "<?php"}}});
    kubectl(&["apply", "-f", "-"], Some(&app.to_string())).unwrap();
    space.wait_field("deployment/hello", "/spec/replicas", &json!(1));
    space.kubectl(&["delete", "phpapp", "hello"]).unwrap();
    assert!(operator.stop());
    nothing_was_forbidden(&space, |_| false);
    for kind in ["clusterrolebinding", "clusterrole"] {
        for list in ["permissions", "clusterpermissions"] {
            kubectl(&["delete", kind, &format!("{name}-{list}-0")], None).unwrap();
        }
    }
}
