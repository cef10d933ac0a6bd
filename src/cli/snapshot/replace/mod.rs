//! `tillerman snapshot replace`: replaces the data of an `EtcdCluster` with a backup. It runs as a Job of `charts/etcd-restore`.
//!
//! The backup is fetched and verified before anything is deleted. Then come the steps of [`crate::backup::replace`], which a later run
//! can continue. The operator handles the members themselves: it starts a new cluster from the backup.

mod world;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::store::StoreArgs;
use super::{LATEST, which};
use crate::backup::inspect::Contents;
use crate::backup::replace::{ReplaceStep, is_whole, next};
use crate::backup::{BackupError, shelf};
use crate::cli::common::error::CliError;
use crate::members::etcd::client::{Access, Tls};
use world::World;

/// The pause between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// How long one call of etcd may take.
const CALL: Duration = Duration::from_secs(10);

/// Arguments of `replace`.
#[derive(Debug, clap::Args)]
pub struct ReplaceArgs {
    /// The backup's name, or `latest` for the newest good one of the prefix.
    #[arg(default_value = LATEST)]
    name: String,
    #[command(flatten)]
    store: StoreArgs,
    /// The `EtcdCluster`.
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Its namespace.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    namespace: String,
    /// The Job that runs this, whose owner is the `EtcdRestore`.
    #[arg(long, env = "JOB_NAME", value_name = "NAME")]
    job: String,
    /// The new `spec.restore` of the cluster, as JSON; the backup's name is appended to its path.
    #[arg(long, value_name = "JSON")]
    restore: String,
    /// Folder for the backup while it is verified.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    temporary: PathBuf,
    /// Folder with the certificate for clients: etcd-client-ca.crt, etcd-client.crt and etcd-client.key, or ca.crt, tls.crt and tls.key.
    #[arg(long, value_name = "FOLDER")]
    tls: Option<PathBuf>,
    /// Where clients find the cluster [default: its Service, CLUSTER-client].
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Also write the result to this file, as JSON, with the fields for the status of an `EtcdRestore`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ReplaceArgs {
    pub(super) fn store(&self) -> &StoreArgs {
        &self.store
    }

    fn access(&self) -> Result<Access, CliError> {
        let read = |names: [&str; 2]| -> Result<Vec<u8>, CliError> {
            let folder = self.tls.as_deref().unwrap_or_else(|| std::path::Path::new(""));
            let [first, second] = names.map(|name| folder.join(name));
            let file = if first.exists() { first } else { second };
            Ok(std::fs::read(&file).map_err(|error| BackupError::File { path: file, error })?)
        };
        let tls = match &self.tls {
            None => None,
            Some(_) => Some(Tls {
                ca: read(["etcd-client-ca.crt", "ca.crt"])?,
                identity: Some((read(["etcd-client.crt", "tls.crt"])?, read(["etcd-client.key", "tls.key"])?)),
            }),
        };
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(Access { tls, user: env("ETCDCTL_USER").zip(env("ETCDCTL_PASSWORD")), timeout: CALL })
    }

    /// `spec.restore` with the backup that was verified, whatever `latest` is by then. Fields of an earlier one are taken away.
    fn restore(&self, name: &str) -> Result<Value, CliError> {
        let invalid = |why: &str| CliError(format!("--restore: {why}"));
        let mut restore: Value = serde_json::from_str(&self.restore).map_err(|e| invalid(&e.to_string()))?;
        let kind = restore["storageType"].as_str().unwrap_or_default().to_lowercase();
        let kinds = ["s3", "abs", "gcs", "volume"];
        let source = restore.get_mut(&kind).filter(|_| kinds.contains(&&*kind));
        let source = source.and_then(Value::as_object_mut).ok_or_else(|| invalid("it names no storage"))?;
        let path = source.get("path").and_then(Value::as_str).unwrap_or_default();
        let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
        source.insert("path".into(), format!("{folder}{name}").into());
        for other in kinds.into_iter().filter(|other| *other != kind) {
            restore[other] = Value::Null;
        }
        restore["namePrefix"] = Value::Null;
        Ok(restore)
    }
}

pub async fn replace(args: &ReplaceArgs) -> Result<(), CliError> {
    let world = World::new(&args.cluster, &args.namespace, &args.job).await?;
    if world.is_finished().await? {
        println!("{} has already been restored: nothing to do", args.cluster);
        // The result from then stays.
        return report(args, &json!({}));
    }
    let cluster = world.cluster().await?;
    let access = args.access()?;
    if let Some(why) = lacks(&cluster, &access) {
        return Err(CliError(format!("EtcdCluster {}: {why}", args.cluster)));
    }
    if cluster["spec"]["paused"] == true {
        return Err(CliError(format!(
            "EtcdCluster {}: spec.paused is true, so no member would start again",
            args.cluster
        )));
    }
    let place = args.store.open(false)?;
    let file = super::Temporary(args.temporary.join("snapshot.db"));
    let (name, contents) = shelf::fetch(&place, which(&args.name, &args.store), &file.0, true).await?;
    println!("verified {name}: revision {}, {} keys", contents.revision, contents.keys);
    let restore = args.restore(&name)?;
    // An operator that has not answered in half the time will not answer in the other half.
    let swapped = tokio::time::timeout(args.store.timeout / 2, swap(&world, &restore)).await;
    if let Err(error) = swapped.unwrap_or_else(|_| Err(BackupError::Timeout.into())) {
        world.give_up().await;
        return Err(error);
    }
    let scheme = if is_secured(&cluster) { "https" } else { "http" };
    let service = || format!("{scheme}://{}-client.{}.svc:2379", world.name(), world.namespace());
    until_it_holds(&world, &args.endpoint.clone().unwrap_or_else(service), &access, &contents).await?;
    world.finish().await?;
    let Contents { revision, keys, .. } = contents;
    println!("EtcdCluster {} holds the backup {name}: {keys} keys at revision {revision}", args.cluster);
    report(args, &json!({"etcdRevision": revision, "keys": keys, "backup": name}))
}

fn report(args: &ReplaceArgs, status: &Value) -> Result<(), CliError> {
    let Some(file) = &args.report else { return Ok(()) };
    let text = json!({ "status": status }).to_string();
    std::fs::write(file, text).map_err(|error| CliError(format!("{}: {error}", file.display())))
}

/// Deletes the data and records the backup in the cluster.
async fn swap(world: &World, restore: &Value) -> Result<(), CliError> {
    let mut said = String::new();
    loop {
        let seen = world.look().await?;
        let step = next(&seen, world.uid());
        let text = format!("{step:?}");
        if text != said {
            println!("{text}");
            said = text;
        }
        match step {
            ReplaceStep::Done => return Ok(()),
            ReplaceStep::Refuse(why) => return Err(CliError(format!("EtcdCluster {}: {why}", world.name()))),
            ReplaceStep::Wait(_) => tokio::time::sleep(LOOK).await,
            step => world.act(step, &seen, restore).await?,
        }
    }
}

/// The missing settings for reading the cluster afterwards. Then nothing is deleted.
fn lacks(cluster: &Value, access: &Access) -> Option<&'static str> {
    if is_secured(cluster) && access.tls.is_none() {
        return Some(
            "its clients need certificates: spec.clientTLSSecret of the EtcdRestore must name the Secret with one",
        );
    }
    let asks = cluster["spec"]["auth"]["rootSecret"].as_str().is_some_and(|name| !name.is_empty());
    (asks && access.user.is_none()).then_some(
        "its clients need a password: spec.basicAuthSecret of the EtcdRestore must name the Secret with a user of the \
         backup and the password",
    )
}

