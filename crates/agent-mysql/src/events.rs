//! The groups of events in a binary log, read from the file (`sql/log_event.h` of MariaDB, `libs/mysql/binlog/event` of MySQL): which
//! writes it has, and where they begin and end. A server may still write the log while it is read, so the last group can be incomplete.
//!
//! The events that begin a group have other numbers in MariaDB than in MySQL, so a log shows which database wrote it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::gtid::{self, Gtid};
use super::sets;
use tillerman_agent::position::Position;

/// The first bytes of a log.
pub const MAGIC: &[u8] = b"\xfebin";
/// The size of the header of an event.
pub const HEADER: usize = 19;
/// The part of an event that is read to know its kind.
const PREFIX: usize = 1 << 10;
/// How much of a log has to be read to find the writes before it.
const HEAD: u64 = 256 << 10;
/// A group of one statement, which no other event ends.
const STANDALONE: u8 = 1;
/// A prepared transaction of XA.
const PREPARED_XA: u8 = 64;

/// The kinds of events that matter here (`enum Log_event_type`).
mod kind {
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const FORMAT: u8 = 15;
    pub const XID: u8 = 16;
    pub const INCIDENT: u8 = 26;
    pub const GTID_OF_MYSQL: u8 = 33;
    pub const ANONYMOUS: u8 = 34;
    pub const GTIDS_BEFORE: u8 = 35;
    pub const XA_PREPARE: u8 = 38;
    pub const GTID_WITH_TAG: u8 = 42;
    pub const CHECKPOINT: u8 = 161;
    pub const GTID: u8 = 162;
    pub const GTID_LIST: u8 = 163;
    pub const ENCRYPTION: u8 = 164;
    pub const QUERY_COMPRESSED: u8 = 165;
}

/// A group of events: one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The stream of the write: `DOMAIN-SERVER` of MariaDB, the UUID of a server of MySQL.
    pub stream: String,
    /// The number of the write in the stream.
    pub number: u64,
    /// In seconds since 1970: MariaDB notes when the statement began, MySQL when the primary committed it.
    pub time: u32,
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// A log that is being read.
#[derive(Debug)]
pub struct Log<F> {
    file: F,
    at: u64,
    size: u64,
    /// The first bytes of the file: the description of its format, and of MySQL the writes before it. Every part needs them to be read.
    pub head: Vec<u8>,
    /// The writes before it; `None` if it does not say so, as a part of a log does not.
    pub before: Option<Position>,
    checksum: usize,
    open: Option<Open>,
}

/// A group whose end has not been seen.
#[derive(Clone, Copy, Debug)]
struct Open {
    gtid: Gtid,
    time: u32,
    from: u64,
    flags: u8,
}

struct Event {
    kind: u8,
    time: u32,
    server: u32,
    length: u64,
    /// The bytes after the header, at most [`PREFIX`] of them.
    body: Vec<u8>,
}

