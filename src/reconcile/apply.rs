//! Apply: carries a plan out, step by step, and decides nothing. After an error the rest is left to the next pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{Applied, Notice, Objects};
use super::observe::{Observed, read_record, secret_id};
use super::render::Prepared;
use super::sinks::metadata;
use super::{Context, Error, FINALIZER, LEGACY_FINALIZER};
use crate::cluster::cache::{Cr, CrObject};
use crate::cluster::client::describe;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::plan::{Plan, Step, Verb};
use crate::release::inventory::{Inventory, MAX_BYTES, Reference};
use crate::release::object::ObjectId;
use crate::release::record::{New, Record, RecordError, Status};
use crate::release::secret::{self, Revision};

/// What a pass did.
pub struct Outcome {
    /// What it meant to do.
    pub verb: Verb,
    /// What was rendered, when it was.
    pub prepared: Prepared,
    /// How many objects it changed on the server; an apply that changed nothing does not count.
    pub changed: Vec<ObjectId>,
    /// What deserves an event.
    pub notices: Vec<(ObjectId, Notice)>,
    /// How many it deleted.
    pub pruned: usize,
    /// The custom resource is finished with: there is no status to write.
    pub finished: bool,
    /// The revision that it worked on.
    pub revision: u64,
    /// Why it stopped, if it did.
    pub error: Option<Error>,
}

/// Carries out the plan.
pub async fn apply(observed: &Observed, plan: Result<(Plan, Prepared), Error>, ctx: &Context) -> Outcome {
    let (plan, prepared) = match plan {
        Ok(planned) => planned,
        Err(error) => {
            return Outcome {
                verb: Verb::Rest,
                prepared: Prepared::default(),
                changed: Vec::new(),
                notices: Vec::new(),
                pruned: 0,
                finished: false,
                revision: 0,
                error: Some(error),
            };
        }
    };
    if plan.verb != Verb::Rest {
        tracing::debug!(release = %observed.key.name, namespace = %observed.key.namespace, %plan, "plan");
    }
    let mut run = Run::new(observed, &prepared, &plan, ctx);
    let mut error = None;
    for step in &plan.steps {
        if let Err(e) = run.step(step).await {
            error = Some(e);
            break;
        }
    }
    if let Some(e) = &error {
        run.mark_failed(e).await;
    }
    let Run { changed, notices, pruned, finished, .. } = run;
    Outcome { verb: plan.verb, changed, notices, pruned, finished, revision: plan.revision, error, prepared }
}

/// A plan that is being carried out.
struct Run<'a> {
    observed: &'a Observed,
    prepared: &'a Prepared,
    plan: &'a Plan,
    ctx: &'a Context,
    /// The record of the plan's revision.
    record: Option<Record>,
    /// Its Secret as the API server last answered.
    head: Option<Revision>,
    /// The API server's answers to our applies.
    references: BTreeMap<ObjectId, Reference>,
    objects: Objects<'a>,
    changed: Vec<ObjectId>,
    notices: Vec<(ObjectId, Notice)>,
    pruned: usize,
    finished: bool,
}

impl<'a> Run<'a> {
    fn new(observed: &'a Observed, prepared: &'a Prepared, plan: &'a Plan, ctx: &'a Context) -> Self {
        let head = observed.facts.history.last().filter(|r| r.revision == plan.revision).cloned();
        let record = observed.record.as_ref().ok().and_then(Clone::clone).filter(|r| r.revision() == plan.revision);
        Self {
            observed,
            prepared,
            plan,
            ctx,
            record,
            head,
            references: BTreeMap::new(),
            objects: Objects::new(observed, &prepared.desired, ctx),
            changed: Vec::new(),
            notices: Vec::new(),
            pruned: 0,
            finished: false,
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Finalize => self.finalize().await,
            Step::CreateCrds => self.create_crds().await,
            Step::CreateRecord { revision, status } => self.create_record(*revision, *status).await,
            Step::Apply { object, force } => {
                let object = &self.prepared.desired.objects[*object];
                let applied = self.objects.apply(object, *force).await?;
                self.note_applied(applied);
                Ok(())
            }
            Step::Prune { id, uid } => {
                let pruned = self.objects.prune(id, uid.as_deref()).await?;
                self.pruned += usize::from(pruned);
                Ok(())
            }
            Step::Supersede(revision) => self.supersede(*revision).await,
            Step::MarkDeployed(revision) => self.mark_deployed(*revision).await,
            Step::Note(revision) => self.note(*revision).await,
            Step::Forget(revision) => self.forget(*revision).await,
            Step::Unfinalize => self.unfinalize().await,
        }
    }

