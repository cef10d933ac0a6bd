//! Text to tokens, as Go's `text/template/parse` cuts it: blanks inside actions are tokens, trim markers are not.

use super::quote;
use crate::template::unicode::{is_digit, is_letter};
use memchr::memmem;

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Error,
    Eof,
    Bool,
    /// A printable character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    Str,
    Text,
    Variable,
    // Keywords, which messages show in angle brackets.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl TokenKind {
    fn keyword(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::End,
            b"if" => Self::If,
            b"nil" => Self::Nil,
            b"range" => Self::Range,
            b"template" => Self::Template,
            b"with" => Self::With,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        self as u8 >= Self::Block as u8
    }
}

/// A token: a range of the text. The text of an error is in [`Lexer::error`].
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// Line of its first byte, from 1.
    pub line: u32,
}

impl Token {
    /// The content of a token buffer before anything was read.
    pub const NONE: Self = Self { kind: TokenKind::Eof, start: 0, end: 0, line: 0 };
}

/// Cuts one text.
pub struct Lexer<'s> {
    text: &'s [u8],
    /// The end of the text for the lexer: nothing after an error is read.
    end: usize,
    pos: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    inside_action: bool,
    error: String,
}

const LEFT_DELIM: &[u8] = b"{{";
const RIGHT_DELIM: &[u8] = b"}}";

/// Which bytes are letters, digits or underscores of ASCII.
static WORD: [bool; 256] = {
    let mut word = [false; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        word[byte as usize] = byte == b'_' || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    word
};

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || is_letter(c) || is_digit(c)
}

/// The first character, with U+FFFD for a byte that is not UTF-8, and its length; `None` at the end.
pub fn decode(text: &[u8]) -> Option<(char, usize)> {
    let first = *text.first()?;
    if first < 0x80 {
        return Some((first as char, 1));
    }
    let width = match first {
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    let char = text.get(..width).and_then(|bytes| std::str::from_utf8(bytes).ok()).and_then(|s| s.chars().next());
    Some(char.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, width)))
}

fn count_lines(text: &[u8]) -> usize {
    // Between two tokens there are at most a few bytes.
    if text.len() < 16 {
        return text.iter().map(|&b| usize::from(b == b'\n')).sum();
    }
    memchr::memchr_iter(b'\n', text).count()
}

