//! Jobs and Pods that run to completion for the operator: which container counts, what its exit code means, its last
//! output, and the names of repeated runs. Helm's hooks, the scale hooks of members and operations all run in this way.

use crate::names;
use serde_json::{Map, Value};

/// Annotation with the container whose exit code counts; without it, the first container counts.
pub const CONTAINER: &str = names::EXIT_CODE_CONTAINER;
/// The maximum length of a name, since it becomes a label of a Job's pods.
pub const MAX_NAME: usize = 63;

/// The meaning of an exit code. The numbers are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Done,
    /// 75, `EX_TEMPFAIL`: not yet; the run is repeated.
    Later,
    /// 64, `EX_USAGE`: refused; the run is not repeated.
    Refused,
    /// Any other code.
    Failed(i64),
}

impl Exit {
    /// The meaning of a code.
    pub fn of(code: i64) -> Self {
        match code {
            0 => Self::Done,
            75 => Self::Later,
            64 => Self::Refused,
            code => Self::Failed(code),
        }
    }
}

/// The exit code of the first of these pods that has ended, and the last line of its termination message. The named
/// container counts or, without a name, the first one.
pub fn last_words(pods: &[&Value], container: Option<&str>) -> (Option<Exit>, String) {
    let terminated = pods.iter().find_map(|pod| {
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array)?;
        let first = pod.pointer("/spec/containers/0/name").and_then(Value::as_str);
        let name = container.or(first)?;
        statuses.iter().find(|s| s.get("name").and_then(Value::as_str) == Some(name))?.pointer("/state/terminated")
    });
    let code = terminated.and_then(|t| t.get("exitCode")).and_then(Value::as_i64);
    let message = terminated.and_then(|t| t.get("message")).and_then(Value::as_str).unwrap_or_default();
    let last = message.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
    (code.map(Exit::of), last)
}

/// Makes the end of the log the termination message of a container that has no policy for it.
pub fn keep_last_words(container: &mut Map<String, Value>) {
    container.entry("terminationMessagePolicy").or_insert_with(|| "FallbackToLogsOnError".into());
}

/// The value of [`CONTAINER`], which must name a container of the Job or Pod. The error is a sentence.
pub fn container(body: &Map<String, Value>) -> Result<Option<String>, String> {
    let annotation = body.get("metadata").and_then(|m| m.get("annotations")).and_then(|a| a.get(CONTAINER));
    let Some(container) = annotation.and_then(Value::as_str) else { return Ok(None) };
    if containers(body).any(|c| c.get("name").and_then(Value::as_str) == Some(container)) {
        Ok(Some(container.to_owned()))
    } else {
        Err(format!("it has no container {container:?}"))
    }
}

/// The containers of a Job or a Pod.
pub fn containers(body: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let spec = body.get("spec");
    let lists = ["/template/spec/containers", "/containers"].into_iter();
    lists.filter_map(move |at| spec?.pointer(at)?.as_array()).flatten()
}

/// The name of one run: the name of the object in the chart, cut to leave room for the unique tail.
pub fn name(of: &str, tail: &str) -> String {
    format!("{}{tail}", head(of, tail.len()))
}

/// The common prefix of all runs' names with a tail of this length.
pub fn head(of: &str, tail: usize) -> String {
    let head: String = of.chars().take(MAX_NAME.saturating_sub(tail)).collect();
    head.trim_end_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Exit, MAX_NAME, last_words, name};
    use serde_json::{Value, json};

    fn pod(named: &str, code: i64) -> Value {
        json!({
            "spec": {"containers": [{"name": "first"}, {"name": "second"}]},
            "status": {"containerStatuses": [{"name": named, "state": {"terminated": {"exitCode": code, "message": "a\nwhy\n"}}}]},
        })
    }

    #[test]
    fn the_named_container_counts_or_else_the_first() {
        let (first, second) = (pod("first", 0), pod("second", 75));
        for (container, expected) in
            [(None, Some(Exit::Done)), (Some("second"), Some(Exit::Later)), (Some("third"), None)]
        {
            assert_eq!(last_words(&[&second, &first], container).0, expected, "{container:?}");
        }
        assert_eq!(last_words(&[&pod("first", 64)], None), (Some(Exit::Refused), "why".to_owned()));
        assert_eq!(last_words(&[&pod("first", 1)], None).0, Some(Exit::Failed(1)));
        assert_eq!(last_words(&[], None), (None, String::new()));
    }

    #[test]
    fn a_name_fits_into_a_label() {
        assert_eq!(name("backup", "-12ab"), "backup-12ab");
        let long = name(&"a.".repeat(60), "-12ab");
        assert!(long.len() <= MAX_NAME && long.ends_with("a-12ab"), "{long}");
    }
}
