//! Stateful sets with members: observes them, asks their driver for a step, and carries it out. The status remembers
//! their state.

pub mod config_map;
pub mod executor;
pub mod look;
pub mod operator;
pub mod pass;
pub mod read;
pub mod secrets;

use std::sync::Arc;
use std::time::Duration;

use super::apply::{Applied, Waiting};
use super::context::Context;
use super::error::Error;
use super::latches::{latch, latch_of_driver, running, stored};
use super::notify::event;
use super::observed::Observed;
use super::render::Prepared;
use super::trust::Verified;
use crate::kind::switches::DeletionPolicy;
use crate::mask::Text;
use crate::members::document::{Members, ScaleHook, Set};
use crate::members::driver::DriverProfile;
use crate::members::drivers::{AnyDriver, deletion_hooks};
use crate::members::progress::{self, Doing, MembersStatus, SetProgress};
use crate::plan::Verb;
use crate::plan::hooks::HookEvent;
use crate::plan::situation::Situation;
use crate::release::record::Status;
use executor::{STOPPED, SetPass, Stored};
use pass::{Passed, hooks, pass, pass_over};

/// How sets are treated whose driver the program lacks.
const UNKNOWN: DriverProfile = DriverProfile::named("");

/// Seconds until the next look at a deletion that lacks its hook, if no event arrives earlier.
const NO_HOOK: i64 = 300;

/// The addition to the status about a deletion that is held.
const HELD: &str = " (the operator deletes nothing before that; tillerman.dev/hooks: \"off\" deletes without it)";

/// The addition if the chart has no such hook.
const MUST: &str = " while the annotation tillerman.dev/deletion-policy is snapshot";

/// The findings and actions of a pass about members.
#[derive(Debug)]
pub struct MembersReport {
    /// For the status.
    pub status: MembersStatus,
    /// When the next look is due.
    pub next: Option<Duration>,
}

/// Carries out one step of one stateful set, once the objects of the release are applied. Returns `None` if the members
/// are not observed in this pass.
pub async fn step(observed: &Verified, applied: &Applied, ctx: &Context) -> Result<Option<MembersReport>, Error> {
    let Prepared { desired, rendered, .. } = &applied.prepared;
    let members = if rendered.is_some() { desired.members.clone() } else { observed.members.clone() };
    let Some(members) = members else {
        ctx.watching.members.forget(&observed.key);
        let gone = rendered.is_some() && applied.error.is_none();
        return Ok(gone
            .then(|| MembersReport { status: MembersStatus { gone: true, ..MembersStatus::default() }, next: None }));
    };
    if applied.dry_run.is_some() || applied.finished {
        return Ok(None);
    }
    // All objects are applied. The hook can need members, for example to fill a database.
    let is_installed = applied.waiting.as_ref().is_some_and(|waiting| waiting.hook == Some(HookEvent::PostInstall));
    if is_installed && applied.error.is_none() && running(observed).is_none() {
        return each(observed, &members, ctx).await.map(Some);
    }
    // Only one plan runs at a time: members come and go when the operation has ended.
    if applied.error.is_some() || applied.waiting.is_some() || running(observed).is_some() {
        return keep(observed, ctx).await;
    }
    let is_deployed = || observed.facts.history.last().is_some_and(|newest| newest.status == Status::Deployed);
    let settled = match observed.situation {
        Situation::Settled | Situation::Blocked | Situation::Paused(_) => true,
        Situation::Awaiting(_) => is_deployed(),
        _ => false,
    };
    if settled && applied.verb == Verb::Rest {
        return each(observed, &members, ctx).await.map(Some);
    }
    let follows = !matches!(applied.verb, Verb::Rest | Verb::Uninstall | Verb::Abandon | Verb::CreateCrds);
    Ok(follows.then(|| MembersReport { status: MembersStatus::pending(), next: Some(Duration::ZERO) }))
}

