//! `index.yaml`, the contents of a repository (Helm's `pkg/repo/v1/index.go`).

use super::{Messages, SourceError, fail, logged};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tillerman_render::chart::{Metadata, MetadataError, field};
use tillerman_render::template::version::{Constraints, Version};
use tillerman_render::template::yaml;

/// A version of a chart in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartVersion {
    /// The version, as it is written.
    pub version: String,
    /// Where the archive is, absolute or as seen from the repository.
    pub urls: Vec<String>,
    /// SHA-256 of the archive in hexadecimal digits, with or without `sha256:` in front; empty when not given.
    pub digest: String,
}

/// The charts of a repository, or the requested ones.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Versions by chart, the newest first.
    pub entries: BTreeMap<String, Vec<ChartVersion>>,
}

impl Index {
    /// Reads an index. With `chart`, only this one's entries are read: an index may have tens of megabytes, and a
    /// mistake in the entry of another chart does no harm. `source` is named in warnings.
    pub fn parse(data: &[u8], chart: Option<&str>, source: &str, messages: &Messages) -> Result<Self, SourceError> {
        if data.is_empty() {
            return fail("empty index.yaml file");
        }
        let document = document(data, chart)?;
        let Value::Object(fields) = &document else {
            return fail(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal into Go value of type repo.IndexFile",
            );
        };
        let mut index = Self::default();
        if let Some(Value::Object(entries)) = field(fields, "entries") {
            for (name, versions) in entries {
                if chart.is_some_and(|chart| chart != name) {
                    continue;
                }
                let versions = versions.as_array().map(Vec::as_slice).unwrap_or_default();
                index.entries.insert(name.clone(), read_versions(name, versions, source, messages)?);
            }
        }
        if field(fields, "apiVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
            return fail("no API version specified");
        }
        Ok(index)
    }

    /// Reads the index in a file.
    pub fn load(path: &std::path::Path, chart: Option<&str>, messages: &Messages) -> Result<Self, SourceError> {
        let data = super::read(path)?;
        let name = path.display().to_string();
        Self::parse(&data, chart, &name, messages).map_err(|e| SourceError(format!("error loading {name}: {e}")))
    }

    /// The requested version of a chart: exactly this one; if there is none, the newest that fits the constraint;
    /// without a constraint, the newest that is not a prerelease.
    pub fn get(&self, name: &str, version: &str, messages: &Messages) -> Result<&ChartVersion, SourceError> {
        let Some(versions) = self.entries.get(name) else { return fail("no chart name found") };
        if versions.is_empty() {
            return fail("no chart version found");
        }
        let constraint = Constraints::parse(if version.is_empty() { "*" } else { version })
            .map_err(|e| SourceError(e.to_string()))?;
        if let Some(same) = versions.iter().find(|v| !version.is_empty() && v.version == version) {
            return Ok(same);
        }
        let fits = |v: &&ChartVersion| Version::parse(&v.version).is_ok_and(|v| constraint.check(&v));
        let Some(found) = versions.iter().find(fits) else {
            return fail(format!("no chart version found for {name}-{version}"));
        };
        if !version.is_empty() && !is_range(version) {
            (messages.warn)(&format!(
                "level=WARN msg=\"unable to find exact version requested; falling back to closest available version\" \
                 chart={} requested={} selected={}\n",
                logged(name),
                logged(version),
                logged(&found.version)
            ));
        }
        Ok(found)
    }
}

/// Whether a text asks for more than one version.
fn is_range(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    version.contains(['^', '~', '<', '>', '=', '!', '*'])
        || version.contains("||")
        || version.contains(" - ")
        || core.contains(['x', 'X'])
}

