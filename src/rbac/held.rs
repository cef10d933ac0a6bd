//! The needed rules that the rules of an account do not cover.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::rules::Policy;

/// The rules of somebody in one namespace, as the `status` of a `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default)]
pub struct Held {
    rules: Vec<HeldRule>,
    /// The API server could not list all of them: a rule that is missing here may exist.
    pub is_incomplete: bool,
}

#[derive(Clone, Debug, Default)]
struct HeldRule {
    verbs: BTreeSet<String>,
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    names: BTreeSet<String>,
    urls: BTreeSet<String>,
}

impl Held {
    /// Reads the `status` of a review.
    pub fn read(status: &Value) -> Self {
        let list = |rule: &Value, field: &str| -> BTreeSet<String> {
            let texts = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let all = |field: &str| status.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let rules = all("resourceRules").into_iter().chain(all("nonResourceRules")).map(|rule| HeldRule {
            verbs: list(&rule, "verbs"),
            groups: list(&rule, "apiGroups"),
            resources: list(&rule, "resources"),
            names: list(&rule, "resourceNames"),
            urls: list(&rule, "nonResourceURLs"),
        });
        Self { rules: rules.collect(), is_incomplete: status.get("incomplete") == Some(&Value::Bool(true)) }
    }

    /// The part of a rule that is missing, as rules of one resource or path each.
    pub fn lacks(&self, policy: &Policy) -> Vec<Policy> {
        let mut missing: BTreeMap<(String, String, BTreeSet<String>), BTreeSet<String>> = BTreeMap::new();
        let no_name = BTreeSet::from([String::new()]);
        let names = if policy.names.is_empty() { &no_name } else { &policy.names };
        for group in &policy.groups {
            for resource in &policy.resources {
                for verb in &policy.verbs {
                    let without: BTreeSet<String> =
                        names.iter().filter(|name| !self.has(group, resource, name, verb)).cloned().collect();
                    if !without.is_empty() {
                        let key = (group.clone(), resource.clone(), without.difference(&no_name).cloned().collect());
                        missing.entry(key).or_default().insert(verb.clone());
                    }
                }
            }
        }
        let of_resources = missing.into_iter().map(|((group, resource, names), verbs)| Policy {
            groups: [group].into(),
            resources: [resource].into(),
            names,
            verbs,
            urls: BTreeSet::new(),
        });
        let of_urls = policy.urls.iter().filter_map(|url| {
            let verbs: BTreeSet<String> =
                policy.verbs.iter().filter(|verb| !self.has_url(url, verb)).cloned().collect();
            (!verbs.is_empty()).then(|| Policy { urls: [url.clone()].into(), verbs, ..Policy::default() })
        });
        of_resources.chain(of_urls).collect()
    }

    fn has(&self, group: &str, resource: &str, name: &str, verb: &str) -> bool {
        // `*/status` is the subresource of all resources.
        let of_all = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        self.rules.iter().any(|rule| {
            has(&rule.verbs, verb)
                && has(&rule.groups, group)
                && (has(&rule.resources, resource) || of_all.as_ref().is_some_and(|all| rule.resources.contains(all)))
                && (rule.names.is_empty() || rule.names.contains(name))
        })
    }

    fn has_url(&self, url: &str, verb: &str) -> bool {
        self.rules.iter().any(|rule| {
            let covers = |held: &String| {
                held == "*" || held == url || held.strip_suffix('*').is_some_and(|start| url.starts_with(start))
            };
            has(&rule.verbs, verb) && rule.urls.iter().any(covers)
        })
    }
}

fn has(set: &BTreeSet<String>, text: &str) -> bool {
    set.contains("*") || set.contains(text)
}

#[cfg(test)]
mod tests {
    use super::Held;
    use crate::rbac::rules::Policy;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_named_by_resource() {
        let held = Held::read(&json!({
            "resourceRules": [
                {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["*"]},
                {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]},
                {"verbs": ["patch"], "apiGroups": ["*"], "resources": ["*/status"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}],
            "incomplete": false,
        }));
        let lacks = |policy: &Policy| held.lacks(policy).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(lacks(&Policy::new("apps", &["deployments", "statefulsets"], &["get", "list"])), [""; 0]);
        assert_eq!(
            lacks(&Policy::new("apps", &["deployments"], &["get", "patch", "delete"])),
            ["{apiGroups: [apps], resources: [deployments], verbs: [patch, delete]}"]
        );
        assert_eq!(lacks(&Policy::new("apps", &["deployments/status"], &["patch"])), [""; 0]);
        let mut named = Policy::new("", &["configmaps"], &["get"]);
        assert_eq!(lacks(&named), ["{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}"]);
        named.names = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(lacks(&named), ["{apiGroups: [\"\"], resources: [configmaps], resourceNames: [b], verbs: [get]}"]);
        let urls = Policy {
            urls: ["/metrics/x".to_owned(), "/logs".to_owned()].into(),
            verbs: ["get".to_owned()].into(),
            ..Policy::default()
        };
        assert_eq!(lacks(&urls), ["{nonResourceURLs: [/logs], verbs: [get]}"]);
    }
}
