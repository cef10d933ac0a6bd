//! The names of drivers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::drivers::BUILT_IN;

/// The name of the driver, which adds and removes members: a built-in driver, or one of the program's own
/// ([`Drivers`](super::drivers::Drivers)), such as `example.com/database`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "EncodedDriver", into = "EncodedDriver")]
pub struct DriverName(Cow<'static, str>);

/// The form of the name in a record.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum EncodedDriver {
    BuiltIn(Cow<'static, str>),
    Own { own: String },
}

impl TryFrom<EncodedDriver> for DriverName {
    type Error = String;

    fn try_from(encoded: EncodedDriver) -> Result<Self, String> {
        match encoded {
            EncodedDriver::BuiltIn(name) => Self::built_in(&name).ok_or_else(|| format!("there is no driver {name}")),
            EncodedDriver::Own { own } => Ok(Self(own.into())),
        }
    }
}

impl From<DriverName> for EncodedDriver {
    fn from(name: DriverName) -> Self {
        match DriverName::built_in(name.as_str()) {
            Some(name) => Self::BuiltIn(name.0),
            None => Self::Own { own: name.0.into_owned() },
        }
    }
}

impl DriverName {
    fn built_in(text: &str) -> Option<Self> {
        BUILT_IN.iter().find(|profile| profile.name == text).map(|profile| Self(profile.name.into()))
    }

    /// Reads the name in a document; `None` for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::built_in(text).or_else(|| is_own(text).then(|| Self(text.to_owned().into())))
    }

    /// The name as in the document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a program's own driver can have this name: a domain and a name, so that it cannot be mistaken for a built-in
/// driver.
pub fn is_own(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split_once('/').is_some_and(|(domain, name)| domain.split('.').all(is_label) && is_label(name))
}
