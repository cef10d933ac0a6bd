//! Copies of the data.

use std::time::{Duration, Instant};

use tillerman::agent::contract::{MemberState, Reason, Role};

use crate::cluster::{DatabaseCluster, is_mysql};
use crate::writers::{Writers, lost};

fn has_copy(state: &MemberState) -> bool {
    !state.start.is_empty() && state.busy.is_none()
}

/// About so many MiB, in rows of 64 KiB.
pub async fn fill(cluster: &DatabaseCluster, mebibytes: usize) {
    let primary = &cluster.members[0];
    primary.run("CREATE DATABASE big").await.unwrap();
    primary.run("CREATE TABLE big.b (id INT AUTO_INCREMENT PRIMARY KEY, v MEDIUMBLOB NOT NULL)").await.unwrap();
    // It cannot be compressed to nothing.
    let sixteen = if is_mysql() {
        "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 16) SELECT n FROM s) AS sixteen"
    } else {
        "big.seq_1_to_16"
    };
    let rows = format!("INSERT INTO big.b (v) SELECT REPEAT(RANDOM_BYTES(1024), 64) FROM {sixteen}");
    primary.run(&rows).await.unwrap();
    for _ in 1..mebibytes {
        primary.run("INSERT INTO big.b (v) SELECT v FROM big.b LIMIT 16").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_made_while_clients_write_and_follows_from_its_position() {
    let mut cluster = DatabaseCluster::with_primary(3).await;
    fill(&cluster, 64).await;
    let writers = Writers::start(&cluster.members[..1], 3).await;
    let mut donor = 0;
    for k in [1, 2] {
        cluster.member(k).environment[0].1.clear();
        cluster.member(k).start();
        let state = cluster.members[k].until("it answers", |_| true).await;
        assert_eq!((state.data, state.problem, state.start.as_str()), (None, None, ""));
        writers.more(20).await;
        writers.longest_gap();
        let began = Instant::now();
        for _ in 0..2 {
            let state = cluster.seed(k, 1, donor, None).await.unwrap();
            assert_eq!(state.busy.map(|busy| busy.work).as_deref(), Some("seed"));
        }
        assert_eq!(cluster.fence(k, 1).await.unwrap_err().reason, Reason::OtherData, "it has none yet");
        cluster.members[k].until("it has a copy", has_copy).await;
        eprintln!("seeded from db-{donor} in {:.1?}, longest gap {:.0?}", began.elapsed(), writers.longest_gap());
        let state = cluster.seed(k, 1, donor, None).await.unwrap();
        assert!(state.busy.is_none() && state.role == Role::Waiting, "it is done already: {state:?}");
        let admitted: &[usize] = if k == 1 { &[1] } else { &[1, 2] };
        cluster.promote(0, 1, 0, admitted).await.unwrap();
        cluster.follow(k, 1, 0, false).await.unwrap();
        let state = cluster.members[k].until("it receives", |state| state.receiving && state.applying).await;
        assert!(!state.diverged);
        writers.more(50).await;
        donor = k;
    }
    let keys = writers.stop().await;
    let primary = cluster.members[0].state().await;
    assert_eq!(primary.problem, None);
    for member in &cluster.members {
        member.until("it has all", |state| state.has == primary.has).await;
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new());
        assert_eq!(member.numbers("SELECT COUNT(*) FROM big.b").await, [64 * 16]);
        assert!(!member.folder.join("v/copying").exists() && !member.folder.join("v/arriving").exists());
    }
}

/// A copy that is cut, by the end of the donor or of the receiver, is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_cut_is_not_taken_for_data() {
    let mut cluster = DatabaseCluster::with_primary(2).await;
    fill(&cluster, 64).await;
    cluster.member(1).environment[0].1.clear();
    cluster.member(1).start();
    cluster.members[1].until("it answers", |_| true).await;
    let under_way = |state: &MemberState| state.busy.as_ref().is_some_and(|busy| busy.done > 1 << 20);

    // The receiver's container is killed.
    cluster.seed(1, 1, 0, None).await.unwrap();
    cluster.members[1].until("the copy is under way", under_way).await;
    cluster.member(1).kill();
    cluster.members[0].until("the donor has given it up", |state| state.busy.is_none()).await;
    cluster.member(1).start();
    let state = cluster.members[1].until("it answers", |_| true).await;
    assert_eq!((state.data, state.start.as_str(), state.problem), (None, "", None));
    assert!(!cluster.members[1].folder.join("v/arriving").exists());

    // What the donor copies with is killed.
    cluster.seed(1, 1, 0, None).await.unwrap();
    cluster.members[1].until("the copy is under way", under_way).await;
    // MySQL copies itself.
    cluster.members[0].signal("KILL", if is_mysql() { "mysqld" } else { "mariadb-backup" });
    let state = cluster.members[1].until("it has failed", |state| state.busy.is_none()).await;
    assert_eq!((state.data, state.start.as_str()), (None, ""));
    assert!(state.problem.is_some_and(|problem| problem.contains("not complete")), "it says why");
    cluster.members[1].until("another may be ordered", |state| state.problem.is_none()).await;

    cluster.members[0].until("it runs", |state| !state.start.is_empty()).await;
    cluster.promote(0, 1, 0, &[]).await.unwrap();
    cluster.seed(1, 1, 0, None).await.unwrap();
    cluster.members[1].until("it has a copy", has_copy).await;
    cluster.promote(0, 1, 0, &[1]).await.unwrap();
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[1].until("it receives", |state| state.receiving).await;
    tokio::time::timeout(Duration::from_secs(10), cluster.members[0].run("CREATE DATABASE done"))
        .await
        .unwrap()
        .unwrap();
}
