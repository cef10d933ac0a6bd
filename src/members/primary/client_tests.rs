use std::time::Instant;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::agent::contract::Demote;

#[tokio::test]
async fn the_agent_of_another_member_is_not_listened_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut part = [0; 1024];
            let _ = stream.read(&mut part).await;
            let body = json!({"member": "db-1"}).to_string();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    let agents = Agents::new(None).unwrap();
    assert_eq!(agents.state(&url, "db-0", ANSWER).await, Err("it is the agent of another member".to_owned()));
    assert_eq!(agents.state(&url, "db-1", ANSWER).await.unwrap().member, "db-1");
    // With certificates, an agent without TLS is not asked.
    let asked = Agents { client: Client { tls: Some(trusting_nobody()) } };
    assert_eq!(asked.state(&url, "db-1", ANSWER).await, Err("certificates need an agent with https".to_owned()));
}

fn trusting_nobody() -> std::sync::Arc<rustls::ClientConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth().into()
}

/// The client waits for the time that a demotion has.
#[tokio::test]
async fn an_order_has_the_time_that_it_gives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let demote = Verb::Demote(Demote { epoch: 1, number: Some(0), data: "u".into(), within: 200 });
    let began = Instant::now();
    let failed = Agents::new(None).unwrap().order(&url, "db-0", &demote).await;
    assert_eq!(failed, Err(Failed::Unknown("no answer within 3 seconds".into())));
    assert!(began.elapsed() >= Duration::from_millis(3200));
    drop(listener);
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let error = |ca: &str, identity: Option<(&str, &str)>| {
        let identity = identity.map(|(chain, key)| (chain.into(), key.into()));
        Agents::new(Some(&Tls { ca: ca.into(), identity })).err().unwrap().to_string()
    };
    assert_eq!(error("-----BEGIN X", None), "ca.crt has no certificate");
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(error(wrong, None), "ca.crt has something else than a certificate");
}
