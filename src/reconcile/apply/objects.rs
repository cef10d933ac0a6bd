//! Applies, takes over and prunes single objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::enlarge::enlarge;
use crate::cluster::cache::ReleaseKey;
use crate::cluster::client::{CONTROLLER_MANAGER, Conflicts, Returned, describe};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::mask::Text;
use crate::members::document::Members;
use crate::members::substitute;
use crate::object::{ObjectId, metadata};
use crate::plan::Desired;
use crate::plan::claim::{Ownership, is_marked, ownership};
use crate::plan::immutable::{Remake, is_allowed};
use crate::plan::leave::{autoscaled, autoscalers, scales};
use crate::plan::object_run::step::ObjectStep;
use crate::plan::object_run::{Notice, ObjectOutcome, ObjectPolicy, ObjectRun, WriteRefusal, whole};
use crate::plan::situation::Situation;
use crate::plan::stamp::Stamped;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::latches::latch;
use crate::reconcile::notify::event;
use crate::reconcile::observed::Observed;
use crate::release::inventory::Reference;
use crate::release::managers::{self, Survivor, managed};
use crate::release::owner::{RELEASE_NAME, RELEASE_NAMESPACE};
use crate::release::record::Status;

/// The objects of one release.
pub struct Objects<'a> {
    observed: &'a Observed,
    /// The objects as in the last record, if that was read.
    previous: BTreeMap<&'a ObjectId, &'a Stamped>,
    /// Objects whose replicas an autoscaler of the release sets.
    autoscaled: BTreeSet<ObjectId>,
    /// Stateful sets whose replicas the operator changes step by step.
    members: Option<&'a Members>,
    /// The first ordinal and the number of replicas that a StatefulSet with members gets, and the resourceVersion that
    /// this was decided on. `None` keeps the current ones.
    scale: Option<((u32, u32), &'a str)>,
    ctx: &'a Context,
}

/// An object that was applied.
pub struct AppliedObject {
    pub id: ObjectId,
    /// The reference from the API server's answer.
    pub reference: Option<Reference>,
    /// Whether the apply changed the object.
    pub changed: bool,
    /// Changes that are worth an event.
    pub notices: Vec<Notice>,
}

/// The effect of an apply.
pub enum Tried {
    /// The object would be so.
    Applied(Value),
    /// It would be deleted and created with this body, since these fields cannot be changed.
    Recreated { fields: String, body: Value },
    /// It would be refused.
    Refused(Text),
}

impl<'a> Objects<'a> {
    /// The objects of a release, as a pass observed it.
    pub fn new(observed: &'a Observed, desired: &'a Desired, ctx: &'a Context) -> Self {
        let previous = desired.previous.iter().flatten().map(|o| (&o.id, o)).collect();
        let members = desired.members.as_deref();
        Self { observed, previous, autoscaled: autoscaled(&desired.objects), members, scale: None, ctx }
    }

    /// Returns the same, but gives a StatefulSet with members `replicas` pods with ordinals from `start`, unless its
    /// resourceVersion has changed.
    #[must_use]
    pub fn scaling(self, start: u32, replicas: u32, version: &'a str) -> Self {
        Self { scale: Some(((start, replicas), version)), ..self }
    }

