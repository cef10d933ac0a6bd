//! Which store is meant.

use std::time::Duration;

use crate::backup::place::{S3, StorePlace};
use crate::cli::common::error::CliError;

/// The default prefix of the names of backups.
const PREFIX: &str = "etcd";

const STORE: &str =
    "The place of the backups: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, az://CONTAINER/FOLDER or file:///FOLDER";
const KEYS: &str = "Keys are read from the same places as by the cloud's own programs. S3: AWS_ACCESS_KEY_ID and \
                    AWS_SECRET_ACCESS_KEY, or the files AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE with \
                    AWS_PROFILE, or the pod's identity. Google: GOOGLE_APPLICATION_CREDENTIALS. Azure: \
                    AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY.";

#[derive(Debug, clap::Args)]
pub(super) struct StoreArgs {
    #[arg(long, value_name = "URL", help = STORE, long_help = format!("{STORE}.\n\n{KEYS}"))]
    store: String,
    /// The prefix of the names of backups; `etcd` by default, and all for `list`.
    #[arg(long, value_name = "PREFIX")]
    name_prefix: Option<String>,
    /// URL of an S3-compatible server.
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Region of the bucket.
    #[arg(long, value_name = "REGION")]
    s3_region: Option<String>,
    /// The bucket is part of the server's name and not of the path.
    #[arg(long)]
    s3_virtual_host: bool,
    /// The time limit of the whole command.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::kind::duration::parse)]
    pub timeout: Duration,
}

impl StoreArgs {
    pub fn open(&self, write: bool) -> Result<StorePlace, CliError> {
        let s3 = S3 {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            virtual_host: self.s3_virtual_host,
        };
        Ok(StorePlace::open(&self.store, &s3, write)?)
    }

    pub fn prefix(&self) -> Option<&str> {
        self.name_prefix.as_deref()
    }

    pub fn name_prefix(&self) -> &str {
        self.prefix().unwrap_or(PREFIX)
    }
}
