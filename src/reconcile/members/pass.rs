//! The pass of a driver over one stateful set: its connection, its steps with their events, its report, and the checks of
//! members at rest, which cost the API server nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::executor::{STOPPED, SetPass};
use super::operator::{OperatorAtRest, PassOperator};
use super::secrets::secret;
use crate::cluster::cache::ReleaseKey;
use crate::mask::{Secrets, Text};
use crate::members::document::{Members, ScaleHook, Set};
use crate::members::driver::{Connection, DriverNeeds, Happened, MemberStep, RestPeriod, Shown};
use crate::members::drivers::{AnyDriver, Connected, Unknown};
use crate::members::growth::VolumeGrowth;
use crate::members::progress::Doing;
use crate::members::workload::{Latch, Mode, Workload, WorkloadTarget};
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::memory::sights::Sights;
use crate::reconcile::observed::Observed;
use crate::reconcile::queue::with_jitter;
use crate::reconcile::render::secrets::learn;

/// The result of a pass over a stateful set.
pub struct Passed {
    /// The actions of the driver.
    pub doing: Doing,
    /// When the next look is due.
    pub after: Option<Duration>,
    /// The latch to remember.
    pub latch: Latch,
    /// The report of the driver about the application; `None` if it was not asked.
    pub report: Option<Map<String, Value>>,
}

impl From<((Doing, Option<Duration>), Latch)> for Passed {
    fn from(((doing, after), latch): ((Doing, Option<Duration>), Latch)) -> Self {
        Self { doing, after, latch, report: None }
    }
}

/// Why there is no driver.
pub enum Lack {
    /// Something does not exist yet.
    Waits(String),
    /// A fault remains until somebody corrects it.
    Wrong(String),
}

impl SetPass<'_> {
    /// Nothing is done until the document changes.
    pub fn wrong(&self, why: String) -> Passed {
        self.nothing(Doing::Stopped { reason: "InvalidMembers", why })
    }

    /// Nothing is done until something else has changed, or until the next check of a condition.
    fn nothing(&self, doing: Doing) -> Passed {
        let after = (doing != Doing::Nothing).then_some(STOPPED);
        Passed { doing, after, latch: self.latch.clone(), report: None }
    }
}

/// The pass of a driver over a stateful set. While something else is under way, only some drivers act.
pub async fn pass(one: &SetPass<'_>, driver: &dyn AnyDriver) -> Result<Passed, Error> {
    match one.target().mode {
        Mode::Run => pass_over(one, driver).await,
        Mode::Keep if driver.profile().keeps => pass_over(one, driver).await,
        Mode::Keep | Mode::Paused | Mode::Deleting => Ok(one.nothing(Doing::Nothing)),
    }
}

/// The pass of a driver over a stateful set, whatever else is under way.
pub async fn pass_over(one: &SetPass<'_>, driver: &dyn AnyDriver) -> Result<Passed, Error> {
    let SetPass { observed, set, ctx, .. } = *one;
    let profile = driver.profile();
    let (connection, needs) = match connection(one, driver).await? {
        Ok(connection) => connection,
        Err(Lack::Waits(what)) => return Ok(one.nothing(Doing::Waiting(what))),
        Err(Lack::Wrong(why)) => return Ok(one.wrong(why)),
    };
    let memory = ctx.memory.drivers.of(&observed.key, &set.name, driver);
    let connected = match driver.connect(&connection, memory) {
        Ok(connected) => connected,
        Err(why) => return Ok(one.wrong(why)),
    };
    let operator = PassOperator::of(observed, profile.creates, &needs, ctx);
    let Stepped { mut passed, workload, seen, quiet } = steps(one, &*connected, &operator, profile.steps).await?;
    passed.report = connected.report(&workload, &seen, &passed.latch);
    if let Some(now) = &passed.report {
        let status = observed.cr.status();
        let before = status.get("members").and_then(|all| all.get(&set.name));
        one.announce(connected.events(Happened::Reported { before, now }));
    }
    let noted = Noted { sights: Arc::clone(&ctx.memory.sights), key: observed.key.clone(), set: set.name.clone() };
    noted.note(&*connected, &workload, &seen, &passed.latch);
    if let Some(period) = profile.rest.filter(|_| quiet)
        && let Ok(driver) = driver.connect(&connection, driver.memory())
    {
        let (target, latch, operator) = (one.target(), passed.latch.clone(), operator.at_rest());
        let facts = facts(profile.facts, passed.report.as_ref());
        let growth = set.grow.clone();
        let rest =
            Rest { driver, operator, workload, target, latch, growth, noted, facts, names: profile.facts, period };
        ctx.watching.members.attend(&observed.key, &set.name, rest.watched());
    }
    Ok(passed)
}

