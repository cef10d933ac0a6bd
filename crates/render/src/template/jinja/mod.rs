//! minijinja charts: templates in which no value can break the YAML around it.
//!
//! Every expression prints JSON, which is YAML wherever a whole value is allowed. [`check`] refuses expressions
//! anywhere else when the chart is loaded. The output that a macro or a block captures is template text with JSON in
//! it, and is printed as it is. Filters and tags that would print a value unescaped do not exist here.

mod context;
mod host;
mod limits;
mod place;

use crate::template::budget::{self, Limits};
use crate::template::function::SharedHost;
pub use crate::template::jinja_error::JinjaError;
use crate::template::trace::{Excerpt, Location};
pub use context::{Misplaced, check};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use std::borrow::Cow;

/// How many instructions one template may take.
const FUEL: u64 = 20_000_000;

/// The compiled templates of one chart.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    /// The templates of the chart itself, and then those of its dependencies, which it may import.
    names: Vec<String>,
    own: usize,
}

impl Templates {
    /// Compiles templates; names are full paths (`web/templates/a.yaml`), which `include` and `import` use too.
    /// The first `own` are the chart's. Those of dependencies, and one whose last name starts with `_`, are not rendered by themselves.
    pub fn compile(own: usize, files: &[(String, Cow<'_, str>)]) -> Result<Self, JinjaError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| AutoEscape::Json);
        environment.set_formatter(print);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(100);
        // A line that holds only a tag leaves nothing behind.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|e| error("", &e))?);
        for unescaped in ["safe", "escape", "e"] {
            environment.remove_filter(unescaped);
        }
        environment.add_filter("sha256", |text: String| {
            use sha2::Digest;
            data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(text.as_bytes()))
        });
        environment.add_filter("b64encode", |text: String| {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.encode(text)
        });
        host::add_pure(&mut environment);
        limits::charge_filters(&mut environment);
        // A path in an include or import may be relative to the folder of the template that names it.
        environment.set_path_join_callback(|name, parent| {
            let mut folders: Vec<&str> = parent.split('/').collect();
            folders.pop();
            for part in name.split('/') {
                match part {
                    ".." => drop(folders.pop()),
                    part => folders.push(part),
                }
            }
            folders.join("/").into()
        });
        let mut names = Vec::new();
        for (name, text) in files {
            if !is_notes(name) {
                check(text).map_err(|e| misplaced(name, text, &e))?;
            }
            environment.add_template_owned(name.clone(), text.to_string()).map_err(|e| {
                let mut error = error(name, &e);
                let line = e.line().and_then(|line| Some((line, text.split('\n').nth(line - 1)?)));
                if let Some((line, text)) = line {
                    let mut place = Location::line(name, line);
                    place.excerpt = Some(Excerpt::whole(line, text));
                    error.trace.push(place);
                }
                error
            })?;
            names.push(name.clone());
        }
        Ok(Self { environment, names, own })
    }

    /// Whether these are compiled, in this order.
    pub fn are_made_of(&self, own: usize, files: &[(String, Cow<'_, str>)]) -> bool {
        let is_it = |(name, (file, text)): (&String, &(String, Cow<'_, str>))| {
            name == file && self.environment.get_template(name).is_ok_and(|template| template.source() == text)
        };
        own == self.own && files.len() == self.names.len() && self.names.iter().zip(files).all(is_it)
    }

    fn own(&self) -> &[String] {
        &self.names[..self.own]
    }

    /// The names that the templates take from the context, with the fields they ask of them: `values.image.tag`.
    pub fn undeclared(&self) -> std::collections::BTreeSet<String> {
        let templates = self.own().iter().filter_map(|name| self.environment.get_template(name).ok());
        templates.flat_map(|template| template.undeclared_variables(true)).collect()
    }

    /// Renders all templates that are not partials, in the order they were given: name and text. Requests beyond the
    /// context go to the host. The cost is charged to the budget of the rendering.
    pub fn render(
        &self,
        json: &serde_json::Value,
        host: &SharedHost,
        limits: &Limits,
    ) -> Result<Vec<(String, String)>, JinjaError> {
        let context = Value::from(Serde(json));
        let environment = self.with(host);
        let whole = |name: &&String| !name.rsplit('/').next().is_some_and(|base| base.starts_with('_'));
        let mut texts = Vec::new();
        for name in self.own().iter().filter(whole) {
            texts.push((name.clone(), Self::one(&environment, name, &context, json, limits)?));
        }
        Ok(texts)
    }

    /// Renders one template, which may be a partial.
    pub fn render_one(
        &self,
        name: &str,
        json: &serde_json::Value,
        host: &SharedHost,
        limits: &Limits,
    ) -> Result<String, JinjaError> {
        Self::one(&self.with(host), name, &Value::from(Serde(json)), json, limits)
    }

    fn with(&self, host: &SharedHost) -> Environment<'static> {
        let mut environment = self.environment.clone();
        host::add(&mut environment, host);
        environment
    }

    fn one(
        environment: &Environment<'_>,
        name: &str,
        context: &Value,
        json: &serde_json::Value,
        limits: &Limits,
    ) -> Result<String, JinjaError> {
        let failed = |e: &Error| JinjaError {
            trace: place::trace(environment, name, e),
            missing: place::missing(environment, Some(json), e).map(Box::new),
            ..error(name, e)
        };
        let template = environment.get_template(name).map_err(|e| failed(&e))?;
        let mut text = limits::Text::new(limits.output);
        let rendered = template.render_captured_to(context.clone(), &mut text);
        let consumed =
            rendered.as_ref().ok().and_then(|captured| captured.state().fuel_levels()).map_or(0, |(used, _)| used);
        let rendered = rendered.map(|_| ()).map_err(|e| failed(&e));
        let full = text.is_full.then(|| format!("template wrote more than {} bytes", limits.output));
        let reached =
            full.or_else(|| budget::work(consumed).err().map(|spent| spent.to_string())).or_else(limits::reached);
        if let Some(reached) = reached {
            let error = rendered.err().unwrap_or_else(|| JinjaError {
                message: String::new(),
                at: Some(name.to_owned()),
                trace: Vec::new(),
                missing: None,
            });
            let at = error.at.clone().unwrap_or_else(|| name.to_owned());
            return Err(JinjaError { message: format!("{at}: {reached}"), ..error });
        }
        rendered?;
        Ok(String::from_utf8_lossy(&text.bytes).into_owned())
    }
}

fn is_notes(name: &str) -> bool {
    name.ends_with("NOTES.txt")
}

/// Prints a value: JSON in manifests, plain in NOTES.txt.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let failed = |_| Error::from(ErrorKind::WriteFailure);
    // Output may be captured again: it is counted here, and not only where it is written out.
    let mut text = limits::Text::new(usize::MAX);
    if value.is_safe() || is_notes(state.name()) {
        std::fmt::Write::write_fmt(&mut text, format_args!("{value}")).map_err(failed)?;
        return out.write_str(&String::from_utf8_lossy(&text.bytes)).map_err(failed);
    }
    serde_json::to_writer(&mut text, value).map_err(|_| Error::from(ErrorKind::BadSerialization))?;
    let json = String::from_utf8_lossy(&text.bytes);
    let mut from = 0;
    for (at, c) in json.char_indices() {
        // The characters that YAML treats as line breaks or does not allow unescaped.
        if matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') {
            out.write_str(&json[from..at]).map_err(failed)?;
            out.write_str(&format!("\\u{:04x}", u32::from(c))).map_err(failed)?;
            from = at + c.len_utf8();
        }
    }
    out.write_str(&json[from..]).map_err(failed)
}

fn misplaced(name: &str, text: &str, e: &Misplaced) -> JinjaError {
    let at = format!("{name}:{}:{}", e.line, e.column);
    let mut place = Location::line(name, e.line);
    place.excerpt = text.split('\n').nth(e.line - 1).map(|line| {
        let start = line.char_indices().nth(e.column - 1).map_or(line.len(), |(at, _)| at);
        let length = line[start..].find("}}").map_or(line.len() - start, |end| end + 2);
        Excerpt::new(e.line, line, start..start + length)
    });
    JinjaError { message: format!("{at}: {e}"), at: Some(at), trace: vec![place], missing: None }
}

/// minijinja's details may quote values, so they are shown only where they come from the template's text.
fn error(name: &str, e: &Error) -> JinjaError {
    let mut message = e.kind().to_string();
    let from_source = matches!(
        e.kind(),
        ErrorKind::SyntaxError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownMethod
            | ErrorKind::TemplateNotFound
    );
    if let Some(detail) = e.detail().filter(|_| from_source) {
        message = format!("{message}: {detail}");
    }
    let file = e.name().unwrap_or(name);
    let line = e.line();
    let column = e.range().and_then(|range| {
        let source = e.template_source()?;
        let before = source.get(..range.start)?;
        Some(before.chars().rev().take_while(|c| *c != '\n').count() + 1)
    });
    let at = match (line, column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        _ => file.to_owned(),
    };
    if let Some(told) = host::TemplateError::of(e) {
        return JinjaError { message: format!("{at}: {told}"), at: Some(at), trace: Vec::new(), missing: None };
    }
    let excerpt = line.and_then(|line| e.template_source()?.lines().nth(line - 1).map(|l| l.trim().to_owned()));
    let excerpt = excerpt.map_or_else(String::new, |l| format!(" in `{l}`"));
    JinjaError { message: format!("{at}: {message}{excerpt}"), at: Some(at), trace: Vec::new(), missing: None }
}

#[cfg(test)]
mod tests {
    use super::{JinjaError, Limits, Templates};
    use crate::template::budget::Budget;
    use proptest::prelude::{any, proptest};
    use serde_json::{Value, json};

