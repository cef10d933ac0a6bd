//! The status of a custom resource: a pure function of the last status and of the findings and actions of the pass.
//!
//! The conditions `Initialized Deployed ReleaseFailed Irreconcilable` and their reasons are helm-operator's
//! (`internal/helm/types/types.go`, operator-sdk 1.42); `Ready Reconciling Stalled` are those that kstatus reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Verb;
use super::attempts::{self, Retry};
use super::dependencies::{self, Needed};
use super::fields;
use super::operations;
use super::reasons::CONDITIONS;
use super::situation::{Drift, Situation};
use crate::members::conditions::{ClusterCondition, TYPES};
use crate::members::progress::{ASLEEP, MembersStatus};
use crate::object::ObjectId;
use crate::object::conditions::{Condition, ConditionsWriter, bound};
use crate::release::live::{Health, Scale};
use crate::release::record::ChartLabel;

/// Reason of the condition and the event about annotations that the kind does not allow.
pub const NOT_ALLOWED: &str = "AnnotationNotAllowed";
/// The field of `status.release` that counts the repairs of drift: two repairs of the same object differ in nothing else.
pub const REPAIRS: &str = "repairs";
/// The condition of a custom resource about which messages wait because a target does not take them.
pub const NOTICES_FAILING: &str = "NoticesFailing";
/// Names in a message.
const MAX_NAMES: usize = 3;
/// Entries of `status.resources`.
const MAX_RESOURCES: usize = 50;

/// Why a pass failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `PascalCase`.
    pub reason: &'static str,
    /// One or more sentences.
    pub message: String,
    /// Whether it is tried again.
    pub retry: Retry,
}

/// The inputs of the status.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The last status.
    pub old: &'a Map<String, Value>,
    /// Whether the release sleeps.
    pub asleep: bool,
    /// `metadata.generation` of the custom resource.
    pub generation: i64,
    /// Now, RFC 3339.
    pub now: &'a str,
    /// The state of the release.
    pub situation: &'a Situation,
    /// The action that was taken.
    pub verb: Verb,
    /// Why that failed.
    pub failure: Option<&'a Failure>,
    /// The inputs digest.
    pub inputs: Option<&'a str>,
    /// The digest of everything that an attempt depends on, see [`attempts`].
    pub attempt: &'a str,
    /// The digest of the chart, where a kind may have several.
    pub chart: Option<&'a str>,
    /// The text of `reconcile-at` that this pass answers.
    pub asked: Option<&'a str>,
    /// The changes that `dry-run` prevented.
    pub dry_run: Option<&'a str>,
    /// The objects that a repair changed or removed.
    pub repaired: &'a str,
    /// The deployed revision.
    pub release: Option<Release<'a>>,
    /// NOTES.txt, when this pass knows it.
    pub notes: Option<&'a str>,
    /// The condition that the release waits for before it can continue.
    pub waiting: Option<&'a str>,
    /// The objects of the release, and `None` for those that are missing. Their texts are masked.
    pub objects: &'a BTreeMap<ObjectId, Option<Health>>,
    /// Why the caches cannot see some of the objects.
    pub blind: Option<&'a str>,
    /// The report on members, if the pass looked at them.
    pub members: Option<&'a MembersStatus>,
    /// The report on operations, if there is one.
    pub operations: Option<&'a operations::status::OperationsStatus>,
    /// The message about annotations that the kind does not allow.
    pub refused: Option<&'a str>,
    /// The notices whose messages about it wait because their targets do not accept them; `None` if that is not known
    /// yet.
    pub undelivered: Option<&'a [String]>,
    /// The custom resources that it needs.
    pub dependencies: &'a [Needed],
    /// The fields that the chart names; `None` keeps what the status has.
    pub fields: Option<&'a [(String, fields::FoundField)]>,
    /// The workload that the subresource `scale` is about, if the kind has one and the release one workload.
    pub scale: Option<&'a Scale>,
}

/// The deployed release.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// Revision.
    pub revision: u64,
    /// The chart, when this pass knows it.
    pub chart: Option<ChartLabel>,
    pub manifest: Manifest,
}

/// The content of `status.deployedRelease.manifest`.
#[derive(Clone, Debug)]
pub enum Manifest {
    /// Nothing: it is not configured.
    Hidden,
    /// The previous text: this pass does not know it.
    AsBefore,
    /// This text.
    Text(String),
}

