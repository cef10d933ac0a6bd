//! The types that `tillerman crd` gives public charts: what they refuse, and what an API server makes of them. The charts are those of
//! the large corpus; without it nothing is run, and that is printed.

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod projects;
mod rates;
mod server;
