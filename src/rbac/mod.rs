//! The rights that an operator needs for a chart: for everything that the chart can render, for the lookups of its
//! templates, for the rules that its own Roles grant, and for the operator itself.
//!
//! A kind counts if the chart renders it with its defaults or with one of its values files, or if a template or a helper that a template
//! may call has a document of it. Nothing here asks a cluster. Objects that only values decide (`extraDeploy`) cannot
//! be known: they are listed.

pub mod brought;
pub mod granted;
pub mod held;
pub mod kinds;
pub mod own;
mod print;
mod read;
mod render;
pub mod rules;

use crate::chart::Chart;
use crate::crd::Evidence;
use crate::members::drivers::BUILT_IN;
use granted::Granted;
use read::Static;
use render::Made;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use granted::nest;
pub use print::{RoleDocument, Subject, print};
pub(crate) use render::objects;

/// A kind in any version of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

impl Pair {
    /// A pair.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// From `apiVersion` and `kind` of a manifest.
    pub fn of(api_version: &str, kind: &str) -> Self {
        Self::new(api_version.rsplit_once('/').map_or("", |(group, _)| group), kind)
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// A kind as roles name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleResource {
    /// Plural name.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

/// Where a right is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// In each namespace whose custom resources the operator serves.
    Release,
    /// In this namespace, which the chart names.
    Namespace(String),
    /// In the operator's own namespace.
    Operator,
    /// In the whole cluster.
    Cluster,
}

/// A lookup of templates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookedUp {
    /// The kind.
    pub pair: Pair,
    /// Where.
    pub reach: Reach,
}

/// The findings about a chart.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// The kinds of objects that the chart makes, where they are, and the templates that make them.
    pub made: BTreeMap<Pair, BTreeMap<Reach, BTreeSet<String>>>,
    /// The lookups of its templates.
    pub looked_up: BTreeMap<LookedUp, BTreeSet<String>>,
    /// How roles name the kinds of the chart's own definitions.
    pub defined: BTreeMap<Pair, RoleResource>,
    /// The files of `crds/`.
    pub crds: BTreeSet<String>,
    /// The rules that the chart's own Roles grant, and the roles that they bind.
    pub granted: Granted,
    /// Whether it has a stateful set with members.
    pub has_members: bool,
    /// Whether their pods get labels with roles.
    pub labels_members: bool,
    /// Values whose content is objects of any kind.
    pub brought: Vec<String>,
    /// Unknown facts, in sentences.
    pub unknown: Vec<String>,
}

/// The group of our own documents in charts, which are not objects of a cluster, except notices.
const OURS: &str = "tillerman.dev";
const NOTICE: &str = "Notice";

/// Whether a `Members` document has the driver that labels pods. If none is rendered, it is unknown which driver one
/// would have.
fn labels_members(made: &[Made]) -> bool {
    let objects = made.iter().filter_map(|made| made.result.as_ref().ok()).flatten();
    let drivers: Vec<_> = objects
        .filter(|object| object.pair == Pair::new(OURS, "Members"))
        .map(|object| object.body.get("spec").and_then(|spec| spec.get("driver")).and_then(Value::as_str))
        .collect();
    let labels = |name: &str| BUILT_IN.iter().any(|profile| profile.labels_pods && profile.name == name);
    drivers.is_empty() || drivers.into_iter().flatten().any(labels)
}

impl Rights {
    /// The needs of a chart. The values files are those that the chart carries.
    pub fn of(chart: &Chart, files: &[Evidence]) -> Self {
        let read = read::chart(chart);
        let made = render::all(chart, files);
        let mut rights = Self::pairs(&read, &made);
        rights.granted = granted::of(chart, files, &read, &made);
        rights.brought = brought::of(chart, &made);
        for (pair, files) in &read.unresolved {
            rights.unknown.push(format!("{pair} in {}: its API group is not known", listed(files)));
        }
        for (file, count) in &read.computed {
            rights.unknown.push(format!("{file}: {count} kinds are computed, and no constant says which"));
        }
        for Made { name, result } in &made {
            if let Err(why) = result {
                let why = why.message.lines().next().unwrap_or_default();
                rights.unknown.push(format!("the chart does not render with {name}: {why}"));
            }
        }
        rights
    }

