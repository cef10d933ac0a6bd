//! What fences, starts and returns do to writes that were received, and to those that nobody acknowledged.

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tillerman::agent::contract::{MemberState, Reason, Role};
use tokio::task::JoinHandle;

use crate::cluster::{DatabaseCluster, connect, is_mysql, server};

/// Three members with a table.
async fn with_table() -> DatabaseCluster {
    let cluster = DatabaseCluster::grown(3).await;
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    cluster.members[0].run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    everywhere(&cluster, 0).await;
    cluster
}

/// All members have what one has.
async fn everywhere(cluster: &DatabaseCluster, of: usize) -> MemberState {
    let state = cluster.members[of].state().await;
    for member in &cluster.members {
        member.until("it has all", |own| own.has == state.has).await;
    }
    state
}

/// Keeps a replica from applying writes to the table, until the connection ends.
async fn hold(cluster: &DatabaseCluster, k: usize) -> Conn {
    let mut connection = connect(cluster.members[k].address).await.unwrap();
    connection.query_drop("LOCK TABLES app.t READ").await.unwrap();
    connection
}

/// A statement that waits for an acknowledgement.
async fn waiting(cluster: &DatabaseCluster, statement: &'static str) -> JoinHandle<Result<(), mysql_async::Error>> {
    let primary = &cluster.members[0];
    let mut connection = connect(primary.address).await.unwrap();
    let before = primary.state().await.got;
    let task = tokio::spawn(async move { connection.query_drop(statement).await });
    // The second one is in the log, and not yet counted among those that wait.
    primary.until("a commit waits", |state| state.got != before && state.waiting > 0).await;
    task
}

/// The fence of a replica that lags keeps what it received, and what it received is applied. With both threads stopped, MariaDB would
/// throw it away at the next start of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_replica_applies_what_it_received() {
    let cluster = with_table().await;
    cluster.fence(2, 1).await.unwrap();
    let held = hold(&cluster, 1).await;
    for id in 0..100 {
        cluster.members[0].run(&format!("INSERT INTO app.t VALUES ({id})")).await.unwrap();
    }
    let before = cluster.members[1].state().await;
    assert!(before.got != before.has && before.applying && before.acknowledges, "{before:?}");
    cluster.members[0].signal("KILL", server());
    for _ in 0..2 {
        let state = cluster.fence(1, 2).await.unwrap();
        assert_eq!((state.role, &state.start, &state.got), (Role::Fenced, &before.start, &before.got));
        assert!(state.applying && !state.receiving && !state.acknowledges && state.source.is_none(), "{state:?}");
    }
    let refused = cluster.promote(1, 2, 0, &[]).await.unwrap_err();
    assert!(refused.reason == Reason::NotApplied && refused.reason.is_passing());
    drop(held);
    cluster.members[1].until("it has applied all", |state| state.has == before.got).await;
    assert!(cluster.promote(1, 2, 0, &[]).await.unwrap().writable);
    assert_eq!(cluster.members[1].numbers("SELECT COUNT(*) FROM app.t").await, [100]);
}

/// A replica of MariaDB that lags and changes its source receives the rest again. Its `start` differs, because it lacks the rest in the meantime.
/// MySQL keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_drops_what_it_received_says_so() {
    let cluster = with_table().await;
    let before = cluster.members[1].state().await;
    let state = cluster.follow(1, 2, 0, false).await.unwrap();
    assert_eq!(state.start, before.start, "it had applied all");
    cluster.follow(1, 2, 0, true).await.unwrap();
    let held = hold(&cluster, 1).await;
    cluster.members[0].run("INSERT INTO app.t VALUES (1)").await.unwrap();
    let lags = |state: &MemberState| state.got != state.has;
    let lagging = cluster.members[1].until("it lags", lags).await;
    assert_eq!(cluster.follow(1, 2, 0, true).await.unwrap().start, before.start, "nothing changes");
    if is_mysql() {
        let state = cluster.follow(1, 3, 0, true).await.unwrap();
        assert!(
            state.start == before.start && state.got.contains(&lagging.got) && state.has == lagging.has,
            "{state:?}"
        );
        drop(held);
        everywhere(&cluster, 0).await;
        return;
    }
    let change = cluster.follow(1, 3, 0, true);
    // The thread that applies does not stop within a write.
    let releases = async {
        cluster.members[1].until("it has another start", |state| state.start != before.start).await;
        drop(held);
    };
    let (state, ()) = tokio::join!(change, releases);
    assert_ne!(state.unwrap().start, lagging.start);
    everywhere(&cluster, 0).await;
}

