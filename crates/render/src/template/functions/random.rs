//! Functions with random results. All randomness comes from the host.

use super::args::{bytes, int};
use super::fixed;
use crate::template::budget;
use crate::template::function::{Context, FnResult, Function, Param};
use crate::template::value::Value;
use base64::Engine as _;

use Param::{Int, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("randAlphaNum", &[Int], |c, a| random_string(c, a, |b| b.is_ascii_alphanumeric())),
    fixed("randAlpha", &[Int], |c, a| random_string(c, a, |b| b.is_ascii_alphabetic())),
    fixed("randNumeric", &[Int], |c, a| random_string(c, a, |b| b.is_ascii_digit())),
    fixed("randAscii", &[Int], |c, a| random_string(c, a, |b| matches!(b, b' '..=b'~'))),
    fixed("randBytes", &[Int], random_bytes),
    fixed("randInt", &[Int, Int], random_int),
    fixed("shuffle", &[S], shuffle),
    fixed("uuidv4", &[], uuid),
    fixed("getHostByName", &[S], |c, a| Ok(c.host.resolve(&String::from_utf8_lossy(bytes(a, 0))).into())),
];

/// Longer random strings have no use, and Go would try to make them.
const MAX_LENGTH: usize = 64 << 20;

/// Characters that fit. A negative length gives nothing, as in sprig.
fn random_string(context: &Context, args: &[Value], fits: fn(u8) -> bool) -> FnResult {
    let length = usize::try_from(int(args, 0)).unwrap_or(0);
    if length > MAX_LENGTH {
        return Err("runtime error: makeslice: len out of range".into());
    }
    budget::work_of(length / 4)?;
    budget::room(length)?;
    let alphabet: Vec<char> = (b' '..=b'~').filter(|&b| fits(b)).map(char::from).collect();
    let size = u64::try_from(alphabet.len()).unwrap_or(1);
    let mut text = String::with_capacity(length);
    let mut buffer = [0; 512];
    while text.len() < length {
        let wanted = ((length - text.len()) * 8).min(buffer.len());
        context.host.random(&mut buffer[..wanted]);
        text.extend(buffer[..wanted].chunks_exact(8).map(|bits| {
            let bits = bits.iter().fold(0u64, |sum, &b| sum << 8 | u64::from(b));
            alphabet[usize::try_from(scaled(bits, size)).unwrap_or(0)]
        }));
    }
    Ok(text.into())
}

/// A random number as one below the limit. Without a loop some are likelier than others, by 2^-50 and less.
fn scaled(bits: u64, limit: u64) -> u64 {
    u64::try_from((u128::from(bits) * u128::from(limit)) >> 64).unwrap_or(0)
}

fn random_bytes(context: &Context, args: &[Value]) -> FnResult {
    match usize::try_from(int(args, 0)) {
        Ok(length) if length <= MAX_LENGTH => {
            budget::work_of(length / 32)?;
            budget::room(length.saturating_mul(2))?;
            let mut buffer = vec![0; length];
            context.host.random(&mut buffer);
            Ok(base64::engine::general_purpose::STANDARD.encode(buffer).into())
        }
        _ => Err("runtime error: makeslice: len out of range".into()),
    }
}

/// A random number below the limit.
fn below(context: &Context, limit: u64) -> u64 {
    let mut buffer = [0; 8];
    context.host.random(&mut buffer);
    scaled(u64::from_le_bytes(buffer), limit)
}

fn random_int(context: &Context, args: &[Value]) -> FnResult {
    let (min, max) = (int(args, 0), int(args, 1));
    match u64::try_from(max.wrapping_sub(min)) {
        Ok(limit) if limit > 0 => Ok(Value::int(min.wrapping_add_unsigned(below(context, limit)))),
        _ => Err("invalid argument to Intn".into()),
    }
}

fn shuffle(context: &Context, args: &[Value]) -> FnResult {
    let mut all: Vec<char> = super::text::chars(bytes(args, 0)).collect();
    for i in (1..all.len()).rev() {
        let limit = u64::try_from(i).unwrap_or(0) + 1;
        all.swap(i, usize::try_from(below(context, limit)).unwrap_or(i));
    }
    Ok(all.into_iter().collect::<String>().into())
}

/// Version 4 of RFC 9562.
fn uuid(context: &Context, _: &[Value]) -> FnResult {
    let mut buffer = [0; 16];
    context.host.random(&mut buffer);
    let bits = u128::from_be_bytes(buffer);
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into())
}
