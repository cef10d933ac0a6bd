//! Another series of MariaDB: replicas first, then the primary hands over. The programs of 11.8 are in a folder that the tests see as the
//! root of the file system (`ROOT_11_8`, made by `need_mariadb_11_8`).

use std::path::PathBuf;

use tillerman::agent::contract::MemberState;

use crate::cluster::DatabaseCluster;
use crate::writers::{Writers, lost};

fn newer() -> PathBuf {
    std::env::var_os("ROOT_11_8").expect("`make upgrade` sets ROOT_11_8").into()
}

fn is_newer(state: &MemberState) -> bool {
    state.version.as_deref().is_some_and(|version| version.starts_with("11.8."))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MariaDB of another Debian: make upgrade"]
async fn members_become_11_8_one_by_one_under_writes_and_nothing_is_lost_and_none_goes_back() {
    let root = newer();
    let mut cluster = DatabaseCluster::grown(3).await;
    let writers = Writers::start(&cluster.members, 4).await;
    writers.more(200).await;
    for k in [2, 1] {
        let member = cluster.member(k);
        member.stop();
        member.root = Some(root.clone());
        member.start();
        let state = cluster.members[k].until("it runs", |state| !state.start.is_empty()).await;
        assert!(is_newer(&state), "{state:?}");
        cluster.follow(k, 1, 0, true).await.unwrap();
        let primary = cluster.members[0].state().await;
        cluster.members[k].until("it has caught up", |state| state.receiving && state.has.contains(&primary.has)).await;
        writers.more(100).await;
    }
    // The primary hands over, and becomes newer.
    let handed = async {
        cluster.demote(0, 1, 10_000).await.unwrap();
        let all = cluster.members[0].state().await.has;
        cluster.members[1].until("it has all", |state| state.has.contains(&all)).await;
        cluster.promote(1, 2, 1, &[0, 2]).await.unwrap();
        cluster.follow(2, 2, 1, true).await.unwrap();
        cluster.members[1].until("it is open", |state| state.writable).await;
    };
    handed.await;
    writers.more(100).await;
    let member = cluster.member(0);
    member.stop();
    member.root = Some(root.clone());
    member.start();
    // One that was the primary waits for an order. It is repeated while the database starts.
    cluster.members[0].until("it answers", |_| true).await;
    while let Err(refusal) = cluster.follow(0, 2, 1, true).await {
        assert!(refusal.reason.is_passing(), "{refusal}");
    }
    assert!(is_newer(&cluster.members[0].state().await));
    writers.more(200).await;
    let longest = writers.longest_gap();
    let keys = writers.stop().await;
    let primary = cluster.members[1].state().await;
    for member in &cluster.members {
        member.until("it has all", |state| state.has.contains(&primary.has)).await;
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new(), "{}", member.name);
        // What mariadb-upgrade brings up to date is there on each, and nothing of it is in a binary log.
        let routines = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'sys' AND TABLE_NAME = 'privileges_by_table_by_level'";
        assert_eq!(member.numbers(routines).await, [1], "{}", member.name);
    }
    eprintln!("upgrade from 10.11 to 11.8: {} writes acknowledged, the longest gap {longest:.1?}", keys.len());

    // Data of 11.8 is not started by 10.11.
    let member = cluster.member(2);
    member.stop();
    member.root = None;
    member.start();
    let state = cluster.members[2]
        .until("it does not start", |state| state.problem.as_ref().is_some_and(|why| why.contains("would spoil it")))
        .await;
    assert!(state.start.is_empty() && state.problem.unwrap().contains("set a version of 11.8 or later"));
    let member = cluster.member(2);
    member.stop();
    member.root = Some(root);
    member.start();
    cluster.members[2].until("it runs", |state| is_newer(state) && !state.start.is_empty()).await;
    cluster.follow(2, 2, 1, true).await.unwrap();
    let state = cluster.members[2].until("it receives", |state| state.receiving && state.applying).await;

    // A copy of 11.8 for 11.8.
    cluster.seed(2, 2, 0, Some(state.start.clone())).await.unwrap();
    cluster.members[2]
        .until("it has a copy", |new| new.start != state.start && !new.start.is_empty() && new.busy.is_none())
        .await;
    cluster.follow(2, 2, 1, true).await.unwrap();
    let primary = cluster.members[1].state().await;
    cluster.members[2].until("it has all", |state| state.receiving && state.has.contains(&primary.has)).await;
    assert_eq!(lost(&cluster.members[2], &keys).await, Vec::<u64>::new());
}

/// The database is killed while its tables are brought up to date: the same is done again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MariaDB of another Debian: make upgrade"]
async fn an_upgrade_that_is_killed_is_done_again() {
    let root = newer();
    let mut cluster = DatabaseCluster::with_primary(1).await;
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    let member = cluster.member(0);
    member.stop();
    member.root = Some(root);
    member.start();
    cluster.members[0]
        .until("it is being upgraded", |state| state.busy.as_ref().is_some_and(|busy| busy.work == "upgrade"))
        .await;
    cluster.member(0).kill();
    cluster.member(0).start();
    cluster.members[0].until("again", |state| state.busy.as_ref().is_some_and(|busy| busy.work == "upgrade")).await;
    // An order comes meanwhile: it is refused for now, and obeyed later.
    let refused = cluster.promote(0, 2, 0, &[]).await;
    assert!(
        refused.as_ref().is_ok_and(|state| state.writable) || refused.is_err_and(|refusal| refusal.reason.is_passing())
    );
    cluster.members[0]
        .until("it runs", |state| is_newer(state) && state.busy.is_none() && !state.start.is_empty())
        .await;
    assert!(cluster.promote(0, 2, 0, &[]).await.unwrap().writable);
    cluster.members[0].run("CREATE DATABASE more").await.unwrap();
}

/// Both series store accounts and privileges in ways of their own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MariaDB of another Debian: make upgrade"]
async fn users_and_databases_are_what_is_declared_on_11_8() {
    crate::declared::users_and_databases(Some(newer())).await;
}
