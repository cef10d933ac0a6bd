//! The chart of MariaDB on a real API server: what it renders is taken, and another password changes no pod.

use crate::harness::{Space, established, eventually, kubectl, program, repository};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::process::Command;

/// A namespace in a cluster that serves `MySQLCluster`.
fn space(test: &str) -> Space {
    let space = Space::new(test);
    let made = Command::new(program()).args(["crd", "charts/mysql"]).current_dir(repository("")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&String::from_utf8(made.stdout).unwrap())).unwrap();
    established("crd/mysqlclusters.databases.tillerman.dev");
    eventually("the kind is served", || space.kubectl(&["get", "mysqlclusters"]));
    space
}

fn apply(space: &Space, spec: &Value) -> Result<String, String> {
    let body = json!({"apiVersion": "databases.tillerman.dev/v1alpha1", "kind": "MySQLCluster",
        "metadata": {"name": "my", "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "--server-side", "--validate=strict", "-f", "-"], Some(&body.to_string()))
}

fn text(secret: &Value, key: &str) -> String {
    let bytes = BASE64.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

#[test]
fn a_password_in_a_secret_reaches_the_agents_without_a_change_of_a_pod() {
    let space = space("mysql-accounts");
    space.kubectl(&["create", "secret", "generic", "theirs", "--from-literal=pw=first"]).unwrap();
    let user = json!({"name": "app", "passwordSecret": {"name": "theirs", "key": "pw"}, "databases": ["shop"]});
    let spec = |users: &[&Value]| json!({"databases": [{"name": "shop"}], "users": users, "networkPolicy": {"enabled": true}, "spread": {"zones": "Require"}});
    apply(&space, &spec(&[&user])).unwrap();
    let watches = format!(
        "- group: databases.tillerman.dev\n  version: v1alpha1\n  kind: MySQLCluster\n  chart: {}\n",
        repository("charts/mysql").display()
    );
    let _operator = space.operator(&space.file("watches.yaml", &watches), &["--reconcile-period=1h"]);
    let accounts = |password: &str| {
        eventually("the password is copied", || match space.get("secret/my-accounts")? {
            secret if text(&secret, "password.app") == password => Ok(secret),
            _ => Err("not yet".to_owned()),
        })
    };
    space.wait("mysqlcluster/my", "Deployed", "True");
    let first = accounts("first");
    assert!(text(&first, "accounts.json").contains("\"shop\""));
    let template = || space.get("statefulset/my").unwrap()["spec"]["template"].clone();
    let before = template();
    assert!(space.get("networkpolicy/my").is_ok() && space.get("service/my-replicas").is_ok());

    let changed = json!({"stringData": {"pw": "second"}}).to_string();
    space.kubectl(&["patch", "secret", "theirs", "--type=merge", "-p", &changed]).unwrap();
    accounts("second");
    // Another user, whose password is made.
    apply(&space, &spec(&[&user, &json!({"name": "more", "readOnly": true, "databases": ["shop"]})])).unwrap();
    let made = eventually("a password is made", || space.get("secret/my-user-more"));
    let both = eventually("it is there", || match space.get("secret/my-accounts")? {
        secret if text(&secret, "password.more") == text(&made, "password") => Ok(secret),
        _ => Err("not yet".to_owned()),
    });
    assert_eq!(text(&both, "password.app"), "second");
    assert_eq!(template(), before);
}

#[test]
fn hostile_values_are_refused_by_the_api_server_or_named_in_the_status() {
    let space = space("mysql-hostile");
    for (spec, path) in [
        (json!({"users": [{"name": "a'b"}]}), "spec.users[0].name"),
        (json!({"users": [{"name": "a", "grants": [{"database": "d", "privileges": ["SUPER"]}]}]}), "privileges"),
        (json!({"rootPassword": {"key": "../x"}}), "spec.rootPassword.key"),
        (json!({"image": "a b"}), "spec.image"),
        (json!({"pod": {"hostNetwork": true}}), "hostNetwork"),
    ] {
        let refused = apply(&space, &spec).unwrap_err();
        assert!(refused.contains(path), "{spec}: {refused}");
    }
    apply(&space, &json!({"configuration": {"skip-grant-tables": true}})).unwrap();
    let watches = format!(
        "- group: databases.tillerman.dev\n  version: v1alpha1\n  kind: MySQLCluster\n  chart: {}\n",
        repository("charts/mysql").display()
    );
    let _operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    let condition = space.wait("mysqlcluster/my", "Stalled", "True");
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("configuration.skip-grant-tables cannot be set"), "{condition}");
    assert!(space.get("statefulset/my").is_err());
}
