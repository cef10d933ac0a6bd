//! The declarations of a chart about its stateful sets with members: `Members` documents and the Jobs of scale hooks.
//!
//! Both have a `helm.sh/hook` name that Helm does not know. So Helm ignores them, and `helm install` works as without
//! them. They are never sent to the API server unchanged.

use crate::names;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::driver::OWN_SETTINGS;
pub use super::driver_name::{DriverName, is_own};
use super::drivers::{BUILT_IN, Drivers};
use super::growth::VolumeGrowth;
use super::progress;
use crate::kind::duration;
use crate::kind::sleep::Sleep;
use crate::object::{Gvk, Object, ObjectId};
use crate::release::digest::Hasher;
use crate::release::document::{DocumentFields, body};
use crate::release::packed;
use crate::render::Hook;
use crate::runs;

/// `apiVersion` of a `Members` document.
pub const API_VERSION: &str = names::MEMBERS_API_VERSION;
pub const KIND: &str = "Members";
/// Its hook name.
pub const MEMBERS: &str = "members";
/// Annotation of a scale hook with the name of its `Members` document. It is required if there is more than one
/// document.
const OF: &str = names::SCALE_HOOK_OF;
/// The maximum number of members in one stateful set.
const MAX_SIZE: u32 = 100;
/// The maximum size of the annotation in bytes. The inventory is in the same 256 KiB.
const MAX_ENCODED: usize = 40 << 10;
/// The fields of `spec`, before and after those with the settings of a driver.
const FIELDS: [&[&str]; 2] =
    [&["target", "size", "driver", "volumes", "progressDeadline"], &["paused", "sleep", "version"]];
/// The default number of seconds without progress after which the condition reports it.
const PROGRESS_DEADLINE: u64 = 600;

/// All declarations about members in a rendering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// The stateful sets, in the order of their documents.
    pub sets: Vec<Set>,
    /// The scale hooks.
    pub hooks: Vec<ScaleHook>,
}

/// One `Members` document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// Name of the document.
    pub name: String,
    /// Name of the StatefulSet.
    pub target: String,
    /// The wanted number of members.
    pub size: u32,
    /// The driver that adds and removes members.
    pub driver: DriverName,
    /// The fate of the claims of a member that left.
    pub on_remove: OnRemove,
    /// The treatment of claims that exist without a member.
    pub on_orphan: OnOrphan,
    /// How volumes grow by themselves; `None` if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grow: Option<VolumeGrowth>,
    /// Seconds without progress after which the condition reports it.
    pub progress_deadline: u64,
    /// `serviceName` of the StatefulSet.
    pub service: String,
    /// The settings of the driver, under the name of their field.
    #[serde(flatten)]
    pub settings: DriverSettings,
    /// Whether no member is added, removed or restarted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// When the release sleeps.
    #[serde(default, skip_serializing_if = "Sleep::is_never")]
    pub sleep: Sleep,
    /// The intended version of the members, for the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The settings of a driver, under the name of their field in the document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct DriverSettings(Map<String, Value>);

impl DriverSettings {
    fn of(field: &str, settings: Map<String, Value>) -> Self {
        let is_some = !settings.is_empty();
        Self(is_some.then(|| (field.to_owned(), settings.into())).into_iter().collect())
    }

    pub fn fields(&self) -> Map<String, Value> {
        self.0.values().find_map(Value::as_object).cloned().unwrap_or_default()
    }
}

impl From<Map<String, Value>> for DriverSettings {
    /// Other fields of a record belong to later versions.
    fn from(mut fields: Map<String, Value>) -> Self {
        fields.retain(|name, value| value.is_object() && settings_fields().any(|field| field == name));
        Self(fields)
    }
}

/// The fields of `spec` with the settings of a driver.
fn settings_fields() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().filter_map(|profile| profile.field).chain([OWN_SETTINGS])
}

/// The fate of the claims of a member that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnRemove {
    Delete,
    Retain,
}

/// The treatment of claims that exist without a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OnOrphan {
    Refuse,
    Adopt,
}

/// The events at which scale hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ScaleEvent {
    Bootstrap,
    BeforeScaleUp,
    AfterReady,
    BeforeScaleDown,
    AfterGone,
    BeforeRestart,
    AfterRestart,
    BeforeDelete,
}

