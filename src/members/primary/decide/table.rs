//! The table of decisions, in the order in which its rows are tried. docs/design/primary.md is made from it.
//!
//! P, E, N and W are those of the page; R is the number of members of N that are heard.

use super::{Scene, Step};
use crate::members::rows::{Phase, Row};

/// A row, and its function.
pub(super) struct Rule {
    pub row: Row,
    pub decide: for<'a> fn(&Scene<'a>) -> Step,
}

macro_rules! row {
    ($phase:ident, $name:ident, $when:literal, $then:literal) => {
        Rule {
            row: Row { phase: &$phase, name: stringify!($name), when: $when, then: $then },
            decide: |scene| scene.$name(),
        }
    };
}

static MODE: Phase = Phase { name: "Mode", about: "The driver checks whether it may act." };
static CREATION: Phase =
    Phase { name: "Creation", about: "These rows apply until the identity of the data is latched." };
static INTERFERENCE: Phase =
    Phase { name: "Interference", about: "Another client changed the cluster, or gave orders to its members." };
static SLEEP: Phase = Phase { name: "Sleep", about: "The members have no pods for a while." };
static FALLING_ASLEEP: Phase = Phase {
    name: "Falling asleep",
    about: "The chart or the annotation `tillerman.dev/sleep` puts the members to sleep, and P is not lost.",
};
static CHANGE: Phase = Phase {
    name: "Change of the primary",
    about: "These rows complete a fail-over or a switch-over that is latched. Only `roles` also applies without one.",
};
static LOSS: Phase = Phase {
    name: "Loss of the primary",
    about: "No change is latched. If a person accepts a loss with the annotation, R + W > |N| counts as true.",
};
static ORDERS: Phase =
    Phase { name: "Orders and labels", about: "The members get the orders and the labels that follow from the latch." };
static DATA: Phase =
    Phase { name: "Data of replicas", about: "P answers. A member that cannot follow P gets a copy of its data." };
static REQUEST: Phase = Phase { name: "Request", about: "A person asks for another primary." };
static ACKNOWLEDGEMENTS: Phase =
    Phase { name: "Acknowledgements", about: "P answers. Members join and leave N, and W follows them." };
static MEMBERS: Phase = Phase {
    name: "Pods and volumes",
    about: "P takes writes, and waits for W acknowledgements. The rows from `operation` on wait until an operation \
     ends.",
};
static SIZE: Phase = Phase { name: "Size", about: "One member joins or leaves at a time." };
static TEMPLATE: Phase = Phase { name: "Roll-out", about: "All members are well, and the size is right." };

