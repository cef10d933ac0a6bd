//! What a custom resource's status says: a pure function of the last status and of what the pass found and did.
//!
//! The conditions `Initialized Deployed ReleaseFailed Irreconcilable` and their reasons are helm-operator's
//! (`internal/helm/types/types.go`, operator-sdk 1.42); `Ready Reconciling Stalled` are those that kstatus reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Verb;
use super::live::Health;
use super::situation::Situation;
use crate::release::object::ObjectId;
use crate::release::record::ChartLabel;

/// Bytes of a condition's message; Kubernetes allows 32 KiB, and people read the first lines.
pub const MAX_MESSAGE: usize = 2048;
/// The version that tried.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Entries of `status.resources`.
const MAX_RESOURCES: usize = 50;

/// Why a pass failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `PascalCase`.
    pub reason: &'static str,
    /// One or more sentences.
    pub message: String,
    /// Nothing is tried again until an input changes.
    pub terminal: bool,
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
    /// The deployed revision.
    pub release: Option<Release<'a>>,
    /// NOTES.txt, when this pass knows it.
    pub notes: Option<&'a str>,
    /// The chart's hooks, which are not run yet, when this pass knows them.
    pub hooks: Option<usize>,
    /// The objects of the release, and `None` for those that are missing.
    pub objects: &'a BTreeMap<ObjectId, Option<Health>>,
    /// Why the caches cannot see some of the objects.
    pub blind: Option<&'a str>,
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
    let mut conditions = Conditions::read(report);
    conditions.set("Initialized", true, "", "");
    helm_conditions(report, &mut conditions);
    ready_conditions(report, &mut conditions);
    status.insert("conditions".into(), Value::Array(conditions.list));
    if let Some(release) = &report.release {
        status.insert("deployedRelease".into(), json!({"name": release.name}));
        status.insert("release".into(), release_status(report, release));
        status.insert("resources".into(), resources(report));
    }
    match report.failure {
        Some(failure) => {
            status.insert("lastAttempted".into(), attempted(report, failure));
        }
        None if !matches!(report.situation, Situation::Blocked | Situation::Refused(_) | Situation::Drifted(_)) => {
            status.remove("lastAttempted");
        }
        None => {}
    }
    status
}

/// Says in a status whether somebody fights about fields, and with whom; the condition goes to `False` when nobody does any more.
pub fn contested(status: &mut Map<String, Value>, generation: i64, now: &str, message: Option<&str>) {
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now, generation };
    match message {
        Some(message) => conditions.set("Drifted", true, "Contested", message),
        None if conditions.has("Drifted") => conditions.set("Drifted", false, "Settled", ""),
        None => return,
    }
    status.insert("conditions".into(), Value::Array(conditions.list));
}

