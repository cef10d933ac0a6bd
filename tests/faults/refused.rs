//! Each request in turn is refused, cut off, or answered too late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::harness::{Space, eventually_within};
use crate::proxy::{Fault, Proxy};
use crate::release::{is_deployed, is_settled, objects};

const FAULTS: [(&str, Fault); 6] = [
    ("conflict", Fault::Answer(409)),
    ("throttled", Fault::Answer(429)),
    ("broken", Fault::Answer(500)),
    ("before", Fault::CutBefore),
    ("after", Fault::CutAfter),
    ("late", Fault::Hang),
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

#[test]
fn each_request_of_a_release_in_each_way() {
    let space = Space::new("refused");
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
    let watches = space.watches(&[("Web", "web")]);
    let _operator = space.operator_with(&watches, &kubeconfig, &["--max-concurrent-reconciles=100"]);
    let names: Vec<String> =
        (0..FAULTS.len()).flat_map(|fault| (1..=14).map(move |request| format!("webf{fault}x{request}x"))).collect();
    for spec in [json!({"extra": true}), json!({"replicas": 2})] {
        for name in &names {
            space.apply("Web", name, &spec);
        }
        for name in &names {
            eventually_within(180, &format!("{name} is deployed ({:?})", done.lock().unwrap().get(name)), || {
                is_deployed(&space, &format!("web/{name}"))?;
                is_settled(&space, name)
            });
        }
    }
    for name in &names {
        assert_eq!(objects(&space, name).unwrap().len(), 3, "{name}");
    }
    let faulted = done.lock().unwrap().len();
    println!("{faulted} requests of {} releases refused, cut or late", names.len());
    assert!(faulted > names.len() * 3 / 4, "{faulted} of {}", names.len());
    for name in &names {
        space.kubectl(&["delete", &format!("web/{name}"), "--wait=false"]).unwrap();
    }
    for name in &names {
        space.wait_gone(&format!("web/{name}"));
    }
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
    let mut faults = 0;
    for (what, fault) in FAULTS.iter().filter(|(_, fault)| *fault != Fault::Hang) {
        for at in 1.. {
            let mut seen = 0;
            let fault = *fault;
            proxy.judge(move |_| {
                seen += 1;
                (seen == at).then_some(fault)
            });
            let before = proxy.faults();
            space.kubectl(&["delete", "service/app-web"]).unwrap();
            let operator = space.operator_with(&watches, &kubeconfig, &[]);
            eventually_within(120, &format!("{what} of request {at}: it is repaired"), || space.get("service/app-web"));
            eventually_within(120, &format!("{what} of request {at}: it is ready"), || operator.ready());
            operator.kill();
            if proxy.faults() == before {
                break;
            }
            faults += 1;
        }
    }
    println!("{faults} requests of a start refused or cut");
    assert!(faults > 20, "{faults}");
}
