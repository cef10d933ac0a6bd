//! Carries out notices: looks at what changed, stores what is to be sent, sends it, and removes what was taken.
//!
//! One task looks and stores, a notice at a time. Each notice sends on its own, so that a target that hangs delays nobody else. What is to
//! be sent is in the status of the notice before the first attempt, in the request that stores what was seen.

mod connect;
mod held;
mod look;
mod pods;
mod send;
mod sink;
pub mod touched;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Api;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::context::Context;
use crate::cluster::client::Cluster;
use crate::cluster::watch::{End, watch};
use crate::harm;
use crate::notices;
use crate::notices::document::Notice;
use crate::notices::message::{self, Message};
use crate::notices::state::{Entry, State, Turn};
use crate::notices::status::{Reason, Report, bound, status};
use crate::plan::status::patch;
use crate::release::object::ObjectId;
use held::{Dirty, Held};
use look::look;
use pods::PodWatches;
pub use send::{Failure, Sender};
use sink::{Id, NoticeSink, Seen};

/// After a change, the time in which further changes are awaited before it is stored.
const SETTLE: Duration = Duration::from_millis(200);
/// After how many seconds without a crash a workload is well again.
const QUIET: Duration = Duration::from_secs(600);
/// Pauses after a failure, doubling from the first to the last.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LAST_RETRY: Duration = Duration::from_secs(300);
/// Notices of one namespace that send at once, and of all.
const SENDING_OF_ONE: usize = 4;
const SENDING: usize = 64;
/// Between two attempts to watch notices without the right to it.
const BLIND: Duration = Duration::from_secs(600);
/// Between two looks at whether the API server serves notices. A look costs no request.
const LOOK: Duration = Duration::from_secs(10);

/// How notices are carried out.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Hosts and addresses that messages may reach although their addresses are refused.
    pub hosts: Vec<String>,
}

/// What came of the attempts of a notice.
struct Sent {
    id: Id,
    uid: String,
    what: Outcome,
}

/// What came of an attempt, or that there are no more.
enum Outcome {
    /// This message was taken, or not.
    Attempt(String, Result<String, Failure>),
    /// The attempts are over.
    Ended,
}

/// All notices.
pub(super) struct Notices {
    ctx: Arc<Context>,
    sender: Sender,
    seen: Seen,
    held: BTreeMap<Id, Held>,
    pods: PodWatches,
    waiting: Arc<AtomicU64>,
    results: (mpsc::UnboundedSender<Sent>, mpsc::UnboundedReceiver<Sent>),
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn quiet() -> i64 {
    i64::try_from(harm::setting("TILLERMAN_NOTICE_QUIET", QUIET).as_secs()).unwrap_or(i64::MAX)
}

impl Notices {
    /// None is known yet.
    pub fn new(ctx: Arc<Context>, settings: &Settings) -> Self {
        let hosts = Some(settings.hosts.clone().into());
        let sender = Sender { cluster: ctx.cluster.clone(), hosts };
        let waiting = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&waiting);
        ctx.metrics.register_notices(move || count.load(Ordering::Relaxed));
        Self {
            ctx,
            sender,
            seen: Seen::default(),
            held: BTreeMap::new(),
            pods: PodWatches::default(),
            waiting,
            results: mpsc::unbounded_channel(),
        }
    }

    /// Watches notices, and carries them out until the operator stops.
    pub async fn run(mut self) {
        let (sender, mut changed) = mpsc::unbounded_channel();
        let stop = self.ctx.tasks.stop().clone();
        self.ctx.tasks.base("watch of notices", follow(Arc::clone(&self.ctx), self.seen.clone(), sender));
        loop {
            let due = self.held.values().filter_map(|held| held.wakes).min();
            let pause = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let touched = Arc::clone(&self.ctx.touched);
            tokio::select! {
                () = stop.cancelled() => return,
                id = changed.recv() => match id {
                    Some(id) => self.changed(&id),
                    None => return,
                },
                Some(sent) = self.results.1.recv() => self.sent(sent),
                () = touched.some.notified() => {
                    if touched.was_completed() {
                        for held in self.held.values_mut() {
                            held.dirty = Dirty::All;
                            held.wake_at(Instant::now() + SETTLE);
                        }
                    }
                    for key in touched.take() {
                        for held in self.of(&key.namespace) {
                            held.dirty.add(key.clone());
                            held.wake_at(Instant::now() + SETTLE);
                        }
                    }
                }
                namespaces = self.pods.changed() => {
                    for namespace in namespaces {
                        for held in self.of(&namespace).filter(|held| held.needs_pods()) {
                            held.dirty = Dirty::All;
                            held.wake_at(Instant::now() + SETTLE);
                        }
                    }
                }
                () = pause => {
                    let now = Instant::now();
                    let due = |(id, held): (&Id, &Held)| held.wakes.is_some_and(|at| at <= now).then(|| id.clone());
                    let due: Vec<Id> = self.held.iter().filter_map(due).collect();
                    for id in due {
                        self.turn(&id).await;
                    }
                    let waiting: usize = self.held.values().map(|held| held.waiting).sum();
                    self.waiting.store(waiting as u64, Ordering::Relaxed);
                }
            }
        }
    }

