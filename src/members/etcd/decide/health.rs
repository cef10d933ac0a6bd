//! Which members are healthy, which are dead, and what a quorum allows.

use super::Scene;
use crate::members::etcd::state::{ListedMember, MemberAnswer, Version};
use crate::members::workload::{Exit, Pod, PodPhase, VolumeClaim};

/// The number of failures of a container that count as crashing.
const CRASHES: u32 = 3;

/// A container that has run for this long, in seconds, will not end as it did before: if etcd cannot start, it exits
/// within this time, even after it has tried to reach all other members.
const BEGUN: i64 = 120;

/// Bytes that a learner receives per second on a slow network, or from a busy leader.
const SENT: u64 = 4 << 20;

/// The texts that etcd prints before it exits when its data is no longer usable: its ID was removed, the log lost
/// entries that it had acknowledged, or the log cannot be read.
const BAD_DATA: [&str; 8] = [
    "permanently removed from the cluster",
    "is out of range [lastIndex",
    "crc mismatch",
    "data dir may be corrupted",
    "failed to read WAL",
    "failed to recover v3 backend from snapshot",
    "database file not found",
    "file is truncated",
];

/// The texts that etcd prints when it has no data and its list is not the cluster's.
const NOT_IN_LIST: [&str; 4] = [
    "couldn't find local name",
    "error validating peerURLs",
    "member count is unequal",
    "could not retrieve cluster information",
];

/// A cluster with a quorum.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    pub scene: &'a Scene<'a>,
    pub members: &'a [ListedMember],
}

impl<'a> Cluster<'a> {
    pub fn desired(&self) -> u32 {
        self.scene.target.size
    }

    pub fn replicas(&self) -> u32 {
        self.scene.workload.replicas
    }

