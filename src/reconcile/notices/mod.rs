//! Carries out notices: looks at what changed, stores what is to be sent, sends it, and removes what was taken.
//!
//! One task looks and stores, a notice at a time. Each notice sends on its own, so that a target that hangs delays
//! nobody else. The status of the notice has each message before the first attempt to send it: the request that stores
//! the seen events writes it.

mod answers;
mod connect;
mod follow;
mod held;
mod look;
mod pods;
mod send;
mod sink;
pub mod touched;
pub mod undelivered;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::blocking::off;
use super::context::Context;
use super::journal::{self, Journal, Working};
use crate::cluster::client::Cluster;
use crate::harm;
use crate::notices;
use crate::notices::allowance::Allowance;
use crate::notices::document::Notice;
use crate::notices::message::{self, Composed};
use crate::notices::state::{Entry, NoticeState, Times, Turn};
use crate::notices::status::{NoticeReason, NoticeReport, bound, status};
use crate::object::ObjectId;
use crate::plan::status::{NOTICES_FAILING, patch};
use follow::follow;
use held::{Dirty, Held};
use look::{key_of, kinds_by_name, look};
use pods::PodWatches;
pub use send::{Failure, Sender};
use sink::{Id, News, Seen};

/// After a change, the time in which further changes are awaited before it is stored.
const SETTLE: Duration = Duration::from_millis(200);
/// After how long without a crash a workload is well again.
const QUIET: Duration = Duration::from_secs(600);
/// How long a certificate is missing before that is reported.
const LINGER: Duration = Duration::from_secs(300);
/// Pauses after a failure, doubling from the first to the last.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LAST_RETRY: Duration = Duration::from_secs(300);
/// Notices of one namespace that send at once, and of all.
const SENDING_OF_ONE: usize = 4;
const SENDING: usize = 64;

/// How notices are carried out.
#[derive(Clone, Debug)]
pub struct NoticeSettings {
    /// Hosts and addresses that messages may reach although their addresses are refused.
    pub hosts: Vec<String>,
    /// To how many people the notices of one namespace can write in an hour.
    pub per_hour: usize,
}

/// The results of the attempts of a notice.
struct Sent {
    id: Id,
    uid: String,
    what: Outcome,
}

/// The result of an attempt, or the end of the attempts.
enum Outcome {
    /// A message has the words of the notice's templates, or the error of one that failed.
    Composed(Option<String>),
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
    allowance: Allowance,
    waiting: Arc<AtomicU64>,
    /// The scopes whose notices were all reported.
    complete: HashSet<Option<Arc<str>>>,
    results: (mpsc::UnboundedSender<Sent>, mpsc::UnboundedReceiver<Sent>),
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn times() -> Times {
    let seconds = |variable, time| i64::try_from(harm::setting(variable, time).as_secs()).unwrap_or(i64::MAX);
    Times { quiet: seconds("TILLERMAN_NOTICE_QUIET", QUIET), linger: seconds("TILLERMAN_NOTICE_LINGER", LINGER) }
}

impl Notices {
    /// None is known yet.
    pub fn new(ctx: Arc<Context>, settings: &NoticeSettings) -> Self {
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
            allowance: Allowance::new(settings.per_hour),
            waiting,
            complete: HashSet::new(),
            results: mpsc::unbounded_channel(),
        }
    }

