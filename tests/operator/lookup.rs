//! `lookup`: objects of the cluster in templates, in the operator and with `tillerman template --dry-run=server`; and what
//! the latter asks of the API server, side by side with helm.

use crate::harness::{Space, eventually, kubectl, repository};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The objects that the chart reads.
fn known(space: &Space) {
    let metadata = |name: &str| json!({"name": name, "namespace": space.name, "labels": {"listed": "yes"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("known"),
        "stringData": {"word": "hidden"}});
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), "data": {"word": "open"}});
    for object in [secret, config("known"), config("other")] {
        kubectl(&["apply", "-f", "-"], Some(&object.to_string())).unwrap();
    }
}

#[test]
fn templates_of_the_operator_read_the_cluster() {
    let space = Space::new("lookup");
    known(&space);
    let _operator = space.operator(&space.watches(&[("Web", "lookup")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let found = space.get("configmap/app-found").unwrap();
    let expected = json!({
        "secret": "hidden", "config": "open", "kind": "ConfigMap", "labelled": "ConfigMap/known ConfigMap/other",
        "missing": "{}", "unserved": "{}", "clusterWide": space.name, "more": "{}",
    });
    assert_eq!(found["data"], expected);

    space.apply("Web", "app", &json!({"version": "nonsense.example/v1", "kind": "Nonsense"}));
    let failed = space.wait("web/app", "Irreconcilable", "True");
    let message = failed["message"].as_str().unwrap();
    let why = "error calling lookup: unable to get apiresource from unstructured: nonsense.example/v1, Kind=Nonsense: the \
               server could not find the requested resource";
    assert!(message.contains(why), "{message}");
}

#[test]
fn what_the_operator_may_not_read_fails_the_rendering_and_names_the_right() {
    let space = Space::new("forbidden");
    known(&space);
    space
        .restrict(&["--verb=*", "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,configmaps,events"]);
    let _operator = space.operator(&space.watches(&[("Web", "lookup")]), &[]);
    space.apply("Web", "app", &json!({}));
    // Without the right to read Secrets there are no releases either; the operator says so and goes on.
    let message = eventually("the refusal is told", || {
        let object = space.get("web/app")?;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let texts = conditions.iter().filter_map(|c| c["message"].as_str());
        texts.filter(|text| text.contains("forbidden")).map(str::to_owned).next().ok_or_else(|| object.to_string())
    });
    assert!(message.contains("secrets"), "{message}");
    assert!(!message.contains("hidden"), "{message}");
}

/// What a program prints on both outputs, and how it ends.
fn run(program: &str, kubeconfig: &Path, args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(program);
    let output = command.arg("template").args(args).env("KUBECONFIG", kubeconfig).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// A chart of one template.
fn chart(space: &Space, name: &str, template: &str) -> String {
    let folder = space.file(name, "").with_file_name(format!("{name}-chart"));
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    std::fs::write(folder.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n")).unwrap();
    std::fs::write(folder.join("templates/all.yaml"), template).unwrap();
    folder.display().to_string()
}

#[test]
fn a_dry_run_on_the_server_prints_what_helm_prints() {
    let space = Space::new("dryrun");
    known(&space);
    let kubeconfig = space.kubeconfig(None);
    let repository = |path: &str| repository(path).display().to_string();
    let object = |kind: &str, name: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n");
    let versions = "{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.APIVersions.Has \"apps/v1/Scale\" }} \
                    {{ .Capabilities.APIVersions.Has \"foo/v1\" }} {{ len .Capabilities.APIVersions }}";
    let charts = [
        repository("tests/charts/lookup"),
        repository("tests/charts/web"),
        repository("tests/charts/withcrd"),
        repository("tests/charts/hooked"),
        chart(&space, "taken", &object("ConfigMap", "known")),
        chart(&space, "kinds", &format!("{}---\n{}", object("Nope", "a"), "apiVersion: no.example/v1\nkind: B\n")),
        chart(
            &space,
            "list",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: known}}\n",
        ),
        chart(&space, "nameless", "apiVersion: v1\nkind: ConfigMap\n"),
        chart(&space, "typeless", "metadata: {name: a}\n"),
        chart(&space, "versionless", "kind: ConfigMap\nmetadata: {name: a}\n"),
        chart(&space, "generated", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, generateName: b}\n"),
        chart(&space, "fields", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nnope: 1\ndata: {a: 1}\n"),
        chart(&space, "versions", &format!("{}data: {{v: '{versions}'}}\n", object("ConfigMap", "a"))),
        chart(&space, "unserved", "v: {{ lookup \"nonsense.example/v1\" \"Nonsense\" \"\" \"\" }}\n"),
    ];
    let flags: [&[&str]; 7] = [
        &["--dry-run=server"],
        &["--validate"],
        &["--dry-run=server", "--take-ownership"],
        &["--dry-run=server", "--is-upgrade", "--disable-openapi-validation"],
        &["--dry-run=server", "--include-crds", "--skip-crds"],
        &["--dry-run=server", "--kube-as-user=nobody"],
        &["--dry-run=server", "--api-versions=foo/v1", "--kube-version=1.20"],
    ];
    let mut same = 0;
    for chart in &charts {
        for flags in flags {
            let mut args = vec!["rel", chart.as_str(), "-n", &space.name];
            args.extend(flags);
            // Other tests add kinds to the server and take them away between the two.
            eventually(&format!("{args:?}"), || {
                let (helm, ours) =
                    (run("helm", &kubeconfig, &args), run(env!("CARGO_BIN_EXE_tillerman"), &kubeconfig, &args));
                if helm == ours { Ok(()) } else { Err(format!("helm: {helm:?}\ntillerman: {ours:?}")) }
            });
            same += 1;
        }
    }
    assert_eq!(same, charts.len() * flags.len());
}

#[test]
fn a_server_that_is_not_there_is_told_as_helm_tells_it() {
    let space = Space::new("away");
    let chart = chart(&space, "one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let kubeconfig = space.kubeconfig(None);
    let broken = space.file("broken", "a: [").display().to_string();
    for flags in [
        ["--kube-apiserver", "https://127.0.0.1:1"],
        ["--kube-context", "nobody"],
        ["--kubeconfig", "/does/not/exist"],
        ["--kubeconfig", &broken],
        ["--kube-ca-file", "/does/not/exist"],
    ] {
        let mut args = vec![chart.as_str(), "--dry-run=server"];
        args.extend(flags);
        let helm = run("helm", &kubeconfig, &args);
        assert_eq!(helm.2, Some(1), "{args:?}");
        assert_eq!(run(env!("CARGO_BIN_EXE_tillerman"), &kubeconfig, &args), helm, "{args:?}");
    }
}
