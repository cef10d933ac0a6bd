//! Tillerman turns charts into operators. This package is the operator and its command line; the other crates are
//! libraries: `tillerman-render` renders charts as Helm does, `tillerman-source` fetches them, and `tillerman-agent` is
//! the protocol with the agents of databases.
//!
//! # The tour
//! In reading order, from what knows nothing of Kubernetes to what talks to it:
//!
//! 1. [`chart`]: a loaded chart; values, `--set`, versions. [`template`]: Go templates with Helm's functions, minijinja, YAML in and out.
//!    [`render`]: chart + values → manifests, hooks and notes, in Helm's order. All three are `crates/render`.
//! 2. [`bounds`]: limits of what others write. [`object`]: the fields that are read and written in the same way for every object. [`kind`]: which custom
//!    resources there are, with which chart; switches. [`crd`]: the API of a chart, with types for its values. [`definition`]: charts that
//!    become APIs while the operator runs.
//! 3. [`release`]: the record of a release in Helm's format, digests of the applied objects, and the facts about live
//!    objects.
//! 4. [`plan`]: decisions. The situation of a release, and the writes that follow from it; pure functions.
//! 5. [`notices`]: which messages people get about releases. [`members`]: how members of a stateful set come and go. [`runs`]: the results
//!    of Jobs and Pods. [`agent`]: the protocol with agents of databases (`crates/agent`). [`backup`]: backups, and restoring from them.
//!    [`chaos`]: injected faults, and what clients record of them.
//! 6. [`cluster`]: all access to the API server. [`lookup`]: `lookup` in templates. [`mask`]: secrets appear in no text.
//! 7. [`reconcile`]: a pass, step by step ([`reconcile::pass`]), and the loop around it.
//! 8. [`telemetry`]: metrics, health and traces. [`server`]: serves them. [`source`]: where charts come from (`crates/source`). [`lint`]:
//!    mistakes in a chart. [`fleet`]: the effect of a change on many custom resources. [`ui`]: pages about releases for a browser. [`rbac`]: the rights that an operator of it needs. [`scaffold`]: projects of operators. [`image`]: their
//!    container images. [`host`] and [`cli`]: the command line.

pub use tillerman_agent as agent;
pub use tillerman_render::{chart, render, template};
pub use tillerman_source as source;

pub mod backup;
pub mod bounds;
pub mod chaos;
pub mod cli;
pub mod cluster;
pub mod crd;
pub mod definition;
pub mod fleet;
mod harm;
pub mod host;
pub mod image;
pub mod inputs;
pub mod kind;
pub mod lint;
pub mod lookup;
pub mod mask;
pub mod members;
pub mod names;
pub mod notices;
pub mod object;
pub mod plan;
pub mod rbac;
pub mod reconcile;
pub mod release;
pub mod runs;
pub mod scaffold;
pub mod server;
pub mod telemetry;
pub mod ui;
