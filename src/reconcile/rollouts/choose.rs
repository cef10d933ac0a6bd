//! Which chart a custom resource has.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cluster::cache::ReleaseKey;
use crate::cluster::cr::Cr;
use crate::names::CHART_VERSION;
use crate::plan::attempts;
use crate::plan::situation::Refusal;
use crate::reconcile::charts::{Loaded, Served};
use crate::release::record::Status;
use crate::release::secret::Revision;

/// The chart of a custom resource.
pub enum Choice {
    /// This one.
    Chart(Arc<Loaded>),
    /// That of its release, which is not kept: the release stays as its record says until its turn comes.
    Held,
    /// None can be used.
    None(Refusal),
}

/// Which chart a custom resource has: the one that it is pinned to; the newest one, if it has moved or may move now; else that of its
/// release. A custom resource without a release gets the newest one.
pub fn choose(
    served: &Served,
    key: &ReleaseKey,
    cr: &Cr,
    newest: Option<&Revision>,
    is_made_by: impl Fn(&Loaded) -> bool,
) -> Choice {
    let unusable = |message: String| Choice::None(Refusal { reason: "ChartUnusable", message });
    if served.kind.rollout.is_none() {
        return match (served.chart(), pin(cr)) {
            (Err(why), _) => unusable(why),
            (Ok(chart), Some(version)) if chart.chart.metadata.version != version => Choice::None(unknown(
                version,
                "the kind has no rollout in watches.yaml, so only the newest version is kept",
            )),
            (Ok(chart), _) => Choice::Chart(chart),
        };
    }
    if let Some(version) = pin(cr) {
        let all = served.usable();
        let found = all.iter().rev().find(|loaded| loaded.chart.metadata.version == version);
        return match found {
            Some(loaded) => Choice::Chart(Arc::clone(loaded)),
            None if !served.knows_kept() => Choice::Held,
            None => {
                let mut versions: Vec<&str> = all.iter().map(|loaded| &*loaded.chart.metadata.version).collect();
                versions.dedup();
                Choice::None(unknown(version, &format!("versions that are kept: {}", versions.join(", "))))
            }
        };
    }
    let of_release = newest.filter(|newest| !matches!(newest.status, Status::Uninstalled | Status::Uninstalling));
    let has = of_release.and_then(|newest| newest.chart.as_deref());
    let goal = match (served.goal(), has.and_then(|digest| served.kept(digest))) {
        (Ok(goal), _) => goal,
        // A new chart that cannot be used takes nothing from those that have not moved.
        (Err(_), Some(kept)) => return Choice::Chart(kept),
        (Err(why), None) => return unusable(why),
    };
    let Some(newest) = of_release else { return Choice::Chart(goal) };
    let of_record = match has {
        Some(digest) => served.kept(digest),
        // An earlier version of the operator wrote the record, or another client did, with `helm upgrade`.
        None => {
            served.usable().into_iter().rev().find(|loaded| is_made_by(loaded)).or_else(|| named(served, &cr.status()))
        }
    };
    let is_at_goal = of_record.as_ref().is_some_and(|loaded| loaded.digest == goal.digest)
        || has.is_some_and(|digest| served.is_withdrawn(digest));
    if is_at_goal && has.is_none() {
        served.set_current(key);
    }
    let is_of_others = newest.inputs.is_none() && of_record.is_none();
    if is_at_goal || is_of_others || served.is_granted(key) || attempted(&cr.status(), &goal.digest) {
        return Choice::Chart(goal);
    }
    of_record.map_or(Choice::Held, Choice::Chart)
}

/// The chart that the status names.
fn named(served: &Served, status: &Map<String, Value>) -> Option<Arc<Loaded>> {
    let label = status.get("release")?.get("chart")?.as_str()?;
    let is_it = |loaded: &Arc<Loaded>| {
        let metadata = &loaded.chart.metadata;
        label.strip_prefix(&*metadata.name).and_then(|rest| rest.strip_prefix('-')) == Some(&*metadata.version)
    };
    served.usable().into_iter().rev().find(is_it)
}

/// The version of the chart that a custom resource keeps.
pub fn pin(cr: &Cr) -> Option<&str> {
    cr.annotations.get(CHART_VERSION).map(|version| &**version)
}

/// Whether the last attempt, which failed, was with this chart.
pub fn attempted(status: &Map<String, Value>, digest: &str) -> bool {
    attempts::chart(status) == Some(digest)
}

fn unknown(version: &str, why: &str) -> Refusal {
    let shown: String = version.chars().take(64).collect();
    Refusal {
        reason: "ChartVersionUnknown",
        message: format!(
            "the annotation {CHART_VERSION} requests version {shown:?} of the chart, which is not kept; {why}"
        ),
    }
}
