//! Decides the next step. The first row of the table that applies wins, and each row does at most one thing. Rows that
//! finish something come before those that begin something: so interrupted work is found and finished, without any
//! stored state.
//!
//! This file contains the rows that need no quorum, and `with_quorum` and `upkeep` contain the others. `table` contains
//! the phases and their rows, in order. docs/design/members.md shows them; comments cite a row by the name of its
//! function.

mod health;
mod recovery;
mod table;
mod upkeep;
mod with_quorum;

use std::time::Duration;

pub use recovery::FORCE_NEW_CLUSTER;
pub use table::rows;

use self::health::Cluster;
use self::table::{Decide, TABLE};
use super::state::{
    ClusterState, EtcdAction, EtcdLatch, EtcdSettings, EtcdStep, InitialCluster, ObservedEtcd, Version,
};
use crate::members::driver::MemberStep;
use crate::members::sleep::{falls_asleep, sleeping};
use crate::members::workload::{Mode, Pod, PodPhase, Workload, WorkloadTarget};

/// When to observe again work in progress.
const SOON: Duration = Duration::from_secs(2);
/// When to observe again work that others have to do.
const LATER: Duration = Duration::from_secs(10);

/// `ETCD_INITIAL_CLUSTER` while no member joins: etcd exits if it has no data and is not in this list.
pub(super) const NOBODY: &str = "nobody=http://nobody.invalid:2380";

/// Decides the next step. `now` is in seconds since 1970.
pub fn decide(
    settings: &EtcdSettings,
    workload: &Workload,
    observed: &ObservedEtcd,
    target: &WorkloadTarget,
    latch: &EtcdLatch,
    now: i64,
) -> EtcdStep {
    let scene = Scene { settings, workload, observed, target, latch, now };
    let cluster = Cluster { scene: &scene, members: observed.members.as_deref().unwrap_or_default() };
    let tried = TABLE.iter().find_map(|rule| match rule.decide {
        Decide::Always(decide) => decide(&scene),
        Decide::WithQuorum(decide) => decide(&cluster),
    });
    tried.unwrap_or(MemberStep::Quiet)
}

/// Everything that the decision depends on.
#[derive(Clone, Copy)]
struct Scene<'a> {
    settings: &'a EtcdSettings,
    workload: &'a Workload,
    observed: &'a ObservedEtcd,
    target: &'a WorkloadTarget,
    latch: &'a EtcdLatch,
    now: i64,
}

