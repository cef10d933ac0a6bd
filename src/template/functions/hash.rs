//! Check sums and password hashes.

use super::args::{bytes, string};
use super::fixed;
use crate::template::function::{Context, FnResult, Function, Param};
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
    fixed("bcrypt", &[S], |c, a| Ok(bcrypt(c, bytes(a, 0)).into())),
    fixed("htpasswd", &[S, S], htpasswd),
];

/// Go's `bcrypt.DefaultCost`.
const COST: u32 = 10;

fn hex(digest: &[u8]) -> Value {
    let mut out = String::with_capacity(digest.len() * 2);
    for byte in digest {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.into()
}

fn bcrypt(context: &Context, password: &[u8]) -> String {
    if password.len() > 72 {
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".into();
    }
    let mut salt = [0; 16];
    context.host.random(&mut salt);
    match bcrypt::hash_with_salt(password, COST, salt) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(e) => format!("failed to encrypt string with bcrypt: {e}"),
    }
}

fn htpasswd(context: &Context, args: &[Value]) -> FnResult {
    let user = string(args, 0);
    if user.contains(':') {
        return Ok(format!("invalid username: {user}").into());
    }
    Ok(format!("{user}:{}", bcrypt(context, bytes(args, 1))).into())
}
