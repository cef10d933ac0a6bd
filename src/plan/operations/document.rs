//! Operations of a chart: objects whose `helm.sh/hook` is `operation/NAME`. Helm skips them, because it does not know the name. They are
//! stored next to the release record, so that an operation can begin without a rendering.

use crate::kind::cron::Cron;
use crate::names;
use crate::object::field_error::FieldError;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::duration;
use crate::object::{Gvk, Object};
use crate::plan::hooks::DeletePolicy;
use crate::release::digest::Hasher;
use crate::release::packed;
use crate::render;
use crate::runs;

/// The prefix of the name of such a hook.
pub const PREFIX: &str = "operation/";
/// Annotation of one of its objects: when it is due, as `CronJob` takes it.
pub const SCHEDULE: &str = names::SCHEDULE;
/// Annotation that belongs to [`SCHEDULE`]: the time zone; UTC by default.
pub const TIME_ZONE: &str = names::TIME_ZONE;
/// Annotation of such an object: how long it may run, in place of the timeout of the release.
pub const TIMEOUT: &str = names::OPERATION_TIMEOUT;
/// Annotation of one of its objects: `restore` if a run shows that a backup can be restored.
pub const PROVES: &str = names::PROVES;
/// Characters of a name: it becomes a key of the status and appears in messages.
const MAX_NAME: usize = 63;
/// Bytes that the annotation may take: the inventory and the members are in the same 256 KiB.
const MAX_ENCODED: usize = 10 << 10;

/// All operations of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Their objects, in the order in which those of one operation run.
    pub hooks: Vec<Hook>,
}

/// An object that an operation makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// The operations that it is part of.
    pub operations: Vec<String>,
    /// Name of the object in the chart.
    pub name: String,
    /// The order within an operation.
    pub weight: i64,
    /// Helm's delete policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// When its operations are due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Seconds that it may run, in place of the timeout of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// The container whose exit code counts; by default the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whether a run shows that a backup can be restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proves_restore: bool,
    /// Digest of the object.
    pub digest: String,
    /// The object as the chart wrote it.
    pub body: Map<String, Value>,
}

/// When an operation is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// As `CronJob` takes it.
    #[serde(rename = "schedule")]
    pub text: String,
    /// A name of the tz database; empty for UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
}

impl Schedule {
    pub fn times(&self) -> Result<Cron, FieldError> {
        Cron::parse(&self.text, &self.time_zone)
    }
}

impl Hook {
    /// Its kind.
    pub fn gvk(&self) -> Gvk {
        let text = |key: &str| self.body.get(key).and_then(Value::as_str).unwrap_or_default();
        Gvk::from_api_version(text("apiVersion"), text("kind"))
    }

    /// `metadata.namespace`, if the template wrote one.
    pub fn namespace(&self) -> Option<&str> {
        self.body.get("metadata")?.get("namespace")?.as_str()
    }

    /// Whether it has to run to completion. For other kinds it is enough that the object exists. Only objects that run to completion get
    /// a new name in each run, because other objects may refer to the rest.
    pub fn is_a_run(&self) -> bool {
        let Gvk { group, kind, .. } = self.gvk();
        matches!((&*group, &*kind), ("batch", "Job") | ("", "Pod"))
    }

    /// Whether the chart's delete policy deletes its object then.
    pub fn has_policy(&self, policy: DeletePolicy) -> bool {
        let default = self.policies.is_empty() && policy == DeletePolicy::BeforeCreation;
        default || self.policies.iter().any(|p| p == policy.as_str())
    }
}

