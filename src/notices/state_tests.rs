//! Tests of what a notice has seen and has to send.

use serde_json::{Value, json};

use super::{Look, MAX_MESSAGES, NoticeState, Times, Turn};
use crate::notices::document::Notice;
use crate::notices::events::NoticeEvent;
use crate::notices::facts::{Problem, ResourceFacts, Stage};
use crate::notices::pods::{Exit, PodFacts};

const QUIET: i64 = 600;
const TIMES: Times = Times { quiet: QUIET, linger: 300 };
const ALL: [&str; 9] = [
    "Installed",
    "Upgraded",
    "Failed",
    "NotReady",
    "DriftRepaired",
    "PodCrashed",
    "PodStarted",
    "Uninstalled",
    "CertificateMissing",
];

fn notice(more: &Value) -> Notice {
    let smtp = json!({"host": "a.io", "from": "a@example.com", "to": ["b@example.com"]});
    let mut spec = json!({"target": {"smtp": smtp}, "events": ALL});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Notice::read(&json!({"spec": spec})).unwrap()
}

/// A notice at work: the objects that it checks, and the time.
struct Run {
    notice: Notice,
    state: NoticeState,
    now: i64,
}

impl Run {
    fn new(more: &Value) -> Self {
        Self { notice: notice(more), state: NoticeState { since: 100, ..NoticeState::default() }, now: 1000 }
    }

