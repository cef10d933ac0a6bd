//! The program under test, and a folder for each test.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Words that no output may have.
const SECRETS: [&str; 3] = ["the-secret-key", "the-password", "another-secret"];

static TESTS: AtomicU32 = AtomicU32::new(0);

/// A folder, and addresses that nobody else has.
pub struct Test {
    pub folder: PathBuf,
    net: String,
}

impl Test {
    pub fn new() -> Self {
        let mut seed = std::process::id() * 64 + TESTS.fetch_add(1, Ordering::Relaxed);
        let net = loop {
            let net = format!("127.{}.{}", 16 + seed / 250 % 200, 1 + seed % 250);
            // Only one process has the address.
            if TcpListener::bind(format!("{net}.1:2379")).is_ok() {
                break net;
            }
            seed += 1;
        };
        let folder = std::env::temp_dir().join(format!("tillerman-backup-{net}"));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        Self { folder, net }
    }

    pub fn address(&self, last: u32) -> String {
        format!("{}.{last}", self.net)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// `tillerman snapshot`, without variables of our environment that concern stores and members.
pub fn snapshot(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tillerman"));
    command.arg("snapshot").args(arguments);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["AWS_", "ETCD", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    command.env("HOME", "/nowhere").stdin(Stdio::null());
    command
}

/// How a command ended.
#[derive(Debug)]
pub struct ProgramEnd {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

pub fn end(command: &mut Command) -> ProgramEnd {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = ProgramEnd { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) };
    for secret in SECRETS {
        assert!(!ended.out.contains(secret) && !ended.err.contains(secret), "a secret is shown: {ended:?}");
    }
    ended
}

/// What a command that succeeds prints.
pub fn ok(command: &mut Command) -> String {
    let ended = end(command);
    assert!(ended.ok, "{command:?}: {ended:?}");
    ended.out
}

pub fn json(command: &mut Command) -> Value {
    serde_json::from_str(&ok(command.args(["-o", "json"]))).expect("it prints JSON")
}

/// What a command that fails says.
pub fn fails(command: &mut Command) -> String {
    let ended = end(command);
    assert!(!ended.ok, "{command:?}: {ended:?}");
    ended.err
}

/// A process that ends with the test.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("kill is there").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program that `tests/cluster/build-tools.sh` made.
pub fn tool(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).unwrap_or_default();
    let tools = std::env::var_os("TOOLS").map_or_else(|| cache.join("tillerman/tools"), PathBuf::from);
    let tool = tools.join(name);
    assert!(tool.exists(), "{} is missing: tests/cluster/build-tools.sh members backup", tool.display());
    tool
}

/// All files below a folder, without those of unfinished restores.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
