//! Slash-separated paths: Go's `path`; `path/filepath` is the same on Linux, where Helm's reference runs.

use super::args::string;
use super::fixed;
use crate::template::function::{Function, Param};

use Param::Str as S;

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[
    fixed("base", &[S], |_, a| Ok(base(&string(a, 0)).into())),
    fixed("osBase", &[S], |_, a| Ok(base(&string(a, 0)).into())),
    fixed("dir", &[S], |_, a| Ok(dir(&string(a, 0)).into())),
    fixed("osDir", &[S], |_, a| Ok(dir(&string(a, 0)).into())),
    fixed("clean", &[S], |_, a| Ok(clean(&string(a, 0)).into())),
    fixed("osClean", &[S], |_, a| Ok(clean(&string(a, 0)).into())),
    fixed("ext", &[S], |_, a| Ok(ext(&string(a, 0)).into())),
    fixed("osExt", &[S], |_, a| Ok(ext(&string(a, 0)).into())),
    fixed("isAbs", &[S], |_, a| Ok(string(a, 0).starts_with('/').into())),
    fixed("osIsAbs", &[S], |_, a| Ok(string(a, 0).starts_with('/').into())),
];

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
