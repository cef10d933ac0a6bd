//! A database with semi-synchronous replicas, in memory: what a member receives, applies, acknowledges and loses, and how its agent obeys
//! (docs/design/primary.md). It is not canned: each answer follows from what was ordered and written before.

use std::collections::{BTreeMap, BTreeSet};

use tillerman::agent::contract::{At, MemberState, Reason, Refusal, Role, Verb, VolumeSpace};
use tillerman::agent::position::Position;

/// A write: the ordinal that took it, its number in the log, and its unique key.
pub type Write = (u32, u64, u64);

/// A member: what is on its volume, and its process.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct HeldMember {
    /// The uid of the claim that the data is on.
    pub claim: String,
    /// Whether its container runs.
    pub runs: bool,
    pub data: Option<String>,
    pub epoch: u64,
    number: u64,
    pub role: Role,
    starts: u32,
    /// It was the primary and waited for acknowledgements: it does not start before an order.
    held: bool,
    pub writable: bool,
    /// It takes no more writes, and waits for those that it took.
    demoting: bool,
    source: Option<String>,
    acknowledges: bool,
    acks: u32,
    confirmed: u32,
    /// The length of the log with which everything has as many acknowledgements.
    marker: usize,
    admitted: Vec<String>,
    pub log: Vec<Write>,
    applied: usize,
    diverged: bool,
}

/// All members of one cluster.
#[derive(Default)]
pub struct Database {
    pub members: BTreeMap<u32, HeldMember>,
    /// Members whose processes are stopped: they answer nobody, and neither send nor receive.
    pub stopped: BTreeSet<u32>,
    /// Replicas that receive and do not apply.
    pub lagging: BTreeSet<u32>,
    /// How full their volumes are.
    pub volumes: BTreeMap<u32, VolumeSpace>,
    /// Members that no longer receive from any other one.
    pub severed: BTreeSet<u32>,
    /// Members that have a write which they cannot take back, until they get a copy.
    pub stuck: BTreeSet<u32>,
    /// Keys whose writers were answered.
    pub acknowledged: BTreeSet<u64>,
    /// Writes whose clients wait.
    open: Vec<(u32, Write)>,
    /// What must never be, and was.
    pub violations: Vec<String>,
    /// Hosts by ordinal: what comes before the ordinal.
    net: String,
    /// The name of the StatefulSet.
    set: String,
}

/// Keys of commits that do not belong to a client begin here.
const MARKER: u64 = 1 << 60;

fn position(log: &[Write]) -> Position {
    let mut position = Position::none();
    for run in log.chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1) {
        position.add(&run[0].0.to_string(), run[0].1, run[run.len() - 1].1);
    }
    position
}

fn refused<T>(reason: Reason, message: &str) -> Result<T, Refusal> {
    Err(Refusal { reason, message: message.to_owned() })
}

impl Database {
    /// No member yet. `net` is what the hosts begin with.
    pub fn new(net: &str, set: &str) -> Self {
        Self { net: net.to_owned(), set: set.to_owned(), ..Self::default() }
    }

    /// The host of an ordinal.
    pub fn host(&self, ordinal: u32) -> String {
        format!("{}.1{ordinal}", self.net)
    }

    fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.set)
    }

    fn of_host(&self, host: &str) -> Option<u32> {
        host.strip_prefix(&format!("{}.1", self.net))?.parse().ok()
    }

    /// A container starts on a volume, with the roles of the `ConfigMap`.
    pub fn start(&mut self, k: u32, claim: &str, roles: &BTreeMap<String, String>) {
        let pod = self.pod(k);
        let member = self.members.entry(k).or_default();
        if member.claim != claim {
            *member = HeldMember { claim: claim.to_owned(), ..HeldMember::default() };
        }
        member.starts += 1;
        member.runs = true;
        let is = |key: &str, value: &str| roles.get(key).is_some_and(|given| given == value);
        if member.data.is_none() && is("PRIMARY", &pod) && is("DATA", "") {
            member.data = Some(format!("data-of-{claim}"));
            member.epoch = roles["EPOCH"].parse().expect("it is a number");
        }
    }

    /// A process is killed. What it received and did not apply is gone, but for one that was the primary and waits.
    pub fn crash(&mut self, k: u32) {
        let Some(member) = self.members.get_mut(&k).filter(|member| member.runs) else { return };
        let waits = member.role == Role::Primary && member.acks > 0;
        if !waits && !member.held {
            member.log.truncate(member.applied);
        }
        member.held |= waits;
        member.applied = member.log.len();
        (member.role, member.writable, member.source, member.acknowledges) = (Role::Waiting, false, None, false);
        (member.acks, member.confirmed, member.runs) = (0, 0, false);
        member.admitted.clear();
        self.open.retain(|(primary, _)| *primary != k);
    }

    fn works(&self, k: u32) -> bool {
        !self.stopped.contains(&k) && self.members.get(&k).is_some_and(|member| member.runs)
    }

    /// Whether what one member has is the beginning of what another has.
    fn is_prefix(&self, k: u32, of: u32) -> bool {
        self.members[&of].log.starts_with(&self.members[&k].log)
    }

    fn source(&self, k: u32) -> Option<u32> {
        let member = self.members.get(&k).filter(|member| self.works(k) && member.role == Role::Replica)?;
        let source = self.of_host(member.source.as_deref()?)?;
        let from = self.members.get(&source).filter(|_| self.works(source))?;
        // A primary that hands over still sends.
        let sends = matches!(from.role, Role::Primary | Role::Fenced) && !from.held;
        (sends && !self.severed.contains(&k) && from.admitted.contains(&self.pod(k)) && self.is_prefix(k, source))
            .then_some(source)
    }

    /// What an agent says.
    pub fn state(&self, k: u32) -> MemberState {
        let member = &self.members[&k];
        let follows = |f: &&u32| self.source(**f) == Some(k) && self.members[*f].acknowledges;
        let (got, has) = (position(&member.log), position(&member.log[..member.applied]));
        MemberState {
            member: self.pod(k),
            start: if member.held || member.data.is_none() { String::new() } else { member.starts.to_string() },
            data: member.data.clone(),
            epoch: member.epoch,
            number: Some(member.number),
            role: member.role,
            writable: member.writable,
            source: member.source.clone(),
            receiving: self.source(k).is_some(),
            applying: matches!(member.role, Role::Replica | Role::Fenced),
            got,
            has,
            waiting: u32::try_from(self.open.iter().filter(|(primary, _)| *primary == k).count()).expect("few"),
            acks: member.acks,
            confirmed: member.confirmed,
            admitted: member.admitted.clone(),
            acknowledging: self.members.keys().filter(follows).map(|f| self.pod(*f)).collect(),
            acknowledges: member.acknowledges,
            lag: self.source(k).map(|_| if self.lagging.contains(&k) { 100.0 } else { 0.0 }),
            version: Some("1.0".into()),
            diverged: member.diverged,
            volume: self.volumes.get(&k).copied(),
            ..MemberState::default()
        }
    }

    /// An agent obeys or refuses. A demotion is begun, and is over when no client waits ([`Self::is_demoted`]).
    pub fn obey(&mut self, k: u32, verb: &Verb) -> Result<(), Refusal> {
        let Some((at, data)) = verb.order() else { return Ok(()) };
        let Some(member) = self.members.get_mut(&k) else { return refused(Reason::Failed, "it has gone") };
        if at.epoch < member.epoch {
            return refused(Reason::StaleEpoch, &format!("epoch {} was obeyed", member.epoch));
        }
        let obeyed = At { epoch: member.epoch, number: Some(member.number) };
        if at.is_before(obeyed) {
            return refused(Reason::StaleOrder, &format!("order {} was obeyed", member.number));
        }
        let is_seed = matches!(verb, Verb::Seed(_));
        if member.data.as_deref().map_or(!is_seed, |given| given != data) {
            return refused(Reason::OtherData, "it has other data, or none");
        }
        // A copy is of data with this epoch, so it is stored with the data.
        if obeyed.is_before(at) {
            (member.epoch, member.number) = (at.epoch, at.number.unwrap_or_default());
        }
        match verb {
            Verb::Fence(_) => {
                if member.role == Role::Primary {
                    self.crash(k);
                    let member = self.members.get_mut(&k).expect("it is there");
                    (member.runs, member.starts) = (true, member.starts + 1);
                }
                let member = self.members.get_mut(&k).expect("it is there");
                (member.role, member.source, member.acknowledges) = (Role::Fenced, None, false);
            }
            Verb::Promote(order) => {
                if member.applied < member.log.len() {
                    return refused(Reason::NotApplied, "it has not applied everything");
                }
                (member.held, member.role, member.source, member.acknowledges) = (false, Role::Primary, None, false);
                if order.acks > member.acks {
                    member.marker = member.log.len() + 1;
                }
                member.confirmed = member.confirmed.min(order.acks);
                (member.acks, member.admitted) = (order.acks, order.admitted.clone());
            }
            Verb::Follow(order) => {
                if std::mem::take(&mut member.held) {
                    // Its last write was acknowledged by nobody: it is taken back.
                    let acknowledged = &self.acknowledged;
                    let kept = member.log.iter().rposition(|(_, _, key)| acknowledged.contains(key));
                    member.log.truncate(kept.map_or(0, |at| at + 1));
                    member.applied = member.log.len();
                    member.starts += 1;
                }
                (member.role, member.source, member.writable) = (Role::Replica, Some(order.source.clone()), false);
                (member.acknowledges, member.acks, member.confirmed) = (order.acknowledge, 0, 0);
                member.admitted.clear();
                let source = self.of_host(&order.source).filter(|s| self.members.contains_key(s));
                let diverged = source.is_some_and(|source| self.stuck.contains(&k) || !self.is_prefix(k, source));
                self.members.get_mut(&k).expect("it is there").diverged = diverged;
            }
            Verb::Demote(_) => (member.demoting, member.writable) = (member.role == Role::Primary, false),
            Verb::Seed(order) => {
                let start = member.data.as_ref().map(|_| member.starts.to_string());
                if start != order.discard {
                    return refused(Reason::HasData, "that is not the data that was looked at");
                }
                let host = order.donor.trim_start_matches("https://").split(':').next().unwrap_or_default().to_owned();
                let donor = self.of_host(&host).filter(|donor| self.works(*donor));
                let Some(donor) = donor else { return refused(Reason::Failed, "the donor does not answer") };
                self.stuck.remove(&k);
                let donor = &self.members[&donor];
                let log = donor.log[..donor.applied].to_vec();
                let member = self.members.get_mut(&k).expect("it is there");
                *member = HeldMember {
                    claim: std::mem::take(&mut member.claim),
                    runs: true,
                    data: Some(data.to_owned()),
                    epoch: member.epoch,
                    number: member.number,
                    starts: member.starts + 1,
                    applied: log.len(),
                    log,
                    ..HeldMember::default()
                };
            }
            Verb::Reload(_) => {}
        }
        Ok(())
    }

    /// Ends a demotion if all commits are acknowledged; whether it has ended. `late`: the primary takes writes again.
    pub fn is_demoted(&mut self, k: u32, late: bool) -> bool {
        let waits = self.open.iter().any(|(primary, _)| *primary == k);
        let Some(member) = self.members.get_mut(&k) else { return true };
        if waits && !late {
            return false;
        }
        if std::mem::take(&mut member.demoting) && !waits {
            member.role = Role::Fenced;
        }
        true
    }

    /// A client writes a key to a member; whether it took it.
    pub fn write(&mut self, k: u32, key: u64) -> bool {
        if !self.works(k) {
            return false;
        }
        let Some(member) = self.members.get_mut(&k).filter(|member| member.writable) else { return false };
        let write = (k, member.log.len() as u64 + 1, key);
        member.log.push(write);
        member.applied = member.log.len();
        self.open.push((k, write));
        true
    }

    /// A moment passes: replicas receive and apply, primaries acknowledge, and open for writes.
    pub fn tick(&mut self) {
        for k in self.members.keys().copied().collect::<Vec<_>>() {
            if let Some(source) = self.source(k) {
                let log = self.members[&source].log.clone();
                self.members.get_mut(&k).expect("it is there").log = log;
            }
            let applies = self.works(k) && !self.lagging.contains(&k);
            let member = self.members.get_mut(&k).expect("it is there");
            if applies && matches!(member.role, Role::Replica | Role::Fenced) && !member.held {
                member.applied = member.log.len();
            }
        }
        for k in self.members.keys().copied().collect::<Vec<_>>() {
            if self.works(k) && self.members[&k].role == Role::Primary {
                self.acknowledge(k);
            }
        }
    }

    fn acknowledge(&mut self, k: u32) {
        let wanted = self.members[&k].acks;
        let acks = wanted as usize;
        let followers: Vec<&HeldMember> =
            self.members.keys().filter(|f| self.source(**f) == Some(k)).map(|f| &self.members[f]).collect();
        let followers: Vec<_> = followers.into_iter().filter(|f| f.acknowledges).collect();
        let have = |write: &Write| followers.iter().filter(|f| f.log.contains(write)).count();
        let done: Vec<Write> =
            self.open.iter().filter(|(p, write)| *p == k && have(write) >= acks).map(|(_, w)| *w).collect();
        let marker = self.members[&k].marker;
        let complete = followers.iter().filter(|f| f.log.len() >= marker).count() >= acks;
        let enough = followers.len() >= acks;
        self.open.retain(|(p, write)| *p != k || !done.contains(write));
        self.acknowledged.extend(done.iter().map(|(_, _, key)| *key));
        // Where no client writes, the agent makes the commit that shows that everything has as many acknowledgements.
        let silent = self.members[&k].confirmed < wanted && self.members[&k].log.len() < marker;
        let opens = enough && !self.members[&k].writable && !self.members[&k].demoting;
        if opens {
            let lacks = self.lacks(k);
            self.violations.extend(lacks.map(|key| format!("{} takes writes and lacks {key}", self.pod(k))));
        }
        let member = self.members.get_mut(&k).expect("it is there");
        if complete {
            member.confirmed = member.acks;
        }
        member.writable |= opens;
        if silent && member.writable {
            let number = member.log.len() as u64 + 1;
            member.log.push((k, number, MARKER + number));
            member.applied = member.log.len();
        }
    }

    /// An acknowledged key that a member does not have.
    pub fn lacks(&self, k: u32) -> Option<u64> {
        let has: BTreeSet<u64> = self.members[&k].log.iter().map(|(_, _, key)| *key).collect();
        self.acknowledged.difference(&has).next().copied()
    }
}