fn read_versions(
    name: &str,
    entries: &[Value],
    source: &str,
    messages: &Messages,
) -> Result<Vec<ChartVersion>, SourceError> {
    let mut versions: Vec<(Option<Version>, ChartVersion)> = Vec::new();
    // Helm looks at the last entry first; its warnings come in this order.
    for entry in entries.iter().rev() {
        let Value::Object(fields) = entry else {
            (messages.warn)(&format!(
                "level=WARN msg=\"skipping loading invalid entry for chart: empty entry\" name={} source={}\n",
                logged(name),
                logged(source)
            ));
            continue;
        };
        let mut metadata = Metadata::default();
        metadata
            .update(entry)
            .map_err(|e| SourceError(format!("error unmarshaling JSON: while decoding JSON: {e}")))?;
        if metadata.api_version.is_empty() {
            metadata.api_version = "v1".into();
        }
        match metadata.validate() {
            // Some repositories leave out the alias of dependencies.
            Ok(()) | Err(MetadataError::Twice(_)) => {}
            Err(e) => {
                (messages.warn)(&format!(
                    "level=WARN msg=\"skipping loading invalid entry for chart\" name={} version={} source={} error={}\n",
                    logged(name),
                    logged(&metadata.version),
                    logged(source),
                    logged(&e.to_string())
                ));
                continue;
            }
        }
        let text = |key: &str| field(fields, key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let urls = field(fields, "urls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let urls = urls.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let parsed = Version::parse(&metadata.version).ok();
        versions.push((parsed, ChartVersion { version: metadata.version, urls, digest: text("digest") }));
    }
    versions.reverse();
    versions.sort_by(|(a, _), (b, _)| match (a, b) {
        (Some(a), Some(b)) => b.cmp(a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    Ok(versions.into_iter().map(|(_, version)| version).collect())
}

fn document(data: &[u8], chart: Option<&str>) -> Result<Value, SourceError> {
    if data.trim_ascii_start().starts_with(b"{")
        && let Ok(document) = serde_json::from_slice(data)
    {
        return Ok(document);
    }
    if let Some(part) = chart.and_then(|chart| only(data, chart))
        && let Ok(document) = yaml::parse(&part)
    {
        return Ok(document);
    }
    yaml::parse(data).map_err(|e| SourceError(e.to_string()))
}

/// An index without the entries of other charts, cut out by indentation; `None` when the text is not laid out as an
/// emitter lays out a block mapping, so that only reading all of it can tell.
fn only(data: &[u8], chart: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut in_entries, mut keep, mut indent) = (false, true, None);
    for line in data.split_inclusive(|b| *b == b'\n') {
        let width = line.iter().take_while(|b| **b == b' ').count();
        let text = line[width..].trim_ascii_end();
        let structure = !text.is_empty() && !text.starts_with(b"#");
        if structure && width == 0 && !text.starts_with(b"- ") {
            if !text.first().is_some_and(u8::is_ascii_alphabetic) || !text.contains(&b':') {
                return None;
            }
            in_entries = text == b"entries:";
            keep = true;
        } else if structure && in_entries {
            let indent = *indent.get_or_insert(width);
            if width < indent {
                return None;
            }
            if width == indent && text != b"-" && !text.starts_with(b"- ") {
                let name = text.strip_suffix(b":").or_else(|| text.strip_suffix(b": []"))?;
                if !name.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)) {
                    return None;
                }
                keep = name == chart.as_bytes();
            }
        }
        if keep {
            out.extend_from_slice(line);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Messages<'static> = Messages { out: &|_| (), registry: &|_| (), warn: &|_| () };

    const INDEX: &str = "\
apiVersion: v1
entries:
  a:
  - apiVersion: v2
    description: |-
      text
        b:
    name: a
    urls:
    - a-1.0.0.tgz
    version: 1.0.0
  - apiVersion: v2
    digest: abc
    name: a
    urls:
    - https://c.d/a-1.2.0.tgz
    version: 1.2.0
  - apiVersion: v2
    name: a
    version: 2.0.0-rc.1
  b:
  - apiVersion: v2
    name: b
    version: 3.0.0
generated: \"2026-01-01T00:00:00Z\"
";

    fn index(text: &str, chart: Option<&str>) -> Index {
        Index::parse(text.as_bytes(), chart, "s", &QUIET).unwrap()
    }

    #[test]
    fn the_newest_that_fits_is_chosen_and_prereleases_only_when_asked_for() {
        let index = index(INDEX, None);
        let table = [("", "1.2.0"), ("1.0.0", "1.0.0"), ("^1", "1.2.0"), (">0.0.0-0", "2.0.0-rc.1"), ("1.2", "1.2.0")];
        for (asked, chosen) in table {
            assert_eq!(index.get("a", asked, &QUIET).unwrap().version, chosen, "{asked}");
        }
        let message = |name, version| index.get(name, version, &QUIET).unwrap_err().0;
        assert_eq!(message("c", ""), "no chart name found");
        assert_eq!(message("a", "^3"), "no chart version found for a-^3");
        assert_eq!(message("a", "?"), "improper constraint: \"?\"");
    }

    #[test]
    fn a_missing_version_is_reported_before_another_is_taken() {
        let told = std::sync::Mutex::new(String::new());
        let warn = |text: &str| told.lock().unwrap().push_str(text);
        index(INDEX, None).get("a", "1.2", &Messages { warn: &warn, ..QUIET }).unwrap();
        assert!(told.lock().unwrap().ends_with("chart=a requested=1.2 selected=1.2.0\n"));
    }

    #[test]
    fn what_is_cut_out_for_one_chart_says_what_the_whole_says() {
        for chart in ["a", "b"] {
            let part = String::from_utf8(only(INDEX.as_bytes(), chart).unwrap()).unwrap();
            assert!(part.len() < INDEX.len() && part.ends_with("Z\"\n"), "{part}");
            assert_eq!(index(INDEX, Some(chart)).entries[chart], index(INDEX, None).entries[chart]);
        }
        for odd in ["entries: {a: []}\n", "\"entries\":\n  a: []\n", "entries:\n  ? a\n", "%YAML 1.1\n---\nentries:\n"]
        {
            assert_eq!(
                only(odd.as_bytes(), "a").map(|part| part == odd.as_bytes()),
                if odd.starts_with('e') && odd.contains('{') { Some(true) } else { None },
                "{odd}"
            );
        }
    }

    #[test]
    fn an_entry_that_is_not_valid_is_left_out() {
        let text = "apiVersion: v1\nentries:\n  a:\n  - name: a\n    version: nonsense\n  -\n  - name: a\n    version: 1.0.0\n";
        assert_eq!(index(text, Some("a")).entries["a"].len(), 1);
        assert_eq!(Index::parse(b"entries: {}", None, "s", &QUIET).unwrap_err().0, "no API version specified");
        assert_eq!(Index::parse(b"", None, "s", &QUIET).unwrap_err().0, "empty index.yaml file");
    }

    #[test]
    fn an_index_may_be_json() {
        let text = r#"{"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0","urls":["x"]}]}}"#;
        assert_eq!(index(text, Some("a")).entries["a"][0].urls, ["x"]);
    }
}
