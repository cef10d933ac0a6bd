//! The process of the database. One task owns it, so that no signal reaches another process of the same number.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use super::flavor::Flavor;
use super::sql::Login;

/// The longest line of the database's log that is passed on, in bytes.
const LINE: u64 = 8 << 10;
/// The database's message if it cannot take writes at the end of its log back.
const REFUSES: &str = "Cannot truncate";

/// A database that was started.
#[derive(Debug)]
pub struct Process {
    /// How the agent logs in.
    pub login: Login,
    /// Whether it was started as a replica, so that unacknowledged writes are taken back.
    pub takes_back: bool,
    /// The number of the process.
    pub number: Option<u32>,
    signals: mpsc::Sender<Signal>,
    ended: watch::Receiver<Option<ExitStatus>>,
    refuses: Arc<AtomicBool>,
}

impl Process {
    /// Starts it.
    pub fn start(program: &Path, arguments: &[String], login: Login, takes_back: bool) -> io::Result<Self> {
        if login.flavor() == Flavor::Mysql {
            // A killed database leaves it with its number. Another process of this container may have that number now, and keep it from
            // starting.
            let mut lock = login.socket().as_os_str().to_owned();
            lock.push(".lock");
            let _ = std::fs::remove_file(lock);
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be started: {error}", program.display()))
        })?;
        let number = child.id();
        let refuses = Arc::new(AtomicBool::new(false));
        if let Some(log) = child.stderr.take() {
            tokio::spawn(pass_on(log, Arc::clone(&refuses)));
        }
        let (signals, requests) = mpsc::channel(4);
        let (end, ended) = watch::channel(None);
        tokio::spawn(own(child, requests, end));
        Ok(Self { login, takes_back, number, signals, ended, refuses })
    }

    /// Ends it at once.
    pub async fn kill(&self) {
        let _ = self.signals.send(Signal::KILL).await;
    }

    /// Asks it to end.
    pub async fn terminate(&self) {
        let _ = self.signals.send(Signal::TERM).await;
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Whether it has ended as it was asked to, with everything written.
    pub fn has_ended_in_order(&self) -> bool {
        self.ended.borrow().is_some_and(|status| status.success())
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Whether it said that it cannot take writes back.
    pub fn refuses_to_take_back(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }
}

async fn own(mut child: Child, mut requests: mpsc::Receiver<Signal>, end: watch::Sender<Option<ExitStatus>>) {
    loop {
        tokio::select! {
            status = child.wait() => {
                match &status {
                    Ok(status) => tracing::info!(%status, "the database has ended"),
                    Err(error) => tracing::error!(%error, "the database cannot be waited for"),
                }
                // A process that cannot be waited for counts as killed.
                let _ = end.send(Some(status.unwrap_or(ExitStatus::from_raw(Signal::KILL.as_raw()))));
                return;
            }
            Some(signal) = requests.recv() => {
                // It has not been waited for, so the number is still its own.
                let process = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                if let Some(process) = process
                    && let Err(error) = kill_process(process, signal)
                {
                    tracing::warn!(%error, "the database gets no signal");
                }
            }
        }
    }
}

/// Passes the log of the database on. A line that is too long is cut.
async fn pass_on(log: impl AsyncRead + Unpin, refuses: Arc<AtomicBool>) {
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut log).take(LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                if text.contains(REFUSES) {
                    refuses.store(true, Ordering::Relaxed);
                }
                eprintln!("{}", text.trim_end());
            }
        }
    }
}
