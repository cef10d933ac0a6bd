//! Pushes blobs and manifests to a registry (OCI distribution specification 1.1).

use super::{Reference, Registry, refusal};
use crate::http::{Response, SMALL_LIMIT};
use crate::link::{same_origin, shown};
use crate::{SourceError, fail, sha256};
use serde_json::{Value, json};
use std::time::Duration;

const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// For a whole upload: a layer of a hundred megabytes over a slow line.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The result for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It existed.
    Existed,
    /// It is there now.
    Uploaded,
}

/// A chart as a registry keeps it.
pub struct ChartArtifact<'a> {
    /// The manifest, which names all else by digests.
    pub manifest: Vec<u8>,
    config: Vec<u8>,
    archive: &'a [u8],
    provenance: Option<&'a [u8]>,
}

impl<'a> ChartArtifact<'a> {
    /// Of an archive, and of its provenance file if there is one. `metadata` is the chart's, in JSON. The same input makes the same bytes.
    pub fn new(metadata: &Value, archive: &'a [u8], provenance: Option<&'a [u8]>) -> Self {
        let descriptor = |media_type: &str, data: &[u8]| json!({"mediaType": media_type, "digest": format!("sha256:{}", sha256(data)), "size": data.len()});
        let config = metadata.to_string().into_bytes();
        let mut layers = vec![descriptor(super::CHART, archive)];
        layers.extend(provenance.map(|data| descriptor(super::PROVENANCE, data)));
        let mut annotations = metadata["annotations"].as_object().cloned().unwrap_or_default();
        for (name, value) in [
            ("title", &metadata["name"]),
            ("version", &metadata["version"]),
            ("description", &metadata["description"]),
            ("url", &metadata["home"]),
            ("source", &metadata["sources"][0]),
        ] {
            if value.as_str().is_some_and(|text| !text.is_empty()) {
                annotations.insert(format!("org.opencontainers.image.{name}"), value.clone());
            }
        }
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(super::CONFIG, &config),
            "layers": layers, "annotations": annotations});
        Self { manifest: manifest.to_string().into_bytes(), config, archive, provenance }
    }
}

impl Registry<'_> {
    /// Uploads a blob in one piece, unless the repository has it. `progress` hears how many bytes have left.
    ///
    /// # Errors
    /// If the registry refuses it.
    pub fn push_blob(
        &self,
        reference: &Reference,
        data: &[u8],
        progress: &dyn Fn(usize),
    ) -> Result<Pushed, SourceError> {
        let digest = format!("sha256:{}", sha256(data));
        let link = self.link(reference, &format!("blobs/{digest}"));
        let answer = self.request(reference, "HEAD", &link, &[], None, &|_| {})?;
        match answer.status {
            200 => return Ok(Pushed::Existed),
            404 => {}
            _ => return Err(refusal("HEAD", &answer)),
        }
        let link = self.link(reference, "blobs/uploads/");
        let answer = self.request(reference, "POST", &link, &[], Some(&[]), &|_| {})?;
        if answer.status != 202 {
            return Err(refusal("POST", &answer));
        }
        let at = upload_link(&answer, &digest)?;
        let headers = [("content-type", "application/octet-stream")];
        let answer = self.request(reference, "PUT", &at, &headers, Some(data), progress)?;
        if answer.status != 201 {
            return Err(refusal("PUT", &answer));
        }
        Ok(Pushed::Uploaded)
    }

    /// Puts a manifest or an index under its digest or a tag. Returns whether the registry lists the referrers of its
    /// subject.
    ///
    /// # Errors
    /// If the registry refuses it, or stores it under another digest.
    pub fn push_manifest(
        &self,
        reference: &Reference,
        name: &str,
        media_type: &str,
        data: &[u8],
    ) -> Result<bool, SourceError> {
        let link = self.link(reference, &format!("manifests/{name}"));
        let answer = self.request(reference, "PUT", &link, &[("content-type", media_type)], Some(data), &|_| {})?;
        if answer.status != 201 {
            return Err(refusal("PUT", &answer));
        }
        let digest = format!("sha256:{}", sha256(data));
        match answer.header("docker-content-digest") {
            "" => {}
            stored if stored == digest => {}
            stored => {
                return fail(format!("PUT \"{}\": the registry stored {stored} instead of {digest}", shown(&link)));
            }
        }
        Ok(!answer.header("oci-subject").is_empty())
    }

    /// Makes sure that the tag of a reference leads to the manifest with this digest (`sha256:…`), or to nothing yet.
    ///
    /// # Errors
    /// If the tag has other content, or the registry does not say.
    pub fn refuse_other(&self, reference: &Reference, digest: &str) -> Result<(), SourceError> {
        let link = self.link(reference, &format!("manifests/{}", reference.name()));
        let answer = self.request(reference, "GET", &link, &[("accept", MANIFESTS)], None, &|_| {})?;
        match answer.status {
            404 => Ok(()),
            200 if format!("sha256:{}", sha256(&answer.body)) == digest => Ok(()),
            200 => fail(format!("{reference} is in the registry with other content, and is not replaced")),
            _ => Err(refusal("GET", &answer)),
        }
    }

    /// Pushes a chart under the tag of a reference, as `helm push` does.
    ///
    /// # Errors
    /// If the registry refuses it.
    pub fn push_chart(&self, reference: &Reference, chart: &ChartArtifact) -> Result<(), SourceError> {
        for blob in [Some(chart.config.as_slice()), Some(chart.archive), chart.provenance].into_iter().flatten() {
            self.push_blob(reference, blob, &|_| {})?;
        }
        self.push_manifest(reference, &reference.tag, MANIFEST, &chart.manifest)?;
        Ok(())
    }

    /// Puts a manifest that has a subject, and makes the subject lead to it: if the registry has no list of referrers
    /// of a manifest, by the tag that replaces such a list.
    ///
    /// # Errors
    /// As [`Registry::push_manifest`].
    pub fn push_referrer(&self, reference: &Reference, media_type: &str, data: &[u8]) -> Result<(), SourceError> {
        let digest = format!("sha256:{}", sha256(data));
        if self.push_manifest(reference, &digest, media_type, data)? {
            return Ok(());
        }
        let manifest: Value = serde_json::from_slice(data).map_err(|e| SourceError(e.to_string()))?;
        let subject = manifest.pointer("/subject/digest").and_then(Value::as_str).unwrap_or_default();
        let tag = subject.replace(':', "-");
        let link = self.link(reference, &format!("manifests/{tag}"));
        let answer = self.request(reference, "GET", &link, &[("accept", MANIFESTS)], None, &|_| {})?;
        let mut index = match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|e| SourceError(format!("GET \"{}\": failed to decode response: {e}", shown(&link))))?,
            404 => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
            _ => return Err(refusal("GET", &answer)),
        };
        let Some(list) = index.get_mut("manifests").and_then(Value::as_array_mut) else {
            return fail(format!("GET \"{}\": it is not an index", shown(&link)));
        };
        if list.iter().any(|entry| entry["digest"] == digest.as_str()) {
            return Ok(());
        }
        list.push(json!({
            "mediaType": media_type, "digest": digest, "size": data.len(), "artifactType": manifest["artifactType"],
        }));
        self.push_manifest(reference, &tag, INDEX, index.to_string().as_bytes()).map(|_| ())
    }

    /// Sends a request with credentials as soon as the registry wants some, to the registry and to no other server.
    fn request(
        &self,
        reference: &Reference,
        method: &str,
        link: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
        progress: &dyn Fn(usize),
    ) -> Result<Response, SourceError> {
        let client = self.client()?;
        let send = |authorization: Option<&str>| {
            let mut headers = headers.to_vec();
            headers.extend(authorization.map(|value| ("authorization", value)));
            match body {
                Some(body) => client.upload((method, link), &headers, body, progress, TIMEOUT),
                None => client.send(method, link, &headers, SMALL_LIMIT),
            }
        };
        if !same_origin(link, &self.link(reference, "")) {
            return send(None);
        }
        let credential = || self.credential(reference.host());
        self.tokens.borrow_mut().send_with(client, reference.host(), (method, link), &send, &credential)
    }
}

