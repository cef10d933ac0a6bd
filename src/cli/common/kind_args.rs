//! The names of a kind, where the annotations of its chart do not give them.

/// The names of a kind, without its group.
#[derive(Debug, Default, clap::Args)]
pub struct KindArgs {
    /// API version [default: the chart's annotation, or v1alpha1].
    #[arg(long)]
    pub version: Option<String>,
    /// Kind [default: the chart's annotation, or the chart's name in camel case].
    #[arg(long)]
    pub kind: Option<String>,
    /// Plural name [default: the chart's annotation, or made from the kind].
    #[arg(long)]
    pub plural: Option<String>,
}
