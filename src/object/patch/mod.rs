//! Patches of rendered objects, as `patches` of a kustomization: strategic merge and JSON 6902, with or without a target
//! (kustomize 5, `PatchTransformer`).

mod error;
mod identity;
mod json6902;
mod merge;
mod target;

use serde_json::{Map, Value};

use super::{Gvk, Object};
use crate::bounds;
use crate::harm;
use crate::template::budget::{self, Budget, Limits};
pub use error::PatchError;
use json6902::Operation;
use target::PatchTarget;

/// One patch.
#[derive(Clone, Debug)]
pub struct Patch {
    target: Option<PatchTarget>,
    content: Content,
    /// As it was written, for digests.
    source: Value,
}

#[derive(Clone, Debug)]
enum Content {
    Merge(Map<String, Value>),
    Json(Vec<Operation>),
}

impl PartialEq for Patch {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Patch {}

impl Patch {
    /// The patch as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    fn operations(&self) -> usize {
        match &self.content {
            Content::Merge(_) => 0,
            Content::Json(operations) => operations.len(),
        }
    }
}

/// Reads a list of patches; `patch` is YAML text, or the object or list itself.
pub fn parse(list: &Value) -> Result<Vec<Patch>, PatchError> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if items.len() > bounds::PATCHES => {
            Err(format!("there are more than {} patches", bounds::PATCHES).into())
        }
        Value::Array(items) => {
            let (mut patches, mut values) = (Vec::with_capacity(items.len()), 0);
            for item in items {
                patches.push(parse_one(item, &mut values)?);
                // Aliases can expand a short text, once for each patch.
                if values > bounds::ANNOTATION.values {
                    return Err(
                        format!("the patches have more than {} values together", bounds::ANNOTATION.values).into()
                    );
                }
            }
            let operations: usize = patches.iter().map(Patch::operations).sum();
            if operations > bounds::OPERATIONS {
                return Err(format!("there are {operations} operations; the limit is {}", bounds::OPERATIONS).into());
            }
            Ok(patches)
        }
        _ => Err("it is not a list".into()),
    }
}

/// Reads the annotation's text, JSON.
pub fn parse_text(text: &str) -> Result<Vec<Patch>, PatchError> {
    parse(&bounds::ANNOTATION.json(text).map_err(|why| why.to_string())?)
}

fn parse_one(item: &Value, values: &mut usize) -> Result<Patch, PatchError> {
    let fields = item.as_object().ok_or("a patch is not an object")?;
    if let Some(unknown) = fields.keys().find(|k| !["patch", "target"].contains(&k.as_str())) {
        return Err(format!("unknown field {unknown:?}; the fields are patch and target").into());
    }
    let target = fields.get("target").filter(|t| !t.is_null()).map(PatchTarget::parse).transpose()?;
    let content = match fields.get("patch") {
        Some(Value::String(text)) => {
            bounds::ANNOTATION.yaml(text.as_bytes()).map_err(|why| format!("a patch: {why}"))?
        }
        Some(value) => {
            bounds::ANNOTATION.value(value).map_err(|why| format!("a patch: {why}"))?;
            value.clone()
        }
        None => return Err("an entry has no patch".into()),
    };
    *values += bounds::weigh(&content).0;
    let content = match content {
        Value::Object(body) => Content::Merge(whole(body)),
        Value::Array(operations) if target.is_some() => {
            Content::Json(operations.iter().map(Operation::parse).collect::<Result<_, _>>()?)
        }
        Value::Array(_) => return Err("a JSON patch needs a target".into()),
        _ => return Err("a patch is neither an object nor a list of operations".into()),
    };
    if let (Content::Merge(body), None) = (&content, &target) {
        Object::from_body(body.clone()).map_err(|e| format!("a patch without a target: {e}"))?;
    }
    Ok(Patch { target, content, source: item.clone() })
}

