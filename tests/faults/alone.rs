//! Faults that hit everybody: dropped watches aside, these tests run one at a time (`alone::`, `--test-threads=1`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Program, wait_for_api_server};
use crate::harness::{Operator, Space, eventually, eventually_within, kubectl};
use crate::proxy::{Fault, Proxy};
use crate::release::{is_deployed, is_settled, objects};

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

    /// Waits until all that is mended, and no revision was written but that of `c`.
    fn mended(&self) {
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

#[test]
fn dropped_watches() {
    let scene = Scene::new("dropped");
    let operator = scene.operator();
    scene.three(&operator);
    scene.proxy.judge(|request| request.is_watch().then_some(Fault::CutBefore));
    scene.proxy.cut_all();
    scene.disturb();
    eventually("watches are tried again", || if scene.proxy.faults() > 10 { Ok(()) } else { Err("not yet") });
    scene.proxy.judge(|_| None);
    scene.mended();
    println!("dropped watches: {} faults", scene.proxy.faults());
}

#[test]
fn versions_that_are_gone() {
    let scene = Scene::new("gone");
    let operator = scene.operator();
    scene.three(&operator);
    // Each kind's watch is told once that its version is too old.
    let mut told = Vec::new();
    scene.proxy.judge(move |request| {
        let kind = request.target.split('?').next().unwrap_or_default().to_owned();
        if !request.is_watch() || told.contains(&kind) {
            return None;
        }
        told.push(kind);
        Some(Fault::Gone)
    });
    scene.proxy.cut_all();
    scene.disturb();
    eventually("watches are told", || if scene.proxy.faults() > 3 { Ok(()) } else { Err("not yet") });
    scene.mended();
    println!("versions gone: {} faults", scene.proxy.faults());
}

#[test]
fn the_api_server_is_killed() {
    let scene = Scene::new("api");
    let operator = scene.operator();
    scene.three(&operator);
    let server = Program::find("kube-apiserver");
    for round in 0..3 {
        for name in ["x", "y", "z"] {
            scene.space.apply("Web", &format!("{name}{round}"), &json!({}));
        }
        server.kill();
        eventually("the operator notices", || operator.ready().map_or(Ok(()), |_| Err("it says that it is ready")));
        server.start();
        wait_for_api_server();
        eventually_within(60, "it is ready", || operator.ready());
        for name in ["x", "y", "z"] {
            let name = format!("{name}{round}");
            eventually_within(60, &name, || is_deployed(&scene.space, &format!("web/{name}")));
            assert_eq!(is_settled(&scene.space, &name).unwrap(), 1);
        }
    }
    scene.disturb();
    scene.mended();
    println!("API server: 3 kills");
}

#[test]
fn etcd_is_compacted_while_nobody_watches() {
    let scene = Scene::new("compact");
    let operator = scene.operator();
    scene.three(&operator);
    let server = Program::find("kube-apiserver");
    scene.proxy.judge(|_| Some(Fault::CutBefore));
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
    wait_for_api_server();
    scene.proxy.judge(|_| None);
    scene.mended();
    println!("etcd compacted: 1 fault, {} requests cut", scene.proxy.faults());
}

/// A small generator of numbers: the seed tells all of them.
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

/// 300 custom resources created, changed, deleted and disturbed while requests fail, connections are cut, the operator
/// is killed and the API server too. CHAOS_SECONDS (20 without), CHAOS_SEED.
#[test]
fn everything_at_random() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = number("CHAOS_SECONDS").unwrap_or(20);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761);
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds}");
    let mut dice = Dice(seed | 1);
    let scene = Scene::new("chaos");
    let server = Program::find("kube-apiserver");
    let space = &scene.space;
    let mut operator = scene.operator();
    let mut wishes: BTreeMap<String, Option<Wish>> = BTreeMap::new();
    let (mut kills, mut cuts, mut restarts, mut changes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut faults = Dice(seed.rotate_left(17) | 1);
    scene.proxy.judge(move |request| {
        // One of 25 goes wrong. Watches are cut only by the other means, or none would ever last.
        if request.is_watch() || faults.roll(25) != 0 {
            return None;
        }
        let kinds = [
            Fault::Answer(409),
            Fault::Answer(429),
            Fault::Answer(500),
            Fault::Answer(503),
            Fault::CutBefore,
            Fault::CutAfter,
        ];
        kinds.get(usize::try_from(faults.roll(6)).unwrap()).copied()
    });
    let wish = |dice: &mut Dice| Wish { replicas: 1 + dice.roll(4), extra: dice.roll(2) == 0 };
    let apply = |wishes: &[(String, Wish)]| {
        let items: Vec<Value> = wishes
            .iter()
            .map(|(name, wish)| {
                json!({
            "apiVersion": "test.tillerman.dev/v1", "kind": "Web", "metadata": {"name": name, "namespace": space.name},
            "spec": {"replicas": wish.replicas, "extra": wish.extra}})
            })
            .collect();
        kubectl(&["apply", "-f", "-"], Some(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()))
    };
    let all: Vec<(String, Wish)> = (0..300).map(|n| (format!("c{n:03}"), wish(&mut dice))).collect();
    apply(&all).unwrap();
    wishes.extend(all.into_iter().map(|(name, wish)| (name, Some(wish))));
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(seconds) {
        let name = format!("c{:03}", dice.roll(300));
        match dice.roll(100) {
            0..40 => {
                let batch: Vec<_> = (0..5).map(|_| (format!("c{:03}", dice.roll(300)), wish(&mut dice))).collect();
                // A name that is still being deleted keeps its old specification's end: it is left out.
                let batch: Vec<_> = batch.into_iter().filter(|(name, _)| wishes[name].is_some()).collect();
                apply(&batch).unwrap();
                changes += batch.len() as u64;
                wishes.extend(batch.into_iter().map(|(name, wish)| (name, Some(wish))));
            }
            40..50 => {
                space.kubectl(&["delete", &format!("web/{name}"), "--wait=false", "--ignore-not-found"]).unwrap();
                wishes.insert(name, None);
                changes += 1;
            }
            50..75 => {
                // Gone already, perhaps: deleted, or not made yet.
                let _ =
                    space.kubectl(&["delete", &format!("service/{name}-web"), "--wait=false", "--ignore-not-found"]);
                changes += 1;
            }
            75..90 => {
                let patch = r#"{"data":{"greeting":"drift"}}"#;
                let _ = space.kubectl(&["patch", &format!("configmap/{name}-config"), "--type=merge", "-p", patch]);
                changes += 1;
            }
            90..95 => {
                scene.proxy.cut_all();
                cuts += 1;
            }
            95..99 => {
                operator.kill();
                operator = scene.operator();
                kills += 1;
            }
            _ => {
                server.kill();
                server.start();
                wait_for_api_server();
                restarts += 1;
            }
        }
    }
    let refused = scene.proxy.faults();
    scene.proxy.judge(|_| None);
    for (name, wish) in &wishes {
        eventually_within(300, &format!("{name} ends as {wish:?}"), || match wish {
            None => match space.get(&format!("web/{name}")) {
                Ok(_) => Err("it is there".to_owned()),
                Err(why) if !why.contains("NotFound") => Err(why),
                Err(_) => match objects(space, name)? {
                    left if left.is_empty() => Ok(()),
                    left => Err(format!("left behind: {left:?}")),
                },
            },
            Some(wish) => {
                is_deployed(space, &format!("web/{name}"))?;
                is_settled(space, name)?;
                let found = objects(space, name)?.len();
                if found != 3 + usize::from(wish.extra) {
                    return Err(format!("it has {found} objects"));
                }
                let deployment = space.get(&format!("deployment/{name}-web"))?;
                let replicas = deployment.pointer("/spec/replicas").and_then(Value::as_u64);
                let config = space.get(&format!("configmap/{name}-config"))?;
                let drifted = config.pointer("/data/greeting") == Some(&json!("drift"));
                if replicas == Some(wish.replicas) && !drifted {
                    Ok(())
                } else {
                    Err(format!("{replicas:?} {drifted}"))
                }
            }
        });
    }
    println!(
        "at random: {refused} requests refused or cut, {cuts} times all connections, {kills} kills of the operator, \
         {restarts} of the API server, {changes} changes and drifts; 300 custom resources ended right"
    );
}
