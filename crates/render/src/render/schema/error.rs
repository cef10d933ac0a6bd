//! Violations of a schema, in the words and the order of Helm's validator.

use crate::template::go::quote;
use std::fmt::Write as _;

/// A violation, or a group of them.
pub struct Violation {
    /// Where in the values: keys and indices.
    pub at: Vec<String>,
    pub kind: ViolationKind,
    pub causes: Vec<Violation>,
}

/// The kind of violation.
pub enum ViolationKind {
    /// Several things are wrong with one value.
    Group,
    /// The target of a `$ref` is violated. With a single cause it adds no line of its own.
    Reference,
    /// One thing, in words.
    Text(String),
}

impl Violation {
    /// A violation in words.
    pub fn text(at: &[String], text: String) -> Self {
        Self { at: at.to_vec(), kind: ViolationKind::Text(text), causes: Vec::new() }
    }

    /// The causes that are reported instead of the violation itself.
    pub fn ungrouped(self) -> Vec<Self> {
        match self.kind {
            ViolationKind::Group => self.causes,
            _ => vec![self],
        }
    }

    fn write(&self, indent: usize, out: &mut String) {
        let silent = matches!(self.kind, ViolationKind::Reference) && self.causes.len() == 1;
        if !silent {
            let text = match &self.kind {
                ViolationKind::Group | ViolationKind::Reference => "validation failed",
                ViolationKind::Text(text) => text,
            };
            let _ = write!(out, "\n{}- at {}: {text}", "  ".repeat(indent), quoted(&pointer(&self.at)));
        }
        for cause in &self.causes {
            cause.write(indent + usize::from(!silent), out);
        }
    }
}

/// The violations, each in a line of its own, without a line break at the end.
pub fn list(violations: &[Violation]) -> String {
    let mut out = String::new();
    for violation in violations {
        violation.write(0, &mut out);
    }
    out
}

/// One step of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A JSON pointer.
pub fn pointer(path: &[String]) -> String {
    let mut out = String::new();
    for key in path {
        out.push('/');
        out.push_str(&escaped(key));
    }
    out
}

/// A text between single quotes, as Go's `%q` but for the quotes.
pub fn quoted(text: &str) -> String {
    let text = quote::quoted(text.as_bytes()).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &text[1..text.len() - 1])
}

/// Texts between quotes, in a row.
pub fn quoted_list<S: AsRef<str>>(texts: &[S]) -> String {
    texts.iter().map(|t| quoted(t.as_ref())).collect::<Vec<_>>().join(", ")
}
