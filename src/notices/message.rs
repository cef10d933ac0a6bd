//! The words of a message. They are ours and names of objects: no message quotes a condition's text, a log or a value.

use serde_json::{Value, json};

use super::document::Notice;
use super::events::NoticeEvent;
use super::state::{Entry, Line};
use crate::plan::reasons::REASONS;

/// Bytes of a subject.
const MAX_SUBJECT: usize = 250;

/// The sender.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'s> {
    /// The namespace of the notice.
    pub namespace: &'s str,
    pub name: &'s str,
}

/// A message, whatever its target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name: the same for each attempt.
    pub id: String,
    /// The messages that it belongs to.
    pub references: Vec<String>,
    /// When it was due, in seconds since 1970.
    pub at: i64,
    /// One line.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The facts, as templates and webhooks see them.
    pub facts: Value,
}

/// A message with the result of the templates of its notice.
#[derive(Clone, Debug)]
pub struct Composed {
    pub message: Message,
    /// Why a template failed; `None` if none did, or if none was used.
    pub template_error: Option<String>,
}

/// Composes the message of an entry. The usual words replace a template that fails, and say so: a message with other words is worth more
/// than none. Without `templates`, the message has the usual words.
pub fn compose(notice: &Notice, sender: Sender<'_>, entry: &Entry, templates: bool) -> Composed {
    let facts = facts(sender, entry);
    let mut body = text(sender, entry);
    let mut template_error = None;
    let mut words = |template: Option<&super::template::Template>, field: &str| match template
        .filter(|_| templates)?
        .render(&facts)
    {
        Ok(text) => Some(text),
        Err(why) => {
            let why = format!("spec.template.{field}: {}", one_line(&why.to_string()));
            body.extend([format!("\nA template of the notice failed: {why}\n")]);
            template_error = Some(why);
            None
        }
    };
    let subject = words(notice.subject.as_ref(), "subject").unwrap_or_else(|| subject(sender, entry));
    let own = words(notice.body.as_ref(), "body");
    let message = Message {
        id: entry.id.clone(),
        references: entry.references().into_iter().map(str::to_owned).collect(),
        at: entry.due,
        subject: one_line(&subject),
        body: own.unwrap_or(body),
        facts,
    };
    Composed { message, template_error }
}

/// A message that tests a notice.
pub fn test(notice: &Notice, sender: Sender<'_>, id: String, now: i64) -> Message {
    let line = Line {
        release: "Example.example.com/test".to_owned(),
        event: NoticeEvent::Recovered,
        subject: "release".to_owned(),
        reason: "Test".to_owned(),
        about: Vec::new(),
        count: 1,
        still: false,
        thread: None,
        at: now,
    };
    compose(notice, sender, &Entry { id, due: now, lines: vec![line], more: 0 }, true).message
}

/// A text without control characters, so that no header can follow it, and not too long.
pub fn one_line(text: &str) -> String {
    let spaced =
        text.split(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}').collect::<Vec<_>>().join(" ");
    let words = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = (0..=MAX_SUBJECT.min(words.len())).rev().find(|end| words.is_char_boundary(*end)).unwrap_or(0);
    words[..end].to_owned()
}

/// `Kind.group/name` in parts.
fn parts(release: &str) -> (&str, &str, &str) {
    let (kind, name) = release.split_once('/').unwrap_or((release, ""));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    (kind, group, name)
}

/// The meaning of a reason, without links.
fn meaning(reason: &str) -> String {
    let found = REASONS.iter().find(|known| known.name == reason).map_or("", |known| known.meaning);
    // `[text](link)`
    let mut text = String::new();
    let mut rest = found;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((words, link)) = after.split_once("](") else { break };
        text.push_str(before);
        text.push_str(words);
        rest = link.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.replace('`', "")
}

