//! `lookup`: objects of the cluster in templates, in the operator and with `tillerman template --dry-run=server`; and what
//! the latter asks of the API server, side by side with helm.
//!
//! Codes in names are rules of docs/design/applying.md.

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
    // Without the right to read Secrets there are no releases either; the operator says so and continues.
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
fn a_missing_server_is_reported_as_helm_reports_it() {
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

/// `watches.yaml` with a chart of one template.
fn looks_up(space: &Space, template: &str) -> std::path::PathBuf {
    let entry = "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart:";
    space.file("watches.yaml", &format!("{entry} {}\n", chart(space, "looksup", template)))
}

/// Writes the `ConfigMap` that charts look up.
fn say(space: &Space, name: &str, word: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": space.name, "labels": {"listed": "yes"}}, "data": {"word": word}});
    kubectl(&["apply", "-f", "-"], Some(&object.to_string())).unwrap();
}

const ONE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-found
data:
  word: {{ dig \"data\" \"word\" \"none\" (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"known\") | quote }}
";

/// A4. No period helps, and nothing is asked meanwhile.
#[test]
fn an_object_that_a_chart_looked_up_is_followed() {
    let space = Space::new("followed");
    let watches = looks_up(&space, ONE);
    let operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.apply("Web", "a", &json!({}));
    space.wait_field("configmap/a-found", "/data/word", &json!("none"));
    say(&space, "known", "one");
    space.wait_field("configmap/a-found", "/data/word", &json!("one"));
    space.wait_field("web/a", "/status/release/revision", &json!(2));
    operator.rests(&space, 5);
    // A change that does not alter the rendering makes no revision.
    let before = operator.sent();
    space.kubectl(&["label", "configmap/known", "other=label"]).unwrap();
    eventually("it is rendered again", || match operator.sent() {
        now if now > before => Ok(()),
        now => Err(now.to_string()),
    });
    operator.rests(&space, 7);
    say(&space, "known", "two");
    space.wait_field("configmap/a-found", "/data/word", &json!("two"));
    operator.rests(&space, 5);
    space.wait_field("web/a", "/status/release/revision", &json!(3));

    // Nor is a change lost that nobody was there to see.
    operator.kill();
    space.kubectl(&["delete", "configmap/known"]).unwrap();
    let operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.wait_field("configmap/a-found", "/data/word", &json!("none"));
    operator.rests(&space, 5);
    space.wait_field("web/a", "/status/release/revision", &json!(4));
}

/// A4.
#[test]
fn a_list_that_a_chart_looked_up_is_read_again_when_the_period_is_over() {
    let space = Space::new("listed");
    let template = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-found
  labels:
    listed: \"yes\"
data:
  listed: {{ range (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"\").items }}{{ if hasKey (default dict .metadata.labels) \"listed\" }}{{ .metadata.name }} {{ end }}{{ end }}
";
    let _operator = space.operator(&looks_up(&space, template), &["--reconcile-period=2s"]);
    say(&space, "one", "x");
    space.apply("Web", "a", &json!({}));
    space.wait_field("configmap/a-found", "/data/listed", &json!("one"));
    // An object of the release itself is not a change of the list.
    let reads = || space.requests().iter().filter(|request| *request == "list configmaps").count();
    let before = reads();
    eventually("it is read again, and again", || match reads() {
        now if now >= before + 4 => Ok(()),
        now => Err(format!("{now}: {:?}", space.requests())),
    });
    assert_eq!(space.get("web/a").unwrap()["status"]["release"]["revision"], 1);
    say(&space, "two", "x");
    space.wait_field("configmap/a-found", "/data/listed", &json!("a-found one two"));
    space.wait_field("web/a", "/status/release/revision", &json!(2));
}

/// [`ONE`] with a label of a Service.
fn of_service() -> String {
    ONE.replace(
        "dig \"data\" \"word\" \"none\" (lookup \"v1\" \"ConfigMap\"",
        "dig \"metadata\" \"labels\" \"word\" \"none\" (lookup \"v1\" \"Service\"",
    )
}

/// An operator that has no right to Services is given some.
fn may(space: &Space, verbs: &str) {
    space.kubectl(&["create", "role", "reader", &format!("--verb={verbs}"), "--resource=services"]).unwrap();
    let user = format!("--user={}", space.name);
    space.kubectl(&["create", "rolebinding", "reader", "--role=reader", &user]).unwrap();
}

const ALL_BUT_SERVICES: [&str; 2] =
    ["--verb=*", "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,configmaps,secrets,events"];

/// A4. An operator that may read Services and not watch them reads at the period.
#[test]
fn what_may_be_read_and_not_watched_is_read_again_when_the_period_is_over() {
    let space = Space::new("readable");
    space.restrict(&ALL_BUT_SERVICES);
    may(&space, "get");
    let _operator = space.operator(&looks_up(&space, &of_service()), &["--reconcile-period=2s"]);
    space.apply("Web", "a", &json!({}));
    space.wait_field("configmap/a-found", "/data/word", &json!("none"));
    space.kubectl(&["create", "service", "clusterip", "known", "--tcp=80"]).unwrap();
    space.kubectl(&["label", "service/known", "word=one"]).unwrap();
    space.wait_field("configmap/a-found", "/data/word", &json!("one"));
}

/// A4. A missing right, or an API server that is away, fails a rendering only as long as it lasts.
#[test]
fn what_could_not_be_read_is_looked_up_again_when_it_can() {
    let space = Space::new("unreadable");
    space.restrict(&ALL_BUT_SERVICES);
    let operator = space.operator(&looks_up(&space, &of_service()), &["--reconcile-period=1h"]);
    space.apply("Web", "a", &json!({}));
    let failed = space.wait("web/a", "Stalled", "True");
    assert!(failed["message"].as_str().unwrap().contains("services \"known\" is forbidden"), "{failed}");
    let renderings = || operator.log().matches("lookup failed").count();
    assert_eq!(renderings(), 1, "it is not tried as long as it cannot be");
    may(&space, "get,list,watch");
    space.wait_field("configmap/a-found", "/data/word", &json!("none"));
    space.wait("web/a", "Deployed", "True");
}

/// A4. docs/design/lessons.md pain 2: a password that is made once and kept.
#[test]
fn what_a_chart_looks_up_of_its_own_is_no_input() {
    let space = Space::new("ownlookup");
    let template = "{{- $name := printf \"%s-password\" .Release.Name }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
data:
  password: {{ dig \"data\" \"password\" (randAlphaNum 12 | b64enc) (lookup \"v1\" \"Secret\" .Release.Namespace $name) }}
  other: {{ .Values.other | default \"none\" | b64enc }}
  records: {{ len (lookup \"v1\" \"Secret\" .Release.Namespace \"\").items | toString | b64enc }}
";
    let operator = space.operator(&looks_up(&space, template), &["--reconcile-period=2s"]);
    space.apply("Web", "a", &json!({}));
    space.wait("web/a", "Deployed", "True");
    let password = || space.get("secret/a-password").unwrap()["data"]["password"].clone();
    let first = password();
    space.apply("Web", "a", &json!({"other": "one"}));
    space.wait_field("web/a", "/status/release/revision", &json!(2));
    space.wait("web/a", "Deployed", "True");
    assert_eq!(password(), first);
    let before = operator.sent();
    eventually("it is looked at again", || {
        if operator.sent() > before + 3 { Ok(()) } else { Err(operator.sent().to_string()) }
    });
    assert_eq!(space.get("web/a").unwrap()["status"]["release"]["revision"], 2);
}

/// A4.
#[test]
fn a_rendering_that_did_not_find_what_it_needs_is_tried_again_when_it_is_there() {
    let space = Space::new("needed");
    let template = format!(
        "{{{{ if not (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"known\") }}}}{{{{ fail \"make ConfigMap known first\" }}}}{{{{ end }}}}\n{ONE}"
    );
    let watches = looks_up(&space, &template);
    let operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.apply("Web", "a", &json!({}));
    let failed = space.wait("web/a", "Stalled", "True");
    assert!(failed["message"].as_str().unwrap().contains("make ConfigMap known first"), "{failed}");
    operator.rests(&space, 5);
    say(&space, "known", "one");
    space.wait_field("configmap/a-found", "/data/word", &json!("one"));
    space.wait("web/a", "Deployed", "True");

    // The deployed revision stays when the object goes, and is updated when it comes back, even if no operator ran meanwhile.
    space.kubectl(&["delete", "configmap/known"]).unwrap();
    space.wait("web/a", "Stalled", "True");
    assert_eq!(space.get("configmap/a-found").unwrap()["data"]["word"], "one");
    operator.kill();
    say(&space, "known", "two");
    let operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.wait_field("configmap/a-found", "/data/word", &json!("two"));
    space.wait("web/a", "Ready", "True");
    space.kubectl(&["delete", "configmap/known"]).unwrap();
    space.apply("Web", "b", &json!({}));
    space.wait("web/b", "Stalled", "True");
    operator.kill();
    say(&space, "known", "three");
    let _operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.wait_field("configmap/b-found", "/data/word", &json!("three"));
}

/// A name in a lookup is one part of the path of a request. What is more would read a Secret of another namespace with the operator's
/// rights, or hold the rendering with a watch.
#[test]
fn a_name_in_a_lookup_that_is_a_path_is_not_sent() {
    let space = Space::new("lookuppath");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  found: \
                    {{ lookup \"v1\" .Values.kind .Values.in .Values.name | toJson | quote }}\n";
    let chart = chart(&space, "paths", template);
    let entry =
        format!("- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {chart}\n  namespaces: own\n");
    let operator = space.operator(&space.file("watches.yaml", &entry), &[]);
    operator.settle();
    space.audited();
    let cases = [
        ("Namespace", "", "kube-system/secrets/victim"),
        ("Namespace", "", "kube-system/secrets"),
        ("Node", "", "n1/proxy/pods"),
        ("Service", &*space.name, "web:80/proxy/x"),
        ("ConfigMap", &*space.name, "?watch=true"),
        ("ConfigMap", &*space.name, "../../kube-system/secrets/victim"),
    ];
    for (n, (kind, namespace, name)) in cases.into_iter().enumerate() {
        space.apply("Web", &format!("a{n}"), &json!({"kind": kind, "in": namespace, "name": name}));
    }
    for n in 0..cases.len() {
        let refused = space.wait(&format!("web/a{n}"), "Stalled", "True");
        assert!(refused["message"].as_str().unwrap().contains("invalid resource name"), "{refused}");
    }
    let hostile = |entry: &&Value| {
        let uri = entry["requestURI"].as_str().unwrap_or_default();
        ["victim", "kube-system/secrets", "proxy", "ConfigMap?watch", "configmaps/?watch"]
            .iter()
            .any(|part| uri.contains(part))
    };
    let sent = space.audited();
    assert_eq!(sent.iter().filter(hostile).count(), 0, "{:?}", sent.iter().find(hostile));
    // What is one part is requested as before.
    space.apply("Web", "good", &json!({"kind": "ConfigMap", "in": space.name, "name": "system:none"}));
    space.wait("web/good", "Ready", "True");
}
