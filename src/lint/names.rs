//! The names that Kubernetes takes for objects of a kind, in the words of its validation.

use crate::template::go::quote;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// The fault of an object's name, in the words of Helm's linter.
pub fn problem(kind: &str, name: &str) -> Option<String> {
    let problems = match kind.to_lowercase().as_str() {
        "service" => dns_1035_label(name),
        "namespace" => dns_1123_label(name),
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        _ => dns_1123_subdomain(name),
    };
    if problems.is_empty() {
        return None;
    }
    let name = quote::quoted(name.as_bytes());
    let texts: Vec<_> = problems.iter().map(|text| format!("metadata.name: Invalid value: {name}: {text}")).collect();
    let all = texts.join(", ");
    let all = if texts.len() == 1 { all } else { format!("[{all}]") };
    Some(format!("object name does not conform to Kubernetes naming requirements: {name}: {all}"))
}

fn is_label(text: &str, first: impl Fn(u8) -> bool) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.bytes().next().is_some_and(first)
        && text.bytes().next_back().is_some_and(alphanumeric)
        && text.bytes().all(|b| alphanumeric(b) || b == b'-')
}

fn alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

fn dns_1123_subdomain(name: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(name, 253).into_iter().collect();
    if !name.split('.').all(|label| is_label(label, alphanumeric)) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{LABEL}(\\.{LABEL})*')"
        ));
    }
    problems
}

fn dns_1123_label(name: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(name, 63).into_iter().collect();
    if is_label(name, alphanumeric) {
        return problems;
    }
    problems.push(if name.split('.').all(|label| is_label(label, alphanumeric)) {
        "must not contain dots".into()
    } else {
        format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
        )
    });
    problems
}

fn dns_1035_label(name: &str) -> Vec<String> {
    let mut problems: Vec<_> = too_long(name, 63).into_iter().collect();
    if !is_label(name, |b| b.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    problems
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn each_kind_has_its_names() {
        for (kind, name, good) in [
            ("Pod", "a.b-c", true),
            ("Pod", "", false),
            ("Pod", "A", false),
            ("Service", "1a", false),
            ("Service", "a1", true),
            ("Namespace", "a.b", false),
            ("ClusterRole", "system:a", true),
            ("ClusterRole", "a/b", false),
            ("CertificateSigningRequest", "%", true),
        ] {
            assert_eq!(problem(kind, name).is_none(), good, "{kind} {name}");
        }
        assert_eq!(
            problem("Role", "a/%").unwrap(),
            "object name does not conform to Kubernetes naming requirements: \"a/%\": [metadata.name: Invalid value: \
             \"a/%\": may not contain '/', metadata.name: Invalid value: \"a/%\": may not contain '%']"
        );
    }
}
