//! `spec.primary` of a Members document: docs/how-to/primary.md#charts.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::state::{OnDiverged, OnReplicaLost, PrimarySettings};
use crate::kind::dns;
use crate::kind::duration;
use crate::members::url::Pattern;
use crate::names;

/// Label of the `ConfigMap` from which members take their roles. Its value is the name of the release.
pub const LABEL: &str = names::MEMBER_ROLES;

/// The most acknowledgements that a commit may wait for.
const MAX_ACKS: u32 = 9;
/// The shortest silence after which a primary may count as lost, in seconds: an agent answers within two seconds, also when the
/// database hangs.
const SHORTEST_SILENCE: i64 = 3;
/// The longest URL.
const MAX_URL: usize = 512;

/// The content of `spec.primary`.
#[derive(Clone, Debug)]
pub struct PrimaryDocument {
    /// The settings that decisions depend on.
    pub settings: PrimarySettings,
    /// The `ConfigMap` that containers take `PRIMARY`, `EPOCH`, `ACKS` and `DATA` from. It belongs to the driver.
    pub config_map: String,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`; `None` for agents of `http`.
    pub tls_secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(rename = "agentURL")]
    agent_url: String,
    config_map: Option<String>,
    tls: Option<SecretName>,
    acks: Option<u32>,
    lost_after: Option<String>,
    silent_after: Option<String>,
    dead_after: Option<String>,
    lag: Option<String>,
    on_replica_lost: Option<String>,
    on_diverged: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretName {
    secret_name: String,
}

impl PrimaryDocument {
    /// Reads `spec.primary` for the StatefulSet of this name. The error says what is wrong.
    pub fn read(primary: &Map<String, Value>, stateful_set: &str) -> Result<Self, String> {
        let raw: Raw = serde_json::from_value(Value::Object(primary.clone()))
            .map_err(|error| format!("spec.primary: {}", bounded(&error.to_string())))?;
        let agent_url = agent_url(&raw.agent_url, stateful_set)?;
        let secure = raw.agent_url.starts_with("https://");
        let tls_secret = raw.tls.map(|secret| secret.secret_name);
        match (&tls_secret, secure) {
            (None, true) => {
                return Err(
                    "spec.primary.tls is missing: name the Secret with the certificates for agentURL".to_owned()
                );
            }
            (Some(_), false) => return Err("spec.primary.tls is only for an agentURL of https".to_owned()),
            _ => {}
        }
        let config_map = raw.config_map.unwrap_or_else(|| format!("{stateful_set}-roles"));
        let names = [("tls.secretName", tls_secret.as_deref()), ("configMap", Some(&*config_map))];
        if let Some((key, _)) = names.into_iter().find(|(_, name)| name.is_some_and(|name| !dns::is_subdomain(name))) {
            return Err(format!("spec.primary.{key} is not the name of an object"));
        }
        let acks = raw.acks.unwrap_or(1);
        if !(1..=MAX_ACKS).contains(&acks) {
            return Err(format!("spec.primary.acks is not from 1 to {MAX_ACKS}"));
        }
        let silence = |key: &str, text: Option<String>, default| {
            let found = seconds(key, text.as_deref(), default)?;
            if found >= SHORTEST_SILENCE {
                return Ok(found);
            }
            Err(format!("spec.primary.{key} is shorter than {SHORTEST_SILENCE}s, in which an agent may take to answer"))
        };
        let settings = PrimarySettings {
            agent_url,
            acks,
            lost_after: silence("lostAfter", raw.lost_after, 6)?,
            silent_after: silence("silentAfter", raw.silent_after, 30)?,
            dead_after: seconds("deadAfter", raw.dead_after.as_deref(), 600)?,
            #[expect(clippy::cast_precision_loss, reason = "a century has few seconds")]
            lag: seconds("lag", raw.lag.as_deref(), 10)? as f64,
            on_replica_lost: match raw.on_replica_lost.as_deref() {
                None | Some("Block") => OnReplicaLost::Block,
                Some("Degrade") => OnReplicaLost::Degrade,
                Some(other) => return Err(unknown("onReplicaLost", other, "Block or Degrade")),
            },
            on_diverged: match raw.on_diverged.as_deref() {
                None | Some("Reseed") => OnDiverged::Reseed,
                Some("Keep") => OnDiverged::Keep,
                Some(other) => return Err(unknown("onDiverged", other, "Reseed or Keep")),
            },
        };
        Ok(Self { settings, config_map, tls_secret })
    }
}

/// The URL of the agents has a scheme, a host that distinguishes the pods, and perhaps a port: the contract has the paths, and
/// replicas reach the database at the same host.
fn agent_url(text: &str, stateful_set: &str) -> Result<Pattern, String> {
    if text.len() > MAX_URL {
        return Err(format!("spec.primary.agentURL has more than {MAX_URL} bytes"));
    }
    // The text may have a password, so it is not repeated.
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
        return Err("spec.primary.agentURL has more than a scheme, a host and a port".to_owned());
    }
    let pattern = Pattern::new(text, stateful_set).map_err(|why| format!("spec.primary.agentURL: {why}"))?;
    // An IPv6 address can be the whole host, in brackets.
    let port = rest.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    match pattern.url(0).parse::<http::Uri>() {
        Ok(_) if is_port => Ok(pattern),
        _ => Err(format!("spec.primary.agentURL: {text:?} is not a URL")),
    }
}

fn seconds(key: &str, text: Option<&str>, default: i64) -> Result<i64, String> {
    let Some(text) = text else { return Ok(default) };
    let found = duration::parse(text).map_err(|why| format!("spec.primary.{key}: {why}"))?;
    Ok(i64::try_from(found.as_secs()).unwrap_or(i64::MAX / 4))
}

fn unknown(key: &str, given: &str, choice: &str) -> String {
    format!("spec.primary.{key} {:?} is unknown; it is {choice}", bounded(given))
}

/// The part of a text that a message repeats.
fn bounded(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{OnDiverged, OnReplicaLost, PrimaryDocument};

    fn read(primary: Value) -> Result<PrimaryDocument, String> {
        let Value::Object(primary) = primary else { panic!("not an object") };
        PrimaryDocument::read(&primary, "db")
    }

    #[test]
    fn a_url_is_enough() {
        let document = read(json!({"agentURL": "http://$(POD).db-members.ns.svc:7360"})).unwrap();
        let settings = &document.settings;
        assert_eq!(settings.agent_url.url(2), "http://db-2.db-members.ns.svc:7360");
        assert_eq!(settings.agent_url.host(2), "db-2.db-members.ns.svc");
        assert_eq!((settings.acks, settings.lost_after, settings.silent_after, settings.dead_after), (1, 6, 30, 600));
        assert_eq!((settings.on_replica_lost, settings.on_diverged), (OnReplicaLost::Block, OnDiverged::Reseed));
        assert_eq!((&*document.config_map, document.tls_secret), ("db-roles", None));
    }

    #[test]
    fn all_of_it_is_read() {
        let document = read(json!({
            "agentURL": "https://$(POD).m:7360", "configMap": "map", "tls": {"secretName": "certs"}, "acks": 2,
            "lostAfter": "10s", "silentAfter": "1m", "deadAfter": "1h", "lag": "5s",
            "onReplicaLost": "Degrade", "onDiverged": "Keep",
        }))
        .unwrap();
        let settings = &document.settings;
        assert_eq!((settings.acks, settings.lost_after, settings.silent_after, settings.dead_after), (2, 10, 60, 3600));
        assert_eq!((settings.on_replica_lost, settings.on_diverged), (OnReplicaLost::Degrade, OnDiverged::Keep));
        assert!((settings.lag - 5.0).abs() < f64::EPSILON);
        assert_eq!((&*document.config_map, document.tls_secret.as_deref()), ("map", Some("certs")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |more: Value| {
            let mut all = json!({"agentURL": "http://$(POD).m:7360"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(all).unwrap_err()
        };
        let long = format!("http://$(POD).{}", "a".repeat(600));
        let table = [
            (read(json!({})).unwrap_err(), "spec.primary: missing field `agentURL`"),
            (with(json!({"acks": 0})), "spec.primary.acks is not from 1 to 9"),
            (with(json!({"acks": 10})), "spec.primary.acks is not from 1 to 9"),
            (with(json!({"ack": 1})), "spec.primary: unknown field `ack`"),
            (with(json!({"acks": -1})), "spec.primary: invalid value: integer `-1`, expected u32"),
            (with(json!({"lostAfter": "1s"})), "spec.primary.lostAfter is shorter than 3s"),
            (with(json!({"silentAfter": "0"})), "spec.primary.silentAfter is shorter than 3s"),
            (with(json!({"deadAfter": "soon"})), "spec.primary.deadAfter: invalid duration \"soon\""),
            (
                with(json!({"onReplicaLost": "Panic"})),
                "spec.primary.onReplicaLost \"Panic\" is unknown; it is Block or Degrade",
            ),
            (with(json!({"onDiverged": ""})), "spec.primary.onDiverged \"\" is unknown; it is Reseed or Keep"),
            (with(json!({"configMap": "A b"})), "spec.primary.configMap is not the name of an object"),
            (with(json!({"tls": {"secretName": "a"}})), "spec.primary.tls is only for an agentURL of https"),
            (
                with(json!({"agentURL": "https://$(POD).m:1", "tls": {"secretName": "../a"}})),
                "spec.primary.tls.secretName is not the name of an object",
            ),
            (with(json!({"agentURL": "https://$(POD).m:1"})), "spec.primary.tls is missing"),
            (with(json!({"agentURL": "http://db:1"})), "spec.primary.agentURL: the host of \"http://db:1\" must have"),
            (with(json!({"agentURL": "ftp://$(POD).m"})), "spec.primary.agentURL: \"ftp://$(POD).m\" is not a URL"),
            (with(json!({"agentURL": long})), "spec.primary.agentURL has more than 512 bytes"),
            (
                with(json!({"agentURL": "http://$(POD).m:99999999"})),
                "spec.primary.agentURL: \"http://$(POD).m:99999999\"",
            ),
        ];
        for (error, begin) in table {
            assert!(error.starts_with(begin), "{error}, and not {begin}");
        }
        for url in ["$(POD).m:1/x", "$(POD).m:1?x", "$(POD).m:1#x", "$(POD).m:1 x", "u:p@$(POD).m:1"] {
            let error = with(json!({"agentURL": format!("http://{url}")}));
            assert_eq!(error, "spec.primary.agentURL has more than a scheme, a host and a port");
        }
    }
}