impl ScaleEvent {
    /// All events.
    pub const ALL: [Self; 8] = [
        Self::Bootstrap,
        Self::BeforeScaleUp,
        Self::AfterReady,
        Self::BeforeScaleDown,
        Self::AfterGone,
        Self::BeforeRestart,
        Self::AfterRestart,
        Self::BeforeDelete,
    ];

    /// The name as charts write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::BeforeScaleUp => "before-scale-up",
            Self::AfterReady => "after-ready",
            Self::BeforeScaleDown => "before-scale-down",
            Self::AfterGone => "after-gone",
            Self::BeforeRestart => "before-restart",
            Self::AfterRestart => "after-restart",
            Self::BeforeDelete => "before-delete",
        }
    }

    /// Parses the name as charts write it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

impl fmt::Display for ScaleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A Job that a chart runs when members are added or removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleHook {
    /// Name of its [`Set`].
    pub set: String,
    /// Name of the Job in the chart.
    pub name: String,
    /// When it runs.
    pub events: Vec<ScaleEvent>,
    /// The order within an event.
    pub weight: i64,
    /// The container whose exit code counts; `None` means the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Digest of the Job. A changed Job is a new run.
    pub digest: String,
    /// The Job as in the chart.
    pub job: Map<String, Value>,
}

impl ScaleHook {
    /// Whether it runs before the custom resource is deleted.
    pub fn is_before_deletion(&self) -> bool {
        self.events.contains(&ScaleEvent::BeforeDelete)
    }
}

impl Members {
    /// Reads the documents of a rendering that Helm ignores, and checks them against the objects. Returns `None` if the
    /// chart has no stateful set with members. The error is a sentence; it contains names, but no other values.
    ///
    /// The settings of a driver that is not one of `drivers` are not checked.
    pub fn read(
        unknown: &[Hook],
        objects: &[Object],
        namespace: &str,
        drivers: &Drivers,
    ) -> Result<Option<Self>, String> {
        if let Some(object) = objects.iter().find(|o| is_members(&o.gvk.api_version(), &o.gvk.kind)) {
            return Err(format!("Members {} lacks the annotation helm.sh/hook: members", object.name));
        }
        let mut members = Self::default();
        for hook in unknown.iter().filter(|h| is_document(h)) {
            let name = &hook.manifest.name;
            let set = read_set(hook, objects, namespace, drivers).map_err(|e| format!("Members {name}: {e}"))?;
            if let Some(other) = members.sets.iter().find(|s| s.target == set.target) {
                return Err(format!(
                    "Members {} and {name} are both for StatefulSet {}: it can have one",
                    other.name, set.target
                ));
            }
            if members.sets.iter().any(|s| s.name == set.name) {
                return Err(format!("there are two Members {name}"));
            }
            members.sets.push(set);
        }
        if members.sets.is_empty() {
            return Ok(None);
        }
        for hook in unknown.iter().filter(|h| !is_document(h)) {
            // Hook names of other programs are ignored.
            if hook.events.iter().any(|e| ScaleEvent::parse(e).is_some()) {
                let name = &hook.manifest.name;
                members.hooks.push(
                    read_hook(hook, &members.sets, drivers)
                        .map_err(|e| format!("scale hook {} {name}: {e}", hook.manifest.kind))?,
                );
            }
        }
        members.hooks.sort_by(|a, b| (a.weight, &a.name).cmp(&(b.weight, &b.name)));
        Ok(Some(members))
    }

    /// The stateful set that an object is.
    pub fn of(&self, id: &ObjectId) -> Option<&Set> {
        let is_set = &*id.gvk.kind == "StatefulSet" && &*id.gvk.group == "apps";
        self.sets.iter().find(|set| is_set && set.target == *id.name)
    }

    /// Encodes the members for an annotation. The error is a sentence.
    pub fn encode(&self) -> Result<String, String> {
        packed::encode(self, "scale hooks", MAX_ENCODED)
    }

    /// Decodes a text from [`Self::encode`]. Returns `None` for any other text.
    pub fn decode(text: &str) -> Option<Self> {
        packed::decode(text)
    }
}

impl Set {
    /// Three members of `db` with Jobs, for tests.
    #[cfg(test)]
    pub fn example() -> Self {
        Self {
            name: "m".into(),
            target: "db".into(),
            size: 3,
            driver: DriverName::parse("jobs").unwrap(),
            on_remove: OnRemove::Delete,
            on_orphan: OnOrphan::Refuse,
            grow: None,
            progress_deadline: PROGRESS_DEADLINE,
            service: "peer".into(),
            settings: DriverSettings::default(),
            paused: false,
            sleep: Sleep::default(),
            version: None,
        }
    }

