//! The words that describe the state of a custom resource: types of conditions, their reasons, and the events that are
//! sent with them. `docs/reference/conditions.md` and `docs/reference/events.md` are made from these tables, and
//! `tests/reference.rs` finds a reason in the code that none of them has.

/// A type of condition.
#[derive(Clone, Copy, Debug)]
pub struct ConditionType {
    pub name: &'static str,
    /// The other projects that use it with this meaning.
    pub of: &'static str,
    /// Its meaning when it is `True`, as Markdown.
    pub meaning: &'static str,
    /// Which of its statuses a person has to see.
    pub polarity: Polarity,
    /// Whether a custom resource has it without a release, too.
    pub outlives_release: bool,
}

/// Which status of a condition is remarkable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// `False`: the condition says that something is well.
    Good,
    /// `True`: the condition says that something is unusual.
    Bad,
    /// Neither: `Ready` and the lines about objects show the same.
    Neutral,
}

/// The remarkable status of a condition; `True` for one that is not listed.
pub fn polarity(name: &str) -> Polarity {
    CONDITIONS.iter().find(|condition| condition.name == name).map_or(Polarity::Bad, |condition| condition.polarity)
}

/// A reason of conditions; where it is one of a failure, also of a `Warning` event and a label of `tillerman_failures_total`.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    pub name: &'static str,
    /// Its meaning and the remedy, as Markdown.
    pub meaning: &'static str,
}

/// An event that does not report a failure.
#[derive(Clone, Copy, Debug)]
pub struct EventReason {
    /// Its reason.
    pub name: &'static str,
    /// `Normal`, `Warning` or both.
    pub kind: &'static str,
    /// When it is sent, as Markdown.
    pub meaning: &'static str,
}

const fn condition(name: &'static str, of: &'static str, meaning: &'static str) -> ConditionType {
    ConditionType { name, of, meaning, polarity: Polarity::Bad, outlives_release: false }
}

impl ConditionType {
    const fn with(self, polarity: Polarity) -> Self {
        Self { polarity, ..self }
    }
    const fn outlives_release(self) -> Self {
        Self { outlives_release: true, ..self }
    }
}

const fn reason(name: &'static str, meaning: &'static str) -> Reason {
    Reason { name, meaning }
}

const fn normal(name: &'static str, meaning: &'static str) -> EventReason {
    EventReason { name, kind: "Normal", meaning }
}

const fn warning(name: &'static str, meaning: &'static str) -> EventReason {
    EventReason { name, kind: "Warning", meaning }
}

/// The types of conditions.
pub const CONDITIONS: &[ConditionType] = &[
    condition(
        "Ready",
        "kstatus",
        "All objects of the release exist and work. `False` names the object, if possible the pod, and the cause.",
    ).with(Polarity::Neutral).outlives_release(),
    condition("Reconciling", "kstatus", "The release is being changed to the state in the custom resource.").with(Polarity::Neutral).outlives_release(),
    condition(
        "Stalled",
        "kstatus",
        "The operator does not retry until something changes, or until `tillerman.dev/reconcile-at` requests it.",
    ).outlives_release(),
    condition("Initialized", "helm-operator", "The operator has read the custom resource.").with(Polarity::Neutral).outlives_release(),
    condition(
        "Deployed",
        "helm-operator",
        "The API server has accepted the objects. The message has the chart's notes.",
    ).with(Polarity::Neutral).outlives_release(),
    condition("ReleaseFailed", "helm-operator", "The last installation, upgrade or removal failed."),
    condition(
        "Irreconcilable",
        "helm-operator",
        "The custom resource cannot be turned into a release, or a repair failed.",
    ),
    condition(
        "Drifted",
        "",
        "Objects differ from the release. `False` with `Repaired` lists the objects that were repaired last.",
    ),
    condition("Paused", "", "`tillerman.dev/paused` is `true`. The condition exists only then."),
    condition(
        "DryRun",
        "",
        "`tillerman.dev/dry-run` is `true`; the message lists the changes that the operator would make. The condition \
         exists only then.",
    ),
    condition(
        "AnnotationsIgnored",
        "",
        "An annotation has no effect, because the kind does not allow it. The condition exists only then.",
    ),
    condition(
        "DependenciesReady",
        "",
        "The custom resources that this one needs are ready. `False` names those that are not. The condition exists only if there \
         are any.",
    ).with(Polarity::Good),
    condition("OperationPending", "", "An operation waits before it begins. The condition exists only then."),
    condition("OperationFailed", "", "An operation failed. The condition exists until the operation succeeds."),
    condition(
        "RestoreProven",
        "",
        "The last drill restored the newest backup. The message has its result and time. The condition exists if the chart has such \
         an operation (`tillerman.dev/proves: restore`) and it has ended once.",
    ).with(Polarity::Good),
    condition(
        "NoticesFailing",
        "",
        "Messages about the custom resource wait, because the targets of notices do not accept them. The condition exists only then.",
    ),
    condition("Available", "etcd-operator", "A quorum of the members is ready.").with(Polarity::Good),
    condition("Scaling", "etcd-operator", "Members join or leave. The condition exists only then."),
    condition("Upgrading", "etcd-operator", "The version of the members changes. The condition exists only then."),
    condition(
        "Recovering",
        "etcd-operator",
        "One member continues alone after a lost quorum. The condition exists only then.",
    ),
];

