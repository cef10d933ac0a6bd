//! A real server of mail with STARTTLS and a login, and receivers that behave badly.

use crate::harness::{Space, eventually, free_port};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Mailpit, which shows what a person would see.
pub struct Mail {
    child: Option<Child>,
    pub port: u16,
    http: u16,
    args: Vec<String>,
}

/// A message as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub id: String,
    pub subject: String,
    pub text: String,
    pub references: String,
}

fn openssl(dir: &Path, args: &[&str]) {
    let output = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it for 127.0.0.1: `ca.crt`, `tls.crt`, `tls.key`.
pub fn certificates(dir: &Path) {
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=test"];
    openssl(dir, &[&ca[..], &ec[..]].concat());
    openssl(dir, &[&["req", "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=127.0.0.1"][..], &ec[..]].concat());
    std::fs::write(dir.join("ext"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
    let sign =
        ["x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"];
    openssl(dir, &[&sign[..], &["-extfile", "ext", "-out", "tls.crt"]].concat());
}

impl Mail {
    /// Starts a server, and makes the Secrets with which notices reach it: `login` and `authority`.
    pub fn start(space: &Space) -> Self {
        let dir = space.dir();
        certificates(dir);
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
        let mut mail = Self { child: None, port, http, args: args.into() };
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

    fn http(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).map_err(|e| e.to_string())?;
        let head = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).map_err(|e| e.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        if !head.contains(" 200 ") {
            return Err(answer);
        }
        serde_json::from_str(body).map_err(|e| format!("{e}: {body}"))
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        self.http("GET", path, "")
    }

    /// Lets it refuse each recipient with this code; 0 for none.
    pub fn refuse(&self, code: u16) {
        let of =
            |probability: u16| json!({"ErrorCode": if code == 0 { 451 } else { code }, "Probability": probability});
        let chaos = json!({"Recipient": of(if code == 0 { 0 } else { 100 }), "Sender": of(0), "Authentication": of(0)});
        self.http("PUT", "/api/v1/chaos", &chaos.to_string()).unwrap();
    }

    /// The messages that arrived, the oldest first.
    pub fn arrived(&self) -> Vec<Arrived> {
        let list = self.get("/api/v1/messages?limit=500").unwrap();
        let mut all: Vec<Arrived> = list["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let id = one["ID"].as_str().unwrap();
                let whole = self.get(&format!("/api/v1/message/{id}")).unwrap();
                let headers = self.get(&format!("/api/v1/message/{id}/headers")).unwrap();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                Arrived {
                    id: text(&whole["MessageID"]),
                    subject: text(&whole["Subject"]),
                    text: text(&whole["Text"]).replace("\r\n", "\n"),
                    references: text(&headers["References"][0]),
                }
            })
            .collect();
        all.reverse();
        all
    }

    /// Waits for so many messages.
    pub fn wait(&self, count: usize) -> Vec<Arrived> {
        eventually(&format!("{count} messages arrive"), || {
            let all = self.arrived();
            if all.len() >= count { Ok(all) } else { Err(format!("{all:?}")) }
        })
    }

    /// The target of a notice that sends to it.
    pub fn target(&self) -> Value {
        json!({"smtp": {
            "host": "127.0.0.1", "port": self.port, "from": "Tillerman <tillerman@example.com>", "to": ["ops@example.com"],
            "auth": {"secretName": "login"}, "caSecret": "authority",
        }})
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
