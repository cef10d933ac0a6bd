//! The driver of etcd.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use etcd_client::CompactionOptions;
use tillerman::members::driver::{ActionOutcome, MemberStep};
use tillerman::members::etcd::state::{Call, Defragmentation, EtcdStep, NoSpace, Version};
use tokio::time::timeout;

use crate::cluster::{Cluster, calls};
use crate::pods::tools;

/// Nothing was refused, and nobody knows nothing.
fn assert_smooth(cluster: &Cluster) {
    assert_eq!(cluster.refused, [], "{:#?}", cluster.done);
}

/// A definite refusal: the leader has not been connected to the others for long enough.
fn unhealthy<T, E>(sent: &Result<Result<T, etcd_client::Error>, E>) -> bool {
    matches!(sent, Ok(Err(error)) if error.to_string().contains("unhealthy cluster"))
}

fn freeze(cluster: &Cluster, ordinals: std::ops::Range<u32>, signal: &str) {
    for ordinal in ordinals {
        cluster.pods.signal(ordinal, signal);
    }
}

fn stopped(step: &EtcdStep, reason: &str) -> bool {
    matches!(step, MemberStep::Stop { reason: is, .. } if *is == reason)
}

/// F1 and F16: the first learner is added as soon as the cluster is there, and no acknowledged write is lost on the way.
#[tokio::test(flavor = "multi_thread")]
async fn one_to_five_and_back_loses_no_write() {
    let mut cluster = Cluster::grown(1).await;
    let writer = cluster.writer();
    let mut before = 1;
    for size in [3, 5, 3, 1_u32] {
        let began = std::time::Instant::now();
        let done = cluster.resize(size).await;
        eprintln!("from {before} to {size} in {:.1?}, longest gap {:.3?}", began.elapsed(), writer.longest_gap());
        let count = |what: &str| done.iter().filter(|done| done.starts_with(what) && !done.contains("not yet")).count();
        let (joined, left) = (size.saturating_sub(before) as usize, before.saturating_sub(size) as usize);
        assert_eq!((count("add member"), count("give member")), (joined, joined), "{done:#?}");
        assert_eq!((count("remove member"), count("delete data")), (left, left), "{done:#?}");
        before = size;
        cluster.assert_same_data().await;
        assert_eq!(cluster.pods.claims.len(), size as usize, "claims of those that left are gone: {done:#?}");
    }
    assert_smooth(&cluster);
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F3: a call whose answer was lost happens later, and is found by what the list says.
#[tokio::test(flavor = "multi_thread")]
async fn calls_whose_answers_were_lost_are_found_in_the_list() {
    let mut cluster = Cluster::grown(3).await;
    cluster.lead(0).await;
    let mut client = cluster.client(0).await;

    // An add: it is requested while the others are frozen, and nobody hears of it. A leader is asked again while it has not been
    // connected for five seconds.
    let url = cluster.driver.settings.peer_url.url(3);
    let lost = loop {
        freeze(&cluster, 1..3, "STOP");
        let learner = etcd_client::MemberAddOptions::new().with_is_learner();
        let add = timeout(Duration::from_secs(1), client.member_add(vec![url.clone()], Some(learner))).await;
        if !unhealthy(&add) {
            break add;
        }
        freeze(&cluster, 1..3, "CONT");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(lost.is_err(), "it was to be lost: {lost:?}");
    cluster.target.size = 4;
    cluster.until("no quorum", |_, step| stopped(step, "QuorumLost")).await;
    freeze(&cluster, 1..3, "CONT");
    let done = cluster.resize(4).await;
    assert!(done.iter().filter(|done| *done == "add member 3 as a learner").count() <= 1, "{done:#?}");

    // A removal.
    cluster.lead(0).await;
    let victim = cluster.member(3).await;
    let mut client = cluster.client(0).await;
    let lost = loop {
        freeze(&cluster, 1..4, "STOP");
        let remove = timeout(Duration::from_secs(1), client.member_remove(victim)).await;
        freeze(&cluster, 1..4, "CONT");
        if !unhealthy(&remove) {
            break remove;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(lost.is_err(), "it was to be lost: {lost:?}");
    cluster.resize(3).await;
    assert_eq!(cluster.refused, []);
}

/// F6: a claim that was kept has the ID of the member that left; it is never started from, and only the user deletes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_claim_stays_and_its_ordinal_joins_when_the_user_has_deleted_it() {
    let mut cluster = Cluster::grown(3).await;
    cluster.target.delete_claims = false;
    let writer = cluster.writer();
    let kept = cluster.pods.claims[&2].uid.clone();
    cluster.resize(2).await;
    assert_eq!(cluster.pods.claims[&2].uid, kept);
    cluster.target.size = 3;
    let mut step = cluster.pass().await;
    while !matches!(step, MemberStep::Stop { .. }) {
        assert!(matches!(step, MemberStep::Latch(_) | MemberStep::Quiet | MemberStep::Wait { .. }), "{step:?}");
        step = cluster.pass().await;
    }
    assert!(
        matches!(&step, MemberStep::Stop { reason: "OrphanedVolumes", why } if why.contains("is kept")),
        "{step:?}"
    );
    assert_eq!(cluster.pods.claims[&2].uid, kept);
    // What the message says.
    cluster.pods.claims.get_mut(&2).expect("it is there").terminating = true;
    let done = cluster.resize(3).await;
    assert_ne!(cluster.pods.claims[&2].uid, kept, "{done:#?}");
    assert_eq!(cluster.pods.pods[&2].pod.restarts, 0, "it never failed to start");
    assert_smooth(&cluster);
    assert_eq!(writer.lost(&cluster.pods.client_url(2)).await, 0);
}

/// F7: the leader hands over before it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_to_leave_hands_over_before() {
    let mut cluster = Cluster::grown(3).await;
    cluster.lead(2).await;
    let writer = cluster.writer();
    let done = cluster.resize(2).await;
    let at = |what: &str| done.iter().position(|done| done == what).unwrap_or_else(|| panic!("no {what} in {done:#?}"));
    assert!(at("let member 0 lead") < at("remove member 2"));
    assert!(at("remove member 2") < at("scale to 2"));
    assert!(at("scale to 2") < at("delete data-e-2"));
    eprintln!("longest gap {:.3?}", writer.longest_gap());
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F8: while one of three is away nobody is added, and none of the two others leaves.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_is_away_and_the_others_are_left_alone() {
    let mut cluster = Cluster::grown(3).await;
    cluster.pods.lose_node(1);
    for size in [5, 2] {
        cluster.target.size = size;
        for _ in 0..5 {
            let step = cluster.pass().await;
            assert!(matches!(step, MemberStep::Wait { .. } | MemberStep::Latch(_)), "{size}: {step:?}");
        }
    }
    cluster.pods.unschedulable.clear();
    cluster.resize(2).await;
}

/// F8: one whose data is spoilt is replaced when its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn one_whose_data_is_spoilt_is_replaced() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    let spoilt = cluster.pods.claims[&1].uid.clone();
    cluster.pods.spoil(1);
    cluster.until("is replaced", |_, step| matches!(calls(step), Some(Call::Remove { ordinal: 1, .. }))).await;
    cluster.settle().await;
    assert_ne!(cluster.pods.claims[&1].uid, spoilt);
    cluster.assert_same_data().await;
    assert_eq!(writer.lost(&cluster.pods.client_url(1)).await, 0);
}

/// F9: without a quorum nothing is called, deleted or scaled; it continues by itself when one comes back.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_nothing_is_done_until_it_is_back() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    cluster.target.size = 5;
    for ordinal in [1, 2] {
        cluster.pods.lose_node(ordinal);
    }
    for _ in 0..3 {
        let step = cluster.pass().await;
        assert!(stopped(&step, "QuorumLost"), "{step:?}");
    }
    assert!(cluster.done.is_empty());
    cluster.pods.unschedulable.remove(&1);
    cluster.until("heals", |_, step| matches!(step, MemberStep::Wait { .. })).await;
    cluster.pods.unschedulable.clear();
    cluster.settle().await;
    assert_eq!(writer.lost(&cluster.pods.client_url(4)).await, 0);
}

/// F10: the first member loses its data while clients write to it, and starts no second cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_lost_its_data_joins_again_as_a_learner() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    let before = cluster.member(0).await;
    cluster.pods.wipe(0);
    cluster
        .until("ends", |cluster, _| cluster.pods.pods[&0].pod.exit.as_ref().is_some_and(|exit| exit.code == 1))
        .await;
    cluster.until("is replaced", |_, step| matches!(calls(step), Some(Call::Remove { ordinal: 0, .. }))).await;
    cluster.settle().await;
    assert_ne!(cluster.member(0).await, before);
    cluster.assert_same_data().await;
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F10: the claim and the pod of a member are deleted by force, and made again before anybody sees that they were gone. Nothing is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_claim_was_made_again_at_once_is_replaced_at_once() {
    let mut cluster = Cluster::grown(3).await;
    // Longer than this test has.
    cluster.driver.settings.dead_after = 3600;
    let writer = cluster.writer();
    let before = cluster.member(1).await;
    assert_eq!(cluster.latch.answered.len(), 3, "{:?}", cluster.latch);
    cluster.pods.lose_volume(1);
    cluster.until("is replaced", |_, step| matches!(calls(step), Some(Call::Remove { ordinal: 1, .. }))).await;
    cluster.settle().await;
    assert_ne!(cluster.member(1).await, before);
    cluster.assert_same_data().await;
    assert_eq!(writer.lost(&cluster.pods.client_url(1)).await, 0);
    // The same data on the same claim is another matter: it may come back.
    cluster.pods.wipe(2);
    let waits = |step: &EtcdStep| matches!(step, MemberStep::Wait { why, .. } if why.contains("e-2"));
    cluster
        .until("ends", |cluster, _| cluster.pods.pods[&2].pod.exit.as_ref().is_some_and(|exit| exit.code == 1))
        .await;
    cluster.until("is waited for", |_, step| waits(step)).await;
    cluster.driver.settings.dead_after = 3;
    cluster.settle().await;
}

/// F11: all data is gone, and no empty cluster takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn when_all_data_is_lost_no_empty_cluster_takes_its_place() {
    let mut cluster = Cluster::grown(3).await;
    for ordinal in 0..3 {
        cluster.pods.wipe(ordinal);
    }
    for ordinal in 0..3 {
        cluster.until("ends", |cluster, _| cluster.pods.pods[&ordinal].pod.restarts > 1).await;
    }
    let step = cluster.pass().await;
    assert!(stopped(&step, "QuorumLost") || stopped(&step, "DataLost"), "{step:?}");
    assert!(cluster.done.is_empty(), "{:?}", cluster.done);
}

