//! Values that no template uses, and values that templates use but `values.yaml` does not define.
//!
//! Only certain faults are reported: a value that a template may read in some way counts as used, and a value counts as
//! needed only when it is always printed without a default.

use super::LintReport;
use crate::chart::{Chart, Values};
use crate::crd;
use crate::template::go::TemplateSet;
use crate::template::go::usage::{Path, Usage};
use crate::template::{functions, trace};
use regex::Regex;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Values in a text that `tpl` may execute.
static IN_TEXT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)*)").expect("the pattern is valid"));

/// Reports them as warnings.
pub fn check(chart: &Chart, report: &mut LintReport) {
    if chart.is_library() {
        return;
    }
    let Some(mut usage) = (if chart.is_minijinja() { jinja(chart) } else { go(chart) }) else { return };
    for dependency in &chart.metadata.dependencies {
        for condition in dependency.condition.split(',') {
            usage.touched.insert(condition.trim().split('.').map(Box::from).collect());
        }
    }
    if usage.has_tpl {
        chart.values.values().for_each(|value| add_texts(value, &mut usage));
        chart.files.iter().for_each(|file| add_text(&String::from_utf8_lossy(&file.data), &mut usage));
    }
    let foreign = foreign(chart);
    let mut unused = Vec::new();
    for (key, value) in &chart.values {
        if !foreign.contains(key.as_str()) {
            add_unused(value, &mut vec![key.as_str().into()], &usage, &mut unused);
        }
    }
    for path in unused {
        report.warning("values.yaml", format!("no template uses `{}`", path.join(".")));
    }
    // Values that dependencies give are not in values.yaml.
    if chart.metadata.dependencies.iter().any(|d| !d.import_values.is_empty()) {
        return;
    }
    for (path, place) in &usage.bare {
        let own = place.file.strip_prefix(&format!("{}/", chart.metadata.name));
        let Some(file) = own.filter(|file| file.starts_with("templates/")) else { continue };
        if usage.is_written(path)
            || foreign.contains(&*path[0])
            || path.iter().any(|key| **key == *crate::template::go::usage::ANY)
        {
            continue;
        }
        if let Some(table) = undefined(&chart.values, path).filter(|_| !is_in_schema(chart, path)) {
            let names = path.iter().find(|key| !table.contains_key(&***key));
            let nearest = names.and_then(|key| trace::nearest(key, table.keys().map(String::as_str)));
            let meant = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            let path = path.join(".");
            report.warning(file, format!("line {}: values.yaml does not define `{path}`{meant}", place.line));
        }
    }
}

/// The values, as templates of the outermost chart see them, that no template of the chart or of its dependencies reads: the outermost
/// keys of which nothing is read. `None` if a template does not parse, so that its values are not known.
pub fn unread(chart: &Chart, values: &Values) -> Option<Vec<Path>> {
    let mut usage = if chart.is_minijinja() { jinja(chart) } else { crd::usage(chart) }?;
    let mut tables = Vec::new();
    add_chart(chart, &Path::new(), &mut usage, &mut tables);
    if usage.has_tpl {
        let mut texts = Usage::default();
        values.values().for_each(|value| add_texts(value, &mut texts));
        add_files(chart, &mut texts);
        // A text may be executed with the values of any chart.
        for table in &tables {
            usage.whole.extend(texts.whole.iter().map(|path| table.iter().chain(path).cloned().collect()));
        }
        usage.whole.extend(texts.whole);
    }
    let mut unused = Vec::new();
    for (key, value) in values {
        if !key.starts_with("x-") && !key.starts_with('.') {
            add_unused(value, &mut vec![key.as_str().into()], &usage, &mut unused);
        }
    }
    // The table of a dependency is not a value, and its global values are copies.
    let is_value = |path: &Path| {
        let is_copy = |table: &Path| {
            path.strip_prefix(&**table).is_some_and(|rest| rest.first().is_some_and(|key| **key == *"global"))
        };
        !tables.contains(path) && !tables.iter().any(is_copy)
    };
    unused.retain(is_value);
    Some(unused)
}

/// Adds the values that the dependencies of a chart are enabled by and export, and those of charts in minijinja.
fn add_chart(chart: &Chart, path: &Path, usage: &mut Usage, tables: &mut Vec<Path>) {
    let below = |keys: &str| path.iter().cloned().chain(keys.split('.').map(Box::from)).collect::<Path>();
    for dependency in &chart.metadata.dependencies {
        let conditions = dependency.condition.split(',').map(str::trim).filter(|condition| !condition.is_empty());
        usage.touched.extend(conditions.map(below));
        usage.whole.extend(dependency.tags.iter().map(|tag| vec!["tags".into(), tag.as_str().into()]));
        let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
        for import in &dependency.import_values {
            let child = match import {
                Value::String(name) => format!("exports.{name}"),
                other => other["child"].as_str().unwrap_or_default().to_owned(),
            };
            usage.whole.insert(below(&format!("{key}.{child}")));
        }
    }
    for subchart in crd::subcharts(chart) {
        let table: Path = path.iter().cloned().chain([subchart.key.into()]).collect();
        if subchart.chart.is_minijinja() || chart.is_minijinja() {
            usage.whole.insert(table.clone());
        }
        add_chart(subchart.chart, &table, usage, tables);
        tables.push(table);
    }
}

