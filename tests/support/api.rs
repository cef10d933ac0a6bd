//! The most frequent requests of the tests, with one client for all of them: a process of kubectl for each request would cost
//! several times as much.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, mpsc};

use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value};
use tokio::runtime::Runtime;

use super::harness::cluster_dir;

const MERGE: &str = "application/merge-patch+json";

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
    let kind = if kind == "pvc" { "persistentvolumeclaims" } else { kind };
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

/// Applies an object, as `kubectl apply --server-side --force-conflicts` does. The body is JSON or YAML.
pub fn apply(path: &str, body: &str) -> Result<Value, String> {
    let request = Request::patch(format!("{path}?fieldManager=kubectl&force=true"));
    send(request.header("content-type", "application/apply-patch+yaml"), body)
}

/// Applies an object of a known kind as `kubectl apply` does: fields that were applied before and are missing now are removed, fields of
/// others stay. (An object whose last field goes is null for server-side apply, and refused.)
pub fn apply_object(namespace: &str, body: &Value) -> Result<Value, String> {
    static APPLIED: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());
    let kind = body["kind"].as_str().unwrap_or_default().to_lowercase();
    let path = path(namespace, &kind).ok_or_else(|| format!("{kind} is not in the table of kinds"))?;
    let object = format!("{path}/{}", body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
    let before = APPLIED.lock().expect("nobody panicked").insert(object.clone(), body.clone());
    let change = before.map_or_else(|| body.clone(), |before| difference(&before, body));
    match send(Request::patch(&object).header("content-type", MERGE), &change.to_string()) {
        Err(why) if why.contains("NotFound") => create(&path, body),
        answer => answer,
    }
}

/// The merge patch that makes one value the other.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(fields)) = (old, new) else { return new.clone() };
    let gone = old.keys().filter(|field| !fields.contains_key(*field)).map(|field| (field.clone(), Value::Null));
    let there = fields.iter().map(|(field, value)| {
        let value = old.get(field).map_or_else(|| value.clone(), |old| difference(old, value));
        (field.clone(), value)
    });
    gone.chain(there).collect::<Map<_, _>>().into()
}

/// Changes the status of an object `kind/name`.
pub fn patch_status(namespace: &str, object: &str, change: &Value) -> Result<Value, String> {
    let found = object.split_once('/').and_then(|(kind, name)| Some((path(namespace, kind)?, name)));
    let (path, name) = found.ok_or_else(|| format!("{object} is not of the table of kinds"))?;
    let request = Request::patch(format!("{path}/{name}/status"));
    send(request.header("content-type", MERGE), &change.to_string())
}

/// Creates an object.
pub fn create(path: &str, body: &Value) -> Result<Value, String> {
    send(Request::post(path).header("content-type", "application/json"), &body.to_string())
}

/// Deletes an object `kind/name`, or those of a kind with a label `name=value`, and waits for nothing.
pub fn delete(namespace: &str, object: &str, label: Option<&str>) -> Result<(), String> {
    let (kind, name) = object.split_once('/').map_or((object, None), |(kind, name)| (kind, Some(name)));
    let path = path(namespace, kind).ok_or_else(|| format!("{kind} is not in the table of kinds"))?;
    let name = name.map(|name| format!("/{name}")).unwrap_or_default();
    let label = label.map(|label| format!("&labelSelector={}", label.replace('=', "%3D"))).unwrap_or_default();
    send(Request::delete(format!("{path}{name}?propagationPolicy=Background{label}")), "").map(drop)
}

pub fn get(path: &str) -> Result<Value, String> {
    send(Request::get(path), "")
}

/// One request as admin.
fn send(request: http::request::Builder, body: &str) -> Result<Value, String> {
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
    let (sender, answer) = mpsc::channel();
    let (client, request) = (client.clone(), request.body(body.as_bytes().to_vec()).unwrap());
    runtime.spawn(async move { sender.send(client.request_text(request).await) });
    match answer.recv().expect("it is answered") {
        // Not a generic function: it would be compiled here, without optimisation, as tests are.
        Ok(text) => text.parse().map_err(|error| format!("{error}: {text}")),
        Err(kube::Error::Api(status)) => Err(format!("Error from server ({}): {}", status.reason, status.message)),
        Err(error) => Err(error.to_string()),
    }
}
