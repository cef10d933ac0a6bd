//! The fields that the operator inserts when it applies a StatefulSet with members, and those that it removes from its
//! record.

use serde_json::{Map, Value, json};

use super::document::{Members, Set};
use crate::object::Object;
use crate::release::owned::STEPPED;
use crate::render::Manifest;
use crate::template::yaml;

/// Prepares the StatefulSet for the apply. The replicas are always set, since the API server would default them to one.
/// Pods are numbered from `start`, and only the operator replaces them. If the StatefulSet was `found`, its
/// resourceVersion makes the write fail when it is outdated.
pub fn put(body: &mut Map<String, Value>, set: &Set, replicas: u32, start: u32, found: Option<&Value>) {
    let at = |pointer: &str| found.and_then(|found| found.pointer(pointer));
    let spec = child(body, "spec");
    spec.insert("replicas".into(), replicas.into());
    if start > 0 {
        spec.insert("ordinals".into(), json!({"start": start}));
    }
    spec.insert("updateStrategy".into(), json!({"type": "OnDelete"}));
    let metadata = child(body, "metadata");
    if let Some(version) = at("/metadata/resourceVersion") {
        metadata.insert("resourceVersion".into(), version.clone());
    }
    child(metadata, "annotations").insert(STEPPED.into(), set.driver.as_str().into());
}

/// The object that has to be applied before the result of [`put`] if the StatefulSet was `found` with the API server's
/// default for `rollingUpdate`. No manager owns this field, so no apply removes it, and the other type is invalid
/// together with it. So the operator takes ownership first, with a partition that replaces no pod (tried on 1.36).
pub fn own_strategy(body: &Map<String, Value>, found: &Value) -> Option<Map<String, Value>> {
    found.pointer("/spec/updateStrategy/rollingUpdate")?;
    let mut body = body.clone();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": i32::MAX}});
    child(&mut body, "spec").insert("updateStrategy".into(), strategy);
    Some(body)
}

fn child<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object")
}

/// Removes `replicas` from the stateful sets with members: the record must contain what Helm may apply without scaling
/// and so bypassing the hooks.
pub fn strip(manifests: &mut [Manifest], members: &Members) -> Result<(), String> {
    for manifest in manifests.iter_mut().filter(|m| m.kind == "StatefulSet") {
        if !members.sets.iter().any(|set| set.target == manifest.name) {
            continue;
        }
        let wrong = |e: String| format!("{}: {e}", manifest.source);
        let Some(mut object) = Object::parse(&manifest.text).map_err(wrong)? else { continue };
        let Some(Value::Object(spec)) = object.body.get_mut("spec") else { continue };
        if spec.remove("replicas").is_none() {
            continue;
        }
        manifest.text = match without_line(&manifest.text) {
            Some(text) if Object::parse(&text).is_ok_and(|o| o.as_ref() == Some(&object)) => text,
            _ => {
                let text = yaml::of_json(&Value::Object(object.body))?;
                text.trim_end().to_owned()
            }
        };
    }
    Ok(())
}

/// The text without the line `replicas` of a `spec` in block style.
fn without_line(text: &str) -> Option<String> {
    let mut at = 0;
    let mut inside = false;
    let mut indent = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let depth = line.len() - line.trim_start().len();
        if depth == 0 && !trimmed.is_empty() && !trimmed.starts_with('#') {
            inside = trimmed == "spec:";
            indent = None;
        } else if inside && !trimmed.is_empty() && !trimmed.starts_with('#') {
            let indent = *indent.get_or_insert(depth);
            if depth == indent && trimmed.starts_with("replicas:") {
                return Some(format!("{}{}", &text[..at], &text[at + line.len()..]));
            }
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{own_strategy, put, strip};
    use crate::members::document::{Members, Set};
    use crate::render::Manifest;
    use serde_json::json;

    fn stripped(text: &str) -> String {
        let mut manifests =
            [Manifest { text: text.into(), kind: "StatefulSet".into(), name: "db".into(), ..Manifest::default() }];
        strip(&mut manifests, &Members { sets: vec![Set::example()], hooks: Vec::new() }).unwrap();
        manifests[0].text.clone()
    }

    #[test]
    fn the_record_loses_the_line_of_replicas_and_nothing_else() {
        let head = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n";
        let text = |replicas: &str| {
            format!(
                "{head}spec:\n  # how many\n{replicas}  serviceName: db\n  template:\n    spec:\n      replicas: 5\n"
            )
        };
        assert_eq!(stripped(&text("  replicas: 3 # three\n")), text(""));
        assert_eq!(stripped(&text("")), text(""));
        let flow = format!("{head}spec: {{replicas: 3, serviceName: db}}\n");
        assert_eq!(
            stripped(&flow),
            format!("{head}spec:\n  serviceName: db").replace("metadata:\n  name", "metadata:\n  name")
        );
    }

    #[test]
    fn replicas_are_substituted_and_never_left_out() {
        let mut body =
            json!({"metadata": {"name": "db"}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}});
        let body = body.as_object_mut().unwrap();
        let found = json!({"metadata": {"resourceVersion": "7"}, "spec": {"updateStrategy": {"rollingUpdate": {}}}});
        put(body, &Set::example(), 2, 0, Some(&found));
        let expected = json!({
            "metadata": {"name": "db", "resourceVersion": "7", "annotations": {"tillerman.dev/members": "jobs"}},
            "spec": {"replicas": 2, "updateStrategy": {"type": "OnDelete"}},
        });
        assert_eq!(*body, *expected.as_object().unwrap());
        let first = own_strategy(body, &found).unwrap();
        assert_eq!(first["spec"]["updateStrategy"]["rollingUpdate"]["partition"], i32::MAX);
        assert_eq!(own_strategy(body, &json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})), None);
        let mut new = json!({}).as_object().unwrap().clone();
        put(&mut new, &Set::example(), 0, 0, None);
        assert_eq!(new["spec"], json!({"replicas": 0, "updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(new["metadata"].get("resourceVersion"), None);
        put(&mut new, &Set::example(), 1, 2, None);
        assert_eq!(new["spec"]["ordinals"], json!({"start": 2}));
    }
}
