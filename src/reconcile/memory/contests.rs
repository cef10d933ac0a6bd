//! The contested objects of each release. They are kept in memory only: after a restart the operator tries again.

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::plan::contest::Contest;

/// The contests of all releases.
pub type Contests = PerRelease<Contest>;

impl PerRelease<Contest> {
    /// Runs a function on the contest of a release. Its second argument is the current time in seconds.
    pub fn with<T>(&self, key: &ReleaseKey, act: impl FnOnce(&mut Contest, i64) -> T) -> T {
        let mut all = self.lock();
        let contest = all.entry(key.clone()).or_default();
        let result = act(contest, jiff::Timestamp::now().as_second());
        if *contest == Contest::default() {
            all.remove(key);
        }
        result
    }
}
