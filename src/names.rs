//! All names of `tillerman.dev`: annotations, labels, types. The full meaning of each is documented where it is read.

// Annotations of a custom resource. Users write them; `kind/switches.rs` has the table of those that are switches.

/// Nothing is done while it is `true`.
pub const PAUSED: &str = "tillerman.dev/paused";
/// Why it is paused, for people. `tillerman pause --reason` writes it.
pub const PAUSE_REASON: &str = "tillerman.dev/pause-reason";
/// A new text asks for a pass.
pub const RECONCILE_AT: &str = "tillerman.dev/reconcile-at";
/// The requested operation.
pub const OPERATION: &str = "tillerman.dev/operation";
/// The name of the release.
pub const RELEASE_NAME: &str = "tillerman.dev/release-name";
/// The namespace of the release.
pub const TARGET_NAMESPACE: &str = "tillerman.dev/target-namespace";
/// The service account with whose rights the release is handled.
pub const SERVICE_ACCOUNT: &str = "tillerman.dev/service-account";
/// How many revisions are kept.
pub const MAX_HISTORY: &str = "tillerman.dev/max-history";
/// The treatment of the definitions in `crds/`.
pub const CRDS: &str = "tillerman.dev/crds";
/// Existing objects are taken over.
pub const TAKE_OWNERSHIP: &str = "tillerman.dev/take-ownership";
/// Fields that the operator leaves to other clients.
pub const IGNORE_DRIFT: &str = "tillerman.dev/ignore-drift";
/// Custom resources that must be ready first.
pub const DEPENDS_ON: &str = "tillerman.dev/depends-on";
/// Further sources of values.
pub const VALUES_FROM: &str = "tillerman.dev/values-from";
/// Patches of the rendered objects.
pub const PATCHES: &str = "tillerman.dev/patches";
/// The version of the chart that the custom resource keeps.
pub const CHART_VERSION: &str = "tillerman.dev/chart-version";
/// The member of etcd that continues alone.
pub const FORCE_NEW_CLUSTER: &str = "tillerman.dev/force-new-cluster";

/// The replica that takes over from the primary.
pub const SWITCH_OVER: &str = "tillerman.dev/switch-over";
/// When the release sleeps.
pub const SLEEP: &str = "tillerman.dev/sleep";

// Annotations of a custom resource that the operator or its Jobs write.

/// The kinds that the first installation creates; on the Secret of a revision, those that the revision uses.
pub const KINDS: &str = "tillerman.dev/kinds";
/// The data of the cluster is being replaced, for this custom resource.
pub const REPLACING_FOR: &str = "tillerman.dev/replacing-for";
/// The custom resource for which the data of the cluster was replaced.
pub const REPLACED_FOR: &str = "tillerman.dev/replaced-for";
/// The `EtcdRestore` is done.
pub const RESTORED: &str = "tillerman.dev/restored";

// Annotations in Chart.yaml.

/// The API group of the custom resources.
pub const GROUP: &str = "tillerman.dev/group";
/// Short names of the kind.
pub const SHORT_NAMES: &str = "tillerman.dev/short-names";
/// Columns that `kubectl get` prints.
pub const COLUMNS: &str = "tillerman.dev/columns";
/// Pods of the chart have results.
pub const RESULTS: &str = "tillerman.dev/results";
/// The annotation by which a custom resource names its owner.
pub const SCOPE: &str = "tillerman.dev/scope";

// Annotations and labels of objects in a chart.

/// `apiVersion` of a `Members` document.
pub const MEMBERS_API_VERSION: &str = "tillerman.dev/v1alpha1";
/// `apiVersion` of a `Status` document.
pub const STATUS_API_VERSION: &str = "tillerman.dev/v1alpha1";
/// `apiVersion` of definitions of charts.
pub const DEFINITION_API_VERSION: &str = "tillerman.dev/v1alpha1";
/// `apiVersion` of notices.
pub const NOTICE_API_VERSION: &str = "tillerman.dev/v1alpha1";
/// On a Secret: the hosts to which a notice can send its content.
pub const NOTICE_HOSTS: &str = "tillerman.dev/notice-hosts";
/// On a CustomResourceDefinition: the name of the definition of a chart that made it. As a finalizer: the operator has to look at the end.
pub const DEFINITION: &str = "tillerman.dev/definition";
/// On a `ClusterRole`: its rules belong to the operator of definitions of charts.
pub const AGGREGATE: &str = "tillerman.dev/aggregate-to-operator";
/// The `Members` document that a scale hook is for.
pub const SCALE_HOOK_OF: &str = "tillerman.dev/members";
/// The container whose exit code counts.
pub const EXIT_CODE_CONTAINER: &str = "tillerman.dev/exit-code-container";
/// When an operation is due.
pub const SCHEDULE: &str = "tillerman.dev/schedule";
/// The time zone of the schedule.
pub const TIME_ZONE: &str = "tillerman.dev/time-zone";
/// How long an object of an operation may run.
pub const OPERATION_TIMEOUT: &str = "tillerman.dev/timeout";
/// The proof that an operation gives: `restore`.
pub const PROVES: &str = "tillerman.dev/proves";
/// When the chart is rendered again.
pub const RENEW_AFTER: &str = "tillerman.dev/renew-after";
/// A pod whose result is shown: the release.
pub const RESULT_OF: &str = "tillerman.dev/result-of";

