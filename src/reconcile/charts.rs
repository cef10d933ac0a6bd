//! A kind that the operator serves, with its chart. The chart is loaded once, and all passes share it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use serde_json::value::RawValue;

use super::rollout_state::RolloutState;
use crate::chart;
use crate::chart::{Chart, ChartLimits, LoadError, pack};
use crate::crd;
use crate::kind::{ChartRef, Kind, Proof, schema_documents};
use crate::object::Gvk;
use crate::release::digest;
use crate::release::digest::Hasher;
use crate::release::record::chart_json;
use crate::render::Capabilities;
use crate::source::download::{Access, Downloader, Verify, WantedChart};
use crate::source::http::{Login, Tls};
use crate::source::link::shown;
use crate::source::provenance::Keyring;
use crate::source::registry::{Options, Registry};
use crate::source::{Messages, SourceError, SourceSettings, sha256};
use crate::template::budget;
use crate::template::budget::Budget;

/// A chart that can be rendered.
pub struct Loaded {
    pub chart: Chart,
    /// Digest of the chart.
    pub digest: String,
    /// The chart in the form that records embed.
    pub json: Box<RawValue>,
    /// Digest of the documents that its schema refers to; empty when there are none.
    documents: String,
    reads: Reads,
    /// The archive, until it is kept, for a kind with a roll-out.
    archive: Mutex<Option<Arc<Vec<u8>>>>,
    /// The types of its values, for a kind with a roll-out.
    types: Option<Value>,
}

/// The parts of the cluster that a chart reads, judged by its text; when in doubt, the answer is yes. The operator must
/// not render a chart that does not read `.Capabilities` again because a client installed a custom resource definition
/// (docs/design/applying.md A4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reads {
    version: bool,
    /// Any of the served kinds.
    kinds: bool,
    /// These versions and kinds. A template in minijinja has their names as texts.
    named: BTreeSet<String>,
    objects: bool,
}

impl Loaded {
    /// Prepares a chart for rendering.
    pub fn new(mut chart: Chart) -> Self {
        // Passes need no comments.
        chart.forget_texts();
        let digest = digest::chart(&chart);
        let json = chart_json(&chart);
        let mut reads = Reads::default();
        reads.add(&chart);
        let documents = digest::schema_documents(&chart.schema_documents);
        Self { chart, digest, json, documents, reads, archive: Mutex::default(), types: None }
    }

    /// Prepares the chart of a kind.
    pub fn of(chart: Chart, kind: &Kind) -> Self {
        if kind.rollout.is_some() { Self::rolled_out(chart) } else { Self::new(chart) }
    }

    /// Prepares a chart for rendering, and for a roll-out.
    fn rolled_out(chart: Chart) -> Self {
        let archive = pack::pack(&chart)
            .map_err(|e| tracing::warn!(chart = chart.metadata.name, %e, "the chart cannot be packed"));
        let evidence = crd::carried(&chart);
        let types = crd::types(&chart, crd::CrdSettings::default(), &evidence).ok().map(|typed| typed.schema);
        Self { archive: Mutex::new(archive.ok().map(Arc::new)), types, ..Self::new(chart) }
    }

