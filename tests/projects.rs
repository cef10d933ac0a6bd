//! `tillerman init` and `tillerman create api` as a user runs them, in folders of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The chart of the project that operator-sdk made.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/project/helm-charts/page");

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tillerman-project-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A copy of the chart, to change.
    fn chart(&self) -> PathBuf {
        let to = self.0.join("chart");
        copy(Path::new(CHART), &to);
        to
    }

    fn project(&self) -> Project {
        let path = self.0.join("page-operator");
        fs::create_dir_all(&path).unwrap();
        Project(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

struct Project(PathBuf);

impl Project {
    /// What a command prints, and whether it succeeds.
    fn run(&self, args: &str) -> (bool, String) {
        let run = Command::new(env!("CARGO_BIN_EXE_tillerman"));
        let mut run = run;
        let output = run.args(args.split_whitespace()).current_dir(&self.0).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn ok(&self, args: &str) -> String {
        let (good, text) = self.run(args);
        assert!(good, "{args}: {text}");
        text
    }

    fn fails(&self, args: &str) -> String {
        let (good, text) = self.run(args);
        assert!(!good, "{args}: {text}");
        text
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Replaces a text of a file that has it.
    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path}: {text}");
        fs::write(self.0.join(path), text.replace(from, to)).unwrap();
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(root: &Path, below: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
            for entry in fs::read_dir(root.join(below)).unwrap().map(Result::unwrap) {
                let path = below.join(entry.file_name());
                if entry.path().is_dir() {
                    walk(root, &path, found);
                } else {
                    found.insert(path.to_string_lossy().into_owned(), fs::read(entry.path()).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(&self.0, Path::new(""), &mut found);
        found
    }
}

const INIT: &str = "init --plugins helm --domain example.com --project-name page-operator";

fn create(chart: &Path) -> String {
    format!("create api --group apps --version v1alpha1 --kind Page --helm-chart {}", chart.display())
}

#[test]
fn a_project_has_the_files_and_targets_of_operator_sdk() {
    let folder = Folder::new("tree");
    let project = folder.project();
    project.ok(INIT);
    project.ok(&create(Path::new(CHART)));
    let recorded =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/operator-sdk-project.txt")).unwrap();
    let (files, makefile) = (project.files(), project.read("Makefile"));
    let missing: Vec<&str> = recorded
        .lines()
        .filter(|line| match line.split_once(' ').unwrap() {
            // Tests of the Operator Lifecycle Manager, whose images nobody here has.
            ("file", path) => !path.starts_with("config/scorecard/") && !files.contains_key(path),
            // They download programs, of which none is needed, and build images of catalogs.
            ("target", "catalog-build" | "catalog-push" | "helm-operator" | "kustomize" | "operator-sdk" | "opm") => {
                false
            }
            (_, target) => !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for target in ["image", "image-push", "image-load", "test"] {
        assert!(makefile.contains(&format!("\n{target}:")), "{target}");
    }
    assert_eq!(
        project.ok("lint watches.yaml helm-charts/page").lines().last(),
        Some("2 chart(s) linted, 0 chart(s) failed")
    );
}

#[test]
fn a_command_that_is_run_twice_changes_nothing() {
    let folder = Folder::new("twice");
    let project = folder.project();
    let commands =
        [INIT.to_owned(), create(Path::new(CHART)), "create api --group web --kind Guest --native".to_owned()];
    for command in &commands {
        project.ok(command);
    }
    let before = project.files();
    for command in commands.iter().map(String::as_str).chain(["create api --all", "init"]) {
        let text = project.ok(command);
        assert!(!text.contains("created") && !text.contains("updated"), "{command}: {text}");
        assert!(project.files() == before, "{command} changed a file");
    }
    assert_eq!(
        project.ok("lint --strict helm-charts/guest").lines().last(),
        Some("1 chart(s) linted, 0 chart(s) failed")
    );
    assert!(project.read("PROJECT").contains("multigroup: true"));
}

#[test]
fn a_newer_chart_is_taken_and_edits_are_kept() {
    let folder = Folder::new("newer");
    let (project, chart) = (folder.project(), folder.chart());
    project.ok(&format!("{INIT} --group apps --kind Page --chart {}", chart.display()));
    project.edit("watches.yaml", "namespaces: own", "namespaces: [shared]");
    project.edit("config/manager/manager.yaml", "memory: 128Mi", "memory: 256Mi");
    project.edit("helm-charts/page/values.yaml", "greeting: hello", "greeting: hello # ours");
    fs::remove_file(project.0.join("config/prometheus/monitor.yaml")).unwrap();

    let newer = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(chart.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(chart.join(path), text.replace(from, to)).unwrap();
    };
    newer("Chart.yaml", "version: 0.1.0", "version: 0.2.0");
    newer("values.yaml", "image: ", "title: x\nimage: ");
    newer("values.yaml", "# Comes from a Secret.\npassword: \"\"\n", "");
    let role = "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nmetadata:\n  name: {{ .Release.Name }}\nrules: []\n";
    fs::write(chart.join("templates/role.yaml"), role).unwrap();

    let text = project.ok(&create(&chart));
    assert!(text.contains("merged watches.yaml: it has your edits and the changes"), "{text}");
    assert!(text.contains("values of page 0.2.0 that changed since 0.1.0:"), "{text}");
    for line in ["\n  spec.title: new\n", "\n  spec.password: the chart no longer has this value"] {
        assert!(text.contains(line), "{text}");
    }
    let watches = project.read("watches.yaml");
    assert!(watches.contains("namespaces: [shared]"), "{watches}");
    assert!(watches.contains("clusterScoped: [ClusterRole.rbac.authorization.k8s.io]"), "{watches}");
    assert!(project.read("config/manager/manager.yaml").contains("memory: 256Mi"));
    let values = project.read("helm-charts/page/values.yaml");
    assert!(values.contains("title: x") && values.contains("# ours") && !values.contains("password"), "{values}");
    assert!(!project.0.join("config/prometheus/monitor.yaml").exists());
    assert!(project.read("config/rbac/role.yaml").contains("clusterroles"));
    assert!(project.read("config/crd/bases/apps.example.com_pages.yaml").contains("title:"));
}

#[test]
fn an_edit_and_a_change_at_one_place_are_marked() {
    let folder = Folder::new("conflict");
    let (project, chart) = (folder.project(), folder.chart());
    project.ok(INIT);
    project.ok(&create(&chart));
    project.edit("helm-charts/page/values.yaml", "greeting: hello", "greeting: ours");
    let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
    fs::write(chart.join("values.yaml"), values.replace("greeting: hello", "greeting: theirs")).unwrap();
    let text = project.fails(&create(&chart));
    assert!(text.contains("Error: edits and changes are at the same places of helm-charts/page/values.yaml"), "{text}");
    let marked = project.read("helm-charts/page/values.yaml");
    assert!(marked.contains("<<<<<<< edited\ngreeting: ours\n"), "{marked}");
    assert!(marked.contains("=======\ngreeting: theirs\n>>>>>>> generated now\n"), "{marked}");
    // Nothing is done before somebody has chosen.
    let text = project.fails("create api --all");
    assert!(text.contains("has the conflicts of the last run"), "{text}");
    fs::write(project.0.join("helm-charts/page/values.yaml"), values.replace("greeting: hello", "greeting: chosen"))
        .unwrap();
    project.ok(&create(&chart));
    assert!(project.read("helm-charts/page/values.yaml").contains("greeting: chosen"));
}

#[test]
fn a_kind_is_added_to_a_project_of_operator_sdk() {
    let folder = Folder::new("theirs");
    let project = folder.project();
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/project")), &project.0);
    let before = project.files();
    let text = project.ok("create api --group apps --kind Guest");
    let watches = project.read("watches.yaml");
    assert!(watches.contains("kind: Page\n  chart: helm-charts/page\n"), "{watches}");
    assert!(watches.contains("kind: Guest\n  chart: helm-charts/guest\n"), "{watches}");
    assert!(project.read("config/crd/kustomization.yaml").contains("- bases/apps.example.com_guests.yaml"));
    assert!(project.read("config/rbac/kustomization.yaml").contains("- guest_viewer_role.yaml"));
    // What its people wrote is there, and the new rights are beside it.
    assert_eq!(project.files()["config/rbac/role.yaml"], before["config/rbac/role.yaml"]);
    assert!(
        text.contains(
            "kept config/rbac/role.yaml: it existed before; the generated file is \
             .tillerman/generated/config/rbac/role.yaml"
        ),
        "{text}"
    );
    assert!(project.read(".tillerman/generated/config/rbac/role.yaml").contains("guests"));
}

#[test]
fn what_cannot_be_is_refused_before_a_file_is_written() {
    let folder = Folder::new("refused");
    let project = folder.project();
    let text = project.fails("create api --kind Page");
    assert!(text.contains("there is no file PROJECT here"), "{text}");
    for (args, why) in [
        ("init --project-name A_b", "\"A_b\" is not a valid name of a project"),
        ("init --domain x_y", "--domain: \"x_y\" is not a DNS name"),
        ("init --plugins go", "the plugin go is not known"),
    ] {
        let text = project.fails(args);
        assert!(text.contains(why), "{args}: {text}");
        assert!(project.files().is_empty());
    }
    project.ok(INIT);
    project.ok(&create(Path::new(CHART)));
    let before = project.files();
    for (args, why) in [
        ("init --domain other.com", "there is a project here, and its --domain is example.com"),
        ("create api --kind page", "--kind: \"page\" is not a kind such as WebServer"),
        ("create api --kind Other --group A", "--group: \"A.example.com\" is not an API group"),
        ("create api --kind Other --version 1", "--version: \"1\" is not an API version such as v1alpha1"),
        ("create api --kind Other --plural A", "--plural: \"A\" is not a plural"),
        ("create api --chart nothing-here", "Error: "),
        ("create api", "give --helm-chart, or --kind for a chart to begin with"),
        (&format!("create api --kind Other --chart {CHART}"), "helm-charts/page is the chart of Page"),
    ] {
        let text = project.fails(args);
        assert!(text.contains(why), "{args}: {text}");
        assert!(project.files() == before, "{args} changed a file");
    }
}

/// tests/node/project is what operator-sdk 1.42.3 made.
#[test]
fn a_project_of_operator_sdk_is_migrated_and_twice_changes_nothing() {
    let folder = Folder::new("migrate");
    let project = folder.project();
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/project")), &project.0);
    project.edit("Dockerfile", "# Build the manager binary", "# Ours");
    let before = project.files();
    let text = project.fails("migrate");
    let image = concat!("tillerman:", env!("CARGO_PKG_VERSION"));
    assert!(
        text.contains(&format!("\n-FROM quay.io/operator-framework/helm-operator:v1.42.3\n+FROM {image}\n")),
        "{text}"
    );
    assert!(!text.contains("To change by hand"), "{text}");
    assert!(text.contains("the ServiceAccount controller-manager has the rights that Tillerman needs"), "{text}");
    assert!(project.files() == before, "without --write nothing is written");
    let document: serde_json::Value = serde_json::from_str(&project.fails("migrate -o json")).unwrap();
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.iter().all(|f| f["written"] == false && f["byHand"] == false), "{document}");
    assert!(findings.iter().any(|f| f["file"] == "Dockerfile" && f["line"] == 2), "{document}");

    project.ok("migrate --write");
    let after = project.files();
    let changed: Vec<&String> = after.keys().filter(|path| after.get(*path) != before.get(*path)).collect();
    assert_eq!(changed, ["Dockerfile"]);
    assert!(project.read("Dockerfile").starts_with(&format!("# Ours\nFROM {image}\n")));
    for args in ["migrate --write", "migrate"] {
        assert!(project.ok(args).ends_with("Nothing has to change.\n"));
        assert!(project.files() == after, "{args} changed a file");
    }
    // A folder that is not a project, and an error in one, end with 2, as with `diff`.
    for (args, why) in
        [("migrate nowhere", "no such file"), ("migrate config", "has no watches.yaml"), ("migrate --base= ", "--base")]
    {
        let run = Command::new(env!("CARGO_BIN_EXE_tillerman"))
            .args(args.split_whitespace())
            .current_dir(&project.0)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(2) && text.contains(why), "{args}: {text}");
    }
}

#[test]
fn a_hostile_project_is_refused_or_shown_without_harm() {
    let folder = Folder::new("hostile");
    let project = folder.project();
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/project")), &project.0);
    project.edit(
        "config/manager/manager.yaml",
        "- --leader-elect\n",
        "- --leader-elect\n          - \"--x\\e[2J=\\u202e\"\n",
    );
    let text = project.fails("migrate");
    assert!(text.contains("tillerman run does not know --x\\u{1b}[2J=\\u{202e}"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    // A chart outside of the project is not read, by a path or by a link.
    let outside = folder.chart();
    fs::remove_dir_all(project.0.join("helm-charts/page")).unwrap();
    std::os::unix::fs::symlink(&outside, project.0.join("helm-charts/page")).unwrap();
    assert!(project.fails("migrate").contains("helm-charts/page lies outside of the project"));
    let watches = project.read("watches.yaml").replace("helm-charts/page", "../chart");
    fs::write(project.0.join("watches.yaml"), watches).unwrap();
    assert!(project.fails("migrate").contains("../chart lies outside of the project"));
    // Neither is a file that a link names, and a file that is not a text, or is too large.
    fs::remove_file(project.0.join("Dockerfile")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", project.0.join("Dockerfile")).unwrap();
    fs::write(project.0.join("config/manager/noise.yaml"), vec![0xff; 100]).unwrap();
    fs::write(project.0.join("config/manager/large.yaml"), vec![b'a'; 3 << 20]).unwrap();
    let mut bomb = "a0: &a0 [1, 2, 3]\n".to_owned();
    for n in 1..40 {
        bomb.push_str(&"aN: &aN [*aM, *aM, *aM]\n".replace('N', &n.to_string()).replace('M', &(n - 1).to_string()));
    }
    fs::write(project.0.join("config/manager/bomb.yaml"), bomb).unwrap();
    fs::write(project.0.join("config/manager/deep.yaml"), "[".repeat(100_000)).unwrap();
    assert!(project.fails("migrate").contains("Dockerfile: there is none"));
}
