//! Every pod of every built-in chart, with each feature, is admitted by Pod Security's restricted, and by a `ResourceQuota` on processors and memory.

use crate::harness::eventually;
use crate::support::api;
use crate::support::charts::{CHARTS, features, objects, pods, with};
use serde_json::{Value, json};

/// A namespace of this name, with these labels.
fn namespace(name: &str, labels: &Value) -> String {
    let name = format!("{name}-{}", std::process::id() % 10000);
    api::create("/api/v1/namespaces", &json!({"metadata": {"name": name, "labels": labels}})).unwrap();
    eventually("there is an account for pods", || {
        api::get(&format!("/api/v1/namespaces/{name}/serviceaccounts/default"))
    });
    name
}

/// Creates a pod, but only as a dry run on the server.
fn dry_run(namespace: &str, pod: &Value) -> Result<Value, String> {
    let mut body = with(pod, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
    // Its account, which a restore brings with it.
    body["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    api::create(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &body)
}

/// What a quota makes everybody set, for the main container of each chart.
fn sized(chart: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    match chart {
        "etcd" | "mysql" => json!({"pod": {"resources": resources}}),
        "php" | "wordpress" => json!({"resources": resources}),
        // Jobs alone have resources by default.
        _ => json!({}),
    }
}

#[test]
fn every_pod_of_every_chart_is_admitted_under_restricted_and_under_a_quota() {
    let enforce = |level: &str| json!({"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": "latest"});
    let (restricted, quota) = (namespace("restricted", &enforce("restricted")), namespace("quota", &json!({})));
    let hard = json!({"limits.cpu": "1k", "limits.memory": "1Ti", "requests.cpu": "1k", "requests.memory": "1Ti"});
    let path = format!("/api/v1/namespaces/{quota}/resourcequotas");
    api::create(&path, &json!({"metadata": {"name": "all"}, "spec": {"hard": hard}})).unwrap();
    eventually("the quota holds", || match api::get(&format!("{path}/all"))? {
        quota if quota["status"]["hard"].is_object() => Ok(()),
        quota => Err(quota["status"].to_string()),
    });
    // Both refuse what they have to: what follows could fail.
    let naked = json!({"spec": {"containers": [{"name": "a", "image": "a"}]}});
    assert!(dry_run(&restricted, &naked).unwrap_err().contains("violates PodSecurity"));
    let refused = eventually("the quota is enforced", || match dry_run(&quota, &naked) {
        Err(why) => Ok(why),
        Ok(_) => Err("it is admitted"),
    });
    assert!(refused.contains("must specify limits.cpu for: a"), "{refused}");

    let (mut admitted, mut wrong) = (0, Vec::new());
    for chart in CHARTS {
        for feature in features(chart) {
            for (namespace, values) in [(&restricted, feature.clone()), (&quota, with(&feature, &sized(chart)))] {
                let made = objects(chart, &values, namespace).unwrap_or_else(|why| panic!("{chart}: {values}: {why}"));
                for (who, pod) in pods(&made) {
                    admitted += 1;
                    if let Err(why) = dry_run(namespace, &pod) {
                        wrong.push(format!("{chart}: {who} with {values}: {why}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {admitted}: {}", wrong.len(), wrong.join("\n"));
    assert!(admitted > 200, "{admitted}");
}
