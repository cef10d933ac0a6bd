//! Certificates, and users with passwords.

use std::fs;
use std::process::Command;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tillerman::members::driver::Step;
use tillerman::members::etcd::client::Tls;

use crate::cluster::Cluster;
use crate::pods::StatefulSet;

/// Makes an authority, a certificate for all members and one for clients.
const CERTIFICATES: &str = r"
    . tests/cluster/lib.sh
    openssl ecparam -name prime256v1 -genkey -noout -out $1/ca.key
    openssl req -x509 -new -key $1/ca.key -subj /CN=members -days 2 -out $1/ca.crt
    cert $1 member /CN=member $2
    cert $1 client /CN=nobody
";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_and_passwords_grows_and_shrinks() {
    let mut pods = StatefulSet::new();
    let folder = pods.folder.clone();
    let file = |name: &str| folder.join(name).display().to_string();
    // Members call each other from 127.0.0.1, and check that too.
    let mut names = vec!["IP:127.0.0.1".to_owned()];
    names.extend((0..4).map(|ordinal| format!("IP:{}", pods.address(ordinal))));
    let made = Command::new("bash").args(["-ec", CERTIFICATES, "bash", &file(""), &names.join(",")]).output();
    let made = made.expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
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
    let done = cluster.resize(1).await;
    assert_eq!(cluster.refused, [], "{done:#?}");
    assert_eq!(cluster.look().await.1, Step::Quiet);
}