    /// Its StatefulSet.
    pub fn id(&self, namespace: &str) -> ObjectId {
        ObjectId {
            gvk: Gvk::new("apps", "v1", "StatefulSet"),
            namespace: Some(namespace.into()),
            name: self.target.as_str().into(),
        }
    }
}

fn is_members(api_version: &str, kind: &str) -> bool {
    kind == KIND && api_version.split('/').next() == API_VERSION.split('/').next()
}

fn is_document(hook: &Hook) -> bool {
    is_members(&hook.manifest.api_version, &hook.manifest.kind) || hook.events.iter().any(|e| e == MEMBERS)
}

fn read_set(hook: &Hook, objects: &[Object], namespace: &str, drivers: &Drivers) -> Result<Set, String> {
    let manifest = &hook.manifest;
    if manifest.api_version != API_VERSION || manifest.kind != KIND {
        return Err(format!("a hook members is of {API_VERSION}, Kind={KIND}"));
    }
    if hook.events != [MEMBERS] {
        return Err("its annotation helm.sh/hook is members and nothing else".to_owned());
    }
    let mut document = body(hook)?;
    document.retain(|key, _| key != "status");
    let mut document =
        DocumentFields::of("the document", Some(document.into()), &["apiVersion", "kind", "metadata", "spec"])?;
    let fields: Vec<&str> =
        FIELDS[0].iter().copied().chain(settings_fields()).chain(FIELDS[1].iter().copied()).collect();
    let mut spec = DocumentFields::of("spec", document.take("spec"), &fields)?;
    let mut target = DocumentFields::of("spec.target", spec.take("target"), &["apiVersion", "kind", "name"])?;
    target.choice("kind", &[("StatefulSet", ())], Some(()))?;
    target.choice("apiVersion", &[("apps/v1", ())], Some(()))?;
    let target = target.text("name")?.ok_or("spec.target.name, the StatefulSet of the members, is missing")?;
    let size = spec.take("size").ok_or("spec.size, the number of members, is missing")?;
    let size = size.as_u64().and_then(|size| u32::try_from(size).ok()).filter(|size| (1..=MAX_SIZE).contains(size));
    let size = size.ok_or_else(|| format!("spec.size is not a whole number from 1 to {MAX_SIZE}"))?;
    let driver = read_driver(spec.text("driver")?)?;
    let mut volumes = DocumentFields::of("spec.volumes", spec.take("volumes"), &["onRemove", "onOrphan", "grow"])?;
    let on_remove = [("Delete", OnRemove::Delete), ("Retain", OnRemove::Retain)];
    let on_orphan = [("Refuse", OnOrphan::Refuse), ("Adopt", OnOrphan::Adopt)];
    let (field, settings) = read_settings(&mut spec, &driver)?;
    let progress_deadline = match spec.text("progressDeadline")? {
        None => PROGRESS_DEADLINE,
        Some(text) => duration::parse(&text).map_err(|e| format!("spec.progressDeadline: {e}"))?.as_secs(),
    };
    let paused = match spec.take("paused") {
        None => false,
        Some(Value::Bool(paused)) => paused,
        Some(_) => return Err("spec.paused must be true or false".to_owned()),
    };
    let sleep = read_sleep(spec.take("sleep"))?;
    let version = spec.text("version")?;
    let known = drivers.get(driver.as_str());
    // In the status these two fields are next to the names of documents.
    if known.is_some_and(|known| known.profile().lists_pods) && progress::LISTS.contains(&manifest.name.as_str()) {
        let driver = driver.as_str();
        return Err(format!("with driver: {driver}, the name of the document cannot be {}", manifest.name));
    }
    let service = check_target(&target, objects, namespace)?;
    let grow = VolumeGrowth::read(volumes.take("grow"))?;
    if let Some(grow) = &grow {
        if known.is_some_and(|known| !known.profile().measures_volumes) {
            let driver = driver.as_str();
            return Err(format!("with driver: {driver}, volumes cannot grow by themselves; remove spec.volumes.grow"));
        }
        check_growth(grow, &target, objects)?;
    }
    let needs = known.map(|known| known.needs(&settings, &target)).transpose()?.unwrap_or_default();
    if let Some(name) = &needs.config_map {
        check_map(field, name, objects, namespace)?;
    }
    Ok(Set {
        name: manifest.name.clone(),
        target,
        size,
        driver,
        on_remove: volumes.choice("onRemove", &on_remove, Some(OnRemove::Delete))?,
        on_orphan: volumes.choice("onOrphan", &on_orphan, Some(OnOrphan::Refuse))?,
        grow,
        progress_deadline,
        service,
        settings: DriverSettings::of(field, settings),
        paused,
        sleep,
        version: version.or(needs.version),
    })
}

