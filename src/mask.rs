//! What came from Secrets, so that it appears in no text that leaves the operator: status, events and log ask here, each at
//! the one place where its texts go out.
//!
//! # Guarantees
//! - A text that holds a known string, plain, in base64 or as JSON or Go quote it, is shown with `****` in its place.
//!
//! # Caveats
//! - Strings of a few bytes are not masked: `true` or `80` would be found everywhere. Nor are names of the release's own
//!   objects, which are public.
//! - What a template made of a secret (a hash, a part of it) is not known here.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

/// What stands in place of a secret.
pub const MASK: &str = "****";
/// Shorter texts are not masked.
const MIN: usize = 4;
/// Shorter numbers are not masked: they are ports and counts.
const MIN_NUMBER: usize = 6;
/// How often a text may be quoted in a quotation.
const QUOTES: usize = 3;
/// Strings that are kept of one owner; the first ones go when there are more.
const MAX: usize = 2000;
/// Fields of a status that hold words of Kubernetes and names, and no text of a chart or an API server.
const WORDS: [&str; 12] = [
    "type",
    "status",
    "reason",
    "lastTransitionTime",
    "name",
    "namespace",
    "kind",
    "digest",
    "health",
    "at",
    "version",
    "chart",
];

/// The strings of one owner.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    texts: BTreeSet<Box<str>>,
    /// All that the owner's sources of values hold was learnt.
    complete: bool,
}

impl Secrets {
    /// Nothing more: the owner's sources were all read.
    pub fn end() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// All texts and numbers in values, and the texts' lines.
    pub fn add_values(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => {
                let text = number.to_string();
                let text = text.strip_suffix(".0").unwrap_or(&text);
                if text.len() >= MIN_NUMBER {
                    self.add(text);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_values(item)),
            Value::Object(map) => map.values().for_each(|item| self.add_values(item)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The decoded `data`, and the `stringData`, of a Secret. What is part of a public name is left out.
    pub fn add_secret_object(&mut self, body: &Map<String, Value>, names: &[&str]) {
        let mut found = Self::default();
        for text in body.get("data").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            let decoded = text.as_str().and_then(|t| BASE64.decode(t).ok()).and_then(|b| String::from_utf8(b).ok());
            if let Some(text) = decoded {
                found.add(&text);
            }
        }
        if let Some(texts) = body.get("stringData") {
            found.add_values(texts);
        }
        let is_public = |text: &str| text.len() < MIN_NUMBER || names.iter().any(|n| n.contains(text));
        self.texts.extend(found.texts.into_iter().filter(|text| !is_public(text)));
    }

    /// One text, its lines, and how JSON and base64 write it.
    pub fn add(&mut self, text: &str) {
        let whole = std::iter::once(text.trim()).filter(|t| t.contains('\n'));
        for part in text.lines().map(str::trim).chain(whole).filter(|t| t.len() >= MIN) {
            let mut written = part.to_owned();
            // A JSON log line that tells of an error that quotes a message that quotes a value.
            for _ in 0..=QUOTES {
                let quoted = Value::from(written.as_str()).to_string();
                self.texts.insert(std::mem::replace(&mut written, quoted[1..quoted.len() - 1].to_owned()).into());
            }
        }
        if text.len() >= MIN {
            self.texts.insert(BASE64.encode(text).into());
        }
    }
}

/// The strings of all owners.
pub struct Masks<K> {
    by_owner: RwLock<HashMap<K, Secrets>>,
    /// All of them, the longest first: of two, one may hold the other.
    all: RwLock<Arc<[Box<str>]>>,
}

impl<K> Default for Masks<K> {
    fn default() -> Self {
        Self { by_owner: RwLock::default(), all: RwLock::new(Arc::new([])) }
    }
}

impl<K: Hash + Eq + Clone> Masks<K> {
    /// Adds what an owner's texts may quote from now on.
    pub fn learn(&self, owner: &K, secrets: Secrets) {
        let mut by_owner = self.by_owner.write().unwrap_or_else(PoisonError::into_inner);
        let known = by_owner.entry(owner.clone()).or_default();
        known.complete |= secrets.complete;
        if secrets.texts.is_subset(&known.texts) {
            return;
        }
        known.texts.extend(secrets.texts);
        while known.texts.len() > MAX {
            known.texts.pop_first();
        }
        self.compile(&by_owner);
    }

    /// Whether an owner's sources of values were read, so that texts that quote them can be masked.
    pub fn is_complete(&self, owner: &K) -> bool {
        self.by_owner.read().unwrap_or_else(PoisonError::into_inner).get(owner).is_some_and(|s| s.complete)
    }

    /// An owner is gone.
    pub fn forget(&self, owner: &K) {
        let mut by_owner = self.by_owner.write().unwrap_or_else(PoisonError::into_inner);
        if by_owner.remove(owner).is_some_and(|s| !s.texts.is_empty()) {
            self.compile(&by_owner);
        }
    }

    fn compile(&self, by_owner: &HashMap<K, Secrets>) {
        let unique: BTreeSet<&Box<str>> = by_owner.values().flat_map(|s| &s.texts).collect();
        let mut all: Vec<Box<str>> = unique.into_iter().cloned().collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.len()));
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all.into();
    }

