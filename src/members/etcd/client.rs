//! Calls to single members. One client has one endpoint: with several the client would choose one for each call by itself.

use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, GetOptions, Identity, TlsOptions};
use tokio::time::timeout;

use super::state::{Answer, Member, Version};
use super::verdict::is_denied;

/// How members are reached.
#[derive(Clone)]
pub struct Access {
    /// Certificates; none for `http`.
    pub tls: Option<Tls>,
    /// User and password, where authentication is enabled. The user needs the role `root`.
    pub user: Option<(String, String)>,
    /// How long each call may take.
    pub timeout: Duration,
}

/// PEM texts.
#[derive(Clone)]
pub struct Tls {
    /// Who signed the members' certificates.
    pub ca: Vec<u8>,
    /// Our own certificate and its key, where members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// What a member says of itself, and the list of members when a linearizable read succeeded right before on this very member.
pub(super) type Said = (Answer, Option<Vec<Member>>);

impl Access {
    /// A client of one endpoint. It connects with the first call.
    pub(super) async fn client(&self, url: &str) -> Result<Client, Error> {
        self.client_of(url, self.user.as_ref()).await
    }

    async fn client_of(&self, url: &str, user: Option<&(String, String)>) -> Result<Client, Error> {
        let mut options = ConnectOptions::new().with_connect_timeout(self.timeout);
        if let Some(tls) = &self.tls {
            let mut with = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca));
            if let Some((certificate, key)) = &tls.identity {
                with = with.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(with);
        }
        if let Some((name, password)) = user {
            options = options.with_user(name, password);
        }
        Client::connect([url], Some(options)).await
    }

    /// What a member says; None when it does not answer in time.
    pub(super) async fn ask(&self, url: &str) -> Option<Said> {
        // A learner takes no password, and a status needs none.
        let client = timeout(self.timeout, self.client_of(url, None)).await.ok()?.ok()?;
        let mut maintenance = client.maintenance_client();
        let status = timeout(self.timeout, maintenance.status());
        let (status, read) =
            tokio::join!(status, timeout(self.timeout, async { read(&self.client(url).await?).await }));
        let status = status.ok()?.ok()?;
        let header = status.header()?;
        let mut answer = Answer {
            cluster: header.cluster_id(),
            member: header.member_id(),
            linearizable: false,
            leader: status.leader(),
            term: status.raft_term(),
            index: status.raft_index(),
            revision: u64::try_from(header.revision()).unwrap_or_default(),
            learner: status.is_learner(),
            version: Version::parse(status.version()),
            // An alarm is printed as `memberID:1050 alarm:CORRUPT `, and all members print all alarms.
            corrupt: status.errors().iter().any(|error| {
                error.contains("alarm:CORRUPT") && error.contains(&format!("memberID:{} ", header.member_id()))
            }),
        };
        let read = read
            .ok()
            .and_then(Result::ok)
            .filter(|read| (read.cluster, read.member) == (answer.cluster, answer.member));
        answer.linearizable = read.is_some();
        answer.revision = read.as_ref().map_or(answer.revision, |read| read.revision.max(answer.revision));
        Some((answer, read.map(|read| read.members)))
    }
}

/// A linearizable read, and the list of members after it.
pub(super) struct Read {
    pub cluster: u64,
    pub member: u64,
    pub revision: u64,
    pub members: Vec<Member>,
}

/// Reads what a quorum agrees on, and then the list: the crate asks for a list that may be old, but not older than that.
pub(super) async fn read(client: &Client) -> Result<Read, Error> {
    // The key is the one of etcd's own health check, which also takes a denial for an answer.
    let revision = match client.kv_client().get("health", Some(GetOptions::new().with_count_only())).await {
        Ok(read) => read.header().map_or(0, |header| u64::try_from(header.revision()).unwrap_or_default()),
        Err(error) if is_denied(&error) => 0,
        Err(error) => return Err(error),
    };
    let list = client.cluster_client().member_list().await?;
    let (cluster, member) = list.header().map_or((0, 0), |header| (header.cluster_id(), header.member_id()));
    Ok(Read { cluster, member, revision, members: list.members().iter().map(of_list).collect() })
}

fn of_list(member: &etcd_client::Member) -> Member {
    Member {
        id: member.id(),
        name: member.name().into(),
        peer_urls: member.peer_urls().to_vec(),
        learner: member.is_learner(),
    }
}
