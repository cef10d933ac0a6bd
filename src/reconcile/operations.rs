//! Operations: begins an operation that is requested or due, carries out one step of the running operation, and stores
//! its state in the status. While an operation runs, no other plan of the release begins.

use serde_json::Value;

use super::apply::hooks::REMEDY;
use super::apply::objects::{claim, update_beside};
use super::apply::{Applied, Waiting};
use super::context::Context;
use super::error::Error;
use super::latches::running;
use super::members::MembersReport;
use super::notify::{event, is_news};
use super::observed::Observed;
use super::render::secrets::learn;
use super::render::stamp::place;
use super::trust::Verified;
use crate::cluster::cache::WatchKey;
use crate::cluster::client::{Returned, describe};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::kind::switches::OPERATION;
use crate::mask::Text;
use crate::members::progress::ASLEEP;
use crate::object::{Gvk, ObjectId};
use crate::plan::Verb;
use crate::plan::claim::Ownership;
use crate::plan::hooks::DeletePolicy;
use crate::plan::objects::names_owner;
use crate::plan::operations::begin::{Begin, Blocked, begin, due, see, unknown};
use crate::plan::operations::document::Operations;
use crate::plan::operations::next::{OperationStep, PodsSaid, Trouble, View, finish, judge, next};
use crate::plan::operations::run::{Mark, Placed};
use crate::plan::operations::state;
use crate::plan::operations::state::{Ended, Running, StoredOperations, time};
use crate::plan::operations::status::{OperationsStatus, StepState, failed, finished, over, plan, proven};
use crate::plan::situation::Situation;
use crate::release::record::Status;
use crate::runs::{self, Exit};

/// Seconds until the next look while the caches do not have the objects yet.
const UNKNOWN: i64 = 2;

/// Seconds until the next look at an object that was created, if no event arrives.
const LOOK: i64 = 30;

/// The findings and actions of a pass about operations.
#[derive(Debug)]
pub struct OperationsReport {
    /// For the status.
    pub status: OperationsStatus,
    /// When the next look at the running operation is due, in seconds since 1970.
    pub next: Option<i64>,
    /// When the first schedule is due, in seconds since 1970.
    pub due: Option<i64>,
}

/// While an operation runs, other plans wait, except repairs and a deletion.
pub fn hold(observed: &Verified) -> Option<Applied> {
    let is_plan = matches!(
        observed.situation,
        Situation::New | Situation::Changed | Situation::Unfinished | Situation::RollBack(_) | Situation::Abandoned
    );
    let running = is_plan.then(|| running(observed)).flatten()?;
    let waiting = Waiting {
        what: Text::own(format!("the end of operation {}", running.name)),
        until: observed.facts.now + LOOK,
        hook: None,
    };
    Some(Applied { waiting: Some(waiting), ..Applied::nothing(Verb::Rest) })
}

/// Carries out one step after the rest of the pass. Returns `None` if operations are not observed in this pass.
pub async fn step(
    observed: &Verified,
    applied: &Applied,
    members: &Result<Option<MembersReport>, Error>,
    ctx: &Context,
) -> Result<Option<OperationsReport>, Error> {
    let situation = &observed.situation;
    let passes = matches!(situation, Situation::Uninstall | Situation::Leave | Situation::Waiting);
    let Ok(members) = members else { return Ok(None) };
    if passes || !observed.complete || applied.finished || applied.error.is_some() || observed.facts.foreign.is_some() {
        return Ok(None);
    }
    let status = observed.cr.status();
    let kept = StoredOperations::read(&status);
    let request = observed.cr.annotations.get(OPERATION).map(|text| text.trim()).filter(|text| !text.is_empty());
    let operations = observed.operations(None);
    let has = operations.is_some() || applied.prepared.desired.operations.is_some();
    if !has && kept == StoredOperations::default() && request.is_none() {
        return Ok(None);
    }
    let operations = operations.unwrap_or_default();
    let operations = &*operations;
    let pass = Pass { observed, operations, plan: status.get("plan"), ctx };
    let mut seen = if let Some(running) = kept.running.clone() {
        let mut seen = if matches!(situation, Situation::Paused(_)) {
            OperationsReport { status: OperationsStatus { kept, ..OperationsStatus::default() }, next: None, due: None }
        } else {
            pass.act(kept, &running).await?
        };
        seen.status.holds = applied.waiting.is_some();
        seen
    } else {
        pass.start(kept, request, blocked(observed, applied, members.as_ref()).as_ref())
    };
    let worked = matches!(
        applied.verb,
        Verb::Install | Verb::Upgrade | Verb::Resume | Verb::Repair | Verb::Note | Verb::RollBack
    );
    if worked && applied.waiting.is_none() && applied.dry_run.is_none() {
        seen.next.get_or_insert(observed.facts.now);
    }
    let unknown = seen.status.failed.take();
    seen.status.failed = unknown.or_else(|| failed(&seen.status.kept));
    seen.status.proven = proven(operations, &seen.status.kept);
    Ok(Some(seen))
}

