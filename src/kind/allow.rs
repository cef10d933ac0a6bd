//! `allow` of `watches.yaml`: which annotations of a custom resource may reach beyond what the chart's author wrote.
//!
//! An editor of a custom resource can cause only what the chart's author allowed. Most switches are within that: they say when and how
//! often the chart's own objects are applied. The annotations in this file change which objects exist, their content,
//! or the owner of the Secrets that are read, with the operator's rights. So such an annotation has an effect only if
//! `watches.yaml` allows it for the kind; `watches.yaml` itself needs no permission.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::depends_on;
use super::ignore::IGNORE_DRIFT;
use super::switches::{CRDS, PATCHES, RELEASE_NAME, TAKE_OWNERSHIP};
use super::values_from;
use crate::names::{CHART_VERSION, SERVICE_ACCOUNT, TARGET_NAMESPACE};
use crate::object::field_error::FieldError;

/// A switch that reaches beyond the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// An earlier version of the chart.
    ChartVersion,
    /// Definitions in `crds/`.
    Crds,
    /// Other custom resources that must be ready first, and values from their status.
    DependsOn,
    /// Fields that the operator leaves to other clients.
    IgnoreDrift,
    /// Patches of the rendered objects.
    Patches,
    /// The name of the release.
    ReleaseName,
    /// The account with whose rights the release is handled.
    ServiceAccount,
    /// Objects and releases that exist are taken over.
    TakeOwnership,
    /// The namespace of the release.
    TargetNamespace,
    /// Values in Secrets and `ConfigMap`s.
    ValuesFrom,
}

impl Reach {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 10] = [
        Self::ChartVersion,
        Self::Crds,
        Self::DependsOn,
        Self::IgnoreDrift,
        Self::Patches,
        Self::ReleaseName,
        Self::ServiceAccount,
        Self::TakeOwnership,
        Self::TargetNamespace,
        Self::ValuesFrom,
    ];

    /// Its name in `allow`.
    pub fn field(self) -> &'static str {
        match self {
            Self::ChartVersion => "chartVersion",
            Self::Crds => "crds",
            Self::DependsOn => "dependsOn",
            Self::IgnoreDrift => "ignoreDrift",
            Self::Patches => "patches",
            Self::ReleaseName => "releaseName",
            Self::ServiceAccount => "serviceAccount",
            Self::TakeOwnership => "takeOwnership",
            Self::TargetNamespace => "targetNamespace",
            Self::ValuesFrom => "valuesFrom",
        }
    }

    /// Its annotation on a custom resource.
    pub fn annotation(self) -> &'static str {
        match self {
            Self::ChartVersion => CHART_VERSION,
            Self::Crds => CRDS,
            Self::DependsOn => depends_on::ANNOTATION,
            Self::IgnoreDrift => IGNORE_DRIFT,
            Self::Patches => PATCHES,
            Self::ReleaseName => RELEASE_NAME,
            Self::ServiceAccount => SERVICE_ACCOUNT,
            Self::TakeOwnership => TAKE_OWNERSHIP,
            Self::TargetNamespace => TARGET_NAMESPACE,
            Self::ValuesFrom => values_from::ANNOTATION,
        }
    }

    /// The power that it gives an editor of a custom resource, as a sentence for `tillerman lint`.
    pub fn opens(self) -> &'static str {
        match self {
            Self::ChartVersion => {
                "an editor of a custom resource can choose any version of the chart that is kept, also one with known faults"
            }
            Self::Crds => {
                "an editor of a custom resource can replace the cluster's definitions that the chart's crds/ names, for all namespaces"
            }
            Self::DependsOn => {
                "an editor of a custom resource can read the status of every custom resource of its namespace that this operator serves, by \
                 values that the chart shows"
            }
            Self::IgnoreDrift => {
                "an editor of a custom resource can leave fields of the chart's objects to others; the operator no longer repairs them"
            }
            Self::Patches => {
                "an editor of a custom resource can set any field of the chart's objects, such as the image and the service account of a \
                 pod or the rules of a role, with the operator's rights"
            }
            Self::ReleaseName => {
                "an editor of a custom resource can choose the name of the release, and with it the names of the objects that the \
                 chart derives from it"
            }
            Self::ServiceAccount => {
                "an editor of a custom resource can make the operator use the rights of any service account of its \
                 namespace for the release, instead of those that the kind names"
            }
            Self::TakeOwnership => {
                "an editor of a custom resource can take over objects that exist and belong to no release, and delete them with it"
            }
            Self::TargetNamespace => {
                "an editor of a custom resource can put the release, with its record, into every namespace that the \
                 field namespaces of the kind names"
            }
            Self::ValuesFrom => {
                "an editor of a custom resource can read every Secret and ConfigMap of its namespace, by values that the chart shows"
            }
        }
    }
}