    /// An object in the form to send. A StatefulSet with members gets its current pods or, if it does not exist, the pods
    /// that it had last.
    async fn substitute<'o>(&self, object: &'o Stamped, resource: &Resource) -> Result<Substituted<'o>, Error> {
        let Some(set) = self.members.and_then(|members| members.of(&object.id)) else {
            return Ok(Substituted { object: Cow::Borrowed(object), first: None });
        };
        let mut found = self.observed.cluster.get(resource, &object.id).await?;
        let live = found.as_ref().map(|found| {
            let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64);
            let number = |pointer: &str| number(pointer).and_then(|n| u32::try_from(n).ok());
            (number("/spec/ordinals/start").unwrap_or(0), number("/spec/replicas").unwrap_or(1))
        });
        let (start, replicas) = self.scale.map(|(ordinals, _)| ordinals).or(live).unwrap_or_else(|| {
            let latch = latch(&self.observed.cr, &set.name);
            (0, latch.replicas.unwrap_or(0))
        });
        if let (Some((_, version)), Some(Value::Object(metadata))) =
            (self.scale, found.as_mut().and_then(|found| found.get_mut("metadata")))
        {
            metadata.insert("resourceVersion".into(), version.into());
        }
        let mut object = object.clone();
        substitute::put(&mut object.body, set, replicas, start, found.as_ref());
        let first = found.as_ref().and_then(|found| substitute::own_strategy(&object.body, found));
        Ok(Substituted { object: Cow::Owned(object), first })
    }

    /// An object, ready to be applied. If the object is not `known` to be ours and exists, it is taken over or refused.
    async fn one<'o>(&'o self, object: &'o Stamped, known: bool, dry: bool) -> Result<One<'o>, Error> {
        let (id, observed) = (&object.id, self.observed);
        let resource = self.resource(id, "apply").await?;
        if !dry {
            self.ctx.watching.objects.ensure(&id.gvk, id.namespace.as_ref());
        }
        let repaired = observed.situation.repairs(id);
        let is_suspect = || self.ctx.memory.contests.with(&observed.key, |contest, now| contest.is_suspect(id, now));
        let policy = ObjectPolicy {
            known,
            dry,
            repaired,
            suspect: repaired && known && is_suspect(),
            stepped: self.members.is_some_and(|members| members.of(id).is_some()),
            autoscaled: self.autoscaled.contains(id),
            forced: self.is_forced(),
            before: observed.facts.live.get(id),
            previous: self.previous.get(id).copied(),
            rules: &observed.ignored,
        };
        let Substituted { object, first } = self.substitute(object, &resource).await?;
        Ok(One { objects: self, resource, run: ObjectRun::new(object, policy, first), refused: None })
    }

    /// Whether the custom resource allows recreating what cannot be changed.
    fn is_forced(&self) -> bool {
        let pending = self.observed.facts.history.last().map(|revision| revision.status);
        let rolls_back =
            matches!(self.observed.situation, Situation::RollBack(_)) || pending == Some(Status::PendingRollback);
        is_allowed(&self.observed.cr.annotations, rolls_back)
    }

    /// Applies an object. If the object is not `known` to be ours and exists, it is taken over or refused.
    pub async fn apply(&self, object: &Stamped, known: bool) -> Result<AppliedObject, Error> {
        let id = &object.id;
        let mut one = self.one(object, known, false).await?;
        let end = one.take_steps().await?;
        if end != ObjectStep::Done {
            return Err(one.why(end).into());
        }
        let ObjectOutcome { answer, mut notices, taken, .. } = one.run.outcome();
        let Some((id, live)) = answer.and_then(|answer| self.ctx.cache.wrote_object(&id.gvk, &answer)) else {
            return Ok(AppliedObject { id: id.clone(), reference: None, changed: false, notices });
        };
        // The answer has the same version, so our apply changed nothing, and the trigger was not drift
        // (docs/design/applying.md C1).
        let before = self.observed.facts.live.get(&object.id);
        let changed = before.is_none_or(|b| b.resource_version != live.resource_version || b.uid != live.uid);
        if changed && self.observed.situation.repairs(&object.id) {
            notices.extend(self.contested(&id, taken));
        }
        let reference = Reference { uid: live.uid, digest: live.digest.unwrap_or_default(), finished: false };
        Ok(AppliedObject { id, reference: Some(reference), changed, notices })
    }

    /// Counts a repair; the result is the news that it made the object contested.
    fn contested(&self, id: &ObjectId, taken: Option<Vec<Survivor>>) -> Option<Notice> {
        self.ctx.memory.contests.with(&self.observed.key, |contest, now| {
            let began = contest.repaired(id, now, taken);
            let text = contest.describe().filter(|_| began)?;
            Some(Notice { reason: "Contested", text: Text::own(text), warning: true })
        })
    }

    /// Reads an object; `None` if it or its kind does not exist.
    pub async fn live(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(None) };
        Ok(self.observed.cluster.get(&resource, id).await?)
    }

    /// The object as it is, and what [`Objects::apply`] would do, found with a dry run.
    pub async fn try_out(&self, object: &Stamped, known: bool) -> Result<(Option<Value>, Tried), Error> {
        let mut one = self.one(object, known, true).await?;
        let end = one.take_steps().await?;
        let refused = one.why(end.clone());
        let ObjectOutcome { found, answer, body, .. } = one.run.outcome();
        let tried = match (end, answer) {
            (ObjectStep::Done, Some(answer)) => Tried::Applied(answer),
            (ObjectStep::Recreate { fields, .. }, _) => Tried::Recreated { fields, body: Value::Object(body) },
            _ => Tried::Refused(refused.text()),
        };
        Ok((found, tried))
    }

    fn ownership(&self, object: &Value) -> Ownership {
        claim(object, self.observed, self.ctx)
    }

    /// The custom resources of the release that an object claims to belong to.
    fn holders(&self, object: &Value) -> Vec<ReleaseKey> {
        let annotation = |name: &str| metadata(object).get("annotations")?.get(name)?.as_str();
        let (Some(namespace), Some(name)) = (annotation(RELEASE_NAMESPACE), annotation(RELEASE_NAME)) else {
            return Vec::new();
        };
        self.ctx.cache.keys_of_release_named(&namespace.into(), name)
    }

    /// Deletes an object, but only the one with this uid. Without a uid it reads the object first. Returns whether
    /// there was something to delete.
    pub async fn prune(&self, id: &ObjectId, uid: Option<&str>) -> Result<bool, Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(false) };
        let found;
        let uid = if let Some(uid) = uid {
            uid
        } else {
            // No watch shows the object: it is deleted, has lost its label, or was never ours.
            let Some(object) = self.observed.cluster.get(&resource, id).await? else { return Ok(false) };
            if !is_marked(metadata(&object), &self.observed.owner) || !managers::is_applied(managed(&object)) {
                return Ok(false);
            }
            found = metadata(&object).get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
            &found
        };
        let foreground = self.observed.facts.wait_for_deletion;
        match self.observed.cluster.delete(&resource, id, Some(uid), foreground).await {
            Ok(Some(left)) => {
                self.ctx.cache.wrote_object(&id.gvk, &left);
            }
            Ok(None) => {
                self.ctx.cache.remove_object(id, Some(uid), 0, &Value::Null);
                self.ctx.queue.add_all(self.ctx.waits.free(id));
            }
            Err(e) => return Err(e.into()),
        }
        Ok(true)
    }

    /// Removes the custom resource from the owner references of an object.
    pub async fn orphan(&self, id: &ObjectId) -> Result<(), Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(()) };
        let Some(object) = self.observed.cluster.get(&resource, id).await? else { return Ok(()) };
        let meta = metadata(&object);
        let ours = |r: &&Value| r.get("uid").and_then(Value::as_str) == Some(&*self.observed.owner.uid);
        let owners = meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let left: Vec<&Value> = owners.filter(|r| !ours(r)).collect();
        // The patch contains the whole list of owners. The resourceVersion makes it fail if another client has changed
        // the list.
        let patch = json!({"metadata": {"ownerReferences": left, "resourceVersion": meta.get("resourceVersion")}});
        match self.observed.cluster.merge::<Value>(&resource, id, &patch, None).await {
            Ok(answer) => {
                self.ctx.cache.wrote_object(&id.gvk, &answer);
                Ok(())
            }
            Err(e) if e.is_not_found() => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    async fn resource(&self, id: &ObjectId, verb: &str) -> Result<Arc<Resource>, Error> {
        let unknown = || ApiError::UnknownKind { what: describe(verb, id), kind: id.gvk.to_string() };
        Ok(self.ctx.discovery.resolve(&id.gvk).await?.ok_or_else(unknown)?)
    }
}

