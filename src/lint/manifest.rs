//! The head of a manifest, as Helm's linter reads it.

use super::LintError;
use crate::chart::{field, values};
use crate::template::yaml;
use serde_json::Value;

/// The parts of a document that the linter checks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// The documents of a text; `None` for one without content. Nothing follows an error.
pub fn documents(text: &str) -> Vec<Result<Option<Head>, LintError>> {
    let documents = match yaml::split_documents(text.as_bytes()) {
        Ok(documents) => documents,
        // The documents before a broken separator are read before it is.
        Err(e) => return vec![Err(e.into())],
    };
    let mut heads = Vec::new();
    for document in documents {
        let head = yaml::parse(&document).map_err(LintError::from).and_then(|value| head(&value));
        let failed = head.is_err();
        heads.push(head);
        if failed {
            break;
        }
    }
    heads
}

fn head(value: &Value) -> Result<Option<Head>, LintError> {
    let failed =
        |what: &Value, target: &str| Err(LintError::Type { found: values::json_type(what), wanted: target.into() });
    let entries = match value {
        Value::Null => return Ok(None),
        Value::Object(entries) => entries,
        other => return failed(other, "value of type rules.k8sYamlStruct"),
    };
    let mut head = Head::default();
    for (key, to, path) in [
        ("apiVersion", &mut head.api_version, "k8sYamlStruct.apiVersion"),
        ("kind", &mut head.kind, "k8sYamlStruct.Kind"),
    ] {
        let Some(found) = field(entries, key) else { continue };
        match values::scalar_text(found) {
            Some(text) => *to = text,
            None => return failed(found, &format!("struct field {path} of type string")),
        }
    }
    match field(entries, "metadata") {
        None => {}
        Some(Value::Object(metadata)) => {
            for (key, path) in
                [("name", "k8sYamlMetadata.Metadata.Name"), ("namespace", "k8sYamlMetadata.Metadata.Namespace")]
            {
                let Some(found) = field(metadata, key) else { continue };
                match values::scalar_text(found) {
                    Some(text) if key == "name" => head.name = text,
                    Some(_) => {}
                    None => return failed(found, &format!("struct field {path} of type string")),
                }
            }
        }
        Some(other) => return failed(other, "struct field k8sYamlStruct.Metadata of type rules.k8sYamlMetadata"),
    }
    Ok(Some(head))
}

/// Whether an item of a `List` has the annotation that Helm reads of objects only.
pub fn has_kept_item(manifest: &str) -> Result<bool, LintError> {
    let value = yaml::parse(manifest.as_bytes()).map_err(|e| format!("unable to parse YAML: {e}"))?;
    let items = value.get("items").and_then(Value::as_array);
    Ok(items.into_iter().flatten().any(|item| item["metadata"]["annotations"].get("helm.sh/resource-policy").is_some()))
}

#[cfg(test)]
mod tests {
    use super::{documents, has_kept_item};

    #[test]
    fn heads_are_read_until_a_document_is_broken() {
        let read = documents("kind: A\nmetadata: {name: 1}\n---\n# nothing\n---\na: b: c\n---\nkind: D\n");
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].as_ref().unwrap().as_ref().map(|h| (h.kind.as_str(), h.name.as_str())), Some(("A", "1")));
        assert_eq!(read[1], Ok(None));
        assert!(read[2].is_err());
        let wrong = documents("metadata: {name: []}").remove(0).unwrap_err().to_string();
        assert!(
            wrong.ends_with("cannot unmarshal array into Go struct field k8sYamlMetadata.Metadata.Name of type string")
        );
    }

    #[test]
    fn an_annotation_inside_a_list_is_found() {
        assert_eq!(has_kept_item("items: [{metadata: {annotations: {helm.sh/resource-policy: keep}}}]"), Ok(true));
        assert_eq!(has_kept_item("items: [{metadata: {}}]"), Ok(false));
    }
}
