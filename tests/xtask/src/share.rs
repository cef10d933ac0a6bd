//! Which cells of a sweep are run: all, or those that the newest commit chooses.

use std::fmt;
use std::process::Command;

/// Of how many cells one is run.
const OF: u64 = 3;

/// Parts that take turns, each with its turn. They take minutes, and so do the tools that they alone need.
const TURNS: [(&str, u64); 4] = [("peer", 0), ("walk", 0), ("node", 1), ("faults", 2)];

/// The cells whose number leaves this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    remainder: u64,
    of: u64,
    /// Which parts of [`TURNS`] run; it changes after each [`OF`] commits, so that all cells have their turn.
    turn: u64,
    /// Which tenth of the charts of the corpus is run.
    tenth: Option<u64>,
}

impl Share {
    /// All cells.
    pub fn whole() -> Self {
        Self { remainder: 0, of: 1, turn: 0, tenth: None }
    }

    /// One cell of [`OF`]. Commits of a branch take turns: the remainder is that of the newest commit's number; where only the newest
    /// commit is there (a shallow clone), of its hash.
    pub fn of_commit() -> Result<Self, String> {
        let number = git(&["rev-list", "--count", "HEAD"])?.parse().unwrap_or(0);
        let hash = git(&["rev-parse", "HEAD"])?;
        Ok(Self::chosen(number, &hash))
    }

    fn chosen(number: u64, hash: &str) -> Self {
        let of_hash = hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
        let number = if number > 1 { number } else { of_hash };
        Self { remainder: number % OF, of: OF, turn: number / OF % OF, tenth: Some(number % 10) }
    }

    /// Whether all cells are run.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Whether a part runs.
    pub fn has(self, part: &str) -> bool {
        self.is_whole() || TURNS.iter().all(|(name, turn)| *name != part || *turn == self.turn)
    }

    /// As the tests read it from `SWEEP_SHARE`.
    pub fn variable(self) -> String {
        format!("{}/{}", self.remainder, self.of)
    }

    /// As the tests of the charts of the corpus read it from `SWEEP_CHARTS`.
    pub fn variable_of_charts(self) -> String {
        self.tenth.map_or_else(|| "0/1".to_owned(), |tenth| format!("{tenth}/10"))
    }

    /// Those of a list that are run.
    pub fn of<T>(self, cells: impl IntoIterator<Item = T>) -> Vec<T> {
        (0..).zip(cells).filter(|(number, _)| number % self.of == self.remainder).map(|(_, cell)| cell).collect()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() {
            f.write_str("sweeps: all cells")
        } else {
            let tenth = self.tenth.unwrap_or_default();
            write!(
                f,
                "sweeps: every cell whose number divided by {} leaves {}, and of charts, by 10 leaves {tenth}",
                self.of, self.remainder
            )
        }
    }
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).output().map_err(|e| format!("git cannot be run: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::{OF, Share};
    use std::collections::BTreeSet;

    #[test]
    fn commits_in_a_row_run_every_cell() {
        let of = |number| Share::chosen(number, "ffffffff").of(0..20);
        let cells: BTreeSet<u64> = (100..100 + OF).flat_map(of).collect();
        assert_eq!(cells.len(), 20);
        assert_eq!(Share::whole().of(0..20).len(), 20);
    }

    #[test]
    fn parts_that_take_turns_all_run_with_all_cells() {
        for (part, _) in super::TURNS {
            let shares = (100..100 + OF * OF).map(|number| Share::chosen(number, "ffffffff"));
            let cells: BTreeSet<String> = shares.filter(|share| share.has(part)).map(Share::variable).collect();
            assert_eq!(cells.len() as u64, OF, "{part}");
            assert!(Share::whole().has(part));
            assert!(crate::parts::PARTS.iter().any(|known| known.name == part));
        }
        assert!((100..100 + OF).all(|number| Share::chosen(number, "ffffffff").has("cluster")));
    }

    #[test]
    fn a_shallow_clone_chooses_by_the_hash() {
        assert_eq!(Share::chosen(1, "00000004ab").variable(), "1/3");
        assert_eq!(Share::chosen(7, "00000005ab").variable(), "1/3");
        assert_eq!(Share::chosen(27, "00000005ab").variable_of_charts(), "7/10");
        assert_eq!(Share::whole().variable_of_charts(), "0/1");
    }
}
