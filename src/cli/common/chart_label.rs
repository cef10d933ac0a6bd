//! The name and the version of a chart in one word, as the label `helm.sh/chart` has them.

/// Splits `my-chart-1.2.3` before its version: at the first dash before a digit that numbers and dots follow.
pub fn name_and_version(label: &str) -> (&str, &str) {
    let is_version = |text: &str| {
        let number = text.split(['-', '+']).next().unwrap_or_default().trim_start_matches('v');
        number.split('.').count() > 1
            && number.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let dashes = label.match_indices('-').map(|(at, _)| (&label[..at], &label[at + 1..]));
    dashes.into_iter().find(|(_, rest)| is_version(rest)).unwrap_or((label, ""))
}

#[cfg(test)]
mod tests {
    use super::name_and_version;

    #[test]
    fn a_chart_is_its_name_and_its_version() {
        let table = [
            ("web-1.2.3", ("web", "1.2.3")),
            ("my-2-web-1.2.3-rc.1+x", ("my-2-web", "1.2.3-rc.1+x")),
            ("web-v1.0.0", ("web", "v1.0.0")),
            ("web", ("web", "")),
            ("", ("", "")),
        ];
        for (label, expected) in table {
            assert_eq!(name_and_version(label), expected);
        }
    }
}
