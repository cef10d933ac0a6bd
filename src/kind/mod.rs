//! Which custom resources Tillerman serves, and with which chart.

pub mod crd;
pub mod duration;
pub mod switches;
pub mod watches;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::release::object::Gvk;
use switches::Switches;

/// A kind of custom resource and the chart that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The custom resource's kind.
    pub gvk: Gvk,
    /// The chart.
    pub chart: ChartRef,
    /// Only custom resources that this label selector matches.
    pub selector: Option<String>,
    /// How often the operator compares its caches.
    pub reconcile_period: Option<Duration>,
    /// How releases are handled, where a custom resource does not say otherwise.
    pub switches: Switches,
    /// What the entry asks for and Tillerman does not do yet; its custom resources are not touched while this is not empty.
    pub unsupported: Vec<String>,
}

/// Where the chart of a kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartRef {
    /// A directory or an archive.
    Path(PathBuf),
    /// `oci://…` with a tag or a digest, or the link of an archive over http or https. Credentials for registries are those
    /// of `helm registry login` and Docker.
    Link(String),
}

impl ChartRef {
    /// What `chart:` of a watches file says; paths are below `base`.
    pub fn parse(text: &str, base: &std::path::Path) -> Self {
        let link = ["oci://", "https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
        if link { Self::Link(text.to_owned()) } else { Self::Path(base.join(text)) }
    }
}

impl fmt::Display for ChartRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Link(link) => f.write_str(link),
        }
    }
}
