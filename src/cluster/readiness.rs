//! Whether a live object is ready, by the rules of kstatus (`pkg/kstatus/status`, cli-utils 1.2).
//!
//! It is stricter than kstatus where `Ready` would hide that nothing runs: a Job is ready when it has completed, not
//! when it has started; a failed pod is not ready; a load balancer must have an address; and a `StatefulSet` with
//! `OnDelete` must have its replicas.

use serde_json::Value;

use crate::mask::Text;
use crate::object::Gvk;
use crate::object::conditions::{Condition, Conditions};
use crate::release::live::{Health, Scale};

/// The health of an object. An object of a kind without a rule here is ready if it exists, unless a `Ready`,
/// `Reconciling` or `Stalled` condition says that it is not, or its controller has not observed its last change.
pub fn health(gvk: &Gvk, object: &Value) -> Health {
    if let Some(told) = generic(object) {
        return told;
    }
    match (&*gvk.group, &*gvk.kind) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object),
        ("policy", "PodDisruptionBudget") => disruption_budget(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("apiregistration.k8s.io", "APIService") => api_service(object),
        // The conditions of the core kinds are handled above. The `Ready` of a Node does not concern the release.
        ("" | "batch" | "rbac.authorization.k8s.io" | "networking.k8s.io", _) => Health::Ready,
        _ => custom(object),
    }
}

/// Whether an object is a Job or a Pod that has ended, successfully or not, and will not run again.
pub fn is_finished(gvk: &Gvk, object: &Value) -> bool {
    let is_true = |name: &str| condition(object, name).is_some_and(Condition::is_true);
    match (&*gvk.group, &*gvk.kind) {
        ("batch", "Job") => is_true("Complete") || is_true("Failed"),
        ("", "Pod") => {
            let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            let restarts = object.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or("Always");
            matches!(phase, "Succeeded" | "Failed") && restarts != "Always"
        }
        _ => false,
    }
}

/// The label selector of a workload's pods; `None` for an object without its own pods.
pub fn pod_selector(gvk: &Gvk, object: &Value) -> Option<String> {
    match (&*gvk.group, &*gvk.kind) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => {
            crate::kind::selector::text(object.pointer("/spec/selector")?).ok().flatten()
        }
        ("", "ReplicationController") => {
            let labels = object.pointer("/spec/selector").and_then(Value::as_object)?;
            let term = |(key, value): (&String, &Value)| Some(format!("{key}={}", value.as_str()?));
            labels.iter().map(term).collect::<Option<Vec<_>>>().map(|terms| terms.join(","))
        }
        _ => None,
    }
}

/// The size of a workload that has the subresource `scale`.
pub fn scale(gvk: &Gvk, object: &Value) -> Option<Scale> {
    let can_be_scaled = &*gvk.group == "apps" && matches!(&*gvk.kind, "Deployment" | "StatefulSet" | "ReplicaSet");
    let selector = pod_selector(gvk, object).filter(|_| can_be_scaled)?.into();
    let replicas = object.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or(0);
    Some(Scale { replicas: u32::try_from(replicas).ok()?, selector })
}

/// Why a pod is not ready, as `REASON: MESSAGE`; `None` if it is ready, is being deleted, or the reason is not known
/// yet.
pub fn pod_reason(pod: &Value) -> Option<Text> {
    let is_ready = condition(pod, "Ready").is_some_and(Condition::is_true);
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if is_ready || phase == "Succeeded" || pod.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null()) {
        return None;
    }
    if let Some(reason) = container_reason(pod) {
        return Some(reason);
    }
    if phase == "Failed" {
        let status = pod.get("status").unwrap_or(&Value::Null);
        let reason = if text(status, "reason").is_empty() { "Failed" } else { text(status, "reason") };
        return Some(Text::reason(reason, text(status, "message")));
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|c| c.is_false())?;
    (!unscheduled.reason().is_empty()).then(|| Text::reason(unscheduled.reason(), unscheduled.message()))
}

/// The first container that waits for more than its turn, or that failed. The output of a program is not shown, since
/// it may quote anything.
fn container_reason(pod: &Value) -> Option<Text> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let all = || statuses.iter().filter_map(|s| pod.pointer(s)).filter_map(Value::as_array).flatten();
    for container in all() {
        if let Some(waiting) = container.pointer("/state/waiting") {
            let reason = text(waiting, "reason");
            if let ("CrashLoopBackOff", Some(ended)) = (reason, ended(container)) {
                // The kubelet's own message contains a number of seconds, and would be new each time.
                return Some(Text::own(format!("{reason}: {ended}")));
            }
            if !matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
                return Some(Text::reason(reason, text(waiting, "message")));
            }
        }
    }
    all().find_map(|container| {
        let reason = ["/state/terminated/reason", "/lastState/terminated/reason"];
        let reason = reason.iter().find_map(|r| container.pointer(r)).and_then(Value::as_str).unwrap_or("Error");
        ended(container).map(|how| Text::own(format!("{reason}: {how}")))
    })
}