    fn render(text: &str, values: &Value) -> Result<String, JinjaError> {
        let templates = Templates::compile(1, &[("c/templates/a.yaml".to_owned(), text.into())])?;
        let host: super::SharedHost = std::sync::Arc::new(crate::render::Fixed::default());
        let limits = Limits { output: 1 << 20, ..Limits::default() };
        let rendered = templates.render(&json!({ "values": values }), &host, &limits)?;
        Ok(rendered.into_iter().next().map(|(_, text)| text).unwrap_or_default())
    }

    #[test]
    fn expressions_print_json() {
        let values = json!({"a": "x: y\n- z", "n": 3, "m": {"k": [1, true, null]}});
        assert_eq!(render("a: {{ values.a }}\n", &values).unwrap(), "a: \"x: y\\n- z\"\n");
        assert_eq!(render("n: {{ values.n }}\nm: {{ values.m }}", &values).unwrap(), "n: 3\nm: {\"k\":[1,true,null]}");
        assert_eq!(render("a: {{ values.n ~ '-web' }}", &values).unwrap(), "a: \"3-web\"");
    }

    #[test]
    fn a_macro_prints_its_text_and_escapes_its_values() {
        let text = "{% macro labels(x) %}\napp: {{ x }}\n{% endmacro %}\n{{ labels(values.a) }}";
        assert_eq!(render(text, &json!({"a": "b\nc: d"})).unwrap().trim(), "app: \"b\\nc: d\"");
    }

