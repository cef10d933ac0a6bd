//! The requests of the operator to an agent, and the answers: version 1 of the contract in docs/design/primary.md.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::position::Position;

/// The path of [`MemberState`]. `GET`.
pub const STATE: &str = "/v1/state";
/// The path of a copy of the data for another member. `GET`.
pub const COPY: &str = "/v1/copy";
/// The path of a copy as statements, which other versions of the database understand. `GET`.
pub const DUMP: &str = "/v1/dump";
/// The path of the writes of one log, as the database has them: those that are in `until` and not in `after`. `GET`, with both as its query.
pub const LOG: &str = "/v1/log";
/// The largest answer to a request other than [`COPY`], [`DUMP`] and [`LOG`], and the largest request, in bytes.
pub const LIMIT: usize = 1 << 20;

/// The most starts that a member names in [`MemberState::continues`].
pub const CONTINUED: usize = 8;

/// The longest time that an agent waits before it answers [`state_while`].
const LONGEST: Duration = Duration::from_secs(10);

/// The path and query of [`MemberState`] that is answered as soon as the start differs from `start`, and after `within`
/// at
/// the latest. An agent may answer earlier. `None` if the start cannot be written in a query.
pub fn state_while(start: &str, within: Duration) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    start.bytes().all(is_plain).then(|| format!("{STATE}?while={start}&within={}", within.as_millis()))
}

/// The content of a query of [`state_while`]: the start, and the time to wait, at most ten seconds.
pub fn asked_while(query: &str) -> Option<(&str, Duration)> {
    let within = Duration::from_millis(value_of(query, "within")?.parse().ok()?);
    Some((value_of(query, "while")?, within.min(LONGEST)))
}

/// The value of a field of a query, as it was sent.
pub fn value_of<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

/// The report of a member about itself. Every verb is answered with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct MemberState {
    /// The name of the member, which is the name of its pod.
    pub member: String,
    /// It changes each time the database starts, and each time it discards writes that it had received but not applied,
    /// as a replica that switches to another source may do. Empty while the database does not run: one that was the
    /// primary, and waited for acknowledgements, does not start before an order gives it a role. Started as a replica,
    /// it takes unacknowledged writes back; started as the primary, it keeps them.
    pub start: String,
    /// Earlier values of [`Self::start`], the newest first and at most [`CONTINUED`] of them. The database ended in order in each of
    /// them, after it had applied everything that it had received, so the data still has every write that it acknowledged.
    pub continues: Vec<String>,
    /// The identity of the data, which all members of a cluster share; `None` if there is no data.
    pub data: Option<String>,
    /// The highest epoch that the agent has obeyed. It is stored beside the data.
    pub epoch: u64,
    /// The highest number of an order of this epoch that the agent has obeyed. It is stored with the epoch. `None`: the agent is older
    /// than numbers, and refuses orders that have one.
    pub number: Option<u64>,
    /// The role that the last order gave the member.
    pub role: Role,
    /// Whether clients can write.
    pub writable: bool,
    /// The host that it follows.
    pub source: Option<String>,
    /// Whether it is connected to its source and receives.
    pub receiving: bool,
    /// Whether it applies the writes that it received. `false` after an error in it, and on a primary.
    pub applying: bool,
    /// The writes that it would have after it has applied everything that it received.
    pub got: Position,
    /// The writes that it has applied.
    pub has: Position,
    /// The oldest writes that it can no longer send to others: a member that lacks one of these has to be seeded.
    pub purged: Position,
    /// Commits that wait for the acknowledgement of another member.
    pub waiting: u32,
    /// How many acknowledgements a commit waits for. It does not decrease by itself.
    pub acks: u32,
    /// How many acknowledgements everything has, also writes from a time when a commit waited for fewer: [`Self::acks`]
    /// as soon as a commit that was made after the order has as many.
    pub confirmed: u32,
    /// The members that may connect and follow, by name.
    pub admitted: Vec<String>,
    /// The members that are connected to this one and acknowledge, by name.
    pub acknowledging: Vec<String>,
    /// Whether it acknowledges the writes that it receives.
    pub acknowledges: bool,
    /// Seconds between a write on the primary and here; `None` if unknown.
    pub lag: Option<f64>,
    /// The version of the database, such as `10.11.19`.
    pub version: Option<String>,
    /// Work that takes long.
    pub busy: Option<Busy>,
    /// Writes that no other member has cannot be taken back here, so that it has to be seeded again.
    pub diverged: bool,
    /// Whether the database runs and does not answer. The rest is its last report.
    pub hangs: bool,
    /// The seconds until the agent ends the database, which hangs, and starts it again; `None` if it does not do that, or not now.
    pub restarts_in: Option<u64>,
    /// When the agent last ended the database because it hung.
    pub restarted: Option<Restarted>,
    /// How far an import of another database's data is, in words.
    pub import: Option<String>,
    /// How full its volume is.
    pub volume: Option<VolumeSpace>,
    /// The problem, in words. It contains no values of the data.
    pub problem: Option<String>,
}

