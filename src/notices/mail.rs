//! A message as mail.

use std::time::{Duration, UNIX_EPOCH};

use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};

use super::document::Smtp;
use super::message::Message;

/// The domain of each `Message-ID`; the part before it is the name of the message.
const DOMAIN: &str = "notices.tillerman.dev";

/// Reads an address: `a@example.com`, or with a name, `Operators <a@example.com>`.
///
/// # Errors
/// Why the text is not an address.
pub fn address(text: &str) -> Result<Mailbox, String> {
    if text.len() > 320 || text.chars().any(char::is_control) {
        return Err("it is too long, or has a control character".to_owned());
    }
    let mailbox: Mailbox = text.parse().map_err(|e| format!("{text:?} is not an address of mail: {e}"))?;
    // A quoted address may contain any character.
    if mailbox.email.to_string().chars().any(|c| c.is_whitespace() || matches!(c, '<' | '>' | '"' | ',' | ';')) {
        return Err(format!("{text:?} is an address of mail with characters that are not allowed here"));
    }
    Ok(mailbox)
}

/// The `Message-ID` of a message.
pub fn message_id(id: &str) -> String {
    format!("<{id}@{DOMAIN}>")
}

/// The bytes of a message, with its sender and recipients. They are the same for each attempt.
///
/// # Errors
/// The address or the part of the message that cannot be written.
pub fn mail(message: &Message, smtp: &Smtp) -> Result<(Envelope, Vec<u8>), String> {
    let from = address(&smtp.from)?;
    let mut builder: MessageBuilder = lettre::Message::builder()
        .from(from)
        .subject(message.subject.clone())
        .message_id(Some(message_id(&message.id)))
        .date(UNIX_EPOCH + Duration::from_secs(u64::try_from(message.at).unwrap_or(0)));
    for to in &smtp.to {
        builder = builder.to(address(to)?);
    }
    if let Some(first) = message.references.first() {
        let all: Vec<String> = message.references.iter().map(|id| message_id(id)).collect();
        builder = builder.in_reply_to(message_id(first)).references(all.join(" "));
    }
    // RFC 3834: programs that answer mail, such as vacation replies, do not answer this.
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned())).header(ContentType::TEXT_PLAIN);
    let built = builder.body(message.body.clone()).map_err(|e| format!("the message cannot be written: {e}"))?;
    Ok((built.envelope().clone(), built.formatted()))
}

#[cfg(test)]
mod tests {
    use super::{address, mail};
    use crate::notices::document::Smtp;
    use crate::notices::message::Message;
    use serde_json::json;

    #[test]
    fn a_message_is_mail_and_the_same_each_time() {
        let to = ["Ops <ops@example.com>", "b@example.com"];
        let smtp: Smtp =
            serde_json::from_value(json!({"host": "a.io", "from": "tillerman@example.com", "to": to})).unwrap();
        let message = Message {
            id: "1.2.uid".into(),
            references: vec!["1.0.uid".into(), "1.1.uid".into()],
            at: 86400,
            subject: "Größe".into(),
            body: "a\n.\nb ü\n".into(),
            facts: json!({}),
        };
        let (envelope, bytes) = mail(&message, &smtp).unwrap();
        assert_eq!(mail(&message, &smtp).unwrap().1, bytes);
        assert_eq!(envelope.to().len(), 2);
        let text = String::from_utf8(bytes).unwrap();
        for part in [
            "Message-ID: <1.2.uid@notices.tillerman.dev>\r\n",
            "References: <1.0.uid@notices.tillerman.dev> <1.1.uid@notices.tillerman.dev>\r\n",
            "In-Reply-To: <1.0.uid@notices.tillerman.dev>\r\n",
            "Date: Fri, 02 Jan 1970 00:00:00 +0000\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "Subject: =?utf-8?b?R3LDtsOfZQ==?=\r\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn an_address_holds_nothing_else() {
        for text in ["", "a", "a@b.c\r\nRCPT TO:<x@y.z>", "a@b.c>, <x@y.z", "\"a b\"@c.d", "a@b.c, d@e.f", "a@b c"] {
            assert!(address(text).is_err(), "{text:?}");
        }
        assert_eq!(address("A B <a@example.com>").unwrap().email.to_string(), "a@example.com");
    }
}
