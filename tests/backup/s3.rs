//! An S3-compatible server: versitygw, which keeps objects as files.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::{Process, Test, snapshot, tool, until};

pub const BUCKET: &str = "backups";
pub const KEY: &str = "the-key";
const SECRET: &str = "the-secret-key";

/// A server with one bucket.
pub struct Gateway {
    pub address: String,
    /// Where the objects of the bucket are.
    pub bucket: PathBuf,
    _process: Process,
}

impl Gateway {
    pub fn start(test: &Test) -> Self {
        let folder = test.path("gateway");
        let bucket = folder.join(BUCKET);
        fs::create_dir_all(&bucket).expect("the folder can be written");
        let address = format!("{}:7070", test.address(2));
        let log = fs::File::create(test.path("gateway.log")).expect("the folder can be written");
        let process = Command::new(tool("versitygw"))
            .args(["--port", &address, "posix"])
            .arg(&folder)
            .envs([("ROOT_ACCESS_KEY", KEY), ("ROOT_SECRET_KEY", SECRET), ("GOMAXPROCS", "2")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let gateway = Self { address, bucket, _process: Process(process.expect("versitygw starts")) };
        until("the server listens", || TcpStream::connect(&gateway.address).is_ok());
        gateway
    }

    /// A command that finds its keys in the environment.
    pub fn snapshot(&self, arguments: &[&str]) -> Command {
        Self::at(&self.address, arguments)
    }

    /// The same with a server between.
    pub fn at(address: &str, arguments: &[&str]) -> Command {
        let mut command = snapshot(arguments);
        command.args(["--store", &format!("s3://{BUCKET}/folder"), "--s3-endpoint", &format!("http://{address}")]);
        command.envs([("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)]);
        command
    }

    /// Files of AWS's command line with the keys.
    pub fn credentials(test: &Test, secret: &str) -> PathBuf {
        let path = test.path(if secret == SECRET { "right" } else { "wrong" });
        let content = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n");
        fs::write(&path, content).expect("the folder can be written");
        path
    }

    pub fn objects(&self) -> PathBuf {
        self.bucket.join("folder")
    }
}

pub const RIGHT: &str = SECRET;
