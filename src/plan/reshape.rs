//! Fields of which an object may have only one, such as the handlers of a probe or the sources of a volume. When a chart changes from one
//! to another, the old one stays: the API server filled it in, or another client set it, so our apply does not remove
//! it. The two together are invalid. `kubectl apply` and Helm, on the client's side, remove it by what the API server
//! calls `retainKeys`.
//!
//! The API server names the invalid field. Its siblings that are not in the chart are removed.

use serde_json::{Map, Value, json};

use crate::release::fields::Fields;

/// Names of objects, and of lists of objects, in which one of several fields may be there.
const ONE_OF: [&str; 14] = [
    "backend",
    "defaultBackend",
    "env",
    "livenessProbe",
    "postStart",
    "preStop",
    "readinessProbe",
    "startupProbe",
    "strategy",
    "updateStrategy",
    "valueFrom",
    "volumes",
    "conversion",
    "scaleTargetRef",
];

/// The fields to remove before an object can have its new shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshaped {
    /// The fields to remove.
    pub fields: Fields,
    /// The same as people write them.
    pub paths: Vec<String>,
    /// The object that is sent then, without the `null`s by which the chart asks for the absence of such a field.
    pub body: Map<String, Value>,
}

/// The fields of a live object that conflict with the wanted object, by the fields that the API server called invalid. `None` when there
/// is nothing to remove.
pub fn reshape(wanted: &Map<String, Value>, live: &Value, invalid: &[String]) -> Option<Reshaped> {
    let mut body = Value::Object(wanted.clone());
    let mut found = Found { fields: json!({}), paths: Vec::new() };
    for path in invalid {
        let steps = steps(path);
        let Some((last, parents)) = steps.split_last() else { continue };
        walk(&mut body, live, parents, last, &mut Trail::default(), &mut found);
    }
    let Value::Object(body) = body else { return None };
    if found.paths.is_empty() && body == *wanted {
        return None;
    }
    found.paths.sort();
    found.paths.dedup();
    Some(Reshaped { fields: Fields::read(&found.fields), paths: found.paths, body })
}

/// The parts of `spec.template.spec.containers[0].env[1].valueFrom`; an item is named by its index, because the API
/// server saw that index.
fn steps(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty() && step.parse::<usize>().is_err()).collect()
}

/// The path to a field: as `fieldsV1` writes it, and as people do.
#[derive(Clone, Default)]
struct Trail {
    keys: Vec<String>,
    text: String,
}

impl Trail {
    fn field(&self, name: &str) -> Self {
        let mut trail = self.clone();
        trail.keys.push(format!("f:{name}"));
        trail.text = if self.text.is_empty() { name.to_owned() } else { format!("{}.{name}", self.text) };
        trail
    }
    fn item(&self, name: &Value) -> Self {
        let mut trail = self.clone();
        trail.keys.push(format!("k:{}", json!({"name": name})));
        trail.text = format!("{}[{}]", self.text, name.as_str().unwrap_or_default());
        trail
    }
}

struct Found {
    fields: Value,
    paths: Vec<String>,
}

fn walk(wanted: &mut Value, live: &Value, steps: &[&str], last: &str, trail: &mut Trail, found: &mut Found) {
    if let (Value::Array(wanted), Value::Array(live)) = (&mut *wanted, live) {
        for item in wanted {
            let Some(name) = item.get("name").filter(|name| name.is_string()).cloned() else { continue };
            let Some(live) = live.iter().find(|live| live.get("name") == Some(&name)) else { continue };
            walk(item, live, steps, last, &mut trail.item(&name), found);
        }
        return;
    }
    match steps {
        [step, rest @ ..] => {
            let (Some(below), Some(live)) = (wanted.get_mut(*step), live.get(*step)) else { return };
            walk(below, live, rest, last, &mut trail.field(step), found);
        }
        [] => leave_one(wanted, live, last, trail, found),
    }
}

/// The object that holds two conflicting fields.
fn leave_one(wanted: &mut Value, live: &Value, last: &str, trail: &Trail, found: &mut Found) {
    let is_item = trail.keys.last().is_some_and(|key| key.starts_with("k:"));
    let at = trail.keys.len().checked_sub(if is_item { 2 } else { 1 });
    let name = at.and_then(|at| trail.keys.get(at)).and_then(|key| key.strip_prefix("f:")).unwrap_or_default();
    let (Some(wanted), Some(live)) = (wanted.as_object_mut(), live.as_object()) else { return };
    let concerns = wanted.contains_key(last) || live.contains_key(last);
    if !ONE_OF.contains(&name) || !concerns {
        return;
    }
    wanted.retain(|_, value| !value.is_null());
    for (key, value) in live.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
        let trail = trail.field(key);
        let mut at = &mut found.fields;
        for key in &trail.keys {
            at = &mut at[key.as_str()];
        }
        *at = owned(value);
        found.paths.push(trail.text);
    }
}

/// A value and all below it as `fieldsV1`.
fn owned(value: &Value) -> Value {
    let Value::Object(map) = value else { return json!({}) };
    let below = map.iter().map(|(key, value)| (format!("f:{key}"), owned(value)));
    std::iter::once((".".to_owned(), json!({}))).chain(below).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::reshape;
    use serde_json::{Value, json};

    fn reshaped(wanted: &Value, live: &Value, invalid: &str) -> Option<(Vec<String>, Value, Value)> {
        let found = reshape(wanted.as_object().unwrap(), live, &[invalid.to_owned()])?;
        Some((found.paths, found.fields.write(), Value::Object(found.body)))
    }

    #[test]
    fn what_does_not_go_with_the_new_shape_goes() {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
        let live = json!({"spec": {"strategy": rolling, "replicas": 1}});
        let wanted = json!({"spec": {"strategy": {"type": "Recreate"}}});
        let (paths, fields, body) = reshaped(&wanted, &live, "spec.strategy.rollingUpdate").unwrap();
        assert_eq!(paths, ["spec.strategy.rollingUpdate"]);
        let expected = json!({"f:spec": {"f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}}}});
        assert_eq!((fields, body), (expected, wanted.clone()));
        // A null counts as absent.
        let with_null = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
        assert_eq!(reshaped(&with_null, &live, "spec.strategy.rollingUpdate").unwrap().2, wanted);
    }

    #[test]
    fn items_are_found_by_name_whatever_their_index_is() {
        let containers = |env: Value| json!({"spec": {"containers": [{"name": "c", "env": env}]}});
        let live = containers(json!([{"name": "A", "value": "1"}, {"name": "HAND", "value": "1"}]));
        let wanted = containers(json!([{"name": "HAND", "valueFrom": {"x": 1}}, {"name": "A", "value": "2"}]));
        let (paths, fields, _) = reshaped(&wanted, &live, "spec.containers[0].env[0].valueFrom").unwrap();
        assert_eq!(paths, ["spec.containers[c].env[HAND].value"]);
        let expected = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:env": {"k:{\"name\":\"HAND\"}":
            {"f:value": {}}}}}}});
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_may_stand_beside_others_stays() {
        let live = json!({"spec": {"template": {"spec": {"dnsPolicy": "Default", "restartPolicy": "Always"}}}});
        let wanted = json!({"spec": {"template": {"spec": {"restartPolicy": "Sometimes"}}}});
        assert_eq!(reshaped(&wanted, &live, "spec.template.spec.restartPolicy"), None);
        let same = json!({"spec": {"strategy": {"type": "Odd"}}});
        assert_eq!(reshaped(&same, &same, "spec.strategy.type"), None);
        assert_eq!(reshaped(&same, &json!({}), ""), None);
    }
}
