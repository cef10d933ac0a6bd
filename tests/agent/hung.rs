//! Databases that hang: SIGSTOP makes them.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use tillerman::agent::client::Client;
use tillerman::agent::contract::{MemberState, Role};

use crate::cluster::{DatabaseCluster, MemberProcess, PATIENCE, connect, is_mysql, server};
use crate::full::Disk;
use crate::writers::{Writers, lost};

/// How long the databases of these tests may hang.
const AFTER: Duration = Duration::from_secs(4);

/// A cluster whose agents end databases that hang, and say to a kubelet whether they are ready.
fn cluster(size: u8) -> DatabaseCluster {
    let mut cluster = DatabaseCluster::new(size);
    for member in &mut cluster.members {
        member.flags.push(format!("--hung-after={}s", AFTER.as_secs()));
        member.flags.push(format!("--listen-health={}:8091", member.address));
    }
    cluster
}

async fn is_ready(member: &MemberProcess) -> bool {
    let url = format!("http://{}:8091", member.address);
    let asked = Client::default().ask(&url, http::Method::GET, "/readyz", Vec::new(), Duration::from_secs(3)).await;
    asked.is_ok_and(|answer| answer.status == 200)
}

/// Waits until a member is ready, or is not; for how long it took.
async fn until_ready(member: &MemberProcess, wanted: bool) -> Duration {
    let since = Instant::now();
    while is_ready(member).await != wanted {
        assert!(since.elapsed() < PATIENCE, "{} is ready: {}", member.name, !wanted);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    since.elapsed()
}

/// Waits until a database runs that was started after this start, because it hung.
async fn started_again(member: &MemberProcess, before: &str) -> MemberState {
    let state = member.until("it is started again", |state| !state.start.is_empty() && state.start != before).await;
    assert!(state.restarted.is_some(), "{state:?}");
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_that_hangs_is_not_ready_and_comes_back_with_all_that_it_acknowledged() {
    let mut cluster = cluster(1);
    cluster.create().await;
    let member = &cluster.members[0];
    let writers = Writers::start(&cluster.members, 2).await;
    writers.more(50).await;
    until_ready(member, true).await;
    let before = member.state().await;
    member.signal("STOP", server());
    let unready = until_ready(member, false).await;
    assert!(unready < AFTER, "{unready:?}");
    let hangs = member.until("it says so", |state| state.restarts_in.is_some()).await;
    let says = |state: &MemberState, text: &str| state.problem.as_ref().is_some_and(|problem| problem.contains(text));
    assert!(hangs.hangs && says(&hangs, "its agent starts it again in"), "{hangs:?}");
    let hung = Instant::now();
    let state = started_again(member, &before.start).await;
    eprintln!("not ready after {unready:.1?}, started again after {:.1?}", unready + hung.elapsed());
    let why = state.restarted.as_ref().map(|restarted| restarted.why.clone()).unwrap_or_default();
    assert!(why.starts_with("it did not answer for "), "{why}");
    assert_eq!((state.role, state.writable, state.hangs, state.restarts_in), (Role::Waiting, false, false, None));
    assert!(cluster.promote(0, 1, 0, &[]).await.unwrap().writable);
    until_ready(member, true).await;
    writers.more(50).await;

    // One that hangs while it starts need not answer, and does nothing.
    let number = member.process_of(server());
    member.signal("KILL", server());
    let next = loop {
        match member.find_process(server()) {
            Some(next) if next != number => break next,
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    member.signal("STOP", server());
    assert_eq!(member.state().await.start, "", "it is still starting");
    let again = |state: &MemberState| !state.start.is_empty() && state.restarted != hangs.restarted;
    let state = member.until("it is started again", again).await;
    let why = state.restarted.map(|restarted| restarted.why).unwrap_or_default();
    assert!(why.contains("while it started") && member.process_of(server()) != next, "{why}");
    assert!(cluster.promote(0, 1, 0, &[]).await.unwrap().writable);
    writers.more(50).await;
    assert_eq!(lost(&cluster.members[0], &writers.stop().await).await, Vec::<u64>::new());
}

/// Another member takes over. The database that hangs is ended, does not start by itself, and obeys whoever is the primary now.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_is_ended_and_waits_for_an_order() {
    let mut cluster = cluster(3);
    cluster.create().await;
    cluster.grow(3).await;
    let writers = Writers::start(&cluster.members, 4).await;
    writers.more(100).await;
    cluster.members[0].signal("STOP", server());
    for k in [1, 2] {
        cluster.fence(k, 2).await.unwrap();
    }
    let (one, two) = (cluster.members[1].state().await.got, cluster.members[2].state().await.got);
    let (next, other) = if one.contains(&two) { (1, 2) } else { (2, 1) };
    cluster.members[next].until("it has applied all", |state| state.has == state.got).await;
    cluster.promote(next, 2, 0, &[0, other]).await.unwrap();
    cluster.follow(other, 2, next, true).await.unwrap();
    cluster.promote(next, 2, 1, &[0, other]).await.unwrap();
    writers.more(100).await;
    let ended = cluster.members[0].until("it is ended", |state| state.start.is_empty()).await;
    assert_eq!((ended.role, ended.hangs), (Role::Waiting, false));
    assert!(ended.restarted.is_some() && cluster.members[0].find_process(server()).is_none());
    cluster.returns(0, 2, next, true).await;
    writers.more(100).await;
    let keys = writers.stop().await;
    let state = cluster.members[next].state().await;
    for member in &cluster.members {
        member.until("it has all", |own| own.has.contains(&state.has)).await;
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new(), "{}", member.name);
    }
}

/// Nobody may take over: one of two replicas is lost while the primary hangs, and what the primary acknowledged may have been on that one
/// alone. So the primary itself continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_while_a_replica_is_killed_goes_on_with_all_that_it_acknowledged() {
    let mut cluster = cluster(3);
    cluster.create().await;
    cluster.grow(3).await;
    let writers = Writers::start(&cluster.members[..1], 4).await;
    writers.more(100).await;
    cluster.members[0].signal("STOP", server());
    cluster.member(2).kill();
    cluster.member(2).start();
    let ended = cluster.members[0].until("it is ended", |state| state.start.is_empty()).await;
    assert!(ended.restarted.is_some(), "{ended:?}");
    cluster.promote(0, 1, 0, &[1, 2]).await.unwrap();
    for k in [1, 2] {
        cluster.members[k].until("its database runs", |state| !state.start.is_empty()).await;
        cluster.follow(k, 1, 0, true).await.unwrap();
    }
    cluster.promote(0, 1, 1, &[1, 2]).await.unwrap();
    writers.more(100).await;
    let keys = writers.stop().await;
    let state = cluster.members[0].state().await;
    for member in &cluster.members {
        member.until("it has all", |own| own.has.contains(&state.has)).await;
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new(), "{}", member.name);
    }
}

