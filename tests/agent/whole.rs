//! What clients expect of a whole MariaDB: triggers and functions, time zones by their names, and events.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;

use crate::cluster::{DatabaseCluster, MemberProcess, PATIENCE, connect, is_mysql};

/// Waits until a query gives this. What it asks may not have come to a replica yet.
async fn becomes(member: &MemberProcess, query: &str, expected: &str) {
    let mut found = String::new();
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let answer: Result<Vec<Option<String>>, _> = match connect(member.address).await {
            Ok(mut connection) => connection.query(query).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(rows) if rows == [Some(expected.to_owned())] => return,
            other => found = format!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}: {query}: {found}", member.name);
}

/// Without the setting both are error 1419 for everybody who has no SUPER, as no client has.
#[tokio::test(flavor = "multi_thread")]
async fn clients_create_triggers_and_functions_and_replicas_have_them() {
    if is_mysql() {
        return;
    }
    let cluster = DatabaseCluster::grown(2).await;
    let primary = &cluster.members[0];
    for statement in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.item (id INT PRIMARY KEY, price INT)",
        "CREATE TABLE shop.log (id INT PRIMARY KEY, twice INT)",
        // Neither says that it is deterministic.
        "CREATE FUNCTION shop.twice(n INT) RETURNS INT RETURN n * 2",
        "CREATE TRIGGER shop.noted AFTER INSERT ON shop.item FOR EACH ROW INSERT INTO shop.log VALUES (NEW.id, shop.twice(NEW.price))",
        "INSERT INTO shop.item VALUES (1, 21)",
    ] {
        primary.run(statement).await.unwrap_or_else(|why| panic!("{statement}: {why}"));
    }
    for member in &cluster.members {
        becomes(member, "SELECT twice FROM shop.log", "42").await;
        becomes(member, "SELECT shop.twice(4)", "8").await;
        becomes(member, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'shop'", "noted")
            .await;
    }
}

const BERLIN: &str = "SELECT CAST(CONVERT_TZ('2026-07-01 12:00:00', 'UTC', 'Europe/Berlin') AS CHAR)";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_knows_time_zones_by_their_names_and_may_have_one_as_its_own() {
    if is_mysql() {
        return;
    }
    let mut cluster = DatabaseCluster::new(2);
    let file = cluster.folder().join("my.cnf");
    fs::write(&file, "[mysqld]\ndefault_time_zone=Europe/Berlin\n").unwrap();
    for member in &mut cluster.members {
        member.flags.push(format!("--my-cnf={}", file.display()));
    }
    cluster.create().await;
    cluster.grow(2).await;
    for member in &cluster.members {
        becomes(member, BERLIN, "2026-07-01 14:00:00").await;
        becomes(member, "SELECT @@GLOBAL.time_zone", "Europe/Berlin").await;
    }
}

/// As one that an earlier version of the agent has made: without zones.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_made_without_time_zones_gets_them_at_its_next_start_and_not_in_its_log() {
    if is_mysql() {
        return;
    }
    let mut cluster = DatabaseCluster::new(2);
    for member in &mut cluster.members {
        member.flags.push("--zoneinfo=/nowhere".to_owned());
    }
    cluster.create().await;
    cluster.grow(2).await;
    for member in &cluster.members {
        becomes(member, "SELECT COUNT(*) FROM mysql.time_zone_name", "0").await;
    }
    let before = cluster.members[0].state().await.has;
    let replica = cluster.member(1);
    replica.stop();
    replica.flags.clear();
    replica.start();
    cluster.members[1].until("it runs", |state| !state.start.is_empty()).await;
    becomes(&cluster.members[1], BERLIN, "2026-07-01 14:00:00").await;
    // Nobody else has them by that.
    becomes(&cluster.members[0], "SELECT COUNT(*) FROM mysql.time_zone_name", "0").await;
    cluster.follow(1, 1, 0, true).await.unwrap();
    let state = cluster.members[1].until("it follows", |state| state.receiving && state.applying).await;
    assert_eq!(state.has, before, "it has no write of its own");
}

/// As an earlier version of the agent has left them: without the table, nobody knows whether the owner of an event of another member has
/// disabled it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_member_that_an_earlier_agent_kept_from_running_waits_for_its_owner() {
    if is_mysql() {
        return;
    }
    let cluster = DatabaseCluster::grown(2).await;
    for statement in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.tick (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE EVENT shop.ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.tick VALUES ()",
        "DROP TABLE tillerman.event",
    ] {
        cluster.members[0].run(statement).await.unwrap_or_else(|why| panic!("{statement}: {why}"));
    }
    cluster.demote(0, 1, 10_000).await.unwrap();
    let all = cluster.members[0].state().await.has;
    cluster.members[1].until("it has all", |state| state.has.contains(&all)).await;
    cluster.promote(1, 2, 1, &[0]).await.unwrap();
    cluster.follow(0, 2, 1, true).await.unwrap();
    let primary = &cluster.members[1];
    becomes(primary, "SELECT @@GLOBAL.event_scheduler", "ON").await;
    becomes(primary, "SELECT COUNT(*) FROM tillerman.event WHERE name = 'ticks'", "1").await;
    let status = "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = 'ticks'";
    assert_eq!(primary.texts(status).await, ["SLAVESIDE_DISABLED"]);
    let before = primary.texts("SELECT COUNT(*) FROM shop.tick").await.remove(0);
    primary.run("ALTER EVENT shop.ticks ENABLE").await.unwrap();
    becomes(primary, &format!("SELECT COUNT(*) > {before} FROM shop.tick"), "1").await;
    becomes(primary, "SELECT COUNT(*) FROM tillerman.event", "0").await;
}

