//! Switches: annotations of a custom resource that set how its release is handled. `watches.yaml` takes the same names in
//! camelCase, for all custom resources of a kind. An annotation overrides it.

use crate::names;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::service_account::ServiceAccount;
use super::sleep::Sleep;
use super::{duration, go_bool, placement};
use crate::bounds;
use crate::object::field_error::{FieldError, FieldProblem};

/// The prefix of a switch in an annotation.
pub const PREFIX: &str = "tillerman.dev/";
/// The prefix of helm-operator's annotations.
pub const HELM_OPERATOR: &str = "helm.sdk.operatorframework.io/";
/// The operation that a custom resource requests, `NAME` or `NAME@ANYTHING`: it runs once for each text.
pub const OPERATION: &str = names::OPERATION;
/// The name of the release, instead of the custom resource's; for good.
pub const RELEASE_NAME: &str = names::RELEASE_NAME;
/// The namespace of the release, instead of the custom resource's; for good.
pub const TARGET_NAMESPACE: &str = names::TARGET_NAMESPACE;
/// Definitions in `crds/` of the chart, see [`Crds`].
pub const CRDS: &str = names::CRDS;
/// Patches of the rendered objects.
pub const PATCHES: &str = names::PATCHES;
/// Existing objects of the release's names are taken over, even if no release made them, and a release that plain Helm made is
/// continued.
pub const TAKE_OWNERSHIP: &str = names::TAKE_OWNERSHIP;
const MAX_HISTORY_ANNOTATION: &str = names::MAX_HISTORY;
/// Revisions that an annotation can keep; it takes 0 for as many. Each is a Secret of up to 1 MiB.
const MAX_HISTORY: usize = 100;
/// Helm's `--timeout`.
pub const HELM_TIMEOUT: Duration = Duration::from_secs(300);

/// The action when the attempts of an installation or upgrade are spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// An upgrade goes back to the last deployed revision, as in helm-operator. A first installation stays as it is.
    #[default]
    Rollback,
    /// It stays as it is.
    Keep,
    /// As `rollback`, and a first installation is uninstalled.
    Uninstall,
}

/// The fate of the objects when the custom resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// The release is uninstalled.
    #[default]
    Delete,
    /// They stay, with the record of the release, and lose their owner.
    Orphan,
    /// The release is uninstalled only if it has a `before-delete` scale hook.
    Snapshot,
}

/// What happens to the definitions in `crds/` of a chart, whenever the release is rendered. None is ever deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crds {
    /// Nothing.
    Skip,
    /// Those that do not exist are created, as in Helm.
    #[default]
    Create,
    /// Existing definitions are replaced with the chart's, too, as with Flux's `CreateReplace`.
    Replace,
}

/// The switches of one custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches")]
pub struct Switches {
    /// `paused`: nothing is done, except for the deletion of the custom resource.
    pub paused: bool,
    /// `dry-run`: changes are reported, and not made.
    pub dry_run: bool,
    /// `sleep`: workloads have no pods.
    pub sleep: Sleep,
    /// `hooks`: `off` runs none.
    pub hooks: bool,
    /// `max-history`: revisions that are kept; 0 for all, as in Helm, where `watches.yaml` says so.
    pub max_history: usize,
    /// `timeout`: how long a hook may run. When it is given, a release that is not ready within it has failed.
    pub timeout: Option<Duration>,
    /// `on-failure`.
    pub on_failure: OnFailure,
    /// `deletion-policy`.
    pub deletion_policy: DeletionPolicy,
    /// `crds`.
    pub crds: Crds,
    /// `take-ownership`: existing objects and releases without an owner are taken over.
    pub take_ownership: bool,
    /// helm-operator's `uninstall-wait`: the custom resource stays until the objects of its release are gone.
    pub uninstall_wait: bool,
    /// helm-operator's `reconcile-period`.
    pub reconcile_period: Option<Duration>,
    /// `reconcile-at`: any text. A new text requests a pass that renders, even if the inputs are known to fail.
    pub reconcile_at: Option<Box<str>>,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            paused: false,
            dry_run: false,
            sleep: Sleep::default(),
            hooks: true,
            max_history: 10,
            timeout: None,
            on_failure: OnFailure::default(),
            deletion_policy: DeletionPolicy::default(),
            crds: Crds::default(),
            take_ownership: false,
            uninstall_wait: false,
            reconcile_period: None,
            reconcile_at: None,
        }
    }
}

