//! The release of a custom resource, and its revisions.

use serde_json::{Map, Value, json};

use super::error::CliError;
use super::line::line;
use crate::chart::Values;
use crate::cluster::client::Cluster;
use crate::names;
use crate::reconcile::history::{Kept, history};
use crate::release::changes::changed_names;

/// The release of a custom resource: namespace and name. The status says it once there is one; before, annotations do.
pub fn release_of(cr: &Value) -> (String, String) {
    let text = |pointer: &str| cr.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let annotation = |name: &str| cr.pointer("/metadata/annotations")?.get(name)?.as_str();
    let namespace = text("/status/release/namespace").or_else(|| annotation(names::TARGET_NAMESPACE));
    let namespace = namespace.or_else(|| text("/metadata/namespace")).unwrap_or_default();
    let name = text("/status/release/name").or_else(|| annotation(names::RELEASE_NAME));
    let name = name.or_else(|| text("/metadata/name")).unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

/// Whether a text is valid as a value in a label selector: the text of a tenant must not select anything else.
pub fn is_label_value(text: &str) -> bool {
    !text.is_empty() && text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The revisions of a custom resource's release, oldest first; at least one.
pub async fn revisions(cr: &Value, cluster: &Cluster) -> Result<Vec<Kept>, CliError> {
    let (namespace, release) = release_of(cr);
    let none = || CliError(format!("there is no release {} in namespace {}", line(&release), line(&namespace)));
    if !is_label_value(&release) {
        return Err(none());
    }
    let kept = history(&namespace, &release, cluster).await.map_err(|e| CliError(line(&e.whole())))?;
    let uid = cr.pointer("/metadata/uid").and_then(Value::as_str);
    let newest = kept.last().ok_or_else(none)?;
    if newest.revision.owner_uid.as_deref().is_some_and(|owner| Some(owner) != uid) {
        let owner = newest.revision.owner.as_deref().unwrap_or("another custom resource");
        return Err(CliError(line(&format!("release {release} in namespace {namespace} belongs to {owner}"))));
    }
    Ok(kept)
}

/// The facts about revisions, as `tillerman history -o json` prints them.
pub fn entries(kept: &[Kept]) -> Vec<Value> {
    let mut before: Option<Values> = None;
    let mut entries = Vec::with_capacity(kept.len());
    for Kept { revision, record } in kept {
        let at = jiff::Timestamp::from_second(revision.at).map(|at| at.to_string()).unwrap_or_default();
        let mut entry = json!({"revision": revision.revision, "updated": at, "status": revision.status.as_str()});
        match record {
            Ok(record) => {
                let (chart, config) = (record.chart(), record.config());
                if let Some(at) = record.last_deployed().and_then(|at| at.parse::<jiff::Timestamp>().ok()) {
                    entry["updated"] = at.round(jiff::Unit::Second).unwrap_or(at).to_string().into();
                }
                let changed = before.as_ref().map(|before| changed_names(before, &config));
                entry["chart"] = format!("{}-{}", chart.name, chart.version).into();
                entry["appVersion"] = chart.app_version.into();
                entry["description"] = record.description().into();
                entry["changedValues"] = changed.into();
                before = Some(config);
            }
            Err(why) => {
                entry["description"] = format!("the record cannot be read: {why}").into();
                before = None;
            }
        }
        entries.push(entry);
    }
    // The values of the oldest revision are all new, if it is the first; if not, its changes are unknown.
    if let (Some(entry), Some(Kept { revision, record: Ok(record) })) = (entries.first_mut(), kept.first())
        && revision.revision == 1
    {
        entry["changedValues"] = changed_names(&Map::new(), &record.config()).into();
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::{is_label_value, release_of};
    use serde_json::json;

    #[test]
    fn the_status_says_which_release_it_is_and_annotations_do_before() {
        let mut cr = json!({"metadata": {"name": "a", "namespace": "ns"}});
        assert_eq!(release_of(&cr), ("ns".into(), "a".into()));
        cr["metadata"]["annotations"] =
            json!({"tillerman.dev/release-name": "b", "tillerman.dev/target-namespace": "t"});
        assert_eq!(release_of(&cr), ("t".into(), "b".into()));
        cr["status"] = json!({"release": {"name": "c", "namespace": "u"}});
        assert_eq!(release_of(&cr), ("u".into(), "c".into()));
    }

    #[test]
    fn a_name_of_a_tenant_selects_nothing_else() {
        assert!(is_label_value("app-1") && !is_label_value("app,owner!=helm") && !is_label_value(""));
    }
}
