//! Checks of Chart.yaml.

use super::{LintReport, address, later};
use crate::chart::{Metadata, MetadataError};
use crate::template::version::Version;
use crate::template::yaml;
use serde_json::Value;
use std::path::Path;

const FILE: &str = "Chart.yaml";

/// Chart.yaml's fields, and those of its lists.
const FIELDS: [&str; 17] = [
    "name",
    "home",
    "sources",
    "version",
    "description",
    "keywords",
    "maintainers",
    "icon",
    "apiVersion",
    "condition",
    "tags",
    "appVersion",
    "deprecated",
    "annotations",
    "kubeVersion",
    "dependencies",
    "type",
];
const MAINTAINER: [&str; 3] = ["name", "email", "url"];
const DEPENDENCY: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

/// Checks the file in a chart's folder.
pub fn check(folder: &Path, report: &mut LintReport) {
    let path = folder.join(FILE);
    if path.is_dir() {
        report.error(FILE, "should be a file, not a directory");
    }
    let text = std::fs::read(&path).map_err(|e| format!("read {}: {}", path.display(), crate::chart::go_io(&e)));
    let read = text.and_then(|text| {
        let document = yaml::parse(&text).map_err(|e| e.to_string())?;
        let mut metadata = Metadata::default();
        let problem = metadata.update(&document).err();
        Ok((text, document, metadata, problem))
    });
    let (text, document, metadata) = match read {
        Err(e) => return report.error(FILE, format!("unable to parse YAML\n\t{e}")),
        Ok((.., Some(MetadataError::Validation(_)))) => return report.error(FILE, "a maintainer entry is empty"),
        Ok((.., Some(e))) => {
            let problem = format!("error unmarshaling JSON: while decoding JSON: {e}");
            return report.error(FILE, format!("unable to parse YAML\n\t{problem}"));
        }
        Ok((text, document, metadata, None)) => (text, document, metadata),
    };
    if let Some(problem) = strictly(&text, &document) {
        report.warning(FILE, format!("failed to strictly parse chart metadata file\n\t{problem}"));
    }
    for problem in problems(&document, &metadata).into_iter().flatten() {
        report.error(FILE, problem);
    }
    after_maintainers(&metadata, report);
    later::chartfile(&document, FILE, report);
}

/// The first error of a strict reading: duplicate keys, then unknown keys.
fn strictly(text: &[u8], document: &Value) -> Option<String> {
    let read = serde_saphyr::from_slice::<serde::de::IgnoredAny>(text);
    if let Err(e) = read
        && let serde_saphyr::Error::DuplicateMappingKey { key, location } = e.without_snippet()
    {
        let key = key.as_deref().unwrap_or_default();
        let line = location.line();
        return Some(format!(
            "error converting YAML to JSON: yaml: unmarshal errors:\n  line {line}: key \"{key}\" already set in map"
        ));
    }
    let key = unknown(document, &FIELDS)?;
    let key = crate::template::go::quote::quoted(key.as_bytes());
    Some(format!("error unmarshaling JSON: while decoding JSON: json: unknown field {key}"))
}

/// The first key, in their order by name, that is none of the fields.
fn unknown(value: &Value, fields: &[&str]) -> Option<String> {
    let mut entries: Vec<_> = value.as_object()?.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in entries {
        let Some(field) = fields.iter().find(|field| field.eq_ignore_ascii_case(key)) else { return Some(key.clone()) };
        let below: &[&str] = match *field {
            "maintainers" => &MAINTAINER,
            "dependencies" => &DEPENDENCY,
            _ => continue,
        };
        if let Some(found) = value.as_array().into_iter().flatten().find_map(|item| unknown(item, below)) {
            return Some(found);
        }
    }
    None
}