/// Rows of an event by the member that ran it.
const BY_MEMBER: &str =
    "SELECT CONCAT(COUNT(*) > 3, ' ', GROUP_CONCAT(DISTINCT server ORDER BY server)) FROM shop.tick WHERE id > ";

#[tokio::test(flavor = "multi_thread")]
async fn an_event_runs_at_the_primary_alone_and_at_the_next_one_after_a_fail_over_and_a_switch_over() {
    if is_mysql() {
        return;
    }
    let mut cluster = DatabaseCluster::grown(3).await;
    for statement in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.tick (id INT PRIMARY KEY AUTO_INCREMENT, server INT, at DATETIME(3))",
        "CREATE TABLE shop.off (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE EVENT shop.ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.tick (server, at) VALUES (@@server_id, UTC_TIMESTAMP(3))",
        "CREATE EVENT shop.`it's off` ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.off VALUES ()",
        "ALTER EVENT shop.`it's off` DISABLE",
        "DELETE FROM shop.off",
        // Done once, and never again.
        "CREATE EVENT shop.once ON SCHEDULE AT CURRENT_TIMESTAMP + INTERVAL 1 SECOND ON COMPLETION PRESERVE DO CREATE TABLE shop.once (id INT)",
    ] {
        cluster.members[0].run(statement).await.unwrap_or_else(|why| panic!("{statement}: {why}"));
    }
    let scheduler = "SELECT @@GLOBAL.event_scheduler";
    let definers = "SELECT GROUP_CONCAT(DISTINCT DEFINER) FROM information_schema.EVENTS";
    let definer = cluster.members[0].texts(definers).await;
    becomes(&cluster.members[0], &format!("{BY_MEMBER}0"), "1 1").await;
    becomes(&cluster.members[0], "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'once'", "1").await;
    becomes(&cluster.members[0], "SELECT COUNT(*) FROM tillerman.event WHERE name = 'it''s off'", "1").await;
    for (k, expected) in [(0, "ON"), (1, "OFF"), (2, "OFF")] {
        becomes(&cluster.members[k], scheduler, expected).await;
    }

    // The primary is lost.
    cluster.member(0).kill();
    for k in [1, 2] {
        cluster.fence(k, 2).await.unwrap();
        assert_eq!(cluster.members[k].texts(scheduler).await, ["OFF"]);
    }
    let (one, two) = (cluster.members[1].state().await.got, cluster.members[2].state().await.got);
    let (to, other) = if one.contains(&two) { (1, 2) } else { (2, 1) };
    cluster.members[to].until("it has applied all", |state| state.has.contains(&state.got)).await;
    let last = cluster.members[to].texts("SELECT CAST(MAX(id) AS CHAR) FROM shop.tick").await.remove(0);
    cluster.promote(to, 2, 1, &[0, other]).await.unwrap();
    cluster.follow(other, 2, to, true).await.unwrap();
    becomes(&cluster.members[to], &format!("{BY_MEMBER}{last}"), &format!("1 {}", to + 1)).await;
    assert_eq!(cluster.members[to].texts(definers).await, definer, "they are still their owners'");
    // The one that was lost returns.
    cluster.member(0).start();
    cluster.members[0].until("it answers", |_| true).await;
    cluster.returns(0, 2, to, false).await;
    let all = cluster.members[to].state().await;
    cluster.members[0].until("it has caught up", |state| state.receiving && state.has.contains(&all.has)).await;
    cluster.follow(0, 2, to, true).await.unwrap();
    for k in [0, other] {
        becomes(&cluster.members[k], scheduler, "OFF").await;
    }

    // And becomes the primary again, by a hand-over.
    cluster.demote(to, 2, 10_000).await.unwrap();
    assert_eq!(cluster.members[to].texts(scheduler).await, ["OFF"]);
    let all = cluster.members[to].state().await.has;
    cluster.members[0].until("it has all", |state| state.has.contains(&all)).await;
    let last = cluster.members[0].texts("SELECT CAST(MAX(id) AS CHAR) FROM shop.tick").await.remove(0);
    cluster.promote(0, 3, 1, &[1, 2]).await.unwrap();
    for k in [1, 2] {
        cluster.follow(k, 3, 0, true).await.unwrap();
    }
    becomes(&cluster.members[0], &format!("{BY_MEMBER}{last}"), "1 1").await;

    // No second has two rows, wherever it ran; what is disabled stays so; each member has the same.
    let rows = cluster.members[0].texts("SELECT CAST(at AS DATETIME) FROM shop.tick").await;
    let seconds: BTreeSet<&String> = rows.iter().collect();
    assert!(rows.len() - seconds.len() <= 2, "an event may be late by a moment: {rows:?}");
    assert_eq!(cluster.members[0].texts("SELECT COUNT(*) FROM shop.off").await, ["0"]);
    let status = "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = ";
    for name in ["'it''s off'", "'once'"] {
        assert_ne!(cluster.members[0].texts(&format!("{status}{name}")).await, ["ENABLED"], "{name}");
    }
}
