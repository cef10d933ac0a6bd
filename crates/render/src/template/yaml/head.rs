//! The head of a manifest: what Helm reads of every rendered document to sort it.

use super::decode::{check, float32, in_conversion, key_text, meaning};
use super::gotype::{Target, folds_to};
use super::node::{Node, Tree, compose};
use super::reader::Source;
use super::resolve::Scalar;
use super::{Fallible, YamlError};
use std::collections::BTreeMap;

/// The head of a manifest, as Helm reads it into its `SimpleHead`. A field that is absent or null is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
}

/// Go's name for the type of `metadata` in Helm's `SimpleHead`.
const METADATA_TYPE: &str =
    r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;

/// Reads the head of the first document of a text. It is an error exactly where Helm finds one, anywhere in the
/// document; the texts are those of `yaml.Unmarshal` of sigs.k8s.io/yaml into Helm's `SimpleHead`.
pub fn head(text: &[u8]) -> Result<Head, YamlError> {
    let source = Source::new(text);
    let Some(tree) = compose(&source).map_err(in_conversion)? else { return Ok(Head::default()) };
    let in_json = |problem: Box<str>| YamlError(format!("error unmarshaling JSON: while decoding JSON: {problem}"));
    if !tree.is_plain
        && let Some(bracket) = check(&tree, Target::Head).map_err(in_conversion)?
    {
        return Err(in_json(format!("invalid character '{bracket}' exceeded max depth").into()));
    }
    Reader { tree: &tree, problem: None }.head().map_err(in_json)
}

struct Reader<'a> {
    tree: &'a Tree<'a>,
    /// The first value of a wrong type.
    problem: Option<Box<str>>,
}

impl Reader<'_> {
    fn head(mut self) -> Fallible<Head> {
        let mut head = Head::default();
        if self.kind(0) == "object" {
            for (key, value) in self.entries(0)? {
                if folds_to(&key, "apiVersion") {
                    self.text(value, "SimpleHead.apiVersion", &mut head.api_version)?;
                } else if folds_to(&key, "kind") {
                    self.text(value, "SimpleHead.kind", &mut head.kind)?;
                } else if folds_to(&key, "metadata") {
                    self.metadata(value, &mut head)?;
                }
            }
        } else if self.scalar(0)? != Some(Scalar::Null) {
            let kind = self.kind(0);
            self.problem = Some(format!("json: cannot unmarshal {kind} into Go value of type util.SimpleHead").into());
        }
        self.problem.map_or(Ok(head), Err)
    }

    fn metadata(&mut self, node: usize, head: &mut Head) -> Fallible<()> {
        if self.scalar(node)? == Some(Scalar::Null) {
            head.name.clear();
            head.annotations.clear();
        } else if self.kind(node) == "object" {
            for (key, value) in self.entries(node)? {
                if folds_to(&key, "name") {
                    self.text(value, ".metadata.name", &mut head.name)?;
                } else if folds_to(&key, "annotations") {
                    self.annotations(value, &mut head.annotations)?;
                }
            }
        } else {
            self.mismatch(node, "SimpleHead.metadata", METADATA_TYPE);
        }
        Ok(())
    }

    fn annotations(&mut self, node: usize, annotations: &mut BTreeMap<String, String>) -> Fallible<()> {
        if self.scalar(node)? == Some(Scalar::Null) {
            annotations.clear();
        } else if self.kind(node) == "object" {
            for (key, value) in self.entries(node)? {
                let mut text = String::new();
                self.text(value, ".metadata.annotations", &mut text)?;
                annotations.insert(key, text);
            }
        } else {
            self.mismatch(node, ".metadata.annotations", "map[string]string");
        }
        Ok(())
    }

    /// Reads a value where Go has a string; null changes nothing.
    fn text(&mut self, node: usize, field: &str, to: &mut String) -> Fallible<()> {
        let Node::Scalar { value, tag, implicit } = &self.tree.nodes[self.target(node)] else {
            self.mismatch(node, field, "string");
            return Ok(());
        };
        let (scalar, text) = meaning(value, *tag, *implicit)?;
        *to = match scalar {
            Scalar::Null => return Ok(()),
            Scalar::Bool(b) => b.to_string(),
            Scalar::Int(i) => i.to_string(),
            Scalar::Uint(u) => u.to_string(),
            Scalar::Float(f) => float32(f),
            Scalar::Text | Scalar::Timestamp => text.into_owned(),
        };
        Ok(())
    }

    fn mismatch(&mut self, node: usize, field: &str, go_type: &str) {
        let kind = self.kind(node);
        self.problem.get_or_insert_with(|| {
            format!("json: cannot unmarshal {kind} into Go struct field {field} of type {go_type}").into()
        });
    }

    /// The node that is meant.
    fn target(&self, node: usize) -> usize {
        match self.tree.nodes[node] {
            Node::Alias { target, .. } => target,
            _ => node,
        }
    }

    fn scalar(&self, node: usize) -> Fallible<Option<Scalar>> {
        match &self.tree.nodes[self.target(node)] {
            Node::Scalar { value, tag, implicit } => Ok(Some(meaning(value, *tag, *implicit)?.0)),
            _ => Ok(None),
        }
    }

    /// The name of encoding/json for the type of a value.
    fn kind(&self, node: usize) -> &'static str {
        match self.tree.nodes[self.target(node)] {
            Node::Mapping { .. } => "object",
            Node::Sequence { .. } => "array",
            _ => match self.scalar(node) {
                Ok(Some(Scalar::Bool(_))) => "bool",
                Ok(Some(Scalar::Int(_) | Scalar::Uint(_) | Scalar::Float(_))) => "number",
                Ok(Some(Scalar::Null)) => "null",
                _ => "string",
            },
        }
    }

    /// The entries of a mapping, with merged entries, in the order in which Go reads them: sorted by key.
    fn entries(&self, mapping: usize) -> Fallible<BTreeMap<String, usize>> {
        let mut entries = BTreeMap::new();
        // The rest of the mapping, and in front of it the rest of merged mappings.
        let mut left = vec![self.content(mapping)];
        while let Some((at, end)) = left.pop() {
            if at >= end {
                continue;
            }
            let value = self.tree.behind(at);
            left.push((self.tree.behind(value), end));
            if !self.tree.is_merge(at) {
                if let Node::Scalar { value: text, tag, implicit } = &self.tree.nodes[self.target(at)] {
                    let (scalar, text) = meaning(text, *tag, *implicit)?;
                    entries.insert(key_text(scalar, text).into_owned(), value);
                }
            } else if let Node::Sequence { end, .. } = self.tree.nodes[value] {
                let mut item = value + 1;
                while item < end {
                    left.push(self.content(item));
                    item = self.tree.behind(item);
                }
            } else {
                left.push(self.content(value));
            }
        }
        Ok(entries)
    }

    /// The nodes in a mapping.
    fn content(&self, mapping: usize) -> (usize, usize) {
        let mapping = self.target(mapping);
        (mapping + 1, self.tree.behind(mapping))
    }
}
