//! The driver that runs Jobs of the chart.

use futures::future::BoxFuture;
use k8s_openapi::api::batch::v1::Job;
use kube::core::ApiResource;

use super::executor::SetPass;
use super::look;
use super::registered::{Made, Passed, Registered};
use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::members::document::{Members, ScaleHook, Set};
use crate::members::driver::{ActionOutcome, MemberDriver, MemberStep};
use crate::members::jobs::{self, JobsAction, job};
use crate::members::workload::{Latch, Workload, WorkloadTarget};
use crate::object::{Gvk, ObjectId};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observed::Observed;

/// The driver that runs Jobs of the chart.
pub struct JobsDriver<'a> {
    observed: &'a Observed,
    set: &'a Set,
    ctx: &'a Context,
    pub hooks: Vec<ScaleHook>,
}

impl<'a> JobsDriver<'a> {
    /// The driver for a stateful set, with the hooks of the set if hooks are enabled.
    pub fn of(observed: &'a Observed, members: &Members, set: &'a Set, ctx: &'a Context) -> Self {
        let on = observed.facts.switches.hooks;
        let of_set = |hook: &&ScaleHook| on && hook.set == set.name;
        let hooks = members.hooks.iter().filter(of_set).cloned().collect();
        Self { observed, set, ctx, hooks }
    }
}

fn job_resource() -> Resource {
    Resource { gvk: Gvk::new("batch", "v1", "Job"), plural: "jobs".into(), namespaced: true }
}

impl MemberDriver for JobsDriver<'_> {
    type Observed = jobs::ObservedJobs;
    type Action = JobsAction;

    async fn observe(&self, workload: &Workload, _latch: &Latch) -> jobs::ObservedJobs {
        if self.hooks.is_empty() {
            return jobs::ObservedJobs::default();
        }
        match look::jobs(self.observed, &workload.namespace, &self.hooks, self.ctx).await {
            Ok(jobs) => jobs::ObservedJobs { jobs, blind: None },
            Err(error) => jobs::ObservedJobs { jobs: Vec::new(), blind: Some(error.to_string()) },
        }
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &jobs::ObservedJobs,
        target: &WorkloadTarget,
        latch: &Latch,
        now: i64,
    ) -> MemberStep<JobsAction> {
        let (hooks, set) = (self.hooks.as_slice(), self.set.name.as_str());
        jobs::decide(&jobs::View { workload, observed, hooks, set, target, latch, now })
    }

    async fn act(&self, action: JobsAction) -> ActionOutcome {
        let jobs = job_resource();
        let namespace = Some(std::sync::Arc::clone(&self.observed.owner.release_namespace));
        let id = |name: &str| ObjectId { gvk: jobs.gvk.clone(), namespace: namespace.clone(), name: name.into() };
        let result = match &action {
            JobsAction::Start(run, sizes) => {
                let Some(hook) = self.hooks.iter().find(|h| h.name == run.hook) else {
                    return ActionOutcome::Fatal(format!("there is no hook {}", run.hook));
                };
                let body = jobs::job::body(hook, run, self.set, *sizes, &self.observed.owner);
                self.observed.cluster.create(&jobs, &id(&run.name()), &body, Returned::Metadata).await.map(|_| ())
            }
            JobsAction::Forget { name, uid } => {
                self.observed.cluster.delete(&jobs, &id(name), Some(uid), false).await.map(|_| ())
            }
        };
        match result {
            Ok(()) => ActionOutcome::Done,
            // The Job of this run exists already.
            Err(e) if e.is_conflict() => ActionOutcome::Done,
            Err(e) if e.is_outage() => ActionOutcome::Indeterminate(e.to_string()),
            Err(e) => ActionOutcome::Fatal(e.to_string()),
        }
    }

    fn describe(&self, action: &JobsAction) -> String {
        match action {
            JobsAction::Start(run, _) => {
                format!("{} hook for ordinal {}: start Job {}", run.event, run.ordinal, run.name())
            }
            JobsAction::Forget { name, .. } => format!("delete Job {name} of an earlier run"),
        }
    }
}

/// The registered form of the driver: it creates one [`JobsDriver`] for each stateful set of the chart.
pub struct JobsDrivers;

impl JobsDrivers {
    /// The objects that each driver creates.
    pub fn makes() -> Made {
        (ApiResource::erase::<Job>(&()), job::LABEL)
    }
}

impl Registered for JobsDrivers {
    fn makes(&self) -> Option<Made> {
        Some(Self::makes())
    }

    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>> {
        Box::pin(async move { pass.drive(&JobsDriver::of(pass.observed, pass.members, pass.set, pass.ctx)).await })
    }
}
