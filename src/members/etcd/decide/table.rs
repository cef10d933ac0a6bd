//! The table of decisions, in the order in which its rows are tried. docs/design/members.md is made from it.

use super::{Scene, health::Cluster, upkeep, with_quorum};
use crate::members::etcd::state::EtcdStep;
use crate::members::rows::{Phase, Row};

/// A row, and its function.
pub(super) struct Rule {
    pub row: Row,
    pub decide: Decide,
}

/// The function of a row.
pub(super) enum Decide {
    /// It needs no quorum.
    Always(for<'a> fn(&Scene<'a>) -> Option<EtcdStep>),
    /// It is tried while a quorum exists: all rows before it have found one.
    WithQuorum(for<'a> fn(&Cluster<'a>) -> Option<EtcdStep>),
}

/// A row that needs no quorum: a method of the scene.
macro_rules! always {
    ($phase:ident, $name:ident, $when:literal, $then:literal) => {
        Rule {
            row: Row { phase: &$phase, name: stringify!($name), when: $when, then: $then },
            decide: Decide::Always(|scene| scene.$name()),
        }
    };
}

/// A row that needs a quorum: a function of a module.
macro_rules! quorum {
    ($phase:ident, $module:ident::$name:ident, $when:literal, $then:literal) => {
        Rule {
            row: Row { phase: &$phase, name: stringify!($name), when: $when, then: $then },
            decide: Decide::WithQuorum($module::$name),
        }
    };
}

static MODE: Phase = Phase { name: "Mode", about: "The driver checks whether it may act." };
static RECOVERY: Phase = Phase { name: "Recovery", about: "A person confirmed the loss of a quorum." };
static CREATION: Phase = Phase { name: "Creation", about: "One cluster is founded, and no second one." };
static QUORUM: Phase = Phase { name: "Quorum", about: "The cluster is known. Without a quorum no later row is tried." };
static MEMORY: Phase = Phase { name: "Memory", about: "A quorum exists, as in all later phases." };
static JOINING: Phase = Phase { name: "Joining members", about: "A learner or a voter has been added, and joins." };
static REMAINS: Phase = Phase { name: "Remains", about: "Pods, members and claims do not match." };
static REPAIR: Phase = Phase { name: "Repair", about: "Writes or a member need help before the size changes." };
static SIZE: Phase = Phase { name: "Size", about: "One member joins or leaves at a time." };
static TEMPLATE: Phase = Phase { name: "Roll-out", about: "The size is right." };
static REST: Phase = Phase { name: "Maintenance", about: "Nothing else is left to do." };

