//! The nodes of a document, made of the parser's events.

use super::parser::{Event, Parser, Tag};
use super::reader::Source;
use super::resolve::{Scalar, resolve};
use super::{Fallible, MAX_LEVELS};
use crate::template::budget;
use std::borrow::Cow;
use std::collections::HashMap;

/// A node. Collections hold the nodes behind them up to `end`; of a mapping, keys and values take turns.
pub(super) enum Node<'a> {
    Scalar { value: Cow<'a, str>, tag: Tag, implicit: bool },
    Sequence { end: usize, length: usize },
    Mapping { end: usize, length: usize },
    Alias { target: usize, name: Box<str> },
}

/// A document.
pub(super) struct Tree<'a> {
    /// The first is the root.
    pub nodes: Vec<Node<'a>>,
    /// Whether it has nothing whose meaning needs more than the node itself: aliases, merges, tags, numbers that JSON
    /// does not have, keys that are not texts, more levels than JSON can have in Go.
    pub is_plain: bool,
}

impl Tree<'_> {
    /// Where the node behind a node and its content is.
    pub fn behind(&self, node: usize) -> usize {
        match self.nodes[node] {
            Node::Sequence { end, .. } | Node::Mapping { end, .. } => end,
            Node::Scalar { .. } | Node::Alias { .. } => node + 1,
        }
    }

    /// Whether the node is the key `<<`.
    pub fn is_merge(&self, node: usize) -> bool {
        matches!(&self.nodes[node], Node::Scalar { value, tag, implicit }
            if value == "<<" && (*implicit || *tag == Tag::Merge))
    }
}

/// Reads the first document; `None` if there is none.
pub(super) fn compose<'a>(source: &'a Source<'a>) -> Fallible<Option<Tree<'a>>> {
    let mut parser = Parser::new(source);
    loop {
        match parser.next()? {
            Event::StreamStart => {}
            Event::DocumentStart => break,
            _ => return Ok(None),
        }
    }
    let mut composer = Composer {
        tree: Tree { nodes: Vec::with_capacity(source.text.len() / 16), is_plain: true },
        open: Vec::new(),
        anchors: HashMap::new(),
    };
    while !composer.add(parser.next()?)? {}
    // The end of the document is read too, since what follows it may be an error.
    parser.next()?;
    Ok(Some(composer.tree))
}

struct Composer<'a> {
    tree: Tree<'a>,
    /// Collections that are not complete, and how many nodes each has.
    open: Vec<(usize, usize)>,
    anchors: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Composer<'a> {
    /// Takes the next event; says whether the root is complete.
    fn add(&mut self, event: Event<'a>) -> Fallible<bool> {
        let node = self.tree.nodes.len();
        if !matches!(event, Event::SequenceEnd | Event::MappingEnd) {
            // A short text can have many nodes: two bytes make one.
            budget::node().map_err(|spent| String::from(spent).into_boxed_str())?;
        }
        match event {
            Event::Scalar { anchor, value, tag, implicit } => {
                self.anchor(anchor, node);
                if implicit || tag != Tag::None {
                    self.tree.is_plain &= tag == Tag::None && !is_special(&value, self.is_key());
                }
                self.tree.nodes.push(Node::Scalar { value, tag, implicit });
            }
            Event::Alias(name) => {
                let Some(&target) = self.anchors.get(&name) else {
                    return Err(format!("yaml: unknown anchor '{name}' referenced").into());
                };
                self.tree.is_plain = false;
                self.tree.nodes.push(Node::Alias { target, name: name.into() });
            }
            Event::SequenceStart(anchor) => {
                self.start(anchor, Node::Sequence { end: 0, length: 0 });
                return Ok(false);
            }
            Event::MappingStart(anchor) => {
                self.start(anchor, Node::Mapping { end: 0, length: 0 });
                return Ok(false);
            }
            _ => {
                let Some((start, count)) = self.open.pop() else { return Ok(true) };
                match &mut self.tree.nodes[start] {
                    Node::Mapping { end, length } => (*end, *length) = (node, count / 2),
                    Node::Sequence { end, length } => (*end, *length) = (node, count),
                    _ => {}
                }
            }
        }
        if let Some((_, count)) = self.open.last_mut() {
            *count += 1;
        }
        Ok(self.open.is_empty())
    }

    fn is_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|&(node, count)| count % 2 == 0 && matches!(self.tree.nodes[node], Node::Mapping { .. }))
    }

    /// Registers the anchor before the content is read, since an alias inside may name it.
    fn anchor(&mut self, anchor: Option<Cow<'a, str>>, node: usize) {
        if let Some(name) = anchor {
            self.anchors.insert(name, node);
        }
    }

    fn start(&mut self, anchor: Option<Cow<'a, str>>, collection: Node<'a>) {
        let node = self.tree.nodes.len();
        self.anchor(anchor, node);
        self.tree.is_plain &= !self.is_key() && self.open.len() < MAX_LEVELS;
        self.tree.nodes.push(collection);
        self.open.push((node, 0));
    }
}

/// Whether a plain scalar may be a merge, or something that JSON has not.
fn is_special(text: &str, is_key: bool) -> bool {
    match text.as_bytes() {
        [b'.' | b'+' | b'-', .., b'f' | b'F' | b'n' | b'N'] => true,
        _ if !is_key => false,
        b"<<" => true,
        [b'a'..=b'm' | b'o'..=b'z', ..] => false,
        _ => matches!(resolve(text, true), Scalar::Null | Scalar::Uint(_)),
    }
}