// Labels and annotations of live objects that the operator writes.

/// A run of a hook.
pub const HOOK_RUN: &str = "tillerman.dev/hook";
/// A StatefulSet whose replicas the operator steps: its driver.
pub const STEPPED_BY: &str = "tillerman.dev/members";
/// A Job of a scale hook: the release.
pub const SCALE_HOOK: &str = "tillerman.dev/scale-hook";
/// Which run of the scale hook it is.
pub const SCALE_HOOK_RUN: &str = "tillerman.dev/scale-hook-run";
/// A workload without pods: its release sleeps.
pub const ASLEEP: &str = "tillerman.dev/asleep";
/// The `ConfigMap` from which members of etcd start: the release.
pub const INITIAL_CLUSTER: &str = "tillerman.dev/initial-cluster";
/// The `ConfigMap` from which members of a database with one primary and replicas take their roles: the release.
pub const MEMBER_ROLES: &str = "tillerman.dev/member-roles";
/// Label of a pod: its role in a database with one primary and replicas, `primary` or `replica`.
pub const MEMBER_ROLE: &str = "tillerman.dev/role";
/// On a claim: when the operator requested a larger volume by itself last.
pub const GROWN: &str = "tillerman.dev/grown";
/// A namespace in which `tillerman chaos` may do harm.
pub const CHAOS_ALLOWED: &str = "tillerman.dev/chaos";
/// A network policy of `tillerman chaos`.
pub const CHAOS_PARTITION: &str = "tillerman.dev/chaos-partition";

// Labels and annotations of the Secrets of releases.

/// uid of the custom resource.
pub const OWNER_UID: &str = "tillerman.dev/owner";
/// Kind and name of the custom resource.
pub const OWNER: &str = "tillerman.dev/owner";
/// Digest of the inputs.
pub const INPUTS: &str = "tillerman.dev/inputs";
/// Digest of the chart; on the Secret of a kept chart, the label with its own digest.
pub const CHART: &str = "tillerman.dev/chart";
/// The applied objects.
pub const INVENTORY: &str = "tillerman.dev/inventory";
/// The stateful sets with members.
pub const RECORDED_MEMBERS: &str = "tillerman.dev/members";
/// The operations.
pub const RECORDED_OPERATIONS: &str = "tillerman.dev/operations";
/// The fields of the status that the chart names.
pub const RECORDED_STATUS: &str = "tillerman.dev/status";
/// The lookups of the chart.
pub const LOOKUPS: &str = "tillerman.dev/lookups";
/// When the chart is rendered again.
pub const RENDER_AFTER: &str = "tillerman.dev/render-after";
/// The revision that this one goes back to.
pub const ROLLBACK_TO: &str = "tillerman.dev/rollback-to";
/// Type of the Secrets with chunks of a record.
pub const CHUNK_TYPE: &str = "tillerman.dev/release-chunk.v1";
/// A chunk: the release.
pub const CHUNK_RELEASE: &str = "tillerman.dev/release";
/// Digest of the parts of a record, and how many there are.
pub const CHUNKS: &str = "tillerman.dev/chunks";

// Labels and annotations of the Secrets in which charts are kept.

/// Type of the Secrets.
pub const KEPT_CHART_TYPE: &str = "tillerman.dev/chart.v1";
/// Digest of the kind.
pub const KEPT_CHART_OF: &str = "tillerman.dev/chart-of";
/// The kind: `Kind.group`.
pub const KEPT_CHART_KIND: &str = "tillerman.dev/kind";
/// The part of the archive, and how many there are.
pub const KEPT_CHART_PART: &str = "tillerman.dev/part";
/// The progress of the roll-out of the chart, as JSON.
pub const ROLLOUT: &str = "tillerman.dev/rollout";
/// The chart failed, and no custom resource gets it.
pub const WITHDRAWN: &str = "tillerman.dev/withdrawn";
