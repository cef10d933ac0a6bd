//! The primary hands over, or is lost, while clients write.

use std::time::Duration;

use tillerman::agent::contract::{MemberState, Reason, Role};

use crate::cluster::{DatabaseCluster, server};
use crate::writers::{Writers, lost};

/// The primary hands over to another member, and follows it.
pub async fn switch_over(cluster: &DatabaseCluster, from: usize, to: usize, epoch: u64) {
    let state = cluster.demote(from, epoch - 1, 10_000).await.unwrap();
    assert_eq!((state.role, state.writable, state.waiting), (Role::Fenced, false, 0));
    cluster.members[to].until("it has all", |target| target.has.contains(&state.has)).await;
    let others = others(cluster, to);
    cluster.promote(to, epoch, 1, &others).await.unwrap();
    for k in others {
        let state = cluster.follow(k, epoch, to, true).await.unwrap();
        assert_eq!((state.role, state.diverged, state.epoch), (Role::Replica, false, epoch), "{state:?}");
    }
    cluster.members[to].until("it takes writes", |state| state.writable).await;
}

fn others(cluster: &DatabaseCluster, of: usize) -> Vec<usize> {
    (0..cluster.members.len()).filter(|k| *k != of).collect()
}

/// The primary is lost, and another member takes over: the others are fenced, and that which has most is promoted.
async fn fail_over(cluster: &DatabaseCluster, from: usize, epoch: u64) -> usize {
    let others = others(cluster, from);
    let mut fenced: Vec<(usize, MemberState)> = Vec::new();
    for k in others.clone() {
        let before = cluster.members[k].state().await;
        let state = cluster.fence(k, epoch).await.unwrap();
        assert_eq!((state.role, state.receiving, state.acknowledges), (Role::Fenced, false, false));
        assert_eq!(state.start, before.start, "it is not started again");
        fenced.push((k, state));
    }
    let best = fenced.iter().find(|(_, a)| fenced.iter().all(|(_, b)| a.got.contains(&b.got)));
    let to = best.expect("one has everything").0;
    cluster.members[to].until("it has applied all", |state| state.has.contains(&state.got)).await;
    cluster.promote(to, epoch, 1, &others).await.unwrap();
    for k in others.into_iter().filter(|k| *k != to) {
        cluster.follow(k, epoch, to, true).await.unwrap();
    }
    to
}

/// Each member has every acknowledged key.
async fn assert_nothing_lost(cluster: &DatabaseCluster, primary: usize, keys: &[u64]) {
    let state = cluster.members[primary].state().await;
    for member in &cluster.members {
        member.until("it has applied all", |own| own.has.contains(&state.has)).await;
        assert_eq!(lost(member, keys).await, Vec::<u64>::new(), "{}", member.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_primary_hands_over() {
    let cluster = DatabaseCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4).await;
    let mut gaps = Vec::new();
    for round in 0..rounds() {
        writers.more(200).await;
        writers.longest_gap();
        let (from, to) = (round % 3, (round + 1) % 3);
        switch_over(&cluster, from, to, 2 + round as u64).await;
        writers.more(200).await;
        cluster.members[to].until("all is acknowledged", |state| state.confirmed == 1).await;
        gaps.push(writers.longest_gap());
    }
    let keys = writers.stop().await;
    report("switch-over", gaps);
    assert_nothing_lost(&cluster, rounds() % 3, &keys).await;
}

/// The operator asks for acknowledgements before the first replica acknowledges. Clients do not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_begin_without_a_gap() {
    let cluster = DatabaseCluster::grown(2).await;
    cluster.promote(0, 1, 0, &[1]).await.unwrap();
    cluster.follow(1, 1, 0, false).await.unwrap();
    let writers = Writers::start(&cluster.members[..1], 4).await;
    writers.more(100).await;
    writers.longest_gap();
    let state = cluster.promote(0, 1, 1, &[1]).await.unwrap();
    assert_eq!((state.acks, state.confirmed), (1, 0));
    writers.more(100).await;
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[0].until("all is confirmed", |state| state.confirmed == 1).await;
    writers.more(100).await;
    let gap = writers.longest_gap();
    let keys = writers.stop().await;
    eprintln!("longest gap {gap:.0?}");
    assert!(gap < Duration::from_millis(900), "nothing had to be released: {gap:?}");
    assert_nothing_lost(&cluster, 0, &keys).await;
}

/// How a primary is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// Its database is killed.
    Database,
    /// Its database stops, and continues when another member is the primary.
    Paused,
    /// Its container is killed with all its processes.
    Container,
}

