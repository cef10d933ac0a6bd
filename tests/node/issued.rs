//! A cluster of etcd with certificates that cert-manager issues, and the `ServiceMonitor` of the Prometheus operator. Of cert-manager the
//! program runs beside the node; of the Prometheus operator there are the definitions.

use std::fs::File;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::etcd::{Etcd, names};
use crate::eventually;
use crate::harness::cluster_dir;
use crate::restore::uids;
use crate::writer::Writer;

/// cert-manager for one namespace.
struct CertManager(Child);

impl CertManager {
    fn start(namespace: &str) -> Self {
        let log = File::create(std::env::temp_dir().join(format!("{namespace}-cert-manager.log"))).unwrap();
        let kubeconfig = cluster_dir().join("admin.kubeconfig");
        let mut command = Command::new("cert-manager");
        command.args(["--leader-elect=false", "--metrics-listen-address=127.0.0.1:0"]);
        command.arg(format!("--namespace={namespace}")).arg(format!("--kubeconfig={}", kubeconfig.display()));
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().expect("cert-manager is on PATH"))
    }
}

impl Drop for CertManager {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Asks cert-manager for a certificate before its time, as `cmctl renew` does.
fn renew(etcd: &Etcd, certificate: &str) {
    let found = etcd.get(&["certificate", certificate]).unwrap();
    let mut conditions = found["status"]["conditions"].as_array().cloned().unwrap();
    conditions.push(json!({"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked for",
        "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}));
    let patch = json!({"status": {"conditions": conditions}}).to_string();
    etcd.kubectl(&["patch", "certificate", certificate, "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
}

/// Members and clients get their certificates, and others later in their place, while clients write.
#[tokio::test(flavor = "multi_thread")]
async fn cert_manager_issues_the_certificates_of_a_cluster_and_renews_them() {
    let etcd = Etcd::new(
        "issued",
        &json!({
            "size": 3, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi"},
            "TLS": {"certManager": {"enabled": true}}, "serviceMonitor": {"enabled": true},
        }),
    );
    let _cert_manager = CertManager::start(&etcd.namespace);
    etcd.ready();
    let mut client = etcd.client(true).await;
    let list = client.member_list().await.unwrap();
    assert_eq!(list.members().len(), names(3).len());
    assert!(list.members().iter().flat_map(etcd_client::Member::peer_urls).all(|url| url.starts_with("https://")));
    assert!(etcd.client(false).await.get("key", None).await.is_err(), "a client without a certificate is refused");

    let (pods, endpoint) = (uids(&etcd, "pods"), (etcd.url("https"), Some(etcd.options(true))));
    let writer = Writer::start_with(vec![endpoint.clone()]);
    for certificate in ["my-peer", "my-server", "my-client"] {
        let secret = format!("{certificate}-tls");
        let before = etcd.secret(&secret);
        renew(&etcd, certificate);
        eventually(&format!("{certificate} is renewed"), || {
            let after = etcd.secret(&secret);
            let renewed = after["tls.crt"] != before["tls.crt"] && after["ca.crt"] == before["ca.crt"];
            if renewed { Ok(()) } else { Err("it is the old one".to_owned()) }
        });
    }
    let served = etcd.secret("my-server-tls")["tls.crt"].clone();
    eventually("all members show their new certificate", || {
        let shown: Vec<_> = etcd.pods().into_values().map(|address| shown(&format!("{address}:2379"))).collect();
        if shown.iter().all(|shown| *shown == fingerprint(&served)) {
            Ok(())
        } else {
            Err("one has the old one".to_owned())
        }
    });
    etcd.ready();
    etcd.client(true).await.put("key", "value", None).await.unwrap();
    assert_eq!(uids(&etcd, "pods"), pods, "no pod was replaced for it");
    assert_eq!(writer.lost_with(&endpoint).await, 0);

    // What Prometheus would look for is there.
    let monitor = etcd.get(&["servicemonitor", "my"]).unwrap();
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap().clone();
    let services = etcd.get(&["services"]).unwrap();
    let selected = |service: &&Value| wanted.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value);
    let services: Vec<&Value> = services["items"].as_array().unwrap().iter().filter(selected).collect();
    let ports = services.iter().flat_map(|service| service["spec"]["ports"].as_array().unwrap());
    let port = ports.clone().find(|port| port["name"] == monitor["spec"]["endpoints"][0]["port"]).unwrap();
    assert_eq!(services.len(), 1, "each member is looked at once");
    for address in etcd.pods().values() {
        let url = format!("http://{address}:{}/metrics", port["port"]);
        let told = Command::new("curl").args(["-sf", &url]).output().unwrap();
        assert!(String::from_utf8_lossy(&told.stdout).contains("etcd_server_has_leader 1"), "{url}: {told:?}");
    }
}

/// The fingerprint of the certificate that a member shows.
fn shown(address: &str) -> String {
    let script = "openssl s_client -connect \"$1\" </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256";
    let told = Command::new("bash").args(["-c", script, "bash", address]).output().unwrap();
    String::from_utf8_lossy(&told.stdout).into_owned()
}

fn fingerprint(certificate: &[u8]) -> String {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = openssl.spawn().unwrap();
    child.stdin.take().unwrap().write_all(certificate).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}
