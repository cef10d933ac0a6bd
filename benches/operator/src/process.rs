//! The operator that is measured, as a process.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::api::Error;

/// Ticks in a second of the times in /proc, on every Linux (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The memory and time that a process has used.
#[derive(Clone, Copy)]
pub struct Usage {
    /// Seconds on a core.
    pub cpu: f64,
    /// Memory now and at its most, MiB.
    pub rss: f64,
    pub peak: f64,
}

/// A running operator; killed when dropped.
pub struct Operator(Child);

impl Operator {
    /// Starts it with helm-operator's flags, its defaults but for addresses, and waits until it answers.
    pub async fn start(program: &Path, watches: &Path, kubeconfig: &Path, log: &Path) -> Result<Self, Error> {
        let (metrics, probes) = (free_port()?, free_port()?);
        let log = fs::File::options().create(true).append(true).open(log)?;
        // A session of its own is a scheduling group of its own.
        let child = Command::new("setsid")
            .arg(program)
            .arg("run")
            .arg(format!("--watches-file={}", watches.display()))
            .arg("--reconcile-period=1m")
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"))
            .env("KUBECONFIG", kubeconfig)
            .env_remove("WATCH_NAMESPACE")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut operator = Self(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !answers(probes) {
            if let Some(status) = operator.0.try_wait()? {
                return Err(format!("the operator ended: {status}").into());
            }
            if Instant::now() > deadline {
                return Err("the operator does not answer".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        raise(operator.0.id());
        Ok(operator)
    }

    /// Kills it on the spot.
    pub fn kill(mut self) -> Result<(), Error> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    pub fn usage(&self) -> Result<Usage, Error> {
        let folder = format!("/proc/{}", self.0.id());
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or_default();
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let mebibytes = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or_default() / 1024.0
        };
        Ok(Usage { cpu: (ticks(11) + ticks(12)) / TICKS, rss: mebibytes("VmRSS:"), peak: mebibytes("VmHWM:") })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives the scheduling group of a process a larger share, so that other work on the machine counts less; whether it could.
/// `nice` does not do that: it weighs processes within a group only (`man 7 sched`, autogroups).
pub fn raise(pid: u32) -> bool {
    fs::write(format!("/proc/{pid}/autogroup"), "-10").is_ok()
}

fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
}