/// The space of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeSpace {
    /// Its bytes.
    pub capacity: u64,
    /// Those that files have, or that the file system reserves.
    pub used: u64,
}

impl MemberState {
    /// Whether the data still has every write that the member acknowledged in this start.
    pub fn keeps_since(&self, start: &str) -> bool {
        self.start == start || (!self.start.is_empty() && self.continues.iter().any(|earlier| earlier == start))
    }

    /// Whether clients can be sent to the member: a primary that takes writes, or a replica whose data is at most `lag`
    /// seconds old. One whose database hangs serves no client.
    pub fn serves(&self, lag: f64) -> bool {
        match self.role {
            _ if self.hangs => false,
            Role::Primary => self.writable,
            Role::Replica => self.receiving && self.lag.is_some_and(|seconds| seconds <= lag),
            Role::Waiting | Role::Fenced => false,
        }
    }
}

/// The role that the last order gave a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It has started, and has no order since. It is read-only.
    #[default]
    Waiting,
    /// It receives nothing, and applies what it received. It is read-only.
    Fenced,
    /// It follows [`MemberState::source`]. It is read-only.
    Replica,
    /// It takes writes as soon as [`MemberState::writable`] says so.
    Primary,
}

/// Work that takes long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Busy {
    /// The verb or the work, such as `seed`.
    pub work: String,
    /// How much is done, in bytes or another unit that does not decrease.
    pub done: u64,
    /// How much there is; `None` if unknown.
    pub of: Option<u64>,
}

/// The end of a database that hung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restarted {
    /// When it was ended, in seconds since 1970.
    pub at: i64,
    /// Why, in words.
    pub why: String,
}

/// A verb: `POST /v1/NAME` with its fields as JSON. Each can be repeated: an agent that has done it already answers as the first
/// time. An agent refuses an epoch below [`MemberState::epoch`], and a number below [`MemberState::number`] in the same epoch.
/// It stores higher ones before it acts. An order without a number is judged by its epoch alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Take no writes, and receive nothing more. A database that takes writes is killed, and started read-only. The
    /// writes that it had received are applied, and not discarded. After the answer the member acknowledges nothing
    /// until an order of this or a later epoch.
    Fence(Order),
    /// Be the primary. The member applies everything that it received, stops following, and takes writes as soon as enough of the
    /// admitted members acknowledge. On a primary it changes the members that it admits, and the number of
    /// acknowledgements that it waits for.
    Promote(Promote),
    /// Be a replica. Unacknowledged writes of an earlier primary are taken back where the database can.
    Follow(Follow),
    /// On a primary: take no more writes, wait until all commits have been acknowledged, and end the sessions. If the time is over,
    /// it takes writes again, and answers [`Reason::TimeOver`].
    Demote(Demote),
    /// Replace the data by a copy from another member.
    Seed(Seed),
    /// Read certificates and passwords from their files again.
    Reload(Reload),
}

/// The fields of all orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Order {
    /// The epoch, which increases with each new primary.
    pub epoch: u64,
    /// The number within the epoch, which increases with each decision that takes something back. Orders of one decision have the same.
    /// `None`: one of both sides is older than numbers, and the epoch alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The data that is meant. A member with other data refuses.
    pub data: String,
}

/// The fields of [`Verb::Promote`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Promote {
    /// The epoch.
    pub epoch: u64,
    /// The number within the epoch, as in [`Order`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The data that is meant.
    pub data: String,
    /// How many acknowledgements a commit waits for; 0 for none.
    pub acks: u32,
    /// The members that may connect and follow. The connections of all others end.
    pub admitted: Vec<String>,
}

/// The fields of [`Verb::Follow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Follow {
    /// The epoch.
    pub epoch: u64,
    /// The number within the epoch, as in [`Order`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The data that is meant.
    pub data: String,
    /// The host of the primary.
    pub source: String,
    /// Whether it may acknowledge.
    pub acknowledge: bool,
}

/// The fields of [`Verb::Demote`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Demote {
    /// The epoch.
    pub epoch: u64,
    /// The number within the epoch, as in [`Order`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The data that is meant.
    pub data: String,
    /// How long it may take, in milliseconds.
    pub within: u64,
}