/// The scale hooks of a stateful set, if hooks are enabled.
pub fn hooks(observed: &Observed, members: &Members, set: &Set) -> Vec<ScaleHook> {
    let is_on = observed.facts.switches.hooks;
    members.hooks.iter().filter(|hook| is_on && hook.set == set.name).cloned().collect()
}

/// What a driver gets for a stateful set. Each pass reads the Secrets again, since they may have been renewed.
async fn connection(
    one: &SetPass<'_>,
    driver: &dyn AnyDriver,
) -> Result<Result<(Connection, DriverNeeds), Lack>, Error> {
    let SetPass { observed, members, set, ctx, .. } = *one;
    let needs = match driver.needs(&set.settings.fields(), &set.target) {
        Ok(needs) => needs,
        Err(why) => return Ok(Err(Lack::Wrong(why))),
    };
    let mut secrets = BTreeMap::new();
    for needed in &needs.secrets {
        let Some(found) = secret(&needed.name, observed).await? else {
            let what = format!("Secret {}, which spec.{} names", needed.name, needed.field);
            return Ok(Err(Lack::Waits(what)));
        };
        let mut masked = Secrets::default();
        needed.masked.iter().filter_map(|key| found.text(key).ok()).for_each(|text| masked.add(&text));
        ctx.memory.masks.learn(&observed.key, masked);
        secrets.insert(needed.field, found);
    }
    let connection = Connection {
        set: set.clone(),
        hooks: hooks(observed, members, set),
        owner: observed.owner.clone(),
        created: observed.cr.created,
        secrets,
        shown: shown(observed, driver.profile().shows_texts, ctx).await,
    };
    Ok(Ok((connection, needs)))
}

/// How texts of an application are shown: without the secrets of the release.
async fn shown(observed: &Observed, shows_texts: bool, ctx: &Context) -> Shown {
    let is_known = shows_texts && learn(observed, ctx).await;
    let (masks, key) = (Arc::clone(&ctx.memory.masks), observed.key.clone());
    Arc::new(move |text| {
        let text = Text::foreign(text);
        if is_known { masks.show(&key, &text) } else { text.to_string() }
    })
}

/// The results of the steps of a pass.
struct Stepped {
    passed: Passed,
    /// With the roles that pods have got.
    workload: Workload,
    /// Before the last step.
    seen: Unknown,
    /// There was nothing to do.
    quiet: bool,
}

/// Carries out a step, and those that follow from it and need nothing new of the API server. Before each, the members are
/// asked again.
async fn steps(
    pass: &SetPass<'_>,
    driver: &dyn Connected,
    operator: &PassOperator<'_>,
    most: u32,
) -> Result<Stepped, Error> {
    let (now, target) = (pass.observed.facts.now, pass.target());
    let (mut workload, mut latch) = (pass.workload.clone(), pass.latch.clone());
    let mut seen = driver.observe(&workload, &latch, operator).await;
    let growth = pass.set.grow.as_ref();
    let mut step = next_step(driver, growth, &workload, &seen, &target, &latch, now);
    let quiet = matches!(step, MemberStep::Quiet);
    let mut left = most;
    loop {
        left = left.saturating_sub(1);
        let one = SetPass { workload: &workload, latch: &latch, ..*pass };
        let labels =
            if let MemberStep::LabelPod { ordinal, role, .. } = &step { Some((*ordinal, *role)) } else { None };
        let was_brief = is_brief(&step);
        let passed: Passed = one.perform(driver, operator, step).await?.into();
        if passed.latch != latch {
            one.announce(driver.events(Happened::Latched { before: &latch, after: &passed.latch }));
        }
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
        seen = driver.observe(&workload, &latch, operator).await;
        step = next_step(driver, growth, &workload, &seen, &target, &latch, now);
        if !is_brief(&step) {
            return Ok(Stepped { passed, workload, seen, quiet });
        }
    }
}

