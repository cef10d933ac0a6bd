//! The definitions that the watch has seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The objects, by name.
pub type Seen = Arc<Mutex<BTreeMap<String, Value>>>;
