//! The keywords of a schema.

use super::compile::{Additional, Compiled, Compiler, Dependency, Id, Items, Resource, Schema};
use super::constant::Constant;
use super::draft::{Draft, string, table};
use super::number::Decimal;
use super::place::{self, SchemaPlace};
use super::{error, format};
use crate::template::functions::re2::{self, Pattern};
use crate::template::functions::text::quoted;
use crate::template::value::{Map, Value};

use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the keywords of one schema.
pub struct Keywords<'c> {
    pub compiler: &'c mut Compiler,
    pub object: &'c Map,
    pub place: &'c SchemaPlace,
    pub owner: &'c Resource,
}

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl Keywords<'_> {
    /// Reads them into a schema.
    pub fn compile(&mut self, s: &mut Schema, draft: Draft) -> Compiled<()> {
        s.reference = self.reference("$ref")?;
        if draft < Draft::D2019 && s.reference.is_some() {
            // Everything next to a $ref is ignored.
            return Ok(());
        }
        self.applicators(s, draft)?;
        self.assertions(s, draft)?;
        if draft >= Draft::D6 {
            s.contains = self.schema("contains");
            s.property_names = self.schema("propertyNames");
            s.only = self.object.get("const").as_ref().map(Constant::of);
        }
        if draft >= Draft::D7 {
            s.condition = self.schema("if");
            if s.condition.is_some() {
                let always = self.boolean("if");
                s.then = if always == Some(false) { None } else { self.schema("then") };
                s.otherwise = if always == Some(true) { None } else { self.schema("else") };
            }
        }
        if draft >= Draft::D2019 {
            self.since_2019(s)?;
        }
        if draft >= Draft::D2020 {
            if let Some(id) = self.reference("$dynamicRef")? {
                let reference = string(self.object, "$dynamicRef").unwrap_or_default();
                let (_, fragment) = place::split(&reference)?;
                let anchor = if fragment.starts_with('/') { String::new() } else { fragment };
                s.dynamic_ref = Some((id, anchor));
            }
            s.dynamic_anchor = string(self.object, "$dynamicAnchor").unwrap_or_default();
            s.prefix_items = self.schemas("prefixItems");
            s.rest_items = self.schema("items");
        }
        Ok(())
    }

    fn applicators(&mut self, s: &mut Schema, draft: Draft) -> Compiled<()> {
        s.all_of = self.schemas("allOf");
        s.any_of = self.schemas("anyOf");
        s.one_of = self.schemas("oneOf");
        s.not = self.schema("not");
        if draft < Draft::D2020 {
            match self.object.get("items") {
                Some(Value::List(_)) => {
                    s.items = Some(Items::Each(self.schemas("items")));
                    s.additional_items = self.additional("additionalItems");
                }
                Some(_) => s.items = self.schema("items").map(Items::All),
                None => {}
            }
        }
        s.properties = self.table("properties");
        for (pattern, id) in self.table("patternProperties") {
            let regex = self.regex("patternProperties", &pattern)?;
            s.patterns.push((regex, id));
        }
        s.additional_properties = self.additional("additionalProperties");
        if let Some(Value::Map(map)) = self.object.get("dependencies") {
            for (key, value) in map.entries() {
                let key = key.text().into_owned();
                let dependency = match &value {
                    Value::List(_) => Dependency::Keys(strings(&value)),
                    _ => Dependency::Schema(self.enqueue(&["dependencies", &key])),
                };
                s.dependencies.push((key, dependency));
            }
        }
        Ok(())
    }

    fn assertions(&mut self, s: &mut Schema, draft: Draft) -> Compiled<()> {
        let wanted = match self.object.get("type") {
            Some(Value::Str(name)) => vec![name.text().into_owned()],
            Some(list @ Value::List(_)) => strings(&list),
            _ => Vec::new(),
        };
        s.types = TYPES.into_iter().filter(|t| wanted.iter().any(|w| w == t)).collect();
        if let Some(Value::List(list)) = self.object.get("enum") {
            s.one_of_values = Some(list.items.iter().map(Constant::of).collect());
        }
        s.multiple_of = self.number("multipleOf");
        (s.maximum, s.exclusive_maximum) = self.limit("maximum", "exclusiveMaximum");
        (s.minimum, s.exclusive_minimum) = self.limit("minimum", "exclusiveMinimum");
        s.min_length = self.count("minLength");
        s.max_length = self.count("maxLength");
        if let Some(pattern) = string(self.object, "pattern") {
            s.pattern = Some((self.regex("pattern", &pattern)?, pattern));
        }
        s.min_items = self.count("minItems");
        s.max_items = self.count("maxItems");
        s.unique_items = self.boolean("uniqueItems") == Some(true);
        s.min_properties = self.count("minProperties");
        s.max_properties = self.count("maxProperties");
        s.required = self.object.get("required").map(|list| strings(&list)).unwrap_or_default();
        if draft < Draft::D2019 || self.compiler.is_meta {
            s.format = string(self.object, "format").and_then(|name| format::find(&name));
        }
        Ok(())
    }

    fn since_2019(&mut self, s: &mut Schema) -> Compiled<()> {
        s.recursive_ref = self.reference("$recursiveRef")?;
        s.recursive_anchor = self.boolean("$recursiveAnchor") == Some(true);
        if s.contains.is_some() {
            s.min_contains = self.count("minContains");
            s.max_contains = self.count("maxContains");
        }
        if let Some(map) = table(&Value::Map(self.object.clone()), "dependentRequired") {
            let lists = map.entries().into_iter().filter(|(_, v)| matches!(v, Value::List(_)));
            s.dependent_required = lists.map(|(k, v)| (k.text().into_owned(), strings(&v))).collect();
        }
        s.dependent_schemas = self.table("dependentSchemas");
        s.unevaluated_items = self.schema("unevaluatedItems");
        s.unevaluated_properties = self.schema("unevaluatedProperties");
        Ok(())
    }

    fn enqueue(&mut self, keys: &[&str]) -> Id {
        let place = keys.iter().fold(self.place.clone(), |place, key| place.child(key));
        self.compiler.enqueue(place)
    }

    fn schema(&mut self, key: &str) -> Option<Id> {
        self.object.get(key).is_some().then(|| self.enqueue(&[key]))
    }

    fn schemas(&mut self, key: &str) -> Vec<Id> {
        match self.object.get(key) {
            Some(Value::List(list)) => (0..list.items.len()).map(|i| self.enqueue(&[key, &i.to_string()])).collect(),
            _ => Vec::new(),
        }
    }

    fn table(&mut self, key: &str) -> BTreeMap<String, Id> {
        let keys: Vec<String> = match self.object.get(key) {
            Some(Value::Map(map)) => map.borrow().keys().map(|k| k.text().into_owned()).collect(),
            _ => Vec::new(),
        };
        keys.into_iter().map(|k| (k.clone(), self.enqueue(&[key, &k]))).collect()
    }

    fn additional(&mut self, key: &str) -> Option<Additional> {
        match self.object.get(key)? {
            Value::Bool(b) => Some(Additional::Allowed(b)),
            _ => self.schema(key).map(Additional::Schema),
        }
    }

    fn reference(&mut self, key: &str) -> Compiled<Option<Id>> {
        let Some(reference) = string(self.object, key) else { return Ok(None) };
        self.compiler.refer(self.place, self.owner, &reference).map(Some)
    }

    fn regex(&self, key: &str, pattern: &str) -> Compiled<Arc<Pattern>> {
        re2::compile(pattern).map_err(|e| {
            let place = format!("{}/{}", self.place, place::encoded(&error::escaped(key)));
            format!("invalid regex {} at {}: error parsing regexp: {e}", quoted(pattern), quoted(&place)).into()
        })
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        match self.object.get(key) {
            Some(Value::Bool(b)) => Some(b),
            _ => None,
        }
    }

    fn number(&self, key: &str) -> Option<Decimal> {
        Decimal::of(&self.object.get(key)?)
    }

    fn count(&self, key: &str) -> Option<i64> {
        self.number(key)?.to_integer()
    }

    /// A limit and its exclusive form, which in draft 4 is a flag of the limit.
    fn limit(&self, key: &str, exclusive: &str) -> (Option<Decimal>, Option<Decimal>) {
        let limit = self.number(key);
        if self.boolean(exclusive) == Some(true) { (None, limit) } else { (limit, self.number(exclusive)) }
    }
}

/// The texts in a list.
fn strings(value: &Value) -> Vec<String> {
    let Value::List(list) = value else { return Vec::new() };
    let text = |item: &Value| if let Value::Str(s) = item { Some(s.text().into_owned()) } else { None };
    list.items.iter().filter_map(text).collect()
}
