//! How much of the writes a member has.
//!
//! Redis counts bytes of its replication stream, and forgets the count and the ID of the stream when it restarts with an append-only
//! file. So each promotion begins a stream of the contract, with a name of its own, and writes a marker that says so: a function of
//! Redis, which is replicated, is in each copy and in the append-only file, and is not removed by `FLUSHALL`.

use tillerman_agent::position::Position;

/// The name of the library and of the function in Redis.
pub const NAME: &str = "tillerman_streams";
/// Streams that ended, and are kept in the marker. A member that has an older one counts as diverged, and is copied again.
const STREAMS: usize = 64;

/// The text that the newest promotion wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The stream of this primary.
    pub stream: String,
    /// Redis' ID of the replication stream when it began.
    pub replid: String,
    /// The first byte of the stream, in Redis' count.
    pub first: u64,
    /// The streams before, each up to its end.
    pub closed: Position,
}

/// The end of a stream as the agent reported it last: at least so much is in the append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub stream: String,
    pub last: u64,
}

/// The replication of Redis, of `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    pub replid: String,
    pub offset: u64,
    /// The ID before the last change of the ID, and the first byte that is not of it.
    pub replid2: String,
    pub second: u64,
}

impl Marker {
    /// The library that says so.
    pub fn library(&self) -> String {
        format!(
            "#!lua name={NAME}\nredis.register_function{{function_name='{NAME}', callback=function() return '{} {} {} {}' end, \
             flags={{'no-writes'}}}}",
            self.stream, self.replid, self.first, self.closed
        )
    }

    /// Reads the answer of the function.
    pub fn read(text: &str) -> Option<Self> {
        let mut fields = text.splitn(4, ' ');
        let mut next = || fields.next();
        let (stream, replid) = (next()?.to_owned(), next()?.to_owned());
        let is_word =
            |text: &str| (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (is_word(&stream) && is_word(&replid)).then_some(())?;
        Some(Self { stream, replid, first: next()?.parse().ok()?, closed: next()?.parse().ok()? })
    }

    /// The last byte of its stream that a member surely has. After a restart Redis has lost count, and the last report
    /// counts.
    pub fn last(&self, replication: &Replication, said: &Said) -> u64 {
        if replication.replid == self.replid {
            replication.offset
        } else if replication.replid2 == self.replid {
            replication.second.saturating_sub(1)
        } else if said.stream == self.stream {
            said.last
        } else {
            self.first.saturating_sub(1)
        }
    }

    /// Everything that a member has.
    pub fn position(&self, replication: &Replication, said: &Said) -> Position {
        let mut position = self.closed.clone();
        position.add(&self.stream, self.first, self.last(replication, said));
        position
    }
}

/// The marker of a new stream: all before it has ended at `before`.
pub fn begun(epoch: u64, random: &str, replication: &Replication, before: &Position) -> Marker {
    let text = before.to_string();
    let mut closed: Vec<&str> = text.split(',').filter(|part| !part.is_empty()).collect();
    // Names begin with the epoch.
    closed.sort_by_key(|part| part.split('-').next().and_then(|epoch| epoch.parse::<u64>().ok()).unwrap_or_default());
    let kept = closed.split_off(closed.len().saturating_sub(STREAMS));
    Marker {
        stream: format!("{epoch}-{random}"),
        replid: replication.replid.clone(),
        first: replication.offset + 1,
        closed: kept.join(",").parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Marker, Replication, STREAMS, Said, begun};

    fn marker() -> Marker {
        Marker { stream: "2-b".into(), replid: "r2".into(), first: 101, closed: "1-a:1-100".parse().unwrap() }
    }

    #[test]
    fn a_marker_is_read_as_it_is_written() {
        let library = marker().library();
        let text = library.split('\'').nth(3).unwrap();
        assert_eq!(Marker::read(text), Some(marker()));
        for wrong in ["", "a b 1", "a b x ", "a' b 1 ", "a b 1 x"] {
            assert_eq!(Marker::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_position_counts_what_a_member_surely_has() {
        let (nothing, said) = (Said::default(), Said { stream: "2-b".into(), last: 130 });
        let at = |replid: &str, offset, replid2: &str, second| Replication {
            replid: replid.into(),
            offset,
            replid2: replid2.into(),
            second,
        };
        for (replication, said, expected) in [
            (at("r2", 150, "r1", 101), &nothing, "1-a:1-100,2-b:101-150"),
            // It is being promoted, and has not marked its own stream yet.
            (at("r3", 200, "r2", 151), &nothing, "1-a:1-100,2-b:101-150"),
            // It has restarted, and counts from 0.
            (at("r9", 0, "0", 0), &said, "1-a:1-100,2-b:101-130"),
            (at("r9", 0, "0", 0), &nothing, "1-a:1-100"),
        ] {
            assert_eq!(marker().position(&replication, said).to_string(), expected, "{replication:?}");
        }
    }

    #[test]
    fn a_stream_begins_behind_all_before_and_old_ones_are_forgotten() {
        let replication = Replication { replid: "r3".into(), offset: 150, ..Replication::default() };
        let new = begun(3, "c", &replication, &"1-a:1-100,2-b:101-150".parse().unwrap());
        assert_eq!((new.stream.as_str(), new.first), ("3-c", 151));
        assert_eq!(new.closed.to_string(), "1-a:1-100,2-b:101-150");
        let many: Vec<String> = (1..=100).map(|epoch| format!("{epoch}-x:1-9")).collect();
        let closed = begun(101, "c", &replication, &many.join(",").parse().unwrap()).closed;
        assert_eq!(closed.newest().count(), STREAMS);
        assert!(
            closed.contains(&"100-x:1-9,37-x:1-9".parse().unwrap()) && !closed.contains(&"36-x:1".parse().unwrap())
        );
    }
}
