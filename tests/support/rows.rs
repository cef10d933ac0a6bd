//! Clients of a database of MySQL that write unique keys, and remember which were acknowledged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a client waits for an answer before it asks another member. The write may still be done.
const ANSWER: Duration = Duration::from_secs(2);

/// Where a database is reached, and as whom.
pub trait Reached {
    fn options(&self) -> Opts;
}

impl Reached for Opts {
    fn options(&self) -> Opts {
        self.clone()
    }
}

/// The options of an account with a password at an address.
pub fn reached(address: &str, user: &str, password: &str) -> Opts {
    let options = OptsBuilder::default().ip_or_hostname(address).prefer_socket(false);
    options.user(Some(user)).pass(Some(password)).into()
}

/// Runs a statement.
pub async fn run(at: &impl Reached, statement: &str) -> Result<(), mysql_async::Error> {
    Conn::new(at.options()).await?.query_drop(statement).await
}

/// The numbers of a query.
pub async fn numbers(at: &impl Reached, query: &str) -> Vec<u64> {
    let mut connection = Conn::new(at.options()).await.expect("it takes connections");
    connection.query(query).await.expect("it answers")
}

/// Writers at work.
pub struct Writers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    databases: Vec<Opts>,
    next: Arc<AtomicU64>,
    stop: AtomicBool,
    acknowledged: Mutex<Acknowledged>,
}

#[derive(Default)]
struct Acknowledged {
    keys: Vec<u64>,
    last: Option<Instant>,
    longest: Duration,
}

impl Writers {
    /// Starts so many, to whichever of these databases takes writes. The table is made on the first.
    pub async fn start(databases: &[impl Reached], count: usize) -> Self {
        run(&databases[0], "CREATE DATABASE IF NOT EXISTS app").await.expect("it takes writes");
        let table = "CREATE TABLE IF NOT EXISTS app.t (id BIGINT PRIMARY KEY, v CHAR(40) NOT NULL) ENGINE=InnoDB";
        run(&databases[0], table).await.expect("it takes writes");
        Self::with_keys(databases, count, Arc::new(AtomicU64::new(1)))
    }

    /// Starts so many others, to these databases, whose keys are none of those of the first.
    #[allow(dead_code, reason = "only one test has two kinds of clients")]
    pub fn beside(&self, databases: &[impl Reached], count: usize) -> Self {
        Self::with_keys(databases, count, Arc::clone(&self.shared.next))
    }

    fn with_keys(databases: &[impl Reached], count: usize, next: Arc<AtomicU64>) -> Self {
        let databases = databases.iter().map(Reached::options).collect();
        let (stop, acknowledged) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { databases, next, stop, acknowledged });
        let tasks = (0..count).map(|_| tokio::spawn(write(Arc::clone(&shared)))).collect();
        Self { shared, tasks }
    }

    /// How many writes were acknowledged.
    pub fn count(&self) -> usize {
        self.shared.acknowledged.lock().expect("nobody panicked").keys.len()
    }

    /// The keys that were acknowledged until now.
    pub fn keys(&self) -> Vec<u64> {
        self.shared.acknowledged.lock().expect("nobody panicked").keys.clone()
    }

    /// Waits until so many more were acknowledged.
    pub async fn more(&self, count: usize) {
        let (before, since) = (self.count(), Instant::now());
        while self.count() < before + count {
            assert!(since.elapsed() < Duration::from_secs(30), "{} of {count} writes", self.count() - before);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The longest time between two acknowledgements since the last call.
    pub fn longest_gap(&self) -> Duration {
        std::mem::take(&mut self.shared.acknowledged.lock().expect("nobody panicked").longest)
    }

    /// Stops, and returns the acknowledged keys.
    pub async fn stop(self) -> Vec<u64> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("nobody panicked");
        }
        std::mem::take(&mut self.shared.acknowledged.lock().expect("nobody panicked").keys)
    }
}

/// The keys that a database lacks.
pub async fn lost(database: &impl Reached, keys: &[u64]) -> Vec<u64> {
    let found: HashSet<u64> = numbers(database, "SELECT id FROM app.t").await.into_iter().collect();
    assert!(!keys.is_empty(), "nothing was written at all");
    let at = database.options();
    eprintln!("{}: {} writes acknowledged, {} found", at.ip_or_hostname(), keys.len(), found.len());
    keys.iter().copied().filter(|key| !found.contains(key)).collect()
}

async fn write(shared: Arc<Shared>) {
    for options in shared.databases.clone().into_iter().cycle() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(Ok(mut connection)) = timeout(ANSWER, Conn::new(options)).await {
            stay(&shared, &mut connection).await;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Stays with a member as long as it takes writes.
async fn stay(shared: &Shared, connection: &mut Conn) {
    while !shared.stop.load(Ordering::Relaxed) {
        let key = shared.next.fetch_add(1, Ordering::Relaxed);
        let insert = format!("INSERT INTO app.t VALUES ({key}, REPEAT('x', 40))");
        if !matches!(timeout(ANSWER, connection.query_drop(insert)).await, Ok(Ok(()))) {
            return;
        }
        let mut acknowledged = shared.acknowledged.lock().expect("nobody panicked");
        let now = Instant::now();
        let gap = acknowledged.last.map_or(Duration::ZERO, |last| now - last);
        acknowledged.longest = acknowledged.longest.max(gap);
        acknowledged.last = Some(now);
        acknowledged.keys.push(key);
    }
}
