//! The operator's part of the etcd driver: the `ConfigMap` that members without data start from, the Secrets with the
//! credentials for calls to members, and the checks of clusters at rest, which cost the API server nothing.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;

use super::config_map::{self, DriversMap};
use super::executor::SetPass;
use super::registered::{Made, Passed, Registered};
use super::secrets::{Lack, missing, secret};
use crate::mask::Secrets;
use crate::members::config_maps::Untouched;
use crate::members::document::Set;
use crate::members::driver::{MemberDriver as _, MemberStep};
use crate::members::etcd::client::Access;
use crate::members::etcd::document::{EtcdDocument, LABEL};
use crate::members::etcd::driver::Etcd;
use crate::members::etcd::state::{Call, EtcdAction, InitialCluster};
use crate::members::progress::{self, Doing};
use crate::members::workload::{Latch, Mode, Workload, WorkloadTarget};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::notify::event;
use crate::reconcile::observe::observed::Observed;
use crate::reconcile::queue::with_jitter;

/// How long a member may take to answer. A write takes milliseconds. An election, which a read waits for, takes about a
/// second.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest time between two checks of members at rest. Kubelets report pods that are not ready, and watches report
/// deleted pods, at once. The checks find what only etcd knows: alarms, foreign members, partitions.
const PERIOD: Duration = Duration::from_secs(20);
/// If a check fails once, it is repeated after this time before the API server is asked.
const AGAIN: Duration = Duration::from_secs(2);

/// The driver of etcd, as it is registered.
pub struct EtcdDriver;

impl Registered for EtcdDriver {
    fn makes(&self) -> Option<Made> {
        Some((ApiResource::erase::<ConfigMap>(&()), LABEL))
    }

    fn pass<'a>(&'a self, pass: &'a SetPass<'a>) -> BoxFuture<'a, Result<Passed, Error>> {
        Box::pin(pass_over(pass))
    }

    fn leave_behind<'a>(
        &'a self,
        observed: &'a Observed,
        set: &'a Set,
        ctx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let Ok(document) = EtcdDocument::read(&set.etcd, &set.target) else { return Ok(()) };
            config_map::leave_behind(&DriversMap::of(&document.config_map, LABEL, observed, ctx), observed).await
        })
    }
}

/// One step of a cluster, with its events.
async fn pass_over(pass: &SetPass<'_>) -> Result<Passed, Error> {
    let SetPass { observed, set, workload, ctx, .. } = *pass;
    let target = pass.target();
    if target.mode != Mode::Run {
        return Ok(pass.nothing(Doing::Nothing));
    }
    let driver = match driver(observed, set, ctx).await? {
        Ok(driver) => driver,
        Err(Lack::Waits(what)) => return Ok(pass.nothing(Doing::Waiting(what))),
        Err(Lack::Wrong(why)) => return Ok(pass.wrong(why)),
    };
    let seen = driver.observe(workload, pass.latch).await;
    let step = driver.decide(workload, &seen, &target, pass.latch, observed.facts.now);
    let quiet = step == MemberStep::Quiet;
    let call = matches!(
        step,
        MemberStep::Act(EtcdAction::Call { .. }) | MemberStep::ActThen { action: EtcdAction::Call { .. }, .. }
    );
    let votes = matches!(step, MemberStep::Act(EtcdAction::Call { call: Call::AddVoter { .. }, .. }));
    let ((doing, after), latch) = pass.perform(&driver, step).await?;
    if let (true, Doing::Done(what)) = (votes, &doing) {
        let cost = "etcd before 3.4 has no learners: until its pod has started, the cluster tolerates one failure \
                    fewer, and a cluster of two cannot write";
        event(observed, ctx, true, "MemberVotesAtOnce", format!("StatefulSet {}: {what}; {cost}", set.target));
    }
    if let (true, Doing::Done(what)) = (call, &doing) {
        event(observed, ctx, false, "MembersChanged", format!("StatefulSet {}: {what}", set.target));
    }
    if pass.latch.recovery != latch.recovery {
        let what = progress::describe_latch(set, pass.latch, &latch);
        event(observed, ctx, true, "RecoveringQuorum", format!("StatefulSet {}: {what}", set.target));
    }
    if quiet {
        let rest = Rest { workload: workload.clone(), target, latch: latch.clone(), initial: seen.initial };
        ctx.watching.members.attend(&observed.key, &set.name, rest.watched(driver));
    }
    Ok(((doing, after), latch).into())
}

/// The driver of a cluster.
async fn driver(observed: &Observed, set: &Set, ctx: &Context) -> Result<Result<Etcd<DriversMap>, Lack>, Error> {
    let document = match EtcdDocument::read(&set.etcd, &set.target) {
        Ok(document) => document,
        Err(why) => return Ok(Err(Lack::Wrong(why))),
    };
    let access = match access(&document, observed, ctx).await? {
        Ok(access) => access,
        Err(lack) => return Ok(Err(lack)),
    };
    let config_maps = DriversMap::of(&document.config_map, LABEL, observed, ctx);
    Ok(Ok(Etcd { settings: document.settings, access, config_maps }))
}

/// The certificates and the password. Each pass reads them again, since they may have been renewed. No text shows them.
async fn access(document: &EtcdDocument, observed: &Observed, ctx: &Context) -> Result<Result<Access, Lack>, Error> {
    let mut access = Access { tls: None, user: None, timeout: TIMEOUT };
    if let Some(name) = &document.tls_secret {
        let Some(found) = secret(name, observed).await? else { return Ok(Err(missing(name, "etcd.tls"))) };
        access.tls = match found.tls() {
            Ok(tls) => Some(tls),
            Err(why) => return Ok(Err(Lack::Wrong(why))),
        };
    }
    if let Some(name) = &document.user_secret {
        let Some(found) = secret(name, observed).await? else { return Ok(Err(missing(name, "etcd.auth"))) };
        access.user = match (found.text("username"), found.text("password")) {
            (Ok(user), Ok(password)) => {
                let mut secrets = Secrets::default();
                secrets.add(&password);
                ctx.memory.masks.learn(&observed.key, secrets);
                Some((user, password))
            }
            (Err(why), _) | (_, Err(why)) => return Ok(Err(Lack::Wrong(why))),
        };
    }
    Ok(Ok(access))
}

/// A cluster for which the last pass had nothing to do. Watches report changes that the API server knows of.
struct Rest {
    /// The StatefulSet.
    pub workload: Workload,
    /// The wanted state.
    pub target: WorkloadTarget,
    /// The state from the status.
    pub latch: Latch,
    /// The content of the `ConfigMap`.
    pub initial: Result<Option<InitialCluster>, String>,
}

impl Rest {
    /// Asks the members from time to time, and returns when a pass would find something to do.
    pub async fn watched(self, driver: Etcd<DriversMap>) {
        let Etcd { settings, access, .. } = driver;
        let driver = Etcd { settings, access, config_maps: Untouched };
        loop {
            tokio::time::sleep(with_jitter(PERIOD)).await;
            if !self.is_quiet(&driver).await {
                tokio::time::sleep(AGAIN).await;
                if !self.is_quiet(&driver).await {
                    return;
                }
            }
        }
    }

    async fn is_quiet(&self, driver: &Etcd<Untouched>) -> bool {
        let mut seen = driver.observe(&self.workload, &self.latch).await;
        seen.initial.clone_from(&self.initial);
        let now = jiff::Timestamp::now().as_second();
        driver.decide(&self.workload, &seen, &self.target, &self.latch, now) == MemberStep::Quiet
    }
}
