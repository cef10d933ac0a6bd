//! A small world of a database with semi-synchronous replicas, in which decisions are carried out, lost and interrupted. At every
//! step each member that takes writes has all acknowledged writes.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::decide;
use super::state::{
    Latched, ObservedPrimary, OnDiverged, OnReplicaLost, PrimaryAction, PrimaryLatch, PrimarySettings, PrimaryStep,
    Refused, Roles,
};
pub(super) use super::world_member_tests::{SimulatedMember, Write};
use crate::agent::contract::{At, MemberState, Role, Verb};
use crate::agent::position::Position;
use crate::members::driver::MemberStep;
use crate::members::url::Pattern;
use crate::members::workload::{ClaimSize, Pod, VolumeClaim, Workload, WorkloadTarget};

/// A step in few words.
fn brief(step: &PrimaryStep) -> String {
    match step {
        MemberStep::Latch(latch) => format!("PrimaryLatch {:?} since {:?}", latch.own.primary, latch.since),
        MemberStep::Act(PrimaryAction::Tell { ordinal, verb }) => format!("{ordinal}: {verb:?}"),
        step => format!("{step:?}"),
    }
}

/// The whole world.
#[derive(Clone)]
pub(super) struct World {
    pub settings: PrimarySettings,
    pub target: WorkloadTarget,
    pub latch: PrimaryLatch,
    pub now: i64,
    pub replicas: u32,
    pub template: &'static str,
    pub roles: Option<Roles>,
    pub pods: BTreeMap<u32, Pod>,
    pub members: BTreeMap<u32, SimulatedMember>,
    /// Members that cannot be reached by anybody.
    pub down: BTreeSet<u32>,
    /// Members that the operator cannot reach.
    pub cut: BTreeSet<u32>,
    /// Replicas that do not receive at the moment.
    pub slow: BTreeSet<u32>,
    /// Members whose agents refuse orders to follow and to be seeded.
    pub stubborn: BTreeSet<u32>,
    /// Replicas that receive, and do not apply.
    pub halted: BTreeSet<u32>,
    /// The writes that the primary can no longer send.
    pub purged: Position,
    /// Members whose databases do not start.
    pub broken: BTreeSet<u32>,
    /// Members whose databases run, and do nothing.
    pub hung: BTreeSet<u32>,
    /// Since when, as their agents know it, and after how many seconds they end them.
    pub hung_since: BTreeMap<u32, i64>,
    pub hung_after: Option<i64>,
    /// Members whose volumes are lost, and those of them whose claims are deleted and still in use.
    pub lost: BTreeSet<u32>,
    ending: BTreeSet<u32>,
    /// Members without data whose volumes have something else.
    pub foreign: BTreeSet<u32>,
    /// The orders that they refused.
    pub(super) refused: BTreeMap<(u32, &'static str), Refused>,
    pub acknowledged: BTreeSet<Write>,
    /// Writes whose clients wait for an answer.
    open: Vec<(u32, Write)>,
    /// Orders on their way, which arrive after the latch has changed: their sender was suspended right before it sent them.
    pub delayed: Vec<(u32, Verb)>,
    /// Members whose agents are older than the numbers of orders.
    pub unnumbered: BTreeSet<u32>,
    /// Whether agents also obey older orders of an epoch, which is forbidden.
    pub obeys_older: bool,
    /// Steps that were carried out.
    pub steps: Vec<String>,
    seed: u64,
}

pub(super) fn settings() -> PrimarySettings {
    PrimarySettings {
        agent_url: Pattern::new("https://$(POD).db.ns.svc:7360", "db").unwrap(),
        acks: 1,
        lost_after: 6,
        silent_after: 30,
        dead_after: 600,
        lag: 10.0,
        on_replica_lost: OnReplicaLost::Block,
        on_diverged: OnDiverged::Reseed,
    }
}

impl World {
    pub fn new(size: u32) -> Self {
        Self {
            settings: settings(),
            target: WorkloadTarget::of(size),
            latch: PrimaryLatch::default(),
            now: 1000,
            replicas: 0,
            template: "r1",
            roles: None,
            pods: BTreeMap::new(),
            members: BTreeMap::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            slow: BTreeSet::new(),
            stubborn: BTreeSet::new(),
            halted: BTreeSet::new(),
            purged: Position::none(),
            broken: BTreeSet::new(),
            hung: BTreeSet::new(),
            hung_since: BTreeMap::new(),
            hung_after: None,
            lost: BTreeSet::new(),
            ending: BTreeSet::new(),
            foreign: BTreeSet::new(),
            refused: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            open: Vec::new(),
            delayed: Vec::new(),
            unnumbered: BTreeSet::new(),
            obeys_older: false,
            steps: Vec::new(),
            seed: 1,
        }
    }