    /// The notices of a namespace.
    fn of(&mut self, namespace: &str) -> impl Iterator<Item = &mut Held> {
        self.held.iter_mut().filter(move |((of, _), _)| **of == *namespace).map(|(_, held)| held)
    }

    /// A notice that came, changed or went.
    fn changed(&mut self, id: &Id) {
        match self.seen.get(id) {
            Some(object) => {
                let held = self.held.entry(id.clone()).or_default();
                held.read(&object);
                held.wake_at(Instant::now());
            }
            None => drop(self.held.remove(id)),
        }
        self.ctx.touched.want(!self.held.is_empty());
        let wanted =
            self.held.iter().filter(|(_, held)| held.needs_pods()).map(|((namespace, _), _)| Arc::clone(namespace));
        self.pods.follow(&wanted.collect::<HashSet<_>>(), &self.ctx.shared);
    }

    fn sent(&mut self, sent: Sent) {
        let Sent { id, uid, what } = sent;
        let held = self.held.get_mut(&id).filter(|held| held.uid == uid);
        match (what, held) {
            (Outcome::Ended, held) => {
                if let Some(held) = held {
                    held.ended(first_retry(), LAST_RETRY);
                    held.wake_at(Instant::now());
                }
                // Others may have waited for their turn.
                for held in self.held.values_mut() {
                    if std::mem::take(&mut held.waits_for_turn) {
                        held.wake_at(Instant::now());
                    }
                }
            }
            (Outcome::Attempt(entry, result), Some(held)) => {
                self.ctx.metrics.notice_sent(held.target(), result.is_ok());
                match result {
                    Ok(answer) => {
                        tracing::info!(namespace = %id.0, name = %id.1, message = entry, answer = bound(&answer), "notice sent");
                        held.taken.push(entry);
                    }
                    Err(failure) => {
                        let (error, permanent) = (bound(&failure.text), failure.is_permanent);
                        tracing::warn!(namespace = %id.0, name = %id.1, message = entry, error, permanent, "notice not taken");
                        held.failed.get_or_insert(error);
                    }
                }
                held.wake_at(Instant::now());
            }
            (Outcome::Attempt(..), None) => {}
        }
    }

    /// One turn of one notice: looks, stores, sends.
    async fn turn(&mut self, id: &Id) {
        let Some(object) = self.seen.get(id) else { return };
        let Some(held) = self.held.get_mut(id) else { return };
        held.wakes = None;
        let old: Map<String, Value> = object["status"].as_object().cloned().unwrap_or_default();
        let mut state = State::read(object.get("status"));
        let now = now();
        let notice = held.notice.clone();
        let is_new = old.get("observedGeneration") != Some(&json!(held.generation));
        if is_new {
            (state.since, held.dirty) = (now, Dirty::All);
        }
        for entry in &held.taken {
            state.strike(entry);
        }
        let mut problem = held.problem.clone().map(|why| (Reason::SendFailed, why));
        match &notice {
            Ok(notice) => {
                let turn = Turn { notice, uid: &held.uid, now, quiet: quiet() };
                if let Some(why) = look(id, &mut state, (&mut held.dirty, is_new), &turn, &self.ctx, &self.pods) {
                    problem = problem.or(Some((Reason::TooMany, why)));
                }
                state.remind(&turn);
            }
            Err(why) => problem = Some((Reason::InvalidSpec, why.clone())),
        }
        let (reason, message) = problem.unwrap_or((Reason::Watching, String::new()));
        let (generation, sent) = (held.generation, held.taken.len() as u64);
        let stamp = format!("{:.0}", jiff::Timestamp::now());
        let new = status(&old, &Report { generation, now: &stamp, reason, message: &message, state: &state, sent });
        harm::at("notice-store", &id.1).await;
        if let Some(patch) = patch(&old, &new)
            && let Err(why) = store(&self.ctx.cluster, id, &object, &patch, &self.seen).await
        {
            tracing::debug!(namespace = %id.0, name = %id.1, %why, "the status of a notice is not stored yet");
            // What was looked at is looked at again.
            held.dirty = Dirty::All;
            held.not_stored();
            return;
        }
        held.stored(&state);
        if let Ok(notice) = &notice {
            if let Some(at) = state.wakes(notice, quiet()) {
                // What is due already is sent now, or waits for its retry.
                let left = u64::try_from(at - now).unwrap_or(0);
                if left > 0 {
                    held.wake_at(Instant::now() + Duration::from_secs(left));
                } else if let Some(later) = state.outbox.iter().map(|entry| entry.due).filter(|due| *due > now).min() {
                    held.wake_at(Instant::now() + Duration::from_secs(u64::try_from(later - now).unwrap_or(0)));
                }
            }
            self.send(id, notice, &state, now);
        }
    }

