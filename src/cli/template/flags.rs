//! The errors and warnings of Helm's flag parser about the flags of `helm template`: refused values, flags that exclude each
//! other, and deprecated flags.

use crate::cli::common::error::{CliError, FlagError};
use crate::cli::common::helm_log::log;
use crate::template::functions::duration::{self, DurationError};
use crate::template::go::quote::quoted;
use std::collections::BTreeSet;

/// Flags that Helm accepts and calls deprecated, with its advice.
const DEPRECATED: [(&str, &str); 5] = [
    ("hide-notes", "this flag has no effect for 'helm template' and will be removed in Helm 5"),
    ("render-subchart-notes", "this flag has no effect for 'helm template' and will be removed in Helm 5"),
    ("force", "use --force-replace instead"),
    ("atomic", "use --rollback-on-failure instead"),
    ("validate", "use '--dry-run=server' instead"),
];

/// Pairs of flags of which only one may be given.
const EXCLUSIVE: [[&str; 2]; 3] =
    [["force", "force-conflicts"], ["force-replace", "force-conflicts"], ["validate", "dry-run"]];

/// Labels of a release that are Helm's own.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// Warns about deprecated flags of the command line; an error if two exclude each other.
pub fn check_given(args: impl Iterator<Item = String>) -> Result<(), CliError> {
    let mut given = BTreeSet::new();
    for arg in args.take_while(|arg| arg != "--") {
        let Some(flag) = arg.strip_prefix("--").and_then(|arg| arg.split('=').next()) else { continue };
        if let Some((_, advice)) = DEPRECATED.iter().find(|(name, _)| *name == flag) {
            eprintln!("Flag --{flag} has been deprecated, {advice}");
        }
        given.insert(flag.to_owned());
    }
    for group in EXCLUSIVE {
        if group.iter().all(|flag| given.contains(*flag)) {
            let mut sorted = group;
            sorted.sort_unstable();
            return Err(CliError(format!(
                "if any flags in the group [{}] are set none of the others can be; [{}] were all set",
                group.join(" "),
                sorted.join(" ")
            )));
        }
    }
    Ok(())
}

/// The mode of `--dry-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// No cluster.
    Client,
    /// The API server is asked about kinds, objects and its version; nothing is written.
    Server,
}

impl DryRun {
    /// Reads the flag's value as Helm does, with a warning for deprecated values.
    pub fn parse(value: &str) -> Result<Self, CliError> {
        match value {
            "unset" => {
                log("WARN", "--dry-run is deprecated and should be replaced with '--dry-run=client'", &[]);
                return Ok(Self::Client);
            }
            "client" => return Ok(Self::Client),
            "server" => return Ok(Self::Server),
            _ => {}
        }
        match crate::kind::go_bool(value) {
            Some(true) => {
                let text = format!(
                    "boolean '--dry-run={value}' flag is deprecated and must be replaced with '--dry-run=client'"
                );
                log("WARN", &text, &[]);
                Ok(Self::Client)
            }
            None if value != "none" => Err(CliError(format!(
                "invalid dry-run value ({}). Must be \"none\", \"server\", or \"client\"",
                quoted(value.as_bytes())
            ))),
            _ => Err(CliError(format!(
                "invalid dry-run value ({}). Must be \"server\" or \"client\"",
                quoted(value.as_bytes())
            ))),
        }
    }
}

/// Go's durations.
pub fn duration(text: &str) -> Result<String, DurationError> {
    duration::parse(text).map(|_| text.to_owned())
}

/// `key=value,key=value`.
pub fn labels(text: &str) -> Result<Vec<String>, FlagError> {
    let pairs: Vec<&str> = match text.matches('=').count() {
        1 => vec![text.trim_matches('"')],
        _ => text.split(',').map(|pair| pair.trim_matches('"')).collect(),
    };
    let key = |pair: &str| match pair.split_once('=') {
        Some((key, _)) => Ok(key.to_owned()),
        None => Err(format!("{pair} must be formatted as key=value").into()),
    };
    pairs.into_iter().map(key).collect()
}

