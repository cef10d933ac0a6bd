//! `tillerman doctor`: checks a cluster and an operator in it, one line each, and says what to do.

use std::path::PathBuf;

use crate::cli::common::checks::{Checks, Outcome, check};
use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::kinds;
use crate::cli::common::output::OutputArgs;
use crate::cli::common::rights::lacking;
use crate::cli::common::streams::print;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::object::Gvk;

/// Arguments of `tillerman doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// The operator's watches.yaml: its kinds, definitions and rights are checked.
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// The operator's ServiceAccount, as NAME or NAMESPACE:NAME [default: that of the Deployment that is found].
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Look for leftovers in all namespaces; the operator serves all of them.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints the checks. The command fails if one of them does.
pub(super) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let mut checks = Checks::default();
    let kinds = match &args.watches_file {
        Some(file) => Some(kinds::kinds(Some(file), &Gvk::new("", "", ""))?),
        None => None,
    };
    match args.connect.connect() {
        Err(error) => checks.fail("API server", error.0, "check the kubeconfig and its context"),
        Ok(server) => {
            let namespace = args.connect.namespace();
            let place = (!args.all_namespaces).then_some(namespace.as_str());
            let asking = async |cluster: &Cluster, discovery: &Discovery| {
                check(kinds.as_deref(), place, cluster, discovery, &mut checks).await
            };
            let account = server.block_on(asking);
            rights(args, account, &namespace, &mut checks);
        }
    }
    if !args.output.print(&checks.document())? {
        print(&checks.text());
    }
    match checks.0.iter().filter(|check| check.outcome == Outcome::Fail).count() {
        0 => Ok(()),
        1 => Err(CliError::new("a check failed")),
        n => Err(CliError(format!("{n} checks failed"))),
    }
}

/// Whether the operator's ServiceAccount has the rights that its charts need.
fn rights(args: &DoctorArgs, found: Option<String>, namespace: &str, checks: &mut Checks) {
    let Some(file) = &args.watches_file else { return };
    let Some(account) = args.service_account.clone().or(found) else {
        let remedy = "give the operator's ServiceAccount with --service-account NAMESPACE:NAME";
        return checks.warn("rights", "no ServiceAccount of an operator is known", remedy);
    };
    let place = (!args.all_namespaces).then(|| namespace.to_owned());
    let cluster = args.connect.cluster();
    match lacking(file, &account, place, &cluster) {
        Ok((who, asked, missing)) if missing.is_empty() => checks.ok("rights", format!("{who} has all {asked} rights")),
        Ok((who, _, missing)) => {
            let count = missing.len();
            let first = missing.into_iter().next().unwrap_or_default();
            let first = first.strip_prefix("- ").unwrap_or(&first);
            let remedy =
                format!("tillerman rbac --watches {} --service-account {account} | kubectl apply -f -", file.display());
            checks.fail("rights", format!("{who} lacks {count} rules, such as {first}"), remedy);
        }
        Err(error) => checks.warn("rights", format!("they cannot be checked: {error}"), ""),
    }
}
