//! The pages as HTML.
//!
//! All texts pass one formatter, which cuts long ones, removes characters that change the direction of a line, and escapes markup.

use minijinja::value::{Serde, Value as Any};
use minijinja::{Environment, Error, Output, State, context, escape_formatter};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::address::{ReleaseName, ReleaseScreen, Subject, encoded};
use super::fleet::{FleetFilter, FleetPage};
use super::sides::sides;
use super::source::{Fleet, ReleaseData};
use super::times;

/// The stylesheet.
pub const STYLE: &str = include_str!("templates/style.css");
/// The script, without which the pages work too.
pub const SCRIPT: &str = include_str!("templates/script.js");
pub const ICON: &str = include_str!("templates/icon.svg");

const TEMPLATES: [(&str, &str); 14] = [
    ("base.html", include_str!("templates/base.html")),
    ("macros.html", include_str!("templates/macros.html")),
    ("fleet.html", include_str!("templates/fleet.html")),
    ("release.html", include_str!("templates/release.html")),
    ("status.html", include_str!("templates/status.html")),
    ("next.html", include_str!("templates/next.html")),
    ("history.html", include_str!("templates/history.html")),
    ("revision.html", include_str!("templates/revision.html")),
    ("values.html", include_str!("templates/values.html")),
    ("members.html", include_str!("templates/members.html")),
    ("operations.html", include_str!("templates/operations.html")),
    ("rollouts.html", include_str!("templates/rollouts.html")),
    ("operator.html", include_str!("templates/operator.html")),
    ("message.html", include_str!("templates/message.html")),
];

/// The longest text in a page, in characters.
const LONGEST: usize = 4000;
/// The lines of a tree that a page shows.
const MOST_NODES: usize = 1000;
/// The items of any list that a page shows.
const MOST_ITEMS: usize = 500;
/// The lines of all differences of a page.
const MOST_CHANGED_LINES: usize = 6000;

/// The screens of a release, with the end of their addresses.
const TABS: [(ReleaseScreen, &str, &str); 6] = [
    (ReleaseScreen::Status, "Status", ""),
    (ReleaseScreen::Members, "Members", "/members"),
    (ReleaseScreen::Operations, "Operations", "/operations"),
    (ReleaseScreen::Next, "Next pass", "/next"),
    (ReleaseScreen::History, "History", "/history"),
    (ReleaseScreen::Values, "Values", "/values"),
];
/// The screens that a release has only if there is something to show.
const FURTHER: [ReleaseScreen; 2] = [ReleaseScreen::Members, ReleaseScreen::Operations];
/// The width of the bar of the longest lag, in pixels.
const BAR: f64 = 120.0;

