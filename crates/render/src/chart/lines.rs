//! The lines of a values file where its values are.

use super::Values;
use crate::template::yaml::document::{self, CommentedNode, Content};
use std::collections::{BTreeMap, HashMap};

/// Levels of nesting that are looked at; deeper values have no line.
const LEVELS: usize = 200;
/// Aliases in a file that are followed: each may contain others.
const ALIASES: usize = 10_000;

/// The lines of keys, from 1, by the path of keys. A key that comes through an alias or a merge (`<<`) has the line where its anchor's
/// mapping writes it. Empty for a text that is not YAML.
pub fn lines(text: &[u8]) -> BTreeMap<Vec<String>, usize> {
    let text = String::from_utf8_lossy(text);
    let mut all = BTreeMap::new();
    let mut document = String::new();
    for (number, line) in text.split('\n').enumerate() {
        if line.starts_with("---") {
            add_document(&document, &mut all);
            // Blank lines in place of the documents above keep the numbers.
            document = "\n".repeat(number + 1);
        } else {
            document.push_str(line);
            document.push('\n');
        }
    }
    add_document(&document, &mut all);
    all
}

/// The line of a value, or of the table or list around it.
pub fn nearest(lines: &BTreeMap<Vec<String>, usize>, path: &[String]) -> Option<usize> {
    (1..=path.len()).rev().find_map(|length| lines.get(&path[..length]).copied())
}

fn add_document(text: &str, all: &mut BTreeMap<Vec<String>, usize>) {
    let Ok(Some(document)) = document::read(text) else { return };
    let mut anchors = HashMap::new();
    gather(&document.root, &mut anchors, LEVELS);
    let mut walk = Walk { anchors, lines: all, aliases: ALIASES };
    walk.mapping(&document.root, &mut Vec::new());
}

fn gather<'n>(node: &'n CommentedNode, anchors: &mut HashMap<&'n str, &'n CommentedNode>, levels: usize) {
    if levels == 0 {
        return;
    }
    if let Some(anchor) = &node.anchor {
        anchors.insert(anchor, node);
    }
    match &node.content {
        Content::Mapping(pairs, _) => pairs.iter().for_each(|(_, value)| gather(value, anchors, levels - 1)),
        Content::Sequence(items, _) => items.iter().for_each(|item| gather(item, anchors, levels - 1)),
        Content::Scalar(..) | Content::Alias(_) => {}
    }
}

struct Walk<'n, 'l> {
    anchors: HashMap<&'n str, &'n CommentedNode>,
    lines: &'l mut BTreeMap<Vec<String>, usize>,
    aliases: usize,
}

impl<'n> Walk<'n, '_> {
    fn mapping(&mut self, node: &'n CommentedNode, path: &mut Vec<String>) {
        let Content::Mapping(pairs, _) = &self.target(node).content else { return };
        if path.len() >= LEVELS {
            return;
        }
        // A later key overrides an earlier one, and a merge overrides the keys above it.
        for (key, value) in pairs {
            let Some(name) = key.text() else { continue };
            if name == "<<" {
                self.merge(value, path);
                continue;
            }
            path.push(name.to_owned());
            self.lines.insert(path.clone(), key.line_number());
            self.mapping(value, path);
            path.pop();
        }
    }

    fn merge(&mut self, value: &'n CommentedNode, path: &mut Vec<String>) {
        match &value.content {
            // Of a list, the first mapping has precedence.
            Content::Sequence(items, _) => items.iter().rev().for_each(|item| self.mapping(item, path)),
            _ => self.mapping(value, path),
        }
    }

    /// The node to which an alias refers.
    fn target(&mut self, node: &'n CommentedNode) -> &'n CommentedNode {
        let Content::Alias(name) = &node.content else { return node };
        self.aliases = self.aliases.saturating_sub(1);
        if self.aliases == 0 { node } else { self.anchors.get(name.as_str()).copied().unwrap_or(node) }
    }
}

/// The value at a path of keys.
pub fn at<'v>(values: &'v Values, path: &[String]) -> Option<&'v serde_json::Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(values.get(first)?, |value, key| value.as_object()?.get(key))
}

#[cfg(test)]
mod tests {
    use super::{lines, nearest};
    use std::fmt::Write as _;

    #[test]
    fn each_key_has_its_line() {
        let text = "# top\nimage:\n  tag: x\n  pull: {policy: y}\n\n# more\nlist:\n- a: 1\n\"quo.ted\":\n  deep: 1\n";
        let found = lines(text.as_bytes());
        let table = [
            ("image", Some(2)),
            ("image/tag", Some(3)),
            ("image/pull/policy", Some(4)),
            ("list", Some(7)),
            ("list/a", None),
            ("quo.ted/deep", Some(10)),
        ];
        for (path, line) in table {
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            assert_eq!(found.get(&path).copied(), line, "{path:?}");
        }
        assert_eq!(nearest(&found, &["image".into(), "other".into()]), Some(2));
        assert_eq!(nearest(&found, &["other".into()]), None);
    }

    #[test]
    fn an_alias_leads_to_its_anchor_and_later_documents_count_on() {
        let text = "a: &a\n  x: 1\nb: *a\nc:\n  <<: *a\n  y: 2\n--- # two\nd:\n  z: 1\n";
        let found = lines(text.as_bytes());
        for (path, line) in [("b/x", 2), ("b", 3), ("c/x", 2), ("c/y", 6), ("d/z", 9)] {
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            assert_eq!(found.get(&path), Some(&line), "{path:?}");
        }
    }

    #[test]
    fn aliases_that_multiply_end() {
        let mut text = "a0: &a0 {x: 1, y: 1}\n".to_owned();
        for n in 1..40 {
            writeln!(text, "a{n}: &a{n} {{x: *a{0}, y: *a{0}}}", n - 1).unwrap();
        }
        assert!(lines(text.as_bytes()).len() < 100_000);
        assert!(lines(b"a: [").is_empty());
    }
}