/// Numbers of YAML as those of manifests.
fn whole(body: Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(body);
    super::make_whole(&mut value);
    match value {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// Applies the patches in their order. `None` in a place: a patch deleted that object. Errors quote no values.
///
/// A short patch can cost much: `copy` of a parent into its child doubles it, and one patch may be for all objects. So reads and copies
/// are counted ([`bounds::PATCHING`]).
pub fn apply(patches: &[Patch], objects: &mut [Option<Object>]) -> Result<(), PatchError> {
    let limits = if harm::is_unlimited() { Limits::default() } else { bounds::PATCHING };
    let mut budget = Budget::new(limits);
    budget.run(|| apply_all(patches, objects))
}

/// Charges a read of values, and returns how many bytes they take.
fn look(value: &Value) -> Result<usize, PatchError> {
    let mut bytes = 0;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        budget::work(1)?;
        bytes += VALUE;
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(map) => {
                bytes += map.keys().map(|key| key.len() + VALUE / 2).sum::<usize>();
                left.extend(map.values());
            }
            Value::String(text) => bytes += text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Ok(bytes)
}

/// Charges a copy of values, and returns how many bytes it takes.
fn copied(value: &Value) -> Result<usize, PatchError> {
    let bytes = look(value)?;
    budget::make(bytes)?;
    Ok(bytes)
}

/// Bytes that a value takes besides its text.
const VALUE: usize = 80;

fn apply_all(patches: &[Patch], objects: &mut [Option<Object>]) -> Result<(), PatchError> {
    for patch in patches {
        let mut found = false;
        let wanted = match (&patch.target, &patch.content) {
            (None, Content::Merge(body)) => Some(Object::from_body(body.clone())?),
            _ => None,
        };
        for place in objects.iter_mut() {
            let Some(object) = place else { continue };
            budget::work(1)?;
            let fits = match (&patch.target, &wanted) {
                (Some(target), _) => target.matches(object)?,
                (None, Some(wanted)) => is_named(object, wanted),
                (None, None) => false,
            };
            if fits {
                found = true;
                *place = patched(object, &patch.content)?;
            }
        }
        if let (false, Some(wanted)) = (found, &wanted) {
            return Err(format!("no object matches the patch of {} {}", wanted.gvk.kind, wanted.name).into());
        }
    }
    Ok(())
}

fn is_named(object: &Object, wanted: &Object) -> bool {
    wanted.gvk.group == object.gvk.group
        && wanted.gvk.kind == object.gvk.kind
        && wanted.name == object.name
        && wanted.namespace.as_deref().unwrap_or_default() == object.namespace.as_deref().unwrap_or_default()
}

fn patched(object: &Object, content: &Content) -> Result<Option<Object>, PatchError> {
    let what = || format!("{} {}", object.gvk.kind, object.name);
    let body = match content {
        Content::Merge(patch) => {
            // A patch is the same for all objects: it adds what it contains.
            for value in patch.values() {
                copied(value)?;
            }
            let Some(mut body) =
                merge::merge(&object.body, patch, is_built_in(&object.gvk)).map_err(|e| format!("{}: {e}", what()))?
            else {
                return Ok(None);
            };
            keep_identity(&mut body, object);
            body
        }
        Content::Json(operations) => {
            let mut value = Value::Object(object.body.clone());
            let mut bytes = copied(&value)?;
            for operation in operations {
                bytes += operation.apply(&mut value).map_err(|e| format!("{}: {e}", what()))?;
                if bytes > bounds::OBJECT && !harm::is_unlimited() {
                    return Err(format!("{}: patches make it larger than {} bytes", what(), bounds::OBJECT).into());
                }
            }
            match value {
                Value::Object(body) => body,
                _ => return Err(format!("{}: a patch leaves no object", what()).into()),
            }
        }
    };
    if let Some(field) = identity::changed(&object.body, &body) {
        return Err(format!("{}: a patch must not change {field}", what()).into());
    }
    Object::from_body(body).map(Some).map_err(|e| format!("{}: after a patch: {e}", what()).into())
}

/// A merge does not rename, as kustomize without `allowNameChange` and `allowKindChange`.
fn keep_identity(body: &mut Map<String, Value>, object: &Object) {
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.body.get(key) {
            body.insert(key.into(), value.clone());
        }
    }
    let old = object.body.get("metadata").and_then(Value::as_object);
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["name", "namespace"] {
            match old.and_then(|m| m.get(key)) {
                Some(value) => metadata.insert(key.into(), value.clone()),
                None => metadata.remove(key),
            };
        }
    }
}

