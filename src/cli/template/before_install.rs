//! `--dry-run=server`: the requests that Helm makes before an installation.

use crate::cli::common::error::CliError;
use crate::cli::common::helm_log::log;
use crate::cli::common::server::Server;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::host::System;
use crate::lookup::ClusterHost;
use crate::object::{Gvk, ObjectId};
use crate::render::{Capabilities, Release, order};
use crate::template::function::{FnError, FnResult, Host};
use crate::template::go::quote::quoted;
use serde_json::Value as Json;
use std::sync::Arc;

/// The label and the annotations that name the owner of an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// The owners that an existing object can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The release's.
    Release,
    /// Any owner: it would be taken over. It is read anyway.
    Taken,
    /// The owner has no influence, and is not read.
    Any,
}

/// The requests to an API server before an installation.
pub struct BeforeInstall<'a>(pub &'a Server);

impl BeforeInstall<'_> {
    /// The facts about the server that templates see.
    pub fn capabilities(&self) -> Result<Capabilities, CliError> {
        self.0.block_on(async |_, discovery| discovery.refresh().await).map_err(|e| {
            let why = words(&e);
            CliError(format!(
                "could not get apiVersions from Kubernetes: could not get apiVersions from Kubernetes: {why}"
            ))
        })?;
        let info = self.0.discovery().info();
        Ok(Capabilities { kube_version: info.kube_version.clone(), api_versions: info.api_versions.clone() })
    }

    /// `lookup` that asks the server.
    pub fn host(&self, system: System) -> Arc<dyn Host + Send + Sync> {
        Arc::new(Logging(self.0.host(system)))
    }

    /// Whether the manifest's objects are of kinds that are served, and whether those that exist are the release's.
    pub fn check(&self, manifest: &str, release: &Release, owners: Owners, validate: bool) -> Result<(), CliError> {
        let objects = self.build(manifest, &release.namespace, validate);
        let objects =
            objects.map_err(|e| CliError(format!("unable to build kubernetes objects from release manifest: {e}")))?;
        if owners == Owners::Any {
            return Ok(());
        }
        for object in &objects {
            self.check_owner(object, release, owners)
                .map_err(|e| CliError(format!("unable to continue with install: {e}")))?;
        }
        Ok(())
    }

    fn build(&self, manifest: &str, namespace: &str, validate: bool) -> Result<Vec<Built>, CliError> {
        let mut built = Vec::new();
        let mut wrong: Vec<String> = Vec::new();
        for document in order::split(manifest) {
            match self.build_one(document, namespace, validate) {
                Ok(objects) => built.extend(objects),
                Err(e) if wrong.contains(&e.0) => {}
                Err(e) => wrong.push(e.0),
            }
        }
        match wrong.as_slice() {
            [] => Ok(built),
            [one] => Err(CliError(one.clone())),
            many => Err(CliError(format!("[{}]", many.join(", ")))),
        }
    }

    fn build_one(&self, document: &str, namespace: &str, validate: bool) -> Result<Vec<Built>, CliError> {
        let parsed = crate::template::yaml::parse(document.as_bytes());
        let body: Json = parsed.map_err(|e| format!("error parsing : {e}"))?;
        if body.is_null() {
            return Ok(Vec::new());
        }
        if validate {
            check_type(&body)?;
        }
        let text = |field: &str| body.get(field).and_then(Json::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() {
            return Err(format!("unable to decode \"\": Object 'Kind' is missing in '{body}'").into());
        }
        // Without a version, Helm finds the one that is preferred.
        let api_version = if api_version.is_empty() { "v1" } else { &api_version };
        let gvk = Gvk::from_api_version(api_version, &kind);
        match body.get("items").and_then(Json::as_array) {
            Some(items) if kind.ends_with("List") => {
                let build = |item: &Json| {
                    let text = |field: &str| item.get(field).and_then(Json::as_str).unwrap_or_default();
                    let gvk = Gvk::from_api_version(text("apiVersion"), text("kind"));
                    self.object(&gvk, item, namespace, |none| format!("unable to recognize {none}"))
                };
                items.iter().map(build).collect()
            }
            _ => {
                let (name, own) = (string(&body, "/metadata/name"), string(&body, "/metadata/namespace"));
                let unknown = |none: String| {
                    let (name, own) = (quoted(name.as_bytes()), quoted(own.as_bytes()));
                    format!(
                        "resource mapping not found for name: {name} namespace: {own} from \"\": {none}\nensure CRDs are \
                         installed first"
                    )
                };
                if validate && self.0.discovery().cached(&gvk).is_none() {
                    self.list_definitions(&gvk)?;
                }
                Ok(vec![self.object(&gvk, &body, namespace, unknown)?])
            }
        }
    }

    /// If a version is served, Helm looks for an unknown kind among the definitions, too. The kind would be known if it
    /// were there, so the only new result can be that definitions may not be read.
    fn list_definitions(&self, gvk: &Gvk) -> Result<(), CliError> {
        if !self.0.discovery().info().api_versions.contains(&gvk.api_version()) {
            return Ok(());
        }
        let answer = self.0.block_on(async |cluster, _| cluster.get_path::<Json>(&Resource::crds().path(None)).await);
        answer.map(drop).map_err(|e| {
            let why = words(&e);
            format!("error validating \"\": error validating data: failed to check CRD: failed to list CRDs: {why}")
                .into()
        })
    }

    fn object(
        &self,
        gvk: &Gvk,
        body: &Json,
        namespace: &str,
        unknown: impl Fn(String) -> String,
    ) -> Result<Built, CliError> {
        // All kinds were requested a moment ago.
        let resource = self.0.discovery().cached(gvk).ok_or_else(|| {
            let (kind, version) = (quoted(gvk.kind.as_bytes()), quoted(gvk.api_version().as_bytes()));
            CliError(unknown(format!("no matches for kind {kind} in version {version}")))
        })?;
        let own = string(body, "/metadata/namespace");
        let namespace = match (resource.namespaced, own.is_empty()) {
            (false, _) => String::new(),
            (true, true) => namespace.to_owned(),
            (true, false) => own,
        };
        let generated = !string(body, "/metadata/generateName").is_empty();
        Ok(Built { resource, name: string(body, "/metadata/name"), namespace, generated })
    }

    fn check_owner(&self, object: &Built, release: &Release, owners: Owners) -> Result<(), CliError> {
        match (object.generated, object.name.is_empty()) {
            (true, true) => return Ok(()),
            (true, false) => return Err("metadata.name and metadata.generateName cannot both be set".into()),
            (false, _) => {}
        }
        let shown = format!(
            "{} {} in namespace {}",
            object.resource.gvk.kind,
            quoted(object.name.as_bytes()),
            quoted(object.namespace.as_bytes())
        );
        let unknown = |why: &str| format!("could not get information about the resource {shown}: {why}");
        if object.name.is_empty() {
            return Err(unknown("resource name may not be empty").into());
        }
        let id = ObjectId {
            gvk: object.resource.gvk.clone(),
            namespace: Some(object.namespace.as_str().into()).filter(|_| object.resource.namespaced),
            name: object.name.as_str().into(),
        };
        let existing = self.0.block_on(async |cluster, _| cluster.get(&object.resource, &id).await);
        match existing.map_err(|e| unknown(&words(&e)))? {
            Some(existing) if owners == Owners::Release => not_owned(&existing, release).map_or(Ok(()), |why| {
                Err(format!(
                    "{shown} exists and cannot be imported into the current release: invalid ownership metadata; {why}"
                )
                .into())
            }),
            _ => Ok(()),
        }
    }
}

