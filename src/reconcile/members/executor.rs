//! One stateful set in one pass: asks its driver for a step, and carries out the step.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::read::core;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::members::document::{Members, OnOrphan, OnRemove, Set};
use crate::members::driver::{ActionOutcome, DriverEvent, Happened, MemberStep};
use crate::members::drivers::{AnyDriver, Connected, Unknown};
use crate::members::growth::LargerClaim;
use crate::members::operator::Operator;
use crate::members::progress::{self, Doing};
use crate::members::workload::{Latch, Mode, REPLACED, Workload, WorkloadTarget};
use crate::names;
use crate::object::ObjectId;
use crate::plan::Desired;
use crate::plan::situation::Situation;
use crate::reconcile::address::cr_id;
use crate::reconcile::apply::objects::Objects;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::latches::stored;
use crate::reconcile::notify::event;
use crate::reconcile::observed::Observed;
use crate::reconcile::records::read_record;
use crate::reconcile::render::stamp::{Missing, stamp};

/// When a condition is checked again if no event arrives.
pub const STOPPED: Duration = Duration::from_secs(15);

/// When something that changed during a pass is observed again.
const STALE: Duration = Duration::from_millis(200);

/// When something of unknown state is observed again.
const UNKNOWN: Duration = Duration::from_secs(1);

/// One stateful set in one pass.
pub struct SetPass<'a> {
    pub observed: &'a Observed,
    pub members: &'a Members,
    pub set: &'a Set,
    pub workload: &'a Workload,
    pub latch: &'a Latch,
    /// The part of it that is stored.
    pub stored: &'a Stored,
    /// Something else is under way ([`Mode::Keep`]).
    pub keeps: bool,
    /// `None` if the program lacks it.
    pub driver: Option<&'a dyn AnyDriver>,
    pub ctx: &'a Context,
}

/// The data that the custom resource stores about one stateful set: its version and the latch. Each write of the pass
/// changes both.
pub struct Stored(Mutex<(u64, Value)>);

