//! The identity with whose rights a release is handled.
//!
//! All requests about its objects use it: they are looked up, read, applied, patched and deleted, as are hooks,
//! operations and members, logs and the values of `valuesFrom`. The operator uses its own rights for its own data:
//! records, the status, the finalizer, events, the lease, discovery and the watches (docs/explanation/security.md).

use std::sync::Arc;

use crate::cluster::access::Account;
use crate::cluster::cr::Cr;
use crate::cluster::identity::Identity;
use crate::kind::Kind;
use crate::kind::service_account::ServiceAccount;
use crate::release::owner::Owner;

/// The identity for the requests about the objects of a release. An annotation that cannot be read means no rights,
/// also for a deletion: an editor of the custom resource could else get those of the operator.
pub fn identity(kind: &Kind, cr: &Cr, owner: &Owner) -> Identity {
    match ServiceAccount::of(kind.service_account.as_ref(), &cr.annotations) {
        Ok(None) => Identity::Own,
        Ok(Some(account)) => {
            let own = owner.namespace.as_deref().unwrap_or(&owner.release_namespace);
            let namespace = account.namespace.as_deref().unwrap_or(own).to_owned();
            Identity::Account(Arc::new(Account { namespace, name: account.name.to_string() }))
        }
        Err(why) => Identity::Nobody(why.to_string().into()),
    }
}
