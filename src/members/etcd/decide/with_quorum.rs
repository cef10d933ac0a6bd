//! The rows of a cluster that has a quorum.
//!
//! The table: `table`, and docs/design/members.md.

use super::health::Cluster;
use super::{LATER, SOON};
use crate::members::driver::MemberStep;
use crate::members::etcd::state::{
    Call, ClusterState, EtcdAction, EtcdLatch, EtcdStep, ListedMember, MemberAnswer, Version,
};
use crate::members::sleep;
use crate::members::workload::{Pod, VolumeClaim};

/// 3.6 refuses data that earlier versions of 3.5, and older ones, may have written (etcd #19557, #20793).
const READY_FOR_3_6: Version = Version { major: 3, minor: 5, patch: 32 };

/// Stores the facts that must be kept before any other step: when the wait for a member began, and the remains of
/// members that left.
pub(super) fn memory(c: &Cluster) -> Option<EtcdStep> {
    let mut latch = EtcdLatch { position: Some(c.scene.revision()), ..c.scene.latch.clone() };
    let known = c.members.iter().filter_map(|member| c.ordinal(member)).chain(0..c.replicas());
    let ordinals: std::collections::BTreeSet<u32> =
        known.chain(latch.since.keys().copied()).chain(latch.stale.keys().copied()).collect();
    for k in ordinals {
        let waits = c.member(k).is_some_and(|member| member.learner || !member.started() || c.dead(k))
            || (k < c.desired() && c.backs_off(k));
        if waits {
            latch.since.entry(k).or_insert(c.scene.now);
        } else {
            latch.since.remove(&k);
        }
        if c.member(k).is_some() || k >= c.replicas() {
            latch.stale.remove(&k);
        } else if k < c.desired() && !latch.stale.contains_key(&k) {
            latch.stale.insert(k, c.place(k));
        }
    }
    // Somebody scaled up by hand. The operator must not give up the pods of members for that, and stores this before a
    // vote depends on them.
    let needed = c.members.iter().filter_map(|member| c.ordinal(member)).max().map_or(0, |highest| highest + 1);
    match latch.replicas {
        None => latch.replicas = Some(c.replicas()),
        Some(last) if last < needed && needed <= c.replicas() => latch.replicas = Some(needed),
        Some(_) => {}
    }
    latch.claims = latch.claims_with(c.scene.workload, c.members.iter().filter_map(|member| c.ordinal(member)));
    let answering = |member: &ListedMember| Some((c.ordinal(member)?, c.answers(member)));
    latch.answered = latch.answered_with(c.scene.workload, &c.members.iter().filter_map(answering).collect());
    let before = &c.scene.latch;
    let changed = |latch: &EtcdLatch| {
        latch.since != before.since
            || latch.stale != before.stale
            || latch.claims != before.claims
            || latch.answered != before.answered
    };
    (changed(&latch) || latch.replicas != c.scene.latch.replicas).then_some(MemberStep::Latch(latch))
}

/// The members are to fall asleep, and nothing of the cluster is half done.
pub(super) fn falls_asleep(c: &Cluster) -> Option<EtcdStep> {
    let (workload, latch) = (c.scene.workload, c.scene.latch);
    let falls = latch.asleep.is_none() && sleep::falls_asleep(workload, c.scene.target);
    falls.then(|| MemberStep::Latch(sleep::falling_asleep(workload, latch)))
}

/// A learner that is no longer wanted leaves. This is always allowed.
pub(super) fn unwanted_learner(c: &Cluster) -> Option<EtcdStep> {
    let (k, learner) = c.learner().filter(|(k, _)| *k >= c.desired())?;
    remove(c, k, learner)
}

/// Starts the learner's pod, with the current list.
pub(super) fn learner_without_pod(c: &Cluster) -> Option<EtcdStep> {
    let (k, _) = c.learner().filter(|(k, _)| *k >= c.replicas())?;
    c.scene.written(ClusterState::Existing, c.scene.initial_cluster(c.members)).or(Some(MemberStep::Scale(k + 1)))
}

