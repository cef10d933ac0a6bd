//! Watches of the `ConfigMap`s that definitions of charts read: metadata only, one for each namespace that holds some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::core::PartialObjectMeta;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::seen::Seen;
use crate::cluster::watch::{Sink, watch};
use crate::reconcile::context::Context;

/// The watches that run, by namespace.
#[derive(Default)]
pub struct ConfigMapWatches(BTreeMap<String, CancellationToken>);

impl ConfigMapWatches {
    /// Starts the watches that the definitions need, and ends those that none needs.
    pub fn ensure(&mut self, seen: &Seen, changed: &UnboundedSender<String>, ctx: &Arc<Context>) {
        let definitions = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let needed: BTreeSet<String> =
            definitions.values().flat_map(references).map(|(namespace, _)| namespace.to_owned()).collect();
        drop(definitions);
        self.0.retain(|namespace, end| {
            let stays = needed.contains(namespace);
            if !stays {
                end.cancel();
            }
            stays
        });
        for namespace in needed {
            if self.0.contains_key(&namespace) {
                continue;
            }
            let end = ctx.tasks.stop().child_token();
            self.0.insert(namespace.clone(), end.clone());
            let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(ctx.cluster.client(), &namespace);
            let mut sink = ConfigMapSink {
                namespace: namespace.clone(),
                seen: Arc::clone(seen),
                changed: changed.clone(),
                versions: BTreeMap::new(),
            };
            let manner = ctx.manner();
            ctx.tasks.spawn(format!("watch of charts in namespace {namespace}"), async move {
                watch(api, None, manner, &mut sink, &end).await;
            });
        }
    }
}

/// The `ConfigMap`s that a definition reads: their namespaces and names.
fn references(definition: &Value) -> impl Iterator<Item = (&str, &str)> {
    ["/spec/chart/configMap", "/spec/chart/keyring"].into_iter().filter_map(|pointer| {
        let found = definition.pointer(pointer)?;
        Some((found.get("namespace")?.as_str()?, found.get("name")?.as_str()?))
    })
}

struct ConfigMapSink {
    namespace: String,
    seen: Seen,
    changed: UnboundedSender<String>,
    /// The versions of those that definitions read.
    versions: BTreeMap<String, Option<String>>,
}

impl ConfigMapSink {
    fn news(&mut self, name: &str, version: Option<String>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_read = |definition: &Value| references(definition).any(|found| found == (&*self.namespace, name));
        let readers: Vec<&String> =
            seen.iter().filter(|(_, definition)| is_read(definition)).map(|(name, _)| name).collect();
        if readers.is_empty() || self.versions.get(name) == Some(&version) {
            return;
        }
        // The first version is news too: the definition may have read one before.
        self.versions.insert(name.to_owned(), version);
        for reader in readers {
            // The receiver ends with the operator.
            let _ = self.changed.send(reader.clone());
        }
    }
}

impl Sink<PartialObjectMeta<ConfigMap>> for ConfigMapSink {
    fn begin(&mut self) {}

    fn put(&mut self, object: PartialObjectMeta<ConfigMap>, _: bool) {
        let Some(name) = object.metadata.name else { return };
        self.news(&name, object.metadata.resource_version);
    }

    fn remove(&mut self, object: PartialObjectMeta<ConfigMap>) {
        // A chart that is gone takes nothing away; the condition says that it is.
        if let Some(name) = object.metadata.name {
            self.news(&name, None);
        }
    }

    fn complete(&mut self) {}

    fn blind(&mut self, why: String) {
        tracing::warn!(namespace = self.namespace, %why, "charts in ConfigMaps cannot be watched");
    }
}
