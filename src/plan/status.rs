//! What a custom resource's status says: a pure function of the last status and of what the pass found and did.
//!
//! The conditions `Initialized Deployed ReleaseFailed Irreconcilable` and their reasons are helm-operator's
//! (`internal/helm/types/types.go`, operator-sdk 1.42); `Ready Reconciling Stalled` are those that kstatus reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Verb;
use super::attempts::{self, Retry};
use super::live::Health;
use super::situation::{Drift, Situation};
use crate::members::progress::Told;
use crate::release::object::ObjectId;
use crate::release::record::ChartLabel;

/// Bytes of a condition's message; Kubernetes allows 32 KiB, and people read the first lines.
pub const MAX_MESSAGE: usize = 2048;
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

/// What the status is made of.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The last status.
    pub old: &'a Map<String, Value>,
    /// `metadata.generation` of the custom resource.
    pub generation: i64,
    /// Now, RFC 3339.
    pub now: &'a str,
    /// How the release stood.
    pub situation: &'a Situation,
    /// What was done about it.
    pub verb: Verb,
    /// Why that failed.
    pub failure: Option<&'a Failure>,
    /// The inputs digest.
    pub inputs: Option<&'a str>,
    /// The digest of all that an attempt depends on, see [`attempts`].
    pub attempt: &'a str,
    /// The text of `reconcile-at` that this pass answers.
    pub asked: Option<&'a str>,
    /// What would be done, and is not because of `dry-run`.
    pub dry_run: Option<&'a str>,
    /// The objects that a repair changed or removed; empty when there were none.
    pub repaired: &'a str,
    /// The deployed revision.
    pub release: Option<Release<'a>>,
    /// NOTES.txt, when this pass knows it.
    pub notes: Option<&'a str>,
    /// What the release waits for before it can go on.
    pub waiting: Option<&'a str>,
    /// The objects of the release, and `None` for those that are missing.
    pub objects: &'a BTreeMap<ObjectId, Option<Health>>,
    /// Why the caches cannot see some of the objects.
    pub blind: Option<&'a str>,
    /// What is said of members, when the pass looked at them.
    pub members: Option<&'a Told>,
}

/// The deployed release.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Revision.
    pub revision: u64,
    /// The chart, when this pass knows it.
    pub chart: Option<ChartLabel>,
}

/// The new status.
pub fn status(report: &Report<'_>) -> Map<String, Value> {
    let mut status = report.old.clone();
    status.insert("observedGeneration".into(), report.generation.into());
    match report.failure {
        Some(failure) if counts(report) => {
            let attempted = attempts::failed(report.old, report.attempt, failure.reason, failure.retry, report.now);
            status.insert("lastAttempted".into(), attempted);
        }
        None if ends_attempts(report) => {
            status.remove("lastAttempted");
        }
        _ => {}
    }
    let spent = attempts::read(&status, report.attempt).spent && report.failure.is_some() && counts(report);
    let mut conditions = Conditions::read(report);
    conditions.set("Initialized", true, "", "");
    helm_conditions(report, &mut conditions);
    ready_conditions(report, spent, &mut conditions);
    switch_conditions(report, &mut conditions);
    drift_condition(report, &mut conditions);
    status.insert("conditions".into(), Value::Array(conditions.list));
    if let Some(release) = &report.release {
        status.insert("deployedRelease".into(), json!({"name": release.name}));
        status.insert("release".into(), release_status(report, release));
        status.insert("resources".into(), resources(report));
    } else if report.verb == Verb::Abandon && report.failure.is_none() {
        for gone in ["deployedRelease", "release", "resources"] {
            status.remove(gone);
        }
    }
    if let Some(told) = report.members {
        if told.gone {
            status.remove("members");
            status.remove("plan");
        }
        if !told.members.is_empty() {
            status.insert("members".into(), Value::Object(told.members.clone()));
        }
        if let Some(plan) = &told.plan {
            status.insert("plan".into(), plan.clone());
        }
    }
    match report.asked {
        Some(asked) if !matches!(report.situation, Situation::Paused(_)) && report.dry_run.is_none() => {
            status.insert("lastHandledReconcileAt".into(), asked.into());
        }
        _ => {}
    }
    status
}

/// Whether a failure counts as an attempt: repairs and rollbacks go on for as long as they are needed.
fn counts(report: &Report<'_>) -> bool {
    !matches!(report.verb, Verb::Repair | Verb::RollBack | Verb::Abandon) && !was_spent(report)
}

