//! A chart to begin with: a web server that works at once.

use super::ProjectFiles;

/// The language of the templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Helm's: Go templates.
    Helm,
    /// minijinja, in which no value breaks the YAML.
    Minijinja,
}

/// The placeholder for the name of the chart.
const NAME: &str = "CHART_NAME";

const SCHEMA: &str = include_str!("starter/values.schema.json");
const VALUES: &str = include_str!("starter/values.yaml");
const HELM: &[(&str, &str)] = &[
    ("Chart.yaml", include_str!("starter/helm/Chart.yaml")),
    ("templates/NOTES.txt", include_str!("starter/helm/templates/NOTES.txt")),
    ("templates/deployment.yaml", include_str!("starter/helm/templates/deployment.yaml")),
    ("templates/service.yaml", include_str!("starter/helm/templates/service.yaml")),
];
const MINIJINJA: &[(&str, &str)] = &[
    ("Chart.yaml", include_str!("starter/minijinja/Chart.yaml")),
    ("templates/NOTES.txt", include_str!("starter/minijinja/templates/NOTES.txt")),
    ("templates/deployment.yaml", include_str!("starter/minijinja/templates/deployment.yaml")),
    ("templates/service.yaml", include_str!("starter/minijinja/templates/service.yaml")),
];

/// The files of a chart of this name.
pub fn chart(name: &str, engine: Engine) -> ProjectFiles {
    let own = match engine {
        Engine::Helm => HELM,
        Engine::Minijinja => MINIJINJA,
    };
    let all = own.iter().copied().chain([("values.schema.json", SCHEMA), ("values.yaml", VALUES)]);
    all.map(|(path, text)| (path.to_owned(), text.replace(NAME, name).into_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::{Engine, chart};
    use crate::chart::{ChartLimits, File, Values, load_files};
    use crate::render::{Capabilities, Options, Release, render};

    fn rendered(engine: Engine) -> Vec<(String, serde_json::Value)> {
        let files = chart("web", engine).into_iter().map(|(name, data)| File { name, data: data.into() }).collect();
        let chart = load_files(files, &ChartLimits::default()).unwrap();
        let release = Release::new("world", "default");
        let made = render(&chart, &Values::new(), &release, &Capabilities::default(), &Options::default()).unwrap();
        made.manifests
            .iter()
            .map(|m| (m.kind.clone(), crate::template::yaml::parse(m.text.as_bytes()).unwrap()))
            .collect()
    }

    #[test]
    fn both_charts_make_the_same_objects() {
        let (helm, minijinja) = (rendered(Engine::Helm), rendered(Engine::Minijinja));
        assert_eq!(helm, minijinja);
        assert_eq!(helm.iter().map(|(kind, _)| &**kind).collect::<Vec<_>>(), ["Service", "Deployment"]);
    }
}
