//! Apply: carries out a plan step by step. It makes no decisions. After an error the next pass does the rest.

pub mod crds;
pub mod enlarge;
pub mod hooks;
pub mod objects;
pub mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::address::cr_id;
use super::context::Context;
use super::error::Error;
use super::observed::Observed;
use super::render::Prepared;
use super::trust::Verified;
use crate::cluster::cr::{Cr, CrObject};
use crate::cluster::discovery::Resource;
use crate::mask::Text;
use crate::object::ObjectId;
use crate::plan::hooks::HookEvent;
use crate::plan::object_run::Notice;
use crate::plan::objects::is_ours;
use crate::plan::{Desired, Plan, PlanStep, Verb, plan};
use crate::release::inventory::Reference;
use crate::release::owner::{FINALIZER, LEGACY_FINALIZER};
use crate::release::record::Record;
use crate::release::secret;
use crate::release::secret::Revision;
use crate::release::status_fields::StatusFields;
use objects::{AppliedObject, Objects};

/// The work of a pass, and the data that it needs.
pub struct Planned {
    plan: Plan,
    prepared: Prepared,
}

impl Planned {
    /// Decides what to do.
    pub fn new(observed: &Verified, prepared: Prepared) -> Self {
        Self { plan: plan(&observed.facts, &observed.situation, &prepared.desired), prepared }
    }
}

/// The changes that a pass made to the objects of a release.
pub struct Applied {
    /// The purpose of the plan.
    pub verb: Verb,
    /// The result of the rendering, if a chart was rendered.
    pub prepared: Prepared,
    /// The objects that changed on the server. An apply that changed nothing does not count.
    pub changed: Vec<ObjectId>,
    /// Changes that are worth an event.
    pub notices: Vec<(ObjectId, Notice)>,
    /// How many objects were deleted.
    pub pruned: usize,
    /// Whether the custom resource is released for deletion, so that there is no status to write.
    pub finished: bool,
    /// The revision that the plan was for.
    pub revision: u64,
    /// The changes that the pass would have made without `dry-run`.
    pub dry_run: Option<String>,
    /// The number of chunks of a new record that is too large for one Secret; 0 if it was not cut.
    pub chunks: usize,
    /// The condition that the release waits for, if it cannot continue.
    pub waiting: Option<Waiting>,
    /// Why the pass stopped, if it did.
    pub error: Option<Error>,
}

impl Applied {
    /// Nothing was done.
    pub fn nothing(verb: Verb) -> Self {
        Self {
            verb,
            prepared: Prepared::default(),
            changed: Vec::new(),
            notices: Vec::new(),
            pruned: 0,
            finished: false,
            revision: 0,
            dry_run: None,
            chunks: 0,
            waiting: None,
            error: None,
        }
    }
}

/// Something that a release waits for. A watch notices when it appears.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The condition that the release waits for.
    pub what: Text,
    /// The latest time of the next look, in seconds since 1970.
    pub until: i64,
    /// The event of the hook that it waits for, if that is a hook.
    pub hook: Option<HookEvent>,
}

/// Carries out the plan.
pub async fn apply(observed: &Verified, planned: Result<Planned, Error>, ctx: &Context) -> Applied {
    let Planned { plan, prepared } = match planned {
        Ok(planned) => planned,
        Err(error) => {
            ctx.waits.forget(&observed.key);
            return Applied { error: Some(error), ..Applied::nothing(Verb::Rest) };
        }
    };
    if plan.verb != Verb::Rest {
        tracing::debug!(release = %observed.key.name, namespace = %observed.key.namespace, %plan, "plan");
    }
    // A deletion ignores `dry-run`.
    let dry = observed.facts.switches.dry_run && !matches!(plan.verb, Verb::Rest | Verb::Uninstall);
    let dry_run = dry.then(|| plan.describe(&prepared.desired));
    let plan = if dry { Plan { verb: Verb::Rest, revision: plan.revision, steps: Vec::new() } } else { plan };
    if let Some(fields) = &prepared.desired.status_fields
        && plan.verb != Verb::Rest
    {
        want(observed, fields, ctx);
    }
    let mut run = PlanRun::new(observed, &prepared, &plan, ctx);
    let mut error = None;
    if plan.verb != Verb::Rest {
        ctx.waits.forget(&observed.key);
    }
    for (at, step) in plan.steps.iter().enumerate() {
        if let Err(e) = run.step(step).await {
            run.give_up(&plan.steps[at..]).await;
            match step {
                PlanStep::Apply { .. } if plan.is_recorded_last() => run.record_failure(&e).await,
                _ => run.mark_failed(&e).await,
            }
            error = Some(e);
            break;
        }
        if run.waiting.is_some() {
            break;
        }
    }
    if error.is_none() && !dry && observed.situation.is_acted_on() {
        error = run.collect_chunks().await.err();
    }
    let PlanRun { changed, notices, pruned, finished, waiting, chunks, .. } = run;
    let waiting = waiting.filter(|_| error.is_none());
    Applied {
        verb: plan.verb,
        changed,
        notices,
        pruned,
        finished,
        revision: plan.revision,
        dry_run,
        chunks,
        waiting,
        error,
        prepared,
    }
}

