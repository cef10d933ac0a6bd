//! Takes a copy of a database with one primary and replicas from one of its members, whose agents give it (docs/design/primary.md).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use tokio::time::timeout;

use super::BackupError;
use super::place::StorePlace;
use super::record::{Copy, Of, Record};
use super::shelf;
use crate::agent::client::{Client, ClientError};
use crate::agent::contract::{MemberState, Role};
use crate::agent::position::Position;
use crate::agent::stored::{DATA, Form, PREFIX, VERSION};

/// How long an agent may send nothing.
const SILENCE: Duration = Duration::from_secs(150);
/// The pause between questions to a member that has not applied everything yet.
const AGAIN: Duration = Duration::from_millis(200);
/// Bytes of all headers that are kept.
const HEADERS: usize = 32 << 10;

/// The agents of one database.
#[derive(Clone, Debug)]
pub struct Agents {
    /// Asks them.
    pub client: Client,
    /// Where they listen.
    pub urls: Vec<String>,
    /// How long each may take for an answer about itself.
    pub timeout: Duration,
}

/// A member that answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Where its agent listens.
    pub url: String,
    /// Its answer.
    pub state: MemberState,
}

impl Agents {
    /// Asks all agents. They have to be of the same data; those that do not answer are left out.
    pub async fn heard(&self) -> Result<Vec<Heard>, BackupError> {
        let asked = self.urls.iter().map(async |url| (url, self.client.state(url, self.timeout).await));
        let (mut heard, mut errors) = (Vec::new(), Vec::new());
        for (url, answer) in join_all(asked).await {
            match answer {
                Ok(state) if state.data.is_some() => heard.push(Heard { url: url.clone(), state }),
                Ok(_) => errors.push(format!("{url}: it has no data")),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let first =
            heard.first().ok_or_else(|| BackupError::Agent(format!("no agent has data: {}", errors.join("; "))))?;
        if heard.iter().any(|other| other.state.data != first.state.data) {
            return Err(BackupError::Invalid("the agents belong to different databases".into()));
        }
        Ok(heard)
    }
}

/// The members to ask for a copy, the best first: replicas that follow, the one that lags least first, and then the
/// primary.
pub fn donors(heard: &[Heard]) -> Vec<&Heard> {
    let is_well = |state: &MemberState| !state.start.is_empty() && state.problem.is_none() && !state.diverged;
    let follows = |state: &MemberState| state.role == Role::Replica && state.receiving && state.applying;
    let mut replicas: Vec<_> = heard.iter().filter(|own| is_well(&own.state) && follows(&own.state)).collect();
    let lag = |state: &MemberState| state.lag.unwrap_or(f64::MAX);
    replicas.sort_by(|a, b| {
        let newest = || b.state.has.count().cmp(&a.state.has.count());
        a.state
            .busy
            .is_some()
            .cmp(&b.state.busy.is_some())
            .then(lag(&a.state).total_cmp(&lag(&b.state)))
            .then_with(newest)
    });
    let primary = heard.iter().filter(|own| own.state.role == Role::Primary && !own.state.start.is_empty());
    replicas.into_iter().chain(primary).collect()
}

/// The writes that a copy must have: all of the primary; without a primary, everything that a member received.
fn goal(heard: &[Heard]) -> Position {
    match heard.iter().find(|own| own.state.role == Role::Primary) {
        Some(primary) => primary.state.has.clone(),
        None => heard.iter().fold(Position::none(), |all, own| all.with(&own.state.got)),
    }
}

/// A copy that comes.
#[derive(Debug)]
pub struct Coming {
    /// The facts about it before it is complete.
    pub record: Record,
    body: Incoming,
    url: String,
    agents: Agents,
}

/// Asks the best member for a copy. It has every write that was acknowledged before: the program waits until a replica
/// has applied the writes that the primary had; if that takes longer than `within`, it asks the next member.
pub async fn take(agents: &Agents, form: Form, within: Duration) -> Result<Coming, BackupError> {
    let heard = agents.heard().await?;
    let (goal, donors) = (goal(&heard), donors(&heard));
    let mut errors = Vec::new();
    for donor in donors {
        let member = &donor.state.member;
        let Some(has) = applied(agents, donor, &goal, within).await else {
            errors.push(format!("{member} does not apply the writes of the primary"));
            continue;
        };
        match agents.client.stream(&donor.url, form.path(), SILENCE).await {
            Ok(answer) => {
                let headers = headers(&answer).map_err(|why| BackupError::Agent(format!("{member}: {why}")))?;
                let field = |name: &str| {
                    let value = headers.get(name).cloned();
                    value.ok_or_else(|| BackupError::Agent(format!("{member}: the copy does not have {name}")))
                };
                let (data, version) = (field(DATA)?, field(VERSION)?);
                if donor.state.data.as_ref() != Some(&data) {
                    return Err(BackupError::Agent(format!("{member}: the copy has other data")));
                }
                let (time, member) = (Timestamp::now(), member.clone());
                let database_version = version.split('-').next().unwrap_or_default().to_owned();
                let reached = Position::none();
                let of = Copy { form, data, database_version, member, position: has, reached, ended: time, headers };
                let record = Record::begun(time, Of::Copy(of));
                let (body, url) = (answer.into_body(), donor.url.clone());
                return Ok(Coming { record, body, url, agents: agents.clone() });
            }
            Err(ClientError::Refused(refusal)) => errors.push(format!("{member} refuses: {refusal}")),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let why = if errors.is_empty() { "none of them is a primary or follows one".to_owned() } else { errors.join("; ") };
    Err(BackupError::Agent(format!("no member gives a copy: {why}")))
}

/// Waits until a member has everything. Returns its position then.
async fn applied(agents: &Agents, donor: &Heard, goal: &Position, within: Duration) -> Option<Position> {
    let end = Instant::now() + within;
    let mut has = donor.state.has.clone();
    while !has.contains(goal) {
        if Instant::now() > end {
            return None;
        }
        tokio::time::sleep(AGAIN).await;
        has = agents.client.state(&donor.url, agents.timeout).await.ok()?.has;
    }
    Some(has)
}

/// The headers that belong to the copy.
pub fn headers(answer: &http::Response<Incoming>) -> Result<BTreeMap<String, String>, String> {
    let (mut kept, mut size) = (BTreeMap::new(), 0);
    for (name, value) in answer.headers().iter().filter(|(name, _)| name.as_str().starts_with(PREFIX)) {
        let value = value.to_str().map_err(|_| format!("the header {name} is not a text"))?;
        size += name.as_str().len() + value.len();
        if size > HEADERS {
            return Err(format!("its headers have more than {HEADERS} bytes"));
        }
        kept.insert(name.to_string(), value.to_owned());
    }
    Ok(kept)
}

/// The parts of an answer. One that ends early is an error.
pub fn parts(body: Incoming, url: String) -> impl Stream<Item = Result<Bytes, BackupError>> {
    let body = body.into_data_stream();
    stream::unfold((body, url, false), async |(mut body, url, over)| {
        if over {
            return None;
        }
        let part = match timeout(SILENCE, body.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(part))) => Ok(part),
            Ok(Some(Err(error))) => Err(BackupError::Agent(format!("{url}: it ended before it was complete: {error}"))),
            Err(_) => Err(BackupError::Agent(format!("{url}: no data arrived for {SILENCE:?}"))),
        };
        let over = part.is_err();
        Some((part, (body, url, over)))
    })
}

/// Stores a copy while it comes.
pub async fn save(place: &StorePlace, name: &str, coming: Coming) -> Result<Record, BackupError> {
    let Coming { record, body, url, agents } = coming;
    let reached = Arc::new(Mutex::new(None));
    let (noted, asked) = (Arc::clone(&reached), url.clone());
    // The copy can have no later writes than the member has afterwards.
    let last = stream::once(async move {
        let state = agents.client.state(&asked, agents.timeout).await;
        let state = state.map_err(|error| BackupError::Agent(format!("after the copy: {error}")))?;
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.has);
        Ok(Bytes::new())
    });
    let all = parts(body, url).chain(last);
    let saved = shelf::save_stream(place, name, &record, all, |record| {
        if let Of::Copy(copy) = &mut record.of {
            copy.ended = Timestamp::now();
            copy.reached = reached.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        }
    });
    Box::pin(saved).await
}

#[cfg(test)]
mod tests {
    use super::{Heard, donors, goal};
    use crate::agent::contract::{Busy, MemberState, Role};

