//! `tillerman ui` in a real browser. Needs Chromium and axe-core: `tests/cluster/build-tools.sh browser`.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use crate::browser::Browser;
use crate::harness::{Space, eventually};
use crate::outage::Door;
use crate::primary::PrimaryCluster;
use crate::support::api::apply_object;
use crate::ui::Ui;

/// The keys of the `WebDriver` protocol.
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// The script of axe-core.
fn axe() -> String {
    let path = std::env::var_os("PATH").expect("the tests have a PATH");
    let files = std::env::split_paths(&path).map(|folder| folder.join("axe/node_modules/axe-core/axe.min.js"));
    let file = files.into_iter().find(|file| file.exists()).expect("tests/cluster/build-tools.sh browser installs it");
    std::fs::read_to_string(file).unwrap()
}

/// A namespace with releases, one of which fails, and its page.
pub fn fleet(test: &str) -> (Space, crate::harness::Operator, Ui, Browser) {
    let space = Space::new(test);
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    for number in 0..8 {
        space.apply("Web", &format!("shop-{number}"), &json!({"greeting": "hello"}));
    }
    space.apply("Web", "payments", &json!({"replicas": "many"}));
    for number in 0..8 {
        space.wait_web(&format!("shop-{number}"));
    }
    space.wait("web/payments", "Ready", "False");
    let ui = Ui::start(&space, &["-n", &space.name, "--kind", "webs.test.tillerman.dev"]);
    let browser = Browser::start();
    browser.open(&ui.link);
    browser.wait_text("h1", "Releases in");
    (space, operator, ui, browser)
}

/// Writes a picture for the documents, if a folder for them is given.
fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("PICTURES") {
        browser.picture(&PathBuf::from(folder).join(name));
    }
}

#[test]
fn a_release_that_fails_is_found_its_cause_is_read_and_its_next_change_is_seen() {
    let (space, operator, ui, browser) = fleet("browser-find");
    assert!(
        !browser.script("return location.href").as_str().unwrap().contains("token"),
        "the token is not in the address"
    );
    assert_eq!(browser.script("return document.cookie"), "", "no script reads the cookie");
    assert!(ui.link.contains("token="));
    let first = browser.text("table.releases tbody tr").unwrap();
    assert!(first.contains("payments"), "{first}");
    picture(&browser, "ui-releases.png");
    browser.follow("payments");
    let why = browser.wait_text("section.why", "Why it is not ready");
    assert!(why.contains("replicas"), "{why}");
    assert!(browser.text("footer").unwrap().contains("tillerman status"), "the page names its command");
    browser.open(&format!("{}/release/Web.test.tillerman.dev/{}/shop-1", origin(&ui), space.name));
    browser.wait_text("#connection", "Live");
    assert!(operator.stop());
    space.kubectl(&["scale", "deployment/shop-1-web", "--replicas=3"]).unwrap();
    browser.follow("Next pass");
    let next = browser.wait_text("table.sides", "replicas: 3");
    assert!(next.contains("replicas: 1"), "{next}");
    picture(&browser, "ui-next.png");
    browser.follow("History");
    browser.wait_text("table", "Revision");
    browser.follow("1");
    browser.wait_text("h2", "Revision 1");
    picture(&browser, "ui-revision.png");
    browser.follow("Values");
    browser.wait_text("table", "spec.greeting");
}

/// The address of a page without the token.
pub fn origin(ui: &Ui) -> &str {
    ui.link.split("/?").next().unwrap()
}

#[test]
fn a_page_follows_a_release_while_somebody_looks() {
    let (space, operator, ui, browser) = fleet("browser-live");
    browser.wait_text("#connection", "Live");
    browser.open(&format!("{}/release/Web.test.tillerman.dev/{}/payments", origin(&ui), space.name));
    browser.wait_text("#connection", "Live");
    browser.script("window.isTheSamePage = true");
    space.apply("Web", "payments", &json!({"replicas": 1}));
    browser.wait_text("ul.tree", "Deployment payments-web");
    assert_eq!(browser.script("return window.isTheSamePage"), true, "the page was not loaded again");
    browser.follow("Releases");
    browser.wait_text("p.lead", "Nothing needs a person");
    drop(operator);
    drop(ui);
    browser.wait_text("#connection", "Not connected");
}

