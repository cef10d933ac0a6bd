//! docs/design/members.md: the maintenance of a database: alarms, and files with holes. A member answers no
//! requests while it is defragmented. So the operator defragments one member at a time, the leader last, and continues
//! only when all members are healthy again.

use super::health::Cluster;
use super::with_quorum::call;
use super::{LATER, SOON};
use crate::members::driver::MemberStep;
use crate::members::etcd::state::{
    Alarm, AlarmKind, Call, EtcdAction, EtcdFacts, EtcdLatch, EtcdStep, MemberAnswer, NoSpace, Reclaimed,
};

/// Bytes by which a file exceeds its content at rest.
const SLACK: u64 = 64 << 10;
/// Writes are allowed again below this share of the quota, in hundredths: above it the alarm would soon return.
const ENOUGH: u64 = 90;
/// etcd's own quota in bytes, for versions that do not report it (before 3.6).
const QUOTA: u64 = 2 << 30;
/// Seconds between two attempts to reclaim space: a member that rewrites its file answers no requests (as in etcd-io's
/// operator).
const AGAIN: i64 = 600;
/// Seconds that members get to compact their history, each at its own pace, before their files are rewritten, and
/// before the files that are still too large are rewritten once more (etcd compacts 100,000 revisions a second at
/// most).
const COMPACTED: i64 = 3;
const SURELY_COMPACTED: i64 = 30;

/// Disarms an alarm of a member that has left: it has been replaced, so writes are allowed again.
pub(super) fn alarm_of_a_former_member(c: &Cluster) -> Option<EtcdStep> {
    let left = |id: u64| id != 0 && c.members.iter().all(|member| member.id != id);
    let alarm = alarms(c).find(|alarm| left(alarm.member))?;
    call(c, None, Call::Disarm(alarm))
}

/// No space: the history is deleted, then the files are rewritten one by one, and then writes are allowed again. etcd
/// reports the used part of a file as of its last write, and there are no writes now. So the latch stores which members
/// are done.
pub(super) fn no_space(c: &Cluster) -> Option<EtcdStep> {
    let settings = c.scene.settings;
    let alarm = no_space_alarms(c).next();
    if let (None, Some(reclaimed)) = (alarm, c.scene.latch.own.reclaimed.as_ref().filter(|reclaimed| !reclaimed.over)) {
        let reclaimed = Some(Reclaimed { over: true, ..reclaimed.clone() });
        return Some(MemberStep::Latch(reclaims(c, reclaimed)));
    }
    let alarm = alarm?;
    if settings.no_space != NoSpace::Reclaim || !c.all_healthy() {
        return None;
    }
    let then = |step: Option<EtcdStep>, reclaimed: Reclaimed| match step? {
        MemberStep::Act(action) => {
            let latch = reclaims(c, Some(reclaimed));
            Some(MemberStep::ActThen { action, latch })
        }
        step => Some(step),
    };
    let Some(reclaimed) = c.scene.latch.own.reclaimed.as_ref().filter(|_| !is_due_again(c)) else {
        let before = c.scene.revision();
        let begun = Reclaimed { since: c.scene.now, before, ..Reclaimed::default() };
        return then(call(c, None, Call::Compact { revision: before }), begun);
    };
    if reclaimed.over {
        return None;
    }
    let times = |k: u32| reclaimed.written.get(&k).copied().unwrap_or(0);
    let second = |k: u32, answer: &MemberAnswer| times(k) == 1 && is_full(c, answer);
    let rounds = [(due_first(c, |k, _| times(k) == 0), COMPACTED), (due_first(c, second), SURELY_COMPACTED)];
    if let Some((k, after)) = rounds.into_iter().find_map(|(k, after)| Some((k?, after))) {
        if c.scene.now - reclaimed.since < after {
            return Some(MemberStep::Wait { why: "members to compact their history".into(), after: SOON });
        }
        let mut reclaimed = reclaimed.clone();
        *reclaimed.written.entry(k).or_default() += 1;
        return then(defragment(c, k), reclaimed);
    }
    if full(c).is_some() {
        return None;
    }
    let over = no_space_alarms(c).count() == 1;
    then(call(c, None, Call::Disarm(alarm)), Reclaimed { over, ..reclaimed.clone() })
}

/// The latch with this attempt to reclaim space.
fn reclaims(c: &Cluster, reclaimed: Option<Reclaimed>) -> EtcdLatch {
    EtcdLatch { own: EtcdFacts { reclaimed, ..c.scene.latch.own.clone() }, ..c.scene.latch.clone() }
}

/// Whether space has to be reclaimed again: it ran out again, or too little was reclaimed and keys have been deleted
/// since. There is a pause between two attempts.
fn is_due_again(c: &Cluster) -> bool {
    let Some(reclaimed) = &c.scene.latch.own.reclaimed else { return true };
    let deleted = full(c).is_some() && c.scene.revision() > reclaimed.before;
    (reclaimed.over || deleted) && c.scene.now - reclaimed.since >= AGAIN
}

