//! Upper and lower case, and conversions between forms of words: Go's `strings`, goutils, and xstrings 1.5.

use super::args::{bytes, string};
use super::{fixed, text};
use crate::template::function::{Function, Param};
use crate::template::unicode::{is_digit, is_letter};
use crate::template::value::Value;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("upper", &[S], |_, a| Ok(mapped(bytes(a, 0), u8::to_ascii_uppercase, upper))),
    fixed("lower", &[S], |_, a| Ok(mapped(bytes(a, 0), u8::to_ascii_lowercase, lower))),
    fixed("title", &[S], |_, a| Ok(title(&string(a, 0)).into())),
    fixed("untitle", &[S], |_, a| Ok(untitle(&string(a, 0)).into())),
    fixed("swapcase", &[S], |_, a| Ok(swap_case(&string(a, 0)).into())),
    fixed("initials", &[S], |_, a| Ok(initials(bytes(a, 0)).into())),
    fixed("camelcase", &[S], |_, a| Ok(pascal_case(&string(a, 0)).into())),
    fixed("snakecase", &[S], |_, a| Ok(separated(bytes(a, 0), '_'))),
    fixed("kebabcase", &[S], |_, a| Ok(separated(bytes(a, 0), '-'))),
];

fn mapped(text: &[u8], ascii: fn(&u8) -> u8, other: fn(char) -> char) -> Value {
    if text.is_ascii() {
        return Value::str(text.iter().map(ascii).collect::<Vec<u8>>());
    }
    text::chars(text).map(other).collect::<String>().into()
}

fn is_upper(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_uppercase() } else { get_general_category(c) == Category::UppercaseLetter }
}

fn is_lower(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_lowercase() } else { get_general_category(c) == Category::LowercaseLetter }
}

fn is_title(c: char) -> bool {
    !c.is_ascii() && get_general_category(c) == Category::TitlecaseLetter
}

fn is_number(c: char) -> bool {
    use Category::{DecimalNumber, LetterNumber, OtherNumber};
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    matches!(get_general_category(c), DecimalNumber | LetterNumber | OtherNumber)
}

fn is_punctuation(c: char) -> bool {
    use Category::{
        ClosePunctuation, ConnectorPunctuation, DashPunctuation, FinalPunctuation, InitialPunctuation, OpenPunctuation,
        OtherPunctuation,
    };
    matches!(
        get_general_category(c),
        ConnectorPunctuation
            | DashPunctuation
            | OpenPunctuation
            | ClosePunctuation
            | InitialPunctuation
            | FinalPunctuation
            | OtherPunctuation
    )
}

/// The one character that Unicode's simple mapping gives; Rust's may give several.
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next(), u32::from(c)) {
        (Some(one), None, _) => one,
        // Greek letters with an iota below have a capital of their own.
        (_, _, 0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => char::from_u32(u32::from(c) + 8).unwrap_or(c),
        (_, _, 0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(u32::from(c) + 9).unwrap_or(c),
        _ => c,
    }
}

fn lower(c: char) -> char {
    // The one lower case of several characters is that of İ, whose first is its simple mapping.
    c.to_lowercase().next().unwrap_or(c)
}

fn to_title(c: char) -> char {
    match u32::from(c) {
        0x1c4..=0x1c6 => '\u{1c5}',
        0x1c7..=0x1c9 => '\u{1c8}',
        0x1ca..=0x1cc => '\u{1cb}',
        0x1f1..=0x1f3 => '\u{1f2}',
        0x10d0..=0x10ff => c,
        _ => upper(c),
    }
}

/// Go's `strings.Title`: the first letter of every word.
fn title(text: &str) -> String {
    let mut before = ' ';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let starts = match before {
            b if b.is_ascii() => !(b.is_ascii_alphanumeric() || b == '_'),
            b => !is_letter(b) && !is_digit(b) && b.is_whitespace(),
        };
        out.push(if starts { to_title(c) } else { c });
        before = c;
    }
    out
}

/// goutils' `Uncapitalize`: the first character of every word.
fn untitle(text: &str) -> String {
    let mut starts = true;
    let change = |c: char| {
        if c.is_whitespace() {
            starts = true;
            c
        } else if std::mem::take(&mut starts) {
            lower(c)
        } else {
            c
        }
    };
    text.chars().map(change).collect()
}

/// goutils' `SwapCase`: a small letter at the start of a word gets the case of a title.
fn swap_case(text: &str) -> String {
    let mut whitespace = true;
    let change = |c: char| {
        let starts = whitespace;
        if is_upper(c) || is_title(c) {
            whitespace = false;
            lower(c)
        } else if is_lower(c) {
            whitespace = false;
            if starts { to_title(c) } else { upper(c) }
        } else {
            whitespace = c.is_whitespace();
            c
        }
    };
    text.chars().map(change).collect()
}