impl<F: Read + Seek> Log<F> {
    /// Reads the beginning of a log.
    pub fn open(mut file: F) -> io::Result<Self> {
        let mut head = Vec::new();
        (&mut file).take(HEAD).read_to_end(&mut head)?;
        if !head.starts_with(MAGIC) {
            return Err(wrong("it is not a binary log, or it is encrypted"));
        }
        let before = before(&head);
        let length = |at: usize| {
            let bytes = head.get(at + 9..at + 13).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default()) as usize
        };
        let end = MAGIC.len() + length(MAGIC.len());
        let format = head.get(..end).filter(|head| head.len() > 40 && head[MAGIC.len() + 4] == kind::FORMAT);
        let mut format = format.ok_or_else(|| wrong("it does not begin with the description of its format"))?.to_vec();
        // The algorithm comes before the checksum of this event, which always has one.
        let checksum = if format[format.len() - 5] == 1 { 4 } else { 0 };
        // A log that is still written is marked; the sum is that of the event without the mark (`LOG_EVENT_BINLOG_IN_USE_F`).
        format[MAGIC.len() + 17] &= !1;
        // MySQL takes a log only with the writes before it.
        if head.get(end + 4) == Some(&kind::GTIDS_BEFORE) {
            let before =
                head.get(end..end + length(end)).ok_or_else(|| wrong("the writes before it are incomplete"))?;
            format.extend(before);
        }
        Ok(Self { file, at: end as u64, size: 0, head: format, before, checksum, open: None })
    }

    /// The next group that is complete; `None` at the end of the log, and if the log has only a part of the next one.
    pub fn group(&mut self) -> io::Result<Option<Group>> {
        loop {
            let from = self.at;
            let Some(event) = self.event()? else { return Ok(None) };
            self.at = from + event.length;
            match event.kind {
                kind::GTID => {
                    let fields = (event.body.get(..8), event.body.get(8..12), event.body.get(12));
                    let (Some(number), Some(domain), Some(flags)) = fields else {
                        return Err(wrong("a GTID is not complete"));
                    };
                    let gtid = Gtid {
                        domain: u32::from_le_bytes(domain.try_into().unwrap_or_default()),
                        number: u64::from_le_bytes(number.try_into().unwrap_or_default()),
                        server: event.server,
                    };
                    let closed = self.open.replace(Open { gtid, time: event.time, from, flags: *flags });
                    if let Some(closed) = closed {
                        return Ok(Some(closed.until(from)));
                    }
                }
                kind::ROTATE | kind::STOP | kind::CHECKPOINT | kind::GTID_LIST => {
                    if let Some(closed) = self.open.take() {
                        return Ok(Some(closed.until(from)));
                    }
                }
                kind::GTID_OF_MYSQL => return self.group_of_mysql(from, &event),
                kind::ANONYMOUS => return Err(wrong("it has a write without a GTID")),
                kind::GTID_WITH_TAG => {
                    return Err(wrong("it has a write whose GTID has a tag, which is not supported"));
                }
                kind::ENCRYPTION => return Err(wrong("it is encrypted")),
                kind::INCIDENT => return Err(wrong("the server noted that it lost writes")),
                _ => {
                    let ends = self.open.is_some_and(|open| self.ends(&open, &event));
                    if let Some(closed) = self.open.take_if(|_| ends) {
                        return Ok(Some(closed.until(self.at)));
                    }
                }
            }
        }
    }

    /// A group of MySQL, whose first event gives its length.
    fn group_of_mysql(&mut self, from: u64, first: &Event) -> io::Result<Option<Group>> {
        let gtid = sets::Head::read(&first.body).ok_or_else(|| wrong("a GTID is not complete"))?;
        let to = from.saturating_add(gtid.length);
        if gtid.length < first.length {
            return Err(wrong(&format!("the group at byte {from} is shorter than its first event")));
        }
        if self.size < to {
            self.size = self.file.seek(SeekFrom::End(0))?;
            if self.size < to {
                self.at = from;
                return Ok(None);
            }
        }
        if self.event()?.is_some_and(|next| next.kind == kind::INCIDENT) {
            return Err(wrong("the server noted that it lost writes"));
        }
        self.at = to;
        let time = if gtid.committed == 0 { first.time } else { gtid.committed };
        Ok(Some(Group { stream: gtid.stream, number: gtid.number, time, from, to }))
    }

    /// Whether an event is the last of its group.
    fn ends(&self, open: &Open, event: &Event) -> bool {
        match event.kind {
            kind::XID => true,
            kind::XA_PREPARE => open.flags & PREPARED_XA != 0,
            kind::QUERY | kind::QUERY_COMPRESSED if open.flags & STANDALONE != 0 => true,
            kind::QUERY => self.statement(event).is_some_and(|text| text == b"COMMIT" || text == b"ROLLBACK"),
            _ => false,
        }
    }

    /// The text of a short statement.
    fn statement<'a>(&self, event: &'a Event) -> Option<&'a [u8]> {
        let size = usize::try_from(event.length).ok()?.checked_sub(HEADER + self.checksum)?;
        let database = usize::from(*event.body.get(8)?);
        let variables = usize::from(u16::from_le_bytes(event.body.get(11..13)?.try_into().ok()?));
        // A longer one ends no group.
        event.body.get(13 + variables + database + 1..size)
    }

    fn event(&mut self) -> io::Result<Option<Event>> {
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::with_capacity(HEADER + PREFIX);
        (&mut self.file).take((HEADER + PREFIX) as u64).read_to_end(&mut bytes)?;
        let Some(header) = bytes.get(..HEADER) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
        let length = u64::from(word(9));
        if length < HEADER as u64 {
            return Err(wrong(&format!("there is no event at byte {}", self.at)));
        }
        // The file may end within it.
        if self.size < self.at + length {
            self.size = self.file.seek(SeekFrom::End(0))?;
            if self.size < self.at + length {
                return Ok(None);
            }
        }
        let end = bytes.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        let body = bytes[HEADER..end].to_vec();
        Ok(Some(Event { kind: header[4], time: word(0), server: word(5), length, body }))
    }
}

impl Open {
    fn until(self, to: u64) -> Group {
        Group { stream: gtid::stream(self.gtid), number: self.gtid.number, time: self.time, from: self.from, to }
    }
}

