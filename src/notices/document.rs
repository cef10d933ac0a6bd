//! The content of a notice.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::error::NoticeError;
use super::events::{EVENTS, NoticeEvent};
use super::mail;
use super::template::Template;
use super::webhook::Url;
use crate::bounds;
use crate::kind::duration;

/// Bytes of a subject's template, and of a body's.
pub const MAX_SUBJECT: usize = 512;
/// See [`MAX_SUBJECT`].
pub const MAX_BODY: usize = 8 << 10;
/// Recipients, events, names, kinds and labels: each.
pub const MAX_LIST: usize = 50;
/// Bytes of one name.
pub const MAX_NAME: usize = 253;
/// Bytes of a link.
pub const MAX_URL: usize = 2048;

/// The content of `spec`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The custom resources of this namespace that it covers; without it, all of them.
    #[serde(default)]
    pub selector: Selector,
    /// Names of events; without it, those that docs/how-to/notices.md marks.
    #[serde(default)]
    pub events: Vec<String>,
    /// Where the messages go: one of smtp and webhook.
    pub target: NoticeTarget,
    /// The words of the messages.
    #[serde(default)]
    pub template: Words,
    /// Events within this time of the first event are in one message. 30s by default, at most 1h.
    pub window: Option<String>,
    /// A problem that lasts is reported again after this time. 4h by default; 0 for never.
    pub repeat: Option<String>,
    /// The maximum number of messages in an hour. Further events wait for one message. 30 by default, at most 100.
    pub max_per_hour: Option<u32>,
}

/// Which custom resources. Each field that is there must match.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// Kinds, such as Web, or Web.apps.example.com.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Names of custom resources.
    #[serde(default)]
    pub names: Vec<String>,
    /// Labels that they have.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Where messages go.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoticeTarget {
    /// A mail server.
    pub smtp: Option<Smtp>,
    /// A receiver of HTTP.
    pub webhook: Option<Webhook>,
}

/// A mail server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Smtp {
    /// Its name, which its certificate must have.
    pub host: String,
    /// 587 by default; 465 with tls.
    pub port: Option<u16>,
    /// starttls (the default), tls from the first byte, or none.
    #[serde(default)]
    pub tls: SmtpTls,
    /// The sender's address.
    pub from: String,
    /// The recipients' addresses.
    pub to: Vec<String>,
    /// The login.
    pub auth: Option<Auth>,
    /// The Secret of this namespace whose key ca.crt has the authority of the server's certificate, besides those of the system.
    pub ca_secret: Option<String>,
}

/// The login at a server of mail.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    /// The Secret of this namespace with username and password. Its annotation tillerman.dev/notice-hosts must name the host.
    pub secret_name: String,
}

/// How a connection to a server of mail is encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    /// After a greeting in plain text. A server that does not offer it gets no message.
    #[default]
    Starttls,
    /// From the first byte.
    Tls,
    /// Not at all.
    None,
}

/// A receiver of HTTP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhook {
    /// Its link, https://. Or urlSecret.
    pub url: Option<String>,
    /// The Secret of this namespace with the link in its key url. Its annotation tillerman.dev/notice-hosts must name the host.
    pub url_secret: Option<String>,
    /// json (the default), slack, teams, discord or alertmanager.
    #[serde(default)]
    pub format: WebhookFormat,
    /// The Secret of this namespace whose key key signs each message. Its annotation tillerman.dev/notice-hosts must name the host.
    pub hmac_secret: Option<String>,
    /// The Secret of this namespace whose key ca.crt has the authority of the server's certificate, besides those of the system.
    pub ca_secret: Option<String>,
    /// required (the default), or none, which allows http://.
    #[serde(default)]
    pub tls: WebhookTls,
}

/// Whether a link must be encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WebhookTls {
    /// It must.
    #[default]
    Required,
    /// It need not.
    None,
}

/// The format of messages to a webhook.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum WebhookFormat {
    #[default]
    Json,
    Slack,
    Teams,
    Discord,
    Alertmanager,
}

/// Templates.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Words {
    /// Of the subject.
    pub subject: Option<String>,
    /// Of the body.
    pub body: Option<String>,
}

/// A notice that can be carried out.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Which custom resources.
    pub selector: Selector,
    /// Which events.
    pub events: BTreeSet<NoticeEvent>,
    /// Where messages go.
    pub target: Goal,
    /// The subject's words, if they are not the usual ones.
    pub subject: Option<Template>,
    /// The body's.
    pub body: Option<Template>,
    /// Seconds in which changes become one message.
    pub window: i64,
    /// Seconds after which what lasts is reported again; 0 for never.
    pub repeat: i64,
    /// Messages in an hour.
    pub cap: usize,
}

/// Where messages go, checked.
#[derive(Clone, Debug)]
pub enum Goal {
    /// A server of mail, and its port.
    Smtp(Box<Smtp>, u16),
    /// A receiver of HTTP.
    Webhook(Box<Webhook>),
}

