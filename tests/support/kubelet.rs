//! Writes the status of pods as a kubelet would. There is no node: the pod of a Job ends at once, well or not by the Job's name or as a
//! test says, the pod of a stateful set gets ready, and the controllers do the rest.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::harness::{Space, cluster_dir};

/// Ends the pods of a namespace for as long as it lives.
pub struct Kubelet {
    _runtime: tokio::runtime::Runtime,
}

impl Kubelet {
    /// Pods of Jobs fail whose name contains `-bad`, never end whose name contains `-hang`, and the others succeed.
    pub fn new(space: &Space) -> Self {
        Self::with(space, |pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let of_job = pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
            match name {
                _ if !of_job || name.contains("-hang") => None,
                _ if name.contains("-bad") => Some(json!({"phase": "Failed"})),
                _ => Some(json!({"phase": "Succeeded"})),
            }
        })
    }

    /// Pods of stateful sets get ready, and those of Jobs end with the exit code and the message that `code` says.
    pub fn of_members(space: &Space, code: impl Fn(&Pod) -> (i32, String) + Send + Sync + 'static) -> Self {
        Self::with(space, move |pod| {
            let of_job = pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
            let container = pod.spec.as_ref().map(|spec| spec.containers[0].name.clone()).unwrap_or_default();
            let (phase, conditions, state) = if of_job {
                let (code, message) = code(pod);
                let phase = if code == 0 { "Succeeded" } else { "Failed" };
                (phase, json!([]), json!({"terminated": {"exitCode": code, "message": message}}))
            } else {
                ("Running", json!([{"type": "Ready", "status": "True"}]), json!({"running": {}}))
            };
            let status = json!({"name": container, "image": "", "imageID": "", "ready": !of_job, "restartCount": 0, "state": state});
            Some(json!({"phase": phase, "conditions": conditions, "containerStatuses": [status]}))
        })
    }

    /// Pods whose name has this beginning get ready, and the others stay pending.
    pub fn of_pods(space: &Space, beginning: &'static str) -> Self {
        Self::with(space, move |pod| {
            let is_ready = pod.metadata.name.as_ref().is_some_and(|name| name.starts_with(beginning));
            is_ready.then(|| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}))
        })
    }

    /// The status of pending pods; none: they stay so.
    pub fn with(space: &Space, status: impl Fn(&Pod) -> Option<Value> + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(cluster_dir().join("admin.kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        let pods: Api<Pod> = Api::namespaced(client, &space.name);
        runtime.spawn(async move {
            let seen = watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects();
            let (pods, status) = (&pods, &status);
            let ended = seen.for_each(async |pod| match pod {
                Ok(pod) => end(pods, pod, status).await,
                // A watch that breaks off is begun again.
                Err(error) => eprintln!("the watch of pods: {error}"),
            });
            ended.await;
            panic!("the watch of pods ended");
        });
        Self { _runtime: runtime }
    }
}

async fn end(pods: &Api<Pod>, pod: Pod, status: impl Fn(&Pod) -> Option<Value>) {
    let Some(name) = pod.metadata.name.clone().filter(|_| pod.metadata.deletion_timestamp.is_none()) else {
        return;
    };
    let pending = pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending");
    if let Some(status) = pending.then(|| status(&pod)).flatten() {
        let patch = Patch::Merge(json!({"status": status}));
        // No other event would come of it.
        while let Err(error) = pods.patch_status(&name, &PatchParams::default(), &patch).await {
            if matches!(&error, kube::Error::Api(status) if status.is_not_found()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