/// The place for a blob: the registry's answer, and the digest.
fn upload_link(answer: &Response, digest: &str) -> Result<String, SourceError> {
    let location = answer.header("location");
    let base = fluent_uri::Uri::parse(answer.link.as_str()).ok();
    let next = fluent_uri::UriRef::parse(location).ok().filter(|_| !location.is_empty()).zip(base);
    let next = next.and_then(|(next, base)| next.resolve_against(&base).ok()).map(fluent_uri::Uri::into_string);
    let Some(next) = next.filter(|next| !next.contains('#')) else {
        return fail(format!("POST \"{}\": it does not name a place for the upload", shown(&answer.link)));
    };
    if crate::link::scheme(&answer.link) == "https" && crate::link::scheme(&next) != "https" {
        return fail(format!("POST \"{}\": an upload over http is refused", shown(&answer.link)));
    }
    let separator = if next.contains('?') { '&' } else { '?' };
    Ok(format!("{next}{separator}digest={}", digest.replace(':', "%3A")))
}

#[cfg(test)]
mod tests {
    use super::upload_link;
    use crate::http::Response;
    use ureq::http::HeaderMap;

    #[test]
    fn an_upload_goes_where_the_registry_says_with_the_digest() {
        let link = |from: &str, location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("location", location.parse().unwrap());
            upload_link(&Response { status: 202, headers, body: Vec::new(), link: from.into() }, "sha256:ab")
        };
        let from = "https://a.b/v2/c/blobs/uploads/";
        assert_eq!(link(from, "/v2/c/blobs/uploads/1").unwrap(), "https://a.b/v2/c/blobs/uploads/1?digest=sha256%3Aab");
        assert_eq!(link(from, "https://c.d/1?_state=x").unwrap(), "https://c.d/1?_state=x&digest=sha256%3Aab");
        assert!(link(from, "http://a.b/1").unwrap_err().0.contains("over http is refused"));
        assert!(link(from, "").unwrap_err().0.contains("does not name a place"));
        assert!(link(from, "/1#x").is_err());
        assert!(link("http://a.b/v2/", "http://a.b/1").is_ok());
    }
}
