//! Writes for the program that stores them: parts of the binary logs, each of which is itself a binary log.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::events::{Choice, Log, Part, choose};
use super::member::{DatabaseMember, failed, refusal};
use super::seed::{PART, STALLS};
use tillerman_agent::contract::{Reason, Refusal, value_of};
use tillerman_agent::position::Position;
use tillerman_agent::server::{Body, in_parts, whole};
use tillerman_agent::stored::{DATA, TIMES, WRITES};

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    after: Position,
    until: Position,
}

/// The log that is sent.
#[derive(Debug)]
struct Found {
    path: PathBuf,
    head: Vec<u8>,
    part: Part,
}

/// The writes of the first log that has some which are in `until` and not in `after`. There is no content if there are none.
pub async fn give(member: &Arc<DatabaseMember>, query: &str) -> Result<Response<Body>, Refusal> {
    let asked = asked(query).map_err(|why| refusal(Reason::Invalid, &why))?;
    let identity = member.facts(|facts| facts.identity.clone());
    let identity = identity.ok_or_else(|| refusal(Reason::OtherData, "there is no data"))?;
    let data = member.volume.data();
    let found = tokio::task::spawn_blocking(move || find(&data, &asked)).await;
    let found = found.map_err(|_| failed("the logs were not read: see the log of the agent"))??;
    let response = Response::builder().header(DATA, &identity.data);
    let Some(found) = found else {
        let response = response.status(StatusCode::NO_CONTENT).body(whole(Bytes::new()));
        return response.map_err(|error| failed(&error.to_string()));
    };
    let (first, last) = found.part.times.unwrap_or_default();
    let response = response.header(WRITES, found.part.writes.to_string()).header(TIMES, format!("{first}-{last}"));
    let (sender, parts) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = send(&found, &sender) {
            tracing::error!(%error, "a log could not be sent");
            let _ = sender.blocking_send(Err(error));
        }
    });
    let body = in_parts(parts);
    response.body(body).map_err(|error| failed(&error.to_string()))
}

/// Reads `after=POSITION&until=POSITION`.
fn asked(query: &str) -> Result<Asked, String> {
    let field = |name: &str| value_of(query, name).ok_or_else(|| format!("{name} is missing"))?.parse::<Position>();
    Ok(Asked { after: field("after")?, until: field("until")? })
}

fn find(data: &Path, asked: &Asked) -> Result<Option<Found>, Refusal> {
    let index = data.join("binlog.index");
    let text = std::fs::read_to_string(&index).map_err(|error| failed(&format!("{}: {error}", index.display())))?;
    let names = text.lines().filter_map(|line| Path::new(line).file_name());
    let paths: Vec<PathBuf> = names.map(|name| data.join(name)).collect();
    let mut oldest = Position::none();
    // The last log of which everything before it is known already.
    for (at, path) in paths.iter().enumerate().rev() {
        let before = open(path)?.before;
        let before =
            before.ok_or_else(|| failed(&format!("{}: it does not name the writes before it", path.display())))?;
        oldest = before;
        if asked.after.contains(&oldest) {
            return first(&paths[at..], asked);
        }
    }
    Err(refusal(
        Reason::Impossible,
        &format!(
            "some of the writes after {} are no longer here: the oldest log begins after {oldest}",
            shown(&asked.after)
        ),
    ))
}

/// The first of the logs that has something.
fn first(paths: &[PathBuf], asked: &Asked) -> Result<Option<Found>, Refusal> {
    for path in paths {
        let mut log = open(path)?;
        let part = choose(&mut log, |group| {
            let mut write = Position::none();
            write.add(&group.stream, group.number, group.number);
            match (asked.after.contains(&write), asked.until.contains(&write)) {
                (true, _) => Choice::Skip,
                (false, true) => Choice::Take,
                (false, false) => Choice::End,
            }
        });
        let part = part.map_err(|error| failed(&format!("{}: {error}", path.display())))?;
        if !part.ranges.is_empty() {
            let part = Part { writes: filled(&part.writes, &asked.after), ..part };
            return Ok(Some(Found { path: path.clone(), head: log.head, part }));
        }
        if part.ended {
            break;
        }
    }
    Ok(None)
}

/// A stream has no other writes between those that are known and those that follow: a position is all up to the newest of each.
fn filled(writes: &Position, after: &Position) -> Position {
    let mut filled = writes.clone();
    for (stream, newest) in writes.newest() {
        let known = after.newest().find(|(other, _)| *other == stream).map_or(0, |(_, number)| number);
        filled.add(stream, known + 1, newest);
    }
    filled
}

fn open(path: &Path) -> Result<Log<File>, Refusal> {
    let opened = File::open(path).and_then(Log::open);
    opened.map_err(|error| failed(&format!("{}: {error}", path.display())))
}

fn send(found: &Found, parts: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let runtime = tokio::runtime::Handle::current();
    let give = |part: Vec<u8>| {
        let sent = runtime.block_on(tokio::time::timeout(STALLS, parts.send(Ok(Bytes::from(part)))));
        sent.map_err(|_| io::Error::other("the receiver reads nothing"))?
            .map_err(|_| io::Error::other("the receiver is gone"))
    };
    give(found.head.clone())?;
    let mut file = File::open(&found.path)?;
    for (from, to) in &found.part.ranges {
        file.seek(SeekFrom::Start(*from))?;
        let mut left = to - from;
        while left > 0 {
            let mut part = Vec::new();
            (&mut file).take(left.min(PART as u64)).read_to_end(&mut part)?;
            if part.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            left -= part.len() as u64;
            give(part)?;
        }
    }
    Ok(())
}

/// A position in a sentence.
pub fn shown(position: &Position) -> String {
    if position.is_none() { "the beginning".to_owned() } else { position.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{asked, filled};

    #[test]
    fn the_writes_of_a_log_join_what_is_before_them() {
        for (writes, after, expected) in [
            ("0-1:101-105", "0-1:1-100", "0-1:101-105"),
            ("0-2:101-105", "0-1:1-100", "0-2:1-105"),
            ("0-1:111,0-2:106-110", "0-1:1-100,0-2:1-90", "0-1:101-111,0-2:91-110"),
        ] {
            assert_eq!(filled(&writes.parse().unwrap(), &after.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn what_is_asked_for_has_two_positions() {
        let both = asked("after=0-1:1-5,0-2:7&until=0-1:1-9").unwrap();
        assert_eq!((both.after.count(), both.until.count()), (6, 9));
        assert!(asked("after=&until=").is_ok());
        for wrong in ["", "after=0-1:1-5", "until=0-1:1-5", "after=x&until=", "after=0-1:5-1&until="] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
