//! Stateful sets with members: looks at them, asks their driver for one step, and does it. What is remembered stands in the status.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::apply::{Outcome, Waiting, cr_id};
use super::look;
use super::object::Objects;
use super::observe::{Observed, read_record};
use super::render::{Missing, Prepared, stamp};
use super::report::event;
use super::{Context, Error};
use crate::cluster::cache::{Cr, CrObject};
use crate::cluster::discovery::Resource;
use crate::kind::switches::DeletionPolicy;
use crate::members::document::{Driver, Event, Members, OnOrphan, OnRemove, ScaleHook, Set};
use crate::members::driver::{MemberDriver, Outcome as Acted, Step};
use crate::members::jobs::{self, Action};
use crate::members::progress::{self, Doing, Told};
use crate::members::workload::{Latch, Mode, Target, Workload};
use crate::plan::situation::Situation;
use crate::plan::{Desired, Verb};
use crate::release::object::{Gvk, ObjectId};

/// When a condition is looked at again, should no event come.
const STOPPED: Duration = Duration::from_secs(15);
/// When what nobody knows is looked at again.
const UNKNOWN: Duration = Duration::from_secs(1);

/// What is remembered of a stateful set with members.
pub fn latch(status: &Map<String, Value>, name: &str) -> Latch {
    let latch = status.get("members").and_then(|m| m.get(name)).and_then(|m| m.get("latch")).cloned();
    latch.and_then(|latch| serde_json::from_value(latch).ok()).unwrap_or_default()
}

/// What a pass found out and did about members.
#[derive(Debug)]
pub struct Seen {
    /// For the status.
    pub told: Told,
    /// When the next look is due.
    pub next: Option<Duration>,
}

/// One step of one stateful set, once the objects of the release are as they should be.
pub async fn step(observed: &Observed, outcome: &mut Outcome, ctx: &Context) {
    let Prepared { desired, rendered, .. } = &outcome.prepared;
    let members = if rendered.is_some() { desired.members.clone() } else { observed.members.clone() };
    let Some(members) = members else {
        ctx.looks.forget(&observed.key);
        if outcome.prepared.rendered.is_some() && outcome.error.is_none() {
            outcome.members = Some(Seen { told: Told { gone: true, ..Told::default() }, next: None });
        }
        return;
    };
    if outcome.error.is_some() || outcome.waiting.is_some() || outcome.dry_run.is_some() || outcome.finished {
        return;
    }
    let settled = matches!(observed.situation, Situation::Settled | Situation::Blocked | Situation::Paused(_));
    if !(settled && outcome.verb == Verb::Rest) {
        if !matches!(outcome.verb, Verb::Rest | Verb::Uninstall | Verb::Abandon | Verb::CreateCrds) {
            outcome.members = Some(Seen { told: Told::pending(), next: Some(Duration::ZERO) });
        }
        return;
    }
    match each(observed, &members, ctx).await {
        Ok(seen) => outcome.members = Some(seen),
        Err(error) => outcome.error = Some(error),
    }
}

/// The hooks before a deletion, which nothing of the release may precede. `None` when the release may go.
pub async fn farewell(observed: &Observed, ctx: &Context) -> Option<Outcome> {
    let members = observed.members.as_ref().filter(|_| observed.situation == Situation::Uninstall)?;
    let orphans = observed.facts.switches.deletion_policy == DeletionPolicy::Orphan;
    if orphans || observed.facts.foreign.is_some() {
        return None;
    }
    for set in members.sets.iter().filter(|set| set.driver == Driver::Jobs) {
        match farewell_of(observed, members, set, ctx).await {
            Ok(None) => {}
            Ok(Some(waiting)) => {
                return Some(Outcome { waiting: Some(waiting), ..Outcome::nothing(Verb::Uninstall) });
            }
            Err(error) => return Some(Outcome { error: Some(error), ..Outcome::nothing(Verb::Uninstall) }),
        }
    }
    None
}

