//! The rights that a ServiceAccount lacks: the API server checks each of them.

use super::cluster_args::ClusterArgs;
use super::error::CliError;
use super::server::Server;
use crate::cluster::access::{Account, Question};
use crate::rbac::Subject;
use crate::rbac::rules::{Policy, Rule};
use std::collections::BTreeSet;

/// The account, the number of questions, and the rules that it lacks.
///
/// # Errors
/// The API server does not answer.
pub fn missing(
    cluster: &ClusterArgs,
    rules: &[Rule],
    subject: &Subject,
) -> Result<(String, usize, Vec<String>), CliError> {
    let Some((namespace, name)) = &subject.account else {
        return Err(CliError::new("--check needs --service-account"));
    };
    let account = Account { namespace: namespace.clone(), name: name.clone() };
    // Without namespaces, roles go where they are applied; the ServiceAccount's own is as good a guess.
    let mut subject = subject.clone();
    if subject.namespaces.is_empty() && !subject.everywhere {
        subject.namespaces.push(namespace.clone());
    }
    let server = Server::connect(cluster)?;
    let documents = subject.documents(rules);
    let (mut asked, mut missing) = (0, Vec::new());
    for document in &documents {
        for rule in &document.rules {
            let questions = questions(&rule.policy, document.namespace.as_deref());
            asked += questions.len();
            let denied = server.block_on(async |cluster, _| {
                let mut denied = BTreeSet::new();
                for (question, policy) in &questions {
                    if !cluster.allows(&account, question).await? {
                        denied.insert(policy.clone());
                    }
                }
                Ok::<_, crate::cluster::error::ApiError>(denied)
            });
            let denied = denied.map_err(|e| CliError(e.whole()))?;
            missing.extend(lines(&denied, document.namespace.as_deref(), &rule.why));
        }
    }
    Ok((format!("ServiceAccount {name} in namespace {namespace}"), asked, missing))
}

/// The questions that a rule comes to, each with the rule that it alone would need.
fn questions(policy: &Policy, namespace: Option<&str>) -> Vec<(Question, Policy)> {
    let one = |text: &str| BTreeSet::from([text.to_owned()]);
    let mut questions = Vec::new();
    let names: Vec<&str> =
        if policy.names.is_empty() { vec![""] } else { policy.names.iter().map(String::as_str).collect() };
    for verb in &policy.verbs {
        for url in &policy.urls {
            let alone = Policy { urls: one(url), verbs: one(verb), ..Policy::default() };
            questions.push((Question::url(verb, url), alone));
        }
        for group in &policy.groups {
            for resource in &policy.resources {
                for name in &names {
                    let question = Question::of(verb, group, resource, name, namespace);
                    let mut alone = Policy::new(group, &[resource], &[verb]);
                    alone.names.clone_from(&policy.names);
                    questions.push((question, alone));
                }
            }
        }
    }
    questions
}

/// The missing rules, joined by resource, with the place and the reason.
fn lines(denied: &BTreeSet<Policy>, namespace: Option<&str>, why: &[String]) -> Vec<String> {
    let mut joined: Vec<Policy> = Vec::new();
    for policy in denied {
        let same = |other: &&mut Policy| {
            (&other.groups, &other.resources, &other.names, &other.urls)
                == (&policy.groups, &policy.resources, &policy.names, &policy.urls)
        };
        match joined.iter_mut().find(same) {
            Some(other) => other.verbs.extend(policy.verbs.iter().cloned()),
            None => joined.push(policy.clone()),
        }
    }
    let place = namespace.map_or_else(|| "in the cluster".to_owned(), |name| format!("in namespace {name}"));
    joined.iter().map(|policy| format!("- {policy} # {place}; {}", why.join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Policy, lines, questions};

    #[test]
    fn a_rule_comes_to_one_question_for_each_verb_resource_and_name() {
        let mut policy = Policy::new("apps", &["deployments", "statefulsets"], &["get", "list"]);
        assert_eq!(questions(&policy, Some("a")).len(), 4);
        policy.names = ["x".to_owned(), "y".to_owned()].into();
        assert_eq!(questions(&policy, Some("a")).len(), 8);
        let urls =
            Policy { urls: ["/metrics".to_owned()].into(), verbs: ["get".to_owned()].into(), ..Policy::default() };
        assert_eq!(questions(&urls, None).len(), 1);
    }

    #[test]
    fn what_is_missing_is_joined_by_resource() {
        let denied = ["get", "list"].map(|verb| Policy::new("apps", &["deployments"], &[verb])).into();
        let found = lines(&denied, Some("a"), &["Deployment: templates/a.yaml".to_owned()]);
        assert_eq!(
            found,
            [
                "- {apiGroups: [apps], resources: [deployments], verbs: [get, list]} # in namespace a; Deployment: templates/a.yaml"
            ]
        );
    }
}
