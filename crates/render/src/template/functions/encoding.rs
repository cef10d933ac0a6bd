//! Base64 and base32. A text that cannot be decoded becomes the text of the error, as sprig has it.

use super::args::bytes;
use super::fixed;
use crate::template::function::{Context, FnResult, Function, Param};
use crate::template::value::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("b64enc", &[S], |_, a| Ok(encode(bytes(a, 0)).into())),
    fixed("b64dec", &[S], b64dec),
    fixed("b32enc", &[S], |_, a| Ok(data_encoding::BASE32.encode(bytes(a, 0)).into())),
    fixed("b32dec", &[S], b32dec),
];

/// The position of a byte that is not base64, in Go's words.
#[derive(Debug, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct Base64Error(usize);

/// Most texts are well formed; the others are read again as Go does, which skips line breaks, ignores
/// the last bits, and names the place of an error.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, Base64Error> {
    STANDARD.decode(text).or_else(|_| base64_bytes(text)).map_err(Base64Error)
}

/// The standard alphabet with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn b64dec(_: &Context, args: &[Value]) -> FnResult {
    Ok(decode(bytes(args, 0)).map_or_else(|e| e.to_string().into(), Value::str))
}

fn base64_digit(byte: u8) -> Option<u32> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(digit.into())
}

/// Go's `decodeQuantum` in a loop; the error is the position.
fn base64_bytes(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let is_break = |at: usize| matches!(text.get(at), Some(b'\n' | b'\r'));
    let mut at = 0;
    loop {
        let (mut digits, mut count) = (0u32, 0usize);
        let mut padded = false;
        while count < 4 {
            let Some(&byte) = text.get(at) else {
                return if count == 0 { Ok(out) } else { Err(at - count) };
            };
            at += 1;
            if let Some(digit) = base64_digit(byte) {
                digits = digits << 6 | digit;
                count += 1;
            } else if byte == b'\n' || byte == b'\r' {
            } else if byte != b'=' || count < 2 {
                return Err(at - 1);
            } else {
                padded = true;
                break;
            }
        }
        if padded && count == 2 {
            while is_break(at) {
                at += 1;
            }
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        let [_, bytes @ ..] = (digits << (6 * (4 - count))).to_be_bytes();
        out.extend_from_slice(&bytes[..count - 1]);
        if padded {
            while is_break(at) {
                at += 1;
            }
            return if at < text.len() { Err(at) } else { Ok(out) };
        }
    }
}

fn b32dec(_: &Context, args: &[Value]) -> FnResult {
    let text: Vec<u8> = bytes(args, 0).iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    Ok(match base32_bytes(&text) {
        Ok(decoded) => Value::str(decoded),
        Err(at) => format!("illegal base32 data at input byte {at}").into(),
    })
}

/// Go's base32 decoder; the error is the position.
fn base32_bytes(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    while at < text.len() {
        let (mut digits, mut count) = (0u64, 0usize);
        while count < 8 {
            let Some(&byte) = text.get(at) else { return Err(text.len() - count) };
            at += 1;
            let left = text.len() - at;
            if byte == b'=' && count >= 2 && left < 8 {
                if left + count < 7 {
                    return Err(text.len());
                }
                if let Some(k) = (0..7 - count).find(|k| text.get(at + k).is_some_and(|&b| b != b'=')) {
                    return Err(at + k - 1);
                }
                if matches!(count, 3 | 6) {
                    return Err(at - 1);
                }
                at = text.len();
                break;
            }
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'2'..=b'7' => byte - b'2' + 26,
                _ => return Err(at - 1),
            };
            digits = digits << 5 | u64::from(digit);
            count += 1;
        }
        let [_, _, _, bytes @ ..] = (digits << (5 * (8 - count))).to_be_bytes();
        out.extend_from_slice(&bytes[..count * 5 / 8]);
    }
    Ok(out)
}
