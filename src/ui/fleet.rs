//! The page of all releases: which rows it shows, in which order, and their counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::address::{self, ReleaseName};

/// Rows on one page.
pub const PAGE: usize = 100;
/// Kinds and namespaces that a filter offers.
const CHOICES: usize = 200;

/// States in the order of the page: the earlier, the more they need a person.
const STATES: [&str; 7] = ["Stalled", "Progressing", "Uninstalling", "Unseen", "Paused", "Asleep", "Ready"];
/// The filter for releases that need a person.
const PERSON: &str = "person";
/// The filter for releases of which an object was repaired.
const REPAIRED: &str = "repaired";

/// The filter of the page, from its query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FleetFilter {
    /// Only this namespace.
    pub namespace: String,
    /// Only this kind: `Kind.group`.
    pub kind: String,
    /// Only this state; `person` for the releases that need a person, and `repaired` for those with repaired objects.
    pub state: String,
    /// Only rows with this text, without regard to case.
    pub text: String,
    /// The page, from 1.
    pub page: usize,
}

impl FleetFilter {
    /// The filter of a query.
    pub fn of(query: &str) -> Self {
        let mut all = address::parameters(query);
        let mut take = |name: &str| all.remove(name).unwrap_or_default();
        let page = take("page").parse().unwrap_or(1).max(1);
        let (namespace, kind) = (take("namespace"), take("kind"));
        Self { namespace, kind, state: take("state"), text: take("text"), page }
    }

    /// The address of the page with this filter.
    fn link(&self) -> String {
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let parameters = [
            ("namespace", &self.namespace),
            ("kind", &self.kind),
            ("state", &self.state),
            ("text", &self.text),
            ("page", &page),
        ];
        format!("/{}", address::query(parameters.map(|(name, value)| (name, value.as_str()))))
    }

    fn at(&self, page: usize) -> String {
        Self { page, ..self.clone() }.link()
    }

    fn admits(&self, row: &Value, text: &str) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let state = match self.state.as_str() {
            PERSON => needs_a_person(row),
            REPAIRED => row["repaired"].is_string(),
            state => is(state, field(row, "state")),
        };
        state && is(&self.namespace, field(row, "namespace")) && is(&self.kind, &kind(row)) && contains(row, text)
    }
}

/// The page, as its template takes it.
#[derive(Debug, Serialize)]
pub struct FleetPage {
    total: usize,
    shown: usize,
    person: Count,
    repaired: Count,
    states: Vec<&'static str>,
    kinds: Vec<KindCounts>,
    all_kinds: Vec<Count>,
    rows: Vec<Row>,
    filter: FleetFilter,
    choices: Choices,
    is_filtered: bool,
    previous: Option<String>,
    next: Option<String>,
    pages: usize,
}

/// A number with the page that lists what it counts.
#[derive(Debug, Serialize)]
struct Count {
    number: usize,
    link: String,
}

#[derive(Debug, Serialize)]
struct KindCounts {
    kind: String,
    link: String,
    counts: Vec<Count>,
}

/// The options of the filter.
#[derive(Debug, Serialize)]
struct Choices {
    namespaces: Vec<String>,
    kinds: Vec<String>,
    states: Vec<(&'static str, &'static str)>,
}

/// A release.
#[derive(Debug, Serialize)]
struct Row {
    link: String,
    facts: Value,
    needs_a_person: bool,
}

