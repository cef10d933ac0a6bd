//! The drafts of JSON Schema, and the schemas of their own.

use crate::render::schema_error::SchemaError;
use crate::template::functions::json;
use crate::template::value::{Map, Value};

/// A draft; the order is that of their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl Draft {
    /// The draft that `$schema` names; the address without a draft is the newest.
    pub fn named(url: &str) -> Option<Self> {
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        if !fragment.is_empty() {
            return None;
        }
        let url = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
        Some(match url {
            "json-schema.org/schema" | "json-schema.org/draft/2020-12/schema" => Self::D2020,
            "json-schema.org/draft/2019-09/schema" => Self::D2019,
            "json-schema.org/draft-07/schema" => Self::D7,
            "json-schema.org/draft-06/schema" => Self::D6,
            "json-schema.org/draft-04/schema" => Self::D4,
            _ => return None,
        })
    }

    /// Where the draft's own schema is.
    pub fn url(self) -> &'static str {
        match self {
            Self::D4 => "http://json-schema.org/draft-04/schema",
            Self::D6 => "http://json-schema.org/draft-06/schema",
            Self::D7 => "http://json-schema.org/draft-07/schema",
            Self::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// The keyword that names a schema.
    pub fn id(self) -> &'static str {
        if self == Self::D4 { "id" } else { "$id" }
    }

    /// The keywords below which there are schemas: one, a list or a table of them.
    pub fn places(self) -> impl Iterator<Item = &'static str> {
        const PLACES: [(Draft, &[&str]); 5] = [
            (
                Draft::D4,
                &[
                    "definitions/*",
                    "not",
                    "allOf/[]",
                    "anyOf/[]",
                    "oneOf/[]",
                    "properties/*",
                    "additionalProperties",
                    "patternProperties/*",
                    "items",
                    "items/[]",
                    "additionalItems",
                    "dependencies/*",
                ],
            ),
            (Draft::D6, &["propertyNames", "contains"]),
            (Draft::D7, &["if", "then", "else"]),
            (
                Draft::D2019,
                &["$defs/*", "dependentSchemas/*", "unevaluatedProperties", "unevaluatedItems", "contentSchema"],
            ),
            (Draft::D2020, &["prefixItems/[]"]),
        ];
        PLACES.into_iter().take_while(move |(draft, _)| *draft <= self).flat_map(|(_, places)| places.iter().copied())
    }
}

/// The schema at an address of json-schema.org, in the wording that Helm's validator has of it.
pub fn metaschema(url: &str) -> Option<Value> {
    use referencing::meta;
    let place = url.strip_prefix("http://json-schema.org/").or_else(|| url.strip_prefix("https://json-schema.org/"))?;
    let document = match place {
        "draft-04/schema" => &meta::DRAFT4,
        "draft-06/schema" => &meta::DRAFT6,
        "draft-07/schema" => &meta::DRAFT7,
        "draft/2019-09/schema" => &meta::DRAFT201909,
        "draft/2019-09/meta/applicator" => &meta::DRAFT201909_APPLICATOR,
        "draft/2019-09/meta/content" => &meta::DRAFT201909_CONTENT,
        "draft/2019-09/meta/core" => &meta::DRAFT201909_CORE,
        "draft/2019-09/meta/format" => &meta::DRAFT201909_FORMAT,
        "draft/2019-09/meta/meta-data" => &meta::DRAFT201909_META_DATA,
        "draft/2019-09/meta/validation" => &meta::DRAFT201909_VALIDATION,
        "schema" | "draft/2020-12/schema" => &meta::DRAFT202012,
        "draft/2020-12/meta/applicator" => &meta::DRAFT202012_APPLICATOR,
        "draft/2020-12/meta/content" => &meta::DRAFT202012_CONTENT,
        "draft/2020-12/meta/core" => &meta::DRAFT202012_CORE,
        "draft/2020-12/meta/format-annotation" => &meta::DRAFT202012_FORMAT_ANNOTATION,
        "draft/2020-12/meta/format-assertion" => &meta::DRAFT202012_FORMAT_ASSERTION,
        "draft/2020-12/meta/meta-data" => &meta::DRAFT202012_META_DATA,
        "draft/2020-12/meta/unevaluated" => &meta::DRAFT202012_UNEVALUATED,
        "draft/2020-12/meta/validation" => &meta::DRAFT202012_VALIDATION,
        _ => return None,
    };
    let document = Value::from(&***document);
    if let Some(properties) = table(&document, "properties") {
        adapt(place, &properties);
    }
    Some(document)
}

/// Old drafts have been published in several wordings; these are the ones that Helm's validator has.
fn adapt(place: &str, properties: &Map) {
    if matches!(place, "draft-04/schema" | "draft-06/schema" | "draft-07/schema")
        && let Some(Value::Map(of_enum)) = properties.get("enum")
    {
        of_enum.insert("minItems", Value::int(1));
        of_enum.insert("uniqueItems", true);
    }
    if place == "draft-06/schema"
        && let Some(Value::Map(patterns)) = properties.get("patternProperties")
    {
        patterns.remove("propertyNames");
        properties.remove("examples");
    }
    if place == "draft-04/schema" {
        if let Some(Value::Map(schema)) = properties.get("$schema") {
            schema.insert("format", "uri");
        }
        properties.insert("$ref", Value::map([("type".into(), "string".into())]));
    }
}

/// The table under a key.
pub fn table(value: &Value, key: &str) -> Option<Map> {
    match value {
        Value::Map(map) => match map.get(key) {
            Some(Value::Map(found)) => Some(found),
            _ => None,
        },
        _ => None,
    }
}

/// The text under a key.
pub fn string(entries: &Map, key: &str) -> Option<String> {
    match entries.get(key) {
        Some(Value::Str(text)) => Some(text.text().into_owned()),
        _ => None,
    }
}

/// Reads a schema; the error is that of Go's decoder.
pub fn parse(bytes: &[u8]) -> Result<Value, SchemaError> {
    json::parse_exact(bytes).map_err(|e| SchemaError(e.to_string()))
}
