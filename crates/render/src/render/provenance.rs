//! Where the values come from that templates see.
//!
//! Nothing here merges. A rendering's own merge runs on copies of the values in which each leaf is a number; the numbers that arrive name
//! the places of the values. The merge looks only at keys, tables and nulls, so the copy arrives where the value does.

use super::coalesce::coalesce_values;
use super::dependencies::{ChartNode, position, to_map};
use super::{Diagnostic, Options, guarded, mismatch, plain_json, resolve};
use crate::chart::lines::at;
use crate::chart::{Chart, Values};
use crate::template::stack::deeper;
use crate::template::value::Value;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The key under which values reach all charts.
const GLOBAL: &str = "global";
/// The most steps of a chain.
const STEPS: usize = 100;

/// The values that the user of a chart gives, in layers.
#[derive(Clone, Debug)]
pub struct GivenValues {
    /// The layers, the lowest first.
    pub layers: Vec<Values>,
    /// All layers, merged: the values that a rendering gets.
    pub merged: Values,
    /// Merges the layers.
    pub merge: fn(Vec<Values>) -> Values,
}

/// A document that has values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSource {
    /// The `values.yaml` of the chart at this place: the position in `dependencies`, level by level. Empty for the chart itself.
    Chart(Vec<usize>),
    /// A layer of the user's, by its number.
    Layer(usize),
}

/// A place of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueOrigin {
    /// The document.
    pub source: ValueSource,
    /// The keys in the document.
    pub path: Vec<String>,
}

/// A value that templates see: not a table, or an empty one.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue {
    /// The keys from the values of the outermost chart.
    pub path: Vec<String>,
    /// The value.
    pub value: Json,
    /// The source of the value.
    pub origin: ValueOrigin,
}

/// A chart of a rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartPosition {
    /// Its name, or its alias: the key of its values.
    pub name: String,
    /// The positions in `dependencies` that lead to it.
    pub position: Vec<usize>,
    /// Its enabled dependencies.
    pub dependencies: Vec<ChartPosition>,
}

impl ChartPosition {
    fn of(node: &ChartNode<'_>, position_above: Vec<usize>) -> Self {
        let below = |child: &ChartNode<'_>| {
            let own = position(node.chart, child.chart)?;
            Some(Self::of(child, position_above.iter().copied().chain([own]).collect()))
        };
        let dependencies = node.dependencies.iter().filter_map(below).collect();
        Self { name: node.name().to_owned(), dependencies, position: position_above }
    }

    /// The charts that a value passes on its way: the outermost first, the one that owns the value last.
    pub fn owners<'p>(&'p self, path: &[String]) -> Vec<&'p Self> {
        let mut owners = vec![self];
        for key in &path[..path.len().saturating_sub(1)] {
            let last = owners[owners.len() - 1];
            let Some(below) = last.dependencies.iter().find(|below| below.name == *key) else { break };
            owners.push(below);
        }
        owners
    }
}

/// The values of a chart with their sources.
pub struct ValueTrace<'c> {
    chart: &'c Chart,
    given: &'c GivenValues,
    options: Options,
    /// The chart and its enabled dependencies.
    pub charts: ChartPosition,
    /// All values that templates of the outermost chart see.
    pub effective: Values,
}

/// The result of one merge of marks.
struct Marks {
    values: Values,
    places: Vec<ValueOrigin>,
}

impl<'c> ValueTrace<'c> {
    /// Merges the values as a rendering does.
    ///
    /// # Errors
    /// The rendering's error, if the values cannot be merged. It may quote a value.
    pub fn new(chart: &'c Chart, given: &'c GivenValues, options: &Options) -> Result<Self, Diagnostic> {
        let (charts, effective) = guarded(chart, options, || {
            let user = to_map(&given.merged);
            let root = resolve(chart, &user)?;
            let values = coalesce_values(&root, &user).map_err(|e| Diagnostic::values(mismatch(&e)))?;
            Ok((ChartPosition::of(&root, Vec::new()), as_values(&Value::Map(values))))
        })?;
        Ok(Self { chart, given, options: options.clone(), charts, effective })
    }

