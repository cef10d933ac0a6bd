//! The flags that say where a chart comes from, and the charts found with them.

use super::chart_server::ServerArgs;
use super::error::CliError;
use super::streams::ON_ERROR;
use crate::source::download::{Access, Downloader, Verify, WantedChart};
use crate::source::provenance::Keyring;
use crate::source::{Messages, SourceError, SourceSettings};
use std::path::PathBuf;

/// Helm's flags of a chart.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ChartPathArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// A version or a constraint such as `^1.2` [default: the newest].
    #[arg(long, default_value = "", hide_default_value = true)]
    pub version: String,
    /// Prereleases too; the same as --version '>0.0.0-0'.
    #[arg(long)]
    pub devel: bool,
    /// The repository of the chart, as a link.
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub repo: String,
    /// Send user name and password to other servers than the repository's too.
    #[arg(long)]
    pub pass_credentials: bool,
}

impl ChartPathArgs {
    /// The chart of this name with the version of the flags.
    pub fn wanted(&self, chart: &str) -> WantedChart {
        let version = if self.version.is_empty() && self.devel { ">0.0.0-0" } else { &self.version };
        WantedChart { chart: chart.to_owned(), version: version.to_owned(), repo: self.repo.clone() }
    }

    /// Does something with a downloader of these flags.
    pub fn with_downloader<T>(
        &self,
        settings: &SourceSettings,
        messages: Messages,
        verify: Verify,
        work: impl FnOnce(&Downloader) -> Result<T, SourceError>,
    ) -> Result<T, CliError> {
        let login = self.server.login()?;
        let registry = self.server.registry(settings, &login, messages)?;
        let downloader = Downloader {
            settings,
            registry: &registry,
            access: Access {
                tls: self.server.tls(),
                login,
                home: String::new(),
                pass_credentials: self.pass_credentials,
            },
            verify,
            keyring: Keyring::File(self.server.keyring()),
            messages,
        };
        Ok(work(&downloader)?)
    }

    /// The path of the chart on this machine, downloaded if it is elsewhere.
    pub fn locate(&self, settings: &SourceSettings, chart: &str) -> Result<PathBuf, CliError> {
        let verify = if self.server.verify { Verify::Always } else { Verify::Never };
        self.with_downloader(settings, ON_ERROR, verify, |d| d.locate(&self.wanted(chart)))
    }
}
