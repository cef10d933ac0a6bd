//! `tillerman ui`: pages about releases in a browser, with the rights of the user's kubeconfig.

mod browser;
mod feed;
mod feeds;
mod live;
mod revision;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::signals::asked_to_end;
use crate::cli::common::streams::print;
use crate::ui::access::Door;
use crate::ui::server::Site;
use live::LiveSource;

/// Arguments of `tillerman ui`.
#[derive(Debug, clap::Args)]
pub(super) struct UiArgs {
    /// Only kinds that are given: a kind or plural, also with a dot and the group; can be repeated [default: kinds of `tillerman crd`, and
    /// those that have releases].
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// The operator's watches.yaml, for its settings of the kinds in the view of the next pass.
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// The port on this machine [default: a free one].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Listen on this address of the machine instead of loopback. Everyone who reaches the address and learns the link reads what your
    /// kubeconfig is allowed to read, and the connection is not encrypted.
    #[arg(long, value_name = "IP")]
    expose_on: Option<IpAddr>,
    /// Print the link, and do not open a browser.
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Serves the pages until the program is interrupted.
pub(super) fn run(args: &UiArgs) -> Result<(), CliError> {
    let server = args.connect.connect()?;
    let own_namespace = args.connect.namespace();
    let only_namespace = (!args.connect.namespace.is_empty()).then(|| own_namespace.clone());
    server.block_on(async |_, _| {
        let ended = asked_to_end().map_err(CliError::new)?;
        let address = SocketAddr::new(args.expose_on.unwrap_or(Ipv4Addr::LOCALHOST.into()), args.port);
        let listener = TcpListener::bind(address).await.map_err(|e| CliError(format!("cannot listen on {address}: {e}")))?;
        let door = Door::new(listener.local_addr().map_err(CliError::new)?).map_err(CliError::new)?;
        let link = door.link();
        print(&format!("{link}\n"));
        if args.expose_on.is_some_and(|ip| !ip.is_loopback()) {
            eprintln!("warning: everyone who reaches {address} and learns this link reads what your kubeconfig is allowed to read");
        }
        if !args.no_open {
            browser::open(&link);
        }
        let stop = CancellationToken::new();
        let source = LiveSource::new(&server, args.kinds.clone(), args.watches_file.clone(), only_namespace, own_namespace);
        let site = Site::new(door, source);
        let serving = tokio::spawn(Arc::clone(&site).serve(listener, stop.clone()));
        ended.await;
        stop.cancel();
        serving.await.map_err(CliError::new)
    })
}
