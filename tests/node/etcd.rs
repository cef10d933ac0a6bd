//! Clusters of etcd on real pods: the operator as a pod with the chart of etcd (examples/etcd/operator.yaml), and images of the programs
//! alone, without a shell.
//!
//! Faults (F1, `f1_…`) are those of docs/design/reliability-results.md.

use crate::harness::{established, kubectl, repository};
use crate::writer::Writer;
use crate::{eventually, get_in, kubectl_in};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Deploys the operator once for all tests, as its documentation says.
fn deploy() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        for (chart, crd) in [
            ("charts/etcd", "crd/etcdclusters"),
            ("charts/etcd-backup", "crd/etcdbackups"),
            ("charts/etcd-restore", "crd/etcdrestores"),
        ] {
            let text = Command::new(env!("CARGO_BIN_EXE_tillerman"))
                .args(["crd", "--require", chart])
                .current_dir(repository(""))
                .output()
                .unwrap();
            kubectl(&["apply", "--server-side", "-f", "-"], Some(&String::from_utf8(text.stdout).unwrap())).unwrap();
            let crd = format!("{crd}.etcd.database.coreos.com");
            established(&crd);
        }
        let text = std::fs::read_to_string(repository("examples/etcd/operator.yaml")).unwrap();
        assert!(text.contains("image: etcd-operator:latest"));
        let text = text.replace("image: etcd-operator:latest", "image: localhost/etcd-operator:test");
        let text = text.replace("tillerman:0.1.0", "localhost/tillerman:test");
        kubectl(&["apply", "-f", "-"], Some(&text)).unwrap();
        let rollout = ["-n", "etcd-operator", "rollout", "status", "deployment/etcd-operator", "--timeout=240s"];
        kubectl(&rollout, None).unwrap();
    });
}

/// A cluster of etcd in a namespace of its own.
pub struct Etcd {
    pub namespace: String,
}

impl Etcd {
    pub fn new(test: &str, spec: &Value) -> Self {
        deploy();
        let namespace = format!("{test}-{}", std::process::id());
        kubectl(&["create", "namespace", &namespace], None).unwrap();
        let etcd = Self { namespace };
        let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": "my", "namespace": etcd.namespace}, "spec": spec});
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
        etcd
    }

    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        kubectl_in(&self.namespace, args)
    }

    pub fn get(&self, what: &[&str]) -> Result<Value, String> {
        get_in(&self.namespace, what)
    }

    pub fn patch(&self, spec: &Value) {
        self.kubectl(&["patch", "etcd", "my", "--type=merge", "-p", &json!({"spec": spec}).to_string()]).unwrap();
    }

    /// Waits until the custom resource, as it is now, is ready.
    pub fn ready(&self) {
        eventually("the cluster is ready", || {
            let cluster = self.get(&["etcd", "my"])?;
            let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let current = cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"];
            let ready = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
            if current && ready["status"] == "True" {
                Ok(())
            } else {
                Err(format!("{ready} {}", cluster["status"]["members"]))
            }
        });
    }

    /// Where clients find it: the address of its Service, which can be reached from here.
    pub fn url(&self, scheme: &str) -> String {
        let service = self.get(&["service", "my-client"]).unwrap();
        format!("{scheme}://{}:2379", service["spec"]["clusterIP"].as_str().unwrap())
    }

    /// The addresses of its pods by name.
    pub fn pods(&self) -> BTreeMap<String, String> {
        let pods = self.get(&["pods", "-l", "etcd_cluster=my"]).unwrap();
        let text = |pod: &Value, at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.iter().map(|pod| (text(pod, "/metadata/name"), text(pod, "/status/podIP"))).collect()
    }

    pub fn claims(&self) -> Vec<String> {
        let claims = self.kubectl(&["get", "pvc", "-o", "name"]).unwrap();
        claims.lines().map(|line| line.trim_start_matches("persistentvolumeclaim/").to_owned()).collect()
    }

    /// The voters: ID by name. Nobody is a learner, and all have started.
    pub async fn voters(&self) -> BTreeMap<String, u64> {
        let mut client = Client::connect([self.url("http")], None).await.unwrap();
        let list = client.member_list().await.unwrap();
        assert!(list.members().iter().all(|m| !m.is_learner() && !m.name().is_empty()), "{list:?}");
        list.members().iter().map(|m| (m.name().to_owned(), m.id())).collect()
    }

    /// The version that each member says it has.
    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for address in self.pods().values() {
            let mut client = Client::connect([format!("http://{address}:2379")], None).await.unwrap();
            versions.push(client.status().await.unwrap().version().to_owned());
        }
        versions
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["etcd,statefulsets,pods,pvc,configmaps", "events"] {
                eprintln!("{}", self.kubectl(&["get", what, "-o", "wide"]).unwrap_or_else(|why| why));
            }
            eprintln!("{}", self.kubectl(&["get", "etcd", "my", "-o", "yaml"]).unwrap_or_else(|why| why));
            let log = ["-n", "etcd-operator", "logs", "deployment/etcd-operator", "--tail=80"];
            eprintln!("{}", kubectl(&log, None).unwrap_or_else(|why| why));
        } else {
            let _ = self.kubectl(&["delete", "etcd", "my", "--timeout=60s"]);
            let _ = kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], None);
        }
    }
}

