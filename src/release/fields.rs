//! Sets of fields, as `metadata.managedFields` writes them (`FieldsV1`).
//!
//! `f:NAME` is a field, `k:{…}` the list item with those keys, `v:…` an element of a set, `i:N` an item by index, and `.`
//! the thing itself beside its parts. A value without parts counts as one field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The thing itself belongs to the set.
    member: bool,
    /// Its parts, by their name in `FieldsV1`.
    parts: BTreeMap<String, Fields>,
}

type Part<'a> = (&'a String, &'a Fields);

impl Fields {
    /// Reads the value of `fieldsV1`.
    pub fn read(value: &Value) -> Self {
        let mut fields = Self::default();
        for (key, below) in value.as_object().into_iter().flatten() {
            if key == "." {
                fields.member = true;
            } else {
                let mut part = Self::read(below);
                part.member |= part.parts.is_empty();
                fields.parts.insert(key.clone(), part);
            }
        }
        fields
    }

    /// Writes the value of `fieldsV1`.
    pub fn write(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.parts.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        map.extend(self.parts.iter().map(|(key, part)| (key.clone(), part.write())));
        Value::Object(map)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        !self.member && self.parts.is_empty()
    }

    /// The fields of either set.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.member |= other.member;
        for (key, part) in other.parts {
            let mine = self.parts.remove(&key).unwrap_or_default();
            self.parts.insert(key, mine.union(part));
        }
        self
    }

    /// The fields of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |(key, part): Part<'_>| {
            let part = part.intersection(other.parts.get(key)?);
            (!part.is_empty()).then(|| (key.clone(), part))
        };
        Self { member: self.member && other.member, parts: self.parts.iter().filter_map(both).collect() }
    }

    /// Values without parts: fields themselves, not the maps and lists around them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let parts = self.parts.iter().map(|(key, part)| (key.clone(), part.leaves()));
        Self { member: self.member && self.parts.is_empty(), parts: parts.collect() }
    }

    /// The part of a name, as a set.
    #[must_use]
    pub fn only(&self, name: &str) -> Self {
        let key = format!("f:{name}");
        let part = self.parts.get(&key).map(|part| (key.clone(), part.clone()));
        Self { member: false, parts: part.into_iter().collect() }
    }

    /// The fields of this set that the other lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let rest = |(key, part): Part<'_>| {
            let part = other.parts.get(key).map_or_else(|| part.clone(), |other| part.without(other));
            (!part.is_empty()).then(|| (key.clone(), part))
        };
        Self { member: self.member && !other.member, parts: self.parts.iter().filter_map(rest).collect() }
    }

    /// The fields that an object has. An item of a list is found by those of its keys that the object writes: a manifest may leave
    /// out `protocol`, which the API server adds.
    #[must_use]
    pub fn within(&self, object: &Value) -> Self {
        let present = |(key, part): Part<'_>| {
            let part = part.within(step(key, object)?);
            (!part.is_empty()).then(|| (key.clone(), part))
        };
        Self { member: self.member, parts: self.parts.iter().filter_map(present).collect() }
    }

    /// Whether the field at this path of names belongs to the set, or a field below it.
    pub fn names(&self, path: &[&str]) -> bool {
        match path {
            [] => true,
            [name, rest @ ..] => self.parts.get(format!("f:{name}").as_str()).is_some_and(|part| part.names(rest)),
        }
    }

    /// Whether a field belongs to the set, or a field below it. The path has names and indices with the values there.
    pub fn has(&self, path: &[(String, &Value)]) -> bool {
        let [(token, value), rest @ ..] = path else { return true };
        let part = self.parts.get(&format!("f:{token}")).or_else(|| {
            // The item is found by its keys or its value, as `FieldsV1` names it.
            let alone = Value::Array(vec![(*value).clone()]);
            self.parts
                .iter()
                .find(|(key, _)| !key.starts_with("f:") && step(key, &alone).is_some())
                .map(|(_, part)| part)
        });
        // A value without parts is owned as a whole.
        part.is_some_and(|part| part.parts.is_empty() || part.has(rest))
    }

    /// The fields as people write them, such as `spec.template.spec.containers[web].image`: the deepest of each branch.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    /// The same, each with the JSON pointer to it in an object; `None` where the object does not have it.
    pub fn paths_in(&self, object: &Value) -> Vec<(String, Option<String>)> {
        let pointer = |leaf: &Self| leaf.pointer(object, String::new());
        self.singles().into_iter().map(|leaf| (leaf.paths().pop().unwrap_or_default(), pointer(&leaf))).collect()
    }

    /// Each field alone, in the order of [`Fields::paths`].
    fn singles(&self) -> Vec<Self> {
        if self.parts.is_empty() {
            return if self.member { vec![self.clone()] } else { Vec::new() };
        }
        let below = |(key, part): (&String, &Self)| {
            let with = |leaf: Self| Self { member: false, parts: [(key.clone(), leaf)].into_iter().collect() };
            part.singles().into_iter().map(with).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(below).collect()
    }

    /// Where the one field of this set is.
    fn pointer(&self, at: &Value, so_far: String) -> Option<String> {
        let Some((key, part)) = self.parts.iter().next() else { return Some(so_far) };
        let below = step(key, at)?;
        let name = match (key.strip_prefix("f:"), at) {
            (Some(name), _) => name.replace('~', "~0").replace('/', "~1"),
            (None, Value::Array(items)) => items.iter().position(|item| std::ptr::eq(item, below))?.to_string(),
            (None, _) => return None,
        };
        part.pointer(below, format!("{so_far}/{name}"))
    }

    fn collect(&self, at: &mut String, paths: &mut Vec<String>) {
        if self.parts.is_empty() && self.member && !at.is_empty() {
            paths.push(at.clone());
        }
        for (key, part) in &self.parts {
            let length = at.len();
            match key.split_once(':') {
                Some(("f", name)) if at.is_empty() => at.push_str(name),
                Some(("f", name)) if name.contains(['.', '/']) => at.extend(["[", name, "]"]),
                Some(("f", name)) => at.extend([".", name]),
                Some(("k", keys)) => at.extend(["[", &item_name(keys), "]"]),
                Some((_, element)) => at.extend(["[", element.trim_matches('"'), "]"]),
                None => at.push_str(key),
            }
            part.collect(at, paths);
            at.truncate(length);
        }
    }
}

