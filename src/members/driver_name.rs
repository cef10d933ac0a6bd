//! The names of drivers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The name of the driver, which adds and removes members: a built-in driver, or one of the program's own
/// ([`Drivers`](super::drivers::Drivers)), such as `example.com/database`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EncodedDriver", into = "EncodedDriver")]
pub struct DriverName(Cow<'static, str>);

/// The form of the name in a record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EncodedDriver {
    Etcd,
    Jobs,
    Primary,
    Own(String),
}

impl From<EncodedDriver> for DriverName {
    fn from(encoded: EncodedDriver) -> Self {
        match encoded {
            EncodedDriver::Etcd => Self::ETCD,
            EncodedDriver::Jobs => Self::JOBS,
            EncodedDriver::Primary => Self::PRIMARY,
            EncodedDriver::Own(name) => Self(name.into()),
        }
    }
}

impl From<DriverName> for EncodedDriver {
    fn from(name: DriverName) -> Self {
        match name {
            name if name == DriverName::ETCD => Self::Etcd,
            name if name == DriverName::JOBS => Self::Jobs,
            name if name == DriverName::PRIMARY => Self::Primary,
            DriverName(name) => Self::Own(name.into_owned()),
        }
    }
}

impl DriverName {
    /// The driver of etcd.
    pub const ETCD: Self = Self(Cow::Borrowed("etcd"));
    /// The driver that runs Jobs of the chart.
    pub const JOBS: Self = Self(Cow::Borrowed("jobs"));
    /// The driver of databases with one primary and replicas.
    pub const PRIMARY: Self = Self(Cow::Borrowed("primary"));

    /// Reads the name in a document; `None` for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        let built_in = [Self::ETCD, Self::JOBS, Self::PRIMARY].into_iter().find(|name| name.0 == text);
        built_in.or_else(|| is_own(text).then(|| Self(text.to_owned().into())))
    }

    /// The name as in the document.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a driver of the program's own.
    pub fn is_own(&self) -> bool {
        is_own(&self.0)
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
