//! Where backups are stored: a folder of an object store or of a file system.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

use super::BackupError;
use super::aws::Profile;
use super::http::Connector;
use super::record::SUFFIX;

/// How often a request is sent again that failed, and for how long.
const RETRIES: usize = 4;
const RETRY_FOR: Duration = Duration::from_secs(60);

/// Names a cloud of Azure; the public one by default.
const AZURE_ENVIRONMENT: &str = "AZURE_ENVIRONMENT";
/// The clouds of Azure, as its library for Go names them (go-autorest, `azure/environments.go`), and the domains of their storage.
const AZURE_CLOUDS: [(&str, &str); 4] = [
    ("AzurePublicCloud", "core.windows.net"),
    ("AzureChinaCloud", "core.chinacloudapi.cn"),
    ("AzureGermanCloud", "core.cloudapi.de"),
    ("AzureUSGovernmentCloud", "core.usgovcloudapi.net"),
];

/// A folder of a store.
#[derive(Clone, Debug)]
pub struct StorePlace {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) folder: Path,
    /// The folder of a file system.
    pub(super) local: Option<PathBuf>,
    url: String,
}

/// The settings of an S3-compatible server besides its URL. Missing settings come from AWS's environment variables and
/// files.
#[derive(Clone, Debug, Default)]
pub struct S3 {
    /// The URL of the server; AWS's own by default.
    pub endpoint: Option<String>,
    /// Where the bucket is.
    pub region: Option<String>,
    /// The bucket is part of the host's name and not of the path.
    pub virtual_host: bool,
}

impl std::fmt::Display for StorePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

impl StorePlace {
    /// Opens `s3://BUCKET/FOLDER`, `gs://BUCKET/FOLDER`, `az://CONTAINER/FOLDER` (also `abs` and `azblob`) or `file:///FOLDER`,
    /// with the credentials that the environment names. A folder of a file system is made when it is to be written to.
    pub fn open(url: &str, s3: &S3, write: bool) -> Result<Self, BackupError> {
        let invalid = |why: &str| BackupError::Invalid(format!("{url:?} is not a place for backups: {why}"));
        // A password would be before an `@`, and a token after a `?`. Neither belongs here, and neither may be shown.
        if url.contains(['@', '?', '#']) {
            return Err(BackupError::Invalid("a place for backups is a URL without user, query and fragment".into()));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("it has no scheme"))?;
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        if (scheme == "file") != bucket.is_empty() {
            return Err(invalid(if scheme == "file" { "its path is not absolute" } else { "it names no bucket" }));
        }
        let folder = Path::parse(folder.trim_matches('/')).map_err(|error| invalid(&error.to_string()))?;
        let made = match scheme {
            "s3" => amazon(bucket, s3)?.build().map(shared),
            "gs" | "gcs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
                builder.with_http_connector(connector(false)).with_retry(retry()).build().map(shared)
            }
            "az" | "abs" | "azblob" => azure(bucket)?.build().map(shared),
            "file" => return Self::local(url, &format!("/{folder}"), write),
            other => return Err(invalid(&format!("{other} must be one of s3, gs, az and file"))),
        };
        let store = made.map_err(|error| BackupError::Invalid(format!("{url}: {}", words(&error))))?;
        Ok(Self { store, folder, local: None, url: url.trim_end_matches('/').into() })
    }

    fn local(url: &str, folder: &str, write: bool) -> Result<Self, BackupError> {
        let folder = PathBuf::from(folder);
        if write {
            std::fs::create_dir_all(&folder).map_err(BackupError::file(&folder))?;
        }
        let store = LocalFileSystem::new_with_prefix(&folder);
        let store = store.map_err(|error| BackupError::Store(format!("{url}: {}", words(&error))))?.with_fsync(true);
        let url = url.trim_end_matches('/').into();
        Ok(Self { store: Arc::new(store), folder: Path::default(), local: Some(folder), url })
    }

    /// Where a backup of that name is.
    pub(super) fn path(&self, name: &str) -> Result<Path, BackupError> {
        let invalid = || BackupError::Invalid(format!("{name:?} is not a valid name of a backup"));
        if name.is_empty() || name.contains('/') || name.ends_with(SUFFIX) {
            return Err(invalid());
        }
        Path::parse(format!("{}/{name}", self.folder)).map_err(|_| invalid())
    }

    /// Where the record of a backup is.
    pub(super) fn record(&self, name: &str) -> Result<Path, BackupError> {
        let snapshot = self.path(name)?;
        Path::parse(format!("{snapshot}{SUFFIX}")).map_err(|error| BackupError::Invalid(error.to_string()))
    }

    /// An error of the store in plain words.
    pub(super) fn error(&self, what: impl std::fmt::Display, error: &object_store::Error) -> BackupError {
        BackupError::Store(format!("{}: {what}: {}", self.url, words(error)))
    }
}

fn shared(store: impl ObjectStore) -> Arc<dyn ObjectStore> {
    Arc::new(store)
}