/// F13: whoever scales the StatefulSet by hand takes no quorum and adds no member.
#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_that_was_scaled_by_hand_is_as_before() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    for by_hand in [1, 0, 5] {
        cluster.pods.replicas = by_hand;
        cluster.tick();
        cluster.settle().await;
    }
    let calls = cluster.done.iter().filter(|done| done.contains("member")).count();
    assert_eq!(calls, 0, "{:#?}", cluster.done);
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F14: what is wanted changes while members join and leave.
#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_flaps_comes_to_rest() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    for size in [5, 3, 4, 1, 5, 2, 3] {
        cluster.target.size = size;
        let mut passes = 0;
        cluster
            .until("a few passes", |_, _| {
                passes += 1;
                passes > 6
            })
            .await;
    }
    cluster.settle().await;
    assert_smooth(&cluster);
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F17: IDs have the second in them in which a member is added; one that was just removed is requested again in the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_added_again_at_once_waits_for_the_next_second() {
    let mut cluster = Cluster::grown(1).await;
    let mut ids = BTreeSet::new();
    for _ in 0..5 {
        cluster.target.size = 2;
        cluster
            .until("is added", |cluster, _| cluster.done.last().is_some_and(|done| done == "add member 1 as a learner"))
            .await;
        let members = cluster.look().await.0.members.expect("it has a quorum");
        assert!(ids.insert(members.iter().map(|member| member.id).collect::<Vec<_>>()), "an ID came back");
        cluster.target.size = 1;
        cluster
            .until("is removed", |cluster, _| cluster.done.last().is_some_and(|done| done == "remove member 1"))
            .await;
    }
    assert_smooth(&cluster);
    cluster.resize(2).await;
}

