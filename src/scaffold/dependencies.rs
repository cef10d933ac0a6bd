//! What `watches.yaml` waits for at first: the kinds that the annotation `tillerman.dev/depends-on` of a chart names, as far as the project
//! has them.

use super::ScaffoldError;
use super::project::Project;
use crate::chart::Chart;
use crate::kind::depends_on;
use crate::names;
use crate::template::yaml;
use std::fmt::Display;

/// `dependsOn` for a chart: the lines of a YAML list, without indentation. Kinds that the project does not have are left out, because an
/// operator can only wait for kinds that it serves. The error is a sentence.
pub fn of(chart: &Chart, project: &Project) -> Result<Vec<String>, ScaffoldError> {
    let Some(text) = chart.metadata.annotation(names::DEPENDS_ON) else { return Ok(Vec::new()) };
    let wrong = |why: &dyn Display| format!("{}: annotation {}: {why}", chart.metadata.name, names::DEPENDS_ON);
    let mut list = yaml::parse(text.as_bytes()).map_err(|e| wrong(&e))?;
    let wanted = depends_on::parse(&list, true).map_err(|e| wrong(&e))?;
    let has = |kind: &depends_on::Dependency| {
        project.resources.iter().any(|resource| resource.qualified_group() == kind.group && resource.kind == kind.kind)
    };
    let mut is_kept = wanted.iter().map(has);
    if let Some(items) = list.as_array_mut() {
        items.retain(|_| is_kept.next().unwrap_or(false));
    }
    if list.as_array().is_none_or(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let text = yaml::emit_pretty(&(&list).into()).map_err(|e| wrong(&e))?;
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::scaffold::built_in;
    use crate::scaffold::project::{Project, ProjectResource};
    use crate::{chart, scaffold};

    fn php() -> chart::Chart {
        let file = |(name, data): (String, Vec<u8>)| chart::File { name, data: data.into() };
        let files: scaffold::ProjectFiles = built_in::files("php");
        chart::load_files(files.into_iter().map(file).collect(), &chart::ChartLimits::default()).unwrap()
    }

    #[test]
    fn a_kind_waits_for_those_that_the_project_has() {
        let mut project = Project::new("shop", "tillerman.dev");
        assert_eq!(of(&php(), &project), Ok(Vec::new()));
        project.add(ProjectResource {
            group: "databases".to_owned(),
            domain: "tillerman.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "MySQLCluster".to_owned(),
            ..ProjectResource::default()
        });
        let lines = of(&php(), &project).unwrap();
        assert_eq!(lines[0], "- group: databases.tillerman.dev");
        assert!(lines.contains(&"  nameFrom: database.cluster".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_wrong_annotation_is_named() {
        let mut chart = php();
        let annotations = chart.metadata.annotations.as_mut().unwrap();
        annotations.insert("tillerman.dev/depends-on".to_owned(), "- kind: Database".to_owned());
        let error = of(&chart, &Project::new("shop", "example.com")).unwrap_err().to_string();
        assert_eq!(error, "php: annotation tillerman.dev/depends-on: an entry has neither name nor nameFrom");
    }
}