/// Sets a switch to a text; the error names the allowed texts.
type Set = fn(&mut Switches, &str) -> Result<(), FieldError>;

/// The function that reads the text of a switch.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// It is one word or name, and this reads it, from an annotation and from `watches.yaml`.
    Word(Set),
    /// It is a list: [`super::annotations`] reads the annotation, [`super::watches`] the field.
    List,
}

/// A row of [`SWITCHES`].
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// The annotation, without [`PREFIX`].
    pub name: &'static str,
    /// Its name in `watches.yaml`, if it is a field there.
    pub field: Option<&'static str>,
    /// The texts that are allowed, and the default if there is one.
    pub values: &'static str,
    /// As an annotation it counts only where `allow` has this, the [`Reach`](super::allow::Reach) of that name.
    pub allow: Option<&'static str>,
    /// Its effect, in sentences of Markdown.
    pub effect: &'static str,
    pub reader: Reader,
}

/// All switches. `docs/reference/annotations.md` is made from these rows.
pub const SWITCHES: &[Switch] = &[
    Switch {
        name: "paused",
        field: Some("paused"),
        values: "`true`, `false`",
        allow: None,
        effect: "The operator changes nothing, and reports the changes that it would make. It still carries out a \
                 deletion of the custom resource. The annotation `tillerman.dev/pause-reason` can give the reason, for \
                 people.",
        reader: Reader::Word(|s, text| set(&mut s.paused, bool(text, "true", "false"))),
    },
    Switch {
        name: "dry-run",
        field: Some("dryRun"),
        values: "`true`, `false`",
        allow: None,
        effect: "The operator changes nothing; the condition `DryRun` shows the changes that it would make. It still \
                 carries out a deletion.",
        reader: Reader::Word(|s, text| set(&mut s.dry_run, bool(text, "true", "false"))),
    },
    Switch {
        name: "sleep",
        field: Some("sleep"),
        values: "`true`, `false`, or `SCHEDULE until SCHEDULE`, with `in ZONE` for another time zone than UTC",
        allow: None,
        effect: "The release [sleeps](../how-to/sleep.md): its Deployments and StatefulSets have no pods, and its CronJobs \
                 are suspended. Volumes, Services and all other objects stay. With schedules, such as \
                 `0 20 * * 1-5 until 0 7 * * 1-5 in Europe/Berlin`, it sleeps from the first to the second.",
        reader: Reader::Word(|s, text| set(&mut s.sleep, Sleep::read(text))),
    },
    Switch {
        name: "reconcile-at",
        field: None,
        values: "any new text",
        allow: None,
        effect: "The operator renders the chart and tries again, also after failures. `status.lastHandledReconcileAt` \
                 then has the text.",
        reader: Reader::Word(|s, text| set(&mut s.reconcile_at, Ok(Some(text.into())))),
    },
    Switch {
        name: "on-failure",
        field: Some("onFailure"),
        values: "`rollback` (default), `keep`, `uninstall`",
        allow: None,
        effect: "The action after an upgrade that failed permanently: `rollback` returns to the last good revision, \
                 `keep` leaves the failed one, `uninstall` is like `rollback` and also removes a first installation \
                 that failed.",
        reader: Reader::Word(|s, text| set(&mut s.on_failure, choice(text, &ON_FAILURE))),
    },
    Switch {
        name: "timeout",
        field: Some("timeout"),
        values: "a duration such as `90s` (default for hooks: `5m`)",
        allow: None,
        effect: "How long a hook is allowed to run. If it is set, a release that is not ready in time has failed.",
        reader: Reader::Word(|s, text| set(&mut s.timeout, timeout(text))),
    },
    Switch {
        name: "hooks",
        field: Some("hooks"),
        values: "`on` (default), `off`",
        allow: None,
        effect: "`off`: hooks and operations do not run.",
        reader: Reader::Word(|s, text| set(&mut s.hooks, bool(text, "on", "off"))),
    },
    Switch {
        name: "max-history",
        field: Some("maxHistory"),
        values: "a number (default: 10); 0 for all",
        allow: None,
        effect: "How many revisions are kept. An annotation can keep at most 100, also with 0.",
        reader: Reader::Word(|s, text| set(&mut s.max_history, max_history(text))),
    },
    Switch {
        name: "deletion-policy",
        field: Some("deletionPolicy"),
        values: "`delete` (default), `orphan`, `snapshot`",
        allow: None,
        effect: "`orphan`: the objects stay when the custom resource is deleted. `snapshot`: nothing is deleted if the \
                 chart has no `before-delete` hook of [members](members.md), such as a backup. If it has one, the hook \
                 always has to succeed first.",
        reader: Reader::Word(|s, text| set(&mut s.deletion_policy, choice(text, &DELETION_POLICY))),
    },
    Switch {
        name: "operation",
        field: None,
        values: "`NAME` or `NAME@TEXT`",
        allow: None,
        effect: "Starts an [operation](../how-to/operations.md) of the chart, such as `backup@1`. Each text starts it once.",
        reader: Reader::Word(|_, _| Ok(())),
    },
    Switch {
        name: "force-new-cluster",
        field: None,
        values: "`CLUSTER@REVISION` or `EPOCH@ORDINAL`, as `Ready` names it",
        allow: None,
        effect: "Lets one member of etcd continue alone after [a quorum is lost for good](../how-to/etcd.md#a-quorum-that-is-lost-for-good), \
                 or a replica become the primary [with a loss](../how-to/primary.md#reasons-of-ready).",
        reader: Reader::Word(|_, _| Ok(())),
    },
    Switch {
        name: "switch-over",
        field: None,
        values: "`ORDINAL` or `any`, or one of them with `@TEXT`",
        allow: None,
        effect: "The primary of a database [hands over](../how-to/primary.md#a-planned-switch-over) to the replica of this ordinal, or to the one \
                 that lags least. Each text does it once.",
        reader: Reader::Word(|_, _| Ok(())),
    },
    Switch {
        name: "crds",
        field: Some("crds"),
        values: "`create` (default), `skip`, `replace`",
        allow: Some("crds"),
        effect: "The definitions in `crds/`: `create` creates missing ones, `replace` also updates existing ones. None is ever deleted.",
        reader: Reader::Word(|s, text| set(&mut s.crds, choice(text, &CRDS_WORDS))),
    },
    Switch {
        name: "take-ownership",
        field: Some("takeOwnership"),
        values: "`true`, `false`",
        allow: Some("takeOwnership"),
        effect: "The operator takes over a release of plain Helm, or objects without an owner.",
        reader: Reader::Word(|s, text| set(&mut s.take_ownership, bool(text, "true", "false"))),
    },
    Switch {
        name: "release-name",
        field: None,
        values: "a name",
        allow: Some("releaseName"),
        effect: "The name of the release, instead of the name of the custom resource. It cannot change later. With \
                 `take-ownership` the operator continues a release of plain Helm.",
        reader: Reader::Word(|_, text| Ok(crate::render::check_name(text)?)),
    },
    Switch {
        name: "chart-version",
        field: None,
        values: "a version",
        allow: Some("chartVersion"),
        effect: "The version of the chart that the custom resource keeps, in a kind with a [roll-out](../how-to/rollouts.md).",
        reader: Reader::Word(|_, text| Ok(bounds::word(text)?)),
    },
    Switch {
        name: "target-namespace",
        field: Some("targetNamespace"),
        values: "a namespace",
        allow: Some("targetNamespace"),
        effect: "The namespace of the release and of its record, instead of that of the custom resource. It cannot change later. See \
                 [scope](../how-to/scope.md).",
        reader: Reader::Word(|_, text| placement::target(text).map(drop)),
    },
    Switch {
        name: "service-account",
        field: Some("serviceAccount"),
        values: "a name",
        allow: Some("serviceAccount"),
        effect: "The operator uses the rights of this ServiceAccount of the custom resource's namespace for all \
                 requests about objects of the release, lookups included. See [scope](../how-to/scope.md).",
        reader: Reader::Word(|_, text| ServiceAccount::read_name(text).map(drop)),
    },
    Switch {
        name: "ignore-drift",
        field: Some("ignoreDrift"),
        values: "a list",
        allow: Some("ignoreDrift"),
        effect: "Fields that the operator leaves to others: \
                 `[{\"target\":{\"kind\":\"Deployment\",\"name\":\"web\"},\"paths\":[\"/spec/replicas\"]}]`",
        reader: Reader::List,
    },
    Switch {
        name: "values-from",
        field: Some("valuesFrom"),
        values: "a list",
        allow: Some("valuesFrom"),
        effect: "Values from Secrets and ConfigMaps, below those of the custom resource: \
                 `[{\"kind\":\"Secret\",\"name\":\"db\",\"key\":\"values.yaml\"}]`",
        reader: Reader::List,
    },
    Switch {
        name: "depends-on",
        field: Some("dependsOn"),
        values: "a list",
        allow: Some("dependsOn"),
        effect: "Custom resources that must be ready first, and fields of their status that become \
                 [values](../how-to/depends-on.md): `[{\"group\":\"db.example.com\",\"kind\":\"Database\",\"name\":\"db\",\
                 \"values\":{\"database.host\":\"status.endpoint\"}}]`",
        reader: Reader::List,
    },
    Switch {
        name: "patches",
        field: Some("patches"),
        values: "a list",
        allow: Some("patches"),
        effect: "Patches of the rendered objects, as in a kustomization.",
        reader: Reader::List,
    },
];

