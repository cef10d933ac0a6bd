//! Who is let in: certificates, admitted members, and clients that only occupy.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tillerman::agent::client::{Client, ClientError};
use tillerman::agent::contract::{LIMIT, Reason, Reload, Verb};
use tillerman::agent::tls::{Tls, TlsFiles};

use crate::cluster::{DatabaseCluster, is_mysql, server};

/// Certificates of an authority of its own, in a folder.
pub fn certificates(folder: &Path, names: &str) -> Tls {
    std::fs::create_dir_all(folder).unwrap();
    let script = r#". tests/cluster/lib.sh; member_certs "$1" "$2""#;
    let made = Command::new("bash").args(["-ec", script, "bash"]).arg(folder).arg(names).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| folder.join(name);
    Tls { certificate: file("member.crt"), key: file("member.key"), authorities: file("ca.crt") }
}

/// With certificates, agents and databases take and give connections only by those of their authority.
#[tokio::test(flavor = "multi_thread")]
async fn members_with_certificates_follow_each_other_and_strangers_are_refused() {
    let mut cluster = DatabaseCluster::new(2);
    let names = cluster.members.iter().map(|member| format!("IP:{}", member.address)).collect::<Vec<_>>().join(",");
    let folder = cluster.folder().join("tls");
    let (ours, others) = (certificates(&folder, &names), certificates(&cluster.folder().join("other"), &names));
    let client = |files: &Tls| Client { tls: Some(TlsFiles::read(files).unwrap().client()) };
    for member in &mut cluster.members {
        member.tls = Some(ours.clone());
        member.client = client(&ours);
    }
    cluster.create().await;
    cluster.grow(2).await;
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    let primary = cluster.members[0].state().await;
    cluster.members[1].until("it has all", |own| own.has.contains(&primary.has)).await;

    let url = cluster.members[0].url();
    let second = Duration::from_secs(2);
    assert!(client(&others).state(&url, second).await.is_err(), "another authority");
    assert!(Client::default().state(&url.replace("https", "http"), second).await.is_err(), "no TLS");
    let required = if is_mysql() {
        "SELECT COUNT(*) FROM mysql.user WHERE User LIKE 'tillerman.%' AND ssl_type = 'X509'"
    } else {
        "SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'tillerman.%' AND JSON_VALUE(Priv, '$.ssl_type') = 2"
    };
    assert!(cluster.members[0].numbers(required).await[0] >= 2, "accounts of members need a certificate (X509)");

    // New certificates of another authority count after they are read again.
    std::fs::rename(&folder, cluster.folder().join("old")).unwrap();
    std::fs::rename(cluster.folder().join("other"), &folder).unwrap();
    for k in 0..2 {
        let member = &mut cluster.members[k];
        let order = Verb::Reload(Reload {});
        let by_old = member.client.order(&member.url(), &order, Duration::from_secs(30)).await;
        member.client = client(&ours);
        // Agents look at their files by themselves, too. One that did has the new certificate already.
        if let Err(ClientError::Failed { .. }) = by_old {
            member.order(&order).await.unwrap();
        }
    }
    cluster.members[0].state().await;
    cluster.members[1].until("it receives", |state| state.receiving && state.applying).await;
    tokio::time::timeout(second, cluster.members[0].run("CREATE DATABASE more")).await.unwrap().unwrap();
}

/// The connections of a member that is no longer admitted end, and it cannot come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_not_admitted_can_neither_follow_nor_acknowledge() {
    let cluster = DatabaseCluster::grown(3).await;
    let state = cluster.promote(0, 1, 1, &[2]).await.unwrap();
    assert_eq!(
        (state.admitted.as_slice(), state.acknowledging.as_slice()),
        (&["db-2".into()][..], &["db-2".into()][..])
    );
    let refused = cluster.members[1].until("it is refused", |state| !state.receiving && state.problem.is_some()).await;
    assert!(refused.problem.unwrap().contains("error"), "by its number");
    assert!(cluster.members[0].state().await.acknowledging == ["db-2"]);
    cluster.members[0].run("CREATE DATABASE app").await.unwrap();
    let state = cluster.members[0].state().await;
    cluster.members[2].until("it has all", |own| own.has.contains(&state.has)).await;
    assert!(!cluster.members[1].state().await.got.contains(&state.has));
    cluster.promote(0, 1, 1, &[1, 2]).await.unwrap();
    cluster.members[1].until("it follows by itself", |own| own.has.contains(&state.has)).await;
}

