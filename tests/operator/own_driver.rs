//! `examples/custom-driver`: a program that brings a driver of its own, with real processes of Redis for the pods.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Operator, Space, eventually, eventually_within};
use crate::node::{Node, net};

const PATIENCE: u64 = 240;

struct Redis {
    space: Space,
    net: String,
    _node: Node,
}

impl Redis {
    fn new(test: &str) -> Self {
        let space = Space::new(test);
        Self { net: net(&space, "a"), _node: Node::new(&space), space }
    }

    fn operator(&self, program: &Path) -> Operator {
        let watches = self.space.watches(&[("Web", "../../examples/custom-driver/chart")]);
        self.space.program_with(&program.display().to_string(), &watches, &self.space.kubeconfig(None), &[])
    }

    fn resize(&self, size: u32) {
        let command =
            "redis-server --bind ADDRESS --replica-announce-ip ADDRESS --port 2379 --dir DATA --appendonly yes";
        let annotations = json!({"test/net": self.net, "test/command": command});
        let address = format!("{}.1$(ORDINAL):2379", self.net);
        self.space.apply(
            "Web",
            "a",
            &json!({"size": size, "address": address, "podAnnotations": annotations, "storage": "1Mi"}),
        );
    }

    fn wait(&self, size: u32) {
        eventually_within(PATIENCE, &format!("there are {size} members"), || {
            let ready = self.space.condition("web/a", "Ready")?;
            let members = self.space.get("web/a")?["status"]["members"]["redis"].clone();
            let claims = self.space.list("pvc")?.len();
            let replicas = self.space.get("statefulset/a")?["spec"]["replicas"].clone();
            let done = ready["status"] == "True" && members["size"] == size && replicas == size;
            if done && claims == size as usize {
                Ok(())
            } else {
                Err(format!("{replicas}, {claims} claims, {members}, {ready}"))
            }
        });
    }

    /// The first line that an ordinal answers.
    fn ask(&self, ordinal: u32, command: &str) -> Result<String, String> {
        let asking = || {
            let stream = TcpStream::connect((format!("{}.1{ordinal}", self.net), 2379))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            (&stream).write_all(format!("{command}\r\n").as_bytes())?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok::<_, std::io::Error>(line.trim_end().to_owned())
        };
        asking().map_err(|e| e.to_string())
    }

    /// Writes a key to whoever takes it.
    fn write(&self, key: &str) {
        eventually(&format!("{key} is written"), || {
            let answers: Vec<_> = (0..3).map(|ordinal| self.ask(ordinal, &format!("SET {key} x"))).collect();
            if answers.contains(&Ok("+OK".to_owned())) { Ok(()) } else { Err(format!("{answers:?}")) }
        });
    }

    fn has(&self, ordinal: u32, keys: &BTreeSet<String>) {
        for key in keys {
            assert_eq!(self.ask(ordinal, &format!("EXISTS {key}")), Ok(":1".to_owned()), "{key} on {ordinal}");
        }
    }
}

/// Users with a database of their own implement the trait. It grows, its primary is another, it shrinks with the primary
/// among those that go; every key that was acknowledged is there.
#[test]
fn redis_grows_and_shrinks_by_a_driver_that_is_not_ours() {
    let redis = Redis::new("owndriver");
    let program = Path::new(env!("CARGO_BIN_EXE_tillerman")).parent().unwrap().join("examples/custom-driver");
    let operator = redis.operator(&program);
    let mut keys = BTreeSet::new();
    let mut write = |name: &str| {
        for number in 0..50 {
            let key = format!("{name}-{number}");
            redis.write(&key);
            keys.insert(key);
        }
        keys.clone()
    };
    redis.resize(1);
    redis.wait(1);
    write("alone");
    redis.resize(3);
    redis.wait(3);
    write("grown");
    // Somebody lets another be the primary, which the driver sees and keeps.
    assert_eq!(redis.ask(0, &format!("FAILOVER TO {}.12 2379 TIMEOUT 10000", redis.net)), Ok("+OK".to_owned()));
    eventually("the third pod is the primary", || match redis.ask(2, "SET moved x")?.as_str() {
        "+OK" => Ok(()),
        answer => Err(answer.to_owned()),
    });
    redis.space.kubectl(&["annotate", "webs.test.tillerman.dev", "a", "tillerman.dev/reconcile-at=now"]).unwrap();
    redis.space.wait_field("web/a", "/status/members/redis/latch/cluster", &json!("2"));
    redis.wait(3);
    let all = write("moved");
    redis.has(2, &all);
    redis.resize(1);
    redis.wait(1);
    redis.has(0, &all);
    assert_eq!(redis.ask(0, "SET last x"), Ok("+OK".to_owned()), "it is the primary");
    operator.settle();
    assert!(operator.stop());
}

/// A driver that the program lacks is reported, with those that it has. A program that has it continues from there.
#[test]
fn a_driver_that_this_program_lacks_is_reported() {
    let redis = Redis::new("nodriver");
    let _operator = redis.operator(Path::new(env!("CARGO_BIN_EXE_tillerman")));
    redis.resize(1);
    let message = eventually_within(PATIENCE, "it is told", || {
        let ready = redis.space.condition("web/a", "Ready")?;
        if ready["reason"] == "InvalidMembers" { Ok(ready["message"].clone()) } else { Err(ready.to_string()) }
    });
    let text = message.as_str().unwrap_or_default();
    assert!(text.contains("this program has no driver example.com/redis; it has etcd, jobs"), "{text}");
    assert_eq!(redis.space.get("statefulset/a").unwrap()["spec"]["replicas"], Value::from(0));
}
