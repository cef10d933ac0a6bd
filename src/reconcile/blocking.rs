//! Runs slow work outside the threads that run passes.

use super::error::Error;

/// Runs a slow function outside the threads that run passes.
pub async fn off<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(run).await;
    ended.map_err(|_| Error::Renderer("reading failed with an internal error".to_owned()))
}
