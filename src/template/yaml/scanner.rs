//! Tokens of a document: go-yaml's scanner (`scannerc.go`), itself libyaml's, with its rules for simple keys and
//! indentation.

use super::reader::{Pieces, Source, characters};
use super::{Fallible, MAX_LEVELS};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;

/// A simple key ends at most so many characters behind its start.
const MAX_KEY: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    StreamStart,
    StreamEnd,
    /// `%YAML` with its version.
    Version(u8, u8),
    /// `%TAG` with its handle and prefix.
    TagDirective(Box<(Vec<u8>, Vec<u8>)>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    /// A handle and a suffix.
    Tag(Box<(Vec<u8>, Vec<u8>)>),
    Scalar {
        value: Cow<'a, str>,
        plain: bool,
    },
}

/// Something that is a key if a `:` follows.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// Whether the scanner reads on for the sake of it. go-yaml forgets that a flow collection may be a key if the
    /// collection is empty.
    awaited: bool,
    /// The number of its token.
    token: usize,
    at: usize,
    line: usize,
    column: isize,
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    ascii: bool,
    pub(super) simple_breaks: bool,
    pieces: Option<Pieces>,
    /// The next character.
    pub(super) at: usize,
    pub(super) line: usize,
    pub(super) line_start: usize,
    started: bool,
    pub(super) flow_level: usize,
    pub(super) indent: isize,
    indents: Vec<isize>,
    pub(super) simple_key_allowed: bool,
    /// One for each flow level, and one for the block context.
    keys: Vec<SimpleKey>,
    /// Tokens that are not taken yet, each with its line.
    tokens: VecDeque<(Token<'a>, usize)>,
    taken: usize,
    ready: bool,
    /// The characters counted last: start of the line, end, and how many.
    counted: Cell<(usize, usize, usize)>,
}

impl<'a> Scanner<'a> {
    pub fn new(source: &'a Source<'_>) -> Self {
        Self {
            text: &source.text,
            bytes: source.text.as_bytes(),
            ascii: source.ascii,
            simple_breaks: source.simple_breaks,
            pieces: source.pieces.clone(),
            at: 0,
            line: 0,
            line_start: 0,
            started: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            keys: vec![SimpleKey::default()],
            tokens: VecDeque::with_capacity(16),
            taken: 0,
            ready: false,
            counted: Cell::new((0, 0, 0)),
        }
    }

    /// The next token, and its line.
    pub fn peek(&mut self) -> Fallible<&(Token<'a>, usize)> {
        if !self.ready {
            self.fetch_more()?;
        }
        // There is a token, or fetching would have failed; the scanner is not asked behind the end of the stream.
        const END: &(Token<'static>, usize) = &(Token::StreamEnd, 0);
        Ok(self.tokens.front().unwrap_or(END))
    }

    /// Takes the token that [`Self::peek`] showed.
    pub fn take(&mut self) -> Token<'a> {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop_front().map_or(Token::StreamEnd, |(token, _)| token)
    }

    /// The byte `ahead` of the current one; 0 behind the end.
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Whether the text must be read character by character, since something is wrong or strange in it.
    pub(super) fn is_careful(&self) -> bool {
        self.pieces.is_some()
    }

    /// What go-yaml does before it looks at the next `count` characters.
    pub(super) fn ensure(&mut self, count: usize) -> Fallible<()> {
        match &mut self.pieces {
            None => Ok(()),
            Some(pieces) => pieces.ensure(self.bytes, self.at, count),
        }
    }

    /// Goes on to a character of the same line, as go-yaml does by single characters, after each of which it makes
    /// sure that `count` more are there.
    pub(super) fn go_to(&mut self, to: usize, count: usize) -> Fallible<()> {
        if self.is_careful() {
            while self.at < to {
                self.skip();
                self.ensure(count)?;
            }
        }
        self.at = to;
        Ok(())
    }

    /// Goes on by one character that is no line break.
    pub(super) fn skip(&mut self) {
        self.at += width(self.byte(0));
    }

    /// Goes behind the line break that stands here.
    pub(super) fn skip_line(&mut self) {
        if let Some((width, _)) = break_at(self.bytes, self.at) {
            self.at += width;
            self.line += 1;
            self.line_start = self.at;
        }
    }

    pub(super) fn column(&self) -> isize {
        if self.ascii {
            return self.at.saturating_sub(self.line_start).cast_signed();
        }
        // Lines may be long: only what is new is counted.
        let (line, at, count) = self.counted.get();
        let (at, count) = if line == self.line_start && at <= self.at { (at, count) } else { (self.line_start, 0) };
        let count = count + characters(self.bytes.get(at..self.at).unwrap_or_default());
        self.counted.set((self.line_start, self.at, count));
        count.cast_signed()
    }

