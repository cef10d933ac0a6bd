//! The operator is killed after each single write: one run per write. Whatever it leaves, the next one ends right.
//!
//! Codes are rules of docs/design/applying.md.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agents::Agents;
use crate::etcd::restore;
use crate::harness::{Operator, Space, eventually, eventually_within};
use crate::kubelet::Kubelet;
use crate::node::Node;
use crate::proxy::{Proxy, ProxyFault};
use crate::release::{Sight, Web, apply, chunked, hooked};
use crate::share::Share;

/// Whether a release of this name is as it should be.
pub type Look<'a> = &'a (dyn Fn(&Sight, &str) -> Result<(), String> + Sync);
/// Does something to a release of this name.
pub type Act<'a> = &'a (dyn Fn(&Scene, &str) + Sync);

/// What is killed in the middle of what.
pub struct Sweep<'a> {
    /// For the names of namespaces.
    pub test: &'a str,
    /// The chart of the kind `Web`.
    pub chart: &'a str,
    /// How many operators are killed at the same time, each in a namespace of its own: what waits can wait side by side.
    pub lanes: u64,
    /// What comes before, and how that ends.
    pub prepare: (Act<'a>, Look<'a>),
    /// The operator is killed in the middle of what it does about this.
    pub act: Act<'a>,
    /// The right end.
    pub end: Look<'a>,
}

impl Sweep<'_> {
    /// Kills the operator after the first write of `act`, then after the second, and so on until it makes fewer; each time with
    /// a release of its own; of a [`Share`] only after the writes in it. How many writes there are, at most.
    pub fn run(&self) -> u64 {
        self.run_with(ProxyFault::Freeze)
    }

    /// The same, and each write is still done, or not, as the fault says.
    pub fn run_with(&self, fault: ProxyFault) -> u64 {
        let kills: u64 = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..self.lanes).map(|lane| scope.spawn(move || self.lane(lane, fault))).collect();
            // A lane's own words, which would be lost in a thread.
            let said = |panic: Box<dyn std::any::Any + Send>| {
                panic.downcast::<String>().map_or_else(|_| "a lane failed".to_owned(), |text| *text)
            };
            lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| panic!("{}", said(panic)))).sum()
        });
        let when = if fault == ProxyFault::Freeze { "after" } else { "before" };
        println!("{}: killed {when} each of {kills} writes{}", self.test, Share::of_variable());
        Share::of_variable().at_most(kills)
    }

    fn lane(&self, lane: u64, fault: ProxyFault) -> u64 {
        let scene = Scene::new(self.test, self.chart);
        let mut operator = scene.start();
        let mut kills = 0;
        let Share { remainder, of } = Share::of_variable();
        let stride = usize::try_from(self.lanes * of).unwrap();
        for write in (1 + remainder + of * lane..).step_by(stride) {
            let name = format!("r{write}");
            (self.prepare.0)(&scene, &name);
            eventually(&format!("{name} is prepared"), || (self.prepare.1)(&scene.sight()?, &name));
            operator.settle();
            let seen = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&seen);
            scene.proxy.judge(move |request| {
                let is_last = request.is_write() && counter.fetch_add(1, Ordering::Relaxed) + 1 == write;
                is_last.then_some(fault)
            });
            (self.act)(&scene, &name);
            let end = || (self.end)(&scene.sight()?, &name);
            if scene.is_killed(&operator, &format!("{}, write {write}", self.test), end) {
                operator.kill();
                kills += 1;
                scene.proxy.judge(|_| None);
                operator = scene.start();
            } else {
                return kills;
            }
            let what = format!("{}, after write {write} in {}", self.test, scene.name);
            eventually_within(240, &what, end);
        }
        kills
    }
}

/// A namespace whose operator talks through a proxy.
pub struct Scene {
    space: Space,
    proxy: Proxy,
    kubeconfig: PathBuf,
    watches: PathBuf,
    /// Kinds of custom resources beside `Web`.
    kinds: &'static [&'static str],
    pods: Pods,
}

/// Replaces kubelets until it is dropped.
enum Pods {
    Ended { _by: Kubelet },
    Run(Box<Node>),
    Agents(Box<Agents>),
}

impl std::ops::Deref for Scene {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Scene {
    fn new(test: &str, chart: &str) -> Self {
        let space = Space::new(test);
        let proxy = Proxy::new(&space.kubeconfig(None));
        let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
        let (watches, kinds) = match chart {
            "large" => (space.watches(&[("Web", &space.large_chart())]), &[][..]),
            "restored" => (restore::watches(&space), restore::KINDS),
            chart => (space.watches(&[("Web", chart)]), &[][..]),
        };
        let pods = match chart {
            "members" => Pods::Ended { _by: Kubelet::of_members(&space, |_| (0, String::new())) },
            "etcd" | "restored" => Pods::Run(Box::new(Node::new(&space))),
            "primary" => Pods::Agents(Box::new(Agents::with_secret(&space))),
            _ => Pods::Ended { _by: Kubelet::new(&space) },
        };
        Self { space, proxy, kubeconfig, watches, kinds, pods }
    }