#[test]
fn axe_finds_nothing_in_light_and_dark_and_on_a_narrow_screen() {
    let (space, _operator, ui, browser) = fleet("browser-axe");
    let axe = axe();
    let release = |end: &str| format!("{}/release/Web.test.tillerman.dev/{}/payments{end}", origin(&ui), space.name);
    let good = |end: &str| format!("{}/release/Web.test.tillerman.dev/{}/shop-1{end}", origin(&ui), space.name);
    let pages = [
        format!("{}/", origin(&ui)),
        format!("{}/?state=Paused", origin(&ui)),
        release(""),
        good(""),
        good("/next"),
        good("/history"),
        good("/history/1"),
        good("/values"),
        format!("{}/operator", origin(&ui)),
        format!("{}/nowhere", origin(&ui)),
    ];
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for page in &pages {
            browser.open(page);
            assert_eq!(browser.violations(&axe), Vec::<String>::new(), "{scheme} {page}");
        }
    }
    for (width, height) in [(320, 640), (3840, 2160)] {
        browser.resize(width, height);
        for page in &pages {
            browser.open(page);
            let wide = browser.script("return document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(width), "{page} is {wide} pixels wide on a screen of {width}");
        }
    }
}

#[test]
fn the_keyboard_alone_leads_to_the_release_that_fails() {
    let (_space, _operator, _ui, browser) = fleet("browser-keys");
    browser.press(&[TAB]);
    assert_eq!(browser.script("return document.activeElement.className"), "skip");
    let is_there = || browser.script("return document.activeElement.textContent").as_str() == Some("payments");
    eventually("the focus is on the release", || {
        browser.press(&[TAB]);
        if is_there() { Ok(()) } else { Err(browser.script("return document.activeElement.outerHTML").to_string()) }
    });
    browser.press(&[ENTER]);
    browser.wait_text("section.why", "Why it is not ready");
}

#[test]
fn a_page_shows_that_the_primary_is_lost_and_which_member_takes_over() {
    let (cluster, _operator) = PrimaryCluster::grown("browser-primary", 3);
    let ui = Ui::start(&cluster.space, &["-n", &cluster.space.name, "--kind", "webs.test.tillerman.dev"]);
    let browser = Browser::start();
    browser.open(&ui.link);
    browser.wait_text("h1", "Releases in");
    browser.open(&format!("{}/release/Web.test.tillerman.dev/{}/a/members", origin(&ui), cluster.space.name));
    browser.wait_text("section", "Another member can take over without a loss of writes.");
    browser.wait_text("#connection", "Live");
    picture(&browser, "ui-members.png");
    let role_of = |member: u32| {
        let script = format!(
            "return [...document.querySelectorAll('tbody tr')].find((row) => row.cells[0].textContent === 'a-db-{member}').cells[1].textContent"
        );
        browser.script(&script).as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(role_of(0), "Primary");
    browser.script("window.isTheSamePage = true");
    cluster.agents.database().crash(0);
    eventually("another member is the primary on the page", || {
        let roles = [role_of(0), role_of(1), role_of(2)];
        if roles[1] == "Primary" || roles[2] == "Primary" { Ok(()) } else { Err(format!("{roles:?}")) }
    });
    let section = browser.wait_text("section", "FailOver");
    assert!(section.contains("a-db-0 \u{2192} a-db-"), "{section}");
    assert_eq!(browser.script("return window.isTheSamePage"), true, "the page was not loaded again");
    // Events are not followed: they are read with the page.
    eventually("the changes of the primary have their reasons", || {
        browser.script("location.reload()");
        let events = browser.text("ol.line-of-time")?;
        if events.contains("PrimaryChanged") { Ok(()) } else { Err(events) }
    });
}

#[test]
fn a_page_resumes_after_the_api_server_was_away() {
    let space = Space::new("browser-outage");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"replicas": "many"}));
    space.wait("web/app", "Ready", "False");
    let door = Door::new();
    let kubeconfig = space.kubeconfig(Some(&format!("https://127.0.0.1:{}", door.port)));
    let ui = Ui::with(&kubeconfig, &["-n", &space.name, "--kind", "webs.test.tillerman.dev"]);
    let browser = Browser::start();
    browser.open(&ui.link);
    browser.wait_text("table.releases", "app");
    browser.wait_text("#connection", "Live");
    door.shut();
    space.apply("Web", "app", &json!({"replicas": 1}));
    space.wait_web("app");
    door.unlock();
    browser.wait_text("p.lead", "Nothing needs a person");
}

