//! A release as a tree: the facts that `tillerman status` and the page of a release show.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::fields::{list, text};
use super::running::plan;
use super::table::age_of;
use super::tree::TreeNode;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::cluster::readiness::{pod_reason, pod_selector};
use crate::object::conditions::{Condition, Conditions};
use crate::object::{Gvk, ObjectId};
use crate::plan::reasons::{Polarity, polarity};
use crate::release::status_fields::RESERVED;

/// Pods by kind, namespace and name of their workload; or why they are unknown.
type Pods = BTreeMap<(String, String, String), Result<Vec<Value>, ApiError>>;

/// Kind, namespace and name of the workloads of a custom resource that have pods.
fn workloads(cr: &Value) -> Vec<(&str, String, String)> {
    let of_release = release_namespace(cr);
    let entry = |resource| {
        let kind = text(resource, "kind");
        let namespace = if text(resource, "namespace").is_empty() { of_release } else { text(resource, "namespace") };
        matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet" | "Job")
            .then(|| (kind, namespace.to_owned(), text(resource, "name").to_owned()))
    };
    list(cr, "/status/resources").iter().filter_map(entry).collect()
}

fn release_namespace(cr: &Value) -> &str {
    let told = cr.pointer("/status/release/namespace").and_then(Value::as_str);
    told.or_else(|| cr.pointer("/metadata/namespace")?.as_str()).unwrap_or_default()
}

/// The tree of a custom resource, with the pods of its workloads, which are read now.
pub async fn tree_of(cr: &Value, cluster: &Cluster) -> TreeNode {
    let mut pods = Pods::new();
    for (kind, namespace, name) in workloads(cr) {
        let found = pods_of(kind, &namespace, &name, cluster).await;
        pods.insert((kind.to_owned(), namespace, name), found);
    }
    tree(cr, &pods)
}

async fn pods_of(kind: &str, namespace: &str, name: &str, cluster: &Cluster) -> Result<Vec<Value>, ApiError> {
    let (group, plural) = if kind == "Job" { ("batch", "jobs".into()) } else { ("apps", kind.to_lowercase() + "s") };
    let workload = Resource { gvk: Gvk::new(group, "v1", kind), plural: plural.into(), namespaced: true };
    let id = ObjectId { gvk: workload.gvk.clone(), namespace: Some(namespace.into()), name: name.into() };
    let Some(object) = cluster.get(&workload, &id).await? else { return Ok(Vec::new()) };
    let Some(selector) = pod_selector(&workload.gvk, &object) else { return Ok(Vec::new()) };
    let pods = Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true };
    cluster.list(&pods, namespace, &selector).await
}

/// The tree of a custom resource.
fn tree(cr: &Value, pods: &Pods) -> TreeNode {
    let mut root = TreeNode::new(title(cr), "", "");
    let conditions = Conditions::of_object(cr);
    let observed = cr.pointer("/status/observedGeneration");
    if observed.is_none() || observed != cr.pointer("/metadata/generation") {
        root.below.push(TreeNode::new("spec", "Unseen", "the operator has not looked at its last change yet"));
    }
    match conditions.get("Ready") {
        Some(ready) if ready.is_true() => root.state = "Ready".into(),
        Some(ready) => (root.state, root.message) = (ready.reason().into(), ready.message().into()),
        None => root.state = "Unknown".into(),
    }
    let is_remarkable = |condition: &Condition<'_>| match polarity(condition.name()) {
        Polarity::Good => condition.is_false(),
        Polarity::Bad => condition.is_true(),
        Polarity::Neutral => false,
    };
    for condition in conditions.iter().filter(is_remarkable) {
        root.below.push(TreeNode::new(
            format!("condition {}", condition.name()),
            condition.reason(),
            condition.message(),
        ));
    }
    root.below.extend(cr.pointer("/status/release").map(release));
    root.below.extend(chart_fields(cr));
    let sets = cr.pointer("/status/members").and_then(Value::as_object).into_iter().flatten();
    // The status also has lists of pods.
    for (name, members) in sets.filter(|(_, members)| members.is_object()) {
        root.below.push(member_set(name, members));
    }
    root.below.extend(cr.pointer("/status/plan").map(plan));
    let of_release = release_namespace(cr);
    root.below.extend(list(cr, "/status/resources").iter().map(|resource| object(resource, of_release, pods)));
    root
}

