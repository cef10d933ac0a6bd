//! A small world of etcd and a StatefulSet, in which decisions are carried out and interrupted, and the invariants are checked at
//! every step. Their numbers (I1, I5, …) and the rows are those of docs/design/members.md.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::decide;
use super::state::{
    Call, ClusterState, EtcdAction, EtcdLatch, EtcdSettings, EtcdStep, InitialCluster, ListedMember, MemberAnswer,
    NoSpace, ObservedEtcd, Version,
};
use crate::members::driver::MemberStep;
use crate::members::url::Pattern;
use crate::members::workload::{ClaimSize, Exit, Mode, Pod, PodPhase, VolumeClaim, Workload, WorkloadTarget};

pub(super) const CLUSTER: u64 = 0xc1;

/// The whole world.
#[derive(Clone)]
pub(super) struct World {
    pub settings: EtcdSettings,
    pub target: WorkloadTarget,
    pub latch: EtcdLatch,
    pub now: i64,
    pub replicas: u32,
    /// The first ordinal that has a pod.
    pub start: u32,
    pub template: &'static str,
    /// The StatefulSet's controller has not observed the last write.
    pub unseen: bool,
    pub initial: Option<InitialCluster>,
    pub pods: BTreeMap<u32, Pod>,
    pub claims: BTreeMap<u32, VolumeClaim>,
    /// The member whose data a claim contains, by the claim's uid.
    pub disks: BTreeMap<Box<str>, u64>,
    pub members: Vec<ListedMember>,
    removed: BTreeSet<u64>,
    /// Ordinals with a running process.
    running: BTreeSet<u32>,
    /// Ordinals whose process is stopped or cannot be reached.
    pub down: BTreeSet<u32>,
    /// Ordinals whose pods have no node.
    pub unschedulable: BTreeSet<u32>,
    pub leader: u64,
    pub revision: u64,
    /// Calls that were sent and lost, and that will happen later.
    pub late: Vec<Call>,
    /// Somebody other than the operator did harm. In the meantime, sizes may differ by more than one.
    pub harmed: bool,
    /// Ordinals that left before a higher one, because they did not answer (row `leaving_member`), although replicas are
    /// only lowered from the top.
    early: BTreeSet<u32>,
    /// The version of all members.
    pub version: &'static str,
    next: u64,
    pub calls: Vec<Call>,
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Done,
    Lost,
    Late,
    /// The operator dies, in the middle of a step if the step has several parts.
    Crash,
}

impl World {
    pub fn new(size: u32) -> Self {
        let pattern = |port| Pattern::new(&format!("http://$(POD).peer.ns.svc:{port}"), "e").expect("it has a pod");
        Self {
            settings: EtcdSettings {
                peer_url: pattern(2380),
                client_url: pattern(2379),
                join_deadline: 300,
                dead_after: 600,
                version: None,
                defragmentation: None,
                no_space: NoSpace::Reclaim,
                learners: true,
                quota: None,
            },
            target: WorkloadTarget::of(size),
            latch: EtcdLatch::default(),
            now: 1_000_000,
            replicas: 0,
            start: 0,
            template: "r1",
            unseen: false,
            initial: None,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            disks: BTreeMap::new(),
            members: Vec::new(),
            removed: BTreeSet::new(),
            running: BTreeSet::new(),
            down: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            leader: 0,
            revision: 1,
            late: Vec::new(),
            harmed: false,
            early: BTreeSet::new(),
            version: "3.6.16",
            next: 100,
            calls: Vec::new(),
        }
    }