/// The list is for the member that joins. As soon as it has started, no member may start from the
/// list again.
pub(super) fn closed_list(c: &Cluster) -> Option<EtcdStep> {
    if c.members.iter().all(ListedMember::started) && c.scene.announced().is_none() { c.scene.closed() } else { None }
}

/// A learner that has started and caught up gets a vote. The leader makes the final check of its progress.
pub(super) fn learner_caught_up(c: &Cluster) -> Option<EtcdStep> {
    let (k, learner) = c.learner().filter(|(_, learner)| learner.started())?;
    let answer = c.scene.observed.answers.get(&k).filter(|answer| answer.member == learner.id)?;
    if !answer.learner || answer.is_corrupt() || u128::from(answer.index) * 10 < u128::from(c.furthest()) * 9 {
        return None;
    }
    call(c, None, Call::Promote { ordinal: k, member: learner.id })
}

/// A learner does not join. Its list is corrected. With bad data, or after the deadline, it leaves, and row
/// `remains_of_a_member` deletes its data.
pub(super) fn learner_that_does_not_join(c: &Cluster) -> Option<EtcdStep> {
    let (k, learner) = c.learner()?;
    if !learner.started()
        && let Some(write) = c.scene.written(ClusterState::Existing, c.scene.initial_cluster(c.members))
    {
        return Some(write);
    }
    // A learner that answers is catching up, which may take longer than any deadline.
    let answer = c.scene.observed.answers.get(&k);
    let late = answer.is_none() && c.is_late(k);
    // A restart may have solved the problem that it printed before: after its start, its first answer follows within a
    // moment.
    let ended = !c.runs_again(k);
    let lost = ended && (c.says_bad_data(k) || learner.started() && c.says_not_in_list(k));
    if late || lost || answer.is_some_and(MemberAnswer::is_corrupt) {
        return remove(c, k, learner);
    }
    // The list is correct now, and etcd reads it when the container starts. A new pod does not have to wait minutes for
    // the restart.
    if let Some(pod) = c.pod(k).filter(|_| ended && c.crashes(k) && c.says_wrong_list(k)) {
        return Some(MemberStep::DeletePod { ordinal: k, uid: pod.uid.clone() });
    }
    let name = c.scene.pod_name(k);
    Some(MemberStep::Wait { why: format!("{name} to join as a learner{}", c.scene.reason(k)), after: SOON })
}

/// A voter that another client added never started. It counts as failed.
pub(super) fn voter_that_never_started(c: &Cluster) -> Option<EtcdStep> {
    let (k, voter) = c.voters().into_iter().find(|(_, voter)| !voter.started())?;
    let late = c.waited(k) > c.scene.settings.dead_after;
    if (k >= c.desired() || late) && c.may_remove(k) {
        return remove(c, k, voter);
    }
    if let Some(write) = c.scene.written(ClusterState::Existing, c.scene.initial_cluster(c.members)) {
        return Some(write);
    }
    if k >= c.replicas() {
        return Some(MemberStep::Scale(k + 1));
    }
    Some(MemberStep::Wait {
        why: format!("{} to start for the first time{}", c.scene.pod_name(k), c.scene.reason(k)),
        after: SOON,
    })
}

/// A member that does not belong to a pod of this StatefulSet, or two members with one ordinal.
pub(super) fn foreign_member(c: &Cluster) -> Option<EtcdStep> {
    let twice = |member: &&ListedMember| {
        let ordinal = c.ordinal(member);
        ordinal.is_none() || c.members.iter().filter(|other| c.ordinal(other) == ordinal).count() > 1
    };
    let member = c.members.iter().find(twice)?;
    Some(MemberStep::Stop {
        reason: "ForeignMember",
        why: format!(
            "member {:x} ({}) is not the one member of a pod of {}",
            member.id,
            member.peer_urls.join(", "),
            c.scene.workload.name
        ),
    })
}

/// Another client removed the pods of voters by scaling.
pub(super) fn voter_without_pod(c: &Cluster) -> Option<EtcdStep> {
    let without: Vec<_> = c.voters().into_iter().filter(|(k, _)| *k >= c.replicas() && c.pod(*k).is_none()).collect();
    let (highest, voter) = *without.last()?;
    if let Some((wanted, _)) = without.iter().rfind(|(k, _)| *k < c.desired()) {
        return Some(MemberStep::Scale(wanted + 1));
    }
    if c.may_remove(highest) { remove(c, highest, voter) } else { Some(MemberStep::Scale(highest + 1)) }
}