/// The switches that an annotation may set; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow(BTreeSet<Reach>);

impl Allow {
    /// Reads the field.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        let known = || Reach::ALL.map(Reach::field).join(", ");
        let items = match value {
            Value::Null => return Ok(Self::default()),
            Value::Array(items) => items,
            _ => return Err(FieldError::must_be("allow", format!("a list of: {}", known()))),
        };
        let read = |item: &Value| {
            let found = item.as_str().and_then(|text| Reach::ALL.into_iter().find(|reach| reach.field() == text));
            found.ok_or_else(|| FieldError::must_be(format!("allow: {item}"), format!("one of {}", known())))
        };
        items.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Everything.
    pub fn all() -> Self {
        Self(Reach::ALL.into())
    }

    /// The annotations that are allowed.
    pub fn iter(&self) -> impl Iterator<Item = Reach> {
        self.0.iter().copied()
    }

    /// Removes the annotations that are not allowed from a custom resource, and returns them: later code that reads the
    /// annotations cannot act on them.
    pub fn take_refused<K: Ord + std::borrow::Borrow<str>, V>(&self, annotations: &mut BTreeMap<K, V>) -> Vec<Reach> {
        let mut refused = |reach: &Reach| !self.0.contains(reach) && annotations.remove(reach.annotation()).is_some();
        Reach::ALL.into_iter().filter(|reach| refused(reach)).collect()
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.iter().map(Reach::field).collect::<Vec<_>>().join(", "))
    }
}

/// The message about annotations that are not allowed; `None` when there are none.
pub fn describe(refused: &[Reach]) -> Option<String> {
    let names: Vec<&str> = refused.iter().map(|reach| reach.annotation()).collect();
    let (what, change) = match names.as_slice() {
        [] => return None,
        [one] => (format!("the annotation {one}"), "changes"),
        many => (format!("the annotations {}", many.join(", ")), "change"),
    };
    let allow = Allow(refused.iter().copied().collect());
    Some(format!(
        "{what} {change} nothing: the operator does not allow it for this kind. To allow it, set allow: {allow} for \
         the kind in the operator's watches.yaml"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Allow, Reach, describe};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn nothing_is_allowed_that_is_not_named() {
        let annotations = || -> BTreeMap<Box<str>, Box<str>> {
            let names = Reach::ALL.map(Reach::annotation).into_iter().chain(["tillerman.dev/paused", "a"]);
            names.map(|name| (name.into(), "x".into())).collect()
        };
        let mut left = annotations();
        assert_eq!(Allow::default().take_refused(&mut left), Reach::ALL);
        assert_eq!(left.keys().map(|key| &**key).collect::<Vec<_>>(), ["a", "tillerman.dev/paused"]);
        let mut left = annotations();
        let all = [
            "chartVersion",
            "patches",
            "valuesFrom",
            "crds",
            "dependsOn",
            "ignoreDrift",
            "takeOwnership",
            "serviceAccount",
            "targetNamespace",
        ];
        let allow = Allow::read(&json!(all)).unwrap();
        assert_eq!(allow.take_refused(&mut left), [Reach::ReleaseName]);
        assert!(left.contains_key("tillerman.dev/patches"));
        assert_eq!(Allow::all().take_refused(&mut annotations()), []);
    }

    #[test]
    fn what_is_not_allowed_names_the_field_to_set() {
        assert_eq!(describe(&[]), None);
        let one = describe(&[Reach::Patches]).unwrap();
        assert!(one.starts_with("the annotation tillerman.dev/patches changes nothing: "), "{one}");
        assert!(one.ends_with("set allow: [patches] for the kind in the operator's watches.yaml"), "{one}");
        let two = describe(&[Reach::Crds, Reach::ValuesFrom]).unwrap();
        assert!(two.contains("tillerman.dev/crds, tillerman.dev/values-from change nothing"), "{two}");
        assert!(two.contains("allow: [crds, valuesFrom]"), "{two}");
    }

    #[test]
    fn a_name_that_is_none_is_an_error_with_those_that_are() {
        for (value, expected) in [
            (
                json!(["patch"]),
                "allow: \"patch\" must be one of chartVersion, crds, dependsOn, ignoreDrift, patches, releaseName, serviceAccount, takeOwnership, targetNamespace, valuesFrom",
            ),
            (
                json!("patches"),
                "allow must be a list of: chartVersion, crds, dependsOn, ignoreDrift, patches, releaseName, serviceAccount, takeOwnership, targetNamespace, valuesFrom",
            ),
        ] {
            assert_eq!(Allow::read(&value).unwrap_err().to_string(), expected);
        }
        assert_eq!(Allow::read(&json!(null)), Ok(Allow::default()));
    }
}