/// Whether labels may be a release's.
pub fn check_labels(keys: &[Vec<String>]) -> Result<(), CliError> {
    if !keys.iter().flatten().any(|key| SYSTEM_LABELS.contains(&key.as_str())) {
        return Ok(());
    }
    Err(CliError(format!(
        "user supplied labels contains system reserved label name. System labels: [{}]",
        SYSTEM_LABELS.join(" ")
    )))
}

/// `--wait`, with a warning for values of old.
pub fn wait(text: &str) -> Result<String, FlagError> {
    match text {
        "watcher" | "hookOnly" | "legacy" => {}
        "true" => log("WARN", "--wait=true is deprecated (boolean value) and can be replaced with --wait=watcher", &[]),
        "false" => {
            log("WARN", "--wait=false is deprecated (boolean value) and can be replaced with --wait=hookOnly", &[]);
        }
        _ => {
            let text = quoted(text.as_bytes());
            return Err(format!("invalid wait input {text}. Valid inputs are watcher, hookOnly, and legacy").into());
        }
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{DryRun, check_labels, duration, labels};

    /// The flags that `helm template --help` of Helm 4.3.1 lists, with their short forms, and those that it hides.
    const HELMS: &str = "a,api-versions ca-file cert-file create-namespace dependency-update description devel \
        disable-openapi-validation dry-run enable-dns force-conflicts force-replace g,generate-name include-crds \
        insecure-skip-tls-verify is-upgrade key-file keyring kube-version l,labels name-template no-hooks output-dir \
        pass-credentials password plain-http post-renderer post-renderer-args release-name replace repo \
        rollback-on-failure server-side set set-file set-json set-literal set-string s,show-only skip-crds \
        skip-schema-validation skip-tests take-ownership timeout username f,values verify version wait wait-for-jobs \
        burst-limit color colour content-cache debug kube-apiserver kube-as-group kube-as-user kube-ca-file kube-context \
        kube-insecure-skip-tls-verify kube-tls-server-name kube-token kubeconfig n,namespace qps registry-config \
        repository-cache repository-config atomic force hide-notes render-subchart-notes validate";

    #[test]
    fn every_flag_of_helm_template_is_there() {
        let command = <super::super::TemplateArgs as clap::Args>::augment_args(clap::Command::new("template"));
        let has = |name: &str| {
            let named = |a: &clap::Arg| {
                a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|all| all.contains(&name))
            };
            command.get_arguments().find(|a| named(a)).cloned()
        };
        for flag in HELMS.split_whitespace() {
            let (short, long) = flag.split_once(',').map_or((None, flag), |(short, long)| (short.chars().next(), long));
            let found = has(long).unwrap_or_else(|| panic!("--{long} is missing"));
            assert!(short.is_none() || found.get_short() == short, "-{short:?} of --{long}");
        }
    }

    #[test]
    fn values_are_refused_in_the_words_of_gos_parsers() {
        assert_eq!(duration("5").unwrap_err().to_string(), r#"time: missing unit in duration "5""#);
        assert!(duration("1m30s").is_ok());
    }

    #[test]
    fn labels_are_pairs_whose_keys_are_not_helms() {
        assert_eq!(labels("a=b,c=d").unwrap(), ["a", "c"]);
        assert_eq!(labels("a=b,c").unwrap(), ["a"]);
        assert_eq!(labels("x").unwrap_err().0, "x must be formatted as key=value");
        assert!(check_labels(&[vec!["a".into()], vec!["owner".into()]]).is_err());
    }

    #[test]
    fn a_template_is_always_a_dry_run() {
        assert_eq!(DryRun::parse("server").unwrap(), DryRun::Server);
        assert_eq!(DryRun::parse("true").unwrap(), DryRun::Client);
        for refused in ["none", "false", "0", "bogus"] {
            assert!(DryRun::parse(refused).is_err(), "{refused}");
        }
    }
}
