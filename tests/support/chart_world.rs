//! A namespace `ns` in which a chart of `charts/` is rendered as the release `my`: what `lookup` finds there, the date, and randomness that is
//! the same in each run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tillerman::chart;
use tillerman::object::parse_manifest;
use tillerman::render::{self, Capabilities, Fixed, Options, Release, Rendered};
use tillerman::template::function::{FnResult, Host};
use tillerman::template::value;

const DAY: u64 = 86_400;

#[derive(Clone)]
pub struct ChartWorld {
    chart: &'static str,
    random: Arc<Fixed>,
    day: Arc<AtomicU64>,
    /// By kind and name.
    objects: Arc<Mutex<BTreeMap<(String, String), Value>>>,
}

impl Host for ChartWorld {
    fn random(&self, buffer: &mut [u8]) {
        self.random.random(buffer);
    }
    fn now(&self) -> i128 {
        i128::from(1_767_225_600 + DAY * self.day.load(Ordering::Relaxed)) * 1_000_000_000
    }
    fn lookup(&self, _: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
        assert_eq!(namespace, "ns", "{kind} {name}");
        let objects = self.objects.lock().unwrap();
        let found = objects.get(&(kind.to_owned(), name.to_owned()));
        Ok(found.map_or_else(|| value::Value::map([]), value::Value::from))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

#[allow(dead_code, reason = "each test program uses a part")]
impl ChartWorld {
    /// An empty one.
    pub fn of(chart: &'static str) -> Self {
        Self { chart, random: Arc::default(), day: Arc::default(), objects: Arc::default() }
    }

    /// Puts an object into the namespace.
    pub fn put(&self, kind: &str, name: &str, object: Value) {
        self.objects.lock().unwrap().insert((kind.to_owned(), name.to_owned()), object);
    }

    pub fn after_days(&self, days: u64) {
        self.day.fetch_add(days, Ordering::Relaxed);
    }

    pub fn render(&self, values: &Value) -> Rendered {
        self.try_render(values, &[]).unwrap_or_else(|error| panic!("{values}: {error}"))
    }

    /// Renders where the API server also serves these kinds.
    pub fn try_render(&self, values: &Value, kinds: &[&str]) -> Result<Rendered, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts").join(self.chart);
        let chart = chart::load(&folder).unwrap();
        let values = values.as_object().cloned().unwrap_or_default();
        let mut capabilities = Capabilities::default();
        capabilities.api_versions.extend(kinds.iter().map(|&kind| kind.to_owned()));
        let release = Release::new("my", "ns");
        let rendered = render::render(&chart, &values, &release, &capabilities, &Options::new(self.clone()));
        rendered.map_err(|error| error.to_string())
    }

    /// Renders, and returns the Secrets as the API server keeps them. They are there for the next renderings, and no others.
    pub fn deploy(&self, values: &Value) -> BTreeMap<String, Value> {
        let objects = parse_manifest(&self.render(values).manifest()).unwrap();
        let stored = |mut secret: Value| {
            for (key, text) in secret["stringData"].as_object().cloned().unwrap_or_default() {
                secret["data"][key] = BASE64.encode(text.as_str().unwrap()).into();
            }
            secret
        };
        let secrets = objects.into_iter().filter(|object| &*object.gvk.kind == "Secret");
        let secrets: BTreeMap<String, Value> =
            secrets.map(|object| (object.name, stored(Value::Object(object.body)))).collect();
        self.objects.lock().unwrap().retain(|(kind, _), _| kind != "Secret");
        for (name, secret) in &secrets {
            self.put("Secret", name, secret.clone());
        }
        secrets
    }
}
