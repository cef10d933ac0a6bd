//! `overrideValues` of `watches.yaml`: environment variables are expanded, then a template runs, then `--set-string` reads the result
//! (operator-sdk 1.42: `watches.expandOverrideValues`, `release.parseOverrides`).

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::bounds;
use crate::chart::strvals::{self, Mode};
use crate::chart::values::scalar_text;
use crate::host;
use crate::object::field_error::FieldError;
use crate::render::{self, Limits};
use crate::template::function::{Function, Param};
use crate::template::functions;
use crate::template::go::Functions;
use crate::template::value;

/// Values that win over those of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// As the file has them, expanded: path and text, in the order of the file.
    pub texts: Vec<(String, String)>,
    /// As values.
    pub values: Map<String, Value>,
}

impl Overrides {
    /// Reads the field.
    pub fn read(field: &Value, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, FieldError> {
        let entries = match field {
            Value::Null => return Ok(Self::default()),
            Value::Object(entries) => entries,
            _ => return Err(FieldError::must_be(FIELD, "an object of texts")),
        };
        let mut overrides = Self::default();
        for (path, value) in entries {
            bounds::word(path).map_err(FieldError::within(format_args!("{FIELD}: a path")))?;
            let at = format!("{FIELD}: {path}");
            let written = scalar_text(value).ok_or_else(|| FieldError::must_be(&at, "a text"))?;
            let text = template(&expand(&written, env)).map_err(FieldError::within(&at))?;
            bounds::ANNOTATION.text(text.as_bytes()).map_err(FieldError::within(&at))?;
            let argument = format!("{path}={text}");
            strvals::apply_within(&argument, &mut overrides.values, &Mode::Text, bounds::PATH).map_err(|why| {
                // A value from the environment may be a secret, and the error quotes it.
                let why = if text == written {
                    why
                } else {
                    "the expanded text is not a valid --set-string value".to_owned()
                };
                FieldError::within(&at)(if has_bare_comma(&text) { format!("{why}{COMMA}") } else { why })
            })?;
            overrides.texts.push((path.clone(), text));
        }
        Ok(overrides)
    }

    /// The event's text for each value, as helm-operator writes it; with `hidden` the values are not shown.
    pub fn notes(&self, hidden: bool) -> impl Iterator<Item = String> {
        self.texts.iter().map(move |(path, text)| {
            let shown = if hidden { "****" } else { text };
            format!("Chart value {path:?} overridden to {shown:?} by operator's watches.yaml")
        })
    }
}

const FIELD: &str = "overrideValues";

/// The addition to an error if a comma ends a value.
const COMMA: &str = ". The value contains a comma, which begins the next value as in --set: write \\, for a comma in a \
                     text, or {a,b} for a list; for an environment variable, '{{ env \"NAME\" | replace \",\" \
                     \"\\\\,\" }}'";

/// Whether there is a comma without a backslash before it.
fn has_bare_comma(text: &str) -> bool {
    text.match_indices(',').any(|(at, _)| !text[..at].ends_with('\\'))
}

/// Go's `os.Expand`: `$NAME`, `${NAME}` and `$1`; an unset variable is empty. Text that is not a name stays, but is
/// removed in braces.
pub fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.is_empty() {
            expanded.push('$');
            break;
        }
        let (name, width) = shell_name(rest);
        match name {
            "" if width == 0 => expanded.push('$'),
            // As Go: bad syntax is eaten.
            "" => {}
            name => expanded.push_str(&env(name).unwrap_or_default()),
        }
        rest = &rest[width..];
    }
    expanded.push_str(rest);
    expanded
}

/// The name at the start of a text, and how many bytes it takes.
fn shell_name(text: &str) -> (&str, usize) {
    let is_special = |c: char| "*#$@!?-0123456789".contains(c);
    if let Some(inner) = text.strip_prefix('{') {
        return match inner.find('}') {
            Some(0) => ("", 2),
            Some(end) => (&inner[..end], end + 2),
            None => ("", 1),
        };
    }
    if text.starts_with(is_special) {
        return (&text[..1], 1);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..end], end)
}