fn title(cr: &Value) -> String {
    let metadata = cr.get("metadata").unwrap_or(&Value::Null);
    let place = [text(metadata, "namespace"), text(metadata, "name")].into_iter().filter(|part| !part.is_empty());
    format!("{} {}", text(cr, "kind"), place.collect::<Vec<_>>().join("/"))
}

fn release(release: &Value) -> TreeNode {
    let revision = release.get("revision").and_then(Value::as_i64).unwrap_or_default();
    let chart = text(release, "chart");
    let message = if chart.is_empty() { String::new() } else { format!("chart {chart}") };
    TreeNode::new(format!("release {}", text(release, "name")), format!("revision {revision}"), message)
}

/// The fields of the status that only the chart knows. A time also has its age.
fn chart_fields(cr: &Value) -> Option<TreeNode> {
    let field = |(name, value): (&String, &Value)| {
        let text = match value {
            _ if RESERVED.contains(&name.as_str()) => return None,
            Value::String(text) if text.parse::<Timestamp>().is_ok() => format!("{text}, {} ago", age_of(text)),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(TreeNode::new(name, "", text))
    };
    let below: Vec<TreeNode> = cr.get("status")?.as_object()?.iter().filter_map(field).collect();
    let node = TreeNode { below, ..TreeNode::new("status", "", "") };
    (!node.below.is_empty()).then_some(node)
}

fn member_set(name: &str, members: &Value) -> TreeNode {
    let number = |key: &str| members.get(key).and_then(Value::as_i64).unwrap_or_default();
    let (size, replicas, ready) = (number("size"), number("replicas"), number("ready"));
    let state = if size == replicas && size == ready { "Ready" } else { "Progressing" };
    let mut node =
        TreeNode::new(format!("members {name}"), state, format!("{ready} of {size} are ready, {replicas} replicas"));
    node.below.extend(list(members, "/members").iter().map(member));
    node.below.extend(failover(members));
    node.below.extend(members.get("lastChange").map(last_change));
    node
}

/// A member of a database with one primary and replicas.
fn member(member: &Value) -> TreeNode {
    let is_so = |key: &str| member.get(key).and_then(Value::as_bool);
    let role = text(member, "role");
    let mut facts = Vec::new();
    let version = text(member, "version");
    if !version.is_empty() {
        facts.push(format!("version {version}"));
    }
    if role == "Primary" && is_so("writable") == Some(false) {
        facts.push("takes no writes".to_owned());
    }
    if role == "Replica" && is_so("receiving") == Some(false) {
        facts.push("does not receive".to_owned());
    }
    let lag = member.get("lag").and_then(Value::as_f64);
    facts.extend(lag.map(|lag| format!("lags {lag} s")));
    facts.extend((is_so("diverged") == Some(true)).then(|| "has writes that the primary lacks".to_owned()));
    for key in ["busy", "problem"] {
        facts.extend(Some(text(member, key)).filter(|text| !text.is_empty()).map(str::to_owned));
    }
    TreeNode::new(text(member, "name"), role, facts.join(", "))
}

/// Whether another member could take over without a loss.
fn failover(members: &Value) -> Option<TreeNode> {
    let safe = members.get("safeToFailOver").and_then(Value::as_bool)?;
    Some(TreeNode::new("fail-over", if safe { "Safe" } else { "Unsafe" }, text(members, "unsafeBecause")))
}

fn last_change(change: &Value) -> TreeNode {
    let (from, to) = (text(change, "from"), text(change, "to"));
    let whom = if to.is_empty() { format!("{from} stays") } else { format!("{from} → {to}") };
    TreeNode::new(
        "last change",
        text(change, "kind"),
        format!("{} {whom}: {}", text(change, "at"), text(change, "why")),
    )
}

fn object(resource: &Value, of_release: &str, pods: &Pods) -> TreeNode {
    let (kind, name) = (text(resource, "kind"), text(resource, "name"));
    let own = text(resource, "namespace");
    let shown = if own.is_empty() { format!("{kind} {name}") } else { format!("{kind} {own}/{name}") };
    let mut node = TreeNode::new(shown, text(resource, "health"), text(resource, "message"));
    let namespace = if own.is_empty() { of_release } else { own };
    match pods.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned())) {
        Some(Ok(pods)) => node.below = pods.iter().map(pod).collect(),
        Some(Err(why)) => node.below.push(TreeNode::new("pods", "Unknown", why.to_string())),
        None => {}
    }
    node
}

