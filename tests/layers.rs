//! The layers of ARCHITECTURE.md, read off the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`, without the command line's. Between crates cargo keeps the layers.
const FOLDERS: [&str; 21] = [
    "backup",
    "chaos",
    "cluster",
    "crd",
    "definition",
    "fleet",
    "image",
    "kind",
    "lint",
    "mask",
    "members",
    "notices",
    "object",
    "plan",
    "rbac",
    "reconcile",
    "release",
    "scaffold",
    "server",
    "telemetry",
    "ui",
];

/// Where the sources of a folder are: in `src`, or in those of a crate.
fn home(folder: &str) -> PathBuf {
    let crates = match folder {
        "chart" | "render" | "template" => format!("crates/render/src/{folder}"),
        "source" | "agent" => format!("crates/{folder}/src"),
        _ => format!("src/{folder}"),
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(crates)
}

/// Source files below a folder.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    walk(&home(folder), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

fn walk(path: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(path).expect("the folder is part of the crate") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !is_test(&path) {
            let text = fs::read_to_string(&path).expect("sources are text");
            found.push((path, text));
        }
    }
}

/// Whether the file holds only tests, for which the layers do not apply.
fn is_test(path: &Path) -> bool {
    path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

/// A source without its tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn assert_without(folders: &[&str], forbidden: &[impl AsRef<str>]) {
    for folder in folders {
        for (path, text) in sources(folder) {
            let code = code(&text);
            for word in forbidden.iter().map(AsRef::as_ref) {
                assert!(!code.contains(word), "{} uses {word}", path.display());
            }
        }
    }
}

#[test]
fn what_decides_has_no_client_no_socket_and_no_clock() {
    assert_without(
        &["chart", "crd", "fleet", "image", "object", "template", "render", "release", "plan"],
        &[
            "kube::",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
            "ToSocketAddrs",
            "tokio::",
            "SystemTime::now",
            "Instant::now",
            "Timestamp::now",
            "Zoned::now",
            "getrandom",
        ],
    );
}

#[test]
fn only_chart_and_cli_read_files() {
    assert_without(&["crd", "fleet", "template", "render", "release", "plan"], &["std::fs", "File::open"]);
}

#[test]
fn the_cluster_knows_nothing_of_charts_and_decides_nothing() {
    let layers = ["chart", "crd", "lint", "members", "plan", "reconcile", "render", "server", "template"];
    assert_without(&["cluster"], &layers.map(|layer| format!("crate::{layer}")));
}

#[test]
fn what_decides_does_not_know_who_asks() {
    assert_without(&["plan"], &["cluster", "reconcile", "server", "telemetry"].map(|layer| format!("crate::{layer}")));
    // A driver of members decides about its application alone.
    assert_without(&["members"], &["cluster", "plan", "reconcile", "server"].map(|layer| format!("crate::{layer}")));
    assert_without(
        &["kind"],
        &["cluster", "lookup", "plan", "reconcile", "release"].map(|layer| format!("crate::{layer}")),
    );
    assert_without(
        &["release"],
        &["cluster", "kind", "members", "plan", "reconcile"].map(|layer| format!("crate::{layer}")),
    );
    assert_without(
        &["crd"],
        &["cluster", "kind", "plan", "reconcile", "release", "render"].map(|layer| format!("crate::{layer}")),
    );
    assert_without(
        &["template"],
        &["chart", "crd", "kind", "release", "render"].map(|layer| format!("crate::{layer}")),
    );
    let above = ["cluster", "members", "plan", "reconcile", "server"];
    assert_without(&["telemetry"], &above.map(|layer| format!("crate::{layer}")));
    assert_without(&["server"], &["members", "plan", "reconcile"].map(|layer| format!("crate::{layer}")));
}

#[test]
fn what_all_objects_have_in_common_knows_nothing_else() {
    let imports = imports();
    let known = imports.iter().filter(|(module, _)| module[0] == "object").flat_map(|(_, known)| known);
    let folders: BTreeSet<&str> = known.map(|module| module[0].as_str()).collect();
    assert_eq!(folders, BTreeSet::from(["bounds", "harm", "object"]));
}

#[test]
fn notices_are_decided_without_a_cluster_and_without_a_clock() {
    let forbidden = [
        "kube::",
        "tokio::",
        "std::fs",
        "TcpStream",
        "SystemTime::now",
        "Timestamp::now",
        "crate::cluster",
        "crate::reconcile",
        "crate::telemetry",
    ];
    assert_without(&["notices"], &forbidden);
    assert_without(&["cluster", "kind", "members", "plan", "release", "render", "template"], &["crate::notices"]);
}

