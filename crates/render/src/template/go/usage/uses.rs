//! How templates use a value: what can be concluded about its type without executing them.

use std::collections::BTreeSet;
use std::ops::{BitOr, BitOrAssign};

/// A set of ways in which a value is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways(u32);

macro_rules! ways {
    ($($(#[$doc:meta])* $name:ident = $bit:expr;)*) => {
        impl Ways {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }
    };
}

ways! {
    /// It is on the way to something, or is looked at.
    TOUCHED = 0;
    /// A key of it is read by its name.
    FIELD = 1;
    /// A function of tables takes it.
    TABLE = 2;
    /// Its items or entries are taken, of whatever key.
    ITEMS = 3;
    /// `range` goes over it.
    RANGE = 4;
    /// A function of lists takes it.
    LIST = 5;
    /// `join` takes it, which makes a list of one out of a scalar.
    JOIN = 6;
    /// A function of strings takes it.
    STRING = 7;
    /// `tpl` executes it.
    TPL = 8;
    /// `tpl` executes it after `toYaml`, so that strings inside of it are templates.
    TPL_YAML = 9;
    /// `toYaml` writes it.
    YAML = 10;
    /// `toJson` and the like write it.
    JSON = 11;
    /// A function of numbers takes it.
    NUMBER = 12;
    /// It is printed as it is.
    PRINTED = 13;
    /// It is printed in quotes, or made a string.
    QUOTED = 14;
    /// It is compared, or `printf` formats it.
    COMPARED = 15;
    /// Only whether it is empty is asked: `if`, `default`, `required`.
    TESTED = 16;
    /// Its type is requested: `kindIs`, `typeOf`, `%T`.
    TYPE_ASKED = 17;
    /// It is passed to something of which nothing is concluded.
    PASSED = 18;
    /// All its keys are taken.
    KEYS = 19;
    /// It is merged with another table.
    MERGED = 20;
    /// It is copied.
    COPIED = 21;
    /// All of it but some keys is taken.
    OMITTED = 22;
    /// Templates change it.
    WRITTEN = 23;
    /// Its length is requested.
    LENGTH = 24;
}

impl BitOr for Ways {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ways {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Ways {
    /// No way.
    pub const NONE: Self = Self(0);

    /// Whether one of the others is among them.
    pub const fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// Whether there are only the others.
    pub const fn only(self, of: Self) -> bool {
        self.0 & !of.0 == 0
    }

    /// These or the others, in a constant.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The uses of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// In which ways.
    pub ways: Ways,
    /// Keys of the YAML text under which `toYaml` writes it; `None` where the text in front is not a key.
    pub written_under: BTreeSet<Option<Box<str>>>,
    /// Keys of the YAML text under which it is printed.
    pub printed_under: BTreeSet<Option<Box<str>>>,
}
