//! The commands for people, as somebody runs them who has a kubeconfig.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Space, eventually, program, repository};

/// The exit code of a command, and what it printed.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }
}

fn command(space: &Space, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).args(["--namespace", &space.name]).env_remove("NO_COLOR").env("TERM", "xterm");
    command.arg("--kubeconfig").arg(space.kubeconfig(None));
    command
}

fn ran(mut command: Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

fn run(space: &Space, args: &[&str]) -> Ran {
    ran(command(space, &program(), args))
}

/// Runs a command that must succeed; its output.
fn done(space: &Space, args: &[&str]) -> String {
    let ran = run(space, args);
    assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    ran.out
}

/// Runs a command in a terminal, does something while it asks, and answers yes; what it printed.
fn answered(space: &Space, args: &[&str], meanwhile: impl FnOnce()) -> String {
    let kubeconfig = space.kubeconfig(None);
    let line = format!("{} {} -n {} --kubeconfig {}", program(), args.join(" "), space.name, kubeconfig.display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let (mut output, mut printed) = (child.stdout.take().unwrap(), Vec::new());
    let mut byte = [0];
    while !printed.ends_with(b"[y/N] ") && output.read(&mut byte).unwrap() > 0 {
        printed.push(byte[0]);
    }
    meanwhile();
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    output.read_to_end(&mut printed).unwrap();
    child.wait().unwrap();
    String::from_utf8_lossy(&printed).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file with the Web `app`.
fn web(space: &Space, spec: &Value) -> String {
    let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "metadata": {"name": "app"}, "spec": spec});
    space.file("web.json", &body.to_string()).display().to_string()
}

fn wait_revision(space: &Space, revision: u64) {
    space.wait_field("web/app", "/status/release/revision", &json!(revision));
}

#[test]
fn what_would_change_is_shown_and_not_done_and_no_secret_is_in_it() {
    let space = Space::new("diff");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"secret": "hunter22", "more": {"url": "x-hunter22-y"}}));
    space.wait_web("app");
    let secret = space.get("secret/app-secret").unwrap();

    let same = run(&space, &["diff", "web", "app"]);
    assert_eq!((same.code, same.out.as_str()), (0, ""), "{same:?}");
    assert!(same.err.contains("record of revision 1"), "{same:?}");

    let spec = json!({"secret": "another33", "more": {"url": "x-another33-y"}, "replicas": 2, "extra": true});
    let file = web(&space, &spec);
    let before = operator.settle();
    for source in [vec![], vec!["--watches-file", path(&watches)]] {
        let mut args = vec!["diff", "-f", file.as_str()];
        args.extend(source);
        let changed = run(&space, &args);
        assert_eq!(changed.code, 1, "{changed:?}");
        for line in [
            "Deployment app-web is changed",
            "-  replicas: 1",
            "+  replicas: 2",
            "ConfigMap app-extra is created",
            "+  a: b",
            "-  password: '***'",
            "+  password: '*** (changed)'",
        ] {
            assert!(changed.out.contains(line), "{line} in {}", changed.out);
        }
        for secret in ["hunter22", "another33", "aHVudGVyMjI", "YW5vdGhlcjMz", "\u{1b}"] {
            assert!(!changed.out.contains(secret) && !changed.err.contains(secret), "{secret} in {changed:?}");
        }
    }
    assert_eq!(operator.settle(), before, "the operator heard of nothing");
    assert_eq!(space.get("secret/app-secret").unwrap(), secret);
    assert!(space.get("configmap/app-extra").is_err());

    let plan = run(&space, &["plan", "web/app", "-f", &file, "-o", "json"]).json();
    assert_eq!((&plan["state"], &plan["action"], &plan["revision"]), (&json!("Changed"), &json!("Upgrade"), &json!(2)));
    let steps = plan["steps"].to_string();
    assert!(steps.contains("record revision 2") && steps.contains("apply ConfigMap app-extra"), "{steps}");

    let wrong = run(&space, &["diff", "web", "nope"]);
    assert_eq!((wrong.code, wrong.err.as_str()), (2, "Error: there is no Web nope\n"));
    space.apply("Web", "app", &json!({"extra": true}));
    wait_revision(&space, 2);
    operator.settle();
    // Drift, and an object that goes.
    assert!(operator.stop());
    space.kubectl(&["scale", "deployment/app-web", "--replicas=5"]).unwrap();
    let audited = space.audited().len();
    let drift = run(&space, &["diff", "web", "app", "--color", "always"]);
    assert!(drift.out.contains("\u{1b}[31m-  replicas: 5\u{1b}[0m") && drift.code == 1, "{drift:?}");
    // Every request that is not a read is a dry run.
    let is_dry = |entry: &Value| entry["requestURI"].as_str().unwrap().contains("dryRun=All");
    eventually("the dry run is in the audit log", || {
        if space.audited().iter().skip(audited).any(is_dry) { Ok(()) } else { Err("not yet") }
    });
    let read = ["get", "list", "watch"].map(|verb| json!(verb));
    let writes = space.audited().into_iter().skip(audited).filter(|entry| !read.contains(&entry["verb"]));
    let wet: Vec<Value> = writes.filter(|entry| !is_dry(entry)).collect();
    assert!(wet.is_empty(), "{wet:?}");
    let gone = run(&space, &["plan", "-f", &web(&space, &json!({}))]);
    assert!(gone.out.contains("pruned         ConfigMap app-extra"), "{gone:?}");
}