#[test]
fn pages_do_not_know_of_clusters() {
    let forbidden =
        ["kube::", "crate::chart", "crate::cluster", "crate::plan", "crate::reconcile", "crate::release", "std::fs"];
    assert_without(&["ui"], &forbidden);
}

#[test]
fn only_source_fetches_charts_and_it_knows_nothing_of_clusters() {
    assert_without(
        &["chart", "cluster", "image", "kind", "plan", "release", "render", "server", "template"],
        &["crate::source", "ureq::", "pgp::"],
    );
    assert_without(&["source"], &["kube::", "tokio::", "crate::cluster", "crate::reconcile", "crate::release"]);
}

#[test]
fn projects_are_generated_without_files_and_clusters() {
    let forbidden =
        ["kube::", "tokio::", "std::fs", "crate::cluster", "crate::reconcile", "crate::source", "crate::cli"];
    assert_without(&["scaffold"], &forbidden);
}

#[test]
fn rights_are_found_without_a_cluster() {
    let forbidden =
        ["kube::", "tokio::", "std::fs", "crate::cluster", "crate::plan", "crate::reconcile", "crate::source"];
    assert_without(&["rbac"], &forbidden);
    // reconcile/definitions asks whether the operator has them.
    assert_without(&["chart", "cluster", "kind", "plan", "release", "render", "template"], &["crate::rbac"]);
}

#[test]
fn an_image_depends_on_nothing_but_what_it_is_made_of() {
    // Neither a clock, nor the environment, nor randomness; project.rs alone reads files.
    assert_without(
        &["image"],
        &["std::env::var", "env::temp_dir", "crate::cluster", "crate::plan", "crate::reconcile"],
    );
    for (path, text) in sources("image").iter().filter(|(path, _)| !path.ends_with("project.rs")) {
        assert!(!code(text).contains("std::fs"), "{} reads files", path.display());
    }
}

#[test]
fn backups_know_nothing_of_charts_and_of_the_api_server() {
    assert_without(
        &["backup"],
        &[
            "kube::",
            "crate::chart",
            "crate::cluster",
            "crate::plan",
            "crate::reconcile",
            "crate::render",
            "crate::template",
        ],
    );
}

#[test]
fn nothing_needs_the_command_line() {
    for folder in FOLDERS {
        assert_without(&[folder], &["crate::cli"]);
        for (path, text) in sources(folder) {
            assert!(!code(&text).contains("clap::"), "{} uses clap::", path.display());
        }
    }
}

#[test]
fn names_of_tillerman_dev_stand_in_one_file() {
    let is_name = |rest: &str| {
        let name = rest.split('"').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c))
    };
    for (path, text) in sources("").iter().filter(|(path, _)| !path.ends_with("src/names.rs")) {
        let code = code(text);
        let mut literals = code.split("\"tillerman.dev/").skip(1);
        assert!(!literals.any(is_name), "{} has a name that belongs into src/names.rs", path.display());
    }
}

/// A module by its path below the crate: `["reconcile", "pass"]`.
type Module = Vec<String>;

/// The modules of the crate, each with those that it imports or names.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files: BTreeMap<Module, String> = sources("")
        .into_iter()
        .filter_map(|(path, text)| {
            let path = path.strip_prefix(&src).ok()?.with_extension("");
            let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            module.pop_if(|last| last == "mod");
            (module != ["lib"] && module != ["main"]).then(|| (module, code(&text)))
        })
        .collect();
    let of = |module: &Module, code: &str| {
        // A module imports from those below it without `crate` or `self`.
        let children = files.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let code = children.filter_map(|child| child.last()).fold(code.to_owned(), |code, child| {
            code.replace(&format!("use {child}::"), &format!("use crate::{}::{child}::", module.join("::")))
        });
        let named = paths(&code).into_iter().map(|path| absolute(module, &path));
        // The longest beginning of a path that is a module; the rest is an item of it.
        let modules = named.filter_map(|path| {
            (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| files.contains_key(module))
        });
        modules.filter(|other| other != module).collect()
    };
    files.iter().map(|(module, code)| (module.clone(), of(module, code))).collect()
}

/// The paths in a source that begin with `crate` or `super`, each import of a list for itself.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let starts = ["crate::", "super::"].iter().flat_map(|start| code.match_indices(start)).map(|(at, _)| at);
    for at in starts {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        if let Some(prefix) = rest[..end].strip_suffix("::").filter(|_| rest[end..].starts_with('{')) {
            expand(prefix, &rest[end..], &mut found);
        } else {
            found.push(rest[..end].to_owned());
        }
    }
    found
}