impl Goal {
    /// How many get each message.
    pub fn recipients(&self) -> usize {
        match self {
            Self::Smtp(smtp, _) => smtp.to.len(),
            Self::Webhook(_) => 1,
        }
    }

    /// Its kind, for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Smtp(..) => "smtp",
            Self::Webhook(_) => "webhook",
        }
    }
}

impl Notice {
    /// Reads a notice.
    ///
    /// # Errors
    /// The field that is wrong, and its allowed values.
    pub fn read(object: &Value) -> Result<Self, String> {
        let spec = object.get("spec").cloned().unwrap_or(Value::Null);
        bounds::NOTICE.value(&spec).map_err(|why| format!("spec: {why}"))?;
        let spec: Spec = serde_json::from_value(spec).map_err(|e| format!("spec: {e}"))?;
        let seconds = |field: &str, text: Option<&str>, default: &str, most: u64| {
            let text = text.unwrap_or(default);
            let read = duration::parse(text).map_err(|e| format!("spec.{field}: {e}"))?.as_secs();
            if read > most {
                return Err(format!("spec.{field}: it is longer than {most} seconds"));
            }
            i64::try_from(read).map_err(|e| format!("spec.{field}: {e}"))
        };
        bounded(&spec)?;
        let mut events = BTreeSet::new();
        for name in &spec.events {
            let event = NoticeEvent::parse(name).ok_or_else(|| {
                let names: Vec<&str> = EVENTS[..EVENTS.len() - 1].iter().map(|known| known.name).collect();
                format!("spec.events: {name:?} must be one of {}", names.join(", "))
            })?;
            events.insert(event);
        }
        if events.is_empty() {
            events.extend(EVENTS.iter().filter(|known| known.by_default).map(|known| known.event));
        }
        let template = |field: &str, text: Option<&String>, most: usize| {
            text.map(|text| Template::read(text, most).map_err(|e| format!("spec.template.{field}: {e}"))).transpose()
        };
        Ok(Self {
            window: seconds("window", spec.window.as_deref(), "30s", 3600)?,
            repeat: seconds("repeat", spec.repeat.as_deref(), "4h", 30 * 24 * 3600)?,
            cap: match spec.max_per_hour.unwrap_or(30) {
                count @ 1..=100 => count as usize,
                _ => return Err("spec.maxPerHour: it must be from 1 to 100".to_owned()),
            },
            subject: template("subject", spec.template.subject.as_ref(), MAX_SUBJECT)?,
            body: template("body", spec.template.body.as_ref(), MAX_BODY)?,
            target: goal(spec.target)?,
            selector: spec.selector,
            events,
        })
    }

    /// Whether it is about pods.
    pub fn needs_pods(&self) -> bool {
        self.events.iter().any(|event| event.is_of_pods())
    }

    /// Whether it is about an event. The end of a reported problem is always reported.
    pub fn wants(&self, event: NoticeEvent) -> bool {
        event == NoticeEvent::Recovered || self.events.contains(&event)
    }
}

impl Selector {
    /// Whether a custom resource is meant.
    pub fn matches<'l>(&self, kind: &str, group: &str, name: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let is_kind = |wanted: &String| match wanted.split_once('.') {
            Some((wanted, of)) => wanted == kind && of == group,
            None => wanted == kind,
        };
        (self.kinds.is_empty() || self.kinds.iter().any(is_kind))
            && (self.names.is_empty() || self.names.iter().any(|wanted| wanted == name))
            && self.labels.iter().all(|(key, value)| label(key) == Some(value))
    }
}

/// Checks the sizes, also where the API server did not.
fn bounded(spec: &Spec) -> Result<(), NoticeError> {
    let Selector { kinds, names, labels } = &spec.selector;
    for (field, count) in [
        ("events", spec.events.len()),
        ("selector.kinds", kinds.len()),
        ("selector.names", names.len()),
        ("selector.labels", labels.len()),
    ] {
        if count > MAX_LIST {
            return Err(format!("spec.{field}: it has {count} entries; the limit is {MAX_LIST}").into());
        }
    }
    Ok(())
}