    /// The kinds alone, without what Roles grant and what values bring.
    pub fn kinds(chart: &Chart, files: &[Evidence]) -> BTreeSet<Pair> {
        Self::pairs(&read::chart(chart), &render::all(chart, files)).made.into_keys().collect()
    }

    fn pairs(read: &Static, made: &[Made]) -> Self {
        let mut rights = Self { defined: read.defined.clone(), crds: read.crds.clone(), ..Self::default() };
        for object in made.iter().filter_map(|made| made.result.as_ref().ok()).flatten() {
            if let Some(definition) = &object.defines {
                rights.defined.insert(definition.0.clone(), definition.1.clone());
            }
        }
        for object in made.iter().filter_map(|made| made.result.as_ref().ok()).flatten() {
            let reach = rights.reach(&object.pair, object.namespace.as_deref());
            let reaches = rights.made.entry(object.pair.clone()).or_default();
            reaches.entry(reach).or_default().insert(object.file.clone());
        }
        for (pair, files) in &read.pairs {
            let reach = rights.reach(pair, None);
            let reaches = rights.made.entry(pair.clone()).or_default();
            // Where a file was rendered, it is known where its objects are.
            let known: BTreeSet<String> = reaches.values().flatten().cloned().collect();
            let new: Vec<_> = files.difference(&known).cloned().collect();
            if !new.is_empty() {
                reaches.entry(reach).or_default().extend(new);
            }
        }
        rights.has_members = rights.made.keys().any(|pair| pair.group == OURS && pair.kind == "Members");
        rights.labels_members = rights.has_members && labels_members(made);
        let is_object = |pair: &Pair| pair.group != OURS || pair.kind == NOTICE;
        rights.made.retain(|pair, _| is_object(pair) && !kinds::is_gone(&pair.group, &pair.kind));
        for ((pair, namespace), files) in &read.lookups {
            let resource = rights.resource(pair);
            let reach = match namespace {
                _ if !resource.namespaced => Reach::Cluster,
                None => Reach::Release,
                Some(all) if all.is_empty() => Reach::Cluster,
                Some(name) => Reach::Namespace(name.clone()),
            };
            let lookup = LookedUp { pair: pair.clone(), reach };
            rights.looked_up.entry(lookup).or_default().extend(files.iter().cloned());
        }
        rights
    }

    fn reach(&self, pair: &Pair, namespace: Option<&str>) -> Reach {
        if !self.resource(pair).namespaced {
            return Reach::Cluster;
        }
        namespace.map_or(Reach::Release, |name| Reach::Namespace(name.to_owned()))
    }

    /// How roles name a kind: by the chart's own definitions, the table, or the rule.
    pub fn resource(&self, pair: &Pair) -> RoleResource {
        if let Some(known) = self.defined.get(pair) {
            return known.clone();
        }
        match kinds::of(&pair.group, &pair.kind) {
            Some(row) => RoleResource { plural: row.plural.to_owned(), namespaced: row.namespaced },
            None => RoleResource { plural: plural(&pair.kind), namespaced: true },
        }
    }

    /// Whether it is certain how roles name a kind.
    pub fn is_known(&self, pair: &Pair) -> bool {
        self.defined.contains_key(pair) || kinds::of(&pair.group, &pair.kind).is_some()
    }
}

/// The plural of a kind, in lower case, by the rules that Kubernetes' own generators use.
fn plural(kind: &str) -> String {
    crate::crd::plural(kind)
}

/// Some names: at most three of them, and how many more there are.
pub(crate) fn listed(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::chart::{Chart, ChartLimits, File, load_files};
    use std::sync::Arc;

    /// A chart with these files, and a Chart.yaml.
    pub fn chart(files: &[(&str, &str)]) -> Chart {
        let about = ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n");
        let all = files.iter().chain([&about]);
        let all = all.map(|(name, text)| File { name: (*name).to_owned(), data: Arc::new(text.as_bytes().to_vec()) });
        load_files(all.collect(), &ChartLimits::default()).unwrap()
    }
}
