//! Decimal numbers as shopspring's `decimal` counts with them: a whole number times a power of ten.

use crate::template::function::FnError;
use crate::template::go::number::format_float;
use num_bigint::BigInt;

/// Digits after the point that a division keeps.
const DIVISION_DIGITS: i64 = 16;
/// Larger exponents than a product of some floats can have would only eat memory.
const MAX_EXPONENT: u64 = 20_000;

/// `coefficient × 10^exponent`.
pub struct Decimal {
    coefficient: BigInt,
    exponent: i64,
}

impl Decimal {
    /// The shortest decimal that reads back as the float.
    pub fn of(f: f64) -> Result<Self, FnError> {
        if !f.is_finite() {
            return Err(format!("Cannot create a Decimal from {}", format_float(f, b'g', None)).into());
        }
        let shown = format_float(f, b'e', None);
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let coefficient = mantissa.replace('.', "").parse().unwrap_or_default();
        let fraction = i64::try_from(fraction).unwrap_or(0);
        Ok(Self { coefficient, exponent: exponent.parse::<i64>().unwrap_or(0) - fraction })
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        format!("{}e{}", self.coefficient, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// Both coefficients at the smaller exponent.
    fn aligned(&self, other: &Self) -> Result<(BigInt, BigInt, i64), FnError> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |d: &Self| Ok::<_, FnError>(&d.coefficient * power(d.exponent.abs_diff(exponent))?);
        Ok((scaled(self)?, scaled(other)?, exponent))
    }

    pub fn add(&self, other: &Self) -> Result<Self, FnError> {
        let (a, b, exponent) = self.aligned(other)?;
        Ok(Self { coefficient: a + b, exponent })
    }

    pub fn sub(&self, other: &Self) -> Result<Self, FnError> {
        let (a, b, exponent) = self.aligned(other)?;
        Ok(Self { coefficient: a - b, exponent })
    }

    pub fn mul(&self, other: &Self) -> Result<Self, FnError> {
        Ok(Self { coefficient: &self.coefficient * &other.coefficient, exponent: self.exponent + other.exponent })
    }

    /// Keeps sixteen digits after the point; a half is rounded away from zero.
    pub fn div(&self, other: &Self) -> Result<Self, FnError> {
        let zero = BigInt::ZERO;
        if other.coefficient == zero {
            return Err("decimal division by 0".into());
        }
        let shift = self.exponent - other.exponent + DIVISION_DIGITS;
        let scale = power(shift.unsigned_abs())?;
        let (a, b) = if shift >= 0 {
            (&self.coefficient * scale, other.coefficient.clone())
        } else {
            (self.coefficient.clone(), &other.coefficient * scale)
        };
        let mut quotient = &a / &b;
        let left = &a - &quotient * &b;
        if left.magnitude() * 2u32 >= *b.magnitude() {
            if (a < zero) == (b < zero) { quotient += 1 } else { quotient -= 1 }
        }
        Ok(Self { coefficient: quotient, exponent: -DIVISION_DIGITS })
    }
}

fn power(exponent: u64) -> Result<BigInt, FnError> {
    match u32::try_from(exponent) {
        Ok(small) if exponent <= MAX_EXPONENT => Ok(BigInt::from(10).pow(small)),
        _ => Err("decimal exponent out of range".into()),
    }
}