async fn farewell_of(
    observed: &Observed,
    members: &Members,
    set: &Set,
    ctx: &Context,
) -> Result<Option<Waiting>, Error> {
    let latch = latch(&observed.cr.status(), &set.name);
    let driver = JobsDriver::of(observed, members, set, ctx);
    let is_farewell = |hook: &ScaleHook| hook.events.contains(&Event::BeforeDelete);
    if !driver.hooks.iter().any(is_farewell) {
        return Ok(None);
    }
    let Some(workload) = look::look(observed, set, ctx).await? else { return Ok(None) };
    let one = One { observed, members, set, workload: &workload, latch: &latch, ctx };
    let jobs = driver.observe(&workload, &latch).await;
    let view = jobs::View {
        workload: &workload,
        observed: &jobs,
        hooks: &driver.hooks,
        set: &set.name,
        target: &one.target(),
        latch: &latch,
        now: observed.facts.now,
    };
    let step = jobs::farewell(&view, observed.cr.created);
    let (what, after) = match one.perform(&driver, step).await?.0 {
        (Doing::Nothing, _) => return Ok(None),
        (Doing::Done(what) | Doing::Waiting(what) | Doing::Stopped { why: what, .. }, after) => (what, after),
    };
    let after = after.map_or(0, |after| after.as_secs().cast_signed());
    Ok(Some(Waiting { what, until: observed.facts.now.saturating_add(after) }))
}

/// The first stateful set that is not quiet gets a step; the others are only told.
async fn each(observed: &Observed, members: &Members, ctx: &Context) -> Result<Seen, Error> {
    let status = observed.cr.status();
    let mut told = Told::read(&status);
    let mut next = None;
    for set in &members.sets {
        let found = look::look(observed, set, ctx).await?;
        let Some(workload) = found else {
            // The pass that applies it comes by itself.
            next = Some(STOPPED);
            told.wait(&format!("StatefulSet {}", set.target));
            break;
        };
        let latch = latch(&status, &set.name);
        let one = One { observed, members, set, workload: &workload, latch: &latch, ctx };
        let (doing, after, latch) = one.pass().await?;
        let now = observed.facts.now;
        let target = one.target();
        let left = progress::enter(&mut told, set, &workload, &latch, target.mode, &doing, now);
        next = after.into_iter().chain(left).min();
        if !matches!(doing, Doing::Nothing) {
            break;
        }
    }
    Ok(Seen { told, next })
}

/// One stateful set in one pass.
struct One<'a> {
    observed: &'a Observed,
    members: &'a Members,
    set: &'a Set,
    workload: &'a Workload,
    latch: &'a Latch,
    ctx: &'a Context,
}

