//! The file PROJECT, in the format of operator-sdk's projects.

use super::ScaffoldError;
use crate::template::yaml::{self, EmitError};
use serde_json::{Map, Value, json};

/// The layout that operator-sdk gives projects of charts: its own commands work in the project too.
const LAYOUT: &str = "helm.sdk.operatorframework.io/v1";
/// The version of the format.
const VERSION: &str = "3";
/// Where the charts of the kinds came from, and whether the operator carries out notices, among the settings of plugins.
const PLUGIN: &str = "charts.tillerman.dev/v1";

/// A project: its names, and its kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Project {
    /// The name: prefix of all objects and first part of the namespace.
    pub name: String,
    /// The suffix of the groups of the kinds: group `apps` and domain `example.com` are `apps.example.com`.
    pub domain: String,
    /// The kinds, in the order in which they were added.
    pub resources: Vec<ProjectResource>,
    /// Whether the operator carries out notices.
    pub notices: bool,
    /// The comments at the top of the file; empty for those of a new one.
    head: String,
    /// The other content of the file, which is kept.
    rest: Map<String, Value>,
}

/// A kind of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectResource {
    /// First part of the group.
    pub group: String,
    /// Version, such as `v1alpha1`.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// The suffix of the group; empty for none.
    pub domain: String,
    /// Plural name, where it is not made by the rule.
    pub plural: Option<String>,
    /// Where its chart came from.
    pub source: Option<ChartOrigin>,
}

/// Where a chart came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartOrigin {
    /// As given: a path, a URL, an OCI reference or a name.
    pub chart: String,
    /// The repository, if one was given.
    pub repo: String,
    /// The requested version; empty for the newest.
    pub version: String,
}

impl ProjectResource {
    /// The whole group.
    pub fn qualified_group(&self) -> String {
        match (&*self.group, &*self.domain) {
            (group, "") => group.to_owned(),
            ("", domain) => domain.to_owned(),
            (group, domain) => format!("{group}.{domain}"),
        }
    }

    /// Whether it is the same kind, in the same version.
    pub fn is(&self, other: &Self) -> bool {
        self.qualified_group() == other.qualified_group() && self.kind == other.kind && self.version == other.version
    }
}

impl Project {
    /// A project without kinds.
    pub fn new(name: &str, domain: &str) -> Self {
        Self { name: name.to_owned(), domain: domain.to_owned(), ..Self::default() }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The fault, in a sentence.
    pub fn read(file: &str) -> Result<Self, ScaffoldError> {
        let document = yaml::parse(file.as_bytes())?;
        let Value::Object(mut fields) = document else { return Err("it is not a map".into()) };
        let version = fields.remove("version");
        if version.as_ref().and_then(Value::as_str) != Some(VERSION) {
            return Err(format!("version is not {VERSION:?}").into());
        }
        let layout = fields.remove("layout");
        let is_ours =
            |layout: &Value| layout.as_str().is_some_and(|name| name.starts_with("helm.sdk.operatorframework.io/"));
        // operator-sdk wrote a text at first (1.5), and a list since.
        let is_project =
            |layout: &Value| is_ours(layout) || layout.as_array().is_some_and(|all| all.iter().any(is_ours));
        if !layout.as_ref().is_some_and(is_project) {
            return Err(format!("layout does not name {LAYOUT}: it is not a project of charts").into());
        }
        fields.remove("multigroup");
        let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut project = Self {
            head: text_of_head(file),
            name: text(fields.remove("projectName")),
            domain: text(fields.remove("domain")),
            ..Self::default()
        };
        if project.name.is_empty() {
            return Err("projectName is missing".into());
        }
        let resources = fields.remove("resources");
        let sources =
            fields.get_mut("plugins").and_then(Value::as_object_mut).and_then(|plugins| plugins.remove(PLUGIN));
        project.notices = sources.as_ref().is_some_and(|ours| ours["notices"] == true);
        for resource in resources.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut read = ProjectResource {
                group: field("group"),
                version: field("version"),
                kind: field("kind"),
                domain: field("domain"),
                plural: Some(field("plural")).filter(|plural| !plural.is_empty()),
                source: None,
            };
            if read.kind.is_empty() || read.version.is_empty() {
                return Err("an entry of resources has no kind or no version".into());
            }
            let key = read.kind.clone();
            let source = sources.iter().filter_map(|all| all["charts"].as_array()).flatten().find(|source| {
                source["kind"] == *key
                    && source["group"] == *read.qualified_group()
                    && source["version"] == *read.version
            });
            let of = |source: &Value, name: &str| source[name].as_str().unwrap_or_default().to_owned();
            read.source = source.map(|source| ChartOrigin {
                chart: of(source, "chart"),
                repo: of(source, "repo"),
                version: of(source, "chartVersion"),
            });
            project.resources.push(read);
        }
        project.rest = fields;
        Ok(project)
    }

    /// Adds a kind, or gives the existing one its new source. Returns its index.
    pub fn add(&mut self, resource: ProjectResource) -> usize {
        if let Some(index) = self.resources.iter().position(|known| known.is(&resource)) {
            self.resources[index] = resource;
            return index;
        }
        self.resources.push(resource);
        self.resources.len() - 1
    }

