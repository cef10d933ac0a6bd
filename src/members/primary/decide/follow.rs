//! docs/design/primary.md: replicas follow the primary, acknowledge, and are seeded.

use super::{LATER, SOON, Scene, Step, count, stop, wait};
use crate::agent::contract::{Follow, MemberState, Role, Seed, Verb};
use crate::members::driver::MemberStep;
use crate::members::primary::state::{
    Latched, Leaving, OnDiverged, OnReplicaLost, PrimaryAction, PrimaryLatch, Returning,
};
use crate::members::workload::Pod;

/// The values of the label of a pod.
const PRIMARY: &str = "primary";
const REPLICA: &str = "replica";
/// Names of verbs.
pub(super) const FOLLOW: &str = "follow";
const SEED: &str = "seed";

impl Scene<'_> {
    /// The members other than the primary that answer, in order.
    fn others(&self) -> impl Iterator<Item = (u32, &MemberState)> {
        self.observed.answers.iter().map(|(k, answer)| (*k, answer)).filter(|(k, _)| Some(*k) != self.held.ordinal)
    }

    /// A member has writes that the primary lacks. It follows if it can take them back; the agent says whether it
    /// could. A primary with a problem may have more than it reports.
    pub(super) fn diverged(&self) -> Step {
        let is_sure = |primary: &MemberState| primary.role == Role::Primary && primary.problem.is_none();
        let (_, primary) = self.primary().filter(|(_, primary)| is_sure(primary))?;
        let found = self.others().find(|(_, a)| {
            let has_data = a.data.as_deref() == Some(self.data()) && a.busy.is_none() && !a.start.is_empty();
            has_data && (a.diverged || (a.role == Role::Replica && !a.receiving && !primary.has.contains(&a.has)))
        });
        let (k, answer) = found?;
        if self.held.ackers.contains(&k) {
            return self.shrink(k);
        }
        if self.settings.on_diverged == OnDiverged::Keep || self.refuses(k, SEED) {
            return None;
        }
        self.seeded(k, Some(answer.start.clone()))
    }

    /// A diverged member that is kept as it is. The rows before are for all others.
    pub(super) fn kept(&self, k: u32, answer: &MemberState) -> Step {
        let is_kept = self.settings.on_diverged == OnDiverged::Keep && answer.diverged;
        is_kept.then(|| {
            let why = format!(
                "{} has writes that the primary lacks, and is kept as it is (onDiverged): copy the data that you need, \
                 then delete its claim and its pod",
                self.pod(k)
            );
            stop("Diverged", why)
        })
    }

    /// A member without data has a problem. It may have data that its agent does not know, so nothing is copied over
    /// it.
    pub(super) fn unknown_data(&self, k: u32, answer: &MemberState) -> Step {
        let problem = answer.problem.as_ref().filter(|_| answer.data.is_none() && answer.busy.is_none())?;
        let pod = self.pod(k);
        let why = format!(
            "{pod} has no data of this cluster, and a problem: {problem}. It gets a copy when the problem is solved; \
             or delete its claim and its pod"
        );
        Some(stop("DataUnknown", why))
    }

    /// A member has no data, or lacks writes that the primary can no longer send.
    pub(super) fn seed(&self) -> Step {
        let (_, primary) = self.primary().filter(|(_, primary)| primary.role == Role::Primary)?;
        for (k, answer) in self.others().filter(|(k, a)| *k < self.target.size && a.busy.is_none()) {
            let empty = answer.data.is_none() && answer.problem.is_none();
            let behind = answer.data.is_some()
                && !answer.start.is_empty()
                && !answer.receiving
                && !answer.got.contains(&primary.purged);
            if !empty && !behind {
                continue;
            }
            if self.held.ackers.contains(&k) {
                return self.shrink(k);
            }
            if self.refuses(k, SEED) {
                continue;
            }
            return self.seeded(k, answer.data.is_some().then(|| answer.start.clone()));
        }
        None
    }

    /// Copies the data of the replica that lags least; of the primary if there is none.
    fn seeded(&self, k: u32, discard: Option<String>) -> Step {
        let donors =
            self.others().filter(|(d, a)| *d != k && a.busy.is_none() && self.follows(*d).is_some() && self.is_near(a));
        let lag = |answer: &MemberState| answer.lag.unwrap_or(f64::MAX);
        let donor = donors.min_by(|a, b| lag(a.1).total_cmp(&lag(b.1))).map(|(d, _)| d);
        let (p, primary) = self.primary()?;
        let donor = match donor {
            Some(donor) => donor,
            None if primary.busy.is_some() => {
                return Some(wait(format!("the primary {} to copy its data", self.pod(p)), SOON));
            }
            None => p,
        };
        let order = Seed {
            epoch: self.held.epoch,
            number: self.number_for(k),
            data: self.data().to_owned(),
            donor: self.settings.agent_url.url(donor),
            discard,
        };
        Some(MemberStep::Act(PrimaryAction::Tell { ordinal: k, verb: Verb::Seed(order) }))
    }

    /// Members follow the primary. Those of N acknowledge.
    pub(super) fn follow(&self) -> Step {
        let (p, primary) = self.primary().filter(|(_, primary)| primary.role == Role::Primary)?;
        let leaving = self.held.leaving.as_ref().map(|leaving| leaving.ordinal);
        let admitted = |k: u32| primary.admitted.contains(&self.pod(k));
        let source = self.settings.agent_url.host(p);
        // Writes wait for those of N. The database of an earlier primary may take seconds to start.
        let mut others: Vec<_> = self.others().collect();
        others.sort_by_key(|(k, answer)| (!self.held.ackers.contains(k), answer.start.is_empty(), *k));
        for (k, answer) in others {
            let has_data = answer.data.as_deref() == Some(self.data());
            if !has_data || answer.busy.is_some() || answer.diverged || self.refuses(k, FOLLOW) {
                continue;
            }
            let acknowledge = self.held.ackers.contains(&k) && Some(k) != leaving;
            // Others than those of N are admitted after they acknowledge no more.
            if !admitted(k) && acknowledge {
                continue;
            }
            let done = answer.role == Role::Replica
                && answer.epoch == self.held.epoch
                && answer.source.as_deref() == Some(&*source)
                && answer.acknowledges == acknowledge
                && (acknowledge || self.has_left(k, answer));
            if !done {
                let (epoch, number) = (self.held.epoch, self.number_for(k));
                let order = Follow { epoch, number, data: self.data().to_owned(), source, acknowledge };
                return Some(MemberStep::Act(PrimaryAction::Tell { ordinal: k, verb: Verb::Follow(order) }));
            }
        }
        None
    }

    /// Notes the start of the primary while it takes writes, and of ackers while they receive. An acker that has
    /// restarted, and does not continue the noted start, may have lost writes that it acknowledged: it counts again
    /// after it has received everything that the primary had then.
    pub(super) fn starts(&self) -> Step {
        let (p, primary) = self.primary()?;
        let mut held = self.held.clone();
        held.starts.retain(|k, _| *k == p || self.held.ackers.contains(k));
        held.returning.retain(|k, _| self.held.ackers.contains(k));
        if primary.writable {
            held.starts.insert(p, primary.start.clone());
        }
        for (k, answer) in
            self.held.ackers.iter().filter_map(|k| Some((*k, self.follows(*k).filter(|a| a.acknowledges)?)))
        {
            let known = held.starts.get(&k);
            if known == Some(&answer.start) {
                continue;
            }
            let waits = held.returning.get(&k).filter(|returning| returning.start == answer.start);
            let has = |position: &str| position.parse().is_ok_and(|position| answer.got.contains(&position));
            match waits {
                _ if known.is_none_or(|known| answer.keeps_since(known)) => {}
                Some(returning) if has(&returning.position) => {}
                Some(_) => continue,
                None => {
                    let position = primary.has.to_string();
                    held.returning.insert(k, Returning { start: answer.start.clone(), position });
                    continue;
                }
            }
            held.returning.remove(&k);
            held.starts.insert(k, answer.start.clone());
        }
        (held != *self.held).then(|| self.latched(held))
    }

    /// Clients that write reach the primary by its label, as soon as it has its orders.
    pub(super) fn label_primary(&self) -> Step {
        let (_, answer) = self.primary()?;
        let is_primary = answer.role == Role::Primary && answer.epoch == self.held.epoch;
        let (_, pod, role) = self.wrong_label().filter(|_| is_primary)?;
        (pod.role.as_deref() == Some(PRIMARY) || role == Some(PRIMARY)).then(|| self.label())?
    }

    /// Services select pods by their role.
    pub(super) fn label(&self) -> Step {
        let (ordinal, pod, role) = self.wrong_label()?;
        Some(MemberStep::LabelPod { ordinal, uid: pod.uid.clone(), role })
    }

    fn role(&self, k: u32) -> Option<&'static str> {
        let near = || self.follows(k).is_some_and(|answer| self.is_near(answer));
        if self.held.ordinal == Some(k) { Some(PRIMARY) } else { near().then_some(REPLICA) }
    }

    /// The first pod with a wrong role. A pod loses the role of the primary before another pod gets it. One that says
    /// that it takes no writes loses it afterwards: a Service without a pod loses what clients send, until `kube-proxy`
    /// knows the next pod a second later.
    fn wrong_label(&self) -> Option<(u32, &Pod, Option<&'static str>)> {
        let pods = self.workload.pods.iter().map(|(k, pod)| (*k, pod, self.role(*k)));
        let wrong = pods.filter(|(_, pod, role)| pod.role.as_deref() != *role);
        // A pod that ends gets no role, and does not stay the second primary.
        let wrong = wrong.filter(|(_, pod, _)| !pod.terminating || pod.role.as_deref() == Some(PRIMARY));
        let takes_writes = |k: u32| self.answer(k).is_none_or(|answer| answer.writable || answer.role == Role::Primary);
        wrong.min_by_key(|(k, pod, role)| {
            let is_stale = pod.role.as_deref() == Some(PRIMARY);
            (!(is_stale && takes_writes(*k)), *role != Some(PRIMARY), !is_stale, *k)
        })
    }

    /// Takes a member out of N: it can acknowledge no more, the others get everything that it acknowledged, and then N
    /// is smaller.
    pub(super) fn shrink(&self, k: u32) -> Step {
        if self.held.leaving.is_some() {
            return self.leaving();
        }
        let remaining = count(&self.held.ackers).saturating_sub(1);
        // Fewer acknowledgements are latched before a commit waits for fewer.
        let acks = self.held.acks.min(remaining);
        let leaving = Some(Leaving { ordinal: k, position: None });
        Some(self.latched(Latched { acks, leaving, ..self.held.clone() }))
    }

    /// A member that is being taken out of N.
    pub(super) fn leaving(&self) -> Step {
        let leaving = self.held.leaving.as_ref()?;
        let (_, primary) = self.primary()?;
        let (k, name) = (leaving.ordinal, self.pod(leaving.ordinal));
        if primary.admitted.contains(&name)
            || primary.acknowledging.contains(&name)
            || primary.acks != self.asked_acks()
        {
            return Some(wait(format!("the primary to stop waiting for {name}"), SOON));
        }
        let Some(position) = &leaving.position else {
            let leaving = Some(Leaving { position: Some(primary.has.to_string()), ..leaving.clone() });
            return Some(self.latched(Latched { leaving, ..self.held.clone() }));
        };
        let position = position.parse().unwrap_or_default();
        let others = || self.held.ackers.iter().copied().filter(|other| *other != k);
        if let Some(behind) = others().find(|other| !self.heard(*other).is_some_and(|a| a.got.contains(&position))) {
            let why = format!(
                "{} to receive the writes that {name} may have acknowledged{}",
                self.pod(behind),
                self.reason(behind)
            );
            return Some(wait(why, SOON));
        }
        let ackers = others().collect();
        Some(self.latched(Latched { ackers, leaving: None, ..self.held.clone() }))
    }

    /// A member of N is silent, and the primary is well.
    pub(super) fn silent_acker(&self) -> Step {
        let (_, primary) = self.primary().filter(|(_, primary)| primary.role == Role::Primary)?;
        let silent = |k: &u32| !self.acknowledges(*k);
        let mut since = self.latch.since.clone();
        let is_noted = |k: u32| if self.held.ackers.contains(&k) { silent(&k) } else { self.lacks_volume(k) };
        since.retain(|k, _| Some(*k) == self.held.ordinal || is_noted(*k));
        for k in self.held.ackers.iter().filter(|k| silent(k)) {
            since.entry(*k).or_insert(self.now);
        }
        if since != self.latch.since {
            return Some(MemberStep::Latch(PrimaryLatch { since, ..self.latch.clone() }));
        }
        let k = self.held.ackers.iter().copied().find(|k| silent(k))?;
        let remaining = self.held.ackers.len() - 1;
        let enough = remaining >= self.held.acks as usize;
        let late = self.latch.since.get(&k).is_some_and(|since| self.now - since >= self.settings.silent_after);
        let asked_to = enough || self.settings.on_replica_lost == OnReplicaLost::Degrade;
        if late && asked_to {
            return self.shrink(k);
        }
        let stands = !primary.writable || primary.waiting > 0;
        let receiving = self.held.ackers.iter().filter(|k| !silent(k)).count();
        let blocked = late && !asked_to && stands && receiving < self.held.acks as usize;
        if blocked {
            let why = format!(
                "writes wait for an acknowledgement of {}{}: bring it back, or let writes continue without one \
                 (onReplicaLost: Degrade)",
                self.pod(k),
                self.reason(k)
            );
            return Some(self.broken_pod().unwrap_or_else(|| stop("WritesBlocked", why)));
        }
        None
    }

    /// Everything has as many acknowledgements. From now on they count.
    pub(super) fn more_acknowledgements(&self) -> Step {
        let (_, primary) = self.primary().filter(|(_, primary)| primary.role == Role::Primary)?;
        let counts = primary.confirmed.min(primary.acks).min(self.asked_acks());
        (counts > self.held.acks).then(|| self.latched(Latched { acks: counts, ..self.held.clone() }))
    }

    /// A replica that has caught up may acknowledge. N has at most twice as many members as acknowledgements are
    /// possible, so that the loss of one more member than acknowledge stops nothing.
    pub(super) fn new_acker(&self) -> Step {
        if self.held.leaving.is_some() || !self.has_room() {
            return None;
        }
        // One whose volume is lost may still run, and is about to begin again.
        let stays = |k: u32| !self.lacks_volume(k);
        let caught_up = |k: u32| stays(k) && self.follows(k).is_some_and(|answer| self.is_near(answer));
        let new = |k: &u32| Some(*k) != self.held.ordinal && !self.held.ackers.contains(k) && caught_up(*k);
        let k = (0..self.target.size.min(self.workload.replicas)).find(new)?;
        Some(self.latched(self.with_acker(k)))
    }

    /// Whether N may have one more member.
    pub(super) fn has_room(&self) -> bool {
        count(&self.held.ackers) < self.settings.acks.saturating_mul(2)
    }

    /// A replica may acknowledge from now on. Its start is noted before it does: if it starts again, it may have lost
    /// writes that it acknowledged.
    pub(super) fn with_acker(&self, k: u32) -> Latched {
        let mut held = self.held.clone();
        held.ackers.insert(k);
        held.starts.extend(self.follows(k).map(|answer| (k, answer.start.clone())));
        held
    }

    /// The primary takes writes as soon as enough members acknowledge.
    pub(super) fn primary_opens(&self) -> Step {
        let p = self.held.ordinal?;
        match self.answer(p) {
            Some(answer) if answer.writable && answer.acks == self.held.acks && self.asked_acks() == self.held.acks => {
                None
            }
            Some(answer) => {
                let problem = answer.problem.as_ref().map_or_else(String::new, |problem| format!(" ({problem})"));
                Some(wait(format!("the primary {} to take writes{problem}", self.pod(p)), SOON))
            }
            None => Some(wait(format!("the primary {}", self.pod(p)), LATER)),
        }
    }
}
