//! Clients that read and write continuously, each one operation after the other, and record them.
//!
//! Some keys are shared: clients put, get, and compare and swap them, so that a checker can decide whether there was one copy of the
//! data. The others are written once, so that each write that was acknowledged can be looked for at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::{Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, Txn, TxnOp, TxnOpResponse};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::ChaosError;
use super::history::{Availability, CallOutcome, ClientCall, Entry, KeyAnswer, availability, lost};
use super::random::Random;
use super::reach::Reach;

/// How many clients there are.
const CLIENTS: u32 = 4;
/// The pause of a client after each answer: it measures the cluster and does not load it.
const PAUSE: Duration = Duration::from_millis(8);
/// The pause before a client changes to another member after a failure.
const RETRY: Duration = Duration::from_millis(20);
/// Time after which new shared keys replace the old ones, so that a checker never has to consider a long history at once.
const EPOCH: Duration = Duration::from_secs(5);
/// How many keys are shared at a time.
const SHARED: usize = 3;
/// How many keys are read at once at the end. A client takes answers of 4 MiB.
const PAGE: i64 = 2000;

/// Clients at work.
pub struct Recorder {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    reach: Reach,
    prefix: String,
    start: Instant,
    urls: Mutex<Vec<String>>,
    entries: Mutex<Vec<Entry>>,
    stopped: AtomicBool,
}

/// The records of the clients.
pub struct Recorded {
    /// All operations, by the time they returned.
    pub entries: Vec<Entry>,
    /// Keys whose write was acknowledged, and is not there.
    pub lost: Vec<String>,
}

impl Recorder {
    /// Starts clients that go to one of these URLs that answers. All keys are below the prefix, where there must be
    /// none yet. The timeout of the access is that of each operation.
    pub fn start(reach: impl Into<Reach>, urls: Vec<String>, prefix: &str, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            reach: reach.into(),
            prefix: prefix.into(),
            start: Instant::now(),
            urls: Mutex::new(urls),
            entries: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let mut random = Random::new(seed);
        let mut start = |number| tokio::spawn(work(Arc::clone(&shared), number, Random::new(random.any())));
        let clients = (0..CLIENTS).map(&mut start).collect();
        Self { shared, clients }
    }

    /// From now on clients go to these URLs, when they change to another.
    pub fn set_urls(&self, urls: Vec<String>) {
        *locked(&self.shared.urls) = urls;
    }

    /// Nanoseconds since the start: the time of the entries.
    pub fn now(&self) -> u64 {
        self.shared.now()
    }

    /// How writes fared from some time on.
    pub fn since(&self, from: u64) -> Availability {
        availability(&locked(&self.shared.entries), from, self.now())
    }

    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.since(0).acknowledged
    }

    /// Stops the clients, reads all keys that were written, and returns the records. Reading is tried for a time.
    pub async fn finish(self, patience: Duration) -> Result<Recorded, ChaosError> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.map_err(|e| format!("a client ended: {e}"))?;
        }
        let end = Instant::now() + patience;
        let mut turn = 0;
        loop {
            let why = match self.shared.read_all(turn).await {
                Ok(()) => break,
                Err(why) => why,
            };
            if Instant::now() > end {
                return Err(format!("the written values could not be read: {why}").into());
            }
            turn += 1;
            sleep(RETRY).await;
        }
        let entries = std::mem::take(&mut *locked(&self.shared.entries));
        let unique = self.shared.unique();
        let lost = lost(&entries, |key| key.starts_with(&unique));
        Ok(Recorded { entries, lost })
    }
}

/// Deletes all keys below a prefix.
pub async fn remove(reach: &Reach, urls: &[String], prefix: &str) -> Result<(), ChaosError> {
    let mut why = ChaosError::from("there is no member");
    for url in urls {
        let delete = async {
            reach.client(url).await?.delete(format!("{prefix}/"), Some(DeleteOptions::new().with_prefix())).await
        };
        match timeout(reach.access.timeout * 10, delete).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => why = error.into(),
            Err(_) => why = format!("{url} does not answer").into(),
        }
    }
    Err(why)
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The prefix of keys that are written once.
    fn unique(&self) -> String {
        format!("{}/unique/", self.prefix)
    }

    /// A client of the URL whose turn it is.
    async fn client(&self, turn: usize) -> Result<Client, ChaosError> {
        let url = {
            let urls = locked(&self.urls);
            urls.get(turn.checked_rem(urls.len()).unwrap_or(0)).cloned()
        };
        let url = url.ok_or("there is no member")?;
        let client = timeout(self.reach.access.timeout, self.reach.client(&url)).await;
        Ok(client.map_err(|_| format!("{url} does not answer"))??)
    }

    /// Asks, and records the result.
    async fn ask(&self, client: u32, etcd: &mut Client, operation: ClientCall) -> CallOutcome {
        let call = self.now();
        let outcome = match timeout(self.reach.access.timeout, send(etcd, &operation)).await {
            Ok(Ok(answer)) => CallOutcome::Ok(answer),
            Ok(Err(error)) if was_never_sent(&error) => CallOutcome::Failed { why: error.to_string() },
            Ok(Err(error)) => CallOutcome::Unknown { why: error.to_string() },
            Err(_) => CallOutcome::Unknown { why: "no answer in time".into() },
        };
        let entry = Entry { client, call, returned: self.now(), operation, outcome: outcome.clone() };
        locked(&self.entries).push(entry);
        outcome
    }

    /// Reads every key that was written, and records the result when everything was read.
    async fn read_all(&self, turn: usize) -> Result<(), ChaosError> {
        let written: BTreeSet<String> = {
            let entries = locked(&self.entries);
            let writes = entries.iter().map(|entry| &entry.operation);
            writes
                .filter(|operation| !matches!(operation, ClientCall::Get { .. }))
                .map(|o| o.key().to_owned())
                .collect()
        };
        let mut etcd = self.client(turn).await?;
        let mut entries = Vec::new();
        let end = format!("{}0", self.prefix);
        let mut from = format!("{}/", self.prefix);
        loop {
            let call = self.now();
            let options = GetOptions::new().with_range(end.as_str()).with_limit(PAGE);
            let page = timeout(self.reach.access.timeout * 10, etcd.get(from.as_str(), Some(options))).await;
            let page = page.map_err(|_| "no answer in time")??;
            let returned = self.now();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let found: BTreeMap<_, _> = page.kvs().iter().map(|kv| (text(kv.key()), text(kv.value()))).collect();
            let last = found.last_key_value().map(|(key, _)| key.clone());
            let next = if page.more() { last.map_or_else(|| end.clone(), |last| last + "\0") } else { end.clone() };
            let read = written.range(from..next.clone()).map(|key| Entry {
                client: CLIENTS,
                call,
                returned,
                operation: ClientCall::Get { key: key.clone() },
                outcome: CallOutcome::Ok(KeyAnswer::Read { found: found.get(key).cloned() }),
            });
            entries.extend(read);
            if next == end {
                locked(&self.entries).extend(entries);
                return Ok(());
            }
            from = next;
        }
    }
}

