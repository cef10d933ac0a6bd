//! From rendered files to manifests and hooks in Helm's order.

use super::{Hook, Manifest};
use crate::template::functions::text;
use crate::template::yaml::{self, Head, YamlError};

/// The order in which Helm installs kinds; others come last, by name.
pub const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The hook events that Helm knows; `test-success` is an old name of `test`.
pub const EVENTS: [&str; 9] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

/// The text of a file that is not UTF-8. In notes, U+FFFD replaces the invalid bytes.
pub(super) fn escaped(name: &str, bytes: &[u8]) -> String {
    if name.ends_with("NOTES.txt") {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    text::escaped(bytes).into_owned()
}

/// The part of a document that Helm reads. It refuses one that is not UTF-8.
pub(super) fn head(document: &str) -> Result<Head, yaml::YamlError> {
    yaml::head(&text::unescaped(document))
}

/// The parts that [`sort`] separates.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Objects in Helm's order of installation.
    pub manifests: Vec<Manifest>,
    /// Hooks in Helm's order.
    pub hooks: Vec<Hook>,
    /// Hooks of events that Helm does not know and skips.
    pub unknown: Vec<Hook>,
}

/// Which file holds a document that is not YAML, or whose head has wrong types; the words are Helm's.
#[derive(Debug, thiserror::Error)]
#[error("YAML parse error on {path}: {error}")]
pub struct ManifestError {
    /// The file.
    path: String,
    /// Why.
    error: YamlError,
}

/// Sorts rendered files into manifests and hooks. `files` are in the order of their names.
pub fn sort(files: &[(String, String)]) -> Result<Sorted, ManifestError> {
    let mut sorted = Sorted::default();
    for (path, text) in files {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') || text.trim().is_empty() {
            continue;
        }
        for document in split(text) {
            let head = head(document).map_err(|error| ManifestError { path: path.clone(), error })?;
            place(path, document, head, &mut sorted);
        }
    }
    sorted.manifests.sort_by(|a, b| rank(&a.kind).cmp(&rank(&b.kind)));
    sorted.hooks.sort_by(|a, b| rank(&a.manifest.kind).cmp(&rank(&b.manifest.kind)));
    Ok(sorted)
}

fn place(path: &str, document: &str, head: Head, sorted: &mut Sorted) {
    let annotation = |name: &str| head.annotations.get(name).cloned();
    let list = |name: &str| {
        annotation(name).map_or_else(Vec::new, |v| v.split(',').map(|s| s.trim().to_lowercase()).collect())
    };
    let events = annotation("helm.sh/hook").map(|v| {
        v.split(',')
            .map(|event| match event.trim().to_lowercase().as_str() {
                "test-success" => "test".to_owned(),
                event => event.to_owned(),
            })
            .collect::<Vec<_>>()
    });
    let hook_details = events.map(|events| {
        let weight = annotation("helm.sh/hook-weight").and_then(|w| w.parse().ok()).unwrap_or(0);
        (events, weight, list("helm.sh/hook-delete-policy"), list("helm.sh/hook-output-log-policy"))
    });
    let manifest = Manifest {
        source: path.into(),
        text: document.into(),
        api_version: head.api_version,
        kind: head.kind,
        name: head.name,
    };
    match hook_details {
        None => sorted.manifests.push(manifest),
        Some((events, weight, delete_policies, output_log_policies)) => {
            let known = events.iter().all(|e| EVENTS.contains(&e.as_str()));
            let list = if known { &mut sorted.hooks } else { &mut sorted.unknown };
            list.push(Hook { manifest, events, weight, delete_policies, output_log_policies });
        }
    }
}

/// Known kinds by their place, then unknown kinds by name.
fn rank(kind: &str) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|k| *k == kind) {
        Some(at) => (at, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

/// Documents of a stream. The separator is `---` followed by blanks at the start of any line, whatever follows.
pub fn split(text: &str) -> Vec<&str> {
    let text = text.trim_start();
    let mut documents = Vec::new();
    let mut from = 0;
    let mut separator = text.starts_with("---").then_some(0);
    loop {
        if let Some(at) = separator {
            documents.push(&text[from..at]);
            from = text.len() - text[at + 3..].trim_start_matches([' ', '\t']).len();
        }
        match memchr::memmem::find(&text.as_bytes()[from..], b"\n---") {
            Some(line_break) => separator = Some(from + line_break + 1),
            None => break,
        }
    }
    documents.push(&text[from..]);
    documents.into_iter().map(str::trim_start).filter(|d| !d.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_separator_splits_wherever_a_line_starts_with_it() {
        assert_eq!(split("---\na: 1\n---\nb: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(split("a: 1\n---b: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(split("a: |\n---  \n  x\n"), ["a: |\n", "x\n"]);
        assert_eq!(split("\n\n  a: 1\n\n\n"), ["a: 1\n\n\n"]);
        assert_eq!(split("a: ---\n---\n---\n# only a comment\n"), ["a: ---\n", "# only a comment\n"]);
        assert!(split("---\n---\n").is_empty());
    }
}
