//! The place in minijinja templates where something failed, and the missing name.

use crate::template::trace::{self, Excerpt, Location, Missing};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::Value;

/// minijinja's filters that exist here, for suggestions; it has no way to list them.
const FILTERS: [&str; 48] = [
    "abs",
    "attr",
    "b64decode",
    "b64encode",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sha256",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];
/// As [`FILTERS`], of tests.
const TESTS: [&str; 26] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
];

/// The places that were being executed, outermost first.
pub fn trace(environment: &Environment<'_>, name: &str, error: &Error) -> Vec<Location> {
    chain(error).map(|error| place(environment, error.name().unwrap_or(name), error)).collect()
}

/// An error, and those that it wraps.
fn chain(error: &Error) -> impl Iterator<Item = &Error> {
    std::iter::successors(Some(error), |error| std::error::Error::source(*error)?.downcast_ref())
}

fn place(environment: &Environment<'_>, name: &str, error: &Error) -> Location {
    let mut place = Location::line(name, error.line().unwrap_or(0));
    name.clone_into(&mut place.template);
    let Ok(template) = environment.get_template(name) else { return place };
    let (source, line) = (template.source(), place.line);
    let range = range(source, error);
    let Some(text) = line.checked_sub(1).and_then(|at| source.split('\n').nth(at)) else { return place };
    let Some(range) = range else {
        place.excerpt = Some(Excerpt::whole(line, text));
        return place;
    };
    let start = source[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let column = range.start - start;
    place.column = Some(column);
    place.excerpt = Some(Excerpt::new(line, text, column..column + range.len()));
    place
}

/// The part of the source that failed. minijinja's starts after the names whose attribute was requested.
fn range(source: &str, error: &Error) -> Option<std::ops::Range<usize>> {
    let range = error.range()?;
    let before = source.get(..range.start)?;
    if !source.get(range.clone())?.starts_with(['.', '[']) {
        return Some(range);
    }
    let names = before.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
    Some(names.len()..range.end)
}

/// The name that was not found: a name of the innermost error's text, or the first key of a path that the context
/// lacks.
pub fn missing(environment: &Environment<'_>, context: Option<&Value>, error: &Error) -> Option<Missing> {
    let error = chain(error).last()?;
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let word = |text: &str| text.trim_end_matches(" is unknown").rsplit(' ').next().map(str::to_owned);
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::TemplateNotFound => {
            let name = quoted(detail)?;
            let names: Vec<_> = environment.templates().map(|(name, _)| name).collect();
            Some(Missing::Template { nearest: trace::nearest(&name, names.iter().copied()), name })
        }
        ErrorKind::UnknownFilter => {
            let name = word(detail)?;
            Some(Missing::Function { nearest: trace::nearest(&name, FILTERS), name })
        }
        ErrorKind::UnknownTest => {
            let name = word(detail)?;
            Some(Missing::Function { nearest: trace::nearest(&name, TESTS), name })
        }
        ErrorKind::UnknownFunction => {
            let name = word(detail)?;
            let globals: Vec<_> = environment.globals().map(|(name, _)| name.to_owned()).collect();
            Some(Missing::Function { nearest: trace::nearest(&name, globals.iter().map(String::as_str)), name })
        }
        ErrorKind::UndefinedError => {
            let template = environment.get_template(error.name()?).ok()?;
            let expression = template.source().get(range(template.source(), error)?)?;
            paths(expression).find_map(|path| missing_key(context?, path))
        }
        _ => None,
    }
}

/// The dotted paths of an expression.
fn paths(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).filter(|path| path.contains('.'))
}

fn missing_key(context: &Value, path: &str) -> Option<Missing> {
    let mut keys = path.split('.');
    let root = keys.next()?;
    let (mut table, mut value) = (root.to_owned(), context.get(root)?);
    for key in keys {
        let entries = value.as_object()?;
        match entries.get(key) {
            Some(found) if !found.is_null() => value = found,
            found => {
                let is_null = found.is_some();
                let nearest = trace::nearest(key, entries.keys().map(String::as_str)).filter(|_| !is_null);
                return Some(Missing::Key { table, key: key.into(), is_null, nearest });
            }
        }
        table = format!("{table}.{key}");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{FILTERS, TESTS};
    use crate::template::jinja::Templates;

    #[test]
    fn what_is_suggested_exists() {
        let templates = Templates::compile(0, &[]).unwrap();
        let mut state = templates.environment.empty_state();
        for name in FILTERS {
            let kind = state.apply_filter(name, &[]).map_err(|e| e.kind());
            assert_ne!(kind, Err(minijinja::ErrorKind::UnknownFilter), "{name}");
        }
        for name in TESTS {
            let kind = state.perform_test(name, &[]).map_err(|e| e.kind());
            assert_ne!(kind, Err(minijinja::ErrorKind::UnknownTest), "{name}");
        }
    }
}