/// The new status.
pub fn status(report: &Report<'_>) -> Map<String, Value> {
    let mut status = report.old.clone();
    status.insert("observedGeneration".into(), report.generation.into());
    match report.failure {
        Some(failure) if counts(report) => {
            let attempted =
                attempts::failed(report.old, report.attempt, report.chart, failure.reason, failure.retry, report.now);
            status.insert("lastAttempted".into(), attempted);
        }
        None if ends_attempts(report) || renders_again(report) => {
            status.remove("lastAttempted");
        }
        _ => {}
    }
    let spent = attempts::read(&status, report.attempt).spent && report.failure.is_some() && counts(report);
    let mut conditions = ConditionsWriter::new(report.old, report.generation, report.now);
    conditions.set("Initialized", true, "", "");
    helm_conditions(report, &mut conditions);
    ready_conditions(report, spent, &mut conditions);
    switch_conditions(report, &mut conditions);
    drift_condition(report, &mut conditions);
    member_conditions(report, &mut conditions);
    operation_conditions(report, &mut conditions);
    dependency_condition(report, &mut conditions);
    notice_condition(report, &mut conditions);
    conditions.write(&mut status);
    if let Some(release) = &report.release {
        let before = || report.old.get("deployedRelease")?.get("manifest").cloned();
        let manifest = match &release.manifest {
            Manifest::Hidden => None,
            Manifest::AsBefore => before(),
            Manifest::Text(text) => Some(text.as_str().into()),
        };
        let mut deployed = json!({"name": release.name});
        if let Some(manifest) = manifest {
            deployed["manifest"] = manifest;
        }
        status.insert("deployedRelease".into(), deployed);
        status.insert("release".into(), release_status(report, release));
        status.insert("resources".into(), resources(report));
        if let Some(fields) = report.fields {
            fields::enter(&mut status, fields);
        }
    } else if report.verb == Verb::Abandon && report.failure.is_none() {
        fields::remove(&mut status);
        for gone in ["deployedRelease", "release", "resources"] {
            status.remove(gone);
        }
    }
    if let Some(told) = report.members {
        if told.gone {
            status.remove("members");
            if status.get("plan").is_some_and(|plan| plan.get("members").is_some()) {
                status.remove("plan");
            }
        }
        if !told.members.is_empty() {
            let mut members = told.members.clone();
            keep_latches(&mut members, told, report.old);
            status.insert("members".into(), Value::Object(members));
        }
        if let Some(plan) = &told.plan {
            status.insert("plan".into(), plan.clone());
        }
    }
    dependencies::enter(&mut status, report.dependencies);
    if let Some(scale) = report.scale {
        status.insert("replicas".into(), scale.replicas.into());
        status.insert("selector".into(), (*scale.selector).into());
    }
    if let Some(told) = report.operations {
        operations::status::enter(&mut status, told);
    }
    match report.asked {
        Some(asked) if !matches!(report.situation, Situation::Paused(_)) && report.dry_run.is_none() => {
            status.insert("lastHandledReconcileAt".into(), asked.into());
        }
        _ => {}
    }
    status
}

/// Latches that are written alone stay as they are: the facts that a pass has about them may be outdated by now.
fn keep_latches(members: &mut Map<String, Value>, told: &MembersStatus, old: &Map<String, Value>) {
    for name in &told.latched_alone {
        let Some(Value::Object(entry)) = members.get_mut(name) else { continue };
        match old.get("members").and_then(|all| all.get(name)?.get("latch")) {
            Some(latch) => drop(entry.insert("latch".into(), latch.clone())),
            None => drop(entry.remove("latch")),
        }
    }
}

/// Whether a failure counts as an attempt: repairs and rollbacks are tried without a limit.
fn counts(report: &Report<'_>) -> bool {
    !matches!(report.verb, Verb::Repair | Verb::RollBack | Verb::Abandon) && !was_spent(report)
}

/// Whether the attempts were spent before this pass. Then what fails now is a consequence, such as the rollback, and does not
/// reset the attempts.
fn was_spent(report: &Report<'_>) -> bool {
    attempts::read(report.old, report.attempt).spent
}

/// Whether the last attempt is over.
fn ends_attempts(report: &Report<'_>) -> bool {
    let goes_on = matches!(
        report.situation,
        Situation::Blocked
            | Situation::Refused(_)
            | Situation::Awaiting(_)
            | Situation::Drifted(_)
            | Situation::Paused(_)
            | Situation::RollBack(_)
            | Situation::Abandoned
    );
    !goes_on && report.verb != Verb::RollBack && report.dry_run.is_none() && report.waiting.is_none()
}