#[test]
fn a_custom_resource_gets_the_values_of_an_earlier_revision_and_none_of_a_secret() {
    let space = Space::new("rollback");
    let watches = space.watches_with(&[("Web", "web"), ("Other", "valued")], "  allow: [valuesFrom]\n");
    let _operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({"replicas": 1, "greeting": "hi"}));
    wait_revision(&space, 1);
    space.apply("Web", "app", &json!({"replicas": 2, "greeting": "hi", "login": {"token\u{1b}[2J": "t0ken"}}));
    wait_revision(&space, 2);

    let history = done(&space, &["history", "web/app"]);
    let line = history.lines().last().unwrap();
    assert!(line.starts_with("2 ") && line.contains("login.token\\u{1b}[2J, replicas"), "{history}");
    assert!(!history.contains("t0ken"), "{history}");
    let listed = run(&space, &["list", "-o", "json"]).json();
    assert_eq!(listed["items"][0]["revision"], 2);
    assert_eq!((&listed["items"][0]["chart"], &listed["items"][0]["version"]), (&json!("web"), &json!("1.2.3")));

    let nobody = run(&space, &["rollback", "web", "app", "1"]);
    assert!(nobody.code == 1 && nobody.out.contains("-replicas: 2\n+replicas: 1"), "{nobody:?}");
    assert_eq!(space.get("web/app").unwrap()["spec"]["replicas"], 2);
    let done = done(&space, &["rollback", "web", "app", "1", "--yes"]);
    assert!(done.ends_with("web.test.tillerman.dev/app rolled back to revision 1\n"), "{done}");
    assert_eq!(space.get("web/app").unwrap()["spec"], json!({"replicas": 1, "greeting": "hi"}));
    wait_revision(&space, 3);
    let answered = answered(&space, &["rollback", "web", "app", "2"], || {
        space.apply("Web", "app", &json!({"replicas": 7, "greeting": "hi"}));
    });
    assert!(answered.contains("app changed meanwhile"), "{answered}");
    assert_eq!(space.get("web/app").unwrap()["spec"]["replicas"], 7);

    space.kubectl(&["create", "secret", "generic", "login", "--from-literal=pw=hunter22"]).unwrap();
    let sources = json!([{"kind": "Secret", "name": "login", "key": "pw", "targetPath": "password"}]);
    let annotations = json!({"tillerman.dev/values-from": sources.to_string()});
    space.apply_with("Other", "sourced", &annotations, &json!({"from": "a"}));
    space.wait_field("other/sourced", "/status/release/revision", &json!(1));
    space.apply_with("Other", "sourced", &annotations, &json!({"from": "b"}));
    space.wait_field("other/sourced", "/status/release/revision", &json!(2));
    let refused = run(&space, &["rollback", "other/sourced", "--yes"]);
    assert!(refused.code == 1 && refused.err.contains("cannot be separated"), "{refused:?}");
    assert_eq!(space.get("other/sourced").unwrap()["spec"], json!({"from": "b"}));
}

