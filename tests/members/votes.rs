//! Members that join with a vote, as etcd before 3.4 has no learners: here by a switch of the driver.

use crate::cluster::Cluster;

/// One at a time, each only while all others are well; of two, the second is started though the first alone has no quorum.
#[tokio::test(flavor = "multi_thread")]
async fn without_learners_members_join_as_voters_and_no_write_is_lost() {
    let mut cluster = Cluster::new(1);
    cluster.driver.settings.learners = false;
    cluster.settle().await;
    cluster.done.clear();
    let writer = cluster.writer();
    let mut order = Vec::new();
    for size in [3_u32, 4, 1, 2] {
        let done = cluster.resize(size).await;
        eprintln!("to {size} by votes, longest gap {:.3?}", writer.longest_gap());
        assert!(!done.iter().any(|done| done.contains("learner") || done.contains("give member")), "{done:#?}");
        order.extend(done.iter().filter(|done| done.starts_with("add member") && !done.contains("not yet")).cloned());
        cluster.assert_same_data().await;
        assert_eq!(cluster.pods.claims.len(), size as usize, "{done:#?}");
    }
    // One whose answer was lost is requested again, and is there already.
    order.dedup();
    let added = |ordinal: u32| format!("add member {ordinal} as a voter");
    assert_eq!(order, [1, 2, 3, 1].map(added));
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}
