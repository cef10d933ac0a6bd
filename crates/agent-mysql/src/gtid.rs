//! MariaDB's GTIDs as positions: `DOMAIN-SERVER-NUMBER` says that all writes of the stream `DOMAIN-SERVER` up to the number are there,
//! because `gtid_strict_mode` lets the numbers of a domain only increase.

use std::fmt;

use tillerman_agent::position::Position;

/// One GTID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

/// The body of the event `Gtid_list`, which follows the description of the format (`sql/log_event.h` of MariaDB). `None` if it is
/// incomplete.
pub fn list_event(body: &[u8]) -> Option<Vec<Gtid>> {
    let word = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let count = usize::try_from(word(0)? & 0x0fff_ffff).ok()?;
    let entry = |entry: &[u8]| Gtid {
        domain: u32::from_le_bytes(entry[..4].try_into().unwrap_or_default()),
        server: u32::from_le_bytes(entry[4..8].try_into().unwrap_or_default()),
        number: u64::from_le_bytes(entry[8..16].try_into().unwrap_or_default()),
    };
    let entries = body.get(4..count.checked_mul(16)?.checked_add(4)?)?;
    Some(entries.chunks_exact(16).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::{list, position, state_of_copy, text};

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
}
