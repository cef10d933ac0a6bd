//! The way back: after the cut-over the source follows the cluster for a day, so that it can take over again with all writes.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::accounts::CLIENTS;
use super::flags::Import;
use super::follow::Follower;
use super::moment::written;
use super::record::{self, Direction, ImportPhase, Record, STORE, quoted, read};
use super::source::lacks_to_follow;
use super::{ANSWER, CLOSES, DRAINS, FEW, LOOK, of_cluster, of_source, open, reach, reach_cluster};
use crate::flavor::Flavor;
use crate::sql::{Address, Sql, SqlError};

/// How long it is open, in seconds.
const OPEN: u64 = 24 * 3600;
/// The pause between two looks at connections that end.
const SOON: Duration = Duration::from_millis(50);

/// Follows the cluster until a day is over or the source has taken over again. The error is a sentence.
pub async fn attempt(import: &Import, source: &Address, cluster: &Address) -> Result<(), String> {
    let (mut here, mut there) = (reach_cluster(cluster).await?, reach(source).await?);
    if here.flavor == Flavor::Mysql {
        return Err("only a MariaDB can follow its cluster: remove --way-back".to_owned());
    }
    let address = format!("{}:{}", source.host, source.port);
    let done = read(&mut here, Direction::Import, &address).await.map_err(of_cluster)?;
    if done.phase == ImportPhase::RolledBack {
        open(&mut there, &done.closed).await.map_err(of_source)?;
        return forget(&mut there).await.map_err(of_source);
    }
    if !import.roll_back {
        unlock(&mut here).await.map_err(of_cluster)?;
    }
    // It has ended; a kill may have left the record at the source.
    if done.begun == 0 {
        return forget(&mut there).await.map_err(of_source);
    }
    if let Some(lacks) = lacks_to_follow(&mut there).await.map_err(of_source)? {
        return Err(lacks);
    }
    let record = begin(&mut there, &done).await?;
    let follower = Follower::new(Direction::WayBack, &record);
    tokio::select! {
        failed = follower.follow(import, cluster, source, record) => return failed,
        steered = steer(import.roll_back, &follower, &mut here) => steered?,
    }
    if import.roll_back {
        open(&mut there, &done.closed).await.map_err(of_source)?;
    }
    forget(&mut there).await.map_err(of_source)
}

/// The record at the source. The first one begins with the writes of the cluster at the cut-over. The error is a sentence.
async fn begin(there: &mut Sql, done: &Record) -> Result<Record, String> {
    // Members of a cluster have several addresses, and one cut-over.
    let cluster = &format!("the cluster of the cut-over at {}", done.begun);
    there.run("CREATE DATABASE IF NOT EXISTS tillerman", STORE).await.map_err(of_source)?;
    let record = read(there, Direction::WayBack, cluster).await.map_err(of_source)?;
    if record.source != *cluster {
        return Err(format!("the source already follows {}: DROP TABLE tillerman.way_back there", record.source));
    }
    if record.phase == ImportPhase::Following {
        return Ok(record);
    }
    let gtids = record::text(&done.writes);
    let begins = format!("UPDATE tillerman.way_back SET phase = 'Following', gtids = '{gtids}' WHERE id = 1");
    there.run(begins, STORE).await.map_err(of_source)?;
    read(there, Direction::WayBack, cluster).await.map_err(of_source)
}

/// Looks how far the source is, until a day is over or it takes over again.
async fn steer(roll_back: bool, follower: &Follower, here: &mut Sql) -> Result<(), String> {
    let time = format!(
        "SELECT begun + {OPEN} <= UNIX_TIMESTAMP() AS ended, \
         DATE_FORMAT(CONVERT_TZ(FROM_UNIXTIME(begun + {OPEN}), @@time_zone, '+00:00'), '%Y-%m-%d %H:%i UTC') AS end FROM tillerman.import WHERE id = 1"
    );
    let mut said = String::new();
    loop {
        let now = written(here).await?;
        let left = follower.applied.borrow().behind(&now);
        if roll_back && left <= FEW {
            return take_over(follower, here).await;
        }
        let time = here.rows(&time, ANSWER).await.map_err(of_cluster)?;
        let (ended, end) = time.first().map(|row| (row.number("ended"), row.text("end"))).unwrap_or_default();
        if !roll_back && ended == Some(1) {
            say(here, "has ended").await.map_err(of_cluster)?;
            return here.run("UPDATE tillerman.import SET begun = 0 WHERE id = 1", STORE).await.map_err(of_cluster);
        }
        // This text is a write of the cluster, too.
        let behind = if left > FEW { format!(", {left} writes behind") } else { String::new() };
        let text = format!("is open until {end}: the source follows the cluster{behind}");
        if said != text {
            say(here, &text).await.map_err(of_cluster)?;
            said = text;
        }
        sleep(LOOK).await;
    }
}

