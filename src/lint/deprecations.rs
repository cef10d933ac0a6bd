//! Deprecated and removed kinds of Kubernetes, with the releases of 1.x: from the life-cycle marks of
//! `k8s.io/api` 0.37.1, which Helm's linter asks.

use crate::render::KubeVersion;
use std::fmt::Write as _;

/// `apiVersion`, kind, minor release that deprecated it, one that removed it or 0, and what to use instead or nothing.
type Row = (&'static str, &'static str, u64, u64, &'static str);

/// Sorted by `apiVersion` and kind.
#[rustfmt::skip]
static ROWS: [Row; 170] = [
    ("admission.k8s.io/v1beta1", "AdmissionReview", 19, 22, "admission.k8s.io/v1 AdmissionReview"),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy", 35, 38, ""),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicyBinding", 35, 38, ""),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicyBindingList", 35, 38, ""),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicyList", 35, 38, ""),
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy", 29, 32, ""),
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicyBinding", 29, 32, ""),
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicyBindingList", 29, 32, ""),
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicyList", 29, 32, ""),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", 37, 40, "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding", 37, 40, "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBindingList", 37, 40, "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBindingList"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyList", 37, 40, "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyList"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration", 16, 22, "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfigurationList", 16, 22, "admissionregistration.k8s.io/v1 MutatingWebhookConfigurationList"),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", 31, 34, ""),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicyBinding", 31, 34, ""),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicyBindingList", 31, 34, ""),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicyList", 31, 34, ""),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration", 16, 22, "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfigurationList", 16, 22, "admissionregistration.k8s.io/v1 ValidatingWebhookConfigurationList"),
    ("apidiscovery.k8s.io/v2beta1", "APIGroupDiscovery", 32, 35, ""),
    ("apidiscovery.k8s.io/v2beta1", "APIGroupDiscoveryList", 32, 35, ""),
    ("apps/v1beta1", "ControllerRevision", 8, 16, "apps/v1 ControllerRevision"),
    ("apps/v1beta1", "ControllerRevisionList", 8, 16, "apps/v1 ControllerRevisionList"),
    ("apps/v1beta1", "Deployment", 8, 16, "apps/v1 Deployment"),
    ("apps/v1beta1", "DeploymentList", 8, 16, "apps/v1 DeploymentList"),
    ("apps/v1beta1", "DeploymentRollback", 8, 16, "apps/v1 DeploymentRollback"),
    ("apps/v1beta1", "Scale", 8, 16, "autoscaling/v1 Scale"),
    ("apps/v1beta1", "StatefulSet", 8, 16, "apps/v1 StatefulSet"),
    ("apps/v1beta1", "StatefulSetList", 8, 16, "apps/v1 StatefulSetList"),
    ("apps/v1beta2", "ControllerRevision", 9, 16, "apps/v1 ControllerRevision"),
    ("apps/v1beta2", "ControllerRevisionList", 9, 16, "apps/v1 ControllerRevisionList"),
    ("apps/v1beta2", "DaemonSet", 9, 16, "apps/v1 DaemonSet"),
    ("apps/v1beta2", "DaemonSetList", 9, 16, "apps/v1 DaemonSetList"),
    ("apps/v1beta2", "Deployment", 9, 16, "apps/v1 Deployment"),
    ("apps/v1beta2", "DeploymentList", 9, 16, "apps/v1 DeploymentList"),
    ("apps/v1beta2", "ReplicaSet", 9, 16, "apps/v1 ReplicaSet"),
    ("apps/v1beta2", "ReplicaSetList", 9, 16, "apps/v1 ReplicaSetList"),
    ("apps/v1beta2", "Scale", 9, 16, "autoscaling/v1 Scale"),
    ("apps/v1beta2", "StatefulSet", 9, 16, "apps/v1 StatefulSet"),
    ("apps/v1beta2", "StatefulSetList", 9, 16, "apps/v1 StatefulSetList"),
    ("authentication.k8s.io/v1alpha1", "SelfSubjectReview", 29, 32, ""),
    ("authentication.k8s.io/v1beta1", "SelfSubjectReview", 30, 33, ""),
    ("authentication.k8s.io/v1beta1", "TokenReview", 19, 22, "authentication.k8s.io/v1 TokenReview"),
    ("authorization.k8s.io/v1beta1", "LocalSubjectAccessReview", 19, 22, "authorization.k8s.io/v1 LocalSubjectAccessReview"),
    ("authorization.k8s.io/v1beta1", "SelfSubjectAccessReview", 19, 22, "authorization.k8s.io/v1 SelfSubjectAccessReview"),
    ("authorization.k8s.io/v1beta1", "SelfSubjectRulesReview", 19, 22, "authorization.k8s.io/v1 SelfSubjectRulesReview"),
    ("authorization.k8s.io/v1beta1", "SubjectAccessReview", 19, 22, "authorization.k8s.io/v1 SubjectAccessReview"),
    ("batch/v1beta1", "CronJob", 21, 25, "batch/v1 CronJob"),
    ("batch/v1beta1", "CronJobList", 21, 25, "batch/v1 CronJobList"),
    ("certificates.k8s.io/v1alpha1", "ClusterTrustBundle", 34, 37, ""),
    ("certificates.k8s.io/v1alpha1", "ClusterTrustBundleList", 34, 37, ""),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest", 19, 22, "certificates.k8s.io/v1 CertificateSigningRequest"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequestList", 19, 22, "certificates.k8s.io/v1 CertificateSigningRequestList"),
    ("certificates.k8s.io/v1beta1", "ClusterTrustBundle", 37, 40, "certificates.k8s.io/v1 ClusterTrustBundle"),
    ("certificates.k8s.io/v1beta1", "ClusterTrustBundleList", 37, 40, "certificates.k8s.io/v1 ClusterTrustBundleList"),
    ("certificates.k8s.io/v1beta1", "PodCertificateRequest", 37, 40, "certificates.k8s.io/v1 PodCertificateRequest"),
    ("certificates.k8s.io/v1beta1", "PodCertificateRequestList", 37, 40, "certificates.k8s.io/v1 PodCertificateRequestList"),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate", 35, 38, ""),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidateList", 35, 38, ""),
    ("coordination.k8s.io/v1beta1", "Lease", 19, 22, "coordination.k8s.io/v1 Lease"),
    ("coordination.k8s.io/v1beta1", "LeaseCandidate", 36, 39, ""),
    ("coordination.k8s.io/v1beta1", "LeaseCandidateList", 36, 39, ""),
    ("coordination.k8s.io/v1beta1", "LeaseList", 19, 22, "coordination.k8s.io/v1 LeaseList"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice", 21, 25, "discovery.k8s.io/v1 EndpointSlice"),
    ("discovery.k8s.io/v1beta1", "EndpointSliceList", 21, 25, "discovery.k8s.io/v1 EndpointSlice"),
    ("events.k8s.io/v1beta1", "Event", 22, 25, ""),
    ("events.k8s.io/v1beta1", "EventList", 22, 25, ""),
    ("extensions/v1beta1", "DaemonSet", 8, 16, "apps/v1 DaemonSet"),
    ("extensions/v1beta1", "DaemonSetList", 8, 16, "apps/v1 DaemonSetList"),
    ("extensions/v1beta1", "Deployment", 8, 16, "apps/v1 Deployment"),
    ("extensions/v1beta1", "DeploymentList", 8, 16, "apps/v1 DeploymentList"),
    ("extensions/v1beta1", "DeploymentRollback", 8, 16, ""),
    ("extensions/v1beta1", "Ingress", 14, 22, "networking.k8s.io/v1 Ingress"),
    ("extensions/v1beta1", "IngressList", 14, 22, "networking.k8s.io/v1 IngressList"),
    ("extensions/v1beta1", "NetworkPolicy", 9, 16, "networking.k8s.io/v1 NetworkPolicy"),
    ("extensions/v1beta1", "NetworkPolicyList", 9, 16, "networking.k8s.io/v1 NetworkPolicyList"),
    ("extensions/v1beta1", "ReplicaSet", 8, 16, "apps/v1 ReplicaSet"),
    ("extensions/v1beta1", "ReplicaSetList", 8, 16, "apps/v1 ReplicaSetList"),
    ("extensions/v1beta1", "Scale", 2, 16, ""),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", 23, 26, "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchemaList", 23, 26, "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchemaList"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "PriorityLevelConfiguration", 23, 26, "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "PriorityLevelConfigurationList", 23, 26, "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfigurationList"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", 26, 29, "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchemaList", 26, 29, "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchemaList"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "PriorityLevelConfiguration", 26, 29, "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "PriorityLevelConfigurationList", 26, 29, "flowcontrol.apiserver.k8s.io/v1beta3 PriorityLevelConfigurationList"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 29, 32, "flowcontrol.apiserver.k8s.io/v1 FlowSchema"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchemaList", 29, 32, "flowcontrol.apiserver.k8s.io/v1 FlowSchemaList"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfiguration", 29, 32, "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfigurationList", 29, 32, "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfigurationList"),
    ("lifecycle.k8s.io/v1alpha1", "Eviction", 40, 43, ""),
    ("lifecycle.k8s.io/v1alpha1", "EvictionList", 40, 43, ""),
    ("lifecycle.k8s.io/v1alpha1", "EvictionRequest", 40, 43, ""),
    ("lifecycle.k8s.io/v1alpha1", "EvictionRequestList", 40, 43, ""),
    ("networking.k8s.io/v1beta1", "IPAddress", 34, 37, ""),
    ("networking.k8s.io/v1beta1", "IPAddressList", 34, 37, ""),
    ("networking.k8s.io/v1beta1", "Ingress", 19, 22, "networking.k8s.io/v1 Ingress"),
    ("networking.k8s.io/v1beta1", "IngressClass", 19, 22, "networking.k8s.io/v1 IngressClassList"),
    ("networking.k8s.io/v1beta1", "IngressClassList", 19, 22, "networking.k8s.io/v1 IngressClassList"),
    ("networking.k8s.io/v1beta1", "IngressList", 19, 22, "networking.k8s.io/v1 IngressList"),
    ("networking.k8s.io/v1beta1", "ServiceCIDR", 34, 37, ""),
    ("networking.k8s.io/v1beta1", "ServiceCIDRList", 34, 37, ""),
    ("node.k8s.io/v1beta1", "RuntimeClass", 22, 25, ""),
    ("node.k8s.io/v1beta1", "RuntimeClassList", 22, 25, ""),
    ("policy/v1beta1", "Eviction", 22, 25, ""),
    ("policy/v1beta1", "PodDisruptionBudget", 21, 25, "policy/v1 PodDisruptionBudget"),
    ("policy/v1beta1", "PodDisruptionBudgetList", 21, 25, "policy/v1 PodDisruptionBudgetList"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRole", 17, 22, "rbac.authorization.k8s.io/v1 ClusterRole"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding", 17, 22, "rbac.authorization.k8s.io/v1 ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBindingList", 17, 22, "rbac.authorization.k8s.io/v1 ClusterRoleBindingList"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleList", 17, 22, "rbac.authorization.k8s.io/v1 ClusterRoleList"),
    ("rbac.authorization.k8s.io/v1beta1", "Role", 17, 22, "rbac.authorization.k8s.io/v1 Role"),
    ("rbac.authorization.k8s.io/v1beta1", "RoleBinding", 17, 22, "rbac.authorization.k8s.io/v1 RoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "RoleBindingList", 17, 22, "rbac.authorization.k8s.io/v1 RoleBindingList"),
    ("rbac.authorization.k8s.io/v1beta1", "RoleList", 17, 22, "rbac.authorization.k8s.io/v1 RoleList"),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule", 36, 39, ""),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRuleList", 36, 39, ""),
    ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", 39, 42, ""),
    ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequestList", 39, 42, ""),
    ("resource.k8s.io/v1beta1", "DeviceClass", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "DeviceClassList", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceClaim", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceClaimList", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplateList", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceSlice", 35, 38, ""),
    ("resource.k8s.io/v1beta1", "ResourceSliceList", 35, 38, ""),
    ("resource.k8s.io/v1beta2", "DeviceClass", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "DeviceClassList", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "DeviceTaintRule", 39, 42, ""),
    ("resource.k8s.io/v1beta2", "DeviceTaintRuleList", 39, 42, ""),
    ("resource.k8s.io/v1beta2", "ResourceClaim", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "ResourceClaimList", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "ResourceClaimTemplate", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "ResourceClaimTemplateList", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "ResourceSlice", 36, 39, ""),
    ("resource.k8s.io/v1beta2", "ResourceSliceList", 36, 39, ""),
    ("scheduling.k8s.io/v1beta1", "PodGroup", 40, 43, ""),
    ("scheduling.k8s.io/v1beta1", "PodGroupList", 40, 43, ""),
    ("scheduling.k8s.io/v1beta1", "PriorityClass", 14, 22, "scheduling.k8s.io/v1 PriorityClass"),
    ("scheduling.k8s.io/v1beta1", "PriorityClassList", 14, 22, "scheduling.k8s.io/v1 PriorityClassList"),
    ("scheduling.k8s.io/v1beta1", "Workload", 40, 43, ""),
    ("scheduling.k8s.io/v1beta1", "WorkloadList", 40, 43, ""),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity", 21, 24, "storage.k8s.io/v1beta1 CSIStorageCapacity"),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacityList", 21, 24, "storage.k8s.io/v1beta1 CSIStorageCapacityList"),
    ("storage.k8s.io/v1alpha1", "VolumeAttachment", 21, 24, "storage.k8s.io/v1 VolumeAttachment"),
    ("storage.k8s.io/v1alpha1", "VolumeAttachmentList", 21, 24, "storage.k8s.io/v1 VolumeAttachmentList"),
    ("storage.k8s.io/v1alpha1", "VolumeAttributesClass", 32, 35, "storage.k8s.io/v1 VolumeAttributesClass"),
    ("storage.k8s.io/v1alpha1", "VolumeAttributesClassList", 32, 35, "storage.k8s.io/v1 VolumeAttributesClassList"),
    ("storage.k8s.io/v1beta1", "CSIDriver", 19, 22, "storage.k8s.io/v1 CSIDriver"),
    ("storage.k8s.io/v1beta1", "CSIDriverList", 19, 22, "storage.k8s.io/v1 CSIDriverList"),
    ("storage.k8s.io/v1beta1", "CSINode", 17, 22, "storage.k8s.io/v1 CSINode"),
    ("storage.k8s.io/v1beta1", "CSINodeList", 17, 22, "storage.k8s.io/v1 CSINode"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity", 24, 27, "storage.k8s.io/v1 CSIStorageCapacity"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacityList", 24, 27, "storage.k8s.io/v1 CSIStorageCapacityList"),
    ("storage.k8s.io/v1beta1", "StorageClass", 19, 22, "storage.k8s.io/v1 StorageClass"),
    ("storage.k8s.io/v1beta1", "StorageClassList", 19, 22, "storage.k8s.io/v1 StorageClassList"),
    ("storage.k8s.io/v1beta1", "VolumeAttachment", 19, 22, "storage.k8s.io/v1 VolumeAttachment"),
    ("storage.k8s.io/v1beta1", "VolumeAttachmentList", 19, 22, "storage.k8s.io/v1 VolumeAttachmentList"),
    ("storage.k8s.io/v1beta1", "VolumeAttributesClass", 34, 37, "storage.k8s.io/v1 VolumeAttributesClass"),
    ("storage.k8s.io/v1beta1", "VolumeAttributesClassList", 34, 37, "storage.k8s.io/v1 VolumeAttributesClassList"),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration", 37, 40, "storagemigration.k8s.io/v1 StorageVersionMigration"),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigrationList", 37, 40, "storagemigration.k8s.io/v1 StorageVersionMigrationList"),
    ("v1", "ComponentStatus", 19, 0, ""),
    ("v1", "ComponentStatusList", 19, 0, ""),
    ("v1", "Endpoints", 33, 0, "discovery.k8s.io/v1 EndpointSlice"),
    ("v1", "EndpointsList", 33, 0, "discovery.k8s.io/v1 EndpointSliceList"),
];