/// Whether the chart renders again, after an object that it looks up has appeared, and the release waits for a hook.
/// The digest of the inputs is the same as that of the failure, which would otherwise keep the pass after the hook from
/// applying anything.
fn renders_again(report: &Report<'_>) -> bool {
    let renders = matches!(report.verb, Verb::Install | Verb::Upgrade) && report.dry_run.is_none();
    renders && report.waiting.is_some() && attempts::reason(report.old) == Some("RenderError")
}

/// Reports contested fields and their manager in a status. The condition becomes `False` when no field is contested.
pub fn contested(status: &mut Map<String, Value>, generation: i64, now: &str, message: Option<&str>) {
    let mut conditions = ConditionsWriter::new(status, generation, now);
    match message {
        Some(message) => conditions.set("Drifted", true, "Contested", message),
        None if is_contested(&conditions) => conditions.set("Drifted", false, "Settled", ""),
        None => return,
    }
    conditions.write(status);
}

/// The status of a custom resource whose release is gone, while finalizers of others hold it.
pub fn uninstalled(old: &Map<String, Value>, generation: i64, now: &str, holders: &[&str]) -> Map<String, Value> {
    let mut status = old.clone();
    status.insert("observedGeneration".into(), generation.into());
    fields::remove(&mut status);
    for gone in [
        "deployedRelease",
        "release",
        "resources",
        "lastAttempted",
        "members",
        "plan",
        "replicas",
        "selector",
        "dependencies",
    ] {
        status.remove(gone);
    }
    let mut conditions = ConditionsWriter::new(old, generation, now);
    let message = format!(
        "the release is uninstalled; waiting for the finalizers {} to be removed by their owners",
        holders.join(", ")
    );
    for gone in CONDITIONS.iter().filter(|condition| !condition.outlives_release) {
        conditions.remove(gone.name);
    }
    conditions.set("Deployed", false, "UninstallSuccessful", &message);
    conditions.set("Ready", false, "Uninstalled", &message);
    conditions.set("Reconciling", false, "Uninstalled", "");
    conditions.set("Stalled", false, "Uninstalled", "");
    conditions.write(&mut status);
    status
}

/// The status of a custom resource that no operator serves now, because this definition of its chart was deleted and
/// left it.
pub fn not_served(old: &Map<String, Value>, generation: i64, now: &str, definition: &str) -> Map<String, Value> {
    let mut status = old.clone();
    let mut conditions = ConditionsWriter::new(old, generation, now);
    let message = format!(
        "no operator serves this custom resource: the ChartDefinition {definition} was deleted with onDelete: Orphan. \
         Its objects stay as they are; if you delete it, the objects that it owns are deleted without hooks"
    );
    conditions.set("Ready", false, "NotServed", &message);
    conditions.set("Stalled", true, "NotServed", &message);
    conditions.set("Reconciling", false, "NotServed", "");
    conditions.write(&mut status);
    status
}

/// Reports in a status that a pass panicked, until the next pass ends.
pub fn panicked(status: &mut Map<String, Value>, generation: i64, now: &str, reason: &str, message: &str) {
    let mut conditions = ConditionsWriter::new(status, generation, now);
    conditions.set("Irreconcilable", true, "ReconcileError", message);
    conditions.set("Ready", false, reason, message);
    conditions.write(status);
}

/// The JSON merge patch that turns one status into another, or `None` when they are equal.
pub fn patch(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in new {
        if old.get(key) != Some(value) {
            let was = old.get(key).unwrap_or(&Value::Null);
            patch.insert(key.clone(), difference(was, value));
        }
    }
    for key in old.keys().filter(|k| !new.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// A value for a JSON merge patch. The patch merges objects, so it must name the keys to remove. It leaves out
/// unchanged fields, because another client may have changed them meanwhile.
pub fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value));
    let mut patch: Map<String, Value> =
        changed.map(|(key, value)| (key.clone(), difference(old.get(key).unwrap_or(&Value::Null), value))).collect();
    patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    Value::Object(patch)
}

