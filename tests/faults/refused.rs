//! Each request in turn is refused, cut off, or answered too late.
//!
//! Codes are rules of docs/design/applying.md.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::harness::{Space, definition, established, eventually, eventually_within, kubectl};
use crate::kubelet::Kubelet;
use crate::proxy::{Proxy, ProxyFault, Seen};
use crate::release::{Sight, Web, apply, expect, history, hooked, stalled};
use crate::share::Share;

const FAULTS: [(&str, ProxyFault); 7] = [
    ("conflict", ProxyFault::Answer(409)),
    ("throttled", ProxyFault::Answer(429)),
    ("broken", ProxyFault::Answer(500)),
    ("before", ProxyFault::CutBefore),
    ("after", ProxyFault::CutAfter),
    ("late", ProxyFault::Hang),
    ("overtaken", ProxyFault::Delay),
];

/// The release that a request is for, by the names of this file: `NAME-fFAULTxREQUESTx`.
fn release(target: &str, body: &str) -> Option<(String, usize, usize)> {
    let find = |text: &str| {
        let start = text.find("webf")?;
        let name: String = text[start..].chars().take_while(char::is_ascii_alphanumeric).collect();
        let mut parts = name.strip_prefix("webf")?.trim_end_matches('x').split('x');
        Some((name.clone(), parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    find(target).or_else(|| find(body))
}

/// One release for each request and each fault of [`FAULTS`], all at the same time.
struct Sweep<'a> {
    test: &'a str,
    chart: &'a str,
    /// Which requests of a release go wrong: its first is 1.
    requests: RangeInclusive<usize>,
    /// What is done with each release, and how it ends.
    steps: &'a [(Web, Look<'a>)],
}

type Look<'a> = &'a dyn Fn(&Sight, &str) -> Result<(), String>;

impl Sweep<'_> {
    fn run(&self) {
        let space = Space::new(self.test);
        let proxy = Proxy::new(&space.kubeconfig(None));
        let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let done: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (counter, faults) = (Arc::clone(&counts), Arc::clone(&done));
        proxy.judge(move |request| {
            if request.target.contains("/events") {
                return None;
            }
            let (name, fault, at) = release(request.target, request.body)?;
            let mut counts = counter.lock().unwrap();
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            let (what, fault) = FAULTS[fault];
            (*count == at).then(|| {
                let path = request.target.split('?').next().unwrap_or_default();
                faults.lock().unwrap().insert(name, format!("{what}: {} {path}", request.method));
                fault
            })
        });
        let watches = space.watches(&[("Web", self.chart)]);
        let _kubelet = Kubelet::new(&space);
        let _operator = space.operator_with(&watches, &kubeconfig, &["--max-concurrent-reconciles=100"]);
        let cells = (0..FAULTS.len()).flat_map(|fault| self.requests.clone().map(move |request| (fault, request)));
        let names = Share::of_variable().of(cells.map(|(fault, request)| format!("webf{fault}x{request}x")));
        for (act, look) in self.steps {
            apply(&space, &names, act);
            all(&space, self.test, &names, &done, look);
        }
        let faulted = done.lock().unwrap().len();
        println!(
            "{}: {faulted} requests of {} releases refused, cut or late{}",
            self.test,
            names.len(),
            Share::of_variable()
        );
        assert!(faulted > names.len() * 3 / 4, "{faulted} of {}", names.len());
        space.kubectl(&["delete", "webs.test.tillerman.dev", "--all", "--wait=false"]).unwrap();
        all(&space, self.test, &names, &done, &Sight::is_gone);
    }
}

/// Waits until all releases are as they should be.
fn all(space: &Space, what: &str, names: &[String], done: &Mutex<BTreeMap<String, String>>, look: Look<'_>) {
    eventually_within(240, what, || {
        let sight = Sight::of(space)?;
        let wrong = |name: &String| look(&sight, name).err().map(|why| (name.clone(), why));
        let wrong: BTreeMap<String, String> = names.iter().filter_map(wrong).collect();
        let Some((name, why)) = wrong.iter().next() else { return Ok(()) };
        Err(format!("{} of {}, such as {name} ({:?}): {why}", wrong.len(), names.len(), done.lock().unwrap().get(name)))
    });
}

#[test]
fn each_request_of_a_release_in_each_way() {
    let web = |spec: Value| (json!({}), spec);
    Sweep {
        test: "refused",
        chart: "web",
        requests: 1..=14,
        steps: &[
            (web(json!({"extra": true})), &|sight, name| sight.is_web(name, &["ConfigMap/N-extra"])),
            (web(json!({"replicas": 2})), &|sight, name| sight.is_web(name, &[])),
        ],
    }
    .run();
}

#[test]
fn each_request_of_a_release_with_hooks_in_each_way() {
    Sweep {
        test: "refused-hooks",
        chart: "hooks",
        requests: 7..=30,
        steps: &[(hooked::install(), &hooked::is_installed), (hooked::upgrade(), &hooked::is_upgraded)],
    }
    .run();
}

#[test]
fn each_request_of_a_rollback_in_each_way() {
    Sweep {
        test: "refused-rollback",
        chart: "hooks",
        requests: 7..=36,
        steps: &[(stalled::install(), &hooked::is_installed), (stalled::upgrade(), &stalled::is_rolled_back)],
    }
    .run();
}

