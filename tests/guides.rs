//! Documents: the examples of docs/how-to/minijinja.md are rendered, and links between documents lead somewhere.
//!
//! `<!-- values: JSON -->` before a `jinja` block makes it an example with these values, and the `yaml` or `text` block behind it is what the
//! program prints. `<!-- file: NAME -->` makes it a file that all examples see.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The fenced blocks of a document: the comment before, the language, the text, and the line.
fn blocks(text: &str) -> Vec<(String, String, String, usize)> {
    let (mut found, mut comment, mut lines) = (Vec::new(), String::new(), text.lines().enumerate());
    while let Some((number, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inner: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let comment = std::mem::take(&mut comment);
            found.push((comment, language.to_owned(), inner.join("\n"), number + 1));
        } else if !line.trim().is_empty() {
            line.clone_into(&mut comment);
        }
    }
    found
}

fn marked(comment: &str, name: &str) -> Option<String> {
    let rest = comment.strip_prefix("<!-- ")?.strip_prefix(name)?.strip_prefix(": ")?;
    rest.strip_suffix(" -->").map(str::to_owned)
}

#[test]
fn the_examples_of_the_guide_to_minijinja_print_what_it_says() {
    let text = fs::read_to_string(root().join("docs/how-to/minijinja.md")).unwrap();
    let folder = std::env::temp_dir().join(format!("tillerman-guide-{}", std::process::id()));
    let templates = folder.join("guide/templates");
    fs::create_dir_all(&templates).unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    let all = blocks(&text);
    // The first is the guide's own Chart.yaml.
    assert_eq!(all[0].1, "yaml");
    fs::write(folder.join("guide/Chart.yaml"), &all[0].2).unwrap();
    for (at, (comment, language, code, line)) in all.iter().enumerate() {
        if language != "jinja" {
            continue;
        }
        if let Some(file) = marked(comment, "file") {
            fs::write(templates.join(file), code.clone() + "\n").unwrap();
            continue;
        }
        let values = marked(comment, "values").unwrap_or_else(|| panic!("line {line}: an example needs its values"));
        fs::write(templates.join("example.yaml"), code.clone() + "\n").unwrap();
        fs::write(folder.join("values.yaml"), values).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tillerman"));
        let command = command.current_dir(&folder).args(["template", "web", "guide", "-f", "values.yaml"]);
        let output = command.env("HOME", &folder).env_remove("KUBECONFIG").output().unwrap();
        let printed = if output.status.success() { output.stdout } else { output.stderr };
        let printed = String::from_utf8(printed).unwrap();
        let head = "---\n# Source: guide/templates/example.yaml\n";
        let printed = printed.strip_prefix(head).unwrap_or(&printed);
        // Helm's hint behind an error.
        let printed = printed.trim_end().trim_end_matches("Use --debug flag to render out invalid YAML").trim_end();
        let (_, kind, expected, _) = &all[at + 1];
        assert_eq!(kind, if output.status.success() { "yaml" } else { "text" }, "line {line}: {printed}");
        if printed.lines().map(str::trim_end).ne(expected.lines()) {
            wrong.push(format!("docs/how-to/minijinja.md:{line}: the example prints\n{printed}\n"));
        }
        count += 1;
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 5, "there are {count} examples");
}

#[test]
fn the_guide_to_minijinja_has_all_functions_and_filters_that_are_added() {
    let guide = fs::read_to_string(root().join("docs/how-to/minijinja.md")).unwrap();
    let added = Regex::new(r#"add_(function|filter)\(\s*"(\w+)""#).unwrap();
    let mut count = 0;
    for file in ["mod.rs", "host.rs"] {
        let source = fs::read_to_string(root().join("crates/render/src/template/jinja").join(file)).unwrap();
        for found in added.captures_iter(source.split("#[cfg(test)]").next().unwrap_or_default()) {
            let as_shown =
                if &found[1] == "function" { format!("`{}(", &found[2]) } else { format!("`{}`", &found[2]) };
            assert!(
                guide.contains(&as_shown),
                "docs/how-to/minijinja.md does not have the {} {}",
                &found[1],
                &found[2]
            );
            count += 1;
        }
    }
    assert!(count > 8, "{count} were found");
}

fn documents() -> Vec<PathBuf> {
    let names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"];
    let mut found: Vec<PathBuf> = names.map(|name| root().join(name)).into();
    let mut folders: Vec<PathBuf> = ["docs", "examples", "charts", "deploy"].map(|name| root().join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The names by which a link reaches headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut inside = false;
    let headings = text.lines().filter(move |line| {
        inside ^= line.starts_with("```");
        !inside && line.starts_with('#')
    });
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let link = Regex::new(r#"(?:\]\(|src=")([^)\s"]+)[)"]"#).unwrap();
    let (mut broken, mut count) = (Vec::new(), 0);
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            count += 1;
            let leads = path.exists()
                && (anchor.is_empty() || fs::read_to_string(&path).is_ok_and(|text| anchors(&text).contains(anchor)));
            if !leads {
                broken.push(format!("{}: {target}", document.strip_prefix(root()).unwrap_or(Path::new("")).display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(count > 50, "{count} links were found");
}

#[test]
fn anchors_are_githubs() {
    let text = "# A `b`: c's\n```sh\n# no heading\n```\n## From helm-operator, and back\n";
    assert_eq!(anchors(text), ["a-b-cs", "from-helm-operator-and-back"].map(str::to_owned).into());
}