/// F18: a process whose member was removed ends with 0. That is not the end of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_process_that_ends_well_is_replaced() {
    let mut cluster = Cluster::grown(3).await;
    let victim = cluster.member(2).await;
    let old = cluster.pods.pods[&2].pod.uid.clone();
    cluster.lead(0).await;
    let mut client = cluster.client(0).await;
    while let Err(error) = client.member_remove(victim).await {
        assert!(error.to_string().contains("unhealthy cluster"), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cluster
        .until("it ended", |cluster, step| {
            assert_ne!(*step, MemberStep::Quiet);
            let now = cluster.pods.pods.get(&2);
            now.is_none_or(|running| {
                running.pod.uid != old || running.pod.exit.as_ref().is_some_and(|exit| exit.code == 0)
            })
        })
        .await;
    cluster.settle().await;
    assert_ne!(cluster.member(2).await, victim);
}

/// Writes as much as is more than etcd may be behind.
async fn write_much(client: &etcd_client::Client) {
    for _ in 0..60 {
        let writes = (0..100).map(|key| {
            let mut client = client.kv_client();
            async move { client.put(format!("key-{key}"), "x", None).await }
        });
        futures::future::try_join_all(writes).await.expect("it is written");
    }
}

/// etcd takes no request, not even a member's own to be known, while what it has applied is far behind; and does not count a snapshot as
/// applied before an entry follows it. Where nobody writes, none does.
#[tokio::test(flavor = "multi_thread")]
async fn members_start_where_much_was_written_and_nobody_writes_any_more() {
    let mut cluster = Cluster::new(1);
    cluster.pods.flags.push("--snapshot-count=100".to_owned());
    cluster.settle().await;
    write_much(&cluster.client(0).await).await;
    cluster.resize(3).await;
    // One that was away meanwhile is sent a snapshot, too.
    let away = cluster.member(2).await;
    cluster.lead(0).await;
    cluster.pods.lose_node(2);
    write_much(&cluster.client(0).await).await;
    cluster.pods.unschedulable.clear();
    cluster.settle().await;
    assert_eq!(cluster.member(2).await, away);
    cluster.assert_same_data().await;
    assert_smooth(&cluster);
}

/// Writes 100 KiB to one key again and again, until the quota is reached; how often it was written.
async fn fill(client: &mut etcd_client::Client, key: impl Fn(u32) -> String) -> u32 {
    let value = vec![b'x'; 100 << 10];
    for written in 0..1000 {
        if let Err(full) = client.put(key(written), value.clone(), None).await {
            assert!(full.to_string().contains("database space exceeded"), "{full}");
            return written;
        }
    }
    panic!("the quota is not reached");
}

/// F19: a file has reached its quota. The history goes, the files are rewritten one by one, the leader's last, and writes are allowed
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn when_there_is_no_space_history_and_holes_go_and_writes_are_allowed_again() {
    let mut cluster = Cluster::new(3);
    cluster.pods.flags.push("--quota-backend-bytes=4194304".to_owned());
    cluster.driver.settings.quota = Some(4 << 20);
    cluster.driver.settings.no_space = NoSpace::Report;
    cluster.settle().await;
    cluster.done.clear();
    let mut client = cluster.client(0).await;
    fill(&mut client, |_| "key".to_owned()).await;
    // Nothing is done about it if the spec requests that.
    cluster.until("it is told", |_, step| stopped(step, "NoSpace")).await;
    assert!(cluster.done.is_empty(), "{:?}", cluster.done);
    let leader = cluster.leader().await;
    cluster.driver.settings.no_space = NoSpace::Reclaim;
    cluster.settle().await;
    let mut followers = (0..3).rev().filter(|ordinal| *ordinal != leader);
    let mut next = || format!("defragment member {}", followers.next().unwrap_or(leader));
    let [first, second, third] = [next(), next(), next()];
    assert!(cluster.done[0].starts_with("compact the history before revision "), "{:?}", cluster.done);
    assert_eq!(cluster.done[1..4], [first, second, third]);
    assert!(cluster.done[4..].iter().all(|done| done == "disarm the alarm NOSPACE"), "{:?}", cluster.done);
    client.put("key", "again", None).await.expect("writes are let again");
    for answer in cluster.look().await.0.answers.values() {
        assert!(answer.size < 2 << 20, "{answer:?}");
    }
    assert_smooth(&cluster);
    cluster.assert_same_data().await;
}

/// F19: what is there without its history is more than the quota allows. That is reported, and nothing is done twice; with fewer keys, or
/// a higher quota, writes are allowed again.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_data_itself_is_too_much_it_is_reported_and_nothing_is_done_twice() {
    let mut cluster = Cluster::new(3);
    cluster.pods.flags.push("--quota-backend-bytes=4194304".to_owned());
    cluster.driver.settings.quota = Some(4 << 20);
    cluster.settle().await;
    cluster.done.clear();
    let mut client = cluster.client(0).await;
    let waits =
        |step: &EtcdStep| matches!(step, MemberStep::Wait { why, .. } if why == "members to compact their history");
    let mut written = 0;
    // Members that are slow have holes in their files also of what is written once: then there is room again, which is filled, too.
    loop {
        let before = written;
        written += fill(&mut client, |number| format!("key/{}", before + number)).await;
        cluster.done.clear();
        cluster.latch.own.reclaimed = None;
        let is_done = |cluster: &mut Cluster, step: &EtcdStep| {
            cluster.done.len() == 4 && waits(step) || *step == MemberStep::Quiet
        };
        cluster.until("all were written once", is_done).await;
        if waits(&cluster.look().await.1) {
            break;
        }
    }
    cluster.latch.own.reclaimed.iter_mut().for_each(|reclaimed| reclaimed.since -= 30);
    cluster.until("it is told", |_, step| stopped(step, "NoSpace")).await;
    let (_, step) = cluster.look().await;
    assert!(matches!(&step, MemberStep::Stop { why, .. } if why.contains("raise the quota")), "{step:?}");
    let done = cluster.done.len();
    assert!((5..=7).contains(&done), "{:?}", cluster.done);
    for _ in 0..5 {
        cluster.pass().await;
    }
    assert_eq!(cluster.done.len(), done, "{:?}", cluster.done);
    // Deletions are allowed. It is tried again some time after the last attempt.
    for number in 0..written / 2 {
        client.delete(format!("key/{number}"), None).await.expect("deletions are let");
    }
    assert!(stopped(&cluster.pass().await, "NoSpace"));
    cluster.latch.own.reclaimed.iter_mut().for_each(|reclaimed| reclaimed.since -= 600);
    cluster.settle().await;
    client.put("key", "again", None).await.expect("writes are let again");
    cluster.assert_same_data().await;
}

