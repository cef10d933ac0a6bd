//! The cluster, namespaces, operator processes, and waiting.

use std::fmt::Display;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api;

/// Nothing here takes this long on two busy cores, unless it never ends.
const DEADLINE: Duration = Duration::from_secs(240);

/// Between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How old the page of metrics may be, in milliseconds; a second would make each look at it a second long.
const PAGE: &str = "20";

const RBAC: &str = "rbac.authorization.k8s.io";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The folder of the cluster that tests/cluster/with.sh started.
pub fn cluster_dir() -> PathBuf {
    PathBuf::from(std::env::var_os("TILLERMAN_TEST_CLUSTER").expect("run me with tests/cluster/with.sh"))
}

/// A folder of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The program under test: that of the environment variable `TILLERMAN`, or else the one that was built with the tests.
pub fn program() -> String {
    std::env::var("TILLERMAN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tillerman").to_owned())
}

/// Runs kubectl as admin; its output, or its complaint.
pub fn kubectl(args: &[&str], input: Option<&str>) -> Result<String, String> {
    command("kubectl", args, input)
}

fn command(program: &str, args: &[&str], input: Option<&str>) -> Result<String, String> {
    // `web/app` could be somebody else's kind of that name, and kubectl's cache of kinds could be another cluster's.
    let full = |arg: &&str| match arg.split_once('/') {
        Some((kind @ ("web" | "failing" | "other"), name)) => format!("{kind}s.test.tillerman.dev/{name}"),
        _ => (*arg).to_owned(),
    };
    let mut child = Command::new(program)
        .args(args.iter().map(full))
        .env("KUBECACHEDIR", std::env::temp_dir().join(format!("tillerman-test-kubectl-{}", std::process::id())))
        .env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl and helm are on PATH");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.unwrap_or_default().as_bytes()).expect("it reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr))) }
}

/// Polls until the condition holds; fails with its last answer.
pub fn eventually<T, E: Display>(what: &str, look: impl FnMut() -> Result<T, E>) -> T {
    eventually_within(DEADLINE.as_secs(), what, look)
}

/// Waits until a definition (`crd/NAME`) is served. In the moment before it has conditions `kubectl wait` fails of itself.
pub fn established(definition: &str) {
    let wait = ["wait", "--for=condition=Established", definition, "--timeout=30s"];
    eventually("the definition is established", || kubectl(&wait, None));
}

/// [`eventually`], within some seconds.
pub fn eventually_within<T, E: Display>(seconds: u64, what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let since = Instant::now();
    loop {
        let began = Instant::now();
        match look() {
            Ok(found) => return found,
            Err(why) if since.elapsed() > Duration::from_secs(seconds) => {
                panic!("{what}: not within {seconds} s: {why}")
            }
            // The condition needs the same cores, so a long wait polls less often.
            Err(_) => std::thread::sleep((began.elapsed() * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)),
        }
    }
}

/// Defines the tests' own kinds, once.
fn define_kinds() {
    static DEFINED: Once = Once::new();
    DEFINED.call_once(|| {
        for kind in ["Web", "Failing", "Other"] {
            let path = format!("{DEFINITIONS}/{}s.test.tillerman.dev", kind.to_lowercase());
            api::apply(&path, &definition("test.tillerman.dev", kind)).unwrap();
            eventually(&format!("{kind} is established"), || {
                let found = api::get(&path)?;
                let conditions = found.pointer("/status/conditions").and_then(Value::as_array);
                let is_so = |c: &Value| c["type"] == "Established" && c["status"] == "True";
                if conditions.is_some_and(|all| all.iter().any(is_so)) { Ok(()) } else { Err(found.to_string()) }
            });
        }
    });
}

