//! The pages of `tillerman ui` as a hostile client, a hostile tenant and a large cluster meet them, without a cluster.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tillerman::ui::access::Door;
use tillerman::ui::address::{ReleaseName, ReleaseScreen, Subject};
use tillerman::ui::server::Site;
use tillerman::ui::source::{Answer, ClusterData, Fleet, PageSource, ReleaseData};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// No answer takes this long on two busy cores.
const DEADLINE: Duration = Duration::from_secs(60);

/// A source without a cluster.
struct Rows {
    fleet: Fleet,
    document: Value,
    reads: Arc<AtomicUsize>,
    changes: Arc<watch::Sender<u64>>,
}

impl PageSource for Rows {
    fn fleet(&self) -> Answer<'_, Fleet> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(self.fleet.clone()) })
    }
    fn release(&self, name: ReleaseName, _: ReleaseScreen) -> Answer<'_, ReleaseData> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if name.name == "gone" {
                return Err(format!("there is no {}", name.name).into());
            }
            Ok(ReleaseData {
                document: self.document.clone(),
                summary: json!({"state": "Ready"}),
                ..ReleaseData::default()
            })
        })
    }
    fn operator(&self) -> Answer<'_, ClusterData> {
        Box::pin(async { Ok(ClusterData { document: json!({"checks": []}), ..ClusterData::default() }) })
    }
    fn rollouts(&self) -> Answer<'_, ClusterData> {
        Box::pin(async { Ok(ClusterData::default()) })
    }
    fn follow(&self, _: Subject) -> Answer<'_, watch::Receiver<u64>> {
        Box::pin(async move { Ok(self.changes.subscribe()) })
    }
}

/// A running site.
struct Served {
    address: SocketAddr,
    cookie: String,
    reads: Arc<AtomicUsize>,
    changes: Arc<watch::Sender<u64>>,
    stop: CancellationToken,
    _runtime: Runtime,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn row(number: usize) -> Arc<Value> {
    let (state, problems) =
        if number % 1000 == 7 { ("Stalled", json!(["ReleaseFailed"])) } else { ("Ready", json!([])) };
    Arc::new(json!({"name": format!("app-{number:05}"), "namespace": format!("ns-{}", number % 50), "kind": "Web",
        "group": "test.tillerman.dev", "chart": "web", "version": "1.2.3", "revision": 1, "state": state, "problems": problems,
        "reason": "Invalid", "message": "spec.replicas must be a number", "created": "2026-01-01T00:00:00Z"}))
}

fn serve(rows: usize, document: Value) -> Served {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let door = Door::new(address).unwrap();
    let link = door.link();
    let (reads, changes) = (Arc::new(AtomicUsize::new(0)), Arc::new(watch::Sender::new(1)));
    let fleet = Fleet { rows: (0..rows).map(row).collect(), version: 1, ..Fleet::default() };
    let source = Rows { fleet, document, reads: Arc::clone(&reads), changes: Arc::clone(&changes) };
    let stop = CancellationToken::new();
    runtime.spawn(Site::new(door, source).serve(listener, stop.clone()));
    let path = link.split_once(&address.to_string()).unwrap().1;
    let entered = request(address, path, "");
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    Served { address, cookie, reads, changes, stop, _runtime: runtime }
}

/// An answer as text.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).unwrap_or_default()
    }
}

fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn raw(address: SocketAddr, text: &str) -> Got {
    let mut answer = Vec::new();
    send(address, text).read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Got { status, head: head.to_owned(), body: body.to_owned() }
}

fn request(address: SocketAddr, path: &str, headers: &str) -> Got {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"))
}

impl Served {
    fn get(&self, path: &str) -> Got {
        request(self.address, path, &format!("Cookie: {}\r\n", self.cookie))
    }
}

#[test]
fn every_answer_has_the_headers_that_keep_others_out() {
    let site = serve(3, json!({"tree": {"name": "Web a"}}));
    for (path, status) in [
        ("/", 200),
        ("/style.css", 200),
        ("/script.js", 200),
        ("/nowhere", 404),
        ("/operator", 200),
        ("/rollouts", 200),
        ("/release/Web.a/ns/app", 200),
        ("/release/Web.a/ns/gone", 502),
    ] {
        let got = site.get(path);
        assert_eq!(got.status, status, "{path}");
        let policy = got.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(got.header(name), value, "{path} {name}");
        }
    }
}

