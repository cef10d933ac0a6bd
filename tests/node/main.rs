//! The operator as a pod on a real node (tests/node/run.sh): a project as `operator-sdk init --plugins helm` lays it out, with only
//! its image changed and with the rights that its own roles give; and clusters of etcd. Tests begin by name: `access` takes longest.

mod access;
mod chaos;
mod etcd;
mod failures;
mod growth;
mod import;
mod install;
mod issued;
mod mysql;
mod notices;
mod php;
mod project;
mod restore;
mod volumes;

#[path = "../support/mod.rs"]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use support::harness::{self, eventually, kubectl};
use support::writer;

/// The namespace of the project's operator.
pub const SYSTEM: &str = "page-operator-system";
/// Its Deployment and its account.
pub const MANAGER: &str = "page-operator-controller-manager";

/// kubectl in a namespace.
pub fn kubectl_in(namespace: &str, args: &[&str]) -> Result<String, String> {
    kubectl(&[&["-n", namespace], args].concat(), None)
}

/// An object of a namespace, or a list.
pub fn get_in(namespace: &str, what: &[&str]) -> Result<Value, String> {
    let text = kubectl_in(namespace, &[&["get", "-o", "json"], what].concat())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// The requests of an account that were refused for want of a right, from this place of the audit log on.
pub fn forbidden(namespace: &str, account: &str, from: usize) -> BTreeSet<String> {
    forbidden_to(namespace, account, from, |_| true)
}

/// The same, of those pods only whose name is one of these.
pub fn forbidden_to(namespace: &str, account: &str, from: usize, is_asked: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let text = std::fs::read_to_string(harness::cluster_dir().join("log/audit.log")).unwrap();
    let text = text.get(from..).unwrap_or(&text);
    let refused = |line: &str| -> Option<String> {
        let entry: Value = serde_json::from_str(line).ok()?;
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let ours = entry.pointer("/user/username")? == user.as_str();
        let pod = entry.pointer("/user/extra/authentication.kubernetes.io~1pod-name/0").and_then(Value::as_str);
        let forbidden = ours
            && is_asked(pod.unwrap_or_default())
            && entry["annotations"]["authorization.k8s.io/decision"] == "forbid";
        let part =
            |name: &str| entry.pointer(&format!("/objectRef/{name}")).and_then(Value::as_str).unwrap_or_default();
        forbidden.then(|| format!("{} {}/{}", entry["verb"], part("resource"), part("subresource")))
    };
    text.lines().filter_map(refused).collect()
}

/// The status and the text of the metrics of a pod, for the bearer of a token.
pub fn metrics(pod: &Value, token: &str) -> (String, String) {
    let address = format!("https://{}:8443/metrics", pod["status"]["podIP"].as_str().unwrap());
    let header = format!("Authorization: Bearer {token}");
    let header = if token.is_empty() { "Accept: */*" } else { &header };
    let curl = Command::new("curl").args(["-sk", "-w", "\n%{http_code}", "-H", header, &address]).output().unwrap();
    let answer = String::from_utf8(curl.stdout).unwrap();
    let (text, code) = answer.rsplit_once('\n').unwrap();
    (code.to_owned(), text.to_owned())
}

/// A namespace for one test.
pub struct Place(String);

impl Place {
    /// A new one.
    pub fn new(test: &str) -> Self {
        let name = format!("{test}-{}", std::process::id());
        kubectl(&["create", "namespace", &name], None).unwrap();
        Self(name)
    }

    /// Applies the Page `app`.
    pub fn apply(&self, annotations: &Value, spec: &Value) {
        let body = json!({"apiVersion": "apps.example.com/v1alpha1", "kind": "Page",
            "metadata": {"name": "app", "namespace": self.0, "annotations": annotations}, "spec": spec});
        kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    }

    /// kubectl in this namespace.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        kubectl_in(&self.0, args)
    }

    /// An object, or a list.
    pub fn get(&self, what: &[&str]) -> Result<Value, String> {
        get_in(&self.0, what)
    }

    /// Waits until a condition of the Page `app`, for its present spec, fits; the condition.
    pub fn wait(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("condition {name}"), || {
            let page = self.get(&["pages.apps.example.com", "app"])?;
            let conditions = page["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|c| c["type"] == name);
            let current = page["status"]["observedGeneration"] == page["metadata"]["generation"];
            found.filter(|c| current && fits(c)).cloned().ok_or_else(|| page["status"].to_string())
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = kubectl(&["delete", "namespace", &self.0, "--wait=false"], None);
        }
    }
}

/// A condition's message contains the words.
pub fn says(words: &str) -> impl Fn(&Value) -> bool + '_ {
    move |condition| condition["message"].as_str().is_some_and(|message| message.contains(words))
}
