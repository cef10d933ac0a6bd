//! Arithmetic: sprig turns every argument into an `int64` or `float64` first.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "Go's conversions between number types round and cut in the same way"
)]

use super::args::{any, bytes, int, rest};
use super::decimal::Decimal;
use super::number::{self, to_float64, to_int64};
use super::{fixed, text, variadic};
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::go::number::scaled;
use crate::template::value::{Elem, IntType, Items, List, Room, Value};

use Param::{Any, Float, Int, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("atoi", &[S], |_, a| Ok(Value::int(atoi(bytes(a, 0))))),
    fixed("int", &[Any], |_, a| Ok(Value::int(to_int64(any(a, 0))))),
    fixed("int64", &[Any], |_, a| Ok(int64(to_int64(any(a, 0))))),
    fixed("float64", &[Any], |_, a| Ok(to_float64(any(a, 0)).into())),
    fixed("toDecimal", &[Any], to_decimal),
    fixed("add1", &[Any], |_, a| Ok(int64(to_int64(any(a, 0)).wrapping_add(1)))),
    variadic("add", &[Any], |_, a| Ok(int64(a.iter().map(to_int64).fold(0, i64::wrapping_add)))),
    fixed("sub", &[Any, Any], |_, a| Ok(int64(to_int64(any(a, 0)).wrapping_sub(to_int64(any(a, 1)))))),
    fixed("div", &[Any, Any], |_, a| divide(a, i64::wrapping_div)),
    fixed("mod", &[Any, Any], |_, a| divide(a, i64::wrapping_rem)),
    variadic("mul", &[Any, Any], |_, a| Ok(int64(a.iter().map(to_int64).fold(1, i64::wrapping_mul)))),
    variadic("max", &[Any, Any], |_, a| Ok(int64(a.iter().map(to_int64).max().unwrap_or(0)))),
    variadic("biggest", &[Any, Any], |_, a| Ok(int64(a.iter().map(to_int64).max().unwrap_or(0)))),
    variadic("min", &[Any, Any], |_, a| Ok(int64(a.iter().map(to_int64).min().unwrap_or(0)))),
    variadic("maxf", &[Any, Any], |_, a| Ok(a.iter().map(to_float64).reduce(larger).unwrap_or(0.0).into())),
    variadic("minf", &[Any, Any], |_, a| Ok(a.iter().map(to_float64).reduce(smaller).unwrap_or(0.0).into())),
    fixed("add1f", &[Any], |_, a| decimal(any(a, 0), &[Value::int(1)], Decimal::add)),
    variadic("addf", &[Any], |_, a| decimal(&Value::Float(0.0), a, Decimal::add)),
    variadic("subf", &[Any, Any], |_, a| decimal(any(a, 0), rest(a, 1), Decimal::sub)),
    variadic("mulf", &[Any, Any], |_, a| decimal(any(a, 0), rest(a, 1), Decimal::mul)),
    variadic("divf", &[Any, Any], |_, a| decimal(any(a, 0), rest(a, 1), Decimal::div)),
    fixed("ceil", &[Any], |_, a| Ok(to_float64(any(a, 0)).ceil().into())),
    fixed("floor", &[Any], |_, a| Ok(to_float64(any(a, 0)).floor().into())),
    variadic("round", &[Any, Int, Float], round),
    fixed("until", &[Int], |_, a| ints(range(0, int(a, 0), if int(a, 0) < 0 { -1 } else { 1 })?)),
    fixed("untilStep", &[Int, Int, Int], |_, a| ints(range(int(a, 0), int(a, 1), int(a, 2))?)),
    variadic("seq", &[Int], seq),
];

/// Go would take all memory for more; this many numbers are beyond any chart.
const MAX_RANGE: i128 = 10_000_000;

fn int64(i: i64) -> Value {
    Value::Int(IntType::Int64, i)
}

/// `strconv.Atoi` without its error: 0 for a text that is not a number, the nearest `int` for a number that is too
/// large.
fn atoi(text: &[u8]) -> i64 {
    let Ok(text) = std::str::from_utf8(text) else { return 0 };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return 0;
    }
    text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX })
}

/// Octal digits, as of a file mode.
fn to_decimal(_: &Context, args: &[Value]) -> FnResult {
    let shown = text::verb_v(any(args, 0))?;
    Ok(int64(std::str::from_utf8(&shown).ok().and_then(|s| number::parse_int(s, 8)).unwrap_or(0)))
}

