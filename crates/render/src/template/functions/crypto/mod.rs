//! Passwords, encryption, keys and certificates: as sprig's `crypto.go` behaves.
//!
//! All randomness comes from the host and so does the clock, so a rendering with a seeded host can be repeated.

mod certificate;
mod encryption;
mod key;
mod password;
mod pem;
#[cfg(test)]
mod tests;

use crate::template::function::{Context, Function, Param};
use crate::template::value::Value;
use std::convert::Infallible;

use Param::{Int as I, List as L, Str as S};

/// sprig's type of a certificate, as `%T` prints it.
const CERTIFICATE: Param = Param::Named(certificate::TYPE_NAME);

/// The functions of this family.
pub static FUNCTIONS: &[Function] = &[
    Function { name: "bcrypt", params: &[S], variadic: false, run: password::bcrypt },
    Function { name: "htpasswd", params: &[S, S], variadic: false, run: password::htpasswd },
    Function {
        name: "derivePassword",
        params: &[Param::Named("uint32"), S, S, S, S],
        variadic: false,
        run: password::derive_password,
    },
    Function { name: "encryptAES", params: &[S, S], variadic: false, run: encryption::encrypt },
    Function { name: "decryptAES", params: &[S, S], variadic: false, run: encryption::decrypt },
    Function { name: "genPrivateKey", params: &[S], variadic: false, run: key::gen_private_key },
    Function { name: "buildCustomCert", params: &[S, S], variadic: false, run: certificate::build_custom_cert },
    Function { name: "genCA", params: &[S, I], variadic: false, run: certificate::gen_ca },
    Function { name: "genCAWithKey", params: &[S, I, S], variadic: false, run: certificate::gen_ca },
    Function { name: "genSelfSignedCert", params: &[S, L, L, I], variadic: false, run: certificate::gen_self_signed },
    Function {
        name: "genSelfSignedCertWithKey",
        params: &[S, L, L, I, S],
        variadic: false,
        run: certificate::gen_self_signed,
    },
    Function {
        name: "genSignedCert",
        params: &[S, L, L, I, CERTIFICATE],
        variadic: false,
        run: certificate::gen_signed,
    },
    Function {
        name: "genSignedCertWithKey",
        params: &[S, L, L, I, CERTIFICATE, S],
        variadic: false,
        run: certificate::gen_signed,
    },
];

/// The host's randomness as the cryptography crates ask for it.
struct Random<'c>(&'c Context);

impl rand_core::TryRng for Random<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.bytes()))
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.bytes()))
    }
    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        self.0.host.random(buffer);
        Ok(())
    }
}
impl rand_core::TryCryptoRng for Random<'_> {}

impl Random<'_> {
    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.host.random(&mut bytes);
        bytes
    }
}

/// A `string` argument.
fn string(args: &[Value], i: usize) -> &[u8] {
    match args.get(i) {
        Some(Value::Str(s)) => s.bytes(),
        _ => &[],
    }
}

/// An integer argument; an unsigned one has its bits.
fn integer(args: &[Value], i: usize) -> i64 {
    match args.get(i) {
        Some(Value::Int(_, i)) => *i,
        _ => 0,
    }
}

/// The items of a `[]interface {}`; a nil slice has none.
fn items(args: &[Value], i: usize) -> &[Value] {
    match args.get(i) {
        Some(Value::List(list)) => &list.items,
        _ => &[],
    }
}