/// Adds what `{a, b::{c, d}}` after a prefix imports; returns how long the list is.
fn expand(prefix: &str, list: &str, found: &mut Vec<String>) -> usize {
    let (mut name, mut at) = (String::new(), 1);
    while let Some(c) = list[at..].chars().next() {
        match c {
            '{' => {
                let inner = format!("{prefix}::{}", name.trim().trim_end_matches("::"));
                at += expand(&inner, &list[at..], found);
                name.clear();
                continue;
            }
            ',' | '}' => {
                let item = name.split(" as ").next().unwrap_or_default().trim();
                if !item.is_empty() {
                    found.push(if item == "self" { prefix.to_owned() } else { format!("{prefix}::{item}") });
                }
                name.clear();
            }
            c => name.push(c),
        }
        at += c.len_utf8();
        if c == '}' {
            break;
        }
    }
    at
}

/// A path of a module, from the root of the crate.
fn absolute(module: &Module, path: &str) -> Module {
    let mut base = if path.starts_with("crate") { Vec::new() } else { module.clone() };
    for part in path.split("::").filter(|part| *part != "crate") {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.to_owned());
        }
    }
    base
}

/// What a source of `src/cli` imports against the order: a command has its own folder and `common`, and `common` has itself alone.
fn against_the_order_of_commands(module: &Module, code: &str) -> Vec<String> {
    // A visibility names a module, and imports nothing from it.
    let code = code.replace("pub(in crate::cli)", "pub");
    let is_in_order = |path: &Module| {
        path.first().is_some_and(|first| first != "cli")
            || path.get(1).is_some_and(|part| *part == module[1] || part == "common")
    };
    paths(&code).into_iter().filter(|path| !is_in_order(&absolute(module, path))).collect()
}

#[test]
fn no_command_imports_another_and_what_they_share_imports_no_command() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut commands = BTreeSet::new();
    for (path, text) in sources("cli") {
        let relative = path.strip_prefix(&src).expect("it is below src").with_extension("");
        let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.pop_if(|last| last == "mod");
        // src/cli/mod.rs chooses the command, and imports all of them.
        if module.len() > 1 {
            let found = against_the_order_of_commands(&module, &code(&text));
            assert!(found.is_empty(), "{} imports {found:?}", path.display());
            commands.insert(module[1].clone());
        }
    }
    assert!(commands.len() > 25 && commands.contains("common"), "{commands:?}");
}

#[test]
fn an_import_of_another_command_is_found() {
    let found = |module: &[&str], code: &str| {
        let module = module.iter().map(|part| (*part).to_owned()).collect();
        against_the_order_of_commands(&module, code)
    };
    let (pause, check) = (["cli", "pause"], ["cli", "rbac", "check"]);
    assert_eq!(found(&pause, "use super::list::condition;"), ["super::list::condition"]);
    assert_eq!(found(&pause, "use crate::cli::list;"), ["crate::cli::list"]);
    assert_eq!(found(&pause, "use super::{common::line, list, rbac::{self, of}};").len(), 3);
    assert_eq!(found(&pause, "use crate::{cli::{common::line, list}, names};"), ["crate::cli::list"]);
    assert_eq!(found(&pause, "let x = super::whole();"), ["super::whole"]);
    assert_eq!(found(&pause, "use crate::cli as c;"), ["crate::cli"]);
    assert_eq!(found(&check, "use super::super::list::served;"), ["super::super::list::served"]);
    assert_eq!(found(&["cli", "common", "kinds"], "use crate::cli::list::served;"), ["crate::cli::list::served"]);
    let in_order =
        "use super::RbacArgs;\nuse crate::cli::common::line::line;\nuse crate::names;\npub(in crate::cli) struct A;";
    assert!(found(&check, in_order).is_empty());
}