/// A namespace for one test.
pub struct Space {
    /// Its name.
    pub name: String,
    /// The user under whom its operators act: one of the same name, unless a test says another.
    pub user: String,
    /// What else its operators see in their environment.
    pub env: Vec<(&'static str, PathBuf)>,
    dir: PathBuf,
    audit: Mutex<Audit>,
}

/// The part of the audit log that was read: up to where, and the requests of this operator.
#[derive(Default)]
struct Audit {
    read: u64,
    entries: Vec<Value>,
}

impl Space {
    /// A new one, with the test kinds defined.
    pub fn new(test: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{test}-{}-{}", std::process::id() % 10000, NEXT.fetch_add(1, Ordering::Relaxed));
        define_kinds();
        api::create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).unwrap();
        let user = json!([{"kind": "User", "apiGroup": RBAC, "name": name}]);
        let role = json!({"kind": "ClusterRole", "apiGroup": RBAC, "name": "cluster-admin"});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": user});
        api::create(&format!("/apis/{RBAC}/v1/clusterrolebindings"), &binding).unwrap();
        let anything = json!({"verb": "*", "group": "*", "version": "*", "resource": "*"});
        let question = json!({"spec": {"user": name, "resourceAttributes": anything}});
        eventually("the API server knows of the rights", || {
            let answer = api::create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &question)?;
            if answer["status"]["allowed"] == true { Ok(()) } else { Err(answer["status"].to_string()) }
        });
        let dir = std::env::temp_dir().join(format!("tillerman-test-{name}"));
        std::fs::create_dir_all(&dir).unwrap();
        Self { user: name.clone(), name, env: Vec::new(), dir, audit: Mutex::default() }
    }

    /// Takes the operator's rights, or gives only those of a role.
    pub fn restrict(&self, rules: &[&str]) {
        kubectl(&["delete", "clusterrolebinding", &self.name], None).unwrap();
        let mut role = vec!["create", "clusterrole", &self.name];
        role.extend(rules);
        kubectl(&role, None).unwrap();
        let (role, user) = (format!("--clusterrole={}", self.name), format!("--user={}", self.name));
        kubectl(&["create", "clusterrolebinding", &self.name, &role, &user], None).unwrap();
    }

    /// A file of this test, with its folders.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A `watches.yaml` with these kinds (of group test.tillerman.dev) and charts (folders of tests/charts, absolute, or links).
    pub fn watches(&self, kinds: &[(&str, &str)]) -> PathBuf {
        self.watches_with(kinds, "")
    }

    /// The same, with further fields of each entry, each line of them indented.
    pub fn watches_with(&self, kinds: &[(&str, &str)], fields: &str) -> PathBuf {
        let charts = repository("tests/charts");
        let entry = |(kind, chart): &(&str, &str)| {
            let path = charts.join(chart).display().to_string();
            let chart = if chart.contains("://") { *chart } else { &path };
            format!("- group: test.tillerman.dev\n  version: v1\n  kind: {kind}\n  chart: {chart}\n{fields}")
        };
        self.file("watches.yaml", &kinds.iter().map(entry).collect::<String>())
    }

    /// A kubeconfig that acts as this test's user.
    pub fn kubeconfig(&self, server: Option<&str>) -> PathBuf {
        let text = std::fs::read_to_string(cluster_dir().join("admin.kubeconfig")).unwrap();
        let mut config: Value = kubectl_yaml_to_json(&text);
        config["users"][0]["user"]["as"] = json!(self.user);
        // As in a pod, the operator's own namespace is known.
        config["contexts"][0]["context"]["namespace"] = json!(self.name);
        if let Some(server) = server {
            config["clusters"][0]["cluster"]["server"] = json!(server);
        }
        self.file("kubeconfig", &config.to_string())
    }

    /// Applies a custom resource.
    pub fn apply(&self, kind: &str, name: &str, spec: &Value) {
        let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": kind,
            "metadata": {"name": name, "namespace": self.name}, "spec": spec});
        api::apply_object(&self.name, &body).unwrap();
    }

    /// Applies a custom resource with annotations.
    pub fn apply_with(&self, kind: &str, name: &str, annotations: &Value, spec: &Value) {
        let body = json!({"apiVersion": "test.tillerman.dev/v1", "kind": kind,
            "metadata": {"name": name, "namespace": self.name, "annotations": annotations}, "spec": spec});
        api::apply_object(&self.name, &body).unwrap();
    }

    /// kubectl in this namespace.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let mut all = vec!["-n", &self.name];
        all.extend(args);
        kubectl(&all, None)
    }

    /// Deletes an object `kind/name` of this namespace, as `kubectl delete --wait=false` does.
    pub fn delete(&self, object: &str) {
        api::delete(&self.name, object, None).unwrap();
    }

    /// helm in this namespace.
    pub fn helm(&self, args: &[&str]) -> Result<String, String> {
        let mut all = vec!["-n", &self.name];
        all.extend(args);
        command("helm", &all, None)
    }

    /// An object of this namespace.
    pub fn get(&self, object: &str) -> Result<Value, String> {
        if let Some(found) = api::object(&self.name, object) {
            return found;
        }
        let text = self.kubectl(&["get", object, "-o", "json", "--show-managed-fields"])?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }

    /// The objects of a kind.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>, String> {
        api::objects(&self.name, kind)
    }

    /// Ends a pod of a Job, the first that matches, as a kubelet would.
    pub fn end_pod_of(&self, job: &str, phase: &str, pleases: impl Fn(&Value) -> bool) -> Result<(), String> {
        let pods = self.list("pods")?;
        let found = pods.iter().find(|pod| pod["metadata"]["labels"]["job-name"] == job && pleases(pod));
        let name = found.and_then(|pod| pod["metadata"]["name"].as_str()).ok_or("there is none yet")?;
        self.end_pod(name, phase)
    }

    /// Ends a pod, as a kubelet would.
    pub fn end_pod(&self, name: &str, phase: &str) -> Result<(), String> {
        let patch = json!({"status": {"phase": phase}});
        api::patch_status(&self.name, &format!("pod/{name}"), &patch).map(|_| ())
    }

    /// A condition of a custom resource.
    pub fn condition(&self, object: &str, name: &str) -> Result<Value, String> {
        let object = self.get(object)?;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let found = conditions.iter().find(|c| c["type"] == name).cloned();
        found.ok_or_else(|| format!("no condition {name} in {conditions:?}"))
    }

    /// Waits for a condition to have a status; the condition.
    pub fn wait(&self, object: &str, name: &str, status: &str) -> Value {
        eventually(&format!("{object}: {name}={status}"), || {
            let condition = self.condition(object, name)?;
            if condition["status"] == status { Ok(condition) } else { Err(condition.to_string()) }
        })
    }

    /// Waits until a field of an object has a value.
    pub fn wait_field(&self, object: &str, pointer: &str, value: &Value) {
        eventually(&format!("{object}: {pointer} = {value}"), || {
            let object = self.get(object)?;
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            if found == value { Ok(()) } else { Err(format!("it is {found}")) }
        });
    }

    /// Waits until an object is gone.
    pub fn wait_gone(&self, object: &str) {
        eventually(&format!("{object} is gone"), || match self.get(object) {
            Ok(_) => Err("it is there".to_owned()),
            Err(why) if why.contains("NotFound") => Ok(()),
            Err(why) => Err(why),
        });
    }

    /// Waits until a Web is as ready as it can be where no pod ever runs.
    pub fn wait_web(&self, name: &str) {
        let expected = format!("Deployment {name}-web: 0 of 1 replicas are available");
        eventually(&format!("web {name} is deployed"), || {
            let ready = self.condition(&format!("web/{name}"), "Ready")?;
            if ready["message"] == expected { Ok(()) } else { Err(ready.to_string()) }
        });
    }

    /// Waits for an event with a reason.
    pub fn wait_event(&self, reason: &str) -> String {
        eventually(&format!("event {reason}"), || {
            let events = self.list("events")?;
            let found = events.iter().find(|e| e["reason"] == reason);
            found.map(|e| e["message"].as_str().unwrap_or_default().to_owned()).ok_or_else(|| {
                format!("there are {:?}", events.iter().map(|e| e["reason"].clone()).collect::<Vec<_>>())
            })
        })
    }

    /// What the audit log has of this test's operator: requests that were answered, and watches when they begin and end.
    pub fn audited(&self) -> Vec<Value> {
        let mut audit = self.audit.lock().expect("nobody panicked");
        let mut log = std::fs::File::open(cluster_dir().join("audit.log")).unwrap();
        log.seek(SeekFrom::Start(audit.read)).unwrap();
        let mut text = Vec::new();
        log.read_to_end(&mut text).unwrap();
        // The last line may be half written.
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        audit.read += text.len() as u64;
        // To parse what is of others, too, would take seconds.
        let ours = str::from_utf8(&text).unwrap().lines().filter(|line| line.contains(&self.name));
        let ours = ours.map(|line| serde_json::from_str(line).expect("a line is a whole entry"));
        let ours = ours.filter(|entry: &Value| entry["impersonatedUser"]["username"] == self.user.as_str());
        audit.entries.extend(ours);
        audit.entries.clone()
    }

    /// What this test's operator asked of the API server, as `verb resource`; watches apart.
    pub fn requests(&self) -> Vec<String> {
        let of_ours = |entry: &Value| -> Option<String> {
            let verb = entry["verb"].as_str()?;
            let target = entry.pointer("/objectRef/resource").or(entry.get("requestURI"))?.as_str()?;
            (entry["stage"] == "ResponseComplete" && verb != "watch").then(|| format!("{verb} {target}"))
        };
        self.audited().iter().filter_map(of_ours).collect()
    }

    /// Starts an operator for this namespace.
    pub fn operator(&self, watches: &Path, more: &[&str]) -> Operator {
        self.operator_with(watches, &self.kubeconfig(None), more)
    }

    /// Starts an operator in the folder of this test with exactly these arguments, in which `METRICS` and `PROBES` stand for ports.
    pub fn operator_as(&self, args: &[&str], env: &[(&str, &str)]) -> Operator {
        self.program_as(&program(), args, env)
    }

    /// [`Space::operator_as`] of another program.
    pub fn program_as(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> Operator {
        let (metrics, probes) = (free_port(), free_port());
        let log = self.dir.join(format!("operator-{metrics}.log"));
        let port = |arg: &str| arg.replace("METRICS", &metrics.to_string()).replace("PROBES", &probes.to_string());
        let child = Command::new(program)
            .args(args.iter().map(|arg| port(arg)))
            .current_dir(&self.dir)
            .env_remove("RUST_LOG")
            .env("TILLERMAN_HARM_PAGE", PAGE)
            .envs(env.iter().copied())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let operator = Operator { child, log, metrics, probes };
        eventually("the operator answers", || Operator::http(operator.probes, "/healthz"));
        operator
    }

    /// A chart of which no Secret can hold a record, with the value `greeting`: its folder.
    pub fn large_chart(&self) -> String {
        let chart = self.dir.join("large");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: large\nversion: 0.1.0\n").unwrap();
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {greeting: {{ .Values.greeting }}}\n";
        std::fs::write(chart.join("templates/all.yaml"), template).unwrap();
        // Noise, which gzip does not make smaller.
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        std::fs::write(chart.join("noise"), noise.take(1_500_000).collect::<Vec<u8>>()).unwrap();
        chart.display().to_string()
    }

    /// The folder of this test's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts an operator with a kubeconfig of its own.
    pub fn operator_with(&self, watches: &Path, kubeconfig: &Path, more: &[&str]) -> Operator {
        self.program_with(&program(), watches, kubeconfig, more)
    }

    /// [`Space::operator_with`] of another program.
    pub fn program_with(&self, program: &str, watches: &Path, kubeconfig: &Path, more: &[&str]) -> Operator {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = self.dir.join(format!("operator-{}.log", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = std::fs::File::create(&log).unwrap();
        let (metrics, probes) = (free_port(), free_port());
        let child = Command::new(program)
            .arg("run")
            .arg("--watches-file")
            .arg(watches)
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"))
            .arg("--zap-log-level=debug")
            .args(more)
            .env("KUBECONFIG", kubeconfig)
            .env("WATCH_NAMESPACE", &self.name)
            .env("TILLERMAN_HARM_PAGE", PAGE)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        let operator = Operator { child, log, metrics, probes };
        eventually("the operator answers", || Operator::http(operator.probes, "/healthz"));
        operator
    }
}

impl Space {
    /// Prints the last lines of the newest log.
    fn show_end_of_log(&self) {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let newest = logs.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
        let text = newest.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(12)..] {
            eprintln!("  {line}");
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the operator's log is in {}", self.dir.display());
            self.show_end_of_log();
            return;
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        // The namespace stays: its custom resources have a finalizer and their operator is gone, and the cluster ends soon.
    }
}

/// A running operator; killed when dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
    metrics: u16,
    probes: u16,
}

impl Operator {
    /// A page of it; an error unless the status is 200.
    fn http(port: u16, path: &str) -> Result<String, String> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(answer) }
    }

    /// KiB that it had at its peak.
    pub fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The port of its metrics.
    pub fn metrics_port(&self) -> u16 {
        self.metrics
    }

    /// `/metrics`.
    pub fn metrics(&self) -> String {
        Self::http(self.metrics, "/metrics").unwrap()
    }

    /// The port of its probes.
    pub fn probes_port(&self) -> u16 {
        self.probes
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `/healthz`.
    pub fn healthy(&self) -> Result<String, String> {
        Self::http(self.probes, "/healthz")
    }

    /// `/readyz`.
    pub fn ready(&self) -> Result<String, String> {
        Self::http(self.probes, "/readyz")
    }

    /// All requests it has sent, watches too.
    pub fn sent(&self) -> u64 {
        let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        self.metrics().lines().filter(|l| l.starts_with("rest_client_requests_total")).map(count).sum()
    }

    /// Waits until it sends nothing more for a second; how many requests it had sent.
    pub fn settle(&self) -> u64 {
        let (mut sent, mut since) = (self.sent(), Instant::now());
        // A program that was not built for tests shows metrics that are up to a second old. A lease is renewed every two seconds.
        let still = Duration::from_millis(if std::env::var_os("TILLERMAN").is_some() { 1500 } else { 1000 });
        eventually("the operator comes to rest", || {
            let now = self.sent();
            if now != sent {
                (sent, since) = (now, Instant::now());
            }
            if since.elapsed() >= still && self.ready().is_ok() { Ok(sent) } else { Err(sent) }
        })
    }

    /// Comes to rest and stays so: for so many seconds nobody sends a request in the namespace. The test is that nothing happens, so
    /// there is no condition to wait for.
    pub fn rests(&self, space: &Space, seconds: u64) {
        let before = self.settle();
        let audited = space.requests().len();
        std::thread::sleep(Duration::from_secs(seconds));
        assert_eq!(self.sent(), before);
        assert_eq!(space.requests().len(), audited, "{:?}", &space.requests()[audited..]);
    }

    /// The file of its log.
    pub fn log_file(&self) -> PathBuf {
        self.log.clone()
    }

    /// Its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to stop, waits for it, and returns whether it ended well.
    pub fn stop(mut self) -> bool {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        self.child.wait().is_ok_and(|status| status.success())
    }

    /// Sends it a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        assert!(super::signal::signal(self.child.id(), signal));
    }

    /// Waits until it has ended; whether it ended well.
    pub fn ended(mut self) -> bool {
        eventually("it ends", || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status.success()),
            other => Err(format!("{other:?}")),
        })
    }

    /// Kills it on the spot.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The entry point and arguments of testdata/helm/memcached-operator in operator-sdk 1.42.3 (Dockerfile, config/manager and
/// config/default), but for ports.
pub const MANAGER: [&str; 8] = [
    "run",
    "--watches-file=./watches.yaml",
    "--metrics-require-rbac",
    "--metrics-secure",
    "--metrics-bind-address=127.0.0.1:METRICS",
    "--leader-elect",
    "--leader-election-id=memcached-operator",
    "--health-probe-bind-address=127.0.0.1:PROBES",
];

/// A port for a program that is about to start: free, given once, and below those that the system gives to connections, or one of
/// them would have it now and then before the program does.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    loop {
        let port = 10_000 + (first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 10_000) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A definition with a free-form spec and a status subresource.
pub fn definition(group: &str, kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\n\
         spec:\n  group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  \
         - name: v1\n    served: true\n    storage: true\n    subresources: {{status: {{}}}}\n    schema:\n      \
         openAPIV3Schema:\n        type: object\n        properties:\n          \
         spec: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n          \
         status: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
    )
}

fn kubectl_yaml_to_json(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}