/// `true`, `false`, or two schedules.
fn read_sleep(value: Option<Value>) -> Result<Sleep, String> {
    match value {
        None | Some(Value::Bool(false)) => return Ok(Sleep::Never),
        Some(Value::Bool(true)) => return Ok(Sleep::Always),
        Some(Value::Object(_)) => {}
        Some(_) => return Err("spec.sleep must be true, false, or an object with schedule and wake".to_owned()),
    }
    let mut fields = DocumentFields::of("spec.sleep", value, &["schedule", "wake", "timeZone"])?;
    let mut text = |key: &str| fields.text(key);
    let (sleep, wake, zone) = (text("schedule")?, text("wake")?, text("timeZone")?);
    let missing = |key: &str| format!("spec.sleep.{key}, a schedule, is missing");
    let (sleep, wake) = (sleep.ok_or_else(|| missing("schedule"))?, wake.ok_or_else(|| missing("wake"))?);
    Sleep::scheduled(&sleep, &wake, &zone.unwrap_or_default()).map_err(|why| format!("spec.sleep: {why}"))
}

fn read_driver(name: Option<String>) -> Result<DriverName, String> {
    let names: Vec<&str> = BUILT_IN.iter().map(|profile| profile.name).collect();
    let built_in = match names.as_slice() {
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    };
    let name = name.ok_or_else(|| format!("spec.driver is missing; it must be {built_in}"))?;
    DriverName::parse(&name).ok_or_else(|| {
        format!(
            "spec.driver {name:?} is unknown; it must be {built_in}, or a driver of the program's own, such as \
             example.com/database"
        )
    })
}

/// The settings of the driver, and the name of their field. No field may be there for a different driver.
fn read_settings(
    spec: &mut DocumentFields<'_>,
    driver: &DriverName,
) -> Result<(&'static str, Map<String, Value>), String> {
    let own = (OWN_SETTINGS, "a driver of the program's own".to_owned(), is_own(driver.as_str()));
    let built_in = BUILT_IN.iter().filter_map(|profile| {
        Some((profile.field?, format!("driver: {}", profile.name), profile.name == driver.as_str()))
    });
    let mut found = (OWN_SETTINGS, Map::new());
    for (field, whose, is_its) in built_in.chain([own]) {
        match spec.take(field) {
            Some(Value::Object(settings)) if is_its => found = (field, settings),
            None if is_its => found = (field, Map::new()),
            None => {}
            Some(_) if is_its => return Err(format!("spec.{field} is not an object")),
            Some(_) => return Err(format!("spec.{field} is only for {whose}")),
        }
    }
    Ok(found)
}

