//! The chart of a definition.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::chart::Chart;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::definition::{ConfigMapKey, Place};
use crate::reconcile::charts;
use crate::release::object::{Gvk, ObjectId};

/// Loads it, on a thread that may wait for a download.
///
/// # Errors
/// Why there is none, in a sentence.
pub async fn load(cluster: &Cluster, place: Place) -> Result<Chart, String> {
    let load: Box<dyn FnOnce() -> Result<Chart, String> + Send> = match place {
        Place::ConfigMap(key, proof) => {
            let data = archive(cluster, &key).await?;
            Box::new(move || charts::read_archive(data, &proof, &shown(&key)))
        }
        Place::Chart(chart, proof) => Box::new(move || charts::read(&chart, &proof)),
    };
    tokio::task::spawn_blocking(load)
        .await
        .unwrap_or_else(|_| Err("the chart cannot be loaded: internal error".to_owned()))
}

fn shown(key: &ConfigMapKey) -> String {
    format!("{} of ConfigMap {} in namespace {}", key.key, key.name, key.namespace)
}

async fn archive(cluster: &Cluster, key: &ConfigMapKey) -> Result<Vec<u8>, String> {
    let resource = Resource { gvk: Gvk::new("", "v1", "ConfigMap"), plural: "configmaps".into(), namespaced: true };
    let namespace = Some(key.namespace.as_str().into());
    let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: key.name.as_str().into() };
    let found = cluster.get(&resource, &id).await.map_err(|e| e.to_string())?;
    let found = found.ok_or_else(|| format!("there is no ConfigMap {} in namespace {}", key.name, key.namespace))?;
    let text = found.pointer("/binaryData").and_then(|data| data.get(&key.key)).and_then(|value| value.as_str());
    let text = text.ok_or_else(|| {
        format!("ConfigMap {} in namespace {} has no binaryData {}", key.name, key.namespace, key.key)
    })?;
    STANDARD.decode(text).map_err(|e| format!("{}: {e}", shown(key)))
}
