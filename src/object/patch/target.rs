//! Which objects a patch is for: kustomize's `Selector`.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::PatchError;
use crate::bounds;
use crate::object::Object;
use crate::template::budget::{self, Spent};

/// The conditions that an object must meet.
#[derive(Clone, Debug)]
pub struct PatchTarget {
    group: Option<Expression>,
    version: Option<Expression>,
    kind: Option<Expression>,
    name: Option<Expression>,
    namespace: Option<Expression>,
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
}

impl PatchTarget {
    /// Reads one: regular expressions that match the whole, and selectors.
    pub fn parse(value: &Value) -> Result<Self, PatchError> {
        let fields = value.as_object().ok_or("target: it is not an object")?;
        let known = ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];
        if let Some(unknown) = fields.keys().find(|k| !known.contains(&k.as_str())) {
            return Err(format!("target: unknown field {unknown:?}").into());
        }
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(s)) => {
                bounds::word(s).map_err(|why| format!("target: {key}: {why}"))?;
                Ok(Some(s.as_str()).filter(|s| !s.is_empty()))
            }
            Some(_) => Err(PatchError::Other(format!("target: {key} must be a text"))),
        };
        let expression = |key: &str| {
            text(key)?
                .map(|text| Expression::compile(text).map_err(|why| PatchError::Other(format!("target: {key} {why}"))))
                .transpose()
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
    pub fn matches(&self, object: &Object) -> Result<bool, Spent> {
        budget::work_of(1 + self.labels.len() + self.annotations.len())?;
        let texts = [
            (&self.group, &*object.gvk.group),
            (&self.version, &*object.gvk.version),
            (&self.kind, &*object.gvk.kind),
            (&self.name, object.name.as_str()),
            (&self.namespace, object.namespace.as_deref().unwrap_or_default()),
        ];
        for (expression, text) in texts {
            if let Some(expression) = expression
                && !expression.is_match(text)?
            {
                return Ok(false);
            }
        }
        let metadata = |of: &str, key: &str| {
            object.body.get("metadata").and_then(|m| m.get(of)?.get(key)?.as_str()).map(str::to_owned)
        };
        Ok(self.labels.iter().all(|r| r.holds(metadata("labels", &r.key).as_deref()))
            && self.annotations.iter().all(|r| r.holds(metadata("annotations", &r.key).as_deref())))
    }
}

/// A regular expression that matches a whole text.
#[derive(Clone, Debug)]
struct Expression {
    regex: Regex,
    /// Steps that a byte of text may cost.
    steps: usize,
}

impl Expression {
    fn compile(text: &str) -> Result<Self, PatchError> {
        if text.len() > bounds::EXPRESSION {
            return Err(format!("has {} bytes; the limit is {}", text.len(), bounds::EXPRESSION).into());
        }
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(bounds::COMPILED)
            .dfa_size_limit(bounds::COMPILED)
            .nest_limit(bounds::GROUPS)
            .build();
        match regex {
            // A repetition copies what it repeats.
            Ok(regex) => {
                let steps = if text.contains('{') { bounds::COMPILED / 64 } else { text.len() };
                Ok(Self { regex, steps })
            }
            Err(regex::Error::CompiledTooBig(limit)) => Err(format!("becomes larger than {limit} bytes").into()),
            Err(_) => {
                Err(format!("is not a regular expression with fewer than {} groups in groups", bounds::GROUPS).into())
            }
        }
    }

    fn is_match(&self, text: &str) -> Result<bool, Spent> {
        budget::work_of(1 + text.len().saturating_mul(self.steps) / 64)?;
        Ok(self.regex.is_match(text))
    }
}

/// One term of a selector.
#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    /// `None`: only the presence of the label counts.
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
fn requirements(selector: &str) -> Result<Vec<Requirement>, PatchError> {
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

fn requirement(term: &str) -> Result<Requirement, PatchError> {
    let of = |key: &str, values: Option<Vec<String>>, negated: bool| {
        let key = key.trim().to_owned();
        if key.is_empty() || key.contains([' ', '(', ')']) {
            return Err(PatchError::Term(term.to_owned()));
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
        let (head, list) = list.split_once('(').ok_or_else(|| PatchError::Term(term.to_owned()))?;
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
