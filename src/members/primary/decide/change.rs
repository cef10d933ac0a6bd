//! docs/design/primary.md: the primary is lost or hands over, and another member becomes the primary.

use std::collections::{BTreeMap, BTreeSet};

use super::follow::FOLLOW;
use super::{SOON, Scene, Step, count, stop, wait};
use crate::agent::contract::{Demote, MemberState, Role, Verb};
use crate::members::driver::MemberStep;
use crate::members::primary::state::{
    ChangeKind, Latched, PrimaryAction, PrimaryChange, PrimaryFacts, PrimaryLatch, PrimaryStep, Request, RequestResult,
};
use crate::members::workload::{Mode, Pod};

/// How long a primary may take to hand over, in milliseconds.
const DEMOTION: u64 = 10_000;
/// Seconds after which a switch-over is given up.
const PATIENCE: i64 = 30;
/// Characters of a request that are read.
const MAX_REQUEST: usize = 64;
/// Seconds after which a switch-over is tried again.
const AGAIN: i64 = 300;

/// A switch-over that is latched.
struct SwitchOver<'a> {
    change: &'a PrimaryChange,
    /// The primary.
    p: u32,
    answer: &'a MemberState,
    /// The target.
    to: u32,
}

impl Scene<'_> {
    /// The primary has ended, or started again. Its last commits may not have been acknowledged, so another member
    /// takes over. If none can, the primary continues: it has all acknowledged writes itself.
    pub(super) fn restarted(&self) -> Step {
        let (p, answer) = self.primary()?;
        let ran = self.held.starts.get(&p)?;
        if *ran == answer.start && answer.data.is_some() {
            return None;
        }
        let why = match answer.data {
            None => format!("{} lost its data", self.pod(p)),
            Some(_) if answer.start.is_empty() => format!("the database of {} has ended", self.pod(p)),
            Some(_) => format!("{} has started again", self.pod(p)),
        };
        if self.can_fail_over() {
            return Some(self.fail_over(p, why));
        }
        if answer.data.is_none() {
            return Some(self.unsafe_to_fail_over(p, &why));
        }
        // It continues as the primary. An acker that has started as well is heard from now on.
        Some(self.latched(self.alone(p)))
    }

    /// The primary does not answer. If a replica still receives from it, only the way from here to it is cut.
    pub(super) fn silent(&self) -> Step {
        let p = self.held.ordinal?;
        if self.answer(p).is_some() {
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
        let step = self.starts_again(p).or_else(|| self.broken_pod());
        Some(step.unwrap_or_else(|| self.unsafe_to_fail_over(p, &why)))
    }

    /// The database of an earlier primary hangs, and its agent starts it again without anybody's help.
    fn starts_again(&self, p: u32) -> Step {
        let hangs = self.observed.answers.get(&p).filter(|answer| answer.hangs && answer.restarts_in.is_some());
        hangs.map(|_| wait(format!("the database of {}, which hangs{}", self.pod(p), self.reason(p)), SOON))
    }

    /// The database of the primary was ordered to start, and does not. After as long as a member may be silent, the
    /// primary counts as lost.
    pub(super) fn does_not_start(&self) -> Step {
        let (p, answer) = self.primary()?;
        let was_ordered = answer.problem.is_some() && answer.start.is_empty() && answer.role == Role::Primary;
        was_ordered.then(|| self.not_started(p, answer))
    }

    fn not_started(&self, p: u32, answer: &MemberState) -> PrimaryStep {
        let Some(since) = self.latch.since.get(&p) else {
            return self.noted(p, Some(self.now)).unwrap_or(MemberStep::Quiet);
        };
        let problem = answer.problem.as_deref().unwrap_or_default();
        let late = self.now - since;
        if late < self.settings.silent_after {
            return wait(format!("the database of {} ({problem})", self.pod(p)), SOON);
        }
        let why = format!("the database of {} has not started for {late} seconds ({problem})", self.pod(p));
        if self.can_fail_over() {
            return self.fail_over(p, why);
        }
        self.broken_pod().unwrap_or_else(|| self.unsafe_to_fail_over(p, &why))
    }

    /// Notes since when a member is silent.
    pub(super) fn noted(&self, ordinal: u32, since: Option<i64>) -> Step {
        let mut all = self.latch.since.clone();
        match since {
            Some(at) => all.insert(ordinal, at),
            None => all.remove(&ordinal),
        };
        (all != self.latch.since).then(|| MemberStep::Latch(PrimaryLatch { since: all, ..self.latch.clone() }))
    }

    /// R + W > |N|, where R counts the ackers that are heard.
    fn can_fail_over(&self) -> bool {
        self.accepted().is_some() || (self.held.acks > 0 && self.is_enough(self.heard_ackers().len()))
    }

    /// The message if the primary were lost now.
    pub(super) fn safety(&self) -> Result<(), String> {
        if self.held.acks == 0 {
            return Err("no other member acknowledges writes".to_owned());
        }
        if self.is_enough(self.heard_ackers().len()) { Ok(()) } else { Err(self.to_be_heard()) }
    }

    fn to_be_heard(&self) -> String {
        let missing = self.held.ackers.iter().copied().filter(|k| self.heard(*k).is_none());
        format!("these members have to answer first: {}", self.pods(missing))
    }

    fn is_enough(&self, heard: usize) -> bool {
        heard + self.held.acks as usize > self.held.ackers.len()
    }

    fn heard_ackers(&self) -> Vec<(u32, &MemberState)> {
        self.held.ackers.iter().filter_map(|k| Some((*k, self.heard(*k)?))).collect()
    }

    fn fail_over(&self, from: u32, why: String) -> PrimaryStep {
        let change = PrimaryChange { kind: ChangeKind::FailOver, from: Some(from), to: None, since: self.now, why };
        let held = Latched {
            ordinal: None,
            epoch: self.held.epoch + 1,
            change: Some(change),
            leaving: None,
            ..self.held.clone()
        };
        self.latched(held)
    }

    fn unsafe_to_fail_over(&self, p: u32, why: &str) -> PrimaryStep {
        let why = if self.held.acks == 0 {
            format!("{why}, and no other member has acknowledged its writes")
        } else {
            format!("{why}, and {}", self.to_be_heard())
        };
        let pod = self.pod(p);
        let offer = self.offer().map_or_else(String::new, |(k, said)| {
            format!(
                " To continue with {} and lose the writes that only others have, annotate the custom resource with \
                 {}={said}.",
                self.pod(k),
                crate::names::FORCE_NEW_CLUSTER
            )
        });
        stop("FailoverUnsafe", format!("{why}. Bring {pod} or those members back.{offer}"))
    }

    /// The statement by which a person accepts a loss: the epoch and the ordinal that continues.
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

    /// The fail-over that is latched.
    fn failing_over(&self) -> Option<&PrimaryChange> {
        self.held.change.as_ref().filter(|change| change.kind == ChangeKind::FailOver)
    }

    /// The members of N that answer are fenced, and the one with which a person continues.
    pub(super) fn fence_ackers(&self) -> Step {
        self.failing_over()?;
        let heard = self.heard_ackers().into_iter();
        let accepted = self.accepted().and_then(|k| Some((k, self.answer(k)?)));
        let mut all = heard.chain(accepted);
        let (k, _) = all.find(|(_, a)| a.epoch < self.held.epoch || a.role != Role::Fenced)?;
        Some(self.fence(k))
    }

    /// The members; one of them takes over. They are fenced by now.
    fn fenced(&self) -> Vec<(u32, &MemberState)> {
        match self.accepted() {
            Some(k) => self.answer(k).map(|answer| (k, answer)).into_iter().collect(),
            None => self.heard_ackers(),
        }
    }

    /// An acknowledged write may be on none of the fenced members.
    pub(super) fn too_few_fenced(&self) -> Step {
        let change = self.failing_over()?;
        if self.accepted().is_some() || self.is_enough(self.fenced().len()) {
            return None;
        }
        let step = self.go_back(change).or_else(|| self.starts_again(change.from?)).or_else(|| self.broken_pod());
        let from = change.from.unwrap_or_default();
        Some(step.unwrap_or_else(|| self.unsafe_to_fail_over(from, &change.why)))
    }

    /// The fenced member that has received everything that the others have. Ties: a ready pod, and then the lowest
    /// ordinal.
    fn candidate(&self) -> Option<(u32, &MemberState)> {
        let fenced = self.fenced();
        let contains_all = |a: &MemberState| fenced.iter().all(|(_, b)| a.got.contains(&b.got));
        let ready = |k: u32| self.workload.pods.get(&k).is_some_and(Pod::stays_ready);
        fenced.iter().filter(|(_, a)| contains_all(a)).min_by_key(|(k, _)| (!ready(*k), *k)).copied()
    }

    /// Each of the fenced members lacks writes of another.
    pub(super) fn no_candidate(&self) -> Step {
        self.failing_over()?;
        if self.candidate().is_some() {
            return None;
        }
        let fenced = self.fenced();
        if fenced.iter().any(|(_, a)| a.applying && !a.has.contains(&a.got)) {
            return Some(wait("members to apply the writes that they received".into(), SOON));
        }
        let why = format!(
            "{} have writes that the others lack: a person has to decide which of them continues",
            self.pods(fenced.iter().map(|(k, _)| *k))
        );
        Some(stop("Diverged", why))
    }

    /// The candidate applies the writes that it received.
    pub(super) fn candidate_applies(&self) -> Step {
        self.failing_over()?;
        let (c, answer) = self.candidate().filter(|(_, answer)| !answer.has.contains(&answer.got))?;
        let pod = self.pod(c);
        Some(match &answer.problem {
            Some(problem) if !answer.applying => {
                stop("ReplicaBroken", format!("{pod} has the most writes and cannot apply them: {problem}"))
            }
            _ => wait(format!("{pod} to apply the writes that it received"), SOON),
        })
    }

    /// The candidate becomes the primary.
    pub(super) fn candidate_takes_over(&self) -> Step {
        let change = self.failing_over()?;
        let (c, answer) = self.candidate()?;
        let fenced = self.fenced();
        let others = || fenced.iter().filter(|(k, _)| *k != c);
        let ackers: BTreeSet<u32> = others().map(|(k, _)| *k).collect();
        let complete = others().filter(|(_, other)| other.got.contains(&answer.got)).map(|(k, _)| *k).collect();
        let acks = self.held.acks.min(count(&complete));
        Some(self.passed(c, self.held.epoch, ackers, acks, change))
    }

    /// The lost primary is back, and has not started its database yet: it has all acknowledged writes, and continues.
    fn go_back(&self, change: &PrimaryChange) -> Step {
        let from = change.from?;
        let answer = self.answer(from)?;
        let waits = answer.start.is_empty() && answer.data.as_deref() == Some(self.data());
        waits.then(|| self.latched(Latched { change: None, ..self.alone(from) }))
    }

    /// A member continues as the primary. It has all acknowledged writes, and no other member is known to have them.
    /// Ackers that start once more, and those that are silent now, count after they have received everything that it
    /// has.
    fn alone(&self, p: u32) -> Latched {
        let start = |k: &u32| self.answer(*k).map(|answer| answer.start.clone()).unwrap_or_default();
        let starts = self.held.ackers.iter().map(|k| (*k, start(k))).collect();
        Latched { ordinal: Some(p), acks: 0, starts, returning: BTreeMap::new(), ..self.held.clone() }
    }

    fn passed(&self, to: u32, epoch: u64, ackers: BTreeSet<u32>, acks: u32, change: &PrimaryChange) -> PrimaryStep {
        let mut starts = self.held.starts.clone();
        starts.retain(|k, _| ackers.contains(k));
        let last = Some(PrimaryChange { to: Some(to), ..change.clone() });
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
            requested: self.held.requested.clone(),
            not_before: None,
        };
        MemberStep::Latch(PrimaryLatch {
            own: PrimaryFacts::of(self.numbered(held)),
            since: BTreeMap::new(),
            ..self.latch.clone()
        })
    }

    /// A switch-over whose primary is lost is a fail-over: the rows of a lost primary decide.
    pub(super) fn lost_in_a_switch_over(&self) -> Step {
        self.held.change.as_ref().filter(|change| change.kind == ChangeKind::SwitchOver)?;
        self.restarted().or_else(|| self.answer(self.held.ordinal?).is_none().then(|| self.silent())?)
    }

    /// The switch-over that is latched, while its primary answers.
    fn switching_over(&self) -> Option<SwitchOver<'_>> {
        let change = self.held.change.as_ref().filter(|change| change.kind == ChangeKind::SwitchOver)?;
        let (p, answer) = self.primary()?;
        Some(SwitchOver { change, p, answer, to: change.to? })
    }

    /// A switch-over is given up, and the primary continues.
    pub(super) fn switch_over_fails(&self) -> Step {
        let SwitchOver { change, answer, to, .. } = self.switching_over()?;
        let follows = self.follows(to).filter(|target| target.applying || target.has == target.got);
        let why = match follows {
            _ if self.now - change.since > PATIENCE => "it took too long".to_owned(),
            None => format!("{} does not follow", self.pod(to)),
            Some(target) if answer.role == Role::Primary && !self.is_near(target) => format!("{} lags", self.pod(to)),
            Some(_) => return None,
        };
        let last = Some(PrimaryChange { to: None, why: format!("{}, given up: {why}", change.why), ..change.clone() });
        let not_before = Some(self.now + AGAIN);
        Some(self.latched(Latched { change: None, last, not_before, ..self.held.clone() }))
    }

    /// The primary takes no more writes.
    pub(super) fn primary_hands_over(&self) -> Step {
        let SwitchOver { p, .. } = self.switching_over().filter(|over| over.answer.role == Role::Primary)?;
        Some(self.demote(p))
    }

    /// The order that ends the writes of the primary.
    pub(super) fn demote(&self, p: u32) -> PrimaryStep {
        let (epoch, number) = (self.held.epoch, self.number_for(p));
        let order = Demote { epoch, number, data: self.data().to_owned(), within: DEMOTION };
        MemberStep::Act(PrimaryAction::Tell { ordinal: p, verb: Verb::Demote(order) })
    }

    /// The target applies everything.
    pub(super) fn target_applies(&self) -> Step {
        let SwitchOver { answer, to, .. } = self.switching_over()?;
        let lacks = !self.follows(to)?.has.contains(&answer.has);
        lacks.then(|| wait(format!("{} to apply everything", self.pod(to)), SOON))
    }

    /// The target becomes the primary.
    pub(super) fn target_takes_over(&self) -> Step {
        let SwitchOver { change, p, answer, to } = self.switching_over()?;
        let mut ackers = self.held.ackers.clone();
        ackers.remove(&to);
        // It has everything, and follows at once: there is no time without an acknowledgement.
        ackers.insert(p);
        // The others may lack something. It has everything.
        let acks = self.held.acks.min(1);
        let step = self.passed(to, self.held.epoch + 1, ackers, acks, change);
        let MemberStep::Latch(mut latch) = step else { return Some(step) };
        if let Some(held) = &mut latch.own.primary {
            held.starts.insert(p, answer.start.clone());
        }
        Some(MemberStep::Latch(latch))
    }

    /// Begins a switch-over, to the acker that lags least.
    pub(super) fn switch_over(&self, why: String) -> Step {
        if self.held.not_before.is_some_and(|at| self.now < at) {
            return None;
        }
        let candidates = self.held.ackers.iter().filter_map(|k| Some((self.can_take_over(*k).ok()?, *k)));
        let (_, to) = candidates.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        Some(self.latched(Latched { change: Some(self.handing_over(to, why)), ..self.held.clone() }))
    }

    fn handing_over(&self, to: u32, why: String) -> PrimaryChange {
        PrimaryChange { kind: ChangeKind::SwitchOver, from: self.held.ordinal, to: Some(to), since: self.now, why }
    }

    /// Whether a member can take over from a primary that is well, if it acknowledges: how far it lags behind. The
    /// error says why not.
    fn can_take_over(&self, k: u32) -> Result<f64, String> {
        let pod = self.pod(k);
        if k >= self.workload.replicas.min(self.target.size) {
            return Err(format!("the member {pod} does not exist, or it leaves"));
        }
        let Some(answer) = self.follows(k) else {
            return Err(format!("{pod} does not follow the primary{}", self.reason(k)));
        };
        if !self.is_near(answer) {
            return Err(format!(
                "{pod} lags more than {} seconds, or does not apply the writes that it receives",
                self.settings.lag
            ));
        }
        if !self.workload.pods.get(&k).is_some_and(Pod::stays_ready) {
            return Err(format!("{pod} is not ready{}", self.reason(k)));
        }
        Ok(answer.lag.unwrap_or_default())
    }

    /// Somebody asks for a switch-over. It begins now, or is refused with the reason. Each text is done once.
    pub(super) fn requested_switch_over(&self) -> Step {
        let text: String = self.target.switch_over.as_deref()?.chars().take(MAX_REQUEST).collect();
        let is_done = self.held.requested.as_ref().is_some_and(|request| request.text == text);
        if is_done || text.is_empty() || self.target.mode != Mode::Run {
            return None;
        }
        let (p, primary) = self.primary()?;
        let chosen = self.requested(&text, p);
        let over = |result, why| Some(Request { text: text.clone(), result, why });
        let mut held = self.held.clone();
        match chosen {
            Ok(k) if k == p => held.requested = over(RequestResult::Succeeded, None),
            Ok(_) if primary.role != Role::Primary || !primary.writable || self.held.leaving.is_some() => return None,
            Ok(k) if !self.held.ackers.contains(&k) => return self.admit(k),
            Ok(k) if !self.acknowledges(k) => return None,
            Ok(k) => {
                held.change = Some(self.handing_over(k, format!("it was requested ({text})")));
                held.requested = over(RequestResult::Started, None);
            }
            Err(why) => held.requested = over(RequestResult::Refused, Some(why)),
        }
        Some(self.latched(held))
    }

    /// The member that a request asks for.
    fn requested(&self, text: &str, p: u32) -> Result<u32, String> {
        let wanted = text.split_once('@').map_or(text, |(wanted, _)| wanted);
        if !text.chars().all(|c| c.is_ascii_graphic()) || text.chars().count() == MAX_REQUEST {
            return Err(format!("the request must have fewer than {MAX_REQUEST} characters of ASCII without spaces"));
        }
        if wanted == "any" {
            let members = (0..self.workload.replicas).filter(|k| *k != p);
            let able = members.clone().filter_map(|k| Some((!self.acknowledges(k), self.can_take_over(k).ok()?, k)));
            let best = able.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
            let why = || members.filter_map(|k| self.can_take_over(k).err()).collect::<Vec<_>>().join("; ");
            return best.map(|(_, _, k)| k).ok_or_else(|| {
                let why = why();
                if why.is_empty() { "there is no replica".to_owned() } else { why }
            });
        }
        let ordinal = wanted.parse().ok().filter(|k: &u32| k.to_string() == wanted);
        let Some(k) = ordinal else {
            return Err("the request must be the ordinal of a member or `any`, with or without @TEXT".to_owned());
        };
        if k == p {
            return Ok(k);
        }
        self.can_take_over(k)?;
        // It was asked to acknowledge, and does not.
        let late = self.latch.since.get(&k).is_some_and(|since| self.now - since >= self.settings.silent_after);
        if !self.acknowledges(k) && (late || self.refuses(k, FOLLOW)) {
            return Err(format!("{} does not acknowledge writes", self.pod(k)));
        }
        Ok(k)
    }

    /// A member that is to take over acknowledges first. If N has all the members that it may have, the one that lags
    /// most leaves.
    fn admit(&self, k: u32) -> Step {
        if self.has_room() {
            return Some(self.latched(self.with_acker(k)));
        }
        let lag = |k: u32| self.follows(k).and_then(|answer| answer.lag).unwrap_or(f64::MAX);
        let ackers = self.held.ackers.iter().copied();
        self.shrink(ackers.max_by(|a, b| lag(*a).total_cmp(&lag(*b)).then(a.cmp(b)))?)
    }

    /// The result of a request whose switch-over was under way.
    pub(super) fn followed(
        &self,
        request: Request,
        change: Option<&PrimaryChange>,
        ordinal: Option<u32>,
        last: Option<&PrimaryChange>,
    ) -> Request {
        let under_way = self.held.change.as_ref().filter(|_| request.result == RequestResult::Started);
        let Some(begun) = under_way.filter(|begun| change != Some(*begun)) else { return request };
        if change.is_none() && ordinal == begun.to {
            return Request { result: RequestResult::Succeeded, ..request };
        }
        let why = change.or(last).map(|change| change.why.clone());
        Request { result: RequestResult::GivenUp, why, ..request }
    }
}