/// The reasons of conditions.
pub const REASONS: &[Reason] = &[
    reason("AnnotationNotAllowed", "`allow` in `watches.yaml` does not have the named annotation."),
    reason("ApiServerError", "The API server failed to answer. The operator retries."),
    reason("ApiServerUnreachable", "The API server cannot be reached. The operator retries."),
    reason("ApiServiceUnavailable", "An aggregated API does not answer. The operator retries."),
    reason(
        "Asleep",
        "The release [sleeps](../how-to/sleep.md), as `tillerman.dev/sleep` or the chart asks. An operation that is due waits until it \
         is awake.",
    ),
    reason(
        "ChartUnusable",
        "The chart cannot be loaded; the message gives the cause. Correct the chart or `watches.yaml`.",
    ),
    reason(
        "ChartVersionUnknown",
        "The annotation `tillerman.dev/chart-version` requests a version of the chart that is not kept. The message lists the kept \
         versions.",
    ),
    reason("Conflict", "Another client changed an object at the same time. The operator retries."),
    reason(
        "Contested",
        "Another client writes the same fields again and again. Use `ignore-drift` for them, or stop the other writer.",
    ),
    reason(
        "Corrupt",
        "The data of a member of etcd differs from that of the others. See [etcd](../how-to/etcd.md#reasons-of-ready).",
    ),
    reason(
        "DataLost",
        "The data of members of etcd is older than it was (see [etcd](../how-to/etcd.md#reasons-of-ready)), or no member of a database with a \
         primary has data that its agent knows.",
    ),
    reason("DependenciesReady", "All custom resources that this one needs are ready."),
    reason(
        "DependencyCycle",
        "Custom resources depend on each other, so each waits for the next; the message names them. Remove one dependency.",
    ),
    reason(
        "DependencyNotReady",
        "A custom resource that this one needs does not exist, is not ready, or lacks a field. The operator watches it. Installed \
         objects stay.",
    ),
    reason(
        "DataUnknown",
        "A member of a database with a primary has no data of the cluster, and a problem. See [primary](../how-to/primary.md#reasons-of-ready).",
    ),
    reason(
        "Diverged",
        "Members of a database with a primary have writes that others lack. See [primary](../how-to/primary.md#reasons-of-ready).",
    ),
    reason("DryRun", "Nothing is changed while `tillerman.dev/dry-run` is `true`."),
    reason(
        "Failed",
        "An object has failed, or etcd refused a call; the message has the text of the object or of etcd.",
    ),
    reason(
        "FailoverUnsafe",
        "The primary is lost, and a fail-over could lose acknowledged writes; the message names the missing members, and the \
         annotation that accepts the loss. See [primary](../how-to/primary.md#reasons-of-ready).",
    ),
    reason("Forbidden", "The operator's role lacks a right; the message names it, and the rule to add."),
    reason(
        "ForeignMember",
        "Somebody added a member of etcd that has no pod. See [etcd](../how-to/etcd.md#reasons-of-ready).",
    ),
    reason(
        "HookFailed",
        "A hook of the chart failed; the message has the last lines of its log, if the role allows `get` of `pods/log`.",
    ),
    reason(
        "HookRefused",
        "A hook of members or an object of an operation ended with code 64; the message has the last line that it wrote.",
    ),
    reason(
        "HooksUnknown",
        "A deletion waits, because the delete hooks of the release are not known; the message gives the cause and the \
         way to continue. See [what is kept](../explanation/what-is-kept.md).",
    ),
    reason("HooksOff", "An operation waits because hooks are off."),
    reason(
        "ImmutableField",
        "An upgrade changes a field that cannot change, or a claim that cannot grow. Revert the change, or set `upgrade-force`, which recreates the object.",
    ),
    reason("InProgress", "A plan of members or an operation is being carried out."),
    reason("InstallError", "helm-operator's: the installation failed."),
    reason("InstallSuccessful", "helm-operator's: the release is installed."),
    reason(
        "InputSetAside",
        "The operator's process ended twice while it worked on this version of the custom resource. Change its spec, or set a new \
         text in `tillerman.dev/reconcile-at`.",
    ),
    reason("Invalid", "The API server refused an object; the message has its words."),
    reason("InvalidAnnotation", "An annotation cannot be read; the message says which values are allowed."),
    reason("InvalidManifest", "A template renders something that is not an object."),
    reason("InvalidMembers", "The `Members` document of the chart is invalid, or a Secret that it names lacks a key."),
    reason("InvalidSize", "The size is not possible for members of etcd or of a database with a primary."),
    reason("InvalidSpec", "The spec cannot be used as values of a chart."),
    reason("InvalidValuesFrom", "A Secret or ConfigMap with values cannot be read as values."),
    reason("Missing", "An object of the release does not exist."),
    reason("NameTooLong", "The name of the custom resource is too long for a release (53 characters)."),
    reason(
        "NamespaceNotAllowed",
        "The chart renders an object, or looks one up, where `namespaces` or `clusterScoped` does not allow it; or `target-namespace` names \
         such a namespace.",
    ),
    reason(
        "NamespaceNotWatched",
        "The release is, or would be, in a namespace that the operator does not watch (`WATCH_NAMESPACE`).",
    ),
    reason("NamespaceTerminating", "The namespace is being deleted."),
    reason("NoSpace", "A file of etcd has reached its quota. See [etcd](../how-to/etcd.md#reasons-of-ready)."),
    reason("NotDeployed", "Nothing is deployed yet."),
    reason("NotFound", "The API server does not have the requested object. The operator retries."),
    reason("NotReady", "A release with a `timeout` was not ready in time."),
    reason(
        "NotServed",
        "No operator serves the custom resource: its ChartDefinition was deleted with `onDelete: Orphan`. See [its \
         fields](../how-to/chart-definition.md#fields).",
    ),
    reason("ObjectExists", "An object exists and has another owner. Delete it, or allow `take-ownership`."),
    reason("OrphanedVolumes", "Claims exist that no member is known to have had. See [claims](members.md#claims)."),
    reason(
        "Panic",
        "A pass ended with a fault of the operator. Only this custom resource is affected. Please report it.",
    ),
    reason("Paused", "The operator does nothing while `tillerman.dev/paused` is `true`."),
    reason("PlanInProgress", "An operation waits for members that join, leave or are restarted."),
    reason("ProgressDeadlineExceeded", "Members have made no progress for longer than `progressDeadline`."),
    reason("Progressing", "The operator is waiting; the message says for what."),
    reason(
        "QuorumLost",
        "No member of etcd answers a linearizable read. See [etcd](../how-to/etcd.md#reasons-of-ready).",
    ),
    reason("Ready", "All objects of the release work."),
    reason("ReconcileError", "helm-operator's: the custom resource cannot be reconciled; the message gives the cause."),
    reason(
        "RecordNotVerified",
        "A release record cannot be compared with the rendered chart, so nothing is deleted because of it.",
    ),
    reason("RecoveringQuorum", "One member of etcd continues as a cluster of one. Wait."),
    reason("Refused", "etcd refused a call, or an agent refused an order; the message has its answer."),
    reason(
        "ReleaseConflict",
        "A release of that name exists and does not belong to the custom resource. Allow `take-ownership`, or use another name.",
    ),
    reason("ReleaseCorrupted", "The release record cannot be read."),
    reason(
        "ReleaseMoved",
        "`tillerman.dev/target-namespace` or `targetNamespace` changed after the installation. Change it back. See [scope](../how-to/scope.md).",
    ),
    reason("ReleaseRenamed", "`tillerman.dev/release-name` changed after the installation. Change it back."),
    reason("ReleaseTooLarge", "The release record is too large for Secrets."),
    reason("Remaking", "An object that cannot be changed is being recreated."),
    reason("RenderError", "The chart does not render with these values; the message has the place, and Helm's error."),
    reason("RenderingWaits", "All threads that render are busy. The operator retries."),
    reason("Repaired", "The last drift is repaired."),
    reason(
        "ReplicaBroken",
        "The replica that received most cannot apply it, so no member becomes the primary. See \
         [primary](../how-to/primary.md#reasons-of-ready).",
    ),
    reason(
        "SendFailed",
        "The target of a [notice](../how-to/notices.md) does not accept its messages. They wait, and are sent again; the status of \
         the notice has the target's answer.",
    ),
    reason("Settled", "There is nothing to do."),
    reason(
        "SplitBrain",
        "A pod belongs to another cluster of etcd (see [etcd](../how-to/etcd.md#reasons-of-ready)), or a member of a database with a primary has \
         other data or other orders (see [primary](../how-to/primary.md#reasons-of-ready)).",
    ),
    reason(
        "TargetNamespaceMissing",
        "A cluster-scoped custom resource has no namespace for its release. See [scope](../how-to/scope.md).",
    ),
    reason("TooManyRequests", "The API server limits the rate of requests. The operator retries."),
    reason("Unauthorized", "The API server does not recognize the operator's credentials. The operator retries."),
    reason("UninstallError", "helm-operator's: the removal failed."),
    reason(
        "UninstallSuccessful",
        "helm-operator's: the release is removed, and finalizers of others block the custom resource.",
    ),
    reason("Uninstalled", "The same, as a reason of `Ready`."),
    reason("Uninstalling", "The objects of the release are being deleted."),
    reason("UnknownKind", "The API server does not serve a kind that the chart renders. Install its definition."),
    reason("Restored", "The last drill restored the newest backup, and its checks passed."),
    reason("RestoreFailed", "The last drill could not restore the newest backup, or a check failed."),
    reason("UnknownOperation", "The chart has no operation of that name; the message lists its operations."),
    reason("UpgradeError", "helm-operator's: the upgrade failed, or the rollback after it."),
    reason("UpgradeSuccessful", "helm-operator's: the release is upgraded."),
    reason(
        "ValuesFromMissing",
        "A Secret or ConfigMap with values does not exist, or lacks the key. The operator watches it.",
    ),
    reason("VersionDowngrade", "etcd cannot be downgraded."),
    reason("VersionSkipped", "etcd is upgraded one minor version at a time; the message names the next."),
    reason("VersionTooOld", "etcd can be upgraded to 3.6 only from 3.5.32 or later."),
    reason("WatchFailed", "The operator cannot watch objects of the release; the message gives the cause."),
    reason(
        "WritesBlocked",
        "A primary waits for an acknowledgement that no replica gives. See [primary](../how-to/primary.md#reasons-of-ready).",
    ),
];

