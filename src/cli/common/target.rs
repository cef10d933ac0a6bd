//! Which custom resource a command is about, in words as kubectl takes them.

use std::sync::Arc;

use serde_json::Value;

use super::error::CliError;
use super::line::line;
use crate::cluster::client::Cluster;
use crate::cluster::discovery::{Discovery, Resource};
use crate::object::ObjectId;

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
                    Err(CliError(format!("{word} can be {first} or {other}: name one of them")))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{two_words, words};

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
}