pub fn names(size: usize) -> Vec<String> {
    (0..size).map(|ordinal| format!("my-{ordinal}")).collect()
}

/// F1, F22 and a lost volume, under one writer: no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_shrinks_loses_a_volume_and_is_upgraded_without_losing_a_write() {
    let etcd = Etcd::new(
        "etcd",
        &json!({
            "size": 1, "version": "3.5.35", "repository": "localhost/etcd",
            "members": {"deadAfter": "20s"}, "storage": {"size": "1Gi"},
        }),
    );
    etcd.ready();
    let url = etcd.url("http");
    let writer = Writer::start(vec![url.clone()]);
    let done = |what: &str| {
        eprintln!("{what}: longest pause of writes {:?}, {} written", writer.longest_gap(), writer.count());
    };

    let resize = async |from: usize, to: usize| {
        // A client stays where it was connected to when it began: some of these begin at members that leave.
        let others: Vec<_> = (0..6).map(|_| Writer::start(vec![url.clone()])).collect();
        etcd.patch(&json!({"size": to}));
        etcd.ready();
        assert_eq!(etcd.voters().await.into_keys().collect::<Vec<_>>(), names(to));
        eventually("the claims of those that left are gone", || match etcd.claims().len() {
            n if n == to => Ok(()),
            n => Err(format!("there are {n}")),
        });
        done(&format!("{from} to {to}"));
        let longest = others.iter().map(Writer::longest_gap).max().unwrap_or_default();
        eprintln!("{from} to {to}: longest pause of {} others {longest:?}", others.len());
        for other in others {
            assert_eq!(other.lost(&url).await, 0);
        }
    };
    resize(1, 3).await;
    assert_eq!(etcd.versions().await, vec!["3.5.35"; 3]);
    resize(3, 5).await;
    resize(5, 3).await;

    let before = etcd.voters().await;
    etcd.kubectl(&["delete", "pvc", "data-my-1", "--wait=false"]).unwrap();
    etcd.kubectl(&["delete", "pod", "my-1"]).unwrap();
    let mut client = Client::connect([&url], None).await.unwrap();
    let mut replaced = false;
    for _ in 0..1200 {
        let list = client.member_list().await;
        let list = list.map(|list| list.members().to_vec()).unwrap_or_default();
        replaced = list.iter().any(|m| m.name() == "my-1" && m.id() != before["my-1"] && !m.is_learner());
        if replaced {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(replaced, "my-1 is a new member: {:?}", client.member_list().await);
    etcd.ready();
    let after = etcd.voters().await;
    assert_eq!((after["my-0"], after["my-2"], after.len()), (before["my-0"], before["my-2"], 3));
    done("a volume lost");

    etcd.patch(&json!({"version": "3.6.16"}));
    etcd.ready();
    assert_eq!(etcd.versions().await, vec!["3.6.16"; 3]);
    assert_eq!(etcd.voters().await, after, "an upgrade replaces nobody");
    done("3.5.35 to 3.6.16");
    resize(3, 1).await;
    assert_eq!(writer.lost(&url).await, 0);

    // etcd does not go back to an earlier version.
    etcd.patch(&json!({"version": "3.5.35"}));
    eventually("a downgrade is refused", || {
        let cluster = etcd.get(&["etcd", "my"])?;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().any(|c| c["type"] == "Ready" && c["reason"] == "VersionDowngrade");
        if found { Ok(()) } else { Err(format!("{conditions:?}")) }
    });
    assert_eq!(etcd.versions().await, ["3.6.16"]);
}

impl Etcd {
    pub fn secret(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let secret = self.get(&["secret", name]).unwrap();
        let data = secret["data"].as_object().unwrap();
        data.iter().map(|(key, text)| (key.clone(), BASE64.decode(text.as_str().unwrap()).unwrap())).collect()
    }

    /// How a client connects with the certificate of the Secret `my-client-tls`, or with none.
    pub fn options(&self, certified: bool) -> ConnectOptions {
        let secret = self.secret("my-client-tls");
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(&secret["ca.crt"]));
        tls = tls.domain_name(format!("my-client.{}.svc", self.namespace));
        if certified {
            tls = tls.identity(Identity::from_pem(&secret["tls.crt"], &secret["tls.key"]));
        }
        ConnectOptions::new().with_tls(tls).with_timeout(Duration::from_secs(5))
    }

    /// A client with that certificate, or with none.
    pub async fn client(&self, certified: bool) -> Client {
        Client::connect([self.url("https")], Some(self.options(certified))).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_of_its_own_asks_clients_for_theirs_and_renews_them_in_place() {
    let etcd = Etcd::new(
        "etcd-tls",
        &json!({
            "size": 3, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi"},
            "TLS": {"generated": {"enabled": true}},
        }),
    );
    etcd.ready();
    let mut client = etcd.client(true).await;
    client.put("key", "value", None).await.unwrap();
    let list = client.member_list().await.unwrap();
    assert_eq!(list.members().len(), 3);
    assert!(list.members().iter().all(|m| m.peer_urls().iter().all(|url| url.starts_with("https://"))));
    assert!(etcd.client(false).await.get("key", None).await.is_err(), "a client without a certificate is refused");

    let (pods, before) = (etcd.pods(), etcd.secret("my-client-tls"));
    etcd.patch(&json!({"TLS": {"generated": {"rotation": "2"}}}));
    eventually("the certificates are made anew", || {
        match etcd.secret("my-client-tls") {
            after if after["tls.crt"] != before["tls.crt"] && after["ca.crt"] == before["ca.crt"] => Ok(()),
            _ => Err("not yet"),
        }
        .map_err(str::to_owned)
    });
    etcd.ready();
    let answer = etcd.client(true).await.get("key", None).await.unwrap();
    assert_eq!(answer.kvs()[0].value(), b"value");
    assert_eq!(etcd.pods(), pods, "no pod was replaced for it");
}

/// A backup by a custom resource, the cluster and its volumes destroyed, and another that begins with the backup.
#[tokio::test(flavor = "multi_thread")]
async fn a_destroyed_cluster_begins_again_with_its_backup() {
    let spec = json!({
        "size": 3, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi", "onDelete": "Delete"},
        "members": {"deadAfter": "20s"},
    });
    let etcd = Etcd::new("etcd-backup", &spec);
    etcd.ready();
    let put = async |from: u32| {
        let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
        for key in from..from + 50 {
            client.put(format!("key-{key}"), "value", None).await.unwrap();
        }
    };
    put(0).await;

    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "backups", "namespace": etcd.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    kubectl(&["create", "-f", "-"], Some(&claim.to_string())).unwrap();
    let backup = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
        "metadata": {"name": "once", "namespace": etcd.namespace},
        "spec": {"etcdEndpoints": ["http://my-client:2379"], "storageType": "Volume",
            "volume": {"path": "my/first", "claimName": "backups"},
            "drill": {"keys": ["key-7"], "version": "3.6.16", "repository": "localhost/etcd"}}});
    kubectl(&["create", "-f", "-"], Some(&backup.to_string())).unwrap();
    etcd.kubectl(&["wait", "etcdbackup/once", "--for=condition=Ready", "--timeout=120s"]).unwrap();
    let pods = etcd.get(&["pods", "-l", "app.kubernetes.io/instance=once"]).unwrap();
    let record = pods.pointer("/items/0/status/containerStatuses/0/state/terminated/message").and_then(Value::as_str);
    let record: Value = serde_json::from_str(record.expect("the pod tells of the backup")).unwrap();
    assert_eq!((&record["record"]["state"], &record["record"]["keys"]), (&json!("verified"), &json!(50)), "{record}");
    // What comes later is not in it.
    put(50).await;
    let drilled = |text: &'static str, result: &'static str, said: &'static str| {
        etcd.kubectl(&["annotate", "--overwrite", "etcdbackup/once", &format!("tillerman.dev/operation=drill@{text}")])
            .unwrap();
        eventually("the drill has ended", || {
            let drill = etcd.get(&["etcdbackup", "once"])?["status"]["operations"]["drill"].clone();
            let is_it = drill["result"] == result && drill.to_string().contains(said);
            if is_it { Ok(()) } else { Err(drill.to_string()) }
        });
    };
    drilled("1", "Succeeded", "proved first: revision 51, 50 keys");
    etcd.kubectl(&["patch", "etcdbackup/once", "--type=merge", "-p", r#"{"spec":{"drill":{"keys":["key-70"]}}}"#])
        .unwrap();
    drilled("2", "Failed", "lacks the key");

    etcd.kubectl(&["delete", "etcd", "my", "--timeout=120s"]).unwrap();
    eventually("the members and their volumes are gone", || {
        let left: Vec<String> = etcd.claims().into_iter().filter(|claim| claim != "backups").collect();
        if left.is_empty() && etcd.pods().is_empty() { Ok(()) } else { Err(format!("{left:?} {:?}", etcd.pods())) }
    });
    let mut again = spec.clone();
    again["restore"] = json!({"storageType": "Volume", "volume": {"path": "my/first", "claimName": "backups"}});
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "my", "namespace": etcd.namespace}, "spec": again});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    etcd.ready();
    assert_eq!(etcd.voters().await.into_keys().collect::<Vec<_>>(), names(3));
    let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
    for key in 0..50 {
        let answer = client.get(format!("key-{key}"), None).await.unwrap();
        assert_eq!(answer.kvs().len(), 1, "key-{key}");
    }
    assert_eq!(client.get("key-50", None).await.unwrap().kvs().len(), 0);

    // The first member loses its volume: it joins its cluster, and nothing comes back from the backup.
    client.put("later", "value", None).await.unwrap();
    etcd.kubectl(&["delete", "pvc", "data-my-0", "--wait=false"]).unwrap();
    etcd.kubectl(&["delete", "pod", "my-0"]).unwrap();
    eventually("my-0 is a new member", || {
        let cluster = etcd.get(&["etcd", "my"])?;
        let ready = cluster["status"]["members"]["ready"].as_array().map_or(0, Vec::len);
        let fresh = etcd.claims().iter().any(|claim| claim == "data-my-0");
        if ready == 3 && fresh { Ok(()) } else { Err(cluster["status"]["members"].to_string()) }
    });
    etcd.ready();
    let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
    assert_eq!(client.get("later", None).await.unwrap().kvs().len(), 1);
}
