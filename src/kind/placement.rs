//! `namespaces` and `clusterScoped` of `watches.yaml`: where the objects of a kind's charts may be.
//!
//! Many charts take the namespaces of their objects from values. So the editor of a custom resource chooses them, and the operator's rights
//! reach everywhere. These bounds hold for applied objects, for hooks and operations, and for lookups of templates. Definitions in
//! `crds/` are the chart's own files, which no value changes; the switch `crds` decides about them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::dns;
use crate::object::Gvk;
use crate::object::field_error::FieldError;

/// Where objects may be. The default bounds nothing, as in helm-operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The namespaces of namespaced objects.
    pub namespaces: Namespaces,
    /// Objects of cluster-scoped kinds.
    pub cluster_scoped: ClusterScoped,
    /// `targetNamespace`: the namespace of the releases, where that is not the namespace of the custom resource. Objects may be there.
    pub target: Option<Box<str>>,
}

/// Namespaces in which objects may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// All.
    #[default]
    Any,
    /// That of the custom resource, or `targetNamespace`.
    Own,
    /// The same, and these.
    Named(BTreeSet<Box<str>>),
}

/// Cluster-scoped objects that there may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterScoped {
    /// All.
    #[default]
    Any,
    /// None.
    Nothing,
    /// Those of these kinds: `ClusterRole` or `ClusterRole.rbac.authorization.k8s.io`.
    Kinds(BTreeSet<Box<str>>),
}

/// A place in which an object is, or is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A namespace.
    In(&'a str),
    /// All namespaces, as a lookup lists them.
    All,
    /// The kind is cluster-scoped.
    Cluster,
}

/// Why an object or a release cannot be in a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The object has a cluster-scoped kind.
    #[error(
        "{0} is cluster-scoped, and the operator does not allow that for this kind (clusterScoped in watches.yaml)"
    )]
    Cluster(String),
    /// The object is in another namespace.
    #[error(
        "{what} is in namespace {namespace}, and the operator does not allow that for this kind (namespaces in watches.yaml)"
    )]
    Namespace {
        /// The object.
        what: String,
        /// Its namespace.
        namespace: String,
    },
    /// A template looks up objects of all namespaces.
    #[error(
        "{0} is looked up in all namespaces, and the operator does not allow that for this kind (namespaces in watches.yaml)"
    )]
    AllNamespaces(String),
    /// The release is in another namespace.
    #[error(
        "the release cannot be in namespace {0}: the operator does not allow that for this kind (namespaces in watches.yaml)"
    )]
    Release(String),
}

impl Namespaces {
    /// Reads `own`, `any` or a list of names.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        match value {
            Value::Null => Ok(Self::Any),
            Value::String(text) if text == "any" => Ok(Self::Any),
            Value::String(text) if text == "own" => Ok(Self::Own),
            Value::Array(names) => names_of(names).map(Self::Named).ok_or(()),
            _ => Err(()),
        }
        .map_err(|()| FieldError::must_be("namespaces", "own, any or a list of names"))
    }
}

impl ClusterScoped {
    /// Reads a boolean or a list of kinds.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        match value {
            Value::Null | Value::Bool(true) => Ok(Self::Any),
            Value::Bool(false) => Ok(Self::Nothing),
            Value::Array(kinds) => names_of(kinds).map(Self::Kinds).ok_or(()),
            _ => Err(()),
        }
        .map_err(|()| FieldError::must_be("clusterScoped", "true, false or a list of kinds"))
    }
}

/// Reads the name of the namespace of a release.
///
/// # Errors
/// It is none.
pub fn target(text: &str) -> Result<Box<str>, FieldError> {
    let wrong = || FieldError::is_not(format!("{text:?}"), "a name of a namespace");
    dns::is_label(text).then(|| text.into()).ok_or_else(wrong)
}

fn names_of(items: &[Value]) -> Option<BTreeSet<Box<str>>> {
    items.iter().map(|item| item.as_str().filter(|text| !text.is_empty()).map(Into::into)).collect()
}

impl Placement {
    /// Whether an object of a custom resource in the namespace `own` may be there. The error begins with `what`.
    pub fn check(&self, gvk: &Gvk, place: Place<'_>, own: &str, what: &str) -> Result<(), PlacementError> {
        let allowed = match (&self.namespaces, place) {
            (_, Place::Cluster) => match &self.cluster_scoped {
                ClusterScoped::Any => true,
                ClusterScoped::Nothing => false,
                ClusterScoped::Kinds(kinds) => kinds.contains(&*gvk.kind) || kinds.contains(&*gvk.kind_group()),
            },
            (Namespaces::Any, _) => true,
            (_, Place::In(namespace)) if namespace == own || Some(namespace) == self.target.as_deref() => true,
            (Namespaces::Named(names), Place::In(namespace)) => names.contains(namespace),
            (_, Place::In(_) | Place::All) => false,
        };
        if allowed {
            return Ok(());
        }
        let what = what.to_owned();
        Err(match place {
            Place::Cluster => PlacementError::Cluster(what),
            Place::In(namespace) => PlacementError::Namespace { what, namespace: namespace.to_owned() },
            Place::All => PlacementError::AllNamespaces(what),
        })
    }