    /// A world at rest with a number of members.
    pub fn grown(size: u32) -> Self {
        let mut world = Self::new(size);
        world.settle();
        world.calls.clear();
        world
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn ordinal(&self, member: &ListedMember) -> Option<u32> {
        self.settings.peer_url.ordinal(&member.peer_urls[0])
    }

    pub fn member(&self, ordinal: u32) -> Option<&ListedMember> {
        self.members.iter().find(|member| self.ordinal(member) == Some(ordinal))
    }

    pub fn add_member(&mut self, ordinal: u32, learner: bool) -> u64 {
        // A long number, so that no other number looks like it.
        let id = 0xfeed_0000_0000_0000 + self.fresh();
        let peer_urls = vec![self.settings.peer_url.url(ordinal)];
        self.members.push(ListedMember { id, name: String::new(), peer_urls, learner });
        id
    }

    pub fn remove_member(&mut self, ordinal: u32) {
        let id = self.member(ordinal).map(|member| member.id);
        self.members.retain(|member| Some(member.id) != id);
        self.removed.extend(id);
    }

    /// Whether its process runs and can be reached, and it is a member.
    fn alive(&self, ordinal: u32) -> bool {
        self.running.contains(&ordinal)
            && !self.down.contains(&ordinal)
            && self.member(ordinal).is_some_and(ListedMember::started)
    }

    fn voters(&self) -> Vec<u32> {
        self.members.iter().filter(|member| !member.learner).filter_map(|member| self.ordinal(member)).collect()
    }

    fn healthy(&self) -> usize {
        self.voters().into_iter().filter(|voter| self.alive(*voter)).count()
    }

    fn has_quorum(&self) -> bool {
        let voting = self.members.iter().filter(|member| !member.learner).count();
        voting > 0 && self.healthy() > voting / 2
    }

    /// This includes the vote of a member that is starting.
    fn has_quorum_with(&self, k: u32) -> bool {
        let voting = self.members.iter().filter(|member| !member.learner).count();
        let one_more = self.member(k).is_some_and(|member| !member.learner && !member.started());
        self.has_quorum() || self.healthy() > 0 && self.healthy() + usize::from(one_more) > voting / 2
    }

    fn alive_member(&self, member: &ListedMember) -> bool {
        self.ordinal(member).is_some_and(|k| self.alive(k))
    }

    /// The checks of etcd on a list: the URLs, and whether the list contains its own name.
    fn fits(&self, initial: &InitialCluster, k: u32) -> (bool, bool) {
        let mut urls: Vec<_> = self.members.iter().flat_map(|member| &member.peer_urls).map(String::as_str).collect();
        let mut entries: Vec<_> = initial.members.split(',').filter_map(|entry| entry.split_once('=')).collect();
        let named = entries.iter().any(|(name, _)| *name == format!("e-{k}"));
        urls.sort_unstable();
        entries.sort_unstable_by_key(|(_, url)| *url);
        (named, entries.into_iter().map(|(_, url)| url).eq(urls))
    }

    pub fn workload(&self) -> Workload {
        Workload {
            namespace: "ns".into(),
            name: "e".into(),
            resource_version: "1".into(),
            replicas: self.replicas,
            start: self.start,
            update_revision: if self.unseen { "".into() } else { self.template.into() },
            pods: self.pods.clone(),
            earlier: Vec::new(),
            claims: self.claims.iter().map(|(k, claim)| (*k, vec![claim.clone()])).collect(),
        }
    }

    pub fn observed(&self) -> ObservedEtcd {
        let quorum = self.has_quorum();
        let answer = |k: &u32| {
            let member = self.member(*k)?;
            Some((
                *k,
                MemberAnswer {
                    cluster: CLUSTER,
                    member: member.id,
                    linearizable: quorum && !member.learner,
                    leader: if quorum { self.leader } else { 0 },
                    term: 1,
                    index: self.revision,
                    revision: self.revision,
                    learner: member.learner,
                    version: Version::parse(self.version),
                    ..MemberAnswer::default()
                },
            ))
        };
        ObservedEtcd {
            initial: Ok(self.initial.clone()),
            members: quorum.then(|| self.members.clone()),
            answers: self.running.iter().filter(|k| self.alive(**k)).filter_map(answer).collect(),
        }
    }

    pub fn decide(&self) -> EtcdStep {
        let latch = self.noted(&self.observed());
        decide(&self.settings, &self.workload(), &self.observed(), &self.target, &latch, self.now)
    }

    /// The latch, with the claims of members as a separate pass would store them.
    pub fn noted(&self, observed: &ObservedEtcd) -> EtcdLatch {
        let EtcdLatch { claims, answered, position, .. } = self.latch.clone();
        match decide(&self.settings, &self.workload(), observed, &self.target, &self.latch, self.now) {
            MemberStep::Latch(new) if (EtcdLatch { position, claims, answered, ..new.clone() }) == self.latch => {
                EtcdLatch { claims: new.claims, answered: new.answered, ..self.latch.clone() }
            }
            _ => self.latch.clone(),
        }
    }

    /// Runs one pass. Returns whether it changed something.
    pub fn pass(&mut self, fate: Fate) -> bool {
        self.latch = self.noted(&self.observed());
        let (step, then) = match self.decide() {
            MemberStep::ActThen { action, latch } => (MemberStep::Act(action), Some(latch)),
            step => (step, None),
        };
        self.check(&step);
        if let (Some(latch), Fate::Done) = (then, fate) {
            self.latch = latch;
        }
        match step {
            MemberStep::LabelPod { .. } => unreachable!("members of etcd have no roles"),
            MemberStep::EnlargeClaim(_) => unreachable!("a driver enlarges no claim"),
            MemberStep::ActThen { .. } => unreachable!("it was taken apart"),
            // The user does what the message asks for.
            MemberStep::Stop { reason: "OrphanedVolumes", .. } if self.latch.bootstrapped => {
                let members: BTreeSet<_> = self.members.iter().filter_map(|member| self.ordinal(member)).collect();
                let orphans = self.claims.iter_mut().filter(|(k, _)| !members.contains(k));
                orphans.for_each(|(_, claim)| claim.terminating = true);
            }
            MemberStep::Quiet | MemberStep::Wait { .. } | MemberStep::Stop { .. } => return false,
            MemberStep::Latch(latch) => self.latch = latch,
            MemberStep::Scale(replicas) => {
                self.latch.replicas = Some(replicas);
                if fate != Fate::Crash {
                    (self.start, self.replicas) = (0, replicas);
                    self.unseen = true;
                }
            }
            MemberStep::Only(ordinal) => {
                (self.start, self.replicas) = (ordinal, 1);
                self.unseen = true;
            }
            MemberStep::DeleteClaim { uid, .. } => {
                let known = self.latch.claims.values().flatten().any(|known| **known == *uid);
                assert!(known || self.latch.own.recovery.is_some(), "no member is known to have had claim {uid}");
                self.claims.values_mut().filter(|claim| claim.uid == uid).for_each(|claim| claim.terminating = true);
            }
            MemberStep::DeletePod { ordinal, uid } | MemberStep::EvictPod { ordinal, uid } => {
                let pod = self.pods.get_mut(&ordinal).filter(|pod| pod.uid == uid).expect("the pod it says is there");
                pod.terminating = true;
                self.running.remove(&ordinal);
            }
            MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) => self.initial = Some(initial),
            MemberStep::Act(EtcdAction::Call { call, .. }) => {
                self.calls.push(call.clone());
                match fate {
                    Fate::Lost => {}
                    Fate::Late => {
                        self.late.push(call);
                        self.harmed = true;
                    }
                    Fate::Done | Fate::Crash => self.call(&call),
                }
            }
        }
        true
    }