/// The JSON merge patch that turns one status into another, or `None` when they are equal.
pub fn patch(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in new {
        if old.get(key) != Some(value) {
            // A merge patch merges objects; what has to go must be named. The objects of our status are small and flat.
            let mut value = value.clone();
            if let (Some(Value::Object(was)), Value::Object(is)) = (old.get(key), &mut value) {
                for gone in was.keys().filter(|k| !new[key].as_object().is_some_and(|n| n.contains_key(*k))) {
                    is.insert(gone.clone(), Value::Null);
                }
            }
            patch.insert(key.clone(), value);
        }
    }
    for key in old.keys().filter(|k| !new.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether these inputs were tried, failed, and are not to be tried again (apply.md A3).
pub fn is_spent(status: &Map<String, Value>, inputs: Option<&str>) -> bool {
    status.get("lastAttempted").is_some_and(|attempted| {
        attempted.get("terminal") == Some(&Value::Bool(true))
            // Another version may be able to do what this one could not.
            && attempted.get("version").and_then(Value::as_str) == Some(VERSION)
            && attempted.get("digest").and_then(Value::as_str) == inputs
            && inputs.is_some()
    })
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
        if !matches!(report.situation, Situation::Blocked | Situation::Waiting) && report.verb != Verb::CreateCrds {
            conditions.remove("ReleaseFailed");
            conditions.remove("Irreconcilable");
        }
        return;
    };
    let (condition, reason) = match report.verb {
        Verb::Install => ("ReleaseFailed", "InstallError"),
        Verb::Resume if report.release.is_none() => ("ReleaseFailed", "InstallError"),
        Verb::Upgrade | Verb::Resume => ("ReleaseFailed", "UpgradeError"),
        Verb::Uninstall => ("ReleaseFailed", "UninstallError"),
        Verb::Rest | Verb::Repair | Verb::Note | Verb::CreateCrds => ("Irreconcilable", "ReconcileError"),
    };
    conditions.set(condition, true, reason, &failure.message);
}

fn ready_conditions(report: &Report<'_>, conditions: &mut Conditions<'_>) {
    let stalled = match (report.situation, report.failure) {
        (Situation::Refused(refusal), _) => Some((refusal.reason, refusal.message.as_str())),
        (_, Some(failure)) if failure.terminal => Some((failure.reason, failure.message.as_str())),
        _ => None,
    };
    let (ready, reason, message) = readiness(report);
    let blocked = *report.situation == Situation::Blocked;
    if blocked {
        // The conditions still say why; only the health of what is deployed is new.
    } else if let Some((reason, message)) = stalled {
        conditions.set("Stalled", true, reason, message);
        conditions.set("Reconciling", false, reason, "");
    } else {
        conditions.set("Stalled", false, "Progressing", "");
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
        (Some((reason, message)), _) => conditions.set("Ready", false, reason, message),
        (None, Some(failure)) => conditions.set("Ready", false, failure.reason, &failure.message),
        (None, None) if blocked => {
            if let Some((reason, message)) = conditions.of("Stalled") {
                conditions.set("Ready", false, &reason, &message);
            }
        }
        (None, None) => conditions.set("Ready", ready, reason, &message),
    }
}

fn readiness(report: &Report<'_>) -> (bool, &'static str, String) {
    if let Some(blind) = report.blind {
        return (false, "WatchFailed", blind.to_owned());
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
    match report.hooks {
        Some(0) => {
            value.remove("hooksNotRun");
        }
        Some(hooks) => {
            value.insert("hooksNotRun".into(), hooks.into());
        }
        None => {}
    }
    if let (Some(inputs), None, false) = (report.inputs, report.failure, *report.situation == Situation::Blocked) {
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

fn attempted(report: &Report<'_>, failure: &Failure) -> Value {
    let digest = report.inputs.unwrap_or_default();
    let old = report.old.get("lastAttempted");
    let attempts = old
        .filter(|old| old.get("digest").and_then(Value::as_str) == Some(digest))
        .and_then(|old| old.get("attempts").and_then(Value::as_u64))
        .unwrap_or_default();
    json!({"digest": digest, "attempts": attempts + 1, "reason": failure.reason, "at": report.now,
        "terminal": failure.terminal, "version": VERSION})
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
    use super::{Failure, MAX_MESSAGE, Release, Report, bound, is_spent, patch, status};
    use crate::plan::Verb;
    use crate::plan::live::Health;
    use crate::plan::situation::Situation;
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
            release: Some(Release { name: "r", namespace: "ns", revision: 1, chart: None }),
            notes: None,
            hooks: None,
            objects,
            blind: None,
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
        let failure = Failure { reason: "RenderError", message: "boom".into(), terminal: true };
        let failed =
            status(&Report { failure: Some(&failure), release: None, ..report(&old, &Situation::Changed, &objects) });
        assert_eq!(condition(&failed, "Stalled").unwrap()["status"], "True");
        assert_eq!(condition(&failed, "Irreconcilable").unwrap()["reason"], "ReconcileError");
        assert!(is_spent(&failed, Some("d")));
        assert!(!is_spent(&failed, Some("e")));
        let blocked = status(&Report { release: None, ..report(&failed, &Situation::Blocked, &objects) });
        assert_eq!(patch(&failed, &blocked), None);
        let mended = status(&Report { verb: Verb::Upgrade, ..report(&failed, &Situation::Changed, &objects) });
        assert_eq!(condition(&mended, "Irreconcilable"), None);
        assert_eq!(condition(&mended, "Stalled").unwrap()["status"], "False");
        assert!(!is_spent(&mended, Some("d")));
    }

    #[test]
    fn a_failed_upgrade_keeps_what_is_deployed() {
        let (old, objects) = (Map::new(), BTreeMap::new());
        let good = status(&Report { verb: Verb::Install, ..report(&old, &Situation::New, &objects) });
        let failure = Failure { reason: "Invalid", message: "field is immutable".into(), terminal: false };
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
    fn a_patch_names_what_has_to_go() {
        let old = json!({"a": {"b": 1, "c": 2}, "d": 1}).as_object().unwrap().clone();
        let new = json!({"a": {"b": 1}}).as_object().unwrap().clone();
        assert_eq!(patch(&old, &new), Some(json!({"a": {"b": 1, "c": null}, "d": null})));
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let cut = bound(&"é".repeat(MAX_MESSAGE));
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('…'));
    }
}
