//! `tillerman image`: makes a container image of an operator, and writes it, pushes it, or loads it into a cluster.

mod load;
mod push;
mod write;

use crate::cli::common::chart_server::ServerArgs;
use crate::cli::common::error::{CliError, FlagError};
use crate::cli::common::installable::installable;
use crate::cli::common::signing::{SigningArgs, read};
use crate::cli::common::streams::{print, print_error};
use crate::image::elf::{self, Platform};
use crate::image::name::ImageName;
use crate::image::{Blob, Contents, Image, ImageError, Images, Program, Recipe, authorities, build, project};
use crate::source::dependency::source_date_epoch;
use load::LoadTarget;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use write::ImageFormat;

/// The image, and where it goes.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
pub struct ImageArgs {
    /// The directory of the operator: watches.yaml, and the charts that it names.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The name of the image: [REGISTRY/]REPOSITORY[:TAG].
    #[arg(short, long, value_name = "NAME")]
    tag: String,
    /// An image of the program alone, for which a pod has the arguments.
    #[arg(long, conflicts_with = "directory")]
    bare: bool,
    /// With --bare: a chart, which is put into /charts/NAME; can be repeated.
    #[arg(long = "chart", value_name = "PATH", requires = "bare")]
    charts: Vec<PathBuf>,
    /// Write the image to a file or a directory.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The format of --output [default: oci-archive for a name that ends in .tar, else oci].
    #[arg(long, value_name = "FORMAT", requires = "output")]
    format: Option<ImageFormat>,
    /// Push the image to its registry, with an SPDX document of its content.
    #[arg(long)]
    push: bool,
    /// With --push: refuse a tag that the registry has with other content. What an interrupted push left out is pushed.
    #[arg(long, requires = "push")]
    new: bool,
    #[command(flatten)]
    signing: SigningArgs,
    /// Load the image: kind[:CLUSTER], containerd[:NAMESPACE], docker, podman, nerdctl[:NAMESPACE] or minikube[:PROFILE].
    #[arg(long, value_name = "INTO")]
    load: Option<LoadTarget>,
    /// The program, static and for Linux [default: this one]; repeated for each platform, they make an index.
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// Certificates in PEM that the image trusts besides Mozilla's list; can be repeated.
    #[arg(long, value_name = "FILE")]
    ca_certificates: Vec<PathBuf>,
    /// A label of the image as KEY=VALUE; can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Write the content as an SPDX document in JSON.
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    /// Write the digests as JSON, with the keys of `docker buildx build --metadata-file`.
    #[arg(long, value_name = "FILE")]
    metadata_file: Option<PathBuf>,
    /// Credentials for registries in Docker's format [default: those of `helm registry login`, then Docker's].
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// User name for the registry.
    #[arg(long, default_value = "", hide_default_value = true)]
    username: String,
    /// Read the password for the registry from standard input.
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// Certificates to trust for the registry instead of the system's.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    ca_file: String,
    /// Trust any registry.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Speak http to the registry.
    #[arg(long)]
    plain_http: bool,
}

impl From<ImageError> for CliError {
    fn from(e: ImageError) -> Self {
        Self(e.0)
    }
}

/// A label of the command line.
fn label(text: &str) -> Result<(String, String), FlagError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !key.contains(|c: char| c.is_control() || c.is_whitespace()) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("it is not KEY=VALUE".into()),
    }
}

/// Makes the image, and handles it as the flags say.
pub fn run(args: &ImageArgs) -> Result<(), CliError> {
    let signing = args.signing.read()?;
    if signing.is_some() && !args.push {
        return Err(CliError::new("--sign-key signs what --push pushes: a signature is attached in the registry"));
    }
    let recipe = recipe(args)?;
    let images = build(&recipe)?;
    if let (Some(path), Some(format)) = (&args.output, format(args)) {
        // Before any output: the following steps may take long.
        write::write(&images, path, format, recipe.epoch)?;
    }
    if let Some(path) = &args.sbom {
        let [image] = images.images.as_slice() else {
            return Err(CliError::new("--sbom writes the document of one platform; --push attaches one to each"));
        };
        write::file(path, &image.sbom.data)?;
    }
    if let Some(path) = &args.metadata_file {
        write::file(path, metadata(&images).to_string().as_bytes())?;
    }
    print(&summary(&images));
    if let (Some(path), Some(format)) = (&args.output, format(args)) {
        print(&format!("written to {} ({})\n", path.display(), format.name()));
    }
    if args.push {
        let server = server(args);
        let config = args.registry_config.as_deref();
        print(&push::push(&images, &server, config, args.new, signing.as_ref()).map_err(with_hint)?);
    }
    if let Some(target) = &args.load {
        target.load(&images, recipe.epoch)?;
    }
    if args.output.is_none() && !args.push && args.load.is_none() {
        print_error("the image was not written: use --output, --push or --load\n");
    }
    Ok(())
}

