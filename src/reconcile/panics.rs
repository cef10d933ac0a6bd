//! Handles panics. A panic in a pass is a failure of its custom resource; a panic in a task ends the process. The log
//! shows the place of the panic, but not its message, since the message may contain values.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo};

use futures::FutureExt as _;

thread_local! {
    /// The place of this thread's last panic.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Installs a panic hook that logs the place of each panic. The default hook would print the message past the log and
/// its masks.
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let place = place(panic);
        // A `&'static str` is text from the source code. A message that contains values has another type.
        let what = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("its message is not shown");
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => backtrace.to_string(),
            _ => String::new(),
        };
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(place, what, thread, backtrace, "panic: a fault of the operator");
        PLACE.with_borrow_mut(|last| *last = place);
    }));
}

/// File, line and column. For a file of another crate the path starts at the crate, so that it is the same on every
/// machine.
fn place(panic: &PanicHookInfo<'_>) -> String {
    let Some(location) = panic.location() else { return "an unknown place".to_owned() };
    let file = location.file();
    let file =
        file.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/')).map_or(file, |(_, rest)| rest);
    format!("{file}:{}:{}", location.line(), location.column())
}

/// Runs a future to its end. Returns an error with the place if the future panics.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    // Code that takes a lock ignores that an earlier holder panicked, and the guarded data is consistent after each
    // statement.
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| {
        let place = PLACE.with_borrow_mut(std::mem::take);
        if place.is_empty() { "an unknown place".to_owned() } else { place }
    })
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_next_future_runs() {
        assert!(caught(async { panic!("here") }).await.is_err());
        assert_eq!(caught(async { 1 }).await, Ok(1));
    }
}
