//! `tillerman run`: the operator. Flags, defaults and environment are those of helm-operator (operator-sdk 1.42), so that a
//! Deployment made for it starts with only its image changed. Traces have no flags but OpenTelemetry's environment variables.

mod log;
mod thread;
mod trace;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::cli::common::error::{CliError, FlagError};
use crate::cli::common::signals::asked_to_end;
use crate::cluster::lease::Lease;
use crate::kind::{duration, watches};
use crate::members::drivers::Drivers;
use crate::notices::allowance;
use crate::reconcile::controller::{Controller, ControllerSettings};
use crate::reconcile::definitions;
use crate::reconcile::journal::Journal;
use crate::reconcile::notices;
use crate::reconcile::panics;
use crate::reconcile::scope::Scope;
use crate::reconcile::tasks::Tasks;
use crate::server::guard::Guard;
use crate::server::tls::Certificate;
use crate::server::{Security, parse_address, serve_metrics, serve_probes};
use crate::telemetry::metrics::Metrics;

/// Passes that run at once by default. They wait for the API server and not for a core, so the number exceeds the
/// number of cores.
const WORKERS: usize = 16;

/// How long it may take to give the lease up: two requests.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Arguments of `tillerman run`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
pub(super) struct RunArgs {
    /// The kinds and their charts.
    #[arg(long, default_value = "./watches.yaml", value_name = "FILE")]
    watches_file: PathBuf,
    /// Carry out definitions of charts, besides the watches file, which is then optional; with a label selector, only
    /// those that it matches.
    #[arg(long, value_name = "SELECTOR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    chart_definitions: Option<String>,
    /// How often a release is compared with the caches; costs no requests.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    reconcile_period: String,
    /// Passes that can run at once.
    #[arg(long, default_value_t = WORKERS, value_name = "N")]
    max_concurrent_reconciles: usize,
    /// Namespaces to watch, separated by commas; empty for all.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "", hide_env_values = true)]
    namespace: String,
    /// Address of /metrics; 0 for none.
    #[arg(long, aliases = ["metrics-addr", "listen-addr"], default_value = ":8080", value_name = "ADDRESS")]
    metrics_bind_address: String,
    /// Address of /healthz and /readyz; 0 for none.
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    health_probe_bind_address: String,
    /// Run only while holding a lease, so that only one of several instances works.
    #[arg(
        long, alias = "enable-leader-election", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", value_parser = flag
    )]
    leader_elect: bool,
    /// Name of the lease.
    #[arg(long, default_value = "", value_name = "NAME")]
    leader_election_id: String,
    /// Namespace of the lease; by default the operator's own.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    leader_election_namespace: String,
    /// Carry out notices: send mail and call webhooks about releases.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    notices: bool,
    /// Hosts and addresses that notices can reach although they belong to this machine, are link-local or are a
    /// metadata server, separated by commas.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "HOSTS")]
    notice_hosts: String,
    /// The number of recipients to which the notices of one namespace can send messages in an hour; all namespaces
    /// together can reach ten times as many.
    #[arg(long, default_value_t = allowance::PER_NAMESPACE, value_name = "NUMBER")]
    notice_recipients_per_hour: usize,
    /// Name of the operator in events, and of its lease where --leader-election-id gives none.
    #[arg(long, env = "OPERATOR_NAME", default_value = "tillerman", hide = true)]
    operator_name: String,
    /// A folder that outlives the process, such as a volume of the kind emptyDir. In it the operator records its
    /// current work. An input that ends the process twice is set aside.
    #[arg(long, env = "TILLERMAN_STATE_DIR", value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    log: log::LogArgs,
    /// Serve the metrics with TLS: with the certificate in $TMPDIR/k8s-metrics-server/serving-certs, or one that signs itself.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    metrics_secure: bool,
    /// Show the metrics only to users who are allowed to `get` the path /metrics.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    metrics_require_rbac: bool,
    /// Serve the metrics by HTTP/2 too.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    enable_http2: bool,
    /// Events do not show the values of overrideValues.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    suppress_override_values: bool,
    /// Show the deployed manifest in `status.deployedRelease.manifest`, as helm-operator does, but without Secrets.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    manifest_in_status: bool,
    /// Watch all namespaces. For charts that have a scope (annotation `tillerman.dev/scope` of Chart.yaml), serve only
    /// custom resources whose annotation of that name is `clusterwide`; an operator of some namespaces ignores those.
    /// As coreos' etcd-operator.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    cluster_wide: bool,
    /// Of coreos' etcd-operator: definitions are made by `tillerman crd`, and never by the operator.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = flag)]
    create_crd: bool,
    /// Of coreos' etcd-operator: nothing is left that would have to be collected.
    #[arg(long, hide = true, value_name = "DURATION")]
    gc_interval: Option<String>,
    /// Of coreos' etcd-operator: harm is done by other means.
    #[arg(long, hide = true, value_name = "N", allow_negative_numbers = true)]
    chaos_level: Option<i32>,
}

