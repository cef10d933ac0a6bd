//! Values as go-yaml holds them before they become JSON. They are made only of documents with something that JSON has
//! not, to find out whether it is an error, and how Go words it.

use super::Fallible;
use super::decode::{Build, key_text};
use super::resolve::Scalar;
use crate::template::functions::text;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The type into which Go decodes JSON, as far as sigs.k8s.io/yaml looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An `interface {}`.
    Any,
    /// A string: numbers and booleans become one.
    Text,
    /// The head of a manifest.
    Head,
    /// `metadata` in a head.
    Metadata,
    /// A `map[string]string`.
    Texts,
}

impl Target {
    /// The target of an entry.
    pub fn field(self, key: &str) -> Self {
        let is = |name| folds_to(key, name);
        match self {
            Self::Head if is("apiVersion") || is("kind") => Self::Text,
            Self::Head if is("metadata") => Self::Metadata,
            Self::Metadata if is("name") => Self::Text,
            Self::Metadata if is("annotations") => Self::Texts,
            Self::Texts => Self::Text,
            _ => Self::Any,
        }
    }
}

/// Whether encoding/json takes a key for the field: letters may differ in case, also by U+017F and U+212A.
pub(super) fn folds_to(key: &str, field: &str) -> bool {
    let folded = key.chars().map(|c| match c {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        c => c.to_ascii_lowercase(),
    });
    key.len() >= field.len() && folded.eq(field.chars().map(|c| c.to_ascii_lowercase()))
}

pub(super) enum Go {
    Scalar(Scalar, String),
    List(Vec<Go>),
    /// Sorted by key.
    Map(Vec<(Go, Go)>),
}

pub(super) enum ToGo {}
impl Build for ToGo {
    type Node = Go;
    type Map = Vec<(Go, Go)>;
    type Key = Go;
    fn scalar(scalar: Scalar, text: Cow<'_, str>) -> Go {
        Go::Scalar(scalar, text.into_owned())
    }
    fn list(items: Vec<Go>) -> Go {
        Go::List(items)
    }
    fn new_map(_: usize) -> Self::Map {
        Vec::new()
    }
    fn key(scalar: Scalar, text: Cow<'_, str>) -> Go {
        Self::scalar(scalar, text)
    }
    fn insert(map: &mut Self::Map, key: Go, node: Go) {
        map.push((key, node));
    }
    fn map(mut map: Self::Map) -> Go {
        // Of equal keys the last counts.
        map.reverse();
        map.sort_by(|a, b| a.0.key_order(&b.0));
        map.dedup_by(|next, kept| next.0.is_same_key(&kept.0));
        Go::Map(map)
    }
}

fn is_text(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Text | Scalar::Timestamp)
}

impl Go {
    /// Equality of an interface's values in Go.
    fn is_same_key(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(a, left), Self::Scalar(b, right)) => {
                is_text(*a) && is_text(*b) && left == right || !is_text(*a) && a == b
            }
            _ => false,
        }
    }

    /// Whether it becomes JSON: first all keys are made texts, then the numbers are written.
    pub fn convert(&self, target: Target) -> Fallible<()> {
        self.convert_keys()?;
        self.write_numbers(target)
    }

    fn convert_keys(&self) -> Fallible<()> {
        match self {
            Self::Scalar(..) => Ok(()),
            Self::List(items) => items.iter().try_for_each(Self::convert_keys),
            Self::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                let kind = match key {
                    Self::Scalar(Scalar::Null, _) => "%!s(<nil>)",
                    Self::Scalar(Scalar::Uint(_), _) => "uint64",
                    _ => return value.convert_keys(),
                };
                let (key, value) = (key.syntax(), value.syntax());
                Err(format!("unsupported map key of type: {kind}, key: {key}, value: {value}").into())
            }),
        }
    }

    fn write_numbers(&self, target: Target) -> Fallible<()> {
        match self {
            Self::Scalar(Scalar::Float(f), _) if !f.is_finite() && target != Target::Text => {
                Err(format!("json: unsupported value: {}", text::float(*f)).into())
            }
            Self::Scalar(..) => Ok(()),
            Self::List(items) => items.iter().try_for_each(|item| item.write_numbers(Target::Any)),
            Self::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                let field = match key {
                    Self::Scalar(scalar, text) => target.field(&key_text(*scalar, text.into())),
                    _ => Target::Any,
                };
                value.write_numbers(field)
            }),
        }
    }

    /// As `%#v` shows it.
    pub fn syntax(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Scalar(Scalar::Null, _) => out.push_str("<nil>"),
            _ => self.show(&mut out),
        }
        out
    }

    fn show(&self, out: &mut String) {
        match self {
            Self::Scalar(scalar, text) => {
                let shown = match scalar {
                    Scalar::Null => "interface {}(nil)".into(),
                    Scalar::Bool(b) => b.to_string(),
                    Scalar::Int(i) => i.to_string(),
                    Scalar::Uint(u) => format!("{u:#x}"),
                    Scalar::Float(f) => text::float(*f),
                    Scalar::Text | Scalar::Timestamp => text::quoted(text),
                };
                out.push_str(&shown);
            }
            Self::List(items) => {
                out.push_str("[]interface {}{");
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.show(out);
                }
                out.push('}');
            }
            Self::Map(entries) => {
                out.push_str("map[interface {}]interface {}{");
                for (i, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    key.show(out);
                    out.push(':');
                    value.show(out);
                }
                out.push('}');
            }
        }
    }

    /// The order in which Go prints the keys of a map. Between types it is that of their
    /// addresses in Helm's binary.
    fn key_order(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Scalar(Scalar::Null, _) => 0,
            Self::Scalar(Scalar::Text | Scalar::Timestamp, _) => 1,
            Self::Scalar(Scalar::Uint(_), _) => 2,
            Self::Scalar(Scalar::Int(_), _) => 3,
            Self::Scalar(Scalar::Float(_), _) => 4,
            Self::Scalar(Scalar::Bool(_), _) => 5,
            Self::List(_) | Self::Map(_) => 6,
        };
        match (self, other) {
            (Self::Scalar(Scalar::Bool(a), _), Self::Scalar(Scalar::Bool(b), _)) => a.cmp(b),
            (Self::Scalar(Scalar::Int(a), _), Self::Scalar(Scalar::Int(b), _)) => a.cmp(b),
            (Self::Scalar(Scalar::Uint(a), _), Self::Scalar(Scalar::Uint(b), _)) => a.cmp(b),
            // NaN comes first.
            (Self::Scalar(Scalar::Float(a), _), Self::Scalar(Scalar::Float(b), _)) => {
                a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
            }
            (Self::Scalar(a, left), Self::Scalar(b, right)) if is_text(*a) && is_text(*b) => left.cmp(right),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}
