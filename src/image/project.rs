//! The content that a project of operator-sdk serves: `watches.yaml` and the charts that it names. The only part of
//! [`super`] that reads files.

use super::{HOME, ImageError, fail};
use crate::chart::{self, Chart, ChartLimits};
use crate::kind::{ChartRef, watches};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// The file that says which custom resources there are.
const WATCHES: &str = "watches.yaml";
/// The prefixes of the names of licences in a project's directory.
const LICENCES: [&str; 5] = ["LICENSE", "LICENCE", "NOTICE", "COPYING", "COPYRIGHT"];
/// Bytes of a file that is not a chart.
const FILE_LIMIT: u64 = 4 << 20;

/// The served content of a project.
#[derive(Clone, Debug)]
pub struct Project {
    /// The name in its `PROJECT`, or nothing.
    pub name: String,
    /// Files by their paths below [`HOME`].
    pub files: BTreeMap<String, Vec<u8>>,
    /// Licences, by name.
    pub licences: BTreeMap<String, Vec<u8>>,
    /// The charts, in the order of `watches.yaml`, each once.
    pub charts: Vec<PlacedChart>,
    /// Warnings about `watches.yaml`.
    pub warnings: Vec<String>,
}

/// A chart and its place in an image.
#[derive(Clone, Debug)]
pub struct PlacedChart {
    /// Where it lies, as a path without `/` at its beginning.
    pub at: String,
    /// Its content.
    pub chart: Chart,
    /// Its files, with paths that begin as `at`.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Reads the project in a directory.
///
/// # Errors
/// If there is no `watches.yaml`, it is wrong, a chart of it is missing or does not load, or a file lies outside of the directory.
pub fn read(directory: &Path) -> Result<Project, ImageError> {
    let root = Root::new(directory)?;
    let shown = directory.display();
    if !root.path.join(WATCHES).exists() {
        return fail(format!(
            "{shown} has no {WATCHES}, which the directory of an operator needs; --bare makes an image of the program \
             alone"
        ));
    }
    let text = root.file(WATCHES)?;
    let wrong = |what: String| ImageError(format!("{}: {what}", directory.join(WATCHES).display()));
    let utf8 = std::str::from_utf8(&text).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    // In the image, paths are relative to its working directory.
    let watches = watches::parse(utf8, Path::new(HOME)).map_err(|e| wrong(e.to_string()))?;
    let mut project = Project {
        name: project_name(&root),
        files: BTreeMap::new(),
        licences: root.licences()?,
        charts: Vec::new(),
        warnings: watches.warnings,
    };
    for kind in &watches.kinds {
        if let Some(keyring) = &kind.proof.keyring {
            let name = relative(keyring).map_err(|why| wrong(format!("keyring {}: {why}", keyring.display())))?;
            project.files.insert(name.clone(), root.file(&name)?);
        }
        // Others are fetched when the operator runs.
        let ChartRef::Path(path) = &kind.chart else { continue };
        let named = path.strip_prefix(HOME).unwrap_or(path).display();
        let wrong = |why: &str| wrong(format!("chart {named} of {}: {why}", kind.gvk.kind));
        let at = relative(path).map_err(|why| wrong(&why.0))?;
        if project.charts.iter().all(|placed| placed.at != at) {
            project.charts.push(root.chart(&at).map_err(|e| wrong(&e.0))?);
        }
    }
    project.files.insert(WATCHES.to_owned(), text);
    Ok(project)
}

/// Reads a chart for an image without a project. It is placed by the name of its directory.
///
/// # Errors
/// As [`read`].
pub fn read_chart(path: &Path) -> Result<PlacedChart, ImageError> {
    let whole = path.canonicalize().map_err(|e| ImageError(format!("{}: {}", path.display(), chart::go_io(&e))))?;
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name().and_then(|name| name.to_str())) else {
        return fail(format!("{}: it is not a chart", path.display()));
    };
    // A chart's links may lead to nothing outside of the chart.
    let root = Root { path: parent.to_owned() };
    let within = whole.is_dir().then(|| whole.clone());
    root.chart_within(name, within.as_deref()).map_err(|e| ImageError(format!("{}: {}", path.display(), e.0)))
}