    /// Watches notices, and carries them out until the operator stops.
    pub async fn run(mut self) {
        let (sender, mut news) = mpsc::unbounded_channel();
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
                reported = news.recv() => match reported {
                    Some(News::Changed(id)) => self.changed(&id),
                    Some(News::Complete(scope)) => self.completed(scope),
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
        if let Some(object) = self.seen.get(id) {
            let held = self.held.entry(id.clone()).or_default();
            held.read(&object);
            held.wake_at(Instant::now());
            self.mark(id, &NoticeState::read(object.get("status")), now());
        } else {
            self.held.remove(id);
            self.mark(id, &NoticeState::default(), now());
        }
        self.ctx.touched.want(!self.held.is_empty());
        let wanted =
            self.held.iter().filter(|(_, held)| held.needs_pods()).map(|((namespace, _), _)| Arc::clone(namespace));
        self.pods.follow(&wanted.collect::<HashSet<_>>(), &self.ctx.shared);
    }

    /// All notices of a scope were reported.
    fn completed(&mut self, scope: Option<Arc<str>>) {
        self.complete.insert(scope);
        let is_whole = self.ctx.cache.scopes().iter().all(|scope| self.complete.contains(scope));
        if is_whole && self.ctx.undelivered.know() {
            // The status of one may still say what was so before a restart.
            let crs = self.ctx.cache.crs().into_iter();
            self.ctx.queue.add_all(crs.filter(|(_, cr)| cr.status.contains(NOTICES_FAILING)).map(|(key, _)| key));
        }
    }

    /// Enters about which custom resources a notice cannot send what is due. Those for which that is news get a pass, which reports it.
    fn mark(&self, id: &Id, state: &NoticeState, now: i64) {
        let fails = self.held.get(id).is_some_and(|held| held.problem.is_some() || held.notice.is_err());
        let waiting = state.due(now).filter(|_| fails).flat_map(|entry| &entry.lines);
        let kinds = kinds_by_name(&self.ctx);
        let keys: BTreeSet<_> = waiting.filter_map(|line| key_of(&line.release, &id.0, &kinds)).collect();
        self.ctx.queue.add_all(self.ctx.undelivered.set(id, keys));
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
                held.reserved = held.reserved.saturating_sub(held.recipients());
                match result {
                    Ok(answer) => {
                        tracing::info!(namespace = %id.0, name = %id.1, message = entry, answer = bound(&answer), "notice sent");
                        self.allowance.note(&id.0, held.recipients(), now());
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
            (Outcome::Composed(error), Some(held)) => held.templates.push(error),
            (Outcome::Attempt(..) | Outcome::Composed(_), None) => {}
        }
    }

    /// One turn of one notice: looks, stores, sends.
    async fn turn(&mut self, id: &Id) {
        let Some(object) = self.seen.get(id) else { return };
        let Some(held) = self.held.get_mut(id) else { return };
        held.wakes = None;
        let old: Map<String, Value> = object["status"].as_object().cloned().unwrap_or_default();
        let mut state = NoticeState::read(object.get("status"));
        let now = now();
        let notice = held.notice.clone();
        let is_new = old.get("observedGeneration") != Some(&json!(held.generation));
        if is_new {
            (state.since, held.dirty) = (now, Dirty::All);
        }
        for entry in &held.taken {
            state.strike(entry);
        }
        for error in &held.templates {
            state.note_templates(held.generation, error.clone());
        }
        let mut problem = held.problem.clone().map(|why| (NoticeReason::SendFailed, why));
        match &notice {
            Ok(notice) => {
                let turn = Turn { notice, uid: &held.uid, now, times: times() };
                if let Some(why) = look(id, &mut state, (&mut held.dirty, is_new), &turn, &self.ctx, &self.pods) {
                    problem = problem.or(Some((NoticeReason::TooMany, why)));
                }
                state.remind(&turn);
            }
            Err(why) => problem = Some((NoticeReason::InvalidSpec, why.clone())),
        }
        if held.is_limited && problem.is_none() {
            let most = self.allowance.per_namespace();
            let why = format!(
                "the notices of this namespace can write to {most} recipients in an hour, and all notices of the operator to ten times as \
                 many; messages wait. --notice-recipients-per-hour of the operator sets the limit"
            );
            problem = Some((NoticeReason::Limited, why));
        }
        let left_out = state.templates_left_out(held.generation);
        let problem = problem.or_else(|| {
            let text = |why| format!("{why}; messages have the default text until the spec changes");
            left_out.map(|why| (NoticeReason::TemplateFailed, text(why)))
        });
        let (reason, message) = problem.unwrap_or((NoticeReason::Watching, String::new()));
        let (generation, sent) = (held.generation, held.taken.len() as u64);
        let stamp = format!("{:.0}", jiff::Timestamp::now());
        let new =
            status(&old, &NoticeReport { generation, now: &stamp, reason, message: &message, state: &state, sent });
        harm::at("notice-store", &id.1).await;
        if let Some(patch) = patch(&old, &new)
            && let Err(why) = store(&self.ctx.cluster, id, &object, &patch, &self.seen).await
        {
            tracing::debug!(namespace = %id.0, name = %id.1, %why, "the status of a notice is not stored yet");
            // Custom resources that were checked are checked again.
            held.dirty = Dirty::All;
            held.not_stored();
            return;
        }
        held.stored(&state);
        self.mark(id, &state, now);
        let Some(held) = self.held.get_mut(id) else { return };
        if let Ok(notice) = &notice {
            if let Some(at) = state.wakes(notice, times()) {
                // Messages that are due already are sent now, or wait for their retry.
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

    /// Starts the attempts for due messages, unless they run or a retry is not due yet.
    fn send(&mut self, id: &Id, notice: &Notice, state: &NoticeState, now: i64) {
        let mut due: Vec<Entry> = state.due(now).cloned().collect();
        let mut of_namespace: HashMap<&str, usize> = HashMap::new();
        for ((namespace, _), held) in &self.held {
            *of_namespace.entry(namespace).or_default() += usize::from(held.is_sending);
        }
        let all: usize = of_namespace.values().sum();
        let of = |namespace: Option<&str>| {
            let all = self.held.iter().filter(|((of, _), _)| namespace.is_none_or(|namespace| **of == *namespace));
            all.map(|(_, held)| held.reserved).sum::<usize>()
        };
        let reserved = (of(Some(&id.0)), of(None));
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
        let recipients = notice.target.recipients();
        match self.allowance.room(&id.0, reserved, now).and_then(|room| match room / recipients.max(1) {
            // A message for as many as a namespace can write to at all is sent alone.
            0 if room < self.allowance.per_namespace() => Err(now + 60),
            messages => Ok(messages.max(1)),
        }) {
            Ok(messages) => due.truncate(messages),
            Err(until) => {
                let is_news = !std::mem::replace(&mut held.is_limited, true);
                let wait = if is_news { 0 } else { u64::try_from(until - now).unwrap_or(0) };
                return held.wake_at(Instant::now() + Duration::from_secs(wait));
            }
        }
        held.is_limited = false;
        held.reserved = due.len() * recipients;
        held.is_sending = true;
        let has_templates = notice.subject.is_some() || notice.body.is_some();
        let uses_templates = has_templates && state.templates_left_out(held.generation).is_none();
        let (id, uid, notice, sender) = (id.clone(), held.uid.clone(), Arc::new(notice.clone()), self.sender.clone());
        let results = self.results.0.clone();
        let (stop, journal, generation) = (self.ctx.tasks.stop().clone(), self.ctx.journal.clone(), held.generation);
        self.ctx.tasks.spawn("sender of a notice", async move {
            for entry in due {
                let composing = compose(&id, &notice, entry, uses_templates, (&journal, &uid, generation));
                let Composed { message, template_error } = composing.await;
                if uses_templates {
                    let what = Outcome::Composed(template_error);
                    let _ = results.send(Sent { id: id.clone(), uid: uid.clone(), what });
                }
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

/// Composes a message on a thread that nothing else needs. A panic counts as a template that failed.
async fn compose(
    id: &Id,
    notice: &Arc<Notice>,
    entry: Entry,
    templates: bool,
    (journal, uid, generation): (&Journal, &str, i64),
) -> Composed {
    let subject = journal::subject(&["Notice", &format!("{}/{}", id.0, id.1)]);
    let input = journal::input([uid, &generation.to_string()]);
    let begun = if templates { journal.begin_in_turn(&subject, &input).await } else { Some(Working::default()) };
    let with = |templates: bool| {
        let ((namespace, name), notice, entry) = (id.clone(), Arc::clone(notice), entry.clone());
        move || message::compose(&notice, message::Sender { namespace: &namespace, name: &name }, &entry, templates)
    };
    let error = match begun {
        Some(_working) => match off(with(templates)).await {
            Ok(composed) => return composed,
            Err(error) => error.to_string(),
        },
        None => "the operator's process ended twice while it rendered the template".to_owned(),
    };
    let mut usual = with(false)();
    usual.message.body.extend([format!("\nA template of the notice failed: {error}\n")]);
    Composed { template_error: Some(error), ..usual }
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