    fn turn(&mut self, act: impl FnOnce(&mut NoticeState, &Turn<'_>)) {
        act(&mut self.state, &Turn { notice: &self.notice, uid: "uid", now: self.now, times: TIMES });
        // As after a restart: everything that counts is in the status.
        let text = json!({"state": self.state}).to_string();
        self.state = NoticeState::read(Some(&serde_json::from_str(&text).unwrap()));
    }

    fn see(&mut self, release: &str, facts: Option<ResourceFacts>, created: i64) {
        let look = Look { release: release.to_owned(), facts, created, is_first: false };
        self.turn(|state, turn| state.look(look, turn));
    }

    fn is(&mut self, revision: u64, problem: Option<&str>) {
        let problem =
            problem.map(|reason| Problem { stage: Stage::Failed, reason: reason.into(), about: String::new() });
        self.see(
            "Web.a/x",
            Some(ResourceFacts { uid: "u".into(), revision, problem, ..ResourceFacts::default() }),
            500,
        );
    }

    /// Sends what is due: the events of each message, with counts.
    fn send(&mut self) -> Vec<Vec<(NoticeEvent, u64)>> {
        let due: Vec<_> = self.state.due(self.now).cloned().collect();
        for entry in &due {
            assert!(self.state.strike(&entry.id));
        }
        due.iter().map(|entry| entry.lines.iter().map(|line| (line.event, line.count)).collect()).collect()
    }

    fn after(&mut self, seconds: i64) -> Vec<Vec<(NoticeEvent, u64)>> {
        self.now += seconds;
        self.turn(NoticeState::remind);
        self.send()
    }
}

#[test]
fn what_was_so_before_is_not_sent() {
    let mut run = Run::new(&json!({}));
    run.see("Web.a/old", Some(ResourceFacts { uid: "u".into(), revision: 4, ..ResourceFacts::default() }), 50);
    assert!(run.state.outbox.is_empty());
    // Later changes are, and a new one is followed from the start.
    run.see("Web.a/old", Some(ResourceFacts { uid: "u".into(), revision: 5, ..ResourceFacts::default() }), 50);
    run.is(1, None);
    assert_eq!(run.after(30), [[(NoticeEvent::Upgraded, 1), (NoticeEvent::Installed, 1)]]);
    run.is(1, None);
    assert_eq!(run.after(100_000), Vec::<Vec<_>>::new());
}

#[test]
fn a_problem_is_sent_once_repeated_and_ended_in_one_thread() {
    let mut run = Run::new(&json!({}));
    run.is(0, Some("Invalid"));
    run.is(0, Some("Invalid"));
    assert_eq!(run.after(29), Vec::<Vec<_>>::new());
    let first = run.state.outbox[0].id.clone();
    assert_eq!(run.after(1), [[(NoticeEvent::Failed, 1)]]);
    assert_eq!(run.after(4 * 3600 - 31), Vec::<Vec<_>>::new());
    assert_eq!(run.state.wakes(&run.notice, TIMES), Some(run.now + 1));
    assert_eq!(run.after(1), Vec::<Vec<_>>::new());
    assert!(run.state.outbox[0].lines[0].still);
    assert_eq!(run.state.outbox[0].references(), [&first]);
    assert_eq!(run.after(30), [[(NoticeEvent::Failed, 1)]]);
    run.is(1, None);
    assert_eq!(run.state.outbox[0].references(), [&first]);
    assert_eq!(run.after(30), [[(NoticeEvent::Installed, 1), (NoticeEvent::Recovered, 1)]]);
    assert!(run.state.incidents.is_empty());
    assert_eq!(run.state.wakes(&run.notice, TIMES), None);
}

#[test]
fn nobody_hears_of_the_end_of_what_nobody_heard_of() {
    let mut run = Run::new(&json!({"events": ["Installed"]}));
    run.is(0, Some("Invalid"));
    run.is(1, None);
    assert_eq!(run.after(30), [[(NoticeEvent::Installed, 1)]]);
}

fn crashed(pods: u64, restarts: u64) -> ResourceFacts {
    let last = Some(Exit { container: "c".into(), code: 1, reason: "Error".into() });
    let pod = PodFacts { uid: "p".into(), workload: "Deployment/w".into(), restarts, last, ..PodFacts::default() };
    let pods = (0..pods).map(|n| (format!("w-{n}"), pod.clone())).collect();
    ResourceFacts { uid: "u".into(), pods, ..ResourceFacts::default() }
}

#[test]
fn five_hundred_pods_that_crash_are_few_messages_which_count_all() {
    let mut run = Run::new(&json!({"repeat": "1h"}));
    run.see("Web.a/x", Some(crashed(500, 0)), 500);
    let mut counted = 0;
    let mut messages = Vec::new();
    for restarts in 1..=20 {
        run.see("Web.a/x", Some(crashed(500, restarts)), 500);
        messages.extend(run.after(10));
    }
    messages.extend(run.after(QUIET));
    messages.extend(run.after(30));
    for (_, count) in messages.iter().flatten() {
        counted += count;
    }
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(counted, 500 * 20);
    assert_eq!(messages[1][0].0, NoticeEvent::Recovered);
    assert!(run.state.incidents.is_empty());
}

#[test]
fn an_hour_has_a_limit_and_the_last_message_counts_the_rest() {
    let mut run = Run::new(&json!({"maxPerHour": 3}));
    let mut messages = Vec::new();
    run.see("Web.a/x", Some(ResourceFacts { uid: "u".into(), ..ResourceFacts::default() }), 500);
    for repairs in 1..=100 {
        run.see("Web.a/x", Some(ResourceFacts { uid: "u".into(), repairs, ..ResourceFacts::default() }), 500);
        messages.extend(run.after(31));
    }
    assert_eq!(messages.len(), 3, "{messages:?}");
    messages.extend(run.after(3600));
    assert_eq!(messages.len(), 4);
    assert_eq!(messages.iter().flatten().map(|(_, count)| count).sum::<u64>(), 100);
}

#[test]
fn a_target_that_takes_nothing_for_long_costs_little_and_nothing_is_lost() {
    let mut run = Run::new(&json!({"maxPerHour": 100, "window": "10s"}));
    let mut sum = 0;
    for n in 0..500_u64 {
        let facts = ResourceFacts { uid: "u".into(), revision: 1, ..ResourceFacts::default() };
        run.see(&format!("Web.a/x{n}"), Some(facts), 500);
        run.now += 1;
        run.see(&format!("Web.a/x{n}"), None, 500);
        sum += 2;
    }
    assert_eq!(run.state.outbox.len(), MAX_MESSAGES);
    assert!(json!(run.state).to_string().len() < 300_000, "{}", json!(run.state).to_string().len());
    let mut counted = 0;
    for _ in 0..3 {
        run.now += 3600;
        counted += run.state.outbox.iter().map(super::Entry::count).sum::<u64>();
        run.send();
        run.turn(NoticeState::remind);
    }
    assert_eq!(counted, sum);
}

#[test]
fn a_message_stays_as_it_is_from_when_it_is_due() {
    let mut run = Run::new(&json!({}));
    run.is(1, None);
    run.now += 30;
    let before: Vec<_> = run.state.due(run.now).cloned().collect();
    run.is(2, None);
    assert_eq!(run.state.due(run.now).cloned().collect::<Vec<_>>(), before);
    assert_eq!(run.state.outbox.len(), 2);
    assert_ne!(run.state.outbox[0].id, run.state.outbox[1].id);
}

#[test]
fn a_certificate_is_reported_if_it_stays_missing_and_its_end_if_it_was_reported() {
    let mut run = Run::new(&json!({}));
    let see = |run: &mut Run, is_missing: bool| {
        let certificates = is_missing.then(|| "web".to_owned()).into_iter().collect();
        run.see(
            "Web.a/x",
            Some(ResourceFacts { uid: "u".into(), revision: 1, certificates, ..ResourceFacts::default() }),
            500,
        );
    };
    see(&mut run, false);
    run.after(30);
    // It is issued in time: nobody hears of it.
    see(&mut run, true);
    assert_eq!(run.after(299), Vec::<Vec<_>>::new());
    assert_eq!(run.state.wakes(&run.notice, TIMES), Some(run.now + 1));
    see(&mut run, false);
    assert_eq!(run.after(30), Vec::<Vec<_>>::new());
    assert_eq!(run.state.wakes(&run.notice, TIMES), None);
    // It is not.
    see(&mut run, true);
    run.after(299);
    assert!(run.state.outbox.is_empty());
    run.after(1);
    assert_eq!(run.state.outbox[0].lines[0].subject, "Certificate/web");
    assert_eq!(run.after(30), [[(NoticeEvent::CertificateMissing, 1)]]);
    see(&mut run, false);
    assert_eq!(run.after(30), [[(NoticeEvent::Recovered, 1)]]);
    assert!(run.state.incidents.is_empty() && run.state.pending.is_empty());
    // State that is deleted with its release is forgotten.
    see(&mut run, true);
    run.see("Web.a/x", None, 500);
    assert!(run.state.pending.is_empty());
}
