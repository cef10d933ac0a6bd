//! The dependencies of a chart that take part in a rendering, their names, and their exports.

use super::coalesce::{TypeMismatch, coalesce_tables, coalesce_values, deep_copy_map, merge_values};
use crate::chart::{Chart, Dependency, Metadata};
use crate::template::budget;
use crate::template::value::{Map, MapType, Str, Value};
use crate::template::version;

/// A chart in a rendering: with its alias, its enabled dependencies and the values it imported.
pub struct ChartNode<'a> {
    /// The chart at rest.
    pub chart: &'a Chart,
    /// Chart.yaml, with the alias as name and the enabled dependencies only.
    pub metadata: Metadata,
    /// Values imported from dependencies over the chart's own; `None`: those of the chart.
    imported: Option<Map>,
    /// The enabled dependencies whose values are part of the chart's own.
    pub dependencies: Vec<ChartNode<'a>>,
    /// The enabled dependencies whose values a template of the chart makes. Their own dependencies are not resolved here.
    pub computed: Vec<ChartNode<'a>>,
}

impl<'a> ChartNode<'a> {
    /// The chart with dependencies enabled, named and imported as the user's values say (Helm's
    /// `ProcessDependencies`).
    pub fn resolve(chart: &'a Chart, user: &Map) -> Result<Self, TypeMismatch> {
        let mut node = Self::all(chart);
        node.enable(user, "")?;
        node.import_values()?;
        Ok(node)
    }

    /// One of [`Self::computed`], with the values that the template of its parent has made.
    pub fn resolve_computed(&self, made: &Map) -> Result<Self, TypeMismatch> {
        let mut node = Self::resolve(self.chart, made)?;
        node.metadata.name.clone_from(&self.metadata.name);
        Ok(node)
    }

    /// As [`Self::resolve`], with the values of a copy of the chart: the dependencies have the names and are enabled as the values of the
    /// chart itself say.
    pub fn resolve_copy(chart: &'a Chart, user: &Map, copy: &'a Chart) -> Result<Self, TypeMismatch> {
        let mut node = Self::all(chart);
        node.enable(user, "")?;
        node.read_values_of(copy);
        node.import_values()?;
        Ok(node)
    }

    fn read_values_of(&mut self, copy: &'a Chart) {
        for dependency in &mut self.dependencies {
            if let Some(below) = position(self.chart, dependency.chart).and_then(|at| copy.dependencies.get(at)) {
                dependency.read_values_of(below);
            }
        }
        self.chart = copy;
    }

    fn all(chart: &'a Chart) -> Self {
        // Aliases multiply at each level. The budget reports a refusal at the next step.
        let spent = budget::work(64).and_then(|()| budget::make(1 << 10)).is_err();
        let dependencies = chart.dependencies.iter().filter(|_| !spent).map(Self::all).collect();
        let mut node =
            Self { chart, metadata: chart.metadata.clone(), imported: None, dependencies, computed: Vec::new() };
        node.part_computed();
        node
    }

    fn part_computed(&mut self) {
        let (computed, others) = std::mem::take(&mut self.dependencies)
            .into_iter()
            .partition(|child| self.chart.values_template(child.name()).is_some());
        self.computed = computed;
        self.dependencies = others;
    }

    /// The name, which may be an alias.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// A fresh copy of the chart's values.
    pub fn defaults(&self) -> Map {
        match &self.imported {
            Some(values) => deep_copy_map(values),
            None => to_map(&self.chart.values),
        }
    }

    fn enable(&mut self, values: &Map, path: &str) -> Result<(), TypeMismatch> {
        if !self.metadata.has_dependencies {
            return Ok(());
        }
        self.name_dependencies();
        for dependency in &mut self.metadata.dependencies {
            dependency.enabled = true;
        }
        let values = coalesce_values(self, values)?;
        apply_tags(&mut self.metadata.dependencies, &values);
        apply_conditions(&mut self.metadata.dependencies, &values, path);
        let disabled: Vec<String> =
            self.metadata.dependencies.iter().filter(|d| !d.enabled).map(|d| d.name.clone()).collect();
        for list in [&mut self.dependencies, &mut self.computed] {
            list.retain(|d| !disabled.iter().any(|name| name == d.name()));
        }
        self.metadata.dependencies.retain(|d| !disabled.contains(&d.name));
        self.metadata.has_dependencies = !self.metadata.dependencies.is_empty();
        for dependency in &mut self.dependencies {
            let path = format!("{path}{}.", dependency.name());
            dependency.enable(&values, &path)?;
        }
        Ok(())
    }

