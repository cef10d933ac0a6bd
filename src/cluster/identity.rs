//! The identity with whose rights a request is sent.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use kube::core::Status;

use super::access::Account;
use super::error::{ApiError, Sent};

/// Asks the API server to act for another user. `client-go` sends the same header.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// The identity with whose rights a request is sent.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// The operator's own.
    #[default]
    Own,
    /// Those of a `ServiceAccount`. The API server is asked to impersonate it, and puts it into the groups of its
    /// accounts: `system:serviceaccounts`, `system:serviceaccounts:NAMESPACE` and `system:authenticated`
    /// (`pkg/endpoints/filters/impersonation` of k8s.io/apiserver).
    Account(Arc<Account>),
    /// Nobody's. Every request fails with this sentence, and none is sent.
    Nobody(Arc<str>),
}

impl Identity {
    /// The account with whose rights requests are sent; `None` for the operator's own, and for nobody.
    pub(super) fn account(&self) -> Option<&Arc<Account>> {
        match self {
            Self::Account(account) => Some(account),
            Self::Own | Self::Nobody(_) => None,
        }
    }

    /// Says with whose rights a request is sent. `is_another`: it names a user to impersonate already, in a place where it cannot be replaced.
    ///
    /// # Errors
    /// Nobody's rights, or an account that cannot be named.
    pub(super) fn enter<B>(
        &self,
        request: &mut http::Request<B>,
        what: &str,
        is_another: bool,
    ) -> Result<(), ApiError> {
        let forbidden = |why: &str| ApiError::refused(what, 403, &Status::failure(why, "Forbidden"), Sent::Nothing);
        match self {
            Self::Own => {}
            Self::Nobody(why) => return Err(forbidden(why)),
            Self::Account(_) if is_another => {
                return Err(forbidden(
                    "the kubeconfig impersonates a user, which excludes service accounts behind a proxy",
                ));
            }
            Self::Account(account) => {
                let user = HeaderValue::from_str(&account.user());
                let user = user.map_err(|_| forbidden("the name of its service account cannot be sent"))?;
                request.headers_mut().insert(IMPERSONATE_USER, user);
            }
        }
        Ok(())
    }
}

/// Leaves one user to impersonate: that of the request. A kubeconfig may name another identity (`as`), with its groups,
/// for all requests.
pub(super) fn one_user<B>(mut request: http::Request<B>) -> http::Request<B> {
    let headers = request.headers_mut();
    if headers.get_all(IMPERSONATE_USER).iter().count() > 1
        && let Some(first) = headers.get(IMPERSONATE_USER).cloned()
    {
        headers.insert(IMPERSONATE_USER, first);
        headers.remove(IMPERSONATE_GROUP);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::one_user;

    #[test]
    fn a_request_names_one_user() {
        let request = |users: &[&str]| {
            let request = http::Request::builder().header("Impersonate-Group", "system:masters");
            let request = users.iter().fold(request, |request, user| request.header("Impersonate-User", *user));
            let headers = one_user(request.body(()).unwrap()).headers().clone();
            let all = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect();
            let (users, groups): (Vec<_>, Vec<_>) = (all("Impersonate-User"), all("Impersonate-Group"));
            (users, groups.len())
        };
        assert_eq!(request(&["account", "kubeconfig"]), (vec!["account".to_owned()], 0));
        assert_eq!(
            request(&["kubeconfig"]),
            (vec!["kubeconfig".to_owned()], 1),
            "nothing of the operator's own changes"
        );
    }
}
