//! docs/primary.md: the primary is lost or hands over, and another member becomes the primary.

use std::collections::{BTreeMap, BTreeSet};

use super::{SOON, Scene, Step, count, stop, wait};
use crate::agent::contract::{Demote, Role, State, Verb};
use crate::members::driver::MemberStep;
use crate::members::primary::state::{Action, Change, ChangeKind, Latched};
use crate::members::workload::{Latch, Pod};

/// How long a primary may take to hand over, in milliseconds.
const DEMOTION: u64 = 10_000;
/// Seconds after which a switch-over is given up.
const PATIENCE: i64 = 30;
/// Seconds after which a switch-over is tried again.
const AGAIN: i64 = 300;

impl Scene<'_> {
    /// Row 6: the primary has started again. Its last commits may not have been acknowledged, so another member takes over. If none
    /// can, the primary goes on: it has all acknowledged writes itself.
    pub(super) fn row_6_restarted(&self) -> Step {
        let (p, answer) = self.primary()?;
        let ran = self.held.starts.get(&p)?;
        if *ran == answer.start && answer.data.is_some() {
            return None;
        }
        let why = match answer.data {
            None => format!("{} lost its data", self.pod(p)),
            Some(_) => format!("{} has started again", self.pod(p)),
        };
        if self.can_fail_over() {
            return Some(self.fail_over(p, why));
        }
        if answer.data.is_none() {
            return Some(self.unsafe_to_fail_over(p, &why));
        }
        // It goes on as the primary. An acker that has started as well is heard from now on.
        Some(self.latched(self.alone(p)))
    }

    /// Rows 7 and 8: the primary does not answer. If a replica still receives from it, only the way from here to it is cut.
    pub(super) fn row_7_silent(&self) -> Step {
        let p = self.held.ordinal?;
        if let Some(answer) = self.answer(p) {
            if answer.problem.is_some() && answer.start.is_empty() && answer.role == Role::Primary {
                return Some(wait(format!("the database of {}{}", self.pod(p), self.reason(p)), SOON));
            }
            return self.noted(p, None);
        }
        let receives = self.held.ackers.iter().find(|k| self.follows(**k).is_some());
        if let Some(k) = receives {
            let why = format!("the agent of {}, from which {} receives{}", self.pod(p), self.pod(*k), self.reason(p));
            return Some(wait(why, SOON));
        }
        let Some(since) = self.latch.since.get(&p) else {
            return self.noted(p, Some(self.now));
        };
        if self.now - since < self.settings.lost_after {
            return Some(wait(format!("an answer of the primary {}{}", self.pod(p), self.reason(p)), SOON));
        }
        let why = format!("{} has not answered for {} seconds", self.pod(p), self.now - since);
        if self.can_fail_over() {
            return Some(self.fail_over(p, why));
        }
        Some(self.broken_pod().unwrap_or_else(|| self.unsafe_to_fail_over(p, &why)))
    }

    /// Notes since when a member is silent.
    pub(super) fn noted(&self, ordinal: u32, since: Option<i64>) -> Step {
        let mut all = self.latch.since.clone();
        match since {
            Some(at) => all.insert(ordinal, at),
            None => all.remove(&ordinal),
        };
        (all != self.latch.since).then(|| MemberStep::Latch(Latch { since: all, ..self.latch.clone() }))
    }

    /// Row 8: R + W > |N|, where R counts the ackers that are heard.
    fn can_fail_over(&self) -> bool {
        self.accepted().is_some() || (self.held.acks > 0 && self.is_enough(self.heard_ackers().len()))
    }

    /// What would be said if the primary were lost now.
    pub(super) fn safety(&self) -> Result<(), String> {
        if self.held.acks == 0 {
            return Err("no other member acknowledges writes".to_owned());
        }
        if self.is_enough(self.heard_ackers().len()) { Ok(()) } else { Err(self.to_be_heard()) }
    }

    fn to_be_heard(&self) -> String {
        let missing = self.held.ackers.iter().copied().filter(|k| self.heard(*k).is_none());
        format!("these members have to be heard first: {}", self.pods(missing))
    }

    fn is_enough(&self, heard: usize) -> bool {
        heard + self.held.acks as usize > self.held.ackers.len()
    }

    fn heard_ackers(&self) -> Vec<(u32, &State)> {
        self.held.ackers.iter().filter_map(|k| Some((*k, self.heard(*k)?))).collect()
    }

    fn fail_over(&self, from: u32, why: String) -> MemberStep<Action> {
        let change = Change { kind: ChangeKind::FailOver, from: Some(from), to: None, since: self.now, why };
        let held = Latched {
            ordinal: None,
            epoch: self.held.epoch + 1,
            change: Some(change),
            leaving: None,
            ..self.held.clone()
        };
        self.latched(held)
    }

    fn unsafe_to_fail_over(&self, p: u32, why: &str) -> MemberStep<Action> {
        let why = if self.held.acks == 0 {
            format!("{why}, and no other member has acknowledged its writes")
        } else {
            format!("{why}, and {}", self.to_be_heard())
        };
        let pod = self.pod(p);
        let offer = self.offer().map_or_else(String::new, |(k, said)| {
            format!(
                " To go on with {} and lose what only others have, annotate the custom resource with {}={said}.",
                self.pod(k),
                crate::names::FORCE_NEW_CLUSTER
            )
        });
        stop("FailoverUnsafe", format!("{why}. Bring {pod} or them back.{offer}"))
    }

    /// The statement by which a person accepts a loss: the epoch and the ordinal that goes on.
    fn offer(&self) -> Option<(u32, String)> {
        let answers = self
            .observed
            .answers
            .iter()
            .filter(|(k, answer)| Some(**k) != self.held.ordinal && answer.data.as_deref() == Some(self.data()));
        let best = answers.clone().find(|(_, a)| answers.clone().all(|(_, b)| a.got.contains(&b.got)))?;
        Some((*best.0, format!("{}@{}", self.held.epoch, best.0)))
    }

    /// The ordinal that a person chose, if the statement is about this epoch.
    fn accepted(&self) -> Option<u32> {
        let (k, said) = self.offer()?;
        let change = self.held.change.as_ref().map(|_| format!("{}@{k}", self.held.epoch - 1));
        let given = self.target.recover.as_deref()?;
        (given == said || Some(given) == change.as_deref()).then_some(k)
    }

    /// Rows 9 to 12: the ackers are fenced, the one that received most applies all of it, and becomes the primary.
    pub(super) fn rows_9_to_12_fail_over(&self) -> Step {
        let change = self.held.change.as_ref().filter(|change| change.kind == ChangeKind::FailOver)?;
        let heard = self.heard_ackers();
        let unfenced = heard.iter().find(|(_, a)| a.epoch < self.held.epoch || a.role != Role::Fenced);
        if let Some((k, _)) = unfenced {
            return Some(self.fence(*k));
        }
        let accepted = self.accepted();
        if let Some(k) = accepted
            && let Some(answer) = self.answer(k)
            && (answer.epoch < self.held.epoch || answer.role != Role::Fenced)
        {
            return Some(self.fence(k));
        }
        let fenced: Vec<(u32, &State)> = match accepted {
            Some(k) => self.answer(k).map(|answer| (k, answer)).into_iter().collect(),
            None => heard,
        };
        if accepted.is_none() && !self.is_enough(fenced.len()) {
            return Some(self.go_back(change).unwrap_or_else(|| {
                self.broken_pod()
                    .unwrap_or_else(|| self.unsafe_to_fail_over(change.from.unwrap_or_default(), &change.why))
            }));
        }
        // Row 10. Ties: a ready pod, and then the lowest ordinal.
        let contains_all = |a: &State| fenced.iter().all(|(_, b)| a.got.contains(&b.got));
        let ready = |k: u32| self.workload.pods.get(&k).is_some_and(Pod::stays_ready);
        let best = fenced.iter().filter(|(_, a)| contains_all(a)).min_by_key(|(k, _)| (!ready(*k), *k));
        let Some((c, answer)) = best else {
            if fenced.iter().any(|(_, a)| a.applying) {
                return Some(wait("members to apply what they received".into(), SOON));
            }
            let why = format!(
                "{} have writes that the others lack: which of them goes on, a person has to decide",
                self.pods(fenced.iter().map(|(k, _)| *k))
            );
            return Some(stop("Diverged", why));
        };
        // Row 11.
        if !answer.has.contains(&answer.got) {
            let pod = self.pod(*c);
            return Some(match &answer.problem {
                Some(problem) if !answer.applying => {
                    stop("ReplicaBroken", format!("{pod} has the most writes and cannot apply them: {problem}"))
                }
                _ => wait(format!("{pod} to apply what it received"), SOON),
            });
        }
        // Row 12.
        let ackers: BTreeSet<u32> = fenced.iter().map(|(k, _)| *k).filter(|k| k != c).collect();
        let complete =
            fenced.iter().filter(|(k, other)| k != c && other.got.contains(&answer.got)).map(|(k, _)| *k).collect();
        let acks = self.held.acks.min(count(&complete));
        Some(self.passed(*c, self.held.epoch, ackers, acks, change))
    }

    /// The lost primary is back, and has not started its database yet: it has all acknowledged writes, and goes on.
    fn go_back(&self, change: &Change) -> Step {
        let from = change.from?;
        let answer = self.answer(from)?;
        let waits = answer.start.is_empty() && answer.data.as_deref() == Some(self.data());
        waits.then(|| self.latched(Latched { change: None, ..self.alone(from) }))
    }

    /// A member goes on as the primary. It has all acknowledged writes, and nobody else is known to have them.
    fn alone(&self, p: u32) -> Latched {
        let mut held = Latched { ordinal: Some(p), acks: 0, ..self.held.clone() };
        held.starts.clear();
        held.returning.clear();
        held
    }

    fn passed(&self, to: u32, epoch: u64, ackers: BTreeSet<u32>, acks: u32, change: &Change) -> MemberStep<Action> {
        let mut starts = self.held.starts.clone();
        starts.retain(|k, _| ackers.contains(k));
        let last = Some(Change { to: Some(to), ..change.clone() });
        let held = Latched {
            ordinal: Some(to),
            epoch,
            number: self.held.number,
            ackers,
            acks,
            starts,
            returning: BTreeMap::new(),
            left: self.held.left.clone(),
            last,
            change: None,
            leaving: None,
            not_before: None,
        };
        MemberStep::Latch(Latch { primary: Some(self.numbered(held)), since: BTreeMap::new(), ..self.latch.clone() })
    }

    /// A switch-over whose primary is lost is a fail-over: the rows of a lost primary decide.
    pub(super) fn row_lost_in_a_switch_over(&self) -> Step {
        self.held.change.as_ref().filter(|change| change.kind == ChangeKind::SwitchOver)?;
        self.row_6_restarted().or_else(|| self.answer(self.held.ordinal?).is_none().then(|| self.row_7_silent())?)
    }

    /// Row 19: the primary takes no more writes, the target applies everything, and becomes the primary.
    pub(super) fn row_19_switch_over(&self) -> Step {
        let change = self.held.change.as_ref().filter(|change| change.kind == ChangeKind::SwitchOver)?;
        let (p, answer) = self.primary()?;
        let to = change.to?;
        let given_up = |why: &str| {
            let last = Some(Change { to: None, why: format!("{}, given up: {why}", change.why), ..change.clone() });
            let not_before = Some(self.now + AGAIN);
            Some(self.latched(Latched { change: None, last, not_before, ..self.held.clone() }))
        };
        if self.now - change.since > PATIENCE {
            return given_up("it took too long");
        }
        let Some(target) = self.follows(to).filter(|target| target.applying || target.has == target.got) else {
            return given_up(&format!("{} does not follow", self.pod(to)));
        };
        if answer.role == Role::Primary {
            if !self.is_near(target) {
                return given_up(&format!("{} lags", self.pod(to)));
            }
            let order = Demote {
                epoch: self.held.epoch,
                number: self.held.number,
                data: self.data().to_owned(),
                within: DEMOTION,
            };
            return Some(MemberStep::Act(Action::Tell { ordinal: p, verb: Verb::Demote(order) }));
        }
        if !target.has.contains(&answer.has) {
            return Some(wait(format!("{} to apply everything", self.pod(to)), SOON));
        }
        let mut ackers = self.held.ackers.clone();
        ackers.remove(&to);
        // It has everything, and follows at once: there is no time without an acknowledgement.
        ackers.insert(p);
        // The others may lack something. It has everything.
        let acks = self.held.acks.min(1);
        let step = self.passed(to, self.held.epoch + 1, ackers, acks, change);
        let MemberStep::Latch(mut latch) = step else { return Some(step) };
        if let Some(held) = &mut latch.primary {
            held.starts.insert(p, answer.start.clone());
        }
        Some(MemberStep::Latch(latch))
    }

    /// Begins a switch-over, to the acker that lags least.
    pub(super) fn switch_over(&self, why: String) -> Step {
        if self.held.not_before.is_some_and(|at| self.now < at) {
            return None;
        }
        let ready = |k: &u32| self.workload.pods.get(k).is_some_and(Pod::stays_ready);
        let near = |k: &u32| self.follows(*k).filter(|answer| self.is_near(answer)).and_then(|answer| answer.lag);
        let stays = |k: &u32| *k < self.target.size;
        let candidates = self.held.ackers.iter().filter(|k| ready(k) && stays(k)).filter_map(|k| Some((near(k)?, *k)));
        let (_, to) = candidates.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        let change =
            Change { kind: ChangeKind::SwitchOver, from: self.held.ordinal, to: Some(to), since: self.now, why };
        Some(self.latched(Latched { change: Some(change), ..self.held.clone() }))
    }
}
