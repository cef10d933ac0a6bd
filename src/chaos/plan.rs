//! A sequence of faults for a cluster, which follows from a seed, a level and the cluster's size.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::ChaosError;
use super::random::Random;

/// The possible faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A member's pod is deleted without grace.
    Kill,
    /// So is its claim.
    Destroy,
    /// A member cannot reach the others for a time.
    Partition,
    /// The processes of a member are stopped for a time.
    Pause,
    /// The operator's pods are deleted without grace.
    Operator,
    /// The volume of a member has no space left for a time.
    Fill,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Kill, Self::Destroy, Self::Partition, Self::Pause, Self::Operator, Self::Fill];

    pub fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Destroy => "destroy",
            Self::Partition => "partition",
            Self::Pause => "pause",
            Self::Operator => "operator",
            Self::Fill => "fill",
        }
    }

    /// Whether it lasts until it is undone.
    pub fn lasts(self) -> bool {
        matches!(self, Self::Partition | Self::Pause | Self::Fill)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for FaultKind {
    type Err = ChaosError;

    fn from_str(word: &str) -> Result<Self, ChaosError> {
        let words = || Self::ALL.map(Self::word).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.word() == word)
            .ok_or_else(|| format!("it must be one of {}", words()).into())
    }
}

/// How much may be harmed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// One member, which keeps its data.
    One,
    /// One member, which may lose its data, and the operator at the same time.
    Two,
    /// Also a majority or all; only a minority of them may lose data.
    Three,
}

impl FromStr for Level {
    type Err = ChaosError;

    fn from_str(number: &str) -> Result<Self, ChaosError> {
        match number {
            "1" => Ok(Self::One),
            "2" => Ok(Self::Two),
            "3" => Ok(Self::Three),
            _ => Err("it must be 1, 2 or 3".into()),
        }
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The members, by ordinal, lowest first.
    pub members: Vec<u32>,
    /// Whether the operator is killed, too.
    pub operator: bool,
    /// For how long.
    pub lasts: Duration,
}

impl Fault {
    /// The fault in words, with the pods of a StatefulSet of this name.
    pub fn words(&self, name: &str) -> String {
        let mut words: Vec<String> = vec![self.kind.to_string()];
        words.extend(self.members.iter().map(|ordinal| format!("{name}-{ordinal}")));
        if self.kind.lasts() {
            words.push(format!("for {} s", self.lasts.as_secs()));
        }
        if self.operator && self.kind != FaultKind::Operator {
            words.push("and the operator".into());
        }
        words.join(" ")
    }
}

/// Faults without end: one after the other, each when all members are well again.
#[derive(Clone, Debug)]
pub struct Plan {
    random: Random,
    level: Level,
    kinds: Vec<FaultKind>,
    size: u32,
    operator: bool,
}

impl Plan {
    /// For a cluster of this many members. `operator` is whether it is known which pods are the operator's.
    ///
    /// Fails, with what to do about it, where a fault would harm more than the level allows.
    pub fn new(seed: u64, level: Level, kinds: &[FaultKind], size: u32, operator: bool) -> Result<Self, ChaosError> {
        let has = |kind| kinds.contains(&kind);
        if kinds.is_empty() {
            return Err("no fault is left to inject: name some".into());
        }
        if size == 0 {
            return Err("the cluster has no members".into());
        }
        if has(FaultKind::Operator) && !operator {
            return Err("which pods belong to the operator? Give --operator NAMESPACE/SELECTOR".into());
        }
        if has(FaultKind::Destroy) && level == Level::One {
            return Err("destroy takes a member's data, which level 1 does not allow: use --level 2".into());
        }
        if has(FaultKind::Destroy) && size < 3 {
            return Err(format!(
                "with {size} members, destroy would take data that no majority has: use at least 3 members"
            )
            .into());
        }
        let harms = kinds.iter().any(|kind| *kind != FaultKind::Operator);
        if harms && size < 3 && level < Level::Three {
            return Err(format!(
                "each of {size} members is needed for a majority: use at least 3 members, or --level 3"
            )
            .into());
        }
        Ok(Self { random: Random::new(seed), level, kinds: kinds.to_vec(), size, operator })
    }
}

impl Iterator for Plan {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        let kind = *self.random.one_of(&self.kinds)?;
        let most = match (kind, self.level) {
            (FaultKind::Operator, _) => 0,
            (_, Level::One | Level::Two) => 1,
            (FaultKind::Destroy, Level::Three) => (self.size - 1) / 2,
            (_, Level::Three) => self.size,
        };
        let mut left: Vec<u32> = (0..self.size).collect();
        let mut members = Vec::new();
        if most > 0 {
            for _ in 0..=self.random.below(usize::try_from(most).unwrap_or(1)) {
                members.push(left.remove(self.random.below(left.len())));
            }
        }
        members.sort_unstable();
        // Longer than an election of a leader, and than the timeout of connections.
        let seconds = 3 + self.random.any() % 15;
        let lasts = if kind.lasts() { Duration::from_secs(seconds) } else { Duration::ZERO };
        let operator = kind == FaultKind::Operator || self.operator && self.level >= Level::Two;
        Some(Fault { kind, members, operator, lasts })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind, Level, Plan};
    use std::collections::BTreeSet;

