//! Certificates, and users with passwords.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use std::fs;
use std::process::Command;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tillerman::chaos::reach::Reach;
use tillerman::chaos::record::Recorder;
use tillerman::members::driver::MemberStep;
use tillerman::members::etcd::client::{Access, Tls};
use tillerman::members::url::Pattern;
use tokio::time::timeout;

use crate::check::assert_linearizable;
use crate::cluster::Cluster;
use crate::pods::StatefulSet;
use crate::writer::Writer;

/// Makes an authority, a certificate for members and one for clients.
const CERTIFICATES: &str = r#". tests/cluster/lib.sh; member_certs "$1" "$2""#;

/// Makes them in the folder of the pods, for so many of them.
fn certificates(pods: &StatefulSet, ordinals: std::ops::Range<u32>) {
    // Members call each other from 127.0.0.1, and check that too.
    let mut names = vec!["IP:127.0.0.1".to_owned(), "DNS:*.e.ns.svc".to_owned()];
    names.extend(ordinals.map(|ordinal| format!("IP:{}", pods.address(ordinal))));
    let folder = format!("{}/", pods.folder.display());
    let made = Command::new("bash").args(["-ec", CERTIFICATES, "bash", &folder, &names.join(",")]).output();
    let made = made.expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// F21: peers get certificates, pod by pod, the leader's last: each is announced under its new URL before it restarts, and writes
/// continue.
#[tokio::test(flavor = "multi_thread")]
async fn peers_go_from_http_to_https_pod_by_pod() {
    let mut cluster = Cluster::grown(3).await;
    cluster.lead(2).await;
    certificates(&cluster.pods, 0..4);
    let file = |name: &str| cluster.pods.folder.join(name).display().to_string();
    let mut flags = vec!["--peer-client-cert-auth".to_owned()];
    for (flag, name) in [("cert", "member.crt"), ("key", "member.key"), ("trusted-ca", "ca.crt")] {
        flags.push(format!("--peer-{flag}-file={}", file(name)));
    }
    cluster.pods.peer_tls.insert("r2", flags);
    cluster.pods.template = "r2";
    let url = cluster.pods.pattern(2380).replace("http:", "https:");
    cluster.driver.settings.peer_url = Pattern::new(&url, "e").expect("it has an ordinal");
    cluster.done.clear();
    let writer = cluster.writer();
    cluster
        .until("all are new", |cluster, step| {
            *step == MemberStep::Quiet && cluster.pods.pods.values().all(|running| &*running.pod.revision == "r2")
        })
        .await;
    let url = |ordinal| cluster.driver.settings.peer_url.url(ordinal);
    let told = |ordinal| format!("announce member {ordinal} at {} to the others", url(ordinal));
    let expected = [
        told(1),
        "delete pod 1".into(),
        told(0),
        "delete pod 0".into(),
        "let member 0 lead".into(),
        told(2),
        "delete pod 2".into(),
    ];
    assert_eq!(cluster.done, expected);
    let members = cluster.look().await.0.members.expect("it has a quorum");
    assert!(members.iter().all(|member| member.peer_urls[0].starts_with("https:")), "{members:?}");
    eprintln!("longest gap {:.3?}", writer.longest_gap());
    cluster.resize(4).await;
    cluster.resize(3).await;
    cluster.assert_same_data().await;
    assert_eq!(cluster.refused, []);
    assert_eq!(writer.lost(&cluster.pods.client_url(0)).await, 0);
}

/// F21: clients, and then peers too, go from http to https pod by pod and back: each pod is asked by the scheme of its own template,
/// writes continue, and nobody loses the quorum on the way.
#[tokio::test(flavor = "multi_thread")]
async fn clients_go_from_http_to_https_and_back_pod_by_pod() {
    let mut cluster = Cluster::grown(3).await;
    certificates(&cluster.pods, 0..4);
    let folder = cluster.pods.folder.clone();
    let file = |name: &str| folder.join(name).display().to_string();
    let flags = |of: &str| {
        let mut flags = vec![format!("--{of}client-cert-auth")];
        for (flag, name) in [("cert", "member.crt"), ("key", "member.key"), ("trusted-ca", "ca.crt")] {
            flags.push(format!("--{of}{flag}-file={}", file(name)));
        }
        flags
    };
    let read = |name: &str| fs::read(file(name)).expect("it was made");
    let (plain, secure) = (cluster.pods.pattern(2379), cluster.pods.pattern(2379).replace("http:", "https:"));
    let at = |pattern: &str| Pattern::new(pattern, "e").expect("it has an ordinal");
    let options = TlsOptions::new().ca_certificate(Certificate::from_pem(read("ca.crt")));
    let options = options.identity(Identity::from_pem(read("client.crt"), read("client.key")));
    let options = Some(ConnectOptions::new().with_tls(options));
    let by_plain = (0..4).map(|ordinal| (at(&plain).url(ordinal), None));
    let by_tls = (0..4).map(|ordinal| (at(&secure).url(ordinal), options.clone()));
    let writer = Writer::start_with(by_plain.chain(by_tls).collect());

    let peers = cluster.pods.pattern(2380);
    let peers_by_tls = peers.replace("http:", "https:");
    for (template, clients, members) in [
        ("r2", &secure, &peers),
        ("r3", &plain, &peers),
        ("r4", &secure, &peers_by_tls),
        ("r5", &secure, &peers_by_tls),
    ] {
        if clients.starts_with("https:") {
            cluster.pods.client_tls.insert(template, flags(""));
        }
        if members.starts_with("https:") {
            cluster.pods.peer_tls.insert(template, flags("peer-"));
        }
        cluster.pods.template = template;
        cluster.driver.settings.client_url = at(clients);
        cluster.driver.settings.peer_url = at(members);
        // Named as long as a pod has it: on the way back, too.
        cluster.driver.access.tls =
            Some(Tls { ca: read("ca.crt"), identity: Some((read("client.crt"), read("client.key"))) });
        cluster.done.clear();
        let (from, mut quorum) = (writer.count(), true);
        cluster
            .until("all are new", |cluster, step| {
                quorum &= !matches!(step, MemberStep::Stop { .. });
                *step == MemberStep::Quiet
                    && cluster.pods.pods.values().all(|running| &*running.pod.revision == template)
            })
            .await;
        assert!(quorum, "{template}: {:#?}", cluster.done);
        let pods = cluster.done.iter().filter(|done| done.starts_with("delete pod")).count();
        assert_eq!(pods, 3, "{template}: {:#?}", cluster.done);
        assert!(
            !cluster
                .done
                .iter()
                .any(|done| done.contains("member") && !done.contains("lead") && !done.contains("announce"))
        );
        let (observed, _) = cluster.look().await;
        assert_eq!(observed.answers.len(), 3);
        assert!(writer.count() > from, "{template}: writes go on");
        eprintln!("{template}: longest gap {:.3?}", writer.longest_gap());
    }
    cluster.resize(4).await;
    cluster.resize(3).await;
    assert_eq!(cluster.refused, []);
    assert_eq!(writer.lost_with(&(at(&secure).url(0), options)).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_and_passwords_grows_and_shrinks() {
    let mut pods = StatefulSet::new();
    let folder = pods.folder.clone();
    let file = |name: &str| folder.join(name).display().to_string();
    certificates(&pods, 0..4);
    for (flag, name) in [("cert", "member.crt"), ("key", "member.key"), ("trusted-ca", "ca.crt")] {
        pods.tls.extend([format!("--{flag}-file={}", file(name)), format!("--peer-{flag}-file={}", file(name))]);
    }
    pods.tls.extend(["--client-cert-auth".to_owned(), "--peer-client-cert-auth".to_owned()]);
    let read = |name: &str| fs::read(file(name)).expect("it was made");
    let tls = Tls { ca: read("ca.crt"), identity: Some((read("client.crt"), read("client.key"))) };
    let mut cluster = Cluster::of(pods, Some(tls), 1);
    cluster.settle().await;
    cluster.resize(2).await;

    let options = TlsOptions::new().ca_certificate(Certificate::from_pem(read("ca.crt")));
    let options = options.identity(Identity::from_pem(read("client.crt"), read("client.key")));
    let url = cluster.pods.client_url(0);
    let mut client = Client::connect([url], Some(ConnectOptions::new().with_tls(options))).await.expect("it is a URL");
    client.user_add("root", "secret", None).await.expect("there are no users yet");
    client.user_grant_role("root", "root").await.expect("root is there");
    client.auth_enable().await.expect("root has its role");

    cluster.target.size = 3;
    cluster.until("a call is refused", |cluster, _| !cluster.refused.is_empty()).await;
    let members = cluster.look().await.0.members.map(|members| members.len());
    assert!(members.is_none_or(|members| members == 2), "{members:?}: nobody joined without a password");

    cluster.refused.clear();
    cluster.driver.access.user = Some(("root".to_owned(), "secret".to_owned()));
    cluster.settle().await;
    // Those who record come to the same addresses, and take the certificate only for a name that it has.
    let access = Access { timeout: Duration::from_secs(1), ..cluster.driver.access.clone() };
    let reach = |name: &str| Reach { access: access.clone(), name: Some(name.to_owned()) };
    let urls: Vec<String> = (0..3).map(|ordinal| cluster.pods.client_url(ordinal)).collect();
    let other = timeout(Duration::from_secs(5), reach("e-0.other.ns.svc").client(&urls[0])).await;
    assert!(!matches!(other, Ok(Ok(_))), "the certificate is for another name");
    let recorder = Recorder::start(reach("e-0.e.ns.svc"), urls, "recorded", 1);
    let done = cluster.resize(1).await;
    assert_linearizable(recorder, "secured").await;
    assert_eq!(cluster.refused, [], "{done:#?}");
    assert_eq!(cluster.look().await.1, MemberStep::Quiet);
}
