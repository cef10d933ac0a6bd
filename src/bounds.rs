//! Limits of texts that others write: annotations of custom resources, fields of `watches.yaml`, specs, and values in Secrets and
//! `ConfigMap`s.
//!
//! The writer of such a text must not be able to stop the operator with it. So each text has a limit of bytes, of values and
//! of levels, which is checked before anything large is allocated. Work that grows with the text (patches, aliases of YAML) has a
//! budget. All limits are here. Messages name the limit that was reached.

use std::fmt::Display;

use serde_json::Value;

use crate::chart::strvals;
use crate::harm;
use crate::template::budget::{self, Budget, Limits};
use crate::template::yaml;

/// Bytes of an annotation or a field that is one word or name.
pub const WORD: usize = 1024;
/// Rules of `ignore-drift`, and paths of all of them together.
pub const RULES: usize = 100;
/// Paths of all rules of `ignore-drift` together.
pub const PATHS: usize = 1000;
/// Sources of values of one custom resource and its kind.
pub const SOURCES: usize = 50;
/// Custom resources that one may need.
pub const DEPENDENCIES: usize = 10;
/// Values that are taken from one of them.
pub const TAKEN: usize = 20;
/// Bytes of these values together, as JSON.
pub const TAKEN_BYTES: usize = 8 << 10;
/// Documents that the schema of a chart may refer to, in `watches.yaml`.
pub const SCHEMA_DOCUMENTS: usize = 50;
/// Patches in one list.
pub const PATCHES: usize = 100;
/// Operations of all JSON patches in one list.
pub const OPERATIONS: usize = 1000;
/// Bytes of an expression of a patch's target, and of its compiled form.
pub const EXPRESSION: usize = 256;
/// Bytes that an expression of a patch's target may become.
pub const COMPILED: usize = 32 << 10;
/// Groups in groups of an expression.
pub const GROUPS: u32 = 20;
/// Bytes in memory of an object that a patch makes. Kubernetes stores 1.5 MiB of text.
pub const OBJECT: usize = 16 << 20;
/// The limits of applying all patches to all objects of a release. A step takes some 50 ns.
pub const PATCHING: Limits = Limits { steps: Some(3_000_000), output: usize::MAX, memory: Some(128 << 20) };
/// The limits of a `targetPath` and of a path in `overrideValues`. Helm takes indices up to 65536, and a list is as
/// long as its largest index.
pub const PATH: strvals::PathLimits = strvals::PathLimits { index: 1000, names: 30, indices: 30 };

/// Limits of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the text.
    pub bytes: usize,
    /// Scalars, lists and maps in it; content that an alias repeats counts each time.
    pub values: usize,
    /// How deep they are nested.
    pub depth: usize,
}

/// An annotation that holds a list. Kubernetes takes 256 KiB of all annotations of an object together.
pub const ANNOTATION: Bounds = Bounds { bytes: 128 << 10, values: 20_000, depth: 64 };
/// The spec of a custom resource. A release record holds 1 MiB with everything else in it; the deepest charts use a dozen levels.
pub const SPEC: Bounds = Bounds { bytes: 1 << 20, values: 100_000, depth: 100 };
/// Values in one key of a Secret or a `ConfigMap`, which can hold 1 MiB.
pub const SOURCE: Bounds = Bounds { bytes: 1 << 20, values: 100_000, depth: 100 };
/// All sources of values of one custom resource together.
pub const ALL_SOURCES: Bounds = Bounds { bytes: 4 << 20, values: 200_000, depth: 100 };
/// A release record in one Secret, unpacked. Helm has no limit. Unpacked text is measured before it becomes values.
pub const RECORD: Bounds = Bounds { bytes: 24 << 20, values: 400_000, depth: 100 };
/// The parts of a release record that no Secret can hold, unpacked.
pub const CHUNKS: Bounds = Bounds { bytes: 64 << 20, ..RECORD };
/// The manifest of a release record, which is YAML.
pub const MANIFEST: Bounds = Bounds { bytes: CHUNKS.bytes, values: 1_000_000, depth: 100 };
/// The manifest of one hook of a release record, which is YAML.
pub const HOOK: Bounds = Bounds { bytes: 2 << 20, values: 100_000, depth: 100 };
/// Hooks of a release record.
pub const HOOKS: usize = 1500;
/// The unpacked content of an annotation of a release record's Secret.
pub const PACKED: Bounds = Bounds { bytes: 4 << 20, values: 100_000, depth: 64 };
/// The status of a custom resource.
pub const STATUS: Bounds = Bounds { bytes: 2 << 20, values: 100_000, depth: 100 };
/// The spec of a `Notice`. The API server limits its bytes.
pub const NOTICE: Bounds = Bounds { bytes: 256 << 10, values: 2_000, depth: 20 };
/// The status of a `Notice`: of a thousand custom resources and two thousand pods.
pub const NOTICE_STATE: Bounds = Bounds { bytes: 2 << 20, values: 100_000, depth: 20 };
/// A document that the schema of a chart refers to, in a file of the operator.
pub const SCHEMA_DOCUMENT: Bounds = Bounds { bytes: 4 << 20, values: 400_000, depth: 100 };
/// `watches.yaml`.
pub const WATCHES: Bounds = Bounds { bytes: 1 << 20, values: 100_000, depth: 64 };