    /// The digest of the chart and of the documents that its schema refers to.
    pub fn inputs_digest(&self) -> Cow<'_, str> {
        if self.documents.is_empty() {
            return Cow::Borrowed(&self.digest);
        }
        let mut hasher = Hasher::default();
        hasher.text(&self.digest).text(&self.documents);
        Cow::Owned(hasher.finish())
    }

    /// Drops the archive, once it is kept.
    pub fn forget_archive(&self) {
        *self.archive.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The chart as an archive; `None` once it is kept.
    pub fn archive(&self) -> Option<Arc<Vec<u8>>> {
        self.archive.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The types of its values, for a kind with a roll-out.
    pub fn types(&self) -> Option<&Value> {
        self.types.as_ref()
    }

    /// The digest of those capabilities that the chart reads, for the inputs digest.
    pub fn capabilities_digest(&self, capabilities: &Capabilities) -> String {
        let mut hasher = Hasher::default();
        if self.reads.version {
            hasher.text(&capabilities.kube_version);
        }
        for kind in &capabilities.api_versions {
            if self.reads.kinds || self.reads.named.contains(kind) {
                hasher.text(kind);
            }
        }
        if self.reads.version || self.reads.kinds { hasher.finish() } else { String::new() }
    }

    /// Whether the chart may read the served kinds.
    pub fn reads_kinds(&self) -> bool {
        self.reads.kinds || !self.reads.named.is_empty()
    }

    /// Whether the chart may look up objects.
    pub fn looks_up(&self) -> bool {
        self.reads.objects
    }
}

impl Reads {
    fn add(&mut self, chart: &Chart) {
        let mentions = |needle: &str| chart.templates.iter().any(|t| find(&t.data, needle.as_bytes()));
        let mentions_any = |needles: [&str; 2]| needles.iter().any(|n| mentions(n));
        self.version |= !chart.metadata.kube_version.is_empty() || mentions_any(["Capabilities", "capabilities"]);
        self.kinds |= mentions("APIVersions");
        if mentions("capabilities.apiVersions") {
            // A macro can have the names of another template.
            let mut named = BTreeSet::new();
            for template in &chart.templates {
                let text = String::from_utf8_lossy(&template.data);
                named.extend(text.split(['"', '\'']).filter(|name| is_version(name)).map(str::to_owned));
            }
            self.kinds |= named.is_empty();
            self.named.extend(named);
        }
        self.objects |= mentions("lookup");
        for dependency in &chart.dependencies {
            self.add(dependency);
        }
    }
}

/// Whether a text may be an entry of `.Capabilities.APIVersions`: `group/version`, `group/version/Kind` or `v1/Kind`.
fn is_version(text: &str) -> bool {
    text.contains('/') && text.chars().all(|c| c.is_ascii_alphanumeric() || "./-".contains(c))
}

fn find(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|w| w == needle)
}

/// A kind with its chart.
pub struct Served {
    pub kind: Kind,
    /// controller-runtime's name of the controller, for metrics.
    pub controller: String,
    /// The definition that it comes from; `None` for an entry of `watches.yaml`.
    pub definition: Option<String>,
    chart: RwLock<Result<Arc<Loaded>, String>>,
    pub(super) rollout: Mutex<RolloutState>,
}

impl Served {
    /// Loads the kind's chart. A chart that cannot be loaded does not stop the other kinds. A chart that is not on this
    /// machine is left to [`Served::retry`].
    pub fn new(kind: Kind) -> Self {
        let controller = format!("{}-controller", kind.gvk.kind.to_lowercase());
        let chart = match &kind.chart {
            _ if kind.unusable.is_some() => load(&kind),
            ChartRef::Path(_) => load(&kind),
            ChartRef::Link(link) => Err(format!("the chart {} is being fetched", shown(link))),
        };
        Self { kind, controller, definition: None, chart: RwLock::new(chart), rollout: Mutex::default() }
    }

    /// A kind of a definition, whose chart is loaded.
    pub fn defined(definition: &str, kind: Kind, chart: Arc<Loaded>) -> Self {
        let controller = format!("{}-controller", kind.gvk.kind.to_lowercase());
        let definition = Some(definition.to_owned());
        Self { kind, controller, definition, chart: RwLock::new(Ok(chart)), rollout: Mutex::default() }
    }

    /// A kind with this chart, whichever it names.
    pub fn with_chart(kind: Kind, chart: Arc<Loaded>) -> Self {
        Self { definition: None, ..Self::defined("", kind, chart) }
    }

    /// Whether the chart has to be fetched.
    pub fn is_remote(&self) -> bool {
        matches!(self.kind.chart, ChartRef::Link(_))
    }