    /// Charts that no entry of Chart.yaml names come first; then one for each entry that a chart fits.
    fn name_dependencies(&mut self) {
        let fits = |dependency: &Dependency, chart: &Chart| {
            chart.metadata.name == dependency.name
                && version::is_compatible_range(&dependency.version, &chart.metadata.version)
        };
        let charts = &self.chart.dependencies;
        let mut named: Vec<ChartNode<'a>> = charts
            .iter()
            .filter(|chart| !self.metadata.dependencies.iter().any(|d| fits(d, chart)))
            .map(Self::all)
            .collect();
        for dependency in &mut self.metadata.dependencies {
            if budget::work_of(charts.len()).is_err() {
                break;
            }
            if let Some(chart) = charts.iter().find(|chart| fits(dependency, chart)) {
                let mut node = Self::all(chart);
                if !dependency.alias.is_empty() {
                    node.metadata.name.clone_from(&dependency.alias);
                }
                named.push(node);
            }
            if !dependency.alias.is_empty() {
                dependency.name.clone_from(&dependency.alias);
            }
        }
        self.dependencies = named;
        self.part_computed();
    }

    /// Values that dependencies export become defaults of the parent, below its own.
    fn import_values(&mut self) -> Result<(), TypeMismatch> {
        for dependency in &mut self.dependencies {
            dependency.import_values()?;
        }
        if !self.metadata.has_dependencies {
            return Ok(());
        }
        let values = merge_values(self)?;
        let imports = Map::new(MapType::Any);
        for dependency in &mut self.metadata.dependencies {
            let mut kept = Vec::new();
            for import in &dependency.import_values {
                let (child, parent) = match import {
                    serde_json::Value::Object(pair) => (text(pair.get("child")), text(pair.get("parent"))),
                    serde_json::Value::String(name) => (format!("exports.{name}"), ".".to_owned()),
                    _ => continue,
                };
                kept.push(serde_json::json!({"child": child, "parent": parent}));
                let Some(table) = table(&values, &format!("{}.{child}", dependency.name)) else { continue };
                // An empty table is a new one in Helm, so that merging does not change it.
                let table = if table.is_empty() { Map::new(MapType::Any) } else { table };
                let table = at_path(&parent, table);
                coalesce_tables(&imports, &table, true);
            }
            dependency.import_values = kept;
        }
        // The imported values are part of both, and one of them is about to be changed.
        let values = if imports.is_empty() { values } else { deep_copy_map(&values) };
        coalesce_tables(&values, &imports, true);
        self.imported = Some(values);
        Ok(())
    }
}

/// The position of a dependency among the charts of its parent.
pub fn position(parent: &Chart, dependency: &Chart) -> Option<usize> {
    parent.dependencies.iter().position(|chart| std::ptr::eq(chart, dependency))
}

/// Go's `%v` of an entry of `import-values`.
fn text(value: Option<&serde_json::Value>) -> String {
    match value {
        None | Some(serde_json::Value::Null) => "<nil>".into(),
        Some(serde_json::Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
    }
}

fn at_path(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |inner, key| {
        let outer = Map::new(MapType::Any);
        outer.insert(key, inner);
        outer
    })
}

/// The table at a dotted path.
pub fn table(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |map, key| match map.get(key) {
        Some(Value::Map(inner)) => Some(inner),
        _ => None,
    })
}

fn apply_tags(dependencies: &mut [Dependency], values: &Map) {
    let Some(tags) = table(values, "tags") else { return };
    for dependency in dependencies {
        let states: Vec<bool> = dependency
            .tags
            .iter()
            .filter_map(|tag| match tags.get(tag) {
                Some(Value::Bool(state)) => Some(state),
                _ => None,
            })
            .collect();
        dependency.enabled = states.is_empty() || states.contains(&true);
    }
}

/// The first path that holds a boolean decides.
fn apply_conditions(dependencies: &mut [Dependency], values: &Map, path: &str) {
    for dependency in dependencies {
        let conditions = dependency.condition.trim().to_owned();
        for condition in conditions.split(',').filter(|c| !c.is_empty()) {
            let full = format!("{path}{condition}");
            let found = match full.rsplit_once('.') {
                None => values.get(&full),
                Some((parent, key)) => table(values, parent).and_then(|t| t.get(key)),
            };
            if let Some(Value::Bool(state)) = found {
                dependency.enabled = state;
                break;
            }
        }
    }
}

/// A JSON object as a new map.
pub fn to_map(values: &serde_json::Map<String, serde_json::Value>) -> Map {
    let map = Map::new(MapType::Any);
    map.borrow_mut().extend(values.iter().map(|(k, v)| (Str::from(k.as_str()), Value::from(v))));
    map
}

#[cfg(test)]
mod tests {
    use super::{at_path, table, to_map};
    use crate::template::value::Value;

    #[test]
    fn a_dotted_path_finds_tables_only() {
        let serde_json::Value::Object(json) = serde_json::json!({"a": {"b": {"c": 1}}}) else { unreachable!() };
        let map = to_map(&json);
        assert!(table(&map, "a.b").is_some_and(|t| t.len() == 1));
        assert!(table(&map, "a.b.c").is_none());
        let nested = at_path("x.y", map);
        assert!(matches!(table(&nested, "x.y.a.b").and_then(|t| t.get("c")), Some(Value::Int(_, 1))));
    }
}
