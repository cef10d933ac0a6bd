//! Tillerman turns charts into operators, and renders charts as Helm does.
//!
//! # Rendering charts
//! Without default features the crate is a renderer: [`chart`], [`template`] and [`render`], with no Kubernetes client,
//! no network, and no clock or randomness but what the caller's [`template::function::Host`] gives. The text is that of
//! Helm 4.3.1, byte for byte.
//!
//! ```
//! use std::path::Path;
//! use tillerman::chart;
//! use tillerman::render::{self, Capabilities, Options, Release};
//!
//! let chart = chart::load(Path::new("examples/helm-chart/chart"))?;
//! let values = chart::values::load(b"replicaCount: 3")?;
//! let release = Release::new("shop", "default");
//! let rendered = render::render(&chart, &values, &release, &Capabilities::default(), &Options::default())?;
//!
//! let deployment = rendered.manifests.iter().find(|m| m.kind == "Deployment").unwrap();
//! assert_eq!(deployment.name, "shop-web");
//! assert!(deployment.text.contains("replicas: 3"));
//! assert!(rendered.hooks.is_empty());
//! println!("{}\n{}", rendered.manifest(), rendered.notes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A chart can be kept and shared between threads; it remembers its parsed templates and compiled schema. A
//! [`render::Diagnostic`] says where a rendering failed, and its [`render::Explanation`] what may be meant. `examples/`
//! of the repository holds programs that render a chart, and that compare two renderings.
//!
//! # The tour
//! In reading order, from what knows nothing of Kubernetes to what talks to it. What is in code letters only needs the
//! features `cli` or `operator`, which are for the program and follow its needs:
//!
//! 1. [`chart`]: a chart at rest, loaded from a folder or an archive; values, `--set`, versions.
//! 2. [`template`]: the text engines. Go templates with Helm's functions, minijinja, YAML in and out.
//! 3. [`render`]: chart + values → manifests, hooks and notes, in Helm's order.
//! 4. `kind`: which custom resources there are, with which chart; switches. `crd`: the API of a chart, with types for its values.
//!    `definition`: charts that become APIs while the operator runs.
//! 5. `release`: the record of a release in Helm's format, digests of what was applied, and what is known of live objects.
//! 6. `plan`: decisions. What situation a release is in, and which writes follow from it; pure functions.
//! 7. `notices`: what people are sent of releases, when and in which words. `members`: how members of a stateful set come and go. `runs`: what a Job or Pod does to its end.
//!    `agent`: what the operator and the agent of a database say to each other, and the agent for MariaDB. `backup`: backups of etcd, and restoring from them. `chaos`: faults done on purpose, and what clients record of them.
//! 8. `cluster`: everything that talks to the API server. `lookup`: `lookup` in templates. `mask`: secrets appear in no text.
//! 9. `reconcile`: a pass, step by step (`reconcile::pass`), and the loop around it.
//! 10. `telemetry`: metrics, health and traces. `server`: serves them. `source`: where charts come from. `lint`: what is wrong
//!     with a chart. `rbac`: the rights that an operator of it needs. `scaffold`: projects of operators. `image`: their container
//!     images. `host` and `cli`: the command line.

pub use tillerman_agent as agent;
pub use tillerman_render::{chart, render, template};
pub use tillerman_source as source;

pub mod backup;
pub mod chaos;
pub mod cli;
pub mod cluster;
pub mod crd;
pub mod definition;
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
pub mod plan;
pub mod rbac;
pub mod reconcile;
pub mod release;
pub mod runs;
pub mod scaffold;
pub mod server;
pub mod telemetry;
