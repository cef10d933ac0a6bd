//! Tokens of a document: go-yaml's scanner (`scannerc.go`), itself libyaml's, with its rules for simple keys and
//! indentation.

use super::Fallible;
use super::queue::Queue;
use super::reader::{Pieces, Source, characters};
use super::scalars::spaces;
use std::borrow::Cow;
use std::cell::Cell;

/// A simple key ends at most this many characters after its start.
pub(super) const MAX_KEY: usize = 1024;

/// The texts of scalars, aliases and anchors, and the parts of tags, are in separate queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Token {
    StreamStart,
    #[default]
    StreamEnd,
    /// `%YAML` with its version.
    Version(u8, u8),
    /// `%TAG`; a handle and a prefix belong to it.
    TagDirective,
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
    Alias,
    Anchor,
    /// A handle and a suffix belong to it.
    Tag,
    PlainScalar,
    /// A quoted or a block scalar.
    OtherScalar,
}

/// The handle and the prefix of a directive, or the handle and the suffix of a tag.
pub(super) type TagParts = (Vec<u8>, Vec<u8>);

/// Something that is a key if a `:` follows.
#[derive(Clone, Copy, Default)]
pub(super) struct SimpleKey {
    pub possible: bool,
    pub required: bool,
    /// Whether the scanner reads on for the sake of it. go-yaml forgets that a flow collection may be a key if the
    /// collection is empty.
    pub awaited: bool,
    /// The number of its token.
    pub token: usize,
    pub at: usize,
    pub line: usize,
    pub column: isize,
}

pub(super) struct Scanner<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) bytes: &'a [u8],
    pieces: Option<Pieces>,
    /// The next character.
    pub(super) at: usize,
    pub(super) line: usize,
    pub(super) line_start: usize,
    pub(super) started: bool,
    pub(super) flow_level: usize,
    pub(super) indent: isize,
    pub(super) indents: Vec<isize>,
    pub(super) simple_key_allowed: bool,
    /// One for each flow level, and one for the block context.
    pub(super) keys: Vec<SimpleKey>,
    /// Tokens that are not taken yet, each with its line.
    pub(super) tokens: Queue<(Token, usize)>,
    pub(super) texts: Queue<Cow<'a, str>>,
    tags: Queue<TagParts>,
    pub(super) taken: usize,
    pub(super) ready: bool,
    /// The characters counted last: start of the line, end, and how many.
    counted: Cell<(usize, usize, usize)>,
}

impl<'a> Scanner<'a> {
    pub fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            bytes: source.text.as_bytes(),
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
            tokens: Queue::with_capacity(16),
            texts: Queue::with_capacity(4),
            tags: Queue::with_capacity(0),
            taken: 0,
            ready: false,
            counted: Cell::new((0, 0, 0)),
        }
    }

    /// The next token.
    #[inline]
    pub fn peek(&mut self) -> Fallible<Token> {
        if !self.ready {
            self.fetch_more()?;
        }
        // There is a token, or fetching would have failed; the scanner is not asked after the end of the stream.
        Ok(self.tokens.front().map_or(Token::StreamEnd, |(token, _)| *token))
    }

    /// The line of the token that [`Self::peek`] showed.
    #[inline]
    pub fn peeked_line(&self) -> usize {
        self.tokens.front().map_or(self.line, |(_, line)| *line)
    }

    /// Takes the token that [`Self::peek`] showed.
    #[inline]
    pub fn take(&mut self) {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop();
    }

    /// As [`Self::take`], with the text of a scalar, an alias or an anchor.
    #[inline]
    pub fn take_text(&mut self) -> Cow<'a, str> {
        self.take();
        self.texts.pop()
    }

    /// As [`Self::take`], with the parts of a tag or of its directive.
    pub fn take_tag(&mut self) -> TagParts {
        self.take();
        self.tags.pop()
    }

    /// The byte `ahead` of the current one; 0 after the end.
    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Whether the text must be read character by character, since something is wrong or strange in it.
    #[inline]
    pub(super) fn is_careful(&self) -> bool {
        self.pieces.is_some()
    }

    /// The steps of go-yaml before it looks at the next `count` characters.
    #[inline]
    pub(super) fn ensure(&mut self, count: usize) -> Fallible<()> {
        match &mut self.pieces {
            None => Ok(()),
            Some(pieces) => pieces.ensure(self.bytes, self.at, count),
        }
    }

    /// Continues to a character of the same line, as go-yaml does by single characters, after each of which it makes
    /// sure that `count` more are there.
    #[inline]
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

    /// Continues by one character that is not a line break.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.at += width(self.byte(0));
    }

    /// Moves past the line break that is here.
    pub(super) fn skip_line(&mut self) {
        if let Some((width, _)) = break_at(self.bytes, self.at) {
            self.at += width;
            self.line += 1;
            self.line_start = self.at;
        }
    }

    pub(super) fn column(&self) -> isize {
        if self.source.ascii {
            return self.at.saturating_sub(self.line_start).cast_signed();
        }
        // Lines may be long: only new characters are counted.
        let (line, at, count) = self.counted.get();
        let (at, count) = if line == self.line_start && at <= self.at { (at, count) } else { (self.line_start, 0) };
        let count = count + characters(self.bytes.get(at..self.at).unwrap_or_default());
        self.counted.set((self.line_start, self.at, count));
        count.cast_signed()
    }

    #[inline]
    pub(super) fn is_line_start(&self) -> bool {
        self.at == self.line_start
    }

    #[inline]
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    #[inline]
    pub(super) fn is_break(&self) -> bool {
        break_at(self.bytes, self.at).is_some()
    }

    /// Whether a blank, a line break or the end of the text is `ahead`.
    #[inline]
    pub(super) fn is_blankz(&self, ahead: usize) -> bool {
        is_blankz(self.bytes, self.at + ahead)
    }

    #[inline]
    pub(super) fn is_breakz(&self) -> bool {
        self.at >= self.bytes.len() || self.is_break()
    }

    /// Whether `---` or `...` is here at the start of a line.
    #[inline]
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

    /// Keeps the parts of a tag for when its token is taken.
    pub(super) fn push_tag(&mut self, parts: TagParts) {
        self.tags.push(parts);
    }

    #[inline]
    pub(super) fn push(&mut self, token: Token, line: usize) {
        self.tokens.push((token, line));
    }

    /// Puts a token in front of the one with the given number; after all tokens if that is taken already.
    pub(super) fn insert(&mut self, token: Token, line: usize, number: usize) {
        match number.checked_sub(self.taken) {
            Some(place) if place < self.tokens.len() => self.tokens.insert(place, (token, line)),
            _ => self.push(token, line),
        }
    }

    /// Goes over blanks, comments and line breaks.
    pub(super) fn skip_to_token(&mut self) -> Fallible<()> {
        loop {
            self.ensure(1)?;
            if self.is_line_start() && self.pieces.as_ref().is_some_and(|pieces| pieces.is_bom(self.bytes)) {
                self.skip();
            }
            self.ensure(1)?;
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            if !self.is_careful() {
                self.at += spaces(self.bytes, self.at);
            }
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
        if self.source.simple_breaks {
            return self.at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
        (self.at..self.bytes.len()).find(|&at| break_at(self.bytes, at).is_some()).unwrap_or(self.bytes.len())
    }
}

/// The width of the line break that is here, and its form in a scalar.
#[inline]
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

#[inline]
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