/// How a container ended, if it failed.
fn ended(container: &Value) -> Option<String> {
    let code = |state: &str| container.pointer(state).and_then(Value::as_i64);
    let code = code("/state/terminated/exitCode").or_else(|| code("/lastState/terminated/exitCode"));
    let code = code.filter(|c| *c != 0)?;
    Some(format!("container {} ended with exit code {code}", text(container, "name")))
}

/// The checks of kstatus for every object, before the rule of its kind.
fn generic(object: &Value) -> Option<Health> {
    if object.pointer("/status/observedGeneration").is_some()
        && let Some(stale) = stale(object)
    {
        return Some(stale);
    }
    if let Some(c) = condition(object, "Stalled").filter(|c| c.is_true()) {
        return Some(failed(Text::reason(c.reason(), c.message())));
    }
    let reconciling = condition(object, "Reconciling").filter(|c| c.is_true())?;
    Some(progressing(Text::reason(reconciling.reason(), reconciling.message())))
}

fn deployment(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = Status(object);
    let rolling_out = condition(object, "Progressing");
    if let Some(c) = rolling_out.filter(|c| c.reason() == "ProgressDeadlineExceeded") {
        return failed(Text::own("its roll-out exceeded its deadline: ").and(Text::foreign(c.message())));
    }
    if let Some(c) = condition(object, "ReplicaFailure").filter(|c| c.is_true()) {
        return failed(Text::own("its pods cannot be created: ").and(Text::foreign(c.message())));
    }
    if let Some(few) = status.fewer("updatedReplicas", wanted, "replicas", "updated") {
        return few;
    }
    if status.of("replicas") > wanted.max(status.of("updatedReplicas")) {
        let old = status.of("replicas") - status.of("updatedReplicas");
        return progressing(Text::own(format!("{old} old replicas are still there")));
    }
    if status.of("replicas") > wanted {
        return progressing(Text::own(format!("{} replicas too many are still there", status.of("replicas") - wanted)));
    }
    if let Some(few) = status.fewer("availableReplicas", wanted, "replicas", "available") {
        return few;
    }
    if let Some(few) = status.fewer("readyReplicas", wanted, "replicas", "ready") {
        return few;
    }
    // Without a deadline the controller does not write the condition.
    let deadline = number(object, "/spec/progressDeadlineSeconds").is_some_and(|s| s != i64::from(i32::MAX));
    if deadline && rolling_out.is_none_or(|c| c.reason() != "NewReplicaSetAvailable") {
        return progressing("its roll-out is not complete");
    }
    match condition(object, "Available") {
        Some(c) if c.is_true() => Health::Ready,
        _ => progressing("it is not available"),
    }
}

fn stateful_set(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = Status(object);
    if let Some(few) = status.fewer("readyReplicas", wanted, "replicas", "ready") {
        return few;
    }
    if status.of("replicas") > wanted {
        return progressing(Text::own(format!("{} replicas too many are still there", status.of("replicas") - wanted)));
    }
    if is_on_delete(object) {
        return Health::Ready;
    }
    if let Some(partition) = number(object, "/spec/updateStrategy/rollingUpdate/partition").filter(|p| *p > 0) {
        let updates = wanted - partition.min(wanted);
        return status.fewer("updatedReplicas", updates, "replicas", "updated").unwrap_or(Health::Ready);
    }
    if let Some(few) = status.fewer("updatedReplicas", wanted, "replicas", "updated") {
        return few;
    }
    let revision = |name: &str| object.pointer(&format!("/status/{name}"));
    if revision("currentRevision") != revision("updateRevision") {
        return progressing("its roll-out is not complete");
    }
    Health::Ready
}

fn daemon_set(object: &Value) -> Health {
    // Before the controller has observed it there is no status, and zero of zero pods would be ready.
    if object.pointer("/status/observedGeneration").is_none() {
        return progressing("its controller has not seen it yet");
    }
    let status = Status(object);
    let wanted = status.of("desiredNumberScheduled");
    let mut checks = vec![("currentNumberScheduled", "scheduled")];
    if !is_on_delete(object) {
        checks.push(("updatedNumberScheduled", "updated"));
    }
    checks.extend([("numberAvailable", "available"), ("numberReady", "ready")]);
    let few = |(field, word): (&str, &str)| status.fewer(field, wanted, "pods", word);
    checks.into_iter().find_map(few).unwrap_or(Health::Ready)
}

