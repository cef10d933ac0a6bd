//! What a kubelet would say of the pods of hooks. There is no node: the pod of a Job ends at once, well or not by the Job's
//! name, and the Job's controller takes it from there.

use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use crate::harness::{Space, cluster_dir};

/// Ends the pods of a namespace for as long as it lives.
pub struct Kubelet {
    _runtime: tokio::runtime::Runtime,
}

impl Kubelet {
    /// Pods fail whose name contains `-bad`, never end whose name contains `-hang`, and the others succeed.
    pub fn new(space: &Space) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(cluster_dir().join("admin.kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        let pods: Api<Pod> = Api::namespaced(client, &space.name);
        runtime.spawn(async move {
            let seen = watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects();
            // An API server that is away is tried again.
            let ended = seen.try_for_each(|pod| end(pods.clone(), pod));
            panic!("the watch of pods ended: {:?}", ended.await);
        });
        Self { _runtime: runtime }
    }
}

async fn end(pods: Api<Pod>, pod: Pod) -> Result<(), watcher::Error> {
    let Some(name) = pod.metadata.name.filter(|_| pod.metadata.deletion_timestamp.is_none()) else { return Ok(()) };
    let of_job = pod.metadata.labels.is_some_and(|labels| labels.contains_key("job-name"));
    if of_job && !name.contains("-hang") && pod.status.and_then(|s| s.phase).as_deref() == Some("Pending") {
        let phase = if name.contains("-bad") { "Failed" } else { "Succeeded" };
        let patch = Patch::Merge(serde_json::json!({"status": {"phase": phase}}));
        // No other event would come of it.
        while let Err(error) = pods.patch_status(&name, &PatchParams::default(), &patch).await {
            if matches!(&error, kube::Error::Api(status) if status.is_not_found()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}
