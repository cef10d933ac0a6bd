//! The type of a value, concluded from its default and from what templates do with it.
//!
//! The rules were measured on 770 public charts and what their users give them (docs/design/types.md). A value that
//! templates accept in a form other than the default's stays open, so that nothing that works with Helm is refused.

use super::defaults::is_whole;
use super::{Path, Types};
use crate::chart::Values;
use crate::template::go::usage::{Uses, Ways};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Names that mean a table of Kubernetes in nearly every chart.
const TABLES: &[&str] = &[
    "commonAnnotations",
    "commonLabels",
    "containerSecurityContext",
    "dnsConfig",
    "lifecycle",
    "livenessProbe",
    "nodeSelector",
    "podAnnotations",
    "podLabels",
    "podSecurityContext",
    "readinessProbe",
    "resources",
    "securityContext",
    "startupProbe",
];
/// Names that mean a list of Kubernetes in nearly every chart.
const LISTS: &[&str] = &[
    "accessModes",
    "hostAliases",
    "imagePullSecrets",
    "loadBalancerSourceRanges",
    "tolerations",
    "topologySpreadConstraints",
];
/// Names that mean a whole number.
const WHOLE: &[&str] = &["maxReplicas", "minReplicas", "replicaCount", "replicas", "revisionHistoryLimit"];
/// Ends of names that mean a number, or a text such as `50%` or the name of a port.
const INT_OR_STRING: &[&str] = &["available", "port", "surge", "unavailable"];
/// Keys of Kubernetes' objects whose value is a table.
const TABLE_KEYS: &[&str] = &[
    "affinity",
    "annotations",
    "dnsConfig",
    "labels",
    "lifecycle",
    "livenessProbe",
    "matchLabels",
    "nodeSelector",
    "readinessProbe",
    "resources",
    "rollingUpdate",
    "securityContext",
    "selector",
    "startupProbe",
    "strategy",
    "updateStrategy",
];
/// Keys of Kubernetes' objects whose value is a list.
const LIST_KEYS: &[&str] = &[
    "accessModes",
    "args",
    "command",
    "containers",
    "egress",
    "env",
    "envFrom",
    "externalIPs",
    "hostAliases",
    "hosts",
    "imagePullSecrets",
    "ingress",
    "initContainers",
    "loadBalancerSourceRanges",
    "metricRelabelings",
    "ports",
    "relabelings",
    "rules",
    "secrets",
    "tls",
    "tolerations",
    "topologySpreadConstraints",
    "volumeClaimTemplates",
    "volumeMounts",
    "volumes",
];

/// The demands of the uses of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Table,
    /// It is written under a key of Kubernetes' objects that holds a table.
    TableByPosition,
    List,
    ListByPosition,
    /// A table or a list.
    Items,
    Text,
    /// Any text, number or boolean.
    Scalar,
    /// Nothing that is known.
    Anything,
}

/// The demand on a value. The more a use says, the earlier it counts.
fn asked(uses: &Uses) -> Asked {
    let ways = uses.ways;
    let by_items = Ways::RANGE.or(Ways::ITEMS);
    if ways.any(Ways::TYPE_ASKED) {
        return Asked::Anything;
    }
    let looked_into = Ways::FIELD.or(Ways::TABLE).or(by_items);
    let as_text = Ways::STRING.or(Ways::TPL).or(Ways::NUMBER).or(Ways::PRINTED).or(Ways::QUOTED);
    if !uses.written_under.is_empty() && !ways.any(looked_into.or(as_text)) {
        let all =
            |keys: &[&str]| uses.written_under.iter().all(|key| key.as_ref().is_some_and(|k| keys.contains(&&**k)));
        if all(TABLE_KEYS) {
            return Asked::TableByPosition;
        }
        if all(LIST_KEYS) {
            return Asked::ListByPosition;
        }
    }
    let as_yaml = ways.any(Ways::YAML.or(Ways::JSON).or(Ways::TPL_YAML));
    if ways.any(Ways::TPL) {
        let more = looked_into.or(Ways::YAML).or(Ways::LIST);
        return if ways.any(more) { Asked::Anything } else { Asked::Text };
    }
    if ways.any(Ways::FIELD.or(Ways::TABLE)) {
        return Asked::Table;
    }
    if ways.any(Ways::LIST) {
        return Asked::List;
    }
    if ways.any(by_items) || ways.any(Ways::JOIN) && !as_yaml {
        return Asked::Items;
    }
    if as_yaml {
        return Asked::Anything;
    }
    if ways.any(Ways::STRING) {
        return Asked::Text;
    }
    if ways.any(Ways::NUMBER.or(Ways::QUOTED).or(Ways::PRINTED).or(Ways::COMPARED)) {
        return Asked::Scalar;
    }
    Asked::Anything
}

