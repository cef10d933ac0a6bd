//! The custom resources that notices have to look at again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::cluster::cache::ReleaseKey;

/// Custom resources that changed, their status too. Nothing is kept where there are no notices.
#[derive(Default)]
pub struct Touched {
    wanted: AtomicBool,
    keys: Mutex<BTreeSet<ReleaseKey>>,
    /// A list became complete: known objects that it does not have are gone.
    is_complete: AtomicBool,
    /// Signals that there are some.
    pub some: Notify,
}

impl Touched {
    /// Keeps what is touched from now on, or no longer.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Enters a custom resource that changed, came or went.
    pub fn touch(&self, key: &ReleaseKey) {
        if self.wanted.load(Ordering::Relaxed) {
            self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
            self.some.notify_one();
        }
    }

    /// Enters that a list is complete.
    pub fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
        self.some.notify_one();
    }

    /// Whether a list became complete since this was last asked.
    pub fn was_completed(&self) -> bool {
        self.is_complete.swap(false, Ordering::Relaxed)
    }

    /// Takes all of them.
    pub fn take(&self) -> BTreeSet<ReleaseKey> {
        std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
