//! Stateful sets whose members have to be announced before they are added and removed: the contract of scale hooks, and
//! the drivers that fulfil it.
//!
//! The next step follows from the present state (the StatefulSet, its pods and claims, and the application's reports
//! about its members), and never from a stored step. So a crash is the same as a pass that ended at that point.
//!
//! - [`workload`]: the state of a StatefulSet in the API server, and the few facts that only the status of the custom
//!   resource keeps.
//! - [`driver`]: the trait of drivers: settings, one step at a time, the report and the events.
//! - [`document`]: the declarations of a chart about its members.
//! - [`driver_name`]: the names of drivers. [`secret`]: certificates and passwords, as Secrets contain them. [`operator`]: what
//!   the operator does in the API server for a driver.
//! - [`conditions`](mod@conditions): the conditions that coreos' etcd-operator reported for a cluster.
//! - [`etcd`]: the driver of etcd.
//! - [`jobs`]: the driver that runs Jobs of the chart.
//! - [`primary`]: the driver of databases with one primary and replicas.
//! - [`drivers`]: the list of drivers: the built-in ones, and those that a program registers.
//! - [`rows`]: the tables of decisions of `etcd` and `primary`, as pages show them.
//! - [`progress`]: the report about members in the status.
//! - [`sleep`](mod@sleep): members that have no pods for a while.
//! - [`growth`]: volumes that grow by themselves.
//! - [`url`]: the ordinal that a URL belongs to.
//! - [`substitute`]: the fields that the operator inserts when it applies the StatefulSet.

pub mod conditions;
pub mod document;
pub mod driver;
pub mod driver_name;
pub mod drivers;
pub mod etcd;
pub mod growth;
pub mod jobs;
pub mod operator;
pub mod primary;
pub mod progress;
pub mod rows;
pub mod secret;
pub mod sleep;
pub mod substitute;
pub mod url;
pub mod workload;
