//! Chart + values → what Helm would send to the API server.

use crate::chart::{Chart, File};

/// What a rendering is about.
#[derive(Clone, Debug)]
pub struct Release {
    /// Name of the release.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Revision, from 1.
    pub revision: u64,
    /// Whether this is an upgrade (`.Release.IsUpgrade`), else an install.
    pub is_upgrade: bool,
}

/// What templates see as `.Capabilities`.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The API server's version, such as `v1.37.0`.
    pub kube_version: String,
    /// Group-versions and group-version-kinds that the API server serves (`apps/v1`, `apps/v1/Deployment`).
    pub api_versions: Vec<String>,
}

/// A rendered object.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The template it comes from, such as `web/templates/service.yaml`.
    pub source: String,
    /// The document's text.
    pub text: String,
    /// `apiVersion` of the document.
    pub api_version: String,
    /// `kind` of the document.
    pub kind: String,
    /// `metadata.name` of the document.
    pub name: String,
}

/// A rendered hook.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The object.
    pub manifest: Manifest,
    /// Helm's events, such as `pre-install`.
    pub events: Vec<String>,
    /// `helm.sh/hook-weight`.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`.
    pub delete_policies: Vec<String>,
    /// `helm.sh/hook-output-log-policy`.
    pub output_log_policies: Vec<String>,
}

/// What a chart renders to.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Objects in Helm's order of installation.
    pub manifests: Vec<Manifest>,
    /// Hooks in Helm's order.
    pub hooks: Vec<Hook>,
    /// NOTES.txt.
    pub notes: String,
    /// Files of `crds/` of the chart and its dependencies, in Helm's order.
    pub crds: Vec<File>,
}

impl Rendered {
    /// The manifest text that Helm keeps in a release: every document with its `# Source:` line.
    pub fn manifest(&self) -> String {
        self.manifests.iter().map(|m| format!("---\n# Source: {}\n{}\n", m.source, m.text)).collect()
    }
}

/// Why a chart could not be rendered.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Diagnostic {
    /// Helm's text, without `Error: `. It may hold values of the chart; see [`Diagnostic::reason_line`].
    pub message: String,
    /// Where, as `FILE:LINE:COLUMN`, when known.
    pub at: Option<String>,
}

/// Renders a chart.
///
/// `values` are the user's (a custom resource's `spec`); they are coalesced with the chart's own, checked
/// against its schemas, and given to the templates.
pub fn render(
    _chart: &Chart,
    _values: &serde_json::Map<String, serde_json::Value>,
    _release: &Release,
    _capabilities: &Capabilities,
) -> Result<Rendered, Diagnostic> {
    todo!()
}