    pub fn pod(&self, ordinal: u32) -> Option<&'a Pod> {
        self.scene.workload.pods.get(&ordinal)
    }

    pub fn claims(&self, ordinal: u32) -> &'a [VolumeClaim] {
        self.scene.workload.claims.get(&ordinal).map_or(&[], Vec::as_slice)
    }

    /// The ordinal of a member; `None` for a foreign one.
    pub fn ordinal(&self, member: &ListedMember) -> Option<u32> {
        let mut ordinals = member.peer_urls.iter().map(|url| self.scene.settings.peer_url.ordinal(url));
        let first = ordinals.next().flatten()?;
        ordinals.all(|ordinal| ordinal == Some(first)).then_some(first)
    }

    pub fn member(&self, ordinal: u32) -> Option<&'a ListedMember> {
        self.members.iter().find(|member| self.ordinal(member) == Some(ordinal))
    }

    /// The voters or the learners that have an ordinal, sorted by ordinal.
    fn with_ordinals(&self, learners: bool) -> Vec<(u32, &'a ListedMember)> {
        let mut found: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.learner == learners)
            .filter_map(|member| Some((self.ordinal(member)?, member)))
            .collect();
        found.sort_by_key(|(ordinal, _)| *ordinal);
        found
    }

    pub fn voters(&self) -> Vec<(u32, &'a ListedMember)> {
        self.with_ordinals(false)
    }

    /// The learner. By default etcd allows only one.
    pub fn learner(&self) -> Option<(u32, &'a ListedMember)> {
        self.with_ordinals(true).last().copied()
    }

    /// Whether a voter read what a quorum agrees on, on its own endpoint.
    pub fn healthy(&self, ordinal: u32) -> bool {
        let Some(member) = self.member(ordinal).filter(|member| !member.learner) else { return false };
        let answer = self.scene.observed.answers.get(&ordinal);
        answer.is_some_and(|answer| answer.linearizable && answer.member == member.id && !answer.is_corrupt())
    }

    /// The healthy voters.
    pub fn healthy_voters(&self) -> impl Iterator<Item = u32> {
        self.voters().into_iter().map(|(voter, _)| voter).filter(|voter| self.healthy(*voter))
    }

    /// The number of healthy voters, not counting those of one ordinal.
    fn healthy_without(&self, ordinal: Option<u32>) -> usize {
        self.healthy_voters().filter(|voter| Some(*voter) != ordinal).count()
    }

    /// Whether every member is a healthy voter.
    pub fn all_healthy(&self) -> bool {
        self.healthy_without(None) == self.members.len()
    }

    fn voting(&self) -> usize {
        self.members.iter().filter(|member| !member.learner).count()
    }

    /// Whether the others keep a quorum when a voter is removed, a quorum can agree to it now, and it is not the last
    /// voter.
    pub fn may_remove(&self, ordinal: u32) -> bool {
        let voters = self.voting();
        voters > 1
            && self.healthy_without(None) >= quorum(voters)
            && self.healthy_without(Some(ordinal)) >= quorum(voters - 1)
    }

    /// Whether the others keep a quorum while a voter is stopped.
    pub fn may_stop(&self, ordinal: u32) -> bool {
        self.healthy_without(Some(ordinal)) >= quorum(self.voting())
    }

    /// The ordinal of the leader, as reported by a member in the newest term.
    pub fn leader(&self) -> Option<u32> {
        let answers = self.scene.observed.answers.iter().filter(|(ordinal, _)| self.healthy(**ordinal));
        let newest = answers.max_by_key(|(_, answer)| answer.term)?.1.leader;
        self.members.iter().find(|member| member.id == newest).and_then(|member| self.ordinal(member))
    }

    /// The lowest healthy voter except this one.
    pub fn lowest_healthy_but(&self, ordinal: u32) -> Option<u32> {
        self.healthy_voters().find(|voter| *voter != ordinal)
    }

    /// The member to call: the leader, or another healthy voter if the call is about the leader itself.
    pub fn via(&self, about: Option<u32>) -> Option<u32> {
        let leader = self.leader().filter(|leader| Some(*leader) != about && self.healthy(*leader));
        leader.or_else(|| self.lowest_healthy_but(about.unwrap_or(u32::MAX)))
    }

    /// Whether the list has another peer URL for the member than the document, because the scheme or the port has
    /// changed.
    pub fn is_elsewhere(&self, ordinal: u32) -> bool {
        let url = self.scene.settings.peer_url.url(ordinal);
        self.member(ordinal).is_some_and(|member| member.peer_urls != [url])
    }

    /// The highest index of all logs.
    pub fn furthest(&self) -> u64 {
        self.scene.observed.answers.values().map(|answer| answer.index).max().unwrap_or_default()
    }

    /// The versions of the members that answered, lowest first.
    pub fn versions(&self) -> Vec<Version> {
        let mut versions: Vec<_> = self.scene.observed.answers.values().filter_map(|answer| answer.version).collect();
        versions.sort();
        versions
    }

    /// Whether etcd printed that the data of this pod is no longer usable.
    pub fn says_bad_data(&self, ordinal: u32) -> bool {
        self.said(ordinal, &BAD_DATA)
    }

    /// Whether etcd printed that its list is not the cluster's; only a member without data reads the list.
    pub fn says_not_in_list(&self, ordinal: u32) -> bool {
        self.said(ordinal, &NOT_IN_LIST)
    }

    /// The same, except for a member that only could not reach the others.
    pub fn says_wrong_list(&self, ordinal: u32) -> bool {
        self.said(ordinal, &NOT_IN_LIST[..3])
    }

    /// How a silent pod ended last. A pod that has started since is silent for another reason, such as a network
    /// partition.
    fn ended(&self, ordinal: u32) -> Option<&'a Exit> {
        let exit = self.pod(ordinal)?.exit.as_ref()?;
        let begun = exit.running_since.is_some_and(|since| self.scene.now - since > BEGUN);
        (!begun && !self.scene.observed.answers.contains_key(&ordinal)).then_some(exit)
    }

    /// Whether the pod is silent, and printed one of these texts when it ended last.
    fn said(&self, ordinal: u32, texts: &[&str]) -> bool {
        self.ended(ordinal).is_some_and(|exit| texts.iter().any(|text| exit.message.contains(text)))
    }

    /// Whether the container ended, was restarted, and is still running.
    pub fn runs_again(&self, ordinal: u32) -> bool {
        let exit = self.pod(ordinal).and_then(|pod| pod.exit.as_ref());
        exit.is_some_and(|exit| exit.running_since.is_some())
    }

    /// Whether a pod of the current template keeps restarting.
    pub fn crashes(&self, ordinal: u32) -> bool {
        self.ended(ordinal).is_some()
            && self.pod(ordinal).is_some_and(|pod| {
                !pod.terminating
                    && !pod.ready
                    && pod.restarts >= CRASHES
                    && pod.revision == self.scene.workload.update_revision
            })
    }

    /// Whether a voter cannot return without help: its volume or its data is lost, it was removed, it is corrupt, or it
    /// keeps failing to start. A voter whose pod only waits for a node is not dead: its data still exists.
    pub fn dead(&self, ordinal: u32) -> bool {
        self.claims(ordinal).iter().any(|claim| claim.lost)
            || self.scene.observed.answers.get(&ordinal).is_some_and(MemberAnswer::is_corrupt)
            || self.says_bad_data(ordinal)
            || self.says_not_in_list(ordinal)
            || self.crashes(ordinal)
    }

    /// Whether the data of a voter is gone for good: it reports that it has none, and its claim is not the one with
    /// which it answered.
    pub fn has_lost_data(&self, ordinal: u32) -> bool {
        self.says_not_in_list(ordinal) && self.scene.latch.has_lost(self.scene.workload, ordinal)
    }

    /// Whether a member has started and answers.
    pub fn answers(&self, member: &ListedMember) -> bool {
        let answer = self.ordinal(member).and_then(|ordinal| self.scene.observed.answers.get(&ordinal));
        member.started() && answer.is_some_and(|answer| answer.member == member.id)
    }

    /// The uids of an ordinal's claims and pod.
    pub fn place(&self, ordinal: u32) -> Vec<String> {
        let claims = self.claims(ordinal).iter().map(|claim| &claim.uid);
        claims.chain(self.pod(ordinal).map(|pod| &pod.uid)).map(ToString::to_string).collect()
    }

    /// How many seconds the operator has waited for an ordinal.
    pub fn waited(&self, ordinal: u32) -> i64 {
        self.scene.latch.since.get(&ordinal).map_or(0, |since| self.scene.now - since)
    }

    /// Whether a learner did not start in time. A running learner opens its client port only after it has received the
    /// data.
    pub fn is_late(&self, ordinal: u32) -> bool {
        let runs = self.pod(ordinal).is_some_and(|pod| pod.phase == PodPhase::Running);
        let data = self.scene.observed.answers.values().map(|answer| answer.size).max().filter(|_| runs);
        let sent = i64::try_from(data.unwrap_or_default() / SENT).unwrap_or_default();
        self.waited(ordinal) > self.scene.settings.join_deadline.saturating_add(sent)
    }

    /// Whether its learner did not join in time, so that the next attempt waits as long again.
    pub fn backs_off(&self, ordinal: u32) -> bool {
        let deadline = self.scene.settings.join_deadline;
        self.member(ordinal).is_none() && (deadline..2 * deadline).contains(&self.waited(ordinal))
    }
}

/// How many of these voters form a quorum.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}
