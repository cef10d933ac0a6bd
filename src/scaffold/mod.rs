//! Projects of operators: the files that `tillerman init` and `tillerman create api` write, and how they are updated.
//!
//! The layout, the names of the files and the targets of the Makefile are those of operator-sdk's projects of charts,
//! so that its commands continue to work, and users can use them as before. All of it is generated from the names, the
//! charts and `watches.yaml`; nothing here reads or writes a file.

pub mod bounds;
pub mod built_in;
pub mod bundle;
pub mod dependencies;
pub mod merge;
pub mod migrate;
pub mod pinned;
pub mod project;
pub mod sample;
pub mod starter;

use crate::template::yaml::{EmitError, YamlError};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use project::{Project, ProjectResource};
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a project, or a part of it, cannot be read or made, as a sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScaffoldError(String);

macro_rules! sentences {
    ($($cause:ty),+) => {$(
        impl From<$cause> for ScaffoldError {
            fn from(cause: $cause) -> Self {
                Self(cause.to_string())
            }
        }
    )+};
}
sentences!(&str, String, EmitError, YamlError);

/// Files by their path in the project.
pub type ProjectFiles = BTreeMap<String, Vec<u8>>;

/// The folder of the charts.
pub const CHARTS: &str = "helm-charts";
/// The folder with the files as they were generated last.
pub const GENERATED: &str = ".tillerman/generated";

/// A kind of the project, and the facts about its chart.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Api {
    /// The whole group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name.
    pub plural: String,
    /// The chart's folder in the project.
    pub chart: String,
    /// The chart's name.
    pub chart_name: String,
    /// The chart's version.
    pub chart_version: String,
    /// `namespaces` of `watches.yaml`.
    pub namespaces: String,
    /// `clusterScoped` of `watches.yaml`.
    #[serde(rename = "clusterScoped")]
    pub cluster_scoped: String,
    /// `overrideValues` of `watches.yaml`: paths and texts.
    pub pinned: Vec<(String, String)>,
    /// `dependsOn` of `watches.yaml`: the lines of its list.
    pub depends_on: Vec<String>,
    /// First part of the names of the files with roles for people.
    pub role_prefix: String,
    /// First part of the names of these roles.
    pub role_name: String,
    /// The name of the file with the sample.
    pub sample: String,
}

