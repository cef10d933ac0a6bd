//! A quorum that is lost for good (docs/design/members.md, row `quorum_lost`). The operator does not guess: the user
//! has to confirm the loss, for this cluster and for the data that is left, and the same confirmation is never used
//! twice. Then the member with the most of the agreed data continues alone, and the other members join it as learners.
//!
//! While a pod can start as the only member, no other pod may start: each would be a cluster of its own, under the same
//! ID. So the StatefulSet has only this one pod until the `ConfigMap` no longer forces a new cluster. The claims
//! of the others are deleted after the member has been seen to continue, and not earlier.

use super::{SOON, Scene};
use crate::members::driver::MemberStep;
use crate::members::etcd::state::{ClusterState, EtcdFacts, EtcdLatch, EtcdStep, MemberAnswer, Recovery};
use crate::names;

/// Annotation of the custom resource with the user's confirmation. The condition `QuorumLost` shows the required value.
pub const FORCE_NEW_CLUSTER: &str = names::FORCE_NEW_CLUSTER;

impl Scene<'_> {
    /// The member with the most data among those that answer. They are voters that have been running since the quorum
    /// existed, and none of them knows a leader. A member that was restarted without a quorum does not answer, and
    /// cannot be compared.
    fn survivor(&self) -> Option<(u32, &MemberAnswer)> {
        let cluster = self.latched_cluster()?;
        let answers = &self.observed.answers;
        if answers.values().any(|answer| answer.linearizable || answer.leader != 0 || answer.cluster != cluster) {
            return None;
        }
        let able = answers.iter().filter(|(_, answer)| !answer.learner && !answer.is_corrupt());
        let able = able.filter(|(ordinal, _)| self.workload.pods.contains_key(ordinal));
        able.rev().max_by_key(|(_, answer)| answer.index).map(|(ordinal, answer)| (*ordinal, answer))
    }

    /// The required confirmation: the cluster, and the revision that the user accepts. It always differs from the last
    /// one.
    fn statement(&self, answer: &MemberAnswer) -> String {
        let statement = format!("{:x}@{}", answer.cluster, answer.revision);
        if self.latch.own.recovered.as_ref() == Some(&statement) { format!("{statement}-again") } else { statement }
    }

    /// The offer of a recovery in the condition.
    pub(super) fn recovery_offer(&self) -> String {
        let Some((ordinal, answer)) = self.survivor() else {
            let nobody = "; no member answers, so it is unknown which of them has the newest data";
            return if self.observed.answers.is_empty() { nobody.to_owned() } else { String::new() };
        };
        format!(
            "; if a quorum of them is gone for good, the annotation {FORCE_NEW_CLUSTER}={} lets {} continue as a \
             cluster of one. It has the newest data of the members that can be compared (revision {}): later writes \
             are lost, and the data of all other members is deleted",
            self.statement(answer),
            self.pod_name(ordinal),
            answer.revision
        )
    }

    /// The user has confirmed the loss, for the data that is left now.
    pub(super) fn recovery_begins(&self) -> Option<EtcdStep> {
        let said = self.target.recover.as_deref()?;
        if self.observed.members.is_some() || !self.latch.bootstrapped {
            return None;
        }
        let (survivor, answer) = self.survivor()?;
        let recovery = Recovery { statement: said.to_owned(), survivor, pod: None };
        (self.statement(answer) == said).then(|| MemberStep::Latch(self.recovers(recovery)))
    }

    /// Continues a recovery from the observed state.
    pub(super) fn recovery_continues(&self) -> Option<EtcdStep> {
        let recovery = self.latch.own.recovery.as_ref()?;
        let is_it = |url: &String| self.settings.peer_url.ordinal(url) == Some(recovery.survivor);
        let members = self.observed.members.as_deref();
        let alone = matches!(members, Some([only]) if only.peer_urls.iter().any(is_it));
        let initial = self.observed.initial.as_ref().ok().and_then(Option::as_ref);
        let is_told = initial.is_none_or(|initial| initial.state == ClusterState::Forced);
        Some(if alone {
            self.gone_on(recovery)
        } else if members.is_some() && !is_told {
            // The quorum has returned without help, and no member has been forced to be alone yet.
            self.recovery_ends(recovery, None)
        } else {
            self.made_alone(recovery)
        })
    }

    /// Restarts the member's pod as the only one of the StatefulSet, and with the setting that it is the only member.
    fn made_alone(&self, recovery: &Recovery) -> EtcdStep {
        let survivor = recovery.survivor;
        if (self.workload.start, self.workload.replicas) != (survivor, 1) {
            return MemberStep::Only(survivor);
        }
        let waits = |why: String| MemberStep::Wait { why, after: SOON };
        let stays = self.workload.pods.iter().find(|(ordinal, pod)| **ordinal != survivor && !pod.terminating);
        if let Some((other, _)) = stays {
            return waits(format!("the request to {} to leave", self.pod_name(*other)));
        }
        if let Some(step) = self.written(ClusterState::Forced, super::NOBODY.into()) {
            return step;
        }
        let name = self.pod_name(survivor);
        match self.workload.pods.get(&survivor).filter(|pod| !pod.terminating) {
            None => waits(format!("{name} to come back")),
            Some(pod) if recovery.pod.is_none() => {
                let pod = Some(pod.uid.to_string());
                MemberStep::Latch(self.recovers(Recovery { pod, ..recovery.clone() }))
            }
            Some(pod) if recovery.pod.as_deref() == Some(&*pod.uid) => {
                MemberStep::DeletePod { ordinal: survivor, uid: pod.uid.clone() }
            }
            Some(_) => waits(format!("{name} to continue alone{}", self.reason(survivor))),
        }
    }

    /// The member has a quorum alone. From now on no member may be forced to be alone, and the data of the others is
    /// deleted.
    fn gone_on(&self, recovery: &Recovery) -> EtcdStep {
        if let Some(step) = self.closed() {
            return step;
        }
        let others = self.workload.claims.iter().filter(|(ordinal, _)| **ordinal != recovery.survivor);
        let claim = others.flat_map(|(_, claims)| claims).find(|claim| !claim.terminating);
        match claim {
            Some(claim) => MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() },
            None => self.recovery_ends(recovery, Some(recovery.survivor + 1)),
        }
    }

    /// The latch while this recovery is under way.
    fn recovers(&self, recovery: Recovery) -> EtcdLatch {
        EtcdLatch { own: EtcdFacts { recovery: Some(recovery), ..self.latch.own.clone() }, ..self.latch.clone() }
    }

    /// Ends the recovery: with this number of replicas and the current data, or without any change if the quorum has
    /// returned without help.
    fn recovery_ends(&self, recovery: &Recovery, replicas: Option<u32>) -> EtcdStep {
        let recovered = Some(recovery.statement.clone());
        let own = EtcdFacts { recovery: None, recovered, ..self.latch.own.clone() };
        let ended = EtcdLatch { own, ..self.latch.clone() };
        MemberStep::Latch(match replicas {
            None => ended,
            Some(_) => EtcdLatch {
                replicas,
                position: Some(self.revision()),
                since: std::collections::BTreeMap::new(),
                stale: std::collections::BTreeMap::new(),
                ..ended
            },
        })
    }
}
