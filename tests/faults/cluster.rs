//! Faults of the cluster's programs, and all faults at random. They hit every test that runs at the same time, so these
//! tests run alone.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{cluster_dir, eventually_within};

/// The API server and the controllers of this control plane.
pub struct ControlPlane {
    server: Program,
    controllers: Program,
}

impl ControlPlane {
    /// The running one.
    pub fn find() -> Self {
        Self { server: Program::find("kube-apiserver"), controllers: Program::find("kube-controller-manager") }
    }

    /// Kills the API server on the spot.
    pub fn kill(&self) {
        self.server.kill();
        // Its threads end one after the other; the last one gives the port back.
        let port: u16 = self.flag("secure-port").parse().unwrap();
        eventually_within(20, "its port is free", || std::net::TcpListener::bind(("127.0.0.1", port)));
    }

    /// Starts it again and waits until it answers. The controllers restart: they, too, ask ever less often while it is away, and
    /// would let wait for them for half a minute.
    pub fn start(&self) {
        self.server.start();
        eventually_within(120, "the API server answers", || crate::harness::kubectl(&["get", "--raw=/readyz"], None));
        self.controllers.kill();
        self.controllers.start();
    }

    /// The value of one of the API server's flags.
    pub fn flag(&self, name: &str) -> &str {
        let prefix = format!("--{name}=");
        self.server.argv.iter().find_map(|a| a.strip_prefix(&prefix)).unwrap()
    }
}

/// One of its programs.
struct Program {
    name: &'static str,
    argv: Vec<String>,
}

impl Program {
    fn find(name: &'static str) -> Self {
        let pid = std::fs::read_to_string(Self::file(name, "pid")).unwrap();
        let argv = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap();
        let argv = argv.split(|&b| b == 0).filter(|a| !a.is_empty());
        Self { name, argv: argv.map(|a| String::from_utf8_lossy(a).into_owned()).collect() }
    }

    fn file(name: &str, ending: &str) -> PathBuf {
        cluster_dir().join(format!("{name}.{ending}"))
    }

    fn kill(&self) {
        let pid = std::fs::read_to_string(Self::file(self.name, "pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    }

    /// Starts it as it was, in a session of its own as `up.sh` does, so that `down.sh` finds it.
    fn start(&self) {
        let log = std::fs::File::options().append(true).open(Self::file(self.name, "log")).unwrap();
        let child = Command::new("setsid")
            .arg("--fork")
            .args(["sh", "-c", "echo $$ >\"$0\"; exec \"$@\""])
            .arg(Self::file(self.name, "pid"))
            .args(&self.argv)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status();
        assert!(child.unwrap().success());
    }
}
