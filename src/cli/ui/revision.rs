//! The changes that a revision made: the manifests of two records, side by side and without secrets.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use crate::cli::common::error::CliError;
use crate::cli::common::output::as_yaml;
use crate::cli::common::release::entries;
use crate::cli::common::unified::unified;
use crate::cli::common::values::layers::Layers;
use crate::mask::Secrets;
use crate::mask::secret_data::hide;
use crate::object::Object;
use crate::reconcile::history::Kept;

/// A revision and the one before it, as the page takes them.
///
/// # Errors
/// The revision is not kept, or its record cannot be read.
pub(super) fn document(kept: &[Kept], revision: u64, layers: &Layers) -> Result<Value, CliError> {
    let at = kept.iter().position(|kept| kept.revision.revision == revision);
    let at = at.ok_or_else(|| format!("revision {revision} is not kept"))?;
    let after = objects(&kept[at])?;
    let before = at.checked_sub(1).map(|before| &kept[before]);
    let old = before.map(objects).transpose()?.unwrap_or_default();
    learn(kept, &[&old, &after], layers);
    let changed = entries(kept).get(at).map(|entry| entry["changedValues"].clone());
    Ok(json!({
        "revision": revision,
        "before": before.map(|kept| kept.revision.revision),
        "changedValues": changed,
        "changes": changes(old, after, &|text| layers.replace(text)),
    }))
}

fn objects(kept: &Kept) -> Result<Vec<Object>, CliError> {
    let wrong = |why: &dyn Display| {
        CliError(format!("the record of revision {} cannot be read: {why}", kept.revision.revision))
    };
    let record = kept.record.as_ref().map_err(|why| wrong(why))?;
    record.objects().map_err(|why| wrong(&why))
}

/// Teaches the masks the texts that the page does not show: those of the Secrets of both revisions, and the values of all records that come
/// from a Secret.
fn learn(kept: &[Kept], revisions: &[&Vec<Object>], layers: &Layers) {
    let objects = || revisions.iter().flat_map(|objects| objects.iter());
    let mut secrets = Secrets::of_objects(objects().flat_map(|object| [object.name.as_str(), &*object.gvk.kind]));
    for object in objects().filter(|object| is_secret(object)) {
        secrets.add_secret_object(&object.body);
    }
    for record in kept.iter().filter_map(|kept| kept.record.as_ref().ok()) {
        add_values(&record.config(), &mut Vec::new(), layers, &mut secrets);
    }
    layers.learn(secrets);
}

fn add_values(values: &Map<String, Value>, path: &mut Vec<String>, layers: &Layers, secrets: &mut Secrets) {
    for (key, value) in values {
        path.push(key.clone());
        match value {
            Value::Object(below) => add_values(below, path, layers, secrets),
            value if layers.is_secret_at(path) => secrets.add_values(value),
            _ => {}
        }
        path.pop();
    }
}

fn is_secret(object: &Object) -> bool {
    object.gvk.group.is_empty() && &*object.gvk.kind == "Secret"
}

/// An object's kind with its group, its namespace and its name.
type Key = (String, String, String);

fn changes(before: Vec<Object>, after: Vec<Object>, masked: &dyn Fn(&str) -> Option<String>) -> Vec<Value> {
    let mut pairs: BTreeMap<Key, (Option<Object>, Option<Object>)> = BTreeMap::new();
    let key =
        |object: &Object| (object.gvk.kind_group(), object.namespace.clone().unwrap_or_default(), object.name.clone());
    for object in before {
        let key = key(&object);
        pairs.entry(key).or_default().0 = Some(object);
    }
    for object in after {
        let key = key(&object);
        pairs.entry(key).or_default().1 = Some(object);
    }
    pairs.into_values().filter_map(|(before, after)| change(before, after, masked)).collect()
}

/// The difference of an object; `None` if there is none.
fn change(before: Option<Object>, after: Option<Object>, masked: &dyn Fn(&str) -> Option<String>) -> Option<Value> {
    let word = match (&before, &after) {
        (None, _) => "created",
        (_, None) => "pruned",
        _ => "changed",
    };
    let shown = before.as_ref().or(after.as_ref())?;
    let (kind, namespace, name) = (shown.gvk.kind.clone(), shown.namespace.clone(), shown.name.clone());
    let has_secrets = is_secret(shown);
    let (mut before, mut after) = (before.map(|o| Value::Object(o.body)), after.map(|o| Value::Object(o.body)));
    if before == after {
        return None;
    }
    if has_secrets {
        hide(before.as_mut(), after.as_mut());
    }
    let text = |object: Option<&Value>| {
        let Some(object) = object else { return String::new() };
        let text = as_yaml(object).unwrap_or_else(|why| format!("# it cannot be written as YAML: {why}\n"));
        masked(&text).unwrap_or_else(|| "# it is not shown: too much of it may be secret\n".to_owned())
    };
    let (before, mut after) = (text(before.as_ref()), text(after.as_ref()));
    if before == after {
        after.push_str("# the changes came from a Secret, and are not shown\n");
    }
    let diff: Vec<String> = unified(&before, &after).into_iter().map(|(_, line)| line).collect();
    Some(json!({"kind": &*kind, "namespace": namespace, "name": name, "change": word, "diff": diff.join("\n")}))
}

#[cfg(test)]
mod tests {
    use super::{Object, change};
    use serde_json::{Value, json};

    fn object(body: &Value) -> Option<Object> {
        Object::parse(&body.to_string()).unwrap()
    }

    fn config_map(text: &str) -> Option<Object> {
        object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"url": text}}))
    }

    #[test]
    fn manifests_are_compared_without_the_texts_of_secrets() {
        let masked = |text: &str| Some(text.replace("hunter22", "****"));
        let found = change(config_map("a-hunter22"), config_map("b-hunter22"), &masked).unwrap();
        let diff = found["diff"].as_str().unwrap();
        assert!(diff.contains("-  url: a-****") && diff.contains("+  url: b-****"), "{diff}");
        let hidden = change(config_map("hunter22"), config_map("'hunter22'"), &masked).unwrap();
        assert!(!hidden.to_string().contains("hunter22"), "{hidden}");
        assert!(change(config_map("a"), config_map("a"), &masked).is_none());
        assert_eq!(change(None, config_map("a"), &masked).unwrap()["change"], "created");
        assert_eq!(change(config_map("a"), None, &masked).unwrap()["change"], "pruned");
    }

    #[test]
    fn the_data_of_a_secret_is_hidden() {
        let masked = |text: &str| Some(text.to_owned());
        let secret = |data: &str| {
            object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"p": data}}))
        };
        let diff = change(secret("b25l"), secret("dHdv"), &masked).unwrap()["diff"].to_string();
        assert!(!diff.contains("b25l") && !diff.contains("dHdv") && diff.contains("*** (changed)"), "{diff}");
    }
}
