//! The grammar of the templates of messages: a small part of minijinja's.
//!
//! The author of a notice can be any user who can write one in a namespace. So a template is checked against a list of
//! allowed parts, and not of forbidden ones: an expression is a path, a text or a number, followed by filters, and a
//! condition compares one of these with a text or a number. Nothing can be bound to a list that the template itself
//! makes, so no value of a template is larger than the facts.
//!
//! ```text
//! tag        = "if" condition | "elif" condition | "else" | "endif" | "for" NAME "in" expression | "endfor"
//! condition  = ["not"] test { ("and" | "or") ["not"] test }
//! test       = expression [ ("==" | "!=" | "<" | "<=" | ">" | ">=") literal ]
//! expression = (path | literal) { "|" FILTER [ "(" literal ")" ] }
//! path       = NAME { "." NAME | "[" literal "]" }
//! literal    = TEXT | ["-"] NUMBER | "true" | "false" | "none"
//! ```

use super::error::NoticeError;

pub const FILTERS: [&str; 8] = ["upper", "lower", "trim", "length", "first", "last", "default", "join"];
const TAGS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// Words that are not names.
const WORDS: [&str; 8] = ["in", "is", "if", "else", "and", "or", "not", "recursive"];
/// Digits of a number.
const DIGITS: usize = 9;

/// Checks a template.
///
/// # Errors
/// The part that is not in the grammar, with its line.
pub fn check(text: &str) -> Result<(), NoticeError> {
    let mut rest = text;
    while let Some(at) = ["{{", "{%", "{#"].iter().filter_map(|opening| rest.find(opening)).min() {
        let line = text[..text.len() - rest.len() + at].matches('\n').count() + 1;
        let (opening, inside) = rest[at..].split_at(2);
        let checked = match opening {
            "{#" => inside.split_once("#}").map(|(_, after)| after).ok_or_else(|| "a comment has no #}".into()),
            "{{" => Tokens::of(inside, "}}").and_then(|(mut tokens, after)| {
                tokens.expression()?;
                tokens.end()?;
                Ok(after)
            }),
            _ => tag(inside).and_then(|()| Tokens::of(inside, "%}")).and_then(|(mut tokens, after)| {
                tokens.tag()?;
                tokens.end()?;
                Ok(after)
            }),
        };
        rest = checked.map_err(|why| NoticeError::Line { line, why: Box::new(why) })?;
    }
    Ok(())
}