#[test]
fn a_request_without_the_cookie_of_this_start_reads_nothing() {
    let site = serve(3, json!({}));
    let host = site.address;
    let other = serve(3, json!({}));
    let (own, foreign) = (format!("Cookie: {}\r\n", site.cookie), format!("Cookie: {}\r\n", other.cookie));
    let table = [
        ("no cookie", 401, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")),
        ("the cookie of another start", 401, format!("GET / HTTP/1.1\r\nHost: {host}\r\n{foreign}\r\n")),
        ("a wrong token", 401, format!("GET /?token=AAAA HTTP/1.1\r\nHost: {host}\r\n\r\n")),
        ("a name of an attacker's DNS", 421, format!("GET / HTTP/1.1\r\nHost: evil.example.com\r\n{own}\r\n")),
        ("two hosts", 421, format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example.com\r\n{own}\r\n")),
        (
            "another origin",
            403,
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example.com\r\n{own}\r\n"),
        ),
        (
            "a page of another site",
            403,
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: cross-site\r\n{own}\r\n"),
        ),
        ("POST", 405, format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{own}\r\n")),
        ("DELETE", 405, format!("DELETE / HTTP/1.1\r\nHost: {host}\r\n{own}\r\n")),
        ("a stylesheet without a cookie", 401, format!("GET /style.css HTTP/1.1\r\nHost: {host}\r\n\r\n")),
        ("changes without a cookie", 401, format!("GET /follow/fleet HTTP/1.1\r\nHost: {host}\r\n\r\n")),
    ];
    for (what, status, text) in table {
        let got = raw(host, &text);
        assert_eq!(got.status, status, "{what}: {got:?}");
        assert!(!got.body.contains("app-0000"), "{what}");
    }
    assert_eq!(site.reads.load(Ordering::Relaxed), 0, "nothing was read for them");
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_head_request_has_no_body() {
    let site = serve(3, json!({}));
    let got =
        raw(site.address, &format!("HEAD / HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", site.address, site.cookie));
    assert_eq!((got.status, got.body.as_str()), (200, ""));
}

#[test]
fn of_ten_thousand_releases_a_page_shows_those_that_need_a_person_first_and_stays_small() {
    let site = serve(10_000, json!({}));
    let got = site.get("/");
    assert_eq!(got.status, 200);
    assert!(got.body.len() < 100_000, "{} bytes", got.body.len());
    assert!(got.body.contains("10 of 10000 need a person") && got.body.contains("page 1 of 100"), "{}", got.body);
    let first = got.body.find("app-00007").expect("a stalled release is on the first page");
    assert!(first < got.body.find("app-00000").expect("a ready release is below"));
    let found = site.get("/?text=app-09007&state=person").body;
    assert!(found.contains("1 of 10000 releases") && found.contains("spec.replicas must be a number"), "{found}");
}

#[test]
fn a_client_that_never_reads_holds_one_part_of_a_large_page_and_delays_nobody() {
    let line = json!({"name": "x".repeat(4000), "state": "Ready", "message": "y".repeat(4000), "below": []});
    let site = serve(1, json!({"tree": {"name": "a", "below": vec![line; 900]}}));
    let asking =
        format!("GET /release/Web.a/ns/app HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", site.address, site.cookie);
    let lazy: Vec<TcpStream> = (0..40).map(|_| send(site.address, &asking)).collect();
    let began = Instant::now();
    let got = site.get("/");
    assert_eq!(got.status, 200);
    assert!(began.elapsed() < DEADLINE);
    let whole = site.get("/release/Web.a/ns/app");
    assert!(whole.status == 200 && whole.body.contains("</html>"), "{}", whole.body.len());
    drop(lazy);
}

#[test]
fn more_connections_than_there_is_room_for_close_the_oldest() {
    let site = serve(1, json!({}));
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(site.address).unwrap()).collect();
    assert_eq!(site.get("/").status, 200);
    drop(silent);
}

#[test]
fn a_page_that_is_older_than_the_last_change_hears_of_it_at_once_and_each_change_is_one_message() {
    let site = serve(1, json!({}));
    let asking = |seen: u64| {
        format!("GET /follow/fleet?seen={seen} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", site.address, site.cookie)
    };
    let until = |stream: &mut TcpStream, wanted: &str| {
        let (mut text, mut part) = (String::new(), [0; 1024]);
        while !text.contains(wanted) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "the connection ended after {text}");
            text.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        text
    };
    let mut old = send(site.address, &asking(0));
    let text = until(&mut old, "data: 1\n\n");
    assert!(text.contains("text/event-stream") && text.contains("retry: 1000"), "{text}");
    let mut current = send(site.address, &asking(1));
    until(&mut current, "retry: 1000");
    for version in 2..=50 {
        site.changes.send_replace(version);
    }
    let text = until(&mut current, "data: 50\n\n");
    assert!(text.matches("event: change").count() <= 2, "{text}");
    assert_eq!(site.reads.load(Ordering::Relaxed), 0, "a follower reads nothing");
}

#[test]
fn the_interest_of_a_browser_ends_with_its_connection() {
    let site = serve(1, json!({}));
    let asking =
        format!("GET /follow/fleet?seen=1 HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", site.address, site.cookie);
    let stream = send(site.address, &asking);
    let wait = |count: usize| {
        let began = Instant::now();
        while site.changes.receiver_count() != count {
            assert!(began.elapsed() < DEADLINE, "{} receivers", site.changes.receiver_count());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(1);
    drop(stream);
    wait(0);
}

#[test]
fn paths_that_mean_nothing_are_not_found() {
    let site = serve(1, json!({}));
    for path in [
        "/..",
        "/release/Web.a/ns",
        "/release/%ff.a/ns/app",
        "/%2e%2e/style.css",
        "/release/Web.a/ns/app/history/-1",
        "//evil",
    ] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    let long = "a".repeat(10_000);
    assert_eq!(site.get(&format!("/{long}")).status, 404);
}
