//! `watches.yaml`, the file of operator-sdk's helm-operator (`internal/helm/watches/watches.go`, operator-sdk 1.42).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::allow::Allow;
use super::overrides::{self, Overrides};
use super::placement::{self, ClusterScoped, Namespaces, Placement};
use super::rollout::Rollout;
use super::service_account::ServiceAccount;
use super::switches::Switches;
use super::{ChartRef, Kind, Proof, depends_on, duration, ignore, schema_documents, selector, values_from};
use crate::bounds;
use crate::object::Gvk;
use crate::object::field_error::{FieldError, FieldProblem};
use crate::object::patch;

/// A field of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    /// The values that are allowed, and the default if there is one.
    pub values: &'static str,
    /// Its meaning, in sentences of Markdown.
    pub meaning: &'static str,
}

const fn field(name: &'static str, values: &'static str, meaning: &'static str) -> Field {
    Field { name, values, meaning }
}

/// The fields of an entry that are no [switches](super::switches::SWITCHES), and those that are lists. A field without a row is unknown to
/// the parser; `docs/reference/watches.md` is made from these rows.
pub const FIELDS: &[Field] = &[
    field("group", "a name (default: empty)", "The group of the custom resources."),
    field("version", "a name, required", "Their version."),
    field("kind", "a name, required", "Their kind."),
    field(
        "chart",
        "a path or a URL, required",
        "The chart: a directory or an archive, relative to the working directory; `oci://…` with a tag or a digest; or the URL of an archive. \
         See [chart sources](../how-to/chart-sources.md).",
    ),
    field("digest", "`sha256:…`", "The checksum that the archive of a fetched chart must have."),
    field("keyring", "a path", "Keys, one of which must have signed the archive of a fetched chart."),
    field("selector", "a label selector", "The operator serves only the custom resources that it matches."),
    field(
        "reconcilePeriod",
        "a duration (default: `--reconcile-period`)",
        "How often a release is compared with the caches, and how often lists that templates look up are read.",
    ),
    field(
        "watchDependentResources",
        "`true` (default), `false`",
        "`false`: the operator sees a change of an object only when the reconcile period is over.",
    ),
    field(
        "overrideValues",
        "a map",
        "Values that win over those of the custom resource: paths as with `--set`, and texts, in which `$NAME` is a \
         variable of the operator's environment. A text can be a template.",
    ),
    field(
        "valuesFrom",
        "a list",
        "Secrets and ConfigMaps with values, below those of the custom resource. See [values from Secrets](../how-to/values-from-secrets.md).",
    ),
    field(
        "dependsOn",
        "a list",
        "Custom resources that must be ready first, and fields of their status that become values. See [dependencies](../how-to/depends-on.md).",
    ),
    field(
        "schemaDocuments",
        "a map",
        "Documents that the `values.schema.json` of the chart refers to by `$ref` and that are not in the chart: addresses, each with `any`, which \
         accepts every value, or with the path of a file, relative to the working directory. An address that ends in `/` and is `any` covers \
         everything below it. Nothing is fetched while rendering.",
    ),
    field(
        "patches",
        "a list",
        "Patches of the rendered objects, before those of the custom resource. See [patches](../how-to/patches.md).",
    ),
    field(
        "ignoreDrift",
        "a list",
        "Fields of the objects that the operator leaves to others. See [pause, dry run, ignore \
         drift](../how-to/pause.md).",
    ),
    field(
        "allow",
        "a list (default: empty)",
        "The annotations of this kind that are allowed to reach beyond the chart: `chartVersion`, `crds`, `dependsOn`, \
         `ignoreDrift`, `patches`, `releaseName`, `serviceAccount`, `takeOwnership`, `targetNamespace`, `valuesFrom`. \
         See [security](../explanation/security.md).",
    ),
    field(
        "namespaces",
        "`any` (default), `own`, a list of names",
        "The namespaces in which objects are allowed, and in which templates can look them up: all, that of the custom \
         resource, or that and these.",
    ),
    field(
        "clusterScoped",
        "`true` (default), `false`, a list of kinds",
        "Whether the chart is allowed to make cluster-scoped objects, and of which kinds.",
    ),
    field(
        "targetNamespace",
        "a namespace",
        "The namespace of the releases and their records, instead of that of the custom resource; required for a cluster-scoped kind \
         unless an annotation gives it. See [scope](../how-to/scope.md).",
    ),
    field(
        "serviceAccount",
        "`NAME` or `NAMESPACE/NAME`",
        "The operator uses the rights of this ServiceAccount for all requests about objects of releases, lookups \
         included. Without a namespace: of the namespace of the custom resource. See [scope](../how-to/scope.md).",
    ),
    field(
        "releaseSuffix",
        "a text such as `-restore`",
        "A suffix that the name of the release adds to the name of the custom resource, for two kinds whose custom \
         resources have the same names.",
    ),
    field(
        "rollout",
        "a map",
        "How the custom resources move to a new version of the chart; without it, all at once. See [roll-outs](../how-to/rollouts.md).",
    ),
    field("dryRunOption", "ignored", "helm-operator's. Tillerman always compares the objects that templates look up."),
];