    /// The chart, or the reason why there is none.
    pub fn chart(&self) -> Result<Arc<Loaded>, String> {
        self.chart.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tries again to load a chart that could not be loaded. Returns `true` if the chart is loaded now, or if the
    /// reason has changed. May take as long as a download.
    pub fn retry(&self) -> bool {
        let Err(before) = self.chart() else { return false };
        let loaded = load(&self.kind);
        match &loaded {
            Ok(_) => tracing::info!(kind = %self.gvk(), "the chart can be used now"),
            Err(error) if *error == before => return false,
            Err(error) => tracing::error!(kind = %self.gvk(), %error, "chart unusable"),
        }
        *self.chart.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        true
    }

    /// The kind's group, version and kind.
    pub fn gvk(&self) -> &Gvk {
        &self.kind.gvk
    }
}

/// The budget for reading a chart, in addition to the limits on its files.
const READING: budget::Limits = budget::Limits { steps: None, output: usize::MAX, memory: Some(256 << 20) };

/// The chart of a kind, with the documents that its schema refers to. May take as long as a download.
///
/// # Errors
/// Why it cannot be used, in a sentence.
pub fn chart_of(kind: &Kind) -> Result<Chart, String> {
    if let Some(why) = &kind.unusable {
        return Err(why.clone());
    }
    let documents = Arc::new(schema_documents::load(&kind.schema_documents)?);
    let mut chart = read(&kind.chart, &kind.proof)?;
    chart.refer_to(&documents);
    Ok(chart)
}

fn load(kind: &Kind) -> Result<Arc<Loaded>, String> {
    chart_of(kind).map(|chart| Arc::new(Loaded::of(chart, kind)))
}

/// Loads a chart from where it is. May take as long as a download.
///
/// # Errors
/// Why it cannot be used, in a sentence that names it.
pub fn read(chart: &ChartRef, proof: &Proof) -> Result<Chart, String> {
    let text = chart.to_string();
    checked(&shown(&text), || match chart {
        ChartRef::Path(path) => chart::load(path),
        ChartRef::Link(link) => {
            let wanted = WantedChart { chart: link.clone(), ..WantedChart::default() };
            let data = fetch(&wanted, proof, &Credentials::default()).and_then(|data| proven(data, proof));
            data.map_err(|e| LoadError(e.0)).and_then(|data| chart::load_archive(&data, &ChartLimits::default()))
        }
    })
}

/// The settings of a fetch besides the link, if they are not the operator's own.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The login at the server of the chart.
    pub login: Login,
    /// The keys; one of them must have signed the archive.
    pub keys: Option<Keyring>,
}

/// Fetches a chart with these credentials. May take as long as a download.
///
/// # Errors
/// Those of [`read`].
pub fn fetch_chart(wanted: &WantedChart, proof: &Proof, credentials: &Credentials) -> Result<Chart, String> {
    let name = if wanted.repo.is_empty() {
        shown(&wanted.chart).into_owned()
    } else {
        format!("{} {} of {}", wanted.chart, wanted.version, shown(&wanted.repo))
    };
    checked(name.trim(), || {
        let data = fetch(wanted, proof, credentials).and_then(|data| proven(data, proof));
        data.map_err(|e| LoadError(e.0)).and_then(|data| chart::load_archive(&data, &ChartLimits::default()))
    })
}

/// Loads a chart from an archive with this name.
///
/// # Errors
/// Those of [`read`].
pub fn read_archive(data: Vec<u8>, proof: &Proof, name: &str) -> Result<Chart, String> {
    checked(name, || {
        let data = proven(data, proof).map_err(|e| LoadError(e.0))?;
        chart::load_archive(&data, &ChartLimits::default())
    })
}

/// Loads a chart that can be installed, within the limits of reading.
fn checked(path: &str, load: impl FnOnce() -> Result<Chart, LoadError>) -> Result<Chart, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Budget::new(READING).run(load))) {
        Ok(Ok(chart)) if chart.is_library() => Err(format!("the chart {path} is a library and cannot be installed")),
        Ok(Ok(chart)) => Ok(chart),
        Ok(Err(error)) => Err(format!("the chart {path} cannot be loaded: {error}")),
        Err(_) => Err(format!("the chart {path} cannot be loaded: internal error")),
    }
}