/// Where the next left delimiter is. Braces are rare in what charts render, so looking for one finds both.
fn left_delim(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', text).find(|at| text.get(at + 1) == Some(&b'{'))
}

fn has_left_trim(text: &[u8]) -> bool {
    text.len() >= 2 && text[0] == b'-' && is_space(text[1])
}

fn has_right_trim(text: &[u8]) -> bool {
    text.len() >= 2 && is_space(text[0]) && text[1] == b'-'
}

impl<'s> Lexer<'s> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'s [u8]) -> Self {
        Self {
            text,
            end: text.len(),
            pos: 0,
            start: 0,
            line: 1,
            start_line: 1,
            paren_depth: 0,
            inside_action: false,
            error: String::new(),
        }
    }

    /// The bytes of a token.
    pub fn bytes(&self, token: Token) -> &'s [u8] {
        &self.text[token.start as usize..token.end as usize]
    }

    /// A token as messages show it.
    pub fn show(&self, token: Token) -> String {
        let text = self.bytes(token);
        match token.kind {
            TokenKind::Eof => "EOF".into(),
            TokenKind::Error => self.error.clone(),
            kind if kind.is_keyword() => format!("<{}>", String::from_utf8_lossy(text)),
            _ if text.len() > 10 => {
                let mut cut = 0;
                for _ in 0..10 {
                    cut += decode(&text[cut..]).map_or(0, |(_, width)| width);
                }
                format!("{}...", quote::quoted(&text[..cut]))
            }
            _ => quote::quoted(text),
        }
    }

    /// The text of the last error token.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// The next token; after the end, [`TokenKind::Eof`] again and again.
    pub fn next_token(&mut self) -> Token {
        if self.inside_action { self.inside_action() } else { self.text_or_delim() }
    }

    fn rest(&self) -> &'s [u8] {
        &self.text[self.pos..self.end]
    }

    fn peek(&self) -> Option<char> {
        decode(self.rest()).map(|(c, _)| c)
    }

    fn bump(&mut self) -> Option<char> {
        // Nearly all of a template is ASCII.
        if let Some(&first @ (b' '..0x80)) = self.rest().first() {
            self.pos += 1;
            return Some(first as char);
        }
        let (c, width) = decode(self.rest())?;
        self.pos += width;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the parser refuses texts of 4 GiB")]
    fn token(&self, kind: TokenKind, end: usize) -> Token {
        Token { kind, start: self.start as u32, end: end as u32, line: self.start_line as u32 }
    }

    fn emit(&mut self, kind: TokenKind) -> Token {
        let token = self.token(kind, self.pos);
        self.start = self.pos;
        self.start_line = self.line;
        token
    }

    /// Skips to `pos` without a token.
    fn skip_to(&mut self, pos: usize) {
        self.line += count_lines(&self.text[self.pos..pos]);
        self.pos = pos;
        self.start = pos;
        self.start_line = self.line;
    }

    fn fail(&mut self, message: impl Into<String>) -> Token {
        self.error = message.into();
        let token = self.token(TokenKind::Error, self.start);
        self.end = self.pos;
        self.start = self.pos;
        token
    }

    fn text_or_delim(&mut self) -> Token {
        loop {
            let rest = self.rest();
            let Some(length) = left_delim(rest) else {
                if rest.is_empty() {
                    return self.emit(TokenKind::Eof);
                }
                self.line += count_lines(rest);
                self.pos = self.end;
                return self.emit(TokenKind::Text);
            };
            if length > 0 {
                let delim = self.pos + length;
                let text = &rest[..length];
                let kept = if has_left_trim(&rest[length + LEFT_DELIM.len()..]) {
                    text.iter().rposition(|&b| !is_space(b)).map_or(0, |i| i + 1)
                } else {
                    length
                };
                self.line += count_lines(&text[..kept]);
                self.pos += kept;
                let token = self.emit(TokenKind::Text);
                self.skip_to(delim);
                if kept > 0 {
                    return token;
                }
            }
            if let Some(token) = self.left_delim() {
                return token;
            }
        }
    }

    /// The token of `{{`; `None` after a comment.
    fn left_delim(&mut self) -> Option<Token> {
        let after_delim = self.pos + LEFT_DELIM.len();
        let marker = if has_left_trim(&self.text[after_delim..self.end]) { 2 } else { 0 };
        if self.text[after_delim + marker..self.end].starts_with(b"/*") {
            self.skip_to(after_delim + marker);
            return self.comment();
        }
        self.pos = after_delim;
        let token = self.emit(TokenKind::LeftDelim);
        self.inside_action = true;
        self.skip_to(after_delim + marker);
        self.paren_depth = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token> {
        let Some(length) = memmem::find(&self.rest()[2..], b"*/") else {
            return Some(self.fail("unclosed comment"));
        };
        let end = self.pos + 2 + length + 2;
        let after = &self.text[end..self.end];
        if after.starts_with(RIGHT_DELIM) {
            self.skip_to(end + RIGHT_DELIM.len());
        } else if has_right_trim(after) && after[2..].starts_with(RIGHT_DELIM) {
            self.skip_to(end + 2 + RIGHT_DELIM.len());
            self.skip_blanks();
        } else {
            return Some(self.fail("comment ends before closing delimiter"));
        }
        None
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest().iter().take_while(|&&b| is_space(b)).count();
        self.skip_to(self.pos + blanks);
    }

    /// Whether a right delimiter comes, and whether it has a trim marker.
    fn at_right_delim(&self) -> Option<bool> {
        match self.rest() {
            [b'}', b'}', ..] => Some(false),
            [blank, b'-', b'}', b'}', ..] if is_space(*blank) => Some(true),
            _ => None,
        }
    }

    fn right_delim(&mut self, trims: bool) -> Token {
        if trims {
            self.skip_to(self.pos + 2);
        }
        self.pos += RIGHT_DELIM.len();
        let token = self.emit(TokenKind::RightDelim);
        if trims {
            self.skip_blanks();
        }
        self.inside_action = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trims) = self.at_right_delim() {
            if self.paren_depth == 0 {
                return self.right_delim(trims);
            }
            return self.fail("unclosed left paren");
        }
        let Some(c) = self.peek() else { return self.fail("unclosed action") };
        match c {
            'a'..='z' | 'A'..='Z' | '_' => self.identifier(),
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '"' => self.quoted(b'"', TokenKind::Str, "unterminated quoted string"),
            '\'' => self.quoted(b'\'', TokenKind::CharConstant, "unterminated character constant"),
            '`' => self.raw_string(),
            '+' | '-' | '0'..='9' => self.number(),
            '.' => match self.rest().get(1) {
                Some(b) if !b.is_ascii_digit() => {
                    self.bump();
                    self.field_or_variable(TokenKind::Field)
                }
                _ => self.number(),
            },
            c if is_alphanumeric(c) => self.identifier(),
            c => {
                self.bump();
                self.punctuation(c)
            }
        }
    }

    fn punctuation(&mut self, c: char) -> Token {
        match c {
            '=' => self.emit(TokenKind::Assign),
            ':' => {
                if self.bump() != Some('=') {
                    return self.fail("expected :=");
                }
                self.emit(TokenKind::Declare)
            }
            '|' => self.emit(TokenKind::Pipe),
            '$' => self.field_or_variable(TokenKind::Variable),
            '(' => {
                self.paren_depth += 1;
                self.emit(TokenKind::LeftParen)
            }
            ')' => {
                if self.paren_depth == 0 {
                    return self.fail("unexpected right paren");
                }
                self.paren_depth -= 1;
                self.emit(TokenKind::RightParen)
            }
            c if c.is_ascii_graphic() => self.emit(TokenKind::Char),
            c => self.fail(format!("unrecognized character in action: {}", quote::unicode(c))),
        }
    }

    fn space(&mut self) -> Token {
        // One blank between two words is by far the most common.
        if let [b' ', next, ..] = self.rest()
            && !is_space(*next)
            && *next != b'-'
        {
            self.pos += 1;
            return self.emit(TokenKind::Space);
        }
        let count = self.rest().iter().take_while(|&&b| is_space(b)).count();
        self.line += count_lines(&self.text[self.pos..self.pos + count]);
        self.pos += count;
        // The last blank may belong to a trim marker.
        let last = &self.text[self.pos - 1..self.end];
        if has_right_trim(last) && last[2..].starts_with(RIGHT_DELIM) {
            self.pos -= 1;
            if self.text[self.pos] == b'\n' {
                self.line -= 1;
            }
            if count == 1 {
                return self.right_delim(true);
            }
        }
        self.emit(TokenKind::Space)
    }

    fn identifier(&mut self) -> Token {
        self.word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let word = &self.text[self.start..self.pos];
        let kind = match word {
            b"true" | b"false" => TokenKind::Bool,
            _ => TokenKind::keyword(word).unwrap_or(TokenKind::Identifier),
        };
        self.emit(kind)
    }

    /// The rest of a field or variable whose first character has been read.
    fn field_or_variable(&mut self, kind: TokenKind) -> Token {
        if self.at_terminator() {
            return self.emit(if kind == TokenKind::Variable { kind } else { TokenKind::Dot });
        }
        self.word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    /// Letters, digits and underscores.
    fn word(&mut self) {
        loop {
            let rest = self.rest();
            let length = rest.iter().position(|&b| !WORD[usize::from(b)]).unwrap_or(rest.len());
            self.pos += length;
            match decode(&rest[length..]) {
                Some((c, width)) if !c.is_ascii() && is_alphanumeric(c) => self.pos += width,
                _ => return,
            }
        }
    }

    fn bad_character(&mut self) -> Token {
        let c = self.peek().unwrap_or(char::REPLACEMENT_CHARACTER);
        self.fail(format!("bad character {}", quote::unicode(c)))
    }

    fn at_terminator(&self) -> bool {
        matches!(
            self.rest(),
            [] | [b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(', ..] | [b'}', b'}', ..]
        )
    }

    fn quoted(&mut self, quote: u8, kind: TokenKind, unterminated: &str) -> Token {
        self.pos += 1;
        loop {
            // The text in between does not matter, and neither does the number of bytes of a character.
            let length = self.rest().iter().position(|&b| b == quote || matches!(b, b'\\' | b'\n'));
            self.pos = length.map_or(self.end, |length| self.pos + length);
            match self.bump() {
                Some('\\') => {
                    if matches!(self.bump(), None | Some('\n')) {
                        return self.fail(unterminated);
                    }
                }
                None | Some('\n') => return self.fail(unterminated),
                Some(_) => return self.emit(kind),
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        let length = memchr::memchr(b'`', &self.rest()[1..]).map(|length| length + 2);
        let end = length.map_or(self.end, |length| self.pos + length);
        self.line += count_lines(&self.text[self.pos..end]);
        self.pos = end;
        match length {
            Some(_) => self.emit(TokenKind::RawString),
            None => self.fail("unterminated raw quoted string"),
        }
    }

    fn number(&mut self) -> Token {
        let mut ok = self.scan_number();
        let mut kind = TokenKind::Number;
        if ok && matches!(self.peek(), Some('+' | '-')) {
            ok = self.scan_number() && self.text[self.pos - 1] == b'i';
            kind = TokenKind::Complex;
        }
        if ok {
            return self.emit(kind);
        }
        let text = quote::quoted(&self.text[self.start..self.pos]);
        self.fail(format!("bad number syntax: {text}"))
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let accepted = self.rest().first().is_some_and(|b| set.contains(b));
        self.pos += usize::from(accepted);
        accepted
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        let mut exponent: &[u8] = b"eE";
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = b"0123456789abcdefABCDEF_";
                exponent = b"pP";
            } else if self.accept(b"oO") {
                digits = b"01234567_";
                exponent = b"";
            } else if self.accept(b"bB") {
                digits = b"01_";
                exponent = b"";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}