#[test]
fn each_request_of_a_start() {
    let space = Space::new("start");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    let watches = space.watches(&[("Web", "web")]);
    space.apply("Web", "app", &json!({}));
    let operator = space.operator_with(&watches, &kubeconfig, &[]);
    space.wait_web("app");
    operator.settle();
    operator.kill();
    let (mut faults, share) = (0, Share::of_variable());
    for (what, fault) in FAULTS.iter().filter(|(_, fault)| *fault != ProxyFault::Hang) {
        for at in (1 + share.remainder..).step_by(usize::try_from(share.of).unwrap()) {
            let mut seen = 0;
            let fault = *fault;
            proxy.judge(move |_| {
                seen += 1;
                (seen == at).then_some(fault)
            });
            let before = proxy.faults();
            space.kubectl(&["delete", "service/app-web"]).unwrap();
            let operator = space.operator_with(&watches, &kubeconfig, &[]);
            eventually_within(240, &format!("{what} of request {at}: it is repaired"), || space.get("service/app-web"));
            eventually_within(240, &format!("{what} of request {at}: it is ready"), || operator.ready());
            operator.kill();
            if proxy.faults() == before {
                break;
            }
            faults += 1;
        }
    }
    println!("{faults} requests of a start refused or cut{share}");
    assert!(share.at_most(faults) > 20, "{faults}");
}

/// D2: hooks are skipped when they cannot be read, and not when the API server is away for a moment.
#[test]
fn an_api_server_that_is_away_does_not_skip_delete_hooks() {
    let space = Space::new("away");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    let operator = space.operator_with(&space.watches(&[("Web", "hooks")]), &kubeconfig, &[]);
    // The hook's kind has to be looked up when the custom resource goes: it is not served yet.
    let group = format!("{}.tillerman.dev", space.name);
    let hook = json!({"name": "del", "kind": "Late", "apiVersion": format!("{group}/v1"), "events": "pre-delete"});
    space.apply("Web", "app", &json!({"hooks": [hook]}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let lookups = ["/api".to_owned(), "/apis".to_owned(), format!("/apis/{group}/v1")];
    proxy.judge(move |request| {
        let path = request.target.split('?').next().unwrap_or_default();
        lookups.iter().any(|lookup| lookup == path).then_some(ProxyFault::CutBefore)
    });
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&definition(&group, "Late"))).unwrap();
    let definition = format!("crd/lates.{group}");
    established(&definition);
    let before = proxy.faults();
    space.kubectl(&["delete", "web/app", "--wait=false"]).unwrap();
    eventually("it is looked up in vain", || if proxy.faults() > before + 2 { Ok(()) } else { Err("not yet") });
    space.get("web/app").expect("it waits for its hook");
    proxy.judge(|_| None);
    space.wait_gone("web/app");
    eventually("the hook ran", || {
        let requests = space.requests();
        if requests.contains(&"create lates".to_owned()) { Ok(()) } else { Err(format!("{requests:?}")) }
    });
    kubectl(&["delete", &definition, "--wait=false"], None).unwrap();
}

/// The answer to the creation of a hook's object is lost, and so is what the watch says of it; when it is found at last, it has
/// ended. No further event comes, and it is not waited for.
#[test]
fn a_hook_that_ended_before_anybody_saw_it_is_not_waited_for() {
    let space = Space::new("unseen");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    let operator = space.operator_with(&space.watches(&[("Web", "hooks")]), &kubeconfig, &[]);
    let _kubelet = Kubelet::new(&space);
    let hook = |name: &str| json!({"name": name, "kind": "Job", "events": "post-upgrade"});
    space.apply("Web", "app", &json!({"hooks": [{"name": "early", "kind": "Job", "events": "post-install"}]}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    // Nothing is heard of Jobs, nor of records, whose events could start a pass by chance.
    let is_of = |target: &str, kind: &str| target.split('?').next().unwrap_or_default().ends_with(kind);
    let is_deaf = move |request: &Seen<'_>| {
        request.method == "GET" && (is_of(request.target, "/jobs") || is_of(request.target, "/secrets"))
    };
    let mut created = false;
    proxy.judge(move |request| match request.method.as_str() {
        _ if is_deaf(request) => Some(ProxyFault::CutBefore),
        "POST" if is_of(request.target, "/jobs") => {
            let again = std::mem::replace(&mut created, true);
            Some(if again { ProxyFault::Answer(500) } else { ProxyFault::CutAfter })
        }
        _ => None,
    });
    proxy.cut_all();
    space.apply("Web", "app", &json!({"greeting": "two", "hooks": [hook("unseen")]}));
    space.wait("job/app-unseen", "Complete", "True");
    proxy.judge(move |request| is_deaf(request).then_some(ProxyFault::CutBefore));
    let states = ["superseded", "deployed"].map(str::to_owned);
    eventually("it is upgraded", || expect("history", &history(&space, "app")?, &states.to_vec()));
}

/// A4. A template that meets an API server in trouble is rendered again, and not left as one that fails.
#[test]
fn a_lookup_that_was_refused_is_made_again() {
    let space = Space::new("lookedup");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    space.kubectl(&["create", "secret", "generic", "known", "--from-literal=word=hidden"]).unwrap();
    space.kubectl(&["create", "configmap", "known", "--from-literal=word=open"]).unwrap();
    proxy.judge(|request| request.target.contains("/configmaps/known").then_some(ProxyFault::Answer(500)));
    let _operator = space.operator_with(&space.watches(&[("Web", "lookup")]), &kubeconfig, &["--reconcile-period=1h"]);
    space.apply("Web", "app", &json!({"version": "v1", "kind": "Secret"}));
    space.wait("web/app", "Stalled", "True");
    proxy.judge(|_| None);
    space.wait("web/app", "Deployed", "True");
}
