//! Kinds and their resources: those of Kubernetes, and those of others that charts make and whose plural or scope no rule gives.

/// A kind, and how the API server and roles name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

const fn namespaced(group: &'static str, kind: &'static str, plural: &'static str) -> Row {
    Row { group, kind, plural, namespaced: true }
}

const fn cluster(group: &'static str, kind: &'static str, plural: &'static str) -> Row {
    Row { group, kind, plural, namespaced: false }
}

/// The kinds of Kubernetes 1.36 that can be made and deleted (`api/discovery` of its sources). A test on the API server compares them
/// with what it serves.
pub const BUILT_IN: &[Row] = &[
    namespaced("", "ConfigMap", "configmaps"),
    namespaced("", "Endpoints", "endpoints"),
    namespaced("", "Event", "events"),
    namespaced("", "LimitRange", "limitranges"),
    cluster("", "Namespace", "namespaces"),
    cluster("", "Node", "nodes"),
    cluster("", "PersistentVolume", "persistentvolumes"),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    namespaced("", "Pod", "pods"),
    namespaced("", "PodTemplate", "podtemplates"),
    namespaced("", "ReplicationController", "replicationcontrollers"),
    namespaced("", "ResourceQuota", "resourcequotas"),
    namespaced("", "Secret", "secrets"),
    namespaced("", "Service", "services"),
    namespaced("", "ServiceAccount", "serviceaccounts"),
    cluster("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    cluster("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    cluster("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    cluster("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    cluster("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    cluster("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
    cluster("apiregistration.k8s.io", "APIService", "apiservices"),
    namespaced("apps", "ControllerRevision", "controllerrevisions"),
    namespaced("apps", "DaemonSet", "daemonsets"),
    namespaced("apps", "Deployment", "deployments"),
    namespaced("apps", "ReplicaSet", "replicasets"),
    namespaced("apps", "StatefulSet", "statefulsets"),
    namespaced("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    namespaced("batch", "CronJob", "cronjobs"),
    namespaced("batch", "Job", "jobs"),
    cluster("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests"),
    cluster("certificates.k8s.io", "ClusterTrustBundle", "clustertrustbundles"),
    namespaced("certificates.k8s.io", "PodCertificateRequest", "podcertificaterequests"),
    namespaced("coordination.k8s.io", "Lease", "leases"),
    namespaced("coordination.k8s.io", "LeaseCandidate", "leasecandidates"),
    namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    namespaced("events.k8s.io", "Event", "events"),
    cluster("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas"),
    cluster("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "prioritylevelconfigurations"),
    cluster("networking.k8s.io", "IPAddress", "ipaddresses"),
    namespaced("networking.k8s.io", "Ingress", "ingresses"),
    cluster("networking.k8s.io", "IngressClass", "ingressclasses"),
    namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    cluster("networking.k8s.io", "ServiceCIDR", "servicecidrs"),
    cluster("node.k8s.io", "RuntimeClass", "runtimeclasses"),
    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
    cluster("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    cluster("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings"),
    namespaced("rbac.authorization.k8s.io", "Role", "roles"),
    namespaced("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    cluster("resource.k8s.io", "DeviceClass", "deviceclasses"),
    cluster("resource.k8s.io", "DeviceTaintRule", "devicetaintrules"),
    namespaced("resource.k8s.io", "ResourceClaim", "resourceclaims"),
    namespaced("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates"),
    cluster("resource.k8s.io", "ResourcePoolStatusRequest", "resourcepoolstatusrequests"),
    cluster("resource.k8s.io", "ResourceSlice", "resourceslices"),
    namespaced("scheduling.k8s.io", "PodGroup", "podgroups"),
    cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses"),
    namespaced("scheduling.k8s.io", "Workload", "workloads"),
    cluster("storage.k8s.io", "CSIDriver", "csidrivers"),
    cluster("storage.k8s.io", "CSINode", "csinodes"),
    namespaced("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
    cluster("storage.k8s.io", "StorageClass", "storageclasses"),
    cluster("storage.k8s.io", "VolumeAttachment", "volumeattachments"),
    cluster("storage.k8s.io", "VolumeAttributesClass", "volumeattributesclasses"),
    cluster("storagemigration.k8s.io", "StorageVersionMigration", "storageversionmigrations"),
];

/// Kinds of others. A kind that is not here has the plural that Kubernetes' own generators would give it, and is namespaced.
pub const OTHERS: &[Row] = &[
    namespaced("argoproj.io", "AnalysisTemplate", "analysistemplates"),
    namespaced("argoproj.io", "AppProject", "appprojects"),
    namespaced("argoproj.io", "Application", "applications"),
    cluster("argoproj.io", "ClusterAnalysisTemplate", "clusteranalysistemplates"),
    cluster("argoproj.io", "ClusterWorkflowTemplate", "clusterworkflowtemplates"),
    namespaced("argoproj.io", "EventBus", "eventbus"),
    namespaced("argoproj.io", "Rollout", "rollouts"),
    namespaced("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers"),
    namespaced("bitnami.com", "SealedSecret", "sealedsecrets"),
    namespaced("cert-manager.io", "Certificate", "certificates"),
    cluster("cert-manager.io", "ClusterIssuer", "clusterissuers"),
    namespaced("cert-manager.io", "Issuer", "issuers"),
    namespaced("chaos-mesh.org", "PodChaos", "podchaos"),
    cluster("cilium.io", "CiliumClusterwideNetworkPolicy", "ciliumclusterwidenetworkpolicies"),
    namespaced("cilium.io", "CiliumNetworkPolicy", "ciliumnetworkpolicies"),
    cluster("crd.projectcalico.org", "GlobalNetworkPolicy", "globalnetworkpolicies"),
    cluster("crd.projectcalico.org", "IPPool", "ippools"),
    cluster("external-secrets.io", "ClusterExternalSecret", "clusterexternalsecrets"),
    cluster("external-secrets.io", "ClusterPushSecret", "clusterpushsecrets"),
    cluster("external-secrets.io", "ClusterSecretStore", "clustersecretstores"),
    namespaced("external-secrets.io", "ExternalSecret", "externalsecrets"),
    namespaced("external-secrets.io", "SecretStore", "secretstores"),
    cluster("fluentbit.fluent.io", "ClusterFilter", "clusterfilters"),
    cluster("fluentbit.fluent.io", "ClusterFluentBitConfig", "clusterfluentbitconfigs"),
    cluster("fluentbit.fluent.io", "ClusterInput", "clusterinputs"),
    cluster("fluentbit.fluent.io", "ClusterMultilineParser", "clustermultilineparsers"),
    cluster("fluentbit.fluent.io", "ClusterOutput", "clusteroutputs"),
    cluster("fluentbit.fluent.io", "ClusterParser", "clusterparsers"),
    namespaced("gateway.networking.k8s.io", "GRPCRoute", "grpcroutes"),
    namespaced("gateway.networking.k8s.io", "Gateway", "gateways"),
    cluster("gateway.networking.k8s.io", "GatewayClass", "gatewayclasses"),
    namespaced("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
    namespaced("gateway.networking.k8s.io", "TCPRoute", "tcproutes"),
    namespaced("gateway.networking.k8s.io", "TLSRoute", "tlsroutes"),
    namespaced("k8s.cni.cncf.io", "NetworkAttachmentDefinition", "network-attachment-definitions"),
    cluster("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses"),
    cluster("karpenter.sh", "NodeClaim", "nodeclaims"),
    cluster("karpenter.sh", "NodePool", "nodepools"),
    cluster("keda.sh", "ClusterTriggerAuthentication", "clustertriggerauthentications"),
    namespaced("keda.sh", "ScaledJob", "scaledjobs"),
    namespaced("keda.sh", "ScaledObject", "scaledobjects"),
    namespaced("keda.sh", "TriggerAuthentication", "triggerauthentications"),
    cluster("kyverno.io", "ClusterPolicy", "clusterpolicies"),
    namespaced("monitoring.coreos.com", "Alertmanager", "alertmanagers"),
    namespaced("monitoring.coreos.com", "AlertmanagerConfig", "alertmanagerconfigs"),
    namespaced("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    namespaced("monitoring.coreos.com", "Probe", "probes"),
    namespaced("monitoring.coreos.com", "Prometheus", "prometheuses"),
    namespaced("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    namespaced("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    namespaced("monitoring.coreos.com", "ThanosRuler", "thanosrulers"),
    cluster("monitoring.giantswarm.io", "Silence", "silences"),
    namespaced("monitoring.grafana.com", "PodLogs", "podlogs"),
    namespaced("networking.istio.io", "DestinationRule", "destinationrules"),
    namespaced("networking.istio.io", "ServiceEntry", "serviceentries"),
    namespaced("networking.istio.io", "VirtualService", "virtualservices"),
    cluster("nfd.k8s-sigs.io", "NodeFeatureRule", "nodefeaturerules"),
    cluster("operator.tigera.io", "APIServer", "apiservers"),
    cluster("operator.tigera.io", "Installation", "installations"),
    namespaced("route.openshift.io", "Route", "routes"),
    namespaced("secrets-store.csi.x-k8s.io", "SecretProviderClass", "secretproviderclasses"),
    namespaced("security.istio.io", "AuthorizationPolicy", "authorizationpolicies"),
    namespaced("security.istio.io", "PeerAuthentication", "peerauthentications"),
    cluster("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints"),
    namespaced("snapshot.storage.k8s.io", "VolumeSnapshot", "volumesnapshots"),
    cluster("snapshot.storage.k8s.io", "VolumeSnapshotClass", "volumesnapshotclasses"),
    cluster("snapshot.storage.k8s.io", "VolumeSnapshotContent", "volumesnapshotcontents"),
    cluster("spire.spiffe.io", "ClusterSPIFFEID", "clusterspiffeids"),
    namespaced("tillerman.dev", "Notice", "notices"),
    namespaced("traefik.containo.us", "IngressRoute", "ingressroutes"),
    namespaced("traefik.io", "IngressRoute", "ingressroutes"),
    cluster("trust.cert-manager.io", "Bundle", "bundles"),
    cluster("zalando.org", "ClusterKopfPeering", "clusterkopfpeerings"),
];

/// Whether no supported API server serves a kind, in any version: a chart that makes it cannot be applied.
pub fn is_gone(group: &str, kind: &str) -> bool {
    group == "extensions" || (group, kind) == ("policy", "PodSecurityPolicy")
}

/// A kind by its group.
pub fn of(group: &str, kind: &str) -> Option<&'static Row> {
    BUILT_IN.iter().chain(OTHERS).find(|row| row.group == group && row.kind == kind)
}

/// The groups that a kind of this name is in, those of Kubernetes before others.
pub fn groups(kind: &str) -> Vec<&'static str> {
    let named =
        |rows: &'static [Row]| rows.iter().filter(|row| row.kind == kind).map(|row| row.group).collect::<Vec<_>>();
    let built_in = named(BUILT_IN);
    if built_in.is_empty() { named(OTHERS) } else { built_in }
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, OTHERS, groups, of};
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_is_there_once_and_in_order() {
        for rows in [BUILT_IN, OTHERS] {
            assert!(rows.is_sorted_by_key(|row| (row.group, row.kind)));
        }
        let all: BTreeSet<_> = BUILT_IN.iter().chain(OTHERS).map(|row| (row.group, row.kind)).collect();
        assert_eq!(all.len(), BUILT_IN.len() + OTHERS.len());
    }

    #[test]
    fn a_kind_is_found_by_its_group_and_a_group_by_its_kinds() {
        assert_eq!(of("", "Endpoints").unwrap().plural, "endpoints");
        assert!(!of("cert-manager.io", "ClusterIssuer").unwrap().namespaced);
        assert_eq!(of("cert-manager.io", "Deployment"), None);
        assert_eq!(groups("Ingress"), ["networking.k8s.io"]);
        assert_eq!(groups("Event"), ["", "events.k8s.io"]);
        assert_eq!(groups("ServiceMonitor"), ["monitoring.coreos.com"]);
        assert!(groups("Web").is_empty());
    }
}