#[test]
fn a_printed_page_has_no_controls_and_shows_the_whole_difference() {
    let (space, operator, ui, browser) = fleet("browser-print");
    assert!(operator.stop());
    space.kubectl(&["scale", "deployment/shop-1-web", "--replicas=3"]).unwrap();
    browser.open(&format!("{}/release/Web.test.tillerman.dev/{}/shop-1/next", origin(&ui), space.name));
    browser.wait_text("table.sides", "replicas: 3");
    let is_shown = |css: &str| {
        let script = format!("return document.querySelector('{css}').getClientRects().length > 0");
        browser.script(&script).as_bool().unwrap()
    };
    assert!(is_shown("header nav") && is_shown(".tabs") && is_shown("footer"));
    browser.print(true);
    assert!(!is_shown("header nav") && !is_shown(".tabs"));
    assert!(is_shown("footer") && is_shown("table.sides"));
    let cut = browser.script("const all = document.querySelector('.scroll'); return all.scrollWidth > all.clientWidth && getComputedStyle(all).overflowX !== 'visible'");
    assert_eq!(cut, false, "no part of the difference is cut off");
}

/// A thousand custom resources, of which the operator serves the one that fails.
#[test]
fn the_release_that_fails_is_found_among_a_thousand() {
    let space = Space::new("browser-many");
    let watches = space.watches_with(&[("Web", "web")], "  selector: {matchLabels: {run: \"yes\"}}\n");
    let _operator = space.operator(&watches, &[]);
    let body = |name: &str, labels: &serde_json::Value, spec: &serde_json::Value| {
        json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web", "spec": spec,
            "metadata": {"name": name, "namespace": space.name, "labels": labels}})
    };
    std::thread::scope(|scope| {
        for part in 0..8 {
            let (space, body) = (&space, &body);
            scope.spawn(move || {
                for number in (part..1000).step_by(8) {
                    apply_object(&space.name, &body(&format!("shop-{number}"), &json!({}), &json!({}))).unwrap();
                }
            });
        }
    });
    apply_object(&space.name, &body("payments", &json!({"run": "yes"}), &json!({"replicas": "many"}))).unwrap();
    space.wait("web/payments", "Ready", "False");
    let began = Instant::now();
    let ui = Ui::start(&space, &["-n", &space.name, "--kind", "webs.test.tillerman.dev"]);
    let linked = began.elapsed();
    let browser = Browser::start();
    browser.open(&ui.link);
    browser.wait_text("h1", "Releases in");
    let first = browser.text("table.releases tbody tr").unwrap();
    assert!(first.contains("payments"), "{first}");
    let timing = "const [page] = performance.getEntriesByType('navigation'); const paint = performance.getEntriesByName('first-contentful-paint')[0]; \
                  return {size: document.documentElement.outerHTML.length, loaded: Math.round(page.loadEventEnd - page.startTime), \
                  painted: Math.round(paint ? paint.startTime : 0)}";
    browser.script("location.reload()");
    eventually("the page is loaded", || {
        let is_loaded = browser.script("return document.readyState === 'complete' && performance.getEntriesByName('first-contentful-paint').length > 0");
        if is_loaded == true { Ok(()) } else { Err("it is not".to_owned()) }
    });
    let figures = browser.script(timing);
    println!("a thousand custom resources: link and cookie after {linked:.0?}, page {figures}");
    assert!(figures["size"].as_u64().unwrap() <= 100_000, "{figures}");
    browser.follow("payments");
    browser.wait_text("section.why", "Why it is not ready");
}
