//! Base64 as Go's `base64.StdEncoding` reads it: line breaks anywhere, padding required, spare bits ignored.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The text of bytes.
pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// The bytes of a text, or Go's `CorruptInputError` with the offset at which Go stops.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let dense: Vec<u8> = text.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    ENGINE.decode(dense).map_err(|_| format!("illegal base64 data at input byte {}", fault(text)))
}

/// Where Go finds the fault of a text that is known to have one (`decodeQuantum` in `encoding/base64`).
fn fault(text: &[u8]) -> usize {
    let mut significant = text.iter().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n'));
    loop {
        let mut digits = 0;
        while digits < 4 {
            match significant.next() {
                // Go counts back by the digits it has, whatever line breaks lie between them.
                None => return text.len() - digits,
                Some((_, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/')) => digits += 1,
                Some((_, b'=')) if digits == 2 => {
                    return match significant.next() {
                        None => text.len(),
                        Some((_, b'=')) => significant.next().map_or(text.len(), |(at, _)| at),
                        Some((at, _)) => at,
                    };
                }
                Some((_, b'=')) if digits == 3 => return significant.next().map_or(text.len(), |(at, _)| at),
                Some((at, _)) => return at,
            }
        }
    }
}