/// The writes before a log begins, from its first bytes: the event that follows the description of the format. `None` if it is not there.
pub fn before(head: &[u8]) -> Option<Position> {
    if !head.starts_with(MAGIC) {
        return None;
    }
    let mut at = MAGIC.len();
    for _ in 0..4 {
        let kind = *head.get(at + 4)?;
        let length = usize::try_from(u32::from_le_bytes(head.get(at + 9..at + 13)?.try_into().ok()?)).ok()?;
        let body = head.get(at + HEADER..at.checked_add(length)?)?;
        match kind {
            kind::GTID_LIST => return Some(gtid::position(&gtid::list_event(body)?)),
            kind::GTIDS_BEFORE => return sets::encoded(body),
            _ => at += length,
        }
    }
    None
}

/// The writes before a log begins; none if its first bytes cannot be read.
pub fn before_file(path: &Path) -> Position {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.ok().and_then(|_| before(&head)).unwrap_or_default()
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Writes of a log that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Where they are in the file.
    pub ranges: Vec<(u64, u64)>,
    /// Which they are.
    pub writes: Position,
    /// The lowest and the highest of their times, in seconds since 1970.
    pub times: Option<(u32, u32)>,
    /// Whether `until` ended it before the end of the log.
    pub ended: bool,
}

/// The treatment of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is left out.
    Skip,
    /// It is taken.
    Take,
    /// Nothing from it on is taken.
    End,
}

