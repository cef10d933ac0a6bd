//! Container images of an operator: its program, its charts and the authorities that it trusts, without Docker.
//!
//! In reading order: [`name`] is what an image is called; [`elf`] reads for which machines a program is; [`authorities`] are the
//! certificates; [`project`] reads the content that a project serves, and is the only one that reads files; [`layer`]
//! makes archives of files; [`sbom`] lists the content; [`build`] makes the [`Images`] of all parts; [`archive`]
//! writes them in the formats of other programs. `source::registry` pushes them.
//!
//! **Guarantees.** The same inputs make the same bytes: no clock, no randomness, no owner, time, mode or order of the file system has an
//! influence. Nothing that lies outside of a project's directory comes into an image.

pub mod archive;
pub mod authorities;
pub mod elf;
pub mod layer;
pub mod name;
pub mod project;
pub mod sbom;
pub mod signature;

use elf::Platform;
use layer::{Layer, Tree};
use name::ImageName;
use project::{PlacedChart, Project};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The types of what images consist of (OCI image specification 1.1).
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The empty config of an artifact.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The type of SPDX documents in JSON.
const SPDX: &str = "application/spdx+json";

/// Where the program lies in an image.
const PROGRAM: &str = "usr/local/bin/tillerman";
/// Where a project lies in an image, as in those of operator-sdk.
pub const HOME: &str = "/opt/helm";
/// Where the charts of an image without a project lie.
pub const CHARTS: &str = "/charts";
/// Our own licence.
const LICENSE: &str = include_str!("../../LICENSE");

/// Why there is no image.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ImageError(pub String);

fn fail<T>(text: impl Into<String>) -> Result<T, ImageError> {
    Err(ImageError(text.into()))
}

/// Some bytes with a type and a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its media type.
    pub media_type: &'static str,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Blob {
    /// Bytes of this type.
    pub fn new(media_type: &'static str, data: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&data), data }
    }

    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    /// How others refer to it.
    pub fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.data.len()})
    }

    /// The digest without its algorithm.
    pub fn hex(&self) -> &str {
        self.digest.split_once(':').map_or("", |(_, hex)| hex)
    }
}

/// The manifest of an image or of another artifact.
pub fn manifest(data: Vec<u8>) -> Blob {
    Blob::new(MANIFEST, data)
}

/// The digest of some bytes, with its algorithm.
fn digest(data: &[u8]) -> String {
    format!("sha256:{}", data_encoding::HEXLOWER.encode(&Sha256::digest(data)))
}

/// A program for one platform.
#[derive(Clone, Debug)]
pub struct Program {
    /// The machines that run it.
    pub platform: Platform,
    /// The file.
    pub data: Vec<u8>,
}

/// The platform of an image.
#[derive(Clone, Debug)]
pub enum Contents {
    /// The operator of a project, as `deploy/Dockerfile`'s `helm-operator`.
    Project(Project),
    /// The program alone, as `deploy/Dockerfile`'s `tillerman`, with charts in `/charts`.
    Bare(Vec<PlacedChart>),
}

impl Contents {
    pub fn charts(&self) -> &[PlacedChart] {
        match self {
            Self::Project(project) => &project.charts,
            Self::Bare(charts) => charts,
        }
    }
}

/// Everything that has an influence on an image.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: ImageName,
    /// A program for each platform.
    pub programs: Vec<Program>,
    /// Its further content.
    pub contents: Contents,
    /// The certificates of the authorities to trust, as PEM.
    pub authorities: String,
    /// Labels, which win over those that follow from the contents.
    pub labels: BTreeMap<String, String>,
    /// The time of all files and of the image, in seconds since 1970.
    pub epoch: u64,
}

/// An image of one platform.
#[derive(Clone, Debug)]
pub struct Image {
    /// The machines that run it.
    pub platform: Platform,
    /// How containers are made of it.
    pub config: Blob,
    /// Its files. The program's layer is the first.
    pub layers: Vec<Arc<Layer>>,
    /// Its parts.
    pub manifest: Blob,
    /// The content, as an SPDX document.
    pub sbom: Blob,
}

impl Image {
    /// The bytes that a pull of it transfers.
    pub fn size(&self) -> usize {
        let layers: usize = self.layers.iter().map(|layer| layer.blob.data.len()).sum();
        layers + self.config.data.len() + self.manifest.data.len()
    }

    /// A manifest that attaches the SPDX document to the image, and the blobs that it consists of.
    pub fn attached_sbom(&self) -> (Blob, Vec<Blob>) {
        let empty = Blob::new(EMPTY, b"{}".to_vec());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": SPDX,
            "config": empty.descriptor(),
            "layers": [self.sbom.descriptor()],
            "subject": self.manifest.descriptor(),
        });
        (Blob::json(MANIFEST, &manifest), vec![empty, self.sbom.clone()])
    }
}