    /// A world at rest with a number of members.
    pub fn grown(size: u32) -> Self {
        let mut world = Self::new(size);
        world.settle();
        world.steps.clear();
        world
    }

    /// A number below `n`.
    pub fn random(&mut self, n: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % n
    }

    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub fn held(&self) -> Latched {
        self.latch.own.primary.clone().unwrap_or_default()
    }

    pub fn primary(&self) -> u32 {
        self.held().ordinal.unwrap()
    }

    pub fn position(log: &[Write]) -> Position {
        let mut position = Position::none();
        for (server, number) in log {
            position.add(&server.to_string(), 1, *number);
        }
        position
    }

    fn is_prefix(&self, k: u32, of: u32) -> bool {
        self.members[&of].log.starts_with(&self.members[&k].log)
    }

    pub(super) fn receives(&self, k: u32) -> bool {
        let member = &self.members[&k];
        let Some(source) = member.source.filter(|_| !self.down.contains(&k) && member.role == Role::Replica) else {
            return false;
        };
        let Some(from) = self.members.get(&source).filter(|_| !self.down.contains(&source)) else { return false };
        // A primary that hands over still sends.
        matches!(from.role, Role::Primary | Role::Fenced)
            && !from.held
            && !self.hung.contains(&source)
            && !self.hung.contains(&k)
            && from.admitted.contains(&format!("db-{k}"))
            && self.is_prefix(k, source)
            && Self::position(&member.log).contains(&self.purged)
    }

    fn state(&self, k: u32) -> MemberState {
        let member = &self.members[&k];
        let is_down = member.data.is_none() || self.broken.contains(&k);
        let problem = match (self.broken.contains(&k), self.foreign.contains(&k)) {
            _ if self.halted.contains(&k) => Some("error 1062".to_owned()),
            (true, _) => Some("the database does not start".to_owned()),
            (_, true) => Some("foreign files".to_owned()),
            _ => None,
        };
        let acknowledging = self
            .members
            .keys()
            .filter(|f| self.members[f].source == Some(k) && self.members[f].acknowledges && self.receives(**f));
        MemberState {
            member: format!("db-{k}"),
            start: if member.held || is_down { String::new() } else { member.starts.to_string() },
            continues: member.continues.iter().map(u32::to_string).collect(),
            data: member.data.clone(),
            epoch: member.epoch,
            number: Some(member.number).filter(|_| !self.unnumbered.contains(&k)),
            role: member.role,
            writable: member.writable && !is_down,
            source: member.source.map(|source| self.settings.agent_url.host(source)),
            receiving: self.receives(k),
            applying: matches!(member.role, Role::Replica | Role::Fenced) && !self.halted.contains(&k),
            got: Self::position(&member.log),
            has: Self::position(&member.log[..member.applied]),
            purged: if member.role == Role::Primary { self.purged.clone() } else { Position::none() },
            waiting: u32::try_from(self.open.iter().filter(|(primary, _)| *primary == k).count()).unwrap(),
            acks: member.acks,
            confirmed: member.reported,
            admitted: member.admitted.clone(),
            acknowledging: acknowledging.map(|f| format!("db-{f}")).collect(),
            acknowledges: member.acknowledges,
            lag: Some(0.0).filter(|_| self.receives(k)),
            diverged: member.diverged,
            hangs: self.hung.contains(&k),
            restarts_in: self.restarts_in(k),
            problem,
            ..MemberState::default()
        }
    }

