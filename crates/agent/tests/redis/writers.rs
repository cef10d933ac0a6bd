//! Clients that write unique keys, and remember which `WAIT` confirmed.

use std::collections::HashSet;
use std::io::{Error, ErrorKind, Result};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cluster::{Member, PASSWORD};

/// How long a client waits for an answer before it asks another member. The write may still be done.
const ANSWER: Duration = Duration::from_secs(2);

/// A client's connection.
pub struct Redis(BufReader<TcpStream>);

impl Redis {
    pub async fn connect(address: Ipv4Addr, port: u16) -> Result<Self> {
        let mut redis = Self(BufReader::new(TcpStream::connect((address, port)).await?));
        redis.ask(&["AUTH", PASSWORD]).await?;
        Ok(redis)
    }

    /// A line, a number, a text, or a list of texts, one a line.
    pub async fn ask(&mut self, words: &[&str]) -> Result<String> {
        let count = words.len();
        let words: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        self.0.write_all(format!("*{count}\r\n{}", words.concat()).as_bytes()).await?;
        let line = self.line().await?;
        match line.split_at_checked(1).ok_or(ErrorKind::UnexpectedEof)? {
            ("+" | ":", rest) => Ok(rest.to_owned()),
            ("$", length) => {
                let mut text = vec![0; length.parse::<usize>().map_err(Error::other)? + 2];
                self.0.read_exact(&mut text).await?;
                String::from_utf8(text).map_err(Error::other)
            }
            ("*", count) => {
                let mut texts = Vec::new();
                for _ in 0..count.parse::<usize>().map_err(Error::other)? {
                    let length = self.line().await?[1..].parse::<usize>().map_err(Error::other)?;
                    let mut text = vec![0; length + 2];
                    self.0.read_exact(&mut text).await?;
                    texts.push(String::from_utf8_lossy(&text[..length]).into_owned());
                }
                Ok(texts.join("\n"))
            }
            _ => Err(Error::other(line)),
        }
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        if line.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(line.trim_end().to_owned()) }
    }

    /// Writes a key; whether a replica has it.
    pub async fn write(&mut self, key: &str, within: Duration) -> Result<bool> {
        self.ask(&["SET", key, "x"]).await?;
        Ok(self.ask(&["WAIT", "1", &within.as_millis().to_string()]).await? != "0")
    }
}

/// Writers at work.
pub struct Writers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    members: Vec<(Ipv4Addr, u16)>,
    next: AtomicU64,
    stop: AtomicBool,
    confirmed: Mutex<Confirmed>,
}

#[derive(Default)]
struct Confirmed {
    keys: Vec<String>,
    last: Option<Instant>,
    longest: Duration,
}

impl Writers {
    /// Starts this number, to the one of these members that takes writes.
    pub fn start(members: &[Member], count: usize) -> Self {
        let members = members.iter().map(|member| (member.address, member.port)).collect();
        let (next, stop, confirmed) = (AtomicU64::new(1), AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { members, next, stop, confirmed });
        let tasks = (0..count).map(|_| tokio::spawn(write(Arc::clone(&shared)))).collect();
        Self { shared, tasks }
    }

    fn count(&self) -> usize {
        self.shared.confirmed.lock().expect("nobody panicked").keys.len()
    }

    /// Waits until this many more were confirmed.
    pub async fn more(&self, count: usize) {
        let (before, since) = (self.count(), Instant::now());
        while self.count() < before + count {
            assert!(since.elapsed() < Duration::from_secs(30), "{} of {count} writes", self.count() - before);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The longest time between two confirmations since the last call.
    pub fn longest_gap(&self) -> Duration {
        std::mem::take(&mut self.shared.confirmed.lock().expect("nobody panicked").longest)
    }

    /// Stops, and returns the confirmed keys.
    pub async fn stop(self) -> Vec<String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("nobody panicked");
        }
        std::mem::take(&mut self.shared.confirmed.lock().expect("nobody panicked").keys)
    }
}

/// The keys that a member lacks.
pub async fn lost(member: &Member, keys: &[String]) -> Vec<String> {
    let mut redis = member.connect().await.expect("it takes connections");
    let found = redis.ask(&["KEYS", "w*"]).await.expect("it answers");
    let found: HashSet<&str> = found.lines().collect();
    assert!(!keys.is_empty(), "nothing was written at all");
    eprintln!("{}: {} writes confirmed, {} found", member.name, keys.len(), found.len());
    keys.iter().filter(|key| !found.contains(key.as_str())).cloned().collect()
}

async fn write(shared: Arc<Shared>) {
    for (address, port) in shared.members.clone().into_iter().cycle() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(Ok(mut redis)) = timeout(ANSWER, Redis::connect(address, port)).await {
            stay(&shared, &mut redis).await;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Stays with a member as long as it takes writes and replicas have them.
async fn stay(shared: &Shared, redis: &mut Redis) {
    while !shared.stop.load(Ordering::Relaxed) {
        let key = format!("w{}", shared.next.fetch_add(1, Ordering::Relaxed));
        if !matches!(timeout(ANSWER, redis.write(&key, ANSWER)).await, Ok(Ok(true))) {
            return;
        }
        let mut confirmed = shared.confirmed.lock().expect("nobody panicked");
        let now = Instant::now();
        let gap = confirmed.last.map_or(Duration::ZERO, |last| now - last);
        confirmed.longest = confirmed.longest.max(gap);
        confirmed.last = Some(now);
        confirmed.keys.push(key);
    }
}
