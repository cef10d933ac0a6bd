//! Switches: annotations of a custom resource that set how its release is handled. `watches.yaml` takes the same names in
//! camelCase, for all custom resources of a kind. An annotation overrides it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{bounds, duration, go_bool};

/// What comes before the name of a switch in an annotation.
pub const PREFIX: &str = "tillerman.dev/";
/// The prefix of helm-operator's annotations.
const HELM_OPERATOR: &str = "helm.sdk.operatorframework.io/";
/// The operation that a custom resource requests, `NAME` or `NAME@ANYTHING`: it runs once for each text.
pub const OPERATION: &str = "tillerman.dev/operation";
/// The name of the release, instead of the custom resource's; for good.
pub const RELEASE_NAME: &str = "tillerman.dev/release-name";
/// Definitions in `crds/` of the chart, see [`Crds`].
pub const CRDS: &str = "tillerman.dev/crds";
/// Patches of what the chart renders.
pub const PATCHES: &str = "tillerman.dev/patches";
/// Existing objects of the release's names are taken over, even if no release made them, and a release that plain Helm made is
/// continued.
pub const TAKE_OWNERSHIP: &str = "tillerman.dev/take-ownership";
const MAX_HISTORY_ANNOTATION: &str = "tillerman.dev/max-history";
/// Revisions that an annotation can keep; it takes 0 for as many. Each is a Secret of up to 1 MiB.
const MAX_HISTORY: usize = 100;
/// Helm's `--timeout`.
pub const HELM_TIMEOUT: Duration = Duration::from_secs(300);

/// What happens to a release when the attempts of its installation or upgrade are spent.
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

/// What happens to the objects when the custom resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// The release is uninstalled.
    #[default]
    Delete,
    /// They stay, with the record of the release, and lose their owner.
    Orphan,
    /// The release is uninstalled once its `before-delete` scale hooks have succeeded, however often they fail before.
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
    /// `dry-run`: what would be done is said, and not done.
    pub dry_run: bool,
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
    /// `take-ownership`: objects and releases that exist and belong to nobody are taken over.
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

/// The switches that `watches.yaml` may set, by their names there.
pub const FIELDS: [(&str, &str); 9] = [
    ("paused", "paused"),
    ("dryRun", "dry-run"),
    ("hooks", "hooks"),
    ("maxHistory", "max-history"),
    ("timeout", "timeout"),
    ("onFailure", "on-failure"),
    ("deletionPolicy", "deletion-policy"),
    ("crds", "crds"),
    ("takeOwnership", "take-ownership"),
];

/// Annotations that are one word or name.
const WORDS: [&str; 13] = [
    "paused",
    "dry-run",
    "hooks",
    "max-history",
    "timeout",
    "on-failure",
    "deletion-policy",
    "crds",
    "release-name",
    "reconcile-at",
    "operation",
    "take-ownership",
    "force-new-cluster",
];

impl Switches {
    /// The switches of a custom resource, over those of its kind. Errors name the annotation and what it may be.
    pub fn read(&self, annotations: &BTreeMap<Box<str>, Box<str>>) -> Result<Self, String> {
        let mut switches = self.clone();
        for (key, value) in annotations {
            if let Some(name) = key.strip_prefix(PREFIX) {
                if WORDS.contains(&name) {
                    bounds::word(value).map_err(|why| format!("annotation {key}: {why}"))?;
                }
                switches.set(name, value).map_err(|expected| format!("annotation {key}: {expected}"))?;
            }
        }
        if annotations.contains_key(MAX_HISTORY_ANNOTATION) {
            switches.max_history = match switches.max_history {
                0 => MAX_HISTORY,
                more if more > MAX_HISTORY => {
                    return Err(format!(
                        "annotation {MAX_HISTORY_ANNOTATION}: {more} is more than the {MAX_HISTORY} revisions that an annotation can \
                         keep; maxHistory in watches.yaml has no limit"
                    ));
                }
                some => some,
            };
        }
        // What helm-operator cannot read it takes for absent.
        let theirs = |name: &str| {
            annotations.get(&*format!("{HELM_OPERATOR}{name}")).map(|v| &**v).filter(|v| bounds::word(v).is_ok())
        };
        switches.uninstall_wait = theirs("uninstall-wait").and_then(go_bool).unwrap_or(false);
        switches.reconcile_period = theirs("reconcile-period").and_then(|v| duration::parse(v).ok());
        Ok(switches)
    }

