//! Every `watches.yaml` that is shipped: what a tenant writes chooses neither the program nor the account of what runs for the operator.

#[path = "support/mod.rs"]
mod support;

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::charts::{CHARTS, features, objects, pods};
use tillerman::chart::{self, values};
use tillerman::kind::placement::{ClusterScoped, Namespaces};
use tillerman::kind::{ChartRef, Kind, watches};
use tillerman::lint::accounts;
use tillerman::template::yaml;

/// What a hostile tenant writes.
const EVIL: &str = "evil.example.com/image";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of the repository, but for what is built, and the inputs of tests.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && name != "target" && path != root().join("tests") && path != root().join("fuzz")
            {
                files(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// The texts of a file that are a `watches.yaml`: the file itself, a key of a `ConfigMap`, a block of a document.
fn texts(path: &Path) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let is_watches = |text: &str| text.contains("chart:") && text.trim_start_matches(|c| c != '-').starts_with("- ");
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => {
            let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
            blocks.filter(|block| is_watches(block)).map(str::to_owned).collect()
        }
        Some("yaml") if path.file_name().unwrap().to_string_lossy().starts_with("watches") => vec![text],
        Some("yaml") => {
            let documents = yaml::split_documents(text.as_bytes()).unwrap_or_default();
            let parsed = documents.iter().filter_map(|document| yaml::parse(document).ok());
            let keys = parsed.filter_map(|document| document["data"]["watches.yaml"].as_str().map(str::to_owned));
            keys.collect()
        }
        _ => Vec::new(),
    }
}

/// The kinds of built-in charts that a text serves, with the names of their charts.
fn kinds(text: &str) -> Vec<(String, Kind)> {
    let Ok(read) = watches::parse(text, root()) else { return Vec::new() };
    let built_in = |kind: Kind| {
        assert_eq!(kind.unusable, None);
        let ChartRef::Path(path) = &kind.chart else { return None };
        let name = path.file_name()?.to_string_lossy().into_owned();
        CHARTS.contains(&&*name).then_some((name, kind))
    };
    read.kinds.into_iter().filter_map(built_in).collect()
}

/// Every value whose name is that of an image or an account, as a tenant would set it.
fn hostile(table: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in table {
        match value {
            Value::Object(below) => drop(all.insert(key.clone(), Value::Object(hostile(below)))),
            Value::String(_) if key.to_lowercase().ends_with("image") || key.to_lowercase().contains("account") => {
                all.insert(key.clone(), EVIL.into());
            }
            _ => {}
        }
    }
    all
}

/// Whether the Jobs of a chart run the program of the tenant, which its custom resource names.
fn is_own_program(chart: &str) -> bool {
    ["php", "wordpress"].contains(&chart)
}

/// Everything that a tenant can choose of what runs: renders each feature of a chart with hostile values below those that the operator pins.
fn check(place: &str, name: &str, kind: &Kind) -> usize {
    let defaults = chart::load(&root().join("charts").join(name)).unwrap().values;
    let mut jobs = 0;
    for feature in features(name) {
        let mut all = feature.as_object().cloned().unwrap();
        values::merge(&mut all, hostile(&defaults));
        values::merge(&mut all, kind.overrides.values.clone());
        let made =
            objects(name, &Value::Object(all), "ns").unwrap_or_else(|why| panic!("{place}: {name}: {feature}: {why}"));
        for (who, pod) in pods(&made) {
            let spec = &pod["spec"];
            assert!(
                !spec["serviceAccountName"].to_string().contains(EVIL),
                "{place}: {name}: {who} has the tenant's account"
            );
            if spec["serviceAccountName"] != RESTORE {
                assert_eq!(spec["automountServiceAccountToken"], false, "{place}: {name}: {who} has a token");
            }
            let is_job = who.starts_with("Job ") || who.starts_with("CronJob ") || who.ends_with("-archive");
            // A PHP application, or a site, is the tenant's own program, and so is the database that executes its first SQL, or its data in a drill: they run
            // as nobody.
            if is_job && !who.ends_with("-initdb") && !who.ends_with("-drill") && !is_own_program(name) {
                jobs += 1;
                let containers =
                    ["containers", "initContainers"].iter().filter_map(|list| spec[*list].as_array()).flatten();
                for container in containers {
                    assert!(
                        !container["image"].to_string().contains(EVIL),
                        "{place}: {name}: {who} runs the tenant's image"
                    );
                }
            }
        }
    }
    jobs
}

/// The account that charts/etcd-restore makes for its Job.
const RESTORE: &str = "my";

