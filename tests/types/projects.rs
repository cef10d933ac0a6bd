//! A project from each chart: `tillerman init` succeeds, and a real API server takes its definition and its sample.

use crate::corpus;
use crate::support::api;
use crate::support::harness::{self, eventually_within};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tillerman::crd;
use tillerman::template::yaml;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions that are made before the first is waited for: each is served some seconds later.
const AT_ONCE: usize = 50;

/// Of a share of the charts, one of so many: a project takes a second of a core.
const OF_A_SHARE: usize = 4;

/// A file of a project, as an object.
fn object(project: &Path, folder: &str) -> Value {
    let files = std::fs::read_dir(project.join(folder)).expect("the project has the folder");
    let paths = files.map(|file| file.expect("it can be read").path());
    let path = paths.into_iter().find(|path| !path.ends_with("kustomization.yaml")).expect("there is one kind");
    // As kubectl sends a YAML file: what has no fraction is an integer.
    crd::plain(&yaml::parse(&std::fs::read(path).expect("it can be read")).expect("it is YAML"))
}

/// Whether Helm refuses to install it.
fn is_library(chart: &Path) -> bool {
    let text = std::fs::read(chart.join("Chart.yaml")).expect("a chart has it");
    yaml::parse(&text).expect("it is YAML")["type"] == "library"
}

/// The project of a chart, or why there is none.
fn project(at: usize, chart: &Path, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let domain = format!("p{at}.projects.dev");
    let args = ["init", "--project-name=p", "--group=g", "--kind=Typed", "--plural=typeds", "--version=v1"];
    let run = Command::new(harness::program())
        .args(args)
        .args(["--domain", &domain, "--helm-chart"])
        .arg(chart)
        .current_dir(folder)
        .output()
        .map_err(|e| e.to_string())?;
    if run.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&run.stderr).into_owned()) }
}

#[test]
fn every_chart_becomes_a_project_whose_definition_and_sample_are_accepted() {
    let mut charts = corpus::folders();
    if !corpus::is_whole() {
        charts = charts.into_iter().step_by(OF_A_SHARE).collect();
    }
    if charts.is_empty() {
        return;
    }
    let (libraries, charts): (Vec<_>, Vec<_>) = charts.into_iter().partition(|(_, path)| is_library(path));
    let scratch = std::env::temp_dir().join(format!("tillerman-projects-{}", std::process::id()));
    for (at, (name, path)) in libraries.iter().enumerate() {
        let refused = project(at, path, &scratch.join(format!("library-{at}"))).expect_err(name);
        assert!(refused.contains("is a library chart"), "{name}: {refused}");
    }
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((at, (name, path))) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, charts.get(at)?)))
                {
                    if let Err(why) = project(at, path, &scratch.join(at.to_string())) {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let projects: Vec<(usize, &String, PathBuf)> =
        charts.iter().enumerate().map(|(at, (name, _))| (at, name, scratch.join(at.to_string()))).collect();
    let mut given = 0;
    for batch in projects.chunks(AT_ONCE) {
        let mut defined = Vec::new();
        for project in batch {
            match api::create(DEFINITIONS, &object(&project.2, "config/crd/bases")) {
                Ok(_) => defined.push(project),
                Err(why) => wrong.push(format!("{}: {why}", project.1)),
            }
        }
        for (at, name, folder) in defined {
            let path = format!("/apis/g.p{at}.projects.dev/v1/namespaces/default/typeds");
            eventually_within(120, &format!("{name}: the kind is served"), || api::get(&path));
            let sample = object(folder, "config/samples");
            given += usize::from(sample["spec"].as_object().is_some_and(|spec| !spec.is_empty()));
            if let Err(why) = api::create(&format!("{path}?dryRun=All&fieldValidation=Strict"), &sample) {
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    println!(
        "{} projects; definitions and samples accepted; {given} samples have values without which the chart does not render; \
         {} library charts, which Helm does not install, are refused",
        charts.len(),
        libraries.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}
