//! Calls to single members. Each client has one endpoint: a client with several would choose one of them for each call.

use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, GetOptions, Identity, StatusResponse, TlsOptions};
use tokio::time::timeout;

use super::state::{Alarm, ListedMember, MemberAnswer, Version};
use super::verdict::is_denied;
pub use crate::members::secret::Tls;

/// The prefix of URLs that need certificates.
const SECURE: &str = "https://";

/// How to connect to members.
#[derive(Clone)]
pub struct Access {
    /// Certificates, for URLs of `https`.
    pub tls: Option<Tls>,
    /// User and password, where authentication is enabled. The user needs the role `root`.
    pub user: Option<(String, String)>,
    /// How long each call may take.
    pub timeout: Duration,
}

/// A member's report about itself, and the list of members if a linearizable read on the same member succeeded
/// right before.
pub(super) type MemberSaid = (MemberAnswer, Option<Vec<ListedMember>>);

impl Access {
    /// A client for one endpoint. It connects with the first call.
    pub(crate) async fn client(&self, url: &str) -> Result<Client, Error> {
        self.client_by(url, None).await
    }

    /// The same for a member whose certificate is for this name and not for the URL's host.
    pub(crate) async fn client_by(&self, url: &str, name: Option<&str>) -> Result<Client, Error> {
        match self.client_of(url, name, self.user.as_ref()).await {
            // A cluster has no users until somebody creates them.
            Err(error) if asks_for_no_user(&error) => self.client_of(url, name, None).await,
            client => client,
        }
    }

    async fn client_of(&self, url: &str, name: Option<&str>, user: Option<&(String, String)>) -> Result<Client, Error> {
        let mut options = ConnectOptions::new().with_connect_timeout(self.timeout);
        // The crate refuses certificates for http.
        if let Some(tls) = self.tls.as_ref().filter(|_| url.starts_with(SECURE)) {
            let mut with = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca));
            if let Some((certificate, key)) = &tls.identity {
                with = with.identity(Identity::from_pem(certificate, key));
            }
            if let Some(name) = name {
                with = with.domain_name(name);
            }
            options = options.with_tls(with);
        }
        if let Some((name, password)) = user {
            options = options.with_user(name, password);
        }
        Client::connect([url], Some(options)).await
    }

    /// Asks a member for its state; `None` if it does not answer in time. `others` are the URLs of all members.
    pub(super) async fn ask(&self, url: &str, others: &[String]) -> Option<MemberSaid> {
        // The status is read without a user: a member without a quorum cannot check a password.
        let status = async { self.client_of(url, None, None).await?.maintenance_client().status().await };
        let read = async {
            let client = self.client(url).await.ok()?;
            let read = timeout(self.timeout, read(&client)).await;
            Some((client, read.ok().and_then(Result::ok)))
        };
        let (status, read) = tokio::join!(timeout(self.timeout, status), timeout(self.timeout * 2, read));
        let (client, read) = read.ok().flatten().map_or((None, None), |(client, read)| (Some(client), read));
        let status = match status.ok()? {
            Err(error) if asks_for_user(&error) => {
                let asking = Box::pin(self.status_with_user(client, url, others));
                timeout(self.timeout, asking).await.ok()??
            }
            status => status.ok()?,
        };
        let header = status.header()?;
        let alarms: Vec<Alarm> = status.errors().iter().filter_map(|error| Alarm::parse(error)).collect();
        let bytes = |size: i64| u64::try_from(size).unwrap_or_default();
        let mut answer = MemberAnswer {
            cluster: header.cluster_id(),
            member: header.member_id(),
            linearizable: false,
            leader: status.leader(),
            term: status.raft_term(),
            index: status.raft_index(),
            revision: u64::try_from(header.revision()).unwrap_or_default(),
            learner: status.is_learner(),
            version: Version::parse(status.version()),
            size: bytes(status.db_size()),
            used: bytes(status.raft_used_db_size()),
            quota: Some(bytes(status.db_size_quota())).filter(|quota| *quota > 0),
            alarms,
        };
        let read = read.filter(|read| (read.cluster, read.member) == (answer.cluster, answer.member));
        answer.linearizable = read.is_some();
        answer.revision = read.as_ref().map_or(answer.revision, |read| read.revision.max(answer.revision));
        Some((answer, read.map(|read| read.members)))
    }

    /// Reads the status of a member that requires a user, with the client that was authenticated. A learner does not
    /// accept a password, but it accepts a token from a voter. So the client authenticates at a voter and then switches
    /// its endpoint to the learner.
    async fn status_with_user(&self, client: Option<Client>, url: &str, others: &[String]) -> Option<StatusResponse> {
        if let Some(client) = client {
            return client.maintenance_client().status().await.ok();
        }
        // A client has one transport for all its endpoints.
        let same = |other: &&String| *other != url && other.starts_with(SECURE) == url.starts_with(SECURE);
        for voter in others.iter().filter(same) {
            if let Ok(client) = self.client(voter).await {
                client.remove_endpoint(voter).await.ok()?;
                client.add_endpoint(url).await.ok()?;
                return client.maintenance_client().status().await.ok();
            }
        }
        None
    }
}

fn asks_for_no_user(error: &Error) -> bool {
    error.to_string().contains("authentication is not enabled")
}

fn asks_for_user(error: &Error) -> bool {
    error.to_string().contains("user name is empty")
}

/// The result of a linearizable read, and the list of members after it.
pub(crate) struct Read {
    pub cluster: u64,
    pub member: u64,
    pub revision: u64,
    pub members: Vec<ListedMember>,
}

/// Reads what a quorum agrees on, and then the list of members: the crate requests a list that may be outdated, but not
/// older than the read.
pub(crate) async fn read(client: &Client) -> Result<Read, Error> {
    // The key is that of etcd's own health check, which also accepts a denial as an answer.
    let revision = match client.kv_client().get("health", Some(GetOptions::new().with_count_only())).await {
        Ok(read) => read.header().map_or(0, |header| u64::try_from(header.revision()).unwrap_or_default()),
        Err(error) if is_denied(&error) => 0,
        Err(error) => return Err(error),
    };
    let list = client.cluster_client().member_list().await?;
    let (cluster, member) = list.header().map_or((0, 0), |header| (header.cluster_id(), header.member_id()));
    Ok(Read { cluster, member, revision, members: list.members().iter().map(of_list).collect() })
}

fn of_list(member: &etcd_client::Member) -> ListedMember {
    ListedMember {
        id: member.id(),
        name: member.name().into(),
        peer_urls: member.peer_urls().to_vec(),
        learner: member.is_learner(),
    }
}
