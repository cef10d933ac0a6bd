//! Volumes of their own size: a filesystem in memory for each claim of a class, which goes with the claim.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{kubectl, repository};

/// The class.
pub const CLASS: &str = "limited";

/// Makes volumes for claims of a namespace for as long as it lives.
pub struct Volumes {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    namespace: String,
}

impl Volumes {
    /// Of so many MiB each.
    pub fn new(namespace: &str, size: u32) -> Self {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
            "provisioner": "test.tillerman.dev/limited"});
        kubectl(&["apply", "-f", "-"], Some(&class.to_string())).unwrap();
        let over = Arc::<AtomicBool>::default();
        let (ends, of) = (Arc::clone(&over), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // What is in the way is so for a moment: objects change meanwhile.
                if let Err(why) = look(&of, size) {
                    eprintln!("volumes: {why}");
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Self { over, thread: Some(thread), namespace: namespace.into() }
    }

    /// How many KiB are used of the volume of a claim.
    pub fn used(&self, claim: &str) -> u64 {
        let uid =
            kubectl(&["-n", &self.namespace, "get", "pvc", claim, "-o", "jsonpath={.metadata.uid}"], None).unwrap();
        let told = on_node(&["/bin/df", "-k", "--output=used", &folder(&uid)]).unwrap();
        told.lines().last().unwrap().trim().parse().unwrap()
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn folder(uid: &str) -> String {
    format!("/run/limited/{uid}")
}

fn on_node(words: &[&str]) -> Result<String, String> {
    let output =
        Command::new(repository("tests/cluster/node-in.sh")).args(words).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn list(args: &[&str]) -> Result<Vec<Value>, String> {
    let mut all = vec!["get", "-o", "json"];
    all.extend(args);
    let list: Value = serde_json::from_str(&kubectl(&all, None)?).map_err(|e| e.to_string())?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A volume for each claim that has none; and those of claims that are gone, go.
fn look(namespace: &str, size: u32) -> Result<(), String> {
    for volume in list(&["pv"])? {
        let ours = text(&volume, "/spec/claimRef/namespace") == namespace;
        if ours && text(&volume, "/status/phase") == "Released" {
            let uid = text(&volume, "/spec/claimRef/uid");
            kubectl(&["delete", "pv", text(&volume, "/metadata/name")], None)?;
            // What is open is held by who has it open, and by nobody else.
            on_node(&["/bin/umount", "--lazy", &folder(uid)])?;
        }
    }
    for claim in list(&["pvc", "-n", namespace])? {
        let ours = text(&claim, "/spec/storageClassName") == CLASS && claim["metadata"]["deletionTimestamp"].is_null();
        if !ours || text(&claim, "/status/phase") != "Pending" || !text(&claim, "/spec/volumeName").is_empty() {
            continue;
        }
        let [name, uid] = ["/metadata/name", "/metadata/uid"].map(|pointer| text(&claim, pointer));
        let volume = format!("limited-{uid}");
        if kubectl(&["get", "pv", &volume], None).is_ok() {
            continue;
        }
        let folder = folder(uid);
        on_node(&["/bin/mkdir", "-p", &folder])?;
        on_node(&["/bin/mount", "-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs", &folder])?;
        let body = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"storageClassName": CLASS, "capacity": {"storage": format!("{size}Mi")}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": folder},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid}}});
        kubectl(&["create", "-f", "-"], Some(&body.to_string()))?;
    }
    Ok(())
}