/// The checks that Helm makes of name, version and maintainers, in its order.
fn problems(document: &Value, metadata: &Metadata) -> Vec<Option<String>> {
    vec![
        name(&metadata.name),
        api_version(&metadata.api_version),
        of_type_string(document, "version"),
        version(&metadata.version),
        of_type_string(document, "appVersion"),
        metadata.maintainers.iter().find_map(|m| {
            if m.name.is_empty() {
                return Some("each maintainer requires a name".into());
            }
            if !m.email.is_empty() && !address::is_email(&m.email) {
                return Some(format!("invalid email '{}' for maintainer '{}'", m.email, m.name));
            }
            (!m.url.is_empty() && !address::is_url(&m.url))
                .then(|| format!("invalid url '{}' for maintainer '{}'", m.url, m.name))
        }),
        metadata
            .sources
            .iter()
            .find(|source| !address::is_request_url(source))
            .map(|source| format!("invalid source URL '{source}'")),
    ]
}

fn after_maintainers(metadata: &Metadata, report: &mut LintReport) {
    if metadata.icon.is_empty() {
        report.info(FILE, "icon is recommended");
    } else if !address::is_request_url(&metadata.icon) {
        report.error(FILE, format!("invalid icon URL '{}'", metadata.icon));
    }
    let version = &metadata.api_version;
    if !metadata.r#type.is_empty() && version != "v2" {
        report
            .error(FILE, format!("chart type is not valid in apiVersion '{version}'. It is valid in apiVersion 'v2'"));
    }
    if !metadata.dependencies.is_empty() && version != "v2" {
        report.error(
            FILE,
            format!(
                "dependencies are not valid in the Chart file with apiVersion '{version}'. They are valid in apiVersion \
                 'v2'"
            ),
        );
    }
    if Version::parse_strict(&metadata.version).is_err() {
        report.warning(FILE, format!("version '{}' is not a valid SemVerV2", metadata.version));
    }
}

fn name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("name is required".into());
    }
    let is_path = name.contains('/');
    is_path.then(|| format!("chart name {} is invalid", crate::template::go::quote::quoted(name.as_bytes())))
}

fn api_version(version: &str) -> Option<String> {
    match version {
        "" => Some("apiVersion is required. The value must be either \"v1\" or \"v2\"".into()),
        "v1" | "v2" => None,
        other => Some(format!("apiVersion '{other}' is not valid. The value must be either \"v1\" or \"v2\"")),
    }
}

fn version(version: &str) -> Option<String> {
    if version.is_empty() {
        return Some("version is required".into());
    }
    if Version::parse(version).is_err() {
        return Some(format!("version '{version}' is not a valid SemVer"));
    }
    let release = version.split('+').next().unwrap_or_default().trim_start_matches('v');
    (release == "0.0.0-0").then(|| format!("version \"{version}\" is less than or equal to \"0.0.0-0\""))
}

/// Keys that are read as strings, but written as something else.
fn of_type_string(document: &Value, key: &str) -> Option<String> {
    let go_type = match document.get(key)? {
        Value::String(_) => return None,
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let go_type = if go_type.starts_with('%') { "<nil>" } else { go_type };
    Some(format!("{key} should be of type string but it's of type {go_type}"))
}

#[cfg(test)]
mod tests {
    use super::{of_type_string, strictly, version};
    use serde_json::json;

    #[test]
    fn what_a_strict_reading_refuses_is_named() {
        let problem = |text: &str| strictly(text.as_bytes(), &crate::template::yaml::parse(text.as_bytes()).unwrap());
        assert_eq!(problem("name: a\nAPIVERSION: v2\n"), None);
        assert!(problem("name: a\nmaintainer: b\n").unwrap().ends_with("json: unknown field \"maintainer\""));
        assert!(problem("dependencies:\n- nam: b\n").unwrap().ends_with("json: unknown field \"nam\""));
        assert!(problem("name: a\nname: b\n").unwrap().ends_with("line 2: key \"name\" already set in map"));
    }

    #[test]
    fn versions_are_texts_of_numbers() {
        assert_eq!(version("1.2.3"), None);
        assert_eq!(version("one").unwrap(), "version 'one' is not a valid SemVer");
        let problem = of_type_string(&json!({"version": 1.2}), "version").unwrap();
        assert_eq!(problem, "version should be of type string but it's of type float64");
    }
}