/// The owner of an object.
pub fn claim(object: &Value, observed: &Observed, ctx: &Context) -> Ownership {
    let is_live = |namespace: &str, release: &str| ctx.cache.is_live(namespace, release);
    ownership(metadata(object), &observed.owner, observed.facts.switches.take_ownership, is_live)
}

/// Whether an object has no owner.
pub fn is_nobodys(object: &Value, observed: &Observed, ctx: &Context) -> bool {
    let is_live = |namespace: &str, release: &str| ctx.cache.is_live(namespace, release);
    ownership(metadata(object), &observed.owner, true, is_live) == Ownership::Adopted
}

/// Updates an object of a hook or an operation that an earlier run left, as Helm does where the policy before-hook-creation is missing:
/// fields that the chart no longer has are removed, and fields that other clients added stay.
pub async fn update_beside(
    observed: &Observed,
    resource: &Resource,
    id: &ObjectId,
    found: &Value,
    body: &Value,
) -> Result<Value, ApiError> {
    if let Some(managers) = managers::as_applied(managed(found), CONTROLLER_MANAGER, &id.gvk.api_version()) {
        observed.cluster.set_managers(resource, id, found, &managers).await?;
    }
    observed.cluster.apply_beside(resource, id, body).await
}

/// An object in the form to send.
struct Substituted<'a> {
    object: Cow<'a, Stamped>,
    /// An apply to send before it.
    first: Option<Map<String, Value>>,
}

