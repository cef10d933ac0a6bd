//! The Dockerfile: the image that it is built on, and what that image brought.

use super::{Edit, MigrationReport, Project};

/// The settings that the image of helm-operator has, and that a Dockerfile with the program alone must add
/// (deploy/Dockerfile).
const BROUGHT: [(&str, &str); 4] = [
    ("ENV HOME", "ENV HOME=/opt/helm"),
    ("WORKDIR", "WORKDIR ${HOME}"),
    ("USER", "USER 1001"),
    ("ENTRYPOINT", "ENTRYPOINT [\"/usr/local/bin/tillerman\", \"run\", \"--watches-file=./watches.yaml\"]"),
];

/// An instruction.
struct Instruction<'a> {
    line: usize,
    name: String,
    rest: &'a str,
}

pub fn look(project: &Project<'_>, report: &mut MigrationReport) {
    let is_one = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        (name.starts_with("Dockerfile") || name.ends_with(".Dockerfile")) && name != "bundle.Dockerfile"
    };
    let mut found = false;
    for (path, text) in project.files.iter().filter(|(path, _)| is_one(path)) {
        found = true;
        one(path, text, project.base, report);
    }
    if !found {
        report.note("Dockerfile", None, "there is none", "tillerman image makes the image without one");
    }
}

fn one(path: &str, text: &str, base: &str, report: &mut MigrationReport) {
    let instructions = instructions(text);
    let froms: Vec<&Instruction<'_>> = instructions.iter().filter(|i| i.name == "FROM").collect();
    let Some(last) = froms.last() else {
        return report.change(path, None, "it has no FROM", "write one, or use tillerman image");
    };
    let (place, image) = image_of(last, &instructions);
    if name_of(image).contains("tillerman") {
        return report.stays(path, &format!("it is built on {image}"));
    }
    if !is_helm_operator(image) {
        return report.change(
            path,
            Some(last.line),
            &format!("it is built on {image}, which is not known"),
            &format!("build it on {base}, or make the image with tillerman image"),
        );
    }
    let (what, line) = (format!("it is built on {image}"), text.lines().nth(place).unwrap_or_default());
    report.edit(
        path,
        place,
        Edit::Replace(vec![line.replacen(image, base, 1)]),
        &what,
        &format!("{base}; or make the image with tillerman image, which reads no Dockerfile"),
    );
    for run in instructions.iter().filter(|i| i.line > last.line && i.name == "RUN") {
        report.change(
            path,
            Some(run.line),
            "RUN needs a shell, and the image of Tillerman has the program alone",
            "run it in a stage of its own (FROM … AS build), and COPY --from=build its results",
        );
    }
    if !name_of(base).contains("helm-operator") {
        completed(path, text, &instructions, last.line, report);
    }
}

/// Says what helm-operator's image said.
fn completed(path: &str, text: &str, instructions: &[Instruction<'_>], from: usize, report: &mut MigrationReport) {
    let has = |wanted: &str| {
        let (name, first) = wanted.split_once(' ').unwrap_or((wanted, ""));
        instructions.iter().find(|i| i.line > from && i.name == name && i.rest.contains(first))
    };
    let end = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).last().map_or(0, |(at, _)| at);
    let [home, rest @ ..] = BROUGHT;
    if has(home.0).is_none() {
        let edit = Edit::After(vec![home.1.to_owned()]);
        report.edit(path, from, edit, "helm-operator's image has HOME=/opt/helm", home.1);
    }
    for (wanted, written) in rest {
        match has(wanted) {
            None => {
                let what = format!("helm-operator's image says {wanted}");
                report.edit(path, end, Edit::After(vec![written.to_owned()]), &what, written);
            }
            Some(there) if wanted == "ENTRYPOINT" && !there.rest.contains("tillerman") => report.change(
                path,
                Some(there.line),
                &format!("the entry point is {}, which is not in Tillerman's image", there.rest),
                written,
            ),
            Some(_) => {}
        }
    }
}

/// The instructions, each with its first line. Continued lines belong to the instruction before.
fn instructions(text: &str) -> Vec<Instruction<'_>> {
    let mut found = Vec::new();
    let mut continues = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if !continues {
            let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            found.push(Instruction { line: at, name: name.to_ascii_uppercase(), rest: rest.trim() });
        }
        continues = line.ends_with('\\');
    }
    found
}

/// The image of a FROM, and the line that names it: an ARG before may.
fn image_of<'a>(from: &Instruction<'a>, instructions: &[Instruction<'a>]) -> (usize, &'a str) {
    let image = from.rest.split_whitespace().find(|word| !word.starts_with("--")).unwrap_or_default();
    let name = image.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
    let argument = name.and_then(|name| {
        let of_name = |i: &&Instruction<'a>| i.name == "ARG" && i.line < from.line;
        let value = |i: &Instruction<'a>| {
            let (given, value) = i.rest.split_once('=')?;
            (given == name).then_some((i.line, value.trim_matches(['"', '\''])))
        };
        instructions.iter().filter(of_name).find_map(value)
    });
    argument.unwrap_or((from.line, image))
}

/// The last part of the name of an image, without tag and digest.
fn name_of(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split(':').next().unwrap_or(last)
}

/// helm-operator's image: quay.io/operator-framework/helm-operator, and those of `OpenShift`, ose-helm-operator and ose-helm-rhel9-operator.
fn is_helm_operator(image: &str) -> bool {
    let name = name_of(image);
    name.contains("helm") && name.contains("operator")
}