/// Whether the attempts were spent before this pass: what fails now is what follows from that, such as the rollback, and
/// takes no attempt back, whatever it was going to do.
fn was_spent(report: &Report<'_>) -> bool {
    attempts::read(report.old, report.attempt).spent
}

/// Whether what was tried last is over.
fn ends_attempts(report: &Report<'_>) -> bool {
    let goes_on = matches!(
        report.situation,
        Situation::Blocked
            | Situation::Refused(_)
            | Situation::Drifted(_)
            | Situation::Paused(_)
            | Situation::RollBack(_)
            | Situation::Abandoned
    );
    !goes_on && report.verb != Verb::RollBack && report.dry_run.is_none() && report.waiting.is_none()
}

/// Says in a status whether somebody fights about fields, and with whom; the condition goes to `False` when nobody does any more.
pub fn contested(status: &mut Map<String, Value>, generation: i64, now: &str, message: Option<&str>) {
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now, generation };
    match message {
        Some(message) => conditions.set("Drifted", true, "Contested", message),
        None if is_contested(&conditions) => conditions.set("Drifted", false, "Settled", ""),
        None => return,
    }
    status.insert("conditions".into(), Value::Array(conditions.list));
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

/// A value for a JSON merge patch: it merges objects, so what has to go from them must be named.
pub fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch: Map<String, Value> =
        new.iter().map(|(key, value)| (key.clone(), difference(old.get(key).unwrap_or(&Value::Null), value))).collect();
    patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    Value::Object(patch)
}

/// Cuts a message to [`MAX_MESSAGE`].
pub fn bound(message: &str) -> String {
    const MARK: &str = " …";
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let mut end = MAX_MESSAGE - MARK.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &message[..end])
}

