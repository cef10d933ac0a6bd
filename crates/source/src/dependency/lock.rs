//! Chart.lock: the chosen versions, and a digest of the dependencies for which they were chosen (`internal/resolver`).

use crate::{SourceError, fail, sha256};
use std::path::Path;
use std::time::SystemTime;
use tillerman_render::chart::{Chart, Dependency, MetadataError, field, go_io};
use tillerman_render::template::functions::json::{self, Style};
use tillerman_render::template::value::Value;
use tillerman_render::template::yaml;

/// A lock file.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Of the wanted and the locked dependencies.
    pub digest: String,
    /// With their exact versions.
    pub dependencies: Vec<Dependency>,
}

impl Lock {
    /// That of a chart.
    pub fn of(chart: &Chart) -> Result<Option<Self>, SourceError> {
        let Some(lock) = &chart.lock else { return Ok(None) };
        let fields = lock.as_object();
        let digest = fields.and_then(|f| field(f, "digest")).and_then(serde_json::Value::as_str).unwrap_or_default();
        let entries = fields.and_then(|f| field(f, "dependencies")).and_then(serde_json::Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let dependencies = entries.iter().map(Dependency::read).collect::<Result<_, MetadataError>>()?;
        Ok(Some(Self { digest: digest.to_owned(), dependencies }))
    }

    /// Writes it into a chart's directory; never through a symbolic link.
    pub fn write(&self, chart: &Path, old: bool, now: SystemTime) -> Result<(), SourceError> {
        let name = if old { "requirements.lock" } else { "Chart.lock" };
        let path = chart.join(name);
        if let Ok(target) = std::fs::read_link(&path) {
            return fail(format!("the {name} file is a symlink to {:?}", target.display().to_string()));
        }
        let document = serde_json::json!({
            "dependencies": self.dependencies,
            "digest": self.digest,
            "generated": timestamp(now).to_string(),
        });
        let text = yaml::emit(&Value::from(&document))?;
        std::fs::write(&path, text).map_err(|e| SourceError(format!("open {}: {}", path.display(), go_io(&e))))
    }
}

fn timestamp(now: SystemTime) -> jiff::Timestamp {
    jiff::Timestamp::try_from(now).unwrap_or_default()
}

/// The digest of a lock file.
pub fn digest(wanted: &[Dependency], locked: &[Dependency]) -> Result<String, SourceError> {
    Ok(format!("sha256:{}", sha256(format!("[{},{}]", list(wanted)?, list(locked)?).as_bytes())))
}

/// The digest as Helm 2 made it.
pub fn old_digest(wanted: &[Dependency]) -> Result<String, SourceError> {
    Ok(format!("sha256:{}", sha256(format!("{{\"dependencies\":{}}}", list(wanted)?).as_bytes())))
}

/// Dependencies as Go writes them as JSON: fields in the order of the struct, `<`, `>` and `&` escaped.
fn list(dependencies: &[Dependency]) -> Result<String, SourceError> {
    if dependencies.is_empty() {
        return Ok("null".into());
    }
    let all: Result<Vec<String>, SourceError> = dependencies.iter().map(one).collect();
    Ok(format!("[{}]", all?.join(",")))
}

fn one(dependency: &Dependency) -> Result<String, SourceError> {
    let document = serde_json::to_value(dependency).map_err(|e| SourceError(e.to_string()))?;
    let style = Style { escape_html: true, ..Style::default() };
    let mut fields = Vec::new();
    for (key, value) in document.as_object().into_iter().flatten() {
        let value = json::write(&Value::from(value), style)?;
        fields.push(format!("\"{key}\":{}", String::from_utf8_lossy(&value)));
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_go_json() {
        let dependency = Dependency {
            name: "a".into(),
            version: ">=1 <2".into(),
            repository: "https://a.b".into(),
            tags: vec!["t".into()],
            import_values: vec![serde_json::json!({"child": "a", "parent": "b"})],
            ..Dependency::default()
        };
        let expected = concat!(
            r#"{"name":"a","version":"\u003e=1 \u003c2","repository":"https://a.b","tags":["t"],"#,
            r#""import-values":[{"child":"a","parent":"b"}]}"#
        );
        assert_eq!(one(&dependency).unwrap(), expected);
        assert_eq!(digest(&[], &[]).unwrap(), format!("sha256:{}", sha256(b"[null,null]")));
    }
}
