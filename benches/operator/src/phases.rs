//! The phases of a measurement, in this order.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::api::{Api, Error, Watch};
use crate::audit::{Audit, AuditedRequest};
use crate::process::{Operator, Usage};
use crate::scene::{Change, Scene, Sent};
use crate::table::{Figure, Row};

/// How long anything but the creation is waited for. helm-operator needs longer for some things from a few hundred custom resources on.
const PATIENCE: Duration = Duration::from_secs(360);

/// How long the creation may take.
const CREATION: Duration = Duration::from_secs(1200);

/// No request for so long is rest.
const QUIET: Duration = Duration::from_secs(3);

/// One changed custom resource follows the other after so long; where there are too few of them, after so long when the last is done.
const STEP: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_secs(4);

/// The same custom resource is changed so often at most: from the fifth repair of a field within a minute on, Tillerman takes it for a
/// quarrel, says so (`Contested`) and slows down.
const SAMPLES_OF_ONE: usize = 3;

/// Drifts made while the operator is down.
const DRIFTS: usize = 20;

/// A phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchPhase {
    Create,
    Rest,
    Drift,
    Spec,
    Restart,
    Delete,
}

impl BenchPhase {
    pub const ALL: [(&str, Self); 6] = [
        ("create", Self::Create),
        ("rest", Self::Rest),
        ("drift", Self::Drift),
        ("spec", Self::Spec),
        ("restart", Self::Restart),
        ("delete", Self::Delete),
    ];
}

/// How an operator is started and what is done with it.
pub struct Setup {
    pub program: PathBuf,
    pub watches: PathBuf,
    /// The folder of the control plane.
    pub cluster: PathBuf,
    /// How many changes are sampled.
    pub samples: usize,
    /// How long it is watched at rest.
    pub window: Duration,
}

/// A measurement under way.
pub struct Bench<'a> {
    setup: &'a Setup,
    scene: Scene,
    crs: Watch,
    /// From the first change on: a creation has no need of it, and it costs the API server time.
    deployments: Option<Arc<Watch>>,
    audit: Audit,
    operator: Option<Operator>,
    /// Replicas by rights, where not 1.
    replicas: HashMap<String, u64>,
    /// The results.
    pub figures: Vec<Figure>,
}

impl<'a> Bench<'a> {
    /// With a fresh namespace and an operator that runs.
    pub async fn new(setup: &'a Setup, api: &Api, namespace: &str, n: usize) -> Result<Self, Error> {
        let scene = Scene::new(api, namespace, n).await?;
        let crs = Watch::start(api, &scene.crs()).await?;
        let audit = Audit::open(&setup.cluster.join("audit.log"))?;
        let (replicas, figures) = (HashMap::new(), Vec::new());
        let mut bench = Self { setup, scene, crs, deployments: None, audit, operator: None, replicas, figures };
        bench.start().await?;
        bench.quiet(Duration::from_secs(20)).await?;
        Ok(bench)
    }

    /// Does a phase; whether others can follow.
    pub async fn run(&mut self, phase: BenchPhase) -> Result<bool, Error> {
        match phase {
            BenchPhase::Create => return self.create().await,
            BenchPhase::Rest => self.rest().await?,
            BenchPhase::Drift => self.change(Change::Drift).await?,
            BenchPhase::Spec => self.change(Change::Spec).await?,
            BenchPhase::Restart => self.restart().await?,
            BenchPhase::Delete => self.delete().await?,
        }
        Ok(true)
    }

    /// Kills the operator; what was measured, and the scene with what is left in it.
    pub fn end(mut self) -> Result<(Vec<Figure>, Scene), Error> {
        if let Some(operator) = self.operator.take() {
            operator.kill()?;
        }
        Ok((self.figures, self.scene))
    }

