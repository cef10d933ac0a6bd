//! `ChartDefinition`: a chart that becomes an API while the operator runs.
//!
//! This module has its content as data: the chart, the names, the policy, and the [`Kind`] that follows from them. The
//! same parser as for `watches.yaml` reads the policy, so that both mean the same. `reconcile/definitions` carries it
//! out.

mod own;
mod status;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::chart::Chart;
use crate::crd::{Names, Scope};
use crate::kind::watches::{self, FIELDS, WatchesError};
use crate::kind::{ChartRef, Kind, Proof};
use crate::names;
use crate::object::Gvk;
use crate::object::field_error::FieldError;
use crate::template::version::Version;
pub use own::definition;
pub use status::{DefinitionReason, DefinitionReport, permitted, status};

/// Its kind.
pub const KIND: &str = "ChartDefinition";
/// Its plural name.
pub const PLURAL: &str = "chartdefinitions";

/// Its group, version and kind.
pub fn gvk() -> Gvk {
    Gvk::from_api_version(names::DEFINITION_API_VERSION, KIND)
}

/// The content of a definition.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// Where the chart is: one of path, url, repository and configMap.
    pub chart: ChartSource,
    /// The names of the API. Missing names come from the annotations of the chart, as for tillerman crd.
    #[serde(default)]
    pub names: Named,
    /// The settings of an entry of watches.yaml besides its names and its chart: allow, namespaces, clusterScoped,
    /// overrideValues, patches, selector, switches and others.
    #[serde(default)]
    pub policy: Map<String, Value>,
    /// The fate of the API when the definition is deleted.
    #[serde(default)]
    pub on_delete: OnDelete,
}

/// Where a chart is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartSource {
    /// A directory or an archive of the operator's image, relative to its working directory.
    pub path: Option<String>,
    /// oci:// with a tag or a digest, or the link of an archive.
    pub url: Option<String>,
    /// https:// of a chart repository, which has an index.yaml.
    pub repository: Option<String>,
    /// The name of the chart in the repository.
    pub name: Option<String>,
    /// The version of the chart in the repository.
    pub version: Option<String>,
    /// A Secret with username and password for the server of the url or the repository.
    pub credentials: Option<SecretName>,
    /// A config map with GnuPG public keys; one of them must have signed the archive of the url or the repository.
    pub keyring: Option<ConfigMapKey>,
    /// The archive is a value of a config map (binaryData).
    pub config_map: Option<ConfigMapKey>,
    /// sha256: and the digest that the archive behind the url or in the config map must have.
    pub digest: Option<String>,
}

/// A value of a `ConfigMap`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key of the value.
    pub key: String,
}

/// A Secret.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The names of an API.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    /// API group, such as apps.example.com.
    pub group: Option<String>,
    /// Version, such as v1.
    pub version: Option<String>,
    /// Kind, such as Web.
    pub kind: Option<String>,
    /// Plural name, such as webs.
    pub plural: Option<String>,
    /// Namespaced, or Cluster for custom resources that are in no namespace; spec.policy.targetNamespace says where their releases are.
    #[serde(default)]
    pub scope: NamedScope,
}

/// Whether custom resources are in a namespace.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum NamedScope {
    /// Each is in one.
    #[default]
    Namespaced,
    /// None is.
    Cluster,
}

/// The fate of the API when its definition is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum OnDelete {
    /// The definition stays until its custom resources are gone. Then the API goes with it.
    #[default]
    Refuse,
    /// The API and its custom resources stay, and no operator serves them.
    Orphan,
}

/// Where the bytes of a chart come from.
#[derive(Clone, Debug)]
pub enum ChartPlace {
    /// A path.
    Path(PathBuf),
    /// A chart that is fetched.
    Fetched(Fetched),
    /// A value of a `ConfigMap`, and what proves it.
    ConfigMap(ConfigMapKey, Proof),
}

/// A chart that is fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The link of an archive, or the name of a chart in a repository.
    pub chart: String,
    /// The repository; empty for a link.
    pub repository: String,
    /// The version of the chart in the repository.
    pub version: String,
    /// The proof of the archive.
    pub proof: Proof,
    /// The login at its server.
    pub credentials: Option<SecretName>,
    /// The keys; one of them must have signed it.
    pub keyring: Option<ConfigMapKey>,
}

impl Spec {
    /// Reads the spec of a definition.
    ///
    /// # Errors
    /// The field that is wrong, and its allowed values.
    pub fn read(object: &Value) -> Result<Self, FieldError> {
        let spec = object.get("spec").cloned().unwrap_or(Value::Null);
        serde_json::from_value(spec).map_err(FieldError::within("spec"))
    }