/// The successor of a kind that Kubernetes no longer has, such as `networking.k8s.io/v1 Ingress`.
pub fn successor(api_version: &str, kind: &str) -> Option<&'static str> {
    let at = ROWS.binary_search_by(|row| (row.0, row.1).cmp(&(api_version, kind))).ok()?;
    let (.., removed, replacement) = ROWS[at];
    (removed != 0 && !replacement.is_empty()).then_some(replacement)
}

/// Helm's warning about a kind that is deprecated in a release of Kubernetes.
pub fn warning(api_version: &str, kind: &str, kube: &KubeVersion) -> Option<String> {
    let at = ROWS.binary_search_by(|row| (row.0, row.1).cmp(&(api_version, kind))).ok()?;
    let (_, _, deprecated, removed, replacement) = ROWS[at];
    if (kube.major, kube.minor) != (0, 0) && (kube.major, kube.minor) < (1, deprecated) {
        return None;
    }
    let mut text = format!("{api_version} {kind} is deprecated in v1.{deprecated}+");
    if removed != 0 {
        let _ = write!(text, ", unavailable in v1.{removed}+");
    }
    if !replacement.is_empty() {
        let _ = write!(text, "; use {replacement}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{ROWS, warning};
    use crate::render::KubeVersion;

    #[test]
    fn deprecation_begins_with_a_release() {
        assert!(ROWS.is_sorted_by_key(|row| (row.0, row.1)));
        let at = |version: &str| warning("batch/v1beta1", "CronJob", &KubeVersion::parse(version).unwrap());
        assert_eq!(at("v1.20.0"), None);
        assert_eq!(
            at("v1.21.0").unwrap(),
            "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"
        );
        assert_eq!(warning("batch/v1", "CronJob", &KubeVersion::parse("v1.37.0").unwrap()), None);
    }
}