/// A replica that hangs may be the only one with an acknowledged write, which it would lose by a start: it has received it, and not applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_hangs_is_not_started_again_before_its_source_is_well() {
    if is_mysql() {
        return; // It keeps what it received.
    }
    let mut cluster = cluster(2);
    cluster.create().await;
    cluster.grow(2).await;
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    cluster.members[0].run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    let made = cluster.members[0].state().await;
    cluster.members[1].until("it has the table", |state| state.has.contains(&made.has)).await;
    let mut held = connect(cluster.members[1].address).await.unwrap();
    held.query_drop("LOCK TABLES app.t READ").await.unwrap();
    cluster.members[0].run("INSERT INTO app.t VALUES (7)").await.unwrap();
    let before = cluster.members[1].until("it lags", |state| state.got != state.has).await;
    let number = cluster.members[1].process_of(server());
    cluster.members[1].signal("STOP", server());
    cluster.member(0).kill();
    let stays =
        |state: &MemberState| state.problem.as_ref().is_some_and(|problem| problem.contains("its source is not well"));
    let state = cluster.members[1].until("it says why it stays", stays).await;
    assert_eq!((state.restarts_in, state.restarted), (None, before.restarted));
    assert_eq!(cluster.members[1].process_of(server()), number);
    cluster.member(0).start();
    cluster.members[0].until("it answers", |_| true).await;
    cluster.promote(0, 2, 0, &[1]).await.unwrap();
    let state = started_again(&cluster.members[1], &before.start).await;
    assert!(!state.got.contains(&before.got), "what it had received is gone: {state:?}");
    cluster.follow(1, 2, 0, true).await.unwrap();
    cluster.members[1].until("it has all", |state| state.has.contains(&before.got)).await;
    assert_eq!(cluster.members[1].numbers("SELECT id FROM app.t").await, [7]);
}

/// Neither too many connections, nor a lock, nor a long statement, nor a copy is a hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_answers_anything_is_not_ended() {
    let mut cluster = cluster(1);
    let settings = cluster.folder().join("settings");
    std::fs::write(&settings, "[mysqld]\nmax_connections=12\n").unwrap();
    cluster.member(0).flags.push(format!("--my-cnf={}", settings.display()));
    cluster.create().await;
    let member = &cluster.members[0];
    member.run("CREATE DATABASE app").await.unwrap();
    member.run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    let before = member.state().await;
    let mut copy = member.client.copy(&member.url(), PATIENCE).await.unwrap();
    let mut connections = Vec::new();
    let refused = loop {
        match connect(member.address).await {
            Ok(connection) => connections.push(connection),
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("Too many connections"), "{refused}");
    connections[0].query_drop("LOCK TABLES app.t WRITE").await.unwrap();
    let mut slow = connections.remove(1);
    let slow = tokio::spawn(async move { slow.query_drop("ALTER TABLE app.t ADD COLUMN c INT, ALGORITHM=COPY").await });
    let (client, start) = (&member.client, &before.start);
    let waits = Client::state_while(client, &member.url(), start, 3 * AFTER).await.unwrap();
    let state = waits.unwrap();
    assert_eq!((&state.start, state.restarted, state.restarts_in), (&before.start, before.restarted.clone(), None));
    assert!(!slow.is_finished() && is_ready(member).await, "a copy, a lock and a statement that waits for it");
    assert!(http_body_util::BodyExt::frame(copy.body_mut()).await.is_some());
    drop(copy);
    drop(connections);
    slow.await.unwrap().unwrap();
}

/// A start does not repair a full volume.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_on_a_full_disk_is_started_again_when_there_is_room() {
    let mut cluster = cluster(1);
    let disk = Disk::new(cluster.members[0].folder.join("v"), 400);
    cluster.create().await;
    let member = &cluster.members[0];
    let before = member.state().await;
    let filler = disk.fill();
    let number = member.process_of(server());
    member.signal("STOP", server());
    let says = |state: &MemberState| {
        let problem = state.problem.as_deref().unwrap_or_default();
        problem.contains("its volume is full") && problem.contains("its agent does not start it again")
    };
    let state = member.until("it says so", says).await;
    assert_eq!(state.restarts_in, None);
    let state = member.client.state_while(&member.url(), &before.start, 2 * AFTER).await.unwrap().unwrap();
    assert_eq!((&state.start, member.process_of(server())), (&before.start, number));
    std::fs::remove_file(filler).unwrap();
    started_again(member, &before.start).await;
    assert!(cluster.promote(0, 1, 0, &[]).await.unwrap().writable);
}
