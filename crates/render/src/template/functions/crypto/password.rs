//! `bcrypt`, `htpasswd` and `derivePassword`.

use super::inputs::{Random, integer, string};
use crate::template::budget;
use crate::template::function::{Context, FnResult};
use crate::template::value::Value;
use ::bcrypt::Version;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The cost of `golang.org/x/crypto/bcrypt.DefaultCost`.
const BCRYPT_COST: u32 = 10;
/// Go refuses longer passwords, where most programs cut them.
const BCRYPT_MAX: usize = 72;

/// The first part of everything that the Master Password algorithm hashes.
const MASTER_PASSWORD: &[u8] = b"com.lyndir.masterpassword";

/// Steps to charge for a hash and for a derived password.
const BCRYPT_STEPS: u64 = 1_000_000;
const SCRYPT_STEPS: u64 = 5_000_000;

pub fn bcrypt(ctx: &Context, args: &[Value]) -> FnResult {
    budget::work(BCRYPT_STEPS)?;
    Ok(hash(ctx, string(args, 0)).into())
}

pub fn htpasswd(ctx: &Context, args: &[Value]) -> FnResult {
    budget::work(BCRYPT_STEPS)?;
    let user = string(args, 0);
    if user.contains(&b':') {
        return Ok(Value::str([b"invalid username: ", user].concat()));
    }
    Ok(Value::str([user, b":", hash(ctx, string(args, 1)).as_bytes()].concat()))
}

/// An error becomes text, too: sprig puts it in place of the hash.
fn hash(ctx: &Context, password: &[u8]) -> String {
    const FAILED: &str = "failed to encrypt string with bcrypt";
    if password.len() > BCRYPT_MAX {
        return format!("{FAILED}: bcrypt: password length exceeds {BCRYPT_MAX} bytes");
    }
    match ::bcrypt::hash_with_salt(password, BCRYPT_COST, Random(ctx).bytes()) {
        Ok(parts) => parts.format_for_version(Version::TwoA),
        Err(error) => format!("{FAILED}: {error}"),
    }
}

/// The Master Password algorithm, with the counter, the type and the secrets in sprig's order.
pub fn derive_password(_: &Context, args: &[Value]) -> FnResult {
    budget::work(SCRYPT_STEPS)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "Go's uint32 keeps the low bits")]
    let counter = integer(args, 0) as u32;
    let (kind, password, user, site) = (string(args, 1), string(args, 2), string(args, 3), string(args, 4));
    let Some(templates) = templates(kind) else {
        return Ok(Value::str([b"cannot find password template ", kind].concat()));
    };

    let params = scrypt::Params::new(15, 8, 2).expect("the parameters are constants in range");
    let mut key = [0; 64];
    let salt = [MASTER_PASSWORD, &length(user), user].concat();
    if let Err(error) = scrypt::scrypt(password, &salt, &params, &mut key) {
        return Ok(format!("failed to derive password: {error}").into());
    }

    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    for part in [MASTER_PASSWORD, &length(site), site, &counter.to_be_bytes()] {
        mac.update(part);
    }
    let [first, seed @ ..]: [u8; 32] = mac.finalize().into_bytes().into();
    let template = templates[usize::from(first) % templates.len()];
    let derived = template.bytes().zip(seed).map(|(class, seed)| {
        let class = characters(class);
        class[usize::from(seed) % class.len()]
    });
    Ok(Value::str(derived.collect::<Vec<u8>>()))
}

/// The length of a text as four bytes; Go's conversion to `uint32` keeps the low bits.
fn length(text: &[u8]) -> [u8; 4] {
    #[expect(clippy::cast_possible_truncation, reason = "as Go")]
    let length = text.len() as u32;
    length.to_be_bytes()
}

/// The shapes of a type's passwords; a letter represents a class of [`characters`]. From the algorithm's definition.
fn templates(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

fn characters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}
