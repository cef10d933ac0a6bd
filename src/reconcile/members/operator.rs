//! What the operator does for a driver in a pass, and between passes.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, ready};
use serde_json::Value;

use super::config_map::DriversMap;
use super::look;
use super::read::job_resource;
use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::members::driver::{ActionOutcome, CreatedObjects, DriverNeeds};
use crate::members::operator::{ConfigMapData, FoundJobs, Operator};
use crate::object::ObjectId;
use crate::reconcile::context::Context;
use crate::reconcile::observed::Observed;

/// The content of a driver's `ConfigMap`.
type Content = Result<Option<ConfigMapData>, String>;

/// The operator in a pass.
pub struct PassOperator<'a> {
    observed: &'a Observed,
    ctx: &'a Context,
    creates: Option<CreatedObjects>,
    config_map: Option<DriversMap>,
    /// The content that was read last.
    read: Mutex<Content>,
}

impl<'a> PassOperator<'a> {
    /// For a driver with such objects and needs.
    pub fn of(observed: &'a Observed, creates: Option<CreatedObjects>, needs: &DriverNeeds, ctx: &'a Context) -> Self {
        let config_map = config_map(observed, creates, needs, ctx);
        Self { observed, ctx, creates, config_map, read: Mutex::new(Ok(None)) }
    }

    /// The operator until the next pass.
    pub fn at_rest(self) -> OperatorAtRest {
        OperatorAtRest(self.read.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn job(&self, name: &str) -> (Resource, ObjectId) {
        let jobs = job_resource();
        let namespace = Some(Arc::clone(&self.observed.owner.release_namespace));
        let id = ObjectId { gvk: jobs.gvk.clone(), namespace, name: name.into() };
        (jobs, id)
    }
}

/// The `ConfigMap` of a driver, if it has one.
pub fn config_map(
    observed: &Observed,
    creates: Option<CreatedObjects>,
    needs: &DriverNeeds,
    ctx: &Context,
) -> Option<DriversMap> {
    let Some(CreatedObjects::ConfigMap(label)) = creates else { return None };
    needs.config_map.as_ref().map(|name| DriversMap::of(name, label, observed, ctx))
}

/// The outcome of a request about a Job. One that exists already, or is gone, is as it should be.
fn outcome(result: Result<(), ApiError>) -> ActionOutcome {
    match result {
        Ok(()) => ActionOutcome::Done,
        Err(e) if e.is_conflict() => ActionOutcome::Done,
        Err(e) if e.is_outage() => ActionOutcome::Indeterminate(e.to_string()),
        Err(e) => ActionOutcome::Fatal(e.to_string()),
    }
}

impl Operator for PassOperator<'_> {
    fn read_config_map(&self) -> BoxFuture<'_, Content> {
        Box::pin(async {
            let Some(map) = &self.config_map else { return Ok(None) };
            let content = map.read().await;
            self.read.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&content);
            content
        })
    }

    fn write_config_map(&self, data: ConfigMapData) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            match &self.config_map {
                Some(map) => map.write(data).await,
                None => Err("the driver has no ConfigMap".to_owned()),
            }
        })
    }

    fn jobs(&self) -> BoxFuture<'_, Result<FoundJobs, String>> {
        Box::pin(async {
            let Some(CreatedObjects::Jobs(label)) = self.creates else { return Ok(FoundJobs::default()) };
            look::jobs(self.observed, label, self.ctx).await.map_err(|error| error.to_string())
        })
    }

    fn create_job<'a>(&'a self, name: &'a str, body: &'a Value) -> BoxFuture<'a, ActionOutcome> {
        Box::pin(async move {
            let (jobs, id) = self.job(name);
            outcome(self.observed.cluster.create(&jobs, &id, body, Returned::Metadata).await.map(drop))
        })
    }

    fn delete_job<'a>(&'a self, name: &'a str, uid: &'a str) -> BoxFuture<'a, ActionOutcome> {
        Box::pin(async move {
            let (jobs, id) = self.job(name);
            outcome(self.observed.cluster.delete(&jobs, &id, Some(uid), false).await.map(drop))
        })
    }
}

/// The operator between passes, with the content of the `ConfigMap` in the last one.
pub struct OperatorAtRest(Content);

impl Operator for OperatorAtRest {
    fn read_config_map(&self) -> BoxFuture<'_, Content> {
        Box::pin(ready(self.0.clone()))
    }
}