/// Lets the caches read the fields of the objects that are about to be written and that the status will show.
fn want(observed: &Observed, fields: &StatusFields, ctx: &Context) {
    if let Ok(document) = fields.encode() {
        ctx.cache.want(&observed.owner.release_namespace, &observed.owner.release_name, &document.into());
    }
}

/// The list entries of objects that a revision names and that are not applied, so that they are not strays.
fn kept(observed: &Observed, desired: &Desired) -> BTreeMap<ObjectId, Reference> {
    let kept = desired.left_out.iter().filter_map(|id| {
        let live = observed.facts.live.get(id).filter(|live| is_ours(&observed.facts, live))?;
        let digest = live.digest.clone().unwrap_or_default();
        Some((id.clone(), Reference { uid: live.uid.clone(), digest, finished: live.finished }))
    });
    kept.collect()
}

/// A plan while it is carried out.
pub struct PlanRun<'a> {
    pub observed: &'a Observed,
    pub prepared: &'a Prepared,
    pub plan: &'a Plan,
    pub ctx: &'a Context,
    /// The record of the plan's revision.
    pub record: Option<Record>,
    /// The Secret of that record, as in the API server's last answer.
    pub head: Option<Revision>,
    /// The whole Secret, if this pass wrote it.
    pub written: Option<Value>,
    /// The API server's answers to the applies of this pass.
    pub references: BTreeMap<ObjectId, Reference>,
    pub objects: Objects<'a>,
    pub changed: Vec<ObjectId>,
    pub notices: Vec<(ObjectId, Notice)>,
    pub pruned: usize,
    pub finished: bool,
    pub waiting: Option<Waiting>,
    /// The number of chunks that a new record was cut into; 0 for none.
    pub chunks: usize,
}