/// Everything that the image depends on.
fn recipe(args: &ImageArgs) -> Result<Recipe, CliError> {
    let name = ImageName::parse(&args.tag)?;
    let contents = if args.bare {
        Contents::Bare(args.charts.iter().map(|path| project::read_chart(path)).collect::<Result<_, _>>()?)
    } else {
        let project = project::read(&args.directory)?;
        for warning in &project.warnings {
            print_error(&format!("warning: watches.yaml, {warning}\n"));
        }
        Contents::Project(project)
    };
    for placed in contents.charts() {
        installable(&placed.chart).map_err(|e| CliError(format!("chart {}: {e}", placed.at)))?;
    }
    let own = args.ca_certificates.iter().map(|path| Ok((path.display().to_string(), read(path)?)));
    let own = own.collect::<Result<Vec<_>, CliError>>()?;
    let authorities = authorities::pem(&own)?;
    Ok(Recipe {
        name,
        programs: programs(&args.programs)?,
        contents,
        authorities,
        labels: args.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
        epoch: source_date_epoch()?.unwrap_or_default(),
    })
}

/// The programs, or the one that runs.
fn programs(paths: &[PathBuf]) -> Result<Vec<Program>, CliError> {
    let load = |name: &str, path: &Path| {
        let data = read(path)?;
        Ok(Program { platform: elf::platform(name, &data)?, data })
    };
    if paths.is_empty() {
        let path = std::env::current_exe().map_err(|e| CliError(format!("this program's file is not known: {e}")))?;
        return Ok(vec![load("this program", &path)?]);
    }
    paths.iter().map(|path| load(&path.display().to_string(), path)).collect()
}

fn format(args: &ImageArgs) -> Option<ImageFormat> {
    let path = args.output.as_ref()?;
    let by_name = if path.extension().is_some_and(|e| e == "tar") { ImageFormat::OciArchive } else { ImageFormat::Oci };
    Some(args.format.unwrap_or(by_name))
}

fn server(args: &ImageArgs) -> ServerArgs {
    ServerArgs {
        username: args.username.clone(),
        password_stdin: args.password_stdin,
        ca_file: args.ca_file.clone(),
        insecure_skip_tls_verify: args.insecure_skip_tls_verify,
        plain_http: args.plain_http,
        ..ServerArgs::default()
    }
}

/// The reference with the digest, and for each platform the bytes that a pull transfers.
fn summary(images: &Images) -> String {
    let mut text = format!("{}\n", images.reference());
    for image in &images.images {
        let parts: Vec<String> = image.layers.iter().map(|layer| size(layer.blob.data.len())).collect();
        let parts = match parts.as_slice() {
            [program, charts] => format!("program {program}, charts {charts}"),
            _ => format!("program {}", parts.join(" ")),
        };
        let _ = writeln!(text, "{}: {} ({parts})", image.platform, size(image.size()));
    }
    text
}

/// The image for this machine, or the only one.
fn for_here(images: &Images) -> Result<&Image, CliError> {
    if let [image] = images.images.as_slice() {
        return Ok(image);
    }
    let here = Platform::here();
    let fits = images.images.iter().find(|image| here.as_ref() == Some(&image.platform));
    fits.ok_or_else(|| CliError::new("no --program is for this machine"))
}

/// A number of bytes for people.
fn size(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut unit, mut scale) = (0, 1);
    while bytes / scale >= 1024 && unit + 1 < UNITS.len() {
        unit += 1;
        scale *= 1024;
    }
    if unit == 0 {
        return format!("{bytes} B");
    }
    let tenths = bytes * 10 / scale;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

fn metadata(images: &Images) -> serde_json::Value {
    let mut descriptor = images.top().descriptor();
    let mut metadata = json!({"image.name": images.name.to_string(), "containerimage.digest": images.top().digest});
    if let [Image { config: Blob { digest, .. }, platform, .. }] = images.images.as_slice() {
        metadata["containerimage.config.digest"] = digest.as_str().into();
        descriptor["platform"] = platform.json();
    }
    metadata["containerimage.descriptor"] = descriptor;
    metadata
}

/// Helm's sentence does not say what to do.
fn with_hint(error: CliError) -> CliError {
    if error.0.ends_with("server gave HTTP response to HTTPS client") {
        return CliError(format!("{}: a registry without TLS needs --plain-http", error.0));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::{label, size};

    #[test]
    fn sizes_have_one_decimal() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_600_000, "1.5 MiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn labels_are_split_at_the_first_equals_sign() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(label("a="), Ok(("a".into(), String::new())));
        assert!(label("a").is_err() && label("=a").is_err() && label("a b=c").is_err());
    }
}