impl One<'_> {
    fn target(&self) -> Target {
        let mode = match self.observed.situation {
            Situation::Paused(_) => Mode::Paused,
            _ if self.observed.facts.deleting => Mode::Deleting,
            _ => Mode::Run,
        };
        Target {
            size: self.set.size,
            mode,
            delete_claims: self.set.on_remove == OnRemove::Delete,
            adopt_claims: self.set.on_orphan == OnOrphan::Adopt,
        }
    }

    /// What was done, when the next look is due, and what is remembered from now on.
    async fn pass(&self) -> Result<(Doing, Option<Duration>, Latch), Error> {
        match self.set.driver {
            Driver::Jobs => self.drive(&JobsDriver::of(self.observed, self.members, self.set, self.ctx)).await,
            Driver::Etcd => {
                let why = "this version has no driver etcd".to_owned();
                Ok((Doing::Stopped { reason: "NoDriver", why }, None, self.latch.clone()))
            }
        }
    }

    async fn drive<D: MemberDriver>(&self, driver: &D) -> Result<(Doing, Option<Duration>, Latch), Error> {
        let seen = driver.observe(self.workload, self.latch).await;
        let now = self.observed.facts.now;
        let step = driver.decide(self.workload, &seen, &self.target(), self.latch, now);
        let ((doing, after), latch) = self.perform(driver, step).await?;
        Ok((doing, after, latch))
    }

    /// Does a step.
    async fn perform<D: MemberDriver>(
        &self,
        driver: &D,
        step: Step<D::Action>,
    ) -> Result<((Doing, Option<Duration>), Latch), Error> {
        let mut latch = self.latch.clone();
        let name = &self.set.target;
        let pods = || Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true };
        let did = |what: String| (Doing::Done(what), Some(Duration::ZERO));
        let done = match step {
            Step::Quiet => (Doing::Nothing, None),
            Step::Wait { why, after } => (Doing::Waiting(why), Some(after)),
            Step::Stop { reason, why } => (Doing::Stopped { reason, why }, Some(STOPPED)),
            Step::Latch(new) => {
                latch = new;
                did(progress::describe_latch(self.set, self.latch, &latch))
            }
            Step::Scale(replicas) => {
                latch.replicas = Some(replicas);
                if self.latch.replicas != Some(replicas) {
                    self.remember(&latch).await?;
                }
                if self.scale(replicas).await? {
                    let note = format!("StatefulSet {name}: replicas {} → {replicas}", self.workload.replicas);
                    event(self.observed, self.ctx, false, "MembersScaled", note.clone());
                    did(note)
                } else {
                    (Doing::Waiting(format!("the record that has StatefulSet {name}")), Some(UNKNOWN))
                }
            }
            Step::DeleteClaim { name, uid } => {
                let claims = Resource {
                    gvk: Gvk::new("", "v1", "PersistentVolumeClaim"),
                    plural: "persistentvolumeclaims".into(),
                    namespaced: true,
                };
                let id = self.id(&claims, &name);
                self.ctx.cluster.delete(&claims, &id, Some(&uid), false).await?;
                did(format!("delete claim {name}"))
            }
            Step::DeletePod { ordinal, uid } => {
                let id = self.id(&pods(), &format!("{name}-{ordinal}"));
                self.ctx.cluster.delete(&pods(), &id, Some(&uid), false).await?;
                did(format!("delete pod {}", id.name))
            }
            Step::EvictPod { ordinal, uid } => {
                let id = self.id(&pods(), &format!("{name}-{ordinal}"));
                if self.ctx.cluster.evict(&pods(), &id, &uid).await? {
                    did(format!("evict pod {}", id.name))
                } else {
                    (Doing::Waiting(format!("a budget to allow the eviction of pod {}", id.name)), Some(STOPPED))
                }
            }
            Step::Act(action) => {
                let what = driver.describe(&action);
                match driver.act(action).await {
                    Acted::Done => did(what),
                    Acted::Wait { why, after } => (Doing::Waiting(why), Some(after)),
                    Acted::Refused(why) => (Doing::Stopped { reason: "Refused", why }, Some(STOPPED)),
                    Acted::Indeterminate(why) => (Doing::Waiting(format!("{what}: {why}")), Some(UNKNOWN)),
                    Acted::Fatal(why) => (Doing::Stopped { reason: "Failed", why }, Some(STOPPED)),
                }
            }
        };
        Ok((done, latch))
    }

    fn id(&self, resource: &Resource, name: &str) -> ObjectId {
        let namespace = Some(std::sync::Arc::clone(&self.workload.namespace));
        ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() }
    }

    /// Writes the latch before what follows from it.
    async fn remember(&self, latch: &Latch) -> Result<(), Error> {
        let (resource, id) = cr_id(self.observed, self.ctx).await?;
        let before = serde_json::to_value(self.latch).unwrap_or_default();
        let after = serde_json::to_value(latch).unwrap_or_default();
        let members = json!({&self.set.name: {"latch": crate::plan::status::difference(&before, &after)}});
        let patch = json!({"metadata": {"uid": &*self.observed.cr.uid}, "status": {"members": members}});
        let answer: CrObject = self.ctx.cluster.merge(&resource, &id, &patch, Some("status")).await?;
        if let Some(cr) = Cr::read(answer) {
            let key = self.observed.key.clone();
            if self.ctx.cache.put_cr(key.clone(), cr) {
                self.ctx.queue.add(key);
            }
        }
        Ok(())
    }

    /// Applies the StatefulSet of the record with so many replicas; `false` when there is no such record any more.
    async fn scale(&self, replicas: u32) -> Result<bool, Error> {
        let Some(newest) = self.observed.facts.history.last() else { return Ok(false) };
        let Some(record) = read_record(&self.observed.key, newest.revision, self.ctx).await? else { return Ok(false) };
        let wanted = self.set.id(&self.workload.namespace);
        let objects: Vec<_> =
            record.objects()?.into_iter().filter(|o| o.gvk == wanted.gvk && *o.name == *wanted.name).collect();
        let objects = stamp(&objects, self.observed, self.ctx, Missing::IsLeftOut).await?;
        let members = Some(std::sync::Arc::new(self.members.clone()));
        let desired = Desired { objects, members, ..Desired::default() };
        let Some(object) = desired.objects.first() else { return Ok(false) };
        Objects::new(self.observed, &desired, self.ctx).scaling(replicas).apply(object, true).await?;
        Ok(true)
    }
}

