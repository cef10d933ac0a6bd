//! The agent keeps to the contract, and no write that `WAIT` confirmed is lost.

use std::time::{Duration, Instant};

use tillerman_agent::check::{Check, Step};
use tillerman_agent::client::Client;
use tillerman_agent::contract::{MemberState, Reason, Role};

use crate::cluster::{Member, RedisCluster};
use crate::writers::{Writers, lost};

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_keeps_to_the_contract() {
    let mut cluster = RedisCluster::new(2);
    cluster.members[0].start();
    cluster.members[1].primary.clear();
    cluster.members[1].start();
    for member in &cluster.members {
        member.until("it answers", |_| true).await;
    }
    let mut check = Check::new(Client::default(), cluster.members.iter().map(Member::url).collect());
    for step in Step::ONE.into_iter().chain(Step::TWO) {
        check.run(step).await.unwrap_or_else(|why| panic!("{}: {why}", step.rule()));
        eprintln!("ok: {}", step.rule());
    }
}

/// The primary hands over to another member, and follows it.
async fn switch_over(cluster: &RedisCluster, from: usize, to: usize, epoch: u64) {
    let state = cluster.demote(from, epoch - 1, 10_000).await.unwrap();
    assert_eq!((state.role, state.writable, state.waiting), (Role::Fenced, false, 0));
    // So nothing expires there, and its place in the stream stays.
    let replication = cluster.members[from].connect().await.unwrap().ask(&["INFO", "replication"]).await.unwrap();
    assert!(replication.contains("role:slave"), "{replication}");
    cluster.members[to].until("it has all", |target| target.has.contains(&state.has)).await;
    let others = cluster.others(to);
    cluster.promote(to, epoch, 1, &others).await.unwrap();
    for k in others {
        let state = cluster.follow(k, epoch, to, true).await.unwrap();
        assert_eq!((state.role, state.diverged, state.epoch), (Role::Replica, false, epoch), "{state:?}");
    }
}

/// The primary is lost, and another member takes over: the others are fenced, and that which has most is promoted.
async fn fail_over(cluster: &RedisCluster, from: usize, epoch: u64) -> usize {
    let others = cluster.others(from);
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
    let state = cluster.promote(to, epoch, 1, &others).await.unwrap();
    assert!(!state.writable, "nobody acknowledges yet: {state:?}");
    for k in others.into_iter().filter(|k| *k != to) {
        cluster.follow(k, epoch, to, true).await.unwrap();
    }
    to
}

/// Each member has every confirmed key.
async fn assert_nothing_lost(cluster: &RedisCluster, primary: usize, keys: &[String]) {
    let state = cluster.members[primary].state().await;
    for member in &cluster.members {
        member.until("it has all", |own| own.has.contains(&state.has)).await;
        assert_eq!(lost(member, keys).await, Vec::<String>::new(), "{}", member.name);
    }
}

fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

fn report(what: &str, mut gaps: Vec<Duration>) {
    gaps.sort();
    let (middle, most) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    eprintln!("{what}: gap of confirmed writes over {} rounds: p50 {middle:.0?}, max {most:.0?}", gaps.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_confirmed_write_is_lost_when_the_primary_hands_over() {
    let cluster = RedisCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4);
    let (mut gaps, mut copies) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        writers.more(200).await;
        writers.longest_gap();
        let (from, to) = (round % 3, (round + 1) % 3);
        let before = cluster.members[to].state().await;
        switch_over(&cluster, from, to, 2 + round as u64).await;
        writers.more(200).await;
        let state = cluster.members[to].until("all is confirmed", |state| state.confirmed == 1).await;
        assert_eq!(state.start, before.start, "it is not started again");
        gaps.push(writers.longest_gap());
        // The others continue where they were, and get no copy.
        let info = cluster.members[to].connect().await.unwrap().ask(&["INFO", "stats"]).await.unwrap();
        copies.push(info.lines().find_map(|line| line.strip_prefix("sync_full:")).map(str::to_owned));
    }
    assert!(copies.iter().take(2).all(|count| count.as_deref() == Some("0")), "{copies:?}");
    let keys = writers.stop().await;
    report("switch-over", gaps);
    assert_nothing_lost(&cluster, rounds() % 3, &keys).await;
}

/// How a primary is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// Redis is killed.
    Redis,
    /// Redis is stopped, and continues when another member is the primary.
    Paused,
    /// Its container is killed with all its processes.
    Container,
}