    fn member(name: &str, role: Role, has: &str, lag: Option<f64>) -> Heard {
        let has: crate::agent::position::Position = has.parse().unwrap();
        let follows = role == Role::Replica;
        let state = MemberState {
            member: name.into(),
            start: "s".into(),
            role,
            got: has.clone(),
            has,
            lag,
            receiving: follows,
            applying: follows,
            ..MemberState::default()
        };
        Heard { url: format!("http://{name}"), state }
    }

    fn names(heard: &[Heard]) -> Vec<&str> {
        donors(heard).into_iter().map(|own| own.state.member.as_str()).collect()
    }

    #[test]
    fn the_replica_that_lags_least_comes_first_and_the_primary_last() {
        let mut all = vec![
            member("p", Role::Primary, "0-1:1-9", None),
            member("a", Role::Replica, "0-1:1-7", Some(2.0)),
            member("b", Role::Replica, "0-1:1-8", Some(0.0)),
            member("c", Role::Replica, "0-1:1-9", Some(0.0)),
            member("f", Role::Fenced, "0-1:1-9", None),
        ];
        assert_eq!(names(&all), ["c", "b", "a", "p"]);
        assert_eq!(goal(&all).to_string(), "0-1:1-9");
        all[3].state.busy = Some(Busy { work: "copy".into(), done: 0, of: None });
        all[2].state.problem = Some("it does not apply".into());
        assert_eq!(names(&all), ["a", "c", "p"]);
        all[0].state.role = Role::Waiting;
        all[4].state.got = "0-1:1-12".parse().unwrap();
        assert_eq!((names(&all), goal(&all).to_string()), (vec!["a", "c"], "0-1:1-12".to_owned()));
        assert!(names(&all[4..]).is_empty());
        // One that cannot take its writes back, one whose database does not run, and one whose lag is unknown.
        all.truncate(3);
        all[0].state.role = Role::Primary;
        all[2].state.problem = None;
        assert_eq!(names(&all), ["b", "a", "p"]);
        all[2].state.lag = None;
        assert_eq!(names(&all), ["a", "b", "p"]);
        all[2].state.diverged = true;
        assert_eq!(names(&all), ["a", "p"]);
        all[1].state.start.clear();
        assert_eq!(names(&all), ["p"]);
        all[0].state.start.clear();
        assert!(names(&all).is_empty());
    }
}
