//! Faults of the cluster's programs, and all faults at random. They hit every test that runs at the same time, so these
//! tests run alone.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{cluster_dir, eventually_within};

/// A server of this control plane.
pub struct Program {
    name: &'static str,
    argv: Vec<String>,
}

impl Program {
    /// A running one.
    pub fn find(name: &'static str) -> Self {
        let pid = std::fs::read_to_string(Self::file(name, "pid")).unwrap();
        let argv = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap();
        let argv = argv.split(|&b| b == 0).filter(|a| !a.is_empty());
        Self { name, argv: argv.map(|a| String::from_utf8_lossy(a).into_owned()).collect() }
    }

    fn file(name: &str, ending: &str) -> PathBuf {
        cluster_dir().join(format!("{name}.{ending}"))
    }

    /// Kills it on the spot.
    pub fn kill(&self) {
        let pid = std::fs::read_to_string(Self::file(self.name, "pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
        // Its threads end one after the other; the last one gives the port back.
        let port: u16 = self.flag("secure-port").parse().unwrap();
        eventually_within(20, "its port is free", || std::net::TcpListener::bind(("127.0.0.1", port)));
    }

    /// Starts it as it was, in a session of its own as `up.sh` does, so that `down.sh` finds it.
    pub fn start(&self) {
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

    /// The value of one of its flags.
    pub fn flag(&self, name: &str) -> &str {
        let prefix = format!("--{name}=");
        self.argv.iter().find_map(|a| a.strip_prefix(&prefix)).unwrap()
    }
}

/// Waits until the API server answers again.
pub fn wait_for_api_server() {
    eventually_within(120, "the API server answers", || crate::harness::kubectl(&["get", "--raw=/readyz"], None));
}
