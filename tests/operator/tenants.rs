//! What the shipped `watches.yaml` and the definitions of the built-in charts leave to a tenant: never the program or the account of a Job,
//! nothing that Pod Security's restricted refuses, no annotation that reaches further than the application, no certificate for others' names.

use crate::harness::{Space, definition, established, eventually, kubectl, repository};
use serde_json::{Value, json};
use std::process::Command;

/// Defines the kind of a built-in chart, as the program prints it.
fn define(space: &Space, chart: &str, crd: &str) {
    let made = Command::new(env!("CARGO_BIN_EXE_tillerman"))
        .args(["crd", chart])
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&String::from_utf8(made.stdout).unwrap())).unwrap();
    established(&format!("crd/{crd}"));
    eventually("the kind is served", || space.kubectl(&["get", crd]));
}

fn apply(space: &Space, api: &str, kind: &str, spec: &Value, more: &[&str]) -> Result<String, String> {
    let body =
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": "my", "namespace": space.name}, "spec": spec});
    kubectl(&[&["apply", "--server-side", "--validate=strict", "-f", "-"], more].concat(), Some(&body.to_string()))
}

/// A shipped file, with changes, and charts where they are.
fn shipped(space: &Space, path: &str, changes: &[(&str, &str)]) -> std::path::PathBuf {
    let mut text = std::fs::read_to_string(repository(path)).unwrap();
    for (from, to) in
        [("chart: charts/", &*format!("chart: {}/", repository("charts").display()))].iter().chain(changes)
    {
        assert!(text.contains(from), "{path}: {from}");
        text = text.replace(from, to);
    }
    space.file("watches.yaml", &text)
}

const MYSQL: &str = "databases.tillerman.dev/v1alpha1";
const PHP: &str = "apps.tillerman.dev/v1alpha1";

#[test]
fn the_api_server_takes_no_image_and_no_account_of_a_job_and_nothing_that_restricted_refuses() {
    let space = Space::new("tenant-fields");
    define(&space, "charts/mysql", "mysqlclusters.databases.tillerman.dev");
    define(&space, "charts/php", "phpapps.apps.tillerman.dev");
    define(&space, "charts/etcd", "etcdclusters.etcd.database.coreos.com");
    let etcd = "etcd.database.coreos.com/v1beta2";
    for (api, kind, spec, words) in [
        (MYSQL, "MySQLCluster", json!({"backup": {"image": "evil"}}), "backup.image"),
        (MYSQL, "MySQLCluster", json!({"backup": {"serviceAccountName": "evil"}}), "backup.serviceAccountName"),
        (MYSQL, "MySQLCluster", json!({"restore": {"image": "evil"}}), "restore.image"),
        (MYSQL, "MySQLCluster", json!({"pod": {"serviceAccountName": "evil"}}), "pod.serviceAccountName"),
        (MYSQL, "MySQLCluster", json!({"tls": {"allowedNames": ["*.example.com"]}}), "tls.allowedNames"),
        (
            MYSQL,
            "MySQLCluster",
            json!({"backup": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}),
            "seccompProfile.type",
        ),
        (etcd, "EtcdCluster", json!({"backupOnDelete": {"image": "evil"}}), "backupOnDelete.image"),
        (
            etcd,
            "EtcdCluster",
            json!({"backupOnDelete": {"serviceAccountName": "evil"}}),
            "backupOnDelete.serviceAccountName",
        ),
        (etcd, "EtcdCluster", json!({"restore": {"image": "evil"}}), "restore.image"),
        (etcd, "EtcdCluster", json!({"pod": {"securityContext": {"sysctls": []}}}), "securityContext.sysctls"),
        (etcd, "EtcdCluster", json!({"TLS": {"certManager": {"allowedNames": ["x"]}}}), "allowedNames"),
        (PHP, "PhpApp", json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "seccompProfile.type"),
        (
            PHP,
            "PhpApp",
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
            "securityContext.sysctls",
        ),
        (
            PHP,
            "PhpApp",
            json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}),
            "securityContext.windowsOptions",
        ),
        (PHP, "PhpApp", json!({"securityContext": {"runAsUser": 0}}), "securityContext.runAsUser"),
        (PHP, "PhpApp", json!({"allowedAnnotations": ["*"]}), "allowedAnnotations"),
        (PHP, "PhpApp", json!({"serviceAccountName": "evil"}), "serviceAccountName"),
    ] {
        let refused =
            apply(&space, api, kind, &spec, &["--dry-run=server"]).err().unwrap_or_else(|| panic!("{spec} is taken"));
        assert!(refused.contains(words), "{spec}: {refused}");
    }
}

