//! Renders a custom resource without a cluster, by the rules of a pass: its values, the name and the place of its release, patches, members,
//! and the marks of its owner. `tillerman fleet` compares such renderings.
//!
//! # Caveats
//! - Lookups find nothing. Values from Secrets, `ConfigMap`s and the status of other custom resources are missing.
//! - Random values come from a seed, and the time is always the same, so that two renderings can be compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use super::error::Error;
use super::render::draw::{ChartInputs, Drawn, LIMITS, MAX_OBJECTS, declared, members, with_chart};
use super::render::parse::parse;
use super::render::patches::Alterations;
use crate::bounds;
use crate::chart::{Chart, values};
use crate::kind::Kind;
use crate::kind::annotations::{self, Annotations};
use crate::kind::intended::{ReleaseSettings, intended_release};
use crate::kind::placement::Place;
use crate::kind::sleep::Sleep;
use crate::kind::switches::TARGET_NAMESPACE;
use crate::mask::Text;
use crate::members::drivers::Drivers;
use crate::object::field_error::FieldError;
use crate::object::{Gvk, Object, ObjectId};
use crate::plan::stamp::{Stamped, stamp_all};
use crate::release::owner::Owner;
use crate::render::{Capabilities, Fixed, Manifest, Options, Release, Rendered, check_name};
use crate::template::function::{FnResult, Host, KeptKeys};

/// The times of renderings with different seeds are so far apart, in nanoseconds: 400 days.
const APART: i128 = 400 * 24 * 3_600 * 1_000_000_000;
/// The time of the first seed, in nanoseconds since the Unix epoch.
const BEGIN: i128 = 1_700_000_000 * 1_000_000_000;

/// A custom resource, as a manifest or a list of the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainResource {
    /// Its kind.
    pub gvk: Gvk,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Its annotations, also those that the kind does not allow.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Its spec, which is the values of the chart.
    pub spec: Map<String, Value>,
}

impl PlainResource {
    /// Reads an object. `namespace` is for one that names none.
    ///
    /// # Errors
    /// A part of it is missing or too large, in a sentence.
    pub fn read(object: &Value, namespace: &str) -> Result<Self, String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = text("/metadata/name").ok_or("a custom resource has no name")?;
        let texts = |pointer: &str| {
            let all = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
            all.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
        };
        let spec = match object.get("spec") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(spec)) => spec.clone(),
            Some(_) => return Err("spec is not an object, so it cannot be the values of a chart".to_owned()),
        };
        if let Some(spec) = object.get("spec") {
            bounds::SPEC.value(spec).map_err(|why| format!("spec: {why}"))?;
        }
        Ok(Self {
            gvk: Gvk::from_api_version(text("/apiVersion").unwrap_or_default(), text("/kind").unwrap_or_default()),
            namespace: text("/metadata/namespace").unwrap_or(namespace).into(),
            name: name.into(),
            labels: texts("/metadata/labels"),
            annotations: texts("/metadata/annotations"),
            spec,
        })
    }

    /// It as an object, with what was read of it.
    pub fn object(&self) -> Value {
        json!({"apiVersion": self.gvk.api_version(), "kind": &*self.gvk.kind, "metadata": {"name": &*self.name,
            "namespace": &*self.namespace, "labels": self.labels, "annotations": self.annotations}, "spec": self.spec})
    }

    /// The custom resource as the kind takes it: without the annotations that the kind does not allow.
    fn allowed(&self, kind: &Kind) -> Self {
        let mut allowed = self.clone();
        kind.allow.take_refused(&mut allowed.annotations);
        allowed
    }

    /// The owner that the objects of its release get.
    pub fn owner(&self, kind: &Kind, chart: &Chart) -> Owner {
        let target = kind.placement.target.as_deref().map(Arc::from);
        let settings = ReleaseSettings { suffix: &kind.release_suffix, namespace: target.as_ref() };
        let said = |name: &str| self.annotations.get(name).map(|text| &**text);
        let (release_namespace, release_name) = intended_release(&self.namespace, &self.name, said, settings);
        Owner {
            gvk: kind.gvk.clone(),
            namespace: Some(Arc::clone(&self.namespace)).filter(|namespace| !namespace.is_empty()),
            name: Arc::clone(&self.name),
            uid: "".into(),
            release_name,
            release_namespace,
            chart: chart.metadata.name.as_str().into(),
        }
    }
}