/// Kinds whose lists have merge keys: Kubernetes' own.
fn is_built_in(gvk: &Gvk) -> bool {
    !gvk.group.contains('.') || gvk.group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::{PatchError, apply, parse};
    use crate::object::Object;
    use serde_json::{Value, json};

    fn object(body: &Value) -> Object {
        Object::from_body(body.as_object().unwrap().clone()).unwrap()
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"tier": "front"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}}})
    }

    fn patched(patches: &Value, body: &Value) -> Result<Option<Value>, PatchError> {
        let mut objects = [Some(object(body))];
        apply(&parse(patches)?, &mut objects)?;
        let [object] = objects;
        Ok(object.map(|o| Value::Object(o.body)))
    }

    #[test]
    fn a_strategic_merge_finds_its_object_by_name_and_list_items_by_key() {
        let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n  template:\n    spec:\n      \
                     containers:\n      - {name: b, image: 'b:2'}\n      - {name: c, image: 'c:1'}\n";
        let result = patched(&json!([{"patch": patch}]), &deployment()).unwrap().unwrap();
        assert_eq!(result["spec"]["replicas"], 3);
        // kustomize puts the patch's items first.
        let expected =
            json!([{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}, {"name": "a", "image": "a:1"}]);
        assert_eq!(result["spec"]["template"]["spec"]["containers"], expected);
    }

    #[test]
    fn targets_are_expressions_and_selectors() {
        let change = json!({"metadata": {"name": "other", "annotations": {"a": "b"}}});
        for (target, fits) in [
            (json!({"kind": "Deployment"}), true),
            (json!({"kind": "Deploy"}), false),
            (json!({"name": "w.*", "group": "apps"}), true),
            (json!({"labelSelector": "tier in (front,back),!other"}), true),
            (json!({"labelSelector": "tier!=front"}), false),
            (json!({"annotationSelector": "x"}), false),
            (json!({"namespace": "x"}), false),
        ] {
            let patches = json!([{"target": target, "patch": change}]);
            let result = patched(&patches, &deployment()).unwrap().unwrap();
            assert_eq!(result.pointer("/metadata/annotations/a").is_some(), fits, "{target}");
            assert_eq!(result["metadata"]["name"], "web", "{target}");
        }
    }

    #[test]
    fn json_operations_are_those_of_rfc_6902() {
        let operations = json!([
            {"op": "test", "path": "/spec/replicas", "value": 1},
            {"op": "replace", "path": "/spec/replicas", "value": 5},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
            {"op": "copy", "from": "/metadata/labels/tier", "path": "/metadata/labels/copied"},
            {"op": "move", "from": "/metadata/labels/tier", "path": "/metadata/labels/moved"},
            {"op": "remove", "path": "/spec/template/spec/containers/0"},
            {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "z"}},
        ]);
        let patches = json!([{"target": {"kind": "Deployment"}, "patch": operations.to_string()}]);
        let result = patched(&patches, &deployment()).unwrap().unwrap();
        assert_eq!(result["spec"]["replicas"], 5);
        assert_eq!(result["metadata"]["labels"], json!({"a/b": "c", "copied": "front", "moved": "front"}));
        assert_eq!(
            result["spec"]["template"]["spec"]["containers"],
            json!([{"name": "b", "image": "b:1"}, {"name": "z"}])
        );
    }

    #[test]
    fn an_object_can_be_deleted() {
        let patches = json!([{"target": {"kind": "Deployment"}, "patch": {"$patch": "delete"}}]);
        assert_eq!(patched(&patches, &deployment()).unwrap(), None);
    }

    #[test]
    fn no_patch_changes_which_object_it_is_or_whose() {
        let elsewhere =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pwned", "namespace": "kube-system"}});
        let role = json!({"op": "replace", "path": "/kind", "value": "ClusterRoleBinding"});
        let mark = |path: &str| json!({"op": "add", "path": path, "value": {"operator-sdk/primary-resource": "x/y"}});
        for (operation, field) in [
            (json!({"op": "replace", "path": "", "value": elsewhere}), "apiVersion"),
            (json!({"op": "replace", "path": "/apiVersion", "value": "v1"}), "apiVersion"),
            (role, "kind"),
            (
                json!({"op": "replace", "path": "/metadata", "value": {"name": "web", "namespace": "kube-system"}}),
                "metadata.namespace",
            ),
            (json!({"op": "add", "path": "/metadata/namespace", "value": "kube-system"}), "metadata.namespace"),
            (json!({"op": "copy", "from": "/kind", "path": "/metadata/name"}), "metadata.name"),
            (json!({"op": "move", "from": "/metadata/name", "path": "/metadata/generateName"}), "metadata.name"),
            (json!({"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}), "metadata.finalizers"),
            (
                json!({"op": "add", "path": "/metadata/ownerReferences", "value": [{"uid": "u"}]}),
                "metadata.ownerReferences",
            ),
            (mark("/metadata/annotations"), "metadata.annotations operator-sdk/primary-resource"),
            (
                json!({"op": "add", "path": "/metadata/labels/helm.sdk.operatorframework.io~1chart", "value": "other"}),
                "metadata.labels helm.sdk.operatorframework.io/chart",
            ),
        ] {
            let patches = json!([{"target": {"kind": "Deployment"}, "patch": [operation]}]);
            let refused = patched(&patches, &deployment()).unwrap_err().to_string();
            assert_eq!(refused, format!("Deployment web: a patch must not change {field}"), "{operation}");
        }
        let merges = json!([{"target": {}, "patch": {"metadata": {"finalizers": ["a/b"]}}}]);
        assert_eq!(
            patched(&merges, &deployment()).unwrap_err().to_string(),
            "Deployment web: a patch must not change metadata.finalizers"
        );
    }

    #[test]
    fn mistakes_are_named_and_values_are_not() {
        let target = json!({"kind": "Deployment"});
        for (patches, expected) in [
            (json!({}), "it is not a list"),
            (json!([{"target": target}]), "an entry has no patch"),
            (json!([{"patch": []}]), "a JSON patch needs a target"),
            (json!([{"patch": "a: [", "target": target}]), "a patch: it is not valid YAML"),
            (json!([{"patch": {"kind": "Deployment"}}]), "a patch without a target: a manifest has no apiVersion"),
            (json!([{"target": {"nmae": "x"}, "patch": {}}]), "target: unknown field \"nmae\""),
            (
                json!([{"target": {"name": "("}, "patch": {}}]),
                "target: name is not a regular expression with fewer than 20 groups in groups",
            ),
            (json!([{"target": target, "patch": [{"op": "jump", "path": "/a"}]}]), "there is no operation \"jump\""),
            (
                json!([{"target": target, "patch": [{"op": "remove", "path": "/a/b"}]}]),
                "Deployment web: there is nothing at /a/b",
            ),
            (
                json!([{"target": target, "patch": [{"op": "test", "path": "/spec/replicas", "value": "secret"}]}]),
                "Deployment web: the test of /spec/replicas failed",
            ),
            (
                json!([{"patch": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}}]),
                "no object matches the patch of Service x",
            ),
        ] {
            assert_eq!(patched(&patches, &deployment()).unwrap_err().to_string(), expected, "{patches}");
        }
    }
}
