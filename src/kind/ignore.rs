//! Fields that the operator leaves to others: `tillerman.dev/ignore-drift` of a custom resource, `ignoreDrift` of an entry in watches.yaml.

use crate::names;
use serde_json::Value;

use crate::bounds;
use crate::object::ObjectId;
use crate::object::field_error::{FieldError, FieldProblem};

/// Annotation of a custom resource: a JSON list of rules, `[{"target": {"kind": …, "name": …}, "paths": ["/spec/replicas"]}]`.
pub const IGNORE_DRIFT: &str = names::IGNORE_DRIFT;

/// Fields of some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    group: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    /// JSON pointers (RFC 6901) into the object as the chart writes it.
    pub paths: Vec<String>,
}

impl Ignore {
    /// Whether it is about an object.
    pub fn covers(&self, id: &ObjectId) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|w| w == found);
        is(&self.group, &id.gvk.group)
            && is(&self.kind, &id.gvk.kind)
            && is(&self.name, &id.name)
            && is(&self.namespace, id.namespace.as_deref().unwrap_or_default())
    }
}

/// Reads the text of the annotation.
pub fn parse(text: &str) -> Result<Vec<Ignore>, FieldError> {
    read(&bounds::ANNOTATION.json(text)?)
}

/// Reads a list of rules.
pub fn read(rules: &Value) -> Result<Vec<Ignore>, FieldError> {
    bounds::ANNOTATION.value(rules)?;
    let rules = rules.as_array().ok_or("it is not a list")?;
    if rules.len() > bounds::RULES {
        return Err(format!("there are more than {} rules", bounds::RULES).into());
    }
    let rules: Vec<Ignore> = rules.iter().map(rule).collect::<Result<_, _>>()?;
    if rules.iter().map(|rule| rule.paths.len()).sum::<usize>() > bounds::PATHS {
        return Err(format!("its rules have more than {} paths", bounds::PATHS).into());
    }
    Ok(rules)
}

fn rule(rule: &Value) -> Result<Ignore, FieldError> {
    let fields = rule.as_object().ok_or("a rule is not an object")?;
    let mut ignore = Ignore::default();
    for (key, value) in fields {
        match key.as_str() {
            "target" => {
                for (key, value) in value.as_object().ok_or("target is not an object")? {
                    let at = || format!("target.{key}");
                    let text = value.as_str().ok_or_else(|| FieldError::is_not(at(), "a string"))?;
                    bounds::word(text).map_err(FieldError::within(at()))?;
                    let text = text.to_owned();
                    match key.as_str() {
                        "group" => ignore.group = Some(text),
                        "kind" => ignore.kind = Some(text),
                        "name" => ignore.name = Some(text),
                        "namespace" => ignore.namespace = Some(text),
                        _ => return Err(FieldError::new(at(), FieldProblem::Unknown)),
                    }
                }
            }
            "paths" => {
                for path in value.as_array().ok_or("paths is not a list")? {
                    let path = path.as_str().filter(|p| p.len() > 1 && p.starts_with('/'));
                    let path = path.ok_or("a path must be a JSON pointer such as /spec/replicas")?;
                    bounds::word(path).map_err(FieldError::within("a path"))?;
                    ignore.paths.push(path.to_owned());
                }
            }
            other => return Err(FieldError::new(other, FieldProblem::Unknown)),
        }
    }
    if ignore.paths.is_empty() { Err("a rule has no paths".into()) } else { Ok(ignore) }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::object::{Gvk, ObjectId};

    #[test]
    fn a_rule_covers_the_objects_that_its_target_names() {
        let rules = parse(
            r#"[{"target":{"kind":"Deployment","name":"web"},"paths":["/spec/replicas"]},{"paths":["/data/a"]}]"#,
        );
        let rules = rules.unwrap();
        let id = |kind: &str, name: &str| ObjectId {
            gvk: Gvk::new("apps", "v1", kind),
            namespace: Some("ns".into()),
            name: name.into(),
        };
        assert!(rules[0].covers(&id("Deployment", "web")));
        assert!(!rules[0].covers(&id("Deployment", "other")));
        assert!(!rules[0].covers(&id("StatefulSet", "web")));
        assert!(rules[1].covers(&id("StatefulSet", "other")));
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_named() {
        for (text, why) in [
            ("x", "it is not JSON"),
            ("{}", "it is not a list"),
            (r#"[{"target":{"kin":"x"},"paths":["/a"]}]"#, "target.kin is unknown"),
            (r#"[{"target":{"kind":"x"}}]"#, "a rule has no paths"),
            (r#"[{"paths":["spec.replicas"]}]"#, "a path must be a JSON pointer"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(why), "{text}");
        }
    }
}
