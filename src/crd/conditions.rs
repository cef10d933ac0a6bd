//! Conditions of a chart's values.schema.json as rules in CEL (`x-kubernetes-validations`).
//!
//! A condition is about the merged values, and the API server sees the user's part. So a rule reads the chart's default where the
//! custom resource has no value: `(has(self.a) ? self.a == true : false)`. A value that CEL cannot see, such as one
//! without a single type, makes the whole condition untranslatable. The operator, which checks the merged values, then
//! checks it.

use super::{Evidence, Path};
use crate::chart::Values;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// A rule that is longer costs more than it is worth.
const LONGEST: usize = 4000;
/// The most rules of one definition.
const MOST: usize = 100;
/// How deep conditions may nest.
const DEEPEST: usize = 24;
/// Characters of a message.
const MESSAGE: usize = 300;

/// Words that CEL keeps for itself.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
];

/// A test of the merged values.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Always(bool),
    /// The value is there.
    Present(Path),
    /// The value is there and is equal to this scalar.
    Equals(Path, Value),
    /// The value is there and is a text of at least so many characters.
    Longer(Path, u64),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
}

impl Test {
    fn not(self) -> Self {
        match self {
            Self::Always(is) => Self::Always(!is),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    fn all(tests: Vec<Self>) -> Self {
        if tests.contains(&Self::Always(false)) {
            return Self::Always(false);
        }
        let mut tests: Vec<Self> = tests.into_iter().filter(|test| *test != Self::Always(true)).collect();
        match tests.len() {
            0 => Self::Always(true),
            1 => tests.remove(0),
            _ => Self::All(tests),
        }
    }

    fn any(tests: Vec<Self>) -> Self {
        if tests.contains(&Self::Always(true)) {
            return Self::Always(true);
        }
        let mut tests: Vec<Self> = tests.into_iter().filter(|test| *test != Self::Always(false)).collect();
        match tests.len() {
            0 => Self::Always(false),
            1 => tests.remove(0),
            _ => Self::Any(tests),
        }
    }

    /// Whether it holds for merged values.
    fn holds(&self, values: &Values) -> bool {
        let is = |path: &Path, test: &dyn Fn(&Value) -> bool| at(values, path).is_some_and(test);
        match self {
            Self::Always(is) => *is,
            Self::Present(path) => is(path, &|_| true),
            Self::Equals(path, wanted) => is(path, &|value| same(value, wanted)),
            Self::Longer(path, least) => is(path, &|value| longer(value, *least)),
            Self::Not(inner) => !inner.holds(values),
            Self::All(tests) => tests.iter().all(|test| test.holds(values)),
            Self::Any(tests) => tests.iter().any(|test| test.holds(values)),
        }
    }

    /// Its expression, where the defaults are those of the chart.
    fn expression(&self, defaults: &Values, out: &mut String) {
        let mut scalar = |path: &Path, given: &str, by_default: bool| {
            let _ = write!(out, "({} ? {given} : {by_default})", has(path));
        };
        match self {
            Self::Always(is) => out.push_str(if *is { "true" } else { "false" }),
            Self::Present(path) => scalar(path, "true", at(defaults, path).is_some()),
            Self::Equals(path, wanted) => {
                let by_default = at(defaults, path).is_some_and(|value| same(value, wanted));
                scalar(path, &format!("{} == {wanted}", place(path)), by_default);
            }
            Self::Longer(path, least) => {
                let by_default = at(defaults, path).is_some_and(|value| longer(value, *least));
                scalar(path, &format!("size({}) >= {least}", place(path)), by_default);
            }
            Self::Not(inner) => {
                out.push_str("!(");
                inner.expression(defaults, out);
                out.push(')');
            }
            Self::All(tests) | Self::Any(tests) => {
                let word = if matches!(self, Self::All(_)) { " && " } else { " || " };
                out.push('(');
                for (number, test) in tests.iter().enumerate() {
                    if number > 0 {
                        out.push_str(word);
                    }
                    test.expression(defaults, out);
                }
                out.push(')');
            }
        }
    }
}

fn at<'v>(values: &'v Values, path: &Path) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    let found = rest.iter().try_fold(values.get(&**first)?, |value, key| value.get(&**key))?;
    (!found.is_null()).then_some(found)
}

fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

fn longer(value: &Value, least: u64) -> bool {
    value.as_str().is_some_and(|text| text.chars().count() as u64 >= least)
}

/// A key as CEL writes it.
fn escaped(key: &str) -> String {
    if RESERVED.contains(&key) {
        format!("__{key}__")
    } else {
        key.replace("__", "__underscores__").replace('-', "__dash__")
    }
}

fn place(path: &[Box<str>]) -> String {
    path.iter().fold("self".to_owned(), |place, key| place + "." + &escaped(key))
}

/// Whether the custom resource has a value: the test includes each table on the way.
fn has(path: &Path) -> String {
    let asked: Vec<String> = (1..=path.len()).map(|length| format!("has({})", place(&path[..length]))).collect();
    asked.join(" && ")
}

/// The conditions of a schema.
struct Reader<'s> {
    root: &'s Value,
    /// The structural schema of the values, in which CEL finds its types.
    types: &'s Value,
    found: Vec<(Test, String)>,
}

/// Adds the rules of a chart's schema to the structural schema of its values. A rule that the defaults or one of the files do not
/// keep is left out.
pub fn add(types: &mut Value, schema: &Value, defaults: &Values, evidence: &[Evidence]) {
    let mut reader = Reader { root: schema, types: &types.clone(), found: Vec::new() };
    reader.walk(schema, &Path::new(), 0);
    let merged: Vec<Values> = evidence
        .iter()
        .map(|file| {
            let mut merged = defaults.clone();
            crate::chart::values::merge(&mut merged, file.values.clone());
            merged
        })
        .collect();
    let mut rules = Vec::new();
    for (test, message) in reader.found {
        if matches!(test, Test::Always(_)) || !std::iter::once(defaults).chain(&merged).all(|values| test.holds(values))
        {
            continue;
        }
        let mut rule = String::new();
        test.expression(defaults, &mut rule);
        if rule.len() <= LONGEST && rules.len() < MOST {
            rules.push(json!({"rule": rule, "message": message}));
        }
    }
    if !rules.is_empty() {
        types["x-kubernetes-validations"] = rules.into();
    }
}

