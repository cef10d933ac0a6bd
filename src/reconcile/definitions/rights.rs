//! Whether the operator has the rights that the chart of a definition needs. The API server lists the rights of the
//! operator, with one request for each namespace that it serves; the chart needs the rights that `tillerman rbac`
//! prints.

use serde_json::Value;

use crate::chart::Chart;
use crate::cluster::client::Cluster;
use crate::cluster::error::ApiError;
use crate::crd::{self, Names};
use crate::rbac::held::Held;
use crate::rbac::own::{self, RunSettings, Served};
use crate::rbac::{Rights, RoleDocument, Subject};

/// Missing rules that are listed.
const SHOWN: usize = 10;
/// A namespace that nobody has, in which only the rights of a `ClusterRole` hold.
const NOWHERE: &str = "tillerman-rights-of-the-cluster";

/// The rights that the operator needs for the chart of a kind if it serves these namespaces; all namespaces if there
/// are none. May take a second.
pub fn needed(chart: &Chart, names: &Names, has_account: bool, namespaces: Vec<String>) -> Vec<RoleDocument> {
    // With a service account, the objects are a matter of its rights.
    let rights = if has_account { Rights::default() } else { Rights::of(chart, &crd::carried(chart)) };
    let served = Served { group: names.group.clone(), plural: names.plural.clone() };
    // Rights that the operator always needs do not belong to this definition.
    let settings = RunSettings { served: [served].into(), charts_only: true, ..RunSettings::default() };
    let rules = own::rules(&[rights], &settings);
    let subject = Subject { everywhere: namespaces.is_empty(), namespaces, ..Subject::default() };
    subject.documents(&rules)
}

/// The rules that are missing, each with where it belongs; a few of them. `None` if the API server cannot say.
///
/// # Errors
/// Those of the requests.
pub async fn missing(cluster: &Cluster, needed: &[RoleDocument]) -> Result<Option<Vec<String>>, ApiError> {
    let mut missing = Vec::new();
    for document in needed {
        let namespace = document.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let status: Value = cluster.rules(namespace.unwrap_or(NOWHERE)).await?;
        let held = Held::read(&status);
        if held.is_incomplete {
            return Ok(None);
        }
        let place = namespace.map_or_else(|| "ClusterRole".to_owned(), |name| format!("Role in namespace {name}"));
        for policy in document.rules.iter().flat_map(|rule| held.lacks(&rule.policy)) {
            missing.push(format!("{place}: {policy}"));
        }
    }
    let more = missing.len().saturating_sub(SHOWN);
    missing.truncate(SHOWN);
    if more > 0 {
        missing.push(format!("and {more} more, which tillerman rbac prints"));
    }
    Ok(Some(missing))
}
