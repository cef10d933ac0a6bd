//! A cluster under the driver: the passes that the operator does, on the pods of [`crate::pods`].
//!
//! Invariants (I11) are those of docs/design/members.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use etcd_client::Client;
use futures::future::{BoxFuture, ready};
use tillerman::chaos::record::Recorder;
use tillerman::members::driver::{ActionOutcome, MemberDriver, MemberStep};
use tillerman::members::etcd::client::{Access, Tls};
use tillerman::members::etcd::driver::Etcd;
use tillerman::members::etcd::state::{Call, EtcdAction, EtcdLatch, EtcdSettings, EtcdStep, NoSpace, ObservedEtcd};
use tillerman::members::operator::{ConfigMapData, Operator};
use tillerman::members::url::Pattern;
use tillerman::members::workload::WorkloadTarget;

use crate::pods::StatefulSet;
use crate::writer::Writer;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(240);

pub struct Cluster {
    pub pods: StatefulSet,
    pub driver: Etcd,
    pub config_map: Map,
    pub target: WorkloadTarget,
    pub latch: EtcdLatch,
    /// Everything that was done, in words.
    pub done: Vec<String>,
    /// Outcomes of calls that were neither done nor to be repeated.
    pub refused: Vec<ActionOutcome>,
}

/// The `ConfigMap`, shared with those who start pods.
#[derive(Clone, Default)]
pub struct Map(Arc<Mutex<Option<BTreeMap<String, String>>>>);

impl Map {
    /// Changes it as somebody else would.
    pub fn change(&self, key: &str, value: impl FnOnce(&str) -> String) {
        let mut data = self.0.lock().expect("nobody panicked");
        let entry = data.get_or_insert_default().entry(key.into()).or_default();
        *entry = value(entry);
    }
}

impl Operator for Map {
    fn read_config_map(&self) -> BoxFuture<'_, Result<Option<ConfigMapData>, String>> {
        Box::pin(ready(Ok(self.0.lock().expect("nobody panicked").clone())))
    }

    fn write_config_map(&self, data: ConfigMapData) -> BoxFuture<'_, Result<(), String>> {
        *self.0.lock().expect("nobody panicked") = Some(data);
        Box::pin(ready(Ok(())))
    }
}

impl Cluster {
    /// Nothing yet, and this many members wanted.
    pub fn new(size: u32) -> Self {
        Self::of(StatefulSet::new(), None, size)
    }

