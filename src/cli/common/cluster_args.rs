//! The cluster, the user and the namespace: Helm's global flags and the user's kubeconfig.

use serde::Deserialize;
use std::path::{Path, PathBuf};

use super::go_numbers;
use crate::template::yaml;

/// Helm's flags of a cluster.
#[derive(Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Namespace of the release [default: the kubeconfig's, or `default`].
    #[arg(short, long, env = "HELM_NAMESPACE", default_value = "", hide_default_value = true, hide_env_values = true)]
    pub namespace: String,
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Its context.
    #[arg(long, alias = "context", env = "HELM_KUBECONTEXT", value_name = "NAME", hide_env_values = true)]
    pub kube_context: Option<String>,
    /// Address of the API server.
    #[arg(long, env = "HELM_KUBEAPISERVER", value_name = "URL", hide_env_values = true)]
    pub kube_apiserver: Option<String>,
    /// Bearer token.
    #[arg(long, env = "HELM_KUBETOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub kube_token: Option<BearerToken>,
    /// User to act as.
    #[arg(long, alias = "as", env = "HELM_KUBEASUSER", value_name = "NAME", hide_env_values = true)]
    pub kube_as_user: Option<String>,
    /// Group to act as; can be repeated.
    #[arg(
        long,
        alias = "as-group",
        env = "HELM_KUBEASGROUPS",
        value_name = "NAME",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub kube_as_group: Vec<String>,
    /// Certificates to trust for the API server.
    #[arg(long, env = "HELM_KUBECAFILE", value_name = "FILE", hide_env_values = true)]
    pub kube_ca_file: Option<String>,
    /// Trust any API server.
    #[arg(long)]
    pub kube_insecure_skip_tls_verify: bool,
    /// The name in the API server's certificate.
    #[arg(long, env = "HELM_KUBETLS_SERVER_NAME", value_name = "NAME", hide_env_values = true)]
    pub kube_tls_server_name: Option<String>,
    /// Accepted for Helm's sake: requests are few.
    #[arg(long, hide = true, value_parser = go_numbers::integer)]
    burst_limit: Option<String>,
    /// Accepted for Helm's sake: requests are few.
    #[arg(long, hide = true, value_parser = go_numbers::float)]
    qps: Option<String>,
}

/// A token, which is not shown, not even by `{:?}`.
#[derive(Clone)]
pub struct BearerToken(pub String);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl From<String> for BearerToken {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// The part of a kubeconfig that gives the namespace.
#[derive(Default, Deserialize)]
struct Contexts {
    #[serde(default, rename = "current-context")]
    current: Option<String>,
    #[serde(default, rename = "contexts")]
    all: Option<Vec<Named>>,
    #[serde(default)]
    clusters: Option<Vec<Named>>,
    #[serde(default)]
    users: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    context: Option<Context>,
    #[serde(default)]
    cluster: Option<ServerOf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    namespace: String,
    cluster: String,
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServerOf {
    server: String,
}

impl ClusterArgs {
    /// A kubeconfig and a context, and nothing else that is special.
    pub fn of(kubeconfig: Option<PathBuf>, kube_context: Option<String>) -> Self {
        Self { kubeconfig, kube_context, ..Self::default() }
    }

    /// The kubeconfigs, the first counting most: the one of the flag, those of `KUBECONFIG`, the user's.
    pub fn kubeconfigs(&self) -> Vec<PathBuf> {
        if let Some(path) = self.explicit() {
            return vec![path.to_owned()];
        }
        match std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty()) {
            Some(list) => std::env::split_paths(&list).filter(|p| !p.as_os_str().is_empty()).collect(),
            None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
        }
    }

    /// The kubeconfig of the flag, which must be there.
    pub fn explicit(&self) -> Option<&Path> {
        self.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// The namespace of the release. A kubeconfig that cannot be read says nothing, as in Helm.
    pub fn namespace(&self) -> String {
        let flag = Some(self.namespace.clone()).filter(|n| !n.is_empty());
        flag.or_else(|| self.context_namespace()).or_else(own_namespace).unwrap_or_else(|| "default".into())
    }

    fn context_namespace(&self) -> Option<String> {
        // As kubectl reads it: a name such as `y` is a boolean there.
        let read =
            |path: &PathBuf| serde_json::from_value::<Contexts>(yaml::parse(&std::fs::read(path).ok()?).ok()?).ok();
        let configs: Vec<Contexts> = self.kubeconfigs().iter().filter_map(read).collect();
        let filled = |name: &&String| !name.is_empty();
        let wanted = self.kube_context.as_ref().filter(filled);
        let wanted = wanted.or_else(|| configs.iter().filter_map(|c| c.current.as_ref()).find(filled))?;
        let context = configs.iter().flat_map(|c| c.all.iter().flatten()).find(|c| c.name == *wanted)?;
        let context = context.context.as_ref()?;
        let named = |pick: fn(&Contexts) -> &Option<Vec<Named>>, name: &str| {
            configs.iter().flat_map(move |c| pick(c).iter().flatten()).find(|entry| entry.name == name)
        };
        // A context that could not reach a cluster does not give a namespace either.
        let cluster = named(|c| &c.clusters, &context.cluster)?.cluster.as_ref()?;
        let is_usable =
            !cluster.server.is_empty() && (context.user.is_empty() || named(|c| &c.users, &context.user).is_some());
        Some(context.namespace.clone()).filter(|n| is_usable && !n.is_empty())
    }
}

/// The namespace of the pod that this is, if it is one.
fn own_namespace() -> Option<String> {
    let account = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() || !account.join("token").exists() {
        return None;
    }
    let told = std::env::var("POD_NAMESPACE").ok().filter(|n| !n.is_empty());
    told.or_else(|| Some(std::fs::read_to_string(account.join("namespace")).ok()?.trim().to_owned()))
        .filter(|n| !n.is_empty())
}
