//! Charts in registries: the OCI distribution protocol as Helm uses it (`pkg/registry`, oras-go).

mod auth;
pub mod push;
mod reference;

use super::credentials::{self, Credential};
use super::http::{ARCHIVE_LIMIT, Client, Login, Response, SMALL_LIMIT, Tls, reason};
use super::link::shown;
use super::{Messages, SourceError, fail, sha256};
pub use reference::Reference;
use serde::Deserialize;
use serde_json::Value;
use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use tillerman_render::template::version::{Constraints, Version};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OLD_CHART: &str = "application/tar+gzip";
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
/// The types that oras-go requests.
const MANIFESTS: &str = "application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.oci.artifact.manifest.v1+json";
/// A hint for a reference with an underscore: registries allow no plus sign.
const UNDERSCORE: &str = "
OCI artifact references (e.g. tags) do not support the plus sign (+). To support
storing semantic versions, Helm adopts the convention of changing plus (+) to
an underscore (_) in chart version tags when pushing to a registry and back to
a plus (+) when pulling from a registry.
";
/// Limit of the pages of tags: far more than any repository has, in case a server never ends.
const PAGES: usize = 1000;

/// Whether a link leads to a registry.
pub fn is_oci(link: &str) -> bool {
    link.starts_with("oci://")
}

/// How a registry is reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Docker's `config.json` with credentials.
    pub config: PathBuf,
    /// A login instead of those of the file, if it has a name and a password.
    pub login: Login,
    /// The authorities to trust.
    pub tls: Tls,
    /// http instead of https.
    pub plain_http: bool,
}

/// The parts to take from a chart's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The archive.
    Chart,
    /// The provenance file.
    Provenance,
}

/// Talks to registries.
pub struct Registry<'a> {
    client: OnceCell<Client>,
    options: Options,
    messages: Messages<'a>,
    tokens: RefCell<auth::Tokens>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

/// The result of a reference and a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the manifest, if it was requested together with a version.
    pub digest: Option<String>,
    /// The reference with the tag or the digest.
    pub url: String,
}

impl<'a> Registry<'a> {
    /// Fails when a file of `options` cannot be read.
    pub fn new(options: Options, messages: Messages<'a>) -> Result<Self, SourceError> {
        let registry = Self { client: OnceCell::new(), options, messages, tokens: RefCell::default() };
        // The system's certificates are read when a registry is asked: most commands ask none.
        if registry.options.tls != Tls::default() {
            registry.client()?;
        }
        Ok(registry)
    }

    fn client(&self) -> Result<&Client, SourceError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(&self.options.tls)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The reference of a version of a chart: a tag for a version, the newest fitting tag for a constraint or nothing.
    pub fn resolve(&self, url: &str, version: &str) -> Result<Resolved, SourceError> {
        let reference = Reference::parse(url)?;
        let version = if version.is_empty() { reference.tag.clone() } else { version.to_owned() };
        if !reference.tag.is_empty() && reference.tag != version {
            return fail(format!("chart reference and version mismatch: {version} is not {}", reference.tag));
        }
        if !reference.digest.is_empty() {
            let url = format!("oci://{}/{}@{}", reference.registry, reference.repository, reference.digest);
            if version.is_empty() {
                return Ok(Resolved { digest: None, url });
            }
            let tagged = Reference { tag: version.replace('+', "_"), digest: String::new(), ..reference.clone() };
            // A chart need not be tagged when its digest is given; if it is, both must say the same.
            return match self.digest_of(&tagged) {
                Err(_) => Ok(Resolved { digest: None, url }),
                Ok(found) if found == reference.digest => Ok(Resolved { digest: Some(found), url }),
                Ok(found) => fail(format!("chart reference digest mismatch: {found} is not {}", reference.digest)),
            };
        }
        let tag = if Version::parse(&version).is_ok() {
            version
        } else {
            let tags = self.tags(&reference)?;
            if tags.is_empty() {
                return fail(format!("unable to locate any tags in provided repository: {url}"));
            }
            matching(&tags, &version)?
        };
        Ok(Resolved { digest: None, url: format!("oci://{}/{}:{tag}", reference.registry, reference.repository) })
    }

