//! Loads an image with the programs that do so: each gets an archive.

use super::write::{Scratch, docker_archive, file};
use crate::cli::common::error::{CliError, FlagError};
use crate::cli::common::streams::print_error;
use crate::image::Images;
use crate::image::archive::oci_archive;
use std::process::Command;

/// A program that loads images.
struct Loader {
    name: &'static str,
    program: &'static str,
    /// Whether it reads archives of OCI, and keeps the digest of the image. Others get what `docker load` reads.
    reads_oci: bool,
    /// Its arguments before the name that the user gives, for the name, and after it; `FILE` is replaced by the
    /// archive.
    before: &'static [&'static str],
    flag: &'static str,
    /// The name, when none is given; without one, the flag is left out.
    default: Option<&'static str>,
    behind: &'static [&'static str],
}

const LOADERS: &[Loader] = &[
    Loader {
        name: "kind",
        program: "kind",
        // It hands the archive to the containerd of its nodes.
        reads_oci: true,
        before: &["load", "image-archive", "FILE"],
        flag: "--name",
        default: None,
        behind: &[],
    },
    // The namespace is that of the kubelet's images.
    Loader {
        name: "containerd",
        program: "ctr",
        reads_oci: true,
        before: &[],
        flag: "--namespace",
        default: Some("k8s.io"),
        behind: &["images", "import", "FILE"],
    },
    Loader {
        name: "docker",
        program: "docker",
        reads_oci: false,
        before: &[],
        flag: "--context",
        default: None,
        behind: &["load", "--input", "FILE"],
    },
    Loader {
        name: "podman",
        program: "podman",
        reads_oci: false,
        before: &[],
        flag: "--connection",
        default: None,
        behind: &["load", "--input", "FILE"],
    },
    Loader {
        name: "nerdctl",
        program: "nerdctl",
        reads_oci: true,
        before: &[],
        flag: "--namespace",
        default: Some("k8s.io"),
        behind: &["load", "--input", "FILE"],
    },
    Loader {
        name: "minikube",
        program: "minikube",
        reads_oci: false,
        before: &["image", "load", "FILE"],
        flag: "--profile",
        default: None,
        behind: &[],
    },
];

/// A loader, and which of its clusters or namespaces is meant.
#[derive(Clone)]
pub struct LoadTarget {
    loader: &'static Loader,
    name: Option<String>,
}

impl std::fmt::Debug for LoadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.loader.name)
    }
}

impl std::str::FromStr for LoadTarget {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let Some(loader) = LOADERS.iter().find(|loader| loader.name == kind) else {
            let names: Vec<&str> = LOADERS.iter().map(|loader| loader.name).collect();
            return Err(format!("it must be one of {}", names.join(", ")).into());
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match name {
            Some(name) if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) => {
                Err("the name after : has letters, digits, -, _ and .".into())
            }
            name => Ok(Self { loader, name: name.map(str::to_owned) }),
        }
    }
}

impl LoadTarget {
    /// The arguments of the program that load a file.
    fn arguments(&self, file: &str) -> Vec<String> {
        let name = self.name.as_deref().or(self.loader.default);
        let flag = name.into_iter().flat_map(|name| [self.loader.flag, name]);
        let all = self.loader.before.iter().copied().chain(flag).chain(self.loader.behind.iter().copied());
        all.map(|argument| if argument == "FILE" { file } else { argument }.to_owned()).collect()
    }

    /// Loads an image, and shows the command.
    ///
    /// # Errors
    /// If the program is missing or fails.
    pub fn load(&self, images: &Images, epoch: u64) -> Result<(), CliError> {
        let program = self.loader.program;
        let scratch = Scratch::new()?;
        let path = scratch.0.join("image.tar");
        let data = if self.loader.reads_oci { oci_archive(images, epoch)? } else { docker_archive(images, epoch)? };
        file(&path, &data)?;
        let arguments = self.arguments(&path.display().to_string());
        print_error(&format!("running {program} {}\n", arguments.join(" ")));
        let status = Command::new(program).args(&arguments).status().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => CliError(format!(
                "--load {} needs the program {program}, which is not in PATH; --output FILE.tar writes an archive",
                self.loader.name
            )),
            _ => CliError(format!("{program}: {e}")),
        })?;
        if status.success() { Ok(()) } else { Err(CliError(format!("{program} failed: {status}"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::LoadTarget;

    #[test]
    fn each_loader_has_its_command() {
        let command = |text: &str| text.parse::<LoadTarget>().unwrap().arguments("x.tar").join(" ");
        assert_eq!(command("kind"), "load image-archive x.tar");
        assert_eq!(command("kind:dev"), "load image-archive x.tar --name dev");
        assert_eq!(command("containerd"), "--namespace k8s.io images import x.tar");
        assert_eq!(command("containerd:tests"), "--namespace tests images import x.tar");
        assert_eq!(command("docker"), "load --input x.tar");
        assert_eq!(command("minikube:a"), "image load x.tar --profile a");
    }

    #[test]
    fn a_target_that_is_none_is_refused() {
        let message = |text: &str| text.parse::<LoadTarget>().unwrap_err().0;
        assert_eq!(message("k3s"), "it must be one of kind, containerd, docker, podman, nerdctl, minikube");
        for text in ["kind:", "kind:--all", "kind:a b"] {
            assert!(message(text).starts_with("the name after"));
        }
    }
}
