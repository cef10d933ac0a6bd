//! The rights that the operator needs for itself: for every request of `src/cluster` and `src/reconcile` except those
//! for a chart's objects.

use super::granted::GROUP;
use super::listed;
use super::rules::{Part, Policy, Rule};
use super::{LookedUp, Pair, Reach, Rights};
use std::collections::BTreeSet;

/// The verbs on a kind whose objects the operator makes: server-side apply needs `create` and `patch`.
const OBJECTS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// The names of the custom resources of a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// API group.
    pub group: String,
    /// Plural name.
    pub plural: String,
}

/// How the operator is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct RunSettings {
    /// The custom resources that it serves.
    pub served: BTreeSet<Served>,
    /// It reads values from `ConfigMap`s (`valuesFrom`).
    pub config_maps: bool,
    /// A kind has a roll-out, whose charts are kept in Secrets of the operator's namespace.
    pub rollouts: bool,
    /// The chart's Roles are not copied: the operator may grant anything.
    pub escalate: bool,
    /// It carries out notices.
    pub notices: bool,
    /// The rights that the operator always needs are left out: records, events, pods and the lease.
    pub charts_only: bool,
    /// The accounts that it impersonates.
    pub impersonated: BTreeSet<Impersonated>,
}

/// `ServiceAccount`s that the operator impersonates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Impersonated {
    /// Where they are.
    pub reach: Reach,
    /// The name of one; `None` for all of them.
    pub name: Option<String>,
}

/// Whether a rule only lets the operator say more of what fails: it works without.
pub fn is_for_explanations(rule: &Rule) -> bool {
    let reads = |verb: &String| matches!(verb.as_str(), "get" | "list" | "watch");
    let is_of_pods = |resource: &String| matches!(resource.as_str(), "pods" | "pods/log");
    rule.part == Part::Own && rule.policy.resources.iter().all(is_of_pods) && rule.policy.verbs.iter().all(reads)
}

/// All rules for some charts. The same rule may be there more than once.
pub fn rules(charts: &[Rights], settings: &RunSettings) -> Vec<Rule> {
    let mut rules = Vec::new();
    operator(charts, settings, &mut rules);
    accounts(&settings.impersonated, &mut rules);
    for rights in charts {
        objects(rights, &mut rules);
        for (LookedUp { pair, reach }, files) in &rights.looked_up {
            let policy = Policy::new(&pair.group, &[&rights.resource(pair).plural], &["get", "list", "watch"]);
            let why = vec![format!("lookup of {}: {}", pair.kind, listed(files))];
            rules.push(Rule { reach: reach.clone(), part: Part::Lookups, policy, why });
        }
        granted(rights, settings.escalate, &mut rules);
    }
    rules
}