    fn workload(&self) -> Workload {
        let claim = |k: &u32| VolumeClaim {
            name: format!("data-db-{k}").into(),
            uid: format!("claim-{k}").into(),
            created: 1,
            terminating: self.ending.contains(k),
            lost: self.lost.contains(k),
            size: ClaimSize::default(),
        };
        Workload {
            pods: self.pods.clone(),
            claims: self.members.keys().map(|k| (*k, vec![claim(k)])).collect(),
            update_revision: self.template.into(),
            ..Workload::example(self.replicas)
        }
    }

    /// A pass of the operator. `fails` loses the call or the write.
    pub fn pass(&mut self, fails: bool) -> PrimaryStep {
        let workload = self.workload();
        let seen = self.members.keys().filter(|k| !self.down.contains(k) && !self.cut.contains(k));
        let observed = ObservedPrimary {
            roles: Ok(self.roles.clone()),
            answers: seen.filter(|k| self.pods.contains_key(k)).map(|k| (*k, self.state(*k))).collect(),
            silent: BTreeMap::new(),
            refused: self.refused.clone(),
        };
        let step = decide(&self.settings, &workload, &observed, &self.target, &self.latch, self.now);
        if !matches!(
            step,
            MemberStep::Wait { .. } | MemberStep::Quiet | MemberStep::Stop { .. } | MemberStep::LabelPod { .. }
        ) {
            self.steps.push(format!("{} {}{}", self.now, brief(&step), if fails { " FAILS" } else { "" }));
        }
        if !fails {
            self.carry_out(&step);
        }
        self.check();
        step
    }

    fn carry_out(&mut self, step: &PrimaryStep) {
        match step {
            MemberStep::Latch(latch) => self.latch = latch.clone(),
            MemberStep::Scale(replicas) => {
                self.latch.replicas = Some(*replicas);
                self.replicas = *replicas;
                let gone: Vec<u32> = self.pods.keys().copied().filter(|k| k >= replicas).collect();
                for k in gone {
                    // A pod that is stopped lets a replica end as it should.
                    if self.members.get(&k).is_some_and(|member| member.role == Role::Replica && !member.held) {
                        self.ends(k);
                    } else {
                        self.crash(k);
                    }
                    self.pods.remove(&k);
                }
                for k in 0..*replicas {
                    self.pods.entry(k).or_insert_with(|| Pod { revision: self.template.into(), ..Pod::example() });
                    self.start(k);
                }
            }
            MemberStep::DeleteClaim { name, .. } => {
                let k: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
                if self.lost.contains(&k) && self.pods.contains_key(&k) {
                    self.ending.insert(k);
                } else {
                    assert!(!self.pods.contains_key(&k), "its pod is gone");
                    self.members.remove(&k);
                }
            }
            MemberStep::EvictPod { ordinal, .. } | MemberStep::DeletePod { ordinal, .. } => {
                self.crash(*ordinal);
                if self.ending.remove(ordinal) {
                    self.lost.remove(ordinal);
                    self.members.remove(ordinal);
                    self.start(*ordinal);
                }
                self.pods.insert(*ordinal, Pod { revision: self.template.into(), ..Pod::example() });
            }
            MemberStep::LabelPod { ordinal, role, .. } => {
                self.pods.get_mut(ordinal).unwrap().role = role.map(Into::into);
                let is_primary = |pod: &Pod| pod.role.as_deref() == Some("primary");
                let opens = |k: &u32| self.members.get(k).is_some_and(|member| member.writable);
                let primaries = self.pods.iter().filter(|(k, pod)| is_primary(pod) && opens(k)).count();
                assert!(primaries <= 1, "one Service, one member that takes writes");
            }
            MemberStep::Act(PrimaryAction::WriteRoles(roles)) => self.roles = Some(roles.clone()),
            MemberStep::Act(PrimaryAction::Tell { ordinal, verb }) => self.obey(*ordinal, verb),
            _ => {}
        }
    }

