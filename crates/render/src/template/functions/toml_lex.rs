//! The characters and the scalars of TOML 1.1, with the faults that `BurntSushi/toml` finds in them, and their places.

use crate::template::go::quote;
use crate::template::unicode::is_letter;

/// The fault, and its line.
pub struct Fault {
    /// From 1. One less where Go's reader steps back over a line break that it has not counted.
    pub line: i64,
    /// Go's text.
    pub message: String,
}

/// The beginning of a value, or the whole value.
pub enum TomlToken {
    /// A string between `"`, and whether it has escapes.
    Basic(String, bool),
    /// A string between `"""`, with its escapes.
    Multiline(String),
    /// A string between `'`.
    Raw(String),
    /// A string between `'''`.
    RawMultiline(String),
    /// A possible integer.
    Integer(String),
    /// A possible float.
    Float(String),
    /// A possible date or time.
    Datetime(String),
    /// `true` or `false`.
    Bool(bool),
    /// `[`
    Array,
    /// `{`
    InlineTable,
}

/// The mark of the end of the text; a real NUL is refused.
pub const END: char = '\0';

/// Reads characters forwards and, by some steps, backwards.
pub struct Lexer<'t> {
    input: &'t str,
    start: usize,
    pos: usize,
    line: i64,
    at_end: bool,
    invalid: Option<u8>,
}

/// `%q` of a character.
pub fn quoted(c: char) -> String {
    let mut buffer = [0; 4];
    quote::quote_with(c.encode_utf8(&mut buffer).as_bytes(), '\'', false)
}

pub fn is_blank(c: char) -> bool {
    matches!(c, '\t' | ' ')
}

pub fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

type Lexed<T> = Result<T, Fault>;

impl<'t> Lexer<'t> {
    /// A lexer at the start of a text, of which only the part before the first bad byte is given.
    pub fn new(input: &'t str, invalid: Option<u8>) -> Self {
        Self { input, start: 0, pos: 0, line: 1, at_end: false, invalid }
    }