    pub(super) fn is_line_start(&self) -> bool {
        self.at == self.line_start
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    pub(super) fn is_break(&self) -> bool {
        break_at(self.bytes, self.at).is_some()
    }

    /// Whether a blank, a line break or the end of the text is `ahead`.
    pub(super) fn is_blankz(&self, ahead: usize) -> bool {
        is_blankz(self.bytes, self.at + ahead)
    }

    pub(super) fn is_breakz(&self) -> bool {
        self.at >= self.bytes.len() || self.is_break()
    }

    /// Whether `---` or `...` stands here at the start of a line.
    pub(super) fn is_document_indicator(&self) -> bool {
        self.is_line_start()
            && matches!(self.bytes.get(self.at..self.at + 3), Some(b"---" | b"..."))
            && self.is_blankz(3)
    }

    pub(super) fn fail<T>(&self, problem: &str) -> Fallible<T> {
        Err(if self.line == 0 {
            format!("yaml: {problem}")
        } else {
            format!("yaml: line {}: {problem}", self.line + 1)
        }
        .into())
    }

    fn push(&mut self, token: Token<'a>, line: usize) {
        self.tokens.push_back((token, line));
    }

    /// Puts a token in front of the one with the given number; behind all if that is taken already.
    fn insert(&mut self, token: Token<'a>, line: usize, number: usize) {
        match number.checked_sub(self.taken) {
            Some(place) if place < self.tokens.len() => self.tokens.insert(place, (token, line)),
            _ => self.push(token, line),
        }
    }

    fn fetch_more(&mut self) -> Fallible<()> {
        while self.tokens.is_empty() || self.head_may_be_key()? {
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    /// Whether the next token may turn out to be a simple key.
    fn head_may_be_key(&mut self) -> Fallible<bool> {
        // The numbers grow with the level.
        let from = if self.keys.len() == 1 { 0 } else { self.keys.partition_point(|key| key.token < self.taken) };
        for level in from..self.keys.len() {
            let key = self.keys[level];
            if key.token != self.taken {
                break;
            }
            if key.awaited && key.possible {
                return self.is_valid(level);
            }
        }
        Ok(false)
    }

    fn is_valid(&mut self, level: usize) -> Fallible<bool> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        let length = self.at.saturating_sub(key.at);
        let is_long =
            || length > 4 * MAX_KEY || self.bytes.get(key.at..self.at).is_some_and(|k| characters(k) > MAX_KEY);
        if key.line < self.line || length > MAX_KEY && is_long() {
            if key.required {
                return self.fail("could not find expected ':'");
            }
            self.keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Fallible<()> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let in_block = self.flow_level == 0;
        let column = if in_block { self.column() } else { 0 };
        let required = in_block && self.indent == column;
        self.remove_key()?;
        let token = self.taken + self.tokens.len();
        let key = SimpleKey { possible: true, required, awaited: true, token, at: self.at, line: self.line, column };
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Fallible<()> {
        if let Some(key) = self.keys.last_mut().filter(|key| key.possible) {
            if key.required {
                return self.fail("could not find expected ':'");
            }
            key.possible = false;
            key.awaited = false;
        }
        Ok(())
    }

    /// Starts a block collection if the column is right of the current one.
    fn roll_indent(&mut self, column: isize, number: usize, token: Token<'a>, line: usize) -> Fallible<()> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_LEVELS {
            return self.fail(&format!("exceeded max depth of {MAX_LEVELS}"));
        }
        self.insert(token, line, number);
        Ok(())
    }

    /// Ends the block collections right of the column.
    fn unroll_indent(&mut self, column: isize) {
        while self.indent > column {
            self.push(Token::BlockEnd, self.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Fallible<()> {
        self.ensure(1)?;
        if !self.started {
            self.started = true;
            self.push(Token::StreamStart, self.line);
            return Ok(());
        }
        self.to_next_token()?;
        if self.flow_level == 0 {
            self.unroll_indent(self.column());
        }
        self.ensure(4)?;
        if self.at >= self.bytes.len() {
            return self.fetch_stream_end();
        }
        let byte = self.byte(0);
        if self.is_line_start() && (byte == b'%' || self.is_document_indicator()) {
            return self.fetch_outside(byte);
        }
        let in_flow = self.flow_level > 0;
        match byte {
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.simple_key_allowed = true;
                self.indicator(Token::FlowEntry);
                Ok(())
            }
            b'-' if self.is_blankz(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.is_blankz(1) => self.fetch_key(),
            b':' if in_flow || self.is_blankz(1) => self.fetch_value(),
            b'|' | b'>' if !in_flow => {
                self.remove_key()?;
                self.simple_key_allowed = true;
                let line = self.line;
                let value = self.block_scalar(byte == b'|')?;
                self.push(Token::Scalar { value, plain: false }, line);
                Ok(())
            }
            b'#' | b'@' | b'`' | b'%' | b'|' | b'>' | b'\t' => self.fail("found character that cannot start any token"),
            _ => self.fetch_content(byte),
        }
    }

    /// What may be a simple key.
    fn fetch_content(&mut self, first: u8) -> Fallible<()> {
        self.save_key()?;
        self.simple_key_allowed = false;
        let line = self.line;
        let token = match first {
            b'*' => Token::Alias(self.anchor()?),
            b'&' => Token::Anchor(self.anchor()?),
            b'!' => Token::Tag(Box::new(self.tag()?)),
            b'\'' => Token::Scalar { value: self.quoted_scalar(true)?, plain: false },
            b'"' => Token::Scalar { value: self.quoted_scalar(false)?, plain: false },
            _ => Token::Scalar { value: self.plain_scalar()?, plain: true },
        };
        self.push(token, line);
        Ok(())
    }

    fn indicator(&mut self, token: Token<'a>) {
        self.push(token, self.line);
        self.at += 1;
    }

    fn fetch_stream_end(&mut self) -> Fallible<()> {
        if !self.is_line_start() {
            self.line += 1;
            self.line_start = self.at;
        }
        self.end_blocks()?;
        self.push(Token::StreamEnd, self.line);
        Ok(())
    }

    fn end_blocks(&mut self) -> Fallible<()> {
        if self.flow_level == 0 {
            self.unroll_indent(-1);
        }
        self.remove_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    /// A directive, `---` or `...`.
    fn fetch_outside(&mut self, first: u8) -> Fallible<()> {
        self.end_blocks()?;
        let line = self.line;
        let token = match first {
            b'%' => self.directive()?,
            b'-' => Token::DocumentStart,
            _ => Token::DocumentEnd,
        };
        if first != b'%' {
            self.at += 3;
        }
        self.push(token, line);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token<'a>) -> Fallible<()> {
        self.save_key()?;
        let number = self.taken + self.tokens.len();
        self.keys.push(SimpleKey { token: number, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return self.fail(&format!("exceeded max depth of {MAX_LEVELS}"));
        }
        self.simple_key_allowed = true;
        self.indicator(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token<'a>) -> Fallible<()> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let inner = self.keys.pop().unwrap_or_default();
            if let Some(outer) = self.keys.last_mut().filter(|outer| outer.token == inner.token) {
                outer.awaited = false;
            }
        }
        self.simple_key_allowed = false;
        self.indicator(token);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Fallible<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("block sequence entries are not allowed in this context");
            }
            self.roll_indent(self.column(), usize::MAX, Token::BlockSequenceStart, self.line)?;
        }
        self.remove_key()?;
        self.simple_key_allowed = true;
        self.indicator(Token::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Fallible<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("mapping keys are not allowed in this context");
            }
            self.roll_indent(self.column(), usize::MAX, Token::BlockMappingStart, self.line)?;
        }
        self.remove_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.indicator(Token::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Fallible<()> {
        let level = self.keys.len() - 1;
        if self.is_valid(level)? {
            let key = self.keys[level];
            self.insert(Token::Key, key.line, key.token);
            self.roll_indent(key.column, key.token, Token::BlockMappingStart, key.line)?;
            self.keys[level].possible = false;
            self.keys[level].awaited = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return self.fail("mapping values are not allowed in this context");
                }
                self.roll_indent(self.column(), usize::MAX, Token::BlockMappingStart, self.line)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.indicator(Token::Value);
        Ok(())
    }

    /// Goes over blanks, comments and line breaks.
    fn to_next_token(&mut self) -> Fallible<()> {
        loop {
            self.ensure(1)?;
            if self.is_line_start() && self.pieces.as_ref().is_some_and(|pieces| pieces.is_bom(self.bytes)) {
                self.skip();
            }
            self.ensure(1)?;
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            while self.byte(0) == b' ' || tabs && self.byte(0) == b'\t' {
                self.at += 1;
                self.ensure(1)?;
            }
            if self.byte(0) == b'#' {
                self.skip_comment()?;
            }
            if !self.is_break() {
                return Ok(());
            }
            self.ensure(2)?;
            self.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Goes to the end of the line.
    pub(super) fn skip_comment(&mut self) -> Fallible<()> {
        self.go_to(self.line_end(), 1)
    }

    /// Where this line ends.
    pub(super) fn line_end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if self.simple_breaks {
            return self.at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
        (self.at..self.bytes.len()).find(|&at| break_at(self.bytes, at).is_some()).unwrap_or(self.bytes.len())
    }
}

/// The width of the line break that stands here, and what it is in a scalar.
pub(super) fn break_at(bytes: &[u8], at: usize) -> Option<(usize, &'static str)> {
    match *bytes.get(at)? {
        b'\n' => Some((1, "\n")),
        b'\r' => Some((if bytes.get(at + 1) == Some(&b'\n') { 2 } else { 1 }, "\n")),
        0xC2 if bytes.get(at + 1) == Some(&0x85) => Some((2, "\n")),
        0xE2 => match bytes.get(at + 1..at + 3) {
            Some([0x80, 0xA8]) => Some((3, "\u{2028}")),
            Some([0x80, 0xA9]) => Some((3, "\u{2029}")),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn is_blankz(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at) {
        None | Some(b' ' | b'\t' | b'\n' | b'\r') => true,
        Some(0xC2 | 0xE2) => break_at(bytes, at).is_some(),
        Some(_) => false,
    }
}

/// The width of the character that starts with a byte.
fn width(first: u8) -> usize {
    match first {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}
