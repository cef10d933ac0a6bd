//! The fields in which two values differ, except for those that differ by chance.
//!
//! A field whose value is `null` counts as missing, as the API server takes it. Items of a list that have names are compared by them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::release::compare::is_rendering;

/// A field with different values.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// Where it is: `spec.containers[web].image`.
    pub path: String,
    /// Its value now; `None` if it is missing.
    pub before: Option<Value>,
    /// Its value then; `None` if it is missing.
    pub after: Option<Value>,
}

/// A value as it is now and then, and both rendered again with other random values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Versions<'a> {
    /// Now.
    pub now: Option<&'a Value>,
    /// Then.
    pub then: Option<&'a Value>,
    /// Now, again. `None` if nothing of it is random.
    pub now_again: Option<&'a Value>,
    /// Then, again. `None` if nothing of it is random.
    pub then_again: Option<&'a Value>,
}

/// The differences of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// The fields that differ.
    pub fields: Vec<FieldDifference>,
    /// The paths of random values. Whether they differ is not known.
    pub by_chance: Vec<String>,
}

/// The fields in which a value differs now and then.
pub fn differences(versions: Versions<'_>) -> Differences {
    let mut found = Differences::default();
    walk(String::new(), versions.without_nulls(), &mut found);
    found
}

impl<'a> Versions<'a> {
    fn map(self, step: impl Fn(&'a Value) -> Option<&'a Value>) -> Self {
        let step = |side: Option<&'a Value>| side.and_then(&step).filter(|value| !value.is_null());
        Self {
            now: step(self.now),
            then: step(self.then),
            now_again: step(self.now_again),
            then_again: step(self.then_again),
        }
    }

    fn without_nulls(self) -> Self {
        self.map(Some)
    }

    fn is_random(self) -> bool {
        let differs = |one: Option<&Value>, again: Option<&Value>| again.is_some() && one != again;
        differs(self.then, self.then_again) || differs(self.now, self.now_again)
    }

    /// Whether both sides are random here, and each could be a rendering of the other.
    fn differs_by_chance(self) -> bool {
        let (Some(now), Some(then), Some(now_again), Some(then_again)) =
            (self.now, self.then, self.now_again, self.then_again)
        else {
            return false;
        };
        now != now_again
            && then != then_again
            && is_rendering(then, &[now, now_again])
            && is_rendering(now, &[then, then_again])
    }
}

fn walk(path: String, versions: Versions<'_>, found: &mut Differences) {
    let Versions { now, then, .. } = versions;
    if now == then && !versions.is_random() {
        return;
    }
    match (now, then) {
        (Some(Value::Object(now)), Some(Value::Object(then))) => {
            for key in keys(now, then) {
                walk(field(&path, key), versions.map(|value| value.get(key)), found);
            }
        }
        (Some(Value::Array(now)), Some(Value::Array(then))) => {
            if let (Some(old), Some(new)) = (names(now), names(then)) {
                by_name(&path, (&old, &new), versions, found);
            } else if now.len() == then.len() {
                for at in 0..now.len() {
                    walk(format!("{path}[{at}]"), versions.map(|value| value.get(at)), found);
                }
            } else {
                leaf(path, versions, found);
            }
        }
        _ => leaf(path, versions, found),
    }
}

fn leaf(path: String, versions: Versions<'_>, found: &mut Differences) {
    if versions.now == versions.then || versions.differs_by_chance() {
        found.by_chance.push(path);
        return;
    }
    found.fields.push(FieldDifference { path, before: versions.now.cloned(), after: versions.then.cloned() });
}

fn keys<'a>(now: &'a Map<String, Value>, then: &'a Map<String, Value>) -> impl Iterator<Item = &'a String> {
    now.keys().chain(then.keys().filter(|key| !now.contains_key(*key)))
}

/// The names of the items of a list; `None` if one has no name, or two have the same.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<&str>> = items.iter().map(|item| item.get("name").and_then(Value::as_str)).collect();
    names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
}