/// A member whose file is too large to allow writes again: its ordinal, its size in bytes, and its quota.
fn full(c: &Cluster) -> Option<(u32, u64, u64)> {
    let (ordinal, answer) = c.scene.observed.answers.iter().find(|(_, answer)| is_full(c, answer))?;
    Some((*ordinal, answer.size, quota(c, answer)))
}

fn is_full(c: &Cluster, answer: &MemberAnswer) -> bool {
    u128::from(answer.size) * 100 >= u128::from(quota(c, answer)) * u128::from(ENOUGH)
}

fn quota(c: &Cluster, answer: &MemberAnswer) -> u64 {
    answer.quota.or(c.scene.settings.quota).unwrap_or(QUOTA)
}

fn no_space_alarms<'a>(c: &'a Cluster) -> impl Iterator<Item = Alarm> + 'a {
    alarms(c).filter(|alarm| alarm.kind == AlarmKind::NoSpace)
}

/// Defragments files with holes, if the document asks for this and there is nothing else to do.
pub(super) fn files_with_holes(c: &Cluster) -> Option<EtcdStep> {
    let wanted = c.scene.settings.defragmentation?;
    let complete = c.members.len() == c.desired() as usize && c.replicas() == c.desired() && c.all_healthy();
    if !complete || alarms(c).next().is_some() {
        return None;
    }
    let due = |_, answer: &MemberAnswer| {
        answer.size >= wanted.minimum_size
            && holes(answer) > SLACK
            && holes(answer) * 100 >= answer.size * wanted.fragmented_percent
    };
    defragment(c, due_first(c, due)?)
}

/// Reports the alarms that no row above has handled.
pub(super) fn other_alarms(c: &Cluster) -> Option<EtcdStep> {
    let alarm = alarms(c).next()?;
    let whose = c.members.iter().find(|member| member.id == alarm.member).and_then(|member| c.ordinal(member));
    let whose = whose.map_or_else(|| "a member".to_owned(), |ordinal| c.scene.pod_name(ordinal));
    let (reason, why) = match alarm.kind {
        AlarmKind::NoSpace => ("NoSpace", why_no_space(c, &whose)),
        AlarmKind::Corrupt => (
            "Corrupt",
            format!("the data of {whose} differs from that of the others, and writes are refused until it is replaced"),
        ),
    };
    Some(MemberStep::Stop { reason, why })
}

fn why_no_space(c: &Cluster, whose: &str) -> String {
    let refused = format!("{whose} has reached its quota, and writes are refused");
    if c.scene.settings.no_space == NoSpace::Report {
        return format!("{refused}: delete or compact, defragment, and disarm the alarm");
    }
    match (&c.scene.latch.own.reclaimed, full(c)) {
        _ if !c.all_healthy() => format!("{refused}: the operator reclaims space when all members are healthy"),
        (Some(reclaimed), _) if reclaimed.over => {
            format!(
                "{refused} again: the last reclaim was less than {} minutes ago; the operator waits that long between \
                 two",
                AGAIN / 60
            )
        }
        (_, Some((k, size, quota))) => {
            let name = c.scene.pod_name(k);
            format!(
                "{refused}: {name} has {size} of {quota} bytes without its history and without holes: raise the quota \
                 (quotaBackendBytes), or delete keys"
            )
        }
        _ => refused,
    }
}

/// The first member that is due: the highest ordinal, with the leader last. A learner or a member that lags behind is
/// left alone (etcd #20650).
fn due_first(c: &Cluster, is_due: impl Fn(u32, &MemberAnswer) -> bool) -> Option<u32> {
    let leader = c.leader()?;
    let answers = &c.scene.observed.answers;
    let due = |k: &u32| c.healthy(*k) && answers.get(k).is_some_and(|answer| is_due(*k, answer));
    let mut ordinals: Vec<u32> = c.voters().into_iter().map(|(k, _)| k).rev().filter(due).collect();
    ordinals.sort_by_key(|k| *k == leader);
    ordinals.first().copied()
}

fn defragment(c: &Cluster, k: u32) -> Option<EtcdStep> {
    if c.voters().len() > 1 && !c.may_stop(k) {
        return Some(MemberStep::Wait { why: "a quorum without the one that is defragmented".into(), after: LATER });
    }
    let member = c.member(k)?.id;
    let cluster = c.scene.latched_cluster()?;
    let url = c.scene.settings.client_url(k, c.scene.workload);
    Some(MemberStep::Act(EtcdAction::Call {
        call: Call::Defragment { ordinal: k, member },
        via: k,
        url,
        others: Vec::new(),
        cluster,
    }))
}

fn holes(answer: &MemberAnswer) -> u64 {
    answer.size.saturating_sub(answer.used)
}

/// The alarms. Every member reports the alarms of all members.
fn alarms<'a>(c: &'a Cluster) -> impl Iterator<Item = Alarm> + 'a {
    let furthest =
        c.scene.observed.answers.values().filter(|answer| answer.linearizable).max_by_key(|answer| answer.index);
    furthest.into_iter().flat_map(|answer| answer.alarms.iter().copied())
}