    /// Where the chart is.
    ///
    /// # Errors
    /// If there is not exactly one place, or a digest for a chart that is not fetched.
    pub fn place(&self, base: &Path) -> Result<ChartPlace, FieldError> {
        self.chart_place(base).map_err(FieldError::below("spec.chart"))
    }

    /// The fields of errors are those of the chart.
    fn chart_place(&self, base: &Path) -> Result<ChartPlace, FieldError> {
        let ChartSource { path, url, repository, name, version, credentials, keyring, config_map, digest } =
            &self.chart;
        let proof = || watches::digest(digest.as_deref());
        let only =
            |field: &str, of: &str| Err(FieldError::within(field)(format!("it is only for an archive from {of}")));
        if repository.is_none() && (name.is_some() || version.is_some()) {
            return only(if name.is_some() { "name" } else { "version" }, "a repository");
        }
        if url.is_none() && repository.is_none() && (credentials.is_some() || keyring.is_some()) {
            return only(if keyring.is_some() { "keyring" } else { "credentials" }, "elsewhere (url, repository)");
        }
        if let (Some(_), Some(server)) = (credentials, url.as_ref().or(repository.as_ref()))
            && server.starts_with("http://")
        {
            let why = "http:// sends them unencrypted over the network; use https://";
            return Err(FieldError::within("credentials")(why));
        }
        if path.is_some() && digest.is_some() {
            return only("digest", "elsewhere (url, repository, configMap)");
        }
        let fetched = |chart: &str, repository: &str, version: &str| -> Result<ChartPlace, FieldError> {
            Ok(ChartPlace::Fetched(Fetched {
                chart: chart.to_owned(),
                repository: repository.to_owned(),
                version: version.to_owned(),
                proof: proof()?,
                credentials: credentials.clone(),
                keyring: keyring.clone(),
            }))
        };
        match (path, url, repository, config_map) {
            (None, None, None, Some(key)) => Ok(ChartPlace::ConfigMap(key.clone(), proof()?)),
            (Some(path), None, None, None) => Ok(ChartPlace::Path(base.join(path))),
            (None, Some(url), None, None) => {
                let ChartRef::Link(link) = ChartRef::parse(url, base) else {
                    let form = "must begin with oci:// or https://";
                    return Err(FieldError::clause(format!("url: {url:?}"), form));
                };
                fetched(&link, "", "")
            }
            (None, None, Some(repository), None) => {
                if !repository.starts_with("https://") && !repository.starts_with("http://") {
                    let form = "does not begin with https://; for oci:// give url";
                    return Err(FieldError::clause(format!("repository: {repository:?}"), form));
                }
                let (Some(name), Some(version)) = (name, version) else {
                    let missing = if name.is_none() { "name" } else { "version" };
                    return Err(FieldError::clause(missing, "is missing: a repository has many charts"));
                };
                // A range would mean another chart tomorrow.
                if Version::parse(version).is_err() {
                    return Err(FieldError::is_not(format!("version: {version:?}"), "one version, such as 1.4.0"));
                }
                fetched(name, repository, version)
            }
            _ => Err("give one of path, url, repository and configMap".into()),
        }
    }

    /// The names of the API of a chart.
    ///
    /// # Errors
    /// If neither the definition nor the chart names a group.
    pub fn names(&self, chart: &Chart) -> Result<Names, FieldError> {
        let mut names = Names::of_chart(chart);
        let Named { group, version, kind, plural, scope } = &self.names;
        names.scope = match scope {
            NamedScope::Namespaced => Scope::Namespaced,
            NamedScope::Cluster => Scope::Cluster,
        };
        if let Some(kind) = kind {
            names.kind.clone_from(kind);
            names.plural = crate::crd::plural(kind);
        }
        for (given, name) in [(group, &mut names.group), (version, &mut names.version), (plural, &mut names.plural)] {
            if let Some(given) = given {
                name.clone_from(given);
            }
        }
        if names.group.is_empty() {
            let clause = format!("is missing, and the chart {} does not name a group", chart.metadata.name);
            return Err(FieldError::clause("spec.names.group", clause));
        }
        Ok(names)
    }

    /// The kind that follows, with a chart that lies elsewhere.
    ///
    /// # Errors
    /// The fault of the policy.
    pub fn kind(&self, names: &Names, base: &Path) -> Result<Kind, FieldError> {
        let mut entry = self.policy.clone();
        for own in ["group", "version", "kind", "chart", "digest", "keyring"] {
            if entry.contains_key(own) {
                let field = format!("spec.policy.{own}");
                return Err(FieldError::within(field)("it is given by spec.names and spec.chart"));
            }
        }
        let Names { group, version, kind, .. } = names;
        for (key, value) in [("group", group.as_str()), ("version", version), ("kind", kind), ("chart", ".")] {
            entry.insert(key.to_owned(), value.into());
        }
        parsed(&json!([entry]), base).map_err(FieldError::within("spec.policy"))
    }
}

