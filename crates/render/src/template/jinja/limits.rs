//! The cost of minijinja's templates: like Go templates, they use the [`budget`] of the rendering.
//!
//! minijinja counts instructions. The values of an instruction are counted here: arguments and results of filters, and
//! the output. Its operators cannot be counted: a template that doubles a text forty times with `~` is not stopped.
//! Nobody but the author of a chart can write one, since no function of these charts takes text for a template.

use crate::template::budget::{self, Spent};
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use std::fmt;
use std::io;

/// Bytes that a value takes beside its text.
const VALUE: usize = 24;

/// An error that ends the rendering. [`reached`] has the words.
fn refused(_: Spent) -> Error {
    Error::new(ErrorKind::InvalidOperation, "a limit is reached")
}

/// The limit that was reached, if one was.
pub fn reached() -> Option<String> {
    budget::spent().map(|spent| spent.to_string())
}

/// Charges a read of a value. A list that is contained several times counts as often. Returns the bytes of its texts.
fn look(value: &Value) -> Result<usize, Error> {
    budget::work(1).map_err(refused)?;
    if let Some(text) = value.as_str() {
        budget::work_of(text.len() / 128).map_err(refused)?;
        return Ok(text.len());
    }
    let mut bytes = VALUE;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                bytes += look(&item)? + VALUE;
                budget::room(bytes).map_err(refused)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                bytes += look(&key)? + look(&value.get_item(&key)?)? + VALUE;
                budget::room(bytes).map_err(refused)?;
            }
        }
        _ => {}
    }
    Ok(bytes)
}

/// The bytes that a filter can make beyond its input.
type Extra = fn(&[Value]) -> usize;

fn text(args: &[Value], at: usize) -> &str {
    args.get(at).and_then(Value::as_str).unwrap_or_default()
}

/// The largest number among the arguments but the first, by name or not.
fn number(args: &[Value]) -> usize {
    let of = |value: &Value| value.as_usize().unwrap_or_default();
    let named = |value: &Value| {
        let keys = value.try_iter().ok().filter(|_| value.kind() == ValueKind::Map)?;
        keys.filter_map(|key| value.get_item(&key).ok()).map(|value| of(&value)).max()
    };
    args.iter().skip(1).map(|value| named(value).unwrap_or_else(|| of(value))).max().unwrap_or_default()
}

/// The filters whose result may be much larger than their arguments.
fn extra(name: &str) -> Extra {
    match name {
        "replace" => |args| match text(args, 1) {
            "" => (text(args, 0).len() + 1).saturating_mul(text(args, 2).len()),
            from => text(args, 0).matches(from).count().saturating_mul(text(args, 2).len()),
        },
        "indent" => |args| text(args, 0).lines().count().saturating_mul(number(args)),
        "join" => |args| args.first().and_then(Value::len).unwrap_or_default().saturating_mul(text(args, 1).len()),
        "batch" | "slice" => |args| number(args).saturating_mul(VALUE),
        // An indentation for each line of each level.
        "tojson" => |args| {
            args.first()
                .map_or(0, |value| look(value).unwrap_or_default())
                .saturating_mul(number(args).saturating_mul(8))
        },
        // Widths are written in the text.
        "format" => |args| {
            let digits = text(args, 0).split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
            digits.map(|number| number.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add).max(number(args))
        },
        _ => |_| 0,
    }
}

/// A filter that is charged for its arguments and its result.
fn add(environment: &mut Environment<'_>, name: &'static str, filter: Value) {
    let extra = extra(name);
    environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
        let args: Vec<Value> = args.into_values();
        let mut bytes = 0;
        for value in &args {
            bytes += look(value)?;
        }
        budget::make(bytes.saturating_add(extra(&args))).map_err(refused)?;
        filter.call(state, &args)
    });
}

/// Has the filters charged that make new values.
pub fn charge_filters(environment: &mut Environment<'_>) {
    macro_rules! charge {
        ($($name:ident)*) => {
            $(add(environment, stringify!($name), Value::from_function(filters::$name));)*
        };
    }
    charge!(batch capitalize chain dictsort format groupby indent items join lines list lower map pprint replace reverse slice
        sort split string sum title tojson trim unique upper zip);
}

/// A text that takes from the budget as it grows.
#[derive(Default)]
pub struct Text {
    pub bytes: Vec<u8>,
    limit: usize,
    /// More than the limit was written.
    pub is_full: bool,
}

impl Text {
    /// For so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    fn take(&mut self, text: &[u8]) -> Option<()> {
        self.is_full |= self.bytes.len().saturating_add(text.len()) > self.limit;
        if self.is_full || budget::work(1).and_then(|()| budget::make(text.len())).is_err() {
            return None;
        }
        self.bytes.extend_from_slice(text);
        Some(())
    }
}

impl io::Write for Text {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.take(text).map(|()| text.len()).ok_or_else(|| io::Error::other("a limit is reached"))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.take(text.as_bytes()).ok_or(fmt::Error)
    }
}