fn helm_conditions(report: &Report<'_>, conditions: &mut Conditions<'_>) {
    if let Situation::Refused(refusal) = report.situation {
        conditions.set("Irreconcilable", true, "ReconcileError", &refusal.message);
        return;
    }
    let Some(failure) = report.failure else {
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
            (None, Some(release)) if !conditions.has("Deployed") => {
                let reason = if release.revision > 1 { "UpgradeSuccessful" } else { "InstallSuccessful" };
                conditions.set("Deployed", true, reason, report.notes.unwrap_or_default());
            }
            (None, _) => {}
        }
        let repaired = matches!(report.situation, Situation::Drifted(_)) && !conditions.has("Stalled");
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

fn ready_conditions(report: &Report<'_>, spent: bool, conditions: &mut Conditions<'_>) {
    let stalled = match (report.situation, report.failure) {
        (Situation::Refused(refusal), _) => Some((refusal.reason, refusal.message.clone())),
        (_, Some(failure)) if spent => Some((failure.reason, given_up(failure))),
        _ => None,
    };
    let (ready, reason, message) = readiness(report);
    // The conditions still say why nothing is tried; only the health of what is deployed is new.
    let blocked = matches!(report.situation, Situation::Blocked | Situation::RollBack(_) | Situation::Abandoned)
        || report.verb == Verb::RollBack
        || report.failure.is_some() && was_spent(report)
        || matches!(report.situation, Situation::Drifted(_)) && conditions.has("Stalled");
    let stands_still = matches!(report.situation, Situation::Paused(_)) || report.dry_run.is_some();
    if blocked && report.failure.is_none() {
        if let Some((reason, message)) = conditions.of("Stalled") {
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
        if !blocked {
            conditions.set("Stalled", false, "Progressing", "");
        }
        let reconciling = match report.failure {
            Some(failure) => Some((failure.reason, failure.message.as_str())),
            None if !ready => Some((reason, message.as_str())),
            None => None,
        };
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

/// The message of `Stalled` after the last attempt.
fn given_up(failure: &Failure) -> String {
    match failure.retry {
        Retry::Bounded => format!("given up after {} attempts: {}", attempts::MAX_ATTEMPTS, failure.message),
        Retry::Never | Retry::Always => failure.message.clone(),
    }
}

/// `Paused` and `DryRun`: there only while the switch is on.
fn switch_conditions(report: &Report<'_>, conditions: &mut Conditions<'_>) {
    match report.situation {
        Situation::Paused(_) => {
            conditions.set(
                "Paused",
                true,
                "Paused",
                "nothing is done while the annotation tillerman.dev/paused is true",
            );
        }
        _ => conditions.remove("Paused"),
    }
    match report.dry_run {
        Some(plan) => conditions.set("DryRun", true, "DryRun", plan),
        None => conditions.remove("DryRun"),
    }
}

/// Whether the condition `Drifted` tells of a fight, which [`contested`] ends.
fn is_contested(conditions: &Conditions<'_>) -> bool {
    conditions.has("Drifted") && conditions.of("Drifted").is_some_and(|(reason, _)| reason == "Contested")
}

/// `Drifted`: objects are not what the deployed revision says, and why they are left so; or what was repaired last.
fn drift_condition(report: &Report<'_>, conditions: &mut Conditions<'_>) {
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
            if conditions.has("Drifted") && !matches!(report.situation, Situation::Waiting) {
                conditions.set("Drifted", false, "Repaired", "");
            }
            return;
        }
    };
    let mut texts = drift.iter().map(|drift| match drift {
        Drift::Missing(id) => format!("{id} does not exist"),
        Drift::Changed(id) => format!("{id} was changed"),
        Drift::Stray(id, _) => format!("{id} is no part of the revision"),
    });
    if let Some(first) = texts.next() {
        let more = texts.count();
        let message = if more == 0 { first } else { format!("{first}, and {more} more") };
        conditions.set("Drifted", true, reason, &message);
    } else if conditions.has("Drifted") {
        conditions.set("Drifted", false, "Repaired", "");
    }
}

fn readiness(report: &Report<'_>) -> (bool, &'static str, String) {
    if let Some(blind) = report.blind {
        return (false, "WatchFailed", blind.to_owned());
    }
    if let Some(waiting) = report.waiting {
        return (false, "Progressing", format!("waiting for {waiting}"));
    }
    if report.verb == Verb::Uninstall {
        return (false, "Uninstalling", "waiting for the objects of the release to go".to_owned());
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
        if let Some(message) = health.as_ref().map(Health::message).filter(|m| !m.is_empty()) {
            entry["message"] = bound(message).into();
        }
        entry
    };
    all.into_iter().take(MAX_RESOURCES).map(entry).collect()
}

/// The conditions, with `lastTransitionTime` kept while the status does not change.
struct Conditions<'a> {
    list: Vec<Value>,
    now: &'a str,
    generation: i64,
}

impl<'a> Conditions<'a> {
    fn read(report: &Report<'a>) -> Self {
        let list = report.old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { list, now: report.now, generation: report.generation }
    }
    fn at(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|c| c.get("type").and_then(Value::as_str) == Some(name))
    }
    fn has(&self, name: &str) -> bool {
        self.at(name).is_some_and(|i| self.list[i].get("status").and_then(Value::as_str) == Some("True"))
    }
    fn of(&self, name: &str) -> Option<(String, String)> {
        let condition = &self.list[self.at(name)?];
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some((text("reason"), text("message")))
    }
    fn remove(&mut self, name: &str) {
        if let Some(at) = self.at(name) {
            self.list.remove(at);
        }
    }
    fn set(&mut self, name: &str, on: bool, reason: &str, message: &str) {
        let status = if on { "True" } else { "False" };
        let at = self.at(name);
        let since = at
            .map(|i| &self.list[i])
            .filter(|c| c.get("status").and_then(Value::as_str) == Some(status))
            .and_then(|c| c.get("lastTransitionTime").and_then(Value::as_str))
            .unwrap_or(self.now)
            .to_owned();
        let condition = json!({"type": name, "status": status, "reason": reason, "message": bound(message),
            "lastTransitionTime": since, "observedGeneration": self.generation});
        match at {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, MAX_MESSAGE, Release, Report, bound, patch, status};
    use crate::plan::Verb;
    use crate::plan::attempts::{self, MAX_ATTEMPTS, Retry};
    use crate::plan::live::Health;
    use crate::plan::situation::{Drift, Situation};
    use crate::release::object::{Gvk, ObjectId};
    use serde_json::{Map, Value, json};
    use std::collections::BTreeMap;

    fn object(name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new("apps", "v1", "Deployment"), namespace: Some("ns".into()), name: name.into() }
    }

    fn report<'a>(
        old: &'a Map<String, Value>,
        situation: &'a Situation,
        objects: &'a BTreeMap<ObjectId, Option<Health>>,
    ) -> Report<'a> {
        Report {
            old,
            generation: 1,
            now: "2026-11-21T09:00:00Z",
            situation,
            verb: Verb::Rest,
            failure: None,
            inputs: Some("d"),
            attempt: "d",
            asked: None,
            dry_run: None,
            repaired: "",
            release: Some(Release { name: "r", namespace: "ns", revision: 1, chart: None }),
            notes: None,
            waiting: None,
            objects,
            blind: None,
            members: None,
        }
    }

    fn condition<'a>(status: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
        status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == name)
    }

    #[test]
    fn an_install_that_worked_says_so_in_the_words_of_helm_operator() {
        let (old, objects) = (Map::new(), BTreeMap::from([(object("web"), Some(Health::Ready))]));
        let new = status(&Report { verb: Verb::Install, notes: Some("hi"), ..report(&old, &Situation::New, &objects) });
        let deployed = condition(&new, "Deployed").unwrap();
        assert_eq!(
            (&deployed["status"], &deployed["reason"], &deployed["message"]),
            (&json!("True"), &json!("InstallSuccessful"), &json!("hi"))
        );
        assert_eq!(condition(&new, "Ready").unwrap()["message"], "1 object is ready");
        assert_eq!(condition(&new, "ReleaseFailed"), None);
        assert_eq!(new["deployedRelease"]["name"], "r");
    }

    #[test]
    fn ready_names_the_first_object_that_is_not() {
        let objects = BTreeMap::from([
            (object("a"), Some(Health::Ready)),
            (object("b"), Some(Health::Progressing("0 of 1 replicas are available".into()))),
        ]);
        let old = Map::new();
        let new = status(&report(&old, &Situation::Settled, &objects));
        let ready = condition(&new, "Ready").unwrap();
        assert_eq!(
            (&ready["status"], &ready["message"]),
            (&json!("False"), &json!("Deployment b: 0 of 1 replicas are available"))
        );
        assert_eq!(new["resources"][0]["name"], "b");
    }

    #[test]
    fn a_condition_that_does_not_change_keeps_its_time() {
        let (old, objects) = (Map::new(), BTreeMap::new());
        let first = status(&report(&old, &Situation::Settled, &objects));
        let later = Report { now: "2027-01-01T00:00:00Z", ..report(&first, &Situation::Settled, &objects) };
        assert_eq!(status(&later), first);
        assert_eq!(patch(&first, &status(&later)), None);
    }

    #[test]
    fn an_error_that_only_the_user_can_mend_stalls_until_the_inputs_change() {
        let (old, objects) = (Map::new(), BTreeMap::new());
        let failure = Failure { reason: "RenderError", message: "boom".into(), retry: Retry::Never };
        let failed =
            status(&Report { failure: Some(&failure), release: None, ..report(&old, &Situation::Changed, &objects) });
        assert_eq!(condition(&failed, "Stalled").unwrap()["status"], "True");
        assert_eq!(condition(&failed, "Irreconcilable").unwrap()["reason"], "ReconcileError");
        let is_spent = |status, digest| attempts::read(status, digest).spent;
        assert!(is_spent(&failed, "d"));
        assert!(!is_spent(&failed, "e"));
        let blocked = status(&Report { release: None, ..report(&failed, &Situation::Blocked, &objects) });
        assert_eq!(patch(&failed, &blocked), None);
        let mended = status(&Report { verb: Verb::Upgrade, ..report(&failed, &Situation::Changed, &objects) });
        assert_eq!(condition(&mended, "Irreconcilable"), None);
        assert_eq!(condition(&mended, "Stalled").unwrap()["status"], "False");
        assert!(!is_spent(&mended, "d"));
    }

    #[test]
    fn a_failed_upgrade_keeps_what_is_deployed() {
        let (old, objects) = (Map::new(), BTreeMap::new());
        let good = status(&Report { verb: Verb::Install, ..report(&old, &Situation::New, &objects) });
        let failure = Failure { reason: "Invalid", message: "field is immutable".into(), retry: Retry::Bounded };
        let bad = status(&Report {
            verb: Verb::Upgrade,
            failure: Some(&failure),
            ..report(&good, &Situation::Changed, &objects)
        });
        assert_eq!(condition(&bad, "ReleaseFailed").unwrap()["reason"], "UpgradeError");
        assert_eq!(condition(&bad, "Deployed").unwrap()["status"], "True");
        assert_eq!(bad["lastAttempted"]["attempts"], 1);
    }

    #[test]
    fn after_the_last_attempt_it_says_that_it_gave_up_and_a_rollback_leaves_that_as_it_is() {
        let objects = BTreeMap::new();
        let failure = Failure { reason: "Invalid", message: "no".into(), retry: Retry::Bounded };
        let mut now = Map::new();
        for attempt in 1..=MAX_ATTEMPTS {
            let stalled = condition_status(&now, "Stalled");
            assert_ne!(stalled.as_deref(), Some("True"), "{attempt}");
            let situation = Situation::Unfinished;
            let failed = Report { verb: Verb::Resume, failure: Some(&failure), ..report(&now, &situation, &objects) };
            now = status(&failed);
        }
        assert_eq!(condition(&now, "Stalled").unwrap()["message"], "given up after 5 attempts: no");
        let back = status(&Report { verb: Verb::RollBack, ..report(&now, &Situation::RollBack(1), &objects) });
        for name in ["Stalled", "ReleaseFailed", "Ready"] {
            assert_eq!(condition(&back, name), condition(&now, name), "{name}");
        }
        assert_eq!(back["lastAttempted"], now["lastAttempted"]);
        let mended = status(&Report { verb: Verb::Upgrade, ..report(&back, &Situation::Changed, &objects) });
        assert_eq!(mended.get("lastAttempted"), None);
        assert_eq!(condition_status(&mended, "Stalled").as_deref(), Some("False"));
        assert_eq!(condition(&mended, "ReleaseFailed"), None);
    }

    /// A3: what fails after the last attempt begins nothing anew, be it before anybody knows what was to be done.
    #[test]
    fn a3_a_rollback_that_is_held_up_gives_no_attempt_back_and_leaves_the_reason() {
        let objects = BTreeMap::new();
        let last = Failure { reason: "HookFailed", message: "no".into(), retry: Retry::Never };
        let old = Map::new();
        let spent = status(&Report { failure: Some(&last), ..report(&old, &Situation::Unfinished, &objects) });
        let held_up = Failure { reason: "ApiServerError", message: "500".into(), retry: Retry::Always };
        for (verb, situation) in [
            (Verb::Rest, Situation::RollBack(1)),
            (Verb::Rest, Situation::Unfinished),
            (Verb::RollBack, Situation::Unfinished),
        ] {
            let now = status(&Report { verb, failure: Some(&held_up), ..report(&spent, &situation, &objects) });
            assert_eq!(now["lastAttempted"], spent["lastAttempted"], "{verb:?} {situation:?}");
            for name in ["Stalled", "ReleaseFailed", "Irreconcilable"] {
                assert_eq!(condition(&now, name), condition(&spent, name), "{verb:?} {situation:?}: {name}");
            }
            assert_eq!(condition(&now, "Ready").unwrap()["message"], "500");
        }
    }

    fn condition_status(status: &Map<String, Value>, name: &str) -> Option<String> {
        status.get("conditions")?;
        condition(status, name)?["status"].as_str().map(str::to_owned)
    }

    #[test]
    fn paused_and_drifted_are_there_while_they_are_true() {
        let (old, objects) = (Map::new(), BTreeMap::new());
        let drift = vec![Drift::Missing(object("web")), Drift::Changed(object("b"))];
        let situation = Situation::Paused(drift.clone());
        let paused = status(&report(&old, &situation, &objects));
        assert_eq!(condition(&paused, "Paused").unwrap()["status"], "True");
        let drifted = condition(&paused, "Drifted").unwrap();
        assert_eq!((&drifted["status"], &drifted["reason"]), (&json!("True"), &json!("Paused")));
        assert_eq!(drifted["message"], "Deployment web does not exist, and 1 more");
        let situation = Situation::Drifted(drift);
        let repaired = status(&Report {
            verb: Verb::Repair,
            repaired: "repaired: Deployment web",
            ..report(&paused, &situation, &objects)
        });
        assert_eq!(condition(&repaired, "Paused"), None);
        let drifted = condition(&repaired, "Drifted").unwrap();
        assert_eq!((&drifted["status"], &drifted["message"]), (&json!("False"), &json!("repaired: Deployment web")));
    }

    #[test]
    fn a_patch_names_what_has_to_go() {
        let old = json!({"a": {"b": 1, "c": 2}, "d": 1}).as_object().unwrap().clone();
        let new = json!({"a": {"b": 1}}).as_object().unwrap().clone();
        assert_eq!(patch(&old, &new), Some(json!({"a": {"b": 1, "c": null}, "d": null})));
        let old = json!({"a": {"b": {"c": {"d": 1, "e": [1]}}}}).as_object().unwrap().clone();
        let new = json!({"a": {"b": {"c": {"e": [2]}}}}).as_object().unwrap().clone();
        assert_eq!(patch(&old, &new), Some(json!({"a": {"b": {"c": {"d": null, "e": [2]}}}})));
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let cut = bound(&"é".repeat(MAX_MESSAGE));
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('…'));
    }
}