/// Returns the archive if it has the required digest.
fn proven(data: Vec<u8>, proof: &Proof) -> Result<Vec<u8>, SourceError> {
    let digest = sha256(&data);
    match &proof.digest {
        Some(wanted) if *wanted != digest => {
            Err(SourceError(format!("its digest is sha256:{digest}, but the requested digest is sha256:{wanted}")))
        }
        _ => Ok(data),
    }
}

/// Fetches the archive at a link, with the credentials that Helm would use. The content of the archive runs with
/// the operator's rights, so its origin must be authentic: the link must use https, unless a digest or a keyring proves
/// the archive.
fn fetch(wanted: &WantedChart, proof: &Proof, credentials: &Credentials) -> Result<Vec<u8>, SourceError> {
    let link = if wanted.repo.is_empty() { &wanted.chart } else { &wanted.repo };
    if link.starts_with("http://") && *proof == Proof::default() && credentials.keys.is_none() {
        return Err(SourceError(
            "http:// does not protect the archive from changes on the network: use https://, or give its digest or \
             keyring in watches.yaml"
                .to_owned(),
        ));
    }
    let tls = Tls { stay_secure: true, ..Tls::default() };
    let settings = SourceSettings::from_env();
    let told = |text: &str| tracing::info!(chart = %shown(link), "{}", text.trim());
    let warned = |text: &str| tracing::warn!(chart = %shown(link), "{}", text.trim());
    let messages = Messages { out: &told, registry: &told, warn: &warned };
    let keys = credentials.keys.clone().or_else(|| proof.keyring.clone().map(Keyring::File));
    let login = credentials.login.clone();
    let options = Options {
        config: settings.registry_config.clone(),
        login: login.clone(),
        tls: tls.clone(),
        ..Options::default()
    };
    let downloader = Downloader {
        settings: &settings,
        registry: &Registry::new(options, messages)?,
        access: Access { tls, login, ..Access::default() },
        verify: if keys.is_some() { Verify::Always } else { Verify::Never },
        keyring: keys.unwrap_or_else(|| Keyring::File(PathBuf::new())),
        messages,
    };
    downloader.fetch(wanted)
}

#[cfg(test)]
mod tests {
    use super::Loaded;
    use crate::chart::{Chart, File};
    use crate::render::Capabilities;

    fn loaded(template: &str) -> Loaded {
        let template = File { name: "templates/a.yaml".into(), data: template.as_bytes().to_vec().into() };
        Loaded::new(Chart { templates: vec![template], ..Chart::default() })
    }

    #[test]
    fn only_what_a_chart_reads_of_the_cluster_is_an_input_of_it() {
        let of = |version: &str, kinds: &[&str]| Capabilities {
            kube_version: version.into(),
            api_versions: kinds.iter().map(|k| (*k).to_owned()).collect(),
        };
        let differs = |template: &str, a: &Capabilities, b: &Capabilities| {
            let chart = loaded(template);
            chart.capabilities_digest(a) != chart.capabilities_digest(b)
        };
        let (old, new, more) = (of("v1", &["a"]), of("v2", &["a"]), of("v1", &["a", "g/b"]));
        let table = [
            ("a: b", false, false),
            ("{{ .Capabilities.KubeVersion }}", true, false),
            ("{{ .Capabilities.APIVersions.Has \"x\" }}", true, true),
            ("{% if \"x/v1\" in capabilities.apiVersions %}", true, false),
            ("{% if \"g/b\" in capabilities.apiVersions %}", true, true),
            ("{% for kind in capabilities.apiVersions %}", true, true),
        ];
        for (template, version, kinds) in table {
            assert_eq!(differs(template, &old, &new), version, "{template}");
            assert_eq!(differs(template, &old, &more), kinds, "{template}");
        }
    }
}