    /// Starts the attempts for what is due, unless they run or a retry is not due yet.
    fn send(&mut self, id: &Id, notice: &Notice, state: &State, now: i64) {
        let due: Vec<Entry> = state.due(now).cloned().collect();
        let mut of_namespace: HashMap<&str, usize> = HashMap::new();
        for ((namespace, _), held) in &self.held {
            *of_namespace.entry(namespace).or_default() += usize::from(held.is_sending);
        }
        let all: usize = of_namespace.values().sum();
        let full = all >= SENDING || of_namespace.get(&*id.0).is_some_and(|count| *count >= SENDING_OF_ONE);
        let Some(held) = self.held.get_mut(id) else { return };
        if due.is_empty() || held.is_sending {
            return;
        }
        if let Some(at) = held.retry.filter(|at| *at > Instant::now()) {
            return held.wake_at(at);
        }
        if full {
            held.waits_for_turn = true;
            return;
        }
        held.is_sending = true;
        let sender = message::Sender { namespace: &id.0, name: &id.1 };
        let messages: Vec<Message> = due.iter().map(|entry| message::compose(notice, sender, entry)).collect();
        let (id, uid, notice, sender) = (id.clone(), held.uid.clone(), notice.clone(), self.sender.clone());
        let results = self.results.0.clone();
        let stop = self.ctx.tasks.stop().clone();
        self.ctx.tasks.spawn("sender of a notice", async move {
            for message in messages {
                harm::at("notice-send", &id.1).await;
                let result = tokio::select! {
                    () = stop.cancelled() => return,
                    result = sender.send(&id.0, &notice, &message) => result,
                };
                harm::at("notice-sent", &id.1).await;
                // After a failure that is about the target, the rest would fail too.
                let goes_on = result.as_ref().err().is_none_or(|failure| failure.is_permanent);
                let what = Outcome::Attempt(message.id, result);
                if results.send(Sent { id: id.clone(), uid: uid.clone(), what }).is_err() || !goes_on {
                    break;
                }
            }
            let _ = results.send(Sent { id, uid, what: Outcome::Ended });
        });
    }
}

fn first_retry() -> Duration {
    harm::setting("TILLERMAN_NOTICE_RETRY", FIRST_RETRY)
}

/// Writes a status, unless the notice changed meanwhile.
async fn store(
    cluster: &Cluster,
    (namespace, name): &Id,
    object: &Value,
    patch: &Value,
    seen: &Seen,
) -> Result<(), String> {
    let resource = notices_resource();
    let id = ObjectId { gvk: notices::gvk(), namespace: Some(Arc::clone(namespace)), name: Arc::clone(name) };
    let metadata = json!({"uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"]});
    let patch = json!({"metadata": metadata, "status": patch});
    match cluster.merge::<Value>(&resource, &id, &patch, Some("status")).await {
        Ok(answer) => {
            seen.put((Arc::clone(namespace), Arc::clone(name)), answer);
            Ok(())
        }
        Err(error) => {
            // The watch has the newer object soon; after an outage this asks whether the request was carried out.
            if !error.is_not_found()
                && let Ok(Some(found)) = cluster.get(&resource, &id).await
            {
                seen.put((Arc::clone(namespace), Arc::clone(name)), found);
            }
            Err(error.to_string())
        }
    }
}

/// The kind of notices as the API server has it.
pub fn notices_resource() -> crate::cluster::discovery::Resource {
    crate::cluster::discovery::Resource { gvk: notices::gvk(), plural: notices::PLURAL.into(), namespaced: true }
}

/// Watches notices, whenever the API server serves their kind. Where it does not, nothing is asked: the kind is found when it is looked up
/// for another reason, or at the next start.
async fn follow(ctx: Arc<Context>, seen: Seen, changed: mpsc::UnboundedSender<Id>) {
    let stop = ctx.tasks.stop().clone();
    loop {
        if let Some(resource) = ctx.discovery.cached(&notices::gvk()) {
            let watches = ctx.cache.scopes().into_iter().map(|scope| {
                let resource = resource.api_resource();
                let api: Api<DynamicObject> = match &scope {
                    Some(namespace) => Api::namespaced_with(ctx.cluster.client(), namespace, &resource),
                    None => Api::all_with(ctx.cluster.client(), &resource),
                };
                follow_one(&ctx, api, scope, seen.clone(), changed.clone())
            });
            futures::future::join_all(watches).await;
            ctx.discovery.forget(&notices::gvk());
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Watches the notices of one namespace or of all, until the API server does not serve their kind any more. An operator that lacks the
/// right asks seldom: notices are not what most operators are for.
async fn follow_one(
    ctx: &Context,
    api: Api<DynamicObject>,
    scope: Option<Arc<str>>,
    seen: Seen,
    changed: mpsc::UnboundedSender<Id>,
) {
    let stop = ctx.tasks.stop();
    loop {
        let blind = stop.child_token();
        let mut sink = NoticeSink::new(scope.clone(), seen.clone(), changed.clone(), blind.clone());
        if watch(api.clone(), None, ctx.manner(), &mut sink, &blind).await == End::Gone {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BLIND) => {}
        }
    }
}