/// An image for one platform or more.
#[derive(Clone, Debug)]
pub struct Images {
    pub name: ImageName,
    /// One for each platform, in the order of their names.
    pub images: Vec<Image>,
    /// The index that joins them, if there are several.
    pub index: Option<Blob>,
}

impl Images {
    /// The target of the name: the index, or the only manifest.
    pub fn top(&self) -> &Blob {
        self.index.as_ref().unwrap_or(&self.images[0].manifest)
    }

    /// The reference with the tag and the digest.
    pub fn reference(&self) -> String {
        format!("{}@{}", self.name, self.top().digest)
    }
}

/// Makes an image.
///
/// # Errors
/// If two programs are for the same platform, there is none, or a name of a file cannot be in an image.
pub fn build(recipe: &Recipe) -> Result<Images, ImageError> {
    let mut programs: Vec<&Program> = recipe.programs.iter().collect();
    programs.sort_by(|a, b| a.platform.cmp(&b.platform));
    if let Some(twice) = programs.windows(2).find(|two| two[0].platform == two[1].platform) {
        return fail(format!("two programs are for {}: one for each platform makes an image", twice[0].platform));
    }
    if programs.is_empty() {
        return fail("an image needs a program");
    }
    let charts = recipe.contents.charts();
    let base = if matches!(recipe.contents, Contents::Project(_)) { HOME } else { CHARTS };
    let listed = |placed: &PlacedChart| sbom::charts(&placed.chart, &format!("{base}/{}", placed.at));
    let charts_sbom: Vec<sbom::Package> = charts.iter().flat_map(listed).collect();
    // A chart's change is a layer of its own, which all platforms share.
    let own = own_layer(recipe, (base, charts), &charts_sbom)?;
    let images = programs.iter().map(|program| image(recipe, program, own.as_ref(), &charts_sbom));
    let images = images.collect::<Result<Vec<_>, _>>()?;
    let index = (images.len() > 1).then(|| {
        let with_platform = |image: &Image| {
            let mut descriptor = image.manifest.descriptor();
            descriptor["platform"] = image.platform.json();
            descriptor
        };
        let manifests: Vec<Value> = images.iter().map(with_platform).collect();
        Blob::json(INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    });
    Ok(Images { name: recipe.name.clone(), images, index })
}

fn image(
    recipe: &Recipe,
    program: &Program,
    own: Option<&Arc<Layer>>,
    charts: &[sbom::Package],
) -> Result<Image, ImageError> {
    let packages = sbom::program(&program.data, &program.platform);
    let version = packages.first().map(|package| package.version.clone()).unwrap_or_default();
    let base = Arc::new(base_layer(recipe, program, &packages)?);
    let mut layers = vec![(base, "program, authorities and users")];
    layers.extend(own.map(|layer| (layer.clone(), "charts")));
    let config = config(recipe, &program.platform, &layers, &labels(recipe, &version));
    let layers: Vec<Arc<Layer>> = layers.into_iter().map(|(layer, _)| layer).collect();
    let config = Blob::json(CONFIG, &config);
    let descriptors: Vec<Value> = layers.iter().map(|layer| layer.blob.descriptor()).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor(), "layers": descriptors,
    });
    let all: Vec<sbom::Package> = packages.iter().chain(charts).cloned().collect();
    let sbom = Blob::new(SPDX, sbom::document(&recipe.name.repository, &all, recipe.epoch));
    let manifest = Blob::json(MANIFEST, &manifest);
    Ok(Image { platform: program.platform.clone(), config, layers, manifest, sbom })
}

/// The layer that changes with Tillerman's version.
fn base_layer(recipe: &Recipe, program: &Program, packages: &[sbom::Package]) -> Result<Layer, ImageError> {
    let mut tree = Tree::default();
    tree.file(PROGRAM, program.data.clone(), 0o755)?;
    tree.file("etc/ssl/certs/ca-certificates.crt", recipe.authorities.clone().into_bytes(), 0o644)?;
    let user = match recipe.contents {
        Contents::Project(_) => format!("helm:x:1001:0:helm:{HOME}:/sbin/nologin\n"),
        Contents::Bare(_) => "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n".to_owned(),
    };
    let users =
        format!("root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n{user}");
    tree.file("etc/passwd", users.into_bytes(), 0o644)?;
    let groups = "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n";
    tree.file("etc/group", groups.into(), 0o644)?;
    tree.directory("tmp", 0o1777, (0, 0))?;
    tree.file("licenses/tillerman/LICENSE", LICENSE.into(), 0o644)?;
    tree.file("usr/share/sbom/tillerman.spdx.json", sbom::document("tillerman", packages, recipe.epoch), 0o644)?;
    match recipe.contents {
        Contents::Project(_) => tree.link("usr/local/bin/helm-operator", "tillerman")?,
        Contents::Bare(_) => tree.directory("home/nonroot", 0o700, (65532, 65532))?,
    }
    tree.layer(recipe.epoch)
}

