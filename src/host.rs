//! The surroundings that a command gives to a rendering: randomness and the clock.

use crate::render::{Limits, Options};
use crate::template::function::{FnResult, Host};
use crate::template::value::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The operating system's randomness and clock; no cluster and no DNS.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Host for System {
    fn random(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system has randomness");
    }
    fn now(&self) -> i128 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX)
    }
    fn lookup(&self, _api_version: &str, _kind: &str, _namespace: &str, _name: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _name: &str) -> String {
        String::new()
    }
}

/// Options of a rendering with [`System`] around it.
pub fn options() -> Options {
    Options { skip_schema: false, host: Arc::new(System), limits: Limits::default() }
}
