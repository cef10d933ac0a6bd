//! Which custom resource a command is about, and the cluster that it is in: flags and words as kubectl takes them.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::CliError;
use super::output::line;
use super::template::context::ClusterArgs;
use super::template::server::Server;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::names;
use crate::release::object::ObjectId;

/// kubectl's flags of a cluster.
#[derive(Debug, Default, clap::Args)]
pub struct ConnectArgs {
    /// The namespace [default: the kubeconfig's, or `default`].
    #[arg(short, long, default_value = "", hide_default_value = true)]
    pub namespace: String,
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Its context.
    #[arg(long, alias = "kube-context", value_name = "NAME")]
    pub context: Option<String>,
    /// User to act as.
    #[arg(long = "as", value_name = "NAME")]
    pub user: Option<String>,
    /// Group to act as; may be repeated.
    #[arg(long = "as-group", value_name = "NAME")]
    pub groups: Vec<String>,
}

impl ConnectArgs {
    /// The same as Helm's flags.
    pub fn cluster(&self) -> ClusterArgs {
        let mut args = ClusterArgs::of(self.kubeconfig.clone(), self.context.clone());
        args.namespace.clone_from(&self.namespace);
        args.kube_as_user.clone_from(&self.user);
        args.kube_as_group.clone_from(&self.groups);
        args
    }

    /// Connects.
    pub fn connect(&self) -> Result<Server, CliError> {
        Server::connect(&self.cluster())
    }

    /// The namespace that is meant.
    pub fn namespace(&self) -> String {
        self.cluster().namespace()
    }
}

/// A custom resource that a command is about.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its kind.
    pub resource: Arc<Resource>,
    /// Its address.
    pub id: ObjectId,
}

impl Target {
    /// The custom resource that `kind` and `name` mean.
    pub async fn find(kind: &str, name: &str, namespace: &str, discovery: &Discovery) -> Result<Self, CliError> {
        let resource = resource(kind, discovery).await?;
        let namespace = resource.namespaced.then(|| namespace.into());
        let id = ObjectId { gvk: resource.gvk.clone(), namespace, name: name.into() };
        Ok(Self { resource, id })
    }

    /// Reads it; an error if it does not exist.
    pub async fn get(&self, cluster: &Cluster) -> Result<Value, CliError> {
        let found = cluster.get(&self.resource, &self.id).await.map_err(|e| CliError(line(&e.whole())))?;
        found.ok_or_else(|| CliError(format!("there is no {}", line(&self.id.to_string()))))
    }

    /// `kind/name`, as kubectl names objects that it changed.
    pub fn shown(&self) -> String {
        let group = &self.resource.gvk.group;
        let kind = self.resource.gvk.kind.to_lowercase();
        line(&format!("{kind}.{group}/{}", self.id.name))
    }
}

/// Splits `KIND NAME …` or `KIND/NAME …` into kind, name and what follows.
pub fn words(given: &[String]) -> Result<(&str, &str, &[String]), CliError> {
    let missing = || CliError::new("name the custom resource: KIND NAME, or KIND/NAME");
    let (first, rest) = given.split_first().ok_or_else(missing)?;
    let (kind, name, rest) = if let Some((kind, name)) = first.split_once('/') {
        (kind, name, rest)
    } else {
        let (name, rest) = rest.split_first().ok_or_else(missing)?;
        (first.as_str(), name.as_str(), rest)
    };
    if kind.is_empty() || name.is_empty() { Err(missing()) } else { Ok((kind, name, rest)) }
}

/// The same, where nothing may follow.
pub fn two_words(given: &[String]) -> Result<(&str, &str), CliError> {
    match words(given)? {
        (kind, name, []) => Ok((kind, name)),
        (.., [more, ..]) => Err(CliError(format!("unexpected argument {more:?}"))),
    }
}

/// The kind that a word means, as kubectl takes it: a kind, a plural, a singular or a short name, also with a dot and the group.
pub async fn resource(word: &str, discovery: &Discovery) -> Result<Arc<Resource>, CliError> {
    let mut found = discovery.named(word);
    if found.is_empty() {
        found = discovery.short(word).await.map_err(|e| CliError(line(&e.whole())))?;
    }
    match found.as_slice() {
        [] => Err(CliError(format!("the API server has no kind {}", line(word)))),
        [one] => Ok(Arc::clone(one)),
        [first, others @ ..] => {
            let group = |resource: &Arc<Resource>| format!("{}.{}", resource.plural, resource.gvk.group);
            match others.iter().find(|other| other.gvk.group != first.gvk.group) {
                None => Ok(Arc::clone(first)),
                Some(other) => {
                    let (first, other) = (group(first), group(other));
                    Err(CliError(format!("{word} may be {first} or {other}: say which")))
                }
            }
        }
    }
}

/// The release of a custom resource: namespace and name. The status says it once there is one; before, annotations do.
pub fn release_of(cr: &Value) -> (String, String) {
    let text = |pointer: &str| cr.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let annotation = |name: &str| cr.pointer("/metadata/annotations")?.get(name)?.as_str();
    let namespace = text("/status/release/namespace").or_else(|| annotation(names::TARGET_NAMESPACE));
    let namespace = namespace.or_else(|| text("/metadata/namespace")).unwrap_or_default();
    let name = text("/status/release/name").or_else(|| annotation(names::RELEASE_NAME));
    let name = name.or_else(|| text("/metadata/name")).unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

/// Whether a text can stand in a label selector as a value: what a tenant wrote must not select anything else.
pub fn is_label_value(text: &str) -> bool {
    !text.is_empty() && text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{is_label_value, release_of, two_words, words};
    use serde_json::json;

    #[test]
    fn a_custom_resource_is_named_in_one_word_or_in_two() {
        let given = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let two = given(&["web", "app", "3"]);
        assert_eq!(words(&two).unwrap(), ("web", "app", &two[2..]));
        let one = given(&["webs.a.example.com/app", "3"]);
        assert_eq!(words(&one).unwrap(), ("webs.a.example.com", "app", &one[1..]));
        assert!(words(&given(&["web"])).is_err() && words(&given(&["/app"])).is_err());
        assert!(two_words(&two).is_err() && two_words(&two[..2]).is_ok());
    }

    #[test]
    fn the_status_says_which_release_it_is_and_annotations_do_before() {
        let mut cr = json!({"metadata": {"name": "a", "namespace": "ns"}});
        assert_eq!(release_of(&cr), ("ns".into(), "a".into()));
        cr["metadata"]["annotations"] =
            json!({"tillerman.dev/release-name": "b", "tillerman.dev/target-namespace": "t"});
        assert_eq!(release_of(&cr), ("t".into(), "b".into()));
        cr["status"] = json!({"release": {"name": "c", "namespace": "u"}});
        assert_eq!(release_of(&cr), ("u".into(), "c".into()));
    }

    #[test]
    fn a_name_of_a_tenant_selects_nothing_else() {
        assert!(is_label_value("app-1") && !is_label_value("app,owner!=helm") && !is_label_value(""));
    }
}