/// A type that a schema can state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything.
    Open,
    /// `type: object`.
    Object,
    /// A table, or a false value: a table that is switched off by a text, a number or a boolean.
    ObjectOrFalse,
    /// A table or a list, or a false value.
    Items,
    /// `type: array`.
    Array,
    /// A list, or a false value.
    ArrayOrFalse,
    /// `type: boolean`.
    Boolean,
    /// A boolean, also as a text.
    Truth,
    /// `type: integer`.
    Integer,
    /// A number, or a text that begins with a digit, or a template.
    Numeric,
    /// `type: string`.
    String,
    /// A whole number or a text.
    IntOrString,
    /// A text, a number or a boolean.
    Scalar,
}

impl Type {
    /// Its schema. Each takes a null, with which Helm's users delete a default of the chart: where a field does not take one, the API
    /// server drops it silently, and the default stays.
    pub fn schema(self) -> Map<String, Value> {
        let open = |limits: Value| {
            let mut schema = json!({"x-kubernetes-preserve-unknown-fields": true});
            if let (Value::Object(schema), Value::Object(limits)) = (&mut schema, limits) {
                schema.extend(limits);
            }
            schema
        };
        let schema = match self {
            Self::Open => open(json!({})),
            Self::Object => open(json!({"type": "object"})),
            // A limit of a type counts only for values of that type.
            Self::ObjectOrFalse => open(json!({"maxLength": 0, "maxItems": 0, "minimum": 0, "maximum": 0})),
            Self::Items => open(json!({"maxLength": 0, "minimum": 0, "maximum": 0})),
            Self::ArrayOrFalse => open(json!({"maxLength": 0, "maxProperties": 0, "minimum": 0, "maximum": 0})),
            Self::Array => {
                json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true, "nullable": true}})
            }
            Self::Boolean => json!({"type": "boolean"}),
            Self::Truth => {
                open(json!({"maxProperties": 0, "maxItems": 0, "minimum": 0, "maximum": 1, "pattern": "^(true)?$"}))
            }
            Self::Integer => json!({"type": "integer"}),
            Self::Numeric => {
                let pattern = r"^([-+]?[0-9].*|.*\{\{.*)?$";
                open(json!({"maxProperties": 0, "maxItems": 0, "pattern": pattern}))
            }
            Self::String => json!({"type": "string"}),
            Self::IntOrString => json!({"x-kubernetes-int-or-string": true}),
            Self::Scalar => open(json!({"maxProperties": 0, "maxItems": 0})),
        };
        let Value::Object(mut schema) = schema else { return Map::new() };
        schema.insert("nullable".into(), true.into());
        schema
    }
}

/// The type of a value with this name and default, which is used so.
fn decide(types: Types, name: &str, default: &Value, uses: &Uses) -> Type {
    let zero = types == Types::Zero;
    let ways = uses.ways;
    let asked = asked(uses);
    let is_tested = ways.any(Ways::TYPE_ASKED);
    let is_loose = is_tested || ways.any(Ways::TPL.or(Ways::TPL_YAML));
    let has_items = ways.any(Ways::RANGE.or(Ways::ITEMS));
    let object = if zero { Type::ObjectOrFalse } else { Type::Object };
    let array = if zero { Type::ArrayOrFalse } else { Type::Array };
    match default {
        Value::Object(entries) => {
            let is_empty = entries.is_empty();
            if !is_empty && ways.any(Ways::FIELD.or(Ways::TABLE)) || is_empty && asked == Asked::Table && !is_loose {
                Type::Object
            } else if asked == Asked::TableByPosition || TABLES.contains(&name) && !is_loose {
                object
            } else if has_items && !is_loose {
                if zero || is_empty { Type::Items } else { Type::Object }
            } else if is_empty || zero && is_loose {
                Type::Open
            } else {
                object
            }
        }
        Value::Array(items) => {
            let is_empty = items.is_empty();
            if matches!(asked, Asked::List | Asked::ListByPosition) || LISTS.contains(&name) && !is_loose {
                array
            } else if has_items && !is_loose && !ways.any(Ways::JOIN) {
                // `range` goes over a list and over a table.
                if zero || is_empty { Type::Items } else { Type::Array }
            } else if !is_empty && !is_loose {
                array
            } else {
                Type::Open
            }
        }
        Value::Bool(_) if zero => Type::Truth,
        Value::Bool(_) => Type::Boolean,
        Value::Number(number) => {
            let lower = name.to_lowercase();
            if WHOLE.contains(&name) && is_whole(number) {
                Type::Integer
            } else if is_tested {
                Type::Scalar
            } else if INT_OR_STRING.iter().any(|end| lower.ends_with(end)) {
                Type::IntOrString
            } else {
                Type::Numeric
            }
        }
        Value::String(text) if text.is_empty() => match asked {
            _ if is_loose => Type::Open,
            Asked::Text => Type::String,
            Asked::Scalar => Type::IntOrString,
            _ => Type::Open,
        },
        Value::String(text) => {
            if is_tested {
                Type::Open
            } else if asked == Asked::Text && !is_loose {
                Type::String
            } else if text == "-" || name.to_lowercase().ends_with("enabled") {
                Type::Scalar
            } else {
                Type::IntOrString
            }
        }
        Value::Null => match asked {
            _ if is_loose => Type::Open,
            Asked::Scalar | Asked::Text => Type::Scalar,
            Asked::Table | Asked::TableByPosition => object,
            Asked::List | Asked::ListByPosition => array,
            Asked::Items if !ways.any(Ways::JOIN) => Type::Items,
            _ => Type::Open,
        },
    }
}