/// Writes that nobody acknowledged are taken back by an earlier primary that follows, and kept by one that continues.
#[tokio::test(flavor = "multi_thread")]
async fn an_unacknowledged_write_is_taken_back_or_kept_by_the_order() {
    for continues in [false, true] {
        let cluster = with_table().await;
        cluster.fence(1, 1).await.unwrap();
        cluster.fence(2, 1).await.unwrap();
        let client = waiting(&cluster, "INSERT INTO app.t VALUES (7)").await;
        cluster.members[0].signal("KILL", server());
        assert!(client.await.unwrap().is_err(), "it was not acknowledged");
        // Until its agent has seen the end, an order would be sent to a database that has ended.
        cluster.members[0].until("its database does not run", |state| state.start.is_empty()).await;
        if continues {
            cluster.promote(0, 2, 0, &[1, 2]).await.unwrap();
            cluster.follow(1, 2, 0, false).await.unwrap();
            cluster.follow(2, 2, 0, false).await.unwrap();
        } else {
            cluster.promote(1, 2, 0, &[0, 2]).await.unwrap();
            cluster.members[1].run("INSERT INTO app.t VALUES (8)").await.unwrap();
            assert_eq!(cluster.returns(0, 2, 1, true).await, is_mysql());
            cluster.follow(2, 2, 1, true).await.unwrap();
        }
        everywhere(&cluster, usize::from(!continues)).await;
        for member in &cluster.members {
            let expected: &[u64] = if continues { &[7] } else { &[8] };
            assert_eq!(member.numbers("SELECT id FROM app.t").await, expected, "{}", member.name);
        }
    }
}

/// What cannot be taken back is reported, and the member is seeded again.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_cannot_take_its_writes_back_has_diverged_and_is_seeded() {
    let cluster = with_table().await;
    cluster.fence(1, 1).await.unwrap();
    cluster.fence(2, 1).await.unwrap();
    let row = waiting(&cluster, "INSERT INTO app.t VALUES (7)").await;
    let table = waiting(&cluster, "CREATE TABLE app.more (id INT PRIMARY KEY)").await;
    cluster.members[0].signal("KILL", server());
    assert!(row.await.unwrap().is_err() && table.await.unwrap().is_err());
    cluster.promote(1, 2, 0, &[0, 2]).await.unwrap();
    cluster.members[1].run("INSERT INTO app.t VALUES (8)").await.unwrap();
    // The first attempt may be over before the database has started twice.
    let state = loop {
        match cluster.follow(0, 2, 1, false).await {
            Ok(state) => break state,
            Err(refusal) => assert_eq!(refusal.reason, Reason::DatabaseDown),
        }
    };
    assert!(state.diverged, "{state:?}");
    assert_eq!(cluster.seed(0, 2, 1, Some("no".into())).await.unwrap_err().reason, Reason::HasData);
    cluster.seed(0, 2, 1, Some(state.start.clone())).await.unwrap();
    let seeded = |new: &MemberState| new.start != state.start && !new.start.is_empty() && new.busy.is_none();
    let new = cluster.members[0].until("it has a copy", seeded).await;
    assert!(!new.diverged && new.data.as_deref() == Some(&cluster.data), "{new:?}");
    cluster.follow(0, 2, 1, true).await.unwrap();
    cluster.follow(2, 2, 1, true).await.unwrap();
    everywhere(&cluster, 1).await;
    assert_eq!(cluster.members[0].numbers("SELECT id FROM app.t").await, [8]);
    assert!(cluster.members[0].run("SELECT 1 FROM app.more").await.is_err());
}

/// A container that ends while commits wait does not let its database end in peace: it would keep these writes for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_container_ends_keeps_no_unacknowledged_write() {
    let mut cluster = with_table().await;
    cluster.fence(1, 1).await.unwrap();
    cluster.fence(2, 1).await.unwrap();
    let client = waiting(&cluster, "INSERT INTO app.t VALUES (7)").await;
    cluster.member(0).stop();
    assert!(client.await.unwrap().is_err());
    cluster.promote(1, 2, 0, &[0, 2]).await.unwrap();
    cluster.member(0).start();
    let state = cluster.members[0].until("it answers", |_| true).await;
    assert_eq!((state.role, state.start.as_str(), state.epoch), (Role::Waiting, "", 1));
    assert_eq!(cluster.returns(0, 2, 1, true).await, is_mysql());
    cluster.follow(2, 2, 1, true).await.unwrap();
    everywhere(&cluster, 1).await;
    assert_eq!(cluster.members[0].numbers("SELECT COUNT(*) FROM app.t").await, [0]);

    // A replica, and a primary without waiting commits, end cleanly and lose nothing.
    cluster.promote(1, 2, 1, &[0, 2]).await.unwrap();
    cluster.members[1].run("INSERT INTO app.t VALUES (9)").await.unwrap();
    everywhere(&cluster, 1).await;
    for k in [2, 1] {
        cluster.member(k).stop();
        cluster.member(k).start();
    }
    let replica = cluster.members[2].until("it runs", |state| !state.start.is_empty()).await;
    assert_eq!((replica.role, replica.receiving, replica.acknowledges), (Role::Waiting, false, false));
    cluster.members[1].until("it answers", |_| true).await;
    cluster.promote(1, 3, 0, &[0, 2]).await.unwrap();
    cluster.follow(0, 3, 1, true).await.unwrap();
    cluster.follow(2, 3, 1, true).await.unwrap();
    everywhere(&cluster, 1).await;
    assert_eq!(cluster.members[2].numbers("SELECT id FROM app.t").await, [9]);
}

