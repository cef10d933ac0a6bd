//! A quorum that is lost for good, and the member that continues alone when the user says so. These tests take longest, and tests
//! begin in the order of their names.

use std::time::Duration;

use tillerman::members::driver::MemberStep;
use tillerman::members::etcd::decide::FORCE_NEW_CLUSTER;
use tillerman::members::etcd::state::EtcdStep;

use crate::cluster::Cluster;

/// Writes so many keys by way of a member.
async fn write(cluster: &Cluster, ordinal: u32, keys: std::ops::Range<u32>) {
    let mut client = cluster.client(ordinal).await;
    for number in keys {
        client.put(format!("key/{number}"), "x", None).await.expect("there is a quorum");
    }
}

/// How many keys a member reads with a quorum.
async fn keys(cluster: &Cluster, ordinal: u32) -> i64 {
    let all = etcd_client::GetOptions::new().with_prefix().with_count_only();
    cluster.client(ordinal).await.get("key/", Some(all)).await.expect("there is a quorum").count()
}

/// Destroys members with their data.
fn destroy(cluster: &mut Cluster, ordinals: impl IntoIterator<Item = u32>) {
    for ordinal in ordinals {
        cluster.pods.wipe(ordinal);
        cluster.pods.unschedulable.insert(ordinal);
    }
}

/// The annotation that the condition asks for, so that a member continues alone.
async fn offered(cluster: &mut Cluster, survivor: u32) -> Box<str> {
    let mut said = None;
    cluster
        .until("it is offered", |_, step| {
            let MemberStep::Stop { reason: "QuorumLost", why } = step else { return false };
            let rest = why.split_once(&format!("{FORCE_NEW_CLUSTER}=")).map(|(_, rest)| rest);
            let offer =
                rest.and_then(|rest| rest.split_once(&format!(" lets e-{survivor} continue as a cluster of one")));
            said = offer.map(|(said, _)| said.into());
            said.is_some()
        })
        .await;
    said.expect("it is offered")
}

/// Two of three are destroyed for good. Nothing is done until the user says so of this cluster and this revision; then the third
/// continues alone, the data of the others goes, and the cluster grows again, with everything that the third knew.
#[tokio::test(flavor = "multi_thread")]
async fn the_one_that_is_left_of_three_goes_on_alone_when_that_is_said() {
    for survivor in [2, 0] {
        let mut cluster = Cluster::grown(3).await;
        let id = cluster.latch.cluster.clone();
        write(&cluster, survivor, 0..200).await;
        destroy(&mut cluster, (0..3).filter(|ordinal| *ordinal != survivor));
        let said = offered(&mut cluster, survivor).await;
        cluster.target.recover = Some(said.replace('@', "@1").into());
        offered(&mut cluster, survivor).await;
        assert!(cluster.done.is_empty(), "{:?}", cluster.done);

        cluster.target.recover = Some(said.clone());
        cluster.until("it is begun", |cluster, _| cluster.latch.own.recovery.is_some()).await;
        cluster.pods.unschedulable.clear();
        cluster.settle().await;
        let others: Vec<_> = (0..3).filter(|ordinal| *ordinal != survivor).collect();
        let begins = [
            format!("no pod but {survivor}"),
            "let the remaining member continue alone".to_owned(),
            format!("delete pod {survivor}"),
            "write the list of members".to_owned(),
            format!("delete data-e-{}", others[0]),
            format!("delete data-e-{}", others[1]),
        ];
        assert_eq!(cluster.done[..6], begins, "{:#?}", cluster.done);
        assert_eq!((&cluster.latch.cluster, cluster.latch.own.recovered.as_deref()), (&id, Some(&*said)));
        assert!(cluster.latch.own.recovery.is_none());
        for ordinal in 0..3 {
            assert_eq!(keys(&cluster, ordinal).await, 200, "of e-{ordinal}");
        }
        cluster.assert_same_data().await;
        write(&cluster, 1, 200..220).await;
        assert_eq!(keys(&cluster, survivor).await, 220);
        // What was said stays where it was said, and is not done again.
        destroy(&mut cluster, others);
        assert_ne!(offered(&mut cluster, survivor).await, said);
    }
}

/// Of two that are left of five, the one continues that knows most.
#[tokio::test(flavor = "multi_thread")]
async fn of_those_that_are_left_the_one_that_knows_most_goes_on() {
    let mut cluster = Cluster::grown(5).await;
    cluster.lead(0).await;
    write(&cluster, 4, 0..100).await;
    // What is on its way to it is more than its sockets take.
    cluster.pods.signal(3, "STOP");
    let mut client = cluster.client(4).await;
    for _ in 0..60 {
        client.put("large", vec![b'x'; 500 << 10], None).await.expect("there is a quorum");
    }
    write(&cluster, 4, 100..150).await;
    destroy(&mut cluster, 0..3);
    cluster.pods.signal(3, "CONT");
    cluster.until("both answer", |_, step| matches!(step, MemberStep::Stop { why, .. } if !why.contains("e-3"))).await;
    let said = offered(&mut cluster, 4).await;
    // It is seen by what is said on which data it continues.
    let (observed, _) = cluster.look().await;
    assert!(observed.answers[&3].revision < observed.answers[&4].revision, "{:?}", observed.answers);
    assert!(said.ends_with(&format!("@{}", observed.answers[&4].revision)));
    cluster.target.recover = Some(said);
    cluster.until("it is begun", |cluster, _| cluster.latch.own.recovery.is_some()).await;
    cluster.pods.unschedulable.clear();
    tokio::time::timeout(Duration::from_secs(100), cluster.settle()).await.expect("it grows");
    for ordinal in 0..5 {
        assert_eq!(keys(&cluster, ordinal).await, 150, "of e-{ordinal}");
    }
    cluster.assert_same_data().await;
}

/// Members that were started again without a quorum answer nobody: then nobody can be compared, and nothing is offered.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_started_again_without_a_quorum_cannot_be_compared() {
    let mut cluster = Cluster::grown(3).await;
    destroy(&mut cluster, 0..2);
    cluster.pods.kill(2);
    cluster.until("it runs again", |cluster, _| cluster.pods.pods[&2].pod.restarts > 0).await;
    let says = |step: &EtcdStep| matches!(step, MemberStep::Stop { why, .. } if why.contains("it is unknown which of them has the newest data"));
    for _ in 0..3 {
        let step = cluster.pass().await;
        assert!(says(&step), "{step:?}");
    }
    assert!(cluster.done.is_empty(), "{:?}", cluster.done);
}