/// goutils' `Initials`, which takes bytes for characters.
fn initials(text: &[u8]) -> String {
    let mut after_gap = true;
    let mut out = String::new();
    for c in text.iter().map(|&b| char::from(b)) {
        if c.is_whitespace() {
            after_gap = true;
        } else if std::mem::take(&mut after_gap) {
            out.push(c);
        }
    }
    out
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// xstrings' `ToPascalCase`.
fn pascal_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    // Connectors in front stay.
    let mut current = loop {
        match rest.next() {
            // xstrings writes the last of them twice.
            None => {
                out.extend(text.chars().next_back());
                return out;
            }
            Some(c) if is_connector(c) => out.push(c),
            Some(c) => break c,
        }
    };
    let mut after_upper = is_upper(current);
    current = upper(current);
    for next in rest {
        let before = std::mem::replace(&mut current, next);
        if is_connector(next) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            after_upper = is_upper(next);
            current = upper(next);
        } else {
            if after_upper {
                if is_upper(next) { current = lower(next) } else { after_upper = false }
            }
            out.push(before);
        }
    }
    out.push(current);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    End,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// Letters of scripts with words. xstrings leaves out scripts that are written without spaces.
fn is_alphabet(c: char) -> bool {
    is_letter(c) && !matches!(c, '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}')
}

/// Whether it represents a byte that is not UTF-8; xstrings treats an original U+FFFD in the same way.
fn is_invalid(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || text::is_escaped(c)
}

/// The next valid character, or the previous one again, and its end.
fn next_valid(rest: &str, before: char) -> (char, usize) {
    rest.char_indices().find(|(_, c)| !is_invalid(*c)).map_or((before, rest.len()), |(at, c)| (c, at + c.len_utf8()))
}

/// The length of a run of characters of a kind, the size of the last of them, and the character that ends the run.
fn run(rest: &str, before: char, fits: &dyn Fn(char) -> bool) -> (usize, usize, Option<char>) {
    let (mut length, mut last, mut current) = (0, 0, before);
    while length < rest.len() {
        let (next, size) = next_valid(&rest[length..], current);
        if !fits(next) {
            return (length, last, Some(next));
        }
        (current, last, length) = (next, size, length + size);
    }
    (length, last, None)
}

/// The first word, and what follows it.
fn next_word(text: &str) -> (Word, &str, &str) {
    if text.is_empty() {
        return (Word::End, "", "");
    }
    let (first, size) = next_valid(text, char::REPLACEMENT_CHARACTER);
    if is_invalid(first) {
        return (Word::End, text, "");
    }
    let after = &text[size..];
    let run = |fits: &dyn Fn(char) -> bool| run(after, first, fits);
    let lower_run = |c: char| is_alphabet(c) && !is_upper(c);
    let (word, length) = match first {
        c if is_connector(c) => (Word::Connector, run(&is_connector).0),
        c if is_punctuation(c) => (Word::Punctuation, run(&is_punctuation).0),
        c if is_upper(c) => {
            let length = match run(&is_upper) {
                (0, ..) => run(&lower_run).0,
                // In HTTPStatus the S begins the next word.
                (uppers, last, Some(c)) if is_alphabet(c) => uppers - last,
                (uppers, ..) => uppers,
            };
            (Word::Upper, length)
        }
        c if is_alphabet(c) => (Word::Alphabet, run(&lower_run).0),
        c if is_number(c) => (Word::Number, run(&is_number).0),
        _ => {
            let other = |c| !(is_connector(c) || is_alphabet(c) || is_number(c) || is_punctuation(c));
            (Word::Other, run(&other).0)
        }
    };
    (word, &text[..size + length], &text[size + length..])
}

/// xstrings' `ToSnakeCase` and `ToKebabCase`.
fn separated(text: &[u8], connector: char) -> Value {
    let text = &*text::escaped(text);
    let mut out = String::with_capacity(text.len() + 8);
    let put = |out: &mut String, kind: Word, word: &str| {
        if kind != Word::Upper && kind != Word::Connector {
            out.push_str(word);
            return;
        }
        out.extend(word.chars().map(|c| {
            if is_invalid(c) {
                char::REPLACEMENT_CHARACTER
            } else if is_connector(c) {
                connector
            } else if is_upper(c) {
                lower(c)
            } else {
                c
            }
        }));
    };
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            put(&mut out, kind, word);
        }
        let (previous, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while matches!(kind, Word::Alphabet | Word::Number) {
                    put(&mut out, kind, word);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::End | Word::Punctuation | Word::Connector) {
                    out.push(connector);
                }
            }
            Word::Connector => put(&mut out, previous, last),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Alphabet {
                    // A number after a word belongs to it: Bld4Floor is bld4_floor.
                    put(&mut out, Word::Number, number);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                // Small letters after the number make it the start of a word: HTTP2xx is http_2xx.
                out.push(connector);
                put(&mut out, Word::Number, number);
                while matches!(kind, Word::Alphabet | Word::Number) {
                    put(&mut out, kind, word);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::End | Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
        }
    }
    put(&mut out, kind, word);
    Value::str(&*text::unescaped(&out))
}