/// The surroundings of a rendering without a cluster.
#[derive(Clone, Copy)]
pub struct OfflineSettings<'a> {
    /// The kind of the custom resource.
    pub kind: &'a Kind,
    pub chart: &'a Chart,
    /// The capabilities that templates see.
    pub capabilities: &'a Capabilities,
    /// Whether the objects of a kind have a namespace.
    pub is_namespaced: fn(&Gvk) -> bool,
    /// Whether there is a release already.
    pub is_upgrade: bool,
}

/// The objects that a custom resource should have.
#[derive(Clone, Debug)]
pub struct OfflineRendering {
    /// The custom resource and its release.
    pub owner: Owner,
    /// The objects, as they would be applied.
    pub objects: Vec<Stamped>,
    /// The hooks, besides those of tests, and the declarations of the chart.
    pub hooks: Vec<Object>,
    /// Whether a template took random bytes or the time.
    pub is_random: bool,
    /// Whether a template looked an object up, and found nothing.
    pub has_looked_up: bool,
    /// The sources of values that are missing, in words.
    pub missing: Vec<String>,
}

/// Renders a custom resource. Renderings with different seeds differ in random values and in what comes from the time.
///
/// # Errors
/// Why the operator would refuse it.
pub fn render_offline(cr: &PlainResource, settings: OfflineSettings<'_>, seed: u32) -> Result<OfflineRendering, Text> {
    rendering(&cr.allowed(settings.kind), settings, seed).map_err(|error| error.text())
}

fn rendering(cr: &PlainResource, settings: OfflineSettings<'_>, seed: u32) -> Result<OfflineRendering, Error> {
    let OfflineSettings { kind, chart, capabilities, is_upgrade, .. } = settings;
    let owner = cr.owner(kind, chart);
    check(cr, kind, &owner)?;
    let own = annotations::texts(&cr.annotations).map_or_else(Annotations::default, |texts| Annotations::read(&texts));
    own.depends_on.as_ref().map_err(unreadable)?;
    own.ignored.as_ref().map_err(unreadable)?;
    let missing = missing(kind, &own)?;
    let patches: Vec<_> = kind.patches.iter().chain(own.patches.as_ref().map_err(unreadable)?).cloned().collect();
    let mut given = cr.spec.clone();
    values::merge(&mut given, kind.overrides.values.clone());
    let release = Release {
        revision: if is_upgrade { 2 } else { 1 },
        is_upgrade,
        ..Release::new(&*owner.release_name, &*owner.release_namespace)
    };
    let host = Arc::new(Seeded::new(seed));
    let options = Options::shared(Arc::clone(&host) as _).limits(LIMITS);
    let inputs = ChartInputs { chart, release: &release, capabilities };
    // A schedule depends on the time, and the effect of a change does not.
    let asleep = kind.switches.read(&cr.annotations).map_err(|why| unreadable(&why))?.sleep == Sleep::Always;
    let alterations = Alterations { patches, asleep };
    let (mut rendered, mut objects) = with_chart(inputs, given, &alterations, &options, |_| ())?;
    let drivers = Drivers::new();
    let members = members(&mut rendered, &objects, &owner, &drivers)?;
    if members.is_some() {
        objects = parse(&rendered.manifests)?;
    }
    let Drawn { rendered, objects, .. } = declared(rendered, objects, members, &owner, &drivers)?;
    if objects.len() > MAX_OBJECTS {
        return Err(Error::Manifest(format!("the chart makes {} objects; the limit is {MAX_OBJECTS}", objects.len())));
    }
    let objects = stamp_all(&objects, &owner, settings.is_namespaced);
    objects.iter().try_for_each(|object| place(kind, &object.id, &cr.namespace))?;
    Ok(OfflineRendering {
        hooks: hooks(&rendered)?,
        owner,
        objects,
        is_random: host.is_random.load(Ordering::Relaxed),
        has_looked_up: host.has_looked_up.load(Ordering::Relaxed),
        missing,
    })
}