/// Runs the hooks before a deletion, which have to precede the deletion of any object. Returns `None` if the release
/// may be deleted.
pub async fn before_deletion(observed: &Verified, ctx: &Context) -> Option<Applied> {
    if observed.situation != Situation::Uninstall || observed.facts.foreign.is_some() {
        return None;
    }
    let held = |waiting| Some(Applied { waiting: Some(waiting), ..Applied::nothing(Verb::Uninstall) });
    let members = observed.members.as_ref();
    let has_hook = || members.is_some_and(|members| members.hooks.iter().any(ScaleHook::is_before_deletion));
    if must_have_one(observed) && !has_hook() {
        let what = format!("a before-delete hook, which the chart does not have{MUST}{HELD}");
        return held(Waiting { what: Text::own(what), until: observed.facts.now.saturating_add(NO_HOOK), hook: None });
    }
    let members = members?;
    if observed.facts.switches.deletion_policy == DeletionPolicy::Orphan {
        // A driver that this program does not have has left nothing to clean up.
        let known = members.sets.iter().filter_map(|set| Some((set, ctx.drivers.get(set.driver.as_str())?)));
        for (set, driver) in known {
            if let Err(error) = leave_behind(observed, set, driver.as_ref(), ctx).await {
                return Some(Applied { error: Some(error), ..Applied::nothing(Verb::Uninstall) });
            }
        }
        return None;
    }
    for set in &members.sets {
        match before_deletion_of(observed, members, set, ctx).await {
            Ok(None) => {}
            Ok(Some(waiting)) => return held(waiting),
            Err(error) => return Some(Applied { error: Some(error), ..Applied::nothing(Verb::Uninstall) }),
        }
    }
    None
}

/// Whether a release without a hook before the deletion is not deleted.
fn must_have_one(observed: &Observed) -> bool {
    let switches = &observed.facts.switches;
    switches.hooks && switches.deletion_policy == DeletionPolicy::Snapshot
}

/// If the objects of a release stay when its custom resource is deleted, the `ConfigMap` of a driver has to stay as well:
/// without it none of the pods can start again.
async fn leave_behind(observed: &Observed, set: &Set, driver: &dyn AnyDriver, ctx: &Context) -> Result<(), Error> {
    let Ok(needs) = driver.needs(&set.settings.fields(), &set.target) else { return Ok(()) };
    match operator::config_map(observed, driver.profile().creates, &needs, ctx) {
        Some(map) => config_map::leave_behind(&map, observed).await,
        None => Ok(()),
    }
}

async fn before_deletion_of(
    observed: &Observed,
    members: &Members,
    set: &Set,
    ctx: &Context,
) -> Result<Option<Waiting>, Error> {
    if !hooks(observed, members, set).iter().any(ScaleHook::is_before_deletion) {
        return Ok(None);
    }
    let driver = deletion_hooks();
    let Some(workload) = look::read_workload(observed, set, driver.profile().creates, ctx).await? else {
        return Ok(None);
    };
    let latch = latch(&observed.cr, &set.name);
    let stored = Stored::of(observed, set);
    let one = SetPass {
        observed,
        members,
        set,
        workload: &workload,
        latch: &latch,
        stored: &stored,
        keeps: false,
        driver: Some(driver.as_ref()),
        ctx,
    };
    let Passed { doing, after, .. } = pass_over(&one, driver.as_ref()).await?;
    let what = match doing {
        Doing::Nothing => return Ok(None),
        Doing::Done(what) | Doing::Waiting(what) | Doing::Stopped { why: what, .. } => what,
    };
    let after = after.map_or(0, |after| after.as_secs().cast_signed());
    Ok(Some(Waiting {
        what: Text::own(format!("{what}{HELD}")),
        until: observed.facts.now.saturating_add(after),
        hook: None,
    }))
}

