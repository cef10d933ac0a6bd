//! The YAML reader against the recorded behaviour of Go, and against broken documents.

mod recorded;

use serde_json::{Number, Value, json};
use std::fs;
use std::path::Path;
use tillerman::template::yaml::{Head, head, parse, parse_value};

/// Numbers as the reader makes them of whatever is written.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        other => other,
    }
}

fn fields(head: &Head) -> Value {
    json!([head.api_version, head.kind, head.name, head.annotations])
}

/// What is wrong with a result, given what was recorded.
fn difference<E: ToString>(recorded: &str, result: Result<Value, E>, prefix: &str) -> Option<String> {
    let shown = match &result {
        Ok(value) => format!("={value}"),
        Err(error) => format!("!{}", error.to_string()),
    };
    let is_same = match (recorded.strip_prefix('='), recorded.strip_prefix('!'), result) {
        (Some(json), _, Ok(value)) => serde_json::from_str(json).is_ok_and(|json| floats(json) == floats(value)),
        (_, Some(text), Err(error)) => {
            let error = error.to_string();
            error == text || error.strip_prefix(prefix) == Some(text)
        }
        _ => false,
    };
    (!is_same).then(|| format!("  recorded {recorded}\n  found    {shown}"))
}

#[test]
fn documents_mean_what_go_takes_them_for() {
    let mut differences = Vec::new();
    for (text, recorded) in recorded::PARSED {
        if let Some(difference) = difference(recorded, parse(text), "error converting YAML to JSON: ") {
            differences.push(format!("{}\n{difference}", text.escape_ascii()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn heads_are_read_as_helm_reads_them() {
    let mut differences = Vec::new();
    for (text, recorded) in recorded::HEADS {
        if let Some(difference) = difference(recorded, head(text.as_bytes()).map(|head| fields(&head)), "") {
            differences.push(format!("{text}\n{difference}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn nesting_ends_where_it_must() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let too_deep = "error converting YAML to JSON: yaml: exceeded max depth of 10000";
    assert!(parse(nested(1000).as_bytes()).is_ok());
    assert_eq!(parse(nested(1001).as_bytes()).unwrap_err().to_string(), too_deep);
    assert_eq!(parse("a: &a [1]\n".repeat(2000).as_bytes()).unwrap(), json!({"a": [1.0]}));
    // A head is not built of what is nested, so that Go's own limits are the first to be met.
    let spec = |depth| head(format!("kind: Pod\nspec: {}", nested(depth)).as_bytes());
    assert_eq!(spec(9999).unwrap().kind, "Pod");
    let error = "error unmarshaling JSON: while decoding JSON: invalid character '[' exceeded max depth";
    assert_eq!(spec(10_000).unwrap_err().to_string(), error);
    let error = "error converting YAML to JSON: yaml: line 2: exceeded max depth of 10000";
    assert_eq!(spec(10_001).unwrap_err().to_string(), error);
    let blocks = "- ".repeat(10_001);
    assert_eq!(head(blocks.as_bytes()).unwrap_err().to_string(), too_deep);
    // Levels that only aliases make.
    let mut chain = vec![format!("a0: &a0 {}\n", nested(900))];
    chain.extend((1..20).map(|i| format!("a{i}: &a{i} {}*a{}{}\n", "[".repeat(900), i - 1, "]".repeat(900))));
    let chain = chain.concat();
    assert_eq!(parse(chain.as_bytes()).unwrap_err().to_string(), too_deep);
    let error = "error unmarshaling JSON: while decoding JSON: invalid character '[' exceeded max depth";
    assert_eq!(head(chain.as_bytes()).unwrap_err().to_string(), error);
}

/// Pieces that mean something to a scanner.
const PIECES: [&str; 72] = [
    "- ",
    ": ",
    ":",
    "\n",
    "\n  ",
    "\n ",
    "  ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    ", ",
    "&a ",
    "*a",
    "&b ",
    "*b ",
    "!!str ",
    "!!int ",
    "!t ",
    "!<x> ",
    "! ",
    "\"",
    "'",
    "\"x\"",
    "'y'",
    "|\n",
    ">\n",
    "|-\n",
    ">+\n",
    "|2\n",
    "#",
    " # c\n",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! tag:x,2:\n",
    "%",
    "@",
    "`",
    "\t",
    "\r\n",
    "\r",
    "\u{85}",
    "\u{2028}",
    "é",
    "€",
    "😀",
    "\\",
    "\\n",
    "\\x41",
    "\0",
    "\u{7f}",
    "<<: ",
    "<<: *a\n",
    "a",
    "a: ",
    "b: ",
    "key: value\n",
    "~",
    "null",
    "1",
    ".nan",
    "-.inf",
    "18446744073709551615",
    "2001-01-01",
    "!!binary aGk= ",
    "!!float 1",
    "kind: ",
    "metadata:",
    "\n- - ",
];

/// The same numbers in every run: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit.max(1) as u64)).unwrap_or(0)
    }

    fn mutate(&mut self, text: &[u8]) -> Vec<u8> {
        let start = self.below(text.len());
        let mut text = text[start..text.len().min(start + 1500)].to_vec();
        for _ in 0..=self.below(5) {
            let at = self.below(text.len() + 1);
            let to = text.len().min(at + 1 + self.below(12));
            let piece = PIECES[self.below(PIECES.len())].bytes();
            match self.below(6) {
                0 => drop(text.drain(at..to)),
                1 => text.truncate(at),
                2 => drop(text.splice(at..to, piece)),
                3 => text.insert(at, u8::try_from(self.below(256)).unwrap_or(0)),
                _ => drop(text.splice(at..at, piece)),
            }
        }
        text
    }
}

/// The YAML files of the crate.
fn files(path: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(path).expect("the folder is part of the crate") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            found.push(fs::read(&path).expect("the file can be read"));
        }
    }
}

#[test]
fn broken_documents_are_read_alike_by_all_readers() {
    let mut texts = Vec::new();
    for folder in ["charts", "examples", "tests/charts"] {
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut texts);
    }
    assert!(texts.len() > 10, "there are too few files to mutate");
    let mut random = Random(0x5EED);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6000 {
        let text = random.below(texts.len());
        let text = random.mutate(&texts[text]);
        let shown = text.escape_ascii();
        let parsed = parse(&text);
        let outcome = if parsed.is_ok() { &mut read } else { &mut refused };
        *outcome += 1;
        // The values of templates.
        let value = parse_value(&text);
        assert_eq!(parsed.as_ref().err(), value.as_ref().err(), "{shown}");
        // The head, which may only find more: values of a wrong type.
        match (&parsed, head(&text)) {
            (Err(error), head) => assert_eq!(Some(error), head.err().as_ref(), "{shown}"),
            (Ok(_), Err(error)) => assert!(error.to_string().contains("cannot unmarshal"), "{shown}: {error}"),
            (Ok(_), Ok(_)) => {}
        }
        // Other than UTF-8 in place, UTF-16 is read character by character.
        let is_allowed = |c: char| c != '\u{FEFF}' && (!c.is_control() || "\t\n\r\u{85}".contains(c));
        if let Ok(text) = std::str::from_utf8(&text)
            && text.chars().all(is_allowed)
        {
            let wide: Vec<u8> = format!("\u{FEFF}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(parsed, parse(&wide), "{shown}");
        }
    }
    assert!(read > 500 && refused > 500, "{read} documents could be read and {refused} not");
}