/// The last pod no longer has a member, or never had one.
pub(super) fn unwanted_pod(c: &Cluster) -> Option<EtcdStep> {
    let last = c.replicas().checked_sub(1)?;
    (c.replicas() > c.desired() && c.member(last).is_none()).then_some(MemberStep::Scale(last))
}

/// A pod without a member has the data of a member that left, or none. Its claims and the pod are deleted
/// before another member joins.
pub(super) fn remains_of_a_member(c: &Cluster) -> Option<EtcdStep> {
    let ordinals = 0..c.replicas().min(c.desired());
    for k in ordinals.filter(|k| c.member(*k).is_none() && !c.backs_off(*k)) {
        let Some(stale) = c.scene.latch.stale.get(&k) else { continue };
        let is_stale = |uid: &str| stale.iter().any(|stale| stale == uid);
        if let Some(claim) = c.claims(k).iter().find(|claim| is_stale(&claim.uid) && !claim.terminating) {
            return Some(if c.scene.latch.knows(k, claim) {
                MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() }
            } else {
                orphaned(c, k, claim)
            });
        }
        // A newer pod is deleted as well while it uses a claim that is being deleted, since the two would wait for each
        // other.
        let claims_left = c.claims(k).iter().any(|claim| is_stale(&claim.uid));
        let pod = c.pod(k).filter(|pod| claims_left || is_stale(&pod.uid));
        if let Some(pod) = pod.filter(|pod| !pod.terminating) {
            return Some(MemberStep::DeletePod { ordinal: k, uid: pod.uid.clone() });
        }
        if claims_left || pod.is_some() {
            return Some(MemberStep::Wait {
                why: format!("the remains of the last {} to be deleted", c.scene.pod_name(k)),
                after: SOON,
            });
        }
    }
    None
}

/// A claim that is in the way and is not deleted.
fn orphaned(c: &Cluster, k: u32, claim: &VolumeClaim) -> EtcdStep {
    MemberStep::Stop { reason: "OrphanedVolumes", why: c.scene.latch.orphan(k, claim) }
}

/// Deletes the claims of members that left, after their pods are deleted.
pub(super) fn claims_left_over(c: &Cluster) -> Option<EtcdStep> {
    if !c.scene.target.delete_claims {
        return None;
    }
    let left = |k: u32| k >= c.replicas() && c.pod(k).is_none() && c.member(k).is_none();
    let claims = c.scene.workload.claims.iter().filter(|(k, _)| left(**k));
    let claims = claims.flat_map(|(k, claims)| claims.iter().filter(|claim| c.scene.latch.knows(*k, claim)));
    let claim = claims.into_iter().find(|claim| !claim.terminating)?;
    Some(MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() })
}

/// A voter that cannot return leaves, and row `remains_of_a_member` makes room for the next one. If its data is known
/// to be gone, it leaves at once.
pub(super) fn dead_voter(c: &Cluster) -> Option<EtcdStep> {
    let late =
        |k: u32| k < c.desired() && c.dead(k) && (c.has_lost_data(k) || c.waited(k) > c.scene.settings.dead_after);
    let (k, voter) = c.voters().into_iter().find(|(k, _)| late(*k) && c.may_remove(*k))?;
    remove(c, k, voter)
}

