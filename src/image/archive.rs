//! Images in the formats of other programs: the layout of OCI, as a directory or an archive, and what `docker load` reads.

use super::layer::Tree;
use super::{Blob, Image, ImageError, Images};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The files of an OCI image layout (OCI image specification 1.1), by their paths.
pub fn layout(images: &Images) -> BTreeMap<String, Vec<u8>> {
    let mut descriptor = images.top().descriptor();
    if let (None, [image]) = (&images.index, images.images.as_slice()) {
        descriptor["platform"] = image.platform.json();
    }
    // The first is read by skopeo and podman, the second by containerd.
    descriptor["annotations"] = json!({
        "org.opencontainers.image.ref.name": images.name.tag,
        "io.containerd.image.name": images.name.to_string(),
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor],
    });
    let mut files = BTreeMap::from([
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index.to_string().into_bytes()),
    ]);
    for blob in blobs(images) {
        files.entry(format!("blobs/sha256/{}", blob.hex())).or_insert_with(|| blob.data.clone());
    }
    files
}

/// All blobs that the name of an image leads to, what refers to others behind them.
pub fn blobs(images: &Images) -> Vec<&Blob> {
    let mut found: Vec<&Blob> = Vec::new();
    for image in &images.images {
        found.extend(image.layers.iter().map(|layer| &layer.blob));
        found.extend([&image.config, &image.manifest]);
    }
    found.extend(images.index.as_ref());
    found
}

/// The layout as a tar archive, which skopeo and podman call `oci-archive`.
///
/// # Errors
/// If a name is too long for an archive.
pub fn oci_archive(images: &Images, epoch: u64) -> Result<Vec<u8>, ImageError> {
    tar(layout(images), epoch)
}

/// The format that `docker save` writes and `docker load` reads, for one platform.
///
/// # Errors
/// If a name is too long for an archive.
pub fn docker_archive(images: &Images, image: &Image, epoch: u64) -> Result<Vec<u8>, ImageError> {
    let mut files = BTreeMap::new();
    let mut names = Vec::new();
    for layer in &image.layers {
        let name = format!("{}.tar", layer.diff_id.trim_start_matches("sha256:"));
        let tar = layer.tar().map_err(|e| ImageError(e.to_string()))?;
        files.insert(name.clone(), tar);
        names.push(name);
    }
    let config = format!("{}.json", image.config.hex());
    let name = &images.name;
    let manifest = json!([{"Config": config, "RepoTags": [name.to_string()], "Layers": names}]);
    let top = names.last().and_then(|name| name.strip_suffix(".tar")).unwrap_or_default();
    let repository = format!("{}/{}", name.registry, name.repository);
    let repositories: Value = json!({repository: {name.tag.as_str(): top}});
    files.insert(config, image.config.data.clone());
    files.insert("manifest.json".to_owned(), manifest.to_string().into_bytes());
    files.insert("repositories".to_owned(), repositories.to_string().into_bytes());
    tar(files, epoch)
}

fn tar(files: BTreeMap<String, Vec<u8>>, epoch: u64) -> Result<Vec<u8>, ImageError> {
    let mut tree = Tree::default();
    for (path, data) in files {
        tree.file(&path, data, 0o644)?;
    }
    tree.tar(epoch).map_err(|e| ImageError(e.to_string()))
}
