//! One run: faults one after the other, each when all members are well, under clients that record their answers.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use super::ChaosError;
use super::hand::{Hand, LOOK};
use super::history::{Availability, availability};
use super::plan::{Fault, Plan};
use super::reach::Reach;
use super::record::{self, Recorded, Recorder};
use crate::members::etcd::client::read;

/// How often the run checks whether members are healthy.
const PAUSE: Duration = Duration::from_millis(300);

/// The parts of a run.
pub struct ChaosRun {
    /// The part that injects faults.
    pub hand: Hand,
    /// Which.
    pub plan: Plan,
    /// How many members there are.
    pub size: u32,
    /// How members are reached; its timeout is that of each operation of a client.
    pub reach: Reach,
    /// For how long faults are begun.
    pub duration: Duration,
    /// How many there are at most.
    pub count: usize,
    /// How long it may take until all members are well again.
    pub patience: Duration,
    /// The prefix of the clients' keys.
    pub prefix: String,
    /// For the choices of the clients.
    pub seed: u64,
}

/// The result of a run.
pub struct ChaosReport {
    /// The records of the clients.
    pub recorded: Recorded,
    /// The faults, each with the statistics of writes until all members were well again.
    pub faults: Vec<(Fault, Availability)>,
    /// How they fared all in all.
    pub total: Availability,
    /// The parts that did not finish, such as members that did not become healthy.
    pub trouble: Vec<String>,
}

impl ChaosRun {
    /// Runs the faults and reports each in a line. It ends early when `interrupted` comes; in each case everything is undone.
    ///
    /// # Errors
    /// When nothing was done, because the cluster was not well or it was `interrupted` before; and when the clients' keys cannot be
    /// read in the end.
    pub async fn run(
        mut self,
        interrupted: impl Future<Output = ()>,
        tell: impl Fn(&str),
    ) -> Result<ChaosReport, ChaosError> {
        let mut interrupted = pin!(interrupted);
        self.hand.heal().await?;
        let well = tokio::select! {
            well = self.well(None) => well,
            () = &mut interrupted => Err("interrupted".into()),
        };
        well.map_err(|why| format!("no fault is injected into a cluster that is not well: {why}"))?;
        let urls = self.urls().await?;
        let recorder = Recorder::start(self.reach.clone(), urls, &self.prefix, self.seed);
        let text = |result: Result<(), ChaosError>| result.err().map(|e| e.to_string());
        let (mut spans, mut trouble) = (Vec::new(), Vec::new());
        tokio::select! {
            result = self.faults(&recorder, &mut spans, &tell) => trouble.extend(text(result)),
            () = &mut interrupted => tell("interrupted: undoing everything"),
        }
        trouble.extend(text(self.hand.heal().await));
        trouble.extend(text(self.well(Some(&recorder)).await));
        let end = recorder.now();
        let all = recorder.finish(self.patience).await?;
        trouble.extend(text(record::remove(&self.reach, &self.urls().await?, &self.prefix).await));
        let of = |from, to| availability(&all.entries, from, to);
        let faults = spans.into_iter().map(|(fault, from, to)| (fault, of(from, to.unwrap_or(end)))).collect();
        let total = of(0, end);
        Ok(ChaosReport { recorded: all, faults, total, trouble })
    }

    async fn faults(
        &mut self,
        recorder: &Recorder,
        spans: &mut Vec<(Fault, u64, Option<u64>)>,
        tell: &impl Fn(&str),
    ) -> Result<(), ChaosError> {
        let began = Instant::now();
        while began.elapsed() < self.duration && spans.len() < self.count {
            let Some(fault) = self.plan.next() else { break };
            let from = recorder.now();
            let words = fault.words(self.hand.name());
            tell(&format!("{:6.1} s {words}", Duration::from_nanos(from).as_secs_f32()));
            spans.push((fault.clone(), from, None));
            self.hand.begin(&fault).await.map_err(|why| format!("{words}: {why}"))?;
            let over = Instant::now() + fault.lasts;
            while Instant::now() < over {
                // Pods that come meanwhile have other addresses.
                recorder.set_urls(self.urls().await?);
                self.hand.go_on().await?;
                sleep(PAUSE.min(over.saturating_duration_since(Instant::now()))).await;
            }
            self.hand.heal().await?;
            self.well(Some(recorder)).await?;
            if let Some((_, _, to)) = spans.last_mut() {
                *to = Some(recorder.now());
            }
        }
        Ok(())
    }

    async fn urls(&self) -> Result<Vec<String>, ChaosError> {
        let members = self.hand.members().await?;
        Ok(members.values().filter_map(|member| Some(self.reach.url(member.address.as_deref()?))).collect())
    }

    /// Waits until every member reads what all agree on, and the operator is ready.
    async fn well(&self, recorder: Option<&Recorder>) -> Result<(), ChaosError> {
        let end = Instant::now() + self.patience;
        loop {
            if let Some(recorder) = recorder {
                recorder.set_urls(self.urls().await.unwrap_or_default());
            }
            let why = match self.look().await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if Instant::now() > end {
                return Err(format!("not well after {} s: {why}", self.patience.as_secs()).into());
            }
            sleep(PAUSE).await;
        }
    }

    async fn look(&self) -> Result<(), ChaosError> {
        let name = self.hand.name();
        let members = self.hand.members().await?;
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        if members.len() != size {
            return Err(format!("{} of {size} pods exist", members.len()).into());
        }
        let asked = members.into_iter().map(|(ordinal, member)| async move {
            let silent = || format!("{name}-{ordinal} does not answer a linearizable read");
            let url = self.reach.url(&member.address.ok_or_else(|| format!("{name}-{ordinal} has no address"))?);
            let read = timeout(LOOK, async { read(&self.reach.client(&url).await?).await }).await;
            let read = read.map_err(|_| silent())?.map_err(|e| format!("{}: {e}", silent()))?;
            let voters = read.members.iter().filter(|member| member.started() && !member.learner).count();
            if (read.members.len(), voters) == (size, size) {
                Ok((read.cluster, read.member))
            } else {
                Err(ChaosError::from(format!("{voters} of {} members vote", read.members.len())))
            }
        });
        let read = join_all(asked).await.into_iter().collect::<Result<BTreeSet<_>, ChaosError>>()?;
        let clusters: BTreeSet<_> = read.iter().map(|(cluster, _)| cluster).collect();
        if (read.len(), clusters.len()) != (size, 1) {
            return Err(format!("{} members belong to {} clusters", read.len(), clusters.len()).into());
        }
        if self.hand.operator_is_ready().await? { Ok(()) } else { Err("the operator is not ready".into()) }
    }
}