/// An annotation of helm-operator. helm-operator treats a text that it cannot read as absent.
#[derive(Clone, Copy, Debug)]
pub struct Theirs {
    /// Without [`HELM_OPERATOR`].
    pub name: &'static str,
    /// The texts that are allowed.
    pub values: &'static str,
    pub effect: &'static str,
    /// Sets it here; nothing where `plan::immutable` reads it.
    set: Option<fn(&mut Switches, &str)>,
}

/// The annotations of helm-operator, with its meaning.
pub const THEIRS: [Theirs; 4] = [
    Theirs {
        name: "upgrade-force",
        values: "`true`, `false`",
        effect: "An upgrade that changes an immutable field recreates the object.",
        set: None,
    },
    Theirs { name: "rollback-force", values: "`true`, `false`", effect: "The same for a rollback.", set: None },
    Theirs {
        name: "uninstall-wait",
        values: "`true`, `false`",
        effect: "The custom resource stays until the objects of its release are gone.",
        set: Some(|s, text| s.uninstall_wait = go_bool(text).unwrap_or(false)),
    },
    Theirs {
        name: "reconcile-period",
        values: "a duration",
        effect: "How often the operator compares the release with the caches. This needs no request.",
        set: Some(|s, text| s.reconcile_period = duration::parse(text).ok()),
    },
];

