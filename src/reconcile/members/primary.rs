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
use crate::members::config_maps::Untouched;
use crate::members::document::Set;
use crate::members::driver::{MemberDriver as _, MemberStep};
use crate::members::primary::client::Agents;
use crate::members::primary::document::{Document, LABEL};
use crate::members::primary::driver::{Primary, Shown};
use crate::members::primary::report::{report, sight};
use crate::members::primary::state::{ChangeKind, Latched, Observed as Seen, RequestResult, Roles};
use crate::members::progress::Doing;
use crate::members::workload::{Latch, Mode, Target, Workload};
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
/// If a check fails once, it is repeated after this time before the API server is asked.
const AGAIN: Duration = Duration::from_millis(500);

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
            let Ok(document) = Document::read(&set.primary, &set.target) else { return Ok(()) };
            config_map::leave_behind(&DriversMap::of(&document.config_map, LABEL, observed, ctx), observed).await
        })
    }
}

/// One step of a cluster, with its events.
async fn pass_over(pass: &SetPass<'_>) -> Result<Passed, Error> {
    let SetPass { observed, set, workload, ctx, .. } = *pass;
    let target = pass.target();
    if !matches!(target.mode, Mode::Run | Mode::Keep) {
        return Ok(pass.nothing(Doing::Nothing));
    }
    let document = match Document::read(&set.primary, &set.target) {
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
    let seen = driver.observe(workload, pass.latch).await;
    let step = driver.decide(workload, &seen, &target, pass.latch, observed.facts.now);
    let quiet = step == MemberStep::Quiet;
    let orders = matches!(step, MemberStep::Act(_));
    let performed = pass.perform(&driver, step).await;
    ctx.memory.refusals.note(&observed.key, &set.name, driver.refused());
    let mut passed: Passed = performed?.into();
    if let (true, Doing::Done(what)) = (orders, &passed.doing) {
        event(observed, ctx, false, "MembersChanged", format!("StatefulSet {}: {what}", set.target));
    }
    announce(pass, &passed.latch);
    passed.details = Some(details(&driver, workload, &seen, &passed.latch));
    let noted = Noted { primaries: ctx.memory.primaries.clone(), key: observed.key.clone(), set: set.name.clone() };
    noted.note(&driver, workload, &seen, &passed.latch);
    if quiet {
        let Primary { settings, name, agents, shown, .. } = driver;
        let driver = Primary { settings, name, agents, config_maps: Untouched, refused: Mutex::default(), shown };
        let rest = Rest { workload: workload.clone(), target, latch: passed.latch.clone(), roles: seen.roles, noted };
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

fn details<C>(driver: &Primary<C>, workload: &Workload, seen: &Seen, latch: &Latch) -> Map<String, Value> {
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
async fn agents(document: &Document, observed: &Observed) -> Result<Result<Agents, Lack>, Error> {
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
    fn note<C>(&self, driver: &Primary<C>, workload: &Workload, seen: &Seen, latch: &Latch) {
        self.primaries.note(&self.key, &self.set, sight(&driver.settings, workload, seen, latch));
    }
}

/// A cluster for which the last pass had nothing to do. Watches report changes that the API server knows of.
struct Rest {
    workload: Workload,
    target: Target,
    latch: Latch,
    /// The content of the `ConfigMap`.
    roles: Result<Option<Roles>, String>,
    noted: Noted,
}

impl Rest {
    /// Asks the members from time to time, and returns when a pass would find something to do.
    async fn watched(self, driver: Primary<Untouched>) {
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

    async fn is_quiet(&self, driver: &Primary<Untouched>) -> bool {
        let mut seen = driver.observe(&self.workload, &self.latch).await;
        seen.roles.clone_from(&self.roles);
        self.noted.note(driver, &self.workload, &seen, &self.latch);
        let now = jiff::Timestamp::now().as_second();
        driver.decide(&self.workload, &seen, &self.target, &self.latch, now) == MemberStep::Quiet
    }
}