impl<'a> PlanRun<'a> {
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
            written: None,
            references: kept(observed, &prepared.desired),
            objects: Objects::new(observed, &prepared.desired, ctx),
            changed: Vec::new(),
            notices: Vec::new(),
            pruned: 0,
            finished: false,
            waiting: None,
            chunks: 0,
        }
    }

    async fn step(&mut self, step: &PlanStep) -> Result<(), Error> {
        match step {
            PlanStep::Finalize => self.finalize().await,
            PlanStep::CreateCrds => self.write_crds().await,
            PlanStep::CreateRecord { revision, status } => self.create_record(*revision, *status).await,
            PlanStep::Apply { object, force } => {
                let object = &self.prepared.desired.objects[*object];
                let applied = self.objects.apply(object, *force).await?;
                self.note_applied(applied);
                Ok(())
            }
            PlanStep::Keep(object) => {
                let id = &self.prepared.desired.objects[*object].id;
                let before = self.observed.facts.history.last().and_then(|r| r.inventory.as_ref());
                if let Some(reference) = before.and_then(|inventory| inventory.0.get(id)) {
                    self.references.insert(id.clone(), reference.clone());
                }
                Ok(())
            }
            PlanStep::Prune { id, uid } => {
                let pruned = self.objects.prune(id, uid.as_deref()).await?;
                self.pruned += usize::from(pruned);
                Ok(())
            }
            PlanStep::CreateRollback { revision, to } => self.create_rollback(*revision, *to).await,
            PlanStep::StartHook { hook, event, again } => match self.start_hook(*hook, *event, *again).await {
                Err(Error::Api(e)) if self.plan.verb == Verb::Uninstall => Err(self.refused_hook(*hook, *event, e)),
                result => result,
            },
            PlanStep::AwaitHook { hook, event, until } => {
                let what = Text::own(format!("{event} hook {}", self.prepared.desired.hooks[*hook].id));
                self.waiting = Some(Waiting { what, until: *until, hook: Some(*event) });
                Ok(())
            }
            PlanStep::FinishHook { hook, event } => self.finish_hook(*hook, *event).await,
            PlanStep::FailHook { hook, event, why, timeout } => self.fail_hook(*hook, *event, why, *timeout).await,
            PlanStep::DeleteHook(hook) => self.delete_hook(*hook).await,
            PlanStep::MarkApplied(revision) => self.mark_applied(*revision).await,
            PlanStep::AwaitReady { until, what } => {
                self.waiting = Some(Waiting { what: what.clone(), until: *until, hook: None });
                Ok(())
            }
            PlanStep::FailReady(what) => Err(Error::NotReady(what.clone())),
            PlanStep::Orphan(id) => self.objects.orphan(id).await,
            PlanStep::Supersede(revision) => self.supersede(*revision).await,
            PlanStep::MarkDeployed(revision) => self.mark_deployed(*revision).await,
            PlanStep::Note(revision) => self.note(*revision).await,
            PlanStep::Forget(revision) => self.forget(*revision).await,
            PlanStep::Unfinalize => self.unfinalize().await,
        }
    }

    /// Prunes objects that another release waits for, if this release waits for an object of that release.
    async fn give_up(&mut self, left: &[PlanStep]) {
        for step in left {
            if let PlanStep::Prune { id, .. } = step
                && self.ctx.waits.is_mutual(&self.observed.key, id)
                && let Err(error) = self.step(step).await
            {
                tracing::debug!(object = %id, %error, "another release waits for an object that cannot be deleted yet");
            }
        }
    }

    fn note_applied(&mut self, applied: AppliedObject) {
        let AppliedObject { id, reference, changed, notices } = applied;
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
        let mut metadata = json!({"finalizers": finalizers});
        if self.plan.is_recorded_last() {
            metadata["annotations"] = json!({secret::KINDS: secret::encode_kinds(&self.prepared.desired.kinds())});
        }
        self.patch_cr(metadata).await
    }

    async fn unfinalize(&mut self) -> Result<(), Error> {
        if self.observed.facts.foreign.is_none() {
            self.collect_chunks().await?;
        }
        let ours = |f: &str| f == FINALIZER || f == LEGACY_FINALIZER;
        let finalizers: Vec<&str> = self.observed.cr.finalizers.iter().map(|f| &**f).filter(|f| !ours(f)).collect();
        match self.patch_cr(json!({"finalizers": finalizers})).await {
            Err(Error::Api(e)) if e.is_not_found() => {}
            result => result?,
        }
        // The last events of the release's objects must not start another pass before the event of the deletion
        // arrives.
        self.ctx.cache.remove_cr(&self.observed.key, Some(&self.observed.cr.uid), 0);
        self.finished = true;
        Ok(())
    }

    /// The patch contains the whole list of finalizers. The resourceVersion makes it fail if another client has changed
    /// the list.
    async fn patch_cr(&mut self, mut metadata: Value) -> Result<(), Error> {
        let version =
            self.ctx.cache.cr(&self.observed.key).map_or(self.observed.cr.resource_version, |cr| cr.resource_version);
        metadata["resourceVersion"] = version.to_string().into();
        let patch = json!({"metadata": metadata});
        let (resource, id) = self.cr().await?;
        let answer: CrObject = self.ctx.cluster.merge(&resource, &id, &patch, None).await?;
        if let Some(cr) = Cr::read(answer, &self.ctx.allow(&self.observed.key)).filter(|_| !self.observed.cr.deleting) {
            self.ctx.enter_cr(self.observed.key.clone(), cr);
        }
        Ok(())
    }

    async fn cr(&self) -> Result<(Arc<Resource>, ObjectId), Error> {
        cr_id(self.observed, self.ctx).await
    }
}