/// The fields of [`Verb::Seed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seed {
    /// The epoch.
    pub epoch: u64,
    /// The number within the epoch, as in [`Order`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The data that is copied.
    pub data: String,
    /// The URL of the agent of the member that the copy is taken from.
    pub donor: String,
    /// [`MemberState::start`] of the member whose data is discarded; `None` if it must have no data.
    pub discard: Option<String>,
}

/// [`Verb::Reload`] has no fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {}

impl Verb {
    /// The names of the verbs, which are the last part of their paths.
    pub const NAMES: [&'static str; 6] = ["fence", "promote", "follow", "demote", "seed", "reload"];

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fence(_) => "fence",
            Self::Promote(_) => "promote",
            Self::Follow(_) => "follow",
            Self::Demote(_) => "demote",
            Self::Seed(_) => "seed",
            Self::Reload(_) => "reload",
        }
    }

    /// Its path.
    pub fn path(&self) -> String {
        format!("/v1/{}", self.name())
    }

    /// The fields, as the body of the request.
    pub fn body(&self) -> Vec<u8> {
        let text = match self {
            Self::Fence(order) => serde_json::to_vec(order),
            Self::Promote(order) => serde_json::to_vec(order),
            Self::Follow(order) => serde_json::to_vec(order),
            Self::Demote(order) => serde_json::to_vec(order),
            Self::Seed(order) => serde_json::to_vec(order),
            Self::Reload(order) => serde_json::to_vec(order),
        };
        text.expect("numbers, texts and lists are JSON")
    }

    /// Reads a request.
    ///
    /// # Errors
    /// The verb is unknown, or the body does not have its fields.
    pub fn read(name: &str, body: &[u8]) -> Result<Self, VerbError> {
        fn fields<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, VerbError> {
            serde_json::from_slice(body).map_err(|error| VerbError::Fields(error.to_string()))
        }
        Ok(match name {
            "fence" => Self::Fence(fields(body)?),
            "promote" => Self::Promote(fields(body)?),
            "follow" => Self::Follow(fields(body)?),
            "demote" => Self::Demote(fields(body)?),
            "seed" => Self::Seed(fields(body)?),
            "reload" => Self::Reload(if body.is_empty() { Reload {} } else { fields(body)? }),
            other => return Err(VerbError::Unknown(other.to_owned())),
        })
    }

    /// When it was decided, and the data that is meant; [`Verb::Reload`] has neither.
    pub fn order(&self) -> Option<(At, &str)> {
        let (epoch, number, data) = match self {
            Self::Fence(order) => (order.epoch, order.number, &order.data),
            Self::Promote(order) => (order.epoch, order.number, &order.data),
            Self::Follow(order) => (order.epoch, order.number, &order.data),
            Self::Demote(order) => (order.epoch, order.number, &order.data),
            Self::Seed(order) => (order.epoch, order.number, &order.data),
            Self::Reload(_) => return None,
        };
        Some((At { epoch, number }, data))
    }
}

/// Why a request is not an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// There is no such verb.
    #[error("the verb {0:?} is unknown")]
    Unknown(String),
    /// The body does not have the fields of the verb.
    #[error("{0}")]
    Fields(String),
}

/// When an order was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The epoch.
    pub epoch: u64,
    /// The number within it; `None` of a side that is older than numbers.
    pub number: Option<u64>,
}

impl At {
    /// Whether an order is older than another order. Where one of both has no number, only the epochs say so.
    pub fn is_before(self, other: Self) -> bool {
        let numbers = self.number.zip(other.number);
        self.epoch < other.epoch || (self.epoch == other.epoch && numbers.is_some_and(|(own, other)| own < other))
    }
}

/// Why an agent refused a request. The body of an answer with a status of 400 or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// A sentence. It contains no values of the data, and no passwords.
    pub message: String,
}

/// Why an agent refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The request is not understood (400).
    Invalid,
    /// It obeys a later epoch (409).
    StaleEpoch,
    /// It has obeyed a later order of the same epoch (409).
    StaleOrder,
    /// It has other data, or none (409).
    OtherData,
    /// It has data that may not be discarded (409).
    HasData,
    /// It has not applied everything yet (503): ask again.
    NotApplied,
    /// It does something that has to end first (503): ask again.
    Busy,
    /// The database does not answer (503): ask again.
    DatabaseDown,
    /// The time is over, and everything is as it was before (504).
    TimeOver,
    /// It cannot be done, whatever the operator does (422).
    Impossible,
    /// It failed (500).
    Failed,
}

