//! The API server goes away and comes back.

use crate::harness::{Space, cluster_dir, eventually, free_port};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A door to the API server that can be shut.
pub struct Door {
    pub port: u16,
    open: Arc<AtomicBool>,
    through: Arc<Mutex<Vec<TcpStream>>>,
}

impl Door {
    pub fn new() -> Self {
        let config = std::fs::read_to_string(cluster_dir().join("admin.kubeconfig")).unwrap();
        let config: serde_json::Value = serde_saphyr::from_str(&config).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let server = server.strip_prefix("https://").unwrap().to_owned();
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (open, through) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
        let door = Self { port, open: Arc::clone(&open), through: Arc::clone(&through) };
        std::thread::spawn(move || {
            for inside in listener.incoming() {
                let Ok(inside) = inside else { continue };
                if !open.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(outside) = TcpStream::connect(&server) else { continue };
                let mut held = through.lock().unwrap();
                held.push(inside.try_clone().unwrap());
                held.push(outside.try_clone().unwrap());
                copy(inside.try_clone().unwrap(), outside.try_clone().unwrap());
                copy(outside, inside);
            }
        });
        door
    }

    pub fn shut(&self) {
        self.open.store(false, Ordering::Relaxed);
        for stream in self.through.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn unlock(&self) {
        self.open.store(true, Ordering::Relaxed);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16384];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[test]
fn the_operator_says_that_it_is_not_ready_and_resumes_by_itself() {
    let space = Space::new("outage");
    let door = Door::new();
    let kubeconfig = space.kubeconfig(Some(&format!("https://127.0.0.1:{}", door.port)));
    let mut operator = space.operator_with(&space.watches(&[("Web", "web")]), &kubeconfig, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let status = space.get("web/app").unwrap()["status"].clone();
    door.shut();
    space.apply("Web", "late", &json!({}));
    space.kubectl(&["delete", "deployment/app-web"]).unwrap();
    eventually("it says so", || operator.ready().map_or(Ok(()), |_| Err("it is ready")));
    assert!(operator.runs());
    door.unlock();
    space.wait("web/late", "Deployed", "True");
    eventually("it comes back", || space.get("deployment/app-web"));
    eventually("it is ready again", || operator.ready());
    assert_eq!(space.get("web/app").unwrap()["status"]["conditions"][1], status["conditions"][1]);
    assert_eq!(space.helm(&["history", "app"]).unwrap().lines().count(), 2);
}

#[test]
fn of_two_instances_one_works_and_the_other_takes_over() {
    let space = Space::new("lease");
    let watches = space.watches(&[("Web", "web")]);
    let flags = ["--leader-elect", "--leader-election-id=test", &format!("--leader-election-namespace={}", space.name)];
    let first = space.operator(&watches, &flags);
    eventually("it leads", || if first.log().contains("this instance leads") { Ok(()) } else { Err(first.log()) });
    let second = space.operator(&watches, &flags);
    eventually("it waits", || if second.log().contains("another instance leads") { Ok(()) } else { Err(second.log()) });
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    assert!(first.stop());
    eventually(
        "it takes over",
        || if second.log().contains("this instance leads") { Ok(()) } else { Err(second.log()) },
    );
    space.apply("Web", "app", &json!({"replicas": 4}));
    space.wait_field("deployment/app-web", "/spec/replicas", &json!(4));
}