/// Arguments that make sense.
struct Checked {
    settings: ControllerSettings,
    metrics: Option<std::net::SocketAddr>,
    probes: Option<std::net::SocketAddr>,
}

/// Runs the operator until a signal stops it.
pub(super) fn run(args: RunArgs, drivers: Drivers) -> Result<(), CliError> {
    let traces = trace::Traces::from_env(&args.operator_name);
    log::start(&args.log, traces.as_ref().ok().and_then(Option::as_ref));
    panics::install();
    if let Err(why) = &traces {
        tracing::warn!(%why, "there are no traces");
    }
    let checked = check(&args, drivers)?;
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::new(format!("cannot start: {e}")))?;
    let result = runtime.block_on(operate(args, checked));
    // A chart that renders without end must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    if let Ok(Some(traces)) = traces {
        traces.end();
    }
    result
}

fn check(args: &RunArgs, drivers: Drivers) -> Result<Checked, CliError> {
    if args.metrics_require_rbac && !args.metrics_secure {
        let message = "--metrics-secure flag is required when --metrics-require-rbac is present";
        return Err(CliError::new(message.to_owned()));
    }
    let file = args.watches_file.display();
    let text = match std::fs::read_to_string(&args.watches_file) {
        Err(e) if args.chart_definitions.is_some() && e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|e| CliError::new(format!("{file}: {e}")))?,
    };
    let base = std::env::current_dir().map_err(|e| CliError::new(format!("working directory: {e}")))?;
    let watches = watches::parse(&text, &base).map_err(|e| CliError::new(format!("{file}: {e}")))?;
    for warning in &watches.warnings {
        tracing::warn!("{file}: {warning}");
    }
    if args.create_crd {
        tracing::warn!("--create-crd has no effect: `tillerman crd CHART | kubectl apply -f -` makes the definitions");
    }
    if args.chaos_level.is_some_and(|level| level >= 0) {
        tracing::warn!("--chaos-level is without effect");
    }
    if args.gc_interval.is_some() {
        tracing::debug!("--gc-interval is without effect");
    }
    let address = |text: &str| parse_address(text).map_err(CliError::new);
    let given = args.namespace.split(',').map(str::trim).filter(|n| !n.is_empty() && !args.cluster_wide);
    let namespaces: Vec<String> = given.map(str::to_owned).collect();
    let scope = match namespaces.as_slice() {
        _ if args.cluster_wide => Scope::ClusterWide,
        [] => Scope::Any,
        _ => Scope::Namespaced,
    };
    Ok(Checked {
        settings: ControllerSettings {
            kinds: watches.kinds,
            namespaces,
            scope,
            workers: args.max_concurrent_reconciles,
            period: duration::parse(&args.reconcile_period).map_err(CliError::new)?,
            reporter: args.operator_name.clone(),
            hide_overrides: args.suppress_override_values,
            show_manifest: args.manifest_in_status,
            home: String::new(),
            drivers,
            journal: args.state_dir.as_deref().map(open_journal).transpose()?.unwrap_or_default(),
            notices: args.notices.then(|| notices::NoticeSettings {
                hosts: args
                    .notice_hosts
                    .split(',')
                    .map(str::trim)
                    .filter(|host| !host.is_empty())
                    .map(str::to_owned)
                    .collect(),
                per_hour: args.notice_recipients_per_hour.max(1),
            }),
            definitions: args
                .chart_definitions
                .clone()
                .map(|selector| definitions::DefinitionSettings { base: base.clone(), selector }),
        },
        metrics: address(&args.metrics_bind_address)?,
        probes: address(&args.health_probe_bind_address)?,
    })
}