/// Why no operation may begin now.
fn blocked(observed: &Verified, applied: &Applied, members: Option<&MembersReport>) -> Option<Blocked> {
    let because = |reason, why: &str| Some(Blocked { reason, why: why.to_owned() });
    let switches = &observed.facts.switches;
    let deployed = observed.facts.history.last().is_some_and(|r| r.status == Status::Deployed && r.inputs.is_some());
    let unready = members.and_then(|seen| seen.status.unready.as_ref());
    match &observed.situation {
        Situation::Paused(_) => {
            because("Paused", "the operator does nothing while the annotation tillerman.dev/paused is true")
        }
        Situation::Refused(refusal) | Situation::Awaiting(refusal) => because(refusal.reason, &refusal.message),
        _ if switches.dry_run => {
            because("DryRun", "the operator does nothing while the annotation tillerman.dev/dry-run is true")
        }
        _ if !switches.hooks => {
            because("HooksOff", "the annotation tillerman.dev/hooks turns hooks and operations off")
        }
        _ if observed.facts.asleep => because(ASLEEP, "the release sleeps"),
        _ if let Some(waiting) = &applied.waiting => because("Progressing", &format!("waiting for {}", waiting.what)),
        Situation::Settled | Situation::Blocked if applied.verb == Verb::Rest => match unready {
            _ if !deployed => because("NotDeployed", "the newest revision is not deployed"),
            Some((ASLEEP, message)) => because(ASLEEP, message),
            Some((_, message)) => because("PlanInProgress", message),
            None if observed.members.is_some() && members.is_none() => {
                because("PlanInProgress", "the operator looks at its members next")
            }
            None => None,
        },
        _ => because("Progressing", "the release is being changed to the state in the custom resource"),
    }
}

/// The operations of a release in one pass.
struct Pass<'a> {
    observed: &'a Observed,
    operations: &'a Operations,
    /// `status.plan` at the start of the pass.
    plan: Option<&'a Value>,
    ctx: &'a Context,
}

