//! A cheap check of facts that hold in nearly all renderings: that the schema is valid, and that the values fit it. The
//! compiler decides everything that this check cannot decide.

use super::draft::Draft;
use super::format;
use crate::template::functions::json::Number;
use crate::template::functions::re2;
use crate::template::value::{Map, Value};
use std::cell::Cell;

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// The result of the quick check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuickAnswer {
    Valid,
    Invalid,
    /// The schema must be compiled to know.
    Unknown,
}

/// A document that is looked at without compiling it.
pub struct Plain<'s> {
    root: &'s Value,
    draft: Draft,
    /// Schemas that may still be applied.
    fuel: Cell<u32>,
}

/// References are followed so often in one place.
const MAX_DEPTH: usize = 64;
/// Limit of the schemas that the quick check applies: references can multiply a few schemas.
const FUEL: u32 = 50_000;

impl<'s> Plain<'s> {
    /// A document, of the draft that it names.
    pub fn new(root: &'s Value) -> Self {
        let named = match root {
            Value::Map(map) => map.get("$schema"),
            _ => None,
        };
        let draft = named.and_then(|name| Draft::named(&text(&name)?)).unwrap_or(Draft::D2020);
        Self { root, draft, fuel: Cell::new(FUEL) }
    }

    /// Whether a schema is certainly valid in its draft, with references that resolve. `false` decides nothing: then the
    /// draft's schema must be asked.
    pub fn is_valid(&self, schema: &Value) -> bool {
        match schema {
            Value::Bool(_) => self.draft > Draft::D4,
            Value::Map(map) => map.borrow().iter().all(|(key, value)| self.is_keyword(map, &key.text(), value)),
            _ => false,
        }
    }