/// One client.
async fn work(shared: Arc<Shared>, client: u32, mut random: Random) {
    // Its knowledge of shared keys.
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut number = 0_u64;
    let mut turn = usize::try_from(client).unwrap_or_default();
    let is_stopped = || shared.stopped.load(Ordering::Relaxed);
    while !is_stopped() {
        turn = turn.wrapping_add(1);
        if let Ok(mut etcd) = shared.client(turn).await {
            // It stays with a member as long as that answers.
            while !is_stopped() {
                number += 1;
                let operation = shared.next(client, number, &known, &mut random);
                match shared.ask(client, &mut etcd, operation.clone()).await {
                    CallOutcome::Ok(answer) => learn(&mut known, operation, answer),
                    CallOutcome::Failed { .. } | CallOutcome::Unknown { .. } => break,
                }
                sleep(PAUSE).await;
            }
        }
        sleep(RETRY).await;
    }
}

impl Shared {
    /// The next request of a client: every other time it writes a key of its own.
    fn next(
        &self,
        client: u32,
        number: u64,
        known: &BTreeMap<String, Option<String>>,
        random: &mut Random,
    ) -> ClientCall {
        let value = format!("{client}-{number}");
        let epoch = self.start.elapsed().as_secs() / EPOCH.as_secs();
        let key = format!("{}/shared/{epoch}-{}", self.prefix, random.below(SHARED));
        match random.below(6) {
            0 => ClientCall::Put { key, value },
            1 => ClientCall::Get { key },
            2 => ClientCall::CompareAndSwap { expected: known.get(&key).cloned().flatten(), key, value },
            _ => ClientCall::Put { key: format!("{}{value}", self.unique()), value },
        }
    }
}

/// Stores the content of a shared key.
fn learn(known: &mut BTreeMap<String, Option<String>>, operation: ClientCall, answer: KeyAnswer) {
    let (key, value) = match (operation, answer) {
        (ClientCall::Get { key }, KeyAnswer::Read { found })
        | (ClientCall::CompareAndSwap { key, .. }, KeyAnswer::Compared { swapped: false, found }) => (key, found),
        (ClientCall::Put { key, value } | ClientCall::CompareAndSwap { key, value, .. }, _) => (key, Some(value)),
        (ClientCall::Get { .. }, _) => return,
    };
    if key.contains("/shared/") {
        known.insert(key, value);
    }
}

async fn send(etcd: &mut Client, operation: &ClientCall) -> Result<KeyAnswer, Error> {
    let value = |kvs: &[etcd_client::KeyValue]| kvs.first().map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
    match operation {
        ClientCall::Put { key, value } => {
            etcd.put(key.as_str(), value.as_str(), None).await?;
            Ok(KeyAnswer::Written {})
        }
        ClientCall::Get { key } => {
            let got = etcd.get(key.as_str(), None).await?;
            Ok(KeyAnswer::Read { found: value(got.kvs()) })
        }
        ClientCall::CompareAndSwap { key, expected, value: new } => {
            let compare = match expected {
                Some(expected) => Compare::value(key.as_str(), CompareOp::Equal, expected.as_str()),
                None => Compare::create_revision(key.as_str(), CompareOp::Equal, 0),
            };
            let put = TxnOp::put(key.as_str(), new.as_str(), None);
            let get = TxnOp::get(key.as_str(), None);
            let answer = etcd.txn(Txn::new().when([compare]).and_then([put]).or_else([get])).await?;
            let found = answer.op_responses().into_iter().find_map(|response| match response {
                TxnOpResponse::Get(got) => value(got.kvs()),
                _ => None,
            });
            Ok(KeyAnswer::Compared { swapped: answer.succeeded(), found })
        }
    }
}

/// No member was reached to which it could have been sent.
fn was_never_sent(error: &Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string() == "tcp connect error" {
            return true;
        }
        cause = error.source();
    }
    false
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
