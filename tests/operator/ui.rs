//! `tillerman ui` against a real API server, without a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Space, eventually, program};

/// A running `tillerman ui`; killed when dropped.
pub struct Ui {
    child: Child,
    /// The link that it printed.
    pub link: String,
    cookie: String,
}

impl Ui {
    /// Starts it for a namespace, with the rights of the test's user.
    pub fn start(space: &Space, more: &[&str]) -> Self {
        Self::with(&space.kubeconfig(None), more)
    }

    /// Starts it with a kubeconfig.
    pub fn with(kubeconfig: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["ui", "--no-open", "--kubeconfig"]).arg(kubeconfig).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut link = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
        let mut ui = Self { child, link: link.trim().to_owned(), cookie: String::new() };
        let path = ui.link.splitn(4, '/').nth(3).unwrap_or_else(|| panic!("no link: {link:?}")).to_owned();
        let (head, _) = ui.request(&format!("/{path}"));
        let set = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("the link sets a cookie");
        set.split(';').next().unwrap().clone_into(&mut ui.cookie);
        ui
    }

    fn address(&self) -> &str {
        self.link.split('/').nth(2).unwrap()
    }

    fn send(&self, path: &str) -> TcpStream {
        let address = self.address();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let cookie = &self.cookie;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n").unwrap();
        stream
    }

    fn request(&self, path: &str) -> (String, String) {
        let mut answer = String::new();
        self.send(path).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("it is an answer of HTTP");
        (head.to_owned(), body.to_owned())
    }

    /// A page, which must be there.
    fn page(&self, path: &str) -> String {
        let (head, body) = self.request(path);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}\n{body}");
        body
    }

    /// The version of a page.
    fn version(page: &str) -> &str {
        page.split("data-version=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_else(|| panic!("{page}"))
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn release(space: &Space, name: &str, end: &str) -> String {
    format!("/release/Web.test.tillerman.dev/{}/{name}{end}", space.name)
}

/// The requests of the test's user since a number of entries of the audit log, without watches.
fn requests(space: &Space, since: usize) -> Vec<String> {
    let text = |entry: &Value| {
        format!("{} {}", entry["verb"].as_str().unwrap_or_default(), entry["requestURI"].as_str().unwrap_or_default())
    };
    space.audited().iter().skip(since).filter(|entry| entry["verb"] != "watch").map(text).collect()
}

/// How many watches of custom resources have ended.
fn ended_watches(space: &Space) -> usize {
    let has_ended = |entry: &&Value| {
        entry["verb"] == "watch"
            && entry["stage"] == "ResponseComplete"
            && entry["requestURI"].as_str().is_some_and(|uri| uri.contains("/webs"))
    };
    space.audited().iter().filter(has_ended).count()
}

#[test]
fn the_screens_of_a_release_show_what_the_commands_print_and_no_secret() {
    let space = Space::new("ui-screens");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({"secret": "hunter22", "more": {"url": "x-hunter22-y"}}));
    space.apply("Web", "bad", &json!({"replicas": "many"}));
    space.wait_web("app");
    eventually("the bad release fails", || {
        let ready = space.condition("web/bad", "Ready")?;
        if ready["status"] == "False" && !ready["message"].as_str().unwrap_or_default().is_empty() {
            Ok(())
        } else {
            Err(ready.to_string())
        }
    });
    space.apply("Web", "app", &json!({"secret": "another33", "more": {"url": "x-another33-y"}, "greeting": "moin"}));
    space.wait_field("web/app", "/status/release/revision", &json!(2));
    assert!(operator.stop());
    space.kubectl(&["scale", "deployment/app-web", "--replicas=5"]).unwrap();
    let ui = Ui::start(&space, &["-n", &space.name, "--kind", "webs.test.tillerman.dev"]);
    let audited = space.audited().len();

    let fleet = ui.page("/");
    let (bad, app) = (fleet.find(">bad<").unwrap(), fleet.find(">app<").unwrap());
    assert!(bad < app, "the release that fails comes first: {fleet}");
    let status = ui.page(&release(&space, "bad", ""));
    let ready = space.condition("web/bad", "Ready").unwrap();
    assert!(status.contains("Why it is not ready") && status.contains(ready["reason"].as_str().unwrap()), "{status}");
    let app = ui.page(&release(&space, "app", ""));
    for text in ["Deployment app-web", "release app", "revision 2", "Secret app-secret"] {
        assert!(app.contains(text), "{text} in {app}");
    }
    let next = ui.page(&release(&space, "app", "/next"));
    assert!(next.contains("<del>  replicas: 5</del>") && next.contains("<ins>  replicas: 1</ins>"), "{next}");
    let history = ui.page(&release(&space, "app", "/history"));
    assert!(history.contains("/history/2\">2</a>") && history.contains("greeting"), "{history}");
    let revision = ui.page(&release(&space, "app", "/history/2"));
    assert!(
        revision.contains("compared with revision 1") && revision.contains("<ins>  greeting: moin</ins>"),
        "{revision}"
    );
    let values = ui.page(&release(&space, "app", "/values"));
    assert!(values.contains("greeting") && values.contains("spec.greeting"), "{values}");

    // The values of the spec are the user's own; those that came into a Secret are shown nowhere else.
    for page in [&fleet, &status, &app, &next, &revision] {
        for secret in ["hunter22", "another33", "aHVudGVyMjI", "YW5vdGhlcjMz"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    }
    let writes: Vec<String> = requests(&space, audited)
        .into_iter()
        .filter(|request| {
            !["get ", "list ", "watch "].iter().any(|verb| request.starts_with(verb)) && !request.contains("dryRun=All")
        })
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    let (head, body) = ui.request(&release(&space, "nowhere", ""));
    assert!(head.starts_with("HTTP/1.1 502") && body.contains("there is no Web nowhere"), "{head} {body}");
}

#[test]
fn a_page_hears_of_a_change_and_requests_nothing_while_nothing_changes() {
    let space = Space::new("ui-live");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.wait_web("app");
    operator.settle();
    let ui = Ui::start(&space, &["-n", &space.name, "--kind", "webs.test.tillerman.dev"]);
    let page = ui.page("/");
    let seen = Ui::version(&page).to_owned();
    let mut stream = ui.send(&format!("/follow/fleet?seen={seen}"));
    operator.settle();
    let audited = space.audited().len();
    let again = ui.page("/");
    assert_eq!(Ui::version(&again), seen);
    operator.settle();
    assert_eq!(requests(&space, audited), Vec::<String>::new(), "a page that is followed reads nothing again");
    space.kubectl(&["annotate", "web/app", "tillerman.dev/paused=true"]).unwrap();
    let (mut text, mut part) = (String::new(), [0; 1024]);
    while !text.contains("event: change") {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the connection ended after {text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    eventually("the page shows the pause", || {
        let page = ui.page("/");
        if page.contains("<span class=\"badge warn\">Paused</span>") { Ok(()) } else { Err(page) }
    });
    let ended = ended_watches(&space);
    drop(stream);
    eventually("the watch ends after the last page", || {
        let now = ended_watches(&space);
        if now > ended { Ok(()) } else { Err(format!("{now} have ended")) }
    });
}

#[test]
fn a_tenant_sees_the_namespace_of_the_kubeconfig_alone() {
    let space = Space::new("ui-tenant");
    space.apply("Web", "app", &json!({}));
    space.restrict(&["--verb=get", "--resource=namespaces"]);
    let rules = ["create", "role", "see", "--verb=get,list,watch", "--resource=webs.test.tillerman.dev,pods,events"];
    space.kubectl(&rules).unwrap();
    space.kubectl(&["create", "rolebinding", "see", "--role=see", &format!("--user={}", space.user)]).unwrap();
    let ui = Ui::start(&space, &["--kind", "webs.test.tillerman.dev"]);
    let title = format!("Releases in {}", space.name);
    eventually("the page shows the namespace", || {
        let page = ui.page("/");
        if page.contains(&title) && page.contains(">app<") { Ok(()) } else { Err(page) }
    });
    let status = ui.page(&release(&space, "app", ""));
    assert!(status.contains("the operator has not looked at its last change yet"), "{status}");
    let (head, body) = ui.request(&release(&space, "app", "/history"));
    assert!(head.starts_with("HTTP/1.1 502") && body.contains("secrets"), "{head} {body}");
    space.kubectl(&["delete", "rolebinding", "see"]).unwrap();
    eventually("the page says what cannot be seen", || {
        let page = Ui::start(&space, &["--kind", "webs.test.tillerman.dev"]).page("/");
        if page.contains("cannot be seen") && !page.contains(">app<") { Ok(()) } else { Err(page) }
    });
}