    /// The definition that a reference leads to. Others are left to the compiler.
    fn definition(&self, reference: &Value) -> Option<Value> {
        let Value::Str(reference) = reference else { return None };
        let reference = reference.text();
        let (place, name) = reference.strip_prefix("#/")?.split_once('/')?;
        let simple = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if !matches!(place, "definitions" | "$defs") || !name.bytes().all(simple) {
            return None;
        }
        match self.root {
            Value::Map(root) => match root.get(place)? {
                Value::Map(definitions) => definitions.get(name),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_keyword(&self, schema: &Map, key: &str, value: &Value) -> bool {
        let draft = self.draft;
        let below = |value: &Value| self.is_valid(value);
        match key {
            "title" | "description" | "format" => matches!(value, Value::Str(_)),
            "$comment" | "contentEncoding" | "contentMediaType" => draft > Draft::D6 && matches!(value, Value::Str(_)),
            "$schema" => text(value).is_some_and(|name| Draft::named(&name) == Some(draft)),
            "$ref" => self.definition(value).is_some(),
            "pattern" => is_regex(value),
            "default" => true,
            "const" => draft > Draft::D4,
            "examples" => draft > Draft::D4 && matches!(value, Value::List(_)),
            "enum" => texts(value).is_some_and(|all| !all.is_empty() && are_unique(&all)),
            "type" => match value {
                Value::Str(name) => TYPES.contains(&&*name.text()),
                _ => texts(value).is_some_and(|all| {
                    !all.is_empty() && are_unique(&all) && all.iter().all(|name| TYPES.contains(&name.as_str()))
                }),
            },
            "required" => texts(value).is_some_and(|all| are_unique(&all) && (draft > Draft::D4 || !all.is_empty())),
            "properties" | "definitions" => table(value, below),
            "$defs" => draft > Draft::D7 && table(value, below),
            "patternProperties" => {
                let Value::Map(map) = value else { return false };
                map.borrow().iter().all(|(pattern, value)| is_regex(&Value::Str(pattern.clone())) && below(value))
            }
            "additionalProperties" => matches!(value, Value::Bool(_)) || below(value),
            "not" => below(value),
            "if" | "then" | "else" => draft > Draft::D6 && below(value),
            "contains" | "propertyNames" => draft > Draft::D4 && below(value),
            "items" => match value {
                Value::List(list) => draft < Draft::D2020 && !list.items.is_empty() && list.items.iter().all(below),
                value => below(value),
            },
            "allOf" | "anyOf" | "oneOf" => {
                matches!(value, Value::List(list) if !list.items.is_empty() && list.items.iter().all(below))
            }
            "minimum" | "maximum" => number(value).is_some(),
            "exclusiveMinimum" | "exclusiveMaximum" => match value {
                // Of draft 4, where it belongs to a limit.
                Value::Bool(_) => draft == Draft::D4 && schema.get(key.replace("exclusiveM", "m")).is_some(),
                value => draft > Draft::D4 && number(value).is_some(),
            },
            "multipleOf" => number(value).is_some_and(|n| n > 0.0),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                number(value).is_some_and(|n| n >= 0.0 && n.fract() == 0.0)
            }
            "uniqueItems" => matches!(value, Value::Bool(_)),
            "readOnly" | "writeOnly" => draft < Draft::D7 || matches!(value, Value::Bool(_)),
            "deprecated" => draft < Draft::D2019 || matches!(value, Value::Bool(_)),
            "id" | "$id" | "dependencies" | "additionalItems" | "contentSchema" => false,
            // Keywords that start like this are those of the newer drafts; no draft says anything of others.
            other => {
                !other.starts_with('$')
                    && !["unevaluated", "dependent", "prefix", "minContains", "maxContains"]
                        .iter()
                        .any(|p| other.starts_with(p))
            }
        }
    }

    /// Whether a value fits a schema that [`Self::is_valid`] has found good.
    pub fn check(&self, schema: &Value, value: &Value, depth: usize) -> QuickAnswer {
        let Some(fuel) = self.fuel.get().checked_sub(1) else { return QuickAnswer::Unknown };
        self.fuel.set(fuel);
        let map = match schema {
            Value::Bool(true) => return QuickAnswer::Valid,
            Value::Bool(false) => return QuickAnswer::Invalid,
            Value::Map(map) if depth < MAX_DEPTH => map,
            _ => return QuickAnswer::Unknown,
        };
        if let Some(reference) = map.get("$ref") {
            let found = self.definition(&reference);
            let followed = found.map_or(QuickAnswer::Unknown, |schema| self.check(&schema, value, depth + 1));
            if self.draft < Draft::D2019 || followed != QuickAnswer::Valid {
                return followed;
            }
        }
        let entries = map.borrow();
        all(entries.iter().map(|(key, keyword)| self.assert(map, &key.text(), keyword, value, depth + 1)))
    }

    fn assert(&self, schema: &Map, key: &str, keyword: &Value, value: &Value, depth: usize) -> QuickAnswer {
        let below = |schema: &Value| self.check(schema, value, depth);
        match (key, value) {
            ("type", _) => match keyword {
                Value::Str(name) => is_type(&name.text(), value),
                Value::List(names) => any(names.items.iter().map(|name| match name {
                    Value::Str(name) => is_type(&name.text(), value),
                    _ => QuickAnswer::Unknown,
                })),
                _ => QuickAnswer::Unknown,
            },
            ("const", _) => same(keyword, value),
            ("enum", _) => each(keyword, |items| any(items.iter().map(|item| same(item, value)))),
            ("allOf", _) => each(keyword, |schemas| all(schemas.iter().map(below))),
            ("anyOf", _) => each(keyword, |schemas| any(schemas.iter().map(below))),
            ("oneOf", _) => each(keyword, |schemas| one(schemas.iter().map(below))),
            ("not", _) => match below(keyword) {
                QuickAnswer::Valid => QuickAnswer::Invalid,
                QuickAnswer::Invalid => QuickAnswer::Valid,
                QuickAnswer::Unknown => QuickAnswer::Unknown,
            },
            ("if", _) if self.draft >= Draft::D7 => {
                let next = match below(keyword) {
                    QuickAnswer::Valid => "then",
                    QuickAnswer::Invalid => "else",
                    QuickAnswer::Unknown => return QuickAnswer::Unknown,
                };
                schema.get(next).map_or(QuickAnswer::Valid, |schema| below(&schema))
            }
            ("contains" | "propertyNames", _) => QuickAnswer::Unknown,
            (_, Value::Map(map)) => self.assert_table(schema, key, keyword, map, depth),
            (_, Value::List(list)) => self.assert_list(key, keyword, &list.items, depth),
            (_, Value::Str(text)) => self.assert_text(key, keyword, &text.text()),
            (_, Value::Int(..) | Value::Float(_)) => assert_number(schema, key, keyword, value),
            _ => QuickAnswer::Valid,
        }
    }

    fn assert_table(&self, schema: &Map, key: &str, keyword: &Value, map: &Map, depth: usize) -> QuickAnswer {
        match (key, keyword) {
            ("properties", Value::Map(properties)) => all(properties.borrow().iter().map(|(name, schema)| {
                map.get(name.bytes()).map_or(QuickAnswer::Valid, |value| self.check(schema, &value, depth))
            })),
            ("required", Value::List(names)) => {
                let has = |name: &Value| matches!(name, Value::Str(name) if map.get(name.bytes()).is_some());
                answer(names.items.iter().all(has))
            }
            ("additionalProperties", Value::Bool(true)) => QuickAnswer::Valid,
            ("additionalProperties", additional) => {
                if schema.get("patternProperties").is_some() {
                    return QuickAnswer::Unknown;
                }
                let known = schema.get("properties");
                let is_known = |name: &[u8]| matches!(&known, Some(Value::Map(known)) if known.get(name).is_some());
                let entries = map.borrow();
                let others = entries.iter().filter(|(name, _)| !is_known(name.bytes()));
                all(others.map(|(_, value)| self.check(additional, value, depth)))
            }
            ("patternProperties", _) => QuickAnswer::Unknown,
            ("minProperties", limit) => at_least(map.len(), limit),
            ("maxProperties", limit) => at_most(map.len(), limit),
            _ => QuickAnswer::Valid,
        }
    }

    fn assert_list(&self, key: &str, keyword: &Value, items: &[Value], depth: usize) -> QuickAnswer {
        match (key, keyword) {
            ("items", Value::List(_)) => QuickAnswer::Unknown,
            ("items", schema) => all(items.iter().map(|item| self.check(schema, item, depth))),
            ("minItems", limit) => at_least(items.len(), limit),
            ("maxItems", limit) => at_most(items.len(), limit),
            ("uniqueItems", Value::Bool(true)) if items.len() > 1 => QuickAnswer::Unknown,
            _ => QuickAnswer::Valid,
        }
    }

    fn assert_text(&self, key: &str, keyword: &Value, subject: &str) -> QuickAnswer {
        match (key, keyword) {
            ("minLength", limit) => at_least(subject.chars().count(), limit),
            ("maxLength", limit) => at_most(subject.chars().count(), limit),
            ("pattern", Value::Str(pattern)) => re2::compile(&pattern.text())
                .ok()
                .and_then(|pattern| pattern.is_match(subject.as_bytes()).ok())
                .map_or(QuickAnswer::Unknown, answer),
            ("format", Value::Str(name)) if self.draft < Draft::D2019 => {
                format::find(&name.text()).map_or(QuickAnswer::Valid, |format| answer((format.check)(subject).is_ok()))
            }
            _ => QuickAnswer::Valid,
        }
    }
}

fn answer(fits: bool) -> QuickAnswer {
    if fits { QuickAnswer::Valid } else { QuickAnswer::Invalid }
}

fn all(mut answers: impl Iterator<Item = QuickAnswer>) -> QuickAnswer {
    answers.find(|answer| *answer != QuickAnswer::Valid).unwrap_or(QuickAnswer::Valid)
}

fn any(answers: impl Iterator<Item = QuickAnswer>) -> QuickAnswer {
    let mut found = QuickAnswer::Invalid;
    for answer in answers {
        match answer {
            QuickAnswer::Valid => return QuickAnswer::Valid,
            QuickAnswer::Unknown => found = QuickAnswer::Unknown,
            QuickAnswer::Invalid => {}
        }
    }
    found
}

fn one(answers: impl Iterator<Item = QuickAnswer>) -> QuickAnswer {
    let mut valid = 0;
    for answer in answers {
        match answer {
            QuickAnswer::Unknown => return QuickAnswer::Unknown,
            QuickAnswer::Valid => valid += 1,
            QuickAnswer::Invalid => {}
        }
    }
    answer(valid == 1)
}

fn each(keyword: &Value, check: impl Fn(&[Value]) -> QuickAnswer) -> QuickAnswer {
    match keyword {
        Value::List(list) => check(&list.items),
        _ => QuickAnswer::Unknown,
    }
}

/// 2^53: beyond it floats are no longer exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The number that a value of the user is, if it is exact.
fn exact(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "inexact results are refused below")]
        Value::Int(_, i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        other => number(other),
    }
    .filter(|f| f.abs() < EXACT)
}

