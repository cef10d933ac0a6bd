//! More of what people do with `tillerman ui` in a real browser, beside `browser_pages`.

use serde_json::json;

use crate::browser::Browser;
use crate::browser_pages::{fleet, origin};
use crate::harness::{Operator, Space, eventually};
use crate::kubelet::Kubelet;
use crate::rollouts;
use crate::ui::Ui;

const KIND: [&str; 2] = ["--kind", "webs.test.tillerman.dev"];

/// A page of a namespace in a browser.
fn look(space: &Space) -> (Ui, Browser) {
    let ui = Ui::start(space, &["-n", &space.name, KIND[0], KIND[1]]);
    let browser = Browser::start();
    browser.open(&ui.link);
    browser.wait_text("h1", "Releases in");
    (ui, browser)
}

fn release(ui: &Ui, space: &Space, name: &str, end: &str) -> String {
    format!("{}/release/Web.test.tillerman.dev/{}/{name}{end}", origin(ui), space.name)
}

/// One release that the operator serves.
fn one(test: &str, chart: &str, spec: &serde_json::Value) -> (Space, Operator) {
    let space = Space::new(test);
    let operator = space.operator(&space.watches(&[("Web", chart)]), &[]);
    space.apply("Web", "app", spec);
    space.wait("web/app", "Deployed", "True");
    (space, operator)
}

#[test]
fn a_roll_out_is_followed_until_a_failure_stops_it_and_the_cause_is_read() {
    let space = Space::new("browser-rollout");
    let rollout = json!({"maxConcurrent": 1});
    let first = rollouts::operator(&space, &rollouts::chart(&space, "1.0.0", ""), &rollout, "");
    for name in ["a", "b", "c"] {
        let spec = if name == "b" { json!({"fails": "2.0.0"}) } else { json!({}) };
        space.apply("Web", name, &spec);
    }
    rollouts::wait_progress(&space, "app-1.0.0", "Complete", &json!({"ready": 3}));
    assert!(first.stop());
    let (_ui, browser) = look(&space);
    browser.follow("Roll-outs");
    let row = browser.wait_text("tbody tr", "app-1.0.0");
    assert!(row.contains("Complete") && row.contains("3 of 3"), "{row}");
    browser.wait_text("#connection", "Live");
    browser.script("window.isTheSamePage = true");
    let _second = rollouts::operator(&space, &rollouts::chart(&space, "2.0.0", rollouts::BROKEN), &rollout, "");
    browser.wait_text("tbody tr", "app-2.0.0");
    let row = browser.wait_text("tbody tr", "Stopped");
    assert!(row.contains(&format!("{}/b: Invalid", space.name)), "{row}");
    assert_eq!(browser.script("return window.isTheSamePage"), true, "the page was not loaded again");
}

#[test]
fn an_operation_is_followed_to_its_result() {
    let hooks = json!({"greeting": "one", "hooks": [
        {"name": "backup", "kind": "Job", "events": "operation/backup", "annotations": {}}]});
    let (space, _operator) = one("browser-operation", "hooks", &hooks);
    let _kubelet = Kubelet::new(&space);
    let (ui, browser) = look(&space);
    browser.open(&release(&ui, &space, "app", "/operations"));
    browser.wait_text("main", "No operation has run");
    browser.wait_text("#connection", "Live");
    space.kubectl(&["annotate", "webs.test.tillerman.dev", "app", "tillerman.dev/operation=backup"]).unwrap();
    let row = browser.wait_text("tbody", "Succeeded");
    assert!(row.contains("backup"), "{row}");
}

#[test]
fn rights_that_are_taken_away_empty_the_page_and_given_back_they_fill_it() {
    let space = Space::new("browser-rights");
    space.apply("Web", "app", &json!({}));
    space.restrict(&["--verb=get", "--resource=namespaces"]);
    let rules = ["create", "role", "see", "--verb=get,list,watch", "--resource=webs.test.tillerman.dev,pods,events"];
    space.kubectl(&rules).unwrap();
    let bind = ["create", "rolebinding", "see", "--role=see", &format!("--user={}", space.user)];
    space.kubectl(&bind).unwrap();
    let (ui, browser) = look(&space);
    browser.wait_text("table.releases", "app");
    browser.wait_text("#connection", "Live");
    space.kubectl(&["delete", "rolebinding", "see"]).unwrap();
    // A watch that runs is not ended by the API server; the next one is refused.
    drop(ui);
    let ui = Ui::start(&space, &["-n", &space.name, KIND[0], KIND[1]]);
    browser.open(&ui.link);
    let note = browser.wait_text("p.note", "cannot be seen");
    assert!(note.contains("forbidden"), "{note}");
    browser.wait_text("#connection", "Live");
    assert!(browser.text("table.releases").is_err(), "no release is shown");
    space.kubectl(&bind).unwrap();
    browser.wait_text("table.releases", "app");
}