/// Records a message about the way back, behind that of the cut-over.
pub async fn say(sql: &mut Sql, text: &str) -> Result<(), SqlError> {
    let text = record::brief(&format!("; the way back {text}"));
    let says = format!(
        "UPDATE tillerman.import SET message = CONCAT(SUBSTRING_INDEX(message, '; the way back ', 1), '{text}') WHERE id = 1"
    );
    sql.run(says, STORE).await
}

/// Ends the writes of applications in the cluster, and waits until the source has them. If that fails, they can continue.
async fn take_over(follower: &Follower, here: &mut Sql) -> Result<(), String> {
    say(here, "ends the writes of applications in the cluster").await.map_err(of_cluster)?;
    let began = Instant::now();
    if let Err(why) = drain(follower, here).await {
        unlock(here).await.map_err(|error| format!("{why}; accounts stay locked in the cluster: {error}"))?;
        return Err(format!("applications can use the cluster again: {why}"));
    }
    let message = format!(
        "rolled back: applications could not write for {:.1} s until the source had all writes; it takes writes again, and the accounts of \
         applications are locked in the cluster",
        began.elapsed().as_secs_f64()
    );
    let done = format!("UPDATE tillerman.import SET phase = 'RolledBack', message = '{message}' WHERE id = 1");
    here.run(done, STORE).await.map_err(of_cluster)?;
    tracing::info!(message, "the source takes over again");
    Ok(())
}

async fn drain(follower: &Follower, here: &mut Sql) -> Result<(), String> {
    lock(here).await.map_err(of_cluster)?;
    let since = Instant::now();
    while kill(here).await.map_err(of_cluster)? {
        if since.elapsed() > CLOSES {
            return Err("connections of applications to the cluster do not end".to_owned());
        }
        sleep(SOON).await;
    }
    let last = written(here).await?;
    let mut applied = follower.applied.subscribe();
    let drained = timeout(DRAINS, applied.wait_for(|applied| applied.behind(&last) == 0)).await;
    drained.map_err(|_| "the source is too slow")?.map_err(|error| error.to_string())?;
    Ok(())
}

/// Locks the accounts of applications. The table has those that were not locked before.
async fn lock(here: &mut Sql) -> Result<(), SqlError> {
    here.run("CREATE TABLE IF NOT EXISTS tillerman.locked (user VARCHAR(128), host VARCHAR(255), PRIMARY KEY (user, host)) ENGINE=InnoDB", STORE).await?;
    let open = format!(
        "SELECT User AS user, Host AS host FROM mysql.global_priv WHERE {CLIENTS} AND COALESCE(JSON_VALUE(Priv, '$.is_role'), 0) = 0 \
         AND COALESCE(JSON_VALUE(Priv, '$.account_locked'), 0) = 0"
    );
    for row in here.rows(open, ANSWER).await? {
        let (user, host) = (quoted(&row.text("user")), quoted(&row.text("host")));
        here.run(format!("REPLACE INTO tillerman.locked VALUES ('{user}', '{host}')"), STORE).await?;
        here.run(format!("ALTER USER '{user}'@'{host}' ACCOUNT LOCK"), STORE).await?;
    }
    Ok(())
}

/// Ends the connections of locked accounts. Returns whether there were any.
async fn kill(here: &mut Sql) -> Result<bool, SqlError> {
    let query =
        "SELECT p.ID AS id FROM information_schema.PROCESSLIST p WHERE p.USER IN (SELECT user FROM tillerman.locked)";
    let rows = here.rows(query, ANSWER).await?;
    for id in rows.iter().filter_map(|row| row.number("id")) {
        match here.run(format!("KILL CONNECTION {id}"), ANSWER).await {
            // `ER_NO_SUCH_THREAD`
            Err(SqlError::Server(1094)) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(!rows.is_empty())
}

/// Unlocks what [`lock`] locked.
async fn unlock(here: &mut Sql) -> Result<(), SqlError> {
    let rows = match here.rows("SELECT user, host FROM tillerman.locked", ANSWER).await {
        // `ER_NO_SUCH_TABLE`
        Err(SqlError::Server(1146)) => return Ok(()),
        rows => rows?,
    };
    for row in rows {
        let (user, host) = (quoted(&row.text("user")), quoted(&row.text("host")));
        here.run(format!("ALTER USER IF EXISTS '{user}'@'{host}' ACCOUNT UNLOCK"), STORE).await?;
    }
    here.run("DROP TABLE tillerman.locked", STORE).await
}

/// Removes the record from the source.
async fn forget(there: &mut Sql) -> Result<(), SqlError> {
    there.run("DROP TABLE IF EXISTS tillerman.way_back", STORE).await?;
    let others = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'tillerman' LIMIT 1";
    if there.rows(others, ANSWER).await?.is_empty() {
        there.run("DROP DATABASE IF EXISTS tillerman", STORE).await?;
    }
    Ok(())
}