    /// One of these pods, with certificates where they have them.
    pub fn of(pods: StatefulSet, tls: Option<Tls>, size: u32) -> Self {
        let pattern = |port| Pattern::new(&pods.pattern(port), "e").expect("it has an ordinal");
        let settings = EtcdSettings {
            peer_url: pattern(2380),
            client_url: pattern(2379),
            join_deadline: 60,
            dead_after: 3,
            version: None,
            defragmentation: None,
            no_space: NoSpace::Reclaim,
            learners: true,
            quota: None,
        };
        let access = Access { tls, user: None, timeout: Duration::from_secs(3) };
        Self {
            driver: Etcd { stateful_set: "e".to_owned(), settings, access },
            config_map: Map::default(),
            target: WorkloadTarget::of(size),
            latch: EtcdLatch::default(),
            pods,
            done: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// One at rest with so many members.
    pub async fn grown(size: u32) -> Self {
        let mut cluster = Self::new(size);
        cluster.settle().await;
        cluster.done.clear();
        cluster
    }

    /// One at rest whose members have a network between them that can be parted.
    pub async fn networked(size: u32) -> Self {
        let mut cluster = Self::of(StatefulSet::networked().await, None, size);
        cluster.settle().await;
        cluster.done.clear();
        cluster
    }

    /// Clients of all members that there may ever be, which record their answers.
    pub fn recorder(&self) -> Recorder {
        let urls = (0..6).map(|ordinal| self.pods.client_url(ordinal)).collect();
        let access = Access { timeout: Duration::from_secs(1), ..self.driver.access.clone() };
        Recorder::start(access, urls, "recorded", 1)
    }

    /// Writes to all members that there may ever be.
    pub fn writer(&self) -> Writer {
        Writer::start((0..6).map(|ordinal| self.pods.client_url(ordinal)).collect())
    }

    pub fn tick(&mut self) {
        self.pods.config_map = self.config_map.0.lock().expect("nobody panicked").clone().unwrap_or_default();
        self.pods.tick(now());
    }

    /// What is seen, and what is to be done about it.
    pub async fn look(&mut self) -> (ObservedEtcd, EtcdStep) {
        self.tick();
        let workload = self.pods.workload();
        let observed = self.driver.observe(&workload, &self.latch, &self.config_map).await;
        let step = self.driver.decide(&workload, &observed, &self.target, &self.latch, now());
        (observed, step)
    }

    /// One pass.
    pub async fn pass(&mut self) -> EtcdStep {
        let (_, step) = self.look().await;
        let (do_it, then) = match step.clone() {
            MemberStep::ActThen { action, latch } => (MemberStep::Act(action), Some(latch)),
            step => (step, None),
        };
        match do_it {
            MemberStep::LabelPod { .. } => unreachable!("members of etcd have no roles"),
            MemberStep::ActThen { .. } => unreachable!("it was taken apart"),
            MemberStep::Quiet | MemberStep::Wait { .. } | MemberStep::Stop { .. } => {}
            MemberStep::Latch(latch) => self.latch = latch,
            MemberStep::Scale(replicas) => {
                self.done.push(format!("scale to {replicas}"));
                self.latch.replicas = Some(replicas);
                (self.pods.start, self.pods.replicas) = (0, replicas);
            }
            MemberStep::Only(ordinal) => {
                self.done.push(format!("no pod but {ordinal}"));
                (self.pods.start, self.pods.replicas) = (ordinal, 1);
            }
            MemberStep::EnlargeClaim(_) => unreachable!("a driver enlarges no claim"),
            MemberStep::DeleteClaim { name, uid } => {
                self.done.push(format!("delete {name}"));
                self.pods
                    .claims
                    .values_mut()
                    .filter(|claim| claim.uid == uid)
                    .for_each(|claim| claim.terminating = true);
            }
            MemberStep::DeletePod { ordinal, uid } | MemberStep::EvictPod { ordinal, uid } => {
                self.done.push(format!("delete pod {ordinal}"));
                self.pods.delete(ordinal, &uid);
            }
            MemberStep::Act(action) => {
                let what = self.driver.describe(&action);
                match self.driver.act(&action, &self.config_map).await {
                    ActionOutcome::Done => {
                        self.done.push(what);
                        self.latch = then.unwrap_or_else(|| self.latch.clone());
                    }
                    ActionOutcome::Wait { why, .. } => self.done.push(format!("{what}: not yet: {why}")),
                    outcome => self.refused.push(outcome),
                }
            }
        }
        step
    }

    /// Runs passes until a condition holds for the next step.
    pub async fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self, &EtcdStep) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let step = Box::pin(self.pass()).await;
            if holds(self, &step) {
                return;
            }
            if Instant::now() > end {
                eprintln!("{:#?}", self.look().await.0.answers);
            }
            assert!(Instant::now() < end, "{what}: still {step:?} after {:#?}; refused: {:?}", self.done, self.refused);
            if !matches!(
                step,
                MemberStep::Act(_) | MemberStep::ActThen { .. } | MemberStep::Latch(_) | MemberStep::Scale(_)
            ) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Runs passes until there is nothing to do, with as many pods and members as wanted.
    pub async fn settle(&mut self) {
        self.until("settles", |cluster, step| {
            *step == MemberStep::Quiet && cluster.pods.pods.len() == cluster.target.size as usize
        })
        .await;
        let (observed, step) = self.look().await;
        assert_eq!(step, MemberStep::Quiet, "and stays so");
        let members = observed.members.expect("it has a quorum");
        assert_eq!(members.len(), self.target.size as usize);
        assert!(members.iter().all(|member| member.started() && !member.learner), "{members:?}");
        assert_eq!(self.pods.replicas, self.target.size);
    }

    /// Waits until a size is reached, and returns what was done for it.
    pub async fn resize(&mut self, size: u32) -> Vec<String> {
        self.target.size = size;
        self.settle().await;
        std::mem::take(&mut self.done)
    }

    pub async fn client(&self, ordinal: u32) -> Client {
        Client::connect([self.pods.client_url(ordinal)], None).await.expect("it is a URL")
    }

    /// The ordinal of the leader, as an ordinal sees it.
    pub async fn leader(&mut self) -> u32 {
        let (observed, _) = self.look().await;
        let leader = observed.answers.values().find(|answer| answer.linearizable).expect("it has a quorum").leader;
        let leads = |(ordinal, answer): (&u32, &tillerman::members::etcd::state::MemberAnswer)| {
            (answer.member == leader).then_some(*ordinal)
        };
        observed.answers.iter().find_map(leads).expect("the leader answers")
    }

    /// Lets an ordinal lead.
    pub async fn lead(&mut self, ordinal: u32) {
        let leader = self.leader().await;
        if leader != ordinal {
            let member = self.member(ordinal).await;
            self.client(leader).await.move_leader(member).await.expect("the leader moves");
        }
    }

    /// The ID of an ordinal's member.
    pub async fn member(&mut self, ordinal: u32) -> u64 {
        self.look().await.0.answers[&ordinal].member
    }

    /// I12: all members have the same data.
    pub async fn assert_same_data(&mut self) {
        let (observed, _) = self.look().await;
        let revision = observed.answers.values().map(|answer| answer.revision).min().expect("they answer");
        let revision = i64::try_from(revision).expect("it is small");
        let mut hashes = std::collections::BTreeSet::new();
        for ordinal in observed.answers.keys() {
            let hash = self.client(*ordinal).await.hash_kv(revision).await.expect("it answers");
            hashes.insert((hash.hash(), hash.compact_version()));
        }
        assert_eq!(hashes.len(), 1, "at revision {revision}");
    }
}

/// Whether a step calls the cluster.
pub fn calls(step: &EtcdStep) -> Option<&Call> {
    match step {
        MemberStep::Act(EtcdAction::Call { call, .. })
        | MemberStep::ActThen { action: EtcdAction::Call { call, .. }, .. } => Some(call),
        _ => None,
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_secs()).expect("it is before the end of time")
}