impl Operations {
    /// The operations of a rendering: from the documents that Helm skips, checked against the objects. `None` when the chart has no
    /// operation. The error is a sentence with names and no other values.
    pub fn read(unknown: &[render::Hook], objects: &[Object]) -> Result<Option<Self>, String> {
        let mut hooks = Vec::new();
        for hook in unknown.iter().filter(|hook| hook.events.iter().any(|event| event.starts_with(PREFIX))) {
            let (kind, name) = (&hook.manifest.kind, &hook.manifest.name);
            hooks.push(read(hook, objects).map_err(|why| format!("operation hook {kind} {name}: {why}"))?);
        }
        if hooks.is_empty() {
            return Ok(None);
        }
        hooks.sort_by(|a: &Hook, b| (a.weight, &a.name).cmp(&(b.weight, &b.name)));
        let operations = Self { hooks };
        for name in operations.names() {
            let schedules: Vec<_> = operations.of(name).filter_map(|hook| hook.schedule.as_ref()).collect();
            if schedules.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!("operation {name} has more than one schedule"));
            }
            let mut ids = BTreeSet::new();
            if let Some(twice) = operations.of(name).find(|hook| !ids.insert((hook.gvk(), &hook.name))) {
                return Err(format!("operation {name} has {} {} twice", twice.gvk().kind, twice.name));
            }
        }
        Ok(Some(operations))
    }

    /// The names of all operations.
    pub fn names(&self) -> BTreeSet<&str> {
        self.hooks.iter().flat_map(|hook| hook.operations.iter().map(String::as_str)).collect()
    }

    /// The objects of an operation, in their order.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Hook> {
        self.hooks.iter().filter(move |hook| hook.operations.iter().any(|operation| operation == name))
    }

    /// The schedules by operation.
    pub fn schedules(&self) -> BTreeMap<&str, &Schedule> {
        let of = |name| Some((name, self.of(name).find_map(|hook| hook.schedule.as_ref())?));
        self.names().into_iter().filter_map(of).collect()
    }

    /// As an annotation. The error is a sentence.
    pub fn encode(&self) -> Result<String, String> {
        packed::encode(self, "operations", MAX_ENCODED)
    }

    /// Reads what [`Self::encode`] wrote; `None` for anything else.
    pub fn decode(text: &str) -> Option<Self> {
        packed::decode(text)
    }
}

fn read(hook: &render::Hook, objects: &[Object]) -> Result<Hook, String> {
    let name = |event: &String| match event.strip_prefix(PREFIX) {
        Some(name) if is_name(name) => Ok(name.to_owned()),
        Some(name) => Err(format!(
            "{name:?} is not a name of an operation, which has lower-case letters, digits and dashes, {MAX_NAME} at \
             most"
        )),
        None => {
            Err(format!("it is also for {event:?}, and then Helm ignores the whole object: make two objects of it"))
        }
    };
    let mut operations = hook.events.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    operations.dedup();
    let object = Object::parse(&hook.manifest.text)?.ok_or("it is empty")?;
    if &*object.gvk.kind == "CustomResourceDefinition" {
        return Err("a definition cannot be created and deleted with an operation".to_owned());
    }
    let is_object =
        |o: &&Object| o.gvk.group == object.gvk.group && o.gvk.kind == object.gvk.kind && o.name == object.name;
    if objects.iter().any(|o| is_object(&o) && o.namespace == object.namespace) {
        return Err("the release has an object of this kind and name".to_owned());
    }
    let annotation = |name: &str| {
        let annotations = object.body.get("metadata").and_then(|m| m.get("annotations"));
        annotations.and_then(|a| a.get(name)).and_then(Value::as_str).map(|text| text.trim().to_owned())
    };
    let schedule = match (annotation(SCHEDULE), annotation(TIME_ZONE)) {
        (Some(text), zone) => Some(Schedule { text, time_zone: zone.unwrap_or_default() }),
        (None, None) => None,
        (None, Some(_)) => return Err(format!("its annotation {TIME_ZONE} needs the annotation {SCHEDULE}")),
    };
    if let Some(schedule) = &schedule {
        schedule.times().map_err(|why| format!("annotation {SCHEDULE}: {why}"))?;
    }
    let timeout = match annotation(TIMEOUT) {
        None => None,
        Some(text) => {
            let timeout = duration::parse(&text).map_err(|why| format!("annotation {TIMEOUT}: {why}"))?;
            let seconds = i64::try_from(timeout.as_secs()).ok().filter(|seconds| *seconds > 0);
            Some(seconds.ok_or_else(|| format!("annotation {TIMEOUT}: it is less than a second"))?)
        }
    };
    let proves_restore = match annotation(PROVES).as_deref() {
        None => false,
        Some("restore") => true,
        Some(_) => return Err(format!("annotation {PROVES}: it can only be restore")),
    };
    let container = runs::container(&object.body)?;
    let mut hasher = Hasher::default();
    hasher.map(&object.body);
    Ok(Hook {
        operations,
        name: object.name,
        weight: hook.weight,
        policies: hook.delete_policies.clone(),
        schedule,
        timeout,
        container,
        proves_restore,
        digest: hasher.finish_short(8),
        body: object.body,
    })
}

fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
#[path = "document_tests.rs"]
pub(super) mod tests;
