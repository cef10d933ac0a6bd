//! The objects that a new `watches.yaml` allows a chart: those of its own files, and none that values could add.

use crate::rbac::{Reach, Rights};
use std::collections::BTreeSet;

/// The fields `namespaces` and `clusterScoped` for a chart, as YAML.
pub fn of(rights: &Rights) -> (String, String) {
    let mut kinds = BTreeSet::new();
    let mut namespaces = BTreeSet::new();
    for (pair, reaches) in &rights.made {
        if !rights.resource(pair).namespaced {
            kinds.insert(pair.to_string());
        }
        namespaces.extend(reaches.keys().filter_map(named));
    }
    let lookups = rights.looked_up.keys().filter(|lookup| rights.resource(&lookup.pair).namespaced);
    let mut everywhere = false;
    for lookup in lookups {
        everywhere |= lookup.reach == Reach::Cluster;
        namespaces.extend(named(&lookup.reach));
    }
    let namespaces = match (everywhere, namespaces.is_empty()) {
        (true, _) => "any".to_owned(),
        (false, true) => "own".to_owned(),
        (false, false) => list(&namespaces),
    };
    let cluster_scoped = if kinds.is_empty() { "false".to_owned() } else { list(&kinds) };
    (namespaces, cluster_scoped)
}

fn named(reach: &Reach) -> Option<String> {
    match reach {
        Reach::Namespace(name) => Some(name.clone()),
        Reach::Release | Reach::Operator | Reach::Cluster => None,
    }
}

fn list(names: &BTreeSet<String>) -> String {
    format!("[{}]", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::rbac::{LookedUp, Pair, Reach, Rights};

    #[test]
    fn a_chart_may_make_what_it_makes() {
        let mut rights = Rights::default();
        let made = |rights: &mut Rights, group: &str, kind: &str, reach: Reach| {
            rights
                .made
                .entry(Pair::new(group, kind))
                .or_default()
                .insert(reach, std::iter::once("a.yaml".to_owned()).collect());
        };
        made(&mut rights, "apps", "Deployment", Reach::Release);
        assert_eq!(of(&rights), ("own".into(), "false".into()));
        made(&mut rights, "rbac.authorization.k8s.io", "ClusterRole", Reach::Cluster);
        made(&mut rights, "rbac.authorization.k8s.io", "RoleBinding", Reach::Namespace("kube-system".into()));
        assert_eq!(of(&rights), ("[kube-system]".into(), "[ClusterRole.rbac.authorization.k8s.io]".into()));
        let secrets = LookedUp { pair: Pair::new("", "Secret"), reach: Reach::Cluster };
        rights.looked_up.entry(secrets).or_default();
        assert_eq!(of(&rights).0, "any");
    }
}
