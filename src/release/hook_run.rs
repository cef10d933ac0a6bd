//! Runs of hooks, as their live objects show them.

use crate::names;
use serde_json::Value;

use crate::mask::Text;
use crate::object::Gvk;
use crate::object::conditions::{Condition, Conditions};

/// Annotation of a hook's object: `REVISION EVENT DIGEST`.
pub const HOOK: &str = names::HOOK_RUN;

/// A run of a hook, from the annotation of its live object, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    pub revision: u64,
    pub event: Box<str>,
    /// Digest of the manifest.
    pub digest: Box<str>,
    /// When the object was created, seconds, by the API server's clock.
    pub created: i64,
    pub outcome: HookOutcome,
}

/// The outcome of a run of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// Not yet.
    Running,
    /// Well.
    Succeeded,
    /// Why not.
    Failed(Text),
}

impl HookRun {
    /// Reads a live object; `None` when no hook of ours made it.
    pub fn read(gvk: &Gvk, object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let mut words = metadata.get("annotations")?.get(HOOK)?.as_str()?.split(' ');
        let created = metadata.get("creationTimestamp").and_then(Value::as_str)?.parse::<jiff::Timestamp>().ok()?;
        Some(Self {
            revision: words.next()?.parse().ok()?,
            event: words.next()?.into(),
            digest: words.next()?.into(),
            created: created.as_second(),
            outcome: outcome(gvk, object),
        })
    }
}

fn outcome(gvk: &Gvk, object: &Value) -> HookOutcome {
    let conditions = Conditions::of_object(object);
    let words = |condition: Condition<'_>| Text::reason(condition.reason(), condition.message());
    match (&*gvk.group, &*gvk.kind) {
        ("batch", "Job") => {
            match (conditions.is_true("Complete"), conditions.get("Failed").filter(|failed| failed.is_true())) {
                (true, _) => HookOutcome::Succeeded,
                (false, Some(failed)) => HookOutcome::Failed(words(failed)),
                (false, None) => HookOutcome::Running,
            }
        }
        ("", "Pod") => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => HookOutcome::Succeeded,
            Some("Failed") => {
                let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
                HookOutcome::Failed(Text::reason(text("/status/reason"), text("/status/message")))
            }
            _ => HookOutcome::Running,
        },
        ("apiextensions.k8s.io", _) => {
            match (conditions.is_true("Established"), conditions.get("NamesAccepted").filter(|names| names.is_false()))
            {
                (true, _) => HookOutcome::Succeeded,
                (false, Some(refused)) => HookOutcome::Failed(words(refused)),
                (false, None) => HookOutcome::Running,
            }
        }
        _ => HookOutcome::Succeeded,
    }
}
