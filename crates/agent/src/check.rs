//! Whether an agent keeps to the contract (docs/design/primary.md): orders are given to the agents of a cluster that is made for it, and what
//! they answer and do is looked at. Positions, epochs and roles are what the operator trusts, so that an agent that lies loses data.

use std::time::{Duration, Instant};

use http::Method;

use super::client::{Client, ClientError};
use super::contract::{Demote, Follow, LIMIT, MemberState, Order, Promote, Reason, Refusal, Reload, Role, Seed, Verb};

/// How long the state may take.
const ANSWER: Duration = Duration::from_secs(2);
/// How long an order may take, and what it leads to.
const PATIENCE: Duration = Duration::from_secs(120);
/// For how long nothing may be confirmed that nobody acknowledges.
const UNCONFIRMED: Duration = Duration::from_secs(2);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// The checks, in this order: each builds on those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The state.
    Answers,
    /// Requests that are not understood.
    Refuses,
    /// Orders for other data.
    OtherData,
    /// A primary that waits for nobody.
    Promotes,
    /// Orders of an epoch that is over.
    StaleEpoch,
    /// Orders of this epoch that are older than one that was obeyed.
    StaleOrder,
    /// Data that is not to be discarded.
    HasData,
    /// A primary that hands over, and continues.
    Demotes,
    /// A primary that is fenced.
    Fences,
    /// A primary after a fence.
    Starts,
    /// Files that are read again.
    Reloads,
    /// A copy for another member.
    Seeds,
    /// A replica that does not acknowledge.
    Follows,
    /// A replica that acknowledges.
    Confirms,
    /// A replica that is not admitted.
    Excludes,
    /// A primary that hands over to a replica.
    HandsOver,
    /// A primary that is lost.
    FailsOver,
}

impl Step {
    /// The checks without orders.
    pub const HARMLESS: [Self; 2] = [Self::Answers, Self::Refuses];
    /// The checks that need one agent.
    pub const ONE: [Self; 11] = [
        Self::Answers,
        Self::Refuses,
        Self::OtherData,
        Self::Promotes,
        Self::StaleEpoch,
        Self::StaleOrder,
        Self::HasData,
        Self::Demotes,
        Self::Fences,
        Self::Starts,
        Self::Reloads,
    ];
    /// The checks that need two.
    pub const TWO: [Self; 6] =
        [Self::Seeds, Self::Follows, Self::Confirms, Self::Excludes, Self::HandsOver, Self::FailsOver];

    /// The rule, as a sentence.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Answers => "the state is answered within two seconds, also to a question that may wait",
            Self::Refuses => "a request that is not understood is refused as Invalid",
            Self::OtherData => "an order for other data is refused as OtherData",
            Self::Promotes => "a promotion without acknowledgements takes writes, also when it is repeated",
            Self::StaleEpoch => "an order of an earlier epoch is refused as StaleEpoch",
            Self::StaleOrder => {
                "an earlier order of the same epoch is refused as StaleOrder; one without a number is judged by its epoch"
            }
            Self::HasData => "data is discarded only by its start",
            Self::Demotes => "a primary that hands over takes no writes, and takes them again after a promotion",
            Self::Fences => "a primary that is fenced takes no writes, and does not start before an order",
            Self::Starts => "it has all its writes after the next promotion, and another start",
            Self::Reloads => "files are read again",
            Self::Seeds => "a copy has the identity and the writes of the donor",
            Self::Follows => "a replica that does not acknowledge receives all, and confirms nothing",
            Self::Confirms => "acknowledgements of a replica are confirmed",
            Self::Excludes => "a member that is not admitted receives nothing, and acknowledges nothing",
            Self::HandsOver => "a replica takes over from a primary that hands over, which then follows it",
            Self::FailsOver => {
                "a fenced replica keeps the writes that it received, and takes over; the earlier primary follows it"
            }
        }
    }
}

/// A check of the agents of one cluster.
#[derive(Debug)]
pub struct Check {
    client: Client,
    urls: Vec<String>,
    data: String,
    epoch: u64,
    number: u64,
}

type Done<T = ()> = Result<T, String>;

impl Check {
    /// Of the agents of these URLs. The first is the one that may create data.
    pub fn new(client: Client, urls: Vec<String>) -> Self {
        Self { client, urls, data: String::new(), epoch: 0, number: 0 }
    }