    /// Every value, in the order of keys. Tables that only the merge makes are left out.
    ///
    /// # Errors
    /// If the limits of the options are reached.
    pub fn values(&self) -> Result<Vec<EffectiveValue>, Diagnostic> {
        let marks = self.marks(&BTreeSet::new())?;
        let mut found = Vec::new();
        let mut walk = vec![(Vec::new(), &self.effective, Some(&marks.values))];
        while let Some((above, values, marked)) = walk.pop() {
            for (key, value) in values {
                let path: Vec<String> = above.iter().cloned().chain([key.clone()]).collect();
                let mark = marked.and_then(|marked| marked.get(key));
                match value {
                    Json::Object(below) if !below.is_empty() => {
                        walk.push((path, below, mark.and_then(Json::as_object)));
                    }
                    _ => {
                        let origin = number(mark).map(|n| marks.places[n].clone()).or_else(|| self.unmarked(&path));
                        found.extend(origin.map(|origin| EffectiveValue { path, value: value.clone(), origin }));
                    }
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The places that give a value at a path, the one that counts last. Each is found by a merge without those above it. A table is the
    /// end of a chain: its values have chains of their own.
    ///
    /// # Errors
    /// If the limits of the options are reached.
    pub fn chain(&self, path: &[String]) -> Result<Vec<ValueOrigin>, Diagnostic> {
        let mut hidden = BTreeSet::new();
        let mut steps = Vec::new();
        while steps.len() < STEPS {
            let marks = self.marks(&hidden)?;
            let next = match at(&marks.values, path) {
                Some(Json::Object(_)) => {
                    steps.extend(self.table(path));
                    break;
                }
                found @ Some(Json::Number(_)) => number(found),
                _ => self.null(path, &marks.places, &hidden),
            };
            let Some(next) = next else { break };
            hidden.insert(next);
            steps.push(marks.places[next].clone());
        }
        steps.reverse();
        Ok(steps)
    }

    /// The value at a place.
    pub fn at(&self, origin: &ValueOrigin) -> Option<&'c Json> {
        at(self.document(&origin.source)?, &origin.path)
    }

    /// The chart at a position.
    pub fn chart(&self, position: &[usize]) -> Option<&'c Chart> {
        position.iter().try_fold(self.chart, |chart, at| chart.dependencies.get(*at))
    }

    fn document(&self, source: &ValueSource) -> Option<&'c Values> {
        match source {
            ValueSource::Chart(position) => self.chart(position).map(|chart| &chart.values),
            ValueSource::Layer(layer) => self.given.layers.get(*layer),
        }
    }

    /// Merges numbers in place of the values; those that are `hidden` do not take part.
    fn marks(&self, hidden: &BTreeSet<usize>) -> Result<Marks, Diagnostic> {
        guarded(self.chart, &self.options, || {
            let mut marker = Marker { hidden, places: Vec::new() };
            let copy = marker.chart(self.chart, &mut Vec::new());
            let layers = self.given.layers.iter().enumerate();
            let layers = layers.map(|(n, layer)| marker.table(layer, &ValueSource::Layer(n), &mut Vec::new()));
            let user = to_map(&(self.given.merge)(layers.collect()));
            let problem = |e| Diagnostic::values(mismatch(&e));
            let root = ChartNode::resolve_copy(self.chart, &to_map(&self.given.merged), &copy).map_err(problem)?;
            let values = coalesce_values(&root, &user).map_err(problem)?;
            Ok(Marks { values: as_values(&Value::Map(values)), places: marker.places })
        })
    }

    /// The highest place of a null or of a table, which have no number after a merge.
    fn unmarked(&self, path: &[String]) -> Option<ValueOrigin> {
        let value = at(&self.effective, path)?;
        let same = self.places(path).into_iter().find(|place| self.at(place) == Some(value));
        same.or_else(|| self.table(path))
    }

    /// The highest place of a table.
    fn table(&self, path: &[String]) -> Option<ValueOrigin> {
        self.places(path).into_iter().find(|place| self.at(place).is_some_and(Json::is_object))
    }

    /// The highest null at a path, or above it, that is not hidden.
    fn null(&self, path: &[String], numbered: &[ValueOrigin], hidden: &BTreeSet<usize>) -> Option<usize> {
        let places = self.places(path);
        let above = places.iter().flat_map(|place| {
            (1..=place.path.len())
                .rev()
                .map(|length| ValueOrigin { source: place.source.clone(), path: place.path[..length].to_vec() })
        });
        above
            .filter(|place| self.at(place).is_some_and(Json::is_null))
            .filter_map(|place| numbered.iter().position(|numbered| *numbered == place))
            .find(|number| !hidden.contains(number))
    }

    /// The places that can give a value at a path: layers from the highest, then charts from the outermost. Those of a global value are
    /// at the path of every chart around.
    fn places(&self, path: &[String]) -> Vec<ValueOrigin> {
        let depth = self.charts.owners(path).len() - 1;
        let global = path.get(depth).is_some_and(|key| key == GLOBAL);
        let first = if global { 0 } else { depth };
        let paths: Vec<Vec<String>> =
            (first..=depth).map(|end| path[..end].iter().chain(&path[depth..]).cloned().collect()).collect();
        let mut places = Vec::new();
        for path in &paths {
            let layers = (0..self.given.layers.len()).rev().map(ValueSource::Layer);
            places.extend(layers.map(|source| ValueOrigin { source, path: path.clone() }));
        }
        for path in &paths {
            for (level, owner) in self.charts.owners(path).into_iter().enumerate() {
                let source = ValueSource::Chart(owner.position.clone());
                places.push(ValueOrigin { source, path: path[level..].to_vec() });
            }
        }
        places
    }
}

/// Replaces values by numbers.
struct Marker<'h> {
    hidden: &'h BTreeSet<usize>,
    places: Vec<ValueOrigin>,
}

