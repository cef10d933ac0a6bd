//! `rollout` of `watches.yaml`: how the custom resources of a kind move to a new version of its chart.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{duration, selector};
use crate::object::field_error::FieldError;

/// How long a custom resource may take to be ready after it has moved, when nothing else is given.
const DEADLINE: Duration = Duration::from_secs(600);

/// How the custom resources of a kind move to a new version of its chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Those that move first. The others wait until all of these are ready.
    pub canary: Option<Matcher>,
    /// How many may be moving at the same time.
    pub max_concurrent: usize,
    /// How many may fail before no further one moves.
    pub max_failures: usize,
    /// How long a custom resource that has moved must be ready before the next one takes its place.
    pub pause: Duration,
    /// How long a custom resource may take to be ready after it has moved. One that takes longer has failed.
    pub deadline: Duration,
    /// The action when too many fail.
    pub on_failure: OnFailure,
    /// No further custom resource moves.
    pub paused: bool,
}

/// The action when too many custom resources fail.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum OnFailure {
    /// No further one moves.
    #[default]
    Stop,
    /// Every custom resource that has moved goes back to the chart before.
    RollBack,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    canary: Option<Value>,
    max_concurrent: Option<usize>,
    #[serde(default)]
    max_failures: usize,
    pause: Option<String>,
    deadline: Option<String>,
    #[serde(default)]
    on_failure: OnFailure,
    #[serde(default)]
    paused: bool,
}

impl Rollout {
    /// Reads the field.
    ///
    /// # Errors
    /// The fault and its field.
    pub fn read(value: &Value) -> Result<Option<Self>, FieldError> {
        if value.is_null() {
            return Ok(None);
        }
        let fields: Fields = serde_json::from_value(value.clone()).map_err(FieldError::within("rollout"))?;
        let time = |name: &str, text: Option<String>, default: Duration| match text {
            None => Ok(default),
            Some(text) => duration::parse(&text).map_err(FieldError::within(format!("rollout.{name}"))),
        };
        let max_concurrent = fields.max_concurrent.unwrap_or(1);
        if max_concurrent == 0 {
            let why = "it must be 1 or more; paused: true stops a roll-out";
            return Err(FieldError::within("rollout.maxConcurrent")(why));
        }
        let canary = fields.canary.as_ref().map(Matcher::read).transpose();
        Ok(Some(Self {
            canary: canary.map_err(FieldError::within("rollout.canary"))?,
            max_concurrent,
            max_failures: fields.max_failures,
            pause: time("pause", fields.pause, Duration::ZERO)?,
            deadline: time("deadline", fields.deadline, DEADLINE)?,
            on_failure: fields.on_failure,
            paused: fields.paused,
        }))
    }
}

/// A `metav1.LabelSelector` that is matched here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Exists,
    DoesNotExist,
}

impl Matcher {
    fn read(value: &Value) -> Result<Self, FieldError> {
        // The same errors as for a selector that the API server matches.
        if selector::text(value)?.is_none() {
            return Err("it is empty: give matchLabels or matchExpressions".into());
        }
        let word = |value: &Value| Box::<str>::from(value.as_str().unwrap_or_default());
        let labels = value.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let mut terms: Vec<Term> =
            labels.map(|(key, value)| Term { key: key.as_str().into(), test: Test::In(vec![word(value)]) }).collect();
        for expression in value.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let values = || {
                let values = expression.get("values").and_then(Value::as_array);
                values.into_iter().flatten().map(word).collect::<Vec<_>>()
            };
            let test = match expression["operator"].as_str() {
                Some("In") => Test::In(values()),
                Some("NotIn") => Test::NotIn(values()),
                Some("Exists") => Test::Exists,
                _ => Test::DoesNotExist,
            };
            terms.push(Term { key: word(&expression["key"]), test });
        }
        Ok(Self(terms))
    }

    /// Whether an object with these labels is selected. An object without a label matches `NotIn`, as in Kubernetes.
    pub fn matches(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        self.0.iter().all(|term| {
            let value = labels.get(&term.key);
            match &term.test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Matcher, OnFailure, Rollout};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn what_is_not_given_has_a_careful_default() {
        assert_eq!(Rollout::read(&json!(null)), Ok(None));
        let read = Rollout::read(&json!({})).unwrap().unwrap();
        assert_eq!((read.max_concurrent, read.max_failures, read.paused), (1, 0, false));
        assert_eq!((read.pause, read.deadline), (Duration::ZERO, Duration::from_secs(600)));
        assert_eq!(read.on_failure, OnFailure::Stop);
        let read = json!({"maxConcurrent": 5, "maxFailures": 2, "pause": "1m", "deadline": "90s",
            "onFailure": "RollBack", "canary": {"matchLabels": {"tier": "canary"}}});
        let read = Rollout::read(&read).unwrap().unwrap();
        assert_eq!((read.max_concurrent, read.max_failures), (5, 2));
        assert_eq!((read.pause, read.deadline), (Duration::from_secs(60), Duration::from_secs(90)));
        assert_eq!(read.on_failure, OnFailure::RollBack);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (given, part) in [
            (json!([]), "rollout: "),
            (json!({"maxConcurent": 1}), "unknown field `maxConcurent`"),
            (json!({"maxConcurrent": 0}), "rollout.maxConcurrent: it must be 1 or more"),
            (json!({"pause": "soon"}), "rollout.pause: "),
            (json!({"onFailure": "Panic"}), "unknown variant `Panic`"),
            (json!({"canary": {}}), "rollout.canary: it is empty"),
            (json!({"canary": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}), "rollout.canary: the operator"),
        ] {
            let why = Rollout::read(&given).expect_err(&given.to_string()).to_string();
            assert!(why.contains(part), "{given}: {why}");
        }
    }

    #[test]
    fn labels_are_matched_as_kubernetes_matches_them() {
        let labels = [("a".into(), "1".into()), ("b".into(), "2".into())].into();
        for (selector, matches) in [
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "b": "1"}}), false),
            (json!({"matchLabels": {"c": "1"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), false),
        ] {
            assert_eq!(Matcher::read(&selector).unwrap().matches(&labels), matches, "{selector}");
        }
    }
}