/// Makes pages.
pub struct Pages(Environment<'static>);

impl Default for Pages {
    fn default() -> Self {
        let mut environment = Environment::new();
        for (name, text) in TEMPLATES {
            environment.add_template(name, text).expect("the templates of the program parse");
        }
        environment.set_formatter(write_text);
        environment.add_filter("tone", |state: String| tone(&state));
        environment.add_filter("encoded", |text: String| encoded(&text));
        environment.add_filter("minute", |time: String| minute(&time));
        Self(environment)
    }
}

impl Pages {
    /// The page of all releases.
    pub fn fleet(&self, fleet: &Fleet, filter: &FleetFilter) -> String {
        let frame = Frame {
            title: "Releases".to_owned(),
            section: "fleet",
            command: format!("tillerman list {} -o wide", place(fleet.namespace.as_deref())),
            follow: Subject::Fleet.link(),
            version: fleet.version,
            notes: fleet.notes.clone(),
        };
        self.page("fleet.html", &frame, &json!({"namespace": fleet.namespace}), &FleetPage::new(&fleet.rows, filter))
    }

    /// A screen of a release.
    pub fn release(&self, name: &ReleaseName, screen: ReleaseScreen, data: &ReleaseData) -> String {
        let (template, command) = command(name, screen);
        let is_live = matches!(screen, ReleaseScreen::Status | ReleaseScreen::Members | ReleaseScreen::Operations);
        let follow = is_live.then(|| Subject::Release(name.clone()).link());
        let frame = Frame {
            title: name.name.clone(),
            section: "release",
            command,
            follow: follow.unwrap_or_default(),
            version: data.version,
            notes: data.notes.clone(),
        };
        let own = if let ReleaseScreen::Revision(_) = screen { ReleaseScreen::History } else { screen };
        let shown = |tab: &&(ReleaseScreen, &str, &str)| {
            tab.0 == own || !FURTHER.contains(&tab.0) || data.further.contains(&tab.0)
        };
        let tab = |tab: &(ReleaseScreen, &str, &str)| json!({"label": tab.1, "link": name.link() + tab.2, "is_own": tab.0 == own});
        let tabs: Vec<Value> = TABS.iter().filter(shown).map(tab).collect();
        let shared = json!({"name": name_json(name), "tabs": tabs, "summary": data.summary, "link": name.link()});
        self.page(template, &frame, &shared, &bounded(screen, &data.document))
    }

    /// The page of the operator, from the document of `tillerman doctor -o json`.
    pub fn operator(&self, document: &Value, namespace: Option<&str>) -> String {
        let frame = Frame {
            title: "Operator".to_owned(),
            section: "operator",
            command: format!("tillerman doctor {}", place(namespace)),
            ..Frame::default()
        };
        self.page("operator.html", &frame, &Value::Null, document)
    }

    /// The page of roll-outs, from reports as `tillerman status --rollouts` reads them.
    pub fn rollouts(&self, document: &Value, namespace: Option<&str>, version: u64) -> String {
        let frame = Frame {
            title: "Roll-outs".to_owned(),
            section: "rollouts",
            command: format!("tillerman status --rollouts {}", place(namespace)),
            follow: Subject::Rollouts.link(),
            version,
            ..Frame::default()
        };
        self.page("rollouts.html", &frame, &json!({"namespace": namespace}), &bounded(ReleaseScreen::Next, document))
    }

    /// A page with one sentence, such as an error.
    pub fn message(&self, title: &str, text: &str) -> String {
        let frame = Frame { title: title.to_owned(), section: "message", ..Frame::default() };
        self.page("message.html", &frame, &Value::Null, &json!({"text": text}))
    }

    /// The page that the link of the start opens: the cookie is set, and the browser continues without the token.
    pub fn entered(&self) -> String {
        let frame = Frame { title: "Tillerman".to_owned(), section: "enter", ..Frame::default() };
        let text = "The link was accepted. The page of releases opens now.";
        self.page("message.html", &frame, &Value::Null, &json!({"text": text, "continues": true}))
    }

    fn page(&self, name: &str, frame: &Frame, shared: &Value, data: &impl Serialize) -> String {
        let values = context! {
            frame => Any::from(Serde(frame)),
            shared => Any::from(Serde(shared)),
            data => Any::from(Serde(data)),
        };
        let template = self.0.get_template(name).expect("it is one of the templates of the program");
        // A template that fails must not show a half page as a whole one.
        template.render(values).unwrap_or_else(|e| format!("<!doctype html><title>Error</title><p>{}</p>", plain(&e)))
    }
}

/// The part of a page that all pages have.
#[derive(Debug, Default, Serialize)]
struct Frame {
    title: String,
    section: &'static str,
    /// The command that prints the same.
    command: String,
    /// The address of the changes; empty if the page does not follow any.
    follow: String,
    version: u64,
    notes: Vec<String>,
}

/// The flag of a namespace, or of all.
fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"))
}

fn name_json(name: &ReleaseName) -> Value {
    let kind = name.kind.split('.').next().unwrap_or_default();
    json!({"kind": kind, "group": name.kind, "namespace": name.namespace, "name": name.name})
}

/// The template of a screen, and the command that prints the same.
fn command(name: &ReleaseName, screen: ReleaseScreen) -> (&'static str, String) {
    let (template, word, release) = match screen {
        ReleaseScreen::Status => ("status.html", "status", ""),
        ReleaseScreen::Next => ("next.html", "diff", ""),
        ReleaseScreen::History => ("history.html", "history", ""),
        ReleaseScreen::Revision(_) => ("revision.html", "history", " -o json"),
        ReleaseScreen::Values => ("values.html", "values", ""),
        ReleaseScreen::Members => ("members.html", "status", ""),
        ReleaseScreen::Operations => ("operations.html", "status", ""),
    };
    let namespace = if name.namespace.is_empty() { String::new() } else { format!(" -n {}", name.namespace) };
    (template, format!("tillerman {word}{namespace} {}/{}{release}", name.kind, name.name))
}

