//! A run of a scale hook: the Job that is created for it, and its outcome.

use crate::names;
use serde_json::{Map, Value, json};

use crate::members::document::{ScaleEvent, ScaleHook, Set};
use crate::object::conditions::{Condition, Conditions};
use crate::release::digest::Hasher;
use crate::release::owner::{CHART_LABEL, Owner};
use crate::runs::{self, Exit};

/// The label of the Jobs of scale hooks and of their pods. Its value is the name of the release.
pub const LABEL: &str = names::SCALE_HOOK;
/// Annotation of such a Job: `MEMBERS HOOK EVENT ORDINAL SINCE ATTEMPT DIGEST`.
pub const RUN: &str = names::SCALE_HOOK_RUN;

/// Identifies a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRun {
    /// Name of the [`Set`].
    pub set: String,
    /// Name of the hook's Job in the chart.
    pub hook: String,
    /// The event that it runs for.
    pub event: ScaleEvent,
    /// The ordinal that it runs for.
    pub ordinal: u32,
    /// When the move of the ordinal began.
    pub since: i64,
    /// The number of earlier attempts.
    pub attempt: u32,
    /// [`ScaleHook::digest`].
    pub digest: String,
}

/// The number of members before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number before.
    pub from: u32,
    /// The number after.
    pub to: u32,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended.
    Running,
    /// It has ended, at a time in seconds since 1970.
    Ended(Ended, i64),
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// [`Exit::Done`].
    Done,
    /// [`Exit::Later`].
    Later(String),
    /// [`Exit::Refused`].
    Refused(String),
    /// [`Exit::Failed`].
    Failed(i64, String),
    /// There is no exit code, so its effect is unknown.
    Unknown {
        /// Whether its pod still exists, and may still do something.
        pod_remains: bool,
    },
}

/// A Job of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenJob {
    pub run: JobRun,
    pub name: String,
    pub uid: String,
    pub state: JobState,
}

impl JobRun {
    /// The name of its Job.
    pub fn name(&self) -> String {
        let mut hasher = Hasher::default();
        hasher.text(self.words());
        runs::name(&self.hook, &format!("-{}-{}", self.ordinal, hasher.finish_short(8)))
    }

    fn words(&self) -> String {
        let Self { set, hook, event, ordinal, since, attempt, digest } = self;
        format!("{set} {hook} {event} {ordinal} {since} {attempt} {digest}")
    }

    fn read(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        Some(Self {
            set: words.next()?.to_owned(),
            hook: words.next()?.to_owned(),
            event: ScaleEvent::parse(words.next()?)?,
            ordinal: words.next()?.parse().ok()?,
            since: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            digest: words.next()?.to_owned(),
        })
    }
}

/// The Job of a run: the chart's Job with a single attempt, and with the parameters of the run in the environment of
/// all its containers.
pub fn body(hook: &ScaleHook, run: &JobRun, set: &Set, sizes: Sizes, owner: &Owner) -> Value {
    let mut job = hook.job.clone();
    let mut metadata = match job.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    metadata.retain(|key, _| matches!(key.as_str(), "labels" | "annotations"));
    metadata.insert("name".into(), run.name().into());
    metadata.insert("namespace".into(), Value::from(&*owner.release_namespace));
    // The watches of the release's objects must not mistake it for one of them.
    object(&mut metadata, "labels").remove(CHART_LABEL);
    object(&mut metadata, "labels").insert(LABEL.into(), Value::from(&*owner.release_name));
    let annotations = object(&mut metadata, "annotations");
    annotations.retain(|key, _| !key.starts_with("helm.sh/hook"));
    annotations.insert(RUN.into(), run.words().into());
    let reference = json!({
        "apiVersion": owner.gvk.api_version(), "kind": &*owner.gvk.kind, "name": &*owner.name, "uid": &*owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    metadata.insert("ownerReferences".into(), json!([reference]));
    let mut spec = match job.remove("spec") {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    for gone in [
        "ttlSecondsAfterFinished",
        "completions",
        "parallelism",
        "completionMode",
        "suspend",
        "podFailurePolicy",
        "selector",
        "manualSelector",
        "successPolicy",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.remove(gone);
    }
    spec.insert("backoffLimit".into(), 0.into());
    spec.insert("podReplacementPolicy".into(), "Failed".into());
    let template = object(&mut spec, "template");
    object(object(template, "metadata"), "labels").insert(LABEL.into(), Value::from(&*owner.release_name));
    let pod = object(template, "spec");
    pod.insert("restartPolicy".into(), "Never".into());
    let environment = environment(run, set, sizes);
    for list in ["initContainers", "containers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            runs::keep_last_words(container);
            let mut env: Vec<Value> = container.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
            env.retain(|e| !environment.iter().any(|(name, _)| e.get("name") == Some(&(*name).into())));
            // The parameters come first, so that the chart's own variables may refer to them.
            let ours = environment.iter().map(|(name, value)| json!({"name": name, "value": value}));
            container.insert("env".into(), ours.chain(env).collect());
        }
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
}

fn environment(run: &JobRun, set: &Set, sizes: Sizes) -> [(&'static str, String); 5] {
    let pod = |ordinal: u32| format!("{}-{ordinal}", set.target);
    let address = |ordinal: u32| match set.service.as_str() {
        "" => pod(ordinal),
        service => format!("{}.{service}", pod(ordinal)),
    };
    let others = (0..sizes.from.max(sizes.to)).filter(|ordinal| *ordinal != run.ordinal);
    [
        ("ORDINAL", run.ordinal.to_string()),
        ("POD", pod(run.ordinal)),
        ("SIZE_FROM", sizes.from.to_string()),
        ("SIZE_TO", sizes.to.to_string()),
        ("PEERS", others.map(address).collect::<Vec<_>>().join(",")),
    ]
}

fn object<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object")
}

/// Reads a Job and the pods of scale hooks; `None` if it is not a run.
pub fn read(job: &Value, pods: &[Value], hooks: &[ScaleHook]) -> Option<SeenJob> {
    let metadata = job.get("metadata")?;
    if metadata.get("deletionTimestamp").is_some() {
        return None;
    }
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let run = JobRun::read(metadata.get("annotations")?.get(RUN)?.as_str()?)?;
    let (name, uid) = (text("name")?, text("uid")?);
    let condition = |name: &str| Conditions::of_object(job).get(name).filter(|condition| condition.is_true());
    let at = |c: Condition<'_>| c.since().parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second);
    let state = match (condition("Complete"), condition("Failed")) {
        (Some(complete), _) => JobState::Ended(Ended::Done, at(complete)),
        (None, Some(failed)) => {
            let container = hooks.iter().find(|h| h.name == run.hook && h.set == run.set);
            let container = container.and_then(|h| h.container.as_deref());
            let of = |pod: &&Value| {
                pod.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str) == Some(uid.as_str())
            };
            let pods: Vec<&Value> = pods.iter().filter(of).collect();
            JobState::Ended(ended(&pods, container), at(failed))
        }
        (None, None) => JobState::Running,
    };
    Some(SeenJob { run, name, uid, state })
}

fn ended(pods: &[&Value], container: Option<&str>) -> Ended {
    match runs::last_words(pods, container) {
        (Some(Exit::Done), _) => Ended::Done,
        (Some(Exit::Later), last) => Ended::Later(last),
        (Some(Exit::Refused), last) => Ended::Refused(last),
        (Some(Exit::Failed(code)), last) => Ended::Failed(code, last),
        (None, _) => Ended::Unknown { pod_remains: !pods.is_empty() },
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