/// A definition of one's own may take every field: what watches.yaml pins wins over them.
#[test]
fn what_the_operator_pins_wins_where_a_definition_takes_everything() {
    let space = Space::new("tenant-pins");
    kubectl(&["apply", "-f", "-"], Some(&definition("open.tillerman.dev", "MySQLCluster"))).unwrap();
    established("crd/mysqlclusters.open.tillerman.dev");
    let changes =
        [("group: databases.tillerman.dev", "group: open.tillerman.dev"), ("version: v1alpha1", "version: v1")];
    let watches = shipped(&space, "examples/mysql/watches.yaml", &changes);
    space.kubectl(&["create", "serviceaccount", "admin"]).unwrap();
    let spec = json!({
        "backup": {"storageType": "Volume", "volume": {"path": "a/b", "claimName": "c"}, "schedule": "@daily", "archiveEverySecond": 30,
            "image": "evil", "serviceAccountName": "admin"},
        "pod": {"serviceAccountName": "admin"},
        "restore": {"storageType": "Volume", "volume": {"path": "a/b", "claimName": "c"}, "image": "evil"},
    });
    apply(&space, "open.tillerman.dev/v1", "MySQLCluster", &spec, &[]).unwrap();
    let _operator = space.operator(&watches, &[]);
    let pod = |object: &str, pointer: &str| {
        let found = eventually("it is there", || space.get(object));
        found.pointer(pointer).unwrap().clone()
    };
    let cron = pod("cronjob/my-backup", "/spec/jobTemplate/spec/template/spec");
    let archive = pod("deployment/my-archive", "/spec/template/spec");
    let members = pod("statefulset/my", "/spec/template/spec");
    for pod in [&cron, &archive, &members] {
        assert!(pod["serviceAccountName"].is_null() && pod["automountServiceAccountToken"] == false, "{pod}");
        assert!(!pod.to_string().contains("\"evil\""), "{pod}");
    }
    assert_eq!(cron["containers"][0]["image"], "tillerman:0.1.0");
}

#[test]
fn an_annotation_of_an_ingress_is_the_operators_to_allow() {
    let space = Space::new("tenant-ingress");
    define(&space, "charts/php", "phpapps.apps.tillerman.dev");
    let spec = |key: &str| json!({"ingress": {"enabled": true, "host": "a.example.com", "annotations": {key: "x"}}});
    apply(&space, PHP, "PhpApp", &spec("nginx.ingress.kubernetes.io/configuration-snippet"), &[]).unwrap();
    let operator = space.operator(&shipped(&space, "examples/php/watches.yaml", &[]), &[]);
    let message = space.wait("phpapp/my", "Stalled", "True")["message"].to_string();
    assert!(
        message.contains("configuration-snippet is not among") && message.contains("allowedAnnotations"),
        "{message}"
    );
    assert!(space.get("ingress/my").is_err());
    apply(&space, PHP, "PhpApp", &spec("cert-manager.io/issuer"), &[]).unwrap();
    let words = "cert-manager.io/issuer is not among";
    eventually("it names the other", || match space.condition("phpapp/my", "Stalled")?.to_string() {
        text if text.contains(words) => Ok(()),
        text => Err(text),
    });
    assert!(operator.stop());
    let pinned = [("allowedAnnotations: '{}'", "allowedAnnotations: '{cert-manager.io/issuer}'")];
    let _operator = space.operator(&shipped(&space, "examples/php/watches.yaml", &pinned), &[]);
    eventually("the Ingress has it", || match space.get("ingress/my")? {
        ingress if ingress["metadata"]["annotations"]["cert-manager.io/issuer"] == "x" => Ok(()),
        ingress => Err(ingress["metadata"].to_string()),
    });
}