/// The groups of modules of which each reaches each other.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<&Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for other in imports.get(module).into_iter().flatten() {
                if seen.insert(other) {
                    next.push(other);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &&Module| {
        let back = reached[*module].iter().filter(|other| reached[**other].contains(*module));
        back.copied().collect::<BTreeSet<&Module>>()
    };
    let circles: BTreeSet<_> = imports.keys().map(|module| circle(&module)).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

#[test]
fn no_circle_joins_files_of_different_folders_and_in_reconcile_two_at_most() {
    let imports = imports();
    assert!(imports.len() > 200, "{} modules", imports.len());
    let pass = ["reconcile", "pass"].map(str::to_owned).to_vec();
    let trust = ["reconcile", "trust"].map(str::to_owned).to_vec();
    assert!(imports[&pass].contains(&trust), "imports are read");
    for circle in circles(&imports) {
        let folders: BTreeSet<&str> = circle.iter().map(|module| module[0].as_str()).collect();
        assert!(folders.len() == 1, "a circle of files of {folders:?}: {circle:?}");
        assert!(!folders.contains("reconcile") || circle.len() <= 2, "a circle in reconcile: {circle:?}");
    }
}

/// The folders and files of `src` from the ground up: each imports from floors below its own, and nothing from its own or one above.
const FLOORS: [&[&str]; 9] = [
    &["harm", "host", "mask", "names"],
    &["bounds", "crd", "runs"],
    &["object"],
    &["kind", "release", "telemetry"],
    &["cluster", "definition", "image", "members"],
    &["backup", "chaos", "lookup", "plan", "rbac", "server"],
    &["fleet", "lint", "notices", "scaffold", "ui"],
    &["reconcile"],
    &["cli", "inputs"],
];

/// Imports that do not lead to a floor below.
fn against_the_floors(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let floor = |module: &Module| {
        let floor = FLOORS.iter().position(|floor| floor.contains(&module[0].as_str()));
        floor.unwrap_or_else(|| panic!("{} is on no floor", module[0]))
    };
    let pairs = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let wrong = pairs.filter(|(from, to)| from[0] != to[0] && floor(from) <= floor(to));
    wrong.map(|(from, to)| format!("{} imports {}", from.join("::"), to.join("::"))).collect()
}

#[test]
fn every_import_leads_to_a_floor_below() {
    let imports = imports();
    assert_eq!(against_the_floors(&imports), Vec::<String>::new());
    let known: BTreeSet<&str> = imports.keys().map(|module| module[0].as_str()).collect();
    assert_eq!(FLOORS.concat().into_iter().collect::<BTreeSet<_>>(), known);
}

#[test]
fn an_import_of_a_floor_above_is_found() {
    let module = |path: &[&str]| path.iter().map(|part| (*part).to_owned()).collect::<Module>();
    let of = |from: &[&str], to: &[&str]| BTreeMap::from([(module(from), BTreeSet::from([module(to)]))]);
    assert_eq!(
        against_the_floors(&of(&["kind", "ignore"], &["release", "live"])),
        ["kind::ignore imports release::live"]
    );
    assert_eq!(against_the_floors(&of(&["object"], &["kind", "dns"])), ["object imports kind::dns"]);
    assert!(against_the_floors(&of(&["kind", "ignore"], &["object", "patch"])).is_empty());
    assert!(against_the_floors(&of(&["kind", "ignore"], &["kind", "dns"])).is_empty());
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let imports = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")]
        .map(|(from, to)| (module(from), BTreeSet::from([module(to)])))
        .into();
    assert_eq!(circles(&imports), [BTreeSet::from([&module("b"), &module("c")])]);
    let code = "use crate::a::{self, b::{C, d}, e as f};\nlet x = super::g::H::new();";
    assert_eq!(paths(code), ["crate::a", "crate::a::b::C", "crate::a::b::d", "crate::a::e", "super::g::H::new"]);
}

#[test]
fn no_file_imports_everything_of_a_module() {
    for folder in FOLDERS.into_iter().chain(["agent", "chart", "cli", "render", "source", "template"]) {
        for (path, text) in sources(folder) {
            let glob = code(&text).lines().any(|line| line.trim_start().starts_with("use ") && line.contains("::*"));
            assert!(!glob, "{} imports with a star", path.display());
        }
    }
}

/// Files and folders outside of the drivers' own that name a driver, and why.
const NAME_DRIVERS: [(&str, &str); 9] = [
    ("src/backup/", "backups of etcd are taken with its client"),
    ("src/chaos/", "faults are injected into clusters of etcd, whose state its client reads"),
    ("src/cli/init.rs", "the name of a built-in chart"),
    ("src/cli/snapshot/", "commands about data of etcd use its client"),
    ("src/mask/dictionary.rs", "a list of words"),
    ("src/members/drivers.rs", "the list of drivers"),
    ("src/members/mod.rs", "declares the folders"),
    ("src/notices/facts.rs", "a field of the report in the status, which any driver can have"),
    ("src/scaffold/built_in.rs", "the names of built-in charts"),
];

/// The names of the built-in drivers: their folders.
fn driver_names() -> Vec<String> {
    let entries = fs::read_dir(home("members")).expect("the folder is part of the crate");
    let folders = entries.map(|entry| entry.expect("the folder can be read").path()).filter(|path| path.is_dir());
    folders.map(|path| path.file_name().expect("it is in a folder").to_string_lossy().into_owned()).collect()
}

/// The lines of a source that import a driver, or compare something with its name.
fn named_drivers<'a>(names: &[String], code: &'a str) -> Vec<&'a str> {
    let is_named = |line: &&str| {
        let mut forms = names.iter().flat_map(|name| {
            [format!("members::{name}"), format!("super::{name}"), format!("mod {name};"), format!("\"{name}\"")]
        });
        // In the group `batch`, `jobs` is the resource.
        !line.contains("\"batch\"") && forms.any(|form| line.contains(&form))
    };
    code.lines().filter(is_named).collect()
}