fn pod(pod: &Value) -> TreeNode {
    let name = format!("Pod {}", pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    let ready = Conditions::of_object(pod).is_true("Ready");
    let going = pod.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null());
    match pod_reason(pod) {
        _ if going => TreeNode::new(name, "Terminating", ""),
        Some(reason) => {
            let reason = reason.whole();
            let (reason, message) = reason.split_once(": ").unwrap_or((&reason, ""));
            TreeNode::new(name, reason, message)
        }
        None if ready => TreeNode::new(name, "Ready", ""),
        None => TreeNode::new(name, phase, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_release_with_members_on_their_way() {
        let cr = json!({
            "kind": "Db", "metadata": {"name": "a", "namespace": "ns", "generation": 2},
            "status": {
                "observedGeneration": 2,
                "conditions": [
                    {"type": "Initialized", "status": "True"}, {"type": "Deployed", "status": "True", "reason": "InstallSuccessful"},
                    {"type": "Available", "status": "True", "reason": "Quorum"}, {"type": "DependenciesReady", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "Progressing", "message": "add a-1:\nwaiting for it"},
                ],
                "release": {"name": "a", "namespace": "ns", "revision": 3, "chart": "db-1.0.0"},
                "members": {"db": {"size": 2, "replicas": 2, "ready": 1}},
                "plan": {"members": "db", "state": "InProgress", "since": 0, "phases": [
                    {"name": "add a-1", "state": "InProgress", "steps": [{"name": "a ready pod", "state": "Waiting"}]}]},
                "resources": [
                    {"kind": "StatefulSet", "name": "a", "health": "Progressing", "message": "1 of 2 replicas are ready"},
                    {"kind": "Service", "name": "a", "namespace": "other", "health": "Ready"},
                ],
            },
        });
        assert_eq!(workloads(&cr), [("StatefulSet", "ns".into(), "a".into())]);
        let ready = json!({"metadata": {"name": "a-0"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let stuck = json!({"metadata": {"name": "a-1"}, "status": {"phase": "Pending",
            "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "none"}}}]}});
        let pods = Pods::from([(("StatefulSet".into(), "ns".into(), "a".into()), Ok(vec![ready, stuck]))]);
        let expected = "\
Db ns/a               Progressing   add a-1: waiting for it
├─ release a          revision 3    chart db-1.0.0
├─ members db         Progressing   1 of 2 are ready, 2 replicas
├─ plan for db        InProgress    since 1970-01-01T00:00:00Z
│  └─ add a-1         InProgress
│     └─ a ready pod  Waiting
├─ StatefulSet a      Progressing   1 of 2 replicas are ready
│  ├─ Pod a-0         Ready
│  └─ Pod a-1         ErrImagePull  none
└─ Service other/a    Ready
";
        assert_eq!(tree(&cr, &pods).to_string(), expected);
    }

    #[test]
    fn members_with_a_primary_are_shown_with_their_roles() {
        let members = json!({"size": 3, "replicas": 3, "ready": 2, "safeToFailOver": false,
            "unsafeBecause": "these members have to answer first: a-2",
            "members": [
                {"name": "a-0", "role": "Replica", "receiving": true, "lag": 2.0, "version": "11.8.9"},
                {"name": "a-1", "role": "Primary", "writable": false},
                {"name": "a-2", "role": "Unknown", "problem": "connection refused"},
            ],
            "lastChange": {"kind": "FailOver", "from": "a-0", "to": "a-1", "at": "1970-01-01T00:00:00Z", "why": "it was lost"}});
        let cr = json!({"kind": "Db", "metadata": {"name": "a"}, "status": {"members": {"db": members}}});
        let expected = "Db a               Unknown
├─ spec            Unseen       the operator has not looked at its \
                        last change yet
└─ members db      Progressing  2 of 3 are ready, 3 replicas
   ├─ \
                        a-0          Replica      version 11.8.9, lags 2 s
   ├─ a-1          Primary      takes no \
                        writes
   ├─ a-2          Unknown      connection refused
   ├─ fail-over    Unsafe       \
                        these members have to answer first: a-2
   └─ last change  FailOver     1970-01-01T00:00:00Z \
                        a-0 → a-1: it was lost
";
        assert_eq!(tree(&cr, &Pods::default()).to_string(), expected);
    }

    #[test]
    fn the_plan_of_an_operation_has_its_name() {
        let plan = json!({"operation": "backup", "state": "InProgress", "since": 0, "phases": [
            {"name": "Job app-backup", "state": "InProgress", "steps": [{"name": "Job app-backup-1", "state": "Waiting"}]}]});
        let cr = json!({"kind": "Web", "metadata": {"name": "app"}, "status": {"plan": plan}});
        let expected = "\
Web app                    Unknown
├─ spec                    Unseen      the operator has not looked at its last change yet
└─ operation backup        InProgress  since 1970-01-01T00:00:00Z
   └─ Job app-backup       InProgress
      └─ Job app-backup-1  Waiting
";
        assert_eq!(tree(&cr, &Pods::new()).to_string(), expected);
    }

    #[test]
    fn the_fields_of_a_chart_are_shown_and_times_have_their_age() {
        let backup = Timestamp::now() - jiff::SignedDuration::from_hours(30);
        let cr = json!({"kind": "Db", "metadata": {"name": "a"}, "status": {"observedGeneration": 1, "replicas": 3,
            "primary": "a-1", "page": "x\u{1b}[2J\ny\u{202e}", "safeToFailOver": true, "lastScheduledBackup": backup.to_string(), "pods": ["a-0"]}});
        let got = tree(&cr, &Pods::new()).to_string();
        let words = got.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            !got.contains('\u{1b}') && !got.contains('\u{202e}'),
            "what a tenant writes reaches no terminal: {got:?}"
        );
        for shown in ["page x\\u{1b}[2J y", "primary a-1", "safeToFailOver true", ", 30h ago"] {
            assert!(words.contains(shown), "{shown} in {got}");
        }
        assert!(!got.contains("replicas") && !got.contains("pods"), "{got}");
    }

    #[test]
    fn a_custom_resource_that_nobody_looked_at() {
        let cr = json!({"kind": "Db", "metadata": {"name": "a", "generation": 1}});
        let got = tree(&cr, &Pods::new()).to_string();
        assert!(got.starts_with("Db a"), "{got}");
        assert!(got.contains("Unknown") && got.contains("Unseen"), "{got}");
    }

    #[test]
    fn a_condition_is_shown_in_its_remarkable_status_alone() {
        let shown = |name: &str, status: &str| {
            let conditions = json!([{"type": name, "status": status, "reason": "R"}]);
            let cr = json!({"kind": "Db", "metadata": {"name": "a"}, "status": {"conditions": conditions}});
            tree(&cr, &Pods::new()).to_string().contains(&format!("condition {name}"))
        };
        for (name, remarkable) in
            [("Available", "False"), ("DependenciesReady", "False"), ("Stalled", "True"), ("OperationFailed", "True")]
        {
            let other = if remarkable == "True" { "False" } else { "True" };
            assert!(shown(name, remarkable) && !shown(name, other), "{name}");
        }
        assert!(!shown("Deployed", "True") && !shown("Reconciling", "True"));
    }
}