/// A document with as many items as a page shows, and with differences as columns.
fn bounded(screen: ReleaseScreen, document: &Value) -> Value {
    let mut document = document.clone();
    let mut left_out = Map::new();
    if let (ReleaseScreen::Status, Some(tree)) = (screen, document.get_mut("tree")) {
        let mut room = MOST_NODES;
        let cut = cut_tree(tree, &mut room);
        left_out.insert("tree".into(), cut.into());
    }
    for (key, value) in document.as_object_mut().into_iter().flatten() {
        if let Value::Array(items) = value
            && items.len() > MOST_ITEMS
        {
            left_out.insert(key.clone(), (items.len() - MOST_ITEMS).into());
            items.truncate(MOST_ITEMS);
        }
    }
    for value in document.get_mut("values").and_then(Value::as_array_mut).into_iter().flatten() {
        // As JSON, like in the command: `"1"` is another value than `1`.
        value["effective"] = value["effective"].to_string().into();
    }
    for set in document.get_mut("sets").and_then(Value::as_array_mut).into_iter().flatten() {
        with_bars(set);
    }
    let line = document.get("revisions").and_then(Value::as_array).and_then(|all| times::line(all));
    document["line"] = line.into();
    let mut room = MOST_CHANGED_LINES;
    for change in document.get_mut("changes").and_then(Value::as_array_mut).into_iter().flatten() {
        let (mut rows, mut more) = sides(change["diff"].as_str().unwrap_or_default());
        more += rows.len().saturating_sub(room);
        rows.truncate(room);
        room -= rows.len();
        change["rows"] = json!(rows);
        change["more"] = more.into();
        if let Value::Object(change) = change {
            change.shift_remove("diff");
        }
    }
    document["left_out"] = left_out.into();
    document
}

/// Limits the members of a set, and gives each that lags the width of its bar.
fn with_bars(set: &mut Value) {
    let Some(Value::Array(members)) = set.get_mut("members") else { return };
    members.truncate(MOST_ITEMS);
    let longest = members.iter().filter_map(|member| member["lag"].as_f64()).fold(0.0, f64::max);
    for member in members {
        if let Some(lag) = member["lag"].as_f64().filter(|_| longest > 0.0) {
            member["bar"] = (BAR * lag / longest).round().into();
        }
    }
}

/// Cuts a tree to the room that is left, in the order of its lines. Returns the number of lines that it cut.
fn cut_tree(node: &mut Value, room: &mut usize) -> usize {
    let Some(Value::Array(below)) = node.get_mut("below") else { return 0 };
    let mut kept = Vec::new();
    let mut cut = 0;
    for mut child in std::mem::take(below) {
        if *room == 0 {
            cut += lines(&child);
            continue;
        }
        *room -= 1;
        cut += cut_tree(&mut child, room);
        kept.push(child);
    }
    *below = kept;
    cut
}

fn lines(node: &Value) -> usize {
    1 + node["below"].as_array().into_iter().flatten().map(lines).sum::<usize>()
}

/// Writes a value of a template.
fn write_text(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Any) -> Result<(), Error> {
    match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Any::from(shown(text))),
        None if value.is_undefined() || value.is_none() => Ok(()),
        None => escape_formatter(out, state, value),
    }
}

/// A text as a page shows it: cut where it is very long, and without characters that change the direction of a line.
fn shown(text: &str) -> String {
    let is_shown = |c: &char| {
        !matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            && (!c.is_control() || matches!(c, '\n' | '\t'))
    };
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(LONGEST).filter(is_shown).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// An error of a template without markup. It has no text of a document.
fn plain(error: &Error) -> String {
    format!("The page cannot be made: {}", error.kind()).replace(['<', '>', '&'], " ")
}

/// The colour of a state. The page also has the word.
fn tone(state: &str) -> &'static str {
    match state {
        "Ready" | "Succeeded" | "Settled" | "Finished" | "deployed" | "Safe" | "ok" | "created" | "True"
        | "Complete" => "good",
        "Stalled" | "Failed" | "failed" | "Unsafe" | "fail" | "refused" | "recreated" | "pruned" | "Refused"
        | "Blocked" => "bad",
        "Progressing" | "InProgress" | "Waiting" | "Unseen" | "Unknown" | "Paused" | "Asleep" | "Uninstalling"
        | "Terminating" | "Pending" | "ContainerCreating" | "warn" | "changed" | "Changed" | "Drifted" | "Warning"
        | "False" => "warn",
        other if ["Err", "BackOff", "Failed", "Invalid", "Unschedulable"].iter().any(|part| other.contains(part)) => {
            "bad"
        }
        _ => "plain",
    }
}

