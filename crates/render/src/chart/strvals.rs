//! The little language of `--set a.b[0]=c,d={x,y}` and its relatives, as Helm's `strvals` reads it.

use super::Values;
use super::values::ValuesError;
use crate::template::go::quote;
use crate::template::stack::deeper;
use serde_json::Value;

/// The limits of a path. A list is as long as its largest index, so a short text can make a large value.
#[derive(Clone, Copy, Debug)]
pub struct PathLimits {
    /// The largest index of a list.
    pub index: i64,
    /// The maximum number of names in a row.
    pub names: usize,
    /// The maximum number of indices in a row.
    pub indices: usize,
}

impl PathLimits {
    /// The limits of Helm's `--set`, which has none for the number of indices. Nobody needs this many, and each takes some stack.
    pub const HELM: Self = Self { index: 65_536, names: 30, indices: 1_000 };
}

/// How the text after `=` becomes a value.
pub enum Mode<'a> {
    /// `--set`: `true`, `false`, `null` and integers are typed.
    Typed,
    /// `--set-string`: always text.
    Text,
    /// `--set-file`: the text is a path; the function answers with the file's content.
    File(&'a dyn Fn(&str) -> Result<String, ValuesError>),
    /// `--set-json`: JSON.
    Json,
    /// `--set-literal`: everything that follows is the value, without escapes, commas or lists.
    Literal,
}

/// Applies one argument to the values. The error is Helm's text, without its `failed parsing --set data: `.
pub fn apply(argument: &str, values: &mut Values, mode: &Mode<'_>) -> Result<(), ValuesError> {
    apply_within(argument, values, mode, PathLimits::HELM).map_err(ValuesError::Argument)
}

/// [`apply`] with other limits.
pub fn apply_within(argument: &str, values: &mut Values, mode: &Mode<'_>, limits: PathLimits) -> Result<(), String> {
    let mut parser = Parser { text: argument.chars().collect(), at: 0, mode, limits, indices: 0 };
    loop {
        match parser.key(values, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Failed(message)) => return Err(message),
        }
    }
}

/// Why reading stopped.
enum Stop {
    /// The text is at its end; not an error.
    End,
    Failed(String),
}

fn fail<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(message.into()))
}

/// Go's text of a failed type assertion, which Helm shows.
fn wrong_type<T>(value: &Value, wanted: &str) -> Result<T, Stop> {
    let got = match value {
        Value::Null => {
            return fail(format!("unable to parse key: interface conversion: interface {{}} is nil, not {wanted}"));
        }
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    fail(format!("unable to parse key: interface conversion: interface {{}} is {got}, not {wanted}"))
}

struct Parser<'a> {
    text: Vec<char>,
    at: usize,
    mode: &'a Mode<'a>,
    limits: PathLimits,
    /// Indices in a row of the path that is being read.
    indices: usize,
}

/// An empty key is read and dropped.
fn set(values: &mut Values, key: String, value: Value) {
    if !key.is_empty() {
        values.insert(key, value);
    }
}

fn set_index(list: &mut Vec<Value>, index: i64, value: Value, limit: i64) -> Result<(), Stop> {
    if index > limit {
        return fail(format!("index of {index} is greater than maximum supported index of {limit}"));
    }
    let Ok(at) = usize::try_from(index) else { return fail(format!("negative {index} index not allowed")) };
    if list.len() <= at {
        list.resize(at + 1, Value::Null);
    }
    list[at] = value;
    Ok(())
}

