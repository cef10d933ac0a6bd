//! The secrets of one release, and how a text is shown without them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::text::{WITHHELD, or_withheld};

/// The replacement for a secret.
pub const MASK: &str = "****";
/// Shorter texts are not replaced: they would be found everywhere. A line that has one as a word is left out.
const MIN: usize = 4;
/// Shorter numbers are ports and counts.
const MIN_NUMBER: usize = 6;
/// How often a text may be quoted in a quotation.
const QUOTES: usize = 3;
/// Texts that are kept of one release, with the ways in which they may be written. With more no text of others is shown.
const MAX: usize = 4000;
/// Their bytes.
const MAX_BYTES: usize = 1 << 20;
/// Comparisons that one text may cost. A text that costs more is not shown.
const MAX_WORK: usize = 20_000_000;
/// The replacement for a line that may hold a short secret.
const LINE: &str = "(a line is not shown: it may quote a Secret)";

/// Words that are often in Secrets and are not secret.
const ORDINARY: &[&str] = &[
    "admin",
    "administrator",
    "allow",
    "always",
    "authentication",
    "available",
    "basic",
    "client",
    "cluster",
    "config",
    "data",
    "database",
    "debug",
    "default",
    "deny",
    "development",
    "disable",
    "disabled",
    "enable",
    "enabled",
    "error",
    "example",
    "external",
    "false",
    "guest",
    "host",
    "http",
    "https",
    "info",
    "internal",
    "kind",
    "local",
    "localhost",
    "message",
    "mode",
    "mongodb",
    "mysql",
    "name",
    "namespace",
    "never",
    "none",
    "null",
    "password",
    "plain",
    "postgres",
    "postgresql",
    "prefer",
    "primary",
    "production",
    "public",
    "reason",
    "redis",
    "release",
    "replica",
    "replicas",
    "require",
    "root",
    "secret",
    "server",
    "service",
    "status",
    "string",
    "test",
    "text",
    "token",
    "trace",
    "true",
    "type",
    "user",
    "username",
    "value",
    "values",
    "version",
    "warn",
    "warning",
];

/// The part that is learnt of one release at a time.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The texts that are replaced.
    texts: BTreeSet<Arc<str>>,
    /// Too short to be replaced: no line is shown that has one as a word.
    short: BTreeSet<Arc<str>>,
    /// Numbers, truth values and common words: no line is shown that quotes one.
    ordinary: BTreeSet<Arc<str>>,
    /// Names of the release's objects, which are public.
    names: BTreeSet<Arc<str>>,
    bytes: usize,
    overflow: bool,
    /// Everything that the sources of values hold was learnt.
    pub(super) sources: bool,
    /// The content of the release's own Secrets was learnt.
    pub(super) objects: bool,
}

impl Secrets {
    /// The sources of values were all read.
    pub fn all_sources() -> Self {
        Self { sources: true, ..Self::default() }
    }

