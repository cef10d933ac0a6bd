//! Fields of an existing object that the operator leaves to other clients: those that a rule names, and replicas that
//! an autoscaler sets (docs/design/applying.md C4).
//!
//! Such a field is part of the apply that creates the object, or a Deployment would start with one replica. It is left
//! out once another client owns it. While we own it, it stays in the apply, which would otherwise remove it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::stamp::Stamped;
use crate::kind::ignore::Ignore;
use crate::object::{Gvk, ObjectId};
use crate::release::asleep::is_asleep;
use crate::release::fields::Fields;
use crate::release::managers;

const REPLICAS: &str = "/spec/replicas";

/// The kinds of autoscalers.
pub fn autoscalers() -> [Gvk; 2] {
    [Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"), Gvk::new("keda.sh", "v1alpha1", "ScaledObject")]
}

/// Kind and name of what an autoscaler scales, from its `spec`; `None` for another kind.
fn target(kind: &str, spec: Option<&Value>) -> Option<(String, String)> {
    let default = match kind {
        "HorizontalPodAutoscaler" => "",
        "ScaledObject" => "Deployment",
        _ => return None,
    };
    let target = spec?.get("scaleTargetRef")?;
    let text = |key: &str| target.get(key).and_then(Value::as_str);
    Some((text("kind").unwrap_or(default).to_owned(), text("name")?.to_owned()))
}

/// Whether an autoscaler of this kind, as it is in the namespace of an object, scales that object.
pub fn scales(kind: &str, autoscaler: &Value, id: &ObjectId) -> bool {
    target(kind, autoscaler.get("spec")).is_some_and(|(kind, name)| *kind == *id.gvk.kind && *name == *id.name)
}

/// The objects whose replicas a `HorizontalPodAutoscaler` or `ScaledObject` of the same release sets.
pub fn autoscaled(objects: &[Stamped]) -> BTreeSet<ObjectId> {
    let target = |object: &Stamped| {
        let (kind, name) = target(&object.id.gvk.kind, object.body.get("spec"))?;
        Some((kind, name, object.id.namespace.clone()))
    };
    let targets: BTreeSet<_> = objects.iter().filter_map(target).collect();
    let named = |id: &ObjectId| (id.gvk.kind.to_string(), id.name.to_string(), id.namespace.clone());
    objects.iter().map(|o| &o.id).filter(|id| targets.contains(&named(id))).cloned().collect()
}

/// The object that is sent for an existing one with these `managed` fields; `None` if it is sent whole.
///
/// `zero` says that it has no replicas and no manager owns that, see [`managers::is_scaled_to_zero`]. `previous` is the
/// object in the last record. If the chart changes its number of replicas, that number is applied, unless an autoscaler
/// of the release sets the replicas. An object that sleeps is sent whole.
pub fn leave(
    object: &Stamped,
    previous: Option<&Stamped>,
    managed: &[Value],
    zero: bool,
    autoscaled: bool,
    rules: &[Ignore],
) -> Option<Map<String, Value>> {
    if is_asleep(&object.body) {
        return None;
    }
    let ours = managers::ours(managed);
    let of = |body: &Map<String, Value>| body.get("spec").and_then(|s| s.get("replicas")).cloned();
    let replicas = of(&object.body);
    let meant = previous.is_some_and(|p| of(&p.body) != replicas);
    let scaled = managers::scalers(managed).into_iter();
    let scaled = scaled.filter(|name| autoscaled || (!meant && is_autoscaler(name))).count() > 0 || autoscaled && zero;
    let by_rule = rules.iter().filter(|r| r.covers(&object.id)).flat_map(|r| r.paths.iter().map(String::as_str));
    let applied = !ours.is_empty();
    let mut body = Value::Object(object.body.clone());
    let mut left = false;
    let paths: BTreeSet<&str> = by_rule.filter(|_| applied).chain(scaled.then_some(REPLICAS)).collect();
    // From the last, so that removing an item does not move the index of another.
    for path in paths.into_iter().rev() {
        if !owns(&ours, path, &body) {
            left |= remove(&mut body, path);
        }
    }
    match body {
        Value::Object(body) if left => Some(body),
        _ => None,
    }
}

fn is_autoscaler(manager: &str) -> bool {
    // KEDA's operator scales from and to zero itself.
    manager == "kube-controller-manager" || manager.starts_with("keda")
}

/// Whether a field is in the set. The path is resolved in the object as the chart writes it.
fn owns(fields: &Fields, pointer: &str, body: &Value) -> bool {
    let mut path = Vec::new();
    let mut at = body;
    for token in tokens(pointer) {
        let next = match at {
            Value::Array(items) => token.parse::<usize>().ok().and_then(|i| items.get(i)),
            other => other.get(&token),
        };
        let Some(next) = next else { return false };
        path.push((token, next));
        at = next;
    }
    fields.has(&path)
}

fn remove(body: &mut Value, pointer: &str) -> bool {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
    let Some(last) = tokens(pointer).pop() else { return false };
    match body.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&last).is_some(),
        Some(Value::Array(items)) => match last.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|t| t.replace("~1", "/").replace("~0", "~")).collect()
}

#[cfg(test)]
mod tests {
    use super::{autoscaled, leave};
    use crate::kind::ignore::{self, Ignore};
    use crate::object::{Gvk, ObjectId};
    use crate::plan::stamp::Stamped;
    use crate::release::managers;
    use serde_json::{Value, json};

