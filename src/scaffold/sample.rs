//! The sample of a kind: a custom resource that works, with the chart's documented values as comments.

use super::Api;
use crate::chart::{Chart, Values};
use crate::template::yaml::{self, EmitError};
use std::fmt::Write as _;

/// A line of values.yaml that is longer is cut: it is there to be read.
const WIDEST: usize = 400;

/// The sample. `spec` has the values without which the chart does not render, from the file `from` of the chart; it is empty where the
/// defaults do.
///
/// # Errors
/// If a value cannot be written as YAML.
pub fn of(api: &Api, chart: &Chart, spec: &Values, from: Option<&str>) -> Result<Vec<u8>, EmitError> {
    let mut out = format!(
        "apiVersion: {}/{}\nkind: {}\nmetadata:\n  name: {}-sample\n",
        api.group,
        api.version,
        api.kind,
        api.kind.to_ascii_lowercase()
    );
    if spec.is_empty() {
        out.push_str("spec: {}\n");
    } else {
        if let Some(from) = from {
            let _ = writeln!(out, "# The chart does not render without values. These are from its {from}.");
        }
        out.push_str("spec:\n");
        let text = yaml::of_json(&serde_json::Value::Object(spec.clone()))?;
        indented(&text, "  ", &mut out);
    }
    let documented =
        chart.values_text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
    let name = format!("{} {}", chart.metadata.name, chart.metadata.version);
    if documented.trim().is_empty() {
        let _ = writeln!(out, "# The chart {name} documents no values.");
    } else {
        let _ = write!(
            out,
            "\n# The values of the chart {name}, as its values.yaml documents them. Values that are not in spec have \
             these defaults.\n# `kubectl explain {}.spec` lists them too.\n#\n",
            api.plural
        );
        indented(&documented, "#   ", &mut out);
    }
    Ok(out.into_bytes())
}

/// Each line after a prefix. No character of it ends a line or a comment of YAML.
fn indented(text: &str, prefix: &str, out: &mut String) {
    for line in text.trim_end().lines() {
        let shown: String = line
            .chars()
            .filter(|c| *c == '\t' || !c.is_control())
            .filter(|c| !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
            .collect();
        let shown: String = if prefix.starts_with('#') { shown.chars().take(WIDEST).collect() } else { shown };
        let _ = writeln!(out, "{}", format!("{prefix}{shown}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::chart::{Chart, ChartLimits, File, load_files};
    use crate::scaffold::Api;
    use serde_json::json;

    fn chart(values: &str) -> Chart {
        let file = |name: &str, text: &str| File { name: name.into(), data: text.as_bytes().to_vec().into() };
        let files =
            vec![file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n"), file("values.yaml", values)];
        load_files(files, &ChartLimits::default()).unwrap()
    }

    fn api() -> Api {
        Api {
            group: "apps.example.com".into(),
            version: "v1".into(),
            kind: "Web".into(),
            plural: "webs".into(),
            ..Api::default()
        }
    }

    #[test]
    fn values_are_comments_whatever_is_in_them() {
        let text = of(
            &api(),
            &chart("# How many.\nreplicas: 1\n\ntext: \"a\u{2028}b\"\n"),
            &json!({}).as_object().unwrap().clone(),
            None,
        )
        .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("#   # How many.\n#   replicas: 1\n#\n#   text: \"ab\"\n"), "{text}");
        let parsed = crate::template::yaml::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed["spec"], json!({}));
    }

    #[test]
    fn values_that_are_needed_are_values() {
        let spec = json!({"password": "x\ny", "list": [1, {"a": null}]}).as_object().unwrap().clone();
        let text = of(&api(), &chart("a: 1\n"), &spec, Some("ci/test-values.yaml")).unwrap();
        let parsed = crate::template::yaml::parse(&text).unwrap();
        assert_eq!(parsed["spec"]["password"], "x\ny", "{}", String::from_utf8_lossy(&text));
    }
}