#[test]
fn no_watches_file_lets_a_tenant_choose_the_image_or_the_account_of_a_job() {
    let mut all = Vec::new();
    files(root(), &mut all);
    let (mut seen, mut checked) = (BTreeSet::new(), BTreeSet::new());
    for path in all {
        let place = path.strip_prefix(root()).unwrap().display().to_string();
        for (name, kind) in texts(&path).iter().flat_map(|text| kinds(text)) {
            assert_eq!(kind.placement.namespaces, Namespaces::Own, "{place}: {name}: namespaces: own");
            assert_eq!(kind.placement.cluster_scoped, ClusterScoped::Nothing, "{place}: {name}: clusterScoped: false");
            seen.insert((place.clone(), name.clone()));
            // Many files pin the same.
            if !checked.insert((name.clone(), Value::Object(kind.overrides.values.clone()).to_string())) {
                continue;
            }
            let jobs = check(&place, &name, &kind);
            assert!(is_own_program(&name) || jobs > 0, "{place}: {name} made no Job");
            let chart = chart::load(&root().join("charts").join(&name)).unwrap();
            let examples: Vec<_> = features(&name).into_iter().map(evidence).collect();
            assert_eq!(accounts::chosen(&chart, &examples, &kind.overrides.values), [""; 0], "{place}: {name}");
        }
    }
    // What is there today; a new file is covered without a row here.
    for (place, name) in [
        ("examples/mysql/watches.yaml", "mysql"),
        ("examples/stack/watches.yaml", "mysql"),
        ("examples/stack/watches.yaml", "php"),
        ("examples/php/watches.yaml", "php"),
        ("examples/wordpress/watches.yaml", "wordpress"),
        ("examples/etcd/watches.yaml", "etcd"),
        ("examples/etcd/watches.yaml", "etcd-backup"),
        ("examples/etcd/watches.yaml", "etcd-restore"),
        ("deploy/chart/files/watches-etcd.yaml", "etcd"),
        ("deploy/chart/files/watches-mysql.yaml", "mysql"),
        ("deploy/chart/files/watches-php.yaml", "php"),
        ("deploy/chart/files/watches-php-with-mysql.yaml", "php"),
        ("deploy/chart/files/watches-wordpress.yaml", "wordpress"),
        ("deploy/chart/files/watches-wordpress-with-mysql.yaml", "wordpress"),
        ("deploy/install/base/operator.yaml", "etcd-restore"),
        ("deploy/bundle/manifests/tillerman-watches.configmap.yaml", "etcd"),
    ] {
        assert!(seen.contains(&(place.to_owned(), name.to_owned())), "{place} was not found with {name}: {seen:?}");
    }
}

fn evidence(feature: Value) -> tillerman::crd::Evidence {
    let Value::Object(values) = feature else { panic!("it is a table") };
    tillerman::crd::Evidence { name: "feature".to_owned(), values }
}

#[test]
fn what_init_and_create_api_write_for_built_in_charts_pins_the_same() {
    let folder = std::env::temp_dir().join(format!("tillerman-watches-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (command, name) in std::iter::once("init").chain(std::iter::repeat("create api")).zip(CHARTS) {
        let chart = root().join("charts").join(name);
        let run = Command::new(env!("CARGO_BIN_EXE_tillerman"))
            .args(command.split(' '))
            .arg("--helm-chart")
            .arg(chart)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    }
    let written = std::fs::read_to_string(folder.join("watches.yaml")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let kinds = kinds(&written);
    assert_eq!(kinds.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), CHARTS, "{written}");
    for (name, kind) in &kinds {
        assert!(check("init", name, kind) > 0 || is_own_program(name), "{name}");
        assert_eq!(kind.placement.namespaces, Namespaces::Own, "{name}");
        assert_eq!(kind.placement.cluster_scoped, ClusterScoped::Nothing, "{name}");
    }
    assert!(written.contains("    backup.image: \"tillerman:0.1.0\"\n"), "{written}");
    assert!(written.contains("    allowedAnnotations: \"{}\"\n"), "{written}");
}

/// Everything that the program brings, with one command: the same charts, the same pins, and the application that waits for its database.
#[test]
fn init_writes_a_project_of_the_built_in_kinds() {
    let folder = std::env::temp_dir().join(format!("tillerman-built-in-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let init = |kinds: &str| {
        let run = Command::new(env!("CARGO_BIN_EXE_tillerman"))
            .args(["init", "--domain", "example.com", "--built-in", kinds])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(run.status.success(), "{kinds}: {}", String::from_utf8_lossy(&run.stderr));
        let written = std::fs::read_to_string(folder.join("watches.yaml")).unwrap();
        (String::from_utf8(run.stdout).unwrap(), written)
    };
    // In any order, and for a project that is there.
    let (_, alone) = init("php");
    assert!(!alone.contains("dependsOn"), "no database is served: {alone}");
    let (said, written) = init("wordpress,mysql,etcd");
    assert!(said.contains("created helm-charts/mysql"), "{said}");
    let kinds = kinds(&written);
    let mut names: Vec<_> = kinds.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, CHARTS, "{written}");
    for (name, kind) in &kinds {
        assert!(check("init --built-in", name, kind) > 0 || is_own_program(name), "{name}");
        let depends: Vec<_> = kind.depends_on.iter().map(|dependency| dependency.kind.as_str()).collect();
        assert_eq!(depends, if is_own_program(name) { vec!["MySQLCluster"] } else { vec![] }, "{name}");
        let (ours, theirs) = (root().join("charts").join(name), folder.join("helm-charts").join(name));
        let same = Command::new("diff").args(["--recursive", "--brief"]).args([ours, theirs]).output().unwrap();
        assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Without what the shipped files pin, the linter says so; this shows that it and the check above can fail.
#[test]
fn what_nobody_pins_is_warned_of() {
    for (name, account) in [
        ("mysql", "backup.serviceAccountName"),
        ("etcd", "backupOnDelete.serviceAccountName"),
        ("etcd-backup", "serviceAccountName"),
    ] {
        let chart = chart::load(&root().join("charts").join(name)).unwrap();
        let examples: Vec<_> = features(name).into_iter().map(evidence).collect();
        let warned = accounts::chosen(&chart, &examples, &Map::new());
        assert!(warned.iter().any(|text| text.contains(&format!("({account})"))), "{name}: {warned:?}");
    }
    let naked = json!([{"group": "a", "version": "v1", "kind": "B", "chart": "charts/mysql"}]).to_string();
    let (name, kind) = kinds(&naked).remove(0);
    let refused = std::panic::catch_unwind(|| check("here", &name, &kind)).unwrap_err();
    let refused = refused.downcast_ref::<String>().unwrap();
    assert!(refused.contains("has the tenant's account"), "{refused}");
}
