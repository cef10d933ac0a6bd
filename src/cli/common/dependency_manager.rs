//! The manager of a chart's dependencies.

use super::error::CliError;
use crate::source::dependency::{Manager, source_date_epoch};
use crate::source::download::Verify;
use crate::source::registry::Registry;
use crate::source::{Messages, SourceSettings, clean};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A manager with the system's clock.
pub fn manager<'a>(
    chart: &Path,
    settings: &'a SourceSettings,
    registry: &'a Registry<'a>,
    keyring: PathBuf,
    messages: Messages<'a>,
) -> Result<Manager<'a>, CliError> {
    Ok(Manager {
        chart: clean(chart),
        settings,
        registry,
        verify: Verify::Never,
        keyring,
        skip_refresh: false,
        epoch: source_date_epoch()?,
        now: SystemTime::now,
        messages,
    })
}