/// The content of the file, and warnings about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watches {
    /// The kinds, in the order of the file.
    pub kinds: Vec<Kind>,
    /// Sentences for the log: unknown fields with their lines. operator-sdk reads leniently, and files that work today must start.
    pub warnings: Vec<String>,
}

/// Why the file cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum WatchesError {
    /// It is not a list of entries.
    #[error("{0}")]
    Syntax(String),
    /// An entry lacks something or has something wrong.
    #[error("line {line}: {error}")]
    Entry {
        /// Line of the entry or field, from 1.
        line: u64,
        /// The fault.
        error: FieldError,
    },
    /// The same kind twice.
    #[error("line {second}: {gvk} is already declared on line {first}")]
    Duplicate {
        /// The kind.
        gvk: Gvk,
        /// Line of its first entry.
        first: u64,
        /// Line of its second entry.
        second: u64,
    },
}

/// Reads the text of a `watches.yaml`. `chart_base` is what relative chart paths are relative to (the working directory).
pub fn parse(text: &str, chart_base: &Path) -> Result<Watches, WatchesError> {
    bounds::WATCHES.text(text.as_bytes()).map_err(|why| WatchesError::Syntax(why.to_string()))?;
    // The reader has its own limits: 64 levels, 250,000 values, and those that aliases add.
    let entries: Option<Vec<Spanned<Entry>>> =
        serde_saphyr::from_str(text).map_err(|e| WatchesError::Syntax(e.to_string()))?;
    let mut watches = Watches { kinds: Vec::new(), warnings: Vec::new() };
    let mut lines: Vec<u64> = Vec::new();
    for entry in entries.unwrap_or_default() {
        let line = entry.value.0.first().map_or(entry.referenced.line(), |(key, _)| key.referenced.line());
        let kind = read_entry(&entry.value, line, chart_base, &mut watches.warnings)?;
        if let Some(at) = watches.kinds.iter().position(|k| k.gvk == kind.gvk) {
            return Err(WatchesError::Duplicate { gvk: kind.gvk, first: lines[at], second: line });
        }
        watches.kinds.push(kind);
        lines.push(line);
    }
    Ok(watches)
}