impl Stored {
    /// As it was when the pass began.
    pub fn of(observed: &Observed, set: &Set) -> Self {
        let latch = stored(&observed.cr.status(), &set.name).cloned().unwrap_or_default();
        Self(Mutex::new((observed.cr.resource_version, latch)))
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetPass<'_> {
    pub fn target(&self) -> WorkloadTarget {
        let mode = match self.observed.situation {
            Situation::Paused(_) => Mode::Paused,
            _ if self.set.paused && !self.observed.facts.deleting => Mode::Paused,
            _ if self.observed.facts.deleting => Mode::Deleting,
            _ if self.keeps => Mode::Keep,
            _ => Mode::Run,
        };
        WorkloadTarget {
            size: self.set.size,
            mode,
            asleep: self.observed.facts.asleep,
            delete_claims: self.set.on_remove == OnRemove::Delete,
            adopt_claims: self.set.on_orphan == OnOrphan::Adopt,
            recover: self.observed.cr.annotations.get(names::FORCE_NEW_CLUSTER).map(|said| said.trim().into()),
            switch_over: self.observed.cr.annotations.get(names::SWITCH_OVER).map(|said| said.trim().into()),
        }
    }

    /// [`DriverProfile::latches_alone`](crate::members::driver::DriverProfile).
    fn latches_alone(&self) -> bool {
        self.driver.is_some_and(|driver| driver.profile().latches_alone)
    }

    /// Sends events of the driver.
    pub fn announce(&self, events: Vec<DriverEvent>) {
        for DriverEvent { is_warning, reason, text } in events {
            event(self.observed, self.ctx, is_warning, reason, format!("StatefulSet {}: {text}", self.set.target));
        }
    }

    /// Carries out a step, and logs it.
    pub async fn perform(
        &self,
        driver: &dyn Connected,
        operator: &dyn Operator,
        step: MemberStep<Unknown>,
    ) -> Result<((Doing, Option<Duration>), Latch), Error> {
        let done = self.carry_out(driver, operator, step).await?;
        let (namespace, stateful_set, step) = (&self.workload.namespace, &self.set.target, &done.0.0);
        tracing::debug!(%namespace, %stateful_set, ?step, "step of members");
        Ok(done)
    }

    async fn carry_out(
        &self,
        driver: &dyn Connected,
        operator: &dyn Operator,
        step: MemberStep<Unknown>,
    ) -> Result<((Doing, Option<Duration>), Latch), Error> {
        let mut latch = self.latch.clone();
        let name = &self.set.target;
        let pods = || core("Pod", "pods");
        let did = |what: String| (Doing::Done(what), Some(Duration::ZERO));
        let acts = matches!(step, MemberStep::Act(_) | MemberStep::Stop { .. });
        if acts && self.latches_alone() && !self.is_current().await? {
            return Ok(((Doing::Waiting("the changed custom resource to be read".to_owned()), Some(STALE)), latch));
        }
        let done = match step {
            MemberStep::Quiet => (Doing::Nothing, None),
            MemberStep::Wait { why, after } => (Doing::Waiting(why), Some(after)),
            MemberStep::Stop { reason, why } => (Doing::Stopped { reason, why }, Some(STOPPED)),
            MemberStep::Latch(new) => {
                if self.latches_alone() {
                    self.remember(&new).await?;
                }
                latch = new;
                let facts = || driver.describe_facts(self.latch, &latch);
                did(progress::describe_latch(&self.set.target, self.latch, &latch, facts))
            }
            MemberStep::Scale(replicas) => {
                latch.replicas = Some(replicas);
                if self.latch.replicas != Some(replicas) {
                    self.remember(&latch).await?;
                }
                let scaled = match self.scale(0, replicas).await {
                    // Its controller or another client has changed it since it was observed, so a different step may be
                    // needed now.
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
            MemberStep::Only(ordinal) => match self.scale(ordinal, 1).await {
                Err(error) if error.is_stale() => {
                    (Doing::Waiting(format!("StatefulSet {name}, which changed")), Some(STALE))
                }
                Err(error) => return Err(error),
                Ok(false) => (Doing::Waiting(format!("the record that has StatefulSet {name}")), Some(UNKNOWN)),
                Ok(true) => {
                    let note = format!("StatefulSet {name}: no pod except {name}-{ordinal}");
                    event(self.observed, self.ctx, true, "MembersScaled", note.clone());
                    did(note)
                }
            },
            MemberStep::EnlargeClaim(claim) => self.enlarge(&claim).await?,
            MemberStep::DeleteClaim { name, uid } => {
                let claims = core("PersistentVolumeClaim", "persistentvolumeclaims");
                let id = self.id(&claims, &name);
                self.observed.cluster.delete(&claims, &id, Some(&uid), false).await?;
                let note = format!(
                    "StatefulSet {}: claim {name} is deleted, because its member has left or is replaced",
                    self.set.target
                );
                event(self.observed, self.ctx, true, "ClaimDeleted", note);
                did(format!("delete claim {name}"))
            }
            MemberStep::DeletePod { ordinal, uid } => {
                let id = self.id(&pods(), &format!("{name}-{ordinal}"));
                self.observed.cluster.delete(&pods(), &id, Some(&uid), false).await?;
                did(format!("delete pod {}", id.name))
            }
            MemberStep::EvictPod { ordinal, uid } => {
                let id = self.id(&pods(), &format!("{name}-{ordinal}"));
                if self.observed.cluster.evict(&pods(), &id, &uid).await? {
                    did(format!("evict pod {}", id.name))
                } else {
                    (Doing::Waiting(format!("a budget to allow the eviction of pod {}", id.name)), Some(STOPPED))
                }
            }
            MemberStep::LabelPod { ordinal, uid, role } => {
                self.label(&pods(), &self.id(&pods(), &format!("{name}-{ordinal}")), &uid, role).await?
            }
            // Only the leader may send commands to members, just as only the leader writes objects.
            MemberStep::Act(_) | MemberStep::ActThen { .. } if !self.ctx.cluster.fence().is_open() => {
                (Doing::Waiting("the lease, which was not renewed in time".to_owned()), Some(STOPPED))
            }
            MemberStep::Act(action) => self.acted(driver, operator, &action).await,
            MemberStep::ActThen { action, latch: new } => {
                let done = self.acted(driver, operator, &action).await;
                if matches!(done.0, Doing::Done(_)) {
                    latch = new;
                }
                done
            }
        };
        Ok((done, latch))
    }

    /// Requests a larger volume.
    async fn enlarge(&self, claim: &LargerClaim) -> Result<(Doing, Option<Duration>), Error> {
        let claims = core("PersistentVolumeClaim", "persistentvolumeclaims");
        let LargerClaim { name, uid, size, why } = claim;
        let at = jiff::Timestamp::from_second(self.observed.facts.now).unwrap_or_default().to_string();
        let patch = json!({"metadata": {"uid": uid, "annotations": {names::GROWN: at}},
            "spec": {"resources": {"requests": {"storage": size}}}});
        let id = self.id(&claims, name);
        let send = |patch| self.observed.cluster.merge::<Value>(&claims, &id, patch, None);
        let text = |note: &str| format!("StatefulSet {}: {note}", self.set.target);
        let refused = match send(&patch).await {
            Ok(_) => None,
            Err(error) if error.is_not_found() || error.is_conflict() => {
                return Ok((Doing::Waiting(format!("claim {name}, which changed")), Some(STALE)));
            }
            Err(error @ ApiError::Refused { code: 403 | 422, .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        let note = match refused {
            None => {
                let note = format!("claim {name} is enlarged to {size}, because {why}");
                event(self.observed, self.ctx, false, "VolumeEnlarged", text(&note));
                note
            }
            // The members work. The claim remembers when it was tried.
            Some(error) => {
                let note = format!("{why}, but claim {name} cannot be enlarged to {size}: {error}");
                event(self.observed, self.ctx, true, "VolumeNotEnlarged", text(&note));
                send(&json!({"metadata": patch["metadata"]})).await?;
                note
            }
        };
        Ok((Doing::Done(note), Some(Duration::ZERO)))
    }

    /// Gives a pod its role.
    async fn label(
        &self,
        pods: &Resource,
        id: &ObjectId,
        uid: &str,
        role: Option<&str>,
    ) -> Result<(Doing, Option<Duration>), Error> {
        let patch = json!({"metadata": {"uid": uid, "labels": {names::MEMBER_ROLE: role}}});
        match self.observed.cluster.merge::<Value>(pods, id, &patch, None).await {
            // It is gone, or another pod has its name.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                Ok((Doing::Waiting(format!("pod {}, which changed", id.name)), Some(STALE)))
            }
            Err(error) => Err(error.into()),
            Ok(_) => {
                let what = format!("pod {} has the role {}", id.name, role.unwrap_or("none"));
                Ok((Doing::Done(what), Some(Duration::ZERO)))
            }
        }
    }

    /// Whether the latch is still the one that the decision was made from. A member that takes orders cannot tell an old one of its epoch
    /// from a new one, so an operator that was suspended looks again.
    async fn is_current(&self) -> Result<bool, Error> {
        let (resource, id) = cr_id(self.observed, self.ctx).await?;
        let Some(found) = self.ctx.cluster.get(&resource, &id).await? else { return Ok(false) };
        let status = found.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        let replaced = self.observed.cr.annotations.get(REPLACED).map(|uids| &**uids);
        let stored = stored(&status, &self.set.name);
        Ok(self.driver.is_some_and(|driver| driver.latch(stored, replaced) == *self.latch))
    }

    fn id(&self, resource: &Resource, name: &str) -> ObjectId {
        let namespace = Some(std::sync::Arc::clone(&self.workload.namespace));
        ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() }
    }

    /// Writes the latch before the step that depends on it. If it is written alone and another client has written the custom
    /// resource, the error says that the pass is outdated.
    async fn remember(&self, latch: &Latch) -> Result<(), Error> {
        let (resource, id) = cr_id(self.observed, self.ctx).await?;
        // The patch removes all stored fields that are not part of the latch, including outdated ones.
        let (version, before) = self.stored.lock().clone();
        let after = serde_json::to_value(latch).unwrap_or_default();
        let members = json!({&self.set.name: {"latch": crate::plan::status::difference(&before, &after)}});
        let mut metadata = json!({"uid": &*self.observed.cr.uid});
        if self.latches_alone() {
            metadata["resourceVersion"] = version.to_string().into();
        }
        let patch = json!({"metadata": metadata, "status": {"members": members}});
        let answer: CrObject = self.ctx.cluster.merge(&resource, &id, &patch, Some("status")).await?;
        if let Some(cr) = Cr::read(answer, &self.ctx.allow(&self.observed.key)) {
            *self.stored.lock() = (cr.resource_version, after);
            let key = self.observed.key.clone();
            if self.ctx.enter_cr(key.clone(), cr) {
                self.ctx.queue.add(key);
            }
        }
        Ok(())
    }

    /// Applies the StatefulSet of the record with `replicas` pods from ordinal `start`. Returns `false` if that record
    /// no longer exists.
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

    /// Carries out an action of the driver.
    async fn acted(
        &self,
        driver: &dyn Connected,
        operator: &dyn Operator,
        action: &Unknown,
    ) -> (Doing, Option<Duration>) {
        let what = driver.describe(action);
        match driver.act(action, operator).await {
            ActionOutcome::Done => {
                self.announce(driver.events(Happened::Acted(action)));
                (Doing::Done(what), Some(Duration::ZERO))
            }
            ActionOutcome::Wait { why, after } => (Doing::Waiting(format!("{what}: {why}")), Some(after)),
            ActionOutcome::Refused(why) => (Doing::Stopped { reason: "Refused", why }, Some(STOPPED)),
            ActionOutcome::Indeterminate(why) => (Doing::Waiting(format!("{what}: {why}")), Some(UNKNOWN)),
            ActionOutcome::Fatal(why) => (Doing::Stopped { reason: "Failed", why }, Some(STOPPED)),
        }
    }
}
