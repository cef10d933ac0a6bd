//! The rules that the Roles of a chart grant, and the roles that its bindings bind.
//!
//! Kubernetes lets nobody create a Role that grants more than they have themselves. So an operator has to have what the Roles of its chart
//! grant: these rules are copied. A role that the chart binds and does not define needs the verb `bind` on it.
//!
//! Which rules a Role has depends on values, more than which kinds there are. So the chart is rendered with each of its flags turned on,
//! one at a time: only those templates that make Roles and bindings.

use super::read::Static;
use super::render::{self, Made, NAMESPACE, RELEASE, Rendered};
use super::rules::Policy;
use super::{Pair, Reach};
use crate::chart::{Chart, Values, values};
use crate::crd::{Evidence, each_value};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The group of Roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Roles and bindings.
const KINDS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// The rules and roles that Roles grant and bind, each with the templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The rules of Roles and `ClusterRoles`, where they hold.
    pub rules: BTreeMap<(Reach, Policy), BTreeSet<String>>,
    /// Roles that are bound and not defined: where, resource (`roles` or `clusterroles`) and name.
    pub bound: BTreeMap<(Reach, &'static str, String), BTreeSet<String>>,
    /// Templates with a `ClusterRole` that takes its rules from others.
    pub aggregated: BTreeSet<String>,
    /// Templates of Roles or bindings that no rendering made.
    pub unseen: BTreeSet<String>,
}

impl Granted {
    /// Whether there is nothing that needs a right.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.bound.is_empty() && self.aggregated.is_empty() && self.unseen.is_empty()
    }
}

pub(super) fn of(chart: &Chart, files: &[Evidence], read: &Static, made: &[Made]) -> Granted {
    let mut granted = Granted::default();
    let mut seen = BTreeSet::new();
    for objects in made.iter().filter_map(|made| made.result.as_ref().ok()) {
        granted.add(objects, &mut seen);
    }
    let pairs = KINDS.map(|kind| Pair::new(GROUP, kind));
    let templates: BTreeSet<String> = pairs.iter().filter_map(|pair| read.pairs.get(pair)).flatten().cloned().collect();
    if !templates.is_empty() {
        let mut roles = chart.clone();
        keep(&mut roles, "", &templates);
        toggle(&roles, files, |objects| granted.add(objects, &mut seen));
    }
    granted.unseen = templates.difference(&seen).cloned().collect();
    granted
}

/// Leaves out of a chart the templates that are not named, but for partials.
fn keep(chart: &mut Chart, path: &str, names: &BTreeSet<String>) {
    if !chart.is_minijinja() {
        chart.templates.retain(|file| {
            let is_partial = file.name.rsplit('/').next().is_some_and(|base| base.starts_with('_'));
            is_partial || names.contains(&format!("{path}{}", file.name))
        });
    }
    chart.memory = crate::chart::Memory::default();
    for child in &mut chart.dependencies {
        let below = format!("{path}charts/{}/", child.metadata.name);
        keep(child, &below, names);
    }
}

/// Renders a chart with each flag turned on. Where it does not render with its defaults, it is rendered with the first values file with
/// which it does.
fn toggle(chart: &Chart, files: &[Evidence], mut see: impl FnMut(&[Rendered])) {
    let bases = std::iter::once(Values::new()).chain(files.iter().map(|file| file.values.clone()));
    let mut rendered = bases.map(|base| (render::objects(chart, &base), base));
    let Some((Ok(objects), base)) = rendered.find(|(result, _)| result.is_ok()) else { return };
    see(&objects);
    let mut flags = BTreeSet::new();
    each_value(chart, &mut |path, value| {
        if *value == Value::Bool(false) {
            flags.insert(path.to_vec());
        }
    });
    for path in flags {
        let mut on = base.clone();
        values::merge(&mut on, nest(&path, Value::Bool(true)));
        if let Ok(objects) = render::objects(chart, &on) {
            see(&objects);
        }
    }
}

/// Values with one value at a path.
pub(crate) fn nest(path: &[String], value: Value) -> Values {
    let mut nested = value;
    for key in path.iter().rev() {
        nested = Value::Object(Map::from_iter([(key.clone(), nested)]));
    }
    match nested {
        Value::Object(values) => values,
        _ => Values::new(),
    }
}

