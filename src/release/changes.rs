//! The changes between the values of two revisions, and the values that a custom resource can roll back to.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::digest::{Hasher, Inputs, inputs};
use super::secret::Revision;
use crate::chart::Values;
use crate::render::Capabilities;

/// The names of the values that differ, as paths with dots, sorted. A list counts as one value. Only the place of a
/// value is named, not the value.
pub fn changed_names(before: &Values, after: &Values) -> Vec<String> {
    fn walk(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut BTreeSet<String>) {
        let empty = Map::new();
        match (before, after) {
            (before, after) if before == after => {}
            (Some(Value::Object(before)), Some(Value::Object(after))) => below(path, before, after, found),
            (None, Some(Value::Object(after))) if !after.is_empty() => below(path, &empty, after, found),
            (Some(Value::Object(before)), None) if !before.is_empty() => below(path, before, &empty, found),
            _ => {
                found.insert(path.to_owned());
            }
        }
    }
    fn below(path: &str, before: &Values, after: &Values, found: &mut BTreeSet<String>) {
        for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            walk(&path, before.get(key), after.get(key), found);
        }
    }
    let mut found = BTreeSet::new();
    below("", before, after, &mut found);
    found.into_iter().collect()
}

/// Whether the values of a revision came from the spec of its custom resource, and the kind's `overrideValues`, alone: none from Secrets,
/// `ConfigMap`s or other custom resources. The digest of the inputs proves it, since it holds those apart. `false` also
/// for a revision that another client made, and for one that was made with other capabilities of the API server, where
/// the chart reads them.
pub fn is_of_spec_alone(
    values: &Values,
    revision: &Revision,
    name: &str,
    namespace: &str,
    capabilities: &Capabilities,
) -> bool {
    let (Some(recorded), Some(chart)) = (revision.inputs.as_deref(), revision.chart.as_deref()) else { return false };
    let with = |version: bool, kinds: bool| {
        let mut hasher = Hasher::default();
        if version {
            hasher.text(&capabilities.kube_version);
        }
        if kinds {
            for kind in &capabilities.api_versions {
                hasher.text(kind);
            }
        }
        hasher.finish()
    };
    // Which of them the chart reads is not recorded.
    let read = [String::new(), with(true, false), with(false, true), with(true, true)];
    read.iter()
        .any(|capabilities| inputs(&Inputs { chart, values, name, namespace, capabilities, extras: "" }) == recorded)
}

/// The values of an earlier revision without those that `overrideValues` added: `newest` are the values that the present `spec` gave.
/// Values that are in them and not in the spec came from there.
pub fn without_overrides(mut values: Values, newest: &Values, spec: &Values) -> Values {
    fn remove(values: &mut Values, newest: &Values, spec: &Values) {
        for (key, added) in newest {
            match (values.get_mut(key), spec.get(key)) {
                (Some(value), None) if value == added => {
                    values.shift_remove(key);
                }
                (Some(Value::Object(values)), spec @ (None | Some(Value::Object(_)))) => {
                    if let Value::Object(added) = added {
                        let none = Map::new();
                        remove(values, added, spec.and_then(Value::as_object).unwrap_or(&none));
                    }
                }
                _ => {}
            }
        }
    }
    remove(&mut values, newest, spec);
    values
}

#[cfg(test)]
mod tests {
    use super::{changed_names, is_of_spec_alone, without_overrides};
    use crate::chart::Values;
    use crate::release::digest::{Inputs, inputs};
    use crate::release::secret::Revision;
    use crate::render::Capabilities;
    use serde_json::{Value, json};

    fn values(value: Value) -> Values {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn changed_values_are_named_by_their_paths_and_not_shown() {
        let before =
            values(json!({"a": 1, "b": {"c": "secret", "d": [1, 2]}, "e": {"f": 1}, "same": {"x": 1}, "g": {}}));
        let after =
            values(json!({"a": 1, "b": {"c": "other", "d": [1]}, "h": {"i": {"j": 1}}, "same": {"x": 1}, "g": null}));
        assert_eq!(changed_names(&before, &after), ["b.c", "b.d", "e.f", "g", "h.i.j"]);
        assert!(changed_names(&before, &before).is_empty());
    }

    fn revision(digest: Option<&str>) -> Revision {
        let mut annotations = json!({"tillerman.dev/chart": "c"});
        if let Some(digest) = digest {
            annotations["tillerman.dev/inputs"] = digest.into();
        }
        let labels = json!({"name": "app", "version": "1", "status": "deployed"});
        Revision::read(&json!({"labels": labels, "annotations": annotations})).unwrap().1
    }

    #[test]
    fn values_of_secrets_are_told_from_those_of_the_spec_by_the_digest() {
        let config = values(json!({"a": 1}));
        let capabilities = Capabilities { kube_version: "v1.36.0".into(), api_versions: vec!["v1".into()] };
        let digest = |extras: &str, capabilities: &str| {
            inputs(&Inputs { chart: "c", values: &config, name: "app", namespace: "ns", capabilities, extras })
        };
        let is = |digest: Option<&str>| is_of_spec_alone(&config, &revision(digest), "app", "ns", &capabilities);
        assert!(is(Some(&digest("", ""))));
        let mut hasher = super::Hasher::default();
        hasher.text("v1.36.0");
        assert!(is(Some(&digest("", &hasher.finish()))));
        assert!(!is(Some(&digest("sources", ""))) && !is(None));
        let other = values(json!({"a": 2}));
        assert!(!is_of_spec_alone(&other, &revision(Some(&digest("", ""))), "app", "ns", &capabilities));
    }

    #[test]
    fn what_the_kind_overrides_does_not_get_into_the_spec() {
        let spec = values(json!({"a": 2, "b": {"c": 1}}));
        let newest = values(json!({"a": 2, "b": {"c": 1, "over": true}, "global": {"registry": "r"}}));
        let old = values(json!({"a": 1, "b": {"c": 0, "over": true}, "global": {"registry": "r"}}));
        assert_eq!(without_overrides(old, &newest, &spec), values(json!({"a": 1, "b": {"c": 0}})));
        let moved = values(json!({"a": 1, "global": {"registry": "other"}}));
        assert_eq!(without_overrides(moved.clone(), &newest, &spec), moved);
    }
}
