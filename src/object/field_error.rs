//! The error of readers of fields: of `watches.yaml`, of annotations and of definitions.

use std::borrow::Cow;
use std::fmt;

use crate::bounds::BoundsError;

/// Why a field or a text cannot be read, as a sentence: its place, if it is known, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FieldError {
    at: Option<String>,
    problem: FieldProblem,
}

/// The problem of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// A required field is missing.
    #[error("is missing")]
    Missing,
    /// No field has this name.
    #[error("is unknown")]
    Unknown,
    /// It has another type or form.
    #[error("is not {0}")]
    IsNot(&'static str),
    /// The same, with the allowed form.
    #[error("must be {0}")]
    MustBe(Cow<'static, str>),
    /// It is none of these words.
    #[error("must be {}", alternatives(.0))]
    OneOf(Vec<&'static str>),
    /// The rest of a sentence about it.
    #[error("{0}")]
    Clause(Cow<'static, str>),
    /// It is too large, or has another form.
    #[error(transparent)]
    Bounds(BoundsError),
    /// Another sentence.
    #[error("{0}")]
    Sentence(Cow<'static, str>),
}

impl FieldError {
    /// The problem of a field: its name, or a text in quotes.
    pub fn new(field: impl Into<String>, problem: FieldProblem) -> Self {
        Self { at: Some(field.into()), problem }
    }

    /// [`FieldProblem::IsNot`]
    pub fn is_not(field: impl Into<String>, form: &'static str) -> Self {
        Self::new(field, FieldProblem::IsNot(form))
    }

    /// [`FieldProblem::MustBe`]
    pub fn must_be(field: impl Into<String>, form: impl Into<Cow<'static, str>>) -> Self {
        Self::new(field, FieldProblem::MustBe(form.into()))
    }

    /// [`FieldProblem::Clause`]
    pub fn clause(field: impl Into<String>, rest: impl Into<Cow<'static, str>>) -> Self {
        Self::new(field, FieldProblem::Clause(rest.into()))
    }

    /// The field is not a boolean.
    pub fn boolean(field: impl Into<String>) -> Self {
        Self::new(field, FieldProblem::OneOf(vec!["true", "false"]))
    }

    /// Names the place around an error: `PLACE: …`.
    pub fn within<E: Into<Self>>(place: impl fmt::Display) -> impl FnOnce(E) -> Self {
        Self::around(place, ": ")
    }

    /// Names the object that has the field of an error: `OBJECT.FIELD…`.
    pub fn below<E: Into<Self>>(object: impl fmt::Display) -> impl FnOnce(E) -> Self {
        Self::around(object, ".")
    }

    fn around<E: Into<Self>>(place: impl fmt::Display, join: &'static str) -> impl FnOnce(E) -> Self {
        move |error| {
            let Self { at, problem } = error.into();
            Self { at: Some(at.map_or_else(|| place.to_string(), |at| format!("{place}{join}{at}"))), problem }
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, problem } = self;
        match (at, problem) {
            (None, _) => write!(f, "{problem}"),
            (Some(at), FieldProblem::Bounds(_) | FieldProblem::Sentence(_)) => write!(f, "{at}: {problem}"),
            (Some(at), _) => write!(f, "{at} {problem}"),
        }
    }
}

/// `a or b`, or `one of a, b and c`.
fn alternatives(words: &[&str]) -> String {
    match words {
        [first @ .., last] if first.len() > 1 => format!("one of {} and {last}", first.join(", ")),
        few => few.join(" or "),
    }
}

impl From<BoundsError> for FieldError {
    fn from(error: BoundsError) -> Self {
        Self { at: None, problem: FieldProblem::Bounds(error) }
    }
}

impl From<&'static str> for FieldError {
    fn from(sentence: &'static str) -> Self {
        Self { at: None, problem: FieldProblem::Sentence(sentence.into()) }
    }
}

impl From<String> for FieldError {
    fn from(sentence: String) -> Self {
        Self { at: None, problem: FieldProblem::Sentence(sentence.into()) }
    }
}

impl From<serde_json::Error> for FieldError {
    fn from(error: serde_json::Error) -> Self {
        error.to_string().into()
    }
}

impl From<FieldError> for String {
    fn from(error: FieldError) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldError, FieldProblem};

    #[test]
    fn a_sentence_begins_with_the_place_of_its_problem() {
        let words = |words: &[&'static str]| FieldError::new("a", FieldProblem::OneOf(words.to_vec()));
        for (error, expected) in [
            (FieldError::from("it ends"), "it ends"),
            (FieldError::within("a")("it ends"), "a: it ends"),
            (FieldError::below("b")(FieldError::within("a")("it ends")), "b.a: it ends"),
            (FieldError::within("b")(FieldError::is_not("a", "a list")), "b: a is not a list"),
            (FieldError::below("b")("it ends"), "b: it ends"),
            (words(&["c", "d"]), "a must be c or d"),
            (words(&["c", "d", "e"]), "a must be one of c, d and e"),
            (FieldError::within("b")(FieldError::new("", FieldProblem::Unknown)), "b:  is unknown"),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
