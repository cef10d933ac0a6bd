//! Runs hooks step by step. The record notes a run before its object is created, and the outcome before the object is
//! deleted.

use std::sync::Arc;

use serde_json::Value;

use super::objects::{claim, is_nobodys, update_beside};
use super::{PlanRun, Waiting};
use crate::cluster::client::{Returned, describe};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::mask::Text;
use crate::object::{ObjectId, metadata};
use crate::plan::claim::{Ownership, is_left_by_helm};
use crate::plan::hooks;
use crate::plan::hooks::{DeletePolicy, Hook, HookEvent};
use crate::plan::objects::names_owner;
use crate::reconcile::error::Error;
use crate::reconcile::records::read_record;
use crate::reconcile::render::secrets::learn;
use crate::release::hook_run::{HookOutcome, HookRun};
use crate::release::live::Live;
use crate::release::record::{HookRecord, LastRun, Phase};

/// The most records that are read to learn whether a hook of Helm made an object.
const READ: usize = 10;

/// The remedy if an object of another owner has the name of a hook's object.
pub const REMEDY: &str = "delete or rename that object, or give the chart's object another name";

/// Seconds until the next look at an object that is being deleted, if no event arrives earlier.
const GOING: i64 = 5;

impl PlanRun<'_> {
    /// Creates the object of a hook. First deletes an object of the same name that belongs to the release, if the hook's
    /// policy requires it or the object is an earlier run of this operator. If not, that object is updated, as by Helm.
    pub async fn start_hook(&mut self, index: usize, event: HookEvent, again: bool) -> Result<(), Error> {
        let hook = &self.prepared.desired.hooks[index];
        let resource = self.hook_resource(&hook.id).await?;
        self.ctx.watching.objects.ensure(&hook.id.gvk, hook.id.namespace.as_ref());
        let known = self.observed.facts.live.get(&hook.id).filter(|live| names_owner(&self.observed.facts, live));
        if let Some(live) = known {
            let this_run = live.hook.as_deref().is_some_and(|run| hook.is_run(run, self.plan.revision, event));
            let goes = hook.has_policy(DeletePolicy::BeforeCreation) || live.hook.is_some() && hook.is_a_run();
            if goes && (again || !this_run) && !self.delete_run(&resource, hook, &live.uid).await? {
                return Ok(());
            }
        }
        self.note_run(index, event, Phase::Running);
        if hook.is_awaited() {
            self.save_progress().await?;
        }
        let foreground = self.observed.cr.finalizers.iter().any(|f| &**f == "foregroundDeletion");
        let body = Value::Object(hook.body(self.plan.revision, event, &self.observed.owner, foreground));
        let object = match self.observed.cluster.create(&resource, &hook.id, &body, Returned::Object).await {
            Err(e) if e.is_conflict() => match self.make_room(&resource, index, event, again).await? {
                Room::ThisRun(object) => object,
                Room::Free => self.observed.cluster.create(&resource, &hook.id, &body, Returned::Object).await?,
                Room::Taken(object) => update_beside(self.observed, &resource, &hook.id, &object, &body).await?,
                Room::Going => return Ok(()),
            },
            answer => answer?,
        };
        self.ctx.cache.wrote_object(&hook.id.gvk, &object);
        if hook.is_awaited() {
            let timeout = self.observed.facts.switches.hook_timeout().as_secs().cast_signed();
            // A run that was only found here may have ended. Then no event will arrive, so the next pass is due at
            // once.
            let until = HookRun::read(&hook.id.gvk, &object)
                .filter(|run| run.outcome == HookOutcome::Running)
                .map_or(0, |run| run.created + timeout);
            let what = Text::own(format!("{event} hook {}", hook.id));
            self.waiting = Some(Waiting { what, until, hook: Some(event) });
        } else {
            self.note_run(index, event, Phase::Succeeded);
        }
        Ok(())
    }

    /// Turns the API server's refusal of a delete hook into a failure of the hook, so that the hook is given up like
    /// any other; if not, the custom resource could never be deleted (docs/design/applying.md D2). An unreachable API
    /// server is not a failure of the hook.
    pub fn refused_hook(&self, index: usize, event: HookEvent, error: ApiError) -> Error {
        if error.is_outage() || error.is_conflict() || error.is_namespace_terminating() {
            return error.into();
        }
        let hook = self.prepared.desired.hooks[index].id.to_string();
        Error::Hook { event, hook, why: error.text(), timeout: false }
    }

    /// Handles an object of the hook's name that exists.
    async fn make_room(
        &mut self,
        resource: &Resource,
        index: usize,
        event: HookEvent,
        again: bool,
    ) -> Result<Room, Error> {
        let hook = &self.prepared.desired.hooks[index];
        let Some(object) = self.observed.cluster.get(resource, &hook.id).await? else { return Ok(Room::Free) };
        if let Ownership::Refused(why) = claim(&object, self.observed, self.ctx)
            && !self.is_left_by_helm(&hook.id, &object).await?
        {
            let why = Text::own(format!("an object of its name exists, and {why}; or {REMEDY}"));
            self.note_run(index, event, Phase::Failed);
            return Err(Error::Hook { event, hook: hook.id.to_string(), why, timeout: false });
        }
        let run = HookRun::read(&hook.id.gvk, &object);
        if !again && run.as_ref().is_some_and(|run| hook.is_run(run, self.plan.revision, event)) {
            return Ok(Room::ThisRun(object));
        }
        let goes = hook.has_policy(DeletePolicy::BeforeCreation) || run.is_some() && hook.is_a_run();
        if !goes {
            return Ok(Room::Taken(object));
        }
        let uid = metadata(&object).get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(if self.delete_run(resource, hook, &uid).await? { Room::Free } else { Room::Going })
    }

    /// Whether a hook of Helm made an object without an owner, for a revision of this release
    /// (docs/design/applying.md D6).
    async fn is_left_by_helm(&self, id: &ObjectId, object: &Value) -> Result<bool, Error> {
        if !is_nobodys(object, self.observed, self.ctx) {
            return Ok(false);
        }
        let is_it = |hook: &HookRecord| {
            let hook = hook.object().ok().flatten();
            hook.is_some_and(|hook| {
                let elsewhere =
                    hook.namespace.as_deref().is_some_and(|namespace| Some(namespace) != id.namespace.as_deref());
                hook.gvk.group == id.gvk.group && hook.gvk.kind == id.gvk.kind && *hook.name == *id.name && !elsewhere
            })
        };
        let mut created = Vec::new();
        for revision in self.observed.facts.history.iter().rev().take(READ) {
            match read_record(&self.observed.owner, revision.revision, self.ctx).await {
                Ok(Some(record)) if record.hooks().iter().any(is_it) => {
                    created.push(&*revision.created);
                }
                Err(Error::Record(error)) if !error.is_unusable() => return Err(error.into()),
                Ok(_) | Err(Error::Record(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(is_left_by_helm(object, &created))
    }

    pub async fn finish_hook(&mut self, index: usize, event: HookEvent) -> Result<(), Error> {
        self.note_run(index, event, Phase::Succeeded);
        self.save_progress().await
    }

    pub async fn fail_hook(&mut self, index: usize, event: HookEvent, why: &Text, timeout: bool) -> Result<(), Error> {
        let all = &self.prepared.desired.hooks;
        let hook = &all[index];
        let mut why = why.clone();
        if hook.is_a_run()
            && let Some(namespace) = &hook.id.namespace
        {
            match self.observed.cluster.last_lines(namespace, &hook.id.gvk.kind, &hook.id.name).await {
                Ok(Some((pod, lines))) => {
                    learn(self.observed, self.ctx).await;
                    why = why.and(Text::own(format!("; the last lines of pod {pod}:\n"))).and(Text::foreign(lines));
                }
                Ok(None) => {}
                Err(error) if error.is_forbidden() => {
                    why = why.and("; its log cannot be read: ").and(error.text());
                }
                Err(error) => tracing::info!(%error, hook = %hook.id, "cannot read the log of a failed hook"),
            }
        }
        let error = Error::Hook { event, hook: hook.id.to_string(), why, timeout };
        self.note_run(index, event, Phase::Failed);
        if self.plan.verb == crate::plan::Verb::Uninstall {
            self.save_progress().await?;
        } else {
            self.mark_failed(&error).await;
        }
        for index in hooks::after_failure(&self.observed.facts, all, self.plan.revision, event, index) {
            self.delete_hook(index).await?;
        }
        Err(error)
    }

    /// Deletes the object of a hook if it exists and belongs to the release.
    pub async fn delete_hook(&mut self, index: usize) -> Result<(), Error> {
        let hook = &self.prepared.desired.hooks[index];
        let known = self.ctx.cache.objects(&self.observed.key, std::iter::once(&hook.id));
        let is_ours = |live: &&Live| names_owner(&self.observed.facts, live);
        let Some(live) = known.get(&hook.id).filter(is_ours) else { return Ok(()) };
        let resource = self.hook_resource(&hook.id).await?;
        self.delete_run(&resource, hook, &live.uid).await?;
        self.waiting = None;
        Ok(())
    }

    /// Deletes an object. If the object still exists afterwards, returns `false` and sets what to wait for.
    async fn delete_run(&mut self, resource: &Resource, hook: &Hook, uid: &str) -> Result<bool, Error> {
        match self.observed.cluster.delete(resource, &hook.id, Some(uid), false).await {
            Ok(None) => {
                self.ctx.cache.remove_object(&hook.id, Some(uid), 0, &Value::Null);
                Ok(true)
            }
            Ok(Some(left)) => {
                self.ctx.cache.wrote_object(&hook.id.gvk, &left);
                let what = Text::own(format!("the end of {}, which an earlier hook made", hook.id));
                self.waiting = Some(Waiting { what, until: jiff::Timestamp::now().as_second() + GOING, hook: None });
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn note_run(&mut self, index: usize, event: HookEvent, phase: Phase) {
        let Some(record) = &mut self.record else { return };
        let now = jiff::Timestamp::now().to_string();
        let before = record.hooks().into_iter().nth(index).map(|h| h.last_run).unwrap_or_default();
        let run = LastRun {
            started_at: if phase == Phase::Running { Some(now.clone()) } else { before.started_at },
            completed_at: (phase != Phase::Running).then_some(now),
            phase,
            event: Some(event.to_string()),
        };
        record.set_last_run(index, &run);
    }

    async fn hook_resource(&self, id: &ObjectId) -> Result<Arc<Resource>, Error> {
        let unknown = || ApiError::UnknownKind { what: describe("create", id), kind: id.gvk.to_string() };
        Ok(self.ctx.discovery.resolve(&id.gvk).await?.ok_or_else(unknown)?)
    }
}

/// Whether the name that a hook's object needs is free.
enum Room {
    /// The object of that name is this run of the hook.
    ThisRun(Value),
    /// No object has the name now.
    Free,
    /// An object of the release has the name, and is updated.
    Taken(Value),
    /// An object still has the name.
    Going,
}
