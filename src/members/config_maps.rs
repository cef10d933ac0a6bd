//! The `ConfigMap` that the containers of members read when they start. It belongs to the driver.

use std::collections::BTreeMap;
use std::future::Future;

/// Reads and writes the `ConfigMap`.
pub trait ConfigMaps: Send + Sync {
    /// Reads its data; `None` if it does not exist. The error says what is wrong.
    fn read(&self) -> impl Future<Output = Result<Option<BTreeMap<String, String>>, String>> + Send;

    /// Writes this data.
    fn write(&self, data: BTreeMap<String, String>) -> impl Future<Output = Result<(), String>> + Send;
}

/// A `ConfigMap` that is neither read nor written: between passes, watches report its changes.
pub struct Untouched;

impl ConfigMaps for Untouched {
    async fn read(&self) -> Result<Option<BTreeMap<String, String>>, String> {
        Ok(None)
    }

    async fn write(&self, _: BTreeMap<String, String>) -> Result<(), String> {
        Err("only a pass writes it".to_owned())
    }
}
