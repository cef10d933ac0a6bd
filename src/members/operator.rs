//! What the operator does in the API server for a driver.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, ready};
use serde_json::Value;

use super::driver::ActionOutcome;

/// The text of each key of a `ConfigMap`.
pub type ConfigMapData = BTreeMap<String, String>;

/// Jobs and their pods.
#[derive(Clone, Debug, Default)]
pub struct FoundJobs {
    /// The Jobs.
    pub jobs: Vec<Value>,
    /// The pods, if a Job has failed. Their messages have no secrets.
    pub pods: Vec<Value>,
}

/// The objects of a driver. The errors are sentences. Between passes the content of the `ConfigMap` is that of the last
/// pass, as watches report its changes, and nothing is written.
pub trait Operator: Send + Sync {
    /// Reads the `ConfigMap` ([`DriverNeeds::config_map`](super::driver::DriverNeeds)); `None` if it does not exist.
    fn read_config_map(&self) -> BoxFuture<'_, Result<Option<ConfigMapData>, String>> {
        Box::pin(ready(Ok(None)))
    }

    /// Writes the `ConfigMap`.
    fn write_config_map(&self, _data: ConfigMapData) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ready(Err("only a pass writes it".to_owned())))
    }

    /// The Jobs of the driver.
    fn jobs(&self) -> BoxFuture<'_, Result<FoundJobs, String>> {
        Box::pin(ready(Ok(FoundJobs::default())))
    }

    /// Creates a Job, unless it exists.
    fn create_job<'a>(&'a self, _name: &'a str, _body: &'a Value) -> BoxFuture<'a, ActionOutcome> {
        Box::pin(ready(ActionOutcome::Fatal("only a pass creates Jobs".to_owned())))
    }

    /// Deletes a Job, but only the one with this uid.
    fn delete_job<'a>(&'a self, _name: &'a str, _uid: &'a str) -> BoxFuture<'a, ActionOutcome> {
        Box::pin(ready(ActionOutcome::Fatal("only a pass deletes Jobs".to_owned())))
    }
}
