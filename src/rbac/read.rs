//! The facts in the templates and files of a chart, without rendering.

use super::{Pair, RoleResource, kinds};
use crate::chart::{Chart, Values};
use crate::object::parse_manifest;
use crate::template::functions;
use crate::template::go::TemplateSet;
use crate::template::go::documents::{TemplateDocument, documents};
use crate::template::go::kinds::Kinds;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The result of the reading. Files are named relative to the chart: `charts/db/templates/service.yaml`.
#[derive(Clone, Debug, Default)]
pub(super) struct Static {
    /// The kinds in templates.
    pub pairs: BTreeMap<Pair, BTreeSet<String>>,
    /// Kinds without a group.
    pub unresolved: BTreeMap<Pair, BTreeSet<String>>,
    /// Files with kinds that nothing is known of, and how many.
    pub computed: BTreeMap<String, usize>,
    /// Kinds that are looked up, with the namespace if that is constant.
    pub lookups: BTreeMap<(Pair, Option<String>), BTreeSet<String>>,
    /// The kinds that the chart's definitions define.
    pub defined: BTreeMap<Pair, RoleResource>,
    /// The files of `crds/`.
    pub crds: BTreeSet<String>,
}

/// Reads a chart and its dependencies.
pub(super) fn chart(chart: &Chart) -> Static {
    let mut read = Static::default();
    let mut texts = Vec::new();
    gather(chart, "", &mut texts, &mut read);
    // As for a rendering: deeper paths first, so that a `define` of the parent wins.
    texts.sort_by_key(|text| std::cmp::Reverse((text.name.matches('/').count(), text.name.clone())));
    let mut set = TemplateSet::new(functions::table());
    // A file that cannot be parsed is reported by the rendering.
    texts.retain(|text| set.parse(&text.name, text.data).is_ok());
    let files: Vec<&str> = texts.iter().filter(|text| text.is_rendered).map(|text| text.name.as_str()).collect();
    let mut trees = Vec::new();
    values(chart, &mut trees);
    let defaults = |path: &[String]| -> Vec<String> { trees.iter().filter_map(|tree| text_at(tree, path)).collect() };
    let Kinds { documents, lookups } = set.kinds(&files, &defaults);
    for document in documents {
        read.add(&document);
    }
    for lookup in lookups {
        let files: BTreeSet<String> = lookup.files.iter().map(ToString::to_string).collect();
        let groups = groups_of(&lookup.api_versions);
        for kind in &lookup.kinds {
            for group in resolve(kind, &groups) {
                let key = (Pair::new(group, kind), lookup.namespace.clone());
                read.lookups.entry(key).or_default().extend(files.iter().cloned());
            }
        }
    }
    read
}

/// A Go template.
struct Text<'c> {
    name: String,
    data: &'c [u8],
    /// Whether it makes objects, and does not only offer helpers.
    is_rendered: bool,
}

fn gather<'c>(chart: &'c Chart, path: &str, texts: &mut Vec<Text<'c>>, read: &mut Static) {
    for file in chart.crds() {
        let name = format!("{path}{}", file.name);
        let text = String::from_utf8_lossy(&file.data);
        read.defined.extend(definitions(&text));
        let objects = parse_manifest(&text).unwrap_or_default();
        read.defined.extend(objects.iter().filter_map(|object| super::render::definition(&object.body)));
        read.crds.insert(name);
    }
    for file in &chart.templates {
        let name = format!("{path}{}", file.name);
        let base = file.name.rsplit('/').next().unwrap_or_default();
        let is_rendered = !chart.is_library()
            && !base.starts_with('_')
            && !file.name.ends_with("NOTES.txt")
            && !name.contains("/tests/");
        let text = String::from_utf8_lossy(&file.data);
        read.defined.extend(definitions(&text));
        if !chart.is_minijinja() {
            texts.push(Text { name, data: &file.data, is_rendered });
        } else if is_rendered {
            let plain = without_actions(&text);
            let only = |value: &str, _| BTreeSet::from([value.to_owned()]);
            documents(&plain, false, only, |document| {
                read.add(&TemplateDocument { files: BTreeSet::from([name.as_str().into()]), ..document });
            });
        }
    }
    for child in &chart.dependencies {
        gather(child, &format!("{path}charts/{}/", child.metadata.name), texts, read);
    }
}

/// A minijinja template without its tags; its output is unknown.
fn without_actions(text: &str) -> String {
    static TAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}").expect("the pattern is valid"));
    TAG.replace_all(text, "").into_owned()
}