fn is_type(name: &str, value: &Value) -> QuickAnswer {
    answer(match value {
        Value::Nil => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Str(_) => name == "string",
        Value::List(_) => name == "array",
        Value::Map(_) => name == "object",
        Value::Int(..) => matches!(name, "integer" | "number"),
        Value::Float(f) => name == "number" || name == "integer" && f.fract() == 0.0,
        Value::Object(_) => return QuickAnswer::Unknown,
    })
}

/// Whether two values are the same; collections are left to the compiler.
fn same(wanted: &Value, value: &Value) -> QuickAnswer {
    match (wanted, value) {
        (Value::Str(a), Value::Str(b)) => answer(a == b),
        (Value::Bool(a), Value::Bool(b)) => answer(a == b),
        (Value::Nil, Value::Nil) => QuickAnswer::Valid,
        (Value::Object(_), Value::Int(..) | Value::Float(_))
        | (Value::List(_), Value::List(_))
        | (Value::Map(_), Value::Map(_))
        | (_, Value::Object(_)) => QuickAnswer::Unknown,
        _ => QuickAnswer::Invalid,
    }
}

fn at_least(count: usize, limit: &Value) -> QuickAnswer {
    compare(count, limit, |count, limit| count >= limit)
}

fn at_most(count: usize, limit: &Value) -> QuickAnswer {
    compare(count, limit, |count, limit| count <= limit)
}

