//! Backups to an S3-compatible server and back, by custom resources alone.

use crate::etcd::{Etcd, names};
use crate::eventually;
use crate::harness::kubectl;
use etcd_client::{Client, GetOptions};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// versitygw on this machine, at the address by which pods find it.
pub struct Gateway {
    process: Child,
    folder: PathBuf,
    url: String,
}

impl Gateway {
    /// One for each test, which run beside each other.
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id() * 4 + NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tillerman-node-s3-{number}"));
        std::fs::create_dir_all(folder.join("backups")).unwrap();
        let host = std::env::var("HOST_IP").unwrap_or_else(|_| "10.200.0.1".into());
        let address = format!("{host}:{}", 7070 + number % 1000);
        let mut process = Command::new("versitygw")
            .args(["--port", &address, "posix"])
            .arg(&folder)
            .envs([("ROOT_ACCESS_KEY", "the-key"), ("ROOT_SECRET_KEY", "the-secret-key"), ("GOMAXPROCS", "2")])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        eventually("the server listens", || {
            assert_eq!(process.try_wait().unwrap(), None, "the server ended");
            std::net::TcpStream::connect(&address).map_err(|e| e.to_string())
        });
        Self { process, folder, url: format!("http://{address}") }
    }

    /// Where pods find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its buckets are: folders with a file for each object.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The Secret `aws`, with which a namespace's pods find it.
    pub fn tell(&self, namespace: &str) {
        let files = [
            "--from-literal=credentials=[default]\naws_access_key_id = the-key\naws_secret_access_key = the-secret-key\n",
            &format!("--from-literal=config=[default]\nregion = us-east-1\nendpoint_url = {}\n", self.url),
        ];
        kubectl(&["-n", namespace, "create", "secret", "generic", "aws", files[0], files[1]], None).unwrap();
    }

    /// Up to when the archive of `backups/NAME/db` has the writes.
    pub fn archived(&self, name: &str) -> Result<jiff::Timestamp, String> {
        let folder = std::fs::read_dir(self.folder.join("backups").join(name)).map_err(|e| e.to_string())?;
        let mut ends =
            folder.flatten().map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with("_end.json"));
        let text = std::fs::read(ends.next().ok_or("there is no archive")?).map_err(|e| e.to_string())?;
        let end: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        end["seen"].as_str().unwrap_or_default().parse().map_err(|e: jiff::Error| format!("{e}: {end}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_file(self.folder.with_extension("log"));
    }
}

pub fn create(etcd: &Etcd, kind: &str, name: &str, spec: &Value) {
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": etcd.namespace}, "spec": spec});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
}

/// Waits until an `EtcdBackup` or `EtcdRestore` says that it succeeded, or not; its status.
pub fn told(etcd: &Etcd, object: &str, succeeded: bool) -> Value {
    eventually(&format!("{object}: succeeded is {succeeded}"), || {
        let status = etcd.get(&[object])?["status"].clone();
        if status["succeeded"] == succeeded { Ok(status) } else { Err(status.to_string()) }
    })
}

async fn keys(etcd: &Etcd) -> Vec<String> {
    let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
    let all = client.get("", Some(GetOptions::new().with_all_keys().with_keys_only())).await.unwrap();
    all.kvs().iter().map(|kv| kv.key_str().unwrap().to_owned()).collect()
}

async fn put(etcd: &Etcd, key: &str) {
    let mut client = Client::connect([etcd.url("http")], None).await.unwrap();
    client.put(key, "value", None).await.unwrap();
}

