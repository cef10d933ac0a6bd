//! Fault injection for tests: points at which the operator panics, ends a task, blocks a thread or waits for ever.
//!
//! All of it exists only with the feature `cluster-tests`. Without it every point is empty and every setting is its default.
//!
//! The environment variable `TILLERMAN_HARM` names a file with a line for each fault, `WHAT POINT NAME`, such as
//! `panic pass app` or `block pass app 20`. It is read at each point, so a test can change it while the operator runs.

use std::time::Duration;

/// Injects the fault that the test asks for at this point. Returns `true` if the task has to end.
#[cfg(feature = "cluster-tests")]
pub async fn at(point: &str, name: &str) -> bool {
    let Some(file) = std::env::var_os("TILLERMAN_HARM") else { return false };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        // Names of tasks can contain spaces.
        let Some((what, of)) = line.split_once(' ') else { continue };
        let Some(rest) = of.strip_prefix(point).and_then(|rest| rest.trim_start().strip_prefix(name)) else { continue };
        match what {
            "panic" if rest.is_empty() => panic!("the test wants it"),
            "end" if rest.is_empty() => return true,
            "hang" if rest.is_empty() => std::future::pending().await,
            "block" => std::thread::sleep(Duration::from_secs(rest.trim().parse().unwrap_or(20))),
            _ => {}
        }
    }
    false
}

/// Does nothing.
#[cfg(not(feature = "cluster-tests"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
pub async fn at(_point: &str, _name: &str) -> bool {
    false
}

/// Whether the limits of hostile inputs are off, so that a test sees what happens when one is missing.
#[cfg(feature = "cluster-tests")]
pub fn is_unlimited() -> bool {
    static UNLIMITED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("TILLERMAN_HARM_UNLIMITED").is_some());
    *UNLIMITED
}

/// Limits are always on.
#[cfg(not(feature = "cluster-tests"))]
pub fn is_unlimited() -> bool {
    false
}

/// A duration that is too long for tests: the value of the environment variable in milliseconds, if set, or the
/// default.
#[cfg(feature = "cluster-tests")]
pub fn setting(variable: &str, default: Duration) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.map_or(default, Duration::from_millis)
}

/// Returns the default.
#[cfg(not(feature = "cluster-tests"))]
pub fn setting(_variable: &str, default: Duration) -> Duration {
    default
}
