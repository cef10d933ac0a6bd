//! The functions of this family without the feature `keys`: each call fails.

use crate::template::function::{Context, FnResult};
use crate::template::value::Value;

pub fn absent(_: &Context, _: &[Value]) -> FnResult {
    Err("this program was built without the feature `keys` of tillerman-render".into())
}

pub mod certificate {
    pub use super::absent as build_custom_cert;
    pub use super::absent as gen_ca;
    pub use super::absent as gen_self_signed;
    pub use super::absent as gen_signed;
}
pub mod encryption {
    pub use super::absent as decrypt;
    pub use super::absent as encrypt;
}
pub mod key {
    pub use super::absent as gen_private_key;
}
pub mod password {
    pub use super::absent as bcrypt;
    pub use super::absent as derive_password;
    pub use super::absent as htpasswd;
}
