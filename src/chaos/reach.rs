//! How clients reach a cluster: at the addresses of pods, with the certificates and the password of Secrets that the custom resource
//! names.

use std::time::Duration;

use etcd_client::Error;
use k8s_openapi::api::core::v1::Secret as KubeSecret;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use serde_json::Value;

use super::ChaosError;
use crate::members::etcd::client::Access;
use crate::members::secret::Secret;

/// How members are reached.
#[derive(Clone)]
pub struct Reach {
    /// Certificates and password, and how long each call may take.
    pub access: Access,
    /// The name that members' certificates are for; None: their URL's host.
    pub name: Option<String>,
}

impl From<Access> for Reach {
    fn from(access: Access) -> Self {
        Self { access, name: None }
    }
}

/// Names of Secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// With the certificate for clients.
    pub tls: Option<String>,
    /// With username and password of a user that may write everywhere.
    pub user: Option<String>,
}

impl Named {
    /// The spec of an `EtcdCluster`, as `charts/etcd` reads it. Fails where clients need a certificate and none is
    /// named.
    pub fn of(cluster: &Value) -> Result<Self, ChaosError> {
        let text = |pointer: &str| cluster.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let on = |pointer: &str| cluster.pointer(pointer).and_then(Value::as_bool) == Some(true);
        let name = text("/metadata/name").unwrap_or_default();
        let own = on("/spec/TLS/generated/enabled") || on("/spec/TLS/certManager/enabled");
        let secured = own || text("/spec/TLS/static/member/serverSecret").is_some();
        let tls = match text("/spec/TLS/static/operatorSecret") {
            _ if own => Some(format!("{name}-client-tls")),
            Some(secret) if secured => Some(secret.to_owned()),
            None if secured => {
                return Err("clients need a certificate: name its Secret with --client-tls-secret NAME".into());
            }
            _ => None,
        };
        Ok(Self { tls, user: text("/spec/auth/rootSecret").map(str::to_owned) })
    }
}

impl Reach {
    /// For the cluster of this name, by its Secrets; those that are `given` count more than those that it names.
    ///
    /// Fails with what to do, and shows nothing of a Secret.
    pub async fn new(
        client: &Client,
        namespace: &str,
        name: &str,
        given: Named,
        timeout: Duration,
    ) -> Result<Self, ChaosError> {
        let kind = ApiResource {
            group: "etcd.database.coreos.com".into(),
            version: "v1beta2".into(),
            api_version: "etcd.database.coreos.com/v1beta2".into(),
            kind: "EtcdCluster".into(),
            plural: "etcdclusters".into(),
        };
        // A cluster may be of another kind, or of none, and the API server may not have this one.
        let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let found = match clusters.get(name).await {
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => Some(found.map_err(|e| format!("EtcdCluster {name}: {e}"))?),
        };
        let found = found.map(serde_json::to_value).transpose()?;
        let named = match found {
            Some(_) if given.tls.is_some() && given.user.is_some() => Named::default(),
            Some(found) => {
                Named::of(&found).or_else(|why| if given.tls.is_some() { Ok(Named::default()) } else { Err(why) })?
            }
            None => Named::default(),
        };
        let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
        let read = async |name: &str| -> Result<Value, ChaosError> {
            let found = secrets.get_opt(name).await.map_err(|e| format!("Secret {name}: {e}"))?;
            let found = found.ok_or_else(|| format!("there is no Secret {name} in namespace {namespace}"))?;
            serde_json::to_value(found).map_err(|_| format!("Secret {name} cannot be read").into())
        };
        let mut access = Access { tls: None, user: None, timeout };
        if let Some(name) = given.tls.or(named.tls) {
            access.tls = Some(Secret::new(&name, &read(&name).await?).tls()?);
        }
        if let Some(name) = given.user.or(named.user) {
            let object = read(&name).await?;
            let secret = Secret::new(&name, &object);
            access.user = Some((secret.text("username")?, secret.text("password")?));
        }
        // Certificates are for names, which the operator calls members by; the members of a cluster have the same.
        Ok(Self { access, name: Some(format!("{name}-0.{name}.{namespace}.svc")) })
    }

    /// Where clients find the member with an address.
    pub fn url(&self, address: &str) -> String {
        let scheme = if self.access.tls.is_some() { "https" } else { "http" };
        if address.contains(':') {
            format!("{scheme}://[{address}]:2379")
        } else {
            format!("{scheme}://{address}:2379")
        }
    }

    /// A client of one member.
    pub async fn client(&self, url: &str) -> Result<etcd_client::Client, Error> {
        self.access.client_by(url, self.name.as_deref()).await
    }
}

#[cfg(test)]
mod tests {
    use super::{ChaosError, Named, Reach};
    use crate::members::etcd::client::{Access, Tls};
    use serde_json::{Value, json};
    use std::time::Duration;

    fn named(spec: &Value) -> Result<(Option<String>, Option<String>), ChaosError> {
        let Named { tls, user } = Named::of(&json!({"metadata": {"name": "my"}, "spec": spec}))?;
        Ok((tls, user))
    }

    /// As `charts/etcd/templates/_etcd.jinja` and `members.yaml` have it for the operator.
    #[test]
    fn secrets_are_those_that_the_operator_takes() {
        let own = Some("my-client-tls".to_owned());
        assert_eq!(named(&json!({"size": 3})), Ok((None, None)));
        assert_eq!(named(&json!({"TLS": {"generated": {"enabled": true}}})), Ok((own.clone(), None)));
        assert_eq!(named(&json!({"TLS": {"certManager": {"enabled": true}}})), Ok((own, None)));
        let given = json!({"TLS": {"static": {"member": {"serverSecret": "s"}, "operatorSecret": "o"}}, "auth": {"rootSecret": "r"}});
        assert_eq!(named(&given), Ok((Some("o".into()), Some("r".into()))));
        let peers = json!({"TLS": {"static": {"member": {"peerSecret": "p"}, "operatorSecret": "o"}}, "auth": {"rootSecret": ""}});
        assert_eq!(named(&peers), Ok((None, None)), "clients are reached without");
        let missing = json!({"TLS": {"static": {"member": {"serverSecret": "s"}}}});
        assert!(named(&missing).unwrap_err().to_string().contains("--client-tls-secret"));
    }

    #[test]
    fn addresses_are_called_by_the_scheme_that_the_members_have() {
        let of = |tls| Reach::from(Access { tls, user: None, timeout: Duration::ZERO });
        assert_eq!(of(None).url("10.0.0.1"), "http://10.0.0.1:2379");
        let tls = Tls { ca: Vec::new(), identity: None };
        assert_eq!(of(Some(tls)).url("fd00::1"), "https://[fd00::1]:2379");
    }
}