impl Reader<'_> {
    /// Looks for conditions at a place and below, but not in lists.
    fn walk(&mut self, schema: &Value, path: &Path, depth: usize) {
        let Value::Object(schema) = self.resolved(schema) else { return };
        if depth > DEEPEST {
            return;
        }
        let schema = schema.clone();
        let mut add = |test: Option<Test>, message: String| {
            if let Some(test) = test {
                self.found.push((guarded(path, test), message));
            }
        };
        let reader = Reader { root: self.root, types: self.types, found: Vec::new() };
        let part = |keys: &[&str]| -> Map<String, Value> {
            keys.iter().filter_map(|key| Some(((*key).to_owned(), schema.get(*key)?.clone()))).collect()
        };
        if schema.contains_key("if") {
            let test = reader.test(&Value::Object(part(&["if", "then", "else"])), path, depth);
            let then = schema.get("then").or_else(|| schema.get("else"));
            add(test, message(path, [then, Some(&Value::Object(schema.clone()))]));
        }
        for key in ["not", "anyOf", "oneOf"] {
            if schema.contains_key(key) {
                add(reader.test(&Value::Object(part(&[key])), path, depth), message(path, [schema.get(key), None]));
            }
        }
        for below in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let then = below.get("then").filter(|then| then.get("description").is_some());
            add(reader.test(below, path, depth), message(path, [then, Some(below)]));
        }
        for (key, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = path.iter().cloned().chain([key.as_str().into()]).collect();
            self.walk(below, &path, depth + 1);
        }
    }

    fn resolved<'v>(&'v self, schema: &'v Value) -> &'v Value {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// The demands of a schema on the value at a place, if it exists. `None` if it cannot be said.
    fn test(&self, schema: &Value, path: &Path, depth: usize) -> Option<Test> {
        let schema = match self.resolved(schema) {
            Value::Bool(is) => return Some(Test::Always(*is)),
            Value::Object(schema) if depth <= DEEPEST => schema,
            _ => return None,
        };
        let below = |schema: &Value| self.test(schema, path, depth + 1);
        let list = |value: &Value| value.as_array()?.iter().map(below).collect::<Option<Vec<Test>>>();
        let mut tests = Vec::new();
        for (key, value) in schema {
            tests.push(match key.as_str() {
                "description" | "title" | "$comment" | "default" | "examples" | "then" | "else" => continue,
                "const" => self.equals(path, value)?,
                "enum" => Test::any(value.as_array()?.iter().map(|v| self.equals(path, v)).collect::<Option<_>>()?),
                "required" => {
                    let keys = value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
                    Test::all(keys.into_iter().map(|key| self.present(&under(path, key))).collect::<Option<_>>()?)
                }
                "properties" => {
                    let one = |(key, schema): (&String, &Value)| {
                        let path = under(path, key);
                        Some(guarded(&path, self.test(schema, &path, depth + 1)?))
                    };
                    Test::all(value.as_object()?.iter().map(one).collect::<Option<_>>()?)
                }
                "minLength" if self.kind(path)? == "string" => Test::Longer(path.clone(), value.as_u64()?),
                "type" => self.of_type(path, value)?,
                "not" => below(value)?.not(),
                "allOf" => Test::all(list(value)?),
                "anyOf" => Test::any(list(value)?),
                "oneOf" => exactly_one(&list(value)?),
                "if" => {
                    let test = below(value)?;
                    let or_true = |key: &str| schema.get(key).map_or(Some(Test::Always(true)), below);
                    let (then, otherwise) = (or_true("then")?, or_true("else")?);
                    Test::all(vec![Test::any(vec![test.clone().not(), then]), Test::any(vec![test, otherwise])])
                }
                _ => return None,
            });
        }
        Some(Test::all(tests))
    }

    /// The type of a value that CEL can read: a scalar, or a table.
    fn kind(&self, path: &Path) -> Option<&str> {
        let mut schema = self.types;
        for key in path {
            if schema["type"] != "object" || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            {
                return None;
            }
            if key.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            schema = schema.get("properties")?.get(&**key)?;
        }
        schema.get("type")?.as_str().filter(|kind| *kind != "array")
    }

    fn present(&self, path: &Path) -> Option<Test> {
        self.kind(path).map(|_| Test::Present(path.clone()))
    }

    fn equals(&self, path: &Path, value: &Value) -> Option<Test> {
        let fits = match self.kind(path)? {
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "integer" => value.is_i64(),
            _ => false,
        };
        fits.then(|| Test::Equals(path.clone(), value.clone()))
    }

    /// A type that the definition has already needs no test, and another type never holds.
    fn of_type(&self, path: &Path, value: &Value) -> Option<Test> {
        let kind = if path.is_empty() { "object" } else { self.kind(path)? };
        let is = |wanted: &str| wanted == kind || wanted == "number" && kind == "integer";
        Some(Test::Always(match value {
            Value::String(wanted) => is(wanted),
            Value::Array(wanted) => wanted.iter().any(|wanted| wanted.as_str().is_some_and(is)),
            _ => return None,
        }))
    }
}

fn under(path: &Path, key: &str) -> Path {
    path.iter().cloned().chain([key.into()]).collect()
}

/// A test of a value that need not be there.
fn guarded(path: &Path, test: Test) -> Test {
    if path.is_empty() { test } else { Test::any(vec![Test::Present(path.clone()).not(), test]) }
}