async fn assert_survives(lost: Lost) {
    let mut cluster = DatabaseCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4).await;
    let (mut gaps, mut primary, mut seeded) = (Vec::new(), 0, 0);
    for round in 0..rounds() {
        let epoch = 2 + round as u64;
        writers.more(300).await;
        writers.longest_gap();
        match lost {
            Lost::Database => cluster.members[primary].signal("KILL", server()),
            Lost::Paused => cluster.members[primary].signal("STOP", server()),
            Lost::Container => cluster.member(primary).kill(),
        }
        let to = fail_over(&cluster, primary, epoch).await;
        writers.more(200).await;
        gaps.push(writers.longest_gap());
        match lost {
            Lost::Database => {}
            Lost::Paused => {
                cluster.members[primary].signal("CONT", server());
                writers.more(50).await;
                let state = cluster.fence(primary, epoch).await.unwrap();
                assert_eq!((state.role, state.writable), (Role::Fenced, false));
            }
            Lost::Container => cluster.member(primary).start(),
        }
        // The old one waits for an order, and takes back what nobody acknowledged.
        let old = cluster.members[primary].until("it answers", |_| true).await;
        assert_eq!((old.start.as_str(), old.writable), ("", false));
        cluster.promote(to, epoch, 1, &others(&cluster, to)).await.unwrap();
        // As the operator does: it acknowledges after it has caught up.
        seeded += usize::from(cluster.returns(primary, epoch, to, false).await);
        let new = cluster.members[to].state().await;
        cluster.members[primary]
            .until("it has caught up", |state| state.receiving && state.has.contains(&new.has))
            .await;
        cluster.follow(primary, epoch, to, true).await.unwrap();
        cluster.members[primary].until("it follows", |state| state.receiving && state.applying).await;
        primary = to;
    }
    let keys = writers.stop().await;
    report(&format!("fail-over ({lost:?}), {seeded} times seeded"), gaps);
    assert_nothing_lost(&cluster, primary, &keys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_primary_is_killed() {
    assert_survives(Lost::Database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_primary_stands_still_and_continues() {
    assert_survives(Lost::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_container_of_the_primary_is_killed() {
    assert_survives(Lost::Container).await;
}

/// How often each move is made: `ROUNDS`.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

fn report(what: &str, mut gaps: Vec<Duration>) {
    gaps.sort();
    let (middle, most) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    eprintln!("{what}: gap of acknowledged writes over {} rounds: p50 {middle:.0?}, max {most:.0?}", gaps.len());
}

/// As when a node is drained: the operator sees that the pod ends, and has time for a switch-over.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_asked_to_end_goes_on_until_another_takes_over() {
    let mut cluster = DatabaseCluster::grown(3).await;
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    cluster.members[0].run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    cluster.members[0].signal("TERM", "tillerman-agent");
    cluster.members[0].until_logged("the agent ends").await;
    cluster.members[0].run("INSERT INTO app.t VALUES (1)").await.unwrap();
    switch_over(&cluster, 0, 1, 2).await;
    cluster.member(0).stop();
    cluster.members[1].run("INSERT INTO app.t VALUES (2)").await.unwrap();
    assert_eq!(cluster.members[1].numbers("SELECT id FROM app.t ORDER BY id").await, [1, 2]);
}

/// A primary whose commits wait does not hand over, and continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_cannot_hand_over_in_time_takes_writes_again() {
    let cluster = DatabaseCluster::grown(2).await;
    let primary = &cluster.members[0];
    primary.run("CREATE DATABASE app").await.unwrap();
    primary.run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    cluster.fence(1, 1).await.unwrap();
    let address = primary.address;
    let waiting = tokio::spawn(async move {
        let mut connection = crate::cluster::connect(address).await.unwrap();
        mysql_async::prelude::Queryable::query_drop(&mut connection, "INSERT INTO app.t VALUES (1)").await
    });
    primary.until("a commit waits", |state| state.waiting == 1).await;
    let refused = cluster.demote(0, 1, 1000).await.unwrap_err();
    assert_eq!(refused.reason, Reason::TimeOver);
    let state = primary.state().await;
    assert_eq!((state.role, state.writable, state.waiting), (Role::Primary, true, 1));
    assert!(!waiting.is_finished(), "no commit is acknowledged by the attempt");
    cluster.follow(1, 1, 0, true).await.unwrap();
    waiting.await.unwrap().unwrap();
    let state = cluster.demote(0, 1, 10_000).await.unwrap();
    assert_eq!((state.role, state.writable), (Role::Fenced, false));
    assert!(primary.run("INSERT INTO app.t VALUES (2)").await.is_err());
    assert!(cluster.promote(0, 1, 1, &[1]).await.unwrap().writable, "it was given up");
    primary.run("INSERT INTO app.t VALUES (2)").await.unwrap();
}