/// The events that do not report failures. A failure is an event with its reason, once until it changes.
pub const EVENTS: &[EventReason] = &[
    normal("Installed", "A release is installed."),
    normal("Upgraded", "A release is upgraded."),
    warning("RolledBack", "An upgrade failed permanently, and the release is back at the last good revision."),
    EventReason {
        name: "Uninstalled",
        kind: "both",
        meaning: "A release is removed. `Warning`: its installation failed, and `on-failure` is `uninstall`.",
    },
    normal("DriftRepaired", "The operator restored objects that somebody changed or deleted."),
    warning("Contested", "Another client writes the same fields of an object again and again."),
    normal("ReleaseAdopted", "An existing release is continued."),
    normal("ObjectAdopted", "An existing object without an owner is taken over."),
    warning("ObjectRemade", "An object is recreated, because a field of it cannot be changed."),
    normal("DefinitionReplaced", "A definition in `crds/` of the chart replaced the one in the cluster."),
    warning("FieldRemoved", "A field that another client had set conflicts with the chart, and is removed."),
    warning("FieldStays", "A field that left the chart stays in an object, because another client owns it."),
    warning(
        "ManifestMended",
        "The API server does not accept a part of an object from the chart; the rest was applied.",
    ),
    warning(
        "ReleaseChangedOutside",
        "Another client changed or uninstalled the release; the operator restores the state in the custom resource.",
    ),
    warning(
        "ReleaseCorrupted",
        "The release record could not be read; the release was taken over from its live objects.",
    ),
    warning("ReleaseChunked", "A release record is too large for one Secret. Helm and helm-operator cannot read it."),
    warning(
        "RecordNotVerified",
        "The release record is over a limit, so nothing is taken from it; the release was taken over from its live objects.",
    ),
    warning(
        "InputSetAside",
        "The operator's process ended twice while it worked on the custom resource, which it does not touch until it changes.",
    ),
    warning("RecordRejected", "A release record differs from the rendered chart. Another client may have written it."),
    warning("HooksSkipped", "A release was removed without its delete hooks, because its namespace is being deleted."),
    warning("UnknownHook", "The chart has a hook with an unknown name."),
    warning(
        "UnknownValue",
        "The custom resource has a value that is unknown to every part of the chart; it may be misspelt.",
    ),
    warning(
        "OverrideValuesInUse",
        "`overrideValues` of `watches.yaml` sets a value; sent with each revision, as in helm-operator.",
    ),
    warning("StatusNotKept", "The definition of the kind does not keep the status; the message says what to change."),
    warning("AnnotationNotAllowed", "An annotation has no effect, because the kind does not allow it."),
    normal("OperationStarted", "An operation begins."),
    normal("OperationSucceeded", "An operation is done."),
    warning("OperationFailed", "An operation failed or was refused."),
    warning("UnknownOperation", "The chart has no operation with the requested name."),
    normal("MembersChanged", "The driver of members called the application, for example to add or remove a member."),
    EventReason {
        name: "MembersScaled",
        kind: "both",
        meaning: "The replicas of a StatefulSet with members changed. `Warning`: to one member, which continues alone.",
    },
    warning(
        "MembersForgotten",
        "The status has no record of existing members; the operator continues with their current state.",
    ),
    warning("MemberVotesAtOnce", "A member of etcd before 3.4 joined, with a vote from the start."),
    normal("VolumeEnlarged", "The claim of a member requests a larger volume, because the volume is nearly full."),
    warning(
        "VolumeNotEnlarged",
        "A volume is nearly full, and the API server refuses a larger one. The operator tries again after an hour.",
    ),
    warning("ClaimDeleted", "The claim of a member that left or is replaced is deleted."),
    warning(
        "DatabaseRestarted",
        "The database of a member hung, so its agent restarts it. See [primary](../how-to/primary.md#a-database-that-hangs).",
    ),
    warning("PrimaryLost", "The primary of a database is lost, and a fail-over begins."),
    EventReason {
        name: "PrimaryChanged",
        kind: "both",
        meaning: "The primary has changed. `Warning`: after a fail-over.",
    },
    warning(
        "SwitchOverGivenUp",
        "A primary did not hand over in time, and continues. The switch-over is retried after five minutes.",
    ),
    warning("SwitchOverRefused", "A requested switch-over is not possible now; the message gives the cause."),
    warning("RecoveringQuorum", "A recovery of etcd after a lost quorum begins or ends. Data may be lost."),
];