fn read_entry(entry: &Entry, line: u64, chart_base: &Path, warnings: &mut Vec<String>) -> Result<Kind, WatchesError> {
    let wrong = |error: FieldError| WatchesError::Entry { line, error };
    let text = |name: &str| -> Result<Option<&str>, WatchesError> {
        match entry.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(s)) => {
                bounds::word(s).map_err(FieldError::within(name)).map_err(wrong)?;
                Ok(Some(s))
            }
            Some(_) => Err(wrong(FieldError::must_be(name, "a string"))),
        }
    };
    let bool = |name: &str, default: bool| match entry.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(wrong(FieldError::boolean(name))),
    };
    let missing = |name: &str| wrong(FieldError::new(name, FieldProblem::Missing));
    let required = |name: &str| text(name)?.filter(|s| !s.is_empty()).ok_or_else(|| missing(name));
    let mut switches = Switches::default();
    let mut overrides = Overrides::default();
    let mut sources = Vec::new();
    let mut patches = Vec::new();
    let mut documents = BTreeMap::new();
    let mut dependencies = Vec::new();
    let mut allow = Allow::default();
    let mut placement = Placement::default();
    let mut suffix = "";
    let mut proof = Proof::default();
    let (mut rollout, mut account, mut unusable) = (None, None, None);
    for (key, value) in &entry.0 {
        let wrong = |error: FieldError| WatchesError::Entry { line: key.referenced.line(), error };
        let named = |error: FieldError| wrong(FieldError::within(&key.value)(error));
        let is_known = FIELDS.iter().any(|field| field.name == key.value);
        match key.value.as_str() {
            name if !is_known => {
                if !switches.set_field(name, value).map_err(wrong)? {
                    warnings.push(format!("line {}: unknown field {name:?} is ignored", key.referenced.line()));
                }
            }
            "group"
            | "version"
            | "kind"
            | "chart"
            | "watchDependentResources"
            | "selector"
            | "reconcilePeriod"
            | "dryRunOption"
            | "ignoreDrift" => {}
            "digest" | "keyring" => proof = read_proof(text("digest")?, text("keyring")?, chart_base).map_err(wrong)?,
            "releaseSuffix" => suffix = read_suffix(text("releaseSuffix")?).map_err(wrong)?,
            "rollout" => rollout = Rollout::read(value).map_err(wrong)?,
            "allow" => allow = Allow::read(value).map_err(wrong)?,
            "targetNamespace" => {
                placement.target = text("targetNamespace")?.map(placement::target).transpose().map_err(named)?;
            }
            "serviceAccount" => {
                account = text("serviceAccount")?.map(ServiceAccount::read).transpose().map_err(named)?;
            }
            "namespaces" => placement.namespaces = Namespaces::read(value).map_err(wrong)?,
            "clusterScoped" => placement.cluster_scoped = ClusterScoped::read(value).map_err(wrong)?,
            // The environment may be wrong for one kind only. Other kinds still work.
            "overrideValues" => match Overrides::read(value, &overrides::variable) {
                Ok(read) => overrides = read,
                Err(why) => unusable = Some(format!("watches.yaml, line {}: {why}", key.referenced.line())),
            },
            "dependsOn" => dependencies = depends_on::parse(value, true).map_err(named)?,
            "patches" => patches = patch::parse(value).map_err(|e| named(e.to_string().into()))?,
            "schemaDocuments" => documents = schema_documents::parse(value, chart_base).map_err(wrong)?,
            "valuesFrom" => sources = values_from::parse(value).map_err(named)?,
            half_done => return Err(wrong(format!("{half_done} has a row in FIELDS, and no code reads it").into())),
        }
    }
    let reconcile_period = text("reconcilePeriod")?.map(duration::parse).transpose().map_err(wrong)?;
    let ignored = entry.get("ignoreDrift").filter(|v| !v.is_null()).map(ignore::read).transpose();
    let ignored = ignored.map_err(FieldError::within("ignoreDrift")).map_err(wrong)?;
    let selector = entry.get("selector").map(selector::text).transpose().map_err(wrong)?.flatten();
    let chart = ChartRef::parse(required("chart")?, chart_base);
    if proof != Proof::default() && matches!(chart, ChartRef::Path(_)) {
        return Err(wrong("digest and keyring are for a chart that is fetched (oci://, https://, http://)".into()));
    }
    Ok(Kind {
        gvk: Gvk::new(text("group")?.unwrap_or_default(), required("version")?, required("kind")?),
        chart,
        proof,
        selector,
        reconcile_period,
        switches,
        allow,
        placement,
        service_account: account,
        ignore_drift: ignored.unwrap_or_default(),
        overrides,
        unusable,
        values_from: sources,
        depends_on: dependencies,
        patches,
        schema_documents: documents,
        watch_dependents: bool("watchDependentResources", true)?,
        rollout,
        release_suffix: suffix.into(),
    })
}

/// Checks the chart of an entry with a digest.
///
/// # Errors
/// If it is none.
pub fn digest(digest: Option<&str>) -> Result<Proof, FieldError> {
    read_proof(digest, None, Path::new(""))
}

/// The checks of a chart that is fetched.
fn read_proof(digest: Option<&str>, keyring: Option<&str>, base: &Path) -> Result<Proof, FieldError> {
    let hexadecimal = |digest: &str| {
        let digits = digest.strip_prefix("sha256:").unwrap_or(digest).to_ascii_lowercase();
        let fits = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let form = "sha256: and 64 hexadecimal digits, which `sha256sum` prints of the archive";
        let wrong = || FieldError::is_not(format!("digest: {digest:?}"), form);
        fits.then_some(digits).ok_or_else(wrong)
    };
    Ok(Proof { digest: digest.map(hexadecimal).transpose()?, keyring: keyring.map(|path| base.join(path)) })
}

/// The suffix that a release name can add to the name of its custom resource.
fn read_suffix(text: Option<&str>) -> Result<&str, FieldError> {
    let suffix = text.unwrap_or_default();
    let fits = suffix.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let whole = suffix.is_empty() || suffix.starts_with('-') && !suffix.ends_with('-');
    let form = "like -restore, of 20 characters at most";
    let wrong = || FieldError::is_not(format!("releaseSuffix: {suffix:?}"), form);
    (fits && whole && suffix.len() <= 20).then_some(suffix).ok_or_else(wrong)
}

