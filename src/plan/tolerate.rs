//! Objects that server-side apply refuses and Helm deploys: lists with two items of one key, and fields that the kind does not have
//! (docs/design/applying.md B3). An unknown field is left out, as the API server does on create. Of two items the last is
//! applied, as a trial. Then the answer gets both items back, and replaces the object. Where that is refused as well,
//! the last item stays, since the last one counts in a container's environment.
//!
//! The kind's schema is the API server's, and its answer says where: `PATH: duplicate entries for key [KEYS]` and
//! `PATH: field not declared in schema`, one a line (structured-merge-diff, `typed/validate.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

/// The changes that make an object acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A field that the kind does not have was left out.
    Unknown(String),
    /// A field whose value is null, which its type does not allow, was left out.
    Null(String),
    /// A list has several items with one key.
    Duplicate(Duplicate),
}

/// Several items of a list with one key, of which only the last was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Where, with the key, as people write it.
    path: String,
    /// The names of those that were removed.
    lost: Vec<String>,
}

/// Limit of the faults of one answer that are corrected. Each costs a walk through a list, and values can cause any number of them.
const MAX_LINES: usize = 100;
/// Limit of the items of a list that is restored: each is compared with each.
const MAX_ITEMS: usize = 1000;

/// The lists of an object in which several items have one key, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Twins {
    /// By their path, as the API server writes it.
    lists: BTreeMap<String, List>,
    /// One list was too long to be restored.
    is_incomplete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// The fields that make the key; none of a set of plain values.
    keys: Vec<String>,
    items: Vec<Value>,
}

impl Twins {
    /// Whether there are lists, and all of them can be restored.
    pub fn can_be_restored(&self) -> bool {
        !self.lists.is_empty() && !self.is_incomplete
    }

    /// Keeps a list as it was before its first item was removed.
    fn keep(&mut self, path: &str, key: &str, items: &[Value]) -> Option<()> {
        if self.lists.contains_key(path) {
            return Some(());
        }
        if items.len() > MAX_ITEMS {
            self.is_incomplete = true;
            return Some(());
        }
        let keys = pairs(key)?.into_iter().map(|(name, _)| name).filter(|name| !name.is_empty()).collect();
        self.lists.insert(path.to_owned(), List { keys, items: items.to_vec() });
        Some(())
    }
}

impl Duplicate {
    /// The message when the object was replaced, with all items.
    pub fn kept(&self) -> String {
        format!(
            "{} exists more than once, which server-side apply does not accept; all of them are kept, and the object \
             is replaced instead",
            self.path
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "the API server does not know {path}; it was left out"),
            Self::Null(path) => write!(f, "the API server does not accept null for {path}; it was left out"),
            Self::Duplicate(Duplicate { path, lost, .. }) => {
                write!(
                    f,
                    "{path} exists more than once, which server-side apply does not accept; only the last one is kept"
                )?;
                if lost.is_empty() {
                    Ok(())
                } else {
                    write!(f, ", and what refers to {} finds nothing", lost.join(", "))
                }
            }
        }
    }
}

/// Corrects an object for which the API server gave these faults, and keeps the lists that lose items. `None` when a fault is of another
/// kind, there are too many, or nothing could be changed.
pub fn correct(body: &mut Map<String, Value>, message: &str, twins: &mut Twins) -> Option<Vec<Fault>> {
    let (_, faults) = message.split_once("failed to create typed patch object (")?;
    let (_, faults) = faults.split_once("): ")?;
    if faults.lines().nth(MAX_LINES + 1).is_some() {
        return None;
    }
    let mut object = Value::Object(std::mem::take(body));
    let mended =
        faults.lines().filter(|line| *line != "errors:").map(|line| correct_one(&mut object, line.trim(), twins));
    let mended = mended.collect::<Option<Vec<Fault>>>();
    if let Value::Object(object) = object {
        *body = object;
    }
    mended.filter(|faults| !faults.is_empty())
}