    /// The versions of a repository's tags, the newest first; tags that are not versions are left out.
    pub fn tags(&self, reference: &Reference) -> Result<Vec<String>, SourceError> {
        let mut versions = Vec::new();
        let mut link = self.link(reference, "tags/list");
        for _ in 0..PAGES {
            let answer = self.ask(reference, "GET", &link, None, SMALL_LIMIT)?;
            let page: Tags = serde_json::from_slice(&answer.body)
                .map_err(|e| SourceError(format!("GET \"{link}\": failed to decode response: {e}")))?;
            let tags = page.tags.unwrap_or_default();
            versions.extend(tags.iter().filter_map(|tag| Version::parse_strict(&tag.replace('_', "+")).ok()));
            let Some(next) = next_page(&answer)? else {
                versions.sort_by(|a, b| b.cmp(a));
                return Ok(versions.iter().map(ToString::to_string).collect());
            };
            link = next;
        }
        fail(format!("tag listing exceeded {PAGES} pages: too many pages"))
    }

    /// The archive or the provenance file that a reference names. Its digest and those of all on the way are checked.
    pub fn pull(&self, url: &str, layer: Layer) -> Result<Vec<u8>, SourceError> {
        let reference = Reference::parse(url)?;
        let at = self.link(&reference, &format!("manifests/{}", reference.name()));
        let source = |e: SourceError| SourceError(format!("failed to perform \"FetchReference\" on source: {e}"));
        let answer = self.ask(&reference, "GET", &at, Some(MANIFESTS), SMALL_LIMIT).map_err(source)?;
        let digest = format!("sha256:{}", sha256(&answer.body));
        let told = answer.header("docker-content-digest");
        for wanted in [reference.digest.as_str(), told] {
            if wanted.starts_with("sha256:") && wanted != digest {
                return Err(source(SourceError(format!(
                    "GET \"{at}\": mismatch digest: received \"{digest}\" when expecting \"{wanted}\""
                ))));
            }
        }
        let manifest: Manifest = serde_json::from_slice(&answer.body)
            .map_err(|e| SourceError(format!("{digest}: the manifest is not valid: {e}")))?;
        let wanted = match layer {
            Layer::Chart => &[CHART, OLD_CHART][..],
            Layer::Provenance => &[PROVENANCE],
        };
        let found: Vec<&Descriptor> =
            manifest.layers.iter().filter(|l| wanted.contains(&l.media_type.as_str())).collect();
        let config = manifest.config.as_ref().filter(|c| c.media_type == CONFIG);
        // The manifest itself counts.
        let count = 1 + usize::from(config.is_some()) + found.len();
        if count < 2 {
            return fail(format!(
                "manifest does not contain minimum number of descriptors (2), descriptors found: {count}"
            ));
        }
        for layer in found.iter().filter(|l| l.media_type == OLD_CHART) {
            (self.messages.registry)(&format!("Warning: chart media type {} is deprecated\n", layer.media_type));
        }
        if config.is_none() {
            return fail(format!("could not load config with mediatype {CONFIG}"));
        }
        let Some(layer) = found.last() else {
            return fail(format!("manifest does not contain a layer with mediatype {}", wanted[0]));
        };
        let data = self.blob(&reference, layer)?;
        let told = reference.to_string();
        (self.messages.registry)(&format!("Pulled: {told}\nDigest: {digest}\n"));
        if told.contains('_') {
            (self.messages.registry)(&format!("{told} contains an underscore.\n{UNDERSCORE}"));
        }
        Ok(data)
    }

    fn blob(&self, reference: &Reference, wanted: &Descriptor) -> Result<Vec<u8>, SourceError> {
        let name = &wanted.digest;
        if wanted.size > ARCHIVE_LIMIT {
            return fail(format!("{name} has {} bytes, more than the maximum size {ARCHIVE_LIMIT}", wanted.size));
        }
        let Some(sum) = name.strip_prefix("sha256:") else {
            return fail(format!("{name}: this digest is not supported; only sha256 is"));
        };
        let link = self.link(reference, &format!("blobs/{name}"));
        let data = self
            .ask(reference, "GET", &link, None, ARCHIVE_LIMIT)
            .map_err(|e| SourceError(format!("failed to perform \"Fetch\" on source: {e}")))?;
        if data.body.len() as u64 != wanted.size {
            return fail(format!("failed to perform \"Fetch\" on source: GET \"{link}\": mismatch Content-Length"));
        }
        if sha256(&data.body) != sum {
            return fail("failed to perform \"Push\" on destination: mismatched digest");
        }
        Ok(data.body)
    }

