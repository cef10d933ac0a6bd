//! Which objects a patch is for: kustomize's `Selector`.

use regex::Regex;
use serde_json::Value;

use crate::release::object::Object;

/// Conditions that an object meets.
#[derive(Clone, Debug)]
pub struct Target {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
}

impl Target {
    /// Reads one: regular expressions that match the whole, and selectors.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("target: it is not an object")?;
        let known = ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];
        if let Some(unknown) = fields.keys().find(|k| !known.contains(&k.as_str())) {
            return Err(format!("target: unknown field {unknown:?}"));
        }
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.as_str()).filter(|s| !s.is_empty())),
            Some(_) => Err(format!("target: {key} must be a text")),
        };
        let expression = |key: &str| {
            let compile = |text: &str| {
                Regex::new(&format!("^(?:{text})$")).map_err(|_| format!("target: {key} is no regular expression"))
            };
            text(key)?.map(compile).transpose()
        };
        Ok(Self {
            group: expression("group")?,
            version: expression("version")?,
            kind: expression("kind")?,
            name: expression("name")?,
            namespace: expression("namespace")?,
            labels: requirements(text("labelSelector")?.unwrap_or_default())?,
            annotations: requirements(text("annotationSelector")?.unwrap_or_default())?,
        })
    }

    /// Whether an object meets all conditions.
    pub fn matches(&self, object: &Object) -> bool {
        let fits = |regex: &Option<Regex>, text: &str| regex.as_ref().is_none_or(|r| r.is_match(text));
        let metadata = |of: &str, key: &str| {
            object.body.get("metadata").and_then(|m| m.get(of)?.get(key)?.as_str()).map(str::to_owned)
        };
        fits(&self.group, &object.gvk.group)
            && fits(&self.version, &object.gvk.version)
            && fits(&self.kind, &object.gvk.kind)
            && fits(&self.name, &object.name)
            && fits(&self.namespace, object.namespace.as_deref().unwrap_or_default())
            && self.labels.iter().all(|r| r.holds(metadata("labels", &r.key).as_deref()))
            && self.annotations.iter().all(|r| r.holds(metadata("annotations", &r.key).as_deref()))
    }
}

/// One term of a selector.
#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    /// `None`: that there is one at all is asked.
    values: Option<Vec<String>>,
    negated: bool,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let met = match &self.values {
            None => value.is_some(),
            Some(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
        };
        met != self.negated
    }
}

/// `a=b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, with commas between them.
fn requirements(selector: &str) -> Result<Vec<Requirement>, String> {
    let mut terms = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in selector.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms.into_iter().map(str::trim).filter(|t| !t.is_empty()).map(requirement).collect()
}

fn requirement(term: &str) -> Result<Requirement, String> {
    let of = |key: &str, values: Option<Vec<String>>, negated: bool| {
        let key = key.trim().to_owned();
        if key.is_empty() || key.contains([' ', '(', ')']) {
            return Err(format!("target: {term:?} is no term of a selector"));
        }
        Ok(Requirement { key, values, negated })
    };
    let one = |value: &str| Some(vec![value.trim().to_owned()]);
    if let Some((key, value)) = term.split_once("!=") {
        return of(key, one(value), true);
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return of(key, one(value), false);
    }
    if let Some(list) = term.strip_suffix(')') {
        let (head, list) = list.split_once('(').ok_or_else(|| format!("target: {term:?} is no term of a selector"))?;
        let values = Some(list.split(',').map(|v| v.trim().to_owned()).collect());
        if let Some(key) = head.trim_end().strip_suffix(" notin") {
            return of(key, values, true);
        }
        let key = head.trim_end().strip_suffix(" in");
        return of(key.unwrap_or_default(), values, false);
    }
    match term.strip_prefix('!') {
        Some(key) => of(key, None, true),
        None => of(term, None, false),
    }
}