/// Leaves out fields that the API server refuses because they are null. Where an object is created without server-side apply, the API server
/// leaves them out itself. `None` when there is none of them.
pub fn leave_out_nulls(body: &mut Map<String, Value>, refused: &[String]) -> Option<Vec<Fault>> {
    let mut faults = Vec::new();
    remove_nulls(body, "", &refused.iter().map(String::as_str).collect(), &mut faults);
    (!faults.is_empty()).then_some(faults)
}

fn remove_nulls(map: &mut Map<String, Value>, path: &str, refused: &BTreeSet<&str>, faults: &mut Vec<Fault>) {
    let dot = if path.is_empty() { "" } else { "." };
    map.retain(|key, value| {
        let path = format!("{path}{dot}{key}");
        let goes = value.is_null() && refused.contains(&*path);
        if goes {
            faults.push(Fault::Null(path));
        } else {
            remove_nulls_in(value, &path, refused, faults);
        }
        !goes
    });
}

fn remove_nulls_in(value: &mut Value, path: &str, refused: &BTreeSet<&str>, faults: &mut Vec<Fault>) {
    match value {
        Value::Object(map) => remove_nulls(map, path, refused, faults),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                remove_nulls_in(item, &format!("{path}[{index}]"), refused, faults);
            }
        }
        _ => {}
    }
}

fn correct_one(object: &mut Value, line: &str, twins: &mut Twins) -> Option<Fault> {
    let name = |path: &str| path.trim_start_matches('.').to_owned();
    if let Some(path) = line.strip_suffix(": field not declared in schema") {
        let (parent, field) = parent(object, path)?;
        parent.as_object_mut()?.remove(field)?;
        return Some(Fault::Unknown(name(path)));
    }
    let (path, key) = line.split_once(": duplicate entries for key ")?;
    let items = at(object, path)?.as_array_mut()?;
    let key_text = key.strip_prefix('[')?.strip_suffix(']')?;
    twins.keep(path, key_text, items)?;
    let fits = matcher(key_text)?;
    let exact = items.iter().filter(|i| fits(i) == Fit::Exact).count();
    let counts = |item: &Value| fits(item) == Fit::Exact || (exact < 2 && fits(item) == Fit::Partly);
    let last = items.iter().rposition(counts)?;
    let before = items.len();
    let gone = names_beside(items, last, counts);
    if path.rsplit('.').next() == Some("env") {
        expand(items, last, counts);
    }
    let mut index = 0;
    items.retain(|item| {
        let keep = index == last || !counts(item);
        index += 1;
        keep
    });
    let duplicate = || Duplicate { path: format!("{}{key}", name(path)), lost: gone };
    (items.len() < before).then(|| Fault::Duplicate(duplicate()))
}

/// Restores all items in the lists of an object that was created with the last ones. Items of others stay behind them.
pub fn restore(object: &mut Value, twins: &Twins) {
    for (path, list) in twins.lists.iter().filter(|(_, list)| !list.keys.is_empty()) {
        let Some(Value::Array(items)) = at(object, path) else { continue };
        let mut merged: Vec<Value> = std::mem::take(items);
        // The last of several is the one that was applied. Fields of an item that the API server or other clients added
        // stay in it.
        for wanted in list.items.iter().rev() {
            let whole = merged.iter().position(|item| is_within(wanted, item));
            items.push(whole.map_or_else(|| wanted.clone(), |at| merged.remove(at)));
        }
        items.reverse();
        let same = |a: &Value, b: &Value| list.keys.iter().all(|key| b.get(key).is_none_or(|b| a.get(key) == Some(b)));
        items.extend(merged.into_iter().filter(|item| !list.items.iter().any(|wanted| same(item, wanted))));
    }
}

/// Whether everything wanted is there.
fn is_within(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| is_within(value, there)))
        }
        _ => wanted == there,
    }
}