fn helm_conditions(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    if let Situation::Refused(refusal) = report.situation {
        conditions.set("Irreconcilable", true, "ReconcileError", &refusal.message);
        return;
    }
    let Some(failure) = report.failure else {
        if renders_again(report) {
            conditions.remove("Irreconcilable");
        }
        if report.dry_run.is_some() || report.waiting.is_some() {
            return;
        }
        let reason = match report.verb {
            Verb::Upgrade => Some("UpgradeSuccessful"),
            Verb::Resume if report.release.as_ref().is_some_and(|r| r.revision > 1) => Some("UpgradeSuccessful"),
            Verb::Install | Verb::Resume => Some("InstallSuccessful"),
            _ => None,
        };
        match (reason, &report.release) {
            (Some(reason), _) => conditions.set("Deployed", true, reason, report.notes.unwrap_or_default()),
            (None, Some(release)) if !conditions.read().is_true("Deployed") => {
                let reason = if release.revision > 1 { "UpgradeSuccessful" } else { "InstallSuccessful" };
                conditions.set("Deployed", true, reason, report.notes.unwrap_or_default());
            }
            (None, _) => {}
        }
        let repaired = matches!(report.situation, Situation::Drifted(_)) && !conditions.read().is_true("Stalled");
        if repaired && !has_attempts(report) || ends_attempts(report) && report.verb != Verb::CreateCrds {
            conditions.remove("ReleaseFailed");
            conditions.remove("Irreconcilable");
        }
        return;
    };
    if was_spent(report) && report.verb != Verb::Repair {
        return;
    }
    let (condition, reason) = match report.verb {
        Verb::Install => ("ReleaseFailed", "InstallError"),
        Verb::Resume if report.release.is_none() => ("ReleaseFailed", "InstallError"),
        Verb::Upgrade | Verb::Resume | Verb::RollBack => ("ReleaseFailed", "UpgradeError"),
        Verb::Uninstall | Verb::Abandon => ("ReleaseFailed", "UninstallError"),
        Verb::Rest | Verb::Repair | Verb::Note | Verb::CreateCrds => ("Irreconcilable", "ReconcileError"),
    };
    conditions.set(condition, true, reason, &failure.message);
}

/// Whether the last status holds failed attempts.
fn has_attempts(report: &Report<'_>) -> bool {
    report.old.contains_key("lastAttempted")
}

fn ready_conditions(report: &Report<'_>, spent: bool, conditions: &mut ConditionsWriter<'_>) {
    let stalled = match (report.situation, report.failure) {
        (Situation::Refused(refusal), _) => Some((refusal.reason, refusal.message.clone())),
        (_, Some(failure)) if spent => Some((failure.reason, given_up(failure))),
        _ => None,
    };
    let (ready, reason, message) = readiness(report);
    // The conditions still say why nothing is tried; only the health of the deployed objects is new.
    let blocked = matches!(report.situation, Situation::Blocked | Situation::RollBack(_) | Situation::Abandoned)
        || report.verb == Verb::RollBack
        || report.failure.is_some() && was_spent(report)
        || matches!(report.situation, Situation::Drifted(_)) && conditions.read().is_true("Stalled");
    if report.waiting.is_some() && is_held_by_a_hook(report) {
        return;
    }
    let stands_still = matches!(report.situation, Situation::Paused(_)) || report.dry_run.is_some();
    if blocked && report.failure.is_none() {
        let of = |stalled: Condition<'_>| (stalled.reason().to_owned(), stalled.message().to_owned());
        if let Some((reason, message)) = conditions.read().get("Stalled").map(of) {
            conditions.set("Ready", false, &reason, &message);
        }
        return;
    }
    if stands_still {
        let why = if report.dry_run.is_some() { "DryRun" } else { "Paused" };
        conditions.set("Reconciling", false, why, "");
    } else if let Some((reason, message)) = &stalled {
        conditions.set("Stalled", true, reason, message);
        conditions.set("Reconciling", false, reason, "");
    } else {
        let reconciling = match report.failure {
            Some(failure) => Some((failure.reason, failure.message.as_str())),
            None if !ready && reason != ASLEEP => Some((reason, message.as_str())),
            None => None,
        };
        if !blocked {
            let why = if reconciling.is_some() { "Progressing" } else { "Settled" };
            conditions.set("Stalled", false, why, "");
        }
        match reconciling {
            Some((reason, message)) => conditions.set("Reconciling", true, reason, message),
            None => conditions.set("Reconciling", false, "Settled", ""),
        }
    }
    match (stalled, report.failure) {
        (Some((reason, message)), _) => conditions.set("Ready", false, reason, &message),
        (None, Some(failure)) => conditions.set("Ready", false, failure.reason, &failure.message),
        (None, None) => conditions.set("Ready", ready, reason, &message),
    }
}