impl FleetPage {
    /// The page of rows as `tillerman list -o json` prints them.
    pub fn new(all: &[Arc<Value>], filter: &FleetFilter) -> Self {
        let text = filter.text.to_lowercase();
        let mut shown: Vec<&Arc<Value>> = all.iter().filter(|row| filter.admits(row, &text)).collect();
        shown.sort_by_cached_key(|row| place(row));
        let pages = shown.len().div_ceil(PAGE).max(1);
        let page = filter.page.clamp(1, pages);
        let rows = shown.iter().skip((page - 1) * PAGE).take(PAGE).map(|row| Row::new(row)).collect();
        let count = |state: &str, is_it: fn(&Value) -> bool| Count {
            number: all.iter().filter(|row| is_it(row)).count(),
            link: FleetFilter { state: state.to_owned(), page: 1, ..FleetFilter::default() }.link(),
        };
        Self {
            total: all.len(),
            shown: shown.len(),
            person: count(PERSON, needs_a_person),
            repaired: count(REPAIRED, |row| row["repaired"].is_string()),
            states: STATES.to_vec(),
            kinds: kinds(all),
            all_kinds: STATES.map(|state| of_state(all, state)).into(),
            rows,
            filter: FleetFilter { page, ..filter.clone() },
            choices: Choices::new(all),
            is_filtered: FleetFilter { page: 1, ..filter.clone() } != FleetFilter { page: 1, ..FleetFilter::default() },
            previous: (page > 1).then(|| filter.at(page - 1)),
            next: (page < pages).then(|| filter.at(page + 1)),
            pages,
        }
    }
}

impl Choices {
    fn new(all: &[Arc<Value>]) -> Self {
        let distinct = |of: fn(&Value) -> String| {
            let found: BTreeSet<String> = all.iter().map(|row| of(row)).filter(|text| !text.is_empty()).collect();
            found.into_iter().take(CHOICES).collect()
        };
        let words = [(PERSON, "Needs a person"), (REPAIRED, "Drift repaired")];
        Self {
            namespaces: distinct(|row| field(row, "namespace").to_owned()),
            kinds: distinct(kind),
            states: STATES.map(|state| (state, state)).into_iter().chain(words).collect(),
        }
    }
}

impl Row {
    fn new(facts: &Value) -> Self {
        let name = ReleaseName {
            kind: kind(facts),
            namespace: field(facts, "namespace").to_owned(),
            name: field(facts, "name").to_owned(),
        };
        Self { link: name.link(), facts: facts.clone(), needs_a_person: needs_a_person(facts) }
    }
}

fn field<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_default()
}

fn kind(row: &Value) -> String {
    format!("{}.{}", field(row, "kind"), field(row, "group"))
}

/// Whether nothing but a person's change makes a release ready, or ends a failure.
fn needs_a_person(row: &Value) -> bool {
    field(row, "state") == "Stalled" || row["problems"].as_array().is_some_and(|all| !all.is_empty())
}

/// Whether a row has a text in a field that the page shows.
fn contains(row: &Value, text: &str) -> bool {
    let fields = ["name", "namespace", "kind", "chart", "version", "reason", "message"];
    text.is_empty() || fields.iter().any(|key| field(row, key).to_lowercase().contains(text))
}

/// The place of a row on the page: releases that need a person come first, then by state, namespace and name.
fn place(row: &Value) -> (bool, usize, [String; 3]) {
    let state = STATES.iter().position(|state| *state == field(row, "state")).unwrap_or(STATES.len());
    (!needs_a_person(row), state, ["namespace", "name", "kind"].map(|key| field(row, key).to_owned()))
}

fn of_state(all: &[Arc<Value>], state: &str) -> Count {
    Count {
        number: all.iter().filter(|row| field(row, "state") == state).count(),
        link: FleetFilter { state: state.to_owned(), page: 1, ..FleetFilter::default() }.link(),
    }
}

