//! The node tree of a document, made of libyaml's events.

use super::YamlError;
use libyaml_safer::{ErrorKind, Event, EventData, Parser, ScalarStyle};
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
    // libyaml-safer panics where a block scalar ends at the end of the text without a line break.
    let unfinished = !text.ends_with(b"\n") && text.iter().any(|b| matches!(b, b'|' | b'>'));
    let finished = if unfinished { [text, b"\n"].concat() } else { Vec::new() };
    let mut input = if unfinished { finished.as_slice() } else { text };
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let unfinished = unfinished.then_some(text);
    let mut composer = Composer { parser, unfinished, anchors: Vec::new(), names: HashMap::new() };
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
    /// The text, if a line break was put behind it.
    unfinished: Option<&'a [u8]>,
    anchors: Vec<Option<Rc<Node>>>,
    names: HashMap<String, usize>,
}

impl Composer<'_> {
    fn next(&mut self) -> Result<Event, YamlError> {
        // libyaml-safer panics where some tokens are cut off by the end of the text.
        let parser = std::panic::AssertUnwindSafe(&mut self.parser);
        match std::panic::catch_unwind(|| { parser }.0.parse()) {
            Ok(result) => result.map_err(|e| syntax(&e)),
            Err(_) => Err(YamlError("yaml: found unexpected end of stream".into())),
        }
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
            EventData::Scalar { anchor, tag, mut value, plain_implicit, style, .. } => {
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
                    && let Some(text) = self.unfinished
                    && event.end_mark.index > text.len() as u64
                    && has_our_break(text, event.start_mark.index, &value)
                {
                    value.pop();
                }
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

/// Whether the last line break of a block scalar is the one we put behind the text. If the last line is blank, it
/// counts only where all line breaks are kept, or where the blanks are part of the scalar.
fn has_our_break(text: &[u8], start: u64, value: &str) -> bool {
    let last_line = text.rsplit(|&b| b == b'\n').next().unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(0);
    let header = text.get(start..).unwrap_or_default().split(|&b| b == b'\n').next().unwrap_or_default();
    let content = !last_line.iter().all(|&b| b == b' ') || value.ends_with(" \n");
    value.ends_with('\n') && (content || header.iter().take(3).any(|&b| b == b'+'))
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
