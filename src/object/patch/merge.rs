//! Strategic merge: objects are merged, `null` deletes, lists of Kubernetes' own kinds are merged by their keys
//! (`patchMergeKey` and `x-kubernetes-list-map-keys` of Kubernetes 1.36), all other lists are replaced.

use serde_json::{Map, Value};

use super::PatchError;
use crate::template::budget;

/// Directives of a patch, besides its fields.
const DIRECTIVE: &str = "$patch";

/// Lists of objects with the fields that identify their items. A second field counts only where both items have it.
const KEYS: [(&str, &[&str]); 18] = [
    ("containers", &["name"]),
    ("drivers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("matchConditions", &["name"]),
    ("ownerReferences", &["uid"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("variables", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("webhooks", &["name"]),
];

/// The object merged with the patch; `None` when the patch deletes it.
pub fn merge(
    base: &Map<String, Value>,
    patch: &Map<String, Value>,
    built_in: bool,
) -> Result<Option<Map<String, Value>>, PatchError> {
    match patch.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
        Some("delete") => return Ok(None),
        Some("replace") => return Ok(Some(cleaned(patch))),
        None | Some("merge") => {}
        Some(_) => return Err(format!("{DIRECTIVE} must be one of delete, replace and merge").into()),
    }
    for value in base.values() {
        super::copied(value)?;
    }
    let mut merged = base.clone();
    for (key, change) in patch {
        if key == DIRECTIVE {
            continue;
        }
        if key.starts_with('$') {
            return Err(format!("the directive {key} is not supported").into());
        }
        let result = match (base.get(key), change) {
            (_, Value::Null) => None,
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above, built_in)?.map(Value::Object),
            (_, Value::Object(above)) => merge(&Map::new(), above, built_in)?.map(Value::Object),
            (below, Value::Array(above)) => {
                let below = below.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                Some(Value::Array(list(key, below, above, built_in)?))
            }
            (_, other) => Some(other.clone()),
        };
        match result {
            Some(value) => {
                merged.insert(key.clone(), value);
            }
            None => {
                merged.shift_remove(key);
            }
        }
    }
    Ok(Some(merged))
}

/// The fields that identify the items of a list; `None` when it is replaced as a whole.
fn keys(name: &str, items: &[Value], built_in: bool) -> Option<&'static [&'static str]> {
    if !built_in {
        return None;
    }
    if name == "ports" {
        let has = |key: &str| items.iter().any(|item| item.get(key).is_some());
        return match (has("containerPort"), has("port")) {
            (true, _) => Some(&["containerPort", "protocol"]),
            (false, true) => Some(&["port", "protocol"]),
            (false, false) => None,
        };
    }
    KEYS.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys)
}

fn list(name: &str, base: &[Value], patch: &[Value], built_in: bool) -> Result<Vec<Value>, PatchError> {
    let replaces = |item: &&Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace") && is_bare(item);
    if let Some(mark) = patch.iter().find(replaces) {
        return Ok(patch.iter().filter(|item| *item != mark).cloned().collect());
    }
    if built_in && name == "finalizers" {
        budget::work_of(base.len().saturating_mul(patch.len()))?;
        let rest = base.iter().filter(|item| !patch.contains(item));
        return Ok(patch.iter().chain(rest).cloned().collect());
    }
    let Some(keys) = keys(name, patch, built_in) else { return Ok(patch.to_vec()) };
    let mut left: Vec<&Value> = base.iter().collect();
    // As kustomize: the items that the patch names come first, in its order.
    let mut merged = Vec::new();
    for item in patch {
        // Each item is searched among all remaining items.
        budget::work_of(left.len())?;
        let at = left.iter().position(|below| is_same(below, item, keys));
        let below = at.map(|at| left.remove(at));
        match (below, item) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                merged.extend(merge(below, above, built_in)?.map(Value::Object));
            }
            (None, Value::Object(above)) => merged.extend(merge(&Map::new(), above, built_in)?.map(Value::Object)),
            (_, other) => merged.push(other.clone()),
        }
    }
    merged.extend(left.into_iter().cloned());
    Ok(merged)
}

fn is_same(a: &Value, b: &Value, keys: &[&str]) -> bool {
    let (first, others) = keys.split_first().expect("each list has a key");
    let equal = |key: &str| a.get(key) == b.get(key);
    let compatible = |key: &str| a.get(key).is_none() || b.get(key).is_none() || equal(key);
    a.get(*first).is_some() && equal(first) && others.iter().all(|key| compatible(key))
}

/// An item that is only a directive for the list.
fn is_bare(item: &Value) -> bool {
    item.as_object().is_some_and(|map| map.len() == 1)
}

fn cleaned(patch: &Map<String, Value>) -> Map<String, Value> {
    patch.iter().filter(|(key, _)| *key != DIRECTIVE).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::merge;
    use serde_json::{Value, json};

    fn merged(base: &Value, patch: &Value, built_in: bool) -> Value {
        let (base, patch) = (base.as_object().unwrap(), patch.as_object().unwrap());
        merge(base, patch, built_in).unwrap().map_or(Value::Null, Value::Object)
    }

    #[test]
    fn lists_are_merged_by_key_where_kubernetes_says_so() {
        let table = [
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null, "d": 3}}), json!({"a": {"c": 2, "d": 3}})),
            (json!({"args": ["a"]}), json!({"args": ["b"]}), json!({"args": ["b"]})),
            (
                json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
                json!({"env": [{"name": "B", "$patch": "delete"}, {"name": "C", "value": "3"}]}),
                json!({"env": [{"name": "C", "value": "3"}, {"name": "A", "value": "1"}]}),
            ),
            (
                json!({"env": [{"name": "A"}]}),
                json!({"env": [{"$patch": "replace"}, {"name": "B"}]}),
                json!({"env": [{"name": "B"}]}),
            ),
            (
                json!({"ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]}),
                json!({"ports": [{"containerPort": 53, "protocol": "TCP", "name": "t"}]}),
                json!({"ports": [{"containerPort": 53, "protocol": "TCP", "name": "t"}, {"containerPort": 53, "protocol": "UDP"}]}),
            ),
            (
                json!({"ports": [{"port": 80, "targetPort": 1}]}),
                json!({"ports": [{"port": 80, "targetPort": 2}]}),
                json!({"ports": [{"port": 80, "targetPort": 2}]}),
            ),
            (json!({"finalizers": ["a"]}), json!({"finalizers": ["b", "a"]}), json!({"finalizers": ["b", "a"]})),
            (json!({"a": {"b": 1}}), json!({"a": {"$patch": "replace", "c": 1}}), json!({"a": {"c": 1}})),
            (json!({"a": {"b": 1}}), json!({"a": {"$patch": "delete"}}), json!({})),
        ];
        for (base, patch, expected) in table {
            assert_eq!(merged(&base, &patch, true), expected, "{base} {patch}");
        }
    }

    #[test]
    fn lists_of_custom_resources_are_replaced() {
        let (base, patch) = (json!({"env": [{"name": "A"}]}), json!({"env": [{"name": "B"}]}));
        assert_eq!(merged(&base, &patch, false), patch);
    }

    #[test]
    fn an_unknown_directive_is_an_error() {
        let patch = json!({"$setElementOrder/env": []});
        let error = merge(json!({}).as_object().unwrap(), patch.as_object().unwrap(), true).unwrap_err().to_string();
        assert_eq!(error, "the directive $setElementOrder/env is not supported");
    }
}