impl Api {
    /// A kind with the names of its files. Where a kind of the same name came before, names of roles begin with the group.
    pub fn new(resource: &ProjectResource, plural: String, project: &Project) -> Self {
        let kind = resource.kind.to_ascii_lowercase();
        let mut before = project.resources.iter().take_while(|other| *other != resource);
        let (role_prefix, role_name) = if before.any(|other| other.kind.eq_ignore_ascii_case(&kind)) {
            (format!("{}_{kind}", resource.group), format!("{}-{kind}", resource.group))
        } else {
            (kind.clone(), kind.clone())
        };
        Self {
            group: resource.qualified_group(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural,
            sample: format!("{}_{}_{kind}.yaml", resource.group, resource.version),
            role_prefix,
            role_name,
            ..Self::default()
        }
    }

    /// The path of its definition.
    pub fn crd_path(&self) -> String {
        format!("config/crd/bases/{}_{}.yaml", self.group, self.plural)
    }

    /// The path of its sample.
    pub fn sample_path(&self) -> String {
        format!("config/samples/{}", self.sample)
    }
}

/// The files of every project, with their templates.
const TEMPLATES: &[(&str, &str)] = &[
    (".gitignore", include_str!("files/gitignore")),
    ("Dockerfile", include_str!("files/Dockerfile")),
    ("Makefile", include_str!("files/Makefile")),
    ("README.md", include_str!("files/README.md")),
    ("hack/test-samples.sh", include_str!("files/hack/test-samples.sh")),
    ("config/argocd/argocd-cm.yaml", include_str!("files/config/argocd/argocd-cm.yaml")),
    ("config/crd/kustomization.yaml", include_str!("files/config/crd/kustomization.yaml")),
    ("config/default/kustomization.yaml", include_str!("files/config/default/kustomization.yaml")),
    ("config/default/manager_metrics_patch.yaml", include_str!("files/config/default/manager_metrics_patch.yaml")),
    ("config/default/metrics_service.yaml", include_str!("files/config/default/metrics_service.yaml")),
    ("config/manager/kustomization.yaml", include_str!("files/config/manager/kustomization.yaml")),
    ("config/manager/manager.yaml", include_str!("files/config/manager/manager.yaml")),
    ("config/manifests/kustomization.yaml", include_str!("files/config/manifests/kustomization.yaml")),
    (
        "config/network-policy/allow-metrics-traffic.yaml",
        include_str!("files/config/network-policy/allow-metrics-traffic.yaml"),
    ),
    ("config/network-policy/kustomization.yaml", include_str!("files/config/network-policy/kustomization.yaml")),
    ("config/prometheus/kustomization.yaml", include_str!("files/config/prometheus/kustomization.yaml")),
    ("config/prometheus/monitor.yaml", include_str!("files/config/prometheus/monitor.yaml")),
    ("config/rbac/kustomization.yaml", include_str!("files/config/rbac/kustomization.yaml")),
    (
        "config/rbac/leader_election_role_binding.yaml",
        include_str!("files/config/rbac/leader_election_role_binding.yaml"),
    ),
    ("config/rbac/metrics_auth_role.yaml", include_str!("files/config/rbac/metrics_auth_role.yaml")),
    ("config/rbac/metrics_auth_role_binding.yaml", include_str!("files/config/rbac/metrics_auth_role_binding.yaml")),
    ("config/rbac/metrics_reader_role.yaml", include_str!("files/config/rbac/metrics_reader_role.yaml")),
    ("config/rbac/role_binding.yaml", include_str!("files/config/rbac/role_binding.yaml")),
    ("config/rbac/service_account.yaml", include_str!("files/config/rbac/service_account.yaml")),
    ("config/samples/kustomization.yaml", include_str!("files/config/samples/kustomization.yaml")),
];

/// The files of each kind, for the roles that people get.
const ROLES: &[(&str, &str)] = &[
    ("admin", include_str!("files/config/rbac/admin_role.yaml")),
    ("editor", include_str!("files/config/rbac/editor_role.yaml")),
    ("viewer", include_str!("files/config/rbac/viewer_role.yaml")),
];

/// The health check for Argo CD.
pub const HEALTH: &str = include_str!("files/config/argocd/health.lua");
/// The head of the file PROJECT.
pub const PROJECT_HEAD: &str = include_str!("files/PROJECT");
/// The definition of notices, and the target that applies it, for a project whose operator carries out notices.
const NOTICES: [(&str, &str); 2] = [
    ("config/notices/kustomization.yaml", include_str!("files/config/notices/kustomization.yaml")),
    ("config/notices/tillerman.dev_notices.yaml", include_str!("../../deploy/notice.yaml")),
];
/// The base of what `make bundle` writes.
const SERVICE_VERSION: &str = include_str!("files/config/manifests/bases/clusterserviceversion.yaml");
const WATCHES: &str = include_str!("files/watches.yaml");

/// `watches.yaml`.
pub fn watches(apis: &[Api]) -> Vec<u8> {
    rendered(WATCHES, &context! { apis => Value::from(Serde(apis)) })
}

/// The files that depend on names alone. `version` is that of the program, whose image the Dockerfile begins with.
pub fn files(project: &Project, apis: &[Api], version: &str) -> ProjectFiles {
    let notices = project.notices;
    let names =
        context! { name => &project.name, apis => Value::from(Serde(apis)), version, notices, health => HEALTH };
    let mut files: ProjectFiles =
        TEMPLATES.iter().map(|(path, template)| ((*path).to_owned(), rendered(template, &names))).collect();
    let base = format!("config/manifests/bases/{}.clusterserviceversion.yaml", project.name);
    files.insert(base, rendered(SERVICE_VERSION, &names));
    for (path, text) in NOTICES.iter().filter(|_| notices) {
        files.insert((*path).to_owned(), text.as_bytes().to_vec());
    }
    for api in apis {
        for (role, template) in ROLES {
            let path = format!("config/rbac/{}_{role}_role.yaml", api.role_prefix);
            files.insert(path, rendered(template, &context! { name => &project.name, api => Value::from(Serde(api)) }));
        }
    }
    files
}

/// A template of ours, which is part of the program: it renders with all names.
fn rendered(template: &str, names: &Value) -> Vec<u8> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the delimiters are those of minijinja"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.render_str(template, names).expect("a template of the program renders").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::project::{Project, ProjectResource};
    use super::{Api, files, watches};

