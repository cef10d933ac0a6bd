//! Kinds: which custom resources Tillerman handles, and with which chart.

pub mod allow;
pub mod annotations;
pub mod cron;
pub mod depends_on;
pub mod dns;
pub mod duration;
pub mod ignore;
pub mod intended;
pub mod overrides;
pub mod placement;
pub mod rollout;
pub mod schema_documents;
pub mod selector;
pub mod service_account;
pub mod sleep;
pub mod switches;
pub mod values_from;
pub mod watches;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::object::Gvk;
use crate::object::patch::Patch;
use allow::Allow;
use depends_on::Dependency;
use overrides::Overrides;
use placement::Placement;
use rollout::Rollout;
use service_account::ServiceAccount;
use switches::Switches;
use values_from::ValuesFrom;

/// A kind of custom resource, and its chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The custom resource's kind.
    pub gvk: Gvk,
    pub chart: ChartRef,
    /// The checks of the chart when it is fetched.
    pub proof: Proof,
    /// Only custom resources that this label selector matches.
    pub selector: Option<String>,
    /// How often the operator compares its caches.
    pub reconcile_period: Option<Duration>,
    /// How releases are handled by default. A custom resource may override it.
    pub switches: Switches,
    /// Which annotations of a custom resource may reach beyond its chart.
    pub allow: Allow,
    /// Where the objects of its charts may be.
    pub placement: Placement,
    /// The account with whose rights its releases are handled; without it, the operator's own.
    pub service_account: Option<ServiceAccount>,
    /// Fields of its objects that are left to others.
    pub ignore_drift: Vec<ignore::Ignore>,
    /// Values that win over those of a custom resource.
    pub overrides: Overrides,
    /// Why none of its custom resources can be served, though other kinds can.
    pub unusable: Option<String>,
    /// Secrets and `ConfigMap`s with values, below those of a custom resource.
    pub values_from: Vec<ValuesFrom>,
    /// Custom resources that must be ready first, before those that a custom resource names.
    pub depends_on: Vec<Dependency>,
    /// Patches of the rendered objects, before those of a custom resource.
    pub patches: Vec<Patch>,
    /// Documents that the schema of its chart refers to and that are not in the chart, by their addresses.
    pub schema_documents: BTreeMap<String, schema_documents::SchemaSource>,
    /// Whether a change of an object of a release starts a pass; else it is seen when the reconcile period is over.
    pub watch_dependents: bool,
    /// How its custom resources move to a new version of the chart; `None` for all at once.
    pub rollout: Option<Rollout>,
    /// The suffix of a release name, after the name of the custom resource: empty, unless custom resources of two kinds have the same
    /// names.
    pub release_suffix: Box<str>,
}

/// A boolean in the spellings that Go takes (`strconv.ParseBool`).
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The proof that a fetched chart is the intended one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// SHA-256 of the archive, in hexadecimal digits.
    pub digest: Option<String>,
    /// The keys; one of them must have signed it.
    pub keyring: Option<PathBuf>,
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
    /// From `chart:` of a watches file; paths are relative to `base`.
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