    /// The content of the release's own Secrets follows, and these names are public.
    pub fn of_objects<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Self { objects: true, names: names.map(Into::into).collect(), ..Self::default() }
    }

    /// All texts and numbers in values, and the texts' lines.
    pub fn add_values(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => {
                let text = number.to_string();
                self.add(text.strip_suffix(".0").unwrap_or(&text));
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_values(item)),
            Value::Object(map) => map.values().for_each(|item| self.add_values(item)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The decoded `data`, and the `stringData`, of a Secret.
    pub fn add_secret_object(&mut self, body: &Map<String, Value>) {
        for text in body.get("data").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            let decoded = text.as_str().and_then(|t| BASE64.decode(t).ok()).and_then(|b| String::from_utf8(b).ok());
            if let Some(text) = decoded {
                self.add(&text);
            }
        }
        if let Some(texts) = body.get("stringData") {
            self.add_values(texts);
        }
    }

    /// One text, its lines, and how JSON and base64 write it.
    pub fn add(&mut self, text: &str) {
        let whole = std::iter::once(text.trim()).filter(|t| t.contains('\n'));
        for part in text.lines().map(str::trim).chain(whole).filter(|t| t.chars().nth(1).is_some()) {
            if is_ordinary(part) {
                insert(&mut self.ordinary, &mut self.bytes, part.into());
            } else if part.len() < MIN {
                insert(&mut self.short, &mut self.bytes, part.into());
            } else {
                let mut written = part.to_owned();
                // A JSON log line with an error that quotes a message that quotes a value.
                for _ in 0..=QUOTES {
                    let quoted = Value::from(written.as_str()).to_string();
                    let next = quoted[1..quoted.len() - 1].to_owned();
                    let same = next == written;
                    insert(&mut self.texts, &mut self.bytes, std::mem::replace(&mut written, next).into());
                    if same {
                        break;
                    }
                }
            }
        }
        if text.len() >= MIN && !is_ordinary(text.trim()) {
            insert(&mut self.texts, &mut self.bytes, BASE64.encode(text).into());
        }
        self.bound();
    }

    /// Adds secrets that were learnt later. Whether there is anything new.
    pub(super) fn extend(&mut self, more: Self) -> bool {
        let before = (self.texts.len(), self.short.len(), self.ordinary.len(), self.names.len(), self.overflow);
        for (known, new) in
            [(&mut self.texts, more.texts), (&mut self.short, more.short), (&mut self.ordinary, more.ordinary)]
        {
            for text in new {
                insert(known, &mut self.bytes, text);
            }
        }
        self.names.extend(more.names);
        self.overflow |= more.overflow;
        self.sources |= more.sources;
        self.objects |= more.objects;
        self.bound();
        before != (self.texts.len(), self.short.len(), self.ordinary.len(), self.names.len(), self.overflow)
    }

    /// Too many to keep: none is kept, and no text of others is shown.
    fn bound(&mut self) {
        self.overflow |= self.texts.len() + self.short.len() + self.ordinary.len() > MAX || self.bytes > MAX_BYTES;
        if self.overflow {
            let Self { sources, objects, .. } = *self;
            *self = Self { overflow: true, sources, objects, ..Self::default() };
        }
    }
}

fn insert(known: &mut BTreeSet<Arc<str>>, bytes: &mut usize, text: Arc<str>) {
    let length = text.len();
    if known.insert(text) {
        *bytes += length;
    }
}

/// Whether a text is too common to be a secret.
fn is_ordinary(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.len() < MIN_NUMBER && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number || ORDINARY.binary_search(&text.to_ascii_lowercase().as_str()).is_ok()
}

/// The secrets of one release, prepared for the search.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// By their first bytes, the longest first: of two, one may begin with the other.
    by_start: HashMap<[u8; MIN], Vec<Arc<str>>>,
    short: BTreeSet<Arc<str>>,
    ordinary: BTreeSet<Arc<str>>,
    names: BTreeSet<Arc<str>>,
    overflow: bool,
}

impl Dictionary {
    pub(super) fn new(secrets: &Secrets) -> Self {
        let Secrets { texts, short, ordinary, names, overflow, .. } = secrets;
        let mut by_start: HashMap<[u8; MIN], Vec<Arc<str>>> = HashMap::new();
        for text in texts {
            if let Some(start) = text.as_bytes().first_chunk() {
                by_start.entry(*start).or_default().push(text.clone());
            }
        }
        for texts in by_start.values_mut() {
            texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        }
        let nothing = by_start.is_empty() && short.is_empty() && ordinary.is_empty();
        let names = if nothing { BTreeSet::new() } else { names.clone() };
        Self { by_start, short: short.clone(), ordinary: ordinary.clone(), names, overflow: *overflow }
    }

    /// A text of others without secrets; if they cannot be removed, the substitute.
    pub(super) fn clean(&self, text: &str, bare: &str) -> String {
        if self.overflow {
            return or_withheld(bare).to_owned();
        }
        let Some(masked) = self.masked(text) else { return or_withheld(bare).to_owned() };
        if self.short.is_empty() && self.ordinary.is_empty() {
            return masked;
        }
        if !masked.lines().any(|line| self.is_told(line)) {
            return masked;
        }
        if !bare.is_empty() {
            return bare.to_owned();
        }
        if !masked.trim_end().contains('\n') {
            return WITHHELD.to_owned();
        }
        let mut lines = Vec::new();
        for line in masked.split('\n') {
            let line = if self.is_told(line) { LINE } else { line };
            if line != LINE || lines.last() != Some(&LINE) {
                lines.push(line);
            }
        }
        lines.join("\n")
    }

