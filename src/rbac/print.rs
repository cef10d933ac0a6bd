//! Roles and bindings as YAML, each rule with a comment about its purpose.

use super::rules::{Rule, flow, merge, scalar};
use super::{Reach, Rights};
use crate::names;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The account that gets the rights, and its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The name of the roles and bindings.
    pub name: String,
    /// The namespaces that the operator serves. Empty: the one in which the roles are applied.
    pub namespaces: Vec<String>,
    /// The operator serves all namespaces, so all is in a `ClusterRole`.
    pub everywhere: bool,
    /// A `ClusterRole` has the label by which that of the operator of definitions takes its rules.
    pub aggregate: bool,
    /// The ServiceAccount's namespace and name.
    pub account: Option<(String, String)>,
}

/// A role: its namespace (`None`: a `ClusterRole`; empty: the one in which it is applied) and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDocument {
    /// Where it holds.
    pub namespace: Option<String>,
    pub rules: Vec<Rule>,
}

impl Subject {
    /// The roles that have these rules, Roles by namespace first.
    pub fn documents(&self, rules: &[Rule]) -> Vec<RoleDocument> {
        let mut placed: BTreeMap<Option<String>, Vec<Rule>> = BTreeMap::new();
        let unnamed = [String::new()];
        let namespaces = if self.namespaces.is_empty() { &unnamed[..] } else { &self.namespaces };
        for rule in rules {
            let reaches: Vec<Option<String>> = match &rule.reach {
                _ if self.everywhere => vec![None],
                Reach::Cluster => vec![None],
                Reach::Release => namespaces.iter().cloned().map(Some).collect(),
                Reach::Namespace(name) => vec![Some(name.clone())],
                Reach::Operator => {
                    vec![Some(
                        self.account.as_ref().map_or_else(|| namespaces[0].clone(), |(namespace, _)| namespace.clone()),
                    )]
                }
            };
            for reach in reaches {
                placed.entry(reach).or_default().push(rule.clone());
            }
        }
        let cluster = placed.remove(&None).map(|rules| (None, rules));
        placed
            .into_iter()
            .chain(cluster)
            .map(|(namespace, rules)| RoleDocument { namespace, rules: merge(rules) })
            .collect()
    }
}

/// The roles, and bindings where there is a ServiceAccount, of an operator of some charts.
pub fn print(title: &str, charts: &[Rights], rules: &[Rule], subject: &Subject) -> String {
    let mut out = format!("# {title}\n");
    for (index, document) in subject.documents(rules).iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        role(document, subject, &mut out);
        if let Some(account) = &subject.account {
            binding(document, subject, account, &mut out);
        }
    }
    notes(charts, &mut out);
    out
}

fn head(kind: &str, namespace: Option<&str>, subject: &Subject, out: &mut String) {
    let kind = if namespace.is_none() { format!("Cluster{kind}") } else { kind.to_owned() };
    let _ = write!(
        out,
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {}\n",
        scalar(&subject.name)
    );
    if let Some(namespace) = namespace.filter(|name| !name.is_empty()) {
        let _ = writeln!(out, "  namespace: {}", scalar(namespace));
    }
    if namespace.is_none() && kind == "ClusterRole" && subject.aggregate {
        let _ = writeln!(out, "  labels: {{{}: \"true\"}}", names::AGGREGATE);
    }
}

fn role(document: &RoleDocument, subject: &Subject, out: &mut String) {
    head("Role", document.namespace.as_deref(), subject, out);
    out.push_str("rules:\n");
    for rule in &document.rules {
        for line in &rule.why {
            let _ = writeln!(out, "  # {}", line.replace('\n', " "));
        }
        for (index, (name, texts)) in rule.policy.fields().into_iter().enumerate() {
            let dash = if index == 0 { "- " } else { "  " };
            let line = format!("  {dash}{name}: [{}]", flow(&texts));
            if line.len() <= 120 {
                let _ = writeln!(out, "{line}");
                continue;
            }
            let _ = writeln!(out, "  {dash}{name}:");
            for text in texts {
                let _ = writeln!(out, "      - {}", scalar(text));
            }
        }
    }
}

