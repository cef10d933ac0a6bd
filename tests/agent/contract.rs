//! The agent keeps to the contract: what `tillerman agent-check` asks any agent.

use tillerman::agent::check::{Check, Step};
use tillerman::agent::client::Client;

use crate::cluster::{DatabaseCluster, MemberProcess};

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_keeps_to_the_contract() {
    let mut cluster = DatabaseCluster::new(2);
    cluster.member(0).start();
    cluster.member(1).environment[0].1.clear();
    cluster.member(1).start();
    for member in &cluster.members {
        member.until("it answers", |_| true).await;
    }
    let mut check = Check::new(Client::default(), cluster.members.iter().map(MemberProcess::url).collect());
    for step in Step::ONE.into_iter().chain(Step::TWO) {
        check.run(step).await.unwrap_or_else(|why| panic!("{}: {why}", step.rule()));
        eprintln!("ok: {}", step.rule());
    }
}