fn facts(Sender { namespace, name }: Sender<'_>, entry: &Entry) -> Value {
    let line = |line: &Line| {
        let (kind, group, release) = parts(&line.release);
        json!({
            "event": line.event.name(), "bad": line.event.is_bad(), "kind": kind, "group": group, "name": release,
            "subject": line.subject, "reason": line.reason, "meaning": meaning(&line.reason), "about": line.about,
            "count": line.count, "still": line.still, "time": time(line.at),
        })
    };
    json!({
        "notice": name, "namespace": namespace, "id": entry.id, "time": time(entry.due), "count": entry.count(), "more": entry.more,
        "lines": entry.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn time(at: i64) -> String {
    jiff::Timestamp::from_second(at).map(|at| format!("{at:.0}")).unwrap_or_default()
}

/// The usual subject: the first bad news, and how much more there is.
fn subject(Sender { namespace, name }: Sender<'_>, entry: &Entry) -> String {
    let Some(first) = entry.lines.iter().find(|line| line.event.is_bad()).or(entry.lines.first()) else {
        return format!("[{namespace}] {} changes for notice {name}", entry.more);
    };
    let (kind, _, release) = parts(&first.release);
    let still = if first.still { "still " } else { "" };
    let mut text = format!("[{namespace}] {kind} {release}: {still}{}", first.event.name());
    if first.subject != "release" {
        text.extend([format!(" ({})", first.subject)]);
    } else if !first.reason.is_empty() {
        text.extend([format!(" ({})", first.reason)]);
    }
    match entry.count().saturating_sub(1) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// The usual text.
fn text(Sender { namespace, name }: Sender<'_>, entry: &Entry) -> String {
    let mut text = String::new();
    for line in &entry.lines {
        let (kind, group, release) = parts(&line.release);
        let still = if line.still { "still " } else { "" };
        text.extend([format!("{} {kind} {release}: {still}{}", time(line.at), line.event.name())]);
        if line.subject != "release" {
            text.extend([format!(", {}", line.subject)]);
        }
        if !line.reason.is_empty() {
            text.extend([format!(" ({})", line.reason)]);
        }
        if line.count > 1 {
            text.extend([format!(", {} times", line.count)]);
        }
        text.push('\n');
        if !line.about.is_empty() {
            let more = line.count.saturating_sub(line.about.len() as u64);
            let and = if more > 0 { format!(" and {more} more") } else { String::new() };
            text.extend([format!("  {}{and}\n", line.about.join(", "))]);
        }
        let meaning = meaning(&line.reason);
        if line.event.is_bad() && !meaning.is_empty() {
            text.extend([format!("  {meaning}\n")]);
        }
        if line.event.is_bad() {
            let kind = if group.is_empty() { kind.to_lowercase() } else { format!("{}.{group}", kind.to_lowercase()) };
            text.extend([format!("  kubectl -n {namespace} describe {kind} {release}\n")]);
        }
    }
    if entry.more > 0 {
        text.extend([format!("and {} more\n", entry.more)]);
    }
    text.extend([format!("\nNotice {name} in namespace {namespace}\n")]);
    text
}

#[cfg(test)]
mod tests {
    use super::{Composed, Sender, compose, meaning, one_line};
    use crate::notices::document::Notice;
    use crate::notices::events::NoticeEvent;
    use crate::notices::state::{Entry, Line};
    use serde_json::{Value, json};

    const SENDER: Sender<'_> = Sender { namespace: "shop", name: "ops" };

    fn notice(template: &Value) -> Notice {
        let smtp = json!({"host": "a.io", "from": "a@example.com", "to": ["b@example.com"]});
        Notice::read(&json!({"spec": {"target": {"smtp": smtp}, "template": template}})).unwrap()
    }

    fn entry() -> Entry {
        let line = |event, subject: &str, reason: &str, count, about: &[&str]| Line {
            release: "Web.a.io/x".into(),
            event,
            subject: subject.into(),
            reason: reason.into(),
            about: about.iter().map(|a| (*a).to_owned()).collect(),
            count,
            still: false,
            thread: Some("first".into()),
            at: 0,
        };
        let lines = vec![
            line(NoticeEvent::Installed, "release", "", 1, &[]),
            line(NoticeEvent::Failed, "release", "Invalid", 1, &[]),
            line(
                NoticeEvent::PodCrashed,
                "Deployment/w",
                "Error: container c ended with exit code 1",
                500,
                &["w-1", "w-2"],
            ),
        ];
        Entry { id: "1.0.uid".into(), due: 60, lines, more: 37 }
    }

    #[test]
    fn the_usual_words() {
        let message = compose(&notice(&json!({})), SENDER, &entry(), true).message;
        assert_eq!(message.subject, "[shop] Web x: Failed (Invalid) and 538 more");
        let expected = "1970-01-01T00:00:00Z Web x: Installed\n\
                        1970-01-01T00:00:00Z Web x: Failed (Invalid)\n  \
                        The API server refused an object; the message has its words.\n  \
                        kubectl -n shop describe web.a.io x\n\
                        1970-01-01T00:00:00Z Web x: PodCrashed, Deployment/w (Error: container c ended with exit code 1), 500 times\n  \
                        w-1, w-2 and 498 more\n  \
                        kubectl -n shop describe web.a.io x\n\
                        and 37 more\n\n\
                        Notice ops in namespace shop\n";
        assert_eq!(message.body, expected);
        assert_eq!((message.at, message.references), (60, vec!["first".to_owned()]));
    }

    #[test]
    fn own_words_and_words_that_fail() {
        let words = json!({"subject": "{{ lines[0].name }}\r\nBcc: {{ count }}", "body": "{% for l in lines %}{{ l.event }} {% endfor %}"});
        let Composed { message, template_error } = compose(&notice(&words), SENDER, &entry(), true);
        assert_eq!((message.subject.as_str(), template_error), ("x Bcc: 539", None));
        assert_eq!(message.body, "Installed Failed PodCrashed ");
        let usual = compose(&notice(&words), SENDER, &entry(), false).message;
        assert!(usual.subject.starts_with("[shop] Web x"), "{usual:?}");
        let Composed { message, template_error } =
            compose(&notice(&json!({"subject": "{{ a.b.c }}"})), SENDER, &entry(), true);
        assert!(message.subject.starts_with("[shop] Web x"));
        assert!(message.body.contains("A template of the notice failed: spec.template.subject: "), "{}", message.body);
        assert!(template_error.is_some_and(|why| why.starts_with("spec.template.subject: ")));
    }

    #[test]
    fn a_subject_is_one_line() {
        assert_eq!(one_line("a\r\nBcc: b\u{2028}\0c "), "a Bcc: b c");
        assert_eq!(one_line(&"ä".repeat(300)).len(), 250);
    }

    #[test]
    fn a_meaning_has_no_links() {
        let text = meaning("QuorumLost");
        assert!(text.ends_with("See etcd.") && !text.contains('['), "{text}");
        assert_eq!(meaning("unheard of"), "");
    }
}
