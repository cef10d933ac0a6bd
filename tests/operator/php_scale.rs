//! Workers of a PHP application that follow a queue: the API server takes what the chart makes, with the definition of KEDA, and the
//! autoscaler of Kubernetes scales by a server of external metrics and a Redis. No pod runs, so nothing takes jobs from the queue.

use crate::flux::module;
use crate::harness::{Space, established, eventually, free_port, kubectl, program, repository};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const API: &str = "v1beta1.external.metrics.k8s.io";

/// A Redis, and a server of metrics about it that the API server asks.
struct Metrics {
    redis: u16,
    processes: [Child; 2],
}

impl Metrics {
    fn start(space: &Space) -> Self {
        let (redis, port) = (free_port(), free_port());
        let start = |program: &str, args: &[&str]| {
            let child = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            child.unwrap_or_else(|why| panic!("{program}: {why}"))
        };
        let at = format!("127.0.0.1:{redis}");
        let processes = [
            start("redis-server", &["--port", &redis.to_string(), "--save", "", "--bind", "127.0.0.1"]),
            start("external-metrics", &[&format!("--listen=127.0.0.1:{port}"), &format!("--redis={at}")]),
        ];
        // The API server asks the host that the Service names.
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": space.name},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API}, "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"name": "metrics", "namespace": space.name, "port": port}}});
        let both = json!({"apiVersion": "v1", "kind": "List", "items": [service, api]});
        let metrics = Self { redis, processes };
        kubectl(&["apply", "-f", "-"], Some(&both.to_string())).unwrap();
        eventually("the API is served", || {
            kubectl(&["wait", &format!("apiservice/{API}"), "--for=condition=Available", "--timeout=1s"], None)
        });
        metrics
    }

    /// Carries out a command of Redis.
    fn tell(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.redis)).unwrap();
        write!(stream, "{command}\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        // While an API is not answered, no namespace can be deleted.
        let _ = kubectl(&["delete", "apiservice", API, "--ignore-not-found"], None);
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Waits until a field of an object has the value.
fn is(space: &Space, object: &str, pointer: &str, value: &Value) {
    space.wait_field(object, pointer, value);
}

/// Waits until the status says of which workers something is missing.
fn missing(space: &Space, words: &[&str], not: &[&str]) {
    eventually("status.notScaled", || {
        let app = space.get("phpapp/shop")?;
        let says = app["status"]["notScaled"].as_str().unwrap_or_default().to_owned();
        let fits = words.iter().all(|word| says.contains(word)) && !not.iter().any(|word| says.contains(word));
        if fits { Ok(()) } else { Err(app["status"].to_string()) }
    });
}

fn patch(space: &Space, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    space.kubectl(&["patch", "phpapp", "shop", "--type=merge", "-p", &patch]).unwrap();
}

#[test]
fn workers_follow_their_queues_by_the_autoscaler_of_kubernetes_or_by_keda() {
    let space = Space::new("php-scale");
    let made = Command::new(program()).args(["crd", "charts/php"]).current_dir(repository("")).output().unwrap();
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&String::from_utf8(made.stdout).unwrap())).unwrap();
    established("crd/phpapps.apps.tillerman.dev");
    eventually("the kind is served", || space.kubectl(&["get", "phpapps"]));
    let chart = repository("charts/php").display().to_string();
    let watches = format!("- group: apps.tillerman.dev\n  version: v1alpha1\n  kind: PhpApp\n  chart: {chart}\n");
    let _operator = space.operator(&space.file("watches.yaml", &watches), &["--reconcile-period=1s"]);
    let by_trigger = json!({"trigger": {"type": "redis", "metadata": {"listName": "images"}, "authentication": "cache"}, "target": 5, "min": 0, "max": 3});
    let by_metric =
        json!({"metric": "redis_list_length", "selector": {"list": "jobs"}, "target": 20, "min": 2, "max": 5});
    let worker = |name: &str, scale: &Value| json!({"name": name, "command": ["work"], "scale": scale});
    let spec = json!({"runtime": "fpm", "image": "shop:1", "workers": [worker("mails", &by_metric), worker("images", &by_trigger)]});
    let body = json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp", "metadata": {"name": "shop", "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "--server-side", "--validate=strict", "-f", "-"], Some(&body.to_string())).unwrap();

    let lacks = [
        "Worker mails does not follow its queue, and has 2 pods",
        API,
        "Worker images does not follow its queue, and has 1 pod: the cluster has no KEDA",
    ];
    missing(&space, &lacks, &[]);
    let (mails, images) = ("deployment/shop-worker-mails", "deployment/shop-worker-images");
    is(&space, mails, "/spec/replicas", &json!(2));
    is(&space, images, "/spec/replicas", &json!(1));
    let notes = space.wait("phpapp/shop", "Deployed", "True")["message"].as_str().unwrap_or_default().to_owned();
    assert!(lacks.iter().all(|lack| notes.contains(lack)), "{notes}");

    // KEDA is installed: its definition.
    let keda = module("tests/cluster/tools/keda", "github.com/kedacore/keda/v2");
    let definition = format!("{keda}/config/crd/bases/keda.sh_scaledobjects.yaml");
    kubectl(&["apply", "--server-side", "-f", &definition], None).unwrap();
    established("crd/scaledobjects.keda.sh");
    let scaled = eventually("the ScaledObject is there", || space.get("scaledobjects.keda.sh/shop-worker-images"));
    assert_eq!(
        scaled["spec"],
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop-worker-images"},
        "minReplicaCount": 0, "maxReplicaCount": 3, "triggers": [{"type": "redis", "metadata": {"listName": "images", "listLength": "5"},
            "authenticationRef": {"kind": "TriggerAuthentication", "name": "cache"}}]})
    );
    missing(&space, &["Worker mails"], &["Worker images"]);
    // As KEDA scales to zero. The operator keeps that.
    space.kubectl(&["scale", images, "--replicas=0"]).unwrap();

    // A server of external metrics is installed.
    let metrics = Metrics::start(&space);
    eventually("the autoscaler is there", || space.get("hpa/shop-worker-mails"));
    missing(&space, &[], &["Worker"]);
    metrics.tell(&format!("RPUSH jobs {}", (0..200).map(|job| job.to_string()).collect::<Vec<_>>().join(" ")));
    is(&space, mails, "/spec/replicas", &json!(5));
    // A change of the application leaves both numbers to the autoscalers.
    patch(&space, &json!({"env": [{"name": "REVISION", "value": "2"}]}));
    eventually("the change is applied", || {
        let found = space.get(mails)?["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
        if found.contains("REVISION") { Ok(()) } else { Err(found) }
    });
    is(&space, images, "/spec/template/spec/containers/0/env/2/name", &json!("REVISION"));
    assert_eq!(space.get(mails).unwrap()["spec"]["replicas"], 5);
    assert_eq!(space.get(images).unwrap()["spec"]["replicas"], 0);

    patch(&space, &json!({"maintenance": {"enabled": true}}));
    is(&space, mails, "/spec/replicas", &json!(0));
    is(
        &space,
        "scaledobjects.keda.sh/shop-worker-images",
        "/metadata/annotations/autoscaling.keda.sh~1paused-replicas",
        &json!("0"),
    );
    eventually("the autoscaler is off", || {
        let status = space.get("hpa/shop-worker-mails")?["status"].clone();
        if status.to_string().contains("ScalingDisabled") { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(space.get(mails).unwrap()["spec"]["replicas"], 0);
    patch(&space, &json!({"maintenance": {"enabled": false}}));
    is(&space, mails, "/spec/replicas", &json!(5));

    metrics.tell("DEL jobs");
    is(&space, mails, "/spec/replicas", &json!(2));

    // From one autoscaler to the other.
    patch(&space, &json!({"workers": [worker("mails", &by_trigger), worker("images", &by_trigger)]}));
    eventually("KEDA scales it", || space.get("scaledobjects.keda.sh/shop-worker-mails"));
    space.wait_gone("hpa/shop-worker-mails");
    missing(&space, &[], &["Worker"]);
}