/// Files with holes are rewritten when the spec requests that, and clients continue to write.
#[tokio::test(flavor = "multi_thread")]
async fn files_with_holes_are_defragmented_one_by_one() {
    let mut cluster = Cluster::grown(3).await;
    let mut client = cluster.client(0).await;
    let mut revision = 0;
    for _ in 0..60 {
        let put = client.put("key", vec![b'x'; 100 << 10], None).await.expect("there is space");
        revision = put.header().expect("it has one").revision();
    }
    client.compact(revision, Some(CompactionOptions::new().with_physical())).await.expect("it is there");
    // Each member compacts in its own time, and its next write shows it.
    cluster.done.clear();
    let mut all_compacted = false;
    while !all_compacted {
        client.put("other", "x", None).await.expect("there is space");
        all_compacted = cluster.look().await.0.answers.values().all(|answer| answer.used * 2 < answer.size);
    }
    let writer = cluster.writer();
    cluster.driver.settings.defragmentation = Some(Defragmentation { fragmented_percent: 50, minimum_size: 1 << 20 });
    let leader = cluster.leader().await;
    cluster.until("all are done", |cluster, step| *step == MemberStep::Quiet && cluster.done.len() >= 3).await;
    let followers = (0..3).rev().filter(|ordinal| *ordinal != leader);
    let expected: Vec<_> = followers.chain([leader]).map(|ordinal| format!("defragment member {ordinal}")).collect();
    assert_eq!(cluster.done, expected);
    for answer in cluster.look().await.0.answers.values() {
        assert!(answer.size < 1 << 20, "{answer:?}");
    }
    eprintln!("longest gap {:.3?}", writer.longest_gap());
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F22: pods get the next minor version one by one, the leader's last, and no write is lost; two minor versions at once are refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_goes_one_by_one_and_the_leader_last() {
    let mut cluster = Cluster::new(3);
    for (template, program) in [("r1", "etcd-3.5"), ("r2", "etcd")] {
        cluster.pods.programs.insert(template, tools().join(program));
    }
    cluster.settle().await;
    cluster.lead(2).await;
    cluster.done.clear();
    let writer = cluster.writer();
    cluster.pods.template = "r2";
    cluster.driver.settings.version = Version::parse("3.7.0");
    assert!(stopped(&cluster.pass().await, "VersionSkipped"));
    cluster.driver.settings.version = Version::parse("3.6.16");
    cluster
        .until("all are new", |cluster, step| {
            *step == MemberStep::Quiet && cluster.pods.pods.values().all(|running| &*running.pod.revision == "r2")
        })
        .await;
    assert_eq!(cluster.done, ["delete pod 1", "delete pod 0", "let member 0 lead", "delete pod 2"]);
    let versions: Vec<_> = cluster.look().await.0.answers.into_values().filter_map(|answer| answer.version).collect();
    assert_eq!(versions, [Version { major: 3, minor: 6, patch: 16 }; 3]);
    cluster.driver.settings.version = Version::parse("3.5.35");
    cluster.pods.template = "r1";
    assert!(stopped(&cluster.pass().await, "VersionDowngrade"));
    eprintln!("longest gap {:.3?}", writer.longest_gap());
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F23: all pods are killed and come back one by one; the data is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn all_pods_are_killed_and_come_back_one_by_one() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    cluster.until("some writes", |_, _| writer.count() > 20).await;
    for ordinal in 0..3 {
        cluster.pods.lose_node(ordinal);
    }
    for ordinal in 0..3 {
        let step = cluster.pass().await;
        assert!(ordinal > 1 || stopped(&step, "QuorumLost"), "{step:?}");
        cluster.pods.unschedulable.remove(&ordinal);
    }
    cluster.settle().await;
    assert!(cluster.done.is_empty(), "{:?}", cluster.done);
    assert!(!cluster.refused.iter().any(|outcome| matches!(outcome, ActionOutcome::Fatal(_))));
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F24: claims that were kept, without anything that is remembered: the same cluster comes back.
#[tokio::test(flavor = "multi_thread")]
async fn kept_claims_are_adopted_as_the_cluster_they_were() {
    let mut cluster = Cluster::grown(3).await;
    let writer = cluster.writer();
    cluster.until("some writes", |_, _| writer.count() > 20).await;
    let before = cluster.latch.cluster.clone();
    cluster.latch = tillerman::members::etcd::state::EtcdLatch::default();
    cluster.pods.replicas = 0;
    while !cluster.pods.pods.is_empty() {
        cluster.tick();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let step = cluster.pass().await;
    assert!(stopped(&step, "OrphanedVolumes"), "{step:?}");
    cluster.target.adopt_claims = true;
    cluster.settle().await;
    assert_eq!(cluster.latch.cluster, before);
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// Whether a member counts another as active, by its metrics.
fn is_active(cluster: &Cluster, ordinal: u32, other: u64) -> bool {
    let address = format!("{}:2379", cluster.pods.address(ordinal));
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let of = format!("Remote=\"{other:x}\"");
    let line = text.lines().find(|line| line.starts_with("etcd_network_active_peers") && line.contains(&of));
    line.is_some_and(|line| line.ends_with(" 1"))
}

/// How often each of the streams between a member and another was connected, by the member's log: it reads two, and writes two.
fn connected(cluster: &Cluster, ordinal: u32, other: u64) -> [usize; 4] {
    let log = std::fs::read_to_string(cluster.pods.log(ordinal)).expect("it has a log");
    let other = format!("\"remote-peer-id\":\"{other:x}\"");
    let connected = |line: &&str| line.contains("established TCP streaming connection") && line.contains(&other);
    let lines: Vec<&str> = log.lines().filter(connected).collect();
    [
        "reader-type\":\"stream Message",
        "reader-type\":\"stream MsgApp",
        "writer-type\":\"stream Message",
        "writer-type\":\"stream MsgApp",
    ]
    .map(|stream| lines.iter().filter(|line| line.contains(stream)).count())
}

/// F16: a member that came back with another address is inactive for one whose last request to the old address failed late, though they are
/// connected: that one refuses what others allow, until the connections end.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_leader_refuses_for_what_it_does_not_see_another_is_asked_for() {
    let mut cluster = Cluster::networked(3).await;
    cluster.lead(0).await;
    let moved = cluster.member(1).await;
    cluster.network().move_away(1);
    cluster.pods.lose_node(1);
    cluster.until("requests go astray", |cluster, _| cluster.network().astray() > 1).await;
    let before = connected(&cluster, 0, moved);
    cluster.network().come_back();
    cluster.pods.unschedulable.clear();
    cluster.settle().await;
    // Each stream that connects makes it active again.
    let again = |cluster: &Cluster| connected(cluster, 0, moved).iter().zip(before).all(|(now, before)| *now > before);
    cluster.until("all streams are connected", |cluster, _| again(cluster)).await;
    cluster.network().give_up();
    cluster.until("the last request has failed", |cluster, _| cluster.network().astray() == 0).await;
    cluster.until("it counts as inactive", |cluster, _| !is_active(cluster, 0, moved)).await;

    let done = cluster.resize(2).await;
    assert!(!is_active(&cluster, 0, moved), "the leader would have allowed it: {done:#?}");
    assert_eq!(cluster.leader().await, 0);
    assert!(done.iter().any(|done| done == "remove member 2"), "{done:#?}");
    assert_smooth(&cluster);
}
