//! Flags, environment and files of helm-operator: a setup of operator-sdk's image runs with ours.

use crate::harness::{MANAGER, Operator, Space, eventually, kubectl, repository};
use serde_json::json;
use std::process::Command;

/// The working directory of an operator-sdk image: watches.yaml with a chart beside it.
fn project(space: &Space) {
    let charts = space.dir().join("helm-charts");
    std::fs::create_dir_all(&charts).unwrap();
    std::os::unix::fs::symlink(repository("tests/charts/web"), charts.join("web")).unwrap();
    let text = "# Use the 'create api' subcommand to add watches to this file.\n- group: test.tillerman.dev\n  version: v1\n  \
                kind: Web\n  chart: helm-charts/web\n#+kubebuilder:scaffold:watch\n";
    space.file("watches.yaml", text);
}

/// `/metrics` by https: the status and the text.
fn scrape(operator: &Operator, token: Option<&str>) -> (String, String) {
    let url = format!("https://127.0.0.1:{}/metrics", operator.metrics_port());
    let mut curl = Command::new("curl");
    curl.args(["-sk", "--max-time", "20", "-w", "\n%{http_code}", &url]);
    if let Some(token) = token {
        curl.args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    let text = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    let (body, code) = text.rsplit_once('\n').unwrap();
    (code.to_owned(), body.to_owned())
}

#[test]
fn a_deployment_of_operator_sdk_starts_with_only_its_image_changed() {
    let space = Space::new("dropin");
    project(&space);
    let kubeconfig = space.kubeconfig(None);
    let env = [("KUBECONFIG", kubeconfig.to_str().unwrap()), ("WATCH_NAMESPACE", &space.name)];
    let operator = space.operator_as(&MANAGER, &env);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    eventually("it is ready", || operator.ready());
    let lease = space.get("lease/memcached-operator").unwrap();
    assert!(!lease["spec"]["holderIdentity"].as_str().unwrap().is_empty(), "{lease}");
    // Metrics for those who may see them.
    assert_eq!(scrape(&operator, None), ("401".to_owned(), "Unauthorized".to_owned()));
    assert_eq!(scrape(&operator, Some("nonsense")).0, "401");
    space.kubectl(&["create", "serviceaccount", "prometheus"]).unwrap();
    let token = space.kubectl(&["create", "token", "prometheus"]).unwrap();
    let user = format!("system:serviceaccount:{}:prometheus", space.name);
    let denied = ("403".to_owned(), format!("Authorization denied for user {user}"));
    assert_eq!(scrape(&operator, Some(token.trim())), denied);
    let role = format!("{}-metrics", space.name);
    kubectl(&["create", "clusterrole", &role, "--verb=get", "--non-resource-url=/metrics"], None).unwrap();
    kubectl(
        &["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &format!("--user={user}")],
        None,
    )
    .unwrap();
    let text = eventually("the right is seen", || match scrape(&operator, Some(token.trim())) {
        (code, text) if code == "200" => Ok(text),
        other => Err(format!("{other:?}")),
    });
    assert!(text.contains("controller_runtime_reconcile_total{controller=\"web-controller\""), "{text}");
    // What was allowed is remembered for a while.
    let reviews = || space.requests().iter().filter(|r| r.contains("reviews")).count();
    let before = reviews();
    assert_eq!(scrape(&operator, Some(token.trim())).0, "200");
    assert_eq!(reviews(), before);
    assert!(operator.stop());
}

/// The version of HTTP that a client gets which offers both, and one that starts with HTTP/2 unasked.
fn versions(operator: &Operator, scheme: &str) -> (String, String) {
    let url = format!("{scheme}://127.0.0.1:{}/metrics", operator.metrics_port());
    let ask = |how: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sk", "--max-time", "20", how, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", &url]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    (ask("--http2"), ask("--http2-prior-knowledge"))
}

#[test]
fn http_2_is_served_when_it_is_enabled_and_not_otherwise() {
    let space = Space::new("http2");
    let watches = space.watches(&[("Web", "web")]);
    let got = |more: &[&str], scheme: &str| {
        let operator = space.operator(&watches, more);
        let got = eventually("it serves", || match versions(&operator, scheme) {
            (first, second) if first.ends_with(" 000") => Err(format!("{first} {second}")),
            versions => Ok(versions),
        });
        assert!(operator.stop());
        got
    };
    let (negotiated, unasked) = got(&["--metrics-secure"], "https");
    assert_eq!(negotiated, "1.1 200");
    assert_ne!(unasked, "2 200");
    let (_, unasked) = got(&[], "http");
    assert_ne!(unasked, "2 200");
    let (negotiated, _) = got(&["--metrics-secure", "--enable-http2"], "https");
    assert_eq!(negotiated, "2 200");
}

#[test]
fn every_flag_of_helm_operator_is_accepted() {
    let space = Space::new("flags");
    project(&space);
    let args = [
        "run",
        "--watches-file",
        "./watches.yaml",
        "--reconcile-period=30s",
        "--max-concurrent-reconciles=2",
        "--enable-leader-election=f",
        "--leader-election-namespace=default",
        "--metrics-addr=127.0.0.1:METRICS",
        "--health-probe-bind-address=127.0.0.1:PROBES",
        "--metrics-secure=false",
        "--metrics-require-rbac=False",
        "--enable-http2",
        "--suppress-override-values",
        "--zap-devel=true",
        "--zap-encoder=console",
        "--zap-log-level=3",
        "--zap-log-level=debug",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=iso8601",
    ];
    let kubeconfig = space.kubeconfig(None);
    let namespaces = format!(" {} , default", space.name);
    let env = [("KUBECONFIG", kubeconfig.to_str().unwrap()), ("WATCH_NAMESPACE", &namespaces)];
    let operator = space.operator_as(&args, &env);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    eventually("it is ready", || operator.ready());
    assert!(
        operator.metrics().contains("controller_runtime_max_concurrent_reconciles{controller=\"web-controller\"} 2")
    );
    let log = operator.log();
    let line = log.lines().find(|l| l.contains("connected to the API server")).expect("it says so");
    assert!(!line.starts_with('{') && line.as_bytes()[23] == b'Z', "{line}");
}

/// Whether a line is logged must not depend on other events of the same thread, with traces or without.
#[test]
fn at_the_usual_level_no_line_of_the_log_is_lost() {
    no_line_is_lost(&Space::new("lines"));
    let mut space = Space::new("lines-traced");
    // Nobody listens there.
    space.env.push(("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9".into()));
    no_line_is_lost(&space);
}

fn no_line_is_lost(space: &Space) {
    let watches = space.watches(&[("Web", "web")]);
    let names: Vec<String> = (0..40).map(|i| format!("app-{i}-x")).collect();
    let operator = space.operator_with(&watches, &space.kubeconfig(None), &["--zap-log-level=info"]);
    for name in &names {
        space.apply("Web", name, &json!({}));
    }
    for name in &names {
        space.wait_web(name);
    }
    operator.settle();
    let log = operator.log();
    let lost: Vec<&String> =
        names.iter().filter(|name| !log.lines().any(|l| l.contains("\"pass done\"") && l.contains(*name))).collect();
    assert!(lost.is_empty(), "{lost:?} in\n{log}");
    for words in ["connected to the API server", "watching custom resources", "release records are known"] {
        assert!(log.contains(words), "{words} in\n{log}");
    }
}

#[test]
fn a_flag_that_makes_no_sense_is_refused_in_helm_operators_words() {
    let space = Space::new("wrong");
    project(&space);
    for (flags, expected) in [
        (&["--metrics-require-rbac"][..], "--metrics-secure flag is required when --metrics-require-rbac is present"),
        (&["--zap-log-level=loud"], "invalid log level \"loud\""),
        (&["--zap-encoder=xml"], "invalid encoder value \"xml\""),
        (&["--zap-time-encoding=sundial"], "invalid time encoding \"sundial\""),
        (&["--leader-elect=maybe"], "invalid argument \"maybe\" for \"--leader-elect\" flag"),
        (&["--reconcile-period=soon"], "invalid duration \"soon\""),
        (&["--metrics-bind-address=nowhere"], "invalid address \"nowhere\""),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tillerman"))
            .arg("run")
            .args(flags)
            .current_dir(space.dir())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{flags:?}: {text}");
    }
}

#[test]
fn an_instance_that_waits_for_its_turn_is_ready_so_that_a_roll_out_ends() {
    let space = Space::new("turn");
    project(&space);
    let args = ["run", "--leader-elect", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:PROBES"];
    let kubeconfig = space.kubeconfig(None);
    // The lease is named as helm-operator names it where only OPERATOR_NAME is given.
    let env = [
        ("KUBECONFIG", kubeconfig.to_str().unwrap()),
        ("WATCH_NAMESPACE", &space.name),
        ("OPERATOR_NAME", "old-operator"),
    ];
    let first = space.operator_as(&args, &env);
    eventually("the first leads", || first.ready());
    let holder = || space.get("lease/old-operator").map(|l| l["spec"]["holderIdentity"].clone());
    let old = eventually("the lease is taken", holder);
    let second = space.operator_as(&args, &env);
    eventually("the second waits", || {
        if second.log().contains("another instance leads") { Ok(()) } else { Err(second.log()) }
    });
    assert_eq!(second.ready().unwrap(), "ok");
    assert_eq!(holder().unwrap(), old);
    // As the roll-out continues.
    assert!(first.stop());
    eventually("the second leads", || {
        if second.log().contains("this instance leads") { Ok(()) } else { Err(second.log()) }
    });
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
}

#[test]
fn without_watching_dependents_drift_is_repaired_when_the_period_is_over() {
    let space = Space::new("deaf");
    let chart = repository("tests/charts/web");
    let watches = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n  watchDependentResources: false\n  reconcilePeriod: 1h\n",
        chart.display()
    );
    let operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    operator.settle();
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    // The point is that nothing happens.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(space.get("configmap/app-config").is_err());
    // The annotation of the custom resource wins over the file.
    let annotation = "helm.sdk.operatorframework.io/reconcile-period=1s";
    space.kubectl(&["annotate", "web/app", annotation]).unwrap();
    eventually("it comes back", || space.get("configmap/app-config"));
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    eventually("it comes back when the period is over", || space.get("configmap/app-config"));
}

#[test]
fn without_watching_dependents_readiness_is_still_reported() {
    let space = Space::new("unwatched");
    let watches = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n  watchDependentResources: false\n  reconcilePeriod: 1h\n",
        repository("tests/charts/objects").display()
    );
    let operator = space.operator(&space.file("watches.yaml", &watches), &[]);
    let balancer = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lb"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    space.apply("Web", "app", &json!({"objects": [balancer]}));
    space.wait("web/app", "Ready", "False");
    operator.settle();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}).to_string();
    space.kubectl(&["patch", "service/lb", "--subresource=status", "--type=merge", "-p", &status]).unwrap();
    space.wait("web/app", "Ready", "True");
}

/// As helm-operator shows it, but for Secrets.
#[test]
fn the_manifest_stands_in_the_status_only_when_a_flag_says_so() {
    let space = Space::new("manifest");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    let shown = || space.get("web/app").unwrap()["status"]["deployedRelease"].clone();
    assert_eq!(shown(), json!({"name": "app"}));
    assert!(operator.stop());
    let operator = space.operator(&watches, &["--manifest-in-status"]);
    space.apply("Web", "app", &json!({"replicas": 2}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    let manifest = shown()["manifest"].as_str().unwrap().to_owned();
    assert!(manifest.contains("# Source: web/templates/") && manifest.contains("replicas: 2"), "{manifest}");
    operator.settle();
    space.kubectl(&["delete", "service/app-web"]).unwrap();
    eventually("it comes back", || space.get("service/app-web"));
    space.wait_event("DriftRepaired");
    operator.settle();
    assert_eq!(shown()["manifest"], json!(manifest));
}