/// The path below [`HOME`] of a path in an image.
fn relative(path: &Path) -> Result<String, ImageError> {
    let Ok(below) = path.strip_prefix(HOME) else {
        return fail(format!("it is outside of the project, which is {HOME} in the image"));
    };
    let mut parts = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(part) => {
                parts.push(part.to_str().ok_or_else(|| ImageError("its name is not UTF-8".to_owned()))?);
            }
            Component::CurDir => {}
            _ => return fail("its path leads out of the project (..)"),
        }
    }
    if parts.is_empty() { fail("it is the project itself") } else { Ok(parts.join("/")) }
}

/// `projectName` of operator-sdk's file.
fn project_name(root: &Root) -> String {
    let text = root.path.join("PROJECT").is_file().then(|| root.file("PROJECT").ok()).flatten();
    let document = text.and_then(|text| crate::template::yaml::parse(&text).ok());
    let name = document.as_ref().and_then(|document| document.get("projectName")?.as_str());
    name.unwrap_or_default().to_owned()
}

/// A directory out of which nothing leads.
struct Root {
    /// Without symbolic links.
    path: PathBuf,
}

impl Root {
    fn new(directory: &Path) -> Result<Self, ImageError> {
        let failed = |e: std::io::Error| ImageError(format!("{}: {}", directory.display(), chart::go_io(&e)));
        let path = directory.canonicalize().map_err(failed)?;
        if path.is_dir() { Ok(Self { path }) } else { fail(format!("{}: it is not a directory", directory.display())) }
    }

    /// Fails when symbolic links make a file lie outside.
    fn check(&self, name: &str, within: &Path) -> Result<(), ImageError> {
        let real = self.path.join(name).canonicalize();
        let real = real.map_err(|e| ImageError(format!("{name}: {}", chart::go_io(&e))))?;
        if real.starts_with(within) {
            return Ok(());
        }
        fail(format!("{name} is a link out of the project, to {}", real.display()))
    }

