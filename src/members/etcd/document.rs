//! `spec.etcd` of a Members document.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::state::{Settings, Version};
use super::url::Pattern;
use crate::kind::duration;

/// What `spec.etcd` says.
#[derive(Clone, Debug)]
pub struct Document {
    /// What decisions need.
    pub settings: Settings,
    /// The `ConfigMap` that pods take `ETCD_INITIAL_CLUSTER` and `ETCD_INITIAL_CLUSTER_STATE` from. It belongs to the driver.
    pub config_map: String,
    /// The Secret with `ca.crt`, and `tls.crt` and `tls.key` where members ask for a certificate.
    pub tls_secret: Option<String>,
    /// The Secret with `username` and `password` of a user with the role `root`.
    pub user_secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(rename = "peerURL")]
    peer_url: String,
    #[serde(rename = "clientURL")]
    client_url: String,
    config_map: Option<String>,
    tls: Option<SecretName>,
    auth: Option<SecretName>,
    join_deadline: Option<String>,
    dead_after: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretName {
    secret_name: String,
}

impl Document {
    /// Reads `spec.etcd` for the StatefulSet of this name. Fails with what is wrong.
    pub fn read(etcd: &Map<String, Value>, stateful_set: &str) -> Result<Self, String> {
        let raw: Raw =
            serde_json::from_value(Value::Object(etcd.clone())).map_err(|error| format!("spec.etcd: {error}"))?;
        let url = |key, text: &str| Pattern::new(text, stateful_set).map_err(|why| format!("spec.etcd.{key}: {why}"));
        let seconds = |key, text: Option<String>, default| match text {
            None => Ok(default),
            Some(text) => duration::parse(&text)
                .map(|duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4))
                .map_err(|why| format!("spec.etcd.{key}: {why}")),
        };
        let version = raw.version.map(|text| {
            Version::parse(&text).ok_or_else(|| format!("spec.etcd.version: {text:?} is not a version such as 3.6.16"))
        });
        let settings = Settings {
            peer_url: url("peerURL", &raw.peer_url)?,
            client_url: url("clientURL", &raw.client_url)?,
            join_deadline: seconds("joinDeadline", raw.join_deadline, 300)?,
            dead_after: seconds("deadAfter", raw.dead_after, 600)?,
            version: version.transpose()?,
        };
        Ok(Self {
            settings,
            config_map: raw.config_map.unwrap_or_else(|| format!("{stateful_set}-initial-cluster")),
            tls_secret: raw.tls.map(|secret| secret.secret_name),
            user_secret: raw.auth.map(|secret| secret.secret_name),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Document, Version};

    fn read(etcd: Value) -> Result<Document, String> {
        let Value::Object(etcd) = etcd else { panic!("not an object") };
        Document::read(&etcd, "my-etcd")
    }

    #[test]
    fn urls_are_enough() {
        let document = read(json!({
            "peerURL": "http://$(POD).my-etcd-peer.ns.svc:2380",
            "clientURL": "http://$(POD).my-etcd-peer.ns.svc:2379",
        }))
        .unwrap();
        assert_eq!(document.settings.client_url.url(2), "http://my-etcd-2.my-etcd-peer.ns.svc:2379");
        assert_eq!((document.settings.join_deadline, document.settings.dead_after), (300, 600));
        assert_eq!(document.config_map, "my-etcd-initial-cluster");
        assert!(document.tls_secret.is_none() && document.user_secret.is_none());
    }

    #[test]
    fn all_of_it_is_read() {
        let document = read(json!({
            "peerURL": "https://$(POD).p:2380", "clientURL": "https://$(POD).p:2379", "configMap": "map", "version": "v3.5.35",
            "tls": {"secretName": "certs"}, "auth": {"secretName": "root"}, "joinDeadline": "90s", "deadAfter": "1h30m",
        }))
        .unwrap();
        assert_eq!((document.settings.join_deadline, document.settings.dead_after), (90, 5400));
        assert_eq!(document.settings.version, Version::parse("3.5.35"));
        assert_eq!((&*document.config_map, document.tls_secret.as_deref()), ("map", Some("certs")));
        assert_eq!(document.user_secret.as_deref(), Some("root"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let urls = json!({"peerURL": "http://$(POD).p:2380", "clientURL": "http://$(POD).p:2379"});
        let with = |key: &str, value: Value| {
            let mut etcd = urls.clone();
            etcd[key] = value;
            read(etcd).unwrap_err()
        };
        assert!(read(json!({"peerURL": "http://$(POD).p:2380"})).unwrap_err().contains("clientURL"));
        assert!(with("peerUrl", json!("x")).contains("unknown field `peerUrl`"));
        assert!(with("clientURL", json!("http://etcd:2379")).starts_with("spec.etcd.clientURL: "));
        assert!(with("deadAfter", json!("soon")).starts_with("spec.etcd.deadAfter: "));
        assert!(with("version", json!("latest")).starts_with("spec.etcd.version: "));
        assert!(with("tls", json!({"name": "x"})).contains("unknown field `name`"));
    }
}