impl Scene<'_> {
    /// The custom resource is deleted with all its members, so no member has to leave. Or it is paused.
    fn deleted_or_paused(&self) -> Option<EtcdStep> {
        (self.target.mode != Mode::Run).then_some(MemberStep::Quiet)
    }

    /// There are two clusters, or the data went back.
    fn split_brain(&self) -> Option<EtcdStep> {
        let mut answers = self.observed.answers.iter();
        let latched = self.latched_cluster();
        let expected = latched.or_else(|| self.observed.answers.values().next().map(|answer| answer.cluster))?;
        if let Some((ordinal, answer)) = answers.find(|(_, answer)| answer.cluster != expected) {
            let why = format!(
                "{} belongs to cluster {:x}, and not to {expected:x}: the operator changes nothing until one of them \
                 is gone",
                self.pod_name(*ordinal),
                answer.cluster
            );
            return Some(MemberStep::Stop { reason: "SplitBrain", why });
        }
        let position = self.latch.position.filter(|_| self.observed.members.is_some())?;
        let revision = self.revision();
        (revision < position).then(|| MemberStep::Stop {
            reason: "DataLost",
            why: format!(
                "the data is at revision {revision}, and was at {position}: restore a snapshot, or accept the loss"
            ),
        })
    }

    /// The first member starts a cluster, or the members of existing claims start their cluster again.
    fn first_member(&self) -> Option<EtcdStep> {
        if self.latch.bootstrapped || self.workload.replicas > 0 || self.observed.members.is_some() {
            return None;
        }
        if self.target.size == 0 {
            return Some(MemberStep::Quiet);
        }
        let claims = || self.workload.claims.iter().filter(|(_, claims)| !claims.is_empty());
        if let Some(why) = self.workload.predecessor() {
            return Some(MemberStep::Wait { why, after: SOON });
        }
        let Some(highest) = claims().map(|(ordinal, _)| *ordinal).max() else {
            return Some(self.written(ClusterState::New, self.listed(0..1)).unwrap_or(MemberStep::Scale(1)));
        };
        if !self.target.adopt_claims {
            return Some(MemberStep::Stop {
                reason: "OrphanedVolumes",
                why: format!(
                    "claims of {} already exist: adopt them (volumes.onOrphan: Adopt) or delete them",
                    self.workload.name
                ),
            });
        }
        Some(self.closed().unwrap_or(MemberStep::Scale(highest + 1)))
    }

    /// As soon as a cluster exists, nothing is allowed to start a second one.
    fn existing(&self) -> Option<EtcdStep> {
        let initial = match &self.observed.initial {
            Err(why) => return Some(MemberStep::Wait { why: why.clone(), after: LATER }),
            Ok(initial) => initial.as_ref(),
        };
        if initial.is_some_and(|initial| initial.state == ClusterState::Existing) {
            return None;
        }
        let known = self.latch.bootstrapped || self.observed.members.is_some();
        self.closed().filter(|_| known)
    }

    /// The first member has not answered yet.
    fn first_answer(&self) -> Option<EtcdStep> {
        if self.latch.bootstrapped || self.observed.members.is_some() {
            return None;
        }
        // Somebody deleted the `ConfigMap` that the first pod waits for. It is not written again if there were claims
        // before, since their content is unknown.
        if self.workload.replicas == 1 && !self.target.adopt_claims && self.observed.initial == Ok(None) {
            return self.written(ClusterState::New, self.listed(0..1));
        }
        Some(self.replaced_broken_pod().unwrap_or_else(|| MemberStep::Wait {
            why: format!("the first answer of {}{}", self.pod_name(0), self.reason(0)),
            after: SOON,
        }))
    }

    /// The first member has answered. From now on its identity is known.
    fn founded(&self) -> Option<EtcdStep> {
        if self.latch.bootstrapped {
            return None;
        }
        let cluster = self.observed.answers.values().find(|answer| answer.linearizable)?.cluster;
        Some(MemberStep::Latch(EtcdLatch {
            bootstrapped: true,
            replicas: Some(self.workload.replicas),
            cluster: Some(format!("{cluster:x}")),
            position: Some(self.revision()),
            ..self.latch.clone()
        }))
    }

    /// The members sleep, or wake.
    fn asleep(&self) -> Option<EtcdStep> {
        let falls = self.latch.asleep.is_some() && falls_asleep(self.workload, self.target);
        sleeping(self.workload, self.target, self.latch).or_else(|| falls.then_some(MemberStep::Scale(0)))
    }

    /// Another client lowered the replicas, which may have cost the quorum.
    fn scaled_by_hand(&self) -> Option<EtcdStep> {
        let last = self.latch.replicas?;
        (self.workload.replicas < last || self.workload.start > 0).then_some(MemberStep::Scale(last))
    }

    /// Before 3.4: the first member has voted for a second one, and no longer has a quorum alone. The pod of the second
    /// member is started even if it is no longer wanted: only this restores the quorum.
    fn needed_vote(&self) -> Option<EtcdStep> {
        if self.observed.members.is_some() || !self.latch.bootstrapped {
            return None;
        }
        let k = self.announced().filter(|k| *k <= self.workload.replicas)?;
        if k == self.workload.replicas {
            return Some(MemberStep::Scale(k + 1));
        }
        let starts = self.workload.pods.get(&k).is_none_or(|pod| !pod.ready);
        let why = || format!("{} to start: its vote is needed{}", self.pod_name(k), self.reason(k));
        starts.then(|| MemberStep::Wait { why: why(), after: SOON })
    }

    /// Whether members can join without a vote, as far as this is known.
    fn has_learners(&self) -> bool {
        let has = |version: Version| (version.major, version.minor) >= (3, 4);
        self.settings.learners && self.observed.answers.values().filter_map(|answer| answer.version).all(has)
    }

    /// The ordinal that the list in the `ConfigMap` is for, in a cluster without learners.
    fn announced(&self) -> Option<u32> {
        let initial = self.observed.initial.as_ref().ok()?.as_ref()?;
        let entries = initial.members.split(',').filter_map(|entry| entry.split_once('='));
        // All other members are in the list by their IDs.
        let mut named = entries.filter_map(|(name, url)| {
            let ordinal = self.settings.peer_url.ordinal(url)?;
            (name == self.pod_name(ordinal)).then_some(ordinal)
        });
        named.next().filter(|_| initial.state == ClusterState::Existing && !self.has_learners())
    }

    /// There is no quorum. Nothing is called, deleted or lowered; only a pod that a template broke is replaced.
    fn quorum_lost(&self) -> Option<EtcdStep> {
        if self.observed.members.is_some() {
            return None;
        }
        Some(self.replaced_broken_pod().unwrap_or_else(|| {
            let silent = (0..self.workload.replicas).filter(|ordinal| !self.observed.answers.contains_key(ordinal));
            let silent: Vec<_> =
                silent.map(|ordinal| format!("{}{}", self.pod_name(ordinal), self.reason(ordinal))).collect();
            let silent = if silent.is_empty() { "none".into() } else { silent.join(", ") };
            let offer = self.recovery_offer();
            let why = format!("no member answers a linearizable read; members without an answer: {silent}{offer}");
            MemberStep::Stop { reason: "QuorumLost", why }
        }))
    }

    /// A cluster has at least one member.
    fn size_of_zero(&self) -> Option<EtcdStep> {
        (self.target.size == 0).then(|| MemberStep::Stop {
            reason: "InvalidSize",
            why: "the last member of a cluster cannot leave: delete the custom resource, or set the size to one".into(),
        })
    }

    /// Deletes a pod of an older template that will not become ready: its container was not started, or keeps
    /// restarting. Its data is on a claim, so the only effect is a start from the current template.
    fn replaced_broken_pod(&self) -> Option<EtcdStep> {
        let broken = |ordinal: &u32, pod: &Pod| {
            !pod.terminating
                && !pod.ready
                && self.workload.is_outdated(pod)
                && !self.observed.answers.contains_key(ordinal)
                && self.workload.claims.get(ordinal).is_some_and(|claims| !claims.is_empty())
                && (pod.restarts > 0 || matches!(pod.phase, PodPhase::Unscheduled | PodPhase::Pending))
        };
        let (ordinal, pod) = self.workload.pods.iter().find(|(ordinal, pod)| broken(ordinal, pod))?;
        Some(MemberStep::DeletePod { ordinal: *ordinal, uid: pod.uid.clone() })
    }

    /// Writes the `ConfigMap` unless it has this content already.
    fn written(&self, state: ClusterState, members: String) -> Option<EtcdStep> {
        let wanted = InitialCluster { state, members };
        match &self.observed.initial {
            Err(why) => Some(MemberStep::Wait { why: why.clone(), after: LATER }),
            Ok(Some(initial)) if *initial == wanted => None,
            Ok(_) => Some(MemberStep::Act(EtcdAction::WriteInitialCluster(wanted))),
        }
    }

    /// Lets no member join. If not, a member that lost its data and received a list with its name would start under its
    /// old ID, without the entries and votes that it had acknowledged.
    fn closed(&self) -> Option<EtcdStep> {
        self.written(ClusterState::Existing, NOBODY.into())
    }

    /// `ETCD_INITIAL_CLUSTER` for these ordinals.
    fn listed(&self, ordinals: impl Iterator<Item = u32>) -> String {
        let entry = |ordinal| format!("{}={}", self.pod_name(ordinal), self.settings.peer_url.url(ordinal));
        ordinals.map(entry).collect::<Vec<_>>().join(",")
    }

    /// `ETCD_INITIAL_CLUSTER` of exactly these members, for the one that has not started. etcd compares the URLs, and
    /// only needs to find its own name. So the list contains the IDs of the other members instead of their names, and
    /// none of them can start from it if it loses its data.
    fn initial_cluster(&self, members: &[super::state::ListedMember]) -> String {
        let mut entries: Vec<(u32, String)> = Vec::new();
        for member in members {
            let ordinal = member.peer_urls.iter().find_map(|url| self.settings.peer_url.ordinal(url));
            let joins = ordinal.filter(|_| !member.started());
            let name = joins.map_or_else(|| format!("{:x}", member.id), |ordinal| self.pod_name(ordinal));
            entries.extend(member.peer_urls.iter().map(|url| (ordinal.unwrap_or(u32::MAX), format!("{name}={url}"))));
        }
        entries.sort();
        entries.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>().join(",")
    }

    fn latched_cluster(&self) -> Option<u64> {
        u64::from_str_radix(self.latch.cluster.as_deref()?, 16).ok()
    }

    /// The revision of the data, from the members that have a quorum.
    fn revision(&self) -> u64 {
        self.observed
            .answers
            .values()
            .filter(|answer| answer.linearizable)
            .map(|answer| answer.revision)
            .max()
            .unwrap_or_default()
    }

    fn pod_name(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.workload.name)
    }

    /// Why a pod is not ready, in brackets.
    fn reason(&self, ordinal: u32) -> String {
        match self.workload.pods.get(&ordinal) {
            None => " (the pod does not exist)".into(),
            Some(pod) if pod.reason.is_empty() => String::new(),
            Some(pod) => format!(" ({})", pod.reason),
        }
    }
}