/// A tenant writes markup wherever the API server takes a text.
#[test]
fn what_a_tenant_writes_is_text_on_every_page() {
    let evil = "<img src=x onerror=\"window.isHarmed=true\"><script>window.isHarmed=true</script></td></table>\u{202e}";
    let (space, operator) = one("browser-hostile", "web", &json!({"greeting": evil, "more": {"page": evil}}));
    space.wait_web("app");
    space.apply_with(
        "Web",
        "app",
        &json!({"tillerman.dev/operation": evil, "tillerman.dev/ignore-drift": evil}),
        &json!({"greeting": format!("{evil}2"), "replicas": evil}),
    );
    eventually("the operator refuses it", || {
        let ready = space.condition("web/app", "Ready")?;
        if ready["status"] == "False" { Ok(()) } else { Err(ready.to_string()) }
    });
    assert!(operator.stop());
    // The status, too: a tenant with rights on it can write anything.
    let message = json!([{"op": "add", "path": "/status/conditions/0/message", "value": evil},
        {"op": "add", "path": "/status/operations", "value": {(evil): {"request": evil, "result": evil, "message": evil}}}]);
    let patch = message.to_string();
    space.kubectl(&["patch", "web/app", "--subresource=status", "--type=json", "-p", &patch]).unwrap();
    let (ui, browser) = look(&space);
    let ends = ["", "/next", "/history", "/history/1", "/values", "/operations", "/members"];
    let pages = ends.map(|end| release(&ui, &space, "app", end));
    for page in pages.iter().chain([&format!("{}/", origin(&ui)), &format!("{}/?text=%3Cscript%3E", origin(&ui))]) {
        browser.open(page);
        browser.wait_text("footer", "Read-only");
        let found = "return [window.isHarmed === undefined, document.querySelectorAll('img').length, document.scripts.length, \
                     document.querySelectorAll('main').length]";
        assert_eq!(browser.script(found), json!([true, 0, 1, 1]), "{page}");
    }
    browser.open(&pages[5]);
    browser.wait_text("tbody", "onerror");
}

#[test]
fn the_filter_finds_by_text_and_state_and_the_address_keeps_it() {
    let (space, _operator, ui, browser) = fleet("browser-filter");
    space.kubectl(&["annotate", "web/shop-3", "tillerman.dev/paused=true"]).unwrap();
    space.wait("web/shop-3", "Paused", "True");
    browser.open(&format!("{}/?text=shop-3", origin(&ui)));
    let caption = browser.wait_text("#releases", "1 of 9 releases");
    assert!(!caption.contains("page"), "{caption}");
    browser.wait_text("table.releases", "Paused");
    let chosen = "const form = document.querySelector('form'); form.text.value = ''; form.state.value = 'Paused'; form.requestSubmit()";
    browser.script(chosen);
    eventually("the address has the filter", || {
        let at = browser.script("return location.search");
        if at.as_str().is_some_and(|at| at.contains("state=Paused")) { Ok(()) } else { Err(at.to_string()) }
    });
    browser.wait_text("table.releases", "shop-3");
    browser.script("history.back()");
    browser.wait_text("#releases", "1 of 9 releases");
    browser.open(&format!("{}/?text=nothing-like-this", origin(&ui)));
    browser.wait_text("main", "No release fits the filter");
    browser.follow("Show all releases");
    browser.wait_text("#releases", "9 of 9 releases");
}

#[test]
fn a_release_that_is_deleted_while_somebody_looks_is_gone() {
    let (space, _operator) = one("browser-deleted", "web", &json!({}));
    space.wait_web("app");
    let (_ui, browser) = look(&space);
    browser.follow("app");
    browser.wait_text("ul.tree", "Deployment app-web");
    browser.wait_text("#connection", "Live");
    space.delete("web/app");
    browser.wait_text("main", "there is no Web app");
    browser.follow("All releases");
    browser.wait_text("main", "There are no custom resources of charts here");
}

#[test]
fn repaired_drift_is_in_the_list_without_a_look_at_the_release() {
    let (space, _operator) = one("browser-drift", "web", &json!({}));
    space.wait_web("app");
    let (_ui, browser) = look(&space);
    browser.wait_text("p.lead", "Nothing needs a person");
    browser.wait_text("#connection", "Live");
    space.kubectl(&["patch", "configmap/app-config", "--patch", "data: {greeting: drifted}"]).unwrap();
    browser.wait_text("p.lead", "1 with repaired drift");
    browser.follow("1 with repaired drift");
    browser.wait_text("#releases", "1 of 1 releases");
}

#[test]
fn pages_work_without_their_script() {
    let (space, _operator) = one("browser-plain", "web", &json!({}));
    space.wait_web("app");
    let ui = Ui::start(&space, &["-n", &space.name, KIND[0], KIND[1]]);
    let browser = Browser::start();
    browser.without_scripts();
    browser.open(&ui.link);
    browser.wait_text("h1", "Releases in");
    browser.follow("app");
    browser.wait_text("ul.tree", "Deployment app-web");
    assert_eq!(browser.text("#connection").unwrap(), "", "the script did not run");
    browser.follow("Values");
    browser.wait_text("table", "replicas");
    browser.follow("Releases");
    browser.wait_text("#releases", "1 of 1 releases");
}
