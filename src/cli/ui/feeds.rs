//! The feeds that run, by the subject of their pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::feed::Feed;

/// How long a feed runs after the last page that needed it: a reader reloads, or goes back and forth between pages.
const LINGER: Duration = Duration::from_secs(30);

/// The most feeds that run: a reader who opens many pages ends those that nobody looks at.
const MOST: usize = 32;

/// The subject of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FeedKey {
    /// All custom resources of a namespace, or of all.
    Fleet(Option<String>),
    /// The charts that the operator of a namespace keeps.
    Rollouts(String),
    /// One custom resource: kind, namespace and name.
    One(String, String, String),
}

/// The feeds.
#[derive(Clone, Default)]
pub(super) struct Feeds(Arc<Mutex<HashMap<FeedKey, Arc<Feed>>>>);

impl Feeds {
    /// The feed of a subject, if it runs.
    pub(super) fn get(&self, key: &FeedKey) -> Option<Arc<Feed>> {
        self.lock().get(key).cloned()
    }

    /// The feed of a subject, which is started if it does not run.
    pub(super) fn get_or_start(&self, key: FeedKey, start: impl FnOnce() -> Arc<Feed>) -> Arc<Feed> {
        let mut all = self.lock();
        if let Some(feed) = all.get(&key) {
            return Arc::clone(feed);
        }
        if all.len() >= MOST {
            let unused = all.iter().find(|(_, feed)| feed.is_unused(Duration::ZERO)).map(|(key, _)| key.clone());
            if let Some(feed) = unused.and_then(|key| all.remove(&key)) {
                feed.end();
            }
        }
        let feed = start();
        all.insert(key.clone(), Arc::clone(&feed));
        tokio::spawn(self.clone().end_when_unused(key, Arc::clone(&feed)));
        feed
    }

    /// Ends a feed, so that the next page starts it again.
    pub(super) fn end(&self, key: &FeedKey) {
        if let Some(feed) = self.lock().remove(key) {
            feed.end();
        }
    }

    async fn end_when_unused(self, key: FeedKey, feed: Arc<Feed>) {
        loop {
            tokio::time::sleep(LINGER / 3).await;
            let mut all = self.lock();
            match all.get(&key) {
                Some(running) if Arc::ptr_eq(running, &feed) && !feed.is_unused(LINGER) => {}
                Some(running) if Arc::ptr_eq(running, &feed) => {
                    all.remove(&key);
                    feed.end();
                    return;
                }
                _ => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FeedKey, Arc<Feed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
