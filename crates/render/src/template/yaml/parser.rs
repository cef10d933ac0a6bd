//! Events of a document: go-yaml's parser (`parserc.go`), a state machine over tokens.

use super::Fallible;
use super::reader::Source;
use super::scanner::{Scanner, TagParts, Token};
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
    Alias(Cow<'a, str>),
    Scalar {
        anchor: Option<Cow<'a, str>>,
        value: Cow<'a, str>,
        tag: Tag,
        /// Whether the text may mean something else than a text.
        implicit: bool,
    },
    SequenceStart(Option<Cow<'a, str>>),
    SequenceEnd,
    MappingStart(Option<Cow<'a, str>>),
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
    tags: Vec<TagParts>,
}

fn empty<'a>() -> Event<'a> {
    Event::Scalar { anchor: None, value: Cow::Borrowed(""), tag: Tag::None, implicit: true }
}

/// An error of the parser: lines count from 0 here, but not in errors of the scanner.
fn error<T>(problem: &str, line: usize) -> Fallible<T> {
    Err(if line == 0 { format!("yaml: {problem}") } else { format!("yaml: line {line}: {problem}") }.into())
}

impl<'a> Parser<'a> {
    pub fn new(source: &'a Source<'a>) -> Self {
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
                | Token::TagDirective
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd => {
                    self.pop();
                    Ok(empty())
                }
                _ => self.node(true, false),
            },
            State::DocumentEnd => {
                if self.peek()? == Token::DocumentEnd {
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

    fn peek(&mut self) -> Fallible<Token> {
        self.scanner.peek()
    }

    /// The error that the current token is not allowed here.
    fn unexpected<T>(&self, problem: &str) -> Fallible<T> {
        error(problem, self.scanner.peeked_line())
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn document_start(&mut self, implicit: bool) -> Fallible<Event<'a>> {
        if !implicit {
            while self.peek()? == Token::DocumentEnd {
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
                    !implicit || matches!(token, Token::Version(..) | Token::TagDirective | Token::DocumentStart);
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                if explicit {
                    if self.peek()? != Token::DocumentStart {
                        return self.unexpected("did not find expected <document start>");
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
            match self.peek()? {
                Token::Version(..) if versioned => return self.unexpected("found duplicate %YAML directive"),
                Token::Version(1, 1) => {
                    versioned = true;
                    self.scanner.take();
                }
                Token::Version(..) => return self.unexpected("found incompatible YAML document"),
                Token::TagDirective => {
                    let line = self.scanner.peeked_line();
                    let tag = self.scanner.take_tag();
                    if self.tags.iter().any(|(handle, _)| *handle == tag.0) {
                        return error("found duplicate %TAG directive", line);
                    }
                    self.tags.push(tag);
                }
                _ => break,
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle.as_bytes()) {
                self.tags.push((handle.into(), prefix.into()));
            }
        }
        Ok(())
    }

    /// The whole tag that was on a line.
    fn resolve_tag(&self, (handle, suffix): TagParts, line: usize) -> Fallible<Vec<u8>> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        match self.tags.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => Ok([prefix.as_slice(), &suffix].concat()),
            None => error("found undefined tag handle", line),
        }
    }

    fn node(&mut self, block: bool, indentless: bool) -> Fallible<Event<'a>> {
        match self.peek()? {
            Token::PlainScalar => Ok(self.scalar(None, Tag::None, true)),
            Token::OtherScalar => Ok(self.scalar(None, Tag::None, false)),
            Token::Alias => {
                self.pop();
                Ok(Event::Alias(self.scanner.take_text()))
            }
            Token::Anchor | Token::Tag => {
                let (anchor, tag, is_bang) = self.properties()?;
                self.content(block, indentless, anchor, tag, is_bang)
            }
            _ => self.content(block, indentless, None, Tag::None, false),
        }
    }

    /// An anchor, a tag, or both in any order, and whether the tag is `!`.
    fn properties(&mut self) -> Fallible<(Option<Cow<'a, str>>, Tag, bool)> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.peek()? {
                Token::Anchor if anchor.is_none() => anchor = Some(self.scanner.take_text()),
                Token::Tag if tag.is_none() => {
                    let line = self.scanner.peeked_line();
                    tag = Some((self.scanner.take_tag(), line));
                }
                _ => break,
            }
        }
        let tag = match tag {
            Some((parts, line)) => self.resolve_tag(parts, line)?,
            None => Vec::new(),
        };
        Ok((anchor, Tag::of(&tag), tag == b"!"))
    }

    fn scalar(&mut self, anchor: Option<Cow<'a, str>>, tag: Tag, implicit: bool) -> Event<'a> {
        self.pop();
        Event::Scalar { anchor, value: self.scanner.take_text(), tag, implicit }
    }

    /// The content after the properties of a node.
    fn content(
        &mut self,
        block: bool,
        indentless: bool,
        anchor: Option<Cow<'a, str>>,
        tag: Tag,
        is_bang: bool,
    ) -> Fallible<Event<'a>> {
        let (state, event) = match self.peek()? {
            Token::BlockEntry if indentless => (State::IndentlessSequence, Event::SequenceStart(anchor)),
            token @ (Token::PlainScalar | Token::OtherScalar) => {
                let implicit = is_bang || token == Token::PlainScalar && tag == Tag::None;
                return Ok(self.scalar(anchor, tag, implicit));
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
            _ => return self.unexpected("did not find expected node content"),
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
            _ => self.unexpected("did not find expected '-' indicator"),
        }
    }

    fn indentless_sequence(&mut self) -> Fallible<Event<'a>> {
        if self.peek()? != Token::BlockEntry {
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
            _ => self.unexpected("did not find expected key"),
        }
    }

    fn block_mapping_value(&mut self) -> Fallible<Event<'a>> {
        if self.peek()? != Token::Value {
            return Ok(self.empty_then(State::BlockMappingKey));
        }
        self.scanner.take();
        match self.peek()? {
            Token::Key | Token::Value | Token::BlockEnd => Ok(self.empty_then(State::BlockMappingKey)),
            _ => self.node_then(State::BlockMappingKey, true, true),
        }
    }

    fn flow_sequence(&mut self, first: bool) -> Fallible<Event<'a>> {
        if !first && self.peek()? != Token::FlowSequenceEnd {
            if self.peek()? != Token::FlowEntry {
                return self.unexpected("did not find expected ',' or ']'");
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
        if self.peek()? == Token::Value {
            self.scanner.take();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowSequenceEnd) {
                return self.node_then(State::FlowPairEnd, false, false);
            }
        }
        Ok(self.empty_then(State::FlowPairEnd))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Fallible<Event<'a>> {
        if !first && self.peek()? != Token::FlowMappingEnd {
            if self.peek()? != Token::FlowEntry {
                return self.unexpected("did not find expected ',' or '}'");
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
        if self.peek()? == Token::Value {
            self.scanner.take();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowMappingEnd) {
                return self.node_then(State::FlowMappingKey, false, false);
            }
        }
        Ok(self.empty_then(State::FlowMappingKey))
    }
}
