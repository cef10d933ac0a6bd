//! The flags that say which cluster a command connects to, as kubectl takes them.

use super::cluster_args::ClusterArgs;
use super::error::CliError;
use super::server::Server;
use std::path::PathBuf;

/// kubectl's flags of a cluster.
#[derive(Debug, Default, clap::Args)]
pub struct ConnectArgs {
    /// The namespace [default: the kubeconfig's, or `default`].
    #[arg(short, long, default_value = "", hide_default_value = true)]
    pub namespace: String,
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Its context.
    #[arg(long, alias = "kube-context", value_name = "NAME")]
    pub context: Option<String>,
    /// User to act as.
    #[arg(long = "as", value_name = "NAME")]
    pub user: Option<String>,
    /// Group to act as; can be repeated.
    #[arg(long = "as-group", value_name = "NAME")]
    pub groups: Vec<String>,
}

impl ConnectArgs {
    /// The same as Helm's flags.
    pub fn cluster(&self) -> ClusterArgs {
        let mut args = ClusterArgs::of(self.kubeconfig.clone(), self.context.clone());
        args.namespace.clone_from(&self.namespace);
        args.kube_as_user.clone_from(&self.user);
        args.kube_as_group.clone_from(&self.groups);
        args
    }

    /// Connects.
    pub fn connect(&self) -> Result<Server, CliError> {
        Server::connect(&self.cluster())
    }

    /// The namespace that is meant.
    pub fn namespace(&self) -> String {
        self.cluster().namespace()
    }
}
