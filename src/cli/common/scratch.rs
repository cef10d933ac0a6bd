//! A folder for temporary files.

use super::error::CliError;
use crate::chart::go_io;
use std::path::{Path, PathBuf};

/// A new folder, which is removed when it is no longer needed.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates it where the system has temporary files.
    pub fn new() -> Result<Self, CliError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(CliError::new)?;
        let name = format!("tillerman-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|e| CliError(format!("mkdir {}: {}", path.display(), go_io(&e))))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is in the folder for temporary files: if it cannot be removed now, the system will do so.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