fn unreadable(annotation: &FieldError) -> Error {
    Error::Values(annotation.to_string())
}

/// Checks the name and the place of a release.
fn check(cr: &PlainResource, kind: &Kind, owner: &Owner) -> Result<(), Error> {
    if let Some(why) = &kind.unusable {
        return Err(Error::Values(why.clone()));
    }
    if owner.release_namespace.is_empty() {
        return Err(Error::Values(format!("the release has no namespace: set targetNamespace or {TARGET_NAMESPACE}")));
    }
    if let Some(target) = cr.annotations.get(TARGET_NAMESPACE) {
        kind.placement.check_target(target.trim(), &cr.namespace).map_err(|why| Error::NotAllowed(why.to_string()))?;
    }
    kind.switches.read(&cr.annotations).map_err(|why| unreadable(&why))?;
    check_name(&owner.release_name).map_err(Error::Values)
}

fn place(kind: &Kind, id: &ObjectId, own: &str) -> Result<(), Error> {
    let place = id.namespace.as_deref().map_or(Place::Cluster, Place::In);
    kind.placement.check(&id.gvk, place, own, &id.to_string()).map_err(|why| Error::NotAllowed(why.to_string()))
}

/// The sources of values that only a cluster has.
fn missing(kind: &Kind, own: &Annotations) -> Result<Vec<String>, Error> {
    let sources = own.sources.as_ref().map_err(unreadable)?;
    Ok(kind.values_from.iter().chain(sources).map(ToString::to_string).collect())
}

/// The hooks of a rendering that are not for tests alone, and those that Helm does not know.
fn hooks(rendered: &Rendered) -> Result<Vec<Object>, Error> {
    let is_test = |event: &String| event.starts_with("test");
    let hooks = rendered.hooks.iter().chain(&rendered.unknown).filter(|hook| !hook.events.iter().all(is_test));
    let manifests: Vec<Manifest> = hooks.map(|hook| hook.manifest.clone()).collect();
    parse(&manifests)
}

/// Randomness from a seed, and a time that depends on it. It remembers what was requested.
struct Seeded {
    fixed: Fixed,
    is_random: AtomicBool,
    has_looked_up: AtomicBool,
}

impl Seeded {
    fn new(seed: u32) -> Self {
        let fixed = Fixed::new(seed.into(), BEGIN + APART * i128::from(seed)).with_kept_keys();
        Self { fixed, is_random: AtomicBool::new(false), has_looked_up: AtomicBool::new(false) }
    }
}