/// An entry with the lines of its keys.
#[derive(Debug)]
struct Entry(Vec<(Spanned<String>, Value)>);

impl Entry {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Entry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an entry with group, version, kind and chart")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Entry(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, WatchesError, parse};
    use crate::kind::ChartRef;
    use std::path::Path;
    use std::time::Duration;

    const BASE: &str = "/opt/helm";

    fn fails(text: &str) -> String {
        parse(text, Path::new(BASE)).unwrap_err().to_string()
    }

    #[test]
    fn a_file_made_by_operator_sdk_is_read() {
        let text = "# Use the 'create api' subcommand to add watches to this file.\n- group: demo.example.com\n  \
                    version: v1alpha1\n  kind: Nginx\n  chart: helm-charts/nginx\n  reconcilePeriod: 1m30s\n  \
                    watchDependentResources: false\n  overrideValues: {}\n  selector:\n    matchLabels: {a: b}\n    \
                    matchExpressions:\n    - {key: c, operator: In, values: [d, e]}\n    - {key: f, operator: Exists, values: []}\n\
                    #+kubebuilder:scaffold:watch\n";
        let watches = parse(text, Path::new(BASE)).unwrap();
        assert_eq!(watches.warnings, [""; 0]);
        let kind = &watches.kinds[0];
        assert_eq!(kind.gvk.to_string(), "demo.example.com/v1alpha1, Kind=Nginx");
        assert_eq!(kind.chart, ChartRef::Path("/opt/helm/helm-charts/nginx".into()));
        assert_eq!(kind.reconcile_period, Some(Duration::from_secs(90)));
        assert_eq!(kind.selector.as_deref(), Some("a=b,c in (d,e),f"));
        assert!(kind.overrides.texts.is_empty());
        assert!(!kind.watch_dependents);
    }

    #[test]
    fn a_chart_may_be_in_a_registry() {
        let text = "- {group: a.b, version: v1, kind: A, chart: 'oci://c.d/web:1.0.0'}";
        let watches = parse(text, Path::new(BASE)).unwrap();
        assert_eq!(watches.kinds[0].chart, ChartRef::Link("oci://c.d/web:1.0.0".into()));
    }

    #[test]
    fn a_suffix_of_releases_is_read() {
        let entry =
            |suffix: &str| format!("- {{group: a.b, version: v1, kind: A, chart: x, releaseSuffix: '{suffix}'}}");
        assert_eq!(&*parse(&entry("-restore"), Path::new(BASE)).unwrap().kinds[0].release_suffix, "-restore");
        assert_eq!(&*parse(&entry(""), Path::new(BASE)).unwrap().kinds[0].release_suffix, "");
        for bad in ["restore", "-", "-A", "-a.b", "-abcdefghijklmnopqrstu"] {
            let expected = format!("line 1: releaseSuffix: {bad:?} is not like -restore, of 20 characters at most");
            assert_eq!(fails(&entry(bad)), expected);
        }
    }

    #[test]
    fn an_account_and_a_namespace_of_releases_are_read() {
        let entry = |more: &str| format!("- {{group: a.b, version: v1, kind: A, chart: x, {more}}}");
        let kind =
            parse(&entry("serviceAccount: ns/tenant, targetNamespace: apps"), Path::new(BASE)).unwrap().kinds.remove(0);
        let account = kind.service_account.unwrap();
        assert_eq!((account.namespace.as_deref(), &*account.name), (Some("ns"), "tenant"));
        assert_eq!(kind.placement.target.as_deref(), Some("apps"));
        assert_eq!(
            fails(&entry("serviceAccount: ''")),
            "line 1: serviceAccount: \"\" must be NAME or NAMESPACE/NAME of a service account"
        );
        assert_eq!(
            fails(&entry("targetNamespace: a.b")),
            "line 1: targetNamespace: \"a.b\" is not a name of a namespace"
        );
    }

    #[test]
    fn fields_that_are_left_to_others_are_read() {
        let entry = "{group: a.b, version: v1, kind: A, chart: x, ignoreDrift: ";
        let good = format!("- {entry}[{{target: {{kind: Deployment}}, paths: [/spec/replicas]}}]}}");
        assert_eq!(parse(&good, Path::new(BASE)).unwrap().kinds[0].ignore_drift[0].paths, ["/spec/replicas"]);
        assert_eq!(fails(&format!("- {entry}[{{paths: []}}]}}")), "line 1: ignoreDrift: a rule has no paths");
    }

