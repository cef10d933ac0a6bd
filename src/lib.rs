//! Tillerman turns charts into operators, and renders charts as Helm does.
//!
//! # The tour
//! In reading order, from what knows nothing of Kubernetes to what talks to it:
//!
//! 1. [`chart`]: a chart at rest, loaded from a folder or an archive; values, `--set`, versions.
//! 2. [`template`]: the text engines. Go templates with Helm's functions, minijinja, YAML in and out.
//! 3. [`render`]: chart + values → manifests, hooks and notes, in Helm's order.
//! 4. [`kind`]: which custom resources there are, with which chart; the CRD of a chart.
//! 5. [`release`]: the record of a release in Helm's format, and digests of what was applied.
//! 6. [`plan`]: decisions. What situation a release is in, and which writes follow from it; pure functions.
//! 7. `cluster`: everything that talks to the API server.
//! 8. `reconcile`: observe, render, plan, apply, report, and the loop around them.
//! 9. `server`: health and metrics. `source`: where charts come from. [`host`] and [`cli`]: the command line.
//!
//! Without default features the crate is a renderer: [`chart`], [`template`] and [`render`], with no Kubernetes client,
//! no network, and no clock or randomness but what the caller's [`template::function::Host`] gives.

pub mod chart;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "operator")]
pub mod cluster;
#[cfg(feature = "cli")]
pub mod host;
pub mod kind;
#[cfg(feature = "cli")]
pub mod lint;
pub mod plan;
#[cfg(feature = "operator")]
pub mod reconcile;
pub mod release;
pub mod render;
#[cfg(feature = "operator")]
pub mod server;
#[cfg(feature = "fetch")]
pub mod source;
pub mod template;
