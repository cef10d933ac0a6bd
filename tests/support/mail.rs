//! What a server of mail shows of the messages that it has: mailpit, which shows what a person would see.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::harness::eventually;

/// A message as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Its `Message-ID`.
    pub id: String,
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub text: String,
    /// The messages that it belongs to.
    pub references: String,
}

fn openssl(dir: &Path, args: &[&str]) {
    let output = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it for some names (`IP:127.0.0.1,DNS:localhost`): `ca.crt`, `tls.crt`, `tls.key`.
pub fn certificates(dir: &Path, names: &str) {
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=test"];
    openssl(dir, &[&ca[..], &ec[..]].concat());
    openssl(dir, &[&["req", "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=mail"][..], &ec[..]].concat());
    std::fs::write(dir.join("ext"), format!("subjectAltName={names}\n")).unwrap();
    let sign =
        ["x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"];
    openssl(dir, &[&sign[..], &["-extfile", "ext", "-out", "tls.crt"]].concat());
}

/// The pages of a server of mail.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    /// Its address.
    pub address: IpAddr,
    /// The port of its pages.
    pub http: u16,
}

impl Mailbox {
    fn http(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let mut stream = TcpStream::connect((self.address, self.http)).map_err(|e| e.to_string())?;
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

    /// What a page has.
    pub fn get(&self, path: &str) -> Result<Value, String> {
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

    /// Waits for a message with such a line.
    pub fn wait_line(&self, is_it: impl Fn(&str) -> bool, what: &str) -> String {
        eventually(&format!("a message says {what}"), || {
            let all = self.arrived();
            let found = all.iter().flat_map(|one| one.text.lines()).find(|line| is_it(line)).map(str::to_owned);
            found.ok_or_else(|| format!("{all:?}"))
        })
    }
}
