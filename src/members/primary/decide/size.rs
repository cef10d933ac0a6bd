//! docs/design/primary.md: members come, go and are restarted.

use super::{LATER, SOON, Scene, Step, stop, wait};
use crate::agent::contract::Role;
use crate::members::driver::MemberStep;
use crate::members::primary::state::PrimaryLatch;
use crate::members::workload::{Pod, PodPhase, VolumeClaim};

impl Scene<'_> {
    /// A volume that is lost does not come back. Its member starts again with an empty one, and is seeded.
    pub(super) fn lost_volume(&self) -> Step {
        let lost = |k: &u32| Some(*k) != self.held.ordinal && self.lacks_volume(*k);
        let k = (0..self.workload.replicas).find(lost)?;
        if self.held.ackers.contains(&k) {
            return self.shrink(k);
        }
        let Some(since) = self.latch.since.get(&k) else { return self.noted(k, Some(self.now)) };
        if self.now - since < self.settings.dead_after {
            return Some(wait(format!("the volume of {}", self.pod(k)), LATER));
        }
        let Some(claim) = self.lost_claim(k).filter(|claim| !claim.terminating) else {
            // The claim goes after the pod that uses it, or has gone. The container may still run.
            let pod = self.workload.pods.get(&k).filter(|pod| !pod.terminating);
            let gone = || wait(format!("another volume of {}", self.pod(k)), SOON);
            return Some(pod.map_or_else(gone, |pod| MemberStep::DeletePod { ordinal: k, uid: pod.uid.clone() }));
        };
        Some(MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() })
    }

    /// Whether the volume of a member is lost, or its claim is gone while its pod runs: the StatefulSet's controller
    /// makes a claim first.
    pub(super) fn lacks_volume(&self, k: u32) -> bool {
        match self.workload.claims.get(&k).filter(|claims| !claims.is_empty()) {
            Some(_) => self.lost_claim(k).is_some(),
            None => !self.workload.claims.is_empty() && self.workload.pods.contains_key(&k),
        }
    }

    /// The claim of a member whose volume is lost.
    fn lost_claim(&self, k: u32) -> Option<&VolumeClaim> {
        self.workload.claims.get(&k).into_iter().flatten().find(|claim| claim.lost)
    }

    /// A cluster has at least one member.
    pub(super) fn size_of_zero(&self) -> Step {
        (self.target.size == 0).then(|| {
            let why = "the last member cannot leave: delete the custom resource, or set the size to one".to_owned();
            stop("InvalidSize", why)
        })
    }

    fn is_too_large(&self) -> bool {
        self.workload.replicas > self.target.size
    }

    /// One member less.
    pub(super) fn remove_member(&self) -> Step {
        self.is_too_large().then(|| self.leave(self.workload.replicas - 1))?
    }

    /// One member more.
    pub(super) fn add_member(&self) -> Step {
        let replicas = self.workload.replicas;
        (replicas < self.target.size).then(|| {
            let orphan = self.workload.claims.get(&replicas).into_iter().flatten().find(|claim| !claim.terminating);
            match orphan {
                Some(claim) if !self.target.adopt_claims => stop("OrphanedVolumes", self.latch.orphan(replicas, claim)),
                _ => MemberStep::Scale(replicas + 1),
            }
        })
    }

    /// The member with the highest ordinal leaves. A primary hands over first, and an acker acknowledges no more.
    fn leave(&self, k: u32) -> Step {
        if self.held.ordinal == Some(k) {
            let why = format!("{} leaves", self.pod(k));
            let waits = || wait(format!("a replica to take over from {}", self.pod(k)), LATER);
            return Some(self.switch_over(why).unwrap_or_else(waits));
        }
        if self.held.ackers.contains(&k) {
            return self.shrink(k);
        }
        let claims = self.latch.claims_with(self.workload, std::iter::once(k));
        if claims != self.latch.claims {
            return Some(MemberStep::Latch(PrimaryLatch { claims, ..self.latch.clone() }));
        }
        Some(MemberStep::Scale(k))
    }

    /// The claims of members that left.
    pub(super) fn remains(&self) -> Step {
        if self.is_too_large() {
            return None;
        }
        let gone = |k: u32| k >= self.workload.replicas && !self.workload.pods.contains_key(&k);
        let left = self.workload.claims.iter().filter(|(k, _)| gone(**k) && self.target.delete_claims);
        let known = left.flat_map(|(k, claims)| claims.iter().map(move |claim| (*k, claim)));
        let mut known = known.filter(|(k, claim)| !claim.terminating && self.latch.knows(*k, claim));
        if let Some((_, claim)) = known.next() {
            return Some(MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() });
        }
        let going = |(k, _): &(&u32, &Pod)| **k >= self.workload.replicas;
        let going = self.workload.pods.iter().find(going).map(|(k, _)| format!("{} to go", self.pod(*k)));
        going.map(|why| wait(why, SOON))
    }

    /// A member is not yet well.
    pub(super) fn unwell_member(&self) -> Step {
        if self.is_too_large() {
            return None;
        }
        for k in 0..self.workload.replicas {
            let pod = self.pod(k);
            let is_primary = self.held.ordinal == Some(k);
            let Some(answer) = self.answer(k) else {
                return Some(
                    self.broken_pod().unwrap_or_else(|| wait(format!("{pod} to answer{}", self.reason(k)), SOON)),
                );
            };
            if let Some(busy) = &answer.busy {
                let of = busy.of.map_or_else(String::new, |of| format!(" of {of}"));
                return Some(wait(format!("{pod} ({}: {}{of})", busy.work, busy.done), SOON));
            }
            if let Some(step) = self.kept(k, answer).or_else(|| self.unknown_data(k, answer)) {
                return Some(step);
            }
            let well = is_primary || self.follows(k).is_some_and(|answer| self.is_near(answer));
            if !well {
                let refused = self.observed.refused.range((k, "")..=(k, "~")).next();
                if let Some(((_, verb), refused)) = refused {
                    let why = format!("{pod} refuses the order {verb}: {}", refused.why);
                    return Some(if refused.passing { wait(why, SOON) } else { stop("Refused", why) });
                }
                let problem = answer.problem.as_ref().map_or_else(String::new, |problem| format!(" ({problem})"));
                return Some(wait(format!("{pod} to follow the primary{problem}"), SOON));
            }
            if !self.workload.pods.get(&k).is_some_and(Pod::stays_ready) {
                return Some(wait(format!("{pod} to be ready{}", self.reason(k)), SOON));
            }
        }
        None
    }

    /// The pod of the primary is being deleted, such as by `kubectl drain`. While it ends, it hands over.
    pub(super) fn deleted_primary_pod(&self) -> Step {
        let p = self.held.ordinal?;
        self.workload.pods.get(&p).filter(|pod| pod.terminating)?;
        self.switch_over(format!("the pod {} is deleted", self.pod(p)))
    }

    /// Pods of an older template are evicted: replicas from the highest ordinal, the primary last, after it has handed
    /// over.
    pub(super) fn old_template(&self) -> Step {
        let outdated =
            |k: &u32| self.workload.pods.get(k).filter(|pod| self.workload.is_outdated(pod) && !pod.terminating);
        let mut replicas = (0..self.workload.replicas).rev().filter(|k| Some(*k) != self.held.ordinal);
        if let Some((k, pod)) = replicas.find_map(|k| Some((k, outdated(&k)?))) {
            return Some(MemberStep::EvictPod { ordinal: k, uid: pod.uid.clone() });
        }
        let p = self.held.ordinal?;
        let pod = outdated(&p)?;
        if self.workload.replicas == 1 {
            return Some(MemberStep::EvictPod { ordinal: p, uid: pod.uid.clone() });
        }
        let why = format!("{} is restarted", self.pod(p));
        Some(
            self.switch_over(why)
                .unwrap_or_else(|| wait(format!("a replica to take over from {}", self.pod(p)), LATER)),
        )
    }

    /// Deletes a pod of an older template that will not become ready. Its data is on a claim, so the only effect is a
    /// start from the current template.
    pub(super) fn broken_pod(&self) -> Step {
        let broken = |k: &u32, pod: &Pod| {
            !pod.terminating
                && !pod.ready
                && self.workload.is_outdated(pod)
                && self.answer(*k).is_none_or(|answer| answer.role == Role::Waiting && answer.start.is_empty())
                && self.workload.claims.get(k).is_some_and(|claims| !claims.is_empty())
                && (pod.restarts > 0 || matches!(pod.phase, PodPhase::Unscheduled | PodPhase::Pending))
        };
        let (k, pod) = self.workload.pods.iter().find(|(k, pod)| broken(k, pod))?;
        Some(MemberStep::DeletePod { ordinal: *k, uid: pod.uid.clone() })
    }
}