fn open_journal(folder: &Path) -> Result<Journal, CliError> {
    let opened = Journal::open(folder);
    opened.map_err(|e| CliError::new(format!("--state-dir {}: the journal cannot be opened: {e}", folder.display())))
}

async fn operate(args: RunArgs, checked: Checked) -> Result<(), CliError> {
    let tasks = Tasks::new(CancellationToken::new());
    let (stop, done) = (tasks.stop().clone(), CancellationToken::new());
    let _end = done.clone().drop_guard();
    let metrics = Arc::new(Metrics::new());
    let own_thread =
        |name| thread::start(name, &done).map_err(|e| CliError::new(format!("cannot start a thread: {e}")));
    let server = own_thread("server")?;
    // Both are bound before either answers: an operator that is alive answers requests for its metrics.
    let probes_listener = listen_if(&server, checked.probes).await?;
    let metrics_listener = listen_if(&server, checked.metrics).await?;
    if let Some(listener) = probes_listener {
        let serving = serve_probes(listener, Arc::clone(&metrics), stop.clone());
        server.spawn(tasks.guarded("server of probes".into(), false, serving));
    }
    let (asked, end) = (asked_to_end().map_err(CliError::new)?, stop.clone());
    tokio::spawn(async move {
        asked.await;
        end.cancel();
    });
    let config = kube::Config::infer().await.map_err(|e| CliError::new(format!("no cluster is configured: {e}")))?;
    let own_namespace = config.default_namespace.clone();
    let unusable = |e: kube::Error| CliError::new(format!("the cluster's configuration cannot be used: {e}"));
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let namespace = or(&args.leader_election_namespace, &own_namespace);
    let settings = ControllerSettings { home: namespace.clone(), ..checked.settings };
    let journal = settings.journal.clone();
    let controller = Controller::new(settings, config.clone(), &metrics, &tasks).map_err(unusable)?;
    if let Some(listener) = metrics_listener {
        let certificate = if args.metrics_secure { Some(certificate(&server, &tasks)?) } else { None };
        let guard = if args.metrics_require_rbac {
            let (cluster, config, metrics) = (controller.cluster(), config.clone(), Arc::clone(&metrics));
            let apart = on(&server, async move { cluster.apart(config, &metrics) }).await?.map_err(unusable)?;
            Some(Guard::new(apart.unfenced()))
        } else {
            None
        };
        let security = Security { certificate, guard, http2: args.enable_http2 };
        let serving = serve_metrics(listener, Arc::clone(&metrics), security, stop.clone());
        server.spawn(tasks.guarded("server of metrics".into(), false, serving));
    }
    if !args.leader_elect {
        controller.run().await;
        return ended(&tasks, &journal);
    }
    let of_work = journal.clone();
    let name = or(&args.leader_election_id, &args.operator_name);
    metrics.set_standby(true);
    metrics.set_leader(&name, false);
    let fence = controller.cluster().fence();
    metrics.health.register(move |limit| {
        let late = fence.closed_for().filter(|late| *late >= limit)?;
        Some(format!("the lease has not been renewed for {} seconds, and this instance continues", late.as_secs()))
    });
    let (cluster, of_lease) = (controller.cluster(), Arc::clone(&metrics));
    let (leads, chosen) = tokio::sync::oneshot::channel();
    let (passes_end, lease_name) = (CancellationToken::new(), name.clone());
    let (last_pass, told) = (passes_end.clone(), tasks.clone());
    let leasing = async move {
        let apart = match cluster.apart(config, &of_lease) {
            Ok(apart) => apart,
            Err(error) => return told.fail(format!("the lease cannot be taken: {error}")),
        };
        let mut lease = Lease::new(&apart, &namespace, &lease_name, identity());
        if !lease.acquire(told.stop()).await || leads.send(()).is_err() {
            return;
        }
        // The lease is released after the last pass. If it is lost, the process ends at once, and its writes with it.
        if let Err(why) = lease.hold(&last_pass).await {
            tracing::error!(%why, "this instance no longer leads");
            of_work.settle();
            std::process::exit(1);
        }
    };
    let leasing = own_thread("lease")?.spawn(tasks.guarded("lease".into(), false, leasing));
    if chosen.await.is_ok() {
        metrics.set_standby(false);
        metrics.set_leader(&name, true);
        controller.run().await;
    }
    passes_end.cancel();
    if tokio::time::timeout(GIVE_UP, leasing).await.is_err() {
        tracing::warn!("the lease could not be given up in time");
    }
    ended(&tasks, &journal)
}