    /// Checks a step. The error is a sentence that says what was seen.
    pub async fn run(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Answers => self.answers().await,
            Step::Refuses => self.refuses().await,
            Step::OtherData => self.other_data().await,
            Step::Promotes => self.promotes().await,
            Step::StaleEpoch => self.stale_epoch().await,
            Step::StaleOrder => self.stale_order().await,
            Step::HasData => self.has_data().await,
            Step::Demotes => self.demotes().await,
            Step::Fences => self.fences().await,
            Step::Starts => self.starts().await,
            Step::Reloads => self.order(0, &Verb::Reload(Reload {})).await.map(|_| ()),
            Step::Seeds => self.seeds().await,
            Step::Follows => self.follows().await,
            Step::Confirms => self.confirms().await,
            Step::Excludes => self.excludes().await,
            Step::HandsOver => self.hands_over().await,
            Step::FailsOver => self.fails_over().await,
        }
    }

    async fn answers(&mut self) -> Done {
        let state = self.state(0).await?;
        let state =
            if state.data.is_some() { state } else { self.until(0, "it has data", |s| s.data.is_some()).await? };
        self.data = state.data.unwrap_or_default();
        (self.epoch, self.number) = (state.epoch, state.number.unwrap_or_default());
        expect("its member has a name", !state.member.is_empty(), &state.member)?;
        match self.client.state_while(self.url(0), &state.start, PAUSE).await {
            Some(Err(error)) => Err(format!("GET /v1/state?while={}: {error}", state.start)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    async fn refuses(&mut self) -> Done {
        let requests = [
            ("/v1/unheard-of", b"{}".to_vec()),
            ("/v1/fence", b"{}".to_vec()),
            ("/v1/fence", b"{\"epoch\":1,\"number\":1}".to_vec()),
            ("/v1/fence", b"{\"epoch\":1,\"number\":1,\"data\":\"x\",\"more\":1}".to_vec()),
            ("/v1/fence", b"no JSON".to_vec()),
            ("/v1/fence", vec![b' '; LIMIT + 1]),
        ];
        for (path, body) in requests {
            let what = format!("POST {path} with {} bytes", body.len());
            let answer = self.client.ask(self.url(0), Method::POST, path, body, PATIENCE).await;
            let answer = answer.map_err(|error| format!("{what}: {error}"))?;
            let refusal: Refusal = serde_json::from_slice(&answer.body)
                .map_err(|error| format!("{what}: status {} and no refusal: {error}", answer.status))?;
            if refusal.reason != Reason::Invalid || answer.status != Reason::Invalid.status() {
                return Err(format!("{what}: status {} and {refusal}", answer.status));
            }
        }
        Ok(())
    }

    async fn other_data(&mut self) -> Done {
        let order = Order { epoch: self.epoch + 1, number: Some(0), data: format!("{}-not", self.data) };
        self.refused(0, &Verb::Fence(order), Reason::OtherData).await?;
        let state = self.state(0).await?;
        expect("a refused order changes no epoch", state.epoch == self.epoch, &state)
    }

    async fn promotes(&mut self) -> Done {
        self.epoch += 1;
        for _ in 0..2 {
            self.promote(0, 0, &[]).await?;
            let state = self.until(0, "it takes writes", |state| state.writable).await?;
            let is_primary = state.role == Role::Primary && state.epoch == self.epoch && state.acks == 0;
            expect("it is the primary of this epoch, and waits for no acknowledgement", is_primary, &state)?;
        }
        Ok(())
    }

    async fn stale_epoch(&mut self) -> Done {
        let order = Order { epoch: self.epoch - 1, number: Some(self.number + 1), data: self.data.clone() };
        self.refused(0, &Verb::Fence(order), Reason::StaleEpoch).await?;
        let state = self.state(0).await?;
        expect("it takes writes as before", state.writable, &state)
    }

    async fn stale_order(&mut self) -> Done {
        self.number += 2;
        let state = self.promote(0, 0, &[]).await?;
        expect("it reports the order that it obeyed", state.number == Some(self.number), &state)?;
        let (epoch, number) = (self.epoch, Some(self.number - 1));
        let order = Order { epoch, number, data: self.data.clone() };
        self.refused(0, &Verb::Fence(order), Reason::StaleOrder).await?;
        let order = Demote { epoch, number, data: self.data.clone(), within: 1000 };
        self.refused(0, &Verb::Demote(order), Reason::StaleOrder).await?;
        // An operator that is older than numbers gives none.
        let data = self.data.clone();
        let order = Promote { epoch, number: None, data: data.clone(), acks: 0, admitted: Vec::new() };
        let state = self.order(0, &Verb::Promote(order)).await?;
        expect("it takes writes as before", state.writable && state.number == Some(self.number), &state)?;
        let order = Order { epoch: epoch - 1, number: None, data };
        self.refused(0, &Verb::Fence(order), Reason::StaleEpoch).await
    }

    async fn has_data(&mut self) -> Done {
        let donor = self.url(0).to_owned();
        for discard in [None, Some("no start".to_owned())] {
            let seed = Seed {
                epoch: self.epoch,
                number: Some(self.number),
                data: self.data.clone(),
                donor: donor.clone(),
                discard,
            };
            self.refused(0, &Verb::Seed(seed), Reason::HasData).await?;
        }
        Ok(())
    }

    async fn demotes(&mut self) -> Done {
        for _ in 0..2 {
            let state = self.demote(0).await?;
            let is_over = state.role == Role::Fenced && !state.writable && state.waiting == 0 && state.has == state.got;
            expect("it takes no writes, and no commit waits", is_over, &state)?;
        }
        self.promote(0, 0, &[]).await?;
        self.until(0, "it takes writes again", |state| state.writable).await.map(|_| ())
    }

    async fn fences(&mut self) -> Done {
        for _ in 0..2 {
            let state = self.fence(0).await?;
            let is_fenced = state.role == Role::Fenced && !state.writable && state.start.is_empty();
            expect("it is fenced, and its database does not run", is_fenced, &state)?;
        }
        Ok(())
    }

    async fn starts(&mut self) -> Done {
        self.promote(0, 0, &[]).await?;
        let before = self.until(0, "it takes writes", |state| state.writable).await?;
        self.fence(0).await?;
        self.promote(0, 0, &[]).await?;
        let after = self.until(0, "it takes writes", |state| state.writable).await?;
        expect("its start has changed", after.start != before.start && !after.start.is_empty(), &after)?;
        expect("it has its writes", after.has.contains(&before.has), &after)
    }

    async fn seeds(&mut self) -> Done {
        let state = self.state(1).await?;
        if state.data.as_ref().is_some_and(|data| *data != self.data) {
            return Err(format!("{} has other data", self.url(1)));
        }
        let discard = state.data.is_some().then_some(state.start);
        let seed = Seed {
            epoch: self.epoch,
            number: Some(self.number),
            data: self.data.clone(),
            donor: self.url(0).to_owned(),
            discard,
        };
        let donor = self.state(0).await?;
        for _ in 0..2 {
            self.order(1, &Verb::Seed(seed.clone())).await?;
        }
        let is_done = |state: &MemberState| state.busy.is_none() && !state.start.is_empty();
        let state = self.until(1, "it has a copy", is_done).await?;
        let is_copy = state.data.as_ref() == Some(&self.data) && state.role == Role::Waiting && !state.writable;
        expect("it has the data, and waits for an order", is_copy, &state)?;
        expect("it has the writes", state.has.contains(&donor.has), &state)?;
        let again = self.order(1, &Verb::Seed(seed)).await?;
        expect("the order is obeyed already", again.busy.is_none() && again.start == state.start, &again)
    }

    async fn follows(&mut self) -> Done {
        let name = self.state(1).await?.member;
        self.promote(0, 0, &[&name]).await?;
        self.follow(1, 0, false).await?;
        let state = self.until(1, "it receives", |state| state.receiving && state.applying).await?;
        let is_replica = state.role == Role::Replica && !state.writable && !state.acknowledges && !state.diverged;
        expect("it is a replica that does not acknowledge", is_replica, &state)?;
        self.promote(0, 1, &[&name]).await?;
        let since = Instant::now();
        while since.elapsed() < UNCONFIRMED {
            let state = self.state(0).await?;
            let is_unconfirmed = state.acks == 1 && state.confirmed == 0 && state.acknowledging.is_empty();
            expect("it confirms no write without an acknowledgement", is_unconfirmed, &state)?;
            tokio::time::sleep(PAUSE).await;
        }
        let primary = self.state(0).await?;
        self.until(1, "it has all", |state| state.has.contains(&primary.has)).await.map(|_| ())
    }

    async fn confirms(&mut self) -> Done {
        for _ in 0..2 {
            let state = self.follow(1, 0, true).await?;
            expect("it may acknowledge", state.acknowledges && state.role == Role::Replica, &state)?;
        }
        let name = self.state(1).await?.member;
        let state = self.until(0, "all is confirmed", |state| state.confirmed == 1 && state.writable).await?;
        expect("it says who acknowledges", state.acknowledging == [name], &state)?;
        let replica = self.state(1).await?;
        expect("the replica has received the confirmed writes", replica.got.contains(&state.has), &replica)
    }

    async fn excludes(&mut self) -> Done {
        let name = self.state(1).await?.member;
        let state = self.promote(0, 1, &[]).await?;
        let is_alone = state.admitted.is_empty() && state.acknowledging.is_empty() && state.acks == 1;
        expect("nobody is admitted", is_alone, &state)?;
        self.until(1, "it receives nothing", |state| !state.receiving).await?;
        self.promote(0, 1, &[&name]).await?;
        self.follow(1, 0, true).await?;
        self.until(1, "it receives again", |state| state.receiving).await?;
        self.until(0, "it acknowledges again", |state| state.acknowledging == [name.as_str()]).await.map(|_| ())
    }

    async fn hands_over(&mut self) -> Done {
        let state = self.demote(0).await?;
        let target = self.until(1, "it has all", |target| target.has.contains(&state.has)).await?;
        self.epoch += 1;
        self.promote(1, 1, &[&state.member]).await?;
        let old = self.follow(0, 1, true).await?;
        expect("it follows, and has not diverged", old.role == Role::Replica && !old.diverged, &old)?;
        let new = self.until(1, "all is confirmed", |state| state.confirmed == 1 && state.writable).await?;
        expect("it has not started again", new.start == target.start && new.has.contains(&state.has), &new)
    }

    async fn fails_over(&mut self) -> Done {
        self.epoch += 1;
        let (lost, before) = (self.state(1).await?, self.state(0).await?);
        for _ in 0..2 {
            let state = self.fence(0).await?;
            let is_fenced = state.role == Role::Fenced && !state.receiving && !state.acknowledges && !state.writable;
            expect("it receives nothing, and acknowledges nothing", is_fenced, &state)?;
            expect(
                "it keeps the writes that it received",
                state.start == before.start && state.got.contains(&before.got),
                &state,
            )?;
        }
        let fenced =
            self.until(0, "it applies the writes that it received", |state| state.has.contains(&state.got)).await?;
        self.fence(1).await?;
        self.promote(0, 0, &[&lost.member]).await?;
        let new = self.until(0, "it takes writes", |state| state.writable).await?;
        expect("it has the writes that it received", new.has.contains(&fenced.got), &new)?;
        self.follow(1, 0, true).await?;
        let old = self.until(1, "it receives", |state| state.receiving).await?;
        expect("it follows, and has not diverged", old.role == Role::Replica && !old.diverged, &old)
    }

    async fn promote(&self, k: usize, acks: u32, admitted: &[&str]) -> Done<MemberState> {
        let admitted = admitted.iter().map(|name| (*name).to_owned()).collect();
        self.order(
            k,
            &Verb::Promote(Promote {
                epoch: self.epoch,
                number: Some(self.number),
                data: self.data.clone(),
                acks,
                admitted,
            }),
        )
        .await
    }

    async fn follow(&self, k: usize, source: usize, acknowledge: bool) -> Done<MemberState> {
        let uri: http::Uri =
            self.url(source).parse().map_err(|_| format!("{}: this is not a URL", self.url(source)))?;
        let source = uri.host().unwrap_or_default().to_owned();
        self.order(
            k,
            &Verb::Follow(Follow {
                epoch: self.epoch,
                number: Some(self.number),
                data: self.data.clone(),
                source,
                acknowledge,
            }),
        )
        .await
    }

    async fn fence(&self, k: usize) -> Done<MemberState> {
        self.order(k, &Verb::Fence(Order { epoch: self.epoch, number: Some(self.number), data: self.data.clone() }))
            .await
    }

    async fn demote(&self, k: usize) -> Done<MemberState> {
        self.order(
            k,
            &Verb::Demote(Demote {
                epoch: self.epoch,
                number: Some(self.number),
                data: self.data.clone(),
                within: 10_000,
            }),
        )
        .await
    }

    fn url(&self, k: usize) -> &str {
        self.urls.get(k).map_or("", String::as_str)
    }

    async fn state(&self, k: usize) -> Done<MemberState> {
        self.client.state(self.url(k), ANSWER).await.map_err(|error| error.to_string())
    }

    /// Gives an order, again while the agent says that it may be obeyed later.
    async fn order(&self, k: usize, verb: &Verb) -> Done<MemberState> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.client.order(self.url(k), verb, PATIENCE).await {
                Ok(state) => return Ok(state),
                Err(ClientError::Refused(refusal)) if refusal.reason.is_passing() && Instant::now() < end => {}
                Err(error) => return Err(format!("{}: {}: {error}", self.url(k), verb.name())),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn refused(&self, k: usize, verb: &Verb, reason: Reason) -> Done {
        match self.client.order(self.url(k), verb, PATIENCE).await {
            Err(ClientError::Refused(refusal)) if refusal.reason == reason => Ok(()),
            Err(error) => Err(format!("{}: it is refused differently: {error}", verb.name())),
            Ok(_) => Err(format!("{}: it is obeyed", verb.name())),
        }
    }

    async fn until(&self, k: usize, what: &str, holds: impl Fn(&MemberState) -> bool) -> Done<MemberState> {
        let end = Instant::now() + PATIENCE;
        loop {
            let state = self.state(k).await?;
            if holds(&state) {
                return Ok(state);
            }
            if Instant::now() > end {
                return expect(what, false, &state).map(|()| state);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn expect(what: &str, holds: bool, seen: &impl serde::Serialize) -> Done {
    let seen = || serde_json::to_string(seen).unwrap_or_default();
    if holds { Ok(()) } else { Err(format!("not seen: {what}; but {}", seen())) }
}