    #[test]
    fn ways_around_the_escape_do_not_exist() {
        assert!(render("a: {{ values.a|safe }}", &json!({"a": "x"})).unwrap_err().message.contains("unknown filter"));
        assert!(render("a: {{ values.a|e }}", &json!({"a": "x"})).is_err());
        let off = "{% autoescape false %}\na: {{ values.a }}\n{% endautoescape %}";
        assert_eq!(render(off, &json!({"a": "x\ny"})).unwrap().trim(), "a: \"x\\ny\"");
    }

    #[test]
    fn an_error_names_the_place_and_no_value() {
        let message = render("x: 1\na: {{ values.secret + 1 }}", &json!({"secret": "hunter2"})).unwrap_err().message;
        assert!(message.starts_with("c/templates/a.yaml:2"), "{message}");
        assert!(message.contains("values.secret + 1") && !message.contains("hunter2"), "{message}");
        assert!(render("a: {{ values.nope }}", &json!({})).unwrap_err().message.contains("undefined value"));
    }

    #[test]
    fn compiled_templates_count_for_the_same_texts_alone() {
        let made = Templates::compile(1, &[("c/a.yaml".to_owned(), "a: 1".into())]).unwrap();
        let fits = |own: usize, files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
            made.are_made_of(own, &files)
        };
        assert!(fits(1, &[("c/a.yaml", "a: 1")]));
        assert!(!fits(0, &[("c/a.yaml", "a: 1")]));
        assert!(!fits(1, &[("d/a.yaml", "a: 1")]));
        for files in
            [&[][..], &[("c/a.yaml", "a: 2")], &[("c/b.yaml", "a: 1")], &[("c/a.yaml", "a: 1"), ("c/b.yaml", "")]]
        {
            assert!(!fits(1, files), "{files:?}");
        }
    }

