//! Runs slow work outside the threads that run passes.

use super::error::Error;
use super::journal;

/// Runs a slow function outside the threads that run passes.
pub async fn off<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let working = journal::current();
    let ended = tokio::task::spawn_blocking(move || {
        let _working = working;
        run()
    });
    let ended = ended.await;
    ended.map_err(|_| Error::Renderer("reading failed with an internal error".to_owned()))
}
