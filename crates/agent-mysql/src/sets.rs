//! MySQL's sets of GTIDs as positions: `UUID:1-5:8:TAG:1-3`, separated by commas and line breaks. Writes with a tag are a stream of their
//! own, the UUID without hyphens with the tag behind it, as their numbers begin again with 1.

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

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::{owned, set};

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

    #[test]
    fn writes_that_are_being_committed_are_read_without_their_threads() {
        let given = format!("{A}:23#5:24#9,\n{B}:1#2");
        assert_eq!(owned(&given).unwrap().to_string(), format!("{A}:23-24,{B}:1"));
        assert_eq!(owned("").unwrap().to_string(), "");
        assert!(owned(&format!("{A}:23")).is_none());
    }
}
