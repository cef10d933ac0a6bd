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
use crate::plan::immutable;
use crate::plan::immutable::{Remake, UPGRADE_FORCE};
use crate::plan::leave::{autoscaled, autoscalers, leave, scales};
use crate::plan::reshape::reshape;
use crate::plan::situation::Situation;
use crate::plan::stamp::Stamped;
use crate::plan::tolerate;
use crate::plan::tolerate::Fault;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::notify::event;
use crate::reconcile::observe::latches::latch;
use crate::reconcile::observe::observed::Observed;
use crate::release::inventory::Reference;
use crate::release::managers;
use crate::release::owner::{RELEASE_NAME, RELEASE_NAMESPACE};
use crate::release::record::Status;

/// How often an object is sent again without the parts that the API server refused. The API server names all faults at
/// once, except for duplicates in one list.
const MAX_FAULTS: usize = 20;

/// The metadata fields of an object that clients write.
const WRITTEN: [&str; 6] = ["name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];

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
    /// Its id.
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
    Recreated {
        /// The fields.
        fields: String,
        /// The body.
        body: Value,
    },
    /// It would be refused.
    Refused(Text),
}

/// Something about an object that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Reason of the event.
    pub reason: &'static str,
    /// A sentence without the object's name.
    pub text: Text,
    /// Whether it is a warning.
    pub warning: bool,
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

    /// A StatefulSet with members in the form to send: with its current pods or, if it does not exist, with the pods
    /// that it had last.
    async fn substitute(&self, object: &Stamped, resource: &Resource) -> Result<Option<Substituted>, Error> {
        let Some(set) = self.members.and_then(|members| members.of(&object.id)) else { return Ok(None) };
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
        Ok(Some(Substituted { object, first }))
    }

    /// Applies an object. If the object is not `known` to be ours and exists, it is taken over or refused.
    pub async fn apply(&self, object: &Stamped, known: bool) -> Result<AppliedObject, Error> {
        let id = &object.id;
        let resource = self.resource(id, "apply").await?;
        self.ctx.watching.objects.ensure(&id.gvk, id.namespace.as_ref());
        let before = self.observed.facts.live.get(id);
        let mut substituted = self.substitute(object, &resource).await?;
        let first = substituted.as_mut().and_then(|s| s.first.take());
        let object = substituted.as_ref().map_or(object, |s| &s.object);
        let mut one = One {
            objects: self,
            resource: &resource,
            object,
            body: Cow::Borrowed(&object.body),
            is_stepped: substituted.is_some(),
            is_dry: false,
            is_autoscaled: self.autoscaled.contains(id),
            first,
            duplicates: Vec::new(),
            twins: tolerate::Twins::default(),
            notices: Vec::new(),
        };
        let (key, repaired) = (&self.observed.key, self.observed.situation.repairs(id));
        let mut taken = None;
        let mut answer = if known {
            let ruled = || self.observed.ignored.iter().any(|rule| rule.covers(id));
            let suspect = repaired && self.ctx.memory.contests.with(key, |contest, now| contest.is_suspect(id, now));
            let autoscaled = one.leaves_replicas_to_an_autoscaler();
            if suspect || autoscaled || before.is_some_and(|b| b.shared || ruled()) {
                let found = self.observed.cluster.get(&resource, id).await?;
                if let Some(found) = &found {
                    one.look_for_autoscalers(found).await?;
                    if autoscaled
                        && let Some(managers) = managers::release_replicas(managed(found), &id.gvk.api_version())
                    {
                        self.observed.cluster.set_managers(&resource, id, found, &managers).await?;
                    }
                    one.leave(found);
                    one.hand_over(found).await?;
                }
                let wanted = Value::Object(one.body.clone().into_owned());
                taken = Some(found.map(|found| managers::taken(managed(&found), &wanted)).unwrap_or_default());
            }
            one.send().await?
        } else {
            one.create_or_take_over().await?
        };
        if managers::needs_hand_over(managed(&answer)) && one.hand_over(&answer).await? {
            answer = one.send().await?;
        }
        if repaired && let Some(managers) = managers::relinquish(managed(&answer)) {
            answer = self.observed.cluster.set_managers(&resource, id, &answer, &managers).await?;
        }
        one.check_survivors(&answer);
        let mut notices = one.notices;
        let Some((id, live)) = self.ctx.cache.wrote_object(&id.gvk, &answer) else {
            return Ok(AppliedObject { id: id.clone(), reference: None, changed: false, notices });
        };
        // The answer has the same version, so our apply changed nothing, and the trigger was not drift
        // (docs/design/applying.md C1).
        let changed = before.is_none_or(|b| b.resource_version != live.resource_version || b.uid != live.uid);
        if changed && repaired {
            notices.extend(self.ctx.memory.contests.with(key, |contest, now| {
                let began = contest.repaired(&id, now, taken);
                let text = contest.describe().filter(|_| began)?;
                Some(Notice { reason: "Contested", text: Text::own(text), warning: true })
            }));
        }
        let reference = Reference { uid: live.uid, digest: live.digest.unwrap_or_default(), finished: false };
        Ok(AppliedObject { id, reference: Some(reference), changed, notices })
    }

    /// Reads an object; `None` if it or its kind does not exist.
    pub async fn live(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(None) };
        Ok(self.observed.cluster.get(&resource, id).await?)
    }

    /// The object as it is, and what [`Objects::apply`] would do, found with a dry run.
    pub async fn try_out(&self, object: &Stamped, known: bool) -> Result<(Option<Value>, Tried), Error> {
        let id = &object.id;
        let resource = self.resource(id, "apply").await?;
        let found = self.observed.cluster.get(&resource, id).await?;
        let substituted = self.substitute(object, &resource).await?;
        let object = substituted.as_ref().map_or(object, |s| &s.object);
        let mut one = One {
            objects: self,
            resource: &resource,
            object,
            body: Cow::Borrowed(&object.body),
            is_stepped: substituted.is_some(),
            is_dry: true,
            is_autoscaled: self.autoscaled.contains(id),
            first: None,
            duplicates: Vec::new(),
            twins: tolerate::Twins::default(),
            notices: Vec::new(),
        };
        if let Some(found) = &found {
            if let Ownership::Refused(why) = self.ownership(found)
                && !known
            {
                let why = ApiError::Foreign { what: describe("apply", id), why };
                return Ok((Some(found.clone()), Tried::Refused(why.text())));
            }
            one.look_for_autoscalers(found).await?;
            one.leave(found);
        }
        let tried = match one.request(found.is_none()).await {
            Ok(mut answer) => {
                if let Some(found) = &found {
                    one.drop_handed_over(found, &mut answer);
                }
                Tried::Applied(answer)
            }
            Err(e) if let (false, Some(found)) = (e.immutable().is_empty(), &found) => match one.remaking(&e, found) {
                (fields, Ok(_)) => Tried::Recreated { fields, body: Value::Object(one.body.clone().into_owned()) },
                (_, Err(why)) => Tried::Refused(why.text()),
            },
            Err(e) => Tried::Refused(e.text()),
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

/// A StatefulSet with members, in the form to send.
struct Substituted {
    object: Stamped,
    /// An apply to send before it.
    first: Option<Map<String, Value>>,
}

/// One object while it is applied.
struct One<'a> {
    objects: &'a Objects<'a>,
    resource: &'a Resource,
    object: &'a Stamped,
    /// The body to send, without the parts that the API server refused.
    body: Cow<'a, Map<String, Value>>,
    /// Whether the operator sets its replicas, so that they are never left out.
    is_stepped: bool,
    /// Nothing is stored.
    is_dry: bool,
    /// An autoscaler sets its replicas.
    is_autoscaled: bool,
    /// An apply to send before it.
    first: Option<Map<String, Value>>,
    /// Items with the same key that were removed from `body`.
    duplicates: Vec<tolerate::Duplicate>,
    /// The lists that contain them.
    twins: tolerate::Twins,
    notices: Vec<Notice>,
}

impl One<'_> {
    /// Applies the object. Conflicting values of other managers are overwritten.
    async fn send(&mut self) -> Result<Value, Error> {
        if let Some(first) = self.first.take() {
            let (cluster, id) = (&self.objects.observed.cluster, &self.object.id);
            let answer = cluster.apply(self.resource, id, &first, Conflicts::Force).await?;
            if let Some(Value::Object(meta)) = self.body.to_mut().get_mut("metadata") {
                meta.insert("resourceVersion".into(), metadata(&answer)["resourceVersion"].clone());
            }
        }
        match self.request(false).await {
            Err(e) if !e.immutable().is_empty() => {
                self.make_room(&e).await?;
                Ok(self.request(false).await?)
            }
            Err(e) if !e.invalid().is_empty() && self.reshape(&e).await? => Ok(self.request(false).await?),
            answer => Ok(answer?),
        }
    }

    /// Removes the fields that conflict with the new shape of an object whose type allows several shapes. Returns
    /// whether there were such fields.
    async fn reshape(&mut self, refused: &ApiError) -> Result<bool, Error> {
        let (cluster, id) = (&self.objects.observed.cluster, &self.object.id);
        let Some(live) = cluster.get(self.resource, id).await? else { return Ok(false) };
        let Some(reshaped) = reshape(&self.body, &live, refused.invalid()) else { return Ok(false) };
        let (managers, owners) = managers::take(managed(&live), &id.gvk.api_version(), &reshaped.fields);
        if !reshaped.paths.is_empty() {
            cluster.set_managers(self.resource, id, &live, &managers).await?;
        }
        self.body = Cow::Owned(reshaped.body);
        if !owners.is_empty() {
            let text = format!(
                "{} conflicts with the chart and is removed; {} had set it",
                reshaped.paths.join(", "),
                owners.join(", ")
            );
            self.notices.push(Notice { reason: "FieldRemoved", text: Text::own(text), warning: true });
        }
        Ok(true)
    }

    /// Deletes an object so that it can be recreated with another value of an immutable field, if the custom resource
    /// allows this.
    async fn make_room(&self, refused: &ApiError) -> Result<(), Error> {
        let Objects { observed, ctx, .. } = self.objects;
        let id = &self.object.id;
        let Some(live) = observed.cluster.get(self.resource, id).await? else { return Ok(()) };
        let what = describe("apply", id);
        if metadata(&live).get("deletionTimestamp").is_some() {
            return Err(ApiError::Remaking { what }.into());
        }
        let (fields, remake) = self.remaking(refused, &live);
        let remake = remake?;
        if let Some(sizes) = self.claim_sizes(&live) {
            enlarge(&observed.cluster, id, &live, &sizes).await?;
        }
        let uid = metadata(&live).get("uid").and_then(Value::as_str).unwrap_or_default();
        let left = match remake {
            Remake::Orphan => observed.cluster.orphan(self.resource, id, uid).await?,
            _ => observed.cluster.delete(self.resource, id, Some(uid), false).await?,
        };
        event(
            observed,
            ctx,
            true,
            "ObjectRemade",
            format!("{id}: it is recreated, because {fields} cannot be changed"),
        );
        match left {
            Some(left) => {
                ctx.cache.wrote_object(&id.gvk, &left);
                Err(ApiError::Remaking { what }.into())
            }
            None => Ok(()),
        }
    }

    /// The sizes that the claims of members are to have, unless the custom resource says that the StatefulSet alone is recreated.
    fn claim_sizes(&self, live: &Value) -> Option<Vec<(String, String)>> {
        let wanted = Value::Object(self.body.clone().into_owned());
        immutable::claim_sizes(live, &wanted).filter(|_| self.is_stepped && !self.is_forced())
    }

    /// Whether the custom resource allows recreating what cannot be changed.
    fn is_forced(&self) -> bool {
        let observed = self.objects.observed;
        let pending = observed.facts.history.last().map(|revision| revision.status);
        let rolls_back =
            matches!(observed.situation, Situation::RollBack(_)) || pending == Some(Status::PendingRollback);
        immutable::is_allowed(&observed.cr.annotations, rolls_back)
    }

    /// The immutable fields that differ, and how the object is recreated with them, if the custom resource allows this.
    fn remaking(&self, refused: &ApiError, live: &Value) -> (String, Result<Remake, ApiError>) {
        let id = &self.object.id;
        let wanted = Value::Object(self.body.clone().into_owned());
        let fields = refused.immutable().iter().flat_map(|(field, why)| immutable::changed(live, &wanted, field, why));
        let fields = fields.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
        let (remake, lost) = immutable::remake(&id.gvk);
        let only_claims = fields == "spec.volumeClaimTemplates"
            && (self.claim_sizes(live).is_some() || immutable::differ_in_labels(live, &wanted));
        let remedy = match remake {
            Remake::Never => ", so it never is".to_owned(),
            _ if only_claims || self.is_forced() => return (fields, Ok(remake)),
            _ => format!(". The annotation {UPGRADE_FORCE}: \"true\" on the custom resource allows it"),
        };
        let what = describe("apply", id);
        (fields.clone(), Err(ApiError::Immutable { what, fields, lost, remedy }))
    }

    /// Applies the object once, without the faults that the API server refuses and Helm deploys
    /// (docs/design/applying.md B3).
    async fn request(&mut self, new: bool) -> Result<Value, ApiError> {
        for _ in 0..MAX_FAULTS {
            let answer = self.apply_once(new, self.twins.can_be_restored()).await;
            let faults = match &answer {
                Err(e) if e.is_untyped() => tolerate::correct(self.body.to_mut(), e.message(), &mut self.twins),
                Err(e) if !e.null().is_empty() => tolerate::leave_out_nulls(self.body.to_mut(), e.null()),
                _ => None,
            };
            let Some(faults) = faults else {
                if self.twins.can_be_restored() && !self.is_dry {
                    return self.replace(answer?, new).await;
                }
                self.note_lost();
                return answer;
            };
            for fault in faults {
                match fault {
                    Fault::Duplicate(duplicate) => self.duplicates.push(duplicate),
                    Fault::Unknown(_) | Fault::Null(_) => self.note_mended(&fault.to_string()),
                }
            }
        }
        self.apply_once(new, false).await
    }

    async fn apply_once(&self, new: bool, dry: bool) -> Result<Value, ApiError> {
        let dry = dry || self.is_dry;
        let (cluster, id) = (&self.objects.observed.cluster, &self.object.id);
        if new {
            cluster.apply_new(self.resource, id, &self.body, dry).await
        } else {
            cluster.apply_or_try(self.resource, id, &self.body, Conflicts::Force, dry).await
        }
    }

    fn note_mended(&mut self, what: &str) {
        let bare = "the API server does not accept a part of the object as the chart has it";
        let text = Text::foreign_or(what.to_owned(), bare);
        let notice = Notice { reason: "ManifestMended", text, warning: true };
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Replaces an object with several items of one key: writes the result of an apply without these items, plus all of
    /// them. The fields get the owners that the apply would give them. If the API server refuses the replacement, sends
    /// the apply itself.
    async fn replace(&mut self, tried: Value, new: bool) -> Result<Value, ApiError> {
        let (cluster, id) = (&self.objects.observed.cluster, &self.object.id);
        let mut whole = tried;
        let wanted = managed(&whole).to_vec();
        tolerate::restore(&mut whole, &self.twins);
        let answer = if new {
            if let Some(Value::Object(metadata)) = whole.get_mut("metadata") {
                metadata.retain(|field, _| WRITTEN.contains(&field.as_str()));
            }
            cluster.create(self.resource, id, &whole, Returned::Object).await
        } else {
            cluster.replace(self.resource, id, &whole, false, Returned::Object).await
        };
        let refused = match answer {
            Ok(answer) => {
                let said: Vec<String> = self.duplicates.iter().map(tolerate::Duplicate::kept).collect();
                for text in &said {
                    self.note_mended(text);
                }
                let Some(managers) = managers::replaced(managed(&answer), &wanted, CONTROLLER_MANAGER) else {
                    return Ok(answer);
                };
                return cluster.set_managers(self.resource, id, &answer, &managers).await;
            }
            Err(e) => e,
        };
        if refused.invalid().is_empty() && !refused.is_forbidden() {
            return Err(refused);
        }
        self.note_lost();
        self.apply_once(new, false).await
    }

    /// Reports which items were removed.
    fn note_lost(&mut self) {
        let said: Vec<String> = self.duplicates.iter().map(|d| Fault::Duplicate(d.clone()).to_string()).collect();
        for text in &said {
            self.note_mended(text);
        }
    }

    /// Creates the object. An existing object is taken over if this is allowed.
    async fn create_or_take_over(&mut self) -> Result<Value, Error> {
        let (cluster, id) = (&self.objects.observed.cluster, &self.object.id);
        let conflict = match self.request(true).await {
            Err(e) if e.is_conflict() => e,
            answer => return Ok(answer?),
        };
        // The object was deleted in between. The next pass creates it.
        let Some(found) = cluster.get(self.resource, id).await? else { return Err(conflict.into()) };
        match self.objects.ownership(&found) {
            Ownership::Ours => {}
            Ownership::Adopted => {
                self.notices.push(Notice {
                    reason: "ObjectAdopted",
                    text: "it existed and was taken over".into(),
                    warning: false,
                });
            }
            Ownership::Refused(why) => {
                let Objects { observed, ctx, .. } = self.objects;
                ctx.waits.begin(&observed.key, id, self.objects.holders(&found));
                return Err(ApiError::Foreign { what: describe("apply", id), why }.into());
            }
        }
        self.look_for_autoscalers(&found).await?;
        self.leave(&found);
        self.hand_over(&found).await?;
        self.send().await
    }

    /// Whether an autoscaler of the release sets the replicas, and the chart does not. The replicas may still belong to
    /// the operator from an earlier revision, even if that one was interrupted.
    fn leaves_replicas_to_an_autoscaler(&self) -> bool {
        let writes = self.object.body.get("spec").is_some_and(|spec| spec.get("replicas").is_some());
        self.is_autoscaled && !writes
    }

    /// Looks in the namespace for an autoscaler of an object that somebody has scaled to zero. The release has none for it.
    async fn look_for_autoscalers(&mut self, found: &Value) -> Result<(), Error> {
        let id = &self.object.id;
        let Some(namespace) = id.namespace.as_deref().filter(|_| !self.is_autoscaled) else { return Ok(()) };
        if !managers::is_scaled_to_zero(managed(found), found) {
            return Ok(());
        }
        for kind in autoscalers() {
            let Some(resource) = self.objects.ctx.discovery.resolve(&kind).await? else { continue };
            match self.objects.observed.cluster.list(&resource, namespace, "").await {
                Ok(all) => self.is_autoscaled |= all.iter().any(|autoscaler| scales(&kind.kind, autoscaler, id)),
                // Without the right to read them, only those of the release are known.
                Err(error) if error.is_forbidden() => tracing::debug!(%error, "autoscalers of other clients are not \
                     known"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Leaves out the fields that belong to others.
    fn leave(&mut self, found: &Value) {
        let Objects { observed, previous, .. } = self.objects;
        let id = &self.object.id;
        let previous = previous.get(id).copied();
        let zero = managers::is_scaled_to_zero(managed(found), found);
        let left = leave(self.object, previous, managed(found), zero, self.is_autoscaled, &observed.ignored);
        if let Some(mut body) = left {
            let replicas = self.object.body.get("spec").and_then(|spec| spec.get("replicas"));
            if let (true, Some(replicas), Some(Value::Object(spec))) = (self.is_stepped, replicas, body.get_mut("spec"))
            {
                spec.insert("replicas".into(), replicas.clone());
            }
            self.body = Cow::Owned(body);
            self.duplicates.clear();
            self.twins = tolerate::Twins::default();
        }
    }

    /// Takes over the fields that Helm owned, so that a field that the chart drops is removed. Returns whether there
    /// was a field to take over.
    async fn hand_over(&self, found: &Value) -> Result<bool, Error> {
        let Stamped { id, body, .. } = self.object;
        let (cluster, version) = (&self.objects.observed.cluster, id.gvk.api_version());
        let moved = if managers::is_in_other_version(managed(found), &version) {
            Some(cluster.apply(self.resource, id, &whole(found), Conflicts::Force).await?)
        } else {
            None
        };
        let found = moved.as_ref().unwrap_or(found);
        let now = Value::Object(body.clone());
        let before = self.objects.previous.get(id).map(|o| Value::Object(o.body.clone()));
        let manifests: Vec<&Value> = before.iter().chain([&now]).collect();
        let Some(managers) = managers::hand_over(managed(found), &version, &manifests) else {
            return Ok(moved.is_some());
        };
        cluster.set_managers(self.resource, id, found, &managers).await?;
        Ok(true)
    }

    /// Removes from the answer to a dry run what [`One::hand_over`] would let an apply remove: top fields of maps that only Helm owned, and
    /// that the chart no longer has.
    fn drop_handed_over(&self, found: &Value, answer: &mut Value) {
        let Some(before) = self.objects.previous.get(&self.object.id) else { return };
        if !managers::needs_hand_over(managed(found)) {
            return;
        }
        let (before, now) = (Value::Object(before.body.clone()), Value::Object(self.object.body.clone()));
        for pointer in dropped(&before, &now) {
            let Some((parent, key)) = pointer.rsplit_once('/') else { continue };
            if let Some(Value::Object(map)) = answer.pointer_mut(parent) {
                map.shift_remove(&key.replace("~1", "/").replace("~0", "~"));
            }
        }
    }

    /// Reports fields that the chart dropped and that another manager keeps.
    fn check_survivors(&mut self, answer: &Value) {
        let Some(before) = self.objects.previous.get(&self.object.id).filter(|o| o.body != self.object.body) else {
            return;
        };
        let (before, now) = (Value::Object(before.body.clone()), Value::Object(self.object.body.clone()));
        for survivor in managers::survivors(managed(answer), &before, &now) {
            let text =
                format!("the chart no longer has {}, and it stays because {} owns it", survivor.path, survivor.manager);
            self.notices.push(Notice { reason: "FieldStays", text: Text::own(text), warning: true });
        }
    }
}

/// All parts of an object that can be applied. Applying them changes only the owners of the fields.
fn whole(found: &Value) -> Map<String, Value> {
    let mut body = found.as_object().cloned().unwrap_or_default();
    body.remove("status");
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.retain(|field, _| WRITTEN.contains(&field.as_str()));
    }
    body
}

/// The fields of maps that `before` has and `now` lacks, as JSON pointers.
fn dropped(before: &Value, now: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in before {
        let step = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        match now.get(key) {
            None => found.push(step),
            Some(now) => found.extend(dropped(value, now).into_iter().map(|rest| format!("{step}{rest}"))),
        }
    }
    found
}

fn managed(object: &Value) -> &[Value] {
    metadata(object).get("managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