/// New passwords count after they are read again: the administrator's, and that with which members follow.
#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_read_again() {
    let cluster = DatabaseCluster::grown(2).await;
    std::fs::write(cluster.folder().join("password"), "another").unwrap();
    for k in [1, 0] {
        let order = Verb::Reload(Reload {});
        assert_eq!(cluster.members[k].order(&order).await.unwrap().member, format!("db-{k}"));
    }
    cluster.members[1].until("it receives", |state| state.receiving && state.acknowledges).await;
    // Connections that were there before would stay.
    cluster.fence(1, 1).await.unwrap();
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[1].until("it receives", |state| state.receiving).await;
    std::fs::write(cluster.folder().join("admin"), "another").unwrap();
    cluster.members[0].order(&Verb::Reload(Reload {})).await.unwrap();
    assert!(cluster.members[0].run("SELECT 1").await.is_err());
}

/// The administrator's new password counts without an order, as soon as its file has changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_counts_without_an_order() {
    let cluster = DatabaseCluster::grown(2).await;
    let before = cluster.members[1].state().await;
    cluster.members[0].run("SELECT 1").await.unwrap();
    std::fs::write(cluster.folder().join("admin"), "another").unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while cluster.members[0].run("SELECT 1").await.is_ok() {
        assert!(std::time::Instant::now() < end, "the password from before still counts");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let state = cluster.members[1].state().await;
    assert!(state.receiving && state.start == before.start, "replication goes on: {state:?}");
}

/// Clients that connect and say nothing, and requests that are too large or not understood.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_occupy_connections_keep_nobody_out() {
    let cluster = DatabaseCluster::with_primary(1).await;
    let member = &cluster.members[0];
    let address = (member.address.to_string(), 8090);
    let silent: Vec<_> = (0..500).filter_map(|_| TcpStream::connect((address.0.as_str(), address.1)).ok()).collect();
    assert!(silent.len() > 200);
    for _ in 0..20 {
        assert!(member.state().await.writable);
    }
    let client = Arc::new(Client::default());
    let url = member.url();
    let second = Duration::from_secs(5);
    for (path, body, status) in [
        ("/v1/fence", vec![b' '; LIMIT + 1], 400),
        ("/v1/fence", b"{}".to_vec(), 400),
        ("/v1/kill", b"{}".to_vec(), 400),
        ("/v2/fence", b"{}".to_vec(), 400),
        ("/", Vec::new(), 400),
    ] {
        let answer = client.ask(&url, http::Method::POST, path, body, second).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
        let refusal: tillerman::agent::contract::Refusal = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(refusal.reason, Reason::Invalid);
    }
    let hostile = ["db-1'; DROP DATABASE app; --", "../x", ""];
    for name in hostile {
        let order = tillerman::agent::contract::Follow {
            epoch: 1,
            number: Some(0),
            data: cluster.data.clone(),
            source: name.into(),
            acknowledge: true,
        };
        assert_eq!(member.order(&Verb::Follow(order)).await.unwrap_err().reason, Reason::Invalid, "{name}");
    }
    assert!(member.state().await.writable);
    drop(silent);
}

/// Processes whose parents have ended are waited for: the agent is the first process of its container.
#[tokio::test(flavor = "multi_thread")]
async fn the_agent_waits_for_processes_that_nobody_else_waits_for() {
    let cluster = DatabaseCluster::with_primary(1).await;
    let agent = cluster.members[0].process_of("tillerman-agent").to_string();
    let children = || {
        let listed = Command::new("ps").args(["-o", "stat=,args=", "--ppid", &agent]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let made = Command::new("nsenter").args(["-t", &agent, "-p", "-m", "sh", "-c", "sleep 0.2 &"]).status().unwrap();
    assert!(made.success());
    assert!(children().contains("sleep"), "{}", children());
    let since = std::time::Instant::now();
    while children().lines().count() > 1 {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", children());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(children().contains(server()));
}
