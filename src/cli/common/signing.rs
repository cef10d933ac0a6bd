//! The flags of what is signed: the key, and how the artifact was built.

use super::error::CliError;
use crate::image::signature::SigningKey;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The key and the provenance.
#[derive(Debug, clap::Args)]
pub struct SigningArgs {
    /// Private key of the curve P-256 in PEM. `cosign verify --key` accepts the signature with its public key.
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    /// The predicate of SLSA's provenance (v1) in JSON: how the artifact was built. It is signed and attached, too.
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    provenance: Option<PathBuf>,
}

/// The files that they name.
pub struct Signing {
    /// The key.
    pub key: SigningKey,
    /// The predicate of the statement about the build.
    pub provenance: Option<Value>,
}

impl SigningArgs {
    /// Reads the files, if there is a key.
    pub fn read(&self) -> Result<Option<Signing>, CliError> {
        let Some(path) = &self.sign_key else { return Ok(None) };
        let wrong = |path: &Path, why: String| CliError(format!("{}: {why}", path.display()));
        let pem = String::from_utf8_lossy(&read(path)?).into_owned();
        let key = SigningKey::from_pem(&pem).map_err(|e| wrong(path, e.to_string()))?;
        let predicate = |path: &PathBuf| {
            let value: Value = serde_json::from_slice(&read(path)?).map_err(|e| wrong(path, e.to_string()))?;
            if value["buildDefinition"].is_object() && value["runDetails"].is_object() {
                return Ok(value);
            }
            Err(wrong(path, "it is not a provenance: it lacks buildDefinition or runDetails".to_owned()))
        };
        let provenance = self.provenance.as_ref().map(predicate).transpose()?;
        Ok(Some(Signing { key, provenance }))
    }
}

/// A file of the command line.
pub fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|e| CliError(format!("open {}: {}", path.display(), crate::chart::go_io(&e))))
}
