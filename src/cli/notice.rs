//! `tillerman notice`: tries a notice out.

use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::notices;
use crate::notices::document::Notice;
use crate::notices::message;
use crate::object::ObjectId;
use crate::reconcile::notices::{Sender, notices_resource};

/// The action.
#[derive(Debug, clap::Subcommand)]
pub(super) enum NoticeCommand {
    /// Send a message to the target of a notice, from here and with your own rights, and print its answer.
    Test(TestArgs),
}

/// Arguments of `tillerman notice test`.
#[derive(Debug, clap::Args)]
pub(super) struct TestArgs {
    /// The notice.
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(super) fn run(command: &NoticeCommand) -> Result<(), CliError> {
    let NoticeCommand::Test(TestArgs { name, connect }) = command;
    let server = connect.connect()?;
    let namespace = connect.namespace();
    server.block_on(async |cluster, _| {
        let id =
            ObjectId { gvk: notices::gvk(), namespace: Some(namespace.as_str().into()), name: name.as_str().into() };
        let found = cluster.get(&notices_resource(), &id).await.map_err(|e| CliError(line(&e.whole())))?;
        let object =
            found.ok_or_else(|| CliError::new(format!("there is no notice {name} in namespace {namespace}")))?;
        let notice = Notice::read(&object).map_err(|why| CliError::new(format!("notice {name}: {why}")))?;
        let now = jiff::Timestamp::now();
        let sender = message::Sender { namespace: &namespace, name };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let test = message::test(&notice, sender, format!("{}.test.{uid}", now.as_millisecond()), now.as_second());
        let sending = Sender { cluster: cluster.clone(), hosts: None };
        let answer = sending.send(&namespace, &notice, &test).await;
        let answer = answer.map_err(|failure| {
            CliError::new(format!("the target did not accept the message: {}", line(&failure.text)))
        })?;
        println!("taken: {}", line(&answer));
        Ok(())
    })
}