    /// The content of a file.
    fn file(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        self.check(name, &self.path)?;
        let failed = |e: std::io::Error| ImageError(format!("{name}: {}", chart::go_io(&e)));
        let file = std::fs::File::open(self.path.join(name)).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return fail(format!("{name}: it is not a file"));
        }
        let mut data = Vec::new();
        file.take(FILE_LIMIT + 1).read_to_end(&mut data).map_err(failed)?;
        if data.len() as u64 > FILE_LIMIT {
            return fail(format!("{name} has more than {FILE_LIMIT} bytes"));
        }
        Ok(data)
    }

    fn chart(&self, at: &str) -> Result<PlacedChart, ImageError> {
        self.chart_within(at, None)
    }

    /// A chart, whose files lie within a directory; without one, in this.
    fn chart_within(&self, at: &str, within: Option<&Path>) -> Result<PlacedChart, ImageError> {
        let within = within.unwrap_or(&self.path);
        let path = self.path.join(at);
        if !path.exists() {
            return fail("there is no such directory or archive");
        }
        self.check(at, &self.path)?;
        if !path.is_dir() {
            let archive = chart::load(&path).map_err(|e| ImageError(e.0))?;
            let data = std::fs::read(&path).map_err(|e| ImageError(chart::go_io(&e)))?;
            return Ok(PlacedChart { at: at.to_owned(), chart: archive, files: vec![(at.to_owned(), data)] });
        }
        let limits = ChartLimits::default();
        let files = chart::directory_files(&path, &limits).map_err(|e| ImageError(e.0))?;
        for file in &files {
            self.check(&format!("{at}/{}", file.name), within)?;
        }
        let placed = files.iter().map(|file| (format!("{at}/{}", file.name), file.data.to_vec())).collect();
        let chart = chart::load_files(files, &limits).map_err(|e| ImageError(e.0))?;
        Ok(PlacedChart { at: at.to_owned(), chart, files: placed })
    }

    /// The files next to `watches.yaml` whose names say that they are licences.
    fn licences(&self) -> Result<BTreeMap<String, Vec<u8>>, ImageError> {
        let failed = |e: std::io::Error| ImageError(format!("{}: {}", self.path.display(), chart::go_io(&e)));
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if LICENCES.iter().any(|start| name.starts_with(start)) && entry.path().is_file() {
                let data = self.file(&name)?;
                found.insert(name, data);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::{ImageError, Project, read};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A project in a directory that goes.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, chart: &str) -> Self {
            let place = Self(std::env::temp_dir().join(format!("tillerman-image-{name}-{}", std::process::id())));
            let _ = fs::remove_dir_all(&place.0);
            place.write("helm-charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 1.2.3}");
            place.write("helm-charts/web/templates/a.yaml", "a: b");
            place.watch(chart);
            place
        }
        fn watch(&self, chart: &str) {
            self.write("watches.yaml", &format!("- {{group: a.b, version: v1, kind: Web, chart: {chart}}}"));
        }
        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fn read(&self) -> Result<Project, ImageError> {
            read(&self.0)
        }
        fn error(&self) -> String {
            self.read().unwrap_err().0.replace(&self.0.canonicalize().unwrap().display().to_string(), "DIR")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(project: &Project) -> Vec<&str> {
        project.charts.iter().flat_map(|chart| &chart.files).map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn only_what_is_served_is_read() {
        let place = Place::new("served", "helm-charts/web");
        for name in
            ["Makefile", "config/secret.yaml", "helm-charts/other/Chart.yaml", "helm-charts/web/x.bak", ".git/config"]
        {
            place.write(name, "x");
        }
        place.write("helm-charts/web/.helmignore", "*.bak\n");
        place.write("LICENSE", "mine");
        place.write("PROJECT", "projectName: web-operator\n");
        let project = place.read().unwrap();
        let web = "helm-charts/web";
        let wanted = [".helmignore", "Chart.yaml", "templates/a.yaml"].map(|name| format!("{web}/{name}"));
        assert_eq!(names(&project), wanted);
        assert_eq!(project.files.keys().collect::<Vec<_>>(), ["watches.yaml"]);
        assert_eq!((&*project.name, project.licences.len()), ("web-operator", 1));
        // As in an old project, which has the path in the image.
        place.watch("/opt/helm/helm-charts/web");
        assert_eq!(names(&place.read().unwrap()), wanted);
        // Nothing of a chart that is fetched.
        place.watch("oci://a.b/c:1.0.0");
        assert!(place.read().unwrap().charts.is_empty());
    }

    #[test]
    fn what_is_missing_or_outside_is_an_error_that_names_it() {
        let place = Place::new("outside", "helm-charts/web");
        let wanted = |chart: &str, message: &str| {
            place.watch(chart);
            assert!(place.error().ends_with(message), "{chart}: {}", place.error());
        };
        wanted("helm-charts/no", "chart helm-charts/no of Web: there is no such directory or archive");
        wanted("../web", "of Web: its path leads out of the project (..)");
        wanted("helm-charts/../../web", "of Web: its path leads out of the project (..)");
        wanted("/etc", "chart /etc of Web: it is outside of the project, which is /opt/helm in the image");
        wanted(".", "of Web: it is the project itself");
        wanted("watches.yaml", "seems to be a YAML file, but expected a gzipped archive");
        fs::remove_file(place.0.join("watches.yaml")).unwrap();
        assert!(place.error().contains("has no watches.yaml"), "{}", place.error());
    }

    #[test]
    fn links_are_followed_inside_and_refused_when_they_lead_out() {
        let place = Place::new("links", "helm-charts/web");
        symlink("a.yaml", place.0.join("helm-charts/web/templates/b.yaml")).unwrap();
        assert!(names(&place.read().unwrap()).contains(&"helm-charts/web/templates/b.yaml"));
        symlink("/etc/hostname", place.0.join("helm-charts/web/templates/c.yaml")).unwrap();
        let message = place.error();
        assert!(message.contains("helm-charts/web/templates/c.yaml is a link out of the project"), "{message}");
        fs::remove_file(place.0.join("helm-charts/web/templates/c.yaml")).unwrap();
        symlink("/etc", place.0.join("helm-charts/etc")).unwrap();
        place.watch("helm-charts/etc");
        assert!(place.error().contains("is a link out of the project, to /etc"), "{}", place.error());
        place.watch("helm-charts/web");
        symlink("/etc/passwd", place.0.join("LICENSE")).unwrap();
        assert!(place.error().contains("LICENSE is a link out of the project"), "{}", place.error());
    }
}
