//! Clusters of etcd with certificates of the user's own, under coreos' names, and with authentication: their whole life on pods.

use crate::etcd::{Etcd, names};
use crate::eventually;
use crate::harness::repository;
use crate::restore::{Gateway, create, told, uids};
use crate::writer::{Endpoint, Writer};
use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, PermissionType, TlsOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PASSWORD: &str = "canary-91f2d0aa";
/// Files of openssl's for an authority, the members' two pairs, and one pair for each client.
const CERTIFICATES: &str = r#". tests/cluster/lib.sh
openssl ecparam -name prime256v1 -genkey -noout -out "$1/ca.key"
openssl req -x509 -new -key "$1/ca.key" -subj /CN=authority -days 2 -out "$1/ca.crt"
cert "$1" peer /CN=peer "$2"
cert "$1" server /CN=server "$3"
for user in operator app nobody; do cert "$1" "$user" "/CN=$user"; done"#;

/// A cluster with `TLS.static` and `auth.rootSecret`.
struct Secure {
    etcd: Etcd,
    folder: PathBuf,
}

impl Secure {
    fn new(test: &str, gateway: &Gateway, spec: &Value) -> Self {
        let mut all = json!({
            "repository": "localhost/etcd", "storage": {"size": "1Gi"}, "members": {"deadAfter": "20s"},
            "TLS": {"static": {"member": {"peerSecret": "peers", "serverSecret": "servers"}, "operatorSecret": "operator"}},
            "auth": {"rootSecret": "root"},
        });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        // The Secrets come when pods and operator wait for them already.
        let etcd = Etcd::new(test, &all);
        let folder = std::env::temp_dir().join(&etcd.namespace);
        std::fs::create_dir_all(&folder).unwrap();
        let secure = Self { etcd, folder };
        secure.certify();
        gateway.tell(&secure.etcd.namespace);
        secure
    }

