//! A client that writes one unique key after another, and remembers which were acknowledged.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, GetOptions};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How many writers there have been.
static WRITERS: AtomicU32 = AtomicU32::new(0);

/// A writer at work.
pub struct Writer {
    /// What its keys begin with, and nobody else's.
    prefix: String,
    written: Arc<Mutex<Written>>,
    task: JoinHandle<()>,
}

/// Where a member is reached, and how.
pub type Endpoint = (String, Option<ConnectOptions>);

#[derive(Default)]
struct Written {
    keys: Vec<String>,
    longest_gap: Duration,
}

impl Written {
    fn acknowledged(&mut self, key: String, gap: Duration) {
        self.keys.push(key);
        self.longest_gap = self.longest_gap.max(gap);
    }
}

impl Writer {
    /// Starts to write to whichever of these answers.
    pub fn start(urls: Vec<String>) -> Self {
        Self::start_with(urls.into_iter().map(|url| (url, None)).collect())
    }

    /// The same, with certificates or a password.
    pub fn start_with(endpoints: Vec<Endpoint>) -> Self {
        let written = Arc::new(Mutex::new(Written::default()));
        let prefix = format!("written/{}/", WRITERS.fetch_add(1, Ordering::Relaxed));
        let task = tokio::spawn(write(endpoints, prefix.clone(), written.clone()));
        Self { prefix, written, task }
    }

    /// How many writes were acknowledged.
    pub fn count(&self) -> usize {
        self.written.lock().expect("nobody panicked").keys.len()
    }

    /// The longest time between two acknowledgements since the last call.
    pub fn longest_gap(&self) -> Duration {
        std::mem::take(&mut self.written.lock().expect("nobody panicked").longest_gap)
    }

    /// Stops, and returns how many acknowledged writes cannot be read on one member.
    pub async fn lost(self, url: &str) -> usize {
        self.lost_with(&(url.to_owned(), None)).await
    }

    /// The same, with certificates or a password.
    pub async fn lost_with(self, (url, options): &Endpoint) -> usize {
        self.task.abort();
        drop(self.task.await);
        let mut client = Client::connect([url], options.clone()).await.expect("it is a URL");
        let all = client
            .get(self.prefix.as_str(), Some(GetOptions::new().with_prefix().with_keys_only()))
            .await
            .expect("the cluster answers");
        let found: std::collections::HashSet<_> =
            all.kvs().iter().map(|kv| kv.key_str().expect("it is text").to_owned()).collect();
        let written = self.written.lock().expect("nobody panicked");
        assert!(!written.keys.is_empty(), "nothing was written at all");
        eprintln!("{} writes acknowledged, {} found", written.keys.len(), found.len());
        written.keys.iter().filter(|key| !found.contains(*key)).count()
    }
}

async fn write(endpoints: Vec<Endpoint>, prefix: String, written: Arc<Mutex<Written>>) {
    let mut last: Option<Instant> = None;
    let mut number = 0_u64;
    for (url, options) in endpoints.iter().cycle() {
        // One that cannot be connected to, or takes no password just now, is not a reason to hurry.
        let connected = timeout(Duration::from_secs(3), Client::connect([url], options.clone())).await;
        let Ok(Ok(mut client)) = connected else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Stays with a member as long as it takes writes.
        loop {
            number += 1;
            let key = format!("{prefix}{number}");
            if !matches!(timeout(Duration::from_millis(700), client.put(key.as_str(), "x", None)).await, Ok(Ok(_))) {
                break;
            }
            let now = Instant::now();
            written.lock().expect("nobody panicked").acknowledged(key, last.map_or(Duration::ZERO, |last| now - last));
            last = Some(now);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
