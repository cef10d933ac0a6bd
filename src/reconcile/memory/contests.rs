//! The contested objects of each release. They are kept in memory only: after a restart the operator tries again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::cluster::cache::ReleaseKey;
use crate::plan::contest::Contest;

/// The contests of all releases.
#[derive(Default)]
pub struct Contests(Mutex<HashMap<ReleaseKey, Contest>>);

impl Contests {
    /// Runs a function on the contest of a release. Its second argument is the current time in seconds.
    pub fn with<T>(&self, key: &ReleaseKey, act: impl FnOnce(&mut Contest, i64) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let contest = all.entry(key.clone()).or_default();
        let result = act(contest, jiff::Timestamp::now().as_second());
        if *contest == Contest::default() {
            all.remove(key);
        }
        result
    }

    /// Drops the contest of a deleted custom resource.
    pub fn forget(&self, key: &ReleaseKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
