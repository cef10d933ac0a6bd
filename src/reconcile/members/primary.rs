//! The operator's part of the driver of databases with one primary and replicas: the `ConfigMap` of roles, the Secret with the
//! certificates for calls to agents, and the checks of clusters at rest, which cost the API server nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use serde_json::{Map, Value};

use super::config_map::{self, DriversMap};
use super::executor::SetPass;
use super::registered::{Made, Passed, Registered};
use super::secrets::{Lack, missing, secret};
use crate::cluster::cache::ReleaseKey;
use crate::mask::Text;
use crate::members::config_maps::{ConfigMaps, Untouched};
use crate::members::document::Set;
use crate::members::driver::{MemberDriver as _, MemberStep};
use crate::members::primary::client::Agents;
use crate::members::primary::document::{LABEL, PrimaryDocument};
use crate::members::primary::driver::{Primary, Shown};
use crate::members::primary::report::{report, restarts, sight};
use crate::members::primary::state::{ChangeKind, Latched, ObservedPrimary, PrimaryAction, RequestResult, Roles};
use crate::members::progress::Doing;
use crate::members::workload::{Latch, Mode, Workload, WorkloadTarget};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::memory::primaries::Primaries;
use crate::reconcile::notify::event;
use crate::reconcile::observe::observed::Observed;
use crate::reconcile::queue::with_jitter;
use crate::reconcile::render::secrets::learn;

/// The longest time between two checks of members at rest. A primary counts as lost after seconds, and only its agent knows that its
/// database hangs.
const PERIOD: Duration = Duration::from_secs(2);
/// If a check fails once, it is repeated after this time before the API server is asked; but not if the primary said that its database
/// has ended.
const AGAIN: Duration = Duration::from_millis(500);

/// The most steps of a pass: a fail-over with two replicas takes ten. The state of pods is as old as the pass.
const STEPS: u32 = 12;

/// The driver of databases with one primary and replicas, as it is registered.
pub struct PrimaryDriver;

impl Registered for PrimaryDriver {
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
            let Ok(document) = PrimaryDocument::read(&set.primary, &set.target) else { return Ok(()) };
            config_map::leave_behind(&DriversMap::of(&document.config_map, LABEL, observed, ctx), observed).await
        })
    }
}

/// The results of the steps of a pass.
struct Stepped {
    passed: Passed,
    /// With the roles that pods have got.
    workload: Workload,
    /// Before the last step.
    seen: ObservedPrimary,
    /// There was nothing to do.
    quiet: bool,
}

/// Carries out a step, and those that follow from it and need nothing new of the API server: while nobody can write, each pass would
/// cost a tenth of a second. Before each, the members are asked again.
async fn steps<C: ConfigMaps>(
    pass: &SetPass<'_>,
    driver: &Primary<C>,
    target: &WorkloadTarget,
) -> Result<Stepped, Error> {
    let SetPass { observed, members, set, stored, keeps, ctx, .. } = *pass;
    let now = observed.facts.now;
    let (mut workload, mut latch) = (pass.workload.clone(), pass.latch.clone());
    let mut seen = driver.observe(&workload, &latch).await;
    let mut step = driver.decide(&workload, &seen, target, &latch, now);
    let quiet = step == MemberStep::Quiet;
    let mut left = STEPS;
    loop {
        left -= 1;
        let one = SetPass { observed, members, set, workload: &workload, latch: &latch, stored, keeps, ctx };
        let orders = matches!(step, MemberStep::Act(_));
        let labels =
            if let MemberStep::LabelPod { ordinal, role, .. } = &step { Some((*ordinal, *role)) } else { None };
        let was_brief = is_brief(&step);
        let passed: Passed = one.perform(driver, step).await?.into();
        if let (true, Doing::Done(what)) = (orders, &passed.doing) {
            event(observed, ctx, false, "MembersChanged", format!("StatefulSet {}: {what}", set.target));
        }
        announce(&one, &passed.latch);
        let goes_on = was_brief && left > 0 && matches!(passed.doing, Doing::Done(_));
        if !goes_on {
            return Ok(Stepped { passed, workload, seen, quiet });
        }
        latch.clone_from(&passed.latch);
        if let Some((ordinal, role)) = labels
            && let Some(pod) = workload.pods.get_mut(&ordinal)
        {
            pod.role = role.map(Into::into);
        }
        seen = driver.observe(&workload, &latch).await;
        step = driver.decide(&workload, &seen, target, &latch, now);
        if !is_brief(&step) {
            return Ok(Stepped { passed, workload, seen, quiet });
        }
    }
}