impl Parser<'_> {
    fn literal(&self) -> bool {
        matches!(self.mode, Mode::Literal)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.text.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    /// Text up to a stop character, which is consumed; `None` at the end of the text.
    fn until(&mut self, stop: &[char]) -> (String, Option<char>) {
        let mut read = String::new();
        while let Some(c) = self.next() {
            if stop.contains(&c) {
                return (read, Some(c));
            }
            if c == '\\' && !self.literal() {
                match self.next() {
                    Some(next) => read.push(next),
                    None => return (read, None),
                }
            } else {
                read.push(c);
            }
        }
        (read, None)
    }

    fn key(&mut self, values: &mut Values, nesting: usize) -> Result<(), Stop> {
        let stops: &[char] = if self.literal() { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (key, stop) = self.until(stops);
        match stop {
            None if key.is_empty() => Err(Stop::End),
            None => fail(format!("key {} has no value", quoted(&key))),
            Some('[') => {
                let index = self.index()?;
                self.indices = 1;
                let mut list = match values.get(&key) {
                    None => Vec::new(),
                    Some(Value::Array(list)) => list.clone(),
                    Some(other) => return wrong_type(other, "[]interface {}"),
                };
                let result = self.item(&mut list, index, nesting);
                set(values, key, Value::Array(list));
                result
            }
            Some('=') => match self.value()? {
                (value, true) => {
                    set(values, key, value);
                    Ok(())
                }
                (value, false) => {
                    set(values, key, value);
                    Err(Stop::End)
                }
            },
            Some(',') => {
                let message = format!("key {} has no value (cannot end with ,)", quoted(&key));
                set(values, key, Value::String(String::new()));
                fail(message)
            }
            Some(_) => {
                let nesting = nesting + 1;
                let limit = self.limits.names;
                if nesting > limit {
                    return fail(format!(
                        "value name nested level is greater than maximum supported nested level of {limit}"
                    ));
                }
                let mut inner = match values.get(&key) {
                    None => Values::new(),
                    Some(Value::Object(inner)) => inner.clone(),
                    Some(other) => return wrong_type(other, "map[string]interface {}"),
                };
                let result = self.key(&mut inner, nesting);
                if result.is_ok() && inner.is_empty() {
                    return fail(format!("key map {} has no value", quoted(&key)));
                }
                if !inner.is_empty() {
                    set(values, key, Value::Object(inner));
                }
                result
            }
        }
    }

    fn index(&mut self) -> Result<i64, Stop> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            // Helm takes the missing bracket for the end of the text.
            return Err(Stop::End);
        }
        let plain = text.strip_prefix(['+', '-']).unwrap_or(&text);
        if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
            return fail(format!("error parsing index: strconv.Atoi: parsing {}: invalid syntax", quoted(&text)));
        }
        match text.parse() {
            Ok(index) => Ok(index),
            Err(_) => fail(format!("error parsing index: strconv.Atoi: parsing {}: value out of range", quoted(&text))),
        }
    }

    /// The text after an index: `=value`, `[n]…` or `.key…`.
    fn item(&mut self, list: &mut Vec<Value>, index: i64, nesting: usize) -> Result<(), Stop> {
        if index < 0 {
            return fail(format!("negative {index} index not allowed"));
        }
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            // Go's parser holds characters, which are quoted one by one.
            let each = text.chars().map(|c| quote::quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), '\'', false));
            let shown = each.collect::<Vec<_>>().join(" ");
            return fail(format!("unexpected data at end of array index: [{shown}]"));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match stop {
            None => Err(Stop::End),
            Some('=') => {
                let (value, _) = self.value()?;
                set_index(list, index, value, self.limits.index)
            }
            Some('[') => {
                let next = self.index()?;
                self.indices += 1;
                let limit = self.limits.indices;
                if self.indices > limit {
                    return fail(format!("there are more indices in a row than the maximum of {limit}"));
                }
                let mut inner = match list.get(at) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(inner)) => inner.clone(),
                    Some(other) => return wrong_type(other, "[]interface {}"),
                };
                deeper(|| self.item(&mut inner, next, nesting))?;
                set_index(list, index, Value::Array(inner), self.limits.index)
            }
            Some(_) => {
                let mut inner = match list.get(at) {
                    Some(Value::Object(inner)) => inner.clone(),
                    _ => Values::new(),
                };
                if at < list.len() && !list[at].is_object() {
                    list[at] = Value::Object(Values::new());
                }
                let result = self.key(&mut inner, nesting);
                match result {
                    Ok(()) => set_index(list, index, Value::Object(inner), self.limits.index),
                    // Helm loses the element when the text ends right after it.
                    Err(stop) => {
                        if at < list.len() {
                            list[at] = Value::Object(inner);
                        }
                        Err(stop)
                    }
                }
            }
        }
    }

    /// The value after `=`; false when the text ended where a value was expected.
    fn value(&mut self) -> Result<(Value, bool), Stop> {
        match self.mode {
            Mode::Literal => {
                let rest: String = self.text[self.at..].iter().collect();
                self.at = self.text.len();
                Ok((Value::String(rest), true))
            }
            Mode::Json => self.json().map(|v| (v, true)),
            _ if self.at == self.text.len() => Ok((Value::String(String::new()), false)),
            _ if self.text[self.at] == '{' => {
                self.at += 1;
                self.list().map(|v| (v, true))
            }
            _ => {
                let (text, _) = self.until(&[',']);
                self.convert(&text).map(|v| (v, true))
            }
        }
    }

    fn list(&mut self) -> Result<Value, Stop> {
        let mut list = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            let Some(stop) = stop else { return fail("list must terminate with '}'") };
            list.push(self.convert(&text)?);
            if stop == '}' {
                if self.text.get(self.at) == Some(&',') {
                    self.at += 1;
                }
                return Ok(Value::Array(list));
            }
        }
    }

    fn convert(&self, text: &str) -> Result<Value, Stop> {
        match self.mode {
            Mode::Typed => Ok(typed(text)),
            Mode::File(read) => read(text).map(Value::String).map_err(|e| Stop::Failed(e.to_string())),
            _ => Ok(Value::String(text.into())),
        }
    }

    fn json(&mut self) -> Result<Value, Stop> {
        if self.skip_blank() {
            return Ok(Value::Null);
        }
        let rest: String = self.text[self.at..].iter().collect();
        let mut stream = serde_json::Deserializer::from_str(&rest).into_iter::<Value>();
        let value = match stream.next() {
            Some(Ok(value)) => floats(value),
            Some(Err(e)) => return fail(e.to_string()),
            None => return fail("EOF"),
        };
        self.at += rest[..stream.byte_offset()].chars().count();
        self.skip_blank();
        Ok(value)
    }

    /// Skips white space and one comma; whether there is no value before the comma or the end.
    fn skip_blank(&mut self) -> bool {
        while let Some(c) = self.next() {
            if c == ',' {
                return true;
            }
            if !c.is_whitespace() {
                self.at -= 1;
                return false;
            }
        }
        true
    }
}