/// An object of the manifest.
struct Built {
    resource: Arc<Resource>,
    name: String,
    namespace: String,
    generated: bool,
}

fn string(body: &Json, pointer: &str) -> String {
    body.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// Whether a document has an identity. With a current API server the fields are not checked.
fn check_type(body: &Json) -> Result<(), CliError> {
    let missing = |field: &str| body.get(field).and_then(Json::as_str).is_none_or(str::is_empty);
    let why = match (missing("apiVersion"), missing("kind")) {
        (true, true) => "[apiVersion not set, kind not set]",
        (true, false) => "apiVersion not set",
        (false, true) => "kind not set",
        (false, false) => return Ok(()),
    };
    Err(format!("error validating \"\": error validating data: {why}").into())
}

/// The field that shows that an object does not belong to the release.
fn not_owned(object: &Json, release: &Release) -> Option<String> {
    let wrong = |place: &str, what: &str, key: &str, wanted: &str| {
        let map = object.pointer(&format!("/metadata/{place}"));
        let (shown, wanted_text) = (quoted(key.as_bytes()), quoted(wanted.as_bytes()));
        match map.and_then(|map| map.get(key)).and_then(Json::as_str) {
            None => Some(format!("{what} validation error: missing key {shown}: must be set to {wanted_text}")),
            Some(value) if value != wanted => {
                let value = quoted(value.as_bytes());
                Some(format!("{what} validation error: key {shown} must equal {wanted_text}: current value is {value}"))
            }
            Some(_) => None,
        }
    };
    let all: Vec<String> = [
        wrong("labels", "label", MANAGED_BY, "Helm"),
        wrong("annotations", "annotation", RELEASE_NAME, &release.name),
        wrong("annotations", "annotation", RELEASE_NAMESPACE, &release.namespace),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// An answer's sentence, without the attempted action.
fn words(error: &ApiError) -> String {
    match error {
        ApiError::Refused { message, .. } | ApiError::Unreachable { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Helm's log of a `lookup` whose kind is not served.
struct Logging(ClusterHost);

impl Host for Logging {
    fn random(&self, buffer: &mut [u8]) {
        self.0.random(buffer);
    }
    fn now(&self) -> i128 {
        self.0.now()
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
        self.0.lookup(api_version, kind, namespace, name).inspect_err(|e| {
            let FnError::Message(text) = e else { return };
            let unknown = text.strip_prefix("unable to get apiresource from unstructured: ");
            if let Some((kind, why)) = unknown.and_then(|text| text.split_once(": ")) {
                log("ERROR", "unable to retrieve resource list", &[("GroupVersion", api_version), ("error", why)]);
                log("ERROR", "unable to get apiresource", &[("groupVersionKind", kind), ("error", why)]);
            }
        })
    }
    fn resolve(&self, name: &str) -> String {
        self.0.resolve(name)
    }
}