    /// The text without what is secret.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let all = Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner));
        let mut clean = Cow::Borrowed(text);
        for secret in all.iter() {
            if clean.contains(&**secret) {
                clean = clean.replace(&**secret, MASK).into();
            }
        }
        clean
    }

    /// Cleans the texts of a status, but not its words and names.
    pub fn clean_status(&self, status: &mut Map<String, Value>) {
        for (key, value) in status.iter_mut() {
            if !WORDS.contains(&key.as_str()) {
                self.clean_value(value);
            }
        }
    }

    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.clean(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(map) => self.clean_status(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Masks, Secrets};
    use serde_json::json;

    fn masks(secrets: Secrets) -> Masks<u8> {
        let masks = Masks::default();
        masks.learn(&0, secrets);
        masks
    }

    #[test]
    fn secrets_are_masked_however_they_are_written() {
        let mut secrets = Secrets::default();
        secrets.add_values(
            &json!({"a": "hunter2", "b": ["say \"x\"", 12_345_678.0], "c": "first line\nsecond line", "d": 80, "e": true}),
        );
        let masks = masks(secrets);
        for (text, expected) in [
            ("password hunter2!", "password ****!"),
            ("aHVudGVyMg==", "****"),
            (r#"{"message":"say \"x\""}"#, r#"{"message":"****"}"#),
            (r#"{"error":"value: \"say \\\"x\\\"\""}"#, r#"{"error":"value: \"****\""}"#),
            ("12345678", "****"),
            ("it says: second line", "it says: ****"),
            ("first line\nsecond line", "****"),
            ("port 80 true", "port 80 true"),
        ] {
            assert_eq!(masks.clean(text), expected);
        }
        masks.forget(&0);
        assert_eq!(masks.clean("hunter2"), "hunter2");
    }

    #[test]
    fn of_two_secrets_the_longer_is_masked_first() {
        let mut secrets = Secrets::default();
        secrets.add("abcd");
        secrets.add("abcdefgh");
        assert_eq!(masks(secrets).clean("abcdefgh abcd"), "**** ****");
    }

    #[test]
    fn a_secret_objects_data_is_secret_unless_it_is_a_public_name() {
        let body =
            json!({"data": {"user": "cG9zdGdyZXM=", "password": "czNjcmV0cw=="}, "stringData": {"x": "plaintext"}});
        let mut secrets = Secrets::default();
        secrets.add_secret_object(body.as_object().unwrap(), &["app-postgres"]);
        assert_eq!(masks(secrets).clean("app-postgres s3crets plaintext"), "app-postgres **** ****");
    }

    #[test]
    fn the_words_of_a_status_stay() {
        let mut secrets = Secrets::default();
        secrets.add("Ready");
        let mut status =
            json!({"conditions": [{"type": "Ready", "message": "not Ready"}], "release": {"name": "Ready"}});
        masks(secrets).clean_status(status.as_object_mut().unwrap());
        let expected = json!({"conditions": [{"type": "Ready", "message": "not ****"}], "release": {"name": "Ready"}});
        assert_eq!(status, expected);
    }
}
