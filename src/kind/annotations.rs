//! The annotations of a custom resource that hold lists, read together.

use std::collections::BTreeMap;

use super::depends_on::{self, Dependency};
use super::ignore::{self, IGNORE_DRIFT, Ignore};
use super::switches::PATCHES;
use super::values_from::{self, ValuesFrom};
use crate::object::field_error::FieldError;
use crate::object::patch::{self, Patch};

/// The annotations that are read here.
const NAMES: [&str; 4] = [values_from::ANNOTATION, PATCHES, IGNORE_DRIFT, depends_on::ANNOTATION];

/// The texts of these annotations. Reading them again gives the same result.
pub type Texts = [Option<Box<str>>; 4];

/// Their content. An error begins with the name of the annotation.
#[derive(Clone, Debug)]
pub struct Annotations {
    /// `tillerman.dev/values-from`
    pub sources: Result<Vec<ValuesFrom>, FieldError>,
    /// `tillerman.dev/patches`
    pub patches: Result<Vec<Patch>, FieldError>,
    /// `tillerman.dev/ignore-drift`
    pub ignored: Result<Vec<Ignore>, FieldError>,
    /// `tillerman.dev/depends-on`
    pub depends_on: Result<Vec<Dependency>, FieldError>,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { sources: Ok(Vec::new()), patches: Ok(Vec::new()), ignored: Ok(Vec::new()), depends_on: Ok(Vec::new()) }
    }
}

/// The texts, if there is one.
pub fn texts(annotations: &BTreeMap<Box<str>, Box<str>>) -> Option<Texts> {
    let texts = NAMES.map(|name| annotations.get(name).cloned());
    texts.iter().any(Option::is_some).then_some(texts)
}

/// Whether the annotations still have these texts.
pub fn are_of(texts: &Texts, annotations: &BTreeMap<Box<str>, Box<str>>) -> bool {
    NAMES.iter().zip(texts).all(|(name, text)| annotations.get(*name) == text.as_ref())
}

impl Annotations {
    /// Reads the texts. May take some milliseconds.
    pub fn read([sources, patches, ignored, depends_on]: &Texts) -> Self {
        type Read<T> = Result<Vec<T>, FieldError>;
        fn one<T>(name: &str, text: Option<&str>, read: fn(&str) -> Read<T>) -> Read<T> {
            let Some(text) = text else { return Ok(Vec::new()) };
            read(text).map_err(FieldError::within(format_args!("annotation {name}")))
        }
        Self {
            sources: one(values_from::ANNOTATION, sources.as_deref(), values_from::parse_text),
            patches: one(PATCHES, patches.as_deref(), |text| Ok(patch::parse_text(text).map_err(String::from)?)),
            ignored: one(IGNORE_DRIFT, ignored.as_deref(), ignore::parse),
            depends_on: one(depends_on::ANNOTATION, depends_on.as_deref(), depends_on::parse_text),
        }
    }
}
