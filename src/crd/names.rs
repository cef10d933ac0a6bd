//! The names of a chart's custom resource.

use crate::chart::Chart;

/// The names of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// API group, such as `apps.tillerman.dev`.
    pub group: String,
    /// Version, such as `v1alpha1`.
    pub version: String,
    /// Kind, such as `PhpApp`.
    pub kind: String,
    /// Plural in lower case, such as `phpapps`.
    pub plural: String,
    /// Whether custom resources are in a namespace.
    pub scope: Scope,
}

/// Whether the custom resources of a kind are in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Each is in one.
    #[default]
    Namespaced,
    /// None is: the kind belongs to the cluster.
    Cluster,
}

impl Scope {
    /// As a definition has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }
}

impl Names {
    /// The names that Chart.yaml's annotations `tillerman.dev/group`, `/version`, `/kind` and `/plural` give.
    /// Without them: operator-sdk's version `v1alpha1`, and the chart's name in camel case as kind.
    pub fn of_chart(chart: &Chart) -> Self {
        let annotation = |name: &str| chart.metadata.annotation(&format!("tillerman.dev/{name}")).map(str::to_owned);
        let kind = annotation("kind").unwrap_or_else(|| camel_case(&chart.metadata.name));
        let plural = annotation("plural").unwrap_or_else(|| plural(&kind));
        Self {
            group: annotation("group").unwrap_or_default(),
            version: annotation("version").unwrap_or_else(|| "v1alpha1".into()),
            kind,
            plural,
            scope: Scope::default(),
        }
    }
}

fn camel_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.map(|w| w[..1].to_ascii_uppercase() + &w[1..]).collect()
}

/// The plural of a kind, in lower case, by the rules that Kubernetes' own generators use.
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        [.., b's' | b'x' | b'z'] | [.., b'c' | b's', b'h'] => format!("{kind}es"),
        [.., before, b'y'] if !b"aeiou".contains(before) => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn plurals_follow_kubernetes() {
        for (kind, want) in [("PhpApp", "phpapps"), ("Proxy", "proxies"), ("Gateway", "gateways"), ("Redis", "redises")]
        {
            assert_eq!(plural(kind), want);
        }
    }
}
