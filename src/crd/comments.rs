//! The descriptions of keys in the comments of values.yaml, in the styles of helm-docs, of Bitnami's generator, of
//! `@schema` blocks, and in plain sentences.

use super::Path;
use crate::template::yaml;
use crate::template::yaml::document::{self, CommentedNode, Content};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The description of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The description, on one line.
    pub text: String,
    /// The JSON schema of a `@schema` block.
    pub schema: Option<Value>,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("the pattern is valid"));
    };
}

// `## @param image.tag [string, nullable] The tag.`
pattern!(PARAM, r"^#+\s*@param\s+(\S+)\s*(?:\[[^\]]*\])?\s*(.*)$");
// `# -- The tag.`, `# image.tag -- The tag.`, `# -- (string) The tag.`
pattern!(DOCS, r"^#+\s+(?:(\S+)\s+)?--(?:\s+|$)(?:\([^()\s]+\)\s*)?(.*)$");
pattern!(SCHEMA, r"^#+\s*@schema\b\s*(.*)$");
pattern!(MARK, r"^#+\s*@");
// A value that is commented out.
pattern!(CODE, r#"^\s*(?:- |["']?[A-Za-z_][\w./-]*["']?:(?:\s|$)|[\[\]{}]+$|---)"#);
// A sentence that begins as one.
pattern!(
    SENTENCE,
    r"(?i)^\s*(?:ref|note|see|example|e\.g\.|default|warning|important|todo|info|docs?|deprecated|tip|hint|usage)\b"
);
pattern!(RULE, r"^[-=#*~_ ]+$");

/// A key of the text.
struct Key {
    path: Path,
    /// From 0.
    line: usize,
    /// The comment after its value.
    behind: String,
    /// Whether a key before it is on the same line.
    is_inside: bool,
}

/// The comments of a values file, by key. Empty if the text is not YAML.
pub fn read(text: &str) -> BTreeMap<Path, Said> {
    let Ok(Some(document)) = document::read(text) else { return BTreeMap::new() };
    let mut keys = Vec::new();
    gather(&document.root, &mut Path::new(), &mut keys);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let named = named(&lines);
    let mut said = BTreeMap::new();
    for key in keys {
        let above = above(&lines, key.line);
        let schema = schema(&above);
        let by_name = named.get(&key.path.join(".")).cloned();
        let text = by_name.or_else(|| (!key.is_inside).then(|| sentences(&above)).flatten());
        let text = text.unwrap_or_else(|| words(key.behind.trim_start_matches('#')));
        if !text.is_empty() || schema.is_some() {
            said.entry(key.path).or_insert(Said { text, schema: schema.filter(|_| !key.is_inside) });
        }
    }
    said
}

fn gather(node: &CommentedNode, path: &mut Path, keys: &mut Vec<Key>) {
    let Content::Mapping(pairs, _) = &node.content else { return };
    for (key, value) in pairs {
        let Some(name) = key.text() else { continue };
        path.push(name.into());
        let line = key.line_number().saturating_sub(1);
        let behind = if value.line.is_empty() { &key.line } else { &value.line };
        let is_inside = keys.last().is_some_and(|last: &Key| last.line == line);
        keys.push(Key { path: path.clone(), line, behind: behind.clone(), is_inside });
        gather(value, path, keys);
        path.pop();
    }
}

/// The comment lines directly above a line.
fn above<'t>(lines: &[&'t str], line: usize) -> Vec<&'t str> {
    let before = lines.get(..line).unwrap_or_default();
    let length = before.iter().rev().take_while(|line| line.starts_with('#')).count();
    before[before.len() - length..].to_vec()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn bare(line: &str) -> &str {
    line.trim_start_matches('#').trim()
}

/// Descriptions that name their key, by the dotted path.
fn named(lines: &[&str]) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = PARAM.captures(line) {
            if !found[2].trim().is_empty() {
                named.insert(found[1].to_owned(), words(&found[2]));
            }
        } else if let Some(found) = DOCS.captures(line)
            && let Some(key) = found.get(1)
        {
            let more = lines[at + 1..]
                .iter()
                .take_while(|line| line.starts_with('#') && !MARK.is_match(line) && !DOCS.is_match(line));
            let text = words(&[&found[2]].into_iter().chain(more.map(|line| bare(line))).collect::<Vec<_>>().join(" "));
            if !text.is_empty() {
                named.entry(key.as_str().to_owned()).or_insert(text);
            }
        }
    }
    named
}

