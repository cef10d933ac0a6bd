//! The surroundings that a command or the operator gives to a rendering: randomness, the clock, and names.

use crate::render::Options;
use crate::template::function::{FnResult, Host};
use crate::template::value::Value;
use std::net::ToSocketAddrs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The operating system's randomness and clock; no cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct System {
    /// Whether `getHostByName` resolves names with the system's resolver; if not, it returns an empty string, as in
    /// Helm.
    pub dns: bool,
    /// How far its clock is ahead of the system's. Everything that a chart derives from the time differs then.
    pub ahead: Duration,
}

impl Host for System {
    fn random(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system has randomness");
    }
    fn now(&self) -> i128 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from((elapsed + self.ahead).as_nanos()).unwrap_or(i128::MAX)
    }
    fn lookup(&self, _api_version: &str, _kind: &str, _namespace: &str, _name: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, name: &str) -> String {
        // The port does not matter, but the function requires one.
        let mut addresses = self.dns.then(|| (name, 0).to_socket_addrs().ok()).flatten().into_iter().flatten();
        addresses.next().map(|address| address.ip().to_string()).unwrap_or_default()
    }
}

/// Options of a rendering in the surroundings of [`System`].
pub fn options() -> Options {
    Options::new(System::default())
}
