//! `tillerman pause`, `tillerman resume` and `tillerman reconcile`: annotations of custom resources.

use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::core::params::WatchParams;
use kube::core::{DynamicObject, WatchEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::target::{Target, resource, two_words};
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::kind::duration;
use crate::names;
use crate::object::ObjectId;
use crate::object::conditions::Conditions;

/// The pause before a watch is opened again.
const AGAIN: Duration = Duration::from_millis(200);

/// Which custom resources are meant.
#[derive(Debug, clap::Args)]
pub(super) struct WhichArgs {
    /// The custom resource, KIND NAME or KIND/NAME; with --all or -A only KIND.
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    /// All of the kind in the namespace.
    #[arg(long)]
    all: bool,
    /// All of the kind in all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `tillerman pause`.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// The reason, for users who find it paused: the annotation tillerman.dev/pause-reason.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    which: WhichArgs,
}

/// Arguments of `tillerman resume`.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Arguments of `tillerman reconcile`.
#[derive(Debug, clap::Args)]
pub(super) struct ReconcileArgs {
    /// Wait until the operator reports the pass, and print the report. The command fails if the pass failed.
    #[arg(long)]
    wait: bool,
    /// How long to wait.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: String,
    #[command(flatten)]
    which: WhichArgs,
}

/// Sets the annotation.
pub(super) fn pause(args: &PauseArgs) -> Result<(), CliError> {
    annotate(&args.which, &json!({names::PAUSED: "true", names::PAUSE_REASON: args.reason}), "paused")
}

/// Removes it.
pub(super) fn resume(args: &ResumeArgs) -> Result<(), CliError> {
    annotate(&args.which, &json!({names::PAUSED: null, names::PAUSE_REASON: null}), "resumed")
}

fn annotate(which: &WhichArgs, annotations: &Value, done: &str) -> Result<(), CliError> {
    let server = which.connect.connect()?;
    let namespace = which.connect.namespace();
    server.block_on(async |cluster, discovery| {
        for target in targets(which, &namespace, cluster, discovery).await? {
            let patch = json!({"metadata": {"annotations": annotations}});
            cluster.edit(&target.resource, &target.id, &patch).await.map_err(|e| CliError(line(&e.whole())))?;
            println!("{} {done}", target.shown());
        }
        Ok(())
    })
}

/// The custom resources that are meant; at least one.
async fn targets(
    which: &WhichArgs,
    namespace: &str,
    cluster: &Cluster,
    discovery: &Discovery,
) -> Result<Vec<Target>, CliError> {
    discovery.refresh().await.map_err(CliError::new)?;
    if !which.all && !which.all_namespaces {
        let (kind, name) = two_words(&which.what)?;
        return Ok(vec![Target::find(kind, name, namespace, discovery).await?]);
    }
    let [word] = which.what.as_slice() else {
        return Err(CliError::new("name a custom resource, or give --all or -A with its kind"));
    };
    let resource = resource(word, discovery).await?;
    let place = Some(namespace).filter(|_| resource.namespaced && !which.all_namespaces);
    let found = cluster.list_metadata(&resource, place, "").await.map_err(|e| CliError(line(&e.whole())))?;
    let target = |object: &Value| {
        let text = |field: &str| object.get("metadata")?.get(field)?.as_str();
        let id = ObjectId {
            gvk: resource.gvk.clone(),
            namespace: text("namespace").map(Into::into),
            name: text("name")?.into(),
        };
        Some(Target { resource: resource.clone(), id })
    };
    let targets: Vec<Target> = found.iter().filter_map(target).collect();
    if targets.is_empty() { Err(CliError(format!("there is no {}", resource.gvk.kind))) } else { Ok(targets) }
}

/// Asks for a pass, and waits for it.
pub(super) fn reconcile(args: &ReconcileArgs) -> Result<(), CliError> {
    let timeout = duration::parse(&args.timeout).map_err(CliError::new)?;
    let server = args.which.connect.connect()?;
    let namespace = args.which.connect.namespace();
    server.block_on(async |cluster, discovery| {
        let targets = targets(&args.which, &namespace, cluster, discovery).await?;
        let asked = jiff::Timestamp::now().to_string();
        for target in &targets {
            let patch = json!({"metadata": {"annotations": {names::RECONCILE_AT: asked}}});
            let answer = cluster.edit(&target.resource, &target.id, &patch).await;
            answer.map_err(|e| CliError(line(&e.whole())))?;
            if !args.wait {
                println!("requested a pass over {}", target.shown());
            }
        }
        let end = Instant::now() + timeout;
        let mut failed = Vec::new();
        for target in targets.iter().filter(|_| args.wait) {
            let reported = tokio::time::timeout_at(end, reported(target, &asked, cluster)).await;
            let Ok(reported) = reported else {
                let why = "no pass was reported in time: does an operator serve it, and is it not paused?";
                return Err(CliError(format!("{}: {why}", target.shown())));
            };
            let reported = reported?;
            println!("{} {}", target.shown(), ready(&reported));
            if let Some(why) = failure(&reported) {
                failed.push(format!("{}: {}", target.shown(), line(&why)));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(CliError(failed.join("\n"))) }
    })
}

/// The custom resource once the requested pass is reported.
async fn reported(target: &Target, asked: &str, cluster: &Cluster) -> Result<Value, CliError> {
    let is_answered = |cr: &Value| cr.pointer("/status/lastHandledReconcileAt").and_then(Value::as_str) == Some(asked);
    let kind = target.resource.api_resource();
    let api: Api<DynamicObject> = match &target.id.namespace {
        Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &kind),
        None => Api::all_with(cluster.client(), &kind),
    };
    loop {
        let cr = target.get(cluster).await?;
        if is_answered(&cr) {
            return Ok(cr);
        }
        let version = cr.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let params = WatchParams::default().fields(&format!("metadata.name={}", target.id.name)).disable_bookmarks();
        if let Ok(events) = api.watch(&params, version).await {
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(cr) | WatchEvent::Modified(cr)) = event else { break };
                let cr = serde_json::to_value(cr).map_err(CliError::new)?;
                if is_answered(&cr) {
                    return Ok(cr);
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The message of the condition `Ready`.
fn ready(cr: &Value) -> String {
    let ready = Conditions::of_object(cr).get("Ready");
    let (status, reason, message) = ready.map_or(("", "", ""), |c| (c.status(), c.reason(), c.message()));
    let colon = if message.is_empty() { "" } else { ": " };
    line(&format!("Ready={} {reason}{colon}{message}", if status.is_empty() { "Unknown" } else { status }))
}

/// Why the pass failed, if it did.
fn failure(cr: &Value) -> Option<String> {
    let conditions = Conditions::of_object(cr);
    let is_failure = |name: &str| conditions.get(name).filter(|condition| condition.is_true());
    let failed = ["Irreconcilable", "ReleaseFailed", "Stalled"].into_iter().find_map(is_failure)?;
    Some(format!("{} {}: {}", failed.name(), failed.reason(), failed.message()))
}

#[cfg(test)]
mod tests {
    use super::{failure, ready};
    use serde_json::json;

    #[test]
    fn a_pass_failed_if_a_condition_says_so() {
        let cr = |conditions| json!({"status": {"conditions": conditions}});
        let well = cr(json!([{"type": "Ready", "status": "False", "reason": "Progressing", "message": "a\nb"},
            {"type": "Stalled", "status": "False"}]));
        assert_eq!((ready(&well), failure(&well)), ("Ready=False Progressing: a b".to_owned(), None));
        let ill =
            cr(json!([{"type": "Irreconcilable", "status": "True", "reason": "ReconcileError", "message": "no"}]));
        assert_eq!(failure(&ill).as_deref(), Some("Irreconcilable ReconcileError: no"));
        assert_eq!(ready(&ill), "Ready=Unknown ");
    }
}