fn binding(document: &RoleDocument, subject: &Subject, (namespace, name): &(String, String), out: &mut String) {
    out.push_str("---\n");
    head("RoleBinding", document.namespace.as_deref(), subject, out);
    let kind = if document.namespace.is_none() { "ClusterRole" } else { "Role" };
    let _ = write!(
        out,
        "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {}\nsubjects:\n  - kind: ServiceAccount\n    \
         name: {}\n    namespace: {}\n",
        scalar(&subject.name),
        scalar(name),
        scalar(namespace)
    );
}

/// The points that the author has to decide or check.
fn notes(charts: &[Rights], out: &mut String) {
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(out, "# {title}");
            for line in lines {
                let _ = writeln!(out, "#   {line}");
            }
        }
    };
    let brought = charts.iter().flat_map(|rights| rights.brought.iter().cloned()).collect();
    section("These values can contain objects of any kind. Add rules for the kinds that you allow there:", brought);
    let aggregated = charts.iter().flat_map(|rights| rights.granted.aggregated.iter().cloned()).collect();
    section(
        "These ClusterRoles take their rules from other roles; only --escalate or all rights allow the operator to \
         make them:",
        aggregated,
    );
    let unseen = charts.iter().flat_map(|rights| rights.granted.unseen.iter().cloned()).collect();
    section(
        "These templates make Roles or bindings with values that were not tried; the rules above do not cover them:",
        unseen,
    );
    let unknown = charts.iter().flat_map(|rights| rights.unknown.iter().cloned()).collect();
    section("Not known:", unknown);
}

#[cfg(test)]
mod tests {
    use super::{Subject, print};
    use crate::rbac::Reach;
    use crate::rbac::rules::{Part, Policy, Rule};

    fn rules() -> Vec<Rule> {
        [
            (Reach::Release, "secrets"),
            (Reach::Operator, "leases"),
            (Reach::Namespace("kube-system".to_owned()), "services"),
            (Reach::Cluster, "nodes"),
        ]
        .map(|(reach, resource)| Rule {
            reach,
            part: Part::Own,
            policy: Policy::new("", &[resource], &["get"]),
            why: vec![format!("why {resource}")],
        })
        .to_vec()
    }

    /// The roles with their resources: `a: secrets leases`.
    fn shown(subject: &Subject) -> Vec<String> {
        let resources = |rules: &[Rule]| -> Vec<String> {
            rules.iter().flat_map(|rule| rule.policy.resources.iter().cloned()).collect()
        };
        let documents = subject.documents(&rules());
        documents.iter().map(|d| format!("{:?}: {}", d.namespace, resources(&d.rules).join(" "))).collect()
    }

    #[test]
    fn each_right_is_where_it_is_needed() {
        let account = Some(("op".to_owned(), "tillerman".to_owned()));
        let namespaces = vec!["a".to_owned(), "b".to_owned()];
        let subject = Subject { name: "x".to_owned(), namespaces, account, ..Subject::default() };
        assert_eq!(
            shown(&subject),
            [
                "Some(\"a\"): secrets",
                "Some(\"b\"): secrets",
                "Some(\"kube-system\"): services",
                "Some(\"op\"): leases",
                "None: nodes"
            ]
        );
        assert_eq!(shown(&Subject { everywhere: true, ..subject.clone() }), ["None: leases nodes secrets services"]);
        let nobody = Subject { name: "x".to_owned(), ..Subject::default() };
        assert_eq!(shown(&nobody), ["Some(\"\"): leases secrets", "Some(\"kube-system\"): services", "None: nodes"]);
    }

    #[test]
    fn what_is_printed_is_yaml_with_comments() {
        let account = Some(("op".to_owned(), "tillerman".to_owned()));
        let subject =
            Subject { name: "x".to_owned(), namespaces: vec!["op".to_owned()], account, ..Subject::default() };
        let text = print("Title", &[], &rules()[..1], &subject);
        assert_eq!(
            text,
            "# Title\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: x\n  namespace: op\nrules:\n  # why secrets\n  \
             - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
             metadata:\n  name: x\n  namespace: op\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: x\nsubjects:\n  \
             - kind: ServiceAccount\n    name: tillerman\n    namespace: op\n"
        );
    }
}
