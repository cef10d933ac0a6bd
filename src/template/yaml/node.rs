//! The node tree of a document, made of libyaml's events.

use super::YamlError;
use libyaml_safer::{ErrorKind, Event, EventData, Parser};
use std::collections::HashMap;
use std::rc::Rc;

/// Go allows 10,000 levels; deeper than this would need more stack than a thread is given.
const MAX_DEPTH: usize = 1000;

/// A node of a document.
pub(super) enum Node {
    Scalar {
        value: String,
        /// The long tag, if one was written.
        tag: Option<String>,
        /// Whether the meaning of the text decides about its type.
        implicit: bool,
    },
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
    /// A node with an anchor.
    Anchored(Rc<Node>),
    /// The number of an anchored node, and its name.
    Alias(usize, String),
}

/// A document, and what its aliases point to.
pub(super) struct Document {
    pub root: Node,
    /// Nodes by number; `None` only while a node is being read.
    pub anchors: Vec<Option<Rc<Node>>>,
}

/// Reads the first document; `None` if there is none.
pub(super) fn compose(text: &[u8]) -> Result<Option<Document>, YamlError> {
    let mut input = text;
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut composer = Composer { parser, anchors: Vec::new(), names: HashMap::new() };
    loop {
        match composer.next()?.data {
            EventData::StreamStart { .. } => {}
            EventData::DocumentStart { .. } => break,
            _ => return Ok(None),
        }
    }
    let first = composer.next()?;
    let root = composer.node(first, 0)?;
    // The end of the document is read too, since what follows it may be an error.
    composer.next()?;
    Ok(Some(Document { root, anchors: composer.anchors }))
}

struct Composer<'a> {
    parser: Parser<&'a mut &'a [u8]>,
    anchors: Vec<Option<Rc<Node>>>,
    names: HashMap<String, usize>,
}

impl Composer<'_> {
    fn next(&mut self) -> Result<Event, YamlError> {
        self.parser.parse().map_err(|e| syntax(&e))
    }

    fn node(&mut self, event: Event, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(YamlError("yaml: exceeded max depth of 10000".into()));
        }
        let (anchor, node) = match event.data {
            EventData::Alias { anchor } => {
                return match self.names.get(&anchor) {
                    Some(&id) => Ok(Node::Alias(id, anchor)),
                    None => Err(YamlError(format!("yaml: unknown anchor '{anchor}' referenced"))),
                };
            }
            EventData::Scalar { anchor, tag, value, plain_implicit, .. } => {
                (self.reserve(anchor), Node::Scalar { value, tag, implicit: plain_implicit })
            }
            EventData::SequenceStart { anchor, .. } => {
                let id = self.reserve(anchor);
                let mut items = Vec::new();
                loop {
                    let event = self.next()?;
                    if event.data == EventData::SequenceEnd {
                        break (id, Node::Sequence(items));
                    }
                    items.push(self.node(event, depth + 1)?);
                }
            }
            EventData::MappingStart { anchor, .. } => {
                let id = self.reserve(anchor);
                let mut entries = Vec::new();
                loop {
                    let event = self.next()?;
                    if event.data == EventData::MappingEnd {
                        break (id, Node::Mapping(entries));
                    }
                    let key = self.node(event, depth + 1)?;
                    let event = self.next()?;
                    entries.push((key, self.node(event, depth + 1)?));
                }
            }
            _ => return Err(YamlError("yaml: attempted to parse unknown event".into())),
        };
        let Some(id) = anchor else { return Ok(node) };
        let node = Rc::new(node);
        self.anchors[id] = Some(Rc::clone(&node));
        Ok(Node::Anchored(node))
    }

    /// Gives a number to an anchored node before its content is read, since an alias inside may name it.
    fn reserve(&mut self, anchor: Option<String>) -> Option<usize> {
        let id = self.anchors.len();
        self.names.insert(anchor?, id);
        self.anchors.push(None);
        Some(id)
    }
}

/// Go's text of a syntax error. The line is that of the problem; libyaml counts from 0, and go-yaml adds one
/// only for what the scanner found.
fn syntax(error: &libyaml_safer::Error) -> YamlError {
    let scanner = u64::from(error.kind() == ErrorKind::Scanner);
    let line = match (error.problem_mark(), error.context_mark()) {
        (Some(mark), _) if mark.line != 0 => mark.line + scanner,
        (_, Some(mark)) => mark.line,
        _ => 0,
    };
    let place = if line == 0 { String::new() } else { format!("line {line}: ") };
    YamlError(format!("yaml: {place}{}", error.problem()))
}
