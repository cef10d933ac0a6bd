//! Tells cheaply that a schema is valid, which nearly all are: each needs no look at the draft's own schema then.

use super::draft::Draft;
use super::format;
use crate::template::functions::json::Number;
use crate::template::value::{Map, Value};

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// Whether a schema is surely valid in its draft. `false` means nothing: then the draft's schema must be asked.
pub fn is_valid(schema: &Value, draft: Draft) -> bool {
    match schema {
        Value::Bool(_) => draft > Draft::D4,
        Value::Map(map) => map.borrow().iter().all(|(key, value)| keyword(map, &key.text(), value, draft)),
        _ => false,
    }
}

fn keyword(schema: &Map, key: &str, value: &Value, draft: Draft) -> bool {
    let below = |value: &Value| is_valid(value, draft);
    match key {
        "title" | "description" | "format" => matches!(value, Value::Str(_)),
        "$comment" | "contentEncoding" | "contentMediaType" => draft > Draft::D6 && matches!(value, Value::Str(_)),
        "$schema" => text(value).is_some_and(|name| Draft::named(&name) == Some(draft)),
        "$ref" => text(value).is_some_and(|reference| is_simple_pointer(&reference)),
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

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.text().into_owned()),
        _ => None,
    }
}

/// The items of a list that holds nothing but texts.
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

/// A reference within the document, of characters that need no second look.
fn is_simple_pointer(reference: &str) -> bool {
    let pointer = reference.strip_prefix('#');
    pointer
        .is_some_and(|p| p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b'$')))
}