fn amazon(bucket: &str, s3: &S3) -> Result<AmazonS3Builder, BackupError> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let given = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
    let profile = profile()?;
    // Keys come in pairs. Halves of two pairs make no pair.
    if !given(&builder, AmazonS3ConfigKey::AccessKeyId)
        && let (Some(id), Some(secret)) = (profile.access_key_id, profile.secret_access_key)
    {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = profile.session_token {
            builder = builder.with_token(token);
        }
    }
    if let Some(region) = &s3.region {
        builder = builder.with_region(region);
    } else if let Some(region) = profile.region.filter(|_| !given(&builder, AmazonS3ConfigKey::Region)) {
        builder = builder.with_region(region);
    }
    let of_environment = given(&builder, AmazonS3ConfigKey::Endpoint) || given(&builder, AmazonS3ConfigKey::S3Endpoint);
    let endpoint = s3.endpoint.clone().or_else(|| profile.endpoint.filter(|_| !of_environment));
    if let Some(endpoint) = endpoint {
        // With the bucket in the host, `object_store` wants it there already.
        let endpoint = match endpoint.split_once("://") {
            Some((scheme, host)) if s3.virtual_host => format!("{scheme}://{bucket}.{host}"),
            _ => endpoint,
        };
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let endpoint = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    // Keys from elsewhere come over https.
    let plain =
        endpoint.is_some_and(|url| url.starts_with("http://")) && given(&builder, AmazonS3ConfigKey::AccessKeyId);
    let builder = builder.with_virtual_hosted_style_request(s3.virtual_host);
    Ok(builder.with_http_connector(connector(plain)).with_retry(retry()))
}

fn azure(container: &str) -> Result<MicrosoftAzureBuilder, BackupError> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    let given = |builder: &MicrosoftAzureBuilder, key| builder.get_config_value(&key).filter(|text| !text.is_empty());
    let cloud = std::env::var(AZURE_ENVIRONMENT).ok().filter(|name| !name.is_empty());
    if let (Some(cloud), None) = (cloud, given(&builder, AzureConfigKey::Endpoint)) {
        let suffix = storage_of(&cloud)?;
        if let Some(account) = given(&builder, AzureConfigKey::AccountName) {
            builder = builder.with_endpoint(format!("https://{account}.blob.{suffix}"));
        }
    }
    Ok(builder.with_http_connector(connector(false)).with_retry(retry()))
}

/// The domain of a cloud's storage.
fn storage_of(cloud: &str) -> Result<&'static str, BackupError> {
    let known = AZURE_CLOUDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(cloud));
    known.map(|(_, domain)| *domain).ok_or_else(|| {
        let names = AZURE_CLOUDS.map(|(name, _)| name).join(", ");
        BackupError::Invalid(format!("{AZURE_ENVIRONMENT} is {cloud:?}, and must be one of {names}"))
    })
}

/// The settings in AWS's files, if there are any.
fn profile() -> Result<Profile, BackupError> {
    let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = |file: &str| env("HOME").map(|home| home.join(".aws").join(file));
    let there = |path: &PathBuf| path.exists();
    let name = std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
    // A file that is named must be there; a config may be missing in a Secret that has credentials.
    let credentials = env("AWS_SHARED_CREDENTIALS_FILE").or_else(|| home("credentials").filter(there));
    let config = env("AWS_CONFIG_FILE").or_else(|| home("config")).filter(there);
    Profile::read(name.as_deref().unwrap_or("default"), credentials.as_deref(), config.as_deref())
}

fn connector(plain: bool) -> Connector {
    let authorities = std::env::var_os("AWS_CA_BUNDLE").unwrap_or_default();
    Connector { authorities: authorities.into(), plain }
}

fn retry() -> RetryConfig {
    RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, ..RetryConfig::default() }
}

/// The meaning of an error. Bodies of answers are not shown: those of S3 have the ID of the key and the signed text.
fn words(error: &object_store::Error) -> String {
    let all = chain(error);
    let code = all.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
    let code = code.filter(|code| code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric()));
    match (error, code) {
        (_, Some("NoSuchBucket" | "ContainerNotFound")) => "there is no such bucket".into(),
        (_, Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidTokenId"))) => {
            format!("access denied: the keys are wrong ({code})")
        }
        (object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }, code)
        | (
            _,
            code @ Some(
                "AccessDenied"
                | "AuthenticationFailed"
                | "AuthenticationRequired"
                | "AuthorizationFailure"
                | "InvalidSecurity",
            ),
        ) => {
            format!(
                "access denied: the keys are wrong, or lack the permission{}",
                code.map(|code| format!(" ({code})")).unwrap_or_default()
            )
        }
        (_, Some(code)) => format!("refused ({code})"),
        (object_store::Error::NotFound { .. }, None) => "not found".into(),
        _ if all.contains("169.254.169.254") => {
            "no keys were found: not in the environment, not in a file, and not from the metadata server of a cloud"
                .into()
        }
        _ => root(error),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push('\n');
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

/// The innermost cause, up to where an answer's body or a query begins.
fn root(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let text = error.to_string();
    let end = text.find(['<', '{', '?', '\n']).unwrap_or(text.len());
    text[..end].trim_end_matches([' ', ':']).into()
}

/// The leftovers of killed uploads below a folder: `object_store` names them `NAME#NUMBER`.
pub(super) fn leftovers(folder: &FilePath, older_than: std::time::SystemTime) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let old = entries.filter(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.rsplit_once('#')).map(|(_, number)| number);
        let staged =
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
        let modified = entry.metadata().and_then(|meta| meta.modified());
        staged && modified.is_ok_and(|modified| modified < older_than)
    });
    old.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::storage_of;

    #[test]
    fn a_cloud_of_azure_is_found_by_its_name_in_any_case() {
        assert_eq!(storage_of("AzurePublicCloud").unwrap(), "core.windows.net");
        assert_eq!(storage_of("AZURECHINACLOUD").unwrap(), "core.chinacloudapi.cn");
        assert_eq!(
            storage_of("China").unwrap_err().to_string(),
            "AZURE_ENVIRONMENT is \"China\", and must be one of AzurePublicCloud, AzureChinaCloud, AzureGermanCloud, \
             AzureUSGovernmentCloud"
        );
    }
}