/// Whether a hook that failed holds a deletion, and runs again. `Ready` still has its message.
fn is_held_by_a_hook(report: &Report<'_>) -> bool {
    let failed = attempts::read(report.old, report.attempt).failed > 0;
    report.verb == Verb::Uninstall && failed && attempts::reason(report.old) == Some("HookFailed")
}

/// The message of `Stalled` after the last attempt.
fn given_up(failure: &Failure) -> String {
    match failure.retry {
        Retry::Bounded => format!("given up after {} attempts: {}", attempts::MAX_ATTEMPTS, failure.message),
        Retry::Never | Retry::Always => failure.message.clone(),
    }
}

/// `Paused` and `DryRun`: present only while the switch is on.
fn switch_conditions(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    match report.situation {
        Situation::Paused(_) => {
            conditions.set(
                "Paused",
                true,
                "Paused",
                "the operator does nothing while the annotation tillerman.dev/paused is true",
            );
        }
        _ => conditions.remove("Paused"),
    }
    match report.dry_run {
        Some(plan) => conditions.set("DryRun", true, "DryRun", plan),
        None => conditions.remove("DryRun"),
    }
    match report.refused {
        Some(refused) => conditions.set("AnnotationsIgnored", true, NOT_ALLOWED, refused),
        None => conditions.remove("AnnotationsIgnored"),
    }
}

/// Those of coreos' etcd-operator, which also had `lastUpdateTime`.
fn member_conditions(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    let Some(told) = report.members.filter(|told| told.gone || told.conditions.is_some()) else { return };
    for name in TYPES {
        let found = told.conditions.iter().flatten().find(|condition| condition.name == name);
        if found.is_none() {
            conditions.remove(name);
        }
        let Some(ClusterCondition { on, reason, message, .. }) = found else { continue };
        conditions.set_with_update_time(name, *on, reason, message);
    }
}

/// Why an operation waits before it begins, and why one failed: present only while true. And whether a drill restored the last backup.
fn operation_conditions(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    let Some(told) = report.operations else { return };
    for (name, said) in [("OperationPending", &told.pending), ("OperationFailed", &told.failed)] {
        match said {
            Some((reason, message)) => conditions.set(name, true, reason, message),
            None => conditions.remove(name),
        }
    }
    match &told.proven {
        Some((on, reason, message)) => conditions.set("RestoreProven", *on, reason, message),
        None => conditions.remove("RestoreProven"),
    }
}

/// Present only where there are dependencies.
fn dependency_condition(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    if report.dependencies.is_empty() {
        conditions.remove("DependenciesReady");
    } else if let Some((ready, reason, message)) = dependencies::condition(report.dependencies) {
        conditions.set("DependenciesReady", ready, reason, &message);
    }
}

/// Present only while messages wait. The target's answer is in the status of the notice, because it changes with each
/// attempt.
fn notice_condition(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    match report.undelivered {
        None => {}
        Some([]) => conditions.remove(NOTICES_FAILING),
        Some(notices) => {
            let shown = notices.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = notices.len().saturating_sub(MAX_NAMES);
            let and = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!(
                "messages about this custom resource wait: the targets of these notices do not accept them: \
                 {shown}{and}; see kubectl get notices"
            );
            conditions.set("NoticesFailing", true, "SendFailed", &message);
        }
    }
}

/// Whether the condition `Drifted` reports a contested field, which [`contested`] ends.
fn is_contested(conditions: &ConditionsWriter<'_>) -> bool {
    let drifted = conditions.read().get("Drifted");
    drifted.is_some_and(|drifted| drifted.is_true() && drifted.reason() == "Contested")
}

/// `Drifted`: objects differ from the deployed revision, with the reason why they stay so; or the objects that were
/// repaired last.
fn drift_condition(report: &Report<'_>, conditions: &mut ConditionsWriter<'_>) {
    let (drift, reason) = match (report.situation, report.failure) {
        (Situation::Paused(drift), _) => (drift, "Paused"),
        (Situation::Drifted(drift), _) if report.dry_run.is_some() => (drift, "DryRun"),
        (Situation::Drifted(drift), Some(failure)) => (drift, failure.reason),
        _ if is_contested(conditions) => return,
        (Situation::Drifted(_), None) if !report.repaired.is_empty() => {
            conditions.set("Drifted", false, "Repaired", report.repaired);
            return;
        }
        _ => {
            if conditions.read().is_true("Drifted") && !matches!(report.situation, Situation::Waiting) {
                conditions.set("Drifted", false, "Repaired", "");
            }
            return;
        }
    };
    let mut texts = drift.iter().map(|drift| match drift {
        Drift::Missing(id) => format!("{id} does not exist"),
        Drift::Changed(id) => format!("{id} was changed"),
        Drift::Stray(id, _) => format!("{id} is not part of the revision"),
    });
    if let Some(first) = texts.next() {
        let more = texts.count();
        let message = if more == 0 { first } else { format!("{first}, and {more} more") };
        conditions.set("Drifted", true, reason, &message);
    } else if conditions.read().is_true("Drifted") {
        conditions.set("Drifted", false, "Repaired", "");
    }
}