fn operator(charts: &[Rights], settings: &RunSettings, rules: &mut Vec<Rule>) {
    let mut add = |reach: Reach, group: &str, resources: &[&str], verbs: &[&str], why: &str| {
        rules.push(Rule {
            reach,
            part: Part::Own,
            policy: Policy::new(group, resources, verbs),
            why: vec![why.to_owned()],
        });
    };
    for Served { group, plural } in &settings.served {
        let (status, finalizers) = (format!("{plural}/status"), format!("{plural}/finalizers"));
        add(
            Reach::Release,
            group,
            &[plural],
            &["get", "list", "watch", "patch"],
            "the custom resources and their finalizers",
        );
        add(Reach::Release, group, &[&status], &["patch"], "their status");
        add(Reach::Release, group, &[&finalizers], &["update"], "to own objects whose deletion it blocks");
    }
    if !settings.charts_only {
        let secrets = ["get", "list", "watch", "create", "update", "patch", "delete"];
        add(Reach::Release, "", &["secrets"], &secrets, "the records of releases");
        add(Reach::Release, "", &["events"], &["create"], "events");
        add(
            Reach::Release,
            "",
            &["pods"],
            &["get", "list", "watch"],
            "causes of workloads that are not ready, and results of hooks and operations",
        );
        add(Reach::Release, "", &["pods/log"], &["get"], "the last lines of hooks and operations that failed");
        add(
            Reach::Operator,
            "coordination.k8s.io",
            &["leases"],
            &["get", "watch", "create", "patch"],
            "the lease of --leader-elect",
        );
    }
    if settings.notices {
        notices(&mut add);
    }
    if settings.rollouts {
        let verbs = ["get", "list", "create", "patch", "delete"];
        add(Reach::Operator, "", &["secrets"], &verbs, "rollout: the charts that are kept");
    }
    if settings.config_maps {
        add(Reach::Release, "", &["configmaps"], &["get", "list", "watch"], "valuesFrom");
    }
    if charts.iter().any(|rights| rights.has_members) {
        let all = ["get", "list", "watch", "delete"];
        add(Reach::Release, "", &["persistentvolumeclaims", "pods"], &all, "members: their pods and claims");
        add(Reach::Release, "", &["pods/eviction"], &["create"], "members that are replaced");
        add(Reach::Release, "batch", &["jobs"], &["get", "list", "watch", "create", "delete"], "members: scale hooks");
        let maps = ["get", "list", "watch", "create", "patch"];
        add(Reach::Release, "", &["configmaps"], &maps, "members: the settings that their containers start from");
    }
    let is_set = |pair: &Pair| (&*pair.group, &*pair.kind) == ("apps", "StatefulSet");
    if charts.iter().any(|rights| rights.made.keys().any(is_set)) {
        add(Reach::Release, "", &["persistentvolumeclaims"], &["get", "patch"], "larger volumes of StatefulSets");
    }
    if charts.iter().any(|rights| rights.labels_members) {
        add(Reach::Release, "", &["pods"], &["patch"], "members: the labels with their roles");
    }
    let crds: BTreeSet<String> = charts.iter().flat_map(|rights| rights.crds.iter().cloned()).collect();
    if !crds.is_empty() {
        let why = format!("definitions: {}", listed(&crds));
        add(Reach::Cluster, "apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "create", "update"], &why);
    }
}

/// `deploy/notices-role.yaml` is this.
fn notices(add: &mut impl FnMut(Reach, &str, &[&str], &[&str], &str)) {
    let why = "notices: the events that they have seen and have to send";
    add(Reach::Release, "tillerman.dev", &["notices"], &["get", "list", "watch"], "notices");
    add(Reach::Release, "tillerman.dev", &["notices/status"], &["patch"], why);
    add(Reach::Release, "", &["secrets"], &["get"], "notices: logins, links and keys of their targets");
    add(Reach::Release, "", &["pods"], &["list", "watch"], "notices about pods");
}

fn accounts(impersonated: &BTreeSet<Impersonated>, rules: &mut Vec<Rule>) {
    for Impersonated { reach, name } in impersonated {
        let mut policy = Policy::new("", &["serviceaccounts"], &["impersonate"]);
        policy.names.extend(name.clone());
        let why = vec!["serviceAccount: to act with the rights of these accounts alone".to_owned()];
        rules.push(Rule { reach: reach.clone(), part: Part::Own, policy, why });
    }
}

fn objects(rights: &Rights, rules: &mut Vec<Rule>) {
    for (pair, reaches) in &rights.made {
        let mut verbs = OBJECTS.to_vec();
        if *pair == Pair::new("apiextensions.k8s.io", "CustomResourceDefinition") {
            verbs.push("update");
        }
        let resource = rights.resource(pair);
        for (reach, files) in reaches {
            let doubt = if rights.is_known(pair) { "" } else { " (plural and scope by rule: check them)" };
            let why = vec![format!("{}: {}{doubt}", pair.kind, listed(files))];
            let policy = Policy::new(&pair.group, &[&resource.plural], &verbs);
            rules.push(Rule { reach: reach.clone(), part: Part::Objects, policy, why });
        }
    }
}

fn granted(rights: &Rights, escalate: bool, rules: &mut Vec<Rule>) {
    let granted = &rights.granted;
    if escalate {
        let kinds = |kinds: [&str; 2]| kinds.iter().any(|kind| rights.made.contains_key(&Pair::new(GROUP, *kind)));
        for (reach, is_needed) in [
            (Reach::Release, kinds(["Role", "RoleBinding"])),
            (Reach::Cluster, kinds(["ClusterRole", "ClusterRoleBinding"])),
        ] {
            if is_needed {
                let policy = Policy::new(GROUP, &["clusterroles", "roles"], &["bind", "escalate"]);
                let why = vec!["--escalate: Roles of the chart can grant anything".to_owned()];
                rules.push(Rule { reach, part: Part::Granted, policy, why });
            }
        }
        return;
    }
    for ((reach, policy), files) in &granted.rules {
        let why = vec![format!("granted by the chart's Roles: {}", listed(files))];
        rules.push(Rule { reach: reach.clone(), part: Part::Granted, policy: policy.clone(), why });
    }
    for ((reach, resource, name), files) in &granted.bound {
        let mut policy = Policy::new(GROUP, &[*resource], &["bind"]);
        policy.names.insert(name.clone());
        let why = vec![format!("bound by the chart: {}", listed(files))];
        rules.push(Rule { reach: reach.clone(), part: Part::Granted, policy, why });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::{Impersonated, RunSettings, Served, rules};
    use crate::rbac::rules::{Policy, merge};
    use crate::rbac::testing::chart;
    use crate::rbac::{Reach, Rights};
    use crate::template::yaml;

    fn shown(files: &[(&str, &str)], reach: &Reach, escalate: bool) -> Vec<String> {
        let served = [Served { group: "a.io".to_owned(), plural: "webs".to_owned() }].into();
        let settings = RunSettings { served, escalate, ..RunSettings::default() };
        let all = rules(&[Rights::of(&chart(files), &[])], &settings);
        merge(all.into_iter().filter(|rule| rule.reach == *reach).collect())
            .iter()
            .map(|rule| rule.policy.to_string())
            .collect()
    }

    #[test]
    fn an_operator_of_a_chart_has_what_it_needs_for_itself_and_for_the_objects() {
        let files = [("templates/a.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}")];
        let expected = [
            "{apiGroups: [a.io], resources: [webs], verbs: [get, list, watch, patch]}",
            "{apiGroups: [a.io], resources: [webs/status], verbs: [patch]}",
            "{apiGroups: [a.io], resources: [webs/finalizers], verbs: [update]}",
            "{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch, create, update, patch, delete]}",
            "{apiGroups: [\"\"], resources: [events], verbs: [create]}",
            "{apiGroups: [\"\"], resources: [pods], verbs: [get, list, watch]}",
            "{apiGroups: [\"\"], resources: [pods/log], verbs: [get]}",
            "{apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch, delete]}",
        ];
        assert_eq!(shown(&files, &Reach::Release, false), expected);
        assert_eq!(
            shown(&files, &Reach::Operator, false),
            ["{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, watch, create, patch]}"]
        );
        assert!(shown(&files, &Reach::Cluster, false).is_empty());
    }

    #[test]
    fn pods_are_labelled_where_members_have_roles() {
        let members = |driver: &str| {
            format!(
                "apiVersion: tillerman.dev/v1alpha1\nkind: Members\nmetadata: {{name: a, annotations: {{helm.sh/hook: members}}}}\n\
                 spec: {{driver: {driver}}}"
            )
        };
        let patches = |text: &str| {
            let rules = shown(&[("templates/a.yaml", text)], &Reach::Release, false);
            rules.iter().any(|rule| rule.contains("pods], verbs: [patch]"))
        };
        assert!(patches(&members("primary")));
        assert!(!patches(&members("etcd")) && !patches(&members("jobs")));
        let never = format!("{{{{ if .Values.on }}}}{}{{{{ end }}}}", members("jobs"));
        assert!(patches(&never), "nobody knows which driver it will be");
    }

    #[test]
    fn an_operator_of_notices_has_the_rights_of_the_role_in_deploy() {
        let settings = RunSettings { notices: true, charts_only: true, ..RunSettings::default() };
        let found = merge(rules(&[], &settings));
        assert!(found.iter().all(|rule| rule.reach == Reach::Release));
        let found: BTreeSet<String> = found.iter().map(|rule| rule.policy.to_string()).collect();
        let role = yaml::parse(include_bytes!("../../deploy/notices-role.yaml")).unwrap();
        let texts = |rule: &Value, field: &str| -> BTreeSet<String> {
            rule[field].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let policy = |rule: &Value| Policy {
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            verbs: texts(rule, "verbs"),
            ..Policy::default()
        };
        let written = role["rules"].as_array().unwrap().iter().map(|rule| policy(rule).to_string());
        assert_eq!(found, written.collect());
        let of_a_chart =
            [("templates/a.yaml", "apiVersion: tillerman.dev/v1alpha1\nkind: Notice\nmetadata: {name: a}")];
        let made =
            "{apiGroups: [tillerman.dev], resources: [notices], verbs: [get, list, watch, create, patch, delete]}";
        assert!(shown(&of_a_chart, &Reach::Release, false).contains(&made.to_owned()), "a chart that renders one");
        // An operator with all rights of its own needs two more rules, and the others say what else they are for.
        let all = |notices| merge(rules(&[], &RunSettings { notices, ..RunSettings::default() }));
        assert_eq!(all(true).len(), all(false).len() + 2);
        let secrets = all(true).into_iter().find(|rule| rule.policy.resources.contains("secrets")).unwrap();
        assert_eq!(secrets.why, ["the records of releases", "notices: logins, links and keys of their targets"]);
    }

    #[test]
    fn accounts_are_impersonated_where_they_are() {
        let one = Impersonated { reach: Reach::Release, name: Some("tenant".to_owned()) };
        let all = Impersonated { reach: Reach::Namespace("a".to_owned()), name: None };
        let settings = RunSettings { impersonated: [one, all].into(), ..RunSettings::default() };
        let found: Vec<_> = rules(&[], &settings)
            .into_iter()
            .filter(|rule| rule.policy.verbs.contains("impersonate"))
            .map(|rule| format!("{:?} {}", rule.reach, rule.policy))
            .collect();
        assert_eq!(
            found,
            [
                "Release {apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [tenant], verbs: [impersonate]}",
                "Namespace(\"a\") {apiGroups: [\"\"], resources: [serviceaccounts], verbs: [impersonate]}",
            ]
        );
    }

    #[test]
    fn a_role_is_copied_or_may_be_escalated() {
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n\
                    rules: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}]";
        let files = [("templates/a.yaml", role)];
        let own = "{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [get, list, watch, create, patch, delete]}";
        let copied = "{apiGroups: [\"\"], resources: [nodes], verbs: [get]}";
        assert_eq!(shown(&files, &Reach::Cluster, false), [own, copied]);
        let escalates =
            "{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles], verbs: [bind, escalate]}";
        assert_eq!(shown(&files, &Reach::Cluster, true), [own, escalates]);
    }
}
