//! MariaDB's GTIDs as positions: `DOMAIN-SERVER-NUMBER` says that all writes of the stream `DOMAIN-SERVER` up to the number are there,
//! because `gtid_strict_mode` lets the numbers of a domain only increase.

use std::fmt;

use tillerman_agent::position::Position;

/// One GTID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gtid {
    /// The domain.
    pub domain: u32,
    /// The number of the write in the domain.
    pub number: u64,
    /// The server that wrote it.
    pub server: u32,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.number)
    }
}

/// Reads a list as the database writes it, such as `0-1-100,0-2-150`. `None` if it is not such a list.
pub fn list(text: &str) -> Option<Vec<Gtid>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let mut numbers = part.split('-');
            let (domain, server, number) = (numbers.next()?, numbers.next()?, numbers.next()?);
            let gtid =
                Gtid { domain: domain.parse().ok()?, server: server.parse().ok()?, number: number.parse().ok()? };
            numbers.next().is_none().then_some(gtid)
        })
        .collect()
}

/// Writes a list.
pub fn text(gtids: &[Gtid]) -> String {
    gtids.iter().map(Gtid::to_string).collect::<Vec<_>>().join(",")
}

/// All writes up to each of the GTIDs.
pub fn position(gtids: &[Gtid]) -> Position {
    let mut position = Position::none();
    for gtid in gtids {
        position.add(&stream(*gtid), 1, gtid.number);
    }
    position
}

/// The stream of a write.
pub fn stream(gtid: Gtid) -> String {
    format!("{}-{}", gtid.domain, gtid.server)
}

/// The newest write of each stream of a position.
pub fn newest(position: &Position) -> Option<Vec<Gtid>> {
    let parts = position.newest().map(|(stream, number)| format!("{stream}-{number}"));
    list(&parts.collect::<Vec<_>>().join(","))
}

/// The state of the binary log of a copy: the donor's state before the copy was made, and the position that the copy
/// has. The last of a domain is its newest, as `SET GLOBAL gtid_binlog_state` expects.
pub fn state_of_copy(before: &[Gtid], copied: &[Gtid]) -> Vec<Gtid> {
    let mut newest: Vec<Gtid> = Vec::new();
    for gtid in before.iter().chain(copied) {
        match newest.iter_mut().find(|known| (known.domain, known.server) == (gtid.domain, gtid.server)) {
            Some(known) => known.number = known.number.max(gtid.number),
            None => newest.push(*gtid),
        }
    }
    newest.sort_unstable();
    newest
}

const MAGIC: &[u8] = b"\xfebin";
const HEADER: usize = 19;
const GTID_LIST: u8 = 163;
/// How much of a binary log has to be read to find its first list of GTIDs.
pub const HEAD: usize = 256 << 10;

/// The writes before a binary log begins, from the log's first bytes: the event `Gtid_list`, which comes after the
/// description of the format (`sql/log_event.h` of MariaDB). `None` if it is not there, or the log is encrypted.
pub fn before_log(head: &[u8]) -> Option<Vec<Gtid>> {
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if !head.starts_with(MAGIC) {
        return None;
    }
    let mut at = MAGIC.len();
    for _ in 0..4 {
        let (kind, length) = (*head.get(at + 4)?, usize::try_from(word(at + 9)?).ok()?);
        if !(HEADER..=HEAD).contains(&length) {
            return None;
        }
        if kind == GTID_LIST {
            let count = usize::try_from(word(at + HEADER)? & 0x0fff_ffff).ok()?;
            let first = at + HEADER + 4;
            return (0..count.min(HEAD / 16))
                .map(|index| {
                    let entry = first + 16 * index;
                    let number = u64::from_le_bytes(head.get(entry + 8..entry + 16)?.try_into().ok()?);
                    Some(Gtid { domain: word(entry)?, server: word(entry + 4)?, number })
                })
                .collect();
        }
        at += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{before_log, list, position, state_of_copy, text};

    #[test]
    fn a_list_of_gtids_is_a_position() {
        for (given, written) in
            [("", Some("")), ("0-1-5", Some("0-1:1-5")), ("0-1-5, 0-2-9,1-1-1", Some("0-1:1-5,0-2:1-9,1-1:1"))]
        {
            assert_eq!(list(given).map(|list| position(&list).to_string()).as_deref(), written, "{given}");
        }
        for wrong in ["0-1", "0-1-2-3", "a-1-1", "0-1--1", "4294967296-1-1"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_state_of_a_copy_has_all_streams_with_the_newest_last() {
        for (before, copied, state) in [
            ("", "", ""),
            ("0-1-100", "0-1-120", "0-1-120"),
            ("0-2-150,0-1-100", "0-2-170", "0-1-100,0-2-170"),
            ("0-1-100", "0-2-110,3-1-7", "0-1-100,0-2-110,3-1-7"),
            ("0-1-100", "0-1-90", "0-1-100"),
        ] {
            assert_eq!(
                text(&state_of_copy(&list(before).unwrap(), &list(copied).unwrap())),
                state,
                "{before} {copied}"
            );
        }
    }

    /// An event with a body.
    fn event(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(19 + body.len()).unwrap().to_le_bytes();
        let mut event = vec![0, 0, 0, 0, kind, 1, 0, 0, 0];
        event.extend(length);
        event.extend([0; 6]);
        event.extend(body);
        event
    }

    #[test]
    fn a_binary_log_says_what_was_written_before_it() {
        let mut entries = 2_u32.to_le_bytes().to_vec();
        for (domain, server, number) in [(0_u32, 1_u32, 100_u64), (0, 2, 150)] {
            entries.extend(domain.to_le_bytes());
            entries.extend(server.to_le_bytes());
            entries.extend(number.to_le_bytes());
        }
        let log = [b"\xfebin".to_vec(), event(15, &[0; 200]), event(163, &entries)].concat();
        assert_eq!(before_log(&log).map(|list| text(&list)).as_deref(), Some("0-1-100,0-2-150"));
        for end in 0..log.len() {
            assert_eq!(before_log(&log[..end]), None, "cut at {end}");
        }
        assert_eq!(before_log(&[b"\xfebin".to_vec(), event(2, &[]).repeat(9)].concat()), None);
    }
}
