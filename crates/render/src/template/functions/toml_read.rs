//! TOML into values, as `BurntSushi/toml` 1.6 reads it: the same types, and the same errors.

use super::text::quoted;
use super::toml::TomlError;
use super::toml_lex::{self, END, Fault, Lexer, TomlToken, is_blank, is_break};
use super::toml_scalar::{ScalarError, date, float, integer, joined_lines, unescape, without_first_break};
use crate::template::value::{Elem, Items, List, Map, MapType, Room, Str, Value};
use std::collections::HashSet;

/// Values nested deeper than this are refused.
const MAX_DEPTH: usize = 500;
/// Go's type of the items of a `[[list]]`.
const TABLE: Elem = Elem::Object("map[string]interface {}");

/// Reads a document.
pub fn parse(bytes: &[u8]) -> Result<Value, TomlError> {
    let marks: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];
    let bytes = marks.iter().find_map(|mark| bytes.strip_prefix(*mark)).unwrap_or(bytes);
    if bytes.iter().take(6).any(|b| *b == 0) {
        let message = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
        return Err(TomlError::Text { line: 1, key: String::new(), message: message.into() });
    }
    let (text, invalid) = Lexer::valid_part(bytes);
    let mut reader = Reader {
        lexer: Lexer::new(text, invalid),
        root: Map::new(MapType::Any),
        context: Vec::new(),
        current: String::new(),
        line: 0,
        implicit: HashSet::new(),
        arrays: HashSet::new(),
        depth: 0,
    };
    match reader.document() {
        Ok(()) => Ok(reader.root.into()),
        Err(Fault { line, message }) => {
            let key = reader.last_key();
            let key = if key.is_empty() { key } else { format!(" (last key {})", quoted(&key)) };
            Err(TomlError::Text { line, key, message })
        }
    }
}

type Read<T> = Result<T, Fault>;

struct Reader<'t> {
    lexer: Lexer<'t>,
    root: Map,
    /// The key of the table that is being filled.
    context: Vec<String>,
    /// The key of the value that is being read, within the table.
    current: String,
    /// Where the last key began.
    line: i64,
    /// Tables that no header has made, and that a header still can make.
    implicit: HashSet<String>,
    /// Keys whose values are `[lists]`.
    arrays: HashSet<String>,
    depth: usize,
}

/// A key as messages show it.
fn key_text(key: &[String]) -> String {
    let part = |part: &String| match part.as_str() {
        "" => "\"\"".to_owned(),
        p if p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) => p.to_owned(),
        p => super::toml::quoted_key(p),
    };
    key.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Where in a key's text the reader is.
enum Header {
    Table,
    Tables,
}