fn add_files(chart: &Chart, usage: &mut Usage) {
    chart.files.iter().for_each(|file| add_text(&String::from_utf8_lossy(&file.data), usage));
    chart.dependencies.iter().for_each(|dependency| add_files(dependency, usage));
}

/// Keys that are not for the chart's own templates: dependencies, what all charts share, and places for YAML's anchors.
fn foreign(chart: &Chart) -> HashSet<&str> {
    let dependencies = chart.metadata.dependencies.iter().flat_map(|d| [d.name.as_str(), d.alias.as_str()]);
    let present = chart.dependencies.iter().map(|c| c.metadata.name.as_str());
    let anchors = chart.values.keys().map(String::as_str).filter(|key| key.starts_with("x-") || key.starts_with('.'));
    dependencies.chain(present).chain(anchors).chain(["global", "tags"]).collect()
}

/// The templates of a chart and its dependencies, parsed; `None` if they cannot be, which is reported elsewhere.
fn go(chart: &Chart) -> Option<Usage> {
    let mut texts = Vec::new();
    gather(chart, &chart.metadata.name, &mut texts);
    texts.sort_by_key(|(name, _)| std::cmp::Reverse((name.matches('/').count(), name.clone())));
    let mut set = TemplateSet::new(functions::table());
    for (name, text) in &texts {
        set.parse(name, text).ok()?;
    }
    let own: Vec<String> = chart.templates.iter().map(|f| format!("{}/{}", chart.metadata.name, f.name)).collect();
    let is_partial = |name: &&str| name.rsplit('/').next().is_some_and(|base| base.starts_with('_'));
    let (partials, files): (Vec<&str>, Vec<&str>) = own.iter().map(String::as_str).partition(is_partial);
    let all: Vec<&str> = files.iter().chain(&partials).copied().collect();
    let files: Vec<_> = files.iter().map(|name| (*name, Vec::new())).collect();
    Some(set.usage(&files, &all))
}

fn gather<'c>(chart: &'c Chart, path: &str, texts: &mut Vec<(String, &'c [u8])>) {
    if !chart.is_minijinja() {
        texts.extend(chart.templates.iter().map(|f| (format!("{path}/{}", f.name), f.data.as_slice())));
    }
    for child in &chart.dependencies {
        gather(child, &format!("{path}/charts/{}", child.metadata.name), texts);
    }
}

/// For a minijinja chart: the names it uses, with everything below them.
fn jinja(chart: &Chart) -> Option<Usage> {
    let mut usage = Usage::default();
    for name in chart.jinja(&chart.metadata.name).ok()?.undeclared() {
        let mut path = name.split('.');
        if path.next() == Some("values") {
            usage.whole.insert(path.map(Box::from).collect());
        }
    }
    Some(usage)
}

fn add_texts(value: &Value, usage: &mut Usage) {
    match value {
        Value::String(text) => add_text(text, usage),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, usage)),
        Value::Object(entries) => entries.values().for_each(|entry| add_texts(entry, usage)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add_text(text: &str, usage: &mut Usage) {
    for found in IN_TEXT.captures_iter(text) {
        usage.whole.insert(found[1].split('.').skip(1).map(Box::from).collect());
    }
}

/// The outermost keys of which nothing is used. Lists are not searched.
fn add_unused(value: &Value, path: &mut Path, usage: &Usage, unused: &mut Vec<Path>) {
    if !usage.is_read(path) {
        unused.push(path.clone());
    } else if let Value::Object(entries) = value {
        for (key, value) in entries {
            path.push(key.as_str().into());
            add_unused(value, path, usage, unused);
            path.pop();
        }
    }
}

/// The table that lacks the next key of a path that ends nowhere.
fn undefined<'v>(values: &'v Values, path: &[Box<str>]) -> Option<&'v Values> {
    let (first, rest) = path.split_first()?;
    match values.get(&**first) {
        None => Some(values),
        Some(Value::Object(below)) => undefined(below, rest),
        Some(_) => None,
    }
}

/// Whether the schema knows a key, so that it is documented there.
fn is_in_schema(chart: &Chart, path: &[Box<str>]) -> bool {
    let Some(schema) = chart.schema.as_deref().and_then(|text| serde_json::from_slice::<Value>(text).ok()) else {
        return false;
    };
    path.iter().try_fold(&schema, |schema, key| schema.get("properties")?.get(&**key)).is_some()
}