    /// The container of a pod starts.
    fn start(&mut self, k: u32) {
        if self.members.contains_key(&k) {
            return;
        }
        let mut member = SimulatedMember { starts: 1, ..SimulatedMember::default() };
        let roles = self.roles.clone().unwrap_or_default();
        if roles.primary == format!("db-{k}") && roles.data.is_empty() {
            member.data = Some("u".into());
            member.epoch = 1;
        }
        self.members.insert(k, member);
    }

    /// The database is killed, and its agent starts it again.
    pub fn crash(&mut self, k: u32) {
        self.hung.remove(&k);
        let member = self.members.get_mut(&k).unwrap();
        member.starts += 1;
        member.continues.clear();
        let waits = member.role == Role::Primary && member.acks > 0;
        if !waits && !member.held {
            // Writes that were received and not applied are gone.
            member.log.truncate(member.applied);
        }
        member.held |= waits;
        member.applied = member.log.len();
        (member.role, member.writable, member.source, member.acknowledges) = (Role::Waiting, false, None, false);
        member.admitted.clear();
        (member.acks, member.reported) = (0, 0);
        self.open.retain(|(primary, _)| *primary != k);
    }

    /// The agent of a replica is asked to end: it applies what it has received, ends the database in order, and is started again.
    pub fn ends(&mut self, k: u32) {
        let member = self.members.get_mut(&k).unwrap();
        assert!(!member.held && member.role != Role::Primary, "a replica");
        member.applied = member.log.len();
        let mut continues = std::mem::take(&mut member.continues);
        continues.insert(0, member.starts);
        self.crash(k);
        self.members.get_mut(&k).unwrap().continues = continues;
    }

    /// The volume is destroyed, and with it the data.
    pub fn destroy(&mut self, k: u32) {
        self.crash(k);
        let starts = self.members[&k].starts;
        self.members.insert(k, SimulatedMember { starts, ..SimulatedMember::default() });
    }

    /// An order that was on its way arrives.
    pub fn arrive(&mut self) {
        if self.delayed.is_empty() {
            return;
        }
        let at = self.random(self.delayed.len() as u64);
        let (k, verb) = self.delayed.swap_remove(usize::try_from(at).unwrap());
        if self.pods.contains_key(&k) && self.members.contains_key(&k) {
            self.steps.push(format!("{} late, {k}: {verb:?}", self.now));
            self.obey(k, &verb);
        }
        self.check();
    }

    /// An operator is suspended right before it sends the order of its next pass, which arrives later.
    pub fn suspended(&mut self) {
        let step = self.pass(true);
        if let MemberStep::Act(PrimaryAction::Tell { ordinal, verb }) = step {
            self.delayed.push((ordinal, verb));
        }
    }