    /// Whether the release of a custom resource in the namespace `own` may be in the namespace `target`, which an annotation names.
    pub fn check_target(&self, target: &str, own: &str) -> Result<(), PlacementError> {
        let allowed = match &self.namespaces {
            Namespaces::Any => true,
            Namespaces::Own => false,
            Namespaces::Named(names) => names.contains(target),
        };
        if allowed || target == own || Some(target) == self.target.as_deref() {
            return Ok(());
        }
        Err(PlacementError::Release(target.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterScoped, Namespaces, Place, Placement};
    use crate::object::Gvk;
    use serde_json::{Value, json};

    fn placement(namespaces: &Value, cluster_scoped: &Value) -> Placement {
        Placement {
            namespaces: Namespaces::read(namespaces).unwrap(),
            cluster_scoped: ClusterScoped::read(cluster_scoped).unwrap(),
            target: None,
        }
    }

    #[test]
    fn objects_may_be_where_the_kind_says() {
        let role = Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole");
        let map = Gvk::new("", "v1", "ConfigMap");
        let none = Value::Null;
        for (namespaces, cluster, gvk, place, expected) in [
            (none.clone(), none.clone(), &map, Place::In("kube-system"), true),
            (none.clone(), none.clone(), &map, Place::All, true),
            (none.clone(), none.clone(), &role, Place::Cluster, true),
            (json!("own"), none.clone(), &map, Place::In("ns"), true),
            (json!("own"), none.clone(), &map, Place::In("other"), false),
            (json!("own"), none.clone(), &map, Place::All, false),
            (json!("own"), none.clone(), &role, Place::Cluster, true),
            (json!(["other"]), none.clone(), &map, Place::In("other"), true),
            (json!(["other"]), none.clone(), &map, Place::In("ns"), true),
            (json!(["other"]), none.clone(), &map, Place::In("third"), false),
            (json!(["other"]), none.clone(), &map, Place::All, false),
            (none.clone(), json!(false), &role, Place::Cluster, false),
            (none.clone(), json!(["ClusterRole"]), &role, Place::Cluster, true),
            (none.clone(), json!(["ClusterRole.rbac.authorization.k8s.io"]), &role, Place::Cluster, true),
            (none.clone(), json!(["ClusterRole.other"]), &role, Place::Cluster, false),
        ] {
            let allowed = placement(&namespaces, &cluster).check(gvk, place, "ns", "it").is_ok();
            assert_eq!(allowed, expected, "{namespaces} {cluster} {place:?}");
        }
        let refused = placement(&json!("own"), &none).check(&map, Place::In("x"), "ns", "ConfigMap a").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "ConfigMap a is in namespace x, and the operator does not allow that for this kind (namespaces in watches.yaml)"
        );
    }

    #[test]
    fn a_release_may_be_where_its_objects_may_be() {
        for (namespaces, target, expected) in [
            (Value::Null, "other", true),
            (json!("own"), "other", false),
            (json!("own"), "ns", true),
            (json!("own"), "apps", true),
            (json!(["other"]), "other", true),
            (json!(["other"]), "third", false),
        ] {
            let placement = Placement { target: Some("apps".into()), ..placement(&namespaces, &Value::Null) };
            assert_eq!(placement.check_target(target, "ns").is_ok(), expected, "{namespaces} {target}");
            let map = Gvk::new("", "v1", "ConfigMap");
            assert_eq!(placement.check(&map, Place::In(target), "ns", "it").is_ok(), expected, "{namespaces} {target}");
        }
    }

    #[test]
    fn a_bound_that_cannot_be_read_is_an_error() {
        assert_eq!(
            Namespaces::read(&json!("mine")).unwrap_err().to_string(),
            "namespaces must be own, any or a list of names"
        );
        assert_eq!(
            Namespaces::read(&json!([1])).unwrap_err().to_string(),
            "namespaces must be own, any or a list of names"
        );
        assert_eq!(
            ClusterScoped::read(&json!("no")).unwrap_err().to_string(),
            "clusterScoped must be true, false or a list of kinds"
        );
    }
}
