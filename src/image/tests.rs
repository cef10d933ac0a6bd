//! Images that are built of small programs.

use super::elf;
use super::name::ImageName;
use super::project::{PlacedChart, Project};
use super::{Contents, Images, Program, Recipe, archive, build};
use crate::chart;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A program of an ELF header and, if it has a dynamic linker, a program header.
pub fn program(machine: u16, linker: Option<&str>) -> Vec<u8> {
    let mut data = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    data.extend([2, 0]);
    data.extend(machine.to_le_bytes());
    data.extend([0; 12]);
    data.extend(64u64.to_le_bytes());
    data.extend([0; 12]);
    data.extend([64, 0, 56, 0]);
    data.extend(1u16.to_le_bytes());
    data.extend([0; 6]);
    assert_eq!(data.len(), 64);
    let kind = if linker.is_some() { 3u32 } else { 1 };
    let text = linker.unwrap_or_default();
    data.extend(kind.to_le_bytes());
    data.extend([0; 4]);
    data.extend(120u64.to_le_bytes());
    data.extend([0; 16]);
    data.extend((text.len() as u64).to_le_bytes());
    data.extend([0; 16]);
    data.extend(text.as_bytes());
    data
}

fn recipe(machines: &[u16]) -> Recipe {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = machines.iter().map(|machine| {
        let data = program(*machine, None);
        Program { platform: elf::platform("x", &data).unwrap(), data }
    });
    let chart = chart::load(&root.join("tests/node/project/helm-charts/page")).unwrap();
    let files = vec![("helm-charts/page/Chart.yaml".to_owned(), b"name: page".to_vec())];
    Recipe {
        name: ImageName::parse("example.com/team/page-operator:1.0").unwrap(),
        programs: programs.collect(),
        contents: Contents::Project(Project {
            name: "page-operator".into(),
            files: BTreeMap::from([("watches.yaml".to_owned(), b"[]".to_vec())]),
            licences: BTreeMap::new(),
            charts: vec![PlacedChart { at: "helm-charts/page".into(), chart, files }],
            warnings: Vec::new(),
        }),
        authorities: "-----BEGIN CERTIFICATE-----\n".into(),
        labels: BTreeMap::from([("org.opencontainers.image.revision".to_owned(), "abc".to_owned())]),
        epoch: 0,
    }
}

fn json(data: &[u8]) -> Value {
    serde_json::from_slice(data).unwrap()
}

fn paths(images: &Images, layer: usize) -> Vec<String> {
    let tar = images.images[0].layers[layer].tar().unwrap();
    let mut archive = tar::Archive::new(tar.as_slice());
    archive.entries().unwrap().map(|e| String::from_utf8(e.unwrap().path_bytes().into_owned()).unwrap()).collect()
}

/// The text after a word in one of the stages of `deploy/Dockerfile`.
fn in_dockerfile(stage: &str, word: &str) -> String {
    let text = include_str!("../../deploy/Dockerfile");
    let stage = text.split(&format!(" AS {stage}\n")).nth(1).unwrap().split("\nFROM ").next().unwrap();
    let line = stage.lines().find_map(|line| line.strip_prefix(&format!("{word} ")));
    line.unwrap().to_owned()
}

#[test]
fn a_projects_image_is_that_of_helm_operators_dockerfile() {
    let images = build(&recipe(&[62])).unwrap();
    let config = json(&images.images[0].config.data);
    assert_eq!(config["config"]["User"], in_dockerfile("helm-operator", "USER"));
    assert_eq!(config["config"]["WorkingDir"], "/opt/helm");
    assert_eq!(
        config["config"]["Entrypoint"].to_string(),
        in_dockerfile("helm-operator", "ENTRYPOINT").replace(' ', "")
    );
    let env = config["config"]["Env"].as_array().unwrap();
    for variable in in_dockerfile("helm-operator", "ENV").split(' ') {
        assert!(env.contains(&variable.into()), "{variable}");
    }
    assert_eq!((&config["architecture"], &config["os"]), (&"amd64".into(), &"linux".into()));
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    let labels = &config["config"]["Labels"];
    assert_eq!(labels["org.opencontainers.image.title"], "page-operator");
    assert_eq!(labels["org.opencontainers.image.revision"], "abc");
    let base = paths(&images, 0);
    for path in ["etc/passwd", "etc/ssl/certs/ca-certificates.crt", "tmp/", "usr/local/bin/helm-operator"] {
        assert!(base.iter().any(|found| found == path), "{path}");
    }
    let own = paths(&images, 1);
    assert!(
        own.contains(&"opt/helm/watches.yaml".to_owned())
            && own.contains(&"opt/helm/helm-charts/page/Chart.yaml".into())
    );
    let diff_ids = &config["rootfs"]["diff_ids"];
    for (index, layer) in images.images[0].layers.iter().enumerate() {
        assert_eq!(diff_ids[index], super::digest(&layer.tar().unwrap()));
    }
}

