//! The chart of a definition.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::chart::Chart;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::definition::{ChartPlace, ConfigMapKey, Fetched, SecretName};
use crate::kind::{ChartRef, Proof};
use crate::object::{Gvk, ObjectId};
use crate::reconcile::charts::{self, Credentials};
use crate::source::download::WantedChart;
use crate::source::http::Login;
use crate::source::provenance::Keyring;

/// Loads it, on a thread that may wait for a download.
///
/// # Errors
/// Why there is none, in a sentence.
pub async fn load(cluster: &Cluster, place: ChartPlace) -> Result<Chart, String> {
    let load: Box<dyn FnOnce() -> Result<Chart, String> + Send> = match place {
        ChartPlace::ConfigMap(key, proof) => {
            let data = archive(cluster, &key).await?;
            Box::new(move || charts::read_archive(data, &proof, &shown(&key)))
        }
        ChartPlace::Path(path) => Box::new(move || charts::read(&ChartRef::Path(path), &Proof::default())),
        ChartPlace::Fetched(fetched) => {
            let login = match &fetched.credentials {
                Some(secret) => login(cluster, secret).await?,
                None => Login::default(),
            };
            let keys = match &fetched.keyring {
                Some(key) => Some(Keyring::Data(keys(cluster, key).await?, shown(key))),
                None => None,
            };
            let Fetched { chart, repository, version, proof, .. } = fetched;
            let wanted = WantedChart { chart, version, repo: repository };
            Box::new(move || charts::fetch_chart(&wanted, &proof, &Credentials { login, keys }))
        }
    };
    tokio::task::spawn_blocking(load)
        .await
        .unwrap_or_else(|_| Err("the chart cannot be loaded: internal error".to_owned()))
}

fn shown(key: &ConfigMapKey) -> String {
    format!("{} of ConfigMap {} in namespace {}", key.key, key.name, key.namespace)
}

/// The login in a Secret, of the type `kubernetes.io/basic-auth` or another with its keys.
async fn login(cluster: &Cluster, secret: &SecretName) -> Result<Login, String> {
    let SecretName { namespace, name } = secret;
    let resource = Resource::secrets();
    let id =
        ObjectId { gvk: resource.gvk.clone(), namespace: Some(namespace.as_str().into()), name: name.as_str().into() };
    let found = cluster.get(&resource, &id).await.map_err(|e| e.to_string())?;
    let found = found.ok_or_else(|| format!("there is no Secret {name} in namespace {namespace}"))?;
    let text = |key: &str| {
        let data = found.get("data")?.get(key)?.as_str()?;
        String::from_utf8(STANDARD.decode(data).ok()?).ok()
    };
    match (text("username"), text("password")) {
        (Some(username), Some(password)) => Ok(Login { username, password }),
        _ => Err(format!("Secret {name} in namespace {namespace} must have username and password")),
    }
}

async fn config_map(cluster: &Cluster, key: &ConfigMapKey) -> Result<Value, String> {
    let resource = Resource { gvk: Gvk::new("", "v1", "ConfigMap"), plural: "configmaps".into(), namespaced: true };
    let namespace = Some(key.namespace.as_str().into());
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: key.name.as_str().into() };
    let found = cluster.get(&resource, &id).await.map_err(|e| e.to_string())?;
    found.ok_or_else(|| format!("there is no ConfigMap {} in namespace {}", key.name, key.namespace))
}

fn binary(found: &Value, key: &ConfigMapKey) -> Option<Result<Vec<u8>, String>> {
    let text = found.get("binaryData")?.get(&key.key)?.as_str()?;
    Some(STANDARD.decode(text).map_err(|e| format!("{}: {e}", shown(key))))
}

async fn archive(cluster: &Cluster, key: &ConfigMapKey) -> Result<Vec<u8>, String> {
    let found = config_map(cluster, key).await?;
    binary(&found, key).unwrap_or_else(|| {
        Err(format!("ConfigMap {} in namespace {} has no binaryData {}", key.name, key.namespace, key.key))
    })
}

/// Public keys: armored text, or the bytes of a keyring.
async fn keys(cluster: &Cluster, key: &ConfigMapKey) -> Result<Vec<u8>, String> {
    let found = config_map(cluster, key).await?;
    let text = found.get("data").and_then(|data| data.get(&key.key)).and_then(Value::as_str);
    if let Some(text) = text {
        return Ok(text.as_bytes().to_vec());
    }
    binary(&found, key)
        .unwrap_or_else(|| Err(format!("ConfigMap {} in namespace {} has no key {}", key.name, key.namespace, key.key)))
}