impl Host for Seeded {
    fn random(&self, buffer: &mut [u8]) {
        self.is_random.store(true, Ordering::Relaxed);
        self.fixed.random(buffer);
    }
    fn now(&self) -> i128 {
        self.is_random.store(true, Ordering::Relaxed);
        self.fixed.now()
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
        self.has_looked_up.store(true, Ordering::Relaxed);
        self.fixed.lookup(api_version, kind, namespace, name)
    }
    fn resolve(&self, name: &str) -> String {
        self.fixed.resolve(name)
    }
    fn kept_keys(&self) -> Option<&KeptKeys> {
        self.fixed.kept_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::{OfflineRendering, OfflineSettings, PlainResource, render_offline};
    use crate::chart::{Chart, File};
    use crate::kind::{Kind, watches};
    use crate::render::Capabilities;
    use serde_json::{Value, json};
    use std::path::Path;

    const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  \
        a: {{ .Values.a | quote }}\n  random: {{ randAlphaNum 8 }}\n  place: {{ .Release.Namespace }}\n";

    fn kind(more: &str) -> Kind {
        let text = format!("- group: example.com\n  version: v1\n  kind: Web\n  chart: web\n{more}");
        watches::parse(&text, Path::new(".")).unwrap().kinds.remove(0)
    }

    fn made(kind: &Kind, cr: &Value, template: &str, seed: u32) -> Result<OfflineRendering, String> {
        let template = File { name: "templates/a.yaml".into(), data: template.as_bytes().to_vec().into() };
        let mut chart = Chart { templates: vec![template], ..Chart::default() };
        chart.metadata.name = "web".into();
        let capabilities = Capabilities::default();
        let settings = OfflineSettings {
            kind,
            chart: &chart,
            capabilities: &capabilities,
            is_namespaced: |_| true,
            is_upgrade: true,
        };
        let cr = PlainResource::read(cr, "ns")?;
        render_offline(&cr, settings, seed).map_err(|text| text.whole())
    }

    fn cr(annotations: &Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Web", "spec": {"a": "x"},
            "metadata": {"name": "app", "annotations": annotations}})
    }

    #[test]
    fn a_custom_resource_is_rendered_with_the_settings_of_its_kind() {
        let kind = kind("  releaseSuffix: -web\n  targetNamespace: t\n  overrideValues: {a: other}\n");
        let made = made(&kind, &cr(&json!({})), TEMPLATE, 1).unwrap();
        let [object] = made.objects.as_slice() else { panic!("{made:?}") };
        assert_eq!((object.id.namespace.as_deref(), &*object.id.name), (Some("t"), "app-web"));
        assert_eq!((&object.body["data"]["a"], &object.body["data"]["place"]), (&json!("other"), &json!("t")));
        assert_eq!(object.body["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"], "web");
    }

    #[test]
    fn only_allowed_annotations_count() {
        let patch =
            json!([{"target": {"kind": "ConfigMap"}, "patch": [{"op": "add", "path": "/data/p", "value": "q"}]}]);
        let patch = patch.to_string();
        let annotations = json!({"tillerman.dev/patches": patch, "tillerman.dev/release-name": "other"});
        let data = |more: &str| {
            let made = made(&kind(more), &cr(&annotations), TEMPLATE, 1).unwrap();
            (made.objects[0].id.name.to_string(), made.objects[0].body["data"].get("p").cloned())
        };
        assert_eq!(data(""), ("app".to_owned(), None));
        assert_eq!(data("  allow: [patches, releaseName]\n"), ("other".to_owned(), Some(json!("q"))));
    }

    #[test]
    fn a_seed_gives_the_same_objects_again_and_another_seed_others() {
        let made = |seed: u32| made(&kind(""), &cr(&json!({})), TEMPLATE, seed).unwrap();
        assert_eq!(made(1).objects, made(1).objects);
        assert_ne!(made(1).objects, made(2).objects);
        assert!(made(1).is_random && !made(1).has_looked_up);
    }

    #[test]
    fn a_failure_is_the_one_that_a_pass_has() {
        let wrong = |template: &str, cr: &Value| made(&kind("  namespaces: own\n"), cr, template, 1).unwrap_err();
        let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n";
        assert!(wrong(elsewhere, &cr(&json!({}))).starts_with("ConfigMap a is in namespace other, and the operator"));
        assert!(wrong("{{ fail \"no\" }}", &cr(&json!({}))).contains("no"));
        let long = json!({"kind": "Web", "metadata": {"name": "a".repeat(60)}});
        assert!(wrong(TEMPLATE, &long).contains("53"), "{}", wrong(TEMPLATE, &long));
    }
}