    fn obey(&mut self, k: u32, verb: &Verb) {
        if self.down.contains(&k) || self.cut.contains(&k) {
            return;
        }
        let Some((at, data)) = verb.order() else { return };
        if self.stubborn.contains(&k) && matches!(verb, Verb::Follow(_) | Verb::Seed(_)) {
            self.refused.insert((k, verb.name()), Refused { why: "no".into(), passing: false });
            return;
        }
        assert!(at.number.is_none() || !self.unnumbered.contains(&k), "an older agent refuses {verb:?}");
        let random = self.random(4);
        let member = self.members.get_mut(&k).unwrap();
        let obeyed = At { epoch: member.epoch, number: Some(member.number) };
        let is_older = at.is_before(obeyed) && !(self.obeys_older && at.epoch == member.epoch);
        if is_older || (member.data.as_deref() != Some(data) && !matches!(verb, Verb::Seed(_))) {
            return;
        }
        if obeyed.is_before(at) {
            (member.epoch, member.number) = (at.epoch, at.number.unwrap_or_default());
        }
        if !self.frees(k, verb) {
            return;
        }
        let member = self.members.get_mut(&k).unwrap();
        match verb {
            Verb::Fence(_) => {
                if member.role == Role::Primary {
                    self.crash(k);
                }
                let member = self.members.get_mut(&k).unwrap();
                (member.role, member.source, member.acknowledges) = (Role::Fenced, None, false);
            }
            Verb::Promote(order) => {
                if member.applied < member.log.len() {
                    return;
                }
                (member.held, member.role, member.source, member.acknowledges) = (false, Role::Primary, None, false);
                if order.acks > member.acks {
                    member.marker = member.log.len() + 1;
                }
                member.reported = member.reported.min(order.acks);
                (member.acks, member.admitted) = (order.acks, order.admitted.clone());
            }
            Verb::Follow(order) => {
                if std::mem::take(&mut member.held) {
                    // Its tail is taken back, and sometimes more than was not acknowledged.
                    member.log.truncate(member.log.len().saturating_sub(usize::try_from(random).unwrap()));
                    member.applied = member.log.len();
                }
                let source = order.source.split(['-', '.']).nth(1).unwrap().parse().unwrap();
                let asked = (Role::Replica, Some(source), order.acknowledge);
                if (member.role, member.source, member.acknowledges) != asked && member.applied < member.log.len() {
                    // Writes that were received and not applied are received again.
                    member.log.truncate(member.applied);
                    member.starts += 1;
                    member.continues.clear();
                }
                (member.role, member.source, member.writable) = (Role::Replica, Some(source), false);
                (member.acknowledges, member.acks, member.reported) = (order.acknowledge, 0, 0);
                member.admitted.clear();
                let primary = self.members.get(&source).filter(|primary| primary.role == Role::Primary);
                let stuck = self.members[&k].stuck;
                let diverged = primary.is_some() && (stuck || !self.is_prefix(k, source));
                self.members.get_mut(&k).unwrap().diverged = diverged;
            }
            Verb::Demote(_) if member.role != Role::Primary => {}
            Verb::Demote(_) => {
                // It waits for open commits.
                self.receive();
                self.acknowledge(k);
                if self.open.iter().all(|(primary, _)| *primary != k) {
                    let member = self.members.get_mut(&k).unwrap();
                    (member.role, member.writable) = (Role::Fenced, false);
                }
            }
            Verb::Seed(order) => {
                let start = if member.data.is_some() { Some(member.starts.to_string()) } else { None };
                if start != order.discard {
                    return;
                }
                let donor = order.donor.split(['-', '.']).nth(1).unwrap().parse().unwrap();
                let Some(donor) = self.members.get(&donor).filter(|donor| donor.data.is_some()) else { return };
                let log = donor.log[..donor.applied].to_vec();
                let member = self.members.get_mut(&k).unwrap();
                *member = SimulatedMember {
                    data: Some("u".into()),
                    epoch: member.epoch,
                    number: member.number,
                    starts: member.starts + 1,
                    applied: log.len(),
                    log,
                    ..SimulatedMember::default()
                };
            }
            Verb::Reload(_) => {}
        }
    }

    /// A second passes: databases receive, apply and acknowledge; clients write.
    pub fn tick(&mut self) {
        self.now += 1;
        self.end_hung();
        self.receive();
        let all: Vec<u32> = self.pods.keys().copied().filter(|k| !self.down.contains(k)).collect();
        for k in all {
            let lazy = self.random(3) == 0;
            let member = self.members.get_mut(&k).unwrap();
            if !lazy && !self.halted.contains(&k) && member.role != Role::Waiting && !member.held {
                member.applied = member.log.len();
            }
            if member.role != Role::Primary || self.broken.contains(&k) || self.hung.contains(&k) {
                continue;
            }
            let opens = self.acknowledge(k);
            let marker = self.members[&k].marker;
            let has = |f: &&SimulatedMember| f.source == Some(k) && f.acknowledges && f.log.len() >= marker;
            let complete = u32::try_from(self.members.values().filter(has).count()).unwrap() >= self.members[&k].acks;
            let member = self.members.get_mut(&k).unwrap();
            if complete {
                member.reported = member.acks;
            }
            member.writable |= opens;
            if member.writable {
                let write = (k, member.log.len() as u64 + 1);
                member.log.push(write);
                member.applied = member.log.len();
                self.open.push((k, write));
            }
        }
        self.check();
    }