impl Pass<'_> {
    /// Begins an operation, if none runs.
    fn start(&self, mut kept: StoredOperations, request: Option<&str>, blocked: Option<&Blocked>) -> OperationsReport {
        let now = self.observed.facts.now;
        // A revision that another client has overwritten is rendered again first. After that it has its operations
        // again.
        let known = self.observed.facts.history.last().is_some_and(|r| r.inputs.is_some());
        if known && matches!(self.observed.situation, Situation::Settled | Situation::Blocked | Situation::Paused(_)) {
            see(&mut kept, self.operations, request, now);
        }
        let mut seen = OperationsReport {
            status: OperationsStatus { kept, ..OperationsStatus::default() },
            next: None,
            due: None,
        };
        let reported = &mut seen.status;
        match begin(self.operations, &reported.kept, request, blocked.is_some(), now) {
            Begin::Nothing => {}
            Begin::Waits(name) => {
                reported.pending = blocked.map(|b| (b.reason, format!("operation {name} waits: {}", b.why)));
            }
            Begin::Starts(running) => {
                event(self.observed, self.ctx, false, "OperationStarted", format!("operation {} begins", running.name));
                reported.plan = Some(plan(self.operations, &running, "begin", StepState::Done));
                reported.kept.running = Some(running);
                seen.next = Some(now);
            }
        }
        let unknown = unknown(self.operations, &seen.status.kept, request).filter(|_| blocked.is_none());
        if let Some(why) = unknown {
            if is_news(self.observed, "UnknownOperation", &why) {
                event(self.observed, self.ctx, true, "UnknownOperation", why.clone());
            }
            seen.status.failed = Some(("UnknownOperation", why));
        }
        if blocked.is_none() && seen.next.is_none() {
            seen.due = due(self.operations, &seen.status.kept);
        }
        seen
    }

    /// Carries out one step of the running operation.
    async fn act(&self, mut kept: StoredOperations, running: &Running) -> Result<OperationsReport, Error> {
        let Self { observed, operations, ctx, .. } = *self;
        let now = observed.facts.now;
        let (placed, watched) = self.place(running).await?;
        let (mut live, unsynced) = ctx.cache.objects_of(&observed.key, placed.iter().map(|p| &p.id), watched);
        live.retain(|_, live| names_owner(&observed.facts, live));
        let why =
            || ctx.cache.blind(&unsynced).unwrap_or_else(|| "the first list of the objects that it makes".to_owned());
        let unknown = (!unsynced.is_empty()).then(why);
        let timeout = self.timeout();
        let view = View { operations, running, placed: &placed, live: &live, timeout, now };
        let step = match unknown {
            Some(why) => OperationStep::Wait { why, until: now + UNKNOWN },
            None => next(&view),
        };
        let reported = |plan, kept, next| OperationsReport {
            status: OperationsStatus { kept, plan: Some(plan), ..OperationsStatus::default() },
            next: Some(next),
            due: None,
        };
        let done = |running: Running, mut kept: StoredOperations, what: &str| {
            let plan = plan(operations, &running, what, StepState::Done);
            kept.running = Some(running);
            reported(plan, kept, now)
        };
        Ok(match step {
            OperationStep::Wait { why, until } => {
                reported(plan(operations, running, &why, StepState::Waiting), kept, until)
            }
            OperationStep::Start(hook) => match self.create(&placed[hook], running).await? {
                Ok(until) => {
                    let what = placed[hook].id.to_string();
                    reported(plan(operations, running, &what, StepState::Waiting), kept, until)
                }
                Err(why) => {
                    let message = ctx.show(observed, &Text::own(format!("{}: ", placed[hook].id)).and(why));
                    let ended = Some(Ended { result: state::OperationResult::Failed, message });
                    done(Running { ended, ..running.clone() }, kept, "")
                }
            },
            OperationStep::Delete { id, uid, runs } => {
                self.delete(&id, &uid, runs).await?;
                reported(plan(operations, running, &format!("delete {id}"), StepState::Done), kept, now)
            }
            OperationStep::Remember(running) => done(running, kept, "begin"),
            OperationStep::Finish(hook) => {
                learn(observed, ctx).await;
                let (_, message) = self.last_words(&placed[hook]).await;
                done(finish(running, message), kept, "begin")
            }
            OperationStep::Judge(trouble) => {
                let said = self.ask(&placed[trouble.hook], &trouble).await;
                let running = judge(&view, &trouble, &said);
                done(running, kept, &format!("{}: not yet", placed[trouble.hook].id))
            }
            OperationStep::Over(ended) => {
                over(&mut kept, running, &ended, time(now));
                let name = &running.name;
                match ended.result {
                    state::OperationResult::Succeeded => {
                        event(observed, ctx, false, "OperationSucceeded", format!("operation {name} is done"));
                    }
                    state::OperationResult::Failed | state::OperationResult::Refused => {
                        event(observed, ctx, true, "OperationFailed", format!("operation {name}: {}", ended.message));
                    }
                }
                reported(finished(self.plan, running, &ended), kept, now)
            }
        })
    }

    /// The objects of the running operation, and the watches that show them.
    async fn place(&self, running: &Running) -> Result<(Vec<Placed>, Vec<WatchKey>), Error> {
        let Self { observed, operations, ctx, .. } = *self;
        let revision = observed.facts.history.last().map_or(0, |r| r.revision);
        let (mut placed, mut watched) = (Vec::new(), Vec::new());
        for hook in operations.of(&running.name) {
            let resource = ctx.discovery.resolve(&hook.gvk()).await?;
            let namespaced = resource.as_ref().is_none_or(|resource| resource.namespaced);
            let one = Placed::new(hook, running, revision, &observed.owner, namespaced).map_err(Error::Manifest)?;
            place(&one.id, observed, ctx)?;
            if resource.is_some() {
                ctx.watching.objects.ensure(&one.id.gvk, one.id.namespace.as_ref());
                watched.push(ctx.cache.watch_key(&one.id.gvk, one.id.namespace.as_ref()));
            }
            placed.push(one);
        }
        Ok((placed, watched))
    }

    /// The timeout in seconds of an object that has none of its own.
    fn timeout(&self) -> i64 {
        self.observed.facts.switches.hook_timeout().as_secs().cast_signed()
    }

    /// Creates an object. Returns when to look at it, or why it cannot be created.
    async fn create(&self, placed: &Placed, running: &Running) -> Result<Result<i64, Text>, Error> {
        let Self { observed, ctx, .. } = *self;
        let (now, Placed { hook, id, body }) = (observed.facts.now, placed);
        let late = running.first_attempt.unwrap_or(now).saturating_add(hook.timeout.unwrap_or_else(|| self.timeout()));
        let Some(resource) = ctx.discovery.resolve(&id.gvk).await? else {
            return Ok(Err(ApiError::UnknownKind { what: describe("create", id), kind: id.gvk.to_string() }.text()));
        };
        match observed.cluster.create(&resource, id, &Value::Object(body.clone()), Returned::Object).await {
            Ok(object) => {
                ctx.cache.wrote_object(&id.gvk, &object);
                Ok(Ok(if hook.is_a_run() { late.min(now + LOOK) } else { now }))
            }
            Err(e) if e.is_conflict() => {
                let Some(object) = observed.cluster.get(&resource, id).await? else { return Ok(Ok(now)) };
                let found = ctx.cache.wrote_object(&id.gvk, &object).map(|(_, live)| live);
                let Some(found) = found else { return Ok(Ok(now + UNKNOWN)) };
                if let Ownership::Refused(why) = claim(&object, observed, ctx) {
                    return Ok(Err(Text::own(format!("an object of its name exists, and {why}; or {REMEDY}"))));
                }
                if Mark::of(running).made(&found).is_some() {
                    return Ok(Ok(now));
                }
                if !hook.has_policy(DeletePolicy::BeforeCreation) && !hook.is_a_run() && !found.deleting {
                    return match update_beside(observed, &resource, id, &object, &Value::Object(body.clone())).await {
                        Ok(object) => {
                            ctx.cache.wrote_object(&id.gvk, &object);
                            Ok(Ok(now))
                        }
                        Err(e) if e.is_outage() || e.is_conflict() => Err(e.into()),
                        Err(e) => Ok(Err(e.text())),
                    };
                }
                if !found.deleting {
                    self.delete(id, &found.uid, false).await?;
                }
                Ok(Ok(now + UNKNOWN))
            }
            Err(e) if e.is_outage() => Err(e.into()),
            Err(e) => Ok(Err(e.text())),
        }
    }

    async fn delete(&self, id: &ObjectId, uid: &str, foreground: bool) -> Result<(), Error> {
        let Some(resource) = self.ctx.discovery.resolve(&id.gvk).await? else { return Ok(()) };
        match self.observed.cluster.delete(&resource, id, Some(uid), foreground).await? {
            Some(left) => {
                self.ctx.cache.wrote_object(&id.gvk, &left);
            }
            None => {
                self.ctx.cache.remove_object(id, Some(uid), 0, &Value::Null);
            }
        }
        Ok(())
    }

    /// Asks the pods of an object how they ended. If the role does not allow this, the answer is empty.
    async fn ask(&self, placed: &Placed, trouble: &Trouble) -> PodsSaid {
        let Placed { hook, id, .. } = placed;
        // The text is masked here, at its source.
        learn(self.observed, self.ctx).await;
        let clean = |text: &str| self.ctx.show(self.observed, &Text::foreign(text));
        let mut said = PodsSaid { why: self.ctx.show(self.observed, &trouble.why), ..PodsSaid::default() };
        let (true, Some(namespace)) = (hook.is_a_run(), &id.namespace) else { return said };
        (said.exit, said.message) = self.last_words(placed).await;
        if trouble.late || !matches!(said.exit, Some(Exit::Later | Exit::Refused)) {
            said.lines = match self.observed.cluster.last_lines(namespace, &id.gvk.kind, &id.name).await {
                Ok(Some((pod, lines))) => format!("; the last lines of pod {pod}:\n{}", clean(&lines)),
                // The termination message contains the end of the log, too.
                _ if !said.message.is_empty() => format!("; its last line: {}", said.message),
                Ok(None) => String::new(),
                Err(error) if error.is_forbidden() => format!("; its log cannot be read: {error}"),
                Err(error) => {
                    tracing::info!(%error, hook = %id, "cannot read the log of a failed operation");
                    String::new()
                }
            };
        }
        said
    }

    /// How the container of an object came out that counts, and the last line of its termination message, masked. The role may not allow
    /// to ask its pods.
    async fn last_words(&self, placed: &Placed) -> (Option<Exit>, String) {
        let Placed { hook, id, .. } = placed;
        let (true, Some(namespace)) = (hook.is_a_run(), &id.namespace) else { return (None, String::new()) };
        let cluster = &self.observed.cluster;
        let pods = Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true };
        let found = if &*id.gvk.kind == "Job" {
            cluster.list(&pods, namespace, &format!("job-name={}", id.name)).await
        } else {
            cluster.get(&pods, id).await.map(|pod| pod.into_iter().collect())
        };
        let mut found = found.unwrap_or_else(|error| {
            tracing::info!(%error, hook = %id, "the results of the pods of an operation are not known");
            Vec::new()
        });
        let created =
            |pod: &Value| pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str).map(str::to_owned);
        found.sort_by_key(|pod| std::cmp::Reverse(created(pod)));
        let (exit, message) = runs::last_words(&found.iter().collect::<Vec<_>>(), hook.container.as_deref());
        (exit, self.ctx.show(self.observed, &Text::foreign(message.as_str())))
    }
}
