//! The agent of a MariaDB or MySQL server: `tillerman_agent_mysql`.

use std::process::ExitCode;

use clap::Parser as _;
use tillerman_agent_mysql::command::{self, Flags};
use tillerman_agent_mysql::import::{self, flags};
use tillerman_agent_mysql::{program, restore};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    if let Some(installed) = command::install(std::env::args_os().skip(1)) {
        return match installed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let restore = command::restore(std::env::args_os().skip(1));
    let import = flags::import(std::env::args_os().skip(1));
    let flags = if restore.is_some() || import.is_some() { None } else { Some(Flags::parse()) };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match (restore, import, flags) {
            (Some(restore), ..) => restore::run(restore).await,
            (_, Some(import), _) => import::run(import).await,
            (.., Some(flags)) => program::run(flags).await,
            (None, None, None) => Ok(()),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