    /// A document with [`MASK`] for every text that is long enough to be a secret. `None` when there are too many.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        if self.overflow { None } else { self.masked(text) }
    }

    /// The text with [`MASK`] in place of each secret that is long enough. `None` when that takes too long.
    fn masked(&self, text: &str) -> Option<String> {
        if self.by_start.is_empty() {
            return Some(text.to_owned());
        }
        let (mut clean, mut done, mut at, mut work) = (String::new(), 0, 0, 0);
        while let Some(start) = text.as_bytes().get(at..).and_then(<[u8]>::first_chunk::<MIN>) {
            let known = self.by_start.get(start).map_or(&[][..], Vec::as_slice);
            work += known.len();
            if work > MAX_WORK {
                return None;
            }
            let Some(secret) = known.iter().find(|secret| text.as_bytes()[at..].starts_with(secret.as_bytes())) else {
                at += 1;
                continue;
            };
            let end = at + secret.len();
            if let Some(end) = self.name_around(text, at, end) {
                at = end;
                continue;
            }
            // A known text is UTF-8, and so are the bytes that equal it.
            clean.push_str(&text[done..at]);
            clean.push_str(MASK);
            (done, at) = (end, end);
        }
        clean.push_str(&text[done..]);
        Some(clean)
    }

    /// Where the public name ends of which this is a part.
    fn name_around(&self, text: &str, start: usize, end: usize) -> Option<usize> {
        if self.names.is_empty() {
            return None;
        }
        let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let begin =
            text[..start].rfind(|c| !part(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        let after = text[end..].find(|c| !part(c)).map_or(text.len(), |length| end + length);
        // A full stop ends a sentence.
        let name = text[begin..after].trim_end_matches('.');
        self.names.contains(name).then(|| begin + name.len()).filter(|after| *after >= end)
    }

    /// Whether a line has a short secret as a word, or quotes a common one.
    fn is_told(&self, line: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric();
        let starts = line.char_indices().filter(|(at, _)| !line[..*at].chars().next_back().is_some_and(is_word));
        let short = |at: usize| {
            let rest = &line[at..];
            (2..MIN).filter_map(|length| rest.get(..length)).any(|text| {
                self.short.contains(text)
                    && !rest[text.len()..].chars().next().is_some_and(is_word)
                    && self.name_around(line, at, at + text.len()).is_none()
            })
        };
        let quoted = |(at, quote): (usize, char)| {
            let rest = &line[at + quote.len_utf8()..];
            let end = rest.find(quote)?;
            Some(rest[..end].trim_end_matches('\\'))
        };
        let marks = line.char_indices().filter(|(_, c)| matches!(c, '"' | '\'' | '`'));
        (!self.short.is_empty() && starts.map(|(at, _)| at).any(short))
            || (!self.ordinary.is_empty() && marks.filter_map(quoted).any(|text| self.ordinary.contains(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Dictionary, ORDINARY, Secrets};
    use crate::mask::text::WITHHELD;
    use serde_json::json;

    fn dictionary(values: &serde_json::Value, names: &[&str]) -> Dictionary {
        let mut secrets = Secrets::of_objects(names.iter().copied());
        secrets.add_values(values);
        Dictionary::new(&secrets)
    }

    #[test]
    fn secrets_are_masked_however_they_are_written() {
        let values = json!({"a": "hunter2", "b": ["say \"x\"", 12_345_678.0], "c": "first line\nsecond line", "d": 80, "e": true});
        let dictionary = dictionary(&values, &[]);
        for (text, expected) in [
            ("password hunter2!", "password ****!"),
            ("aHVudGVyMg==", "****"),
            (r#"{"message":"say \"x\""}"#, r#"{"message":"****"}"#),
            (r#"{"error":"value: \"say \\\"x\\\"\""}"#, r#"{"error":"value: \"****\""}"#),
            ("12345678", "****"),
            ("it says: second line", "it says: ****"),
            ("first line\nsecond line", "****"),
            ("port 80 true", "port 80 true"),
            ("é hunter2 é", "é **** é"),
        ] {
            assert_eq!(dictionary.clean(text, ""), expected);
        }
    }

    #[test]
    fn of_two_secrets_the_longer_is_masked_first() {
        assert_eq!(dictionary(&json!(["abcd", "abcdefgh"]), &[]).clean("abcdefgh abcd", ""), "**** ****");
    }

    #[test]
    fn a_name_is_public_and_what_it_holds_is_still_a_secret_elsewhere() {
        let dictionary = dictionary(&json!(["gateway", "plaintext", "db"]), &["rel-gateway-operator", "my-db"]);
        for (text, expected) in [
            ("Deployment rel-gateway-operator: no gateway.", "Deployment rel-gateway-operator: no ****."),
            ("rel-gateway-operator.", "rel-gateway-operator."),
            ("rel-gateway-operators", "rel-****-operators"),
            ("my-db is there, plaintext", "my-db is there, ****"),
            ("no db", WITHHELD),
        ] {
            assert_eq!(dictionary.clean(text, ""), expected);
        }
    }

    #[test]
    fn a_line_with_a_short_secret_is_left_out_and_common_words_stay_unless_they_are_quoted() {
        let dictionary = dictionary(&json!(["abc", "message", "80", "long-enough", true]), &[]);
        for (text, bare, expected) in [
            ("abc is no good password", "", WITHHELD),
            ("abc is no good password", "at a.yaml:3:1", "at a.yaml:3:1"),
            ("abcd and xabc", "", "abcd and xabc"),
            ("a message from port 80", "", "a message from port 80"),
            ("Unsupported value: \"80\"", "invalid: spec.x", "invalid: spec.x"),
            (r#"why: \"message\""#, "", WITHHELD),
            (
                "start\nuser abc\npw abc\nlong-enough\n",
                "",
                "start\n(a line is not shown: it may quote a Secret)\n****\n",
            ),
        ] {
            assert_eq!(dictionary.clean(text, bare), expected, "{text}");
        }
    }

    #[test]
    fn of_too_many_secrets_no_text_is_shown() {
        let many = |n: usize| json!((0..n).map(|i| format!("canary-{i:05}")).collect::<Vec<_>>());
        let text = "canary-00001 and canary-01999 are wrong";
        assert_eq!(dictionary(&many(2000), &[]).clean(text, ""), "**** and **** are wrong");
        assert_eq!(dictionary(&many(5000), &[]).clean(text, ""), WITHHELD);
        assert_eq!(dictionary(&many(5000), &[]).clean(text, "at a.yaml"), "at a.yaml");
        assert_eq!(dictionary(&json!("x".repeat(2 << 20)), &[]).clean("anything", ""), WITHHELD);
    }

    #[test]
    fn a_text_that_takes_long_to_clean_is_not_shown() {
        let values = json!((0..1500).map(|i| format!("aaaa{i:04}")).collect::<Vec<_>>());
        assert_eq!(dictionary(&values, &[]).clean(&"a".repeat(1 << 20), "bare"), "bare");
    }

    #[test]
    fn a_secret_objects_data_is_secret() {
        let body =
            json!({"data": {"user": "cG9zdGdyZXM=", "password": "czNjcmV0cw=="}, "stringData": {"x": "plaintext"}});
        let mut secrets = Secrets::default();
        secrets.add_secret_object(body.as_object().unwrap());
        let dictionary = Dictionary::new(&secrets);
        assert_eq!(dictionary.clean("app-postgres s3crets plaintext", ""), "app-postgres **** ****");
    }

    #[test]
    fn common_words_are_in_order() {
        assert!(ORDINARY.is_sorted());
    }
}