/// The counts of each kind by state.
fn kinds(all: &[Arc<Value>]) -> Vec<KindCounts> {
    let mut kinds: BTreeMap<String, [usize; STATES.len()]> = BTreeMap::new();
    for row in all {
        let counts = kinds.entry(kind(row)).or_default();
        if let Some(state) = STATES.iter().position(|state| *state == field(row, "state")) {
            counts[state] += 1;
        }
    }
    let filter = |kind: &str, state: &str| {
        FleetFilter { kind: kind.to_owned(), state: state.to_owned(), page: 1, ..FleetFilter::default() }.link()
    };
    let of_kind = |(kind, counts): (String, [usize; STATES.len()])| {
        let counts = STATES.iter().zip(counts);
        let counts = counts.map(|(state, number)| Count { number, link: filter(&kind, state) }).collect();
        KindCounts { link: filter(&kind, ""), counts, kind }
    };
    kinds.into_iter().take(CHOICES).map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::{FleetFilter, FleetPage, PAGE};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn row(name: &str, state: &str, more: &Value) -> Arc<Value> {
        let mut row =
            json!({"name": name, "namespace": "shop", "kind": "Web", "group": "a", "state": state, "problems": []});
        row.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        Arc::new(row)
    }

    fn names(page: &FleetPage) -> Vec<&str> {
        page.rows.iter().map(|row| row.facts["name"].as_str().unwrap()).collect()
    }

    fn fleet() -> Vec<Arc<Value>> {
        vec![
            row("b-ready", "Ready", &json!({})),
            row("a-ready", "Ready", &json!({"repaired": "2026-01-01T00:00:00Z"})),
            row("moving", "Progressing", &json!({"message": "ErrImagePull"})),
            row("backup-fails", "Ready", &json!({"problems": ["OperationFailed"], "kind": "Db"})),
            row("stalled", "Stalled", &json!({})),
            row("new", "Unseen", &json!({"namespace": "other"})),
        ]
    }

    #[test]
    fn releases_that_need_a_person_come_first_and_ready_ones_last() {
        let page = FleetPage::new(&fleet(), &FleetFilter::of(""));
        assert_eq!(names(&page), ["stalled", "backup-fails", "moving", "new", "a-ready", "b-ready"]);
        assert_eq!((page.total, page.person.number, page.repaired.number), (6, 2, 1));
        assert!(!page.is_filtered && page.pages == 1);
    }

    #[test]
    fn a_filter_takes_namespace_kind_state_and_text() {
        let table = [
            ("namespace=other", vec!["new"]),
            ("kind=Db.a", vec!["backup-fails"]),
            ("kind=Db", vec![]),
            ("state=Progressing", vec!["moving"]),
            ("state=person", vec!["stalled", "backup-fails"]),
            ("state=repaired", vec!["a-ready"]),
            ("text=errimage", vec!["moving"]),
            ("text=READY&state=Ready", vec!["a-ready", "b-ready"]),
            ("state=<script>", vec![]),
        ];
        for (query, expected) in table {
            let page = FleetPage::new(&fleet(), &FleetFilter::of(query));
            assert_eq!(names(&page), expected, "{query}");
            assert!(page.is_filtered, "{query}");
        }
    }

    #[test]
    fn counts_lead_to_the_releases_that_they_count() {
        let page = FleetPage::new(&fleet(), &FleetFilter::of(""));
        for kind in &page.kinds {
            for count in &kind.counts {
                let listed = FleetPage::new(&fleet(), &FleetFilter::of(count.link.trim_start_matches("/?")));
                assert_eq!(listed.shown, count.number, "{}", count.link);
            }
        }
        assert_eq!(page.kinds.len(), 2);
    }

    #[test]
    fn many_releases_are_shown_page_by_page() {
        let all: Vec<_> = (0..=PAGE * 2).map(|n| row(&format!("r{n:05}"), "Ready", &json!({}))).collect();
        let last = FleetPage::new(&all, &FleetFilter::of("page=3"));
        assert_eq!((names(&last).len(), last.next.as_deref(), last.previous.as_deref()), (1, None, Some("/?page=2")));
        let beyond = FleetPage::new(&all, &FleetFilter::of("page=99999999999999999999"));
        assert_eq!(beyond.filter.page, 1);
        assert_eq!(FleetPage::new(&all, &FleetFilter::of("page=77")).filter.page, 3);
        let middle = FleetPage::new(&all, &FleetFilter::of("page=2&text=r"));
        assert_eq!(middle.previous.as_deref(), Some("/?text=r"));
    }
}
