//! Events of a document: go-yaml's parser (`parserc.go`), a state machine over tokens.

use super::Fallible;
use super::reader::Source;
use super::scanner::{Scanner, Token};
use std::borrow::Cow;

/// The tags that mean something to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// None was written.
    None,
    Null,
    Bool,
    Str,
    Int,
    Float,
    Timestamp,
    Binary,
    Merge,
    Other,
}

impl Tag {
    fn of(long: &[u8]) -> Self {
        if long.is_empty() {
            return Self::None;
        }
        match long.strip_prefix(b"tag:yaml.org,2002:") {
            Some(b"null") => Self::Null,
            Some(b"bool") => Self::Bool,
            Some(b"str") => Self::Str,
            Some(b"int") => Self::Int,
            Some(b"float") => Self::Float,
            Some(b"timestamp") => Self::Timestamp,
            Some(b"binary") => Self::Binary,
            Some(b"merge") => Self::Merge,
            _ => Self::Other,
        }
    }
}

pub(super) enum Event<'a> {
    StreamStart,
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a str),
    Scalar {
        anchor: Option<&'a str>,
        value: Cow<'a, str>,
        tag: Tag,
        /// Whether the text may mean something else than a text.
        implicit: bool,
    },
    SequenceStart(Option<&'a str>),
    SequenceEnd,
    MappingStart(Option<&'a str>),
    MappingEnd,
}

#[derive(Clone, Copy)]
enum State {
    StreamStart,
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirst,
    BlockSequence,
    IndentlessSequence,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequence,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// Handles and prefixes.
    tags: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Handle, suffix and line of a tag.
type WrittenTag = (Box<(Vec<u8>, Vec<u8>)>, usize);

fn empty<'a>() -> Event<'a> {
    Event::Scalar { anchor: None, value: Cow::Borrowed(""), tag: Tag::None, implicit: true }
}

/// An error of the parser: lines count from 0 here, but not in what the scanner tells.
fn error<T>(problem: &str, line: usize) -> Fallible<T> {
    Err(if line == 0 { format!("yaml: {problem}") } else { format!("yaml: line {line}: {problem}") }.into())
}

impl<'a> Parser<'a> {
    pub fn new(source: &'a Source<'_>) -> Self {
        Self { scanner: Scanner::new(source), state: State::StreamStart, states: Vec::new(), tags: Vec::new() }
    }

    pub fn next(&mut self) -> Fallible<Event<'a>> {
        match self.state {
            State::StreamStart => {
                self.peek()?;
                self.scanner.take();
                self.state = State::ImplicitDocumentStart;
                Ok(Event::StreamStart)
            }
            State::ImplicitDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => match self.peek()? {
                Token::Version(..)
                | Token::TagDirective(_)
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd => {
                    self.pop();
                    Ok(empty())
                }
                _ => self.node(true, false),
            },
            State::DocumentEnd => {
                if *self.peek()? == Token::DocumentEnd {
                    self.scanner.take();
                }
                self.tags.clear();
                self.state = State::DocumentStart;
                Ok(Event::DocumentEnd)
            }
            State::BlockNode => self.node(true, false),
            State::BlockSequenceFirst => {
                self.scanner.take();
                self.block_sequence()
            }
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockMappingFirst => {
                self.scanner.take();
                self.block_mapping_key()
            }
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => {
                self.scanner.take();
                self.flow_sequence(true)
            }
            State::FlowSequence => self.flow_sequence(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.peek()?;
                self.state = State::FlowSequence;
                Ok(Event::MappingEnd)
            }
            State::FlowMappingFirst => {
                self.scanner.take();
                self.flow_mapping_key(true)
            }
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                self.peek()?;
                self.state = State::FlowMappingKey;
                Ok(empty())
            }
            State::End => Ok(Event::StreamEnd),
        }
    }

    fn peek(&mut self) -> Fallible<&Token<'a>> {
        self.scanner.peek().map(|(token, _)| token)
    }

    /// The line of the next token.
    fn line(&mut self) -> Fallible<usize> {
        self.scanner.peek().map(|(_, line)| *line)
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn document_start(&mut self, implicit: bool) -> Fallible<Event<'a>> {
        if !implicit {
            while *self.peek()? == Token::DocumentEnd {
                self.scanner.take();
            }
        }
        match self.peek()? {
            Token::StreamEnd => {
                self.scanner.take();
                self.state = State::End;
                Ok(Event::StreamEnd)
            }
            token => {
                let explicit =
                    !implicit || matches!(token, Token::Version(..) | Token::TagDirective(_) | Token::DocumentStart);
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                if explicit {
                    if *self.peek()? != Token::DocumentStart {
                        return error("did not find expected <document start>", self.line()?);
                    }
                    self.state = State::DocumentContent;
                    self.scanner.take();
                }
                Ok(Event::DocumentStart)
            }
        }
    }

    fn directives(&mut self) -> Fallible<()> {
        let mut versioned = false;
        loop {
            let line = self.line()?;
            match self.peek()? {
                Token::Version(..) if versioned => return error("found duplicate %YAML directive", line),
                Token::Version(1, 1) => versioned = true,
                Token::Version(..) => return error("found incompatible YAML document", line),
                Token::TagDirective(_) => {}
                _ => break,
            }
            if let Token::TagDirective(tag) = self.scanner.take() {
                if self.tags.iter().any(|(handle, _)| *handle == tag.0) {
                    return error("found duplicate %TAG directive", line);
                }
                self.tags.push(*tag);
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle.as_bytes()) {
                self.tags.push((handle.into(), prefix.into()));
            }
        }
        Ok(())
    }

    /// The handle, suffix and line of the tag that is next.
    fn tag(&mut self) -> Fallible<Option<WrittenTag>> {
        let line = self.line()?;
        if !matches!(self.peek()?, Token::Tag(_)) {
            return Ok(None);
        }
        let Token::Tag(parts) = self.scanner.take() else { return Ok(None) };
        Ok(Some((parts, line)))
    }

    /// The whole tag.
    fn resolve_tag(&self, tag: Option<WrittenTag>) -> Fallible<Vec<u8>> {
        let Some((parts, line)) = tag else { return Ok(Vec::new()) };
        let (handle, suffix) = *parts;
        if handle.is_empty() {
            return Ok(suffix);
        }
        match self.tags.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => Ok([prefix.as_slice(), &suffix].concat()),
            None => error("found undefined tag handle", line),
        }
    }

    fn anchor(&mut self) -> Fallible<Option<&'a str>> {
        let Token::Anchor(name) = *self.peek()? else { return Ok(None) };
        self.scanner.take();
        Ok(Some(name))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Fallible<Event<'a>> {
        if let Token::Alias(name) = *self.peek()? {
            self.pop();
            self.scanner.take();
            return Ok(Event::Alias(name));
        }
        let (mut anchor, mut tag) = (None, None);
        match self.peek()? {
            Token::Anchor(_) => {
                anchor = self.anchor()?;
                tag = self.tag()?;
            }
            Token::Tag(_) => {
                tag = self.tag()?;
                anchor = self.anchor()?;
            }
            _ => {}
        }
        // What follows is read before the handle is looked up.
        self.peek()?;
        let tag = self.resolve_tag(tag)?;
        let is_bang = tag == b"!";
        let tag = Tag::of(&tag);
        let (state, event) = match self.peek()? {
            Token::BlockEntry if indentless => (State::IndentlessSequence, Event::SequenceStart(anchor)),
            Token::Scalar { plain, .. } => {
                let implicit = is_bang || *plain && tag == Tag::None;
                self.pop();
                let Token::Scalar { value, .. } = self.scanner.take() else { return Ok(empty()) };
                return Ok(Event::Scalar { anchor, value, tag, implicit });
            }
            Token::FlowSequenceStart => (State::FlowSequenceFirst, Event::SequenceStart(anchor)),
            Token::FlowMappingStart => (State::FlowMappingFirst, Event::MappingStart(anchor)),
            Token::BlockSequenceStart if block => (State::BlockSequenceFirst, Event::SequenceStart(anchor)),
            Token::BlockMappingStart if block => (State::BlockMappingFirst, Event::MappingStart(anchor)),
            _ if anchor.is_some() || tag != Tag::None => {
                self.pop();
                let implicit = tag == Tag::None;
                return Ok(Event::Scalar { anchor, value: Cow::Borrowed(""), tag, implicit });
            }
            _ => return error("did not find expected node content", self.line()?),
        };
        self.state = state;
        Ok(event)
    }

    /// Parses a node, behind which `state` follows.
    fn node_then(&mut self, state: State, block: bool, indentless: bool) -> Fallible<Event<'a>> {
        self.states.push(state);
        self.node(block, indentless)
    }

    /// A node that was left out, behind which `state` follows.
    fn empty_then(&mut self, state: State) -> Event<'a> {
        self.state = state;
        empty()
    }

    /// Takes the token that ends a collection.
    fn end(&mut self, event: Event<'a>) -> Event<'a> {
        self.pop();
        self.scanner.take();
        event
    }

    fn block_sequence(&mut self) -> Fallible<Event<'a>> {
        match self.peek()? {
            Token::BlockEntry => {
                self.scanner.take();
                match self.peek()? {
                    Token::BlockEntry | Token::BlockEnd => Ok(self.empty_then(State::BlockSequence)),
                    _ => self.node_then(State::BlockSequence, true, false),
                }
            }
            Token::BlockEnd => Ok(self.end(Event::SequenceEnd)),
            _ => error("did not find expected '-' indicator", self.line()?),
        }
    }

    fn indentless_sequence(&mut self) -> Fallible<Event<'a>> {
        if *self.peek()? != Token::BlockEntry {
            self.pop();
            return Ok(Event::SequenceEnd);
        }
        self.scanner.take();
        match self.peek()? {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                Ok(self.empty_then(State::IndentlessSequence))
            }
            _ => self.node_then(State::IndentlessSequence, true, false),
        }
    }

    fn block_mapping_key(&mut self) -> Fallible<Event<'a>> {
        match self.peek()? {
            Token::Key => {
                self.scanner.take();
                match self.peek()? {
                    Token::Key | Token::Value | Token::BlockEnd => Ok(self.empty_then(State::BlockMappingValue)),
                    _ => self.node_then(State::BlockMappingValue, true, true),
                }
            }
            Token::BlockEnd => Ok(self.end(Event::MappingEnd)),
            _ => error("did not find expected key", self.line()?),
        }
    }

    fn block_mapping_value(&mut self) -> Fallible<Event<'a>> {
        if *self.peek()? != Token::Value {
            return Ok(self.empty_then(State::BlockMappingKey));
        }
        self.scanner.take();
        match self.peek()? {
            Token::Key | Token::Value | Token::BlockEnd => Ok(self.empty_then(State::BlockMappingKey)),
            _ => self.node_then(State::BlockMappingKey, true, true),
        }
    }

    fn flow_sequence(&mut self, first: bool) -> Fallible<Event<'a>> {
        if !first && *self.peek()? != Token::FlowSequenceEnd {
            if *self.peek()? != Token::FlowEntry {
                return error("did not find expected ',' or ']'", self.line()?);
            }
            self.scanner.take();
        }
        match self.peek()? {
            Token::FlowSequenceEnd => Ok(self.end(Event::SequenceEnd)),
            Token::Key => {
                self.scanner.take();
                self.state = State::FlowPairKey;
                Ok(Event::MappingStart(None))
            }
            _ => self.node_then(State::FlowSequence, false, false),
        }
    }

    fn flow_pair_key(&mut self) -> Fallible<Event<'a>> {
        match self.peek()? {
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => {
                // As in libyaml, the token is lost.
                self.scanner.take();
                Ok(self.empty_then(State::FlowPairValue))
            }
            _ => self.node_then(State::FlowPairValue, false, false),
        }
    }

    fn flow_pair_value(&mut self) -> Fallible<Event<'a>> {
        if *self.peek()? == Token::Value {
            self.scanner.take();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowSequenceEnd) {
                return self.node_then(State::FlowPairEnd, false, false);
            }
        }
        Ok(self.empty_then(State::FlowPairEnd))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Fallible<Event<'a>> {
        if !first && *self.peek()? != Token::FlowMappingEnd {
            if *self.peek()? != Token::FlowEntry {
                return error("did not find expected ',' or '}'", self.line()?);
            }
            self.scanner.take();
        }
        match self.peek()? {
            Token::FlowMappingEnd => Ok(self.end(Event::MappingEnd)),
            Token::Key => {
                self.scanner.take();
                match self.peek()? {
                    Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                        Ok(self.empty_then(State::FlowMappingValue))
                    }
                    _ => self.node_then(State::FlowMappingValue, false, false),
                }
            }
            _ => self.node_then(State::FlowMappingEmptyValue, false, false),
        }
    }

    fn flow_mapping_value(&mut self) -> Fallible<Event<'a>> {
        if *self.peek()? == Token::Value {
            self.scanner.take();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowMappingEnd) {
                return self.node_then(State::FlowMappingKey, false, false);
            }
        }
        Ok(self.empty_then(State::FlowMappingKey))
    }
}
