//! The signals that end the program.

/// Ends with the first SIGTERM or SIGINT after the call: after that, they no longer end the process.
///
/// # Errors
/// When the operating system refuses a handler of signals.
pub fn asked_to_end() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    /// A signal that comes before anybody waits for it would end this process.
    #[tokio::test]
    async fn a_signal_before_the_first_await_is_heard() {
        let asked = super::asked_to_end().unwrap();
        let itself = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &itself]).status().unwrap().success());
        asked.await;
    }
}
