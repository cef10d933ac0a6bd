//! Certificates and passwords whose files are replaced, as the kubelet does it, without an order; and metrics.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tillerman::agent::client::Client;
use tillerman::agent::tls::{Tls, TlsFiles};

use crate::cluster::{DatabaseCluster, PATIENCE, connect_as, is_mysql, server};

/// The fingerprint of the certificate that a server shows.
fn shown(address: &str, more: &[&str]) -> String {
    let script = r#"openssl s_client -connect "$@" </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256"#;
    let said =
        Command::new("bash").args(["-c", script, "bash", address]).args(more).stderr(Stdio::null()).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

/// Another certificate of the same authority, in one step.
fn renew(folder: &Path, names: &str) {
    let script = r#". tests/cluster/lib.sh; mkdir -p "$1/new"; cp "$1"/ca.* "$1/new/"; cert "$1/new" member /CN=member "$2"; mv "$1"/new/member.key "$1"/new/member.crt "$1/""#;
    let made = Command::new("bash").args(["-ec", script, "bash"]).arg(folder).arg(names).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_and_a_new_password_count_without_an_order_and_without_a_restart() {
    let mut cluster = DatabaseCluster::new(2);
    let names = cluster.members.iter().map(|member| format!("IP:{}", member.address)).collect::<Vec<_>>().join(",");
    let folder = cluster.folder().join("tls");
    fs::create_dir_all(&folder).unwrap();
    let made = Command::new("bash")
        .args(["-ec", r#". tests/cluster/lib.sh; member_certs "$1" "$2""#, "bash"])
        .arg(&folder)
        .arg(&names)
        .output();
    assert!(made.unwrap().status.success());
    let files = Tls {
        certificate: folder.join("member.crt"),
        key: folder.join("member.key"),
        authorities: folder.join("ca.crt"),
    };
    for member in &mut cluster.members {
        member.tls = Some(files.clone());
        member.client = Client { tls: Some(TlsFiles::read(&files).unwrap().client()) };
    }
    cluster.create().await;
    cluster.grow(2).await;
    let addresses: Vec<String> = cluster.members.iter().map(|member| member.address.to_string()).collect();
    let all = || {
        let each = |address: &String| {
            [shown(&format!("{address}:3306"), &["-starttls", "mysql"]), shown(&format!("{address}:8090"), &[])]
        };
        addresses.iter().flat_map(each).collect::<Vec<_>>()
    };
    let before = all();
    assert!(before.iter().all(|shown| *shown == before[0] && shown.contains("Fingerprint")), "{before:?}");
    let starts = [cluster.members[0].state().await.start, cluster.members[1].state().await.start];

    // Half of a pair is not used, and is said.
    fs::write(folder.join("member.key"), "no key").unwrap();
    for member in &cluster.members {
        let state = member.until("it cannot be used", |state| state.problem.is_some()).await;
        assert!(state.problem.unwrap().contains("member.key"));
    }
    assert_eq!(all(), before);

    renew(&folder, &names);
    fs::write(cluster.folder().join("admin"), "another").unwrap();
    let since = Instant::now();
    loop {
        let now = all();
        if now.iter().all(|shown| *shown == now[0] && *shown != before[0] && shown.contains("Fingerprint")) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{now:?}");
    }
    eprintln!("databases and agents show the new certificate after {:.1?}", since.elapsed());
    for (member, start) in cluster.members.iter().zip(starts) {
        let state = member.until("all is well", |state| state.problem.is_none()).await;
        assert_eq!(state.start, start);
        assert!(connect_as(member.address, "admin", crate::cluster::PASSWORD).await.is_err());
        connect_as(member.address, "admin", "another").await.unwrap();
    }
    // The members still follow each other, also with a connection that is made now.
    cluster.fence(1, 1).await.unwrap();
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[1].until("it receives", |state| state.receiving && state.applying).await;
}

/// The password with which members follow each other is renewed in the pod of the replica first: nothing ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_the_new_password_first_keeps_its_connection() {
    let mut cluster = DatabaseCluster::new(2);
    // Each has a file of its own, as in pods.
    for member in &mut cluster.members {
        let path = member.folder.join("password");
        fs::write(&path, "first").unwrap();
        member.flags.push(format!("--password-file={}", path.display()));
    }
    cluster.create().await;
    cluster.grow(2).await;
    let renewed = |k: usize| fs::write(cluster.members[k].folder.join("password"), "second").unwrap();
    renewed(1);
    for number in 0..40 {
        let commit = format!("CREATE DATABASE d{number}");
        tokio::time::timeout(Duration::from_secs(5), cluster.members[0].run(&commit))
            .await
            .expect("it is acknowledged")
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(cluster.members[1].state().await.receiving);
    // Its connection ends, and the primary still has the old one. As soon as that has the new one, it is let in.
    cluster.fence(1, 1).await.unwrap();
    cluster.follow(1, 1, 0, true).await.unwrap();
    cluster.members[1].until("it is refused", |state| !state.receiving).await;
    renewed(0);
    cluster.members[1].until("it receives", |state| state.receiving && state.applying).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_how_members_are_and_are_answered_while_the_database_hangs() {
    let mut cluster = DatabaseCluster::new(2);
    for member in &mut cluster.members {
        member.flags.push(format!("--listen-health={}:8091", member.address));
    }
    cluster.create().await;
    cluster.grow(2).await;
    let metrics = async |k: usize| {
        let url = format!("http://{}:8091", cluster.members[k].address);
        let answer = Client::default()
            .ask(&url, http::Method::GET, "/metrics", Vec::new(), Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(answer.status, 200);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    cluster.members[0].run("CREATE DATABASE hidden_name").await.unwrap();
    let (primary, replica) = (metrics(0).await, metrics(1).await);
    let has = |text: &str, line: &str| assert!(text.lines().any(|own| own == line), "{line} is not in {text}");
    for line in [
        "mysql_up 1",
        "tillerman_mysql_role{role=\"Primary\"} 1",
        "tillerman_mysql_writable 1",
        "tillerman_mysql_acknowledging 1",
        "tillerman_mysql_required_acks 1",
        "mysql_global_variables_read_only 0",
        "mysql_global_variables_innodb_buffer_pool_size 33554432",
    ] {
        has(&primary, line);
    }
    let word = if is_mysql() { "source" } else { "master" };
    has(&primary, &format!("mysql_global_status_rpl_semi_sync_{word}_clients 1"));
    has(&primary, &format!("mysql_global_variables_rpl_semi_sync_{word}_enabled 1"));
    for line in [
        "tillerman_mysql_role{role=\"Replica\"} 1",
        "tillerman_mysql_acknowledges 1",
        "mysql_slave_status_slave_io_running 1",
        "mysql_slave_status_slave_sql_running 1",
        "mysql_slave_status_seconds_behind_master 0",
        "mysql_global_variables_read_only 1",
    ] {
        has(&replica, line);
    }
    let value = |name: &str| {
        let line =
            primary.lines().find(|line| line.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(value("tillerman_mysql_data_bytes") > 1e6 && value("mysql_global_status_queries") > 1.0);
    assert!(value("mysql_global_status_buffer_pool_pages{state=\"data\"}") > 1.0);
    assert!(!primary.contains("hidden_name") && !primary.contains("admin"));
    // Every line is a comment, or a name, perhaps with one label, and a number.
    for line in primary.lines().filter(|line| !line.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(
            number.parse::<f64>().is_ok()
                && name.split('{').next().unwrap().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{line}"
        );
    }
    cluster.members[0].signal("STOP", server());
    let hangs = metrics(0).await;
    has(&hangs, "mysql_up 0");
    has(&hangs, "tillerman_mysql_role{role=\"Primary\"} 1");
    cluster.members[0].signal("CONT", server());
}