const ON_FAILURE: [(&str, OnFailure); 3] =
    [("rollback", OnFailure::Rollback), ("keep", OnFailure::Keep), ("uninstall", OnFailure::Uninstall)];
const DELETION_POLICY: [(&str, DeletionPolicy); 3] =
    [("delete", DeletionPolicy::Delete), ("orphan", DeletionPolicy::Orphan), ("snapshot", DeletionPolicy::Snapshot)];
const CRDS_WORDS: [(&str, Crds); 3] = [("skip", Crds::Skip), ("create", Crds::Create), ("replace", Crds::Replace)];

fn set_word(set: Set, switches: &mut Switches, text: &str) -> Result<(), FieldError> {
    bounds::word(text)?;
    set(switches, text.trim())
}

fn set<T>(field: &mut T, read: Result<T, FieldError>) -> Result<(), FieldError> {
    read.map(|value| *field = value)
}

/// The value of a word.
fn choice<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, FieldError> {
    let found = words.iter().find(|(word, _)| *word == text);
    let names = || words.iter().map(|(word, _)| *word).collect();
    found.map(|(_, value)| *value).ok_or_else(|| FieldError::new(format!("{text:?}"), FieldProblem::OneOf(names())))
}

/// A boolean; the error names these words.
fn bool(text: &str, yes: &'static str, no: &'static str) -> Result<bool, FieldError> {
    go_bool(text).map_or_else(|| choice(text, &[(yes, true), (no, false)]), Ok)
}

