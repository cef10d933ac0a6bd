//! Whether an operation begins, and which: the requested one, or the one that has been due for the longest time.

use super::document::Operations;
use super::requested;
use super::state::{Last, Running, StoredOperations, seconds, time};

/// Why no operation may begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Reason of the condition.
    pub reason: &'static str,
    /// A sentence.
    pub why: String,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// No operation is requested, and none is due.
    Nothing,
    /// One waits: its name.
    Waits(String),
    /// One begins.
    Starts(Running),
}

/// The state to remember: the operations that exist, and since when their schedules are known.
pub fn see(kept: &mut StoredOperations, operations: &Operations, request: Option<&str>, now: i64) {
    let names = operations.names();
    kept.operations.retain(|name, _| names.contains(name.as_str()));
    let schedules = operations.schedules();
    for name in names {
        let wanted = schedules.get(name).copied();
        let last = kept.operations.get(name);
        if last.and_then(|last| last.schedule.as_ref()) == wanted {
            continue;
        }
        let last = kept.operations.entry(name.to_owned()).or_default();
        last.schedule = wanted.cloned();
        last.scheduled_since = wanted.map(|_| time(now));
        last.last_schedule_time = None;
    }
    kept.operations.retain(|_, last| *last != Last::default());
    if request.is_none() {
        kept.handled = None;
    }
}

/// The operation that begins now.
pub fn begin(
    operations: &Operations,
    kept: &StoredOperations,
    request: Option<&str>,
    blocked: bool,
    now: i64,
) -> Begin {
    let starts = |running: Running| if blocked { Begin::Waits(running.name) } else { Begin::Starts(running) };
    let request = new(kept, request).filter(|request| blocked || operations.names().contains(requested(request)));
    if let Some(request) = request {
        let (name, request) = (requested(request).to_owned(), Some(request.to_owned()));
        return starts(Running { name, request, start_time: time(now), ..Running::default() });
    }
    let due = operations.schedules().into_iter().filter_map(|(name, schedule)| {
        let at = schedule.times().ok()?.latest(since(kept.operations.get(name)?)?, now)?;
        Some((at, name))
    });
    match due.min() {
        None => Begin::Nothing,
        Some((at, name)) => {
            let schedule_time = Some(time(at));
            starts(Running { name: name.into(), schedule_time, start_time: time(now), ..Running::default() })
        }
    }
}

/// When the first schedule is due next, in seconds since 1970.
pub fn due(operations: &Operations, kept: &StoredOperations) -> Option<i64> {
    let schedules = operations.schedules().into_iter();
    schedules.filter_map(|(name, schedule)| schedule.times().ok()?.next(since(kept.operations.get(name)?)?)).min()
}

/// Runs that were due before this time are done, or do not count.
fn since(last: &Last) -> Option<i64> {
    let at = |time: &Option<String>| time.as_deref().and_then(seconds);
    at(&last.scheduled_since).max(at(&last.last_schedule_time))
}

/// A request that is not done yet.
fn new<'a>(kept: &StoredOperations, request: Option<&'a str>) -> Option<&'a str> {
    request.filter(|request| kept.handled.as_deref() != Some(*request))
}

/// The answer to a request for an unknown operation. It runs once an operation of that name exists.
pub fn unknown(operations: &Operations, kept: &StoredOperations, request: Option<&str>) -> Option<String> {
    let name = new(kept, request).map(requested).filter(|name| !operations.names().contains(name))?;
    let names: Vec<&str> = operations.names().into_iter().collect();
    Some(match names.as_slice() {
        [] => format!("there is no operation {name:?}: the chart has none"),
        [only] => format!("there is no operation {name:?}; the chart has {only}"),
        _ => format!("there is no operation {name:?}; the chart has {}", names.join(", ")),
    })
}

#[cfg(test)]
#[path = "begin_tests.rs"]
mod tests;
