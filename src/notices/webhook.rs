//! A message as the body of a request.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Uri;
use serde_json::{Value, json};
use sha2::Sha256;

use super::document::{MAX_URL, WebhookFormat, WebhookTls, is_host};
use super::message::Message;

/// The header with the name of a message: the same for each attempt.
pub const KEY: &str = "idempotency-key";
/// The header with the signature of the body.
pub const SIGNATURE: &str = "x-tillerman-signature-256";

/// Characters of a text that a chat takes. Discord takes 2000.
const MAX_CHAT: usize = 1900;

/// A link in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https://`.
    pub secure: bool,
    /// The name of the host, or its address.
    pub host: String,
    pub port: u16,
    /// The path and the query.
    pub path: String,
}

impl Url {
    /// Reads a link. The error does not quote it: it may be secret.
    ///
    /// # Errors
    /// The fault.
    pub fn read(text: &str, tls: WebhookTls) -> Result<Self, String> {
        if text.len() > MAX_URL || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!("it has more than {MAX_URL} bytes, or one that is not allowed in a link"));
        }
        let uri: Uri = text.parse().map_err(|_| "it is not a link".to_owned())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if tls == WebhookTls::None => false,
            _ => return Err("it does not begin with https://; with tls: none it may begin with http://".to_owned()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or("it has no host, or a user")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if !is_host(host) {
            return Err("its host is not a name or an address".to_owned());
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() != authority.host() => return Err("its port is not a number".to_owned()),
            None if secure => 443,
            None => 80,
        };
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(Self { secure, host: host.to_owned(), port, path })
    }

    /// The header `Host`.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.secure { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// The body of a request.
pub fn body(message: &Message, format: WebhookFormat) -> Vec<u8> {
    let Message { subject, body, facts, .. } = message;
    let chat = || {
        let text: String = body.chars().take(MAX_CHAT - subject.chars().count().min(300)).collect();
        (subject.as_str(), text)
    };
    let value = match format {
        WebhookFormat::Json => {
            let mut all = facts.clone();
            all["subject"] = subject.as_str().into();
            all["body"] = body.as_str().into();
            all["references"] = message.references.clone().into();
            all
        }
        WebhookFormat::Slack => {
            let (subject, text) = chat();
            // `&`, `<` and `>` are Slack's: `<!channel>` would call everybody.
            let plain = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            json!({"text": format!("*{}*\n{}", plain(subject), plain(&text))})
        }
        WebhookFormat::Discord => {
            let (subject, text) = chat();
            json!({"content": format!("**{subject}**\n{text}"), "allowed_mentions": {"parse": []}})
        }
        WebhookFormat::Teams => {
            let (subject, text) = chat();
            let block =
                |text: &str, weight: &str| json!({"type": "TextBlock", "text": text, "weight": weight, "wrap": true});
            let card = json!({"type": "AdaptiveCard", "version": "1.4", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "body": [block(subject, "Bolder"), block(&text, "Default")]});
            json!({"type": "message",
                "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]})
        }
        WebhookFormat::Alertmanager => alerts(facts),
    };
    value.to_string().into_bytes()
}

/// The body of `POST /api/v2/alerts` of Alertmanager. An alert that is over has an end.
fn alerts(facts: &Value) -> Value {
    let lines = facts["lines"].as_array().map_or(&[][..], Vec::as_slice);
    let alert = |line: &Value| {
        let over = line["event"] == "Recovered";
        let mut alert = json!({
            // The same for the beginning and the end, by which Alertmanager knows them to be one.
            "labels": {"alertname": "TillermanNotice", "namespace": facts["namespace"], "kind": line["kind"], "name": line["name"],
                "subject": line["subject"], "notice": facts["notice"]},
            "annotations": {"event": line["event"], "reason": line["reason"], "summary": line["meaning"], "count": line["count"].to_string()},
            "startsAt": line["time"],
        });
        if over {
            alert["endsAt"] = line["time"].clone();
        }
        alert
    };
    lines.iter().map(alert).collect()
}

/// The signature of a body: `sha256=` and HMAC in hexadecimal digits, as GitHub has it.
pub fn signature(key: &[u8], body: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|e| e.to_string())?;
    mac.update(body);
    Ok(format!("sha256={}", data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::{Url, body, signature};
    use crate::notices::document::{WebhookFormat, WebhookTls};
    use crate::notices::message::Message;
    use serde_json::{Value, json};

    #[test]
    fn links_are_read_and_what_could_mislead_is_refused() {
        let read = |text| Url::read(text, WebhookTls::Required);
        for (text, host, port, path, authority) in [
            ("https://a.io", "a.io", 443, "/", "a.io"),
            ("https://a.io:8443/x?y=z#f", "a.io", 8443, "/x?y=z", "a.io:8443"),
            ("https://[::1]:1/x", "::1", 1, "/x", "[::1]:1"),
            ("https://a.io?x", "a.io", 443, "/?x", "a.io"),
        ] {
            let url = read(text).unwrap();
            assert_eq!((&*url.host, url.port, &*url.path, &*url.authority()), (host, port, path, authority), "{text}");
        }
        for text in [
            "http://a.io",
            "https://",
            "https://a@b.io",
            "https://a:b@c.io/",
            "https://a.io:x",
            "https://a.io/\r\nx",
            "https://::1/",
            "ftp://a",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(!Url::read("http://a.io", WebhookTls::None).unwrap().secure);
    }

    #[test]
    fn each_format_is_what_its_server_takes() {
        let line = json!({"event": "Recovered", "kind": "Web", "name": "x", "subject": "release", "reason": "", "meaning": "", "count": 2,
            "time": "t"});
        let message = Message {
            id: "i".into(),
            references: vec![],
            at: 0,
            subject: "<!channel> S".into(),
            body: "B".repeat(5000),
            facts: json!({"namespace": "n", "notice": "o", "lines": [line]}),
        };
        let of = |format| serde_json::from_slice::<Value>(&body(&message, format)).unwrap();
        assert_eq!(of(WebhookFormat::Json)["subject"], "<!channel> S");
        assert!(of(WebhookFormat::Slack)["text"].as_str().unwrap().starts_with("*&lt;!channel&gt; S*\nB"));
        assert!(of(WebhookFormat::Discord)["content"].as_str().unwrap().chars().count() <= 2000);
        assert_eq!(of(WebhookFormat::Teams)["attachments"][0]["content"]["body"][0]["weight"], "Bolder");
        let alert = &of(WebhookFormat::Alertmanager)[0];
        assert_eq!((&alert["endsAt"], &alert["labels"]["name"]), (&json!("t"), &json!("x")));
    }

    #[test]
    fn a_signature_is_that_of_rfc_4231() {
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signature(b"Jefe", b"what do ya want for nothing?").unwrap(), expected);
    }
}