fn divide(args: &[Value], op: fn(i64, i64) -> i64) -> FnResult {
    match to_int64(any(args, 1)) {
        0 => Err("runtime error: integer divide by zero".into()),
        divisor => Ok(int64(op(to_int64(any(args, 0)), divisor))),
    }
}

/// Go's `math.Max`: not a number if either is, and -0 below 0.
fn larger(a: f64, b: f64) -> f64 {
    match () {
        () if a == f64::INFINITY || b == f64::INFINITY => f64::INFINITY,
        () if a.is_nan() || b.is_nan() => f64::NAN,
        () if a == 0.0 && b == 0.0 => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        () => a.max(b),
    }
}

/// Go's `math.Min`.
fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// sprig counts in decimals, so that `addf 0.1 0.2` is 0.3.
fn decimal(first: &Value, others: &[Value], op: fn(&Decimal, &Decimal) -> Result<Decimal, FnError>) -> FnResult {
    let mut sum = Decimal::of(to_float64(first))?;
    for other in others {
        sum = op(&sum, &Decimal::of(to_float64(other))?)?;
    }
    Ok(sum.to_f64().into())
}

/// Rounds up from the fraction 0.5 or the one given on; negative numbers, having negative fractions, go down.
fn round(_: &Context, args: &[Value]) -> FnResult {
    let up_from = match rest(args, 2).first() {
        Some(Value::Float(f)) => *f,
        _ => 0.5,
    };
    let power = power_of_ten(int(args, 1));
    let digit = power * to_float64(any(args, 0));
    let rounded = if digit.fract() >= up_from { digit.ceil() } else { digit.floor() };
    Ok((rounded / power).into())
}

/// Ten to this power as Go's `math.Pow` computes it, by squaring: from 10^23 on that is not the nearest number.
fn power_of_ten(exponent: i64) -> f64 {
    let size = (exponent as f64).abs();
    if size >= 2f64.powi(63) {
        return if exponent > 0 { f64::INFINITY } else { 0.0 };
    }
    let (mut square, mut square_exponent) = (0.625, 4);
    let (mut fraction, mut binary) = (1.0, 0);
    let mut left = size as i64;
    while left != 0 {
        if square_exponent > 1 << 12 {
            binary += square_exponent;
            break;
        }
        if left & 1 == 1 {
            fraction *= square;
            binary += square_exponent;
        }
        square *= square;
        square_exponent <<= 1;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        left >>= 1;
    }
    if exponent < 0 { scaled(1.0 / fraction, -binary) } else { scaled(fraction, binary) }
}

/// sprig's `untilStep`.
fn range(start: i64, end: i64, step: i64) -> Result<Vec<i64>, FnError> {
    let distance = i128::from(end) - i128::from(start);
    if step == 0 || distance == 0 || (distance < 0) != (step < 0) {
        return Ok(Vec::new());
    }
    let count = (distance.abs() - 1) / i128::from(step).abs() + 1;
    if count > MAX_RANGE {
        return Err("runtime error: makeslice: len out of range".into());
    }
    budget::elements(usize::try_from(count).unwrap_or(usize::MAX))?;
    Ok((0..count as i64).map(|i| start.wrapping_add(i.wrapping_mul(step))).collect())
}

fn ints(numbers: Vec<i64>) -> FnResult {
    let items = Items::with_room(numbers.into_iter().map(Value::int).collect(), Room::Grown(0));
    Ok(Value::List(List { elem: Elem::Int, items }))
}

fn seq(_: &Context, args: &[Value]) -> FnResult {
    let towards = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let numbers = match args.len() {
        1 => {
            let step = towards(1, int(args, 0));
            range(1, int(args, 0).wrapping_add(step), step)?
        }
        2 => {
            let step = towards(int(args, 0), int(args, 1));
            range(int(args, 0), int(args, 1).wrapping_add(step), step)?
        }
        3 => {
            let (start, step, end) = (int(args, 0), int(args, 1), int(args, 2));
            if end < start && step > 0 {
                return Ok("".into());
            }
            range(start, end.wrapping_add(towards(start, end)), step)?
        }
        _ => return Ok("".into()),
    };
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(words.join(" ").into())
}
