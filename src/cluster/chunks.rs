//! The Secrets that contain parts of records, as observed by the watch of release records. So no request is needed to
//! find what a crash left behind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Namespace and name of a release.
type Release = (Arc<str>, Arc<str>);
/// Namespace and name of a Secret.
pub type SecretName = (Arc<str>, Box<str>);

/// The chunks of all releases.
#[derive(Default)]
pub struct Chunks(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    releases: HashMap<Release, BTreeMap<Box<str>, Chunk>>,
    clock: u64,
}

struct Chunk {
    digest: Box<str>,
    /// The clock when this process wrote it.
    written: u64,
}

impl Chunks {
    /// The Secrets of a release: their names, and the digests of the records that they belong to.
    pub fn of(&self, namespace: &Arc<str>, release: &Arc<str>) -> Vec<(Box<str>, Box<str>)> {
        let inner = self.lock();
        let chunks = inner.releases.get(&(Arc::clone(namespace), Arc::clone(release)));
        chunks.into_iter().flatten().map(|(secret, chunk)| (secret.clone(), chunk.digest.clone())).collect()
    }

    /// Enters a chunk that the watch reports.
    pub fn put(&self, namespace: &Arc<str>, release: &Arc<str>, secret: &str, digest: &str) {
        self.lock().put(namespace, release, secret, digest, 0);
    }

    /// Enters a chunk that this process wrote; a list that began before does not contain it.
    pub fn wrote(&self, namespace: &Arc<str>, release: &Arc<str>, secret: &str, digest: &str) {
        let mut inner = self.lock();
        inner.clock += 1;
        let clock = inner.clock;
        inner.put(namespace, release, secret, digest, clock);
    }

    /// Removes a deleted chunk.
    pub fn remove(&self, namespace: &Arc<str>, release: &Arc<str>, secret: &str) {
        let mut inner = self.lock();
        let id = (Arc::clone(namespace), Arc::clone(release));
        if let Some(chunks) = inner.releases.get_mut(&id) {
            chunks.remove(secret);
            if chunks.is_empty() {
                inner.releases.remove(&id);
            }
        }
    }

    /// The time at which a list begins.
    pub fn clock(&self) -> u64 {
        self.lock().clock
    }

    /// Enters that a list of a namespace, or of all of them, that began at `since` is complete.
    pub fn sync(&self, scope: Option<&Arc<str>>, seen: &HashSet<SecretName>, since: u64) {
        let mut inner = self.lock();
        for ((namespace, _), chunks) in &mut inner.releases {
            if scope.is_none_or(|scope| scope == namespace) {
                chunks.retain(|secret, chunk| {
                    chunk.written > since || seen.contains(&(Arc::clone(namespace), secret.clone()))
                });
            }
        }
        inner.releases.retain(|_, chunks| !chunks.is_empty());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, namespace: &Arc<str>, release: &Arc<str>, secret: &str, digest: &str, written: u64) {
        let chunks = self.releases.entry((Arc::clone(namespace), Arc::clone(release))).or_default();
        let chunk = chunks.entry(secret.into()).or_insert_with(|| Chunk { digest: digest.into(), written });
        chunk.written = chunk.written.max(written);
    }
}

#[cfg(test)]
mod tests {
    use super::Chunks;
    use std::collections::HashSet;

    #[test]
    fn a_list_says_what_is_gone_but_not_of_what_was_written_since_it_began() {
        let chunks = Chunks::default();
        let (a, b, app) = ("a".into(), "b".into(), "app".into());
        chunks.put(&a, &app, "old", "1");
        chunks.put(&a, &app, "seen", "1");
        chunks.put(&b, &app, "elsewhere", "1");
        chunks.wrote(&a, &app, "before", "2");
        let since = chunks.clock();
        chunks.wrote(&a, &app, "new", "2");
        // A late event of the watch does not make the chunk older.
        chunks.put(&a, &app, "new", "2");
        chunks.sync(Some(&a), &HashSet::from([("a".into(), "seen".into())]), since);
        let names =
            |namespace| chunks.of(namespace, &app).into_iter().map(|(name, _)| name.into()).collect::<Vec<String>>();
        assert_eq!(names(&a), ["new", "seen"]);
        assert_eq!(names(&b), ["elsewhere"]);
        chunks.remove(&a, &app, "new");
        assert_eq!(names(&a), ["seen"]);
    }
}
