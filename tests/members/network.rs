//! The network between members: a proxy before the peer URL of each, which holds back messages between parted members. Nothing is
//! refused and nothing is lost, as in a network that drops packets: messages arrive when the partition ends, unless the sender has
//! given up by then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pairs of ordinals between which nothing passes, each with the lower first.
type Parted = BTreeSet<(u32, u32)>;

pub struct Network {
    parted: watch::Sender<Parted>,
    /// Which process is whose.
    processes: Arc<Mutex<BTreeMap<u32, u32>>>,
    hole: Arc<Hole>,
    proxies: Vec<JoinHandle<()>>,
}

/// An address that a member has left, or at which a member is that only streams reach.
#[derive(Default)]
struct Hole {
    /// Whose it was, if there is one.
    of: Mutex<Option<u32>>,
    /// Whether somebody is there again.
    is_back: AtomicBool,
    /// Requests that wait for an answer.
    waiting: AtomicU32,
    /// Whether their time is over.
    over: watch::Sender<bool>,
}

impl Hole {
    /// Whether a connection gets through. One that begins a stream fails at once, and is tried again; one that begins with a message fails
    /// when its time is over. None of these ever arrives: one that does makes its receiver count as active, and more of them are queued
    /// than the sender has connections for.
    async fn lets_through(&self, inbound: &TcpStream) -> bool {
        let mut begin = [0; 16];
        let length = inbound.peek(&mut begin).await.unwrap_or(0);
        if begin[..length].starts_with(b"POST") {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            drop(self.over.subscribe().wait_for(|over| *over).await);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        begin[..length].starts_with(b"GET /raft/stream") && self.is_back.load(Ordering::Relaxed)
    }
}

impl Network {
    /// A whole one between the members with these public addresses, each with the one that its process listens on.
    pub async fn between(members: Vec<(u32, SocketAddr, SocketAddr)>) -> Self {
        let parted = watch::Sender::new(Parted::new());
        let processes = Arc::new(Mutex::new(BTreeMap::new()));
        let hole = Arc::new(Hole::default());
        let mut proxies = Vec::new();
        for (to, public, private) in members {
            let listener = TcpListener::bind(public).await.expect("the address is free");
            let (parted, processes, hole) = (parted.subscribe(), Arc::clone(&processes), Arc::clone(&hole));
            proxies.push(tokio::spawn(async move {
                while let Ok((inbound, peer)) = listener.accept().await {
                    let (parted, processes, hole) = (parted.clone(), Arc::clone(&processes), Arc::clone(&hole));
                    tokio::spawn(async move {
                        let is_gone = *hole.of.lock().expect("nobody panicked") == Some(to);
                        if is_gone && !hole.lets_through(&inbound).await {
                            return;
                        }
                        let Some(from) = whose(peer, public, &processes).await else { return };
                        Link { parted, pair: (from.min(to), from.max(to)) }.carry(inbound, private).await;
                    });
                }
            }));
        }
        Self { parted, processes, hole, proxies }
    }

    /// This process is that of an ordinal from now on.
    pub fn knows(&self, process: u32, ordinal: u32) {
        self.processes.lock().expect("nobody panicked").insert(process, ordinal);
    }

    /// The address of a member is empty now.
    pub fn move_away(&self, ordinal: u32) {
        *self.hole.of.lock().expect("nobody panicked") = Some(ordinal);
    }

    /// It is there again: streams reach it.
    pub fn come_back(&self) {
        self.hole.is_back.store(true, Ordering::Relaxed);
    }

    /// How many requests wait that were sent to where nobody is.
    pub fn astray(&self) -> u32 {
        self.hole.waiting.load(Ordering::Relaxed)
    }

    /// These fail.
    pub fn give_up(&self) {
        self.hole.over.send_replace(true);
    }

    /// Parts these from all others. Among themselves they are not.
    pub fn part(&self, side: &[u32]) {
        let pairs = (0..8).flat_map(|low| (low + 1..8).map(move |high| (low, high)));
        self.parted.send_replace(pairs.filter(|(low, high)| side.contains(low) != side.contains(high)).collect());
    }

    /// Parts each from each.
    pub fn shatter(&self) {
        self.parted.send_replace((0..8).flat_map(|low| (low + 1..8).map(move |high| (low, high))).collect());
    }

