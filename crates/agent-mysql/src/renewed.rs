//! Certificates and passwords whose files have changed. The kubelet replaces the files of a Secret in each pod at a time of its own, at
//! most two minutes after the Secret, and nobody gives an order then.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::member::DatabaseMember;
use super::roles;
use tillerman_agent::contract::Role;

/// How often the files are read.
const READ: Duration = Duration::from_secs(2);

/// The content of the files. `None` for one that cannot be read.
type Digests = Vec<Option<[u8; 32]>>;

/// Reads certificates and passwords again whenever their files have changed.
pub async fn keep_renewed(member: Arc<DatabaseMember>) {
    let flags = &member.flags;
    let tls = flags.tls();
    let certificates: Vec<PathBuf> =
        tls.into_iter().flat_map(|tls| [tls.certificate, tls.key, tls.authorities]).collect();
    let passwords: Vec<PathBuf> = flags.administrator_password_file.iter().cloned().collect();
    let followers = [flags.password_file.clone()];
    let (mut own, mut shared) = ((digests(&certificates), digests(&passwords)), digests(&followers));
    loop {
        tokio::time::sleep(READ).await;
        let now = (digests(&certificates), digests(&passwords));
        if now != own {
            let guard = member.orders.lock().await;
            // The agent has its certificate also while the database waits for an order. One that starts may have read the old files.
            let runs = runs(&member);
            match roles::renew(&member).await {
                Ok(()) => {
                    if runs {
                        tracing::info!("certificates and passwords were read again");
                        own = now;
                    }
                    member.change(|facts| facts.stale = None);
                }
                // The files of before stay in use.
                Err(refusal) => member.change(|facts| facts.stale = Some(refusal.message)),
            }
            drop(guard);
        }
        let now = digests(&followers);
        // A replica that is connected stays so: the primary may not have the new password yet, and nobody would acknowledge meanwhile.
        let is_idle = runs(&member) && member.facts(|facts| facts.role) != Role::Replica;
        if now != shared && (is_idle || is_cut_off(&member).await) {
            let guard = member.orders.lock().await;
            match roles::reload(&member).await {
                Ok(()) => shared = now,
                Err(refusal) => tracing::warn!(%refusal, "the password of members cannot be read again"),
            }
            drop(guard);
        }
    }
}

fn runs(member: &DatabaseMember) -> bool {
    member.facts(|facts| facts.running.is_some())
}

/// Whether a replica does not receive.
async fn is_cut_off(member: &DatabaseMember) -> bool {
    runs(member) && member.measure(super::keeper::SHORT).await.is_ok_and(|measured| !measured.receiving)
}

fn digests(paths: &[PathBuf]) -> Digests {
    let digest = |path: &PathBuf| std::fs::read(path).ok().map(|content| Sha256::digest(content).into());
    paths.iter().map(digest).collect()
}
