//! `spec.etcd` of a Members document.

use crate::names;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::state::{Defragmentation, EtcdSettings, NoSpace, Version};
use crate::kind::duration;
use crate::members::url::Pattern;
use crate::object::quantity;

/// Label of the `ConfigMap` that members without data start from. Its value is the name of the release.
pub const LABEL: &str = names::INITIAL_CLUSTER;

/// The content of `spec.etcd`.
#[derive(Clone, Debug)]
pub struct EtcdDocument {
    /// The settings that decisions depend on.
    pub settings: EtcdSettings,
    /// The `ConfigMap` that pods take `ETCD_INITIAL_CLUSTER` and `ETCD_INITIAL_CLUSTER_STATE` from. It belongs to the driver.
    pub config_map: String,
    /// The Secret with `ca.crt`, and `tls.crt` and `tls.key` where members ask for a certificate.
    pub tls_secret: Option<String>,
    /// The Secret with `username` and `password` of a user with the role `root`.
    pub user_secret: Option<String>,
    /// The intended version of the members.
    pub version: Option<String>,
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
    defragmentation: Option<RawDefragmentation>,
    no_space: Option<String>,
    quota_backend_bytes: Option<Value>,
    learners: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawDefragmentation {
    fragmented_percent: Option<u64>,
    minimum_size: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretName {
    secret_name: String,
}

impl EtcdDocument {
    /// Reads `spec.etcd` for the StatefulSet of this name. The error says what is wrong.
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
        let version = raw.version.as_ref().map(|text| {
            Version::parse(text).ok_or_else(|| format!("spec.etcd.version: {text:?} is not a version such as 3.6.16"))
        });
        let settings = EtcdSettings {
            peer_url: url("peerURL", &raw.peer_url)?,
            client_url: url("clientURL", &raw.client_url)?,
            join_deadline: seconds("joinDeadline", raw.join_deadline, 300)?,
            dead_after: seconds("deadAfter", raw.dead_after, 600)?,
            version: version.transpose()?,
            defragmentation: raw.defragmentation.map(defragmentation).transpose()?,
            no_space: match raw.no_space.as_deref() {
                None | Some("Reclaim") => NoSpace::Reclaim,
                Some("Report") => NoSpace::Report,
                Some(other) => {
                    return Err(format!("spec.etcd.noSpace {other:?} is unknown; it must be Reclaim or Report"));
                }
            },
            learners: raw.learners.unwrap_or(true),
            quota: raw.quota_backend_bytes.map(|size| bytes("spec.etcd.quotaBackendBytes", &size)).transpose()?,
        };
        Ok(Self {
            settings,
            config_map: raw.config_map.unwrap_or_else(|| format!("{stateful_set}-initial-cluster")),
            tls_secret: raw.tls.map(|secret| secret.secret_name),
            user_secret: raw.auth.map(|secret| secret.secret_name),
            version: raw.version,
        })
    }
}

/// The defaults are the thresholds of the operator of `OpenShift`.
fn defragmentation(raw: RawDefragmentation) -> Result<Defragmentation, String> {
    let at = "spec.etcd.defragmentation";
    let fragmented_percent = raw.fragmented_percent.unwrap_or(45);
    if !(10..100).contains(&fragmented_percent) {
        return Err(format!("{at}.fragmentedPercent must be from 10 to 99"));
    }
    let minimum_size = raw.minimum_size.map(|size| bytes(&format!("{at}.minimumSize"), &size)).transpose()?;
    Ok(Defragmentation { fragmented_percent, minimum_size: minimum_size.unwrap_or(100 << 20) })
}

/// Parses a number of bytes: a number, or a text such as `100Mi`.
fn bytes(at: &str, value: &Value) -> Result<u64, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    quantity::bytes(&text).ok_or_else(|| format!("{at} is not a number of bytes, such as 100Mi"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Defragmentation, EtcdDocument, NoSpace, Version};

    fn read(etcd: Value) -> Result<EtcdDocument, String> {
        let Value::Object(etcd) = etcd else { panic!("not an object") };
        EtcdDocument::read(&etcd, "my-etcd")
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
        assert_eq!(document.settings.defragmentation, None);
        assert_eq!((document.settings.no_space, document.settings.quota), (NoSpace::Reclaim, None));
        assert!(document.tls_secret.is_none() && document.user_secret.is_none());
    }

    #[test]
    fn all_of_it_is_read() {
        let document = read(json!({
            "peerURL": "https://$(POD).p:2380", "clientURL": "https://$(POD).p:2379", "configMap": "map", "version": "v3.5.35",
            "tls": {"secretName": "certs"}, "auth": {"secretName": "root"}, "joinDeadline": "90s", "deadAfter": "1h30m",
            "defragmentation": {"minimumSize": "10Mi"}, "noSpace": "Report", "quotaBackendBytes": 8_589_934_592_u64,
        }))
        .unwrap();
        assert_eq!((document.settings.join_deadline, document.settings.dead_after), (90, 5400));
        assert_eq!(document.settings.version, Version::parse("3.5.35"));
        assert_eq!((&*document.config_map, document.tls_secret.as_deref()), ("map", Some("certs")));
        assert_eq!(document.user_secret.as_deref(), Some("root"));
        let expected = Defragmentation { fragmented_percent: 45, minimum_size: 10 << 20 };
        assert_eq!(document.settings.defragmentation, Some(expected));
        assert_eq!((document.settings.no_space, document.settings.quota), (NoSpace::Report, Some(8 << 30)));
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
        assert!(with("noSpace", json!("Ignore")).ends_with("it must be Reclaim or Report"));
        assert!(with("quotaBackendBytes", json!("8 GB")).starts_with("spec.etcd.quotaBackendBytes is not"));
        assert!(with("defragmentation", json!({"fragmentedPercent": 5})).ends_with("must be from 10 to 99"));
        assert!(with("tls", json!({"name": "x"})).contains("unknown field `name`"));
    }
}