    /// All members reach each other again.
    pub fn heal(&self) {
        self.parted.send_replace(Parted::new());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.proxies.iter().for_each(JoinHandle::abort);
    }
}

/// What is between two members.
#[derive(Clone)]
struct Link {
    parted: watch::Receiver<Parted>,
    pair: (u32, u32),
}

impl Link {
    /// Waits until something passes; false when the network is gone.
    async fn passes(&mut self) -> bool {
        let pair = self.pair;
        self.parted.wait_for(|parted| !parted.contains(&pair)).await.is_ok()
    }

    async fn carry(mut self, inbound: TcpStream, to: SocketAddr) {
        if !self.passes().await {
            return;
        }
        let Ok(outbound) = TcpStream::connect(to).await else { return };
        drop((inbound.set_nodelay(true), outbound.set_nodelay(true)));
        let (in_read, in_write) = inbound.into_split();
        let (out_read, out_write) = outbound.into_split();
        let (there, back) = (self.clone(), self);
        tokio::join!(there.copy(in_read, out_write), back.copy(out_read, in_write));
    }

    async fn copy(mut self, mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if !self.passes().await || to.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
        // Also that a connection was closed does not pass.
        if self.passes().await {
            drop(to.shutdown().await);
        }
    }
}

/// Which ordinal's process has the other end of a connection; None when no process has it. The kernel's table can lack a line
/// while others come and go, so it is asked more than once: one who is not known would get through what parts.
async fn whose(peer: SocketAddr, to: SocketAddr, processes: &Mutex<BTreeMap<u32, u32>>) -> Option<u32> {
    for _ in 0..10 {
        let processes = processes.lock().expect("nobody panicked").clone();
        match tokio::task::spawn_blocking(move || caller(peer, to, &processes)).await.expect("it does not panic") {
            Caller::Ordinal(ordinal) => return Some(ordinal),
            Caller::Gone => return None,
            Caller::Unseen => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    None
}

/// Who has the other end of a connection, as far as the kernel's tables say.
#[derive(Debug, PartialEq, Eq)]
enum Caller {
    Ordinal(u32),
    /// It was closed.
    Gone,
    /// It is not there, or not yet any process's.
    Unseen,
}

/// All members call from the same address, so the kernel is asked whose socket has that port.
fn caller(peer: SocketAddr, to: SocketAddr, processes: &BTreeMap<u32, u32>) -> Caller {
    const ESTABLISHED: &str = "01";
    let hex = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => format!("{:08X}:{:04X}", u32::from_le_bytes(v4.ip().octets()), v4.port()),
        SocketAddr::V6(_) => String::new(),
    };
    let connection = format!("{} {}", hex(peer), hex(to));
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let Some(line) = table.lines().find(|line| line.contains(&connection)) else { return Caller::Unseen };
    let line: Vec<_> = line.split_whitespace().collect();
    if line[3] != ESTABLISHED {
        return Caller::Gone;
    }
    let socket = format!("socket:[{}]", line[9]);
    let has = |process: &u32| {
        let mut open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        open.any(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == &*socket))
    };
    processes.iter().find(|(process, _)| has(process)).map_or(Caller::Unseen, |(_, ordinal)| Caller::Ordinal(*ordinal))
}

/// The tests of partitions depend on this proxy, so it is tested itself.
#[tokio::test]
async fn what_is_sent_between_those_that_are_parted_comes_later() {
    let address = |text: &str| -> SocketAddr { text.parse().expect("it is an address") };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
    let private = listener.local_addr().expect("it is bound");
    let public = TcpListener::bind("127.0.0.1:0").await.and_then(|probe| probe.local_addr()).expect("there are more");
    let network = Network::between(vec![(1, public, private)]).await;
    network.knows(std::process::id(), 0);
    let mut client = TcpStream::connect(public).await.expect("the proxy listens");
    let (mut inbound, _) = listener.accept().await.expect("it is called");
    let mut buffer = [0; 1];
    client.write_all(b"1").await.expect("it is open");
    inbound.read_exact(&mut buffer).await.expect("it passes");

    network.part(&[0]);
    client.write_all(b"2").await.expect("nobody tells");
    let held = tokio::time::timeout(Duration::from_millis(300), inbound.read_exact(&mut buffer)).await;
    assert!(held.is_err(), "it is held");
    network.heal();
    inbound.read_exact(&mut buffer).await.expect("it comes");
    assert_eq!(buffer, *b"2");

    network.part(&[2]);
    client.write_all(b"3").await.expect("it is open");
    inbound.read_exact(&mut buffer).await.expect("others are of no matter");
    assert_eq!(caller(address("127.0.0.1:1"), public, &BTreeMap::new()), Caller::Unseen);
}