/// Whether another step may follow in the same pass: it changes nothing of the StatefulSet, and its pods and claims.
fn is_brief(step: &MemberStep<PrimaryAction>) -> bool {
    matches!(step, MemberStep::Latch(_) | MemberStep::Act(_) | MemberStep::LabelPod { .. })
}

/// The steps of a cluster, with their events.
async fn pass_over(pass: &SetPass<'_>) -> Result<Passed, Error> {
    let SetPass { observed, set, ctx, .. } = *pass;
    let target = pass.target();
    if !matches!(target.mode, Mode::Run | Mode::Keep) {
        return Ok(pass.nothing(Doing::Nothing));
    }
    let document = match PrimaryDocument::read(&set.primary, &set.target) {
        Ok(document) => document,
        Err(why) => return Ok(pass.wrong(why)),
    };
    let agents = match agents(&document, observed).await? {
        Ok(agents) => agents,
        Err(Lack::Waits(what)) => return Ok(pass.nothing(Doing::Waiting(what))),
        Err(Lack::Wrong(why)) => return Ok(pass.wrong(why)),
    };
    let config_maps = DriversMap::of(&document.config_map, LABEL, observed, ctx);
    let refused = Mutex::new(ctx.memory.refusals.of(&observed.key, &set.name));
    let driver = Primary {
        settings: document.settings,
        name: set.target.clone(),
        agents,
        config_maps,
        refused,
        shown: masked(observed, ctx).await,
    };
    let stepped = steps(pass, &driver, &target).await;
    ctx.memory.refusals.note(&observed.key, &set.name, driver.refused());
    let Stepped { mut passed, workload, seen, quiet } = stepped?;
    let details = details(&driver, &workload, &seen, &passed.latch);
    for (name, why) in restarts(observed.cr.status().get("members").and_then(|all| all.get(&set.name)), &details) {
        let what = format!("StatefulSet {}: the database of {name} hung, and its agent ended it: {why}", set.target);
        event(observed, ctx, true, "DatabaseRestarted", what);
    }
    passed.details = Some(details);
    let noted = Noted { primaries: ctx.memory.primaries.clone(), key: observed.key.clone(), set: set.name.clone() };
    noted.note(&driver, &workload, &seen, &passed.latch);
    if quiet {
        let Primary { settings, name, agents, shown, .. } = driver;
        let driver = Primary { settings, name, agents, config_maps: Untouched, refused: Mutex::default(), shown };
        let rest = Rest { workload, target, latch: passed.latch.clone(), roles: seen.roles, noted };
        ctx.watching.members.attend(&observed.key, &set.name, rest.watched(driver));
    }
    Ok(passed)
}

/// How texts of agents are shown: without what is secret in the release.
async fn masked(observed: &Observed, ctx: &Context) -> Shown {
    let is_known = learn(observed, ctx).await;
    let (masks, key) = (Arc::clone(&ctx.memory.masks), observed.key.clone());
    Box::new(move |text| {
        let text = Text::foreign(text);
        if is_known { masks.show(&key, &text) } else { text.to_string() }
    })
}

fn details<C>(driver: &Primary<C>, workload: &Workload, seen: &ObservedPrimary, latch: &Latch) -> Map<String, Value> {
    report(&driver.settings, workload, seen, latch)
}

