//! Which custom resources are an operator's.

/// Which custom resources are an operator's, of charts whose custom resources say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All that it watches.
    #[default]
    Any,
    /// Those that say `clusterwide`.
    ClusterWide,
    /// Those that say nothing.
    Namespaced,
}

impl Scope {
    /// Whether a custom resource is the operator's, by what its annotation says (coreos' etcd-operator v0.9.4).
    pub fn has(self, said: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::ClusterWide => said == Some("clusterwide"),
            Self::Namespaced => said.is_none(),
        }
    }
}
