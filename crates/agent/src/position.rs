//! How much of the writes a member has: sets of numbered writes, by stream. The meaning of a stream depends on the
//! database: it may be the UUID of a server, a domain and a server, or a replication ID. Only the agent knows. The
//! operator compares sets.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Intervals of a stream. More are refused, so that an answer has a limit.
const INTERVALS: usize = 10_000;

/// A set of writes. Written as `STREAM:FIRST-LAST:FIRST-LAST,STREAM:…`, as MySQL does; empty if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position(BTreeMap<String, Vec<(u64, u64)>>);

impl Position {
    /// No write.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the set is empty.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the writes `first` to `last` of a stream.
    pub fn add(&mut self, stream: &str, first: u64, last: u64) {
        if first > last {
            return;
        }
        let intervals = self.0.entry(stream.to_owned()).or_default();
        intervals.push((first, last));
        *intervals = merged(std::mem::take(intervals));
    }

    /// The writes of both sets.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        for (stream, intervals) in &other.0 {
            for (first, last) in intervals {
                self.add(stream, *first, *last);
            }
        }
        self
    }

    /// The writes that both sets have.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let mut common = Self::none();
        for (stream, ours) in &self.0 {
            for (first, last) in ours {
                let theirs = other.0.get(stream).map_or(&[][..], Vec::as_slice);
                for (from, to) in theirs {
                    common.add(stream, *first.max(from), *last.min(to));
                }
            }
        }
        common
    }

    /// How many writes there are.
    pub fn count(&self) -> u64 {
        let lengths = self.0.values().flatten().map(|(first, last)| (last - first).saturating_add(1));
        lengths.fold(0, u64::saturating_add)
    }

    /// The newest write of each stream.
    pub fn newest(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(|(stream, intervals)| Some((stream.as_str(), intervals.last()?.1)))
    }

    /// Whether every write of `other` is in this set.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|(stream, theirs)| {
            let ours = self.0.get(stream).map_or(&[][..], Vec::as_slice);
            theirs.iter().all(|(first, last)| {
                // They are in order, and do not touch.
                let at = ours.partition_point(|(_, to)| to < first);
                ours.get(at).is_some_and(|(from, to)| from <= first && last <= to)
            })
        })
    }
}

/// The same numbers in order, in as few intervals as possible.
fn merged(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(intervals.len());
    for (first, last) in intervals {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (stream, intervals)) in self.0.iter().enumerate() {
            write!(f, "{}{stream}", if at == 0 { "" } else { "," })?;
            for (first, last) in intervals {
                if first == last { write!(f, ":{first}") } else { write!(f, ":{first}-{last}") }?;
            }
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::none();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || "a position is STREAM:FIRST-LAST, separated by commas".to_owned();
            let mut fields = part.split(':');
            let stream = fields.next().filter(|stream| !stream.is_empty() && stream.len() <= 64).ok_or_else(wrong)?;
            let mut count = 0;
            for interval in fields {
                let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
                let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
                if first > last || count >= INTERVALS {
                    return Err(wrong());
                }
                all.0.entry(stream.to_owned()).or_default().push((first, last));
                count += 1;
            }
            if count == 0 {
                return Err(wrong());
            }
        }
        let unsorted = std::mem::take(&mut all.0);
        for (stream, intervals) in unsorted {
            all.0.insert(stream, merged(intervals));
        }
        Ok(all)
    }
}

impl TryFrom<String> for Position {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Position> for String {
    fn from(position: Position) -> Self {
        position.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    fn position(text: &str) -> Position {
        text.parse().unwrap()
    }

    #[test]
    fn a_set_is_written_as_it_is_read_with_its_intervals_joined() {
        for (given, written) in [
            ("", ""),
            ("0-1:1-5", "0-1:1-5"),
            ("b:7,a:1-2:3-4:9-9", "a:1-4:9,b:7"),
            (" a:5-9:1-6 , a:20-30", "a:1-9:20-30"),
        ] {
            assert_eq!(position(given).to_string(), written, "{given}");
            let json = serde_json::to_string(&position(given)).unwrap();
            assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position(given));
        }
        for wrong in ["a", "a:", ":1-2", "a:2-1", "a:x", "a:1-2:", "a:-1", "a:1-99999999999999999999"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_set_contains_another_if_it_has_each_of_its_writes() {
        for (ours, theirs, contains) in [
            ("", "", true),
            ("a:1-5", "", true),
            ("", "a:1", false),
            ("a:1-5", "a:2-5", true),
            ("a:1-5", "a:5-6", false),
            ("a:1-2:4-9", "a:2-4", false),
            ("a:1-9,b:1-3", "b:1-3", true),
            ("a:1-9,b:1-3", "a:1,c:1", false),
        ] {
            assert_eq!(position(ours).contains(&position(theirs)), contains, "{ours} {theirs}");
        }
        assert_eq!(position("a:1-5").with(&position("a:6-7,b:1")), position("a:1-7,b:1"));
        assert_eq!(position("a:1-5:8-9,b:1").common(&position("a:4-8,c:1")), position("a:4-5:8"));
        assert_eq!(position("a:1-5:8-9,b:3").count(), 8);
        assert_eq!(position("a:1-5:8-9,b:3").newest().collect::<Vec<_>>(), [("a", 9), ("b", 3)]);
    }
}
