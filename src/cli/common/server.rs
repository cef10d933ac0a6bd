//! The connection to an API server.

use super::cluster_args::ClusterArgs;
use super::error::CliError;
use super::helm_log::log;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::Discovery;
use crate::host::System;
use crate::lookup::ClusterHost;
use crate::template::go::quote::quoted;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::Value as Json;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// A cluster that answers.
pub struct Server {
    runtime: Runtime,
    cluster: Cluster,
    discovery: Arc<Discovery>,
    config: Config,
}

impl Server {
    /// Connects and asks for the version, as Helm does to see whether the cluster is reachable.
    pub fn connect(args: &ClusterArgs) -> Result<Self, CliError> {
        Self::try_connect(args).map_err(|why| {
            let text = format!("cluster reachability check failed: kubernetes cluster unreachable: {why}");
            log("ERROR", &text, &[]);
            CliError(text)
        })
    }

    fn try_connect(args: &ClusterArgs) -> Result<Self, CliError> {
        // Another provider that is installed already serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(CliError::new)?;
        let config = runtime.block_on(config(args))?;
        let link = format!("{}/version", config.cluster_url.to_string().trim_end_matches('/'));
        let guard = runtime.enter();
        let cluster = Cluster::of_command(config.clone()).map_err(CliError::new)?;
        drop(guard);
        runtime.block_on(reach(&cluster, &link))?;
        let discovery = Arc::new(Discovery::new(cluster.clone()));
        Ok(Self { runtime, cluster, discovery, config })
    }

    /// The address of the server, and the identity of the client.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The client and the APIs, for work that outlives a call.
    pub fn parts(&self) -> (Cluster, Arc<Discovery>) {
        (self.cluster.clone(), Arc::clone(&self.discovery))
    }

    /// Runs what asks more of the server.
    pub fn block_on<T>(&self, ask: impl AsyncFnOnce(&Cluster, &Discovery) -> T) -> T {
        self.runtime.block_on(ask(&self.cluster, &self.discovery))
    }

    /// The APIs that the server serves.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// The functions that a rendering needs from its host, with a `lookup` that asks the server.
    pub fn host(&self, system: System) -> ClusterHost {
        let _guard = self.runtime.enter();
        ClusterHost::new(system, self.cluster.clone(), Arc::clone(&self.discovery))
    }
}

/// Reads the kubeconfigs as kubectl does, with the flags over them.
async fn config(args: &ClusterArgs) -> Result<Config, CliError> {
    let given = |value: &Option<String>| value.clone().filter(|v| !v.is_empty());
    if let Some(path) = args.explicit() {
        std::fs::metadata(path).map_err(|e| format!("stat {}: {}", path.display(), crate::chart::go_io(&e)))?;
    }
    let mut all = Kubeconfig::default();
    for path in args.kubeconfigs().iter().filter(|path| path.exists()) {
        let wrong = |e: String| format!("error loading config file {}: {e}", quoted(path.to_string_lossy().as_bytes()));
        let text = std::fs::read(path).map_err(|e| wrong(crate::chart::go_io(&e)))?;
        // Read twice: for Go's words, and for the client.
        crate::template::yaml::parse(&text).map_err(|e| wrong(in_yaml(&e.to_string()).to_owned()))?;
        let read = Kubeconfig::read_from(path).and_then(|next| all.merge(next));
        all = read.map_err(|e| wrong(e.to_string()))?;
    }
    let context = given(&args.kube_context);
    let nothing = all.clusters.is_empty() && all.contexts.is_empty();
    let mut config = if let (None, true) = (&context, nothing) {
        match Config::incluster() {
            Ok(config) if given(&args.kube_apiserver).is_none() => config,
            _ => Config::new(http::Uri::from_static("http://localhost:8080")),
        }
    } else {
        if let Some(file) = given(&args.kube_ca_file) {
            trust(&mut all, &file, context.as_deref())?;
        }
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(all, &options).await.map_err(|e| match e {
            KubeconfigError::LoadContext(name) => format!("context {} does not exist", quoted(name.as_bytes())),
            other => format!("invalid configuration: {other}"),
        })?
    };
    if let Some(server) = given(&args.kube_apiserver) {
        let link = if server.contains("://") { server } else { format!("http://{server}") };
        config.cluster_url = link.parse().map_err(|e| format!("invalid configuration: {link}: {e}"))?;
    }
    if let Some(name) = given(&args.kube_tls_server_name) {
        config.tls_server_name = Some(name);
    }
    act_as(&mut config.auth_info, args);
    config.accept_invalid_certs |= args.kube_insecure_skip_tls_verify;
    Ok(config)
}

/// YAML's part of an error.
fn in_yaml(text: &str) -> &str {
    text.trim_start_matches("error converting YAML to JSON: ")
}

/// Puts the flag's certificates in place of those of the context.
fn trust(config: &mut Kubeconfig, file: &str, context: Option<&str>) -> Result<(), CliError> {
    let name = context.or(config.current_context.as_deref()).unwrap_or_default();
    let context = config.contexts.iter().find(|c| c.name == name).and_then(|c| c.context.clone());
    let cluster = context.map(|context| context.cluster).unwrap_or_default();
    std::fs::read(file).map_err(|e| {
        let why = crate::chart::go_io(&e);
        format!(
            "invalid configuration: unable to read certificate-authority {file} for {cluster} due to open {file}: {why}"
        )
    })?;
    let found = config.clusters.iter_mut().find(|c| c.name == cluster).and_then(|c| c.cluster.as_mut());
    if let Some(found) = found {
        found.certificate_authority = Some(file.to_owned());
        found.certificate_authority_data = None;
    }
    Ok(())
}

/// Puts the flags' user in place of the context's.
fn act_as(user: &mut AuthInfo, args: &ClusterArgs) {
    if let Some(token) = args.kube_token.as_ref().filter(|token| !token.0.is_empty()) {
        user.token = Some(token.0.clone().into());
        user.token_file = None;
    }
    if let Some(name) = args.kube_as_user.as_ref().filter(|name| !name.is_empty()) {
        user.impersonate = Some(name.clone());
    }
    if !args.kube_as_group.is_empty() {
        user.impersonate_groups = Some(args.kube_as_group.clone());
    }
}

/// Asks for the version.
async fn reach(cluster: &Cluster, link: &str) -> Result<(), CliError> {
    let request = http::Request::get("/version").body(Vec::new()).map_err(CliError::new)?;
    match cluster.client().request::<Json>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 401 => {
            Err("the server has asked for the client to provide credentials".into())
        }
        Err(kube::Error::Api(status)) => Err(CliError(status.message.clone())),
        Err(other) => Err(format!("Get {}: {}", quoted(link.as_bytes()), transport(&other, link)).into()),
    }
}

/// Go's words for a connection that did not come to be.
fn transport(error: &kube::Error, link: &str) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let Some(io) = cause.downcast_ref::<std::io::Error>() else { return cause.to_string() };
    let link: Option<http::Uri> = link.parse().ok();
    let (host, port) = link.map_or_else(Default::default, |link| {
        let default = if link.scheme_str() == Some("https") { 443 } else { 80 };
        (link.host().unwrap_or_default().to_owned(), link.port_u16().unwrap_or(default))
    });
    let host = if host == "localhost" { "127.0.0.1" } else { &host };
    match io.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        _ => crate::chart::go_io(io),
    }
}