    fn note_applied(&mut self, applied: Applied) {
        let Applied { id, reference, changed, notices } = applied;
        self.notices.extend(notices.into_iter().map(|notice| (id.clone(), notice)));
        if changed {
            self.changed.push(id.clone());
        }
        if let Some(reference) = reference {
            self.references.insert(id, reference);
        }
    }

    async fn finalize(&mut self) -> Result<(), Error> {
        let mut finalizers: Vec<&str> = self.observed.cr.finalizers.iter().map(|f| &**f).collect();
        finalizers.push(FINALIZER);
        self.patch_finalizers(&finalizers).await
    }

    async fn unfinalize(&mut self) -> Result<(), Error> {
        let ours = |f: &str| f == FINALIZER || f == LEGACY_FINALIZER;
        let finalizers: Vec<&str> = self.observed.cr.finalizers.iter().map(|f| &**f).filter(|f| !ours(f)).collect();
        match self.patch_finalizers(&finalizers).await {
            Err(Error::Api(e)) if e.is_not_found() => {}
            result => result?,
        }
        // Its objects' last events must not start another pass before its own arrives.
        self.ctx.cache.remove_cr(&self.observed.key, Some(&self.observed.cr.uid));
        self.finished = true;
        Ok(())
    }

    /// The list is written whole, so the resourceVersion guards what others wrote into it meanwhile.
    async fn patch_finalizers(&mut self, finalizers: &[&str]) -> Result<(), Error> {
        let version =
            self.ctx.cache.cr(&self.observed.key).map_or(self.observed.cr.resource_version, |cr| cr.resource_version);
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version.to_string()}});
        let (resource, id) = self.cr().await?;
        let answer: CrObject = self.ctx.cluster.merge(&resource, &id, &patch, None).await?;
        if let Some(cr) = Cr::read(answer).filter(|_| !self.observed.cr.deleting) {
            self.ctx.cache.put_cr(self.observed.key.clone(), cr);
        }
        Ok(())
    }

    async fn cr(&self) -> Result<(Arc<Resource>, ObjectId), Error> {
        cr_id(self.observed, self.ctx).await
    }

    async fn create_crds(&mut self) -> Result<(), Error> {
        for body in &self.prepared.desired.crds {
            let name =
                metadata(&Value::Object(body.clone())).get("name").and_then(Value::as_str).unwrap_or_default().into();
            let id = ObjectId { gvk: Resource::crds().gvk, namespace: None, name };
            match self.ctx.cluster.create(&Resource::crds(), &id, &Value::Object(body.clone())).await {
                Ok(_) => self.changed.push(id),
                // Helm leaves one that exists as it is.
                Err(e) if e.is_conflict() => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    async fn create_record(&mut self, revision: u64, status: Status) -> Result<(), Error> {
        let (Some(rendered), Some(chart)) = (&self.prepared.rendered, &self.observed.chart) else {
            return Err(Error::Renderer("nothing was rendered".to_owned()));
        };
        let now = jiff::Timestamp::now();
        let text = now.to_string();
        let previous = self.observed.record.as_ref().ok().and_then(Option::as_ref);
        let record = Record::new(&New {
            name: &self.observed.owner.release_name,
            namespace: &self.observed.owner.release_namespace,
            revision,
            status,
            description: if status == Status::PendingInstall {
                "Initial install underway"
            } else {
                "Preparing upgrade"
            },
            first_deployed: previous.and_then(Record::first_deployed).unwrap_or(&text),
            now: &text,
            chart: &chart.json,
            config: &self.prepared.values,
            rendered,
        });
        let id = secret_id(&self.observed.key, revision);
        let owner = &self.observed.owner;
        let kinds: std::collections::BTreeSet<_> =
            self.prepared.desired.objects.iter().map(|o| (o.id.gvk.clone(), o.id.namespace.clone())).collect();
        for (gvk, namespace) in &kinds {
            self.ctx.watches.ensure(self.ctx, gvk, namespace.as_ref());
        }
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "type": secret::TYPE,
            "metadata": {
                "name": &*id.name, "namespace": id.namespace.as_deref(),
                "labels": secret::labels(&owner.release_name, revision, status, now.as_second(), &owner.uid),
                "annotations": {
                    secret::OWNER: owner.describe(),
                    secret::INPUTS: self.observed.facts.inputs.as_deref(),
                    secret::KINDS: secret::encode_kinds(&kinds),
                },
            },
            "data": {"release": data(&record)?},
        });
        let answer = self.ctx.cluster.create(&Resource::secrets(), &id, &body).await?;
        self.record = Some(record);
        self.enter(&answer);
        Ok(())
    }

    async fn supersede(&mut self, revision: u64) -> Result<(), Error> {
        let known = self.observed.record.as_ref().ok().and_then(Clone::clone).filter(|r| r.revision() == revision);
        let record = match known {
            Some(record) => Some(record),
            None => match read_record(&self.observed.key, revision, self.ctx).await {
                Err(Error::Record(RecordError::Corrupted(_))) => None,
                record => record?,
            },
        };
        let mut patch = status_patch(Status::Superseded);
        // Only the newest revision is judged; what the others consisted of stands in their manifest.
        patch["metadata"]["annotations"] = json!({secret::INVENTORY: null, secret::KINDS: null});
        if let Some(mut record) = record {
            record.set_status(Status::Superseded, "superseded by new release");
            patch["data"] = json!({"release": data(&record)?});
        }
        let id = secret_id(&self.observed.key, revision);
        match self.ctx.cluster.merge::<Value>(&Resource::secrets(), &id, &patch, None).await {
            Ok(answer) => self.cache_revision(&answer),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    async fn mark_deployed(&mut self, revision: u64) -> Result<(), Error> {
        let inputs = self.inputs();
        let Some(record) = &mut self.record else {
            return Err(Error::Record(RecordError::Corrupted("the pending record is gone")));
        };
        record.set_status(Status::Deployed, if revision == 1 { "Install complete" } else { "Upgrade complete" });
        let inventory = encode(&Inventory(self.references.clone()))?;
        let mut patch = status_patch(Status::Deployed);
        patch["metadata"]["annotations"] = json!({
            secret::INVENTORY: inventory, secret::INPUTS: inputs, secret::OWNER: self.observed.owner.describe(),
        });
        patch["metadata"]["labels"][secret::OWNER_UID] = Value::from(&*self.observed.owner.uid);
        patch["data"] = json!({"release": data(record)?});
        self.patch_head(revision, patch).await
    }

    /// The digest of the inputs of the plan's revision: a revision that is finished keeps those it was begun with.
    fn inputs(&self) -> Option<Box<str>> {
        let begun =
            self.head.as_ref().filter(|_| self.plan.verb == Verb::Repair && self.observed.facts.inputs.is_none());
        begun.map_or_else(|| self.observed.facts.inputs.clone(), |head| head.inputs.clone())
    }

    /// Writes what the newest revision consists of, when that is not what its annotations say.
    async fn note(&mut self, revision: u64) -> Result<(), Error> {
        let Some(head) = self.head.clone() else { return Ok(()) };
        let mut inventory = head.inventory.clone().unwrap_or_default();
        inventory.0.extend(self.references.clone());
        // A repair says nothing of the inputs: those of the last good revision stay while newer ones are known to fail.
        let repair = self.plan.verb == Verb::Repair && head.inputs.is_some();
        let inputs = if repair { head.inputs.clone() } else { self.observed.facts.inputs.clone() };
        if head.inventory.as_ref() == Some(&inventory) && head.inputs == inputs {
            return Ok(());
        }
        let kinds = inventory.kinds();
        let patch = json!({"metadata": {
            "annotations": {
                secret::INVENTORY: encode(&inventory)?, secret::INPUTS: inputs,
                secret::OWNER: self.observed.owner.describe(), secret::KINDS: secret::encode_kinds(&kinds),
            },
            "labels": {secret::OWNER_UID: &*self.observed.owner.uid},
        }});
        self.patch_head(revision, patch).await
    }

    async fn forget(&mut self, revision: u64) -> Result<(), Error> {
        let id = secret_id(&self.observed.key, revision);
        self.ctx.cluster.delete(&Resource::secrets(), &id, None, false).await?;
        let owner = &self.observed.owner;
        self.ctx.cache.remove_revision(&owner.release_namespace, &owner.release_name, revision, None);
        Ok(())
    }

    /// A revision that could not be finished is marked so, for `helm history`. The next pass goes on with it.
    async fn mark_failed(&mut self, error: &Error) {
        let (Some(record), Some(head)) = (&mut self.record, &self.head) else { return };
        let unfinished =
            matches!(head.status, Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback);
        if !unfinished || error.is_outage() || error.is_stale() {
            return;
        }
        let what = if head.status == Status::PendingInstall { "Release" } else { "Upgrade" };
        let description = format!("{what} {:?} failed: {error}", &*self.observed.owner.release_name);
        // Masked before it is cut: half a secret would not be found.
        let description = crate::plan::status::bound(&self.ctx.masks.clean(&description));
        record.set_status(Status::Failed, &description);
        let mut patch = status_patch(Status::Failed);
        let Ok(data) = data(record) else { return };
        patch["data"] = json!({"release": data});
        let revision = head.revision;
        if let Err(error) = self.patch_head(revision, patch).await {
            tracing::debug!(%error, release = %self.observed.key.name, "the revision could not be marked failed");
        }
    }

    /// Patches the Secret of the plan's revision, only as we last saw it: somebody else's write in between is noticed.
    async fn patch_head(&mut self, revision: u64, mut patch: Value) -> Result<(), Error> {
        if let Some(head) = &self.head {
            patch["metadata"]["resourceVersion"] = Value::from(&*head.resource_version);
        }
        let id = secret_id(&self.observed.key, revision);
        let answer: Value = self.ctx.cluster.merge(&Resource::secrets(), &id, &patch, None).await?;
        self.enter(&answer);
        Ok(())
    }

    fn enter(&mut self, answer: &Value) {
        self.head = Revision::read(metadata(answer)).map(|(_, revision)| revision);
        self.cache_revision(answer);
    }

    fn cache_revision(&self, answer: &Value) {
        if let Some((_, revision)) = Revision::read(metadata(answer)) {
            let owner = &self.observed.owner;
            self.ctx.cache.wrote_revision(&owner.release_namespace, &owner.release_name, revision);
        }
    }
}

/// Address of the custom resource.
pub async fn cr_id(observed: &Observed, ctx: &Context) -> Result<(Arc<Resource>, ObjectId), Error> {
    let gvk = &observed.owner.gvk;
    let namespace = (!observed.key.namespace.is_empty()).then(|| Arc::clone(&observed.key.namespace));
    let id = ObjectId { gvk: gvk.clone(), namespace, name: Arc::clone(&observed.key.name) };
    let unknown = || ApiError::UnknownKind { what: describe("update", &id), kind: gvk.to_string() };
    let resource = ctx.discovery.resolve(gvk).await?.ok_or_else(unknown)?;
    Ok((resource, id))
}

fn status_patch(status: Status) -> Value {
    let now = jiff::Timestamp::now().as_second().to_string();
    json!({"metadata": {"labels": {"status": status.as_str(), "modifiedAt": now}}})
}

fn encode(inventory: &Inventory) -> Result<String, Error> {
    let text = inventory.encode();
    if text.len() > MAX_BYTES {
        return Err(Error::Manifest(format!(
            "the release has too many objects: their list takes {} bytes",
            text.len()
        )));
    }
    Ok(text)
}

/// A record as the `data` of a Secret: Helm's base64, and Kubernetes' around it.
fn data(record: &Record) -> Result<String, Error> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.encode(record.encode()?))
}
