//! The operator on a real API server: `tests/cluster/with.sh cargo test --features cluster-tests --test operator`.
//!
//! Each test has a namespace and an operator process of its own, which acts under a user of its own. Tests wait for conditions with a
//! deadline and never for a time, except where the point is that nothing happens.

mod admitted;
mod argocd;
mod attempts;
mod bad_input;
mod before_deletion;
mod browser_pages;
mod browser_scenarios;
mod chaos;
mod clusters;
mod commands;
mod coreos;
mod crds;
mod definitions;
mod depends_on;
mod drift;
mod etcd;
mod etcd_chart;
mod flags;
mod flux;
mod harm;
mod health;
mod history;
mod hooks;
mod immutable;
mod install;
mod journal;
mod kept;
mod lease;
mod lifecycle;
mod lookup;
mod mail;
mod masks;
mod members;
mod metrics;
mod mysql_chart;
mod needed;
mod notice_events;
mod notices;
mod operations;
mod outage;
mod own_driver;
mod php_scale;
mod policy;
mod ports;
mod primary;
mod prune;
mod renewal;
mod reports;
mod rest;
mod results;
mod rights;
mod rollouts;
mod scope;
mod shared;
mod sleep;
mod sources;
mod status;
mod status_fields;
mod switches;
mod takeover;
mod tenants;
mod traces;
mod trust;
mod typed;
mod ui;
mod values;
mod versions;
mod volumes;

#[path = "../support/mod.rs"]
mod support;

use support::{agents, browser, harness, kubelet, node, writer};
