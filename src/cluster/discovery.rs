//! The kinds that the API server serves. They are discovered once, and again when a kind is missing.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use kube::core::discovery::v2::APIResourceDiscovery;
use kube::discovery::Discovery as Discovered;

use super::client::Cluster;
use super::error::{ApiError, Sent};
use super::progress;
use crate::object::Gvk;

/// The shortest time between two searches for a kind.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// The timeout of the discovery of all kinds.
const DEADLINE: Duration = Duration::from_secs(60);

/// The address of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub gvk: Gvk,
    /// Plural name.
    pub plural: Arc<str>,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// The path of a collection.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let Gvk { group, version, .. } = &self.gvk;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
    /// The kind in the form of the library's `Api`.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.gvk.group.to_string(),
            version: self.gvk.version.to_string(),
            api_version: self.gvk.api_version(),
            kind: self.gvk.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }
    /// `v1/Secret`, which every cluster serves.
    pub fn secrets() -> Self {
        Self { gvk: Gvk::new("", "v1", "Secret"), plural: "secrets".into(), namespaced: true }
    }
    /// `v1/Event`.
    pub fn events() -> Self {
        Self { gvk: Gvk::new("", "v1", "Event"), plural: "events".into(), namespaced: true }
    }
    /// `apiextensions.k8s.io/v1/CustomResourceDefinition`.
    pub fn crds() -> Self {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Self { gvk, plural: "customresourcedefinitions".into(), namespaced: false }
    }
    /// `coordination.k8s.io/v1/Lease`.
    pub fn leases() -> Self {
        let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
        Self { gvk, plural: "leases".into(), namespaced: true }
    }
}

/// The versions that charts see in `.Capabilities`.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    /// Such as `v1.36.3`.
    pub kube_version: String,
    /// `apps/v1` and `apps/v1/Deployment`, sorted.
    pub api_versions: Vec<String>,
}

#[derive(Default)]
struct Known {
    resources: HashMap<Gvk, Arc<Resource>>,
    info: Arc<ServerInfo>,
    at: Option<Instant>,
}

/// The kinds of a cluster.
pub struct Discovery {
    cluster: Cluster,
    known: RwLock<Known>,
    /// One refresh at a time; the others wait and use its result.
    refreshing: tokio::sync::Mutex<()>,
}