pub fn uids(etcd: &Etcd, kind: &str) -> Vec<String> {
    let list = etcd.get(&[kind, "-l", "etcd_cluster=my"]).unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["uid"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_restore_puts_a_backup_in_the_place_of_a_running_cluster_and_does_it_once() {
    let gateway = Gateway::start();
    let spec = json!({"size": 3, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi"}});
    let etcd = Etcd::new("etcd-restore", &spec);
    gateway.tell(&etcd.namespace);
    etcd.ready();
    for key in 0..20 {
        put(&etcd, &format!("key-{key:02}")).await;
    }
    let before = keys(&etcd).await;
    let s3 = |name: &str| json!({"path": format!("backups/{name}"), "awsSecret": "aws"});

    create(
        &etcd,
        "EtcdBackup",
        "once",
        &json!({
        "etcdEndpoints": ["http://my-client:2379"], "storageType": "S3", "s3": s3("my.backup")}),
    );
    let status = told(&etcd, "etcdbackup/once", true);
    assert_eq!(status["etcdVersion"], "3.6.16", "{status}");
    assert_eq!(status["etcdRevision"], 21, "{status}");
    assert!(status["lastSuccessDate"].is_string() && status["reason"].is_null(), "{status}");
    // Another backup of the name is none, and says so.
    create(
        &etcd,
        "EtcdBackup",
        "twice",
        &json!({
        "etcdEndpoints": ["http://my-client:2379"], "storageType": "S3", "s3": s3("my.backup")}),
    );
    let status = told(&etcd, "etcdbackup/twice", false);
    assert!(status["reason"].as_str().unwrap_or_default().contains("AlreadyExists"), "{status}");

    put(&etcd, "after-the-backup").await;
    let (pods, claims) = (uids(&etcd, "pods"), uids(&etcd, "pvc"));

    // A backup that is not there costs the cluster nothing.
    let restore = |name: &str| {
        json!({
        "etcdCluster": {"name": "my"}, "backupStorageType": "S3", "s3": s3(name)})
    };
    create(&etcd, "EtcdRestore", "wrong", &restore("nothing"));
    let status = told(&etcd, "etcdrestore/wrong", false);
    assert!(status["reason"].as_str().unwrap_or_default().contains("NoGoodBackup"), "{status}");
    assert_eq!((uids(&etcd, "pods"), uids(&etcd, "pvc")), (pods.clone(), claims.clone()));
    etcd.kubectl(&["delete", "etcdrestore", "wrong", "--timeout=60s"]).unwrap();

    // As with coreos, it has the name of the cluster.
    create(&etcd, "EtcdRestore", "my", &restore("my.backup"));
    let status = told(&etcd, "etcdrestore/my", true);
    assert_eq!((&status["etcdRevision"], &status["keys"]), (&json!(21), &json!(20)), "{status}");
    etcd.ready();
    assert_eq!(keys(&etcd).await, before);
    assert_eq!(etcd.voters().await.into_keys().collect::<Vec<_>>(), names(3));
    assert!(uids(&etcd, "pvc").iter().all(|uid| !claims.contains(uid)), "the volumes are new");
    let annotations = etcd.get(&["etcd", "my"]).unwrap()["metadata"]["annotations"].clone();
    assert!(annotations["tillerman.dev/paused"].is_null(), "{annotations}");

    // Its Job, which has finished, is not run again when it is lost.
    put(&etcd, "after-the-restore").await;
    let after = uids(&etcd, "pods");
    let job = etcd.kubectl(&["get", "jobs", "-l", "app.kubernetes.io/instance=my-restore", "-o", "name"]).unwrap();
    let job = job.trim();
    etcd.kubectl(&["wait", "--for=condition=complete", "--timeout=60s", job]).unwrap();
    etcd.kubectl(&["delete", job]).unwrap();
    // The operator looks at it since.
    for (annotation, paused) in [("tillerman.dev/paused=true", true), ("tillerman.dev/paused-", false)] {
        etcd.kubectl(&["annotate", "etcdrestore", "my", annotation]).unwrap();
        eventually(&format!("paused is {paused}"), || {
            let conditions = etcd.get(&["etcdrestore", "my"])?["status"]["conditions"].clone();
            let is =
                conditions.as_array().into_iter().flatten().any(|c| c["type"] == "Paused" && c["status"] == "True");
            if is == paused { Ok(()) } else { Err(conditions.to_string()) }
        });
    }
    assert_eq!(etcd.get(&[job]).ok(), None);
    assert_eq!(uids(&etcd, "pods"), after);
    assert!(keys(&etcd).await.contains(&"after-the-restore".to_owned()));
    let again = told(&etcd, "etcdrestore/my", true);
    assert_eq!(again["etcdRevision"], 21, "what was said stays said");

    etcd.kubectl(&["delete", "etcdrestore", "my", "--timeout=60s"]).unwrap();
    etcd.ready();
    assert_eq!(uids(&etcd, "pods"), after, "the cluster stays");
}

/// `deletion-policy: snapshot`: the custom resource and its volumes go only after a verified backup was taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_deleted_leaves_a_verified_backup_or_stays() {
    let gateway = Gateway::start();
    let etcd = Etcd::new(
        "etcd-last",
        &json!({
            "size": 1, "version": "3.6.16", "repository": "localhost/etcd", "storage": {"size": "1Gi", "onDelete": "Delete"},
            "TLS": {"generated": {"enabled": true}},
            "backupOnDelete": {"storageType": "S3",
                "s3": {"path": "not-there/my", "awsSecret": "aws"}},
        }),
    );
    etcd.kubectl(&["annotate", "etcd", "my", "tillerman.dev/deletion-policy=snapshot"]).unwrap();
    gateway.tell(&etcd.namespace);
    etcd.ready();
    let mut client = etcd.client(true).await;
    for key in 0..20 {
        client.put(format!("key-{key}"), "value", None).await.unwrap();
    }
    let before = uids(&etcd, "pods");
    etcd.kubectl(&["delete", "etcd", "my", "--wait=false"]).unwrap();
    eventually("the deletion is held, and says why", || {
        let cluster = etcd.get(&["etcd", "my"])?;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c["type"] == "Ready").unwrap_or_default();
        let message = ready["message"].as_str().unwrap_or_default();
        let words = ["before-delete hook", "bucket", "tillerman.dev/hooks"];
        if words.iter().all(|word| message.contains(word)) { Ok(()) } else { Err(ready.to_string()) }
    });
    assert_eq!(uids(&etcd, "pods"), before, "all of it runs meanwhile");
    assert_eq!(client.get("key-7", None).await.unwrap().kvs().len(), 1);

    // What is missing comes.
    std::fs::create_dir(gateway.folder.join("not-there")).unwrap();
    eventually("it is gone", || match etcd.get(&["etcd", "my"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let stored = std::fs::read_dir(gateway.folder.join("not-there")).unwrap();
    let records = stored.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let records: Vec<Value> =
        records.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect();
    let good = |record: &&Value| record["state"] == "verified" && record["keys"] == 20;
    assert_eq!(records.iter().filter(good).count(), 1, "{records:?}");
}
