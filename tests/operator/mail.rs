//! A real server of mail with STARTTLS and a login, and receivers that behave badly.

use crate::harness::{Space, eventually, free_port};
pub use crate::support::mail::Arrived;
use crate::support::mail::{Mailbox, certificates};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Mailpit, which shows what a person would see.
pub struct Mail {
    child: Option<Child>,
    pub port: u16,
    mailbox: Mailbox,
    args: Vec<String>,
}

impl Mail {
    /// Starts a server, and makes the Secrets with which notices reach it: `login` and `authority`.
    pub fn start(space: &Space) -> Self {
        let dir = space.dir();
        certificates(dir, "IP:127.0.0.1,DNS:localhost");
        let (port, http) = (free_port(), free_port());
        let auth = space.file("smtp-auth", "operator:correct-horse\n");
        let path = |name: &str| dir.join(name).display().to_string();
        let args = [
            format!("--smtp=127.0.0.1:{port}"),
            format!("--listen=127.0.0.1:{http}"),
            format!("--smtp-auth-file={}", auth.display()),
            format!("--smtp-tls-cert={}", path("tls.crt")),
            format!("--smtp-tls-key={}", path("tls.key")),
            "--smtp-require-starttls".to_owned(),
            "--smtp-disable-rdns".to_owned(),
            "--disable-version-check".to_owned(),
            "--enable-chaos".to_owned(),
            format!("--database={}", path("mail.db")),
        ];
        space
            .kubectl(&[
                "create",
                "secret",
                "generic",
                "login",
                "--from-literal=username=operator",
                "--from-literal=password=correct-horse",
            ])
            .unwrap();
        space.kubectl(&["annotate", "secret", "login", "tillerman.dev/notice-hosts=127.0.0.1"]).unwrap();
        let authority = format!("--from-file=ca.crt={}", path("ca.crt"));
        space.kubectl(&["create", "secret", "generic", "authority", &authority]).unwrap();
        let mailbox = Mailbox { address: Ipv4Addr::LOCALHOST.into(), http };
        let mut mail = Self { child: None, port, mailbox, args: args.into() };
        mail.up();
        mail
    }

    /// Starts it, with the messages that it had.
    pub fn up(&mut self) {
        let child = Command::new("mailpit").args(&self.args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("mailpit is on PATH: tests/cluster/build-tools.sh mail"));
        eventually("the server of mail answers", || self.get("/api/v1/info"));
        eventually("and takes connections", || TcpStream::connect(("127.0.0.1", self.port)));
    }

    /// Kills it.
    pub fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The target of a notice that sends to it.
    pub fn target(&self) -> Value {
        json!({"smtp": {
            "host": "127.0.0.1", "port": self.port, "from": "Tillerman <tillerman@example.com>", "to": ["ops@example.com"],
            "auth": {"secretName": "login"}, "caSecret": "authority",
        }})
    }
}

impl Deref for Mail {
    type Target = Mailbox;

    fn deref(&self) -> &Mailbox {
        &self.mailbox
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        self.down();
    }
}

/// A server that takes connections and says nothing: how many it has.
pub fn silent() -> (u16, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kept = Arc::<Mutex<Vec<TcpStream>>>::default();
    let of_thread = Arc::clone(&kept);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            of_thread.lock().unwrap().push(stream);
        }
    });
    (port, kept)
}

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v))
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A receiver of HTTP that answers with a line, such as `204 No Content`, and what it got.
pub fn receiver(answer: &'static str) -> (u16, Arc<Mutex<Vec<Request>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = Arc::<Mutex<Vec<Request>>>::default();
    let of_thread = Arc::clone(&got);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let Some(first) = lines.first().cloned() else { continue };
            let length =
                lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            of_thread.lock().unwrap().push(Request { path, headers: lines.split_off(1), body });
            let _ = stream
                .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
        }
    });
    (port, got)
}
