//! Slash-separated paths: Go's `path`; `path/filepath` is the same on Linux, where Helm's reference runs.

use super::args::bytes;
use super::{fixed, text};
use crate::template::function::{FnResult, Function, Param};
use crate::template::value::Value;

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("base", &[S], |_, a| changed(a, |path| base(path).into())),
    fixed("osBase", &[S], |_, a| changed(a, |path| base(path).into())),
    fixed("dir", &[S], |_, a| changed(a, dir)),
    fixed("osDir", &[S], |_, a| changed(a, dir)),
    fixed("clean", &[S], |_, a| changed(a, clean)),
    fixed("osClean", &[S], |_, a| changed(a, clean)),
    fixed("ext", &[S], |_, a| changed(a, |path| ext(path).into())),
    fixed("osExt", &[S], |_, a| changed(a, |path| ext(path).into())),
    fixed("isAbs", &[S], |_, a| Ok(bytes(a, 0).starts_with(b"/").into())),
    fixed("osIsAbs", &[S], |_, a| Ok(bytes(a, 0).starts_with(b"/").into())),
];

/// The result for the argument, which may be any bytes.
fn changed(args: &[Value], change: fn(&str) -> String) -> FnResult {
    Ok(Value::str(&*text::unescaped(&change(&text::escaped(bytes(args, 0))))))
}

/// The last element.
pub fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        _ if path.is_empty() => ".",
        None | Some("") => "/",
        Some(name) => name,
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or("", |dot| &name[dot..])
}

/// The shortest path that means the same.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    match (rooted, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".into(),
        (false, path) => path,
    }
}
