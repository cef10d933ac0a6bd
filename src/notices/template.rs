//! The words of messages, in minijinja.
//!
//! The author of a notice writes its templates, so these must not be able to stop the operator. Instructions and output are counted.
//! What is left is what could make a value grow without being printed: it does not exist here. There is neither a tag that keeps a value
//! (`set`, `macro`, `with` …) nor an operator or filter whose result is longer than what it is given.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, filters};

/// How many instructions a template may take.
const FUEL: u64 = 50_000;
/// Bytes that it may print.
const OUTPUT: usize = 32 << 10;
/// The tags that exist.
const TAGS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// Bytes of what `join` puts between.
const SEPARATOR: usize = 16;

/// A template that was checked.
#[derive(Clone, Debug)]
pub struct Template(Environment<'static>);

impl Template {
    /// Reads a template of at most so many bytes.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(text: &str, most: usize) -> Result<Self, String> {
        if text.len() > most {
            return Err(format!("it has {} bytes; the limit is {most}", text.len()));
        }
        check(text)?;
        let mut environment = Environment::empty();
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(20);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| short(&e))?);
        environment.add_filter("upper", filters::upper);
        environment.add_filter("lower", filters::lower);
        environment.add_filter("trim", filters::trim);
        environment.add_filter("length", filters::length);
        environment.add_filter("first", filters::first);
        environment.add_filter("last", filters::last);
        environment.add_filter("default", filters::default);
        environment.add_filter("join", join);
        environment.add_template_owned("text", text.to_owned()).map_err(|e| short(&e))?;
        Ok(Self(environment))
    }

    /// The text for these facts.
    ///
    /// # Errors
    /// Why there is none.
    pub fn render(&self, facts: &serde_json::Value) -> Result<String, String> {
        let template = self.0.get_template("text").map_err(|e| short(&e))?;
        let mut output = Bounded(Vec::new());
        template.render_captured_to(Value::from(Serde(facts)), &mut output).map_err(|e| short(&e))?;
        String::from_utf8(output.0).map_err(|e| e.to_string())
    }
}

/// Output that ends.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT {
            return Err(io::Error::other(format!("it prints more than {OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Joins a list. A text, which would grow, is no list.
fn join(list: &Value, between: Option<&str>) -> Result<String, Error> {
    let between = between.unwrap_or(", ");
    if list.kind() != ValueKind::Seq || between.len() > SEPARATOR {
        let what = format!("join is for lists, with at most {SEPARATOR} bytes between");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    let mut text = String::new();
    for (at, item) in list.try_iter()?.enumerate() {
        if at > 0 {
            text.push_str(between);
        }
        text.push_str(&item.to_string());
        if text.len() > OUTPUT {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("join makes more than {OUTPUT} bytes")));
        }
    }
    Ok(text)
}

/// Why something failed, without the debugging information.
fn short(error: &Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let deepest = std::iter::successors(std::error::Error::source(error), |error| error.source()).last();
    let cause = deepest.map(|cause| format!(": {cause}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{line}{}{detail}{cause}", error.kind())
}

/// Refuses tags and operators that do not exist here.
fn check(text: &str) -> Result<(), String> {
    // Wherever `{%` stands, even in a comment or a text: what is refused too often is harmless, and what is missed is not.
    for (at, _) in text.match_indices("{%") {
        let rest = text[at + 2..].trim_start_matches(['-', '+']).trim_start();
        let word = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        if !TAGS.contains(&word) {
            return Err(format!("the tag {word:?} does not exist here, only {}", TAGS.join(", ")));
        }
    }
    let mut rest = text;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        let (opening, inside) = rest[at..].split_at(2);
        if opening == "{#" {
            let Some(end) = inside.find("#}") else { return Err("a comment has no end".to_owned()) };
            rest = &inside[end + 2..];
            continue;
        }
        let closing = if opening == "{{" { "}}" } else { "%}" };
        rest = &inside[expression(inside, closing)?..];
    }
    Ok(())
}

/// Where an expression ends.
fn expression(text: &str, closing: &str) -> Result<usize, String> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) => quote = Some(open).filter(|open| *open != c),
            (None, '"' | '\'') => quote = Some(c),
            // A sign in front of the end only trims.
            (None, '+') if text[at + 1..].starts_with("%}") || at == 0 => {}
            (None, '~' | '*' | '+') => return Err(format!("the operator {c} does not exist here")),
            (None, _) if text[at..].starts_with(closing) => return Ok(at + closing.len()),
            (None, 'r') if text[at..].starts_with("recursive") => {
                return Err("loops cannot be recursive here".to_owned());
            }
            _ => {}
        }
    }
    Err(format!("a tag has no {closing}"))
}

#[cfg(test)]
mod tests {
    use super::Template;
    use serde_json::json;

    fn render(text: &str) -> Result<String, String> {
        let lines = json!([{"name": "a", "count": 3}, {"name": "{{ b }}", "count": 1}]);
        Template::read(text, 8192)?.render(&json!({"name": "shop", "lines": lines, "names": ["x", "y"]}))
    }

    #[test]
    fn templates_print_facts() {
        for (text, expected) in [
            ("[{{ name|upper }}] {{ names|join(' and ') }} + 1 * 2 ~", "[SHOP] x and y + 1 * 2 ~"),
            ("{% for l in lines %}{{ l.name }}={{ l.count }};{% endfor %}", "a=3;{{ b }}=1;"),
            ("{% if lines|length > 1 %}many{% else %}one{%+ endif %}", "many"),
            ("{{ '}} ~ ' }}{{ nothing|default('none') }}{# ~ #}", "}} ~ none"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_could_grow_or_never_end_is_refused() {
        for (text, part) in [
            ("{% set x = 'a' %}", "the tag \"set\""),
            ("{%- macro a() %}{% endmacro %}", "the tag \"macro\""),
            ("{% raw %}{% set x %}{% endraw %}", "the tag \"raw\""),
            ("{{ name ~ name }}", "the operator ~"),
            ("{{ '}}' ~ name }}", "the operator ~"),
            ("{{ '\\'}}' ~ name }}", "the operator ~"),
            ("{{ 'a' * 1000000000 }}", "the operator *"),
            ("{{ name + name }}", "the operator +"),
            ("{% for x in names recursive %}{{ loop(x) }}{% endfor %}", "recursive"),
            ("{{ name|replace('', name) }}", "unknown filter"),
            ("{{ name|join(name) }}", "join is for lists"),
            ("{{ range(10) }}", "unknown function"),
            ("{% include 'a' %}", "the tag \"include\""),
            ("{{ name", "a tag has no }}"),
        ] {
            let said = render(text).expect_err(text);
            assert!(said.contains(part), "{text}: {said}");
        }
        let nested = "{% for a in names %}".repeat(14) + "x" + &"{% endfor %}".repeat(14);
        let said = render(&nested).unwrap_err();
        assert!(said.contains("fuel") || said.contains("32768"), "{said}");
        let printed =
            format!("{{% for a in names %}}{}{{% endfor %}}", "x".repeat(8000)).replace("names", "[1,2,3,4,5]");
        assert!(render(&printed).unwrap_err().contains("it prints more than 32768 bytes"));
    }
}