fn goal(target: NoticeTarget) -> Result<Goal, NoticeError> {
    match target {
        NoticeTarget { smtp: Some(smtp), webhook: None } => {
            let field = "spec.target.smtp";
            if !is_host(&smtp.host) {
                return Err(format!("{field}.host: it is not the name of a host").into());
            }
            if smtp.to.is_empty() || smtp.to.len() > MAX_LIST {
                return Err(format!("{field}.to: give from 1 to {MAX_LIST} addresses").into());
            }
            mail::address(&smtp.from).map_err(|e| format!("{field}.from: {e}"))?;
            for to in &smtp.to {
                mail::address(to).map_err(|e| format!("{field}.to: {e}"))?;
            }
            if smtp.auth.is_some() && smtp.tls == SmtpTls::None {
                return Err(format!(
                    "{field}.auth: the password would be sent unencrypted; set tls to starttls or tls"
                )
                .into());
            }
            let port = smtp.port.unwrap_or(if smtp.tls == SmtpTls::Tls { 465 } else { 587 });
            Ok(Goal::Smtp(Box::new(smtp), port))
        }
        NoticeTarget { smtp: None, webhook: Some(webhook) } => {
            let field = "spec.target.webhook";
            match (&webhook.url, &webhook.url_secret) {
                (Some(url), None) => drop(Url::read(url, webhook.tls).map_err(|e| format!("{field}.url: {e}"))?),
                (None, Some(_)) => {}
                _ => return Err(format!("{field}: give one of url and urlSecret").into()),
            }
            Ok(Goal::Webhook(Box::new(webhook)))
        }
        _ => Err("spec.target: give one of smtp and webhook".into()),
    }
}

/// Whether a text can be the name or the address of a host: a command or a header can contain nothing else.
pub fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':'))
}

#[cfg(test)]
mod tests {
    use super::Notice;
    use crate::notices::events::NoticeEvent;
    use serde_json::{Value, json};

    fn read(spec: &Value) -> Result<Notice, String> {
        Notice::read(&json!({"spec": spec}))
    }

    fn smtp(more: &Value) -> Value {
        let mut smtp = json!({"host": "mail.example.com", "from": "a@example.com", "to": ["b@example.com"]});
        smtp.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"smtp": smtp})
    }

    #[test]
    fn a_notice_has_defaults() {
        let notice = read(&json!({"target": smtp(&json!({}))})).unwrap();
        assert_eq!((notice.window, notice.repeat, notice.cap), (30, 4 * 3600, 30));
        assert!(
            notice.wants(NoticeEvent::Failed)
                && notice.wants(NoticeEvent::Recovered)
                && !notice.wants(NoticeEvent::PodStarted)
        );
        assert!(!notice.needs_pods());
        assert!(notice.selector.matches("Web", "a.io", "x", |_| None));
    }

    #[test]
    fn a_selector_needs_all_of_its_fields() {
        let selector = json!({"kinds": ["Web.a.io", "Other"], "labels": {"a": "b"}});
        let notice =
            read(&json!({"target": smtp(&json!({})), "selector": selector, "events": ["PodStarted"]})).unwrap();
        assert!(notice.needs_pods() && !notice.wants(NoticeEvent::Failed));
        let label = |key: &str| (key == "a").then_some("b");
        assert!(notice.selector.matches("Web", "a.io", "x", label));
        assert!(notice.selector.matches("Other", "b.io", "x", label));
        assert!(!notice.selector.matches("Web", "b.io", "x", label));
        assert!(!notice.selector.matches("Web", "a.io", "x", |_| None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        let long = "x".repeat(9000);
        for (spec, part) in [
            (json!({}), "spec: missing field `target`"),
            (json!({"target": {}}), "spec.target: give one of"),
            (
                json!({"target": smtp(&json!({})), "events": ["Faild"]}),
                "spec.events: \"Faild\" must be one of Installed",
            ),
            (json!({"target": smtp(&json!({})), "events": ["Recovered"]}), "spec.events"),
            (json!({"target": smtp(&json!({})), "window": "2h"}), "spec.window"),
            (json!({"target": smtp(&json!({})), "window": "soon"}), "spec.window: invalid duration"),
            (json!({"target": smtp(&json!({})), "maxPerHour": 0}), "spec.maxPerHour"),
            (json!({"target": smtp(&json!({"host": "a b"}))}), "spec.target.smtp.host"),
            (json!({"target": smtp(&json!({"from": "a@b.c>\r\nRCPT TO:<x@y.z"}))}), "spec.target.smtp.from"),
            (json!({"target": smtp(&json!({"to": []}))}), "spec.target.smtp.to"),
            (json!({"target": smtp(&json!({"to": ["nobody"]}))}), "spec.target.smtp.to"),
            (
                json!({"target": smtp(&json!({"tls": "none", "auth": {"secretName": "a"}}))}),
                "password would be sent unencrypted",
            ),
            (
                json!({"target": {"webhook": {"url": "http://a.io"}}}),
                "spec.target.webhook.url: it does not begin with https://",
            ),
            (
                json!({"target": {"webhook": {"url": "https://a.io", "urlSecret": "b"}}}),
                "give one of url and urlSecret",
            ),
            (json!({"target": smtp(&json!({})), "template": {"body": long}}), "spec.template.body: it has 9000 bytes"),
            (json!({"target": smtp(&json!({})), "template": {"body": "{{ a"}}), "spec.template.body"),
        ] {
            let said = read(&spec).map(drop).expect_err(&spec.to_string());
            assert!(said.contains(part), "{spec}: {said}");
        }
    }
}
