//! The steps for the definitions in `crds/` of a chart, by the switch `crds`. Helm creates those that are missing and
//! never changes one; Flux has the same choice (`Skip`, `Create`, `CreateReplace`). None is ever deleted.

use serde_json::{Map, Value};

use crate::kind::switches::Crds;

/// A definition that needs a step before anything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// As the chart has it.
    pub body: Map<String, Value>,
    /// The step.
    pub action: CrdAction,
}

/// The step that a definition needs.
#[derive(Clone, Debug, PartialEq)]
pub enum CrdAction {
    /// It is created.
    Create,
    /// The existing one is replaced with this.
    Replace(Value),
    /// Nothing: its versions are not served yet.
    Await,
}

/// The step that a definition of a chart needs. `served`: the API server knows all its versions. `live` is the one that
/// exists; `outcome` is the API server's answer to a dry run of [`replacement`].
pub fn action(
    policy: Crds,
    served: bool,
    body: &Map<String, Value>,
    live: Option<&Value>,
    outcome: Option<&Value>,
) -> Option<CrdAction> {
    let Some(live) = live else { return (policy != Crds::Skip && !served).then_some(CrdAction::Create) };
    match policy {
        Crds::Skip => None,
        Crds::Replace if outcome.is_some_and(|outcome| differs(live, outcome)) => {
            Some(CrdAction::Replace(replacement(body, live)))
        }
        // A definition without one of the chart's versions stays as it is. Nothing is waited for.
        Crds::Create | Crds::Replace => (!served && serves(live, body)).then_some(CrdAction::Await),
    }
}

/// The definition that replaces an existing one: the chart's, with annotations and labels that others added. The certificate of a
/// conversion webhook stays too: whoever made it, such as cert-manager, put it there.
pub fn replacement(body: &Map<String, Value>, live: &Value) -> Value {
    const CA: &str = "/spec/conversion/webhook/clientConfig";
    let mut new = live.clone();
    for part in ["labels", "annotations"] {
        let Some(Value::Object(own)) = body.get("metadata").and_then(|m| m.get(part)) else { continue };
        let notes = &mut new["metadata"][part];
        match notes {
            Value::Object(notes) => notes.extend(own.clone()),
            _ => *notes = Value::Object(own.clone()),
        }
    }
    new["spec"] = body.get("spec").cloned().unwrap_or_default();
    if let Some(bundle) = live.pointer(CA).and_then(|c| c.get("caBundle"))
        && let Some(Value::Object(client)) = new.pointer_mut(CA)
    {
        client.entry("caBundle").or_insert_with(|| bundle.clone());
    }
    new
}

fn differs(live: &Value, outcome: &Value) -> bool {
    ["/spec", "/metadata/labels", "/metadata/annotations"]
        .iter()
        .any(|part| live.pointer(part) != outcome.pointer(part))
}

/// The names of the versions that a definition serves.
pub fn versions(body: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let versions = body.get("spec").and_then(|s| s.get("versions")).and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|v| v.get("served") != Some(&Value::Bool(false)));
    served.filter_map(|v| v.get("name")?.as_str())
}

fn serves(live: &Value, body: &Map<String, Value>) -> bool {
    let Some(live) = live.as_object() else { return false };
    versions(body).all(|version| versions(live).any(|v| v == version))
}

#[cfg(test)]
mod tests {
    use super::{CrdAction, action, replacement};
    use crate::kind::switches::Crds;
    use serde_json::{Map, Value, json};

    fn definition(versions: &[&str]) -> Map<String, Value> {
        let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
        json!({"metadata": {"name": "x"}, "spec": {"versions": versions}}).as_object().unwrap().clone()
    }

    #[test]
    fn a_definition_is_created_left_alone_or_replaced_by_the_policy() {
        let (old, new) = (definition(&["v1"]), definition(&["v1", "v2"]));
        let (old_live, new_live) = (Value::Object(old), Value::Object(new.clone()));
        let replace = CrdAction::Replace(replacement(&new, &old_live));
        for (policy, served, live, expected) in [
            (Crds::Skip, false, None, None),
            (Crds::Skip, false, Some(&old_live), None),
            (Crds::Create, false, None, Some(CrdAction::Create)),
            (Crds::Create, true, None, None),
            (Crds::Create, false, Some(&new_live), Some(CrdAction::Await)),
            (Crds::Create, false, Some(&old_live), None),
            (Crds::Create, true, Some(&old_live), None),
            (Crds::Replace, false, None, Some(CrdAction::Create)),
            (Crds::Replace, false, Some(&old_live), Some(replace)),
            (Crds::Replace, false, Some(&new_live), Some(CrdAction::Await)),
            (Crds::Replace, true, Some(&new_live), None),
        ] {
            let outcome = live.map(|live| replacement(&new, live));
            let found = action(policy, served, &new, live, outcome.as_ref());
            assert_eq!(found, expected, "{policy:?}, served {served}, live {live:?}");
        }
    }

    #[test]
    fn what_others_noted_on_a_definition_stays() {
        let webhook = |client: Value| json!({"webhook": {"clientConfig": client}});
        let live = json!({"metadata": {"resourceVersion": "7", "labels": {"theirs": "1", "ours": "old"}},
            "spec": {"versions": [], "conversion": webhook(json!({"caBundle": "abc", "url": "old"}))}, "status": {"a": 1}});
        let body = json!({"metadata": {"labels": {"ours": "new"}, "annotations": {"a": "b"}},
            "spec": {"conversion": webhook(json!({"url": "new"}))}});
        let expected = json!({
            "metadata": {"resourceVersion": "7", "labels": {"theirs": "1", "ours": "new"}, "annotations": {"a": "b"}},
            "spec": {"conversion": webhook(json!({"url": "new", "caBundle": "abc"}))}, "status": {"a": 1}});
        assert_eq!(replacement(body.as_object().unwrap(), &live), expected);
    }
}