/// Go's JSON numbers are `float64`.
pub fn floats(value: Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number),
        Value::Array(items) => Value::Array(items.into_iter().map(floats).collect()),
        Value::Object(entries) => Value::Object(entries.into_iter().map(|(k, v)| (k, floats(v))).collect()),
        other => other,
    }
}

fn typed(text: &str) -> Value {
    if text.eq_ignore_ascii_case("true") {
        return Value::Bool(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Value::Bool(false);
    }
    if text.eq_ignore_ascii_case("null") {
        return Value::Null;
    }
    if text == "0" {
        return Value::from(0_i64);
    }
    if !text.starts_with('0')
        && let Ok(number) = text.parse::<i64>()
    {
        return Value::from(number);
    }
    Value::String(text.into())
}

fn quoted(text: &str) -> String {
    quote::quoted(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Mode, PathLimits, ValuesError, apply, apply_within};
    use serde_json::{Value, json};

    fn set(argument: &str) -> Result<Value, ValuesError> {
        let mut values = serde_json::Map::new();
        apply(argument, &mut values, &Mode::Typed)?;
        Ok(Value::Object(values))
    }

    #[test]
    fn values_are_set_as_in_helm() {
        for (argument, want) in [
            ("a=b", json!({"a": "b"})),
            ("a=1,b=01,c=0,d=-3", json!({"a": 1, "b": "01", "c": 0, "d": -3})),
            ("a=true,b=null,c=", json!({"a": true, "b": null, "c": ""})),
            ("a.b.c=x", json!({"a": {"b": {"c": "x"}}})),
            ("a={x,1},b=y", json!({"a": ["x", 1], "b": "y"})),
            ("a[2]=x", json!({"a": [null, null, "x"]})),
            ("a[0].b=1,a[1].b=2", json!({"a": [{"b": 1}, {"b": 2}]})),
            ("a[0][1]=x", json!({"a": [[null, "x"]]})),
            ("a\\.b=c\\,d", json!({"a.b": "c,d"})),
            ("a={}", json!({"a": [""]})),
        ] {
            assert_eq!(set(argument).unwrap(), want, "{argument}");
        }
    }

    #[test]
    fn mistakes_are_reported_in_helms_words() {
        for (argument, want) in [
            ("a", "key \"a\" has no value"),
            ("a,b=1", "key \"a\" has no value (cannot end with ,)"),
            ("a={x", "list must terminate with '}'"),
            ("a[-1]=x", "negative -1 index not allowed"),
            ("a[0]b\u{7f}'[0]=x", r"unexpected data at end of array index: ['b' '\x7f' '\'']"),
            ("a\u{7f}\0", r#"key "a\x7f\x00" has no value"#),
            ("a[65537]=x", "index of 65537 is greater than maximum supported index of 65536"),
            (
                "a=1,a.b=2",
                "unable to parse key: interface conversion: interface {} is int64, not map[string]interface {}",
            ),
        ] {
            assert_eq!(set(argument).unwrap_err().to_string(), want, "{argument}");
        }
    }

    #[test]
    fn what_a_path_may_name_is_limited() {
        let many = |n: usize| format!("a{}=x", "[0]".repeat(n));
        assert!(set(&many(1_000)).is_ok());
        let expected = "there are more indices in a row than the maximum of 1000";
        for n in [1_001, 30_000] {
            assert_eq!(set(&many(n)).unwrap_err().to_string(), expected, "{n}");
        }
        let limits = PathLimits { index: 3, names: 2, indices: 2 };
        let within = |argument: &str| apply_within(argument, &mut serde_json::Map::new(), &Mode::Literal, limits);
        assert_eq!(within("a.b[3][3]=x"), Ok(()));
        for (argument, expected) in [
            ("a[4]=x", "index of 4 is greater than maximum supported index of 3"),
            ("a[0][0][0]=x", "there are more indices in a row than the maximum of 2"),
            ("a.b.c.d=x", "value name nested level is greater than maximum supported nested level of 2"),
        ] {
            assert_eq!(within(argument), Err(expected.to_owned()), "{argument}");
        }
    }

    #[test]
    fn json_and_literal_values_keep_their_text() {
        let mut values = serde_json::Map::new();
        apply("a={\"b\":[1,\"x\"]},c=null", &mut values, &Mode::Json).unwrap();
        apply("d.e=a,b\\{c", &mut values, &Mode::Literal).unwrap();
        assert_eq!(Value::Object(values), json!({"a": {"b": [1.0, "x"]}, "c": null, "d": {"e": "a,b\\{c"}}));
    }
}