    /// Sets one from a field of `watches.yaml`; `false` when there is no such switch.
    pub fn set_field(&mut self, field: &str, value: &Value) -> Result<bool, String> {
        let Some((_, name)) = FIELDS.iter().find(|(known, _)| *known == field) else { return Ok(false) };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => return Ok(true),
            // YAML reads `off` as text and `false` as a boolean. Both mean the same.
            Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string()),
            other => other.to_string(),
        };
        bounds::word(&text).and_then(|()| self.set(name, &text)).map_err(|expected| format!("{field}: {expected}"))?;
        Ok(true)
    }

    /// Sets one by its name. Unknown names belong to others.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = value.trim();
        let bool = || go_bool(value).ok_or_else(|| format!("{value:?} is neither true nor false"));
        match name {
            "paused" => self.paused = bool()?,
            "dry-run" => self.dry_run = bool()?,
            "take-ownership" => self.take_ownership = bool()?,
            "hooks" => {
                self.hooks = match value {
                    "on" => true,
                    "off" => false,
                    _ => go_bool(value).ok_or_else(|| format!("{value:?} is neither on nor off"))?,
                }
            }
            "max-history" => {
                self.max_history =
                    value.parse().map_err(|_| format!("{value:?} is no number of revisions; 0 keeps all"))?;
            }
            "timeout" => {
                let timeout = duration::parse(value)?;
                if timeout.is_zero() {
                    return Err("a timeout of 0 would fail at once; leave it out instead".to_owned());
                }
                self.timeout = Some(timeout);
            }
            "on-failure" => {
                self.on_failure = match value {
                    "rollback" => OnFailure::Rollback,
                    "keep" => OnFailure::Keep,
                    "uninstall" => OnFailure::Uninstall,
                    _ => return Err(format!("{value:?} is none of rollback, keep and uninstall")),
                }
            }
            "deletion-policy" => {
                self.deletion_policy = match value {
                    "delete" => DeletionPolicy::Delete,
                    "orphan" => DeletionPolicy::Orphan,
                    "snapshot" => DeletionPolicy::Snapshot,
                    _ => return Err(format!("{value:?} is none of delete, orphan and snapshot")),
                }
            }
            "crds" => {
                self.crds = match value {
                    "skip" => Crds::Skip,
                    "create" => Crds::Create,
                    "replace" => Crds::Replace,
                    _ => return Err(format!("{value:?} is none of skip, create and replace")),
                }
            }
            "release-name" => crate::render::check_name(value)?,
            "reconcile-at" => self.reconcile_at = Some(value.into()),
            _ => {}
        }
        Ok(())
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
    use super::{Crds, DeletionPolicy, OnFailure, Switches, text};
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
            ("paused", "maybe", "\"maybe\" is neither true nor false"),
            ("dry-run", "", "\"\" is neither true nor false"),
            ("hooks", "some", "\"some\" is neither on nor off"),
            ("max-history", "-1", "\"-1\" is no number of revisions; 0 keeps all"),
            ("timeout", "5", "invalid duration \"5\": expected something like 90s or 1h30m"),
            (
                "max-history",
                "101",
                "101 is more than the 100 revisions that an annotation can keep; maxHistory in watches.yaml has no limit",
            ),
            ("take-ownership", "yes", "\"yes\" is neither true nor false"),
            ("timeout", "0s", "a timeout of 0 would fail at once; leave it out instead"),
            ("on-failure", "panic", "\"panic\" is none of rollback, keep and uninstall"),
            ("deletion-policy", "snap", "\"snap\" is none of delete, orphan and snapshot"),
            ("crds", "Create", "\"Create\" is none of skip, create and replace"),
        ];
        for (name, value, expected) in table {
            let key = format!("tillerman.dev/{name}");
            let error = Switches::default().read(&annotations(&[(&key, value)])).unwrap_err();
            assert_eq!(error, format!("annotation {key}: {expected}"));
        }
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