    async fn create(&mut self) -> Result<bool, Error> {
        let n = self.scene.names.len();
        self.audit.read()?;
        let (from, cpu) = (Instant::now(), self.usage()?.cpu);
        self.scene.create_all().await?;
        let all = |log: &crate::api::Log| (log.deployed.len() >= n).then(|| log.deployed.values().max().copied())?;
        let Some(last) = self.crs.until(from + CREATION, all).await else {
            let deployed = self.crs.look(|log| log.deployed.len());
            let text = format!("{deployed} of them in {} min", CREATION.as_secs() / 60);
            self.figures.push(Figure::text(Row::Created, text));
            return Ok(false);
        };
        self.figures.push(Figure::seconds(Row::Created, last - from));
        self.figures.push(Figure::plain(Row::CreatedCpu, self.usage()?.cpu - cpu, " s"));
        // The requests that an operator sends about them afterwards belong to it.
        let mut requests = self.audit.read()?;
        requests.extend(self.quiet(Duration::from_secs(20)).await?);
        let (sent, writes) = counts(&requests);
        let text = format!("{:.1}, {:.1} of them writes", sent / n as f64, writes / n as f64);
        self.figures.push(Figure { row: Row::CreatedRequests, text, value: Some(sent / n as f64) });
        self.figures.push(Figure::text(Row::CreatedByVerb, by_verb(&requests, n)));
        Ok(true)
    }

    async fn rest(&mut self) -> Result<(), Error> {
        self.quiet(Duration::from_secs(20)).await?;
        let (from, before) = (Instant::now(), self.usage()?);
        sleep(self.setup.window).await;
        let (requests, after) = (self.audit.read()?, self.usage()?);
        let minutes = from.elapsed().as_secs_f64() / 60.0;
        let per_minute = counts(&requests).0 / minutes;
        let text = format!("{per_minute:.0} ({:.1} for each)", per_minute / self.scene.names.len() as f64);
        self.figures.push(Figure { row: Row::RestRequests, text, value: Some(per_minute) });
        let share = (after.cpu - before.cpu) / (minutes * 60.0) * 100.0;
        self.figures.push(Figure { row: Row::RestCpu, text: format!("{share:.2} %"), value: Some(share) });
        self.figures.push(Figure {
            row: Row::Memory,
            text: format!("{:.1} MiB (at most {:.0})", after.rss, after.peak),
            value: Some(after.rss),
        });
        Ok(())
    }