impl Granted {
    /// Adds what the objects of one rendering grant and bind.
    fn add(&mut self, objects: &[Rendered], seen: &mut BTreeSet<String>) {
        let ours: Vec<&Rendered> =
            objects.iter().filter(|o| o.pair.group == GROUP && KINDS.contains(&o.pair.kind.as_str())).collect();
        let name = |body: &Map<String, Value>, pointer: [&str; 2]| -> String {
            let found = body.get(pointer[0]).and_then(|value| value.get(pointer[1])).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let key = |object: &Rendered| {
            let namespace = if object.pair.kind == "Role" { object.namespace.clone() } else { None };
            (object.pair.kind.clone(), namespace, name(&object.body, ["metadata", "name"]))
        };
        let defined: BTreeSet<_> = ours.iter().filter(|o| !o.pair.kind.ends_with("Binding")).map(|o| key(o)).collect();
        for object in ours {
            seen.insert(object.file.clone());
            let reach = match (&*object.pair.kind, &object.namespace) {
                ("ClusterRole" | "ClusterRoleBinding", _) => Reach::Cluster,
                (_, None) => Reach::Release,
                (_, Some(namespace)) => Reach::Namespace(namespace.clone()),
            };
            let file = object.file.clone();
            if object.pair.kind.ends_with("Binding") {
                let (kind, name) = (name(&object.body, ["roleRef", "kind"]), name(&object.body, ["roleRef", "name"]));
                let namespace = if kind == "Role" { object.namespace.clone() } else { None };
                if name.is_empty() || defined.contains(&(kind.clone(), namespace, name.clone())) {
                    continue;
                }
                let resource = if kind == "Role" { "roles" } else { "clusterroles" };
                // A name that depends on the release is that of a role which other values make.
                if !depends_on_release(&name) {
                    self.bound.entry((reach, resource, name)).or_default().insert(file);
                }
                continue;
            }
            if object.body.contains_key("aggregationRule") {
                self.aggregated.insert(file.clone());
            }
            for rule in object.body.get("rules").and_then(Value::as_array).into_iter().flatten() {
                if let Some(policy) = policy(rule) {
                    self.rules.entry((reach.clone(), policy)).or_default().insert(file.clone());
                }
            }
        }
    }
}

fn depends_on_release(name: &str) -> bool {
    name.contains(RELEASE) || name.contains(NAMESPACE)
}

/// A rule of a Role. Names that depend on the release would be others for each custom resource, so such a rule gets none.
fn policy(rule: &Value) -> Option<Policy> {
    let texts = |key: &str| -> BTreeSet<String> {
        let items = rule.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut names = texts("resourceNames");
    if names.iter().any(|name| depends_on_release(name)) {
        names.clear();
    }
    let policy = Policy {
        groups: texts("apiGroups"),
        resources: texts("resources"),
        names,
        urls: texts("nonResourceURLs"),
        verbs: texts("verbs"),
    };
    let is_of_resources = !policy.groups.is_empty() && !policy.resources.is_empty();
    (!policy.verbs.is_empty() && (is_of_resources || !policy.urls.is_empty())).then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::{Reach, of};
    use crate::rbac::testing::chart;
    use crate::rbac::{read, render};

    fn granted(template: &str, values: &str) -> super::Granted {
        let chart = chart(&[
            ("values.yaml", values),
            ("templates/roles.yaml", template),
            // The failure of another template has no influence.
            ("templates/fails.yaml", "{{ if .Values.wide }}{{ fail \"no\" }}{{ end }}"),
        ]);
        of(&chart, &[], &read::chart(&chart), &render::all(&chart, &[]))
    }

    fn role(kind: &str, rest: &str) -> String {
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {{{{ .Release.Name }}}}}}\n{rest}\n"
        )
    }

    #[test]
    fn rules_of_roles_are_copied_with_those_behind_flags() {
        let rule = "rules:\n- {apiGroups: [\"\"], resources: [pods], verbs: [get]}\n";
        let more = "{{ if .Values.wide }}\n- {apiGroups: [apps], resources: [deployments], verbs: [\"*\"]}\n{{ end }}";
        let found = granted(&role("Role", &format!("{rule}{more}")), "wide: false\n");
        let shown: Vec<String> = found.rules.keys().map(|(reach, policy)| format!("{reach:?} {policy}")).collect();
        assert_eq!(
            shown,
            [
                "Release {apiGroups: [\"\"], resources: [pods], verbs: [get]}",
                "Release {apiGroups: [apps], resources: [deployments], verbs: [\"*\"]}"
            ]
        );
        assert!(found.unseen.is_empty());
    }

    #[test]
    fn names_that_depend_on_the_release_are_left_out_and_others_are_not() {
        let rules = "rules:\n- {apiGroups: [\"\"], resources: [secrets], resourceNames: [{{ .Release.Name }}-a], verbs: [get]}\n\
                     - {apiGroups: [\"\"], resources: [pods], resourceNames: [b], verbs: [get]}\n- {nonResourceURLs: [/metrics], verbs: [get]}\n";
        let found = granted(&role("ClusterRole", rules), "");
        let shown: Vec<String> = found.rules.keys().map(|(_, policy)| policy.to_string()).collect();
        assert_eq!(
            shown,
            [
                "{nonResourceURLs: [/metrics], verbs: [get]}",
                "{apiGroups: [\"\"], resources: [pods], resourceNames: [b], verbs: [get]}",
                "{apiGroups: [\"\"], resources: [secrets], verbs: [get]}",
            ]
        );
        assert!(found.rules.keys().all(|(reach, _)| *reach == Reach::Cluster));
    }

    #[test]
    fn a_role_that_is_bound_and_not_defined_is_foreign() {
        let binding = |kind: &str, of: &str, name: &str| {
            role(kind, &format!("roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {of}, name: {name}}}"))
        };
        let text = role("Role", "rules: []")
            + &binding("RoleBinding", "Role", "{{ .Release.Name }}")
            + &binding("ClusterRoleBinding", "ClusterRole", "system:auth-delegator")
            + &binding("RoleBinding", "ClusterRole", "view");
        let found = granted(&text, "");
        let shown: Vec<String> =
            found.bound.keys().map(|(reach, what, name)| format!("{reach:?} {what} {name}")).collect();
        assert_eq!(shown, ["Release clusterroles view", "Cluster clusterroles system:auth-delegator"]);
    }

    #[test]
    fn a_template_of_roles_that_was_never_rendered_is_reported() {
        let found =
            granted(&format!("{{{{ if eq .Values.a \"x\" }}}}\n{}{{{{ end }}}}", role("Role", "rules: []")), "a: b\n");
        assert!(found.rules.is_empty() && found.unseen.contains("templates/roles.yaml"), "{found:?}");
    }
}