/// Keeps members at work while something else about the release is under way, or fails, if their driver acts then
/// ([`DriverProfile::keeps`](crate::members::driver::DriverProfile)). Returns `None` if there are none.
async fn keep(observed: &Observed, ctx: &Context) -> Result<Option<MembersReport>, Error> {
    let Some(members) = observed.members.as_ref().filter(|_| !observed.facts.deleting) else { return Ok(None) };
    let status = observed.cr.status();
    let mut reported = MembersStatus::of(&status, &members.sets, &ctx.drivers);
    let mut is_any = false;
    for set in &members.sets {
        let Some(driver) =
            ctx.drivers.get(set.driver.as_str()).map(Arc::as_ref).filter(|driver| driver.profile().keeps)
        else {
            continue;
        };
        let profile = driver.profile();
        ctx.watching.members.leave(&observed.key, &set.name);
        let Some(workload) = look::read_workload(observed, set, profile.creates, ctx).await? else { continue };
        let latch = latch_of_driver(&observed.cr, &set.name, driver);
        let kept = Stored::of(observed, set);
        let (workload, latch, stored) = (&workload, &latch, &kept);
        let one = SetPass { observed, members, set, workload, latch, stored, keeps: true, driver: Some(driver), ctx };
        let Passed { doing, after, latch, report } = pass(&one, driver).await?;
        progress::keep(&mut reported, set, profile, &latch, &doing, report);
        is_any = true;
        // The cause that holds the release has its own time for the next pass, which may be far away.
        if let Some(after) = after {
            ctx.watching.members.attend(&observed.key, &set.name, tokio::time::sleep(after));
        }
    }
    Ok(is_any.then_some(MembersReport { status: reported, next: None }))
}

/// The first stateful set that is not quiet gets a step; the sets before it are only reported.
async fn each(observed: &Observed, members: &Members, ctx: &Context) -> Result<MembersReport, Error> {
    let status = observed.cr.status();
    let mut reported = MembersStatus::of(&status, &members.sets, &ctx.drivers);
    let mut next = None;
    for set in &members.sets {
        ctx.watching.members.leave(&observed.key, &set.name);
        let found = ctx.drivers.find(set.driver.as_str());
        let driver = found.as_ref().ok().map(AsRef::as_ref);
        let profile = driver.map_or(&UNKNOWN, AnyDriver::profile);
        let there = look::read_workload(observed, set, profile.creates, ctx).await?;
        let Some(workload) = there else {
            // The pass that applies it starts without help from here.
            next = Some(STOPPED);
            reported.wait(&format!("StatefulSet {}", set.target));
            break;
        };
        let latch = match driver {
            Some(driver) => latch_of_driver(&observed.cr, &set.name, driver),
            None => latch(&observed.cr, &set.name),
        };
        let kept = Stored::of(observed, set);
        let one = SetPass {
            observed,
            members,
            set,
            workload: &workload,
            latch: &latch,
            stored: &kept,
            keeps: false,
            driver,
            ctx,
        };
        let Passed { doing, after, latch, report } = match &found {
            Ok(driver) => pass(&one, driver.as_ref()).await?,
            Err(why) => one.wrong(why.clone()),
        };
        // The status was lost, or the StatefulSet was taken over.
        if workload.replicas > 0 && stored(&status, &set.name).is_none() && matches!(doing, Doing::Done(_)) {
            let note = format!(
                "StatefulSet {}: the status of the custom resource has no record of its members; the operator \
                 continues with their current state",
                set.target
            );
            event(observed, ctx, true, "MembersForgotten", note);
        }
        let now = observed.facts.now;
        let target = one.target();
        let before = reported.members.get(&set.name).cloned();
        let recovery = driver.and_then(|driver| driver.recovery(&set.target, &latch));
        let (mode, asleep, recovery) = (target.mode, target.asleep, recovery.as_deref());
        let (workload, latch, doing) = (&workload, &latch, &doing);
        let progress = SetProgress { set, workload, latch, mode, asleep, doing, recovery, now };
        let left = progress::enter(&mut reported, progress);
        progress::detail(&mut reported, set, profile, before.as_ref(), report);
        next = after.into_iter().chain(left).min();
        if !matches!(doing, Doing::Nothing) {
            break;
        }
    }
    Ok(MembersReport { status: reported, next })
}
