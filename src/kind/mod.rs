//! Which custom resources Tillerman serves, and with which chart.

pub mod crd;
pub mod duration;
pub mod watches;

use std::path::PathBuf;
use std::time::Duration;

use crate::release::object::Gvk;

/// A kind of custom resource and the chart that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The custom resource's kind.
    pub gvk: Gvk,
    /// The chart: a directory or an archive.
    pub chart: PathBuf,
    /// Only custom resources that this label selector matches.
    pub selector: Option<String>,
    /// How often the operator compares its caches.
    pub reconcile_period: Option<Duration>,
    /// What the entry asks for and Tillerman does not do yet; its custom resources are not touched while this is not empty.
    pub unsupported: Vec<String>,
}
