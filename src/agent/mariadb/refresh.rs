//! Certificates and the administrator's password count as soon as their files change: a kubelet changes them when their Secret does.
//!
//! The password with which members follow each other is not among them. Kubelets change the files of the members at different times, and
//! a replica that used a new one before the primary knows it would receive nothing meanwhile.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::member::Member;
use super::roles::refresh;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// The largest part of a file that is looked at, in bytes.
const LIMIT: u64 = 1 << 20;

/// Lets the files count whenever they have changed. If they cannot be used, what was read before stays, and they are tried again.
pub async fn keep_refreshed(member: Arc<Member>) {
    let flags = &member.flags;
    let files: Vec<PathBuf> = flags
        .tls()
        .into_iter()
        .flat_map(|tls| [tls.certificate, tls.key, tls.authorities])
        .chain(flags.administrator_password_file.clone())
        .collect();
    let mut used = digest(&files);
    while !files.is_empty() {
        tokio::time::sleep(LOOK).await;
        let found = digest(&files);
        if found.is_none() || found == used {
            continue;
        }
        let guard = member.orders.lock().await;
        match refresh(&member).await {
            Ok(()) => {
                tracing::info!("certificates and the administrator's password are read again");
                used = found;
            }
            Err(refusal) => tracing::warn!(%refusal, "changed files are not used"),
        }
        drop(guard);
    }
}

/// What the files have; `None` if one cannot be read.
fn digest(files: &[PathBuf]) -> Option<Vec<u8>> {
    let mut digest = Sha256::new();
    for path in files {
        let mut content = Vec::new();
        File::open(path).ok()?.take(LIMIT).read_to_end(&mut content).ok()?;
        digest.update(content.len().to_be_bytes());
        digest.update(&content);
    }
    Some(digest.finalize().to_vec())
}