/// The lowest free ordinal joins as a learner, while all other members are healthy.
pub(super) fn new_member(c: &Cluster) -> Option<EtcdStep> {
    let k = (0..c.desired()).find(|k| c.member(*k).is_none())?;
    if c.members.len() > c.desired() as usize || !c.all_healthy() || c.backs_off(k) {
        return None;
    }
    if k >= c.replicas() {
        // No member can join while these objects exist. Row `claims_left_over` deletes those of members, if that is
        // allowed.
        let claims = || c.claims(k).iter();
        if c.pod(k).is_none()
            && let Some(claim) = claims().find(|claim| !claim.terminating)
        {
            return Some(orphaned(c, k, claim));
        }
        if c.pod(k).is_some() || claims().next().is_some() {
            return Some(MemberStep::Wait {
                why: format!("the remains of the last {} to be deleted", c.scene.pod_name(k)),
                after: SOON,
            });
        }
    }
    let peer_url = c.scene.settings.peer_url.url(k);
    if c.scene.has_learners() {
        return call(c, None, Call::AddLearner { ordinal: k, peer_url });
    }
    // With two members, both have to agree, so nothing can be written or read before the second one has started. So the
    // data that it needs is written first.
    let newcomer = ListedMember { id: 0, name: String::new(), peer_urls: vec![peer_url.clone()], learner: false };
    let list = c.scene.initial_cluster(&[c.members, &[newcomer]].concat());
    c.scene.written(ClusterState::Existing, list).or_else(|| call(c, None, Call::AddVoter { ordinal: k, peer_url }))
}

/// If there is one member too many, it leaves: an unhealthy one, or the highest, but never while it is the
/// leader. While a lower ordinal is free there are not too many members, but an unhealthy member that has to leave
/// anyway must not keep the other one from joining.
pub(super) fn leaving_member(c: &Cluster) -> Option<EtcdStep> {
    let beyond = || c.voters().into_iter().filter(|(k, _)| *k >= c.desired());
    let too_many = c.members.len() > c.desired() as usize;
    let unhealthy = beyond().rfind(|(k, _)| !c.healthy(*k));
    let (k, voter) = unhealthy.or_else(|| beyond().next_back().filter(|_| too_many))?;
    if !c.may_remove(k) {
        return None;
    }
    if c.leader() == Some(k) && c.healthy(k) { move_leader(c, k) } else { remove(c, k, voter) }
}

/// The pods get the current template one by one, the leader's pod last.
pub(super) fn old_template(c: &Cluster) -> Option<EtcdStep> {
    let complete =
        c.replicas() == c.desired() && c.voters().len() == c.members.len() && c.members.len() == c.desired() as usize;
    if !complete {
        return None;
    }
    // Without an update revision it is unknown which pods have the current template.
    if c.scene.workload.update_revision.is_empty() {
        let why = format!("the controller of StatefulSet {}", c.scene.workload.name);
        return Some(MemberStep::Wait { why, after: SOON });
    }
    let stale = |k: &u32| c.pod(*k).is_some_and(|pod| !pod.terminating && c.scene.workload.is_outdated(pod));
    let old: Vec<u32> = (0..c.desired()).filter(stale).collect();
    // A pod was replaced before its new URL was announced.
    if let Some(k) = (0..c.desired()).find(|k| !old.contains(k) && c.pod(*k).is_some() && c.is_elsewhere(*k)) {
        return update(c, k);
    }
    if old.is_empty() {
        return None;
    }
    if let Some(stop) = version_step(c) {
        return Some(stop);
    }
    let uid = |k: u32| c.pod(k).map(|pod| pod.uid.clone()).unwrap_or_default();
    // A pod that its template broke is deleted without regard to disruption budgets, so that a bad template can be
    // repaired. The last pod without certificates counts as broken: the others receive its messages, but it does not
    // receive theirs.
    if let Some(k) = old.iter().copied().find(|k| !c.healthy(*k) && c.pod(*k).is_some() && c.may_stop(*k)) {
        let ready = c.pod(k).is_some_and(|pod| pod.ready);
        return match ready {
            _ if c.is_elsewhere(k) => update(c, k),
            true => Some(MemberStep::EvictPod { ordinal: k, uid: uid(k) }),
            false => Some(MemberStep::DeletePod { ordinal: k, uid: uid(k) }),
        };
    }
    if !c.all_healthy() || !(0..c.desired()).all(|k| c.pod(k).is_some_and(Pod::stays_ready)) {
        return None;
    }
    let leader = c.leader()?;
    match old.iter().copied().rfind(|k| *k != leader) {
        // With certificates the URL of a member changes. The others learn the new URL before its pod restarts: then
        // both sides can connect.
        Some(follower) if c.is_elsewhere(follower) => update(c, follower),
        None if c.desired() <= 2 && c.is_elsewhere(leader) => update(c, leader),
        Some(follower) => Some(MemberStep::EvictPod { ordinal: follower, uid: uid(follower) }),
        // With two members, the other one cannot lead alone. The leader hands over when it terminates.
        None if c.desired() > 2 => move_leader(c, leader),
        None => Some(MemberStep::EvictPod { ordinal: leader, uid: uid(leader) }),
    }
}

