//! Clients that reach the ports can exhaust neither the operator's time nor its memory.

use crate::harness::{Space, eventually};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections of an attacker.
const MANY: usize = 5000;
/// Longer than a lease lasts.
const ATTACK: Duration = Duration::from_secs(18);

/// Kibibytes of a process in memory.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap()
}

/// As many connections as this process may have, up to a number: the soft limit is often a thousand.
fn raise_limit() -> usize {
    let process = std::process::id().to_string();
    let _ = Command::new("prlimit").args(["--pid", &process, &format!("--nofile={}:", MANY + 3000)]).status();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let may: usize = line.split_whitespace().nth(3).and_then(|n| n.parse().ok()).unwrap_or(1024);
    may.saturating_sub(500).min(MANY)
}

/// The time that somebody well-behaved waits for an answer.
fn asks(url: &str) -> Result<Duration, String> {
    let began = Instant::now();
    let args = ["-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}", url];
    let output = Command::new("curl").args(args).output().unwrap();
    let code = String::from_utf8_lossy(&output.stdout).into_owned();
    if code == "200" { Ok(began.elapsed()) } else { Err(format!("{code} after {:?}", began.elapsed())) }
}

/// Asks for the metrics again and again, until the end.
fn scrape(port: u16, end: &AtomicBool) -> usize {
    let mut answers = 0;
    while !end.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answers += usize::from(answer.starts_with(b"HTTP/1.1 200"));
    }
    answers
}

/// An attack on an operator that has so many more custom resources.
fn attack(custom_resources: usize, more: &[&str], scheme: &str, opening: &[u8]) {
    let mut space = Space::new("ports");
    // As it is where nobody tests.
    space.env.push(("TILLERMAN_HARM_PAGE", "1000".into()));
    let args = [&["--leader-elect"], more].concat();
    let operator = space.operator(&space.watches(&[("Web", "web"), ("Other", "objects")]), &args);
    // Paused: the test is about what the operator knows and reports of them.
    let paused = json!({"tillerman.dev/paused": "true"});
    std::thread::scope(|threads| {
        for first in 0..8 {
            let (space, paused) = (&space, &paused);
            threads.spawn(move || {
                for number in (first..custom_resources).step_by(8) {
                    space.apply_with("Other", &format!("other-{number}"), paused, &json!({}));
                }
            });
        }
    });
    if custom_resources > 0 {
        space.wait(&format!("other/other-{}", custom_resources - 1), "Reconciling", "False");
        operator.settle();
    }
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    let metrics = format!("{scheme}://127.0.0.1:{}/metrics", operator.metrics_port());
    let probes = format!("http://127.0.0.1:{}/healthz", operator.probes_port());
    eventually("it is at rest", || asks(&metrics));
    let (connections, rest) = (raise_limit(), memory(operator.id()));
    let end = Arc::new(AtomicBool::new(false));
    let (port, until) = (operator.metrics_port(), Arc::clone(&end));
    let scraping = (scheme == "http").then(|| std::thread::spawn(move || scrape(port, &until)));
    let (mut most, mut slowest, began) = (0, Duration::ZERO, Instant::now());
    let mut open: Vec<TcpStream> = Vec::new();
    let mut refused = 0;
    while began.elapsed() < ATTACK {
        // Each comes back as soon as it is closed, and says no more than it must.
        open.retain_mut(|stream| stream.write_all(opening).is_ok());
        for port in [operator.metrics_port(), operator.probes_port()] {
            for _ in 0..(connections - open.len()) / 2 {
                let Ok(mut stream) = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1))
                else {
                    refused += 1;
                    break;
                };
                // One in ten asks, and never reads the answer.
                let asks = scheme == "http" && open.len().is_multiple_of(10);
                let first = if asks { &b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..] } else { opening };
                if stream.write_all(first).is_ok() {
                    stream.set_nonblocking(true).unwrap();
                    open.push(stream);
                }
            }
        }
        for url in [&metrics, &probes] {
            // One that was evicted by a thousand others asks again, as Prometheus and kubelets do. Each of the three gets ten
            // seconds; a server that served one connection after the other would need hours.
            let waited = asks(url).or_else(|_| asks(url)).or_else(|_| asks(url)).unwrap();
            slowest = slowest.max(waited);
        }
        most = most.max(memory(operator.id()));
    }
    end.store(true, Ordering::Relaxed);
    let answers = scraping.map_or(0, |scraping| scraping.join().unwrap());
    println!(
        "{custom_resources} custom resources, {answers} scrapes, {connections} connections ({refused} refused): {} KiB above {rest}, {slowest:?} at most",
        most - rest.min(most)
    );
    assert!(most < rest + (64 << 10), "{most} KiB, {rest} at rest");
    let log = operator.log();
    assert!(!log.contains("the lease was not renewed") && !log.contains("no longer leads"), "{log}");
    assert_eq!(space.get("lease/tillerman").unwrap()["spec"]["leaseTransitions"], 0);
    space.apply("Web", "app", &json!({"greeting": "still here"}));
    space.wait_field("configmap/app-config", "/data/greeting", &json!("still here"));
    drop(open);
    assert!(operator.stop());
}

#[test]
fn thousands_of_slow_clients_keep_nobody_waiting() {
    attack(0, &[], "http", b"GET /metrics HTTP/1.1\r\nX: y");
}

#[test]
fn thousands_of_slow_handshakes_keep_nobody_waiting() {
    attack(0, &["--metrics-secure"], "https", b"\x16\x03\x01\x02");
}

/// Takes two minutes, most of them to make the custom resources.
#[test]
#[ignore = "by hand: tests/cluster/with.sh cargo test --features cluster-tests --test operator -- --ignored ports::"]
fn thousands_of_slow_clients_keep_nobody_waiting_beside_ten_thousand_custom_resources() {
    attack(10_000, &[], "http", b"GET /metrics HTTP/1.1\r\nX: y");
}

/// A client that asks and does not read takes its place for less than half a minute.
#[test]
fn a_client_that_says_nothing_or_does_not_read_is_left() {
    let space = Space::new("slow");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let mut silent = eventually("it listens", || TcpStream::connect(("127.0.0.1", operator.metrics_port())));
    let began = Instant::now();
    silent.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = silent.read_to_end(&mut answer);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    // A request too large for any client of ours.
    let mut large = TcpStream::connect(("127.0.0.1", operator.metrics_port())).unwrap();
    let _ = large.write_all(format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1 << 20)).as_bytes());
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    assert!(operator.stop());
}