fn compare(count: usize, limit: &Value, fits: fn(f64, f64) -> bool) -> QuickAnswer {
    match (u32::try_from(count), exact(limit)) {
        (Ok(count), Some(limit)) => answer(fits(count.into(), limit)),
        _ => QuickAnswer::Unknown,
    }
}

fn assert_number(schema: &Map, key: &str, keyword: &Value, value: &Value) -> QuickAnswer {
    if !matches!(key, "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf") {
        return QuickAnswer::Valid;
    }
    let (Some(limit), Some(value)) = (exact(keyword), exact(value)) else { return QuickAnswer::Unknown };
    // Halves and the like are exact too; other fractions may be rounded.
    let is_exact = |f: f64| (f * 1024.0).fract() == 0.0;
    let flagged = |name| matches!(schema.get(name), Some(Value::Bool(_)));
    match key {
        _ if !is_exact(limit) || !is_exact(value) => QuickAnswer::Unknown,
        "minimum" if !flagged("exclusiveMinimum") => answer(value >= limit),
        "maximum" if !flagged("exclusiveMaximum") => answer(value <= limit),
        "exclusiveMinimum" => answer(value > limit),
        "exclusiveMaximum" => answer(value < limit),
        _ => QuickAnswer::Unknown,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.text().into_owned()),
        _ => None,
    }
}

/// The items of a list that has only texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::List(list) => list.items.iter().map(text).collect(),
        _ => None,
    }
}

fn are_unique(texts: &[String]) -> bool {
    let mut sorted: Vec<&String> = texts.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

fn table(value: &Value, below: impl Fn(&Value) -> bool) -> bool {
    matches!(value, Value::Map(map) if map.borrow().values().all(below))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref::<Number>()?.0.parse().ok(),
        _ => None,
    }
}

fn is_regex(value: &Value) -> bool {
    let check = format::find("regex").map(|format| format.check);
    matches!((text(value), check), (Some(pattern), Some(check)) if check(&pattern).is_ok())
}