/// More acknowledgements count when a commit after the order has them, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_are_confirmed_by_a_commit_after_the_order() {
    let cluster = with_table().await;
    cluster.fence(1, 1).await.unwrap();
    cluster.fence(2, 1).await.unwrap();
    cluster.promote(0, 1, 0, &[1, 2]).await.unwrap();
    cluster.members[0].run("INSERT INTO app.t VALUES (1)").await.unwrap();
    // An open primary waits for nobody until somebody acknowledges.
    let state = cluster.promote(0, 1, 1, &[1, 2]).await.unwrap();
    assert_eq!((state.acks, state.confirmed, state.waiting, state.writable), (1, 0, 0, true));
    cluster.members[0].run("INSERT INTO app.t VALUES (2)").await.unwrap();
    // One that is not open does. A marker waits from here on, and is let go by the next order.
    cluster.demote(0, 1, 5_000).await.unwrap();
    cluster.promote(0, 1, 1, &[1, 2]).await.unwrap();
    cluster.members[0].until("the marker waits", |state| state.waiting == 1).await;
    let state = cluster.promote(0, 1, 0, &[1, 2]).await.unwrap();
    assert_eq!((state.acks, state.confirmed), (0, 0));
    cluster.demote(0, 1, 5_000).await.unwrap();
    cluster.promote(0, 1, 1, &[1, 2]).await.unwrap();
    let state = cluster.members[0].until("the next marker waits", |state| state.waiting == 1).await;
    assert_eq!((state.acks, state.confirmed, state.acknowledging.len()), (1, 0, 0));
    // One that only reads confirms nothing.
    cluster.follow(1, 1, 0, false).await.unwrap();
    cluster.members[1].until("it has all", |own| own.has.contains(&state.has)).await;
    let state = cluster.members[0].state().await;
    assert_eq!((state.confirmed, state.waiting, state.acknowledging.len()), (0, 1, 0));
    cluster.follow(2, 1, 0, true).await.unwrap();
    let state = cluster.members[0].until("it is confirmed", |state| state.confirmed == 1).await;
    assert_eq!((state.waiting, state.acknowledging), (0, vec!["db-2".to_owned()]));
    let replica = cluster.members[2].state().await;
    assert!(replica.got.contains(&state.has) && state.has.count() >= 5, "{replica:?}");
}

/// A replica that has received commits without acknowledging them acknowledges them no more: MariaDB sends nothing twice. Two groups of
/// commits wait, and no third one can be made. They end when it is sure that the replica has them.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_a_replica_had_before_it_acknowledged_do_not_wait_for_ever() {
    let cluster = with_table().await;
    for clients in [1, 4] {
        cluster.fence(1, 1).await.unwrap();
        cluster.fence(2, 1).await.unwrap();
        let address = cluster.members[0].address;
        let mut waiting = Vec::new();
        for id in 0..clients {
            let mut connection = connect(address).await.unwrap();
            let insert = format!("INSERT INTO app.t VALUES ({})", clients * 10 + id);
            waiting.push(tokio::spawn(async move { connection.query_drop(insert).await }));
        }
        // Those of the second group are in the log, and are not counted yet.
        cluster.members[0].until("commits wait", |state| state.waiting > 0).await;
        cluster.follow(1, 1, 0, false).await.unwrap();
        let primary = cluster.members[0].state().await;
        cluster.members[1].until("it has all", |state| state.has.contains(&primary.has)).await;
        assert!(waiting.iter().any(|client| !client.is_finished()) && cluster.members[0].state().await.waiting > 0);
        let began = std::time::Instant::now();
        cluster.follow(1, 1, 0, true).await.unwrap();
        for client in waiting {
            tokio::time::timeout(std::time::Duration::from_secs(20), client).await.unwrap().unwrap().unwrap();
        }
        eprintln!("{clients} commits ended after {:.1?}", began.elapsed());
        let state = cluster.members[0].state().await;
        cluster.members[1].until("it has all", |own| own.has.contains(&state.has)).await;
        let found = cluster.members[1].numbers("SELECT COUNT(*) FROM app.t").await[0];
        assert_eq!(found, if clients == 1 { 1 } else { 5 });
    }
}

