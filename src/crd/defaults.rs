//! The default values of a chart and its dependencies, as one table; and the places where they contradict each other.

use super::Path;
use crate::chart::{Chart, Values};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The key under which values reach all charts.
const GLOBAL: &str = "global";

/// A dependency under the key that its values have in the parent's.
pub struct Subchart<'c> {
    /// Its alias, else its name.
    pub key: &'c str,
    pub chart: &'c Chart,
    /// The dotted paths in the parent's values that switch it on.
    pub conditions: Vec<&'c str>,
    /// Its `import-values`.
    imports: &'c [Value],
}

/// All dependencies of a chart, whether enabled or not, whose values are part of its own: not those whose values a template makes. One that
/// Chart.yaml does not name has its own name as key.
pub fn subcharts(chart: &Chart) -> Vec<Subchart<'_>> {
    let entries = &chart.metadata.dependencies;
    let named = entries.iter().filter_map(|entry| {
        let found = chart.dependencies.iter().find(|c| c.metadata.name == entry.name)?;
        Some(Subchart {
            key: if entry.alias.is_empty() { &entry.name } else { &entry.alias },
            chart: found,
            conditions: entry.condition.split(',').map(str::trim).filter(|c| !c.is_empty()).collect(),
            imports: &entry.import_values,
        })
    });
    let is_named = |name: &str| entries.iter().any(|entry| entry.name == name);
    let others = chart.dependencies.iter().filter(|c| !is_named(&c.metadata.name)).map(|chart| Subchart {
        key: &chart.metadata.name,
        chart,
        conditions: Vec::new(),
        imports: &[],
    });
    named.chain(others).filter(|subchart| chart.values_template(subchart.key).is_none()).collect()
}

/// Shows each default value of a chart and its dependencies, with its path: tables, too, before their content.
pub fn each_value(chart: &Chart, see: &mut dyn FnMut(&[String], &Value)) {
    fn walk(values: &Values, path: &mut Vec<String>, see: &mut dyn FnMut(&[String], &Value)) {
        for (key, value) in values {
            path.push(key.clone());
            see(path, value);
            if let Value::Object(below) = value {
                walk(below, path, see);
            }
            path.pop();
        }
    }
    fn all(chart: &Chart, path: &mut Vec<String>, see: &mut dyn FnMut(&[String], &Value)) {
        walk(&chart.values, path, see);
        for subchart in subcharts(chart) {
            path.push(subchart.key.to_owned());
            all(subchart.chart, path, see);
            path.pop();
        }
    }
    all(chart, &mut Vec::new(), see);
}

/// The chart's own values over those of its dependencies, each at its key; the global ones at the top. A null stays: it is a key
/// that a user may set. The value that a condition names is included, too.
pub fn merged(chart: &Chart) -> Values {
    let mut values = chart.values.clone();
    for subchart in subcharts(chart) {
        let mut inner = merged(subchart.chart);
        let globals = inner.remove(GLOBAL);
        let own = values.remove(subchart.key);
        values.insert(subchart.key.into(), Value::Object(over(table(own), &inner)));
        if let Some(Value::Object(globals)) = globals {
            let own = values.remove(GLOBAL);
            values.insert(GLOBAL.into(), Value::Object(over(table(own), &globals)));
        }
        for condition in &subchart.conditions {
            set_default(&mut values, condition);
        }
        for import in subchart.imports {
            if let Some(imported) = imported(import, &inner) {
                values = over(values, &imported);
            }
        }
    }
    values
}

fn table(value: Option<Value>) -> Map<String, Value> {
    if let Some(Value::Object(entries)) = value { entries } else { Map::new() }
}

/// Tables over tables; the upper value wins.
fn over(mut above: Map<String, Value>, below: &Map<String, Value>) -> Map<String, Value> {
    for (key, value) in below {
        match (above.get_mut(key), value) {
            (None, value) => drop(above.insert(key.clone(), value.clone())),
            (Some(Value::Object(entries)), Value::Object(below)) => {
                *entries = over(std::mem::take(entries), below);
            }
            _ => {}
        }
    }
    above
}