    const KEEPING: [FaultKind; 4] = [FaultKind::Kill, FaultKind::Partition, FaultKind::Pause, FaultKind::Fill];
    const FIVE: [FaultKind; 5] =
        [FaultKind::Kill, FaultKind::Destroy, FaultKind::Partition, FaultKind::Pause, FaultKind::Operator];

    fn faults(seed: u64, level: Level, kinds: &[FaultKind], size: u32) -> Vec<Fault> {
        Plan::new(seed, level, kinds, size, true).unwrap().take(500).collect()
    }

    #[test]
    fn a_seed_gives_the_same_faults_again_and_another_others() {
        let of = |seed| faults(seed, Level::Three, &FIVE, 5);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let first: Vec<_> = of(7).iter().take(4).map(|fault| fault.words("my")).collect();
        assert_eq!(first, FIRST, "a seed means the same in every version");
    }

    const FIRST: [&str; 4] = [
        "partition my-0 my-1 my-2 my-3 my-4 for 15 s and the operator",
        "kill my-3 and the operator",
        "kill my-0 my-1 my-2 my-3 my-4 and the operator",
        "pause my-0 my-1 my-2 my-3 my-4 for 12 s and the operator",
    ];

    #[test]
    fn level_1_harms_one_member_and_nobody_else() {
        for fault in faults(1, Level::One, &KEEPING, 3) {
            assert_eq!((fault.members.len(), fault.operator), (1, false), "{fault:?}");
            assert!(fault.members[0] < 3);
        }
    }

    #[test]
    fn level_2_kills_the_operator_at_the_same_time() {
        let all = faults(1, Level::Two, &FaultKind::ALL, 3);
        for fault in &all {
            assert!(
                fault.operator && fault.members.len() == usize::from(fault.kind != FaultKind::Operator),
                "{fault:?}"
            );
        }
        let kinds: BTreeSet<_> = all.iter().map(|fault| fault.kind.word()).collect();
        assert_eq!(kinds.len(), FaultKind::ALL.len(), "each has its turn");
        let unknown = Plan::new(1, Level::Two, &KEEPING, 3, false).unwrap().take(100);
        assert!(unknown.into_iter().all(|fault| !fault.operator));
    }

    #[test]
    fn level_3_takes_majorities_but_never_their_data() {
        let all = faults(1, Level::Three, &FaultKind::ALL, 5);
        let sizes = |kind| all.iter().filter(move |f| f.kind == kind).map(|f| f.members.len()).collect::<BTreeSet<_>>();
        for kind in KEEPING {
            assert_eq!(sizes(kind), (1..=5).collect(), "{kind}");
        }
        assert_eq!(sizes(FaultKind::Destroy), (1..=2).collect());
        for fault in &all {
            assert!(fault.members.is_sorted_by(|a, b| a < b) && fault.members.iter().all(|k| *k < 5), "{fault:?}");
        }
    }

    #[test]
    fn only_what_is_undone_lasts() {
        for fault in faults(1, Level::Three, &FaultKind::ALL, 3) {
            assert_eq!(fault.kind.lasts(), (3..18).contains(&fault.lasts.as_secs()), "{fault:?}");
        }
    }

    #[test]
    fn what_would_harm_more_than_the_level_allows_is_refused() {
        let refused = |level, kinds: &[FaultKind], size, operator| {
            Plan::new(1, level, kinds, size, operator).unwrap_err().to_string()
        };
        assert!(refused(Level::One, &[FaultKind::Destroy], 3, true).contains("--level 2"));
        assert!(refused(Level::Three, &[FaultKind::Destroy], 2, true).contains("at least 3"));
        assert!(refused(Level::One, &[FaultKind::Kill], 2, true).contains("--level 3"));
        assert!(refused(Level::One, &[FaultKind::Operator], 3, false).contains("--operator"));
        assert!(refused(Level::One, &[], 3, true).contains("no fault"));
        assert!(refused(Level::Three, &[FaultKind::Kill], 0, true).contains("no members"));
        assert!(Plan::new(1, Level::Three, &[FaultKind::Kill], 1, false).is_ok());
        assert!(Plan::new(1, Level::One, &[FaultKind::Operator], 1, true).is_ok());
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        assert_eq!(
            "flood".parse::<FaultKind>(),
            Err("it must be one of kill, destroy, partition, pause, operator, fill".into())
        );
        assert!("0".parse::<Level>().is_err() && "3".parse() == Ok(Level::Three));
    }
}
