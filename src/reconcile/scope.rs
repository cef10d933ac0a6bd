//! Selects the custom resources that an operator manages.

/// Selects the custom resources that an operator manages, for kinds whose custom resources carry an annotation about
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All custom resources that the operator watches.
    #[default]
    Any,
    /// Those whose annotation is `clusterwide`.
    ClusterWide,
    /// Those without the annotation.
    Namespaced,
}

impl Scope {
    /// Whether the operator manages a custom resource whose annotation has this value (as in coreos' etcd-operator
    /// v0.9.4).
    pub fn has(self, said: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::ClusterWide => said == Some("clusterwide"),
            Self::Namespaced => said.is_none(),
        }
    }
}