fn by_name(path: &str, (old, new): (&[&str], &[&str]), versions: Versions<'_>, found: &mut Differences) {
    for name in old.iter().chain(new.iter().filter(|name| !old.contains(*name))) {
        let item = |value: &Value, name: &str| -> Option<usize> {
            value.as_array()?.iter().position(|item| item.get("name").and_then(Value::as_str) == Some(name))
        };
        let versions = versions.map(|value| value.get(item(value, name)?));
        walk(format!("{path}[{name}]"), versions, found);
    }
    let shared = |names: &[&str], others: &[&str]| -> Vec<Value> {
        names.iter().filter(|name| others.contains(*name)).map(|name| Value::from(*name)).collect()
    };
    let (before, after) = (shared(old, new), shared(new, old));
    if before != after {
        // The order counts, as in the variables of a container.
        let path = format!("{path} (order)");
        found.fields.push(FieldDifference { path, before: Some(before.into()), after: Some(after.into()) });
    }
}

/// The path of a field.
fn field(path: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), is_plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[\"{key}\"]"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Versions, differences};
    use serde_json::{Value, json};

    fn found(now: &Value, then: &Value) -> Vec<String> {
        let text = |value: Option<&Value>| value.map_or("-".to_owned(), Value::to_string);
        let found = differences(Versions { now: Some(now), then: Some(then), ..Versions::default() });
        assert!(found.by_chance.is_empty());
        let line =
            |f: &super::FieldDifference| format!("{} {} {}", f.path, text(f.before.as_ref()), text(f.after.as_ref()));
        found.fields.iter().map(line).collect()
    }

    #[test]
    fn the_fields_that_differ_are_named_by_their_paths() {
        let table = [
            (json!({"a": 1}), json!({"a": 1, "b": null}), vec![]),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 2}}), vec!["a.b 1 2", "a.c 2 -"]),
            (json!({"x.y/z": 1}), json!({"x.y/z": 2, "d": 3}), vec!["[\"x.y/z\"] 1 2", "d - 3"]),
            (json!({"l": [1, 2]}), json!({"l": [1, 3]}), vec!["l[1] 2 3"]),
            (json!({"l": [1, 2]}), json!({"l": [1]}), vec!["l [1,2] [1]"]),
            (json!({"a": 1}), json!({"a": "1"}), vec!["a 1 \"1\""]),
        ];
        for (now, then, expected) in table {
            assert_eq!(found(&now, &then), expected, "{now} {then}");
        }
    }

    #[test]
    fn items_are_compared_by_their_names_and_in_their_order() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        let now = json!({"c": [item("a", "1"), item("b", "2")]});
        let then = json!({"c": [item("new", "0"), item("b", "3"), item("a", "1")]});
        let expected = [
            "c[b].image \"2\" \"3\"".to_owned(),
            format!("c[new] - {}", item("new", "0")),
            "c (order) [\"a\",\"b\"] [\"b\",\"a\"]".to_owned(),
        ];
        assert_eq!(found(&now, &then), expected);
        let twice = json!({"c": [item("a", "1"), item("a", "2")]});
        assert_eq!(found(&twice, &json!({"c": [item("a", "1"), item("a", "3")]})), ["c[1].image \"2\" \"3\""]);
    }

    #[test]
    fn values_that_are_random_now_and_then_do_not_differ() {
        let of = |password: &str, more: Value| json!({"password": password, "more": more});
        let [now, now_again] = [of("ab", json!(1)), of("cd", json!(1))];
        let check = |then: &Value, then_again: &Value| {
            let found = differences(Versions {
                now: Some(&now),
                then: Some(then),
                now_again: Some(&now_again),
                then_again: Some(then_again),
            });
            (found.fields.into_iter().map(|field| field.path).collect::<Vec<_>>(), found.by_chance)
        };
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        // Random on both sides, whether it happens to be equal or not.
        assert_eq!(check(&of("ef", json!(2)), &of("gh", json!(2))), (paths(&["more"]), paths(&["password"])));
        assert_eq!(check(&of("ab", json!(1)), &of("cd", json!(1))), (paths(&[]), paths(&["password"])));
        // A fixed password in place of a random one is a change.
        assert_eq!(check(&of("fixed", json!(1)), &of("fixed", json!(1))), (paths(&["password"]), paths(&[])));
    }
}
