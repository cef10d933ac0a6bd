//! `Notice`: messages to people about events of the releases of a namespace.
//!
//! This module decides: it has the content of a notice ([`document`]), the state of a custom resource and its pods
//! ([`facts`], [`pods`]), the changes between two checks ([`changes`]), the messages that follow ([`state`]) and their
//! words ([`message`], [`mail`], [`webhook`]). `reconcile/notices` looks, stores and sends.
//!
//! A notice follows states and not events: the last seen state of each release, and the messages that are not sent yet,
//! are in the status of the notice, written together. So nothing is lost while the operator is away, and nothing is
//! sent for an old state.

pub mod address;
pub mod allowance;
pub mod changes;
pub mod document;
mod error;
pub mod events;
pub mod facts;
pub mod grammar;
pub mod mail;
pub mod message;
pub mod own;
pub mod pods;
pub mod state;
pub mod status;
pub mod template;
pub mod webhook;

pub use error::NoticeError;

use crate::names;
use crate::object::Gvk;

pub const KIND: &str = "Notice";
/// Its plural name.
pub const PLURAL: &str = "notices";

/// Its group, version and kind.
pub fn gvk() -> Gvk {
    Gvk::from_api_version(names::NOTICE_API_VERSION, KIND)
}
