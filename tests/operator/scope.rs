//! With whose rights releases are handled, and where they are: service accounts, target namespaces and cluster-scoped custom resources
//! (docs/how-to/scope.md).

use serde_json::{Value, json};

use crate::harness::{Operator, Space, cluster_dir, definition, established, eventually, kubectl, repository};

/// What the operator needs for itself in a namespace, where all changes of objects are done with the rights of an account.
const OPERATOR: &str = r#"
- {apiGroups: [test.tillerman.dev], resources: [webs, webs/status, webs/finalizers], verbs: [get, list, watch, patch, update]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: ["", apps, rbac.authorization.k8s.io], resources: [configmaps, pods, deployments, roles], verbs: [get, list, watch]}
"#;

/// What the account of the tests may touch.
const TENANT: &str = r#"
- {apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, create, patch, delete]}
"#;

fn secret_lookup(space: &Space) -> Value {
    json!(format!("{{{{ (lookup \"v1\" \"Secret\" \"{}\" \"s\").data.word | b64dec }}}}", space.name))
}

/// Gives an account of the namespace these rules.
fn grant(space: &Space, account: &str, name: &str, rules: &str) {
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules:\n{rules}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {name}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}\n\
         subjects: [{{kind: ServiceAccount, name: {account}}}]\n"
    );
    kubectl(&["-n", &space.name, "apply", "-f", "-"], Some(&role)).unwrap();
}

/// A namespace with two accounts: `operator`, which may impersonate `tenant`, and `tenant`.
fn with_accounts(test: &str) -> Space {
    let mut space = Space::new(test);
    for account in ["operator", "tenant"] {
        space.kubectl(&["create", "serviceaccount", account]).unwrap();
    }
    let impersonate = "- {apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [tenant, default, admin], verbs: [impersonate]}\n";
    grant(&space, "operator", "operator", &format!("{OPERATOR}{impersonate}"));
    grant(&space, "tenant", "tenant", TENANT);
    space.kubectl(&["create", "secret", "generic", "s", "--from-literal=word=hidden"]).unwrap();
    // The audit log is read for what the account does.
    space.user = format!("system:serviceaccount:{}:tenant", space.name);
    space
}

/// An operator that has a token of its own account, and impersonates by itself.
fn operator(space: &Space, fields: &str) -> Operator {
    let token = space.kubectl(&["create", "token", "operator", "--duration=2h"]).unwrap();
    let admin = std::fs::read_to_string(cluster_dir().join("admin.kubeconfig")).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    config["contexts"][0]["context"]["namespace"] = json!(space.name);
    let kubeconfig = space.file("operator.kubeconfig", &config.to_string());
    let watches = space.watches_with(&[("Web", "tenant")], fields);
    space.operator_with(&watches, &kubeconfig, &["--reconcile-period=1s"])
}

fn role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
}

/// Waits until a condition of a custom resource says all of this.
fn wait_message(space: &Space, object: &str, condition: &str, texts: &[&str]) -> String {
    eventually(&format!("{object}: {condition} says {texts:?}"), || {
        let found = space.condition(object, condition)?;
        let message = found["message"].as_str().unwrap_or_default();
        if texts.iter().all(|text| message.contains(text)) { Ok(message.to_owned()) } else { Err(found.to_string()) }
    })
}

