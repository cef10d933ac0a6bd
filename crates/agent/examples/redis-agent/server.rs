//! The process of Redis, and questions to it by the local socket.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// The agent's own account.
pub const AGENT: &str = "tillerman";
/// The largest text of an answer, in bytes.
const LIMIT: usize = 8 << 20;

/// A process of Redis.
pub struct Server {
    socket: PathBuf,
    password: String,
    kill: Notify,
    ended: watch::Sender<bool>,
}

/// A connection.
pub struct Connection(pub BufReader<UnixStream>);

impl Server {
    /// Starts Redis with these settings, which it reads from its input: they contain passwords.
    pub async fn start(program: &Path, settings: &str, socket: &Path, password: &str) -> io::Result<Arc<Self>> {
        let mut command = Command::new(program);
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().ok_or(ErrorKind::BrokenPipe)?;
        input.write_all(settings.as_bytes()).await?;
        drop(input);
        let server = Arc::new(Self {
            socket: socket.to_owned(),
            password: password.to_owned(),
            kill: Notify::new(),
            ended: watch::Sender::new(false),
        });
        let own = Arc::clone(&server);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = child.wait() => break,
                    () = own.kill.notified() => drop(child.start_kill()),
                }
            }
            own.ended.send_replace(true);
        });
        Ok(server)
    }

    /// Kills it.
    pub fn kill(&self) {
        self.kill.notify_one();
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        // The sender lives as long as this value.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// A new connection of the agent's account.
    pub async fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection(BufReader::new(UnixStream::connect(&self.socket).await?));
        connection.ask(&["AUTH", AGENT, &self.password]).await?;
        Ok(connection)
    }

    /// Asks one question.
    pub async fn ask(&self, words: &[&str], within: Duration) -> io::Result<String> {
        let asks = async { self.connect().await?.ask(words).await };
        timeout(within, asks).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))?
    }

    /// The fields of `INFO`.
    pub async fn info(&self, within: Duration) -> io::Result<Info> {
        let text = self.ask(&["INFO", "server", "replication", "persistence"], within).await?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Info(fields.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()))
    }
}

impl Connection {
    /// Sends a command.
    pub async fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let count = words.len();
        let words: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        self.0.write_all(format!("*{count}\r\n{}", words.concat()).as_bytes()).await
    }

    /// Sends a command, and reads its answer: a line, a number, a text, or a list of these,
    /// one a line. The error of an answer is its first word: the rest may have
    /// values.
    pub async fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        self.send(words).await?;
        let line = line(&mut self.0).await?;
        let Some(count) = line.strip_prefix('*') else { return self.rest(&line).await };
        let mut texts = Vec::new();
        for _ in 0..count.parse::<u16>().map_err(io::Error::other)? {
            let line = self::line(&mut self.0).await?;
            texts.push(self.rest(&line).await?);
        }
        Ok(texts.join("\n"))
    }

    /// The rest of an answer that is not a list.
    async fn rest(&mut self, line: &str) -> io::Result<String> {
        let (kind, rest) = line.split_at_checked(1).ok_or(ErrorKind::UnexpectedEof)?;
        match kind {
            "+" | ":" => Ok(rest.to_owned()),
            "$" if rest == "-1" => Err(ErrorKind::NotFound.into()),
            "$" => {
                let length = rest.parse().ok().filter(|length| *length <= LIMIT).ok_or(ErrorKind::InvalidData)?;
                let mut text = vec![0; length + 2];
                self.0.read_exact(&mut text).await?;
                text.truncate(length);
                String::from_utf8(text).map_err(io::Error::other)
            }
            "-" => Err(io::Error::other(rest.split(' ').next().unwrap_or_default().to_owned())),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// A line without its end.
pub async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(1 << 10).read_until(b'\n', &mut line).await?;
    let line = line.strip_suffix(b"\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    String::from_utf8(line.to_vec()).map_err(io::Error::other)
}

/// Fields of `INFO`.
#[derive(Clone, Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// A field; empty if there is none.
    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A number.
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap_or_default()
    }

    /// Whether it has a primary, or had one, or nobody.
    pub fn follows(&self) -> bool {
        self.get("role") == "slave"
    }

    /// Whether it is connected to its primary and has its data.
    pub fn is_linked(&self) -> bool {
        self.follows() && self.get("master_link_status") == "up"
    }

    /// Whether its append-only file has all of its data.
    pub fn is_durable(&self) -> bool {
        let none = |key| self.get(key) == "0";
        self.get("aof_enabled") == "1"
            && none("aof_rewrite_in_progress")
            && none("aof_rewrite_scheduled")
            && self.get("aof_last_bgrewrite_status") == "ok"
    }

    /// Whether it is replacing its data.
    pub fn is_changing(&self) -> bool {
        self.get("loading") != "0" || self.get("master_sync_in_progress") == "1"
    }

    /// Members that have acknowledged something a short while ago. The others acknowledge 0 (`relay.rs`).
    pub fn acknowledging(&self) -> Vec<String> {
        let replicas = (0..self.number("connected_slaves")).map(|n| self.get(&format!("slave{n}")));
        let acknowledges = |replica: &&str| {
            let number = |key: &str| field(replica, key).parse::<u64>().ok();
            field(replica, "state") == "online"
                && number("offset") > Some(0)
                && number("lag").is_some_and(|lag| lag <= 2)
        };
        replicas.filter(acknowledges).map(|replica| field(replica, "ip").to_owned()).collect()
    }
}

/// A field of `ip=db-1,port=6379,state=online,…`.
fn field<'a>(replica: &'a str, key: &str) -> &'a str {
    let fields = replica.split(',').filter_map(|field| field.split_once('='));
    fields.filter(|(name, _)| *name == key).map(|(_, value)| value).next().unwrap_or_default()
}