    /// Writes the file. `new_head` are the comments of one that was not read.
    ///
    /// # Errors
    /// If a text cannot be written as YAML.
    pub fn write(&self, new_head: &str) -> Result<String, EmitError> {
        let mut fields = self.rest.clone();
        fields.insert("domain".into(), json!(self.domain));
        fields.insert("layout".into(), json!([LAYOUT]));
        fields.insert("projectName".into(), json!(self.name));
        let mut groups: Vec<_> = self.resources.iter().map(|resource| &resource.group).collect();
        groups.sort();
        groups.dedup();
        if groups.len() > 1 {
            fields.insert("multigroup".into(), json!(true));
        }
        if !fields.contains_key("plugins") {
            fields.insert("plugins".into(), json!({"manifests.sdk.operatorframework.io/v2": {}}));
        }
        let sources: Vec<Value> = self.resources.iter().filter_map(source).collect();
        let mut ours = Map::new();
        if !sources.is_empty() {
            ours.insert("charts".into(), json!(sources));
        }
        if self.notices {
            ours.insert("notices".into(), true.into());
        }
        if let Some(plugins) = fields.get_mut("plugins").and_then(Value::as_object_mut).filter(|_| !ours.is_empty()) {
            plugins.insert(PLUGIN.into(), ours.into());
        }
        if !self.resources.is_empty() {
            let resources: Vec<Value> = self.resources.iter().map(resource).collect();
            fields.insert("resources".into(), json!(resources));
        }
        fields.insert("version".into(), json!(VERSION));
        let text = yaml::of_json(&Value::Object(fields))?;
        let head = if self.head.is_empty() { new_head } else { &self.head };
        Ok(format!("{head}{text}"))
    }
}

fn text_of_head(file: &str) -> String {
    file.split_inclusive('\n').take_while(|line| line.starts_with('#')).collect()
}

fn resource(resource: &ProjectResource) -> Value {
    let mut fields = json!({
        "api": {"crdVersion": "v1", "namespaced": true},
        "group": resource.group,
        "kind": resource.kind,
        "version": resource.version,
    });
    if !resource.domain.is_empty() {
        fields["domain"] = json!(resource.domain);
    }
    if let Some(plural) = &resource.plural {
        fields["plural"] = json!(plural);
    }
    fields
}

fn source(resource: &ProjectResource) -> Option<Value> {
    let source = resource.source.as_ref()?;
    let mut fields = json!({
        "group": resource.qualified_group(),
        "version": resource.version,
        "kind": resource.kind,
        "chart": source.chart,
    });
    if !source.repo.is_empty() {
        fields["repo"] = json!(source.repo);
    }
    if !source.version.is_empty() {
        fields["chartVersion"] = json!(source.version);
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::{ChartOrigin, Project, ProjectResource};

    fn web() -> ProjectResource {
        ProjectResource {
            group: "apps".into(),
            version: "v1alpha1".into(),
            kind: "Web".into(),
            domain: "example.com".into(),
            ..ProjectResource::default()
        }
    }

    #[test]
    fn a_project_is_read_as_it_was_written() {
        let mut project = Project::new("web-operator", "example.com");
        project.add(ProjectResource {
            source: Some(ChartOrigin {
                chart: "web".into(),
                repo: "https://charts.example.com".into(),
                version: "1.2.3".into(),
            }),
            ..web()
        });
        project.add(ProjectResource {
            group: "db".into(),
            kind: "Mysql".into(),
            plural: Some("mysqls".into()),
            ..web()
        });
        project.notices = true;
        let text = project.write("# head\n").unwrap();
        let read = Project::read(&text).unwrap();
        assert!(read.notices && !Project::read(&text.replace("notices: true", "notices: false")).unwrap().notices);
        assert_eq!(read.write("# head\n").unwrap(), text);
        assert_eq!((read.resources, read.name), (project.resources, project.name));
        assert!(text.contains("multigroup: true"), "{text}");
    }

    #[test]
    fn what_operator_sdk_wrote_is_kept() {
        let text = "# Do not edit.\ndomain: example.com\nlayout:\n- helm.sdk.operatorframework.io/v1\nplugins:\n  manifests.sdk.operatorframework.io/v2: {}\n  \
                    scorecard.sdk.operatorframework.io/v2: {}\nprojectName: web-operator\nresources:\n- api:\n    crdVersion: v1\n    namespaced: true\n  \
                    domain: example.com\n  group: apps\n  kind: Web\n  version: v1alpha1\nversion: \"3\"\n";
        let project = Project::read(text).unwrap();
        assert_eq!(project.resources, [web()]);
        assert_eq!(project.write("").unwrap(), text);
    }

    #[test]
    fn a_kind_is_added_once() {
        let mut project = Project::new("web-operator", "example.com");
        assert_eq!((project.add(web()), project.add(web()), project.resources.len()), (0, 0, 1));
    }

    #[test]
    fn what_is_no_project_of_charts_is_refused() {
        for (text, why) in [
            ("[]", "it is not a map"),
            ("version: \"2\"", "version is not \"3\""),
            (
                "version: \"3\"\nlayout: [go.kubebuilder.io/v4]",
                "layout does not name helm.sdk.operatorframework.io/v1: it is not a project of charts",
            ),
            ("version: \"3\"\nlayout: [helm.sdk.operatorframework.io/v1]", "projectName is missing"),
        ] {
            assert_eq!(Project::read(text).unwrap_err().to_string(), why);
        }
    }
}