fn values<'c>(chart: &'c Chart, trees: &mut Vec<&'c Values>) {
    trees.push(&chart.values);
    chart.dependencies.iter().for_each(|child| values(child, trees));
}

fn text_at(values: &Values, path: &[String]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let found = rest.iter().try_fold(values.get(first)?, |value, key| value.get(key))?;
    match found {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

impl Static {
    fn add(&mut self, document: &TemplateDocument) {
        let files: BTreeSet<String> = document.files.iter().map(ToString::to_string).collect();
        let groups = groups_of(&document.api_versions);
        for kind in &document.kinds {
            let resolved = resolve(kind, &groups);
            let pairs = if resolved.is_empty() { &mut self.unresolved } else { &mut self.pairs };
            let resolved = if resolved.is_empty() { BTreeSet::from([String::new()]) } else { resolved };
            for group in resolved {
                pairs.entry(Pair::new(group, kind)).or_default().extend(files.iter().cloned());
            }
        }
        if document.unknown > 0 {
            for file in &files {
                *self.computed.entry(file.clone()).or_default() += document.unknown;
            }
        }
    }
}

fn groups_of(api_versions: &BTreeSet<String>) -> BTreeSet<String> {
    api_versions.iter().map(|version| Pair::of(version, "").group).collect()
}

/// The groups that a kind may be in where a document names these.
fn resolve(kind: &str, named: &BTreeSet<String>) -> BTreeSet<String> {
    let known: BTreeSet<String> =
        kinds::BUILT_IN.iter().filter(|row| row.kind == kind).map(|row| row.group.to_owned()).collect();
    let both: BTreeSet<String> = named.intersection(&known).cloned().collect();
    if !both.is_empty() {
        return both;
    }
    if !named.is_empty() {
        return named.clone();
    }
    kinds::groups(kind).into_iter().map(str::to_owned).collect()
}

/// The kinds that the definitions in a text define, which may be a template.
fn definitions(text: &str) -> BTreeMap<Pair, RoleResource> {
    static PATTERNS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
        let line = |indent: &str, key: &str| {
            Regex::new(&format!(r#"(?m)^{indent}{key}:[ \t]*["']?([\w.-]+)"#)).expect("the pattern is valid")
        };
        [line("", "kind"), line("  ", "group"), line("  ", "scope"), line("    ", "kind"), line("    ", "plural")]
    });
    let [kind, group, scope, name, plural] = &*PATTERNS;
    let mut defined = BTreeMap::new();
    if !text.contains("CustomResourceDefinition") {
        return defined;
    }
    for document in text.split("\n---") {
        let first = |pattern: &Regex| pattern.captures(document).map(|found| found[1].to_owned());
        if first(kind).as_deref() != Some("CustomResourceDefinition") {
            continue;
        }
        if let (Some(group), Some(scope), Some(kind), Some(plural)) =
            (first(group), first(scope), first(name), first(plural))
        {
            defined.insert(Pair::new(group, kind), RoleResource { plural, namespaced: scope == "Namespaced" });
        }
    }
    defined
}

#[cfg(test)]
mod tests {
    use super::{definitions, resolve};
    use crate::rbac::{Pair, RoleResource};

    #[test]
    fn a_group_is_the_one_that_the_document_names_and_the_api_server_has() {
        for (kind, named, expected) in [
            ("Ingress", "extensions networking.k8s.io", "networking.k8s.io"),
            ("Ingress", "extensions", "extensions"),
            ("Ingress", "", "networking.k8s.io"),
            ("Issuer", "", "cert-manager.io"),
            ("Widget", "", ""),
            ("Widget", "a.io b.io", "a.io b.io"),
        ] {
            let named = named.split_whitespace().map(str::to_owned).collect();
            let found: Vec<String> = resolve(kind, &named).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{kind} {named:?}");
        }
    }

    #[test]
    fn a_definition_is_read_even_in_a_template() {
        let text = "{{ if .Values.crds }}\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  group: \"a.io\"\n  \
                    names:\n    kind: PodLogs\n    plural: podlogs\n  scope: Cluster\n{{ end }}";
        let resource = RoleResource { plural: "podlogs".to_owned(), namespaced: false };
        assert_eq!(definitions(text).into_iter().collect::<Vec<_>>(), [(Pair::new("a.io", "PodLogs"), resource)]);
        assert!(definitions("kind: Pod\nx: CustomResourceDefinition").is_empty());
    }
}
