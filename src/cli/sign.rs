//! `tillerman sign`: signs the files of a release.

use crate::cli::common::error::CliError;
use crate::cli::common::signing::{SigningArgs, read};
use std::path::{Path, PathBuf};

/// The files, and the key.
#[derive(Debug, clap::Args)]
pub struct SignArgs {
    /// The files. FILE.sigstore.json gets the signature, for `cosign verify-blob --key PUBLIC --bundle FILE.sigstore.json FILE`.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    signing: SigningArgs,
    /// Where the statement of --provenance about all files goes, for `cosign verify-blob-attestation`.
    #[arg(long, value_name = "FILE", default_value = "provenance.sigstore.json")]
    provenance_output: PathBuf,
}

/// Signs each file, and states how all were built.
pub fn run(args: &SignArgs) -> Result<(), CliError> {
    let Some(signing) = args.signing.read()? else {
        return Err(CliError::new("give the key with --sign-key"));
    };
    let files = args.files.iter().map(|path| Ok((name(path), read(path)?))).collect::<Result<Vec<_>, CliError>>()?;
    for (path, (_, data)) in args.files.iter().zip(&files) {
        let mut bundle = path.clone().into_os_string();
        bundle.push(".sigstore.json");
        write(Path::new(&bundle), &signing.key.file(data))?;
    }
    if let Some(predicate) = &signing.provenance {
        let files = files.iter().map(|(name, data)| (name.as_str(), data.as_slice()));
        write(&args.provenance_output, &signing.key.provenance(files, predicate))?;
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write(path: &Path, data: &[u8]) -> Result<(), CliError> {
    std::fs::write(path, data).map_err(|e| CliError(format!("{}: {e}", path.display())))
}
