//! The agent of a MariaDB cluster: `tillerman::agent::mariadb`.

use std::process::ExitCode;

use clap::Parser as _;
use tillerman::agent::mariadb::command::{self, Flags};
use tillerman::agent::mariadb::program;
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
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(program::run(flags)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
