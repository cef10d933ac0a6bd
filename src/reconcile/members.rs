//! Stateful sets with members: looks at them, asks their driver for one step, and does it. What is remembered stands in the status.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::apply::{Outcome, Waiting, cr_id};
use super::etcd::{self, Lack, Rest};
use super::look;
use super::object::Objects;
use super::observe::{Observed, read_record};
use super::operations;
use super::render::{Missing, Prepared, stamp};
use super::report::event;
use super::{Context, Error};
use crate::cluster::client::Answer;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::discovery::Resource;
use crate::kind::switches::DeletionPolicy;
use crate::mask::Text;
use crate::members::document::{Driver, Event, Members, OnOrphan, OnRemove, ScaleHook, Set};
use crate::members::driver::{MemberDriver, Outcome as Acted, Step};
use crate::members::etcd::decide::FORCE_NEW_CLUSTER;
use crate::members::etcd::state::Call;
use crate::members::jobs::{self, Action};
use crate::members::progress::{self, Doing, Told};
use crate::members::workload::{Latch, Mode, REPLACED, Target, Workload};
use crate::plan::situation::Situation;
use crate::plan::{Desired, Verb};
use crate::release::object::{Gvk, ObjectId};

/// When a condition is looked at again, should no event come.
const STOPPED: Duration = Duration::from_secs(15);
/// When what changed during a pass is looked at again.
const STALE: Duration = Duration::from_millis(200);
/// When what nobody knows is looked at again.
const UNKNOWN: Duration = Duration::from_secs(1);

/// When a deletion that lacks its hook is looked at again, should no event come: in seconds.
const NO_HOOK: i64 = 300;
/// What is said of a deletion that is held.
const HELD: &str =
    " (the annotation tillerman.dev/deletion-policy is snapshot; with tillerman.dev/hooks: \"off\" it goes without)";

/// What is remembered of a stateful set with members.
pub fn latch(cr: &Cr, name: &str) -> Latch {
    Latch::of(stored(&cr.status(), name), cr.annotations.get(REPLACED).map(|uids| &**uids))
}

fn stored<'a>(status: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    status.get("members")?.get(name)?.get("latch")
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
    // One plan at a time: how the members are is looked at when the operation is over.
    if operations::running(observed).is_some() {
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
    if observed.situation != Situation::Uninstall || observed.facts.foreign.is_some() {
        return None;
    }
    let held = |waiting| Some(Outcome { waiting: Some(waiting), ..Outcome::nothing(Verb::Uninstall) });
    let is_farewell = |hook: &ScaleHook| hook.events.contains(&Event::BeforeDelete);
    let members = observed.members.as_ref();
    if must_succeed(observed) && !members.is_some_and(|members| members.hooks.iter().any(is_farewell)) {
        let what = format!("a before-delete hook, which the chart does not have{HELD}");
        return held(Waiting { what: Text::own(what), until: observed.facts.now.saturating_add(NO_HOOK) });
    }
    let members = members?;
    if observed.facts.switches.deletion_policy == DeletionPolicy::Orphan {
        for set in members.sets.iter().filter(|set| set.driver == Driver::Etcd) {
            if let Err(error) = etcd::leave_behind(observed, set, ctx).await {
                return Some(Outcome { error: Some(error), ..Outcome::nothing(Verb::Uninstall) });
            }
        }
        return None;
    }
    for set in &members.sets {
        // Whatever its driver is: these hooks are Jobs.
        let set = Set { driver: Driver::Jobs, ..set.clone() };
        match farewell_of(observed, members, &set, ctx).await {
            Ok(None) => {}
            Ok(Some(waiting)) => return held(waiting),
            Err(error) => return Some(Outcome { error: Some(error), ..Outcome::nothing(Verb::Uninstall) }),
        }
    }
    None
}

/// Whether nothing may go before the hooks have succeeded.
fn must_succeed(observed: &Observed) -> bool {
    let switches = &observed.facts.switches;
    switches.hooks && switches.deletion_policy == DeletionPolicy::Snapshot
}

async fn farewell_of(
    observed: &Observed,
    members: &Members,
    set: &Set,
    ctx: &Context,
) -> Result<Option<Waiting>, Error> {
    let latch = latch(&observed.cr, &set.name);
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
    let must = must_succeed(observed);
    let step = jobs::farewell(&view, observed.cr.created, must);
    let (what, after) = match one.perform(&driver, step).await?.0 {
        (Doing::Nothing, _) => return Ok(None),
        (Doing::Done(what) | Doing::Waiting(what) | Doing::Stopped { why: what, .. }, after) => (what, after),
    };
    let after = after.map_or(0, |after| after.as_secs().cast_signed());
    let what = if must { format!("{what}{HELD}") } else { what };
    Ok(Some(Waiting { what: Text::own(what), until: observed.facts.now.saturating_add(after) }))
}