    /// Replicas receive.
    fn receive(&mut self) {
        let all: Vec<u32> =
            self.members.keys().copied().filter(|k| self.receives(*k) && !self.slow.contains(k)).collect();
        for k in all {
            let log = self.members[&self.members[&k].source.unwrap()].log.clone();
            self.members.get_mut(&k).unwrap().log = log;
        }
    }

    /// Clients of a primary get their answers. Returns whether enough members acknowledge.
    fn acknowledge(&mut self, k: u32) -> bool {
        let acks = self.members[&k].acks;
        let followers = |write: Option<&Write>| {
            let has = |f: &&u32| {
                let follower = &self.members[f];
                let receives = follower.source == Some(k) && follower.acknowledges && self.receives(**f);
                receives && write.is_none_or(|write| follower.log.contains(write))
            };
            u32::try_from(self.members.keys().filter(has).count()).unwrap()
        };
        let enough = |(primary, write): &&(u32, Write)| *primary == k && followers(Some(write)) >= acks;
        let done: Vec<Write> = self.open.iter().filter(enough).map(|(_, write)| *write).collect();
        let opens = followers(None) >= acks;
        self.open.retain(|(primary, write)| *primary != k || !done.contains(write));
        self.acknowledged.extend(done);
        opens
    }

    /// Each member that takes writes, and can have them acknowledged, has all acknowledged writes.
    fn check(&self) {
        let p = self.latch.own.primary.as_ref().and_then(|held| held.ordinal);
        for (k, member) in self.members.iter().filter(|(k, member)| member.writable && Some(**k) == p) {
            let lost: Vec<_> = self.acknowledged.iter().filter(|write| !member.log.contains(write)).collect();
            assert!(lost.is_empty(), "db-{k} takes writes and lacks {lost:?}:\n{}", self.last_steps());
        }
    }

    /// Passes until there is nothing to do, with time in between.
    pub fn settle(&mut self) {
        assert!(self.comes_to_rest(), "no rest: {}", self.last_steps());
    }

    /// Whether there is nothing to do within some minutes.
    pub fn comes_to_rest(&mut self) -> bool {
        (0..900).any(|_| {
            self.tick();
            self.pass(false) == MemberStep::Quiet && self.is_whole()
        })
    }

    /// A person accepts the loss that a step offers. Writes that the chosen member lacks count as lost.
    pub fn accept(&mut self) {
        let MemberStep::Stop { reason: "FailoverUnsafe", why } = self.pass(false) else {
            panic!("{}", self.last_steps())
        };
        let (_, said) = why.split_once("force-new-cluster=").unwrap_or_else(|| panic!("{why}"));
        let said = said.trim_end_matches('.');
        let k: u32 = said.split('@').nth(1).unwrap().parse().unwrap();
        let has: BTreeSet<Write> = self.members[&k].log.iter().copied().collect();
        self.acknowledged = self.acknowledged.intersection(&has).copied().collect();
        self.target.recover = Some(said.into());
    }

    /// The operator has forgotten the refusals.
    pub fn forget_refusals(&mut self) {
        self.refused.clear();
    }

    pub fn last_steps(&self) -> String {
        self.steps[self.steps.len().saturating_sub(90)..].join("\n")
    }

    fn is_whole(&self) -> bool {
        let held = self.held();
        let enough = self.target.size.saturating_sub(1).min(self.settings.acks);
        held.acks == enough && self.replicas == self.target.size && held.change.is_none()
    }

    /// Passes until the decision is to stop for this reason.
    pub fn stops(&mut self, wanted: &str) -> String {
        for _ in 0..200 {
            self.tick();
            if let MemberStep::Stop { reason, why } = self.pass(false) {
                assert_eq!(reason, wanted, "{why}");
                return why;
            }
        }
        panic!("it does not stop:\n{}", self.last_steps());
    }
}