/// Listens on the thread that will serve, if there is an address.
async fn listen_if(server: &Handle, address: Option<SocketAddr>) -> Result<Option<TcpListener>, CliError> {
    let Some(address) = address else { return Ok(None) };
    let listening = on(server, TcpListener::bind(address)).await?;
    listening.map(Some).map_err(|e| CliError::new(format!("cannot listen on {address}: {e}")))
}

/// The result of a future on another thread.
async fn on<T: Send + 'static>(
    thread: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, CliError> {
    thread.spawn(future).await.map_err(|e| CliError::new(format!("cannot start: {e}")))
}

/// Whether the operator was stopped, or failed.
fn ended(tasks: &Tasks, journal: &Journal) -> Result<(), CliError> {
    if let Some(why) = tasks.fault() {
        return Err(CliError::new(why));
    }
    journal.settle();
    Ok(())
}

/// The certificate of the metrics, where controller-runtime looks for it; else one that signs itself, as there.
fn certificate(server: &Handle, tasks: &Tasks) -> Result<Arc<Certificate>, CliError> {
    let folder = std::env::temp_dir().join("k8s-metrics-server").join("serving-certs");
    if let Some(read) = Certificate::read(&folder) {
        let certificate = read.map_err(CliError::new)?;
        let (following, stop) = (Arc::clone(&certificate), tasks.stop().clone());
        let following = async move { following.follow(&folder, stop).await };
        server.spawn(tasks.guarded("certificate of the metrics".into(), false, following));
        return Ok(certificate);
    }
    let template = "{{ $key := genPrivateKey \"ecdsa\" }}{{ $cert := genSelfSignedCertWithKey \"localhost\" (list \"127.0.0.1\") \
                    (list \"localhost\") 365 $key }}{{ $cert.Cert }}\n{{ $cert.Key }}";
    let pem = crate::render::text(template, &crate::host::options());
    let pem = pem.map_err(|e| CliError::new(format!("no certificate can be made: {e}")))?;
    Certificate::new(pem.as_bytes(), pem.as_bytes()).map_err(CliError::new)
}

/// A boolean flag.
fn flag(text: &str) -> Result<bool, FlagError> {
    crate::kind::go_bool(text).ok_or_else(|| format!("{text:?} must be true or false").into())
}

/// Unique per process, as client-go's `HOSTNAME_uuid`.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "tillerman".to_owned());
    let nanoseconds = jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{}_{nanoseconds:x}", std::process::id())
}