fn max_history(text: &str) -> Result<usize, FieldError> {
    let form = "a number of revisions; 0 keeps all";
    text.parse().map_err(|_| FieldError::is_not(format!("{text:?}"), form))
}

fn timeout(text: &str) -> Result<Option<Duration>, FieldError> {
    let timeout = duration::parse(text)?;
    if timeout.is_zero() {
        return Err("a timeout of 0 would fail at once; leave it out instead".into());
    }
    Ok(Some(timeout))
}

impl Switches {
    /// The switches of a custom resource, over those of its kind. Errors name the annotation and its allowed texts.
    pub fn read(&self, annotations: &BTreeMap<Box<str>, Box<str>>) -> Result<Self, FieldError> {
        let mut switches = self.clone();
        for (key, value) in annotations {
            let named = key.strip_prefix(PREFIX).and_then(|name| SWITCHES.iter().find(|switch| switch.name == name));
            // Names that are not known are others'.
            if let Some(Switch { reader: Reader::Word(set), .. }) = named {
                let read = set_word(*set, &mut switches, value);
                read.map_err(FieldError::within(format_args!("annotation {key}")))?;
            }
        }
        if annotations.contains_key(MAX_HISTORY_ANNOTATION) {
            switches.max_history = match switches.max_history {
                0 => MAX_HISTORY,
                more if more > MAX_HISTORY => {
                    let why = format!(
                        "{more} is more than the {MAX_HISTORY} revisions that an annotation can keep; maxHistory in watches.yaml has no \
                         limit"
                    );
                    return Err(FieldError::within(format_args!("annotation {MAX_HISTORY_ANNOTATION}"))(why));
                }
                some => some,
            };
        }
        for theirs in THEIRS {
            let text =
                annotations.get(&*format!("{HELM_OPERATOR}{}", theirs.name)).filter(|text| bounds::word(text).is_ok());
            if let (Some(set), Some(text)) = (theirs.set, text) {
                set(&mut switches, text);
            }
        }
        Ok(switches)
    }

    /// Sets one from a field of `watches.yaml`; `false` when there is no such switch.
    pub fn set_field(&mut self, field: &str, value: &Value) -> Result<bool, FieldError> {
        let of_field = |switch: &&Switch| switch.field == Some(field);
        let Some(Switch { reader: Reader::Word(set), .. }) = SWITCHES.iter().find(of_field) else { return Ok(false) };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => return Ok(true),
            // YAML reads `off` as text and `false` as a boolean. Both mean the same.
            Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string()),
            other => other.to_string(),
        };
        set_word(*set, self, &text).map_err(FieldError::within(field))?;
        Ok(true)
    }

    /// How long one hook may run.
    pub fn hook_timeout(&self) -> Duration {
        self.timeout.unwrap_or(HELM_TIMEOUT)
    }
}

