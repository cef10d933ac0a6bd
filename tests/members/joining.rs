//! F5: a member is added, and by the time it starts the list that it is given is not that of the members.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use std::time::Duration;

use crate::check::assert_linearizable;
use crate::cluster::Cluster;

const LIST: &str = "ETCD_INITIAL_CLUSTER";

/// Three members, and a fourth that was added and whose pod waits for a node.
async fn fourth_waits() -> Cluster {
    let mut cluster = Cluster::grown(3).await;
    cluster.pods.unschedulable.insert(3);
    cluster.target.size = 4;
    cluster.until("its pod is there", |cluster, _| cluster.pods.pods.contains_key(&3)).await;
    cluster
}

impl Cluster {
    /// Its pod finds a node while the operator is away, and ends: etcd compares the list with the cluster's.
    async fn fourth_ends(&mut self, saying: &str) {
        self.pods.unschedulable.clear();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        let exit = loop {
            self.tick();
            if let Some(exit) = self.pods.pods[&3].pod.exit.clone() {
                break exit;
            }
            assert!(std::time::Instant::now() < end, "it goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(exit.code, 1, "{}", exit.message);
        assert!(exit.message.contains(saying), "{}", exit.message);
    }

    fn count(&self, what: &str) -> usize {
        self.done.iter().filter(|done| done.starts_with(what) && !done.contains("not yet")).count()
    }
}

/// F5: whatever is in the list, the operator rewrites it, and the same learner joins with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_was_spoilt_is_rewritten_and_the_member_joins() {
    for (spoil, says) in [
        ("one is missing", "member count is unequal"),
        ("one is too many", "member count is unequal"),
        ("it is not in it", "couldn't find local name"),
    ] {
        let mut cluster = Box::pin(fourth_waits()).await;
        let recorder = cluster.recorder();
        let before = cluster.done.len();
        cluster.config_map.change(LIST, |list| match spoil {
            "one is missing" => list.split_once(',').expect("there are four").1.to_owned(),
            "one is too many" => format!("{list},e-9=http://127.0.0.9:2380"),
            _ => list.replace("e-3=", "e-8="),
        });
        cluster.fourth_ends(says).await;
        cluster.settle().await;
        let after = &cluster.done[before..];
        assert_eq!(after[0], "write the list of members", "{after:#?}");
        assert_eq!((cluster.count("add member"), cluster.count("remove member")), (1, 0), "{:#?}", cluster.done);
        assert_eq!(cluster.refused, []);
        cluster.assert_same_data().await;
        assert_linearizable(recorder, &format!("f5-{}", spoil.replace(' ', "-"))).await;
    }
}

/// F5: the members change after the list was written: somebody removes one. The list follows, both join, and nobody is added twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_older_than_the_members_is_rewritten() {
    let mut cluster = Box::pin(fourth_waits()).await;
    let recorder = cluster.recorder();
    cluster.lead(0).await;
    let victim = cluster.member(2).await;
    let mut client = cluster.client(0).await;
    while let Err(error) = client.member_remove(victim).await {
        assert!(error.to_string().contains("unhealthy cluster"), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cluster.fourth_ends("member count is unequal").await;
    cluster.settle().await;
    assert_eq!((cluster.count("add member 3"), cluster.count("add member 2")), (1, 1), "{:#?}", cluster.done);
    assert_eq!(cluster.count("remove member"), 0, "{:#?}", cluster.done);
    assert_ne!(cluster.member(2).await, victim);
    cluster.assert_same_data().await;
    assert_linearizable(recorder, "f5-older").await;
}
