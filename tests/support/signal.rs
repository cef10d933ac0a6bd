//! Signals to processes.

use std::process::Command;
use std::time::{Duration, Instant};

/// Sends a signal, such as `STOP`, to a process; whether there is one. One that is to stop has done so when this returns: the kernel
/// notifies one of its threads, which notifies the others. Until it gets its turn on a busy machine, they keep running.
pub fn signal(process: u32, signal: &str) -> bool {
    let sent = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    let sent = sent.expect("kill is there").success();
    let since = Instant::now();
    while sent && signal == "STOP" && !has_stopped(process) {
        assert!(since.elapsed() < Duration::from_secs(30), "process {process} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Whether no thread of a process runs, or the process has ended.
fn has_stopped(process: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return true };
    let state = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before it is in brackets, and may have brackets in it.
        text.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    threads.flatten().all(|thread| matches!(state(thread), None | Some('T' | 'Z' | 'X')))
}