impl Reason {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::StaleEpoch | Self::StaleOrder | Self::OtherData | Self::HasData => 409,
            Self::Impossible => 422,
            Self::Failed => 500,
            Self::NotApplied | Self::Busy | Self::DatabaseDown => 503,
            Self::TimeOver => 504,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::NotApplied | Self::Busy | Self::DatabaseDown)
    }
}

impl Refusal {
    /// A refusal with a sentence.
    pub fn new(reason: Reason, message: &str) -> Self {
        Self { reason, message: message.to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.reason, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        At, LONGEST, MemberState, Promote, Reason, Reload, Role, STATE, Verb, VerbError, asked_while, state_while,
    };
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_question_that_waits_is_read_as_it_is_sent() {
        let path = state_while("4f-a.1:2", Duration::from_secs(2)).unwrap();
        let (before, query) = path.split_once('?').unwrap();
        assert_eq!((before, asked_while(query)), (STATE, Some(("4f-a.1:2", Duration::from_secs(2)))));
        assert_eq!(asked_while("while=&within=99999999"), Some(("", LONGEST)));
        for query in ["", "while=a", "within=1", "while=a&within=-1", "while=a&within=x"] {
            assert_eq!(asked_while(query), None, "{query}");
        }
        for start in ["a&within=1", "a b", "a#", "ä"] {
            assert_eq!(state_while(start, Duration::ZERO), None, "{start}");
        }
    }

    #[test]
    fn a_verb_is_read_as_it_is_sent_and_an_unknown_field_is_refused() {
        let promote = Promote { epoch: 3, number: Some(4), data: "u".into(), acks: 1, admitted: vec!["db-1".into()] };
        let verb = Verb::Promote(promote);
        assert_eq!(verb.path(), "/v1/promote");
        assert_eq!(verb.order(), Some((At { epoch: 3, number: Some(4) }, "u")));
        assert_eq!(Verb::read("promote", &verb.body()), Ok(verb));
        assert_eq!(Verb::read("reload", b""), Ok(Verb::Reload(Reload {})));
        for (name, body) in [
            ("fence", "{}"),
            ("fence", "{\"epoch\":1,\"number\":1,\"data\":\"u\",\"x\":1}"),
            ("kill", "{}"),
            ("seed", ""),
        ] {
            assert!(Verb::read(name, body.as_bytes()).is_err(), "{name} {body}");
        }
        for name in Verb::NAMES {
            assert!(matches!(Verb::read(name, b"1"), Err(VerbError::Fields(_))));
        }
    }

    #[test]
    fn an_order_of_a_side_that_is_older_than_numbers_has_none() {
        let body = br#"{"epoch":3,"data":"u"}"#;
        let fence = Verb::read("fence", body).unwrap();
        assert_eq!(fence.order(), Some((At { epoch: 3, number: None }, "u")));
        assert_eq!(fence.body(), body, "an older agent refuses a field that it does not know");
        let state: MemberState = serde_json::from_value(json!({"member": "db-0", "epoch": 3})).unwrap();
        assert_eq!(state.number, None);
        let at = |epoch, number| At { epoch, number };
        for (own, other, before) in [
            (at(2, None), at(3, Some(0)), true),
            (at(3, None), at(3, Some(7)), false),
            (at(3, Some(6)), at(3, None), false),
            (at(3, Some(6)), at(3, Some(7)), true),
            (at(3, Some(7)), at(3, Some(7)), false),
            (at(4, Some(0)), at(3, Some(7)), false),
        ] {
            assert_eq!(own.is_before(other), before, "{own:?} {other:?}");
        }
    }

    #[test]
    fn a_member_serves_when_clients_can_use_it() {
        for (role, writable, lag, serves) in [
            (Role::Primary, true, None, true),
            (Role::Primary, false, None, false),
            (Role::Replica, false, Some(10.0), true),
            (Role::Replica, false, Some(11.0), false),
            (Role::Replica, false, None, false),
            (Role::Waiting, true, Some(0.0), false),
        ] {
            let state = MemberState { role, writable, lag, receiving: true, ..MemberState::default() };
            assert_eq!(state.serves(10.0), serves, "{role:?} {writable} {lag:?}");
        }
    }

    #[test]
    fn a_state_may_lack_fields_and_have_others() {
        let state: MemberState =
            serde_json::from_value(json!({"member": "db-0", "role": "Primary", "got": "a:1-3", "of": "later"}))
                .unwrap();
        assert_eq!(serde_json::to_value(&state).unwrap()["got"], json!("a:1-3"));
        assert!(serde_json::from_value::<MemberState>(json!({"got": "a:3-1"})).is_err());
        assert!(Reason::Busy.is_passing() && Reason::Busy.status() == 503 && !Reason::Impossible.is_passing());
    }
}
