//! How many mistakes the types refuse, and how many correct values.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use crate::corpus::{self, Entry};
use serde_json::{Map, Value, json};
use tillerman::chart::Values;
use tillerman::crd::{self, CrdSettings, refusals};

/// All places of a table and their defaults.
fn places(values: &Values) -> Vec<(Vec<&str>, &Value)> {
    fn walk<'v>(values: &'v Values, path: &mut Vec<&'v str>, found: &mut Vec<(Vec<&'v str>, &'v Value)>) {
        for (key, value) in values {
            path.push(key);
            found.push((path.clone(), value));
            if let Value::Object(below) = value {
                walk(below, path, found);
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(values, &mut Vec::new(), &mut found);
    found
}

/// Values that give one place a value.
fn at(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| Value::Object(Map::from_iter([((*key).to_owned(), inner)])))
}

const REPLICAS: [&str; 5] = ["replicas", "replicaCount", "minReplicas", "maxReplicas", "revisionHistoryLimit"];

/// A planted mistake: its name, which places it is planted at, what is planted, and of how many in a hundred it is refused at
/// least, as the mean over charts (the study's column *plain*).
type Mistake = (&'static str, fn(&[&str], &Value) -> bool, Value, f64);

fn mistakes() -> Vec<Mistake> {
    fn table(value: &Value) -> bool {
        value.as_object().is_some_and(|entries| !entries.is_empty())
    }
    fn empty_table(value: &Value) -> bool {
        value.as_object().is_some_and(Map::is_empty)
    }
    fn list(value: &Value) -> bool {
        value.as_array().is_some_and(|items| !items.is_empty())
    }
    fn empty_list(value: &Value) -> bool {
        value.as_array().is_some_and(Vec::is_empty)
    }
    fn whole(value: &Value) -> bool {
        value.as_f64().is_some_and(|number| number.fract() == 0.0)
    }
    fn scalar(value: &Value) -> bool {
        value.is_boolean() || value.is_number() || value.as_str().is_some_and(|text| !text.is_empty())
    }
    let map = json!({"abc": 1});
    vec![
        ("a string for a map", |_, v| table(v), json!("abc"), 99.5),
        ("a list for a map", |_, v| table(v), json!(["abc"]), 99.5),
        ("a string for {}", |_, v| empty_table(v), json!("abc"), 60.0),
        ("a list for {}", |_, v| empty_table(v), json!(["abc"]), 54.0),
        ("a string for a list", |_, v| list(v), json!("abc"), 93.0),
        ("a map for a list", |_, v| list(v), map.clone(), 93.0),
        ("a string for []", |_, v| empty_list(v), json!("abc"), 62.0),
        ("a map for []", |_, v| empty_list(v), map.clone(), 46.0),
        ("a map for a scalar", |_, v| scalar(v), map, 99.5),
        ("a list for a scalar", |_, v| scalar(v), json!(["abc"]), 99.5),
        (
            "abc for replicas",
            |path, v| whole(v) && path.last().is_some_and(|key| REPLICAS.contains(key)),
            json!("abc"),
            99.5,
        ),
        ("abc for a whole number", |_, v| whole(v), json!("abc"), 80.0),
        ("\"false\" for a boolean", |_, v| v.is_boolean(), json!("false"), 99.5),
        (
            "1.10 for a tag",
            |path, v| v.as_str().is_some_and(|t| !t.is_empty()) && path.last() == Some(&"tag"),
            json!(1.1),
            99.5,
        ),
    ]
}

#[test]
fn planted_mistakes_are_refused() {
    let entries = corpus::entries();
    if entries.is_empty() {
        return;
    }
    let mut low = Vec::new();
    for (name, is_place, bad, least) in mistakes() {
        let rates: Vec<f64> = entries.iter().filter_map(|entry| rate(entry, is_place, &bad)).collect();
        let mean = 100.0 * rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        println!("{name}: {mean:.1} % refused, in {} charts (at least {least} %)", rates.len());
        // A share of the charts may be a few points off.
        if !rates.is_empty() && mean < if corpus::is_whole() { least } else { least - 12.0 } {
            low.push(format!("{name}: {mean:.1} %"));
        }
    }
    assert!(low.is_empty(), "{low:?}");
}

/// The share of places of a chart at which a mistake is refused, at that place.
fn rate(entry: &Entry, is_place: fn(&[&str], &Value) -> bool, bad: &Value) -> Option<f64> {
    let places: Vec<_> = places(entry.defaults()).into_iter().filter(|(path, value)| is_place(path, value)).collect();
    let is_refused = |path: &[&str]| {
        let found = refusals(&entry.typed.schema, &at(path, bad));
        found.iter().any(|refusal| refusal.path.iter().map(|key| &**key).eq(path.iter().copied()))
    };
    let refused = places.iter().filter(|(path, _)| is_refused(path)).count();
    (!places.is_empty()).then(|| refused as f64 / places.len() as f64)
}

#[test]
fn a_misspelt_key_is_warned_of() {
    let entries = corpus::entries();
    if entries.is_empty() {
        return;
    }
    let (mut sum, mut charts, mut files, mut warned, mut open) = (0.0, 0, 0, Vec::new(), Vec::new());
    for entry in entries {
        let known = entry.typed.known(&entry.chart);
        open.extend(known.is_none().then_some(&*entry.name));
        let unknown = |values: &Values| known.as_ref().map_or_else(Vec::new, |known| known.unknown(values));
        for file in entry.ci() {
            files += 1;
            let keys = unknown(&file.values);
            if !keys.is_empty() {
                warned.push(format!("{} {}: {:?}", entry.name, file.name, keys));
            }
        }
        // A letter of a key that templates use is left out; if the result is a different key of the templates, it is not a mistake.
        let is_used = |key: &str| entry.typed.uses(&[key.into()]).is_some();
        let keys = entry
            .defaults()
            .iter()
            .filter(|(key, _)| key.len() > 3 && key.is_ascii() && **key != "global" && is_used(key));
        let misspelt = keys.filter_map(|(key, value)| {
            let wrong = format!("{}{}", &key[..key.len() / 2], &key[key.len() / 2 + 1..]);
            (!entry.defaults().contains_key(&wrong)).then(|| Map::from_iter([(wrong, value.clone())]))
        });
        let misspelt: Vec<Values> = misspelt.collect();
        if !misspelt.is_empty() {
            charts += 1;
            sum += misspelt.iter().filter(|values| !unknown(values).is_empty()).count() as f64 / misspelt.len() as f64;
        }
    }
    let mean = 100.0 * sum / f64::from(charts);
    println!(
        "a misspelt key at the top is warned of: {mean:.1} %, in {charts} charts; {} of {files} files of ci/ are warned of",
        warned.len()
    );
    for line in &warned {
        println!("  {line}");
    }
    println!("{} charts use their values as a whole, so that no key is unknown: {open:?}", open.len());
    assert!(mean >= if corpus::is_whole() { 98.0 } else { 90.0 }, "{mean}");
    // Of a share of the charts, two more may be such by chance.
    let by_chance = if corpus::is_whole() { 200 } else { 400 };
    assert!(warned.len() * 100 <= files * 4 + by_chance, "{} of {files}", warned.len());
}

/// What the types, made without a file, say of it.
#[test]
fn values_that_the_types_were_not_made_with_are_accepted() {
    let entries = corpus::entries();
    if entries.is_empty() {
        return;
    }
    let (mut files, mut refused) = (0, Vec::new());
    for entry in entries.iter().filter(|entry| !entry.files.is_empty()) {
        let blind = crd::types(&entry.chart, CrdSettings::default(), &[]).unwrap();
        for file in &entry.files {
            files += 1;
            let found = refusals(&blind.schema, &Value::Object(file.values.clone()));
            if let Some(first) = found.first() {
                refused.push(format!("{} {}: {}", entry.name, file.name, first.path.join(".")));
            }
            assert!(refusals(&entry.typed.schema, &Value::Object(file.values.clone())).is_empty(), "{}", file.name);
        }
    }
    println!(
        "files that come with a chart: {files}, of which types that were made without them refuse {}",
        refused.len()
    );
    for line in &refused {
        println!("  {line}");
    }
    let (mut sections, mut strangers) = (0, Vec::new());
    for entry in entries {
        for dependency in &entry.chart.dependencies {
            let Some(Value::Object(given)) = entry.chart.values.get(&dependency.metadata.name) else { continue };
            if dependency.values.is_empty() {
                continue;
            }
            sections += 1;
            let own = crd::types(dependency, CrdSettings::default(), &[]).unwrap();
            let found = refusals(&own.schema, &Value::Object(given.clone()));
            if let Some(first) = found.first() {
                strangers.push(format!("{} {}: {}", entry.name, dependency.metadata.name, first.path.join(".")));
            }
        }
    }
    println!(
        "sections that parents give: {sections}, of which the types of the dependency alone refuse {}",
        strangers.len()
    );
    for line in &strangers {
        println!("  {line}");
    }
    assert!(refused.len() * 100 <= files + 200, "{} of {files}", refused.len());
    assert!(strangers.len() * 100 <= sections + 200, "{} of {sections}", strangers.len());
}
