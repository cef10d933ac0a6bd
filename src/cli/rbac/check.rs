//! `--check`: whether a ServiceAccount has the rights, asked of the API server for each of them.

use super::RbacArgs;
use crate::cli::common::cluster_args::ClusterArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::missing_rights::missing;
use crate::rbac::Subject;
use crate::rbac::rules::Rule;

/// Prints the rules that are missing.
///
/// # Errors
/// One of the rights is missing, or the API server does not answer.
pub fn run(args: &RbacArgs, rules: &[Rule], subject: &Subject) -> Result<(), CliError> {
    let cluster = ClusterArgs::of(args.kubeconfig.clone(), args.kube_context.clone());
    let (who, asked, missing) = missing(&cluster, rules, subject)?;
    for line in &missing {
        println!("{line}");
    }
    if missing.is_empty() {
        println!("{who} has all {asked} rights");
        return Ok(());
    }
    Err(CliError(format!("{who} lacks rights: add the rules above")))
}
