//! The state of a StatefulSet with members in the API server. Each pass that needs it reads it again: the operator
//! never acts on members by the content of a cache. Watches of the pods, claims and Jobs only trigger the next look,
//! and releases without members have no such watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use serde_json::Value;

use super::read::{claim, core, job_resource, ordinal, pod, text};
use crate::cluster::error::ApiError;
use crate::cluster::readiness::{pod_reason, pod_selector};
use crate::mask::Text;
use crate::members::document::Set;
use crate::members::driver::CreatedObjects;
use crate::members::operator::FoundJobs;
use crate::members::workload::Workload;
use crate::object::ObjectId;
use crate::object::conditions::Conditions;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;
use crate::reconcile::render::secrets::learn;
use crate::release::owned;

/// The kind of the objects that a driver creates, and their label.
fn made(creates: CreatedObjects) -> (ApiResource, &'static str) {
    match creates {
        CreatedObjects::ConfigMap(label) => (ApiResource::erase::<ConfigMap>(&()), label),
        CreatedObjects::Jobs(label) => (ApiResource::erase::<Job>(&()), label),
    }
}

/// Reads a StatefulSet, its pods and its claims. Returns `None` if it does not exist, or was not applied as one with
/// members.
pub async fn read_workload(
    observed: &Observed,
    set: &Set,
    creates: Option<CreatedObjects>,
    ctx: &Context,
) -> Result<Option<Workload>, Error> {
    let namespace = Arc::clone(&observed.owner.release_namespace);
    let id = set.id(&namespace);
    let Some(resource) = ctx.discovery.resolve(&id.gvk).await? else { return Ok(None) };
    let Some(object) = observed.cluster.get(&resource, &id).await? else { return Ok(None) };
    // A StatefulSet that was not applied as one with members is not stepped yet.
    if !object.get("metadata").is_some_and(owned::steps_replicas) {
        return Ok(None);
    }
    let Some(selector) = pod_selector(&id.gvk, &object) else { return Ok(None) };
    ctx.watching.members.ensure(&observed.key, &observed.owner.release_name, &namespace, &selector, creates.map(made));
    let (pod_list, claim_list) = (core("Pod", "pods"), core("PersistentVolumeClaim", "persistentvolumeclaims"));
    let pods = observed.cluster.list(&pod_list, &namespace, &selector).await?;
    let templates = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let templates: Vec<&str> = templates.into_iter().flatten().map(|t| text(t, "/metadata/name")).collect();
    let claims = match templates.as_slice() {
        [] => Vec::new(),
        _ => observed.cluster.list(&claim_list, &namespace, &selector).await?,
    };
    let uid = text(&object, "/metadata/uid");
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    // If the controller has not observed the current template, its status does not describe that template.
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    let mut workload = Workload {
        resource_version: text(&object, "/metadata/resourceVersion").into(),
        replicas: number("/spec/replicas").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        start: number("/spec/ordinals/start").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        update_revision: if is_seen { text(&object, "/status/updateRevision").into() } else { "".into() },
        pods: BTreeMap::new(),
        earlier: Vec::new(),
        claims: BTreeMap::new(),
        name: Arc::clone(&id.name),
        namespace,
    };
    if pods.iter().filter_map(pod_reason).any(|why| why.is_foreign()) {
        learn(observed, ctx).await;
    }
    for object in &pods {
        let ours = text(object, "/metadata/ownerReferences/0/uid") == uid;
        match ordinal(text(object, "/metadata/name"), "", &set.target) {
            Some(ordinal) if ours => {
                workload.pods.insert(ordinal, pod(object, |text| ctx.show(observed, text)));
            }
            Some(_) => workload.earlier.push(text(object, "/metadata/name").into()),
            None => {}
        }
    }
    for object in &claims {
        let name = text(object, "/metadata/name");
        for template in &templates {
            if let Some(ordinal) = ordinal(name, template, &set.target) {
                workload.claims.entry(ordinal).or_default().push(claim(object, template));
            }
        }
    }
    // A pod finds its claim by name alone, so claims without the labels count, too (docs/design/applying.md A7): those
    // of the existing pods, and those of the next one.
    let next = u32::from(set.size > workload.replicas);
    for ordinal in workload.start..workload.start.saturating_add(workload.replicas).saturating_add(next) {
        for template in &templates {
            let name = format!("{template}-{}-{ordinal}", set.target);
            let known = workload.claims.get(&ordinal).is_some_and(|all| all.iter().any(|claim| *claim.name == *name));
            let id = ObjectId {
                gvk: claim_list.gvk.clone(),
                namespace: Some(Arc::clone(&workload.namespace)),
                name: name.into(),
            };
            if !known && let Some(object) = observed.cluster.get(&claim_list, &id).await? {
                workload.claims.entry(ordinal).or_default().push(claim(&object, template));
            }
        }
    }
    Ok(Some(workload))
}

/// The Jobs of the release with this label, and their pods if one has failed.
pub async fn jobs(observed: &Observed, label: &str, ctx: &Context) -> Result<FoundJobs, ApiError> {
    let (owner, cluster) = (&observed.owner, &observed.cluster);
    let selector = format!("{label}={}", owner.release_name);
    let all = cluster.list(&job_resource(), &owner.release_namespace, &selector).await?;
    let ended = |job: &Value| Conditions::of_object(job).is_true("Failed");
    let mut pods = Vec::new();
    if all.iter().any(ended) {
        pods = cluster.list(&core("Pod", "pods"), &owner.release_namespace, &selector).await?;
        // This message is masked here, at its source: all other text about what members wait for is the operator's own.
        learn(observed, ctx).await;
        let statuses = |pod| Value::pointer_mut(pod, "/status/containerStatuses").and_then(Value::as_array_mut);
        for status in pods.iter_mut().filter_map(statuses).flatten() {
            if let Some(Value::String(message)) = status.pointer_mut("/state/terminated/message") {
                *message = ctx.show(observed, &Text::foreign(message.as_str()));
            }
        }
    }
    Ok(FoundJobs { jobs: all, pods })
}