async fn assert_survives(lost: Lost) {
    let mut cluster = RedisCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4);
    let (mut gaps, mut primary) = (Vec::new(), 0);
    for round in 0..rounds() {
        let epoch = 2 + round as u64;
        writers.more(300).await;
        writers.longest_gap();
        match lost {
            Lost::Redis => cluster.members[primary].signal("KILL", "redis-server"),
            Lost::Paused => cluster.members[primary].signal("STOP", "redis-server"),
            Lost::Container => cluster.members[primary].kill(),
        }
        let to = fail_over(&cluster, primary, epoch).await;
        writers.more(200).await;
        gaps.push(writers.longest_gap());
        match lost {
            Lost::Redis => {}
            Lost::Paused => {
                cluster.members[primary].signal("CONT", "redis-server");
                writers.more(50).await;
                let state = cluster.fence(primary, epoch).await.unwrap();
                assert_eq!((state.role, state.writable), (Role::Fenced, false));
            }
            Lost::Container => cluster.members[primary].start(),
        }
        // The old one waits for an order.
        let old = cluster.members[primary].until("it answers", |_| true).await;
        assert_eq!((old.start.as_str(), old.writable), ("", false));
        cluster.promote(to, epoch, 1, &cluster.others(to)).await.unwrap();
        let state = cluster.follow(primary, epoch, to, true).await.unwrap();
        assert_eq!((state.role, state.diverged), (Role::Replica, false), "{state:?}");
        cluster.members[primary].until("it follows", |state| state.receiving && state.applying).await;
        primary = to;
    }
    let keys = writers.stop().await;
    report(&format!("fail-over ({lost:?})"), gaps);
    assert_nothing_lost(&cluster, primary, &keys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_confirmed_write_is_lost_when_the_primary_is_killed() {
    assert_survives(Lost::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_confirmed_write_is_lost_when_the_primary_stands_still_and_continues() {
    assert_survives(Lost::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_confirmed_write_is_lost_when_the_container_of_the_primary_is_killed() {
    assert_survives(Lost::Container).await;
}

/// All members are killed at once. The primary continues with the content of its append-only file.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_has_its_writes_after_a_full_outage() {
    let mut cluster = RedisCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4);
    writers.more(500).await;
    let before = cluster.members[0].state().await;
    for member in &mut cluster.members {
        member.kill();
    }
    let keys = writers.stop().await;
    for member in &mut cluster.members {
        member.start();
        member.until("it answers", |_| true).await;
    }
    cluster.members[2].until("a replica starts by itself", |state| !state.start.is_empty()).await;
    assert_eq!(cluster.members[0].state().await.start, "", "a primary waits for an order");
    cluster.promote(0, 1, 0, &[1, 2]).await.unwrap();
    let state = cluster.members[0].until("it takes writes", |state| state.writable).await;
    assert!(state.has.contains(&before.has) && state.start != before.start, "{state:?}");
    for k in [1, 2] {
        cluster.follow(k, 1, 0, true).await.unwrap();
        cluster.members[k].until("it follows", |state| state.receiving).await;
    }
    assert_nothing_lost(&cluster, 0, &keys).await;
}

/// `WAIT` counts only members that may acknowledge.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_acknowledge_confirms_nothing() {
    let cluster = RedisCluster::grown(2).await;
    let mut client = cluster.members[0].connect().await.unwrap();
    assert!(client.write("w1", Duration::from_secs(5)).await.unwrap());
    let state = cluster.follow(1, 1, 0, false).await.unwrap();
    assert!(!state.acknowledges, "{state:?}");
    cluster.members[1].until("it receives", |state| state.receiving).await;
    assert!(!client.write("w2", Duration::from_secs(2)).await.unwrap(), "it has it, and is not counted");
    let primary = cluster.members[0].state().await;
    assert_eq!(primary.acknowledging, Vec::<String>::new());
    cluster.members[1].until("it has all", |state| state.has.contains(&primary.has)).await;
    // While it tries to hand over, it takes no writes.
    let (refused, denied) = tokio::join!(cluster.demote(0, 1, 3000), async {
        let since = Instant::now();
        while client.ask(&["SET", "w0", "x"]).await.is_ok() {
            assert!(since.elapsed() < Duration::from_secs(3), "it takes writes");
        }
        client.ask(&["SET", "w0", "x"]).await.unwrap_err().to_string()
    });
    assert!(denied.starts_with("-NOPERM"), "{denied}");
    assert_eq!(refused.unwrap_err().reason, Reason::TimeOver);
    assert!(cluster.members[0].state().await.writable, "it continues");
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[1].until("it receives", |state| state.receiving).await;
    assert!(client.write("w3", Duration::from_secs(5)).await.unwrap());
    // Clients may remove neither the marker nor the role.
    for words in
        [&["FUNCTION", "FLUSH"][..], &["REPLICAOF", "NO", "ONE"], &["CONFIG", "SET", "min-replicas-to-write", "0"]]
    {
        assert!(client.ask(words).await.unwrap_err().to_string().starts_with("-NOPERM"), "{words:?}");
    }
    client.ask(&["FLUSHALL"]).await.unwrap();
    assert!(!cluster.members[0].state().await.has.is_none());
    let mut replica = cluster.members[1].connect().await.unwrap();
    assert!(replica.ask(&["SET", "w4", "x"]).await.is_err());
}

/// A member that gets a copy of a replica continues from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_seeded_from_a_replica_and_a_container_that_ends_hands_over() {
    let mut cluster = RedisCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 2);
    writers.more(200).await;
    let state = cluster.fence(2, 1).await.unwrap();
    assert_eq!(cluster.seed(2, 1, 1, Some("no".into())).await.unwrap_err().reason, Reason::HasData);
    cluster.seed(2, 1, 1, Some(state.start.clone())).await.unwrap();
    let is_new = |new: &MemberState| !new.start.is_empty() && new.start != state.start && new.busy.is_none();
    let new = cluster.members[2].until("it has a copy", is_new).await;
    assert!(new.has.contains(&state.has), "{new:?}");
    cluster.follow(2, 1, 0, true).await.unwrap();
    cluster.members[2].until("it follows", |state| state.receiving).await;
    cluster.members[0].signal("TERM", "redis-agent");
    switch_over(&cluster, 0, 1, 2).await;
    cluster.members[0].ended();
    writers.more(100).await;
    let keys = writers.stop().await;
    cluster.members[0].start();
    cluster.members[0].until("it runs", |state| !state.start.is_empty()).await;
    cluster.follow(0, 2, 1, true).await.unwrap();
    assert_nothing_lost(&cluster, 1, &keys).await;
}