/// The driver that runs Jobs of the chart.
struct JobsDriver<'a> {
    observed: &'a Observed,
    set: &'a Set,
    ctx: &'a Context,
    hooks: Vec<ScaleHook>,
}

impl<'a> JobsDriver<'a> {
    /// With the hooks of a stateful set, if hooks are to run.
    fn of(observed: &'a Observed, members: &Members, set: &'a Set, ctx: &'a Context) -> Self {
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
    type Observed = jobs::Observed;
    type Action = Action;

    async fn observe(&self, workload: &Workload, _latch: &Latch) -> jobs::Observed {
        if self.hooks.is_empty() {
            return jobs::Observed::default();
        }
        match look::jobs(self.observed, &workload.namespace, &self.hooks, self.ctx).await {
            Ok(jobs) => jobs::Observed { jobs, blind: None },
            Err(error) => jobs::Observed { jobs: Vec::new(), blind: Some(error.to_string()) },
        }
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &jobs::Observed,
        target: &Target,
        latch: &Latch,
        now: i64,
    ) -> Step<Action> {
        let (hooks, set) = (self.hooks.as_slice(), self.set.name.as_str());
        jobs::decide(&jobs::View { workload, observed, hooks, set, target, latch, now })
    }

    async fn act(&self, action: Action) -> Acted {
        let jobs = job_resource();
        let namespace = Some(std::sync::Arc::clone(&self.observed.owner.release_namespace));
        let id = |name: &str| ObjectId { gvk: jobs.gvk.clone(), namespace: namespace.clone(), name: name.into() };
        let result = match &action {
            Action::Start(run, sizes) => {
                let Some(hook) = self.hooks.iter().find(|h| h.name == run.hook) else {
                    return Acted::Fatal(format!("there is no hook {}", run.hook));
                };
                let body = jobs::job::body(hook, run, self.set, *sizes, &self.observed.owner);
                self.ctx.cluster.create(&jobs, &id(&run.name()), &body).await.map(|_| ())
            }
            Action::Forget { name, uid } => {
                self.ctx.cluster.delete(&jobs, &id(name), Some(uid), false).await.map(|_| ())
            }
        };
        match result {
            Ok(()) => Acted::Done,
            // The run was made before.
            Err(e) if e.is_conflict() => Acted::Done,
            Err(e) if e.is_outage() => Acted::Indeterminate(e.to_string()),
            Err(e) => Acted::Fatal(e.to_string()),
        }
    }

    fn describe(&self, action: &Action) -> String {
        match action {
            Action::Start(run, _) => {
                format!("{} hook for ordinal {}: start Job {}", run.event, run.ordinal, run.name())
            }
            Action::Forget { name, .. } => format!("delete Job {name} of an earlier run"),
        }
    }
}
