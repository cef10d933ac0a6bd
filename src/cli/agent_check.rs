//! `tillerman agent-check`: whether an agent keeps to the contract.

use std::path::PathBuf;

use crate::agent::check::{Check, Step};
use crate::agent::client::Client;
use crate::agent::tls::{Tls, TlsFiles};
use crate::cli::common::error::CliError;
use crate::cli::common::streams::print;

/// Arguments of `tillerman agent-check`.
///
/// The command gives orders to the agents of a cluster that is made for it, and compares their answers with the
/// contract (docs/design/primary.md). The first agent has data; with a second one, whose data is replaced, replication
/// is checked too.
#[derive(Debug, clap::Args)]
pub(super) struct AgentCheckArgs {
    /// The URLs of one agent, or of two. Members reach each other's databases at these hosts.
    #[arg(required = true, num_args = 1..=2, value_name = "URL")]
    urls: Vec<String>,
    /// Give orders: databases are killed, restarted and replaced. Without it only requests that change nothing are sent.
    #[arg(long)]
    orders: bool,
    /// The certificate for clients, with its chain.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// The authorities of the agents.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_ca: Option<PathBuf>,
}

/// Checks rule after rule, and ends at the first that is broken, because later rules build on it.
pub(super) fn run(args: &AgentCheckArgs) -> Result<(), CliError> {
    let tls = match (&args.tls_certificate, &args.tls_key, &args.tls_ca) {
        (Some(certificate), Some(key), Some(authorities)) => {
            let files = Tls { certificate: certificate.clone(), key: key.clone(), authorities: authorities.clone() };
            Some(TlsFiles::read(&files).map_err(|error| CliError(error.to_string()))?.client())
        }
        _ => None,
    };
    let mut steps = if args.orders { Step::ONE.to_vec() } else { Step::HARMLESS.to_vec() };
    if args.orders && args.urls.len() > 1 {
        steps.extend(Step::TWO);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::new)?;
    let mut check = Check::new(Client { tls }, args.urls.clone());
    runtime.block_on(async {
        for step in steps {
            let done = check.run(step).await;
            print(&format!("{} {}\n", if done.is_ok() { "ok  " } else { "fail" }, step.rule()));
            done.map_err(CliError)?;
        }
        Ok(())
    })
}