/// A condition that no values file names is a flag that is on.
fn set_default(values: &mut Map<String, Value>, path: &str) {
    match path.split_once('.') {
        None => drop(values.entry(path).or_insert(Value::Bool(true))),
        Some((key, rest)) => {
            if let Value::Object(inner) = values.entry(key).or_insert_with(|| Value::Object(Map::new())) {
                set_default(inner, rest);
            }
        }
    }
}

/// The values that an entry of `import-values` takes from a dependency, at their place in the parent's.
fn imported(import: &Value, inner: &Map<String, Value>) -> Option<Map<String, Value>> {
    let (child, parent) = match import {
        Value::String(name) => (format!("exports.{name}"), String::new()),
        Value::Object(pair) => {
            let text = |key| pair.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("child"), text("parent"))
        }
        _ => return None,
    };
    let mut keys = child.split('.');
    let mut found = inner.get(keys.next()?)?;
    for key in keys {
        found = found.get(key)?;
    }
    let mut entries = found.as_object()?.clone();
    for key in parent.split('.').filter(|key| !key.is_empty()).rev() {
        entries = Map::from_iter([(key.to_owned(), Value::Object(entries))]);
    }
    Some(entries)
}

/// Places where a chart's default is of another kind than its dependency's: both are used, so neither shows the
/// accepted type.
pub fn contradictions(chart: &Chart) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    gather(chart, &Path::new(), &mut found);
    found
}

fn gather(chart: &Chart, path: &Path, found: &mut BTreeSet<Path>) {
    for subchart in subcharts(chart) {
        let below: Path = path.iter().cloned().chain([subchart.key.into()]).collect();
        if let Some(Value::Object(own)) = chart.values.get(subchart.key) {
            compare(own, &merged(subchart.chart), &below, found);
        }
        gather(subchart.chart, &below, found);
    }
}

fn compare(above: &Map<String, Value>, below: &Map<String, Value>, path: &Path, found: &mut BTreeSet<Path>) {
    for (key, value) in above {
        let Some(other) = below.get(key) else { continue };
        let place = || path.iter().cloned().chain([key.as_str().into()]).collect();
        match (value, other) {
            (Value::Null, _) | (_, Value::Null) => {}
            (Value::Object(above), Value::Object(below)) => compare(above, below, &place(), found),
            (Value::Number(one), Value::Number(other)) if is_whole(one) == is_whole(other) => {}
            (value, other) if !value.is_number() && std::mem::discriminant(value) == std::mem::discriminant(other) => {}
            _ => drop(found.insert(place())),
        }
    }
}

/// Whether a number was written without a fraction, or might have been. Numbers of YAML files are floats here.
pub fn is_whole(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// A value whose whole numbers are integers: those of YAML files are floats.
pub fn plain(value: &Value) -> Value {
    // Above, not every whole number is exact.
    const MOST: f64 = 9_007_199_254_740_992.0;
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "it is checked")]
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < MOST => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{contradictions, merged};
    use crate::chart::{Chart, Dependency};
    use serde_json::{Value, json};

    fn chart(name: &str, values: Value, dependencies: Vec<Chart>) -> Chart {
        let mut chart = Chart { dependencies, ..Chart::default() };
        chart.metadata.name = name.into();
        let Value::Object(values) = values else { unreachable!("values are a table") };
        chart.values = values;
        chart
    }

    #[test]
    fn defaults_of_dependencies_lie_at_their_keys() {
        let inner =
            chart("db", json!({"port": 1, "user": "u", "global": {"x": 1}, "exports": {"data": {"y": 2}}}), vec![]);
        let mut outer = chart("web", json!({"store": {"port": "2"}, "z": null}), vec![inner]);
        outer.metadata.dependencies.push(Dependency {
            name: "db".into(),
            alias: "store".into(),
            condition: "store.enabled,db.on".into(),
            import_values: vec![json!("data"), json!({"child": "exports.data", "parent": "a.b"})],
            ..Dependency::default()
        });
        let all = json!({
            "store": {"port": "2", "user": "u", "exports": {"data": {"y": 2}}, "enabled": true},
            "global": {"x": 1}, "db": {"on": true}, "y": 2, "a": {"b": {"y": 2}}, "z": null,
        });
        assert_eq!(Value::Object(merged(&outer)), all);
        let found: Vec<_> = contradictions(&outer).into_iter().map(|path| path.join(".")).collect();
        assert_eq!(found, ["store.port"]);
    }
}