/// The digest changes only when something of an image changes on purpose: then write the new one here.
#[test]
fn the_digest_is_the_same_on_every_machine() {
    let images = build(&recipe(&[62])).unwrap();
    assert_eq!(images.top().digest, build(&recipe(&[62])).unwrap().top().digest);
    let layer = super::layer::Tree::default().layer(0).unwrap();
    let empty = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";
    assert_eq!(layer.diff_id, empty, "an archive of two empty blocks");
    let mut tree = super::layer::Tree::default();
    tree.file("a/b", b"hello".repeat(1000), 0o755).unwrap();
    assert_eq!(
        tree.layer(7).unwrap().blob.digest,
        "sha256:427c9a9c019457319ed0b65c9788603e2e5197fe579bdde9cb1c322834220c8e"
    );
}

#[test]
fn a_change_of_a_chart_is_a_change_of_its_layer_alone() {
    let before = build(&recipe(&[62])).unwrap();
    let mut changed = recipe(&[62]);
    let Contents::Project(project) = &mut changed.contents else { unreachable!("it is a project") };
    project.charts[0].files[0].1.push(b'\n');
    let after = build(&changed).unwrap();
    let digests = |images: &Images| images.images[0].layers.iter().map(|l| l.blob.digest.clone()).collect::<Vec<_>>();
    let (before, after) = (digests(&before), digests(&after));
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
}

#[test]
fn two_programs_make_an_index_and_share_the_charts() {
    let images = build(&recipe(&[183, 62])).unwrap();
    let index = json(&images.index.as_ref().unwrap().data);
    let platforms: Vec<&Value> =
        index["manifests"].as_array().unwrap().iter().map(|m| &m["platform"]["architecture"]).collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
    assert_eq!(images.images[0].layers[1].blob.digest, images.images[1].layers[1].blob.digest);
    assert_eq!(images.top().digest, build(&recipe(&[62, 183])).unwrap().top().digest);
    let twice = build(&recipe(&[62, 62])).unwrap_err().0;
    assert_eq!(twice, "two programs are for linux/amd64: one for each platform makes an image");
    assert!(build(&recipe(&[])).is_err());
}

#[test]
fn a_layout_holds_each_blob_under_its_digest() {
    let images = build(&recipe(&[62, 183])).unwrap();
    let layout = archive::layout(&images);
    for (path, data) in &layout {
        if let Some(hex) = path.strip_prefix("blobs/sha256/") {
            assert_eq!(super::digest(data), format!("sha256:{hex}"));
        }
    }
    let index = json(&layout["index.json"]);
    assert_eq!(index["manifests"][0]["digest"], images.top().digest);
    let annotations = &index["manifests"][0]["annotations"];
    assert_eq!(annotations["org.opencontainers.image.ref.name"], "1.0");
    assert_eq!(annotations["io.containerd.image.name"], "example.com/team/page-operator:1.0");
}

#[test]
fn the_image_of_the_program_alone_has_the_charts_that_are_given() {
    let charts = recipe(&[]).contents.charts().to_vec();
    let bare = |charts: Vec<PlacedChart>| build(&Recipe { contents: Contents::Bare(charts), ..recipe(&[62]) }).unwrap();
    let images = bare(Vec::new());
    let config = json(&images.images[0].config.data);
    assert_eq!(config["config"]["User"], in_dockerfile("tillerman", "USER"));
    assert_eq!(config["config"]["Entrypoint"].to_string(), in_dockerfile("tillerman", "ENTRYPOINT"));
    assert_eq!(images.images[0].layers.len(), 1);
    assert!(!paths(&images, 0).contains(&"usr/local/bin/helm-operator".to_owned()));
    let with = bare(charts);
    assert!(paths(&with, 1).contains(&"charts/helm-charts/page/Chart.yaml".to_owned()));
}

#[test]
fn a_bill_of_materials_is_attached_to_its_image() {
    let images = build(&recipe(&[62])).unwrap();
    let (manifest, blobs) = images.images[0].attached_sbom();
    let manifest = json(&manifest.data);
    assert_eq!(manifest["subject"]["digest"], images.images[0].manifest.digest);
    assert_eq!(manifest["artifactType"], "application/spdx+json");
    let sbom = json(&blobs[1].data);
    let names: Vec<&Value> = sbom["packages"].as_array().unwrap().iter().map(|package| &package["name"]).collect();
    assert_eq!(names, ["tillerman", "page"]);
}
