//! Requests of the operator to the agents of a cluster (docs/design/primary.md#requests): their certificates, their
//! time limits, and the members that have to answer.

use std::time::Duration;

use crate::agent::client::{Client, ClientError};
use crate::agent::contract::{MemberState, Refusal, Verb};
use crate::agent::tls;
use crate::members::secret::Tls;

/// How long an agent may take for its state. It answers within two seconds, also when its database hangs.
pub const ANSWER: Duration = Duration::from_secs(3);
/// How long one may take that gave none a short while ago. The others do not wait for it in each pass.
pub const BRIEF: Duration = Duration::from_millis(500);
/// How long an agent may take to obey.
const OBEY: Duration = Duration::from_secs(10);
/// How long an agent may take beyond the time that an order gives it.
const MORE: Duration = Duration::from_secs(3);

/// The agents of a cluster.
pub struct Agents {
    client: Client,
}

/// Why an agent did not obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It refused.
    Refused(Refusal),
    /// It is unknown whether it obeyed. The next state shows it.
    Unknown(String),
}

impl Agents {
    /// For agents of `https` with these certificates, or for those of `http`. The error says which certificate is wrong.
    pub fn new(tls: Option<&Tls>) -> Result<Self, tls::TlsError> {
        let config = |tls: &Tls| {
            let identity = tls.identity.as_ref().map(|(chain, key)| (chain.as_slice(), key.as_slice()));
            tls::client_of_pem(&tls.ca, identity)
        };
        Ok(Self { client: Client { tls: tls.map(config).transpose()? } })
    }

    /// Asks the agent at a URL for the state of its member, which has this name. The error is a few words without anything of the
    /// answer.
    pub async fn state(&self, url: &str, member: &str, within: Duration) -> Result<MemberState, String> {
        match of_member(self.client.state(url, within).await, member) {
            Ok(state) => Ok(state),
            Err(Failed::Unknown(why)) => Err(why),
            Err(Failed::Refused(refusal)) => Err(format!("it does not give a state: {:?}", refusal.reason)),
        }
    }

    /// Returns when the start of the member at a URL differs from `start`, and after `within` at the latest. The result
    /// is whether it differs.
    pub async fn leaves(&self, url: &str, member: &str, start: &str, within: Duration) -> bool {
        let Some(answer) = self.client.state_while(url, start, within).await else { return false };
        of_member(answer, member).is_ok_and(|state| state.start != start)
    }

    /// Sends an order.
    pub async fn order(&self, url: &str, member: &str, verb: &Verb) -> Result<MemberState, Failed> {
        let patience = match verb {
            Verb::Demote(order) => Duration::from_millis(order.within) + MORE,
            _ => OBEY,
        };
        of_member(self.client.order(url, verb, patience).await, member)
    }
}

fn of_member(answer: Result<MemberState, ClientError>, member: &str) -> Result<MemberState, Failed> {
    match answer {
        Ok(state) if state.member == member => Ok(state),
        Ok(_) => Err(Failed::Unknown("it is the agent of another member".to_owned())),
        Err(ClientError::Refused(refusal)) => Err(Failed::Refused(refusal)),
        Err(ClientError::Failed { why, .. }) => Err(Failed::Unknown(why)),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