/// The first stateful set that is not quiet gets a step; the others are only told.
async fn each(observed: &Observed, members: &Members, ctx: &Context) -> Result<Seen, Error> {
    let status = observed.cr.status();
    let mut told = Told::of(&status, &members.sets);
    let mut next = None;
    for set in &members.sets {
        ctx.looks.leave(&observed.key, &set.name);
        let found = look::look(observed, set, ctx).await?;
        let Some(workload) = found else {
            // The pass that applies it comes by itself.
            next = Some(STOPPED);
            told.wait(&format!("StatefulSet {}", set.target));
            break;
        };
        let latch = latch(&observed.cr, &set.name);
        let one = One { observed, members, set, workload: &workload, latch: &latch, ctx };
        let (doing, after, latch) = one.pass().await?;
        // A status that was lost, or a StatefulSet that was taken over.
        if workload.replicas > 0 && stored(&status, &set.name).is_none() && matches!(doing, Doing::Done(_)) {
            let note = format!(
                "StatefulSet {}: the status of the custom resource remembers nothing of its members; they are taken as they are",
                set.target
            );
            event(observed, ctx, true, "MembersForgotten", note);
        }
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
            _ if self.set.paused && !self.observed.facts.deleting => Mode::Paused,
            _ if self.observed.facts.deleting => Mode::Deleting,
            _ => Mode::Run,
        };
        Target {
            size: self.set.size,
            mode,
            delete_claims: self.set.on_remove == OnRemove::Delete,
            adopt_claims: self.set.on_orphan == OnOrphan::Adopt,
            recover: self.observed.cr.annotations.get(FORCE_NEW_CLUSTER).map(|said| said.trim().into()),
        }
    }

    /// What was done, when the next look is due, and what is remembered from now on.
    async fn pass(&self) -> Result<(Doing, Option<Duration>, Latch), Error> {
        match &self.set.driver {
            Driver::Own(name) => match self.ctx.drivers.make(name, self.set) {
                Ok(driver) => self.drive(&driver).await,
                Err(why) => {
                    let doing = Doing::Stopped { reason: "InvalidMembers", why };
                    Ok((doing, Some(STOPPED), self.latch.clone()))
                }
            },
            Driver::Jobs => self.drive(&JobsDriver::of(self.observed, self.members, self.set, self.ctx)).await,
            Driver::Etcd => Box::pin(self.pass_of_etcd()).await,
        }
    }

    async fn drive<D: MemberDriver>(&self, driver: &D) -> Result<(Doing, Option<Duration>, Latch), Error> {
        let seen = driver.observe(self.workload, self.latch).await;
        let now = self.observed.facts.now;
        let step = driver.decide(self.workload, &seen, &self.target(), self.latch, now);
        let ((doing, after), latch) = self.perform(driver, step).await?;
        Ok((doing, after, latch))
    }

    async fn pass_of_etcd(&self) -> Result<(Doing, Option<Duration>, Latch), Error> {
        let (set, workload, target) = (self.set, self.workload, self.target());
        if target.mode != Mode::Run {
            return Ok((Doing::Nothing, None, self.latch.clone()));
        }
        let driver = match etcd::driver(self.observed, set, self.ctx).await? {
            Ok(driver) => driver,
            Err(Lack::Waits(what)) => return Ok((Doing::Waiting(what), Some(STOPPED), self.latch.clone())),
            Err(Lack::Wrong(why)) => {
                let doing = Doing::Stopped { reason: "InvalidMembers", why };
                return Ok((doing, Some(STOPPED), self.latch.clone()));
            }
        };
        let seen = driver.observe(workload, self.latch).await;
        let step = driver.decide(workload, &seen, &target, self.latch, self.observed.facts.now);
        let quiet = step == Step::Quiet;
        let call = matches!(
            step,
            Step::Act(etcd::Action::Call { .. }) | Step::ActThen { action: etcd::Action::Call { .. }, .. }
        );
        let votes = matches!(step, Step::Act(etcd::Action::Call { call: Call::AddVoter { .. }, .. }));
        let ((doing, after), latch) = self.perform(&driver, step).await?;
        if let (true, Doing::Done(what)) = (votes, &doing) {
            let cost = "etcd before 3.4 has no learners: until its pod has started the cluster bears one failure less, and one of two stands still";
            event(
                self.observed,
                self.ctx,
                true,
                "MemberVotesAtOnce",
                format!("StatefulSet {}: {what}; {cost}", set.target),
            );
        }
        if let (true, Doing::Done(what)) = (call, &doing) {
            event(self.observed, self.ctx, false, "MembersChanged", format!("StatefulSet {}: {what}", set.target));
        }
        if self.latch.recovery != latch.recovery {
            let what = progress::describe_latch(set, self.latch, &latch);
            event(self.observed, self.ctx, true, "RecoveringQuorum", format!("StatefulSet {}: {what}", set.target));
        }
        if quiet {
            let rest = Rest { workload: workload.clone(), target, latch: latch.clone(), initial: seen.initial };
            self.ctx.looks.attend(&self.observed.key, &set.name, rest.watched(driver));
        }
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
                let scaled = match self.scale(0, replicas).await {
                    // Its controller or somebody else wrote it since it was looked at: what is right now may be something else.
                    Err(error) if error.is_stale() => {
                        return Ok((
                            (Doing::Waiting(format!("StatefulSet {name}, which changed")), Some(STALE)),
                            latch,
                        ));
                    }
                    scaled => scaled?,
                };
                if scaled {
                    let note = format!("StatefulSet {name}: replicas {} → {replicas}", self.workload.replicas);
                    event(self.observed, self.ctx, false, "MembersScaled", note.clone());
                    did(note)
                } else {
                    (Doing::Waiting(format!("the record that has StatefulSet {name}")), Some(UNKNOWN))
                }
            }
            Step::Only(ordinal) => match self.scale(ordinal, 1).await {
                Err(error) if error.is_stale() => {
                    (Doing::Waiting(format!("StatefulSet {name}, which changed")), Some(STALE))
                }
                Err(error) => return Err(error),
                Ok(false) => (Doing::Waiting(format!("the record that has StatefulSet {name}")), Some(UNKNOWN)),
                Ok(true) => {
                    let note = format!("StatefulSet {name}: no pod but {name}-{ordinal}");
                    event(self.observed, self.ctx, true, "MembersScaled", note.clone());
                    did(note)
                }
            },
            Step::DeleteClaim { name, uid } => {
                let claims = Resource {
                    gvk: Gvk::new("", "v1", "PersistentVolumeClaim"),
                    plural: "persistentvolumeclaims".into(),
                    namespaced: true,
                };
                let id = self.id(&claims, &name);
                self.ctx.cluster.delete(&claims, &id, Some(&uid), false).await?;
                let note = format!(
                    "StatefulSet {}: claim {name} is deleted, its member has left or is replaced",
                    self.set.target
                );
                event(self.observed, self.ctx, true, "ClaimDeleted", note);
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
            // Members are told by whoever leads, as objects are written by it alone.
            Step::Act(_) | Step::ActThen { .. } if !self.ctx.cluster.fence().is_open() => {
                (Doing::Waiting("the lease, which was not renewed in time".to_owned()), Some(STOPPED))
            }
            Step::Act(action) => acted(driver, action).await,
            Step::ActThen { action, latch: new } => {
                let done = acted(driver, action).await;
                if matches!(done.0, Doing::Done(_)) {
                    latch = new;
                }
                done
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
        // All that is written there, also what does not count any more, goes unless it is of the latch.
        let before = stored(&self.observed.cr.status(), &self.set.name).cloned().unwrap_or_default();
        let after = serde_json::to_value(latch).unwrap_or_default();
        let members = json!({&self.set.name: {"latch": crate::plan::status::difference(&before, &after)}});
        let patch = json!({"metadata": {"uid": &*self.observed.cr.uid}, "status": {"members": members}});
        let answer: CrObject = self.ctx.cluster.merge(&resource, &id, &patch, Some("status")).await?;
        if let Some(cr) = Cr::read(answer, self.ctx.allow(&self.observed.key)) {
            let key = self.observed.key.clone();
            if self.ctx.cache.put_cr(key.clone(), cr) {
                self.ctx.queue.add(key);
            }
        }
        Ok(())
    }

    /// Applies the StatefulSet of the record with so many replicas from an ordinal on; `false` when there is no such record any more.
    async fn scale(&self, start: u32, replicas: u32) -> Result<bool, Error> {
        let Some(newest) = self.observed.facts.history.last() else { return Ok(false) };
        let Some(record) = read_record(&self.observed.owner, newest.revision, self.ctx).await? else {
            return Ok(false);
        };
        let wanted = self.set.id(&self.workload.namespace);
        let objects: Vec<_> =
            record.objects()?.into_iter().filter(|o| o.gvk == wanted.gvk && *o.name == *wanted.name).collect();
        let objects = stamp(&objects, self.observed, self.ctx, Missing::IsLeftOut).await?;
        let members = Some(std::sync::Arc::new(self.members.clone()));
        let desired = Desired { objects, members, ..Desired::default() };
        let Some(object) = desired.objects.first() else { return Ok(false) };
        let objects = Objects::new(self.observed, &desired, self.ctx);
        objects.scaling(start, replicas, &self.workload.resource_version).apply(object, true).await?;
        Ok(true)
    }
}

/// Does what the driver itself does.
async fn acted<D: MemberDriver>(driver: &D, action: D::Action) -> (Doing, Option<Duration>) {
    let what = driver.describe(&action);
    match driver.act(action).await {
        Acted::Done => (Doing::Done(what), Some(Duration::ZERO)),
        Acted::Wait { why, after } => (Doing::Waiting(format!("{what}: {why}")), Some(after)),
        Acted::Refused(why) => (Doing::Stopped { reason: "Refused", why }, Some(STOPPED)),
        Acted::Indeterminate(why) => (Doing::Waiting(format!("{what}: {why}")), Some(UNKNOWN)),
        Acted::Fatal(why) => (Doing::Stopped { reason: "Failed", why }, Some(STOPPED)),
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
                self.ctx.cluster.create(&jobs, &id(&run.name()), &body, Answer::Metadata).await.map(|_| ())
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