    /// What runs pods of etcd.
    pub fn node(&self) -> &Node {
        match &self.pods {
            Pods::Run(node) => node,
            Pods::Ended { .. } | Pods::Agents(_) => panic!("no pod of etcd runs here"),
        }
    }

    /// The agents of a database with a primary.
    pub fn agents(&self) -> &Agents {
        match &self.pods {
            Pods::Agents(agents) => agents,
            _ => panic!("no agent runs here"),
        }
    }

    fn sight(&self) -> Result<Sight, String> {
        Sight::with(&self.space, self.kinds)
    }

    fn start(&self) -> Operator {
        self.space.operator_with(&self.watches, &self.kubeconfig, &[])
    }

    /// Waits until a write froze the proxy, or the end came without that and the operator rests.
    fn is_killed(&self, operator: &Operator, what: &str, end: impl Fn() -> Result<(), String>) -> bool {
        let mut looked = Instant::now();
        eventually_within(240, what, || {
            if self.proxy.is_frozen() {
                return Ok(true);
            }
            if looked.elapsed() < Duration::from_millis(700) {
                return Err("not looked at".to_owned());
            }
            looked = Instant::now();
            end()?;
            let sent = operator.sent();
            std::thread::sleep(Duration::from_millis(1500));
            if self.proxy.is_frozen() {
                return Ok(true);
            }
            let rests = operator.sent() == sent && !self.proxy.is_freezing();
            if rests { Ok(false) } else { Err("it does not rest".to_owned()) }
        })
    }
}

fn put(space: &Space, name: &str, web: &Web) {
    apply(space, &[name.to_owned()], web);
}

fn nothing(_: &Scene, _: &str) {}

fn install(space: &Scene, name: &str) {
    space.apply("Web", name, &json!({"extra": true}));
}

fn is_installed(sight: &Sight, name: &str) -> Result<(), String> {
    sight.is_web(name, &["ConfigMap/N-extra"])
}

fn delete(space: &Scene, name: &str) {
    space.delete(&format!("web/{name}"));
}

#[test]
fn after_each_write_of_an_install() {
    let sweep = Sweep {
        test: "kill-install",
        chart: "web",
        lanes: 2,
        prepare: (&nothing, &|_, _| Ok(())),
        act: &install,
        end: &is_installed,
    };
    assert!(sweep.run() > 6);
}

/// D1: what an installation has made before there is a record of it is found by the kinds that came with the finalizer, also when no
/// release still uses one of them.
#[test]
fn what_an_install_that_was_killed_has_made_goes_when_other_values_do_not_have_it() {
    let scene = Scene::new("kill-changed", "objects");
    let space: &Space = &scene;
    let mut operator = scene.start();
    let mut most = 0;
    for write in 1..=4 {
        let name = format!("r{write}");
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-config")}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{name}-web")},
            "spec": {"ports": [{"port": 80}]}});
        // An event of the release before is a write, too.
        operator.settle();
        let mut seen = 0;
        scene.proxy.judge(move |request| {
            seen += u64::from(request.is_write());
            (request.is_write() && seen == write).then_some(ProxyFault::Freeze)
        });
        space.apply("Web", &name, &json!({"objects": [config, service]}));
        eventually("a write freezes the proxy", || if scene.proxy.is_frozen() { Ok(()) } else { Err("not yet") });
        operator.kill();
        let sight = Sight::of(space).unwrap();
        if sight.history(&name).unwrap().is_empty() {
            most = most.max(sight.objects(&name).len());
        }
        space.apply("Web", &name, &json!({"objects": [config]}));
        scene.proxy.judge(|_| None);
        operator = scene.start();
        eventually(&format!("after write {write}"), || {
            let sight = Sight::of(space)?;
            sight.is_deployed(&name)?;
            sight.is_settled(&name)?;
            let (objects, wanted) = (sight.objects(&name), format!("ConfigMap/{name}-config"));
            if objects.iter().eq([&wanted]) { Ok(()) } else { Err(format!("{objects:?}")) }
        });
    }
    assert_eq!(most, 2, "a kill came between the objects and the record");
    println!("install, killed after each of 4 writes and changed");
}

