//! One member.

use std::time::{Duration, Instant};

use tillerman::agent::contract::{Order, Reason, Role, Verb};

use crate::cluster::{DatabaseCluster, is_mysql, server};

#[tokio::test(flavor = "multi_thread")]
async fn one_member_creates_the_data_and_takes_writes_when_it_is_the_primary() {
    let mut cluster = DatabaseCluster::new(1);
    cluster.member(0).start();
    let began = Instant::now();
    let member = &cluster.members[0];
    let state = member.until("it has data", |state| !state.start.is_empty()).await;
    eprintln!("the data is there after {:.1?}", began.elapsed());
    assert_eq!((state.role, state.writable, state.epoch, state.member.as_str()), (Role::Waiting, false, 1, "db-0"));
    let series = if is_mysql() { "9.7." } else { "10.11." };
    assert!(state.version.as_deref().is_some_and(|version| version.starts_with(series)), "{state:?}");
    assert_eq!((state.problem, state.busy, state.diverged), (None, None, false));
    assert!(!member.folder.join("v/init.sql").exists(), "hashes of passwords do not stay");
    assert!(member.run("CREATE DATABASE early").await.is_err(), "it is read-only");
    let start = state.start;
    let order = Order { epoch: 1, number: Some(0), data: "another".into() };
    let refused = member.order(&Verb::Fence(order)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::OtherData);

    cluster.data = state.data.unwrap();
    for _ in 0..2 {
        let state = cluster.promote(0, 2, 0, &[]).await.unwrap();
        assert_eq!((state.role, state.acks, state.writable, state.epoch), (Role::Primary, 0, true, 2));
    }
    assert_eq!(cluster.fence(0, 1).await.unwrap_err().reason, Reason::StaleEpoch);
    let too_many = if is_mysql() { 10 } else { 2 };
    assert_eq!(cluster.promote(0, 2, too_many, &[]).await.unwrap_err().reason, Reason::Impossible);
    let member = &cluster.members[0];
    member.run("CREATE DATABASE app").await.unwrap();
    member.run("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    member.run("INSERT INTO app.t VALUES (1)").await.unwrap();
    let state = member.state().await;
    if is_mysql() {
        assert!(state.has.to_string().ends_with(":1-3") && state.has.count() == 3, "{}", state.has);
    } else {
        assert_eq!(state.has.to_string(), "0-1:1-3");
    }
    assert_eq!((state.has, state.start), (state.got, start.clone()));

    // The database is killed. Who has asked for it hears it at once. It waited for nobody, so it starts again, and is read-only.
    let (client, url, before) = (member.client.clone(), member.url(), start.clone());
    let mut question = tokio::spawn(async move { client.state_while(&url, &before, Duration::from_secs(10)).await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut question).await.is_err(), "it waits");
    member.signal("KILL", server());
    let heard = question.await.unwrap().expect("a start can be asked for").unwrap();
    assert_ne!(heard.start, start);
    let state = member.until("it starts again", |state| !state.start.is_empty() && state.start != start).await;
    assert_eq!((state.role, state.writable, state.acks), (Role::Waiting, false, 0));
    assert!(cluster.promote(0, 2, 0, &[]).await.unwrap().writable);
    assert_eq!(cluster.members[0].numbers("SELECT id FROM app.t").await, [1]);

    // One that waits for acknowledgements takes no writes without a replica, and does not start by itself.
    let state = cluster.promote(0, 2, 1, &[]).await.unwrap();
    assert_eq!((state.acks, state.confirmed, state.writable), (1, 0, true), "it was open already");
    cluster.members[0].signal("KILL", server());
    let state = cluster.members[0].until("it is down", |state| state.start.is_empty()).await;
    assert_eq!(state.role, Role::Waiting);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(cluster.members[0].state().await.start, "");
    let state = cluster.promote(0, 3, 1, &[]).await.unwrap();
    assert_eq!((state.role, state.writable), (Role::Primary, false), "nobody acknowledges");
    assert!(cluster.promote(0, 3, 0, &[]).await.unwrap().writable);

    // A primary that is fenced is killed, and stays down until the next order, also after its container has started again.
    let state = cluster.fence(0, 4).await.unwrap();
    assert_eq!((state.role, state.start.as_str(), state.epoch), (Role::Fenced, "", 4));
    assert!(cluster.promote(0, 4, 1, &[]).await.is_ok());
    cluster.members[0].stop();
    cluster.members[0].start();
    let state = cluster.members[0].until("it answers", |_| true).await;
    assert_eq!((state.role, state.start.as_str(), state.epoch), (Role::Waiting, "", 4));
    assert!(cluster.promote(0, 5, 0, &[]).await.unwrap().writable);
    assert_eq!(cluster.members[0].numbers("SELECT id FROM app.t").await, [1]);

    // An order that is older than one that was obeyed is refused, also after the container has started again.
    let order = |number| Order { epoch: 5, number: Some(number), data: cluster.data.clone() };
    let (late, recent) = (Verb::Fence(order(6)), Verb::Fence(order(7)));
    assert_eq!(cluster.members[0].order(&recent).await.unwrap().number, Some(7));
    assert_eq!(cluster.members[0].order(&late).await.unwrap_err().reason, Reason::StaleOrder);
    // An operator that is older than numbers gives none.
    let unnumbered = |epoch| Verb::Fence(Order { epoch, number: None, data: cluster.data.clone() });
    assert_eq!(cluster.members[0].order(&unnumbered(5)).await.unwrap().number, Some(7));
    assert_eq!(cluster.members[0].order(&unnumbered(4)).await.unwrap_err().reason, Reason::StaleEpoch);
    cluster.members[0].stop();
    cluster.members[0].start();
    let state = cluster.members[0].until("it answers", |_| true).await;
    assert_eq!((state.epoch, state.number), (5, Some(7)));
    assert_eq!(cluster.members[0].order(&late).await.unwrap_err().reason, Reason::StaleOrder);
}

/// The agent answers while the database hangs.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_answered_while_the_database_hangs() {
    let cluster = DatabaseCluster::with_primary(1).await;
    let member = &cluster.members[0];
    let before = member.state().await;
    member.signal("STOP", server());
    // `state` panics after two seconds.
    let state = member.state().await;
    assert_eq!((state.role, &state.start, &state.has), (Role::Primary, &before.start, &before.has));
    assert!(state.hangs && state.problem.is_some_and(|problem| problem.contains("does not answer")));
    let asked = Instant::now();
    assert_eq!(cluster.promote(0, 1, 0, &[]).await.unwrap_err().reason, Reason::DatabaseDown);
    assert!(asked.elapsed() < Duration::from_secs(30));
    member.signal("CONT", server());
    let state = member.until("it answers again", |state| state.problem.is_none()).await;
    assert_eq!((state.start, state.writable), (before.start, true));
}
