//! Larger volumes of a StatefulSet: first the existing claims, and then the StatefulSet that makes the next ones.

use serde_json::{Value, json};

use crate::cluster::client::{Cluster, describe};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::names;
use crate::object::{Gvk, ObjectId, metadata, quantity};
use crate::plan::immutable::UPGRADE_FORCE;

/// The API server's message about a claim whose class does not allow it (the admission plugin
/// `PersistentVolumeClaimResize`).
const NOT_RESIZED: &str = "only dynamically provisioned pvc can be resized";

/// Gives the claims of a StatefulSet their new sizes, by the names of their templates. Steps that were done before an
/// interruption are repeated, and change nothing. A claim that has grown by itself, and is larger, stays so. The error names the first claim that cannot be made larger.
pub async fn enlarge(
    cluster: &Cluster,
    set: &ObjectId,
    live: &Value,
    sizes: &[(String, String)],
) -> Result<(), ApiError> {
    let gvk = Gvk::new("", "v1", "PersistentVolumeClaim");
    let claims = Resource { gvk: gvk.clone(), plural: "persistentvolumeclaims".into(), namespaced: true };
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_u64);
    let (first, count) = (number("/spec/ordinals/start").unwrap_or(0), number("/spec/replicas").unwrap_or(1));
    for ordinal in first..first.saturating_add(count) {
        for (template, size) in sizes {
            let name = format!("{template}-{}-{ordinal}", set.name);
            let id = ObjectId { gvk: gvk.clone(), namespace: set.namespace.clone(), name: name.as_str().into() };
            let Some(claim) = cluster.get(&claims, &id).await? else { continue };
            let has = claim.pointer("/spec/resources/requests/storage").and_then(Value::as_str);
            let annotations = metadata(&claim).get("annotations");
            let has_grown = annotations.is_some_and(|all| all.get(names::GROWN).is_some());
            let is_larger = has.and_then(quantity::bytes) > quantity::bytes(size);
            if has == Some(size) || metadata(&claim).get("deletionTimestamp").is_some() || has_grown && is_larger {
                continue;
            }
            let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            match cluster.merge::<Value>(&claims, &id, &patch, None).await {
                // The message about a missing right or a quota explains itself.
                Err(e) if e.message().contains(NOT_RESIZED) || matches!(e, ApiError::Refused { code: 422, .. }) => {
                    return Err(refused(set, &name, size));
                }
                answer => answer?,
            };
        }
    }
    Ok(())
}

fn refused(set: &ObjectId, claim: &str, size: &str) -> ApiError {
    ApiError::Immutable {
        what: describe("apply", set),
        fields: "spec.volumeClaimTemplates".to_owned(),
        lost: "its pods and volumes would stay",
        remedy: format!(
            ". Claim {claim} cannot be given {size}: it must be bound, its StorageClass must have allowVolumeExpansion: true, and no claim can be made smaller. \
             The annotation {UPGRADE_FORCE}: \"true\" on the custom resource gives only new claims this size"
        ),
    }
}