fn is_secured(cluster: &Value) -> bool {
    let tls = &cluster["spec"]["TLS"];
    let given = tls["static"]["member"]["serverSecret"].as_str().is_some_and(|name| !name.is_empty());
    given || tls["generated"]["enabled"] == true || tls["certManager"]["enabled"] == true
}

/// Waits until the operator calls the cluster ready, and it answers a linearizable read and has the keys of the backup.
async fn until_it_holds(world: &World, url: &str, access: &Access, contents: &Contents) -> Result<(), CliError> {
    let mut said = String::new();
    loop {
        let why = match world.unready().await? {
            Some(why) => why,
            None => match holds(access, url, contents).await {
                Ok(()) => return Ok(()),
                Err(why) => why.0,
            },
        };
        if why != said {
            println!("{why}");
            said = why;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the cluster has the keys of the backup, at the backup's revision. Later writes do not change the answer.
async fn holds(access: &Access, url: &str, contents: &Contents) -> Result<(), CliError> {
    let asking = async {
        let client = access.client(url).await?;
        let revision = i64::try_from(contents.revision).unwrap_or(i64::MAX);
        let now = count(&client, 0).await?;
        let then = count(&client, revision).await;
        Ok::<_, etcd_client::Error>((now, then))
    };
    let late = || format!("{url}: no answer within {CALL:?}");
    let (now, then) =
        tokio::time::timeout(CALL, asking).await.map_err(|_| late())?.map_err(|e| format!("{url}: {e}"))?;
    let (keys, at) = match then {
        Ok((keys, _)) => (keys, contents.revision),
        // The history is already gone, so the present state must suffice.
        Err(error) if error.to_string().contains("compacted") => (now.0.min(contents.keys), now.1),
        Err(error) => return Err(format!("{url}: {error}").into()),
    };
    if keys == contents.keys && at >= contents.revision {
        return Ok(());
    }
    let Contents { revision, keys: wanted, .. } = contents;
    Err(format!("it has {keys} keys at revision {at}, and the backup {wanted} at revision {revision}").into())
}

/// How many keys there are at a revision, by a linearizable read, and the revision of now.
async fn count(client: &etcd_client::Client, revision: i64) -> Result<(u64, u64), etcd_client::Error> {
    let all = etcd_client::GetOptions::new().with_all_keys().with_count_only().with_revision(revision);
    let answer = client.kv_client().get("", Some(all)).await?;
    let now = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    Ok((u64::try_from(answer.count()).unwrap_or(0), u64::try_from(now).unwrap_or(0)))
}

impl World {
    /// After a failure: a cluster of which nothing was deleted continues as before.
    async fn give_up(&self) {
        if let Ok(seen) = self.look().await
            && seen.replacing.as_deref() == Some(self.uid())
            && is_whole(&seen)
        {
            drop(self.release().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lacks;
    use crate::members::etcd::client::{Access, Tls};
    use serde_json::{Value, json};
    use std::time::Duration;

    #[test]
    fn a_cluster_is_not_touched_that_could_not_be_looked_at_afterwards() {
        let access = |tls: bool, user: bool| Access {
            tls: tls.then(|| Tls { ca: Vec::new(), identity: None }),
            user: user.then(|| ("root".into(), "p".into())),
            timeout: Duration::ZERO,
        };
        let tls = json!({"TLS": {"static": {"member": {"serverSecret": "s"}}}});
        let password = json!({"auth": {"rootSecret": "r"}});
        let both = json!({"TLS": {"generated": {"enabled": true}}, "auth": {"rootSecret": "r"}});
        let table: [(&Value, bool, bool, Option<&str>); 8] = [
            (&json!({"auth": {"rootSecret": ""}}), false, false, None),
            (&tls, false, true, Some("spec.clientTLSSecret")),
            (&tls, true, false, None),
            (&password, true, false, Some("spec.basicAuthSecret")),
            (&password, false, true, None),
            (&both, false, true, Some("spec.clientTLSSecret")),
            (&both, true, false, Some("spec.basicAuthSecret")),
            (&both, true, true, None),
        ];
        for (spec, has_tls, has_user, missing) in table {
            let found = lacks(&json!({"spec": spec}), &access(has_tls, has_user));
            match missing {
                Some(field) => assert!(found.is_some_and(|why| why.contains(field)), "{spec} {found:?}"),
                None => assert_eq!(found, None, "{spec}"),
            }
        }
    }
}