/// The obstacle to an upgrade to the version of the template: etcd upgrades by one minor version at a time, and cannot
/// be downgraded.
fn version_step(c: &Cluster) -> Option<EtcdStep> {
    let (to, versions) = (c.scene.settings.version?, c.versions());
    let (lowest, highest) = (*versions.first()?, *versions.last()?);
    let minor = |version: Version| (version.major, version.minor);
    let (reason, why) = if minor(to) < minor(highest) {
        ("VersionDowngrade", format!("etcd {highest} cannot go back to {to}"))
    } else if to.major != lowest.major || to.minor > lowest.minor + 1 {
        (
            "VersionSkipped",
            format!("etcd {lowest} cannot go to {to} at once: go to {}.{} first", lowest.major, lowest.minor + 1),
        )
    } else if minor(to) == (3, 6) && minor(lowest) == (3, 5) && lowest < READY_FOR_3_6 {
        (
            "VersionTooOld",
            format!("etcd {lowest} must be {READY_FOR_3_6} or later on every member before it goes to {to}"),
        )
    } else {
        return None;
    };
    Some(MemberStep::Stop { reason, why })
}

/// Nothing can be done, but the cluster is not complete and healthy.
pub(super) fn incomplete(c: &Cluster) -> Option<EtcdStep> {
    // etcd answers before its pod is ready, and for a moment after its termination began.
    let stays = |pod: &Pod| pod.stays_ready() && !c.scene.workload.is_outdated(pod);
    let missing = |k: &u32| !c.healthy(*k) || !c.pod(*k).is_some_and(stays);
    let wanted =
        (0..c.desired()).filter(missing).chain(c.voters().into_iter().map(|(k, _)| k).filter(|k| *k >= c.desired()));
    let names: Vec<_> = wanted.map(|k| format!("{}{}", c.scene.pod_name(k), c.scene.reason(k))).collect();
    let why = if names.is_empty() {
        return None;
    } else {
        format!("members that are not healthy: {}", names.join(", "))
    };
    Some(MemberStep::Wait { why, after: LATER })
}

fn remove(c: &Cluster, k: u32, member: &ListedMember) -> Option<EtcdStep> {
    call(c, Some(k), Call::Remove { ordinal: k, member: member.id })
}

/// Announces to the others the URL of a member that is in the document.
fn update(c: &Cluster, k: u32) -> Option<EtcdStep> {
    let (member, peer_url) = (c.member(k)?.id, c.scene.settings.peer_url.url(k));
    call(c, None, Call::Update { ordinal: k, member, peer_url })
}

/// Makes the lowest healthy voter except this one the leader. Only the current leader accepts this request.
fn move_leader(c: &Cluster, from: u32) -> Option<EtcdStep> {
    let to = c.lowest_healthy_but(from)?;
    let member = c.member(to)?.id;
    let cluster = c.scene.latched_cluster()?;
    let url = c.scene.settings.client_url(from, c.scene.workload);
    Some(MemberStep::Act(EtcdAction::Call {
        call: Call::MoveLeader { to, member },
        via: from,
        url,
        others: Vec::new(),
        cluster,
    }))
}

/// A call through a healthy voter, if possible not the one that the call is about.
pub(super) fn call(c: &Cluster, about: Option<u32>, call: Call) -> Option<EtcdStep> {
    let (via, cluster) = (c.via(about)?, c.scene.latched_cluster()?);
    let url = |ordinal: u32| c.scene.settings.client_url(ordinal, c.scene.workload);
    let others = c.healthy_voters().filter(|voter| *voter != via && Some(*voter) != about).map(url).collect();
    Some(MemberStep::Act(EtcdAction::Call { call, via, url: url(via), others, cluster }))
}
