//! Passwords, encryption, keys and certificates: as sprig's `crypto.go` behaves.
//!
//! All randomness comes from the host and so does the clock, so a rendering with a seeded host can be repeated.

#[cfg(not(feature = "keys"))]
mod absent;
#[cfg(feature = "keys")]
mod certificate;
#[cfg(feature = "keys")]
mod encryption;
#[cfg(feature = "keys")]
mod inputs;
#[cfg(feature = "keys")]
mod key;
#[cfg(feature = "keys")]
mod password;
#[cfg(feature = "keys")]
mod pem;
#[cfg(all(test, feature = "keys"))]
mod tests;

use crate::template::function::{Function, Param};
use Param::{Int as I, List as L, Str as S};
#[cfg(not(feature = "keys"))]
use absent::{certificate, encryption, key, password};

const CERTIFICATE: Param = Param::Named(CERTIFICATE_TYPE);
/// sprig's type of a certificate, as `%T` prints it.
const CERTIFICATE_TYPE: &str = "sprig.certificate";

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