#[test]
fn only_a_drivers_folder_and_the_list_of_drivers_name_a_driver() {
    let names = driver_names();
    assert_eq!(names.len(), 3, "{names:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut allowed: BTreeSet<&str> = NAME_DRIVERS.iter().map(|(path, _)| *path).collect();
    for (path, text) in sources("") {
        let path = path.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
        if names.iter().any(|name| path.starts_with(&format!("src/members/{name}/"))) {
            continue;
        }
        let code = code(&text);
        let found = named_drivers(&names, &code);
        match NAME_DRIVERS.iter().find(|(place, _)| path.starts_with(place)) {
            Some((place, _)) if !found.is_empty() => drop(allowed.remove(place)),
            Some(_) => {}
            None => assert!(found.is_empty(), "{path} names a driver: {found:?}"),
        }
    }
    assert!(allowed.is_empty(), "these places name no driver: {allowed:?}");
}

#[test]
fn a_name_of_a_driver_is_found() {
    let names = ["etcd".to_owned()];
    let count = |code: &str| named_drivers(&names, code).len();
    assert_eq!(count("use crate::members::etcd::state::EtcdAction;\nif set.driver == \"etcd\" {}\nlet etcd = 1;"), 2);
    assert_eq!(count("use super::etcd::driver::Etcd;\npub mod etcd;\nlet text = \"a member of etcd\";"), 2);
}

/// The name of the type that a line defines, if other modules can name it.
fn exported_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let (keyword, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    ["struct", "enum", "trait", "type", "union"].contains(&keyword).then_some(&rest[..end])
}

#[test]
fn no_name_stands_for_more_than_three_exported_types() {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in &files {
        let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("it is below the folder of the package");
        for name in code(text).lines().filter_map(exported_type) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    assert!(places.len() > 500, "{} names", places.len());
    places.retain(|_, files| files.len() > 3);
    assert!(places.is_empty(), "give these types names that say what they are without their paths: {places:#?}");
}

#[test]
fn an_exported_type_is_found() {
    assert_eq!(exported_type("pub struct Args {"), Some("Args"));
    assert_eq!(exported_type("    pub(super) enum State<'a> {"), Some("State"));
    assert_eq!(exported_type("pub(in crate::cli) type Said = u8;"), Some("Said"));
    assert_eq!(exported_type("struct Args {"), None);
    assert_eq!(exported_type("pub fn args() {"), None);
    assert_eq!(exported_type("    pub state: State,"), None);
}

#[test]
fn every_dependency_has_a_row_with_its_version() {
    let read = |name: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name))
            .expect("the file is part of the repository")
    };
    let (manifest, lock, table) = (read("Cargo.toml"), read("Cargo.lock"), read("docs/design/dependencies.md"));
    let mut inside = false;
    let mut wrong = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if let Some((name, _)) = line
            .split_once(" = ")
            .filter(|(name, _)| inside && !name.starts_with('#') && !name.starts_with("tillerman"))
        {
            let row = table.lines().find_map(|row| row.strip_prefix(&format!("| {name} | ")));
            let version = row.and_then(|row| row.split(" | ").next()).unwrap_or("no row");
            if !lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")) {
                wrong.push(format!("{name}: {version}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/design/dependencies.md does not give the versions of Cargo.lock: {wrong:?}");
}

#[test]
fn conditions_are_read_and_set_in_one_place() {
    let mut folders = FOLDERS.to_vec();
    folders.push("cli");
    folders.retain(|folder| *folder != "object");
    assert_without(&folders, &["get(\"conditions\")", "\"/status/conditions\").and_then", "[\"conditions\"]"]);
}