/// Checks that the operator can step the StatefulSet. Returns its service name.
fn check_target(target: &str, objects: &[Object], namespace: &str) -> Result<String, String> {
    let set =
        objects.iter().find(|o| is_set(o, target)).ok_or_else(|| format!("the chart has no StatefulSet {target}"))?;
    if set.namespace.as_deref().is_some_and(|n| n != namespace) {
        return Err(format!("StatefulSet {target} is not in the namespace of the release"));
    }
    let spec = set.body.get("spec");
    let at = |pointer: &str| spec.and_then(|spec| spec.pointer(pointer));
    if at("/persistentVolumeClaimRetentionPolicy/whenScaled") == Some(&"Delete".into()) {
        return Err(format!(
            "StatefulSet {target} sets persistentVolumeClaimRetentionPolicy.whenScaled: Delete, which deletes claims \
             before their member has left; use spec.volumes.onRemove instead"
        ));
    }
    if at("/ordinals/start").and_then(Value::as_u64).is_some_and(|start| start != 0) {
        return Err(format!("StatefulSet {target} sets ordinals.start, but members are counted from 0"));
    }
    let scales = |o: &&Object| {
        let reference = o.body.get("spec").and_then(|s| s.get("scaleTargetRef"));
        let text = |key: &str| reference.and_then(|r| r.get(key)).and_then(Value::as_str);
        text("kind") == Some("StatefulSet") && text("name") == Some(target)
    };
    if let Some(scaler) = objects.iter().find(scales) {
        return Err(format!(
            "{} {} sets the replicas of StatefulSet {target}, which the operator steps",
            scaler.gvk.kind, scaler.name
        ));
    }
    Ok(at("/serviceName").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Checks that the StatefulSet has the claim template whose volumes grow.
fn check_growth(grow: &VolumeGrowth, target: &str, objects: &[Object]) -> Result<(), String> {
    let set = objects.iter().find(|o| is_set(o, target));
    let templates = set.and_then(|set| set.body.get("spec")?.get("volumeClaimTemplates")?.as_array());
    let name = |template: &Value| template.pointer("/metadata/name").and_then(Value::as_str) == Some(&grow.claim);
    if templates.is_some_and(|all| all.iter().any(name)) {
        return Ok(());
    }
    Err(format!("spec.volumes.grow.claim: StatefulSet {target} has no claim template {}", grow.claim))
}

fn is_set(object: &Object, name: &str) -> bool {
    &*object.gvk.group == "apps" && &*object.gvk.kind == "StatefulSet" && object.name == name
}

/// Only the driver decides which member may begin with what: it has one `ConfigMap` for that, which no other client is
/// allowed to write.
fn check_map(field: &str, name: &str, objects: &[Object], namespace: &str) -> Result<(), String> {
    let is_it = |o: &&Object| {
        let here = o.namespace.as_deref().is_none_or(|n| n == namespace);
        here && o.gvk.group.is_empty() && &*o.gvk.kind == "ConfigMap" && o.name == *name
    };
    match objects.iter().find(is_it) {
        None => Ok(()),
        Some(_) => Err(format!(
            "the chart has ConfigMap {name}, which the driver writes: leave it out, or name another in spec.{field}.configMap"
        )),
    }
}

fn read_hook(hook: &Hook, sets: &[Set], drivers: &Drivers) -> Result<ScaleHook, String> {
    let manifest = &hook.manifest;
    if manifest.kind != "Job" || manifest.api_version != "batch/v1" {
        return Err("a scale hook is a Job of batch/v1".to_owned());
    }
    let read = |event: &String| {
        ScaleEvent::parse(event).ok_or_else(|| {
            format!(
                "{event:?} is not an event of scale hooks; an event of Helm's needs a document of its own, because \
                 Helm ignores this one"
            )
        })
    };
    let events = hook.events.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let job = body(hook)?;
    let annotation = |name: &str| {
        let annotations = job.get("metadata").and_then(|m| m.get("annotations"));
        annotations.and_then(|a| a.get(name)).and_then(Value::as_str).map(str::to_owned)
    };
    // A driver has no part in a deletion, so these hooks run whichever driver the stateful set has.
    let any = events == [ScaleEvent::BeforeDelete];
    let runs_hooks = |set: &Set| drivers.get(set.driver.as_str()).is_some_and(|driver| driver.profile().runs_hooks);
    let jobs: Vec<&str> = sets.iter().filter(|set| any || runs_hooks(set)).map(|set| set.name.as_str()).collect();
    let runner = BUILT_IN.iter().find(|profile| profile.runs_hooks).map_or("", |profile| profile.name);
    let set = match (annotation(OF), jobs.as_slice()) {
        (Some(name), jobs) if jobs.contains(&name.as_str()) => name,
        (Some(name), _) => return Err(format!("there is no Members {name:?} with driver: {runner}")),
        (None, [only]) => (*only).to_owned(),
        (None, []) => return Err(format!("no Members document has driver: {runner}")),
        (None, _) => return Err(format!("its annotation {OF} must name its Members document")),
    };
    let container = runs::container(&job)?;
    if runs::containers(&job).next().is_none() {
        return Err("it has no containers".to_owned());
    }
    let mut hasher = Hasher::default();
    hasher.map(&job);
    let digest = hasher.finish_short(8);
    Ok(ScaleHook { set, name: manifest.name.clone(), events, weight: hook.weight, container, digest, job })
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