/// The limit that a text reaches, or why it cannot be read, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// The text is too long.
    #[error("it has {found} bytes; the limit is {limit}")]
    Bytes {
        /// Its bytes.
        found: usize,
        /// Of bytes.
        limit: usize,
    },
    /// It has too many values.
    #[error("it has more than {0} values")]
    Values(usize),
    /// It has too many levels.
    #[error("it is nested more than {0} levels deep")]
    Depth(usize),
    /// It has another form.
    #[error("{0}")]
    Form(String),
}

impl From<BoundsError> for String {
    fn from(error: BoundsError) -> Self {
        error.to_string()
    }
}

impl Bounds {
    /// Whether a text is short enough.
    pub fn text(&self, text: &[u8]) -> Result<(), BoundsError> {
        let (found, limit) = (text.len(), self.bytes);
        if found > limit && !harm::is_unlimited() { Err(BoundsError::Bytes { found, limit }) } else { Ok(()) }
    }

    /// Whether JSON is small enough. The text shows it, before anything is allocated.
    pub fn fits(&self, text: &str) -> Result<(), BoundsError> {
        self.text(text.as_bytes())?;
        let mut measure = Measure::default();
        measure.read(text.as_bytes());
        self.measured(&measure)
    }

    /// Reads JSON that [fits](Self::fits).
    pub fn json(&self, text: &str) -> Result<Value, BoundsError> {
        self.fits(text)?;
        serde_json::from_str(text).map_err(|e| BoundsError::Form(format!("it is not JSON: {e}")))
    }

    /// Reads YAML, one document. No error quotes the text.
    pub fn yaml(&self, text: &[u8]) -> Result<Value, BoundsError> {
        self.reads(text, || yaml::parse(text).map_err(|e| BoundsError::Form(why(&e, "it is not valid YAML"))))
    }

    /// Reads YAML in another way, and checks the result.
    pub fn reads<E: From<BoundsError>>(
        &self,
        text: &[u8],
        read: impl FnOnce() -> Result<Value, E>,
    ) -> Result<Value, E> {
        let read = self.within(text, read)?;
        self.value(&read)?;
        Ok(read)
    }

    /// Reads YAML in another way, whatever it becomes.
    pub fn within<T, E: From<BoundsError>>(&self, text: &[u8], read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.text(text)?;
        // A node counts when it is read, and again when an alias repeats it.
        let memory = (!harm::is_unlimited()).then_some(budget::nodes(self.values));
        let mut budget = Budget::new(Limits { memory, ..Limits::default() });
        let read = budget.run(read);
        if budget.is_spent() { Err(BoundsError::Values(self.values).into()) } else { read }
    }

    /// Checks JSON that was measured up to here.
    pub fn measured(&self, measure: &Measure) -> Result<(), BoundsError> {
        self.check(measure.values + 1, measure.deepest)
    }