    async fn change(&mut self, change: Change) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let samples = self.setup.samples.min(self.scene.names.len() * SAMPLES_OF_ONE);
        let deployments = self.deployments().await?;
        let names = self.spread(samples);
        let one_by_one = names.len() < samples;
        let (mut times, mut writes) = (Vec::new(), Vec::new());
        let mut made = 0;
        let mut waiting = JoinSet::new();
        for name in names.iter().cycle().take(samples) {
            if Instant::now() > deadline {
                break;
            }
            let sent = self.send(change, name).await?;
            made += 1;
            writes.push(sent.answered);
            if one_by_one {
                times.extend(sent.took(&deployments, deadline).await);
                sleep(PAUSE).await;
            } else {
                let deployments = Arc::clone(&deployments);
                waiting.spawn(async move { sent.took(&deployments, deadline).await });
                sleep(STEP).await;
            }
        }
        times.extend(waiting.join_all().await.into_iter().flatten());
        let (row, row_of_writes) = match change {
            Change::Drift => (Row::Drift, Row::DriftWrite),
            Change::Spec => (Row::Spec, Row::SpecWrite),
        };
        self.figures.extend(Figure::latencies(row, times, made, PATIENCE));
        self.figures.extend(Figure::latencies(row_of_writes, writes, made, PATIENCE));
        Ok(())
    }

    async fn restart(&mut self) -> Result<(), Error> {
        self.quiet(Duration::from_secs(20)).await?;
        if let Some(operator) = self.operator.take() {
            operator.kill()?;
        }
        let deployments = self.deployments().await?;
        let names = self.spread(DRIFTS);
        let mut drifts = Vec::new();
        for name in &names {
            drifts.push(self.send(Change::Drift, name).await?);
        }
        self.audit.read()?;
        let (from, clock) = (Instant::now(), Timestamp::now());
        self.start().await?;
        let mut last = Some(from);
        for drift in &drifts {
            let seen = drift.seen(&deployments, from + PATIENCE).await;
            last = last.and_then(|last| Some(last.max(seen?)));
        }
        let Some(repaired) = last.map(|last| last - from) else {
            let text = format!("not all {} in {} min", drifts.len(), PATIENCE.as_secs() / 60);
            self.figures.push(Figure::text(Row::RestartRepaired, text));
            return Ok(());
        };
        self.figures.push(Figure::seconds(Row::RestartRepaired, repaired));
        let repaired_cpu = self.usage()?.cpu;
        let requests = self.quiet(PATIENCE.min(Duration::from_secs(60))).await?;
        let end = requests.iter().map(|r| r.at).max().unwrap_or(clock);
        if Timestamp::now().duration_since(end).unsigned_abs() >= QUIET {
            let settled = end.duration_since(clock).unsigned_abs().max(repaired);
            self.figures.push(Figure::seconds(Row::RestartSettled, settled));
        } else {
            self.figures.push(Figure::text(Row::RestartSettled, "never while watched".to_owned()));
        }
        self.figures.push(Figure::plain(Row::RestartCpu, repaired_cpu, " s"));
        let (sent, writes) = counts(&requests);
        let text = format!("{sent}, {writes} of them writes");
        self.figures.push(Figure { row: Row::RestartRequests, text, value: Some(sent) });
        self.figures.push(Figure::text(Row::RestartByVerb, by_verb(&requests, 1)));
        Ok(())
    }

    async fn delete(&mut self) -> Result<(), Error> {
        let n = self.scene.names.len();
        let from = Instant::now();
        self.scene.delete_all().await?;
        let gone = self.crs.until(from + CREATION, |log| (log.gone.0 >= n).then_some(log.gone.1)?).await;
        let empty = self.scene.wait_empty(from + CREATION).await?;
        match gone {
            Some(_) if empty => self.figures.push(Figure::seconds(Row::Deleted, from.elapsed())),
            _ => {
                let text = format!("not in {} min", CREATION.as_secs() / 60);
                self.figures.push(Figure::text(Row::Deleted, text));
            }
        }
        Ok(())
    }

    async fn start(&mut self) -> Result<(), Error> {
        let setup = self.setup;
        let (kubeconfig, log) = (setup.cluster.join("operator.kubeconfig"), setup.cluster.join("bench-operator.log"));
        self.operator = Some(Operator::start(&setup.program, &setup.watches, &kubeconfig, &log).await?);
        Ok(())
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.operator.as_ref().ok_or("no operator runs")?.usage()
    }

    /// So many names, from all over; fewer if there are fewer.
    fn spread(&self, number: usize) -> Vec<String> {
        let all = &self.scene.names;
        let number = number.min(all.len());
        (0..number).map(|i| all[i * all.len() / number].clone()).collect()
    }

    async fn deployments(&mut self) -> Result<Arc<Watch>, Error> {
        if let Some(watch) = &self.deployments {
            return Ok(Arc::clone(watch));
        }
        let watch = Arc::new(Watch::start(&self.scene.api, &self.scene.deployments()).await?);
        self.deployments = Some(Arc::clone(&watch));
        Ok(watch)
    }

    async fn send(&mut self, change: Change, name: &str) -> Result<Sent, Error> {
        let deployments = self.deployments().await?;
        let replicas = self.replicas.get(name).copied().unwrap_or(1);
        let (sent, replicas) = Sent::send(&self.scene, &deployments, change, name, replicas).await?;
        self.replicas.insert(name.to_owned(), replicas);
        Ok(sent)
    }

    /// Waits until the operator no longer sends anything, but not longer than `most`. Returns what it sent.
    async fn quiet(&mut self, most: Duration) -> Result<Vec<AuditedRequest>, Error> {
        let from = Instant::now();
        let mut requests = self.audit.read()?;
        let mut last = Instant::now();
        while last.elapsed() < QUIET && from.elapsed() < most {
            sleep(Duration::from_millis(100)).await;
            let more = self.audit.read()?;
            if !more.is_empty() {
                last = Instant::now();
            }
            requests.extend(more);
        }
        Ok(requests)
    }
}

/// How many requests there are beside watches, and how many of them are writes.
fn counts(requests: &[AuditedRequest]) -> (f64, f64) {
    let sent = requests.iter().filter(|r| !r.is_watch());
    (sent.clone().count() as f64, sent.filter(|r| r.is_write()).count() as f64)
}

/// The requests by verb and resource, the most frequent first, each as a share of `n`.
fn by_verb(requests: &[AuditedRequest], n: usize) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests.iter().filter(|r| !r.is_watch()) {
        // The path of a document would be a line of its own for each group.
        let target = if request.target.starts_with('/') { "discovery and OpenAPI" } else { &request.target };
        *counts.entry(format!("{} {target}", request.verb)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(what, count)| (what, count as f64 / n as f64)).collect();
    counts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = counts.iter().filter(|(_, share)| *share >= 0.01);
    shown.map(|(what, share)| format!("{what} {}", (share * 100.0).round() / 100.0)).collect::<Vec<_>>().join(", ")
}
