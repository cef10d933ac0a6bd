//! A namespace with custom resources, and what is done to them from outside.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::{Api, Error, Watch, is_missing};

/// Custom resources are made and deleted over so many connections.
const CONNECTIONS: usize = 2;

/// The group and version of the custom resources.
pub const GROUP_VERSION: &str = "bench.tillerman.dev/v1alpha1";

/// The collections with objects of releases, and a label of these objects: they are empty after a deletion.
const OBJECTS: [(&str, &str); 5] = [
    ("apis/apps/v1", "deployments?labelSelector=app.kubernetes.io/managed-by=Helm"),
    ("api/v1", "services?labelSelector=app.kubernetes.io/managed-by=Helm"),
    ("api/v1", "serviceaccounts?labelSelector=app.kubernetes.io/managed-by=Helm"),
    ("api/v1", "configmaps?labelSelector=app.kubernetes.io/managed-by=Helm"),
    ("api/v1", "secrets?labelSelector=owner=helm"),
];

/// A namespace, and the names of its custom resources.
pub struct Scene {
    pub api: Api,
    pub namespace: String,
    pub names: Vec<String>,
}

impl Scene {
    /// A new namespace; nothing is in it.
    pub async fn new(api: &Api, namespace: &str, n: usize) -> Result<Self, Error> {
        api.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await?;
        let names = (0..n).map(|i| format!("app-{i:05}")).collect();
        Ok(Self { api: api.clone(), namespace: namespace.to_owned(), names })
    }

    /// The path of the custom resources.
    pub fn crs(&self) -> String {
        format!("/apis/{GROUP_VERSION}/namespaces/{}/webs", self.namespace)
    }

    /// The path of a collection of the namespace.
    pub fn collection(&self, api: &str, plural: &str) -> String {
        format!("/{api}/namespaces/{}/{plural}", self.namespace)
    }

    /// The path of the Deployments.
    pub fn deployments(&self) -> String {
        self.collection("apis/apps/v1", "deployments")
    }

    /// Makes all custom resources; what the API server answered.
    pub async fn create_all(&self) -> Result<Vec<Value>, Error> {
        self.each(|scene, name| async move {
            let spec = json!({"replicaCount": 1, "config": {"greeting": "hi"}});
            let body = json!({"apiVersion": GROUP_VERSION, "kind": "Web", "metadata": {"name": name}, "spec": spec});
            scene.api.create(&scene.crs(), &body).await
        })
        .await
    }

    /// Deletes all custom resources.
    pub async fn delete_all(&self) -> Result<(), Error> {
        self.each(|scene, name| async move { scene.api.delete(&format!("{}/{name}", scene.crs())).await }).await?;
        Ok(())
    }

    /// Waits until no object of a release is left; whether that came.
    pub async fn wait_empty(&self, deadline: Instant) -> Result<bool, Error> {
        for (api, plural) in OBJECTS {
            let path = self.collection(api, &format!("{plural}&limit=1"));
            while self.api.get(&path).await?["items"].as_array().is_some_and(|items| !items.is_empty()) {
                if Instant::now() > deadline {
                    return Ok(false);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(true)
    }

    /// Removes everything, finalizers first: the operator no longer runs.
    pub async fn clear(self) -> Result<(), Error> {
        let list = self.api.get(&self.crs()).await?;
        for cr in list["items"].as_array().into_iter().flatten() {
            let path = format!("{}/{}", self.crs(), cr["metadata"]["name"].as_str().unwrap_or_default());
            let gone = self.api.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
            gone.map(drop).or_else(|e| if is_missing(&e) { Ok(()) } else { Err(e) })?;
        }
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.api.delete(&path).await?;
        while self
            .api
            .get(&path)
            .await
            .map_or_else(|e| if is_missing(&e) { Ok(false) } else { Err(e) }, |_| Ok(true))?
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Does something for each name, [`CONNECTIONS`] at a time.
    async fn each<F, Fut>(&self, what: F) -> Result<Vec<Value>, Error>
    where
        F: Fn(Self, String) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Value, Error>> + Send,
    {
        let mut tasks = JoinSet::new();
        for part in 0..CONNECTIONS {
            let names: Vec<String> = self.names.iter().skip(part).step_by(CONNECTIONS).cloned().collect();
            let (scene, what) = (self.without_names(), what.clone());
            tasks.spawn(async move {
                let mut answers = Vec::with_capacity(names.len());
                for name in names {
                    answers.push(what(scene.without_names(), name).await?);
                }
                Ok::<_, Error>(answers)
            });
        }
        let answers = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(answers.into_iter().flatten().collect())
    }

    fn without_names(&self) -> Self {
        Self { api: self.api.clone(), namespace: self.namespace.clone(), names: Vec::new() }
    }
}

/// A change from outside, and what the watch of Deployments must show after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Somebody scales the Deployment; the operator scales it back.
    Drift,
    /// The custom resource gets another `replicaCount`; the operator scales the Deployment.
    Spec,
}

/// A change that was sent.
pub struct Sent {
    deployment: String,
    /// States of the Deployment before it.
    before: usize,
    /// The replicas that must be seen first, and those that must be seen in the end.
    over: Option<u64>,
    wanted: u64,
    at: Instant,
    /// How long the API server took to answer the change itself: a figure for one write at this rate.
    pub answered: Duration,
}

impl Sent {
    /// Sends a change to a custom resource whose Deployment has so many replicas by rights; and how many it has by rights now.
    pub async fn send(
        scene: &Scene,
        deployments: &Watch,
        change: Change,
        name: &str,
        replicas: u64,
    ) -> Result<(Self, u64), Error> {
        let deployment = format!("{name}-web");
        let before = deployments.look(|log| log.of.get(&deployment).map_or(0, Vec::len));
        let at = Instant::now();
        let (over, wanted) = match change {
            Change::Drift => {
                let over = replicas + 7;
                let path = format!("{}/{deployment}", scene.deployments());
                scene.api.merge(&path, &json!({"spec": {"replicas": over}})).await?;
                (Some(over), replicas)
            }
            Change::Spec => {
                let wanted = replicas % 5 + 1;
                scene.api.merge(&format!("{}/{name}", scene.crs()), &json!({"spec": {"replicaCount": wanted}})).await?;
                (None, wanted)
            }
        };
        Ok((Self { deployment, before, over, wanted, at, answered: at.elapsed() }, wanted))
    }

    /// When the watch showed what had to come.
    pub async fn seen(&self, deployments: &Watch, deadline: Instant) -> Option<Instant> {
        let found = deployments.until(deadline, |log| {
            let events = log.of.get(&self.deployment)?.get(self.before..)?;
            let events = match self.over {
                Some(over) => events.get(events.iter().position(|e| e.replicas == Some(over))?..)?,
                None => events,
            };
            events.iter().find(|e| !e.gone && e.replicas == Some(self.wanted)).map(|e| e.at)
        });
        found.await
    }

    /// [`Sent::seen`], as the time since it was sent.
    pub async fn took(&self, deployments: &Watch, deadline: Instant) -> Option<Duration> {
        Some(self.seen(deployments, deadline).await?.duration_since(self.at))
    }
}