impl Reader<'_> {
    fn last_key(&self) -> String {
        match (self.context.is_empty(), self.current.is_empty()) {
            (_, true) => key_text(&self.context),
            (true, false) => self.current.clone(),
            (false, false) => format!("{}.{}", key_text(&self.context), self.current),
        }
    }

    fn fault<T>(&self, message: String) -> Read<T> {
        Err(Fault { line: self.line, message })
    }

    fn document(&mut self) -> Read<()> {
        loop {
            match self.lexer.next()? {
                c if is_blank(c) || is_break(c) => self.lexer.ignore(),
                '#' => self.lexer.skip_comment()?,
                END => return Ok(()),
                '[' => {
                    self.table()?;
                    if self.end_of_line()? {
                        return Ok(());
                    }
                }
                _ => {
                    self.lexer.back();
                    self.lexer.ignore();
                    self.key_and_value()?;
                    self.current.clear();
                    if self.end_of_line()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether the document ends too.
    fn end_of_line(&mut self) -> Read<bool> {
        loop {
            match self.lexer.next()? {
                '#' => {
                    self.lexer.skip_comment()?;
                    return Ok(false);
                }
                c if is_blank(c) => {}
                c if is_break(c) => return Ok(false),
                END => return Ok(true),
                c => {
                    let got = toml_lex::quoted(c);
                    let message = "expected a top-level item to end with a newline, comment, or EOF, but got";
                    return self.lexer.fail(format!("{message} {got} instead"));
                }
            }
        }
    }

    // Keys.

    fn table(&mut self) -> Read<()> {
        let header = if self.lexer.peek()? == '[' {
            self.lexer.next()?;
            Header::Tables
        } else {
            Header::Table
        };
        let mut key = Vec::new();
        loop {
            self.lexer.skip_blanks()?;
            match self.lexer.peek()? {
                ']' | END => return self.lexer.fail("unexpected end of table name (table names cannot be empty)"),
                '.' => return self.lexer.fail("unexpected table separator (table names cannot be empty)"),
                _ => self.key_part(&mut key)?,
            }
            self.lexer.skip_blanks()?;
            match self.lexer.next()? {
                '.' => {}
                ']' => break,
                c => {
                    let got = toml_lex::quoted(c);
                    return self.lexer.fail(format!("expected '.' or ']' to end table name, but got {got} instead"));
                }
            }
        }
        if matches!(header, Header::Tables) {
            let c = self.lexer.next()?;
            if c != ']' {
                let got = toml_lex::quoted(c);
                let message = "expected end of table array name delimiter ']', but got";
                return self.lexer.fail(format!("{message} {got} instead"));
            }
        }
        self.enter(&key, matches!(header, Header::Tables))?;
        self.arrays.remove(&key_text(&self.context));
        Ok(())
    }

    fn key_part(&mut self, key: &mut Vec<String>) -> Read<()> {
        let token = self.lexer.key_part()?;
        let line = self.lexer.line();
        if key.is_empty() {
            self.line = line;
        }
        key.push(match token {
            TomlToken::Basic(text, true) => unescape(&text, line)?,
            TomlToken::Basic(text, false) | TomlToken::Raw(text) => text,
            _ => String::new(),
        });
        Ok(())
    }

    /// A key up to and with its `=`.
    fn key(&mut self) -> Read<Vec<String>> {
        self.lexer.skip_blanks()?;
        match self.lexer.peek()? {
            '=' | END => return self.lexer.fail("unexpected '=': key name appears blank"),
            '.' => return self.lexer.fail("unexpected '.': keys cannot start with a '.'"),
            _ => {}
        }
        let mut key = Vec::new();
        loop {
            self.lexer.skip_blanks()?;
            match self.lexer.peek()? {
                '=' | END => return self.lexer.fail("unexpected '='"),
                '.' => return self.lexer.fail("unexpected '.'"),
                _ => self.key_part(&mut key)?,
            }
            self.lexer.skip_blanks()?;
            match self.lexer.next()? {
                '.' => {}
                '=' => {
                    self.lexer.ignore();
                    return Ok(key);
                }
                END => return self.lexer.fail("unexpected EOF; expected key separator '='"),
                '\n' => return self.lexer.fail_before(r"expected '.' or '=', but got '\n' instead"),
                c => {
                    let got = toml_lex::quoted(c);
                    return self.lexer.fail(format!("expected '.' or '=', but got {got} instead"));
                }
            }
        }
    }

    /// Reads `key = value` into the current table; returns the key and the value.
    fn key_and_value(&mut self) -> Read<(Vec<String>, Value)> {
        let key = self.key()?;
        let outer = self.context.clone();
        let (last, parents) = key.split_last().map_or(("", &[][..]), |(last, parents)| (last.as_str(), parents));
        last.clone_into(&mut self.current);
        for part in parents {
            let mut context = self.context.clone();
            context.push(part.clone());
            self.implicit.insert(key_text(&context));
            self.enter(&context, false)?;
        }
        let value = self.value(false)?;
        let is_array = matches!(&value, Value::List(_));
        self.set(last, value.clone())?;
        self.mark(last, is_array);
        self.context = outer;
        Ok((key, value))
    }

    /// Records whether the value of a key of the current table is a list.
    fn mark(&mut self, key: &str, is_array: bool) {
        let mut full = self.context.clone();
        full.push(key.to_owned());
        let full = key_text(&full);
        if is_array {
            self.arrays.insert(full);
        } else {
            self.arrays.remove(&full);
        }
    }

    // Tables.

    /// Creates a table, or a further table in a list of tables, and enters it.
    fn enter(&mut self, key: &[String], in_list: bool) -> Read<()> {
        let Some((last, parents)) = key.split_last() else { return Ok(()) };
        let mut table = self.root.clone();
        for (i, part) in parents.iter().enumerate() {
            if table.get(part).is_none() {
                self.implicit.insert(key_text(&parents[..=i]));
                table.insert(part.as_str(), Map::new(MapType::Any));
            }
            let found = table_of(table.get(part).as_ref());
            let Some(inner) = found else {
                return self.fault(format!("Key '{}' was already created as a hash.", key_text(&parents[..=i])));
            };
            table = inner;
        }
        self.context = parents.to_vec();
        if in_list {
            self.add_to_list(&table, key, last)?;
        } else {
            self.set(last, Map::new(MapType::Any).into())?;
        }
        self.context.push(last.clone());
        Ok(())
    }

    fn add_to_list(&self, table: &Map, key: &[String], last: &str) -> Read<()> {
        let mut entries = table.borrow_mut();
        let empty = || Value::List(List { elem: TABLE, items: Items::with_room(Vec::new(), Room::Grown(4)) });
        let found = entries.entry(Str::from(last)).or_insert_with(empty);
        let Value::List(List { elem: TABLE, items }) = found else {
            let key = key_text(key);
            return self.fault(format!("Key '{key}' was already created and cannot be used as an array."));
        };
        items.push(Map::new(MapType::Any).into());
        Ok(())
    }

    /// Sets a key of the current table, if nothing else has.
    fn set(&mut self, key: &str, value: Value) -> Read<()> {
        let mut table = self.root.clone();
        for (i, part) in self.context.iter().enumerate() {
            let Some(inner) = table_of(table.get(part).as_ref()) else {
                return self.fault(format!("Key '{}' has already been defined.", key_text(&self.context[..=i])));
            };
            table = inner;
        }
        if table.get(key).is_none() {
            table.insert(key, value);
            return Ok(());
        }
        let mut full = self.context.clone();
        full.push(key.to_owned());
        let full = key_text(&full);
        let was_implicit = self.implicit.remove(&full);
        if !was_implicit {
            return self.fault(format!("Key '{full}' has already been defined."));
        }
        if self.arrays.contains(&full) {
            table.insert(key, value);
        }
        Ok(())
    }

    // Values.

    fn value(&mut self, in_list: bool) -> Read<Value> {
        let token = self.lexer.value()?;
        let line = self.lexer.line();
        let fault = |error: ScalarError| Fault { line, message: error.to_string() };
        Ok(match token {
            TomlToken::Basic(text, false) | TomlToken::Raw(text) => text.into(),
            TomlToken::Basic(text, true) => unescape(&text, line)?.into(),
            TomlToken::Multiline(text) => unescape(&joined_lines(without_first_break(&text)), line)?.into(),
            TomlToken::RawMultiline(text) => without_first_break(&text).into(),
            TomlToken::Bool(b) => b.into(),
            TomlToken::Integer(text) => integer(&text).map_err(fault)?,
            TomlToken::Float(text) => float(&text).map_err(fault)?,
            TomlToken::Datetime(text) => date(&text).map_err(fault)?,
            TomlToken::Array | TomlToken::InlineTable => {
                self.lexer.ignore();
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(Fault { line, message: "value is nested too deeply".into() });
                }
                let value = if matches!(token, TomlToken::Array) { self.array()? } else { self.inline_table(in_list)? };
                self.depth -= 1;
                value
            }
        })
    }

    fn array(&mut self) -> Read<Value> {
        let current = self.current.clone();
        self.mark(&current, true);
        let mut items = Vec::new();
        loop {
            match self.lexer.next()? {
                c if is_blank(c) || is_break(c) => {}
                '#' => self.lexer.skip_comment()?,
                ',' => return self.lexer.fail("unexpected comma"),
                ']' => break,
                _ => {
                    self.lexer.back();
                    self.lexer.ignore();
                    items.push(self.value(true)?);
                    if self.end_of_item(']')? {
                        break;
                    }
                }
            }
        }
        self.lexer.ignore();
        Ok(Value::List(List { elem: Elem::Any, items: Items::with_room(items, Room::Grown(2)) }))
    }

    /// Whether the end of the list or table comes, after an item, or a comma.
    fn end_of_item(&mut self, end: char) -> Read<bool> {
        loop {
            match self.lexer.next()? {
                c if is_blank(c) || is_break(c) => {}
                '#' => self.lexer.skip_comment()?,
                ',' if end == '}' => {
                    self.lexer.skip_blanks()?;
                    if self.lexer.peek()? != '}' {
                        return Ok(false);
                    }
                }
                ',' => return Ok(false),
                c if c == end => return Ok(true),
                c => {
                    let got = if c == END { "end of file".to_owned() } else { format!("'{c}'") };
                    return self.lexer.fail(match end {
                        '}' => format!("expected a comma or an inline table terminator '}}', but got {got} instead"),
                        _ => format!("expected a comma (',') or array terminator (']'), but got {got}"),
                    });
                }
            }
        }
    }

    fn inline_table(&mut self, in_list: bool) -> Read<Value> {
        let table = Map::new(MapType::Any);
        let outer = self.context.clone();
        let outer_key = std::mem::take(&mut self.current);
        self.context.push(outer_key.clone());
        let inner = self.context.clone();
        self.implicit.insert(key_text(&inner));
        self.enter(&inner, in_list)?;
        loop {
            match self.lexer.next()? {
                c if is_blank(c) || is_break(c) => {}
                '#' => self.lexer.skip_comment()?,
                ',' => return self.lexer.fail("unexpected comma"),
                '}' => break,
                _ => {
                    self.lexer.back();
                    self.lexer.ignore();
                    let (key, value) = self.key_and_value()?;
                    insert(&table, &key, value);
                    self.context.clone_from(&inner);
                    if self.end_of_item('}')? {
                        break;
                    }
                }
            }
        }
        self.lexer.ignore();
        self.context = outer;
        self.current = outer_key;
        Ok(table.into())
    }
}

/// The table that a value is, or the last of a list of tables.
fn table_of(value: Option<&Value>) -> Option<Map> {
    match value {
        Some(Value::Map(map)) => Some(map.clone()),
        Some(Value::List(List { elem: TABLE, items })) => match items.last() {
            Some(Value::Map(map)) => Some(map.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn insert(table: &Map, key: &[String], value: Value) {
    let Some((last, parents)) = key.split_last() else { return };
    let mut table = table.clone();
    for part in parents {
        let inner = table_of(table.get(part).as_ref()).unwrap_or_else(|| Map::new(MapType::Any));
        table.insert(part.as_str(), inner.clone());
        table = inner;
    }
    table.insert(last.as_str(), value);
}
