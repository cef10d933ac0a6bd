//! What the functions of this family read: the randomness of the host, and arguments.

use crate::template::function::Context;
use crate::template::value::Value;
use std::convert::Infallible;

/// The host's randomness as the cryptography crates ask for it.
pub struct Random<'c>(pub &'c Context);

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
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.host.random(&mut bytes);
        bytes
    }
}

/// A `string` argument.
pub fn string(args: &[Value], i: usize) -> &[u8] {
    match args.get(i) {
        Some(Value::Str(s)) => s.bytes(),
        _ => &[],
    }
}

/// An integer argument; an unsigned one has its bits.
pub fn integer(args: &[Value], i: usize) -> i64 {
    match args.get(i) {
        Some(Value::Int(_, i)) => *i,
        _ => 0,
    }
}

/// The items of a `[]interface {}`; a nil slice has none.
pub fn items(args: &[Value], i: usize) -> &[Value] {
    match args.get(i) {
        Some(Value::List(list)) => &list.items,
        _ => &[],
    }
}
