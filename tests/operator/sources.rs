//! Charts that the operator fetches.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::harness::{Space, cluster_dir, eventually, free_port, repository};

/// A container registry with a certificate of the cluster's authority.
struct Registry(Child);

impl Registry {
    fn start(space: &Space, port: u16) -> Self {
        let (pki, stored) = (cluster_dir().join("pki"), space.file("stored", "").with_file_name("blobs"));
        let config = json!({
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": stored}},
            "http": {
                "addr": format!("127.0.0.1:{port}"),
                "tls": {"certificate": pki.join("apiserver.crt"), "key": pki.join("apiserver.key")},
            },
        });
        let config = space.file("registry.yml", &config.to_string());
        let child = Command::new("registry")
            .arg("serve")
            .arg(config)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry is on PATH");
        Self(child)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_chart_comes_from_a_registry_as_soon_as_there_is_one() {
    let mut space = Space::new("registry");
    let (port, ca) = (free_port(), cluster_dir().join("pki/ca.crt"));
    space.env.push(("SSL_CERT_FILE", ca.clone()));
    let link = format!("oci://127.0.0.1:{port}/charts/web:1.2.3");
    let _operator = space.operator(&space.watches(&[("Web", &link), ("Other", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.apply("Other", "here", &json!({}));
    // Who waits for the registry holds up nobody else.
    space.wait("other/here", "Deployed", "True");
    eventually("the status names the registry", || {
        let stalled = space.condition("web/app", "Stalled")?;
        let message = stalled["message"].as_str().unwrap_or_default();
        let said = message.contains(&link) && message.contains("connection refused");
        if stalled["status"] == "True" && said { Ok(()) } else { Err(stalled.to_string()) }
    });

    let _registry = Registry::start(&space, port);
    let archive = space.file("x", "").with_file_name("web-1.2.3.tgz");
    let folder = archive.parent().unwrap().to_str().unwrap().to_owned();
    space.helm(&["package", repository("tests/charts/web").to_str().unwrap(), "-d", &folder]).unwrap();
    let (ca, to) = (ca.to_str().unwrap(), format!("oci://127.0.0.1:{port}/charts"));
    eventually("the chart is pushed", || space.helm(&["push", archive.to_str().unwrap(), &to, "--ca-file", ca]));
    space.wait("web/app", "Deployed", "True");
}

/// Answers each request with the same, over http, or https with a certificate of the cluster's authority; its port.
fn serve(answer: Vec<u8>, tls: bool) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = tls.then(|| {
        let pki = cluster_dir().join("pki");
        let chain = CertificateDer::pem_file_iter(pki.join("apiserver.crt")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(pki.join("apiserver.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Arc::new(config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap())
    });
    let respond = move |mut stream: &mut dyn ReadWrite| {
        let mut reader = BufReader::new(&mut stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            line.clear();
        }
        let _ = stream.write_all(&answer).and_then(|()| stream.flush());
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            match &config {
                None => respond(&mut { stream }),
                Some(config) => {
                    let session = rustls::ServerConnection::new(Arc::clone(config)).unwrap();
                    respond(&mut rustls::StreamOwned::new(session, stream));
                }
            }
        }
    });
    port
}

/// Serves the files of a folder over https, with a certificate of the cluster's authority, to who has this login; its port.
pub fn serve_files(folder: std::path::PathBuf, login: &str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let pki = cluster_dir().join("pki");
    let chain = CertificateDer::pem_file_iter(pki.join("apiserver.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki.join("apiserver.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap());
    let wanted = format!("authorization: Basic {}", data_encoding::BASE64.encode(login.as_bytes()));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            let mut reader = BufReader::new(&mut stream);
            let (mut lines, mut line) = (Vec::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                lines.push(std::mem::take(&mut line).trim().to_owned());
            }
            let name = lines.first().and_then(|line| line.split_whitespace().nth(1)).unwrap_or("/")[1..].to_owned();
            let is_known = lines.iter().any(|line| {
                line.split_once(':').is_some_and(|(key, value)| format!("{}:{value}", key.to_lowercase()) == wanted)
            });
            let answer = match std::fs::read(folder.join(&name)) {
                _ if !is_known => answer("401 Unauthorized", "", b""),
                Ok(data) => answer("200 OK", "", &data),
                Err(_) => answer("404 Not Found", "", b""),
            };
            let _ = stream.write_all(&answer).and_then(|()| stream.flush());
        }
    });
    port
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn answer(status: &str, header: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// `watches.yaml` of kinds with links and more fields.
fn watches(space: &Space, kinds: &[(&str, &str, &str)]) -> std::path::PathBuf {
    let entry = |(kind, link, more): &(&str, &str, &str)| {
        format!("- group: test.tillerman.dev\n  version: v1\n  kind: {kind}\n  chart: {link}\n{more}")
    };
    space.file("watches.yaml", &kinds.iter().map(entry).collect::<String>())
}

#[test]
fn a_chart_that_somebody_on_the_way_could_change_is_refused_and_a_digest_proves_one() {
    let mut space = Space::new("proof");
    space.env.push(("SSL_CERT_FILE", cluster_dir().join("pki/ca.crt")));
    let folder = space.file("x", "").parent().map(Path::to_owned).unwrap();
    space.helm(&["package", repository("tests/charts/web").to_str().unwrap(), "-d", folder.to_str().unwrap()]).unwrap();
    let archive = std::fs::read(folder.join("web-1.2.3.tgz")).unwrap();
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&archive));
    let plain = format!("http://127.0.0.1:{}/web-1.2.3.tgz", serve(answer("200 OK", "", &archive), false));
    let redirect = answer("302 Found", &format!("Location: {plain}\r\n"), b"");
    let downgrade = format!("https://127.0.0.1:{}/web-1.2.3.tgz", serve(redirect, true));
    let wrong = format!("  digest: sha256:{}\n", "0".repeat(64));
    let kinds = [("Web", &*plain, ""), ("Failing", &*downgrade, ""), ("Other", &*plain, &*wrong)];
    let operator = space.operator(&watches(&space, &kinds), &[]);
    for (kind, expected) in [
        ("Web", "http:// does not protect the archive"),
        ("Failing", "a redirect from https to http is refused"),
        ("Other", &*format!("its digest is sha256:{digest}, but the requested digest is sha256:0000")),
    ] {
        // Releases of one namespace differ in their names.
        let name = kind.to_lowercase();
        space.apply(kind, &name, &json!({}));
        eventually(kind, || {
            let stalled = space.condition(&format!("{name}/{name}"), "Stalled")?;
            let said = stalled["message"].as_str().is_some_and(|message| message.contains(expected));
            if stalled["reason"] == "ChartUnusable" && said { Ok(()) } else { Err(stalled.to_string()) }
        });
    }
    assert!(operator.stop());
    let secure = format!("https://127.0.0.1:{}/web-1.2.3.tgz", serve(answer("200 OK", "", &archive), true));
    let (right, signed) = (format!("  digest: sha256:{digest}\n"), "  keyring: nobody.gpg\n");
    let kinds = [("Web", &*plain, &*right), ("Failing", &*secure, signed), ("Other", &*secure, "")];
    let _operator = space.operator(&watches(&space, &kinds), &[]);
    space.wait("web/web", "Deployed", "True");
    // Nobody signed it: what the server has in place of a signature is none.
    eventually("it is not signed", || {
        let stalled = space.condition("failing/failing", "Stalled")?;
        let message = stalled["message"].as_str().unwrap_or_default();
        if message.contains("nobody.gpg") || message.contains("signature") { Ok(()) } else { Err(stalled.to_string()) }
    });
    space.wait("other/other", "Deployed", "True");
}