pub(super) static TABLE: &[Rule] = &[
    row!(
        MODE,
        paused_or_deleted,
        "the custom resource is being deleted, or the release is paused. Or no data exists yet, and an operation \
         runs, or the release waits or fails",
        "nothing"
    ),
    row!(
        CREATION,
        first_member,
        "the StatefulSet has no replicas",
        "the driver waits until pods and claims of an earlier cluster are deleted. Then it allows member 0 to create \
         the data. If volumes exist: with `onOrphan: Adopt` all their members start, and none may create data; \
         without it `OrphanedVolumes`"
    ),
    row!(
        CREATION,
        first_answer,
        "a member runs",
        "the driver latches the identity of the data from the first answer. If the status was lost, the ConfigMap \
         names P. With adopted volumes, all members answer first, and a fail-over without an earlier P begins"
    ),
    row!(
        SLEEP,
        asleep,
        "the latch says that the members sleep",
        "while they are to sleep and have no replicas, nothing. When they are to wake, the driver sets the replicas to the number from \
         before, and then forgets that they slept"
    ),
    row!(
        INTERFERENCE,
        split_brain,
        "a member has other data, or obeys an epoch above E",
        "`SplitBrain`: the driver changes nothing"
    ),
    row!(
        INTERFERENCE,
        higher_number,
        "a member has obeyed an order of epoch E with a higher number than the latched one",
        "the driver latches a number above it"
    ),
    row!(
        INTERFERENCE,
        scaled_by_hand,
        "somebody lowered the replicas of the StatefulSet, and no operation runs",
        "the driver sets them to their last number"
    ),
    row!(INTERFERENCE, second_writer, "a member takes writes and is not P", "the driver fences it"),
    row!(
        CHANGE,
        lost_in_a_switch_over,
        "a switch-over is latched, and P has ended, has restarted or does not answer",
        "as in `restarted` and `silent`; a fail-over replaces the switch-over"
    ),
    row!(
        CHANGE,
        roles,
        "the ConfigMap differs from the latch in P, E, W or the identity of the data",
        "the driver writes the ConfigMap, before any order that depends on it. During a fail-over it names no primary"
    ),
    row!(
        CHANGE,
        fence_ackers,
        "a fail-over is latched, and a member of N that answers is not fenced",
        "the driver fences it. If a person accepted a loss, it also fences the member that continues"
    ),
    row!(
        CHANGE,
        too_few_fenced,
        "a fail-over is latched, and R + W ≤ |N|, where R counts the fenced members",
        "if the earlier P answers and its database waits for an order, it continues as P. If its database hangs, the \
         driver waits until its agent [starts it again](../how-to/primary.md#a-database-that-hangs). If not: \
         `FailoverUnsafe`, with the missing members and the annotation that accepts a loss"
    ),
    row!(
        CHANGE,
        no_candidate,
        "a fail-over is latched, and none of the fenced members has a `got` that contains those of all others",
        "the driver waits while one of them applies the writes that it received; then `Diverged`"
    ),
    row!(
        CHANGE,
        candidate_applies,
        "the member with that `got` has not applied everything. Of several, the driver prefers ready pods, then the \
         lowest ordinal",
        "the driver waits; if the member cannot apply it: `ReplicaBroken`"
    ),
    row!(
        CHANGE,
        candidate_takes_over,
        "it has applied everything",
        "the driver latches it as P, the other fenced members as N, and lowers W to at most the number of them that \
         have all its writes"
    ),
    row!(
        CHANGE,
        switch_over_fails,
        "a switch-over takes longer than 30 seconds, or its target does not follow, does not apply or lags",
        "the driver gives the switch-over up, and P continues. For five minutes the driver begins a new switch-over \
         only on request"
    ),
    row!(
        CHANGE,
        primary_hands_over,
        "a switch-over is latched, and P is a primary",
        "P gets the order `demote`: it takes no more writes, or takes them again after ten seconds"
    ),
    row!(CHANGE, target_applies, "the target lacks writes of P", "the driver waits"),
    row!(
        CHANGE,
        target_takes_over,
        "the target has applied everything",
        "the driver latches it as P, with epoch E + 1. The earlier P takes its place in N, and W becomes at most 1"
    ),
    row!(
        LOSS,
        restarted,
        "the database of P has ended or restarted, or P has lost its data",
        "if R + W > |N|, the driver latches a fail-over with epoch E + 1. If not, P continues with W = 0: it has all \
         acknowledged writes. Without its data: `FailoverUnsafe`"
    ),
    row!(
        LOSS,
        does_not_start,
        "the database of P was ordered to start, and does not",
        "the driver waits for 30 seconds (`silentAfter`). Then, if R + W > |N|, it latches a fail-over. If not: \
         `FailoverUnsafe`"
    ),
    row!(
        LOSS,
        silent,
        "P does not answer, or its database hangs",
        "the driver waits as long as a replica receives from P, and then for six seconds (`lostAfter`). Then, if R + \
         W > |N|, it latches a fail-over. If not, it waits until the agent of P [starts the database \
         again](../how-to/primary.md#a-database-that-hangs), or reports `FailoverUnsafe`. The latch has the time \
         since when P is silent, until P answers"
    ),
    row!(
        FALLING_ASLEEP,
        falls_asleep,
        "the members are to sleep, and no operation runs",
        "the driver latches their number, and a higher number of orders"
    ),
    row!(FALLING_ASLEEP, ends_writes, "the members fall asleep, and P is a primary", "P gets the order `demote`"),
    row!(FALLING_ASLEEP, stops, "the members fall asleep", "the driver sets the replicas to 0; all volumes stay"),
    row!(
        ORDERS,
        promote,
        "P is not a primary of epoch E, or waits for other acknowledgements, or admits other members than the latch \
         requires",
        "P gets the order `promote`. If the chart asks for more acknowledgements, the driver first latches a higher \
         number"
    ),
    row!(
        ORDERS,
        label_primary,
        "P has its role, and its pod lacks the label of the primary, or another pod has it",
        "the driver sets the label"
    ),
    row!(
        ORDERS,
        follow,
        "a member with the data does not follow P, or its acknowledgements do not match N",
        "it gets the order `follow`. Members of N come first"
    ),
    row!(
        ORDERS,
        starts,
        "P takes writes, or a member of N receives, and its `start` is not latched",
        "the driver latches the `start`. If a member of N has restarted and does not continue its earlier start, it \
         first latches the position of P; the member counts again when it has received everything up to it"
    ),
    row!(ORDERS, label, "another pod has a wrong role", "the driver sets the label"),
    row!(
        DATA,
        diverged,
        "a member has writes that P lacks",
        "it leaves N. Then the replica with the least lag, or P, sends it a copy (`seed`). With `onDiverged: Keep` it \
         stays unchanged"
    ),
    row!(
        DATA,
        seed,
        "a member has no data, or lacks writes that P can no longer send",
        "it leaves N. Then it gets a copy. A member without data that reports a problem gets none (`unwell_member`)"
    ),
    row!(
        REQUEST,
        requested_switch_over,
        "a person [asks for a switch-over](../how-to/primary.md#a-planned-switch-over), and no operation runs",
        "the target joins N if it is not in N; if N is full, the member with the most lag leaves. When it \
         acknowledges, the driver latches the switch-over. If the target cannot take over, the driver refuses the \
         request with the reason"
    ),
    row!(
        ACKNOWLEDGEMENTS,
        leaving,
        "a member leaves N",
        "the driver waits until P no longer admits it, and until the others have received the writes that it may have \
         acknowledged. Then it latches N without it"
    ),
    row!(
        ACKNOWLEDGEMENTS,
        silent_acker,
        "a member of N does not acknowledge for 30 seconds (`silentAfter`)",
        "it leaves N. If fewer than W members remain without it, it stays, and `WritesBlocked` follows when writes \
         wait; with `onReplicaLost: Degrade` it leaves, and W falls"
    ),
    row!(
        ACKNOWLEDGEMENTS,
        more_acknowledgements,
        "every write has more acknowledgements than W",
        "the driver latches their number as W"
    ),
    row!(
        ACKNOWLEDGEMENTS,
        new_acker,
        "a replica has caught up, and N has fewer members than twice the possible acknowledgements",
        "the driver adds it to N"
    ),
    row!(
        ACKNOWLEDGEMENTS,
        primary_opens,
        "P does not take writes, or W is not yet the number of acknowledgements for which P has to wait",
        "the driver waits"
    ),
    row!(
        MEMBERS,
        deleted_primary_pod,
        "the pod of P is being deleted, and a member of N can take over",
        "the driver latches a switch-over to the one with the least lag"
    ),
    row!(
        MEMBERS,
        operation,
        "an operation runs, or the release waits or fails",
        "nothing: members join, leave and are restarted afterwards"
    ),
    row!(
        MEMBERS,
        lost_volume,
        "the volume of a member other than P is lost, or its claim is gone",
        "it leaves N. After ten minutes (`deadAfter`) the driver deletes its claim, then its pod, and it starts with \
         an empty volume"
    ),
    row!(SIZE, size_of_zero, "the size is 0", "`InvalidSize`"),
    row!(
        SIZE,
        remove_member,
        "the size is smaller",
        "the member with the highest ordinal leaves. If it is P, it hands over first; if it is in N, it leaves N first"
    ),
    row!(
        SIZE,
        remains,
        "the size is not smaller, and members that left have claims or pods",
        "the driver deletes their claims, unless the chart keeps them, and waits until their pods are deleted"
    ),
    row!(
        SIZE,
        unwell_member,
        "the size is not smaller, and a member does not answer, is copying, does not follow, lags, or is not ready",
        "the driver waits. It replaces a pod that an old template broke. It reports `Diverged` for a member that \
         stays unchanged, `DataUnknown` for one without data and with a problem, and `Refused` for one that refuses \
         an order"
    ),
    row!(
        SIZE,
        add_member,
        "the size is larger",
        "the driver adds one member. If a claim for it exists: `OrphanedVolumes`, unless the chart adopts claims"
    ),
    row!(
        TEMPLATE,
        old_template,
        "a pod has an old template",
        "the driver evicts replicas from the highest ordinal, and P last, after it has handed over"
    ),
];

/// The rows, in the order in which they are tried.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().map(|rule| &rule.row)
}
