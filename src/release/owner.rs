//! Owners of objects: the custom resource and the release, and how live objects name them.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Gvk;

/// helm-operator's cache selects by this label, and so do our watches. Its value is the chart's name.
pub const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// Names the custom resource where an owner reference is not possible: `NAMESPACE/NAME`.
pub const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";
/// The kind of that custom resource: `Kind.group`.
pub const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";
/// Helm checks these before it takes an object for one of a release (`pkg/action/validate.go`).
pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// See [`RELEASE_NAME`].
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// helm-operator's finalizer, set before the first write of a release.
pub const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
/// The name that older versions of helm-operator gave it.
pub const LEGACY_FINALIZER: &str = "uninstall-helm-release";

/// The custom resource that objects belong to, and its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Kind of the custom resource.
    pub gvk: Gvk,
    /// Its namespace; `None` when it is cluster-scoped.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Name of the release.
    pub release_name: Arc<str>,
    /// Namespace of the release.
    pub release_namespace: Arc<str>,
    /// Name of the chart.
    pub chart: Arc<str>,
}

impl Owner {
    /// `Kind.group NAMESPACE/NAME`, for people and for the release Secret.
    pub fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.gvk.kind_group(), self.name),
            None => format!("{} {}", self.gvk.kind_group(), self.name),
        }
    }
    /// `NAMESPACE/NAME` as operator-sdk's annotation has it.
    pub fn primary_resource(&self) -> String {
        format!("{}/{}", self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// The marks of an object that cannot refer to its owner; see [`marks`].
    pub fn marks(&self) -> String {
        let (kind, name) = (self.gvk.kind_group(), self.primary_resource());
        format!("{kind} {name} {}/{}", self.release_namespace, self.release_name)
    }
}

/// The marks in the `metadata` of an object: kind and name of the custom resource, and namespace and name of the release, from its
/// annotations. `None` when any is missing.
pub fn marks(metadata: &Value) -> Option<String> {
    let annotations = metadata.get("annotations")?;
    let text = |name: &str| annotations.get(name).and_then(Value::as_str);
    let (kind, name) = (text(PRIMARY_RESOURCE_TYPE)?, text(PRIMARY_RESOURCE)?);
    Some(format!("{kind} {name} {}/{}", text(RELEASE_NAMESPACE)?, text(RELEASE_NAME)?))
}

/// The custom resource of tests.
#[cfg(test)]
pub fn owner() -> Owner {
    Owner {
        gvk: crate::object::Gvk::new("demo.example.com", "v1", "Web"),
        namespace: Some("ns".into()),
        name: "app".into(),
        uid: "uid".into(),
        release_name: "app".into(),
        release_namespace: "ns".into(),
        chart: "web".into(),
    }
}