/// The description that a block of comments is.
fn sentences(block: &[&str]) -> Option<String> {
    let unnamed = |line: &&str| DOCS.captures(line).is_some_and(|found| found.get(1).is_none());
    let mut text: Vec<&str> = Vec::new();
    let mut in_schema = false;
    if let Some(start) = block.iter().rposition(unnamed) {
        text.extend(DOCS.captures(block[start]).and_then(|found| found.get(2)).map(|found| found.as_str()));
        for line in &block[start + 1..] {
            in_schema ^= is_fence(line);
            if !in_schema && !MARK.is_match(line) {
                text.push(bare(line));
            }
        }
    } else {
        for line in block {
            in_schema ^= is_fence(line);
            if line.contains("@section") {
                text.clear();
            }
            let bare = bare(line);
            if in_schema || MARK.is_match(line) || bare.is_empty() || RULE.is_match(bare) {
                continue;
            }
            if CODE.is_match(bare) && !SENTENCE.is_match(bare) {
                break;
            }
            text.push(bare);
        }
    }
    let text = words(&text.join(" "));
    (!text.is_empty()).then_some(text)
}

/// Whether a line begins or ends a `@schema` block.
fn is_fence(line: &str) -> bool {
    SCHEMA.captures(line).is_some_and(|found| found[1].is_empty())
}

/// The schema of a block: between two lines `# @schema`, or after `# @schema` as `key: value; key: value`.
fn schema(block: &[&str]) -> Option<Value> {
    let mut schema = Map::new();
    let mut fenced: Option<String> = None;
    let mut add = |text: &str| {
        if let Ok(Value::Object(entries)) = yaml::parse(text.as_bytes()) {
            schema.extend(entries);
        }
    };
    for line in block {
        if is_fence(line) {
            match fenced.take() {
                Some(text) => add(&text),
                None => fenced = Some(String::new()),
            }
        } else if let Some(text) = &mut fenced {
            let line = line.strip_prefix('#').unwrap_or(line);
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        } else if let Some(found) = SCHEMA.captures(line) {
            for part in found[1].split(';') {
                if let Some((key, value)) = part.split_once(':') {
                    add(&format!("{}: {}", key.trim(), value.trim()));
                }
            }
        }
    }
    (!schema.is_empty()).then_some(Value::Object(schema))
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    #[test]
    fn each_style_describes_its_key() {
        let text = r#"
# Copyright of somebody.

# -- The image.
# Of the main container.
image:
  repository: nginx # where it comes from
  # -- (string) The tag.
  # @default -- the app version
  tag: ""
## @section Other
## @param replicas [nullable] How many pods
## @param probe.path Path of the probe
replicas: 1
probe:
  path: /
# How long to wait,
# in seconds.
wait: 3
# nodeSelector:
#   disk: ssd
selector: {}
# service.port -- The port
service: {port: 80, name: "a # b"}
# @schema
# type: [integer, "null"]
# minimum: 1
# @schema
# -- With a schema.
typed:
# @schema type: string; pattern: ^a
short: a
# ------
bare: 1
# Words about what follows.
## @section Names
# The name.
name: a
"#;
        let said = read(text);
        let text = |path: &str| {
            let path: Vec<Box<str>> = path.split('.').map(Box::from).collect();
            said.get(&path).map(|said| said.text.as_str())
        };
        for (path, want) in [
            ("image", Some("The image. Of the main container.")),
            ("image.repository", Some("where it comes from")),
            ("image.tag", Some("The tag.")),
            ("replicas", Some("How many pods")),
            ("probe.path", Some("Path of the probe")),
            ("wait", Some("How long to wait, in seconds.")),
            ("selector", None),
            ("service.port", Some("The port")),
            ("typed", Some("With a schema.")),
            ("bare", None),
            ("name", Some("The name.")),
        ] {
            assert_eq!(text(path), want, "{path}");
        }
        let schema = |key: &str| said[&vec![Box::from(key)]].schema.clone();
        assert_eq!(schema("typed"), Some(json!({"type": ["integer", "null"], "minimum": 1.0})));
        assert_eq!(schema("short"), Some(json!({"type": "string", "pattern": "^a"})));
    }
}