#[test]
fn after_each_write_of_an_upgrade() {
    let sweep = Sweep {
        test: "kill-upgrade",
        chart: "web",
        lanes: 2,
        prepare: (&install, &is_installed),
        act: &|space, name| space.apply("Web", name, &json!({"replicas": 3, "kept": true})),
        end: &|sight, name| {
            sight.is_web(name, &["ConfigMap/N-kept"])?;
            let replicas = sight.field("Deployment", &format!("{name}-web"), "/spec/replicas")?;
            let revisions = sight.is_settled(name)?;
            if replicas == 3 && revisions == 2 { Ok(()) } else { Err(format!("{replicas} and {revisions}")) }
        },
    };
    assert!(sweep.run() > 6);
}

#[test]
fn after_each_write_of_an_uninstall() {
    let sweep = Sweep {
        test: "kill-uninstall",
        chart: "web",
        lanes: 2,
        prepare: (&install, &is_installed),
        act: &delete,
        end: &Sight::is_gone,
    };
    assert!(sweep.run() > 4);
}

/// D3: a run of a hook is noted before its object is made, and its outcome before the object is deleted.
#[test]
fn after_each_write_of_an_upgrade_with_hooks() {
    let sweep = Sweep {
        test: "kill-hooks",
        chart: "hooks",
        lanes: 4,
        prepare: (&|space, name| put(space, name, &hooked::install()), &hooked::is_installed),
        act: &|space, name| put(space, name, &hooked::upgrade()),
        end: &hooked::is_upgraded,
    };
    assert!(sweep.run() > 12);
}

/// The post-upgrade hook fails as often as it may, and the release goes back, with the hooks of that.
#[test]
fn after_each_write_of_a_failing_upgrade_and_its_rollback() {
    let sweep = Sweep {
        test: "kill-rollback",
        chart: "hooks",
        lanes: 6,
        prepare: (&|space, name| put(space, name, &hooked::install()), &hooked::is_installed),
        act: &|space, name| put(space, name, &hooked::fail()),
        end: &hooked::is_rolled_back,
    };
    assert!(sweep.run() > 25);
}

/// D2: the delete hooks run, and what they made goes with the custom resource.
#[test]
fn after_each_write_of_an_uninstall_with_hooks() {
    let sweep = Sweep {
        test: "kill-delhooks",
        chart: "hooks",
        lanes: 2,
        prepare: (&|space, name| put(space, name, &hooked::install()), &hooked::is_installed),
        act: &delete,
        end: &Sight::is_gone,
    };
    assert!(sweep.run() > 6);
}

/// D4: the chunks of a record are written before its head, and those of a revision that is forgotten go with it.
#[test]
fn after_each_write_of_an_upgrade_in_chunks() {
    let sweep = Sweep {
        test: "kill-chunks",
        chart: "large",
        lanes: 2,
        prepare: (
            &|space, name| {
                put(space, name, &chunked::with("one"));
                eventually("the first revision", || chunked::is_at(&Sight::of(space)?, name, "one", &[1]));
                put(space, name, &chunked::with("two"));
            },
            &|sight, name| chunked::is_at(sight, name, "two", &[1, 2]),
        ),
        act: &|space, name| put(space, name, &chunked::with("three")),
        end: &|sight, name| chunked::is_at(sight, name, "three", &[2, 3]),
    };
    assert!(sweep.run() > 9);
}

#[test]
fn after_each_write_of_an_uninstall_in_chunks() {
    let sweep = Sweep {
        test: "kill-unchunk",
        chart: "large",
        lanes: 2,
        prepare: (&|space, name| put(space, name, &chunked::with("one")), &|sight, name| {
            chunked::is_at(sight, name, "one", &[1])
        }),
        act: &delete,
        end: &Sight::is_gone,
    };
    assert!(sweep.run() > 4);
}

/// D4: what a killed install left goes also when nobody ever finishes it.
#[test]
fn chunks_of_an_install_that_was_killed_go_with_its_custom_resource() {
    let scene = Scene::new("kill-orphans", "large");
    let space: &Space = &scene;
    let mut operator = scene.start();
    let mut most = 0;
    for write in 1..=5 {
        let name = format!("r{write}");
        let mut seen = 0;
        scene.proxy.judge(move |request| {
            seen += u64::from(request.is_write());
            (request.is_write() && seen == write).then_some(ProxyFault::Freeze)
        });
        put(space, &name, &chunked::with("one"));
        eventually("a write freezes the proxy", || if scene.proxy.is_frozen() { Ok(()) } else { Err("not yet") });
        operator.kill();
        most = most.max(chunked::chunks(&Sight::of(space).unwrap(), &name).len());
        delete(&scene, &name);
        scene.proxy.judge(|_| None);
        operator = scene.start();
        eventually(&format!("nothing is left after write {write}"), || Sight::of(space)?.is_gone(&name));
    }
    assert!(most > 1, "a kill came between the chunks and the head");
    println!("install in chunks, killed after each of 5 writes and deleted");
}
