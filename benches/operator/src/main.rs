//! Measures operators that install one Helm release for each custom resource, beside each other and beside a bare client, on the control
//! plane of tests/cluster/with.sh, and prints a table in Markdown: `make bench`.
//!
//!     operator TILLERMAN HELM-OPERATOR WHO:N[:PHASE,...]...
//!
//! measures in this order; WHO is `tillerman`, `helm-operator` or `client`. Without phases, all of them: create, rest, drift, spec,
//! restart, delete. From 1,000 custom resources on, Tillerman's changes are sampled 200 times, otherwise 20 times, and 3 times for one that is
//! alone. The bench does not wait longer than six minutes for helm-operator. `REST_SECONDS` is how long
//! rest is watched (120).
//!
//! Times are differences of this process' monotonic clock between sending a request and the moment when its own watch delivers what must
//! come of it. Requests are those of the API server's audit log. Both operators run as the same user, with their defaults. Only the garbage
//! collector and what namespaces need run beside the API server: a Deployment is stored, and no pod ever runs.
#![allow(clippy::cast_precision_loss, reason = "counts here are small")]

mod api;
mod audit;
mod client;
mod phases;
mod process;
mod scene;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::{Api, Error};
use phases::{Bench, BenchPhase, Setup};
use scene::Scene;
use table::{Figure, Results, Row, Who};

/// One measurement.
struct Run {
    who: Who,
    n: usize,
    phases: Vec<BenchPhase>,
}

impl Run {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let who = match parts.next()? {
            "tillerman" => Who::Tillerman,
            "helm-operator" => Who::HelmOperator,
            "client" => Who::Client,
            _ => return None,
        };
        let n = parts.next()?.parse().ok().filter(|n| *n > 0)?;
        let named = |name: &str| BenchPhase::ALL.iter().find(|(known, _)| *known == name).map(|(_, phase)| *phase);
        let phases = match parts.next() {
            Some(list) => list.split(',').map(named).collect::<Option<_>>()?,
            None => BenchPhase::ALL.map(|(_, phase)| phase).to_vec(),
        };
        Some(Self { who, n, phases })
    }
}

struct Machine {
    cluster: PathBuf,
    tillerman: PathBuf,
    helm_operator: PathBuf,
    watches: PathBuf,
    window: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let runs = args.get(2..).unwrap_or_default().iter().map(|a| Run::parse(a)).collect::<Option<Vec<_>>>();
    let Some(runs) = runs.filter(|runs| !runs.is_empty()) else {
        eprintln!("usage: operator TILLERMAN HELM-OPERATOR WHO:N[:PHASE,...]...");
        return ExitCode::from(2);
    };
    // The operator has a session of its own, and must not outlive this program.
    let measured = tokio::select! {
        measured = measure(Path::new(&args[0]), Path::new(&args[1]), &runs) => measured,
        () = interrupted() => Err("interrupted".into()),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    if let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    } else {
        std::future::pending::<()>().await;
    }
}

async fn measure(tillerman: &Path, helm_operator: &Path, runs: &[Run]) -> Result<(), Error> {
    let cluster = std::env::var_os("TILLERMAN_TEST_CLUSTER").ok_or("run me with tests/cluster/with.sh")?;
    let cluster = PathBuf::from(cluster);
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return Err("there is a crypto provider already".into());
    }
    let api = Api::new(&cluster.join("admin.kubeconfig")).await?;
    let raised = raise_cluster(&cluster)?;
    define(&api).await?;
    let chart = folder().join("chart");
    let watches = cluster.join("bench-watches.yaml");
    let kind =
        format!("- group: bench.tillerman.dev\n  version: v1alpha1\n  kind: Web\n  chart: {}\n", chart.display());
    std::fs::write(&watches, kind)?;
    let window = std::env::var("REST_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(120);
    let machine = Machine {
        cluster,
        tillerman: tillerman.canonicalize()?,
        helm_operator: helm_operator.to_owned(),
        watches,
        window: Duration::from_secs(window),
    };
    let mut results = Results(Vec::new());
    for (i, run) in runs.iter().enumerate() {
        let from = Instant::now();
        let (figures, scene) = one(&machine, &api, &format!("bench-{i}"), run).await?;
        eprintln!("{:?} with {}: {:.0} s", run.who, run.n, from.elapsed().as_secs_f64());
        for figure in &figures {
            eprintln!("    {:?}: {}", figure.row, figure.text);
        }
        results.0.extend(figures.into_iter().map(|figure| (run.who, run.n, figure)));
        // After the last one the control plane goes as a whole.
        if i + 1 < runs.len() {
            scene.clear().await?;
        }
    }
    println!("{}\n\n{}", surroundings(&machine, &api, raised).await?, results.markdown());
    Ok(())
}

async fn one(machine: &Machine, api: &Api, namespace: &str, run: &Run) -> Result<(Vec<Figure>, Scene), Error> {
    if run.who == Who::Client {
        let scene = Scene::new(api, namespace, run.n).await?;
        let kubeconfig = machine.cluster.join("operator.kubeconfig");
        let times = client::time(&scene, &kubeconfig, &folder().join("chart")).await?;
        let figures = vec![Figure::seconds(Row::CrsMade, times.crs), Figure::seconds(Row::Created, times.writes)];
        return Ok((figures, scene));
    }
    let ours = run.who == Who::Tillerman;
    let setup = Setup {
        program: if ours { machine.tillerman.clone() } else { machine.helm_operator.clone() },
        watches: machine.watches.clone(),
        cluster: machine.cluster.clone(),
        samples: if ours && run.n >= 1000 { 200 } else { 20 },
        window: machine.window,
    };
    let mut bench = Bench::new(&setup, api, namespace, run.n).await?;
    for phase in &run.phases {
        if !bench.run(*phase).await? {
            break;
        }
    }
    bench.end()
}

/// The custom resources' definition, served.
async fn define(api: &Api) -> Result<(), Error> {
    let text = std::fs::read_to_string(folder().join("crd.yaml"))?;
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &serde_saphyr::from_str(&text)?).await?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while api.get(&format!("/apis/{}/webs", scene::GROUP_VERSION)).await.is_err() {
        if Instant::now() > deadline {
            return Err("the custom resources are not served".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Raises the programs of the control plane, and this one; whether that is allowed.
fn raise_cluster(cluster: &Path) -> Result<bool, Error> {
    let mut raised = process::raise(std::process::id());
    for program in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        let pid = std::fs::read_to_string(cluster.join(format!("{program}.pid")))?;
        raised &= process::raise(pid.trim().parse()?);
    }
    Ok(raised)
}

async fn surroundings(machine: &Machine, api: &Api, raised: bool) -> Result<String, Error> {
    let version = |program: &Path, argument: &str| -> Result<String, Error> {
        let output = std::process::Command::new(program).arg(argument).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).split(',').next().unwrap_or_default().trim().to_owned())
    };
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kibibytes: f64 = memory.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or_default();
    Ok(format!(
        "{}; {} cores, {:.0} GiB; API server {}; {}; {}; rest watched for {} s{}",
        jiff::Timestamp::now().strftime("%F"),
        std::thread::available_parallelism()?,
        kibibytes / 1_048_576.0,
        api.version().await?,
        version(&machine.tillerman, "--version")?,
        version(&machine.helm_operator, "version")?,
        machine.window.as_secs(),
        if raised { "" } else { "; priorities could not be raised: other work counts" },
    ))
}

/// Where this program's files are.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
