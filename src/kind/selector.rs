//! Label selectors.

use serde_json::Value;

/// A `metav1.LabelSelector` in the form that list requests take.
pub fn text(value: &Value) -> Result<Option<String>, String> {
    let Some(selector) = value.as_object() else {
        return if value.is_null() { Ok(None) } else { Err("selector must be an object".to_owned()) };
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
            _ => return Err("the operator of a matchExpression must be In, NotIn, Exists or DoesNotExist".to_owned()),
        });
    }
    Ok((!terms.is_empty()).then(|| terms.join(",")))
}
