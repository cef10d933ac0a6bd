//! Writes, updates and deletes release records in the way Helm does.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::PlanRun;
use crate::cluster::client::Returned;
use crate::cluster::discovery::Resource;
use crate::mask::Text;
use crate::object::{Gvk, ObjectId, metadata};
use crate::plan::objects::note_finished;
use crate::plan::operations::document::Hook;
use crate::plan::situation::{RevisionKind, newest_operation};
use crate::plan::{Verb, renewal};
use crate::reconcile::error::Error;
use crate::reconcile::memory::trusted::LeftOut;
use crate::reconcile::records::{read_record, secret_id};
use crate::release::chunks;
use crate::release::chunks::Chunks;
use crate::release::inventory::{Inventory, MAX_BYTES};
use crate::release::lookups::Lookups;
use crate::release::record::{New, Record, RecordError, Status};
use crate::release::secret;
use crate::release::secret::Revision;

impl PlanRun<'_> {
    pub async fn create_record(&mut self, revision: u64, status: Status) -> Result<(), Error> {
        let description = match status {
            Status::PendingInstall => "Initial install underway",
            Status::Deployed => "Install complete",
            _ => "Preparing upgrade",
        };
        self.create_record_that_says(revision, status, description).await
    }

    async fn create_record_that_says(&mut self, revision: u64, status: Status, description: &str) -> Result<(), Error> {
        let (Some(rendered), Some(chart)) = (&self.prepared.rendered, &self.observed.chart) else {
            return Err(Error::Renderer("nothing was rendered".to_owned()));
        };
        let now = jiff::Timestamp::now().to_string();
        let previous = self.observed.record.as_ref().ok().and_then(Option::as_ref);
        let record = Record::new(&New {
            name: &self.observed.owner.release_name,
            namespace: &self.observed.owner.release_namespace,
            revision,
            status,
            description,
            first_deployed: previous.and_then(Record::first_deployed).unwrap_or(&now),
            now: &now,
            chart: &chart.json,
            config: &self.prepared.values,
            rendered,
        });
        let inputs = self.observed.facts.inputs.as_deref().unwrap_or_default();
        let mut annotations = json!({secret::INPUTS: inputs, secret::CHART: chart.digest});
        if let Some(at) = self.render_after() {
            annotations[secret::RENDER_AFTER] = at.to_string().into();
        }
        if let Some(lookups) = self.prepared.lookups.encode() {
            annotations[secret::LOOKUPS] = lookups.into();
        }
        if status == Status::Deployed {
            annotations[secret::INVENTORY] = encode(&self.inventory())?.into();
        }
        self.write_record(revision, record, annotations).await?;
        self.ctx.memory.looked_up.deployed(&self.observed.key, &self.prepared.lookups);
        Ok(())
    }

    pub async fn create_rollback(&mut self, revision: u64, to: u64) -> Result<(), Error> {
        let Some(target) = &self.observed.target else {
            return Err(Error::Record(RecordError::Corrupted("the revision to roll back to is gone")));
        };
        let record = target.rollback(revision, &jiff::Timestamp::now().to_string());
        let goal = self.observed.facts.history.iter().find(|r| r.revision == to);
        let inputs = goal.and_then(|r| r.inputs.as_deref());
        // A revision without inputs would look like a revision of another program.
        let mut annotations = json!({secret::INPUTS: inputs.unwrap_or("unknown"), secret::ROLLBACK: to.to_string()});
        if let Some(chart) = goal.and_then(|r| r.chart.as_deref()) {
            annotations[secret::CHART] = chart.into();
        }
        // The failed inputs are not tried again until the looked-up objects change.
        if let Some(lookups) = self.observed.facts.history.last().and_then(|newest| newest.lookups.as_deref()) {
            annotations[secret::LOOKUPS] = lookups.into();
        }
        self.write_record(revision, record, annotations).await
    }

    /// The time at which the objects have to be rendered again.
    fn render_after(&self) -> Option<i64> {
        renewal::next(&self.prepared.desired.objects, jiff::Timestamp::now().as_second())
    }

    /// Creates the Secret of a revision.
    async fn write_record(&mut self, revision: u64, mut record: Record, mut annotations: Value) -> Result<(), Error> {
        if let Some(cut) = record.cut()? {
            self.write_chunks(&cut).await?;
            annotations[chunks::CHUNKS] = cut.annotation().into();
            self.chunks = cut.parts.len();
        }
        let id = secret_id(&self.observed.owner, revision);
        let owner = &self.observed.owner;
        let desired = &self.prepared.desired;
        let hooks = desired.hooks.iter().map(|h| (h.id.gvk.clone(), h.id.namespace.clone()));
        let kinds: BTreeSet<_> = desired.kinds().into_iter().chain(hooks).chain(self.kinds_of_operations()).collect();
        for (gvk, namespace) in &kinds {
            self.ctx.watching.objects.ensure(gvk, namespace.as_ref());
        }
        annotations[secret::OWNER] = owner.describe().into();
        if let Some(members) = &desired.members {
            annotations[secret::MEMBERS] = members.encode().map_err(Error::Manifest)?.into();
        }
        if let Some(operations) = &desired.operations {
            annotations[secret::OPERATIONS] = operations.encode().map_err(Error::Manifest)?.into();
        }
        if let Some(fields) = &desired.status_fields {
            annotations[secret::STATUS] = fields.encode().map_err(Error::Manifest)?.into();
        }
        annotations[secret::KINDS] = secret::encode_kinds(&kinds).into();
        let now = jiff::Timestamp::now().as_second();
        let mut body = json!({
            "apiVersion": "v1", "kind": "Secret", "type": secret::TYPE,
            "metadata": {
                "name": &*id.name, "namespace": id.namespace.as_deref(),
                "labels": secret::labels(&owner.release_name, revision, record.status(), now, &owner.uid),
                "annotations": annotations,
            },
            "data": data(&record)?,
        });
        let answer = self.ctx.cluster.create(&Resource::secrets(), &id, &body, Returned::Metadata).await?;
        self.record = Some(record);
        set_metadata(&mut body, answer);
        self.enter(&body);
        self.trust();
        self.written = Some(body);
        Ok(())
    }

    /// Writes the chunks of a record before its head. A chunk that exists has the same content.
    async fn write_chunks(&self, cut: &Chunks) -> Result<(), Error> {
        let owner = &self.observed.owner;
        for (index, part) in cut.parts.iter().enumerate() {
            let name = chunks::name(&owner.release_name, &cut.digest, index);
            let id = ObjectId { name: name.as_str().into(), ..secret_id(&self.observed.owner, 0) };
            let body = json!({
                "apiVersion": "v1", "kind": "Secret", "type": chunks::TYPE,
                "metadata": {
                    "name": name, "namespace": id.namespace.as_deref(),
                    "labels": chunks::labels(&owner.release_name, &cut.digest),
                },
                "data": {chunks::KEY: STANDARD.encode(part)},
            });
            match self.ctx.cluster.create(&Resource::secrets(), &id, &body, Returned::Metadata).await {
                Err(e) if !e.is_conflict() => return Err(e.into()),
                _ => {}
            }
            self.ctx.cache.chunks.wrote(&owner.release_namespace, &owner.release_name, &name, &cut.digest);
        }
        Ok(())
    }

    /// Deletes the chunks that no revision names: those of deleted revisions, and those that a crash left behind after
    /// writing the chunks and before the head.
    pub async fn collect_chunks(&self) -> Result<(), Error> {
        let (namespace, release) = (&self.observed.owner.release_namespace, &self.observed.owner.release_name);
        let chunks = self.ctx.cache.chunks.of(namespace, release);
        if chunks.is_empty() {
            return Ok(());
        }
        let history = self.ctx.cache.history(namespace, release);
        let named: BTreeSet<&str> = history
            .iter()
            .filter_map(|r| r.chunks.as_deref().and_then(chunks::parse))
            .map(|(digest, _)| digest)
            .collect();
        for (name, _) in chunks.iter().filter(|(_, digest)| !named.contains(&**digest)) {
            let id = ObjectId { name: (&**name).into(), ..secret_id(&self.observed.owner, 0) };
            self.ctx.cluster.delete(&Resource::secrets(), &id, None, false).await?;
            self.ctx.cache.chunks.remove(namespace, release, name);
        }
        Ok(())
    }

    pub async fn supersede(&mut self, revision: u64) -> Result<(), Error> {
        let known = self.observed.record.as_ref().ok().and_then(Clone::clone).filter(|r| r.revision() == revision);
        let record = match known {
            Some(record) => Some(record),
            None => match read_record(&self.observed.owner, revision, self.ctx).await {
                Err(Error::Record(error)) if error.is_unusable() => None,
                record => record?,
            },
        };
        let mut patch = status_patch(Status::Superseded);
        // Only the newest revision needs these annotations. The manifest lists the objects of the others.
        patch["metadata"]["annotations"] = json!({secret::INVENTORY: null, secret::KINDS: null, secret::MEMBERS: null,
            secret::RENDER_AFTER: null, secret::LOOKUPS: null});
        if let Some(mut record) = record {
            record.set_status(Status::Superseded, "superseded by new release");
            patch["data"] = data(&record)?;
        }
        let id = secret_id(&self.observed.owner, revision);
        let trusted = &self.ctx.memory.trusted;
        let known = self.observed.facts.history.iter().find(|r| r.revision == revision);
        let known = known.filter(|known| trusted.has(&self.observed.owner, known));
        if let Some(known) = known {
            patch["metadata"]["resourceVersion"] = Value::from(&*known.resource_version);
        }
        match self.ctx.cluster.merge::<Value>(&Resource::secrets(), &id, &patch, None).await {
            Ok(answer) => {
                self.cache_revision(&answer);
                if let (Some(_), Some((_, revision))) = (known, Revision::read(metadata(&answer))) {
                    trusted.enter(&self.observed.owner, &revision, LeftOut::default());
                }
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    pub async fn mark_deployed(&mut self, revision: u64) -> Result<(), Error> {
        let history = self.history();
        let inventory = self.inventory();
        let Some(record) = &mut self.record else {
            return Err(Error::Record(RecordError::Corrupted("the pending record is gone")));
        };
        // A rollback keeps its description, as in Helm.
        let description = match newest_operation(&history) {
            RevisionKind::Install => "Install complete".to_owned(),
            RevisionKind::Upgrade => "Upgrade complete".to_owned(),
            RevisionKind::Rollback => record.description(),
        };
        record.set_status(Status::Deployed, &description);
        let inventory = encode(&inventory)?;
        let mut patch = status_patch(Status::Deployed);
        patch["metadata"]["annotations"] = json!({
            secret::INVENTORY: inventory, secret::OWNER: self.observed.owner.describe(),
        });
        patch["metadata"]["labels"][secret::OWNER_UID] = Value::from(&*self.observed.owner.uid);
        patch["data"] = data(record)?;
        self.patch_head(revision, patch).await
    }

    /// The kinds of objects that operations create. They are watched from the start.
    fn kinds_of_operations(&self) -> BTreeSet<(Gvk, Option<Arc<str>>)> {
        let hooks = self.prepared.desired.operations.iter().flat_map(|operations| &operations.hooks);
        let kind = |hook: &Hook| {
            let gvk = hook.gvk();
            let namespaced = self.ctx.discovery.cached(&gvk).is_none_or(|resource| resource.namespaced);
            let of_release = || Arc::clone(&self.observed.owner.release_namespace);
            let namespace = namespaced.then(|| hook.namespace().map_or_else(of_release, Into::into));
            (gvk, namespace)
        };
        hooks.map(kind).collect()
    }

    /// The objects of the revision: those in its annotation, and those that this pass applied.
    fn inventory(&self) -> Inventory {
        let mut inventory = self.head.as_ref().and_then(|h| h.inventory.clone()).unwrap_or_default();
        inventory.0.extend(self.references.clone());
        inventory
    }

    /// Writes the objects of a revision that still waits for something.
    pub async fn mark_applied(&mut self, revision: u64) -> Result<(), Error> {
        let inventory = encode(&self.inventory())?;
        let mut patch = self.progress()?;
        patch["metadata"]["annotations"] = json!({secret::INVENTORY: inventory});
        self.patch_head(revision, patch).await
    }

    /// Writes the state of the hooks.
    pub async fn save_progress(&mut self) -> Result<(), Error> {
        let patch = self.progress()?;
        self.patch_head(self.plan.revision, patch).await
    }

    /// The patch for the record of a revision in progress. A revision that had failed becomes pending again.
    fn progress(&mut self) -> Result<Value, Error> {
        let operation = newest_operation(&self.history());
        let rollback = self.head.as_ref().and_then(|h| h.rollback).unwrap_or_default();
        let Some(record) = &mut self.record else {
            return Err(Error::Record(RecordError::Corrupted("the pending record is gone")));
        };
        let status = if self.plan.verb == Verb::Uninstall { Status::Uninstalling } else { operation.pending() };
        if record.status() != status {
            let description = match (status, operation) {
                (Status::Uninstalling, _) => "Deletion in progress (or silently failed)".to_owned(),
                (_, RevisionKind::Rollback) => format!("Rollback to {rollback}"),
                (_, RevisionKind::Install) => "Initial install underway".to_owned(),
                (_, RevisionKind::Upgrade) => "Preparing upgrade".to_owned(),
            };
            record.set_status(status, &description);
        }
        let mut patch = status_patch(status);
        patch["data"] = data(record)?;
        Ok(patch)
    }

    /// The revisions, including the current state of the one that this pass works on.
    fn history(&self) -> Vec<Revision> {
        let older = self.observed.facts.history.iter().filter(|r| r.revision < self.plan.revision).cloned();
        older.chain(self.head.clone()).collect()
    }

    /// Writes the objects of the newest revision if its annotations differ.
    pub async fn note(&mut self, revision: u64) -> Result<(), Error> {
        let Some(head) = self.head.clone() else { return Ok(()) };
        let mut inventory = head.inventory.clone().unwrap_or_default();
        inventory.0.extend(self.references.clone());
        if self.prepared.rendered.is_some() {
            // The inventory may have listed more, but the revision consists of the objects that the chart renders.
            let objects: BTreeSet<_> = self.prepared.desired.objects.iter().map(|object| &object.id).collect();
            inventory.0.retain(|id, _| objects.contains(id));
        }
        note_finished(&self.observed.facts, &mut inventory);
        // A repair does not change the inputs: those of the last good revision stay while newer ones are known to fail.
        let repair = self.plan.verb == Verb::Repair && head.inputs.is_some();
        let inputs = if repair { head.inputs.clone() } else { self.observed.facts.inputs.clone() };
        let chart = self
            .observed
            .chart
            .as_deref()
            .filter(|_| !repair)
            .map_or(head.chart.as_deref(), |chart| Some(&*chart.digest));
        let members = match &self.prepared.desired.members {
            Some(members) => Some(members.encode().map_err(Error::Manifest)?),
            None if self.prepared.rendered.is_some() => None,
            None => head.members.as_deref().map(str::to_owned),
        };
        let operations = match &self.prepared.desired.operations {
            Some(operations) => Some(operations.encode().map_err(Error::Manifest)?),
            None if self.prepared.rendered.is_some() => None,
            None => head.operations.as_deref().map(str::to_owned),
        };
        let fields = match &self.prepared.desired.status_fields {
            Some(fields) => Some(fields.encode().map_err(Error::Manifest)?),
            None if self.prepared.rendered.is_some() => None,
            None => head.status_fields.as_deref().map(str::to_owned),
        };
        let rendered = self.prepared.rendered.is_some();
        let render_after = if rendered { self.render_after() } else { head.render_after };
        let noted = Lookups::decode(head.lookups.as_deref().unwrap_or_default());
        let lookups = if rendered { &self.prepared.lookups } else { &noted };
        // New versions of the same looked-up objects are not worth a write. After a restart the operator renders once
        // more.
        let same = head.members.as_deref() == members.as_deref()
            && head.operations.as_deref() == operations.as_deref()
            && head.status_fields.as_deref() == fields.as_deref()
            && head.render_after == render_after
            && noted.is_of_the_same(lookups);
        if rendered {
            self.ctx.memory.looked_up.deployed(&self.observed.key, lookups);
        }
        if head.inventory.as_ref() == Some(&inventory) && head.inputs == inputs && same {
            return Ok(());
        }
        let kinds: BTreeSet<_> =
            inventory.kinds().into_iter().chain(head.kinds.clone()).chain(self.kinds_of_operations()).collect();
        let patch = json!({"metadata": {
            "annotations": {
                secret::INVENTORY: encode(&inventory)?, secret::INPUTS: inputs, secret::CHART: chart,
                secret::OWNER: self.observed.owner.describe(), secret::KINDS: secret::encode_kinds(&kinds),
                secret::MEMBERS: members, secret::OPERATIONS: operations, secret::STATUS: fields,
                secret::RENDER_AFTER: render_after.map(|at| at.to_string()), secret::LOOKUPS: lookups.encode(),
            },
            "labels": {secret::OWNER_UID: &*self.observed.owner.uid},
        }});
        self.patch_head(revision, patch).await?;
        if rendered {
            // All parts of the record that matter were compared with the rendering, or written by this pass.
            self.trust();
        }
        Ok(())
    }

    pub async fn forget(&mut self, revision: u64) -> Result<(), Error> {
        let id = secret_id(&self.observed.owner, revision);
        self.ctx.cluster.delete(&Resource::secrets(), &id, None, false).await?;
        let owner = &self.observed.owner;
        self.ctx.cache.remove_revision(&owner.release_namespace, &owner.release_name, revision, None);
        self.ctx.memory.trusted.forget_revision(owner, revision);
        Ok(())
    }

    /// Marks a revision that could not be finished as failed, for `helm history`. The next pass continues it.
    pub async fn mark_failed(&mut self, error: &Error) {
        let Some(head) = self.head.clone().filter(|_| !error.is_outage() && !error.is_stale()) else { return };
        let what = match head.status {
            Status::PendingInstall => "Release",
            Status::PendingUpgrade => "Upgrade",
            Status::PendingRollback => "Rollback",
            _ => return,
        };
        let description = self.failure(what, error);
        let Some(record) = &mut self.record else { return };
        record.set_status(Status::Failed, &description);
        let mut patch = status_patch(Status::Failed);
        let Ok(data) = data(record) else { return };
        patch["data"] = data;
        if let Err(error) = self.patch_head(head.revision, patch).await {
            tracing::debug!(%error, release = %self.observed.key.name, "the revision could not be marked failed");
        }
    }

    /// Records a failed revision whose record would have been written after its objects.
    pub async fn record_failure(&mut self, error: &Error) {
        if error.is_outage() || error.is_stale() {
            return;
        }
        let description = self.failure("Release", error);
        if let Err(error) = self.create_record_that_says(self.plan.revision, Status::Failed, &description).await {
            tracing::debug!(%error, release = %self.observed.key.name, "the failed revision could not be recorded");
        }
    }

    /// The description of an error in a record, in Helm's words.
    fn failure(&self, what: &str, error: &Error) -> String {
        let text = Text::own(format!("{what} {:?} failed: ", &*self.observed.owner.release_name)).and(error.text());
        // The text is masked before it is cut, since half a secret would not be found.
        crate::object::conditions::bound(&self.ctx.show(self.observed, &text))
    }

    /// Patches the Secret of the plan's revision. The resourceVersion makes the patch fail if another client has
    /// written to it. A Secret that this pass has written is replaced instead, since patching a large Secret costs the
    /// API server more.
    async fn patch_head(&mut self, revision: u64, mut patch: Value) -> Result<(), Error> {
        let id = secret_id(&self.observed.owner, revision);
        let Some(mut secret) = self.written.take() else {
            let was_trusted =
                self.head.as_ref().is_some_and(|head| self.ctx.memory.trusted.has(&self.observed.owner, head));
            if let Some(head) = &self.head {
                patch["metadata"]["resourceVersion"] = Value::from(&*head.resource_version);
            }
            let answer: Value = self.ctx.cluster.merge(&Resource::secrets(), &id, &patch, None).await?;
            self.enter(&answer);
            if was_trusted {
                self.trust();
            }
            return Ok(());
        };
        lay_over(&mut secret, patch);
        let answer = self.ctx.cluster.replace(&Resource::secrets(), &id, &secret, false, Returned::Metadata).await?;
        set_metadata(&mut secret, answer);
        self.enter(&secret);
        self.trust();
        self.written = Some(secret);
        Ok(())
    }

    fn enter(&mut self, secret: &Value) {
        let owner = &self.observed.owner;
        self.ctx.memory.records.put(&(Arc::clone(&owner.release_namespace), Arc::clone(&owner.release_name)), secret);
        self.head = Revision::read(metadata(secret)).map(|(_, revision)| revision);
        self.cache_revision(secret);
    }

    /// Trusts the record of the plan's revision, since this process wrote all of it.
    fn trust(&self) {
        if let Some(head) = &self.head {
            self.ctx.memory.trusted.enter(&self.observed.owner, head, LeftOut::default());
        }
    }

    fn cache_revision(&self, answer: &Value) {
        if let Some((_, revision)) = Revision::read(metadata(answer)) {
            let owner = &self.observed.owner;
            self.ctx.cache.wrote_revision(&owner.release_namespace, &owner.release_name, revision);
        }
    }
}

/// Replaces the metadata that were sent by those of the answer, without `managedFields`, which only the API server
/// writes.
fn set_metadata(sent: &mut Value, mut answer: Value) {
    let mut metadata = answer.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Value::Object(metadata) = &mut metadata {
        metadata.shift_remove("managedFields");
    }
    sent["metadata"] = metadata;
}

/// Applies a JSON merge patch (RFC 7396).
fn lay_over(value: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *value = patch;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, change) in patch {
        if !change.is_null() {
            lay_over(&mut value[key], change);
        } else if let Value::Object(fields) = value {
            fields.shift_remove(&key);
        }
    }
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

/// A record as the `data` of a Secret: Helm's base64 inside Kubernetes' base64.
fn data(record: &Record) -> Result<Value, Error> {
    Ok(json!({record.key(): STANDARD.encode(record.encode()?)}))
}

#[cfg(test)]
mod tests {
    use super::lay_over;
    use serde_json::json;

    #[test]
    fn a_patch_adds_changes_and_removes_and_leaves_the_rest() {
        let mut secret =
            json!({"type": "t", "metadata": {"labels": {"status": "pending"}, "annotations": {"a": "1", "b": "2"}}});
        lay_over(
            &mut secret,
            json!({"metadata": {"labels": {"status": "deployed"}, "annotations": {"a": null, "x": null}}, "data": {"release": "r"}}),
        );
        let expected = json!({"type": "t", "metadata": {"labels": {"status": "deployed"}, "annotations": {"b": "2"}}, "data": {"release": "r"}});
        assert_eq!(secret, expected);
    }
}