#[test]
fn values_name_their_sources_and_none_of_a_secret_is_shown() {
    let space = Space::new("sourced");
    let settings = "  allow: [valuesFrom]\n  overrideValues: {size: large}\n";
    let watches = space.watches_with(&[("Other", "valued")], settings);
    let _operator = space.operator(&watches, &[]);
    space.kubectl(&["create", "secret", "generic", "login", "--from-literal=pw=hunter22"]).unwrap();
    let sources = json!([{"kind": "Secret", "name": "login", "key": "pw", "targetPath": "password"}]);
    let annotations = json!({"tillerman.dev/values-from": sources.to_string()});
    space.apply_with("Other", "app", &annotations, &json!({"from": "a"}));
    space.wait_field("other/app", "/status/release/revision", &json!(1));

    let source = |document: &Value, name: &str| {
        let rows = document["values"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["value"] == name).unwrap_or_else(|| panic!("{name}: {document}"));
        (
            row["source"].as_str().unwrap().to_owned(),
            row["place"].as_str().unwrap().to_owned(),
            row["effective"].clone(),
        )
    };
    let named = ["values", "other/app", "--watches-file", path(&watches)];
    let with = |more: &[&'static str]| [&named[..], more].concat();
    let all = run(&space, &with(&["-o", "json"])).json();
    let of = |word: &str, place: &str, value: &str| (word.to_owned(), place.to_owned(), json!(value));
    assert_eq!(source(&all, "mode"), of("default", "values.yaml:1", "ok"));
    assert_eq!(source(&all, "from"), of("spec", "spec.from", "a"));
    assert_eq!(source(&all, "size"), of("overrideValues", "watches.yaml", "large"));
    assert_eq!(source(&all, "password"), of("valuesFrom", "Secret login, key pw", "****"));
    // The record has no text of values.yaml.
    let recorded = run(&space, &["values", "other", "app", "-o", "json"]).json();
    assert_eq!(source(&recorded, "mode"), of("default", "values.yaml", "ok"));
    assert_eq!(source(&recorded, "size").0, "default");

    let why = done(&space, &with(&["--why", "password"]));
    assert!(why.contains("overridden  default") && why.contains("values.yaml:4") && why.contains("****"), "{why}");
    let objects = done(&space, &with(&["--objects", "password"]));
    assert!(objects.contains("ConfigMap app is changed") && objects.contains("Secret app is changed"), "{objects}");
    assert!(!(why + &objects + &all.to_string()).contains("hunter22"));
    let chart = repository("tests/charts/valued");
    let refused = run(&space, &[&named[..], &["--as", "nobody", "--chart", path(&chart)]].concat());
    assert!(refused.code == 1 && refused.err.contains("forbidden"), "{refused:?}");
}

#[test]
fn a_release_is_paused_resumed_and_asked_for_a_pass() {
    let space = Space::new("pause");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    wait_revision(&space, 1);
    assert_eq!(done(&space, &["pause", "web", "app", "--reason", "a move"]), "web.test.tillerman.dev/app paused\n");
    space.wait("web/app", "Paused", "True");
    assert_eq!(space.get("web/app").unwrap()["metadata"]["annotations"]["tillerman.dev/pause-reason"], "a move");
    let listed = done(&space, &["list", "-o", "wide"]);
    assert!(listed.contains("Paused") && listed.contains("a move"), "{listed}");
    assert_eq!(done(&space, &["resume", "webs", "--all"]), "web.test.tillerman.dev/app resumed\n");
    let waited = done(&space, &["reconcile", "web/app", "--wait", "--timeout", "60s"]);
    assert!(waited.starts_with("web.test.tillerman.dev/app Ready="), "{waited}");
    assert!(space.get("web/app").unwrap()["metadata"]["annotations"].get("tillerman.dev/pause-reason").is_none());
    space.apply("Web", "app", &json!({"replicas": "many"}));
    let failed = run(&space, &["reconcile", "web/app", "--wait", "--timeout", "60s"]);
    assert!(failed.code == 1 && failed.err.contains("web.test.tillerman.dev/app: "), "{failed:?}");
}

/// uid, spec and data: what changes when an object is recreated or written. The API server counts a generation of a Deployment also for a
/// new annotation.
fn identities(space: &Space, names: &[&str]) -> Vec<[Value; 3]> {
    let of = |object: &&str| {
        let object = space.get(object).unwrap();
        [object["metadata"]["uid"].clone(), object["spec"].clone(), object["data"].clone()]
    };
    names.iter().map(of).collect()
}

#[test]
fn a_release_of_helm_and_loose_objects_become_custom_resources_and_nothing_changes() {
    let space = Space::new("adopts");
    let chart = repository("tests/charts/web").display().to_string();
    space.helm(&["install", "app", &chart, "--set", "replicas=2,extra=true"]).unwrap();
    space.helm(&["install", "drifted", &chart]).unwrap();
    let config = "configmap/drifted-config";
    space.kubectl(&["patch", config, "--type=merge", "-p", "{\"data\": {\"greeting\": \"changed\"}}"]).unwrap();
    let watches = space.watches_with(&[("Web", "web")], "  allow: [takeOwnership]\n");
    let objects = ["deployment/app-web", "service/app-web", "configmap/app-config", "configmap/app-extra"];
    let before = identities(&space, &objects);

    let shown = run(&space, &["adopt", "release", "app", "--watches-file", path(&watches)]);
    assert!(shown.code == 0 && shown.err.contains("the first pass would change nothing; 4 objects"), "{shown:?}");
    assert!(shown.out.contains("  replicas: 2\n") && space.get("web/app").is_err(), "{shown:?}");
    let refused = run(&space, &["adopt", "release", "drifted", "--watches-file", path(&watches), "--apply"]);
    assert!(refused.code == 1 && refused.err.contains("-  greeting: changed"), "{refused:?}");
    assert!(space.get("web/drifted").is_err());

    let _operator = space.operator(&watches, &[]);
    done(&space, &["adopt", "release", "app", "--watches-file", path(&watches), "--apply"]);
    space.wait("web/app", "Deployed", "True");
    assert_eq!(identities(&space, &objects), before);
    let again = run(&space, &["adopt", "release", "app", "--watches-file", path(&watches)]);
    assert!(again.code == 1 && again.err.contains("already"), "{again:?}");

    // Loose objects.
    let manifest = space.helm(&["template", "loose", &chart, "--set", "replicas=3"]).unwrap();
    let file = space.file("loose.yaml", &manifest);
    space.kubectl(&["apply", "-f", path(&file)]).unwrap();
    space
        .kubectl(&["label", "deployment/loose-web", "service/loose-web", "configmap/loose-config", "app=loose"])
        .unwrap();
    space.kubectl(&["create", "configmap", "more"]).unwrap();
    space.kubectl(&["label", "configmap/more", "app=loose"]).unwrap();
    let objects = ["deployment/loose-web", "service/loose-web", "configmap/loose-config"];
    let before = identities(&space, &objects);
    let values = space.file("values.yaml", "replicas: 3\n");
    let args = [
        "adopt",
        "objects",
        "-l",
        "app=loose",
        "--kind",
        "Web",
        "--name",
        "loose",
        "-f",
        path(&values),
        "--watches-file",
        path(&watches),
        "--apply",
    ];
    let adopted = run(&space, &args);
    assert!(adopted.code == 0 && adopted.err.contains("ConfigMap more is not part of the chart"), "{adopted:?}");
    space.wait("web/loose", "Deployed", "True");
    assert_eq!(identities(&space, &objects), before);
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let space = Space::new("doctor");
    let watches = space.watches(&[("Web", "web")]);
    let (account, args) = (format!("{}:default", space.name), ["doctor", "--watches-file", path(&watches)]);
    let ill = run(&space, &[&args[..], &["--service-account", &account]].concat());
    assert_eq!(ill.code, 1, "{ill:?}");
    let has = |start: &str, part: &str| ill.out.lines().any(|line| line.starts_with(start) && line.contains(part));
    assert!(
        has("ok    API server", "v1.") && has("warn  definitions", "Web.test.tillerman.dev is not the one"),
        "{}",
        ill.out
    );
    assert!(has("fail  rights", "lacks") && ill.out.contains("-> tillerman rbac --watches"), "{}", ill.out);
    let well = run(&space, &["doctor", "-o", "json"]);
    assert_eq!((well.code, &well.json()["checks"][0]["result"]), (0, &json!("ok")), "{well:?}");
    // A release whose custom resource is gone.
    let record = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {
        "name": "sh.helm.release.v1.lost.v1", "labels": {"owner": "helm", "name": "lost", "version": "1", "status": "deployed",
        "tillerman.dev/owner": "00000000-0000-0000-0000-000000000001"},
        "annotations": {"tillerman.dev/owner": format!("Web.test.tillerman.dev {}/lost", space.name)}}});
    let file = space.file("lost.json", &record.to_string());
    space.kubectl(&["create", "-f", path(&file)]).unwrap();
    let lost = done(&space, &["doctor"]);
    assert!(lost.contains(&format!("releases without a custom resource: {}/lost", space.name)), "{lost}");
    the_doctor_finds_an_operator_that_does_not_run_a_lease_of_nobody_and_a_webhook_without_its_service();
}