/// Reads one entry as that of a `watches.yaml`.
fn parsed(entries: &Value, base: &Path) -> Result<Kind, FieldError> {
    let mut watches = watches::parse(&entries.to_string(), base).map_err(|error| match error {
        WatchesError::Entry { error, .. } => error,
        other => other.to_string().into(),
    })?;
    if let Some(unknown) = watches.warnings.first() {
        let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        let said = unknown.strip_prefix("line 1: ").unwrap_or(unknown);
        return Err(format!("{said} (fields are {}, and switches)", known.join(", ")).into());
    }
    watches.kinds.pop().ok_or_else(|| "the entry is missing".into())
}

#[cfg(test)]
mod tests {
    use super::{ChartPlace, FieldError, OnDelete, Spec};
    use crate::chart::Chart;
    use serde_json::{Value, json};
    use std::path::Path;

    fn spec(spec: &Value) -> Result<Spec, FieldError> {
        Spec::read(&json!({"spec": spec}))
    }

    #[test]
    fn a_definition_means_what_an_entry_of_watches_yaml_means() {
        let read = spec(&json!({
            "chart": {"path": "charts/web"},
            "names": {"group": "apps.example.com", "version": "v1", "kind": "Web"},
            "policy": {"namespaces": "own", "allow": ["patches"], "maxHistory": 3,
                "dependsOn": [{"group": "a.b", "kind": "Database", "nameFrom": "database.name"}]},
        }))
        .unwrap();
        assert_eq!(read.on_delete, OnDelete::Refuse);
        let names = read.names(&Chart::default()).unwrap();
        assert_eq!(names.plural, "webs");
        let kind = read.kind(&names, Path::new("/")).unwrap();
        assert_eq!(kind.gvk.to_string(), "apps.example.com/v1, Kind=Web");
        assert_eq!((kind.switches.max_history, kind.depends_on.len()), (3, 1));
        assert!(matches!(read.place(Path::new("/opt")), Ok(ChartPlace::Path(..))));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        let chart = json!({"path": "a"});
        for (given, part) in [
            (json!({}), "spec: missing field `chart`"),
            (json!({"chart": {}}), "spec.chart: give one of"),
            (json!({"chart": {"path": "a", "url": "oci://b/c"}}), "spec.chart: give one of"),
            (json!({"chart": {"url": "a/b"}}), "spec.chart.url"),
            (json!({"chart": {"path": "a", "digest": "sha256:a"}}), "spec.chart.digest"),
            (
                json!({"chart": {"path": "a", "keyring": {"namespace": "b", "name": "c", "key": "d"}}}),
                "spec.chart.keyring: it is only for",
            ),
            (
                json!({"chart": {"url": "http://b/c.tgz", "credentials": {"namespace": "b", "name": "c"}}}),
                "unencrypted over the network",
            ),
            (json!({"chart": {"url": "oci://b/c", "version": "1"}}), "spec.chart.version: it is only for"),
            (json!({"chart": {"repository": "oci://b", "name": "c", "version": "1.0.0"}}), "for oci:// give url"),
            (json!({"chart": {"repository": "https://b", "name": "c"}}), "spec.chart.version is missing"),
            (json!({"chart": {"repository": "https://b", "name": "c", "version": "^1.0.0"}}), "is not one version"),
            (json!({"chart": {"url": "oci://b/c", "digest": "a"}}), "spec.chart.digest: \"a\" is not sha256:"),
            (json!({"chart": chart, "polcy": {}}), "unknown field `polcy`"),
            (json!({"chart": chart}), "spec.names.group is missing"),
            (
                json!({"chart": chart, "names": {"group": "a.b", "kind": "K"}, "policy": {"chart": "x"}}),
                "spec.policy.chart",
            ),
            (
                json!({"chart": chart, "names": {"group": "a.b", "kind": "K"}, "policy": {"nemespaces": "own"}}),
                "unknown field \"nemespaces\"",
            ),
            (
                json!({"chart": chart, "names": {"group": "a.b", "kind": "K"}, "policy": {"allow": ["all"]}}),
                "spec.policy: allow",
            ),
        ] {
            let said = spec(&given).and_then(|read| {
                read.place(Path::new("/"))?;
                let names = read.names(&Chart::default())?;
                read.kind(&names, Path::new("/")).map(drop)
            });
            let said = said.expect_err(&given.to_string()).to_string();
            assert!(said.contains(part), "{given}: {said}");
        }
    }
}