/// Sends the events about another primary.
fn announce(pass: &SetPass<'_>, latch: &Latch) {
    let nothing = Latched::default();
    let (old, new) = (pass.latch.primary.as_ref().unwrap_or(&nothing), latch.primary.as_ref().unwrap_or(&nothing));
    let set = &pass.set.target;
    let begun = new.change.as_ref().filter(|begun| old.change.as_ref() != Some(begun));
    if let Some(begun) = begun.filter(|begun| begun.kind == ChangeKind::FailOver) {
        event(pass.observed, pass.ctx, true, "PrimaryLost", format!("StatefulSet {set}: {}", begun.why));
    }
    let refused = new.requested.as_ref().filter(|request| request.result == RequestResult::Refused);
    if let Some(request) = refused.filter(|request| old.requested.as_ref() != Some(request)) {
        let why = request.why.as_deref().unwrap_or_default();
        event(
            pass.observed,
            pass.ctx,
            true,
            "SwitchOverRefused",
            format!("StatefulSet {set}: {}: {why}", request.text),
        );
    }
    if new.last == old.last {
        return;
    }
    let Some(last) = &new.last else { return };
    let Some(to) = last.to else {
        event(pass.observed, pass.ctx, true, "SwitchOverGivenUp", format!("StatefulSet {set}: {}", last.why));
        return;
    };
    let from = last.from.map_or_else(String::new, |from| format!(" in place of {set}-{from}"));
    let what = format!("StatefulSet {set}: {set}-{to} is the primary{from}: {}", last.why);
    event(pass.observed, pass.ctx, last.kind == ChangeKind::FailOver, "PrimaryChanged", what);
}

/// The agents, with the certificates for calls to them.
async fn agents(document: &PrimaryDocument, observed: &Observed) -> Result<Result<Agents, Lack>, Error> {
    let mut tls = None;
    if let Some(name) = &document.tls_secret {
        let Some(found) = secret(name, observed).await? else { return Ok(Err(missing(name, "primary.tls"))) };
        tls = match found.tls() {
            Ok(tls) => Some(tls),
            Err(why) => return Ok(Err(Lack::Wrong(why))),
        };
    }
    let wrong = |why: String| {
        let name = document.tls_secret.as_deref().unwrap_or_default();
        Lack::Wrong(format!("Secret {name}: {why}"))
    };
    Ok(Agents::new(tls.as_ref()).map_err(wrong))
}

/// Where what the members report is noted for the metrics.
struct Noted {
    primaries: Primaries,
    key: ReleaseKey,
    set: String,
}

impl Noted {
    fn note<C>(&self, driver: &Primary<C>, workload: &Workload, seen: &ObservedPrimary, latch: &Latch) {
        self.primaries.note(&self.key, &self.set, sight(&driver.settings, workload, seen, latch));
    }
}

/// A cluster for which the last pass had nothing to do. Watches report changes that the API server knows of.
struct Rest {
    workload: Workload,
    target: WorkloadTarget,
    latch: Latch,
    /// The content of the `ConfigMap`.
    roles: Result<Option<Roles>, String>,
    noted: Noted,
}

impl Rest {
    /// Asks the members from time to time, and at once if the database of the primary ends. Returns when a pass would find something
    /// to do.
    async fn watched(self, driver: Primary<Untouched>) {
        loop {
            let period = with_jitter(PERIOD);
            let has_ended = tokio::select! {
                () = tokio::time::sleep(period) => false,
                true = driver.primary_leaves(&self.latch, period) => true,
            };
            let is_quiet = self.is_quiet(&driver).await;
            if has_ended && !is_quiet {
                return;
            }
            if has_ended || !is_quiet {
                tokio::time::sleep(AGAIN).await;
                if !self.is_quiet(&driver).await {
                    return;
                }
            }
        }
    }

    async fn is_quiet(&self, driver: &Primary<Untouched>) -> bool {
        let mut seen = driver.observe(&self.workload, &self.latch).await;
        seen.roles.clone_from(&self.roles);
        self.noted.note(driver, &self.workload, &seen, &self.latch);
        let now = jiff::Timestamp::now().as_second();
        driver.decide(&self.workload, &seen, &self.target, &self.latch, now) == MemberStep::Quiet
    }
}
