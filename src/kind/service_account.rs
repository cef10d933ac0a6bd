//! The `ServiceAccount` with whose rights a release is handled: `serviceAccount` of `watches.yaml`, and an annotation.
//!
//! The API server checks every request about the objects of a release against the rights of this account, so neither the chart nor the
//! values can cause more than that. An annotation that cannot be read does not lead back to the rights of the operator.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::dns;
use crate::bounds;
use crate::names;
use crate::object::field_error::FieldError;

/// An account, as `watches.yaml` or an annotation names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its namespace; `None` for that of the custom resource, or of the release where the custom resource is cluster-scoped.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

impl ServiceAccount {
    /// Reads `NAME` or `NAMESPACE/NAME`.
    ///
    /// # Errors
    /// The allowed texts.
    pub fn read(text: &str) -> Result<Self, FieldError> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        if !dns::is_subdomain(name) || !namespace.is_none_or(dns::is_label) {
            let form = "NAME or NAMESPACE/NAME of a service account";
            return Err(FieldError::must_be(format!("{text:?}"), form));
        }
        Ok(Self { namespace: namespace.map(Into::into), name: name.into() })
    }

    /// Reads `NAME`, as the annotation has it: an account of another namespace is for `watches.yaml`.
    ///
    /// # Errors
    /// The allowed texts.
    pub fn read_name(text: &str) -> Result<Self, FieldError> {
        if !dns::is_subdomain(text) {
            let form = "a name of a service account in the same namespace";
            return Err(FieldError::is_not(format!("{text:?}"), form));
        }
        Ok(Self { namespace: None, name: text.into() })
    }

    /// The account of a custom resource with these annotations, of which the kind allows all. `None`: the operator acts with its own
    /// rights.
    ///
    /// # Errors
    /// The annotation cannot be read. Then no request is allowed, with any rights.
    pub fn of<'a>(
        of_kind: Option<&'a Self>,
        annotations: &BTreeMap<Box<str>, Box<str>>,
    ) -> Result<Option<Cow<'a, Self>>, FieldError> {
        match annotations.get(names::SERVICE_ACCOUNT) {
            None => Ok(of_kind.map(Cow::Borrowed)),
            Some(text) => bounds::word(text)
                .map_err(FieldError::from)
                .and_then(|()| Self::read_name(text.trim()))
                .map(|account| Some(Cow::Owned(account)))
                .map_err(FieldError::within(format_args!("annotation {}", names::SERVICE_ACCOUNT))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceAccount;
    use crate::names::SERVICE_ACCOUNT;
    use std::collections::BTreeMap;

    fn account(namespace: Option<&str>, name: &str) -> ServiceAccount {
        ServiceAccount { namespace: namespace.map(Into::into), name: name.into() }
    }

    #[test]
    fn a_kind_names_an_account_of_any_namespace_and_an_annotation_one_of_its_own() {
        assert_eq!(ServiceAccount::read("tenant"), Ok(account(None, "tenant")));
        assert_eq!(ServiceAccount::read("ns/a.b"), Ok(account(Some("ns"), "a.b")));
        for bad in ["", "/", "ns/", "/a", "a/b/c", "a b", "A", "a.b/c", "a\nb", "system:serviceaccount:a:b"] {
            let why = ServiceAccount::read(bad).unwrap_err().to_string();
            assert_eq!(why, format!("{bad:?} must be NAME or NAMESPACE/NAME of a service account"));
            assert!(ServiceAccount::read_name(bad).is_err(), "{bad}");
        }
        assert!(ServiceAccount::read_name("other/a").unwrap_err().to_string().contains("in the same namespace"));
    }

    #[test]
    fn an_annotation_wins_over_the_kind_and_one_that_cannot_be_read_is_an_error() {
        let (kind, none) = (account(Some("ns"), "kind"), BTreeMap::new());
        let with = |text: &str| BTreeMap::from([(SERVICE_ACCOUNT.into(), text.into())]);
        let of = |kind, annotations: &BTreeMap<Box<str>, Box<str>>| {
            ServiceAccount::of(kind, annotations).map(|found| found.map(std::borrow::Cow::into_owned))
        };
        assert_eq!(of(None, &none), Ok(None));
        assert_eq!(of(Some(&kind), &none), Ok(Some(kind.clone())));
        assert_eq!(of(Some(&kind), &with(" own ")), Ok(Some(account(None, "own"))));
        for bad in ["", " ", "ns/kind", "a\u{0}"] {
            let why = of(Some(&kind), &with(bad)).unwrap_err().to_string();
            assert!(why.starts_with("annotation tillerman.dev/service-account: "), "{why}");
        }
    }
}
