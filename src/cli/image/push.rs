//! Pushes an image, and shows on a terminal how far it is.

use super::size;
use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::signing::Signing;
use crate::cli::common::streams::ON_ERROR;
use crate::image::{Image, Images, archive};
use crate::source::SourceSettings;
use crate::source::registry::push::Pushed;
use crate::source::registry::{Reference, Registry};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

/// Pushes all blobs, then what refers to them, then the tag, and last what is attached: the list of contents and, with a key, the signature.
/// Returns what to say of it.
pub fn push(
    images: &Images,
    server: &ServerArgs,
    config: Option<&Path>,
    is_new: bool,
    signing: Option<&Signing>,
) -> Result<String, CliError> {
    let mut settings = SourceSettings::from_env();
    if let Some(config) = config {
        config.clone_into(&mut settings.registry_config);
    }
    let login = server.login()?;
    let registry = server.registry(&settings, &login, ON_ERROR)?;
    let name = &images.name;
    let reference = Reference {
        registry: name.registry.clone(),
        repository: name.repository.clone(),
        tag: name.tag.clone(),
        digest: String::new(),
    };
    let top = images.top();
    if is_new {
        registry.refuse_other(&reference, &top.digest)?;
    }
    let mut count = Count { registry: &registry, reference: &reference, uploaded: 0, bytes: 0, all: 0 };
    let is_manifest =
        |media_type: &str| media_type.contains(".image.manifest.") || media_type.contains(".image.index.");
    let mut seen = BTreeSet::new();
    for blob in archive::blobs(images) {
        if blob.digest != top.digest && seen.insert(blob.digest.as_str()) {
            if is_manifest(blob.media_type) {
                registry.push_manifest(&reference, &blob.digest, blob.media_type, &blob.data)?;
            } else {
                count.push(&blob.data)?;
            }
        }
    }
    registry.push_manifest(&reference, &name.tag, top.media_type, &top.data)?;
    let signed = signing.map(|signing| signing.key.attached(top, signing.provenance.as_ref())).unwrap_or_default();
    for (manifest, blobs) in images.images.iter().map(Image::attached_sbom).chain(signed) {
        for blob in &blobs {
            count.push(&blob.data)?;
        }
        registry.push_referrer(&reference, manifest.media_type, &manifest.data)?;
    }
    Ok(format!("pushed {} of {} blobs, {}\n", count.uploaded, count.all, size(count.bytes)))
}

struct Count<'a> {
    registry: &'a Registry<'a>,
    reference: &'a Reference,
    uploaded: usize,
    bytes: usize,
    all: usize,
}

impl Count<'_> {
    fn push(&mut self, data: &[u8]) -> Result<(), CliError> {
        let progress = Progress::new(data.len());
        self.all += 1;
        let pushed = self.registry.push_blob(self.reference, data, &|sent| progress.show(sent))?;
        if pushed == Pushed::Uploaded {
            self.uploaded += 1;
            self.bytes += data.len();
        }
        Ok(())
    }
}

/// How much of an upload has left, on a terminal only.
struct Progress {
    total: usize,
    is_shown: bool,
    percent: Cell<Option<usize>>,
}

impl Progress {
    fn new(total: usize) -> Self {
        Self { total, is_shown: std::io::stderr().is_terminal(), percent: Cell::new(None) }
    }

    fn show(&self, sent: usize) {
        let percent = sent * 100 / self.total.max(1);
        if self.is_shown && self.percent.replace(Some(percent)) != Some(percent) {
            let mut out = std::io::stderr().lock();
            // The end of the line is cleared: a later text may be shorter.
            let _ = write!(out, "\r\x1b[Kpushing {} of {} ({percent} %)", size(sent), size(self.total));
            let _ = out.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.percent.get().is_some() && self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}
