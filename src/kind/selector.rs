//! Label selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::field_error::FieldError;

/// A `metav1.LabelSelector` in the form that list requests take.
pub fn text(value: &Value) -> Result<Option<String>, FieldError> {
    let Some(selector) = value.as_object() else {
        return if value.is_null() { Ok(None) } else { Err(FieldError::must_be("selector", "an object")) };
    };
    let mut terms = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().ok_or("a value of matchLabels must be a string")?));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = expression.get("key").and_then(Value::as_str).ok_or("a matchExpression has no key")?;
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .map(|v| v.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let values = values.join(",");
        terms.push(match expression.get("operator").and_then(Value::as_str) {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.to_owned(),
            Some("DoesNotExist") => format!("!{key}"),
            _ => {
                let form = "In, NotIn, Exists or DoesNotExist";
                return Err(FieldError::must_be("the operator of a matchExpression", form));
            }
        });
    }
    Ok((!terms.is_empty()).then(|| terms.join(",")))
}

/// Whether labels match a selector in the form that [`text`] writes.
pub fn matches(selector: &str, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
    terms(selector).into_iter().all(|term| {
        let value = |key: &str| labels.get(key.trim()).map(|value| &**value);
        let is_listed =
            |list: &str, value: &str| list.trim().trim_matches(['(', ')']).split(',').any(|item| item.trim() == value);
        if let Some((key, list)) = term.split_once(" notin ") {
            value(key).is_none_or(|value| !is_listed(list, value))
        } else if let Some((key, list)) = term.split_once(" in ") {
            value(key).is_some_and(|value| is_listed(list, value))
        } else if let Some((key, wanted)) = term.split_once('=') {
            value(key) == Some(wanted)
        } else if let Some(key) = term.strip_prefix('!') {
            value(key).is_none()
        } else {
            value(term).is_some()
        }
    })
}

/// The terms of a selector. A comma in parentheses ends no term.
fn terms(selector: &str) -> Vec<&str> {
    let mut is_inside = false;
    let split = selector.split(|c| {
        is_inside = if is_inside { c != ')' } else { c == '(' };
        c == ',' && !is_inside
    });
    split.filter(|term| !term.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{matches, text};
    use serde_json::json;

    #[test]
    fn labels_match_a_selector_as_in_a_list_request() {
        let labels = [("a".into(), "1".into()), ("b".into(), "2".into())].into();
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({"matchLabels": {"a": "1", "b": "2"}}), true),
            (json!({"matchLabels": {"a": "1", "b": "3"}}), false),
            (json!({"matchLabels": {"c": ""}}), false),
            (expression("a", "In", &["0", "1"]), true),
            (expression("a", "In", &["0"]), false),
            (expression("a", "NotIn", &["0", "1"]), false),
            (expression("c", "NotIn", &["0"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("c", "Exists", &[]), false),
            (expression("a", "DoesNotExist", &[]), false),
            (expression("c", "DoesNotExist", &[]), true),
        ] {
            let written = text(&selector).unwrap().unwrap();
            assert_eq!(matches(&written, &labels), expected, "{written}");
        }
    }
}
