//! Check sums.

use super::args::bytes;
use super::fixed;
use crate::template::function::{Function, Param};
use crate::template::value::Value;
use sha2::Digest as _;
use std::fmt::Write as _;

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("sha1sum", &[S], |_, a| Ok(hex(&sha1::Sha1::digest(bytes(a, 0))))),
    fixed("sha256sum", &[S], |_, a| Ok(hex(&sha2::Sha256::digest(bytes(a, 0))))),
    fixed("sha512sum", &[S], |_, a| Ok(hex(&sha2::Sha512::digest(bytes(a, 0))))),
    fixed("adler32sum", &[S], |_, a| Ok(adler2::adler32_slice(bytes(a, 0)).to_string().into())),
];

fn hex(digest: &[u8]) -> Value {
    let mut out = String::with_capacity(digest.len() * 2);
    for byte in digest {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.into()
}