/// Whether the tag exists.
fn tag(inside: &str) -> Result<(), NoticeError> {
    let inside = inside.trim_start_matches(['-', '+']).trim_start();
    let word = inside.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap_or_default();
    if TAGS.contains(&word) {
        Ok(())
    } else {
        Err(NoticeError::Unknown { what: "tag", word: word.into(), known: &TAGS })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Name(&'t str),
    Text,
    Number,
    Sign(&'t str),
}

/// The tokens of a tag or an expression.
struct Tokens<'t> {
    all: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Reads the tokens up to the closing sign. Returns them and the text after it.
    fn of(inside: &'t str, closing: &str) -> Result<(Self, &'t str), NoticeError> {
        // A sign after the opening one trims spaces.
        let mut rest = inside.strip_prefix(['-', '+']).unwrap_or(inside);
        let mut all = Vec::new();
        loop {
            rest = rest.trim_start();
            let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
            if let Some(after) = unsigned.strip_prefix(closing) {
                return Ok((Self { all, at: 0 }, after));
            }
            let Some(first) = rest.chars().next() else { return Err(format!("a tag has no {closing}").into()) };
            let (token, length) = match first {
                '"' | '\'' => (Token::Text, text_length(rest, first).ok_or("a text has no end")?),
                '0'..='9' => (Token::Number, number_length(rest)?),
                _ if first == '_' || first.is_ascii_alphabetic() => {
                    let length = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                    (Token::Name(&rest[..length]), length)
                }
                _ => {
                    let signs = ["==", "!=", "<=", ">=", "<", ">", ".", "[", "]", "|", "(", ")", "-"];
                    let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
                    let sign = sign.ok_or_else(|| format!("{first:?} does not exist in templates of notices"))?;
                    (Token::Sign(sign), sign.len())
                }
            };
            all.push(token);
            rest = &rest[length..];
        }
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.all.get(self.at).copied()
    }

    /// Takes the next token if it is this one.
    fn takes(&mut self, token: Token<'_>) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn name(&mut self, what: &str) -> Result<&'t str, NoticeError> {
        match self.peek() {
            Some(Token::Name(name)) if !WORDS.contains(&name) => {
                self.at += 1;
                Ok(name)
            }
            found => misplaced(found, format!("{what} is expected")),
        }
    }

    fn end(&self) -> Result<(), NoticeError> {
        match self.peek() {
            None => Ok(()),
            found => misplaced(found, "the tag is expected to end"),
        }
    }

    fn tag(&mut self) -> Result<(), NoticeError> {
        let tag = self.peek();
        self.at += 1;
        match tag {
            Some(Token::Name("if" | "elif")) => self.condition(),
            Some(Token::Name("for")) => {
                self.name("the name of an item")?;
                if !self.takes(Token::Name("in")) {
                    return misplaced(self.peek(), "\"in\" is expected");
                }
                self.expression()
            }
            _ => Ok(()),
        }
    }

    fn condition(&mut self) -> Result<(), NoticeError> {
        loop {
            let _ = self.takes(Token::Name("not"));
            self.expression()?;
            let compares = |token| matches!(token, Token::Sign("==" | "!=" | "<" | "<=" | ">" | ">="));
            if self.peek().is_some_and(compares) {
                self.at += 1;
                self.literal()?;
            }
            if !self.takes(Token::Name("and")) && !self.takes(Token::Name("or")) {
                return Ok(());
            }
        }
    }

    fn expression(&mut self) -> Result<(), NoticeError> {
        match self.peek() {
            Some(Token::Name(name)) if !["true", "false", "none"].contains(&name) => self.path()?,
            _ => self.literal()?,
        }
        while self.takes(Token::Sign("|")) {
            let filter = self.name("a filter")?;
            if !FILTERS.contains(&filter) {
                return Err(NoticeError::Unknown { what: "filter", word: filter.into(), known: &FILTERS });
            }
            if self.takes(Token::Sign("(")) {
                self.literal()?;
                if !self.takes(Token::Sign(")")) {
                    return misplaced(self.peek(), "\")\" is expected");
                }
            }
        }
        Ok(())
    }

    fn path(&mut self) -> Result<(), NoticeError> {
        self.name("a name")?;
        loop {
            if self.takes(Token::Sign(".")) {
                self.name("a name")?;
            } else if self.takes(Token::Sign("[")) {
                self.literal()?;
                if !self.takes(Token::Sign("]")) {
                    return misplaced(self.peek(), "\"]\" is expected");
                }
            } else {
                return Ok(());
            }
        }
    }

    fn literal(&mut self) -> Result<(), NoticeError> {
        let is_negative = self.takes(Token::Sign("-"));
        match self.peek() {
            Some(Token::Number) => {}
            Some(Token::Text | Token::Name("true" | "false" | "none")) if !is_negative => {}
            found => return misplaced(found, "a text or a number is expected"),
        }
        self.at += 1;
        Ok(())
    }
}

fn misplaced<T>(found: Option<Token<'_>>, wanted: impl Into<String>) -> Result<T, NoticeError> {
    Err(NoticeError::Misplaced { found: shown(found), wanted: wanted.into() })
}

fn shown(token: Option<Token<'_>>) -> String {
    match token {
        Some(Token::Name(text) | Token::Sign(text)) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Some(Token::Text) => "a text".to_owned(),
        Some(Token::Number) => "a number".to_owned(),
        None => "the end of the tag".to_owned(),
    }
}

/// Bytes of a text with its quotes.
fn text_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Bytes of a whole number.
fn number_length(rest: &str) -> Result<usize, NoticeError> {
    let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let is_whole = !rest[length..].starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let has_fraction = rest[length..].strip_prefix('.').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    if length > DIGITS || !is_whole || has_fraction {
        return Err(format!("a number must be a whole number of at most {DIGITS} digits here").into());
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths_texts_and_filters_are_expressions() {
        for text in [
            "plain } % # text",
            "{{ lines[0].kind }} {{- lines[-1]['name'] | upper -}}",
            "{%- for line in lines %}{{ loop.index }}{%+ endfor %}",
            "{% if lines|length > 1 and not line.bad or line.event == 'Failed' %}a{% elif more %}b{% else %}c{% endif %}",
            "{{ '}} {% ~ \\' ' }}{# {% set x %} #}{{ nothing|default('none')|trim }}{{ names|join(' and ') }}{{ true }}",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_place() {
        for (text, part) in [
            ("{% set x = 'a' %}", "line 1: the tag \"set\" does not exist here, only if,"),
            ("\n{%- macro a() %}{% endmacro %}", "line 2: the tag \"macro\""),
            ("{% raw %}{% set x %}{% endraw %}", "the tag \"raw\""),
            ("{{ name ~ name }}", "'~' does not exist"),
            ("{{ '\\'}}' ~ name }}", "'~' does not exist"),
            ("{{ 'a' * 1000000000 }}", "'*' does not exist"),
            ("{{ name + name }}", "'+' does not exist"),
            ("{{ name - 1 }}", "\"-\" where the tag is expected to end"),
            ("{% for x in names recursive %}", "\"recursive\" where the tag is expected to end"),
            ("{% for x in names if x %}", "\"if\" where the tag is expected to end"),
            ("{% for x, y in [[[1, 1], [1, 1]]] %}", "',' does not exist"),
            ("{% for x in [1] %}", "\"[\" where a text or a number is expected"),
            ("{% for x in (a) %}", "\"(\" where a text or a number"),
            ("{% if x == y %}", "\"y\" where a text or a number is expected"),
            ("{% if 'a' in x %}", "\"in\" where the tag is expected to end"),
            ("{% if x is defined %}", "\"is\" where the tag is expected to end"),
            ("{{ [name] }}", "\"[\" where a text"),
            ("{{ {'a': 1} }}", "'{' does not exist"),
            ("{{ a if b else c }}", "\"if\" where the tag is expected to end"),
            ("{{ name[1:2] }}", "':' does not exist"),
            ("{{ name[other] }}", "\"other\" where a text or a number"),
            ("{{ name|replace('a') }}", "the filter \"replace\" does not exist here, only upper,"),
            ("{{ name|join(name) }}", "\"name\" where a text"),
            ("{{ name.upper() }}", "\"(\" where the tag is expected to end"),
            ("{{ range(10) }}", "\"(\" where the tag is expected to end"),
            ("{{ 1234567890 }}", "at most 9 digits"),
            ("{{ 1.5 }}", "whole number"),
            ("{{ 1e9 }}", "whole number"),
            ("{{ }}", "the end of the tag where a text or a number"),
            ("{{ name", "a tag has no }}"),
            ("{# a", "a comment has no #}"),
            ("{{ 'a }}", "a text has no end"),
        ] {
            let said = check(text).expect_err(text).to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
