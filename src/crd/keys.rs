//! Keys at the top of a custom resource's values that no part of the chart knows: most of them are misspelt.
//!
//! They cause a warning and no refusal, because a value for the user's own purpose, such as an anchor or a value that
//! the user's own texts read, is not a mistake. Of 512 values files that come with charts, 13 have such a key.

use super::Names;
use super::defaults::subcharts;
use crate::chart::{Chart, Values};
use crate::template::go::usage::{Usage, Ways};
use crate::template::trace;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A value that a text reads, which `tpl` may execute.
static IN_TEXT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\.Values\.([A-Za-z_][A-Za-z0-9_]*)").expect("the pattern is valid"));

/// Keys that are named, at most.
const MOST: usize = 10;
/// Characters of a key that are shown; a longer one is not a misspelt key of a chart.
const LONGEST: usize = 64;

/// The keys that a chart knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known(BTreeSet<String>);

/// The keys that a chart knows; `None` where it uses its values as a whole, so that any key may have a meaning.
pub(super) fn known(chart: &Chart, schema: &Value, defaults: &Values, usage: &Usage) -> Option<Known> {
    // One key that is only known at run time (`index .Values $key`) is not a use of all keys: its name is in the
    // templates.
    let any = Ways::YAML.or(Ways::JSON).or(Ways::RANGE).or(Ways::PASSED).or(Ways::KEYS).or(Ways::TPL_YAML);
    let root = usage.uses.get(&Vec::new()).map_or(Ways::NONE, |uses| uses.ways);
    if root.any(any) {
        return None;
    }
    let mut known: BTreeSet<String> = ["global", "tags"].map(str::to_owned).into();
    known.extend(defaults.keys().cloned());
    known.extend(usage.uses.keys().filter_map(|path| path.first()).map(ToString::to_string));
    known.extend(subcharts(chart).iter().map(|subchart| subchart.key.to_owned()));
    if let Some(Value::Object(properties)) = schema.get("properties") {
        known.extend(properties.keys().cloned());
    }
    defaults.values().for_each(|value| add_named(value, &mut known));
    for file in chart.files.iter().filter(|_| usage.has_tpl) {
        add_named(&Value::String(String::from_utf8_lossy(&file.data).into()), &mut known);
    }
    Some(Known(known))
}

fn add_named(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(IN_TEXT.captures_iter(text).map(|found| found[1].to_owned())),
        Value::Array(items) => items.iter().for_each(|item| add_named(item, names)),
        Value::Object(entries) => entries.values().for_each(|entry| add_named(entry, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Known {
    /// The first keys of values that the chart does not know, each with the known key that may be meant. Values are a user's: no
    /// more than `MOST` keys are compared, and none that is longer than `LONGEST`.
    pub fn unknown(&self, values: &Values) -> Vec<(String, Option<String>)> {
        // Values that the user's own texts read have a meaning.
        let mut named = BTreeSet::new();
        values.values().for_each(|value| add_named(value, &mut named));
        let is_unknown = |key: &&String| {
            !self.0.contains(*key) && !named.contains(*key) && !key.starts_with("x-") && !key.starts_with('.')
        };
        let nearest = |key: &String| {
            let is_short = key.len() <= LONGEST;
            is_short.then(|| trace::nearest(key, self.0.iter().map(String::as_str))).flatten()
        };
        values.keys().filter(is_unknown).take(MOST).map(|key| (key.clone(), nearest(key))).collect()
    }

    /// The messages about [`Known::unknown`] keys: one sentence for each.
    pub fn remarks(&self, values: &Values) -> Vec<String> {
        let remark = |(key, nearest): (String, Option<String>)| {
            let shown: String = key.chars().take(LONGEST).flat_map(char::escape_debug).collect();
            let meant = nearest.map_or(String::new(), |nearest| format!("; did you mean spec.{nearest}?"));
            format!("the chart does not know spec.{shown}{meant}")
        };
        self.unknown(values).into_iter().map(remark).collect()
    }

    /// A validating admission policy and its binding, which warn the author of a custom resource with such a key.
    pub fn policy(&self, names: &Names) -> [Value; 2] {
        let name = format!("unknown-values.{}.{}", names.plural, names.group);
        let known: Vec<String> = self.0.iter().map(|key| Value::from(key.as_str()).to_string()).collect();
        let list = known.join(", ");
        let is_known = format!("k in [{list}] || k.startsWith('x-') || k.startsWith('.')");
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [names.group],
                    "apiVersions": ["*"],
                    "resources": [names.plural],
                    "operations": ["CREATE", "UPDATE"],
                }]},
                "validations": [{
                    "expression": format!("!has(object.spec) || object.spec.all(k, {is_known})"),
                    "messageExpression": format!(
                        "'the chart does not know spec.' + object.spec.map(k, k).filter(k, !({is_known})).join(', spec.') + ': check the spelling'"
                    ),
                }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Warn"]},
        });
        [policy, binding]
    }
}

#[cfg(test)]
mod tests {
    use super::Known;
    use serde_json::{Value, json};

    #[test]
    fn a_misspelt_key_is_unknown_and_the_nearest_is_meant() {
        let known = Known(["replicaCount", "image", "global"].map(str::to_owned).into());
        let Value::Object(values) =
            json!({"replicacount": 1, "image": {}, "x-a": 1, "own": 1, "t": "{{ .Values.own }}"})
        else {
            unreachable!("it is a table")
        };
        assert_eq!(known.unknown(&values), [("replicacount".into(), Some("replicaCount".into())), ("t".into(), None)]);
        assert_eq!(
            known.remarks(&values),
            [
                "the chart does not know spec.replicacount; did you mean spec.replicaCount?",
                "the chart does not know spec.t"
            ]
        );
    }

    #[test]
    fn many_and_long_keys_cost_and_say_little() {
        let known = Known((0..500).map(|n| format!("{n:0>60}")).collect());
        let values =
            (0..20_000).map(|n| (format!("\n{n:x>60}"), json!({}))).chain([("y".repeat(1 << 20), json!(1))]).collect();
        let remarks = known.remarks(&values);
        assert_eq!(remarks.len(), 10);
        assert!(remarks.iter().all(|remark| remark.len() < 400 && !remark.contains('\n')), "{remarks:?}");
        let long = std::iter::once(("y".repeat(1 << 20), json!(1))).collect();
        assert!(known.remarks(&long)[0].len() < 400);
    }
}