/// A time in RFC 3339 to the minute, as people read it.
fn minute(time: &str) -> String {
    match (time.get(..10), time.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute}"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, MOST_CHANGED_LINES, MOST_NODES, Pages, minute, shown, tone};
    use crate::ui::address::{ReleaseName, ReleaseScreen};
    use crate::ui::fleet::FleetFilter;
    use crate::ui::source::{Fleet, ReleaseData};
    use serde_json::{Value, json};
    use std::sync::Arc;

    const HOSTILE: &str = "<script>alert(1)</script>\"' onload=x &amp;\u{202e}\u{1b}";

    fn name() -> ReleaseName {
        ReleaseName { kind: "Web.a".into(), namespace: HOSTILE.into(), name: HOSTILE.into() }
    }

    fn release(screen: ReleaseScreen, document: Value) -> String {
        let summary =
            json!({"state": HOSTILE, "name": HOSTILE, "message": HOSTILE, "reason": HOSTILE, "problems": [HOSTILE]});
        let data = ReleaseData { summary, document, notes: vec![HOSTILE.into()], version: 1, further: Vec::new() };
        Pages::default().release(&name(), screen, &data)
    }

    fn assert_harmless(page: &str) {
        for harm in ["<script>alert", "\"' onload", "\u{202e}", "\u{1b}"] {
            assert!(!page.contains(harm), "{harm:?} in {page}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(page.ends_with("</html>\n") || page.ends_with("</html>"), "{page}");
    }

    #[test]
    fn markup_of_tenants_is_text_in_every_page() {
        let node = json!({"name": HOSTILE, "state": HOSTILE, "message": HOSTILE, "below": []});
        let tree = json!({"name": HOSTILE, "state": HOSTILE, "message": HOSTILE, "below": [node]});
        let event = json!({"type": HOSTILE, "reason": HOSTILE, "message": HOSTILE, "last": HOSTILE, "count": 2, "object": HOSTILE});
        let condition =
            json!({"type": HOSTILE, "status": HOSTILE, "reason": HOSTILE, "message": HOSTILE, "since": HOSTILE});
        let change = json!({"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE, "change": HOSTILE, "reason": HOSTILE,
            "diff": format!("@@ {HOSTILE}\n-{HOSTILE}\n+{HOSTILE}x\n {HOSTILE}")});
        let revision = json!({"revision": 2, "updated": HOSTILE, "status": HOSTILE, "chart": HOSTILE, "description": HOSTILE,
            "changedValues": [HOSTILE]});
        let value = json!({"value": HOSTILE, "effective": HOSTILE, "source": HOSTILE, "place": HOSTILE});
        let set = json!({"name": HOSTILE, "phase": HOSTILE, "unsafeBecause": HOSTILE, "safeToFailOver": false, "members": [
            {"name": HOSTILE, "role": HOSTILE, "lag": 1.5, "version": HOSTILE, "problem": HOSTILE, "busy": HOSTILE}],
            "lastChange": {"kind": HOSTILE, "from": HOSTILE, "to": HOSTILE, "why": HOSTILE, "at": HOSTILE}});
        let operation =
            json!({"name": HOSTILE, "result": HOSTILE, "message": HOSTILE, "schedule": HOSTILE, "startTime": HOSTILE});
        let documents = [
            (ReleaseScreen::Status, json!({"tree": tree, "events": [event], "conditions": [condition]})),
            (
                ReleaseScreen::Next,
                json!({"state": HOSTILE, "message": HOSTILE, "action": HOSTILE, "changes": [change],
                "notes": [HOSTILE], "error": HOSTILE}),
            ),
            (ReleaseScreen::History, json!({"revisions": [revision]})),
            (
                ReleaseScreen::Revision(2),
                json!({"revision": 2, "before": 1, "changes": [change], "changedValues": [HOSTILE]}),
            ),
            (ReleaseScreen::Values, json!({"values": [value]})),
            (ReleaseScreen::Members, json!({"sets": [set], "events": [event]})),
            (ReleaseScreen::Operations, json!({"operations": [operation], "plan": tree, "waiting": [condition]})),
        ];
        for (screen, document) in documents {
            assert_harmless(&release(screen, document));
        }
        let row = Arc::new(
            json!({"name": HOSTILE, "namespace": HOSTILE, "kind": HOSTILE, "group": HOSTILE, "state": HOSTILE,
            "chart": HOSTILE, "message": HOSTILE, "reason": HOSTILE, "problems": [HOSTILE], "created": HOSTILE}),
        );
        let fleet = Fleet { rows: vec![row], notes: vec![HOSTILE.into()], namespace: None, version: 1 };
        let filter = FleetFilter { text: HOSTILE.into(), ..FleetFilter::default() };
        assert_harmless(&Pages::default().fleet(&fleet, &filter));
        assert_harmless(&Pages::default().fleet(&fleet, &FleetFilter::default()));
        assert_harmless(&Pages::default().message("Error", HOSTILE));
        let report = json!({"chart": HOSTILE, "phase": HOSTILE, "failures": [HOSTILE], "leftOut": [HOSTILE], "withdrawn": HOSTILE});
        let rollouts = json!({"rollouts": [{"kind": HOSTILE, "report": report}]});
        assert_harmless(&Pages::default().rollouts(&rollouts, Some(HOSTILE), 1));
        let check = json!({"check": HOSTILE, "result": HOSTILE, "message": HOSTILE, "remedy": HOSTILE});
        assert_harmless(&Pages::default().operator(&json!({"checks": [check]}), Some(HOSTILE)));
    }

    #[test]
    fn a_page_stays_small_however_large_its_documents_are() {
        let long = "x".repeat(10 << 20);
        let node = json!({"name": "n", "state": "Ready", "message": "", "below": []});
        let tree = json!({"name": long, "state": long, "message": long, "below": vec![node; 100_000]});
        let page = release(ReleaseScreen::Status, json!({"tree": tree}));
        assert!(page.len() < 1 << 20, "{}", page.len());
        assert!(page.contains(&format!("{} more", 100_000 - MOST_NODES)), "the page says what it leaves out");
        let change = json!({"kind": "A", "name": "a", "change": "changed", "diff": "+a\n".repeat(MOST_CHANGED_LINES)});
        let page = release(ReleaseScreen::Next, json!({"state": "Changed", "changes": vec![change; 1000]}));
        assert!(page.len() < 4 << 20, "{}", page.len());
        let page = release(ReleaseScreen::Values, json!({"values": vec![json!({"value": long}); 2]}));
        assert!(page.len() < 100_000, "{}", page.len());
    }

    #[test]
    fn a_lag_is_a_number_and_a_bar_and_a_release_without_members_has_no_tab_of_them() {
        let set = json!({"name": "db", "members": [{"name": "db-0", "role": "Primary"}, {"name": "db-1", "lag": 4.0}, {"name": "db-2", "lag": 1.0}]});
        let page = release(ReleaseScreen::Members, json!({"sets": [set]}));
        assert!(
            page.contains("aria-label=\"Lag of db-1: 4.0 seconds\"><rect x=\"0\" y=\"2\" width=\"120.0\""),
            "{page}"
        );
        assert!(page.contains("width=\"30.0\"") && !page.contains("Lag of db-0"), "{page}");
        assert!(page.contains(">Members</a>") && !page.contains(">Operations</a>"), "{page}");
        assert!(!release(ReleaseScreen::Values, json!({})).contains(">Members</a>"));
    }

    #[test]
    fn pages_need_no_inline_script_and_no_inline_style() {
        let page = release(ReleaseScreen::Status, json!({"tree": {"name": "a"}}));
        assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains(" onclick"), "{page}");
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<script src=\"/script.js\" defer></script>"));
    }

    #[test]
    fn texts_are_cut_and_lose_what_moves_the_reader() {
        assert_eq!(shown("a\u{202e}b\nc"), "ab\nc");
        assert_eq!(shown(&"ä".repeat(LONGEST + 1)).chars().count(), LONGEST + 1);
        assert_eq!((minute("2026-11-29T18:13:12Z"), minute("x")), ("2026-11-29 18:13".into(), "x".into()));
        assert_eq!((tone("Ready"), tone("ErrImagePull"), tone("revision 3")), ("good", "bad", "plain"));
    }
}
