//! Harm that tests do to the operator from inside: points at which it panics, ends a task, blocks a thread or waits for ever.
//!
//! All of it exists only with the feature `cluster-tests`. Without it every point is empty and every setting is its default.
//!
//! The file that the environment variable `TILLERMAN_HARM` names has a line for each harm, `WHAT POINT NAME`, such as
//! `panic pass app` or `block pass app 20`. It is read at each point, so a test can change it while the operator runs.

use std::time::Duration;

/// Does what the test wants at this point. `true` when the task shall end.
#[cfg(feature = "cluster-tests")]
pub async fn at(point: &str, name: &str) -> bool {
    let Some(file) = std::env::var_os("TILLERMAN_HARM") else { return false };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        // Names of tasks have spaces.
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

/// A duration that tests cannot wait for: of the environment variable, in milliseconds, or else this one.
#[cfg(feature = "cluster-tests")]
pub fn setting(variable: &str, default: Duration) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.map_or(default, Duration::from_millis)
}

/// This duration.
#[cfg(not(feature = "cluster-tests"))]
pub fn setting(_variable: &str, default: Duration) -> Duration {
    default
}