fn exactly_one(tests: &[Test]) -> Test {
    let one = |at: usize| {
        let each = tests.iter().enumerate();
        Test::all(each.map(|(other, test)| if other == at { test.clone() } else { test.clone().not() }).collect())
    };
    Test::any((0..tests.len()).map(one).collect())
}

/// The message when a rule is broken: the author's words, if there are any.
fn message(path: &Path, described: [Option<&Value>; 2]) -> String {
    let text = described.into_iter().flatten().find_map(|schema| schema.get("description")?.as_str());
    let words = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty());
    words.map_or_else(
        || {
            let place: Vec<&str> = std::iter::once("spec").chain(path.iter().map(|key| &**key)).collect();
            format!("a condition of the chart's values.schema.json at {} does not hold", place.join("."))
        },
        |words| words.chars().take(MESSAGE).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::chart::Values;
    use serde_json::{Value, json};

    fn values(value: Value) -> Values {
        let Value::Object(values) = value else { unreachable!("it is a table") };
        values
    }

    /// The rules of a schema, and their messages.
    fn rules(schema: &Value, defaults: Value) -> Vec<(String, String)> {
        let flag = json!({"type": "boolean", "nullable": true});
        let table = |properties: Value| json!({"type": "object", "nullable": true, "properties": properties});
        let mut types = table(json!({
            "all": flag, "word": {"type": "string"}, "open": {"x-kubernetes-preserve-unknown-fields": true},
            "scaling": table(json!({"enabled": flag})), "list": {"type": "array", "items": {}},
        }));
        add(&mut types, schema, &values(defaults), &[]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rules = types["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|rule| (text(&rule["rule"]), text(&rule["message"]))).collect()
    }

    #[test]
    fn a_condition_reads_the_default_where_the_custom_resource_says_nothing() {
        let both =
            json!({"properties": {"all": {"const": true}, "scaling": {"properties": {"enabled": {"const": true}}}}});
        let schema = json!({"allOf": [{"if": both, "then": {"not": {"type": "object"}, "description": "Not  both."}}]});
        let found = rules(&schema, json!({"all": false, "scaling": {"enabled": false}}));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, "Not both.");
        for part in [
            "(has(self.all) ? self.all == true : false)",
            "(has(self.scaling) && has(self.scaling.enabled) ? self.scaling.enabled == true : false)",
        ] {
            assert!(found[0].0.contains(part), "{}", found[0].0);
        }
    }

    #[test]
    fn what_is_required_may_come_from_the_defaults() {
        let schema = json!({"anyOf": [{"required": ["word"]}, {"required": ["all"]}]});
        // Neither is there by default, so an empty custom resource would be refused: no rule.
        assert_eq!(rules(&schema, json!({})), []);
        let found = rules(&schema, json!({"word": "x"}));
        assert!(found[0].0.contains("(has(self.word) ? true : true)"), "{found:?}");
        assert_eq!(found[0].1, "a condition of the chart's values.schema.json at spec does not hold");
    }

    #[test]
    fn what_cel_cannot_see_is_left_to_the_operator() {
        for schema in [
            json!({"not": {"properties": {"open": {"const": true}}}}),
            json!({"not": {"properties": {"list": {"minItems": 1}}}}),
            json!({"not": {"properties": {"unknown": {"const": true}}}}),
            json!({"not": {"properties": {"word": {"pattern": "^a"}}}}),
            json!({"properties": {"word": {"type": "string"}}}),
        ] {
            assert_eq!(rules(&schema, json!({})), [], "{schema}");
        }
    }

    #[test]
    fn a_condition_of_a_table_counts_where_the_table_is_there() {
        let schema =
            json!({"properties": {"scaling": {"if": {"properties": {"enabled": {"const": true}}}, "then": false}}});
        let found = rules(&schema, json!({}));
        assert!(found[0].0.contains("has(self.scaling)"), "{found:?}");
        assert!(found[0].1.ends_with("at spec.scaling does not hold"), "{found:?}");
    }
}
