//! Uploads that are killed at any byte.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use crate::etcd::{Member, V36, cluster};
use crate::program::{Process, Test, fails, json, ok, until};
use crate::s3::Gateway;

/// Where it is, in the net of a test.
pub const PROXY: u32 = 4;

/// A server between that takes so many bytes of requests, and then no more.
struct Proxy {
    address: String,
    taken: Arc<AtomicU64>,
    full: Arc<AtomicBool>,
}

impl Proxy {
    fn start(host: String, to: String, limit: u64) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("the address is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let (taken, full) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let proxy = Self { address, taken: taken.clone(), full: full.clone() };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&to) else { return };
                let answers = (server.try_clone().expect("it is open"), client.try_clone().expect("it is open"));
                thread::spawn(move || copy(answers.0, answers.1, |_| true));
                let (taken, full) = (taken.clone(), full.clone());
                thread::spawn(move || {
                    copy(client, server, |bytes| {
                        let is_full = taken.fetch_add(bytes, Ordering::SeqCst) + bytes > limit;
                        full.fetch_or(is_full, Ordering::SeqCst);
                        !is_full
                    });
                });
            }
        });
        proxy
    }
}

/// Copies up to the limit. After it the connection stays open and silent.
fn copy(mut from: TcpStream, mut to: TcpStream, mut may: impl FnMut(u64) -> bool) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(read) if read > 0 => {
                if !may(read as u64) {
                    // Until the other side is gone.
                    while from.read(&mut bytes).is_ok_and(|read| read > 0) {}
                    drop(to.shutdown(Shutdown::Both));
                    return;
                }
                if to.write_all(&bytes[..read]).is_err() {
                    return;
                }
            }
            _ => {
                drop(to.shutdown(Shutdown::Write));
                return;
            }
        }
    }
}

/// A member with more data than one part of an upload holds.
pub async fn large(test: &Test) -> Member {
    let member = cluster(test, V36, 1).await.remove(0);
    let mut client = etcd_client::Client::connect([&member.url], None).await.expect("it is a URL");
    for number in 0..20_u8 {
        // Not all alike, as a test of order must not be.
        let value: Vec<u8> =
            (0..1_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1] ^ number).collect();
        client.put(format!("large/{number}"), value, None).await.expect("it takes writes");
    }
    member
}

fn good(all: &Value) -> Vec<&Value> {
    all.as_array().expect("it is a list").iter().filter(|one| one["state"] == "good").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_killed_leaves_nothing_that_counts_as_a_backup() {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    uploads_are_killed(&test, &gateway.address, &LAST, Gateway::at).await;
}

/// So many bytes before the end of an upload are of the record that says that it is verified.
pub const LAST: [u64; 2] = [700, 100];

/// Kills uploads to a server in the head of the first request, in each part, and so many bytes before the end. `at` is a command that
/// finds the server at an address.
pub async fn uploads_are_killed(test: &Test, server: &str, last: &[u64], at: impl Fn(&str, &[&str]) -> Command) {
    let member = large(test).await;
    let save = ["save", "--endpoints", &member.url];
    // How much goes up when nothing is in the way.
    let open = Proxy::start(test.address(PROXY), server.to_owned(), u64::MAX);
    let first = json(&mut at(&open.address, &save));
    let total = open.taken.load(Ordering::SeqCst);
    assert!(total > 20_000_000, "{total} bytes went up");

    let limits = (0..10).map(|tenth| total / 10 * tenth).chain([500, 1500]);
    for limit in limits.chain(last.iter().map(|bytes| total - bytes)) {
        let proxy = Proxy::start(test.address(PROXY), server.to_owned(), limit);
        let mut command = at(&proxy.address, &save);
        let mut killed = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
        until("the upload is stuck", || {
            assert!(killed.0.try_wait().expect("it is a child").is_none(), "it ended before {limit} of {total} bytes");
            proxy.full.load(Ordering::SeqCst)
        });
        drop(killed);
        let all = json(&mut at(server, &["list"]));
        assert_eq!(good(&all).len(), 1, "killed after {limit} of {total} bytes: {all:#}");
        let latest = json(&mut at(server, &["verify"]));
        assert_eq!(latest["name"], first["name"], "killed after {limit} of {total} bytes");
        for one in all.as_array().expect("it is a list").iter().filter(|one| one["state"] != "good") {
            let name = one["name"].as_str().expect("it has a name");
            assert!(fails(&mut at(server, &["verify", name])).contains("NoGoodBackup"), "{one:#}");
        }
    }
    let last = json(&mut at(server, &save));
    assert_ne!(last["name"], first["name"]);
    ok(&mut at(server, &["prune", "--keep", "1"]));
    assert_eq!(good(&json(&mut at(server, &["list"]))).len(), 1);
}

/// An upload that takes too long ends with an error, and is not a backup either.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_silent_is_given_up() {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    let member = large(&test).await;
    let proxy = Proxy::start(test.address(PROXY), gateway.address.clone(), 5_000_000);
    let error = fails(&mut Gateway::at(&proxy.address, &["save", "--endpoints", &member.url, "--timeout", "5s"]));
    assert!(error.contains("Timeout: not finished in time"), "{error}");
    assert!(good(&json(&mut gateway.snapshot(&["list"]))).is_empty());
}
