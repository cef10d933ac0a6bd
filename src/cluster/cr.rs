//! The stored form of custom resources: what decisions need, with spec and status as text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::{ApiResource, ObjectMeta};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::bounds;
use crate::kind::allow::{Allow, Reach};
use crate::object::Gvk;
use crate::release::secret;

/// The maximum size of the annotation [`secret::KINDS`] in bytes: thirty kinds with the longest names are shorter. A
/// longer annotation is not the operator's.
const MAX_KINDS_TEXT: usize = 16 << 10;

/// A custom resource as received. Spec and status remain text, so that deep nesting in them cannot make its parsing
/// fail, and with it the list of all others.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct CrObject {
    /// `metadata`.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
    /// `status`.
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
}

impl kube::Resource for CrObject {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The stored parts of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Cr {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`, seconds.
    pub created: i64,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// Annotations, without the large one of `kubectl apply` and the one for [`Cr::first_kinds`].
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The annotations that the kind does not allow.
    pub refused: Vec<Reach>,
    /// Our own annotation [`secret::KINDS`].
    kinds: Option<Box<str>>,
    /// `spec` as JSON text. It is parsed when a pass needs it, and small until then.
    pub spec: Option<Box<str>>,
    /// `status` as JSON text.
    pub status: Box<str>,
}

impl Cr {
    /// Reads the object. Annotations that the kind does not allow appear only in [`Cr::refused`].
    pub fn read(object: CrObject, allow: &Allow) -> Option<Self> {
        let metadata = object.metadata;
        let text = |raw: Option<Box<RawValue>>| raw.map(|r| Box::<str>::from(r.get())).filter(|t| &**t != "null");
        let mut annotations = metadata.annotations.unwrap_or_default();
        let kinds = annotations.remove(secret::KINDS).filter(|text| text.len() <= MAX_KINDS_TEXT).map(Into::into);
        let refused = allow.take_refused(&mut annotations);
        Some(Self {
            uid: metadata.uid?.into(),
            resource_version: metadata.resource_version?.parse().unwrap_or(0),
            generation: metadata.generation.unwrap_or(0),
            created: metadata.creation_timestamp.map_or(0, |t| t.0.as_second()),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default().into_iter().map(Into::into).collect(),
            annotations: annotations
                .into_iter()
                .filter(|(k, _)| *k != "kubectl.kubernetes.io/last-applied-configuration")
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
            labels: metadata.labels.unwrap_or_default().into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            refused,
            kinds,
            spec: text(object.spec),
            status: text(object.status).filter(|s| s.starts_with('{')).unwrap_or_else(|| "{}".into()),
        })
    }

    /// The status, parsed. One that cannot be ours counts as empty.
    pub fn status(&self) -> Map<String, Value> {
        match bounds::STATUS.json(&self.status) {
            Ok(Value::Object(status)) => status,
            _ => Map::new(),
        }
    }

    /// The kinds of objects that the first installation of its release started with, all in one namespace.
    pub fn first_kinds(&self) -> impl Iterator<Item = Gvk> {
        let kinds = self.kinds.as_deref().map(secret::decode_kinds).unwrap_or_default();
        kinds.into_iter().map(|(gvk, _)| gvk).take(secret::MAX_KINDS)
    }

    /// Whether a change affects the release. A change of the status does not.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let Self { uid, generation, deleting, finalizers, annotations, refused, spec, .. } = self;
        *uid != other.uid
            || *generation != other.generation
            || *deleting != other.deleting
            || *finalizers != other.finalizers
            || *annotations != other.annotations
            || *refused != other.refused
            || *spec != other.spec
    }
}
