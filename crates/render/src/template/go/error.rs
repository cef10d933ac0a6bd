//! Errors as Go nests them, and as Helm then rewrites them.
//!
//! Helm parses Go's text to find out what happened. To get the same messages, this module does the same
//! to the same text, but also keeps the locations as data.

use crate::template::trace::{Location, Missing};
use std::fmt::{self, Write as _};

/// Why a template could not be parsed or executed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Error {
    /// Helm's message, without `Error: `.
    pub message: String,
    /// Go's message, which Helm shows unchanged where it executes a text that is not a file.
    pub original: String,
    /// The places that were being executed, from the rendered file inwards. Empty when none is known.
    pub trace: Vec<Location>,
    /// The name that the innermost place looked for and did not find, if that was the cause.
    pub missing: Option<Box<Missing>>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Helm's form of a parser's message (`cleanupParseError`).
    pub(super) fn from_parse(file: &str, text: &str) -> Self {
        let mut parts = text.split(": ");
        let location = parts.nth(1);
        let (Some(location), Some(message)) = (location, text.rsplit(": ").next()) else {
            let message = format!("parse error in ({file}): {text}");
            return Self { message, original: text.into(), trace: Vec::new(), missing: None };
        };
        let line = location.rsplit(':').next().and_then(|l| l.parse().ok());
        let place = line.map(|line| Location::line(file, line));
        let message = format!("parse error at ({location}): {message}");
        Self { message, original: text.into(), trace: place.into_iter().collect(), missing: None }
    }

    /// Helm's form of an error of execution (`reformatExecErrorMsg`).
    pub(super) fn from_failure(file: &str, failure: &Failure) -> Self {
        let missing = failure.chain().filter_map(|link| link.missing.clone()).last().map(Box::new);
        Self { message: helm_message(file, failure), original: failure.text(), trace: failure.trace(), missing }
    }
}

/// Marks around the messages of `fail` and `required`, by which Helm finds them in the text of nested errors.
pub(super) const WARN_START: &str = "HELM_ERR_START";

/// A text without the marks that `fail` and `required` put around their messages.
pub fn unmarked(text: &str) -> String {
    text.replace(WARN_START, "").replace(WARN_END, "")
}

/// See [`WARN_START`].
pub(super) const WARN_END: &str = "HELM_ERR_END";

/// An error in Go's words, and the error that it wraps.
#[derive(Debug)]
pub(super) struct Failure(Box<Link>);

#[derive(Debug)]
struct Link {
    /// The text, up to the text of the cause.
    text: String,
    /// For Go's `template.ExecError`: where it was.
    at: Option<Location>,
    missing: Option<Missing>,
    cause: Option<Failure>,
}

impl Failure {
    /// An error that is not of the template executor.
    pub fn plain(text: impl Into<String>) -> Self {
        Self(Box::new(Link { text: text.into(), at: None, missing: None, cause: None }))
    }

    /// An error of the template executor. The text ends with the message, or leads to the cause.
    pub fn exec(text: String, at: Location, cause: Option<Self>) -> Self {
        Self(Box::new(Link { text, at: Some(at), missing: None, cause }))
    }

    /// An error that wraps another error: the text leads to the other's.
    pub fn wrap(text: String, cause: Self) -> Self {
        Self(Box::new(Link { text, at: None, missing: None, cause: Some(cause) }))
    }

    /// The same failure, with the name that was not found.
    #[must_use]
    pub fn with_missing(mut self, missing: Option<Missing>) -> Self {
        self.0.missing = missing;
        self
    }

    fn chain(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(Some(&*self.0), |link| link.cause.as_ref().map(|cause| &*cause.0))
    }

    /// Go's `Error()`.
    pub fn text(&self) -> String {
        self.chain().map(|link| link.text.as_str()).collect()
    }

    fn trace(&self) -> Vec<Location> {
        self.chain().filter_map(|link| link.at.clone()).collect()
    }
}

impl Drop for Failure {
    /// Unlinks the causes one by one, as there is one for every nested include.
    fn drop(&mut self) {
        while let Some(mut next) = self.0.cause.take() {
            std::mem::swap(self, &mut next);
        }
    }
}

fn helm_message(file: &str, failure: &Failure) -> String {
    let text = failure.text();
    if !failure.chain().any(|link| link.at.is_some()) {
        return text;
    }
    let mut parts = text.splitn(3, ": ");
    let (Some(_), Some(location), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("execution error in ({file}): {text}");
    };
    if let Some(warning) = warning(rest) {
        return format!("execution error at ({location}): {warning}");
    }
    let mut places: Vec<Traceable> = Vec::new();
    let mut start = 0;
    for link in failure.chain() {
        // The rest of the whole text from here on is what this link's `Error()` answers.
        let Some(place) = Traceable::parse(&text[start..]) else { return text };
        if places.last() != Some(&place) {
            places.push(place);
        }
        start += link.text.len();
    }
    let message: String = places.iter().map(Traceable::show).collect();
    message.trim_matches(|c: char| c.is_whitespace() || c == '\u{85}').to_owned()
}

fn warning(text: &str) -> Option<&str> {
    let start = text.find(WARN_START)? + WARN_START.len();
    let length = text[start..].rfind(WARN_END)?;
    Some(&text[start..start + length])
}

/// The parts that Helm reads from one error's text.
#[derive(PartialEq, Eq)]
struct Traceable<'t> {
    location: &'t str,
    executing: Option<(&'t str, &'t str)>,
    message: &'t str,
}

impl<'t> Traceable<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let rest = text.strip_prefix("template: ")?;
        if rest.starts_with("no template ") {
            return Some(Self { location: "", executing: None, message: text });
        }
        if let Some(place) = Self::parse_executing(rest) {
            return Some(place);
        }
        let (location, message) = rest.rsplit_once(": ")?;
        Some(Self { location, executing: None, message: before_next(message) })
    }

    fn parse_executing(rest: &'t str) -> Option<Self> {
        let (location, after) = rest.split_once(": executing ")?;
        let (function, after) = after.strip_prefix('"')?.split_once('"')?;
        let (node, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
        Some(Self { location, executing: Some((function, node)), message: before_next(message) })
    }

    fn show(&self) -> String {
        let mut out = String::new();
        if !self.location.is_empty() {
            out.push_str(self.location);
            out.push_str("\n  ");
        }
        if let Some((function, node)) = self.executing {
            let _ = write!(out, "executing \"{function}\" at <{node}>:\n    ");
        }
        if !self.message.is_empty() {
            out.push_str(self.message);
            out.push('\n');
        }
        out
    }
}

/// The message without the next error of the chain, which Helm shows by itself.
fn before_next(message: &str) -> &str {
    message.find(" template:").map_or(message, |cut| &message[..cut])
}