pub(super) static TABLE: &[Rule] = &[
    always!(
        MODE,
        deleted_or_paused,
        "the custom resource is being deleted, or the release is paused, waits or fails, or an operation runs",
        "nothing. During a deletion no member leaves: the whole cluster is deleted"
    ),
    always!(
        RECOVERY,
        recovery_continues,
        "a recovery has begun",
        "[the member with the most data continues alone](#a-quorum-that-is-lost-for-good). If the quorum returns \
         before, the recovery ends"
    ),
    always!(
        CREATION,
        split_brain,
        "the pods belong to two clusters, or the data is older than it was",
        "`SplitBrain` or `DataLost`"
    ),
    always!(
        CREATION,
        first_member,
        "no cluster is known, and the StatefulSet has no replicas",
        "without claims: the driver writes the list with one member and the state `new`, then starts one replica. \
         With claims: with `onOrphan: Adopt` it starts all of them with the state `existing`; without it \
         `OrphanedVolumes`"
    ),
    always!(
        CREATION,
        existing,
        "a cluster is known or answers, and the list has the state `new`",
        "the driver writes the state `existing` before anything else"
    ),
    always!(
        CREATION,
        first_answer,
        "the first member has not answered yet",
        "the driver waits, and replaces a pod that an old template broke"
    ),
    always!(
        CREATION,
        founded,
        "the first member answers",
        "the driver records the cluster's ID, the fact that it was founded, and the revision of its data"
    ),
    always!(
        QUORUM,
        asleep,
        "the record says that the members sleep",
        "the driver sets the replicas to 0, and then does nothing; all volumes stay. When the members are to wake, it sets the replicas to \
         the number from before"
    ),
    always!(
        QUORUM,
        scaled_by_hand,
        "the StatefulSet has fewer replicas than the driver wrote last",
        "the driver writes them again: they may be the quorum"
    ),
    always!(
        QUORUM,
        recovery_begins,
        "no quorum exists, and a person confirmed the loss for the data that is left",
        "the driver records the recovery"
    ),
    always!(
        QUORUM,
        needed_vote,
        "no quorum exists, and the list adds a voter (before etcd 3.4)",
        "the driver starts the pod of the voter, and waits: only this restores the quorum"
    ),
    always!(
        QUORUM,
        quorum_lost,
        "no member answers a linearizable read",
        "`QuorumLost`: the driver calls nothing, deletes no data, and lowers nothing. It replaces a pod that an old \
         template broke. [The user can end it](#a-quorum-that-is-lost-for-good)"
    ),
    always!(QUORUM, size_of_zero, "the size is 0", "`InvalidSize`"),
    quorum!(
        MEMORY,
        with_quorum::memory,
        "members, claims or waits differ from the record",
        "the driver records since when it waits for a member, the claims of members, and the remains of members that \
         left"
    ),
    quorum!(
        JOINING,
        with_quorum::unwanted_learner,
        "a learner has an ordinal beyond the size",
        "the driver removes it; etcd always allows that"
    ),
    quorum!(
        JOINING,
        with_quorum::learner_without_pod,
        "a learner has no pod",
        "the driver writes the current list, then adds one replica"
    ),
    quorum!(
        JOINING,
        with_quorum::closed_list,
        "all members have started, and the list allows one to join",
        "the driver closes the list: no member can start from it again"
    ),
    quorum!(
        JOINING,
        with_quorum::learner_caught_up,
        "a learner has started and caught up",
        "the driver promotes it; the leader decides"
    ),
    quorum!(
        JOINING,
        with_quorum::learner_that_does_not_join,
        "a learner does not join",
        "if its list differs from that of the members, the driver writes the list. If its data belongs to another \
         member or is lost, or if it has not answered at its deadline (longer while data is sent to it), the driver \
         removes it, and retries after the same time; `remains_of_a_member` deletes its claim before that. If its \
         container waits for its next start with a wrong list, the driver deletes the pod. If not, it waits"
    ),
    quorum!(
        JOINING,
        with_quorum::voter_that_never_started,
        "a voter never started",
        "if the others keep a quorum, and the voter has an ordinal beyond the size or is late, the driver removes it. \
         If not, it writes the list and starts its pod. No other member joins in the meantime"
    ),
    quorum!(
        REMAINS,
        with_quorum::foreign_member,
        "a member has no pod name of this StatefulSet, or two members have the same ordinal",
        "`ForeignMember`"
    ),
    quorum!(
        REMAINS,
        with_quorum::voter_without_pod,
        "voters have no pods, because somebody lowered the replicas",
        "the driver raises the replicas if the size or a quorum needs them; if not, it removes the voters"
    ),
    quorum!(
        REMAINS,
        with_quorum::unwanted_pod,
        "the last pod has no member, and an ordinal beyond the size",
        "the driver removes one replica"
    ),
    quorum!(
        REMAINS,
        with_quorum::remains_of_a_member,
        "a pod has no member",
        "the driver deletes the claims that a member is known to have had, then the pod, both by uid. Other claims \
         cause `OrphanedVolumes`"
    ),
    quorum!(
        REMAINS,
        with_quorum::claims_left_over,
        "members that left have claims and no pods",
        "the driver deletes the claims, unless the chart keeps them"
    ),
    quorum!(
        REPAIR,
        with_quorum::dead_voter,
        "a voter cannot come back for longer than `deadAfter`; or it has no data, and its claim is not the one with \
         which it last answered",
        "the driver removes it, if a quorum exists now and the others keep one. `remains_of_a_member` deletes its \
         claims and its pod"
    ),
    quorum!(
        REPAIR,
        upkeep::alarm_of_a_former_member,
        "a member that left has raised an alarm",
        "the driver disarms the alarm"
    ),
    quorum!(
        REPAIR,
        upkeep::no_space,
        "a member has raised the alarm `NOSPACE`, and all members are healthy (`noSpace: Reclaim`)",
        "the driver compacts, defragments one member at a time with the leader last, and disarms the alarm"
    ),
    quorum!(SIZE, with_quorum::falls_asleep, "the members are to sleep", "the driver records their number"),
    quorum!(
        SIZE,
        with_quorum::new_member,
        "a wanted ordinal has no member, and all members are healthy",
        "the driver adds it as a learner, the lowest ordinal first. If a pod or a claim of an earlier member occupies \
         its place, the driver waits, or stops with `OrphanedVolumes`"
    ),
    quorum!(
        SIZE,
        with_quorum::leaving_member,
        "the cluster has too many members, or an unhealthy one has an ordinal beyond the size",
        "the driver removes the unhealthy one, or the highest, if the others keep a quorum. A leader hands over first"
    ),
    quorum!(
        TEMPLATE,
        with_quorum::old_template,
        "pods have an old template",
        "the driver evicts them one by one, the leader's last. The version rises by one minor version at a time, and \
         never falls (`VersionSkipped`, `VersionTooOld`, `VersionDowngrade`). The driver announces a changed peer URL \
         before the restart. It deletes a pod that an old template broke, if the others keep a quorum"
    ),
    quorum!(REST, upkeep::other_alarms, "an alarm is left", "`NoSpace` or `Corrupt`"),
    quorum!(
        REST,
        upkeep::files_with_holes,
        "files have more holes than the chart allows, and all members are healthy",
        "the driver defragments one member at a time with the leader last"
    ),
    quorum!(REST, with_quorum::incomplete, "a member is not healthy, or its pod is not ready", "the driver waits"),
];

/// The rows, in the order in which they are tried.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().map(|rule| &rule.row)
}