#[test]
fn a_tenant_asks_a_cluster_issuer_for_no_name_of_others() {
    let space = Space::new("tenant-names");
    define(&space, "charts/mysql", "mysqlclusters.databases.tillerman.dev");
    let issuer = json!({"name": "company", "kind": "ClusterIssuer"});
    let spec =
        json!({"tls": {"certManager": {"enabled": true, "issuerRef": issuer}, "dnsNames": ["bank.example.com"]}});
    apply(&space, MYSQL, "MySQLCluster", &spec, &[]).unwrap();
    let _operator = space.operator(&shipped(&space, "examples/mysql/watches.yaml", &[]), &[]);
    let message = space.wait("mysqlcluster/my", "Stalled", "True")["message"].to_string();
    assert!(
        message.contains("bank.example.com is not below a domain") && message.contains("tls.allowedNames"),
        "{message}"
    );
    assert!(space.get("statefulset/my").is_err());
}

/// An application whose pods have no profile, as version 0.1.0 of the chart made them, is not restarted by an upgrade; a new one gets it.
#[test]
fn pods_that_were_there_before_they_had_a_profile_stay_as_they_are() {
    let space = Space::new("tenant-profile");
    define(&space, "charts/php", "phpapps.apps.tillerman.dev");
    let context = || {
        let found = eventually("it is there", || space.get("deployment/my"));
        let template = &found["spec"]["template"]["spec"]["securityContext"];
        (template["seccompProfile"]["type"].clone(), found["metadata"]["generation"].clone())
    };
    // The chart without what keeps them: all it does is to give no profile.
    let chart = space.dir().join("php");
    let (from, to) = (repository("charts/php").display().to_string(), chart.display().to_string());
    assert!(Command::new("cp").args(["-r", &from, &to]).status().unwrap().success());
    let template = chart.join("templates/_app.jinja");
    let text = std::fs::read_to_string(&template).unwrap();
    let line = text.lines().find(|line| line.starts_with("{% set open = ")).unwrap();
    std::fs::write(&template, text.replace(line, "{% set open = not chosen %}")).unwrap();
    let watches = shipped(&space, "examples/php/watches.yaml", &[]);
    let before = std::fs::read_to_string(&watches).unwrap().replace(&from, &to);
    let operator = space.operator(&space.file("before.yaml", &before), &[]);
    apply(&space, PHP, "PhpApp", &json!({}), &[]).unwrap();
    space.wait("phpapp/my", "Deployed", "True");
    let (profile, generation) = context();
    assert_eq!(profile, Value::Null);
    assert!(operator.stop());

    let operator = space.operator(&watches, &[]);
    apply(&space, PHP, "PhpApp", &json!({"service": {"port": 81}}), &[]).unwrap();
    space.wait_field("service/my", "/spec/ports/0/port", &json!(81));
    operator.settle();
    assert_eq!(context(), (Value::Null, generation));
    // When it is requested, and for another application.
    apply(&space, PHP, "PhpApp", &json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}), &[])
        .unwrap();
    space.wait_field(
        "deployment/my",
        "/spec/template/spec/securityContext/seccompProfile/type",
        &json!("RuntimeDefault"),
    );
    space.kubectl(&["delete", "phpapp", "my", "--timeout=60s"]).unwrap();
    apply(&space, PHP, "PhpApp", &json!({}), &[]).unwrap();
    space.wait_field(
        "deployment/my",
        "/spec/template/spec/securityContext/seccompProfile/type",
        &json!("RuntimeDefault"),
    );
}
