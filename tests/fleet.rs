//! `tillerman fleet` on real charts: no difference where nothing changes, the objects that the renderings differ in where a default
//! changes, no secrets, and a comment that a pull request takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tillerman-fleet-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A copy of a chart, with one text replaced in its values.
    fn chart(&self, name: &str, (old, new): (&str, &str)) -> String {
        let (from, to) = (top().join("charts").join(name), self.0.join(name));
        copy(&from, &to);
        let values = fs::read_to_string(from.join("values.yaml")).unwrap();
        assert!(values.contains(old), "{name} has no {old:?}");
        fs::write(to.join("values.yaml"), values.replacen(old, new, 1)).unwrap();
        to.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() { copy(&path, &to) } else { assert!(fs::copy(&path, &to).is_ok()) }
    }
}

fn tillerman(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args).current_dir(top()).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn custom_resource(kind: &str, name: &str, spec: &str) -> String {
    let group = if kind == "PhpApp" { "apps.tillerman.dev/v1alpha1" } else { "examples.tillerman.dev/v1" };
    format!("---\napiVersion: {group}\nkind: {kind}\nmetadata: {{name: {name}, namespace: ns}}\nspec: {spec}\n")
}

/// `Kind name` of each object of `tillerman template`, with its text.
fn templated(chart: &str) -> BTreeMap<String, String> {
    let output = tillerman(&["template", "app", chart, "--namespace", "ns", "--is-upgrade", "--no-hooks"]);
    assert!(output.status.success(), "{}", printed(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let of = |document: &str| {
        let field =
            |name: &str| document.lines().find_map(|line| line.strip_prefix(name).map(|text| text.trim().to_owned()));
        let name = field("  name:").unwrap_or_default();
        (format!("{} {}", field("kind:").unwrap_or_default(), name.trim_matches('"')), document.to_owned())
    };
    text.split("---\n").filter(|document| document.contains("kind:")).map(of).collect()
}

#[test]
fn nothing_changes_between_a_built_in_chart_and_itself() {
    let folder = Folder::new("same");
    for (chart, kind, spec) in [
        ("php", "PhpApp", "{source: {index.php: \"<?php echo 1;\"}, replicas: 2}"),
        ("etcd", "EtcdCluster", "{}"),
        ("mysql", "MySQLCluster", "{}"),
    ] {
        let resources = folder.write("cr.yaml", &custom_resource(kind, "app", spec));
        let chart = top().join("charts").join(chart).display().to_string();
        // The group is that of the test, and not of the chart.
        let output =
            tillerman(&["fleet", &resources, "--chart", &chart, "--kind", &kind_of(kind), "--then-chart", &chart]);
        let text = printed(&output);
        assert!(output.status.success(), "{chart}: {text}");
        assert!(text.contains("1 custom resource: nothing changes"), "{chart}: {text}");
        assert!(!text.contains("rendered neither"), "{chart}: {text}");
    }
}

fn kind_of(kind: &str) -> String {
    let group = if kind == "PhpApp" { "apps.tillerman.dev" } else { "examples.tillerman.dev" };
    format!("{kind}.{group}")
}

#[test]
fn a_changed_default_changes_the_objects_that_the_renderings_differ_in() {
    let folder = Folder::new("default");
    let resources = folder.write("cr.yaml", &custom_resource("PhpApp", "app", "{}"));
    let old = top().join("charts/php").display().to_string();
    for change in [("\nreplicas: 1\n", "\nreplicas: 2\n"), ("\nimage: php:8.2-cli\n", "\nimage: php:8.3-cli\n")] {
        let new = folder.chart("php", change);
        let (before, after) = (templated(&old), templated(&new));
        let differs = |name: &&String| before.get(*name) != after.get(*name);
        let expected: BTreeSet<String> = before.keys().chain(after.keys()).filter(differs).cloned().collect();
        assert!(!expected.is_empty(), "{change:?} changes nothing");
        let output = tillerman(&["fleet", &resources, "--chart", &old, "--then-chart", &new, "-o", "json"]);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", printed(&output)));
        let changes = report["changes"].as_array().unwrap();
        let of_chart = changes.iter().filter(|change| change["effect"] != "hook");
        let text = |change: &Value, key: &str| change["object"][key].as_str().unwrap().to_owned();
        let found: BTreeSet<String> = of_chart.map(|c| format!("{} {}", text(c, "kind"), text(c, "name"))).collect();
        assert_eq!(found, expected, "{change:?}");
    }
}

#[test]
fn no_format_shows_the_data_of_a_secret() {
    let folder = Folder::new("secret");
    let now = folder.write("now.yaml", &custom_resource("Shop", "app", "{token: hunter22-before}"));
    let then = folder.write("then.yaml", &custom_resource("Shop", "app", "{token: hunter22-after, replicas: 2}"));
    let chart = "tests/data/fleet/chart-0.1.0";
    for format in ["table", "markdown", "json", "diff"] {
        let output = tillerman(&["fleet", &now, "--chart", chart, "--then-resources", &then, "-o", format]);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(3), "{format}: {text}");
        // Plain, and as base64 begins with it.
        assert!(!text.contains("hunter22") && !text.contains("aHVudGVyMjIt"), "{format}: {text}");
        assert!(text.contains("data.token") && text.contains("*** (changed)"), "{format}: {text}");
    }
}

#[test]
fn a_comment_fits_into_a_pull_request_and_is_not_written_by_tenants() {
    let folder = Folder::new("comment");
    let template = "{{ range $i := until 400 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ $.Release.Name }}-{{ $i }}}\n\
                    data: {text: {{ $.Values.text | quote }}}\n{{ end }}";
    folder.write("many/templates/a.yaml", template);
    folder.write("many/Chart.yaml", "apiVersion: v2\nname: many\nversion: 0.1.0\n");
    let chart = folder.0.join("many").display().to_string();
    let hostile = r"</code></details>@all ```` <script> \u001b[2J";
    let resources = |text: &str| custom_resource("Many", "app", &format!("{{text: \"{text}\"}}"));
    let (now, then) = (folder.write("now.yaml", &resources("x")), folder.write("then.yaml", &resources(hostile)));
    let output = tillerman(&["fleet", &now, "--chart", &chart, "--then-resources", &then, "-o", "markdown"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(text.len() <= 64 << 10 && text.len() > 32 << 10, "{} bytes", text.len());
    assert!(text.contains("this comment has no room for them"), "{text}");
    assert_eq!(text.matches("<details>").count(), text.lines().filter(|line| *line == "</details>").count());
    // The text of the tenant is inside a fence that is longer than its own.
    assert!(text.contains("`````diff\n") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_hundred_custom_resources_with_the_same_change_are_one_row() {
    let folder = Folder::new("many");
    let mut all = String::new();
    for number in 0..100 {
        let _ = write!(all, "{}", custom_resource("Shop", &format!("shop-{number}"), "{serviceType: ClusterIP}"));
    }
    let resources = folder.write("all.yaml", &all);
    let (old, new) = ("tests/data/fleet/chart-0.1.0", "tests/data/fleet/chart-0.2.0");
    let output = tillerman(&["fleet", &resources, "--chart", old, "--then-chart", new, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", printed(&output)));
    let changes = report["changes"].as_array().unwrap();
    let members = |change: &Value| change["customResources"].as_array().unwrap().len();
    assert!(changes.iter().all(|change| members(change) == 100), "{report:#}");
    let checksum = changes.iter().flat_map(|change| change["fields"].as_array().unwrap());
    let mut checksum = checksum.filter(|field| field["path"].as_str().unwrap().contains("checksum/page"));
    assert_eq!(checksum.next().map(|field| field["varies"].clone()), Some(Value::Bool(true)), "{report:#}");
}

#[test]
fn a_patch_changes_every_custom_resource() {
    let folder = Folder::new("patch");
    let both = custom_resource("PhpApp", "a", "{replicas: 1, workers: []}") + &custom_resource("PhpApp", "b", "{}");
    let resources = folder.write("cr.yaml", &both);
    let chart = top().join("charts/php").display().to_string();
    let run = |patch: &str| {
        let patch = folder.write("patch.yaml", patch);
        tillerman(&["fleet", &resources, "--chart", &chart, "--kind", &kind_of("PhpApp"), "--then-patch", &patch])
    };
    let output = run("spec: {replicas: 2, workers: null}");
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}", printed(&output));
    assert!(printed(&output).contains("2 custom resources: 1 change"), "{}", printed(&output));
    assert!(printed(&output).contains("replicas"), "{}", printed(&output));
    assert_eq!(run("spec: {replicas: 1}").status.code(), Some(0));
    for (wrong, says) in [
        ("status: {}", "status cannot be patched; spec and metadata can"),
        ("[1]", "a patch is a map"),
        ("metadata: {name: other}", "it changes the name or the namespace"),
        ("spec: 1", "spec is not an object"),
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(printed(&output).contains(says), "{wrong}: {}", printed(&output));
    }
}

#[test]
fn another_version_of_a_chart_definition_is_compared() {
    let folder = Folder::new("definitions");
    let new = folder.chart("php", ("\nreplicas: 1\n", "\nreplicas: 2\n"));
    let definition = |chart: &str, policy: &str| {
        format!(
            "apiVersion: tillerman.dev/v1alpha1\nkind: ChartDefinition\nmetadata: {{name: phps}}\nspec:\n  chart: {chart}\n  policy: {policy}\n"
        )
    };
    let old = format!("{{path: {}}}", top().join("charts/php").display());
    let now = folder.write("now.yaml", &definition(&old, "{}"));
    let resources = folder.write("cr.yaml", &custom_resource("PhpApp", "a", "{}"));
    let run = |then: String| {
        let then = folder.write("then.yaml", &then);
        tillerman(&["fleet", &resources, "--watches-file", &now, "--then-watches-file", &then])
    };
    assert_eq!(run(definition(&old, "{}")).status.code(), Some(0));
    // The working directory of the test is that of the repository.
    assert_eq!(run(definition("{path: charts/php}", "{}")).status.code(), Some(0));
    let changed = run(definition(&format!("{{path: {new}}}"), "{}"));
    assert!(printed(&changed).contains("1 custom resource: 1 change"), "{}", printed(&changed));
    let overridden = run(definition(&old, "{overrideValues: {replicas: \"3\"}}"));
    assert!(printed(&overridden).contains("1 custom resource: 1 change"), "{}", printed(&overridden));
    for (wrong, says) in [
        (
            definition("{configMap: {namespace: a, name: b, key: c}}", "{}"),
            "its chart is in a ConfigMap of the cluster",
        ),
        (definition(&old, "{unknown: 1}"), "ChartDefinition phps: spec.policy"),
        (definition(&old, "{}") + "  wrong: [", "then.yaml: "),
        (definition("{}", "{}"), "give one of path, url, repository and configMap"),
    ] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        assert!(printed(&output).contains(says), "{says}: {}", printed(&output));
    }
}

#[test]
fn a_kind_of_objects_that_is_new_hurts_and_a_declaration_for_the_operator_is_not_one() {
    let folder = Folder::new("new-kind");
    let resources = folder.write("cr.yaml", &custom_resource("EtcdCluster", "app", "{}"));
    let then = top().join("charts/etcd").display().to_string();
    let now = folder.0.join("etcd");
    copy(Path::new(&then), &now);
    let (now, templates) = (now.display().to_string(), now.join("templates"));
    let kinds = ["kind: Members", "kind: Status", "kind: PodDisruptionBudget"];
    let is_without = |text: &str| kinds.iter().all(|kind| !text.contains(kind));
    let mut removed = 0;
    for entry in fs::read_dir(&templates).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !is_without(&fs::read_to_string(&path).unwrap()) {
            fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    assert_eq!(removed, 3);
    let output =
        tillerman(&["fleet", &resources, "--chart", &now, "--kind", &kind_of("EtcdCluster"), "--then-chart", &then]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let new: Vec<&str> = text.lines().filter(|line| line.starts_with("new kind")).collect();
    assert!(new.len() == 1 && new[0].contains("PodDisruptionBudget"), "{text}");
}
