//! The operator is killed after each single write: one run per write. Whatever it leaves, the next one ends right.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::harness::{Operator, Space, eventually};
use crate::proxy::{Fault, Proxy};
use crate::release::{is_deployed, is_settled, objects, set};

/// What is tried.
struct Sweep {
    space: Space,
    proxy: Proxy,
    kubeconfig: PathBuf,
    watches: PathBuf,
}

impl Sweep {
    fn new(test: &str, kinds: &[(&str, &str)]) -> Self {
        let space = Space::new(test);
        let proxy = Proxy::new(&space.kubeconfig(None));
        let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
        let watches = space.watches(kinds);
        Self { space, proxy, kubeconfig, watches }
    }

    fn start(&self) -> Operator {
        self.space.operator_with(&self.watches, &self.kubeconfig, &[])
    }

    /// Kills the operator after the first write of `act`, then after the second, and so on until it makes fewer. `prepare`
    /// and `act` get the name of a release of their own; `check` waits for its right end.
    fn run(&self, what: &str, prepare: impl Fn(&str), act: impl Fn(&str), check: impl Fn(&str)) {
        let mut operator = self.start();
        let mut kills = 0;
        for write in 1.. {
            let name = format!("r{write}");
            prepare(&name);
            operator.settle();
            let seen = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&seen);
            self.proxy.judge(move |request| {
                let is_last = request.is_write() && counter.fetch_add(1, Ordering::Relaxed) + 1 == write;
                is_last.then_some(Fault::Freeze)
            });
            act(&name);
            let done = eventually(&format!("{what}, write {write}"), || {
                if self.proxy.is_frozen() {
                    return Ok(false);
                }
                let settled = operator.sent();
                std::thread::sleep(std::time::Duration::from_millis(1500));
                let rests = !self.proxy.is_frozen() && operator.sent() == settled;
                if rests { Ok(true) } else { Err(format!("{} writes", seen.load(Ordering::Relaxed))) }
            });
            if !done {
                operator.kill();
                kills += 1;
                self.proxy.judge(|_| None);
                operator = self.start();
            }
            check(&name);
            if done {
                println!("{what}: killed after each of {kills} writes");
                assert!(kills > 2, "{what} made {kills} writes");
                return;
            }
        }
    }
}

fn web(space: &Space, name: &str, more: &[&str]) {
    let mut wanted: Vec<String> =
        ["ConfigMap/N-config", "Service/N-web", "Deployment/N-web"].iter().map(|o| o.replace('N', name)).collect();
    wanted.extend(more.iter().map(|o| o.replace('N', name)));
    eventually(&format!("{name} is as it should be"), || {
        is_deployed(space, &format!("web/{name}"))?;
        is_settled(space, name)?;
        let found = objects(space, name)?;
        if found == set(&wanted) { Ok(()) } else { Err(format!("it has {found:?}")) }
    });
}

#[test]
fn after_each_write_of_an_install() {
    let sweep = Sweep::new("kill-install", &[("Web", "web")]);
    let space = &sweep.space;
    sweep.run(
        "install",
        |_| {},
        |name| space.apply("Web", name, &json!({"extra": true})),
        |name| web(space, name, &["ConfigMap/N-extra"]),
    );
}

#[test]
fn after_each_write_of_an_upgrade() {
    let sweep = Sweep::new("kill-upgrade", &[("Web", "web")]);
    let space = &sweep.space;
    sweep.run(
        "upgrade",
        |name| {
            space.apply("Web", name, &json!({"extra": true}));
            web(space, name, &["ConfigMap/N-extra"]);
        },
        |name| space.apply("Web", name, &json!({"replicas": 3, "kept": true})),
        |name| {
            web(space, name, &["ConfigMap/N-kept"]);
            space.wait_field(&format!("deployment/{name}-web"), "/spec/replicas", &json!(3));
            assert!(is_settled(space, name).unwrap() <= 3, "no more than one revision for each attempt");
        },
    );
}

#[test]
fn after_each_write_of_an_uninstall() {
    let sweep = Sweep::new("kill-uninstall", &[("Web", "web")]);
    let space = &sweep.space;
    sweep.run(
        "uninstall",
        |name| {
            space.apply("Web", name, &json!({"extra": true}));
            web(space, name, &["ConfigMap/N-extra"]);
        },
        |name| {
            space.kubectl(&["delete", &format!("web/{name}"), "--wait=false"]).unwrap();
        },
        |name| {
            space.wait_gone(&format!("web/{name}"));
            eventually("nothing is left", || {
                let left = objects(space, name)?;
                let records =
                    space.kubectl(&["get", "secrets", "-l", &format!("owner=helm,name={name}"), "-o", "name"])?;
                if left.is_empty() && records.is_empty() { Ok(()) } else { Err(format!("{left:?} {records}")) }
            });
        },
    );
}
