//! Chooses the versions of dependencies (Helm's `internal/resolver`).

use super::{Manager, constraint};
use crate::index::Index;
use crate::link::shown;
use crate::registry::{Reference, is_oci};
use crate::{SourceError, fail, repositories};
use std::collections::HashMap;
use tillerman_render::chart::{self, Dependency};
use tillerman_render::template::version::Version;

impl Manager<'_> {
    /// For each dependency the newest version that fits, of the repositories' indexes as they are kept.
    pub(super) fn resolve(
        &self,
        wanted: &[Dependency],
        names: &HashMap<String, String>,
    ) -> Result<Vec<Dependency>, SourceError> {
        let mut locked = Vec::new();
        let mut missing = Vec::new();
        for dependency in wanted {
            match self.choose(dependency, names.get(&dependency.name).map(String::as_str))? {
                Some(version) => locked.push(Dependency {
                    name: dependency.name.clone(),
                    repository: dependency.repository.clone(),
                    version,
                    ..Dependency::default()
                }),
                None => missing.push(format!(
                    "{:?} (repository {:?}, version {:?})",
                    dependency.name,
                    shown(&dependency.repository),
                    dependency.version
                )),
            }
        }
        if missing.is_empty() {
            return Ok(locked);
        }
        fail(format!(
            "can't get a valid version for {} subchart(s): {}. Make sure a matching chart version exists in the repo, or \
             change the version constraint in Chart.yaml",
            missing.len(),
            missing.join(", ")
        ))
    }

    fn choose(&self, dependency: &Dependency, repository: Option<&str>) -> Result<Option<String>, SourceError> {
        let Dependency { name, version, repository: at, .. } = dependency;
        let constraint = constraint(dependency, true)?;
        let fits = |version: &str| Version::parse(version).is_ok_and(|v| constraint.check(&v));
        if at.is_empty() {
            self.local(&format!("charts/{name}"))?;
            return Ok(Some(version.clone()));
        }
        if at.starts_with("file://") {
            let found = chart::load(&self.local(at)?)?.metadata.version;
            return Ok(fits(&found).then_some(found));
        }
        let Some(repository) = repository else { return Ok(Some(version.clone())) };
        if is_oci(at) {
            let tags = if Version::parse(version).is_ok() {
                vec![version.clone()]
            } else {
                let reference = Reference::parse(&format!("{at}/{name}"))?;
                self.registry.tags(&reference).map_err(|e| {
                    SourceError(format!("could not retrieve list of tags for repository {}: {e}", shown(at)))
                })?
            };
            // Without a matching tag the constraint stays, and the registry answers with an error.
            return Ok(Some(tags.into_iter().find(|tag| fits(tag)).unwrap_or_else(|| version.clone())));
        }
        let path = repositories::index_file(self.settings, repository);
        let index = Index::load(&path, Some(name), &self.messages).map_err(|e| {
            SourceError(format!("no cached repository for {repository} found. (try 'helm repo update'): {e}"))
        })?;
        let Some(versions) = index.entries.get(name) else {
            return fail(format!("{name} chart not found in repo {}", shown(at)));
        };
        Ok(versions.iter().find(|v| !v.urls.is_empty() && fits(&v.version)).map(|v| v.version.clone()))
    }
}
