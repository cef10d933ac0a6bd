//! Decides the next step. The first row of the table that applies wins, and each row does at most one thing. Rows that
//! finish something come before those that begin something. So interrupted work is found and finished.
//!
//! P is the primary, E the epoch, N the set of members that may acknowledge, and W the number of acknowledgements that
//! a commit waits for. No acknowledged write is lost if, of N, R members are heard and fenced with R + W > |N|: every
//! acknowledged write is then on one of them.
//!
//! The phases and their rows are in `table`, in order. docs/design/primary.md shows them; comments cite a row by the
//! name of its function.

mod change;
mod follow;
mod size;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

pub use table::rows;

use self::table::TABLE;
use super::state::{
    ChangeKind, Latched, ObservedPrimary, PrimaryAction, PrimaryChange, PrimaryFacts, PrimaryLatch, PrimarySettings,
    PrimaryStep, Roles,
};
use crate::agent::contract::{MemberState, Order, Promote, Role, Verb};
use crate::members::driver::MemberStep;
use crate::members::sleep::{falling_asleep, falls_asleep, sleeping};
use crate::members::workload::{Mode, Workload, WorkloadTarget};

/// When to observe again work in progress.
const SOON: Duration = Duration::from_secs(1);
/// When to observe again work that others have to do.
const LATER: Duration = Duration::from_secs(10);

/// Decides the next step. `now` is in seconds since 1970.
pub fn decide(
    settings: &PrimarySettings,
    workload: &Workload,
    observed: &ObservedPrimary,
    target: &WorkloadTarget,
    latch: &PrimaryLatch,
    now: i64,
) -> PrimaryStep {
    let nothing = Latched::default();
    let held = latch.own.primary.as_ref().unwrap_or(&nothing);
    let scene = Scene { settings, workload, observed, target, latch, held, now };
    TABLE.iter().find_map(|rule| (rule.decide)(&scene)).unwrap_or(MemberStep::Quiet)
}

/// Whether another member could take over now without losing an acknowledged write. The error says why not.
pub fn is_safe_to_fail_over(
    settings: &PrimarySettings,
    workload: &Workload,
    observed: &ObservedPrimary,
    latch: &PrimaryLatch,
) -> Result<(), String> {
    let nothing = Latched::default();
    let held = latch.own.primary.as_ref().unwrap_or(&nothing);
    let target = WorkloadTarget::of(workload.replicas);
    Scene { settings, workload, observed, target: &target, latch, held, now: 0 }.safety()
}

type Step = Option<PrimaryStep>;

/// Everything that the decision depends on.
struct Scene<'a> {
    settings: &'a PrimarySettings,
    workload: &'a Workload,
    observed: &'a ObservedPrimary,
    target: &'a WorkloadTarget,
    latch: &'a PrimaryLatch,
    held: &'a Latched,
    now: i64,
}

