//! The values that a custom resource and its kind give, in layers, the lowest first.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::super::error::CliError;
use super::super::fields::{list, text as field};
use super::paths::joined;
use crate::bounds;
use crate::chart::{Values, values};
use crate::kind::allow::describe;
use crate::kind::values_from::{self, SourceKind, ValuesFrom};
use crate::kind::{Kind, depends_on};
use crate::mask::{Masks, Secrets};
use crate::reconcile::value_layers::{SourcesSize, content, lay_over, override_values, whole};
use crate::render::provenance::GivenValues;

/// The document that gives a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerName {
    /// A Secret or a `ConfigMap`.
    Source(ValuesFrom),
    /// The status of another custom resource: its kind and name.
    Status(String),
    /// The custom resource.
    Spec,
    /// The kind's `overrideValues`.
    Overrides,
}

impl LayerName {
    /// The name of the field that gives the layer.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Source(_) => "valuesFrom",
            Self::Status(_) => "dependsOn",
            Self::Spec => "spec",
            Self::Overrides => "overrideValues",
        }
    }

    /// The place of a value in the layer.
    pub fn place(&self, path: &[String]) -> String {
        match self {
            Self::Source(source) => format!("{source}, key {}", source.key),
            Self::Status(other) => format!("status of {other}"),
            Self::Spec => format!("spec.{}", joined(path)),
            Self::Overrides => "watches.yaml".to_owned(),
        }
    }

    /// Whether the values of the layer are never shown.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Source(source) if source.kind == SourceKind::Secret)
    }
}

/// The objects that sources name; `None` for an object that does not exist.
pub type SourceObjects = HashMap<(SourceKind, String), Option<Value>>;

/// The values of a custom resource and its kind.
pub struct Layers {
    /// The documents, in the order of the layers.
    pub names: Vec<LayerName>,
    /// The values.
    pub given: GivenValues,
    /// The texts that are not shown.
    masks: Masks<()>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Layers {
    /// A text of the renderer, without secrets.
    pub fn clean(&self, text: &str) -> String {
        self.masks.clean(&(), text)
    }

    /// Adds secrets that texts about the release may quote.
    pub fn learn(&self, secrets: Secrets) {
        self.masks.learn(&(), secrets);
    }

    /// A document without secrets, whose lines all stay; `None` if too much of it is secret.
    pub fn replace(&self, text: &str) -> Option<String> {
        self.masks.replace(&(), text)
    }

    /// A field of an object, without secrets.
    pub fn clean_value(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.masks.clean_value(&(), &mut value);
        value
    }

    /// Whether a layer that must not be shown has a value at a path, above it or below it.
    pub fn is_secret_at(&self, path: &[String]) -> bool {
        let touches = |values: &Values| {
            let mut values = values;
            for key in path {
                match values.get(key) {
                    None => return false,
                    Some(Value::Object(below)) => values = below,
                    Some(_) => return true,
                }
            }
            true
        };
        self.names.iter().zip(&self.given.layers).any(|(name, values)| name.is_secret() && touches(values))
    }
}

/// The sources of a kind and of a custom resource, in the order of precedence.
pub fn sources(cr: &Value, kind: Option<&Kind>, notes: &mut Vec<String>) -> Result<Vec<ValuesFrom>, CliError> {
    let mut sources = kind.map(|kind| kind.values_from.clone()).unwrap_or_default();
    if let Some(text) = annotations(cr, kind, notes).get(values_from::ANNOTATION) {
        let wrong = |why| CliError(format!("annotation {}: {why}", values_from::ANNOTATION));
        sources.extend(values_from::parse_text(text).map_err(wrong)?);
    }
    if sources.len() > bounds::SOURCES {
        return Err(CliError(format!("there are more than {} sources of values", bounds::SOURCES)));
    }
    Ok(sources)
}

/// The annotations that the kind allows.
fn annotations<'v>(cr: &'v Value, kind: Option<&Kind>, notes: &mut Vec<String>) -> BTreeMap<&'v str, &'v str> {
    let all = cr.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let mut annotations: BTreeMap<&str, &str> =
        all.filter_map(|(name, text)| Some((&**name, text.as_str()?))).collect();
    notes.extend(kind.and_then(|kind| describe(&kind.allow.take_refused(&mut annotations))));
    annotations
}

/// Reads the layers.
pub fn layers(
    cr: &Value,
    kind: Option<&Kind>,
    sources: Vec<ValuesFrom>,
    objects: &SourceObjects,
    mut notes: Vec<String>,
) -> Result<Layers, CliError> {
    let mut read = Read::default();
    for source in sources {
        if let Some(text) = text(&source, objects, &mut notes)? {
            read.add_source(source, &text)?;
        }
    }
    let mut linked = Map::new();
    for (other, values) in statuses(cr) {
        let mut alone = Map::new();
        for (target, value) in values {
            let wrong = |why| CliError(format!("status.dependencies: {other}: {target:?}: {why}"));
            depends_on::set(target, value, &mut alone).map_err(wrong)?;
            depends_on::set(target, value, &mut linked).map_err(wrong)?;
        }
        read.add(LayerName::Status(other), alone);
    }
    let spec = spec(cr)?;
    let mut own = spec.clone();
    if let Some(kind) = kind {
        override_values(&mut own, kind);
    }
    read.add(LayerName::Spec, spec);
    read.add(LayerName::Overrides, kind.map(|kind| kind.overrides.values.clone()).unwrap_or_default());
    let given = GivenValues { merged: whole(read.merged, linked, own), layers: read.layers, merge };
    Ok(Layers { names: read.names, given, masks: read.masks, notes })
}