    /// The effect of a call on etcd.
    fn call(&mut self, call: &Call) {
        match call {
            Call::AddLearner { ordinal, .. } => {
                // `Peer URLs already exists`, `too many learner members in cluster`
                if self.member(*ordinal).is_none() && self.members.iter().all(|member| !member.learner) {
                    self.add_member(*ordinal, true);
                }
            }
            Call::AddVoter { ordinal, .. } => {
                if self.member(*ordinal).is_none() && self.members.iter().all(ListedMember::started) {
                    self.add_member(*ordinal, false);
                }
            }
            Call::Promote { member, .. } => {
                self.members.iter_mut().filter(|m| m.id == *member).for_each(|member| member.learner = false);
            }
            Call::Remove { ordinal, member } => {
                if *ordinal >= self.target.size && self.voters().into_iter().any(|voter| voter > *ordinal) {
                    self.early.insert(*ordinal);
                }
                self.members.retain(|m| m.id != *member);
                self.removed.insert(*member);
            }
            Call::Update { member, peer_url, .. } => {
                let updated = self.members.iter_mut().find(|m| m.id == *member).expect("it is in the list");
                assert!(!updated.learner, "it would get a vote");
                updated.peer_urls = vec![peer_url.clone()];
            }
            Call::MoveLeader { member, .. } => self.leader = *member,
            Call::Defragment { .. } | Call::Compact { .. } | Call::Disarm(_) => {}
        }
    }