/// The layer that changes with the charts, if there are some.
fn own_layer(
    recipe: &Recipe,
    (base, charts): (&str, &[PlacedChart]),
    packages: &[sbom::Package],
) -> Result<Option<Arc<Layer>>, ImageError> {
    let mut tree = Tree::default();
    match &recipe.contents {
        Contents::Project(project) => {
            // Of the user and, as OpenShift runs pods with a number of its own, of the group root.
            tree.directory(&HOME[1..], 0o775, (1001, 0))?;
            for (name, data) in &project.files {
                tree.file(&format!("{}/{name}", &HOME[1..]), data.clone(), 0o644)?;
            }
            for (name, data) in &project.licences {
                tree.file(&format!("licenses/project/{name}"), data.clone(), 0o644)?;
            }
        }
        Contents::Bare(charts) if charts.is_empty() => return Ok(None),
        Contents::Bare(_) => {}
    }
    for (name, data) in charts.iter().flat_map(|chart| &chart.files) {
        tree.file(&format!("{}/{name}", &base[1..]), data.clone(), 0o644)?;
    }
    let sbom = sbom::document("charts", packages, recipe.epoch);
    tree.file("usr/share/sbom/charts.spdx.json", sbom, 0o644)?;
    Ok(Some(Arc::new(tree.layer(recipe.epoch)?)))
}

fn config(
    recipe: &Recipe,
    platform: &Platform,
    layers: &[(Arc<Layer>, &str)],
    labels: &BTreeMap<String, String>,
) -> Value {
    let created = time(recipe.epoch);
    let mut env = vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt".to_owned(),
    ];
    let (user, folder, entrypoint) = match recipe.contents {
        Contents::Project(_) => {
            env.extend([format!("HOME={HOME}"), "USER_NAME=helm".to_owned(), "USER_UID=1001".to_owned()]);
            ("1001", HOME, json!([format!("/{PROGRAM}"), "run", "--watches-file=./watches.yaml"]))
        }
        Contents::Bare(_) => ("65532", "/", json!([format!("/{PROGRAM}")])),
    };
    let diff_ids: Vec<&str> = layers.iter().map(|(layer, _)| layer.diff_id.as_str()).collect();
    let history =
        layers.iter().map(|(_, what)| json!({"created": created, "created_by": format!("tillerman image: {what}")}));
    let history: Vec<Value> = history.collect();
    let mut config: Map<String, Value> = Map::new();
    config.insert("created".into(), created.clone().into());
    if let Value::Object(platform) = platform.json() {
        config.extend(platform);
    }
    config.insert(
        "config".into(),
        json!({"User": user, "Env": env, "Entrypoint": entrypoint, "WorkingDir": folder, "Labels": labels}),
    );
    config.insert("rootfs".into(), json!({"type": "layers", "diff_ids": diff_ids}));
    config.insert("history".into(), history.into());
    Value::Object(config)
}

/// The facts about the image, in the words of OCI's annotations. `version` is that of the program.
fn labels(recipe: &Recipe, version: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            labels.insert(format!("org.opencontainers.image.{name}"), value.to_owned());
        }
    };
    match &recipe.contents {
        Contents::Project(project) => {
            // One chart speaks for the whole; several do not.
            if let [placed] = project.charts.as_slice() {
                let metadata = &placed.chart.metadata;
                add("title", &metadata.name);
                add("version", &metadata.version);
                add("description", &metadata.description);
                add("source", metadata.sources.first().map_or("", String::as_str));
                add("url", &metadata.home);
                let annotation =
                    |name: &str| metadata.annotations.as_ref().and_then(|all| all.get(name)).map_or("", String::as_str);
                let licence = [annotation("artifacthub.io/license"), annotation("licenses")];
                add("licenses", licence.into_iter().find(|text| !text.is_empty()).unwrap_or_default());
            }
            add("title", &project.name);
        }
        Contents::Bare(_) => {
            add("title", "tillerman");
            add("version", version);
            add("description", env!("CARGO_PKG_DESCRIPTION"));
            add("licenses", env!("CARGO_PKG_LICENSE"));
        }
    }
    labels.extend(recipe.labels.clone());
    labels
}

/// A time as RFC 3339 writes it. A time that no calendar has becomes the last time of the calendar.
fn time(epoch: u64) -> String {
    let seconds = i64::try_from(epoch).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
