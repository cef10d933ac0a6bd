//! Pages about releases for a browser: `tillerman ui`.
//!
//! The browser that opened the link of this start gets pages ([`access`]); the path says which ([`address`]); the page is made from documents
//! ([`source`]) by templates ([`pages`]); [`server`] sends it. Nothing here knows of clusters, and nothing is stored.
//!
//! # Guarantees
//! - A page shows only what its [`PageSource`](source::PageSource) gives. Texts are escaped by the template engine, and cut where they are very long.
//! - The pages change nothing: only `GET` and `HEAD` are answered.
//! - A page that nobody looks at requests nothing.

pub mod access;
pub mod address;
pub mod fleet;
pub mod pages;
pub mod server;
pub mod sides;
pub mod source;
mod times;
