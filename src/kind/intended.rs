//! The release that a custom resource should have, before there is a record of it.

use std::sync::Arc;

use super::dns;
use super::switches::{RELEASE_NAME, TARGET_NAMESPACE};

/// The settings of a kind for the releases of its custom resources.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseSettings<'a> {
    /// The suffix of their names; may be empty.
    pub suffix: &'a str,
    /// Their namespace, if that is not the one of the custom resource.
    pub namespace: Option<&'a Arc<str>>,
}

/// Namespace and name of the release of the custom resource `namespace`/`name`. `said` gives the text of an annotation. A text
/// that is not the name of a namespace is refused elsewhere, and does not count here.
pub fn intended_release<'a>(
    namespace: &Arc<str>,
    name: &Arc<str>,
    said: impl Fn(&str) -> Option<&'a str>,
    settings: ReleaseSettings<'_>,
) -> (Arc<str>, Arc<str>) {
    let said = |name: &str| said(name).map(str::trim);
    let name = match (said(RELEASE_NAME), settings.suffix) {
        (Some(name), _) => name.into(),
        (None, "") => Arc::clone(name),
        (None, suffix) => format!("{name}{suffix}").into(),
    };
    let target = said(TARGET_NAMESPACE).filter(|text| dns::is_label(text)).map(Into::into);
    let target = target.or_else(|| settings.namespace.cloned());
    (target.unwrap_or_else(|| Arc::clone(namespace)), name)
}

#[cfg(test)]
mod tests {
    use super::{ReleaseSettings, intended_release};
    use crate::kind::switches::{RELEASE_NAME, TARGET_NAMESPACE};
    use std::sync::Arc;

    /// Annotations, settings of the kind, and the expected namespace and name.
    type Row<'a> = (&'a [(&'a str, &'a str)], ReleaseSettings<'a>, (&'a str, &'a str));

    #[test]
    fn annotations_win_over_the_kind_and_the_kind_over_the_custom_resource() {
        let target: Arc<str> = "t".into();
        let with = ReleaseSettings { suffix: "-web", namespace: Some(&target) };
        let none = ReleaseSettings::default();
        let table: [Row<'_>; 4] = [
            (&[], none, ("ns", "app")),
            (&[], with, ("t", "app-web")),
            (&[(RELEASE_NAME, " own "), (TARGET_NAMESPACE, "there")], with, ("there", "own")),
            (&[(TARGET_NAMESPACE, "Not a name")], none, ("ns", "app")),
        ];
        for (annotations, settings, expected) in table {
            let said = |name: &str| annotations.iter().find(|(n, _)| *n == name).map(|(_, text)| *text);
            let found = intended_release(&"ns".into(), &"app".into(), said, settings);
            assert_eq!((&*found.0, &*found.1), expected, "{annotations:?}");
        }
    }
}