    /// Checks a value that was already read.
    pub fn value(&self, value: &Value) -> Result<(), BoundsError> {
        let (values, depth) = weigh(value);
        self.check(values, depth)
    }

    fn check(&self, values: usize, depth: usize) -> Result<(), BoundsError> {
        if harm::is_unlimited() {
            return Ok(());
        }
        if depth > self.depth {
            return Err(BoundsError::Depth(self.depth));
        }
        if values > self.values { Err(BoundsError::Values(self.values)) } else { Ok(()) }
    }
}

/// Why YAML could not be read, without a word of it: that it grows too much by its aliases or is too deep, or `otherwise`.
pub fn why(error: &impl Display, otherwise: &str) -> String {
    let error = error.to_string();
    // Guards of go-yaml, which come before the limits here where nearly all values are repeated, or in a text that is never read.
    if error.ends_with("excessive aliasing") {
        "its aliases repeat more than 99 % of its values".to_owned()
    } else if error.contains("exceeded max depth") {
        BoundsError::Depth(SOURCE.depth).to_string()
    } else {
        otherwise.to_owned()
    }
}

/// Whether a text that is one word is short enough.
pub fn word(text: &str) -> Result<(), BoundsError> {
    let (found, limit) = (text.len(), WORD);
    if found > limit { Err(BoundsError::Bytes { found, limit }) } else { Ok(()) }
}

/// How many values JSON has and how deep it nests, estimated from its text: rather too many than too few. The text can be read in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measure {
    values: usize,
    depth: usize,
    deepest: usize,
    quoted: bool,
    escaped: bool,
}

impl Measure {
    /// Reads the next piece.
    pub fn read(&mut self, json: &[u8]) {
        for byte in json {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.quoted => self.escaped = true,
                b'"' => self.quoted = !self.quoted,
                _ if self.quoted => {}
                b'{' | b'[' => {
                    self.values += 1;
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b',' => self.values += 1,
                _ => {}
            }
        }
    }
}

/// How many values there are, and how deep they are nested.
pub fn weigh(value: &Value) -> (usize, usize) {
    let (mut values, mut deepest) = (0, 0);
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        values += 1;
        match value {
            Value::Array(items) => {
                deepest = deepest.max(depth + 1);
                left.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(map) => {
                deepest = deepest.max(depth + 1);
                left.extend(map.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
    }
    (values, deepest)
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Measure, weigh};

    #[test]
    fn json_is_measured_outside_of_strings() {
        for (json, values, depth) in
            [("1", 1, 0), ("{}", 2, 1), (r#"{"a":[{}]}"#, 4, 3), (r#"{"a":"[[[\"[[,,"}"#, 2, 1), ("[1,2,3]", 4, 1)]
        {
            for piece in [1, 2, json.len()] {
                let mut measure = Measure::default();
                json.as_bytes().chunks(piece).for_each(|piece| measure.read(piece));
                assert_eq!((measure.values + 1, measure.deepest), (values, depth), "{json}");
            }
            let read = weigh(&serde_json::from_str(json).unwrap());
            assert!(read.0 <= values && read.1 == depth, "{json}: {read:?}");
        }
    }

    #[test]
    fn what_is_too_large_names_its_limit() {
        let bounds = Bounds { bytes: 100, values: 8, depth: 3 };
        for (text, expected) in [
            ("[1, [2, [3]]]".to_owned(), Ok(())),
            ("x".repeat(101), Err("it has 101 bytes; the limit is 100")),
            ("[[[[1]]]]".to_owned(), Err("it is nested more than 3 levels deep")),
            ("[1,2,3,4,5,6,7,8]".to_owned(), Err("it has more than 8 values")),
        ] {
            let read = bounds.json(&text).map(|_| ()).map_err(|e| e.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
            let read = bounds.yaml(text.as_bytes()).map(|_| ()).map_err(|e| e.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
        let bomb = b"a: &a [x, x]\nb: [*a, *a]\n";
        assert_eq!(bounds.yaml(bomb).unwrap_err().to_string(), "it has more than 8 values");
    }
}
