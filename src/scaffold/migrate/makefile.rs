//! The Makefile: `make run` of a project runs helm-operator, which it downloads.

use super::{Edit, MigrationReport, Project};

pub fn look(project: &Project<'_>, report: &mut MigrationReport) {
    let Some(text) = project.files.get("Makefile") else { return };
    let lines: Vec<&str> = text.lines().collect();
    let target = lines.iter().position(|line| line.starts_with("run:"));
    let recipe = target.and_then(|at| {
        let recipe = lines[at + 1..].iter().take_while(|line| line.starts_with('\t'));
        recipe.enumerate().find(|(_, line)| line.contains("$(HELM_OPERATOR)")).map(|(nth, _)| at + 1 + nth)
    });
    if let (Some(target), Some(recipe)) = (target, recipe) {
        let what = "make run downloads helm-operator and runs it";
        let head = lines[target].replacen("run: helm-operator", "run:", 1);
        let command = lines[recipe].replace("$(HELM_OPERATOR) run", "tillerman run");
        if head == lines[target] || command == lines[recipe] {
            report.change("Makefile", Some(target), what, "let it run tillerman run");
        } else {
            report.edit("Makefile", target, Edit::Replace(vec![head]), what, "make run needs no helm-operator");
            report.edit(
                "Makefile",
                recipe,
                Edit::Replace(vec![command]),
                "make run runs helm-operator",
                "tillerman run, with the same arguments",
            );
        }
    }
    report
        .stays("Makefile", "the other targets; those of bundles use operator-sdk, which tillerman bundle can replace");
}
