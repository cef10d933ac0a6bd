//! Creates the data of a new cluster.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::task::block_in_place;

use super::flavor::Flavor;
use super::keeper::random;
use super::member::DatabaseMember;
use super::seed::own_version;
use super::settings::CREATE;
use super::zones;
use tillerman_agent::store::Identity;

/// How much of what the program says is kept for the log, in bytes.
const SAID: u64 = 64 << 10;

/// Creates data beside, and makes it the member's.
pub async fn create(member: &DatabaseMember) -> Result<Identity, String> {
    let arriving = member.volume.arriving();
    let error = |error: std::io::Error| format!("{}: {error}", arriving.display());
    block_in_place(|| member.volume.sweep()).map_err(error)?;
    fs::create_dir(&arriving).map_err(error)?;
    install(member, &arriving, CREATE).await?;
    let version = own_version(member).await.ok();
    let identity = Identity { data: random()?, version, ..Identity::default() };
    block_in_place(|| member.volume.adopt(&identity)).map_err(error)?;
    Ok(identity)
}

/// Creates an empty database in a folder, with what the statements make, and with time zones where the image has some.
pub async fn install(member: &DatabaseMember, folder: &Path, create: &str) -> Result<(), String> {
    if let Some(zones) = zones::statements(member).await {
        match initialize(member, folder, &format!("{create}USE mysql;\n{zones}")).await {
            Ok(()) => return Ok(()),
            Err(why) => tracing::warn!(why, "cannot create the data with time zones, so it is created without them"),
        }
        let error = |error: std::io::Error| format!("{}: {error}", folder.display());
        block_in_place(|| fs::remove_dir_all(folder).and_then(|()| fs::create_dir(folder))).map_err(error)?;
    }
    initialize(member, folder, create).await
}

async fn initialize(member: &DatabaseMember, folder: &Path, create: &str) -> Result<(), String> {
    let flags = &member.flags;
    let statements = flags.volume.join("create.sql");
    fs::write(&statements, create).map_err(|error| format!("{}: {error}", statements.display()))?;
    let program = match flags.flavor {
        Flavor::Mariadb => flags.install_db.clone(),
        Flavor::Mysql => flags.server(),
    };
    let mut command = Command::new(&program);
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.display()));
    match flags.flavor {
        Flavor::Mariadb => {
            command.args(["--skip-test-db", "--skip-name-resolve", "--auth-root-authentication-method=socket"]);
            // Where the name of the host is not known, no account gets it.
            command.arg("--force");
            command.arg(format!("--extra-file={}", statements.display()));
        }
        // Its account without a password is gone before anybody can connect: `settings::init_file`.
        Flavor::Mysql => {
            command.args(["--initialize-insecure", "--secure-file-priv=NULL"]);
            command.arg(format!("--init-file={}", statements.display()));
            command.arg(format!("--tmpdir={}", member.volume.temporary().display()));
        }
    }
    command.args(flags.user.iter().map(|user| format!("--user={user}")));
    command
        .env("TMPDIR", member.volume.temporary())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let program = program.display();
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let mut said = String::new();
    if let Some(log) = child.stderr.take() {
        let _ = log.take(SAID).read_to_string(&mut said).await;
    }
    let status = child.wait().await.map_err(|error| format!("{program}: {error}"))?;
    let _ = fs::remove_file(&statements);
    if !status.success() {
        tracing::error!(said, "the data cannot be created");
        return Err(format!("{program} failed ({status}); its log says why"));
    }
    Ok(())
}
