//! Traces, as a real collector of OpenTelemetry gets them. `make traces` has it built and runs these; without it they are left out.

use crate::harness::{Space, eventually, free_port, repository};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A collector that writes what it gets into a file.
struct Collector {
    child: Child,
    port: u16,
    file: PathBuf,
}

impl Collector {
    fn start(space: &Space) -> Self {
        let (port, file) = (free_port(), space.dir().join("traces.json"));
        let config = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
            "exporters": {"file": {"path": file, "flush_interval": "100ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        });
        let config = space.file("otelcol.json", &config.to_string());
        let log = std::fs::File::create(space.dir().join("otelcol.log")).unwrap();
        let child = Command::new("otelcol")
            .arg("--config")
            .arg(format!("file:{}", config.display()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("otelcol is on PATH: make traces");
        let collector = Self { child, port, file };
        eventually("the collector listens", || std::net::TcpStream::connect(("127.0.0.1", port)));
        collector
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// All spans that are complete in its file, by id.
    fn spans(&self) -> BTreeMap<String, Span> {
        let batches = self.text();
        let batches = batches.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut spans = BTreeMap::new();
        for batch in batches {
            for resource in batch["resourceSpans"].as_array().into_iter().flatten() {
                let of = attributes(&resource["resource"]);
                for span in resource["scopeSpans"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .flat_map(|scope| scope["spans"].as_array().cloned().unwrap_or_default())
                {
                    let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
                    let read = Span {
                        trace: text("traceId"),
                        parent: text("parentSpanId"),
                        name: text("name"),
                        failed: span["status"]["code"] == 2,
                        events: span["events"].as_array().map_or(0, Vec::len),
                        service: of["service.name"].clone(),
                        attributes: attributes(&span),
                    };
                    spans.insert(text("spanId"), read);
                }
            }
        }
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Debug)]
struct Span {
    trace: String,
    parent: String,
    name: String,
    failed: bool,
    events: usize,
    service: String,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn is(&self, wanted: &[(&str, &str)]) -> bool {
        wanted.iter().all(|(name, value)| self.attributes.get(*name).is_some_and(|found| found == value))
    }
}

/// As texts, numbers too.
fn attributes(of: &Value) -> BTreeMap<String, String> {
    let pairs = of["attributes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| {
        let value = value.as_object().and_then(|v| v.values().next()).cloned().unwrap_or_default();
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    pairs.iter().map(|pair| (pair["key"].as_str().unwrap_or_default().to_owned(), text(&pair["value"]))).collect()
}

#[test]
#[ignore = "needs a collector: make traces"]
fn a_pass_is_a_trace_with_its_rendering_and_its_requests_and_no_secret() {
    let mut space = Space::new("traces");
    let collector = Collector::start(&space);
    space.env = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{}", collector.port).into()),
        ("OTEL_SERVICE_NAME", "traced".into()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".into()),
    ];
    let chart = repository("tests/charts/valued");
    let watches = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n  allow: [valuesFrom]\n",
        chart.display()
    );
    let operator = space.operator(&space.file("watches.yaml", &watches), &["--leader-elect"]);
    space.kubectl(&["create", "secret", "generic", "login", "--from-literal=pw=Canary-zq7v91"]).unwrap();
    let from = json!([{"kind": "Secret", "name": "login", "key": "pw", "targetPath": "password"}]).to_string();
    let apply = |mode: &str| {
        let spec = json!({"mode": mode, "size": mode});
        space.apply_with("Web", "app", &json!({"tillerman.dev/values-from": from}), &spec);
    };
    apply("ok");
    space.wait("web/app", "Deployed", "True");
    // The API server refuses what it renders, and quotes it.
    apply("invalid");
    space.wait("web/app", "ReleaseFailed", "True");
    // It cannot be rendered, and says why with the value.
    apply("fail");
    space.wait("web/app", "Stalled", "True");
    operator.settle();
    assert!(operator.stop(), "it sends what is left, and ends");

    let spans = collector.spans();
    let one = |wanted: &[(&str, &str)]| -> (String, Span) {
        let found = spans.iter().find(|(_, span)| span.is(wanted));
        let Some((id, span)) = found else { panic!("no {wanted:?} in {spans:#?}") };
        (id.clone(), span.clone())
    };
    let app = [("kind", "Web"), ("namespace", space.name.as_str()), ("name", "app")];
    let pass = |more: &[(&str, &str)]| one(&[&app, more].concat());
    let (install, span) = pass(&[("step", "install"), ("outcome", "success"), ("revision", "1")]);
    assert_eq!((span.parent.as_str(), span.name.as_str(), span.failed), ("", "pass", false));
    assert_eq!(span.service, "traced");
    let (refused, span) = pass(&[("step", "upgrade"), ("outcome", "Invalid"), ("revision", "2")]);
    assert!(span.parent.is_empty() && span.failed, "{span:?}");
    let (unrendered, span) = pass(&[("outcome", "RenderError")]);
    assert!(span.parent.is_empty() && span.failed, "{span:?}");

    let children = |parent: &str| {
        let of = spans.values().filter(|span| span.parent == parent);
        assert!(of.clone().all(|span| span.trace == spans[parent].trace), "a trace is one");
        of.cloned().collect::<Vec<_>>()
    };
    let names = |parent: &str| children(parent).into_iter().map(|span| span.name).collect::<BTreeSet<_>>();
    let requests =
        ["create secrets", "apply configmaps", "apply services", "apply secrets", "patch webs", "patch webs/status"];
    for name in requests.into_iter().chain(["render"]) {
        assert!(names(&install).contains(name), "{name} is not in {:?}", names(&install));
    }
    let failed = |parent: &str| children(parent).into_iter().filter(|span| span.failed).collect::<Vec<_>>();
    assert!(failed(&install).is_empty());
    let [request] = &failed(&refused)[..] else { panic!("{:?}", failed(&refused)) };
    let expected = [("verb", "apply"), ("resource", "services"), ("name", "app"), ("http.response.status_code", "422")];
    assert!(request.is(&expected), "{request:?}");
    let [rendering] = &failed(&unrendered)[..] else { panic!("{:?}", failed(&unrendered)) };
    assert!(rendering.name == "render" && rendering.is(&[("chart", "valued")]), "{rendering:?}");

    let roots = spans.values().filter(|span| span.parent.is_empty()).map(|span| span.name.as_str());
    assert_eq!(roots.collect::<BTreeSet<_>>(), BTreeSet::from(["pass"]), "watches and the lease are no traces");
    // Lines of the log are not a part of traces, and neither is anything that came from a Secret.
    assert!(spans.values().all(|span| span.events == 0));
    let text = collector.text();
    for part in ["Canary", "zq7v", "Q2FuYXJ5"] {
        assert!(!text.contains(part), "{part}");
    }
}

#[test]
#[ignore = "needs a collector: make traces"]
fn a_sampler_is_obeyed_and_a_collector_that_is_away_is_said_once() {
    let mut space = Space::new("sampled");
    let collector = Collector::start(&space);
    let endpoint = |port: u16| ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}").into());
    let soon = ("OTEL_BSP_SCHEDULE_DELAY", "100".into());
    space.env = vec![endpoint(collector.port), soon.clone(), ("OTEL_TRACES_SAMPLER", "always_off".into())];
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    assert!(operator.stop());
    assert_eq!(collector.text(), "");
    space.env = vec![endpoint(free_port()), soon];
    let operator = space.operator(&watches, &[]);
    for replicas in 2..5 {
        space.apply("Web", "app", &json!({"replicas": replicas}));
        space.wait_field("deployment/app-web", "/spec/replicas", &json!(replicas));
        operator.settle();
    }
    assert_eq!(operator.log().matches("traces cannot be sent").count(), 1, "{}", operator.log());
    assert!(operator.stop());
}
