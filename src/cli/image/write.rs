//! Files of images.

use super::for_here;
use crate::chart::go_io;
use crate::cli::common::error::CliError;
use crate::image::archive;
use crate::image::{ImageError, Images};
use std::path::{Path, PathBuf};

/// A format of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ImageFormat {
    // A directory, the OCI image layout.
    Oci,
    // The same as a tar archive.
    OciArchive,
    // The format that `docker load` reads.
    DockerArchive,
}

impl ImageFormat {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oci => "oci",
            Self::OciArchive => "oci-archive",
            Self::DockerArchive => "docker-archive",
        }
    }
}

/// Writes an image. An existing file is replaced when the new one is complete.
pub fn write(images: &Images, path: &Path, format: ImageFormat, epoch: u64) -> Result<(), CliError> {
    match format {
        ImageFormat::Oci => directory(images, path),
        ImageFormat::OciArchive => file(path, &archive::oci_archive(images, epoch)?),
        ImageFormat::DockerArchive => {
            let [image] = images.images.as_slice() else {
                return Err(ImageError("docker-archive holds one platform: use oci or oci-archive".into()).into());
            };
            file(path, &archive::docker_archive(images, image, epoch)?)
        }
    }
}

/// The archive of an image for this machine, which `docker load` reads.
pub fn docker_archive(images: &Images, epoch: u64) -> Result<Vec<u8>, CliError> {
    Ok(archive::docker_archive(images, for_here(images)?, epoch)?)
}

/// Writes a file, so that a reader sees all of it or the earlier content.
pub fn file(path: &Path, data: &[u8]) -> Result<(), CliError> {
    let failed = |e: std::io::Error| CliError(format!("write {}: {}", path.display(), go_io(&e)));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    std::fs::write(&new, data).map_err(failed)?;
    std::fs::rename(&new, path).inspect_err(|_| drop(std::fs::remove_file(&new))).map_err(failed)
}

fn directory(images: &Images, path: &Path) -> Result<(), CliError> {
    let failed = |e: std::io::Error| CliError(format!("write {}: {}", path.display(), go_io(&e)));
    let is_ours = path.join("oci-layout").is_file();
    if path.exists() && !is_ours && std::fs::read_dir(path).map_err(failed)?.next().is_some() {
        return Err(CliError(format!("{} is not empty, and no OCI layout: name another", path.display())));
    }
    let files = archive::layout(images);
    // Files that refer to blobs come after them.
    let (last, blobs): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| !name.starts_with("blobs/"));
    for (name, data) in blobs.into_iter().chain(last.into_iter().rev()) {
        let at = path.join(name);
        std::fs::create_dir_all(at.parent().unwrap_or(path)).map_err(failed)?;
        file(&at, data)?;
    }
    Ok(())
}

/// A directory that is removed when it is no longer needed.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A new one, which only its owner can read.
    pub fn new() -> Result<Self, CliError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| CliError(e.to_string()))?;
        let path = std::env::temp_dir().join(format!("tillerman-image-{:016x}", u64::from_ne_bytes(random)));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| CliError(format!("mkdir {}: {}", path.display(), go_io(&e))))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is in the folder for temporary files: if it cannot be removed now, the system will do so.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
