//! The driver that runs Jobs of the chart, and the hooks before a deletion, which are such Jobs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{JobsAction, JobsLatch, JobsStep, ObservedJobs, View, before_deletion, decide, job};
use crate::members::driver::{ActionOutcome, Connection, CreatedObjects, DriverProfile, MemberDriver};
use crate::members::operator::Operator;
use crate::members::workload::{NoFacts, Workload, WorkloadTarget};

/// The driver that runs Jobs of the chart; or, before the deletion of a stateful set with any driver, the Jobs of that time.
pub struct JobsDriver<const BEFORE_DELETION: bool> {
    with: Connection,
}

/// The driver that runs Jobs of the chart.
pub type Jobs = JobsDriver<false>;
/// Runs the hooks before a deletion of a stateful set with any driver.
pub type DeletionHooks = JobsDriver<true>;

impl<const BEFORE_DELETION: bool> JobsDriver<BEFORE_DELETION> {
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

impl<const BEFORE_DELETION: bool> MemberDriver for JobsDriver<BEFORE_DELETION> {
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
        let view = self.view(workload, observed, target, latch, now);
        if BEFORE_DELETION { before_deletion(&view, self.with.created) } else { decide(&view) }
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
