//! F20: members that cannot reach each other.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.
//!
//! Invariants (I11) are those of docs/design/members.md.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tillerman::members::driver::MemberStep;
use tillerman::members::etcd::state::{EtcdStep, ObservedEtcd};

use crate::check::assert_linearizable;
use crate::cluster::Cluster;
use crate::network::Network;

/// Members that are parted are left alone for longer than those that are dead.
const LONGER: u32 = 4;

impl Cluster {
    pub fn network(&self) -> &Network {
        self.pods.network.as_ref().expect("it was made with one")
    }

    /// Passes of which none may call, delete or scale, until a partition has lasted longer than members may be dead, and until
    /// something holds besides.
    async fn left_alone(&mut self, what: &str, mut holds: impl FnMut(&ObservedEtcd, &EtcdStep) -> bool) {
        let dead_after = u32::try_from(self.driver.settings.dead_after).expect("it is short");
        let long = Duration::from_secs(1) * dead_after * LONGER;
        let began = Instant::now();
        let mut held = false;
        while !held || began.elapsed() < long {
            assert!(began.elapsed() < 10 * long, "{what}");
            let (observed, step) = self.look().await;
            assert!(
                matches!(step, MemberStep::Wait { .. } | MemberStep::Stop { .. } | MemberStep::Latch(_)),
                "{step:?}"
            );
            held |= holds(&observed, &step);
            assert_eq!(self.pass_over(step), None);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(self.done, Vec::<String>::new());
    }

    /// Stores what is to be remembered; returns any other step.
    fn pass_over(&mut self, step: EtcdStep) -> Option<EtcdStep> {
        match step {
            MemberStep::Latch(latch) => self.latch = latch,
            MemberStep::Wait { .. } | MemberStep::Stop { .. } | MemberStep::Quiet => {}
            other => return Some(other),
        }
        None
    }

    /// The IDs of the members by ordinal.
    async fn ids(&mut self) -> BTreeMap<u32, u64> {
        let observed = self.look().await.0;
        let cluster = u64::from_str_radix(self.latch.cluster.as_deref().expect("it is known"), 16).expect("it is hex");
        assert!(observed.answers.values().all(|answer| answer.cluster == cluster), "I12: {:?}", observed.answers);
        observed.answers.into_iter().map(|(ordinal, answer)| (ordinal, answer.member)).collect()
    }

    /// The network is whole again: the same members come to rest, nothing was called for that, and nothing was lost.
    async fn heals(&mut self, before: &BTreeMap<u32, u64>) {
        self.network().heal();
        self.settle().await;
        assert_eq!(self.done, Vec::<String>::new());
        assert_eq!(self.refused, []);
        assert_eq!(self.ids().await, *before);
        self.assert_same_data().await;
    }
}

fn away(observed: &ObservedEtcd, ordinal: u32) -> bool {
    observed.answers.get(&ordinal).is_none_or(|answer| !answer.linearizable)
}

/// F20: a follower that cannot be reached is left alone for as long as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_parted_is_left_alone_and_comes_back() {
    let mut cluster = Cluster::networked(3).await;
    cluster.lead(0).await;
    let before = cluster.ids().await;
    let recorder = cluster.recorder();
    cluster.network().part(&[2]);
    cluster.left_alone("it is away, the others are not", |seen, _| away(seen, 2) && !away(seen, 0)).await;
    cluster.heals(&before).await;
    assert_linearizable(recorder, "f20-follower").await;
}

/// F20: parted from the others, a leader acknowledges nothing; they have another, and it follows when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_parted_is_followed_by_another() {
    let mut cluster = Cluster::networked(3).await;
    cluster.lead(1).await;
    let before = cluster.ids().await;
    let recorder = cluster.recorder();
    let old = before[&1];
    cluster.network().part(&[1]);
    let parted = recorder.now();
    let another = |seen: &ObservedEtcd, _: &EtcdStep| {
        away(seen, 1) && seen.answers.get(&0).is_some_and(|answer| answer.linearizable && answer.leader != old)
    };
    cluster.left_alone("another leads", another).await;
    let seen = recorder.since(parted);
    assert!(seen.acknowledged > 0, "the others take writes: {seen:?}");
    eprintln!("without a leader: {:.3?} without a write", seen.longest_gap);
    cluster.heals(&before).await;
    assert_linearizable(recorder, "f20-leader").await;
}

/// F20: none reaches another. Without a quorum nothing is called, whatever is wanted; and nothing needs to be, when they do again.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_all_parted_are_left_alone_and_come_back() {
    let mut cluster = Cluster::networked(3).await;
    let before = cluster.ids().await;
    let recorder = cluster.recorder();
    cluster.network().shatter();
    cluster.target.size = 5;
    let lost = |_: &ObservedEtcd, step: &EtcdStep| matches!(step, MemberStep::Stop { reason: "QuorumLost", .. });
    cluster.left_alone("the quorum is lost", lost).await;
    cluster.target.size = 3;
    cluster.heals(&before).await;
    assert_linearizable(recorder, "f20-all").await;
}

/// F20: a learner that cannot reach the others, and one of them that cannot when it has: nobody gets a vote before the others have
/// heard of it, and in the end all are members.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_joins_through_partitions() {
    let mut cluster = Cluster::networked(3).await;
    cluster.lead(0).await;
    // It tries one after the other, each until it gives up.
    cluster.driver.settings.join_deadline = 600;
    let recorder = cluster.recorder();
    cluster.network().part(&[3]);
    cluster.target.size = 4;
    let reached_nobody = |cluster: &mut Cluster, _: &EtcdStep| {
        assert!(!cluster.done.iter().any(|done| done.starts_with("give member")), "{:#?}", cluster.done);
        cluster.pods.pods.get(&3).is_some_and(|running| running.pod.exit.is_some())
    };
    cluster.until("it reached nobody, and ended", reached_nobody).await;
    cluster.network().heal();
    let end = Instant::now() + Duration::from_secs(120);
    while !cluster.look().await.0.members.iter().flatten().any(|member| member.name == "e-3") {
        assert!(Instant::now() < end, "it has started");
        cluster.pass().await;
    }
    cluster.network().part(&[1]);
    let voted = |cluster: &mut Cluster, _: &EtcdStep| cluster.done.iter().any(|done| done == "give member 3 a vote");
    cluster.until("it votes while another is away", voted).await;
    cluster.network().heal();
    cluster.settle().await;
    let count =
        |what: &str| cluster.done.iter().filter(|done| done.starts_with(what) && !done.contains("not yet")).count();
    assert_eq!((count("add member"), count("give member"), count("remove")), (1, 1, 0), "{:#?}", cluster.done);
    cluster.assert_same_data().await;
    assert_linearizable(recorder, "f20-joins").await;
}