/// The facts about a chart's values before their types are known.
pub struct ValueFacts<'f> {
    /// How templates use values.
    pub uses: &'f BTreeMap<Path, Uses>,
    /// Places where charts contradict each other.
    pub contradictions: &'f BTreeSet<Path>,
}

/// The schemas of the keys of a table of defaults, which lies at a path.
pub fn properties(types: Types, defaults: &Values, path: &Path, facts: &ValueFacts<'_>) -> Map<String, Value> {
    let mut properties = Map::new();
    for (key, default) in defaults {
        let mut below = path.clone();
        below.push(key.as_str().into());
        let none = Uses::default();
        let is_contradicted = facts.contradictions.contains(&below);
        let decided = if is_contradicted {
            Type::Open
        } else {
            decide(types, key, default, facts.uses.get(&below).unwrap_or(&none))
        };
        let mut schema = decided.schema();
        if let Value::Object(entries) = default
            && !entries.is_empty()
            && !is_contradicted
        {
            schema.insert("properties".into(), Value::Object(self::properties(types, entries, &below, facts)));
        }
        properties.insert(key.clone(), Value::Object(schema));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::super::Types;
    use super::{Type, Uses, Ways, decide};
    use serde_json::{Value, json};

    fn used(ways: Ways, under: &[&str]) -> Uses {
        let written_under = under.iter().map(|key| Some((*key).into())).collect();
        Uses { ways, written_under, ..Uses::default() }
    }

    /// The name, the default, and how and where it is used; the type if plain, and if zero.
    type Row<'r> = (&'r str, Value, Ways, &'r [&'r str], Type, Type);

    #[test]
    fn the_rules_of_the_design() {
        let none = Ways::NONE;
        let range = Ways::RANGE.or(Ways::ITEMS);
        let rows: &[Row<'_>] = &[
            ("a", json!({"b": 1}), Ways::FIELD, &[], Type::Object, Type::Object),
            ("a", json!({}), Ways::FIELD, &[], Type::Object, Type::Object),
            ("a", json!({"b": 1}), Ways::YAML, &[], Type::Object, Type::ObjectOrFalse),
            ("a", json!({}), Ways::YAML, &[], Type::Open, Type::Open),
            ("a", json!({}), Ways::YAML, &["resources"], Type::Object, Type::ObjectOrFalse),
            ("resources", json!({}), Ways::YAML, &[], Type::Object, Type::ObjectOrFalse),
            ("a", json!({}), range, &[], Type::Items, Type::Items),
            ("a", json!({"b": 1}), range, &[], Type::Object, Type::Items),
            ("a", json!({"b": 1}), Ways::TPL_YAML, &[], Type::Object, Type::Open),
            ("a", json!([]), Ways::LIST, &[], Type::Array, Type::ArrayOrFalse),
            ("tolerations", json!([]), Ways::YAML, &[], Type::Array, Type::ArrayOrFalse),
            ("a", json!([]), range, &[], Type::Items, Type::Items),
            ("a", json!([]), range.or(Ways::JOIN), &[], Type::Open, Type::Open),
            ("a", json!([1]), Ways::YAML, &[], Type::Array, Type::ArrayOrFalse),
            ("a", json!(true), none, &[], Type::Boolean, Type::Truth),
            ("replicaCount", json!(1.0), none, &[], Type::Integer, Type::Integer),
            ("httpPort", json!(80), none, &[], Type::IntOrString, Type::IntOrString),
            ("a", json!(80), none, &[], Type::Numeric, Type::Numeric),
            ("a", json!(80), Ways::TYPE_ASKED, &[], Type::Scalar, Type::Scalar),
            ("a", json!("x"), Ways::STRING, &[], Type::String, Type::String),
            ("a", json!("x"), Ways::PRINTED, &[], Type::IntOrString, Type::IntOrString),
            ("a", json!("-"), none, &[], Type::Scalar, Type::Scalar),
            ("a", json!(""), Ways::STRING, &[], Type::String, Type::String),
            ("a", json!(""), Ways::QUOTED, &[], Type::IntOrString, Type::IntOrString),
            ("a", json!(""), Ways::YAML, &[], Type::Open, Type::Open),
            ("a", json!(""), Ways::STRING.or(Ways::TPL), &[], Type::Open, Type::Open),
            ("a", json!(null), Ways::QUOTED, &[], Type::Scalar, Type::Scalar),
            ("a", json!(null), Ways::YAML, &["tolerations"], Type::Array, Type::ArrayOrFalse),
            ("a", json!(null), Ways::TESTED, &[], Type::Open, Type::Open),
        ];
        for (name, default, ways, under, plain, zero) in rows {
            let uses = used(*ways, under);
            let got = (decide(Types::Plain, name, default, &uses), decide(Types::Zero, name, default, &uses));
            assert_eq!(got, (*plain, *zero), "{name}: {default} {ways:?} {under:?}");
        }
    }
}