#[test]
fn a_release_can_do_no_more_than_its_service_account() {
    let space = with_accounts("account");
    let operator = operator(&space, "  serviceAccount: tenant\n");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let mut hook = map("hook");
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-install"});
    space.apply("Web", "app", &json!({"objects": [deployment, hook], "text": "plain"}));
    space.wait("web/app", "Deployed", "True");
    operator.rests(&space, 5);
    // What was done with the rights of the account: its objects and hooks, and nothing of the operator's own.
    let done = space.requests();
    for expected in ["patch configmaps", "patch deployments", "create configmaps"] {
        assert!(done.iter().any(|request| request == expected), "{expected}: {done:?}");
    }
    let own = |request: &String| ["secrets", "webs", "events"].iter().any(|own| request.ends_with(own));
    assert!(!done.iter().any(own), "{done:?}");

    // A lookup is refused as the API server refuses it, and comes when the right comes.
    space.apply("Web", "app", &json!({"text": secret_lookup(&space)}));
    let user = format!("User \"system:serviceaccount:{}:tenant\" cannot get resource \"secrets\"", space.name);
    let rule = format!(
        "Service account tenant of namespace {0} needs a rule; add to a Role in namespace {0} that is bound to it: {{apiGroups: [\"\"], \
         resources: [secrets], verbs: [get]}}",
        space.name
    );
    wait_message(&space, "web/app", "Irreconcilable", &[&user, &rule]);
    grant(
        &space,
        "tenant",
        "secrets",
        "- {apiGroups: [\"\"], resources: [secrets], resourceNames: [s], verbs: [get]}\n",
    );
    space.wait_field("configmap/app", "/data/text", &json!("hidden"));

    // Nor can a chart give what its account does not have.
    space.apply("Web", "app", &json!({"text": "plain", "objects": [role("r")]}));
    wait_message(
        &space,
        "web/app",
        "Ready",
        &["Service account tenant of namespace", "needs a rule", "resources: [roles], verbs: [patch]"],
    );
    grant(
        &space,
        "tenant",
        "roles",
        "- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [get, create, patch, delete]}\n",
    );
    let escalates = [
        "attempting to grant RBAC permissions not currently held",
        "tenant of namespace",
        "cannot grant rights that it does not have; add to a role that is bound to it the rules of the chart's role: \
         {apiGroups: [\"\"], resources: [pods], verbs: [get]}",
    ];
    wait_message(&space, "web/app", "Ready", &escalates);
    assert!(space.get("role/r").is_err());
    grant(&space, "tenant", "pods", "- {apiGroups: [\"\"], resources: [pods], verbs: [get]}\n");
    space.wait("web/app", "Ready", "True");
    assert!(space.get("role/r").is_ok());

    // It is deleted with the same rights: where they are gone, the objects stay until they are back.
    space.kubectl(&["delete", "rolebinding", "tenant"]).unwrap();
    space.delete("web/app");
    wait_message(
        &space,
        "web/app",
        "Ready",
        &["Service account tenant of namespace", "needs a rule", "resources: [configmaps], verbs: [delete]"],
    );
    assert!(space.get("configmap/app").is_ok());
    grant(&space, "tenant", "tenant", TENANT);
    space.wait_gone("web/app");
    space.wait_gone("configmap/app");
    assert!(space.get("role/r").is_err());
    assert!(operator.stop());
}

/// The definition of a cluster-scoped kind `Fleet` of this test alone.
fn define_fleets(space: &Space) -> String {
    let group = format!("{}.tillerman.dev", space.name);
    let definition = definition(&group, "Fleet").replace("scope: Namespaced", "scope: Cluster");
    kubectl(&["apply", "-f", "-"], Some(&definition)).unwrap();
    established(&format!("crd/fleets.{group}"));
    group
}

fn fleet(group: &str, name: &str, annotations: &Value, spec: &Value) {
    let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Fleet",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
}