    /// The digest of a tag.
    fn digest_of(&self, reference: &Reference) -> Result<String, SourceError> {
        let link = self.link(reference, &format!("manifests/{}", reference.name()));
        let answer = self.ask(reference, "HEAD", &link, Some(MANIFESTS), SMALL_LIMIT)?;
        match answer.header("docker-content-digest") {
            "" => fail("HTTP HEAD request missing required header \"Docker-Content-Digest\""),
            digest => Ok(digest.to_owned()),
        }
    }

    fn link(&self, reference: &Reference, rest: &str) -> String {
        let scheme = if self.options.plain_http { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}/{rest}", reference.host(), reference.repository)
    }

    /// Asks a registry, with credentials as soon as it wants some; an answer other than 200 is an error.
    fn ask(
        &self,
        reference: &Reference,
        method: &str,
        link: &str,
        accept: Option<&str>,
        limit: u64,
    ) -> Result<Response, SourceError> {
        let mut tokens = self.tokens.borrow_mut();
        let credential = || self.credential(reference.host());
        let answer = tokens.send(self.client()?, reference.host(), (method, link), accept, limit, &credential)?;
        match answer.status {
            200 => Ok(answer),
            404 if !link.ends_with("tags/list") => {
                let name = link.rsplit('/').next().unwrap_or_default();
                let what = if link.contains("/manifests/") { reference.to_string() } else { name.to_owned() };
                fail(format!("{what}: not found"))
            }
            _ => Err(refusal(method, &answer)),
        }
    }

    fn credential(&self, host: &str) -> Result<Credential, SourceError> {
        if self.options.login.basic().is_some() {
            return Ok(Credential { login: self.options.login.clone(), ..Credential::default() });
        }
        credentials::find(&self.options.config, host)
    }
}

/// The first of the tags, which are sorted, that is this version or fits this constraint.
fn matching(tags: &[String], version: &str) -> Result<String, SourceError> {
    if let Some(same) = tags.iter().find(|tag| *tag == version) {
        return Ok(same.clone());
    }
    let constraint =
        Constraints::parse(if version.is_empty() { "*" } else { version }).map_err(|e| SourceError(e.to_string()))?;
    let fits = |tag: &&String| Version::parse(tag).is_ok_and(|v| constraint.check(&v));
    tags.iter()
        .find(fits)
        .cloned()
        .ok_or_else(|| SourceError(format!("could not locate a version matching provided version string {version}")))
}

/// The link of the next page of tags, which must stay with the registry.
fn next_page(answer: &Response) -> Result<Option<String>, SourceError> {
    let header = answer.header("link");
    let Some(rest) = header.strip_prefix('<') else { return Ok(None) };
    let next = rest.split('>').next().unwrap_or_default();
    let base = fluent_uri::Uri::parse(answer.link.as_str()).ok();
    let next = fluent_uri::UriRef::parse(next).ok().zip(base).and_then(|(n, b)| n.resolve_against(&b).ok());
    match next.map(fluent_uri::Uri::into_string) {
        Some(next) if super::link::same_origin(&next, &answer.link) => Ok(Some(next)),
        _ => fail(format!("invalid next link {header:?}: not the same origin as {:?}", shown(&answer.link))),
    }
}

/// An answer other than the wanted one, with what the registry says of it.
fn refusal(method: &str, answer: &Response) -> SourceError {
    let errors = serde_json::from_slice::<Value>(&answer.body).ok();
    let errors = errors.as_ref().and_then(|e| e.get("errors")).and_then(Value::as_array);
    let mut texts: Vec<String> = errors.map(|all| all.iter().map(one_refusal).collect()).unwrap_or_default();
    if texts.is_empty() {
        texts.push(reason(answer.status).to_owned());
    }
    let (link, status) = (shown(&answer.link), answer.status);
    SourceError(format!("{method} \"{link}\": response status code {status}: {}", texts.join("; ")))
}

fn one_refusal(error: &Value) -> String {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut out = text("code").replace('_', " ").to_lowercase();
    if !text("message").is_empty() {
        out = format!("{out}: {}", text("message"));
        if let Some(detail) = error.get("detail").filter(|d| !d.is_null()) {
            out = format!("{out}: {}", go_value(detail));
        }
    }
    out
}

/// A value as Go's `%v` prints it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(entries) => {
            let mut entries: Vec<String> = entries.iter().map(|(k, v)| format!("{k}:{}", go_value(v))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
