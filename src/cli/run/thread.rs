//! Threads with a runtime of their own, for tasks that no pass may delay, even if passes block all threads of the main runtime.

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Starts a thread. It ends with the token, and so do the tasks that were spawned on it.
pub(super) fn start(name: &str, end: &CancellationToken) -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().thread_name(format!("{name}-work")).build()?;
    let (handle, end) = (runtime.handle().clone(), end.clone());
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(end.cancelled());
        runtime.shutdown_background();
    })?;
    Ok(handle)
}