impl Scene<'_> {
    /// The custom resource is deleted with all its members. Paused: nothing. No cluster begins while something else is
    /// under way.
    fn paused_or_deleted(&self) -> Step {
        let acts = match self.target.mode {
            Mode::Run => true,
            Mode::Keep => self.latch.bootstrapped,
            Mode::Paused | Mode::Deleting => false,
        };
        (!acts).then_some(MemberStep::Quiet)
    }

    /// The rows up to here keep the members at work. Those that follow add, remove and restart members.
    fn operation(&self) -> Step {
        (self.target.mode == Mode::Keep).then_some(MemberStep::Quiet)
    }

    /// The first member may create the data. If claims already exist and can be adopted, their members answer
    /// first, and then one of them is chosen: all of them have to be heard.
    fn first_member(&self) -> Step {
        if self.latch.bootstrapped || self.workload.replicas > 0 {
            return None;
        }
        if self.target.size == 0 {
            return Some(MemberStep::Quiet);
        }
        if let Some(why) = self.workload.predecessor() {
            return Some(wait(why, SOON));
        }
        let claims = self.workload.claims.iter().filter(|(_, claims)| !claims.is_empty());
        let Some(highest) = claims.map(|(ordinal, _)| *ordinal).max() else {
            let roles = Roles { primary: self.pod(0), epoch: 1, acks: 0, data: String::new() };
            return Some(self.written(roles).unwrap_or(MemberStep::Scale(1)));
        };
        if !self.target.adopt_claims {
            let why = format!(
                "claims of {} already exist: adopt them (volumes.onOrphan: Adopt) or delete them",
                self.workload.name
            );
            return Some(stop("OrphanedVolumes", why));
        }
        // No member is allowed to create data.
        let roles = Roles { primary: String::new(), epoch: 1, acks: 1, data: "unknown".into() };
        Some(self.written(roles).unwrap_or(MemberStep::Scale(highest + 1)))
    }

    /// The first answer with data. From now on, no other member is allowed to create data.
    fn first_answer(&self) -> Step {
        if self.latch.bootstrapped {
            return None;
        }
        if let Some(step) = self.remembered() {
            return Some(step);
        }
        let silent = |k: &u32| self.answer(*k).is_none();
        let created = matches!(&self.observed.roles, Ok(Some(roles)) if !roles.primary.is_empty());
        if created {
            let Some(data) = self.answer(0).and_then(|answer| answer.data.clone()) else {
                return Some(self.broken_pod().unwrap_or_else(|| wait(self.first_answer_of(0), SOON)));
            };
            let held = Latched { ordinal: Some(0), epoch: 1, ..Latched::default() };
            return Some(self.begun(data, held));
        }
        if let Err(why) = &self.observed.roles {
            return Some(wait(why.clone(), LATER));
        }
        if self.observed.roles == Ok(None) && self.workload.replicas == 1 && !self.target.adopt_claims {
            let roles = Roles { primary: self.pod(0), epoch: 1, acks: 0, data: String::new() };
            return self.written(roles);
        }
        // Adopted claims: one of the members has every acknowledged write, but it is unknown which one.
        if let Some(k) = (0..self.workload.replicas).find(silent) {
            return Some(self.broken_pod().unwrap_or_else(|| wait(self.first_answer_of(k), SOON)));
        }
        let with_data = self.observed.answers.iter().filter(|(_, answer)| answer.data.is_some());
        let ackers: BTreeSet<u32> = with_data.clone().map(|(k, _)| *k).collect();
        let data = with_data.clone().find_map(|(_, answer)| answer.data.clone());
        let Some(data) = data else {
            let why = "no member has data that its agent knows: delete the claims, or restore a backup".to_owned();
            return Some(stop("DataLost", why));
        };
        let epoch = with_data.map(|(_, answer)| answer.epoch).max().unwrap_or_default() + 1;
        let why = "the volumes of an earlier cluster were adopted".to_owned();
        let change = PrimaryChange { kind: ChangeKind::FailOver, from: None, to: None, since: self.now, why };
        // A primary is killed when it is fenced, and loses nothing.
        let received = |k: &u32| self.answer(*k).filter(|answer| answer.role != Role::Primary);
        let starts = ackers.iter().filter_map(|k| Some((*k, received(k)?.start.clone()))).collect();
        Some(self.begun(data, Latched { epoch, ackers, acks: 1, starts, change: Some(change), ..Latched::default() }))
    }

    /// The status was lost, and the `ConfigMap` still names the primary: it was written before each order, so no member
    /// has obeyed another primary. The members that acknowledge are unknown, and are found again.
    fn remembered(&self) -> Step {
        let Ok(Some(roles)) = &self.observed.roles else { return None };
        let digits = roles.primary.strip_prefix(&*self.workload.name)?.strip_prefix('-')?;
        let ordinal = digits.parse().ok().filter(|k| self.pod(*k) == roles.primary && !roles.data.is_empty())?;
        // An order from before may still be on its way.
        let number = self.highest_number(roles.epoch) + 1;
        let left = (0..self.workload.replicas).filter(|k| *k != ordinal).map(|k| (k, number)).collect();
        let held = Latched { ordinal: Some(ordinal), epoch: roles.epoch, number, left, ..Latched::default() };
        Some(self.begun(roles.data.clone(), held))
    }

    fn begun(&self, data: String, held: Latched) -> PrimaryStep {
        MemberStep::Latch(PrimaryLatch {
            bootstrapped: true,
            replicas: Some(self.workload.replicas),
            cluster: Some(data),
            own: PrimaryFacts::of(held),
            ..self.latch.clone()
        })
    }

    fn first_answer_of(&self, ordinal: u32) -> String {
        let problem = self.answer(ordinal).and_then(|answer| answer.problem.clone());
        let problem = problem.map_or_else(|| self.reason(ordinal), |problem| format!(" ({problem})"));
        format!("the first answer of {}{problem}", self.pod(ordinal))
    }

    /// Another operator gave orders, or there are two clusters.
    fn split_brain(&self) -> Step {
        let ours = self.data();
        for (ordinal, answer) in &self.observed.answers {
            let pod = self.pod(*ordinal);
            if answer.data.as_deref().is_some_and(|data| data != ours) {
                let why = format!(
                    "{pod} has data of another cluster: the operator changes nothing until it is gone (delete its \
                     claim and its pod)"
                );
                return Some(stop("SplitBrain", why));
            }
            if answer.epoch > self.held.epoch {
                let why = format!(
                    "{pod} obeys epoch {}, and the last one here is {}: another operator gives orders to these members",
                    answer.epoch, self.held.epoch
                );
                return Some(stop("SplitBrain", why));
            }
        }
        None
    }

    /// A member has obeyed an order of this epoch with a higher number: it was given before the status was lost. The
    /// orders from here have to be newer.
    fn higher_number(&self) -> Step {
        let highest = self.highest_number(self.held.epoch);
        if highest <= self.held.number {
            return None;
        }
        let mut held = Latched { number: highest + 1, ..self.held.clone() };
        held.left.values_mut().for_each(|number| *number = held.number);
        Some(self.latched(held))
    }

    /// The highest number of an order of an epoch that a member has obeyed.
    fn highest_number(&self, epoch: u64) -> u64 {
        let of_epoch = self.observed.answers.values().filter(|answer| answer.epoch == epoch);
        of_epoch.filter_map(|answer| answer.number).max().unwrap_or_default()
    }

    /// The members sleep, or wake.
    fn asleep(&self) -> Step {
        sleeping(self.workload, self.target, self.latch)
    }

    /// The members are to fall asleep. The primary continues when they wake, without a fail-over: its `start` is forgotten, so that it may
    /// start again.
    fn falls_asleep(&self) -> Step {
        if self.latch.asleep.is_some() || !falls_asleep(self.workload, self.target) {
            return None;
        }
        let mut held = Latched { number: self.held.number + 1, ..self.held.clone() };
        held.starts.retain(|k, _| Some(*k) != self.held.ordinal);
        Some(MemberStep::Latch(PrimaryLatch {
            own: PrimaryFacts::of(held),
            ..falling_asleep(self.workload, self.latch)
        }))
    }

    /// The primary takes no more writes.
    fn ends_writes(&self) -> Step {
        if !falls_asleep(self.workload, self.target) {
            return None;
        }
        let (p, _) = self.primary().filter(|(_, answer)| answer.role == Role::Primary)?;
        Some(self.demote(p))
    }

    /// All pods end.
    fn stops(&self) -> Step {
        falls_asleep(self.workload, self.target).then_some(MemberStep::Scale(0))
    }

    /// Another client lowered the replicas.
    fn scaled_by_hand(&self) -> Step {
        let last = self.latch.replicas.filter(|_| self.target.mode == Mode::Run)?;
        (self.workload.replicas < last || self.workload.start > 0).then_some(MemberStep::Scale(last))
    }

    /// A member takes writes and is not the primary, or no longer is.
    fn second_writer(&self) -> Step {
        let foreign = |(k, answer): &(&u32, &MemberState)| answer.writable && self.held.ordinal != Some(**k);
        let (ordinal, _) = self.observed.answers.iter().find(foreign)?;
        Some(self.fence(*ordinal))
    }

    /// The `ConfigMap` that pods read when their containers start. It is written before an order that needs it.
    fn roles(&self) -> Step {
        let is_lost = matches!(&self.held.change, Some(change) if change.kind == ChangeKind::FailOver);
        let primary = self.held.ordinal.filter(|_| !is_lost).map(|k| self.pod(k)).unwrap_or_default();
        let roles = Roles { primary, epoch: self.held.epoch, acks: self.held.acks, data: self.data().to_owned() };
        self.written(roles)
    }

    /// The primary gets its orders: the number of acknowledgements that a commit waits for, and the members that can
    /// follow.
    fn promote(&self) -> Step {
        let (p, answer) = self.primary()?;
        let (acks, admitted) = (self.asked_acks(), self.admitted());
        let given: BTreeSet<&str> = answer.admitted.iter().map(String::as_str).collect();
        let wanted: BTreeSet<&str> = admitted.iter().map(String::as_str).collect();
        // An agent that is older than numbers is judged by its epoch, as before there were numbers.
        let is_of_now =
            answer.epoch == self.held.epoch && answer.number.is_none_or(|number| number == self.held.number);
        if answer.role == Role::Primary && is_of_now {
            if answer.acks == acks && given == wanted {
                return None;
            }
            // The chart asks for more. An order of the same number that asks for less may be on its way, and must not
            // come later.
            if answer.acks < acks && answer.number.is_some() {
                return Some(self.latched(Latched { number: self.held.number + 1, ..self.held.clone() }));
            }
        }
        let (epoch, number) = (self.held.epoch, self.number_for(p));
        let order = Promote { epoch, number, data: self.data().to_owned(), acks, admitted };
        Some(MemberStep::Act(PrimaryAction::Tell { ordinal: p, verb: Verb::Promote(order) }))
    }

    /// The acknowledgements that the primary is asked to wait for. More than are latched: they count as soon as
    /// everything has them. Fewer are latched first.
    fn asked_acks(&self) -> u32 {
        self.asked_acks_of(self.held)
    }

    fn asked_acks_of(&self, held: &Latched) -> u32 {
        let staying = count(&held.ackers).saturating_sub(u32::from(held.leaving.is_some()));
        self.settings.acks.min(staying).max(held.acks)
    }

    /// The names of the members that may follow: those of N, and those that are known not to acknowledge. A member that
    /// was taken out of N while it was silent would acknowledge as soon as it connects.
    fn admitted(&self) -> Vec<String> {
        let leaving = self.held.leaving.as_ref().map(|leaving| leaving.ordinal);
        let harmless = |k: u32| self.answer(k).is_some_and(|answer| !answer.acknowledges && self.has_left(k, answer));
        let may = |k: &u32| {
            let other = Some(*k) != self.held.ordinal && Some(*k) != leaving;
            other && (self.held.ackers.contains(k) || harmless(*k))
        };
        (0..self.workload.replicas).filter(may).map(|k| self.pod(k)).collect()
    }

    /// The primary and its answer.
    fn primary(&self) -> Option<(u32, &MemberState)> {
        let p = self.held.ordinal?;
        Some((p, self.answer(p)?))
    }

    /// The identity of the cluster's data.
    fn data(&self) -> &str {
        self.latch.cluster.as_deref().unwrap_or_default()
    }

    fn answer(&self, ordinal: u32) -> Option<&MemberState> {
        self.observed.answers.get(&ordinal).filter(|answer| !answer.hangs)
    }

    /// Whether a member has the cluster's data, and still everything that it has acknowledged.
    fn heard(&self, ordinal: u32) -> Option<&MemberState> {
        let answer = self.answer(ordinal).filter(|answer| answer.data.as_deref() == Some(self.data()))?;
        let start = self.held.starts.get(&ordinal);
        start.is_none_or(|start| answer.keeps_since(start)).then_some(answer)
    }

    /// Whether a member follows the primary in this epoch, receives and applies.
    fn follows(&self, ordinal: u32) -> Option<&MemberState> {
        let source = self.held.ordinal.map(|p| self.settings.agent_url.host(p))?;
        self.answer(ordinal).filter(|answer| {
            answer.data.as_deref() == Some(self.data())
                && answer.role == Role::Replica
                && answer.epoch == self.held.epoch
                && answer.source.as_deref() == Some(&*source)
                && answer.receiving
                && !answer.diverged
        })
    }

    /// Whether a member receives from the primary, and may acknowledge the writes that it receives.
    fn acknowledges(&self, ordinal: u32) -> bool {
        self.follows(ordinal).is_some_and(|answer| answer.acknowledges)
    }

    /// Whether a replica lags little.
    fn is_near(&self, answer: &MemberState) -> bool {
        answer.applying && answer.lag.is_some_and(|lag| lag <= self.settings.lag)
    }

    /// Whether a member refused an order a short while ago.
    fn refuses(&self, ordinal: u32, verb: &'static str) -> bool {
        self.observed.refused.contains_key(&(ordinal, verb))
    }

    fn fence(&self, ordinal: u32) -> PrimaryStep {
        let (epoch, number) = (self.held.epoch, self.number_for(ordinal));
        let order = Order { epoch, number, data: self.data().to_owned() };
        MemberStep::Act(PrimaryAction::Tell { ordinal, verb: Verb::Fence(order) })
    }

    /// Whether a member refuses each order that would let it acknowledge since it is not in N: those of earlier epochs,
    /// and those from before it was taken out.
    fn has_left(&self, k: u32, answer: &MemberState) -> bool {
        let number = self.held.left.get(&k).copied().unwrap_or_default();
        answer.epoch == self.held.epoch && answer.number.is_none_or(|own| own >= number)
    }

    /// The number of an order to a member. An agent that is older than numbers refuses orders that have one.
    fn number_for(&self, k: u32) -> Option<u64> {
        let is_older = self.observed.answers.get(&k).is_some_and(|answer| answer.number.is_none());
        (!is_older).then_some(self.held.number)
    }

    /// Latches this of the cluster.
    fn latched(&self, held: Latched) -> PrimaryStep {
        MemberStep::Latch(PrimaryLatch { own: PrimaryFacts::of(self.numbered(held)), ..self.latch.clone() })
    }

    /// Gives a decision that takes something back a number of its own: an order from before it may be on its way, and
    /// must not be obeyed after those from here. A decision that adds a right needs none: an older order only lacks it.
    fn numbered(&self, mut held: Latched) -> Latched {
        let old = self.held;
        let leaves = |held: &Latched| held.leaving.as_ref().map(|leaving| leaving.ordinal);
        let begins = leaves(&held).filter(|k| leaves(old) != Some(*k));
        let takes_back = begins.is_some()
            || (held.ordinal, held.epoch, held.change.is_some()) != (old.ordinal, old.epoch, old.change.is_some())
            || self.asked_acks_of(&held) != self.asked_acks();
        if takes_back {
            held.number = old.number + 1;
        }
        if held.epoch != old.epoch {
            held.left.clear();
        }
        let leaving = leaves(&held);
        let is_over = |k: u32| held.ackers.contains(&k) || self.answer(k).is_some_and(|a| self.has_left(k, a));
        held.left.retain(|k, _| leaving == Some(*k) || !is_over(*k));
        held.left.extend(begins.map(|k| (k, held.number)));
        held.requested = held
            .requested
            .map(|request| self.followed(request, held.change.as_ref(), held.ordinal, held.last.as_ref()));
        held
    }

    /// Writes the `ConfigMap` unless it has this content already.
    fn written(&self, roles: Roles) -> Step {
        match &self.observed.roles {
            Err(why) => Some(wait(why.clone(), LATER)),
            Ok(Some(given)) if *given == roles => None,
            Ok(_) => Some(MemberStep::Act(PrimaryAction::WriteRoles(roles))),
        }
    }

    fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.workload.name)
    }

    fn pods(&self, ordinals: impl IntoIterator<Item = u32>) -> String {
        let names: Vec<_> = ordinals.into_iter().map(|k| format!("{}{}", self.pod(k), self.reason(k))).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    }

    /// Why a pod is not ready, in brackets.
    fn reason(&self, ordinal: u32) -> String {
        match self.workload.pods.get(&ordinal) {
            None => " (the pod does not exist)".into(),
            Some(pod) if !pod.reason.is_empty() => format!(" ({})", pod.reason),
            Some(_) => {
                let hangs = self.observed.answers.get(&ordinal).filter(|answer| answer.hangs);
                let why =
                    hangs.and_then(|answer| answer.problem.as_ref()).or_else(|| self.observed.silent.get(&ordinal));
                why.map_or_else(String::new, |why| format!(" ({why})"))
            }
        }
    }
}

fn wait(why: String, after: Duration) -> PrimaryStep {
    MemberStep::Wait { why, after }
}

fn stop(reason: &'static str, why: String) -> PrimaryStep {
    MemberStep::Stop { reason, why }
}

fn count(set: &BTreeSet<u32>) -> u32 {
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}
