//! The version of the data. A database that is older than its data starts, and spoils it, so it is not started. One of a newer series
//! has to bring its tables up to date, before anybody follows or writes; that is not in the binary log, and each member does it for itself.

use std::process::Stdio;
use std::sync::Arc;

use tokio::process::Command;

use super::flavor::Flavor;
use super::hung::{self, Still};
use super::keeper::{does_nothing, write_secret};
use super::member::DatabaseMember;
use super::process::Process;
use super::seed::{own_version, series};
use tillerman_agent::contract::Busy;

/// The steps for data of an earlier version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// The tables are brought up to date.
    Upgrade,
    /// Nobody knows what version the data has; it is at most that of the database.
    Unknown,
}

/// Decides. The error is a sentence.
pub fn decide(of_data: Option<&str>, own: &str) -> Result<Step, String> {
    let Some(of_data) = of_data else { return Ok(Step::Unknown) };
    match (series(of_data), series(own)) {
        (Some(data), Some(program)) if data > program => Err(format!(
            "the data is of version {of_data}, and the database here is {own}, which would spoil it: set a version of {}.{} or later",
            data.0, data.1
        )),
        (Some(data), Some(program)) if data == program => Ok(Step::Nothing),
        (_, Some(_)) => Ok(Step::Upgrade),
        (_, None) => Err("the database does not report its version".to_owned()),
    }
}

/// Whether data is of this database, and not of the other one, which does not understand it. The error is a sentence.
fn same_database(of_data: Option<&str>, own: &str) -> Result<(), String> {
    match of_data {
        Some(data) if Flavor::of(data) != Flavor::of(own) => Err(format!(
            "the data is of version {data}, and the database here is {own}, which is another database: take `flavor` back"
        )),
        _ => Ok(()),
    }
}

/// The step after the start, and the version of the database here. The error is a sentence: it must not start.
pub async fn check(member: &DatabaseMember) -> Result<(Step, String), String> {
    let own = own_version(member).await?;
    let of_data = member.facts(|facts| facts.identity.as_ref().and_then(|identity| identity.version.clone()));
    same_database(of_data.as_deref(), &own)?;
    Ok((decide(of_data.as_deref(), &own)?, own))
}

/// Brings the tables up to date, if needed, and remembers the version. A crash before the end leads to the same again.
pub async fn finish(member: &DatabaseMember, process: &Arc<Process>, step: &Step, own: &str) -> Result<(), String> {
    // MySQL has brought its tables up to date before it answers.
    if *step != Step::Nothing && member.flags.flavor == Flavor::Mariadb {
        tracing::info!(version = own, "the tables are brought up to date");
        member.change(|facts| facts.busy = Some(Busy { work: "upgrade".to_owned(), done: 0, of: None }));
        let done = run(member, process).await;
        member.change(|facts| facts.busy = None);
        done?;
    }
    let Some(mut identity) = member.facts(|facts| facts.identity.clone()) else { return Ok(()) };
    if identity.version.as_deref() == Some(own) {
        return Ok(());
    }
    identity.version = Some(own.to_owned());
    member.volume.identify(&identity).map_err(|error| error.to_string())?;
    member.change(|facts| facts.identity = Some(identity));
    Ok(())
}

/// Runs the program of the database. It ends with the database.
async fn run(member: &DatabaseMember, process: &Arc<Process>) -> Result<(), String> {
    let login = member.flags.volume.join("upgrade.cnf");
    let text = format!(
        "[client]\nsocket={}\nuser={}\npassword={}\n",
        member.flags.socket().display(),
        super::accounts::AGENT,
        process.login.password()
    );
    write_secret(&login, &text)?;
    let (program, after) = (member.flags.upgrade.display(), member.flags.hung_after);
    let mut command = Command::new(&member.flags.upgrade);
    command.arg(format!("--defaults-file={}", login.display())).args(["--force", "--silent", "--skip-write-binlog"]);
    command.env("TMPDIR", member.volume.temporary()).arg(format!("--tmpdir={}", member.volume.temporary().display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let status = async {
        let mut child = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
        child.wait().await.map_err(|error| format!("{program}: {error}"))
    };
    let status = tokio::select! {
        status = status => status,
        () = process.ended() => Err("the database has ended while its tables were brought up to date".to_owned()),
        () = Still::of(process.number).lasts_for(after) => {
            let why = format!("{} while its tables were brought up to date", does_nothing(after));
            hung::note(member, &why);
            Err(why)
        }
    };
    let _ = std::fs::remove_file(&login);
    let status = status?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed ({status}); see its log")) }
}

#[cfg(test)]
mod tests {
    use super::{Step, decide, same_database};

    #[test]
    fn data_of_the_other_database_is_not_started() {
        for (of_data, own, is_same) in [
            (Some("10.11.19-MariaDB-0+deb12u1"), "11.8.2-MariaDB", true),
            (Some("9.7.4-1"), "9.7.5", true),
            (Some("9.7.4-1"), "10.11.19-MariaDB", false),
            (Some("10.11.19-MariaDB"), "9.7.4", false),
            (None, "9.7.4", true),
        ] {
            assert_eq!(same_database(of_data, own).is_ok(), is_same, "{of_data:?} {own}");
        }
    }

    #[test]
    fn a_version_goes_up_and_never_down() {
        for (of_data, own, expected) in [
            (Some("10.11.19-MariaDB"), "10.11.19-MariaDB", Some(Step::Nothing)),
            (Some("10.11.19-MariaDB"), "10.11.18-MariaDB", Some(Step::Nothing)),
            (Some("10.11.19-MariaDB"), "11.8.2-MariaDB-deb13", Some(Step::Upgrade)),
            (Some("11.8.2-MariaDB"), "12.0.1-MariaDB", Some(Step::Upgrade)),
            (None, "10.11.19-MariaDB", Some(Step::Unknown)),
            (Some("nonsense"), "10.11.19-MariaDB", Some(Step::Upgrade)),
            (Some("11.8.2-MariaDB"), "10.11.19-MariaDB", None),
            (Some("11.8.2-MariaDB"), "11.4.1-MariaDB", None),
            (Some("11.8.2-MariaDB"), "", None),
        ] {
            assert_eq!(decide(of_data, own).ok(), expected, "{of_data:?} {own}");
        }
        assert!(decide(Some("11.8.2-MariaDB"), "10.11.19").unwrap_err().contains("set a version of 11.8 or later"));
    }
}
