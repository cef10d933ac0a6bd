//! What the API server says of objects, read as `kubectl get -o json` reads it. A process of kubectl for each look would cost several
//! times what is looked at, and looks are most of what the tests do.

use std::sync::{OnceLock, mpsc};

use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::cluster_dir;

/// The kinds that tests look at, by the names that kubectl has for them.
const KINDS: &[(&str, &[&str])] = &[
    ("api/v1", &["configmaps", "secrets", "services", "pods", "persistentvolumeclaims", "events"]),
    ("apis/apps/v1", &["deployments", "statefulsets"]),
    ("apis/batch/v1", &["jobs", "cronjobs"]),
    ("apis/coordination.k8s.io/v1", &["leases"]),
    ("apis/discovery.k8s.io/v1", &["endpointslices"]),
    ("apis/test.tillerman.dev/v1", &["webs", "failings", "others"]),
    ("apis/etcd.database.coreos.com/v1beta2", &["etcdclusters", "etcdbackups", "etcdrestores"]),
];

/// The path of the objects of a kind, named in the singular or the plural; none of a kind that is not looked at often.
fn path(namespace: &str, kind: &str) -> Option<String> {
    KINDS.iter().find_map(|(version, plurals)| {
        let plural = plurals.iter().find(|plural| **plural == kind || plural.strip_suffix('s') == Some(kind))?;
        Some(format!("/{version}/namespaces/{namespace}/{plural}"))
    })
}

/// The object `kind/name`; none when its kind is not one of those known here.
pub fn object(namespace: &str, object: &str) -> Option<Result<Value, String>> {
    let (kind, name) = object.split_once('/')?;
    Some(get(&format!("{}/{name}", path(namespace, kind)?)))
}

/// The objects of a kind, each with its kind.
pub fn objects(namespace: &str, kind: &str) -> Result<Vec<Value>, String> {
    let mut list = get(&path(namespace, kind).ok_or_else(|| format!("{kind} is not in the table of kinds"))?)?;
    let (version, kind) = (list["apiVersion"].clone(), list["kind"].as_str().unwrap_or_default().replace("List", ""));
    let mut items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for item in &mut items {
        // The items of a list do not repeat what the list says.
        item["apiVersion"] = version.clone();
        item["kind"] = kind.clone().into();
    }
    Ok(items)
}

/// One request as admin.
fn get(path: &str) -> Result<Value, String> {
    static CLIENT: OnceLock<(Runtime, Client)> = OnceLock::new();
    let (runtime, client) = CLIENT.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(cluster_dir().join("admin.kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        (runtime, client)
    });
    let (send, answer) = mpsc::channel();
    let (client, request) = (client.clone(), Request::get(path).body(Vec::new()).unwrap());
    runtime.spawn(async move { send.send(client.request::<Value>(request).await) });
    match answer.recv().expect("it is answered") {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => Err(format!("Error from server ({}): {}", status.reason, status.message)),
        Err(error) => Err(error.to_string()),
    }
}