fn readiness(report: &Report<'_>) -> (bool, &'static str, String) {
    if let Situation::Awaiting(awaits) = report.situation {
        return (false, awaits.reason, awaits.message.clone());
    }
    if let Some(blind) = report.blind {
        return (false, "WatchFailed", blind.to_owned());
    }
    if let Some(waiting) = report.waiting {
        return (false, "Progressing", format!("waiting for {waiting}"));
    }
    if report.verb == Verb::Uninstall {
        return (false, "Uninstalling", "waiting for the objects of the release to be deleted".to_owned());
    }
    if report.verb == Verb::CreateCrds {
        return (false, "Progressing", "waiting for the chart's custom resource definitions".to_owned());
    }
    if report.release.is_none() {
        return (false, "NotDeployed", "nothing is deployed yet".to_owned());
    }
    if let Some((reason, message)) = report.members.and_then(|told| told.unready.as_ref()) {
        return (false, *reason, message.clone());
    }
    let missing = report.objects.iter().find(|(_, health)| health.is_none());
    let failed = report.objects.iter().find(|(_, h)| matches!(h, Some(Health::Failed(_))));
    let waiting = report.objects.iter().find(|(_, h)| matches!(h, Some(Health::Progressing(_))));
    if let Some((id, Some(health))) = failed {
        return (false, "Failed", format!("{id}: {health}"));
    }
    if let Some((id, _)) = missing {
        return (false, "Missing", format!("{id}: it does not exist"));
    }
    if let Some((id, Some(health))) = waiting {
        return (false, "Progressing", format!("{id}: {health}"));
    }
    if report.asleep {
        return (false, ASLEEP, "the release sleeps: its workloads have no pods".to_owned());
    }
    let objects = match report.objects.len() {
        1 => "1 object is ready".to_owned(),
        n => format!("{n} objects are ready"),
    };
    (true, "Ready", objects)
}

fn release_status(report: &Report<'_>, release: &Release<'_>) -> Value {
    let mut value = match report.old.get("release") {
        Some(Value::Object(old)) => old.clone(),
        _ => Map::new(),
    };
    value.insert("name".into(), release.name.into());
    value.insert("namespace".into(), release.namespace.into());
    value.insert("revision".into(), release.revision.into());
    if let Some(chart) = &release.chart {
        value.insert("chart".into(), format!("{}-{}", chart.name, chart.version).into());
        value.insert("appVersion".into(), chart.app_version.as_str().into());
    }
    if report.verb == Verb::Repair && report.failure.is_none() && !report.repaired.is_empty() {
        let before = value.get(REPAIRS).and_then(Value::as_u64).unwrap_or(0);
        value.insert(REPAIRS.into(), before.saturating_add(1).into());
    }
    // An earlier version of the operator ran none.
    value.remove("hooksNotRun");
    if let (Some(inputs), None, true) = (report.inputs, report.failure, ends_attempts(report)) {
        value.insert("digest".into(), inputs.into());
    }
    Value::Object(value)
}

/// The objects, those that are not ready first.
fn resources(report: &Report<'_>) -> Value {
    let mut all: Vec<_> = report.objects.iter().collect();
    all.sort_by_key(|(_, health)| health.as_ref().is_some_and(Health::is_ready));
    let entry = |(id, health): (&ObjectId, &Option<Health>)| {
        let mut entry = json!({"kind": &*id.gvk.kind, "name": &*id.name,
            "health": health.as_ref().map_or("Missing", Health::word)});
        if let Some(namespace) =
            id.namespace.as_deref().filter(|ns| report.release.as_ref().is_some_and(|r| r.namespace != *ns))
        {
            entry["namespace"] = namespace.into();
        }
        if let Some(message) = health.as_ref().and_then(Health::message) {
            entry["message"] = bound(&message.to_string()).into();
        }
        entry
    };
    all.into_iter().take(MAX_RESOURCES).map(entry).collect()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