/// The layers that were read.
#[derive(Default)]
struct Read {
    names: Vec<LayerName>,
    layers: Vec<Values>,
    /// All sources, merged.
    merged: Values,
    size: SourcesSize,
    masks: Masks<()>,
}

impl Read {
    fn add(&mut self, name: LayerName, values: Values) {
        self.names.push(name);
        self.layers.push(values);
    }

    fn add_source(&mut self, source: ValuesFrom, text: &str) -> Result<(), CliError> {
        let mut secrets = Secrets::default();
        let result = lay_over(&mut self.merged, &source, text, &mut secrets, &mut self.size);
        if source.kind == SourceKind::Secret {
            self.masks.learn(&(), secrets);
        }
        result.map_err(CliError)?;
        let mut alone = Map::new();
        lay_over(&mut alone, &source, text, &mut Secrets::default(), &mut SourcesSize::default()).map_err(CliError)?;
        self.add(LayerName::Source(source), alone);
        Ok(())
    }
}

/// Merges layers as [`layers`] does: the last two are the spec and the overrides.
fn merge(mut layers: Vec<Values>) -> Values {
    let mut own = layers.split_off(layers.len().saturating_sub(2)).into_iter();
    let together = |mut all: Values, layer: Values| {
        values::merge(&mut all, layer);
        all
    };
    let sources = layers.into_iter().fold(Map::new(), together);
    let own = own.by_ref().fold(Map::new(), together);
    whole(sources, Map::new(), own)
}

/// The text of a source; `None` if it need not exist and does not.
fn text(source: &ValuesFrom, objects: &SourceObjects, notes: &mut Vec<String>) -> Result<Option<String>, CliError> {
    let found = objects.get(&(source.kind, source.name.to_string())).and_then(Option::as_ref);
    match (found, found.and_then(|object| content(source, object))) {
        (_, Some(text)) => Ok(Some(text)),
        (object, None) if source.optional => {
            let missing = if object.is_some() { format!("has no key {}", source.key) } else { "does not exist".into() };
            notes.push(format!("values-from: {source} {missing}; it is optional"));
            Ok(None)
        }
        (Some(_), None) => Err(CliError(format!("values-from: {source} has no key {}", source.key))),
        (None, None) => Err(CliError(format!("values-from: {source} does not exist"))),
    }
}

/// The values that the operator took from the status of other custom resources, as the status of this one records them.
fn statuses(cr: &Value) -> Vec<(String, &Values)> {
    let entries = list(cr, "/status/dependencies").iter().take(bounds::DEPENDENCIES);
    let named = entries.filter_map(|entry| Some((entry, entry.get("values")?.as_object()?)));
    named.map(|(entry, values)| (format!("{} {}", field(entry, "kind"), field(entry, "name")), values)).collect()
}

fn spec(cr: &Value) -> Result<Values, CliError> {
    match cr.get("spec") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(spec)) => Ok(spec.clone()),
        Some(_) => Err(CliError::new("spec is not an object, so it cannot be the values of a chart")),
    }
}

#[cfg(test)]
mod tests {
    use super::{LayerName, SourceObjects, layers, sources};
    use crate::kind::values_from::SourceKind;
    use serde_json::{Value, json};

    fn cr() -> Value {
        let sources = r#"[{"kind": "ConfigMap", "name": "base"}, {"kind": "Secret", "name": "db", "key": "pw", "targetPath": "db.users[0].password"}]"#;
        json!({
            "metadata": {"annotations": {"tillerman.dev/values-from": sources}},
            "spec": {"image": {"tag": "2"}},
            "status": {"dependencies": [{"kind": "Database.d", "name": "main", "values": {"db.host": "h"}}]},
        })
    }

    fn objects() -> SourceObjects {
        let base = json!({"data": {"values.yaml": "image: {tag: \"1\", pull: Always}\n"}});
        let secret = json!({"data": {"pw": "aHVudGVyMjI="}});
        [(SourceKind::ConfigMap, "base", base), (SourceKind::Secret, "db", secret)]
            .map(|(kind, name, object)| ((kind, name.to_owned()), Some(object)))
            .into()
    }

    #[test]
    fn sources_are_below_statuses_and_these_below_the_spec() {
        let cr = cr();
        let sources = sources(&cr, None, &mut Vec::new()).unwrap();
        let read = layers(&cr, None, sources, &objects(), Vec::new()).unwrap();
        let words: Vec<&str> = read.names.iter().map(LayerName::word).collect();
        assert_eq!(words, ["valuesFrom", "valuesFrom", "dependsOn", "spec", "overrideValues"]);
        let expected =
            json!({"image": {"tag": "2", "pull": "Always"}, "db": {"users": [{"password": "hunter22"}], "host": "h"}});
        assert_eq!(Value::Object(read.given.merged.clone()), expected);
        assert_eq!(Value::Object((read.given.merge)(read.given.layers.clone())), expected);
        assert_eq!(read.clean("it is hunter22"), "it is ****");
        let is_secret = |path: &str| read.is_secret_at(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert!(is_secret("db.users") && is_secret("db") && !is_secret("db.host") && !is_secret("image.tag"));
    }

    #[test]
    fn a_source_that_does_not_exist_is_named() {
        let cr = cr();
        let sources = sources(&cr, None, &mut Vec::new()).unwrap();
        let error = layers(&cr, None, sources, &SourceObjects::new(), Vec::new()).err().unwrap();
        assert_eq!(error.0, "values-from: ConfigMap base does not exist");
    }
}