    #[test]
    fn an_endless_loop_runs_out_of_fuel() {
        let text = "{% for a in range(10000) %}{% for b in range(10000) %}{% set x = a %}{% endfor %}{% endfor %}";
        assert!(render(text, &json!({})).unwrap_err().message.contains("fuel"));
    }

    #[test]
    fn what_a_template_makes_is_limited() {
        let within = |text: &str, values: &Value| {
            let limits = Limits { steps: Some(10_000_000), memory: Some(4 << 20), ..Limits::default() };
            Budget::new(limits).run(|| render(text, values))
        };
        let nested = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
        let values = json!({"a": "a".repeat(10_000), "n": 1_000_000_000});
        for (text, limit) in [
            (
                "{% for i in range(100000) %}\n# some comment that is written often\n{% endfor %}",
                "wrote more than 1048576 bytes",
            ),
            (&*format!("{nested}a: {{{{ ns.x }}}}"), "bytes of values"),
            (&*format!("{nested}a: {{{{ ns.x | tojson }}}}"), "bytes of values"),
            (&*format!("{nested}a: {{{{ ns.x | string | length }}}}"), "bytes of values"),
            ("a: {{ values.a | replace('a', values.a) | length }}", "bytes of values"),
            ("a: {{ values.a | indent(values.n, true) | length }}", "bytes of values"),
            ("a: {{ [1, 2] | batch(values.n, 0) | list | length }}", "bytes of values"),
            ("a: {{ '%0999999999d' | format(1) | length }}", "bytes of values"),
            ("a: {{ {'b': 1} | tojson(indent=values.n) | length }}", "bytes of values"),
            (
                "{% set x %}{% for i in range(100000) %}\nb: {{ values.a }}\n{% endfor %}{% endset %}a: 1",
                "bytes of values",
            ),
        ] {
            let message = within(text, &values).unwrap_err().message;
            assert!(message.contains(limit) && message.starts_with("c/templates/a.yaml"), "{text}: {message}");
        }
        assert!(within("a: {{ values.a | upper | replace('A', 'b') }}", &values).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_yaml(text in any::<String>(), key in any::<String>()) {
            let values = json!({"a": text, "m": {key.clone(): text}});
            let template = "a: {{ values.a }}\nb:\n  - {{ values.a }}\n  - {c: {{ values.a }}, d: [{{ values.m }}]}\ne: 1\n";
            let yaml = render(template, &values).unwrap();
            let want = json!({"a": text, "b": [text, {"c": text, "d": [{key: text}]}], "e": 1.0});
            let read = crate::template::yaml::parse(yaml.as_bytes()).unwrap();
            assert_eq!(read, want, "{yaml}");
        }
    }
}