/// Chooses writes of a log.
pub fn choose<F: Read + Seek>(log: &mut Log<F>, mut choice: impl FnMut(&Group) -> Choice) -> io::Result<Part> {
    let mut part = Part::default();
    while let Some(group) = log.group()? {
        match choice(&group) {
            Choice::Skip => continue,
            Choice::Take => {}
            Choice::End => {
                part.ended = true;
                break;
            }
        }
        part.writes.add(&group.stream, group.number, group.number);
        let (first, last) = part.times.unwrap_or((group.time, group.time));
        part.times = Some((first.min(group.time), last.max(group.time)));
        match part.ranges.last_mut().filter(|(_, to)| *to == group.from) {
            Some((_, to)) => *to = group.to,
            None => part.ranges.push((group.from, group.to)),
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::{Choice, Log, before, choose};
    use std::io::Cursor;

    fn event(kind: u8, server: u32, time: u32, body: &[u8]) -> Vec<u8> {
        let mut event = time.to_le_bytes().to_vec();
        event.push(kind);
        event.extend(server.to_le_bytes());
        event.extend(u32::try_from(19 + body.len()).unwrap().to_le_bytes());
        event.extend([0; 6]);
        event.extend(body);
        event
    }

    fn gtid_event(number: u64, flags: u8, time: u32) -> Vec<u8> {
        event(162, 1, time, &[&number.to_le_bytes()[..], &0_u32.to_le_bytes(), &[flags], &[0; 6]].concat())
    }

    fn query(text: &str) -> Vec<u8> {
        let head = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 9, 9, b'd', 0];
        event(2, 1, 5, &[&head[..], text.as_bytes()].concat())
    }

    /// Without sums of events.
    fn head() -> Vec<u8> {
        let mut format = vec![0; 100];
        format[0] = 4;
        let mut first = event(15, 1, 5, &format);
        first[17] = 1;
        let list = [&1_u32.to_le_bytes()[..], &[0; 4], &1_u32.to_le_bytes(), &9_u64.to_le_bytes()].concat();
        [b"\xfebin".to_vec(), first, event(163, 1, 5, &list)].concat()
    }

    #[test]
    fn groups_are_found_and_one_that_is_not_complete_is_none() {
        let statement = [gtid_event(10, 1, 70), query("CREATE TABLE t (id INT)")].concat();
        let rows = [
            gtid_event(11, 4, 60),
            query("BEGIN"),
            event(23, 1, 5, &[1; 30]),
            query("ROLLBACK TO `s`"),
            event(16, 1, 5, &[0; 8]),
        ]
        .concat();
        let other = [gtid_event(12, 4, 80), query("BEGIN"), event(23, 1, 5, &[1; 2000]), query("COMMIT")].concat();
        let log = [head(), statement, rows, other, event(4, 1, 5, &[0; 20])].concat();
        let start = head().len() as u64;
        let mut reads = Log::open(Cursor::new(&log)).unwrap();
        assert_eq!((reads.before.clone().unwrap().to_string().as_str(), reads.head[4 + 17]), ("0-1:1-9", 0));
        let part = choose(&mut reads, |_| Choice::Take).unwrap();
        assert_eq!((part.writes.to_string().as_str(), part.times), ("0-1:10-12", Some((60, 80))));
        assert_eq!(part.ranges, [(start, log.len() as u64 - 39)]);
        // If something is missing at the end, only complete groups are taken.
        let mut counts = Vec::new();
        for end in head().len()..=log.len() {
            let mut reads = Log::open(Cursor::new(&log[..end])).unwrap();
            counts.push(choose(&mut reads, |_| Choice::Take).unwrap().writes.count());
        }
        counts.dedup();
        assert_eq!(counts, [0, 1, 2, 3]);
        let mut reads = Log::open(Cursor::new(&log)).unwrap();
        let part = choose(&mut reads, |group| match group.number {
            10 => Choice::Skip,
            11 => Choice::Take,
            _ => Choice::End,
        });
        let part = part.unwrap();
        assert_eq!((part.writes.to_string().as_str(), part.ranges.len(), part.ended), ("0-1:11", 1, true));
    }

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    /// A write of MySQL of two events.
    fn write(number: u64, second: u64, rows: usize) -> Vec<u8> {
        let uuid = data_encoding::HEXLOWER.decode(UUID.replace('-', "").as_bytes()).unwrap();
        let body = event(30, 1, 5, &vec![1; rows]);
        let first = |length: u64| {
            let time = (second * 1_000_000).to_le_bytes();
            let packed = [&[254][..], &length.to_le_bytes()].concat();
            event(33, 1, 5, &[&[1][..], &uuid, &number.to_le_bytes(), &[2], &[0; 16], &time[..7], &packed].concat())
        };
        let length = first(0).len() + body.len();
        [first(length as u64), body].concat()
    }

    #[test]
    fn groups_of_mysql_are_found_by_their_length() {
        let set =
            [&1_u64.to_le_bytes()[..], &[7; 16], &1_u64.to_le_bytes(), &1_u64.to_le_bytes(), &10_u64.to_le_bytes()];
        let head = [head()[..4 + 19 + 100].to_vec(), event(35, 1, 5, &set.concat())].concat();
        let log = [head.clone(), write(10, 70, 30), write(11, 60, 4000), write(12, 80, 3), event(4, 1, 5, &[0; 20])];
        let log = log.concat();
        let mut reads = Log::open(Cursor::new(&log)).unwrap();
        assert_eq!(reads.before.clone().unwrap().to_string(), "07070707-0707-0707-0707-070707070707:1-9");
        assert_eq!(reads.head.len(), head.len(), "a part has the writes before it, too");
        let part = choose(&mut reads, |_| Choice::Take).unwrap();
        assert_eq!((part.writes.to_string(), part.times), (format!("{UUID}:10-12"), Some((60, 80))));
        assert_eq!(part.ranges, [(head.len() as u64, log.len() as u64 - 39)]);
        let mut counts = Vec::new();
        for end in head.len()..=log.len() {
            let mut reads = Log::open(Cursor::new(&log[..end])).unwrap();
            counts.push(choose(&mut reads, |_| Choice::Take).unwrap().writes.count());
        }
        counts.dedup();
        assert_eq!(counts, [0, 1, 2, 3]);
        let mut lost = write(13, 90, 3);
        let at = lost.len() - 19 - 3 + 4;
        lost[at] = 26;
        for (wrong, why) in
            [(lost, "lost writes"), (event(34, 1, 5, &[0; 60]), "without"), (event(42, 1, 5, &[0; 60]), "tag")]
        {
            let log = [&head[..], &wrong].concat();
            let error = choose(&mut Log::open(Cursor::new(&log)).unwrap(), |_| Choice::Take).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn a_log_names_the_writes_before_it() {
        let mut entries = 2_u32.to_le_bytes().to_vec();
        for (domain, server, number) in [(0_u32, 1_u32, 100_u64), (0, 2, 150)] {
            entries.extend(domain.to_le_bytes());
            entries.extend(server.to_le_bytes());
            entries.extend(number.to_le_bytes());
        }
        let log = [b"\xfebin".to_vec(), event(15, 1, 5, &[0; 200]), event(163, 1, 5, &entries)].concat();
        assert_eq!(before(&log).unwrap().to_string(), "0-1:1-100,0-2:1-150");
        for end in 0..log.len() {
            assert_eq!(before(&log[..end]), None, "cut at {end}");
        }
        assert_eq!(before(&[b"\xfebin".to_vec(), event(2, 1, 5, &[]).repeat(9)].concat()), None);
    }

    #[test]
    fn what_is_no_log_is_an_error() {
        for bytes in [&b""[..], b"\xfebin", b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] {
            assert!(Log::open(Cursor::new(bytes)).is_err());
        }
        let zero = [head(), vec![0; 40]].concat();
        let mut log = Log::open(Cursor::new(&zero)).unwrap();
        assert!(choose(&mut log, |_| Choice::Take).is_err(), "an event of no length");
        let lost = [head(), event(26, 1, 5, &[0; 4])].concat();
        assert!(choose(&mut Log::open(Cursor::new(&lost)).unwrap(), |_| Choice::Take).is_err(), "an incident");
        let secret = [head(), event(164, 1, 5, &[0; 20])].concat();
        assert!(choose(&mut Log::open(Cursor::new(&secret)).unwrap(), |_| Choice::Take).is_err(), "encrypted");
    }
}