/// The values of an item's keys: `web`, or `80/TCP`.
fn item_name(keys: &str) -> String {
    let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    keys.values().map(text).collect::<Vec<_>>().join("/")
}

/// One step of `FieldsV1` through a value.
fn step<'a>(key: &str, at: &'a Value) -> Option<&'a Value> {
    if let Some(name) = key.strip_prefix("f:") {
        return at.get(name);
    }
    if let Some(keys) = key.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
        let fits = |item: &&Value| {
            keys.iter().all(|(k, v)| item.get(k).is_none_or(|found| found == v))
                && keys.iter().any(|(k, v)| item.get(k) == Some(v))
        };
        let exactly = |item: &&Value| keys.iter().all(|(k, v)| item.get(k) == Some(v));
        let items = at.as_array()?;
        return items.iter().find(exactly).or_else(|| items.iter().find(fits));
    }
    if let Some(element) = key.strip_prefix("v:") {
        let element: Value = serde_json::from_str(element).ok()?;
        return at.as_array()?.iter().find(|item| **item == element);
    }
    at.get(key.strip_prefix("i:")?.parse::<usize>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::Fields;
    use serde_json::{Value, json};

    fn fields(value: &Value) -> Fields {
        Fields::read(value)
    }

    fn container(parts: &Value) -> Value {
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": parts}}})
    }

    #[test]
    fn what_is_read_is_written_again() {
        for value in [
            json!({}),
            json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:replicas": {}}}),
            container(&json!({".": {}, "f:image": {}, "f:args": {}})),
        ] {
            assert_eq!(fields(&value).write(), value);
        }
    }

    #[test]
    fn sets_are_united_intersected_and_subtracted_field_by_field() {
        let a = fields(&container(&json!({".": {}, "f:image": {}, "f:name": {}})));
        let b = fields(&container(&json!({"f:image": {}, "f:args": {}})));
        assert_eq!(a.intersection(&b), fields(&container(&json!({"f:image": {}}))));
        assert_eq!(a.without(&b), fields(&container(&json!({".": {}, "f:name": {}}))));
        let both = fields(&container(&json!({".": {}, "f:image": {}, "f:name": {}, "f:args": {}})));
        assert_eq!(a.clone().union(b), both);
        assert!(a.without(&a).is_empty());
    }

    #[test]
    fn what_an_object_has_is_found_also_by_keys_that_it_leaves_out() {
        let ports = json!({"f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {"f:name": {}},
            "k:{\"containerPort\":81,\"protocol\":\"TCP\"}": {"f:name": {}},
            "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {"f:name": {}}}});
        let object = json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "protocol": "UDP"}]});
        let found = fields(&ports).within(&object);
        assert_eq!(found.paths(), ["ports[80/TCP].name"]);
        assert_eq!(
            fields(&json!({"f:a": {"v:\"x\"": {}, "v:\"y\"": {}}})).within(&json!({"a": ["y"]})).paths(),
            ["a[y]"]
        );
    }

    #[test]
    fn paths_are_written_as_people_do() {
        let value = json!({"f:metadata": {"f:annotations": {".": {}, "f:a.b/c": {}}}, "f:spec": {"f:containers": {
            "k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}});
        assert_eq!(fields(&value).paths(), ["metadata.annotations[a.b/c]", "spec.containers[web].image"]);
        assert!(fields(&value).names(&["spec", "containers"]));
        assert!(!fields(&value).names(&["spec", "replicas"]));
    }
}