    #[test]
    fn each_field_with_a_row_is_read() {
        let required = ["group", "version", "kind", "chart"];
        for field in FIELDS.iter().filter(|field| !required.contains(&field.name)) {
            let text = format!("- {{group: a.b, version: v1, kind: A, chart: x, {}: null}}", field.name);
            assert_eq!(parse(&text, Path::new(BASE)).unwrap().warnings, [""; 0], "{}", field.name);
        }
    }

    #[test]
    fn an_empty_file_has_no_kinds() {
        assert_eq!(parse("", Path::new(BASE)).unwrap().kinds, []);
        assert_eq!(parse("# nothing\n", Path::new(BASE)).unwrap().kinds, []);
    }

    #[test]
    fn an_unknown_field_is_a_warning_with_its_line() {
        let text = "- group: a.b\n  version: v1\n  kind: A\n  chrat: x\n  chart: web\n";
        let watches = parse(text, Path::new(BASE)).unwrap();
        assert_eq!(watches.warnings, ["line 4: unknown field \"chrat\" is ignored"]);
    }

    #[test]
    fn the_same_kind_twice_is_an_error_that_names_both_lines() {
        let entry = "- group: a.b\n  version: v1\n  kind: A\n  chart: x\n";
        let error = parse(&format!("{entry}{entry}"), Path::new(BASE)).unwrap_err();
        assert!(matches!(error, WatchesError::Duplicate { first: 1, second: 5, .. }), "{error:?}");
        assert_eq!(error.to_string(), "line 5: a.b/v1, Kind=A is already declared on line 1");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_with_its_line() {
        assert_eq!(fails("- group: a\n  version: v1\n  kind: A\n"), "line 1: chart is missing");
        assert_eq!(fails("\n- group: a\n  version: v1\n  chart: x\n"), "line 2: kind is missing");
        assert!(
            fails("- {version: v1, kind: A, chart: x, reconcilePeriod: soon}").contains("invalid duration \"soon\"")
        );
    }

    #[test]
    fn switches_of_a_kind_are_read_and_a_bad_one_is_named_with_its_line() {
        let entry = "- group: a\n  version: v1\n  kind: A\n  chart: x\n";
        let kind = parse(&format!("{entry}  maxHistory: 3\n  hooks: off\n"), Path::new(BASE)).unwrap().kinds.remove(0);
        assert_eq!((kind.switches.max_history, kind.switches.hooks), (3, false));
        assert_eq!(
            fails(&format!("{entry}  onFailure: cry\n")),
            "line 5: onFailure: \"cry\" must be one of rollback, keep and uninstall"
        );
    }

    #[test]
    fn what_proves_a_chart_is_read() {
        let read = |chart: &str, more: &str| {
            let text = format!("- group: a\n  version: v1\n  kind: B\n  chart: {chart}\n{more}");
            super::parse(&text, std::path::Path::new("/base")).map(|watches| watches.kinds[0].proof.clone())
        };
        let digest = "0A".repeat(32);
        let proof = read("oci://a/b:1", &format!("  digest: sha256:{digest}\n  keyring: keys.gpg\n")).unwrap();
        assert_eq!(proof.digest, Some(digest.to_lowercase()));
        assert_eq!(proof.keyring.as_deref(), Some(std::path::Path::new("/base/keys.gpg")));
        assert!(read("https://a/b.tgz", "  digest: sha256:12\n").unwrap_err().to_string().contains("64 hexadecimal"));
        assert!(read("charts/b", &format!("  digest: {digest}\n")).unwrap_err().to_string().contains("is fetched"));
    }

    #[test]
    fn values_of_the_operator_are_read_and_mistakes_in_them_have_their_line() {
        let entry = "- group: a\n  version: v1\n  kind: A\n  chart: x\n";
        let text = format!("{entry}  overrideValues: {{a.b: $HOME-x}}\n  valuesFrom: [{{kind: Secret, name: s}}]\n");
        let kind = parse(&text, Path::new(BASE)).unwrap().kinds.remove(0);
        assert_eq!(kind.overrides.values["a"]["b"], format!("{}-x", std::env::var("HOME").unwrap_or_default()));
        assert_eq!(&*kind.values_from[0].name, "s");
        let watches = parse(&format!("{entry}  overrideValues:\n    a: '{{{{'\n"), Path::new(BASE)).unwrap();
        let unusable = watches.kinds[0].unusable.as_deref().unwrap_or_default();
        assert!(unusable.starts_with("watches.yaml, line 5: overrideValues: a: "), "{unusable}");
        assert_eq!(fails(&format!("{entry}  valuesFrom: {{}}\n")), "line 5: valuesFrom: it is not a list");
    }
}