impl Discovery {
    /// Starts without any known kinds.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, known: RwLock::default(), refreshing: tokio::sync::Mutex::default() }
    }

    /// A kind that is already known.
    pub fn cached(&self, gvk: &Gvk) -> Option<Arc<Resource>> {
        self.read().resources.get(gvk).cloned()
    }

    /// The known kinds with this name, as kubectl understands it: a kind or plural, optionally with a dot and the
    /// group.
    pub fn named(&self, word: &str) -> Vec<Arc<Resource>> {
        let (name, group) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
        let is_it = |resource: &&Arc<Resource>| {
            let Gvk { group: of, kind, .. } = &resource.gvk;
            (kind.eq_ignore_ascii_case(name) || resource.plural.eq_ignore_ascii_case(name))
                && group.is_none_or(|group| group == &**of)
        };
        let mut found: Vec<_> = self.read().resources.values().filter(is_it).cloned().collect();
        found.sort_by(|a, b| a.gvk.cmp(&b.gvk));
        found
    }

    /// The same for a short or singular name. The API server is asked: one request.
    pub async fn short(&self, word: &str) -> Result<Vec<Arc<Resource>>, ApiError> {
        let (name, of) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
        let client = self.cluster.client();
        let (groups, core) =
            tokio::join!(client.list_api_groups_aggregated(), client.list_core_api_versions_aggregated());
        let mut meant = Vec::new();
        for list in [groups, core] {
            let list = list.map_err(|e| ApiError::from_kube("discover short names", &e, Sent::Nothing))?;
            for group in list.items {
                let group_name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
                let resources = group.versions.into_iter().flat_map(|version| version.resources);
                let is_it = |resource: &APIResourceDiscovery| {
                    let mut names = resource.short_names.iter().chain(&resource.singular_resource);
                    names.any(|known| known.eq_ignore_ascii_case(name)) && of.is_none_or(|of| of == group_name)
                };
                let plurals = resources.filter(is_it).filter_map(|resource| resource.resource);
                meant.extend(plurals.map(|plural| format!("{plural}.{group_name}")));
            }
        }
        meant.sort();
        meant.dedup();
        Ok(meant.iter().flat_map(|word| self.named(word)).collect())
    }

    /// The versions in which a kind is served.
    pub fn versions_of(&self, gvk: &Gvk) -> Vec<String> {
        let same = |known: &&Gvk| known.group == gvk.group && known.kind == gvk.kind;
        let mut versions: Vec<String> = self.read().resources.keys().filter(same).map(Gvk::api_version).collect();
        versions.sort();
        versions
    }

    /// The facts about the API server that charts see.
    pub fn info(&self) -> Arc<ServerInfo> {
        Arc::clone(&self.read().info)
    }

    /// Looks up a kind. If it is unknown, the API server is asked again.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, ApiError> {
        if let Some(found) = self.cached(gvk) {
            return Ok(Some(found));
        }
        let asked = Instant::now();
        let _one = self.refreshing.lock().await;
        let at = self.read().at;
        if at.is_none_or(|at| at < asked && at.elapsed() > MIN_INTERVAL) {
            self.refresh().await?;
        }
        if let Some(found) = self.cached(gvk) {
            return Ok(Some(found));
        }
        self.check_gone(gvk).await?;
        Ok(None)
    }

    /// A kind that discovery does not list is deleted only if its version is not served, or is served without the kind.
    /// The server of an aggregated API may be down, and then the objects of the kind must not count as deleted
    /// (docs/design/applying.md D1).
    async fn check_gone(&self, gvk: &Gvk) -> Result<(), ApiError> {
        if gvk.group.is_empty() {
            return Ok(());
        }
        match self.cluster.get_path::<serde_json::Value>(&format!("/apis/{}/{}", gvk.group, gvk.version)).await {
            Err(e) if e.is_not_found() => Ok(()),
            Err(ApiError::Refused { code: 503, .. }) => {
                Err(ApiError::Away { api: gvk.api_version(), kind: gvk.kind.to_string() })
            }
            answer => answer.map(|_| ()),
        }
    }

    /// Asks the API server for all kinds (two requests) and for its version (one request).
    pub async fn refresh(&self) -> Result<(), ApiError> {
        let asked = tokio::time::timeout(DEADLINE, self.ask()).await;
        progress::note();
        asked.unwrap_or_else(|_| {
            let message = format!("no answer within {} seconds", DEADLINE.as_secs());
            Err(ApiError::Unreachable { what: "discover kinds".to_owned(), message })
        })
    }

    async fn ask(&self) -> Result<(), ApiError> {
        let discovery = Discovered::new(self.cluster.client());
        let discovered = match discovery.run_aggregated().await {
            // Aggregated discovery exists since Kubernetes 1.26.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 406) => {
                Discovered::new(self.cluster.client()).run().await
            }
            answer => answer,
        };
        let discovered = discovered.map_err(|e| ApiError::from_kube("discover kinds", &e, Sent::Nothing))?;
        let version: k8s_openapi::apimachinery::pkg::version::Info = self.cluster.get_path("/version").await?;
        let mut resources = HashMap::new();
        let mut api_versions = BTreeSet::new();
        for group in discovered.groups() {
            for version in group.versions() {
                // As in Helm, a version counts without kinds, too: a server of metrics may list none.
                if !group.name().is_empty() {
                    api_versions.insert(format!("{}/{version}", group.name()));
                }
                for (resource, capabilities) in group.versioned_resources(version) {
                    let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
                    api_versions.insert(gvk.api_version());
                    api_versions.insert(format!("{}/{}", gvk.api_version(), gvk.kind));
                    // As in Helm, the kinds of subresources count as kinds of their resource's version.
                    let below = capabilities.subresources.iter();
                    api_versions.extend(below.map(|(sub, _)| format!("{}/{}", gvk.api_version(), sub.kind)));
                    let namespaced = capabilities.scope == Scope::Namespaced;
                    let plural = resource.plural.as_str().into();
                    resources.entry(gvk.clone()).or_insert_with(|| Arc::new(Resource { gvk, plural, namespaced }));
                }
            }
        }
        let info = ServerInfo { kube_version: version.git_version, api_versions: api_versions.into_iter().collect() };
        let mut known = self.known.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known = Known { resources, info: Arc::new(info), at: Some(Instant::now()) };
        Ok(())
    }

    /// Forgets a kind that turned out to be no longer served.
    pub fn forget(&self, gvk: &Gvk) {
        self.known.write().unwrap_or_else(std::sync::PoisonError::into_inner).resources.remove(gvk);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