    /// Checks the actions that the operator must never take.
    fn check(&self, step: &EtcdStep) {
        let voting = self.voters().len();
        let highest = self.voters().into_iter().max();
        match step {
            MemberStep::Act(EtcdAction::Call { call, via, cluster, .. }) => {
                assert!(self.has_quorum() && self.target.mode == Mode::Run, "I10: {call:?} without a quorum");
                assert!(self.alive(*via) && *cluster == CLUSTER, "{call:?} goes to a member that does not answer");
                match call {
                    Call::AddLearner { ordinal, .. } => {
                        assert!(self.members.iter().all(|m| !m.learner && m.started()), "I1, I2: {call:?}");
                        let data = self.claims.get(ordinal).and_then(|claim| self.disks.get(&claim.uid));
                        assert!(data.is_none(), "I5: {call:?} while {data:x?} lies there");
                        assert!(*ordinal < self.target.size, "{call:?} is not wanted");
                    }
                    Call::Remove { ordinal, member } => {
                        let member = self.members.iter().find(|m| m.id == *member).expect("it is in the list");
                        if !member.learner {
                            let others = self.voters().into_iter().filter(|v| v != ordinal && self.alive(*v)).count();
                            assert!(voting > 1 && others > (voting - 1) / 2, "I7: {call:?} leaves no quorum");
                            let beyond = *ordinal >= self.target.size;
                            assert!(!beyond || Some(*ordinal) == highest || !self.alive(*ordinal), "I8: {call:?}");
                            assert!(
                                !self.alive(*ordinal) || self.leader != member.id,
                                "I6: the leader is removed: {call:?}"
                            );
                        }
                    }
                    Call::AddVoter { ordinal, .. } => {
                        let has = self.settings.learners && Version::parse(self.version) >= Version::parse("3.4.0");
                        assert!(!has, "I2: {call:?} where there are learners");
                        assert!(
                            self.members.iter().all(|m| m.started() && self.alive_member(m)),
                            "I2: {call:?} while a member is away"
                        );
                        let data = self.claims.get(ordinal).and_then(|claim| self.disks.get(&claim.uid));
                        assert!(data.is_none(), "I5: {call:?} while {data:x?} lies there");
                        assert!(*ordinal < self.target.size, "{call:?} is not wanted");
                    }
                    Call::Promote { .. }
                    | Call::Update { .. }
                    | Call::MoveLeader { .. }
                    | Call::Defragment { .. }
                    | Call::Compact { .. }
                    | Call::Disarm(_) => {}
                }
            }
            MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) if initial.state == ClusterState::New => {
                assert!(!self.latch.bootstrapped && self.members.is_empty(), "I3: another cluster could start");
            }
            MemberStep::Act(EtcdAction::WriteInitialCluster(initial)) if initial.state == ClusterState::Forced => {
                let survivor = self.latch.own.recovery.as_ref().expect("the user said so").survivor;
                let others = self.pods.iter().filter(|(k, pod)| **k != survivor && !pod.terminating).count();
                assert!(self.start == survivor && self.replicas == 1 && others == 0, "another pod could start alone");
            }
            MemberStep::Only(_) => assert!(self.latch.own.recovery.is_some(), "nobody said so"),
            MemberStep::Scale(_) if self.initial.as_ref().is_some_and(|i| i.state == ClusterState::Forced) => {
                panic!("more than one pod could continue alone");
            }
            MemberStep::Scale(replicas) if *replicas < self.replicas => {
                assert!(highest.is_none_or(|highest| *replicas > highest), "I8: a voter loses its pod");
                assert!(self.has_quorum(), "lowered without a quorum");
            }
            MemberStep::DeleteClaim { uid, .. } => {
                let (k, _) =
                    self.claims.iter().find(|(_, claim)| claim.uid == *uid).expect("the claim it says is there");
                assert!(self.member(*k).is_none(), "I17: the claim of a member");
                let recovers = self.latch.own.recovery.is_some();
                assert!(!recovers || self.has_quorum(), "the last data is given up");
                assert!(
                    recovers || *k < self.replicas || !self.pods.contains_key(k),
                    "I6: the claim goes before its pod"
                );
            }
            MemberStep::EvictPod { ordinal, .. } => {
                assert_ne!(&*self.pods[ordinal].revision, self.template, "it has the present template");
            }
            MemberStep::DeletePod { ordinal, .. } => {
                let alone = self.latch.own.recovery.as_ref().is_some_and(|recovery| recovery.survivor == *ordinal);
                assert!(alone || !self.alive(*ordinal), "{step:?}: it is alive");
            }
            _ => {}
        }
        assert!(self.members.iter().filter(|member| member.learner).count() <= 1, "I2");
        let kept = serde_json::to_string(&self.latch).expect("it is data");
        let is_kept = |id: u64| kept.contains(&format!("{id:x}")) || kept.contains(&id.to_string());
        assert!(!self.members.iter().any(|member| is_kept(member.id)), "I16: {kept}");
        if !self.harmed {
            let early = self.early.iter().filter(|k| **k < self.replicas && self.member(**k).is_none()).count();
            let counted = u32::try_from(self.members.len() + early).expect("few");
            assert!(self.replicas.abs_diff(counted) <= 1, "I9");
        }
    }

    /// The StatefulSet controller and the kubelet act, and late calls happen.
    pub fn tick(&mut self) {
        self.now += 5;
        self.unseen = false;
        if self.has_quorum() {
            self.revision += 1;
            for call in std::mem::take(&mut self.late) {
                self.call(&call);
            }
        }
        let gone: Vec<_> = self.pods.iter().filter(|(_, pod)| pod.terminating).map(|(k, _)| *k).collect();
        for k in gone {
            self.pods.remove(&k);
            self.running.remove(&k);
        }
        let without_pod: Vec<_> =
            self.claims.iter().filter(|(k, c)| c.terminating && !self.pods.contains_key(k)).map(|(k, _)| *k).collect();
        for k in without_pod {
            if let Some(claim) = self.claims.remove(&k) {
                self.disks.remove(&claim.uid);
            }
        }
        let ordinals = self.start..self.start + self.replicas;
        self.pods.iter_mut().filter(|(k, _)| !ordinals.contains(k)).for_each(|(_, pod)| pod.terminating = true);
        for k in ordinals {
            if !self.claims.contains_key(&k) {
                let uid = format!("claim-{k}-{}", self.fresh()).into();
                let name = format!("data-e-{k}").into();
                self.claims.insert(
                    k,
                    VolumeClaim {
                        name,
                        uid,
                        created: self.now,
                        terminating: false,
                        lost: false,
                        size: ClaimSize::default(),
                    },
                );
            }
            if !self.pods.contains_key(&k) {
                let uid = format!("pod-{k}-{}", self.fresh()).into();
                let pod = pod(uid, self.template, self.now);
                self.pods.insert(k, pod);
            }
        }
        for k in self.pods.keys().copied().collect::<Vec<_>>() {
            self.start(k);
        }
        self.elect();
    }

    pub fn elect(&mut self) {
        let leads = self
            .members
            .iter()
            .any(|m| m.id == self.leader && !m.learner && self.ordinal(m).is_some_and(|k| self.alive(k)));
        if !leads && self.has_quorum() {
            let next = self.voters().into_iter().filter(|k| self.alive(*k)).max();
            self.leader = next.and_then(|k| self.member(k)).map_or(0, |member| member.id);
        }
    }

    /// Starts a container as etcd does: with its data, or with the list that it receives.
    fn start(&mut self, k: u32) {
        let ends = |code, message: &str| Some(Exit { code, message: message.into(), running_since: None });
        let Some(claim) = self.claims.get(&k) else { return };
        if self.running.contains(&k) && self.member(k).is_some_and(ListedMember::started) {
            return self
                .pods
                .get_mut(&k)
                .into_iter()
                .for_each(|pod| (pod.ready, pod.phase) = (true, PodPhase::Running));
        }
        if self.pods[&k].terminating || claim.terminating || claim.lost || self.unschedulable.contains(&k) {
            return;
        }
        let uid = claim.uid.clone();
        let exit = match (self.disks.get(&uid), self.initial.clone()) {
            (Some(id), _) if self.removed.contains(id) => {
                ends(0, "the member has been permanently removed from the cluster")
            }
            // `--force-new-cluster`
            (Some(id), Some(initial)) if initial.state == ClusterState::Forced => {
                let others: Vec<u64> =
                    self.members.iter().map(|member| member.id).filter(|other| other != id).collect();
                self.removed.extend(others);
                self.members.retain(|member| member.id == *id);
                None
            }
            (Some(_), _) => None,
            (None, None) => return,
            (None, Some(initial)) if initial.state == ClusterState::New => {
                assert!(self.members.is_empty(), "I3: a second cluster");
                let id = self.add_member(k, false);
                self.started(k, &uid, id);
                None
            }
            (None, Some(initial)) => match (self.member(k), self.fits(&initial, k)) {
                (_, (false, _)) => ends(1, "couldn't find local name \"e\" in the initial cluster configuration"),
                _ if !self.has_quorum_with(k) => ends(1, "could not retrieve cluster information from the given URLs"),
                // It lost its data before the list was closed: raft panics, and no vote ever depended on it.
                (Some(member), (_, true)) if member.started() && member.learner => ends(
                    2,
                    "tocommit(9) is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?",
                ),
                (Some(member), (_, true)) => {
                    assert!(!member.started(), "I4: e-{k} starts again without what it acknowledged");
                    let id = member.id;
                    self.started(k, &uid, id);
                    None
                }
                _ => ends(1, "error validating peerURLs: member count is unequal"),
            },
        };
        let pod = self.pods.get_mut(&k).expect("it is there");
        pod.phase = PodPhase::Running;
        pod.ready = exit.is_none();
        if exit.is_some() {
            pod.restarts += 1;
            pod.exit = exit;
            self.running.remove(&k);
        } else {
            self.running.insert(k);
        }
    }

    pub fn started(&mut self, k: u32, uid: &str, id: u64) {
        self.disks.insert(uid.into(), id);
        self.members.iter_mut().filter(|member| member.id == id).for_each(|member| member.name = format!("e-{k}"));
    }

    /// A process loses its data and restarts.
    pub fn wipe(&mut self, k: u32) {
        self.harmed = true;
        if let Some(claim) = self.claims.get(&k) {
            self.disks.remove(&claim.uid);
        }
        self.running.remove(&k);
    }

    /// Claim and pod are deleted by force. Their controller makes both again before anybody has seen that they were gone.
    pub fn lose_volume(&mut self, k: u32) {
        self.wipe(k);
        self.claims.remove(&k);
        self.pods.remove(&k);
        self.tick();
    }

    /// Whether the others still have a quorum, now and after the late calls, when the data of one member is lost.
    pub fn survives(&self, lost: u32) -> bool {
        let has_data =
            |k: &u32| *k != lost && self.claims.get(k).is_some_and(|c| !c.lost && self.disks.contains_key(&c.uid));
        let voting = self.voters().len();
        voting > 2 && self.late.is_empty() && self.voters().iter().filter(|k| has_data(k)).count() > voting / 2
    }

    /// Runs passes and ticks until everything is as wanted. I14: within bounds. I15: then nothing is done.
    pub fn settle(&mut self) {
        for _ in 0..600 {
            let step = self.decide();
            let sizes = [self.replicas as usize, self.members.len(), self.healthy(), self.pods.len()];
            if step == MemberStep::Quiet
                && self.late.is_empty()
                && sizes.iter().all(|size| *size == self.target.size as usize)
            {
                assert!(!self.pass(Fate::Done), "I15");
                assert!(self.members.iter().all(|member| !member.learner), "I9: a learner is left");
                return;
            }
            if !self.pass(Fate::Done) {
                self.now += 25;
            }
            self.tick();
        }
        panic!(
            "I14: still not quiet: {:?}\nmembers {:?}\npods {:?}\nlatch {:?}",
            self.decide(),
            self.members,
            self.pods,
            self.latch
        );
    }
}

pub(super) fn pod(uid: Box<str>, revision: &str, created: i64) -> Pod {
    Pod { uid, revision: revision.into(), created, phase: PodPhase::Pending, ready: false, ..Pod::example() }
}