/// Waits for a condition of a Fleet; the object.
fn wait_fleet(group: &str, name: &str, condition: &str, expected: &str) -> Value {
    eventually(&format!("fleet {name}: {condition}: {expected}"), || {
        let text = kubectl(&["get", &format!("fleets.{group}"), name, "-o", "json"], None)?;
        let object: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_it = |c: &Value| c["type"] == condition && (c["status"] == expected || c["reason"] == expected);
        if conditions.iter().any(is_it) { Ok(object) } else { Err(object["status"].to_string()) }
    })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

#[test]
fn a_cluster_scoped_custom_resource_has_its_release_in_the_target_namespace() {
    let space = Space::new("fleet");
    let group = define_fleets(&space);
    let (target, role) = (space.name.clone(), format!("fleet-{}", space.name));
    let watches = |fields: &str| {
        let chart = repository("tests/charts/tenant").display().to_string();
        space.file(
            "watches.yaml",
            &format!("- group: {group}\n  version: v1\n  kind: Fleet\n  chart: {chart}\n{fields}"),
        )
    };
    let operator = space.operator(&watches(""), &[]);
    let wide = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": []});
    let spec = json!({"text": "one", "objects": [map("more"), wide]});
    fleet(&group, "a", &json!({}), &spec);
    wait_fleet(&group, "a", "Ready", "TargetNamespaceMissing");
    assert!(operator.stop());

    let watches = watches(&format!("  targetNamespace: {target}\n"));
    let operator = space.operator(&watches, &["--reconcile-period=1s"]);
    let uid = wait_fleet(&group, "a", "Ready", "True")["metadata"]["uid"].clone();
    let found = space.get("configmap/a").unwrap();
    let owner = &found["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"], &owner["uid"]), (&json!("Fleet"), &json!("a"), &uid));
    let wide = kubectl(&["get", "clusterrole", &role, "-o", "jsonpath={.metadata.ownerReferences[0].uid}"], None);
    assert_eq!(json!(wide.unwrap()), uid);
    assert!(space.helm(&["list"]).unwrap().contains("deployed"));
    let installed = eventually("the event of the installation", || {
        let about = format!("involvedObject.uid={}", uid.as_str().unwrap());
        let found = kubectl(&["-n", "default", "get", "events", "--field-selector", &about, "-o", "name"], None)?;
        if found.is_empty() { Err(found) } else { Ok(found) }
    });
    assert!(!installed.is_empty());
    operator.rests(&space, 5);
    space.delete("configmap/more");
    space.wait_field("configmap/more", "/data/a", &json!("b"));

    // One that is started again finds all of it, and writes nothing.
    operator.settle();
    assert!(operator.stop());
    space.delete("configmap/more");
    let operator = space.operator(&watches, &[]);
    space.wait_field("configmap/more", "/data/a", &json!("b"));
    fleet(&group, "a", &json!({}), &json!({"text": "two", "objects": [map("more")]}));
    space.wait_field("configmap/a", "/data/text", &json!("two"));
    eventually("what the chart does not have any more is gone", || {
        let found = kubectl(&["get", "clusterrole", &role, "--ignore-not-found", "-o", "name"], None)?;
        if found.is_empty() { Ok(()) } else { Err(found) }
    });
    operator.rests(&space, 3);
    kubectl(&["delete", &format!("fleets.{group}"), "a", "--timeout=60s"], None).unwrap();
    space.wait_gone("configmap/a");
    space.wait_gone("configmap/more");
    assert!(space.helm(&["status", "a"]).is_err());
    assert!(operator.stop());
}

#[test]
fn a_target_namespace_holds_the_release_and_nothing_else_moves_it() {
    let mut space = Space::new("target");
    let (other, far) = (Space::new("target-other"), Space::new("target-far"));
    space.env.push(("WATCH_NAMESPACE", format!("{},{}", space.name, other.name).into()));
    let fields =
        format!("  allow: [targetNamespace]\n  namespaces: [{}, {}]\n  clusterScoped: false\n", other.name, far.name);
    let watches = space.watches_with(&[("Web", "tenant")], &fields);
    let operator = space.operator(&watches, &["--reconcile-period=1s"]);
    let to = |namespace: &str| json!({"tillerman.dev/target-namespace": namespace});
    let spec = json!({"text": "{{ .Release.Namespace }}", "objects": [map("more")]});
    space.apply_with("Web", "app", &to(&other.name), &spec);
    space.wait("web/app", "Ready", "True");
    let found = other.get("configmap/app").unwrap();
    assert_eq!(found["data"]["text"], other.name.as_str());
    assert_eq!(found["metadata"].get("ownerReferences"), None);
    let primary = format!("{}/app", space.name);
    assert_eq!(found["metadata"]["annotations"]["operator-sdk/primary-resource"], primary.as_str());
    assert!(other.helm(&["status", "app"]).is_ok() && space.helm(&["status", "app"]).is_err());
    assert_eq!(space.get("web/app").unwrap()["status"]["release"]["namespace"], other.name.as_str());
    operator.rests(&space, 5);
    // What somebody changes there is repaired.
    other.delete("configmap/more");
    other.wait_field("configmap/more", "/data/a", &json!("b"));

    // It moves nowhere, neither where the kind or the operator does not allow it, nor back.
    for (namespace, reason) in [
        ("kube-system", "NamespaceNotAllowed"),
        (far.name.as_str(), "ReleaseMoved"),
        ("no name", "InvalidAnnotation"),
        ("", "InvalidAnnotation"),
    ] {
        space.apply_with("Web", "app", &to(namespace), &json!({"text": namespace}));
        eventually(&format!("{namespace} is refused"), || {
            let ready = space.condition("web/app", "Ready")?;
            if ready["reason"] == reason { Ok(()) } else { Err(ready.to_string()) }
        });
    }
    space.apply_with("Web", "app", &json!({}), &spec);
    wait_message(&space, "web/app", "Ready", &["the release is in namespace", "and cannot move to"]);
    space.apply_with("Web", "new", &to(&far.name), &spec);
    wait_message(&space, "web/new", "Ready", &["which the operator does not watch"]);
    space.delete("web/new");
    space.wait_gone("web/new");
    space.apply_with("Web", "app", &to(&other.name), &spec);
    space.wait("web/app", "Ready", "True");
    assert!(other.helm(&["history", "app"]).unwrap().lines().count() == 2, "one revision");

    // After a restart the objects are found without an owner reference; deleted, all of it goes.
    operator.settle();
    assert!(operator.stop());
    let operator = space.operator(&watches, &[]);
    operator.settle();
    other.delete("configmap/more");
    other.wait_field("configmap/more", "/data/a", &json!("b"));
    space.delete("web/app");
    space.wait_gone("web/app");
    for gone in ["configmap/app", "configmap/more"] {
        other.wait_gone(gone);
    }
    assert!(other.helm(&["status", "app"]).is_err());
    assert!(operator.stop());
}

