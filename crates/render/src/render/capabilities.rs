//! The capabilities that Helm 4.3.1 assumes when it has not asked a cluster.

use super::Capabilities;
use crate::template::go::quote::quoted;

/// The version of `.Capabilities.HelmVersion.Version`: that of the Helm whose output ours equals.
pub const HELM_VERSION: &str = "v4.3.1";
/// The Go version that Helm 4.3.1 is built with here.
pub const GO_VERSION: &str = "go1.26.8";
/// The Kubernetes version of Helm 4.3.1's client.
pub const KUBE_CLIENT_VERSION: &str = "v1.37";
/// The Kubernetes version that Helm 4.3.1 assumes.
const KUBE_VERSION: &str = "v1.37.0";

/// The group versions that Helm 4.3.1's client knows, in its order.
const API_VERSIONS: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

impl Default for Capabilities {
    fn default() -> Self {
        Self { kube_version: KUBE_VERSION.into(), api_versions: API_VERSIONS.iter().map(|v| (*v).to_owned()).collect() }
    }
}

/// A Kubernetes version taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// As given, with a `v` in front (`v1.33.4-gke.1245000`).
    pub version: String,
    /// Without what follows the numbers, for constraints (`v1.33.4`).
    pub normalized: String,
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
}

/// Why a text is not a version of Kubernetes; the texts are between quotes.
#[derive(Debug, thiserror::Error)]
pub enum KubeVersionError {
    /// It does not begin with two numbers.
    #[error("could not parse {0} as version")]
    Malformed(String),
    /// A number is empty, or begins with a zero.
    #[error("illegal zero-prefixed version component {part} in {text}")]
    ZeroPrefixed {
        /// The number.
        part: String,
        /// The whole text.
        text: String,
    },
}

impl KubeVersion {
    /// Reads a version as `k8s.io/apimachinery`'s `ParseGeneric` does: at least two numbers, no leading zeros, then
    /// anything.
    pub fn parse(text: &str) -> Result<Self, KubeVersionError> {
        let malformed = || KubeVersionError::Malformed(quoted(text.as_bytes()));
        let body = text.trim().trim_start_matches('v');
        let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
        let numbers = body[..end].trim_end_matches('.');
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() < 2 {
            return Err(malformed());
        }
        let mut read = Vec::new();
        for part in &parts {
            if part.is_empty() || part.len() > 1 && part.starts_with('0') {
                let (part, text) = (quoted(part.as_bytes()), quoted(text.as_bytes()));
                return Err(KubeVersionError::ZeroPrefixed { part, text });
            }
            read.push(part.parse::<u64>().map_err(|_| malformed())?);
        }
        let normalized = read.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        Ok(Self {
            version: if text.starts_with('v') { text.into() } else { format!("v{text}") },
            normalized: format!("v{normalized}"),
            major: read[0],
            minor: read[1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::KubeVersion;

    #[test]
    fn a_vendor_suffix_is_kept_in_the_version_and_left_out_of_constraints() {
        let v = KubeVersion::parse("1.29.3-gke.100").unwrap();
        assert_eq!(
            (v.version.as_str(), v.normalized.as_str(), v.major, v.minor),
            ("v1.29.3-gke.100", "v1.29.3", 1, 29)
        );
        assert_eq!(KubeVersion::parse("v1.20").unwrap().normalized, "v1.20");
        assert!(KubeVersion::parse("1").is_err());
        assert!(KubeVersion::parse("abc").is_err());
    }
}