/// One object while it is applied: carries out the steps that [`ObjectRun`] decides.
struct One<'a> {
    objects: &'a Objects<'a>,
    resource: Arc<Resource>,
    run: ObjectRun<'a>,
    /// The last refusal.
    refused: Option<ApiError>,
}

impl One<'_> {
    /// Takes the steps of the object. Returns the last one.
    async fn take_steps(&mut self) -> Result<ObjectStep, Error> {
        let (resource, cluster) = (Arc::clone(&self.resource), &self.objects.observed.cluster);
        loop {
            let id = self.run.id();
            match self.run.next_step() {
                ObjectStep::Read => {
                    let found = cluster.get(&resource, id).await?;
                    self.run.read(found.map(|found| {
                        let owner = self.objects.ownership(&found);
                        (found, owner)
                    }));
                }
                ObjectStep::LookForAutoscalers => {
                    let autoscaled = self.has_an_autoscaler().await?;
                    self.run.looked(autoscaled);
                }
                ObjectStep::ReleaseReplicas(managers) => {
                    cluster.set_managers(&resource, id, self.run.latest(), &managers).await?;
                    self.run.released();
                }
                ObjectStep::LeaveFields => self.run.leave_fields(),
                ObjectStep::HandOver => {
                    let taken = self.hand_over().await?;
                    self.run.handed_over(taken);
                }
                ObjectStep::ApplyFirst(body) => {
                    let answer = cluster.apply(&resource, id, &body, Conflicts::Force).await?;
                    self.run.applied_first(&answer);
                }
                ObjectStep::Send { new, dry } => self.send(new, dry).await,
                ObjectStep::Replace { new } => self.replace(new).await,
                ObjectStep::Reshape { managers, body, notice } => {
                    if let Some(managers) = managers {
                        cluster.set_managers(&resource, id, self.run.latest(), &managers).await?;
                    }
                    self.run.remedied(Some((body, notice)));
                }
                ObjectStep::Recreate { fields, remake, sizes } if !self.run.is_dry() => {
                    if !self.make_room(&fields, remake, &sizes).await? {
                        return Ok(ObjectStep::AwaitDeletion);
                    }
                    self.run.remedied(None);
                }
                ObjectStep::Relinquish(managers) => {
                    let answer = cluster.set_managers(&resource, id, self.run.latest(), &managers).await?;
                    self.run.answered(Ok(answer));
                    return Ok(ObjectStep::Done);
                }
                end => return Ok(end),
            }
        }
    }

    async fn send(&mut self, new: bool, dry: bool) {
        let (cluster, id, body) = (&self.objects.observed.cluster, self.run.id(), self.run.body());
        let answer = if new {
            cluster.apply_new(&self.resource, id, body, dry).await
        } else {
            cluster.apply_or_try(&self.resource, id, body, Conflicts::Force, dry).await
        };
        let answer = self.keep(answer);
        self.run.answered(answer);
    }

    /// Keeps a refusal for the message, and returns the facts that the next step depends on.
    fn keep(&mut self, answer: Result<Value, ApiError>) -> Result<Value, WriteRefusal> {
        answer.map_err(|refused| {
            let facts = WriteRefusal {
                is_conflict: refused.is_conflict(),
                is_forbidden: refused.is_forbidden(),
                untyped: refused.is_untyped().then(|| refused.message().to_owned()),
                null: refused.null().to_vec(),
                immutable: refused.immutable().to_vec(),
                invalid: refused.invalid().to_vec(),
            };
            self.refused = Some(refused);
            facts
        })
    }

    /// The error of a last step.
    fn why(&mut self, end: ObjectStep) -> ApiError {
        let what = describe("apply", self.run.id());
        let refused = self.refused.take().filter(|_| end == ObjectStep::Fail);
        match end {
            ObjectStep::Refuse(why) => {
                let Objects { observed, ctx, .. } = self.objects;
                if !self.run.is_dry() {
                    ctx.waits.begin(&observed.key, self.run.id(), self.objects.holders(self.run.latest()));
                }
                ApiError::Foreign { what, why }
            }
            ObjectStep::Retain { fields, lost, remedy } => ApiError::Immutable { what, fields, lost, remedy },
            _ => refused.unwrap_or(ApiError::Remaking { what }),
        }
    }

    /// Replaces the object with the result of the trial and all items of one key.
    async fn replace(&mut self, new: bool) {
        let (cluster, id) = (&self.objects.observed.cluster, self.run.id());
        let (wanted, whole) = (managed(self.run.latest()).to_vec(), self.run.with_twins(new));
        let answer = if new {
            cluster.create(&self.resource, id, &whole, Returned::Object).await
        } else {
            cluster.replace(&self.resource, id, &whole, false, Returned::Object).await
        };
        let of = |answer| managers::replaced(managed(answer), &wanted, CONTROLLER_MANAGER);
        let managers = answer.as_ref().ok().and_then(of);
        let answer = self.keep(answer);
        self.run.replaced(answer);
        if let Some(managers) = managers {
            let answer = cluster.set_managers(&self.resource, self.run.id(), self.run.latest(), &managers).await;
            let answer = self.keep(answer);
            self.run.answered(answer);
        }
    }

    /// Deletes the object so that it can be recreated. Returns whether it is gone.
    async fn make_room(&self, fields: &str, remake: Remake, sizes: &[(String, String)]) -> Result<bool, Error> {
        let Objects { observed, ctx, .. } = self.objects;
        let (id, live) = (self.run.id(), self.run.latest());
        if !sizes.is_empty() {
            enlarge(&observed.cluster, id, live, sizes).await?;
        }
        let uid = metadata(live).get("uid").and_then(Value::as_str).unwrap_or_default();
        let left = match remake {
            Remake::Orphan => observed.cluster.orphan(&self.resource, id, uid).await?,
            _ => observed.cluster.delete(&self.resource, id, Some(uid), false).await?,
        };
        let text = format!("{id}: it is recreated, because {fields} cannot be changed");
        event(observed, ctx, true, "ObjectRemade", text);
        if let Some(left) = &left {
            ctx.cache.wrote_object(&id.gvk, left);
        }
        Ok(left.is_none())
    }

    /// Whether an autoscaler in the namespace of the object scales it.
    async fn has_an_autoscaler(&self) -> Result<bool, Error> {
        let id = self.run.id();
        let mut found = false;
        for kind in autoscalers() {
            let Some(resource) = self.objects.ctx.discovery.resolve(&kind).await? else { continue };
            let namespace = id.namespace.as_deref().unwrap_or_default();
            match self.objects.observed.cluster.list(&resource, namespace, "").await {
                Ok(all) => found |= all.iter().any(|autoscaler| scales(&kind.kind, autoscaler, id)),
                // Without the right to read them, only those of the release are known.
                Err(error) if error.is_forbidden() => tracing::debug!(%error, "autoscalers of other clients are not \
                     known"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// Takes over the fields that Helm owned. Returns whether there was a field to take over.
    async fn hand_over(&self) -> Result<bool, Error> {
        let (cluster, id, found) = (&self.objects.observed.cluster, self.run.id(), self.run.latest());
        let version = id.gvk.api_version();
        let moved = if managers::is_in_other_version(managed(found), &version) {
            Some(cluster.apply(&self.resource, id, &whole(found), Conflicts::Force).await?)
        } else {
            None
        };
        let found = moved.as_ref().unwrap_or(found);
        let (before, now) = self.run.manifests();
        let manifests: Vec<&Value> = before.iter().chain([&now]).collect();
        let Some(managers) = managers::hand_over(managed(found), &version, &manifests) else {
            return Ok(moved.is_some());
        };
        cluster.set_managers(&self.resource, id, found, &managers).await?;
        Ok(true)
    }
}