    /// Makes certificates, and Secrets of them under coreos' names.
    fn certify(&self) {
        let domain = format!("my.{}.svc", self.etcd.namespace);
        let peers = format!("DNS:*.{domain},DNS:*.{domain}.cluster.local");
        let client = format!("DNS:my-client,DNS:my-client.{}.svc,DNS:localhost", self.etcd.namespace);
        let servers = format!("{peers},DNS:{domain},{client},IP:127.0.0.1");
        let folder = self.folder.display().to_string();
        let mut command = Command::new("bash");
        let made = command.args(["-ec", CERTIFICATES, "bash", &folder, &peers, &servers]);
        let made = made.current_dir(repository("")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for (secret, pair, prefix) in
            [("peers", "peer", "peer"), ("servers", "server", "server"), ("operator", "operator", "etcd-client")]
        {
            let file = |key: &str, file: &str| format!("--from-file={prefix}{key}={folder}/{file}");
            let files =
                [file(".crt", &format!("{pair}.crt")), file(".key", &format!("{pair}.key")), file("-ca.crt", "ca.crt")];
            self.etcd.kubectl(&["create", "secret", "generic", secret, &files[0], &files[1], &files[2]]).unwrap();
        }
        let password = format!("--from-literal=password={PASSWORD}");
        self.etcd.kubectl(&["create", "secret", "generic", "root", "--from-literal=username=root", &password]).unwrap();
    }

    /// Where clients find it, with a client's certificate, and with the password of a user.
    fn endpoint(&self, certificate: &str, user: Option<&str>) -> Endpoint {
        let read = |name: &str| std::fs::read(self.folder.join(name)).unwrap();
        let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read("ca.crt")));
        let tls = tls.domain_name(format!("my-client.{}.svc", self.etcd.namespace));
        let pair = [format!("{certificate}.crt"), format!("{certificate}.key")].map(|name| read(&name));
        let tls = tls.identity(Identity::from_pem(&pair[0], &pair[1]));
        let mut options = ConnectOptions::new().with_tls(tls).with_timeout(Duration::from_secs(5));
        if let Some(user) = user {
            options = options.with_user(user, PASSWORD);
        }
        (self.etcd.url("https"), Some(options))
    }

    async fn client(&self, certificate: &str, user: Option<&str>) -> Client {
        // Behind the Service may be a member that has no vote yet, and such a one gives nobody a token.
        for _ in 0..100 {
            let (url, options) = self.endpoint(certificate, user);
            match Box::pin(Client::connect([url], options)).await {
                Err(error) if error.to_string().contains("rpc not supported for learner") => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                client => return client.unwrap(),
            }
        }
        panic!("only members without a vote answer");
    }

    /// Users `root` and `app`, who may write; then nobody may do anything without a name.
    async fn authenticate(&self) {
        let mut client = self.client("nobody", None).await;
        for (user, role) in [("root", "root"), ("app", "writer")] {
            client.user_add(user, PASSWORD, None).await.unwrap();
            client.role_add(role).await.unwrap();
            client.user_grant_role(user, role).await.unwrap();
        }
        let everything = etcd_client::Permission::new(PermissionType::Readwrite, "").with_all_keys();
        client.role_grant_permission("writer", everything).await.unwrap();
        client.auth_enable().await.unwrap();
    }

    async fn voters(&self) -> BTreeMap<String, u64> {
        let mut client = self.client("nobody", Some("root")).await;
        let list = client.member_list().await.unwrap();
        assert!(list.members().iter().all(|m| !m.is_learner() && !m.name().is_empty()), "{list:?}");
        assert!(
            list.members().iter().flat_map(etcd_client::Member::peer_urls).all(|url| url.starts_with("https://")),
            "{list:?}"
        );
        list.members().iter().map(|m| (m.name().to_owned(), m.id())).collect()
    }

    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for address in self.etcd.pods().values() {
            let (_, options) = self.endpoint("nobody", Some("root"));
            let mut client = Client::connect([format!("https://{address}:2379")], options).await.unwrap();
            versions.push(client.status().await.unwrap().version().to_owned());
        }
        versions
    }

    async fn keys(&self) -> Vec<String> {
        let mut client = self.client("nobody", Some("app")).await;
        let all = client.get("", Some(GetOptions::new().with_all_keys().with_keys_only())).await.unwrap();
        all.kvs().iter().map(|kv| kv.key_str().unwrap().to_owned()).collect()
    }

    /// A client must have a name: by a password, or by a certificate of that name.
    async fn is_closed(&self) {
        let denied = self.client("nobody", None).await.get("key", None).await.unwrap_err().to_string();
        assert!(denied.contains("permission denied") || denied.contains("user"), "{denied}");
        self.client("app", None).await.put("by-certificate", "value", None).await.unwrap();
        let plain = Client::connect([self.etcd.url("http")], None).await.unwrap().get("key", None).await;
        assert!(plain.is_err(), "{plain:?}");
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// With `TLS.static` and passwords: from one to three, a member destroyed, 3.5 to 3.6 under a writer; a backup, restored into
/// the same cluster and into a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_and_passwords_lives_is_backed_up_and_restored() {
    let gateway = Gateway::start();
    let cluster = Secure::new("secure", &gateway, &json!({"size": 1, "version": "3.5.35"}));
    let etcd = &cluster.etcd;
    etcd.ready();
    cluster.authenticate().await;
    cluster.is_closed().await;
    let endpoint = cluster.endpoint("nobody", Some("app"));
    let writer = Writer::start_with(vec![endpoint.clone()]);
    let done = |what: &str| {
        eprintln!("{what}: longest pause of writes {:?}, {} written", writer.longest_gap(), writer.count());
    };

    etcd.patch(&json!({"size": 3}));
    etcd.ready();
    assert_eq!(cluster.voters().await.into_keys().collect::<Vec<_>>(), names(3));
    done("1 to 3");

    let before = cluster.voters().await;
    etcd.kubectl(&["delete", "pvc", "data-my-1", "--wait=false"]).unwrap();
    etcd.kubectl(&["delete", "pod", "my-1"]).unwrap();
    eventually("my-1 has a new claim", || {
        let fresh = etcd.get(&["pvc", "data-my-1"])?["metadata"]["deletionTimestamp"].is_null();
        if fresh { Ok(()) } else { Err("the old one is there".to_owned()) }
    });
    let mut after = BTreeMap::new();
    for _ in 0..1200 {
        let list = cluster.client("nobody", Some("root")).await.member_list().await;
        let list = list.map(|list| list.members().to_vec()).unwrap_or_default();
        after = list.iter().filter(|m| !m.is_learner()).map(|m| (m.name().to_owned(), m.id())).collect();
        if after.get("my-1").is_some_and(|id| *id != before["my-1"]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    etcd.ready();
    assert_eq!(cluster.voters().await, after);
    assert_ne!(after["my-1"], before["my-1"]);
    assert_eq!((after["my-0"], after["my-2"], after.len()), (before["my-0"], before["my-2"], 3));
    done("a member destroyed");

    etcd.patch(&json!({"version": "3.6.16"}));
    etcd.ready();
    assert_eq!(cluster.versions().await, vec!["3.6.16"; 3]);
    assert_eq!(cluster.voters().await, after, "an upgrade replaces nobody");
    done("3.5.35 to 3.6.16");
    assert_eq!(writer.lost_with(&endpoint).await, 0);
    cluster.is_closed().await;

    // A backup, with the Secret that the operator itself has.
    let s3 = json!({"path": "backups/my.backup", "awsSecret": "aws"});
    let backup = json!({"etcdEndpoints": ["https://my-client:2379"], "storageType": "S3", "s3": s3,
        "clientTLSSecret": "operator", "basicAuthSecret": "root"});
    create(etcd, "EtcdBackup", "once", &backup);
    let status = told(etcd, "etcdbackup/once", true);
    assert_eq!(status["etcdVersion"], "3.6.16", "{status}");
    let kept = cluster.keys().await;
    cluster.client("nobody", Some("app")).await.put("after-the-backup", "value", None).await.unwrap();
    let claims = uids(etcd, "pvc");

    // Without a certificate, and without a password, it would destroy a cluster that it cannot look at afterwards.
    let mut restore = json!({"etcdCluster": {"name": "my"}, "backupStorageType": "S3", "s3": s3});
    for (missing, given) in
        [("clientTLSSecret", json!({})), ("basicAuthSecret", json!({"clientTLSSecret": "operator"}))]
    {
        let mut spec = restore.clone();
        spec.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        create(etcd, "EtcdRestore", "wrong", &spec);
        let status = told(etcd, "etcdrestore/wrong", false);
        assert!(status["reason"].as_str().unwrap_or_default().contains(missing), "{status}");
        assert_eq!(uids(etcd, "pvc"), claims);
        etcd.kubectl(&["delete", "etcdrestore", "wrong", "--timeout=60s"]).unwrap();
    }
    restore["clientTLSSecret"] = json!("operator");
    restore["basicAuthSecret"] = json!("root");
    create(etcd, "EtcdRestore", "my", &restore);
    let status = told(etcd, "etcdrestore/my", true);
    assert_eq!(status["keys"], kept.len(), "{status}");
    etcd.ready();
    assert_eq!(cluster.keys().await, kept);
    assert_eq!(cluster.voters().await.into_keys().collect::<Vec<_>>(), names(3));
    assert!(uids(etcd, "pvc").iter().all(|uid| !claims.contains(uid)), "the volumes are new");
    cluster.is_closed().await;

    // Another cluster begins with it: its users are those of the backup from the first moment.
    let other = json!({"size": 3, "version": "3.6.16", "restore": {"storageType": "S3", "s3": s3}});
    let other = Secure::new("secure-other", &gateway, &other);
    other.etcd.ready();
    assert_eq!(other.voters().await.into_keys().collect::<Vec<_>>(), names(3));
    assert_eq!(other.keys().await, kept);
    other.is_closed().await;

    // Neither the operator nor anything that it wrote shows a password.
    let log = crate::harness::kubectl(&["-n", "etcd-operator", "logs", "deployment/etcd-operator"], None).unwrap();
    let events = etcd.kubectl(&["get", "events", "-o", "yaml"]).unwrap();
    let objects = etcd.kubectl(&["get", "etcd,etcdbackups,etcdrestores,pods,jobs", "-o", "yaml"]).unwrap();
    assert!(!format!("{log}{events}{objects}").contains(PASSWORD));
}

/// Authorities take turns while clients write: pods are replaced one by one so that they know the next, and no write is lost.
#[tokio::test(flavor = "multi_thread")]
async fn authorities_take_turns_under_writes() {
    let etcd = Etcd::new(
        "secure-turns",
        &json!({
            "size": 3, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi"},
            // An authority signs for two and a half minutes, and a certificate is in use for one and a half.
            "TLS": {"generated": {"enabled": true, "days": 1, "renewBeforeDays": 0.999, "authorityDays": 3,
                "authorityTurnDays": 0.0018}},
        }),
    );
    etcd.ready();
    let (url, before) = (etcd.url("https"), uids(&etcd, "pods"));
    // What a client was given before the turn is good until the next.
    let endpoint: Endpoint = (url, Some(etcd.options(true)));
    let writer = Writer::start_with(vec![endpoint.clone()]);
    eventually("the next authority signs, and all pods know the one after it", || {
        let pods = etcd.get(&["pods", "-l", "etcd_cluster=my"])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let new = |pod: &Value| pod["metadata"]["annotations"]["tillerman.dev/authority"] == "2";
        if pods.len() == 3 && pods.iter().all(new) { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
    etcd.ready();
    assert!(uids(&etcd, "pods").iter().all(|uid| !before.contains(uid)));
    assert_eq!(etcd.get(&["secret", "my-ca-tls"]).unwrap()["metadata"]["annotations"]["tillerman.dev/authority"], "2");
    eprintln!("a turn: longest pause of writes {:?}, {} written", writer.longest_gap(), writer.count());
    assert_eq!(writer.lost_with(&endpoint).await, 0);
    let mut client = etcd.client(true).await;
    assert_eq!(client.member_list().await.unwrap().members().len(), 3, "with what clients are given now");
}

/// Clients of a running cluster go from http to https and back, pod by pod: the operator reaches all of them on the way.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_running_cluster_get_certificates_later() {
    let gateway = Gateway::start();
    let plain = json!({"size": 3, "version": "3.6.16", "TLS": {}, "auth": {}});
    let cluster = Secure::new("secure-later", &gateway, &plain);
    let etcd = &cluster.etcd;
    etcd.ready();
    let members = etcd.voters().await;
    let by_tls = cluster.endpoint("nobody", None);
    let writer = Writer::start_with(vec![(etcd.url("http"), None), by_tls.clone()]);
    for (server, scheme) in [("servers", "https"), ("", "http")] {
        etcd.patch(&json!({"TLS": {"static": {"member": {"serverSecret": server}, "operatorSecret": "operator"}}}));
        all_taken_by(etcd, scheme);
        eprintln!("{scheme}: longest pause of writes {:?}, {} written", writer.longest_gap(), writer.count());
    }
    assert_eq!(etcd.voters().await, members, "nobody was replaced for it");
    assert_eq!(writer.lost(&etcd.url("http")).await, 0);

    // Clients and peers at once, with certificates of the chart's own.
    etcd.patch(&json!({"TLS": {"static": null, "generated": {"enabled": true}}}));
    all_taken_by(etcd, "https");
    let mut client = etcd.client(true).await;
    let list = client.member_list().await.unwrap();
    assert_eq!(list.members().iter().map(|m| (m.name().to_owned(), m.id())).collect::<BTreeMap<_, _>>(), members);
    assert!(list.members().iter().flat_map(etcd_client::Member::peer_urls).all(|url| url.starts_with("https://")));
    assert!(client.get("", Some(GetOptions::new().with_all_keys().with_count_only())).await.unwrap().count() > 0);
}

/// Waits until all pods are of a template by which clients call them so, and the cluster is ready.
fn all_taken_by(etcd: &Etcd, scheme: &str) {
    eventually(&format!("all pods take clients by {scheme}"), || {
        let pods = etcd.get(&["pods", "-l", "etcd_cluster=my"])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let by = |pod: &Value| {
            let env = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
            let urls = env.into_iter().find(|e| e["name"] == "ETCD_ADVERTISE_CLIENT_URLS").unwrap_or_default();
            urls["value"].as_str().is_some_and(|url| url.starts_with(&format!("{scheme}://")))
        };
        let new = pods.iter().filter(|pod| by(pod)).count();
        if pods.len() == 3 && new == 3 { Ok(()) } else { Err(format!("{new} of {}", pods.len())) }
    });
    etcd.ready();
}
