//! The rule that a role lacks, read off the API server's words when it refuses a request for want of a right.
//!
//! The words are those of `responsewriters.forbiddenMessage` and `rbac/validation.ConfirmNoEscalation` of Kubernetes. Only a message that
//! is theirs from the beginning counts: what an admission webhook says may be anybody's.

use std::sync::LazyLock;

use regex::Regex;

use super::access::Account;

/// More rules than these are not listed.
const SHOWN: usize = 8;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

static LACKS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^(?:[a-z0-9.-]+ )?(?:"[^"]*" )?is forbidden: User "((?:[^"\\]|\\.)*)" cannot ([a-z]+) resource "([a-z0-9./*-]+)" in API group "([a-z0-9.-]*)" (?:in the namespace "([a-z0-9.-]+)"|at the cluster scope)"#,
    )
});
static GRANTS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^(?:cluster)?role(?:binding)?s\.rbac\.authorization\.k8s\.io "[^"]*" is forbidden: user "((?:[^"\\]|\\.)*)" \(groups=\[[^\]]*\]\) is attempting to grant RBAC permissions not currently held:\n"#,
    )
});
static RULE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\{(.*)\}$"));
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(APIGroups|Resources|ResourceNames|NonResourceURLs|Verbs):\[((?:"[A-Za-z0-9./:*_-]*" ?)+)\]"#)
});

/// The remedy for a message of the API server: a sentence that ends with the rules to add. `None` if the message says
/// nothing of a right. `account` is the one with whose rights the request was sent; the operator may lack the right to
/// act for it.
pub fn remedy(message: &str, account: Option<&Account>) -> Option<String> {
    let of = |user: &str| account.filter(|account| account.user() == user);
    if let Some(lacks) = LACKS.captures(message) {
        let (user, verb, resource, group) = (&lacks[1], &lacks[2], &lacks[3], &lacks[4]);
        let namespace = lacks.get(5).map(|namespace| namespace.as_str());
        let rule = format!("{{apiGroups: [{}], resources: [{}], verbs: [{verb}]}}", scalar(group), scalar(resource));
        return Some(match (of(user), namespace) {
            (None, None) => format!("The operator needs a rule; add to its ClusterRole: {rule}"),
            (None, Some(namespace)) => {
                format!(
                    "The operator needs a rule; add to its ClusterRole, or its Role in namespace {namespace}: {rule}"
                )
            }
            (Some(account), None) => {
                format!("{account} needs a rule; add to a ClusterRole that is bound to it: {rule}")
            }
            (Some(account), Some(namespace)) => {
                format!("{account} needs a rule; add to a Role in namespace {namespace} that is bound to it: {rule}")
            }
        });
    }
    let grants = GRANTS.captures(message)?;
    let rules: Vec<String> =
        RULE.captures_iter(&message[grants[0].len()..]).filter_map(|rule| self::rule(&rule[1])).collect();
    let more = rules.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let shown: Vec<&str> = rules.iter().take(SHOWN).map(String::as_str).collect();
    let who = match of(&grants[1]) {
        None => "The operator cannot grant rights that it does not have; add to its role".to_owned(),
        Some(account) => {
            format!("{account} cannot grant rights that it does not have; add to a role that is bound to it")
        }
    };
    (!shown.is_empty()).then(|| format!("{who} the rules of the chart's role{more}: {}", shown.join(", ")))
}

/// A rule in Go's words: `APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]`.
fn rule(text: &str) -> Option<String> {
    let mut fields = Vec::new();
    for field in FIELD.captures_iter(text) {
        let name = match &field[1] {
            "APIGroups" => "apiGroups",
            "Resources" => "resources",
            "ResourceNames" => "resourceNames",
            "NonResourceURLs" => "nonResourceURLs",
            _ => "verbs",
        };
        let texts: Vec<String> = field[2].split_whitespace().map(|text| scalar(text.trim_matches('"'))).collect();
        fields.push(format!("{name}: [{}]", texts.join(", ")));
    }
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(", ")))
}