    /// The text as far as it is UTF-8, and the byte after it.
    pub fn valid_part(bytes: &[u8]) -> (&str, Option<u8>) {
        match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(e) => {
                let (valid, rest) = bytes.split_at(e.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), rest.first().copied())
            }
        }
    }

    /// The line that is being read.
    pub fn line(&self) -> i64 {
        self.line
    }

    /// Forgets what has been read of the token.
    pub fn ignore(&mut self) {
        self.start = self.pos;
    }

    fn current(&self) -> &'t str {
        &self.input[self.start..self.pos]
    }

    fn take(&mut self) -> String {
        let text = self.current().to_owned();
        self.start = self.pos;
        text
    }

    // Faults.

    fn fault<T>(line: i64, message: impl Into<String>) -> Lexed<T> {
        Err(Fault { line, message: message.into() })
    }

    /// A fault here; at the end of the text, after a line break, it is the fault of the line before.
    pub fn fail<T>(&self, message: impl Into<String>) -> Lexed<T> {
        let after_break = self.at_end && self.input[..self.pos].ends_with('\n');
        Self::fault(self.line - i64::from(after_break), message)
    }

    /// A fault that is a line break.
    pub fn fail_before<T>(&self, message: impl Into<String>) -> Lexed<T> {
        Self::fault(self.line - 1, message)
    }

    // Characters.

    /// The next character, or [`END`].
    pub fn next(&mut self) -> Lexed<char> {
        let Some(c) = self.input[self.pos..].chars().next() else {
            if let Some(byte) = self.invalid {
                return Self::fault(self.line, format!("invalid UTF-8 byte: 0x{byte:02x}"));
            }
            self.at_end = true;
            return Ok(END);
        };
        let lone_return = c == '\r' && !self.input[self.pos + 1..].starts_with('\n');
        if lone_return || c == '\x7f' || (c < ' ' && !matches!(c, '\t' | '\r' | '\n')) {
            let message = format!("TOML files cannot contain control characters: '0x{:02x}'", u32::from(c));
            return Self::fault(self.line, message);
        }
        self.line += i64::from(c == '\n');
        self.pos += c.len_utf8();
        Ok(c)
    }

    /// One character back.
    pub fn back(&mut self) {
        if std::mem::take(&mut self.at_end) {
            return;
        }
        if let Some(c) = self.input[..self.pos].chars().next_back() {
            self.pos -= c.len_utf8();
            self.line -= i64::from(c == '\n');
        }
    }

    /// The next character, which stays the next.
    pub fn peek(&mut self) -> Lexed<char> {
        let c = self.next()?;
        self.back();
        Ok(c)
    }

    fn accept(&mut self, wanted: char) -> Lexed<bool> {
        let found = self.next()? == wanted;
        if !found {
            self.back();
        }
        Ok(found)
    }

    fn accept_both(&mut self, first: char, second: char) -> Lexed<bool> {
        Ok(self.accept(first)? && self.accept(second)?)
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) -> Lexed<()> {
        while wanted(self.next()?) {}
        self.back();
        Ok(())
    }

    /// Passes over spaces and tabs.
    pub fn skip_blanks(&mut self) -> Lexed<()> {
        self.skip_while(is_blank)?;
        self.ignore();
        Ok(())
    }

    /// Skips a comment whose `#` has been read, up to the line break.
    pub fn skip_comment(&mut self) -> Lexed<()> {
        self.skip_while(|c| !is_break(c) && c != END)?;
        self.ignore();
        Ok(())
    }

    // Tokens.

    /// One part of a key: bare, and then maybe empty, or quoted.
    pub fn key_part(&mut self) -> Lexed<TomlToken> {
        match self.peek()? {
            '"' => {
                self.next()?;
                self.ignore();
                self.basic()
            }
            '\'' => {
                self.next()?;
                self.ignore();
                self.raw()
            }
            _ => {
                self.ignore();
                self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))?;
                Ok(TomlToken::Raw(self.take()))
            }
        }
    }

    /// A value, or how one begins.
    pub fn value(&mut self) -> Lexed<TomlToken> {
        self.skip_blanks()?;
        let first = self.next()?;
        match first {
            '0'..='9' => return self.number_or_date(first),
            '[' => return Ok(TomlToken::Array),
            '{' => return Ok(TomlToken::InlineTable),
            '"' | '\'' => return self.string(first),
            '.' => return self.fail("floats must start with a digit, not '.'"),
            'i' | 'n' if self.accept_both('n', 'f')? || self.accept_both('a', 'n')? => {
                return Ok(TomlToken::Float(self.take()));
            }
            '-' | '+' => return self.signed(),
            _ => {}
        }
        if is_letter(first) {
            self.back();
            return self.boolean();
        }
        match first {
            END => self.fail("unexpected EOF; expected value"),
            '\n' => self.fail_before(r"expected value but found '\n' instead"),
            _ => self.fail(format!("expected value but found {} instead", quoted(first))),
        }
    }

    fn boolean(&mut self) -> Lexed<TomlToken> {
        let from = self.pos;
        self.skip_while(is_letter)?;
        let word = &self.input[from..self.pos];
        match word {
            "true" | "false" => Ok(TomlToken::Bool(word == "true")),
            _ => self.fail(format!("expected value but found {} instead", quote::quoted(word.as_bytes()))),
        }
    }

    // Strings.

    fn string(&mut self, quote: char) -> Lexed<TomlToken> {
        if self.accept(quote)? {
            if self.accept(quote)? {
                self.ignore();
                return self.multiline(quote);
            }
            self.back();
        }
        self.ignore();
        if quote == '"' { self.basic() } else { self.raw() }
    }

    fn basic(&mut self) -> Lexed<TomlToken> {
        let mut escaped = false;
        loop {
            match self.next()? {
                END => return self.fail("unexpected EOF; expected '\"'"),
                c if is_break(c) => return self.fail_before("strings cannot contain newlines"),
                '\\' => {
                    self.escape()?;
                    escaped = true;
                }
                '"' => {
                    let text = self.input[self.start..self.pos - 1].to_owned();
                    self.ignore();
                    return Ok(TomlToken::Basic(text, escaped));
                }
                _ => {}
            }
        }
    }

    fn raw(&mut self) -> Lexed<TomlToken> {
        loop {
            match self.next()? {
                END => return self.fail("unexpected EOF; expected \"'\""),
                c if is_break(c) => return self.fail_before("strings cannot contain newlines"),
                '\'' => {
                    let text = self.input[self.start..self.pos - 1].to_owned();
                    self.ignore();
                    return Ok(TomlToken::Raw(text));
                }
                _ => {}
            }
        }
    }

    fn multiline(&mut self, quote: char) -> Lexed<TomlToken> {
        loop {
            match self.next()? {
                END if quote == '"' => return self.fail("unexpected EOF; expected '\"\"\"'"),
                END => return self.fail("unexpected EOF; expected \"'''\""),
                '\\' if quote == '"' && !is_break(self.next()?) => {
                    self.back();
                    self.escape()?;
                }
                c if c == quote && self.accept(quote)? => {
                    if !self.accept(quote)? {
                        self.back();
                    } else if self.peek()? == quote {
                        self.too_many_quotes(quote)?;
                        self.back();
                        self.back();
                    } else {
                        let text = self.input[self.start..self.pos - 3].to_owned();
                        self.ignore();
                        return Ok(if quote == '"' {
                            TomlToken::Multiline(text)
                        } else {
                            TomlToken::RawMultiline(text)
                        });
                    }
                }
                _ => {}
            }
        }
    }

    /// A string may end with two quotes more than the three that close it.
    fn too_many_quotes(&self, quote: char) -> Lexed<()> {
        let read = self.current();
        if quote == '\'' && read.ends_with("'''''") {
            return self.fail("unexpected \"''''''\"");
        }
        if quote == '"' && read.ends_with(r#"""""""#) && !read.ends_with(r#"\""""""#) {
            return self.fail(r#"unexpected '""""""'"#);
        }
        Ok(())
    }

    fn escape(&mut self) -> Lexed<()> {
        let (digits, count) = match self.next()? {
            'e' | 'b' | 't' | 'n' | 'f' | 'r' | '"' | ' ' | '\t' | '\\' => return Ok(()),
            'x' => (2, r"two hexadecimal digits after '\x'"),
            'u' => (4, r"four hexadecimal digits after '\u'"),
            'U' => (8, r"eight hexadecimal digits after '\U'"),
            c => {
                let line = self.line - i64::from(self.at_end);
                return Self::fault(line, format!(r"invalid escape in string '\{c}'"));
            }
        };
        for _ in 0..digits {
            if !self.next()?.is_ascii_hexdigit() {
                let read = quote::quoted(self.current().as_bytes());
                return self.fail(format!("expected {count}, but got {read} instead"));
            }
        }
        Ok(())
    }

    // Numbers and dates.

    fn integer(&mut self, digit: impl Fn(char) -> bool) -> Lexed<TomlToken> {
        self.skip_while(|c| digit(c) || c == '_')?;
        Ok(TomlToken::Integer(self.take()))
    }

    fn float(&mut self) -> Lexed<TomlToken> {
        self.skip_while(|c| matches!(c, '0'..='9' | '_' | '.' | '-' | '+' | 'e' | 'E'))?;
        Ok(TomlToken::Float(self.take()))
    }

    fn decimal(&mut self) -> Lexed<TomlToken> {
        self.skip_while(|c| c.is_ascii_digit() || c == '_')?;
        if matches!(self.peek()?, '.' | 'e' | 'E') {
            return self.float();
        }
        Ok(TomlToken::Integer(self.take()))
    }

    fn number_or_date(&mut self, first: char) -> Lexed<TomlToken> {
        if first == '0' {
            match self.peek()? {
                'b' => return self.based("binary number", "a", |c| matches!(c, '0' | '1')),
                'o' => return self.based("octal number", "an", |c| matches!(c, '0'..='7')),
                'x' => return self.based("hexadecimal number", "a", |c| c.is_ascii_hexdigit()),
                '-' | ':' => return Ok(TomlToken::Integer(self.take())),
                _ => {}
            }
        }
        self.skip_while(|c| c.is_ascii_digit())?;
        match self.peek()? {
            '-' | ':' => {
                let part = |c| matches!(c, '0'..='9' | '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+');
                self.skip_while(part)?;
                Ok(TomlToken::Datetime(self.take().trim().to_owned()))
            }
            '_' => self.decimal(),
            '.' | 'e' | 'E' => self.float(),
            _ => Ok(TomlToken::Integer(self.take())),
        }
    }

    fn based(&mut self, name: &str, article: &str, digit: impl Fn(char) -> bool) -> Lexed<TomlToken> {
        self.next()?;
        let next = self.peek()?;
        if !digit(next) {
            return self.fail(format!("not {article} {name}: '{}{next}'", self.current()));
        }
        self.integer(digit)
    }

    fn signed(&mut self) -> Lexed<TomlToken> {
        let first = self.next()?;
        match first {
            'i' | 'n' => {
                let rest = if first == 'i' { ('n', 'f') } else { ('a', 'n') };
                if !self.accept_both(rest.0, rest.1)? {
                    return self.fail(format!("invalid float: '{}'", self.current()));
                }
                return Ok(TomlToken::Float(self.take()));
            }
            '0' => {
                let base = self.peek()?;
                if matches!(base, 'b' | 'o' | 'x') {
                    let sign = self.current();
                    return self.fail(format!("cannot use sign with non-decimal numbers: '{sign}{base}'"));
                }
            }
            '.' => return self.fail("floats must start with a digit, not '.'"),
            _ => {}
        }
        if first.is_ascii_digit() {
            return self.decimal();
        }
        self.fail(format!("expected a digit but got {}", quoted(first)))
    }
}