/// All annotations that an attempt may depend on, as text: ours and helm-operator's, without that of operations.
pub fn text(annotations: &BTreeMap<Box<str>, Box<str>>) -> String {
    let ours = |key: &str| (key.starts_with(PREFIX) && key != OPERATION) || key.starts_with(HELM_OPERATOR);
    let mut text = String::new();
    for (key, value) in annotations.iter().filter(|(key, _)| ours(key)) {
        text.extend([key, "=", value, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Crds, DeletionPolicy, OnFailure, PREFIX, SWITCHES, Switches, text};
    use crate::kind::allow::Reach;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    #[test]
    fn an_annotation_wins_over_the_kind_and_the_rest_stays() {
        let mut kind = Switches::default();
        for (field, value) in [
            ("maxHistory", json!(3.0)),
            ("onFailure", json!("keep")),
            ("hooks", json!(false)),
            ("timeout", json!("90s")),
            ("crds", json!("replace")),
        ] {
            assert_eq!(kind.set_field(field, &value), Ok(true), "{field}");
        }
        assert_eq!(kind.set_field("chart", &json!("x")), Ok(false));
        let own = annotations(&[
            ("tillerman.dev/on-failure", "uninstall"),
            ("tillerman.dev/deletion-policy", "orphan"),
            ("tillerman.dev/paused", "true"),
            ("tillerman.dev/reconcile-at", "now"),
            ("tillerman.dev/somebody-elses", "?"),
            ("helm.sdk.operatorframework.io/uninstall-wait", "True"),
            ("helm.sdk.operatorframework.io/reconcile-period", "soon"),
        ]);
        let switches = kind.read(&own).unwrap();
        let expected = Switches {
            max_history: 3,
            hooks: false,
            timeout: Some(Duration::from_secs(90)),
            on_failure: OnFailure::Uninstall,
            crds: Crds::Replace,
            deletion_policy: DeletionPolicy::Orphan,
            paused: true,
            reconcile_at: Some("now".into()),
            uninstall_wait: true,
            ..Switches::default()
        };
        assert_eq!(switches, expected);
    }

    #[test]
    fn a_bad_value_is_named_with_what_may_be_there() {
        let table = [
            ("paused", "maybe", "\"maybe\" must be true or false"),
            ("dry-run", "", "\"\" must be true or false"),
            ("hooks", "some", "\"some\" must be on or off"),
            ("max-history", "-1", "\"-1\" is not a number of revisions; 0 keeps all"),
            ("timeout", "5", "invalid duration \"5\": expected something like 90s or 1h30m"),
            (
                "max-history",
                "101",
                "101 is more than the 100 revisions that an annotation can keep; maxHistory in watches.yaml has no limit",
            ),
            ("take-ownership", "yes", "\"yes\" must be true or false"),
            ("timeout", "0s", "a timeout of 0 would fail at once; leave it out instead"),
            ("on-failure", "panic", "\"panic\" must be one of rollback, keep and uninstall"),
            ("deletion-policy", "snap", "\"snap\" must be one of delete, orphan and snapshot"),
            ("crds", "Create", "\"Create\" must be one of skip, create and replace"),
        ];
        for (name, value, expected) in table {
            let key = format!("tillerman.dev/{name}");
            let error = Switches::default().read(&annotations(&[(&key, value)])).unwrap_err();
            assert_eq!(error.to_string(), format!("annotation {key}: {expected}"));
        }
    }

    #[test]
    fn rows_agree_with_what_allow_names() {
        for reach in Reach::ALL {
            let row = SWITCHES.iter().find(|switch| switch.allow == Some(reach.field())).unwrap();
            assert_eq!(format!("{PREFIX}{}", row.name), reach.annotation());
            assert!(row.field.is_none_or(|field| field == reach.field()), "{row:?}");
        }
        let needs = SWITCHES.iter().filter(|switch| switch.allow.is_some()).count();
        assert_eq!(needs, Reach::ALL.len());
        let mut names: Vec<_> = SWITCHES.iter().map(|switch| switch.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SWITCHES.len());
    }

    #[test]
    fn only_switches_are_part_of_what_an_attempt_depends_on() {
        let own = annotations(&[
            ("a", "b"),
            ("tillerman.dev/timeout", "1s"),
            ("tillerman.dev/operation", "backup"),
            ("helm.sdk.operatorframework.io/x", "y"),
        ]);
        assert_eq!(text(&own), "helm.sdk.operatorframework.io/x=y\ntillerman.dev/timeout=1s\n");
    }
}