/// The step of the driver. If it has nothing to do, or waits, which may be for room, a volume can grow.
fn next_step(
    driver: &dyn Connected,
    growth: Option<&VolumeGrowth>,
    workload: &Workload,
    seen: &Unknown,
    target: &WorkloadTarget,
    latch: &Latch,
    now: i64,
) -> MemberStep<Unknown> {
    let step = driver.decide(workload, seen, target, latch, now);
    let is_free = matches!(step, MemberStep::Quiet | MemberStep::Wait { .. } | MemberStep::Stop { .. });
    let grows = is_free && !target.asleep && matches!(target.mode, Mode::Run | Mode::Keep);
    let larger =
        growth.filter(|_| grows).and_then(|growth| growth.next(workload, &driver.volumes(workload, seen), now));
    larger.map_or(step, MemberStep::EnlargeClaim)
}

/// Whether another step may follow in the same pass: it changes nothing of the StatefulSet, and its pods and claims.
fn is_brief(step: &MemberStep<Unknown>) -> bool {
    matches!(step, MemberStep::Latch(_) | MemberStep::Act(_) | MemberStep::LabelPod { .. })
}

/// The place where the reports of members are noted for the metrics.
struct Noted {
    sights: Arc<Sights>,
    key: ReleaseKey,
    set: String,
}

impl Noted {
    fn note(&self, driver: &dyn Connected, workload: &Workload, seen: &Unknown, latch: &Latch) {
        if let Some(sight) = driver.sight(workload, seen, latch) {
            self.sights.note(&self.key, &self.set, sight);
        }
    }
}

/// Members for which the last pass had nothing to do. Watches report changes that the API server knows of.
struct Rest {
    driver: Box<dyn Connected>,
    operator: OperatorAtRest,
    workload: Workload,
    target: WorkloadTarget,
    latch: Latch,
    growth: Option<VolumeGrowth>,
    noted: Noted,
    /// The facts that the status of the release can show, as the last pass saw them.
    facts: Vec<Value>,
    names: &'static [&'static str],
    period: RestPeriod,
}

/// The facts of a report that a `Status` document can name.
fn facts(names: &[&str], report: Option<&Map<String, Value>>) -> Vec<Value> {
    names.iter().map(|name| report.and_then(|report| report.get(*name)).cloned().unwrap_or_default()).collect()
}

impl Rest {
    /// Asks the members from time to time, and at once if they report a change. Returns when a pass would find something to
    /// do.
    async fn watched(self) {
        loop {
            let period = with_jitter(self.period.every);
            let is_disturbed = tokio::select! {
                () = tokio::time::sleep(period) => false,
                true = self.driver.is_disturbed(&self.latch, period) => true,
            };
            let is_quiet = self.is_quiet().await;
            if is_disturbed && !is_quiet {
                return;
            }
            if is_disturbed || !is_quiet {
                tokio::time::sleep(self.period.again).await;
                if !self.is_quiet().await {
                    return;
                }
            }
        }
    }

    async fn is_quiet(&self) -> bool {
        let seen = self.driver.observe(&self.workload, &self.latch, &self.operator).await;
        self.noted.note(&*self.driver, &self.workload, &seen, &self.latch);
        let report = self.driver.report(&self.workload, &seen, &self.latch);
        if facts(self.names, report.as_ref()) != self.facts {
            return false;
        }
        let now = jiff::Timestamp::now().as_second();
        let (driver, growth) = (&*self.driver, self.growth.as_ref());
        matches!(next_step(driver, growth, &self.workload, &seen, &self.target, &self.latch, now), MemberStep::Quiet)
    }
}
