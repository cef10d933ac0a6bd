//! The driver that runs Jobs of the chart, and the hooks before a deletion, which are such Jobs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{JobsAction, JobsLatch, JobsStep, ObservedJobs, View, before_deletion, decide, job};
use crate::members::driver::{ActionOutcome, Connection, CreatedObjects, DriverProfile, MemberDriver};
use crate::members::operator::Operator;
use crate::members::workload::{NoFacts, Workload, WorkloadTarget};

/// The driver that runs Jobs of the chart.
pub struct Jobs {
    with: Connection,
}

impl Jobs {
    fn view<'a>(
        &'a self,
        workload: &'a Workload,
        observed: &'a ObservedJobs,
        target: &'a WorkloadTarget,
        latch: &'a JobsLatch,
        now: i64,
    ) -> View<'a> {
        View { workload, observed, hooks: &self.with.hooks, set: &self.with.set.name, target, latch, now }
    }
}

impl MemberDriver for Jobs {
    type Settings = ();
    type Memory = ();
    type Facts = NoFacts;
    type Observed = ObservedJobs;
    type Action = JobsAction;

    const PROFILE: DriverProfile = DriverProfile {
        field: None,
        runs_hooks: true,
        creates: Some(CreatedObjects::Jobs(job::LABEL)),
        ..DriverProfile::named("jobs")
    };

    fn read(_: &Map<String, Value>, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn connect((): (), with: &Connection, _: Arc<()>) -> Result<Self, String> {
        Ok(Self { with: with.clone() })
    }

    async fn observe(&self, _: &Workload, _: &JobsLatch, operator: &dyn Operator) -> ObservedJobs {
        if self.with.hooks.is_empty() {
            return ObservedJobs::default();
        }
        match operator.jobs().await {
            Ok(found) => {
                let jobs = found.jobs.iter().filter_map(|job| job::read(job, &found.pods, &self.with.hooks));
                ObservedJobs { jobs: jobs.collect(), blind: None }
            }
            Err(why) => ObservedJobs { jobs: Vec::new(), blind: Some(why) },
        }
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &ObservedJobs,
        target: &WorkloadTarget,
        latch: &JobsLatch,
        now: i64,
    ) -> JobsStep {
        decide(&self.view(workload, observed, target, latch, now))
    }

    async fn act(&self, action: &JobsAction, operator: &dyn Operator) -> ActionOutcome {
        match action {
            JobsAction::Start(run, sizes) => {
                let Some(hook) = self.with.hooks.iter().find(|hook| hook.name == run.hook) else {
                    return ActionOutcome::Fatal(format!("there is no hook {}", run.hook));
                };
                let body = job::body(hook, run, &self.with.set, *sizes, &self.with.owner);
                operator.create_job(&run.name(), &body).await
            }
            JobsAction::Forget { name, uid } => operator.delete_job(name, uid).await,
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

/// Runs the hooks before a deletion of a stateful set with any driver.
pub struct DeletionHooks(Jobs);

impl MemberDriver for DeletionHooks {
    type Settings = ();
    type Memory = ();
    type Facts = NoFacts;
    type Observed = ObservedJobs;
    type Action = JobsAction;

    const PROFILE: DriverProfile = Jobs::PROFILE;

    fn read(_: &Map<String, Value>, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn connect((): (), with: &Connection, memory: Arc<()>) -> Result<Self, String> {
        Jobs::connect((), with, memory).map(Self)
    }

    async fn observe(&self, workload: &Workload, latch: &JobsLatch, operator: &dyn Operator) -> ObservedJobs {
        self.0.observe(workload, latch, operator).await
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &ObservedJobs,
        target: &WorkloadTarget,
        latch: &JobsLatch,
        now: i64,
    ) -> JobsStep {
        before_deletion(&self.0.view(workload, observed, target, latch, now), self.0.with.created)
    }

    async fn act(&self, action: &JobsAction, operator: &dyn Operator) -> ActionOutcome {
        self.0.act(action, operator).await
    }

    fn describe(&self, action: &JobsAction) -> String {
        self.0.describe(action)
    }
}
