//! Paths to a field of an object: a small part of the `JSONPath` that printer columns of Kubernetes use.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds::BoundsError;
use crate::object::field_error::FieldError;

/// Bytes of a path.
const MAX_BYTES: usize = 256;
/// Steps of a path.
const MAX_STEPS: usize = 16;

/// The form of a path, for errors.
const FORM: &str = "a path: a path is like .status.phase, with [0] for an item, ['a.b/c'] for a key with dots, and \
                    [?(@.type==\"Ready\")] for the first item with such a field";

/// A path such as `.status.loadBalancer.ingress[0].ip` or `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPath {
    text: Box<str>,
    steps: Vec<Step>,
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// `.key` or `['key']`: a field of an object.
    Key(Box<str>),
    /// `[0]`: an item of a list.
    Item(usize),
    /// `[?(@.key=="text")]`: the first item of a list whose field has this text.
    Where { key: Box<str>, text: Box<str> },
}

impl FieldPath {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        if text.len() > MAX_BYTES {
            return Err(BoundsError::Bytes { found: text.len(), limit: MAX_BYTES }.into());
        }
        let wrong = || FieldError::is_not(format!("{text:?}"), FORM);
        let mut steps = Vec::new();
        let mut left = text;
        while !left.is_empty() {
            let (step, rest) = step(left).ok_or_else(wrong)?;
            steps.push(step);
            left = rest;
        }
        if steps.is_empty() {
            return Err(wrong());
        }
        if steps.len() > MAX_STEPS {
            return Err(format!("it has {} steps; the limit is {MAX_STEPS}", steps.len()).into());
        }
        Ok(Self { text: text.into(), steps })
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value at the path. A field that is null counts as missing.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        Self::follow(&self.steps, value)
    }

    /// The value at the path in the fields of an object.
    pub fn find_in<'v>(&self, fields: &'v Map<String, Value>) -> Option<&'v Value> {
        let Some((Step::Key(first), rest)) = self.steps.split_first() else { return None };
        Self::follow(rest, fields.get(&**first)?)
    }

    fn follow<'v>(steps: &[Step], value: &'v Value) -> Option<&'v Value> {
        let into = |value: &'v Value, step: &Step| match step {
            Step::Key(key) => value.as_object()?.get(&**key),
            Step::Item(at) => value.as_array()?.get(*at),
            Step::Where { key, text } => {
                value.as_array()?.iter().find(|item| item.get(&**key).and_then(Value::as_str) == Some(text))
            }
        };
        steps.iter().try_fold(value, into).filter(|found| !found.is_null())
    }
}

impl TryFrom<String> for FieldPath {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        Self::parse(&text)
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.text.into()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first step of a text, and what follows it.
fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(key) = text.strip_prefix('.') {
        let end = key.find(['.', '[']).unwrap_or(key.len());
        let (key, rest) = key.split_at(end);
        return is_key(key).then(|| (Step::Key(key.into()), rest));
    }
    let inner = text.strip_prefix('[')?;
    if let Some(condition) = inner.strip_prefix("?(@.") {
        let (key, rest) = condition.split_once("==")?;
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (wanted, rest) = rest[1..].split_once(quote)?;
        let rest = rest.strip_prefix(")]")?;
        return is_key(key).then(|| (Step::Where { key: key.into(), text: wanted.into() }, rest));
    }
    if let Some(quoted) = inner.strip_prefix('\'') {
        let (key, rest) = quoted.split_once("']")?;
        return (!key.is_empty()).then(|| (Step::Key(key.into()), rest));
    }
    let (number, rest) = inner.split_once(']')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    Some((Step::Item(number.parse().ok().filter(|_| is_number)?), rest))
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::FieldPath;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_a_field() {
        let object = json!({"metadata": {"annotations": {"a.b/c": "d"}}, "status": {"phase": "Running", "nothing": null,
            "ingress": [{"ip": "10.0.0.1"}], "conditions": [{"type": "A", "status": "0"}, {"type": "Ready", "status": "True"}]}});
        for (path, expected) in [
            (".status.phase", Some(json!("Running"))),
            (".status.ingress[0].ip", Some(json!("10.0.0.1"))),
            (".status.ingress[1].ip", None),
            (".metadata.annotations['a.b/c']", Some(json!("d"))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.type=='B')].status", None),
            (".status.nothing", None),
            (".status.phase.more", None),
        ] {
            assert_eq!(FieldPath::parse(path).unwrap().find(&object), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in
            ["", "status", ".", ".a..b", ".a[", ".a[x]", ".a[-1]", ".a['']", ".a[?(@.b==c)]", ".a b", "[0", ".a[+1]"]
        {
            let why = FieldPath::parse(path).unwrap_err().to_string();
            assert!(why.contains("is not a path"), "{path}: {why}");
        }
        assert!(FieldPath::parse(&".a".repeat(17)).unwrap_err().to_string().contains("the limit is 16"));
        assert!(
            FieldPath::parse(&format!(".{}", "a".repeat(300))).unwrap_err().to_string().contains("the limit is 256")
        );
    }
}
