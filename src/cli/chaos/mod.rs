//! `tillerman chaos`: faults on purpose.

mod report;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::chaos::hand::Hand;
use crate::chaos::history;
use crate::chaos::plan::{FaultKind, Level, Plan};
use crate::chaos::reach::{Named, Reach};
use crate::chaos::run::ChaosRun;
use crate::cli::common::cluster_args::ClusterArgs;
use crate::cli::common::error::{CliError, FlagError};
use crate::cli::common::server::Server;
use crate::cli::common::signals::asked_to_end;

/// How long an operation of a client may take.
const OPERATION: Duration = Duration::from_secs(1);

const FAULTS: &str = "The faults, separated by commas: kill (a pod without grace), destroy (with its claim; from level \
    2), partition (from the other members), pause (its processes), fill (its volume) and operator (its pods) [default: \
    kill,partition, with pause where all members are on this machine, fill where they also have volumes of their own \
    size, destroy from level 2, and operator with --operator]";

/// Arguments of `tillerman chaos`.
///
/// Members of a cluster of etcd are killed, parted, stopped and left without space, one fault after the other, while clients read and
/// write and record their answers. In the end everything is undone, all acknowledged writes are looked for, and the history is written
/// for a checker of linearizability. Only in namespaces that have the label `tillerman.dev/chaos=allowed`.
///
/// Processes are stopped, volumes filled, and members parted with nft, where this runs as root on the machine of their pods. Elsewhere
/// members are parted by network policies, which not every network plugin enforces. Members must be reached at the addresses of their
/// pods.
#[derive(Debug, clap::Args)]
pub(super) struct ChaosArgs {
    /// The cluster: EtcdCluster/NAME.
    cluster_name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The damage that is allowed at once: 1, one member; 2, also its data and the operator; 3, also a majority.
    #[arg(long, default_value = "1", value_name = "LEVEL")]
    level: Level,
    /// The same seed gives the same faults again [default: a random one, which is printed].
    #[arg(long)]
    seed: Option<u64>,
    /// The time during which faults begin.
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = crate::kind::duration::parse)]
    duration: Duration,
    /// The maximum number of faults.
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// The time limit until all members are healthy again.
    #[arg(long, default_value = "15m", value_name = "DURATION", value_parser = crate::kind::duration::parse)]
    patience: Duration,
    #[arg(long, value_delimiter = ',', value_name = "FAULTS", help = FAULTS)]
    faults: Vec<FaultKind>,
    /// The operator's pods: their namespace and label selector, such as etcd-operator/app=etcd-operator.
    #[arg(long, value_name = "NAMESPACE/SELECTOR", value_parser = operator)]
    operator: Option<(String, String)>,
    /// The Secret with the certificate for clients [default: the one that the custom resource names for the operator].
    #[arg(long, value_name = "NAME")]
    client_tls_secret: Option<String>,
    /// The Secret with username and password of a user with the role root [default: the one that the custom resource names].
    #[arg(long, value_name = "NAME")]
    auth_secret: Option<String>,
    /// The file for the history [default: chaos-SEED.jsonl].
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

fn operator(text: &str) -> Result<(String, String), FlagError> {
    let (namespace, selector) = text.split_once('/').ok_or("it is NAMESPACE/SELECTOR")?;
    if namespace.is_empty() || selector.is_empty() {
        return Err("it is NAMESPACE/SELECTOR".into());
    }
    Ok((namespace.into(), selector.into()))
}

/// Injects faults, and reports.
pub(super) fn run(args: &ChaosArgs) -> Result<(), CliError> {
    let name = match args.cluster_name.split_once('/') {
        Some((kind, name)) if kind.eq_ignore_ascii_case("etcdcluster") => name,
        Some((kind, _)) => {
            return Err(CliError(format!("{kind} is not a known kind; the known one is EtcdCluster/NAME")));
        }
        None => &args.cluster_name,
    };
    let server = Server::connect(&args.cluster)?;
    let namespace = args.cluster.namespace();
    server.block_on(async |cluster, _| {
        let hand = Hand::new(cluster.client(), &namespace, name, args.operator.clone()).await?;
        let size = hand.size().await?;
        let by_policy = hand.parts_by_policy().await?;
        let fills = !by_policy && hand.check_volumes().await.is_ok();
        let kinds =
            if args.faults.is_empty() { default_faults(args, !by_policy, fills, size) } else { args.faults.clone() };
        hand.check(&kinds).await?;
        let named = Named { tls: args.client_tls_secret.clone(), user: args.auth_secret.clone() };
        let reach = Reach::new(&cluster.client(), &namespace, name, named, OPERATION).await?;
        let seed = args.seed.unwrap_or_else(random);
        let plan = Plan::new(seed, args.level, &kinds, size, args.operator.is_some())?;
        println!("seed {seed}");
        if by_policy && kinds.contains(&FaultKind::Partition) {
            println!("network policies separate the members: it is not known whether the network plugin enforces them");
        }
        let path = args.history.clone().unwrap_or_else(|| format!("chaos-{seed}.jsonl").into());
        let file = File::create(&path).map_err(|e| CliError(format!("{}: {e}", path.display())))?;
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let run = ChaosRun {
            hand,
            plan,
            size,
            reach,
            duration: args.duration,
            count: args.count.unwrap_or(usize::MAX),
            patience: args.patience,
            prefix: format!("tillerman-chaos-{second}"),
            seed,
        };
        let interrupted = asked_to_end().map_err(CliError::new)?;
        let report = run.run(interrupted, |line| println!("{line}")).await?;
        let written = history::write(&report.recorded.entries, BufWriter::new(file));
        written.map_err(|e| CliError(format!("{}: {e}", path.display())))?;
        print!("{}", report::text(&report, name));
        println!("the history is in {}", path.display());
        report::verdict(&report)
    })
}

fn default_faults(args: &ChaosArgs, here: bool, fills: bool, size: u32) -> Vec<FaultKind> {
    FaultKind::ALL
        .into_iter()
        .filter(|kind| match kind {
            FaultKind::Kill | FaultKind::Partition => true,
            FaultKind::Pause => here,
            FaultKind::Fill => fills,
            FaultKind::Destroy => args.level >= Level::Two && size >= 3,
            FaultKind::Operator => args.operator.is_some(),
        })
        .collect()
}

fn random() -> u64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    // Short enough to be typed again.
    u32::from_le_bytes(bytes).into()
}