#[test]
fn an_annotation_about_an_account_never_leads_to_more_rights() {
    let space = with_accounts("account-hostile");
    space.kubectl(&["create", "serviceaccount", "admin"]).unwrap();
    let all = "- {apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}\n";
    grant(&space, "admin", "admin", all);
    grant(&space, "operator", "everything", all);
    // Where it is not allowed it counts as absent.
    let operator = operator(&space, "  serviceAccount: tenant\n");
    let as_account = |name: &str| json!({"tillerman.dev/service-account": name});
    space.apply_with("Web", "app", &as_account("admin"), &json!({"text": secret_lookup(&space)}));
    let ignored = space.wait("web/app", "AnnotationsIgnored", "True");
    assert!(
        ignored["message"]
            .as_str()
            .unwrap()
            .ends_with("set allow: [serviceAccount] for the kind in the operator's watches.yaml")
    );
    wait_message(&space, "web/app", "Irreconcilable", &["tenant\" cannot get resource \"secrets\""]);
    space.apply("Web", "app", &json!({"text": "plain", "objects": [map("more")]}));
    space.wait("web/app", "Deployed", "True");
    assert!(operator.stop());

    // Where it is, a text that cannot be read does not give the rights of the operator, which are all here: not even a deletion has them.
    let operator = self::operator(&space, "  serviceAccount: tenant\n  allow: [serviceAccount]\n");
    for bad in ["", "other/admin", "system:masters", "a\nImpersonate-Group: system:masters"] {
        space.apply_with("Web", "app", &as_account(bad), &json!({"text": secret_lookup(&space)}));
        eventually(&format!("{bad:?} is refused"), || {
            let ready = space.condition("web/app", "Ready")?;
            let is_new = ready["observedGeneration"] == space.get("web/app")?["metadata"]["generation"];
            if is_new && ready["reason"] == "InvalidAnnotation" { Ok(()) } else { Err(ready.to_string()) }
        });
    }
    space.delete("web/app");
    wait_message(&space, "web/app", "Ready", &["is not a name of a service account in the same namespace"]);
    assert!(space.get("configmap/more").is_ok());
    // An account without rights deletes nothing either.
    space.kubectl(&["annotate", "--overwrite", "web/app", "tillerman.dev/service-account=default"]).unwrap();
    wait_message(&space, "web/app", "Ready", &["Service account default of namespace", "verbs: [delete]"]);
    space.kubectl(&["annotate", "--overwrite", "web/app", "tillerman.dev/service-account=tenant"]).unwrap();
    space.wait_gone("web/app");
    space.wait_gone("configmap/more");
    assert!(operator.stop());
}

#[test]
fn a_namespace_that_goes_takes_its_custom_resources_though_their_account_is_gone() {
    let space = Space::new("account-gone");
    space.kubectl(&["create", "serviceaccount", "tenant"]).unwrap();
    grant(&space, "tenant", "tenant", TENANT);
    let operator = space.operator(&space.watches_with(&[("Web", "tenant")], "  serviceAccount: tenant\n"), &[]);
    let mut hook = map("hook");
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-delete"});
    space.apply("Web", "app", &json!({"text": "plain", "objects": [map("more"), hook]}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    space.kubectl(&["delete", "rolebinding", "tenant"]).unwrap();
    kubectl(&["delete", "namespace", &space.name, "--timeout=120s"], None).unwrap();
    assert!(operator.stop());
}
