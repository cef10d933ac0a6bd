//! Which cells of a sweep are run: all, or those whose number leaves a remainder, which `SWEEP_SHARE=REMAINDER/OF` names.

use std::fmt;

#[derive(Clone, Copy)]
pub struct Share {
    pub remainder: u64,
    /// 1: all cells.
    pub of: u64,
}

impl Share {
    /// As the environment says.
    pub fn of_variable() -> Self {
        let text = std::env::var("SWEEP_SHARE").unwrap_or_else(|_| "0/1".to_owned());
        let read = || {
            let (remainder, of) = text.split_once('/')?;
            let share = Self { remainder: remainder.parse().ok()?, of: of.parse().ok()? };
            (share.remainder < share.of).then_some(share)
        };
        read().unwrap_or_else(|| panic!("SWEEP_SHARE is {text:?}, and must be REMAINDER/OF"))
    }

    /// How many cells there are at most, when so many of them are run.
    pub fn at_most(self, run: u64) -> u64 {
        run * self.of + self.of - 1
    }

    /// Those of all cells that are run.
    pub fn of<T>(self, cells: impl Iterator<Item = T>) -> Vec<T> {
        (0..).zip(cells).filter(|(number, _)| number % self.of == self.remainder).map(|(_, cell)| cell).collect()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of == 1 { Ok(()) } else { write!(f, ", of which every {} is taken", ordinal(self.of)) }
    }
}

fn ordinal(number: u64) -> String {
    match number {
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        _ => format!("{number}th"),
    }
}