    fn project(groups: &[&str]) -> (Project, Vec<Api>) {
        let mut project = Project::new("web-operator", "example.com");
        for group in groups {
            project.add(ProjectResource {
                group: (*group).to_owned(),
                version: "v1alpha1".to_owned(),
                kind: "Web".to_owned(),
                domain: "example.com".to_owned(),
                ..ProjectResource::default()
            });
        }
        let api = |resource| Api {
            chart: "helm-charts/web".to_owned(),
            namespaces: "own".to_owned(),
            cluster_scoped: "false".to_owned(),
            ..Api::new(resource, "webs".to_owned(), &project)
        };
        let apis = project.resources.iter().map(api).collect();
        (project, apis)
    }

    #[test]
    fn every_yaml_file_is_yaml() {
        for (groups, notices) in [(&[][..], false), (&["apps"], true), (&["apps", "db"], false)] {
            let (mut project, apis) = project(groups);
            project.notices = notices;
            let mut all = files(&project, &apis, "localhost/tillerman");
            all.insert("watches.yaml".to_owned(), watches(&apis));
            for (path, text) in
                all.iter().filter(|(path, _)| std::path::Path::new(path).extension().is_some_and(|e| e == "yaml"))
            {
                for document in crate::template::yaml::split_documents(text).unwrap() {
                    crate::template::yaml::parse(&document).unwrap_or_else(|e| panic!("{path}: {e}"));
                }
            }
        }
    }

    #[test]
    fn a_project_with_notices_has_their_definition_and_the_flag() {
        let (mut project, apis) = project(&["apps"]);
        let without = files(&project, &apis, "x");
        project.notices = true;
        let with = files(&project, &apis, "x");
        let new: Vec<&str> = with.keys().filter(|path| !without.contains_key(*path)).map(String::as_str).collect();
        assert_eq!(new, ["config/notices/kustomization.yaml", "config/notices/tillerman.dev_notices.yaml"]);
        let text = |path: &str| String::from_utf8(with[path].clone()).unwrap();
        assert!(
            text("config/manager/manager.yaml")
                .contains("=/var/lib/tillerman\n          - --notices\n        # `make deploy`")
        );
        assert!(text("config/manifests/kustomization.yaml").contains("- ../default\n- ../notices\n- ../samples\n"));
        assert!(text("Makefile").contains("run --watches-file=watches.yaml --notices\n"));
        let apply = "\t$(KUBECTL) apply --server-side -k config/notices\n";
        assert_eq!(text("Makefile").matches(apply).count(), 2, "{}", text("Makefile"));
        for (path, file) in &without {
            let file = String::from_utf8_lossy(file);
            assert!(!file.contains("notices"), "{path}: {file}");
        }
    }

    #[test]
    fn roles_of_kinds_of_one_name_do_not_meet() {
        let (project, apis) = project(&["apps", "db"]);
        let all = files(&project, &apis, "x");
        assert!(all.contains_key("config/rbac/web_admin_role.yaml"));
        assert!(all.contains_key("config/rbac/db_web_admin_role.yaml"));
    }
}
