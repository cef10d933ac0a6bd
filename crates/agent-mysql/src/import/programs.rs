//! The programs of MariaDB that an import runs.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::sql::Address;

/// A program that connects to a database. The password is in its environment, which only processes of the same user can read.
pub fn reaches(program: &Path, address: &Address) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-defaults").arg(format!("--host={}", address.host)).arg(format!("--port={}", address.port));
    command.arg("--protocol=tcp").arg(format!("--user={}", address.user)).env("MYSQL_PWD", &address.password);
    if let Some(authorities) = &address.authorities {
        command.arg(format!("--ssl-ca={}", authorities.display())).arg("--ssl-verify-server-cert");
    } else {
        command.arg("--skip-ssl");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    command
}