/// A loss of power may tear what a replica of MySQL received. It says that it lacks it, and receives it again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MySQL: make mysql"]
async fn a_replica_whose_received_writes_are_torn_receives_them_again() {
    assert!(is_mysql(), "MariaDB throws away what it received whenever it starts");
    let mut cluster = with_table().await;
    let held = hold(&cluster, 1).await;
    for id in 0..50 {
        cluster.members[0].run(&format!("INSERT INTO app.t VALUES ({id})")).await.unwrap();
    }
    let before = cluster.members[1].until("it lags", |state| state.got.count() >= state.has.count() + 40).await;
    cluster.member(1).kill();
    drop(held);
    let data = cluster.members[1].folder.join("v/data");
    let logs = std::fs::read_dir(&data).unwrap().flatten().map(|entry| entry.path());
    let is_log = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("relay.0")
    };
    let last = logs.filter(is_log).max().expect("it has received something");
    let mut bytes = std::fs::read(&last).unwrap();
    // Some of what it has not applied are blocks that were never written.
    let from = bytes.len() - 2000;
    bytes[from..from + 500].fill(0xaa);
    std::fs::write(&last, bytes).unwrap();
    cluster.member(1).start();
    let state = cluster.members[1].until("it runs", |state| !state.start.is_empty()).await;
    assert!(before.got.contains(&state.got) && state.got != before.got && state.got != state.has, "{state:?}");
    assert_ne!(state.start, before.start);
    cluster.follow(1, 1, 0, true).await.unwrap();
    let primary = cluster.members[0].state().await;
    cluster.members[1].until("it has all", |own| own.has.contains(&primary.has) && own.receiving && own.applying).await;
    assert_eq!(cluster.members[1].numbers("SELECT COUNT(*) FROM app.t").await, [50]);
}

/// A replica whose container is asked to end applies what it has received, and says after its next starts that it lacks nothing that it
/// acknowledged. One that cannot apply it in time, and one that is killed, do not say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_ended_in_order_says_which_starts_it_continues() {
    let mut cluster = with_table().await;
    let first = cluster.members[1].state().await;
    assert_eq!(first.continues, [""; 0]);
    let held = hold(&cluster, 1).await;
    cluster.members[0].run("INSERT INTO app.t VALUES (1)").await.unwrap();
    let lagging = cluster.members[1].until("it lags", |state| state.got != state.has).await;
    cluster.members[1].signal("TERM", "tillerman-agent");
    cluster.members[1].until("it receives nothing more", |state| !state.receiving).await;
    let refused = cluster.follow(1, 1, 0, true).await.unwrap_err();
    assert_eq!((refused.reason, refused.message.as_str()), (Reason::Busy, "the agent ends"));
    drop(held);
    cluster.member(1).stop();
    let mut starts = vec![first.start];
    for _ in 0..2 {
        cluster.member(1).start();
        let state = cluster.members[1].until("it runs", |state| !state.start.is_empty()).await;
        assert_eq!(state.continues, starts);
        assert!(state.has.contains(&lagging.got) && state.role == Role::Waiting, "{state:?}");
        starts.insert(0, state.start);
        cluster.member(1).stop();
    }
    cluster.member(1).start();
    let last = cluster.members[1].until("it runs", |state| state.continues == starts).await.start;
    cluster.members[1].signal("KILL", server());
    let killed = |state: &MemberState| !state.start.is_empty() && state.start != last;
    assert_eq!(cluster.members[1].until("it runs again", killed).await.continues, [""; 0]);

    cluster.follow(1, 1, 0, true).await.unwrap();
    let _held = hold(&cluster, 1).await;
    cluster.members[0].run("INSERT INTO app.t VALUES (2)").await.unwrap();
    cluster.members[1].until("it lags", |state| state.got != state.has).await;
    cluster.member(1).stop();
    cluster.member(1).start();
    let late = cluster.members[1].until("it runs", |state| !state.start.is_empty()).await;
    assert_eq!(late.continues, [""; 0]);
}
