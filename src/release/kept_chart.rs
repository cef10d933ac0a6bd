//! Charts that are kept in Secrets of the operator's namespace, so that a custom resource that has not moved to a new version can still be
//! rendered with the one before, also by an operator whose image has only the new one.
//!
//! A chart is an archive in one or more Secrets, which its digest names. The archive that is read must have that
//! digest.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::digest::Hasher;
use crate::names;
use crate::object::Gvk;

/// Bytes of an archive in one Secret. A Secret holds 1 MiB.
const PART: usize = 700 << 10;
/// Parts of one archive. A chart that is loaded has 20 MiB at most.
const MAX_PARTS: usize = 40;
/// Key of the data.
const KEY: &str = "chart.tgz";

/// The label value that names a kind, whatever its version.
pub fn label(gvk: &Gvk) -> String {
    let mut hasher = Hasher::default();
    hasher.text(&*gvk.group).text(&*gvk.kind);
    hasher.finish()
}

/// Selects the Secrets of all charts of a kind.
pub fn selector(gvk: &Gvk) -> String {
    format!("{}={}", names::KEPT_CHART_OF, label(gvk))
}

/// Name of the Secret of a part, from 0.
pub fn name(gvk: &Gvk, digest: &str, part: usize) -> String {
    format!("tillerman.chart.v1.{}.{digest}.{part}", label(gvk))
}

/// The Secrets of a chart. The first, which makes it whole, is the last.
///
/// # Errors
/// If the archive is too large.
pub fn secrets(gvk: &Gvk, namespace: &str, digest: &str, chart: &str, archive: &[u8]) -> Result<Vec<Value>, String> {
    let parts: Vec<&[u8]> = archive.chunks(PART).collect();
    if parts.len() > MAX_PARTS {
        return Err(format!("the archive of the chart has {} bytes; the limit is {}", archive.len(), PART * MAX_PARTS));
    }
    let secret = |(index, part): (usize, &&[u8])| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": names::KEPT_CHART_TYPE,
            "metadata": {
                "name": name(gvk, digest, index), "namespace": namespace,
                "labels": {names::KEPT_CHART_OF: label(gvk), names::CHART: digest, names::KEPT_CHART_PART: format!("{index}.{}", parts.len())},
                "annotations": {names::KEPT_CHART_KIND: gvk.kind_group(), "chart": chart},
            },
            "data": {KEY: STANDARD.encode(part)},
        })
    };
    Ok(parts.iter().enumerate().map(secret).rev().collect())
}

/// A kept chart, found by the Secrets of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Digest of the chart.
    pub digest: String,
    /// When it was kept, RFC 3339 by the API server's clock.
    pub created: String,
    /// The chart failed, and nobody gets it.
    pub withdrawn: bool,
    /// How many parts it has.
    pub parts: usize,
    /// The archive; `None` when a part is missing.
    pub archive: Option<Vec<u8>>,
}

/// The charts in these Secrets, the oldest first.
pub fn read(secrets: &[Value]) -> Vec<Kept> {
    let mut found: BTreeMap<&str, BTreeMap<usize, &Value>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for secret in secrets {
        let label = |name: &str| secret["metadata"]["labels"][name].as_str();
        let (Some(digest), Some(part)) = (label(names::CHART), label(names::KEPT_CHART_PART)) else { continue };
        let Some((index, count)) = part.split_once('.') else { continue };
        let (Ok(index), Ok(count)) = (index.parse::<usize>(), count.parse::<usize>()) else { continue };
        if count > MAX_PARTS || index >= count {
            continue;
        }
        found.entry(digest).or_default().insert(index, secret);
        counts.insert(digest, count);
    }
    let kept = |(digest, parts): (&str, BTreeMap<usize, &Value>)| {
        let count = counts.get(digest).copied().unwrap_or_default();
        let data = |secret: &&Value| STANDARD.decode(secret["data"][KEY].as_str()?).ok();
        let whole = (parts.len() == count).then(|| parts.values().map(data).collect::<Option<Vec<_>>>()).flatten();
        let first = parts.values().next();
        let text = |pointer: &str| first.and_then(|secret| secret.pointer(pointer)).and_then(Value::as_str);
        Kept {
            digest: digest.to_owned(),
            created: text("/metadata/creationTimestamp").unwrap_or_default().to_owned(),
            withdrawn: first.is_some_and(|secret| secret["metadata"]["annotations"].get(names::WITHDRAWN).is_some()),
            parts: count,
            archive: whole.map(|parts| parts.concat()),
        }
    };
    let mut all: Vec<Kept> = found.into_iter().map(kept).collect();
    all.sort_by(|a, b| (&a.created, &a.digest).cmp(&(&b.created, &b.digest)));
    all
}

#[cfg(test)]
mod tests {
    use super::{PART, read, secrets};
    use crate::object::Gvk;

    #[test]
    fn a_chart_in_parts_is_read_as_it_was_written() {
        let gvk = Gvk::new("a.example.com", "v1", "Web");
        let archive: Vec<u8> = (0..PART + 10).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut made = secrets(&gvk, "ns", "d1", "web-1", &archive).unwrap();
        assert_eq!(made.len(), 2);
        for secret in &mut made {
            secret["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let mut small = secrets(&gvk, "ns", "d2", "web-2", b"x").unwrap();
        small[0]["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
        small[0]["metadata"]["annotations"]["tillerman.dev/withdrawn"] = "yes".into();
        let all = read(&[made.clone(), small].concat());
        assert_eq!(all.iter().map(|kept| &*kept.digest).collect::<Vec<_>>(), ["d2", "d1"]);
        assert!(all[0].withdrawn && !all[1].withdrawn);
        assert_eq!(all[1].archive.as_deref(), Some(&*archive));
        // A part is missing, as after a crash.
        assert_eq!(read(&made[..1])[0].archive, None);
        made[0]["metadata"]["labels"]["tillerman.dev/part"] = "9.9999".into();
        assert_eq!(read(&made[..1]), []);
    }
}
