//! The copy. All of it is of one moment. For MariaDB, the statements of `mariadb-dump` go to the client of the cluster, and their first lines
//! name the position of that moment; for MySQL, see [`super::dump`].

use std::borrow::Cow;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, timeout};

use super::dump::dump;
use super::flags::Import;
use super::moment::until;
use super::programs::reaches;
use super::record::{Direction, ImportPhase, enter, hold, moves, name, release, say};
use super::source::{Database, databases};
use super::stream::{Mark, Writes, without_definer};
use crate::flavor::Flavor;
use crate::restore::runs;
use crate::seed::{PART, STALLS};
use crate::sql::{Address, Sql};

/// How much of the output may come before the position, in bytes.
const HEAD: usize = 64 << 10;
/// The pause between two reports of the progress.
const REPORT: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(60);

/// Copies all databases of clients.
pub async fn copy(
    import: &Import,
    source: &Address,
    target: &Address,
    from: &mut Sql,
    to: &mut Sql,
) -> Result<(), String> {
    let said = |error: crate::sql::SqlError| error.to_string();
    let names = databases(from).await.map_err(said)?;
    hold(to).await?;
    enter(to, ImportPhase::Copying).await.map_err(said)?;
    for database in &names {
        // An earlier attempt left it: the check has found no table of others in it.
        to.run(&format!("DROP DATABASE IF EXISTS {}", name(&database.name)), STALLS).await.map_err(said)?;
    }
    let mut progress = Progress::new(to, names.iter().map(|database| database.bytes).sum());
    let (mark, writes) = match from.flavor {
        Flavor::Mariadb => statements(import, source, target, from, &names, &mut progress).await?,
        Flavor::Mysql => dump(source, target, &mut progress).await?,
    };
    to.run(moves(Direction::Import, &mark, &writes), LATE).await.map_err(said)?;
    enter(to, ImportPhase::Following).await.map_err(said)?;
    release(to).await.map_err(said)
}

/// What the copy reports while it runs.
pub struct Progress<'a> {
    to: &'a mut Sql,
    done: u64,
    of: u64,
    began: Instant,
    reported: Instant,
}

impl<'a> Progress<'a> {
    fn new(to: &'a mut Sql, of: u64) -> Self {
        Self { to, done: 0, of, began: Instant::now(), reported: Instant::now() }
    }

    /// So many bytes more were copied.
    pub async fn done(&mut self, bytes: usize) -> Result<(), String> {
        self.done += bytes as u64;
        if self.reported.elapsed() < REPORT {
            return Ok(());
        }
        self.reported = Instant::now();
        let text = progress(self.done, self.of, self.began.elapsed());
        say(self.to, &text).await.map_err(|error| error.to_string())
    }
}

/// Copies the databases of MariaDB.
async fn statements(
    import: &Import,
    source: &Address,
    target: &Address,
    from: &mut Sql,
    names: &[Database],
    progress: &mut Progress<'_>,
) -> Result<(Mark, Writes), String> {
    let mut dump = reaches(&import.dump, source);
    dump.args(["--single-transaction", "--master-data=2", "--routines", "--triggers", "--hex-blob", "--skip-events"]);
    dump.args(["--skip-dump-date", "--max-allowed-packet=1G", "--databases"])
        .args(names.iter().map(|database| &database.name));
    let mut dump = dump.spawn().map_err(|error| format!("mariadb-dump cannot be started: {error}"))?;
    let mut client = reaches(&import.client, target);
    client
        .args(["--batch", "--binary-mode", "--max-allowed-packet=1G"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut client = client.spawn().map_err(|error| format!("mariadb cannot be started: {error}"))?;
    let (Some(output), Some(mut input)) = (dump.stdout.take(), client.stdin.take()) else {
        return Err("a program of the copy has no output".to_owned());
    };
    let mut output = BufReader::with_capacity(PART, output);
    let (mut head, mut line) = (Vec::new(), Vec::new());
    let passed: Result<(), String> = async {
        loop {
            line.clear();
            let read =
                timeout(STALLS, output.read_until(b'\n', &mut line)).await.map_err(|_| "the source sends nothing")?;
            if read.map_err(|error| error.to_string())? == 0 {
                break;
            }
            if head.len() < HEAD {
                head.extend_from_slice(&line[..line.len().min(HEAD)]);
            }
            // The rows of a statement are one line.
            let text =
                if line.starts_with(b"INSERT INTO ") { Cow::Borrowed(line.as_slice()) } else { without_definer(&line) };
            let written = timeout(STALLS, input.write_all(&text)).await.map_err(|_| "the cluster takes nothing")?;
            written.map_err(|error| error.to_string())?;
            progress.done(line.len()).await?;
        }
        input.shutdown().await.map_err(|error| error.to_string())
    }
    .await;
    drop(input);
    let status = timeout(STALLS, dump.wait())
        .await
        .map_err(|_| "mariadb-dump does not end")?
        .map_err(|error| error.to_string())?;
    // If the client ended early, its error says more.
    runs(client).await?;
    passed?;
    if !status.success() {
        return Err(format!("mariadb-dump failed ({status}); see the log of the import"));
    }
    let (file, position) = position(&String::from_utf8_lossy(&head)).ok_or("the copy does not have its position")?;
    let writes = until(from, &file, position).await?;
    Ok((Mark { file, position, ..Mark::default() }, writes))
}

fn progress(done: u64, of: u64, within: Duration) -> String {
    let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = (done.saturating_mul(1000) / millis).max(1);
    let left = of.saturating_sub(done).div_ceil(rate);
    let (has, all, tenths) = (done >> 20, of.max(done) >> 20, (rate * 10) >> 20);
    format!("copying: {has} of about {all} MiB, {}.{} MiB/s, about {left} s left", tenths / 10, tenths % 10)
}

/// `-- CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=571;`
fn position(head: &str) -> Option<(String, u64)> {
    let rest = head.split_once("MASTER_LOG_FILE='")?.1;
    let (file, rest) = rest.split_once('\'')?;
    let digits = rest.split_once("MASTER_LOG_POS=")?.1;
    let digits = &digits[..digits.find(|c: char| !c.is_ascii_digit())?];
    Some((file.to_owned(), digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{position, progress};
    use std::time::Duration;

    #[test]
    fn the_first_lines_name_the_position() {
        let head = "-- x\n-- CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=571;\n";
        assert_eq!(position(head), Some(("bin.000003".to_owned(), 571)));
        assert_eq!(position("-- x\n"), None);
    }

    #[test]
    fn the_progress_has_a_rate_and_the_time_left() {
        let text = progress(10 << 20, 30 << 20, Duration::from_secs(5));
        assert_eq!(text, "copying: 10 of about 30 MiB, 2.0 MiB/s, about 10 s left");
        assert_eq!(progress(0, 0, Duration::ZERO), "copying: 0 of about 0 MiB, 0.0 MiB/s, about 0 s left");
    }
}