    fn object(gvk: &Gvk, name: &str, spec: &Value) -> Stamped {
        let id = ObjectId { gvk: gvk.clone(), namespace: Some("ns".into()), name: name.into() };
        Stamped { id, body: json!({"spec": spec}).as_object().unwrap().clone(), kept: false }
    }

    fn deployment(spec: &Value) -> Stamped {
        object(&Gvk::new("apps", "v1", "Deployment"), "web", spec)
    }

    fn ours(fields: &Value) -> Value {
        json!({"manager": "tillerman", "operation": "Apply", "fieldsV1": {"f:spec": fields}})
    }

    fn scaled_by(manager: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    }

    /// C4.
    #[test]
    fn replicas_are_an_autoscalers_once_it_has_set_them() {
        let now = deployment(&json!({"replicas": 1, "paused": false}));
        let other = deployment(&json!({"replicas": 2, "paused": false}));
        let none = deployment(&json!({"paused": false}));
        let unowned = json!({"f:paused": {}});
        let owned = json!({"f:replicas": {}, "f:paused": {}});
        let hpa = "kube-controller-manager";
        for (name, managed, previous, target, left) in [
            ("nobody scaled", vec![ours(&owned)], None, true, false),
            ("an autoscaler did", vec![ours(&unowned), scaled_by(hpa)], None, false, true),
            ("and the chart says as before", vec![ours(&unowned), scaled_by(hpa)], Some(&now), false, true),
            ("and the chart says something else", vec![ours(&unowned), scaled_by(hpa)], Some(&other), false, false),
            ("it was switched off", vec![ours(&unowned), scaled_by(hpa)], Some(&none), false, false),
            ("it is the release's", vec![ours(&unowned), scaled_by(hpa)], Some(&other), true, true),
            ("KEDA did", vec![ours(&unowned), scaled_by("keda")], None, false, true),
            ("a human did", vec![ours(&unowned), scaled_by("kubectl")], None, false, false),
            ("a human did, beside an autoscaler", vec![ours(&unowned), scaled_by("kubectl")], None, true, true),
            ("it is ours as well", vec![ours(&owned), scaled_by(hpa)], None, true, false),
        ] {
            let sent = leave(&now, previous, &managed, false, target, &[]);
            assert_eq!(sent.is_some(), left, "{name}");
            if let Some(sent) = sent {
                assert_eq!(sent["spec"], json!({"paused": false}), "{name}");
            }
        }
    }

    /// C4.
    #[test]
    fn who_scales_to_zero_owns_nothing_and_is_followed_where_an_autoscaler_is() {
        let now = deployment(&json!({"replicas": 2, "paused": false}));
        let other = deployment(&json!({"replicas": 1, "paused": false}));
        let managed = [ours(&json!({"f:paused": {}}))];
        for (name, zero, target, left) in [
            ("the autoscaler scaled to zero", true, true, true),
            ("a human did, without an autoscaler", true, false, false),
            ("our field is gone for another reason", false, true, false),
        ] {
            let sent = leave(&now, Some(&other), &managed, zero, target, &[]);
            assert_eq!(sent.is_some(), left, "{name}");
        }
        let scaled = |object: Value| managers::is_scaled_to_zero(&managed, &object);
        assert!(scaled(json!({"spec": {"replicas": 0}})));
        assert!(!scaled(json!({"spec": {"replicas": 1}})) && !scaled(json!({"spec": {}})));
        let owned = [scaled_by("kubectl")];
        assert!(!managers::is_scaled_to_zero(&owned, &json!({"spec": {"replicas": 0}})));
    }

    /// C4.
    #[test]
    fn the_targets_of_autoscalers_are_found() {
        let hpa = Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler");
        let keda = Gvk::new("keda.sh", "v1alpha1", "ScaledObject");
        let target = |target: Value| json!({"scaleTargetRef": target});
        let set = object(&Gvk::new("apps", "v1", "StatefulSet"), "db", &json!({}));
        let all = [
            deployment(&json!({})),
            set.clone(),
            object(&hpa, "a", &target(json!({"kind": "StatefulSet", "name": "db"}))),
            object(&keda, "b", &target(json!({"name": "web"}))),
        ];
        assert_eq!(autoscaled(&all).len(), 2);
        assert!(autoscaled(&all[..3]).contains(&set.id));
    }

    #[test]
    fn a_field_of_a_rule_is_left_out_once_it_is_not_ours() {
        let rules = |paths: &str| -> Vec<Ignore> { ignore::parse(&format!(r#"[{{"paths":{paths}}}]"#)).unwrap() };
        let now = deployment(&json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}));
        let item = |name: &str| format!("k:{{\"name\":\"{name}\"}}");
        let managed = [ours(&json!({"f:containers": {
            item("a"): {"f:name": {}, "f:image": {}}, item("b"): {"f:name": {}}}}))];
        let sent = |paths: &str| leave(&now, None, &managed, false, false, &rules(paths));
        assert_eq!(sent(r#"["/spec/containers/0/image"]"#), None);
        let left = sent(r#"["/spec/containers/1/image", "/spec/containers/0/image"]"#).unwrap();
        assert_eq!(left["spec"]["containers"], json!([{"name": "a", "image": "1"}, {"name": "b"}]));
        assert_eq!(sent(r#"["/spec/none", "/metadata/a"]"#), None);
        // The rule does not apply before we have applied the object.
        assert_eq!(leave(&now, None, &[], false, false, &rules(r#"["/spec/containers/1/image"]"#)), None);
    }
}