/// A name as YAML.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && !text.contains([':', '*']);
    if is_plain { text.to_owned() } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::{Account, remedy};

    #[test]
    fn a_missing_right_is_named_with_the_rule_to_add() {
        let user = "User \"system:serviceaccount:op:tillerman\" cannot";
        for (message, expected) in [
            (
                format!(
                    "deployments.apps \"web\" is forbidden: {user} create resource \"deployments\" in API group \"apps\" in the namespace \"x\""
                ),
                Some(
                    "add to its ClusterRole, or its Role in namespace x: {apiGroups: [apps], resources: [deployments], verbs: [create]}",
                ),
            ),
            (
                format!("pods is forbidden: {user} list resource \"pods\" in API group \"\" at the cluster scope"),
                Some("add to its ClusterRole: {apiGroups: [\"\"], resources: [pods], verbs: [list]}"),
            ),
            (
                format!(
                    "pods \"a\" is forbidden: {user} get resource \"pods/log\" in API group \"\" in the namespace \"x\": RBAC: role gone"
                ),
                Some(
                    "add to its ClusterRole, or its Role in namespace x: {apiGroups: [\"\"], resources: [pods/log], verbs: [get]}",
                ),
            ),
            ("pods \"a\" is forbidden: exceeded quota".to_owned(), None),
            (
                format!(
                    "admission webhook \"x\" denied the request: pods is forbidden: {user} list resource \"pods\" in API group \"\" at the cluster scope"
                ),
                None,
            ),
            (
                format!("pods is forbidden: {user} list resource \"pods}} x\" in API group \"\" at the cluster scope"),
                None,
            ),
            (String::new(), None),
        ] {
            let found = remedy(&message, None);
            assert_eq!(found.is_some(), expected.is_some(), "{message}: {found:?}");
            assert!(found.unwrap_or_default().ends_with(expected.unwrap_or_default()), "{message}");
        }
    }

    #[test]
    fn rights_that_a_role_of_the_chart_grants_are_named_as_rules() {
        let message = "clusterroles.rbac.authorization.k8s.io \"a\" is forbidden: user \"u\" (groups=[\"g\" \"h\"]) is attempting to grant RBAC \
                       permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}\n\
                       {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}";
        let found = remedy(message, None).unwrap();
        let expected = ": {apiGroups: [\"\"], resources: [nodes], verbs: [get, list]}, {nonResourceURLs: [/metrics], verbs: [get]}";
        assert!(found.ends_with(expected), "{found}");
    }

    #[test]
    fn it_is_the_account_or_the_operator_that_lacks_a_right() {
        let account = Account { namespace: "x".to_owned(), name: "tenant".to_owned() };
        let lacks = |user: &str, what: &str| {
            format!("secrets \"a\" is forbidden: User \"system:serviceaccount:{user}\" cannot {what}")
        };
        let get = "get resource \"secrets\" in API group \"\" in the namespace \"x\"";
        let impersonate = "impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"x\"";
        let role = |user: &str| {
            format!(
                "roles.rbac.authorization.k8s.io \"a\" is forbidden: user \"system:serviceaccount:{user}\" (groups=[\"g\"]) is attempting to \
                 grant RBAC permissions not currently held:\n{{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}}"
            )
        };
        for (message, expected) in [
            (
                lacks("x:tenant", get),
                "Service account tenant of namespace x needs a rule; add to a Role in namespace x that is bound to it: {apiGroups: [\"\"], \
                 resources: [secrets], verbs: [get]}",
            ),
            (
                lacks("op:tillerman", impersonate),
                "The operator needs a rule; add to its ClusterRole, or its Role in namespace x: {apiGroups: [\"\"], resources: [serviceaccounts], verbs: \
                 [impersonate]}",
            ),
            (
                role("x:tenant"),
                "Service account tenant of namespace x cannot grant rights that it does not have; add to a role that \
                 is bound to it the rules of the chart's role: {apiGroups: [\"\"], resources: [nodes], verbs: [get]}",
            ),
            (
                role("op:tillerman"),
                "The operator cannot grant rights that it does not have; add to its role the rules of the chart's \
                 role: {apiGroups: [\"\"], resources: [nodes], verbs: [get]}",
            ),
        ] {
            assert_eq!(remedy(&message, Some(&account)).unwrap(), expected);
        }
    }
}
