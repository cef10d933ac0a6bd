//! Faults that affect all tests: except for dropped watches, these tests run one at a time (`alone::`, `--test-threads=1`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::ControlPlane;
use crate::harness::{Operator, Space, eventually, eventually_within, kubectl};
use crate::proxy::{Proxy, ProxyFault};
use crate::release::{is_deployed, is_deployed_object, is_settled};

/// A namespace whose operator talks through a proxy.
struct Scene {
    space: Space,
    proxy: Proxy,
    kubeconfig: PathBuf,
    watches: PathBuf,
}

impl Scene {
    fn new(test: &str) -> Self {
        let space = Space::new(test);
        let proxy = Proxy::new(&space.kubeconfig(None));
        let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
        let watches = space.watches(&[("Web", "web")]);
        Self { space, proxy, kubeconfig, watches }
    }

    fn operator(&self) -> Operator {
        self.space.operator_with(&self.watches, &self.kubeconfig, &[])
    }

    /// Releases `a`, `b` and `c`, settled.
    fn three(&self, operator: &Operator) {
        for name in ["a", "b", "c"] {
            self.space.apply("Web", name, &json!({"extra": true}));
        }
        for name in ["a", "b", "c"] {
            self.space.wait_web(name);
        }
        operator.settle();
    }

    /// Drift of each sort, and a new specification.
    fn disturb(&self) {
        self.space.kubectl(&["delete", "service/a-web"]).unwrap();
        self.space.kubectl(&["patch", "deployment/b-web", "--type=merge", "-p", r#"{"spec":{"replicas":7}}"#]).unwrap();
        self.space.apply("Web", "c", &json!({"extra": false, "replicas": 2}));
    }

    /// Waits until all of it is repaired, and no revision was written except that of `c`.
    fn corrected(&self) {
        let space = &self.space;
        eventually_within(90, "it comes back", || space.get("service/a-web"));
        space.wait_field("deployment/b-web", "/spec/replicas", &json!(1));
        space.wait_field("deployment/c-web", "/spec/replicas", &json!(2));
        space.wait_gone("configmap/c-extra");
        for (name, revisions) in [("a", 1), ("b", 1), ("c", 2)] {
            eventually(name, || is_deployed(space, &format!("web/{name}")));
            assert_eq!(is_settled(space, name).unwrap(), revisions, "{name}");
        }
    }
}

/// As an API server answers that has just started and does not know its roles yet: a watch that continues where it was has seen no list
/// since it was blind.
#[test]
fn forbidden_watches() {
    let scene = Scene::new("forbidden");
    let operator = scene.operator();
    scene.three(&operator);
    scene.proxy.judge(|request| request.is_watch().then_some(ProxyFault::Answer(403)));
    scene.proxy.cut_all();
    eventually("watches are tried again", || if scene.proxy.faults() > 10 { Ok(()) } else { Err("not yet") });
    scene.disturb();
    scene.proxy.judge(|_| None);
    scene.corrected();
    println!("forbidden watches: {} faults", scene.proxy.faults());
}

#[test]
fn dropped_watches() {
    let scene = Scene::new("dropped");
    let operator = scene.operator();
    scene.three(&operator);
    scene.proxy.judge(|request| request.is_watch().then_some(ProxyFault::CutBefore));
    scene.proxy.cut_all();
    scene.disturb();
    eventually("watches are tried again", || if scene.proxy.faults() > 10 { Ok(()) } else { Err("not yet") });
    scene.proxy.judge(|_| None);
    scene.corrected();
    println!("dropped watches: {} faults", scene.proxy.faults());
}

#[test]
fn versions_that_are_gone() {
    let scene = Scene::new("gone");
    let operator = scene.operator();
    scene.three(&operator);
    // The watch of each kind gets one answer that its version is too old.
    let mut told = Vec::new();
    scene.proxy.judge(move |request| {
        let kind = request.target.split('?').next().unwrap_or_default().to_owned();
        if !request.is_watch() || told.contains(&kind) {
            return None;
        }
        told.push(kind);
        Some(ProxyFault::Gone)
    });
    scene.proxy.cut_all();
    scene.disturb();
    eventually("watches are told", || if scene.proxy.faults() > 3 { Ok(()) } else { Err("not yet") });
    scene.corrected();
    println!("versions gone: {} faults", scene.proxy.faults());
}

#[test]
fn the_api_server_is_killed() {
    let scene = Scene::new("api");
    let operator = scene.operator();
    scene.three(&operator);
    let server = ControlPlane::find();
    for round in 0..3 {
        for name in ["x", "y", "z"] {
            scene.space.apply("Web", &format!("{name}{round}"), &json!({}));
        }
        server.kill();
        // Away for long, and then only for as long as a start takes.
        if round == 0 {
            eventually("the operator notices", || operator.ready().map_or(Ok(()), |_| Err("it says that it is ready")));
        }
        server.start();
        eventually_within(60, "it is ready", || operator.ready());
        for name in ["x", "y", "z"] {
            let name = format!("{name}{round}");
            eventually_within(60, &name, || is_deployed(&scene.space, &format!("web/{name}")));
            assert_eq!(is_settled(&scene.space, &name).unwrap(), 1);
        }
    }
    scene.disturb();
    scene.corrected();
    println!("API server: 3 kills");
}

#[test]
fn etcd_is_compacted_while_nobody_watches() {
    let scene = Scene::new("compact");
    let operator = scene.operator();
    scene.three(&operator);
    let server = ControlPlane::find();
    scene.proxy.judge(|_| Some(ProxyFault::CutBefore));
    scene.proxy.cut_all();
    scene.disturb();
    // The API server's memory of older versions goes with it, and etcd's with the compaction.
    server.kill();
    let etcd = server.flag("etcd-servers");
    let ask = |path: &str, body: &str| -> Value {
        let output = std::process::Command::new("curl")
            .args(["-sf", "-d", body, &format!("{etcd}/v3/kv/{path}")])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let revision = ask("range", r#"{"key":"Lw=="}"#)["header"]["revision"].as_str().unwrap().to_owned();
    let answer = ask("compaction", &json!({"revision": revision, "physical": true}).to_string());
    assert_eq!(answer["header"]["revision"], revision.as_str());
    server.start();
    scene.proxy.judge(|_| None);
    scene.corrected();
    println!("etcd compacted: 1 fault, {} requests cut", scene.proxy.faults());
}

/// A small generator of numbers, which the seed determines.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What a custom resource should be in the end.
#[derive(Clone, Copy, Debug)]
struct Wish {
    replicas: u64,
    extra: bool,
}

/// Requests that go wrong, kills, and what is done to the custom resources meanwhile.
struct Chaos {
    scene: Scene,
    operator: Option<Operator>,
    server: ControlPlane,
    dice: Dice,
    wishes: BTreeMap<String, Option<Wish>>,
    kills: u64,
    cuts: u64,
    restarts: u64,
    changes: u64,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let scene = Scene::new("chaos");
        let mut faults = Dice(seed.rotate_left(17) | 1);
        scene.proxy.judge(move |request| {
            // One of 25 goes wrong. Watches are cut only with all connections, or none would ever last.
            if request.is_watch() || faults.roll(25) != 0 {
                return None;
            }
            let answer = [409, 429, 500, 503].get(usize::try_from(faults.roll(6)).unwrap());
            let cut = if faults.roll(2) == 0 { ProxyFault::CutBefore } else { ProxyFault::CutAfter };
            Some(answer.map_or(cut, |status| ProxyFault::Answer(*status)))
        });
        let operator = Some(scene.operator());
        let server = ControlPlane::find();
        let wishes = BTreeMap::new();
        let mut chaos =
            Self { scene, operator, server, dice: Dice(seed | 1), wishes, kills: 0, cuts: 0, restarts: 0, changes: 0 };
        let all: Vec<_> = (0..300).map(|n| (format!("c{n:03}"), chaos.wish())).collect();
        chaos.apply(&all);
        chaos
    }

    fn wish(&mut self) -> Wish {
        Wish { replicas: 1 + self.dice.roll(4), extra: self.dice.roll(2) == 0 }
    }

    fn name(&mut self) -> String {
        format!("c{:03}", self.dice.roll(300))
    }

    fn apply(&mut self, wishes: &[(String, Wish)]) {
        let item = |(name, wish): &(String, Wish)| {
            json!({"apiVersion": "test.tillerman.dev/v1", "kind": "Web",
                "metadata": {"name": name, "namespace": self.scene.space.name},
                "spec": {"replicas": wish.replicas, "extra": wish.extra}})
        };
        let items: Vec<Value> = wishes.iter().map(item).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        kubectl(&["apply", "-f", "-"], Some(&list.to_string())).unwrap();
        self.wishes.extend(wishes.iter().map(|(name, wish)| (name.clone(), Some(*wish))));
        self.changes += wishes.len() as u64;
    }

    fn step(&mut self) {
        let name = self.name();
        // What is disturbed may be gone, or not made yet.
        let disturb = |args: &[&str]| drop(self.scene.space.kubectl(args));
        match self.dice.0 % 100 {
            0..40 => {
                // One that is being deleted takes no new specification.
                let mut batch: BTreeMap<_, _> = (0..5).map(|_| (self.name(), self.wish())).collect();
                batch.retain(|name, _| self.wishes[name].is_some());
                self.apply(&batch.into_iter().collect::<Vec<_>>());
            }
            40..50 => {
                let object = format!("web/{name}");
                self.scene.space.kubectl(&["delete", &object, "--wait=false", "--ignore-not-found"]).unwrap();
                self.wishes.insert(name, None);
                self.changes += 1;
            }
            50..75 => {
                disturb(&["delete", &format!("service/{name}-web"), "--wait=false"]);
                self.changes += 1;
            }
            75..90 => {
                let patch = r#"{"data":{"greeting":"drift"}}"#;
                disturb(&["patch", &format!("configmap/{name}-config"), "--type=merge", "-p", patch]);
                self.changes += 1;
            }
            90..95 => {
                self.scene.proxy.cut_all();
                self.cuts += 1;
            }
            95..99 => {
                if let Some(operator) = self.operator.take() {
                    operator.kill();
                }
                self.operator = Some(self.scene.operator());
                self.kills += 1;
            }
            _ => {
                self.server.kill();
                self.server.start();
                self.restarts += 1;
            }
        }
    }

    /// What is not as it should be.
    fn wrong(&self) -> Result<Vec<String>, String> {
        let space = &self.scene.space;
        let webs = space.list("webs")?;
        let objects = ["configmaps", "services", "deployments", "secrets"].map(|kind| space.list(kind));
        let objects = objects.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut wrong = Vec::new();
        for (name, wish) in &self.wishes {
            let web = webs.iter().find(|w| name_of(w) == *name);
            let mine: Vec<_> = objects.iter().filter(|o| name_of(o).starts_with(&format!("{name}-"))).collect();
            let of_release = objects.iter().filter(|o| o["metadata"]["labels"]["name"] == name.as_str());
            let records: Vec<_> =
                of_release.map(|r| r["metadata"]["labels"]["status"].as_str().unwrap_or("?")).collect();
            let Some(wish) = wish else {
                if web.is_some() || !mine.is_empty() || !records.is_empty() {
                    wrong.push(format!("{name} is not gone: {} objects, records {records:?}", mine.len()));
                }
                continue;
            };
            let settled = web.is_some_and(is_deployed_object)
                && records.iter().filter(|s| **s == "deployed").count() == 1
                && !records.iter().any(|s| s.starts_with("pending"));
            let deployment = mine.iter().find(|o| o["kind"] == "Deployment");
            let replicas = deployment.and_then(|d| d["spec"]["replicas"].as_u64());
            let drifted = mine.iter().any(|o| o["data"]["greeting"] == "drift");
            if !settled || drifted || replicas != Some(wish.replicas) || mine.len() != 3 + usize::from(wish.extra) {
                let status = web.map(|w| w["status"]["conditions"].to_string());
                wrong.push(format!("{name} is not {wish:?}: {} objects, records {records:?}, {status:?}", mine.len()));
            }
        }
        Ok(wrong)
    }
}

/// 300 custom resources created, changed, deleted and disturbed while requests fail, connections are cut, the operator
/// is killed and the API server too. `CHAOS_SECONDS` (20 without), `CHAOS_SEED`.
#[test]
fn everything_at_random() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = number("CHAOS_SECONDS").unwrap_or(20);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds}");
    let mut chaos = Chaos::new(seed);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(seconds) {
        chaos.step();
    }
    let refused = chaos.scene.proxy.faults();
    chaos.scene.proxy.judge(|_| None);
    eventually_within(300, "all end right", || match chaos.wrong()? {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(format!("{} do not: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"))),
    });
    println!(
        "at random: {refused} requests refused or cut, {} times all connections, {} kills of the operator, {} of the API \
         server, {} changes and drifts; 300 custom resources ended right",
        chaos.cuts, chaos.kills, chaos.restarts, chaos.changes
    );
}