impl Marker<'_> {
    fn chart(&mut self, chart: &Chart, position: &mut Vec<usize>) -> Chart {
        let values = self.table(&chart.values, &ValueSource::Chart(position.clone()), &mut Vec::new());
        let mut dependencies = Vec::with_capacity(chart.dependencies.len());
        for (at, dependency) in chart.dependencies.iter().enumerate() {
            position.push(at);
            dependencies.push(self.chart(dependency, position));
            position.pop();
        }
        Chart { values, dependencies, metadata: chart.metadata.clone(), ..Chart::default() }
    }

    fn table(&mut self, values: &Values, source: &ValueSource, path: &mut Vec<String>) -> Values {
        let mut marked = Values::new();
        for (key, value) in values {
            path.push(key.clone());
            let mark = match value {
                Json::Object(below) => Some(Json::Object(deeper(|| self.table(below, source, path)))),
                _ => self.leaf(value, source, path),
            };
            path.pop();
            marked.extend(mark.map(|mark| (key.clone(), mark)));
        }
        marked
    }

    fn leaf(&mut self, value: &Json, source: &ValueSource, path: &[String]) -> Option<Json> {
        let number = self.places.len();
        self.places.push(ValueOrigin { source: source.clone(), path: path.to_vec() });
        let mark = if value.is_null() { Json::Null } else { number.into() };
        (!self.hidden.contains(&number)).then_some(mark)
    }
}

fn number(mark: Option<&Json>) -> Option<usize> {
    mark.and_then(Json::as_u64).and_then(|number| usize::try_from(number).ok())
}

fn as_values(values: &Value) -> Values {
    match plain_json::of(values) {
        Json::Object(values) => values,
        _ => Values::new(),
    }
}
