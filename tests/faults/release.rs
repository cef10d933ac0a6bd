//! What a release consists of, as the API server has it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Space;

/// The kinds of which a release of the test charts may have objects.
const KINDS: &str = "configmaps,services,deployments,secrets,jobs,pods";

/// The objects of a namespace whose names begin with that of a release, as `Kind/name`; records of the release apart, and
/// what controllers make of an object.
pub fn objects(space: &Space, release: &str) -> Result<BTreeSet<String>, String> {
    let list: Value =
        serde_json::from_str(&space.kubectl(&["get", KINDS, "-o", "json"])?).map_err(|e| e.to_string())?;
    let of_release = |object: &Value| {
        let name = object.pointer("/metadata/name")?.as_str()?;
        let made = object.pointer("/metadata/ownerReferences/0/controller") == Some(&Value::Bool(true))
            && object.pointer("/metadata/ownerReferences/0/kind") != Some(&Value::from("Web"));
        let found = name.starts_with(&format!("{release}-")) && !made;
        found.then(|| format!("{}/{name}", object["kind"].as_str().unwrap_or_default()))
    };
    Ok(list["items"].as_array().into_iter().flatten().filter_map(of_release).collect())
}

/// The states of the revisions of a release, oldest first, as `helm history` tells them.
pub fn history(space: &Space, release: &str) -> Result<Vec<String>, String> {
    let text = space.helm(&["history", release, "-o", "json"])?;
    let list: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let status = |r: &Value| r["status"].as_str().unwrap_or_default().to_owned();
    Ok(list.as_array().into_iter().flatten().map(status).collect())
}

/// Whether the newest revision is the deployed one, no other is, and none is under way.
pub fn is_settled(space: &Space, release: &str) -> Result<usize, String> {
    let history = history(space, release)?;
    let deployed = history.iter().filter(|s| *s == "deployed").count();
    let pending = history.iter().any(|s| s.starts_with("pending"));
    if deployed == 1 && !pending && history.last().is_some_and(|s| s == "deployed") {
        Ok(history.len())
    } else {
        Err(format!("history of {release}: {history:?}"))
    }
}

/// Whether a custom resource says that its present specification is deployed.
pub fn is_deployed(space: &Space, object: &str) -> Result<(), String> {
    let cr = space.get(object)?;
    if is_deployed_object(&cr) { Ok(()) } else { Err(cr["status"].to_string()) }
}

/// [`is_deployed`], of what the API server answered.
pub fn is_deployed_object(cr: &Value) -> bool {
    let conditions = cr.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_true = |name: &str| conditions.iter().any(|c| c["type"] == name && c["status"] == "True");
    let failed = ["ReleaseFailed", "Irreconcilable", "Stalled"].into_iter().any(is_true);
    let seen = cr.pointer("/status/observedGeneration") == cr.pointer("/metadata/generation");
    is_true("Deployed") && seen && !failed
}

/// `Kind/name` for each.
pub fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}
