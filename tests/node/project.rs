//! The project itself: from a custom resource to pods that answer, a change, and the deletion.

use crate::harness::kubectl;
use crate::{MANAGER, Place, SYSTEM, eventually, metrics};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// What a pod's web server says; the node's pods can be reached from here.
fn page(address: &str) -> Result<String, String> {
    let text = |e: std::io::Error| e.to_string();
    let mut stream = std::net::TcpStream::connect((address, 8080)).map_err(text)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    Ok(answer)
}

/// The addresses of the pods of the Page `app` that are ready and stay.
fn pods(place: &Place) -> Result<Vec<String>, String> {
    let list = place.get(&["pods", "-l", "app=app"])?;
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    let stays = pods.iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null());
    Ok(stays.filter_map(|p| p["status"]["podIP"].as_str().map(str::to_owned)).collect())
}

fn says_everywhere(place: &Place, replicas: usize, words: &str) {
    eventually("the pods answer", || {
        let addresses = pods(place)?;
        let pages = addresses.iter().map(|address| page(address)).collect::<Result<Vec<_>, _>>()?;
        let all = pages.len() == replicas && pages.iter().all(|page| page.ends_with(words));
        if all { Ok(()) } else { Err(format!("{pages:?}")) }
    });
}

/// The requests of the project's operator that were refused since it was deployed.
fn forbidden() -> BTreeSet<String> {
    let deployed = std::env::var("TILLERMAN_TEST_AUDIT_FROM").unwrap().parse().unwrap();
    crate::forbidden(SYSTEM, MANAGER, deployed)
}

/// The operator's Deployment has one pod, which is ready and of its newest template; the pod.
fn manager() -> Value {
    let rollout = format!("deployment/{MANAGER}");
    kubectl(&["-n", SYSTEM, "rollout", "status", &rollout, "--timeout=240s"], None).unwrap();
    eventually("one pod of the operator is there", || {
        let list = kubectl(&["-n", SYSTEM, "get", "pods", "-o", "json"], None)?;
        let list: Value = serde_json::from_str(&list).map_err(|e| e.to_string())?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        if let [pod] = pods.as_slice() { Ok(pod.clone()) } else { Err(format!("{} pods", pods.len())) }
    })
}

#[test]
fn a_project_of_operator_sdk_runs_with_only_its_image_changed() {
    let place = Place::new("project");
    manager();
    place.apply(&json!({}), &json!({"greeting": "one"}));
    place.wait("Ready", |c| c["status"] == "True");
    place.wait("Deployed", |c| c["status"] == "True" && c["message"] == "app says one.");
    says_everywhere(&place, 1, "one");
    place.apply(&json!({}), &json!({"greeting": "two", "replicas": 2}));
    place.wait("Deployed", |c| c["message"] == "app says two.");
    place.wait("Ready", |c| c["status"] == "True");
    says_everywhere(&place, 2, "two");
    place.kubectl(&["delete", "deployment", "app-page"]).unwrap();
    eventually("it comes back", || place.get(&["deployment", "app-page"]).map(|_| ()));
    says_everywhere(&place, 2, "two");
    place.kubectl(&["delete", "pages.apps.example.com", "app", "--timeout=120s"]).unwrap();
    eventually("nothing is left", || {
        let left = place.kubectl(&["get", "deployments,services,pods,secrets,configmaps", "-o", "name"])?;
        let left = left.replace("configmap/kube-root-ca.crt", "");
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    // Of everything that it requests, only the log of a failed hook's pod is beyond what operator-sdk's roles give.
    let log = BTreeSet::from(["\"get\" pods/log".to_owned()]);
    let forbidden: BTreeSet<String> = forbidden().difference(&log).cloned().collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}

#[test]
fn the_projects_metrics_are_for_those_who_may_read_them() {
    let pod = manager();
    let fetch = |token: &str| metrics(&pod, token);
    assert_eq!(fetch("nobody").0, "401");
    let place = Place::new("metrics");
    place.kubectl(&["create", "serviceaccount", "prometheus"]).unwrap();
    let token = place.kubectl(&["create", "token", "prometheus"]).unwrap();
    assert_eq!(fetch(token.trim()).0, "403");
    // As the project's own documentation says.
    let (binding, account) = (place.name().to_owned(), format!("--serviceaccount={}:prometheus", place.name()));
    let role = "--clusterrole=page-operator-metrics-reader";
    kubectl(&["create", "clusterrolebinding", &binding, role, &account], None).unwrap();
    let text = eventually("the metrics are shown", || {
        let (code, text) = fetch(token.trim());
        if code == "200" { Ok(text) } else { Err(code) }
    });
    kubectl(&["delete", "clusterrolebinding", &binding], None).unwrap();
    assert!(text.contains("leader_election_master_status{name=\"page-operator\"} 1"), "{text}");
    assert!(text.contains("tillerman_passes_total{"), "{text}");
}

/// Fields of /proc/PID/status of all processes of the operator's pod, which are seen from here.
fn processes() -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ours = all.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"/usr/local/bin/tillerman\0run\0--watches-file=./watches.yaml\0")
    });
    ours.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok()).collect()
}

#[test]
fn it_works_as_a_stranger_without_capabilities_on_a_file_system_that_cannot_be_written() {
    let place = Place::new("stranger");
    manager();
    let container = json!({"name": "manager", "securityContext": {"readOnlyRootFilesystem": true}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let rollout = format!("deployment/{MANAGER}");
    kubectl(&["-n", SYSTEM, "patch", &rollout, "-p", &patch.to_string()], None).unwrap();
    // The namespace admits only pods that ask for nothing.
    let label = "pod-security.kubernetes.io/enforce=restricted";
    kubectl(&["label", "namespace", SYSTEM, label, "--overwrite"], None).unwrap();
    kubectl(&["-n", SYSTEM, "rollout", "restart", &rollout], None).unwrap();
    manager();
    place.apply(&json!({}), &json!({"greeting": "still here"}));
    place.wait("Ready", |c| c["status"] == "True");
    says_everywhere(&place, 1, "still here");
    let processes = processes();
    assert!(!processes.is_empty());
    for status in processes {
        let field = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(field("Uid:"), ["1001"; 4], "{status}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{status}");
        }
        assert_eq!(field("NoNewPrivs:"), ["1"], "{status}");
        assert_eq!(field("Seccomp:"), ["2"], "{status}");
    }
}