/// Runs a template without data, with sprig's functions and, unlike in charts, those that read the environment.
fn template(text: &str) -> Result<String, String> {
    static TABLE: LazyLock<Arc<Functions>> =
        LazyLock::new(|| Arc::new(Functions::new(functions::all().chain(&ENVIRONMENT))));
    if text.contains("{{") {
        let options = host::options().limits(TEMPLATE);
        render::text_with(text, &options, Arc::clone(&TABLE))
    } else {
        Ok(text.to_owned())
    }
}

/// The limits of the template of one value.
const TEMPLATE: Limits = Limits { steps: Some(1_000_000), output: 1 << 20, memory: Some(16 << 20) };

static ENVIRONMENT: [Function; 2] = [
    Function {
        name: "env",
        params: &[Param::Str],
        variadic: false,
        run: |_, args| Ok(variable(&argument(args)).unwrap_or_default().into()),
    },
    Function {
        name: "expandenv",
        params: &[Param::Str],
        variadic: false,
        run: |_, args| Ok(expand(&argument(args), &variable).into()),
    },
];

fn argument(args: &[value::Value]) -> String {
    match args.first() {
        Some(value::Value::Str(text)) => text.text().into_owned(),
        _ => String::new(),
    }
}

/// A variable of the operator's environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::{Overrides, expand};
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        match name {
            "IMAGE" => Some("quay.io/a/b:1".to_owned()),
            "1" => Some("one".to_owned()),
            "LIST" => Some("c,d".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn the_environment_is_put_in_as_go_does() {
        let table = [
            ("$IMAGE", "quay.io/a/b:1"),
            ("x-${IMAGE}-y", "x-quay.io/a/b:1-y"),
            ("$NOTHING.", "."),
            ("$1", "one"),
            ("${1}", "one"),
            ("100%$", "100%$"),
            ("a$ b", "a$ b"),
            ("${}x", "x"),
            ("${x", "x"),
            ("é$IMAGE", "équay.io/a/b:1"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn a_template_runs_after_the_environment_and_paths_are_those_of_set() {
        let field = json!({"image.name": "{{ \"$IMAGE\" | upper }}", "list[0].a": "{x,y}", "on": true, "port": 8080.0});
        let read = Overrides::read(&field, &env).unwrap();
        let expected =
            json!({"image": {"name": "QUAY.IO/A/B:1"}, "list": [{"a": ["x", "y"]}], "on": "true", "port": "8080"});
        assert_eq!(serde_json::Value::Object(read.values.clone()), expected);
        let notes: Vec<String> = read.notes(false).take(1).chain(read.notes(true).take(1)).collect();
        assert_eq!(
            notes,
            [
                "Chart value \"image.name\" overridden to \"QUAY.IO/A/B:1\" by operator's watches.yaml",
                "Chart value \"image.name\" overridden to \"****\" by operator's watches.yaml",
            ]
        );
    }

    #[test]
    fn templates_may_read_the_environment() {
        let read = Overrides::read(&json!({"home": "{{ env \"CARGO_MANIFEST_DIR\" | base }}"}), &env).unwrap();
        assert!(!read.values["home"].as_str().unwrap().is_empty(), "{read:?}");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (field, expected) in [
            (json!({"a": {}}), "overrideValues: a must be a text"),
            (json!({"a": "{{ nothing }}"}), "overrideValues: a: "),
            (json!({"a": "b,c"}), "overrideValues: a: key \"c\" has no value"),
            (
                json!({"b": "$LIST"}),
                "overrideValues: b: the expanded text is not a valid --set-string value. The value contains a comma",
            ),
            (
                json!({"a[65536][65536]": "x"}),
                "overrideValues: a[65536][65536]: index of 65536 is greater than maximum",
            ),
            (json!({"a": "{{ range until 100000000 }}x{{ end }}"}), "overrideValues: a: "),
            (json!([]), "overrideValues must be an object of texts"),
        ] {
            let error = Overrides::read(&field, &env).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