fn replica_set(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    if let Some(c) = condition(object, "ReplicaFailure").filter(|c| c.is_true()) {
        return failed(Text::own("its pods cannot be created: ").and(Text::foreign(c.message())));
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = Status(object);
    if let Some(few) = status.fewer("availableReplicas", wanted, "replicas", "available") {
        return few;
    }
    if status.of("replicas") > wanted {
        return progressing(Text::own(format!("{} replicas too many are still there", status.of("replicas") - wanted)));
    }
    Health::Ready
}

fn job(object: &Value) -> Health {
    if let Some(condition) = condition(object, "Failed").filter(|c| c.is_true()) {
        return failed(Text::own("it failed: ").and(Text::foreign(condition.message())));
    }
    if condition(object, "Complete").is_some_and(Condition::is_true) {
        return Health::Ready;
    }
    if object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        return progressing("it is suspended");
    }
    progressing("it has not completed")
}

fn pod(object: &Value) -> Health {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending");
    if phase == "Succeeded" {
        return Health::Ready;
    }
    if let Some(reason) = pod_reason(object) {
        let waits =
            phase != "Failed" && ["Unschedulable", "SchedulingGated"].iter().any(|r| reason.beginning().starts_with(r));
        return if waits { progressing(reason) } else { failed(reason) };
    }
    match condition(object, "Ready") {
        Some(c) if c.is_true() => Health::Ready,
        Some(c) if !c.message().is_empty() => progressing(Text::foreign(c.message())),
        _ => progressing(Text::own(format!("it is {}", phase.to_lowercase()))),
    }
}

fn claim(object: &Value) -> Health {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Bound") => Health::Ready,
        Some("Lost") => failed("its volume is lost"),
        _ => progressing("it is not bound to a volume"),
    }
}

fn service(object: &Value) -> Health {
    let balanced = object.pointer("/spec/type").and_then(Value::as_str) == Some("LoadBalancer");
    let external = object.pointer("/spec/externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    if balanced && !external && ingress.is_none_or(Vec::is_empty) {
        return progressing("it has no load balancer yet");
    }
    Health::Ready
}

/// An autoscaler that cannot find its target does nothing. Missing metrics do not matter: a new cluster has none for
/// minutes.
fn autoscaler(object: &Value) -> Health {
    match condition(object, "AbleToScale").filter(|c| c.is_false()) {
        Some(c) => progressing(Text::reason(c.reason(), c.message())),
        None => Health::Ready,
    }
}

fn disruption_budget(object: &Value) -> Health {
    if let Some(stale) = stale(object) {
        return stale;
    }
    match condition(object, "DisruptionAllowed").filter(|c| c.reason() == "SyncFailed") {
        Some(c) => progressing(Text::reason("SyncFailed", c.message())),
        None => Health::Ready,
    }
}

fn definition(object: &Value) -> Health {
    if let Some(c) = condition(object, "NamesAccepted").filter(|c| c.is_false()) {
        return failed(Text::own("the API server refuses its names: ").and(Text::foreign(c.message())));
    }
    match condition(object, "Established") {
        Some(c) if c.is_true() => Health::Ready,
        Some(c) if c.is_false() && c.reason() != "Installing" => failed(Text::reason(c.reason(), c.message())),
        _ => progressing("it is not established"),
    }
}

/// Whether the API's own server answers.
fn api_service(object: &Value) -> Health {
    match condition(object, "Available") {
        Some(c) if c.is_true() => Health::Ready,
        Some(c) => progressing(Text::reason(c.reason(), c.message())),
        None => progressing("it is not known yet whether its server answers"),
    }
}

/// A custom resource by the rules of kstatus. Without a condition it is ready if it exists.
fn custom(object: &Value) -> Health {
    match condition(object, "Ready") {
        Some(c) if !c.is_true() => progressing(Text::own("it is not ready: ").and(Text::foreign(c.message()))),
        _ => Health::Ready,
    }
}

/// Whether the controller of a workload has not observed its last change.
fn stale(object: &Value) -> Option<Health> {
    let generation = number(object, "/metadata/generation").unwrap_or(0);
    let observed = number(object, "/status/observedGeneration").unwrap_or(0);
    (observed < generation).then(|| progressing("its controller has not seen the last change yet"))
}

fn is_on_delete(object: &Value) -> bool {
    object.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete")
}

/// The numbers in a workload's status.
#[derive(Clone, Copy)]
struct Status<'a>(&'a Value);

impl Status<'_> {
    fn of(self, name: &str) -> i64 {
        self.0.get("status").and_then(|s| s.get(name)).and_then(Value::as_i64).unwrap_or(0)
    }
    fn fewer(self, name: &str, wanted: i64, what: &str, word: &str) -> Option<Health> {
        let is = self.of(name);
        (is < wanted).then(|| progressing(Text::own(format!("{is} of {wanted} {what} are {word}"))))
    }
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<Condition<'a>> {
    Conditions::of_object(object).get(name)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

fn progressing(message: impl Into<Text>) -> Health {
    Health::Progressing(message.into())
}

fn failed(message: impl Into<Text>) -> Health {
    Health::Failed(message.into())
}

#[cfg(test)]
#[path = "readiness_tests.rs"]
mod tests;
