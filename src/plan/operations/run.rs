//! The objects of the operation that runs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::document::{Hook, PREFIX};
use super::state::Running;

use crate::object::{Gvk, Object, ObjectId};
use crate::plan::stamp::stamp;
use crate::release::digest::Hasher;
use crate::release::hook_run::{HOOK, HookRun};
use crate::release::live::Live;
use crate::release::owner::{Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};
use crate::runs;

/// Characters of the part that makes the name of a run unique.
const HASH: usize = 8;

/// Which run of which operation: the value of [`HOOK`] on its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    event: String,
    digest: String,
}

impl Mark {
    /// From the operation that runs.
    pub fn of(running: &Running) -> Self {
        let Running { name, request, schedule_time, start_time, .. } = running;
        let mut hasher = Hasher::default();
        hasher.text(name).text(start_time);
        for asked in [request, schedule_time] {
            hasher.text(asked.as_deref().unwrap_or_default());
        }
        Self { event: format!("{PREFIX}{name}"), digest: hasher.finish_short(2 * HASH) }
    }

    /// The hook that created an object, if it was this run.
    pub fn made<'a>(&self, live: &'a Live) -> Option<&'a HookRun> {
        live.hook.as_deref().filter(|run| *run.event == *self.event && *run.digest == *self.digest)
    }

    /// Whether an earlier run of the same operation created it.
    pub fn is_earlier(&self, live: &Live) -> bool {
        live.hook.as_deref().is_some_and(|run| *run.event == *self.event && *run.digest != *self.digest)
    }
}

/// An object of the operation that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// As the chart has it.
    pub hook: Hook,
    /// Its object in this run.
    pub id: ObjectId,
    /// The body that is sent.
    pub body: Map<String, Value>,
}

impl Placed {
    /// For a run in its present attempt. `revision` is that of the release.
    pub fn new(hook: &Hook, running: &Running, revision: u64, owner: &Owner, namespaced: bool) -> Result<Self, String> {
        let mark = Mark::of(running);
        let mut object = Object::from_body(hook.body.clone())?;
        if hook.is_a_run() {
            object.name = name(hook, &mark, running.attempt);
            once(&mut object.body, &object.name);
        }
        let stamped = stamp(&object, namespaced, owner);
        let mut body = stamped.body;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            let refers = metadata.contains_key("ownerReferences");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.retain(|key, _| !key.starts_with("helm.sh/hook"));
                annotations.insert(HOOK.into(), format!("{revision} {} {}", mark.event, mark.digest).into());
                if !refers {
                    annotations.insert(PRIMARY_RESOURCE.into(), owner.primary_resource().into());
                    annotations.insert(PRIMARY_RESOURCE_TYPE.into(), owner.gvk.kind_group().into());
                }
            }
        }
        Ok(Self { hook: hook.clone(), id: stamped.id, body })
    }
}

/// The Job or Pod that is sent: with a name of its own, and such that it stays until the operator has seen its end.
fn once(body: &mut Map<String, Value>, name: &str) {
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.insert("name".into(), name.into());
        metadata.remove("generateName");
    }
    let Some(Value::Object(spec)) = body.get_mut("spec") else { return };
    spec.remove("ttlSecondsAfterFinished");
    // A Pod has its containers in its own.
    let pod = if spec.contains_key("template") {
        spec.get_mut("template").and_then(|template| template.get_mut("spec")).and_then(Value::as_object_mut)
    } else {
        Some(spec)
    };
    let Some(containers) = pod.and_then(|pod| pod.get_mut("containers")).and_then(Value::as_array_mut) else { return };
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        runs::keep_last_words(container);
    }
}

fn name(hook: &Hook, mark: &Mark, attempt: u32) -> String {
    let mut hasher = Hasher::default();
    hasher.text(&mark.digest).text(&hook.name).text(attempt.to_string()).text(&hook.digest);
    runs::name(&hook.name, &format!("-{}", hasher.finish_short(HASH)))
}

/// Whether a run of this hook has an object of this name.
pub fn is_of(hook: &Hook, id: &ObjectId) -> bool {
    let Gvk { group, kind, .. } = hook.gvk();
    let same = group == id.gvk.group && kind == id.gvk.kind;
    same && if hook.is_a_run() {
        id.name
            .rsplit_once('-')
            .is_some_and(|(start, hash)| hash.len() == HASH && start == runs::head(&hook.name, HASH + 1))
    } else {
        *id.name == *hook.name
    }
}

/// The objects of a release.
pub type Objects = BTreeMap<ObjectId, Live>;