/// A part of the test above, because every doctor of the cluster sees the webhook.
fn the_doctor_finds_an_operator_that_does_not_run_a_lease_of_nobody_and_a_webhook_without_its_service() {
    let space = Space::new("ill");
    let webhook = format!("ill-{}", space.name);
    let create = |object: Value| {
        let file = space.file(&format!("{}.json", object["kind"].as_str().unwrap()), &object.to_string());
        space.kubectl(&["create", "-f", path(&file)]).unwrap();
    };
    let empty = done(&space, &["doctor"]);
    assert!(empty.contains("warn  operator     no Deployment of Tillerman was found, not in namespace"), "{empty}");
    let named = json!({"app": "o"});
    create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o"}, "spec": {
        "selector": {"matchLabels": named}, "template": {"metadata": {"labels": named}, "spec": {
        "serviceAccountName": "who", "containers": [{"name": "manager", "image": "localhost/tillerman:1"}]}}}}));
    let lease = |renewed: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "tillerman"},
        "spec": {"holderIdentity": "o-1_a", "renewTime": renewed}})
    };
    create(lease("2020-01-01T00:00:00.000000Z"));
    // It selects nothing, so that nobody else is refused for it.
    create(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": webhook}, "webhooks": [{"name": "a.example.com", "sideEffects": "None", "rules": [],
        "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": space.name, "name": "gone"}}}]}));
    let watches = space.watches(&[("Web", "web")]);
    let ill = run(&space, &["doctor", "--watches-file", path(&watches)]);
    space.kubectl(&["delete", "validatingwebhookconfiguration", &webhook]).unwrap();
    assert_eq!(ill.code, 1, "{ill:?}");
    for line in [
        format!("fail  operator     Deployment {}/o: 0 of 1 pods are ready, image localhost/tillerman:1", space.name),
        format!("-> kubectl -n {} logs deployment/o", space.name),
        format!("warn  lease        Lease {}/tillerman has no holder", space.name),
        // The account is that of the Deployment.
        format!("fail  rights       ServiceAccount who in namespace {} lacks", space.name),
    ] {
        assert!(ill.out.contains(&line), "{line} in {}", ill.out);
    }
    let dead = format!("ValidatingWebhookConfiguration {webhook} (Service {}/gone)", space.name);
    let line = ill.out.lines().find(|line| line.contains(&dead)).unwrap_or_else(|| panic!("{}", ill.out));
    assert!(line.starts_with("fail  webhooks     nothing answers for"), "{line}");

    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let file = space.file("renewed.json", &lease(&now).to_string());
    space.kubectl(&["replace", "-f", path(&file)]).unwrap();
    let held = run(&space, &["doctor"]).out;
    assert!(held.contains(&format!("ok    lease        Lease {}/tillerman is held by o-1_a", space.name)), "{held}");
    assert!(!held.contains(&webhook), "{held}");
}

