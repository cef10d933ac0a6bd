//! The agent of MariaDB and MySQL, on real processes: the program `tillerman-agent` with `mariadbd` of Debian, or with `FLAVOR=mysql`
//! `mysqld` of its unstable suite, each member on an address of its own. The orders are those that the operator gives (docs/design/primary.md).

mod cluster;
mod contract;
mod declared;
mod drill;
mod fencing;
mod full;
mod hung;
mod imports;
mod moves;
mod one;
mod renewed;
mod seeding;
mod settings;
mod stored;
mod trust;
mod upgrade;
mod whole;

#[path = "../support/mod.rs"]
mod support;
use support::rows as writers;