/// The names of removed items that others may refer to, such as ports.
fn names_beside(items: &[Value], last: usize, counts: impl Fn(&Value) -> bool) -> Vec<String> {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let kept = name(&items[last]);
    let others = items.iter().enumerate().filter(|(at, item)| *at != last && counts(item));
    others.filter_map(|(_, item)| name(item)).filter(|name| Some(name) != kept.as_ref()).collect()
}

/// A variable that is there several times may refer to the one before it, as in `$(PATH):/more`: the kubelet expands them in
/// order. The last one gets the value that it would have.
fn expand(items: &mut [Value], last: usize, counts: impl Fn(&Value) -> bool) {
    let mut value: Option<String> = None;
    for item in items[..=last].iter_mut().filter(|item| counts(item)) {
        let (Some(name), Some(text)) =
            (item.get("name").and_then(Value::as_str), item.get("value").and_then(Value::as_str))
        else {
            // Its source is known only in the pod.
            value = None;
            continue;
        };
        let text = match &value {
            Some(before) => text.replace(&format!("$({name})"), before),
            None => text.to_owned(),
        };
        item["value"] = text.as_str().into();
        value = Some(text);
    }
}

/// How an item matches a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Exact,
    /// It leaves out what the API server adds, such as `protocol: TCP`.
    Partly,
    Not,
}

/// Reads `name="web"`, `containerPort=80,protocol="TCP"`, or `="x"` of a set.
fn matcher(key: &str) -> Option<impl Fn(&Value) -> Fit> {
    let pairs = pairs(key)?;
    Some(move |item: &Value| {
        if let [(name, value)] = &pairs[..]
            && name.is_empty()
        {
            return if item == value { Fit::Exact } else { Fit::Not };
        }
        let found = || pairs.iter().map(|(name, value)| item.get(name).map(|found| found == value));
        match () {
            () if found().all(|f| f == Some(true)) => Fit::Exact,
            () if found().any(|f| f == Some(true)) && found().all(|f| f != Some(false)) => Fit::Partly,
            () => Fit::Not,
        }
    })
}

/// The fields of a key and their values.
fn pairs(key: &str) -> Option<Vec<(String, Value)>> {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let value = values.next()?.ok()?;
        rest = after.get(values.byte_offset()..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
        pairs.push((name.to_owned(), value));
    }
    Some(pairs)
}

/// The value at a path.
fn at<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    if path.is_empty() {
        return Some(value);
    }
    if let Some(rest) = path.strip_prefix('[') {
        // Keys are JSON, so a bracket in them can only be within quotes.
        let end = unquoted(rest, ']')?;
        let (key, rest) = (rest.get(..end)?, rest.get(end + 1..)?);
        let items = value.as_array_mut()?;
        if let Ok(index) = key.parse::<usize>() {
            return at(items.get_mut(index)?, rest);
        }
        let fits = matcher(key)?;
        let found = items.iter().position(|i| fits(i) == Fit::Exact);
        let found = found.or_else(|| items.iter().position(|i| fits(i) == Fit::Partly))?;
        return at(items.get_mut(found)?, rest);
    }
    let (field, rest) = first_field(value, path)?;
    let child = value.get_mut(field)?;
    at(child, rest)
}

/// The object that has the last field of a path, and that field.
fn parent<'a, 'p>(value: &'a mut Value, path: &'p str) -> Option<(&'a mut Value, &'p str)> {
    // Names may contain dots: of the splits that resolve, the one with the longest name counts.
    let dots = path.match_indices('.').map(|(i, _)| i);
    let split = dots.into_iter().find(|i| at(value, &path[..*i]).is_some_and(|v| v.get(&path[i + 1..]).is_some()))?;
    Some((at(value, &path[..split])?, &path[split + 1..]))
}

/// Splits `.name.more` at the longest name that the value has.
fn first_field<'p>(value: &Value, path: &'p str) -> Option<(&'p str, &'p str)> {
    let path = path.strip_prefix('.')?;
    let mut ends = path.match_indices(['.', '[']).map(|(i, _)| i).chain([path.len()]);
    let end = ends.rfind(|end| value.get(&path[..*end]).is_some())?;
    Some((&path[..end], &path[end..]))
}

fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == wanted && !quoted => return Some(index),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Fault, MAX_ITEMS, MAX_LINES, Twins, correct, restore};
    use serde_json::{Value, json};

    fn corrected(object: &Value, faults: &str) -> Option<(Value, Vec<String>)> {
        let mut body = object.as_object().unwrap().clone();
        let message = format!("failed to create typed patch object (ns/x; apps/v1, Kind=Deployment): {faults}");
        let found = correct(&mut body, &message, &mut Twins::default())?;
        Some((Value::Object(body), found.iter().map(ToString::to_string).collect()))
    }

    fn containers(container: &Value) -> Value {
        json!({"spec": {"containers": [{"name": "x"}, container]}})
    }

    /// B3.
    #[test]
    fn a_null_that_is_refused_is_left_out_and_no_other_is() {
        let mut body = json!({"spec": {"tpm": null, "other": null, "disks": [{"size": null}, null], "a": {"b": null}}});
        let refused = ["spec.tpm", "spec.disks[0].size", "spec.disks[1]", "spec.a"].map(str::to_owned);
        let faults = super::leave_out_nulls(body.as_object_mut().unwrap(), &refused).unwrap();
        assert_eq!(body, json!({"spec": {"other": null, "disks": [{}, null], "a": {"b": null}}}));
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(texts[0].starts_with("the API server does not accept null for spec.tpm;"), "{texts:?}");
        assert_eq!(super::leave_out_nulls(body.as_object_mut().unwrap(), &refused), None);
    }

    /// B3.
    #[test]
    fn the_last_of_two_items_counts() {
        let object = containers(
            &json!({"name": "a[\"]", "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]}),
        );
        let faults = ".spec.containers[name=\"a[\\\"]\"].env: duplicate entries for key [name=\"A\"]";
        let (after, said) = corrected(&object, faults).unwrap();
        assert_eq!(after["spec"]["containers"][1]["env"], json!([{"name": "B"}, {"name": "A", "value": "2"}]));
        assert_eq!(
            said,
            ["spec.containers[name=\"a[\\\"]\"].env[name=\"A\"] exists more than once, which server-side apply does \
              not accept; only the last one is kept"]
        );
    }

    /// B3.
    #[test]
    fn a_key_that_the_api_server_adds_counts_as_there() {
        let object =
            containers(&json!({"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"},
            {"containerPort": 1, "name": "b"}]}));
        let faults = ".spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=1,protocol=\"TCP\"]";
        let (after, said) = corrected(&object, faults).unwrap();
        assert!(said[0].ends_with("only the last one is kept"), "{said:?}");
        let left = json!([{"containerPort": 1, "protocol": "UDP"}, {"containerPort": 1, "name": "b"}]);
        assert_eq!(after["spec"]["containers"][1]["ports"], left);
    }

    /// helm#12643, helm#12771.
    #[test]
    fn the_last_of_several_variables_has_the_value_that_it_would_have() {
        let fault = ".spec.containers[name=\"a\"].env: duplicate entries for key [name=\"A\"]";
        let from = json!({"name": "A", "valueFrom": {"x": 1}});
        let of = |value: &str| json!({"name": "A", "value": value});
        for (env, expected) in [
            (json!([of("1"), {"name": "B", "value": "x"}, of("$(A) 2")]), "1 2"),
            (json!([of("1"), of("$(A) 2"), of("$(A) $(A)")]), "1 2 1 2"),
            (json!([of("1"), from, of("$(A) 2")]), "$(A) 2"),
            (json!([of("1"), of("2")]), "2"),
        ] {
            let (after, _) = corrected(&containers(&json!({"name": "a", "env": env})), fault).unwrap();
            let left = after["spec"]["containers"][1]["env"].as_array().unwrap();
            assert_eq!(left.last().unwrap()["value"], expected, "{env}");
        }
    }

    #[test]
    fn the_names_that_are_removed_are_reported() {
        let ports = json!([{"containerPort": 3001, "name": "http"}, {"containerPort": 3001, "name": "health"}]);
        let fault =
            ".spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=3001,protocol=\"TCP\"]";
        let (_, said) = corrected(&containers(&json!({"name": "a", "ports": ports})), fault).unwrap();
        assert!(said[0].ends_with("only the last one is kept, and what refers to http finds nothing"), "{said:?}");
    }

    #[test]
    fn all_items_come_back_with_what_was_added() {
        let fault = ".spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]";
        let with = |ports: Value| containers(&json!({"name": "a", "ports": ports}));
        let udp = json!({"containerPort": 80, "protocol": "UDP"});
        let chart = with(json!([{"containerPort": 80}, {"containerPort": 80, "name": "b"}, udp]));
        let mut body = chart.as_object().unwrap().clone();
        let message = format!("failed to create typed patch object (ns/x; v1, Kind=Pod): {fault}");
        let mut twins = Twins::default();
        assert_eq!(correct(&mut body, &message, &mut twins).unwrap().len(), 1);
        assert!(twins.can_be_restored());
        // As the API server answers: with a default, and an item of another client.
        let default = json!({"containerPort": 80, "name": "b", "protocol": "TCP"});
        let theirs = json!({"containerPort": 9, "protocol": "TCP"});
        let mut object = with(json!([default, udp, theirs]));
        restore(&mut object, &twins);
        assert_eq!(object, with(json!([{"containerPort": 80}, default, udp, theirs])));
    }

    #[test]
    fn lists_and_faults_without_end_are_not_mended() {
        let line = ".spec.containers[name=\"a\"].env: duplicate entries for key [name=\"A\"]\n";
        let message =
            |lines: usize| format!("failed to create typed patch object (x): errors:\n{}", line.repeat(lines));
        let of = |items: usize| containers(&json!({"name": "a", "env": vec![json!({"name": "A"}); items]}));
        let corrects = |items: usize, lines: usize| {
            let (mut body, mut twins) = (of(items).as_object().unwrap().clone(), Twins::default());
            let mended = correct(&mut body, &message(lines), &mut twins).is_some();
            (mended, twins.can_be_restored())
        };
        assert_eq!(corrects(MAX_ITEMS, 1), (true, true));
        assert_eq!(corrects(MAX_ITEMS + 1, 1), (true, false));
        assert_eq!(corrects(2, MAX_LINES + 1), (false, false));
    }

    /// B3.
    #[test]
    fn several_faults_are_mended_at_once_also_with_dots_in_names() {
        let object =
            json!({"spec": {"foo": 1, "a.b": {"c.d": 2, "e": 3}}, "metadata": {"finalizers": ["x", "y", "x"]}});
        let faults = "errors:\n  .spec.foo: field not declared in schema\n  .spec.a.b.c.d: field not declared in schema\n  \
                      .metadata.finalizers: duplicate entries for key [=\"x\"]";
        let (after, said) = corrected(&object, faults).unwrap();
        assert_eq!(after, json!({"spec": {"a.b": {"e": 3}}, "metadata": {"finalizers": ["y", "x"]}}));
        assert_eq!(said.len(), 3);
        assert_eq!(said[0], Fault::Unknown("spec.foo".into()).to_string());
    }

    /// B3.
    #[test]
    fn what_is_refused_for_another_reason_or_elsewhere_is_not_touched() {
        let object = json!({"spec": {"a": 1}});
        for faults in [
            ".spec.a: expected string, got 1",
            ".spec.b: field not declared in schema",
            ".spec.a: duplicate entries for key [name=\"A\"]",
            ".spec.a: duplicate entries for key [name=",
            "",
        ] {
            assert_eq!(corrected(&object, faults), None, "{faults}");
        }
        let mut body = object.as_object().unwrap().clone();
        assert_eq!(correct(&mut body, "forbidden", &mut Twins::default()), None);
        assert_eq!(Value::Object(body), object);
    }
}
