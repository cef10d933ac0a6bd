//! MySQL's GTIDs as positions. A set is written `UUID:1-5:8:TAG:1-3`, with commas and line breaks between servers. Writes with a tag are a
//! separate stream, the UUID without hyphens followed by the tag, because their numbers begin again with 1.

use tillerman_agent::position::Position;

/// Reads a set. `None` if it is not such a set.
pub fn set(text: &str) -> Option<Position> {
    read(text, |interval| {
        let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
        Some((first.parse().ok()?, last.parse().ok()?))
    })
}

/// Reads `gtid_owned`: writes that are being committed, `UUID:NUMBER#THREAD`. `None` if it is not such a set.
pub fn owned(text: &str) -> Option<Position> {
    read(text, |owned| {
        let number = owned.split_once('#')?.0.parse().ok()?;
        Some((number, number))
    })
}

fn read(text: &str, interval: impl Fn(&str) -> Option<(u64, u64)>) -> Option<Position> {
    let mut position = Position::none();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let mut fields = part.split(':').map(str::trim);
        let uuid = fields.next().filter(|uuid| is_uuid(uuid))?.to_ascii_lowercase();
        let (mut stream, mut count) = (uuid.clone(), 0);
        for field in fields {
            if field.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
                // With the longest tag, of 32 characters, the name of the stream has as many as a position takes.
                stream = format!("{}{field}", uuid.replace('-', ""));
                continue;
            }
            let (first, last) = interval(field)?;
            (first > 0 && first <= last).then_some(())?;
            position.add(&stream, first, last);
            count += 1;
        }
        (count > 0).then_some(())?;
    }
    Some(position)
}

/// The first event of a write in a binary log (`libs/mysql/binlog/event/control_events.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The UUID of the server that wrote it.
    pub stream: String,
    /// The number of the write.
    pub number: u64,
    /// When the primary committed it, in seconds since 1970; 0 if it is not known.
    pub committed: u32,
    /// The size of all events of the write in bytes, with this one.
    pub length: u64,
}

impl Head {
    /// Reads the body of the event. `None` if it is incomplete.
    pub fn read(body: &[u8]) -> Option<Self> {
        // Flags, the UUID, the number, and three fields for the parallel appliers.
        let (uuid, number) = (body.get(1..17)?, long(body.get(17..25)?)?);
        // Microseconds in seven bytes. The highest bit shows that the time on the primary follows, which is the same otherwise.
        let time = |at: usize| {
            let mut bytes = [0; 8];
            bytes[..7].copy_from_slice(body.get(at..at + 7)?);
            Some(u64::from_le_bytes(bytes))
        };
        let (mut at, mut committed) = (42, time(42)?);
        if committed >> 55 != 0 {
            at += 7;
            committed = time(at)?;
        }
        at += 7;
        // One byte, or the number of bytes and the bytes.
        let packed = |size: usize| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(body.get(at + 1..at + 1 + size)?);
            Some(u64::from_le_bytes(bytes))
        };
        let length = match *body.get(at)? {
            252 => packed(2)?,
            253 => packed(3)?,
            254 => packed(8)?,
            length @ ..=250 => u64::from(length),
            _ => return None,
        };
        let committed = u32::try_from(committed / 1_000_000).unwrap_or(u32::MAX);
        (number > 0).then(|| Self { stream: uuid_text(uuid), number, committed, length })
    }
}

/// A set in the event `Previous_gtids`. `None` if it is incomplete, or has writes with tags.
pub fn encoded(body: &[u8]) -> Option<Position> {
    let mut position = Position::none();
    let (mut rest, count) = (body.get(8..)?, long(body.get(..8)?)?);
    for _ in 0..count {
        let (stream, intervals) = (uuid_text(rest.get(..16)?), long(rest.get(16..24)?)?);
        rest = &rest[24..];
        for _ in 0..intervals {
            let (first, end) = (long(rest.get(..8)?)?, long(rest.get(8..16)?)?);
            (first > 0 && first < end).then_some(())?;
            position.add(&stream, first, end - 1);
            rest = &rest[16..];
        }
    }
    Some(position)
}

fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn uuid_text(bytes: &[u8]) -> String {
    let digits = data_encoding::HEXLOWER.encode(bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| digits.get(part).unwrap_or_default()).join("-")
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::{Head, encoded, owned, set};

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn a_set_is_a_position() {
        for (given, written) in [
            (String::new(), Some(String::new())),
            (format!("{A}:1-5"), Some(format!("{A}:1-5"))),
            (format!("{}:1-5:7,\n{B}:3", A.to_uppercase()), Some(format!("{A}:1-5:7,{B}:3"))),
            (format!("{A}:1-5:tag:1-2:9"), Some(format!("{A}:1-5,{}tag:1-2:9", A.replace('-', "")))),
            (format!("{A}:5-1"), None),
            (format!("{A}:0-1"), None),
            (A.to_owned(), None),
            ("0-1-5".to_owned(), None),
            (format!("{A}:1-x"), None),
        ] {
            assert_eq!(set(&given).map(|set| set.to_string()), written, "{given}");
        }
    }

    #[test]
    fn a_tag_makes_a_stream_that_a_position_takes() {
        let long = format!("{A}:{}:1-2", "t".repeat(32));
        let text = set(&long).unwrap().to_string();
        assert_eq!(text.parse::<tillerman_agent::position::Position>().unwrap().to_string(), text);
    }

    fn bytes(uuid: &str) -> Vec<u8> {
        data_encoding::HEXLOWER.decode(uuid.replace('-', "").as_bytes()).unwrap()
    }

    #[test]
    fn a_set_in_a_log_is_read() {
        let longs = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        let body = [longs(&[2]), bytes(A), longs(&[2, 1, 6, 8, 9]), bytes(B), longs(&[1, 3, 4])].concat();
        let expected = format!("{A}:1-5:8,{B}:3");
        assert_eq!(encoded(&body).unwrap().to_string(), expected);
        assert_eq!(encoded(&[&body[..], b"sum!"].concat()).unwrap().to_string(), expected);
        for end in 0..body.len() {
            assert_eq!(encoded(&body[..end]), None, "cut at {end}");
        }
        // The number of servers has a mark if there are tags.
        assert_eq!(encoded(&[&longs(&[1 | (1 << 56)])[..], &body[8..]].concat()), None);
    }

    #[test]
    fn the_first_event_of_a_write_names_it_with_its_time_and_length() {
        let begin = [&[1][..], &bytes(A), &7_u64.to_le_bytes(), &[2], &[0; 16]].concat();
        let micros = |seconds: u64, mark: u64| ((seconds * 1_000_000 + 5) | (mark << 55)).to_le_bytes()[..7].to_vec();
        let (here, twice) = (micros(90, 0), [micros(95, 1), micros(90, 0)].concat());
        for (times, packed, length) in [
            (&here, &[200][..], 200),
            (&twice, &[252, 1, 2], 0x201),
            (&here, &[253, 1, 2, 3], 0x3_0201),
            (&twice, &[254, 0, 0, 0, 0, 1, 0, 0, 0], 1 << 32),
        ] {
            let body = [&begin[..], times, packed].concat();
            let head = Head { stream: A.to_owned(), number: 7, committed: 90, length };
            assert_eq!(Head::read(&body), Some(head));
            for end in 0..body.len() {
                assert_eq!(Head::read(&body[..end]), None, "cut at {end}");
            }
        }
    }

    #[test]
    fn writes_that_are_being_committed_are_read_without_their_threads() {
        let given = format!("{A}:23#5:24#9,\n{B}:1#2");
        assert_eq!(owned(&given).unwrap().to_string(), format!("{A}:23-24,{B}:1"));
        assert_eq!(owned("").unwrap().to_string(), "");
        assert!(owned(&format!("{A}:23")).is_none());
    }
}
