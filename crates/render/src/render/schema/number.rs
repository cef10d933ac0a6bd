//! Numbers of any size, exactly, and their text in English.

use crate::template::functions::json::Number;
use crate::template::go::number::format_float;
use crate::template::value::Value;
use num_bigint::BigInt;
use std::cmp::Ordering;

/// Larger exponents are not calculated with.
const MAX_EXPONENT: i64 = 10_000;

/// `mantissa × 10^exponent`
#[derive(Clone, Debug)]
pub struct Decimal {
    mantissa: BigInt,
    exponent: i64,
}

/// A number's text, as it was written or as Go prints it.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Int(_, i) => Some(i.to_string()),
        Value::Float(f) if f.is_finite() => Some(format_float(*f, b'g', None)),
        Value::Object(object) => object.as_any().downcast_ref::<Number>().map(|n| n.0.clone()),
        _ => None,
    }
}

impl Decimal {
    /// The number that a value is.
    pub fn of(value: &Value) -> Option<Self> {
        let text = text(value)?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent = exponent.parse::<i64>().ok().filter(|e| e.abs() <= MAX_EXPONENT)?;
        let mantissa = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { mantissa, exponent: exponent - i64::try_from(fraction.len()).ok()? })
    }

    /// Both mantissas for the smaller exponent of the two.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt) {
        let least = self.exponent.min(other.exponent);
        let scaled = |d: &Self| {
            let power = u32::try_from(d.exponent - least).unwrap_or(0);
            &d.mantissa * BigInt::from(10).pow(power)
        };
        (scaled(self), scaled(other))
    }

    /// Whether the number is a multiple of another. No number is a multiple of zero.
    pub fn is_multiple_of(&self, other: &Self) -> bool {
        let (a, b) = self.aligned(other);
        let zero = BigInt::ZERO;
        b != zero && a % b == zero
    }

    /// Whether the number is whole.
    pub fn is_integer(&self) -> bool {
        self.is_multiple_of(&Self { mantissa: 1.into(), exponent: 0 })
    }

    /// The number, if it is whole and fits.
    pub fn to_integer(&self) -> Option<i64> {
        if !self.is_integer() {
            return None;
        }
        let (a, one) = self.aligned(&Self { mantissa: 1.into(), exponent: 0 });
        (a / one).try_into().ok()
    }

    fn to_f64(&self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Decimal {}
impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = self.aligned(other);
        a.cmp(&b)
    }
}

/// `golang.org/x/text/message` writes a float so in English: `1,234.5`, `1.5×10⁰⁶`.
impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = format_float(self.to_f64(), b'e', None);
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let power: i32 = exponent.parse().unwrap_or(0);
        if self.mantissa == BigInt::ZERO {
            return f.write_str("0");
        }
        if self.to_f64().is_infinite() {
            return f.write_str(if self.to_f64() < 0.0 { "-∞" } else { "∞" });
        }
        if (-4..6).contains(&power) {
            return f.write_str(&grouped(&format_float(self.to_f64(), b'f', None)));
        }
        let raised = |c: char| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            _ => c.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(c),
        };
        let sign = if power < 0 { "-" } else { "" };
        let digits: String = format!("{sign}{:02}", power.abs()).chars().map(raised).collect();
        write!(f, "{mantissa}×10{digits}")
    }
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let (sign, rest) = digits.split_at(usize::from(digits.starts_with('-')));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// An integer in English.
pub fn count(n: impl TryInto<i64>) -> String {
    grouped(&n.try_into().unwrap_or(i64::MAX).to_string())
}