#[test]
fn there_are_colours_on_a_terminal_and_as_a_plugin_of_kubectl_it_has_that_name() {
    let space = Space::new("terminal");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    wait_revision(&space, 1);
    operator.settle();
    let (file, kubeconfig) = (web(&space, &json!({"replicas": 4})), space.kubeconfig(None));
    let line = |more: &str| {
        let kubeconfig = kubeconfig.display();
        format!("{} diff -f {file} -n {} --kubeconfig {kubeconfig} {more}", program(), space.name)
    };
    let in_terminal = |line: &str| {
        let mut script = Command::new("script");
        script.args(["-qec", line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
        ran(script)
    };
    let coloured = in_terminal(&line(""));
    assert!(coloured.code == 1 && coloured.out.contains("\u{1b}[32m+  replicas: 4\u{1b}[0m"), "{coloured:?}");
    for plain in [in_terminal(&format!("NO_COLOR=1 {}", line(""))), in_terminal(&line("--color never"))] {
        assert!(plain.out.contains("+  replicas: 4") && !plain.out.contains("\u{1b}["), "{plain:?}");
    }

    let plugin = space.dir().join("kubectl-tillerman");
    std::os::unix::fs::symlink(program(), &plugin).unwrap();
    let paths = format!("{}:{}", space.dir().display(), std::env::var("PATH").unwrap());
    let mut kubectl = command(&space, "kubectl", &["tillerman", "list"]);
    kubectl.env("PATH", &paths);
    let listed = ran(kubectl);
    assert!(listed.out.contains("app    Web"), "{listed:?}");
    let mut help = Command::new("kubectl");
    help.args(["tillerman", "list", "--help"]).env("PATH", &paths);
    let help = ran(help);
    assert!(help.out.contains("Usage: kubectl tillerman list"), "{help:?}");
}

#[test]
fn a_plan_says_that_members_are_not_asked() {
    let space = crate::etcd_chart::space("plan-members");
    let body = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "metadata": {"name": "db"}, "spec": {"size": 3}});
    let file = space.file("cluster.json", &body.to_string());
    let chart = repository("charts/etcd");
    let planned = run(&space, &["plan", "-f", path(&file), "--chart", path(&chart)]);
    assert!(planned.code == 0 && planned.out.contains("StatefulSet db"), "{planned:?}");
    assert!(planned.err.contains("note: the preview does not ask the members of StatefulSet db"), "{planned:?}");
}

/// A table is as wide as what it holds: a narrow terminal wraps its lines, and nothing is cut or lost.
#[test]
fn a_narrow_terminal_loses_nothing() {
    let space = Space::new("narrow");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    let name = format!("app-{}", "n".repeat(40));
    space.apply("Web", &name, &json!({}));
    space.wait_field(&format!("web/{name}"), "/status/release/revision", &json!(1));
    operator.settle();
    let line =
        format!("stty cols 20; {} list -n {} --kubeconfig {}", program(), space.name, space.kubeconfig(None).display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
    let listed = ran(script);
    assert!(listed.code == 0 && listed.out.contains(&name) && listed.out.contains("Web"), "{listed:?}");
}

/// `deploy/k9s.yaml`, with the names that k9s puts into the arguments of a plugin.
#[test]
fn the_plugins_for_k9s_run() {
    let space = Space::new("k9s");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_field("web/app", "/status/release/revision", &json!(1));
    operator.settle();
    let kubeconfig = space.kubeconfig(None);
    let mut context = Command::new("kubectl");
    context.args(["config", "current-context", "--kubeconfig"]).arg(&kubeconfig);
    let context = ran(context).out;
    std::os::unix::fs::symlink(program(), space.dir().join("tillerman")).unwrap();
    let text = std::fs::read(repository("deploy/k9s.yaml")).unwrap();
    let file = tillerman::template::yaml::parse(&text).unwrap();
    let plugins = file["plugins"].as_object().unwrap();
    let expected = [("status", "Web "), ("diff", ""), ("history", "REVISION"), ("ui", "http://127.0.0.1:")];
    assert_eq!(plugins.len(), expected.len());
    for (name, printed) in expected {
        let plugin = &plugins[&format!("tillerman-{name}")];
        let mut line = plugin["args"][1].as_str().unwrap().to_owned();
        for (key, value) in [
            ("$CONTEXT", context.trim()),
            ("$NAMESPACE", &space.name),
            ("$RESOURCE_NAME", "webs"),
            ("$RESOURCE_GROUP", "test.tillerman.dev"),
            ("$NAME", "app"),
        ] {
            line = line.replace(key, value);
        }
        // A page is served until somebody ends it.
        line = if name == "ui" { format!("timeout 10 {line} --no-open | head -1") } else { line };
        let mut shell = Command::new(plugin["command"].as_str().unwrap());
        let paths = format!("{}:{}", space.dir().display(), std::env::var("PATH").unwrap());
        shell.args(["-c", &line]).env("PATH", paths).env("KUBECONFIG", &kubeconfig);
        let ran = ran(shell);
        assert!(ran.out.contains(printed) && !ran.out.contains("Error"), "{line}: {ran:?}");
    }
}

/// A fleet that was saved to a file is compared as the live one, also where the cluster cannot be reached.
#[test]
fn a_saved_fleet_is_compared_as_the_live_one() {
    let space = Space::new("fleet");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    for (name, replicas) in [("app", 1), ("shop", 2)] {
        space.apply("Web", name, &json!({"replicas": replicas, "secret": "hunter22"}));
        space.wait(&format!("web/{name}"), "Deployed", "True");
    }
    assert!(operator.stop());
    let patch = space.file("patch.yaml", "spec: {replicas: 2}");
    let (watches, patch) = (path(&watches).to_owned(), path(&patch).to_owned());
    let saved = space.file("saved.yaml", "");
    let before = space.audited().len();
    let save = run(&space, &["fleet", "--watches-file", &watches, "--save", path(&saved)]);
    assert!(save.code == 0 && save.err.contains("2 custom resources are in"), "{save:?}");
    let compare = |files: &[&str]| {
        let args = [&["fleet"], files, &["--watches-file", &watches, "--then-patch", &patch, "-o", "json"]].concat();
        if files.is_empty() {
            return run(&space, &args);
        }
        let mut offline = Command::new(program());
        offline.args(&args).args(["--namespace", &space.name]).env("KUBECONFIG", "/nowhere");
        ran(offline)
    };
    let live = compare(&[]);
    let offline = compare(&[path(&saved)]);
    assert_eq!((live.code, offline.code), (1, 1), "{live:?} {offline:?}");
    assert_eq!(live.json(), offline.json());
    assert!(live.out.contains("app") && !live.out.contains("hunter22"), "{live:?}");
    // The operator's own watch ends late.
    let is_read = |entry: &Value| ["get", "list", "watch"].contains(&entry["verb"].as_str().unwrap());
    eventually("the requests are in the audit log", || {
        let entries = &space.audited()[before..];
        let own: Vec<&Value> = entries.iter().filter(|entry| entry["objectRef"]["resource"] == "webs").collect();
        if own.len() < 2 {
            return Err("not yet".to_owned());
        }
        assert!(own.iter().all(|entry| is_read(entry)), "{own:?}");
        Ok(())
    });
}

/// With `--server`, the live objects are compared with dry runs, so defaults and refusals of the API server count. Nothing is written.
#[test]
fn a_fleet_is_compared_by_dry_runs() {
    let space = Space::new("fleet-server");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    for name in ["app", "shop"] {
        space.apply("Web", name, &json!({"secret": "hunter22"}));
        space.wait(&format!("web/{name}"), "Deployed", "True");
    }
    assert!(operator.stop());
    let compare = |patch: &str| {
        let patch = space.file("patch.yaml", patch);
        let args =
            ["fleet", "--server", "--qps", "200", "--watches-file", path(&watches), "--then-patch", path(&patch)];
        run(&space, &[&args[..], &["-o", "json"]].concat())
    };
    let before = space.audited().len();
    let scaled = compare("spec: {replicas: 3}");
    assert_eq!(scaled.code, 1, "{scaled:?}");
    let changes = scaled.json()["changes"].clone();
    assert_eq!(changes.as_array().map(Vec::len), Some(1), "{changes}");
    assert_eq!(changes[0]["object"]["name"], "{release}-web", "{changes}");
    assert_eq!(changes[0]["fields"], json!([{"path": "spec.replicas", "now": "1", "then": "3", "varies": false}]));
    assert_eq!(changes[0]["customResources"].as_array().map(Vec::len), Some(2), "{changes}");
    let refused = compare("spec: {more: {\"not a key\": x}}");
    assert_eq!(refused.code, 3, "{refused:?}");
    let changes = refused.json()["changes"].clone();
    assert_eq!(
        (&changes[0]["effect"], &changes[0]["object"]["kind"]),
        (&json!("denied"), &json!("ConfigMap")),
        "{changes}"
    );
    assert!(!scaled.out.contains("hunter22") && !refused.out.contains("hunter22"));
    let is_harmless = |entry: &Value| {
        ["get", "list", "watch"].contains(&entry["verb"].as_str().unwrap())
            || entry["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"))
    };
    eventually("the requests are in the audit log", || {
        let entries = &space.audited()[before..];
        let writes = entries.iter().filter(|entry| !is_harmless(entry)).count();
        assert_eq!(writes, 0, "{entries:?}");
        let patches = entries.iter().filter(|entry| entry["verb"] == "patch").count();
        if patches >= 4 { Ok(()) } else { Err(format!("{patches} dry runs")) }
    });
}
